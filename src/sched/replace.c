/*
 * replace.c: blocks of a launch that waits take the place of blocks that end.
 *
 * While the first launch of the queue waits, no SM has room for it, and all others wait behind it. When a block ends,
 * its own or one of another launch, only the SM of that block can get room, and the next blocks of the waiting launch
 * go there. So neither the queue nor the other SMs need be looked at: the blocks of one launch that end one after the
 * other are played fast, until a block of another launch ends, something else happens, or few blocks are left.
 *
 * Each of these blocks is a burst by itself. The turns after a burst on one SM depend only on that SM (number.c), so
 * only the last one on a group that goes first, and the last on another group, count.
 *
 * If each block of a launch has as many warps for one partition as for another, it does not matter to it where the
 * pointers of the SMs are. If each block of a wave was replaced by exactly one, and the SMs are the same at the end of
 * the wave as at its beginning except for their pointers, then all later waves go alike, and are skipped.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_BLOCKS = 16 }; /* waves of fewer blocks are not skipped */

/* A series of replacements. */
struct series {
    size_t from, to;     /* the launch whose blocks end, and the one that waits */
    struct play *play;   /* of the one that waits */
    int64_t duration_ns; /* of its blocks */
    int64_t limit_ns;    /* nothing later may be played */
    struct ending other; /* the next ending of another launch than `from`; its time is INT64_MAX if there is none */
    int32_t next;        /* the block that ends next */
    int32_t last_first, last_sm; /* the SMs of the last blocks, on groups that go first and on others; -1: none */
    int64_t ended;               /* blocks so far */
    bool is_even;                /* each was replaced by one */
};

void gs_replace_free(gs_engine *engine) {
    struct replaced *kept = &engine->replaced;
    free(kept->sms);
    free(kept->groups);
    free(kept->pieces);
    free(kept->steps);
}

/* ---- may blocks be replaced now? ---- */

static bool has_many_left(const gs_engine *engine, size_t launch) {
    const gs_gpu *gpu = gs_dispatcher_state(engine->dispatcher)->gpu;
    return engine->run->launches.data[launch].blocks - engine->plays[launch].started > gpu->limits.blocks_per_sm;
}

/* Whether a launch that waits has started, is of single blocks that run equally long, and has many of them left. */
static bool may_go_on(const gs_engine *engine, size_t launch) {
    return engine->run->launches.data[launch].cluster == 1 && engine->plays[launch].started &&
           gs_engine_duration(engine, launch) && gs_end_in_order(engine, launch) && has_many_left(engine, launch);
}

static bool may_replace(gs_engine *engine) {
    size_t launch = engine->queue_first;
    if (launch == NO_LAUNCH || !engine->endings.count || engine->overtaking || engine->resumes_ns)
        return false;
    const struct ending *first = &engine->endings.data[0];
    return first->handle != FLYING && gs_end_in_order(engine, first->launch) && may_go_on(engine, launch) &&
           gs_dispatcher_is_full(engine->dispatcher, engine->plays[launch].kernel);
}

static struct ending second_ending(const struct endings *heap) {
    if (heap->count < 2)
        return (struct ending){.at_ns = INT64_MAX, .launch = SIZE_MAX};
    return heap->data[heap->count > 2 && gs_ends_before(&heap->data[2], &heap->data[1]) ? 2 : 1];
}

static struct series begin(const gs_engine *engine) {
    const struct endings *timers = &engine->readiness.timers;
    size_t launch = engine->queue_first;
    return (struct series){.from = engine->endings.data[0].launch,
                           .to = launch,
                           .play = &engine->plays[launch],
                           .duration_ns = gs_engine_duration(engine, launch),
                           .limit_ns =
                               timers->count ? gs_min(engine->horizon_ns, timers->data[0].at_ns) : engine->horizon_ns,
                           .other = second_ending(&engine->endings),
                           .next = engine->endings.data[0].handle,
                           .last_first = -1,
                           .last_sm = -1};
}

/* The last block of a launch that ends is not for us. */
static bool goes_on(const gs_engine *engine, const struct series *series) {
    if (series->next < 0)
        return false;
    const struct running *running = &engine->running[series->next];
    struct ending ending = {running->end_ns, series->from, running->block, series->next};
    return running->end_ns <= series->limit_ns && gs_ends_before(&ending, &series->other) &&
           has_many_left(engine, series->to) &&
           engine->plays[series->from].ended + 1 < engine->run->launches.data[series->from].blocks;
}

/* ---- one block ---- */

/* The first running block of a launch is in the heap, or the next of the series. */
static bool add_first(gs_engine *engine, struct series *series, int32_t handle) {
    const struct running *running = &engine->running[handle];
    struct ending ending = {running->end_ns, series->to, running->block, handle};
    if (series->from == series->to) {
        series->next = handle;
        return true;
    }
    if (gs_ends_before(&ending, &series->other))
        series->other = ending;
    return gs_endings_add(&engine->endings, ending);
}

static bool start(gs_engine *engine, struct series *series, int32_t handle, int32_t sm) {
    struct play *play = series->play;
    int64_t block = play->started++;
    int32_t before = play->last_ending;
    gs_running_add(engine, series->to, block, handle);
    engine->running[handle].end_ns = gs_later(engine->now_ns, series->duration_ns);
    play->last_ending = handle;
    if (before >= 0)
        engine->running[before].ends_next = handle;
    else if (!add_first(engine, series, handle))
        return false;
    return !engine->hooks.started || engine->hooks.started(engine->hooks.user, series->to, block, sm, engine->now_ns);
}

static void note_sm(const gs_engine *engine, struct series *series, int32_t sm) {
    if (engine->numberer)
        *(gs_numberer_is_first(engine->numberer, sm) ? &series->last_first : &series->last_sm) = sm;
}

/* Ends the next block, and starts others in its place. `*done`: it could be done. False: out of memory. */
static bool replace(gs_engine *engine, struct series *series, bool *done) {
    struct play *from = &engine->plays[series->from];
    int32_t handle = series->next, sm = gs_dispatcher_sm(engine->dispatcher, handle), fresh[GS_MAX_BLOCKS_PER_SM];
    struct running running = engine->running[handle];
    int32_t count = gs_dispatcher_replace(engine->dispatcher, handle, series->play->kernel, fresh);
    *done = count >= 0;
    if (count < 0)
        return true;
    engine->now_ns = gs_max(engine->now_ns, running.end_ns);
    gs_running_remove(engine, handle);
    from->ended++;
    series->ended++;
    series->is_even = series->is_even && count == 1;
    series->next = running.ends_next;
    if (running.ends_next < 0)
        from->last_ending = -1;
    bool told =
        !engine->hooks.ended || engine->hooks.ended(engine->hooks.user, series->from, running.block, engine->now_ns);
    for (int32_t i = 0; i < count && told; i++)
        told = start(engine, series, fresh[i], sm);
    if (count)
        note_sm(engine, series, sm);
    return told;
}

/* ---- waves that repeat ---- */

static bool allocate(gs_engine *engine) {
    const gs_gpu *gpu = gs_dispatcher_state(engine->dispatcher)->gpu;
    struct replaced *kept = &engine->replaced;
    size_t sms = (size_t)gpu->sms;
    if (kept->steps)
        return true;
    kept->sms = calloc(sms, sizeof *kept->sms);
    kept->groups = calloc(sms, sizeof *kept->groups);
    kept->pieces = calloc(sms * (size_t)gpu->limits.blocks_per_sm, sizeof *kept->pieces);
    kept->steps = calloc(sms, sizeof *kept->steps);
    return kept->sms && kept->groups && kept->pieces && kept->steps;
}

/* How many waves could be skipped after one that ends at `last_ns` at the latest. */
static int64_t waves_left(const gs_engine *engine, const struct series *series, int64_t wave, int64_t last_ns) {
    const gs_launch *which = &engine->run->launches.data[series->to];
    int64_t limit_ns = gs_min(gs_min(series->limit_ns, series->other.at_ns), INT64_MAX / 2);
    int64_t left =
        which->blocks - series->play->started - gs_dispatcher_state(engine->dispatcher)->gpu->limits.blocks_per_sm;
    return gs_min((limit_ns - last_ns - 1) / series->duration_ns, left / wave - 1);
}

/* Whether waves of the launch can be skipped, and it is worth looking for that. */
static bool may_skip(const gs_engine *engine, const struct series *series, int64_t wave) {
    const gs_gpu *gpu = gs_dispatcher_state(engine->dispatcher)->gpu;
    const gs_need *need = gs_dispatcher_need(engine->dispatcher, series->play->kernel);
    bool is_symmetric = gpu->mechanisms.warp_placement == GS_WARPS_STRICT &&
                        gpu->mechanisms.registers != GS_REGISTERS_CONTIGUOUS &&
                        need->warps % gpu->limits.partitions_per_sm == 0;
    return engine->hooks.may_skip && series->from == series->to && is_symmetric && wave >= FEW_BLOCKS &&
           waves_left(engine, series, wave, gs_later(engine->now_ns, series->duration_ns)) > 1 &&
           engine->hooks.may_skip(engine->hooks.user, series->to, wave);
}

static size_t piece_bytes(const gs_gpu *gpu) {
    bool has_pieces = gpu->mechanisms.shared_allocation != GS_SPACE_COUNTED;
    return has_pieces ? (size_t)gpu->sms * (size_t)gpu->limits.blocks_per_sm * sizeof(gs_piece) : 0;
}

static void keep(gs_engine *engine) {
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    struct replaced *kept = &engine->replaced;
    memcpy(kept->sms, state->sms, (size_t)state->gpu->sms * sizeof *kept->sms);
    memcpy(kept->groups, state->groups, (size_t)state->group_count * sizeof *kept->groups);
    memcpy(kept->pieces, state->pieces, piece_bytes(state->gpu));
}

/* Whether the SMs are as they were kept, except for their pointers. Sets the steps of these. */
static bool is_as_kept(gs_engine *engine) {
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    struct replaced *kept = &engine->replaced;
    int32_t partitions = state->gpu->limits.partitions_per_sm;
    for (int32_t i = 0; i < state->gpu->sms; i++) {
        kept->steps[i] = (state->sms[i].pointer - kept->sms[i].pointer + partitions) % partitions;
        kept->sms[i].pointer = state->sms[i].pointer;
    }
    return memcmp(kept->sms, state->sms, (size_t)state->gpu->sms * sizeof *kept->sms) == 0 &&
           memcmp(kept->groups, state->groups, (size_t)state->group_count * sizeof *kept->groups) == 0 &&
           memcmp(kept->pieces, state->pieces, piece_bytes(state->gpu)) == 0;
}

static void skip(gs_engine *engine, struct series *series, int64_t wave, int64_t count) {
    int64_t blocks = count * wave, time_ns = count * series->duration_ns;
    for (int32_t handle = series->next; handle >= 0; handle = engine->running[handle].ends_next) {
        engine->running[handle].block += blocks;
        engine->running[handle].end_ns += time_ns;
    }
    engine->now_ns += time_ns;
    series->play->started += blocks;
    series->play->ended += blocks;
    gs_dispatcher_step_pointers(engine->dispatcher, engine->replaced.steps, count);
    engine->hooks.skipped(engine->hooks.user, series->to, blocks);
}

/* Replaces each running block once. If the SMs are the same as before, skips the waves that go alike. */
static bool replace_wave(gs_engine *engine, struct series *series, bool *done) {
    const struct play *from = &engine->plays[series->from];
    int64_t wave = from->started - from->ended, ended = series->ended;
    bool looks = may_skip(engine, series, wave);
    if (looks && !allocate(engine))
        return false;
    if (looks)
        keep(engine);
    series->is_even = true;
    while ((*done = goes_on(engine, series)) && series->ended < ended + wave)
        if (!replace(engine, series, done))
            return false;
        else if (!*done)
            return true;
    if (!looks || !*done || !series->is_even || !is_as_kept(engine))
        return true;
    int64_t count = waves_left(engine, series, wave, engine->running[series->play->last_ending].end_ns);
    if (count > 0)
        skip(engine, series, wave, count);
    return true;
}

/* ---- many blocks ---- */

static void number_last(gs_engine *engine, const struct series *series) {
    const int32_t last[] = {series->last_first, series->last_sm};
    for (size_t i = 0; i < GS_COUNT(last); i++)
        if (last[i] >= 0)
            gs_number(engine->numberer, &(gs_burst){&(gs_placement){last[i], 1, 0}, 1, false}, &engine->turns.data[0],
                      engine->order);
}

/* The first in the heap has ended: the next block of its launch takes its place. */
static void renew_first(gs_engine *engine, const struct series *series) {
    gs_endings_take(&engine->endings, 0);
    if (series->next >= 0) { /* there is memory: one was just removed */
        const struct running *running = &engine->running[series->next];
        gs_endings_add(&engine->endings, (struct ending){running->end_ns, series->from, running->block, series->next});
    }
}

bool gs_replace_pass(gs_engine *engine, bool *replaced) {
    *replaced = false;
    if (!may_replace(engine))
        return true;
    struct series series = begin(engine);
    bool done = goes_on(engine, &series), has_memory = true;
    if (!done)
        return true;
    while (done && has_memory)
        has_memory = replace_wave(engine, &series, &done);
    gs_dispatcher_replaced(engine->dispatcher, series.play->kernel);
    *replaced = series.ended > 0;
    if (!*replaced)
        return has_memory;
    if (engine->solo.launch != series.from)
        engine->solo.launch = NO_LAUNCH;
    engine->waves.ended += series.ended;
    renew_first(engine, &series);
    number_last(engine, &series);
    return has_memory;
}
