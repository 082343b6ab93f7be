/*
 * replace.c: blocks of a launch that waits take the place of blocks that end.
 *
 * While the first launch of the queue waits, no SM has headroom for it, and all others wait behind it. When a block
 * ends, its own or one of another launch, only the SM of that block can get headroom, and the next blocks of the
 * waiting launch go there. So neither the queue nor the other SMs need be looked at: the blocks of one launch that end
 * one after the other are played fast, until a block of another launch ends, something else happens, or few blocks are
 * left.
 *
 * Each of these blocks is a burst by itself. The turns after a burst on one SM depend only on that SM (number.c), so
 * only the last one on a group that goes first, and the last on another group, count.
 *
 * Often each block that ends leaves exactly what the next one needs, and no more: the warps of the next one go to the
 * same partitions, because the pointer of the SM is where it was when the first one started, or because each partition
 * gets as many warps; and no position of the pointer gives headroom to another block. If the next one also gets the
 * same place in shared memory, or the places move on in a circle, a wave leaves the SMs as they were, except for their
 * pointers. Such waves are skipped.
 */
#include "engine_state.h"

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
};

void gs_replace_free(gs_engine *engine) {
    free(engine->steps);
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
    size_t launch = engine->queue.first;
    if (launch == NO_LAUNCH || !engine->endings.count || engine->overtaking || engine->clock.resumes_ns)
        return false;
    const struct ending *first = &engine->endings.data[0];
    return first->handle != MEMOIZED && gs_end_in_order(engine, first->launch) && may_go_on(engine, launch) &&
           gs_dispatcher_is_full(engine->dispatcher, engine->plays[launch].kernel);
}

static struct ending second_ending(const struct endings *heap) {
    if (heap->count < 2)
        return (struct ending){.at_ns = INT64_MAX, .launch = SIZE_MAX};
    return heap->data[heap->count > 2 && gs_ends_before(&heap->data[2], &heap->data[1]) ? 2 : 1];
}

static struct series begin_series(const gs_engine *engine) {
    const struct endings *timers = &engine->readiness.timers;
    size_t launch = engine->queue.first;
    return (struct series){.from = engine->endings.data[0].launch,
                           .to = launch,
                           .play = &engine->plays[launch],
                           .duration_ns = gs_engine_duration(engine, launch),
                           .limit_ns = timers->count ? gs_min(engine->clock.horizon_ns, timers->data[0].at_ns)
                                                     : engine->clock.horizon_ns,
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

static bool start_in_place(gs_engine *engine, struct series *series, int32_t handle, int32_t sm) {
    struct play *play = series->play;
    int64_t block = play->started++;
    int32_t before = play->last_ending;
    gs_running_add(engine, series->to, block, handle);
    engine->running[handle].end_ns = gs_later(engine->clock.now_ns, series->duration_ns);
    play->last_ending = handle;
    if (before >= 0)
        engine->running[before].ends_next = handle;
    else if (!add_first(engine, series, handle))
        return false;
    return !engine->hooks.started ||
           engine->hooks.started(engine->hooks.user, series->to, block, sm, engine->clock.now_ns);
}

static void note_sm(const gs_engine *engine, struct series *series, int32_t sm) {
    if (engine->numbering.numberer)
        *(gs_numberer_is_first(engine->numbering.numberer, sm) ? &series->last_first : &series->last_sm) = sm;
}

/* Ends the next block, and starts others in its place. `*done`: it could be done. False: out of memory. */
static bool replace_block(gs_engine *engine, struct series *series, bool *done) {
    struct play *from = &engine->plays[series->from];
    gs_placement fresh[GS_MAX_BLOCKS_PER_SM];
    int32_t handle = series->next, sm = gs_dispatcher_sm(engine->dispatcher, handle);
    struct running running = engine->running[handle];
    int32_t count = gs_dispatcher_replace(engine->dispatcher, handle, series->play->kernel, fresh);
    *done = count >= 0;
    if (count < 0)
        return true;
    engine->clock.now_ns = gs_max(engine->clock.now_ns, running.end_ns);
    gs_running_remove(engine, handle);
    from->ended++;
    series->ended++;
    series->next = running.ends_next;
    if (running.ends_next < 0)
        from->last_ending = -1;
    bool told = !engine->hooks.ended ||
                engine->hooks.ended(engine->hooks.user, series->from, running.block, engine->clock.now_ns);
    for (int32_t i = 0; i < count && told; i++) {
        engine->headroom = fresh[i].headroom;
        told = start_in_place(engine, series, fresh[i].handle, sm);
    }
    if (count)
        note_sm(engine, series, sm);
    return told;
}

/* ---- waves that repeat ---- */

static bool allocate_steps(gs_engine *engine) {
    const gs_gpu *gpu = gs_dispatcher_state(engine->dispatcher)->gpu;
    if (!engine->steps)
        engine->steps = calloc(2 * (size_t)gpu->sms, sizeof *engine->steps);
    return engine->steps;
}

/* How many waves can be skipped now, or less than 1: nothing else happens during them, and some blocks are left. */
static int64_t waves_left(const gs_engine *engine, const struct series *series, int64_t wave) {
    const gs_launch *which = &engine->run->launches.data[series->to];
    int64_t limit_ns = gs_min(gs_min(series->limit_ns, series->other.at_ns), INT64_MAX / 2);
    int64_t last_ns = engine->running[series->play->last_ending].end_ns;
    int64_t left =
        which->blocks - series->play->started - gs_dispatcher_state(engine->dispatcher)->gpu->limits.blocks_per_sm;
    return gs_min((limit_ns - last_ns + series->duration_ns - 1) / series->duration_ns, left / wave);
}

/* Whether warps go to partitions in strict turn, and only the number of free registers counts. */
static bool is_strict(const gs_engine *engine) {
    const gs_mechanisms *mechanisms = &gs_dispatcher_state(engine->dispatcher)->gpu->mechanisms;
    return mechanisms->warp_placement == GS_WARPS_STRICT && mechanisms->registers != GS_REGISTERS_CONTIGUOUS;
}

static int32_t hole_before(const gs_space *space, int32_t i) {
    return space->pieces[i].at - (i ? space->pieces[i - 1].at + space->pieces[i - 1].size : 0);
}

/* Whether each block of the launch on an SM that ends is replaced by one in the same place of shared memory; or, in a
   ring that has only such blocks, in the order in which they end, each by one in the place next to the one before. */
static bool places_stay(const gs_engine *engine, const struct series *series, const gs_space *space, int32_t size) {
    int64_t last_block = -1;
    bool all_own = true, in_order = true, first_own = false;
    for (int32_t i = 0; i < space->count; i++) {
        const struct running *running = &engine->running[space->pieces[i].block];
        bool is_own = running->launch == series->to;
        int32_t hole = hole_before(space, i);
        if (hole >= size || (hole && (is_own || !i)))
            return false;
        first_own = first_own || (!i && is_own);
        all_own = all_own && is_own;
        in_order = in_order && running->block > last_block;
        last_block = running->block;
    }
    const gs_piece *last = &space->pieces[space->count - 1];
    bool ends_with_hole = last->at + last->size < space->size;
    return !first_own || !space->is_ring || !ends_with_hole || (all_own && in_order);
}

/* Whether a wave leaves the SM as it is, except for its pointer. */
static bool sm_stays(const gs_engine *engine, const struct series *series, int32_t number) {
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    const gs_need *need = gs_dispatcher_need(engine->dispatcher, series->play->kernel);
    const gs_sm *sm = &state->sms[number];
    const gs_group *group = &state->groups[sm->group];
    bool keeps_config = state->gpu->mechanisms.shared_kept == GS_KEPT_FOR_WAITING ||
                        group->config_bytes == need->given_bytes || group->residents > 1;
    if ((group->residents == 1 && group->sms > 1) || !keeps_config)
        return false;
    return !need->shared || state->gpu->mechanisms.shared_allocation == GS_SPACE_COUNTED ||
           places_stay(engine, series, &sm->shared_space, need->shared);
}

/* Whether a block that has its first warp in this partition has its warps where this one has. */
static bool is_placed_from(const gs_resident *resident, int32_t partition, int32_t warps, int32_t partitions) {
    for (int32_t turn = 0; turn < partitions; turn++) {
        int32_t wanted = warps / partitions + (turn < warps % partitions);
        if (resident->warps[(partition + turn) % partitions] != wanted)
            return false;
    }
    return true;
}

/* Whether each running block of the launch will be replaced by one on the same SM, again and again. Sets how far that
   moves the pointers. */
static bool is_steady(gs_engine *engine, const struct series *series) {
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    int32_t sms = state->gpu->sms, partitions = state->gpu->limits.partitions_per_sm;
    int32_t warps = gs_dispatcher_need(engine->dispatcher, series->play->kernel)->warps;
    int32_t extra = warps % partitions == 0 && state->gpu->mechanisms.extra_step == GS_YES ? 1 : 0;
    int32_t *pointers = engine->steps + sms; /* as they will be when the next block starts */
    memset(engine->steps, 0, (size_t)sms * sizeof *engine->steps);
    for (int32_t handle = series->next; handle >= 0; handle = engine->running[handle].ends_next) {
        int32_t sm = state->residents[handle].sm;
        if (!engine->steps[sm]++) {
            pointers[sm] = state->sms[sm].pointer;
            if (!sm_stays(engine, series, sm) ||
                !gs_dispatcher_stays_full(engine->dispatcher, series->play->kernel, sm))
                return false;
        }
        if (!is_placed_from(&state->residents[handle], pointers[sm], warps, partitions))
            return false;
        pointers[sm] = (pointers[sm] + warps + extra) % partitions;
    }
    for (int32_t i = 0; i < sms; i++) {
        if (engine->steps[i] && !extra && pointers[i] != state->sms[i].pointer)
            return false;
        engine->steps[i] *= extra;
    }
    return true;
}

static void skip_series(gs_engine *engine, struct series *series, int64_t wave, int64_t count) {
    int64_t blocks = count * wave, time_ns = count * series->duration_ns;
    int32_t sm = -1;
    engine->clock.now_ns = engine->running[series->play->last_ending].end_ns + time_ns - series->duration_ns;
    for (int32_t handle = series->next; handle >= 0; handle = engine->running[handle].ends_next) {
        engine->running[handle].block += blocks;
        engine->running[handle].end_ns += time_ns;
        sm = gs_dispatcher_sm(engine->dispatcher, handle);
        note_sm(engine, series, sm);
    }
    series->play->started += blocks;
    series->play->ended += blocks;
    series->ended += wave;
    gs_dispatcher_step_pointers(engine->dispatcher, engine->steps, count, sm);
    engine->hooks.skipped(engine->hooks.user, series->to, blocks);
}

/* Skips waves of the launch that go alike, if it is worth looking for that. False: out of memory. */
static bool skip_waves(gs_engine *engine, struct series *series) {
    int64_t wave = series->play->started - series->play->ended;
    bool is_own = series->from == series->to && engine->hooks.may_skip && is_strict(engine);
    int64_t count = is_own && wave >= FEW_BLOCKS ? waves_left(engine, series, wave) : 0;
    if (count <= 0 || !engine->hooks.may_skip(engine->hooks.user, series->to, wave))
        return true;
    if (!allocate_steps(engine))
        return false;
    if (is_steady(engine, series))
        skip_series(engine, series, wave, count);
    return true;
}

/* ---- many blocks ---- */

static void number_last(gs_engine *engine, const struct series *series) {
    const int32_t last[] = {series->last_first, series->last_sm};
    for (size_t i = 0; i < GS_COUNT(last); i++)
        if (last[i] >= 0)
            gs_number(engine->numbering.numberer, &(gs_burst){&(gs_placement){last[i], 1, 0}, 1, false},
                      &engine->numbering.turns.data[0], engine->numbering.order);
}

/* The first in the heap has ended: the next block of its launch takes its place. */
static void renew_first(gs_engine *engine, const struct series *series) {
    gs_endings_take(&engine->endings, 0);
    if (series->next >= 0) { /* there is memory: one was just removed */
        const struct running *running = &engine->running[series->next];
        gs_endings_add(&engine->endings, (struct ending){running->end_ns, series->from, running->block, series->next});
    }
}

/* Whether the series is so long that waves.c should have a look. It does so when a moment is over. */
static bool is_time_for_waves(const gs_engine *engine, const struct series *series) {
    return gs_waves_are_likely(engine, series->ended) && engine->running[series->next].end_ns > engine->clock.now_ns;
}

bool gs_replace_pass(gs_engine *engine, bool *replaced) {
    *replaced = false;
    if (!may_replace(engine))
        return true;
    struct series series = begin_series(engine);
    bool done = goes_on(engine, &series), has_memory = true;
    if (!done)
        return true;
    has_memory = skip_waves(engine, &series);
    while (has_memory && done && goes_on(engine, &series) && !is_time_for_waves(engine, &series))
        has_memory = replace_block(engine, &series, &done);
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
