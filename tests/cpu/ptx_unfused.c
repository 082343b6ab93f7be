/*
 * ptx_unfused.c: PTX that a GPU computes as it is written. See ptx_unfused.h.
 */
#include "ptx_unfused.h"

#include <string.h>

/* Whether an instruction is rounded to nearest without saying so. */
static bool is_open(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    static const char *const names[] = {"add.", "sub.", "mul."}, *const roundings[] = {"rn", "rz", "rm", "rp"},
                             *const types[] = {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2"};
    const char *word = module->text + module->tokens.data[statement->word].at;
    bool is_one = false, is_real = false;
    for (size_t i = 0; i < GS_COUNT(names); i++)
        is_one = is_one || strncmp(word, names[i], 4) == 0;
    for (size_t i = 0; i < GS_COUNT(roundings); i++)
        is_one = is_one && !gs_ptx_has(module, statement, roundings[i]);
    for (size_t i = 0; i < GS_COUNT(types); i++)
        is_real = is_real || gs_ptx_has(module, statement, types[i]);
    return is_one && is_real;
}

gs_text ptx_unfused(const gs_ptx_module *module, uint32_t kept) {
    gs_edits edits = {0};
    gs_text text = {0};
    for (uint32_t i = 0; i < module->functions.count; i++) {
        const gs_ptx_function *function = &module->functions.data[i];
        if (function->is_entry && i != kept && kept != GS_PTX_NONE) {
            const gs_ptx_token *last = &module->tokens.data[function->last];
            size_t from = module->tokens.data[function->first].at;
            gs_edits_add(&edits, from, last->at + last->length - from, "%s", "");
            continue;
        }
        for (uint32_t k = function->statements; k < function->statements + function->statement_count; k++) {
            const gs_ptx_statement *statement = &module->statements.data[k];
            if (statement->kind == GS_PTX_INSTRUCTION && is_open(module, statement))
                gs_edits_add(&edits, module->tokens.data[statement->word].at + 3, 0, ".rn");
        }
    }
    gs_edits_apply(&edits, module->text, 0, module->size, &text);
    gs_edits_free(&edits);
    return text;
}
