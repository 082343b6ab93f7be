/*
 * ptx_host_layout.c: which functions and variables kernels need, and the offsets of shared variables and parameters.
 * See ptx_host.h.
 *
 * Shared memory has, from 0 on: the shared variables of the module and of functions that are not kernels; those of the
 * kernel; the dynamic shared memory. Variables that no kernel needs get no space.
 */
#include "ptx_host.h"

#include <stdlib.h>

enum { DYNAMIC_ALIGN = 16 };

/* ---- needed functions and variables ---- */

/* A name of the module: the number of its function, or that of its variable plus the number of functions. */
struct names {
    gs_names hash;
    char **texts;
    size_t count;
    uint32_t *work; /* names whose tokens are not yet searched */
    size_t work_count;
};

static void add_name(gs_ptx_host *host, struct names *names, uint32_t token, size_t number) {
    const gs_ptx_token *found = &host->module->tokens.data[token];
    char *text = strndup(host->module->text + found->at, found->length);
    if (!text || gs_names_add(&names->hash, text, number) == SIZE_MAX)
        host->code = gs_fail_memory(host->error);
    if (text)
        names->texts[names->count++] = text;
}

/* Defined functions come before declared ones, which have the same name. */
static void collect_names(gs_ptx_host *host, struct names *names) {
    const gs_ptx_module *module = host->module;
    size_t functions = module->functions.count, most = functions + module->variables.count;
    names->texts = calloc(most + 1, sizeof *names->texts);
    names->work = calloc(most + 1, sizeof *names->work);
    if (!names->texts || !names->work) {
        host->code = gs_fail_memory(host->error);
        return;
    }
    for (size_t i = 0; i < functions && host->code == GS_OK; i++)
        if (module->functions.data[i].is_defined)
            add_name(host, names, module->functions.data[i].name, i);
    for (size_t i = 0; i < module->variables.count && host->code == GS_OK; i++)
        if (module->variables.data[i].function == GS_PTX_NONE)
            add_name(host, names, module->variables.data[i].name, functions + i);
}

static void need_name(gs_ptx_host *host, struct names *names, size_t number) {
    size_t functions = host->module->functions.count;
    bool *mark = number < functions ? &host->is_needed[number] : &host->is_used[number - functions];
    if (!*mark)
        names->work[names->work_count++] = (uint32_t)number;
    *mark = true;
}

static void search_tokens(gs_ptx_host *host, struct names *names, uint32_t first, uint32_t last) {
    char text[GS_PTX_NAME];
    for (uint32_t i = first; i <= last && i < host->module->tokens.count; i++) {
        const gs_ptx_token *token = &host->module->tokens.data[i];
        if (token->kind != GS_PTX_WORD || token->length >= sizeof text)
            continue;
        size_t number = gs_names_find(&names->hash, gs_ptx_token_text(host->module, i, text, sizeof text));
        if (number != SIZE_MAX)
            need_name(host, names, number);
    }
}

static void search_work(gs_ptx_host *host, struct names *names) {
    const gs_ptx_module *module = host->module;
    while (names->work_count && host->code == GS_OK) {
        uint32_t number = names->work[--names->work_count];
        if (number < module->functions.count) {
            search_tokens(host, names, module->functions.data[number].open, module->functions.data[number].close);
            continue;
        }
        const gs_ptx_variable *variable = &module->variables.data[number - module->functions.count];
        if (variable->initializer != GS_PTX_NONE)
            search_tokens(host, names, variable->initializer, variable->last);
    }
}

static bool is_wanted(const gs_ptx_host *host, const gs_ptx_function *function, const gs_build *build) {
    bool is_wanted = build->kernel_count == 0;
    for (size_t i = 0; i < build->kernel_count && !is_wanted; i++)
        is_wanted = gs_ptx_token_is(host->module, function->name, build->kernels[i]);
    return is_wanted && function->is_entry && function->is_defined;
}

void gs_ptx_find_needed(gs_ptx_host *host, const gs_build *build) {
    const gs_ptx_module *module = host->module;
    struct names names = {.count = 0};
    collect_names(host, &names);
    for (size_t i = 0; i < module->functions.count && host->code == GS_OK; i++)
        if (is_wanted(host, &module->functions.data[i], build))
            need_name(host, &names, i);
    search_work(host, &names);
    for (size_t i = 0; i < module->variables.count; i++) {
        uint32_t function = module->variables.data[i].function;
        if (function != GS_PTX_NONE && function < module->functions.count)
            host->is_used[i] = host->is_needed[function];
    }
    for (size_t i = 0; i < names.count; i++)
        free(names.texts[i]);
    free(names.texts);
    free(names.work);
    gs_names_free(&names.hash);
}

/* ---- offsets ---- */

static uint64_t align_up(uint64_t at, uint64_t align) {
    return align > 1 ? (at + align - 1) / align * align : at;
}

static bool is_of_kernel(const gs_ptx_host *host, const gs_ptx_variable *variable) {
    return variable->function != GS_PTX_NONE && host->module->functions.data[variable->function].is_entry;
}

/* The end of the shared variables of the module (GS_PTX_NONE) or of a kernel, from `at` on. Sets the offsets if
   `offsets` is not NULL. */
static uint64_t place_shared(const gs_ptx_host *host, uint32_t function, uint64_t at, uint64_t *offsets) {
    const gs_ptx_module *module = host->module;
    for (size_t i = 0; i < module->variables.count; i++) {
        const gs_ptx_variable *variable = &module->variables.data[i];
        bool is_here = is_of_kernel(host, variable) ? variable->function == function : function == GS_PTX_NONE;
        if (variable->space != GS_PTX_SHARED || variable->has_no_size || !host->is_used[i] || !is_here)
            continue;
        at = align_up(at, variable->align);
        if (offsets)
            offsets[i] = at;
        at += variable->bytes;
    }
    return at;
}

static uint64_t place_parameters(const gs_ptx_host *host, uint32_t function, uint64_t *offsets) {
    const gs_ptx_function *found = &host->module->functions.data[function];
    uint64_t at = 0;
    for (uint32_t i = 0; i < found->parameter_count; i++) {
        const gs_ptx_variable *variable = &host->module->variables.data[found->parameters + i];
        at = align_up(at, variable->align);
        if (offsets)
            offsets[found->parameters + i] = at;
        at += variable->bytes;
    }
    return at;
}

void gs_ptx_lay_out(gs_ptx_host *host) {
    uint64_t base = place_shared(host, GS_PTX_NONE, 0, host->offsets);
    for (uint32_t i = 0; i < host->module->functions.count; i++)
        if (host->module->functions.data[i].is_entry) {
            place_shared(host, i, base, host->offsets);
            place_parameters(host, i, host->offsets);
        }
}

uint64_t gs_ptx_shared_bytes(const gs_ptx_host *host, uint32_t function) {
    const gs_ptx_module *module = host->module;
    uint64_t align = DYNAMIC_ALIGN;
    for (size_t i = 0; i < module->variables.count; i++)
        if (module->variables.data[i].space == GS_PTX_SHARED && module->variables.data[i].has_no_size &&
            host->is_used[i])
            align = gs_max_u64(align, module->variables.data[i].align);
    return align_up(place_shared(host, function, place_shared(host, GS_PTX_NONE, 0, NULL), NULL), align);
}

uint64_t gs_ptx_parameter_bytes(const gs_ptx_host *host, uint32_t function) {
    return place_parameters(host, function, NULL);
}
