/*
 * test_recorded.c: recordings of real programs by `gridsmith trace` say what happened on the GPU.
 *
 * corpus/h200-program-*.jsonl.gz were recorded on an H200. Whatever a launch waits for, by its stream or by name, must
 * have ended before the launch started, by the clock of the GPU: if the recorder named the wrong launch, it shows here.
 * And the prediction of which launches overlap must not get worse.
 */
#include "test.h"

#include "sched/sched.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *file;
    size_t launches, copies; /* copies and memsets */
    size_t edges, triggers;  /* what is waited for besides the stream's order; and only for the permission to start */
    size_t clusters;         /* launches with clusters */
} programs[] = {
    {"corpus/h200-program-eager.jsonl.gz", 883, 94, 0, 0, 138},
    {"corpus/h200-program-graphs.jsonl.gz", 233, 50, 140, 0, 84},
    {"corpus/h200-program-nccl.jsonl.gz", 1029, 596, 17, 0, 138},
    {"corpus/h200-program-cupy.jsonl.gz", 73, 35, 0, 0, 0},
    {"corpus/h200-program-everything.jsonl.gz", 34, 8, 32, 4, 2},
    {"corpus/h200-program-jax.jsonl.gz", 258, 244, 57, 51, 2},
    {"corpus/h200-program-streams.jsonl.gz", 3851, 750, 1118, 0, 1247},
    {"corpus/h200-program-cupy-streams.jsonl.gz", 293, 0, 0, 0, 0},
    {"corpus/h200-program-blocks.jsonl.gz", 648, 654, 17, 0, 0},
};

static gs_run *read_program(const char *file) {
    gs_error error = {0};
    gs_runs *runs = gs_runs_open(test_path(file), &error);
    gs_run *run = runs ? gs_runs_next(runs, &error) : NULL;
    if (!run)
        fail_msg("%s: %s", file, error.message);
    gs_runs_close(runs);
    return run;
}

/* What an edge names. */
static const gs_issue *issue_of(const gs_run *run, gs_edge edge) {
    return edge.is_copy ? &run->copies.data[edge.number].issue : &run->launches.data[edge.number].issue;
}

static void recordings_have_all_launches(void **state) {
    (void)state;
    for (size_t i = 0; i < GS_COUNT(programs); i++) {
        gs_run *run = read_program(programs[i].file);
        size_t clusters = 0, triggers = 0;
        for (size_t k = 0; k < run->launches.count; k++)
            clusters += run->launches.data[k].cluster > 1;
        for (size_t k = 0; k < run->edges.count; k++)
            triggers += run->edges.data[k].when == GS_AT_TRIGGER;
        assert_true(run->has_ended);
        assert_string_equal(run->gpu, "h200");
        assert_int_equal(run->launches.count, programs[i].launches);
        assert_int_equal(run->copies.count, programs[i].copies);
        assert_int_equal(run->edges.count, programs[i].edges);
        assert_int_equal(triggers, programs[i].triggers);
        assert_int_equal(clusters, programs[i].clusters);
        gs_run_free(run);
    }
}

static void check_issue(const char *file, const gs_run *run, const gs_issue *issue) {
    if (issue->start_ns < issue->at_ns)
        fail_msg("%s: %s started before it was launched", file, issue->id);
    for (uint32_t i = 0; i < issue->after_count; i++) {
        gs_edge edge = run->edges.data[issue->after + i];
        const gs_issue *before = issue_of(run, edge);
        if (edge.when == GS_AT_END ? issue->start_ns < before->end_ns : issue->start_ns < before->start_ns)
            fail_msg("%s: %s did not wait for %s", file, issue->id, before->id);
    }
}

static void launches_waited_for_what_they_name(void **state) {
    (void)state;
    for (size_t i = 0; i < GS_COUNT(programs); i++) {
        gs_run *run = read_program(programs[i].file);
        for (size_t k = 0; k < run->launches.count; k++)
            check_issue(programs[i].file, run, &run->launches.data[k].issue);
        for (size_t k = 0; k < run->copies.count; k++)
            check_issue(programs[i].file, run, &run->copies.data[k].issue);
        gs_run_free(run);
    }
}

/* Whether a launch may start before the one before it in its stream has ended. */
static bool is_early(const gs_run *run, const gs_issue *issue) {
    for (uint32_t i = 0; i < issue->after_count; i++)
        if (run->edges.data[issue->after + i].when != GS_AT_END)
            return true;
    return false;
}

static void launches_of_a_stream_ran_one_after_the_other(void **state) {
    (void)state;
    for (size_t i = 0; i < GS_COUNT(programs); i++) {
        gs_run *run = read_program(programs[i].file);
        for (size_t k = 1; k < run->launches.count; k++) {
            const gs_launch *launch = &run->launches.data[k], *before = NULL;
            for (size_t m = k; m-- > 0 && !before && launch->stream;)
                if (run->launches.data[m].stream == launch->stream)
                    before = &run->launches.data[m];
            if (before && launch->issue.start_ns < before->issue.end_ns && !is_early(run, &launch->issue))
                fail_msg("%s: %s did not wait for %s", programs[i].file, launch->issue.id, before->issue.id);
        }
        gs_run_free(run);
    }
}

/* ---- predicted beside measured ---- */

/* Pairs of launches that could overlap, and how many of them the prediction had right when this was written. */
static const struct {
    const char *file;
    int64_t possible, measured, both, right;
} overlaps[] = {
    {"corpus/h200-program-graphs.jsonl.gz", 0, 0, 0, 0},
    {"corpus/h200-program-nccl.jsonl.gz", 0, 0, 0, 0},
    {"corpus/h200-program-jax.jsonl.gz", 26, 1, 0, 22},
    {"corpus/h200-program-streams.jsonl.gz", 20799, 1108, 1015, 20479},
    {"corpus/h200-program-cupy-streams.jsonl.gz", 59, 23, 19, 54},
    {"corpus/h200-program-blocks.jsonl.gz", 2016, 979, 928, 1892},
};

static gs_program_compared compare_program(const char *file) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_run *run = read_program(file);
    gs_timeline played, followed;
    gs_program_compared compared;
    assert_non_null(gpu);
    assert_int_equal(gs_timeline_play(gpu, gpu, run, NULL, &played, NULL), GS_OK);
    assert_int_equal(gs_timeline_follow(gpu, run, &played, &followed, NULL), GS_OK);
    assert_int_equal(gs_program_compare(run, &played, &followed, &compared, NULL), GS_OK);
    gs_timeline_clear(&played);
    gs_timeline_clear(&followed);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return compared;
}

/* Of all pairs that could overlap in real programs, 98% are predicted right. */
static void overlaps_are_predicted(void **state) {
    (void)state;
    int64_t possible = 0, right = 0;
    for (size_t i = 0; i < GS_COUNT(overlaps); i++) {
        gs_program_compared compared = compare_program(overlaps[i].file);
        const gs_pairs *pairs = &compared.pairs;
        assert_int_equal(pairs->possible, overlaps[i].possible);
        assert_int_equal(pairs->measured, overlaps[i].measured);
        assert_true(pairs->both >= overlaps[i].both);
        assert_true(pairs->right >= overlaps[i].right);
        bool is_synthetic = strstr(overlaps[i].file, "blocks");
        possible += is_synthetic ? 0 : pairs->possible;
        right += is_synthetic ? 0 : pairs->right;
        gs_program_compared_clear(&compared);
    }
    assert_true(right * 100 >= possible * 98);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_have_all_launches),
        cmocka_unit_test(launches_waited_for_what_they_name),
        cmocka_unit_test(launches_of_a_stream_ran_one_after_the_other),
        cmocka_unit_test(overlaps_are_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
