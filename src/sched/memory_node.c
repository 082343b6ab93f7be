/*
 * memory_node.c: memsets and copies of CUDA graphs that need SMs.
 *
 * A memset of more than a few bytes, and a copy within the GPU, is a kernel of the driver (`graph_memory` in the
 * description of a GPU). Its blocks are placed and numbered like those of a launch, without shared memory, and end
 * after a microsecond or two. In a run without times they end when what comes at the same time has been placed. If not
 * all of them fit, the others are left out: the GPU is full, and what comes then depends on when blocks end.
 */
#include "engine.h"

#include <stdlib.h>

static const gs_copy *copy_of(const gs_engine *engine, size_t operation) {
    return &engine->run->copies.data[operation - engine->run->launches.count];
}

/* The number of its kernel in the description; -1: it has none. */
static int kind_of(const gs_copy *copy) {
    if (copy->is_memset)
        return GS_MEMORY_SET;
    return copy->kind == GS_COPY_DEVICE_TO_DEVICE ? GS_MEMORY_COPY : -1;
}

static int64_t blocks_of(const gs_engine *engine, const gs_copy *copy) {
    const gs_gpu *gpu = gs_dispatcher_state(engine->dispatcher)->gpu;
    int kind = kind_of(copy);
    return kind < 0 ? 0 : gs_memory_kernel_blocks(&gpu->memory_kernels[kind], copy->bytes);
}

bool gs_memory_is_kernel(const gs_engine *engine, size_t operation) {
    return operation >= engine->run->launches.count && blocks_of(engine, copy_of(engine, operation)) > 0;
}

/* Places a block, if possible. */
static bool place(gs_engine *engine, int kernel, gs_burst *burst) {
    struct handles *running = &engine->memory_blocks;
    int32_t room;
    int sm = gs_dispatcher_choose(engine->dispatcher, kernel, &room);
    if (sm == GS_WAIT)
        return false;
    int32_t handle = gs_dispatcher_place(engine->dispatcher, kernel, sm);
    running->data[running->count++] = handle;
    burst->placed[burst->count++] = (gs_placement){sm, room, handle};
    return true;
}

bool gs_memory_start(gs_engine *engine, size_t operation) {
    const gs_gpu *gpu = gs_dispatcher_state(engine->dispatcher)->gpu;
    const gs_copy *copy = copy_of(engine, operation);
    const gs_memory_kernel *described = &gpu->memory_kernels[kind_of(copy)];
    int64_t blocks = gs_min(blocks_of(engine, copy), (int64_t)gpu->sms * gpu->limits.blocks_per_sm);
    gs_shape shape = gs_shape_of(described->threads, described->registers, GS_BARE);
    int kernel = gs_dispatcher_kernel(engine->dispatcher, &shape, NULL), next;
    gs_burst burst = {.placed = calloc((size_t)blocks + 1, sizeof *burst.placed)};
    int32_t room = 0;
    if (kernel < 0 || !burst.placed || !GS_RESERVE(&engine->memory_blocks, (size_t)blocks)) {
        free(burst.placed);
        return false;
    }
    while (burst.count < blocks && place(engine, kernel, &burst))
        ;
    next = gs_dispatcher_choose(engine->dispatcher, kernel, &room);
    burst.is_cut = burst.count && next != GS_WAIT && room == burst.placed[burst.count - 1].room;
    for (int32_t i = 0; engine->numberer && burst.count && i < engine->turns.count; i++)
        gs_number(engine->numberer, &burst, &engine->turns.data[i], engine->order);
    free(burst.placed);
    return true;
}

void gs_memory_end(gs_engine *engine) {
    struct handles *running = &engine->memory_blocks;
    while (running->count)
        gs_dispatcher_end(engine->dispatcher, running->data[--running->count]);
}
