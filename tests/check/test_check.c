/*
 * test_check.c: `check` gives the same answer as trying every order of every subset, and names a set that fails.
 */
#include "test.h"

#include "literal.h"
#include "model/check/check.h"
#include "model/timeline/timeline.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

/* Whether blocks of the last of these kernels wait while all before it fit; -1: one before it does not fit. */
static int last_waits(const gs_gpu *gpu, const gs_run *run, const size_t *order, size_t count) {
    gs_run *played = gs_run_new(NULL);
    gs_error error;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(gs_run_copy_launch(played, &run->launches.data[order[i]], &error), GS_OK);
    gs_run *prediction = gs_predict(gpu, played, NULL, &error);
    assert_non_null(prediction);
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        bool fits = gs_seen_started(prediction->events.data[i].seen) == played->launches.data[i].blocks;
        if (!fits && result == 0)
            result = i + 1 == count ? 1 : -1;
    }
    gs_run_free(prediction);
    gs_run_free(played);
    return result;
}

/* Tries all sequences of `length` kernels; true: one of them fails at its last kernel. */
static bool some_sequence_fails(const gs_gpu *gpu, const gs_run *run, size_t *order, size_t depth, size_t length,
                                unsigned used) {
    if (depth == length)
        return last_waits(gpu, run, order, length) == 1;
    for (size_t i = 0; i < run->launches.count; i++) {
        if (used >> i & 1)
            continue;
        order[depth] = i;
        if (some_sequence_fails(gpu, run, order, depth + 1, length, used | 1u << i))
            return true;
    }
    return false;
}

static bool some_order_works(const gs_gpu *gpu, const gs_run *run, size_t *order, size_t depth, unsigned used) {
    if (depth == run->launches.count)
        return last_waits(gpu, run, order, depth) == 0;
    for (size_t i = 0; i < run->launches.count; i++) {
        if (used >> i & 1)
            continue;
        order[depth] = i;
        if (some_order_works(gpu, run, order, depth + 1, used | 1u << i))
            return true;
    }
    return false;
}

/* Kernels that nearly fill a small GPU, without streams, exits, priorities or durations. */
static gs_run *draw_kernels(gs_random *random, const gs_gpu *gpu) {
    gs_run *run = gs_run_new(NULL);
    int64_t count = gs_random_from(random, 1, 4);
    for (int64_t i = 0; i < count; i++) {
        gs_launch launch = numbered_launch(i);
        launch.shape = random_shape(random, gpu);
        launch.blocks = gs_random_from(random, 1, gpu->sms * 2);
        random_cluster(random, gpu, &launch);
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    return run;
}

static void compare_with_all_orders(const gs_gpu *gpu, const gs_run *run, uint64_t index, size_t *answers) {
    size_t order[8], smallest = 0;
    gs_check check;
    gs_error error;
    assert_int_equal(gs_check_run(gpu, run, 1000000, NULL, &check, &error), GS_OK);
    for (size_t length = 1; length <= run->launches.count && !smallest; length++)
        if (some_sequence_fails(gpu, run, order, 0, length, 0))
            smallest = length;
    if (check.smallest.order.count != smallest || (check.in_any_order == GS_ANSWER_YES) != (smallest == 0))
        fail_msg("index %llu: the smallest set that fails has %zu kernels, not %zu", (unsigned long long)index,
                 smallest, check.smallest.order.count);
    if (smallest)
        assert_int_equal(last_waits(gpu, run, check.smallest.order.data, smallest), 1);
    if (check.in_this_order == GS_ANSWER_NO) {
        assert_int_equal(check.works.count > 0, some_order_works(gpu, run, order, 0, 0));
        assert_int_equal(check.none_works, check.works.count == 0);
        if (check.works.count)
            assert_int_equal(last_waits(gpu, run, check.works.data, check.works.count), 0);
    }
    answers[check.in_this_order == GS_ANSWER_YES ? (smallest ? 1 : 0) : check.works.count ? 2 : 3]++;
    gs_check_clear(&check);
}

TEST(check_agrees_with_trying_everything) {
    size_t answers[4] = {0}; /* always yes, only here yes, only elsewhere yes, never */
    for (uint64_t i = 0; i < test_number("GRIDSMITH_RUNS", 100000) / 100; i++) {
        gs_random random = gs_random_at(11, i);
        gs_gpu *gpu = random_gpu(&random, i % 2 ? 50 : 0);
        gs_run *run = draw_kernels(&random, gpu);
        if (i % 4 == 0)
            gpu->limits.kernels_per_gpu = (int32_t)gs_random_from(&random, 1, 4);
        compare_with_all_orders(gpu, run, i, answers);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("always %zu, only in this order %zu, only in another %zu, never %zu\n", answers[0], answers[1],
                  answers[2], answers[3]);
    for (size_t i = 0; i < 4; i++)
        assert_true(answers[i] > 0);
}

static void compare_orders(const gs_order *wanted, const gs_order *found, uint64_t index) {
    if (wanted->count != found->count ||
        (wanted->count && memcmp(wanted->data, found->data, wanted->count * sizeof *wanted->data) != 0))
        fail_msg("index %llu: %zu kernels, not %zu, or others", (unsigned long long)index, found->count, wanted->count);
}

static void compare_conflicts(const gs_conflict *wanted, const gs_conflict *found, uint64_t index) {
    compare_orders(&wanted->order, &found->order, index);
    assert_int_equal(wanted->waiting, found->waiting);
    assert_int_equal(wanted->room, found->room);
    assert_string_equal(wanted->why.data ? wanted->why.data : "", found->why.data ? found->why.data : "");
}

/* Runs with exits and streams, or many kernels of few shapes. */
static gs_run *draw_run(gs_random *random, const gs_gpu *gpu, uint64_t index) {
    if (index % 3 == 0)
        return random_run(random, gpu);
    gs_run *run = gs_run_new(NULL);
    gs_shape shapes[4];
    int64_t count = gs_random_from(random, 1, 60);
    if (gs_random_chance(random, 20))
        random_green_contexts(random, gpu, &run->green_contexts);
    for (size_t i = 0; i < GS_COUNT(shapes); i++)
        shapes[i] = random_shape(random, gpu);
    for (int64_t i = 0; i < count; i++) {
        gs_launch launch = numbered_launch(i);
        gs_launch_facts facts = gs_launch_facts_none();
        facts.is_cooperative = gs_random_chance(random, 10);
        facts.green_context = gs_random_from(random, -1, run->green_contexts.count - 1);
        launch.issue.facts = &facts;
        launch.shape = shapes[gs_random_from(random, 0, GS_COUNT(shapes) - 1)];
        launch.blocks = gs_random_from(random, 1, 3);
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
        size_t leaver = (size_t)gs_random_from(random, 0, i);
        if (index % 3 == 1 && gs_random_chance(random, 60) && run->launches.data[leaver].exit == SIZE_MAX)
            assert_non_null(gs_run_add_event(run, GS_EXIT, leaver, NULL));
    }
    return run;
}

TEST(check_agrees_with_the_obvious_way) {
    size_t reduced = 0;
    for (uint64_t i = 0; i < test_number("GRIDSMITH_RUNS", 100000) / 40; i++) {
        gs_random random = gs_random_at(12, i);
        gs_gpu *gpu = random_gpu(&random, i % 2 ? 50 : 0);
        gs_run *run = draw_run(&random, gpu, i);
        if (i % 4 == 0)
            gpu->limits.kernels_per_gpu = (int32_t)gs_random_from(&random, 1, 20);
        int64_t budget = gs_random_from(&random, 0, 300);
        gs_check wanted, found;
        assert_int_equal(literal_check_run(gpu, run, budget, &wanted, NULL),
                         gs_check_run(gpu, run, budget, NULL, &found, NULL));
        compare_conflicts(&wanted.here, &found.here, i);
        compare_conflicts(&wanted.smallest, &found.smallest, i);
        compare_orders(&wanted.works, &found.works, i);
        assert_int_equal(wanted.in_this_order, found.in_this_order);
        assert_int_equal(wanted.in_any_order, found.in_any_order);
        assert_int_equal(wanted.is_least, found.is_least);
        assert_int_equal(wanted.none_works, found.none_works);
        assert_int_equal(wanted.searched, found.searched);
        reduced += found.smallest.order.count && !found.is_least;
        gs_check_clear(&wanted);
        gs_check_clear(&found);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%zu conflicts reduced\n", reduced);
    assert_true(reduced > 0);
}

#define K(name, rest)                                                                                                  \
    "{\"op\":\"launch\",\"kernel\":\"" name                                                                            \
    "\",\"blocks\":82,\"threads\":1024,\"registers\":32,\"shared_bytes\":0" rest "}"
#define RUN(events) "{\"schema\":\"gridsmith.run/1\",\"events\":[" events "]}"

static gs_check check_text(const char *text, int64_t budget) {
    gs_run *run = test_run_of(text);
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_check check;
    gs_error error;
    assert_int_equal(gs_check_run(gpu, run, budget, NULL, &check, &error), GS_OK);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return check;
}

TEST(kernels_of_one_stream_are_never_together) {
    gs_check check = check_text(RUN(K("a", ",\"stream\":1") "," K("b", ",\"stream\":1")), 1000);
    assert_int_equal(check.in_this_order, GS_ANSWER_NO);
    assert_int_equal(check.in_any_order, GS_ANSWER_NO);
    assert_string_equal(check.here.why.data, "82 of 82 blocks of b wait: a before it in the same stream has not ended");
    assert_int_equal(check.smallest.order.count, 2);
    gs_check_clear(&check);
}

#define ONE(name, rest)                                                                                                \
    "{\"op\":\"launch\",\"kernel\":\"" name "\",\"blocks\":1,\"threads\":32,\"registers\":32,\"shared_bytes\":0" rest  \
    "}"

/* A kernel that waits for the end of another one is not resident with it; if that has exited, or only has to start, it
   is. The conflict has both kernels. */
TEST(a_kernel_is_not_together_with_what_it_waits_for) {
    static const struct {
        const char *events;
        bool together;
    } rows[] = {
        {ONE("a", ",\"id\":\"a\"") "," ONE("b", ",\"after\":[\"a\"]"), false},
        {ONE("x", "") "," ONE("a", ",\"id\":\"a\"") "," ONE("y", "") "," ONE("b", ",\"after\":[\"a\"]"), false},
        {ONE("a", ",\"id\":\"a\"") ",{\"op\":\"exit\",\"id\":\"a\"}," ONE("b", ",\"after\":[\"a\"]"), true},
        {ONE("a", ",\"id\":\"a\"") "," ONE("b", ",\"after\":[{\"id\":\"a\",\"when\":\"start\"}]"), true},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text run = {0};
        gs_text_add(&run, RUN("%s"), rows[i].events);
        gs_check check = check_text(run.data, 1000);
        assert_int_equal(check.in_this_order, rows[i].together ? GS_ANSWER_YES : GS_ANSWER_NO);
        assert_true(check.order_is_fixed);
        if (!rows[i].together) {
            assert_int_equal(check.smallest.order.count, 2);
            assert_string_equal(check.here.why.data, "1 of 1 blocks of b wait: a kernel or copy that it depends on has "
                                                     "not ended");
        }
        gs_check_clear(&check);
        gs_text_free(&run);
    }
}

/* A duration does not make room: the question is about kernels that stay. */
TEST(durations_are_ignored) {
    gs_check check = check_text(RUN(K("a", ",\"duration_us\":1") "," K("b", ",\"duration_us\":1")), 1000);
    assert_int_equal(check.in_this_order, GS_ANSWER_NO);
    gs_check_clear(&check);
}

TEST(a_spent_budget_is_admitted) {
    gs_check check = check_text(RUN(K("a", "")), 0);
    assert_int_equal(check.in_this_order, GS_ANSWER_YES);
    assert_int_equal(check.in_any_order, GS_ANSWER_UNKNOWN);
    assert_int_equal(check.searched, 0);
    gs_check_clear(&check);
}

/* What a block needs and what is free, where the reason has no numbers. */
TEST(the_lack_is_told_in_numbers) {
    static const struct {
        const char *words[2], *numbers;
    } rows[] = {
        {{"a=82x1024", "b=1x1024"}, "a block needs 8 warp slots in partition 1 where at most 4 are free"},
        {{"a=82x256,r255", "b=1x256,r24"}, "a block needs 1,536 registers in partition 1 where at most 0 are free"},
        {{"a=82x32,s60K", "b=1x32,s60K,carveout=0"},
         "a block needs 62,464 bytes of shared memory where at most 3,072 are free"},
        {{"a=82x32", "b=1x32,s60K"}, ""},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_run *run = gs_run_new(NULL);
        gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
        gs_check check;
        for (size_t j = 0; j < 2; j++) {
            gs_launch launch;
            assert_int_equal(gs_launch_of_word(rows[i].words[j], &launch, NULL), GS_OK);
            assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
        }
        assert_int_equal(gs_check_run(gpu, run, 1000, NULL, &check, NULL), GS_OK);
        assert_int_equal(check.in_this_order, GS_ANSWER_NO);
        assert_string_equal(check.here.numbers.data ? check.here.numbers.data : "", rows[i].numbers);
        assert_string_equal(check.smallest.numbers.data ? check.smallest.numbers.data : "", rows[i].numbers);
        gs_check_clear(&check);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
}

/* The smallest conflict has one kernel more than the GPU takes, and no order helps. */
TEST(more_kernels_than_the_gpu_takes_are_never_together) {
    gs_run *run = gs_run_new(NULL);
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_shape shape = gs_shape_of(32, 32, 0);
    gs_check check;
    for (int i = 0; i < 130; i++)
        assert_int_equal(gs_run_add_numbered(run, &shape, 1, NULL), GS_OK);
    assert_int_equal(gs_check_run(gpu, run, 100000, NULL, &check, NULL), GS_OK);
    assert_int_equal(check.in_this_order, GS_ANSWER_NO);
    assert_int_equal(check.in_any_order, GS_ANSWER_NO);
    assert_true(check.none_works);
    assert_int_equal(check.smallest.order.count, 129);
    assert_string_equal(check.smallest.why.data, "1 of 1 blocks of k128 wait: the GPU takes 128 kernels at a time");
    assert_string_equal(check.here.why.data, check.smallest.why.data);
    gs_check_clear(&check);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
