/*
 * verify_variables.c: the variables of a module that a kernel can reach, as further results of it.
 *
 * A kernel may write `.global` variables (__device__) instead of buffers, also such as it does not name, through a
 * table of pointers. To compare them, an entry is put behind the text of the module, which copies them into a
 * buffer after the kernel has run; so it works on the CPU and on GPUs alike. Variables whose initial values contain
 * addresses are left out: those of two modules differ.
 */
#include "variant.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 256 };

void gs_verify_add_words(gs_error *reason, const char *words) {
    size_t length = strlen(reason->message);
    snprintf(reason->message + length, sizeof reason->message - length, "%s", words);
}

/* ---- which ones ---- */

static bool has_addresses(const gs_ptx_module *module, const gs_ptx_variable *variable) {
    for (uint32_t i = variable->initializer; i != GS_PTX_NONE && i <= variable->last; i++)
        if (module->tokens.data[i].kind == GS_PTX_WORD)
            return true;
    return false;
}

static bool may_be_compared(const gs_ptx_module *module, const gs_ptx_variable *variable) {
    return variable->space == GS_PTX_GLOBAL && variable->type < GS_PTX_TEXREF && variable->function == GS_PTX_NONE &&
           !variable->is_extern && variable->bytes && !has_addresses(module, variable);
}

static gs_code add_if_reached(gs_verify_variables *variables, uint32_t function, uint32_t number, gs_error *error) {
    const gs_ptx_variable *declared = &variables->module->variables.data[number];
    gs_verify_variable variable = {.name = declared->name,
                                   .type = gs_verify_scalar((gs_ptx_type)declared->type),
                                   .is_bytes = declared->type == GS_PTX_B8,
                                   .at = variables->bytes};
    gs_scalar accessed;
    bool is_reached = false;
    gs_code code = gs_verify_accesses(variables->module, function, number, &is_reached, &accessed, error);
    if (code != GS_OK || !is_reached)
        return code;
    if (!GS_RESERVE(variables, 1))
        return gs_fail_memory(error);
    if (variable.is_bytes)
        variable.type = accessed;
    variable.count = declared->bytes / gs_scalar_bytes(variable.type);
    variables->data[variables->count++] = variable;
    variables->bytes += (declared->bytes + 7) / 8 * 8;
    return GS_OK;
}

gs_code gs_verify_variables_find(gs_verify_variables *variables, const gs_ptx_module *module, uint32_t function,
                                 gs_error *error) {
    gs_code code = GS_OK;
    *variables = (gs_verify_variables){.module = module};
    for (uint32_t i = 0; i < module->variables.count && code == GS_OK && module->address_bits == 64; i++)
        if (may_be_compared(module, &module->variables.data[i]))
            code = add_if_reached(variables, function, i, error);
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
        gs_fail(reason, GS_OK, "variable %.200s, %s %zu: the original has %s, the reshaped kernel %s",
                gs_ptx_token_text(variables->module, variable->name, name, sizeof name),
                variable->type == GS_UINT8 ? "byte" : "element", element,
                gs_verify_number(variable->type, one, element, here),
                gs_verify_number(variable->type, other, element, there));
        if (tolerance > 0 && variable->is_bytes && !gs_scalar_is_real(variable->type))
            gs_verify_add_words(reason, "; it is compared exactly: PTX declares it as bytes, and the kernel does not "
                                        "access it as floating-point numbers of one type only");
        return false;
    }
    return true;
}
