/*
 * ptx_uniform.c: which registers have one value in the whole block, or in a warp. See ptx.h.
 *
 * A value is as uniform as its operands. Some instructions give each thread its own value (%tid, loads from memory that
 * others may write). A register that is written in a block that only some threads run differs between those that ran it
 * and those that did not. Such a block depends on a branch that is not uniform. The analysis starts from the assumption
 * that everything is uniform, and repeats until nothing changes. It is conservative: a value that is reported as
 * different may be the same.
 *
 * The rule about blocks covers registers that are written on both sides of a divergent branch, and those written in a
 * loop that threads leave in different iterations: every block of such a loop depends on the branch that ends it.
 *
 * Warps: if the width of a block is a multiple of 32, the %tid.x of the lanes of a warp have the same upper bits. So
 * `tid / 32` is the same in a warp, and so is `tid < 64`. That is followed through additions of multiples of 32, and
 * through `x - x % n`, which is a multiple of n. The lowest five bits of %tid.x are the number of the lane, so that
 * `i - lane` is the same in a warp, if i is %tid.x and a multiple of 32.
 *
 * Loads: if all lanes of a warp come to a plain load with the same address, they load the same value. Lanes run
 * independently, so one may load long before another. But a write between the two must be ordered before the load of
 * the second, else it is a data race. So the second lane has waited for something that comes after the load of the
 * first. Barriers and exchanges to which the whole warp comes cannot be that, because the first lane went through them,
 * too. So the rule holds for loads that do not lie behind a wait of some lanes: a barrier or an exchange that not all
 * of them reach, or a loop with a strong read or a fence, in which a lane may wait for memory. A called function may
 * have either.
 *
 * Calls through a pointer: threads with different pointers go different ways, as at a branch. Pointers are mostly
 * loaded from a table, and the rule about loads holds for the threads of a block, too, if no threads wait apart from
 * the others: then all come to the same barriers. Only calls make use of this. Words that blocks write while others
 * read them decide branches of some programs, but not which function is called.
 *
 * Registers that are written at several places are followed from block to block, because compilers reuse the register
 * of a value for the variable of a later loop.
 */
#include "ptx.h"

#include <stdlib.h>

#define X(name, word, scope) GS_PTX_SAME_##scope,
static const uint8_t special_scopes[] = {GS_PTX_SPECIALS(X)};
#undef X

/* The analysis of a register: threads within `scope` that read it at the same place, in the same iteration, read the
   same value. The other properties hold within a warp. */
struct value {
    uint8_t scope;      /* gs_ptx_scope */
    bool is_multiple;   /* of 32 */
    bool has_same_tops; /* all bits but the lowest five are the same in a warp */
    bool has_lane;      /* the lowest five are the number of the lane */
    bool differs;       /* in the block, even if its threads load the same from one address */
};

/* A value in a byte, so that the worse of two is their bitwise or: large functions have millions of them. */
enum { NOT_SAME_BLOCK = 1, NOT_SAME_WARP = 2, NOT_MULTIPLE = 4, OTHER_TOPS = 8, DIFFERS = 16, NOT_LANE = 32 };

static uint8_t pack_value(struct value value) {
    return (uint8_t)((value.scope >= GS_PTX_SAME_WARP ? NOT_SAME_BLOCK : 0) |
                     (value.scope >= GS_PTX_SAME_THREAD ? NOT_SAME_WARP : 0) | (value.is_multiple ? 0 : NOT_MULTIPLE) |
                     (value.has_same_tops ? 0 : OTHER_TOPS) | (value.differs ? DIFFERS : 0) |
                     (value.has_lane ? 0 : NOT_LANE));
}

static struct value unpack_value(uint8_t bits) {
    return (struct value){.scope = bits & NOT_SAME_WARP    ? GS_PTX_SAME_THREAD
                                   : bits & NOT_SAME_BLOCK ? GS_PTX_SAME_WARP
                                                           : GS_PTX_SAME_BLOCK,
                          .is_multiple = !(bits & NOT_MULTIPLE),
                          .has_same_tops = !(bits & OTHER_TOPS),
                          .has_lane = !(bits & NOT_LANE),
                          .differs = bits & DIFFERS};
}

/* A register that is written once has one value. Those that are written at several places, mostly the variables of
   loops, have a value at the beginning of each block, and `current` ones within the block at hand. All are packed. */
struct analysis {
    const gs_ptx_flow *flow;
    gs_ptx_uniform *uniform;
    uint8_t *once;               /* of each register */
    uint32_t *slots;             /* of each register: its place in the next two, or GS_PTX_NONE */
    uint8_t *at_entry, *current; /* at_entry[block * slot_count + slot] */
    size_t slot_count;
    bool *waits[2];     /* blocks in which some lanes of a warp, or threads of a block, may wait for others */
    bool *is_behind[2]; /* these, and those that can run after them; one more for the exit */
    bool has_whole_rows, has_changed, is_out_of_memory;
};

/* Who waits for whom. */
enum { LANES, THREADS };

static const struct value unknown_value = {.scope = GS_PTX_SAME_THREAD, .differs = true};

static struct value value_of_scope(gs_ptx_scope scope) {
    return (struct value){
        .scope = (uint8_t)scope, .has_same_tops = scope != GS_PTX_SAME_THREAD, .differs = scope != GS_PTX_SAME_BLOCK};
}

/* ---- operands ---- */

static uint8_t *place_of(const struct analysis *analysis, uint32_t number) {
    uint32_t slot = analysis->slots[number];
    return slot == GS_PTX_NONE ? &analysis->once[number] : &analysis->current[slot];
}

static struct value value_at(const struct analysis *analysis, uint32_t number) {
    return unpack_value(*place_of(analysis, number));
}

static struct value special_value(const struct analysis *analysis, const gs_ptx_operand *operand) {
    if (operand->value >= GS_PTX_SPECIAL_COUNT)
        return unknown_value;
    struct value value = value_of_scope(special_scopes[operand->value]);
    if (operand->value == GS_PTX_LANEID)
        value.has_same_tops = value.has_lane = true;
    if (!analysis->has_whole_rows)
        return value;
    if (operand->value == GS_PTX_TID && operand->part == 'x')
        value.has_same_tops = value.has_lane = true;
    else if (operand->value == GS_PTX_TID && (operand->part == 'y' || operand->part == 'z'))
        value = value_of_scope(GS_PTX_SAME_WARP);
    else if (operand->value == GS_PTX_NTID && operand->part == 'x')
        value.is_multiple = true;
    return value;
}

static struct value worse_value(struct value one, struct value other) {
    return (struct value){.scope = one.scope > other.scope ? one.scope : other.scope,
                          .is_multiple = one.is_multiple && other.is_multiple,
                          .has_same_tops = one.has_same_tops && other.has_same_tops,
                          .has_lane = one.has_lane && other.has_lane,
                          .differs = one.differs || other.differs};
}

static struct value operand_value(const struct analysis *analysis, const gs_ptx_operand *operand) {
    const gs_ptx_operand *children = analysis->flow->module->operands.data + operand->children;
    struct value value = value_of_scope(GS_PTX_SAME_BLOCK);
    switch (operand->kind) {
    case GS_PTX_REGISTER:
        return value_at(analysis, operand->value);
    case GS_PTX_SPECIAL:
        return special_value(analysis, operand);
    case GS_PTX_INTEGER:
        value.is_multiple = operand->bits % 32 == 0;
        return value;
    case GS_PTX_OTHER:
        return unknown_value;
    default:
        break;
    }
    for (uint32_t i = 0; i < operand->count; i++)
        value = worse_value(value, operand_value(analysis, &children[i]));
    value.is_multiple = value.has_lane = false;
    value.has_same_tops = value.scope != GS_PTX_SAME_THREAD;
    return value;
}

/* ---- instructions ---- */

/* An instruction, with the values of its operands at hand. */
struct step {
    const struct analysis *analysis;
    const gs_ptx_statement *statement;
    const gs_ptx_opcode *row;
    const gs_ptx_operand *operands;
    struct value sources[4]; /* after the first operand */
    uint32_t source_count, block;
};

static bool opcode_has(const struct step *step, const char *suffixes) {
    return gs_ptx_has(step->analysis->flow->module, step->statement, suffixes);
}

/* The number of an operand. False: not a constant. */
static bool constant_of(const struct step *step, uint32_t operand, uint64_t *bits) {
    *bits = operand < step->statement->count ? step->operands[operand].bits : 0;
    return operand < step->statement->count && step->operands[operand].kind == GS_PTX_INTEGER;
}

static struct value value_of_sum(struct value one, struct value other) {
    struct value value = worse_value(one, other);
    bool one_moves = one.scope != GS_PTX_SAME_THREAD && one.is_multiple,
         other_moves = other.scope != GS_PTX_SAME_THREAD && other.is_multiple;
    if (value.scope == GS_PTX_SAME_THREAD)
        value.has_same_tops = (one.has_same_tops && other_moves) || (other.has_same_tops && one_moves);
    value.has_lane = (one.has_lane && other.is_multiple) || (other.has_lane && one.is_multiple);
    return value;
}

static struct value value_of_product(struct value one, struct value other) {
    struct value value = worse_value(one, other);
    value.is_multiple = one.is_multiple || other.is_multiple;
    value.has_lane = false;
    value.has_same_tops = value.scope != GS_PTX_SAME_THREAD;
    return value;
}

/* The value without its lowest five bits is the same in a warp, if the upper bits are. */
static struct value without_low_bits(struct value value) {
    if (value.has_same_tops && value.scope == GS_PTX_SAME_THREAD)
        value.scope = GS_PTX_SAME_WARP;
    value.has_same_tops = value.scope != GS_PTX_SAME_THREAD;
    value.is_multiple = value.has_lane = false;
    return value;
}

/* A saturated result is at the limit of its type. There the upper bits stay the same, but not the lowest five. */
static struct value limited_value(const struct step *step, struct value value) {
    value.is_multiple = value.is_multiple && !opcode_has(step, "sat");
    value.has_lane = value.has_lane && !opcode_has(step, "sat");
    return value;
}

static struct value value_of_shift(const struct step *step, bool is_left) {
    struct value value = value_of_product(step->sources[0], value_of_scope(step->sources[1].scope));
    uint64_t count;
    bool drops_five = constant_of(step, 2, &count) && count >= 5;
    value.is_multiple = is_left && (step->sources[0].is_multiple || drops_five);
    return !is_left && drops_five ? without_low_bits(step->sources[0]) : value;
}

static struct value value_of_mask(const struct step *step) {
    uint64_t bits;
    struct value value = worse_value(step->sources[0], step->sources[1]);
    bool is_known = step->row->math == GS_PTX_MATH_AND && constant_of(step, 2, &bits);
    if (is_known && bits % 32 == 0) {
        value = without_low_bits(step->sources[0]);
        value.is_multiple = true;
    }
    value.has_lane = is_known && bits % 32 == 31 && step->sources[0].has_lane;
    return value;
}

/* `tid < 64` and `tid > 63` depend on the upper bits alone. */
static struct value value_of_comparison(const struct step *step) {
    struct value left = step->sources[0], right = step->sources[1], value = unknown_value;
    uint64_t bits;
    bool below = opcode_has(step, "lt ge lo hs"), above = opcode_has(step, "gt le hi ls");
    value.scope = worse_value(left, right).scope;
    value.differs = worse_value(left, right).differs;
    bool is_number = !gs_ptx_is_real(step->analysis->flow->module, step->statement) && step->source_count == 2;
    bool is_edge = (below && right.is_multiple && right.scope != GS_PTX_SAME_THREAD) ||
                   (above && constant_of(step, 2, &bits) && bits % 32 == 31);
    if (is_number && left.has_same_tops && left.scope == GS_PTX_SAME_THREAD && is_edge)
        value.scope = GS_PTX_SAME_WARP;
    for (uint32_t i = 2; i < step->source_count; i++) {
        value.scope = worse_value(value, step->sources[i]).scope;
        value.differs = worse_value(value, step->sources[i]).differs;
    }
    return value;
}

static bool writes_register(const gs_ptx_module *module, const gs_ptx_operand *operand, uint32_t number) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE && operand->value == number)
        return true;
    for (uint32_t i = 0; i < operand->count; i++)
        if (writes_register(module, &module->operands.data[operand->children + i], number))
            return true;
    return false;
}

/* The statement of the block that last wrote a register before this step; NULL: it is further away than we look. */
static const gs_ptx_statement *last_writer(const struct step *step, uint32_t number) {
    enum { FURTHEST = 32 };
    const gs_ptx_module *module = step->analysis->flow->module;
    const gs_ptx_statement *first = &module->statements.data[step->analysis->flow->blocks.data[step->block].first];
    for (const gs_ptx_statement *one = step->statement; one > first && step->statement - one < FURTHEST;) {
        one--;
        for (uint32_t i = 0; one->kind == GS_PTX_INSTRUCTION && i < one->count; i++)
            if (writes_register(module, &module->operands.data[one->operands + i], number))
                return one;
    }
    return NULL;
}

/* Whether an operand has the value at this step that it had at an earlier one of the block. */
static bool is_kept_since(const struct step *step, const gs_ptx_statement *earlier, const gs_ptx_operand *operand) {
    if (operand->kind != GS_PTX_REGISTER)
        return operand->kind == GS_PTX_INTEGER || operand->kind == GS_PTX_SPECIAL;
    const gs_ptx_statement *writer = last_writer(step, operand->value);
    return !operand->part && (!writer || writer < earlier);
}

/* x - x % n is a multiple of 32, if n is: it is n times the quotient, also where that wraps around. */
static bool subtracts_remainder(const struct step *step) {
    const gs_ptx_module *module = step->analysis->flow->module;
    const gs_ptx_operand *from = &step->operands[1], *less = &step->operands[2];
    const gs_ptx_statement *writer = less->kind == GS_PTX_REGISTER ? last_writer(step, less->value) : NULL;
    if (!writer || gs_ptx_row(writer)->math != GS_PTX_MATH_REM || writer->guard != GS_PTX_NONE || writer->count != 3 ||
        less->part || from->kind != GS_PTX_REGISTER)
        return false;
    const gs_ptx_operand *operands = module->operands.data + writer->operands;
    bool is_same = operands[1].kind == GS_PTX_REGISTER && operands[1].value == from->value && !operands[1].part &&
                   operands[0].kind == GS_PTX_REGISTER && operands[0].value != from->value;
    return is_same && is_kept_since(step, writer, from) && is_kept_since(step, writer, &operands[2]) &&
           gs_ptx_has(module, writer, "u32 s32") == opcode_has(step, "u32 s32") &&
           gs_ptx_has(module, writer, "u64 s64") == opcode_has(step, "u64 s64") &&
           operand_value(step->analysis, &operands[2]).is_multiple;
}

/* The worst scope of all sources. */
static struct value value_of_sources(const struct step *step) {
    struct value value = value_of_scope(GS_PTX_SAME_BLOCK);
    if (step->source_count > GS_COUNT(step->sources))
        return unknown_value;
    for (uint32_t i = 0; i < step->source_count; i++)
        value = worse_value(value, step->sources[i]);
    value.is_multiple = false;
    value.has_same_tops = value.scope != GS_PTX_SAME_THREAD;
    return value;
}

static struct value value_of_difference(const struct step *step) {
    const struct value *sources = step->sources;
    bool second_moves = sources[1].is_multiple && sources[1].scope != GS_PTX_SAME_THREAD;
    struct value value = second_moves ? value_of_sum(sources[0], sources[1]) : value_of_sources(step);
    bool is_without_lane = sources[0].has_lane && sources[1].has_lane;
    if (is_without_lane && sources[0].has_same_tops && sources[1].has_same_tops)
        value = without_low_bits(worse_value(sources[0], sources[1]));
    value.is_multiple = value.is_multiple || is_without_lane || subtracts_remainder(step);
    value.has_lane = sources[0].has_lane && sources[1].is_multiple;
    return limited_value(step, value);
}

/* Integers whose upper bits, or whether they are multiples of 32, are followed. */
static struct value value_of_integers(const struct step *step) {
    const struct value *sources = step->sources;
    bool is_low = !opcode_has(step, "hi");
    switch (step->source_count * 64 + step->row->math) {
    case 64 + GS_PTX_MATH_MOVE:
    case 64 + GS_PTX_MATH_CONVERT:
    case 64 + GS_PTX_MATH_CONVERT_ADDRESS:
        return step->operands[0].kind == GS_PTX_REGISTER && step->operands[1].kind != GS_PTX_VECTOR
                   ? limited_value(step, sources[0])
                   : value_of_scope((gs_ptx_scope)sources[0].scope);
    case 128 + GS_PTX_MATH_ADD:
        return limited_value(step, value_of_sum(sources[0], sources[1]));
    case 128 + GS_PTX_MATH_SUB:
        return value_of_difference(step);
    case 128 + GS_PTX_MATH_MUL:
        return is_low ? value_of_product(sources[0], sources[1]) : value_of_sources(step);
    case 128 + GS_PTX_MATH_SHL:
        return value_of_shift(step, true);
    case 128 + GS_PTX_MATH_SHR:
        return value_of_shift(step, false);
    case 128 + GS_PTX_MATH_AND:
    case 128 + GS_PTX_MATH_OR:
    case 128 + GS_PTX_MATH_XOR:
        return value_of_mask(step);
    case 192 + GS_PTX_MATH_MAD:
        return is_low ? limited_value(step, value_of_sum(value_of_product(sources[0], sources[1]), sources[2]))
                      : value_of_sources(step);
    default:
        return value_of_sources(step);
    }
}

static struct value value_of_computation(const struct step *step) {
    if (step->row->math == GS_PTX_MATH_COMPARE && step->source_count >= 2 &&
        step->source_count <= GS_COUNT(step->sources))
        return value_of_comparison(step);
    return gs_ptx_is_real(step->analysis->flow->module, step->statement) ? value_of_sources(step)
                                                                         : value_of_integers(step);
}

/* A parameter of the kernel itself, which is the same for all threads. */
static bool is_kernel_parameter(const gs_ptx_flow *flow, const gs_ptx_operand *operand) {
    const gs_ptx_function *function = &flow->module->functions.data[flow->function];
    return function->is_entry && operand->kind == GS_PTX_SYMBOL &&
           operand->value - function->parameters < function->parameter_count;
}

/* Whether lanes of a warp, or threads of a block, that come to a load together load the same from one address: see
   above. */
static bool all_load_the_same(const struct step *step, int who) {
    const gs_ptx_module *module = step->analysis->flow->module;
    uint8_t reads = gs_ptx_reads(module, step->statement);
    return (reads == GS_PTX_IN_GLOBAL || reads == GS_PTX_IN_SHARED) && !gs_ptx_is_strong(module, step->statement) &&
           !step->analysis->is_behind[who][step->block];
}

/* Memory that is constant while the kernel runs gives the same value for the same address. */
static struct value value_of_load(const struct step *step) {
    const gs_ptx_module *module = step->analysis->flow->module;
    const gs_ptx_operand *address = step->statement->count > 1 ? &step->operands[1] : NULL;
    bool never_changes = gs_ptx_reads_constants(module, step->statement);
    if (gs_ptx_reads(module, step->statement) & GS_PTX_IN_PARAM) /* that of a function is its caller's */
        never_changes = address && address->count &&
                        is_kernel_parameter(step->analysis->flow, &module->operands.data[address->children]);
    struct value value = never_changes || all_load_the_same(step, LANES) ? value_of_sources(step) : unknown_value;
    if (never_changes)
        return value;
    bool differs = value.differs || !all_load_the_same(step, THREADS);
    value = value_of_scope((gs_ptx_scope)gs_max(value.scope, GS_PTX_SAME_WARP));
    value.differs = differs;
    return value;
}

/* Whether all lanes of a warp exchange values with each other: all of them come, with the same mask. A lane must be in
   its mask, so a mask that they share names all of them. */
static bool whole_warp_exchanges(const struct step *step, gs_ptx_scope runs) {
    uint32_t mask = step->source_count - 1; /* the last operand */
    return runs != GS_PTX_SAME_THREAD && step->source_count && mask < GS_COUNT(step->sources) &&
           step->sources[mask].scope != GS_PTX_SAME_THREAD;
}

/* The value of one lane is the same for all if they name the same lane, among all 32. */
static bool names_one_lane(const struct step *step) {
    uint64_t segment;
    return step->source_count == 4 && step->sources[1].scope != GS_PTX_SAME_THREAD && constant_of(step, 3, &segment) &&
           segment == 31;
}

/* All threads of a barrier get the same. Without a count these are the threads of the block. With one they are some
   warps of it, whole ones if the barrier is aligned. */
static struct value value_of_barrier(const struct step *step) {
    enum { ID = 0, PLAIN_SOURCES = 2 };
    const gs_ptx_module *module = step->analysis->flow->module;
    if (step->source_count == PLAIN_SOURCES)
        return value_of_scope((gs_ptx_scope)step->sources[ID].scope);
    bool is_same = gs_ptx_is_aligned(module, step->statement) && step->source_count > PLAIN_SOURCES &&
                   step->sources[ID].scope != GS_PTX_SAME_THREAD && step->sources[1].scope != GS_PTX_SAME_THREAD;
    return is_same ? value_of_scope(GS_PTX_SAME_WARP) : unknown_value;
}

static struct value result_of(const struct step *step, gs_ptx_scope runs) {
    switch (step->row->result) {
    case GS_PTX_AS_OPERANDS:
        return value_of_computation(step);
    case GS_PTX_OF_MEMORY:
        return value_of_load(step);
    case GS_PTX_OF_LANES:
        return whole_warp_exchanges(step, runs) ? value_of_scope(GS_PTX_SAME_WARP) : unknown_value;
    case GS_PTX_OF_ONE_LANE:
        return whole_warp_exchanges(step, runs) && names_one_lane(step) ? value_of_scope(GS_PTX_SAME_WARP)
                                                                        : unknown_value;
    case GS_PTX_OF_BARRIER:
        return value_of_barrier(step);
    default:
        return unknown_value;
    }
}

/* ---- blocks ---- */

static void mark_written(struct analysis *analysis, const gs_ptx_operand *operand, struct value value, bool is_sure) {
    const gs_ptx_operand *children = analysis->flow->module->operands.data + operand->children;
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE) {
        uint8_t *known = place_of(analysis, operand->value), next = *known | pack_value(value);
        bool is_once = analysis->slots[operand->value] == GS_PTX_NONE;
        if (is_once && *known != next)
            analysis->has_changed = true;
        *known = is_sure && !is_once ? pack_value(value) : next;
    }
    for (uint32_t i = 0; i < operand->count; i++)
        mark_written(analysis, &children[i], value, is_sure);
}

/* The threads that go the same way at a call: for one through a pointer, those that have the same pointer. */
static gs_ptx_scope scope_of_call(const struct analysis *analysis, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = analysis->flow->module;
    uint32_t operand;
    if (statement->opcode != GS_PTX_CALL || gs_ptx_called_function(module, statement, &operand) >= 0)
        return GS_PTX_SAME_BLOCK;
    struct value pointer = operand < statement->count
                               ? operand_value(analysis, &module->operands.data[statement->operands + operand])
                               : unknown_value;
    return pointer.scope == GS_PTX_SAME_WARP && !pointer.differs ? GS_PTX_SAME_BLOCK : (gs_ptx_scope)pointer.scope;
}

static void look_at_statement(struct analysis *analysis, const gs_ptx_statement *statement, uint32_t block) {
    const gs_ptx_module *module = analysis->flow->module;
    gs_ptx_scope runs = (gs_ptx_scope)analysis->uniform->runs[block];
    struct step step = {.analysis = analysis,
                        .statement = statement,
                        .block = block,
                        .row = gs_ptx_row(statement),
                        .operands = module->operands.data + statement->operands};
    bool is_guarded = statement->guard != GS_PTX_NONE;
    gs_ptx_scope guard = is_guarded ? (gs_ptx_scope)value_at(analysis, statement->guard).scope : GS_PTX_SAME_BLOCK;
    if (statement->kind != GS_PTX_INSTRUCTION)
        return;
    size_t first = module->functions.data[analysis->flow->function].statements;
    uint8_t *known_guard = &analysis->uniform->guards[(size_t)(statement - module->statements.data) - first];
    *known_guard = (uint8_t)gs_max(*known_guard, gs_max(guard, scope_of_call(analysis, statement)));
    if (!statement->count)
        return;
    step.source_count = statement->count - 1;
    for (uint32_t i = 0; i < step.source_count && i < GS_COUNT(step.sources); i++)
        step.sources[i] = operand_value(analysis, &step.operands[i + 1]);
    struct value value = result_of(&step, runs);
    value.scope = (uint8_t)gs_max(gs_max(value.scope, runs), guard);
    value.differs = value.differs || gs_max(runs, guard) != GS_PTX_SAME_BLOCK;
    if (runs == GS_PTX_SAME_THREAD || guard == GS_PTX_SAME_THREAD)
        value = unknown_value;
    for (uint32_t i = 0; i < statement->count; i++)
        mark_written(analysis, &step.operands[i], value, !is_guarded && !step.operands[i].part);
}

/* The guard of the branch of a block, or the index of its table, decides whether all threads leave it by the same
   edge. */
static void look_at_branch(struct analysis *analysis, uint32_t number) {
    const gs_ptx_flow *flow = analysis->flow;
    const gs_ptx_block *block = &flow->blocks.data[number];
    const gs_ptx_statement *last = &flow->module->statements.data[block->last];
    uint8_t *decides = &analysis->uniform->decides[number], scope = GS_PTX_SAME_BLOCK;
    if (block->target_count)
        scope = operand_value(analysis, &flow->module->operands.data[last->operands]).scope;
    if ((block->successors[0] != GS_PTX_NONE || block->target_count) && last->guard != GS_PTX_NONE)
        scope = (uint8_t)gs_max(scope, value_at(analysis, last->guard).scope);
    analysis->has_changed = analysis->has_changed || scope > *decides;
    *decides = (uint8_t)gs_max(*decides, scope);
}

static void look_at_dependences(struct analysis *analysis) {
    const gs_ptx_flow *flow = analysis->flow;
    gs_ptx_uniform *uniform = analysis->uniform;
    for (size_t i = 0; i < flow->dependences.count; i++) {
        const gs_ptx_dependence *dependence = &flow->dependences.data[i];
        uint8_t scope = (uint8_t)gs_max(uniform->decides[dependence->branch], uniform->runs[dependence->branch]);
        if (scope > uniform->runs[dependence->block]) {
            uniform->runs[dependence->block] = scope;
            analysis->has_changed = true;
        }
    }
}

/* ---- waits of some threads ---- */

/* Whether all threads of the block that come to a waiting statement wait for each other there: at a plain barrier, or,
   within each warp, at an exchange. */
static bool waits_for_all(const gs_ptx_module *module, const gs_ptx_statement *statement, gs_ptx_scope scope) {
    switch (gs_ptx_row(statement)->waits) {
    case GS_PTX_WAITS_BLOCK:
        return scope == GS_PTX_SAME_BLOCK && statement->count == 1 &&
               module->operands.data[statement->operands].kind == GS_PTX_INTEGER;
    case GS_PTX_WAITS_LANES:
    case GS_PTX_WAITS_WARP:
        return scope != GS_PTX_SAME_THREAD;
    default:
        return false;
    }
}

/* Whether a statement of a block may let some lanes of a warp, or threads, wait for what others do later. */
static bool waits_apart(const struct analysis *analysis, uint32_t number, uint32_t block, int who) {
    const gs_ptx_module *module = analysis->flow->module;
    const gs_ptx_statement *statement = &module->statements.data[number];
    size_t first = module->functions.data[analysis->flow->function].statements;
    gs_ptx_scope scope =
        (gs_ptx_scope)gs_max(analysis->uniform->runs[block], analysis->uniform->guards[number - first]);
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    switch (gs_ptx_row(statement)->waits) {
    case GS_PTX_WAITS_NOT:
    case GS_PTX_WAITS_COPIES:
    case GS_PTX_WAITS_KERNEL:
        return statement->opcode == GS_PTX_CALL;
    default:
        return who == LANES ? scope == GS_PTX_SAME_THREAD : !waits_for_all(module, statement, scope);
    }
}

/* Whether memory may be waited for by reading it again with this statement, or behind this fence. */
static bool may_read_again(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    bool reads = gs_ptx_reads(module, statement) && (gs_ptx_row(statement)->operands[0] == 'w');
    return statement->opcode == GS_PTX_FENCE ||
           (reads && (gs_ptx_is_strong(module, statement) || gs_ptx_has(module, statement, "cg")));
}

static void note_wait(struct analysis *analysis, uint32_t block, int who) {
    analysis->waits[who][block] = analysis->is_behind[who][block] = analysis->has_changed = true;
    if (!gs_ptx_flow_reach(analysis->flow, block, analysis->is_behind[who]))
        analysis->is_out_of_memory = true;
}

static void look_at_waits(struct analysis *analysis, int who) {
    const gs_ptx_flow *flow = analysis->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; !analysis->waits[who][b] && i <= flow->blocks.data[b].last; i++)
            if (waits_apart(analysis, i, b, who))
                note_wait(analysis, b, who);
}

/* Loops with strong reads or fences. */
static void find_loops_that_read_again(struct analysis *analysis) {
    const gs_ptx_flow *flow = analysis->flow;
    bool *reached = malloc(flow->blocks.count + 1);
    analysis->is_out_of_memory = !reached;
    for (uint32_t b = 0; b < flow->blocks.count && !analysis->is_out_of_memory; b++) {
        bool reads_again = false;
        for (uint32_t i = flow->blocks.data[b].first; i <= flow->blocks.data[b].last; i++)
            reads_again = reads_again || may_read_again(flow->module, &flow->module->statements.data[i]);
        if (!reads_again || analysis->is_behind[LANES][b])
            continue;
        memset(reached, 0, flow->blocks.count + 1);
        analysis->is_out_of_memory = !gs_ptx_flow_reach(flow, b, reached);
        for (int who = LANES; who <= THREADS && reached[b]; who++)
            note_wait(analysis, b, who);
    }
    free(reached);
}

/* ---- the whole analysis, block by block ---- */

/* The values at the end of a block are merged into those at the beginning of its successors. */
static void pass_on(struct analysis *analysis, uint32_t to) {
    uint8_t *at_entry = analysis->at_entry + to * analysis->slot_count, worse_bits = 0;
    const uint8_t *current = analysis->current;
    if (to >= analysis->flow->blocks.count)
        return;
    for (size_t i = 0; i < analysis->slot_count; i++) {
        worse_bits |= (uint8_t)(current[i] & ~at_entry[i]);
        at_entry[i] |= current[i];
    }
    analysis->has_changed = analysis->has_changed || worse_bits;
}

static void look_at_block(struct analysis *analysis, uint32_t number) {
    const gs_ptx_flow *flow = analysis->flow;
    const gs_ptx_block *block = &flow->blocks.data[number];
    if (analysis->slot_count)
        memcpy(analysis->current, analysis->at_entry + number * analysis->slot_count, analysis->slot_count);
    for (uint32_t i = block->first; i <= block->last; i++)
        look_at_statement(analysis, &flow->module->statements.data[i], number);
    look_at_branch(analysis, number);
    for (int i = 0; i < 2; i++)
        if (block->successors[i] != GS_PTX_NONE)
            pass_on(analysis, block->successors[i]);
    for (uint32_t i = 0; i < block->target_count; i++)
        pass_on(analysis, flow->targets.data[block->targets + i]);
}

/* ---- the whole analysis ---- */

/* Counts the writes of registers: none, one, more. */
static void count_writes(const gs_ptx_module *module, const gs_ptx_operand *operand, uint8_t *writes) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE && writes[operand->value] < 2)
        writes[operand->value]++;
    for (uint32_t i = 0; i < operand->count; i++)
        count_writes(module, &module->operands.data[operand->children + i], writes);
}

/* Gives registers that are written at several places a slot. If that would take too much memory, they have one value
   like the others, the worst of all their values. */
static bool assign_slots(struct analysis *analysis, size_t registers) {
    enum { MOST_VALUES = 8 << 20 };
    const gs_ptx_module *module = analysis->flow->module;
    const gs_ptx_function *function = &module->functions.data[analysis->flow->function];
    uint8_t *writes = calloc(registers + 1, 1);
    if (!writes)
        return false;
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[i];
        for (uint32_t j = 0; statement->kind == GS_PTX_INSTRUCTION && j < statement->count; j++)
            count_writes(module, &module->operands.data[statement->operands + j], writes);
    }
    size_t several = 0;
    for (size_t i = 0; i < registers; i++)
        several += writes[i] > 1;
    bool is_small = several * analysis->flow->blocks.count <= MOST_VALUES;
    for (size_t i = 0; i < registers; i++)
        analysis->slots[i] = is_small && writes[i] > 1 ? (uint32_t)analysis->slot_count++ : GS_PTX_NONE;
    free(writes);
    return true;
}

static bool prepare_analysis(struct analysis *analysis) {
    const gs_ptx_flow *flow = analysis->flow;
    const gs_ptx_function *function = &flow->module->functions.data[flow->function];
    size_t registers = function->register_count, blocks = flow->blocks.count;
    *analysis->uniform = (gs_ptx_uniform){.decides = calloc(blocks + 1, 1),
                                          .runs = calloc(blocks + 1, 1),
                                          .guards = calloc(function->statement_count + 1, 1)};
    analysis->slots = malloc((registers + 1) * sizeof *analysis->slots);
    analysis->once = calloc(registers + 1, 1); /* the best of all values */
    if (!analysis->slots || !analysis->once || !assign_slots(analysis, registers))
        return false;
    analysis->at_entry = calloc(blocks * analysis->slot_count + 1, 1);
    analysis->current = calloc(analysis->slot_count + 1, 1);
    for (int who = LANES; who <= THREADS; who++) {
        analysis->waits[who] = calloc(blocks + 1, 1);
        analysis->is_behind[who] = calloc(blocks + 1, 1);
        if (!analysis->waits[who] || !analysis->is_behind[who])
            return false;
    }
    find_loops_that_read_again(analysis);
    return !analysis->is_out_of_memory && analysis->at_entry && analysis->current && analysis->uniform->decides &&
           analysis->uniform->runs && analysis->uniform->guards;
}

gs_code gs_ptx_uniform_make(gs_ptx_uniform *uniform, const gs_ptx_flow *flow, bool has_whole_rows, gs_error *error) {
    struct analysis analysis = {.flow = flow, .uniform = uniform, .has_whole_rows = has_whole_rows};
    gs_code code = prepare_analysis(&analysis) ? GS_OK : gs_fail_memory(error);
    do {
        analysis.has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count && code == GS_OK; b++)
            look_at_block(&analysis, b);
        if (code == GS_OK) {
            look_at_dependences(&analysis);
            look_at_waits(&analysis, LANES);
            look_at_waits(&analysis, THREADS);
        }
        if (analysis.is_out_of_memory)
            code = gs_fail_memory(error);
    } while (analysis.has_changed && code == GS_OK);
    free(analysis.slots);
    free(analysis.once);
    free(analysis.at_entry);
    free(analysis.current);
    for (int who = LANES; who <= THREADS; who++) {
        free(analysis.waits[who]);
        free(analysis.is_behind[who]);
    }
    if (code != GS_OK)
        gs_ptx_uniform_free(uniform);
    return code;
}

void gs_ptx_uniform_free(gs_ptx_uniform *uniform) {
    free(uniform->decides);
    free(uniform->runs);
    free(uniform->guards);
    *uniform = (gs_ptx_uniform){0};
}
