/*
 * ptx_replay.c: where a thread may go if certain statements return certain values.
 *
 * "If this compare-and-swap succeeds, the loop ends." "As long as this word is not 0, no thread comes to that store."
 * To answer such questions, facts about registers are carried along the edges of the flow graph, from block to block
 * until nothing changes. Where two ways meet, what holds on only one of them is forgotten. A branch whose condition is
 * known goes one way; behind any other branch its condition is known. Facts about words of shared memory with a name
 * are carried as well: in many kernels one thread asks, and the others read its answer there.
 *
 * A number that grows from iteration to iteration is LARGE: compared with one that is kept (ptx_steady.c) it is the
 * greater. It grows by a step, which is kept with it. What is added to it once in an iteration, and a product with a
 * small number, is LARGE, too. Anything else that is computed from it is MIXED, and proves nothing: a mask, a part of
 * it, a product whose high bits are lost, or what a loop inside of this one adds again and again.
 */
#include "ptx_wait_facts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 16, MOST_FACTS = 1 << 21 };

struct replay {
    const gs_ptx_loop *loop;
    bool is_whole; /* the whole function, not only the loop */
    const gs_ptx_given *given;
    int given_count;
    uint32_t *indices; /* of registers: 1 + the place of its fact; 0: none is kept */
    uint32_t count;    /* facts of a block: of registers, then of words of shared memory */
    uint32_t registers;
    uint64_t words[MOST_WORDS];  /* see word_of, */
    int64_t bytes[MOST_WORDS];   /* their sizes, */
    uint32_t places[MOST_WORDS]; /* and the variables they are in, or GS_PTX_NONE */
    uint32_t word_count;
    gs_ptx_fact *facts; /* of each block, at its beginning; and of the current place */
    bool *is_reached;   /* blocks */
    bool *is_waiting;   /* blocks whose facts have changed */
    uint32_t stop;      /* a block: the head of the loop, or where the replay began */
    bool goes_on;       /* goes on after that */
    bool has_returned;  /* that was reached; */
    bool has_left;      /* an end of it was */
};

static const gs_ptx_fact any = {GS_FACT_ANY, 0}, mixed = {GS_FACT_MIXED, 0};

static gs_ptx_fact fact_is(uint64_t bits) {
    return (gs_ptx_fact){GS_FACT_IS, bits};
}

static bool is_of_numbers(gs_ptx_fact fact) {
    return fact.kind == GS_FACT_LARGE || fact.kind == GS_FACT_SMALL || fact.kind == GS_FACT_MIXED;
}

static gs_ptx_fact join_facts(gs_ptx_fact one, gs_ptx_fact other) {
    if (one.kind == other.kind && (one.bits == other.bits || one.kind == GS_FACT_LARGE || one.kind == GS_FACT_SMALL))
        return one.bits > other.bits ? one : other;
    return is_of_numbers(one) || is_of_numbers(other) ? mixed : any;
}

/* ---- which facts are kept ---- */

static bool is_in_scope(const struct replay *replay, uint32_t block) {
    return replay->is_whole || replay->loop->within[block];
}

static void keep_operand(struct replay *replay, const gs_ptx_operand *operand, bool *has_changed) {
    if (operand->kind == GS_PTX_REGISTER && !replay->indices[operand->value]) {
        replay->indices[operand->value] = ++replay->registers;
        *has_changed = true;
    }
    for (uint32_t i = 0; i < operand->count; i++)
        keep_operand(replay, &replay->loop->kernel->module->operands.data[operand->children + i], has_changed);
}

static bool is_kept(const struct replay *replay, const gs_ptx_statement *statement) {
    const gs_ptx_operand *result = gs_ptx_operand_at(replay->loop->kernel, statement, 0);
    return result && result->kind == GS_PTX_REGISTER && result->access & GS_PTX_WRITE && replay->indices[result->value];
}

/* The word of shared memory that an address names: a variable or a register that is written once, and the offset; 0:
   none. */
static uint64_t word_of(const gs_ptx_kernel *kernel, const gs_ptx_operand *address) {
    const uint64_t of_register = 1ull << 63;
    const gs_ptx_operand *named =
        address && address->count == 1 ? &kernel->module->operands.data[address->children] : NULL;
    gs_ptx_memory memory = gs_ptx_memory_of(kernel->module, named);
    if (memory.is_known)
        return ((uint64_t)memory.variable + 1) << 32 | (uint32_t)named->bits;
    if (named && named->kind == GS_PTX_REGISTER && gs_ptx_only_writer(kernel, named->value))
        return of_register | (uint64_t)named->value << 32 | (uint32_t)named->bits;
    return 0;
}

/* The distance of two words of the same variable, in bytes. */
static int32_t distance_of(uint64_t from, uint64_t to) {
    return (int32_t)((uint32_t)to - (uint32_t)from);
}

static bool has_same_base(uint64_t one, uint64_t other) {
    return one && (one ^ other) >> 32 == 0;
}

/* The register, or a part of a vector of them, that is stored whole to a word of which facts are kept; NULL: the store
   writes another word, or a part of it. */
static const gs_ptx_operand *stored_at(const struct replay *replay, const gs_ptx_statement *store, uint64_t first,
                                       uint32_t word) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    const gs_ptx_operand *value = gs_ptx_operand_at(kernel, store, 1);
    if (store->opcode != GS_PTX_STORE || store->count != 2 || !has_same_base(first, replay->words[word]) ||
        gs_ptx_element_bytes(kernel, store) != replay->bytes[word] || !gs_ptx_has_whole_registers(kernel, store))
        return NULL;
    int64_t distance = distance_of(first, replay->words[word]), index = distance / replay->bytes[word];
    if (distance < 0 || distance % replay->bytes[word])
        return NULL;
    if (value->kind != GS_PTX_VECTOR)
        return index == 0 ? value : NULL;
    return index < value->count ? &kernel->module->operands.data[value->children + index] : NULL;
}

/* The word that a load reads whole, into one register. */
static uint32_t find_word(const struct replay *replay, const gs_ptx_statement *load) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    uint64_t word = word_of(kernel, gs_ptx_address_of(kernel, load, false));
    for (uint32_t i = 0; word && i < replay->word_count; i++)
        if (replay->words[i] == word && replay->bytes[i] == gs_ptx_bytes_of(kernel, load) &&
            gs_ptx_has_whole_registers(kernel, load))
            return i;
    return GS_PTX_NONE;
}

static bool is_private(const gs_ptx_loop *loop, const gs_ptx_statement *statement, bool written) {
    const gs_ptx_access *access = gs_ptx_access_of(loop, statement);
    return (written ? access->writes : access->reads) & (GS_PTX_IN_SHARED | GS_PTX_IN_LOCAL);
}

/* Whether a store writes one of the words of which facts are kept. */
static bool stores_kept(const struct replay *replay, const gs_ptx_statement *store, uint64_t word) {
    for (uint32_t i = 0; i < replay->word_count; i++)
        if (stored_at(replay, store, word, i))
            return true;
    return false;
}

/* Keeps what a statement computes a kept fact from. */
static void keep_inputs(struct replay *replay, const gs_ptx_statement *statement, bool *has_changed) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    bool is_store = statement->opcode == GS_PTX_STORE && is_private(replay->loop, statement, true);
    bool is_load = statement->opcode == GS_PTX_LOAD && is_private(replay->loop, statement, false);
    uint64_t word = is_store || is_load ? word_of(kernel, gs_ptx_address_of(kernel, statement, is_store)) : 0;
    if (is_store ? !stores_kept(replay, statement, word) : !is_kept(replay, statement))
        return;
    if (is_load && word && find_word(replay, statement) == GS_PTX_NONE && replay->word_count < MOST_WORDS &&
        gs_ptx_has_whole_registers(kernel, statement)) {
        replay->places[replay->word_count] = gs_ptx_access_of(replay->loop, statement)->place;
        replay->bytes[replay->word_count] = gs_ptx_bytes_of(kernel, statement);
        replay->words[replay->word_count++] = word;
        *has_changed = true;
    }
    bool is_computed = statement->opcode == GS_PTX_COMPUTE || statement->opcode == GS_PTX_SHUFFLE ||
                       statement->opcode == GS_PTX_BARRIER || is_store;
    for (uint32_t i = 0; is_computed && i < statement->count; i++)
        keep_operand(replay, gs_ptx_operand_at(kernel, statement, i), has_changed);
}

static void choose_facts(struct replay *replay) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    const gs_ptx_flow *flow = &kernel->flow;
    bool has_changed = true;
    for (bool is_first = true; has_changed; is_first = false) {
        has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++)
            for (uint32_t i = flow->blocks.data[b].first; is_in_scope(replay, b) && i <= flow->blocks.data[b].last;
                 i++) {
                const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, i);
                gs_ptx_operand guard = {.kind = GS_PTX_REGISTER, .value = statement->guard};
                if (is_first && statement->kind == GS_PTX_INSTRUCTION && statement->guard != GS_PTX_NONE)
                    keep_operand(replay, &guard, &has_changed);
                if (statement->kind == GS_PTX_INSTRUCTION)
                    keep_inputs(replay, statement, &has_changed);
            }
    }
    replay->count = replay->registers + replay->word_count;
}

/* ---- what an instruction computes ---- */

static uint64_t mask_of(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    return gs_ptx_has(kernel->module, statement, "u64 s64 b64")   ? UINT64_MAX
           : gs_ptx_has(kernel->module, statement, "u16 s16 b16") ? UINT16_MAX
                                                                  : UINT32_MAX;
}

static gs_ptx_fact negate_fact(gs_ptx_fact fact) {
    return fact.kind == GS_FACT_IS ? fact_is(!fact.bits) : is_of_numbers(fact) ? mixed : any;
}

/* The number that a register always has; computed once. */
static gs_ptx_fact fixed_number(const gs_ptx_loop *loop, const gs_ptx_operand *operand) {
    gs_ptx_fact *number = &loop->numbers[operand->value];
    if (number->kind == GS_FACT_NONE) {
        gs_linear value = gs_linear_value(loop->kernel, operand, GS_LINEAR_EXACT);
        *number = gs_linear_is_number(&value) ? fact_is((uint64_t)value.number) : any;
    }
    return *number;
}

static gs_ptx_fact fact_of(const struct replay *replay, const gs_ptx_fact *facts, const gs_ptx_operand *operand) {
    gs_ptx_fact fact = any;
    if (!operand)
        return any;
    if (operand->kind == GS_PTX_INTEGER)
        return fact_is(operand->bits);
    if (operand->kind != GS_PTX_REGISTER || operand->part)
        return any;
    if (replay->indices[operand->value])
        fact = facts[replay->indices[operand->value] - 1];
    if (fact.kind == GS_FACT_ANY && !operand->is_negated)
        fact = fixed_number(replay->loop, operand);
    return operand->is_negated ? negate_fact(fact) : fact;
}

/* 1: the first is greater, -1: less, 2: different, 0: equal, 3: not known. */
static int compare_facts(const struct replay *replay, const gs_ptx_statement *test, gs_ptx_fact one, gs_ptx_fact other,
                         const gs_ptx_operand *two) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    uint64_t mask = mask_of(kernel, test), top = mask / 2 + 1;
    bool is_signed = gs_ptx_has(kernel->module, test, "s16 s32 s64");
    uint64_t a = (one.bits & mask) ^ (is_signed ? top : 0), b = (other.bits & mask) ^ (is_signed ? top : 0);
    if (one.kind == GS_FACT_IS && other.kind == GS_FACT_IS)
        return a == b ? 0 : a > b ? 1 : -1;
    if (one.kind == GS_FACT_SAME && other.kind == GS_FACT_SAME)
        return 0;
    if ((one.kind == GS_FACT_SAME && other.kind == GS_FACT_OTHER) ||
        (one.kind == GS_FACT_OTHER && other.kind == GS_FACT_SAME))
        return 2;
    if (one.kind == GS_FACT_IS_NOT && other.kind == GS_FACT_IS && a == b)
        return b == 0 && !is_signed ? 1 : 2;
    if (one.kind == GS_FACT_SET && other.kind == GS_FACT_IS && (other.bits & one.bits) != one.bits)
        return 2;
    if (one.kind == GS_FACT_CLEAR && other.kind == GS_FACT_IS && other.bits & one.bits)
        return 2;
    bool is_limit = !is_of_numbers(other) && gs_ptx_is_kept(replay->loop, two);
    if (one.kind == GS_FACT_LARGE && is_limit)
        return 1;
    return one.kind == GS_FACT_SMALL && is_limit && is_signed ? -1 : 3;
}

/* The result of a comparison whose operands are so ordered. */
static gs_ptx_fact test_order(const gs_ptx_module *module, const gs_ptx_statement *test, int order) {
    bool is_known = order != 3;
    if (gs_ptx_has(module, test, "eq"))
        return is_known ? fact_is(order == 0) : any;
    if (gs_ptx_has(module, test, "ne"))
        return is_known ? fact_is(order != 0) : any;
    if (order == 2 || !is_known)
        return any;
    if (gs_ptx_has(module, test, "lt lo"))
        return fact_is(order < 0);
    if (gs_ptx_has(module, test, "le ls"))
        return fact_is(order <= 0);
    if (gs_ptx_has(module, test, "gt hi"))
        return fact_is(order > 0);
    return gs_ptx_has(module, test, "ge hs") ? fact_is(order >= 0) : any;
}

static gs_ptx_fact combine_bits(gs_ptx_math math, gs_ptx_fact one, gs_ptx_fact other) {
    if (one.kind == GS_FACT_IS && other.kind == GS_FACT_IS)
        return fact_is(math == GS_PTX_MATH_AND  ? one.bits & other.bits
                       : math == GS_PTX_MATH_OR ? one.bits | other.bits
                                                : one.bits ^ other.bits);
    if (is_of_numbers(one) || is_of_numbers(other))
        return mixed;
    if (math == GS_PTX_MATH_AND && other.kind == GS_FACT_IS && !(other.bits & ~one.bits)) {
        if (one.kind == GS_FACT_SET)
            return other;
        if (one.kind == GS_FACT_CLEAR)
            return fact_is(0);
    }
    return any;
}

/* The same for predicates: false and anything is false. */
static gs_ptx_fact combine_truths(gs_ptx_math math, gs_ptx_fact one, gs_ptx_fact other) {
    uint64_t absorbs = math == GS_PTX_MATH_OR;
    if (math != GS_PTX_MATH_XOR &&
        ((one.kind == GS_FACT_IS && one.bits == absorbs) || (other.kind == GS_FACT_IS && other.bits == absorbs)))
        return fact_is(absorbs);
    return combine_bits(math, one, other);
}

static gs_ptx_fact fact_of_test(const struct replay *replay, const gs_ptx_fact *facts, const gs_ptx_statement *test) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    const gs_ptx_operand *one = gs_ptx_operand_at(kernel, test, 1), *two = gs_ptx_operand_at(kernel, test, 2),
                         *more = gs_ptx_operand_at(kernel, test, 3);
    if (!one || !two || gs_ptx_is_real(kernel->module, test))
        return any;
    gs_ptx_fact first = fact_of(replay, facts, one), second = fact_of(replay, facts, two);
    int order = compare_facts(replay, test, first, second, two);
    if (order == 3) {
        order = compare_facts(replay, test, second, first, one);
        order = order == 1 || order == -1 ? -order : order;
    }
    gs_ptx_fact fact = test_order(kernel->module, test, order);
    if (!more)
        return fact;
    gs_ptx_math math = gs_ptx_has(kernel->module, test, "and")  ? GS_PTX_MATH_AND
                       : gs_ptx_has(kernel->module, test, "or") ? GS_PTX_MATH_OR
                                                                : GS_PTX_MATH_XOR;
    return combine_truths(math, fact, fact_of(replay, facts, more));
}

static uint32_t register_bytes(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand) {
    return operand->kind == GS_PTX_REGISTER
               ? gs_ptx_type_bytes(gs_ptx_register_type(kernel->module, kernel->function, operand->value))
               : 0;
}

/* Whether an iteration may come to a statement several times: it is in a loop inside of the loop. */
static bool runs_again(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    uint32_t block = gs_ptx_flow_block(flow, gs_ptx_number_of(loop->kernel, statement));
    bool has_changed = true;
    memset(loop->reached, 0, flow->blocks.count);
    for (uint32_t begin = block; has_changed && !loop->reached[block]; begin = GS_PTX_NONE) {
        has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++)
            for (uint32_t i = 0; (loop->reached[b] || b == begin) && i < gs_ptx_successor_count(flow, b); i++) {
                uint32_t next = gs_ptx_successor(flow, b, i);
                if (next < flow->blocks.count && next != loop->head && loop->within[next] && !loop->reached[next])
                    loop->reached[next] = has_changed = true;
            }
    }
    return loop->reached[block];
}

/* A growing number times a factor. If it took too large steps, it could pass each limit only where its high bits are
   lost, and begin again below it. */
static gs_ptx_fact scaled_number(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_ptx_fact number,
                                 uint64_t factor) {
    uint32_t bytes = register_bytes(kernel, gs_ptx_operand_at(kernel, statement, 0));
    if (!factor || number.bits > GS_PTX_MOST_STEP(bytes) / factor)
        return mixed;
    number.bits *= factor;
    return number;
}

/* What remains of a number that grows: it grows on if something is added that is kept, or it is multiplied by something
   positive, and divided. */
static gs_ptx_fact fact_of_number(const struct replay *replay, const gs_ptx_fact *facts,
                                  const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    const gs_ptx_operand *one = gs_ptx_operand_at(kernel, statement, 1), *two = gs_ptx_operand_at(kernel, statement, 2),
                         *three = gs_ptx_operand_at(kernel, statement, 3);
    gs_ptx_math math = gs_ptx_math_of(statement);
    gs_ptx_fact first = fact_of(replay, facts, one), second = fact_of(replay, facts, two);
    bool is_swapped =
        (math == GS_PTX_MATH_ADD || math == GS_PTX_MATH_MUL || math == GS_PTX_MATH_MAD) && !is_of_numbers(first);
    if (is_swapped) {
        const gs_ptx_operand *operand = one;
        gs_ptx_fact fact = first;
        one = two, first = second, two = operand, second = fact;
    }
    if (first.kind == GS_FACT_MIXED || first.kind == GS_FACT_ANY || is_of_numbers(second))
        return mixed;
    if (gs_ptx_has(kernel->module, statement, "hi sat") || runs_again(replay->loop, statement))
        return mixed;
    gs_linear factor = gs_linear_value(kernel, two, GS_LINEAR_EXACT);
    bool is_positive = gs_linear_is_positive(&factor);
    bool is_shift = gs_linear_is_number(&factor) && factor.number >= 0 && factor.number < 32;
    bool adds_kept = three && !is_of_numbers(fact_of(replay, facts, three)) && gs_ptx_is_kept(replay->loop, three);
    switch (math) {
    case GS_PTX_MATH_ADD:
    case GS_PTX_MATH_SUB:
        return gs_ptx_is_kept(replay->loop, two) ? first : mixed;
    case GS_PTX_MATH_SHR:
        return is_shift ? first : mixed;
    case GS_PTX_MATH_DIV:
        return is_positive ? first : mixed;
    case GS_PTX_MATH_SHL:
        return is_shift ? scaled_number(kernel, statement, first, 1ull << factor.number) : mixed;
    case GS_PTX_MATH_MUL:
    case GS_PTX_MATH_MAD:
        return is_positive && (math == GS_PTX_MATH_MUL || adds_kept)
                   ? scaled_number(kernel, statement, first, gs_linear_most(&factor, GS_PTX_USUAL_BLOCKS))
                   : mixed;
    default:
        return mixed;
    }
}

static bool reads_numbers(const struct replay *replay, const gs_ptx_fact *facts, const gs_ptx_statement *statement) {
    for (uint32_t i = 1; i < statement->count; i++)
        if (is_of_numbers(fact_of(replay, facts, gs_ptx_operand_at(replay->loop->kernel, statement, i))))
            return true;
    return false;
}

/* A number of a type, and with its sign if it has one, as 64 bits. */
static uint64_t extended_number(gs_ptx_type type, uint64_t bits) {
    int unused = 64 - 8 * (int)gs_ptx_type_bytes(type);
    bool is_signed = type == GS_PTX_S8 || type == GS_PTX_S16 || type == GS_PTX_S32 || type == GS_PTX_S64;
    uint64_t shifted = bits << unused;
    return is_signed && shifted >> 63 ? ~(~shifted >> unused) : shifted >> unused;
}

static gs_ptx_fact converted_number(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, uint64_t bits) {
    gs_ptx_type types[2];
    gs_ptx_find_types(kernel->module, statement, types);
    uint32_t to = gs_ptx_type_bytes(types[0]), from = gs_ptx_type_bytes(types[1]);
    bool are_known = to && to <= 8 && from && from <= 8 && !gs_ptx_is_real(kernel->module, statement) &&
                     !gs_ptx_has(kernel->module, statement, "sat");
    return are_known ? fact_is(extended_number(types[0], extended_number(types[1], bits))) : any;
}

static gs_ptx_fact fact_of_copy(const struct replay *replay, const gs_ptx_fact *facts,
                                const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    const gs_ptx_operand *to = gs_ptx_operand_at(kernel, statement, 0), *from = gs_ptx_operand_at(kernel, statement, 1);
    gs_ptx_fact fact = fact_of(replay, facts, from);
    if (gs_ptx_math_of(statement) == GS_PTX_MATH_MOVE)
        return fact;
    if (fact.kind == GS_FACT_IS)
        return converted_number(kernel, statement, fact.bits);
    if (is_of_numbers(fact))
        return register_bytes(kernel, to) >= register_bytes(kernel, from) &&
                       gs_ptx_has_whole_registers(kernel, statement)
                   ? fact
                   : mixed;
    return any;
}

static gs_ptx_fact fact_of_choice(const struct replay *replay, const gs_ptx_fact *facts,
                                  const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    const gs_ptx_operand *one = gs_ptx_operand_at(kernel, statement, 1), *two = gs_ptx_operand_at(kernel, statement, 2),
                         *which = gs_ptx_operand_at(kernel, statement, 3);
    gs_ptx_fact chosen = which ? fact_of(replay, facts, which) : any;
    gs_ptx_fact first = fact_of(replay, facts, one), second = fact_of(replay, facts, two);
    return chosen.kind == GS_FACT_IS ? (chosen.bits ? first : second) : join_facts(first, second);
}

/* A vote that all lanes cast alike gives what they cast. A lane that hands on a growing number hands on such a number;
   what else one lane knows, another one need not. */
static gs_ptx_fact fact_of_lanes(const struct replay *replay, const gs_ptx_fact *facts,
                                 const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    bool is_barrier = statement->opcode == GS_PTX_BARRIER;
    const gs_ptx_operand *value = gs_ptx_operand_at(kernel, statement, is_barrier ? statement->count - 1 : 1);
    gs_ptx_fact fact = value ? fact_of(replay, facts, value) : any;
    bool is_vote = gs_ptx_has(kernel->module, statement, "any all and or") && value &&
                   gs_ptx_has(kernel->module, statement, "pred");
    if (is_vote)
        return fact.kind == GS_FACT_IS ? fact : any;
    bool is_shuffle = statement->opcode == GS_PTX_SHUFFLE && gs_ptx_has(kernel->module, statement, "up down bfly idx");
    return is_of_numbers(fact) ? (is_shuffle ? fact : mixed) : any;
}

static gs_ptx_fact computed_fact(const struct replay *replay, const gs_ptx_fact *facts,
                                 const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    gs_ptx_math math = gs_ptx_math_of(statement);
    if (statement->opcode == GS_PTX_SHUFFLE || statement->opcode == GS_PTX_BARRIER)
        return fact_of_lanes(replay, facts, statement);
    switch (math) {
    case GS_PTX_MATH_MOVE:
    case GS_PTX_MATH_CONVERT:
        return statement->count == 2 ? fact_of_copy(replay, facts, statement) : any;
    case GS_PTX_MATH_COMPARE:
        return fact_of_test(replay, facts, statement);
    case GS_PTX_MATH_SELECT:
        return statement->count == 4 ? fact_of_choice(replay, facts, statement) : any;
    case GS_PTX_MATH_NOT:
        if (gs_ptx_has(kernel->module, statement, "pred"))
            return negate_fact(fact_of(replay, facts, gs_ptx_operand_at(kernel, statement, 1)));
        break;
    case GS_PTX_MATH_AND:
    case GS_PTX_MATH_OR:
    case GS_PTX_MATH_XOR: {
        gs_ptx_fact one = fact_of(replay, facts, gs_ptx_operand_at(kernel, statement, 1)),
                    other = fact_of(replay, facts, gs_ptx_operand_at(kernel, statement, 2));
        return gs_ptx_has(kernel->module, statement, "pred") ? combine_truths(math, one, other)
                                                             : combine_bits(math, one, other);
    }
    default:
        break;
    }
    if (!reads_numbers(replay, facts, statement))
        return any;
    return statement->count >= 3 && statement->count <= 4 && !gs_ptx_is_real(kernel->module, statement)
               ? fact_of_number(replay, facts, statement)
               : mixed;
}

/* ---- one statement, one block ---- */

static const gs_ptx_fact *given_result(const struct replay *replay, const gs_ptx_statement *statement) {
    for (int i = 0; i < replay->given_count; i++)
        if (replay->given[i].statement == statement)
            return &replay->given[i].result;
    return NULL;
}

static gs_ptx_fact result_fact(const struct replay *replay, const gs_ptx_fact *facts,
                               const gs_ptx_statement *statement) {
    const gs_ptx_fact *given = given_result(replay, statement);
    if (given)
        return *given;
    if (statement->opcode == GS_PTX_LOAD && is_private(replay->loop, statement, false)) {
        uint32_t word = find_word(replay, statement);
        return word == GS_PTX_NONE ? any : facts[replay->registers + word];
    }
    bool is_computed = statement->opcode == GS_PTX_COMPUTE || statement->opcode == GS_PTX_SHUFFLE ||
                       statement->opcode == GS_PTX_BARRIER;
    return is_computed ? computed_fact(replay, facts, statement) : any;
}

static void set_written(const struct replay *replay, gs_ptx_fact *facts, const gs_ptx_operand *operand,
                        gs_ptx_fact fact, bool is_certain) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE && replay->indices[operand->value]) {
        gs_ptx_fact *at = &facts[replay->indices[operand->value] - 1];
        *at = is_certain ? fact : join_facts(*at, fact);
    }
    for (uint32_t i = 0; i < operand->count; i++) {
        bool is_first = i == 0 && operand->kind == GS_PTX_PAIR;
        set_written(replay, facts, &replay->loop->kernel->module->operands.data[operand->children + i],
                    is_first ? fact : any, is_certain);
    }
}

/* Whether a statement may write some bytes of a word of which facts are kept. */
static bool may_write_word(const struct replay *replay, const gs_ptx_statement *statement, uint64_t first,
                           uint32_t word) {
    uint32_t place = gs_ptx_access_of(replay->loop, statement)->place;
    if (has_same_base(first, replay->words[word])) {
        int64_t distance = distance_of(first, replay->words[word]);
        return distance < gs_ptx_bytes_of(replay->loop->kernel, statement) && -distance < replay->bytes[word];
    }
    if (first && !(first >> 63) && !(replay->words[word] >> 63))
        return false; /* another variable */
    return place == GS_PTX_NONE || replay->places[word] == GS_PTX_NONE || place == replay->places[word];
}

/* Changes what is known about words of shared memory. */
static void store_facts(const struct replay *replay, gs_ptx_fact *facts, const gs_ptx_statement *statement,
                        bool is_certain) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    if (!is_private(replay->loop, statement, true))
        return;
    uint64_t word = word_of(kernel, gs_ptx_address_of(kernel, statement, true));
    for (uint32_t i = 0; i < replay->word_count; i++) {
        gs_ptx_fact *at = &facts[replay->registers + i];
        const gs_ptx_operand *stored = stored_at(replay, statement, word, i);
        if (stored) {
            gs_ptx_fact fact = fact_of(replay, facts, stored);
            *at = is_certain ? fact : join_facts(*at, fact);
        } else if (may_write_word(replay, statement, word, i)) {
            *at = any;
        }
    }
}

/* Whether a guarded statement runs: 0, 1, or 2 for both. */
static int guard_holds(const struct replay *replay, const gs_ptx_fact *facts, const gs_ptx_statement *statement) {
    if (statement->guard == GS_PTX_NONE)
        return 1;
    uint32_t index = replay->indices[statement->guard];
    gs_ptx_fact fact = index ? facts[index - 1] : any;
    return fact.kind == GS_FACT_IS ? (fact.bits != 0) != statement->guard_is_negated : 2;
}

static void run_statement(const struct replay *replay, gs_ptx_fact *facts, const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    int holds = statement->kind == GS_PTX_INSTRUCTION ? guard_holds(replay, facts, statement) : 0;
    if (!holds)
        return;
    gs_ptx_fact fact = result_fact(replay, facts, statement);
    store_facts(replay, facts, statement, holds == 1);
    for (uint32_t i = 0; i < statement->count; i++)
        set_written(replay, facts, gs_ptx_operand_at(kernel, statement, i), i == 0 ? fact : any, holds == 1);
}

/* ---- edges ---- */

static void join_into(struct replay *replay, uint32_t block, const gs_ptx_fact *facts) {
    gs_ptx_fact *into = replay->facts + (size_t)block * replay->count;
    if (!replay->is_reached[block]) {
        memcpy(into, facts, replay->count * sizeof *facts);
        replay->is_reached[block] = replay->is_waiting[block] = true;
        return;
    }
    for (uint32_t i = 0; i < replay->count; i++) {
        gs_ptx_fact fact = join_facts(into[i], facts[i]);
        replay->is_waiting[block] = replay->is_waiting[block] || fact.kind != into[i].kind || fact.bits != into[i].bits;
        into[i] = fact;
    }
}

/* What the condition of a branch tells: the predicate, and the register that it compares with a number. */
static void learn(const struct replay *replay, gs_ptx_fact *facts, uint32_t guard, bool value) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    const gs_ptx_statement *test = gs_ptx_only_writer(kernel, guard);
    if (replay->indices[guard])
        facts[replay->indices[guard] - 1] = fact_is(value);
    if (!test || gs_ptx_math_of(test) != GS_PTX_MATH_COMPARE || test->count != 3 || test->guard != GS_PTX_NONE ||
        !gs_ptx_has(kernel->module, test, "eq ne") || gs_ptx_is_real(kernel->module, test))
        return;
    const gs_ptx_operand *one = gs_ptx_operand_at(kernel, test, 1), *two = gs_ptx_operand_at(kernel, test, 2);
    gs_ptx_fact number = fact_of(replay, facts, two);
    if (one->kind != GS_PTX_REGISTER || !replay->indices[one->value] || number.kind != GS_FACT_IS ||
        !gs_ptx_only_writer(kernel, one->value) || facts[replay->indices[one->value] - 1].kind != GS_FACT_ANY)
        return;
    bool is_equal = value == gs_ptx_has(kernel->module, test, "eq");
    facts[replay->indices[one->value] - 1] = (gs_ptx_fact){is_equal ? GS_FACT_IS : GS_FACT_IS_NOT, number.bits};
}

static void follow_edge(struct replay *replay, uint32_t next, const gs_ptx_fact *facts) {
    const gs_ptx_loop *loop = replay->loop;
    if (next == GS_PTX_NONE)
        return;
    if (next >= loop->kernel->flow.blocks.count || !is_in_scope(replay, next))
        replay->has_left = true;
    else if (!replay->is_whole && next == replay->stop && !replay->goes_on)
        replay->has_returned = true;
    else
        join_into(replay, next, facts);
}

/* Runs a block from a statement on, and follows its edges. Facts are those of the current place. */
static void run_block(struct replay *replay, uint32_t number, uint32_t from) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    const gs_ptx_block *block = &kernel->flow.blocks.data[number];
    const gs_ptx_statement *last = gs_ptx_statement_at(kernel, block->last);
    gs_ptx_fact *facts = replay->facts + kernel->flow.blocks.count * (size_t)replay->count,
                *edge_facts = facts + replay->count;
    for (uint32_t i = from; i <= block->last; i++)
        run_statement(replay, facts, gs_ptx_statement_at(kernel, i));
    if (block->target_count || last->guard == GS_PTX_NONE || block->successors[1] == GS_PTX_NONE ||
        block->successors[0] == GS_PTX_NONE) {
        for (uint32_t i = 0; i < gs_ptx_successor_count(&kernel->flow, number); i++)
            follow_edge(replay, gs_ptx_successor(&kernel->flow, number, i), facts);
        return;
    }
    int holds = guard_holds(replay, facts, last);
    for (int is_taken = 0; is_taken < 2; is_taken++) {
        if (holds != 2 && holds != is_taken)
            continue;
        memcpy(edge_facts, facts, replay->count * sizeof *facts);
        learn(replay, edge_facts, last->guard, is_taken != last->guard_is_negated);
        follow_edge(replay, block->successors[is_taken ? 0 : 1], edge_facts);
    }
}

static void load_facts(struct replay *replay, uint32_t block) {
    if (replay->count)
        memcpy(replay->facts + replay->loop->kernel->flow.blocks.count * (size_t)replay->count,
               replay->facts + (size_t)block * replay->count, replay->count * sizeof *replay->facts);
}

static void run_waiting(struct replay *replay) {
    const gs_ptx_flow *flow = &replay->loop->kernel->flow;
    for (bool has_run = true; has_run;) {
        has_run = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++)
            if (replay->is_waiting[b]) {
                replay->is_waiting[b] = false;
                has_run = true;
                load_facts(replay, b);
                run_block(replay, b, flow->blocks.data[b].first);
            }
    }
}

/* ---- questions ---- */

/* False: out of memory, or too many facts. */
static bool make_replay(struct replay *replay, const gs_ptx_loop *loop, const gs_ptx_given *given, int count,
                        bool is_whole) {
    size_t blocks = loop->kernel->flow.blocks.count;
    uint32_t registers = loop->kernel->module->functions.data[loop->kernel->function].register_count;
    *replay =
        (struct replay){.loop = loop, .is_whole = is_whole, .given = given, .given_count = count, .stop = loop->head};
    replay->indices = calloc(registers + 1, sizeof *replay->indices);
    replay->is_reached = calloc(2 * blocks + 2, sizeof(bool));
    if (!replay->indices || !replay->is_reached)
        return false;
    replay->is_waiting = replay->is_reached + blocks + 1;
    choose_facts(replay);
    if ((blocks + 2) * replay->count > MOST_FACTS)
        return false;
    replay->facts = calloc((blocks + 2) * (replay->count + 1), sizeof *replay->facts);
    return replay->facts != NULL;
}

static void free_replay(struct replay *replay) {
    free(replay->indices);
    free(replay->is_reached);
    free(replay->facts);
}

/* Finds what is known before a statement of the loop, in an iteration that begins with nothing known. */
static void run_up_to(struct replay *replay, uint32_t statement) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    uint32_t block = gs_ptx_flow_block(&kernel->flow, statement), blocks = (uint32_t)kernel->flow.blocks.count;
    uint32_t stop = replay->stop;
    bool goes_on = replay->goes_on;
    replay->stop = replay->loop->head;
    replay->goes_on = false;
    replay->is_reached[replay->loop->head] = replay->is_waiting[replay->loop->head] = true;
    run_waiting(replay);
    load_facts(replay, block);
    for (uint32_t i = kernel->flow.blocks.data[block].first; i < statement; i++)
        run_statement(replay, replay->facts + blocks * (size_t)replay->count, gs_ptx_statement_at(kernel, i));
    memset(replay->is_reached, 0, blocks);
    memset(replay->is_waiting, 0, blocks);
    replay->has_returned = replay->has_left = false;
    replay->stop = stop;
    replay->goes_on = goes_on;
}

/* Runs on from a statement, whose guard holds, with the facts of the current place. */
static void run_from(struct replay *replay, const gs_ptx_statement *start) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    uint32_t at = gs_ptx_number_of(kernel, start);
    gs_ptx_fact *facts = replay->facts + kernel->flow.blocks.count * (size_t)replay->count;
    if (start->guard != GS_PTX_NONE && replay->indices[start->guard])
        facts[replay->indices[start->guard] - 1] = fact_is(!start->guard_is_negated);
    run_block(replay, gs_ptx_flow_block(&kernel->flow, at), at);
    run_waiting(replay);
}

/* Runs the loop from a statement on. */
static void run_loop(struct replay *replay, const gs_ptx_statement *start, const gs_ptx_operand *same) {
    const gs_ptx_kernel *kernel = replay->loop->kernel;
    gs_ptx_fact *facts = replay->facts + kernel->flow.blocks.count * (size_t)replay->count;
    run_up_to(replay, gs_ptx_number_of(kernel, start));
    if (same && same->kind == GS_PTX_REGISTER && replay->indices[same->value])
        facts[replay->indices[same->value] - 1].kind = GS_FACT_SAME;
    run_from(replay, start);
}

bool gs_ptx_may_return(const gs_ptx_loop *loop, const gs_ptx_statement *start, const gs_ptx_given *given, int count,
                       const gs_ptx_operand *same) {
    struct replay replay;
    bool is_made = make_replay(&replay, loop, given, count, false);
    if (is_made)
        run_loop(&replay, start, same);
    free_replay(&replay);
    return !is_made || replay.has_returned || !replay.has_left;
}

bool gs_ptx_may_run_again(const gs_ptx_loop *loop, const gs_ptx_statement *start, const gs_ptx_given *given,
                          int count) {
    struct replay replay;
    bool is_made = make_replay(&replay, loop, given, count, false);
    replay.stop = gs_ptx_flow_block(&loop->kernel->flow, gs_ptx_number_of(loop->kernel, start));
    if (is_made)
        run_loop(&replay, start, NULL);
    free_replay(&replay);
    return !is_made || replay.has_returned;
}

bool gs_ptx_may_leave(const gs_ptx_loop *loop, const gs_ptx_statement *start, const gs_ptx_given *given, int count,
                      const gs_ptx_operand *same) {
    struct replay replay;
    bool is_made = make_replay(&replay, loop, given, count, false);
    replay.goes_on = true;
    if (is_made)
        run_loop(&replay, start, same);
    free_replay(&replay);
    return !is_made || replay.has_left;
}

bool gs_ptx_may_run(const gs_ptx_loop *loop, const gs_ptx_statement *target, const gs_ptx_given *given, int count) {
    const gs_ptx_kernel *kernel = loop->kernel;
    struct replay replay;
    bool may_run = true;
    if (make_replay(&replay, loop, given, count, true)) {
        uint32_t at = gs_ptx_number_of(kernel, target), block = gs_ptx_flow_block(&kernel->flow, at);
        gs_ptx_fact *facts = replay.facts + kernel->flow.blocks.count * (size_t)replay.count;
        replay.is_reached[0] = replay.is_waiting[0] = true;
        run_waiting(&replay);
        may_run = replay.is_reached[block];
        if (may_run) {
            load_facts(&replay, block);
            for (uint32_t i = kernel->flow.blocks.data[block].first; i < at; i++)
                run_statement(&replay, facts, gs_ptx_statement_at(kernel, i));
            may_run = guard_holds(&replay, facts, target) != 0;
        }
    }
    free_replay(&replay);
    return may_run;
}

bool gs_ptx_may_reach(const gs_ptx_loop *loop, const gs_ptx_statement *start, const gs_ptx_statement *target,
                      const gs_ptx_given *given, int count) {
    const gs_ptx_kernel *kernel = loop->kernel;
    struct replay replay;
    bool is_made = make_replay(&replay, loop, given, count, true);
    if (is_made)
        run_from(&replay, start);
    bool may_reach = !is_made || replay.is_reached[gs_ptx_flow_block(&kernel->flow, gs_ptx_number_of(kernel, target))];
    free_replay(&replay);
    return may_reach;
}
