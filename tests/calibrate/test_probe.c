/*
 * test_probe.c: `probe` finds what was planted: tie orders, mechanisms, GPCs, with many numbers of SMs.
 *
 * Models pose as GPUs, from descriptions that the test writes. Clusters are not modelled, so a device of the test's own
 * plays them. Fresh runs show whether a survey is right.
 */
#include "test.h"

#include "lab/calibrate/calibrate.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Random runs that a measured description must predict. A sanitizer needs few. */
static int64_t fresh_runs(void) {
    return test_number("GRIDSMITH_RUNS", 100000) >= 100000 ? 200 : 30;
}

/* ---- devices ---- */

/* Writes the description to a file, opens it as a model, and removes the file. */
static gs_device *open_model(const gs_gpu *gpu, const char *quirk) {
    char path[] = "/tmp/gridsmith-test-XXXXXX", name[128];
    int file = mkstemp(path);
    assert_true(file >= 0);
    gs_text text = {0};
    gs_gpu_text(gpu, &text);
    assert_int_equal(write(file, text.data, text.count), text.count);
    close(file);
    gs_text_free(&text);
    snprintf(name, sizeof name, "model:%s%s", path, quirk);
    gs_error error = {.code = GS_OK};
    gs_device *device = gs_device_open(name, &error);
    unlink(path);
    if (!device)
        fail_msg("%s", error.message);
    return device;
}

/* Where a list is wanted, SMs in random order. */
static void set_size(gs_gpu *gpu, int32_t sms, gs_random *random) {
    gpu->sms = sms;
    random_no_grants(gpu);
    free(gpu->listed_order);
    gpu->listed_order = NULL;
    if (gpu->mechanisms.tie_order != GS_TIES_LISTED)
        return;
    gpu->listed_order = calloc((size_t)sms, sizeof *gpu->listed_order);
    assert_non_null(gpu->listed_order);
    for (int32_t i = 0; i < sms; i++) {
        int64_t at = gs_random_from(random, 0, i);
        gpu->listed_order[i] = gpu->listed_order[at];
        gpu->listed_order[at] = (int16_t)i;
    }
}

static gs_survey measure(gs_device *device, int64_t runs) {
    gs_survey_options options = {.runs = runs, .seed = 1};
    gs_survey survey;
    gs_error error = {.code = GS_OK};
    if (gs_survey_run(device, &options, &survey, &error) != GS_OK)
        fail_msg("%s", error.message);
    return survey;
}

/* ---- planted models ---- */

static void assert_same_order(const gs_gpu *found, const gs_gpu *planted) {
    int16_t orders[2][GS_MAX_SMS];
    gs_gpu_tie_order(found, orders[0]);
    gs_gpu_tie_order(planted, orders[1]);
    assert_int_equal(found->sms, planted->sms);
    assert_memory_equal(orders[0], orders[1], (size_t)planted->sms * sizeof orders[0][0]);
}

/* The result is read like any description, and predicts fresh runs. */
static void assert_predicts_fresh_runs(const gs_survey *survey, const gs_gpu *planted) {
    gs_error error = {.code = GS_OK};
    gs_gpu *found = gs_gpu_copy(survey->gpu, &error);
    assert_non_null(found);
    test_predicts_fresh_runs(found, planted, 77, fresh_runs());
    gs_gpu_free(found);
}

static void measure_planted(uint64_t index, int32_t sms, int64_t runs) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 8), index);
    gs_gpu *planted = random_gpu(&random, 50);
    if (index % 2)
        planted->mechanisms.tie_order = GS_TIES_LISTED;
    set_size(planted, sms, &random);
    gs_device *device = open_model(planted, "");
    gs_survey survey = measure(device, runs);
    print_message("%s, %d SMs: %lld of %lld runs agree, %d to decide, %zu settings left\n", planted->name, sms,
                  (long long)survey.fit.best, (long long)survey.fit.recordings, survey.deciders,
                  survey.fit.setting_count);
    assert_same_order(survey.gpu, planted);
    assert_int_equal(survey.order_alike, 3);
    assert_int_equal(survey.unseen_sms, 0);
    assert_int_equal(survey.fit.best, survey.fit.recordings);
    assert_int_equal(gs_scores_total(&survey.scores).runs_exact, runs + survey.deciders);
    assert_int_equal(survey.gpu->gpcs, 0);
    assert_predicts_fresh_runs(&survey, planted);
    gs_survey_clear(&survey);
    gs_device_close(device);
    gs_gpu_free(planted);
}

TEST(planted_gpus_are_measured_back) {
    static const int32_t sizes[] = {5, 29, 57, 1, 2};
    bool is_long = test_number("GRIDSMITH_RUNS", 100000) >= 100000;
    for (size_t i = 0; i < (is_long ? GS_COUNT(sizes) : 1); i++)
        measure_planted(i, sizes[i], is_long ? 100 : 40);
}

/* Part of an H200 with grants of its own. */
static gs_gpu *draw_h200(gs_random *random) {
    gs_gpu *gpu = random_gpu(random, 50);
    while (strcmp(gpu->name, "h200") != 0 || gpu->sms < 4 || gpu->grants.groups.count < 2) {
        gs_gpu_free(gpu);
        gpu = random_gpu(random, 50);
    }
    gs_gpu *whole = gs_gpu_open("h200", NULL);
    int tie_order = gpu->mechanisms.tie_order;
    gpu->mechanisms = whole->mechanisms;
    gpu->mechanisms.tie_order = tie_order == GS_TIES_LISTED ? GS_TIES_EVEN_ODD : tie_order;
    gs_gpu_free(whole);
    return gpu;
}

/* A model whose turn differs in each run, as on a real GPU. With durations it is 0, because a model that takes no time
   cannot be followed. */
static gs_run *turning_play(gs_device *device, const gs_run *script, const gs_play_options *options, gs_error *error) {
    int64_t *plays = device->inside;
    gs_predict_options predicted = {0};
    (void)options;
    if (!gs_run_is_timed(script))
        predicted.turn = (int)((*plays)++ % gs_gpu_turns(device->gpu));
    return gs_predict(device->gpu, script, &predicted, error);
}

static const gs_device_ops turning_ops = {.name = "turning", .play = turning_play};

/* These three show only once kernels have waited, or block by block. */
static void measure_late_switches(uint64_t index) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 12), index);
    gs_gpu *planted = draw_h200(&random);
    planted->mechanisms.shared_kept = index & 1 ? GS_KEPT_FOR_WAITING : GS_KEPT_WHILE_BUSY;
    planted->mechanisms.numbering = index & 2 ? GS_NUMBERED_BY_GRANT : GS_NUMBERED_AS_PLACED;
    planted->mechanisms.queue = index & 4 ? GS_QUEUE_OVERTAKING : GS_QUEUE_IN_ORDER;
    int64_t plays = 0;
    gs_device device = {.ops = &turning_ops, .gpu = planted, .clusters = 1, .inside = &plays};
    int64_t runs = test_number("GRIDSMITH_RUNS", 100000) >= 100000 ? 100 : 30;
    gs_survey survey = measure(&device, runs);
    const gs_mechanisms *found = &survey.gpu->mechanisms;
    /* how long a configuration is kept shows so rarely that it can stay open; then the source says so */
    bool is_open = strstr(survey.gpu->source, "shared_kept");
    assert_true(is_open || found->shared_kept == planted->mechanisms.shared_kept);
    assert_int_equal(found->numbering, planted->mechanisms.numbering);
    assert_int_equal(found->queue, planted->mechanisms.queue);
    assert_null(strstr(survey.gpu->source, "numbering"));
    assert_null(strstr(survey.gpu->source, "queue"));
    assert_int_equal(gs_scores_total(&survey.scores).runs_exact, runs + survey.deciders);
    for (size_t i = 0; i < survey.scores.count; i++)
        if (strcmp(survey.scores.data[i].class_name, "local") != 0) /* not followed, so the turn is not known */
            assert_int_equal(survey.scores.data[i].score.blocks_exact, survey.scores.data[i].score.blocks);
    assert_predicts_fresh_runs(&survey, planted);
    gs_survey_clear(&survey);
    gs_gpu_free(planted);
}

TEST(what_shows_late_is_measured) {
    if (test_number("GRIDSMITH_RUNS", 100000) < 10000)
        skip(); /* a sanitizer sees this code with planted topologies */
    bool is_long = test_number("GRIDSMITH_RUNS", 100000) >= 100000;
    for (uint64_t i = is_long ? 0 : 3; i < (is_long ? 5 : 4); i++)
        measure_late_switches(i);
}

/* ---- planted topologies ---- */

static gs_sm_groups new_groups(int32_t sms) {
    gs_sm_groups groups = {calloc((size_t)sms, sizeof *groups.sms), calloc((size_t)sms, sizeof *groups.ends), 0};
    assert_true(groups.sms && groups.ends);
    return groups;
}

/* Up to two first groups of a few TPCs at the end of the GPU, and GPCs of different sizes: TPCs are dealt to them
   round-robin, and some GPCs are full early. */
static void plant_groups(gs_random *random, gs_gpu *gpu) {
    gs_grants *grants = &gpu->grants;
    int32_t at = 0, first_tpcs = (int32_t)gs_random_from(random, 1, 2), tpcs = gpu->sms / 2;
    grants->groups = new_groups(gpu->sms);
    grants->cluster_first = new_groups(gpu->sms);
    grants->first = (int32_t)gs_random_from(random, 0, gs_min(2, tpcs / 4));
    int32_t rest = tpcs - grants->first * first_tpcs, least = 2 + (rest - 1) / 32; /* a group has at most 64 SMs */
    int32_t gpcs = (int32_t)gs_random_from(random, least, gs_min(8, rest));
    for (int32_t group = 0; group < grants->first; group++) {
        for (int32_t i = 0; i < 2 * first_tpcs; i++)
            grants->groups.sms[at++] = (int16_t)(2 * (rest + group * first_tpcs) + i);
        grants->groups.ends[grants->groups.count++] = at;
    }
    for (int32_t i = 0; i < at; i++)
        grants->cluster_first.sms[i] = grants->groups.sms[i];
    for (int32_t i = 2; i <= at; i += 2)
        grants->cluster_first.ends[grants->cluster_first.count++] = i;
    int8_t of[GS_MAX_SMS];
    int32_t smaller = (int32_t)gs_random_from(random, 0, gpcs - 1), leaves = (int32_t)gs_random_from(random, 1, 4);
    for (int32_t tpc = 0, gpc = 0; tpc < rest; tpc++, gpc = (gpc + 1) % gpcs) {
        if (gpc == smaller && tpc / gpcs >= leaves)
            gpc = (gpc + 1) % gpcs;
        of[tpc] = (int8_t)gpc;
    }
    for (int32_t gpc = 0; gpc < gpcs; gpc++) {
        for (int32_t tpc = 0; tpc < rest; tpc++)
            for (int16_t i = 0; of[tpc] == gpc && i < 2; i++)
                grants->groups.sms[at++] = (int16_t)(2 * tpc + i);
        grants->groups.ends[grants->groups.count++] = at;
    }
}

static gs_gpu *plant_topology(gs_random *random) {
    gs_gpu *gpu = gs_gpu_open(gs_random_chance(random, 50) ? "h200" : "rtx3090", NULL);
    gs_gpu_drop_grants(gpu);
    gpu->mechanisms = (gs_mechanisms){.shared_scope = gs_random_chance(random, 50) ? GS_SCOPE_SM : GS_SCOPE_TPC,
                                      .shared_given = (int)gs_random_from(random, 0, 2),
                                      .shared_kept = (int)gs_random_from(random, 0, 1),
                                      .shared_allocation = (int)gs_random_from(random, 0, 2),
                                      .extra_step = (int)gs_random_from(random, 0, 1),
                                      .queue = (int)gs_random_from(random, 0, 1)};
    int64_t most_tpcs = test_number("GRIDSMITH_RUNS", 100000) >= 100000 ? 96 : 8;
    gs_gpu *sized = gs_gpu_part(gpu, 2 * (int32_t)gs_random_from(random, 4, most_tpcs), NULL);
    gs_gpu_free(gpu);
    sized->mechanisms.tie_order = (int)gs_random_from(random, 0, 2);
    set_size(sized, sized->sms, random);
    plant_groups(random, sized);
    gs_grants *grants = &sized->grants;
    grants->between_rounds = (int32_t)gs_random_from(random, 1, grants->groups.count);
    grants->cluster_blocks_per_sm = (int32_t)gs_random_from(random, 1, 8);
    grants->before_cut = calloc((size_t)sized->sms, sizeof *grants->before_cut);
    int16_t base = (int16_t)gs_random_from(random, 1, 12), order[GS_MAX_SMS];
    gs_gpu_tie_order(sized, order);
    for (int32_t i = 0; i < sized->sms; i++)
        grants->before_cut[order[i]] = (int16_t)(base + i / 3);
    sized->mechanisms.numbering = GS_NUMBERED_BY_GRANT;
    return sized;
}

/* Runs that the survey did not see, also with clusters and carve-outs, from any turn. */
static void assert_follows_fresh_runs(const gs_survey *survey, gs_device *device, uint64_t seed) {
    static const char *const classes[] = {"plain", "shared", "small", "exits", "carveout", "cluster", "cooperative"};
    gs_bounds bounds = gs_device_bounds(device);
    gs_error error = {.code = GS_OK};
    gs_score score = {0};
    for (uint64_t i = 0; score.runs < fresh_runs(); i++) {
        gs_run *script = gs_generate(&bounds, classes[i % GS_COUNT(classes)], seed, i, &error);
        gs_run *recorded = gs_device_play(device, script, NULL, &error);
        gs_run *predicted = recorded ? gs_predict_recorded(survey->gpu, recorded, &error) : NULL;
        if (recorded && !predicted)
            fail_msg("%s", error.message);
        if (recorded)
            assert_int_equal(gs_score_add(&score, recorded, predicted, &error), GS_OK);
        gs_run_free(script);
        gs_run_free(recorded);
        gs_run_free(predicted);
    }
    print_message("%lld of %lld fresh runs, %lld of %lld blocks\n", (long long)score.runs_exact, (long long)score.runs,
                  (long long)score.blocks_exact, (long long)score.blocks);
    assert_int_equal(score.runs_exact, score.runs);
    if (!survey->grants.unexplained) /* otherwise the survey says that the numbering is left open */
        assert_true((double)score.blocks_exact >= 0.999 * (double)score.blocks);
}

/* Few runs depend on the number of the last SM in tie order. Planted numbers of neighbors differ by at most one. */
static void assert_last_cut(const gs_gpu *found, const gs_gpu *planted) {
    int16_t order[GS_MAX_SMS];
    gs_gpu_tie_order(planted, order);
    int32_t last = order[planted->sms - 1];
    assert_in_range(found->grants.before_cut[last] + 1, planted->grants.before_cut[last],
                    planted->grants.before_cut[last] + 2);
}

static void measure_topology(uint64_t seed, uint64_t index) {
    enum { SMALL = 16 };
    gs_random random = gs_random_at(seed, index);
    gs_gpu *planted = plant_topology(&random);
    int64_t plays = 0;
    gs_device device = {.ops = &turning_ops, .gpu = planted, .clusters = 2, .inside = &plays};
    gs_survey survey = measure(&device, test_number("GRIDSMITH_RUNS", 100000) >= 50000 ? 60 : 30);
    print_message("index %d: %d SMs, %d groups, %d first; %d not explained; ", (int)index, planted->sms,
                  planted->grants.groups.count, planted->grants.first, survey.grants.unexplained);
    assert_same_order(survey.gpu, planted);
    assert_int_equal(survey.gpu->grants.groups.count, planted->grants.groups.count);
    assert_int_equal(survey.gpu->grants.first, planted->grants.first);
    assert_int_equal(survey.gpu->grants.cluster_blocks_per_sm, planted->grants.cluster_blocks_per_sm);
    if (!survey.grants.unexplained && planted->sms > SMALL) /* of a small one, the number of the neighbor can be open */
        assert_last_cut(survey.gpu, planted);
    assert_follows_fresh_runs(&survey, &device, seed + index);
    gs_survey_clear(&survey);
    gs_gpu_free(planted);
}

/* GRIDSMITH_INDEX is the first one of the seed. A sanitizer sees the same code with a small GPU; the one of index 2 has
   first groups. */
TEST(planted_topologies_are_measured_back) {
    uint64_t plants = test_number("GRIDSMITH_RUNS", 100000) / 100000;
    uint64_t seed = test_number("GRIDSMITH_SEED", 31), first = test_number("GRIDSMITH_INDEX", plants ? 0 : 1);
    for (uint64_t i = first; i < first + (plants ? plants : 1); i++)
        measure_topology(seed, i);
}

/* On this one several numbers of grants explain the launches that are always played. */
TEST(numbers_that_launches_leave_open_are_decided) {
    if (test_number("GRIDSMITH_RUNS", 100000) < 100000)
        skip(); /* a sanitizer sees this code with other topologies */
    measure_topology(101, 6);
}

/* Built-in GPUs have tie orders with names; the name before the survey has no effect. */
TEST(a_tie_order_with_a_name_gets_it) {
    static const int orders[] = {GS_TIES_EVEN_ODD, GS_TIES_ASCENDING};
    if (test_number("GRIDSMITH_RUNS", 100000) < 100000)
        skip(); /* a sanitizer sees this code in the others */
    for (size_t i = 0; i < GS_COUNT(orders); i++) {
        gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
        gpu->mechanisms.tie_order = orders[i];
        gs_device *device = open_model(gpu, "");
        gs_survey survey = measure(device, 40);
        assert_int_equal(survey.tie_order, orders[i]);
        assert_int_equal(survey.gpu->mechanisms.tie_order, orders[i]);
        assert_null(survey.gpu->listed_order);
        gs_survey_clear(&survey);
        gs_device_close(device);
        gs_gpu_free(gpu);
    }
}

/* SM 5 never gets a block: it comes last, and the description does not pretend to agree with what was seen. */
TEST(an_sm_that_gets_no_block_is_told) {
    if (test_number("GRIDSMITH_RUNS", 100000) < 100000)
        skip(); /* half a minute under a sanitizer, of code that the others have run */
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_device *device = open_model(gpu, ",skip=5");
    gs_survey survey = measure(device, 60);
    assert_int_equal(survey.unseen_sms, 1);
    assert_int_equal(survey.tie_order, GS_TIES_LISTED);
    assert_int_equal(survey.gpu->listed_order[gpu->sms - 1], 5);
    gs_score total = gs_scores_total(&survey.scores);
    assert_int_equal(total.runs_exact, survey.fit.best);
    assert_true(total.runs_exact < total.runs);
    char words[80];
    snprintf(words, sizeof words, "%lld of %lld runs agree", (long long)total.runs_exact, (long long)total.runs);
    assert_non_null(strstr(survey.gpu->source, words));
    gs_survey_clear(&survey);
    gs_device_close(device);
    gs_gpu_free(gpu);
}

/* ---- a device with clusters, and one that changes its mind ---- */

struct planted {
    int32_t gpcs;
    const int16_t (*gpc_sms)[18];
    const int32_t *sizes;    /* SMs of each GPC */
    const int32_t *clusters; /* the largest cluster that each takes */
    int32_t largest;         /* cluster that can be launched at all */
    int64_t plays;
    int fickle_until; /* until this many plays, blocks go in ascending order */
};

/* The first free SMs of the first GPC that has enough of them. */
static int32_t find_gpc(const struct planted *planted, const bool *taken, int32_t size) {
    for (int32_t gpc = 0; gpc < planted->gpcs; gpc++) {
        int32_t idle = 0;
        for (int32_t i = 0; i < planted->sizes[gpc]; i++)
            idle += !taken[planted->gpc_sms[gpc][i]];
        if (idle >= size && planted->clusters[gpc] >= size)
            return gpc;
    }
    return -1;
}

static void place_clusters(const struct planted *planted, bool *taken, const gs_launch *launch, gs_sm_list *placed) {
    for (int64_t first = 0; first < launch->blocks; first += launch->cluster) {
        int32_t gpc = find_gpc(planted, taken, launch->cluster), left = gpc < 0 ? 0 : launch->cluster;
        for (int32_t i = 0; left > 0; i++) {
            int16_t sm = planted->gpc_sms[gpc][i];
            if (taken[sm])
                continue;
            taken[sm] = true;
            placed->data[placed->count++] = sm;
            left--;
        }
        if (gpc < 0)
            return;
    }
}

/* Blocks that fill an SM: in tie order without clusters, GPC by GPC with them. */
static gs_run *play_clusters(const gs_device *device, const struct planted *planted, const gs_run *script) {
    bool taken[GS_MAX_SMS] = {false};
    int16_t order[GS_MAX_SMS];
    gs_run *run = gs_run_copy(script, NULL);
    gs_gpu_tie_order(device->gpu, order);
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_launch *launch = &run->launches.data[i];
        gs_seen *seen = gs_event_see(&run->events.data[launch->event]);
        seen->has_placed = true;
        assert_true(GS_RESERVE(&seen->placed, (size_t)launch->blocks));
        if (launch->cluster > 1)
            place_clusters(planted, taken, launch, &seen->placed);
        for (int32_t k = 0; launch->cluster == 1 && k < launch->blocks; k++) {
            taken[order[k]] = true;
            seen->placed.data[seen->placed.count++] = order[k];
        }
    }
    return run;
}

static gs_run *planted_play(gs_device *device, const gs_run *script, const gs_play_options *options, gs_error *error) {
    struct planted *planted = device->inside;
    int32_t largest = 1;
    (void)options;
    for (size_t i = 0; i < script->launches.count; i++)
        largest = script->launches.data[i].cluster > largest ? script->launches.data[i].cluster : largest;
    if (largest > 1 && largest > planted->largest) {
        gs_fail(error, GS_E_NO_GPU, "launching: invalid cluster size");
        return NULL;
    }
    if (largest > 1)
        return play_clusters(device, planted, script);
    gs_gpu gpu = *device->gpu;
    if (planted->plays++ < planted->fickle_until)
        gpu.mechanisms.tie_order = GS_TIES_ASCENDING;
    return gs_predict(&gpu, script, NULL, error);
}

static const gs_device_ops planted_ops = {.name = "planted", .play = planted_play};

/* Columns of TPCs as on an H200, where a GPC is a column: 8, 16 and 18 SMs, and two of 4 that take only clusters of
   two. Neither 16 nor 18 SMs are a whole number of clusters of every size once some are taken. */
static void plant_columns(int16_t gpc_sms[10][18], int32_t sizes[10]) {
    static const int16_t rows[] = {0, 16, 32, 48, 64, 78, 92, 106};
    for (int16_t column = 0; column < 8; column++)
        for (size_t row = 0; row < GS_COUNT(rows); row++)
            for (int16_t i = 0; i < 2 && (row < 4 || column); i++)
                gpc_sms[column][sizes[column]++] = (int16_t)(rows[row] + 2 * (row < 4 ? column : column - 1) + i);
    for (int16_t i = 0; i < 2; i++) {
        gpc_sms[5][sizes[5]++] = (int16_t)(120 + i);
        gpc_sms[6][sizes[6]++] = (int16_t)(122 + i);
    }
    for (int16_t i = 0; i < 4; i++) {
        gpc_sms[8][sizes[8]++] = (int16_t)(124 + i);
        gpc_sms[9][sizes[9]++] = (int16_t)(128 + i);
    }
}

static int compare_sms(const void *one, const void *two) {
    return *(const int16_t *)one - *(const int16_t *)two;
}

static void assert_gpcs(const gs_gpu *gpu, int16_t gpc_sms[10][18], const int32_t *sizes) {
    assert_int_equal(gpu->gpcs, 10);
    assert_int_equal(gpu->gpc_sms.count, 10);
    for (int32_t i = 0, at = 0; i < 10; at = gpu->gpc_sms.ends[i++]) {
        qsort(gpc_sms[i], (size_t)sizes[i], sizeof gpc_sms[i][0], compare_sms);
        assert_int_equal(gpu->gpc_sms.ends[i] - at, sizes[i]);
        assert_memory_equal(gpu->gpc_sms.sms + at, gpc_sms[i], (size_t)sizes[i] * sizeof gpc_sms[i][0]);
    }
}

TEST(clusters_show_gpcs) {
    static const int32_t clusters[] = {16, 16, 16, 16, 16, 16, 16, 16, 2, 2};
    if (test_is_brief())
        skip(); /* a sanitizer sees this code with planted topologies and with packs */
    bool is_long = test_number("GRIDSMITH_RUNS", 100000) >= 100000;
    for (int32_t largest = is_long ? 8 : 16; largest <= 16; largest += 8) {
        int16_t gpc_sms[10][18];
        int32_t sizes[10] = {0};
        plant_columns(gpc_sms, sizes);
        struct planted planted = {10, (const int16_t(*)[18])gpc_sms, sizes, clusters, largest, 0, 0};
        gs_device device = {.ops = &planted_ops,
                            .gpu = gs_gpu_open("h200", NULL),
                            .clusters = 8,
                            .uuid = "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
                            .inside = &planted};
        gs_survey survey = measure(&device, 10);
        assert_gpcs(survey.gpu, gpc_sms, sizes);
        assert_same_order(survey.gpu, device.gpu);
        assert_true(survey.pairs > survey.neighbors && survey.neighbors > 0);
        assert_string_equal(survey.gpu->name, "h200-0a1b2c3d");
        assert_string_equal(survey.gpu->uuid, device.uuid);
        gs_gpu *again = gs_gpu_copy(survey.gpu, NULL);
        assert_non_null(again);
        assert_gpcs(again, gpc_sms, sizes);
        gs_gpu_free(again);
        gs_survey_clear(&survey);
        gs_gpu_free(device.gpu);
    }
}

/* One measurement in three differs: the majority is kept, and the survey reports that it was a majority. */
TEST(a_device_that_does_not_repeat_itself_is_told) {
    if (test_is_brief())
        skip(); /* a sanitizer sees this code in the others */
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_random random = gs_random_at(1, 1);
    set_size(gpu, 8, &random);
    struct planted planted = {.fickle_until = 1};
    gs_device device = {.ops = &planted_ops, .gpu = gpu, .clusters = 1, .inside = &planted};
    gs_survey survey = measure(&device, 20);
    assert_int_equal(survey.order_plays, 3);
    assert_int_equal(survey.order_alike, 2);
    assert_int_equal(survey.tie_order, GS_TIES_EVEN_ODD);
    assert_string_equal(survey.gpu->name, "rtx3090");
    assert_null(survey.gpu->uuid);
    gs_survey_clear(&survey);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
