/*
 * ptx_ranges.c: between which numbers a register is, where its writers show it. See ptx_facts.h.
 *
 * Kernels compute the numbers of barriers from the number of the warp: `threadIdx.x / 64 + 1`. A register holds a value
 * of one of its writers: of the last one before, if that is in the same basic block, else of any of them. Only ranges
 * below 2^15 are followed, in which signed and unsigned arithmetic of all widths agree, and nothing wraps around.
 */
#include "ptx_facts.h"

enum { MOST_THREADS = 1024, MOST_LAYERS = 64, MOST_STEPS = 2000, DEEPEST = 32 };

/* A search, which gives up after some steps. */
struct search {
    const gs_ptx_kernel *kernel;
    int steps_left;
};

struct range {
    uint64_t low, high; /* both may occur */
};

static const struct range nothing_known = {0, UINT64_MAX};
static const uint64_t largest = INT16_MAX;

static struct range range_of(struct search *search, const gs_ptx_operand *operand, uint32_t at, int depth);

static bool is_known(struct range range) {
    return range.low <= range.high && range.high <= largest;
}

static struct range range_from(uint64_t low, uint64_t high) {
    return low <= high && high <= largest ? (struct range){low, high} : nothing_known;
}

static struct range joined_ranges(struct range one, struct range other) {
    return range_from(gs_min_u64(one.low, other.low), gs_max_u64(one.high, other.high));
}

/* %tid.x is below the number of threads that the kernel allows. */
static struct range range_of_special(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand) {
    const gs_ptx_limits *limits = &kernel->module->functions.data[kernel->function].limits;
    int part = operand->part - 'x';
    bool is_part = part >= 0 && part < 3;
    uint64_t most = part == 2 ? MOST_LAYERS : MOST_THREADS;
    if (limits->max_threads[0])
        most = gs_min_u64(most, (uint64_t)limits->max_threads[0] * limits->max_threads[1] * limits->max_threads[2]);
    if (limits->required_threads[0] && is_part)
        most = gs_min_u64(most, limits->required_threads[part]);
    if (operand->value == GS_PTX_LANEID)
        return range_from(0, 31);
    if (operand->value == GS_PTX_TID && is_part)
        return range_from(0, most - 1);
    return operand->value == GS_PTX_NTID && is_part ? range_from(1, most) : nothing_known;
}

/* The smallest number of the form 2^n - 1 that is not below `number`. */
static uint64_t all_bits_of(uint64_t number) {
    uint64_t bits = 0;
    while (bits < number)
        bits = bits * 2 + 1;
    return bits;
}

/* `add r, r, -1` subtracts. */
static struct range range_of_sum(struct range one, const gs_ptx_operand *operand, struct range other) {
    uint64_t less = (0 - operand->bits) & UINT32_MAX;
    bool subtracts = operand->kind == GS_PTX_INTEGER && less <= largest && !is_known(other);
    if (subtracts)
        return is_known(one) && one.low >= less ? range_from(one.low - less, one.high - less) : nothing_known;
    return is_known(one) && is_known(other) ? range_from(one.low + other.low, one.high + other.high) : nothing_known;
}

static struct range range_of_product(struct range one, struct range other) {
    return is_known(one) && is_known(other) ? range_from(one.low * other.low, one.high * other.high) : nothing_known;
}

/* Operations with two known operands. */
static struct range range_of_two(gs_ptx_math math, struct range one, struct range other) {
    bool is_constant = other.low == other.high;
    switch (math) {
    case GS_PTX_MATH_SUB:
        return one.low >= other.high ? range_from(one.low - other.high, one.high - other.low) : nothing_known;
    case GS_PTX_MATH_MUL:
        return range_of_product(one, other);
    case GS_PTX_MATH_SHL:
        return is_constant && other.low < 16 ? range_from(one.low << other.low, one.high << other.low) : nothing_known;
    case GS_PTX_MATH_SHR:
        return is_constant && other.low < 32 ? range_from(one.low >> other.low, one.high >> other.low) : nothing_known;
    case GS_PTX_MATH_DIV:
        return is_constant && other.low ? range_from(one.low / other.low, one.high / other.low) : nothing_known;
    case GS_PTX_MATH_REM:
        return is_constant && other.low ? range_from(0, gs_min_u64(one.high, other.low - 1)) : nothing_known;
    case GS_PTX_MATH_OR:
    case GS_PTX_MATH_XOR:
        return range_from(0, all_bits_of(gs_max_u64(one.high, other.high)));
    case GS_PTX_MATH_MIN:
        return range_from(gs_min_u64(one.low, other.low), gs_min_u64(one.high, other.high));
    case GS_PTX_MATH_MAX:
        return range_from(gs_max_u64(one.low, other.low), gs_max_u64(one.high, other.high));
    default:
        return nothing_known;
    }
}

/* What a writer with one result writes. */
static struct range range_of_writer(struct search *search, const gs_ptx_statement *writer, int depth) {
    const gs_ptx_kernel *kernel = search->kernel;
    const gs_ptx_operand *operands = kernel->module->operands.data + writer->operands;
    uint32_t at = (uint32_t)(writer - kernel->module->statements.data);
    struct range sources[3] = {nothing_known, nothing_known, nothing_known};
    gs_ptx_math math = gs_ptx_math_of(writer);
    bool is_result_of_lane = gs_ptx_row(writer)->result == GS_PTX_OF_ONE_LANE && writer->count > 1;
    if (operands[0].kind != GS_PTX_REGISTER && !is_result_of_lane)
        return nothing_known;
    if (gs_ptx_is_real(kernel->module, writer) || gs_ptx_has(kernel->module, writer, "hi"))
        return nothing_known;
    for (uint32_t i = 1; i < writer->count && i < 4; i++)
        sources[i - 1] = range_of(search, &operands[i], at, depth + 1);
    if (is_result_of_lane || ((math == GS_PTX_MATH_MOVE || math == GS_PTX_MATH_CONVERT) && writer->count == 2))
        return gs_ptx_has(kernel->module, writer, "u8 s8 b8") && sources[0].high > INT8_MAX ? nothing_known
                                                                                            : sources[0];
    if (math == GS_PTX_MATH_SELECT && writer->count == 4)
        return joined_ranges(sources[0], sources[1]);
    if (math == GS_PTX_MATH_MAD && writer->count == 4)
        return range_of_sum(range_of_product(sources[0], sources[1]), &operands[3], sources[2]);
    if (writer->count != 3)
        return nothing_known;
    if (math == GS_PTX_MATH_ADD)
        return range_of_sum(sources[0], &operands[2], sources[1]);
    if (math == GS_PTX_MATH_AND) /* of a number that is known, whatever the other is */
        return range_from(0, gs_min_u64(sources[0].high, sources[1].high));
    return is_known(sources[0]) && is_known(sources[1]) ? range_of_two(math, sources[0], sources[1]) : nothing_known;
}

/* The place in `writers` of the last one before a statement, in its basic block and without a guard; `none`: none. */
static uint32_t last_writer(const gs_ptx_kernel *kernel, uint32_t number, uint32_t at, uint32_t none) {
    uint32_t begins = kernel->flow.blocks.data[gs_ptx_flow_block(&kernel->flow, at)].first;
    uint32_t found = none;
    for (uint32_t i = kernel->writer_first[number]; i < kernel->writer_first[number + 1]; i++)
        if (kernel->writers[i] >= begins && kernel->writers[i] < at)
            found = i;
    return found != none && kernel->module->statements.data[kernel->writers[found]].guard == GS_PTX_NONE ? found : none;
}

/* The range of an operand at a statement. */
static struct range range_of(struct search *search, const gs_ptx_operand *operand, uint32_t at, int depth) {
    const gs_ptx_kernel *kernel = search->kernel;
    if (operand->kind == GS_PTX_INTEGER)
        return range_from(operand->bits, operand->bits);
    if (operand->kind == GS_PTX_SPECIAL)
        return range_of_special(kernel, operand);
    if (operand->kind != GS_PTX_REGISTER || depth == DEEPEST || operand->part || search->steps_left-- <= 0)
        return nothing_known;
    uint32_t from = kernel->writer_first[operand->value], to = kernel->writer_first[operand->value + 1];
    struct range range = {UINT64_MAX, 0};
    uint32_t last = last_writer(kernel, operand->value, at, to);
    if (last < to)
        from = last, to = last + 1;
    for (uint32_t i = from; i < to && (i == from || is_known(range)); i++)
        range =
            joined_ranges(range, range_of_writer(search, &kernel->module->statements.data[kernel->writers[i]], depth));
    return from < to ? range : nothing_known;
}

bool gs_ptx_range(const gs_ptx_kernel *kernel, uint32_t statement, const gs_ptx_operand *operand, uint64_t *low,
                  uint64_t *high) {
    struct search search = {kernel, MOST_STEPS};
    struct range range = range_of(&search, operand, statement, 0);
    *low = range.low;
    *high = range.high;
    return is_known(range);
}
