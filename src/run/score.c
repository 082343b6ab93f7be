/*
 * score.c: how far a prediction agrees with a recording.
 *
 * A recording is scored launch by launch, up to and including the first launch of which not every block started,
 * because later ones depend on when blocks ended. A launch is exact when the right number of its blocks is on every SM,
 * and the right number waits. Blocks on the right SM, each with its own number, are counted separately. A recording
 * with times is scored up to and including the first launch that differs, because later ones depend on it.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* Blocks on each SM, those that wait at [0]. */
static void count_blocks(const gs_seen *seen, int64_t blocks, int64_t *counts, size_t sms) {
    memset(counts, 0, (sms + 1) * sizeof *counts);
    for (int64_t i = 0; i < blocks; i++)
        counts[gs_seen_sm(seen, i) + 1]++;
}

static size_t sms_of(const gs_seen *seen) {
    int32_t most = -1;
    for (size_t i = 0; i < seen->placed.count; i++)
        most = seen->placed.data[i] > most ? seen->placed.data[i] : most;
    return (size_t)(most + 1);
}

static gs_code is_exact(const gs_seen *recorded, const gs_seen *predicted, int64_t blocks, bool *exact,
                        gs_error *error) {
    size_t one = sms_of(recorded), two = sms_of(predicted), sms = gs_max_u64(one, two);
    int64_t *counts = malloc(2 * (sms + 1) * sizeof *counts);
    if (!counts)
        return gs_fail_memory(error);
    count_blocks(recorded, blocks, counts, sms);
    count_blocks(predicted, blocks, counts + sms + 1, sms);
    *exact = memcmp(counts, counts + sms + 1, (sms + 1) * sizeof *counts) == 0;
    free(counts);
    return GS_OK;
}

gs_code gs_score_add(gs_score *score, const gs_run *recorded, const gs_run *predicted, gs_error *error) {
    bool all_exact = true, all_started = true;
    for (size_t i = 0; i < recorded->launches.count && all_started; i++) {
        const gs_seen *one = recorded->events.data[recorded->launches.data[i].event].seen;
        const gs_seen *two = predicted->events.data[predicted->launches.data[i].event].seen;
        int64_t blocks = recorded->launches.data[i].blocks;
        bool exact = false;
        gs_code code = is_exact(one, two, blocks, &exact, error);
        if (code != GS_OK)
            return code;
        score->launches++;
        score->launches_exact += exact;
        score->blocks += blocks;
        for (int64_t block = 0; block < blocks; block++)
            score->blocks_exact += gs_seen_sm(one, block) == gs_seen_sm(two, block);
        all_exact = all_exact && exact;
        all_started = gs_seen_started(one) == blocks && (exact || !one->has_end);
    }
    score->runs++;
    score->runs_exact += all_exact;
    return GS_OK;
}
