/*
 * test_task_tracks.c: the launches of a task on a stream that only notes them: they have the blocks that were asked
 * for, and each begins after those that it waits for, whatever the GPU makes of what is left open.
 */
#include "test.h"

#include "kernels/zoo/zoo.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64, REPEAT = 2, MOST_STEPS = 12 };

/* Launches but for copies have a number; a set of them has a bit for each. */
static struct {
    uint64_t ended[GS_APP_TRACKS]; /* what has ended when the next launch of a track begins */
    uint64_t before[MOST];         /* the same of a launch */
    uint64_t blocks[MOST], memory[MOST];
    size_t count;
    uint64_t next_address;
} seen;

/* ---- the stream ---- */

static gs_code enter(gs_app_stream *stream, gs_error *error) {
    (void)stream, (void)error;
    return GS_OK;
}

static gs_code allocate(gs_app_stream *stream, size_t bytes, uint64_t *address, gs_error *error) {
    (void)stream, (void)error;
    *address = seen.next_address += bytes + 1;
    return GS_OK;
}

static gs_code copy_in(gs_app_stream *stream, uint64_t to, const void *from, size_t bytes, gs_error *error) {
    (void)stream, (void)to, (void)from, (void)bytes, (void)error;
    return GS_OK;
}

static gs_code load_module(gs_app_stream *stream, const gs_build *build, uintptr_t *module, gs_error *error) {
    (void)stream, (void)build, (void)error;
    *module = 1;
    return GS_OK;
}

static gs_code launch(gs_app_stream *stream, const gs_app_launch *call, gs_error *error) {
    (void)stream, (void)error;
    if (call->kernel != 0) /* a copy */
        return GS_OK;
    assert_true(seen.count < MOST && call->track < GS_APP_TRACKS);
    seen.before[seen.count] = seen.ended[call->track];
    seen.blocks[seen.count] = (uint64_t)call->grid[0] * call->grid[1] * call->grid[2];
    seen.memory[seen.count] = call->buffers[0];
    seen.ended[call->track] |= UINT64_C(1) << seen.count++;
    return GS_OK;
}

static gs_code order(gs_app_stream *stream, uint32_t before, uint32_t after, gs_error *error) {
    (void)stream, (void)error;
    assert_true(before < GS_APP_TRACKS && after < GS_APP_TRACKS);
    seen.ended[after] |= seen.ended[before];
    return GS_OK;
}

static gs_code wait_for_all(gs_app_stream *stream, gs_error *error) {
    (void)stream, (void)error;
    seen.count = 0;
    memset(seen.ended, 0, sizeof seen.ended);
    return GS_OK;
}

static gs_app_stream noting = {.ops = &(const gs_app_stream_ops){.name = "noting",
                                                                 .enter = enter,
                                                                 .allocate = allocate,
                                                                 .copy_in = copy_in,
                                                                 .load = load_module,
                                                                 .launch = launch,
                                                                 .order = order,
                                                                 .wait = wait_for_all}};

/* ---- tasks ---- */

static void add_step(gs_zoo_task *task, const char *kernel, int64_t blocks) {
    const gs_zoo_kernel *found = gs_zoo_find(kernel);
    gs_zoo_size size;
    gs_error error;
    assert_int_equal(gs_zoo_size_fit(found, gs_zoo_size_find(found, "small"), blocks, 1, &size, &error), GS_OK);
    assert_true(gs_zoo_task_add(task, found, &size));
}

/* Plays the task, and keeps what was noted until the wait at the end. */
static void play(const gs_zoo_task *task, gs_app_stream_ops *ops) {
    gs_zoo_load load;
    gs_zoo_round round;
    gs_error error;
    if (gs_zoo_load_open(&load, task, &noting, &error) != GS_OK)
        fail_msg("%s", error.message);
    *ops = *noting.ops;
    ops->wait = enter;
    load.pace.stream = &(gs_app_stream){.ops = ops};
    assert_int_equal(gs_zoo_load_round(&load, REPEAT, &round, &error), GS_OK);
    gs_zoo_load_close(&load);
    assert_int_equal(seen.count, REPEAT * task->steps.count);
}

static bool is_before(size_t first, size_t second) {
    return seen.before[second] >> first & 1;
}

static void check(const gs_zoo_task *task, const int64_t *blocks) {
    size_t count = task->steps.count;
    for (size_t i = 0; i < REPEAT * count; i++) {
        const gs_zoo_step *step = &task->steps.data[i % count];
        assert_int_equal(seen.blocks[i], blocks[i % count]);
        for (size_t k = 0; k < step->after_count; k++)
            assert_true(is_before(i - i % count + task->after.data[step->after + k], i));
        for (size_t k = 0; k < i; k++) {
            assert_true(is_before(k, i) || k / count == i / count);
            assert_true(is_before(k, i) || seen.memory[k] != seen.memory[i]);
        }
    }
}

/* ---- tests ---- */

/* 2 waits for 0, 3 for 1, 4 for both. */
TEST(chains_that_do_not_wait_for_each_other_overlap) {
    static const int64_t blocks[] = {3, 3, 5, 4, 8};
    static const struct { size_t step, before; } after[] = {{2, 0}, {3, 1}, {4, 2}, {4, 3}};
    gs_zoo_task task = {.name = NULL};
    gs_app_stream_ops ops;
    for (size_t i = 0, at = 0; i < GS_COUNT(blocks); i++) {
        add_step(&task, i == 3 ? "pns" : "fft", blocks[i]);
        for (; at < GS_COUNT(after) && after[at].step == i; at++)
            assert_true(gs_zoo_task_wait(&task, after[at].before));
    }
    play(&task, &ops);
    check(&task, blocks);
    assert_false(is_before(0, 1) || is_before(0, 3) || is_before(1, 2) || is_before(2, 3));
    gs_zoo_task_free(&task);
}

TEST(a_chain_has_one_track) {
    static const int64_t blocks[] = {1, 2, 1, 2};
    gs_zoo_task task = {.name = NULL};
    gs_zoo_load load;
    gs_error error;
    for (size_t i = 0; i < GS_COUNT(blocks); i++) {
        add_step(&task, "fft", blocks[i]);
        assert_true(i == 0 || gs_zoo_task_wait(&task, i - 1));
    }
    assert_int_equal(gs_zoo_load_open(&load, &task, &noting, &error), GS_OK);
    assert_int_equal(load.tracks, 1);
    assert_int_equal(load.residents.count, 2);
    gs_zoo_load_close(&load);
    gs_zoo_task_free(&task);
}

static void random_task(gs_random *random, gs_zoo_task *task, int64_t *blocks) {
    static const char *const names[] = {"fft", "pns", "histo"};
    size_t count = (size_t)gs_random_from(random, 1, MOST_STEPS);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = gs_random_from(random, 1, 3);
        add_step(task, names[gs_random_from(random, 0, GS_COUNT(names) - 1)], blocks[i]);
        for (int64_t k = i ? gs_random_from(random, 0, 3) : 0; k > 0; k--)
            assert_true(gs_zoo_task_wait(task, (size_t)gs_random_from(random, 0, (int64_t)i - 1)));
    }
}

TEST(every_launch_begins_after_those_that_it_waits_for) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), runs = test_number("GRIDSMITH_RUNS", 100000) / 500 + 1;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_zoo_task task = {.name = NULL};
        gs_app_stream_ops ops;
        int64_t blocks[MOST_STEPS];
        random_task(&random, &task, blocks);
        play(&task, &ops);
        check(&task, blocks);
        gs_zoo_task_free(&task);
    }
}

TEST_MAIN(NULL, NULL)
