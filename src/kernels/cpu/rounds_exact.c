/*
 * rounds_exact.c: whether the branches of a PTX kernel go on a CPU as on a GPU.
 *
 * A register is *inexact* if the CPU may have another value in it: of an approximate function, a product of matrices, a
 * sum that may be fused with a product, an atomic operation (its result depends on the order), a strong load, a
 * texture, a clock or the number of an SM, or of something that is inexact. Memory is inexact by state space: if one
 * inexact value is stored there, all that is loaded from there is, unless it cannot change. Which statement comes first
 * does not count.
 *
 * Statements count that some thread comes to on the CPU. None of their branches depends on a register that is inexact:
 * so all threads go the same way, come to the same statements, and inexact values spread through registers and memory
 * only. Not found are races, and memory that is read before it is written.
 */
#include "rounds.h"

#include <stdlib.h>

struct exactness {
    const gs_ptx_module *module;
    const gs_ptx_function *function;
    const bool *is_passed;         /* of each statement */
    bool *is_inexact, *is_product; /* of each register; a product may be fused with a sum */
    uint8_t memory;                /* a set of GS_PTX_IN_* that is inexact */
    bool has_changed;
};

static bool is_of_machine(uint32_t special) {
    switch (special) {
    case GS_PTX_WARPID:
    case GS_PTX_NWARPID:
    case GS_PTX_SMID:
    case GS_PTX_NSMID:
    case GS_PTX_GRIDID:
        return true;
    default:
        return special >= GS_PTX_CLOCK; /* clocks, timers and counters are the last ones */
    }
}

/* Whether a register of this set is read in an operand. */
static bool reads(const struct exactness *exactness, const gs_ptx_operand *operand, const bool *set) {
    bool found = (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ && set[operand->value]) ||
                 (operand->kind == GS_PTX_SPECIAL && set == exactness->is_inexact && is_of_machine(operand->value));
    for (uint32_t i = 0; i < operand->count && !found; i++)
        found = reads(exactness, &exactness->module->operands.data[operand->children + i], set);
    return found;
}

static void mark_written(struct exactness *exactness, const gs_ptx_operand *operand, bool *set) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE && !set[operand->value])
        exactness->has_changed = set[operand->value] = true;
    for (uint32_t i = 0; i < operand->count; i++)
        mark_written(exactness, &exactness->module->operands.data[operand->children + i], set);
}

static bool reads_any(const struct exactness *exactness, const gs_ptx_statement *statement, const bool *set) {
    bool found = statement->guard != GS_PTX_NONE && set[statement->guard];
    for (uint32_t i = 0; i < statement->count && !found; i++)
        found = reads(exactness, &exactness->module->operands.data[statement->operands + i], set);
    return found;
}

static void mark_all_written(struct exactness *exactness, const gs_ptx_statement *statement, bool *set) {
    for (uint32_t i = 0; i < statement->count; i++)
        mark_written(exactness, &exactness->module->operands.data[statement->operands + i], set);
}

/* Whether it reads what a called function has returned. */
static bool reads_return(const struct exactness *exactness, const gs_ptx_statement *statement) {
    uint32_t number = gs_ptx_address_read(exactness->module, statement);
    if (!(gs_ptx_reads(exactness->module, statement) & GS_PTX_IN_PARAM) || number == GS_PTX_NONE)
        return false;
    const gs_ptx_operand *address = &exactness->module->operands.data[statement->operands + number];
    const gs_ptx_operand *symbol = address->count ? &exactness->module->operands.data[address->children] : address;
    const gs_ptx_function *function = exactness->function;
    return symbol->kind == GS_PTX_SYMBOL &&
           symbol->value - function->parameters >= function->parameter_count; /* unsigned: also those before */
}

/* Whether its result is inexact whatever it reads. */
static bool is_source(const struct exactness *exactness, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = exactness->module;
    bool is_real = gs_ptx_is_real(module, statement);
    gs_ptx_math math = gs_ptx_math_of(statement);
    bool is_sum = math == GS_PTX_MATH_ADD || math == GS_PTX_MATH_SUB;
    switch (statement->opcode) {
    case GS_PTX_ATOMIC:
    case GS_PTX_TEXTURE:
    case GS_PTX_CALL:
    case GS_PTX_WARPGROUP:
        return true;
    case GS_PTX_MATRIX:
        return is_real && !gs_ptx_reads(module, statement);
    case GS_PTX_LOAD:
        return gs_ptx_is_strong(module, statement) || reads_return(exactness, statement);
    default:
        return gs_ptx_has(module, statement, "approx full") || math == GS_PTX_MATH_ACTIVE ||
               (is_sum && is_real && !gs_ptx_has(module, statement, "rn rz rm rp") &&
                reads_any(exactness, statement, exactness->is_product));
    }
}

static void pass_statement(struct exactness *exactness, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = exactness->module;
    bool is_plain = !gs_ptx_has(module, statement, "rn rz rm rp");
    if (gs_ptx_math_of(statement) == GS_PTX_MATH_MUL && gs_ptx_is_real(module, statement) && is_plain)
        mark_all_written(exactness, statement, exactness->is_product);
    bool is_loaded = gs_ptx_reads(module, statement) & exactness->memory && !gs_ptx_reads_constants(module, statement);
    bool is_inexact = is_loaded || reads_any(exactness, statement, exactness->is_inexact);
    bool is_order = statement->opcode == GS_PTX_ATOMIC && !is_inexact && !gs_ptx_is_real(module, statement) &&
                    gs_ptx_atomic_kind(module, statement) != GS_PTX_ATOMIC_EXCH &&
                    gs_ptx_atomic_kind(module, statement) != GS_PTX_ATOMIC_CAS; /* what it leaves has no order */
    if (!is_inexact && !is_source(exactness, statement))
        return;
    mark_all_written(exactness, statement, exactness->is_inexact);
    uint8_t written = is_order ? 0 : gs_ptx_writes(module, statement);
    exactness->has_changed = exactness->has_changed || written & ~exactness->memory;
    exactness->memory |= written;
}

static gs_code check_branches(const struct exactness *exactness, gs_error *error) {
    for (uint32_t i = 0; i < exactness->function->statement_count; i++) {
        const gs_ptx_statement *statement = &exactness->module->statements.data[exactness->function->statements + i];
        bool leaves = exactness->is_passed[i] && statement->kind == GS_PTX_INSTRUCTION &&
                      statement->opcode >= GS_PTX_BRANCH && statement->opcode <= GS_PTX_EXIT;
        if (leaves && (statement->guard != GS_PTX_NONE || statement->opcode == GS_PTX_BRANCH_TABLE) &&
            reads_any(exactness, statement, exactness->is_inexact))
            return gs_ptx_fail(exactness->module, statement->first, error, GS_E_REFUSED,
                               "on a GPU this may go another way than on the CPU: it depends on an approximation, the "
                               "order of atomic operations, or the machine");
    }
    return GS_OK;
}

gs_code gs_rounds_check_exact(const gs_ptx_module *module, const gs_ptx_function *function, const bool *is_passed,
                              gs_error *error) {
    struct exactness exactness = {.module = module, .function = function, .is_passed = is_passed};
    exactness.is_inexact = calloc(exactness.function->register_count + 1, sizeof *exactness.is_inexact);
    exactness.is_product = calloc(exactness.function->register_count + 1, sizeof *exactness.is_product);
    gs_code code = exactness.is_inexact && exactness.is_product ? GS_OK : gs_fail_memory(error);
    for (exactness.has_changed = true; code == GS_OK && exactness.has_changed;) {
        exactness.has_changed = false;
        for (uint32_t i = 0; i < exactness.function->statement_count; i++) {
            const gs_ptx_statement *statement = &module->statements.data[exactness.function->statements + i];
            if (is_passed[i] && statement->kind == GS_PTX_INSTRUCTION)
                pass_statement(&exactness, statement);
        }
    }
    if (code == GS_OK)
        code = check_branches(&exactness, error);
    free(exactness.is_inexact);
    free(exactness.is_product);
    return code;
}
