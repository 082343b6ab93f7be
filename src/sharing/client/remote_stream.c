/*
 * remote_stream.c: a daemon as an application stream, so that the zoo's applications run through it like on a GPU of
 * their own. Tracks are streams of the client. No stream waits for another there, so where one track must wait for
 * another, the client waits.
 *
 * Where products are those of cuBLAS, each shape of them is a module of its own. It is loaded when it is launched
 * first.
 */
#include "kernels/cuda/cuda.h"
#include "remote.h"

#include <stdlib.h>
#include <string.h>

struct remote_stream {
    gs_client *client;
    uint32_t tracks; /* that were used */
    bool uses_blas;
    uintptr_t tgemm; /* the module whose launches are products; 0: none */
    struct {
        struct loaded_product {
            gs_product product;
            uint32_t module;
        } * data;
        size_t count, capacity;
    } products;
};

static gs_client *client_of(const gs_app_stream *stream) {
    return ((const struct remote_stream *)stream->inside)->client;
}

static gs_code enter_stream(gs_app_stream *stream, gs_error *error) {
    (void)stream, (void)error;
    return GS_OK;
}

static gs_code allocate_memory(gs_app_stream *stream, size_t bytes, uint64_t *address, gs_error *error) {
    return gs_client_failed(gs_client_malloc(client_of(stream), bytes ? bytes : 1, address), error);
}

static gs_code copy_in(gs_app_stream *stream, uint64_t to, const void *from, size_t bytes, gs_error *error) {
    gs_client_code code = gs_client_copy_in(client_of(stream), 0, to, from, bytes);
    return gs_client_failed(code == GS_CLIENT_OK ? gs_client_wait(client_of(stream), 0) : code, error);
}

static gs_code copy_out(gs_app_stream *stream, void *to, uint64_t from, size_t bytes, gs_error *error) {
    return gs_client_failed(gs_client_copy_out(client_of(stream), 0, to, from, bytes), error);
}

static gs_code load_module(gs_app_stream *stream, const gs_build *build, uintptr_t *module, gs_error *error) {
    uint32_t number = 0;
    gs_code code = gs_client_load_build(client_of(stream), build, &number, error);
    *module = number;
    struct remote_stream *inside = stream->inside;
    if (code == GS_OK && inside->uses_blas && gs_product_is_tgemm(build))
        inside->tgemm = *module;
    return code;
}

/* ---- products ---- */

static gs_code use_blas(gs_app_stream *stream, gs_error *error) {
    (void)error;
    ((struct remote_stream *)stream->inside)->uses_blas = true;
    return GS_OK;
}

static gs_code load_product(struct remote_stream *inside, const gs_product *product, gs_error *error) {
    static const char *const kernel = GS_PRODUCT_KERNEL;
    struct loaded_product made = {.product = *product};
    gs_text text = {0};
    gs_product_write(product, &text);
    gs_build build = {
        .name = GS_PRODUCT_KERNEL, .text = text.data, .size = text.count, .kernels = &kernel, .kernel_count = 1};
    gs_code code = text.failed || !GS_RESERVE(&inside->products, 1)
                       ? gs_fail_memory(error)
                       : gs_client_load_build(inside->client, &build, &made.module, error);
    if (code == GS_OK)
        inside->products.data[inside->products.count++] = made;
    gs_text_free(&text);
    return code;
}

static gs_code find_product(struct remote_stream *inside, const gs_product *product, uint32_t *module,
                            gs_error *error) {
    size_t at = 0;
    while (at < inside->products.count && memcmp(&inside->products.data[at].product, product, sizeof *product) != 0)
        at++;
    gs_code code = at < inside->products.count ? GS_OK : load_product(inside, product, error);
    if (code == GS_OK)
        *module = inside->products.data[at].module;
    return code;
}

/* ---- launches ---- */

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
    struct remote_stream *inside = stream->inside;
    inside->tracks = (uint32_t)gs_max(inside->tracks, call->track + 1);
    if (inside->tgemm && call->module == inside->tgemm && call->kernel == 0) {
        const gs_product product = gs_product_of_tgemm(call);
        gs_code code = find_product(inside, &product, &request.module, error);
        if (code != GS_OK)
            return code;
        request.argument_count = GS_PRODUCT_MATRICES;
    }
    return gs_client_failed(gs_client_start(inside->client, call->track, &request), error);
}

static gs_code order_tracks(gs_app_stream *stream, uint32_t before, uint32_t after, gs_error *error) {
    (void)after;
    return gs_client_failed(gs_client_wait(client_of(stream), before), error);
}

static gs_code wait_for_stream(gs_app_stream *stream, gs_error *error) {
    const struct remote_stream *inside = stream->inside;
    gs_client_code code = GS_CLIENT_OK;
    for (uint32_t i = 0; i < inside->tracks && code == GS_CLIENT_OK; i++)
        code = gs_client_wait(inside->client, i);
    return gs_client_failed(code, error);
}

static void close_stream(gs_app_stream *stream) {
    struct remote_stream *inside = stream->inside;
    gs_client_close(inside->client);
    free(inside->products.data);
    free(inside);
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
                                          .order = order_tracks,
                                          .wait = wait_for_stream,
                                          .use_blas = use_blas,
                                          .close = close_stream};
    gs_app_stream *stream = calloc(1, sizeof *stream);
    struct remote_stream *inside = calloc(1, sizeof *inside);
    gs_client_options options = {.socket = socket, .name = name};
    gs_code code =
        stream && inside ? gs_client_failed(gs_client_open(&options, &inside->client), error) : gs_fail_memory(error);
    if (code != GS_OK) {
        free(inside);
        free(stream);
        return NULL;
    }
    inside->tracks = 1;
    *stream = (gs_app_stream){.ops = &ops, .inside = inside};
    return stream;
}
