/*
 * flow_divergence.c: which branches all threads of a warp take alike, and how many groups of threads of a warp come to
 * a block one after the other.
 *
 * A register or predicate *varies* if threads of a warp that are together may have different values in it. What varies
 * comes from the number of the thread and from memory, and spreads: through instructions that read it, and through
 * branches. Where a branch on a varying predicate has led threads on different ways, what was written on these ways
 * varies where they meet: at the block that all ways go through (the join), and behind BSYNC.
 *
 * Lanes that wait for each other at WARPSYNC may come from different rounds of a loop: what the loop writes varies
 * there.
 *
 * Threads that part are one group again only behind a BSYNC: the groups behind it are those that were at its BSSY.
 * Without one, each way to a join brings groups of its own. Threads that leave a loop in different rounds are as many
 * groups behind it as it has rounds, and 32 at most. That hardware joins threads at BSYNC is assumed; that it joins them
 * elsewhere is not.
 */
#include "flow_parts.h"

#include <stdlib.h>

/* What varies because ways meet. */
typedef struct varying {
    bool registers[GS_NO_REGISTER + 1];
    bool predicates[GS_NO_PREDICATE + 1];
} varying;

struct analysis {
    gs_flow_graph *graph;
    const gs_flow_launch *launch;
    gs_flow_lanes *at; /* of each block: at its begin */
    varying *joined;   /* of each block: what varies there because ways meet */
    int32_t *joins;    /* of each block: the first block that all ways from it go through; GS_NO_BLOCK: none */
    bool *is_marked;   /* for a search */
    bool *is_closed;   /* of each block: threads that part at its end come together at a BSYNC, see find_closed */
    bool *is_whole;    /* of each block: all threads that come to it at all come as one group */
    gs_error *error;
};

static const gs_flow_instruction *last_of(const gs_flow_graph *graph, const gs_flow_block *block) {
    return &graph->code->data[block->end - 1];
}

/* ---- what varies ---- */

static bool varies_in(const gs_flow_lanes *now, unsigned number) {
    return number != GS_NO_REGISTER && !gs_lanes_uniform(now->registers[number]);
}

static bool reads_varying(const gs_flow_lanes *now, const gs_flow_instruction *instruction) {
    enum { DOUBLES = 0x028, DOUBLES_END = 0x02b, WIDE = 0x025, DADD = 0x029, OF_WARP = 8 /* PLOP3 */ };
    unsigned operands = instruction->opcode->operands, number = gs_operation(instruction), form = gs_form(instruction);
    unsigned a = gs_bits(instruction->low, 24, 8), b = gs_bits(instruction->low, 32, 8);
    unsigned c = gs_bits(instruction->high, 0, 8);
    bool is_double = number >= DOUBLES && number <= DOUBLES_END;
    bool varies = operands & GS_READS_A && varies_in(now, a);
    varies = varies || (operands & GS_READS_A && is_double && a < GS_NO_REGISTER && varies_in(now, a + 1));
    if (operands & GS_READS_B && form == 1 && number != DADD)
        varies = varies || varies_in(now, b) || (is_double && b < GS_NO_REGISTER && varies_in(now, b + 1));
    if (operands & GS_READS_C)
        varies = varies || varies_in(now, c) ||
                 ((is_double || number == WIDE) && c < GS_NO_REGISTER && varies_in(now, c + 1));
    varies = varies || (operands & GS_TESTS && now->predicates[gs_bits(instruction->high, 23, 3)]);
    varies = varies || (operands & GS_TESTS_2 && now->predicates[gs_bits(instruction->high, 13, 3)]);
    bool of_warp = number == 0x01c && instruction->high & OF_WARP;
    return varies || (operands & GS_TESTS_3 && !of_warp && now->predicates[gs_bits(instruction->high, 4, 3)]);
}

/* Whether the result varies by itself. Lanes that read one place together get the same; groups that do so one after the
   other may not, and may come together later. */
static bool is_varying(const gs_flow_lanes *now, const gs_flow_instruction *instruction, bool is_whole) {
    enum { CS2R = 0x005, ZERO = 255, BLOCK_X = 0x25, BLOCK_Z = 0x27, BLOCK_IN_CLUSTER = 0x88 };
    unsigned number = gs_operation(instruction), special = gs_bits(instruction->high, 8, 8);
    if (number == GS_OP_S2R)
        return (special < BLOCK_X || special > BLOCK_Z) && special != BLOCK_IN_CLUSTER;
    if (number == CS2R)
        return special != ZERO;
    if (is_whole && gs_lanes_read_one(now, instruction))
        return false;
    return instruction->opcode->operands & GS_IS_VARYING;
}

static void make_varying(gs_flow_lanes *now, const bool *registers, const bool *predicates) {
    for (int i = 0; i < GS_NO_REGISTER; i++)
        if (registers[i])
            now->registers[i] = (gs_lanes){0};
    for (int i = 0; i < GS_NO_PREDICATE; i++)
        if (predicates[i]) {
            now->predicates[i] = true;
            now->carries[i] = (gs_carry){0};
        }
    for (int i = 0; i < GS_NO_REGISTER; i++) /* under a predicate that is another one now */
        if (now->registers[i].guard && predicates[(now->registers[i].guard - 1) & GS_NO_PREDICATE])
            now->registers[i] = (gs_lanes){0};
}

static gs_code pass_instruction(struct analysis *analysis, gs_flow_lanes *now, size_t at, bool is_whole) {
    const gs_flow_code *code = analysis->graph->code;
    const gs_flow_instruction *instruction = &code->data[at];
    unsigned operands = instruction->opcode->operands;
    if (gs_operation(instruction) == GS_OP_CALL) {
        gs_flow_written_set set = {0};
        gs_code result = gs_flow_called(code, gs_flow_target(code, at), &set, 1, analysis->error);
        make_varying(now, set.registers, set.predicates);
        return result;
    }
    if (operands & GS_IS_UNIFORM)
        return GS_OK;
    bool varies = !(operands & GS_IS_SAME && is_whole) &&
                  (is_varying(now, instruction, is_whole) || reads_varying(now, instruction));
    varies = varies || operands & GS_SETS_ALL || (operands & GS_IS_SAME && !is_whole);
    gs_lanes_execute(now, instruction, analysis->launch, at, varies);
    return GS_OK;
}

static bool add_varying(varying *into, const varying *more) {
    bool changes = false;
    for (int i = 0; i < GS_NO_REGISTER; i++)
        if (more->registers[i] && !into->registers[i])
            changes = into->registers[i] = true;
    for (int i = 0; i < GS_NO_PREDICATE; i++)
        if (more->predicates[i] && !into->predicates[i])
            changes = into->predicates[i] = true;
    return changes;
}

/* ---- where ways meet ---- */

/* Marks blocks that can be reached from behind `from` without going through `stop`, or beyond a BSYNC of `barrier`. */
static void mark_between(struct analysis *analysis, int32_t from, int32_t stop, int barrier) {
    const gs_flow_graph *graph = analysis->graph;
    size_t count = graph->blocks.count;
    memset(analysis->is_marked, 0, count * sizeof *analysis->is_marked);
    for (bool changes = true, is_first = true; changes; is_first = false) {
        changes = false;
        for (size_t i = 0; i < count; i++) {
            int32_t at = graph->order[i];
            const gs_flow_block *block = &graph->blocks.data[at];
            const gs_flow_instruction *last = last_of(graph, block);
            bool ends = gs_operation(last) == GS_OP_BSYNC && (int)gs_bits(last->low, 16, 4) == barrier;
            if (!(is_first && at == from) && (!analysis->is_marked[at] || ends))
                continue;
            for (int side = 0; side < 2; side++) {
                int32_t next = block->next[side];
                if (next != GS_NO_BLOCK && next != stop && !analysis->is_marked[next] &&
                    graph->blocks.data[next].is_reached)
                    changes = analysis->is_marked[next] = true;
            }
        }
    }
}

static gs_code add_written_between(struct analysis *analysis, varying *into, bool *changes) {
    const gs_flow_graph *graph = analysis->graph;
    gs_flow_written_set set = {0};
    gs_code result = GS_OK;
    for (size_t i = 0; i < graph->blocks.count; i++)
        for (size_t at = graph->blocks.data[i].first; analysis->is_marked[i] && at < graph->blocks.data[i].end; at++) {
            const gs_flow_instruction *instruction = &graph->code->data[at];
            gs_flow_add_written(&set, instruction);
            if (gs_operation(instruction) == GS_OP_CALL && result == GS_OK)
                result = gs_flow_called(graph->code, gs_flow_target(graph->code, at), &set, 1, analysis->error);
        }
    varying more;
    memcpy(more.registers, set.registers, sizeof more.registers);
    memcpy(more.predicates, set.predicates, sizeof more.predicates);
    *changes = add_varying(into, &more) || *changes;
    return result;
}

/* For each block the first block that all ways from it go through, by sets of such blocks, the smallest last. */
static bool find_joins(struct analysis *analysis) {
    const gs_flow_graph *graph = analysis->graph;
    size_t count = graph->blocks.count, words = count / 64 + 1;
    uint64_t *sets = malloc(count * words * sizeof *sets);
    int32_t *sizes = calloc(count + 1, sizeof *sizes);
    if (!sets || !sizes) {
        free(sets);
        free(sizes);
        return false;
    }
    memset(sets, 255, count * words * sizeof *sets);
    for (bool changes = true; changes;) {
        changes = false;
        for (size_t i = count; i-- > 0;) {
            int32_t at = graph->order[i];
            const gs_flow_block *block = &graph->blocks.data[at];
            for (size_t word = 0; word < words; word++) {
                uint64_t common = ~(uint64_t)0;
                for (int side = 0; side < 2; side++)
                    if (block->next[side] != GS_NO_BLOCK)
                        common &= sets[(size_t)block->next[side] * words + word];
                if (block->next[0] == GS_NO_BLOCK && block->next[1] == GS_NO_BLOCK)
                    common = 0;
                if ((size_t)at / 64 == word)
                    common |= (uint64_t)1 << at % 64;
                changes = changes || common != sets[(size_t)at * words + word];
                sets[(size_t)at * words + word] = common;
            }
        }
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            sizes[i] += (int32_t)(sets[i * words + j / 64] >> j % 64 & 1);
    for (size_t i = 0; i < count; i++) {
        analysis->joins[i] = GS_NO_BLOCK;
        for (size_t j = 0; j < count; j++)
            if (j != i && sets[i * words + j / 64] >> j % 64 & 1 &&
                (analysis->joins[i] == GS_NO_BLOCK || sizes[j] > sizes[analysis->joins[i]]))
                analysis->joins[i] = (int32_t)j;
    }
    free(sets);
    free(sizes);
    return true;
}

/* What varies behind each BSYNC: what was written since its BSSY, if threads have parted there. */
static gs_code join_at_barriers(struct analysis *analysis, int32_t from, int barrier, bool *changes) {
    gs_flow_graph *graph = analysis->graph;
    bool parts = !graph->blocks.data[from].is_uniform;
    gs_code result = GS_OK;
    mark_between(analysis, from, GS_NO_BLOCK, barrier);
    for (size_t i = 0; i < graph->blocks.count; i++)
        parts = parts || (analysis->is_marked[i] && !graph->blocks.data[i].is_uniform);
    for (size_t i = 0; i < graph->blocks.count && parts && result == GS_OK; i++) {
        const gs_flow_instruction *last = last_of(graph, &graph->blocks.data[i]);
        int32_t next = graph->blocks.data[i].next[0];
        if (analysis->is_marked[i] && gs_operation(last) == GS_OP_BSYNC && next != GS_NO_BLOCK &&
            (int)gs_bits(last->low, 16, 4) == barrier)
            result = add_written_between(analysis, &analysis->joined[next], changes);
    }
    return result;
}

static bool has_operation(const gs_flow_code *code, size_t first, size_t end, unsigned operation) {
    bool is_found = false;
    for (size_t at = first; at < end; at++)
        is_found = is_found || gs_operation(&code->data[at]) == operation;
    return is_found;
}

/* Whether lanes may wait for each other in a block, or in a function that it calls. */
static bool may_meet(const gs_flow_graph *graph, const gs_flow_block *block) {
    const gs_flow_code *code = graph->code;
    return has_operation(code, block->first, block->end, GS_OP_WARPSYNC) ||
           (has_operation(code, block->first, block->end, GS_OP_CALL) &&
            has_operation(code, 0, code->count, GS_OP_WARPSYNC));
}

/* Lanes that wait for each other may be in different rounds of the loops around, if they part in them: all that is
   written there varies. */
static gs_code join_at_meeting(struct analysis *analysis, size_t number, bool *changes) {
    const gs_flow_graph *graph = analysis->graph;
    int32_t outermost = graph->blocks.data[number].loop;
    bool parts = false;
    while (outermost && graph->loops.data[outermost].parent)
        outermost = graph->loops.data[outermost].parent;
    for (size_t i = 0; i < graph->blocks.count; i++) {
        analysis->is_marked[i] = outermost && gs_flow_in_loop(graph, (int32_t)i, outermost);
        parts = parts || (analysis->is_marked[i] && !graph->blocks.data[i].is_uniform);
    }
    return parts ? add_written_between(analysis, &analysis->joined[number], changes) : GS_OK;
}

static gs_code join_ways(struct analysis *analysis, bool *changes) {
    gs_flow_graph *graph = analysis->graph;
    gs_code result = GS_OK;
    for (size_t i = 0; i < graph->blocks.count && result == GS_OK; i++) {
        const gs_flow_block *block = &graph->blocks.data[i];
        if (!block->is_uniform && analysis->joins[i] != GS_NO_BLOCK) {
            mark_between(analysis, (int32_t)i, analysis->joins[i], -1);
            result = add_written_between(analysis, &analysis->joined[analysis->joins[i]], changes);
        }
        if (result == GS_OK && may_meet(graph, block))
            result = join_at_meeting(analysis, i, changes);
        for (size_t at = block->first; at < block->end && result == GS_OK; at++)
            if (gs_operation(&graph->code->data[at]) == GS_OP_BSSY)
                result =
                    join_at_barriers(analysis, (int32_t)i, (int)gs_bits(graph->code->data[at].low, 16, 4), changes);
    }
    return result;
}

static gs_code pass_block(struct analysis *analysis, int32_t number, bool *changes) {
    gs_flow_graph *graph = analysis->graph;
    gs_flow_block *block = &graph->blocks.data[number];
    const gs_flow_instruction *last = last_of(graph, block);
    gs_flow_lanes now = analysis->at[number];
    gs_code result = GS_OK;
    if (!now.is_reached || !block->is_reached)
        return GS_OK;
    make_varying(&now, analysis->joined[number].registers, analysis->joined[number].predicates);
    for (size_t at = block->first; at < block->end && result == GS_OK; at++)
        result = pass_instruction(analysis, &now, at, analysis->is_whole[number]);
    bool of_warp = gs_operation(last) != GS_OP_BRA || gs_bits(last->low, 32, 2);
    bool is_branch = block->next[0] != GS_NO_BLOCK && graph->blocks.data[block->next[0]].is_reached &&
                     block->next[1] != GS_NO_BLOCK && graph->blocks.data[block->next[1]].is_reached;
    bool varies = is_branch && !of_warp &&
                  (now.predicates[gs_guard_predicate(last)] || now.predicates[gs_bits(last->high, 23, 3)]);
    *changes = *changes || (varies && block->is_uniform);
    block->is_uniform = block->is_uniform && !varies;
    for (int side = 0; side < 2; side++)
        if (block->next[side] != GS_NO_BLOCK)
            *changes = gs_lanes_join(&analysis->at[block->next[side]], &now, block->next[side]) || *changes;
    return result;
}

static gs_code find_uniform(struct analysis *analysis) {
    gs_flow_graph *graph = analysis->graph;
    gs_code result = GS_OK;
    for (size_t i = 0; i < graph->blocks.count; i++)
        graph->blocks.data[i].is_uniform = true;
    for (bool changes = true; changes && result == GS_OK;) {
        changes = false;
        for (size_t i = 0; i < graph->blocks.count && result == GS_OK; i++)
            result = pass_block(analysis, graph->order[i], &changes);
        if (result == GS_OK && !changes)
            result = join_ways(analysis, &changes);
    }
    return result;
}

/* The transactions of each instruction. */
static gs_code find_transactions(struct analysis *analysis) {
    gs_flow_graph *graph = analysis->graph;
    gs_code result = GS_OK;
    for (size_t i = 0; i < graph->blocks.count; i++) {
        gs_flow_lanes now = analysis->at[i];
        make_varying(&now, analysis->joined[i].registers, analysis->joined[i].predicates);
        for (size_t at = graph->blocks.data[i].first; at < graph->blocks.data[i].end && result == GS_OK; at++) {
            gs_flow_instruction *instruction = &graph->code->data[at];
            instruction->transactions = (uint8_t)gs_lanes_transactions(&now, instruction);
            result = pass_instruction(analysis, &now, at, analysis->is_whole[i]);
        }
    }
    return result;
}

/* At the begin of a kernel all registers are the same; of what a function gets nothing is known. */
static void begin_lanes(gs_flow_lanes *lanes, bool is_called) {
    lanes->is_reached = true;
    for (int i = 0; i < GS_NO_REGISTER; i++)
        lanes->registers[i] = is_called ? (gs_lanes){0} : gs_lanes_step(0, GS_MOST_GROUPS);
    for (int i = 0; i < GS_NO_PREDICATE; i++)
        lanes->predicates[i] = is_called;
}

/* ---- groups ---- */

enum { BARRIERS = 16 };

typedef struct grouping {
    int saved[BARRIERS]; /* the groups at the last BSSY of each barrier */
    int after;           /* at the end of the block */
    bool is_full;        /* a header to which more groups come back than came in */
} grouping;

static int limit_groups(int groups) {
    return groups < GS_MOST_GROUPS ? groups : GS_MOST_GROUPS;
}

/* The groups on the way from `from` to `to`. A branch on which threads leave loops in different rounds makes a group in
   each execution, at most. */
static int groups_on(const gs_flow_graph *graph, const grouping *all, int32_t from, int32_t to) {
    const gs_flow_block *block = &graph->blocks.data[from];
    int64_t groups = all[from].after;
    for (int32_t loop = block->loop; loop && !block->is_uniform && !gs_flow_in_loop(graph, to, loop);
         loop = graph->loops.data[loop].parent) {
        int64_t times = graph->loops.data[loop].times;
        groups = times < 0 || times > GS_MOST_GROUPS ? GS_MOST_GROUPS : limit_groups((int)(groups * times));
    }
    return (int)groups;
}

static bool is_at_barrier(const gs_flow_instruction *instruction, unsigned operation, int barrier) {
    return gs_operation(instruction) == operation && (int)gs_bits(instruction->low, 16, 4) == barrier;
}

/* Whether an instruction may change which threads wait at a barrier: it sets it, takes threads out of it, or writes all
   of it. */
static bool may_change(const gs_flow_instruction *instruction, int barrier) {
    enum { BMOV = 0x155, BMOV_BACK = 0x156 };
    unsigned operation = gs_operation(instruction);
    return operation == BMOV || operation == BMOV_BACK || is_at_barrier(instruction, GS_OP_BREAK, barrier) ||
           is_at_barrier(instruction, GS_OP_BSSY, barrier);
}

/* A bit for each barrier that a called function may change: the code that is not of this function. */
static uint32_t barriers_of_calls(const gs_flow_graph *graph) {
    uint32_t changed = 0;
    for (size_t at = 0; at < graph->code->count; at++) {
        bool is_own = false;
        for (size_t i = 0; i < graph->blocks.count && !is_own; i++)
            is_own = at >= graph->blocks.data[i].first && at < graph->blocks.data[i].end;
        for (int barrier = 0; barrier < BARRIERS && !is_own; barrier++)
            changed |= (uint32_t)may_change(&graph->code->data[at], barrier) << barrier;
    }
    return changed;
}

/* Whether a barrier that a block sets at `from_at` is as it was set on all ways to the block's join. */
static bool keeps_barrier(struct analysis *analysis, int32_t from, size_t from_at, int barrier, uint32_t of_calls) {
    const gs_flow_graph *graph = analysis->graph;
    bool keeps = true;
    mark_between(analysis, from, analysis->joins[from], -1);
    for (size_t i = 0; i < graph->blocks.count; i++) {
        const gs_flow_block *block = &graph->blocks.data[i];
        bool is_begin = (int32_t)i == from && !analysis->is_marked[i];
        for (size_t at = is_begin ? from_at + 1 : block->first;
             (analysis->is_marked[i] || is_begin || (int32_t)i == analysis->joins[from]) && at < block->end; at++)
            keeps = keeps && !may_change(&graph->code->data[at], barrier) &&
                    !(gs_operation(&graph->code->data[at]) == GS_OP_CALL && of_calls >> barrier & 1);
    }
    return keeps;
}

/* Blocks that set a barrier before their branch, of which all ways go through a block that ends with the BSYNC of that
   barrier, which nothing changes before: each group of threads that parts there is one again behind that. */
static void find_closed(struct analysis *analysis) {
    const gs_flow_graph *graph = analysis->graph;
    uint32_t of_calls = barriers_of_calls(graph);
    for (size_t i = 0; i < graph->blocks.count; i++) {
        const gs_flow_block *block = &graph->blocks.data[i];
        int barrier = -1;
        size_t set_at = 0;
        for (size_t at = block->first; at < block->end; at++)
            if (gs_operation(&graph->code->data[at]) == GS_OP_BSSY) {
                barrier = gs_is_always(&graph->code->data[at]) ? (int)gs_bits(graph->code->data[at].low, 16, 4) : -1;
                set_at = at;
            }
        int32_t join = analysis->joins[i];
        const gs_flow_instruction *last = join == GS_NO_BLOCK ? NULL : last_of(graph, &graph->blocks.data[join]);
        analysis->is_closed[i] = barrier >= 0 && last && graph->blocks.data[join].rank > block->rank &&
                                 is_at_barrier(last, GS_OP_BSYNC, barrier) && gs_is_always(last) &&
                                 keeps_barrier(analysis, (int32_t)i, set_at, barrier, of_calls);
    }
}

/* Whether threads of a group that part at the end of a block are one group again before `number`. */
static bool joins_before(const struct analysis *analysis, size_t block, int32_t number) {
    const gs_flow_graph *graph = analysis->graph;
    return analysis->is_closed[block] && analysis->joins[block] != number &&
           graph->blocks.data[analysis->joins[block]].rank < graph->blocks.data[number].rank;
}

/* Whether a group of threads at the end of a block's dominator comes to the block as one: all branches between, on ways
   of rising rank, are uniform, or their threads come together before. */
static bool ways_are_uniform(struct analysis *analysis, int32_t number) {
    const gs_flow_graph *graph = analysis->graph;
    int32_t dominator = graph->blocks.data[number].dominator;
    mark_between(analysis, dominator, number, -1);
    bool is_uniform = graph->blocks.data[dominator].is_uniform;
    for (size_t i = 0; i < graph->blocks.count; i++)
        if (analysis->is_marked[i] && graph->blocks.data[i].rank < graph->blocks.data[number].rank)
            is_uniform = is_uniform && (graph->blocks.data[i].is_uniform || joins_before(analysis, i, number));
    return is_uniform;
}

/* The groups that come to a block: forward, or back to a header. */
static int incoming_groups(const struct analysis *analysis, grouping *all, int32_t number, bool is_back, int *ways) {
    const gs_flow_graph *graph = analysis->graph;
    int sum = 0;
    for (size_t i = 0; i < graph->blocks.count; i++)
        for (int side = 0; side < 2; side++) {
            const gs_flow_block *from = &graph->blocks.data[i];
            if (from->next[side] != number || is_back != (from->rank >= graph->blocks.data[number].rank) ||
                !from->is_reached)
                continue;
            sum = limit_groups(sum + groups_on(graph, all, (int32_t)i, number));
            for (int barrier = 0; barrier < BARRIERS; barrier++)
                if (all[i].saved[barrier] > all[number].saved[barrier])
                    all[number].saved[barrier] = all[i].saved[barrier];
            ++*ways;
        }
    return sum;
}

static void group_block(struct analysis *analysis, grouping *all, int32_t number) {
    gs_flow_graph *graph = analysis->graph;
    gs_flow_block *block = &graph->blocks.data[number];
    int ways = 0;
    int sum = incoming_groups(analysis, all, number, false, &ways);
    if (ways > 1 && sum > all[block->dominator].after && ways_are_uniform(analysis, number))
        sum = all[block->dominator].after;
    block->groups = !ways ? 1 : all[number].is_full ? GS_MOST_GROUPS : sum;
    all[number].after = block->groups;
    for (size_t at = block->first; at < block->end; at++) {
        const gs_flow_instruction *instruction = &graph->code->data[at];
        int barrier = (int)gs_bits(instruction->low, 16, 4);
        if (gs_operation(instruction) == GS_OP_BSSY)
            all[number].saved[barrier] = block->groups;
        if (gs_operation(instruction) == GS_OP_BSYNC && all[number].saved[barrier])
            all[number].after = all[number].saved[barrier];
    }
}

/* Whether more groups come back to a header than came in; a loop whose branches are all uniform keeps its groups. */
static bool header_fills(struct analysis *analysis, grouping *all, int32_t number) {
    const gs_flow_graph *graph = analysis->graph;
    int ways = 0;
    bool is_uniform = true;
    int back = incoming_groups(analysis, all, number, true, &ways);
    for (size_t i = 0; i < graph->blocks.count; i++)
        if (graph->loops.data[graph->blocks.data[number].loop].header == number &&
            gs_flow_in_loop(graph, (int32_t)i, graph->blocks.data[number].loop))
            is_uniform = is_uniform && graph->blocks.data[i].is_uniform;
    return ways && back > graph->blocks.data[number].groups && !is_uniform;
}

static bool find_groups(struct analysis *analysis) {
    gs_flow_graph *graph = analysis->graph;
    grouping *all = calloc(graph->blocks.count + 1, sizeof *all);
    find_closed(analysis);
    for (bool changes = true; changes && all;) {
        changes = false;
        for (size_t i = 0; i < graph->blocks.count; i++)
            group_block(analysis, all, graph->order[i]);
        for (size_t i = 0; i < graph->blocks.count; i++)
            if (!all[i].is_full && header_fills(analysis, all, (int32_t)i))
                changes = all[i].is_full = true;
    }
    bool is_stored = all != NULL;
    free(all);
    return is_stored;
}

/* Finds which branches are uniform, and the groups. `*changes`: more blocks than before have one group at most. A
   function may be called by several groups. */
static gs_code find_round(struct analysis *analysis, bool *changes) {
    gs_flow_graph *graph = analysis->graph;
    size_t count = graph->blocks.count;
    memset(analysis->at, 0, (count + 1) * sizeof *analysis->at);
    memset(analysis->joined, 0, (count + 1) * sizeof *analysis->joined);
    begin_lanes(&analysis->at[graph->order[0]], graph->is_called);
    gs_code result = find_uniform(analysis);
    if (result == GS_OK && !find_groups(analysis))
        result = gs_fail_memory(analysis->error);
    *changes = false;
    for (size_t i = 0; i < count && !graph->is_called; i++)
        if (graph->blocks.data[i].groups == 1 && !analysis->is_whole[i])
            *changes = analysis->is_whole[i] = true;
    return result;
}

gs_code gs_flow_find_divergence(gs_flow_graph *graph, const gs_flow_launch *launch, gs_error *error) {
    size_t count = graph->blocks.count;
    struct analysis analysis = {.graph = graph,
                                .launch = launch,
                                .at = calloc(count + 1, sizeof *analysis.at),
                                .joined = calloc(count + 1, sizeof *analysis.joined),
                                .joins = calloc(count + 1, sizeof *analysis.joins),
                                .is_marked = calloc(count + 1, sizeof *analysis.is_marked),
                                .is_closed = calloc(count + 1, sizeof *analysis.is_closed),
                                .is_whole = calloc(count + 1, sizeof *analysis.is_whole),
                                .error = error};
    bool is_stored = analysis.at && analysis.joined && analysis.joins && analysis.is_marked && analysis.is_closed &&
                     analysis.is_whole && find_joins(&analysis);
    gs_code result = is_stored ? GS_OK : gs_fail_memory(error);
    for (bool changes = true; changes && result == GS_OK;)
        result = find_round(&analysis, &changes);
    if (result == GS_OK)
        result = find_transactions(&analysis);
    free(analysis.at);
    free(analysis.joined);
    free(analysis.joins);
    free(analysis.is_marked);
    free(analysis.is_closed);
    free(analysis.is_whole);
    return result;
}
