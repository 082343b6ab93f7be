/*
 * rounds_accesses.c: how many transactions the loads and stores of a PTX kernel make, counted on the CPU.
 *
 * In front of each access of global or shared memory stands gs_access, which is not of PTX:
 * runtime/gridsmith_accesses.c gets the place that a lane accesses, and the rounds of the loops that the access is in.
 * Lanes of a warp that execute it in the same rounds count as together, so those that a GPU executes together are among
 * them, if it goes through loops as the PTX does (the walk through the machine code looks after that).
 *
 * Lanes that come to a round but not to the access may execute it in machine code, where it is one with another. So
 * where a round begins, or the kernel, stands gs_present for each access that lanes may come past.
 *
 * The rounds are the counters of rounds.c. They begin at 0 where the code before runs into the label; a loop that is
 * entered by a branch has no such rounds.
 */
#include "rounds.h"

#include <stdlib.h>

enum { MOST_BYTES = 16, MOST_TRANSACTIONS = 32 };

/* A load or store with a plain address in global or shared memory. */
static bool is_access(const struct gs_counting *counting, uint32_t number, gs_loop_rounds *access) {
    const gs_ptx_module *module = counting->module;
    const gs_ptx_statement *statement = gs_counting_statement(counting, number);
    bool is_load = statement->opcode == GS_PTX_LOAD, is_store = statement->opcode == GS_PTX_STORE;
    gs_ptx_type types[2];
    if (statement->kind != GS_PTX_INSTRUCTION || (!is_load && !is_store))
        return false;
    uint8_t memory = is_load ? gs_ptx_reads(module, statement) : gs_ptx_writes(module, statement);
    uint32_t lanes = gs_ptx_has(module, statement, "v8")   ? 8
                     : gs_ptx_has(module, statement, "v4") ? 4
                     : gs_ptx_has(module, statement, "v2") ? 2
                                                           : 1;
    gs_ptx_find_types(module, statement, types);
    *access = (gs_loop_rounds){.is_access = true,
                               .is_store = is_store,
                               .is_shared = memory == GS_PTX_IN_SHARED,
                               .bytes = gs_ptx_type_bytes(types[0]) * lanes};
    return (memory == GS_PTX_IN_SHARED || memory == GS_PTX_IN_GLOBAL) && access->bytes && access->bytes <= MOST_BYTES &&
           (is_load ? gs_ptx_address_read(module, statement) : gs_ptx_address_written(module, statement)) !=
               GS_PTX_NONE;
}

static bool is_within(const struct gs_counting *counting, size_t loop, uint32_t statement) {
    return counting->labels[counting->counter_of[loop]] <= statement && statement <= counting->branches[loop];
}

/* The label at which the rounds of a statement begin, that of the innermost loop; GS_PTX_NONE: it is in none. */
static uint32_t begin_of_round(const struct gs_counting *counting, uint32_t number) {
    uint32_t begin = GS_PTX_NONE;
    for (size_t loop = 0; loop < counting->loops; loop++) {
        uint32_t label = counting->labels[counting->counter_of[loop]];
        if (is_within(counting, loop, number) && (begin == GS_PTX_NONE || label > begin))
            begin = label;
    }
    return begin;
}

/* Whether lanes that come to the round of a statement may not execute it: there is a guard, or a piece begins between.
 */
static bool may_pass(const struct gs_counting *counting, uint32_t number) {
    uint32_t begin = begin_of_round(counting, number);
    return gs_counting_statement(counting, number)->guard != GS_PTX_NONE ||
           counting->piece_of[number] != (begin == GS_PTX_NONE ? 0 : counting->piece_of[begin]);
}

static void add_rounds(const struct gs_counting *counting, gs_edits *edits, size_t at, uint32_t number) {
    for (size_t loop = 0; loop < counting->loops; loop++)
        if (is_within(counting, loop, number))
            gs_edits_add(edits, at, 0, ", %%gs_rounds_%u", counting->counter_of[loop]);
    gs_edits_add(edits, at, 0, ";\n");
}

void gs_accesses_add_present(const struct gs_counting *counting, gs_edits *edits, size_t at, uint32_t label) {
    for (uint32_t i = 0; i < counting->function->statement_count; i++) {
        gs_loop_rounds access;
        if (!is_access(counting, i, &access) || begin_of_round(counting, i) != label || !may_pass(counting, i))
            continue;
        gs_edits_add(edits, at, 0, "\ngs_present.%s %%gs_rounds_at, %zu, %u", access.is_shared ? "shared" : "global",
                     gs_counting_accesses_at(counting) + i, access.bytes);
        add_rounds(counting, edits, at, i);
    }
}

void gs_accesses_add(const struct gs_counting *counting, gs_edits *edits) {
    const gs_ptx_module *module = counting->module;
    for (uint32_t i = 0; i < counting->function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_counting_statement(counting, i);
        gs_loop_rounds access;
        char guard[GS_PTX_SYMBOL_MOST];
        if (!is_access(counting, i, &access))
            continue;
        uint32_t number =
            access.is_store ? gs_ptx_address_written(module, statement) : gs_ptx_address_read(module, statement);
        const gs_ptx_operand *address = &module->operands.data[statement->operands + number];
        size_t at = module->tokens.data[statement->first].at, from = gs_ptx_token_begin(module, address->first);
        if (statement->guard != GS_PTX_NONE)
            gs_ptx_token_text(module, statement->first + 1 + statement->guard_is_negated, guard, sizeof guard);
        gs_edits_add(edits, at, 0, "\n%s%s%s gs_access.%s %%gs_rounds_at, %zu, %u, ",
                     statement->guard == GS_PTX_NONE ? "" : "@", statement->guard_is_negated ? "!" : "",
                     statement->guard == GS_PTX_NONE ? "" : guard, access.is_shared ? "shared" : "global",
                     gs_counting_accesses_at(counting) + i, access.bytes);
        gs_edits_put(edits, at, 0, module->text + from, gs_ptx_token_end(module, address->last) - from);
        add_rounds(counting, edits, at, i);
    }
}

/* Whether a statement is the only one of its line that accesses memory. */
static bool is_alone(const struct gs_counting *counting, uint32_t number, const uint32_t *lines) {
    uint32_t count = counting->function->statement_count;
    for (uint32_t i = 0; i < count; i++) {
        const gs_ptx_statement *statement = gs_counting_statement(counting, i);
        bool is_here = lines[i] <= lines[count + number] && lines[count + i] >= lines[number];
        if (i != number && is_here &&
            (gs_ptx_reads(counting->module, statement) | gs_ptx_writes(counting->module, statement)))
            return false;
    }
    return lines[number] == lines[count + number];
}

/* Whether the counters around a statement say in which rounds it is: each loop is entered at its label, from the code
   before it. */
static bool has_rounds(const struct gs_counting *counting, uint32_t number) {
    for (size_t i = 0; i < counting->loops; i++) {
        uint32_t label = counting->labels[counting->counter_of[i]], branch = counting->branches[i];
        if (is_within(counting, i, number) && gs_counting_is_entered(counting, label, branch, label))
            return false;
    }
    for (uint32_t i = 0; i < counting->function->statement_count; i++)
        if (gs_counting_statement(counting, i)->kind == GS_PTX_INSTRUCTION &&
            gs_counting_statement(counting, i)->opcode == GS_PTX_BRANCH_TABLE)
            return false;
    return true;
}

gs_code gs_accesses_keep(const struct gs_counting *counting, const uint32_t *counts) {
    uint32_t *lines = gs_counting_lines(counting);
    gs_code code = lines ? GS_OK : gs_fail_memory(counting->error);
    for (uint32_t i = 0; code == GS_OK && i < counting->function->statement_count; i++) {
        gs_loop_rounds access;
        uint32_t most = counts[gs_counting_accesses_at(counting) + i];
        if (!counting->is_passed[i] || !is_access(counting, i, &access))
            continue;
        access.line = lines[i];
        access.is_known = counting->is_placed[i] && most < MOST_TRANSACTIONS && is_alone(counting, i, lines) &&
                          has_rounds(counting, i);
        access.rounds = most;
        for (size_t loop = 0; loop < counting->loops; loop++)
            access.depth += is_within(counting, loop, i);
        if (!GS_PUSH(counting->list, access))
            code = gs_fail_memory(counting->error);
    }
    free(lines);
    return code;
}
