/*
 * rounds_exact.c: whether the branches of a PTX kernel go on a CPU as on a GPU.
 *
 * A register is *inexact* if the CPU may have another value in it: of an approximate function, a product of matrices, a
 * sum that may be fused with a product, an atomic operation (its result depends on the order), a strong load, a
 * texture, a cache policy, a clock or the number of an SM, or of something that is inexact. Memory is inexact by state
 * space: if one inexact value is stored there, all that is loaded from there is, unless it cannot change. What atomic
 * operations leave there is exact if all at one place are the same, such as sums. Which statement comes first does not
 * count.
 *
 * What may be a product spreads in the same way: ptxas fuses a sum with a product that comes to it through moves,
 * signs, memory and other lanes. It fuses only where neither of them has a rounding.
 *
 * An address is another number on a GPU, but of the same place, as long as only exact numbers are added to it: what is
 * loaded from there is the same. Its *origin* is the buffer or the variable. Two addresses of one origin may be
 * subtracted, and compared: for equality, and in global memory for order, where one may be compared with 0, too. Shared
 * memory begins at 0 on the CPU only: a place before a variable is at the end of the numbers there. All else that is
 * computed from an address is inexact, and so is what is loaded from a place that has a number only.
 *
 * Statements count that some thread comes to on the CPU. None of their branches depends on a register that is inexact:
 * so all threads go the same way, come to the same statements, and inexact values spread through registers and memory
 * only. Not found are races, and memory that is read before it is written.
 */
#include "rounds.h"

#include <stdlib.h>

/* Where an inexact value begins, and the store through which it went first, if any: 1 + the statement; 0: none. */
struct cause {
    uint32_t begin, store;
};

enum { SPACES = 8 }; /* bits of a set of GS_PTX_IN_* */

/* Where values of a kind are, each with its cause. */
struct places {
    struct cause *registers;
    struct cause memory[SPACES];
    struct cause carries; /* those of some instruction with .cc */
};

struct exactness {
    const gs_ptx_module *module;
    const gs_ptx_function *function;
    const bool *is_passed; /* of each statement */
    uint32_t statement;    /* that is looked at */
    struct places inexact;
    struct places product; /* which may be fused with a sum */
    const gs_launch_file *launch;
    uint32_t *origin;       /* of each register: of all that is written to it, */
    uint32_t *latest;       /* and of what was written last, */
    uint32_t *latest_piece; /* if that was in this piece of the code, */
    uint32_t piece;         /* which has a number, and no label or branch inside */
    bool has_changed;
};

/* Origins. A register may have addresses of several: of some place. MIXED: or numbers. Behind the addresses of all
   variables are those of the buffers that parameters point to. */
enum { NOT_WRITTEN, NUMBER, MIXED, SOME_PLACE, FIRST_VARIABLE };

static bool is_of_machine(uint32_t special) {
    switch (special) {
    case GS_PTX_WARPID:
    case GS_PTX_NWARPID:
    case GS_PTX_SMID:
    case GS_PTX_NSMID:
    case GS_PTX_GRIDID:
        return true;
    default:
        return special >= GS_PTX_CLOCK; /* clocks, timers and counters are the last ones */
    }
}

static struct cause here(const struct exactness *exactness) {
    return (struct cause){.begin = exactness->statement + 1};
}

/* The cause of the first register that is read in an operand, if any has one. */
static struct cause reads(const struct exactness *exactness, const gs_ptx_operand *operand,
                          const struct places *places) {
    struct cause found = {0};
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_READ)
        found = places->registers[operand->value];
    else if (operand->kind == GS_PTX_SPECIAL && places == &exactness->inexact && is_of_machine(operand->value))
        found = here(exactness);
    for (uint32_t i = 0; i < operand->count && !found.begin; i++)
        found = reads(exactness, &exactness->module->operands.data[operand->children + i], places);
    return found;
}

static void set_cause(struct exactness *exactness, struct cause *of, struct cause cause) {
    if (of->begin)
        return;
    *of = cause;
    exactness->has_changed = true;
}

static void mark_written(struct exactness *exactness, const gs_ptx_operand *operand, struct places *places,
                         struct cause cause) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE)
        set_cause(exactness, &places->registers[operand->value], cause);
    for (uint32_t i = 0; i < operand->count; i++)
        mark_written(exactness, &exactness->module->operands.data[operand->children + i], places, cause);
}

static struct cause reads_any(const struct exactness *exactness, const gs_ptx_statement *statement,
                              const struct places *places) {
    struct cause found = {0};
    if (statement->guard != GS_PTX_NONE)
        found = places->registers[statement->guard];
    for (uint32_t i = 0; i < statement->count && !found.begin; i++)
        found = reads(exactness, &exactness->module->operands.data[statement->operands + i], places);
    return found;
}

/* The cause of what a statement loads, of the carry, or of a register that it reads. */
static struct cause takes(const struct exactness *exactness, const gs_ptx_statement *statement,
                          const struct places *places) {
    uint8_t read = gs_ptx_reads(exactness->module, statement);
    struct cause found = {0};
    for (int i = 0; i < SPACES && !found.begin && !gs_ptx_reads_constants(exactness->module, statement); i++)
        if (read >> i & 1)
            found = places->memory[i];
    if (!found.begin && gs_ptx_math_of(statement) == GS_PTX_MATH_CARRY)
        found = places->carries;
    return found.begin ? found : reads_any(exactness, statement, places);
}

/* All registers that a statement writes, and the carry. */
static void mark_results(struct exactness *exactness, const gs_ptx_statement *statement, struct places *places,
                         struct cause cause) {
    for (uint32_t i = 0; i < statement->count; i++)
        mark_written(exactness, &exactness->module->operands.data[statement->operands + i], places, cause);
    if (gs_ptx_has(exactness->module, statement, "cc"))
        set_cause(exactness, &places->carries, cause);
}

/* All memory that a statement may write. */
static void mark_memory(struct exactness *exactness, const gs_ptx_statement *statement, struct places *places,
                        struct cause cause) {
    uint8_t written = gs_ptx_writes(exactness->module, statement);
    if (!cause.store)
        cause.store = exactness->statement + 1;
    for (int i = 0; i < SPACES; i++)
        if (written >> i & 1)
            set_cause(exactness, &places->memory[i], cause);
}

/* Whether it reads what a called function has returned. */
static bool reads_return(const struct exactness *exactness, const gs_ptx_statement *statement) {
    uint32_t number = gs_ptx_address_read(exactness->module, statement);
    if (!(gs_ptx_reads(exactness->module, statement) & GS_PTX_IN_PARAM) || number == GS_PTX_NONE)
        return false;
    const gs_ptx_operand *address = &exactness->module->operands.data[statement->operands + number];
    const gs_ptx_operand *symbol = address->count ? &exactness->module->operands.data[address->children] : address;
    const gs_ptx_function *function = exactness->function;
    return symbol->kind == GS_PTX_SYMBOL &&
           symbol->value - function->parameters >= function->parameter_count; /* unsigned: also those before */
}

/* Why its result is inexact whatever it reads; NULL: it is not. */
static const char *source_of(const struct exactness *exactness, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = exactness->module;
    bool is_real = gs_ptx_is_real(module, statement);
    gs_ptx_math math = gs_ptx_math_of(statement);
    bool is_sum = math == GS_PTX_MATH_ADD || math == GS_PTX_MATH_SUB;
    bool is_window_asked = strcmp(gs_ptx_row(statement)->name, "isspacep") == 0;
    bool is_policy = strcmp(gs_ptx_row(statement)->name, "createpolicy") == 0;
    switch (statement->opcode) {
    case GS_PTX_ATOMIC:
        return "the order of atomic operations";
    case GS_PTX_TEXTURE:
        return "a texture";
    case GS_PTX_CALL:
        return "the result of a call";
    case GS_PTX_WARPGROUP:
        return "a product of matrices";
    case GS_PTX_MATRIX:
        return is_real && !gs_ptx_reads(module, statement) ? "a product of matrices" : NULL;
    case GS_PTX_LOAD:
        return gs_ptx_is_strong(module, statement)  ? "what others may write meanwhile"
               : reads_return(exactness, statement) ? "the result of a call"
                                                    : NULL;
    default:
        return gs_ptx_has(module, statement, "approx full") ? "an approximation"
               : math == GS_PTX_MATH_ACTIVE                 ? "which threads are together"
               : is_window_asked                            ? "the number of an address"
               : is_policy                                  ? "the bits of a cache policy"
               : is_sum && is_real && !gs_ptx_has(module, statement, "rn rz rm rp") &&
                       reads_any(exactness, statement, &exactness->product).begin
                   ? "a sum that may be fused with a product"
                   : NULL;
    }
}

/* ---- addresses ---- */

static const gs_ptx_operand *operand_at(const struct exactness *exactness, const gs_ptx_statement *statement,
                                        uint32_t number) {
    return &exactness->module->operands.data[statement->operands + number];
}

static uint32_t origin_at(const struct exactness *exactness, uint32_t number) {
    return exactness->latest_piece[number] == exactness->piece ? exactness->latest[number] : exactness->origin[number];
}

/* The origin of what an operand is. The largest one inside of a list; NUMBER: what is loaded from or stored to an
   address does not depend on it. */
static uint32_t origin_of(const struct exactness *exactness, const gs_ptx_operand *operand) {
    uint32_t origin = NUMBER;
    if (operand->kind == GS_PTX_REGISTER)
        return origin_at(exactness, operand->value);
    if (operand->kind == GS_PTX_SYMBOL)
        return operand->value == GS_PTX_NONE ? SOME_PLACE : FIRST_VARIABLE + operand->value;
    for (uint32_t i = 0; i < operand->count && operand->kind != GS_PTX_ADDRESS; i++) {
        uint32_t inside = origin_of(exactness, &exactness->module->operands.data[operand->children + i]);
        origin = inside > origin ? inside : origin;
    }
    return origin;
}

static uint32_t joined(uint32_t a, uint32_t b) {
    bool is_mixed = a == NUMBER || a == MIXED || b == NUMBER || b == MIXED;
    return a == b || b == NOT_WRITTEN ? a : a == NOT_WRITTEN ? b : is_mixed ? MIXED : SOME_PLACE;
}

static uint32_t first_buffer(const struct exactness *exactness) {
    return FIRST_VARIABLE + (uint32_t)exactness->module->variables.count;
}

/* A generic address of global memory is the same number, and none is 0. */
static bool is_global(const struct exactness *exactness, uint32_t origin) {
    return origin >= first_buffer(exactness) ||
           (origin >= FIRST_VARIABLE &&
            exactness->module->variables.data[origin - FIRST_VARIABLE].space == GS_PTX_GLOBAL);
}

/* Whether the parameter that is loaded is the address of a buffer: all of it, or a part. */
static bool loads_buffer(const struct exactness *exactness, const gs_ptx_statement *statement, uint32_t *variable) {
    const gs_ptx_module *module = exactness->module;
    uint32_t number = gs_ptx_address_read(module, statement);
    if (statement->opcode != GS_PTX_LOAD || !(gs_ptx_reads(module, statement) & GS_PTX_IN_PARAM) ||
        number == GS_PTX_NONE)
        return false;
    const gs_ptx_operand *address = operand_at(exactness, statement, number);
    const gs_ptx_operand *inside = address->count ? &module->operands.data[address->children] : address;
    uint32_t origin = origin_of(exactness, inside);
    *variable = origin - FIRST_VARIABLE;
    uint32_t parameter = *variable - exactness->function->parameters;
    return origin < FIRST_VARIABLE ? origin == SOME_PLACE || origin == MIXED
                                   : parameter < exactness->launch->arguments.count &&
                                         exactness->launch->arguments.data[parameter].is_buffer;
}

static void set_origin(struct exactness *exactness, const gs_ptx_operand *operand, uint32_t origin, bool is_guarded) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE) {
        uint32_t number = operand->value, both = joined(exactness->origin[number], origin);
        exactness->latest[number] = is_guarded ? joined(origin_at(exactness, number), origin) : origin;
        exactness->latest_piece[number] = exactness->piece;
        exactness->has_changed = exactness->has_changed || both != exactness->origin[number];
        exactness->origin[number] = both;
    }
    for (uint32_t i = 0; i < operand->count; i++)
        set_origin(exactness, &exactness->module->operands.data[operand->children + i], origin, is_guarded);
}

/* Of all operands that a statement writes. */
static void set_origins(struct exactness *exactness, const gs_ptx_statement *statement, uint32_t origin) {
    for (uint32_t i = 0; i < statement->count; i++)
        set_origin(exactness, operand_at(exactness, statement, i), origin, statement->guard != GS_PTX_NONE);
}

/* Whether a comparison of two addresses of one origin, or of one with 0, has one result wherever memory begins. */
static bool compares_places(const struct exactness *exactness, const gs_ptx_statement *statement, uint32_t origin,
                            bool is_zero) {
    bool is_equality = gs_ptx_has(exactness->module, statement, "eq ne");
    return is_zero ? is_equality && is_global(exactness, origin) : is_equality || is_global(exactness, origin);
}

/* The origin of a converted address: it must keep all bits that an address of its memory has. */
static uint32_t origin_of_converted(const struct exactness *exactness, const gs_ptx_statement *statement,
                                    uint32_t origin) {
    gs_ptx_type types[2];
    gs_ptx_find_types(exactness->module, statement, types);
    uint32_t least = is_global(exactness, origin) ? 8 : 4;
    bool is_kept = gs_ptx_type_bytes(types[0]) >= least && gs_ptx_type_bytes(types[1]) >= least;
    return !is_kept ? NOT_WRITTEN : origin == MIXED ? MIXED : SOME_PLACE;
}

/* The origin of what it computes, or NOT_WRITTEN: inexact. It reads `count` operands; some of these are addresses. */
static uint32_t origin_of_math(const struct exactness *exactness, const gs_ptx_statement *statement,
                               const gs_ptx_operand **read, uint32_t count) {
    uint32_t origins[3] = {NUMBER, NUMBER, NUMBER};
    gs_ptx_math math = gs_ptx_math_of(statement);
    bool is_copy = math == GS_PTX_MATH_MOVE || math == GS_PTX_MATH_SELECT; /* of bits, whatever their type is */
    bool is_other = gs_ptx_has(exactness->module, statement, "cc sat u16x2 s16x2") ||
                    (!is_copy && gs_ptx_is_real(exactness->module, statement));
    if (count > 3 || statement->opcode != GS_PTX_COMPUTE || is_other)
        return NOT_WRITTEN;
    for (uint32_t i = 0; i < count; i++)
        if (read[i]->kind == GS_PTX_VECTOR || read[i]->kind == GS_PTX_PAIR)
            return NOT_WRITTEN;
        else
            origins[i] = origin_of(exactness, read[i]);
    uint32_t a = origins[0], b = origins[1], c = origins[2];
    bool is_difference = a == b && a >= FIRST_VARIABLE && c == NUMBER;
    bool is_zero = b == NUMBER && count == 2 && read[1]->kind == GS_PTX_INTEGER && !read[1]->bits;
    switch (math) {
    case GS_PTX_MATH_MOVE:
        return operand_at(exactness, statement, 0)->kind == GS_PTX_REGISTER ? a : NOT_WRITTEN;
    case GS_PTX_MATH_CONVERT_ADDRESS:
        return is_global(exactness, a) || a == MIXED ? a : SOME_PLACE;
    case GS_PTX_MATH_CONVERT:
        return origin_of_converted(exactness, statement, a);
    case GS_PTX_MATH_ADD:
        return a == NUMBER ? b : b == NUMBER ? a : NOT_WRITTEN;
    case GS_PTX_MATH_SUB:
        return is_difference ? NUMBER : b == NUMBER ? a : NOT_WRITTEN;
    case GS_PTX_MATH_MAD:
        return a == NUMBER && b == NUMBER ? c : NOT_WRITTEN;
    case GS_PTX_MATH_SELECT:
        return c == NUMBER ? joined(a, b) : NOT_WRITTEN;
    case GS_PTX_MATH_COMPARE:
        return (is_difference || is_zero) && compares_places(exactness, statement, a, is_zero) ? NUMBER : NOT_WRITTEN;
    default:
        return NOT_WRITTEN;
    }
}

/* Whether what it computes of addresses is inexact; else their origin is kept. */
static bool is_of_address(struct exactness *exactness, const gs_ptx_statement *statement) {
    const gs_ptx_operand *read[4] = {0};
    uint32_t count = 0, origin = NUMBER, variable = 0;
    for (uint32_t i = 0; i < statement->count; i++) {
        const gs_ptx_operand *operand = operand_at(exactness, statement, i);
        if (operand->access == GS_PTX_WRITE)
            continue;
        uint32_t here = origin_of(exactness, operand);
        if (here == NOT_WRITTEN)
            return false; /* by a statement behind this one; or by none */
        read[count < 3 ? count : 3] = operand;
        count++;
        origin = here > origin ? here : origin;
    }
    if (loads_buffer(exactness, statement, &variable)) {
        gs_ptx_type types[2];
        gs_ptx_find_types(exactness->module, statement, types);
        const gs_ptx_operand *to = operand_at(exactness, statement, 0), *from = operand_at(exactness, statement, 1);
        bool is_whole = to->kind == GS_PTX_REGISTER && gs_ptx_type_bytes(types[0]) == 8 && !from->bits;
        bool is_known = variable < exactness->module->variables.count;
        origin = is_whole && is_known ? first_buffer(exactness) + variable : NOT_WRITTEN;
    } else if (origin != NUMBER) {
        origin = origin_of_math(exactness, statement, read, count);
    } else if (gs_ptx_math_of(statement) == GS_PTX_MATH_CONVERT_ADDRESS) {
        origin = MIXED;
    }
    if (origin == NOT_WRITTEN)
        return true;
    set_origins(exactness, statement, origin);
    return false;
}

static bool is_at_number(const struct exactness *exactness, const gs_ptx_statement *statement, uint32_t number) {
    if (number == GS_PTX_NONE)
        return false;
    const gs_ptx_operand *address = operand_at(exactness, statement, number);
    uint32_t origin =
        address->count ? origin_of(exactness, &exactness->module->operands.data[address->children]) : NUMBER;
    return origin == NUMBER || origin == MIXED;
}

/* Whether it accesses a place that may have a number only: on a GPU something else is there. */
static bool accesses_number(const struct exactness *exactness, const gs_ptx_statement *statement) {
    return is_at_number(exactness, statement, gs_ptx_address_read(exactness->module, statement)) ||
           is_at_number(exactness, statement, gs_ptx_address_written(exactness->module, statement));
}

/* A product, and all that it may have come to. */
static void pass_product(struct exactness *exactness, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = exactness->module;
    bool is_product = gs_ptx_math_of(statement) == GS_PTX_MATH_MUL && gs_ptx_is_real(module, statement) &&
                      !gs_ptx_has(module, statement, "rn rz rm rp");
    struct cause cause = is_product ? here(exactness) : takes(exactness, statement, &exactness->product);
    if (!cause.begin)
        return;
    mark_results(exactness, statement, &exactness->product, cause);
    mark_memory(exactness, statement, &exactness->product, cause);
}

/* The origin of the place at an address, of all that its register ever holds. */
static uint32_t origin_at_address(const struct exactness *exactness, const gs_ptx_operand *address) {
    const gs_ptx_operand *inside = address->count ? &exactness->module->operands.data[address->children] : address;
    return inside->kind == GS_PTX_REGISTER ? exactness->origin[inside->value] : origin_of(exactness, inside);
}

static uint32_t origin_written(const struct exactness *exactness, const gs_ptx_statement *statement) {
    uint32_t number = gs_ptx_address_written(exactness->module, statement);
    return number == GS_PTX_NONE ? SOME_PLACE : origin_at_address(exactness, operand_at(exactness, statement, number));
}

/* Whether two atomic operations leave the same in whichever order they come: they are the same, or elsewhere. */
static bool commute(const struct exactness *exactness, const gs_ptx_statement *one, const gs_ptx_statement *other) {
    const gs_ptx_module *module = exactness->module;
    uint32_t places[2] = {origin_written(exactness, one), origin_written(exactness, other)};
    gs_ptx_type types[2][2];
    gs_ptx_find_types(module, one, types[0]);
    gs_ptx_find_types(module, other, types[1]);
    return !(gs_ptx_writes(module, one) & gs_ptx_writes(module, other)) ||
           (places[0] >= FIRST_VARIABLE && places[1] >= FIRST_VARIABLE && places[0] != places[1]) ||
           (gs_ptx_atomic_kind(module, one) == gs_ptx_atomic_kind(module, other) && types[0][0] == types[1][0]);
}

/* Whether what an atomic operation leaves is the same in whichever order all of them come. */
static bool leaves_no_order(const struct exactness *exactness, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = exactness->module;
    const gs_ptx_function *function = exactness->function;
    gs_ptx_atomic kind = gs_ptx_atomic_kind(module, statement);
    bool is_combined = kind == GS_PTX_ATOMIC_ADD || (kind >= GS_PTX_ATOMIC_AND && kind <= GS_PTX_ATOMIC_MAX);
    if (statement->opcode != GS_PTX_ATOMIC || !is_combined || gs_ptx_is_real(module, statement))
        return false;
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *other = &module->statements.data[function->statements + i];
        if (exactness->is_passed[i] && other->kind == GS_PTX_INSTRUCTION && other->opcode == GS_PTX_ATOMIC &&
            !commute(exactness, statement, other))
            return false;
    }
    return true;
}

static void pass_statement(struct exactness *exactness, const gs_ptx_statement *statement) {
    struct cause cause = takes(exactness, statement, &exactness->inexact);
    pass_product(exactness, statement);
    bool is_otherwise = accesses_number(exactness, statement);
    is_otherwise = is_of_address(exactness, statement) || is_otherwise;
    if (is_otherwise && !cause.begin)
        cause = here(exactness);
    bool is_exact_there = !cause.begin && leaves_no_order(exactness, statement);
    if (!cause.begin && source_of(exactness, statement))
        cause = here(exactness);
    if (!cause.begin)
        return;
    mark_results(exactness, statement, &exactness->inexact, cause);
    set_origins(exactness, statement, NUMBER);
    if (!is_exact_there)
        mark_memory(exactness, statement, &exactness->inexact, cause);
}

/* What begins at a statement whose result is inexact. */
static const char *describe_begin(const struct exactness *exactness, const gs_ptx_statement *statement) {
    const char *source = source_of(exactness, statement);
    for (uint32_t i = 0; i < statement->count && !source; i++) {
        const gs_ptx_operand *operand = operand_at(exactness, statement, i);
        if (operand->kind == GS_PTX_SPECIAL && is_of_machine(operand->value))
            source = "a register of the machine";
    }
    return source ? source : "the number of an address";
}

static gs_code fail_branch(const struct exactness *exactness, const struct gs_counting *counting, uint32_t branch,
                           struct cause cause) {
    uint32_t *lines = gs_counting_lines(counting);
    char stored[60] = "";
    if (!lines)
        return gs_fail_memory(counting->error);
    if (cause.store)
        snprintf(stored, sizeof stored, ", which is stored in line %u", lines[cause.store - 1]);
    gs_ptx_fail(exactness->module, gs_counting_statement(counting, branch)->first, counting->error, GS_E_REFUSED,
                "on a GPU this may go another way than on the CPU: it depends on %s in line %u%s",
                describe_begin(exactness, gs_counting_statement(counting, cause.begin - 1)), lines[cause.begin - 1],
                stored);
    free(lines);
    return GS_E_REFUSED;
}

static gs_code check_branches(struct exactness *exactness, const struct gs_counting *counting) {
    for (uint32_t i = 0; i < exactness->function->statement_count; i++) {
        const gs_ptx_statement *statement = gs_counting_statement(counting, i);
        bool leaves = exactness->is_passed[i] && statement->kind == GS_PTX_INSTRUCTION &&
                      statement->opcode >= GS_PTX_BRANCH && statement->opcode <= GS_PTX_EXIT;
        bool has_ways = leaves && (statement->guard != GS_PTX_NONE || statement->opcode == GS_PTX_BRANCH_TABLE);
        exactness->statement = i;
        struct cause cause = has_ways ? reads_any(exactness, statement, &exactness->inexact) : (struct cause){0};
        if (cause.begin)
            return fail_branch(exactness, counting, i, cause);
    }
    return GS_OK;
}

/* Goes once through all statements that are passed. */
static void pass_all(struct exactness *exactness) {
    const gs_ptx_function *function = exactness->function;
    exactness->has_changed = false;
    exactness->piece++;
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &exactness->module->statements.data[function->statements + i];
        bool is_instruction = statement->kind == GS_PTX_INSTRUCTION;
        bool leaves = is_instruction && statement->opcode >= GS_PTX_BRANCH && statement->opcode <= GS_PTX_EXIT;
        exactness->statement = i;
        if (exactness->is_passed[i] && is_instruction)
            pass_statement(exactness, statement);
        exactness->piece += statement->kind == GS_PTX_LABEL || leaves;
    }
}

/* Until nothing changes. Registers that nothing was written to until then hold numbers, if anything. */
static void pass_until_known(struct exactness *exactness, size_t registers) {
    do
        pass_all(exactness);
    while (exactness->has_changed);
    for (size_t i = 0; i < registers; i++)
        if (exactness->origin[i] == NOT_WRITTEN)
            exactness->origin[i] = NUMBER;
    do
        pass_all(exactness);
    while (exactness->has_changed);
}

/* Whether a statement accesses memory at a place that a GPU accesses, too, and that is of one buffer or variable. */
static bool is_placed(const struct exactness *exactness, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = exactness->module;
    uint32_t number = gs_ptx_reads(module, statement) ? gs_ptx_address_read(module, statement)
                                                      : gs_ptx_address_written(module, statement);
    if (number == GS_PTX_NONE ||
        (statement->guard != GS_PTX_NONE && exactness->inexact.registers[statement->guard].begin))
        return false;
    const gs_ptx_operand *address = operand_at(exactness, statement, number);
    return origin_at_address(exactness, address) >= FIRST_VARIABLE &&
           !reads(exactness, address, &exactness->inexact).begin;
}

gs_code gs_rounds_check_exact(const struct gs_counting *counting, const gs_launch_file *launch) {
    struct exactness exactness = {
        .module = counting->module, .function = counting->function, .is_passed = counting->is_passed, .launch = launch};
    size_t registers = counting->function->register_count + 1;
    exactness.inexact.registers = calloc(registers, sizeof *exactness.inexact.registers);
    exactness.product.registers = calloc(registers, sizeof *exactness.product.registers);
    exactness.origin = calloc(registers, sizeof *exactness.origin);
    exactness.latest = calloc(registers, sizeof *exactness.latest);
    exactness.latest_piece = calloc(registers, sizeof *exactness.latest_piece);
    bool is_stored = exactness.inexact.registers && exactness.product.registers && exactness.origin &&
                     exactness.latest && exactness.latest_piece;
    if (is_stored)
        pass_until_known(&exactness, registers);
    gs_code code = is_stored ? check_branches(&exactness, counting) : gs_fail_memory(counting->error);
    for (uint32_t i = 0; i < counting->function->statement_count && code == GS_OK; i++)
        counting->is_placed[i] = counting->is_passed[i] && is_placed(&exactness, gs_counting_statement(counting, i));
    free(exactness.inexact.registers);
    free(exactness.product.registers);
    free(exactness.origin);
    free(exactness.latest);
    free(exactness.latest_piece);
    return code;
}
