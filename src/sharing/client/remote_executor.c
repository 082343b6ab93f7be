/*
 * remote_executor.c: a daemon as an executor, so that the zoo's kernels run through it like anywhere else.
 */
#include "remote.h"

#include <stdlib.h>
#include <string.h>

struct module {
    gs_client *client;
    uint32_t number;
    char **kernels;
    size_t count;
    struct module *next;
};

struct inside {
    gs_client *client;
    struct module *modules;
};

static gs_code code_of(gs_client_code code) {
    switch (code) {
    case GS_CLIENT_OK:
        return GS_OK;
    case GS_CLIENT_KERNEL:
    case GS_CLIENT_SOURCE:
        return GS_E_KERNEL;
    case GS_CLIENT_MEMORY:
        return GS_E_FULL;
    case GS_CLIENT_INVALID:
        return GS_E_USAGE;
    default:
        return GS_E_IO;
    }
}

gs_code gs_client_failed(gs_client_code code, gs_error *error) {
    return code == GS_CLIENT_OK ? GS_OK : gs_fail(error, code_of(code), "%s", gs_client_message());
}

static void free_module(struct module *module) {
    for (size_t i = 0; i < module->count; i++)
        free(module->kernels[i]);
    free(module->kernels);
    free(module);
}

static struct module *new_module(const gs_build *build) {
    struct module *module = calloc(1, sizeof *module);
    char **kernels = module ? calloc(build->kernel_count, sizeof *kernels) : NULL;
    if (!kernels) {
        free(module);
        return NULL;
    }
    module->kernels = kernels;
    for (; module->count < build->kernel_count; module->count++)
        if (!(kernels[module->count] = strdup(build->kernels[module->count]))) {
            free_module(module);
            return NULL;
        }
    return module;
}

gs_code gs_client_load_build(gs_client *client, const gs_build *build, uint32_t *module, gs_error *error) {
    gs_client_source source = {.name = build->name,
                               .text = build->text,
                               .size = build->size,
                               .kernels = build->kernels,
                               .kernel_count = (uint32_t)build->kernel_count,
                               .options = build->options,
                               .option_count = (uint32_t)build->option_count};
    return gs_client_failed(gs_client_load(client, &source, module), error);
}

static void *compile_module(gs_executor *executor, const gs_build *build, gs_error *error) {
    struct inside *inside = executor->inside;
    struct module *module = new_module(build);
    if (!module) {
        gs_fail_memory(error);
        return NULL;
    }
    if (gs_client_load_build(inside->client, build, &module->number, error) != GS_OK) {
        free_module(module);
        return NULL;
    }
    module->client = inside->client;
    module->next = inside->modules;
    inside->modules = module;
    return module;
}

/* ---- running ---- */

static gs_code copy_in(gs_client *client, const gs_work *work, gs_client_memory *memories, gs_error *error) {
    gs_client_code code = GS_CLIENT_OK;
    for (size_t i = 0; i < work->buffers.count && code == GS_CLIENT_OK; i++) {
        size_t bytes = work->buffers.data[i].bytes;
        code = gs_client_malloc(client, bytes ? bytes : 1, &memories[i]);
        if (code == GS_CLIENT_OK)
            code = gs_client_copy_in(client, 0, memories[i], work->buffers.data[i].data, bytes);
    }
    return gs_client_failed(code, error);
}

static gs_code copy_out(gs_client *client, const gs_work *work, const gs_client_memory *memories, gs_error *error) {
    gs_client_code code = GS_CLIENT_OK;
    for (size_t i = 0; i < work->buffers.count && code == GS_CLIENT_OK; i++)
        code = gs_client_copy_out(client, 0, work->buffers.data[i].data, memories[i], work->buffers.data[i].bytes);
    return gs_client_failed(code, error);
}

static gs_code find_kernel(const struct module *module, const char *name, uint32_t *kernel, gs_error *error) {
    for (size_t i = 0; i < module->count; i++)
        if (strcmp(module->kernels[i], name) == 0) {
            *kernel = (uint32_t)i;
            return GS_OK;
        }
    return gs_fail(error, GS_E_USAGE, "the module has no kernel %s", name);
}

gs_client_argument gs_client_argument_of(const gs_job_argument *argument, const gs_client_memory *buffers) {
    if (argument->buffer < 0)
        return (gs_client_argument){argument->value, argument->bytes, false};
    return (gs_client_argument){&buffers[argument->buffer], sizeof *buffers, true};
}

static gs_code start_call(const struct module *module, const gs_work *work, const gs_job_call *call,
                          const gs_client_memory *memories, gs_error *error) {
    gs_client_argument arguments[GS_CLIENT_ARGUMENTS];
    gs_client_launch launch = {.module = module->number, .shared_bytes = call->shared_bytes, .arguments = arguments};
    if (call->form != GS_FORM_ORIGINAL)
        return gs_fail(error, GS_E_USAGE, "the daemon reshapes kernels itself: only originals can be launched");
    if (call->arguments > GS_CLIENT_ARGUMENTS)
        return gs_fail(error, GS_E_USAGE, "a kernel may have at most %d arguments", GS_CLIENT_ARGUMENTS);
    gs_code code = find_kernel(module, call->kernel, &launch.kernel, error);
    if (code != GS_OK)
        return code;
    memcpy(launch.grid, call->grid, sizeof launch.grid);
    memcpy(launch.block, call->block, sizeof launch.block);
    for (uint32_t i = 0; i < call->arguments; i++)
        arguments[i] = gs_client_argument_of(&work->arguments.data[call->first + i], memories);
    launch.argument_count = call->arguments;
    return gs_client_failed(gs_client_start(module->client, 0, &launch), error);
}

/* Durations of one call per event. */
static gs_code call_all(const struct module *module, gs_work *work, const gs_client_memory *memories, gs_error *error) {
    gs_client *client = module->client;
    gs_code code = gs_client_failed(gs_client_event(client, 0, 0), error);
    for (size_t i = 0; i < work->calls.count && code == GS_OK; i++) {
        code = start_call(module, work, &work->calls.data[i], memories, error);
        if (code == GS_OK)
            code = gs_client_failed(gs_client_event(client, 0, (uint32_t)(i % (GS_CLIENT_EVENTS - 1)) + 1), error);
    }
    if (code == GS_OK)
        code = gs_client_failed(gs_client_wait(client, 0), error);
    size_t first = work->calls.count < GS_CLIENT_EVENTS ? 0 : work->calls.count - GS_CLIENT_EVENTS + 2;
    for (size_t i = 0; i < work->calls.count && code == GS_OK; i++) {
        int64_t ns = 0;
        if (i >= first)
            code = gs_client_failed(gs_client_elapsed(client, i ? (uint32_t)((i - 1) % (GS_CLIENT_EVENTS - 1)) + 1 : 0,
                                                      (uint32_t)(i % (GS_CLIENT_EVENTS - 1)) + 1, &ns),
                                    error);
        work->calls.data[i].elapsed_ns = (uint64_t)ns;
        work->calls.data[i].launches = 1;
    }
    return code;
}

static gs_code run_call(void *of, gs_work *work, gs_error *error) {
    struct module *module = of;
    gs_client_memory *memories = calloc(work->buffers.count + 1, sizeof *memories);
    if (!memories || work->failed) {
        free(memories);
        return gs_fail_memory(error);
    }
    gs_code code = copy_in(module->client, work, memories, error);
    if (code == GS_OK)
        code = call_all(module, work, memories, error);
    if (code == GS_OK)
        code = copy_out(module->client, work, memories, error);
    for (size_t i = 0; i < work->buffers.count; i++)
        gs_client_free(module->client, memories[i]);
    free(memories);
    return code;
}

static gs_code unknown_cost(void *module, const char *kernel, const uint32_t block[3], size_t shared_bytes,
                            gs_cost *unknown, gs_error *error) {
    (void)module, (void)kernel, (void)block, (void)shared_bytes, (void)error;
    *unknown = (gs_cost){0};
    return GS_OK;
}

static void close_executor(gs_executor *executor) {
    struct inside *inside = executor->inside;
    for (struct module *module; (module = inside->modules);) {
        inside->modules = module->next;
        free_module(module);
    }
    gs_client_close(inside->client);
    free(inside);
    free(executor);
}

gs_executor *gs_executor_remote(const char *socket, gs_error *error) {
    static const gs_executor_ops ops = {
        .name = "serve", .compile = compile_module, .run = run_call, .cost = unknown_cost, .close = close_executor};
    gs_executor *executor = calloc(1, sizeof *executor);
    struct inside *inside = executor ? calloc(1, sizeof *inside) : NULL;
    gs_client_options options = {.socket = socket, .name = "gridsmith zoo"};
    if (!inside) {
        free(executor);
        gs_fail_memory(error);
        return NULL;
    }
    *executor = (gs_executor){.ops = &ops, .inside = inside};
    if (gs_client_failed(gs_client_open(&options, &inside->client), error) == GS_OK)
        return executor;
    close_executor(executor);
    return NULL;
}
