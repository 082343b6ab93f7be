/*
 * ptx_iterations.c: the loops of a kernel, and the branches that decide what an iteration runs.
 *
 * A back edge, from the last block of a loop to its head, defines the loop. An iteration begins at the head and ends
 * when it reaches the head again, or leaves the loop. A branch decides about a block if the block runs in this
 * iteration after one edge of the branch, and does not, or need not, after another. Branches that leave the loop do not
 * count: an iteration that continues has passed them. Control dependence (gs_ptx_flow.dependences) is different: it
 * tells whether a block runs at all, and the end of a loop always does at some time.
 */
#include "ptx_waits.h"

#include <stdlib.h>
#include <string.h>

/* A successor of a block: a block, the block count for the exit, or GS_PTX_NONE. */
static uint32_t successor_of(const gs_ptx_flow *flow, uint32_t block, uint32_t index) {
    const gs_ptx_block *data = &flow->blocks.data[block];
    return index < 2 ? data->successors[index] : flow->targets.data[data->targets + index - 2];
}

static uint32_t successor_count(const gs_ptx_flow *flow, uint32_t block) {
    return 2 + flow->blocks.data[block].target_count;
}

bool gs_ptx_loop_ends_at(const gs_ptx_loop *loop, uint32_t block) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    for (uint32_t i = 0; i < successor_count(flow, block); i++) {
        uint32_t next = successor_of(flow, block, i);
        if (next != GS_PTX_NONE && (next >= flow->blocks.count || !loop->within[next]))
            return true;
    }
    return false;
}

/* ---- the blocks of a loop ---- */

/* All blocks from which `from` can be reached without passing `head`. */
static void collect_before(const gs_ptx_loop *loop, uint32_t head, uint32_t from) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    memset(loop->within, 0, flow->blocks.count);
    loop->within[head] = loop->within[from] = true;
    for (bool has_grown = true; has_grown;) {
        has_grown = false;
        for (uint32_t b = (uint32_t)flow->blocks.count; b-- > 0;)
            for (uint32_t i = 0; i < successor_count(flow, b) && !loop->within[b]; i++) {
                uint32_t next = successor_of(flow, b, i);
                if (next < flow->blocks.count && next != head && loop->within[next])
                    loop->within[b] = has_grown = true;
            }
    }
}

bool gs_ptx_loop_collect(gs_ptx_loop *loop, uint32_t head, uint32_t from) {
    const gs_ptx_flow *flow = &loop->kernel->flow;
    loop->head = head;
    memset(loop->reached, 0, flow->blocks.count + 1);
    if (!gs_ptx_flow_reach(flow, head, loop->reached) || (!loop->reached[from] && head != from))
        return false;
    collect_before(loop, head, from);
    for (uint32_t b = 0; b < flow->blocks.count; b++)
        loop->within[b] = loop->within[b] && (b == head || loop->reached[b]);
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
            for (uint32_t i = 0; loop->within[b] && b != about && i < successor_count(flow, b); i++)
                outlook |= outlook_of(loop, outlooks, successor_of(flow, b, i));
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
    for (uint32_t i = 0; i < successor_count(flow, branch); i++) {
        uint8_t outlook = outlook_of(loop, outlooks, successor_of(flow, branch, i));
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

/* ---- memory ---- */

gs_code gs_ptx_loop_init(gs_ptx_loop *loop, const gs_ptx_kernel *kernel, gs_error *error) {
    size_t registers = kernel->module->functions.data[kernel->function].register_count + 1;
    size_t statements = kernel->module->functions.data[kernel->function].statement_count + 1;
    size_t blocks = kernel->flow.blocks.count + 1;
    *loop = (gs_ptx_loop){.kernel = kernel,
                          .within = calloc(blocks, sizeof(bool)),
                          .wanted = calloc(registers, sizeof(bool)),
                          .states = calloc(registers, 1),
                          .control = calloc(blocks, 1),
                          .changes = calloc(statements, 1),
                          .decision_first = calloc(blocks, sizeof(uint32_t)),
                          .outlooks = calloc(blocks, 1),
                          .marked = calloc(registers, sizeof(bool)),
                          .reached = calloc(blocks, sizeof(bool))};
    bool has_all = loop->within && loop->wanted && loop->states && loop->control && loop->changes &&
                   loop->decision_first && loop->outlooks && loop->marked && loop->reached;
    return has_all ? GS_OK : gs_fail_memory(error);
}

void gs_ptx_loop_free(gs_ptx_loop *loop) {
    free(loop->within);
    free(loop->wanted);
    free(loop->states);
    free(loop->control);
    free(loop->changes);
    free(loop->decisions.data);
    free(loop->decision_first);
    free(loop->outlooks);
    free(loop->marked);
    free(loop->reached);
}

static bool operand_touches(const gs_ptx_module *module, const gs_ptx_operand *operand, uint8_t access,
                            const bool *registers) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & access && registers[operand->value])
        return true;
    for (uint32_t i = 0; i < operand->count; i++)
        if (operand_touches(module, &module->operands.data[operand->children + i], access, registers))
            return true;
    return false;
}

bool gs_ptx_touches(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, uint8_t access,
                    const bool *registers) {
    const gs_ptx_module *module = kernel->module;
    for (uint32_t i = 0; statement->kind == GS_PTX_INSTRUCTION && i < statement->count; i++)
        if (operand_touches(module, &module->operands.data[statement->operands + i], access, registers))
            return true;
    return false;
}
