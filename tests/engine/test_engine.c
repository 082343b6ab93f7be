/*
 * test_engine.c: the engine does what the algorithm of the paper does, block by block.
 *
 * The engine and the literal algorithm play random runs on random GPUs: a quarter as many as GRIDSMITH_RUNS says
 * (40,000 by default, fewer under sanitizers) with the paper's mechanisms, and as many with mechanisms drawn at
 * random. GRIDSMITH_SEED sets the seed. A difference prints its seed and index.
 */
#include "test.h"

#include "lab/device/device.h"
#include "literal.h"
#include "model/engine/engine_state.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS = 40000 };

struct listener {
    gs_log log;
    size_t event;
    const gs_gpu *gpu;
    const gs_engine *engine;
};

/* When the launches and copies of a program became ready, started and ended. */
struct played {
    literal_times *times;
    size_t count;
};

static struct played played_new(const gs_run *run) {
    struct played played = {.count = run->launches.count + run->copies.count};
    played.times = calloc(played.count + 1, sizeof *played.times);
    assert_non_null(played.times);
    return played;
}

static void note_times(const gs_engine *engine, struct played *played) {
    for (size_t i = 0; i < played->count; i++) {
        gs_course course = gs_engine_course(engine, i);
        played->times[i] = (literal_times){course.ready_ns, course.start_ns, course.end_ns};
    }
}

static bool on_started(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    struct listener *listener = user;
    bool in_turn = listener->gpu->mechanisms.placement == GS_PLACEMENT_ROUND_ROBIN;
    int32_t headroom = in_turn ? 0 : gs_engine_headroom(listener->engine);
    assert_true(GS_RESERVE(&listener->log, 1));
    listener->log.data[listener->log.count++] = (gs_start){listener->event, launch, block, sm, now_ns, headroom};
    return true;
}

/* The invariants of the engine hold. */
static void check_engine(gs_engine *engine, size_t event) {
    const char *violated = gs_engine_check(engine);
    if (violated)
        fail_msg("after event %zu: invariant %s", event, violated);
}

static void engine_play_program(const gs_gpu *gpu, const gs_run *run, const gs_pace *pace, gs_log *log,
                                struct played *played) {
    struct listener listener = {.gpu = gpu};
    gs_engine_hooks hooks = {.user = &listener,
                             .started = on_started,
                             .gaps = pace->gaps,
                             .latency_ns = pace->latency_ns,
                             .turn = literal_turn};
    gs_engine *engine = gs_engine_new(gpu, run, &hooks, NULL);
    assert_non_null(engine);
    listener.engine = engine;
    for (; listener.event < run->events.count; listener.event++) {
        const gs_event *event = &run->events.data[listener.event];
        gs_error error = {.code = GS_OK};
        if (event->op == GS_LAUNCH)
            gs_engine_launch(engine, event->launch, &error);
        else if (event->op == GS_EXIT)
            gs_engine_exit(engine, event->launch, &error);
        if (error.code != GS_OK)
            fail_msg("event %zu: %s", listener.event, error.message);
        check_engine(engine, listener.event);
    }
    assert_int_equal(gs_engine_finish(engine, NULL), GS_OK);
    check_engine(engine, listener.event);
    if (played)
        note_times(engine, played);
    gs_engine_free(engine);
    *log = listener.log;
}

static void engine_play(const gs_gpu *gpu, const gs_run *run, gs_log *log) {
    engine_play_program(gpu, run, &(gs_pace){0}, log, NULL);
}

static bool same_start(const gs_start *a, const gs_start *b) {
    return a->event == b->event && a->launch == b->launch && a->block == b->block && a->sm == b->sm &&
           a->at_ns == b->at_ns && a->headroom == b->headroom;
}

static void print_start(const char *player, const gs_log *log, size_t at) {
    if (at >= log->count)
        print_error("%s: nothing more starts\n", player);
    else
        print_error("%s: event %zu, launch %zu, block %lld on SM %d at %lld ns, headroom %d\n", player,
                    log->data[at].event, log->data[at].launch, (long long)log->data[at].block, log->data[at].sm,
                    (long long)log->data[at].at_ns, log->data[at].headroom);
}

static void compare_logs(const gs_gpu *gpu, const gs_run *run, const gs_log *wanted, const gs_log *found, uint64_t seed,
                         uint64_t index) {
    size_t at = 0;
    while (at < wanted->count && at < found->count && same_start(&wanted->data[at], &found->data[at]))
        at++;
    if (at == wanted->count && at == found->count)
        return;
    gs_text text = {0};
    gs_gpu_text(gpu, &text);
    gs_text_put(&text, "\n", 1);
    gs_run_text(run, &text);
    fputs(text.data, stderr);
    gs_text_free(&text);
    print_start("literal", wanted, at);
    print_start("engine ", found, at);
    fail_msg("GRIDSMITH_SEED=%llu, index %llu: different at start %zu", (unsigned long long)seed,
             (unsigned long long)index, at);
}

/* Returns how many blocks started. */
static size_t compare_once(uint64_t seed, uint64_t index, int percent) {
    gs_random random = gs_random_at(seed, index);
    gs_gpu *gpu = random_gpu(&random, percent);
    gs_run *run = index % 3 ? random_run(&random, gpu) : random_modern_run(&random, gpu);
    if (index % 5 == 0) /* few kernels at a time */
        gpu->limits.kernels_per_gpu = (int32_t)gs_random_from(&random, 1, 6);
    gs_log wanted = {0}, found = {0};
    literal_turn = index % 2 ? (int)gs_random_from(&random, 0, gs_gpu_turns(gpu) - 1) : 0;
    literal_play(gpu, run, &wanted);
    engine_play(gpu, run, &found);
    literal_turn = 0;
    compare_logs(gpu, run, &wanted, &found, seed, index);
    size_t started = found.count;
    free(wanted.data);
    free(found.data);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return started;
}

static void compare_many(uint64_t runs, int percent, const char *what) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1);
    size_t blocks = 0;
    for (uint64_t i = 0; i < runs; i++)
        blocks += compare_once(seed + (uint64_t)percent, i, percent);
    print_message("%llu random runs, %zu blocks, %s: engine and literal algorithm agree\n", (unsigned long long)runs,
                  blocks, what);
    assert_true(blocks > runs);
}

TEST(engine_is_the_papers_algorithm) {
    compare_many(test_number("GRIDSMITH_RUNS", RUNS) / 4, 0, "the paper's mechanisms");
}

/* Up to 200 streams, few connections, and more kernels than the GPU takes at a time. */
TEST(many_streams_are_played_literally) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", RUNS) / 1000, seed = test_number("GRIDSMITH_SEED", 1);
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    size_t held = 0;
    for (uint64_t i = 0; i < runs; i++) {
        gs_bounds bounds = gs_bounds_of(gpu, 1);
        gs_run *run = gs_generate(&bounds, "streams", seed, i, NULL);
        gs_log wanted = {0}, found = {0};
        assert_non_null(run);
        gpu->limits.kernels_per_gpu = i % 3 ? 128 : 5 + (int32_t)(i % 40);
        literal_play(gpu, run, &wanted);
        engine_play(gpu, run, &found);
        compare_logs(gpu, run, &wanted, &found, seed, i);
        for (size_t k = 0; k < found.count; k++)
            held += found.data[k].event != run->launches.data[found.data[k].launch].event;
        free(wanted.data);
        free(found.data);
        gs_run_free(run);
    }
    print_message("%llu runs, %zu blocks started later than their launch\n", (unsigned long long)runs, held);
    assert_true(held > runs);
    gs_gpu_free(gpu);
}

/* Launches of one stream that mostly start with the one before them: more of them than may run at a time. */
static gs_run *draw_chain(gs_random *random) {
    gs_run *run = gs_run_new(NULL);
    size_t wanted = (size_t)gs_random_from(random, 9, 20), ended = 0;
    assert_non_null(run);
    while (run->launches.count < wanted) {
        size_t number = run->launches.count;
        if (ended < number && gs_random_chance(random, 20)) {
            assert_int_equal(gs_run_add_exit(run, ended++, NULL), GS_OK);
            continue;
        }
        gs_launch launch = numbered_launch((int64_t)number);
        launch.shape = gs_shape_of(32, 16, 0);
        launch.blocks = gs_random_from(random, 1, 3);
        launch.stream = strdup("1");
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
        gs_edge edge = {.number = (uint32_t)number - 1, .when = gs_random_chance(random, 90) ? GS_AT_START : GS_AT_END};
        if (number && gs_random_chance(random, 95))
            assert_int_equal(gs_run_add_edge(run, &run->launches.data[number].issue, edge, NULL), GS_OK);
    }
    return run;
}

TEST(chains_are_played_literally) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", RUNS) / 100, seed = test_number("GRIDSMITH_SEED", 1) + 900;
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_run *run = draw_chain(&random);
        gs_log wanted = {0}, found = {0};
        literal_play(gpu, run, &wanted);
        engine_play(gpu, run, &found);
        compare_logs(gpu, run, &wanted, &found, seed, i);
        free(wanted.data);
        free(found.data);
        gs_run_free(run);
    }
    gs_gpu_free(gpu);
}

TEST(engine_follows_every_mechanism) {
    compare_many(test_number("GRIDSMITH_RUNS", RUNS) / 4, 50, "mechanisms drawn at random");
}

/* On a GPU with blocks that signal the ends of nodes, or without. */
TEST(nodes_of_graphs_come_as_they_do_literally) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", RUNS) / 10, seed = test_number("GRIDSMITH_SEED", 1) + 700;
    size_t blocks = 0;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_gpu *gpu = random_gpu(&random, 0);
        if (!gpu->join.threads && i % 8)
            gpu->join = (gs_join){32, 64, (int32_t)(i % 4)};
        if (i % 5) { /* kernels of the driver, of some blocks or more than fit */
            gpu->memory_kernels[GS_MEMORY_SET] = (gs_memory_kernel){64, 16, 512, 4096, 0, 0, i % 2 == 0};
            gpu->memory_kernels[GS_MEMORY_COPY] = (gs_memory_kernel){32, 24, 1, 1024, 65536, 100000, 0};
        }
        gs_run *run = random_graph(&random, gpu);
        gs_log wanted = {0}, found = {0};
        literal_play(gpu, run, &wanted);
        engine_play(gpu, run, &found);
        compare_logs(gpu, run, &wanted, &found, seed, i);
        blocks += found.count;
        free(wanted.data);
        free(found.data);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%llu random graphs, %zu blocks: engine and literal algorithm agree\n", (unsigned long long)runs,
                  blocks);
}

/* A GPU as large as the real ones: all words of the tables are used. */
TEST(engine_is_right_on_whole_gpus) {
    uint64_t runs = gs_max_u64(test_number("GRIDSMITH_RUNS", RUNS) / 2000, 2);
    size_t gpus = 0;
    while (gs_gpu_builtin(gpus))
        gpus++;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(7, i);
        gs_gpu *gpu = gs_gpu_open(gs_gpu_builtin(i % gpus), NULL);
        assert_non_null(gpu);
        if (i % 2) {
            gpu->mechanisms.placement = GS_PLACEMENT_ROUND_ROBIN;
            gpu->mechanisms.tie_order = GS_TIES_ASCENDING;
        }
        gs_run *run = random_run(&random, gpu);
        gs_log wanted = {0}, found = {0};
        literal_play(gpu, run, &wanted);
        engine_play(gpu, run, &found);
        compare_logs(gpu, run, &wanted, &found, 7, i);
        free(wanted.data);
        free(found.data);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
}

/* A step of a random program on a dispatcher: a block ends, or some of a kernel start. The same random numbers give the
   same step. Returns the SM of the last block. */
static int random_step(gs_dispatcher *dispatcher, gs_random *random, int kernels, int ending, int *blocks, int *count) {
    int sm = GS_WAIT;
    if (*count && gs_random_chance(random, ending)) {
        int at = (int)gs_random_from(random, 0, *count - 1);
        gs_dispatcher_end(dispatcher, blocks[at]);
        blocks[at] = blocks[--*count];
        if (gs_random_chance(random, 30))
            gs_dispatcher_settle(dispatcher);
        return sm;
    }
    int kernel = (int)gs_random_from(random, 0, kernels - 1);
    for (int64_t more = gs_random_from(random, 1, 6); more > 0; more--) {
        sm = gs_dispatcher_next(dispatcher, kernel);
        if (sm == GS_WAIT)
            return sm;
        blocks[(*count)++] = gs_dispatcher_place(dispatcher, kernel, sm);
    }
    return sm;
}

/* A copy of a dispatcher, made at any time, goes on as the original does, also if it was used before. */
TEST(a_copy_goes_on_as_the_original) {
    enum { KERNELS = 4, STEPS = 60, MOST_BLOCKS = 6 * 2 * STEPS };
    uint64_t seed = test_number("GRIDSMITH_SEED", 1) + 500, runs = test_number("GRIDSMITH_RUNS", RUNS) / 10;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_gpu *gpu = random_gpu(&random, i % 2 ? 0 : 50);
        gs_dispatcher *one = gs_dispatcher_new(gpu, NULL), *other = gs_dispatcher_new(gpu, NULL);
        int blocks[2][MOST_BLOCKS], counts[2] = {0}, ending = gs_random_chance(&random, 50) ? 40 : 80; /* percent */
        for (int k = 0; k < KERNELS; k++) {
            gs_shape shape;
            do
                shape = random_shape(&random, gpu);
            while (gs_dispatcher_kernel(one, &shape, NULL) < k); /* it is known */
            if (k < KERNELS / 2)                                 /* it learns of the others from the copy */
                assert_int_equal(gs_dispatcher_kernel(other, &shape, NULL), k);
        }
        for (int step = 0; step < STEPS; step++)
            random_step(other, &random, KERNELS / 2, ending, blocks[1], &counts[1]);
        for (int step = 0; step < STEPS; step++)
            random_step(one, &random, KERNELS, ending, blocks[0], &counts[0]);
        assert_int_equal(gs_dispatcher_copy(other, one, NULL), GS_OK);
        memcpy(blocks[1], blocks[0], sizeof blocks[0]);
        counts[1] = counts[0];
        gs_random again = random;
        for (int step = 0; step < STEPS; step++) {
            int wanted = random_step(one, &random, KERNELS, ending, blocks[0], &counts[0]);
            int found = random_step(other, &again, KERNELS, ending, blocks[1], &counts[1]);
            if (wanted != found || counts[0] != counts[1])
                fail_msg("GRIDSMITH_SEED=%llu, index %llu: SM %d, not %d", (unsigned long long)seed,
                         (unsigned long long)i, found, wanted);
        }
        gs_dispatcher_free(one);
        gs_dispatcher_free(other);
        gs_gpu_free(gpu);
    }
}

/* A launch is part of a graph if the recording says so, or if the one before or after it was issued at the same time.
 */
TEST(nodes_of_graphs_are_known) {
    static const struct {
        int64_t graph, at_ns;
        bool is_in_graph;
    } rows[] = {{GS_NOT_GIVEN, 10, false},
                {3, 20, true},
                {GS_NOT_GIVEN, 30, true},
                {GS_NOT_GIVEN, 30, true},
                {GS_NOT_GIVEN, 30, true},
                {GS_NOT_GIVEN, 40, false},
                {4, GS_NO_TIME, true},
                {GS_NOT_GIVEN, GS_NO_TIME, false},
                {GS_NOT_GIVEN, GS_NO_TIME, false}};
    gs_run *run = gs_run_new(NULL);
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_launch launch = numbered_launch((int64_t)i);
        gs_launch_facts facts = gs_launch_facts_none();
        facts.graph = rows[i].graph;
        launch.shape = gs_shape_of(32, 32, 0);
        launch.issue.at_ns = rows[i].at_ns;
        launch.issue.facts = &facts;
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    for (size_t i = 0; i < GS_COUNT(rows); i++)
        assert_int_equal(gs_is_in_graph(run, i), rows[i].is_in_graph);
    gs_run_free(run);
}

/* ---- repeating waves and launches are skipped ---- */

struct skipper {
    const gs_run *run;
    gs_pace pace;
    struct played *played; /* filled in, if not NULL */
    const gs_log *wanted;
    size_t **starts; /* by launch and block: the number in the log, from 1; 0: it does not start */
    size_t found, skipped, repeated;
    bool differs;
};

static const gs_start *start_of(const struct skipper *skipper, size_t launch, int64_t block) {
    size_t number = skipper->starts[launch][block];
    return number ? &skipper->wanted->data[number - 1] : NULL;
}

static bool on_played(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    struct skipper *skipper = user;
    const gs_start *wanted = start_of(skipper, launch, block);
    skipper->found++;
    bool same = wanted && wanted->sm == sm && wanted->at_ns == now_ns;
    if (!same)
        print_error("launch %zu, block %lld starts on SM %d at %lld ns, and should on SM %d at %lld ns\n", launch,
                    (long long)block, sm, (long long)now_ns, wanted ? wanted->sm : GS_WAIT,
                    wanted ? (long long)wanted->at_ns : -1);
    return same;
}

static bool may_skip(void *user, size_t launch, int64_t wave) {
    (void)user, (void)launch;
    return wave > 0;
}

static void on_skipped(void *user, size_t launch, int64_t blocks) {
    struct skipper *skipper = user;
    (void)launch;
    skipper->skipped += (size_t)blocks;
}

/* When a block starts, in waves from the start of its launch; in nanoseconds if blocks do not run equally long. */
static int64_t wave_of(const struct skipper *skipper, size_t launch, int64_t block) {
    const gs_launch *which = &skipper->run->launches.data[launch];
    int64_t after_ns = start_of(skipper, launch, block)->at_ns - start_of(skipper, launch, 0)->at_ns;
    return which->spread_ns ? after_ns : after_ns / which->duration_ns;
}

static void on_repeated(void *user, size_t launch, size_t like, int64_t start_ns, int64_t end_ns) {
    struct skipper *skipper = user;
    const gs_launch *which = &skipper->run->launches.data[launch];
    int64_t last_ns = start_ns;
    for (int64_t block = 0; block < which->blocks && !skipper->differs; block++) {
        const gs_start *start = start_of(skipper, launch, block);
        skipper->differs = !start || start->sm != start_of(skipper, like, block)->sm ||
                           wave_of(skipper, launch, block) != wave_of(skipper, like, block);
        if (start)
            last_ns = gs_max(last_ns, start->at_ns + gs_block_duration(which, block));
    }
    if (skipper->differs || start_of(skipper, launch, 0)->at_ns != start_ns || last_ns != end_ns)
        skipper->differs = true;
    skipper->repeated += (size_t)which->blocks;
}

/* Plays a run in which blocks may be skipped. False: a block is not as in the log. */
static bool play_skipping(const gs_gpu *gpu, struct skipper *skipper) {
    gs_engine_hooks hooks = {.user = skipper,
                             .started = on_played,
                             .may_skip = may_skip,
                             .skipped = on_skipped,
                             .repeated = on_repeated,
                             .gaps = skipper->pace.gaps,
                             .latency_ns = skipper->pace.latency_ns};
    const gs_run *run = skipper->run;
    gs_engine *engine = gs_engine_new(gpu, run, &hooks, NULL);
    assert_non_null(engine);
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_LAUNCH)
            code = gs_engine_launch(engine, event->launch, NULL);
        else if (event->op == GS_EXIT)
            code = gs_engine_exit(engine, event->launch, NULL);
        if (code == GS_OK)
            check_engine(engine, i);
    }
    if (code == GS_OK)
        code = gs_engine_finish(engine, NULL);
    if (code == GS_OK)
        check_engine(engine, run->events.count);
    if (skipper->played)
        note_times(engine, skipper->played);
    gs_engine_free(engine);
    return code == GS_OK && !skipper->differs;
}

static gs_run *random_long_run(gs_random *random, const gs_gpu *gpu) {
    gs_run *run = random_run(random, gpu);
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_launch *launch = &run->launches.data[i];
        if (launch->duration_ns && gs_random_chance(random, 50))
            launch->blocks *= gs_random_from(random, 1, 400);
        else if (launch->duration_ns && gs_random_chance(random, 50))
            launch->duration_ns *= gs_random_from(random, 1, 400); /* blocks that stay while others come and go */
        if (gs_random_chance(random, 70))
            launch->spread_ns = 0;
        if (launch->spread_ns && launch->duration_ns && gs_random_chance(random, 1))
            launch->blocks += (int64_t)launch->cluster * 4 * GS_SPREAD_BLOCKS;
    }
    return run;
}

/* Kernels that are launched again and again, many of them alone. */
static gs_run *random_serial_run(gs_random *random, const gs_gpu *gpu) {
    gs_run *run = random_run(random, gpu);
    int others = (int)gs_random_from(random, 0, 20), spread = gs_random_chance(random, 30) ? 50 : 0;
    bool stays = gs_random_chance(random, 50);
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_launch *launch = &run->launches.data[i];
        if (i && gs_random_chance(random, 70)) {
            const gs_launch *like = &run->launches.data[gs_random_from(random, 0, (int64_t)i - 1)];
            launch->shape = like->shape;
            launch->blocks = like->blocks;
            launch->cluster = like->cluster;
        }
        if (!launch->duration_ns || gs_random_chance(random, 50))
            launch->duration_ns = gs_random_from(random, 1, 4000);
        if (!gs_random_chance(random, spread))
            launch->spread_ns = 0;
        if (gs_random_chance(random, others) || (i < 3 && stays)) {
            launch->duration_ns *= stays ? 1000 : 1; /* the others run beside it */
            continue;
        }
        launch->stream = (char *)"serial"; /* the run does not free it */
    }
    return run;
}

/* Plays a run with and without skipping; returns how many blocks were skipped and repeated. */
static struct skipper compare_skipping(const gs_gpu *gpu, gs_run *run, const gs_pace *pace, const gs_log *wanted,
                                       struct played *played, uint64_t seed, uint64_t index) {
    struct skipper skipper = {.run = run,
                              .pace = *pace,
                              .played = played,
                              .wanted = wanted,
                              .starts = calloc(run->launches.count + 1, sizeof *skipper.starts)};
    for (size_t i = 0; i < run->launches.count; i++)
        skipper.starts[i] = calloc((size_t)run->launches.data[i].blocks, sizeof **skipper.starts);
    for (size_t i = 0; i < wanted->count; i++)
        skipper.starts[wanted->data[i].launch][wanted->data[i].block] = i + 1;
    bool same = play_skipping(gpu, &skipper);
    size_t all = skipper.found + skipper.skipped + skipper.repeated;
    if (!same || all != wanted->count) {
        gs_text text = {0};
        gs_run_text(run, &text);
        fputs(text.data, stderr);
        gs_text_free(&text);
        fail_msg("GRIDSMITH_SEED=%llu, index %llu: %zu blocks start, %zu of them are skipped, instead of %zu",
                 (unsigned long long)seed, (unsigned long long)index, all, skipper.skipped + skipper.repeated,
                 wanted->count);
    }
    for (size_t i = 0; i < run->launches.count; i++)
        free(skipper.starts[i]);
    free(skipper.starts);
    return skipper;
}

/* The partition of each SM that gets the next warp, at the end of a run. */
static void play_to_pointers(const gs_gpu *gpu, const gs_run *run, bool skips, int32_t *pointers) {
    struct skipper skipper = {0};
    gs_engine_hooks hooks = {.user = &skipper, .may_skip = skips ? may_skip : NULL, .skipped = on_skipped};
    gs_engine *engine = gs_engine_new(gpu, run, &hooks, NULL);
    gs_code code = GS_OK;
    assert_non_null(engine);
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++)
        code = run->events.data[i].op == GS_LAUNCH ? gs_engine_launch(engine, run->events.data[i].launch, NULL)
               : run->events.data[i].op == GS_EXIT ? gs_engine_exit(engine, run->events.data[i].launch, NULL)
                                                   : GS_OK;
    if (code == GS_OK)
        gs_engine_finish(engine, NULL);
    for (int32_t i = 0; i < gpu->sms; i++)
        pointers[i] = gs_dispatcher_state(engine->dispatcher)->sms[i].pointer;
    gs_engine_free(engine);
}

static void expect_same_pointers(const gs_gpu *gpu, const gs_run *run, uint64_t index) {
    int32_t wanted[8], found[8];
    assert_true(gpu->sms <= 8);
    play_to_pointers(gpu, run, false, wanted);
    play_to_pointers(gpu, run, true, found);
    for (int32_t i = 0; i < gpu->sms; i++)
        if (wanted[i] != found[i])
            fail_msg("index %llu: SM %d ends with partition %d, not %d", (unsigned long long)index, i, found[i],
                     wanted[i]);
}

TEST(skipped_waves_change_nothing) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1) + 100, runs = test_number("GRIDSMITH_RUNS", RUNS) / 100;
    size_t skipped = 0, with = 0;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_gpu *gpu = random_gpu(&random, i % 2 ? 0 : 50);
        gs_run *run = random_long_run(&random, gpu);
        gs_log wanted = {0};
        engine_play(gpu, run, &wanted);
        size_t here = compare_skipping(gpu, run, &(gs_pace){0}, &wanted, NULL, seed, i).skipped;
        if (here)
            expect_same_pointers(gpu, run, i);
        skipped += here;
        with += here > 0;
        free(wanted.data);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%llu long runs, %zu blocks of %zu runs skipped\n", (unsigned long long)runs, skipped, with);
    assert_true(runs < 20 || with > runs / 50);
}

/* Launches whose last wave is full, lacks a block, or is a single block, and another one that starts as soon as it can.
 */
TEST(the_last_wave_is_as_it_should_be) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1) + 400, runs = test_number("GRIDSMITH_RUNS", RUNS) / 200;
    size_t skipped = 0;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_gpu *gpu = random_gpu(&random, i % 2 ? 0 : 50);
        bool is_wide = gs_random_chance(&random, 50); /* few blocks on each of many SMs */
        gpu->sms = is_wide ? 8 : (int32_t)gs_min(gpu->sms, 2);
        random_no_grants(gpu);
        gpu->mechanisms.tie_order = GS_TIES_ASCENDING;
        gpu->join = (gs_join){0};
        if (is_wide)
            gpu->mechanisms.extra_step = GS_YES;
        gs_shape shape =
            is_wide ? gs_shape_of(128 * (int32_t)gs_random_from(&random, 1, 8), 32, 0) : random_shape(&random, gpu);
        gs_occupancy occupancy;
        gs_occupancy_of(gpu, &shape, &occupancy, NULL);
        int64_t wave = (int64_t)occupancy.blocks * gpu->sms;
        for (int64_t more = -1; more <= 1; more++) {
            gs_run *run = gs_run_new(NULL);
            gs_launch_spec spec = {.kernel = "long",
                                   .stream = "s1",
                                   .blocks =
                                       wave * gs_random_from(&random, is_wide ? 5 : 200, is_wide ? 40 : 400) + more,
                                   .shape = shape,
                                   .duration_ns = 1000};
            assert_int_equal(gs_run_launch(run, &spec, NULL), GS_OK);
            gs_shape other = gs_random_chance(&random, 50) ? shape : random_shape(&random, gpu);
            spec = (gs_launch_spec){
                .kernel = "next", .stream = "s2", .blocks = 3 * wave, .shape = other, .duration_ns = 300};
            assert_int_equal(gs_run_launch(run, &spec, NULL), GS_OK);
            gs_log wanted = {0};
            engine_play(gpu, run, &wanted);
            skipped += compare_skipping(gpu, run, &(gs_pace){0}, &wanted, NULL, seed, i).skipped;
            expect_same_pointers(gpu, run, i);
            free(wanted.data);
            gs_run_free(run);
        }
        gs_gpu_free(gpu);
    }
    print_message("%llu long launches, %zu blocks skipped\n", 3 * (unsigned long long)runs, skipped);
    assert_true(runs < 10 || skipped > 0);
}

/* Blocks beside a launch of many waves that end just before a wave does, with it, and just after it; what waits then
   starts in their place. Or what waits comes at such a time. */
TEST(others_may_end_with_a_wave) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1) + 500, runs = test_number("GRIDSMITH_RUNS", RUNS) / 100;
    size_t skipped = 0;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_gpu *gpu = random_gpu(&random, i % 2 ? 0 : 50);
        bool is_wide = gs_random_chance(&random, 50); /* few blocks on each of many SMs */
        gpu->sms = is_wide ? 8 : (int32_t)gs_min(gpu->sms, 2);
        random_no_grants(gpu);
        gpu->mechanisms.tie_order = GS_TIES_ASCENDING;
        gpu->join = (gs_join){0};
        gs_shape shape = random_shape(&random, gpu);
        if (is_wide)
            shape = gs_shape_of(128 * (int32_t)gs_random_from(&random, 1, 8), 32, 0);
        gs_shape other = gs_random_chance(&random, 50) ? shape : random_shape(&random, gpu);
        for (int64_t off_ns = -1; off_ns <= 1; off_ns++) {
            gs_run *run = gs_run_new(NULL);
            int64_t phase_ns = gs_random_chance(&random, 50) ? 500 : 0;
            const gs_launch_spec specs[] = {
                {.kernel = "early",
                 .stream = "s0",
                 .blocks = gs_random_from(&random, 1, 8),
                 .shape = shape,
                 .duration_ns = 1500}, /* blocks of the long launch in their place end half a wave later */
                {.kernel = "beside",
                 .stream = "s1",
                 .blocks = gs_random_from(&random, 1, 3),
                 .shape = other,
                 .duration_ns = 1000 * gs_random_from(&random, 20, 300) + phase_ns + off_ns},
                {.kernel = "long",
                 .stream = "s2",
                 .blocks = gs_random_from(&random, 2000, 9000),
                 .shape = shape,
                 .duration_ns = 1000},
                {.kernel = "next", .stream = "s3", .blocks = 40, .shape = other, .duration_ns = 300}};
            for (size_t k = 0; k < GS_COUNT(specs); k++)
                assert_int_equal(gs_run_launch(run, &specs[k], NULL), GS_OK);
            for (size_t k = 0; k < GS_COUNT(specs) && i % 3; k++)
                run->launches.data[k].issue.at_ns =
                    k < 3 ? 0 : 1000 * gs_random_from(&random, 10, 100) + phase_ns + off_ns;
            gs_log wanted = {0};
            engine_play(gpu, run, &wanted);
            skipped += compare_skipping(gpu, run, &(gs_pace){0}, &wanted, NULL, seed, i).skipped;
            expect_same_pointers(gpu, run, i);
            free(wanted.data);
            gs_run_free(run);
        }
        gs_gpu_free(gpu);
    }
    print_message("%llu launches beside others, %zu blocks skipped\n", 3 * (unsigned long long)runs, skipped);
    assert_true(runs < 10 || skipped > 0);
}

/* The engine that repeats, the engine that does not, and the literal algorithm. */
TEST(repeated_launches_change_nothing) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1) + 200, runs = test_number("GRIDSMITH_RUNS", RUNS) / 10;
    size_t repeated = 0, with = 0;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_gpu *gpu = random_gpu(&random, i % 2 ? 0 : 50);
        gs_run *run = random_serial_run(&random, gpu);
        gs_log wanted = {0}, found = {0};
        literal_play(gpu, run, &wanted);
        engine_play(gpu, run, &found);
        compare_logs(gpu, run, &wanted, &found, seed, i);
        size_t here = compare_skipping(gpu, run, &(gs_pace){0}, &wanted, NULL, seed, i).repeated;
        repeated += here;
        with += here > 0;
        free(wanted.data);
        free(found.data);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%llu serial runs, %zu blocks of %zu runs repeated\n", (unsigned long long)runs, repeated, with);
    assert_true(runs < 20 || with > runs / 5);
}

/* ---- programs: host times, copies, dependencies ---- */

static void compare_times(const gs_run *run, const struct played *wanted, const struct played *found, const char *who,
                          uint64_t seed, uint64_t index) {
    for (size_t i = 0; i < wanted->count; i++) {
        const literal_times *a = &wanted->times[i], *b = &found->times[i];
        if (memcmp(a, b, sizeof *a) == 0)
            continue;
        gs_text text = {0};
        gs_run_text(run, &text);
        fputs(text.data, stderr);
        gs_text_free(&text);
        fail_msg("GRIDSMITH_SEED=%llu, index %llu: operation %zu is ready at %lld, starts at %lld and ends at %lld "
                 "literally; %s says %lld, %lld and %lld",
                 (unsigned long long)seed, (unsigned long long)index, i, (long long)a->ready_ns, (long long)a->start_ns,
                 (long long)a->end_ns, who, (long long)b->ready_ns, (long long)b->start_ns, (long long)b->end_ns);
    }
}

/* Plays a program, or one of copies alone, with and without skipping. */
static struct skipper compare_program(uint64_t seed, uint64_t index, bool has_launches) {
    gs_random random = gs_random_at(seed, index);
    gs_gpu *gpu = random_gpu(&random, index % 2 ? 0 : 50);
    gs_run *run = has_launches ? random_program(&random, gpu) : random_copies(&random);
    gs_pace pace = {0};
    if (gs_random_chance(&random, 70))
        pace = (gs_pace){gs_random_from(&random, 0, 3) * 500,
                         {gs_random_from(&random, 0, 3) * 500, gs_random_from(&random, 0, 3) * 500,
                          gs_random_from(&random, 0, 3) * 500, gs_random_from(&random, 0, 3) * 500,
                          gs_random_from(&random, 0, 3) * 500}};
    gs_log wanted = {0}, found = {0};
    struct played literal = played_new(run), engine = played_new(run), skipping = played_new(run);
    literal_play_program(gpu, run, &pace, &wanted, literal.times);
    engine_play_program(gpu, run, &pace, &found, &engine);
    compare_times(run, &literal, &engine, "the engine", seed, index);
    compare_logs(gpu, run, &wanted, &found, seed, index);
    struct skipper skipper = compare_skipping(gpu, run, &pace, &wanted, &skipping, seed, index);
    compare_times(run, &literal, &skipping, "the engine that skips", seed, index);
    free(literal.times);
    free(engine.times);
    free(skipping.times);
    free(wanted.data);
    free(found.data);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return skipper;
}

TEST(programs_are_played_literally) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1) + 300, runs = test_number("GRIDSMITH_RUNS", RUNS) / 10;
    size_t repeated = 0, with = 0;
    for (uint64_t i = 0; i < runs; i++) {
        size_t here = compare_program(seed, i, true).repeated;
        repeated += here;
        with += here > 0;
    }
    print_message("%llu programs, %zu blocks of %zu programs repeated\n", (unsigned long long)runs, repeated, with);
    assert_true(runs < 100 || with > runs / 50);
}

TEST(copies_are_played_literally) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1) + 400, runs = test_number("GRIDSMITH_RUNS", RUNS) / 10;
    for (uint64_t i = 0; i < runs; i++)
        compare_program(seed, i, false);
}

/* What repeats is skipped, always in the same runs: no more blocks are played one by one than are written here. */
TEST(what_repeats_is_skipped) {
    enum { LONG_RUNS = 150, SERIAL_RUNS = 400, PROGRAMS = 300, LONG = 163336, SERIAL = 22804, PROGRAM = 19269 };
    size_t played[3] = {0};
    for (uint64_t i = 0; i < LONG_RUNS + SERIAL_RUNS; i++) {
        bool is_long = i < LONG_RUNS;
        gs_random random = gs_random_at(900, i);
        gs_gpu *gpu = random_gpu(&random, i % 2 ? 0 : 50);
        gs_run *run = is_long ? random_long_run(&random, gpu) : random_serial_run(&random, gpu);
        gs_log wanted = {0};
        engine_play(gpu, run, &wanted);
        played[is_long ? 0 : 1] += compare_skipping(gpu, run, &(gs_pace){0}, &wanted, NULL, 900, i).found;
        free(wanted.data);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    for (uint64_t i = 0; i < PROGRAMS; i++)
        played[2] += compare_program(901, i, true).found;
    print_message("%zu, %zu and %zu blocks are played one by one\n", played[0], played[1], played[2]);
    assert_in_range(played[0], 1, LONG);
    assert_in_range(played[1], 1, SERIAL);
    assert_in_range(played[2], 1, PROGRAM);
}

TEST_MAIN(NULL, NULL)
