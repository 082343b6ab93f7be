/*
 * test_recorded_programs.c: recordings of real programs by `gridsmith trace` agree with the times on the GPU.
 *
 * corpus/h200-program-*.jsonl.gz were recorded on an H200. Each launch that another one waits for, by its stream or by
 * name, must have ended before that one started, by the clock of the GPU. So a wrong launch named by the recorder is
 * detected here. And the prediction of which launches overlap must not get worse.
 */
#include "test.h"

#include "model/timeline/timeline.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *file;
    size_t launches, copies; /* copies and memsets */
    size_t edges, triggers;  /* waits besides the stream's order; waits only for the permission to start */
    size_t clusters;         /* launches with clusters */
} programs[] = {
    {"corpus/h200-program-eager.jsonl.gz", 883, 94, 0, 0, 138},
    {"corpus/h200-program-graphs.jsonl.gz", 233, 50, 140, 0, 84},
    {"corpus/h200-program-nccl.jsonl.gz", 1029, 596, 17, 0, 138},
    {"corpus/h200-program-cupy.jsonl.gz", 73, 35, 0, 0, 0},
    {"corpus/h200-program-everything.jsonl.gz", 34, 8, 32, 4, 2},
    {"corpus/h200-program-jax.jsonl.gz", 252, 244, 51, 45, 2},
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
    const char *program = run->origin.program ? run->origin.program : "";
    if (program[0] == '/' || strstr(program, " /"))
        fail_msg("%s names a path of the machine on which it was made: %s", file, program);
    return run;
}

/* The operation that an edge names. */
static const gs_issue *issue_of(const gs_run *run, gs_edge edge) {
    return edge.is_copy ? &run->copies.data[edge.number].issue : &run->launches.data[edge.number].issue;
}

TEST(recordings_have_all_launches) {
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

TEST(launches_waited_for_what_they_name) {
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

TEST(launches_of_a_stream_ran_one_after_the_other) {
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

/* ---- without CUPTI ---- */

/* Registers as they are allocated. CUPTI reports at least 16, and some more than the driver for a few kernels. */
static int32_t allocated(int32_t registers) {
    enum { GRANULE = 8, LEAST = 16 };
    return (int32_t)gs_max(LEAST, (registers + GRANULE - 1) / GRANULE * GRANULE);
}

static void compare_launches(const char *file, const gs_launch *one, const gs_launch *two) {
    const gs_launch_facts *facts = one->issue.facts, *others = two->issue.facts;
    if (strcmp(one->kernel, two->kernel) != 0 || one->blocks != two->blocks || one->cluster != two->cluster ||
        one->priority != two->priority || one->shape.threads != two->shape.threads ||
        one->shape.shared_bytes != two->shape.shared_bytes ||
        one->shape.carveout_percent != two->shape.carveout_percent ||
        allocated(one->shape.registers) != allocated(two->shape.registers) ||
        memcmp(facts->grid, others->grid, sizeof facts->grid) != 0 ||
        memcmp(facts->block, others->block, sizeof facts->block) != 0 ||
        memcmp(facts->cluster_shape, others->cluster_shape, sizeof facts->cluster_shape) != 0 ||
        facts->is_cooperative != others->is_cooperative ||
        (facts->node == GS_NOT_GIVEN) != (others->node == GS_NOT_GIVEN))
        fail_msg("%s: launch %s of %s differs", file, one->issue.id, one->kernel);
}

static void compare_waits(const char *file, const gs_run *one, const gs_issue *first, const gs_run *two,
                          const gs_issue *second) {
    bool is_same = first->after_count == second->after_count;
    for (uint32_t i = 0; i < first->after_count && is_same; i++) {
        gs_edge a = one->edges.data[first->after + i], b = two->edges.data[second->after + i];
        is_same = strcmp(issue_of(one, a)->id, issue_of(two, b)->id) == 0 && a.when == b.when;
    }
    if (!is_same)
        fail_msg("%s: launch %s waits for other launches", file, first->id);
}

/* The launch with this id. Recordings list launches in the order of their records. */
static const gs_launch *with_id(const gs_run *run, const char *id) {
    for (size_t i = 0; i < run->launches.count; i++)
        if (strcmp(run->launches.data[i].issue.id, id) == 0)
            return &run->launches.data[i];
    return NULL;
}

/* The same programs, recorded through CUPTI and by the library in front of the driver, in two processes. */
TEST(both_ways_to_record_agree) {
    static const struct {
        const char *cupti, *driver;
        size_t silent; /* copies without a record of CUPTI */
    } pairs[] = {
        {"corpus/h200-program-graphs.jsonl.gz", "corpus/h200-driver-graphs.jsonl.gz", 0},
        {"corpus/h200-program-jax.jsonl.gz", "corpus/h200-driver-jax.jsonl.gz", 3},
    };
    for (size_t i = 0; i < GS_COUNT(pairs); i++) {
        gs_run *one = read_program(pairs[i].cupti), *two = read_program(pairs[i].driver);
        assert_non_null(strstr(two->origin.lacks, "start_us"));
        assert_int_equal(one->launches.count, two->launches.count);
        assert_int_equal(one->copies.count + pairs[i].silent, two->copies.count);
        for (size_t k = 0; k < one->launches.count; k++) {
            const gs_launch *launch = &one->launches.data[k], *other = with_id(two, launch->issue.id);
            assert_non_null(other);
            compare_launches(pairs[i].driver, launch, other);
            compare_waits(pairs[i].driver, one, &launch->issue, two, &other->issue);
        }
        gs_run_free(one);
        gs_run_free(two);
    }
}

/* ---- configurations ---- */

/* The shared-memory configuration that SMs had, as CUPTI reports it, is the one that the model gives an idle SM. In
   some streams CUPTI reports 32 KB for every kernel, also for those that need more: the recording with many streams
   says nothing about configurations. */
TEST(configurations_are_predicted) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    size_t known = 0, same = 0;
    assert_non_null(gpu);
    for (size_t i = 0; i < GS_COUNT(programs); i++) {
        if (strstr(programs[i].file, "program-streams"))
            continue;
        gs_run *run = read_program(programs[i].file);
        for (size_t k = 0; k < run->launches.count; k++) {
            const gs_launch *launch = &run->launches.data[k];
            gs_need need;
            assert_int_equal(gs_need_of(gpu, &launch->shape, &need, NULL), GS_OK);
            if (launch->issue.facts->shared_config_bytes == GS_NOT_GIVEN)
                continue;
            known++;
            same += launch->issue.facts->shared_config_bytes == need.given_bytes;
            if (launch->issue.facts->shared_config_bytes != need.given_bytes)
                print_message("%s: %s: %lld, not %d\n", programs[i].file, launch->kernel,
                              (long long)launch->issue.facts->shared_config_bytes, need.given_bytes);
        }
        gs_run_free(run);
    }
    gs_gpu_free(gpu);
    assert_true(known > 2400);
    assert_true(same * 1000 >= known * 999);
}

/* ---- a kernel of Gridsmith beside kernels of PyTorch ---- */

static const gs_seen *seen_of(const gs_run *run, size_t launch) {
    return run->events.data[run->launches.data[launch].event].seen;
}

/* Whether all blocks are predicted to start at the same instant. */
static bool starts_at_once(const gs_run *predicted, size_t launch) {
    const gs_seen *seen = seen_of(predicted, launch);
    for (int64_t i = 0; i < predicted->launches.data[launch].blocks; i++)
        if (gs_seen_time(&seen->start_ns, i) != gs_seen_time(&seen->start_ns, 0))
            return false;
    return gs_seen_sm(seen, 0) != GS_WAIT;
}

/* How many launches run when this one starts; -1: one of them has several waves, whose times are not known. */
static int neighbors_of(const gs_run *run, const gs_run *predicted, size_t launch) {
    int64_t start_ns = run->launches.data[launch].issue.start_ns;
    int neighbors = 0;
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_issue *other = &run->launches.data[i].issue;
        if (i == launch || other->start_ns > start_ns || other->end_ns < start_ns)
            continue;
        if (!starts_at_once(predicted, i))
            return -1;
        neighbors++;
    }
    return neighbors;
}

static bool same_blocks_on_each_sm(const gs_seen *one, const gs_seen *two, int64_t blocks) {
    int64_t difference[GS_MAX_SMS] = {0};
    for (int64_t i = 0; i < blocks; i++) {
        difference[gs_seen_sm(one, i)]++;
        difference[gs_seen_sm(two, i)]--;
    }
    for (int i = 0; i < GS_MAX_SMS; i++)
        if (difference[i])
            return false;
    return true;
}

/* Blocks of the probe noted their SMs. Those of launches that found room at once are where they are predicted to be. A
   launch that waits until blocks of others end depends on which of them end first, which no recording says. */
static void compare_probes_of(const char *recording, int least, int least_beside) {
    enum { AT_ONCE_NS = 30000 };
    gs_run *run = read_program(recording);
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_error error = {0};
    gs_run *predicted = gs_predict(gpu, run, NULL, &error);
    int compared = 0, beside = 0, blocks = 0;
    assert_non_null(predicted);
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_launch *launch = &run->launches.data[i];
        if (!seen_of(run, i)->has_placed || !starts_at_once(predicted, i))
            continue;
        int neighbors = neighbors_of(run, predicted, i);
        if (neighbors < 0 || gs_seen_time(&seen_of(predicted, i)->start_ns, 0) - launch->issue.at_ns > AT_ONCE_NS)
            continue;
        compared++;
        beside += neighbors > 0;
        blocks += (int)launch->blocks;
        if (!same_blocks_on_each_sm(seen_of(run, i), seen_of(predicted, i), launch->blocks))
            fail_msg("%s: blocks of launch %s are on other SMs", recording, launch->issue.id);
    }
    print_message("%s: %d launches, %d beside others, %d blocks\n", recording, compared, beside, blocks);
    assert_true(compared >= least && beside >= least_beside);
    gs_run_free(predicted);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST(probes_beside_pytorch_land_where_predicted) {
    compare_probes_of("corpus/h200-program-beside.jsonl.gz", 20, 15);
    compare_probes_of("corpus/h200-program-beside-fresh.jsonl.gz", 60, 50);
}

/* ---- predicted beside measured ---- */

/* Possible overlaps of two launches, and how many of them the prediction must have right. */
static const struct {
    const char *file;
    int64_t possible, measured, both, right;
} overlaps[] = {
    {"corpus/h200-program-graphs.jsonl.gz", 0, 0, 0, 0},
    {"corpus/h200-program-nccl.jsonl.gz", 0, 0, 0, 0},
    {"corpus/h200-program-jax.jsonl.gz", 22, 0, 0, 22},
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

/* Of all possible overlaps in real programs, 98% are predicted right. */
TEST(overlaps_are_predicted) {
    int64_t possible = 0, right = 0;
    bool is_long = test_number("GRIDSMITH_RUNS", 100000) >= 4000;
    for (size_t i = 0; i < GS_COUNT(overlaps); i++) {
        if (!is_long && overlaps[i].possible > 10000)
            continue; /* a sanitizer sees all of the code with the others */
        gs_program_compared compared = compare_program(overlaps[i].file);
        const gs_overlaps *pairs = &compared.predicted.pairs;
        assert_int_equal(pairs->possible, overlaps[i].possible);
        assert_int_equal(pairs->measured, overlaps[i].measured);
        assert_true(pairs->both >= overlaps[i].both);
        assert_true(pairs->right >= overlaps[i].right);
        bool is_synthetic = strstr(overlaps[i].file, "blocks");
        possible += is_synthetic ? 0 : pairs->possible;
        right += is_synthetic ? 0 : pairs->right;
        gs_program_compared_clear(&compared);
    }
    assert_true(!is_long || right * 100 >= possible * 98);
}

TEST_MAIN(NULL, NULL)
