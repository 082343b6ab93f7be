/*
 * number.c: which of the placed blocks is block 0, 1, 2 ...
 *
 * On most GPUs we know, blocks are numbered as they are placed. Hopper decides in rounds and hands out in groups. A
 * round is one block for every SM that has the most headroom (fewer where the grid ends: then the round is cut). Blocks
 * are numbered when they are handed out: a grant goes to one group of SMs (a GPC), in turn, and takes one block for
 * each SM of the group that has any coming, in ascending order of the SMs. The first groups are always asked before the
 * others, each kind in its own turn, and the turns are remembered from launch to launch. Each launch begins with a
 * grant that hands out nothing and only moves the turn on.
 *
 * Rounds do not wait for each other: the next one is decided so many grants after the one before, though some of that
 * may still be coming. Where a group then has blocks of two rounds coming, they leave layer by layer. A cut round takes
 * longer to decide, because the SMs are looked at one by one: how long depends on the last SM it takes.
 *
 * A cooperative launch is decided as a whole before anything is handed out. So all blocks of the first groups come
 * before those of the others. The first groups are granted part by part, as for clusters, if their parts are described.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { NOTHING = -1 };

/* A part of a first group. */
struct part {
    int32_t group;
    uint64_t bits; /* its SMs */
};

struct gs_numberer {
    const gs_grants *grants;
    int16_t *group, *bit;        /* of each SM */
    struct part *parts;          /* of the first groups, as clusters have them */
    uint64_t *coming;            /* of each group: its SMs that have blocks coming, as bits */
    int32_t *first, *last;       /* of each SM: the blocks that are coming, as a list of numbers in the burst */
    int32_t *next;               /* of each block of the burst: the next one on its SM */
    uint64_t groups;             /* those that have anything coming, as bits */
    int64_t handed_out, decided; /* blocks of the burst */
};

void gs_numberer_free(gs_numberer *numberer) {
    if (!numberer)
        return;
    free(numberer->group);
    free(numberer->bit);
    free(numberer->parts);
    free(numberer->coming);
    free(numberer->first);
    free(numberer->last);
    free(numberer->next);
    free(numberer);
}

static void set_parts(gs_numberer *numberer) {
    const gs_sm_groups *parts = &numberer->grants->cluster_first;
    for (int32_t part = 0, at = 0; part < parts->count; part++)
        for (; at < parts->ends[part]; at++) {
            numberer->parts[part].group = numberer->group[parts->sms[at]];
            numberer->parts[part].bits |= (uint64_t)1 << numberer->bit[parts->sms[at]];
        }
}

gs_numberer *gs_numberer_new(const gs_gpu *gpu, gs_error *error) {
    gs_numberer *numberer = calloc(1, sizeof *numberer);
    size_t sms = (size_t)gpu->sms, most = sms * (size_t)gpu->limits.blocks_per_sm;
    if (!numberer) {
        gs_fail_memory(error);
        return NULL;
    }
    numberer->grants = &gpu->grants;
    numberer->group = calloc(sms, sizeof *numberer->group);
    numberer->bit = calloc(sms, sizeof *numberer->bit);
    numberer->parts = calloc((size_t)gpu->grants.cluster_first.count + 1, sizeof *numberer->parts);
    numberer->coming = calloc((size_t)gpu->grants.groups.count, sizeof *numberer->coming);
    numberer->first = malloc(sms * sizeof *numberer->first);
    numberer->last = malloc(sms * sizeof *numberer->last);
    numberer->next = malloc(most * sizeof *numberer->next);
    if (!numberer->group || !numberer->bit || !numberer->parts || !numberer->coming || !numberer->first ||
        !numberer->last || !numberer->next) {
        gs_numberer_free(numberer);
        gs_fail_memory(error);
        return NULL;
    }
    memset(numberer->first, NOTHING, sms * sizeof *numberer->first);
    const gs_sm_groups *groups = &gpu->grants.groups;
    for (int32_t group = 0, at = 0; group < groups->count; group++)
        for (int16_t bit = 0; at < groups->ends[group]; at++, bit++) {
            numberer->group[groups->sms[at]] = (int16_t)group;
            numberer->bit[groups->sms[at]] = bit;
        }
    set_parts(numberer);
    return numberer;
}

bool gs_numberer_is_first(const gs_numberer *numberer, int32_t sm) {
    return numberer->group[sm] < numberer->grants->first;
}

/* ---- rounds ---- */

/* Where the round that begins at `from` ends: its SMs had the same headroom. There is none after the last block. */
static int64_t round_end(const gs_burst *burst, int64_t from) {
    int64_t end = from;
    while (end < burst->count && burst->placed[end].headroom == burst->placed[from].headroom)
        end++;
    return end;
}

static void decide_round(gs_numberer *numberer, const gs_burst *burst, int64_t end) {
    for (int64_t i = numberer->decided; i < end; i++) {
        int32_t sm = burst->placed[i].sm, group = numberer->group[sm];
        numberer->next[i] = NOTHING;
        if (numberer->first[sm] == NOTHING)
            numberer->first[sm] = (int32_t)i;
        else
            numberer->next[numberer->last[sm]] = (int32_t)i;
        numberer->last[sm] = (int32_t)i;
        numberer->coming[group] |= (uint64_t)1 << numberer->bit[sm];
        numberer->groups |= (uint64_t)1 << group;
    }
    numberer->decided = end;
}

/* How many grants after the round before it the next one is decided. */
static int32_t grants_before(const gs_numberer *numberer, const gs_burst *burst, int64_t end) {
    bool is_cut = burst->is_cut && end == burst->count;
    return is_cut ? numberer->grants->before_cut[burst->placed[end - 1].sm] : numberer->grants->between_rounds;
}

/* ---- grants ---- */

/* Whether any SM of this part of a first group has a block coming. */
static bool is_coming(const gs_numberer *numberer, int32_t part) {
    return numberer->coming[numberer->parts[part].group] & numberer->parts[part].bits;
}

/* With each grant to a first group the turn among the parts that clusters have moves on too, by itself: past the next
   part that has anything coming, whichever group is granted. */
static void move_part(const gs_numberer *numberer, gs_turns *turns) {
    int32_t parts = numberer->grants->cluster_first.count;
    while (parts && !is_coming(numberer, turns->part))
        turns->part = (turns->part + 1) % parts;
    turns->part = parts ? (turns->part + 1) % parts : 0;
}

/* The group whose turn it is; the turn moves on. */
static int32_t next_group(const gs_numberer *numberer, gs_turns *turns) {
    int32_t first_groups = numberer->grants->first, others = numberer->grants->groups.count - first_groups;
    uint64_t first = numberer->groups & (((uint64_t)1 << first_groups) - 1);
    if (first) {
        int32_t group = gs_bit_from(first, turns->first);
        move_part(numberer, turns);
        turns->first = (group + 1) % first_groups;
        return group;
    }
    int32_t group = gs_bit_from(numberer->groups >> first_groups, turns->other);
    turns->other = (group + 1) % others;
    return group + first_groups;
}

/* One block for each SM of the group, among these bits, that has any coming; SMs of a group ascend. */
static void hand_out(gs_numberer *numberer, int32_t group, uint64_t among, int32_t *order) {
    const gs_sm_groups *groups = &numberer->grants->groups;
    const int16_t *sms = groups->sms + (group ? groups->ends[group - 1] : 0);
    for (uint64_t bits = numberer->coming[group] & among; bits; bits &= bits - 1) {
        int32_t bit = __builtin_ctzll(bits), sm = sms[bit], block = numberer->first[sm];
        order[numberer->handed_out++] = block;
        numberer->first[sm] = numberer->next[block];
        if (numberer->first[sm] == NOTHING)
            numberer->coming[group] &= ~((uint64_t)1 << bit);
    }
    if (!numberer->coming[group])
        numberer->groups &= ~((uint64_t)1 << group);
}

void gs_number(gs_numberer *numberer, const gs_burst *burst, gs_turns *turns, int32_t *order) {
    int32_t grants = 1;
    numberer->handed_out = numberer->decided = 0;
    if (!burst->count)
        return;
    decide_round(numberer, burst, round_end(burst, 0));
    next_group(numberer, turns);
    int64_t end = round_end(burst, numberer->decided);
    while (numberer->handed_out < burst->count) {
        if (end > numberer->decided && (!numberer->groups || grants >= grants_before(numberer, burst, end))) {
            decide_round(numberer, burst, end);
            end = round_end(burst, end);
            grants = 0;
            continue;
        }
        hand_out(numberer, next_group(numberer, turns), UINT64_MAX, order);
        grants++;
    }
}

/* ---- cooperative launches ---- */

/* To the part of a first group whose turn it is; both turns move on. */
static void hand_out_part(gs_numberer *numberer, gs_turns *turns, int32_t *order) {
    const gs_grants *grants = numberer->grants;
    while (!is_coming(numberer, turns->part))
        turns->part = (turns->part + 1) % grants->cluster_first.count;
    const struct part *part = &numberer->parts[turns->part];
    turns->part = (turns->part + 1) % grants->cluster_first.count;
    turns->first = (part->group + 1) % grants->first;
    hand_out(numberer, part->group, part->bits, order);
}

void gs_number_whole(gs_numberer *numberer, const gs_burst *burst, gs_turns *turns, int32_t *order) {
    uint64_t first = ((uint64_t)1 << numberer->grants->first) - 1;
    int32_t parts = numberer->grants->cluster_first.count;
    numberer->handed_out = numberer->decided = 0;
    while (numberer->decided < burst->count)
        decide_round(numberer, burst, round_end(burst, numberer->decided));
    if (burst->count)
        next_group(numberer, turns);
    while (numberer->handed_out < burst->count)
        if (parts && (numberer->groups & first))
            hand_out_part(numberer, turns, order);
        else
            hand_out(numberer, next_group(numberer, turns), UINT64_MAX, order);
}
