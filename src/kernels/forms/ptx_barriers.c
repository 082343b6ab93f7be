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

/* The barriers that an operand may name, a bit for each: all, if the number is computed and nothing bounds it. */
static uint32_t named_barriers(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement,
                               const gs_ptx_operand *id) {
    enum { LAST = GS_PTX_BARRIERS - 1 };
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    size_t place = (size_t)(statement - kernel->module->statements.data);
    bool is_own =
        place - function->statements < function->statement_count; /* else the registers are not the kernel's */
    uint64_t low = 0, high = LAST;
    uint32_t barriers = 0;
    if (id->kind == GS_PTX_INTEGER)
        low = high = id->bits;
    else if (!is_own || !gs_ptx_range(kernel, (uint32_t)place, id, &low, &high) || low > LAST)
        low = 0, high = LAST;
    for (uint64_t i = low; i <= high && i <= LAST; i++)
        barriers |= 1u << i;
    return barriers;
}

/* Notes for how many threads barriers are. Arrivals can be counted only of whole warps, in the kernel itself. */
static void note_counts(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, const gs_ptx_operand *count,
                        gs_ptx_scope scope, uint32_t named, gs_ptx_barriers *barriers) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    size_t place = (size_t)(statement - kernel->module->statements.data);
    bool is_plain = count->kind == GS_PTX_INTEGER && count->bits && count->bits <= 1024 && count->bits % 32 == 0 &&
                    !(named & (named - 1)) && scope != GS_PTX_SAME_THREAD &&
                    place - function->statements < function->statement_count;
    uint32_t threads = is_plain ? (uint32_t)count->bits : GS_PTX_NONE;
    for (uint32_t i = 0; i < GS_PTX_BARRIERS; i++)
        if (named >> i & 1)
            barriers->counts[i] = !barriers->counts[i] || barriers->counts[i] == threads ? threads : GS_PTX_NONE;
}

gs_code gs_ptx_look_at_barrier(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, gs_ptx_scope scope,
                               gs_ptx_barriers *barriers, gs_error *error) {
    bool reduces = gs_ptx_row(statement)->result == GS_PTX_OF_BARRIER;
    uint32_t at = reduces ? 1 : 0, extra = reduces ? 3 : 1;
    if (statement->count <= at)
        return gs_ptx_refuse(kernel, statement, error, "this barrier has no number");
    const gs_ptx_operand *id = &kernel->module->operands.data[statement->operands + at];
    bool has_number = id->kind == GS_PTX_INTEGER, has_count = statement->count > extra;
    bool is_apart = scope != GS_PTX_SAME_BLOCK;
    if (has_number && id->bits >= GS_PTX_BARRIERS)
        return gs_ptx_refuse(kernel, statement, error, "barriers have numbers from 0 to %d", GS_PTX_BARRIERS - 1);
    if (gs_ptx_row(statement)->waits == GS_PTX_WAITS_NOT) {
        barriers->arrivals |= named_barriers(kernel, statement, id);
        barriers->arriving = statement;
    }
    if (!has_number && !has_count && is_apart)
        return gs_ptx_refuse(kernel, statement, error, "not all threads reach this barrier, whose number is computed");
    if (has_count && scope == GS_PTX_SAME_THREAD)
        return gs_ptx_refuse(kernel, statement, error,
                             "not all lanes of a warp reach this barrier, which counts whole warps");
    if (has_count) {
        uint32_t named = named_barriers(kernel, statement, id);
        barriers->used |= named;
        note_counts(kernel, statement, id + 1, scope, named, barriers);
    } else if (has_number)
        barriers->open |= 1u << id->bits;
    else
        barriers->computed = statement;
    if (is_apart && !has_count)
        barriers->apart = statement;
    barriers->has_votes = barriers->has_votes || (reduces && !has_count);
    return GS_OK;
}

/* Threads that arrived at a barrier without waiting may be left when a block ends. The loop counts who comes to such a
   barrier, and completes it. */
static gs_code decide_arrivals(gs_ptx_kernel *kernel, const gs_ptx_barriers *barriers, gs_error *error) {
    const char *reason = barriers->arrivals && barriers->apart ? ", and others have exited" : NULL;
    kernel->loop.arrivals = barriers->arrivals;
    for (uint32_t i = 0; i < GS_PTX_BARRIERS; i++) {
        if (!(barriers->arrivals >> i & 1))
            continue;
        kernel->loop.arrival_counts[i] = barriers->counts[i];
        if (!reason && (barriers->counts[i] == GS_PTX_NONE || barriers->open >> i & 1 || barriers->computed))
            reason = ", and how many there are is not known";
        if (!reason && !gs_block_loop_arrivals_at(&kernel->loop, i))
            reason = ", and there are too many such barriers";
    }
    return reason ? gs_ptx_refuse(kernel, barriers->arriving, error,
                                  "threads that arrive at this barrier without waiting may be counted for the next "
                                  "block%s",
                                  reason)
                  : GS_OK;
}

/* Decides between a plain barrier after the body, and exited threads that wait in the barriers. All threads pass a
   barrier without a count, so the loop may use its number; one with a count may still be in use by other threads. */
gs_code gs_ptx_decide_barriers(gs_ptx_kernel *kernel, const gs_ptx_barriers *barriers, gs_error *error) {
    uint32_t open = barriers->open, first = 0;
    gs_code code = decide_arrivals(kernel, barriers, error);
    if (code != GS_OK)
        return code;
    if (!barriers->apart) {
        while (first < 15 && barriers->used >> first & 1)
            first++;
        kernel->loop.barrier = first;
        return barriers->used >> first & 1
                   ? gs_ptx_fail(kernel->module, kernel->module->functions.data[kernel->function].name, error,
                                 GS_E_REFUSED, "it may use all 16 barriers, and the form needs one")
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
    if (open != 1u << first || barriers->used >> first & 1 || barriers->computed)
        return gs_ptx_refuse(kernel, barriers->apart, error,
                             "not all threads reach this barrier, and the kernel has others with other numbers");
    return GS_OK;
}
