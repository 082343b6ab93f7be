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
