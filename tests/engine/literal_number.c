/*
 * literal_number.c: how blocks are numbered by grant, slow: every grant checks every group, and every group every SM.
 */
#include "literal.h"

#include <stdlib.h>

/* Blocks that will come to the SMs of a group. */
static int coming_to(const gs_gpu *gpu, const int *coming, int group) {
    const gs_sm_groups *groups = &gpu->grants.groups;
    int sum = 0;
    for (int i = group ? groups->ends[group - 1] : 0; i < groups->ends[group]; i++)
        sum += coming[groups->sms[i]];
    return sum;
}

/* Moves the turn among the parts to after the next part that will get blocks. */
static void move_part(const gs_gpu *gpu, const int *coming, literal_turns *turns) {
    const gs_sm_groups *parts = &gpu->grants.cluster_first;
    for (int i = 0; i < parts->count; i++) {
        int part = (turns->part + i) % parts->count;
        for (int at = part ? parts->ends[part - 1] : 0; at < parts->ends[part]; at++)
            if (coming[parts->sms[at]]) {
                turns->part = (part + 1) % parts->count;
                return;
            }
    }
}

/* The group that is granted next; advances the turn. -1: no blocks will come. */
static int grant(const gs_gpu *gpu, const int *coming, literal_turns *turns) {
    int first = gpu->grants.first, others = gpu->grants.groups.count - first;
    for (int i = 0; i < first; i++) {
        int group = (turns->first + i) % first;
        if (coming_to(gpu, coming, group)) {
            turns->first = (group + 1) % first;
            move_part(gpu, coming, turns);
            return group;
        }
    }
    for (int i = 0; i < others; i++) {
        int group = (turns->other + i) % others;
        if (coming_to(gpu, coming, first + group)) {
            turns->other = (group + 1) % others;
            return first + group;
        }
    }
    return -1;
}

void literal_number(const gs_gpu *gpu, const int *sms, const int *rooms, int count, bool is_cut, literal_turns *turns,
                    int *order) {
    int *coming = calloc((size_t)gpu->sms, sizeof *coming), decided = 0, numbered = 0, grants = 0;
    if (!coming)
        abort();
    while (numbered < count) {
        int end = decided, nothing_coming = numbered == decided;
        while (end < count && (end == decided || rooms[end] == rooms[decided]))
            end++;
        if (end > decided) {
            int delay = is_cut && end == count ? gpu->grants.before_cut[sms[end - 1]] : gpu->grants.between_rounds;
            if (nothing_coming || grants >= delay) {
                bool begins = decided == 0;
                for (; decided < end; decided++)
                    coming[sms[decided]]++;
                grants = begins ? 1 : 0;
                if (begins)
                    grant(gpu, coming, turns);
                continue;
            }
        }
        const gs_sm_groups *groups = &gpu->grants.groups;
        int group = grant(gpu, coming, turns);
        for (int sm = 0; sm < gpu->sms; sm++)
            for (int i = group ? groups->ends[group - 1] : 0; i < groups->ends[group]; i++)
                if (groups->sms[i] == sm && coming[sm]) {
                    coming[sm]--;
                    order[numbered++] = sm;
                }
        grants++;
    }
    free(coming);
}

/* ---- cooperative launches ---- */

static int take(int *coming, int *order, int numbered, int sm) {
    if (coming[sm]) {
        coming[sm]--;
        order[numbered++] = sm;
    }
    return numbered;
}

/* The part of a first group that is granted next; advances both turns. -1: no block will come to them. */
static int grant_part(const gs_gpu *gpu, const int *coming, literal_turns *turns) {
    const gs_sm_groups *parts = &gpu->grants.cluster_first, *groups = &gpu->grants.groups;
    for (int i = 0; i < parts->count; i++) {
        int part = (turns->part + i) % parts->count, end = parts->ends[part];
        for (int at = part ? parts->ends[part - 1] : 0; at < end; at++)
            if (coming[parts->sms[at]]) {
                turns->part = (part + 1) % parts->count;
                for (int group = 0; group < gpu->grants.first; group++)
                    if (end <= groups->ends[group] && (group == 0 || end > groups->ends[group - 1]))
                        turns->first = (group + 1) % gpu->grants.first;
                return part;
            }
    }
    return -1;
}

void literal_number_whole(const gs_gpu *gpu, const int *sms, int count, literal_turns *turns, int *order) {
    int *coming = calloc((size_t)gpu->sms, sizeof *coming), numbered = 0;
    if (!coming)
        abort();
    for (int i = 0; i < count; i++)
        coming[sms[i]]++;
    if (count)
        grant(gpu, coming, turns);
    while (numbered < count) {
        const gs_sm_groups *groups = &gpu->grants.cluster_first;
        int group = grant_part(gpu, coming, turns);
        if (group < 0) {
            groups = &gpu->grants.groups;
            group = grant(gpu, coming, turns);
        }
        for (int i = group ? groups->ends[group - 1] : 0; i < groups->ends[group]; i++)
            numbered = take(coming, order, numbered, groups->sms[i]);
    }
    free(coming);
}
