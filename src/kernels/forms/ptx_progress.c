/*
 * ptx_progress.c: the reads in loops that need no block that has not begun.
 *
 * A form may run with one worker block, which takes the blocks in order. Suppose that it is stuck: a block reads a word
 * again and again, and all blocks that have begun either wait too or have ended. If the original ends nevertheless, a
 * block that has not begun must write the word. Each function in the tables below shows for one kind of read that this
 * cannot be: either the loop ends by itself, or none of the writes to the word can be the first one that ends it.
 * docs/reshape.md has the same list. Everything else is refused.
 */
#include "ptx_wait_facts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_GIVEN = 32, MOST_GOALS = 12, MOST_ZEROS = 8, MOST_WRITERS = 64, MOST_THREADS = 1 << 10 };

static const gs_ptx_operand *value_written(const gs_ptx_kernel *kernel, const gs_ptx_statement *write) {
    uint32_t at = gs_ptx_address_written(kernel->module, write);
    return at == GS_PTX_NONE ? NULL : gs_ptx_operand_at(kernel, write, at + 1);
}

static gs_linear number_of(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand) {
    return operand ? gs_linear_value(kernel, operand, GS_LINEAR_EXACT) : (gs_linear){.is_known = false};
}

static bool is_swap(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    return gs_ptx_atomic_kind(kernel->module, statement) == GS_PTX_ATOMIC_CAS;
}

/* Whether all writes to the word that a statement reads are of its size: then each writes the whole word, or none of
   it. */
static bool is_written_whole(const gs_ptx_loop *loop, const gs_ptx_statement *read) {
    uint32_t at = GS_PTX_NONE;
    for (const gs_ptx_statement *write; (write = gs_ptx_next_writer(loop, read, &at));)
        if (gs_ptx_bytes_of(loop->kernel, write) != gs_ptx_bytes_of(loop->kernel, read))
            return false;
    return true;
}

/* ---- numbers that only grow ---- */

/* Whether a ballot is of a predicate that is a constant other than 0: then all that vote are in it. */
static bool is_vote_of_all(const gs_ptx_kernel *kernel, const gs_ptx_statement *vote) {
    const gs_ptx_operand *operand = vote->count > 1 ? gs_ptx_operand_at(kernel, vote, 1) : NULL;
    const gs_ptx_statement *writer =
        operand && operand->kind == GS_PTX_REGISTER ? gs_ptx_only_writer(kernel, operand->value) : NULL;
    bool is_moved = writer && writer->guard == GS_PTX_NONE && gs_ptx_math_of(writer) == GS_PTX_MATH_MOVE;
    const gs_ptx_operand *constant = is_moved ? gs_ptx_operand_at(kernel, writer, 1) : operand;
    return constant && constant->kind == GS_PTX_INTEGER && !operand->is_negated && constant->bits;
}

/* Whether a mask has at least the lane that made it: activemask, match.any, or a ballot of all. Any other ballot may be
   empty. */
static bool has_own_lane(const gs_ptx_kernel *kernel, const gs_ptx_statement *mask) {
    switch (gs_ptx_math_of(mask)) {
    case GS_PTX_MATH_ACTIVE:
    case GS_PTX_MATH_ALIKE:
        return true;
    case GS_PTX_MATH_LANES:
        return is_vote_of_all(kernel, mask);
    default:
        return false;
    }
}

/* How many lanes take part: at least the one that runs this. */
static bool counts_lanes(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand) {
    const gs_ptx_statement *count =
        operand->kind == GS_PTX_REGISTER ? gs_ptx_only_writer(kernel, gs_ptx_original(kernel, operand)->value) : NULL;
    const gs_ptx_operand *mask = count && count->count > 1 && gs_ptx_math_of(count) == GS_PTX_MATH_COUNT_BITS
                                     ? gs_ptx_original(kernel, gs_ptx_operand_at(kernel, count, 1))
                                     : NULL;
    const gs_ptx_statement *lanes =
        mask && mask->kind == GS_PTX_REGISTER ? gs_ptx_only_writer(kernel, mask->value) : NULL;
    return lanes && has_own_lane(kernel, lanes);
}

int gs_ptx_sign_added(const gs_ptx_kernel *kernel, const gs_ptx_statement *write) {
    const gs_ptx_operand *value = value_written(kernel, write);
    gs_ptx_atomic kind = gs_ptx_atomic_kind(kernel->module, write);
    if (!value || write->opcode != GS_PTX_ATOMIC || gs_ptx_is_real(kernel->module, write))
        return 0;
    gs_linear amount = number_of(kernel, value);
    if (kind == GS_PTX_ATOMIC_INC) /* wraps around at its limit */
        return gs_linear_is_number(&amount) && (amount.number < 0 || amount.number == INT32_MAX) ? 1 : 0;
    if (kind != GS_PTX_ATOMIC_ADD || !gs_ptx_has(kernel->module, write, "u32 s32 u64 s64"))
        return 0;
    gs_linear negative = gs_linear_add((gs_linear){.is_known = true}, &amount, -1);
    if (counts_lanes(kernel, value) || gs_linear_is_positive(&amount))
        return 1;
    return gs_linear_is_positive(&negative) ? -1 : 0;
}

/* Whether all writes to a word add something of this sign. */
static bool only_grows(const gs_ptx_loop *loop, const gs_ptx_statement *read, int sign) {
    uint32_t at = GS_PTX_NONE;
    for (const gs_ptx_statement *write; (write = gs_ptx_next_writer(loop, read, &at));)
        if (gs_ptx_sign_added(loop->kernel, write) != sign)
            return false;
    return sign != 0 && is_written_whole(loop, read);
}

/* ---- loops that end by themselves ---- */

/* Nothing in the kernel writes the word: it waits for the host or another kernel, as the original does. */
static bool is_not_written(const gs_ptx_poll *poll) {
    uint32_t at = GS_PTX_NONE;
    return !gs_ptx_next_writer(poll->loop, poll->read, &at);
}

/* A number that grows, or falls, by an amount: not in steps so large that it passes each limit only where its high bits
   are lost. */
static gs_ptx_fact growing_number(int sign, uint64_t step, int64_t bytes) {
    return (gs_ptx_fact){step > GS_PTX_MOST_STEP(bytes) ? GS_FACT_MIXED
                         : sign > 0                     ? GS_FACT_LARGE
                                                        : GS_FACT_SMALL,
                         step};
}

/* What an addition returns, in the end. */
static gs_ptx_fact number_added(const gs_ptx_kernel *kernel, const gs_ptx_statement *addition, int sign) {
    const gs_ptx_operand *value = value_written(kernel, addition);
    bool is_one = gs_ptx_atomic_kind(kernel->module, addition) == GS_PTX_ATOMIC_INC;
    gs_linear amount = number_of(kernel, value);
    uint64_t step = is_one ? 1 : counts_lanes(kernel, value) ? 32 : gs_linear_most(&amount, GS_PTX_USUAL_BLOCKS);
    return growing_number(sign, step, gs_ptx_bytes_of(kernel, addition));
}

/* The additions of a loop to one word: when one returns a large number, all do. */
static int find_additions(const gs_ptx_loop *loop, const gs_ptx_statement *read, int sign, gs_ptx_given *given) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    int count = 0;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *other = gs_ptx_statement_at(loop->kernel, i);
            bool is_one = other == read || (gs_ptx_sign_added(loop->kernel, other) && other->count > 2 &&
                                            gs_ptx_is_same_word(loop, read, other));
            if (is_one && count < MOST_GIVEN)
                given[count++] = (gs_ptx_given){other, number_added(loop->kernel, other, sign)};
        }
    return count;
}

/* Whether two additions add the same, in all threads; or both add how many lanes take part. */
static bool adds_alike(const gs_ptx_kernel *kernel, const gs_ptx_statement *one, const gs_ptx_statement *other) {
    const gs_ptx_operand *first = value_written(kernel, one), *second = value_written(kernel, other);
    gs_linear amount = number_of(kernel, first), same = number_of(kernel, second);
    if (gs_ptx_atomic_kind(kernel->module, one) != gs_ptx_atomic_kind(kernel->module, other))
        return false;
    return (gs_linear_is_same_everywhere(&amount) && gs_linear_is_equal(&amount, &same)) ||
           (first && second && counts_lanes(kernel, first) && counts_lanes(kernel, second));
}

/* Whether an addition before the loop takes the first item: if none is left, it keeps its thread from the loop. */
static bool takes_first(const gs_ptx_loop *loop, const gs_ptx_statement *addition, const gs_ptx_statement *read,
                        int sign) {
    gs_ptx_given given = {addition, number_added(loop->kernel, addition, sign)};
    return gs_ptx_may_reach(loop, addition, read, NULL, 0) && !gs_ptx_may_reach(loop, addition, read, &given, 1);
}

/* Whether all additions to a word take items of the work that the loop divides, and as many each. */
static bool all_take_items(const gs_ptx_loop *loop, const gs_ptx_statement *read, int sign) {
    uint32_t at = GS_PTX_NONE;
    for (const gs_ptx_statement *write; (write = gs_ptx_next_writer(loop, read, &at));)
        if (!adds_alike(loop->kernel, read, write) ||
            !(loop->within[gs_ptx_flow_block(&loop->kernel->flow, at)] || takes_first(loop, write, read, sign)))
            return false;
    return true;
}

/* while ((i = atomicAdd(next, 1)) < n): each addition takes an item, and when n are taken, by whichever block, the loop
   ends. That must follow from the number. Other additions could be what is waited for. */
static bool is_counter(const gs_ptx_poll *poll) {
    int sign = gs_ptx_sign_added(poll->loop->kernel, poll->read);
    const gs_ptx_operand *address = gs_ptx_address_of(poll->loop->kernel, poll->read, true);
    gs_ptx_given given[MOST_GIVEN];
    if (!sign || !address || !gs_ptx_is_kept(poll->loop, address) || !only_grows(poll->loop, poll->read, sign) ||
        !all_take_items(poll->loop, poll->read, sign))
        return false;
    int count = find_additions(poll->loop, poll->read, sign, given);
    return !gs_ptx_may_return(poll->loop, poll->read, given, count, NULL);
}

/* Whether all values of a register were seen in the word of a compare-and-swap, and one anew in each iteration. */
static bool was_seen(const gs_ptx_loop *loop, const gs_ptx_operand *operand, const gs_ptx_statement *swap,
                     bool *is_fresh, int depth) {
    const gs_ptx_kernel *kernel = loop->kernel;
    if (!operand || operand->kind != GS_PTX_REGISTER || operand->part || depth == 8)
        return false;
    for (uint32_t i = kernel->writer_first[operand->value]; i < kernel->writer_first[operand->value + 1]; i++) {
        const gs_ptx_statement *writer = gs_ptx_statement_at(kernel, kernel->writers[i]);
        const gs_ptx_operand *source = gs_ptx_operand_at(kernel, writer, 1);
        bool is_read = gs_ptx_access_of(loop, writer)->reads & GS_PTX_IN_GLOBAL && writer->count > 1 &&
                       gs_ptx_operand_at(kernel, writer, 0)->kind == GS_PTX_REGISTER &&
                       gs_ptx_is_same_word(loop, writer, swap);
        bool is_copy = gs_ptx_math_of(writer) == GS_PTX_MATH_MOVE && source && source->kind == GS_PTX_REGISTER;
        bool is_within = loop->within[gs_ptx_flow_block(&kernel->flow, kernel->writers[i])];
        bool source_is_fresh = is_read, is_itself = is_copy && source->value == operand->value;
        if (!is_read && !is_itself && !(is_copy && was_seen(loop, source, swap, &source_is_fresh, depth + 1)))
            return false;
        *is_fresh = *is_fresh || (is_within && source_is_fresh && gs_ptx_runs_always(loop, writer));
    }
    return kernel->writer_first[operand->value] < kernel->writer_first[operand->value + 1];
}

/* The compare-and-swaps of the loop that expect what was seen in the word that `read` reads. */
static int find_updates(const gs_ptx_loop *loop, const gs_ptx_statement *read, gs_ptx_given *given) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    int count = 0;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *swap = gs_ptx_statement_at(loop->kernel, i);
            const gs_ptx_operand *address = gs_ptx_address_of(loop->kernel, swap, true);
            bool is_fresh = false;
            if (is_swap(loop->kernel, swap) && address && gs_ptx_is_steady(loop, address) && count < MOST_GIVEN - 1 &&
                (swap == read || gs_ptx_is_same_word(loop, read, swap)) &&
                was_seen(loop, value_written(loop->kernel, swap), swap, &is_fresh, 0) && is_fresh)
                given[count++] = (gs_ptx_given){swap, {GS_FACT_SAME, 0}};
        }
    return count;
}

/* do old = atomicCAS(p, seen = old, f(seen)); while (old != seen): without others the second attempt succeeds, because
   it expects what the first one has seen, and success ends the loop. */
static bool is_update(const gs_ptx_poll *poll) {
    const gs_ptx_kernel *kernel = poll->loop->kernel;
    gs_ptx_given given[MOST_GIVEN];
    int count = find_updates(poll->loop, poll->read, given);
    bool is_one = false;
    for (int i = 0; i < count; i++)
        is_one = is_one || given[i].statement == poll->read;
    if (!count || (is_swap(kernel, poll->read) && !is_one))
        return false;
    if (!is_one)
        given[count++] = (gs_ptx_given){poll->read, {GS_FACT_SAME, 0}};
    return !gs_ptx_may_return(poll->loop, poll->read, given, count, is_one ? value_written(kernel, poll->read) : NULL);
}

/* The reads of the loop that find what `read` has found: those of the same word. */
static int find_same_reads(const gs_ptx_loop *loop, const gs_ptx_statement *read, gs_ptx_fact found,
                           gs_ptx_given *given) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_flow *flow = &kernel->flow;
    int count = 0;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *other = gs_ptx_statement_at(kernel, i);
            bool is_read =
                gs_ptx_reads_changing(loop, other) && (other->opcode == GS_PTX_LOAD || is_swap(kernel, other));
            if (other == read || (is_read && count < MOST_GIVEN - 1 && gs_ptx_is_same_word_within(loop, read, other)))
                given[count++] = (gs_ptx_given){other, found};
        }
    return count;
}

/* Claims: while (atomicCAS(&slot[i], EMPTY, mine) != EMPTY) i++. All that write such words replace EMPTY, so a word
   changes once, and at last none does. If one is EMPTY, all reads of it find that, and it is not read again; else it
   has its last value. */
static bool is_claim(const gs_ptx_poll *poll) {
    const gs_ptx_kernel *kernel = poll->loop->kernel;
    gs_ptx_given given[MOST_GIVEN];
    gs_ptx_fact empty = {GS_FACT_ANY, 0};
    uint32_t at = GS_PTX_NONE;
    for (const gs_ptx_statement *write; (write = gs_ptx_next_writer(poll->loop, poll->read, &at));) {
        gs_linear expected = number_of(kernel, value_written(kernel, write));
        if (!is_swap(kernel, write) || !gs_linear_is_number(&expected) ||
            (empty.kind == GS_FACT_IS && (uint64_t)expected.number != empty.bits))
            return false;
        empty = (gs_ptx_fact){GS_FACT_IS, (uint64_t)expected.number};
    }
    int count = find_same_reads(poll->loop, poll->read, empty, given);
    return empty.kind == GS_FACT_IS && !gs_ptx_may_run_again(poll->loop, poll->read, given, count);
}

/* ---- writes that do not end a wait ---- */

/* Values that end a loop, and all others: a loop that goes on has found one of the others. */
struct goal {
    gs_ptx_fact ends, waits;
    bool is_exact; /* none of the others ends it */
};

/* A word that a block reads, and a write to it by another block. */
struct release {
    gs_ptx_poll *poll;
    struct goal *goals;
    int goal_count;
    const gs_ptx_statement *write;
};

/* ---- lower blocks ---- */

/* The sum that is 0 whenever a block runs, because a branch before the block tests it; unknown: none. */
static gs_linear zero_at(const gs_ptx_kernel *kernel, const gs_ptx_dependence *dependence) {
    const gs_ptx_block *block = &kernel->flow.blocks.data[dependence->branch];
    const gs_ptx_statement *branch = gs_ptx_statement_at(kernel, block->last);
    const gs_ptx_statement *test = branch->guard == GS_PTX_NONE ? NULL : gs_ptx_only_writer(kernel, branch->guard);
    gs_linear none = {.is_known = false};
    if (!test || test->guard != GS_PTX_NONE || test->count != 3 || block->target_count ||
        gs_ptx_math_of(test) != GS_PTX_MATH_COMPARE || gs_ptx_operand_at(kernel, test, 0)->kind != GS_PTX_REGISTER)
        return none;
    bool is_equal = gs_ptx_has(kernel->module, test, "eq"), is_other = gs_ptx_has(kernel->module, test, "ne");
    bool holds = (dependence->edge == block->successors[0]) != branch->guard_is_negated;
    if (!(is_equal || is_other) || is_equal != holds || block->successors[0] == block->successors[1])
        return none;
    gs_linear one = number_of(kernel, gs_ptx_operand_at(kernel, test, 1)),
              other = number_of(kernel, gs_ptx_operand_at(kernel, test, 2));
    return gs_linear_add(one, &other, -1);
}

/* Whether a thread comes to a block only over an edge. In do ...; while (i == 0) the first time it does not. */
static bool comes_over(const gs_ptx_loop *loop, const gs_ptx_dependence *dependence, uint32_t block) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    bool *reached = loop->reached;
    memset(reached, 0, flow->blocks.count + 1);
    reached[0] = true;
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++)
            for (uint32_t i = 0; reached[b] && i < gs_ptx_successor_count(flow, b); i++) {
                uint32_t next = gs_ptx_successor(flow, b, i);
                if (next < flow->blocks.count && !reached[next] &&
                    !(b == dependence->branch && next == dependence->edge))
                    reached[next] = has_changed = true;
            }
    }
    return !reached[block];
}

static int find_zeros(const gs_ptx_loop *loop, const gs_ptx_statement *write, gs_linear *zeros) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_flow *flow = &kernel->flow;
    uint32_t there = gs_ptx_flow_block(flow, gs_ptx_number_of(kernel, write)), block = there;
    int count = 0;
    for (int depth = 0; depth < 16 && flow->dependence_first[block] + 1 == flow->dependence_first[block + 1]; depth++) {
        const gs_ptx_dependence *only = &flow->dependences.data[flow->dependence_first[block]];
        gs_linear zero = zero_at(kernel, only);
        if (gs_linear_is_same_in_thread(&zero) && count < MOST_ZEROS && comes_over(loop, only, there))
            zeros[count++] = zero;
        block = only->branch;
    }
    return count;
}

static gs_linear address_of_ticket(const gs_ptx_kernel *kernel, const gs_ptx_statement *taker) {
    const gs_ptx_operand *address = gs_ptx_address_of(kernel, taker, true);
    return address ? gs_linear_value(kernel, address, GS_LINEAR_EXACT) : (gs_linear){.is_known = false};
}

/* Whether the tickets in an address are of one word for all threads, which only grows: then a block that begins later
   takes higher ones. */
static bool tickets_grow(const gs_ptx_loop *loop, const gs_linear *address) {
    for (int i = 0; i < address->count; i++)
        for (int k = 0; k < GS_LINEAR_FACTORS; k++) {
            uint64_t symbol = address->terms[i].factors[k];
            if (symbol >> 56 != GS_LINEAR_TICKET)
                continue;
            const gs_ptx_statement *taker = gs_ptx_statement_at(loop->kernel, (uint32_t)symbol);
            gs_linear word = address_of_ticket(loop->kernel, taker);
            if (!gs_linear_is_same_everywhere(&word) || !only_grows(loop, taker, 1) ||
                number_added(loop->kernel, taker, 1).kind != GS_FACT_LARGE)
                return false;
        }
    return true;
}

/* Whether a thread may run a statement more than once. */
static bool is_repeated(const gs_ptx_loop *loop, uint32_t statement) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    uint32_t block = gs_ptx_flow_block(flow, statement);
    memset(loop->reached, 0, flow->blocks.count + 1);
    return !gs_ptx_flow_reach(flow, block, loop->reached) || loop->reached[block];
}

/* How far the tickets of a word that are taken by one block are apart at most: what all its threads add. */
static uint64_t tickets_of_block(const gs_ptx_loop *loop, const gs_ptx_statement *taker, uint64_t threads) {
    uint64_t added = 0;
    uint32_t at = GS_PTX_NONE;
    for (const gs_ptx_statement *write; (write = gs_ptx_next_writer(loop, taker, &at));) {
        gs_ptx_fact step = number_added(loop->kernel, write, 1);
        if (step.kind != GS_FACT_LARGE || is_repeated(loop, at))
            return UINT64_MAX;
        added += step.bits;
    }
    return added * threads;
}

/* The same for the word whose tickets an address has. */
static uint64_t tickets_of_address(const gs_ptx_loop *loop, const gs_linear *address, uint64_t threads) {
    uint64_t most = 0;
    for (int i = 0; i < address->count; i++)
        for (int k = 0; k < GS_LINEAR_FACTORS; k++) {
            uint64_t symbol = address->terms[i].factors[k];
            uint64_t tickets =
                symbol >> 56 == GS_LINEAR_TICKET
                    ? tickets_of_block(loop, gs_ptx_statement_at(loop->kernel, (uint32_t)symbol), threads)
                    : 0;
            most = most > tickets ? most : tickets;
        }
    return most;
}

/* Look-back: each block that writes the word has a lower number or ticket than the block that reads it, or is the same.
   Such blocks have begun. */
static bool is_of_lower_block(const struct release *release) {
    const gs_ptx_loop *loop = release->poll->loop;
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_operand *from = gs_ptx_address_of(kernel, release->poll->read, false),
                         *to = gs_ptx_address_of(kernel, release->write, true);
    gs_linear zeros[MOST_ZEROS];
    if (!from || !to)
        return false;
    gs_linear awaited = gs_linear_value(kernel, from, GS_LINEAR_AT_MOST),
              written = gs_linear_value(kernel, to, GS_LINEAR_AT_LEAST);
    const gs_ptx_limits *limits = &kernel->module->functions.data[kernel->function].limits;
    const uint32_t *most = limits->required_threads[0] ? limits->required_threads : limits->max_threads;
    gs_linear_sizes sizes = {.bytes = gs_ptx_bytes_of(kernel, release->poll->read),
                             .written = gs_ptx_bytes_of(kernel, release->write),
                             .threads = (int64_t)most[0] * most[1] * most[2]};
    sizes.tickets = tickets_of_address(loop, &awaited, sizes.threads ? (uint64_t)sizes.threads : MOST_THREADS);
    uint32_t most_blocks;
    gs_linear_order order =
        gs_linear_order_of(&awaited, &written, sizes, zeros, find_zeros(loop, release->write, zeros), &most_blocks);
    if (order == GS_LINEAR_NO_ORDER || !tickets_grow(loop, &awaited))
        return false;
    release->poll->order = order > release->poll->order ? order : release->poll->order;
    if (most_blocks < release->poll->most_blocks)
        release->poll->most_blocks = most_blocks;
    release->poll->awaits_lower = release->poll->awaits_lower || order != GS_LINEAR_BY_TICKETS;
    release->poll->awaits_begun = release->poll->awaits_begun || order == GS_LINEAR_BY_TICKETS;
    return true;
}

/* ---- values that do not end the wait ---- */

static bool is_within_fact(gs_ptx_fact fact, uint64_t number, uint64_t mask) {
    switch (fact.kind) {
    case GS_FACT_IS:
        return ((number ^ fact.bits) & mask) == 0;
    case GS_FACT_IS_NOT:
        return ((number ^ fact.bits) & mask) != 0;
    case GS_FACT_SET:
        return (number & fact.bits) == fact.bits;
    default:
        return false;
    }
}

/* Whether an atomic read of a word, or a read, leaves it as it is, if it has this number. */
static bool leaves_number(const gs_ptx_kernel *kernel, const gs_ptx_statement *read, uint64_t number, uint64_t mask) {
    gs_linear value = number_of(kernel, value_written(kernel, read));
    uint64_t other = (uint64_t)value.number;
    switch (gs_ptx_atomic_kind(kernel->module, read)) {
    case GS_PTX_NOT_ATOMIC:
        return true;
    case GS_PTX_ATOMIC_CAS:
        return gs_linear_is_number(&value) && (number ^ other) & mask;
    case GS_PTX_ATOMIC_EXCH:
        return gs_linear_is_number(&value) && !((number ^ other) & mask);
    case GS_PTX_ATOMIC_OR:
        return gs_linear_is_number(&value) && !(~number & other & mask);
    default:
        return gs_ptx_only_reads(kernel, read);
    }
}

static void mark_written(const gs_ptx_loop *loop, const gs_ptx_operand *operand, bool *marked, bool *has_changed) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE && !marked[operand->value])
        marked[operand->value] = *has_changed = true;
    for (uint32_t i = 0; i < operand->count; i++)
        mark_written(loop, &loop->kernel->module->operands.data[operand->children + i], marked, has_changed);
}

static bool reads_marked(const gs_ptx_loop *loop, const gs_ptx_operand *operand, const bool *marked) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ && marked[operand->value])
        return true;
    for (uint32_t i = 0; i < operand->count; i++)
        if (reads_marked(loop, &loop->kernel->module->operands.data[operand->children + i], marked))
            return true;
    return false;
}

static bool statement_reads(const gs_ptx_loop *loop, const gs_ptx_statement *statement, const bool *marked) {
    if (statement->guard != GS_PTX_NONE && marked[statement->guard])
        return true;
    for (uint32_t i = 0; i < statement->count; i++)
        if (reads_marked(loop, gs_ptx_operand_at(loop->kernel, statement, i), marked))
            return true;
    return false;
}

/* Whether the branches that decide about a block of the loop depend on marked registers. */
static bool is_decided_by(const gs_ptx_loop *loop, uint32_t block, const bool *marked) {
    for (uint32_t i = loop->decision_first[block]; i < loop->decision_first[block + 1]; i++) {
        uint32_t last = loop->kernel->flow.blocks.data[loop->decisions.data[i]].last;
        if (statement_reads(loop, gs_ptx_statement_at(loop->kernel, last), marked))
            return true;
    }
    return false;
}

/* Marks the registers of the loop that depend on what a poll has read. */
static void mark_dependent(const gs_ptx_poll *poll, bool *marked) {
    const gs_ptx_loop *loop = poll->loop;
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++) {
            bool is_decided = loop->within[b] && is_decided_by(loop, b, marked);
            for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
                const gs_ptx_statement *statement = gs_ptx_statement_at(loop->kernel, i);
                if (statement->kind != GS_PTX_INSTRUCTION ||
                    (statement != poll->read && !is_decided && !statement_reads(loop, statement, marked)))
                    continue;
                for (uint32_t k = 0; k < statement->count; k++)
                    mark_written(loop, gs_ptx_operand_at(loop->kernel, statement, k), marked, &has_changed);
            }
        }
    }
}

/* Whether a statement may run while a poll finds only values with which the loop goes on. Else it is behind success, as
   what a lock protects is in while (!done) if (!atomicExch(lock, 1)) { ...; done = true; }. */
static bool may_run_waiting(const gs_ptx_poll *poll, const struct goal *goal, uint32_t statement) {
    const gs_ptx_kernel *kernel = poll->loop->kernel;
    const gs_ptx_given given = {poll->read, goal->waits};
    return gs_ptx_flow_block(&kernel->flow, statement) ==
               gs_ptx_flow_block(&kernel->flow, gs_ptx_number_of(kernel, poll->read)) ||
           gs_ptx_may_reach(poll->loop, poll->read, gs_ptx_statement_at(kernel, statement), &given, 1);
}

/* Whether the loop has nothing to remember what a poll has read by: no register that depends on it has a value of an
   earlier iteration, and nothing else is written that could change what is read later. */
static bool forgets(const gs_ptx_poll *poll, const struct goal *goal, uint64_t number, uint64_t mask) {
    const gs_ptx_loop *loop = poll->loop;
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_flow *flow = &kernel->flow;
    size_t registers = kernel->module->functions.data[kernel->function].register_count;
    const gs_ptx_operand *address = gs_ptx_address_of(kernel, poll->read, false);
    bool *marked = calloc(registers + 1, sizeof *marked);
    bool is_well =
        marked && address && gs_ptx_is_steady(loop, address) && leaves_number(kernel, poll->read, number, mask);
    if (is_well)
        mark_dependent(poll, marked);
    for (size_t r = 0; r < registers && is_well; r++)
        is_well = !marked[r] || kernel->writer_first[r + 1] - kernel->writer_first[r] == 1;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; is_well && loop->within[b] && i <= flow->blocks.data[b].last;
             i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, i);
            bool is_write = statement->kind == GS_PTX_INSTRUCTION && gs_ptx_access_of(loop, statement)->writes;
            is_well = statement == poll->read || !is_write ||
                      (is_swap(kernel, statement) && gs_ptx_is_same_word(loop, poll->read, statement) &&
                       leaves_number(kernel, statement, number, mask)) ||
                      !may_run_waiting(poll, goal, i);
        }
    free(marked);
    return is_well;
}

static bool keeps_waiting(const gs_ptx_poll *poll, const struct goal *goal, const gs_ptx_statement *write) {
    const gs_ptx_kernel *kernel = poll->loop->kernel;
    int64_t bytes = gs_ptx_bytes_of(kernel, write);
    uint64_t mask = bytes < 8 ? (1ull << 8 * bytes) - 1 : UINT64_MAX;
    gs_linear value = number_of(kernel, value_written(kernel, write));
    uint32_t at = gs_ptx_address_written(kernel->module, write);
    bool is_number = gs_linear_is_number(&value);
    uint64_t number = (uint64_t)value.number;
    switch (gs_ptx_atomic_kind(kernel->module, write)) {
    case GS_PTX_NOT_ATOMIC:
        return goal->is_exact && write->opcode == GS_PTX_STORE && write->count == 2 && is_number &&
               is_within_fact(goal->waits, number, mask) && forgets(poll, goal, number, mask);
    case GS_PTX_ATOMIC_EXCH:
        return goal->is_exact && is_number && is_within_fact(goal->waits, number, mask) &&
               forgets(poll, goal, number, mask);
    case GS_PTX_ATOMIC_OR: /* bits that are set, or any but 0, stay */
        if (goal->waits.kind == GS_FACT_IS_NOT && goal->waits.bits == 0 && is_number && number & mask)
            return goal->is_exact && forgets(poll, goal, number, number & mask);
        return goal->is_exact && is_number && goal->waits.kind == GS_FACT_SET &&
               forgets(poll, goal, goal->waits.bits, goal->waits.bits & mask);
    case GS_PTX_ATOMIC_CAS: {
        gs_linear next = number_of(kernel, gs_ptx_operand_at(kernel, write, at + 2));
        bool is_next = gs_linear_is_number(&next) && is_within_fact(goal->waits, (uint64_t)next.number, mask) &&
                       forgets(poll, goal, (uint64_t)next.number, mask);
        return (goal->is_exact && is_next) || (is_number && !is_within_fact(goal->waits, number, mask));
    }
    default:
        return false;
    }
}

/* What is written does not end the wait: a lock that is taken, a flag that is cleared. A compare-and-swap that expects
   a value with which the wait would have ended writes nothing. */
static bool is_harmless(const struct release *release) {
    for (int i = 0; i < release->goal_count; i++)
        if (keeps_waiting(release->poll, &release->goals[i], release->write))
            return true;
    return false;
}

/* ---- locks ---- */

/* The reads of the kernel that read the word of a write, in the same thread: they find what the waiting block finds. */
static int find_tests(const gs_ptx_loop *loop, const gs_ptx_statement *write, gs_ptx_fact fact, gs_ptx_given *given) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    int count = 0;
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
        const gs_ptx_statement *read = gs_ptx_statement_at(kernel, i);
        bool is_read = read->kind == GS_PTX_INSTRUCTION && read->opcode != GS_PTX_CALL && read->count > 1 &&
                       gs_ptx_access_of(loop, read)->reads & GS_PTX_IN_GLOBAL &&
                       gs_ptx_is_strong(kernel->module, read) &&
                       gs_ptx_operand_at(kernel, read, 0)->kind == GS_PTX_REGISTER;
        if (is_read && read != write && count < MOST_GIVEN && gs_ptx_is_same_word(loop, read, write))
            given[count++] = (gs_ptx_given){read, fact};
    }
    return count;
}

/* A lock: no thread comes to the write unless it has found the word free itself. While a block waits, the word is not
   free, so a block that begins then waits, too. The holder has begun. */
static bool is_behind_lock(const struct release *release) {
    gs_ptx_given given[MOST_GIVEN];
    for (int i = 0; i < release->goal_count; i++) {
        int count = find_tests(release->poll->loop, release->write, release->goals[i].waits, given);
        if (count && !gs_ptx_may_run(release->poll->loop, release->write, given, count))
            return true;
    }
    return false;
}

/* Whether no thread comes to the write unless it has itself found the word, which is the same for all, with a value
   that ends the wait. */
static bool comes_after_wait(const struct release *release) {
    const gs_ptx_poll *poll = release->poll;
    gs_linear address = number_of(poll->loop->kernel, gs_ptx_address_of(poll->loop->kernel, poll->read, false));
    if (!gs_linear_is_same_everywhere(&address))
        return false;
    for (int i = 0; i < release->goal_count; i++) {
        gs_ptx_given given = {poll->read, release->goals[i].waits};
        if (!gs_ptx_may_run(poll->loop, release->write, &given, 1))
            return true;
    }
    return false;
}

/* A word that the outside sets. While a block waits, a block that begins then waits, too. */
static bool is_behind_wait(const struct release *release) {
    return !gs_ptx_may_meet(release->poll->loop, release->poll->read, release->write) && comes_after_wait(release);
}

/* ---- locks with tickets ---- */

/* The register of the loop with which the result of a read is compared, if it is a symbol of a kind: a ticket, or the
   number of the block. */
static const gs_ptx_operand *number_compared(const gs_ptx_poll *poll, uint64_t kind) {
    const gs_ptx_kernel *kernel = poll->loop->kernel;
    const gs_ptx_flow *flow = &kernel->flow;
    const gs_ptx_operand *result = gs_ptx_operand_at(kernel, poll->read, 0);
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; poll->loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *test = gs_ptx_statement_at(kernel, i);
            for (uint32_t k = 1; k < 3 && gs_ptx_math_of(test) == GS_PTX_MATH_COMPARE && test->count >= 3; k++) {
                const gs_ptx_operand *one = gs_ptx_original(kernel, gs_ptx_operand_at(kernel, test, k)),
                                     *other = gs_ptx_operand_at(kernel, test, 3 - k);
                gs_linear ticket = number_of(kernel, other);
                if (one->kind == GS_PTX_REGISTER && result->kind == GS_PTX_REGISTER && one->value == result->value &&
                    other->kind == GS_PTX_REGISTER && ticket.is_known && !ticket.number && ticket.count == 1 &&
                    ticket.terms[0].times == 1 && ticket.terms[0].factors[GS_LINEAR_FACTORS - 1] >> 56 == kind &&
                    !ticket.terms[0].factors[GS_LINEAR_FACTORS - 2])
                    return other;
            }
        }
    return NULL;
}

/* Whether a statement takes tickets 0, 1, 2, ..., and no other statement writes their word. */
static bool takes_each(const gs_ptx_loop *loop, const gs_ptx_statement *taker) {
    uint32_t at = GS_PTX_NONE;
    gs_linear step = number_of(loop->kernel, value_written(loop->kernel, taker));
    for (const gs_ptx_statement *write; (write = gs_ptx_next_writer(loop, taker, &at));)
        if (write != taker)
            return false;
    return gs_linear_is_number(&step) && step.number == 1 && is_written_whole(loop, taker);
}

/* Whether a write is what the holder of a ticket does when it leaves: it adds 1, and is reached only by the holder. */
static bool serves_next(const gs_ptx_loop *loop, const gs_ptx_statement *write, gs_linear mine,
                        const gs_ptx_statement *taker) {
    const gs_ptx_kernel *kernel = loop->kernel;
    gs_ptx_given given[MOST_GIVEN];
    gs_linear value = number_of(kernel, value_written(kernel, write));
    mine.number = 1;
    bool adds_one = gs_ptx_atomic_kind(kernel->module, write) == GS_PTX_ATOMIC_ADD
                        ? gs_linear_is_number(&value) && value.number == 1
                        : write->opcode == GS_PTX_STORE && gs_linear_is_equal(&value, &mine);
    int count = find_tests(loop, write, (gs_ptx_fact){GS_FACT_OTHER, 0}, given);
    if (!adds_one || !count || count == MOST_GIVEN)
        return false;
    given[count++] = (gs_ptx_given){taker, {GS_FACT_SAME, 0}};
    return !gs_ptx_may_run(loop, write, given, count);
}

/* Whether each word of tickets has one word that says which is served, as in an array of locks. */
static bool is_of_one_lock(const gs_ptx_poll *poll, const gs_ptx_statement *taker) {
    const gs_ptx_kernel *kernel = poll->loop->kernel;
    const gs_ptx_operand *address = gs_ptx_address_of(kernel, poll->read, false);
    gs_linear next = address_of_ticket(kernel, taker);
    if (!address || !gs_linear_is_same_in_thread(&next))
        return false;
    gs_linear served = gs_linear_value(kernel, address, GS_LINEAR_EXACT), difference = gs_linear_add(served, &next, -1);
    return gs_linear_is_same_everywhere(&difference) && !difference.lost;
}

/* A lock with tickets: my = atomicAdd(next, 1); while (*serving != my); ...; *serving = my + 1. Tickets are served in
   the order in which they are taken, so all lower ones belong to blocks that have begun; only the holder adds 1. */
static bool is_ticket_lock(const gs_ptx_poll *poll) {
    const gs_ptx_operand *ticket = number_compared(poll, GS_LINEAR_TICKET);
    gs_ptx_given given = {poll->read, {GS_FACT_SAME, 0}};
    if (!ticket || gs_ptx_may_return(poll->loop, poll->read, &given, 1, ticket))
        return false;
    gs_linear mine = number_of(poll->loop->kernel, ticket);
    const gs_ptx_statement *taker =
        gs_ptx_statement_at(poll->loop->kernel, (uint32_t)mine.terms[0].factors[GS_LINEAR_FACTORS - 1]);
    uint32_t at = GS_PTX_NONE;
    if (!is_of_one_lock(poll, taker))
        return false;
    for (const gs_ptx_statement *write; (write = gs_ptx_next_writer(poll->loop, poll->read, &at));)
        if (!serves_next(poll->loop, write, mine, taker))
            return false;
    return takes_each(poll->loop, taker);
}

/* Turns: while (*turn != blockIdx.x); ...; *turn = blockIdx.x + 1. The wait ends only when the word has the number of
   the block, and the block that writes this has a lower one. */
static bool is_of_lower_number(const struct release *release) {
    enum { MOST_AHEAD = 1 << 16 };
    gs_ptx_poll *poll = release->poll;
    const gs_ptx_kernel *kernel = poll->loop->kernel;
    const gs_ptx_operand *number = number_compared(poll, GS_LINEAR_BLOCK);
    gs_ptx_given same = {poll->read, {GS_FACT_SAME, 0}}, other = {poll->read, {GS_FACT_OTHER, 0}};
    if (!number || release->write->opcode != GS_PTX_STORE || gs_ptx_bytes_of(kernel, poll->read) < 4 ||
        gs_ptx_may_return(poll->loop, poll->read, &same, 1, number) ||
        gs_ptx_may_leave(poll->loop, poll->read, &other, 1, number))
        return false;
    gs_linear mine = number_of(kernel, number), value = number_of(kernel, value_written(kernel, release->write));
    gs_linear ahead = gs_linear_add(value, &mine, -1);
    if (!gs_linear_is_number(&ahead) || ahead.lost || ahead.number < 1 || ahead.number >= MOST_AHEAD)
        return false;
    char coordinate = (char)mine.terms[0].factors[GS_LINEAR_FACTORS - 1];
    gs_linear_order order = coordinate == 'z'   ? GS_LINEAR_ANY_GRID
                            : coordinate == 'y' ? GS_LINEAR_ONE_LAYER
                                                : GS_LINEAR_ONE_ROW;
    poll->order = order > poll->order ? order : poll->order;
    poll->awaits_lower = true;
    return true;
}

/* Marks: while (atomicExch(&seen[i], 1) == 0) i = next[i]. All that write such words put the same value there. The loop
   ends where it finds that value, so each iteration that goes on marks one word more, and there are finitely many. */
static bool is_mark(const gs_ptx_poll *poll) {
    const gs_ptx_kernel *kernel = poll->loop->kernel;
    gs_ptx_atomic kind = gs_ptx_atomic_kind(kernel->module, poll->read);
    gs_linear first = number_of(kernel, value_written(kernel, poll->read));
    uint32_t at = GS_PTX_NONE;
    bool is_exchange = kind == GS_PTX_ATOMIC_EXCH;
    gs_linear next = number_of(kernel, gs_ptx_operand_at(kernel, poll->read, 3));
    if (!is_exchange && (kind != GS_PTX_ATOMIC_CAS || !gs_linear_is_number(&next)))
        return false;
    for (const gs_ptx_statement *write; (write = gs_ptx_next_writer(poll->loop, poll->read, &at));) {
        gs_linear value = number_of(kernel, value_written(kernel, write));
        if (gs_ptx_atomic_kind(kernel->module, write) != kind || !gs_linear_is_equal(&value, &first))
            return false;
    }
    gs_ptx_given given = {poll->read, {is_exchange ? GS_FACT_IS : GS_FACT_IS_NOT, (uint64_t)first.number}};
    return gs_linear_is_number(&first) && !gs_ptx_only_reads(kernel, poll->read) &&
           !gs_ptx_may_return(poll->loop, poll->read, &given, 1, NULL);
}

/* The only statement of the loop that writes a register, or NULL. */
static const gs_ptx_statement *only_writer_within(const gs_ptx_loop *loop, uint32_t number) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_statement *only = NULL;
    for (uint32_t i = kernel->writer_first[number]; i < kernel->writer_first[number + 1]; i++) {
        if (!loop->within[gs_ptx_flow_block(&kernel->flow, kernel->writers[i])])
            continue;
        if (only)
            return NULL;
        only = gs_ptx_statement_at(kernel, kernel->writers[i]);
    }
    return only;
}

/* Whether a statement adds a number to a register in each iteration, directly or through copies: what it then is in the
   end, or MIXED. */
static gs_ptx_fact number_counted(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = loop->kernel;
    static const gs_ptx_operand none = {.kind = GS_PTX_OTHER};
    const gs_ptx_fact mixed = {GS_FACT_MIXED, 0};
    gs_ptx_math math = gs_ptx_math_of(statement);
    const gs_ptx_operand *result = gs_ptx_operand_at(kernel, statement, 0),
                         *from = gs_ptx_operand_at(kernel, statement, 1);
    if ((math != GS_PTX_MATH_ADD && math != GS_PTX_MATH_SUB) || statement->count != 3 ||
        result->kind != GS_PTX_REGISTER || gs_ptx_is_real(kernel->module, statement) ||
        !gs_ptx_runs_always(loop, statement))
        return mixed;
    uint32_t bytes = gs_ptx_type_bytes(gs_ptx_register_type(kernel->module, kernel->function, result->value));
    for (int i = 0; i < 4 && from->kind == GS_PTX_REGISTER && from->value != result->value; i++) {
        const gs_ptx_statement *writer = only_writer_within(loop, from->value);
        bool is_copy = writer && gs_ptx_math_of(writer) == GS_PTX_MATH_MOVE && gs_ptx_runs_always(loop, writer);
        from = is_copy ? gs_ptx_operand_at(kernel, writer, 1) : &none;
    }
    gs_linear step = number_of(kernel, gs_ptx_operand_at(kernel, statement, 2));
    bool is_itself = from->kind == GS_PTX_REGISTER && from->value == result->value &&
                     only_writer_within(loop, result->value) == statement;
    if (!is_itself || !gs_linear_is_number(&step) || !step.number || bytes < 4)
        return mixed;
    int sign = (step.number > 0) == (math == GS_PTX_MATH_ADD) ? 1 : -1;
    return growing_number(sign, (uint64_t)(step.number > 0 ? step.number : -step.number), bytes);
}

bool gs_ptx_loop_counts(const gs_ptx_loop *loop) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    int left = 16;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(loop->kernel, i);
            gs_ptx_given given = {statement, number_counted(loop, statement)};
            if (given.result.kind != GS_FACT_MIXED && left-- > 0 &&
                !gs_ptx_may_return(loop, statement, &given, 1, NULL))
                return true;
        }
    return false;
}

/* for (i = 0; i < *n; i++): a plain load in a loop that counts, and ends because of that. If another block wrote the
   word meanwhile, it would be a data race: the loop does not synchronize. */
static bool is_counted(const gs_ptx_poll *poll) {
    return !gs_ptx_reads_anew(poll->loop, poll->read) && gs_ptx_loop_counts(poll->loop);
}

static const struct {
    const char *name;
    bool (*holds)(const gs_ptx_poll *poll);
    bool is_of_whole_words;            /* what is written must be of the size of what is read */
    bool awaits_begun, awaits_outside; /* see gs_ptx_poll; a claim finds all taken until the outside frees one */
} ends_alone[] = {
    {"a word that the kernel does not write", is_not_written, false, false, true},
    {"a loop that counts", is_counted, false, false, false},
    {"a counter", is_counter, true, false, false},
    {"an update", is_update, true, false, false},
    {"a claim", is_claim, true, false, true},
    {"a mark", is_mark, true, false, false},
    {"a lock with tickets", is_ticket_lock, true, true, false},
};

static const struct {
    const char *name;
    bool (*holds)(const struct release *release);
    bool is_of_whole_words; /* it must write as much as is read */
    bool awaits_begun;
} excused[] = {
    {"a block with a lower number, by the value", is_of_lower_number, true, false},
    {"a block that has begun", is_of_lower_block, false, false},
    {"a value that does not end the wait", is_harmless, true, false},
    {"the holder of a lock", is_behind_lock, true, true},
    {"a block that has waited itself", is_behind_wait, false, true},
};

/* ---- what a loop waits for ---- */

/* Whether an atomic operation takes a lock that a load has just found with this number: an exchange, or a
   compare-and-swap that expects it. */
static bool takes_found(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, uint64_t found) {
    gs_ptx_atomic kind = gs_ptx_atomic_kind(kernel->module, statement);
    gs_linear expected = number_of(kernel, value_written(kernel, statement));
    return kind == GS_PTX_ATOMIC_EXCH || kind == GS_PTX_ATOMIC_OR ||
           (kind == GS_PTX_ATOMIC_CAS && gs_linear_is_number(&expected) && (uint64_t)expected.number == found);
}

/* The atomic operations of the loop that find what a load has just found. */
static int find_successes(const gs_ptx_poll *poll, gs_ptx_fact found, gs_ptx_given *given) {
    const gs_ptx_kernel *kernel = poll->loop->kernel;
    const gs_ptx_flow *flow = &kernel->flow;
    int count = 0;
    for (uint32_t b = 0; b < flow->blocks.count && found.kind == GS_FACT_IS && poll->read->opcode == GS_PTX_LOAD; b++)
        for (uint32_t i = flow->blocks.data[b].first; poll->loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *taker = gs_ptx_statement_at(kernel, i);
            if (taker->kind == GS_PTX_INSTRUCTION && takes_found(kernel, taker, found.bits) && count < MOST_GIVEN - 1 &&
                gs_ptx_is_same_word(poll->loop, poll->read, taker))
                given[count++] = (gs_ptx_given){taker, found};
        }
    return count;
}

/* Adds a goal, if the loop ends with it. */
static void try_goal(const gs_ptx_poll *poll, gs_ptx_fact ends, gs_ptx_fact waits, struct goal *goals, int *count) {
    gs_ptx_given given[MOST_GIVEN];
    for (int i = 0; i < *count; i++)
        if (goals[i].ends.kind == ends.kind && goals[i].ends.bits == ends.bits)
            return;
    int given_count = find_successes(poll, ends, given);
    given[given_count++] = (gs_ptx_given){poll->read, ends};
    if (*count == MOST_GOALS || gs_ptx_may_return(poll->loop, poll->read, given, given_count, NULL))
        return;
    given[0] = (gs_ptx_given){poll->read, waits};
    bool is_exact = waits.kind == GS_FACT_IS || !gs_ptx_may_leave(poll->loop, poll->read, given, 1, NULL);
    goals[(*count)++] = (struct goal){ends, waits, is_exact};
}

static void try_number(const gs_ptx_poll *poll, uint64_t number, struct goal *goals, int *count) {
    gs_ptx_fact is = {GS_FACT_IS, number}, is_not = {GS_FACT_IS_NOT, number};
    try_goal(poll, is, is_not, goals, count);
    try_goal(poll, is_not, is, goals, count);
}

/* Whether a statement is a comparison on which the end of the loop depends. */
static bool decides_loop(const gs_ptx_loop *loop, const gs_ptx_statement *test) {
    const gs_ptx_operand *result = gs_ptx_operand_at(loop->kernel, test, 0);
    return gs_ptx_math_of(test) == GS_PTX_MATH_COMPARE && test->count >= 3 &&
           (result->kind != GS_PTX_REGISTER || loop->wanted[result->value] ||
            loop->wanted_statements[gs_ptx_place_of(loop, test)]);
}

/* The numbers with which the loop compares: one of them, or all others, may end it. */
static int find_goals(const gs_ptx_poll *poll, struct goal *goals) {
    const gs_ptx_kernel *kernel = poll->loop->kernel;
    const gs_ptx_flow *flow = &kernel->flow;
    gs_linear value = number_of(kernel, value_written(kernel, poll->read));
    int count = 0, left = 12;
    if (gs_ptx_atomic_kind(kernel->module, poll->read) == GS_PTX_ATOMIC_OR && gs_linear_is_number(&value))
        try_goal(poll, (gs_ptx_fact){GS_FACT_CLEAR, (uint64_t)value.number},
                 (gs_ptx_fact){GS_FACT_SET, (uint64_t)value.number}, goals, &count);
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; poll->loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *test = gs_ptx_statement_at(kernel, i);
            if (!decides_loop(poll->loop, test) || gs_ptx_is_real(kernel->module, test) || left-- <= 0)
                continue;
            for (uint32_t k = 1; k < 3; k++) {
                gs_linear number = number_of(kernel, gs_ptx_operand_at(kernel, test, k));
                if (gs_linear_is_number(&number))
                    try_number(poll, (uint64_t)number.number, goals, &count);
            }
        }
    return count;
}

static bool writes_whole_word(const struct release *release) {
    const gs_ptx_kernel *kernel = release->poll->loop->kernel;
    return gs_ptx_bytes_of(kernel, release->write) == gs_ptx_bytes_of(kernel, release->poll->read);
}

/* Whether a write by a lower or the same block is by the same: both addresses are computed in the same way, and are not
   the same in all blocks. */
static bool is_of_same_block(const struct release *release) {
    const gs_ptx_kernel *kernel = release->poll->loop->kernel;
    gs_linear awaited = number_of(kernel, gs_ptx_address_of(kernel, release->poll->read, false)),
              written = number_of(kernel, gs_ptx_address_of(kernel, release->write, true));
    return gs_linear_is_equal(&awaited, &written) && !gs_linear_is_same_everywhere(&awaited);
}

/* Whether a write is not what ends the wait first, unless the block itself makes it. */
static bool is_ended_elsewhere(const struct release *release, bool is_whole) {
    return is_of_same_block(release) || is_behind_wait(release) || (is_whole && is_harmless(release));
}

typedef const gs_ptx_statement *next_write(const gs_ptx_loop *loop, const gs_ptx_statement *read, uint32_t *at);

/* What the writes to a word through the pointer that it is read with may be. */
struct ends {
    bool first;         /* one may be the first that ends the wait; */
    bool behind_wait;   /* one may end it, but only threads that have waited themselves come to it; */
    bool by_operations; /* an atomic operation leaves it as it is, as one that takes a lock does */
};

static void note_end(const struct release *release, bool is_whole, struct ends *ends) {
    const gs_ptx_kernel *kernel = release->poll->loop->kernel;
    if (is_whole && is_harmless(release))
        ends->by_operations |= gs_ptx_atomic_kind(kernel->module, release->write) != GS_PTX_NOT_ATOMIC;
    else if (comes_after_wait(release))
        ends->behind_wait = true;
    else
        ends->first = true;
}

/* Whether a rule covers each of the writes that `next` gives. */
static bool are_excused(struct release *release, next_write *next, struct ends *ends) {
    gs_ptx_poll *poll = release->poll;
    uint32_t at = GS_PTX_NONE;
    for (int count = 0; (release->write = next(poll->loop, poll->read, &at)); count++) {
        bool is_excused = false, is_whole = writes_whole_word(release);
        poll->in_way = release->write;
        if (release->goal_count < 0)
            release->goal_count = poll->read->opcode == GS_PTX_CALL ? 0 : find_goals(poll, release->goals);
        for (size_t i = 0; i < GS_COUNT(excused) && !is_excused; i++) {
            is_excused = (is_whole || !excused[i].is_of_whole_words) && excused[i].holds(release);
            poll->awaits_begun = poll->awaits_begun || (is_excused && excused[i].awaits_begun);
        }
        if (!is_excused || count == MOST_WRITERS)
            return false;
        poll->awaits_outside = poll->awaits_outside && is_ended_elsewhere(release, is_whole);
        note_end(release, is_whole, ends);
    }
    return true;
}

/* A claim that looks at one word alone waits until that is EMPTY again, which no claim makes it. */
static bool claims_one_word(const gs_ptx_poll *poll) {
    const gs_ptx_operand *address = gs_ptx_address_of(poll->loop->kernel, poll->read, false);
    return !address || gs_ptx_is_steady(poll->loop, address);
}

/* Whether a rule covers all that may write the word through another pointer. */
static bool aliases_are_excused(gs_ptx_poll *poll) {
    struct goal goals[MOST_GOALS];
    struct release release = {.poll = poll, .goals = goals, .goal_count = -1};
    struct ends ends = {.first = false};
    return are_excused(&release, gs_ptx_next_alias, &ends);
}

/* If no other block writes a value that may end the wait, only the block itself does, or the outside. A word that is
   only set back through the pointer that it is read with may be set through another one. A lock is given back by who
   holds it. */
static bool all_are_excused(gs_ptx_poll *poll) {
    struct goal goals[MOST_GOALS];
    struct release release = {.poll = poll, .goals = goals, .goal_count = -1};
    struct ends ends = {.first = false};
    poll->awaits_outside = true;
    return are_excused(&release, gs_ptx_next_writer, &ends) &&
           (ends.first || (ends.behind_wait && ends.by_operations) || !gs_ptx_reads_anew(poll->loop, poll->read) ||
            aliases_are_excused(poll));
}

/* The first write to a counter that is not an addition as the others are: what a reset is. NULL: none, or no counter.
 */
static const gs_ptx_statement *find_reset(const gs_ptx_poll *poll) {
    int sign = gs_ptx_sign_added(poll->loop->kernel, poll->read);
    uint32_t at = GS_PTX_NONE;
    for (const gs_ptx_statement *write; sign && (write = gs_ptx_next_writer(poll->loop, poll->read, &at));)
        if (gs_ptx_sign_added(poll->loop->kernel, write) != sign)
            return write;
    return NULL;
}

bool gs_ptx_poll_is_safe(gs_ptx_poll *poll) {
    poll->order = GS_LINEAR_ANY_GRID;
    poll->most_blocks = GS_LINEAR_MOST_BLOCKS;
    bool is_whole = is_written_whole(poll->loop, poll->read);
    for (size_t i = 0; i < GS_COUNT(ends_alone); i++)
        if ((is_whole || !ends_alone[i].is_of_whole_words) && ends_alone[i].holds(poll)) {
            poll->awaits_begun = ends_alone[i].awaits_begun;
            poll->awaits_outside = ends_alone[i].awaits_outside && gs_ptx_reads_anew(poll->loop, poll->read);
            return ends_alone[i].holds != is_claim || !claims_one_word(poll) || aliases_are_excused(poll);
        }
    if (all_are_excused(poll))
        return true;
    const gs_ptx_statement *reset = find_reset(poll);
    poll->in_way = reset ? reset : poll->in_way;
    return false;
}
