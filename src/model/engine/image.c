/*
 * image.c: the state of a dispatcher, and of the engine that has its launches, as bytes.
 *
 * If the bytes of two states of one GPU are equal, all later calls have the same answers. The converse is not promised:
 * a time that no longer matters is in the image, too. Blocks are named by their launch and number, because a handle
 * depends on the order in which earlier blocks ended. Blocks of no launch have no number and are named by their handle.
 * The image has what gs_engine_copy copies.
 */
#include "engine_state.h"

#include <stdlib.h>

/* A block on the GPU. */
struct named {
    size_t launch; /* NO_LAUNCH: none */
    int64_t number;
    int32_t handle;
};

static void put_numbers(gs_text *image, const int64_t *numbers, size_t count) {
    gs_text_put(image, (const char *)numbers, count * sizeof *numbers);
}

static void put_kernels(const gs_dispatcher *dispatcher, gs_text *image) {
    for (int kernel = 0; gs_dispatcher_knows(dispatcher, kernel); kernel++) {
        const gs_shape *shape = &gs_dispatcher_need(dispatcher, kernel)->shape;
        const int64_t numbers[] = {shape->threads, shape->registers, shape->shared_bytes, shape->local_bytes,
                                   shape->carveout_percent};
        put_numbers(image, numbers, GS_COUNT(numbers));
    }
}

/* ---- blocks ---- */

static int compare_named(const void *first, const void *second) {
    const struct named *a = first, *b = second;
    int order = GS_COMPARE(a->launch, b->launch);
    return order ? order : GS_COMPARE(a->number, b->number);
}

/* Lists the blocks on the GPU in the order of their names. Returns how many there are. `listed` has a flag for each
   handle, none of them set. */
static size_t list_blocks(const gs_state *state, const gs_engine *engine, struct named *blocks, int32_t *listed) {
    int32_t most = state->gpu->sms * state->gpu->limits.blocks_per_sm;
    size_t count = 0;
    for (size_t i = 0; engine && i < engine->launched; i++)
        for (int32_t at = engine->plays[i].first_running; at >= 0; at = engine->running[at].after) {
            blocks[count++] = (struct named){i, engine->running[at].block, at};
            listed[at] = true;
        }
    for (int32_t handle = 0; handle < most; handle++)
        if (state->residents[handle].need >= 0 && !listed[handle])
            blocks[count++] = (struct named){NO_LAUNCH, handle, handle};
    qsort(blocks, count, sizeof *blocks, compare_named);
    return count;
}

static bool put_sms(const gs_dispatcher *dispatcher, const gs_engine *engine, gs_text *image) {
    const gs_state *state = gs_dispatcher_state(dispatcher);
    size_t most = (size_t)state->gpu->sms * (size_t)state->gpu->limits.blocks_per_sm;
    struct named *blocks = malloc(most * sizeof *blocks);
    int32_t *handles = calloc(most, sizeof *handles), *names = calloc(most, sizeof *names);
    bool is_listed = blocks && handles && names;
    size_t count = is_listed ? list_blocks(state, engine, blocks, names) : 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t name[] = {(int64_t)blocks[i].launch, blocks[i].number};
        put_numbers(image, name, GS_COUNT(name));
        handles[i] = blocks[i].handle;
        names[handles[i]] = (int32_t)i;
    }
    if (is_listed)
        gs_dispatcher_image(dispatcher, handles, names, image);
    free(blocks);
    free(handles);
    free(names);
    return is_listed;
}

/* ---- launches ---- */

static void put_play(const struct play *play, gs_text *image) {
    const int64_t numbers[] = {play->status,
                               play->kernel,
                               play->started,
                               play->ended,
                               (int64_t)play->before,
                               (int64_t)play->after,
                               (int64_t)play->ready_at,
                               (int64_t)play->stream,
                               (int64_t)play->next_in_stream,
                               (int64_t)play->previous,
                               play->names_previous,
                               play->is_early,
                               play->pending,
                               (int64_t)play->freed_by,
                               (int64_t)play->behind,
                               play->ready_ns,
                               play->config_bytes};
    put_numbers(image, numbers, GS_COUNT(numbers));
}

static void put_streams(const struct readiness *readiness, gs_text *image) {
    for (size_t i = 0; i < readiness->stream_names.count; i++) {
        const struct stream *stream = &readiness->streams[i];
        const int64_t numbers[] = {(int64_t)stream->head, (int64_t)stream->tail, (int64_t)stream->last_ended};
        put_numbers(image, numbers, GS_COUNT(numbers));
    }
    for (size_t i = 0; i < readiness->held.count; i++)
        put_numbers(image, &(int64_t){(int64_t)readiness->held.data[i]}, 1);
}

static void put_engine(const gs_engine *engine, gs_text *image) {
    const struct launch_queue *queue = &engine->queue;
    const int64_t numbers[] = {(int64_t)engine->launched,
                               engine->clock.now_ns,
                               (int64_t)engine->clock.host_events,
                               engine->readiness.kernels,
                               (int64_t)engine->readiness.stream_names.count,
                               (int64_t)engine->readiness.held.count,
                               (int64_t)queue->first,
                               (int64_t)queue->last,
                               (int64_t)queue->latest,
                               engine->numbering.turns.count};
    gs_run_text(engine->run, image);
    put_numbers(image, numbers, GS_COUNT(numbers));
    for (size_t i = 0; i < engine->launched; i++)
        put_play(&engine->plays[i], image);
    put_streams(&engine->readiness, image);
    gs_text_put(image, (const char *)engine->numbering.turns.data,
                (size_t)engine->numbering.turns.count * sizeof *engine->numbering.turns.data);
}

bool gs_engine_image(const gs_dispatcher *dispatcher, const gs_engine *engine, gs_text *image) {
    put_kernels(dispatcher, image);
    if (engine)
        put_engine(engine, image);
    return put_sms(dispatcher, engine, image) && !image->failed;
}
