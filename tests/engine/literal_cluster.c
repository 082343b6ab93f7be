/*
 * literal_cluster.c: where clusters go and in which order their blocks are numbered, slow: lists are sorted, and groups
 * are checked one by one.
 */
#include "literal.h"

#include <stdlib.h>

enum { IDLE_VALUE = 1000 };

/* An SM of a group, as a kernel of clusters sees it. */
struct seat {
    int sm, value;
    int pair_value; /* the smaller value of the two SMs of its TPC */
    int beside;     /* the value of the other SM of the TPC */
};

/* Group number `group`: the parts of the first groups come first, then the others. Returns how many SMs it has. */
static int members(const gs_gpu *gpu, int group, const int16_t **sms) {
    int parts = gpu->grants.cluster_first.count;
    const gs_sm_groups *groups = group < parts ? &gpu->grants.cluster_first : &gpu->grants.groups;
    int number = group < parts ? group : group - parts + gpu->grants.first;
    int from = number ? groups->ends[number - 1] : 0;
    *sms = groups->sms + from;
    return groups->ends[number] - from;
}

static int group_count(const gs_gpu *gpu) {
    return gpu->grants.cluster_first.count + gpu->grants.groups.count - gpu->grants.first;
}

static int value_of(const gs_gpu *gpu, const literal_view *view, int per, int sm) {
    int allowed = gpu->grants.cluster_blocks_per_sm - view[sm].cluster_blocks;
    if (!view[sm].room)
        return 0;
    if (per > 1 && view[sm].is_idle)
        return IDLE_VALUE;
    return view[sm].room < allowed ? view[sm].room : allowed;
}

/* Most valuable SMs first; among equals the lowest. */
static int by_value(const void *a, const void *b) {
    const struct seat *one = a, *two = b;
    return one->value != two->value ? two->value - one->value : one->sm - two->sm;
}

/* Most valuable TPCs first; among equals the lowest. */
static int by_pair(const void *a, const void *b) {
    const struct seat *one = a, *two = b;
    return one->pair_value != two->pair_value ? two->pair_value - one->pair_value : one->sm - two->sm;
}

/* For the odd block: most valuable SMs first, among equals those beside a poorer one, then the lowest. */
static int by_single(const void *a, const void *b) {
    const struct seat *one = a, *two = b;
    bool one_poorer = one->beside < one->value, two_poorer = two->beside < two->value;
    if (one->value != two->value)
        return two->value - one->value;
    return one_poorer != two_poorer ? two_poorer - one_poorer : one->sm - two->sm;
}

static int ascending(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* The SMs of one cluster in this group, into `chosen`. Returns the level; 0: it does not fit. */
static int choose(const gs_gpu *gpu, const literal_view *view, int per, int group, int size, int *chosen) {
    const int16_t *sms;
    int count = members(gpu, group, &sms), pairs = per == 1 ? size : size / 2 * 2, level = IDLE_VALUE;
    struct seat seats[GS_MAX_GRANT_GROUPS];
    if (count < size)
        return 0;
    for (int i = 0; i < count; i++) {
        int value = value_of(gpu, view, per, sms[i]), beside = value_of(gpu, view, per, sms[i] ^ 1);
        seats[i] = (struct seat){sms[i], value, value < beside ? value : beside, beside};
    }
    qsort(seats, (size_t)count, sizeof *seats, per == 1 ? by_value : by_pair);
    for (int i = 0; i < size; i++) {
        if (i == pairs)
            qsort(seats + i, (size_t)(count - i), sizeof *seats, by_single);
        chosen[i] = seats[i].sm;
        level = seats[i].value < level ? seats[i].value : level;
    }
    qsort(chosen, (size_t)pairs, sizeof *chosen, ascending);
    return level;
}

int literal_clusters(const gs_gpu *gpu, const literal_view *view, int per, int size, int64_t most, int *sms) {
    int highest = 1, count = 0, chosen[GS_MAX_GRANT_GROUPS];
    for (int group = 0; group < group_count(gpu); group++) {
        int level = choose(gpu, view, per, group, size, chosen);
        highest = level > highest ? level : highest;
    }
    for (int group = 0; group < group_count(gpu) && count < most; group++) {
        if (choose(gpu, view, per, group, size, chosen) != highest)
            continue;
        for (int i = 0; i < size; i++)
            sms[count * size + i] = chosen[i];
        count++;
    }
    return count;
}

/* Which cluster of the round is in this group; -1: none. */
static int cluster_in(const gs_gpu *gpu, const int *sms, int count, int size, int group) {
    const int16_t *here;
    int members_count = members(gpu, group, &here);
    for (int i = 0; i < count; i += size)
        for (int j = 0; j < members_count; j++)
            if (here[j] == sms[i])
                return i / size;
    return -1;
}

static int first_group_of(const gs_gpu *gpu, int sm) {
    const gs_sm_groups *groups = &gpu->grants.groups;
    for (int group = 0, at = 0; group < gpu->grants.first; group++)
        for (; at < groups->ends[group]; at++)
            if (groups->sms[at] == sm)
                return group;
    abort();
}

void literal_cluster_order(const gs_gpu *gpu, const int *sms, int count, int size, literal_turns *turns, int *order) {
    int parts = gpu->grants.cluster_first.count, others = group_count(gpu) - parts, numbered = 0;
    literal_turns began = *turns;
    for (int i = 0; i < parts + others; i++) {
        int group = i < parts ? (began.part + i) % parts : parts + (began.other + i - parts) % others;
        int cluster = cluster_in(gpu, sms, count, size, group);
        if (cluster < 0)
            continue;
        for (int j = 0; j < size; j++)
            order[numbered++] = sms[cluster * size + j];
        if (group < parts) {
            turns->part = (group + 1) % parts;
            turns->first = (first_group_of(gpu, sms[cluster * size]) + 1) % gpu->grants.first;
        } else {
            turns->other = (group - parts + 1) % others;
        }
    }
}
