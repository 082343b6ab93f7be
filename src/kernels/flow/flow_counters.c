/*
 * flow_counters.c: how many rounds the loops of a function have.
 *
 * A loop is passed twice. First with every register as what it held when the round began: what comes back to the header
 * then says which registers are counters, r + c, and the branches that leave the loop say which comparison holds as
 * long as it goes on. A branch counts if every round passes it. With the values at the first round, that gives the
 * number of rounds; the least over all such branches is taken. Then it is passed with the ranges that registers have
 * in all rounds, for the loops inside, and for what is behind it. If the loop is left by one branch after a number of
 * rounds that is known exactly, so is what its counters hold there. ptxas unrolls a loop as several loops, each of
 * which goes on with the counter of the one before.
 *
 * A counter may also be shifted in each round. To the right, with zeros, it is 0 after at most 32 rounds, whatever it
 * was. To the left, it must reach the limit before bits are lost, also in the shift before the first comparison.
 *
 * Rounds that the user gives count if they are fewer. But they never say what registers hold where the code says how
 * many rounds there are: a number that is too small would make what is behind the loop unreachable.
 *
 * A round is one execution of the header. A comparison of a counter that can pass the limit by going around from the
 * largest number to the smallest gives no bound.
 */
#include "flow_parts.h"

#include <stdlib.h>

struct counting {
    gs_flow_graph *graph;
    const gs_flow_launch *launch;
    gs_error *error;
};

/* The pass through one loop. */
struct pass {
    struct counting *counting;
    int32_t loop;
    bool is_symbolic;
    gs_flow_state **at;  /* of each block: at its begin; NULL: not reached yet */
    gs_flow_state *back; /* what comes back to the header, or NULL */
    int64_t rounds;      /* the least bound; -1: none */
    gs_flow_state **out; /* of each block behind the loop: what comes to it; or NULL, where that is not asked */
    const gs_flow_state *entry;
    const gs_flow_written_set *written; /* in the loop */
};

static gs_code count_loop(struct counting *counting, int32_t loop, const gs_flow_state *entry, gs_flow_state *after,
                          gs_flow_state **out);

/* ---- bounds of one comparison ---- */

/* The rounds in which first + k * step < limit can hold, for all k below: at most. -1: no bound. What is compared may
   be off by up to `spread`, another number in each round. */
static int64_t rounds_below(gs_flow_value first, gs_flow_value step, int64_t limit, int64_t spread, bool is_signed) {
    if (step.low <= 0 || limit + step.high + spread > INT32_MAX || (!is_signed && first.low < 0))
        return -1;
    return limit <= first.low ? 0 : (limit - first.low + step.low - 1) / step.low;
}

/* The rounds in which first + k * step differs from limit. */
static int64_t rounds_different(gs_flow_value first, gs_flow_value step, gs_flow_value limit) {
    if (step.low != step.high || !step.low)
        return -1;
    int64_t direction = step.low > 0 ? 1 : -1, size = step.low * direction;
    int64_t least = direction > 0 ? limit.low - first.high : first.low - limit.high;
    int64_t most = direction > 0 ? limit.high - first.low : first.high - limit.low;
    if (least < 0 || (size != 1 && (least != most || most % size)))
        return -1;
    return most / size;
}

static gs_flow_value negative(gs_flow_value value) {
    return (gs_flow_value){.is_known = true, .base = GS_NO_BASE, .low = -value.high, .high = -value.low};
}

static int64_t rounds_while(gs_flow_relation relation, gs_flow_value first, gs_flow_value step, gs_flow_value limit,
                            int64_t spread, bool is_signed) {
    bool is_comparable = is_signed || (limit.low >= 0 && first.low >= 0);
    if (relation == GS_DIFFERS)
        return rounds_different(first, step, limit);
    if (!is_comparable)
        return -1;
    if (relation == GS_LESS || relation == GS_AT_MOST)
        return rounds_below(first, step, limit.high + (relation == GS_AT_MOST), spread, is_signed);
    if (relation != GS_MORE && relation != GS_AT_LEAST)
        return -1;
    /* Downwards: an unsigned counter must stop before it passes 0. */
    int64_t last = limit.low - (relation == GS_AT_LEAST);
    if (!is_signed && last + step.low - spread < -1)
        return -1;
    return rounds_below(negative(first), negative(step), -last, spread, true);
}

/* Whether what comes back to the header is what the register held. */
static bool is_unchanged(gs_flow_value back, int number) {
    return back.is_known && back.base == number && !back.shift && back.low == 0 && back.high == 0;
}

/* The range of a value at the first round; a value that the loop does not change is the same in all rounds. */
static gs_flow_value at_entry(const struct pass *pass, gs_flow_value value, bool needs_same) {
    if (!value.is_known || value.base == GS_NO_BASE)
        return value;
    if (value.shift)
        return (gs_flow_value){0};
    gs_flow_value back = pass->back ? pass->back->values[value.base] : (gs_flow_value){0};
    bool is_same = is_unchanged(back, value.base);
    gs_flow_value first = pass->entry->values[value.base];
    if (!first.is_known || first.base != GS_NO_BASE || (needs_same && !is_same))
        return (gs_flow_value){0};
    return gs_flow_number(first.low + value.low, first.high + value.high);
}

/* The rounds in which a counter that is shifted to the right is larger than `limit`, if it begins with `first`. */
static int64_t rounds_down(uint64_t first, int shift, int64_t limit) {
    int64_t rounds = 0;
    while (limit >= 0 && first > (uint64_t)limit) {
        first >>= shift;
        rounds++;
    }
    return limit >= 0 ? rounds : -1;
}

/* The rounds in which one that is shifted to the left is below `limit`. One below it can be shifted, and none that is
   compared has lost bits before: `most` is the largest first one. */
static int64_t rounds_up(int64_t first, int64_t most, int shift, int64_t limit) {
    int64_t rounds = 0;
    if (first < 1 || most > INT32_MAX || limit > INT32_MAX >> shift)
        return -1;
    while (first < limit) {
        first <<= shift;
        rounds++;
    }
    return rounds;
}

/* A counter that is shifted in each round. `counter` is what is compared: before or after the shift of the round. */
static int64_t rounds_shifted(const struct pass *pass, gs_flow_relation relation, gs_flow_value counter,
                              gs_flow_value limit, int shift) {
    gs_flow_value first = pass->entry->values[counter.base];
    bool is_number = first.is_known && first.base == GS_NO_BASE;
    if (counter.low || counter.high || (counter.shift && counter.shift != shift))
        return -1;
    if (shift < 0) {
        uint64_t most = is_number && first.low >= 0 ? (uint64_t)first.high : UINT32_MAX;
        bool is_until_zero = relation == GS_DIFFERS && limit.low == 0 && limit.high == 0;
        int64_t least = relation == GS_MORE || is_until_zero ? limit.low : relation == GS_AT_LEAST ? limit.low - 1 : -1;
        return rounds_down(counter.shift ? most >> -shift : most, -shift, least);
    }
    int64_t most = relation == GS_LESS ? limit.high : relation == GS_AT_MOST ? limit.high + 1 : INT64_MAX;
    if (!is_number || first.low < 1 || limit.low < 0 || most == INT64_MAX)
        return -1;
    int before = counter.shift ? shift : 0;
    return rounds_up(first.low << before, first.high << before, shift, most);
}

/* Whether a limit is the same number in all rounds, also if it is known as a range only. */
static bool is_same_always(const struct pass *pass, gs_flow_value limit, int16_t number) {
    const gs_flow_written_set *set = pass->written;
    if (limit.low == limit.high)
        return true;
    return number != GS_NO_BASE &&
           !(number < GS_UNIFORM_BASE ? set->registers[number] : set->uniform[number - GS_UNIFORM_BASE]);
}

/* A counter compared with a limit. */
static int64_t rounds_of(const struct pass *pass, const gs_flow_fact *fact, bool is_mirrored) {
    gs_flow_value counter = is_mirrored ? fact->y : fact->x, limit = is_mirrored ? fact->x : fact->y;
    gs_flow_relation relation = is_mirrored ? gs_flow_mirrored(fact->relation) : fact->relation;
    if (!counter.is_known || counter.base == GS_NO_BASE)
        return -1;
    bool is_exact =
        counter.low == counter.high && is_same_always(pass, limit, is_mirrored ? fact->x_register : fact->y_register);
    gs_flow_value step = pass->back->values[counter.base];
    gs_flow_value first = at_entry(pass, counter, false);
    limit = at_entry(pass, limit, true);
    if (step.is_known && step.shift && step.base == counter.base && limit.is_known)
        return rounds_shifted(pass, relation, counter, limit, step.shift);
    if (!step.is_known || step.shift || counter.shift || step.base != counter.base || !first.is_known ||
        !limit.is_known)
        return -1;
    if (relation == GS_DIFFERS && !is_exact)
        return -1; /* it may step over the limit */
    return rounds_while(relation, first, step, limit, counter.high - counter.low, fact->is_signed);
}

/* ---- a pass ---- */

static bool leads_back_always(const gs_flow_graph *graph, int32_t block, int32_t loop) {
    int32_t header = graph->loops.data[loop].header;
    for (size_t i = 0; i < graph->blocks.count; i++)
        for (int side = 0; side < 2; side++)
            if (graph->blocks.data[i].next[side] == header && gs_flow_in_loop(graph, (int32_t)i, loop) &&
                !gs_flow_dominates(graph, block, (int32_t)i))
                return false;
    return true;
}

/* Passes the way from one block to another. */
static bool pass_way(struct pass *pass, const gs_flow_state *state, int32_t to) {
    const gs_flow_graph *graph = pass->counting->graph;
    bool is_out = !gs_flow_in_loop(graph, to, pass->loop);
    if (is_out && !pass->out)
        return true;
    gs_flow_state **into = is_out                                                     ? &pass->out[to]
                           : to == graph->loops.data[pass->loop].header && pass->loop ? &pass->back
                                                                                      : &pass->at[to];
    if (*into) {
        gs_flow_join(*into, state);
        return true;
    }
    *into = malloc(sizeof **into);
    if (*into)
        **into = *state;
    return *into != NULL;
}

static gs_code pass_loop(struct pass *pass, const gs_flow_state *begin);
static gs_code execute_block(struct pass *pass, int32_t number, gs_flow_state *state, bool *goes_on);
static void clear_pass(struct pass *pass);
static void begin_symbolic(gs_flow_state *state);

/* Whether a function returns to behind the call at `at`, as ptxas calls: the caller puts the place into a register. */
static gs_code check_return(struct pass *pass, const gs_flow_state *state, gs_flow_graph *called, size_t at) {
    struct counting counting = {.graph = called, .launch = pass->counting->launch, .error = pass->counting->error};
    struct pass inside = {.counting = &counting, .is_symbolic = true};
    gs_flow_state *begin = calloc(1, sizeof *begin), *end = calloc(1, sizeof *end);
    gs_code result = begin && end ? GS_OK : gs_fail_memory(counting.error);
    if (result == GS_OK) {
        begin_symbolic(begin);
        result = pass_loop(&inside, begin);
    }
    for (size_t i = 0; i < called->blocks.count && result == GS_OK; i++) {
        const gs_flow_instruction *last = &called->code->data[called->blocks.data[i].end - 1];
        if (!inside.at[i] || gs_operation(last) != GS_OP_RET)
            continue;
        bool goes_on;
        result = execute_block(&inside, (int32_t)i, end, &goes_on);
        gs_flow_value value = end->values[gs_bits(last->low, 24, 8)];
        if (value.is_known && value.base != GS_NO_BASE && !value.shift && value.low == 0 && value.high == 0)
            value = state->values[value.base];
        bool is_next = value.is_known && value.base == GS_NO_BASE && value.low == value.high &&
                       value.low == (int64_t)(at + 1) * GS_FLOW_BYTES;
        if (result == GS_OK && !is_next)
            result = gs_flow_refuse(counting.error, at, "the return address of this call is not known");
    }
    clear_pass(&inside);
    free(begin);
    free(end);
    return result;
}

static gs_code pass_call(struct pass *pass, gs_flow_state *state, size_t at) {
    const gs_flow_code *code = pass->counting->graph->code;
    size_t target = gs_flow_target(code, at);
    gs_flow_written_set set = {0};
    gs_flow_graph called = {0};
    gs_code result = gs_flow_called(code, target, &set, 1, pass->counting->error);
    if (result == GS_OK && !pass->is_symbolic)
        result = gs_flow_graph_make(&called, code, target, pass->counting->error);
    if (result == GS_OK && !pass->is_symbolic)
        result = check_return(pass, state, &called, at);
    gs_flow_graph_clear(&called);
    gs_flow_forget(state, &set);
    return result;
}

/* The state at the end of a block, and whether a thread may come to it. */
static gs_code execute_block(struct pass *pass, int32_t number, gs_flow_state *state, bool *goes_on) {
    const gs_flow_graph *graph = pass->counting->graph;
    const gs_flow_block *block = &graph->blocks.data[number];
    gs_code result = GS_OK;
    *state = *pass->at[number];
    *goes_on = true;
    for (size_t at = block->first; at < block->end && result == GS_OK; at++) {
        gs_flow_instruction *instruction = &graph->code->data[at];
        gs_flow_fact fact;
        if (!pass->is_symbolic) {
            bool has_index = gs_flow_has_index(state, instruction, pass->counting->launch);
            instruction->has_index = has_index && (!instruction->is_passed || instruction->has_index);
            instruction->is_passed = true;
        }
        if (gs_operation(instruction) == GS_OP_CALL)
            result = pass_call(pass, state, at);
        else
            gs_flow_execute(state, instruction, pass->counting->launch);
        if (gs_operation(instruction) == GS_OP_EXIT && gs_flow_says(state, instruction, false, &fact))
            *goes_on = gs_flow_narrow(state, &fact) && *goes_on; /* for those threads that do not exit */
    }
    return result;
}

static gs_code pass_block(struct pass *pass, int32_t number) {
    struct counting *counting = pass->counting;
    const gs_flow_graph *graph = counting->graph;
    gs_flow_block *block = &graph->blocks.data[number];
    const gs_flow_instruction *last = &graph->code->data[block->end - 1];
    gs_flow_state state;
    block->is_reached = block->is_reached || !pass->is_symbolic;
    bool goes_on;
    gs_code result = execute_block(pass, number, &state, &goes_on);
    for (int side = 0; side < 2 && result == GS_OK && goes_on; side++) {
        int32_t next = block->next[side];
        gs_flow_fact fact;
        if (next == GS_NO_BLOCK)
            continue;
        gs_flow_state there = state;
        bool is_possible = pass->is_symbolic || block->next[1] == GS_NO_BLOCK ||
                           !gs_flow_says(&state, last, side == 1, &fact) || gs_flow_narrow(&there, &fact);
        if (is_possible && !pass_way(pass, &there, next))
            result = gs_fail_memory(counting->error);
    }
    return result;
}

static gs_code written_in_loop(const struct counting *counting, int32_t loop, gs_flow_written_set *set) {
    const gs_flow_graph *graph = counting->graph;
    gs_code result = GS_OK;
    for (size_t i = 0; i < graph->blocks.count; i++)
        for (size_t at = graph->blocks.data[i].first;
             gs_flow_in_loop(graph, (int32_t)i, loop) && at < graph->blocks.data[i].end && result == GS_OK; at++) {
            gs_flow_add_written(set, &graph->code->data[at]);
            if (gs_operation(&graph->code->data[at]) == GS_OP_CALL)
                result = gs_flow_called(graph->code, gs_flow_target(graph->code, at), set, 1, counting->error);
        }
    return result;
}

static void clear_states(gs_flow_state **states, size_t count) {
    for (size_t i = 0; states && i < count; i++)
        free(states[i]);
    free(states);
}

/* What is exactly known behind a loop counts; else the range that it has where it is left. */
static void keep_exact(gs_flow_state *state, const gs_flow_state *after) {
    for (int i = 0; i < GS_VALUES; i++)
        if (gs_flow_is_exact(after->values[i]) || !state->values[i].is_known)
            state->values[i] = after->values[i];
}

/* Passes a loop inside as a whole. In a symbolic pass, what it writes is unknown behind it. */
static gs_code pass_inner(struct pass *pass, int32_t inner) {
    struct counting *counting = pass->counting;
    const gs_flow_graph *graph = counting->graph;
    gs_flow_state state = *pass->at[graph->loops.data[inner].header], entry = state;
    gs_flow_written_set set = {0};
    gs_flow_state **out = pass->is_symbolic ? NULL : calloc(graph->blocks.count + 1, sizeof *out);
    gs_code result = written_in_loop(counting, inner, &set);
    gs_flow_forget(&state, &set);
    if (result == GS_OK && !pass->is_symbolic)
        result = out ? count_loop(counting, inner, &entry, &state, out) : gs_fail_memory(counting->error);
    for (size_t i = 0; i < graph->blocks.count && result == GS_OK; i++)
        for (int side = 0; side < 2 && gs_flow_in_loop(graph, (int32_t)i, inner); side++) {
            int32_t next = graph->blocks.data[i].next[side];
            bool is_out = next != GS_NO_BLOCK && !gs_flow_in_loop(graph, next, inner) && (!out || out[next]);
            if (is_out && out)
                keep_exact(out[next], &state);
            if (is_out && !pass_way(pass, out ? out[next] : &state, next))
                result = gs_fail_memory(counting->error);
        }
    clear_states(out, graph->blocks.count);
    return result;
}

static gs_code pass_loop(struct pass *pass, const gs_flow_state *begin) {
    const gs_flow_graph *graph = pass->counting->graph;
    int32_t header = graph->loops.data[pass->loop].header;
    pass->at = calloc(graph->blocks.count + 1, sizeof(gs_flow_state *));
    gs_code result = GS_OK;
    if (!pass->at || !(pass->at[header] = malloc(sizeof **pass->at)))
        return gs_fail_memory(pass->counting->error);
    *pass->at[header] = *begin;
    for (size_t i = 0; i < graph->blocks.count && result == GS_OK; i++) {
        int32_t at = graph->order[i];
        if (!pass->at[at] || !gs_flow_in_loop(graph, at, pass->loop))
            continue;
        int32_t inner = gs_flow_loop_inside(graph, at, pass->loop);
        if (inner && graph->loops.data[inner].header == at)
            result = pass_inner(pass, inner);
        else if (!inner)
            result = pass_block(pass, at);
    }
    return result;
}

static void clear_pass(struct pass *pass) {
    clear_states(pass->at, pass->counting->graph->blocks.count);
    free(pass->back);
}

static void begin_symbolic(gs_flow_state *state) {
    for (int i = 0; i < GS_VALUES; i++)
        state->values[i] = (gs_flow_value){.is_known = true, .base = (int16_t)i};
}

/* What a loop does not write is the same in all rounds. */
static void keep_unwritten(gs_flow_state *state, const gs_flow_state *entry, const gs_flow_written_set *set) {
    for (int i = 0; i < GS_VALUES; i++)
        if (!(i < GS_UNIFORM_BASE ? set->registers[i] : set->uniform[i - GS_UNIFORM_BASE]))
            state->values[i] = entry->values[i];
}

/* ---- a loop ---- */

/* The branches that leave the loop and that every round passes. */
static void find_rounds(struct pass *pass) {
    const gs_flow_graph *graph = pass->counting->graph;
    pass->rounds = pass->back ? -1 : 1;
    for (size_t i = 0; i < graph->blocks.count && pass->back; i++) {
        const gs_flow_block *block = &graph->blocks.data[i];
        if (!pass->at[i] || block->loop != pass->loop || block->next[0] == GS_NO_BLOCK ||
            block->next[1] == GS_NO_BLOCK || !leads_back_always(graph, (int32_t)i, pass->loop))
            continue;
        gs_flow_state state;
        bool goes_on;
        if (execute_block(pass, (int32_t)i, &state, &goes_on) != GS_OK)
            continue;
        for (int side = 0; side < 2; side++) {
            gs_flow_fact fact;
            if (gs_flow_in_loop(graph, block->next[side], pass->loop) ||
                !gs_flow_says(&state, &graph->code->data[block->end - 1], side == 0, &fact))
                continue;
            for (int is_mirrored = 0; is_mirrored < 2; is_mirrored++) {
                int64_t rounds = rounds_of(pass, &fact, is_mirrored);
                if (rounds >= 0 && (pass->rounds < 0 || rounds + 1 < pass->rounds))
                    pass->rounds = rounds + 1;
            }
        }
    }
}

/* What registers hold at the begin of any round. */
static void spread_over_rounds(const struct pass *pass, const gs_flow_written_set *set, gs_flow_state *state) {
    const gs_flow_loop *loop = &pass->counting->graph->loops.data[pass->loop];
    int64_t rounds = loop->source == GS_FLOW_GIVEN && pass->rounds >= 0 ? pass->rounds : loop->times;
    memcpy(state->facts, pass->entry->facts, sizeof state->facts);
    gs_flow_forget(state, set);
    for (int i = 0; i < GS_VALUES; i++) {
        gs_flow_value first = pass->entry->values[i], *value = &state->values[i];
        gs_flow_value back = pass->back ? pass->back->values[i] : (gs_flow_value){.is_known = true, .base = (int16_t)i};
        *value = (gs_flow_value){.base = GS_NO_BASE};
        bool is_written = i < GS_UNIFORM_BASE ? set->registers[i] : set->uniform[i - GS_UNIFORM_BASE];
        bool is_same = !is_written || is_unchanged(back, i);
        int64_t low, high;
        if (is_same)
            *value = first;
        if (is_same || !first.is_known || first.base != GS_NO_BASE || !back.is_known || back.base != i)
            continue;
        if (back.shift) {
            if (back.shift < 0 && first.low >= 0)
                *value = gs_flow_number(0, first.high);
            continue;
        }
        if (rounds > 0 && !__builtin_mul_overflow(rounds - 1, back.low, &low) &&
            !__builtin_mul_overflow(rounds - 1, back.high, &high) && llabs(low) < INT32_MAX && llabs(high) < INT32_MAX)
            *value = gs_flow_number(first.low + (low < 0 ? low : 0), first.high + (high > 0 ? high : 0));
    }
}

/* The only block with a way out of a loop, if every round passes it; else GS_NO_BLOCK. */
static int32_t only_exit(const gs_flow_graph *graph, int32_t loop) {
    int32_t found = GS_NO_BLOCK;
    for (size_t i = 0; i < graph->blocks.count; i++)
        for (int side = 0; side < 2; side++) {
            int32_t next = graph->blocks.data[i].next[side];
            if (next == GS_NO_BLOCK || !gs_flow_in_loop(graph, (int32_t)i, loop) || gs_flow_in_loop(graph, next, loop))
                continue;
            if (found != GS_NO_BLOCK || graph->blocks.data[i].loop != loop ||
                !leads_back_always(graph, (int32_t)i, loop))
                return GS_NO_BLOCK;
            found = (int32_t)i;
        }
    return found;
}

/* Whether the loop has exactly as many rounds as the branch of its only exit says, and how many. */
static bool count_exactly(const struct pass *pass, int32_t exit, const gs_flow_state *at_exit, int64_t *rounds) {
    const gs_flow_graph *graph = pass->counting->graph;
    const gs_flow_block *block = &graph->blocks.data[exit];
    int side = gs_flow_in_loop(graph, block->next[0], pass->loop) ? 1 : 0;
    gs_flow_fact fact;
    if (!gs_flow_says(at_exit, &graph->code->data[block->end - 1], side == 0, &fact))
        return false;
    for (int is_mirrored = 0; is_mirrored < 2; is_mirrored++) {
        gs_flow_value counter = is_mirrored ? fact.y : fact.x, limit = is_mirrored ? fact.x : fact.y;
        bool is_counter = counter.is_known && counter.base != GS_NO_BASE && !counter.shift;
        if (!is_counter || !gs_flow_is_exact(at_entry(pass, counter, false)) ||
            !gs_flow_is_exact(at_entry(pass, limit, true)))
            continue;
        gs_flow_value step = pass->back->values[counter.base];
        int64_t found = rounds_of(pass, &fact, is_mirrored);
        if (step.base == counter.base && !step.shift && step.low == step.high && found >= 0) {
            *rounds = found + 1;
            return true;
        }
    }
    return false;
}

/* Whether a thread may end in a loop. */
static bool may_end_inside(const gs_flow_graph *graph, int32_t loop) {
    bool may_end = false;
    for (size_t i = 0; i < graph->blocks.count; i++)
        for (size_t at = graph->blocks.data[i].first; at < graph->blocks.data[i].end; at++) {
            unsigned operation = gs_operation(&graph->code->data[at]);
            bool is_end = operation == GS_OP_EXIT || operation == GS_OP_RET || operation == GS_OP_CALL;
            may_end = may_end || (is_end && gs_flow_in_loop(graph, (int32_t)i, loop));
        }
    return may_end;
}

/* What counters hold behind a loop with an exact number of rounds. */
static gs_code leave_loop(struct pass *pass, const gs_flow_written_set *set, gs_flow_state *after) {
    int32_t exit = only_exit(pass->counting->graph, pass->loop);
    gs_flow_state state;
    bool goes_on;
    int64_t rounds, sum;
    if (exit == GS_NO_BLOCK || !pass->back || !pass->at[exit])
        return GS_OK;
    gs_code result = execute_block(pass, exit, &state, &goes_on);
    if (result != GS_OK || !count_exactly(pass, exit, &state, &rounds))
        return result;
    if (!may_end_inside(pass->counting->graph, pass->loop))
        pass->counting->graph->loops.data[pass->loop].exact = rounds;
    for (int i = 0; i < GS_VALUES; i++) {
        gs_flow_value value = state.values[i];
        bool is_written = i < GS_UNIFORM_BASE ? set->registers[i] : set->uniform[i - GS_UNIFORM_BASE];
        if (!is_written || !value.is_known || value.shift)
            continue;
        if (value.base == GS_NO_BASE) {
            after->values[i] = value;
            continue;
        }
        gs_flow_value first = pass->entry->values[value.base], step = pass->back->values[value.base];
        bool is_counter = gs_flow_is_exact(first) && step.is_known && step.base == value.base && !step.shift &&
                          step.low == step.high && !__builtin_mul_overflow(rounds - 1, step.low, &sum);
        if (is_counter && llabs(sum) < INT32_MAX && first.low + sum >= INT32_MIN && first.low + sum <= INT32_MAX)
            after->values[i] = gs_flow_number(first.low + sum + value.low, first.low + sum + value.high);
    }
    return GS_OK;
}

/* Whether a loop has ways out, and no thread goes on any of them. */
static bool is_closed(const struct pass *pass) {
    const gs_flow_graph *graph = pass->counting->graph;
    bool has_ways = false;
    for (size_t i = 0; i < graph->blocks.count; i++)
        for (int side = 0; side < 2 && gs_flow_in_loop(graph, (int32_t)i, pass->loop); side++) {
            int32_t next = graph->blocks.data[i].next[side];
            bool is_out = next != GS_NO_BLOCK && !gs_flow_in_loop(graph, next, pass->loop);
            if (is_out && pass->out[next])
                return false;
            has_ways = has_ways || is_out;
        }
    return has_ways && !may_end_inside(graph, pass->loop);
}

/* `after`: what is known exactly behind the loop; `out`: what comes to each block behind it. */
static gs_code count_loop(struct counting *counting, int32_t loop, const gs_flow_state *entry, gs_flow_state *after,
                          gs_flow_state **out) {
    gs_flow_loop *counted = &counting->graph->loops.data[loop];
    gs_flow_state *begin = calloc(1, sizeof *begin);
    gs_flow_written_set set = {0};
    struct pass first = {.counting = counting, .loop = loop, .is_symbolic = true, .entry = entry, .written = &set};
    gs_code result = begin ? GS_OK : gs_fail_memory(counting->error);
    if (result == GS_OK)
        result = written_in_loop(counting, loop, &set);
    if (result == GS_OK) {
        begin_symbolic(begin);
        keep_unwritten(begin, entry, &set);
        result = pass_loop(&first, begin);
    }
    if (result == GS_OK) {
        find_rounds(&first);
        if (first.rounds >= 0 && (counted->times < 0 || first.rounds <= counted->times)) {
            counted->times = first.rounds;
            counted->source = GS_FLOW_OF_CODE;
        }
        spread_over_rounds(&first, &set, begin);
        result = leave_loop(&first, &set, after);
    }
    struct pass second = {.counting = counting, .loop = loop, .entry = entry, .out = out};
    if (result == GS_OK)
        result = pass_loop(&second, begin);
    if (result == GS_OK)
        counted->is_closed = counted->source == GS_FLOW_GIVEN && is_closed(&second);
    clear_pass(&first);
    clear_pass(&second);
    free(begin);
    return result;
}

gs_code gs_flow_count_rounds(gs_flow_graph *graph, const gs_flow_launch *launch, gs_error *error) {
    struct counting counting = {.graph = graph, .launch = launch, .error = error};
    struct pass whole = {.counting = &counting};
    gs_flow_state *begin = calloc(1, sizeof *begin);
    gs_code result = GS_OK;
    for (int i = 0; i < GS_VALUES && begin; i++)
        begin->values[i].base = GS_NO_BASE;
    for (size_t i = 0; i < graph->blocks.count; i++)
        for (size_t at = graph->blocks.data[i].first; at < graph->blocks.data[i].end; at++)
            graph->code->data[at].is_passed = graph->code->data[at].has_index = false;
    result = begin ? pass_loop(&whole, begin) : gs_fail_memory(error);
    for (size_t i = 1; i < graph->loops.count && result == GS_OK; i++)
        if (!graph->blocks.data[graph->loops.data[i].header].is_reached)
            graph->loops.data[i].times = 0;
    clear_pass(&whole);
    free(begin);
    return result;
}
