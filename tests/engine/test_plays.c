/*
 * test_plays.c: all that happens in random runs on random GPUs is as before (tests/engine/plays.txt): when blocks start
 * and end and where; what launches wait for, and what they lack; which waves and launches are skipped because they
 * repeat earlier ones; and the state at the end. So is what recordings that are followed show
 * (tests/engine/followed.txt). Runs that are drawn from a seed and an index are the same as before, too
 * (tests/run/generated.txt).
 *
 * Where blocks go is compared with the literal algorithm elsewhere (test_engine.c, test_bulk.c). What only costs time
 * if it is wrong, as a wave that is not skipped, is seen here.
 */
#include "answers.h"

#include "lab/device/device.h"
#include "model/engine/engine_state.h"
#include "model/timeline/timeline.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is played ---- */

struct story {
    const gs_engine *engine;
    const gs_run *run;
    uint64_t hash;
};

static void add(struct story *play, int64_t value) {
    play->hash = answers_add(play->hash, value);
}

static void add_event(struct story *play, int kind, size_t launch, int64_t one, int64_t other, int64_t third) {
    int64_t event[] = {kind, (int64_t)launch, one, other, third};
    play->hash = gs_hash(play->hash, event, sizeof event);
}

static bool on_started(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    add_event(user, 1, launch, block, sm, now_ns);
    return true;
}

static bool on_ended(void *user, size_t launch, int64_t block, int64_t now_ns) {
    add_event(user, 2, launch, block, now_ns, 0);
    return true;
}

static bool may_skip(void *user, size_t launch, int64_t wave) {
    add_event(user, 3, launch, wave, 0, 0);
    return true;
}

static void on_skipped(void *user, size_t launch, int64_t blocks) {
    add_event(user, 4, launch, blocks, 0, 0);
}

static void on_repeated(void *user, size_t launch, size_t like, int64_t start_ns, int64_t end_ns) {
    add_event(user, 5, launch, (int64_t)like, start_ns, end_ns);
}

static void on_held(void *user, size_t launch) {
    struct story *play = user;
    size_t holder = SIZE_MAX;
    gs_lack lack = gs_engine_lack(play->engine, launch, &holder);
    add_event(play, 6, launch, lack, (int64_t)holder, gs_engine_started(play->engine, launch));
}

/* What is said of a launch that waits for headroom, and for how many of its blocks there is. */
static void add_words(struct story *play, gs_engine *engine, size_t launch) {
    gs_text text = {0};
    gs_grid grid = gs_engine_grid(engine, launch);
    add(play, gs_grid_headroom(gs_engine_dispatcher(engine), &grid));
    gs_why_with_numbers(engine, play->run, launch, &text);
    play->hash = answers_add_text(play->hash, &text);
    gs_text_free(&text);
}

/* Why each launch waits that was issued. */
static void add_holds(struct story *play, gs_engine *engine, size_t events) {
    for (size_t i = 0; i < play->run->launches.count; i++) {
        size_t other = SIZE_MAX;
        if (play->run->launches.data[i].event >= events)
            continue;
        gs_hold hold = gs_engine_hold(play->engine, i, &other);
        add_event(play, 7, i, hold, hold == GS_HOLD_NONE || hold >= GS_HOLD_KERNELS ? -1 : (int64_t)other,
                  gs_engine_started(play->engine, i));
        if (hold == GS_HOLD_HEADROOM || hold == GS_HOLD_KERNELS)
            add_words(play, engine, i);
    }
}

static void add_courses(struct story *play) {
    for (size_t i = 0; i < play->run->launches.count + play->run->copies.count; i++) {
        gs_course course = gs_engine_course(play->engine, i);
        const int64_t all[] = {course.arrived_ns,        course.freed_ns,          course.ready_ns,
                               course.served_ns,         course.start_ns,          course.end_ns,
                               (int64_t)course.freed_by, course.is_freed_by_event, (int64_t)course.behind,
                               course.config_bytes};
        play->hash = gs_hash(play->hash, all, sizeof all);
    }
}

static void add_state(struct story *play, const gs_gpu *gpu) {
    gs_text image = {0};
    for (int32_t i = 0; i < gpu->sms; i++)
        add(play, gs_dispatcher_state(play->engine->dispatcher)->sms[i].pointer);
    assert_true(gs_engine_image(play->engine->dispatcher, play->engine, &image));
    play->hash = answers_add_text(play->hash, &image);
    gs_text_free(&image);
}

/* How a run is played. */
struct manner {
    bool has_blocks, skips, is_endless; /* started and ended are asked for; waves may be skipped; without durations */
    gs_pace pace;
    const uint8_t *ways;
    int32_t turn;
};

static void play_event(gs_engine *engine, const gs_run *run, size_t number, gs_error *error) {
    const gs_event *event = &run->events.data[number];
    if (event->op == GS_LAUNCH)
        gs_engine_launch(engine, event->launch, error);
    else if (event->op == GS_EXIT)
        gs_engine_exit(engine, event->launch, error);
}

/* Plays events, and after the last one of the run lets time pass. */
static void play_events(struct story *play, gs_engine *engine, size_t first, size_t last, gs_error *error) {
    play->engine = engine;
    for (size_t i = first; i < last && error->code == GS_OK; i++) {
        play_event(engine, play->run, i, error);
        if (error->code == GS_OK)
            add_holds(play, engine, i + 1);
    }
    if (last == play->run->events.count && error->code == GS_OK && gs_engine_finish(engine, error) == GS_OK)
        add_courses(play);
}

/* An engine that knows all kernels of the run by the same numbers as others do. */
static gs_engine *open_engine(const gs_gpu *gpu, const gs_run *run, const gs_engine_hooks *hooks) {
    gs_engine *engine = gs_engine_new(gpu, run, hooks, NULL);
    assert_non_null(engine);
    for (size_t i = 0; hooks->endless && i < run->launches.count; i++)
        assert_true(gs_dispatcher_kernel(gs_engine_dispatcher(engine), &run->launches.data[i].shape, NULL) >= 0);
    return engine;
}

/* From the middle on a copy of the engine plays, if there are no durations. */
static uint64_t play_run(const gs_gpu *gpu, const gs_run *run, const struct manner *manner) {
    struct story play = {.run = run};
    gs_error error = {.code = GS_OK};
    gs_engine_hooks hooks = {.user = &play,
                             .started = manner->has_blocks ? on_started : NULL,
                             .ended = manner->has_blocks ? on_ended : NULL,
                             .may_skip = manner->skips ? may_skip : NULL,
                             .skipped = on_skipped,
                             .repeated = manner->skips ? on_repeated : NULL,
                             .held = on_held,
                             .ways = manner->ways,
                             .gaps = manner->pace.gaps,
                             .latency_ns = manner->pace.latency_ns,
                             .endless = manner->is_endless,
                             .turn = manner->turn};
    gs_engine *engine = open_engine(gpu, run, &hooks);
    size_t middle = manner->is_endless ? run->events.count / 2 : run->events.count;
    play_events(&play, engine, 0, middle, &error);
    if (manner->is_endless && error.code == GS_OK) {
        gs_engine *copy = open_engine(gpu, run, &hooks);
        assert_true(gs_engine_copy(copy, engine));
        play_events(&play, copy, middle, run->events.count, &error);
        if (error.code == GS_OK)
            add_state(&play, gpu);
        gs_engine_free(copy);
    }
    play.hash = gs_hash(play.hash, error.message, error.code == GS_OK ? 0 : strlen(error.message));
    gs_engine_free(engine);
    return play.hash;
}

/* ---- random runs ---- */

static gs_pace random_pace(gs_random *random) {
    gs_pace pace = {gs_random_from(random, 0, 3) * 500, {0}};
    pace.gaps = (gs_gaps){gs_random_from(random, 0, 3) * 500, gs_random_from(random, 0, 3) * 500,
                          gs_random_from(random, 0, 3) * 500, gs_random_from(random, 0, 3) * 500,
                          gs_random_from(random, 0, 3) * 500};
    return gs_random_chance(random, 50) ? pace : (gs_pace){0};
}

/* Many blocks, many of which end at the same time; or launches that come again and again in one stream. */
static void make_long(gs_random *random, gs_run *run, bool is_serial) {
    int spread = gs_random_chance(random, 30) ? 40 : 0;
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_launch *launch = &run->launches.data[i];
        if (is_serial && i && gs_random_chance(random, 70)) {
            const gs_launch *like = &run->launches.data[gs_random_from(random, 0, (int64_t)i - 1)];
            launch->shape = like->shape;
            launch->blocks = like->blocks;
            launch->cluster = like->cluster;
        }
        if (!launch->duration_ns || gs_random_chance(random, 30))
            launch->duration_ns = gs_random_from(random, 1, 6) * (gs_random_chance(random, 5) ? 100000 : 1000);
        if (!is_serial && gs_random_chance(random, 40))
            launch->blocks *= gs_random_from(random, 1, 60);
        if (!gs_random_chance(random, spread))
            launch->spread_ns = 0;
        if (is_serial && gs_random_chance(random, 85))
            launch->stream = (char *)"serial"; /* the run does not free it */
    }
}

/* What only some ways of playing can have. */
static void make_simple(gs_run *run) {
    gs_green_clear(&run->green_contexts);
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_launch *launch = &run->launches.data[i];
        launch->cluster = 1;
        launch->spread_ns = 0;
        launch->issue.facts = NULL;
    }
}

static void make_simple_gpu(gs_gpu *gpu) {
    gpu->mechanisms.placement = GS_PLACEMENT_MOST_ROOM;
    gpu->mechanisms.warp_placement = GS_WARPS_STRICT;
    gpu->mechanisms.registers = GS_REGISTERS_RENAMED;
    gpu->mechanisms.shared_scope = GS_SCOPE_SM;
    gpu->mechanisms.queue = GS_QUEUE_IN_ORDER;
}

static uint8_t *random_ways(gs_random *random, const gs_run *run) {
    size_t count = run->launches.count + run->copies.count;
    uint8_t *ways = calloc(count + 1, 1);
    assert_non_null(ways);
    for (size_t i = 0; i < count; i++)
        if (gs_random_chance(random, 40))
            ways[i] = (uint8_t)gs_random_from(random, GS_WAY_OTHER, GS_WAY_SOONER);
    return ways;
}

/* ---- cases ---- */

enum kind { LAUNCHES, STREAMS, GRAPHS, PROGRAMS, COPIES, LONG, SERIAL, BULK, KINDS };
static const char *const kind_names[] = {"launches", "streams", "graphs", "programs",
                                         "copies",   "long",    "serial", "bulk"};

static gs_run *draw_run(gs_random *random, const gs_gpu *gpu, enum kind kind) {
    switch (kind) {
    case STREAMS:
        return random_modern_run(random, gpu);
    case GRAPHS:
        return random_graph(random, gpu);
    case PROGRAMS:
        return random_program(random, gpu);
    case COPIES:
        return random_copies(random);
    case BULK:
        return gs_random_chance(random, 50) ? random_program(random, gpu) : random_modern_run(random, gpu);
    default:
        return random_run(random, gpu);
    }
}

static uint64_t play_case(enum kind kind, uint64_t index) {
    gs_random random = gs_random_at(88 + (uint64_t)kind, index);
    gs_gpu *gpu = random_gpu(&random, index % 2 ? 50 : 0);
    if (kind == BULK)
        make_simple_gpu(gpu);
    if (index % 7 == 0)
        gpu->limits.kernels_per_gpu = (int32_t)gs_random_from(&random, 1, 5);
    if (kind == GRAPHS && !gpu->join.threads && index % 8)
        gpu->join = (gs_join){32, 64, (int32_t)(index % 4)};
    if (kind == GRAPHS && index % 5) { /* kernels of the driver, of some blocks or more than fit */
        gpu->memory_kernels[GS_MEMORY_SET] = (gs_memory_kernel){64, 16, 512, 4096, 0, 0, index % 2 == 0};
        gpu->memory_kernels[GS_MEMORY_COPY] = (gs_memory_kernel){32, 24, 1, 1024, 65536, 100000, 0};
    }
    gs_run *run = draw_run(&random, gpu, kind);
    if (kind >= LONG)
        make_long(&random, run, kind == SERIAL || (kind == BULK && index % 3 == 0));
    if (kind == BULK)
        make_simple(run);
    uint8_t *ways = kind == GRAPHS && index % 3 ? random_ways(&random, run) : NULL;
    struct manner manner = {.has_blocks = kind != BULK,
                            .skips = kind >= LONG,
                            .is_endless = kind <= STREAMS && index % 3 == 0,
                            .pace = kind >= PROGRAMS ? random_pace(&random) : (gs_pace){0},
                            .ways = ways,
                            .turn = index % 4 ? (int32_t)gs_random_from(&random, 0, gs_gpu_turns(gpu) - 1) : 0};
    uint64_t hash = play_run(gpu, run, &manner);
    free(ways);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return hash;
}

TEST(all_that_happens_is_as_before) {
    enum { CASES = 800, BRIEF_CASES = 200 };
    answers_open("tests/engine/plays.txt");
    for (int kind = 0; kind < KINDS; kind++) {
        answers_begin(kind_names[kind]);
        for (uint64_t i = 0; i < (test_is_brief() ? BRIEF_CASES : CASES); i++)
            answers_expect(play_case((enum kind)kind, i));
        answers_end();
    }
    answers_close();
}

/* ---- recordings ---- */

/* What a GPU would have recorded: blocks start and end some time later than predicted. */
static void shift_times(gs_random *random, gs_run *recorded) {
    int64_t most = gs_random_from(random, 0, 3) * 400;
    for (size_t i = 0; i < recorded->events.count; i++) {
        if (!recorded->events.data[i].seen->has_start)
            continue;
        gs_seen *seen = gs_event_see(&recorded->events.data[i]);
        assert_non_null(seen);
        for (size_t k = 0; k < seen->start_ns.count && k < seen->end_ns.count; k++) {
            int64_t later = gs_random_from(random, 0, most);
            if (seen->start_ns.data[k] != GS_NO_TIME)
                seen->start_ns.data[k] += later;
            if (seen->end_ns.data[k] != GS_NO_TIME)
                seen->end_ns.data[k] += later + gs_random_from(random, 0, most);
        }
    }
}

static gs_run *record(gs_random *random, const gs_gpu *gpu, uint64_t index) {
    gs_run *run = index % 2   ? random_run(random, gpu)
                  : index % 4 ? random_graph(random, gpu)
                              : random_modern_run(random, gpu);
    gs_predict_options options = {.turn = (int)gs_random_from(random, 0, gs_gpu_turns(gpu) - 1)};
    for (size_t i = 0; i < run->launches.count && index % 2; i++)
        run->launches.data[i].duration_ns = gs_random_from(random, 1, 9) * 1000;
    gs_run *recorded = gs_predict(gpu, run, &options, NULL);
    gs_run_free(run);
    return recorded;
}

/* What is said of a recording that is followed, and, where a GPU does not repeat itself, all that can happen. */
static uint64_t follow_case(uint64_t index) {
    gs_random random = gs_random_at(97, index);
    gs_gpu *gpu = random_gpu(&random, index % 3 ? 40 : 0);
    gs_run *recorded = record(&random, gpu, index);
    gs_possible possible = {.count = 0};
    gs_error error = {.code = GS_OK};
    gs_text text = {0};
    int changes = 0;
    uint64_t hash = 0;
    if (recorded) {
        shift_times(&random, recorded);
        gs_run *followed = gs_predict_recorded_as(gpu, recorded, &changes, &error);
        if (followed)
            gs_run_text(followed, &text);
        gs_run_free(followed);
        if (index % 2 == 0)
            gs_predict_possible(gpu, recorded, NULL, &possible, &error);
    }
    hash = answers_add(answers_add(hash, changes), possible.is_cut);
    for (size_t i = 0; i < possible.count; i++)
        gs_run_text(possible.data[i], &text);
    hash = answers_add_text(hash, &text);
    hash = gs_hash(hash, error.message, error.code == GS_OK ? 0 : strlen(error.message));
    gs_possible_free(&possible);
    gs_text_free(&text);
    gs_run_free(recorded);
    gs_gpu_free(gpu);
    return hash;
}

TEST(recordings_are_followed_as_before) {
    enum { CASES = 600, BRIEF_CASES = 120 };
    answers_open("tests/engine/followed.txt");
    answers_begin("recordings");
    for (uint64_t i = 0; i < (test_is_brief() ? BRIEF_CASES : CASES); i++)
        answers_expect(follow_case(i));
    answers_end();
    answers_close();
}

/* ---- runs that are drawn ---- */

static uint64_t hash_generated(const char *name, uint64_t index) {
    gs_random random = gs_random_at(99, index);
    gs_gpu *gpu = index % 4 == 3 ? gs_gpu_open(index % 8 == 3 ? "h200" : "b200", NULL) : random_gpu(&random, 20);
    gs_bounds bounds = gs_bounds_of(gpu, index % 3 ? (int32_t)gs_random_from(&random, 1, 16) : 1);
    gs_green_contexts contexts = {0};
    gs_text text = {0};
    if (gs_class_needs_contexts(name) || index % 2) {
        random_green_contexts(&random, gpu, &contexts);
        bounds.contexts = &contexts;
    }
    bounds.connections = index % 5 ? (int32_t)gs_random_from(&random, 0, 8) : 0;
    gs_run *run = gs_generate(&bounds, name, 5, index, NULL);
    assert_non_null(run);
    gs_run_text(run, &text);
    uint64_t hash = answers_add_text(0, &text);
    gs_text_free(&text);
    gs_run_free(run);
    gs_green_clear(&contexts);
    gs_gpu_free(gpu);
    return hash;
}

TEST(runs_are_drawn_as_before) {
    enum { CASES = 100, BRIEF_CASES = 40 };
    answers_open("tests/run/generated.txt");
    for (size_t i = 0; gs_class_name(i); i++) {
        answers_begin(gs_class_name(i));
        for (uint64_t k = 0; k < (test_is_brief() ? BRIEF_CASES : CASES); k++)
            answers_expect(hash_generated(gs_class_name(i), k));
        answers_end();
    }
    answers_close();
}

TEST_MAIN(NULL, NULL)
