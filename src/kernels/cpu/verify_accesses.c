/*
 * verify_accesses.c: whether a kernel can reach a variable, and the type of the elements if PTX declares it as bytes.
 *
 * A kernel gets an address from its instructions, those of functions, or the initial value of a variable. nvcc writes
 * arrays and structs as `.b8 name[16]`, so what they contain is only known from the accesses. The registers that may
 * hold an address in the variable are followed through all instructions that compute, without regard to their order. If
 * all accesses have one type, it is that of the elements. If the address goes anywhere else (to memory, to a function,
 * into the initial value of another variable), there may be accesses that are not seen, and the elements stay bytes: a
 * tolerance must not apply to a number that is an integer somewhere.
 */
#include "variant.h"

#include <stdlib.h>

gs_scalar gs_verify_scalar(gs_ptx_type type) {
    switch (type) {
    case GS_PTX_F32:
        return GS_FLOAT32;
    case GS_PTX_F64:
        return GS_FLOAT64;
    case GS_PTX_F16:
    case GS_PTX_F16X2:
        return GS_FLOAT16;
    case GS_PTX_BF16:
    case GS_PTX_BF16X2:
        return GS_BFLOAT16;
    case GS_PTX_S32:
        return GS_INT32;
    default:
        return gs_ptx_type_bytes(type) == 4 ? GS_UINT32 : gs_ptx_type_bytes(type) == 8 ? GS_INT64 : GS_UINT8;
    }
}

struct accesses {
    const gs_ptx_module *module;
    uint32_t variable;
    bool *holds; /* which registers of the function may hold an address in the variable */
    bool has_spread;
    bool is_reached;        /* the kernel may get its address */
    bool is_seen, is_mixed; /* is_mixed: they have several types, or are not known */
    gs_scalar type;
};

/* ---- registers ---- */

static bool leads_there(const struct accesses *accesses, const gs_ptx_operand *operand) {
    if (operand->kind == GS_PTX_SYMBOL)
        return operand->value == accesses->variable;
    if (operand->kind == GS_PTX_REGISTER)
        return operand->access & GS_PTX_READ && accesses->holds[operand->value];
    for (uint32_t i = 0; i < operand->count; i++)
        if (leads_there(accesses, &accesses->module->operands.data[operand->children + i]))
            return true;
    return false;
}

static void mark_written(struct accesses *accesses, const gs_ptx_operand *operand) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE && !accesses->holds[operand->value])
        accesses->holds[operand->value] = accesses->has_spread = true;
    for (uint32_t i = 0; i < operand->count; i++)
        mark_written(accesses, &accesses->module->operands.data[operand->children + i]);
}

/* ---- instructions ---- */

static void add_access(struct accesses *accesses, const gs_ptx_statement *statement) {
    gs_ptx_type types[2];
    gs_ptx_find_types(accesses->module, statement, types);
    gs_scalar type = gs_verify_scalar(types[0]);
    accesses->is_mixed = accesses->is_mixed || (accesses->is_seen && type != accesses->type);
    accesses->is_seen = true;
    accesses->type = type;
}

static void follow_statement(struct accesses *accesses, const gs_ptx_statement *statement) {
    const gs_ptx_operand *operands = &accesses->module->operands.data[statement->operands];
    bool is_access =
        statement->opcode == GS_PTX_LOAD || statement->opcode == GS_PTX_STORE || statement->opcode == GS_PTX_ATOMIC;
    for (uint32_t i = 0; i < statement->count; i++) {
        if (!leads_there(accesses, &operands[i]))
            continue;
        accesses->is_reached = true;
        if (is_access && (i == gs_ptx_address_read(accesses->module, statement) ||
                          i == gs_ptx_address_written(accesses->module, statement)))
            add_access(accesses, statement);
        else if (statement->opcode == GS_PTX_COMPUTE)
            for (uint32_t k = 0; k < statement->count; k++)
                mark_written(accesses, &operands[k]);
        else
            accesses->is_mixed = true;
    }
}

static void follow_function(struct accesses *accesses, const gs_ptx_function *function) {
    memset(accesses->holds, 0, function->register_count);
    do {
        accesses->has_spread = false;
        for (uint32_t i = 0; i < function->statement_count && !accesses->is_mixed; i++) {
            const gs_ptx_statement *statement = &accesses->module->statements.data[function->statements + i];
            if (statement->kind == GS_PTX_INSTRUCTION)
                follow_statement(accesses, statement);
        }
    } while (accesses->has_spread && !accesses->is_mixed);
}

/* ---- initial values ---- */

/* Whether the variable is named in the initial value of one. */
static bool is_in_initial_value(const gs_ptx_module *module, uint32_t variable) {
    char name[GS_PTX_SYMBOL_MOST];
    gs_ptx_token_text(module, module->variables.data[variable].name, name, sizeof name);
    for (uint32_t i = 0; i < module->variables.count; i++) {
        const gs_ptx_variable *other = &module->variables.data[i];
        for (uint32_t k = other->initializer; k != GS_PTX_NONE && k <= other->last; k++)
            if (gs_ptx_token_is(module, k, name))
                return true;
    }
    return false;
}

gs_code gs_verify_accesses(const gs_ptx_module *module, uint32_t function, uint32_t variable, bool *is_reached,
                           gs_scalar *type, gs_error *error) {
    struct accesses accesses = {.module = module, .variable = variable};
    size_t registers = 0;
    for (uint32_t i = 0; i < module->functions.count; i++)
        registers =
            registers < module->functions.data[i].register_count ? module->functions.data[i].register_count : registers;
    accesses.holds = calloc(registers + 1, sizeof *accesses.holds);
    if (!accesses.holds)
        return gs_fail_memory(error);
    accesses.is_reached = accesses.is_mixed = is_in_initial_value(module, variable);
    for (uint32_t i = 0; i < module->functions.count; i++)
        if (i == function || !module->functions.data[i].is_entry)
            follow_function(&accesses, &module->functions.data[i]);
    free(accesses.holds);
    bool is_known = accesses.is_seen && !accesses.is_mixed &&
                    module->variables.data[variable].bytes % gs_scalar_bytes(accesses.type) == 0;
    *is_reached = accesses.is_reached;
    *type = is_known ? accesses.type : GS_UINT8;
    return GS_OK;
}
