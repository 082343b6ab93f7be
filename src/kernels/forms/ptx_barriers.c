/*
 * ptx_barriers.c: the barriers of a kernel, and whether exited threads must wait in them. See ptx_loop.c.
 */
#include "ptx_facts.h"

/* The scope of threads that either all execute the statement or all skip it. */
gs_ptx_scope gs_ptx_scope_at(const gs_ptx_kernel *kernel, uint32_t statement) {
    uint32_t first = kernel->module->functions.data[kernel->function].statements;
    return (gs_ptx_scope)gs_max(kernel->uniform.runs[gs_ptx_flow_block(&kernel->flow, statement)],
                                kernel->uniform.guards[statement - first]);
}

gs_code gs_ptx_look_at_barrier(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_ptx_scope scope,
                               gs_ptx_barriers *barriers, gs_error *error) {
    bool reduces = gs_ptx_has(kernel->module, statement, "red");
    uint32_t at = reduces ? 1 : 0, extra = reduces ? 3 : 1;
    if (gs_ptx_has(kernel->module, statement, "arrive"))
        return gs_ptx_refuse(kernel, statement, error,
                             "threads that arrive at this barrier without waiting may be counted "
                             "for the next block");
    const gs_ptx_operand *id = &kernel->module->operands.data[statement->operands + at];
    bool has_number = statement->count > at && id->kind == GS_PTX_INTEGER && id->bits < 16;
    bool has_count = statement->count > extra;
    bool is_apart = scope != GS_PTX_SAME_BLOCK;
    if (!has_number && is_apart)
        return gs_ptx_refuse(kernel, statement, error, "not all threads reach this barrier, whose number is computed");
    if (has_number && has_count)
        barriers->used |= is_apart ? 1u << id->bits : 0;
    else if (has_number)
        barriers->open |= 1u << id->bits;
    if (is_apart && !has_count)
        barriers->apart = statement;
    barriers->has_votes = barriers->has_votes || (reduces && !has_count);
    return GS_OK;
}

/* Decides between a plain barrier after the body, and exited threads that wait in the barriers. */
gs_code gs_ptx_decide_barriers(gs_ptx_kernel *kernel, const gs_ptx_barriers *barriers, gs_error *error) {
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
    kernel->loop.exited_threads_wait = true;
    kernel->loop.barrier = first;
    if (barriers->called)
        return gs_ptx_refuse(kernel, barriers->called, error,
                             "not all threads reach the barriers of this kernel, and one barrier is in a function");
    kernel->loop.has_votes = barriers->has_votes;
    if (open != 1u << first || barriers->used >> first & 1)
        return gs_ptx_refuse(kernel, barriers->apart, error,
                             "not all threads reach this barrier, and the kernel has others with other numbers");
    return GS_OK;
}
