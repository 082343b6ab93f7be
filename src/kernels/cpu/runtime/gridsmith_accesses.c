/*
 * gridsmith_accesses.c: how many transactions the accesses of a kernel make. src/kernels/cpu/rounds_accesses.c counts
 * with it.
 *
 * A group has the lanes of a warp that execute an access in the same rounds of loops, and the place that each accesses.
 * At the end of a block they are counted: the number of an access is the most of all its groups. Global memory is
 * accessed by sectors of 32 bytes, and the buffer may begin anywhere in one; shared memory by passes over 32 banks of 4
 * bytes. What is wider than 4 bytes is done by halves or quarters of the warp, and each counts as the largest of them.
 *
 * A group also knows the lanes that come to the round, where some may come past the access. Machine code may execute it
 * for these, too (docs/bounds.md, Theorem 13), at a place that is not known: one transaction more for each.
 *
 * Groups are found by a hash of the rounds. Where two are mistaken for one, the number only gets larger: with other
 * lanes as well, or, if a lane comes a second time with another place, it is not known.
 *
 * Two things save time, for lanes run one after another, and mostly do the same. Each group knows the one that a lane
 * came to after it; there the next lane looks first. And the places of a group are those of a pattern, moved: its lanes
 * came to the group in the same order, with the same distances from the place of the first. A pattern is counted once.
 * One lane more makes another pattern, behind the first; each pattern knows the one that was last behind it. Where
 * there are too many patterns, a group has a list of places for itself.
 */
#include "gridsmith_ptx.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { LANES = 32, BANKS = 32, SECTOR = 32, WORD = 4, NOT_KNOWN = 32, GROUPS = 1 << 18, MOST_GROUPS = GROUPS / 4 * 3 };
/* The first patterns are those without a lane, of each width, in global and in shared memory. Number 0 is none. */
enum { FIRST_PATTERN = 1, WIDTHS = 5, BEGUN_PATTERNS = FIRST_PATTERN + 2 * WIDTHS };
#ifndef PATTERNS /* fewer in a test */
enum { PATTERNS = 1 << 15 };
#endif

/* A group without a list has a pattern; one with a list has the number of the list behind all patterns. */
struct gs_access_group {
    uint64_t rounds, first_place;
    uint32_t *most;
    uint32_t pattern, present;    /* present: the lanes that come to the round, where they are told */
    uint32_t next : 24, warp : 8; /* next: the group to which a lane came after this one, or 0 */
};

struct pattern {
    uint64_t place; /* of the last lane, from that of the first one */
    uint32_t before, behind, lanes;
    uint8_t lane, shift, is_shared, count; /* shift: of the bytes of a lane; count: 0: not counted */
};

struct list {
    uint64_t places[LANES];
    uint32_t lanes, pattern; /* pattern: one without a lane */
};

struct slot {
    uint32_t stamp, group;
};

static _Thread_local struct counts {
    uint32_t stamp; /* of the slots of the block that runs; others are free */
    uint32_t group_count, pattern_count, list_count;
    struct slot slots[GROUPS];
    struct gs_access_group groups[1 + MOST_GROUPS] __attribute__((aligned(64)));
    uint32_t pattern_slots[2 * PATTERNS];
    struct pattern patterns[PATTERNS];
    struct list lists[MOST_GROUPS];
} * counts;

static void raise_most(uint32_t *most, uint32_t count) {
    uint32_t before = __atomic_load_n(most, __ATOMIC_RELAXED);
    while (count > before && !__atomic_compare_exchange_n(most, &before, count, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void begin_patterns(void) {
    memset(counts->pattern_slots, 0, sizeof counts->pattern_slots);
    counts->pattern_count = BEGUN_PATTERNS;
    for (uint32_t i = FIRST_PATTERN; i < BEGUN_PATTERNS; i++)
        counts->patterns[i] =
            (struct pattern){.shift = (uint8_t)((i - FIRST_PATTERN) / 2), .is_shared = (i - FIRST_PATTERN) % 2};
    counts->patterns[0].lane = LANES;
}

static int begin_counts(void) {
    void *memory =
        mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return 0;
    counts = memory;
    counts->stamp = 1;
    begin_patterns();
    return 1;
}

/* ---- groups ---- */

/* The group of a lane, which may be new; NULL: there are too many. */
__attribute__((noinline)) static struct gs_access_group *find_group(const gs_ptx_thread *t, uint32_t *most,
                                                                    uint64_t rounds, uint32_t pattern) {
    if (!counts && !begin_counts())
        return NULL;
    uint64_t hash = ptx_round(ptx_round(rounds, (uint64_t)(uintptr_t)most), t->warp);
    for (size_t i = hash >> 20;; i++) {
        struct slot *slot = &counts->slots[i % GROUPS];
        struct gs_access_group *group = &counts->groups[slot->group];
        if (slot->stamp == counts->stamp) {
            if (group->rounds == rounds && group->most == most && group->warp == t->warp)
                return group;
            continue;
        }
        if (counts->group_count == MOST_GROUPS)
            return NULL;
        *slot = (struct slot){counts->stamp, ++counts->group_count};
        group = &counts->groups[slot->group];
        *group = (struct gs_access_group){.rounds = rounds, .most = most, .pattern = pattern, .warp = t->warp};
        return group;
    }
}

/* ---- patterns ---- */

/* The pattern with one lane more, which may be new; 0: there are too many. */
static uint32_t find_pattern(uint32_t before, uint32_t lane, uint64_t place) {
    uint64_t hash = ptx_round(ptx_round(ptx_round(0, before), lane), place);
    for (size_t i = hash >> 20;; i++) {
        uint32_t *slot = &counts->pattern_slots[i % (2 * PATTERNS)];
        struct pattern *pattern = &counts->patterns[*slot], *old = &counts->patterns[before];
        if (*slot && pattern->before == before && pattern->lane == lane && pattern->place == place)
            return *slot;
        if (*slot)
            continue;
        if (counts->pattern_count == PATTERNS)
            return 0;
        *slot = counts->pattern_count++;
        counts->patterns[*slot] = (struct pattern){.place = place,
                                                   .before = before,
                                                   .lanes = old->lanes | 1u << lane,
                                                   .lane = (uint8_t)lane,
                                                   .shift = old->shift,
                                                   .is_shared = old->is_shared};
        return *slot;
    }
}

/* The pattern without a lane of this one. Gets the place of each lane. */
static uint32_t get_places(const struct gs_access_group *group, uint32_t pattern, uint64_t *places) {
    for (; counts->patterns[pattern].before; pattern = counts->patterns[pattern].before)
        places[counts->patterns[pattern].lane] = counts->patterns[pattern].place + group->first_place;
    return pattern;
}

static struct list *make_list(struct gs_access_group *group) {
    struct list *list = &counts->lists[counts->list_count];
    list->lanes = counts->patterns[group->pattern].lanes;
    list->pattern = get_places(group, group->pattern, list->places);
    group->pattern = PATTERNS + counts->list_count++;
    return list;
}

/* False: the lane has been there, at another place. */
static int add_to_list(struct list *list, uint32_t lane, uint64_t place) {
    if (list->lanes >> lane & 1)
        return list->places[lane] == place;
    list->lanes |= 1u << lane;
    list->places[lane] = place;
    return 1;
}

static int add_to_pattern(struct gs_access_group *group, uint32_t lane, uint64_t place) {
    struct pattern *pattern = &counts->patterns[group->pattern];
    if (pattern->lanes >> lane & 1) {
        uint64_t places[LANES];
        get_places(group, group->pattern, places);
        return places[lane] == place;
    }
    uint32_t behind = find_pattern(group->pattern, lane, place - group->first_place);
    if (!behind)
        return add_to_list(make_list(group), lane, place);
    group->pattern = pattern->behind = behind;
    return 1;
}

/* A lane that does not do what the last one in this pattern has done. */
__attribute__((noinline)) static void add_lane(struct gs_access_group *group, uint32_t lane, uint64_t place) {
    struct list *list = group->pattern < PATTERNS ? NULL : &counts->lists[group->pattern - PATTERNS];
    if (!(list ? add_to_list(list, lane, place) : add_to_pattern(group, lane, place)))
        raise_most(group->most, NOT_KNOWN);
}

/* ---- counting ---- */

/* The places of lanes that are served together, in order. */
static uint32_t sort_places(const uint64_t *of_lanes, uint32_t lanes, uint32_t first, uint32_t end, uint64_t *places) {
    uint32_t count = 0;
    for (uint32_t lane = first; lane < end; lane++) {
        uint32_t at = count;
        if (!(lanes >> lane & 1))
            continue;
        for (; at && places[at - 1] > of_lanes[lane]; at--)
            places[at] = places[at - 1];
        places[at] = of_lanes[lane];
        count++;
    }
    return count;
}

/* The most sectors of places that are so near that they may share some, wherever the first one is in its sector. */
static uint32_t count_sectors(const uint64_t *places, uint32_t count, uint32_t bytes) {
    uint32_t most = 0;
    for (uint32_t shift = 0; shift < SECTOR; shift += bytes) {
        uint32_t sectors = 1;
        for (uint32_t i = 1; i < count; i++)
            sectors += (places[i] - places[0] + shift) / SECTOR != (places[i - 1] - places[0] + shift) / SECTOR;
        most = sectors > most ? sectors : most;
    }
    return most;
}

static uint32_t count_all_sectors(const uint64_t *places, uint32_t count, uint32_t bytes) {
    uint32_t sectors = 0;
    for (uint32_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && places[end] + bytes - places[end - 1] <= SECTOR;)
            end++;
        sectors += end == i + 1 ? 1 : count_sectors(places + i, end - i, bytes);
    }
    return sectors;
}

/* The most words of one bank. */
static uint32_t count_passes(const uint64_t *places, uint32_t count, uint32_t bytes) {
    uint32_t words[BANKS] = {0}, most = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t word = places[i] / WORD; word < (places[i] + bytes) / WORD && (!i || places[i] != places[i - 1]);
             word++)
            if (++words[word % BANKS] > most)
                most = words[word % BANKS];
    return most;
}

static uint32_t count_places(const uint64_t *of_lanes, uint32_t lanes, const struct pattern *pattern) {
    uint32_t bytes = 1u << pattern->shift, parts = bytes > WORD ? bytes / WORD : 1, together = LANES / parts, most = 0;
    for (uint32_t first = 0; first < LANES; first += together) {
        uint64_t places[LANES];
        uint32_t count = sort_places(of_lanes, lanes, first, first + together, places);
        uint32_t now =
            parts * (pattern->is_shared ? count_passes(places, count, bytes) : count_all_sectors(places, count, bytes));
        most = now > most ? now : most;
    }
    return most;
}

/* The same wherever the first lane is: shared places are multiples of their width. */
static uint32_t count_pattern(const struct gs_access_group *group) {
    struct pattern *pattern = &counts->patterns[group->pattern];
    if (!pattern->count) {
        uint64_t places[LANES];
        get_places(group, group->pattern, places);
        pattern->count = (uint8_t)count_places(places, pattern->lanes, pattern);
    }
    return pattern->count;
}

/* The most lanes of those that are served together, for each part of the warp. */
static uint32_t count_missing(uint32_t lanes, const struct pattern *pattern) {
    uint32_t parts = pattern->shift > 2 ? 1u << (pattern->shift - 2) : 1, together = LANES / parts, most = 0;
    for (uint32_t first = 0; lanes && first < LANES; first += together) {
        uint32_t now = (uint32_t)__builtin_popcount(lanes >> first & (together < LANES ? (1u << together) - 1 : ~0u));
        most = now > most ? now : most;
    }
    return parts * most;
}

static uint32_t count_group(const struct gs_access_group *group) {
    const struct list *list = group->pattern >= PATTERNS ? &counts->lists[group->pattern - PATTERNS] : NULL;
    const struct pattern *pattern = &counts->patterns[list ? list->pattern : group->pattern];
    uint32_t lanes = list ? list->lanes : pattern->lanes;
    return (list ? count_places(list->places, lanes, pattern) : count_pattern(group)) +
           count_missing(group->present & ~lanes, pattern);
}

void gs_host_block_ended(void) {
    for (uint32_t i = 1; counts && i <= counts->group_count; i++)
        raise_most(counts->groups[i].most, count_group(&counts->groups[i]));
    if (!counts)
        return;
    if (counts->pattern_count == PATTERNS)
        begin_patterns();
    counts->group_count = counts->list_count = 0;
    counts->stamp++;
}

/* The group that a lane comes to, which may be new; NULL: its number is not known. */
__attribute__((noinline)) static struct gs_access_group *
come_elsewhere(gs_ptx_thread *t, uint32_t *most, uint32_t is_shared, uint32_t bytes, uint64_t rounds) {
    uint32_t pattern = FIRST_PATTERN + 2 * (uint32_t)__builtin_ctz(bytes) + is_shared;
    struct gs_access_group *group = find_group(t, most, rounds, pattern);
    if (!group || (is_shared && bytes < WORD)) {
        raise_most(most, NOT_KNOWN);
        return NULL;
    }
    if (t->group)
        t->group->next = (uint32_t)(group - counts->groups);
    return group;
}

/* Mostly the group to which another lane came after this one's last. */
static inline struct gs_access_group *come(gs_ptx_thread *t, uint32_t *most, uint32_t is_shared, uint32_t bytes,
                                           uint64_t rounds) {
    if (__atomic_load_n(most, __ATOMIC_RELAXED) >= NOT_KNOWN)
        return NULL;
    struct gs_access_group *group = t->group ? &counts->groups[t->group->next] : NULL;
    if (!group || group->rounds != rounds || group->most != most)
        group = come_elsewhere(t, most, is_shared, bytes, rounds);
    if (group)
        t->group = group;
    return group;
}

void ptx_present(gs_ptx_thread *t, uint32_t *most, uint32_t is_shared, uint32_t bytes, uint64_t rounds) {
    struct gs_access_group *group = come(t, most, is_shared, bytes, rounds);
    if (group)
        group->present |= 1u << t->lane;
}

void ptx_access(gs_ptx_thread *t, uint32_t *most, uint32_t is_shared, uint32_t bytes, uint64_t place, uint64_t rounds) {
    struct gs_access_group *group = come(t, most, is_shared, bytes, rounds);
    if (!group)
        return;
    if (group->pattern < BEGUN_PATTERNS)
        group->first_place = place;
    if (group->pattern < PATTERNS) {
        uint32_t behind = counts->patterns[group->pattern].behind;
        const struct pattern *next = &counts->patterns[behind];
        if (next->lane == t->lane && next->place == place - group->first_place) {
            group->pattern = behind;
            return;
        }
    }
    add_lane(group, t->lane, place);
}
