/*
 * ptx_refused.c: instructions, special registers and names that no form supports.
 *
 * docs/reshape.md lists all ways in which a block could notice that it runs in a worker block, or leave something
 * behind. Most of those that are refused are in the two tables here.
 */
#include "ptx_facts.h"

/* ---- instructions and special registers that no form supports ---- */

static const struct {
    gs_ptx_class class;
    const char *reason;
} refused_classes[] = {
    {GS_PTX_UNKNOWN, "unknown instruction"},
    {GS_PTX_BARRIER_CLUSTER, "it belongs to a cluster of blocks"},
    {GS_PTX_CLUSTER, "it belongs to a cluster of blocks"},
    {GS_PTX_REGISTERS, "it changes how many registers its warps have"},
    {GS_PTX_STACK, "it takes memory from the stack, which is freed only when a thread ends"},
    {GS_PTX_TENSOR, "it uses tensor memory or tensor maps, which outlive a block"},
};

static const struct {
    gs_ptx_special special;
    const char *reason;
} refused_specials[] = {
    {GS_PTX_GRIDID, "it reads the number of the launch, which changes when a confined kernel is resumed"},
    {GS_PTX_ENVREG, "it reads data of a cooperative launch, to wait for the whole grid"},
    {GS_PTX_TOTAL_SMEM_SIZE, "it reads how much shared memory it has, which a form changes"},
    {GS_PTX_AGGR_SMEM_SIZE, "it reads how much shared memory it has, which a form changes"},
    {GS_PTX_CLUSTERID, "it belongs to a cluster of blocks"},
    {GS_PTX_NCLUSTERID, "it belongs to a cluster of blocks"},
    {GS_PTX_CLUSTER_CTAID, "it belongs to a cluster of blocks"},
    {GS_PTX_CLUSTER_NCTAID, "it belongs to a cluster of blocks"},
    {GS_PTX_CLUSTER_CTARANK, "it belongs to a cluster of blocks"},
    {GS_PTX_CLUSTER_NCTARANK, "it belongs to a cluster of blocks"},
    {GS_PTX_IS_EXPLICIT_CLUSTER, "it belongs to a cluster of blocks"},
    {GS_PTX_CURRENT_GRAPH_EXEC, "it reads the graph that launched it"},
};

static gs_code check_operand(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement,
                             const gs_ptx_operand *operand, gs_error *error) {
    gs_code code = GS_OK;
    if (operand->kind == GS_PTX_SPECIAL) {
        if (operand->value >= GS_PTX_SPECIAL_COUNT)
            return gs_ptx_refuse(kernel, statement, error, "unknown special register");
        for (size_t i = 0; i < GS_COUNT(refused_specials); i++)
            if (refused_specials[i].special == operand->value)
                return gs_ptx_refuse(kernel, statement, error, "%s", refused_specials[i].reason);
        bool is_block = operand->value == GS_PTX_CTAID || operand->value == GS_PTX_NCTAID;
        if (is_block && (operand->part < 'x' || operand->part > 'z'))
            return gs_ptx_refuse(kernel, statement, error, "it reads the number of its block as a vector");
    }
    for (uint32_t i = 0; i < operand->count && code == GS_OK; i++)
        code = check_operand(kernel, statement, &kernel->module->operands.data[operand->children + i], error);
    return code;
}

/* A copy into shared memory is written as one into that of a cluster; without clusters, the block is its own
   cluster. */
static bool is_own_bulk_copy(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_BULK_COPY && gs_ptx_has(module, statement, "bulk") &&
           !gs_ptx_has(module, statement, "multicast::cluster") &&
           (gs_ptx_has(module, statement, "global") || gs_ptx_has(module, statement, "tensor") ||
            !gs_ptx_has(module, statement, "shared::cluster"));
}

static gs_code check_instruction(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < GS_COUNT(refused_classes); i++)
        if (refused_classes[i].class == statement->opcode)
            return gs_ptx_refuse(kernel, statement, error, "%s", refused_classes[i].reason);
    bool is_bulk_copy = is_own_bulk_copy(kernel->module, statement);
    if (statement->opcode == GS_PTX_BULK_COPY && !is_bulk_copy)
        return gs_ptx_refuse(kernel, statement, error, "it writes to other blocks of a cluster");
    if (gs_ptx_has(kernel->module, statement, "shared::cluster") && !is_bulk_copy)
        return gs_ptx_refuse(kernel, statement, error, "it reaches into the shared memory of other blocks");
    if (statement->opcode == GS_PTX_SHUFFLE && !gs_ptx_has(kernel->module, statement, "sync"))
        return gs_ptx_refuse(kernel, statement, error, "it exchanges values without a mask, as on GPUs before sm_70");
    for (uint32_t i = 0; i < statement->count && code == GS_OK; i++)
        code = check_operand(kernel, statement, &kernel->module->operands.data[statement->operands + i], error);
    return code;
}

gs_code gs_ptx_check_statement(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_error *error) {
    const gs_ptx_variable *variables = kernel->module->variables.data + statement->operands;
    if (statement->kind == GS_PTX_INSTRUCTION)
        return check_instruction(kernel, statement, error);
    if (statement->kind == GS_PTX_DECLARATION &&
        (variables[0].space == GS_PTX_GLOBAL || variables[0].space == GS_PTX_CONST))
        return gs_ptx_refuse(kernel, statement, error, "a variable of the whole grid is declared inside the kernel");
    return GS_OK;
}

/* Names that begin with gs_ belong to the block loop. */
gs_code gs_ptx_check_names(const gs_ptx_kernel *kernel, uint32_t number, gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[number];
    for (uint32_t i = function->name + 1; i < function->last; i++) {
        const gs_ptx_token *token = &module->tokens.data[i];
        const char *text = module->text + token->at;
        bool counts_blocks = token->length > 4 && (text[0] == '%' || text[0] == '$');
        if (token->kind == GS_PTX_WORD && token->length > 3 && memcmp(text + counts_blocks, "gs_", 3) == 0)
            return gs_ptx_fail(module, i, error, GS_E_REFUSED,
                               "names that begin with gs_ are reserved for reshaped kernels");
    }
    return GS_OK;
}
