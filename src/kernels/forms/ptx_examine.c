/*
 * ptx_examine.c: whether a kernel can be reshaped, and what its block loop needs. See ptx_facts.h.
 *
 * A worker block runs blocks serially. docs/reshape.md lists all ways in which a block could notice that, or leave
 * something behind, and how each is handled. The steps are: single statements (ptx_refused.c), called functions
 * (ptx_calls.c), barriers (ptx_barriers.c), lanes of warps (ptx_lanes.c), shared memory (ptx_shared.c), and waits for
 * other blocks (ptx_waits.c).
 */
#include "ptx_facts.h"

#include <stdlib.h>

/* ---- the writers of registers ---- */

/* Counts the writes of an operand, or stores them: `at` has the place of the next writer of each register. */
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

/* `cvta.to.global.u64 %rd1, %rd1`: a generic address of global memory is the same number. */
static bool changes_nothing(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    const gs_ptx_operand *operands = module->operands.data + statement->operands;
    return gs_ptx_math_of(statement) == GS_PTX_MATH_CONVERT_ADDRESS && statement->count == 2 &&
           operands[1].kind == GS_PTX_REGISTER && operands[0].value == operands[1].value &&
           gs_ptx_has(module, statement, "global");
}

static void all_writes(const gs_ptx_kernel *kernel, uint32_t *at, uint32_t *writers) {
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[i];
        bool is_write = statement->kind == GS_PTX_INSTRUCTION && !changes_nothing(module, statement);
        for (uint32_t j = 0; is_write && j < statement->count; j++)
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

/* A generic address is one of shared memory only if it was made of a variable there. */
static bool is_shared_only(uint8_t memory) {
    return memory & GS_PTX_IN_SHARED && !(memory & GS_PTX_IN_GLOBAL);
}

static bool touches_shared(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = kernel->module;
    if (is_shared_only(gs_ptx_reads(module, statement)) || is_shared_only(gs_ptx_writes(module, statement)))
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

static gs_code look_at_body(gs_ptx_kernel *kernel, gs_ptx_barriers *barriers, gs_error *error) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    gs_code code = GS_OK;
    for (uint32_t i = 0; i < function->statement_count && code == GS_OK; i++) {
        const gs_ptx_statement *statement = &kernel->module->statements.data[function->statements + i];
        code = gs_ptx_check_statement(kernel, statement, error);
        if (code != GS_OK || statement->kind != GS_PTX_INSTRUCTION)
            continue;
        kernel->has_shared = kernel->has_shared || touches_shared(kernel, statement);
        kernel->loop.has_async_copies = kernel->loop.has_async_copies || statement->opcode == GS_PTX_ASYNC_COPY;
        kernel->loop.has_bulk_copies = kernel->loop.has_bulk_copies || statement->opcode == GS_PTX_BULK_COPY;
        kernel->loop.has_mbarriers = kernel->loop.has_mbarriers || statement->opcode == GS_PTX_MBARRIER;
        kernel->loop.has_group_products = kernel->loop.has_group_products || statement->opcode == GS_PTX_WARPGROUP;
        if (gs_ptx_is_warp_step(statement) && gs_ptx_scope_at(kernel, function->statements + i) == GS_PTX_SAME_THREAD)
            kernel->has_warp_steps = true;
        if (statement->opcode == GS_PTX_BARRIER)
            code = gs_ptx_look_at_barrier(kernel, statement, gs_ptx_scope_at(kernel, function->statements + i),
                                          barriers, error);
    }
    return code;
}

/* Examines the kernel under one assumption about its blocks. */
static gs_code examine_once(gs_ptx_kernel *kernel, bool has_whole_rows, gs_error *error) {
    gs_ptx_barriers barriers = {0};
    gs_ptx_uniform_free(&kernel->uniform);
    kernel->has_whole_rows = has_whole_rows;
    kernel->has_warp_steps = false;
    kernel->loop.masks = 0;
    kernel->loop.exited_threads_wait = kernel->loop.has_votes = false;
    gs_code code = gs_ptx_uniform_make(&kernel->uniform, &kernel->flow, has_whole_rows, error);
    if (code == GS_OK)
        code = gs_ptx_check_calls(kernel, &barriers, error);
    if (code == GS_OK)
        code = look_at_body(kernel, &barriers, error);
    if (code == GS_OK)
        code = gs_ptx_decide_barriers(kernel, &barriers, error);
    if (code == GS_OK && kernel->has_warp_steps)
        code = gs_ptx_add_lanes(kernel, NULL, &kernel->loop.masks, error);
    if (code == GS_OK)
        code = gs_ptx_place_loop(kernel, error);
    if (code == GS_OK)
        kernel->loop.warps_are_independent =
            !kernel->has_shared && !barriers.open && !barriers.used && !barriers.computed;
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
    if (module->address_bits != 64)
        return gs_ptx_fail(module, function->name, error, GS_E_REFUSED,
                           "the module has addresses of %d bits; forms need 64", module->address_bits);
    if (module->tokens.data[function->name].length > GS_PTX_SYMBOL_MOST - 100)
        return gs_ptx_fail(module, function->name, error, GS_E_REFUSED, "its name has more than %d bytes",
                           GS_PTX_SYMBOL_MOST - 100);
    gs_code code = gs_ptx_check_names(kernel, kernel->function, error);
    return code == GS_OK ? gs_ptx_check_taken(kernel, error) : code;
}

/* The parameters of the kernel and that of the loop must be as few as ptxas allows. */
static gs_code check_parameters(const gs_ptx_kernel *kernel, gs_error *error) {
    enum { MOST = 4352, MOST_SINCE_81 = 32764, LOOP_ALIGN = 8 };
    const gs_ptx_module *module = kernel->module;
    const gs_ptx_function *function = &module->functions.data[kernel->function];
    uint64_t bytes = 0, most = module->version >= 81 ? MOST_SINCE_81 : MOST;
    for (uint32_t i = 0; i < function->parameter_count; i++) {
        const gs_ptx_variable *variable = &module->variables.data[function->parameters + i];
        uint64_t align = gs_max_u64(variable->align, 1);
        bytes = (bytes + align - 1) / align * align + variable->bytes;
    }
    uint64_t all = (bytes + LOOP_ALIGN - 1) / LOOP_ALIGN * LOOP_ALIGN + gs_block_loop_parameter_bytes(&kernel->loop);
    return all <= most ? GS_OK
                       : gs_ptx_fail(module, function->name, error, GS_E_REFUSED,
                                     "it has %llu bytes of parameters; with those of the form they would be %llu, and "
                                     "PTX %d.%d allows %llu",
                                     (unsigned long long)bytes, (unsigned long long)all, module->version / 10,
                                     module->version % 10, (unsigned long long)most);
}

/* Whether the kernel, or a function that it calls, finds with plain loads what other blocks have written. */
static bool kernel_acquires(const gs_ptx_kernel *kernel) {
    const gs_ptx_module *module = kernel->module;
    for (uint32_t f = 0; f < module->functions.count; f++) {
        const gs_ptx_function *function = &module->functions.data[f];
        bool is_run = f == kernel->function || kernel->is_called[f];
        for (uint32_t i = 0; is_run && i < function->statement_count; i++)
            if (gs_ptx_acquires(module, &module->statements.data[function->statements + i]))
                return true;
    }
    return false;
}

/* Searches for waits in the functions that the kernel calls. */
static gs_code check_called_waits(const gs_ptx_kernel *kernel, gs_error *error) {
    gs_code code = GS_OK;
    for (uint32_t i = 0; i < kernel->module->functions.count && code == GS_OK; i++) {
        gs_ptx_kernel called = {
            .module = kernel->module, .function = i, .is_called = kernel->is_called, .acquires = kernel->acquires};
        if (!kernel->is_called[i] || !kernel->module->functions.data[i].is_defined)
            continue;
        code = gs_ptx_flow_make(&called.flow, kernel->module, i, error);
        if (code == GS_OK)
            code = find_writers(&called, error);
        if (code == GS_OK)
            code = gs_ptx_check_waits(&called, true, error);
        called.is_called = NULL;
        gs_ptx_kernel_free(&called);
    }
    return code;
}

/* Examines the kernel for all blocks, and then for those that are a multiple of 32 wide: what is refused even there is
   the better reason. */
static gs_code examine_rows(gs_ptx_kernel *kernel, gs_error *error) {
    gs_error first;
    gs_code code = examine_once(kernel, false, &first);
    if (code == GS_E_REFUSED) {
        code = examine_once(kernel, true, error);
        kernel->loop.needs_whole_rows = code == GS_OK;
    } else if (code != GS_OK && error) {
        *error = first;
    }
    return code;
}

gs_code gs_ptx_kernel_examine(gs_ptx_kernel *kernel, const gs_ptx_options *options, gs_error *error) {
    kernel->loop = (gs_block_loop){.form = options->form,
                                   .task_blocks = options->task_blocks ? options->task_blocks : 10,
                                   .counts_blocks = options->counts_blocks,
                                   .most_blocks = GS_JOB_BLOCKS};
    gs_code code = check_head(kernel, error);
    if (code == GS_OK)
        code = gs_ptx_flow_make(&kernel->flow, kernel->module, kernel->function, error);
    if (code == GS_OK)
        code = find_writers(kernel, error);
    if (code == GS_OK)
        code = examine_rows(kernel, error);
    if (code == GS_OK)
        code = check_parameters(kernel, error);
    kernel->loop.is_ordered = options->looks_back;
    kernel->acquires = code == GS_OK && kernel_acquires(kernel);
    if (code == GS_OK && !options->looks_back)
        code = check_called_waits(kernel, error);
    return code == GS_OK && !options->looks_back ? gs_ptx_check_waits(kernel, false, error) : code;
}

void gs_ptx_kernel_free(gs_ptx_kernel *kernel) {
    free(kernel->is_called);
    free(kernel->is_copied);
    free(kernel->writers);
    free(kernel->writer_first);
    gs_ptx_uniform_free(&kernel->uniform);
    gs_ptx_flow_free(&kernel->flow);
}
