/*
 * test_scores.c: scores of predictions. A run is recorded on one random GPU and predicted for another one, whose blocks
 * go elsewhere; parts of the observations are lost, or say something else. What the scores are is compared with
 * tests/run/scores.txt: a line for each case. A change of them should be one that was meant: with GRIDSMITH_WRITE=1 the
 * file is written anew.
 *
 * What must hold for each score is checked, too.
 */
#include "test.h"

#include "lab/device/device.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

enum { CASES = 120, RUNS = 25 };

/* A random run on this GPU: with graphs, streams, or with few connections. */
static gs_run *draw_run(gs_random *random, const gs_gpu *gpu) {
    static const char *const classes[] = {"streams", "graph", "programmatic", "exits", "waiting"};
    gs_bounds bounds = gs_bounds_of(gpu, 1);
    int64_t which = gs_random_from(random, 0, GS_COUNT(classes) + 1);
    if (which == GS_COUNT(classes))
        return random_run(random, gpu);
    if (which > (int64_t)GS_COUNT(classes))
        return random_modern_run(random, gpu);
    bounds.connections = (int32_t)gs_random_from(random, 0, 3);
    return gs_generate(&bounds, classes[which], 41, gs_random_next(random), NULL);
}

/* The same GPU with some other mechanisms, except for those that need more than a switch. */
static gs_gpu *draw_other(gs_random *random, uint64_t index) {
    gs_random again = gs_random_at(40, index);
    gs_gpu *other = random_gpu(&again, 50);
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        int values = 0, *value = gs_mechanism_value(&other->mechanisms, &gs_mechanism_table[i]);
        while (gs_mechanism_table[i].values[values])
            values++;
        if (value != (int *)&other->mechanisms.numbering && value != (int *)&other->mechanisms.tie_order &&
            gs_random_chance(random, 15))
            *value = (int)gs_random_from(random, 0, values - 1);
    }
    return other;
}

/* An observation says that a block is elsewhere, or that it waits. */
static void change_seen(gs_random *random, gs_run *run) {
    for (size_t i = 0; i < run->events.count; i++) {
        if (!run->events.data[i].seen->placed.count || gs_random_from(random, 0, 9))
            continue;
        gs_seen *seen = gs_event_see(&run->events.data[i]);
        assert_non_null(seen);
        size_t block = (size_t)gs_random_from(random, 0, (int64_t)seen->placed.count - 1);
        seen->placed.data[block] = (int16_t)gs_random_from(random, -1, 3);
    }
}

static void add_run(gs_score *score, uint64_t index) {
    gs_random random = gs_random_at(40, index);
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = random_gpu(&random, 50), *other = draw_other(&random, index);
    gs_run *run = draw_run(&random, gpu);
    assert_non_null(run);
    gs_run *recorded = gs_predict(gpu, run, NULL, &error);
    gs_run *predicted = recorded ? gs_predict(other, run, NULL, &error) : NULL;
    gs_score before = *score;
    if (predicted) {
        change_seen(&random, gs_random_from(&random, 0, 1) ? recorded : predicted);
        assert_int_equal(gs_score_add(score, recorded, predicted, &error), GS_OK);
        assert_int_equal(score->runs, before.runs + 1);
        bool is_exact = score->launches_exact - before.launches_exact == score->launches - before.launches;
        assert_int_equal(score->runs_exact - before.runs_exact, is_exact);
        assert_true(score->launches - before.launches <= (int64_t)run->launches.count);
    }
    gs_run_free(run);
    gs_run_free(recorded);
    gs_run_free(predicted);
    gs_gpu_free(gpu);
    gs_gpu_free(other);
}

TEST(scores_are_as_before) {
    bool is_written = test_number("GRIDSMITH_WRITE", 0) != 0;
    FILE *file = fopen(test_path("tests/run/scores.txt"), is_written ? "w" : "r");
    assert_non_null(file);
    for (uint64_t i = 0; i < CASES; i++) {
        char line[200], wanted[200] = "";
        gs_score score = {0};
        for (uint64_t k = 0; k < RUNS; k++)
            add_run(&score, i * RUNS + k);
        snprintf(line, sizeof line, "runs %lld/%lld launches %lld/%lld blocks %lld/%lld\n", (long long)score.runs_exact,
                 (long long)score.runs, (long long)score.launches_exact, (long long)score.launches,
                 (long long)score.blocks_exact, (long long)score.blocks);
        if (is_written)
            fputs(line, file);
        else if (!fgets(wanted, sizeof wanted, file) || strcmp(line, wanted) != 0)
            fail_msg("scores.txt:%d: now %s", (int)i + 1, line);
    }
    fclose(file);
}

TEST_MAIN(NULL, NULL)
