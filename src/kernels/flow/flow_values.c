/*
 * flow_values.c: what registers can hold after an instruction, as ranges of numbers.
 *
 * Followed is what counters and limits of loops are made of: moves, sums, products, shifts, masks, the smaller and the
 * larger of two, numbers of threads and blocks, and parameters that the launch gives. Everything else makes a value
 * unknown. A range is of signed numbers of 32 bits; where a result can leave them, it is unknown.
 */
#include "flow_parts.h"

enum { IADD3 = 0x010, LEA = 0x011, LOP3 = 0x012, IABS = 0x013, SHF = 0x019, PLOP3 = 0x01c, IMAD = 0x024 };
enum {
    IMAD_WIDE = 0x025,
    HFMA2_MMA = 0x035,
    VIADD = 0x036,
    VIADDMNMX = 0x046,
    VIMNMX = 0x048,
    SEL = 0x007,
    ISETP = 0x00c,
    CS2R = 0x005
};
enum { UMOV = 0x082, USEL = 0x087, UISETP = 0x08c, UIADD3 = 0x090, ULEA = 0x091, ULOP3 = 0x092, USHF = 0x099 };
enum { UIMAD = 0x0a4, ULDC = 0x0b9, R2UR = 0x0ca, LDC = 0x182, S2UR = 0x1c3 };

static const gs_flow_value unknown = {.base = GS_NO_BASE};

gs_flow_value gs_flow_number(int64_t low, int64_t high) {
    if (low == high)
        low = high = (int32_t)(uint32_t)(uint64_t)low;
    if (low > high || low < INT32_MIN || high > INT32_MAX)
        return unknown;
    return (gs_flow_value){.is_known = true, .base = GS_NO_BASE, .low = low, .high = high};
}

bool gs_flow_is_exact(gs_flow_value value) {
    return value.is_known && value.base == GS_NO_BASE && value.low == value.high;
}

static bool is_number(gs_flow_value value) {
    return value.is_known && value.base == GS_NO_BASE;
}

static gs_flow_value sum_of(gs_flow_value a, gs_flow_value b) {
    if (gs_flow_is_exact(b) && b.low == 0)
        return a;
    if (gs_flow_is_exact(a) && a.low == 0)
        return b;
    if (!a.is_known || !b.is_known || (a.base != GS_NO_BASE && b.base != GS_NO_BASE) || a.shift || b.shift)
        return unknown;
    gs_flow_value sum = gs_flow_number(a.low + b.low, a.high + b.high);
    if (sum.is_known)
        sum.base = a.base != GS_NO_BASE ? a.base : b.base;
    return sum;
}

static gs_flow_value negative_of(gs_flow_value value) {
    return is_number(value) ? gs_flow_number(-value.high, -value.low) : unknown;
}

/* What a register held, shifted. */
static gs_flow_value shifted_base(gs_flow_value value, int shift) {
    if (!value.is_known || value.base == GS_NO_BASE || value.shift || value.low || value.high)
        return unknown;
    value.shift = (int8_t)shift;
    return value;
}

/* The exponent of a power of two, else 0. */
static int power_of(gs_flow_value value) {
    for (int shift = 1; shift < 31 && gs_flow_is_exact(value); shift++)
        if (value.low == (int64_t)1 << shift)
            return shift;
    return 0;
}

static gs_flow_value product_of(gs_flow_value a, gs_flow_value b) {
    if (gs_flow_is_exact(a) && a.low == 1)
        return b;
    if (gs_flow_is_exact(b) && b.low == 1)
        return a;
    if ((gs_flow_is_exact(a) && a.low == 0) || (gs_flow_is_exact(b) && b.low == 0))
        return gs_flow_number(0, 0);
    if (power_of(b) && a.base != GS_NO_BASE)
        return shifted_base(a, power_of(b));
    if (power_of(a) && b.base != GS_NO_BASE)
        return shifted_base(b, power_of(a));
    if (!is_number(a) || !is_number(b))
        return unknown;
    int64_t corners[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    int64_t low = corners[0], high = corners[0];
    for (size_t i = 1; i < GS_COUNT(corners); i++) {
        low = corners[i] < low ? corners[i] : low;
        high = corners[i] > high ? corners[i] : high;
    }
    return gs_flow_number(low, high);
}

static gs_flow_value either_of(gs_flow_value a, gs_flow_value b) {
    if (!a.is_known || !b.is_known || a.base != b.base || a.shift != b.shift)
        return unknown;
    a.low = a.low < b.low ? a.low : b.low;
    a.high = a.high > b.high ? a.high : b.high;
    return a;
}

/* ---- operands ---- */

static gs_flow_value register_value(const gs_flow_state *state, unsigned number, bool is_uniform) {
    if (number == (is_uniform ? GS_NO_UNIFORM : GS_NO_REGISTER))
        return gs_flow_number(0, 0);
    return state->values[is_uniform ? GS_UNIFORM_BASE + number : number];
}

/* A constant of the kernel: sizes of the launch, and parameters. */
static gs_flow_value constant_value(const gs_flow_launch *launch, unsigned bank, size_t offset) {
    enum { BLOCK = 0, GRID = 12, SIZES = 24, PARAMETERS = 0x210 };
    if (bank != 0 || offset % 4)
        return unknown;
    if (offset < SIZES) {
        int64_t size = offset < GRID ? launch->block[offset / 4] : launch->grid[(offset - GRID) / 4];
        return size ? gs_flow_number(size, size) : unknown;
    }
    if (offset < PARAMETERS || offset + 4 > PARAMETERS + launch->bytes)
        return unknown;
    int32_t value;
    for (size_t i = 0; i < sizeof value; i++)
        if (!launch->is_known[offset - PARAMETERS + i])
            return unknown;
    memcpy(&value, launch->parameters + offset - PARAMETERS, sizeof value);
    return gs_flow_number(value, value);
}

static gs_flow_value constant_of(const gs_flow_instruction *instruction, const gs_flow_launch *launch, size_t more) {
    return constant_value(launch, gs_bits(instruction->low, 54, 5), gs_bits(instruction->low, 38, 16) + more);
}

/* The operand in bits 32 to 63. */
static gs_flow_value second_value(const gs_flow_state *state, const gs_flow_instruction *instruction,
                                  const gs_flow_launch *launch) {
    bool is_uniform = instruction->opcode->operands & GS_IS_UNIFORM;
    switch (gs_form(instruction)) {
    case 1:
        return register_value(state, gs_bits(instruction->low, 32, 8) & (is_uniform ? GS_NO_UNIFORM : 255), is_uniform);
    case 2:
    case 4:
        return gs_flow_number((int32_t)(instruction->low >> 32), (int32_t)(instruction->low >> 32));
    case 3:
    case 5:
        return constant_of(instruction, launch, 0);
    case 6:
    case 7:
        return register_value(state, gs_bits(instruction->low, 32, 6), true);
    default:
        return unknown;
    }
}

/* Whether the operand in bits 32 to 63 is the third one. */
static bool is_swapped(const gs_flow_instruction *instruction) {
    unsigned form = gs_form(instruction);
    return form == 2 || form == 3 || form == 7;
}

struct operands {
    gs_flow_value a, b, c;
};

static struct operands operands_of(const gs_flow_state *state, const gs_flow_instruction *instruction,
                                   const gs_flow_launch *launch) {
    bool is_uniform = instruction->opcode->operands & GS_IS_UNIFORM;
    unsigned mask = is_uniform ? GS_NO_UNIFORM : GS_NO_REGISTER;
    gs_flow_value a = register_value(state, gs_bits(instruction->low, 24, 8) & mask, is_uniform);
    gs_flow_value in_word = second_value(state, instruction, launch);
    gs_flow_value last = register_value(state, gs_bits(instruction->high, 0, 8) & mask, is_uniform);
    return is_swapped(instruction) ? (struct operands){a, last, in_word} : (struct operands){a, in_word, last};
}

/* ---- instructions ---- */

/* A sum: bits 72, 63 and 75 negate its operands, bit 74 adds a carry. */
static gs_flow_value added(const gs_flow_instruction *instruction, struct operands operands) {
    unsigned form = gs_form(instruction);
    if (gs_bits(instruction->high, 10, 1))
        return unknown;
    if (gs_bits(instruction->high, 8, 1))
        operands.a = negative_of(operands.a);
    if (form != 2 && form != 4 && instruction->low >> 63)
        operands.b = negative_of(operands.b);
    if (gs_bits(instruction->high, 11, 1))
        operands.c = negative_of(operands.c);
    return sum_of(sum_of(operands.a, operands.b), operands.c);
}

static gs_flow_value multiplied(const gs_flow_instruction *instruction, struct operands operands) {
    if (gs_bits(instruction->high, 10, 1) || gs_bits(instruction->high, 8, 1) ||
        (gs_form(instruction) != 2 && gs_form(instruction) != 4 && instruction->low >> 63))
        return unknown;
    if (gs_bits(instruction->high, 11, 1))
        operands.c = negative_of(operands.c);
    return sum_of(product_of(operands.a, operands.b), operands.c);
}

/* LEA. Bit 80: the high half of 64 bits that are shifted, which is the first operand shifted to the right, if the upper
   half of them is 0, or its sign (bit 73). */
static gs_flow_value shifted_sum(const gs_flow_instruction *instruction, struct operands operands) {
    int shift = (int)gs_bits(instruction->high, 11, 5);
    int64_t factor = (int64_t)1 << shift;
    bool is_high = gs_bits(instruction->high, 16, 1), is_signed = gs_bits(instruction->high, 9, 1);
    bool is_plain = !gs_bits(instruction->high, 8, 1) && !gs_bits(instruction->high, 10, 1) &&
                    !(gs_form(instruction) != 4 && instruction->low >> 63) && !is_swapped(instruction);
    if (!is_plain || factor > INT32_MAX)
        return unknown;
    if (!is_high)
        return is_signed ? unknown : sum_of(product_of(operands.a, gs_flow_number(factor, factor)), operands.b);
    bool is_extended = is_signed || (gs_bits(instruction->high, 0, 8) == GS_NO_REGISTER && operands.a.low >= 0);
    if (!shift || !is_number(operands.a) || !is_extended)
        return unknown;
    return sum_of(gs_flow_number(operands.a.low >> (32 - shift), operands.a.high >> (32 - shift)), operands.b);
}

static gs_flow_value masked(const gs_flow_instruction *instruction, struct operands operands) {
    enum { AND = 0xc0, NOT_A = 0x0f, NOT_B = 0x33 };
    unsigned table = gs_bits(instruction->high, 8, 8);
    gs_flow_value a = operands.a, b = operands.b;
    if (table == NOT_A || table == NOT_B)
        return sum_of(negative_of(table == NOT_A ? a : b), gs_flow_number(-1, -1));
    if (gs_flow_is_exact(a) && gs_flow_is_exact(b) && gs_flow_is_exact(operands.c)) {
        uint32_t x = (uint32_t)a.low, y = (uint32_t)b.low, z = (uint32_t)operands.c.low, result = 0;
        for (int i = 0; i < 8; i++)
            if (table >> i & 1)
                result |= (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
        return gs_flow_number((int32_t)result, (int32_t)result);
    }
    if (table != AND || !gs_flow_is_exact(b))
        return unknown;
    bool is_positive = is_number(a) && a.low >= 0;
    if (b.low >= 0)
        return gs_flow_number(0, is_positive && a.high < b.low ? a.high : b.low);
    bool clears_low_bits = (-b.low & (-b.low - 1)) == 0;
    return is_positive && clears_low_bits ? gs_flow_number(a.low & b.low, a.high & b.low) : unknown;
}

/* Shifts by a number, of one register. */
static gs_flow_value shifted(const gs_flow_instruction *instruction, struct operands operands) {
    enum { SIGNED = 2, UNSIGNED = 3 };
    bool is_right = gs_bits(instruction->high, 12, 1), is_high = gs_bits(instruction->high, 16, 1);
    unsigned type = gs_bits(instruction->high, 9, 3);
    if (!gs_flow_is_exact(operands.b) || operands.b.low < 0 || operands.b.low > 31 ||
        (type != SIGNED && type != UNSIGNED))
        return unknown;
    int shift = (int)operands.b.low;
    if (!is_right && !is_high)
        return product_of(operands.a, gs_flow_number((int64_t)1 << shift, (int64_t)1 << shift));
    if (is_right && is_high && type == UNSIGNED && shift && gs_flow_is_exact(operands.a) &&
        operands.c.base != GS_NO_BASE)
        return shifted_base(operands.c, -shift);
    bool is_plain = is_right && is_high && is_number(operands.c) && (type == SIGNED || operands.c.low >= 0);
    return is_plain ? gs_flow_number(operands.c.low >> shift, operands.c.high >> shift) : unknown;
}

static gs_flow_value smaller_or_larger(const gs_flow_instruction *instruction, gs_flow_value a, gs_flow_value b) {
    bool is_signed = gs_bits(instruction->high, 8, 1);
    bool is_plain = gs_bits(instruction->high, 23, 3) == GS_NO_PREDICATE && gs_flow_is_plain_choice(instruction) &&
                    is_number(a) && is_number(b) && (is_signed || (a.low >= 0 && b.low >= 0));
    bool is_larger = gs_bits(instruction->high, 26, 1);
    if (!is_plain)
        return unknown;
    if (is_larger)
        return gs_flow_number(a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high);
    return gs_flow_number(a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high);
}

static gs_flow_value special_value(const gs_flow_instruction *instruction, const gs_flow_launch *launch) {
    enum { LANE = 0, THREAD_X = 0x21, BLOCK_X = 0x25, LANES = 32 };
    unsigned number = gs_bits(instruction->high, 8, 8);
    int64_t size = 0;
    if (number == LANE)
        size = LANES;
    else if (number >= THREAD_X && number < THREAD_X + 3)
        size = launch->block[number - THREAD_X];
    else if (number >= BLOCK_X && number < BLOCK_X + 3)
        size = launch->grid[number - BLOCK_X];
    return size ? gs_flow_number(0, size - 1) : unknown;
}

/* HFMA2.MMA with two zero factors: how ptxas also writes a number. */
static gs_flow_value half_number(const gs_flow_instruction *instruction) {
    uint32_t number = (uint32_t)(instruction->low >> 32);
    bool is_move = gs_form(instruction) == 2 && gs_bits(instruction->low, 24, 8) == GS_NO_REGISTER &&
                   gs_bits(instruction->high, 0, 8) == GS_NO_REGISTER;
    bool has_negative_zero = number >> 16 == 0x8000 || (number & 0xffff) == 0x8000;
    return is_move && !has_negative_zero ? gs_flow_number((int32_t)number, (int32_t)number) : unknown;
}

static gs_flow_value result_of(const gs_flow_state *state, const gs_flow_instruction *instruction,
                               const gs_flow_launch *launch) {
    struct operands operands = operands_of(state, instruction, launch);
    switch (gs_operation(instruction)) {
    case GS_OP_MOV:
    case UMOV:
        return second_value(state, instruction, launch);
    case IADD3:
    case UIADD3:
        return added(instruction, operands);
    case VIADD: /* its operands as in a sum of three */
        operands.c = gs_flow_number(0, 0);
        return added(instruction, operands);
    case IMAD:
    case UIMAD:
        return multiplied(instruction, operands);
    case LEA:
    case ULEA:
        return shifted_sum(instruction, operands);
    case LOP3:
    case ULOP3:
        return masked(instruction, operands);
    case SHF:
    case USHF:
        return shifted(instruction, operands);
    case SEL:
    case USEL:
        return either_of(operands.a, second_value(state, instruction, launch));
    case VIMNMX:
        return smaller_or_larger(instruction, operands.a, operands.b);
    case VIADDMNMX: /* of a sum and a third */
        if (gs_form(instruction) != 4 && instruction->low >> 63)
            operands.b = negative_of(operands.b);
        return is_swapped(instruction) ? unknown
                                       : smaller_or_larger(instruction, sum_of(operands.a, operands.b), operands.c);
    case HFMA2_MMA:
        return half_number(instruction);
    case GS_OP_S2R:
    case S2UR:
        return special_value(instruction, launch);
    case R2UR:
        return register_value(state, gs_bits(instruction->low, 24, 8), false);
    default:
        return unknown;
    }
}

/* Known, and not most numbers of 32 bits. */
static bool is_narrow(gs_flow_value value) {
    return is_number(value) && value.high - value.low < INT32_MAX;
}

bool gs_flow_has_index(const gs_flow_state *state, const gs_flow_instruction *instruction,
                       const gs_flow_launch *launch) {
    struct operands operands = operands_of(state, instruction, launch);
    bool is_signed = gs_bits(instruction->high, 9, 1);
    if (gs_operation(instruction) == SHF)
        return is_narrow(operands.c);
    return gs_operation(instruction) == IMAD_WIDE && is_narrow(operands.a) && is_narrow(operands.b) &&
           (is_signed || (operands.a.low >= 0 && operands.b.low >= 0));
}

/* ---- predicates ---- */

gs_flow_relation gs_flow_opposite(gs_flow_relation relation) {
    return (gs_flow_relation)(GS_ALWAYS - relation);
}

gs_flow_relation gs_flow_mirrored(gs_flow_relation relation) {
    return (gs_flow_relation)((relation & GS_EQUAL) | (relation & GS_LESS ? GS_MORE : 0) |
                              (relation & GS_MORE ? GS_LESS : 0));
}

/* The register that an operand is in, or GS_NO_BASE. */
static int16_t compared_register(const gs_flow_instruction *instruction, bool is_second) {
    bool is_uniform = instruction->opcode->operands & GS_IS_UNIFORM;
    unsigned form = gs_form(instruction), number = gs_bits(instruction->low, is_second ? 32 : 24, 8);
    if (is_second && form != 1 && form != 6)
        return GS_NO_BASE;
    is_uniform = is_uniform || (is_second && form == 6);
    if (is_uniform)
        return (int16_t)((number & GS_NO_UNIFORM) == GS_NO_UNIFORM ? GS_NO_BASE
                                                                   : GS_UNIFORM_BASE + (int)(number & GS_NO_UNIFORM));
    return (int16_t)(number == GS_NO_REGISTER ? GS_NO_BASE : (int)number);
}

/* A predicate that is always true, or never. */
static gs_flow_fact constant_fact(bool is_true) {
    gs_flow_value zero = gs_flow_number(0, 0);
    return (gs_flow_fact){.if_true = true,
                          .if_false = true,
                          .is_signed = true,
                          .relation = is_true ? GS_EQUAL : GS_DIFFERS,
                          .x = zero,
                          .y = zero,
                          .x_register = GS_NO_BASE,
                          .y_register = GS_NO_BASE};
}

/* Whether an operand, three bits and one that negates, is such a predicate. */
static bool is_constant(const gs_flow_state *state, unsigned operand, bool is_uniform, bool is_true) {
    bool wanted = is_true != (operand > GS_NO_PREDICATE);
    if ((operand & GS_NO_PREDICATE) == GS_NO_PREDICATE)
        return wanted;
    const gs_flow_fact *fact = &state->facts[(is_uniform ? GS_UNIFORM_FACT : 0) + (int)(operand & GS_NO_PREDICATE)];
    return fact->if_true && fact->if_false && fact->relation == (wanted ? GS_EQUAL : GS_DIFFERS) &&
           gs_flow_is_exact(fact->x) && gs_flow_is_exact(fact->y) && fact->x.low == fact->y.low;
}

/* A comparison and, by bits 74 and 75, another predicate: both (0) or one of them (1). */
static gs_flow_fact compared(const gs_flow_state *state, const gs_flow_instruction *instruction,
                             const gs_flow_launch *launch) {
    struct operands operands = operands_of(state, instruction, launch);
    unsigned how = gs_bits(instruction->high, 10, 2), other = gs_bits(instruction->high, 23, 4);
    bool is_uniform = instruction->opcode->operands & GS_IS_UNIFORM, is_extended = gs_bits(instruction->high, 8, 1);
    bool is_alone = how <= 1 && is_constant(state, other, is_uniform, how == 0);
    return (gs_flow_fact){.if_true = !is_extended && (is_alone || how == 0),
                          .if_false = !is_extended && (is_alone || how == 1),
                          .is_signed = gs_bits(instruction->high, 9, 1),
                          .relation = (gs_flow_relation)gs_bits(instruction->high, 12, 3),
                          .x = operands.a,
                          .y = second_value(state, instruction, launch),
                          .x_register = compared_register(instruction, false),
                          .y_register = compared_register(instruction, true)};
}

static gs_flow_fact opposite_fact(gs_flow_fact fact) {
    bool if_true = fact.if_true;
    fact.if_true = fact.if_false;
    fact.if_false = if_true;
    fact.relation = gs_flow_opposite(fact.relation);
    return fact;
}

/* PLOP3 that moves a predicate of the warp: the other two operands are true. Or all three are. */
static gs_flow_fact moved_fact(const gs_flow_state *state, const gs_flow_instruction *instruction) {
    enum { COPIES = 0x80, NEGATES = 0x40 };
    unsigned table = gs_bits(instruction->high, 8, 5) << 3 | gs_bits(instruction->high, 0, 3);
    if (gs_bits(instruction->high, 13, 4) == GS_NO_PREDICATE && gs_bits(instruction->high, 23, 4) == GS_NO_PREDICATE &&
        gs_bits(instruction->high, 4, 4) == GS_NO_PREDICATE)
        return constant_fact(table >> 7);
    bool is_move = gs_bits(instruction->high, 3, 1) && gs_bits(instruction->high, 13, 4) == GS_NO_PREDICATE &&
                   gs_bits(instruction->high, 23, 4) == GS_NO_PREDICATE && !gs_bits(instruction->high, 7, 1);
    gs_flow_fact fact = state->facts[GS_UNIFORM_FACT + gs_bits(instruction->high, 4, 3)];
    if (!is_move || (table != COPIES && table != NEGATES))
        return (gs_flow_fact){0};
    return table == COPIES ? fact : opposite_fact(fact);
}

/* LOP3 also says whether its result is not 0, or else what another predicate says: here false. */
static gs_flow_fact not_zero(const gs_flow_instruction *instruction, gs_flow_value result) {
    enum { FALSE = 15 };
    unsigned into = gs_bits(instruction->low, 16, 8);
    if (gs_bits(instruction->high, 23, 4) != FALSE)
        return (gs_flow_fact){0};
    return (gs_flow_fact){.if_true = true,
                          .if_false = true,
                          .relation = GS_DIFFERS,
                          .x = result,
                          .y = gs_flow_number(0, 0),
                          .x_register = (int16_t)(into == GS_NO_REGISTER ? GS_NO_BASE : (int)into),
                          .y_register = GS_NO_BASE};
}

static void write_facts(gs_flow_state *state, const gs_flow_instruction *instruction, gs_flow_fact fact,
                        gs_flow_fact opposite) {
    unsigned first = gs_bits(instruction->high, 17, 3), second = gs_bits(instruction->high, 20, 3);
    int offset = instruction->opcode->operands & GS_IS_UNIFORM ? GS_UNIFORM_FACT : 0;
    if (second != GS_NO_PREDICATE && instruction->opcode->operands & GS_SETS_2)
        state->facts[offset + (int)second] = opposite;
    if (first != GS_NO_PREDICATE)
        state->facts[offset + (int)first] = fact;
}

/* ---- the state ---- */

static void forget_register(gs_flow_state *state, int number) {
    state->values[number] = unknown;
    for (int i = 0; i < GS_FACTS; i++) {
        if (state->facts[i].x_register == number)
            state->facts[i].x_register = GS_NO_BASE;
        if (state->facts[i].y_register == number)
            state->facts[i].y_register = GS_NO_BASE;
    }
}

void gs_flow_forget(gs_flow_state *state, const gs_flow_written_set *set) {
    for (int i = 0; i < GS_NO_REGISTER; i++)
        if (set->registers[i])
            forget_register(state, i);
    for (int i = 0; i < GS_NO_UNIFORM; i++)
        if (set->uniform[i])
            forget_register(state, GS_UNIFORM_BASE + i);
    for (int i = 0; i < GS_NO_PREDICATE; i++) {
        if (set->predicates[i])
            state->facts[i] = (gs_flow_fact){0};
        if (set->uniform_predicates[i])
            state->facts[GS_UNIFORM_FACT + i] = (gs_flow_fact){0};
    }
}

void gs_flow_execute(gs_flow_state *state, const gs_flow_instruction *instruction, const gs_flow_launch *launch) {
    unsigned operation = gs_operation(instruction), operands = instruction->opcode->operands;
    bool is_uniform = operands & GS_IS_UNIFORM, is_final = !instruction->is_relocated;
    unsigned number = gs_bits(instruction->low, 16, 8) & (is_uniform ? GS_NO_UNIFORM : GS_NO_REGISTER);
    int into = (int)number + (is_uniform ? GS_UNIFORM_BASE : 0);
    gs_flow_written_set set = {0};
    gs_flow_value result = is_final ? result_of(state, instruction, launch) : unknown, next = unknown;
    bool is_load = operation == ULDC || (operation == LDC && gs_bits(instruction->low, 24, 8) == GS_NO_REGISTER);
    bool is_word = gs_flow_written(instruction) > 1 || gs_bits(instruction->high, 9, 3) == 4;
    if (is_load && is_final && is_word) {
        result = constant_of(instruction, launch, 0);
        next = constant_of(instruction, launch, 4);
    }
    if (operation == CS2R && gs_bits(instruction->high, 8, 8) == 255)
        result = next = gs_flow_number(0, 0);
    if (!gs_is_always(instruction) && gs_flow_written(instruction)) {
        result =
            number == (is_uniform ? GS_NO_UNIFORM : GS_NO_REGISTER) ? unknown : either_of(result, state->values[into]);
        next = unknown;
    }
    gs_flow_fact fact = {0}, opposite = {0};
    if ((operation == ISETP || operation == UISETP) && gs_is_always(instruction) && is_final) {
        fact = compared(state, instruction, launch);
        bool is_alone = fact.if_true && fact.if_false;
        opposite = is_alone ? opposite_fact(fact) : (gs_flow_fact){0};
    } else if (operation == PLOP3 && gs_is_always(instruction)) {
        fact = moved_fact(state, instruction);
    } else if (operation == LOP3 && gs_is_always(instruction) && is_final) {
        fact = not_zero(instruction, result);
    }
    gs_flow_add_written(&set, instruction);
    gs_flow_forget(state, &set);
    if (gs_flow_written(instruction) && number != (is_uniform ? GS_NO_UNIFORM : GS_NO_REGISTER)) {
        state->values[into] = result;
        if (gs_flow_written(instruction) > 1 && into + 1 < GS_VALUES)
            state->values[into + 1] = next;
    }
    if (operands & GS_SETS)
        write_facts(state, instruction, fact, opposite);
}

/* The same comparison, of what was compared on either way. */
static void join_fact(gs_flow_fact *fact, const gs_flow_fact *other) {
    gs_flow_value x = either_of(fact->x, other->x), y = either_of(fact->y, other->y);
    if (fact->relation != other->relation || fact->is_signed != other->is_signed || !x.is_known || !y.is_known) {
        *fact = (gs_flow_fact){0};
        return;
    }
    fact->x = x;
    fact->y = y;
    fact->x_register = fact->x_register == other->x_register ? fact->x_register : GS_NO_BASE;
    fact->y_register = fact->y_register == other->y_register ? fact->y_register : GS_NO_BASE;
    fact->if_true = fact->if_true && other->if_true;
    fact->if_false = fact->if_false && other->if_false;
}

void gs_flow_join(gs_flow_state *state, const gs_flow_state *more) {
    for (int i = 0; i < GS_VALUES; i++)
        state->values[i] = either_of(state->values[i], more->values[i]);
    for (int i = 0; i < GS_FACTS; i++)
        join_fact(&state->facts[i], &more->facts[i]);
}

/* A branch is taken if both its predicates say so; known is one of them alone. */
bool gs_flow_says(const gs_flow_state *state, const gs_flow_instruction *branch, bool is_taken, gs_flow_fact *fact) {
    unsigned guard = gs_bits(branch->low, 12, 4), other = gs_bits(branch->high, 23, 4);
    bool of_warp = gs_operation(branch) == GS_OP_BRA && gs_bits(branch->low, 32, 2);
    if ((gs_operation(branch) != GS_OP_BRA && gs_operation(branch) != GS_OP_EXIT) || of_warp ||
        other != GS_NO_PREDICATE || (guard & GS_NO_PREDICATE) == GS_NO_PREDICATE)
        return false;
    bool is_true = is_taken != (guard > GS_NO_PREDICATE);
    *fact = state->facts[guard & GS_NO_PREDICATE];
    if (!(is_true ? fact->if_true : fact->if_false))
        return false;
    if (!is_true)
        fact->relation = gs_flow_opposite(fact->relation);
    return true;
}

static void narrow_value(gs_flow_value *value, gs_flow_relation relation, gs_flow_value limit) {
    if (relation == GS_LESS && limit.high - 1 < value->high)
        value->high = limit.high - 1;
    if ((relation == GS_AT_MOST || relation == GS_EQUAL) && limit.high < value->high)
        value->high = limit.high;
    if (relation == GS_MORE && limit.low + 1 > value->low)
        value->low = limit.low + 1;
    if ((relation == GS_AT_LEAST || relation == GS_EQUAL) && limit.low > value->low)
        value->low = limit.low;
    if (relation == GS_DIFFERS && limit.low == limit.high && value->low == limit.low)
        value->low++;
    if (relation == GS_DIFFERS && limit.low == limit.high && value->high == limit.high)
        value->high--;
}

bool gs_flow_narrow(gs_flow_state *state, const gs_flow_fact *fact) {
    bool is_comparable = is_number(fact->x) && is_number(fact->y) &&
                         (fact->is_signed || (fact->x.low >= 0 && fact->y.low >= 0) || fact->relation == GS_EQUAL ||
                          fact->relation == GS_DIFFERS);
    if (!is_comparable)
        return true;
    gs_flow_value x = fact->x, y = fact->y;
    narrow_value(&x, fact->relation, fact->y);
    narrow_value(&y, gs_flow_mirrored(fact->relation), fact->x);
    if (x.low > x.high || y.low > y.high)
        return false;
    if (fact->x_register != GS_NO_BASE && is_number(state->values[fact->x_register]))
        state->values[fact->x_register] = x;
    if (fact->y_register != GS_NO_BASE && is_number(state->values[fact->y_register]))
        state->values[fact->y_register] = y;
    return true;
}
