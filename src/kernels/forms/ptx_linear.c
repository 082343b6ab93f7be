/*
 * ptx_linear.c: an address as a linear expression: a constant, and parameters, the block number and thread numbers,
 * each times a constant.
 *
 * That is enough to compare the address that a block waits for with the addresses that blocks write. A register that is
 * written once is followed to its definition. A register that a loop only decreases is at most its initial value. Sums
 * are assumed not to overflow.
 */
#include "ptx_linear.h"

#include <stdlib.h>

enum { DEEPEST = 48, MOST_STEPS = 10000, LONGEST_WAY = 2000 };

/* ---- sums ---- */

static void add_term(gs_linear *sum, uint64_t symbol, int64_t times) {
    for (int i = 0; i < sum->count; i++)
        if (sum->terms[i].symbol == symbol) {
            sum->terms[i].times += times;
            return;
        }
    if (sum->count == GS_LINEAR_TERMS)
        sum->is_known = false;
    else
        sum->terms[sum->count++] = (struct gs_linear_term){symbol, times};
}

gs_linear gs_linear_add(gs_linear one, const gs_linear *other, int64_t times) {
    one.is_known = one.is_known && other->is_known;
    one.is_bound = one.is_bound || other->is_bound;
    if (other->is_bound && times < 0)
        one.is_known = false;
    one.number += other->number * times;
    for (int i = 0; i < other->count; i++)
        add_term(&one, other->terms[i].symbol, other->terms[i].times * times);
    return one;
}

static const gs_linear unknown = {.is_known = false};

static gs_linear linear_number(int64_t value) {
    return (gs_linear){.is_known = true, .number = value};
}

static gs_linear linear_symbol(uint64_t kind, uint64_t value) {
    gs_linear sum = {.is_known = true};
    add_term(&sum, kind << 56 | value, 1);
    return sum;
}

static gs_linear linear_times(const gs_linear *sum, int64_t factor) {
    gs_linear none = linear_number(0);
    return factor > (1 << 30) || factor < -(1 << 30) ? unknown : gs_linear_add(none, sum, factor);
}

/* ---- where registers are written ---- */

struct evaluation {
    const gs_ptx_kernel *kernel;
    uint32_t looping; /* a register that stands for itself, or GS_PTX_NONE */
    int left;         /* how many more registers may be followed */
};

static uint32_t writer_count(const gs_ptx_kernel *kernel, uint32_t number) {
    return kernel->writer_first[number + 1] - kernel->writer_first[number];
}

static const gs_ptx_statement *writer_at(const gs_ptx_kernel *kernel, uint32_t number, uint32_t index) {
    return &kernel->module->statements.data[kernel->writers[kernel->writer_first[number] + index]];
}

const gs_ptx_statement *gs_ptx_only_writer(const gs_ptx_kernel *kernel, uint32_t number) {
    return writer_count(kernel, number) == 1 ? writer_at(kernel, number, 0) : NULL;
}

/* ---- values ---- */

static gs_linear value_of(struct evaluation *evaluation, const gs_ptx_operand *operand, int depth);

static gs_linear special_value(const gs_ptx_operand *operand) {
    switch (operand->value) {
    case GS_PTX_CTAID:
        return linear_symbol(GS_LINEAR_BLOCK, operand->part);
    case GS_PTX_TID:
    case GS_PTX_LANEID:
    case GS_PTX_NTID:
    case GS_PTX_NCTAID:
        return linear_symbol(GS_LINEAR_NOT_NEGATIVE, operand->value << 8 | operand->part);
    default:
        return unknown;
    }
}

bool gs_ptx_begins(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, const char *words) {
    const gs_ptx_token *token = &kernel->module->tokens.data[statement->word];
    const char *text = kernel->module->text + token->at, *dot = memchr(text, '.', token->length);
    return dot && gs_ptx_is_listed(words, text, (size_t)(dot - text));
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
            writer && writer->count == 2 && writer->guard == GS_PTX_NONE && gs_ptx_begins(kernel, writer, "mov");
        named = is_move ? &module->operands.data[writer->operands + 1] : NULL;
        *offset += named ? (uint32_t)named->bits : 0;
    }
    bool is_parameter =
        named && named->kind == GS_PTX_SYMBOL && named->value - function->parameters < function->parameter_count;
    return is_parameter ? named : NULL;
}

static gs_linear load_value(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_operand *address = &module->operands.data[statement->operands + 1];
    uint32_t offset;
    const gs_ptx_operand *named =
        gs_ptx_has(module, statement, "param") ? parameter_of(kernel, address, &offset) : NULL;
    if (!named)
        return unknown;
    uint32_t number = named->value - module->functions.data[kernel->function].parameters;
    return linear_symbol(GS_LINEAR_PARAMETER, (uint64_t)number << 32 | offset);
}

static bool is_symbol(const gs_linear *sum, uint64_t kind, uint64_t value) {
    return sum->is_known && !sum->is_bound && !sum->number && sum->count == 1 && sum->terms[0].times == 1 &&
           sum->terms[0].symbol == (kind << 56 | value);
}

/* The first block of a column, where blocks are numbered column by column: %ctaid.x * %nctaid.y. */
static bool is_column(const gs_linear *one, const gs_linear *other) {
    return is_symbol(one, GS_LINEAR_BLOCK, 'x') && is_symbol(other, GS_LINEAR_NOT_NEGATIVE, GS_PTX_NCTAID << 8 | 'y');
}

static gs_linear linear_product(const gs_linear *one, const gs_linear *other) {
    if (is_column(one, other) || is_column(other, one))
        return linear_symbol(GS_LINEAR_BLOCK, GS_LINEAR_COLUMN);
    if (one->is_known && !one->count)
        return linear_times(other, one->number);
    return other->is_known && !other->count ? linear_times(one, other->number) : unknown;
}

static gs_linear result_of(struct evaluation *evaluation, const gs_ptx_statement *statement, int depth) {
    const gs_ptx_kernel *kernel = evaluation->kernel;
    const gs_ptx_operand *operands = kernel->module->operands.data + statement->operands;
    gs_linear values[3] = {unknown, unknown, unknown};
    if (statement->guard != GS_PTX_NONE || statement->count < 2 || statement->count > 4 ||
        operands[0].kind != GS_PTX_REGISTER)
        return unknown;
    if (statement->opcode == GS_PTX_LOAD)
        return load_value(kernel, statement);
    if (statement->opcode != GS_PTX_COMPUTE || gs_ptx_has(kernel->module, statement, "f32") ||
        gs_ptx_has(kernel->module, statement, "hi"))
        return unknown;
    for (uint32_t i = 1; i < statement->count; i++)
        values[i - 1] = value_of(evaluation, &operands[i], depth + 1);
    if (gs_ptx_begins(kernel, statement, "mov cvt cvta"))
        return values[0];
    if (gs_ptx_begins(kernel, statement, "add"))
        return gs_linear_add(values[0], &values[1], 1);
    if (gs_ptx_begins(kernel, statement, "sub"))
        return gs_linear_add(values[0], &values[1], -1);
    if (gs_ptx_begins(kernel, statement, "shl"))
        return values[1].is_known && !values[1].count && values[1].number >= 0 && values[1].number < 30
                   ? linear_times(&values[0], 1 << values[1].number)
                   : unknown;
    if (gs_ptx_begins(kernel, statement, "not")) { /* ~x = -x - 1 */
        gs_linear minus = linear_number(-1);
        return gs_linear_add(minus, &values[0], -1);
    }
    gs_linear factor = linear_product(&values[0], &values[1]);
    if (gs_ptx_begins(kernel, statement, "mul"))
        return factor;
    return gs_ptx_begins(kernel, statement, "mad") ? gs_linear_add(factor, &values[2], 1) : unknown;
}

/* A register that is written in several places: at most its initial value, if all other writes only decrease it. */
static gs_linear bound_of(struct evaluation *evaluation, uint32_t register_number, int depth) {
    enum { MOST_WRITERS = 4 };
    uint32_t writers = writer_count(evaluation->kernel, register_number);
    gs_linear first = unknown, self = linear_symbol(GS_LINEAR_REGISTER, register_number);
    uint32_t before = evaluation->looping;
    if (before != GS_PTX_NONE || writers > MOST_WRITERS)
        return unknown;
    evaluation->looping = register_number;
    bool is_well = true;
    for (uint32_t i = 0; i < writers && is_well; i++) {
        gs_linear value = result_of(evaluation, writer_at(evaluation->kernel, register_number, i), depth + 1);
        gs_linear change = gs_linear_add(value, &self, -1);
        bool is_change = change.is_known && change.number <= 0;
        for (int j = 0; j < change.count; j++)
            is_change = is_change && change.terms[j].times == 0;
        if (is_change)
            continue;
        is_well = value.is_known && !first.is_known;
        first = value;
    }
    evaluation->looping = GS_PTX_NONE;
    first.is_bound = true;
    return is_well ? first : unknown;
}

static gs_linear register_value(struct evaluation *evaluation, uint32_t register_number, int depth) {
    if (register_number == evaluation->looping)
        return linear_symbol(GS_LINEAR_REGISTER, register_number);
    if (depth > DEEPEST || evaluation->left-- <= 0)
        return unknown;
    uint32_t writers = writer_count(evaluation->kernel, register_number);
    if (writers == 1)
        return result_of(evaluation, writer_at(evaluation->kernel, register_number, 0), depth);
    return writers > 1 ? bound_of(evaluation, register_number, depth) : unknown;
}

static gs_linear value_of(struct evaluation *evaluation, const gs_ptx_operand *operand, int depth) {
    switch (operand->kind) {
    case GS_PTX_REGISTER: {
        gs_linear value = register_value(evaluation, operand->value, depth);
        value.number += (int64_t)operand->bits;
        return operand->part ? unknown : value;
    }
    case GS_PTX_SPECIAL:
        return special_value(operand);
    case GS_PTX_INTEGER:
        return linear_number((int64_t)operand->bits);
    default:
        return unknown;
    }
}

gs_linear gs_linear_address(const gs_ptx_kernel *kernel, const gs_ptx_operand *address) {
    struct evaluation evaluation = {.kernel = kernel, .looping = GS_PTX_NONE, .left = MOST_STEPS};
    if (address->kind != GS_PTX_ADDRESS || address->count != 1)
        return unknown;
    return value_of(&evaluation, &kernel->module->operands.data[address->children], 0);
}

gs_linear gs_linear_register(const gs_ptx_kernel *kernel, uint32_t number) {
    struct evaluation evaluation = {.kernel = kernel, .looping = GS_PTX_NONE, .left = MOST_STEPS};
    return register_value(&evaluation, number, 0);
}

/* ---- the origin of an address ---- */

struct origin {
    const gs_ptx_kernel *kernel;
    uint64_t parameter;
    bool *seen; /* registers */
    bool found;
    int depth;
};

static void trace_register(struct origin *origin, uint32_t number);

static void trace_operand(struct origin *origin, const gs_ptx_operand *operand) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ)
        trace_register(origin, operand->value);
    for (uint32_t i = 0; i < operand->count; i++)
        trace_operand(origin, &origin->kernel->module->operands.data[operand->children + i]);
}

/* Products and shifted values are not pointers; only a value that is added to a product may be one. */
static uint32_t first_traced(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    if (gs_ptx_begins(kernel, statement, "mul shl"))
        return statement->count;
    return gs_ptx_begins(kernel, statement, "mad") ? 3 : 0;
}

/* Only loads of 64 bits return pointers; results of calls and of unknown instructions may be pointers, too. */
static void trace_statement(struct origin *origin, const gs_ptx_statement *statement, uint32_t number) {
    const gs_ptx_kernel *kernel = origin->kernel;
    gs_ptx_type type = gs_ptx_register_type(kernel->module, kernel->function, number);
    if (statement->opcode == GS_PTX_LOAD && gs_ptx_has(kernel->module, statement, "param")) {
        gs_linear loaded = statement->count > 1 ? load_value(kernel, statement) : unknown;
        origin->found = origin->found ||
                        (loaded.is_known ? loaded.terms[0].symbol == origin->parameter : gs_ptx_type_bytes(type) == 8);
    } else if (statement->opcode == GS_PTX_COMPUTE) {
        for (uint32_t i = first_traced(kernel, statement); i < statement->count && !origin->found; i++)
            trace_operand(origin, &kernel->module->operands.data[statement->operands + i]);
    } else {
        origin->found = origin->found || gs_ptx_type_bytes(type) == 8;
    }
}

static void trace_register(struct origin *origin, uint32_t number) {
    if (origin->seen[number] || origin->found)
        return;
    origin->seen[number] = true;
    origin->found = ++origin->depth > LONGEST_WAY; /* then it is assumed */
    for (uint32_t i = 0; i < writer_count(origin->kernel, number) && !origin->found; i++)
        trace_statement(origin, writer_at(origin->kernel, number, i), number);
    origin->depth--;
}

bool gs_linear_may_contain(const gs_ptx_kernel *kernel, const gs_ptx_operand *address, uint64_t parameter) {
    size_t registers = kernel->module->functions.data[kernel->function].register_count;
    struct origin origin = {.kernel = kernel, .parameter = parameter, .seen = calloc(registers + 1, sizeof(bool))};
    if (!origin.seen)
        return true;
    for (uint32_t i = 0; i < address->count; i++) {
        const gs_ptx_operand *child = &kernel->module->operands.data[address->children + i];
        if (child->kind == GS_PTX_REGISTER)
            trace_register(&origin, child->value);
    }
    free(origin.seen);
    return origin.found;
}
