/*
 * ptx_lanes.c: masks for operations of warps that not all lanes reach.
 *
 * `shfl.sync` and similar operations wait for all lanes of their mask that have not exited. In the original, lanes that
 * have left the body have exited. In a reshaped kernel they wait for the next block, and the others would wait for them
 * forever. So the mask of such an operation is reduced to the lanes that reach it.
 *
 * The branches determine these lanes. Blocks that depend on the same branches form a region; all lanes that run one of
 * its blocks run all of them. At a branch that decides about a region, all lanes that reach the branch vote on which
 * of them go there, and the result is kept in a register of the region, %gs_m0, %gs_m1 and so on. A loop has two such
 * branches: one before it, and one at its end, where the lanes of the next iteration vote. Regions with more branches
 * are refused: lanes from several of them could meet.
 *
 * A region may also be reached past these branches: by a branch that decides for whole warps, or from the beginning of
 * the kernel. Then all lanes come, because none that left before may come back. So each mask has all lanes when the
 * body begins (gs_block_loop.masks), and it only shrinks.
 *
 * A mask that `activemask` returned in the same region has only lanes that reach the operation, and stays unchanged.
 * So does any mask if no lane can have left by then: behind the operation, all lanes of the warp wait for each other.
 *
 * Lanes wait for each other at a vote, which they do not do at the branch of the original. So it is refused if a lane
 * may wait for another one before it: in a loop (ptx_polls.c), or at a barrier that only some of the lanes that vote
 * have come to.
 *
 * Lanes that do not reach the operation must not reach it later, in another iteration of an outer loop: the original
 * would let them take part then. Nor may they reach the same operation with the same mask at another place, because
 * lanes meet there wherever they execute it. Such kernels are refused, too.
 */
#include "ptx_linear.h"

#include <stdlib.h>

enum { MOST_REGIONS = 64, FULL = -1 /* the region of blocks that whole warps run */ };

struct region {
    uint32_t block;        /* one of its blocks */
    int entered, repeated; /* dependences: the branch before it, the branch at the end of a loop; -1: none */
};

struct lanes {
    const gs_ptx_kernel *kernel;
    gs_edits *edits; /* or NULL */
    gs_error *error;
    const gs_ptx_statement *step; /* the operation that needs a mask */
    bool *reached;                /* for searches */
    struct region regions[MOST_REGIONS];
    int count;
};

static gs_code refuse_step(const struct lanes *lanes, const char *reason) {
    return gs_ptx_refuse(lanes->kernel, lanes->step, lanes->error, "%s", reason);
}

/* ---- questions about the flow ---- */

static bool dependence_counts(const struct lanes *lanes, const gs_ptx_dependence *dependence) {
    const gs_ptx_uniform *uniform = &lanes->kernel->uniform;
    return uniform->decides[dependence->branch] == GS_PTX_SAME_THREAD ||
           uniform->runs[dependence->branch] == GS_PTX_SAME_THREAD;
}

static const gs_ptx_dependence *dependence_at(const struct lanes *lanes, int number) {
    return &lanes->kernel->flow.dependences.data[number];
}

static bool is_reached(struct lanes *lanes, uint32_t from, uint32_t to) {
    memset(lanes->reached, 0, lanes->kernel->flow.blocks.count + 1);
    return !gs_ptx_flow_reach(&lanes->kernel->flow, from, lanes->reached) || lanes->reached[to];
}

/* Whether lanes that leave the branch by another edge can still reach `block`. */
static bool comes_later(struct lanes *lanes, const gs_ptx_dependence *dependence, uint32_t block) {
    const gs_ptx_block *branch = &lanes->kernel->flow.blocks.data[dependence->branch];
    for (int i = 0; i < 2; i++) {
        uint32_t other = branch->successors[i];
        if (other != dependence->edge && other < lanes->kernel->flow.blocks.count &&
            (other == block || is_reached(lanes, other, block)))
            return true;
    }
    return branch->target_count > 0;
}

/* ---- regions ---- */

static bool is_same_region(const struct lanes *lanes, uint32_t one, uint32_t other) {
    const gs_ptx_flow *flow = &lanes->kernel->flow;
    uint32_t i = flow->dependence_first[one], j = flow->dependence_first[other];
    for (;; i++, j++) {
        while (i < flow->dependence_first[one + 1] && !dependence_counts(lanes, &flow->dependences.data[i]))
            i++;
        while (j < flow->dependence_first[other + 1] && !dependence_counts(lanes, &flow->dependences.data[j]))
            j++;
        bool ends = i == flow->dependence_first[one + 1];
        if (ends || j == flow->dependence_first[other + 1])
            return ends && j == flow->dependence_first[other + 1];
        if (flow->dependences.data[i].branch != flow->dependences.data[j].branch ||
            flow->dependences.data[i].edge != flow->dependences.data[j].edge)
            return false;
    }
}

static gs_code find_region(struct lanes *lanes, uint32_t block, int *found);

/* Lanes that do not come to a block must not come to it later. Blocks of one region may differ in that. */
static gs_code check_later(struct lanes *lanes, uint32_t block) {
    const gs_ptx_flow *flow = &lanes->kernel->flow;
    for (uint32_t i = flow->dependence_first[block]; i < flow->dependence_first[block + 1]; i++)
        if (dependence_counts(lanes, &flow->dependences.data[i]) &&
            comes_later(lanes, &flow->dependences.data[i], block))
            return refuse_step(lanes, "it is not known that all lanes reach this, and the others may reach it later");
    return GS_OK;
}

/* Sorts the dependences of a region into the branch before it and the one that repeats it. */
static gs_code sort_dependences(struct lanes *lanes, struct region *region) {
    const gs_ptx_flow *flow = &lanes->kernel->flow;
    region->entered = region->repeated = -1;
    for (uint32_t i = flow->dependence_first[region->block]; i < flow->dependence_first[region->block + 1]; i++) {
        if (!dependence_counts(lanes, &flow->dependences.data[i]))
            continue;
        uint32_t branch = flow->dependences.data[i].branch;
        bool repeats = branch == region->block || is_reached(lanes, region->block, branch);
        int *kept = repeats ? &region->repeated : &region->entered;
        if (*kept >= 0)
            return refuse_step(
                lanes, "it is not known that all lanes reach this, and those that do come from several branches");
        *kept = (int)i;
    }
    return check_later(lanes, region->block);
}

static gs_code add_region(struct lanes *lanes, uint32_t block, int *found) {
    int ignored;
    if (lanes->count == MOST_REGIONS)
        return refuse_step(lanes, "it is not known that all lanes reach this, and the kernel has too many such places");
    *found = lanes->count++;
    struct region *region = &lanes->regions[*found];
    region->block = block;
    gs_code code = sort_dependences(lanes, region);
    if (code == GS_OK && region->entered >= 0)
        code = find_region(lanes, dependence_at(lanes, region->entered)->branch, &ignored);
    if (code == GS_OK && region->repeated >= 0)
        code = find_region(lanes, dependence_at(lanes, region->repeated)->branch, &ignored);
    return code;
}

static gs_code find_region(struct lanes *lanes, uint32_t block, int *found) {
    *found = FULL;
    if (lanes->kernel->uniform.runs[block] != GS_PTX_SAME_THREAD)
        return GS_OK;
    for (int i = 0; i < lanes->count; i++)
        if (is_same_region(lanes, lanes->regions[i].block, block)) {
            *found = i;
            return check_later(lanes, block);
        }
    return add_region(lanes, block, found);
}

/* ---- edits ---- */

/* The lanes that reach `branch` vote on which of them take the edge to a region. */
static void add_vote(struct lanes *lanes, const gs_ptx_dependence *dependence, int number, int region_of_branch) {
    const gs_ptx_kernel *kernel = lanes->kernel;
    const gs_ptx_block *block = &kernel->flow.blocks.data[dependence->branch];
    const gs_ptx_statement *branch = &kernel->module->statements.data[block->last];
    bool is_negated = branch->guard_is_negated != (block->successors[0] != dependence->edge);
    const gs_ptx_token *guard = &kernel->module->tokens.data[branch->first + 1 + branch->guard_is_negated];
    char mask[20] = "0xffffffff";
    if (region_of_branch != FULL)
        snprintf(mask, sizeof mask, "%%gs_m%d", region_of_branch);
    gs_edits_add(lanes->edits, kernel->module->tokens.data[branch->first].at, 0,
                 "vote.sync.ballot.b32 %%gs_m%d, %s%.*s, %s;\n\t", number, is_negated ? "!" : "", (int)guard->length,
                 kernel->module->text + guard->at, mask);
}

/* Votes of one branch: the region that the branch is in comes last, because the others still need its mask. */
static gs_code add_votes(struct lanes *lanes) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < lanes->count; i++) {
            const int both[] = {lanes->regions[i].entered, lanes->regions[i].repeated};
            for (int j = 0; j < 2; j++) {
                int around;
                if (both[j] < 0)
                    continue;
                gs_code code = find_region(lanes, dependence_at(lanes, both[j])->branch, &around);
                if (code != GS_OK)
                    return code;
                if ((around == i) == (pass == 1))
                    add_vote(lanes, dependence_at(lanes, both[j]), i, around);
            }
        }
    return GS_OK;
}

static gs_code reduce_mask(struct lanes *lanes, int region) {
    const gs_ptx_module *module = lanes->kernel->module;
    const gs_ptx_statement *step = lanes->step;
    if (!step->count)
        return refuse_step(lanes, "it has no mask");
    const gs_ptx_operand *mask = &module->operands.data[step->operands + step->count - 1];
    size_t from = module->tokens.data[mask->first].at,
           to = module->tokens.data[mask->last].at + module->tokens.data[mask->last].length;
    if (!lanes->edits)
        return GS_OK;
    gs_edits_add(lanes->edits, module->tokens.data[step->first].at, 0, "and.b32 %%gs_lanes, %.*s, %%gs_m%d;\n\t",
                 (int)(to - from), module->text + from, region);
    gs_edits_add(lanes->edits, from, to - from, "%%gs_lanes");
    return GS_OK;
}

/* Whether `to` is reached from `from` on a way that does not pass `there`. */
static bool is_reached_past(struct lanes *lanes, uint32_t from, uint32_t there, uint32_t to) {
    memset(lanes->reached, 0, lanes->kernel->flow.blocks.count + 1);
    lanes->reached[there] = true;
    return !gs_ptx_flow_reach(&lanes->kernel->flow, from, lanes->reached) || lanes->reached[to];
}

/* Whether each way to `block` goes through `there`: then what was computed there is of the same iteration. */
static bool is_dominated(struct lanes *lanes, uint32_t block, uint32_t there) {
    if (block == there || there == 0)
        return true;
    return block != 0 && !is_reached_past(lanes, 0, there, block);
}

/* Whether lanes that run `there` may leave before `block`, by a branch that decides about it. */
static bool decides_between(struct lanes *lanes, uint32_t there, uint32_t block) {
    const gs_ptx_flow *flow = &lanes->kernel->flow;
    for (uint32_t i = flow->dependence_first[block]; there != block && i < flow->dependence_first[block + 1]; i++) {
        const gs_ptx_dependence *dependence = &flow->dependences.data[i];
        if (dependence_counts(lanes, dependence) && is_reached_past(lanes, there, there, dependence->branch) &&
            dependence->edge != there &&
            (dependence->edge == block || is_reached_past(lanes, dependence->edge, there, block)))
            return true;
    }
    return false;
}

/* Whether a mask has only lanes that reach `number`, a statement of `block`: `activemask` in the same region, on each
   way there, returns such a mask, if no lane leaves between, and a vote or an AND of such a mask adds no lanes. */
static bool has_only_lanes_of(struct lanes *lanes, const gs_ptx_operand *mask, uint32_t block, uint32_t number,
                              int depth) {
    enum { DEEPEST = 8 };
    const gs_ptx_module *module = lanes->kernel->module;
    const gs_ptx_statement *writer = NULL;
    if (mask->kind == GS_PTX_REGISTER && depth < DEEPEST)
        writer = gs_ptx_only_writer(lanes->kernel, mask->value);
    if (!writer || writer->guard != GS_PTX_NONE)
        return false;
    const gs_ptx_operand *operands = module->operands.data + writer->operands;
    uint32_t at = (uint32_t)(writer - module->statements.data), there = gs_ptx_flow_block(&lanes->kernel->flow, at);
    if (!is_dominated(lanes, block, there) || (there == block && at > number) || decides_between(lanes, there, block))
        return false;
    switch (gs_ptx_math_of(writer)) {
    case GS_PTX_MATH_ACTIVE:
        return lanes->kernel->uniform.runs[there] == GS_PTX_SAME_THREAD && is_same_region(lanes, there, block);
    case GS_PTX_MATH_LANES:
    case GS_PTX_MATH_ALIKE:
    case GS_PTX_MATH_MOVE:
        return has_only_lanes_of(lanes, &operands[writer->count - 1], there, at, depth + 1) &&
               is_same_region(lanes, there, block);
    case GS_PTX_MATH_AND:
        return (has_only_lanes_of(lanes, &operands[1], there, at, depth + 1) ||
                has_only_lanes_of(lanes, &operands[2], there, at, depth + 1)) &&
               is_same_region(lanes, there, block);
    default:
        return false;
    }
}

/* Whether threads that come to two statements may wait for each other: at barriers, or by the same operation. */
static bool may_join(const gs_ptx_kernel *kernel, const gs_ptx_statement *one, const gs_ptx_statement *other) {
    const gs_ptx_token *word = &kernel->module->tokens.data[one->word],
                       *next = &kernel->module->tokens.data[other->word];
    if (other->kind != GS_PTX_INSTRUCTION || one->opcode == GS_PTX_BARRIER || one->opcode != other->opcode)
        return other->kind == GS_PTX_INSTRUCTION && one->opcode == other->opcode;
    return word->length == next->length &&
           !memcmp(kernel->module->text + word->at, kernel->module->text + next->at, word->length);
}

/* Whether all lanes of a warp that come to a statement wait for each other there: at a barrier of the block, or with a
   mask of all lanes. */
static bool names_all_lanes(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_operand *last = gs_ptx_operand_at(kernel, statement, statement->count - 1);
    if (statement->opcode == GS_PTX_BARRIER)
        return statement->count == 1 && gs_ptx_row(statement)->waits && last->kind == GS_PTX_INTEGER;
    gs_linear mask = last ? gs_linear_value(kernel, last, GS_LINEAR_EXACT) : (gs_linear){.is_known = false};
    return gs_ptx_is_warp_step(statement) && gs_linear_is_number(&mask) && (uint32_t)mask.number == UINT32_MAX;
}

static bool runs_apart(const gs_ptx_kernel *kernel, uint32_t number) {
    uint32_t first = kernel->module->functions.data[kernel->function].statements;
    return kernel->uniform.runs[gs_ptx_flow_block(&kernel->flow, number)] == GS_PTX_SAME_THREAD ||
           kernel->uniform.guards[number - first] == GS_PTX_SAME_THREAD;
}

/* Whether the lanes of a warp run a statement equally often and wait for each other there, each time: no lane that is
   elsewhere takes part. */
static bool gathers_warp(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement) {
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    if (statement->kind != GS_PTX_INSTRUCTION || statement->guard != GS_PTX_NONE || !names_all_lanes(kernel, statement))
        return false;
    for (uint32_t i = function->statements; i < function->statements + function->statement_count; i++) {
        const gs_ptx_statement *other = gs_ptx_statement_at(kernel, i);
        if (may_join(kernel, statement, other) && (runs_apart(kernel, i) || !names_all_lanes(kernel, other)))
            return false;
    }
    return true;
}

/* Whether no lane can have left when another one comes to a block: behind it, all lanes wait for each other. */
static bool is_before_gathering(const gs_ptx_kernel *kernel, uint32_t block) {
    const gs_ptx_flow *flow = &kernel->flow;
    for (uint32_t b = flow->after[block]; b < flow->blocks.count; b = flow->after[b])
        for (uint32_t i = flow->blocks.data[b].first; i <= flow->blocks.data[b].last; i++)
            if (!runs_apart(kernel, i) && gathers_warp(kernel, gs_ptx_statement_at(kernel, i)))
                return true;
    return false;
}

/* ---- lanes that meet elsewhere ---- */

static const gs_ptx_operand *mask_of(const struct lanes *lanes, const gs_ptx_statement *statement) {
    return gs_ptx_operand_at(lanes->kernel, statement, statement->count - 1);
}

/* Whether lanes that execute two operations of warps may meet: the same operation, with masks that may be the same. */
static bool may_meet(struct lanes *lanes, const gs_ptx_statement *one, const gs_ptx_statement *other, uint32_t block) {
    if (!gs_ptx_is_warp_step(other) || !may_join(lanes->kernel, one, other) || !one->count || !other->count)
        return false;
    gs_linear mask = gs_linear_value(lanes->kernel, mask_of(lanes, one), GS_LINEAR_EXACT),
              next = gs_linear_value(lanes->kernel, mask_of(lanes, other), GS_LINEAR_EXACT);
    if (gs_linear_is_number(&mask) && gs_linear_is_number(&next))
        return (uint32_t)mask.number == (uint32_t)next.number;
    return !has_only_lanes_of(lanes, mask_of(lanes, other), block, gs_ptx_number_of(lanes->kernel, other), 0);
}

/* Whether lanes that leave a branch by another edge may meet those of the operation, at another place. */
static bool meets_behind(struct lanes *lanes, const gs_ptx_dependence *dependence) {
    const gs_ptx_flow *flow = &lanes->kernel->flow;
    if (lanes->kernel->uniform.decides[dependence->branch] != GS_PTX_SAME_THREAD)
        return false; /* those that come to the branch leave it by the same edge */
    bool *behind = calloc(flow->blocks.count + 1, sizeof *behind), meets = !behind;
    for (int i = 0; i < 2 && !meets; i++) {
        uint32_t other = flow->blocks.data[dependence->branch].successors[i];
        if (other == dependence->edge || other >= flow->blocks.count)
            continue;
        behind[other] = true;
        meets = !gs_ptx_flow_reach(flow, other, behind);
    }
    for (uint32_t b = 0; b < flow->blocks.count && !meets; b++)
        for (uint32_t i = flow->blocks.data[b].first; behind[b] && i <= flow->blocks.data[b].last && !meets; i++)
            meets = may_meet(lanes, lanes->step, gs_ptx_statement_at(lanes->kernel, i), b);
    free(behind);
    return meets;
}

/* Lanes that are not in a region have left it, or one around it, at its branches. */
static gs_code check_meetings(struct lanes *lanes, int region) {
    for (int depth = 0; region != FULL && depth < MOST_REGIONS; depth++) {
        const int both[] = {lanes->regions[region].entered, lanes->regions[region].repeated};
        for (int j = 0; j < 2; j++)
            if (both[j] >= 0 && meets_behind(lanes, dependence_at(lanes, both[j])))
                return refuse_step(
                    lanes, "it is not known that all lanes reach this, and the others may meet them at another place");
        if (both[0] < 0)
            return GS_OK;
        gs_code code = find_region(lanes, dependence_at(lanes, both[0])->branch, &region);
        if (code != GS_OK)
            return code;
    }
    return GS_OK;
}

/* ---- lanes that wait before a vote ---- */

/* Whether all lanes that come to the end of `block` have run `before`: it is in the same region, or in one around. */
static bool is_around(struct lanes *lanes, uint32_t before, uint32_t block) {
    int region;
    for (int depth = 0; depth < MOST_REGIONS; depth++) {
        if (lanes->kernel->uniform.runs[block] != GS_PTX_SAME_THREAD)
            return false;
        if (is_same_region(lanes, before, block))
            return true;
        if (find_region(lanes, block, &region) != GS_OK || region == FULL || lanes->regions[region].entered < 0)
            return false;
        block = dependence_at(lanes, lanes->regions[region].entered)->branch;
    }
    return false;
}

/* Whether lanes wait at a statement for others: at a barrier, or where operations of warps keep their masks. */
static bool waits_for_others(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement, uint32_t block) {
    if (statement->kind != GS_PTX_INSTRUCTION)
        return false;
    return (statement->opcode == GS_PTX_BARRIER && gs_ptx_row(statement)->waits) ||
           (gs_ptx_is_warp_step(statement) && is_before_gathering(kernel, block));
}

static bool is_reached_past_or_same(struct lanes *lanes, uint32_t from, uint32_t there, uint32_t to) {
    return from == to || (from != there && is_reached_past(lanes, from, there, to));
}

/* Whether lanes that come to the end of `block` have run `before` since they came to it last, or not, as others have:
   from the begin, and from each time to the next, all ways go through it, once, or none does. */
static bool is_run_by_all(struct lanes *lanes, uint32_t before, uint32_t block) {
    const gs_ptx_flow *flow = &lanes->kernel->flow;
    const gs_ptx_block *branch = &flow->blocks.data[block];
    bool passes = false, avoids = false;
    if (before == block || branch->target_count || is_reached_past(lanes, before, block, before) ||
        (is_reached_past_or_same(lanes, 0, block, before) && is_reached_past_or_same(lanes, 0, before, block)))
        return false;
    for (int i = 0; i < 2; i++) {
        uint32_t next = branch->successors[i];
        if (next >= flow->blocks.count)
            continue;
        passes = passes || (is_reached_past_or_same(lanes, next, block, before) && is_reached(lanes, before, block));
        avoids = avoids || is_reached_past_or_same(lanes, next, before, block);
    }
    return !passes || !avoids;
}

/* Whether some of the lanes that vote at the end of a block may wait before it, while others do not. */
static bool some_wait_before(struct lanes *lanes, uint32_t block) {
    const gs_ptx_kernel *kernel = lanes->kernel;
    const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
    for (uint32_t b = 0; b < kernel->flow.blocks.count; b++)
        for (uint32_t i = kernel->flow.blocks.data[b].first; i <= kernel->flow.blocks.data[b].last; i++) {
            bool is_guarded = kernel->uniform.guards[i - function->statements] == GS_PTX_SAME_THREAD;
            if (runs_apart(kernel, i) && waits_for_others(kernel, gs_ptx_statement_at(kernel, i), b) &&
                (is_guarded || !(is_around(lanes, b, block) || is_run_by_all(lanes, b, block))) &&
                (b == block || is_reached(lanes, b, block)))
                return true;
        }
    return false;
}

/* All lanes that come to a branch wait for each other there. */
static gs_code check_votes(struct lanes *lanes) {
    memset(lanes->reached, 0, lanes->kernel->flow.blocks.count + 1);
    if (!gs_ptx_find_polls(lanes->kernel, lanes->reached))
        return gs_fail_memory(lanes->error);
    for (int i = 0; i < lanes->count; i++) {
        const int both[] = {lanes->regions[i].entered, lanes->regions[i].repeated};
        for (int j = 0; j < 2; j++)
            if (both[j] >= 0 && lanes->reached[dependence_at(lanes, both[j])->branch])
                return refuse_step(
                    lanes, "it is not known that all lanes reach this, and lanes may wait for others in a loop before");
    }
    for (int i = 0; i < lanes->count; i++) {
        const int both[] = {lanes->regions[i].entered, lanes->regions[i].repeated};
        for (int j = 0; j < 2; j++)
            if (both[j] >= 0 && some_wait_before(lanes, dependence_at(lanes, both[j])->branch))
                return refuse_step(
                    lanes,
                    "it is not known that all lanes reach this, and some may wait for others at a barrier before");
    }
    return GS_OK;
}

static gs_code look_at_step(struct lanes *lanes, uint32_t number, uint32_t block) {
    const gs_ptx_function *function = &lanes->kernel->module->functions.data[lanes->kernel->function];
    int region;
    lanes->step = &lanes->kernel->module->statements.data[number];
    if (lanes->kernel->uniform.guards[number - function->statements] == GS_PTX_SAME_THREAD)
        return refuse_step(lanes, "not all lanes execute this, because of its guard");
    const gs_ptx_operand *operands = lanes->kernel->module->operands.data + lanes->step->operands;
    if (lanes->step->count && has_only_lanes_of(lanes, &operands[lanes->step->count - 1], block, number, 0))
        return GS_OK;
    if (is_before_gathering(lanes->kernel, block))
        return GS_OK;
    gs_code code = find_region(lanes, block, &region);
    if (code == GS_OK)
        code = check_meetings(lanes, region);
    return code == GS_OK ? reduce_mask(lanes, region) : code;
}

gs_code gs_ptx_add_lanes(const gs_ptx_kernel *kernel, gs_edits *edits, uint32_t *masks, gs_error *error) {
    const gs_ptx_flow *flow = &kernel->flow;
    struct lanes *lanes = calloc(1, sizeof *lanes);
    bool *reached = calloc(flow->blocks.count + 1, sizeof *reached);
    gs_code code = lanes && reached ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK)
        *lanes = (struct lanes){.kernel = kernel, .edits = edits, .error = error, .reached = reached};
    for (uint32_t b = 0; b < flow->blocks.count && code == GS_OK; b++)
        for (uint32_t i = flow->blocks.data[b].first; i <= flow->blocks.data[b].last && code == GS_OK; i++) {
            const gs_ptx_function *function = &kernel->module->functions.data[kernel->function];
            bool is_apart = kernel->uniform.runs[b] == GS_PTX_SAME_THREAD ||
                            kernel->uniform.guards[i - function->statements] == GS_PTX_SAME_THREAD;
            if (is_apart && gs_ptx_is_warp_step(&kernel->module->statements.data[i]))
                code = look_at_step(lanes, i, b);
        }
    if (code == GS_OK)
        code = edits ? add_votes(lanes) : check_votes(lanes);
    if (code == GS_OK)
        *masks = (uint32_t)lanes->count;
    free(reached);
    free(lanes);
    return code;
}
