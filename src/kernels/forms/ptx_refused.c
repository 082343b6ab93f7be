/*
 * ptx_refused.c: instructions, special registers and names that no form supports.
 *
 * docs/reshape.md lists all ways in which a block could notice that it runs in a worker block, or leave something
 * behind. The table of opcodes has the instructions that are refused, with their reasons; the special registers are
 * here.
 */
#include "ptx_facts.h"

/* ---- special registers that no form supports ---- */

static const struct {
    gs_ptx_special special;
    const char *reason;
} refused_specials[] = {
    {GS_PTX_GRIDID, "it reads the number of the launch, which is another one for each launch of a form"},
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
    if (operand->kind == GS_PTX_OTHER)
        return gs_ptx_refuse(kernel, statement, error, "unknown kind of operand");
    if (operand->kind == GS_PTX_SPECIAL) {
        if (operand->value >= GS_PTX_SPECIAL_COUNT)
            return gs_ptx_refuse(kernel, statement, error, "neither a declared register nor a known special register");
        for (size_t i = 0; i < GS_COUNT(refused_specials); i++)
            if (refused_specials[i].special == operand->value)
                return gs_ptx_refuse(kernel, statement, error, "%s", refused_specials[i].reason);
        bool is_block = operand->value == GS_PTX_CTAID || operand->value == GS_PTX_NCTAID;
        if (is_block && (operand->part < 'x' || operand->part > 'z'))
            return gs_ptx_refuse(kernel, statement, error,
                                 "it reads the number of its block, or the size of the grid, as a vector");
    }
    for (uint32_t i = 0; i < operand->count && code == GS_OK; i++)
        code = check_operand(kernel, statement, &kernel->module->operands.data[operand->children + i], error);
    return code;
}

/* A copy into shared memory is written as one into that of a cluster; without clusters, the block is its own
   cluster. */
static bool is_own_bulk_copy(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    return statement->opcode == GS_PTX_BULK_COPY && !gs_ptx_has(module, statement, "multicast::cluster") &&
           (gs_ptx_reads(module, statement) == GS_PTX_IN_GLOBAL || gs_ptx_has(module, statement, "tensor") ||
            !(gs_ptx_writes(module, statement) & GS_PTX_IN_CLUSTER));
}

static gs_code check_instruction(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_error *error) {
    uint8_t memory = gs_ptx_reads(kernel->module, statement) | gs_ptx_writes(kernel->module, statement);
    const char *reason = gs_ptx_row(statement)->refused;
    bool is_own = is_own_bulk_copy(kernel->module, statement);
    gs_code code = GS_OK;
    if (!reason && statement->opcode == GS_PTX_BULK_COPY && !is_own)
        reason = "it writes to other blocks of a cluster";
    else if (!reason && memory & GS_PTX_IN_CLUSTER && !is_own)
        reason = "it reaches into the shared memory of other blocks";
    if (reason)
        return gs_ptx_refuse(kernel, statement, error, "%s", reason);
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

/* ---- names ---- */

/* Whether a token begins with the name of the form and GS_LOOP_NAMES, as what the form adds does. */
static bool is_added(const gs_ptx_module *module, uint32_t token, const char *form) {
    const gs_ptx_token *name = &module->tokens.data[token];
    const char *text = module->text + name->at;
    size_t own = strlen(form), tail = strlen(GS_LOOP_NAMES);
    return name->length >= own + tail && memcmp(text, form, own) == 0 && memcmp(text + own, GS_LOOP_NAMES, tail) == 0;
}

static gs_code check_taken(const gs_ptx_kernel *kernel, uint32_t token, const char *form, gs_error *error) {
    return gs_ptx_token_is(kernel->module, token, form) || is_added(kernel->module, token, form) ||
                   gs_ptx_token_is(kernel->module, token, "gs_job")
               ? gs_ptx_fail(kernel->module, token, error, GS_E_REFUSED, "this name is taken, which the form would add")
               : GS_OK;
}

gs_code gs_ptx_check_taken(const gs_ptx_kernel *kernel, gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    char form[GS_PTX_SYMBOL_MOST];
    gs_code code = GS_OK;
    gs_ptx_form_symbol(module, kernel->function, kernel->loop.form, form, sizeof form);
    for (size_t i = 0; i < module->functions.count && code == GS_OK; i++)
        code = check_taken(kernel, module->functions.data[i].name, form, error);
    for (size_t i = 0; i < module->variables.count && code == GS_OK; i++)
        if (module->variables.data[i].function == GS_PTX_NONE)
            code = check_taken(kernel, module->variables.data[i].name, form, error);
    return code;
}

/* Whether a register or a variable hides a special register that a form reads: in the loop around the body, or also
   inside of braces. */
static bool hides_special(const gs_ptx_module *module, const gs_ptx_variable *variable) {
    static const struct {
        const char *name;
        bool is_read_inside;
    } specials[] = {{"%tid", false},   {"%ntid", false}, {"%ctaid", false}, {"%nctaid", false},
                    {"%laneid", true}, {"%smid", false}, {"%clock", false}, {"%dynamic_smem_size", true}};
    for (size_t i = 0; i < GS_COUNT(specials); i++)
        if (gs_ptx_token_is(module, variable->name, specials[i].name))
            return variable->depth <= 1 || specials[i].is_read_inside;
    return false;
}

static gs_code check_hidden(const gs_ptx_module *module, uint32_t function, gs_error *error) {
    for (size_t i = 0; i < module->variables.count; i++) {
        const gs_ptx_variable *variable = &module->variables.data[i];
        if ((variable->function == function || variable->function == GS_PTX_NONE) && hides_special(module, variable))
            return gs_ptx_fail(module, variable->name, error, GS_E_REFUSED,
                               "this name hides a special register that the form reads");
    }
    return GS_OK;
}

/* Names that begin with gs_ belong to the block loop. */
gs_code gs_ptx_check_names(const gs_ptx_kernel *kernel, uint32_t number, gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[number];
    char form[GS_PTX_SYMBOL_MOST];
    gs_ptx_form_symbol(module, kernel->function, kernel->loop.form, form, sizeof form);
    for (uint32_t i = function->name + 1; i < function->last; i++) {
        const gs_ptx_token *token = &module->tokens.data[i];
        const char *text = module->text + token->at;
        bool has_sign = token->length > 4 && (text[0] == '%' || text[0] == '$');
        bool is_ours = token->length > 3 && memcmp(text + has_sign, "gs_", 3) == 0;
        if (token->kind == GS_PTX_WORD && (is_ours || is_added(module, i, form)))
            return gs_ptx_fail(module, i, error, GS_E_REFUSED,
                               "names that begin with %s%s are reserved for reshaped kernels", is_ours ? "" : form,
                               is_ours ? "gs_" : GS_LOOP_NAMES);
    }
    return check_hidden(module, number, error);
}
