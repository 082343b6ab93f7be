/*
 * rounds_places.c: where the statements of a counted kernel are: their lines, and the branches that lead into a loop.
 */
#include "rounds.h"

#include <stdlib.h>

bool gs_counting_same_token(const gs_ptx_module *module, uint32_t a, uint32_t b) {
    const gs_ptx_token *one = &module->tokens.data[a], *other = &module->tokens.data[b];
    return one->length == other->length && memcmp(module->text + one->at, module->text + other->at, one->length) == 0;
}

bool gs_counting_is_entered(const struct gs_counting *counting, uint32_t label, uint32_t branch, uint32_t first) {
    for (uint32_t i = 0; i < counting->function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_counting_statement(counting, i);
        if ((i >= label && i <= branch) || statement->kind != GS_PTX_INSTRUCTION ||
            statement->opcode != GS_PTX_BRANCH || !statement->count)
            continue;
        uint32_t target = counting->module->operands.data[statement->operands].first;
        for (uint32_t j = first; j < branch; j++)
            if (gs_counting_statement(counting, j)->kind == GS_PTX_LABEL &&
                gs_counting_same_token(counting->module, gs_counting_statement(counting, j)->word, target))
                return true;
    }
    return false;
}

uint32_t *gs_counting_lines(const struct gs_counting *counting) {
    const gs_ptx_module *module = counting->module;
    uint32_t count = counting->function->statement_count, line = 1;
    uint32_t *lines = calloc(2 * (size_t)count + 1, sizeof *lines);
    size_t at = 0;
    for (uint32_t i = 0; lines && i < 2 * count; i++) {
        const gs_ptx_statement *statement = gs_counting_statement(counting, i / 2);
        size_t to = module->tokens.data[i % 2 ? statement->last : statement->first].at;
        for (; at < to; at++)
            line += module->text[at] == '\n';
        lines[i % 2 * count + i / 2] = line;
    }
    return lines;
}
