/*
 * ptx_host_layout.c: which functions and variables kernels need, and the offsets of shared variables and parameters.
 * See ptx_host.h.
 *
 * Shared memory is laid out as ptxas does, so that the CPU sees what a change of a kernel moves. From 0 on, there are:
 * the variables of the kernel, in the order of the text; those of the module; those of functions; and the dynamic
 * shared memory, where each array without a size begins at a multiple of its alignment and of 16. Variables that the
 * kernel and the functions that it calls do not use get no space. So the place of a variable depends on the kernel.
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
    bool *is_found; /* names that the kernel at hand needs */
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
    size_t functions = module->functions.count, most = functions + module->variables.count + module->aliases.count;
    names->texts = calloc(most + 1, sizeof *names->texts);
    names->work = calloc(most + 1, sizeof *names->work);
    names->is_found = calloc(most + 1, sizeof *names->is_found);
    if (!names->texts || !names->work || !names->is_found) {
        host->code = gs_fail_memory(host->error);
        return;
    }
    for (size_t i = 0; i < functions && host->code == GS_OK; i++)
        if (module->functions.data[i].is_defined)
            add_name(host, names, module->functions.data[i].name, i);
    for (size_t i = 0; i < module->aliases.count && host->code == GS_OK; i++) {
        char name[GS_PTX_NAME];
        int function =
            gs_ptx_find_function(module, gs_ptx_token_text(module, module->aliases.data[i].name, name, sizeof name));
        if (function >= 0)
            add_name(host, names, module->aliases.data[i].name, (size_t)function);
    }
    for (size_t i = 0; i < module->variables.count && host->code == GS_OK; i++)
        if (module->variables.data[i].function == GS_PTX_NONE)
            add_name(host, names, module->variables.data[i].name, functions + i);
}

static void need_name(struct names *names, size_t number) {
    if (!names->is_found[number])
        names->work[names->work_count++] = (uint32_t)number;
    names->is_found[number] = true;
}

static void search_tokens(gs_ptx_host *host, struct names *names, uint32_t first, uint32_t last) {
    char text[GS_PTX_NAME];
    for (uint32_t i = first; i <= last && i < host->module->tokens.count; i++) {
        const gs_ptx_token *token = &host->module->tokens.data[i];
        if (token->kind != GS_PTX_WORD || token->length >= sizeof text)
            continue;
        size_t number = gs_names_find(&names->hash, gs_ptx_token_text(host->module, i, text, sizeof text));
        if (number != SIZE_MAX)
            need_name(names, number);
    }
}

/* Registers, labels and variables of a function may be named as something of the module, which is not meant. */
static void search_operand(gs_ptx_host *host, struct names *names, const gs_ptx_operand *operand) {
    const gs_ptx_module *module = host->module;
    bool is_variable = operand->kind == GS_PTX_SYMBOL && operand->value != GS_PTX_NONE;
    for (uint32_t i = 0; i < operand->count; i++)
        search_operand(host, names, &module->operands.data[operand->children + i]);
    if (is_variable && module->variables.data[operand->value].function == GS_PTX_NONE)
        need_name(names, module->functions.count + operand->value);
    if (!is_variable && !operand->count && operand->kind != GS_PTX_REGISTER)
        search_tokens(host, names, operand->first, operand->last);
}

static void search_statement(gs_ptx_host *host, struct names *names, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = host->module;
    bool is_branch = statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_BRANCH;
    if (statement->kind == GS_PTX_NOTE ||
        (statement->kind == GS_PTX_DECLARATION && !gs_ptx_token_is(module, statement->first, ".reg")))
        search_tokens(host, names, statement->first, statement->last);
    for (uint32_t i = 0; statement->kind == GS_PTX_INSTRUCTION && !is_branch && i < statement->count; i++)
        search_operand(host, names, &module->operands.data[statement->operands + i]);
}

static void search_work(gs_ptx_host *host, struct names *names) {
    const gs_ptx_module *module = host->module;
    while (names->work_count && host->code == GS_OK) {
        uint32_t number = names->work[--names->work_count];
        if (number < module->functions.count) {
            const gs_ptx_function *function = &module->functions.data[number];
            for (uint32_t i = 0; i < function->statement_count; i++)
                search_statement(host, names, &module->statements.data[function->statements + i]);
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

/* The shared variables that an operand names. */
static void use_operand(const gs_ptx_host *host, const gs_ptx_operand *operand, bool *is_used) {
    if (operand->kind == GS_PTX_SYMBOL && operand->value != GS_PTX_NONE)
        is_used[operand->value] = true;
    for (uint32_t i = 0; i < operand->count; i++)
        use_operand(host, &host->module->operands.data[operand->children + i], is_used);
}

static void use_function(const gs_ptx_host *host, uint32_t number, bool *is_used) {
    const gs_ptx_module *module = host->module;
    const gs_ptx_function *function = &module->functions.data[number];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[function->statements + i];
        for (uint32_t k = 0; statement->kind == GS_PTX_INSTRUCTION && k < statement->count; k++)
            use_operand(host, &module->operands.data[statement->operands + k], is_used);
    }
}

static void place_shared(gs_ptx_host *host, uint32_t kernel, const bool *is_used);

/* What a kernel needs, and where its shared variables lie. */
static void find_for_kernel(gs_ptx_host *host, struct names *names, uint32_t kernel) {
    const gs_ptx_module *module = host->module;
    size_t functions = module->functions.count, variables = module->variables.count;
    bool *is_used = calloc(variables + 1, sizeof *is_used);
    if (!is_used) {
        host->code = gs_fail_memory(host->error);
        return;
    }
    memset(names->is_found, 0, (functions + variables) * sizeof *names->is_found);
    need_name(names, kernel);
    search_work(host, names);
    for (uint32_t i = 0; i < functions; i++) {
        host->is_needed[i] = host->is_needed[i] || names->is_found[i];
        if (names->is_found[i])
            use_function(host, i, is_used);
    }
    for (size_t i = 0; i < variables; i++)
        host->is_used[i] = host->is_used[i] || names->is_found[functions + i];
    for (size_t i = 0; i < variables; i++) {
        const gs_ptx_variable *variable = &module->variables.data[i];
        if (variable->space == GS_PTX_LOCAL && variable->function < functions && names->is_found[variable->function])
            host->array_bytes[kernel] += variable->bytes;
    }
    place_shared(host, kernel, is_used);
    free(is_used);
}

void gs_ptx_find_needed(gs_ptx_host *host, const gs_build *build) {
    const gs_ptx_module *module = host->module;
    struct names names = {.count = 0};
    collect_names(host, &names);
    for (uint32_t i = 0; i < module->functions.count && host->code == GS_OK; i++)
        if (is_wanted(host, &module->functions.data[i], build))
            find_for_kernel(host, &names, i);
    for (size_t i = 0; i < module->variables.count; i++) {
        uint32_t function = module->variables.data[i].function;
        if (function != GS_PTX_NONE && function < module->functions.count)
            host->is_used[i] = host->is_needed[function];
    }
    for (size_t i = 0; i < names.count; i++)
        free(names.texts[i]);
    free(names.texts);
    free(names.work);
    free(names.is_found);
    gs_names_free(&names.hash);
}

/* ---- offsets ---- */

static uint64_t align_up(uint64_t at, uint64_t align) {
    return align > 1 ? (at + align - 1) / align * align : at;
}

/* 0: of the kernel; 1: of the module; 2: of a function. */
static int rank_of(const gs_ptx_variable *variable, uint32_t kernel) {
    return variable->function == kernel ? 0 : variable->function == GS_PTX_NONE ? 1 : 2;
}

static void place_shared(gs_ptx_host *host, uint32_t kernel, const bool *is_used) {
    const gs_ptx_module *module = host->module;
    struct gs_ptx_shared *shared = &host->shared[kernel];
    shared->dynamic_align = DYNAMIC_ALIGN;
    for (int rank = 0; rank < 3; rank++)
        for (size_t i = 0; i < module->variables.count; i++) {
            const gs_ptx_variable *variable = &module->variables.data[i];
            if (variable->space != GS_PTX_SHARED || !is_used[i] || rank_of(variable, kernel) != rank)
                continue;
            if (variable->has_no_size) {
                shared->dynamic_align = gs_max_u64(shared->dynamic_align, variable->align);
                continue;
            }
            if (!GS_RESERVE(shared, 1)) {
                host->code = gs_fail_memory(host->error);
                return;
            }
            uint64_t at = align_up(shared->end, variable->align);
            shared->data[shared->count++] = (gs_ptx_shared_place){(uint32_t)i, at};
            shared->end = at + variable->bytes;
        }
}

uint64_t gs_ptx_shared_at(const gs_ptx_host *host, uint32_t kernel, uint32_t variable) {
    const struct gs_ptx_shared *shared = &host->shared[kernel];
    for (size_t i = 0; i < shared->count; i++)
        if (shared->data[i].variable == variable)
            return shared->data[i].at;
    return 0; /* no instruction of the kernel names it */
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
    for (uint32_t i = 0; i < host->module->functions.count; i++)
        if (host->module->functions.data[i].is_entry)
            place_parameters(host, i, host->offsets);
}

uint64_t gs_ptx_shared_bytes(const gs_ptx_host *host, uint32_t function) {
    return align_up(host->shared[function].end, host->shared[function].dynamic_align);
}

uint64_t gs_ptx_parameter_bytes(const gs_ptx_host *host, uint32_t function) {
    return place_parameters(host, function, NULL);
}
