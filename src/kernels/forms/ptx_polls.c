/*
 * ptx_polls.c: loops in which a lane may wait for another lane of its warp. See ptx_facts.h.
 *
 * Lanes of a warp run independently of each other: one may read a word of shared memory until another one writes it.
 * That forbids the votes of ptx_lanes.c behind such a loop: lanes that have left it would wait for those still in it,
 * which wait for a write behind the vote.
 *
 * A loop polls if it cannot end by itself: each of its ends depends on memory that it reads again and again, and not on
 * a register that changes with each iteration. Memory is read again by a strong load, by an atomic operation, by a load
 * whose address the loop does not change, and by a function that the loop calls. An addition of a number other than 0
 * changes the memory itself, and an update by CAS that expects what the loop has seen succeeds without others.
 *
 * A function that is called may have such a loop in itself.
 */
#include "ptx_facts.h"

#include <stdlib.h>

/* A strongly connected part of the flow. */
struct polls {
    const gs_ptx_kernel *kernel;
    bool *after, *before, *within; /* blocks that are reached from one of its blocks, that reach it, and both */
    bool *seen;                    /* blocks that belong to a part that was examined */
    bool *written, *wanted;        /* registers that it writes, and on which an end depends */
    bool *expected;                /* and from which the value is computed that a CAS expects */
    bool calls;                    /* it calls functions */
};

static const gs_ptx_block *block_at(const struct polls *polls, uint32_t number) {
    return &polls->kernel->flow.blocks.data[number];
}

static bool leads_to(const struct polls *polls, uint32_t block, const bool *targets) {
    const gs_ptx_flow *flow = &polls->kernel->flow;
    const gs_ptx_block *found = block_at(polls, block);
    bool leads = false;
    for (int i = 0; i < 2; i++)
        leads = leads || (found->successors[i] < flow->blocks.count && targets[found->successors[i]]);
    for (uint32_t i = 0; i < found->target_count; i++)
        leads = leads || (flow->targets.data[found->targets + i] < flow->blocks.count &&
                          targets[flow->targets.data[found->targets + i]]);
    return leads;
}

/* Calls `visit` for each instruction within the part. */
static bool any_statement(struct polls *polls, bool (*visit)(struct polls *, const gs_ptx_statement *)) {
    bool any = false;
    for (uint32_t b = 0; b < polls->kernel->flow.blocks.count; b++)
        for (uint32_t i = block_at(polls, b)->first; polls->within[b] && i <= block_at(polls, b)->last; i++) {
            const gs_ptx_statement *statement = &polls->kernel->module->statements.data[i];
            if (statement->kind == GS_PTX_INSTRUCTION && visit(polls, statement))
                any = true;
        }
    return any;
}

/* Sets registers[r] for those that an operand reads or writes. True: one is new. */
static bool note_registers(const gs_ptx_module *module, const gs_ptx_operand *operand, uint8_t access,
                           bool *registers) {
    bool is_new = operand->kind == GS_PTX_REGISTER && operand->access & access && !registers[operand->value];
    if (is_new)
        registers[operand->value] = true;
    for (uint32_t i = 0; i < operand->count; i++)
        is_new |= note_registers(module, &module->operands.data[operand->children + i], access, registers);
    return is_new;
}

static bool has_register(const gs_ptx_module *module, const gs_ptx_operand *operand, uint8_t access,
                         const bool *registers) {
    if (operand->kind == GS_PTX_REGISTER && operand->access & access && registers[operand->value])
        return true;
    for (uint32_t i = 0; i < operand->count; i++)
        if (has_register(module, &module->operands.data[operand->children + i], access, registers))
            return true;
    return false;
}

static bool touches(const struct polls *polls, const gs_ptx_statement *statement, uint8_t access,
                    const bool *registers) {
    const gs_ptx_module *module = polls->kernel->module;
    for (uint32_t i = 0; i < statement->count; i++)
        if (has_register(module, &module->operands.data[statement->operands + i], access, registers))
            return true;
    return false;
}

static bool note_written(struct polls *polls, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = polls->kernel->module;
    polls->calls = polls->calls || statement->opcode == GS_PTX_CALL;
    for (uint32_t i = 0; i < statement->count; i++)
        note_registers(module, &module->operands.data[statement->operands + i], GS_PTX_WRITE, polls->written);
    return false;
}

/* ---- what an end depends on ---- */

static bool is_load(const gs_ptx_statement *statement) {
    return gs_ptx_row(statement)->reads != 0;
}

/* Adds to `registers` what those in it are computed from, up to loads. True: one is new. */
static bool add_sources(const struct polls *polls, const gs_ptx_statement *statement, bool *registers) {
    const gs_ptx_module *module = polls->kernel->module;
    bool is_new = false;
    if (is_load(statement) || !touches(polls, statement, GS_PTX_WRITE, registers))
        return false;
    for (uint32_t i = 0; i < statement->count; i++)
        is_new |= note_registers(module, &module->operands.data[statement->operands + i], GS_PTX_READ, registers);
    return is_new;
}

static bool want_sources(struct polls *polls, const gs_ptx_statement *statement) {
    return add_sources(polls, statement, polls->wanted);
}

static bool want_expected(struct polls *polls, const gs_ptx_statement *statement) {
    return add_sources(polls, statement, polls->expected);
}

static bool loads_expected(struct polls *polls, const gs_ptx_statement *statement) {
    return is_load(statement) && touches(polls, statement, GS_PTX_WRITE, polls->expected);
}

/* Whether a CAS expects what the part has seen in memory. */
static bool expects_seen(struct polls *polls, const gs_ptx_operand *expected) {
    uint32_t registers = polls->kernel->module->functions.data[polls->kernel->function].register_count;
    memset(polls->expected, 0, registers + 1);
    note_registers(polls->kernel->module, expected, GS_PTX_READ, polls->expected);
    while (any_statement(polls, want_expected))
        ;
    return any_statement(polls, loads_expected);
}

/* Whether a wanted register comes from memory that is read again. */
static bool polls_memory(struct polls *polls, const gs_ptx_statement *statement) {
    const gs_ptx_module *module = polls->kernel->module;
    uint8_t reads = gs_ptx_reads(module, statement);
    uint32_t at = gs_ptx_address_read(module, statement);
    if (!touches(polls, statement, GS_PTX_WRITE, polls->wanted))
        return false;
    if (polls->calls && reads & GS_PTX_IN_PARAM)
        return true; /* what a function has returned */
    if (!(reads & (GS_PTX_IN_SHARED | GS_PTX_IN_GLOBAL)) || gs_ptx_reads_constants(module, statement))
        return false;
    const gs_ptx_operand *operands = module->operands.data + statement->operands;
    switch (gs_ptx_atomic_kind(module, statement)) {
    case GS_PTX_ATOMIC_ADD:
    case GS_PTX_ATOMIC_INC:
    case GS_PTX_ATOMIC_DEC:
        return !gs_ptx_sign_added(polls->kernel, statement);
    case GS_PTX_ATOMIC_CAS:
        return statement->count < 3 || !expects_seen(polls, &operands[2]);
    default:
        return gs_ptx_is_strong(module, statement) || at == GS_PTX_NONE ||
               !has_register(module, &operands[at], GS_PTX_READ, polls->written);
    }
}

/* Removes a register from `wanted` if nothing that the part computes for it depends on a wanted one: what is left in
   the end depends on itself. */
static bool has_wanted_source(const struct polls *polls, uint32_t number) {
    const gs_ptx_kernel *kernel = polls->kernel;
    for (uint32_t i = kernel->writer_first[number]; i < kernel->writer_first[number + 1]; i++) {
        const gs_ptx_statement *writer = &kernel->module->statements.data[kernel->writers[i]];
        if (polls->within[gs_ptx_flow_block(&kernel->flow, kernel->writers[i])] && !is_load(writer) &&
            touches(polls, writer, GS_PTX_READ, polls->wanted))
            return true;
    }
    return false;
}

static bool changes_with_iterations(struct polls *polls) {
    uint32_t registers = polls->kernel->module->functions.data[polls->kernel->function].register_count;
    bool is_left = false;
    for (bool is_changed = true; is_changed;) {
        is_changed = is_left = false;
        for (uint32_t r = 0; r < registers; r++) {
            if (!polls->wanted[r])
                continue;
            polls->wanted[r] = has_wanted_source(polls, r);
            is_changed = is_changed || !polls->wanted[r];
            is_left = is_left || polls->wanted[r];
        }
    }
    return is_left;
}

/* Whether the end of a block, which leaves the part, depends on memory alone. */
static bool waits_at(struct polls *polls, uint32_t block) {
    const gs_ptx_statement *last = &polls->kernel->module->statements.data[block_at(polls, block)->last];
    memset(polls->wanted, 0, polls->kernel->module->functions.data[polls->kernel->function].register_count + 1);
    if (last->guard == GS_PTX_NONE)
        return true; /* a table of branches */
    polls->wanted[last->guard] = true;
    while (any_statement(polls, want_sources))
        ;
    return any_statement(polls, polls_memory) && !changes_with_iterations(polls);
}

/* ---- parts ---- */

static bool leaves(const struct polls *polls, uint32_t block) {
    const gs_ptx_flow *flow = &polls->kernel->flow;
    const gs_ptx_block *found = block_at(polls, block);
    bool leaves = false;
    for (int i = 0; i < 2; i++)
        leaves = leaves || (found->successors[i] != GS_PTX_NONE &&
                            (found->successors[i] >= flow->blocks.count || !polls->within[found->successors[i]]));
    for (uint32_t i = 0; i < found->target_count; i++)
        leaves = leaves || !polls->within[flow->targets.data[found->targets + i]];
    return leaves;
}

/* Finds the part of a block. False: it is in no loop. */
static bool find_part(struct polls *polls, uint32_t block) {
    const gs_ptx_flow *flow = &polls->kernel->flow;
    memset(polls->after, 0, flow->blocks.count + 1);
    memset(polls->before, 0, flow->blocks.count + 1);
    if (!gs_ptx_flow_reach(flow, block, polls->after) || !polls->after[block])
        return false;
    polls->before[block] = true;
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (uint32_t b = (uint32_t)flow->blocks.count; b-- > 0;)
            if (!polls->before[b] && polls->after[b] && leads_to(polls, b, polls->before))
                polls->before[b] = is_new = true;
    }
    for (uint32_t b = 0; b < flow->blocks.count; b++) {
        polls->within[b] = polls->after[b] && polls->before[b];
        polls->seen[b] = polls->seen[b] || polls->within[b];
    }
    return true;
}

static bool part_polls(struct polls *polls) {
    uint32_t ends = 0;
    memset(polls->written, 0, polls->kernel->module->functions.data[polls->kernel->function].register_count + 1);
    polls->calls = false;
    any_statement(polls, note_written);
    for (uint32_t b = 0; b < polls->kernel->flow.blocks.count; b++) {
        if (!polls->within[b] || !leaves(polls, b))
            continue;
        if (!waits_at(polls, b))
            return false;
        ends++;
    }
    return ends > 0;
}

/* Whether a block reads memory that others may write. */
static bool reads_memory(const struct polls *polls, uint32_t block) {
    const gs_ptx_module *module = polls->kernel->module;
    for (uint32_t i = block_at(polls, block)->first; i <= block_at(polls, block)->last; i++)
        if (gs_ptx_reads(module, &module->statements.data[i]) & (GS_PTX_IN_SHARED | GS_PTX_IN_GLOBAL))
            return true;
    return false;
}

/* ---- functions ---- */

/* Whether a function has a loop that looks at memory as others may change it. What cannot be examined counts, too. */
static bool function_may_wait(const gs_ptx_module *module, uint32_t function) {
    gs_ptx_flow flow = {0};
    bool waits = gs_ptx_flow_make(&flow, module, function, NULL) != GS_OK;
    bool *reached = calloc(flow.blocks.count + 1, sizeof *reached);
    waits = waits || !reached;
    for (uint32_t b = 0; b < flow.blocks.count && !waits; b++)
        for (uint32_t i = flow.blocks.data[b].first; i <= flow.blocks.data[b].last && !waits; i++) {
            const gs_ptx_statement *statement = &module->statements.data[i];
            if (!gs_ptx_is_strong(module, statement) ||
                !(gs_ptx_reads(module, statement) & (GS_PTX_IN_SHARED | GS_PTX_IN_GLOBAL)))
                continue;
            memset(reached, 0, flow.blocks.count + 1);
            waits = !gs_ptx_flow_reach(&flow, b, reached) || reached[b];
        }
    free(reached);
    gs_ptx_flow_free(&flow);
    return waits;
}

static bool functions_may_wait(const gs_ptx_kernel *kernel) {
    for (uint32_t f = 0; f < kernel->module->functions.count; f++)
        if (kernel->is_called[f] && kernel->module->functions.data[f].is_defined &&
            function_may_wait(kernel->module, f))
            return true;
    return false;
}

static bool has_call(const struct polls *polls, uint32_t block) {
    for (uint32_t i = block_at(polls, block)->first; i <= block_at(polls, block)->last; i++)
        if (polls->kernel->module->statements.data[i].opcode == GS_PTX_CALL)
            return true;
    return false;
}

/* Sets behind[b] for each block that has a call, or comes behind one. */
static bool find_calls(struct polls *polls, bool *behind) {
    for (uint32_t b = 0; b < polls->kernel->flow.blocks.count; b++)
        if (!behind[b] && has_call(polls, b)) {
            behind[b] = true;
            if (!gs_ptx_flow_reach(&polls->kernel->flow, b, behind))
                return false;
        }
    return true;
}

bool gs_ptx_find_polls(const gs_ptx_kernel *kernel, bool *behind) {
    size_t blocks = kernel->flow.blocks.count + 1;
    size_t registers = kernel->module->functions.data[kernel->function].register_count + 1;
    bool *memory = calloc(4 * blocks + 3 * registers, sizeof *memory);
    if (!memory)
        return false;
    struct polls polls = {.kernel = kernel,
                          .after = memory,
                          .before = memory + blocks,
                          .within = memory + 2 * blocks,
                          .seen = memory + 3 * blocks,
                          .written = memory + 4 * blocks,
                          .wanted = memory + 4 * blocks + registers,
                          .expected = memory + 4 * blocks + 2 * registers};
    bool is_found = !functions_may_wait(kernel) || find_calls(&polls, behind);
    for (uint32_t b = 0; b + 1 < blocks; b++)
        if (!polls.seen[b] && !behind[b] && reads_memory(&polls, b) && find_part(&polls, b) && part_polls(&polls))
            for (size_t i = 0; i < blocks; i++)
                behind[i] = behind[i] || polls.after[i];
    free(memory);
    return is_found;
}
