/*
 * explain.c: why a kernel waits, in words that a CUDA programmer knows.
 *
 * SMs with the same obstacle are named together, so there is one sentence for each obstacle, and often only one in all.
 */
#include "engine.h"

#include <stdlib.h>

/* ---- lists of SMs ---- */

static int32_t count_chosen(const bool *chosen, int32_t sms) {
    int32_t count = 0;
    for (int32_t i = 0; i < sms; i++)
        count += chosen[i];
    return count;
}

/* The SMs marked in `chosen`: "every SM", "SM 5", "SMs 0-8, 12". */
static void put_sms(gs_text *text, const bool *chosen, int32_t sms) {
    int32_t numbers[GS_MAX_SMS];
    size_t count = 0;
    for (int32_t i = 0; i < sms; i++)
        if (chosen[i])
            numbers[count++] = i;
    if (count == (size_t)sms) {
        gs_text_add(text, "every SM");
        return;
    }
    gs_text_add(text, count == 1 ? "SM " : "SMs ");
    gs_text_put_numbers(text, numbers, count, 8);
}

/* ---- obstacles ---- */

static bool same_obstacle(const gs_obstacle *a, const gs_obstacle *b) {
    return a->kind == b->kind && a->partition == b->partition && a->config_bytes == b->config_bytes &&
           a->others_could == b->others_could && (a->fits > 0) == (b->fits > 0) && a->share == b->share;
}

static void put_kb(gs_text *text, int64_t bytes) {
    if (bytes % 1024)
        gs_text_add(text, "%.2f KB", (double)bytes / 1024);
    else
        gs_text_add(text, "%lld KB", (long long)(bytes / 1024));
}

/* Warp slots or registers: of one partition, or of the whole SM if warps step aside. */
static void put_warps(gs_text *text, const gs_obstacle *obstacle, const gs_need *need, const char *sms, bool many) {
    bool in_partition = obstacle->partition >= 0, registers = obstacle->kind == GS_OBSTACLE_REGISTERS;
    if (in_partition)
        gs_text_add(text, "partition %d of %s has ", obstacle->partition, sms);
    else
        gs_text_add(text, "%s %s ", sms, many ? "have" : "has");
    if (!obstacle->fits && registers)
        gs_text_add(text, "no headroom for another %d-register warp", need->shape.registers);
    else if (!obstacle->fits)
        gs_text_add(text, "no free warp slot");
    else if (registers)
        gs_text_add(text, "too few registers free for the %d %d-register warps of a block", obstacle->share,
                    need->shape.registers);
    else
        gs_text_add(text, "too few free warp slots for the %d warps of a block", obstacle->share);
    if (obstacle->fits && in_partition)
        gs_text_add(text, " that go there");
    if (obstacle->others_could && in_partition)
        gs_text_add(text, ", and warps do not step aside");
}

static void put_obstacle(gs_text *text, const gs_gpu *gpu, const gs_need *need, const gs_obstacle *obstacle,
                         const char *sms, bool many) {
    int64_t shared_bytes = (int64_t)need->shared * gpu->limits.shared_granularity_bytes;
    switch (obstacle->kind) {
    case GS_OBSTACLE_CONFIG: {
        gs_text_add(text, "%s %s busy with a shared-memory configuration of ", sms, many ? "are" : "is");
        put_kb(text, obstacle->config_bytes);
        bool is_too_much = obstacle->config_bytes > need->most_bytes;
        gs_text_add(text, is_too_much ? ", the kernel asked for at most " : ", the kernel needs ");
        put_kb(text, is_too_much ? need->most_bytes : need->config_bytes);
        gs_text_add(text, ", and that changes only when the %s is idle",
                    gpu->mechanisms.shared_scope == GS_SCOPE_TPC ? "TPC" : "SM");
        break;
    }
    case GS_OBSTACLE_BLOCK_SLOTS:
        gs_text_add(text, "%s %s all %d block slots taken", sms, many ? "have" : "has", gpu->limits.blocks_per_sm);
        break;
    case GS_OBSTACLE_WARP_SLOTS:
    case GS_OBSTACLE_REGISTERS:
        put_warps(text, obstacle, need, sms, many);
        break;
    case GS_OBSTACLE_SHARED:
        gs_text_add(text, "%s %s less shared memory free than the ", sms, many ? "have" : "has");
        put_kb(text, shared_bytes);
        gs_text_add(text, " of a block");
        break;
    case GS_OBSTACLE_SHARED_HOLES:
        gs_text_add(text, "%s %s the ", sms, many ? "have" : "has");
        put_kb(text, shared_bytes);
        gs_text_add(text, " of shared memory of a block free, but not in one piece");
        break;
    case GS_OBSTACLE_NONE:
        break;
    }
}

static bool is_open(const gs_grid *grid, int32_t sm) {
    return !grid->open || grid->open[sm];
}

/* Of SMs that have headroom nothing is said. `parts`: of the sentence, before. */
static void put_obstacles(gs_text *text, const gs_state *state, const gs_need *need, const gs_grid *grid,
                          int32_t parts) {
    int32_t sms = state->gpu->sms;
    gs_obstacle *obstacles = calloc((size_t)sms, sizeof *obstacles);
    bool *chosen = calloc((size_t)sms, sizeof *chosen);
    bool *done = calloc((size_t)sms, sizeof *done);
    if (!obstacles || !chosen || !done)
        text->failed = true;
    for (int32_t i = 0; i < sms && !text->failed; i++) {
        obstacles[i] = gs_state_obstacle(state, need, i);
        done[i] = !is_open(grid, i) || obstacles[i].kind == GS_OBSTACLE_NONE;
    }
    for (int32_t first = 0; first < sms && !text->failed; first++) {
        if (done[first])
            continue;
        for (int32_t i = 0; i < sms; i++) {
            chosen[i] = !done[i] && same_obstacle(&obstacles[i], &obstacles[first]);
            done[i] = done[i] || chosen[i];
        }
        gs_text names = {0};
        put_sms(&names, chosen, sms);
        gs_text_add(text, parts++ ? "; " : "");
        put_obstacle(text, state->gpu, need, &obstacles[first], names.data ? names.data : "",
                     count_chosen(chosen, sms) > 1 && count_chosen(chosen, sms) < sms);
        gs_text_free(&names);
    }
    free(obstacles);
    free(chosen);
    free(done);
}

static void put_no_headroom(const gs_dispatcher *dispatcher, const gs_need *need, const gs_grid *grid, gs_text *text) {
    int64_t headroom = grid->is_whole ? gs_grid_headroom(dispatcher, grid) : 0;
    if (grid->open)
        gs_text_add(text, "in its green context, ");
    if (headroom)
        gs_text_add(text, "there is headroom for %lld, and a cooperative launch starts with all its blocks",
                    (long long)headroom);
    put_obstacles(text, gs_dispatcher_state(dispatcher), need, grid, headroom > 0);
}

/* Whether some SM has headroom for a block of the kernel, but takes no more blocks of clusters. */
static bool has_enough_clusters(const gs_state *state, const gs_need *need) {
    for (int32_t i = 0; i < state->gpu->sms; i++)
        if (state->sms[i].cluster_blocks >= state->gpu->grants.cluster_blocks_per_sm &&
            gs_state_headroom(state, need, i))
            return true;
    return false;
}

static void put_no_cluster(const gs_state *state, const gs_need *need, int32_t size, gs_text *text) {
    if (need->blocks_per_sm == 1)
        gs_text_add(text, "no GPC has %d SMs with headroom for a block each", size);
    else
        gs_text_add(text, "no GPC has %d TPC%s with headroom for a block on both SMs%s", size / 2,
                    size / 2 > 1 ? "s" : "", size % 2 ? " and one more SM with headroom" : "");
    gs_text_add(text, ", for a cluster of %d", size);
    if (has_enough_clusters(state, need))
        gs_text_add(text, "; an SM takes at most %d blocks of clusters", state->gpu->grants.cluster_blocks_per_sm);
}

void gs_why_no_headroom(const gs_dispatcher *dispatcher, const gs_grid *grid, gs_text *text) {
    const gs_need *need = gs_dispatcher_need(dispatcher, grid->kernel);
    const gs_state *state = gs_dispatcher_state(dispatcher);
    if (gs_state_local_waits(state, need))
        gs_text_add(text,
                    "it needs %lld bytes of local memory a thread, the GPU is set up for %lld, and that grows only "
                    "when the GPU is idle",
                    (long long)need->shape.local_bytes, (long long)state->local_bytes);
    else if (grid->cluster > 1)
        put_no_cluster(state, need, grid->cluster, text);
    else
        put_no_headroom(dispatcher, need, grid, text);
}

/* ---- numbers ---- */

/* What of a resource a block needs on an SM, and what is free there. */
struct lack {
    int64_t needed, free;
    int32_t partition; /* -1: of the whole SM */
};

static struct lack lack_of(const gs_state *state, const gs_need *need, int32_t number, const gs_obstacle *obstacle) {
    const gs_sm *sm = &state->sms[number];
    bool registers = obstacle->kind == GS_OBSTACLE_REGISTERS;
    int64_t per_warp = registers ? (int64_t)need->registers * state->gpu->limits.register_granularity : 1;
    int64_t unit = registers ? state->gpu->limits.register_granularity : 1;
    struct lack lack = {obstacle->share * per_warp, 0, obstacle->partition};
    for (int32_t p = 0; p < state->gpu->limits.partitions_per_sm; p++)
        if (obstacle->partition < 0 || obstacle->partition == p)
            lack.free += (registers ? sm->registers[p] : sm->warp_slots[p]) * unit;
    if (obstacle->kind == GS_OBSTACLE_SHARED || obstacle->kind == GS_OBSTACLE_SHARED_HOLES) {
        int64_t granule = state->gpu->limits.shared_granularity_bytes;
        lack = (struct lack){need->shared * granule, sm->shared_free * granule, -1};
    }
    return lack;
}

static const char *resource_name(gs_obstacle_kind kind) {
    switch (kind) {
    case GS_OBSTACLE_REGISTERS:
        return "registers";
    case GS_OBSTACLE_WARP_SLOTS:
        return "warp slots";
    case GS_OBSTACLE_SHARED:
        return "bytes of shared memory";
    case GS_OBSTACLE_SHARED_HOLES:
        return "bytes of shared memory in one piece";
    default:
        return NULL; /* the sentence about the obstacle has all numbers */
    }
}

static void put_lack(gs_text *text, const struct lack *lack, gs_obstacle_kind kind) {
    gs_text_add(text, "%s ", text->count ? ", and" : "a block needs");
    gs_text_put_grouped(text, lack->needed);
    gs_text_add(text, " %s", resource_name(kind));
    if (lack->partition >= 0)
        gs_text_add(text, " in partition %d", lack->partition);
    gs_text_add(text, " where at most ");
    gs_text_put_grouped(text, lack->free);
    gs_text_add(text, " are free");
}

/* A cluster or a cooperative launch may wait although single blocks would fit. */
static bool fits_somewhere(const gs_state *state, const gs_need *need, const gs_grid *grid) {
    for (int32_t i = 0; i < state->gpu->sms; i++)
        if (is_open(grid, i) && gs_state_obstacle(state, need, i).kind == GS_OBSTACLE_NONE)
            return true;
    return false;
}

void gs_why_numbers(const gs_dispatcher *dispatcher, const gs_grid *grid, gs_text *text) {
    const gs_need *need = gs_dispatcher_need(dispatcher, grid->kernel);
    const gs_state *state = gs_dispatcher_state(dispatcher);
    if (gs_state_local_waits(state, need) || fits_somewhere(state, need, grid))
        return;
    for (gs_obstacle_kind kind = GS_OBSTACLE_NONE; kind <= GS_OBSTACLE_SHARED_HOLES; kind++) {
        struct lack most = {.free = -1};
        for (int32_t i = 0; i < state->gpu->sms && resource_name(kind); i++) {
            gs_obstacle obstacle = gs_state_obstacle(state, need, i);
            struct lack lack = lack_of(state, need, i, &obstacle);
            if (is_open(grid, i) && obstacle.kind == kind && lack.free > most.free)
                most = lack;
        }
        if (most.free >= 0)
            put_lack(text, &most, kind);
    }
}

/* While `first` waits, later kernels start nowhere, or only on a few SMs. */
static void put_queue(gs_text *text, gs_engine *engine, const gs_launch *first) {
    gs_text_add(text, "%s is served first, and while it waits ", first->kernel);
    const gs_gpu *gpu = gs_dispatcher_state(gs_engine_dispatcher(engine))->gpu;
    if (first->cluster <= 2 || !gpu->grants.first) {
        gs_text_add(text, "nothing after it starts");
        return;
    }
    bool open[GS_MAX_SMS] = {0};
    for (int32_t i = 0; i < gpu->grants.groups.ends[gpu->grants.first - 1]; i++)
        open[gpu->grants.groups.sms[i]] = true;
    gs_text_add(text, "what is after it starts on ");
    put_sms(text, open, gpu->sms);
    gs_text_add(text, " only");
}

void gs_why_too_many(const gs_gpu *gpu, gs_text *text) {
    gs_text_add(text, "the GPU takes %d kernels at a time", gpu->limits.kernels_per_gpu);
}

static void put_headroom(gs_engine *engine, size_t launch, gs_text *text) {
    gs_grid grid = gs_engine_grid(engine, launch);
    gs_why_no_headroom(gs_engine_dispatcher(engine), &grid, text);
}

/* The numbers of a cluster would be those of single blocks. */
static void add_numbers(const gs_dispatcher *dispatcher, const gs_grid *grid, gs_text *text) {
    gs_text numbers = {0};
    if (grid->cluster == 1)
        gs_why_numbers(dispatcher, grid, &numbers);
    if (numbers.count)
        gs_text_add(text, " (%s)", numbers.data);
    text->failed |= numbers.failed;
    gs_text_free(&numbers);
}

void gs_why_not_placed(const gs_dispatcher *dispatcher, const gs_grid *grid, gs_text *text) {
    gs_why_no_headroom(dispatcher, grid, text);
    add_numbers(dispatcher, grid, text);
}

void gs_why_with_numbers(gs_engine *engine, const gs_run *run, size_t launch, gs_text *text) {
    size_t other;
    gs_grid grid = gs_engine_grid(engine, launch);
    gs_why(engine, run, launch, text);
    if (gs_engine_hold(engine, launch, &other) == GS_HOLD_HEADROOM)
        add_numbers(gs_engine_dispatcher(engine), &grid, text);
}

void gs_why(gs_engine *engine, const gs_run *run, size_t launch, gs_text *text) {
    const gs_launch *launches = run->launches.data;
    size_t other;
    gs_hold hold = gs_engine_hold(engine, launch, &other);
    if (hold == GS_HOLD_NONE)
        return;
    int64_t blocks = launches[launch].blocks;
    gs_text_add(text, "%lld of %lld blocks of %s wait: ", (long long)(blocks - gs_engine_started(engine, launch)),
                (long long)blocks, launches[launch].kernel);
    if (hold == GS_HOLD_STREAM)
        gs_text_add(text, "%s before it in the same stream has not ended",
                    other < run->launches.count ? launches[other].kernel : "a copy");
    else if (hold == GS_HOLD_EVENT)
        gs_text_add(text, "a kernel or copy that it depends on has not ended");
    else if (hold == GS_HOLD_CONNECTION)
        gs_text_add(text, "%s before it in the same connection waits", launches[other].kernel);
    else if (hold == GS_HOLD_KERNELS)
        gs_why_too_many(gs_dispatcher_state(gs_engine_dispatcher(engine))->gpu, text);
    else if (hold == GS_HOLD_QUEUE)
        put_queue(text, engine, &launches[other]);
    else
        put_headroom(engine, launch, text);
}
