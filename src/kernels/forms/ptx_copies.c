/*
 * ptx_copies.c: copies of functions that read the number of the block, for a form to call. See ptx_calls.c.
 */
#include "ptx_facts.h"

static size_t begin_of(const gs_ptx_module *module, uint32_t token) {
    return module->tokens.data[token].at;
}

static size_t end_of(const gs_ptx_module *module, uint32_t token) {
    return module->tokens.data[token].at + module->tokens.data[token].length;
}

void gs_ptx_replace_call(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    char form[GS_PTX_SYMBOL_MOST];
    uint32_t operand;
    int called = gs_ptx_called_function(module, statement, &operand);
    if (called < 0 || !kernel->is_copied[called])
        return;
    gs_ptx_form_symbol(module, kernel->function, kernel->loop.form, form, sizeof form);
    gs_edits_add(edits, end_of(module, module->operands.data[statement->operands + operand].first), 0, "__%s", form);
}

/* %ctaid.y is read from shared memory before the statement. */
static void replace_specials(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement,
                             const gs_ptx_operand *operand, const char *form, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    size_t at = begin_of(module, operand->first), length = end_of(module, operand->last) - at;
    bool is_grid = operand->value == GS_PTX_NCTAID;
    if (operand->kind == GS_PTX_SPECIAL && (operand->value == GS_PTX_CTAID || is_grid)) {
        int number = operand->part - 'x' + (is_grid ? 3 : 0);
        gs_edits_add(edits, begin_of(module, statement->first), 0, "ld.shared.u32 %%gs_b%d, [%s_gs_block+%d];\n\t",
                     number, form, 4 * number);
        gs_edits_add(edits, at, length, "%%gs_b%d", number);
    }
    for (uint32_t i = 0; i < operand->count; i++)
        replace_specials(kernel, statement, &module->operands.data[operand->children + i], form, edits);
}

static void change_copy(const gs_ptx_kernel *kernel, const gs_ptx_function *function, const char *form,
                        gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    gs_edits_add(edits, end_of(module, function->name), 0, "__%s", form);
    gs_edits_add(edits, end_of(module, function->open), 0, "\n\t.reg .b32 %%gs_b<6>;\n");
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[function->statements + i];
        if (statement->kind != GS_PTX_INSTRUCTION)
            continue;
        for (uint32_t j = 0; j < statement->count; j++)
            replace_specials(kernel, statement, &module->operands.data[statement->operands + j], form, edits);
        if (statement->opcode == GS_PTX_CALL)
            gs_ptx_replace_call(kernel, statement, edits);
    }
}

/* The beginning of a function after words such as .visible. */
static uint32_t head_of(const gs_ptx_module *module, const gs_ptx_function *function) {
    uint32_t token = function->first;
    while (token < function->name && !gs_ptx_token_is(module, token, ".func"))
        token++;
    return token;
}

static gs_code put_copy(const gs_ptx_kernel *kernel, const gs_ptx_function *function, const char *form, gs_text *into,
                        gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    gs_edits edits = {0};
    change_copy(kernel, function, form, &edits);
    bool is_done = gs_edits_apply(&edits, module->text, begin_of(module, head_of(module, function)),
                                  end_of(module, function->last), into);
    gs_text_add(into, "\n");
    gs_edits_free(&edits);
    return is_done ? GS_OK : gs_fail_memory(error);
}

gs_code gs_ptx_put_copies(const gs_ptx_kernel *kernel, gs_text *into, gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    char form[GS_PTX_SYMBOL_MOST];
    gs_code code = GS_OK;
    if (!kernel->loop.stores_block)
        return GS_OK;
    gs_ptx_form_symbol(module, kernel->function, kernel->loop.form, form, sizeof form);
    gs_text_add(into, "\n.shared .align 4 .b8 %s_gs_block[24];\n", form);
    for (uint32_t i = 0; i < module->functions.count; i++) { /* declared first: they may call each other */
        const gs_ptx_function *function = &module->functions.data[i];
        size_t from = kernel->is_copied[i] ? begin_of(module, head_of(module, function)) : 0;
        size_t name = end_of(module, function->name);
        if (kernel->is_copied[i])
            gs_text_add(into, "%.*s__%s%.*s;\n", (int)(name - from), module->text + from, form,
                        (int)(begin_of(module, function->open) - name), module->text + name);
    }
    for (uint32_t i = 0; i < module->functions.count && code == GS_OK; i++)
        if (kernel->is_copied[i])
            code = put_copy(kernel, &module->functions.data[i], form, into, error);
    return code;
}
