/*
 * agree.c: checks whether a GPU with these mechanisms places the blocks of a recording as observed.
 *
 * The result is that of gs_predict or gs_predict_recorded and gs_score_add together. Only launches up to and including
 * the first one with a block that did not start count. By counts, each of them must have the right number of blocks on
 * every SM; block by block, each block must be on its SM. But only the verdict is needed here, for thousands of
 * settings, most of them wrong from the first blocks on. So the engine is driven directly, and play stops at the first
 * block on a wrong SM.
 *
 * What a recording does not say (timeline/unsaid.c) is not tried here: launches come as they are listed.
 *
 * By counts the numbering of blocks does not matter: a GPU agrees if it does with any numbering.
 *
 * Without durations blocks start when their kernel is launched, and a launch is known once it has been played. With
 * durations blocks start all the time, and only the end shows that none is missing.
 *
 * What happened before play stopped is noted as a kind (settings.h): many settings behave alike up to there.
 */
#include "settings.h"

#include <stdlib.h>

struct comparison {
    const gs_gpu *gpu;
    const gs_run *recorded;
    size_t scored; /* how many launches count, from the first on; all, if play stops at the last of them */
    bool block_by_block;
    int32_t *missing; /* by launch and SM: observed blocks that have not started yet */
    size_t differs;   /* a launch known to be wrong; SIZE_MAX: none */
    unsigned kind;    /* of the part played so far */
};

static size_t count_scored(const gs_run *recorded) {
    size_t launch = 0;
    while (launch < recorded->launches.count &&
           gs_seen_started(gs_launch_seen(recorded, launch)) == recorded->launches.data[launch].blocks)
        launch++;
    return launch < recorded->launches.count ? launch + 1 : launch;
}

static int32_t *missing_of(const struct comparison *comparison, size_t launch) {
    return comparison->missing + launch * (size_t)comparison->gpu->sms;
}

/* ---- block by block ---- */

/* The observed blocks of a launch are missing until they start. */
static void expect_launch(struct comparison *comparison, size_t launch) {
    const gs_sm_list *placed = &gs_launch_seen(comparison->recorded, launch)->placed;
    int32_t *missing = missing_of(comparison, launch);
    for (size_t i = 0; i < placed->count; i++)
        if (placed->data[i] != GS_WAIT && placed->data[i] < comparison->gpu->sms)
            missing[placed->data[i]]++;
}

static bool check_start(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    struct comparison *comparison = user;
    (void)now_ns;
    if (launch >= comparison->scored)
        return true;
    bool is_right = comparison->block_by_block ? gs_seen_sm(gs_launch_seen(comparison->recorded, launch), block) == sm
                                               : missing_of(comparison, launch)[sm]-- > 0;
    if (!is_right)
        comparison->differs = launch;
    return is_right;
}

static bool note_end(void *user, size_t launch, int64_t block, int64_t now_ns) {
    struct comparison *comparison = user;
    (void)launch, (void)block, (void)now_ns;
    comparison->kind |= GS_KIND_ENDS;
    return true;
}

/* No block has started on a wrong SM; if as many have started as were observed, they are the same. */
static void check_launch(struct comparison *comparison, const gs_engine *engine, size_t launch, int64_t seen) {
    if (comparison->differs == SIZE_MAX && gs_engine_started(engine, launch) != seen)
        comparison->differs = launch;
}

/* ---- a play ---- */

static void note_launch(struct comparison *comparison, size_t launch) {
    comparison->kind |= launch ? GS_KIND_LATER : 0;
    comparison->kind |= comparison->recorded->launches.data[launch].shape.local_bytes > 0 ? GS_KIND_LOCAL : 0;
}

static gs_code play_exit(struct comparison *comparison, gs_engine *engine, size_t launch, gs_error *error) {
    comparison->kind |= GS_KIND_ENDS;
    return gs_engine_exit(engine, launch, error);
}

static gs_code play_launch(struct comparison *comparison, gs_engine *engine, size_t launch, gs_error *error) {
    note_launch(comparison, launch);
    if (launch < comparison->scored && !comparison->block_by_block)
        expect_launch(comparison, launch);
    gs_code code = gs_engine_launch(engine, launch, error);
    if (code == GS_E_UNSUPPORTED || code == GS_E_NO_FIT)
        comparison->differs = launch;
    return code;
}

/* Events after the first launch that waits do not count, and are not played. */
static gs_code play_untimed(struct comparison *comparison, gs_engine *engine, gs_error *error) {
    const gs_run *recorded = comparison->recorded;
    gs_code code = GS_OK;
    bool all_started = true;
    for (size_t i = 0; i < recorded->events.count && all_started && code == GS_OK; i++) {
        const gs_event *event = &recorded->events.data[i];
        if (event->op == GS_EXIT)
            code = play_exit(comparison, engine, event->launch, error);
        if (event->op != GS_LAUNCH)
            continue;
        code = play_launch(comparison, engine, event->launch, error);
        if (code != GS_OK)
            break;
        int64_t seen = gs_seen_started(event->seen);
        check_launch(comparison, engine, event->launch, seen);
        all_started = comparison->differs == SIZE_MAX && seen == recorded->launches.data[event->launch].blocks;
    }
    return code;
}

/* Launches that do not count are played too: others can depend on them. */
static gs_code play_timed(struct comparison *comparison, gs_engine *engine, gs_error *error) {
    const gs_run *recorded = comparison->recorded;
    gs_code code = GS_OK;
    for (size_t i = 0; i < recorded->events.count && code == GS_OK; i++) {
        const gs_event *event = &recorded->events.data[i];
        if (event->op == GS_EXIT)
            code = play_exit(comparison, engine, event->launch, error);
        else if (event->op == GS_LAUNCH)
            code = play_launch(comparison, engine, event->launch, error);
    }
    if (code == GS_OK)
        code = gs_engine_finish(engine, error);
    for (size_t launch = 0; launch < comparison->scored && code == GS_OK; launch++)
        check_launch(comparison, engine, launch, gs_seen_started(gs_launch_seen(recorded, launch)));
    return code;
}

static gs_code compare_runs(struct comparison *comparison, bool is_timed, bool follow, gs_error *error) {
    gs_engine_hooks hooks = {.user = comparison, .started = check_start, .ended = note_end, .follow = follow};
    size_t counts = comparison->block_by_block ? 0 : comparison->scored * (size_t)comparison->gpu->sms;
    gs_error reason = {.code = GS_OK};
    comparison->differs = SIZE_MAX;
    comparison->missing = calloc(counts + 1, sizeof *comparison->missing);
    gs_engine *engine = gs_engine_new(comparison->gpu, comparison->recorded, &hooks, &reason);
    gs_code code = engine && comparison->missing ? GS_OK : gs_fail_memory(&reason);
    if (code == GS_OK)
        code = (is_timed ? play_timed : play_untimed)(comparison, engine, &reason);
    gs_engine_free(engine);
    free(comparison->missing);
    if (code == GS_OK || comparison->differs != SIZE_MAX)
        return GS_OK;
    if (error)
        *error = reason;
    return code;
}

/* As gs_predict_recorded: a recording with times may be of a model, and is followed only if it has to be. */
static gs_code compare_timed(struct comparison *comparison, bool block_by_block, gs_error *error) {
    comparison->block_by_block = true;
    gs_code code = compare_runs(comparison, true, false, error);
    if (code != GS_OK || comparison->differs == SIZE_MAX)
        return code;
    comparison->block_by_block = block_by_block;
    return compare_runs(comparison, true, true, error);
}

/* One kernel alone waits only for its own blocks to end: without that, the queue does not matter. */
static gs_code compare_with(const gs_gpu *gpu, const gs_run *recorded, bool is_timed, bool block_by_block,
                            size_t *differs, unsigned *kind, gs_error *error) {
    struct comparison comparison = {.gpu = gpu,
                                    .recorded = recorded,
                                    .scored = is_timed ? count_scored(recorded) : recorded->launches.count,
                                    .block_by_block = block_by_block};
    gs_code code = is_timed ? compare_timed(&comparison, block_by_block, error)
                            : compare_runs(&comparison, false, block_by_block, error);
    *differs = comparison.differs;
    *kind |= comparison.kind | (is_timed && comparison.kind & (GS_KIND_LATER | GS_KIND_ENDS) ? GS_KIND_TIMED : 0);
    return code;
}

static bool has_clusters(const gs_run *run) {
    size_t i = 0;
    while (i < run->launches.count && run->launches.data[i].cluster == 1)
        i++;
    return i < run->launches.count;
}

/* Without durations the numbering does not affect where blocks go, and numbering as placed is the quickest. But
   clusters are modeled only by grant; and how long a block runs depends on its number, so with durations both are
   tried. */
static gs_code compare_counts(const gs_gpu *gpu, const gs_run *recorded, size_t *differs, unsigned *kind,
                              gs_error *error) {
    gs_gpu numbering = *gpu;
    bool is_timed = gs_run_is_timed(recorded), by_grant = gpu->grants.groups.count && has_clusters(recorded);
    numbering.mechanisms.numbering = by_grant ? GS_NUMBERED_BY_GRANT : GS_NUMBERED_AS_PLACED;
    gs_code code = compare_with(&numbering, recorded, is_timed, false, differs, kind, error);
    if (code != GS_OK || *differs == SIZE_MAX || !is_timed || by_grant || !gpu->grants.groups.count)
        return code;
    numbering.mechanisms.numbering = GS_NUMBERED_BY_GRANT;
    return compare_with(&numbering, recorded, true, false, differs, kind, error);
}

gs_code gs_agrees_until(const gs_gpu *gpu, const gs_run *recorded, bool block_by_block, size_t *differs, unsigned *kind,
                        gs_error *error) {
    *kind = 0;
    if (!block_by_block)
        return compare_counts(gpu, recorded, differs, kind, error);
    return compare_with(gpu, recorded, gs_run_is_timed(recorded), true, differs, kind, error);
}

gs_code gs_agrees(const gs_gpu *gpu, const gs_run *recorded, bool block_by_block, size_t *differs, gs_error *error) {
    unsigned kind;
    return gs_agrees_until(gpu, recorded, block_by_block, differs, &kind, error);
}
