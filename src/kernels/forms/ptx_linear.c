/*
 * ptx_linear.c: an address as a sum of products: parameters, numbers of the block and the thread, their counts, and
 * tickets, each product times a number.
 *
 * That is enough to compare the address that a block waits for with the addresses that other blocks write. A register
 * that is written once is followed to its definition. A register that a loop only decreases is at most its first value,
 * one that a loop only increases is at least that. What registers lose of a sum is in ptx_wraps.c. This is all that is
 * followed: moves, conversions, sums, differences, products and shifts to the left, of
 * whole registers of 32 or 64 bits, and what is loaded as it was stored. Anything else is unknown.
 *
 * The waiting block and the writing one, and their threads, are different variables, although both run the same text.
 * Let the block number enter both addresses as S * L, where L grows with the order in which blocks begin and S is
 * positive. If the two addresses overlap, then S * (L' - L) is the difference of the rest. If that is less than S for
 * all threads of both blocks, then L' <= L: the writer began earlier, or is the same block.
 */
#include "ptx_linear.h"

#include <stdlib.h>

enum { DEEPEST = 48, MOST_STEPS = 200, LONGEST_WAY = 2000, MOST_LOOPING = 4 };

static const gs_linear unknown = {.is_known = false};

/* ---- sums and products ---- */

static void add_term(gs_linear *sum, const uint64_t *factors, int64_t times) {
    for (int i = 0; i < sum->count; i++)
        if (!memcmp(sum->terms[i].factors, factors, sizeof sum->terms[i].factors)) {
            sum->terms[i].times += times;
            if (!sum->terms[i].times)
                sum->terms[i] = sum->terms[--sum->count];
            return;
        }
    if (sum->count == GS_LINEAR_TERMS) {
        sum->is_known = false;
        return;
    }
    struct gs_linear_term *term = &sum->terms[sum->count];
    memcpy(term->factors, factors, sizeof term->factors);
    term->times = times;
    sum->count += times != 0;
}

static bool is_huge(int64_t number) {
    return number > (1ll << 50) || number < -(1ll << 50);
}

gs_linear gs_linear_add(gs_linear one, const gs_linear *other, int64_t times) {
    int64_t number;
    one.is_known = one.is_known && other->is_known && !is_huge(times) && !is_huge(one.number) &&
                   !__builtin_mul_overflow(other->number, times, &number) && !is_huge(number);
    if (!one.is_known)
        return unknown;
    one.number += number;
    for (int i = 0; i < other->count; i++) {
        if (__builtin_mul_overflow(other->terms[i].times, times, &number) || is_huge(number))
            return unknown;
        add_term(&one, other->terms[i].factors, number);
    }
    gs_linear_note_sum(&one, other, times);
    return one;
}

static gs_linear linear_number(int64_t value) {
    return (gs_linear){.is_known = true, .number = value};
}

static gs_linear linear_factor(uint64_t symbol) {
    uint64_t factors[GS_LINEAR_FACTORS] = {[GS_LINEAR_FACTORS - 1] = symbol};
    gs_linear sum = linear_number(0);
    add_term(&sum, factors, 1);
    return sum;
}

static gs_linear linear_symbol(uint64_t kind, uint64_t value) {
    return linear_factor(kind << 56 | value);
}

/* Merges the factors of two terms. False: too many. */
static bool merge_factors(const uint64_t *one, const uint64_t *other, uint64_t *into) {
    int at = GS_LINEAR_FACTORS, i = GS_LINEAR_FACTORS - 1, j = i;
    while ((i >= 0 && one[i]) || (j >= 0 && other[j])) {
        if (!at)
            return false;
        bool takes_one = j < 0 || (i >= 0 && one[i] >= other[j]);
        into[--at] = takes_one ? one[i--] : other[j--];
    }
    while (at)
        into[--at] = 0;
    return true;
}

gs_linear gs_linear_product(const gs_linear *one, const gs_linear *other) {
    if (!one->is_known || !other->is_known)
        return unknown;
    gs_linear product = gs_linear_add(linear_number(0), one, other->number);
    gs_linear terms = {.is_known = true, .count = other->count};
    memcpy(terms.terms, other->terms, sizeof terms.terms);
    product = gs_linear_add(product, &terms, one->number);
    for (int i = 0; i < one->count; i++)
        for (int j = 0; j < other->count; j++) {
            uint64_t factors[GS_LINEAR_FACTORS];
            int64_t times;
            if (!merge_factors(one->terms[i].factors, other->terms[j].factors, factors) ||
                __builtin_mul_overflow(one->terms[i].times, other->terms[j].times, &times) || is_huge(times))
                return unknown;
            add_term(&product, factors, times);
        }
    gs_linear_note_product(&product, one, other);
    return product;
}

bool gs_linear_is_number(const gs_linear *value) {
    return value->is_known && !value->count;
}

/* Whether two sums are the same; registers with them may differ by a multiple of the modulus. */
static bool have_same_terms(const gs_linear *one, const gs_linear *other) {
    gs_linear difference = gs_linear_add(*one, other, -1);
    return gs_linear_is_number(&difference) && !difference.number;
}

bool gs_linear_is_equal(const gs_linear *one, const gs_linear *other) {
    return have_same_terms(one, other) && !one->lost && !other->lost;
}

static uint64_t kind_of(uint64_t symbol) {
    return symbol >> 56;
}

/* Whether all factors of a term are of these kinds: bits. */
static bool has_only(const struct gs_linear_term *term, uint32_t kinds) {
    for (int i = 0; i < GS_LINEAR_FACTORS; i++)
        if (term->factors[i] && !(kinds >> kind_of(term->factors[i]) & 1))
            return false;
    return true;
}

static bool has_any(const struct gs_linear_term *term, uint32_t kinds) {
    for (int i = 0; i < GS_LINEAR_FACTORS; i++)
        if (term->factors[i] && kinds >> kind_of(term->factors[i]) & 1)
            return true;
    return false;
}

enum {
    COUNTS = 1 << GS_LINEAR_BLOCKS | 1 << GS_LINEAR_THREADS, /* at least 1 */
    THREADS = 1 << GS_LINEAR_THREAD | 1 << GS_LINEAR_LANE,   /* at least 0, and below a count */
    POINTERS = 1 << GS_LINEAR_PARAMETER | 1 << GS_LINEAR_VARIABLE
};

bool gs_linear_is_positive(const gs_linear *value) {
    int64_t least = value->number;
    for (int i = 0; i < value->count; i++) {
        if (value->terms[i].times < 0 || !has_only(&value->terms[i], COUNTS | THREADS))
            return false;
        least += has_only(&value->terms[i], COUNTS) ? value->terms[i].times : 0;
    }
    return value->is_known && least > 0 && !value->lost && gs_linear_most(value, GS_LINEAR_MOST_BLOCKS) < 1ull << 63;
}

bool gs_linear_is_same_everywhere(const gs_linear *value) {
    for (int i = 0; i < value->count; i++)
        if (!has_only(&value->terms[i], COUNTS | POINTERS))
            return false;
    return value->is_known;
}

bool gs_linear_is_same_in_thread(const gs_linear *value) {
    for (int i = 0; i < value->count; i++)
        if (!has_only(&value->terms[i], COUNTS | POINTERS | THREADS | 1 << GS_LINEAR_BLOCK))
            return false;
    return value->is_known;
}

/* ---- values of registers ---- */

struct evaluation {
    const gs_ptx_kernel *kernel;
    uint32_t looping[MOST_LOOPING]; /* registers that stand for themselves */
    int looping_count;
    int depth; /* how many registers are being followed: each takes some of the stack */
    int left;  /* how many more may be */
};

static gs_linear value_of(struct evaluation *evaluation, const gs_ptx_operand *operand, gs_linear_side side);

static uint32_t writer_count(const gs_ptx_kernel *kernel, uint32_t number) {
    return kernel->writer_first[number + 1] - kernel->writer_first[number];
}

static const gs_ptx_statement *writer_at(const gs_ptx_kernel *kernel, uint32_t number, uint32_t index) {
    return &kernel->module->statements.data[kernel->writers[kernel->writer_first[number] + index]];
}

const gs_ptx_statement *gs_ptx_only_writer(const gs_ptx_kernel *kernel, uint32_t number) {
    return writer_count(kernel, number) == 1 ? writer_at(kernel, number, 0) : NULL;
}

static uint32_t bytes_of_register(const gs_ptx_kernel *kernel, uint32_t number) {
    return gs_ptx_type_bytes(gs_ptx_register_type(kernel->module, kernel->function, number));
}

static gs_linear special_value(const gs_ptx_operand *operand) {
    switch (operand->value) {
    case GS_PTX_CTAID:
        return linear_symbol(GS_LINEAR_BLOCK, operand->part);
    case GS_PTX_NCTAID:
        return linear_symbol(GS_LINEAR_BLOCKS, operand->part);
    case GS_PTX_TID:
        return linear_symbol(GS_LINEAR_THREAD, operand->part);
    case GS_PTX_NTID:
        return linear_symbol(GS_LINEAR_THREADS, operand->part);
    case GS_PTX_LANEID:
        return linear_symbol(GS_LINEAR_LANE, 0);
    default:
        return unknown;
    }
}

/* The parameter that an address of ld.param names, directly or through a register that holds its address, and the
   offset in it. NULL: not known. */
static const gs_ptx_operand *parameter_of(const gs_ptx_kernel *kernel, const gs_ptx_operand *address,
                                          uint32_t *offset) {
    enum { LONGEST = 4 };
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    const gs_ptx_operand *named = address->count == 1 ? &module->operands.data[address->children] : NULL;
    *offset = named ? (uint32_t)named->bits : 0;
    for (int i = 0; i < LONGEST && named && named->kind == GS_PTX_REGISTER; i++) {
        const gs_ptx_statement *writer = gs_ptx_only_writer(kernel, named->value);
        bool is_move =
            writer && writer->count == 2 && writer->guard == GS_PTX_NONE && gs_ptx_math_of(writer) == GS_PTX_MATH_MOVE;
        named = is_move ? &module->operands.data[writer->operands + 1] : NULL;
        *offset += named ? (uint32_t)named->bits : 0;
    }
    bool is_parameter =
        named && named->kind == GS_PTX_SYMBOL && named->value - function->parameters < function->parameter_count;
    return is_parameter ? named : NULL;
}

/* The place of a register among the results of a load: bytes from the first. */
static uint32_t offset_in_results(const gs_ptx_kernel *kernel, const gs_ptx_operand *results, uint32_t number) {
    const gs_ptx_operand *children = kernel->module->operands.data + results->children;
    for (uint32_t i = 0; i < results->count; i++)
        if (children[i].kind == GS_PTX_REGISTER && children[i].value == number)
            return i * bytes_of_register(kernel, number);
    return 0;
}

/* What is loaded with 32 bits from a parameter is not what is loaded with 64: the bytes are a part of the symbol. */
enum { PARAMETER_BYTES = 1 << 24 };

static gs_linear parameter_value(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, uint32_t number) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_operand *operands = module->operands.data + statement->operands;
    uint32_t offset;
    const gs_ptx_operand *named = statement->count > 1 ? parameter_of(kernel, &operands[1], &offset) : NULL;
    if (!named || !gs_ptx_has_whole_registers(kernel, statement))
        return unknown;
    offset += offset_in_results(kernel, &operands[0], number) + PARAMETER_BYTES * bytes_of_register(kernel, number);
    return linear_symbol(GS_LINEAR_PARAMETER,
                         (uint64_t)(named->value - module->functions.data[kernel->function].parameters) << 32 | offset);
}

/* A value that another thread of the block may have computed: the same if it depends on no thread. */
static gs_linear value_of_block(gs_linear value) {
    for (int i = 0; i < value.count; i++)
        if (has_any(&value.terms[i], THREADS | 1 << GS_LINEAR_REGISTER))
            return unknown;
    return value;
}

/* Whether threads of a block may wait for each other at a statement other than at a barrier to which all of them come
   together. */
static bool may_wait_apart(const gs_ptx_kernel *kernel, uint32_t number) {
    const gs_ptx_statement *statement = &kernel->module->statements.data[number];
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    switch (gs_ptx_row(statement)->waits) {
    case GS_PTX_WAITS_NOT:
    case GS_PTX_WAITS_COPIES:
    case GS_PTX_WAITS_KERNEL:
        return statement->opcode == GS_PTX_CALL;
    case GS_PTX_WAITS_BLOCK:
        return statement->count != 1 || kernel->module->operands.data[statement->operands].kind != GS_PTX_INTEGER ||
               gs_ptx_scope_at(kernel, number) != GS_PTX_SAME_BLOCK;
    default:
        return true;
    }
}

/* Whether threads come to a statement without loops, and without waits apart from the others, searching backward in the
   text: `before` has the blocks that lead to it. */
static bool comes_straight(const gs_ptx_kernel *kernel, uint32_t number, bool *before) {
    const gs_ptx_flow *flow = &kernel->flow;
    uint32_t there = gs_ptx_flow_block(flow, number);
    before[there] = true;
    for (uint32_t b = (uint32_t)flow->blocks.count; b-- > 0;) {
        const gs_ptx_block *block = &flow->blocks.data[b];
        for (int k = 0; k < 2; k++) {
            uint32_t next = block->successors[k];
            if (next >= flow->blocks.count || !before[next])
                continue;
            if (next <= b)
                return false;
            before[b] = true;
        }
        if (block->target_count)
            return false;
        for (uint32_t i = block->first; before[b] && i <= block->last && i < (b == there ? number : UINT32_MAX); i++)
            if (may_wait_apart(kernel, i))
                return false;
    }
    return true;
}

/* Finds the blocks to which each way goes through a load that all threads of a block run, straight from the beginning.
   What is stored there is not loaded: the storing thread has come through the load, and nothing lets another thread
   wait for it before that. False: no such load. */
static bool find_blocks_behind(const gs_ptx_kernel *kernel, uint32_t load, bool *behind) {
    const gs_ptx_flow *flow = &kernel->flow;
    uint32_t there = gs_ptx_flow_block(flow, load);
    if (!kernel->uniform.runs || gs_ptx_scope_at(kernel, load) != GS_PTX_SAME_BLOCK ||
        !comes_straight(kernel, load, behind))
        return false;
    memset(behind, 0, flow->blocks.count + 1);
    behind[there] = true; /* the search does not go on from it */
    if (there && !gs_ptx_flow_reach(flow, 0, behind))
        return false;
    behind[0] = behind[0] || there;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        behind[b] = !behind[b];
    return true;
}

/* Whether two statements access different bytes of a variable. */
static bool are_bytes_apart(const gs_ptx_kernel *kernel, const gs_ptx_statement *one, const gs_ptx_operand *place,
                            const gs_ptx_statement *other, const gs_ptx_operand *other_place) {
    int64_t distance = (int64_t)(other_place->bits - place->bits);
    return distance >= gs_ptx_bytes_of(kernel, one) || -distance >= gs_ptx_bytes_of(kernel, other);
}

/* `ld.shared.u32 %rd1, [s]`: a number of 32 bits is loaded, and converted to 64. */
static bool loads_wide(const gs_ptx_kernel *kernel, const gs_ptx_statement *load) {
    const gs_ptx_operand *result = gs_ptx_operand_at(kernel, load, 0);
    return gs_ptx_has(kernel->module, load, "u32 s32") && !result->part &&
           bytes_of_register(kernel, result->value) == 8;
}

/* A value loaded from shared or local memory: that of the only store there, if both are of the same bytes. */
static gs_linear stored_value(struct evaluation *evaluation, const gs_ptx_statement *load, const bool *behind) {
    const gs_ptx_kernel *kernel = evaluation->kernel;
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    const gs_ptx_operand *operands = module->operands.data + load->operands;
    const gs_ptx_operand *place = load->count == 2 && operands[1].count == 1 && operands[0].kind == GS_PTX_REGISTER
                                      ? &module->operands.data[operands[1].children]
                                      : NULL;
    const gs_ptx_operand *value = NULL;
    uint32_t number = (uint32_t)(load - module->statements.data), there = gs_ptx_flow_block(&kernel->flow, number);
    gs_ptx_memory memory = gs_ptx_memory_of(module, place);
    if (!memory.is_known || !(gs_ptx_has_whole_registers(kernel, load) || loads_wide(kernel, load)))
        return unknown;
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[i];
        if (statement->opcode == GS_PTX_COMPUTE || statement->opcode == GS_PTX_LOAD ||
            !(gs_ptx_writes(module, statement) & (GS_PTX_IN_SHARED | GS_PTX_IN_LOCAL)) ||
            (behind && (behind[gs_ptx_flow_block(&kernel->flow, i)] ||
                        (i > number && gs_ptx_flow_block(&kernel->flow, i) == there))))
            continue;
        uint32_t at = gs_ptx_address_written(module, statement);
        const gs_ptx_operand *to = at == GS_PTX_NONE ? NULL : &module->operands.data[statement->operands + at];
        const gs_ptx_operand *named = to && to->count == 1 ? &module->operands.data[to->children] : NULL;
        gs_ptx_memory written = gs_ptx_memory_of(module, named);
        bool is_named = written.is_known;
        if (is_named && (written.variable != memory.variable || are_bytes_apart(kernel, load, place, statement, named)))
            continue;
        gs_linear_origin origin = to ? gs_linear_origin_of(kernel, to) : (gs_linear_origin){.is_unknown = true};
        bool is_elsewhere = !is_named && !origin.is_unknown;
        for (int k = 0; k < origin.count; k++)
            is_elsewhere = is_elsewhere && origin.symbols[k] != ((uint64_t)GS_LINEAR_VARIABLE << 56 | memory.variable);
        if (is_elsewhere)
            continue;
        if (!is_named || value || statement->opcode != GS_PTX_STORE || statement->count != 2 ||
            named->bits != place->bits || gs_ptx_bytes_of(kernel, statement) != gs_ptx_bytes_of(kernel, load) ||
            !gs_ptx_has_whole_registers(kernel, statement))
            return unknown;
        value = &module->operands.data[statement->operands + 1];
    }
    gs_linear stored = value ? value_of_block(value_of(evaluation, value, GS_LINEAR_EXACT)) : unknown;
    return loads_wide(kernel, load) && gs_linear_is_number(&stored) && stored.number < 0 ? unknown : stored;
}

static gs_linear loaded_value(struct evaluation *evaluation, const gs_ptx_statement *load) {
    const gs_ptx_kernel *kernel = evaluation->kernel;
    bool *behind = calloc(kernel->flow.blocks.count + 1, sizeof *behind);
    bool is_found = behind && find_blocks_behind(kernel, (uint32_t)(load - kernel->module->statements.data), behind);
    gs_linear value = stored_value(evaluation, load, is_found ? behind : NULL);
    free(behind);
    return value;
}

static gs_linear memory_value(struct evaluation *evaluation, const gs_ptx_statement *statement, uint32_t number) {
    const gs_ptx_module *module = evaluation->kernel->module;
    uint8_t reads = gs_ptx_reads(module, statement);
    if (reads == GS_PTX_IN_PARAM)
        return parameter_value(evaluation->kernel, statement, number);
    if (statement->opcode == GS_PTX_LOAD && !(reads & GS_PTX_IN_GLOBAL))
        return loaded_value(evaluation, statement);
    if (gs_ptx_atomic_kind(module, statement) == GS_PTX_ATOMIC_ADD && reads & GS_PTX_IN_GLOBAL &&
        !gs_ptx_is_real(module, statement) && gs_ptx_has_whole_registers(evaluation->kernel, statement))
        return linear_symbol(
            GS_LINEAR_TICKET,
            (uint64_t)(statement - module->statements.data) |
                (bytes_of_register(evaluation->kernel, number) == 8 ? (uint64_t)GS_LINEAR_IS_WIDE << 32 : 0));
    return unknown;
}

static gs_linear_side other_side(gs_linear_side side) {
    return side == GS_LINEAR_AT_MOST ? GS_LINEAR_AT_LEAST : side == GS_LINEAR_AT_LEAST ? GS_LINEAR_AT_MOST : side;
}

/* Whether a number of 32 bits would become another one of 64: -1 without its sign is 2^32 - 1. */
static bool loses_sign(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, const gs_linear *value) {
    gs_ptx_type types[2];
    gs_ptx_find_types(kernel->module, statement, types);
    bool is_unsigned = types[gs_ptx_math_of(statement) == GS_PTX_MATH_CONVERT] == GS_PTX_U32;
    return is_unsigned && gs_linear_is_number(value) && value->number < 0;
}

/* A product: bounds are kept only if the factor is a positive number. */
static gs_linear product_of(struct evaluation *evaluation, const gs_ptx_statement *statement, gs_linear_side side) {
    const gs_ptx_kernel *kernel = evaluation->kernel;
    const gs_ptx_operand *operands = kernel->module->operands.data + statement->operands + 1;
    gs_linear one = value_of(evaluation, &operands[0], GS_LINEAR_EXACT),
              other = value_of(evaluation, &operands[1], GS_LINEAR_EXACT);
    if (!one.is_known && gs_linear_is_positive(&other))
        one = value_of(evaluation, &operands[0], side);
    else if (!other.is_known && gs_linear_is_positive(&one))
        other = value_of(evaluation, &operands[1], side);
    if (gs_ptx_has(kernel->module, statement, "wide") &&
        (loses_sign(kernel, statement, &one) || loses_sign(kernel, statement, &other)))
        return unknown;
    return gs_linear_product(&one, &other);
}

static gs_linear shifted_value(struct evaluation *evaluation, const gs_ptx_operand *operands, gs_linear_side side) {
    gs_linear by = value_of(evaluation, &operands[1], GS_LINEAR_EXACT);
    gs_linear value = value_of(evaluation, &operands[0], side);
    if (!gs_linear_is_number(&by) || by.number < 0 || by.number > 30)
        return unknown;
    return gs_linear_add(linear_number(0), &value, 1ll << by.number);
}

/* The bytes that a conversion adds to a value; negative: it takes some away. 0: it does something else. */
static int bytes_added(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    gs_ptx_type types[2];
    if (gs_ptx_math_of(statement) != GS_PTX_MATH_CONVERT || !gs_ptx_has_whole_registers(kernel, statement))
        return 0;
    gs_ptx_find_types(kernel->module, statement, types);
    return (int)gs_ptx_type_bytes(types[0]) - (int)gs_ptx_type_bytes(types[1]);
}

/* A conversion to 64 bits; or to 32, of what was converted from 32 before, and of numbers of blocks and threads and
   addresses in shared memory, which fit. */
static gs_linear converted_value(struct evaluation *evaluation, const gs_ptx_statement *statement,
                                 gs_linear_side side) {
    const gs_ptx_kernel *kernel = evaluation->kernel;
    const gs_ptx_operand *from = gs_ptx_operand_at(kernel, statement, 1);
    bool is_narrow = bytes_added(kernel, statement) < 0;
    const gs_ptx_statement *writer =
        is_narrow && from->kind == GS_PTX_REGISTER ? gs_ptx_only_writer(kernel, from->value) : NULL;
    if (!gs_ptx_has_whole_registers(kernel, statement))
        return unknown;
    if (writer && writer->guard == GS_PTX_NONE && bytes_added(kernel, writer) > 0)
        return value_of(evaluation, gs_ptx_operand_at(kernel, writer, 1), side);
    gs_linear value = value_of(evaluation, from, is_narrow ? GS_LINEAR_EXACT : side);
    for (int i = 0; i < value.count && is_narrow; i++)
        if (has_any(&value.terms[i], 1 << GS_LINEAR_PARAMETER | 1 << GS_LINEAR_REGISTER))
            return unknown;
    return loses_sign(kernel, statement, &value) ? unknown : value;
}

static gs_linear computed_value(struct evaluation *evaluation, const gs_ptx_statement *statement, gs_linear_side side) {
    const gs_ptx_operand *operands = evaluation->kernel->module->operands.data + statement->operands + 1;
    gs_linear one, other;
    switch (gs_ptx_math_of(statement)) {
    case GS_PTX_MATH_CONVERT:
        return converted_value(evaluation, statement, side);
    case GS_PTX_MATH_MOVE:
    case GS_PTX_MATH_CONVERT_ADDRESS:
        return value_of(evaluation, &operands[0], side);
    case GS_PTX_MATH_ADD:
        one = value_of(evaluation, &operands[0], side);
        other = value_of(evaluation, &operands[1], side);
        return gs_linear_add(one, &other, 1);
    case GS_PTX_MATH_SUB:
        one = value_of(evaluation, &operands[0], side);
        other = value_of(evaluation, &operands[1], other_side(side));
        return gs_linear_add(one, &other, -1);
    case GS_PTX_MATH_NOT: /* ~x = -x - 1 */
    case GS_PTX_MATH_NEGATE:
        one = value_of(evaluation, &operands[0], other_side(side));
        return gs_linear_add(linear_number(gs_ptx_math_of(statement) == GS_PTX_MATH_NOT ? -1 : 0), &one, -1);
    case GS_PTX_MATH_SHL:
        return shifted_value(evaluation, operands, side);
    case GS_PTX_MATH_MUL:
        return product_of(evaluation, statement, side);
    case GS_PTX_MATH_MAD:
        one = product_of(evaluation, statement, side);
        other = value_of(evaluation, &operands[2], side);
        return gs_linear_add(one, &other, 1);
    default:
        return unknown;
    }
}

static gs_linear result_of(struct evaluation *evaluation, const gs_ptx_statement *statement, uint32_t number,
                           gs_linear_side side) {
    const gs_ptx_module *module = evaluation->kernel->module;
    const gs_ptx_operand *operands = module->operands.data + statement->operands;
    if (statement->guard != GS_PTX_NONE || statement->count < 2)
        return unknown;
    if (statement->opcode != GS_PTX_COMPUTE && gs_ptx_reads(module, statement))
        return memory_value(evaluation, statement, number);
    if (statement->opcode == GS_PTX_SHUFFLE && gs_ptx_row(statement)->result == GS_PTX_OF_ONE_LANE)
        return value_of_block(value_of(evaluation, &operands[1], GS_LINEAR_EXACT));
    if (operands[0].kind != GS_PTX_REGISTER || gs_ptx_is_real(module, statement) ||
        gs_ptx_has(module, statement, "hi sat cc"))
        return unknown;
    gs_ptx_math math = gs_ptx_math_of(statement);
    bool is_pair = math == GS_PTX_MATH_ADD || math == GS_PTX_MATH_SUB || math == GS_PTX_MATH_SHL ||
                   math == GS_PTX_MATH_MUL || math == GS_PTX_MATH_MAD;
    if (statement->count < (math == GS_PTX_MATH_MAD ? 4 : is_pair ? 3 : 2))
        return unknown;
    bool is_wide = bytes_of_register(evaluation->kernel, number) == 8;
    for (uint32_t i = 1; i < statement->count && is_wide; i++)
        if (operands[i].kind == GS_PTX_INTEGER && operands[i].bits >> 31 == 1)
            return unknown; /* no stride is so large */
    return computed_value(evaluation, statement, side);
}

/* Whether a change of a register never leads away from the side that is asked for, and is not so large that high bits
   are lost at once. */
static bool is_toward(const gs_linear *change, gs_linear_side side) {
    int64_t sign = side == GS_LINEAR_AT_MOST ? -1 : 1;
    if (!change->is_known || change->number * sign < 0 ||
        gs_linear_most(change, GS_LINEAR_MOST_BLOCKS) >= 1ull << (change->lost ? 31 : 62))
        return false;
    for (int i = 0; i < change->count; i++)
        if (change->terms[i].times * sign < 0 || !has_only(&change->terms[i], COUNTS | THREADS))
            return false;
    return true;
}

/* The only block from which a thread comes to another one, over one edge; GS_PTX_NONE: there are several, or none. */
static uint32_t only_block_before(const gs_ptx_flow *flow, uint32_t block) {
    uint32_t found = GS_PTX_NONE;
    for (uint32_t b = 0; b < flow->blocks.count; b++) {
        const gs_ptx_block *data = &flow->blocks.data[b];
        for (int i = 0; i < 2; i++) {
            if (data->successors[i] == block && found != GS_PTX_NONE)
                return GS_PTX_NONE;
            found = data->successors[i] == block ? b : found;
        }
        for (uint32_t i = 0; i < data->target_count; i++)
            if (flow->targets.data[data->targets + i] == block)
                return GS_PTX_NONE;
    }
    return block ? found : GS_PTX_NONE; /* the first block is also where a thread begins */
}

/* The test, in the block before, by which a register is 0 where a statement runs; NULL: none. */
static const gs_ptx_statement *test_for_zero(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_flow *flow = &kernel->flow;
    uint32_t block = gs_ptx_flow_block(flow, gs_ptx_number_of(kernel, statement));
    uint32_t before = only_block_before(flow, block);
    if (before == GS_PTX_NONE)
        return NULL;
    const gs_ptx_block *data = &flow->blocks.data[before];
    const gs_ptx_statement *branch = gs_ptx_statement_at(kernel, data->last);
    const gs_ptx_statement *test = branch->guard == GS_PTX_NONE ? NULL : gs_ptx_only_writer(kernel, branch->guard);
    if (!test || gs_ptx_flow_block(flow, gs_ptx_number_of(kernel, test)) != before || test->guard != GS_PTX_NONE ||
        test->count != 3 || gs_ptx_math_of(test) != GS_PTX_MATH_COMPARE || gs_ptx_is_real(kernel->module, test))
        return NULL;
    bool holds = (block == data->successors[0]) != branch->guard_is_negated;
    const gs_ptx_operand *zero = gs_ptx_operand_at(kernel, test, 2);
    return gs_ptx_has(kernel->module, test, holds ? "eq" : "ne") && zero->kind == GS_PTX_INTEGER && !zero->bits &&
                   gs_ptx_operand_at(kernel, test, 0)->kind == GS_PTX_REGISTER
               ? test
               : NULL;
}

/* if (x == 0) i = 0; else i = x; is i = x in both: what a 0 stands for. */
static gs_linear value_of_zero(struct evaluation *evaluation, const gs_ptx_statement *move, gs_linear_side side) {
    const gs_ptx_kernel *kernel = evaluation->kernel;
    const gs_ptx_operand *zero = gs_ptx_operand_at(kernel, move, 1);
    const gs_ptx_statement *test = gs_ptx_math_of(move) == GS_PTX_MATH_MOVE && move->guard == GS_PTX_NONE &&
                                           zero->kind == GS_PTX_INTEGER && !zero->bits
                                       ? test_for_zero(kernel, move)
                                       : NULL;
    const gs_ptx_operand *tested = test ? gs_ptx_operand_at(kernel, test, 1) : NULL;
    const gs_ptx_statement *writer =
        tested && tested->kind == GS_PTX_REGISTER ? gs_ptx_only_writer(kernel, tested->value) : NULL;
    if (!writer)
        return unknown;
    /* it is not written between the test and the move */
    uint32_t at = gs_ptx_number_of(kernel, writer), first = gs_ptx_number_of(kernel, test);
    uint32_t here = gs_ptx_flow_block(&kernel->flow, gs_ptx_number_of(kernel, move));
    bool is_later = gs_ptx_flow_block(&kernel->flow, at) == gs_ptx_flow_block(&kernel->flow, first) && at > first;
    return is_later || gs_ptx_flow_block(&kernel->flow, at) == here ? unknown : value_of(evaluation, tested, side);
}

/* A register that is written in several places: at most its first value, which may be set in several places, if all
   other writes only decrease it. `by_tests`: a 0 counts as what was found to be 0. */
static gs_linear bound_by(struct evaluation *evaluation, uint32_t number, gs_linear_side side, bool by_tests) {
    enum { MOST_WRITERS = 16 };
    uint32_t writers = writer_count(evaluation->kernel, number);
    gs_linear first = unknown, self = linear_symbol(GS_LINEAR_REGISTER, number);
    uint64_t step = 0;
    if (evaluation->looping_count == MOST_LOOPING || writers > MOST_WRITERS || side == GS_LINEAR_EXACT)
        return unknown;
    evaluation->looping[evaluation->looping_count++] = number;
    bool is_well = true;
    for (uint32_t i = 0; i < writers && is_well; i++) {
        const gs_ptx_statement *writer = writer_at(evaluation->kernel, number, i);
        gs_linear value = by_tests ? value_of_zero(evaluation, writer, side) : unknown;
        if (!value.is_known)
            value = result_of(evaluation, writer, number, side);
        value = gs_linear_in_register(value, bytes_of_register(evaluation->kernel, number));
        gs_linear change = gs_linear_add(value, &self, -1);
        if (is_toward(&change, side)) {
            uint64_t most = gs_linear_most(&change, GS_LINEAR_MOST_BLOCKS);
            step = step > most ? step : most;
            continue;
        }
        is_well = value.is_known && (!first.is_known || have_same_terms(&value, &first));
        for (int k = 0; k < value.count; k++)
            is_well = is_well && !has_any(&value.terms[k], 1 << GS_LINEAR_REGISTER);
        value.lost = value.lost > first.lost ? value.lost : first.lost;
        first = value;
    }
    evaluation->looping_count--;
    first.step = first.step > step ? first.step : step;
    return is_well ? first : unknown;
}

static gs_linear bound_of(struct evaluation *evaluation, uint32_t number, gs_linear_side side) {
    gs_linear value = bound_by(evaluation, number, side, false);
    return value.is_known ? value : bound_by(evaluation, number, side, true);
}

static gs_linear register_value(struct evaluation *evaluation, uint32_t number, gs_linear_side side) {
    for (int i = 0; i < evaluation->looping_count; i++)
        if (number == evaluation->looping[i])
            return linear_symbol(GS_LINEAR_REGISTER, number);
    if (evaluation->depth == DEEPEST || evaluation->left-- <= 0)
        return unknown;
    evaluation->depth++;
    uint32_t writers = writer_count(evaluation->kernel, number);
    gs_linear value = unknown;
    if (writers == 1)
        value = result_of(evaluation, writer_at(evaluation->kernel, number, 0), number, side);
    else if (writers > 1)
        value = bound_of(evaluation, number, side);
    evaluation->depth--;
    return gs_linear_in_register(value, bytes_of_register(evaluation->kernel, number));
}

static gs_linear value_of(struct evaluation *evaluation, const gs_ptx_operand *operand, gs_linear_side side) {
    gs_linear offset = linear_number((int64_t)operand->bits);
    gs_linear value = unknown;
    gs_ptx_memory memory;
    switch (operand->kind) {
    case GS_PTX_REGISTER:
        value = operand->part || operand->is_negated ? unknown : register_value(evaluation, operand->value, side);
        return gs_linear_add(value, &offset, 1);
    case GS_PTX_SYMBOL:
        memory = gs_ptx_memory_of(evaluation->kernel->module, operand);
        value = memory.is_known ? linear_symbol(GS_LINEAR_VARIABLE, memory.variable) : unknown;
        return gs_linear_add(value, &offset, 1);
    case GS_PTX_ADDRESS:
        return operand->count == 1
                   ? value_of(evaluation, &evaluation->kernel->module->operands.data[operand->children], side)
                   : unknown;
    case GS_PTX_SPECIAL:
        return special_value(operand);
    case GS_PTX_INTEGER: /* 4294967295 is -1 in 32 bits; in 64 it is too large to be a stride */
        return operand->bits >> 31 == 1 ? linear_number((int32_t)operand->bits) : offset;
    default:
        return unknown;
    }
}

gs_linear gs_linear_value(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand, gs_linear_side side) {
    struct evaluation evaluation = {.kernel = kernel, .left = MOST_STEPS};
    return value_of(&evaluation, operand, side);
}

/* ---- the low bits of an address ---- */

/* What is known of a value: its lowest bits, without the pointer that it contains. */
struct residue {
    int bits; /* how many, */
    uint64_t value;
    int pointers; /* and how many pointers were left out */
};

static struct residue residue_of(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand, int depth);

static int trailing_zeros(uint64_t number) {
    return number ? __builtin_ctzll(number) : 64;
}

static struct residue residue_of_result(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, int depth) {
    const gs_ptx_operand *operands = kernel->module->operands.data + statement->operands;
    struct residue none = {.bits = 0}, one = none, other = none;
    gs_ptx_math math = gs_ptx_math_of(statement);
    if (statement->guard != GS_PTX_NONE || statement->count < 2 || operands[0].kind != GS_PTX_REGISTER)
        return none;
    if (gs_ptx_reads(kernel->module, statement) == GS_PTX_IN_PARAM)
        return parameter_value(kernel, statement, operands[0].value).is_known ? (struct residue){64, 0, 1} : none;
    if (math == GS_PTX_MATH_NONE || gs_ptx_is_real(kernel->module, statement) ||
        gs_ptx_has(kernel->module, statement, "hi sat") || bytes_of_register(kernel, operands[0].value) < 4 ||
        (math == GS_PTX_MATH_CONVERT && !gs_ptx_has_whole_registers(kernel, statement)))
        return none;
    one = residue_of(kernel, &operands[1], depth + 1);
    if (statement->count > 2)
        other = residue_of(kernel, &operands[2], depth + 1);
    bool is_number = statement->count > 2 && operands[2].kind == GS_PTX_INTEGER;
    int shift = is_number ? (int)(operands[2].bits & 63) : 0, zeros = is_number ? trailing_zeros(operands[2].bits) : 0;
    switch (math) {
    case GS_PTX_MATH_MOVE:
    case GS_PTX_MATH_CONVERT:
    case GS_PTX_MATH_CONVERT_ADDRESS:
        return one;
    case GS_PTX_MATH_ADD:
        return (struct residue){one.bits < other.bits ? one.bits : other.bits, one.value + other.value,
                                one.pointers + other.pointers};
    case GS_PTX_MATH_SHL:
        return is_number && !one.pointers ? (struct residue){one.bits + shift, one.value << shift, 0} : none;
    case GS_PTX_MATH_MUL:
        return is_number && !one.pointers ? (struct residue){one.bits + zeros, one.value * operands[2].bits, 0} : none;
    case GS_PTX_MATH_AND:
        return is_number && !one.pointers
                   ? (struct residue){one.bits > zeros ? one.bits : zeros, one.value & operands[2].bits, 0}
                   : none;
    default:
        return none;
    }
}

/* An index in memory has no known bits, but may be multiplied. */
static struct residue residue_of(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand, int depth) {
    struct residue residue = {.bits = 0};
    if (operand->kind == GS_PTX_INTEGER)
        return (struct residue){64, operand->bits, 0};
    if (gs_ptx_memory_of(kernel->module, operand).is_known)
        return (struct residue){64, operand->bits, 1};
    const gs_ptx_statement *writer = operand->kind == GS_PTX_REGISTER && !operand->part && depth < 16
                                         ? gs_ptx_only_writer(kernel, operand->value)
                                         : NULL;
    if (writer)
        residue = residue_of_result(kernel, writer, depth);
    residue.bits = residue.bits > 64 ? 64 : residue.bits;
    residue.value += operand->kind == GS_PTX_REGISTER ? operand->bits : 0;
    return residue;
}

bool gs_linear_are_apart(const gs_ptx_kernel *kernel, const gs_ptx_operand *one, int64_t one_bytes,
                         const gs_ptx_operand *other, int64_t other_bytes) {
    const gs_ptx_operand *operands = kernel->module->operands.data;
    if (one->count != 1 || other->count != 1)
        return false;
    struct residue first = residue_of(kernel, &operands[one->children], 0),
                   second = residue_of(kernel, &operands[other->children], 0);
    int bits = first.bits < second.bits ? first.bits : second.bits;
    if (first.pointers != 1 || second.pointers != 1 || bits < 1)
        return false;
    bits = bits > 20 ? 20 : bits;
    int64_t period = 1ll << bits, distance = (int64_t)((second.value - first.value) & (uint64_t)(period - 1));
    return distance >= one_bytes && period - distance >= other_bytes;
}

/* ---- the order of blocks ---- */

#define BLOCK(part)  ((uint64_t)GS_LINEAR_BLOCK << 56 | (part))
#define BLOCKS(part) ((uint64_t)GS_LINEAR_BLOCKS << 56 | (part))

/* The numbers that grow with the order in which blocks begin, in all grids, in those of one layer, and of one row.
   Blocks of a row, or of a layer, share a number that does not have x: which of them begins first is not known by it.
 */
static const struct {
    gs_linear_order needs;
    int count;
    uint64_t terms[3][3];
} numberings[] = {
    {GS_LINEAR_ANY_GRID, 3, {{BLOCK('x')}, {BLOCK('y'), BLOCKS('x')}, {BLOCK('z'), BLOCKS('x'), BLOCKS('y')}}},
    {GS_LINEAR_ANY_GRID, 2, {{BLOCK('y')}, {BLOCK('z'), BLOCKS('y')}}},
    {GS_LINEAR_ANY_GRID, 1, {{BLOCK('z')}}},
    {GS_LINEAR_ONE_LAYER, 2, {{BLOCK('x')}, {BLOCK('y'), BLOCKS('x')}}},
    {GS_LINEAR_ONE_LAYER, 1, {{BLOCK('y')}}},
    {GS_LINEAR_ONE_ROW, 1, {{BLOCK('x')}}},
};

static gs_linear product_of_symbols(const uint64_t *symbols, int count) {
    gs_linear product = linear_number(1);
    for (int i = 0; i < count && symbols[i]; i++) {
        gs_linear factor = linear_factor(symbols[i]);
        product = gs_linear_product(&product, &factor);
    }
    return product;
}

/* What is left of a sum in a grid of one layer, or of one row. */
static gs_linear in_smaller_grid(const gs_linear *sum, gs_linear_order order) {
    gs_linear smaller = linear_number(sum->number);
    smaller.is_known = sum->is_known;
    for (int i = 0; i < sum->count; i++) {
        gs_linear product = linear_number(sum->terms[i].times);
        for (int k = 0; k < GS_LINEAR_FACTORS; k++) {
            uint64_t symbol = sum->terms[i].factors[k];
            char part = (char)symbol;
            bool is_flat = part == 'z' || (part == 'y' && order == GS_LINEAR_ONE_ROW);
            gs_linear factor = product_of_symbols(&symbol, 1);
            if (order != GS_LINEAR_ANY_GRID && is_flat && kind_of(symbol) == GS_LINEAR_BLOCK)
                factor = linear_number(0);
            if (order != GS_LINEAR_ANY_GRID && is_flat && kind_of(symbol) == GS_LINEAR_BLOCKS)
                factor = linear_number(1);
            product = gs_linear_product(&product, &factor);
        }
        smaller = gs_linear_add(smaller, &product, 1);
    }
    smaller.lost = sum->lost;
    smaller.step = sum->step;
    return smaller;
}

/* The terms of a sum that have a block number or a ticket. */
static gs_linear block_part(const gs_linear *sum) {
    gs_linear part = linear_number(0);
    for (int i = 0; i < sum->count; i++)
        if (has_any(&sum->terms[i], 1 << GS_LINEAR_BLOCK | 1 << GS_LINEAR_TICKET))
            add_term(&part, sum->terms[i].factors, sum->terms[i].times);
    return part;
}

/* The S of S * L: what the first term of L is multiplied with. */
static gs_linear stride_of(const gs_linear *blocks, uint64_t leader) {
    gs_linear stride = linear_number(0);
    for (int i = 0; i < blocks->count; i++)
        for (int k = 0; k < GS_LINEAR_FACTORS; k++)
            if (blocks->terms[i].factors[k] == leader) {
                gs_linear product = linear_number(blocks->terms[i].times);
                for (int j = 0; j < GS_LINEAR_FACTORS; j++) {
                    gs_linear factor = product_of_symbols(&blocks->terms[i].factors[j], 1);
                    product = j == k ? product : gs_linear_product(&product, &factor);
                }
                stride = gs_linear_add(stride, &product, 1);
                break;
            }
    return stride;
}

/* The greatest value of a term with the number of a thread: each is below the count of threads. */
static gs_linear greatest_of(const struct gs_linear_term *term, int64_t times) {
    gs_linear product = linear_number(times);
    if (times <= 0)
        return linear_number(0);
    for (int i = 0; i < GS_LINEAR_FACTORS; i++) {
        uint64_t symbol = term->factors[i];
        gs_linear factor = product_of_symbols(&symbol, 1);
        if (kind_of(symbol) == GS_LINEAR_LANE)
            factor = linear_number(31);
        if (kind_of(symbol) == GS_LINEAR_THREAD) {
            factor = linear_symbol(GS_LINEAR_THREADS, (uint8_t)symbol);
            factor.number = -1;
        }
        product = gs_linear_product(&product, &factor);
    }
    return product;
}

/* Adds the greatest value of the terms of a sum without blocks, times 1 or -1. */
static gs_linear add_greatest(gs_linear bound, const gs_linear *sum, int64_t times) {
    gs_linear number = linear_number(sum->number);
    bound = gs_linear_add(bound, &number, times);
    for (int i = 0; i < sum->count; i++) {
        const struct gs_linear_term *term = &sum->terms[i];
        gs_linear value = linear_number(0);
        if (has_any(term, 1 << GS_LINEAR_BLOCK | 1 << GS_LINEAR_TICKET))
            continue;
        if (has_any(term, THREADS)) {
            if (!has_only(term, THREADS | COUNTS))
                return unknown;
            value = greatest_of(term, term->times * times);
        } else {
            add_term(&value, term->factors, term->times * times);
        }
        bound = gs_linear_add(bound, &value, 1);
    }
    return bound;
}

/* Whether a sum is negative: counts are at least 1, and nothing else may be in it. */
static bool is_negative(const gs_linear *sum) {
    int64_t most = sum->number;
    for (int i = 0; i < sum->count; i++) {
        if (sum->terms[i].times > 0 || !has_only(&sum->terms[i], COUNTS))
            return false;
        most += sum->terms[i].times;
    }
    return sum->is_known && most < 0;
}

/* A bound of a sum, in which counts of threads are replaced by the most that the kernel allows. */
static gs_linear with_most_threads(const gs_linear *sum, int64_t threads) {
    gs_linear bound = linear_number(sum->number);
    bound.is_known = sum->is_known;
    for (int i = 0; i < sum->count; i++) {
        const struct gs_linear_term *term = &sum->terms[i];
        bool is_one_count =
            kind_of(term->factors[GS_LINEAR_FACTORS - 1]) == GS_LINEAR_THREADS && !term->factors[GS_LINEAR_FACTORS - 2];
        gs_linear value = linear_number(0);
        if (threads && is_one_count && term->times > 0)
            value = linear_number(threads);
        else
            add_term(&value, term->factors, 1);
        bound = gs_linear_add(bound, &value, term->times);
    }
    return bound;
}

/* Whether S * L is what both addresses have of the blocks, and the rest is less than S: then the L of the block that
   writes is not above that of the block that waits. If blocks share an L, it must be below: the rest is less than 0.
   Returns the most blocks of a grid in which that holds; 0: it does not. */
static uint32_t follows_numbering(const gs_linear *awaited, const gs_linear *written, gs_linear_sizes sizes,
                                  uint64_t leader, const gs_linear *numbering) {
    bool is_shared = leader == BLOCK('y') || leader == BLOCK('z');
    gs_linear blocks = block_part(awaited), other = block_part(written);
    gs_linear stride = stride_of(&blocks, leader);
    gs_linear product = gs_linear_product(&stride, numbering);
    if (!gs_linear_is_positive(&stride) || !have_same_terms(&product, &blocks) || !have_same_terms(&product, &other))
        return 0;
    gs_linear bound = add_greatest(linear_number(sizes.bytes - 1), awaited, 1);
    bound = add_greatest(bound, written, -1);
    if (!is_shared)
        bound = gs_linear_add(bound, &stride, -1);
    bound = with_most_threads(&bound, sizes.threads);
    gs_linear difference = gs_linear_add(*awaited, written, -1);
    return is_negative(&bound) ? gs_linear_most_blocks(awaited, written, &difference, sizes) : 0;
}

/* The same for what is written, with a sum that is 0 in the writing thread added S times. */
static uint32_t follows_with_zeros(const gs_linear *awaited, const gs_linear *written, gs_linear_sizes sizes,
                                   uint64_t leader, const gs_linear *numbering, gs_linear_order order,
                                   const gs_linear *zeros, int zero_count) {
    gs_linear blocks = block_part(awaited);
    gs_linear stride = stride_of(&blocks, leader);
    uint32_t most = follows_numbering(awaited, written, sizes, leader, numbering);
    for (int i = 0; i < zero_count && !most; i++) {
        gs_linear zero = in_smaller_grid(&zeros[i], order), more = gs_linear_product(&zero, &stride);
        gs_linear moved = gs_linear_add(*written, &more, 1);
        most = moved.is_known ? follows_numbering(awaited, &moved, sizes, leader, numbering) : 0;
    }
    return most;
}

static uint32_t follows_tickets(const gs_linear *awaited, const gs_linear *written, gs_linear_sizes sizes,
                                const gs_linear *zeros, int zero_count) {
    uint32_t most = 0;
    for (int i = 0; i < awaited->count; i++)
        for (int k = 0; k < GS_LINEAR_FACTORS && !most; k++) {
            uint64_t symbol = awaited->terms[i].factors[k];
            gs_linear ticket = product_of_symbols(&symbol, 1);
            if (kind_of(symbol) == GS_LINEAR_TICKET)
                most =
                    follows_with_zeros(awaited, written, sizes, symbol, &ticket, GS_LINEAR_ANY_GRID, zeros, zero_count);
        }
    return most;
}

gs_linear_order gs_linear_order_of(const gs_linear *awaited, const gs_linear *written, gs_linear_sizes sizes,
                                   const gs_linear *zeros, int zero_count, uint32_t *most_blocks) {
    if (!awaited->is_known || !written->is_known)
        return GS_LINEAR_NO_ORDER;
    *most_blocks = follows_tickets(awaited, written, sizes, zeros, zero_count);
    if (*most_blocks)
        return GS_LINEAR_BY_TICKETS;
    for (size_t i = 0; i < GS_COUNT(numberings); i++) {
        gs_linear here = in_smaller_grid(awaited, numberings[i].needs),
                  there = in_smaller_grid(written, numberings[i].needs), numbering = linear_number(0);
        for (int k = 0; k < numberings[i].count; k++) {
            gs_linear term = product_of_symbols(numberings[i].terms[k], 3);
            numbering = gs_linear_add(numbering, &term, 1);
        }
        *most_blocks = follows_with_zeros(&here, &there, sizes, numberings[i].terms[0][0], &numbering,
                                          numberings[i].needs, zeros, zero_count);
        if (*most_blocks)
            return numberings[i].needs;
    }
    return GS_LINEAR_NO_ORDER;
}

/* ---- the pointers that an address is derived from ---- */

/* What a value is for an address: the pointer, a half of it, or a number that is added to one. */
enum role { POINTER, HALF, OFFSET, ROLES };

struct trace {
    const gs_ptx_kernel *kernel;
    gs_linear_origin origin;
    bool *seen; /* seen[register * ROLES + role] */
    int depth;
};

static void trace_register(struct trace *trace, uint32_t number, enum role role);

static void add_origin(struct trace *trace, uint64_t symbol) {
    gs_linear_origin *origin = &trace->origin;
    for (int i = 0; i < origin->count; i++)
        if (origin->symbols[i] == symbol)
            return;
    if (origin->count == GS_LINEAR_ORIGINS)
        origin->is_unknown = true;
    else
        origin->symbols[origin->count++] = symbol;
}

static void trace_operand(struct trace *trace, const gs_ptx_operand *operand, enum role role) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ)
        trace_register(trace, operand->value, role);
    gs_ptx_memory memory = gs_ptx_memory_of(trace->kernel->module, operand);
    if (memory.variable != GS_PTX_NONE)
        add_origin(trace, (uint64_t)GS_LINEAR_VARIABLE << 56 | memory.variable);
    for (uint32_t i = 0; i < operand->count; i++)
        trace_operand(trace, &trace->kernel->module->operands.data[operand->children + i],
                      operand->kind == GS_PTX_VECTOR ? HALF : role);
}

/* Whether an operand is what cvta gives: a pointer. */
static bool is_converted(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand) {
    const gs_ptx_statement *writer =
        operand->kind == GS_PTX_REGISTER ? gs_ptx_only_writer(kernel, operand->value) : NULL;
    return writer && gs_ptx_math_of(writer) == GS_PTX_MATH_CONVERT_ADDRESS;
}

/* Products and shifted values are not pointers, except a half that is shifted up; only a value that is added to a
   product may be one. What is added to a pointer is an offset. */
static void trace_computed(struct trace *trace, const gs_ptx_statement *statement, enum role role) {
    const gs_ptx_kernel *kernel = trace->kernel;
    const gs_ptx_operand *operands = kernel->module->operands.data + statement->operands;
    gs_ptx_math math = gs_ptx_math_of(statement);
    bool is_shift = math == GS_PTX_MATH_SHL && statement->count == 3;
    bool is_sum = role == POINTER && math == GS_PTX_MATH_ADD && statement->count == 3;
    if (role == OFFSET && math == GS_PTX_MATH_CONVERT_ADDRESS)
        role = POINTER;
    if (role != HALF && is_shift && operands[2].kind == GS_PTX_INTEGER && operands[2].bits >= 16)
        role = HALF;
    else if (role != HALF && (is_shift || math == GS_PTX_MATH_MUL))
        return;
    for (uint32_t i = math == GS_PTX_MATH_MAD && role != HALF ? 3 : 1; i < statement->count; i++) {
        bool is_added = is_sum && is_converted(kernel, &operands[3 - i]) && !is_converted(kernel, &operands[i]);
        trace_operand(trace, &operands[i], is_added ? OFFSET : role);
    }
}

/* Only loads of 64 bits return pointers, or two of 32 of which one is made; results of calls and of unknown
   instructions may be pointers, too. */
static void trace_statement(struct trace *trace, const gs_ptx_statement *statement, uint32_t number, enum role role) {
    const gs_ptx_kernel *kernel = trace->kernel;
    uint8_t reads = gs_ptx_reads(kernel->module, statement);
    bool is_wide = role == HALF || bytes_of_register(kernel, number) == 8;
    if (reads == GS_PTX_IN_PARAM && is_wide) {
        gs_linear loaded = parameter_value(kernel, statement, number);
        if (loaded.is_known)
            add_origin(trace, loaded.terms[0].factors[GS_LINEAR_FACTORS - 1] &
                                  ~(0xffull * PARAMETER_BYTES | (role == HALF ? 7 : 0)));
        else
            trace->origin.is_unknown = true;
    } else if (!reads && (statement->opcode == GS_PTX_COMPUTE || statement->opcode == GS_PTX_SHUFFLE)) {
        trace_computed(trace, statement, role);
    } else if (role != OFFSET || statement->opcode != GS_PTX_LOAD) {
        trace->origin.is_unknown = trace->origin.is_unknown || is_wide;
    }
}

static void trace_register(struct trace *trace, uint32_t number, enum role role) {
    bool *seen = &trace->seen[(size_t)number * ROLES + role];
    if (*seen || trace->origin.is_unknown)
        return;
    *seen = true;
    trace->origin.is_unknown = ++trace->depth > LONGEST_WAY;
    for (uint32_t i = 0; i < writer_count(trace->kernel, number) && !trace->origin.is_unknown; i++)
        trace_statement(trace, writer_at(trace->kernel, number, i), number, role);
    trace->depth--;
}

gs_linear_origin gs_linear_origin_of(const gs_ptx_kernel *kernel, const gs_ptx_operand *address) {
    size_t registers = kernel->module->functions.data[kernel->function].register_count + 1;
    struct trace trace = {.kernel = kernel, .seen = calloc(ROLES * registers, sizeof(bool))};
    trace.origin.is_unknown = !trace.seen;
    if (trace.seen)
        trace_operand(&trace, address, POINTER);
    free(trace.seen);
    trace.origin.is_unknown = trace.origin.is_unknown || !trace.origin.count;
    return trace.origin;
}

bool gs_linear_share_origin(const gs_linear_origin *one, const gs_linear_origin *other) {
    for (int i = 0; i < one->count; i++)
        for (int j = 0; j < other->count; j++)
            if (one->symbols[i] == other->symbols[j])
                return true;
    return one->is_unknown || other->is_unknown;
}

bool gs_linear_is_of_variables(const gs_linear_origin *origin) {
    for (int i = 0; i < origin->count; i++)
        if (kind_of(origin->symbols[i]) != GS_LINEAR_VARIABLE)
            return false;
    return !origin->is_unknown;
}

static bool is_private(const gs_ptx_kernel *kernel, uint64_t symbol) {
    if (kind_of(symbol) != GS_LINEAR_VARIABLE)
        return false;
    uint8_t space = kernel->module->variables.data[(uint32_t)symbol].space;
    return space == GS_PTX_SHARED || space == GS_PTX_LOCAL || space == GS_PTX_PARAM;
}

bool gs_linear_is_private(const gs_ptx_kernel *kernel, const gs_linear_origin *origin) {
    for (int i = 0; i < origin->count; i++)
        if (!is_private(kernel, origin->symbols[i]))
            return false;
    return !origin->is_unknown;
}

bool gs_linear_may_be_private(const gs_ptx_kernel *kernel, const gs_linear_origin *origin) {
    for (int i = 0; i < origin->count; i++)
        if (is_private(kernel, origin->symbols[i]))
            return true;
    return origin->is_unknown;
}
