/*
 * fuzz.c: random runs on a device, each compared with its prediction.
 *
 * Each run goes through the same steps: draw, predict, record, follow, repeat, judge, keep. Only those that need the
 * device run in the calling thread (pipeline.c). The first recording of a run comes from the device, or from the
 * journal of a stopped campaign. So a resumed campaign reports the same as an uninterrupted one. The journal does not
 * hold repeated recordings, so these are made again.
 *
 * A recording without long waits can be wrong: a block that starts late looks like one that waits. So a run that
 * differs is played again with long waits, and so is every Nth run. If the two recordings differ, the patient one
 * counts.
 */
#include "fuzz.h"
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>

struct session {
    gs_device *device;
    const gs_gpu *model;
    const gs_campaign_options *options;
    gs_campaign *campaign;
    gs_bounds bounds;
    size_t class_count;
    int64_t begin; /* the index of the first run */
};

/* A run on its way through the steps. */
struct round {
    uint64_t index;
    const char *class_name;
    gs_run *script, *predicted, *recorded; /* predicted is NULL if the model does not cover the run */
    bool is_from_journal, exact;
    bool differs, is_turn; /* from its prediction; it is an Nth run. In both cases it is played again. */
    bool is_alike;         /* both recordings, if there are two */
};

/* ---- comparing ---- */

/* Whether each scored launch has the same number of blocks on every SM. */
static gs_code compare_placements(const gs_run *one, const gs_run *two, bool *alike, gs_error *error) {
    gs_score score = {0};
    gs_code code = gs_score_add(&score, one, two, error);
    *alike = score.runs_exact == 1;
    return code;
}

static bool is_same_text(const char *one, const char *two) {
    return one == two || (one && two && strcmp(one, two) == 0);
}

static bool is_same_launch(const gs_launch *one, const gs_launch *two) {
    return is_same_text(one->kernel, two->kernel) && one->blocks == two->blocks &&
           gs_shape_equal(&one->shape, &two->shape) && one->cluster == two->cluster && one->priority == two->priority &&
           is_same_text(one->stream, two->stream) && one->duration_ns == two->duration_ns;
}

/* The index of the next launch or exit from `at` on, or the end. */
static size_t next_planned(const gs_run *run, size_t at) {
    while (at < run->events.count && run->events.data[at].op == GS_OBSERVE)
        at++;
    return at;
}

bool gs_is_recording_of(const gs_run *recorded, const gs_run *script) {
    size_t at = 0;
    if (recorded->launches.count != script->launches.count)
        return false;
    for (size_t i = 0; i < script->launches.count; i++)
        if (!is_same_launch(&recorded->launches.data[i], &script->launches.data[i]))
            return false;
    for (size_t i = 0; i < script->events.count; i++) {
        at = next_planned(recorded, at);
        if (at == recorded->events.count || recorded->events.data[at].op != script->events.data[i].op ||
            recorded->events.data[at].launch != script->events.data[i].launch)
            return false;
        at++;
    }
    return next_planned(recorded, at) == recorded->events.count;
}

/* ---- the steps ---- */

static gs_code draw_round(const struct session *session, struct round *round, gs_error *error) {
    round->class_name = session->options->classes[round->index % session->class_count];
    round->script = gs_generate(&session->bounds, round->class_name, session->options->seed, round->index, error);
    return round->script ? GS_OK : error->code;
}

static gs_code predict_round(const struct session *session, struct round *round, gs_error *error) {
    round->predicted = gs_predict(session->model, round->script, NULL, error);
    if (round->predicted || error->code == GS_E_UNSUPPORTED)
        return GS_OK;
    return error->code;
}

static bool replace_text(char **text, const char *with) {
    free(*text);
    *text = strdup(with);
    return *text;
}

static gs_run *play_round(const struct session *session, const struct round *round, bool patient, gs_error *error) {
    gs_play_options options = {.expected = round->predicted, .patient = patient};
    return gs_device_play(session->device, round->script, &options, error);
}

/* Gives a recording the number and class of the script, and the name of the GPU, and checks it. */
static gs_code complete_recording(const struct session *session, const struct round *round, gs_run *recorded,
                                  gs_error *error) {
    recorded->has_id = true;
    recorded->id = round->script->id;
    if (!replace_text(&recorded->class_name, round->class_name) ||
        !replace_text(&recorded->gpu, session->device->gpu->name))
        return gs_fail_memory(error);
    if (!gs_is_recording_of(recorded, round->script))
        return gs_fail(error, GS_E_FORMAT, "the device played a different run");
    return gs_run_is_recorded(recorded, error);
}

static gs_code check_journal(const struct session *session, const struct round *round, gs_error *error) {
    const gs_run *run = round->recorded;
    gs_step root = {0};
    if (!run->has_id || run->id != round->script->id || !is_same_text(run->class_name, round->class_name) ||
        !gs_is_recording_of(run, round->script))
        return gs_json_fail(&run->source, &root, false, error,
                            "not the run of this campaign: resume it with the same device, seed and classes");
    if (!is_same_text(run->gpu, session->device->gpu->name))
        return gs_json_fail(&run->source, &root, false, error, "recorded on %.60s; the device is %.60s",
                            run->gpu ? run->gpu : "an unnamed GPU", session->device->gpu->name);
    return gs_run_is_recorded(run, error);
}

static gs_code record_on_device(const struct session *session, struct round *round, gs_error *error) {
    gs_journal *journal = session->options->journal;
    if (journal) {
        round->recorded = gs_journal_next(journal, error);
        if (!round->recorded && error->code != GS_OK)
            return error->code;
    }
    round->is_from_journal = round->recorded;
    if (round->is_from_journal)
        return check_journal(session, round, error);
    round->recorded = play_round(session, round, false, error);
    return round->recorded ? GS_OK : error->code;
}

/* Predicts the run again, following its recording, which gives the turns and the ends of blocks. */
static gs_code predict_again(const struct session *session, struct round *round, gs_error *error) {
    if (!round->predicted)
        return GS_OK;
    gs_run *predicted = gs_predict_recorded(session->model, round->recorded, error);
    if (!predicted)
        return error->code;
    gs_run_free(round->predicted);
    round->predicted = predicted;
    return GS_OK;
}

/* Decides whether the run is played again: if it differs, or if it is an Nth run. */
static gs_code compare_prediction(const struct session *session, struct round *round, gs_error *error) {
    int64_t every = session->options->patient_every;
    bool alike = true;
    gs_code code = round->predicted ? compare_placements(round->recorded, round->predicted, &alike, error) : GS_OK;
    round->differs = !alike;
    round->is_turn = every > 0 && (round->index + 1) % (uint64_t)every == 0;
    return code;
}

static gs_code repeat_on_device(const struct session *session, struct round *round, gs_error *error) {
    gs_run *second = play_round(session, round, true, error);
    if (!second)
        return error->code;
    gs_code code = complete_recording(session, round, second, error);
    if (code == GS_OK)
        code = compare_placements(round->recorded, second, &round->is_alike, error);
    if (code == GS_OK && !round->is_alike && !round->is_from_journal) {
        gs_run *first = round->recorded;
        round->recorded = second;
        second = first;
        code = predict_again(session, round, error);
    }
    gs_run_free(second);
    return code;
}

static gs_code judge_round(const struct session *session, struct round *round, gs_error *error) {
    gs_campaign *campaign = session->campaign;
    gs_code code = GS_OK;
    round->exact = true;
    if (round->predicted)
        code = gs_scores_add(&campaign->scores, round->recorded, round->predicted, &round->exact, error);
    campaign->repeated += round->differs;
    campaign->repeated_alike += round->differs && round->is_alike;
    campaign->patient += round->is_turn;
    campaign->patient_alike += round->is_turn && round->is_alike;
    campaign->uncovered += !round->predicted;
    campaign->mismatches += !round->exact;
    campaign->from_journal += round->is_from_journal;
    campaign->played++;
    return code;
}

static gs_code keep_round(const struct session *session, struct round *round, gs_error *error) {
    if (!session->options->journal || round->is_from_journal)
        return GS_OK;
    return gs_journal_add(session->options->journal, round->recorded, error);
}

/* ---- the campaign ---- */

/* Adds the seed and index to an error, so that the run can be repeated alone, unless the error names a file. */
static void name_run(const struct session *session, const struct round *round, gs_error *error) {
    gs_error reason = *error;
    if (!reason.file[0])
        gs_fail(error, reason.code, "class %s, --seed %llu --index %llu: %s", round->class_name,
                (unsigned long long)session->options->seed, (unsigned long long)round->index, reason.message);
}

/* Names the run in its error. */
static gs_code name_failure(const struct session *session, const struct round *round, gs_code code, gs_error *error) {
    if (code != GS_OK)
        name_run(session, round, error);
    return code;
}

static gs_code prepare_round(void *user, void *item, int64_t number, gs_error *error) {
    const struct session *session = user;
    struct round *round = item;
    round->index = (uint64_t)(session->begin + number);
    gs_code code = draw_round(session, round, error);
    if (code == GS_OK)
        code = predict_round(session, round, error);
    return name_failure(session, round, code, error);
}

static gs_code record_round(void *user, void *item, gs_error *error) {
    return name_failure(user, item, record_on_device(user, item, error), error);
}

static gs_code follow_round(void *user, void *item, bool *repeats, gs_error *error) {
    struct round *round = item;
    gs_code code = round->is_from_journal ? GS_OK : complete_recording(user, round, round->recorded, error);
    if (code == GS_OK)
        code = predict_again(user, round, error);
    if (code == GS_OK)
        code = compare_prediction(user, round, error);
    *repeats = round->differs || round->is_turn;
    return name_failure(user, round, code, error);
}

static gs_code repeat_round(void *user, void *item, gs_error *error) {
    return name_failure(user, item, repeat_on_device(user, item, error), error);
}

static gs_code finish_round(void *user, void *item, bool *go_on, gs_error *error) {
    const struct session *session = user;
    struct round *round = item;
    gs_code code = judge_round(session, round, error);
    if (code == GS_OK)
        code = keep_round(session, round, error);
    if (code == GS_OK && session->options->done)
        *go_on = session->options->done(session->options->user, round->index, round->recorded, round->exact);
    return name_failure(session, round, code, error);
}

static void clear_round(void *item) {
    struct round *round = item;
    gs_run_free(round->script);
    gs_run_free(round->predicted);
    gs_run_free(round->recorded);
}

static const gs_pipeline_steps steps = {.prepare = prepare_round,
                                        .play = record_round,
                                        .follow = follow_round,
                                        .repeat = repeat_round,
                                        .finish = finish_round,
                                        .clear = clear_round,
                                        .item_size = sizeof(struct round)};

gs_code gs_campaign_run(gs_device *device, const gs_gpu *model, const gs_campaign_options *options,
                        gs_campaign *campaign, gs_error *error) {
    struct session session = {.device = device, .model = model, .options = options, .campaign = campaign};
    gs_error own;
    gs_code code = GS_OK;
    error = error ? error : &own;
    *campaign = (gs_campaign){0};
    for (; options->classes[session.class_count] && code == GS_OK; session.class_count++)
        if (gs_class_needs_contexts(options->classes[session.class_count]) && !device->contexts.count)
            code = gs_device_split(device, error);
    session.bounds = gs_device_bounds(device);
    session.begin = options->only ? (int64_t)*options->only : gs_shard_begin(&options->shard, options->count);
    int64_t count = options->only ? 1 : gs_shard_count(&options->shard, options->count);
    if (code == GS_OK)
        code = gs_pipeline_run(&steps, &session, count, error);
    if (code == GS_OK && options->journal)
        code = gs_journal_end(options->journal, error);
    return code;
}

void gs_campaign_clear(gs_campaign *campaign) {
    gs_scores_free(&campaign->scores);
    *campaign = (gs_campaign){0};
}
