/*
 * body_worst.c: the latest end over all walks and schedules: each state of the SM is visited once. See body_case.h.
 *
 * The tree becomes a graph: a node is an instruction in one round of its loops, with the nodes that can come next.
 */
#include "body_case.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 62, UNITS = 3, MOST_QUEUE = 8, MOST_SLOW = 6, MOST_STATES = 20000, SLOTS = 1 << 16 };
#define LAST ((uint64_t)1 << 63)

struct node {
    const gs_body_part *part;
    bool is_barrier;
    uint64_t next;
};

struct warp {
    uint8_t node, ready, all, arrived; /* node 63: it has ended */
    uint8_t scoreboard[CASE_SCOREBOARDS];
};

struct waiting {
    uint8_t warp, node; /* warp + 1; 0: none */
};

struct state {
    struct warp warps[CASE_WARPS];
    struct waiting queue[UNITS][MOST_QUEUE];
    uint8_t busy[UNITS], held[CASE_PARTITIONS][UNITS];
    uint8_t first[CASE_WARPS]; /* of each slot: the partition of its first warp */
    uint8_t to_start, pointer;
    struct {
        uint8_t left, most; /* cycles until it is done, and the most slow ones of a chain that ends with it */
    } slow[MOST_SLOW];
    uint8_t slow_done; /* the most of a chain whose last one is done */
};

struct entry {
    struct state state;
    int64_t value;
};

struct search {
    const body_case *given;
    struct node nodes[MOST_NODES];
    int node_count;
    bool failed;
    uint64_t start;
    struct entry *entries;
    int32_t count, *slots;
};

/* ---- the graph ---- */

static uint64_t build(struct search *search, size_t from, size_t end, uint64_t next, uint64_t leave);

static uint64_t add_node(struct search *search, size_t part, bool is_barrier, uint64_t next) {
    if (search->node_count == MOST_NODES) {
        search->failed = true;
        return LAST;
    }
    search->nodes[search->node_count] = (struct node){&search->given->body->parts.data[part], is_barrier, next};
    return (uint64_t)1 << search->node_count++;
}

static bool has_barrier(const gs_body *body, size_t part) {
    for (size_t i = part; i < body->parts.data[part].end; i++)
        if (body->parts.data[i].kind == GS_PART_BARRIER)
            return true;
    return false;
}

/* All orders of two sides in which each keeps its own, from instruction `a` of one and `b` of the other on. */
static uint64_t interleave(struct search *search, size_t a, size_t a_end, size_t b, size_t b_end, uint64_t next,
                           uint64_t leave) {
    if (a == a_end && b == b_end)
        return next;
    uint64_t entries = 0;
    if (a < a_end)
        entries |= add_node(search, a, false, interleave(search, a + 1, a_end, b, b_end, next, leave) | leave);
    if (b < b_end)
        entries |= add_node(search, b, false, interleave(search, a, a_end, b + 1, b_end, next, leave) | leave);
    return entries;
}

static bool is_plain(const gs_body *body, size_t side) {
    for (size_t i = side + 1; i < body->parts.data[side].end; i++)
        if (body->parts.data[i].kind != GS_PART_INSTRUCTION)
            return false;
    return true;
}

static uint64_t build_branch(struct search *search, size_t branch, uint64_t next, uint64_t leave) {
    const gs_body *body = search->given->body;
    const gs_body_part *parts = body->parts.data;
    size_t sides[8], count = 0;
    for (size_t i = branch + 1; i < parts[branch].end; i = parts[i].end)
        sides[count++] = i;
    if (has_barrier(body, branch)) {
        size_t side = sides[(size_t)search->given->barrier_side % count];
        return build(search, side + 1, parts[side].end, next, 0);
    }
    uint64_t entries = parts[branch].is_uniform ? 0 : next;
    for (size_t i = 0; i < count; i++)
        entries |= build(search, sides[i] + 1, parts[sides[i]].end, next, leave);
    if (parts[branch].is_uniform || count != 2)
        return entries;
    if (is_plain(body, sides[0]) && is_plain(body, sides[1]))
        return entries |
               interleave(search, sides[0] + 1, parts[sides[0]].end, sides[1] + 1, parts[sides[1]].end, next, leave);
    for (size_t i = 0; i < 2; i++) {
        uint64_t second = build(search, sides[1 - i] + 1, parts[sides[1 - i]].end, next, leave);
        entries |= build(search, sides[i] + 1, parts[sides[i]].end, second, leave);
    }
    return entries;
}

static uint64_t build_loop(struct search *search, size_t loop, uint64_t next, uint64_t leave) {
    const gs_body_part *part = &search->given->body->parts.data[loop];
    uint64_t entries = next;
    bool is_fixed = has_barrier(search->given->body, loop);
    int64_t rounds = is_fixed ? gs_min(part->times, search->given->barrier_rounds) : part->times;
    for (int64_t i = 0; i < rounds; i++) {
        uint64_t round = build(search, loop + 1, part->end, entries, is_fixed ? 0 : next | leave);
        entries = is_fixed ? round : round | next;
    }
    return entries;
}

static uint64_t build(struct search *search, size_t from, size_t end, uint64_t next, uint64_t leave) {
    const gs_body_part *parts = search->given->body->parts.data;
    if (from >= end)
        return next;
    const gs_body_part *part = &parts[from];
    bool is_barrier = part->kind == GS_PART_BARRIER;
    uint64_t rest = build(search, part->end + is_barrier, end, next, leave);
    if (is_barrier)
        return add_node(search, from + 1, true, rest);
    if (part->kind == GS_PART_INSTRUCTION)
        return add_node(search, from, false, rest | leave);
    return part->kind == GS_PART_BRANCH ? build_branch(search, from, rest, leave)
                                        : build_loop(search, from, rest, leave);
}

/* ---- one cycle ---- */

enum { ENDED = 63 };

static const gs_machine_class *class_of(const struct search *search, const struct node *node) {
    return gs_machine_find(search->given->machine, search->given->body->classes.data[node->part->class_number]);
}

static bool is_pending(const struct state *state, int warp, const struct search *search, int scoreboard) {
    for (int unit = 0; unit < UNITS; unit++)
        for (int i = 0; i < MOST_QUEUE && state->queue[unit][i].warp; i++) {
            const gs_body_part *part = search->nodes[state->queue[unit][i].node].part;
            if (state->queue[unit][i].warp == warp + 1 &&
                (scoreboard < 0 || part->result == scoreboard || part->reads == scoreboard))
                return true;
        }
    return false;
}

static int partition_of(const struct search *search, const struct state *state, int warp) {
    int slot = warp / search->given->warps;
    return (state->first[slot] + warp % search->given->warps) % search->given->partitions;
}

static bool is_ready(const struct search *search, const struct state *state, int number) {
    const struct warp *warp = &state->warps[number];
    if (warp->node == ENDED || warp->ready || warp->arrived)
        return false;
    const struct node *node = &search->nodes[warp->node];
    const gs_machine_class *row = class_of(search, node);
    for (int i = 0; i < CASE_SCOREBOARDS; i++)
        if (node->part->waits >> i & 1 && (warp->scoreboard[i] || is_pending(state, number, search, i)))
            return false;
    for (size_t unit = 0; unit < search->given->machine->units.count; unit++)
        if (search->given->machine->units.data[unit].scope == GS_UNIT_OF_PARTITION && row->held_millicycles[unit] &&
            state->held[partition_of(search, state, number)][unit])
            return false;
    return true;
}

static void set_at_least(uint8_t *time, int64_t cycles) {
    *time = (uint8_t)gs_max(*time, cycles);
}

static void begin_latency(struct warp *warp, const gs_body_part *part, int64_t latency) {
    set_at_least(&warp->all, latency);
    if (part->result < CASE_SCOREBOARDS)
        set_at_least(&warp->scoreboard[part->result], latency);
    if (part->reads < CASE_SCOREBOARDS)
        set_at_least(&warp->scoreboard[part->reads], latency);
}

/* The unit with a queue that a class needs; -1: none. */
static int queue_of(const struct search *search, const gs_machine_class *row) {
    for (size_t unit = 0; unit < search->given->machine->units.count; unit++)
        if (search->given->machine->units.data[unit].scope != GS_UNIT_OF_PARTITION && row->held_millicycles[unit])
            return (int)unit;
    return -1;
}

static int64_t longest_from(struct search *search, const struct state *state);
static int64_t choose(struct search *search, const struct state *state, int step);

static void release_barrier(const struct search *search, struct state *state, int slot, int64_t cycles) {
    int from = slot * search->given->warps, to = from + search->given->warps;
    for (int i = from; i < to; i++)
        if (!state->warps[i].arrived)
            return;
    for (int i = from; i < to; i++) {
        state->warps[i].arrived = 0;
        set_at_least(&state->warps[i].ready, cycles);
        set_at_least(&state->warps[i].all, cycles);
    }
}

/* Whether an instruction can be slow now. */
static bool can_be_slow(const struct search *search, const struct state *state, const gs_machine_class *row) {
    return strcmp(row->name, "memory") == 0 && state->slow_done < search->given->slow_most;
}

static void begin_slow(struct search *search, struct state *state, int64_t latency) {
    int at = 0;
    while (at < MOST_SLOW && state->slow[at].left)
        at++;
    if (at == MOST_SLOW) {
        search->failed = true;
        return;
    }
    state->slow[at].left = (uint8_t)latency;
    state->slow[at].most = (uint8_t)(state->slow_done + 1);
}

/* Issues the next instruction of a warp, with each latency and each next node that it can have: half as long, as the
   machine says, and slow. */
static int64_t issue(struct search *search, const struct state *state, int number, int step) {
    int64_t worst = 0;
    const struct node *node = &search->nodes[state->warps[number].node];
    const gs_machine_class *row = class_of(search, node);
    int unit = queue_of(search, row);
    int shortest = search->given->early && unit < 0 ? -1 : 0, longest = unit < 0 && can_be_slow(search, state, row);
    for (int length = shortest; length <= longest; length++)
        for (int next = 0; next < 64; next++) {
            if (!(node->next >> next & 1))
                continue;
            struct state after = *state;
            struct warp *warp = &after.warps[number];
            int64_t latency = length < 0 ? gs_max(row->latency_cycles / 2, 1) : row->latency_cycles;
            if (length > 0)
                begin_slow(search, &after, latency += search->given->slow_cycles);
            warp->ready = (uint8_t)gs_max(node->part->stall, 1);
            set_at_least(&warp->all, warp->ready);
            for (size_t i = 0; i < search->given->machine->units.count; i++)
                if (search->given->machine->units.data[i].scope == GS_UNIT_OF_PARTITION && row->held_millicycles[i])
                    after.held[partition_of(search, state, number)][i] = (uint8_t)(row->held_millicycles[i] / 1000);
            int at = 0;
            while (unit >= 0 && after.queue[unit][at].warp)
                at++;
            if (at == MOST_QUEUE - 1)
                search->failed = true;
            else if (unit >= 0)
                after.queue[unit][at] = (struct waiting){(uint8_t)(number + 1), warp->node};
            else
                begin_latency(warp, node->part, latency);
            warp->node = (uint8_t)next;
            warp->arrived = node->is_barrier;
            if (node->is_barrier)
                release_barrier(search, &after, number / search->given->warps, gs_max(latency, warp->ready));
            worst = gs_max(worst, choose(search, &after, step + 1));
        }
    return worst;
}

static int64_t choose_issue(struct search *search, const struct state *state, int partition, int step) {
    int64_t worst = -1;
    for (int i = 0; i < search->given->slots * search->given->warps && !search->failed; i++)
        if (partition_of(search, state, i) == partition && is_ready(search, state, i))
            worst = gs_max(worst, issue(search, state, i, step));
    return worst < 0 ? choose(search, state, step + 1) : worst;
}

static int64_t choose_served(struct search *search, const struct state *state, int unit, int step) {
    int64_t worst = -1;
    for (int i = 0; i < MOST_QUEUE && state->queue[unit][i].warp && !state->busy[unit] && !search->failed; i++)
        for (int early = 0; early <= search->given->early; early++) {
            struct state after = *state;
            struct waiting *queue = after.queue[unit];
            const struct node *node = &search->nodes[queue[i].node];
            const gs_machine_class *row = class_of(search, node);
            begin_latency(&after.warps[queue[i].warp - 1], node->part,
                          early ? gs_max(row->latency_cycles / 2, 1) : row->latency_cycles);
            after.busy[unit] = (uint8_t)(row->held_millicycles[unit] / 1000);
            memmove(&queue[i], &queue[i + 1], (size_t)(MOST_QUEUE - 1 - i) * sizeof *queue);
            queue[MOST_QUEUE - 1] = (struct waiting){0};
            worst = gs_max(worst, choose(search, &after, step + 1));
        }
    return worst < 0 ? choose(search, state, step + 1) : worst;
}

/* Starts the warps of a block one after the other, with each first node that they can have. */
static int64_t start_warp(struct search *search, const struct state *state, int warp, int step) {
    int64_t worst = 0;
    for (int first = 0; first < 64; first++)
        if (search->start >> first & 1) {
            struct state after = *state;
            after.warps[warp] = (struct warp){.node = (uint8_t)first};
            bool is_last = (warp + 1) % search->given->warps == 0;
            worst =
                gs_max(worst, is_last ? choose(search, &after, step + 1) : start_warp(search, &after, warp + 1, step));
        }
    return worst;
}

static bool slot_is_free(const struct search *search, const struct state *state, int slot) {
    for (int i = slot * search->given->warps; i < (slot + 1) * search->given->warps; i++)
        if (state->warps[i].node != ENDED || state->warps[i].all || is_pending(state, i, search, -1))
            return false;
    return true;
}

static void tick(uint8_t *time) {
    *time = (uint8_t)(*time - (*time > 0));
}

static int64_t end_cycle(struct search *search, const struct state *state) {
    struct state after = *state;
    for (int i = 0; i < CASE_WARPS; i++) {
        tick(&after.warps[i].ready);
        tick(&after.warps[i].all);
        for (int j = 0; j < CASE_SCOREBOARDS; j++)
            tick(&after.warps[i].scoreboard[j]);
    }
    for (int i = 0; i < MOST_SLOW; i++) {
        tick(&after.slow[i].left);
        if (!after.slow[i].left) {
            after.slow_done = (uint8_t)gs_max(after.slow_done, after.slow[i].most);
            after.slow[i].most = 0;
        }
    }
    for (int unit = 0; unit < UNITS; unit++) {
        tick(&after.busy[unit]);
        for (int i = 0; i < CASE_PARTITIONS; i++)
            tick(&after.held[i][unit]);
    }
    int64_t rest = longest_from(search, &after);
    return rest < 0 ? 0 : rest + 1;
}

/* The choices of a cycle, one after the other: blocks that start, what partitions issue, what units serve. */
static int64_t choose(struct search *search, const struct state *state, int step) {
    const body_case *given = search->given;
    if (search->failed)
        return 0;
    if (step < given->slots) {
        if (!state->to_start || !slot_is_free(search, state, step))
            return choose(search, state, step + 1);
        struct state after = *state;
        after.to_start--;
        after.first[step] = state->pointer;
        after.pointer = (uint8_t)((state->pointer + given->warps) % given->partitions);
        return start_warp(search, &after, step * given->warps, step);
    }
    if (step < given->slots + given->partitions)
        return choose_issue(search, state, step - given->slots, step);
    int unit = step - given->slots - given->partitions;
    return unit < UNITS ? choose_served(search, state, unit, step) : end_cycle(search, state);
}

/* ---- all states ---- */

static int32_t *slot_of(struct search *search, const struct state *state) {
    uint64_t at = gs_hash(1, state, sizeof *state) % SLOTS;
    while (search->slots[at] && memcmp(&search->entries[search->slots[at] - 1].state, state, sizeof *state) != 0)
        at = (at + 1) % SLOTS;
    return &search->slots[at];
}

static int64_t longest_from(struct search *search, const struct state *state) {
    bool has_ended = !state->to_start;
    for (int i = 0; i < search->given->slots; i++)
        has_ended = has_ended && slot_is_free(search, state, i);
    if (has_ended || search->failed)
        return 0;
    int32_t *slot = slot_of(search, state);
    if (*slot)
        return search->entries[*slot - 1].value;
    int64_t value = choose(search, state, 0);
    if (search->count == MOST_STATES) {
        search->failed = true;
        return 0;
    }
    search->entries[search->count++] = (struct entry){*state, value};
    *slot_of(search, state) = search->count;
    return value;
}

int64_t body_worst(const body_case *given) {
    struct search search = {.given = given};
    struct state state = {.to_start = (uint8_t)given->blocks};
    search.start = build(&search, 0, given->body->parts.count, LAST, 0);
    search.entries = malloc(MOST_STATES * sizeof *search.entries);
    search.slots = calloc(SLOTS, sizeof *search.slots);
    for (int i = 0; i < CASE_WARPS; i++)
        state.warps[i].node = ENDED;
    int64_t worst = search.entries && search.slots ? longest_from(&search, &state) : -1;
    free(search.entries);
    free(search.slots);
    return search.failed ? -1 : worst;
}
