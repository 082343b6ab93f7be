/*
 * agree.c: does a GPU with these mechanisms place the blocks of a recording as they were seen?
 *
 * The answer is the same as that of gs_predict and gs_score_add: each launch must have the right number of blocks on
 * every SM, up to and including the first launch of which not every block started. But it is needed for thousands of
 * settings, and most of them fail at one of the first launches. So the engine is used directly, and stops as soon as
 * the answer is known. With durations a launch is complete only at the end of the run, so such runs are predicted as a
 * whole.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static bool count_start(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    int32_t *counts = user;
    (void)launch, (void)block, (void)now_ns;
    counts[sm]++;
    return true;
}

/* Subtracts the recorded blocks from those that were counted for a launch. True: they are the same, and all counts are
   zero again. */
static bool subtract(const gs_gpu *gpu, const gs_seen *recorded, int64_t started, int32_t *counts) {
    bool same = gs_seen_started(recorded) == started;
    for (size_t i = 0; i < recorded->placed.count && same; i++) {
        int32_t sm = recorded->placed.data[i];
        same = sm == GS_WAIT || (sm < gpu->sms && counts[sm]-- > 0);
    }
    return same;
}

/* Whether launches after this one are scored. */
static bool goes_on_after(const gs_run *recorded, size_t launch) {
    const gs_launch *last = &recorded->launches.data[launch];
    return gs_seen_started(&recorded->events.data[last->event].seen) == last->blocks;
}

static gs_code play_events(gs_engine *engine, const gs_gpu *gpu, const gs_run *recorded, int32_t *counts,
                           size_t *differs, gs_error *error) {
    gs_code code = GS_OK;
    bool goes_on = true;
    for (size_t i = 0; i < recorded->events.count && goes_on && code == GS_OK; i++) {
        const gs_event *event = &recorded->events.data[i];
        if (event->op == GS_EXIT)
            code = gs_engine_exit(engine, event->launch, error);
        if (event->op != GS_LAUNCH)
            continue;
        code = gs_engine_launch(engine, event->launch, error);
        if (code == GS_OK && !subtract(gpu, &event->seen, gs_engine_started(engine, event->launch), counts))
            *differs = event->launch;
        goes_on = *differs == SIZE_MAX && goes_on_after(recorded, event->launch);
    }
    return code;
}

static gs_code play_untimed(const gs_gpu *gpu, const gs_run *recorded, int32_t *counts, size_t *differs,
                            gs_error *error) {
    gs_engine_hooks hooks = {.user = counts, .started = count_start};
    gs_engine *engine = gs_engine_new(gpu, recorded, &hooks, error);
    if (!engine)
        return GS_E_MEMORY;
    gs_code code = play_events(engine, gpu, recorded, counts, differs, error);
    gs_engine_free(engine);
    return code;
}

static gs_code play_timed(const gs_gpu *gpu, const gs_run *recorded, int32_t *counts, size_t *differs,
                          gs_error *error) {
    gs_error reason = {.code = GS_OK};
    gs_run *predicted = gs_predict_recorded(gpu, recorded, &reason);
    if (!predicted) {
        if (error)
            *error = reason;
        return reason.code;
    }
    for (size_t i = 0; i < recorded->launches.count && *differs == SIZE_MAX; i++) {
        const gs_seen *seen = &predicted->events.data[predicted->launches.data[i].event].seen;
        for (size_t block = 0; block < seen->placed.count; block++)
            if (seen->placed.data[block] != GS_WAIT)
                counts[seen->placed.data[block]]++;
        if (!subtract(gpu, &recorded->events.data[recorded->launches.data[i].event].seen, gs_seen_started(seen),
                      counts))
            *differs = i;
        if (!goes_on_after(recorded, i))
            break;
    }
    gs_run_free(predicted);
    return GS_OK;
}

gs_code gs_agrees(const gs_gpu *gpu, const gs_run *recorded, size_t *differs, gs_error *error) {
    int32_t *counts = calloc((size_t)gpu->sms, sizeof *counts);
    if (!counts)
        return gs_fail_memory(error);
    *differs = SIZE_MAX;
    gs_code code = (gs_run_is_timed(recorded) ? play_timed : play_untimed)(gpu, recorded, counts, differs, error);
    free(counts);
    return code;
}
