/*
 * ptx_indices.c: how far into its variable a store with an index reaches.
 *
 *         i = atomicAdd(&count, 1);
 *         if (i < 100) queue[i] = x;
 *
 * The branch keeps the index below 100, so what lies behind the queue is not written. Without that, a store with an
 * index might write any word of the variable; dynamic shared memory is one variable, whatever a kernel has in it.
 *
 * The limit holds in a block that runs only after one edge of the branch, if the index was computed in the block of the
 * branch: a thread that computes it again is tested again. Address arithmetic does not overflow (docs/reshape.md).
 */
#include "ptx_wait_facts.h"

enum { DEEPEST = 16, LARGEST = 1 << 24 };

/* The most that a register is where a branch has gone this way. False: the branch does not tell. */
static bool limit_behind(const gs_ptx_kernel *kernel, const gs_ptx_dependence *dependence, uint32_t number,
                         int64_t *most) {
    static const struct {
        const char *words;
        bool holds; /* whether the comparison does, if the register is limited */
        int64_t less;
    } limits[] = {{"lt lo", true, 1}, {"le ls", true, 0}, {"gt hi", false, 0}, {"ge hs", false, 1}};
    const gs_ptx_block *block = &kernel->flow.blocks.data[dependence->branch];
    const gs_ptx_statement *branch = gs_ptx_statement_at(kernel, block->last),
                           *writer = gs_ptx_only_writer(kernel, number);
    const gs_ptx_statement *test = branch->guard == GS_PTX_NONE ? NULL : gs_ptx_only_writer(kernel, branch->guard);
    if (!test || !writer || test->guard != GS_PTX_NONE || test->count != 3 || block->target_count ||
        gs_ptx_math_of(test) != GS_PTX_MATH_COMPARE || gs_ptx_is_real(kernel->module, test) ||
        block->successors[0] == block->successors[1])
        return false;
    const gs_ptx_operand *one = gs_ptx_operand_at(kernel, test, 1), *other = gs_ptx_operand_at(kernel, test, 2);
    uint32_t at = gs_ptx_number_of(kernel, writer), tested = gs_ptx_number_of(kernel, test);
    if (at < block->first || at >= tested || tested > block->last || one->kind != GS_PTX_REGISTER ||
        one->value != number || one->part || other->kind != GS_PTX_INTEGER || other->bits > LARGEST ||
        gs_ptx_operand_at(kernel, test, 0)->kind != GS_PTX_REGISTER)
        return false;
    bool holds = (dependence->edge == block->successors[0]) != branch->guard_is_negated;
    for (size_t i = 0; i < GS_COUNT(limits); i++)
        if (gs_ptx_has(kernel->module, test, limits[i].words) && holds == limits[i].holds) {
            *most = (int64_t)other->bits - limits[i].less;
            return true;
        }
    return false;
}

/* The most that a register is in a block, because of the branches before it. */
static bool limit_at(const gs_ptx_kernel *kernel, uint32_t block, uint32_t number, int64_t *most) {
    const gs_ptx_flow *flow = &kernel->flow;
    for (int i = 0; i < DEEPEST && flow->dependence_first[block] + 1 == flow->dependence_first[block + 1]; i++) {
        const gs_ptx_dependence *only = &flow->dependences.data[flow->dependence_first[block]];
        if (limit_behind(kernel, only, number, most))
            return true;
        block = only->branch;
    }
    return false;
}

/* The most that an operand is in a block, without the variable that it points to. False: not known. */
static bool most_of(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand, uint32_t block, int64_t *most,
                    int depth) {
    int64_t one, other;
    *most = operand->kind == GS_PTX_REGISTER || operand->kind == GS_PTX_SYMBOL ? (int64_t)operand->bits : 0;
    if (operand->kind == GS_PTX_SYMBOL)
        return gs_ptx_memory_of(kernel->module, operand).is_known;
    if (operand->kind == GS_PTX_INTEGER) {
        *most = (int64_t)operand->bits;
        return operand->bits <= LARGEST;
    }
    const gs_ptx_statement *writer =
        operand->kind == GS_PTX_REGISTER && !operand->part ? gs_ptx_only_writer(kernel, operand->value) : NULL;
    if (!writer || depth == DEEPEST || *most > LARGEST || *most < -LARGEST)
        return false;
    if (limit_at(kernel, block, operand->value, &one)) {
        *most += one;
        return true;
    }
    const gs_ptx_operand *operands = gs_ptx_operand_at(kernel, writer, 0);
    if (writer->guard != GS_PTX_NONE || writer->count < 2 || writer->opcode != GS_PTX_COMPUTE ||
        gs_ptx_is_real(kernel->module, writer) || gs_ptx_has(kernel->module, writer, "hi sat cc") ||
        !most_of(kernel, &operands[1], block, &one, depth + 1))
        return false;
    switch (gs_ptx_math_of(writer)) {
    case GS_PTX_MATH_MOVE:
        *most += one;
        return writer->count == 2 && operands[0].kind == GS_PTX_REGISTER;
    case GS_PTX_MATH_ADD:
        if (writer->count != 3 || !most_of(kernel, &operands[2], block, &other, depth + 1))
            return false;
        *most += one + other;
        return true;
    case GS_PTX_MATH_SHL:
        if (writer->count != 3 || operands[2].kind != GS_PTX_INTEGER || operands[2].bits >= 16)
            return false;
        *most += one * (1ll << operands[2].bits);
        return true;
    default:
        return false;
    }
}

uint32_t gs_ptx_end_of_store(const gs_ptx_kernel *kernel, const gs_ptx_statement *store) {
    const gs_ptx_operand *address = gs_ptx_address_of(kernel, store, true);
    uint32_t block = gs_ptx_flow_block(&kernel->flow, gs_ptx_number_of(kernel, store));
    int64_t most;
    if (store->opcode != GS_PTX_STORE || !address || address->count != 1 ||
        !most_of(kernel, &kernel->module->operands.data[address->children], block, &most, 0))
        return GS_PTX_NONE;
    most += gs_ptx_bytes_of(kernel, store);
    return most < 0 ? 0 : most < LARGEST ? (uint32_t)most : GS_PTX_NONE;
}
