/*
 * literal_bound.c: the worst case by trying every choice of every cycle, without any optimization. See literal_bound.h.
 */
#include "literal_bound.h"

int32_t literal_latency(const gs_flat *flat, int32_t instruction) {
    return (instruction + 1 < flat->instructions ? flat->start[instruction + 1] : flat->phases) -
           flat->start[instruction];
}

static bool waits(const literal_warps *warps, int64_t warp, int32_t cycle) {
    int32_t done = warps->done[warp];
    return done < warps->flat->instructions &&
           (done == 0 || cycle >= warps->issue[warp] + literal_latency(warps->flat, done - 1));
}

static int64_t free_places(const literal_warps *warps, int unit, int32_t cycle) {
    const gs_unit *of = &warps->flat->program->units.data[unit];
    int64_t places = of->warps;
    for (int64_t i = 0; i < warps->count; i++)
        places -=
            warps->done[i] && warps->flat->unit[warps->done[i] - 1] == unit && cycle < warps->issue[i] + of->cycles;
    return places;
}

bool literal_may_select(const literal_warps *warps, uint64_t selected, int32_t cycle) {
    const gs_flat *flat = warps->flat;
    int64_t places[GS_MOST_UNITS], issue = flat->program->issue;
    for (int unit = 0; unit < (int)flat->program->units.count; unit++)
        places[unit] = free_places(warps, unit, cycle);
    for (int64_t i = 0; i < warps->count; i++)
        if (selected >> i & 1) {
            if (!waits(warps, i, cycle) || places[flat->unit[warps->done[i]]]-- == 0 || issue-- == 0)
                return false;
        }
    for (int64_t i = 0; i < warps->count; i++) {
        if (selected >> i & 1 || !waits(warps, i, cycle))
            continue;
        int16_t unit = flat->unit[warps->done[i]];
        if (places[unit] && issue)
            return false;
        for (int64_t j = 0; warps->fair && j < warps->count; j++)
            if (selected >> j & 1 && flat->sub_block[warps->done[j]] > flat->sub_block[warps->done[i]] &&
                (places[unit] || flat->unit[warps->done[j]] == unit))
                return false;
    }
    return true;
}

void literal_select(literal_warps *warps, uint64_t selected, int32_t cycle) {
    for (int64_t i = 0; i < warps->count; i++)
        if (selected >> i & 1) {
            warps->issue[i] = cycle;
            warps->done[i]++;
        }
}

int32_t literal_worst(const literal_warps *warps, int32_t cycle) {
    bool all_ended = true;
    int32_t worst = 0;
    for (int64_t i = 0; i < warps->count; i++)
        all_ended = all_ended && warps->done[i] == warps->flat->instructions;
    if (all_ended) {
        for (int64_t i = 0; i < warps->count; i++) {
            int32_t end = warps->issue[i] + literal_latency(warps->flat, warps->flat->instructions - 1) - 1;
            worst = end > worst ? end : worst;
        }
        return worst;
    }
    for (uint64_t selected = 0; selected < UINT64_C(1) << warps->count; selected++)
        if (literal_may_select(warps, selected, cycle)) {
            literal_warps next = *warps;
            literal_select(&next, selected, cycle);
            int32_t end = literal_worst(&next, cycle + 1);
            worst = end > worst ? end : worst;
        }
    return worst;
}
