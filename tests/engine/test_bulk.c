/*
 * test_bulk.c: a run of which only times are asked is played in bulk, and has the times of the literal algorithm.
 *
 * Random programs on random GPUs are changed so that they can be played in bulk. Many of their blocks end at the same
 * moment, because durations are multiples of a microsecond. Three play them: the literal algorithm, the engine block by
 * block, and the engine in bulk. The last two must also agree on all that is known of a launch, on what launches wait
 * for, and on the SMs at the end. GRIDSMITH_RUNS and GRIDSMITH_SEED say how many and which.
 */
#include "test.h"

#include "literal.h"
#include "model/engine/engine_state.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS = 40000, MOST_SMS = 1024 };

/* A launch that has to wait. */
struct hold {
    size_t launch, holder;
    gs_lack lack;
    int64_t started;
};

struct played {
    const gs_engine *engine;
    gs_course *courses;
    size_t count;
    int32_t pointers[MOST_SMS];
    gs_turns turns;
    bool is_bulk, has_graphs;
    int64_t skipped, repeated;
    struct {
        struct hold *data;
        size_t count, capacity;
    } holds;
};

static bool on_started(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    (void)user, (void)launch, (void)block, (void)sm, (void)now_ns;
    return true;
}

static bool may_skip(void *user, size_t launch, int64_t wave) {
    (void)user, (void)launch, (void)wave;
    return true;
}

static void on_skipped(void *user, size_t launch, int64_t blocks) {
    struct played *played = user;
    (void)launch;
    played->skipped += blocks;
}

static void on_repeated(void *user, size_t launch, size_t like, int64_t start_ns, int64_t end_ns) {
    struct played *played = user;
    (void)launch, (void)like, (void)start_ns, (void)end_ns;
    played->repeated++;
}

static void on_held(void *user, size_t launch) {
    struct played *played = user;
    struct hold hold = {.launch = launch, .started = gs_engine_started(played->engine, launch)};
    hold.lack = gs_engine_lack(played->engine, launch, &hold.holder);
    assert_true(GS_PUSH(&played->holds, hold));
}

/* How a run is played. */
struct manner {
    bool is_bulk; /* no hook asks for blocks */
    bool skips;   /* waves and launches may be skipped */
};

static void check_engine(gs_engine *engine, size_t event) {
    const char *violated = gs_engine_check(engine);
    if (violated)
        fail_msg("after event %zu: invariant %s", event, violated);
}

static void note_end(struct played *played, const gs_gpu *gpu) {
    for (size_t i = 0; i < played->count; i++)
        played->courses[i] = gs_engine_course(played->engine, i);
    for (int32_t i = 0; i < gpu->sms; i++)
        played->pointers[i] = gs_dispatcher_state(played->engine->dispatcher)->sms[i].pointer;
    if (played->engine->numbering.numberer)
        played->turns = played->engine->numbering.turns.data[0];
    played->is_bulk = played->engine->bulk;
    played->has_graphs = played->engine->graph.nodes;
}

static struct played play(const gs_gpu *gpu, const gs_run *run, const gs_pace *pace, struct manner manner) {
    struct played played = {.count = run->launches.count + run->copies.count};
    gs_engine_hooks hooks = {.user = &played,
                             .started = manner.is_bulk ? NULL : on_started,
                             .may_skip = manner.skips ? may_skip : NULL,
                             .skipped = on_skipped,
                             .repeated = manner.skips ? on_repeated : NULL,
                             .held = on_held,
                             .gaps = pace->gaps,
                             .latency_ns = pace->latency_ns};
    gs_engine *engine = gs_engine_new(gpu, run, &hooks, NULL);
    played.courses = calloc(played.count + 1, sizeof *played.courses);
    assert_non_null(engine);
    assert_non_null(played.courses);
    assert_true(gpu->sms <= MOST_SMS);
    played.engine = engine;
    for (size_t i = 0; i < run->events.count; i++) {
        const gs_event *event = &run->events.data[i];
        gs_error error = {.code = GS_OK};
        if (event->op == GS_LAUNCH)
            gs_engine_launch(engine, event->launch, &error);
        else if (event->op == GS_EXIT)
            gs_engine_exit(engine, event->launch, &error);
        assert_int_equal(error.code, GS_OK);
        check_engine(engine, i);
    }
    assert_int_equal(gs_engine_finish(engine, NULL), GS_OK);
    check_engine(engine, run->events.count);
    note_end(&played, gpu);
    gs_engine_free(engine);
    played.engine = NULL;
    return played;
}

static void played_free(struct played *played) {
    free(played->courses);
    free(played->holds.data);
}

/* ---- runs that can be played in bulk ---- */

static void make_simple(gs_random *random, gs_run *run) {
    gs_green_clear(&run->green_contexts);
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_launch *launch = &run->launches.data[i];
        launch->cluster = 1;
        launch->spread_ns = 0;
        launch->duration_ns = gs_random_from(random, 1, 6) * 1000;
        if (launch->issue.facts && launch->issue.facts->is_cooperative == 1)
            launch->issue.facts = NULL;
        if (gs_random_chance(random, 20))
            launch->blocks *= gs_random_from(random, 1, 60);
    }
}

/* The host issues launches and copies at times that are known. */
static void set_times(gs_random *random, gs_run *run) {
    int64_t now_ns = 0;
    size_t copy = 0;
    for (size_t i = 0; i <= run->launches.count; i++) {
        for (; copy < run->copies.count && run->copies.data[copy].before <= i; copy++)
            run->copies.data[copy].issue.at_ns = now_ns += gs_random_from(random, 0, 4) * 1000;
        if (i < run->launches.count)
            run->launches.data[i].issue.at_ns = now_ns += gs_random_from(random, 0, 4) * 1000;
    }
}

static gs_gpu *bulk_gpu(gs_random *random) {
    gs_gpu *gpu = random_gpu(random, gs_random_chance(random, 50) ? 50 : 0);
    gpu->mechanisms.placement = GS_PLACEMENT_MOST_ROOM;
    gpu->mechanisms.warp_placement = GS_WARPS_STRICT;
    gpu->mechanisms.registers = GS_REGISTERS_RENAMED;
    gpu->mechanisms.shared_scope = GS_SCOPE_SM;
    gpu->mechanisms.queue = GS_QUEUE_IN_ORDER;
    return gpu;
}

/* ---- comparing ---- */

static void expect_same(const struct played *wanted, const struct played *found, const gs_gpu *gpu) {
    for (size_t i = 0; i < wanted->count; i++) {
        const gs_course *a = &wanted->courses[i], *b = &found->courses[i];
        if (a->ready_ns != b->ready_ns || a->start_ns != b->start_ns || a->end_ns != b->end_ns)
            fail_msg("operation %zu: ready %lld, start %lld, end %lld, and in bulk %lld, %lld, %lld", i,
                     (long long)a->ready_ns, (long long)a->start_ns, (long long)a->end_ns, (long long)b->ready_ns,
                     (long long)b->start_ns, (long long)b->end_ns);
        assert_int_equal(a->arrived_ns, b->arrived_ns);
        assert_int_equal(a->freed_ns, b->freed_ns);
        assert_int_equal(a->served_ns, b->served_ns);
        assert_int_equal(a->freed_by, b->freed_by);
        assert_int_equal(a->behind, b->behind);
        assert_int_equal(a->config_bytes, b->config_bytes);
    }
    assert_memory_equal(wanted->pointers, found->pointers, (size_t)gpu->sms * sizeof *wanted->pointers);
    assert_memory_equal(&wanted->turns, &found->turns, sizeof wanted->turns);
}

static void expect_same_holds(const struct played *wanted, const struct played *found) {
    assert_int_equal(wanted->holds.count, found->holds.count);
    for (size_t i = 0; i < wanted->holds.count; i++) {
        const struct hold *a = &wanted->holds.data[i], *b = &found->holds.data[i];
        assert_int_equal(a->launch, b->launch);
        assert_int_equal(a->started, b->started);
        assert_int_equal(a->lack, b->lack);
        assert_int_equal(a->holder, b->holder);
    }
}

static void expect_literal(const gs_gpu *gpu, const gs_run *run, const gs_pace *pace, const struct played *found) {
    gs_log log = {0};
    literal_times *times = calloc(found->count + 1, sizeof *times);
    assert_non_null(times);
    literal_play_program(gpu, run, pace, &log, times);
    for (size_t i = 0; i < found->count; i++) {
        const gs_course *course = &found->courses[i];
        if (times[i].ready_ns != course->ready_ns || times[i].start_ns != course->start_ns ||
            times[i].end_ns != course->end_ns)
            fail_msg("operation %zu: ready %lld, start %lld, end %lld literally, and in bulk %lld, %lld, %lld", i,
                     (long long)times[i].ready_ns, (long long)times[i].start_ns, (long long)times[i].end_ns,
                     (long long)course->ready_ns, (long long)course->start_ns, (long long)course->end_ns);
    }
    free(times);
    free(log.data);
}

struct tally {
    size_t bulk, graphs, skipping, repeating, holds;
};

static void compare_run(const gs_gpu *gpu, const gs_run *run, const gs_pace *pace, bool literally,
                        struct tally *tally) {
    struct played wanted = play(gpu, run, pace, (struct manner){false, false});
    struct played found = play(gpu, run, pace, (struct manner){true, false});
    struct played skipping = play(gpu, run, pace, (struct manner){true, true});
    assert_false(wanted.is_bulk);
    expect_same(&wanted, &found, gpu);
    expect_same(&wanted, &skipping, gpu);
    expect_same_holds(&wanted, &found);
    if (literally)
        expect_literal(gpu, run, pace, &found);
    tally->bulk += found.is_bulk && skipping.is_bulk;
    tally->graphs += found.is_bulk && found.has_graphs;
    tally->skipping += skipping.is_bulk && skipping.skipped;
    tally->repeating += skipping.is_bulk && skipping.repeated;
    tally->holds += found.is_bulk ? found.holds.count : 0;
    played_free(&wanted);
    played_free(&found);
    played_free(&skipping);
}

static gs_pace random_pace(gs_random *random) {
    if (gs_random_chance(random, 50))
        return (gs_pace){0};
    return (gs_pace){gs_random_from(random, 0, 3) * 500,
                     {gs_random_from(random, 0, 3) * 500, gs_random_from(random, 0, 3) * 500,
                      gs_random_from(random, 0, 3) * 500, gs_random_from(random, 0, 3) * 500,
                      gs_random_from(random, 0, 3) * 500}};
}

TEST(times_are_those_of_the_literal_algorithm) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1) + 500, runs = test_number("GRIDSMITH_RUNS", RUNS) / 20;
    struct tally tally = {0};
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_gpu *gpu = bulk_gpu(&random);
        gs_run *run = i % 2 ? random_program(&random, gpu) : random_modern_run(&random, gpu);
        make_simple(&random, run);
        if (i % 4 == 0)
            set_times(&random, run);
        gs_pace pace = random_pace(&random);
        compare_run(gpu, run, &pace, true, &tally);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message(
        "%llu runs, %zu of them in bulk, %zu with graphs, %zu with skipped waves, %zu with memoized launches, "
        "%zu holds\n",
        (unsigned long long)runs, tally.bulk, tally.graphs, tally.skipping, tally.repeating, tally.holds);
    assert_true(runs < 100 || (tally.bulk > runs / 2 && tally.graphs && tally.repeating && tally.holds > runs));
}

/* Kernels on some streams, of a few shapes that come again and again; issued at once, or by and by, so that some of
   those that are memoized are not alone until their end. */
static gs_run *random_streams(gs_random *random, const gs_gpu *gpu) {
    static const char *const streams[] = {"1", "2", "3", "4", "5", "6", "7", "8"};
    enum { SHAPES = 6, LAUNCHES = 60 };
    gs_shape shapes[SHAPES];
    int64_t blocks[SHAPES], pause_ns = gs_random_chance(random, 50) ? 0 : 400000, now_ns = 0;
    gs_run *run = gs_run_new(NULL);
    int64_t most = gs_random_from(random, 2, (int64_t)GS_COUNT(streams));
    for (int i = 0; i < SHAPES; i++) {
        shapes[i] = random_shape(random, gpu);
        blocks[i] = gs_random_from(random, 1, gs_random_chance(random, 50) ? 6000 : 600);
    }
    for (int64_t i = 0; i < LAUNCHES; i++) {
        gs_launch launch = numbered_launch(i);
        int64_t shape = gs_random_from(random, 0, SHAPES - 1);
        launch.shape = shapes[shape];
        launch.blocks = gs_random_chance(random, 20) ? gs_random_from(random, 1, 600) : blocks[shape];
        if (pause_ns)
            launch.issue.at_ns = now_ns += gs_random_from(random, 0, gs_random_chance(random, 30) ? 2000 : pause_ns);
        launch.duration_ns = gs_random_from(random, 1, 9) * 1000;
        launch.stream = strdup(streams[gs_random_from(random, 0, most - 1)]);
        launch.priority = (int32_t)(gs_random_chance(random, 10) ? gs_random_from(random, -5, 0) : 0);
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    return run;
}

TEST(whole_gpus_are_played_as_block_by_block) {
    static const char *const names[] = {"h200", "b200", "h100-pcie"};
    uint64_t seed = test_number("GRIDSMITH_SEED", 1) + 600, runs = test_number("GRIDSMITH_RUNS", RUNS) / 400;
    struct tally tally = {0};
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_gpu *gpu = gs_gpu_open(names[i % GS_COUNT(names)], NULL);
        assert_non_null(gpu);
        if (i % 15 == 2) /* the h100-pcie: its SMs are in no list */
            gpu->sms = MOST_SMS;
        gs_run *run = random_streams(&random, gpu);
        gs_pace pace = random_pace(&random);
        compare_run(gpu, run, &pace, false, &tally);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%llu runs on whole GPUs, %zu with skipped waves, %zu with memoized launches\n",
                  (unsigned long long)runs, tally.skipping, tally.repeating);
    assert_int_equal(tally.bulk, runs);
    assert_true(runs < 20 || (tally.skipping > runs / 2 && tally.repeating > runs / 8));
}

TEST_MAIN(NULL, NULL)
