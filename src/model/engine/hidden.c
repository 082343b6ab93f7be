/*
 * hidden.c: kernels that the driver adds to CUDA graphs.
 *
 * A memset of more than a few bytes, and a copy within the GPU, is a kernel of the driver (`graph_memory` in the
 * description of a GPU). So is the block that signals the end of a node (`graph_join`, see join.c). Their blocks are
 * placed and numbered like those of a launch, without shared memory, and end after a microsecond or two. In a run
 * without times they end when what comes at the same time has been placed. If not all of them fit, the others are left
 * out: the GPU is full, and what comes then depends on when blocks end.
 */
#include "engine_state.h"

#include <stdlib.h>
#include <string.h>

static int choose_hidden_sm(const gs_engine *engine, int kernel, const bool *sms, int32_t *headroom) {
    return sms ? gs_dispatcher_choose_among(engine->dispatcher, kernel, sms, headroom)
               : gs_dispatcher_choose(engine->dispatcher, kernel, headroom);
}

/* Places as many of the blocks as possible. */
static void place_hidden(gs_engine *engine, int kernel, int64_t blocks, const bool *sms, gs_burst *burst) {
    int32_t headroom = 0;
    int sm;
    while ((sm = choose_hidden_sm(engine, kernel, sms, &headroom)) != GS_WAIT && burst->count < blocks) {
        int32_t handle = gs_dispatcher_put(engine->dispatcher, kernel, sm);
        engine->graph.hidden.data[engine->graph.hidden.count++] = handle;
        burst->placed[burst->count++] = (gs_placement){sm, headroom, handle};
    }
    burst->is_cut = burst->count && sm != GS_WAIT && headroom == burst->placed[burst->count - 1].headroom;
}

bool gs_hidden_start(gs_engine *engine, int kernel, int64_t blocks, const bool *sms) {
    gs_burst burst = {.placed = calloc((size_t)blocks + 1, sizeof *burst.placed)};
    bool done = burst.placed && GS_RESERVE(&engine->graph.hidden, (size_t)blocks);
    if (done)
        place_hidden(engine, kernel, blocks, sms, &burst);
    for (int32_t i = 0; engine->numbering.numberer && burst.count && i < engine->numbering.turns.count; i++)
        gs_number(engine->numbering.numberer, &burst, &engine->numbering.turns.data[i], engine->numbering.order);
    free(burst.placed);
    return done;
}

bool gs_hidden_end_some(gs_engine *engine, size_t first, size_t past) {
    struct handles *hidden = &engine->graph.hidden;
    past = gs_min_u64(past, hidden->count);
    if (first >= past)
        return false;
    for (size_t i = past; i-- > first;)
        gs_dispatcher_end(engine->dispatcher, hidden->data[i]);
    memmove(hidden->data + first, hidden->data + past, (hidden->count - past) * sizeof *hidden->data);
    hidden->count -= past - first;
    return true;
}

void gs_hidden_end_others(gs_engine *engine, size_t operation, size_t first) {
    const struct handles *hidden = &engine->graph.hidden;
    const bool *stays = engine->hooks.stays + (operation - engine->run->launches.count) * GS_MAX_SMS;
    for (size_t i = hidden->count; i-- > first;)
        if (!stays[gs_dispatcher_sm(engine->dispatcher, hidden->data[i])])
            gs_hidden_end_some(engine, i, i + 1);
}

bool gs_hidden_end(gs_engine *engine) {
    return gs_hidden_end_some(engine, 0, engine->graph.hidden.count);
}

/* ---- memsets and copies ---- */

static const gs_copy *copy_of(const gs_engine *engine, size_t operation) {
    return &engine->run->copies.data[operation - engine->run->launches.count];
}

/* The kernel of the description that does it; NULL: none. */
static const gs_memory_kernel *kernel_of(const gs_engine *engine, const gs_copy *copy) {
    const gs_gpu *gpu = gs_dispatcher_state(engine->dispatcher)->gpu;
    if (copy->is_memset)
        return &gpu->memory_kernels[GS_MEMORY_SET];
    return copy->kind == GS_COPY_DEVICE_TO_DEVICE ? &gpu->memory_kernels[GS_MEMORY_COPY] : NULL;
}

bool gs_hidden_has_blocks(const gs_engine *engine, size_t operation) {
    const gs_copy *copy = copy_of(engine, operation);
    const gs_memory_kernel *kernel = kernel_of(engine, copy);
    return kernel && gs_memory_kernel_blocks(kernel, copy->bytes) > 0;
}

bool gs_hidden_start_memory(gs_engine *engine, size_t operation) {
    const gs_gpu *gpu = gs_dispatcher_state(engine->dispatcher)->gpu;
    const gs_copy *copy = copy_of(engine, operation);
    const gs_memory_kernel *described = kernel_of(engine, copy);
    int64_t blocks = gs_memory_kernel_blocks(described, copy->bytes);
    gs_shape shape = gs_shape_of(described->threads, described->registers, GS_BARE);
    int kernel = gs_dispatcher_kernel(engine->dispatcher, &shape, NULL);
    int64_t most = (int64_t)gpu->sms * gpu->limits.blocks_per_sm;
    return kernel >= 0 && gs_hidden_start(engine, kernel, gs_min(blocks, most), NULL);
}
