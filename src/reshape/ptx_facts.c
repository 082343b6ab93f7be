/*
 * ptx_facts.c: whether a kernel can be reshaped, and what its block loop must do for it. See ptx_facts.h.
 *
 * A worker block runs one block after the other. docs/reshape.md says for each way in which a block could notice that,
 * or outlive its turn, what is done here: most are refused by the table of instructions and of special registers below.
 */
#include "ptx_facts.h"

#include <stdlib.h>

/* ---- instructions and special registers that no form can keep ---- */

static const struct {
    gs_ptx_class class;
    const char *reason;
} refused_classes[] = {
    {GS_PTX_UNKNOWN, "this instruction is not known"},
    {GS_PTX_BARRIER_CLUSTER, "it belongs to a cluster of blocks"},
    {GS_PTX_CLUSTER, "it belongs to a cluster of blocks"},
    {GS_PTX_REGISTERS, "it changes how many registers its warps have"},
    {GS_PTX_STACK, "it takes memory from the stack, which is given back only when a thread ends"},
    {GS_PTX_WARPGROUP, "its matrix products may still be on the way when the next block begins"},
    {GS_PTX_TENSOR, "it uses tensor memory or tensor maps, which outlive a block"},
};

static const struct {
    gs_ptx_special special;
    const char *reason;
} refused_specials[] = {
    {GS_PTX_GRIDID, "it reads the number of the launch, which changes when a confined kernel is resumed"},
    {GS_PTX_ENVREG, "it reads what a cooperative launch tells it, to wait for the whole grid"},
    {GS_PTX_TOTAL_SMEM_SIZE, "it reads how much shared memory it has, which a form changes"},
    {GS_PTX_AGGR_SMEM_SIZE, "it reads how much shared memory it has, which a form changes"},
    {GS_PTX_CLUSTERID, "it belongs to a cluster of blocks"},
    {GS_PTX_NCLUSTERID, "it belongs to a cluster of blocks"},
    {GS_PTX_CLUSTER_CTAID, "it belongs to a cluster of blocks"},
    {GS_PTX_CLUSTER_NCTAID, "it belongs to a cluster of blocks"},
    {GS_PTX_CLUSTER_CTARANK, "it belongs to a cluster of blocks"},
    {GS_PTX_CLUSTER_NCTARANK, "it belongs to a cluster of blocks"},
    {GS_PTX_IS_EXPLICIT_CLUSTER, "it belongs to a cluster of blocks"},
    {GS_PTX_CURRENT_GRAPH_EXEC, "it knows the graph that launched it"},
};

static gs_code check_operand(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement,
                             const gs_ptx_operand *operand, gs_error *error) {
    gs_code code = GS_OK;
    if (operand->kind == GS_PTX_SPECIAL) {
        if (operand->value >= GS_PTX_SPECIAL_COUNT)
            return gs_ptx_refuse(kernel, statement, error, "this special register is not known");
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

/* A copy into shared memory is called one into that of a cluster, which is the block itself where there is none. */
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
        return gs_ptx_refuse(kernel, statement, error, "it exchanges values without a mask, as GPUs before sm_70 did");
    for (uint32_t i = 0; i < statement->count && code == GS_OK; i++)
        code = check_operand(kernel, statement, &kernel->module->operands.data[statement->operands + i], error);
    return code;
}

static gs_code check_statement(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_error *error) {
    const gs_ptx_variable *variables = kernel->module->variables.data + statement->operands;
    if (statement->kind == GS_PTX_INSTRUCTION)
        return check_instruction(kernel, statement, error);
    if (statement->kind == GS_PTX_DECLARATION &&
        (variables[0].space == GS_PTX_GLOBAL || variables[0].space == GS_PTX_CONST))
        return gs_ptx_refuse(kernel, statement, error, "a variable of the whole grid is declared inside the kernel");
    return GS_OK;
}

/* Names that begin with gs_ belong to the block loop. */
static gs_code check_names(const gs_ptx_kernel *kernel, gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    for (uint32_t i = function->name + 1; i < function->last; i++) {
        const gs_ptx_token *token = &module->tokens.data[i];
        const char *text = module->text + token->at;
        bool is_marked = token->length > 4 && (text[0] == '%' || text[0] == '$');
        if (token->kind == GS_PTX_WORD && token->length > 3 && memcmp(text + is_marked, "gs_", 3) == 0)
            return gs_ptx_fail(module, i, error, GS_E_REFUSED,
                               "names that begin with gs_ are those of reshaped kernels");
    }
    return GS_OK;
}

/* ---- functions that the kernel calls ---- */

/* Functions of CUDA that neither know the block nor wait for others. */
static const char *const harmless_functions[] = {
    "vprintf", "malloc", "free", "__assertfail", "__nv_aligned_device_malloc", "cudaGraphSetConditional"};

/* What a function may do, and the functions that it calls. */
struct reach {
    bool *seen; /* functions */
    const gs_ptx_statement *call;
    gs_ptx_kernel *kernel;
    gs_error *error;
};

static gs_code look_at_function(struct reach *reach, uint32_t number);

/* Called through a pointer it may be any function of the module. */
static gs_code look_at_all(struct reach *reach) {
    gs_code code = GS_OK;
    for (uint32_t i = 0; i < reach->kernel->module->functions.count && code == GS_OK; i++)
        if (!reach->kernel->module->functions.data[i].is_entry)
            code = look_at_function(reach, i);
    return code;
}

static gs_code look_at_call(struct reach *reach, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = reach->kernel->module;
    const gs_ptx_operand *operands = module->operands.data + statement->operands;
    uint32_t at = statement->count > 1 && operands[0].kind == GS_PTX_LIST ? 1 : 0;
    char name[300];
    if (at >= statement->count || operands[at].kind != GS_PTX_SYMBOL)
        return look_at_all(reach);
    gs_ptx_token_text(module, operands[at].first, name, sizeof name);
    int function = gs_ptx_find_function(module, name);
    if (function >= 0)
        return look_at_function(reach, (uint32_t)function);
    return gs_ptx_refuse(reach->kernel, reach->call, reach->error, "it calls %s, which is not declared", name);
}

static bool names_block(const gs_ptx_module *module, const gs_ptx_operand *operand) {
    if (operand->kind == GS_PTX_SPECIAL && (operand->value == GS_PTX_CTAID || operand->value == GS_PTX_NCTAID))
        return true;
    for (uint32_t i = 0; i < operand->count; i++)
        if (names_block(module, &module->operands.data[operand->children + i]))
            return true;
    return false;
}

static gs_code look_into_function(struct reach *reach, const gs_ptx_statement *statement, const char *name) {
    const gs_ptx_module *module = reach->kernel->module;
    gs_ptx_kernel *kernel = reach->kernel;
    gs_code code = check_statement(kernel, statement, reach->error);
    if (code != GS_OK || statement->kind != GS_PTX_INSTRUCTION)
        return code;
    for (uint32_t i = 0; i < statement->count; i++)
        if (names_block(module, &module->operands.data[statement->operands + i]))
            return gs_ptx_refuse(kernel, reach->call, reach->error, "it calls %s, which reads the number of the block",
                                 name);
    switch (statement->opcode) {
    case GS_PTX_BARRIER:
        return gs_ptx_refuse(kernel, reach->call, reach->error, "it calls %s, which has a barrier", name);
    case GS_PTX_EXIT:
        return gs_ptx_refuse(kernel, reach->call, reach->error, "it calls %s, which ends threads", name);
    case GS_PTX_SHUFFLE:
    case GS_PTX_BARRIER_WARP:
        return gs_ptx_refuse(kernel, reach->call, reach->error, "it calls %s, in which lanes wait for each other",
                             name);
    case GS_PTX_MBARRIER:
    case GS_PTX_ASYNC_COPY:
        return gs_ptx_refuse(kernel, reach->call, reach->error, "it calls %s, which copies asynchronously", name);
    case GS_PTX_CALL:
        return look_at_call(reach, statement);
    default:
        return GS_OK;
    }
}

static gs_code look_at_function(struct reach *reach, uint32_t number) {
    const gs_ptx_module *module = reach->kernel->module;
    const gs_ptx_function *function = &module->functions.data[number];
    char name[300];
    gs_code code = GS_OK;
    gs_ptx_token_text(module, function->name, name, sizeof name);
    number = (uint32_t)gs_ptx_find_function(module, name); /* where it is defined, if it is */
    function = &module->functions.data[number];
    if (reach->seen[number])
        return GS_OK;
    reach->seen[number] = true;
    for (size_t i = 0; !function->is_defined && i < GS_COUNT(harmless_functions); i++)
        if (strcmp(name, harmless_functions[i]) == 0)
            return GS_OK;
    if (!function->is_defined)
        return gs_ptx_refuse(reach->kernel, reach->call, reach->error, "it calls %s, whose code is not here", name);
    reach->kernel->has_shared = true; /* it may use variables of the module */
    for (uint32_t i = 0; i < function->statement_count && code == GS_OK; i++)
        code = look_into_function(reach, &module->statements.data[function->statements + i], name);
    return code;
}

static gs_code check_calls(gs_ptx_kernel *kernel, gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    struct reach reach = {.seen = calloc(module->functions.count + 1, sizeof(bool)), .kernel = kernel, .error = error};
    gs_code code = reach.seen ? GS_OK : gs_fail_memory(error);
    for (uint32_t i = 0; i < function->statement_count && code == GS_OK; i++) {
        reach.call = &module->statements.data[function->statements + i];
        if (reach.call->kind == GS_PTX_INSTRUCTION && reach.call->opcode == GS_PTX_CALL)
            code = look_at_call(&reach, reach.call);
    }
    free(reach.seen);
    return code;
}

/* ---- barriers ---- */

struct barriers {
    uint32_t used;                           /* a bit for each barrier with a count, */
    uint32_t open;                           /* and for each without one */
    const gs_ptx_statement *apart, *special; /* one that not all threads reach; one that cannot have ghosts */
};

/* The scope of threads that execute the statement, or none of them does. */
static gs_ptx_scope scope_at(const gs_ptx_kernel *kernel, uint32_t statement) {
    uint32_t first = kernel->module->functions.data[kernel->function].statements;
    return (gs_ptx_scope)gs_max(kernel->uniform.runs[gs_ptx_flow_block(&kernel->flow, statement)],
                                kernel->uniform.guards[statement - first]);
}

static gs_code look_at_barrier(const gs_ptx_kernel *kernel, uint32_t number, struct barriers *barriers,
                               gs_error *error) {
    const gs_ptx_statement *statement = &kernel->module->statements.data[number];
    bool reduces = gs_ptx_has(kernel->module, statement, "red");
    uint32_t at = reduces ? 1 : 0, extra = reduces ? 3 : 1;
    if (gs_ptx_has(kernel->module, statement, "arrive"))
        return gs_ptx_refuse(kernel, statement, error,
                             "threads that arrive at this barrier and go on may be counted "
                             "for the next block");
    const gs_ptx_operand *id = &kernel->module->operands.data[statement->operands + at];
    bool has_number = statement->count > at && id->kind == GS_PTX_INTEGER && id->bits < 16;
    bool has_count = statement->count > extra;
    bool is_apart = scope_at(kernel, number) != GS_PTX_SAME_BLOCK;
    if (!has_number && is_apart)
        return gs_ptx_refuse(kernel, statement, error, "not all threads reach this barrier, whose number is computed");
    if (has_number && has_count)
        barriers->used |= is_apart ? 1u << id->bits : 0;
    else if (has_number)
        barriers->open |= 1u << id->bits;
    if (is_apart && !has_count)
        barriers->apart = statement;
    if (reduces)
        barriers->special = statement;
    return GS_OK;
}

/* Decides between a plain barrier behind the body, and ghosts. */
static gs_code decide_barriers(gs_ptx_kernel *kernel, const struct barriers *barriers, gs_error *error) {
    uint32_t open = barriers->open, first = 0;
    if (!barriers->apart) {
        while (first < 15 && barriers->used >> first & 1)
            first++;
        kernel->loop.barrier = first;
        return barriers->used >> first & 1
                   ? gs_ptx_fail(kernel->module, kernel->module->functions.data[kernel->function].name, error,
                                 GS_E_REFUSED, "it uses all barriers")
                   : GS_OK;
    }
    while (!(open >> first & 1))
        first++;
    kernel->loop.has_ghosts = true;
    kernel->loop.barrier = first;
    if (barriers->special)
        return gs_ptx_refuse(kernel, barriers->special, error,
                             "not all threads reach the barriers of this kernel, one of which votes");
    if (open != 1u << first || barriers->used >> first & 1)
        return gs_ptx_refuse(kernel, barriers->apart, error,
                             "not all threads reach this barrier, and the kernel has others with other numbers");
    return GS_OK;
}

/* ---- who writes which register ---- */

/* Counts the writes of an operand, or enters them: `at` has the place of the next writer of each register. */
static void each_write(const gs_ptx_module *module, const gs_ptx_operand *operand, uint32_t statement, uint32_t *at,
                       uint32_t *writers) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & GS_PTX_WRITE) {
        if (writers)
            writers[at[operand->value]] = statement;
        at[operand->value]++;
    }
    for (uint32_t i = 0; i < operand->count; i++)
        each_write(module, &module->operands.data[operand->children + i], statement, at, writers);
}

static void all_writes(const gs_ptx_kernel *kernel, uint32_t *at, uint32_t *writers) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[i];
        for (uint32_t j = 0; statement->kind == GS_PTX_INSTRUCTION && j < statement->count; j++)
            each_write(module, &module->operands.data[statement->operands + j], i, at, writers);
    }
}

static gs_code find_writers(gs_ptx_kernel *kernel, gs_error *error) {
    size_t registers = kernel->module->functions.data[kernel->function].register_count, total = 0;
    uint32_t *at = calloc(registers + 1, sizeof *at);
    kernel->writer_first = calloc(registers + 1, sizeof *kernel->writer_first);
    if (!at || !kernel->writer_first) {
        free(at);
        return gs_fail_memory(error);
    }
    all_writes(kernel, at, NULL);
    for (size_t i = 0; i <= registers; i++) {
        kernel->writer_first[i] = (uint32_t)total;
        total += at[i];
        at[i] = kernel->writer_first[i];
    }
    kernel->writers = malloc((total + 1) * sizeof *kernel->writers);
    if (kernel->writers)
        all_writes(kernel, at, kernel->writers);
    free(at);
    return kernel->writers ? GS_OK : gs_fail_memory(error);
}

/* ---- the kernel ---- */

static bool touches_shared(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    static const char *const suffixes[] = {"shared", "shared::cta"};
    const gs_ptx_module *module = kernel->module;
    for (size_t i = 0; i < GS_COUNT(suffixes); i++)
        if (gs_ptx_has(module, statement, suffixes[i]))
            return true;
    for (uint32_t i = 0; i < statement->count; i++) {
        const gs_ptx_operand *operand = &module->operands.data[statement->operands + i];
        const gs_ptx_operand *inner = operand->count ? &module->operands.data[operand->children] : operand;
        if (inner->kind == GS_PTX_SYMBOL && inner->value != GS_PTX_NONE &&
            module->variables.data[inner->value].space == GS_PTX_SHARED)
            return true;
    }
    return false;
}

static gs_code look_at_body(gs_ptx_kernel *kernel, struct barriers *barriers, gs_error *error) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    gs_code code = GS_OK;
    for (uint32_t i = 0; i < function->statement_count && code == GS_OK; i++) {
        const gs_ptx_statement *statement = &kernel->module->statements.data[function->statements + i];
        code = check_statement(kernel, statement, error);
        if (code != GS_OK || statement->kind != GS_PTX_INSTRUCTION)
            continue;
        kernel->has_shared = kernel->has_shared || touches_shared(kernel, statement);
        kernel->loop.has_async_copies = kernel->loop.has_async_copies || statement->opcode == GS_PTX_ASYNC_COPY;
        kernel->loop.has_bulk_copies = kernel->loop.has_bulk_copies || statement->opcode == GS_PTX_BULK_COPY;
        kernel->loop.has_mbarriers = kernel->loop.has_mbarriers || statement->opcode == GS_PTX_MBARRIER;
        if (gs_ptx_is_warp_step(statement) && scope_at(kernel, function->statements + i) == GS_PTX_SAME_THREAD)
            kernel->has_warp_steps = true;
        if (statement->opcode == GS_PTX_BARRIER)
            code = look_at_barrier(kernel, function->statements + i, barriers, error);
    }
    return code;
}

/* Looks at the kernel under one assumption about its blocks. */
static gs_code examine_once(gs_ptx_kernel *kernel, bool has_whole_rows, gs_error *error) {
    struct barriers barriers = {0};
    gs_ptx_uniform_free(&kernel->uniform);
    kernel->has_whole_rows = has_whole_rows;
    kernel->has_warp_steps = false;
    kernel->loop.has_ghosts = false;
    gs_code code = gs_ptx_uniform_make(&kernel->uniform, &kernel->flow, has_whole_rows, error);
    if (code == GS_OK)
        code = look_at_body(kernel, &barriers, error);
    if (code == GS_OK)
        code = decide_barriers(kernel, &barriers, error);
    if (code == GS_OK && kernel->has_warp_steps)
        code = gs_ptx_add_lanes(kernel, NULL, error);
    if (code == GS_OK)
        kernel->loop.warps_are_independent = !kernel->has_shared && !barriers.open && !barriers.used;
    return code;
}

static gs_code check_head(const gs_ptx_kernel *kernel, gs_error *error) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    int architecture = 0;
    if (function->limits.has_cluster_words)
        return gs_ptx_fail(module, function->name, error, GS_E_REFUSED, "it belongs to a cluster of blocks");
    if (sscanf(module->target, "sm_%d", &architecture) != 1 || architecture < 70)
        return gs_ptx_fail(module, function->name, error, GS_E_REFUSED,
                           "the module is for %s; forms need sm_70 or later", module->target);
    return module->address_bits == 64 ? check_names(kernel, error)
                                      : gs_ptx_fail(module, function->name, error, GS_E_REFUSED,
                                                    "the module has addresses of %d bits", module->address_bits);
}

gs_code gs_ptx_kernel_examine(gs_ptx_kernel *kernel, const gs_ptx_options *options, gs_error *error) {
    gs_error first = {.code = GS_OK};
    kernel->loop = (gs_block_loop){.form = options->form,
                                   .task_blocks = options->task_blocks ? options->task_blocks : 10,
                                   .has_marks = options->has_marks};
    gs_code code = check_head(kernel, error);
    if (code == GS_OK)
        code = gs_ptx_flow_make(&kernel->flow, kernel->module, kernel->function, error);
    if (code == GS_OK)
        code = find_writers(kernel, error);
    if (code == GS_OK)
        code = check_calls(kernel, error);
    if (code == GS_OK)
        code = examine_once(kernel, false, &first);
    if (code == GS_E_REFUSED && first.code == GS_E_REFUSED) {
        code = kernel->has_warp_steps ? examine_once(kernel, true, error) : GS_E_REFUSED;
        kernel->loop.needs_whole_rows = code == GS_OK;
    }
    if (first.code != GS_OK && code != GS_OK && error)
        *error = first;
    if (code == GS_OK && !options->looks_back)
        code = gs_ptx_check_waits(kernel, error);
    return code;
}

void gs_ptx_kernel_free(gs_ptx_kernel *kernel) {
    free(kernel->writers);
    free(kernel->writer_first);
    gs_ptx_uniform_free(&kernel->uniform);
    gs_ptx_flow_free(&kernel->flow);
}
