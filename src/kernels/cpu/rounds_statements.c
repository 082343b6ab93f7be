/*
 * rounds_statements.c: what the files that count on the CPU ask of the statements of a kernel: where a branch leads,
 * in which lines statements are, and which words of the memory belong to them.
 */
#include "rounds.h"

#include <stdlib.h>

static bool same_token(const gs_ptx_module *module, uint32_t a, uint32_t b) {
    const gs_ptx_token *one = &module->tokens.data[a], *other = &module->tokens.data[b];
    return one->length == other->length && memcmp(module->text + one->at, module->text + other->at, one->length) == 0;
}

bool gs_counting_leads_to(const struct gs_counting *counting, uint32_t branch, uint32_t label) {
    const gs_ptx_statement *from = gs_counting_statement(counting, branch),
                           *to = gs_counting_statement(counting, label);
    bool is_branch = from->kind == GS_PTX_INSTRUCTION && from->opcode == GS_PTX_BRANCH && from->count;
    return is_branch && to->kind == GS_PTX_LABEL &&
           same_token(counting->module, to->word, counting->module->operands.data[from->operands].first);
}

bool gs_counting_is_entered(const struct gs_counting *counting, uint32_t label, uint32_t branch, uint32_t first) {
    for (uint32_t i = 0; i < counting->function->statement_count; i++)
        for (uint32_t j = first; (i < label || i > branch) && j < branch; j++)
            if (gs_counting_leads_to(counting, i, j))
                return true;
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

size_t gs_counting_ways_at(const struct gs_counting *counting, uint32_t statement) {
    return counting->labels_count + counting->pieces + 2 * (size_t)statement;
}

size_t gs_counting_accesses_at(const struct gs_counting *counting) {
    return gs_counting_ways_at(counting, counting->function->statement_count);
}
