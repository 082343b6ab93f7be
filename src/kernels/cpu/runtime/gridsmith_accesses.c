/*
 * gridsmith_accesses.c: how many transactions the accesses of a kernel make. src/kernels/cpu/rounds_accesses.c counts
 * with it.
 *
 * A group has the lanes of a warp that execute an access in the same rounds of loops, and the place that each accesses.
 * At the end of a block they are counted: the number of an access is the most of all its groups. Global memory is
 * accessed by sectors of 32 bytes, and the buffer may begin anywhere in one; shared memory by passes over 32 banks of 4
 * bytes. What is wider than 4 bytes is done by halves or quarters of the warp, and each counts as the largest of them.
 *
 * Groups are found by a hash of the rounds. Where two are mistaken for one, the number only gets larger: with other
 * lanes as well, or, if a lane comes a second time with another place, it is not known.
 */
#include "gridsmith_ptx.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { LANES = 32, BANKS = 32, SECTOR = 32, WORD = 4, NOT_KNOWN = 32, GROUPS = 1 << 18, MOST_GROUPS = GROUPS / 4 * 3 };

struct group {
    uint64_t stamp, rounds;
    uint32_t *most;
    uint32_t warp, lanes; /* a bit for each */
    uint32_t bytes, is_shared;
    uint64_t places[LANES];
};

static _Thread_local struct {
    struct group *data;
    uint64_t stamp; /* of the groups of the block that runs; others are free */
    uint32_t count, slots[MOST_GROUPS];
} * groups;

static void raise_most(uint32_t *most, uint32_t count) {
    uint32_t before = __atomic_load_n(most, __ATOMIC_RELAXED);
    while (count > before && !__atomic_compare_exchange_n(most, &before, count, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void *take_zeros(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int make_groups(void) {
    if (groups)
        return 1;
    struct group *data = take_zeros(GROUPS * sizeof *data);
    groups = data ? take_zeros(sizeof *groups) : NULL;
    if (groups)
        groups->data = data, groups->stamp = 1;
    return groups != NULL;
}

/* The group of a lane, which may be new; NULL: there are too many. */
static struct group *find_group(const gs_ptx_thread *t, uint32_t *most, uint64_t rounds) {
    if (!make_groups())
        return NULL;
    uint64_t hash = ptx_round(ptx_round(rounds, (uint64_t)(uintptr_t)most), t->warp);
    for (size_t i = hash >> 20;; i++) {
        struct group *group = &groups->data[i % GROUPS];
        if (group->stamp == groups->stamp) {
            if (group->rounds == rounds && group->most == most && group->warp == t->warp)
                return group;
            continue;
        }
        if (groups->count == MOST_GROUPS)
            return NULL;
        groups->slots[groups->count++] = (uint32_t)(i % GROUPS);
        group->stamp = groups->stamp;
        group->rounds = rounds;
        group->most = most;
        group->warp = t->warp;
        group->lanes = 0;
        return group;
    }
}

/* The places of lanes that are served together, in order. */
static uint32_t sort_places(const struct group *group, uint32_t first, uint32_t end, uint64_t *places) {
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
        sectors += count_sectors(places + i, end - i, bytes);
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

static void count_group(const struct group *group) {
    uint32_t bytes = group->bytes, parts = bytes > WORD ? bytes / WORD : 1, together = LANES / parts;
    for (uint32_t first = 0; first < LANES; first += together) {
        uint64_t places[LANES];
        uint32_t count = sort_places(group, first, first + together, places);
        raise_most(group->most, parts * (group->is_shared ? count_passes(places, count, bytes)
                                                          : count_all_sectors(places, count, bytes)));
    }
}

void gs_host_block_ended(void) {
    for (uint32_t i = 0; groups && i < groups->count; i++)
        count_group(&groups->data[groups->slots[i]]);
    if (groups)
        groups->count = 0, groups->stamp++;
}

void ptx_access(const gs_ptx_thread *t, uint32_t *most, uint32_t is_shared, uint32_t bytes, uint64_t place,
                uint64_t rounds) {
    if (__atomic_load_n(most, __ATOMIC_RELAXED) >= NOT_KNOWN)
        return;
    struct group *group = find_group(t, most, rounds);
    if (!group || (is_shared && bytes < WORD) || (group->lanes >> t->lane & 1 && group->places[t->lane] != place)) {
        raise_most(most, NOT_KNOWN);
        return;
    }
    group->bytes = bytes;
    group->is_shared = is_shared;
    group->lanes |= 1u << t->lane;
    group->places[t->lane] = place;
}
