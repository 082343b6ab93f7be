/*
 * ptx_atomics.c: whether a loop that depends on an atomic operation waits for other blocks.
 *
 * A loop that ends because of what an atomic operation returns may wait for another block. It does not in three cases.
 *
 * A counter: `while ((i = atomicAdd(next, 1)) < n)`. Each iteration adds to the word, and nothing in the loop subtracts
 * from it, so the loop ends by itself. The end must compare the number: a mask could test a bit that is never set.
 *
 * An update: `do old = atomicCAS(p, seen = old, f(seen)); while (old != seen);`. It expects the value that it has seen
 * in the same word, so it fails only if another thread has written in between, and the loop ends when it succeeds.
 *
 * A lock: `while (atomicCAS(lock, 0, 1) != 0);`. All threads that write the word have passed the loop, so the thread
 * that holds the lock has begun. Waiting threads write, too: such a write must have no effect if this thread has done
 * the same, or must end their loop. "Have passed" means that the loop dominates the write, or that a barrier between
 * the two does, and that the threads that do not take the lock differ from the others by their number in the block.
 */
#include "ptx_waits.h"

#include <string.h>

enum { DEEPEST = 8, MOST_APART = 32 };

static uint32_t block_of(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    return gs_ptx_flow_block(&kernel->flow, (uint32_t)(statement - kernel->module->statements.data));
}

static const gs_ptx_operand *operand_of(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement,
                                        uint32_t index) {
    return index < statement->count ? &kernel->module->operands.data[statement->operands + index] : NULL;
}

/* The number of an operand: a constant, or a register with a constant value. */
static bool is_number(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand, uint64_t *number) {
    gs_linear value = {.is_known = false};
    if (operand && operand->kind == GS_PTX_REGISTER)
        value = gs_linear_register(kernel, operand->value);
    if (operand && operand->kind == GS_PTX_INTEGER)
        value = (gs_linear){.is_known = true, .number = (int64_t)operand->bits};
    *number = (uint64_t)value.number;
    return value.is_known && !value.is_bound && !value.count;
}

/* ---- operations that change nothing ---- */

/* The neutral element of an operation: 0 for `add`, all bits for `and`. */
static bool is_neutral(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, uint64_t number) {
    static const struct {
        const char *operation, *type;
        uint64_t neutral, bits;
    } rows[] = {{"add", "", 0, UINT32_MAX},
                {"or", "", 0, UINT32_MAX},
                {"xor", "", 0, UINT32_MAX},
                {"max", "u32", 0, UINT32_MAX},
                {"max", "u64", 0, UINT64_MAX},
                {"max", "s32", (uint32_t)INT32_MIN, UINT32_MAX},
                {"max", "s64", 1ull << 63, UINT64_MAX},
                {"min", "u32", UINT32_MAX, UINT32_MAX},
                {"min", "s32", INT32_MAX, UINT32_MAX},
                {"min", "u64", UINT64_MAX, UINT64_MAX},
                {"min", "s64", INT64_MAX, UINT64_MAX},
                {"and", "b32", UINT32_MAX, UINT32_MAX},
                {"and", "b64", UINT64_MAX, UINT64_MAX}};
    bool is_wide = gs_ptx_has(kernel->module, statement, "u64") || gs_ptx_has(kernel->module, statement, "s64") ||
                   gs_ptx_has(kernel->module, statement, "b64");
    for (size_t i = 0; i < GS_COUNT(rows); i++)
        if (gs_ptx_has(kernel->module, statement, rows[i].operation) &&
            (!*rows[i].type || gs_ptx_has(kernel->module, statement, rows[i].type)) &&
            ((number ^ rows[i].neutral) & (is_wide ? UINT64_MAX : rows[i].bits)) == 0)
            return true;
    return false;
}

bool gs_ptx_only_reads(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_operand *value = operand_of(kernel, statement, 2), *other = operand_of(kernel, statement, 3);
    uint64_t number, other_number;
    if (!value)
        return false;
    if (!gs_ptx_has(kernel->module, statement, "cas"))
        return is_number(kernel, value, &number) && is_neutral(kernel, statement, number);
    if (!other)
        return false;
    bool is_same = value->kind == other->kind && value->value == other->value && value->bits == other->bits;
    return is_same ||
           (is_number(kernel, value, &number) && is_number(kernel, other, &other_number) && number == other_number);
}

static bool writes_global(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    return gs_ptx_may_write(kernel, statement) &&
           !(statement->opcode == GS_PTX_ATOMIC && gs_ptx_only_reads(kernel, statement));
}

/* ---- copies ---- */

static bool is_copy(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_COMPUTE && statement->count == 2 &&
           operand_of(kernel, statement, 1)->kind == GS_PTX_REGISTER &&
           gs_ptx_begins(kernel, statement, "mov cvt cvta") &&
           !(gs_ptx_begins(kernel, statement, "cvt") && gs_ptx_has(kernel->module, statement, "f16 f32 f64 bf16 sat"));
}

/* The register that another one is a copy of, through any number of copies. */
static uint32_t original_of(const gs_ptx_kernel *kernel, uint32_t number) {
    for (int i = 0; i < DEEPEST; i++) {
        const gs_ptx_statement *writer = gs_ptx_only_writer(kernel, number);
        if (!writer || writer->guard != GS_PTX_NONE || !is_copy(kernel, writer))
            break;
        number = operand_of(kernel, writer, 1)->value;
    }
    return number;
}

/* Whether two registers are computed in the same way from the same ones. */
static bool is_same_sum(const gs_ptx_kernel *kernel, uint32_t one, uint32_t other, int depth) {
    one = original_of(kernel, one);
    other = original_of(kernel, other);
    const gs_ptx_statement *first = gs_ptx_only_writer(kernel, one), *second = gs_ptx_only_writer(kernel, other);
    if (one == other || !first || !second || depth == DEEPEST)
        return one == other;
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_token *word = &module->tokens.data[first->word], *other_word = &module->tokens.data[second->word];
    bool is_same = first->opcode == GS_PTX_COMPUTE && first->guard == GS_PTX_NONE && second->guard == GS_PTX_NONE &&
                   first->count == second->count && word->length == other_word->length &&
                   memcmp(module->text + word->at, module->text + other_word->at, word->length) == 0;
    for (uint32_t i = 1; i < first->count && is_same; i++) {
        const gs_ptx_operand *here = operand_of(kernel, first, i), *there = operand_of(kernel, second, i);
        is_same = here->kind == there->kind && here->bits == there->bits && here->part == there->part &&
                  (here->kind == GS_PTX_REGISTER  ? is_same_sum(kernel, here->value, there->value, depth + 1)
                   : here->kind == GS_PTX_SPECIAL ? here->value == there->value
                                                  : here->kind == GS_PTX_INTEGER);
    }
    return is_same;
}

static bool is_same_address(const gs_ptx_kernel *kernel, const gs_ptx_operand *one, const gs_ptx_operand *other) {
    const gs_ptx_operand *operands = kernel->module->operands.data;
    if (one->kind != GS_PTX_ADDRESS || other->kind != GS_PTX_ADDRESS || one->count != 1 || other->count != 1)
        return false;
    const gs_ptx_operand *first = &operands[one->children], *second = &operands[other->children];
    if (first->kind == GS_PTX_REGISTER && second->kind == GS_PTX_REGISTER && first->bits == second->bits &&
        is_same_sum(kernel, first->value, second->value, 0))
        return true;
    if (first->kind == GS_PTX_SYMBOL && second->kind == GS_PTX_SYMBOL)
        return first->value == second->value && first->bits == second->bits;
    gs_linear here = gs_linear_address(kernel, one), there = gs_linear_address(kernel, other);
    gs_linear difference = gs_linear_add(here, &there, -1);
    bool is_none = difference.is_known && !difference.is_bound && !difference.number;
    for (int i = 0; i < difference.count; i++)
        is_none = is_none && !difference.terms[i].times;
    return is_none;
}

/* ---- counters ---- */

/* Whether two additions go in the same direction. */
static bool goes_on(const gs_ptx_kernel *kernel, const gs_ptx_statement *counter, const gs_ptx_statement *other) {
    uint64_t number, other_number;
    return gs_ptx_has(kernel->module, counter, "add") && other->opcode == GS_PTX_ATOMIC &&
           gs_ptx_has(kernel->module, other, "add") && is_number(kernel, operand_of(kernel, counter, 2), &number) &&
           is_number(kernel, operand_of(kernel, other, other->count - 1), &other_number) &&
           ((int32_t)number < 0) == ((int32_t)other_number < 0);
}

/* Whether a statement may write the word of a counter. A plain store to an unknown address is assumed to go elsewhere:
   on a word that others access atomically it would be a data race. */
static bool takes_back(const gs_ptx_kernel *kernel, const gs_ptx_statement *counter,
                       const gs_ptx_statement *statement) {
    if (statement == counter || !writes_global(kernel, statement) || goes_on(kernel, counter, statement))
        return false;
    if (statement->opcode == GS_PTX_CALL)
        return gs_ptx_calls_atomics(kernel);
    if (statement->opcode == GS_PTX_STORE && !gs_ptx_has(kernel->module, statement, "volatile relaxed release mmio") &&
        !gs_linear_address(kernel, operand_of(kernel, statement, 0)).is_known)
        return false;
    return gs_ptx_may_meet(kernel, counter, statement);
}

static bool is_taken_back(const gs_ptx_loop *loop, const gs_ptx_statement *counter) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++)
            if (takes_back(loop->kernel, counter, gs_ptx_statement_at(loop->kernel, i)))
                return true;
    return false;
}

/* Whether an instruction keeps the order of numbers, or compares them. `step_is_one`: a comparison for equality is
   accepted, too. */
static bool compares_number(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, bool step_is_one) {
    static const char words[] = "mov cvt add sub mul mad shl shr div min max selp setp neg";
    if (statement->opcode != GS_PTX_COMPUTE)
        return true; /* loads, shuffles and votes */
    if (gs_ptx_begins(kernel, statement, "and or not xor"))
        return gs_ptx_has(kernel->module, statement, "pred");
    return gs_ptx_begins(kernel, statement, words) && (step_is_one || !gs_ptx_begins(kernel, statement, "setp") ||
                                                       !gs_ptx_has(kernel->module, statement, "eq ne equ neu"));
}

static bool mark_written(const gs_ptx_loop *loop, const gs_ptx_operand *operand) {
    bool is_new = false;
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE && !loop->marked[operand->value])
        is_new = loop->marked[operand->value] = true;
    for (uint32_t i = 0; i < operand->count; i++)
        is_new = mark_written(loop, &loop->kernel->module->operands.data[operand->children + i]) || is_new;
    return is_new;
}

/* Marks the registers that a statement writes. Returns whether one was not marked. */
static bool mark_results(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    bool is_new = false;
    for (uint32_t i = 0; i < statement->count; i++)
        is_new = mark_written(loop, operand_of(loop->kernel, statement, i)) || is_new;
    return is_new;
}

/* A walk through the values computed from the result of a counter, up to comparisons. `marked` has the registers. */
struct number {
    const gs_ptx_loop *loop;
    bool step_is_one; /* the counter takes every value */
    bool is_stored;   /* the value is also stored in memory of the block */
    bool has_changed;
};

/* False: an end of the loop depends on something other than the number. */
static bool follow_statement(struct number *number, const gs_ptx_statement *statement) {
    const gs_ptx_loop *loop = number->loop;
    const gs_ptx_kernel *kernel = loop->kernel;
    bool is_loaded =
        number->is_stored && statement->opcode == GS_PTX_LOAD && !gs_ptx_is_global(kernel->module, statement);
    if (statement->kind != GS_PTX_INSTRUCTION ||
        (!is_loaded && !gs_ptx_touches(kernel, statement, GS_PTX_READ, loop->marked)))
        return true;
    if (gs_ptx_touches(kernel, statement, GS_PTX_WRITE, loop->wanted) &&
        !compares_number(kernel, statement, number->step_is_one))
        return false;
    number->is_stored = number->is_stored || statement->opcode == GS_PTX_STORE;
    if (!gs_ptx_begins(kernel, statement, "setp") && mark_results(loop, statement))
        number->has_changed = true;
    return true;
}

static bool follow_number(const gs_ptx_loop *loop, const gs_ptx_statement *counter, bool step_is_one) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_flow *flow = &kernel->flow;
    struct number number = {.loop = loop, .step_is_one = step_is_one};
    memset(loop->marked, 0, kernel->module->functions.data[kernel->function].register_count);
    mark_results(loop, counter);
    do {
        number.has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++)
            for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++)
                if (gs_ptx_statement_at(kernel, i) != counter &&
                    !follow_statement(&number, gs_ptx_statement_at(kernel, i)))
                    return false;
    } while (number.has_changed);
    return true;
}

static bool is_counter(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_operand *value = operand_of(kernel, statement, 2);
    uint64_t number = 0;
    bool has_limit = gs_ptx_has(kernel->module, statement, "inc dec");
    if (!value || !gs_ptx_has(kernel->module, statement, "inc dec add") ||
        !gs_ptx_has(kernel->module, statement, "u32 s32 u64 s64"))
        return false;
    bool is_known = is_number(kernel, value, &number);
    if (!is_known && value->kind == GS_PTX_REGISTER && loop->states[value->value] == GS_PTX_CHANGING) {
        const gs_ptx_statement *writer = gs_ptx_only_writer(kernel, value->value);
        if (!writer || !gs_ptx_begins(kernel, writer, "popc"))
            return false;
    }
    bool step_is_one = has_limit || (is_known && ((uint32_t)number == 1 || (uint32_t)number == UINT32_MAX));
    return !(is_known && number == 0) && !is_taken_back(loop, statement) && follow_number(loop, statement, step_is_one);
}

/* ---- updates ---- */

/* Whether all values of a register were seen in the word of a compare-and-swap: loaded from it, or returned. */
static bool was_seen(const gs_ptx_kernel *kernel, uint32_t number, const gs_ptx_statement *swap, uint32_t *seen,
                     int depth) {
    for (int i = 0; i < depth; i++)
        if (seen[i] == number)
            return true;
    if (depth == DEEPEST)
        return false;
    seen[depth] = number;
    for (uint32_t i = kernel->writer_first[number]; i < kernel->writer_first[number + 1]; i++) {
        const gs_ptx_statement *writer = gs_ptx_statement_at(kernel, kernel->writers[i]);
        bool is_read = (writer->opcode == GS_PTX_LOAD || writer->opcode == GS_PTX_ATOMIC) && writer->count > 1 &&
                       gs_ptx_is_global(kernel->module, writer) &&
                       is_same_address(kernel, operand_of(kernel, writer, 1), operand_of(kernel, swap, 1));
        bool is_well = is_read || (is_copy(kernel, writer) &&
                                   was_seen(kernel, operand_of(kernel, writer, 1)->value, swap, seen, depth + 1));
        if (!is_well)
            return false;
    }
    return kernel->writer_first[number] < kernel->writer_first[number + 1];
}

static bool is_same_value(const gs_ptx_kernel *kernel, const gs_ptx_operand *one, const gs_ptx_operand *other) {
    uint64_t number, other_number;
    if (one->kind == GS_PTX_REGISTER && other->kind == GS_PTX_REGISTER &&
        original_of(kernel, one->value) == original_of(kernel, other->value))
        return true;
    return is_number(kernel, one, &number) && is_number(kernel, other, &other_number) &&
           (uint32_t)number == (uint32_t)other_number;
}

/* Whether a comparison is between the result of a compare-and-swap and its expected value. */
static bool compares_swap(const gs_ptx_kernel *kernel, const gs_ptx_statement *test, const gs_ptx_statement *swap) {
    const gs_ptx_operand *one = operand_of(kernel, test, 1), *two = operand_of(kernel, test, 2),
                         *result = operand_of(kernel, swap, 0), *expected = operand_of(kernel, swap, 2);
    return (is_same_value(kernel, one, result) && is_same_value(kernel, two, expected)) ||
           (is_same_value(kernel, two, result) && is_same_value(kernel, one, expected));
}

/* Whether a predicate has this value whenever a compare-and-swap has succeeded. */
static bool follows_success(const gs_ptx_kernel *kernel, uint32_t number, bool value, const gs_ptx_statement *swap,
                            int depth) {
    const gs_ptx_statement *writer = gs_ptx_only_writer(kernel, number);
    if (!writer || writer->guard != GS_PTX_NONE || writer->count < 2 || depth == DEEPEST)
        return false;
    if (gs_ptx_begins(kernel, writer, "setp")) {
        bool is_sum = writer->count == 3 || gs_ptx_has(kernel->module, writer, value ? "or" : "and");
        return is_sum && writer->count <= 4 && gs_ptx_has(kernel->module, writer, value ? "eq" : "ne") &&
               operand_of(kernel, writer, 0)->kind == GS_PTX_REGISTER && compares_swap(kernel, writer, swap);
    }
    bool is_not = gs_ptx_begins(kernel, writer, "not");
    if (!is_not && !gs_ptx_begins(kernel, writer, value ? "or" : "and"))
        return false;
    for (uint32_t i = 1; i < writer->count; i++) {
        const gs_ptx_operand *operand = operand_of(kernel, writer, i);
        if (operand->kind == GS_PTX_REGISTER &&
            follows_success(kernel, operand->value, (value != is_not) != operand->is_negated, swap, depth + 1))
            return true;
    }
    return false;
}

/* Whether the branch at the end of a block leaves the loop whenever a compare-and-swap has succeeded. */
static bool leaves_with_success(const gs_ptx_loop *loop, uint32_t number, const gs_ptx_statement *swap) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_block *block = &kernel->flow.blocks.data[number];
    const gs_ptx_statement *branch = gs_ptx_statement_at(kernel, block->last);
    if (branch->guard == GS_PTX_NONE || block->target_count)
        return false;
    for (int is_taken = 0; is_taken < 2; is_taken++) {
        uint32_t next = block->successors[is_taken ? 0 : 1];
        bool is_outside = next == GS_PTX_NONE || next >= kernel->flow.blocks.count || !loop->within[next];
        if (is_outside && follows_success(kernel, branch->guard, is_taken != branch->guard_is_negated, swap, 0))
            return true;
    }
    return false;
}

static bool ends_with_success(const gs_ptx_loop *loop, const gs_ptx_statement *swap) {
    for (uint32_t b = 0; b < loop->kernel->flow.blocks.count; b++)
        if (loop->within[b] && gs_ptx_loop_ends_at(loop, b) && leaves_with_success(loop, b, swap))
            return true;
    return false;
}

static bool is_update(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    uint32_t seen[DEEPEST];
    const gs_ptx_operand *expected = operand_of(loop->kernel, statement, 2);
    return gs_ptx_has(loop->kernel->module, statement, "cas") && expected && expected->kind == GS_PTX_REGISTER &&
           was_seen(loop->kernel, expected->value, statement, seen, 0) && ends_with_success(loop, statement);
}

/* Whether the operation runs must not depend on awaited values; an update must be tried in each iteration. */
bool gs_ptx_makes_progress(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    uint32_t block = block_of(loop->kernel, statement), guard = statement->guard;
    bool is_in_each_turn = guard == GS_PTX_NONE && loop->decision_first[block] == loop->decision_first[block + 1];
    if (loop->control[block] == GS_PTX_AWAITED || (guard != GS_PTX_NONE && loop->states[guard] == GS_PTX_AWAITED))
        return false;
    return is_counter(loop, statement) || (is_in_each_turn && is_update(loop, statement));
}

/* ---- locks ---- */

/* Whether a register is a parameter of the kernel, and not the result of a call, which is loaded in the same way. */
static bool is_parameter(const gs_ptx_kernel *kernel, uint32_t number) {
    const gs_ptx_statement *writer = gs_ptx_only_writer(kernel, number);
    return writer && writer->opcode == GS_PTX_LOAD && gs_ptx_has(kernel->module, writer, "param") &&
           gs_linear_register(kernel, number).is_known;
}

/* Whether a value is the same in all blocks; with `in_thread`, it may depend on the number of the thread. */
static bool is_same_in_blocks(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand, bool in_thread, int depth) {
    if (operand->kind == GS_PTX_SPECIAL)
        return operand->value == GS_PTX_NTID || operand->value == GS_PTX_NCTAID ||
               (in_thread && (operand->value == GS_PTX_TID || operand->value == GS_PTX_LANEID));
    if (operand->kind != GS_PTX_REGISTER)
        return operand->kind == GS_PTX_INTEGER || operand->kind == GS_PTX_FLOAT32 || operand->kind == GS_PTX_FLOAT64;
    const gs_ptx_statement *writer = gs_ptx_only_writer(kernel, operand->value);
    if (!writer || depth == DEEPEST)
        return false;
    if (writer->opcode == GS_PTX_LOAD)
        return is_parameter(kernel, operand->value);
    if (writer->opcode != GS_PTX_COMPUTE || writer->guard != GS_PTX_NONE)
        return false;
    for (uint32_t i = 1; i < writer->count; i++)
        if (!is_same_in_blocks(kernel, operand_of(kernel, writer, i), in_thread, depth + 1))
            return false;
    return true;
}

/* Whether waiting threads may do the same operation: it has no effect the second time, or ends their loop. */
static bool others_may_repeat(const gs_ptx_loop *loop, const gs_ptx_statement *spin) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_operand *value = operand_of(kernel, spin, 2), *other = operand_of(kernel, spin, 3);
    if (!value || !gs_ptx_repeats(kernel->module, spin) || !is_same_in_blocks(kernel, value, false, 0))
        return false;
    return !other || is_same_in_blocks(kernel, other, false, 0) || ends_with_success(loop, spin);
}

/* Whether an operand has the same value in all blocks that come here with the same results of `spin`. */
static bool is_alike(const gs_ptx_loop *loop, const gs_ptx_operand *operand) {
    if (operand->kind == GS_PTX_REGISTER && !(operand->access & GS_PTX_READ))
        return true;
    if (operand->kind == GS_PTX_REGISTER && loop->wanted[operand->value])
        return true; /* all_end_alike checks the writers */
    return is_same_in_blocks(loop->kernel, operand, true, 0);
}

/* Whether all blocks leave the loop by the same tests of the result of `spin`. Otherwise one of them could leave it,
   and write, without holding the lock. */
static bool all_end_alike(const gs_ptx_loop *loop, const gs_ptx_statement *spin) {
    const gs_ptx_kernel *kernel = loop->kernel;
    uint32_t registers = kernel->module->functions.data[kernel->function].register_count;
    for (uint32_t number = 0; number < registers; number++)
        for (uint32_t i = kernel->writer_first[number]; loop->wanted[number] && i < kernel->writer_first[number + 1];
             i++) {
            const gs_ptx_statement *writer = gs_ptx_statement_at(kernel, kernel->writers[i]);
            if (writer == spin || is_parameter(kernel, number))
                continue;
            if (writer->opcode != GS_PTX_COMPUTE && writer->opcode != GS_PTX_SHUFFLE)
                return false;
            for (uint32_t k = 0; k < writer->count; k++)
                if (!is_alike(loop, operand_of(kernel, writer, k)))
                    return false;
        }
    return true;
}

/* Sets `reached` for the blocks that can run before `avoided` has run. */
static void reach_without(const gs_ptx_loop *loop, uint32_t avoided) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    memset(loop->reached, 0, flow->blocks.count);
    loop->reached[0] = avoided != 0;
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++) {
            const gs_ptx_block *block = &flow->blocks.data[b];
            if (!loop->reached[b])
                continue;
            for (uint32_t i = 0; i < 2 + block->target_count; i++) {
                uint32_t next = i < 2 ? block->successors[i] : flow->targets.data[block->targets + i - 2];
                if (next < flow->blocks.count && next != avoided && !loop->reached[next])
                    loop->reached[next] = has_changed = true;
            }
        }
    }
}

static bool block_dominates(const gs_ptx_loop *loop, uint32_t first, uint32_t then) {
    reach_without(loop, first);
    return first == then || !loop->reached[then];
}

static uint32_t count_predecessors(const gs_ptx_flow *flow, uint32_t number) {
    uint32_t count = 0;
    for (uint32_t b = 0; b < flow->blocks.count; b++) {
        const gs_ptx_block *block = &flow->blocks.data[b];
        for (uint32_t i = 0; i < 2 + block->target_count; i++)
            count += (i < 2 ? block->successors[i] : flow->targets.data[block->targets + i - 2]) == number;
    }
    return count;
}

/* Whether a branch before a lock lets every block that reaches `write`, after `barrier`, also reach the lock: the
   branch goes the same way in all of them, or only separates threads of a block. */
static bool lets_every_block_pass(const gs_ptx_loop *loop, const gs_ptx_dependence *dependence, uint32_t barrier,
                                  uint32_t write) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_block *block = &kernel->flow.blocks.data[dependence->branch];
    const gs_ptx_statement *branch = gs_ptx_statement_at(kernel, block->last);
    if (dependence->edge < kernel->flow.blocks.count && count_predecessors(&kernel->flow, dependence->edge) == 1 &&
        block_dominates(loop, dependence->edge, write))
        return true;
    gs_ptx_operand guard = {.kind = GS_PTX_REGISTER, .value = branch->guard};
    return !block->target_count && branch->guard != GS_PTX_NONE && is_same_in_blocks(kernel, &guard, true, 0) &&
           block_dominates(loop, dependence->branch, barrier);
}

/* The same for all branches before the lock. */
static bool all_let_pass(const gs_ptx_loop *loop, uint32_t lock, uint32_t barrier, uint32_t write, int depth) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t i = flow->dependence_first[lock]; i < flow->dependence_first[lock + 1]; i++) {
        const gs_ptx_dependence *dependence = &flow->dependences.data[i];
        if (loop->within[dependence->branch])
            continue;
        if (depth == DEEPEST || !lets_every_block_pass(loop, dependence, barrier, write) ||
            !all_let_pass(loop, dependence->branch, barrier, write, depth + 1))
            return false;
    }
    return true;
}

/* Whether a barrier that all threads reach is between a lock, which some of them take, and a write. */
static bool is_behind_barrier(const gs_ptx_loop *loop, uint32_t lock, uint32_t write) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, i);
        if (statement->kind != GS_PTX_INSTRUCTION || statement->opcode != GS_PTX_BARRIER ||
            gs_ptx_has(kernel->module, statement, "arrive") || gs_ptx_scope_at(kernel, i) != GS_PTX_SAME_BLOCK)
            continue;
        uint32_t barrier = gs_ptx_flow_block(&kernel->flow, i);
        if (barrier != write && block_dominates(loop, barrier, write) && all_let_pass(loop, lock, barrier, write, 0))
            return true;
    }
    return false;
}

/* Finds the blocks that write the word of a lock without having passed it. False: not a lock, or too many.
 */
static bool find_apart(const gs_ptx_loop *loop, const gs_ptx_statement *spin, uint32_t *apart, uint32_t *count) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    uint32_t lock = block_of(kernel, spin);
    bool has_others = false;
    *count = 0;
    reach_without(loop, lock);
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, i);
        if (statement == spin || !writes_global(kernel, statement))
            continue;
        if (statement->opcode != GS_PTX_CALL && !gs_ptx_may_meet(kernel, spin, statement))
            continue;
        uint32_t block = gs_ptx_flow_block(&kernel->flow, i);
        has_others = true;
        if ((block == lock ? statement > spin : !loop->reached[block]) || (*count && apart[*count - 1] == block))
            continue;
        if (block == lock || *count == MOST_APART)
            return false;
        apart[(*count)++] = block;
    }
    return !has_others || all_end_alike(loop, spin);
}

bool gs_ptx_takes_lock(const gs_ptx_loop *loop, const gs_ptx_statement *spin) {
    uint32_t apart[MOST_APART], count;
    if (spin->opcode != GS_PTX_ATOMIC || gs_ptx_only_reads(loop->kernel, spin) || !others_may_repeat(loop, spin) ||
        !find_apart(loop, spin, apart, &count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!is_behind_barrier(loop, block_of(loop->kernel, spin), apart[i]))
            return false;
    return true;
}
