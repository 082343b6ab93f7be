/*
 * test_fuzz_campaign.c: a campaign finds exactly the differences, and its random runs are as they should be.
 */
#include "test.h"

#include "lab/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const char *const four_classes[] = {"plain", "shared", "small", "exits", NULL};

static gs_device *open_device(const char *name) {
    gs_error error;
    gs_device *device = gs_device_open(name, &error);
    if (!device)
        fail_msg("%s: %s", name, error.message);
    return device;
}

/* Plays a campaign of a device against a description. */
static gs_campaign play(const char *device_name, const char *gpu_name, const gs_campaign_options *options) {
    gs_device *device = open_device(device_name);
    gs_gpu *model = gs_gpu_open(gpu_name, NULL);
    gs_campaign campaign;
    gs_error error;
    assert_non_null(model);
    if (gs_campaign_run(device, model, options, &campaign, &error) != GS_OK)
        fail_msg("%s", error.message);
    gs_gpu_free(model);
    gs_device_close(device);
    return campaign;
}

/* ---- campaigns ---- */

TEST(the_model_agrees_with_itself) {
    static const char *const gpus[] = {"rtx3090", "h200", "a100", "v100"};
    const char *classes[32] = {NULL};
    for (size_t i = 0; gs_class_name(i); i++)
        classes[i] = gs_class_name(i);
    int64_t count = (int64_t)test_number("GRIDSMITH_RUNS", 100000) / 100;
    gs_campaign_options options = {.classes = classes, .count = count, .seed = 3, .patient_every = 10};
    for (size_t i = 0; i < GS_COUNT(gpus); i++) {
        char device[32];
        snprintf(device, sizeof device, "model:%s", gpus[i]);
        gs_campaign campaign = play(device, gpus[i], &options);
        gs_score total = gs_scores_total(&campaign.scores);
        assert_int_equal(campaign.played, count);
        assert_int_equal(campaign.mismatches, 0);
        assert_int_equal(campaign.repeated, 0);
        assert_int_equal(campaign.uncovered, 0);
        assert_int_equal(campaign.patient, count / 10);
        assert_int_equal(campaign.patient_alike, count / 10);
        assert_int_equal(total.runs, count);
        assert_int_equal(total.runs_exact, count);
        assert_int_equal(total.launches_exact, total.launches);
        assert_int_equal(total.blocks_exact, total.blocks);
        gs_campaign_clear(&campaign);
    }
}

static bool count_mismatches(void *user, uint64_t index, const gs_run *recorded, bool exact) {
    int64_t *by_class = user;
    assert_string_equal(recorded->class_name, four_classes[index % 4]);
    assert_string_equal(recorded->gpu, "rtx3090");
    assert_int_equal(recorded->id, index);
    by_class[index % 4] += !exact;
    return true;
}

TEST(a_planted_quirk_is_found) {
    static const char *const devices[] = {"model:rtx3090,skip=5", "model:rtx3090,warp_placement=free",
                                          "model:rtx3090,placement=round-robin"};
    for (size_t i = 0; i < GS_COUNT(devices); i++) {
        int64_t differ[4] = {0}, all = 0;
        gs_campaign_options options = {
            .classes = four_classes, .count = 200, .seed = 1, .done = count_mismatches, .user = differ};
        gs_campaign campaign = play(devices[i], "rtx3090", &options);
        assert_int_equal(campaign.scores.count, 4);
        for (size_t j = 0; j < 4; j++) {
            const gs_class_score *class = &campaign.scores.data[j];
            assert_string_equal(class->class_name, four_classes[j]);
            assert_int_equal(class->score.runs, 50);
            assert_int_equal(class->score.runs - class->score.runs_exact, differ[j]);
            all += differ[j];
        }
        print_message("%s: %lld of 200 runs differ\n", devices[i], (long long)all);
        assert_true(all > 0);
        assert_int_equal(campaign.mismatches, all);
        assert_int_equal(campaign.repeated, all);
        assert_int_equal(campaign.repeated_alike, all);
        gs_campaign_clear(&campaign);
    }
}

/* ---- a device that does not repeat itself ---- */

struct hasty {
    gs_device *slow; /* records correctly */
    int64_t hasty, patient;
};

/* In a quick play it records the last block of the first launch as waiting. */
static gs_run *hasty_play(gs_device *device, const gs_run *script, const gs_play_options *options, gs_error *error) {
    struct hasty *hasty = device->inside;
    gs_run *run = gs_device_play(hasty->slow, script, options, error);
    assert_non_null(options->expected);
    ++*(options->patient ? &hasty->patient : &hasty->hasty);
    if (!options->patient && script->id % 5 == 0)
        gs_event_see(&run->events.data[0])->placed.count--;
    return run;
}

TEST(the_patient_recording_counts) {
    static const gs_device_ops ops = {.name = "hasty", .play = hasty_play};
    struct hasty hasty = {.slow = open_device("model:rtx3090")};
    gs_device device = {.ops = &ops, .gpu = hasty.slow->gpu, .clusters = 1, .inside = &hasty};
    gs_campaign_options options = {.classes = four_classes, .count = 100, .seed = 1, .patient_every = 4};
    gs_campaign campaign;
    gs_error error;
    assert_int_equal(gs_campaign_run(&device, hasty.slow->gpu, &options, &campaign, &error), GS_OK);
    assert_int_equal(campaign.mismatches, 0);
    assert_int_equal(campaign.repeated, 20);
    assert_int_equal(campaign.repeated_alike, 0);
    assert_int_equal(campaign.patient, 25);
    assert_int_equal(campaign.patient_alike, 20); /* 3, 7, .. 99 without 15, 35, 55, 75, 95 */
    assert_int_equal(hasty.hasty, 100);
    assert_int_equal(hasty.patient, 40);
    gs_campaign_clear(&campaign);
    gs_device_close(hasty.slow);
}

/* ---- the order of runs ---- */

struct order {
    uint64_t next;  /* the run that must be done next */
    uint64_t until; /* the last one */
    bool is_wrong;
};

static bool check_order(void *user, uint64_t index, const gs_run *recorded, bool exact) {
    struct order *order = user;
    order->is_wrong |= index != order->next || (uint64_t)recorded->id != index || !exact;
    order->next++;
    return index < order->until;
}

/* Other threads have played and predicted more by then. */
TEST(a_campaign_ends_at_the_run_that_ends_it) {
    for (uint64_t last = 0; last < 60; last += 7) {
        struct order order = {.until = last};
        gs_campaign_options options = {
            .classes = four_classes, .count = 60, .seed = 1, .patient_every = 3, .done = check_order, .user = &order};
        gs_campaign campaign = play("model:rtx3090", "rtx3090", &options);
        assert_false(order.is_wrong);
        assert_int_equal(order.next, last + 1);
        assert_int_equal(campaign.played, last + 1);
        assert_int_equal(campaign.patient, (last + 1) / 3);
        assert_int_equal(gs_scores_total(&campaign.scores).runs, last + 1);
        gs_campaign_clear(&campaign);
    }
}

struct failing {
    gs_device *good;
    int64_t at; /* the run that fails */
    bool patient;
};

static gs_run *failing_play(gs_device *device, const gs_run *script, const gs_play_options *options, gs_error *error) {
    const struct failing *failing = device->inside;
    if (script->id != failing->at || options->patient != failing->patient)
        return gs_device_play(failing->good, script, options, error);
    gs_fail(error, GS_E_NO_GPU, "the GPU fell off the bus");
    return NULL;
}

/* What was done before it counts, whether it fails when it is played or when it is played again. */
TEST(a_run_that_fails_is_named) {
    static const gs_device_ops ops = {.name = "failing", .play = failing_play};
    for (int again = 0; again < 2; again++) {
        struct failing failing = {.good = open_device("model:rtx3090"), .at = 23, .patient = again};
        gs_device device = {.ops = &ops, .gpu = failing.good->gpu, .clusters = 1, .inside = &failing};
        struct order order = {.until = 99};
        gs_campaign_options options = {
            .classes = four_classes, .count = 100, .seed = 1, .patient_every = 4, .done = check_order, .user = &order};
        gs_campaign campaign;
        gs_error error;
        assert_int_equal(gs_campaign_run(&device, device.gpu, &options, &campaign, &error), GS_E_NO_GPU);
        assert_string_equal(error.message, "class exits, --seed 1 --index 23: the GPU fell off the bus");
        assert_false(order.is_wrong);
        assert_int_equal(order.next, 23);
        assert_int_equal(campaign.played, 23);
        gs_campaign_clear(&campaign);
        gs_device_close(failing.good);
    }
}

/* If the description of a GPU does not say where clusters go, they are recorded but not scored. */
static gs_run *cluster_play(gs_device *device, const gs_run *script, const gs_play_options *options, gs_error *error) {
    (void)device;
    (void)options;
    gs_run *run = gs_run_copy(script, error);
    for (size_t i = 0; i < run->launches.count; i++)
        gs_event_see(&run->events.data[run->launches.data[i].event])->has_placed = true;
    return run;
}

TEST(clusters_are_counted_aside) {
    static const gs_device_ops ops = {.name = "cluster", .play = cluster_play};
    static const char *const classes[] = {"cluster", NULL};
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    assert_int_equal(gs_gpu_set(gpu, "numbering", "as-placed", NULL), GS_OK);
    gs_device device = {.ops = &ops, .gpu = gpu, .clusters = 8};
    gs_campaign_options options = {.classes = classes, .count = 50, .seed = 1};
    gs_campaign campaign;
    gs_error error;
    assert_int_equal(gs_campaign_run(&device, gpu, &options, &campaign, &error), GS_OK);
    assert_int_equal(campaign.played, 50);
    assert_in_range(campaign.uncovered, 45, 50);
    assert_int_equal(gs_scores_total(&campaign.scores).runs, 50 - campaign.uncovered);
    gs_campaign_clear(&campaign);
    gs_gpu_free(gpu);
}

/* ---- random runs ---- */

/* Statistics of the runs of a class, played by the model. */
struct manner {
    int64_t runs, launches, scored, waiting;
};

static struct manner look_at(const char *gpu_name, const char *class_name, uint64_t count) {
    char name[32];
    snprintf(name, sizeof name, "model:%s", gpu_name);
    gs_device *device = open_device(name);
    assert_int_equal(gs_device_split(device, NULL), GS_OK);
    gs_bounds bounds = gs_device_bounds(device);
    gs_error error;
    struct manner manner = {0};
    for (uint64_t i = 0; i < count; i++) {
        gs_run *script = gs_generate(&bounds, class_name, 1, i, &error);
        gs_run *played = script ? gs_device_play(device, script, NULL, &error) : NULL;
        if (!played)
            fail_msg("%s, %s, seed 1, index %d: %s", gpu_name, class_name, (int)i, error.message);
        size_t all = played->launches.count, at = 0;
        while (at < all && gs_seen_started(played->events.data[played->launches.data[at].event].seen) ==
                               played->launches.data[at].blocks)
            at++;
        manner.runs++;
        manner.launches += (int64_t)all;
        manner.scored += (int64_t)(at < all ? at + 1 : all);
        manner.waiting += at < all;
        gs_run_free(played);
        gs_run_free(script);
    }
    gs_device_close(device);
    return manner;
}

/* A kernel that can never run would end a campaign, and runs that leave the GPU half empty would test little. */
TEST(random_runs_fit_and_fill_the_gpu) {
    static const char *const gpus[] = {"rtx3090", "h200"};
    uint64_t count = gs_max_u64(test_number("GRIDSMITH_RUNS", 100000) / 400, 20);
    for (size_t g = 0; g < GS_COUNT(gpus); g++)
        for (size_t i = 0; gs_class_name(i); i++) {
            struct manner manner = look_at(gpus[g], gs_class_name(i), count);
            double launches = (double)manner.launches / (double)manner.runs;
            double waiting = 100.0 * (double)manner.waiting / (double)manner.runs;
            print_message("%-8s %-9s %4.1f launches a run, %4.1f scored, %3.0f%% come to wait\n", gpus[g],
                          gs_class_name(i), launches, (double)manner.scored / (double)manner.runs, waiting);
            bool has_many = strcmp(gs_class_name(i), "streams") == 0;
            bool is_timed = strcmp(gs_class_name(i), "timed") == 0 || strcmp(gs_class_name(i), "urgent") == 0 ||
                            strcmp(gs_class_name(i), "waiting") == 0;
            assert_true(launches >= 12 && launches <= (has_many ? 80 : 28));
            if (!is_timed)
                assert_true(waiting > 40);
        }
}

TEST(a_run_repeats_from_seed_and_index) {
    gs_device *device = open_device("model:h200");
    assert_int_equal(gs_device_split(device, NULL), GS_OK);
    gs_bounds bounds = gs_device_bounds(device);
    gs_text texts[4] = {0};
    const uint64_t seeds[] = {7, 7, 8, 7}, indices[] = {5, 5, 5, 6};
    for (size_t class = 0; gs_class_name(class); class ++) {
        for (size_t i = 0; i < 4; i++) {
            gs_run *run = gs_generate(&bounds, gs_class_name(class), seeds[i], indices[i], NULL);
            assert_non_null(run);
            run->has_id = false;
            gs_text_clear(&texts[i]);
            gs_run_text(run, &texts[i]);
            gs_run_free(run);
        }
        assert_string_equal(texts[0].data, texts[1].data);
        assert_string_not_equal(texts[0].data, texts[2].data);
        assert_string_not_equal(texts[0].data, texts[3].data);
    }
    for (size_t i = 0; i < 4; i++)
        gs_text_free(&texts[i]);
    gs_device_close(device);
}

/* The first runs of a class. */
static void digest_runs(const gs_bounds *bounds, const char *class_name, char text[65]) {
    enum { COUNT = 40 };
    gs_digest digest;
    unsigned char bytes[32];
    gs_digest_begin(&digest);
    for (uint64_t i = 0; i < COUNT; i++) {
        gs_run *run = gs_generate(bounds, class_name, 3, i, NULL);
        gs_text line = {0};
        gs_run_text(run, &line);
        gs_digest_add_text(&digest, line.data);
        gs_text_free(&line);
        gs_run_free(run);
    }
    gs_digest_end(&digest, bytes);
    gs_digest_hex(bytes, text);
}

/* What was found with a seed and an index is reported with these: later versions must draw the same run. A class that
   is added gets a row. */
TEST(seeds_of_reports_stay_valid) {
    static const struct {
        const char *class_name, *on_rtx3090, *on_h200;
    } rows[] = {
        {"plain", "eb70b5fd9736", "e94abb36bbfc"},       {"shared", "200e413291bc", "a470038095ab"},
        {"small", "c60b833975ac", "94dbf5c03cc6"},       {"exits", "f42a07b7ccca", "74be1a07d771"},
        {"timed", "0ef63d42525f", "b2d49a04045c"},       {"local", "41421dd21deb", "6f8ae5879fca"},
        {"cluster", "ead7c2218c46", "a3535f800b8e"},     {"priority", "b08a885c5a7e", "3d5c57e3012d"},
        {"carveout", "5e27b036dfbe", "bd74ebd7bf65"},    {"urgent", "34cb26973e1f", "ef4957926952"},
        {"graph", "d70c3950522d", "84c7bfd2e0f5"},       {"programmatic", "803f68e21d55", "3a13a910deca"},
        {"cooperative", "e5e2c09ffaf0", "fdcd9d7413d6"}, {"green", "17b135b694f9", "27f176a20d8e"},
        {"streams", "edb401f41edc", "13f8cbfa2973"},     {"memory", "f0199941edcb", "00d666ea38d2"},
        {"confined", "0e183bb2eb4a", "0256070fe65b"},    {"mixed", "fb10451d74dd", "d86c37ddc936"},
        {"waiting", "e0ed5793e2ec", "52cdfd5732db"},
    };
    static const char *const gpus[] = {"model:rtx3090", "model:h200"};
    for (size_t g = 0; g < GS_COUNT(gpus); g++) {
        gs_device *device = open_device(gpus[g]);
        assert_int_equal(gs_device_split(device, NULL), GS_OK);
        gs_bounds bounds = gs_device_bounds(device);
        for (size_t i = 0; gs_class_name(i); i++) {
            char text[65];
            assert_true(i < GS_COUNT(rows));
            assert_string_equal(rows[i].class_name, gs_class_name(i));
            digest_runs(&bounds, gs_class_name(i), text);
            text[12] = '\0';
            assert_string_equal(g ? rows[i].on_h200 : rows[i].on_rtx3090, text);
        }
        gs_device_close(device);
    }
}

TEST_MAIN(NULL, NULL)
