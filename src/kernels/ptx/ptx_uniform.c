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
 * `tid / 32` is the same in a warp, and so is `tid < 64`. That is followed through additions of multiples of 32.
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
};

/* A value in a byte, so that the worse of two is their bitwise or: large functions have millions of them. */
enum { NOT_SAME_BLOCK = 1, NOT_SAME_WARP = 2, NOT_MULTIPLE = 4, OTHER_TOPS = 8 };

static uint8_t pack_value(struct value value) {
    return (uint8_t)((value.scope >= GS_PTX_SAME_WARP ? NOT_SAME_BLOCK : 0) |
                     (value.scope >= GS_PTX_SAME_THREAD ? NOT_SAME_WARP : 0) | (value.is_multiple ? 0 : NOT_MULTIPLE) |
                     (value.has_same_tops ? 0 : OTHER_TOPS));
}

static struct value unpack_value(uint8_t bits) {
    return (struct value){.scope = bits & NOT_SAME_WARP    ? GS_PTX_SAME_THREAD
                                   : bits & NOT_SAME_BLOCK ? GS_PTX_SAME_WARP
                                                           : GS_PTX_SAME_BLOCK,
                          .is_multiple = !(bits & NOT_MULTIPLE),
                          .has_same_tops = !(bits & OTHER_TOPS)};
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
    bool has_whole_rows, has_changed;
};

static const struct value unknown_value = {.scope = GS_PTX_SAME_THREAD};

static struct value value_of_scope(gs_ptx_scope scope) {
    return (struct value){.scope = (uint8_t)scope, .has_same_tops = scope != GS_PTX_SAME_THREAD};
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
        value.has_same_tops = true;
    if (!analysis->has_whole_rows)
        return value;
    if (operand->value == GS_PTX_TID && operand->part == 'x')
        value.has_same_tops = true;
    else if (operand->value == GS_PTX_TID)
        value = value_of_scope(GS_PTX_SAME_WARP);
    else if (operand->value == GS_PTX_NTID && operand->part == 'x')
        value.is_multiple = true;
    return value;
}

static struct value worse_value(struct value one, struct value other) {
    return (struct value){.scope = one.scope > other.scope ? one.scope : other.scope,
                          .is_multiple = one.is_multiple && other.is_multiple,
                          .has_same_tops = one.has_same_tops && other.has_same_tops};
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
    value.is_multiple = false;
    value.has_same_tops = value.scope != GS_PTX_SAME_THREAD;
    return value;
}

/* ---- instructions ---- */

/* An instruction, with the values of its operands at hand. */
struct step {
    const struct analysis *analysis;
    const gs_ptx_statement *statement;
    const gs_ptx_operand *operands;
    char word[40];
    struct value sources[4]; /* after the first operand */
    uint32_t source_count;
};

static bool opcode_begins(const struct step *step, const char *word) {
    size_t length = strlen(word);
    return strncmp(step->word, word, length) == 0 && (step->word[length] == '.' || !step->word[length]);
}

static bool opcode_has(const struct step *step, const char *suffix) {
    return gs_ptx_has(step->analysis->flow->module, step->statement, suffix);
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
    return value;
}

static struct value value_of_product(struct value one, struct value other) {
    struct value value = worse_value(one, other);
    value.is_multiple = one.is_multiple || other.is_multiple;
    value.has_same_tops = value.scope != GS_PTX_SAME_THREAD;
    return value;
}

/* The value without its lowest five bits is the same in a warp, if the upper bits are. */
static struct value without_low_bits(struct value value) {
    if (value.has_same_tops && value.scope == GS_PTX_SAME_THREAD)
        value.scope = GS_PTX_SAME_WARP;
    value.has_same_tops = value.scope != GS_PTX_SAME_THREAD;
    value.is_multiple = false;
    return value;
}

static struct value value_of_shift(const struct step *step) {
    struct value value = value_of_product(step->sources[0], value_of_scope(step->sources[1].scope));
    uint64_t count;
    bool drops_five = constant_of(step, 2, &count) && count >= 5;
    value.is_multiple = opcode_begins(step, "shl") && (step->sources[0].is_multiple || drops_five);
    return opcode_begins(step, "shr") && drops_five ? without_low_bits(step->sources[0]) : value;
}

static struct value value_of_mask(const struct step *step) {
    uint64_t bits;
    struct value value = worse_value(step->sources[0], step->sources[1]);
    if (opcode_begins(step, "and") && constant_of(step, 2, &bits) && bits % 32 == 0) {
        value = without_low_bits(step->sources[0]);
        value.is_multiple = true;
    }
    return value;
}

/* `tid < 64` and `tid > 63` depend on the upper bits alone. */
static struct value value_of_comparison(const struct step *step) {
    struct value left = step->sources[0], right = step->sources[1], value = unknown_value;
    uint64_t bits;
    bool below = opcode_has(step, "lt") || opcode_has(step, "ge") || opcode_has(step, "lo") || opcode_has(step, "hs"),
         above = opcode_has(step, "gt") || opcode_has(step, "le") || opcode_has(step, "hi") || opcode_has(step, "ls");
    value.scope = worse_value(left, right).scope;
    bool is_number =
        !opcode_has(step, "f32") && !opcode_has(step, "f64") && !opcode_has(step, "f16") && step->source_count == 2;
    bool is_edge = (below && right.is_multiple && right.scope != GS_PTX_SAME_THREAD) ||
                   (above && constant_of(step, 2, &bits) && bits % 32 == 31);
    if (is_number && left.has_same_tops && left.scope == GS_PTX_SAME_THREAD && is_edge)
        value.scope = GS_PTX_SAME_WARP;
    for (uint32_t i = 2; i < step->source_count; i++)
        value.scope = worse_value(value, step->sources[i]).scope;
    return value;
}

/* Carries come from a flag that is not an operand. */
static bool reads_carry(const struct step *step) {
    return opcode_begins(step, "addc") || opcode_begins(step, "subc") || opcode_begins(step, "madc") ||
           opcode_begins(step, "activemask");
}

static struct value value_of_computation(const struct step *step) {
    struct value value = value_of_scope(GS_PTX_SAME_BLOCK);
    bool is_real =
        opcode_has(step, "f32") || opcode_has(step, "f64") || opcode_has(step, "f16") || opcode_has(step, "bf16");
    if (reads_carry(step) || step->source_count > GS_COUNT(step->sources))
        return unknown_value;
    if (opcode_begins(step, "setp") && step->source_count >= 2)
        return value_of_comparison(step);
    if (!is_real && step->source_count == 1 &&
        (opcode_begins(step, "mov") || opcode_begins(step, "cvt") || opcode_begins(step, "cvta")))
        return step->operands[0].kind == GS_PTX_REGISTER && step->operands[1].kind != GS_PTX_VECTOR
                   ? step->sources[0]
                   : value_of_scope(step->sources[0].scope);
    if (!is_real && step->source_count == 2) {
        bool second_moves = step->sources[1].is_multiple && step->sources[1].scope != GS_PTX_SAME_THREAD;
        if (opcode_begins(step, "add") || (opcode_begins(step, "sub") && second_moves))
            return value_of_sum(step->sources[0], step->sources[1]);
        if (opcode_begins(step, "mul") && !opcode_has(step, "hi"))
            return value_of_product(step->sources[0], step->sources[1]);
        if (opcode_begins(step, "shl") || opcode_begins(step, "shr"))
            return value_of_shift(step);
        if (opcode_begins(step, "and") || opcode_begins(step, "or") || opcode_begins(step, "xor"))
            return value_of_mask(step);
    }
    if (!is_real && opcode_begins(step, "mad") && !opcode_has(step, "hi") && step->source_count == 3)
        return value_of_sum(value_of_product(step->sources[0], step->sources[1]), step->sources[2]);
    for (uint32_t i = 0; i < step->source_count; i++)
        value.scope = worse_value(value, step->sources[i]).scope;
    return value_of_scope(value.scope);
}

/* A parameter of the kernel itself, which is the same for all threads. */
static bool is_kernel_parameter(const gs_ptx_flow *flow, const gs_ptx_operand *operand) {
    const gs_ptx_function *function = &flow->module->functions.data[flow->function];
    return function->is_entry && operand->kind == GS_PTX_SYMBOL &&
           operand->value - function->parameters < function->parameter_count;
}

/* Memory that is constant while the kernel runs gives the same value for the same address. */
static struct value value_of_load(const struct step *step) {
    const gs_ptx_module *module = step->analysis->flow->module;
    bool never_changes = opcode_has(step, "const") || opcode_has(step, "nc");
    if (step->source_count != 1)
        return unknown_value;
    const gs_ptx_operand *address = &step->operands[1];
    if (opcode_has(step, "param") && address->count)
        never_changes = is_kernel_parameter(step->analysis->flow, &module->operands.data[address->children]);
    return never_changes ? value_of_scope(step->sources[0].scope) : unknown_value;
}

/* Results that are the same in all lanes of a warp: votes, sums, and the value of one lane. */
static struct value value_of_exchange(const struct step *step, gs_ptx_scope runs) {
    uint64_t segment;
    bool is_same = opcode_begins(step, "vote") || opcode_begins(step, "redux") ||
                   (opcode_begins(step, "shfl") && opcode_has(step, "idx") && step->source_count >= 3 &&
                    step->sources[1].scope != GS_PTX_SAME_THREAD && constant_of(step, 3, &segment) && segment == 31);
    return is_same && runs != GS_PTX_SAME_THREAD ? value_of_scope(GS_PTX_SAME_WARP) : unknown_value;
}

static struct value result_of(const struct step *step, gs_ptx_scope runs) {
    switch (step->statement->opcode) {
    case GS_PTX_COMPUTE:
        return value_of_computation(step);
    case GS_PTX_LOAD:
        return value_of_load(step);
    case GS_PTX_SHUFFLE:
        return value_of_exchange(step, runs);
    case GS_PTX_BARRIER:
        return value_of_scope(GS_PTX_SAME_BLOCK); /* all threads get the result of bar.red */
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

static void look_at_statement(struct analysis *analysis, const gs_ptx_statement *statement, gs_ptx_scope runs) {
    const gs_ptx_module *module = analysis->flow->module;
    struct step step = {
        .analysis = analysis, .statement = statement, .operands = module->operands.data + statement->operands};
    bool is_guarded = statement->guard != GS_PTX_NONE;
    gs_ptx_scope guard = is_guarded ? (gs_ptx_scope)value_at(analysis, statement->guard).scope : GS_PTX_SAME_BLOCK;
    if (statement->kind != GS_PTX_INSTRUCTION)
        return;
    size_t first = module->functions.data[analysis->flow->function].statements;
    uint8_t *known_guard = &analysis->uniform->guards[(size_t)(statement - module->statements.data) - first];
    *known_guard = (uint8_t)gs_max(*known_guard, guard);
    if (!statement->count)
        return;
    gs_ptx_token_text(module, statement->word, step.word, sizeof step.word);
    step.source_count = statement->count - 1;
    for (uint32_t i = 0; i < step.source_count && i < GS_COUNT(step.sources); i++)
        step.sources[i] = operand_value(analysis, &step.operands[i + 1]);
    struct value value = result_of(&step, runs);
    value.scope = (uint8_t)gs_max(gs_max(value.scope, runs), guard);
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
    if (block->successors[0] != GS_PTX_NONE && last->guard != GS_PTX_NONE)
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
        look_at_statement(analysis, &flow->module->statements.data[i], analysis->uniform->runs[number]);
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
    return analysis->at_entry && analysis->current && analysis->uniform->decides && analysis->uniform->runs &&
           analysis->uniform->guards;
}

gs_code gs_ptx_uniform_make(gs_ptx_uniform *uniform, const gs_ptx_flow *flow, bool has_whole_rows, gs_error *error) {
    struct analysis analysis = {.flow = flow, .uniform = uniform, .has_whole_rows = has_whole_rows};
    gs_code code = prepare_analysis(&analysis) ? GS_OK : gs_fail_memory(error);
    do {
        analysis.has_changed = false;
        for (uint32_t b = 0; b < flow->blocks.count && code == GS_OK; b++)
            look_at_block(&analysis, b);
        if (code == GS_OK)
            look_at_dependences(&analysis);
    } while (analysis.has_changed);
    free(analysis.slots);
    free(analysis.once);
    free(analysis.at_entry);
    free(analysis.current);
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
