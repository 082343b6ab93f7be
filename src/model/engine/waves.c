/*
 * waves.c: skips waves of blocks that repeat.
 *
 * A kernel of a billion equal blocks runs in waves, and soon one wave is like another: each block of it goes where a
 * block of the earlier one went, a fixed number of blocks and a fixed time later. Nothing new happens until the last
 * blocks have started. So the engine need not play these waves; it moves the numbers of the running blocks and the time
 * forward.
 *
 * From time to time, when all blocks that end at the present time have ended, the engine takes a snapshot of all that
 * decides what happens next, and compares it with an earlier one. If they are equal except for the numbers of blocks
 * and the time, what happened between them will happen again. Which earlier one: a snapshot is kept while the next 1,
 * 2, 4, 8 ... are compared with it (Brent's algorithm), so that a cycle of any length is found.
 *
 * A kernel that does not take part, because all its blocks run, does not change: its blocks must end after the waves
 * that are skipped. Kernels with a spread repeat only every 65536 blocks.
 */
#include "engine_state.h"

#include <stdlib.h>

static int64_t most_running(const gs_engine *engine) {
    return (int64_t)gs_gpu_most_blocks(gs_dispatcher_state(engine->dispatcher)->gpu);
}

void gs_waves_free(gs_engine *engine) {
    struct waves *waves = &engine->waves;
    gs_text_free(&waves->before.image);
    gs_text_free(&waves->now.image);
    gs_text_free(&waves->before.pointers);
    gs_text_free(&waves->now.pointers);
    free(waves->before.noted.data);
    free(waves->now.noted.data);
    free(waves->handles);
    free(waves->names);
    free(waves->shifts);
}

void gs_waves_restart(gs_engine *engine) {
    engine->waves.most = engine->waves.taken = 0;
    engine->waves.ended = 0;
}

static bool allocate_waves(gs_engine *engine) {
    struct waves *waves = &engine->waves;
    size_t count = (size_t)most_running(engine);
    if (waves->shifts)
        return true;
    waves->handles = calloc(count, sizeof *waves->handles);
    waves->names = calloc(count, sizeof *waves->names);
    waves->shifts = calloc(engine->run->launches.count + 1, sizeof *waves->shifts);
    return waves->handles && waves->names && waves->shifts;
}

/* ---- snapshots ---- */

static int compare_noted(const void *first, const void *second) {
    const struct noted *a = first, *b = second;
    int order = GS_COMPARE(a->launch, b->launch);
    return order ? order : GS_COMPARE(a->block, b->block);
}

static int compare_endings(const void *first, const void *second) {
    return gs_ends_before(first, second) ? -1 : 1;
}

/* Notes the launches in the queue, and then the running blocks, in the order of launches and blocks. */
static bool note_all(gs_engine *engine, struct snapshot *snapshot) {
    const gs_state *state = gs_dispatcher_state(engine->dispatcher);
    struct waves *waves = &engine->waves;
    bool noted = true;
    for (size_t i = engine->queue.first; i != NO_LAUNCH && noted; i = engine->plays[i].after)
        noted = GS_PUSH(&snapshot->noted, (struct noted){i, engine->plays[i].started, -1, GS_NO_TIME, -1});
    if (engine->bulk)
        return noted && gs_bulk_note(engine, snapshot);
    size_t first = snapshot->noted.count;
    for (int32_t handle = 0; handle < most_running(engine) && noted; handle++) {
        const struct running *running = &engine->running[handle];
        if (state->residents[handle].need < 0)
            continue;
        noted = GS_PUSH(&snapshot->noted, (struct noted){running->launch, engine->plays[running->launch].started,
                                                         running->block, running->end_ns, handle});
    }
    if (!noted)
        return false;
    struct noted *blocks = snapshot->noted.data + first;
    qsort(blocks, snapshot->noted.count - first, sizeof *blocks, compare_noted);
    for (size_t i = 0; first + i < snapshot->noted.count; i++) {
        waves->handles[i] = blocks[i].handle;
        waves->names[blocks[i].handle] = (int32_t)i;
    }
    return true;
}

static bool take_snapshot(gs_engine *engine, struct snapshot *snapshot) {
    snapshot->now_ns = engine->clock.now_ns;
    snapshot->noted.count = 0;
    gs_text_clear(&snapshot->image);
    gs_text_clear(&snapshot->pointers);
    if (!note_all(engine, snapshot))
        return false;
    gs_text_put(&snapshot->image, (const char *)&snapshot->noted.count, sizeof snapshot->noted.count);
    gs_text_put(&snapshot->image, (const char *)engine->numbering.turns.data,
                (size_t)engine->numbering.turns.count * sizeof *engine->numbering.turns.data);
    if (!engine->bulk)
        gs_dispatcher_image(engine->dispatcher, engine->waves.handles, engine->waves.names, &snapshot->image);
    return !snapshot->image.failed && !snapshot->pointers.failed;
}

/* ---- does it repeat? ---- */

/* Whether a noted block or launch is the same as before, some blocks of its launch later. */
static bool is_repeated(const gs_engine *engine, const struct noted *before, const struct noted *now, int64_t wave_ns) {
    if (before->launch != now->launch || (before->block < 0) != (now->block < 0))
        return false;
    int64_t shift = now->started - before->started;
    if (shift && gs_engine_spread(engine, now->launch) && shift % GS_SPREAD_BLOCKS)
        return false;
    if (now->block < 0)
        return true;
    if (now->block - before->block != shift || (before->at_ns == GS_NO_TIME) != (now->at_ns == GS_NO_TIME))
        return false;
    return now->at_ns == GS_NO_TIME || now->at_ns - before->at_ns == (shift ? wave_ns : 0);
}

static bool all_repeat(const gs_engine *engine) {
    const struct snapshot *before = &engine->waves.before, *now = &engine->waves.now;
    if (before->image.count != now->image.count || memcmp(before->image.data, now->image.data, now->image.count) != 0)
        return false;
    for (size_t i = 0; i < now->noted.count; i++)
        if (!is_repeated(engine, &before->noted.data[i], &now->noted.data[i], now->now_ns - before->now_ns))
            return false;
    return true;
}

/* How many waves may be skipped. Those in which blocks get scarce are played. */
static int64_t waves_left(const gs_engine *engine, int64_t wave_ns) {
    const struct waves *waves = &engine->waves;
    const struct endings *timers = &engine->readiness.timers;
    int64_t horizon_ns = gs_min(engine->clock.horizon_ns, timers->count ? timers->data[0].at_ns : INT64_MAX / 2);
    int64_t most = (gs_min(horizon_ns, INT64_MAX / 2) - engine->clock.now_ns - 1) / wave_ns, shifts = 0;
    for (size_t i = 0; i < waves->now.noted.count && most > 0; i++) {
        const struct noted *noted = &waves->now.noted.data[i];
        int64_t shift = noted->started - waves->before.noted.data[i].started;
        int64_t left = engine->run->launches.data[noted->launch].blocks - noted->started;
        if (shift)
            most = gs_min(most, (left - most_running(engine)) / shift - 1);
        else if (noted->at_ns != GS_NO_TIME)
            most = gs_min(most, (noted->at_ns - engine->clock.now_ns - 1) / wave_ns);
        if (shift && !engine->hooks.may_skip(engine->hooks.user, noted->launch, shift))
            return 0;
        shifts += shift;
    }
    return shifts ? most : 0;
}

/* ---- skipping ---- */

static void move_block(gs_engine *engine, const struct noted *noted, int64_t blocks, int64_t time_ns) {
    if (engine->bulk) {
        gs_bulk_delay(engine, noted->launch, time_ns);
        return;
    }
    engine->running[noted->handle].block += blocks;
    engine->running[noted->handle].end_ns += time_ns;
}

static void move_blocks(gs_engine *engine, int64_t count, int64_t wave_ns) {
    struct endings *endings = &engine->endings;
    const int64_t *shifts = engine->waves.shifts;
    for (size_t i = 0; i < engine->waves.now.noted.count; i++) {
        const struct noted *noted = &engine->waves.now.noted.data[i];
        int64_t shift = shifts[noted->launch];
        if (noted->block < 0 || noted->at_ns == GS_NO_TIME || !shift)
            continue;
        move_block(engine, noted, count * shift, count * wave_ns);
    }
    for (size_t i = 0; i < endings->count && !engine->bulk; i++) {
        struct ending *ending = &endings->data[i];
        ending->block = engine->running[ending->handle].block;
        ending->at_ns = engine->running[ending->handle].end_ns;
    }
    qsort(endings->data, endings->count, sizeof *endings->data, compare_endings); /* sorted, it is a heap */
}

static void skip_noted(gs_engine *engine, int64_t count, int64_t wave_ns) {
    struct waves *waves = &engine->waves;
    for (size_t i = 0; i < waves->now.noted.count; i++)
        waves->shifts[waves->now.noted.data[i].launch] =
            waves->now.noted.data[i].started - waves->before.noted.data[i].started;
    move_blocks(engine, count, wave_ns);
    if (engine->bulk)
        gs_bulk_move_pointers(engine->bulk, &waves->before, &waves->now, count);
    engine->clock.now_ns += count * wave_ns;
    for (size_t i = 0; i < waves->now.noted.count; i++) {
        size_t launch = waves->now.noted.data[i].launch;
        int64_t blocks = count * waves->shifts[launch];
        if (!blocks)
            continue;
        waves->shifts[launch] = 0;
        engine->plays[launch].started += blocks;
        engine->plays[launch].ended += blocks;
        engine->hooks.skipped(engine->hooks.user, launch, blocks);
    }
}

/* Compares the present with the snapshot that is kept, or keeps the present one. */
static bool look_for_waves(gs_engine *engine) {
    struct waves *waves = &engine->waves;
    if (!allocate_waves(engine) || !take_snapshot(engine, &waves->now))
        return false;
    int64_t wave_ns = waves->now.now_ns - waves->before.now_ns;
    int64_t count = waves->most && wave_ns > 0 && all_repeat(engine) ? waves_left(engine, wave_ns) : 0;
    if (count > 0) {
        skip_noted(engine, count, wave_ns);
        gs_waves_restart(engine);
    } else if (waves->taken++ == waves->most) {
        struct snapshot kept = waves->before;
        waves->before = waves->now;
        waves->now = kept;
        waves->most = 2 * waves->most + 1;
        waves->taken = 0;
    }
    return true;
}

bool gs_waves_are_likely(const gs_engine *engine, int64_t more) {
    return engine->waves.ended + more >= 128 * most_running(engine);
}

bool gs_waves_pass(gs_engine *engine) {
    struct waves *waves = &engine->waves;
    bool is_moment_over = engine->endings.count && engine->endings.data[0].at_ns > engine->clock.now_ns;
    bool is_memoized = engine->endings.count && engine->endings.data[0].handle == MEMOIZED;
    if (is_memoized || engine->run->green_contexts.count || !engine->hooks.may_skip || engine->hooks.follow ||
        ++waves->ended < 2 * most_running(engine) || !is_moment_over)
        return true;
    waves->ended = 0;
    return look_for_waves(engine);
}
