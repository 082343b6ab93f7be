/*
 * reduce.c: plays the kernels of a run as given, and finds those that are needed for a conflict.
 *
 * From the last launch to the first, a launch is left out if there still is a conflict without it. When a launch is
 * tried, all earlier launches are still present. So the engine is brought to the moment before the launch, copied, and
 * plays only the remaining events after it. To bring it there, the events are halved again and again: the engine plays
 * the first half, the second half is tried from there, and then the first half is tried from its own beginning. Each
 * event is played as often as the events can be halved.
 */
#include "check_search.h"

#include <stdlib.h>

static gs_code play_event(gs_engine *engine, const gs_event *event, gs_error *error) {
    if (event->op == GS_LAUNCH)
        return gs_engine_launch(engine, event->launch, error);
    return event->op == GS_EXIT ? gs_engine_exit(engine, event->launch, error) : GS_OK;
}

static gs_engine *endless_engine(const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    gs_engine_hooks hooks = {.endless = true};
    return gs_engine_new(gpu, run, &hooks, error);
}

static void describe_conflict(gs_engine *engine, const gs_run *run, size_t launch, gs_conflict *conflict) {
    size_t other;
    gs_grid grid = gs_engine_grid(engine, launch);
    gs_dispatcher *dispatcher = gs_engine_dispatcher(engine);
    conflict->waiting = grid.blocks - gs_engine_started(engine, launch);
    conflict->room = gs_room_found(dispatcher, &grid, conflict->waiting);
    gs_why(engine, run, launch, &conflict->why);
    if (gs_engine_hold(engine, launch, &other) == GS_HOLD_HEADROOM)
        gs_why_numbers(dispatcher, &grid, &conflict->numbers);
}

gs_code gs_check_play(const gs_gpu *gpu, const gs_run *run, const bool *left_out, gs_conflict *conflict,
                      gs_error *error) {
    gs_engine *engine = endless_engine(gpu, run, error);
    gs_code code = engine ? GS_OK : GS_E_MEMORY;
    gs_order order = {0};
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++) {
        const gs_event *event = &run->events.data[i];
        size_t other;
        if (left_out[event->launch])
            continue;
        code = play_event(engine, event, error);
        if (code != GS_OK || event->op != GS_LAUNCH)
            continue;
        if (!GS_PUSH(&order, event->launch)) {
            code = gs_fail_memory(error);
        } else if (gs_engine_hold(engine, event->launch, &other)) {
            conflict->order = order;
            order = (gs_order){0};
            describe_conflict(engine, run, event->launch, conflict);
            break;
        }
    }
    free(order.data);
    gs_engine_free(engine);
    return code == GS_OK && conflict->why.failed ? gs_fail_memory(error) : code;
}

/* ---- leaving out ---- */

enum { MOST_HALVES = 65 };

struct reduction {
    const gs_gpu *gpu;
    const gs_run *run;
    gs_progress *progress;
    size_t end;                      /* the first event after the conflict; it and later ones do not matter */
    bool *left_out;                  /* by launch */
    size_t *next, *last;             /* by event: its neighbors among the events of launches that are not left out */
    gs_engine *engines[MOST_HALVES]; /* by how often the events were halved; made when first needed */
    gs_engine *trial;
};

/* All engines know all kernels by the same numbers, so that they can be copied. */
static gs_engine *new_engine(const struct reduction *reduction, gs_error *error) {
    gs_engine *engine = endless_engine(reduction->gpu, reduction->run, error);
    for (size_t i = 0; engine && i < reduction->end; i++) {
        const gs_event *event = &reduction->run->events.data[i];
        if (event->op == GS_LAUNCH &&
            gs_dispatcher_kernel(gs_engine_dispatcher(engine), &reduction->run->launches.data[event->launch].shape,
                                 error) < 0) {
            gs_engine_free(engine);
            engine = NULL;
        }
    }
    return engine;
}

static void unlink_event(struct reduction *reduction, size_t event) {
    size_t next = reduction->next[event], last = reduction->last[event];
    if (last != SIZE_MAX)
        reduction->next[last] = next;
    if (next < reduction->end)
        reduction->last[next] = last;
}

static void leave_out(struct reduction *reduction, size_t number) {
    const gs_launch *launch = &reduction->run->launches.data[number];
    reduction->left_out[number] = true;
    unlink_event(reduction, launch->event);
    if (launch->exit < reduction->end)
        unlink_event(reduction, launch->exit);
}

/* Leaves a launch out if there is a conflict without it. `before`: the engine before the launch. */
static gs_code try_without(struct reduction *reduction, const gs_engine *before, size_t launch, gs_error *error) {
    if (!gs_engine_copy(reduction->trial, before))
        return gs_fail_memory(error);
    size_t first = reduction->next[reduction->run->launches.data[launch].event], other;
    gs_progress_say(reduction->progress, "%zu launches left to try", launch + 1);
    for (size_t i = first; i < reduction->end; i = reduction->next[i]) {
        const gs_event *event = &reduction->run->events.data[i];
        if (event->launch == launch)
            continue;
        gs_code code = play_event(reduction->trial, event, error);
        if (code != GS_OK)
            return code;
        if (event->op == GS_LAUNCH && gs_engine_hold(reduction->trial, event->launch, &other)) {
            leave_out(reduction, launch);
            break;
        }
    }
    return GS_OK;
}

/* Tries the launches among the events from `from` to `to`, the last first. The engine before these events is
   that of `halved`. */
static gs_code try_part(struct reduction *reduction, size_t from, size_t to, int halved, gs_error *error) {
    const gs_engine *before = reduction->engines[halved];
    if (to - from == 1) {
        const gs_event *event = &reduction->run->events.data[from];
        return event->op == GS_LAUNCH ? try_without(reduction, before, event->launch, error) : GS_OK;
    }
    size_t middle = from + (to - from) / 2;
    gs_engine **engine = &reduction->engines[halved + 1];
    if (!*engine && !(*engine = new_engine(reduction, error)))
        return GS_E_MEMORY;
    gs_code code = gs_engine_copy(*engine, before) ? GS_OK : gs_fail_memory(error);
    for (size_t i = from; i < middle && code == GS_OK; i++)
        code = play_event(*engine, &reduction->run->events.data[i], error);
    if (code == GS_OK)
        code = try_part(reduction, middle, to, halved + 1, error);
    if (code == GS_OK && !gs_engine_copy(*engine, before))
        code = gs_fail_memory(error);
    return code == GS_OK ? try_part(reduction, from, middle, halved + 1, error) : code;
}

/* Links the events up to the conflict. Those after it stay: a run that is played stops at a conflict before them. */
static gs_code reduction_init(struct reduction *reduction, const gs_conflict *here, gs_error *error) {
    const gs_run *run = reduction->run;
    reduction->end = run->launches.data[here->order.data[here->order.count - 1]].event + 1;
    reduction->left_out = calloc(run->launches.count + 1, sizeof *reduction->left_out);
    reduction->next = calloc(reduction->end + 1, sizeof *reduction->next);
    reduction->last = calloc(reduction->end + 1, sizeof *reduction->last);
    if (!reduction->left_out || !reduction->next || !reduction->last)
        return gs_fail_memory(error);
    for (size_t i = 0; i < reduction->end; i++) {
        reduction->next[i] = i + 1;
        reduction->last[i] = i ? i - 1 : SIZE_MAX;
    }
    reduction->trial = new_engine(reduction, error);
    reduction->engines[0] = new_engine(reduction, error);
    return reduction->trial && reduction->engines[0] ? GS_OK : GS_E_MEMORY;
}

gs_code gs_check_reduce(const gs_gpu *gpu, const gs_run *run, gs_progress *progress, const gs_conflict *here,
                        gs_conflict *smallest, gs_error *error) {
    struct reduction reduction = {.gpu = gpu, .run = run, .progress = progress};
    gs_code code = reduction_init(&reduction, here, error);
    if (code == GS_OK)
        code = try_part(&reduction, 0, reduction.end, 0, error);
    if (code == GS_OK)
        code = gs_check_play(gpu, run, reduction.left_out, smallest, error);
    for (size_t i = 0; i < MOST_HALVES; i++)
        gs_engine_free(reduction.engines[i]);
    gs_engine_free(reduction.trial);
    free(reduction.left_out);
    free(reduction.next);
    free(reduction.last);
    return code;
}
