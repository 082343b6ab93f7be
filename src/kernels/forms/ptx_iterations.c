/*
 * ptx_iterations.c: the loops of a kernel, and the branches that decide what an iteration runs.
 *
 * Blocks are numbered in an order in which the head of a loop comes before the rest of it. A thread that runs forever
 * comes to some blocks again and again. The one with the lowest number is the head of a loop, and the loop is all
 * blocks on the ways from the head back to it, none of which has a lower number. So loops with the same head count as
 * one. An iteration begins at the head and ends when it reaches the head again, or leaves the loop. A branch decides
 * about a block if the block runs in this iteration after one edge of the branch, and does not, or need not, after
 * another. Branches that leave the loop do not count: an iteration that continues has passed them. Control dependence
 * (gs_ptx_flow.dependences) is different: it tells whether a block runs at all, and the end of a loop always does at
 * some time.
 */
#include "ptx_wait_facts.h"

#include <stdlib.h>
#include <string.h>

uint32_t gs_ptx_successor(const gs_ptx_flow *flow, uint32_t block, uint32_t index) {
    const gs_ptx_block *data = &flow->blocks.data[block];
    return index < 2 ? data->successors[index] : flow->targets.data[data->targets + index - 2];
}

uint32_t gs_ptx_successor_count(const gs_ptx_flow *flow, uint32_t block) {
    return 2 + flow->blocks.data[block].target_count;
}

bool gs_ptx_loop_ends_at(const gs_ptx_loop *loop, uint32_t block) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t i = 0; i < gs_ptx_successor_count(flow, block); i++) {
        uint32_t next = gs_ptx_successor(flow, block, i);
        if (next != GS_PTX_NONE && (next >= flow->blocks.count || !loop->within[next]))
            return true;
    }
    return false;
}

/* ---- the blocks of a loop ---- */

/* Numbers the blocks so that each comes before those that can only be reached through it: in the reverse of the order
   in which a depth-first search leaves them. Those that are never reached have no number. */
static bool number_blocks(gs_ptx_loop *loop) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    uint32_t *stack = malloc((flow->blocks.count + 1) * sizeof *stack);
    uint32_t *edges = calloc(flow->blocks.count + 1, sizeof *edges); /* of each block, how many were followed */
    uint32_t depth = 0, number = (uint32_t)flow->blocks.count;
    bool is_well = stack && edges;
    for (size_t b = 0; b < flow->blocks.count; b++)
        loop->numbers_of_blocks[b] = GS_PTX_NONE;
    if (is_well && flow->blocks.count)
        stack[depth++] = 0;
    while (is_well && depth) {
        uint32_t block = stack[depth - 1], next = GS_PTX_NONE;
        if (edges[block] < gs_ptx_successor_count(flow, block))
            next = gs_ptx_successor(flow, block, edges[block]++);
        else
            loop->numbers_of_blocks[stack[--depth]] = --number;
        if (next < flow->blocks.count && next && !edges[next])
            stack[depth++] = next;
    }
    free(stack);
    free(edges);
    return is_well;
}

bool gs_ptx_leads_back(const gs_ptx_loop *loop, uint32_t from, uint32_t to) {
    const uint32_t *numbers = loop->numbers_of_blocks;
    return to < loop->kernel->flow.blocks.count && numbers[from] != GS_PTX_NONE && numbers[to] <= numbers[from];
}

/* Finds the blocks that a thread can reach from the head without coming to one that is numbered below it. */
static void reach_from_head(const gs_ptx_loop *loop) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    memset(loop->reached, 0, flow->blocks.count + 1);
    loop->reached[loop->head] = true;
    for (bool has_grown = true; has_grown;) {
        has_grown = false;
        for (uint32_t b = 0; b < flow->blocks.count; b++)
            for (uint32_t i = 0; loop->reached[b] && i < gs_ptx_successor_count(flow, b); i++) {
                uint32_t next = gs_ptx_successor(flow, b, i);
                if (next < flow->blocks.count && !gs_ptx_leads_back(loop, loop->head, next) && !loop->reached[next])
                    loop->reached[next] = has_grown = true;
            }
    }
}

/* Marks the last blocks of the loop: those from which an edge leads back to the head. False: none. */
static bool collect_last(const gs_ptx_loop *loop) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    bool has_any = false;
    memset(loop->within, 0, flow->blocks.count);
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = 0; loop->reached[b] && i < gs_ptx_successor_count(flow, b); i++)
            if (gs_ptx_successor(flow, b, i) == loop->head)
                loop->within[b] = has_any = true;
    return has_any;
}

/* All blocks from which one of those that are marked can be reached without passing the head. */
static void collect_before(const gs_ptx_loop *loop) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    loop->within[loop->head] = true;
    for (bool has_grown = true; has_grown;) {
        has_grown = false;
        for (uint32_t b = (uint32_t)flow->blocks.count; b-- > 0;)
            for (uint32_t i = 0; loop->reached[b] && i < gs_ptx_successor_count(flow, b) && !loop->within[b]; i++) {
                uint32_t next = gs_ptx_successor(flow, b, i);
                if (next < flow->blocks.count && next != loop->head && loop->within[next])
                    loop->within[b] = has_grown = true;
            }
    }
}

/* Whether functions that the kernel calls come behind what other threads have written. */
static bool called_join(const gs_ptx_kernel *kernel) {
    for (uint32_t f = 0; f < kernel->module->functions.count; f++) {
        const gs_ptx_function *function = &kernel->module->functions.data[f];
        for (uint32_t i = 0; kernel->is_called[f] && i < function->statement_count; i++)
            if (gs_ptx_joins(kernel->module, gs_ptx_statement_at(kernel, function->statements + i)))
                return true;
    }
    return false;
}

/* Whether an iteration may come behind what another thread has written since the one before. */
static bool loop_joins(const gs_ptx_loop *loop) {
    const gs_ptx_kernel *kernel = loop->kernel;
    const gs_ptx_flow *flow = &kernel->flow;
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        for (uint32_t i = flow->blocks.data[b].first; loop->within[b] && i <= flow->blocks.data[b].last; i++) {
            const gs_ptx_statement *statement = gs_ptx_statement_at(kernel, i);
            if (gs_ptx_joins(kernel->module, statement) || (statement->opcode == GS_PTX_CALL && called_join(kernel)))
                return true;
        }
    return false;
}

bool gs_ptx_loop_collect(gs_ptx_loop *loop, uint32_t head) {
    loop->head = head;
    reach_from_head(loop);
    if (!collect_last(loop))
        return false;
    collect_before(loop);
    memset(loop->steadiness, 0,
           2 * (size_t)loop->kernel->module->functions.data[loop->kernel->function].register_count);
    loop->joins = loop_joins(loop);
    loop->synchronizes = loop->joins && loop->kernel->acquires; /* this thread acquires, or waits for one that does */
    return true;
}

/* ---- decisions ---- */

/* Whether an iteration that has reached a block may run or skip another one: bits. */
enum { RUNS_IT = 1, SKIPS_IT = 2 };

static uint8_t outlook_of(const gs_ptx_loop *loop, const uint8_t *outlooks, uint32_t next) {
    if (next == loop->head)
        return SKIPS_IT;
    return next < loop->kernel->flow.blocks.count && loop->within[next] ? outlooks[next] : 0;
}

/* Finds for each block of the loop whether an iteration that has reached it may still run `about`, and may skip it. */
static void find_outlooks(const gs_ptx_loop *loop, uint32_t about, uint8_t *outlooks) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    memset(outlooks, 0, flow->blocks.count);
    outlooks[about] = RUNS_IT;
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (uint32_t b = (uint32_t)flow->blocks.count; b-- > 0;) {
            uint8_t outlook = outlooks[b];
            for (uint32_t i = 0; loop->within[b] && b != about && i < gs_ptx_successor_count(flow, b); i++)
                outlook |= outlook_of(loop, outlooks, gs_ptx_successor(flow, b, i));
            has_changed = has_changed || outlook != outlooks[b];
            outlooks[b] = outlook;
        }
    }
}

static bool branch_decides(const gs_ptx_loop *loop, const uint8_t *outlooks, uint32_t branch) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    uint8_t first = 0;
    if (gs_ptx_loop_ends_at(loop, branch))
        return false;
    for (uint32_t i = 0; i < gs_ptx_successor_count(flow, branch); i++) {
        uint8_t outlook = outlook_of(loop, outlooks, gs_ptx_successor(flow, branch, i));
        if (first && outlook && outlook != first)
            return true;
        first = first ? first : outlook;
    }
    return false;
}

gs_code gs_ptx_loop_decide(gs_ptx_loop *loop, gs_error *error) {
    const uint64_t most_effort = 1 << 27; /* about a second */
    const gs_ptx_flow *flow = &loop->kernel->flow;
    loop->decisions.count = 0;
    for (uint32_t b = 0; b < flow->blocks.count; b++) {
        loop->decision_first[b] = (uint32_t)loop->decisions.count;
        if (!loop->within[b] || b == loop->head)
            continue;
        loop->effort += flow->blocks.count;
        if (loop->effort > most_effort)
            return gs_ptx_refuse(loop->kernel, gs_ptx_statement_at(loop->kernel, flow->blocks.data[b].first), error,
                                 "it has too many loops and branches to look for waits in them");
        find_outlooks(loop, b, loop->outlooks);
        for (uint32_t branch = 0; branch < flow->blocks.count; branch++) {
            if (!loop->within[branch] || branch == b || !branch_decides(loop, loop->outlooks, branch))
                continue;
            if (!GS_RESERVE(&loop->decisions, 1))
                return gs_fail_memory(error);
            loop->decisions.data[loop->decisions.count++] = branch;
        }
    }
    loop->decision_first[flow->blocks.count] = (uint32_t)loop->decisions.count;
    return GS_OK;
}

bool gs_ptx_runs_always(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    uint32_t block = gs_ptx_flow_block(&loop->kernel->flow, gs_ptx_number_of(loop->kernel, statement));
    return statement->guard == GS_PTX_NONE && loop->decision_first[block] == loop->decision_first[block + 1];
}

/* ---- memory ---- */

bool gs_ptx_reads_changing(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    return statement->kind == GS_PTX_INSTRUCTION && gs_ptx_access_of(loop, statement)->reads & GS_PTX_IN_GLOBAL &&
           !gs_ptx_reads_constants(loop->kernel->module, statement);
}

bool gs_ptx_reads_anew(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = loop->kernel->module;
    return gs_ptx_reads_changing(loop, statement) && statement->opcode != GS_PTX_CALL &&
           (gs_ptx_is_strong(module, statement) || gs_ptx_has(module, statement, "cg") || loop->synchronizes);
}

/* Whether a statement calls a function of CUDA, like vprintf or __assertfail, which changes no memory of the kernel:
   others whose code is not in the module are refused (ptx_calls.c). */
static bool calls_cuda(const gs_ptx_module *module, const gs_ptx_statement *statement) {
    uint32_t operand;
    int function = statement->opcode == GS_PTX_CALL ? gs_ptx_called_function(module, statement, &operand) : -1;
    return function >= 0 && !module->functions.data[function].is_defined;
}

/* The memory that a statement accesses. A generic address that comes from a parameter of a kernel is one of global
   memory; one that comes from a shared variable is not. */
static gs_ptx_access find_access(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = kernel->module;
    const uint8_t block = GS_PTX_IN_SHARED | GS_PTX_IN_LOCAL;
    gs_ptx_access access = {gs_ptx_reads(module, statement), gs_ptx_writes(module, statement), GS_PTX_NONE, GS_PTX_NONE,
                            GS_PTX_NONE};
    if (calls_cuda(module, statement))
        access.writes &= GS_PTX_IN_PARAM;
    bool is_written = access.writes & block || !access.reads;
    const gs_ptx_operand *address = gs_ptx_address_of(kernel, statement, is_written);
    if (!((access.reads | access.writes) & block) || !address)
        return access;
    gs_linear_origin origin = gs_linear_origin_of(kernel, address);
    if (gs_linear_is_private(kernel, &origin)) {
        uint8_t *resolved = is_written ? &access.writes : &access.reads;
        bool is_generic = *resolved & GS_PTX_IN_GLOBAL;
        if (is_generic && access.reads & access.writes & GS_PTX_IN_GLOBAL)
            access.reads = block;
        *resolved = is_generic ? block : *resolved;
        access.place = origin.count == 1 ? (uint32_t)origin.symbols[0] : GS_PTX_NONE;
        gs_linear value = gs_linear_value(kernel, address, GS_LINEAR_EXACT);
        if (value.is_known && value.count == 1 && value.terms[0].times == 1 && value.number >= 0)
            access.offset = (uint32_t)value.number;
        else
            access.end = gs_ptx_end_of_store(kernel, statement);
    } else if (!gs_linear_may_be_private(kernel, &origin) && module->functions.data[kernel->function].is_entry) {
        access.reads &= access.reads & GS_PTX_IN_GLOBAL ? (uint8_t)~block : 0xff;
        access.writes &= access.writes & GS_PTX_IN_GLOBAL ? (uint8_t)~block : 0xff;
    }
    return access;
}

gs_code gs_ptx_loop_init(gs_ptx_loop *loop, const gs_ptx_kernel *kernel, gs_error *error) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    size_t registers = function->register_count + 1, blocks = kernel->flow.blocks.count + 1;
    *loop = (gs_ptx_loop){.kernel = kernel,
                          .accesses = calloc(function->statement_count + 1, sizeof *loop->accesses),
                          .numbers = malloc(registers * sizeof *loop->numbers),
                          .within = calloc(blocks, sizeof(bool)),
                          .wanted = calloc(registers, sizeof(bool)),
                          .wanted_places = calloc(kernel->module->variables.count + 1, sizeof(bool)),
                          .wanted_statements = calloc(function->statement_count + 1, sizeof(bool)),
                          .steadiness = calloc(registers, 2),
                          .decision_first = calloc(blocks, sizeof(uint32_t)),
                          .outlooks = calloc(blocks, 1),
                          .numbers_of_blocks = calloc(blocks, sizeof(uint32_t)),
                          .reached = calloc(blocks, sizeof(bool))};
    if (!loop->accesses || !loop->numbers || !loop->within || !loop->wanted || !loop->wanted_places ||
        !loop->wanted_statements || !loop->steadiness || !loop->decision_first || !loop->outlooks || !loop->reached ||
        !loop->numbers_of_blocks || !number_blocks(loop))
        return gs_fail_memory(error);
    for (size_t i = 0; i < registers; i++)
        loop->numbers[i] = (gs_ptx_fact){GS_FACT_NONE, 0};
    for (uint32_t i = 0; i < function->statement_count; i++)
        loop->accesses[i] = find_access(kernel, gs_ptx_statement_at(kernel, function->statements + i));
    return GS_OK;
}

void gs_ptx_loop_free(gs_ptx_loop *loop) {
    free(loop->accesses);
    free(loop->numbers);
    free(loop->within);
    free(loop->wanted);
    free(loop->wanted_places);
    free(loop->wanted_statements);
    free(loop->words.data);
    free(loop->steadiness);
    free(loop->decisions.data);
    free(loop->decision_first);
    free(loop->outlooks);
    free(loop->reached);
    free(loop->numbers_of_blocks);
}
