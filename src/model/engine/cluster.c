/*
 * cluster.c: where thread-block clusters go, and in which order their blocks are numbered.
 *
 * The blocks of a cluster run on different SMs of one group. The groups are GPCs; the few SMs outside of GPCs, which go
 * first when blocks are numbered, form groups of their own (`cluster_first` in the description: four single TPCs on an
 * H200). Clusters are placed in rounds:
 *
 *   1. In each group the best SMs for one cluster are chosen. The worth of an SM is its headroom for blocks of the
 *      kernel, but at most the number of blocks of clusters that it may still take. An idle SM is worth more than any
 *      other. If an SM takes a single block of the kernel, SMs are chosen one by one, and being idle does not matter.
 *      Otherwise a cluster takes whole TPCs, whose worth is that of the SM that is worth less. An odd block goes to the
 *      best SM of the other TPCs, among equals to one whose neighbor is worth less, and is the last of the cluster.
 *      Other ties are broken by the lowest number, and blocks are in the order of the SMs.
 *   2. The level of a group is the least worth of the chosen SMs. All groups of the highest level get one cluster each:
 *      that is a round. If fewer clusters are left, the groups that the description lists first get them.
 *
 * The blocks of a round are numbered before the next round: group by group, those that go first before the others, and
 * each of the two kinds in turn. The turns continue from launch to launch, together with those of launches without
 * clusters (number.c).
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { WORTH_IDLE = GS_MAX_BLOCKS_PER_SM + 1 };

/* The SMs of a group that a cluster takes, as bits: bit i is the i-th SM of the group. */
struct choice {
    int32_t level; /* 0: it does not fit */
    uint64_t sms;
    int32_t last; /* the SM of an odd block, which is not among the bits; -1: none */
};

struct gs_clusters {
    const gs_gpu *gpu;
    gs_sm_groups groups; /* the first ones, then the others */
    int32_t first;       /* the number of groups that go first */
    int16_t *group;      /* of each SM */
    bool *always_open;   /* by SM */
    struct choice choices[GS_MAX_GRANT_GROUPS];
};

/* ---- making the groups ---- */

static void add_groups(gs_clusters *clusters, const gs_sm_groups *from, int32_t first) {
    gs_sm_groups *to = &clusters->groups;
    for (int32_t group = first, at = first ? from->ends[first - 1] : 0; group < from->count; group++) {
        int32_t end = to->count ? to->ends[to->count - 1] : 0;
        for (; at < from->ends[group]; at++) {
            clusters->group[from->sms[at]] = (int16_t)to->count;
            to->sms[end++] = from->sms[at];
        }
        to->ends[to->count++] = end;
    }
}

gs_clusters *gs_clusters_new(const gs_gpu *gpu, gs_error *error) {
    gs_clusters *clusters = calloc(1, sizeof *clusters);
    size_t sms = (size_t)gpu->sms;
    if (clusters) {
        clusters->gpu = gpu;
        clusters->groups.sms = calloc(sms, sizeof *clusters->groups.sms);
        clusters->groups.ends = calloc(GS_MAX_GRANT_GROUPS, sizeof *clusters->groups.ends);
        clusters->group = calloc(sms, sizeof *clusters->group);
        clusters->always_open = calloc(sms, sizeof *clusters->always_open);
    }
    if (!clusters || !clusters->groups.sms || !clusters->groups.ends || !clusters->group || !clusters->always_open) {
        gs_clusters_free(clusters);
        gs_fail_memory(error);
        return NULL;
    }
    add_groups(clusters, &gpu->grants.cluster_first, 0);
    clusters->first = clusters->groups.count;
    add_groups(clusters, &gpu->grants.groups, gpu->grants.first);
    for (int32_t sm = 0; sm < gpu->sms; sm++)
        clusters->always_open[sm] = clusters->group[sm] < clusters->first;
    return clusters;
}

void gs_clusters_free(gs_clusters *clusters) {
    if (!clusters)
        return;
    free(clusters->groups.sms);
    free(clusters->groups.ends);
    free(clusters->group);
    free(clusters->always_open);
    free(clusters);
}

/* Returns how many SMs a group has, and sets `*sms` to them. */
static int32_t group_sms(const gs_clusters *clusters, int32_t group, const int16_t **sms) {
    int32_t from = group ? clusters->groups.ends[group - 1] : 0;
    *sms = clusters->groups.sms + from;
    return clusters->groups.ends[group] - from;
}

int32_t gs_clusters_largest(const gs_clusters *clusters) {
    int32_t largest = 0;
    const int16_t *sms;
    for (int32_t group = 0; group < clusters->groups.count; group++) {
        int32_t count = group_sms(clusters, group, &sms);
        largest = count > largest ? count : largest;
    }
    return largest;
}

const bool *gs_clusters_always_open(const gs_clusters *clusters) {
    return clusters->always_open;
}

/* ---- choosing in a group ---- */

static int32_t worth(const gs_state *state, const gs_need *need, int32_t number) {
    const gs_sm *sm = &state->sms[number];
    int32_t headroom = gs_state_headroom(state, need, number);
    int32_t allowed = state->gpu->grants.cluster_blocks_per_sm - sm->cluster_blocks;
    if (headroom && need->blocks_per_sm > 1 && sm->block_slots == state->gpu->limits.blocks_per_sm)
        return WORTH_IDLE;
    return headroom < allowed ? headroom : allowed;
}

/* The `wanted` best, among equals the first, as bits. */
static uint64_t best_of(const int32_t *worths, int32_t count, int32_t wanted) {
    uint64_t chosen = 0;
    for (; wanted > 0; wanted--) {
        int32_t best = -1;
        for (int32_t i = 0; i < count; i++)
            if (!(chosen >> i & 1) && (best < 0 || worths[i] > worths[best]))
                best = i;
        chosen |= (uint64_t)1 << best;
    }
    return chosen;
}

/* The SMs of the best TPCs. */
static uint64_t best_tpcs(const int32_t *worths, int32_t count, int32_t wanted) {
    int32_t tpcs[GS_MAX_GRANT_GROUPS / 2];
    for (int32_t i = 0; i < count / 2; i++)
        tpcs[i] = worths[2 * i] < worths[2 * i + 1] ? worths[2 * i] : worths[2 * i + 1];
    uint64_t sms = 0;
    for (uint64_t chosen = best_of(tpcs, count / 2, wanted); chosen; chosen &= chosen - 1)
        sms |= (uint64_t)3 << 2 * __builtin_ctzll(chosen);
    return sms;
}

/* The SM for an odd block. */
static int32_t best_single(const int32_t *worths, int32_t count, uint64_t taken) {
    int32_t best = -1;
    for (int32_t i = 0; i < count; i++) {
        if (taken >> i & 1)
            continue;
        bool neighbor_is_worse = worths[i ^ 1] < worths[i];
        if (best < 0 || worths[i] > worths[best] ||
            (worths[i] == worths[best] && neighbor_is_worse && worths[best ^ 1] >= worths[best]))
            best = i;
    }
    return best;
}

static struct choice choose_best(const int32_t *worths, int32_t count, int32_t size, bool by_tpc) {
    struct choice choice = {.level = WORTH_IDLE, .last = -1};
    if (size > count)
        return (struct choice){.last = -1};
    choice.sms = by_tpc ? best_tpcs(worths, count, size / 2) : best_of(worths, count, size);
    if (by_tpc && size % 2) {
        choice.last = best_single(worths, count, choice.sms);
        choice.level = worths[choice.last];
    }
    for (uint64_t bits = choice.sms; bits; bits &= bits - 1)
        choice.level = (int32_t)gs_min(choice.level, worths[__builtin_ctzll(bits)]);
    return choice;
}

static struct choice choose_in(const gs_clusters *clusters, const gs_state *state, const gs_need *need, int32_t group,
                               int32_t size, const bool *open) {
    int32_t worths[GS_MAX_GRANT_GROUPS];
    const int16_t *sms;
    int32_t count = group_sms(clusters, group, &sms);
    for (int32_t i = 0; i < count; i++)
        worths[i] = !open || open[sms[i]] ? worth(state, need, sms[i]) : 0;
    return choose_best(worths, count, size, need->blocks_per_sm > 1);
}

/* ---- rounds ---- */

static int16_t *put_choice(const gs_clusters *clusters, int32_t group, int16_t *to) {
    const struct choice *choice = &clusters->choices[group];
    const int16_t *sms;
    group_sms(clusters, group, &sms);
    for (uint64_t bits = choice->sms; bits; bits &= bits - 1)
        *to++ = sms[__builtin_ctzll(bits)];
    if (choice->last >= 0)
        *to++ = sms[choice->last];
    return to;
}

int32_t gs_clusters_round(gs_clusters *clusters, const gs_dispatcher *dispatcher, int kernel, int32_t size,
                          int64_t most, const bool *open, int16_t *sms) {
    const gs_state *state = gs_dispatcher_state(dispatcher);
    const gs_need *need = gs_dispatcher_need(dispatcher, kernel);
    int32_t highest = 1, count = 0;
    if (gs_state_local_waits(state, need))
        return 0;
    for (int32_t group = 0; group < clusters->groups.count; group++) {
        clusters->choices[group] = choose_in(clusters, state, need, group, size, open);
        highest = clusters->choices[group].level > highest ? clusters->choices[group].level : highest;
    }
    for (int32_t group = 0; group < clusters->groups.count && count < most; group++)
        if (clusters->choices[group].level == highest) {
            sms = put_choice(clusters, group, sms);
            count++;
        }
    return count;
}

int64_t gs_clusters_place(gs_clusters *clusters, gs_dispatcher *dispatcher, const gs_grid *grid) {
    int16_t sms[GS_MAX_SMS];
    int64_t blocks = grid->blocks;
    int32_t count, size = grid->cluster;
    while (blocks &&
           (count = gs_clusters_round(clusters, dispatcher, grid->kernel, size, blocks / size, grid->open, sms))) {
        for (int32_t i = 0; i < count * size; i++)
            gs_dispatcher_place_in_cluster(dispatcher, grid->kernel, sms[i]);
        blocks -= (int64_t)count * size;
    }
    return blocks;
}

int64_t gs_clusters_most(const gs_gpu *gpu, const gs_shape *shape, int32_t size, gs_error *error) {
    if (!gs_gpu_has_clusters(gpu)) {
        gs_fail(error, GS_E_UNSUPPORTED, "the description of %s does not say where clusters go", gpu->name);
        return -1;
    }
    gs_clusters *clusters = gs_clusters_new(gpu, error);
    gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, error);
    int kernel = clusters && dispatcher ? gs_dispatcher_kernel(dispatcher, shape, error) : -1;
    gs_grid grid = {.kernel = kernel, .blocks = (int64_t)gpu->sms * gpu->limits.blocks_per_sm * size, .cluster = size};
    int64_t most = kernel < 0 ? -1 : (grid.blocks - gs_clusters_place(clusters, dispatcher, &grid)) / size;
    gs_dispatcher_free_sms(dispatcher);
    gs_clusters_free(clusters);
    return most;
}

/* ---- order ---- */

/* The one of `groups` that is numbered next. Advances the turns. */
static int32_t next_group(const gs_clusters *clusters, uint64_t groups, gs_turns *turns) {
    const gs_grants *grants = &clusters->gpu->grants;
    int32_t first = clusters->first, others = clusters->groups.count - first;
    uint64_t first_groups = groups & (((uint64_t)1 << first) - 1);
    if (!first_groups) {
        int32_t other = gs_bit_from(groups >> first, turns->other);
        turns->other = (other + 1) % others;
        return first + other;
    }
    int32_t part = gs_bit_from(first_groups, turns->part), whole = 0;
    while (grants->groups.ends[whole] < clusters->groups.ends[part])
        whole++;
    turns->part = (part + 1) % first;
    turns->first = (whole + 1) % grants->first;
    return part;
}

void gs_clusters_number(const gs_clusters *clusters, const gs_burst *burst, int32_t size, gs_turns *turns,
                        int32_t *order) {
    int32_t where[GS_MAX_GRANT_GROUPS]; /* in the burst, by group */
    uint64_t groups = 0;
    for (int32_t at = 0; at < burst->count; at += size) {
        int32_t group = clusters->group[burst->placed[at].sm];
        groups |= (uint64_t)1 << group;
        where[group] = at;
    }
    while (groups) {
        int32_t group = next_group(clusters, groups, turns);
        groups &= ~((uint64_t)1 << group);
        for (int32_t i = 0; i < size; i++)
            *order++ = where[group] + i;
    }
}
