/*
 * remote_stream.c: a daemon as an application stream, so that the zoo's applications run through it like on a GPU of
 * their own.
 */
#include "kernels/cuda/cuda.h"
#include "remote.h"

#include <stdlib.h>

static gs_code enter_stream(gs_app_stream *stream, gs_error *error) {
    (void)stream, (void)error;
    return GS_OK;
}

static gs_code allocate_memory(gs_app_stream *stream, size_t bytes, uint64_t *address, gs_error *error) {
    return gs_client_failed(gs_client_malloc(stream->inside, bytes ? bytes : 1, address), error);
}

static gs_code copy_in(gs_app_stream *stream, uint64_t to, const void *from, size_t bytes, gs_error *error) {
    gs_client_code code = gs_client_copy_in(stream->inside, 0, to, from, bytes);
    return gs_client_failed(code == GS_CLIENT_OK ? gs_client_wait(stream->inside, 0) : code, error);
}

static gs_code copy_out(gs_app_stream *stream, void *to, uint64_t from, size_t bytes, gs_error *error) {
    return gs_client_failed(gs_client_copy_out(stream->inside, 0, to, from, bytes), error);
}

static gs_code load_module(gs_app_stream *stream, const gs_build *build, uintptr_t *module, gs_error *error) {
    uint32_t number = 0;
    gs_code code = gs_client_load_build(stream->inside, build, &number, error);
    *module = number;
    return code;
}

static gs_code launch_kernel(gs_app_stream *stream, const gs_app_launch *call, gs_error *error) {
    gs_client_argument arguments[GS_CLIENT_ARGUMENTS];
    gs_client_launch request = {.module = (uint32_t)call->module,
                                .kernel = call->kernel,
                                .grid = {call->grid[0], call->grid[1], call->grid[2]},
                                .block = {call->block[0], call->block[1], call->block[2]},
                                .shared_bytes = call->shared_bytes,
                                .arguments = arguments,
                                .argument_count = call->argument_count};
    if (call->argument_count > GS_CLIENT_ARGUMENTS)
        return gs_fail(error, GS_E_USAGE, "a kernel may have at most %d arguments", GS_CLIENT_ARGUMENTS);
    for (uint32_t i = 0; i < call->argument_count; i++)
        arguments[i] = gs_client_argument_of(&call->arguments[i], call->buffers);
    return gs_client_failed(gs_client_start(stream->inside, 0, &request), error);
}

static gs_code wait_for_stream(gs_app_stream *stream, gs_error *error) {
    return gs_client_failed(gs_client_wait(stream->inside, 0), error);
}

static void close_stream(gs_app_stream *stream) {
    gs_client_close(stream->inside);
    free(stream);
}

gs_app_stream *gs_app_stream_remote(const char *socket, const char *name, gs_error *error) {
    static const gs_app_stream_ops ops = {.name = "serve",
                                          .enter = enter_stream,
                                          .allocate = allocate_memory,
                                          .copy_in = copy_in,
                                          .copy_out = copy_out,
                                          .load = load_module,
                                          .launch = launch_kernel,
                                          .wait = wait_for_stream,
                                          .close = close_stream};
    gs_app_stream *stream = calloc(1, sizeof *stream);
    gs_client_options options = {.socket = socket, .name = name};
    gs_client *client;
    gs_code code = stream ? gs_client_failed(gs_client_open(&options, &client), error) : gs_fail_memory(error);
    if (code != GS_OK) {
        free(stream);
        return NULL;
    }
    *stream = (gs_app_stream){.ops = &ops, .inside = client};
    return stream;
}
