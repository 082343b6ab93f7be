/*
 * survey.c: measures a GPU and makes its description.
 *
 *   tie order    blocks that fill an SM are launched one at a time: each goes to the first SM in tie order that is free
 *   GPCs         the blocks of a cluster are in one GPC, so SMs seen in one cluster are in one GPC
 *   grants       the order in which blocks are numbered (grants.c)
 *   mechanisms   random runs are recorded, and all settings of the mechanisms are tried on them (fit.c); a run on which
 *                the remaining settings differ is recorded too, as long as one is found
 *
 * One launch with a block for every SM would not show the tie order: on Hopper its blocks are numbered GPC by GPC, and
 * only the set of SMs follows the order. And a launch for every SM would be too many: a GPU runs at most 128 kernels at
 * a time. So the order is measured in portions: one launch takes the SMs of the earlier portions, and the launches
 * after it, of one block each, take the next SMs.
 *
 * The mechanisms in the device's own description are ignored: a model that poses as a GPU is measured like one. But
 * limits are not measured; they are taken from the description.
 */
#include "grants.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>

enum {
    PORTION = 28,        /* launches of one block; fewer than a GPU has hardware queues */
    ORDER_PLAYS = 3,     /* how often the whole tie order is measured */
    CLUSTER_PLAYS = 16,  /* for each size of clusters */
    SMALL_STEPS = 8,     /* of these, with few other blocks */
    MOST_REFINED = 40,   /* recordings with wrong numbers: with more of them, the cause is something else */
    MOST_DECIDERS = 8,   /* runs recorded because settings differ on them */
    MOST_MISFITS = 10000 /* random runs in a row with a kernel that never fits */
};

struct session {
    gs_device *device;
    const gs_survey_options *options;
    gs_survey *survey;
    gs_gpu *gpu; /* the description so far */
    gs_shape filler;
    int16_t *cluster_groups; /* by SM: the lowest SM seen in one cluster with it; NULL: no clusters */
    gs_run **data;           /* recordings */
    size_t count, capacity;
};

static void report_step(const struct session *session, const char *step, int64_t done, int64_t total) {
    if (session->options->progress)
        session->options->progress(session->options->user, step, done, total);
}

/* ---- runs of blocks that fill an SM ---- */

/* A shape of which an SM takes only one block, because of its registers or its shared memory. */
static gs_code find_filler(const gs_gpu *gpu, gs_shape *filler, gs_error *error) {
    const gs_limits *limits = &gpu->limits;
    gs_occupancy occupancy;
    int32_t registers;
    bool found = false;
    for (size_t i = 0; (registers = gs_generated_registers(i)); i++) {
        gs_shape shape = gs_shape_of(limits->threads_per_block, registers, 0);
        gs_occupancy_of(gpu, &shape, &occupancy, NULL);
        if (occupancy.blocks == 1) {
            *filler = shape;
            found = true;
        }
    }
    if (found)
        return GS_OK;
    *filler = gs_shape_of(limits->warp_threads, gs_generated_registers(0), limits->shared_per_block_bytes);
    gs_occupancy_of(gpu, filler, &occupancy, NULL);
    return occupancy.blocks == 1 ? GS_OK
                                 : gs_fail(error, GS_E_UNSUPPORTED, "no kernel of the probe fills an SM of this GPU");
}

static gs_code add_fillers(const struct session *session, gs_run *script, int64_t blocks, int32_t cluster,
                           gs_error *error) {
    gs_code code = gs_run_add_numbered(script, &session->filler, blocks, error);
    if (code == GS_OK)
        script->launches.data[script->launches.count - 1].cluster = cluster;
    return code;
}

/* Plays a launch that takes `before` SMs, and after it `count` launches of `blocks` blocks. */
static gs_run *play_fillers(const struct session *session, int64_t before, int32_t count, int64_t blocks,
                            int32_t cluster, gs_error *error) {
    static const gs_play_options patient = {.patient = true};
    gs_run *script = gs_run_new(error), *seen = NULL;
    gs_code code = script ? GS_OK : GS_E_MEMORY;
    if (code == GS_OK && before)
        code = add_fillers(session, script, before, 1, error);
    for (int32_t i = 0; i < count && code == GS_OK; i++)
        code = add_fillers(session, script, blocks, cluster, error);
    if (code == GS_OK)
        seen = gs_device_play(session->device, script, &patient, error);
    gs_run_free(script);
    return seen;
}

static bool is_sm(const gs_gpu *gpu, int32_t sm) {
    return sm >= 0 && sm < gpu->sms;
}

/* ---- the tie order ---- */

/* One measurement: the SMs, first choice first. SMs that did not get their own block come last. */
struct order {
    int16_t *sms;
    int32_t count, unseen;
};

static gs_code measure_portion(const struct session *session, struct order *order, bool *is_known, int32_t from,
                               gs_error *error) {
    int32_t count = (int32_t)gs_min(PORTION, session->gpu->sms - from);
    gs_run *run = play_fillers(session, from, count, 1, 1, error);
    if (!run)
        return error->code;
    for (size_t i = from ? 1 : 0; i < run->launches.count; i++) {
        int32_t sm = gs_seen_sm(gs_launch_seen(run, i), 0);
        if (!is_sm(session->gpu, sm) || is_known[sm])
            continue;
        is_known[sm] = true;
        order->sms[order->count++] = (int16_t)sm;
    }
    gs_run_free(run);
    return GS_OK;
}

static gs_code measure_order(const struct session *session, struct order *order, gs_error *error) {
    int32_t sms = session->gpu->sms;
    bool *is_known = calloc((size_t)sms, sizeof *is_known);
    order->sms = calloc((size_t)sms, sizeof *order->sms);
    gs_code code = is_known && order->sms ? GS_OK : gs_fail_memory(error);
    for (int32_t from = 0; from < sms && code == GS_OK; from += PORTION)
        code = measure_portion(session, order, is_known, from, error);
    order->unseen = sms - order->count;
    for (int32_t sm = 0; sm < sms && code == GS_OK; sm++)
        if (!is_known[sm])
            order->sms[order->count++] = (int16_t)sm;
    free(is_known);
    return code;
}

static bool is_same_order(const int16_t *one, const int16_t *two, int32_t sms) {
    return memcmp(one, two, (size_t)sms * sizeof *one) == 0;
}

/* Puts an order into the description: as a named one if possible, otherwise as a list. */
static gs_code set_order(gs_gpu *gpu, const int16_t *order, gs_error *error) {
    int16_t *list = calloc((size_t)gpu->sms, sizeof *list);
    if (!list)
        return gs_fail_memory(error);
    free(gpu->listed_order);
    gpu->listed_order = NULL;
    for (int kind = GS_TIES_EVEN_ODD; kind < GS_TIES_LISTED; kind++) {
        gpu->mechanisms.tie_order = kind;
        gs_gpu_tie_order(gpu, list);
        if (is_same_order(list, order, gpu->sms)) {
            free(list);
            return GS_OK;
        }
    }
    gpu->mechanisms.tie_order = GS_TIES_LISTED;
    gpu->listed_order = list;
    memcpy(list, order, (size_t)gpu->sms * sizeof *list);
    return GS_OK;
}

/* Keeps the most frequent measurement; of several, the first. */
static gs_code vote_for_order(const struct session *session, const struct order *orders, gs_error *error) {
    gs_survey *survey = session->survey;
    size_t kept = 0;
    for (size_t i = 0; i < ORDER_PLAYS; i++) {
        int32_t votes = 0;
        for (size_t k = 0; k < ORDER_PLAYS; k++)
            votes += is_same_order(orders[i].sms, orders[k].sms, session->gpu->sms);
        if (votes > survey->order_alike) {
            survey->order_alike = votes;
            kept = i;
        }
    }
    survey->order_plays = ORDER_PLAYS;
    survey->unseen_sms = orders[kept].unseen;
    return set_order(session->gpu, orders[kept].sms, error);
}

static gs_code survey_order(struct session *session, gs_error *error) {
    struct order orders[ORDER_PLAYS] = {0};
    gs_code code = find_filler(session->gpu, &session->filler, error);
    for (int i = 0; i < ORDER_PLAYS && code == GS_OK; i++) {
        report_step(session, "tie order", i, ORDER_PLAYS);
        code = measure_order(session, &orders[i], error);
    }
    if (code == GS_OK)
        code = vote_for_order(session, orders, error);
    session->survey->tie_order = session->gpu->mechanisms.tie_order;
    for (int i = 0; i < ORDER_PLAYS; i++)
        free(orders[i].sms);
    return code;
}

/* ---- TPCs and GPCs ---- */

/* Groups of SMs: each SM points to a lower one of its group, the lowest to itself. */
static int16_t lowest_of(const int16_t *groups, int32_t sm) {
    while (groups[sm] != sm)
        sm = groups[sm];
    return (int16_t)sm;
}

static void join_groups(int16_t *groups, int32_t one, int32_t two) {
    int16_t low = lowest_of(groups, one), other = lowest_of(groups, two);
    if (low < other)
        groups[other] = low;
    else
        groups[low] = other;
}

static void count_pair(gs_survey *survey, int32_t one, int32_t two) {
    survey->pairs++;
    survey->neighbors += one / 2 == two / 2;
}

static void join_clusters(const struct session *session, const gs_run *run, int16_t *groups) {
    size_t last = run->launches.count - 1;
    const gs_launch *launch = &run->launches.data[last];
    const gs_seen *seen = gs_launch_seen(run, last);
    for (int64_t block = 0; block < launch->blocks; block++) {
        int64_t first = block - block % launch->cluster;
        int32_t sm = gs_seen_sm(seen, block), with = gs_seen_sm(seen, first);
        if (block == first || !is_sm(session->gpu, sm) || !is_sm(session->gpu, with))
            continue;
        join_groups(groups, sm, with);
        if (launch->cluster == 2)
            count_pair(session->survey, sm, with);
    }
}

/* Plays clusters of a size on an idle GPU, then with one SM taken, two, three and so on, and with random numbers of SMs
   taken. So SMs without a cluster in one play are part of one in another. */
static gs_code play_clusters(const struct session *session, int32_t size, int16_t *groups, gs_error *error) {
    int32_t sms = session->gpu->sms;
    for (uint64_t i = 0; i < CLUSTER_PLAYS; i++) {
        gs_random random = gs_random_at(session->options->seed, (uint64_t)size * CLUSTER_PLAYS + i);
        int64_t before = i < SMALL_STEPS ? (int64_t)i : gs_random_from(&random, 0, sms / 2);
        int64_t blocks = (sms - before) / size * size;
        if (blocks < 1)
            continue;
        report_step(session, "clusters", (int64_t)i, CLUSTER_PLAYS);
        gs_run *run = play_fillers(session, before, 1, blocks, size, error);
        if (!run)
            return error->code;
        join_clusters(session, run, groups);
        gs_run_free(run);
    }
    return GS_OK;
}

/* SMs not seen in a cluster are left out. */
static gs_code list_gpcs(gs_gpu *gpu, const int16_t *groups, gs_error *error) {
    gs_sm_groups *lists = &gpu->gpc_sms;
    int32_t end = 0;
    lists->sms = calloc((size_t)gpu->sms, sizeof *lists->sms);
    lists->ends = calloc((size_t)gpu->sms, sizeof *lists->ends);
    if (!lists->sms || !lists->ends)
        return gs_fail_memory(error);
    for (int32_t low = 0; low < gpu->sms; low++) {
        int32_t from = end;
        for (int32_t sm = low; sm < gpu->sms; sm++)
            if (lowest_of(groups, sm) == low)
                lists->sms[end++] = (int16_t)sm;
        if (end - from > 1)
            lists->ends[lists->count++] = end;
        else
            end = from;
    }
    gpu->gpcs = lists->count;
    return GS_OK;
}

/* All sizes up to the one that every GPU with clusters supports, and twice that, which a GPU may refuse. */
static gs_code survey_gpcs(struct session *session, gs_error *error) {
    int32_t sms = session->gpu->sms, portable = session->device->clusters;
    if (portable < 2)
        return GS_OK;
    int16_t *groups = calloc((size_t)sms, sizeof *groups);
    gs_code code = groups ? GS_OK : gs_fail_memory(error);
    for (int32_t sm = 0; sm < sms && code == GS_OK; sm++)
        groups[sm] = (int16_t)sm;
    for (int32_t size = 2; size <= portable && code == GS_OK; size *= 2)
        code = play_clusters(session, size, groups, error);
    if (code == GS_OK && play_clusters(session, 2 * portable, groups, error) != GS_OK)
        *error = (gs_error){.code = GS_OK};
    if (code == GS_OK)
        code = list_gpcs(session->gpu, groups, error);
    if (session->survey->pairs && session->survey->neighbors == session->survey->pairs)
        session->gpu->sms_per_tpc = 2;
    for (int32_t sm = 0; sm < sms && groups; sm++)
        groups[sm] = lowest_of(groups, sm);
    session->cluster_groups = groups;
    return code;
}

static gs_code survey_grants(struct session *session, gs_error *error) {
    gs_grants_request request = {.device = session->device,
                                 .gpu = session->gpu,
                                 .filler = session->filler,
                                 .cluster_groups = session->cluster_groups};
    report_step(session, "numbers of blocks", 0, 0);
    return gs_grants_measure(&request, &session->survey->grants, error);
}

/* ---- mechanisms ---- */

static gs_code record_run(struct session *session, const gs_run *script, gs_error *error) {
    static const gs_play_options patient = {.patient = true};
    if (!GS_RESERVE(session, 1))
        return gs_fail_memory(error);
    gs_run *recorded = gs_device_play(session->device, script, &patient, error);
    if (!recorded)
        return error->code;
    session->data[session->count++] = recorded;
    return GS_OK;
}

/* The generator ignores partitions, and may draw a kernel that never fits. Such a run is not played. */
static gs_code can_be_played(const struct session *session, const gs_run *script, bool *can, gs_error *error) {
    gs_run *predicted = gs_predict(session->gpu, script, NULL, error);
    *can = predicted != NULL;
    gs_run_free(predicted);
    if (!*can && error->code != GS_E_NO_FIT)
        return error->code;
    *error = (gs_error){.code = GS_OK};
    return GS_OK;
}

static bool is_late(const struct session *session) {
    return session->options->is_late && session->options->is_late(session->options->user);
}

static gs_code record_runs(struct session *session, gs_error *error) {
    static const char *const classes[] = {"plain", "shared", "small", "exits", "local"};
    gs_bounds bounds = gs_bounds_of(session->gpu, 1);
    gs_code code = GS_OK;
    int misfits = 0;
    for (uint64_t index = 0; (int64_t)session->count < session->options->runs && code == GS_OK; index++) {
        if (session->count && is_late(session))
            break;
        bool can = false;
        gs_run *script = gs_generate(&bounds, classes[index % GS_COUNT(classes)], session->options->seed, index, error);
        code = script ? can_be_played(session, script, &can, error) : error->code;
        if (code == GS_OK && can)
            code = record_run(session, script, error);
        gs_run_free(script);
        misfits = can ? 0 : misfits + 1;
        if (code == GS_OK && misfits > MOST_MISFITS)
            code = gs_fail(error, GS_E_UNSUPPORTED, "no random kernel fits this GPU");
        report_step(session, "random runs", (int64_t)session->count, session->options->runs);
    }
    return code;
}

/* Uses given recordings instead of random runs. */
static gs_code copy_runs(struct session *session, gs_error *error) {
    size_t count = session->options->recording_count;
    if (!GS_RESERVE(session, count))
        return gs_fail_memory(error);
    for (size_t i = 0; i < count; i++) {
        session->data[i] = gs_run_copy(session->options->recordings[i], error);
        if (!session->data[i])
            return error->code;
        session->count++;
    }
    return GS_OK;
}

/* Fits, and records runs on which the best settings differ, until there is none. */
static gs_code fit_runs(struct session *session, gs_error *error) {
    gs_survey *survey = session->survey;
    uint64_t seed = session->options->seed;
    report_step(session, "settings of the mechanisms", 0, 0);
    gs_code code = gs_fit_run(session->gpu, session->data, session->count, seed, NULL, &survey->fit, error);
    bool can_record = !session->options->recordings;
    while (code == GS_OK && can_record && survey->fit.decider && survey->deciders < MOST_DECIDERS &&
           !is_late(session)) {
        code = record_run(session, survey->fit.decider, error);
        if (code != GS_OK)
            return code;
        survey->deciders++;
        gs_fit_clear(&survey->fit);
        report_step(session, "runs that decide", survey->deciders, MOST_DECIDERS);
        code = gs_fit_run(session->gpu, session->data, session->count, seed + (uint64_t)survey->deciders, NULL,
                          &survey->fit, error);
    }
    return code;
}

/* The first of the best settings with the measured tie order, or of all if none has it. If the recordings leave the
   numbering open, measured grants decide. */
static void choose_setting(struct session *session) {
    const gs_fit *fit = &session->survey->fit;
    int best = -1;
    int numbering = session->gpu->grants.groups.count ? GS_NUMBERED_BY_GRANT : GS_NUMBERED_AS_PLACED;
    for (size_t i = 0; i < fit->setting_count; i++) {
        const gs_mechanisms *setting = &fit->settings[i];
        int points = 2 * (setting->tie_order == session->survey->tie_order) + (setting->numbering == numbering);
        if (points > best)
            session->gpu->mechanisms = *setting;
        best = points > best ? points : best;
    }
}

/* The prediction follows the recording, as `gridsmith replay` does, so that the turns of the numbering are known. But
   following a recording with local memory would hide whether its growth waits, so that is fitted without following. */
static gs_run *predict_recorded(const gs_gpu *gpu, const gs_run *recorded, gs_error *error) {
    unsigned kind = gs_kind_of(recorded) & (GS_KIND_LOCAL | GS_KIND_TIMED);
    return kind == GS_KIND_LOCAL ? gs_predict(gpu, recorded, NULL, error) : gs_predict_recorded(gpu, recorded, error);
}

static gs_code score_recordings(struct session *session, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < session->count && code == GS_OK; i++) {
        gs_run *predicted = predict_recorded(session->gpu, session->data[i], error);
        code =
            predicted ? gs_scores_add(&session->survey->scores, session->data[i], predicted, NULL, error) : error->code;
        gs_run_free(predicted);
    }
    return code;
}

/* Recordings that agree by counts but not block by block show errors in the grants. */
static gs_code refine_numbering(struct session *session, gs_error *error) {
    gs_gpu *gpu = session->gpu;
    gs_run **differ = calloc(session->count + 1, sizeof *differ);
    gs_code code = differ ? GS_OK : gs_fail_memory(error);
    size_t count = 0, by_count, by_block;
    if (gpu->mechanisms.numbering != GS_NUMBERED_BY_GRANT) {
        free(differ);
        return code;
    }
    for (size_t i = 0; i < session->count && code == GS_OK; i++) {
        code = gs_agrees(gpu, session->data[i], true, &by_block, error);
        if (code == GS_OK && by_block != SIZE_MAX)
            code = gs_agrees(gpu, session->data[i], false, &by_count, error);
        if (code == GS_OK && by_block != SIZE_MAX && by_count == SIZE_MAX)
            differ[count++] = session->data[i];
    }
    if (code == GS_OK && count && count <= MOST_REFINED)
        code = gs_grants_refine(gpu, differ, count, error);
    free(differ);
    return code;
}

static gs_code survey_mechanisms(struct session *session, gs_error *error) {
    gs_code code = session->options->recordings ? copy_runs(session, error) : record_runs(session, error);
    if (code == GS_OK)
        code = fit_runs(session, error);
    if (code != GS_OK)
        return code;
    choose_setting(session);
    code = refine_numbering(session, error);
    return code == GS_OK ? score_recordings(session, error) : code;
}

/* ---- the description ---- */

static gs_code replace_text(char **text, gs_text *with, gs_error *error) {
    if (with->failed) {
        gs_text_free(with);
        return gs_fail_memory(error);
    }
    free(*text);
    *text = with->data;
    return GS_OK;
}

/* The source of the limits: that of the device's description, up to the first semicolon. */
static void put_limits_source(gs_text *text, const gs_gpu *gpu) {
    if (gpu->source && strncmp(gpu->source, "limits: ", 8) == 0)
        gs_text_put(text, gpu->source, strcspn(gpu->source, ";"));
    else
        gs_text_add(text, "limits: the description of %s", gpu->name);
}

static gs_code name_source(struct session *session, gs_error *error) {
    const gs_survey *survey = session->survey;
    gs_score total = gs_scores_total(&survey->scores);
    gs_text text = {0};
    size_t undecided = 0;
    put_limits_source(&text, session->device->gpu);
    gs_text_add(&text, "; tie order%s%s and mechanisms: measured by gridsmith probe%s%s, %lld of %lld runs agree",
                session->gpu->gpcs ? ", GPCs" : "", session->gpu->grants.groups.count ? ", grants" : "",
                session->options->date ? " on " : "", session->options->date ? session->options->date : "",
                (long long)total.runs_exact, (long long)total.runs);
    for (size_t i = 0; i < gs_mechanism_count; i++)
        if (gs_fit_is_undecided(&survey->fit, i))
            gs_text_add(&text, "%s%s", undecided++ ? ", " : "; not decided by them: ", gs_mechanism_table[i].name);
    if (survey->grants.unexplained)
        gs_text_add(&text, "; not explained: block numbers of launches that end with one of %d SMs",
                    survey->grants.unexplained);
    if (survey->grants.open)
        gs_text_add(&text, "; not decided: block numbers of launches that end with one of %d SMs", survey->grants.open);
    gs_text_add(&text, "; not measured: kernels_per_gpu, graph_join, graph_memory");
    return replace_text(&session->gpu->source, &text, error);
}

/* The device's description with another name, the paper's mechanisms, and without GPCs. */
static gs_code begin_description(struct session *session, gs_error *error) {
    const gs_device *device = session->device;
    gs_text name = {0}, uuid = {0};
    gs_gpu *gpu = session->gpu = session->survey->gpu = gs_gpu_copy(device->gpu, error);
    if (!gpu)
        return error->code;
    free(gpu->gpc_sms.sms);
    free(gpu->gpc_sms.ends);
    gpu->gpc_sms = (gs_sm_groups){0};
    gpu->gpcs = 0;
    gs_gpu_drop_grants(gpu);
    gpu->mechanisms = (gs_mechanisms){0};
    free(gpu->assumed);
    gpu->assumed = NULL;
    if (session->options->name)
        gs_text_add(&name, "%s", session->options->name);
    else if (device->uuid[0])
        gs_text_add(&name, "%s-%.8s", device->gpu->name, device->uuid + strcspn(device->uuid, "-") + 1);
    gs_code code = name.count || name.failed ? replace_text(&gpu->name, &name, error) : GS_OK;
    if (code == GS_OK && device->uuid[0]) {
        gs_text_add(&uuid, "%s", device->uuid);
        code = replace_text(&gpu->uuid, &uuid, error);
    }
    return code;
}

gs_code gs_survey_run(gs_device *device, const gs_survey_options *options, gs_survey *survey, gs_error *error) {
    static gs_code (*const steps[])(struct session *, gs_error *) = {begin_description, survey_order,      survey_gpcs,
                                                                     survey_grants,     survey_mechanisms, name_source};
    struct session session = {.device = device, .options = options, .survey = survey};
    gs_error own;
    gs_code code = GS_OK;
    error = error ? error : &own;
    *survey = (gs_survey){0};
    for (size_t i = 0; i < GS_COUNT(steps) && code == GS_OK; i++)
        code = steps[i](&session, error);
    for (size_t i = 0; i < session.count; i++)
        gs_run_free(session.data[i]);
    free(session.data);
    free(session.cluster_groups);
    return code;
}

void gs_survey_clear(gs_survey *survey) {
    gs_gpu_free(survey->gpu);
    gs_fit_clear(&survey->fit);
    gs_scores_free(&survey->scores);
    *survey = (gs_survey){0};
}
