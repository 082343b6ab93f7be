/*
 * timeline_play.c: plays a recorded program: when each of its launches and copies runs, and what it waits for.
 *
 * From the recording come the times at which the host issues launches and copies, what these depend on, and how long
 * they run (durations.c, pace.c). All else is the model: which launch is served when, on which SMs its blocks go, and
 * so when it starts and ends. Blocks are not listed, so that whole programs can be played: waves that repeat and
 * launches that go like earlier ones are not played block by block.
 */
#include "timeline_parts.h"

#include <stdlib.h>

struct player {
    gs_engine *engine;
    gs_timeline *timeline;
};

/* ---- callbacks of the engine ---- */

static bool may_skip(void *user, size_t launch, int64_t wave) {
    (void)user, (void)launch, (void)wave;
    return true;
}

static void on_skipped(void *user, size_t launch, int64_t blocks) {
    (void)user, (void)launch, (void)blocks;
}

/* The blocks beside it are like those beside the earlier launch, but of another one: that which has most blocks. */
static void on_repeated(void *user, size_t launch, size_t like, int64_t start_ns, int64_t end_ns) {
    (void)start_ns, (void)end_ns;
    const struct player *player = user;
    gs_operation *operation = &player->timeline->operations[launch], *other = &player->timeline->operations[like];
    operation->rest_lack = other->rest_lack;
    size_t holder;
    if (other->rest_held_by == SIZE_MAX)
        return;
    gs_engine_lack(player->engine, launch, &holder);
    if (holder != launch)
        operation->rest_held_by = holder;
}

void gs_timeline_hold(gs_timeline *timeline, const gs_engine *engine, size_t launch) {
    gs_operation *span = &timeline->operations[launch];
    bool has_started = gs_engine_started(engine, launch) > 0;
    size_t holder;
    gs_lack lack = gs_engine_lack(engine, launch, &holder);
    *(has_started ? &span->rest_lack : &span->lack) = (uint8_t)lack;
    if (holder != launch)
        *(has_started ? &span->rest_held_by : &span->held_by) = holder;
}

static void on_held(void *user, size_t launch) {
    const struct player *player = user;
    gs_timeline_hold(player->timeline, player->engine, launch);
}

/* ---- playing ---- */

static gs_code play_events(gs_engine *engine, const gs_run *run, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_LAUNCH)
            code = gs_engine_launch(engine, event->launch, error);
        else if (event->op == GS_EXIT)
            code = gs_engine_exit(engine, event->launch, error);
    }
    return code == GS_OK ? gs_engine_finish(engine, error) : code;
}

void gs_timeline_keep(gs_timeline *timeline, const gs_engine *engine) {
    for (size_t i = 0; i < timeline->count; i++) {
        timeline->operations[i].course = gs_engine_course(engine, i);
        timeline->end_ns = gs_max(timeline->end_ns, timeline->operations[i].course.end_ns);
    }
}

static gs_code play_timeline(const gs_gpu *gpu, const gs_run *run, const int64_t *durations, const int64_t *ready,
                             gs_timeline *timeline, gs_error *error) {
    struct player player = {.timeline = timeline};
    gs_engine_hooks hooks = {.user = &player,
                             .may_skip = may_skip,
                             .skipped = on_skipped,
                             .repeated = on_repeated,
                             .held = on_held,
                             .durations_ns = durations,
                             .ready_ns = ready,
                             .gaps = timeline->pace.gaps,
                             .latency_ns = timeline->pace.latency_ns};
    player.engine = gs_engine_new(gpu, run, &hooks, error);
    if (!player.engine)
        return GS_E_MEMORY;
    gs_code code = play_events(player.engine, run, error);
    if (code == GS_OK)
        gs_timeline_keep(timeline, player.engine);
    gs_engine_free(player.engine);
    return code;
}

gs_code gs_timeline_new(const gs_run *run, gs_timeline *timeline, gs_error *error) {
    *timeline = (gs_timeline){.count = run->launches.count + run->copies.count};
    timeline->operations = calloc(timeline->count + 1, sizeof *timeline->operations);
    if (!timeline->operations)
        return gs_fail_memory(error);
    for (size_t i = 0; i < timeline->count; i++)
        timeline->operations[i].held_by = timeline->operations[i].rest_held_by = SIZE_MAX;
    return GS_OK;
}

gs_code gs_timeline_prepare(const gs_gpu *recorded_on, const gs_run *run, const gs_pace *pace, gs_timeline *timeline,
                            gs_error *error) {
    gs_code code = gs_timeline_new(run, timeline, error);
    if (code == GS_OK && pace)
        timeline->pace = *pace;
    else if (code == GS_OK)
        code = gs_pace_of(run, &timeline->pace, error);
    if (code == GS_OK)
        code = gs_timeline_durations(recorded_on, run, timeline, error);
    if (code != GS_OK)
        gs_timeline_clear(timeline);
    return code;
}

int64_t *gs_timeline_block_ns(const gs_timeline *timeline, size_t launches, gs_error *error) {
    int64_t *durations = malloc((launches + 1) * sizeof *durations);
    if (!durations)
        gs_fail_memory(error);
    for (size_t i = 0; durations && i < launches; i++)
        durations[i] = timeline->operations[i].block_ns;
    return durations;
}

gs_code gs_timeline_play(const gs_gpu *gpu, const gs_gpu *recorded_on, const gs_run *run, const gs_pace *pace,
                         gs_timeline *timeline, gs_error *error) {
    gs_code code = gs_timeline_prepare(recorded_on, run, pace, timeline, error);
    int64_t *durations = code == GS_OK ? gs_timeline_block_ns(timeline, run->launches.count, error) : NULL;
    if (code == GS_OK)
        code = durations ? play_timeline(gpu, run, durations, NULL, timeline, error) : GS_E_MEMORY;
    free(durations);
    if (code != GS_OK)
        gs_timeline_clear(timeline);
    return code;
}

static void note_freed(gs_course *course, const gs_freed *freed) {
    course->freed_ns = freed->freed_ns;
    course->freed_by = freed->freed_by;
    course->is_freed_by_event = freed->is_by_event;
}

gs_code gs_timeline_follow(const gs_gpu *gpu, const gs_run *run, const gs_timeline *prepared, gs_timeline *timeline,
                           gs_error *error) {
    gs_code code = gs_timeline_new(run, timeline, error);
    if (code != GS_OK)
        return code;
    timeline->pace = prepared->pace;
    for (size_t i = 0; i < prepared->count; i++) {
        timeline->operations[i] = prepared->operations[i];
        timeline->operations[i].lack = timeline->operations[i].rest_lack = GS_LACK_NONE;
        timeline->operations[i].held_by = timeline->operations[i].rest_held_by = SIZE_MAX;
    }
    int64_t *durations = gs_timeline_block_ns(timeline, run->launches.count, error);
    gs_freed *freed = durations ? gs_freed_times(run, &timeline->pace, error) : NULL;
    int64_t *ready = freed ? malloc((timeline->count + 1) * sizeof *ready) : NULL;
    for (size_t i = 0; ready && i < timeline->count; i++)
        ready[i] = freed[i].ready_ns;
    code = ready ? play_timeline(gpu, run, durations, ready, timeline, error) : gs_fail_memory(error);
    for (size_t i = 0; code == GS_OK && i < timeline->count; i++)
        note_freed(&timeline->operations[i].course, &freed[i]);
    free(durations);
    free(freed);
    free(ready);
    if (code != GS_OK)
        gs_timeline_clear(timeline);
    return code;
}

void gs_timeline_clear(gs_timeline *timeline) {
    free(timeline->operations);
    *timeline = (gs_timeline){0};
}

bool gs_run_is_program(const gs_run *run) {
    bool is_issued = run->copies.count || run->edges.count;
    for (size_t i = 0; i < run->launches.count; i++) {
        const gs_issue *issue = &run->launches.data[i].issue;
        if (gs_measured_ns(issue))
            return true;
        is_issued = is_issued || issue->at_ns != GS_NO_TIME;
    }
    bool has_only_copies = run->copies.count && !run->launches.count;
    return has_only_copies || (is_issued && gs_run_is_timed(run));
}
