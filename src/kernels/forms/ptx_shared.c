/*
 * ptx_shared.c: where the shared memory of the block loop lies, so that the variables of the kernel stay where they
 * are.
 *
 * ptxas lays out the shared memory of a kernel from 0 on: the variables that the kernel declares, in the order of the
 * text; those of the module that it or a function uses; those that functions declare; then, each at a multiple of its
 * alignment and of 16, the arrays without a size, which begin at the dynamic shared memory.
 *
 * The variable of the loop is one of the module, behind all others of it. That moves nothing if no function declares
 * variables, if nothing is dynamic, and if there is space: static shared memory has at most 48 KB. Otherwise the loop
 * uses the last bytes of the dynamic shared memory, and a launch must add them (GS_JOB_SHARED). Then even addresses
 * that are computed, as swizzles do, stay the same. Dynamic shared memory need not be declared: an address that comes
 * from no variable may be in it.
 */
#include "ptx_linear.h"

#include <stdlib.h>

enum { MOST_STATIC = 48 * 1024 };

/* The shared memory of a kernel and of the functions that it calls. */
struct layout {
    const gs_ptx_kernel *kernel;
    bool *is_used; /* of each variable */
    uint64_t bytes;
    uint32_t dynamic_align; /* the largest of arrays without a size; 0: there is none */
    bool has_functions;     /* functions declare variables */
    bool has_others;        /* shared memory is used that may be no variable */
};

static void use_operand(struct layout *layout, const gs_ptx_operand *operand) {
    const gs_ptx_module *module = layout->kernel->module;
    if (operand->kind == GS_PTX_SYMBOL && operand->value != GS_PTX_NONE)
        layout->is_used[operand->value] = true;
    for (uint32_t i = 0; i < operand->count; i++)
        use_operand(layout, &module->operands.data[operand->children + i]);
}

/* The address of shared memory that a statement uses, or makes a generic one of; NULL: none. */
static const gs_ptx_operand *address_in_shared(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = kernel->module;
    if (gs_ptx_math_of(statement) == GS_PTX_MATH_CONVERT_ADDRESS)
        return gs_ptx_has(module, statement, "shared") && !gs_ptx_has(module, statement, "to")
                   ? gs_ptx_operand_at(kernel, statement, 1)
                   : NULL;
    if (gs_ptx_writes(module, statement) == GS_PTX_IN_SHARED) {
        uint32_t at = gs_ptx_address_copied(module, statement);
        return at == GS_PTX_NONE ? NULL : gs_ptx_operand_at(kernel, statement, at);
    }
    return gs_ptx_reads(module, statement) == GS_PTX_IN_SHARED ? gs_ptx_address_of(kernel, statement, false) : NULL;
}

/* Whether a statement uses shared memory that may be no variable. In a function, addresses are not followed. */
static bool uses_others(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, bool is_called) {
    const gs_ptx_operand *address = address_in_shared(kernel, statement);
    if (!address)
        return false;
    if (!is_called)
        return !gs_linear_origin_of(kernel, address).count;
    const gs_ptx_operand *named = address->count == 1 ? &kernel->module->operands.data[address->children] : address;
    return named->kind != GS_PTX_SYMBOL;
}

static void use_function(struct layout *layout, uint32_t number) {
    const gs_ptx_module *module = layout->kernel->module;
    const gs_ptx_function *function = &module->functions.data[number];
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[function->statements + i];
        if (statement->kind == GS_PTX_INSTRUCTION && !layout->has_others)
            layout->has_others = uses_others(layout->kernel, statement, number != layout->kernel->function);
        for (uint32_t k = 0; k < statement->count; k++) {
            if (statement->kind == GS_PTX_INSTRUCTION)
                use_operand(layout, &module->operands.data[statement->operands + k]);
            else if (statement->kind == GS_PTX_DECLARATION)
                layout->is_used[statement->operands + k] = true;
        }
    }
}

static void add_variable(struct layout *layout, const gs_ptx_variable *variable) {
    uint64_t align = gs_max_u64(variable->align, 1);
    if (variable->has_no_size) {
        layout->dynamic_align = (uint32_t)gs_max_u64(layout->dynamic_align, align);
        return;
    }
    layout->bytes = (layout->bytes + align - 1) / align * align + variable->bytes;
    layout->has_functions =
        layout->has_functions || (variable->function != GS_PTX_NONE && variable->function != layout->kernel->function);
}

/* The .pragma by which ptxas keeps registers in shared memory; it does not allow that beside dynamic shared memory.
   NULL: there is none. */
static const gs_ptx_token *find_spilling(const gs_ptx_module *module) {
    static const char pragma[] = "\"enable_smem_spilling\"";
    for (size_t i = 0; i < module->tokens.count; i++) {
        const gs_ptx_token *token = &module->tokens.data[i];
        if (token->kind == GS_PTX_STRING && token->length == sizeof pragma - 1 &&
            memcmp(module->text + token->at, pragma, sizeof pragma - 1) == 0)
            return token;
    }
    return NULL;
}

gs_code gs_ptx_place_loop(gs_ptx_kernel *kernel, gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    struct layout layout = {.kernel = kernel, .is_used = calloc(module->variables.count + 1, sizeof(bool))};
    if (!layout.is_used)
        return gs_fail_memory(error);
    for (uint32_t i = 0; i < module->functions.count; i++)
        if (i == kernel->function || kernel->is_called[i])
            use_function(&layout, i);
    for (int of_kernel = 1; of_kernel >= 0; of_kernel--) /* in the order of ptxas */
        for (size_t i = 0; i < module->variables.count; i++) {
            const gs_ptx_variable *variable = &module->variables.data[i];
            if (layout.is_used[i] && variable->space == GS_PTX_SHARED &&
                (variable->function == kernel->function) == of_kernel)
                add_variable(&layout, variable);
        }
    free(layout.is_used);
    uint64_t end = (layout.bytes + 127) / 128 * 128 + GS_LOOP_SHARED + GS_LOOP_BLOCK;
    kernel->loop.is_behind = layout.dynamic_align || layout.has_functions || layout.has_others || end > MOST_STATIC;
    kernel->loop.dynamic_align = (uint32_t)gs_max_u64(layout.dynamic_align, 16);
    const gs_ptx_token *spilling = kernel->loop.is_behind ? find_spilling(module) : NULL;
    if (spilling)
        return gs_ptx_fail(module, (uint32_t)(spilling - module->tokens.data), error, GS_E_REFUSED,
                           "registers are kept in shared memory, which PTX does not allow beside the dynamic shared "
                           "memory of the form");
    return GS_OK;
}
