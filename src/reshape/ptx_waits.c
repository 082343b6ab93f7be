/*
 * ptx_waits.c: finds loops that wait for other blocks.
 *
 * A kernel whose blocks wait for each other may need all of them on the GPU at the same time, as a barrier of the whole
 * grid does. A reshaped kernel has fewer worker blocks than the grid has blocks, and would wait for ever. Such a wait
 * is a loop that ends because of a value which it reads again and again from global memory, by a load that the compiler
 * may not move out of it (volatile, relaxed, acquire) or by an atomic operation that changes nothing (an addition of
 * 0). So is a loop that cannot end by itself, whatever it reads with (ptx_spins.c).
 *
 * Loops around other atomic operations are not waits of that kind: an update by compare-and-swap ends when this thread
 * succeeds, and a counter of work gives each reader another number. A lock is held by a block that runs: a loop around
 * an exchange or a compare-and-swap is one if all others that write the word do so behind the loop. Else it waits for a
 * sign of another block.
 *
 * Blocks that wait for blocks with lower numbers only make progress with any number of worker blocks, because blocks
 * are taken in order and a task that was taken is finished. So a wait is accepted if every address that the kernel
 * writes for others is that of a lower block: if the address that is waited for, minus the address that is written, is
 * negative whatever the block and the thread. A caller may also say so (gs_ptx_options.looks_back). A kernel that
 * writes nothing does not wait for its own blocks, but for the host or another kernel.
 */
#include "ptx_linear.h"

#include <stdlib.h>

struct loop {
    const gs_ptx_kernel *kernel;
    bool *within;    /* blocks of the loop */
    bool *wanted;    /* registers on which its end depends */
    bool *reached;   /* blocks behind a statement */
    uint8_t *states; /* of gs_ptx_loop_spins */
    bool has_strong; /* the kernel has loads that are never moved out of a loop */
    bool has_changed;
    bool spins;
    bool wants_stored;  /* and what is stored in shared or local memory */
    bool is_ordered;    /* blocks wait for lower ones */
    bool needs_one_row; /* those that are lower in a grid of one row */
};

static const gs_ptx_statement *statement_at(const gs_ptx_kernel *kernel, uint32_t number) {
    return &kernel->module->statements.data[number];
}

/* ---- the blocks of a loop ---- */

/* All blocks from which `from` can be reached without passing `head`: the loop that the edge from `from` to `head`
   closes. */
static void collect_blocks(struct loop *loop, uint32_t head, uint32_t from) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    bool has_grown = true;
    memset(loop->within, 0, flow->blocks.count);
    loop->within[head] = loop->within[from] = true;
    while (has_grown) {
        has_grown = false;
        for (uint32_t b = (uint32_t)flow->blocks.count; b-- > 0;) {
            const gs_ptx_block *block = &flow->blocks.data[b];
            bool leads_in = false;
            for (int i = 0; i < 2; i++)
                leads_in = leads_in || (block->successors[i] < flow->blocks.count && block->successors[i] != head &&
                                        loop->within[block->successors[i]]);
            for (uint32_t i = 0; i < block->target_count; i++) {
                uint32_t target = flow->targets.data[block->targets + i];
                leads_in = leads_in || (target != head && loop->within[target]);
            }
            if (leads_in && !loop->within[b])
                loop->within[b] = has_grown = true;
        }
    }
}

static bool leaves(const struct loop *loop, uint32_t number) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    const gs_ptx_block *block = &flow->blocks.data[number];
    for (int i = 0; i < 2; i++)
        if (block->successors[i] != GS_PTX_NONE &&
            (block->successors[i] >= flow->blocks.count || !loop->within[block->successors[i]]))
            return true;
    for (uint32_t i = 0; i < block->target_count; i++)
        if (!loop->within[flow->targets.data[block->targets + i]])
            return true;
    return false;
}

/* ---- what its end depends on ---- */

static void want(struct loop *loop, uint32_t number) {
    if (number != GS_PTX_NONE && !loop->wanted[number])
        loop->wanted[number] = loop->has_changed = true;
}

static void want_operand(struct loop *loop, const gs_ptx_operand *operand, uint8_t access) {
    const gs_ptx_module *module = loop->kernel->module;
    if (operand->kind == GS_PTX_REGISTER && operand->access & access)
        want(loop, operand->value);
    for (uint32_t i = 0; i < operand->count; i++)
        want_operand(loop, &module->operands.data[operand->children + i], access);
}

static bool writes_wanted(const struct loop *loop, const gs_ptx_operand *operand) {
    const gs_ptx_module *module = loop->kernel->module;
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE && loop->wanted[operand->value])
        return true;
    for (uint32_t i = 0; i < operand->count; i++)
        if (writes_wanted(loop, &module->operands.data[operand->children + i]))
            return true;
    return false;
}

static bool statement_writes_wanted(const struct loop *loop, const gs_ptx_statement *statement) {
    for (uint32_t i = 0; statement->kind == GS_PTX_INSTRUCTION && i < statement->count; i++)
        if (writes_wanted(loop, &loop->kernel->module->operands.data[statement->operands + i]))
            return true;
    return false;
}

static bool is_in_block_memory(const struct loop *loop, const gs_ptx_statement *statement) {
    static const char *const spaces[] = {"shared", "shared::cta", "local"};
    for (size_t i = 0; i < GS_COUNT(spaces); i++)
        if (gs_ptx_has(loop->kernel->module, statement, spaces[i]))
            return true;
    return false;
}

/* Loads and atomics end the search: what their address depends on is not what is waited for. In a loop that spins, a
   load from shared or local memory does not: what is stored there is searched for, too. */
static void want_inputs(struct loop *loop, const gs_ptx_statement *statement) {
    bool is_access = statement->opcode == GS_PTX_LOAD || statement->opcode == GS_PTX_ATOMIC;
    bool is_stored = (statement->opcode == GS_PTX_STORE || statement->opcode == GS_PTX_ATOMIC) &&
                     statement->kind == GS_PTX_INSTRUCTION && loop->wants_stored && is_in_block_memory(loop, statement);
    if (!statement_writes_wanted(loop, statement) && !is_stored)
        return;
    want(loop, statement->guard);
    if (is_access && loop->spins && !loop->wants_stored && is_in_block_memory(loop, statement))
        loop->wants_stored = loop->has_changed = true;
    if (is_access && !is_stored)
        return;
    for (uint32_t i = 0; i < statement->count; i++)
        want_operand(loop, &loop->kernel->module->operands.data[statement->operands + i], GS_PTX_READ);
}

static void find_wanted(struct loop *loop) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    memset(loop->wanted, 0, loop->kernel->module->functions.data[loop->kernel->function].register_count);
    loop->wants_stored = false;
    for (uint32_t b = 0; b < flow->blocks.count; b++) {
        const gs_ptx_statement *last = statement_at(loop->kernel, flow->blocks.data[b].last);
        if (!loop->within[b] || !leaves(loop, b))
            continue;
        want(loop, last->guard);
        if (flow->blocks.data[b].target_count)
            want_operand(loop, &loop->kernel->module->operands.data[last->operands], GS_PTX_READ);
    }
    do {
        loop->has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++)
            for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++)
                want_inputs(loop, statement_at(loop->kernel, i));
    } while (loop->has_changed);
}

/* ---- waits ---- */

/* The number that leaves every other as it is, for an operation: 0 for `add`, all bits for `and`. */
static bool is_neutral(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, uint64_t number) {
    static const struct {
        const char *operation, *type;
        uint64_t neutral, bits;
    } rows[] = {{"add", "", 0, UINT64_MAX},
                {"or", "", 0, UINT64_MAX},
                {"xor", "", 0, UINT64_MAX},
                {"max", "", 0, UINT64_MAX}, /* of signed numbers, too: nobody waits for a negative one */
                {"max", "s32", INT32_MIN, UINT32_MAX},
                {"max", "s64", 1ull << 63, UINT64_MAX},
                {"min", "u32", UINT32_MAX, UINT32_MAX},
                {"min", "s32", INT32_MAX, UINT32_MAX},
                {"min", "u64", UINT64_MAX, UINT64_MAX},
                {"min", "s64", INT64_MAX, UINT64_MAX},
                {"and", "b32", UINT32_MAX, UINT32_MAX},
                {"and", "b64", UINT64_MAX, UINT64_MAX}};
    for (size_t i = 0; i < GS_COUNT(rows); i++)
        if (gs_ptx_has(kernel->module, statement, rows[i].operation) &&
            (!*rows[i].type || gs_ptx_has(kernel->module, statement, rows[i].type)) &&
            (number & rows[i].bits) == (rows[i].neutral & rows[i].bits))
            return true;
    return false;
}

/* An atomic operation that only reads. */
static bool changes_nothing(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_operand *operands = kernel->module->operands.data + statement->operands;
    bool is_same = statement->count > 3 && operands[2].kind == operands[3].kind &&
                   operands[2].value == operands[3].value && operands[2].bits == operands[3].bits;
    if (gs_ptx_has(kernel->module, statement, "cas"))
        return is_same;
    return statement->count > 2 && operands[2].kind == GS_PTX_INTEGER &&
           is_neutral(kernel, statement, operands[2].bits);
}

static bool reads_anew(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    static const char *const strong[] = {"volatile", "relaxed", "acquire", "mmio", "cv"};
    if (!gs_ptx_is_global(kernel->module, statement))
        return false;
    if (statement->opcode == GS_PTX_ATOMIC)
        return changes_nothing(kernel, statement);
    for (size_t i = 0; i < GS_COUNT(strong) && statement->opcode == GS_PTX_LOAD; i++)
        if (gs_ptx_has(kernel->module, statement, strong[i]))
            return true;
    return false;
}

/* ---- who is waited for ---- */

static bool writes_global(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    bool is_write = statement->opcode == GS_PTX_STORE || statement->opcode == GS_PTX_ATOMIC ||
                    statement->opcode == GS_PTX_TEXTURE || statement->opcode == GS_PTX_CALL ||
                    statement->opcode == GS_PTX_BULK_COPY;
    return statement->kind == GS_PTX_INSTRUCTION && is_write && !gs_ptx_has(kernel->module, statement, "shared") &&
           !gs_ptx_has(kernel->module, statement, "shared::cta") && !gs_ptx_has(kernel->module, statement, "local") &&
           !gs_ptx_has(kernel->module, statement, "param") && !gs_ptx_has(kernel->module, statement, "tex");
}

static bool has_parameter(const gs_linear *sum, uint64_t parameter) {
    for (int i = 0; i < sum->count; i++)
        if (sum->terms[i].symbol == parameter && sum->terms[i].times == 1)
            return true;
    return false;
}

/* Whether `difference` is negative: the number is, and nothing in it is added but what cannot be positive. */
static bool is_negative(const gs_linear *difference) {
    if (!difference->is_known || difference->number >= 0)
        return false;
    for (int i = 0; i < difference->count; i++) {
        bool is_small = difference->terms[i].symbol >> 56 == GS_LINEAR_NOT_NEGATIVE && difference->terms[i].times <= 0;
        if (difference->terms[i].times && !is_small)
            return false;
    }
    return true;
}

static int64_t times_of_block(const gs_linear *sum, char part) {
    int64_t times = 0;
    for (int i = 0; i < sum->count; i++)
        if (sum->terms[i].symbol >> 56 == GS_LINEAR_BLOCK && (char)sum->terms[i].symbol == part)
            times += sum->terms[i].times;
    return times;
}

/* Whether blocks are numbered column by column. In a grid of one row that is the order in which they are taken. */
static bool is_by_columns(const gs_linear *sum) {
    return times_of_block(sum, GS_LINEAR_COLUMN) && !times_of_block(sum, 'x') && !times_of_block(sum, 'z') &&
           times_of_block(sum, 'y') == times_of_block(sum, GS_LINEAR_COLUMN);
}

/* The number by which the address grows from block to block; 0: not known. */
static int64_t block_stride(const gs_linear *sum) {
    if (is_by_columns(sum))
        return times_of_block(sum, GS_LINEAR_COLUMN);
    bool is_by_rows = !times_of_block(sum, 'y') && !times_of_block(sum, 'z') && !times_of_block(sum, GS_LINEAR_COLUMN);
    return is_by_rows ? times_of_block(sum, 'x') : 0;
}

/* What is 0 wherever a block runs, because a branch in front of it tests that; unknown: nothing is. */
static gs_linear zero_at(const gs_ptx_kernel *kernel, const gs_ptx_dependence *dependence) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_block *block = &kernel->flow.blocks.data[dependence->branch];
    const gs_ptx_statement *branch = statement_at(kernel, block->last);
    const gs_ptx_statement *test = branch->guard == GS_PTX_NONE ? NULL : gs_ptx_only_writer(kernel, branch->guard);
    gs_linear none = {.is_known = false};
    if (!test || test->guard != GS_PTX_NONE || test->count != 3 || block->target_count)
        return none;
    const gs_ptx_operand *operands = module->operands.data + test->operands;
    bool is_equal = gs_ptx_has(module, test, "eq"), is_other = gs_ptx_has(module, test, "ne");
    bool holds = (dependence->edge == block->successors[0]) != branch->guard_is_negated;
    if (!(is_equal || is_other) || is_equal != holds || operands[0].kind != GS_PTX_REGISTER ||
        operands[1].kind != GS_PTX_REGISTER || operands[2].kind != GS_PTX_INTEGER || operands[2].bits)
        return none;
    return gs_linear_register(kernel, operands[1].value);
}

/* Whether what is awaited is lower than what is written. Where a block writes only if some sum is 0, as the first block
   of a grid does, that sum may be added. */
static bool is_lower(const gs_ptx_kernel *kernel, const gs_ptx_statement *store, const gs_linear *awaited,
                     const gs_linear *written) {
    enum { DEEPEST = 16 };
    const gs_ptx_flow *flow = &kernel->flow;
    uint32_t block = gs_ptx_flow_block(flow, (uint32_t)(store - kernel->module->statements.data));
    int64_t stride = block_stride(awaited);
    gs_linear difference = gs_linear_add(*awaited, written, -1);
    if (block_stride(written) == stride && is_negative(&difference))
        return true;
    for (int depth = 0; depth < DEEPEST && flow->dependence_first[block] + 1 == flow->dependence_first[block + 1];
         depth++) {
        const gs_ptx_dependence *only = &flow->dependences.data[flow->dependence_first[block]];
        gs_linear zero = zero_at(kernel, only);
        gs_linear moved = gs_linear_add(*written, &zero, stride);
        difference = gs_linear_add(*awaited, &moved, -1);
        if (block_stride(&moved) == stride && is_negative(&difference))
            return true;
        block = only->branch;
    }
    return false;
}

/* Whether a store can be what is waited for, and by a block that is not lower. Stores to other parameters are not. */
static bool store_is_lower(const gs_ptx_kernel *kernel, const gs_ptx_statement *store, const gs_linear *awaited) {
    const gs_ptx_operand *operands = kernel->module->operands.data + store->operands;
    uint32_t at = store->count > 1 && operands[0].kind != GS_PTX_ADDRESS ? 1 : 0;
    if (store->opcode != GS_PTX_STORE && store->opcode != GS_PTX_ATOMIC)
        return false;
    gs_linear written = gs_linear_address(kernel, &operands[at]);
    for (int i = 0; i < awaited->count; i++) {
        uint64_t symbol = awaited->terms[i].symbol;
        if (symbol >> 56 != GS_LINEAR_PARAMETER || awaited->terms[i].times != 1)
            continue;
        if (written.is_known ? has_parameter(&written, symbol) : gs_linear_may_contain(kernel, &operands[at], symbol))
            return written.is_known && is_lower(kernel, store, awaited, &written);
    }
    return true;
}

/* Whether what is read again and again is written by lower blocks only, or by none. */
static bool waits_for_lower(const gs_ptx_kernel *kernel, const gs_ptx_statement *load, bool *needs_one_row) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    const gs_ptx_operand *operands = module->operands.data + load->operands;
    gs_linear awaited = load->count > 1 ? gs_linear_address(kernel, &operands[1]) : (gs_linear){.is_known = false};
    bool writes_any = false, all_lower = awaited.is_known;
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = statement_at(kernel, function->statements + i);
        if (!writes_global(kernel, statement))
            continue;
        writes_any = true;
        all_lower = all_lower && store_is_lower(kernel, statement, &awaited);
    }
    *needs_one_row = *needs_one_row || (writes_any && is_by_columns(&awaited));
    return !writes_any || (all_lower && block_stride(&awaited) > 0);
}

/* Whether an atomic operation in a loop takes a lock: all others that write the word do so behind the loop, where the
   lock is held. */
static bool takes_lock(const struct loop *loop, const gs_ptx_statement *spin) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    uint32_t number = (uint32_t)(spin - kernel->module->statements.data);
    if (spin->opcode != GS_PTX_ATOMIC || changes_nothing(kernel, spin) ||
        !gs_ptx_flow_reach(&kernel->flow, gs_ptx_flow_block(&kernel->flow, number), loop->reached))
        return false;
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = statement_at(kernel, function->statements + i);
        bool is_store = statement->opcode == GS_PTX_STORE || statement->opcode == GS_PTX_ATOMIC;
        if (statement->kind == GS_PTX_INSTRUCTION && is_store && gs_ptx_is_global(kernel->module, statement) &&
            !loop->reached[gs_ptx_flow_block(&kernel->flow, function->statements + i)] &&
            gs_ptx_may_meet(kernel, spin, statement))
            return false;
    }
    return true;
}

/* Whether a statement of a loop reads what others write, and the loop waits for that. */
static bool is_awaited(const struct loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = loop->kernel->module;
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    if (loop->spins && (statement->opcode == GS_PTX_CALL || statement->opcode == GS_PTX_ASYNC_COPY))
        return true;
    if (!statement_writes_wanted(loop, statement))
        return false;
    bool is_read = statement->opcode == GS_PTX_LOAD || gs_ptx_repeats(module, statement);
    return reads_anew(loop->kernel, statement) || (loop->spins && is_read && gs_ptx_is_global(module, statement));
}

static gs_code check_loop(struct loop *loop, uint32_t head, uint32_t from, gs_error *error) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    collect_blocks(loop, head, from);
    loop->spins = gs_ptx_loop_spins(loop->kernel, loop->within, loop->states);
    if (!loop->spins && !loop->has_strong)
        return GS_OK;
    find_wanted(loop);
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = statement_at(loop->kernel, i);
            if (!is_awaited(loop, statement) || takes_lock(loop, statement))
                continue;
            loop->is_ordered = true;
            if (!waits_for_lower(loop->kernel, statement, &loop->needs_one_row))
                return gs_ptx_refuse(loop->kernel, statement, error,
                                     "it waits in a loop for memory that another block may write");
        }
    return GS_OK;
}

/* A load of a function that could be waited for, or NULL; most have none. */
static const gs_ptx_statement *find_read_anew(const gs_ptx_kernel *kernel, uint32_t number) {
    const gs_ptx_function *function = &kernel->module->functions.data[number];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = statement_at(kernel, function->statements + i);
        if (statement->kind == GS_PTX_INSTRUCTION && reads_anew(kernel, statement))
            return statement;
    }
    return NULL;
}

/* In functions no proof is tried: who calls one may wait for its result. */
static gs_code check_called(const gs_ptx_kernel *kernel, gs_error *error) {
    for (uint32_t i = 0; i < kernel->module->functions.count; i++) {
        const gs_ptx_statement *load = kernel->is_called[i] ? find_read_anew(kernel, i) : NULL;
        if (load)
            return gs_ptx_refuse(kernel, load, error,
                                 "it calls a function that may wait for memory that another block writes");
    }
    return GS_OK;
}

static gs_code check_loops(struct loop *loop, gs_error *error) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    gs_code code = GS_OK;
    for (uint32_t b = 0; b < flow->blocks.count && code == GS_OK; b++) {
        const gs_ptx_block *block = &flow->blocks.data[b];
        for (int i = 0; i < 2 && code == GS_OK; i++)
            if (block->successors[i] <= b) /* backward in the text: every loop has such an edge */
                code = check_loop(loop, block->successors[i], b, error);
        for (uint32_t i = 0; i < block->target_count && code == GS_OK; i++)
            if (flow->targets.data[block->targets + i] <= b)
                code = check_loop(loop, flow->targets.data[block->targets + i], b, error);
    }
    return code;
}

gs_code gs_ptx_check_waits(gs_ptx_kernel *kernel, gs_error *error) {
    uint32_t registers = kernel->module->functions.data[kernel->function].register_count + 1;
    size_t blocks = kernel->flow.blocks.count + 1;
    gs_code code = check_called(kernel, error);
    if (code != GS_OK)
        return code;
    struct loop loop = {.kernel = kernel,
                        .within = calloc(blocks, sizeof(bool)),
                        .wanted = calloc(registers, sizeof(bool)),
                        .reached = calloc(blocks, sizeof(bool)),
                        .states = calloc(registers, 1),
                        .has_strong = find_read_anew(kernel, kernel->function)};
    bool has_all = loop.within && loop.wanted && loop.reached && loop.states;
    code = has_all ? check_loops(&loop, error) : gs_fail_memory(error);
    kernel->loop.is_ordered = loop.is_ordered || loop.has_strong;
    kernel->loop.needs_one_row = loop.needs_one_row;
    free(loop.within);
    free(loop.wanted);
    free(loop.reached);
    free(loop.states);
    return code;
}
