/*
 * search.c: the exact worst case over all work-conserving schedules.
 *
 * The future depends only on the phase of each warp, and warps in the same phase are interchangeable, so a state is a
 * sorted list of phases. A warp holds a unit only while its instruction executes (the latency is not shorter), so the
 * phases also tell which units are taken. In a cycle each executing warp moves to its next phase. For the waiting
 * warps, every work-conserving selection is tried; each leads to a successor of the state. A state never occurs again,
 * so the longest path to the end is found by a depth-first search that stores the value of each state: the most cycles
 * from it to the end.
 *
 * The successors of a state are tried in the order of an upper bound (the theorems of proven.c for states), and those
 * that cannot be longer than the best so far are skipped. Where the theorems are exact, the search goes directly to a
 * worst schedule.
 *
 * The memory for stored states is limited. At the limit the search stops and reports this.
 */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

typedef uint16_t phase;

enum { MOST_GROUPS = GS_SEARCH_WARPS, CHUNK_ENTRIES = 1 << 12, PROGRESS_EVERY = 1 << 14 };

/* Warps that wait in the same phase. */
struct group {
    phase at;
    int32_t warps, selected;
    int32_t sub_block;
    int16_t unit;
};

/* States still to be visited: a stack, with the successors of each state on the path. */
struct pending {
    phase *states;
    int32_t *bounds;
    size_t count, capacity;
};

struct search {
    const gs_flat *flat;
    const gs_program *program;
    size_t warps;
    bool fair;
    int bottleneck;
    /* by phase: the work of a warp from there to its end */
    int32_t *left_on_unit[GS_MOST_UNITS]; /* cycles for which it holds a place */
    int32_t *left_issues;
    bool issue_can_bind, can_fill[GS_MOST_UNITS];
    /* the stored states: entries of a list of phases and a value, in chunks; and a hash table of their numbers */
    size_t entry_bytes;
    char **chunks;
    size_t chunk_count, chunk_capacity;
    uint32_t *slots; /* number of the entry plus 1 */
    size_t slot_count, entries;
    int64_t bytes, most_bytes;
    struct pending pending;
    const gs_search_options *options;
    bool full, out_of_memory;
};

/* ---- stored states ---- */

static char *entry_at(const struct search *search, size_t number) {
    return search->chunks[number / CHUNK_ENTRIES] + number % CHUNK_ENTRIES * search->entry_bytes;
}

static size_t slot_of(const struct search *search, const phase *state) {
    size_t mask = search->slot_count - 1, at = gs_hash(0, state, search->warps * sizeof *state) & mask;
    while (search->slots[at] &&
           memcmp(entry_at(search, search->slots[at] - 1), state, search->warps * sizeof *state) != 0)
        at = (at + 1) & mask;
    return at;
}

static bool may_take(struct search *search, size_t bytes) {
    if (search->bytes + (int64_t)bytes <= search->most_bytes)
        return true;
    search->full = true;
    return false;
}

static bool grow_slots(struct search *search) {
    size_t count = search->slot_count ? search->slot_count * 2 : 1024;
    if (!may_take(search, count * sizeof *search->slots))
        return false;
    uint32_t *old = search->slots;
    size_t old_count = search->slot_count;
    search->slots = calloc(count, sizeof *search->slots);
    if (!search->slots) {
        search->slots = old;
        search->out_of_memory = true;
        return false;
    }
    search->slot_count = count;
    search->bytes += (int64_t)((count - old_count) * sizeof *old);
    for (size_t i = 0; i < old_count; i++)
        if (old[i])
            search->slots[slot_of(search, (const phase *)(void *)entry_at(search, old[i] - 1))] = old[i];
    free(old);
    return true;
}

static bool grow_chunks(struct search *search) {
    size_t bytes = CHUNK_ENTRIES * search->entry_bytes;
    if (!may_take(search, bytes) ||
        !gs_array_reserve((void **)&search->chunks, search->chunk_count, &search->chunk_capacity, 1, sizeof(char *)))
        return false;
    char *chunk = malloc(bytes);
    if (!chunk) {
        search->out_of_memory = true;
        return false;
    }
    search->chunks[search->chunk_count++] = chunk;
    search->bytes += (int64_t)bytes;
    return true;
}

static bool store_value(struct search *search, const phase *state, int32_t value) {
    if ((search->entries * 2 >= search->slot_count && !grow_slots(search)) ||
        (search->entries == search->chunk_count * CHUNK_ENTRIES && !grow_chunks(search)))
        return false;
    char *entry = entry_at(search, search->entries);
    size_t slot = slot_of(search, state);
    memcpy(entry, state, search->warps * sizeof *state);
    memcpy(entry + search->entry_bytes - sizeof value, &value, sizeof value);
    search->slots[slot] = (uint32_t)++search->entries;
    if (search->options->progress && search->entries % PROGRESS_EVERY == 0)
        search->options->progress(search->options->user, (int64_t)search->entries, search->bytes);
    return true;
}

/* The value of a state, or -1. */
static int32_t stored_value(const struct search *search, const phase *state) {
    int32_t value = -1;
    size_t slot = search->slot_count ? slot_of(search, state) : 0;
    if (search->slot_count && search->slots[slot])
        memcpy(&value, entry_at(search, search->slots[slot] - 1) + search->entry_bytes - sizeof value, sizeof value);
    return value;
}

/* ---- upper bounds of states ---- */

/* Theorem 3 for a state: all work left on the bottleneck, and the work of the last warp elsewhere. */
static int32_t bottleneck_bound(const struct search *search, const phase *state) {
    const int32_t *left = search->left_on_unit[search->bottleneck];
    int32_t bound = search->left_issues[state[0]] - left[state[0]];
    for (size_t i = 0; i < search->warps; i++)
        bound += left[state[i]];
    return bound;
}

/* Theorem 1 for a state, for each warp that may be the last. */
static int32_t general_bound(const struct search *search, const phase *state) {
    const gs_program *program = search->program;
    int64_t work[GS_MOST_UNITS] = {0}, issues = 0, bound = 0;
    for (size_t i = 0; i < search->warps; i++) {
        issues += search->left_issues[state[i]];
        for (size_t unit = 0; unit < program->units.count; unit++)
            work[unit] += search->left_on_unit[unit][state[i]];
    }
    for (size_t i = 0; i < search->warps && state[i] < search->flat->phases; i++) {
        int64_t own = search->flat->phases - state[i];
        if (i && state[i] == state[i - 1])
            continue;
        int64_t delays[GS_MOST_UNITS] = {0};
        for (size_t unit = 0; unit < program->units.count; unit++)
            if (search->left_on_unit[unit][state[i]] && search->can_fill[unit])
                own += delays[unit] =
                    (work[unit] - search->left_on_unit[unit][state[i]]) / program->units.data[unit].warps;
        if (search->issue_can_bind)
            own += gs_issue_delay(program, issues - search->left_issues[state[i]], delays);
        bound = gs_max(bound, own);
    }
    return (int32_t)gs_min(bound, INT32_MAX);
}

static int32_t bound_of(const struct search *search, const phase *state) {
    int32_t bound = general_bound(search, state);
    return search->bottleneck < 0 ? bound : (int32_t)gs_min(bound, bottleneck_bound(search, state));
}

/* ---- the successors of a state ---- */

struct choice {
    struct search *search;
    struct group groups[MOST_GROUPS];
    size_t group_count;
    int64_t free[GS_MOST_UNITS];  /* free places of each unit */
    int64_t issue;                /* how many more warps may be selected */
    phase moved[GS_SEARCH_WARPS]; /* the phases after the cycle of the warps that do not wait */
    size_t moved_count;
    bool failed;
};

static bool warp_waits(const gs_flat *flat, phase at) {
    return at < flat->phases && flat->start[flat->instruction[at]] == at;
}

/* Divides the warps of a state into those that wait, in groups by phase, and those that execute or have ended. */
static void find_groups(struct choice *choice, const phase *state) {
    const struct search *search = choice->search;
    const gs_flat *flat = search->flat;
    for (size_t unit = 0; unit < search->program->units.count; unit++)
        choice->free[unit] = search->program->units.data[unit].warps;
    choice->issue = search->program->issue;
    for (size_t i = 0; i < search->warps; i++) {
        int32_t instruction = state[i] < flat->phases ? flat->instruction[state[i]] : -1;
        if (instruction < 0) {
            choice->moved[choice->moved_count++] = state[i];
        } else if (!warp_waits(flat, state[i])) {
            int16_t unit = flat->unit[instruction];
            choice->free[unit] -= state[i] - flat->start[instruction] < search->program->units.data[unit].cycles;
            choice->moved[choice->moved_count++] = (phase)(state[i] + 1);
        } else if (i && state[i] == state[i - 1]) {
            choice->groups[choice->group_count - 1].warps++;
        } else {
            choice->groups[choice->group_count++] = (struct group){
                .at = state[i], .warps = 1, .sub_block = flat->sub_block[instruction], .unit = flat->unit[instruction]};
        }
    }
}

/* Whether the selection is work-conserving: no warp is left out for which there is a place. If the search is for fair
   schedules, no warp of an earlier sub-block is left out in favor of a later one either. `free` and `issue` are what
   the selection leaves. */
static bool is_allowed(const struct choice *choice) {
    for (size_t i = 0; i < choice->group_count; i++) {
        const struct group *left = &choice->groups[i];
        if (left->selected == left->warps)
            continue;
        bool unit_is_full = choice->free[left->unit] == 0;
        if (!unit_is_full && choice->issue > 0)
            return false;
        for (size_t j = 0; choice->search->fair && j < choice->group_count; j++) {
            const struct group *other = &choice->groups[j];
            if (other->selected && other->sub_block > left->sub_block && (other->unit == left->unit || !unit_is_full))
                return false;
        }
    }
    return true;
}

static void sort_phases(phase *state, size_t count) {
    for (size_t i = 1; i < count; i++) {
        phase moving = state[i];
        size_t at = i;
        for (; at && state[at - 1] > moving; at--)
            state[at] = state[at - 1];
        state[at] = moving;
    }
}

static bool reserve_pending(struct search *search) {
    struct pending *pending = &search->pending;
    if (pending->count < pending->capacity)
        return true;
    size_t capacity = pending->capacity ? pending->capacity * 2 : 256;
    if (!may_take(search, (capacity - pending->capacity) * (search->warps * sizeof(phase) + sizeof(int32_t))))
        return false;
    phase *states = realloc(pending->states, capacity * search->warps * sizeof *states);
    if (states)
        pending->states = states;
    int32_t *bounds = states ? realloc(pending->bounds, capacity * sizeof *bounds) : NULL;
    if (!bounds) {
        search->out_of_memory = true;
        return false;
    }
    pending->bounds = bounds;
    search->bytes += (int64_t)((capacity - pending->capacity) * (search->warps * sizeof(phase) + sizeof(int32_t)));
    pending->capacity = capacity;
    return true;
}

static void add_successor(struct choice *choice) {
    struct search *search = choice->search;
    if (!reserve_pending(search)) {
        choice->failed = true;
        return;
    }
    struct pending *pending = &search->pending;
    phase *state = pending->states + pending->count * search->warps;
    size_t count = choice->moved_count;
    memcpy(state, choice->moved, count * sizeof *state);
    for (size_t i = 0; i < choice->group_count; i++)
        for (int32_t j = 0; j < choice->groups[i].warps; j++)
            state[count++] = (phase)(choice->groups[i].at + (j < choice->groups[i].selected));
    sort_phases(state, count);
    pending->bounds[pending->count++] = bound_of(search, state);
}

/* Tries every number of selected warps of each group, group by group. */
static void choose_warps(struct choice *choice, size_t number) {
    if (number == choice->group_count) {
        if (is_allowed(choice))
            add_successor(choice);
        return;
    }
    struct group *group = &choice->groups[number];
    int64_t most = gs_min(group->warps, gs_min(choice->free[group->unit], choice->issue));
    for (int64_t selected = most; selected >= 0 && !choice->failed; selected--) {
        group->selected = (int32_t)selected;
        choice->free[group->unit] -= selected;
        choice->issue -= selected;
        choose_warps(choice, number + 1);
        choice->free[group->unit] += selected;
        choice->issue += selected;
    }
}

/* ---- the search ---- */

/* Removes the state with the highest bound among the pending ones from `from` on. */
static void take_best(struct search *search, size_t from, phase *state, int32_t *bound) {
    struct pending *pending = &search->pending;
    size_t best = from, last = --pending->count;
    for (size_t i = from + 1; i <= last; i++)
        if (pending->bounds[i] > pending->bounds[best])
            best = i;
    size_t bytes = search->warps * sizeof *state;
    *bound = pending->bounds[best];
    memcpy(state, pending->states + best * search->warps, bytes);
    memmove(pending->states + best * search->warps, pending->states + last * search->warps, bytes);
    pending->bounds[best] = pending->bounds[last];
}

/* Adds the successors of a state to the pending ones. False: no memory. Not inlined, so that the frames of `longest`,
   which calls itself once for each cycle, stay small. */
__attribute__((noinline)) static bool list_successors(struct search *search, const phase *state) {
    struct choice choice = {.search = search};
    find_groups(&choice, state);
    choose_warps(&choice, 0);
    return !choice.failed;
}

/* The most cycles from `state` to the end, or -1: the search must stop. */
static int32_t longest_from(struct search *search, const phase *state) {
    if (state[0] == search->flat->phases)
        return 0;
    int32_t value = stored_value(search, state), best = 0;
    if (value >= 0)
        return value;
    size_t from = search->pending.count;
    if (!list_successors(search, state))
        return -1;
    while (search->pending.count > from) {
        phase next[GS_SEARCH_WARPS];
        int32_t bound;
        take_best(search, from, next, &bound);
        if (bound + 1 <= best)
            break;
        value = longest_from(search, next);
        if (value < 0)
            return -1;
        best = value + 1 > best ? value + 1 : best;
    }
    search->pending.count = from;
    return store_value(search, state, best) ? best : -1;
}

/* ---- the schedule that was found ---- */

/* Removes `value` from a list of phases. False: it is not in the list. */
static bool remove_phase(phase *list, size_t *count, phase value) {
    for (size_t i = 0; i < *count; i++)
        if (list[i] == value) {
            list[i] = list[--*count];
            return true;
        }
    return false;
}

/* Moves the warps of the schedule so that their phases become those of `next`. For warps that execute or have ended
   this is clear. Of the waiting warps, beginning with the earliest phase, as many stay in their phase as `next` has
   there. */
static void advance_warps(const struct search *search, phase *warps, const phase *next, int32_t cycle,
                          gs_schedule *schedule) {
    const gs_flat *flat = search->flat;
    phase left[GS_SEARCH_WARPS], waiting[GS_SEARCH_WARPS];
    size_t count = search->warps, waiting_count = 0;
    memcpy(left, next, count * sizeof *left);
    for (size_t i = 0; i < search->warps; i++) {
        if (warp_waits(flat, warps[i])) {
            waiting[waiting_count++] = warps[i];
            continue;
        }
        warps[i] = (phase)(warps[i] + (warps[i] < flat->phases));
        remove_phase(left, &count, warps[i]);
    }
    sort_phases(waiting, waiting_count);
    bool moved[GS_SEARCH_WARPS] = {false};
    for (size_t at = 0; at < waiting_count; at++)
        if (!remove_phase(left, &count, waiting[at]))
            moved[at] = remove_phase(left, &count, (phase)(waiting[at] + 1));
    for (size_t at = 0; at < waiting_count; at++)
        for (size_t i = 0; moved[at] && i < search->warps; i++)
            if (warps[i] == waiting[at] && warp_waits(flat, warps[i])) {
                int64_t instruction = (int64_t)i * schedule->instructions + flat->instruction[warps[i]];
                if (schedule->issued[instruction])
                    continue;
                schedule->issued[instruction] = cycle;
                moved[at] = false;
            }
    for (size_t i = 0; i < search->warps; i++)
        if (warp_waits(flat, warps[i]) &&
            schedule->issued[(int64_t)i * schedule->instructions + flat->instruction[warps[i]]] == cycle)
            warps[i]++;
}

/* Whether `value` is the stored value of a state. */
static bool is_worth(const struct search *search, const phase *state, int32_t value) {
    return state[0] == search->flat->phases ? value == 0 : stored_value(search, state) == value;
}

static gs_code trace_schedule(struct search *search, int32_t cycles, gs_schedule *schedule, gs_error *error) {
    phase warps[GS_SEARCH_WARPS] = {0}, state[GS_SEARCH_WARPS] = {0};
    *schedule =
        (gs_schedule){.warps = (int64_t)search->warps, .instructions = search->flat->instructions, .cycles = cycles};
    schedule->issued = calloc(search->warps * (size_t)search->flat->instructions, sizeof *schedule->issued);
    if (!schedule->issued)
        return gs_fail_memory(error);
    for (int32_t cycle = 1; cycle <= cycles; cycle++) {
        search->pending.count = 0;
        if (!list_successors(search, state))
            return gs_fail_memory(error);
        size_t successor = 0;
        while (successor < search->pending.count &&
               !is_worth(search, search->pending.states + successor * search->warps, cycles - cycle))
            successor++;
        memcpy(state, search->pending.states + successor * search->warps, search->warps * sizeof *state);
        advance_warps(search, warps, state, cycle, schedule);
    }
    return GS_OK;
}

/* ---- a search ---- */

static bool count_work_left(struct search *search) {
    const gs_flat *flat = search->flat;
    size_t capacity = (size_t)flat->phases + 1;
    search->left_issues = calloc(capacity, sizeof *search->left_issues);
    bool made = search->left_issues != NULL;
    for (size_t unit = 0; unit < search->program->units.count && made; unit++)
        made = (search->left_on_unit[unit] = calloc(capacity, sizeof **search->left_on_unit)) != NULL;
    for (int32_t at = flat->phases - 1; at >= 0 && made; at--) {
        int32_t instruction = flat->instruction[at], unit = flat->unit[instruction];
        search->left_issues[at] = search->left_issues[at + 1] + warp_waits(flat, (phase)at);
        for (size_t i = 0; i < search->program->units.count; i++)
            search->left_on_unit[i][at] = search->left_on_unit[i][at + 1];
        search->left_on_unit[unit][at] += at - flat->start[instruction] < search->program->units.data[unit].cycles;
    }
    return made;
}

static void search_clear(struct search *search) {
    for (size_t i = 0; i < search->chunk_count; i++)
        free(search->chunks[i]);
    for (size_t i = 0; i < GS_MOST_UNITS; i++)
        free(search->left_on_unit[i]);
    free(search->left_issues);
    free(search->chunks);
    free(search->slots);
    free(search->pending.states);
    free(search->pending.bounds);
}

/* If the search had to stop: the longer of two schedules. */
static gs_code find_some(const gs_flat *flat, int64_t warps, bool fair, gs_worst *worst, gs_error *error) {
    gs_code code = GS_OK;
    for (gs_order_rule rule = GS_WARP_BY_WARP; rule <= GS_ROUND_ROBIN_WARPS && code == GS_OK; rule++) {
        gs_schedule schedule;
        code = gs_schedule_play(flat, warps, rule, fair, &schedule, error);
        if (code == GS_OK && schedule.cycles > worst->cycles) {
            gs_schedule_clear(&worst->schedule);
            worst->schedule = schedule;
            worst->cycles = schedule.cycles;
        } else {
            gs_schedule_clear(&schedule);
        }
    }
    return code;
}

static gs_code check_size(const gs_flat *flat, int64_t warps, char *why, size_t size, gs_error *error) {
    int64_t proven;
    gs_code code = gs_proven_cycles(flat->program, warps, &proven, error);
    if (code == GS_OK && warps > GS_SEARCH_WARPS)
        snprintf(why, size, "the search goes up to %d warps, not %lld", GS_SEARCH_WARPS, (long long)warps);
    else if (code == GS_OK && proven > GS_SEARCH_CYCLES)
        snprintf(why, size, "the search goes up to %d cycles, but this program may take %lld", GS_SEARCH_CYCLES,
                 (long long)proven);
    return code;
}

gs_code gs_search(const gs_flat *flat, int64_t warps, const gs_search_options *options, gs_worst *worst,
                  gs_error *error) {
    *worst = (gs_worst){0};
    gs_code code = check_size(flat, warps, worst->stopped, sizeof worst->stopped, error);
    if (code != GS_OK || worst->stopped[0])
        return code;
    struct search search = {.flat = flat,
                            .program = flat->program,
                            .warps = (size_t)warps,
                            .fair = options->fair,
                            .options = options,
                            .bottleneck = gs_proven_bottleneck(flat->program),
                            .most_bytes = options->memory_bytes ? options->memory_bytes : GS_SEARCH_BYTES};
    int64_t places = 0;
    for (size_t i = 0; i < flat->program->units.count; i++) {
        places += flat->program->units.data[i].warps;
        search.can_fill[i] = gs_unit_can_fill(flat->program, i);
    }
    search.issue_can_bind = flat->program->issue < places;
    search.entry_bytes = (search.warps * sizeof(phase) + 3) / 4 * 4 + sizeof(int32_t);
    phase start[GS_SEARCH_WARPS] = {0};
    int32_t cycles = count_work_left(&search) ? longest_from(&search, start) : -1;
    worst->states = (int64_t)search.entries;
    if (cycles >= 0) {
        worst->exact = true;
        worst->cycles = cycles;
        code = trace_schedule(&search, cycles, &worst->schedule, error);
    } else if (search.full) {
        snprintf(worst->stopped, sizeof worst->stopped,
                 "the search stopped at its memory limit of %lld MB, after %lld states",
                 (long long)(search.most_bytes >> 20), (long long)search.entries);
        code = find_some(flat, warps, options->fair, worst, error);
    } else {
        code = gs_fail_memory(error);
    }
    search_clear(&search);
    if (code != GS_OK)
        gs_worst_clear(worst);
    return code;
}

void gs_worst_clear(gs_worst *worst) {
    gs_schedule_clear(&worst->schedule);
    *worst = (gs_worst){0};
}
