/*
 * ptx_waits.c: finds loops that wait for other blocks.
 *
 * A kernel whose blocks wait for each other may need all of them on the GPU at the same time, as a barrier of the whole
 * grid does. A reshaped kernel has fewer worker blocks than the grid has blocks, and would wait forever. A wait is a
 * loop whose end depends on
 *
 *   a word of global memory that is read again in each iteration: by a load that the compiler may not move out of the
 *   loop
 *   (volatile, relaxed, acquire), or by an atomic operation that changes nothing (an addition of 0);
 *   the result of another atomic operation, unless that lets the loop end without others, or the loop has a limit, or
 *   takes a lock (ptx_atomics.c);
 *   any load, if the loop cannot end by itself (ptx_spins.c).
 *
 * Values that an end depends on are called wanted: registers, values in shared memory, parameters and results of
 * functions, and the conditions of branches that decide whether these are written.
 *
 * Blocks that wait only for blocks with lower numbers make progress with any number of worker blocks, because blocks
 * are taken in order and a task that was taken is finished. So a wait is accepted if every address that the kernel
 * writes for others is that of a lower block: if the awaited address minus the written address is negative for every
 * block and thread. A caller may also assert this (gs_ptx_options.looks_back). If the kernel does not write the word,
 * it does not wait for its own blocks, but for the host or another kernel.
 */
#include "ptx_waits.h"

#include <string.h>

struct search {
    gs_ptx_loop loop;
    bool in_function; /* in a function that the kernel calls, not in the kernel itself */
    bool has_strong;  /* has loads that are never moved out of a loop */
    bool has_atomics; /* has atomic operations with a result */
    bool has_changed;
    bool spins;         /* the loop cannot end by itself */
    bool has_limit;     /* the loop has an end that it reaches without others */
    bool wants_stored;  /* values in shared or local memory are wanted */
    bool wants_results; /* results of calls are wanted */
    bool is_ordered;    /* blocks wait for lower ones */
    bool needs_one_row; /* they are lower only in a grid of one row */
    uint32_t proofs;    /* how many atomic operations were examined */
};

/* A kernel with more atomic operations that decide the ends of loops is refused: each takes time. */
enum { MOST_PROOFS = 200 };

static const gs_ptx_statement *statement_at(const gs_ptx_kernel *kernel, uint32_t number) {
    return &kernel->module->statements.data[number];
}

/* ---- wanted values ---- */

static void want_register(struct search *search, uint32_t number) {
    if (number != GS_PTX_NONE && !search->loop.wanted[number])
        search->loop.wanted[number] = search->has_changed = true;
}

static void want_operand(struct search *search, const gs_ptx_operand *operand) {
    const gs_ptx_module *module = search->loop.kernel->module;
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ)
        want_register(search, operand->value);
    for (uint32_t i = 0; i < operand->count; i++)
        want_operand(search, &module->operands.data[operand->children + i]);
}

static bool writes_wanted(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    return gs_ptx_touches(loop->kernel, statement, GS_PTX_WRITE, loop->wanted);
}

/* Whether an access may be to shared or local memory. */
static bool is_in_block_memory(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    return !gs_ptx_has(kernel->module, statement, "global param const");
}

/* Adds the values that the branch at the end of a block depends on. */
static void want_condition(struct search *search, uint32_t number) {
    const gs_ptx_kernel *kernel = search->loop.kernel;
    const gs_ptx_block *block = &kernel->flow.blocks.data[number];
    const gs_ptx_statement *last = statement_at(kernel, block->last);
    want_register(search, last->guard);
    if (block->target_count)
        want_operand(search, &kernel->module->operands.data[last->operands]);
}

/* Adds the branches of the loop that decide about a block. `reached` has those that were added. */
static void want_branches(struct search *search, uint32_t block) {
    const gs_ptx_loop *loop = &search->loop;
    for (uint32_t i = loop->decision_first[block]; i < loop->decision_first[block + 1]; i++) {
        uint32_t branch = loop->decisions.data[i];
        if (loop->reached[branch])
            continue;
        loop->reached[branch] = true;
        want_condition(search, branch);
    }
}

/* Loads and atomics of global memory end the search: the values that their address depends on are not awaited. */
static void want_inputs(struct search *search, const gs_ptx_statement *statement, uint32_t block) {
    const gs_ptx_kernel *kernel = search->loop.kernel;
    bool is_access = statement->opcode == GS_PTX_LOAD || statement->opcode == GS_PTX_ATOMIC;
    bool is_store = statement->opcode == GS_PTX_STORE || statement->opcode == GS_PTX_ATOMIC;
    bool is_here = is_in_block_memory(kernel, statement);
    bool is_given = search->wants_results && is_store && gs_ptx_has(kernel->module, statement, "param");
    bool is_stored = is_given || (search->wants_stored && is_store && is_here);
    bool is_result = writes_wanted(&search->loop, statement);
    if (!is_result && !is_stored)
        return;
    want_register(search, statement->guard);
    want_branches(search, block);
    bool *wants_more = is_here ? &search->wants_stored : &search->wants_results;
    if (is_result && is_access && (is_here || gs_ptx_has(kernel->module, statement, "param")) && !*wants_more)
        *wants_more = search->has_changed = true;
    if (is_access && !is_stored)
        return;
    for (uint32_t i = 0; i < statement->count; i++)
        want_operand(search, &kernel->module->operands.data[statement->operands + i]);
}

static void forget_wanted(struct search *search) {
    const gs_ptx_kernel *kernel = search->loop.kernel;
    memset(search->loop.wanted, 0, kernel->module->functions.data[kernel->function].register_count);
    memset(search->loop.reached, 0, kernel->flow.blocks.count);
    search->wants_stored = search->wants_results = false;
}

/* Adds everything that wanted values depend on. */
static void complete_wanted(struct search *search) {
    const gs_ptx_loop *loop = &search->loop;
    const gs_ptx_flow *flow = &loop->kernel->flow;
    do {
        search->has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++)
            for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++)
                if (statement_at(loop->kernel, i)->kind == GS_PTX_INSTRUCTION)
                    want_inputs(search, statement_at(loop->kernel, i), b);
    } while (search->has_changed);
}

static void want_ends(struct search *search) {
    forget_wanted(search);
    for (uint32_t b = 0; b < search->loop.kernel->flow.blocks.count; b++)
        if (search->loop.within[b] && gs_ptx_loop_ends_at(&search->loop, b)) {
            want_condition(search, b);
            want_branches(search, b);
        }
    complete_wanted(search);
}

/* ---- waits ---- */

static bool reads_anew(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    static const char *const strong[] = {"volatile", "relaxed", "acquire", "mmio", "cv"};
    if (statement->kind != GS_PTX_INSTRUCTION || !gs_ptx_is_global(kernel->module, statement))
        return false;
    if (statement->opcode == GS_PTX_ATOMIC)
        return gs_ptx_only_reads(kernel, statement);
    for (size_t i = 0; i < GS_COUNT(strong) && statement->opcode == GS_PTX_LOAD; i++)
        if (gs_ptx_has(kernel->module, statement, strong[i]))
            return true;
    return false;
}

/* Whether it is an atomic operation that returns a value of global memory. */
static bool is_atomic(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_ATOMIC && statement->count > 2 &&
           gs_ptx_is_global(kernel->module, statement);
}

/* ---- the blocks that are waited for ---- */

static bool has_parameter(const gs_linear *sum, uint64_t parameter) {
    for (int i = 0; i < sum->count; i++)
        if (sum->terms[i].symbol == parameter && sum->terms[i].times == 1)
            return true;
    return false;
}

/* Whether `difference` is negative: the constant is, and all other terms cannot be positive. */
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

/* The sum that is 0 whenever a block runs, because a branch before the block tests it; unknown: none. */
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

/* Whether the awaited address is lower than the written one. If a block writes only if some sum is 0, as the first
   block of a grid does, that sum may be added. */
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

/* Whether a store can be the awaited one, by a block that is not lower. Stores to other parameters cannot. */
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

/* Whether the word that is polled is written by lower blocks only, or by no block. */
static bool waits_for_lower(const gs_ptx_kernel *kernel, const gs_ptx_statement *load, bool *needs_one_row) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    const gs_ptx_operand *operands = module->operands.data + load->operands;
    gs_linear awaited = load->count > 1 ? gs_linear_address(kernel, &operands[1]) : (gs_linear){.is_known = false};
    bool writes_any = false, all_lower = awaited.is_known, has_address = load->opcode != GS_PTX_CALL;
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = statement_at(kernel, function->statements + i);
        bool is_store = statement->opcode == GS_PTX_STORE || statement->opcode == GS_PTX_ATOMIC;
        if (!gs_ptx_may_write(kernel, statement) ||
            (is_store && has_address && !gs_ptx_may_meet(kernel, load, statement)))
            continue;
        writes_any = true;
        all_lower = all_lower && store_is_lower(kernel, statement, &awaited);
    }
    *needs_one_row = *needs_one_row || (writes_any && is_by_columns(&awaited));
    return !writes_any || (all_lower && block_stride(&awaited) > 0);
}

/* Whether a statement of a loop reads a word that others write, and the loop waits for it. */
static bool is_awaited(struct search *search, const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = search->loop.kernel;
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    if (statement->opcode == GS_PTX_CALL)
        return search->spins ||
               ((search->wants_results || search->wants_stored) && !search->has_limit && gs_ptx_calls_atomics(kernel));
    if (search->spins && statement->opcode == GS_PTX_ASYNC_COPY)
        return true;
    if (!writes_wanted(&search->loop, statement))
        return false;
    if (reads_anew(kernel, statement))
        return true;
    if (is_atomic(kernel, statement))
        return !search->has_limit &&
               (++search->proofs > MOST_PROOFS || !gs_ptx_makes_progress(&search->loop, statement));
    return search->spins && statement->opcode == GS_PTX_LOAD && gs_ptx_is_global(kernel->module, statement);
}

/* Whether wanted values depend on an atomic operation, a word that is read again, or a call. */
static bool wants_others(const struct search *search) {
    const gs_ptx_loop *loop = &search->loop;
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = statement_at(loop->kernel, i);
            bool is_strong = is_atomic(loop->kernel, statement) || reads_anew(loop->kernel, statement);
            bool is_call = statement->kind == GS_PTX_INSTRUCTION && statement->opcode == GS_PTX_CALL;
            if ((is_call && (search->wants_results || search->wants_stored)) ||
                (is_strong && writes_wanted(loop, statement)))
                return true;
        }
    return false;
}

/* Whether a predicate gets this value without others, as with a counter of iterations: by itself, or by a part of
   it. */
static bool is_limit(struct search *search, uint32_t number, bool value, int depth) {
    enum { DEEPEST = 8 };
    const gs_ptx_kernel *kernel = search->loop.kernel;
    const gs_ptx_statement *writer = gs_ptx_only_writer(kernel, number);
    if (search->loop.states[number] != GS_PTX_CHANGING || depth == DEEPEST)
        return false;
    bool is_pair = writer && writer->guard == GS_PTX_NONE && gs_ptx_has(kernel->module, writer, "pred") &&
                   gs_ptx_begins(kernel, writer, value ? "or" : "and");
    for (uint32_t i = 1; is_pair && i < writer->count; i++) {
        const gs_ptx_operand *operand = &kernel->module->operands.data[writer->operands + i];
        if (operand->kind == GS_PTX_REGISTER &&
            is_limit(search, operand->value, value != operand->is_negated, depth + 1))
            return true;
    }
    forget_wanted(search);
    want_register(search, number);
    complete_wanted(search);
    return !wants_others(search);
}

/* Whether the loop has an end that it reaches without others. */
static bool has_limit(struct search *search) {
    const gs_ptx_loop *loop = &search->loop;
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++) {
        const gs_ptx_statement *branch = statement_at(loop->kernel, flow->blocks.data[b].last);
        if (!loop->within[b] || !gs_ptx_loop_ends_at(loop, b) || flow->blocks.data[b].target_count ||
            branch->guard == GS_PTX_NONE)
            continue;
        uint32_t next = flow->blocks.data[b].successors[0];
        bool leaves_by_branch = next >= flow->blocks.count || !loop->within[next];
        if (is_limit(search, branch->guard, leaves_by_branch != branch->guard_is_negated, 0))
            return true;
    }
    return false;
}

static gs_code refuse_wait(const struct search *search, const gs_ptx_statement *statement, gs_error *error) {
    return search->in_function ? gs_ptx_refuse(search->loop.kernel, statement, error,
                                               "it calls a function that may wait for memory that another block writes")
                               : gs_ptx_refuse(search->loop.kernel, statement, error,
                                               "it waits in a loop for memory that another block may write");
}

/* Whether a loop may read global memory. Other loops need no further check. */
static bool reads_global(const gs_ptx_loop *loop) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = statement_at(loop->kernel, i);
            bool is_access = statement->opcode == GS_PTX_LOAD || statement->opcode == GS_PTX_ATOMIC;
            if (statement->kind == GS_PTX_INSTRUCTION &&
                (statement->opcode == GS_PTX_CALL || statement->opcode == GS_PTX_ASYNC_COPY ||
                 (is_access && gs_ptx_is_global(loop->kernel->module, statement))))
                return true;
        }
    return false;
}

/* In functions no proof of locks and lower blocks is tried. */
static gs_code check_loop(struct search *search, uint32_t head, uint32_t from, gs_error *error) {
    const gs_ptx_loop *loop = &search->loop;
    const gs_ptx_flow *flow = &loop->kernel->flow;
    if (!gs_ptx_loop_collect(&search->loop, head, from) || !reads_global(loop))
        return GS_OK;
    gs_code code = gs_ptx_loop_decide(&search->loop, error);
    if (code != GS_OK)
        return code;
    search->spins = gs_ptx_loop_spins(&search->loop);
    if (!search->spins && !search->has_strong && !search->has_atomics)
        return GS_OK;
    search->has_limit = search->has_atomics && has_limit(search);
    want_ends(search);
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = statement_at(loop->kernel, i);
            if (!is_awaited(search, statement))
                continue;
            if (search->in_function)
                return refuse_wait(search, statement, error);
            if (search->proofs <= MOST_PROOFS && gs_ptx_takes_lock(loop, statement))
                continue;
            search->is_ordered = true;
            if (!waits_for_lower(loop->kernel, statement, &search->needs_one_row))
                return refuse_wait(search, statement, error);
        }
    return GS_OK;
}

/* In a function a word that is read again is refused even without a loop: the caller may wait for its result. */
static gs_code check_called(const struct search *search, gs_error *error) {
    const gs_ptx_kernel *kernel = search->loop.kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    for (uint32_t i = 0; i < function->statement_count; i++)
        if (reads_anew(kernel, statement_at(kernel, function->statements + i)))
            return refuse_wait(search, statement_at(kernel, function->statements + i), error);
    return GS_OK;
}

static gs_code check_loops(struct search *search, gs_error *error) {
    const gs_ptx_flow *flow = &search->loop.kernel->flow;
    gs_code code = GS_OK;
    for (uint32_t b = 0; b < flow->blocks.count && code == GS_OK; b++) {
        const gs_ptx_block *block = &flow->blocks.data[b];
        for (uint32_t i = 0; i < 2 + block->target_count && code == GS_OK; i++) {
            uint32_t next = i < 2 ? block->successors[i] : flow->targets.data[block->targets + i - 2];
            if (next <= b) /* backward in the text: every loop has such an edge */
                code = check_loop(search, next, b, error);
        }
    }
    return code;
}

static void look_at_statements(struct search *search) {
    const gs_ptx_kernel *kernel = search->loop.kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = statement_at(kernel, function->statements + i);
        search->has_strong = search->has_strong || reads_anew(kernel, statement);
        search->has_atomics = search->has_atomics || is_atomic(kernel, statement);
    }
    search->has_atomics = search->has_atomics || gs_ptx_calls_atomics(kernel);
}

gs_code gs_ptx_check_waits(gs_ptx_kernel *kernel, bool in_function, gs_error *error) {
    struct search search = {.in_function = in_function};
    gs_code code = gs_ptx_loop_init(&search.loop, kernel, error);
    if (code == GS_OK)
        look_at_statements(&search);
    if (code == GS_OK && in_function)
        code = check_called(&search, error);
    if (code == GS_OK)
        code = check_loops(&search, error);
    kernel->loop.is_ordered = search.is_ordered || search.has_strong;
    kernel->loop.needs_one_row = search.needs_one_row;
    gs_ptx_loop_free(&search.loop);
    return code;
}
