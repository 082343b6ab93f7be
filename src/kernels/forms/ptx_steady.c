/*
 * ptx_steady.c: values that an iteration of a loop does not change.
 *
 * An operand is steady in a loop if each iteration computes the same value for it, and kept if that holds also where it
 * is loaded from memory: a limit that the loop does not raise.
 */
#include "ptx_wait_facts.h"

enum { NOT_KNOWN, IN_WORK, STEADY, CHANGING, DEEPEST = 200 };

static bool register_is_steady(const gs_ptx_loop *loop, uint32_t number, bool is_kept, int depth);

static bool is_clock(const gs_ptx_operand *operand) {
    static const uint8_t clocks[] = {GS_PTX_CLOCK,          GS_PTX_CLOCK_HI,       GS_PTX_CLOCK64, GS_PTX_GLOBALTIMER,
                                     GS_PTX_GLOBALTIMER_LO, GS_PTX_GLOBALTIMER_HI, GS_PTX_PM};
    for (size_t i = 0; operand->kind == GS_PTX_SPECIAL && i < GS_COUNT(clocks); i++)
        if (operand->value == clocks[i] || operand->value == GS_PTX_NONE)
            return true;
    return false;
}

static bool operand_is_steady(const gs_ptx_loop *loop, const gs_ptx_operand *operand, bool is_kept, int depth) {
    if (is_clock(operand))
        return false;
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ &&
        !register_is_steady(loop, operand->value, is_kept, depth))
        return false;
    for (uint32_t i = 0; i < operand->count; i++)
        if (!operand_is_steady(loop, &loop->kernel->module->operands.data[operand->children + i], is_kept, depth))
            return false;
    return true;
}

/* Whether the loop writes shared or local memory that a statement reads. */
static bool writes_place(const gs_ptx_loop *loop, const gs_ptx_statement *read) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    uint32_t place = gs_ptx_access_of(loop, read)->place;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_access *access = gs_ptx_access_of(loop, gs_ptx_statement_at(loop->kernel, i));
            bool may_meet = access->place == place || place == GS_PTX_NONE || access->place == GS_PTX_NONE;
            if (access->writes & (GS_PTX_IN_SHARED | GS_PTX_IN_LOCAL) && may_meet)
                return true;
        }
    return false;
}

/* Whether a load finds the same in each iteration: the loop does not write the word, and if others do, a plain load is
   not the way to wait for that. */
static bool loads_kept(const gs_ptx_loop *loop, const gs_ptx_statement *load) {
    uint32_t at = GS_PTX_NONE;
    for (const gs_ptx_statement *write; (write = gs_ptx_next_writer(loop, load, &at));)
        if (gs_ptx_reads_anew(loop, load) || loop->within[gs_ptx_flow_block(&loop->kernel->flow, at)])
            return false;
    return true;
}

/* Whether an operand names what a function gets or returns: a `.param` variable of the body. */
static bool names_result(const gs_ptx_module *module, const gs_ptx_operand *operand) {
    if (operand->kind == GS_PTX_SYMBOL && operand->value != GS_PTX_NONE) {
        const gs_ptx_variable *variable = &module->variables.data[operand->value];
        return variable->space == GS_PTX_PARAM && variable->depth > 0;
    }
    for (uint32_t i = 0; i < operand->count; i++)
        if (names_result(module, &module->operands.data[operand->children + i]))
            return true;
    return false;
}

/* Whether a statement reads what other threads, or a function, may have changed since the last iteration: a word of
   shared memory that is read so that this is seen, or a result. */
static bool reads_others(const gs_ptx_loop *loop, const gs_ptx_statement *statement, bool is_kept) {
    const gs_ptx_module *module = loop->kernel->module;
    if (is_kept && gs_ptx_access_of(loop, statement)->reads & GS_PTX_IN_SHARED && gs_ptx_is_strong(module, statement))
        return true;
    for (uint32_t i = 0; i < statement->count; i++)
        if (names_result(module, &module->operands.data[statement->operands + i]))
            return true;
    return false;
}

/* An instruction gives a steady result if its operands are. A load counts as one, unless the result must be kept: what
   is written is not the matter then. */
static bool statement_is_steady(const gs_ptx_loop *loop, const gs_ptx_statement *statement, bool is_kept, int depth) {
    const gs_ptx_access *access = gs_ptx_access_of(loop, statement);
    bool is_private = access->reads & (GS_PTX_IN_SHARED | GS_PTX_IN_LOCAL);
    if (access->writes || statement->opcode == GS_PTX_CALL || (is_private && writes_place(loop, statement)) ||
        reads_others(loop, statement, is_kept))
        return false;
    if (statement->guard != GS_PTX_NONE && !register_is_steady(loop, statement->guard, is_kept, depth))
        return false;
    if (is_kept && gs_ptx_reads_changing(loop, statement) && !loads_kept(loop, statement))
        return false;
    for (uint32_t i = 0; i < statement->count; i++)
        if (!operand_is_steady(loop, &loop->kernel->module->operands.data[statement->operands + i], is_kept, depth))
            return false;
    return true;
}

/* A register is steady if all its writes in the loop are; one that depends on itself is not. */
static bool register_is_steady(const gs_ptx_loop *loop, uint32_t number, bool is_kept, int depth) {
    const gs_ptx_kernel *kernel = loop->kernel;
    uint8_t *state = &loop->steadiness[2 * (size_t)number + is_kept];
    if (*state != NOT_KNOWN || depth == DEEPEST)
        return *state == STEADY;
    *state = IN_WORK;
    bool is_steady = true;
    for (uint32_t i = kernel->writer_first[number]; i < kernel->writer_first[number + 1] && is_steady; i++)
        if (loop->within[gs_ptx_flow_block(&kernel->flow, kernel->writers[i])])
            is_steady = statement_is_steady(loop, gs_ptx_statement_at(kernel, kernel->writers[i]), is_kept, depth + 1);
    *state = is_steady ? STEADY : CHANGING;
    return is_steady;
}

bool gs_ptx_is_steady(const gs_ptx_loop *loop, const gs_ptx_operand *operand) {
    return operand_is_steady(loop, operand, false, 0);
}

bool gs_ptx_is_kept(const gs_ptx_loop *loop, const gs_ptx_operand *operand) {
    return operand_is_steady(loop, operand, true, 0);
}
