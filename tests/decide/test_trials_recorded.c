/*
 * test_trials_recorded.c: what the daemon makes of pairs of an H200 that it has never seen.
 *
 * 28 pairs of kernels were measured in all ways to run them, twice (corpus/h200-plan-ways.txt, h200-plan-ways-2.txt).
 * Two clients launch the kernels of a pair for a minute. The decisions say how they run, the recording says how fast
 * they are then, and that is measured as by the daemon. So it is known how many trials it took, how much was done, and
 * how much is done in the end: compared with serial execution as the GPU mixes it, which is what MPS does, and with the
 * best of all ways.
 */
#include "decide_support.h"
#include "recorded_ways.h"

#include <math.h>
#include <stdlib.h>

enum { SERIAL_MS = 50, TRIAL_MS = 20, MINUTE_MS = 60000, MOST_TRIALS = 5 };

/* A pair, by its kernels. */
struct played {
    const struct recorded *recorded;
    int32_t kernels[2];
    double written_us[2]; /* alone, as written */
    double serial;        /* throughput as the GPU mixes them */
    const gs_profile *profiles[2];
};

/* What a pair came to. */
struct came {
    double done, end, best; /* throughput in all, at the end, and of the best way */
    int trials;
};

/* ---- what was recorded ---- */

/* How long a kernel takes alone with a number of workers, or as written. */
static double alone_us(const struct recorded *recorded, enum gs_measure measure, int32_t kernel, int32_t workers) {
    double us = 0;
    int nearest = INT32_MAX;
    for (size_t i = 0; i < recorded->count; i++) {
        const gs_measurement *made = &recorded->rows[i].measurement;
        int away = abs(made->sides[0].workers - workers);
        if (made->measure == measure && made->sides[0].kernel == kernel && !made->sides[0].registers &&
            !made->sides[0].sms && away < nearest) {
            nearest = away;
            us = recorded->rows[i].result.us;
        }
    }
    return us;
}

/* The shares of both while they run together. The one that ended later had the GPU to itself in the end, with the same
   workers, or on the same SMs. */
static void shares_of(const struct played *pair, const struct recorded_row *row, double shares[2]) {
    const gs_measure_side *sides = row->measurement.sides;
    int later = row->result.side_us[1] > row->result.side_us[0], sooner = !later;
    double until = row->result.side_us[sooner], after = row->result.side_us[later] - until;
    double work = pair->written_us[later] * sides[later].repeats;
    double rate = pair->written_us[later] /
                  alone_us(pair->recorded, GS_MEASURE_ALONE, pair->kernels[later], sides[later].workers);
    if (sides[later].sms > 0)
        rate = gs_profile_share(pair->profiles[later], sides[later].sms);
    shares[sooner] = pair->written_us[sooner] * sides[sooner].repeats / until;
    shares[later] = fmax(work - after * rate, 0.01 * work) / until;
}

/* The row of a pair that is nearest to these workers, or to these SMs of the first. */
static const struct recorded_row *row_of(const struct played *pair, enum gs_measure measure, const int32_t workers[2],
                                         int32_t first_sms) {
    const struct recorded_row *found = NULL;
    int nearest = INT32_MAX;
    for (size_t i = 0; i < pair->recorded->count; i++) {
        const struct recorded_row *row = &pair->recorded->rows[i];
        const gs_measure_side *sides = row->measurement.sides;
        if (row->measurement.measure != measure || row->result.is_failed || sides[0].kernel != pair->kernels[0] ||
            sides[1].kernel != pair->kernels[1] || sides[0].registers || sides[1].registers)
            continue;
        int away = measure == GS_MEASURE_SPLIT
                       ? abs(sides[0].sms - first_sms)
                       : abs(sides[0].workers - workers[0]) + abs(sides[1].workers - workers[1]);
        if (away < nearest) {
            nearest = away;
            found = row;
        }
    }
    return found;
}

/* The highest throughput of all ways, while both run. */
static double best_of(const struct played *pair) {
    double best = fmax(pair->serial, 1), shares[2];
    for (size_t i = 0; i < pair->recorded->count; i++) {
        const struct recorded_row *row = &pair->recorded->rows[i];
        const gs_measure_side *sides = row->measurement.sides;
        bool is_shared =
            row->measurement.measure == GS_MEASURE_INTRA_SM || row->measurement.measure == GS_MEASURE_SPLIT;
        if (!is_shared || row->result.is_failed || sides[0].kernel != pair->kernels[0] ||
            sides[1].kernel != pair->kernels[1] || sides[0].registers || sides[1].registers)
            continue;
        shares_of(pair, row, shares);
        if (fmin(shares[0], shares[1]) >= 0.45)
            best = fmax(best, shares[0] + shares[1]);
    }
    return best;
}

/* ---- playing ---- */

static gs_profile *profile_of(const struct played *pair, plan_scene *scene, int i) {
    const struct recorded *recorded = pair->recorded;
    const gs_pair_search_kernel *given = &recorded->given[pair->kernels[i]];
    gs_profile *profile = gs_profile_store_get(scene->store, (uint64_t)i + 1, given->name, (uint64_t)given->blocks);
    assert_non_null(profile);
    profile->worker = given->forms[0];
    gs_profile_ran(profile, false, profile->blocks, (uint64_t)(pair->written_us[i] * 1000));
    for (size_t k = 0; k < recorded->count; k++) {
        const struct recorded_row *row = &recorded->rows[k];
        const gs_measure_side *side = &row->measurement.sides[0];
        if (row->measurement.measure == GS_MEASURE_ALONE && side->kernel == pair->kernels[i] && !side->registers &&
            side->sms > 0)
            for (int sample = 0; sample < 3; sample++)
                gs_profile_rate(profile, side->sms, profile->blocks, (uint64_t)(row->result.us * 1000));
    }
    return profile;
}

static plan_scene scene_of(struct played *pair) {
    plan_scene scene = plan_new_scene();
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    assert_int_equal(gs_profile_store_predict(scene.store, gpu, NULL), GS_OK);
    gs_gpu_free(gpu);
    scene.options.tries_intra_sm = true;
    scene.count = 2;
    for (int i = 0; i < 2; i++) {
        pair->profiles[i] = profile_of(pair, &scene, i);
        scene.contenders[i] = plan_waiting(pair->profiles[i], (uint32_t)i);
        scene.contenders[i].stream = (uint64_t)i + 1;
    }
    return scene;
}

/* Runs both as decided for a while, and measures it as the daemon does. Returns the throughput. */
static double run_decided(const struct played *pair, plan_scene *scene, double ms) {
    const gs_decided_place *places = scene->placements;
    const int32_t workers[2] = {places[0].workers, places[1].workers};
    bool is_inside = workers[0] > 0, is_split = !is_inside && places[0].how == GS_DECIDE_CONFINED &&
                                                places[1].how == GS_DECIDE_CONFINED && places[0].sms < SMS;
    double shares[2] = {pair->serial / 2, pair->serial / 2};
    gs_beside both[2];
    if (is_inside || is_split)
        shares_of(pair, row_of(pair, is_inside ? GS_MEASURE_INTRA_SM : GS_MEASURE_SPLIT, workers, places[0].sms),
                  shares);
    for (int i = 0; i < 2; i++) {
        gs_profile *profile = (gs_profile *)scene->contenders[i].profile;
        both[i] = (gs_beside){profile, is_split ? places[i].sms : 0, (uint64_t)(ms * 1e6 * shares[i] * profile->alone)};
        scene->contenders[i].served += (uint64_t)(ms * 1e6 * shares[i] * SMS);
    }
    if (is_inside)
        gs_profile_store_intra_sm(scene->store, &both[0], &both[1], workers, (uint64_t)(ms * 1e6));
    else if (is_split)
        gs_profile_store_inter_sm(scene->store, &both[0], &both[1], (uint64_t)(ms * 1e6));
    else
        gs_profile_store_serial(scene->store, &both[0], &both[1], (uint64_t)(ms * 1e6));
    return shares[0] + shares[1];
}

static struct came play_pair(struct played *pair) {
    plan_scene scene = scene_of(pair);
    struct came came = {.best = best_of(pair)};
    double done_ms = 0, late_ms = 0, late_done_ms = 0, passed_ms = 0;
    while (passed_ms < MINUTE_MS) {
        plan_decide(&scene);
        bool is_trial = scene.placements[0].is_trial && scene.placements[0].workers > 0;
        double ms = is_trial ? TRIAL_MS : SERIAL_MS, throughput = run_decided(pair, &scene, ms);
        came.trials += is_trial;
        passed_ms += ms;
        done_ms += ms * throughput;
        if (passed_ms > MINUTE_MS / 2) {
            late_ms += ms;
            late_done_ms += ms * throughput;
        }
    }
    gs_profile_store_close(scene.store);
    came.done = done_ms / passed_ms;
    came.end = late_done_ms / late_ms;
    return came;
}

static void expect_never_behind(const char *path) {
    struct recorded *recorded = recorded_read(path, 0);
    double least = 1, sum = 0;
    int trials = 0, pairs = 0, near_best = 0;
    for (int32_t a = 0; a < (int32_t)recorded->kernels; a++)
        for (int32_t b = 0; b < (int32_t)recorded->kernels; b++) {
            struct played pair = {.recorded = recorded, .kernels = {a, b}};
            const struct recorded_row *turns = a == b ? NULL : row_of(&pair, GS_MEASURE_SERIAL, (int32_t[2]){0}, 0);
            if (!turns)
                continue;
            for (int i = 0; i < 2; i++)
                pair.written_us[i] = alone_us(recorded, GS_MEASURE_WRITTEN, pair.kernels[i], 0);
            pair.serial = (pair.written_us[0] * turns->measurement.sides[0].repeats +
                           pair.written_us[1] * turns->measurement.sides[1].repeats) /
                          turns->result.us;
            struct came came = play_pair(&pair);
            double of_serial = came.done / pair.serial;
            print_message(
                "%-14s %-14s serial %.3f, done %.3f, in the end %.3f, best %.3f: %+.1f%%, %+.1f%%; %d trials\n",
                recorded->given[a].name, recorded->given[b].name, pair.serial, came.done, came.end, came.best,
                100 * (came.end / pair.serial - 1), 100 * (came.end / came.best - 1), came.trials);
            least = fmin(least, of_serial);
            sum += came.end / came.best;
            near_best += came.end > 0.98 * came.best;
            trials += came.trials;
            pairs++;
            assert_true(came.trials <= MOST_TRIALS);
        }
    print_message(
        "%d pairs: at least %.1f%% of serial execution; in the end %.1f%% of the best way on average, %d within "
        "2%%; %.1f trials\n",
        pairs, 100 * least, 100 * sum / pairs, near_best, (double)trials / pairs);
    assert_int_equal(pairs, RECORDED_KERNELS * (RECORDED_KERNELS - 1) / 2);
    assert_true(least > 0.99 && sum / pairs > 0.97);
    free(recorded);
}

TEST(trials_of_an_h200_cost_next_to_nothing) {
    expect_never_behind(GRIDSMITH_SOURCE "/corpus/h200-plan-ways.txt");
}

TEST(trials_of_another_h200_cost_next_to_nothing) {
    expect_never_behind(GRIDSMITH_SOURCE "/corpus/h200-plan-ways-2.txt");
}

TEST_MAIN(NULL, NULL)
