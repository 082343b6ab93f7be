/*
 * test_dispatcher.c: a simulator that asks the dispatcher gets the prediction: the same SMs for the same blocks, at the
 * same times, for the same reasons.
 *
 * The simulator below is what a user would write: it launches, places what can start, and ends blocks when their time
 * has come. Random runs are played by it and by gs_predict, on every built-in GPU and on random small ones.
 */
#include "test.h"

#include "literal.h"
#include "model/engine/engine.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

/* A block on the GPU. */
struct block {
    int64_t end_ns; /* INT64_MAX: when its launch exits */
    size_t launch;
    int64_t number;
    int handle;
};

struct simulator {
    const gs_gpu *gpu;
    const gs_run *run;
    const gs_run *prediction;
    gs_dispatcher *dispatcher;
    gs_random *random; /* to copy the dispatcher from time to time; NULL: never */
    int *launches;     /* by launch: the dispatcher's number */
    int64_t *placed, *ended;
    size_t launched;
    bool launching; /* a kernel is being launched */
    struct block *blocks;
    size_t count;
    int64_t now_ns;
    uint64_t index;
    int64_t compared;
};

static gs_launch_spec spec_of(const gs_launch *launch) {
    return (gs_launch_spec){.kernel = launch->kernel,
                            .blocks = launch->blocks,
                            .shape = launch->shape,
                            .cluster = launch->cluster,
                            .priority = launch->priority,
                            .stream = launch->stream,
                            .is_cooperative = launch->issue.facts && launch->issue.facts->is_cooperative == 1};
}

/* A run without durations does not show a block that starts at the launch of another kernel. */
static bool is_passed(const struct simulator *simulator, size_t launch) {
    return simulator->launching && launch + 1 < simulator->launched;
}

static void place_block(struct simulator *simulator, size_t launch, int sm) {
    const gs_launch *given = &simulator->run->launches.data[launch];
    int64_t number = simulator->placed[launch]++;
    int wanted = gs_run_placed(simulator->prediction, launch, number);
    int64_t start_ns = gs_run_start_ns(simulator->prediction, launch, number);
    bool is_timed = gs_run_is_timed(simulator->run),
         is_shown = is_timed || wanted != GS_WAIT || !is_passed(simulator, launch);
    if (is_shown && (sm != wanted || (is_timed && start_ns != simulator->now_ns)))
        fail_msg("index %llu, %s: block %lld of %s is on SM %d at %lld, not on SM %d at %lld",
                 (unsigned long long)simulator->index, simulator->gpu->name, (long long)number, given->kernel, sm,
                 (long long)simulator->now_ns, wanted, (long long)start_ns);
    struct block *block = &simulator->blocks[simulator->count++];
    *block = (struct block){INT64_MAX, launch, number, 0};
    if (given->duration_ns)
        block->end_ns = simulator->now_ns + gs_block_duration(given, number);
    block->handle = gs_dispatcher_place(simulator->dispatcher, simulator->launches[launch], sm);
    assert_true(block->handle >= 0);
    simulator->compared++;
}

/* In a random order of the launches: the answers do not depend on it. */
static void place_all(struct simulator *simulator) {
    size_t from = (size_t)gs_random_from(simulator->random, 0, (int64_t)simulator->launched);
    for (size_t i = 0; i < simulator->launched; i++) {
        size_t launch = (from + i) % simulator->launched;
        int sm, number = simulator->launches[launch];
        while ((sm = gs_dispatcher_next(simulator->dispatcher, number)) != GS_WAIT)
            place_block(simulator, launch, sm);
    }
}

/* Goes on with a copy. The copy had launches and kernels of its own. */
static void maybe_copy(struct simulator *simulator) {
    if (!gs_random_chance(simulator->random, 10))
        return;
    gs_dispatcher *copy = gs_dispatcher_new(simulator->gpu, NULL);
    gs_shape other = gs_shape_of(64, 17, 0);
    gs_launch_spec spec = {.kernel = "other", .blocks = 3, .shape = other};
    if (gs_random_chance(simulator->random, 50))
        assert_true(gs_dispatcher_launch(copy, &spec, NULL) >= 0);
    assert_int_equal(gs_dispatcher_copy(copy, simulator->dispatcher, NULL), GS_OK);
    assert_true(gs_dispatcher_equal(copy, simulator->dispatcher, NULL));
    gs_dispatcher_free(simulator->dispatcher);
    simulator->dispatcher = copy;
}

static void start_launch(struct simulator *simulator, size_t launch) {
    gs_launch_spec spec = spec_of(&simulator->run->launches.data[launch]);
    int number = gs_dispatcher_launch(simulator->dispatcher, &spec, NULL);
    assert_true(number >= 0);
    simulator->launches[launch] = number;
    simulator->launched = launch + 1;
    simulator->launching = true;
    place_all(simulator);
    simulator->launching = false;
    char *why = gs_dispatcher_why(simulator->dispatcher, number, NULL);
    const char *wanted = gs_run_why(simulator->prediction, launch);
    if (!gs_run_is_timed(simulator->run))
        assert_string_equal(why ? why : "", wanted ? wanted : "");
    assert_true((why != NULL) == (simulator->placed[launch] < simulator->run->launches.data[launch].blocks));
    gs_string_free(why);
}

static bool ends_before(const struct block *a, const struct block *b) {
    if (a->end_ns != b->end_ns)
        return a->end_ns < b->end_ns;
    return a->launch != b->launch ? a->launch < b->launch : a->number < b->number;
}

/* The next block ends. False: none ends by itself. */
static bool pass_time(struct simulator *simulator) {
    size_t first = 0;
    for (size_t i = 1; i < simulator->count; i++)
        if (ends_before(&simulator->blocks[i], &simulator->blocks[first]))
            first = i;
    if (!simulator->count || simulator->blocks[first].end_ns == INT64_MAX)
        return false;
    struct block block = simulator->blocks[first];
    simulator->blocks[first] = simulator->blocks[--simulator->count];
    simulator->now_ns = block.end_ns;
    simulator->ended[block.launch]++;
    gs_dispatcher_wait_until(simulator->dispatcher, simulator->now_ns);
    gs_dispatcher_release(simulator->dispatcher, block.handle);
    place_all(simulator);
    maybe_copy(simulator);
    return true;
}

/* The host waits for a kernel with a duration. */
static void end_launch(struct simulator *simulator, size_t launch) {
    const gs_launch *given = &simulator->run->launches.data[launch];
    if (given->duration_ns)
        while (simulator->ended[launch] < given->blocks && pass_time(simulator))
            ;
    if (simulator->ended[launch] == given->blocks)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < simulator->count; i++)
        if (simulator->blocks[i].launch != launch)
            simulator->blocks[kept++] = simulator->blocks[i];
    simulator->count = kept;
    simulator->ended[launch] = given->blocks;
    gs_dispatcher_exit(simulator->dispatcher, simulator->launches[launch]);
    place_all(simulator);
}

static void simulate(struct simulator *simulator) {
    const gs_run *run = simulator->run;
    for (size_t i = 0; i < run->events.count; i++) {
        if (run->events.data[i].op == GS_LAUNCH)
            start_launch(simulator, run->events.data[i].launch);
        else if (run->events.data[i].op == GS_EXIT)
            end_launch(simulator, run->events.data[i].launch);
        maybe_copy(simulator);
    }
    while (gs_run_is_timed(run) && pass_time(simulator))
        ;
    for (size_t i = 0; i < run->launches.count; i++)
        for (int64_t block = simulator->placed[i]; block < run->launches.data[i].blocks; block++)
            assert_int_equal(gs_run_placed(simulator->prediction, i, block), GS_WAIT);
}

/* Returns the number of blocks that were compared. */
static int64_t compare_with_prediction(const gs_gpu *gpu, const gs_run *run, gs_random *random, uint64_t index) {
    gs_predict_options options = {.explain = true, .turn = (int)gs_random_from(random, 0, gs_gpu_turns(gpu) - 1)};
    gs_run *prediction = gs_predict(gpu, run, &options, NULL);
    if (!prediction) /* a launch that cannot run */
        return 0;
    size_t launches = run->launches.count, blocks = (size_t)gpu->sms * (size_t)gpu->limits.blocks_per_sm;
    struct simulator simulator = {.gpu = gpu,
                                  .run = run,
                                  .prediction = prediction,
                                  .dispatcher = gs_dispatcher_new(gpu, NULL),
                                  .random = random,
                                  .launches = calloc(launches, sizeof(int)),
                                  .placed = calloc(launches, sizeof(int64_t)),
                                  .ended = calloc(launches, sizeof(int64_t)),
                                  .blocks = calloc(blocks, sizeof(struct block)),
                                  .index = index};
    assert_int_equal(gs_dispatcher_turn(simulator.dispatcher, options.turn, NULL), GS_OK);
    simulate(&simulator);
    gs_dispatcher_free(simulator.dispatcher);
    free(simulator.launches);
    free(simulator.placed);
    free(simulator.ended);
    free(simulator.blocks);
    gs_run_free(prediction);
    return simulator.compared;
}

TEST(a_simulator_gets_the_prediction) {
    size_t builtin = 0, times = test_is_brief() ? 2 : 4;
    int64_t compared = 0;
    while (gs_gpu_builtin(builtin))
        builtin++;
    for (uint64_t i = 0; i < gs_max_u64(test_number("GRIDSMITH_RUNS", 100000) / 50, times * builtin); i++) {
        gs_random random = gs_random_at(31, i);
        size_t number = i % (builtin + 6); /* the others are random */
        gs_gpu *gpu =
            number < builtin ? gs_gpu_open(gs_gpu_builtin(number), NULL) : random_gpu(&random, number % 2 ? 50 : 0);
        gs_run *run = random_run(&random, gpu);
        gs_green_clear(&run->green_contexts);
        int64_t blocks = compare_with_prediction(gpu, run, &random, i);
        compared += blocks;
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%lld blocks on %zu GPUs and on random ones\n", (long long)compared, builtin);
}

static gs_launch_spec plain_spec(int64_t blocks, int32_t threads) {
    return (gs_launch_spec){.kernel = "k", .blocks = blocks, .shape = gs_shape_of(threads, 32, 0)};
}

/* Only the block that is next can be placed, only on its SM, and once. */
TEST(only_the_next_block_can_be_placed) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL);
    gs_launch_spec spec = plain_spec(2, 1024);
    int launch = gs_dispatcher_launch(dispatcher, &spec, NULL), sm = gs_dispatcher_next(dispatcher, launch);
    assert_int_equal(gs_dispatcher_place(dispatcher, launch, sm + 1), -1);
    assert_int_equal(gs_dispatcher_place(dispatcher, launch, GS_WAIT), -1);
    assert_int_equal(gs_dispatcher_resident_all(dispatcher), 2);
    gs_dispatcher_release(dispatcher, 0); /* no block has been placed, so there is none to end */
    gs_dispatcher_release(dispatcher, 1);
    assert_int_equal(gs_dispatcher_resident_all(dispatcher), 2);
    int first = gs_dispatcher_place(dispatcher, launch, sm);
    int second = gs_dispatcher_place(dispatcher, launch, gs_dispatcher_next(dispatcher, launch));
    assert_int_equal(gs_dispatcher_next(dispatcher, launch), GS_WAIT);
    gs_dispatcher_release(dispatcher, first);
    gs_dispatcher_release(dispatcher, first);
    assert_int_equal(gs_dispatcher_resident_all(dispatcher), 1);
    assert_int_equal(gs_dispatcher_room(dispatcher, launch, sm), 2);
    gs_dispatcher_release(dispatcher, second);
    assert_int_equal(gs_dispatcher_resident_all(dispatcher), 0);
    gs_dispatcher_free(dispatcher);
    gs_gpu_free(gpu);
}

/* A launch that can never run, or that is no launch, says so and leaves the dispatcher as it was. */
TEST(an_impossible_launch_is_refused) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL), *same = gs_gpu_open("h200", NULL);
    gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL), *other = gs_dispatcher_new(same, NULL);
    gs_error error;
    gs_launch_spec large = plain_spec(1, 2048), none = plain_spec(0, 32), odd = plain_spec(3, 32);
    odd.cluster = 2;
    assert_int_equal(gs_dispatcher_launch(dispatcher, &large, &error), -1);
    assert_int_equal(error.code, GS_E_NO_FIT);
    assert_string_equal(error.message, "kernel \"k\" can never run on this GPU: threads of a block: 2048 requested, "
                                       "at most 1024 possible");
    assert_int_equal(gs_dispatcher_launch(dispatcher, &none, &error), -1);
    assert_int_equal(gs_dispatcher_launch(dispatcher, &odd, &error), -1);
    assert_string_equal(error.message, "\"blocks\" of a launch must be a multiple of \"cluster\", which is 2");
    assert_null(gs_dispatcher_why(dispatcher, 5, &error));
    assert_string_equal(error.message, "the dispatcher has no kernel or launch with the number 5");
    assert_int_equal(gs_dispatcher_turn(dispatcher, gs_gpu_turns(gpu), &error), GS_E_USAGE);
    assert_int_equal(gs_dispatcher_copy(dispatcher, other, &error), GS_E_USAGE);
    gs_launch_spec spec = plain_spec(1, 32);
    int launch = gs_dispatcher_launch(dispatcher, &spec, &error);
    assert_true(gs_dispatcher_next(dispatcher, launch) >= 0);
    assert_null(gs_dispatcher_why(dispatcher, launch, &error));
    assert_int_equal(error.code, GS_OK);
    assert_int_equal(gs_dispatcher_turn(dispatcher, 0, &error), GS_E_USAGE);
    gs_dispatcher_free(dispatcher);
    gs_dispatcher_free(other);
    gs_gpu_free(gpu);
    gs_gpu_free(same);
}

/* Blocks of a kernel without a launch stand in no queue, but a launch waits for their SMs. */
TEST(a_launch_waits_for_blocks_that_are_in_no_queue) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL);
    gs_shape shape = gs_shape_of(1024, 32, 0);
    int kernel = gs_dispatcher_kernel(dispatcher, &shape, NULL), block = gs_dispatcher_place(dispatcher, kernel, 7);
    gs_launch_spec spec = plain_spec(82, 1024);
    int launch = gs_dispatcher_launch(dispatcher, &spec, NULL), sm;
    for (int i = 0; i < 81; i++) {
        sm = gs_dispatcher_next(dispatcher, launch);
        assert_true(sm >= 0 && sm != 7);
        assert_true(gs_dispatcher_place(dispatcher, launch, sm) >= 0);
    }
    char *why = gs_dispatcher_why(dispatcher, launch, NULL), *alone = gs_dispatcher_why(dispatcher, kernel, NULL);
    assert_string_equal(why,
                        "1 of 82 blocks of k wait: partition 1 of every SM has too few free warp slots for the 8 "
                        "warps of a block that go there (a block needs 8 warp slots in partition 1 where at most 4 "
                        "are free)");
    assert_string_equal(alone, strstr(why, "partition"));
    assert_int_equal(gs_dispatcher_next(dispatcher, launch), GS_WAIT);
    gs_dispatcher_release(dispatcher, block);
    assert_int_equal(gs_dispatcher_next(dispatcher, launch), 7);
    gs_string_free(why);
    gs_string_free(alone);
    gs_dispatcher_free(dispatcher);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
