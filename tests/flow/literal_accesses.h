/*
 * literal_accesses.h: what src/kernels/cpu/runtime/gridsmith_accesses.c computes, slowly: each group is found by its
 * hash, has a list of places, and is counted for itself.
 */
#ifndef LITERAL_ACCESSES_H
#define LITERAL_ACCESSES_H

#include "kernels/cpu/runtime/gridsmith_ptx.h"

#include <stdlib.h>

enum { LITERAL_GROUPS = 1 << 18, MOST_LITERAL_GROUPS = LITERAL_GROUPS / 4 * 3 };

struct literal_group {
    uint64_t stamp, rounds;
    uint32_t *most;
    uint32_t warp, lanes, present; /* a bit for each */
    uint32_t bytes, is_shared;
    uint64_t places[32];
};

static struct {
    struct literal_group *data;
    uint64_t stamp; /* of the groups of the block that runs; others are free */
    uint32_t count, slots[MOST_LITERAL_GROUPS];
} * literal_groups;

static void literal_raise_most(uint32_t *most, uint32_t count) {
    uint32_t before = __atomic_load_n(most, __ATOMIC_RELAXED);
    while (count > before && !__atomic_compare_exchange_n(most, &before, count, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static int literal_make_groups(void) {
    if (literal_groups)
        return 1;
    struct literal_group *data = calloc(LITERAL_GROUPS, sizeof *data);
    literal_groups = data ? calloc(1, sizeof *literal_groups) : NULL;
    if (literal_groups)
        literal_groups->data = data, literal_groups->stamp = 1;
    return literal_groups != NULL;
}

/* The group of a lane, which may be new; NULL: there are too many. */
static struct literal_group *literal_find_group(const gs_ptx_thread *t, uint32_t *most, uint64_t rounds) {
    if (!literal_make_groups())
        return NULL;
    uint64_t hash = ptx_round(ptx_round(rounds, (uint64_t)(uintptr_t)most), t->warp);
    for (size_t i = hash >> 20;; i++) {
        struct literal_group *group = &literal_groups->data[i % LITERAL_GROUPS];
        if (group->stamp == literal_groups->stamp) {
            if (group->rounds == rounds && group->most == most && group->warp == t->warp)
                return group;
            continue;
        }
        if (literal_groups->count == MOST_LITERAL_GROUPS)
            return NULL;
        literal_groups->slots[literal_groups->count++] = (uint32_t)(i % LITERAL_GROUPS);
        group->stamp = literal_groups->stamp;
        group->rounds = rounds;
        group->most = most;
        group->warp = t->warp;
        group->lanes = group->present = 0;
        return group;
    }
}

/* The places of lanes that are served together, in order. */
static uint32_t literal_sort_places(const struct literal_group *group, uint32_t first, uint32_t end, uint64_t *places) {
    uint32_t count = 0;
    for (uint32_t lane = first; lane < end; lane++) {
        uint32_t at = count;
        if (!(group->lanes >> lane & 1))
            continue;
        for (; at && places[at - 1] > group->places[lane]; at--)
            places[at] = places[at - 1];
        places[at] = group->places[lane];
        count++;
    }
    return count;
}

/* The most sectors of places that are so near that they may share some, wherever the first one is in its sector. */
static uint32_t literal_count_sectors(const uint64_t *places, uint32_t count, uint32_t bytes) {
    uint32_t most = 0;
    for (uint32_t shift = 0; shift < 32; shift += bytes) {
        uint32_t sectors = 1;
        for (uint32_t i = 1; i < count; i++)
            sectors += (places[i] - places[0] + shift) / 32 != (places[i - 1] - places[0] + shift) / 32;
        most = sectors > most ? sectors : most;
    }
    return most;
}

static uint32_t literal_count_all_sectors(const uint64_t *places, uint32_t count, uint32_t bytes) {
    uint32_t sectors = 0;
    for (uint32_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && places[end] + bytes - places[end - 1] <= 32;)
            end++;
        sectors += literal_count_sectors(places + i, end - i, bytes);
    }
    return sectors;
}

/* The most words of one bank. */
static uint32_t literal_count_passes(const uint64_t *places, uint32_t count, uint32_t bytes) {
    uint32_t words[32] = {0}, most = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t word = places[i] / 4; word < (places[i] + bytes) / 4 && (!i || places[i] != places[i - 1]);
             word++)
            if (++words[word % 32] > most)
                most = words[word % 32];
    return most;
}

static void literal_count_group(const struct literal_group *group) {
    uint32_t bytes = group->bytes, parts = bytes > 4 ? bytes / 4 : 1, together = 32 / parts, most = 0, missing = 0;
    for (uint32_t first = 0; first < 32; first += together) {
        uint64_t places[32];
        uint32_t count = literal_sort_places(group, first, first + together, places), of_part = 0;
        uint32_t now = group->is_shared ? literal_count_passes(places, count, bytes)
                                        : literal_count_all_sectors(places, count, bytes);
        for (uint32_t lane = first; lane < first + together; lane++)
            of_part += group->present >> lane & ~(group->lanes >> lane) & 1;
        most = now > most ? now : most;
        missing = of_part > missing ? of_part : missing;
    }
    literal_raise_most(group->most, parts * (most + missing));
}

static void literal_block_ended(void) {
    for (uint32_t i = 0; literal_groups && i < literal_groups->count; i++)
        literal_count_group(&literal_groups->data[literal_groups->slots[i]]);
    if (literal_groups)
        literal_groups->count = 0, literal_groups->stamp++;
}

static struct literal_group *literal_come(const gs_ptx_thread *t, uint32_t *most, uint32_t is_shared, uint32_t bytes,
                                          uint64_t rounds) {
    if (__atomic_load_n(most, __ATOMIC_RELAXED) >= 32)
        return NULL;
    struct literal_group *group = literal_find_group(t, most, rounds);
    if (!group || (is_shared && bytes < 4)) {
        literal_raise_most(most, 32);
        return NULL;
    }
    group->bytes = bytes;
    group->is_shared = is_shared;
    return group;
}

static void literal_present(const gs_ptx_thread *t, uint32_t *most, uint32_t is_shared, uint32_t bytes,
                            uint64_t rounds) {
    struct literal_group *group = literal_come(t, most, is_shared, bytes, rounds);
    if (group)
        group->present |= 1u << t->lane;
}

static void literal_access(const gs_ptx_thread *t, uint32_t *most, uint32_t is_shared, uint32_t bytes, uint64_t place,
                           uint64_t rounds) {
    struct literal_group *group = literal_come(t, most, is_shared, bytes, rounds);
    if (group && group->lanes >> t->lane & 1 && group->places[t->lane] != place)
        literal_raise_most(most, 32);
    if (!group || group->lanes >> t->lane & 1)
        return;
    group->lanes |= 1u << t->lane;
    group->places[t->lane] = place;
}

#endif
