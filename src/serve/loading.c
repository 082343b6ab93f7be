/*
 * loading.c: sources on their way to modules: they wait for a compiler, are compiled (src/image), and then loaded by
 * the worker.
 */
#include "server.h"

#include <stdlib.h>

enum { COMPILERS = 2 /* at a time */, MOST_OPTIONS = 64 };

/* ---- sources as they come in a file ---- */

/* Strings that end with a NUL; `*at` is moved behind them. */
static const char **unpack_strings(const char *bytes, size_t size, size_t *at, uint32_t count) {
    const char **strings = calloc((size_t)count + 1, sizeof *strings);
    for (uint32_t i = 0; i < count && strings; i++) {
        const char *end = memchr(bytes + *at, '\0', size - *at);
        if (!end) {
            free(strings);
            return NULL;
        }
        strings[i] = bytes + *at;
        *at = (size_t)(end - bytes) + 1;
    }
    return strings;
}

bool gs_source_unpack(const char *bytes, size_t size, uint32_t options, uint32_t kernels, gs_image_request *request) {
    size_t at = 0;
    if (options > MOST_OPTIONS || !kernels || kernels > GS_IMAGE_KERNELS)
        return false;
    const char **name = unpack_strings(bytes, size, &at, 1);
    request->name = name ? name[0] : NULL;
    free(name);
    request->options = request->name ? unpack_strings(bytes, size, &at, options) : NULL;
    request->kernels = request->options ? unpack_strings(bytes, size, &at, kernels) : NULL;
    if (!request->kernels) {
        free((void *)request->options);
        request->options = NULL;
        return false;
    }
    request->option_count = options;
    request->kernel_count = kernels;
    request->text = bytes + at;
    request->size = size - at;
    return true;
}

void gs_source_free_unpacked(gs_image_request *request, char *bytes) {
    free((void *)request->options);
    free((void *)request->kernels);
    free(bytes);
    *request = (gs_image_request){0};
}

/* ---- loads ---- */

static void remove_load(gs_loads *loads, gs_load *load) {
    gs_load **at = &loads->first;
    while (*at != load)
        at = &(*at)->next;
    *at = load->next;
    gs_source_free_unpacked(&load->request, load->bytes);
    free(load);
}

static gs_client_code code_of(const gs_error *error) {
    return error->code == GS_E_KERNEL ? GS_CLIENT_SOURCE : GS_CLIENT_SYSTEM;
}

/* A load whose client was ended, or that cannot be compiled, is removed. */
static void compile(gs_server *server, gs_load *load) {
    gs_error error = {.code = GS_OK};
    gs_action *action = load->action;
    if (!action->session->end_code)
        load->compilation = gs_image_start(&load->request, &error);
    if (load->compilation) {
        server->loads.compiling++;
        server->options.watch(server->options.context, load);
        return;
    }
    remove_load(&server->loads, load);
    gs_creation_refuse(action, code_of(&error), error.message);
}

static void compile_next(gs_server *server) {
    gs_load *load = server->loads.first, *next;
    for (; load && server->loads.compiling < COMPILERS; load = next) {
        next = load->next;
        if (!load->compilation)
            compile(server, load);
    }
}

void gs_load_start(gs_action *action, const gs_image_request *request, char *bytes) {
    gs_server *server = action->session->server;
    gs_load *load = calloc(1, sizeof *load), **at = &server->loads.first;
    if (!load) {
        gs_image_request given = *request;
        gs_source_free_unpacked(&given, bytes);
        gs_creation_refuse(action, GS_CLIENT_SYSTEM, gs_no_memory);
        return;
    }
    *load = (gs_load){.request = *request, .bytes = bytes, .action = action};
    load->request.program = server->options.worker.program;
    load->request.folder = server->options.cache;
    load->request.architecture = server->facts.architecture;
    load->request.has_marks = server->options.worker.checks_marks;
    while (*at)
        at = &(*at)->next;
    *at = load;
    compile_next(server);
}

/* The first digits of the key tell sources apart. */
static uint64_t hash_of(const gs_image *image) {
    char first[17] = {0};
    memcpy(first, image->key, sizeof first - 1);
    return strtoull(first, NULL, 16);
}

/* Hands a compiled source to the worker. Without memory for ns_per_block it works, too. */
static void load_image(gs_server *server, gs_action *action, gs_image *image) {
    gs_resource *module = action->resource;
    module->image = image;
    module->ns_per_block = calloc(image->kernel_count + 1, sizeof *module->ns_per_block);
    if (action->session->end_code || server->is_down) {
        gs_creation_refuse(action, GS_CLIENT_SYSTEM, gs_no_worker);
        return;
    }
    action->is_issued = true;
    module->source = hash_of(image);
    server->loads.loading++;
    server->scheduler.must_decide = true;
    if (gs_worker_load(server->worker, gs_action_tag(action), module->handle, image) != GS_OK)
        gs_creation_refuse(action, GS_CLIENT_SYSTEM, gs_no_memory);
}

void gs_load_compiled(gs_load *load) {
    gs_action *action = load->action;
    gs_server *server = action->session->server;
    gs_error error = {.code = GS_OK};
    char message[GS_WIRE_MESSAGE];
    gs_image *image = gs_image_finish(load->compilation, &error);
    server->loads.compiling--;
    remove_load(&server->loads, load);
    if (image)
        load_image(server, action, image);
    else
        gs_creation_refuse(action, code_of(&error), gs_error_text(&error, message, sizeof message));
    compile_next(server);
}

void gs_loads_cancel(gs_server *server) {
    for (gs_load *load; (load = server->loads.first);) {
        gs_action *action = load->action;
        if (load->compilation)
            gs_image_cancel(load->compilation);
        remove_load(&server->loads, load);
        gs_creation_refuse(action, GS_CLIENT_LOST, "the daemon was stopped");
    }
}
