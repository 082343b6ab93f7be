/*
 * app_stream.c: a stream of a real GPU: memory, copies and launches as an ordinary CUDA program makes them.
 *
 * It uses the executor of executor.c, which opens the driver, makes the context and compiles. Launches are not waited
 * for. A context belongs to a thread, so a thread must enter a stream before it uses it.
 */
#include "executor.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 64, WITHOUT_TIME = 2 };

struct cuda_stream {
    gs_executor *executor;
    cuda_executor *cuda;
    cu_context context;
    cu_stream tracks[GS_APP_TRACKS]; /* the first is that of the executor, the others are made when they are used */
    cu_event events[GS_APP_TRACKS];  /* where each of them was when another had to wait for it; NULL: none had to */
    int (*wait_for_event)(cu_stream, cu_event, unsigned);
    gs_blas *blas;   /* NULL: products are kernels like others */
    uintptr_t tgemm; /* the module whose launches are products of cuBLAS */
    struct {
        cu_pointer *data;
        size_t count, capacity;
    } memory;
};

static gs_code enter(gs_app_stream *stream, gs_error *error) {
    const struct cuda_stream *inside = stream->inside;
    return gs_cuda_check(&inside->cuda->api, inside->cuda->api.context_set(inside->context), "using the context",
                         error);
}

static gs_code allocate(gs_app_stream *stream, size_t bytes, uint64_t *address, gs_error *error) {
    struct cuda_stream *inside = stream->inside;
    const cu_api *api = &inside->cuda->api;
    if (!GS_RESERVE(&inside->memory, 1))
        return gs_fail_memory(error);
    gs_code code = gs_cuda_check(api, api->alloc(address, bytes ? bytes : 1), "allocating memory of the GPU", error);
    if (code != GS_OK)
        return code;
    inside->memory.data[inside->memory.count++] = *address;
    int failed = bytes ? api->set_bytes(*address, 0, bytes) : 0;
    return gs_cuda_check(api, failed ? failed : api->synchronize(), "clearing memory of the GPU", error);
}

static gs_code wait(gs_app_stream *stream, gs_error *error) {
    const struct cuda_stream *inside = stream->inside;
    int failed = 0;
    for (size_t i = 0; i < GS_APP_TRACKS && !failed; i++)
        if (inside->tracks[i])
            failed = inside->cuda->api.stream_wait(inside->tracks[i]);
    return failed ? gs_fail(error, GS_E_KERNEL, "a kernel failed (CUDA error %d)", failed) : GS_OK;
}

static gs_code poll(gs_app_stream *stream, bool *is_done, gs_error *error) {
    const struct cuda_stream *inside = stream->inside;
    int state = inside->cuda->api.stream_query(inside->cuda->stream);
    *is_done = state != CU_ERROR_NOT_READY;
    return state && *is_done ? gs_fail(error, GS_E_KERNEL, "a kernel failed (CUDA error %d)", state) : GS_OK;
}

/* ---- tracks ---- */

static gs_code open_event(struct cuda_stream *inside, uint32_t track, gs_error *error) {
    const cu_api *api = &inside->cuda->api;
    const char *missing = NULL;
    if (inside->events[track])
        return GS_OK;
    if (!gs_cuda_find(api->driver, "cuStreamWaitEvent", (void *)&inside->wait_for_event, &missing))
        return gs_fail(error, GS_E_NO_GPU, "the driver has no %s", missing);
    return gs_cuda_check(api, api->event_new(&inside->events[track], WITHOUT_TIME), "making an event", error);
}

static gs_code open_track(struct cuda_stream *inside, uint32_t track, gs_error *error) {
    const cu_api *api = &inside->cuda->api;
    if (track >= GS_APP_TRACKS)
        return gs_fail(error, GS_E_USAGE, "track %u is out of range", track);
    return inside->tracks[track]
               ? GS_OK
               : gs_cuda_check(api, api->stream_new(&inside->tracks[track], CU_STREAM_NON_BLOCKING, 0),
                               "making a stream", error);
}

/* A stream waits for an event as it was recorded last, so one for each track is enough. */
static gs_code order(gs_app_stream *stream, uint32_t before, uint32_t after, gs_error *error) {
    struct cuda_stream *inside = stream->inside;
    const cu_api *api = &inside->cuda->api;
    gs_code code = open_track(inside, before, error);
    if (code == GS_OK)
        code = open_track(inside, after, error);
    if (code == GS_OK)
        code = open_event(inside, before, error);
    if (code != GS_OK)
        return code;
    int failed = api->event_record(inside->events[before], inside->tracks[before]);
    failed = failed ? failed : inside->wait_for_event(inside->tracks[after], inside->events[before], 0);
    return gs_cuda_check(api, failed, "waiting for another stream", error);
}

/* ---- copies ---- */

static gs_code copy_in(gs_app_stream *stream, uint64_t to, const void *from, size_t bytes, gs_error *error) {
    const struct cuda_stream *inside = stream->inside;
    const cu_api *api = &inside->cuda->api;
    int failed = bytes ? api->copy_in_later(to, from, bytes, inside->cuda->stream) : 0;
    gs_code code = gs_cuda_check(api, failed, "copying to the GPU", error);
    return code == GS_OK ? wait(stream, error) : code;
}

/* The synchronous copy of the driver does not wait for our stream. */
static gs_code copy_out(gs_app_stream *stream, void *to, uint64_t from, size_t bytes, gs_error *error) {
    const struct cuda_stream *inside = stream->inside;
    gs_code code = wait(stream, error);
    if (code != GS_OK || !bytes)
        return code;
    return gs_cuda_check(&inside->cuda->api, inside->cuda->api.copy_out(to, from, bytes), "copying from the GPU",
                         error);
}

static gs_code load(gs_app_stream *stream, const gs_build *build, uintptr_t *module, gs_error *error) {
    struct cuda_stream *inside = stream->inside;
    void *made = inside->executor->ops->compile(inside->executor, build, error);
    *module = (uintptr_t)made;
    if (inside->blas && gs_product_is_tgemm(build))
        inside->tgemm = *module;
    return made ? GS_OK : error->code;
}

static gs_code multiply(struct cuda_stream *inside, const gs_app_launch *call, gs_error *error) {
    const gs_product product = gs_product_of_tgemm(call);
    cu_pointer matrices[GS_PRODUCT_MATRICES];
    gs_code code = open_track(inside, call->track, error);
    if (code == GS_OK)
        code = gs_blas_use(inside->blas, inside->tracks[call->track], 0, 0, error);
    if (code != GS_OK)
        return code;
    for (size_t i = 0; i < GS_PRODUCT_MATRICES; i++)
        matrices[i] = call->buffers[call->arguments[i].buffer];
    return gs_blas_multiply(inside->blas, &product, matrices, error);
}

static gs_code launch(gs_app_stream *stream, const gs_app_launch *call, gs_error *error) {
    struct cuda_stream *inside = stream->inside;
    const cu_api *api = &inside->cuda->api;
    cuda_module *module = (cuda_module *)call->module;
    void *arguments[MOST_ARGUMENTS];
    if (inside->blas && call->module == inside->tgemm && call->kernel == 0)
        return multiply(inside, call, error);
    if (call->argument_count > MOST_ARGUMENTS || call->kernel >= module->count)
        return gs_fail(error, GS_E_USAGE, "there is no kernel %u, or it has too many arguments", call->kernel);
    gs_code code = open_track(inside, call->track, error);
    if (code != GS_OK)
        return code;
    gs_cuda_point(arguments, call->arguments, call->argument_count, call->buffers);
    const cu_call launched = {.grid = {call->grid[0], call->grid[1], call->grid[2]},
                              .block = {call->block[0], call->block[1], call->block[2]},
                              .shared_bytes = call->shared_bytes,
                              .stream = inside->tracks[call->track]};
    int failed = gs_cuda_launch(api, &module->kernels[call->kernel].kernel, &launched, arguments);
    return gs_cuda_check(api, failed, "launching", error);
}

static void close_stream(gs_app_stream *stream) {
    struct cuda_stream *inside = stream->inside;
    if (inside->executor) {
        const cu_api *api = &inside->cuda->api;
        api->context_set(inside->context);
        for (size_t i = 0; i < GS_APP_TRACKS; i++)
            if (inside->tracks[i])
                api->stream_wait(inside->tracks[i]);
        for (size_t i = 0; i < GS_APP_TRACKS; i++) {
            if (inside->events[i])
                api->event_free(inside->events[i]);
            if (i > 0 && inside->tracks[i])
                api->stream_free(inside->tracks[i]);
        }
        gs_blas_close(inside->blas);
        for (size_t i = 0; i < inside->memory.count; i++)
            api->free(inside->memory.data[i]);
    }
    gs_executor_close(inside->executor);
    free(inside->memory.data);
    free(inside);
    free(stream);
}

static gs_code use_blas(gs_app_stream *stream, gs_error *error) {
    struct cuda_stream *inside = stream->inside;
    if (!inside->blas)
        inside->blas = gs_blas_open(NULL, error);
    return inside->blas ? gs_blas_use(inside->blas, inside->cuda->stream, 0, 0, error) : error->code;
}

void gs_app_stream_close(gs_app_stream *stream) {
    if (stream)
        stream->ops->close(stream);
}

gs_app_stream *gs_app_stream_cuda(const char *rest, gs_error *error) {
    static const gs_app_stream_ops ops = {.name = "cuda",
                                          .enter = enter,
                                          .allocate = allocate,
                                          .copy_in = copy_in,
                                          .copy_out = copy_out,
                                          .load = load,
                                          .launch = launch,
                                          .order = order,
                                          .wait = wait,
                                          .poll = poll,
                                          .use_blas = use_blas,
                                          .close = close_stream};
    gs_app_stream *stream = calloc(1, sizeof *stream);
    struct cuda_stream *inside = calloc(1, sizeof *inside);
    if (!stream || !inside) {
        free(stream);
        free(inside);
        gs_fail_memory(error);
        return NULL;
    }
    *stream = (gs_app_stream){.ops = &ops, .inside = inside};
    inside->executor = gs_executor_cuda(rest, error);
    if (inside->executor) {
        inside->cuda = inside->executor->inside;
        inside->tracks[0] = inside->cuda->stream;
        const cu_api *api = &inside->cuda->api;
        int failed = api->context_get(&inside->context);
        failed = failed ? failed : api->context_set(NULL); /* a green context may be current to one thread only */
        if (gs_cuda_check(api, failed, "finding the context", error) == GS_OK)
            return stream;
    }
    close_stream(stream);
    return NULL;
}
