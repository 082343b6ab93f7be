/*
 * flow_lanes.c: how a register differs between the lanes of a warp, and so how many transactions a load or store makes.
 *
 * Followed are numbers, and values that grow by the same step from lane to lane: numbers of threads, what is added to
 * them, and products with numbers. Such a value is known modulo 2^32. Addresses have 64 bits, in two registers: LOW and
 * HIGH with the same `maker`, the instruction that wrote the first of them. Together they grow by a step, exactly, in
 * each of at most `pieces` parts of the lanes: where an index of 32 bits goes around, a second piece begins, unless its
 * range is known.
 *
 * If a row of the block has fewer than 32 threads, a warp has several rows, and what is known may hold in each of them
 * only: in each group of `width` lanes. So it is with the number of a thread that is masked or shifted to the right. A
 * value that was written under a predicate that varies holds for instructions under the same predicate.
 *
 * A selection between such a value and one that is the same in all lanes, or the smaller or larger of both, is either
 * of them in each lane: `others` counts the values that some lanes may have instead.
 */
#include "flow_parts.h"

#include <stdlib.h>

enum {
    VIADD = 0x036,
    IADD3 = 0x010,
    IMAD = 0x024,
    IMAD_WIDE = 0x025,
    LEA = 0x011,
    SHF = 0x019,
    HFMA2_MMA = 0x035,
    LOP3 = 0x012,
    SEL = 0x007,
    VIADDMNMX = 0x046,
    VIMNMX = 0x048
};
enum { WARP = 32, MOST_PIECES = 4, MOST_OTHERS = 4, MOST_STEP = 1 << 20, SHIFTS = 32 };

static const gs_lanes varies = {.kind = GS_LANES_VARY};

gs_lanes gs_lanes_step(int64_t step, int width) {
    if (llabs(step) > MOST_STEP)
        return varies;
    return (gs_lanes){.kind = GS_LANES_STEP, .width = (uint8_t)width, .step = (int32_t)step};
}

static gs_lanes number_of(uint32_t number) {
    return (gs_lanes){.kind = GS_LANES_NUMBER, .width = WARP, .step = (int32_t)number};
}

bool gs_lanes_same(gs_lanes lanes) {
    return lanes.kind == GS_LANES_NUMBER || (lanes.kind == GS_LANES_STEP && !lanes.step && !lanes.others);
}

bool gs_lanes_uniform(gs_lanes lanes) {
    return lanes.width == WARP && !lanes.guard && gs_lanes_same(lanes);
}

static int least_width(gs_lanes a, gs_lanes b) {
    return a.width < b.width ? a.width : b.width;
}

bool gs_lanes_have_step(gs_lanes lanes) {
    return lanes.kind == GS_LANES_NUMBER || lanes.kind == GS_LANES_STEP || lanes.kind == GS_LANES_LOW;
}

static int64_t step_of(gs_lanes lanes) {
    return lanes.kind == GS_LANES_NUMBER ? 0 : lanes.step;
}

static bool same_lanes(gs_lanes a, gs_lanes b) {
    return a.kind == b.kind && a.width == b.width && a.is_thread == b.is_thread && a.guard == b.guard &&
           a.pieces == b.pieces && a.others == b.others && a.step == b.step && a.maker == b.maker;
}

int gs_flow_row_lanes(const gs_flow_launch *launch) {
    int64_t x = launch->block[0];
    bool is_line = launch->block[1] == 1 && launch->block[2] == 1;
    return x % 32 == 0 || is_line ? 32 : x < 32 && (x & (x - 1)) == 0 ? (int)x : 0;
}

/* ---- operands ---- */

gs_lanes gs_lanes_at(const gs_flow_lanes *now, const gs_flow_instruction *instruction, unsigned number) {
    if (number == GS_NO_REGISTER)
        return number_of(0);
    gs_lanes lanes = now->registers[number];
    if (lanes.guard && lanes.guard != 1 + gs_bits(instruction->low, 12, 4))
        return varies;
    lanes.guard = 0;
    return lanes;
}

/* The operand in bits 32 to 63. */
static gs_lanes lanes_in_word(const gs_flow_lanes *now, const gs_flow_instruction *instruction) {
    unsigned form = gs_form(instruction);
    if (form == 1)
        return gs_lanes_at(now, instruction, gs_bits(instruction->low, 32, 8));
    if (form == 2 || form == 4)
        return instruction->is_relocated ? gs_lanes_step(0, WARP) : number_of((uint32_t)(instruction->low >> 32));
    return form ? gs_lanes_step(0, WARP) : varies;
}

struct operands {
    gs_lanes a, b, c;
    unsigned c_register; /* of the high half of c, plus 1 */
};

static struct operands operands_of(const gs_flow_lanes *now, const gs_flow_instruction *instruction) {
    unsigned form = gs_form(instruction), c = gs_bits(instruction->high, 0, 8);
    bool is_swapped = form == 2 || form == 3 || form == 7;
    gs_lanes a = gs_lanes_at(now, instruction, gs_bits(instruction->low, 24, 8));
    gs_lanes word = lanes_in_word(now, instruction), last = gs_lanes_at(now, instruction, c);
    if (is_swapped)
        return (struct operands){a, last, word, form == 2 || form == 3 ? GS_NO_REGISTER + 1 : 0};
    return (struct operands){a, word, last, c + 1};
}

/* ---- results ---- */

static gs_lanes with_others(gs_lanes lanes, int others) {
    if (lanes.kind == GS_LANES_VARY || others > MOST_OTHERS)
        return varies;
    lanes.others = (uint8_t)others;
    return lanes;
}

static gs_lanes sum_of(gs_lanes a, gs_lanes b, bool subtracts) {
    if (!gs_lanes_have_step(a) || !gs_lanes_have_step(b) || (a.others && !gs_lanes_same(b)) ||
        (b.others && !gs_lanes_same(a)))
        return varies;
    if (a.kind == GS_LANES_NUMBER && b.kind == GS_LANES_NUMBER)
        return number_of((uint32_t)a.step + (subtracts ? -(uint32_t)b.step : (uint32_t)b.step));
    return with_others(gs_lanes_step(step_of(a) + (subtracts ? -step_of(b) : step_of(b)), least_width(a, b)),
                       a.others + b.others);
}

static gs_lanes product_of(gs_lanes a, gs_lanes b) {
    if (a.kind == GS_LANES_NUMBER && b.kind == GS_LANES_NUMBER)
        return number_of((uint32_t)a.step * (uint32_t)b.step);
    if (gs_lanes_same(a) && gs_lanes_same(b))
        return gs_lanes_step(0, least_width(a, b));
    if (b.kind == GS_LANES_NUMBER && gs_lanes_have_step(a))
        return with_others(gs_lanes_step(step_of(a) * b.step, a.width), a.others);
    if (a.kind == GS_LANES_NUMBER && gs_lanes_have_step(b))
        return with_others(gs_lanes_step(step_of(b) * a.step, b.width), b.others);
    return varies;
}

/* In each lane one of both, of which one is the same in all of them. */
static gs_lanes either_of(gs_lanes a, gs_lanes b) {
    gs_lanes more = gs_lanes_same(b) ? a : b, same = gs_lanes_same(b) ? b : a;
    if (!gs_lanes_same(same) || !gs_lanes_have_step(more))
        return varies;
    return with_others(gs_lanes_step(step_of(more), least_width(a, b)), more.others + 1);
}

/* SEL and VIMNMX: either of both, for each lane, or if the predicate does not vary, for all of them. VIADDMNMX: either
   the sum of the first two, or the third. */
static gs_lanes selected(const gs_flow_lanes *now, const gs_flow_instruction *instruction, struct operands operands) {
    bool is_sum = gs_operation(instruction) == VIADDMNMX;
    bool is_swapped = gs_form(instruction) == 2 || gs_form(instruction) == 3 || gs_form(instruction) == 7;
    bool is_negative = gs_form(instruction) != 4 && instruction->low >> 63;
    if (is_swapped || (gs_operation(instruction) != SEL && !gs_flow_is_plain_choice(instruction)))
        return varies;
    gs_lanes a = is_sum ? sum_of(operands.a, operands.b, is_negative) : operands.a;
    gs_lanes b = is_sum ? operands.c : operands.b;
    bool is_one = !now->predicates[gs_bits(instruction->high, 23, 3)] && gs_lanes_same(a) && gs_lanes_same(b);
    return is_one ? gs_lanes_step(0, least_width(a, b)) : either_of(a, b);
}

/* The low half of 64 bits that are shifted to the left. */
static gs_lanes shifted_low(gs_lanes low, int shift) {
    int64_t step = (int64_t)low.step * ((int64_t)1 << shift);
    if (llabs(step) > MOST_STEP || (low.maker & (SHIFTS - 1)) + shift >= SHIFTS)
        return varies;
    low.step = (int32_t)step;
    low.maker += shift;
    return low;
}

bool gs_lanes_are_halves(gs_lanes low, gs_lanes high) {
    return low.kind == GS_LANES_LOW && high.kind == GS_LANES_HIGH && low.maker == high.maker;
}

/* The carry that an addition of low halves leaves in a predicate, or in two, which IADD3 has in bits 87 and 77. */
static const gs_carry *carry_in(const gs_flow_lanes *now, const gs_flow_instruction *instruction) {
    const gs_carry *carry = &now->carries[gs_bits(instruction->high, 23, 3)];
    const gs_carry *other = &now->carries[gs_bits(instruction->high, 13, 3)];
    if (gs_bits(instruction->high, 26, 1) || !carry->maker)
        return NULL;
    bool has_both = gs_operation(instruction) == IADD3 && !gs_bits(instruction->high, 16, 1) &&
                    other->maker == carry->maker && other->is_second != carry->is_second;
    return !carry->has_two || has_both ? carry : NULL;
}

/* The high half of a sum: that of the addend, another number that is the same in all lanes, and the carry. */
static gs_lanes high_sum(const gs_flow_lanes *now, const gs_flow_instruction *instruction, gs_lanes high,
                         gs_lanes more) {
    const gs_carry *carry = carry_in(now, instruction);
    if (!carry || high.kind != GS_LANES_HIGH || high.maker != carry->of || !gs_lanes_same(more))
        return varies;
    high.maker = carry->maker;
    high.width = (uint8_t)least_width(high, more);
    return high;
}

/* Operands of a sum: the half of an address, and what is added to it. False: there is not one half, or it is negative.
 */
static bool split_sum(struct operands operands, const bool *negates, uint8_t half, gs_lanes *of, gs_lanes *more) {
    gs_lanes all[] = {operands.a, operands.b, operands.c};
    int found = -1;
    for (int i = 0; i < 3; i++)
        if (all[i].kind == half) {
            if (found >= 0 || negates[i])
                return false;
            found = i;
        }
    if (found < 0)
        return false;
    *of = all[found];
    *more = sum_of(all[(found + 1) % 3], all[(found + 2) % 3], false); /* only whether it is the same counts */
    return gs_lanes_same(*more);
}

/* IADD3: bits 72, 63 and 75 negate, bit 74 adds a carry. `*carry`: what it leaves for the high half. A high half to
   which something is added that has no carry, the same in all lanes, is one of the same low half. */
static gs_lanes added(const gs_flow_lanes *now, const gs_flow_instruction *instruction, struct operands operands,
                      int32_t at, gs_carry *carry) {
    unsigned form = gs_form(instruction);
    bool has_three = gs_bits(instruction->high, 0, 8) != GS_NO_REGISTER || form == 2 || form == 3 || form == 7;
    bool negates[] = {gs_bits(instruction->high, 8, 1), form != 2 && form != 4 && instruction->low >> 63,
                      gs_bits(instruction->high, 11, 1)};
    bool has_carries = gs_bits(instruction->high, 17, 3) != GS_NO_PREDICATE &&
                       (!has_three || gs_bits(instruction->high, 20, 3) != GS_NO_PREDICATE);
    gs_lanes half, more;
    if (split_sum(operands, negates, GS_LANES_HIGH, &half, &more)) {
        if (gs_bits(instruction->high, 10, 1))
            return high_sum(now, instruction, half, more);
        half.width = (uint8_t)least_width(half, more);
        return half;
    }
    if (gs_bits(instruction->high, 10, 1))
        return varies;
    if (split_sum(operands, negates, GS_LANES_LOW, &half, &more) && has_carries && gs_is_always(instruction)) {
        *carry = (gs_carry){.maker = at, .of = half.maker, .has_two = has_three};
        half.maker = at;
        half.width = (uint8_t)least_width(half, more);
        return half;
    }
    gs_lanes first = negates[0] ? sum_of(number_of(0), operands.a, true) : operands.a;
    return sum_of(sum_of(first, operands.b, negates[1]), operands.c, negates[2]);
}

/* The exponent of a power of two, or -1. */
static int power_of(gs_lanes lanes) {
    for (int shift = 0; shift < 31 && lanes.kind == GS_LANES_NUMBER; shift++)
        if (lanes.step == (int32_t)1 << shift)
            return shift;
    return -1;
}

/* IMAD: bit 74 adds a carry, as it does for high halves: a + c or c. */
static gs_lanes multiplied(const gs_flow_lanes *now, const gs_flow_instruction *instruction, struct operands operands) {
    bool negates = gs_bits(instruction->high, 8, 1) ||
                   (gs_form(instruction) != 2 && gs_form(instruction) != 4 && instruction->low >> 63);
    if (negates)
        return varies;
    if (gs_bits(instruction->high, 10, 1)) {
        bool is_one = operands.b.kind == GS_LANES_NUMBER && operands.b.step == 1;
        if (gs_bits(instruction->high, 11, 1))
            return varies;
        if (is_one && operands.a.kind == GS_LANES_HIGH)
            return high_sum(now, instruction, operands.a, operands.c);
        return high_sum(now, instruction, operands.c, product_of(operands.a, operands.b));
    }
    int shift = power_of(operands.b);
    gs_lanes high = operands.a.kind == GS_LANES_HIGH ? operands.a : operands.c;
    gs_lanes more = operands.a.kind == GS_LANES_HIGH ? operands.c : product_of(operands.a, operands.b);
    bool is_whole = operands.a.kind == GS_LANES_HIGH ? !shift : !gs_bits(instruction->high, 11, 1);
    if (high.kind == GS_LANES_HIGH && is_whole && gs_lanes_same(more)) {
        high.width = (uint8_t)least_width(high, more);
        return high;
    }
    if (operands.a.kind == GS_LANES_LOW && shift >= 0 && operands.c.kind == GS_LANES_NUMBER && !operands.c.step)
        return shift ? shifted_low(operands.a, shift)
                     : with_others(gs_lanes_step(operands.a.step, operands.a.width), operands.a.others);
    return sum_of(product_of(operands.a, operands.b), operands.c, gs_bits(instruction->high, 11, 1));
}

/* IMAD.WIDE: a product of 64 bits and a sum. An index that goes around begins another piece. */
static gs_lanes multiplied_wide(const gs_flow_lanes *now, const gs_flow_instruction *instruction,
                                struct operands operands, int32_t at, gs_lanes *high) {
    gs_lanes product = product_of(operands.a, operands.b), c = operands.c;
    unsigned upper = operands.c_register;
    bool is_plain = upper && !gs_bits(instruction->high, 10, 1) && !gs_bits(instruction->high, 8, 1) &&
                    !gs_bits(instruction->high, 11, 1) && (gs_form(instruction) == 4 || instruction->low >> 63 == 0);
    gs_lanes c_high = !upper                   ? varies
                      : upper > GS_NO_REGISTER ? gs_lanes_step(0, WARP)
                                               : gs_lanes_at(now, instruction, upper);
    bool is_pair = gs_lanes_are_halves(c, c_high);
    bool is_signed = gs_bits(instruction->high, 9, 1);
    bool is_large = (operands.a.kind == GS_LANES_NUMBER && operands.a.step < 0) ||
                    (operands.b.kind == GS_LANES_NUMBER && operands.b.step < 0);
    *high = varies;
    bool has_others = is_pair && (product.others || (c.others && !gs_lanes_same(product)));
    if (!is_plain || (is_large && !is_signed) || !gs_lanes_have_step(product) || has_others ||
        !(is_pair || (gs_lanes_same(c) && gs_lanes_same(c_high))))
        return varies;
    int64_t step = step_of(product) + (is_pair ? c.step : 0);
    int pieces = (is_pair ? c.pieces : 1) + (step_of(product) != 0 && !instruction->has_index);
    if (llabs(step) > MOST_STEP || pieces > MOST_PIECES)
        return varies;
    int width = least_width(product, least_width(c, c_high) == c.width ? c : c_high);
    int others = is_pair ? c.others : product.others;
    if (!step && pieces == 1 && !others)
        return *high = gs_lanes_step(0, width);
    *high = (gs_lanes){.kind = GS_LANES_HIGH, .width = (uint8_t)width, .maker = at};
    return (gs_lanes){.kind = GS_LANES_LOW,
                      .width = (uint8_t)width,
                      .pieces = (uint8_t)pieces,
                      .others = (uint8_t)others,
                      .step = (int32_t)step,
                      .maker = at};
}

/* LEA: the first operand shifted, plus the second. Bit 80: the high half, with the carry (bit 74) of the low one. */
static gs_lanes shifted_sum(const gs_flow_lanes *now, const gs_flow_instruction *instruction, struct operands operands,
                            int32_t at, gs_carry *carry) {
    unsigned form = gs_form(instruction), shift = gs_bits(instruction->high, 11, 5);
    bool is_high = gs_bits(instruction->high, 16, 1), has_carry = gs_bits(instruction->high, 10, 1);
    bool is_plain = !gs_bits(instruction->high, 8, 1) && !gs_bits(instruction->high, 9, 1) && is_high == has_carry &&
                    !(form != 4 && instruction->low >> 63) && form != 2 && form != 3 && form != 7 && shift < 31;
    gs_lanes low = operands.a;
    if (!is_plain)
        return varies;
    if (low.kind == GS_LANES_LOW && shift)
        low = shifted_low(low, (int)shift);
    if (is_high) {
        bool are_of_one = gs_lanes_are_halves(operands.a, operands.c) && low.kind == GS_LANES_LOW;
        operands.c.maker = low.maker;
        return are_of_one ? high_sum(now, instruction, operands.c, operands.b) : varies;
    }
    if (low.kind == GS_LANES_LOW && gs_lanes_same(operands.b) && gs_bits(instruction->high, 17, 3) != GS_NO_PREDICATE &&
        gs_is_always(instruction)) {
        *carry = (gs_carry){.maker = at, .of = low.maker};
        low.maker = at;
        low.width = (uint8_t)least_width(low, operands.b);
        return low;
    }
    return sum_of(product_of(operands.a, number_of((uint32_t)1 << shift)), operands.b, false);
}

/* A number of a thread without its low bits is the same in each group of lanes. */
static gs_lanes without_low_bits(gs_lanes lanes, uint32_t bits) {
    int width = bits < 5 && (1 << bits) < lanes.width ? 1 << bits : lanes.width;
    return lanes.is_thread ? gs_lanes_step(0, width) : varies;
}

static gs_lanes shifted(const gs_flow_instruction *instruction, struct operands operands) {
    enum { U64 = 1, SIGNED = 2, UNSIGNED = 3 };
    bool is_right = gs_bits(instruction->high, 12, 1), is_high = gs_bits(instruction->high, 16, 1);
    unsigned type = gs_bits(instruction->high, 9, 3);
    bool is_number = operands.b.kind == GS_LANES_NUMBER && (uint32_t)operands.b.step < 31;
    if (!is_number)
        return varies;
    uint32_t shift = (uint32_t)operands.b.step;
    if (!is_right && is_high && type == U64 && shift && gs_lanes_are_halves(operands.a, operands.c)) {
        gs_lanes low = shifted_low(operands.a, (int)shift);
        operands.c.maker = low.maker;
        return low.kind == GS_LANES_LOW ? operands.c : varies;
    }
    if (type != SIGNED && type != UNSIGNED)
        return varies;
    if (is_right)
        return is_high && shift ? without_low_bits(operands.c, shift) : varies;
    if (is_high)
        return varies;
    if (operands.a.kind == GS_LANES_LOW && shift)
        return shifted_low(operands.a, (int)shift);
    return product_of(operands.a, number_of((uint32_t)1 << shift));
}

/* LOP3 that masks the number of a thread. */
static gs_lanes masked(const gs_flow_instruction *instruction, struct operands operands) {
    enum { AND = 0xc0 };
    gs_lanes lanes = operands.a;
    if (gs_bits(instruction->high, 8, 8) != AND || operands.b.kind != GS_LANES_NUMBER || !lanes.is_thread)
        return varies;
    uint32_t mask = (uint32_t)operands.b.step;
    if ((mask & 1) == 0)
        return without_low_bits(lanes, mask ? (uint32_t)__builtin_ctz(mask) : SHIFTS - 1);
    if (mask & (mask + 1))
        return varies;
    lanes.width = (uint8_t)(mask < (uint32_t)lanes.width - 1 ? mask + 1 : lanes.width);
    return lanes;
}

static gs_lanes special_value(const gs_flow_instruction *instruction, const gs_flow_launch *launch) {
    enum { LANE = 0, THREAD_X = 0x21, THREAD_Z = 0x23, BLOCK_X = 0x25, BLOCK_Z = 0x27 };
    unsigned special = gs_bits(instruction->high, 8, 8);
    int row = gs_flow_row_lanes(launch);
    if (special >= BLOCK_X && special <= BLOCK_Z)
        return gs_lanes_step(0, WARP);
    if (special == LANE && row == 32)
        return (gs_lanes){.kind = GS_LANES_STEP, .width = WARP, .is_thread = true, .step = 1};
    if (!row || special < THREAD_X || special > THREAD_Z)
        return varies;
    gs_lanes lanes = gs_lanes_step(special == THREAD_X, row);
    lanes.is_thread = special == THREAD_X;
    return lanes;
}

/* HFMA2.MMA with two zero factors: how ptxas also writes a number. */
static gs_lanes half_number(const gs_flow_instruction *instruction) {
    uint32_t number = (uint32_t)(instruction->low >> 32);
    bool is_move = gs_form(instruction) == 2 && gs_bits(instruction->low, 24, 8) == GS_NO_REGISTER &&
                   gs_bits(instruction->high, 0, 8) == GS_NO_REGISTER;
    bool has_negative_zero = number >> 16 == 0x8000 || (number & 0xffff) == 0x8000;
    return is_move && !has_negative_zero ? number_of(number) : varies;
}

/* What the first register gets; `*high`: the second one. GS_LANES_VARY: nothing is known. */
static gs_lanes result_of(const gs_flow_lanes *now, const gs_flow_instruction *instruction,
                          const gs_flow_launch *launch, int32_t at, gs_lanes *high, gs_carry *carry) {
    struct operands operands = operands_of(now, instruction);
    switch (gs_operation(instruction)) {
    case GS_OP_MOV:
        return lanes_in_word(now, instruction);
    case IADD3:
        return added(now, instruction, operands, at, carry);
    case VIADD:
        operands.c = number_of(0);
        return gs_bits(instruction->high, 10, 1) ? varies : sum_of(operands.a, operands.b, false);
    case IMAD:
        return multiplied(now, instruction, operands);
    case IMAD_WIDE:
        return multiplied_wide(now, instruction, operands, at, high);
    case LEA:
        return shifted_sum(now, instruction, operands, at, carry);
    case SHF:
        return shifted(instruction, operands);
    case LOP3:
        return masked(instruction, operands);
    case SEL:
    case VIADDMNMX:
    case VIMNMX:
        return selected(now, instruction, operands);
    case HFMA2_MMA:
        return half_number(instruction);
    case GS_OP_S2R:
        return special_value(instruction, launch);
    default:
        return varies;
    }
}

/* ---- the state ---- */

/* A value under a guard, or an alternative to what was there. */
static gs_lanes guarded(const gs_flow_lanes *now, const gs_flow_instruction *instruction, gs_lanes old,
                        gs_lanes lanes) {
    bool is_varying = now->predicates[gs_guard_predicate(instruction)];
    if (gs_is_always(instruction))
        return lanes;
    if (!is_varying && same_lanes(old, lanes) && old.kind != GS_LANES_LOW && old.kind != GS_LANES_HIGH)
        return lanes;
    if (!is_varying && gs_lanes_uniform(old) && gs_lanes_uniform(lanes))
        return gs_lanes_step(0, WARP);
    lanes.guard = (uint8_t)(lanes.kind == GS_LANES_VARY ? 0 : 1 + gs_bits(instruction->low, 12, 4));
    return lanes;
}

/* SHF that makes the high half of a number with a sign: then its register is the low half. */
static bool is_sign(const gs_flow_lanes *now, const gs_flow_instruction *instruction) {
    enum { SIGNED = 2, BITS = 31 };
    unsigned of = gs_bits(instruction->high, 0, 8);
    bool is_shift = gs_operation(instruction) == SHF && gs_form(instruction) == 4 && instruction->low >> 32 == BITS &&
                    gs_bits(instruction->high, 12, 1) && gs_bits(instruction->high, 16, 1) &&
                    gs_bits(instruction->high, 9, 3) == SIGNED && gs_is_always(instruction);
    return is_shift && of != GS_NO_REGISTER && !now->registers[of].guard &&
           (now->registers[of].kind == GS_LANES_STEP || now->registers[of].kind == GS_LANES_LOW) &&
           now->registers[of].step;
}

/* What `maker` wrote before is not of the same round as what it writes now. */
static void forget_maker(gs_flow_lanes *now, int32_t maker) {
    for (int i = 0; i < GS_NO_REGISTER; i++)
        if ((now->registers[i].kind == GS_LANES_LOW || now->registers[i].kind == GS_LANES_HIGH) &&
            now->registers[i].maker / SHIFTS == maker / SHIFTS)
            now->registers[i] = varies;
    for (int i = 0; i < GS_NO_PREDICATE; i++)
        if (now->carries[i].maker / SHIFTS == maker / SHIFTS || now->carries[i].of / SHIFTS == maker / SHIFTS)
            now->carries[i] = (gs_carry){0};
}

static void write_predicate(gs_flow_lanes *now, int number, bool is_varying) {
    now->predicates[number] = is_varying;
    now->carries[number] = (gs_carry){0};
    for (int i = 0; i < GS_NO_REGISTER; i++)
        if (now->registers[i].guard && ((now->registers[i].guard - 1) & GS_NO_PREDICATE) == number)
            now->registers[i] = varies;
}

void gs_lanes_execute(gs_flow_lanes *now, const gs_flow_instruction *instruction, const gs_flow_launch *launch,
                      size_t at, bool is_varying) {
    gs_flow_written_set set = {0};
    unsigned first = gs_bits(instruction->low, 16, 8);
    int32_t maker = ((int32_t)at + 1) * SHIFTS;
    bool is_kept = !gs_is_always(instruction), is_parted = now->predicates[gs_guard_predicate(instruction)];
    gs_carry carry = {0};
    gs_lanes high = varies, low = result_of(now, instruction, launch, maker, &high, &carry);
    gs_flow_add_written(&set, instruction);
    if (low.kind == GS_LANES_VARY && !is_varying)
        low = gs_lanes_step(0, WARP);
    if (high.kind == GS_LANES_VARY && !is_varying)
        high = gs_lanes_step(0, WARP);
    if (low.kind == GS_LANES_LOW && low.maker == maker)
        forget_maker(now, maker);
    if (is_sign(now, instruction)) {
        gs_lanes *of = &now->registers[gs_bits(instruction->high, 0, 8)];
        forget_maker(now, maker);
        *of = (gs_lanes){.kind = GS_LANES_LOW,
                         .width = of->width,
                         .pieces = instruction->has_index ? 1 : 2,
                         .others = of->others,
                         .step = of->step,
                         .maker = maker};
        low = (gs_lanes){.kind = GS_LANES_HIGH, .width = of->width, .maker = maker};
    }
    for (unsigned i = 0; i < GS_NO_REGISTER; i++)
        if (set.registers[i]) {
            gs_lanes more = is_varying ? varies : gs_lanes_step(0, WARP);
            now->registers[i] = guarded(now, instruction, now->registers[i],
                                        i == first       ? low
                                        : i == first + 1 ? high
                                                         : more);
        }
    for (int i = 0; i < GS_NO_PREDICATE; i++)
        if (set.predicates[i])
            write_predicate(now, i, is_varying || is_parted || (is_kept && now->predicates[i]));
    if (carry.maker)
        now->carries[gs_bits(instruction->high, 17, 3)] = carry;
    if (carry.maker && carry.has_two) {
        carry.is_second = true;
        now->carries[gs_bits(instruction->high, 20, 3)] = carry;
    }
}

/* ---- where ways meet ---- */

/* The register with the low half of what `high` is the high half of, or -1. */
static int low_register(const gs_flow_lanes *lanes, int32_t maker) {
    for (int i = 0; i < GS_NO_REGISTER; i++)
        if (lanes->registers[i].kind == GS_LANES_LOW && lanes->registers[i].maker == maker)
            return i;
    return -1;
}

/* Halves by different makers become those of the place where the ways meet: `place` and the register of the low half.
 */
static gs_lanes join_halves(const gs_flow_lanes *into, const gs_flow_lanes *more, int number, int32_t place) {
    gs_lanes a = into->registers[number], b = more->registers[number];
    bool is_low = a.kind == GS_LANES_LOW;
    int of = is_low ? number : low_register(more, b.maker);
    if (of < 0 || a.step != b.step)
        return varies;
    gs_lanes low_a = into->registers[of], low_b = more->registers[of];
    int32_t maker = place + of * SHIFTS;
    bool is_pair = low_b.kind == GS_LANES_LOW && low_b.maker == b.maker && !low_b.guard && low_a.kind == GS_LANES_LOW &&
                   low_a.maker == a.maker && !low_a.guard;
    if (!is_pair)
        return varies;
    a.maker = maker;
    a.width = (uint8_t)least_width(a, b);
    a.pieces = a.pieces > b.pieces ? a.pieces : b.pieces;
    a.others = a.others > b.others ? a.others : b.others;
    return a;
}

static gs_lanes join_register(const gs_flow_lanes *into, const gs_flow_lanes *more, int number, int32_t place) {
    gs_lanes a = into->registers[number], b = more->registers[number];
    bool is_of_place = a.kind == GS_LANES_HIGH && a.maker >= place && a.maker < place + (GS_NO_REGISTER + 1) * SHIFTS;
    if (a.kind == GS_LANES_VARY || (same_lanes(a, b) && !is_of_place)) /* the low half may be another one now */
        return a;
    if (b.kind == GS_LANES_VARY || a.guard || b.guard)
        return varies;
    bool are_halves = a.kind == b.kind && (a.kind == GS_LANES_LOW || a.kind == GS_LANES_HIGH);
    if (are_halves)
        return join_halves(into, more, number, place);
    bool is_step = gs_lanes_have_step(a) && gs_lanes_have_step(b) && step_of(a) == step_of(b);
    return is_step
               ? with_others(gs_lanes_step(step_of(a), least_width(a, b)), a.others > b.others ? a.others : b.others)
               : varies;
}

bool gs_lanes_join(gs_flow_lanes *into, const gs_flow_lanes *more, int32_t block) {
    bool changes = !into->is_reached;
    if (!into->is_reached) {
        *into = *more;
        into->is_reached = true;
        return true;
    }
    gs_flow_lanes before = *into;
    for (int i = 0; i < GS_NO_REGISTER; i++) {
        gs_lanes joined = join_register(&before, more, i, -(block + 1) * (GS_NO_REGISTER + 1) * SHIFTS);
        changes = changes || !same_lanes(joined, before.registers[i]);
        into->registers[i] = joined;
    }
    for (int i = 0; i < GS_NO_PREDICATE; i++) {
        gs_carry *carry = &into->carries[i];
        bool is_other = carry->maker != more->carries[i].maker || carry->of != more->carries[i].of ||
                        carry->is_second != more->carries[i].is_second;
        changes = changes || (is_other && carry->maker) || (more->predicates[i] && !into->predicates[i]);
        if (is_other)
            *carry = (gs_carry){0};
        into->predicates[i] = into->predicates[i] || more->predicates[i];
    }
    return changes;
}
