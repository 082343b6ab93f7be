/*
 * test_dispatcher_states.c: what a simulator relies on besides the SMs: states of dispatchers that are said to be equal
 * have the same future, and a block allocates nothing. Allocations are counted, so this is a program of its own.
 */
#include "test.h"

#include "model/engine/engine.h"

#include <stdlib.h>
#include <string.h>

static gs_launch_spec plain_spec(int64_t blocks, int32_t threads) {
    return (gs_launch_spec){.kernel = "k", .blocks = blocks, .shape = gs_shape_of(threads, 32, 0)};
}

/* ---- states compared ---- */

enum { TWIN_KERNELS = 3, TWIN_BLOCKS = 6 };

/* A dispatcher with kernels of six blocks, and the handles of those that run. */
struct twin {
    gs_dispatcher *dispatcher;
    int launches[TWIN_KERNELS], handles[TWIN_KERNELS][TWIN_BLOCKS], sms[TWIN_KERNELS][TWIN_BLOCKS];
    int placed[TWIN_KERNELS];
};

static void place_twin(struct twin *twin) {
    for (int i = 0, sm; i < TWIN_KERNELS; i++)
        while (twin->launches[i] >= 0 && (sm = gs_dispatcher_next(twin->dispatcher, twin->launches[i])) != GS_WAIT) {
            int number = twin->placed[i]++;
            twin->sms[i][number] = sm;
            twin->handles[i][number] = gs_dispatcher_place(twin->dispatcher, twin->launches[i], sm);
        }
}

static void make_twin(struct twin *twin, const gs_gpu *gpu, const gs_launch_spec *specs) {
    *twin = (struct twin){.dispatcher = gs_dispatcher_new(gpu, NULL)};
    for (int i = 0; i < TWIN_KERNELS; i++)
        twin->launches[i] = -1;
    for (int i = 0; i < TWIN_KERNELS; i++) {
        twin->launches[i] = gs_dispatcher_launch(twin->dispatcher, &specs[i], NULL);
        place_twin(twin);
    }
}

/* Ends two blocks of the first kernel, which have started, and starts what can. */
static void end_two(struct twin *twin, int first, int second) {
    gs_dispatcher_release(twin->dispatcher, twin->handles[0][first]);
    gs_dispatcher_release(twin->dispatcher, twin->handles[0][second]);
    place_twin(twin);
}

/* Ends all blocks of both in the order of their launches and numbers: they must start the same blocks. */
static void play_alike(struct twin *a, struct twin *b, const int *ended) {
    for (int i = 0; i < TWIN_KERNELS; i++)
        for (int number = 0; number < a->placed[i]; number++) {
            if (i == 0 && (number == ended[0] || number == ended[1]))
                continue;
            gs_dispatcher_release(a->dispatcher, a->handles[i][number]);
            gs_dispatcher_release(b->dispatcher, b->handles[i][number]);
            place_twin(a);
            place_twin(b);
            assert_memory_equal(a->placed, b->placed, sizeof a->placed);
            assert_memory_equal(a->sms, b->sms, sizeof a->sms);
        }
}

/* Two blocks end in one order and in the other. If the states are said to be equal, what follows is equal. */
TEST(equal_states_have_equal_futures) {
    int equal = 0, renamed = 0, count = test_is_brief() ? 300 : 2000;
    for (uint64_t i = 0; i < (uint64_t)count; i++) {
        gs_random random = gs_random_at(32, i);
        gs_gpu_limits limits = {.sms = (int32_t)gs_random_from(&random, 1, 3), .blocks_per_sm = 5};
        gs_gpu *gpu = gs_gpu_new(i % 2 ? "h200" : "rtx3090", &limits, NULL);
        gs_launch_spec specs[TWIN_KERNELS];
        for (int k = 0; k < TWIN_KERNELS; k++) {
            int32_t threads = 32 * (int32_t)gs_random_from(&random, 1, 12);
            gs_shape shape = gs_shape_of(threads, 32, gs_random_from(&random, 0, 30000));
            specs[k] = (gs_launch_spec){.kernel = "k", .blocks = TWIN_BLOCKS, .shape = shape, .priority = k % 2};
        }
        struct twin a, b;
        make_twin(&a, gpu, specs);
        make_twin(&b, gpu, specs);
        assert_true(gs_dispatcher_equal(a.dispatcher, b.dispatcher, NULL));
        int ended[2] = {0, a.placed[0] - 1};
        if (ended[1] > 0) {
            end_two(&a, ended[0], ended[1]);
            assert_false(gs_dispatcher_equal(a.dispatcher, b.dispatcher, NULL));
            end_two(&b, ended[1], ended[0]);
            if (gs_dispatcher_equal(a.dispatcher, b.dispatcher, NULL)) {
                equal++;
                play_alike(&a, &b, ended);
                renamed += memcmp(a.handles, b.handles, sizeof a.handles) != 0;
            }
        }
        gs_dispatcher_free(a.dispatcher);
        gs_dispatcher_free(b.dispatcher);
        gs_gpu_free(gpu);
    }
    print_message("%d of %d states are equal, %d of them with other handles\n", equal, count, renamed);
    assert_true(equal > count / 10 && renamed > 0 && equal < count);
}

/* What is not yet taken, the time, and kernels without a launch are part of the state. */
TEST(states_that_differ_in_little_differ) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL), *same = gs_gpu_open("h200", NULL);
    gs_dispatcher *a = gs_dispatcher_new(gpu, NULL), *b = gs_dispatcher_new(gpu, NULL);
    gs_dispatcher *other = gs_dispatcher_new(same, NULL);
    gs_error error;
    gs_shape shapes[] = {gs_shape_of(32, 32, 0), gs_shape_of(32, 33, 0)};
    assert_int_equal(gs_dispatcher_kernel(a, &shapes[0], NULL), gs_dispatcher_kernel(b, &shapes[1], NULL));
    assert_false(gs_dispatcher_equal(a, b, &error));
    assert_int_equal(error.code, GS_OK);
    gs_launch_spec spec = plain_spec(2, 64);
    int launch = gs_dispatcher_launch(a, &spec, NULL);
    assert_int_equal(gs_dispatcher_copy(b, a, NULL), GS_OK);
    assert_true(gs_dispatcher_equal(a, b, &error));
    assert_true(gs_dispatcher_place(a, launch, gs_dispatcher_next(a, launch)) >= 0);
    assert_false(gs_dispatcher_equal(a, b, &error));
    assert_int_equal(gs_dispatcher_copy(b, a, NULL), GS_OK);
    gs_dispatcher_wait_until(b, 7);
    assert_false(gs_dispatcher_equal(a, b, &error));
    assert_false(gs_dispatcher_equal(a, other, &error));
    assert_string_equal(error.message, "a dispatcher can be compared only with one of the same gs_gpu");
    gs_dispatcher_free(a);
    gs_dispatcher_free(b);
    gs_dispatcher_free(other);
    gs_gpu_free(gpu);
    gs_gpu_free(same);
}

/* ---- memory ---- */

static int64_t allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size) {
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    allocations++;
    return __real_realloc(memory, size);
}

/* Ends blocks in the order in which they started, and starts others in their place. Returns how many started. */
static int64_t pass_blocks(gs_dispatcher *dispatcher, const int *launches, int *ring, size_t running, int64_t count) {
    int64_t started = 0;
    for (int64_t i = 0; i < count; i++) {
        gs_dispatcher_release(dispatcher, ring[(size_t)i % running]);
        ring[(size_t)i % running] = -1;
        for (int k = 0, sm; k < 2; k++)
            while ((sm = gs_dispatcher_next(dispatcher, launches[k])) != GS_WAIT) {
                ring[(size_t)i % running] = gs_dispatcher_place(dispatcher, launches[k], sm);
                started++;
            }
    }
    return started;
}

/* On every built-in GPU, with two kernels that share it. */
TEST(a_block_allocates_nothing) {
    static int ring[GS_MAX_SMS * GS_MAX_BLOCKS_PER_SM];
    for (size_t i = 0; gs_gpu_builtin(i); i++) {
        gs_gpu *gpu = gs_gpu_open(gs_gpu_builtin(i), NULL);
        gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL);
        gs_launch_spec small = plain_spec(gs_gpu_sms(gpu), 32), large = plain_spec(1 << 30, 256);
        size_t running = 0;
        int launches[] = {gs_dispatcher_launch(dispatcher, &small, NULL),
                          gs_dispatcher_launch(dispatcher, &large, NULL)};
        for (int k = 0, sm; k < 2; k++)
            while ((sm = gs_dispatcher_next(dispatcher, launches[k])) != GS_WAIT)
                ring[running++] = gs_dispatcher_place(dispatcher, launches[k], sm);
        pass_blocks(dispatcher, launches, ring, running, (int64_t)running);
        allocations = 0;
        int64_t started = pass_blocks(dispatcher, launches, ring, running, 2 * (int64_t)running);
        assert_int_equal(allocations, 0);
        assert_true(started > (int64_t)running);
        gs_dispatcher_free(dispatcher);
        gs_gpu_free(gpu);
    }
    gs_gpu_free(gs_gpu_open("h200", NULL));
    assert_true(allocations > 0); /* they are counted */
}

TEST_MAIN(NULL, NULL)
