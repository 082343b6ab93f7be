/*
 * ptx_spins.c: finds loops that cannot end by themselves.
 *
 * A loop that ends because of a word in global memory, and changes nothing on which its end depends, waits for somebody
 * who writes that word, whatever kind of load it uses: `while (__ldcg(flag) == 0);`. What it reads is the same each
 * time until somebody does. So a register is called steady if the loop does not write it, or if its only instruction
 * there computes it from steady ones, loads it from a steady address that the loop does not write, or gets it from an
 * atomic operation that has no effect when it is repeated (an exchange, a compare-and-swap that fails). Shared memory
 * is steady if all that the loop stores there is. A register that depends on itself, as a counter does, is not steady.
 * If all ends of the loop depend on steady registers, and on global memory, it spins.
 */
#include "ptx_linear.h"

#include <string.h>

enum state { NOT_KNOWN, IN_PROGRESS, STEADY, CHANGING };

struct spin {
    const gs_ptx_kernel *kernel;
    const bool *within; /* blocks of the loop */
    uint8_t *states;    /* of registers */
    bool reads;         /* what its ends depend on is read from global memory */
};

static bool is_steady(struct spin *spin, uint32_t number);

static const gs_ptx_statement *statement_at(const gs_ptx_kernel *kernel, uint32_t number) {
    return &kernel->module->statements.data[number];
}

static bool has_any(const gs_ptx_module *module, const gs_ptx_statement *statement, const char *const *words,
                    size_t count) {
    for (size_t i = 0; i < count; i++)
        if (gs_ptx_has(module, statement, words[i]))
            return true;
    return false;
}

bool gs_ptx_is_global(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    static const char *const elsewhere[] = {"shared", "shared::cta", "shared::cluster", "local", "param", "const"};
    return !has_any(module, statement, elsewhere, GS_COUNT(elsewhere));
}

bool gs_ptx_repeats(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    static const char *const operations[] = {"and", "or", "min", "max", "exch", "cas"};
    return statement->opcode == GS_PTX_ATOMIC && has_any(module, statement, operations, GS_COUNT(operations));
}

/* ---- functions that a loop calls ---- */

static bool function_has(const gs_ptx_kernel *kernel, uint32_t number, bool (*is_it)(const gs_ptx_statement *)) {
    const gs_ptx_function *function = &kernel->module->functions.data[number];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = statement_at(kernel, function->statements + i);
        if (statement->kind == GS_PTX_INSTRUCTION && is_it(statement) && gs_ptx_is_global(kernel->module, statement))
            return true;
    }
    return false;
}

static bool is_load(const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_LOAD;
}

static bool is_change(const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_STORE || statement->opcode == GS_PTX_ATOMIC ||
           statement->opcode == GS_PTX_TEXTURE || statement->opcode == GS_PTX_BULK_COPY;
}

static bool any_called_has(const gs_ptx_kernel *kernel, bool (*is_it)(const gs_ptx_statement *)) {
    for (uint32_t i = 0; i < kernel->module->functions.count; i++)
        if (kernel->is_called[i] && function_has(kernel, i, is_it))
            return true;
    return false;
}

/* ---- what the loop writes ---- */

/* Whether a store may be to the word that `read` reads: not if it is made of another parameter. */
bool gs_ptx_may_meet(const gs_ptx_kernel *kernel, const gs_ptx_statement *read, const gs_ptx_statement *store) {
    const gs_ptx_operand *from = kernel->module->operands.data + read->operands + 1,
                         *to = kernel->module->operands.data + store->operands;
    to += store->count > 1 && to->kind != GS_PTX_ADDRESS;
    gs_linear awaited = read->count > 1 ? gs_linear_address(kernel, from) : (gs_linear){.is_known = false};
    gs_linear written = gs_linear_address(kernel, to);
    for (int i = 0; i < awaited.count && awaited.is_known; i++) {
        uint64_t symbol = awaited.terms[i].symbol;
        if (symbol >> 56 != GS_LINEAR_PARAMETER || awaited.terms[i].times != 1)
            continue;
        bool has_it = false;
        for (int k = 0; k < written.count && written.is_known; k++)
            has_it = has_it || written.terms[k].symbol == symbol;
        return written.is_known ? has_it : gs_linear_may_contain(kernel, to, symbol);
    }
    return true;
}

static bool may_change(const struct spin *spin, const gs_ptx_statement *read, const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = spin->kernel;
    if (statement->kind != GS_PTX_INSTRUCTION || statement == read)
        return false;
    if (statement->opcode == GS_PTX_CALL)
        return any_called_has(kernel, is_change);
    if (!is_change(statement) || !gs_ptx_is_global(kernel->module, statement))
        return false;
    return statement->opcode == GS_PTX_TEXTURE || statement->opcode == GS_PTX_BULK_COPY ||
           gs_ptx_may_meet(kernel, read, statement);
}

static bool is_changed_within(const struct spin *spin, const gs_ptx_statement *read) {
    const gs_ptx_flow *flow = &spin->kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; spin->within[b] && i <= flow->blocks.data[b].last; i++)
            if (may_change(spin, read, statement_at(spin->kernel, i)))
                return true;
    return false;
}

/* ---- steady registers ---- */

static bool operand_is_steady(struct spin *spin, const gs_ptx_operand *operand) {
    static const uint8_t clocks[] = {GS_PTX_CLOCK,          GS_PTX_CLOCK_HI,       GS_PTX_CLOCK64, GS_PTX_GLOBALTIMER,
                                     GS_PTX_GLOBALTIMER_LO, GS_PTX_GLOBALTIMER_HI, GS_PTX_PM};
    const gs_ptx_module *module = spin->kernel->module;
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ && !is_steady(spin, operand->value))
        return false;
    for (size_t i = 0; operand->kind == GS_PTX_SPECIAL && i < GS_COUNT(clocks); i++)
        if (operand->value == clocks[i] || operand->value == GS_PTX_NONE)
            return false;
    for (uint32_t i = 0; i < operand->count; i++)
        if (!operand_is_steady(spin, &module->operands.data[operand->children + i]))
            return false;
    return true;
}

static bool operands_are_steady(struct spin *spin, const gs_ptx_statement *statement) {
    for (uint32_t i = 0; i < statement->count; i++)
        if (!operand_is_steady(spin, &spin->kernel->module->operands.data[statement->operands + i]))
            return false;
    return true;
}

/* The result of a call is loaded as a parameter, and so are the kernel's. */
static bool parameters_are_steady(struct spin *spin) {
    const gs_ptx_flow *flow = &spin->kernel->flow;
    bool calls = false;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; spin->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = statement_at(spin->kernel, i);
            bool is_given = statement->opcode == GS_PTX_STORE && gs_ptx_has(spin->kernel->module, statement, "param");
            calls = calls || (statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_CALL);
            if (statement->kind == GS_PTX_INSTRUCTION && is_given && !operands_are_steady(spin, statement))
                return false;
        }
    if (calls && any_called_has(spin->kernel, is_change))
        return false;
    spin->reads = spin->reads || (calls && any_called_has(spin->kernel, is_load));
    return true;
}

/* Whether an instruction leaves shared and local memory as it is when it is repeated. */
static bool keeps_block_memory(struct spin *spin, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = spin->kernel->module;
    if (statement->kind != GS_PTX_INSTRUCTION)
        return true;
    bool is_copy = statement->opcode == GS_PTX_ASYNC_COPY;
    if (statement->opcode == GS_PTX_BULK_COPY || statement->opcode == GS_PTX_MATRIX || statement->opcode == GS_PTX_CALL)
        return false;
    if ((!is_change(statement) && !is_copy) || gs_ptx_has(module, statement, "global") ||
        gs_ptx_has(module, statement, "param"))
        return true;
    spin->reads = spin->reads || is_copy;
    return (statement->opcode != GS_PTX_ATOMIC || gs_ptx_repeats(module, statement)) &&
           operands_are_steady(spin, statement);
}

static bool block_memory_is_steady(struct spin *spin) {
    const gs_ptx_flow *flow = &spin->kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; spin->within[b] && i <= flow->blocks.data[b].last; i++)
            if (!keeps_block_memory(spin, statement_at(spin->kernel, i)))
                return false;
    return true;
}

static bool load_is_steady(struct spin *spin, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = spin->kernel->module;
    if (!operands_are_steady(spin, statement))
        return false;
    if (gs_ptx_has(module, statement, "const"))
        return true;
    if (gs_ptx_has(module, statement, "param"))
        return parameters_are_steady(spin);
    if (!gs_ptx_is_global(module, statement))
        return block_memory_is_steady(spin);
    return spin->reads = !is_changed_within(spin, statement);
}

/* Whether an instruction of the loop gives the same each time. */
static bool is_repeated(struct spin *spin, const gs_ptx_statement *statement) {
    if (statement->guard != GS_PTX_NONE && !is_steady(spin, statement->guard))
        return false;
    switch (statement->opcode) {
    case GS_PTX_COMPUTE:
    case GS_PTX_SHUFFLE:
    case GS_PTX_BARRIER:
        return operands_are_steady(spin, statement);
    case GS_PTX_ATOMIC:
        return gs_ptx_repeats(spin->kernel->module, statement) && load_is_steady(spin, statement);
    case GS_PTX_LOAD:
        return load_is_steady(spin, statement);
    default:
        return false;
    }
}

static bool is_steady(struct spin *spin, uint32_t number) {
    const gs_ptx_kernel *kernel = spin->kernel;
    uint32_t writers = 0;
    if (spin->states[number] != NOT_KNOWN)
        return spin->states[number] == STEADY;
    spin->states[number] = IN_PROGRESS;
    bool steady = true;
    for (uint32_t i = kernel->writer_first[number]; i < kernel->writer_first[number + 1] && steady; i++) {
        if (!spin->within[gs_ptx_flow_block(&kernel->flow, kernel->writers[i])])
            continue;
        steady = ++writers == 1 && is_repeated(spin, statement_at(kernel, kernel->writers[i]));
    }
    spin->states[number] = steady ? STEADY : CHANGING;
    return steady;
}

/* ---- ends ---- */

static bool is_outside(const struct spin *spin, uint32_t block) {
    return block != GS_PTX_NONE && (block >= spin->kernel->flow.blocks.count || !spin->within[block]);
}

static bool is_end(const struct spin *spin, uint32_t number) {
    const gs_ptx_flow *flow = &spin->kernel->flow;
    const gs_ptx_block *block = &flow->blocks.data[number];
    bool leaves = is_outside(spin, block->successors[0]) || is_outside(spin, block->successors[1]);
    for (uint32_t i = 0; i < block->target_count; i++)
        leaves = leaves || is_outside(spin, flow->targets.data[block->targets + i]);
    return leaves;
}

bool gs_ptx_loop_spins(const gs_ptx_kernel *kernel, const bool *within, uint8_t *states) {
    const gs_ptx_flow *flow = &kernel->flow;
    struct spin spin = {.kernel = kernel, .within = within, .states = states};
    memset(states, NOT_KNOWN, kernel->module->functions.data[kernel->function].register_count);
    for (uint32_t b = 0; b < flow->blocks.count; b++) {
        const gs_ptx_statement *last = statement_at(kernel, flow->blocks.data[b].last);
        if (!within[b] || !is_end(&spin, b))
            continue;
        if (flow->blocks.data[b].target_count ? !operands_are_steady(&spin, last)
                                              : last->guard == GS_PTX_NONE || !is_steady(&spin, last->guard))
            return false;
    }
    return spin.reads;
}
