/*
 * verify_variables.c: the variables of a module that a kernel may write, as further results of it.
 *
 * A kernel may write `.global` variables (__device__) instead of buffers. To compare them, an entry is put behind the
 * text of the module, which copies them into a buffer after the kernel has run; so it works on the CPU and on GPUs
 * alike. Variables that begin with addresses are left out: those of two modules differ.
 */
#include "variant.h"

#include <stdlib.h>

enum { THREADS = 256 };

/* ---- which ones ---- */

static void mark_operand(const gs_ptx_module *module, const gs_ptx_operand *operand, bool *is_named) {
    if (operand->kind == GS_PTX_SYMBOL && operand->value != GS_PTX_NONE)
        is_named[operand->value] = true;
    for (uint32_t i = 0; i < operand->count; i++)
        mark_operand(module, &module->operands.data[operand->children + i], is_named);
}

static void mark_function(const gs_ptx_module *module, uint32_t number, bool *is_named) {
    const gs_ptx_function *function = &module->functions.data[number];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[function->statements + i];
        for (uint32_t k = 0; statement->kind == GS_PTX_INSTRUCTION && k < statement->count; k++)
            mark_operand(module, &module->operands.data[statement->operands + k], is_named);
    }
}

static bool has_addresses(const gs_ptx_module *module, const gs_ptx_variable *variable) {
    for (uint32_t i = variable->initializer; i != GS_PTX_NONE && i <= variable->last; i++)
        if (module->tokens.data[i].kind == GS_PTX_WORD)
            return true;
    return false;
}

static gs_scalar scalar_of(gs_ptx_type type) {
    switch (type) {
    case GS_PTX_F32:
        return GS_FLOAT32;
    case GS_PTX_F64:
        return GS_FLOAT64;
    case GS_PTX_S32:
        return GS_INT32;
    default:
        return gs_ptx_type_bytes(type) == 4 ? GS_UINT32 : gs_ptx_type_bytes(type) == 8 ? GS_INT64 : GS_UINT8;
    }
}

gs_code gs_verify_variables_find(gs_verify_variables *variables, const gs_ptx_module *module, uint32_t function,
                                 gs_error *error) {
    bool *is_named = calloc(module->variables.count + 1, sizeof *is_named);
    gs_code code = is_named ? GS_OK : gs_fail_memory(error);
    *variables = (gs_verify_variables){.module = module};
    for (uint32_t i = 0; i < module->functions.count && code == GS_OK; i++)
        if (i == function || !module->functions.data[i].is_entry)
            mark_function(module, i, is_named);
    for (uint32_t i = 0; i < module->variables.count && code == GS_OK && module->address_bits == 64; i++) {
        const gs_ptx_variable *variable = &module->variables.data[i];
        gs_scalar type = scalar_of((gs_ptx_type)variable->type);
        if (!is_named[i] || variable->space != GS_PTX_GLOBAL || variable->function != GS_PTX_NONE ||
            variable->is_extern || !variable->bytes || has_addresses(module, variable))
            continue;
        if (!GS_RESERVE(variables, 1)) {
            code = gs_fail_memory(error);
            break;
        }
        variables->data[variables->count++] =
            (gs_verify_variable){variable->name, type, variables->bytes, variable->bytes / gs_scalar_bytes(type)};
        variables->bytes += (variable->bytes + 7) / 8 * 8;
    }
    free(is_named);
    return code;
}

void gs_verify_variables_free(gs_verify_variables *variables) {
    free(variables->data);
    *variables = (gs_verify_variables){.module = NULL};
}

/* ---- the entry that copies them ---- */

void gs_verify_variables_put(const gs_verify_variables *variables, gs_text *into) {
    const gs_ptx_module *module = variables->module;
    if (!variables->count)
        return;
    gs_text_add(into, "\n.visible .entry " GS_VERIFY_VARIABLES "(.param .u64 gridsmith_to)\n{\n"
                      "\t.reg .pred %%p;\n\t.reg .b16 %%byte;\n\t.reg .b32 %%thread;\n"
                      "\t.reg .b64 %%to, %%from, %%at, %%i;\n\tld.param.u64 %%to, [gridsmith_to];\n"
                      "\tmov.u32 %%thread, %%tid.x;\n");
    for (size_t i = 0; i < variables->count; i++) {
        const gs_verify_variable *variable = &variables->data[i];
        const gs_ptx_token *name = &module->tokens.data[variable->name];
        unsigned long long bytes = variable->count * gs_scalar_bytes(variable->type), at = variable->at;
        gs_text_add(into, "\tmov.u64 %%from, ");
        gs_text_put(into, module->text + name->at, name->length);
        gs_text_add(into, ";\n\tcvt.u64.u32 %%i, %%thread;\ngridsmith_next%zu:\n\tsetp.ge.u64 %%p, %%i, %llu;\n", i,
                    bytes);
        gs_text_add(into, "\t@%%p bra gridsmith_past%zu;\n\tadd.u64 %%at, %%from, %%i;\n", i);
        gs_text_add(into, "\tld.global.u8 %%byte, [%%at];\n\tadd.u64 %%at, %%to, %%i;\n");
        gs_text_add(into, "\tst.global.u8 [%%at+%llu], %%byte;\n\tadd.u64 %%i, %%i, %d;\n", at, THREADS);
        gs_text_add(into, "\tbra gridsmith_next%zu;\ngridsmith_past%zu:\n", i, i);
    }
    gs_text_add(into, "\tret;\n}\n");
}

void gs_verify_variables_call(const gs_verify_variables *variables, void *data, gs_work *work) {
    const uint32_t grid[3] = {1, 1, 1}, block[3] = {THREADS, 1, 1};
    int32_t buffer = gs_work_buffer(work, data, variables->bytes);
    gs_work_call(work, GS_VERIFY_VARIABLES, grid, block, 0);
    gs_work_pass_buffer(work, buffer);
}

/* ---- comparing ---- */

bool gs_verify_variables_agree(const gs_verify_variables *variables, const void *first, const void *second,
                               double tolerance, gs_error *reason) {
    char name[GS_PTX_SYMBOL_MOST], here[GS_VERIFY_NUMBER], there[GS_VERIFY_NUMBER];
    for (size_t i = 0; i < variables->count; i++) {
        const gs_verify_variable *variable = &variables->data[i];
        const char *one = (const char *)first + variable->at, *other = (const char *)second + variable->at;
        size_t element = gs_scalars_differ(variable->type, one, other, variable->count, tolerance);
        if (element == variable->count)
            continue;
        gs_fail(reason, GS_OK, "variable %.200s, element %zu: the original has %s, the reshaped kernel %s",
                gs_ptx_token_text(variables->module, variable->name, name, sizeof name), element,
                gs_verify_number(variable->type, one, element, here),
                gs_verify_number(variable->type, other, element, there));
        return false;
    }
    return true;
}
