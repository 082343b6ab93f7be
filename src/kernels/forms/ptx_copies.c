/*
 * ptx_copies.c: copies of functions that read the number of the block, for a form to call. See ptx_calls.c.
 */
#include "ptx_facts.h"

/* The name of the form, and the number of the function: names of functions may be long. */
#define COPY_NAME "%s" GS_LOOP_NAMES "f%u"

void gs_ptx_replace_call(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    char form[GS_PTX_SYMBOL_MOST];
    uint32_t operand;
    int called = gs_ptx_called_function(module, statement, &operand);
    if (called < 0 || !kernel->is_copied[called])
        return;
    gs_ptx_form_symbol(module, kernel->function, kernel->loop.form, form, sizeof form);
    const gs_ptx_token *word = &module->tokens.data[module->operands.data[statement->operands + operand].first];
    gs_edits_add(edits, word->at, word->length, COPY_NAME, form, (unsigned)called);
}

void gs_ptx_widen_move(const gs_ptx_module *module, const gs_ptx_statement *statement, gs_edits *edits) {
    const gs_ptx_token *word = &module->tokens.data[statement->word];
    if (strncmp(module->text + word->at, "mov.", 4) == 0 && gs_ptx_has(module, statement, "u16 s16 b16"))
        gs_edits_add(edits, word->at, word->length, "cvt.u16.u32");
}

/* Loads a part of the number of the block, or of the grid. */
static void load_part(const gs_ptx_kernel *kernel, size_t at, int number, gs_edits *edits) {
    gs_text text = {0};
    if (kernel->loop.is_behind)
        gs_block_loop_find(&text, &kernel->loop, "%gs_b7", "%gs_b8");
    gs_text_add(&text, "\tld.shared.u32 %%gs_b%d, [%s+%d];\n\t", number,
                kernel->loop.is_behind ? "%gs_b7" : kernel->loop.ours, GS_LOOP_SHARED + 4 * number);
    edits->failed = edits->failed || text.failed;
    if (!text.failed)
        gs_edits_put(edits, at, 0, text.data, text.count);
    gs_text_free(&text);
}

/* %ctaid.y is read from shared memory before the statement. */
static void replace_specials(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement,
                             const gs_ptx_operand *operand, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    size_t at = gs_ptx_token_begin(module, operand->first), length = gs_ptx_token_end(module, operand->last) - at;
    bool is_grid = operand->value == GS_PTX_NCTAID;
    if (gs_ptx_reads_shared_size(operand) && kernel->loop.is_behind) {
        gs_edits_add(edits, gs_ptx_token_begin(module, statement->first), 0,
                     "mov.u32 %%gs_b6, %%dynamic_smem_size;\n\tsub.u32 %%gs_b6, %%gs_b6, %d;\n\t", GS_JOB_SHARED);
        gs_edits_add(edits, at, length, "%%gs_b6");
        gs_ptx_widen_move(module, statement, edits);
    } else if (operand->kind == GS_PTX_SPECIAL && (operand->value == GS_PTX_CTAID || is_grid)) {
        int number = operand->part - 'x' + (is_grid ? 3 : 0);
        load_part(kernel, gs_ptx_token_begin(module, statement->first), number, edits);
        gs_edits_add(edits, at, length, "%%gs_b%d", number);
        gs_ptx_widen_move(module, statement, edits);
    }
    for (uint32_t i = 0; i < operand->count; i++)
        replace_specials(kernel, statement, &module->operands.data[operand->children + i], edits);
}

static void change_copy(const gs_ptx_kernel *kernel, uint32_t number, const char *form, gs_edits *edits) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[number];
    const gs_ptx_token *name = &module->tokens.data[function->name];
    gs_edits_add(edits, name->at, name->length, COPY_NAME, form, number);
    gs_edits_add(edits, gs_ptx_token_end(module, function->open), 0, "\n\t.reg .b32 %%gs_b<9>;\n");
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[function->statements + i];
        if (statement->kind != GS_PTX_INSTRUCTION)
            continue;
        for (uint32_t j = 0; j < statement->count; j++)
            replace_specials(kernel, statement, &module->operands.data[statement->operands + j], edits);
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

static gs_code put_copy(const gs_ptx_kernel *kernel, uint32_t number, const char *form, gs_text *into,
                        gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[number];
    gs_edits edits = {0};
    change_copy(kernel, number, form, &edits);
    bool is_done = gs_edits_apply(&edits, module->text, gs_ptx_token_begin(module, head_of(module, function)),
                                  gs_ptx_token_end(module, function->last), into);
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
    gs_text_add(into, "\n");
    for (uint32_t i = 0; i < module->functions.count; i++) { /* declared first: they may call each other */
        const gs_ptx_function *function = &module->functions.data[i];
        if (!kernel->is_copied[i])
            continue;
        size_t from = gs_ptx_token_begin(module, head_of(module, function)),
               name = gs_ptx_token_end(module, function->name);
        gs_text_put(into, module->text + from, gs_ptx_token_begin(module, function->name) - from);
        gs_text_add(into, COPY_NAME, form, i);
        gs_text_add(into, "%.*s;\n", (int)(gs_ptx_token_begin(module, function->open) - name), module->text + name);
    }
    for (uint32_t i = 0; i < module->functions.count && code == GS_OK; i++)
        if (kernel->is_copied[i])
            code = put_copy(kernel, i, form, into, error);
    return code;
}
