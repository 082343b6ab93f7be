/*
 * served.c: when a kernel of a recording was served, to the nearest end of a block.
 *
 * When a kernel was served is known only to some 100 ns: from the start of its first block. Whether blocks that ended
 * in that time had left headroom for it shows in where its first blocks are. So each possible time is tried on a copy
 * of the dispatcher, and the one that agrees best with the recording is taken.
 */
#include "engine_state.h"

enum {
    BURST_NS = 200,   /* blocks that start this long after the first one were placed with it */
    BEFORE_NS = 150,  /* how much earlier than expected a kernel can be served */
    CLUSTER_NS = 350, /* the same for one with clusters */
    PLACED_NS = 100   /* from when a kernel is served to its start, at least */
};

/* Places the next block of the kernel, or the next round of its clusters, on the copy: on SMs that are stored in
   `round`. Returns how many blocks; 0: there is no headroom. */
static int32_t place_trial(gs_engine *engine, size_t launch, int64_t left, int16_t *round) {
    int kernel = engine->plays[launch].kernel, size = engine->run->launches.data[launch].cluster;
    int32_t headroom, count;
    if (size == 1) {
        int sm = gs_dispatcher_choose(engine->trial, kernel, &headroom);
        if (sm == GS_WAIT)
            return 0;
        gs_dispatcher_put(engine->trial, kernel, sm);
        round[0] = (int16_t)sm;
        return 1;
    }
    count = size * gs_clusters_round(engine->clusters, engine->trial, kernel, size, left / size, NULL, round);
    for (int32_t i = 0; i < count; i++)
        gs_dispatcher_place_in_cluster(engine->trial, kernel, round[i]);
    return count;
}

/* How many of the first blocks would be on the right SM, by counts, if the kernel were served at this time; -1: out of
   memory. `*all`: how many there are. */
static int64_t count_right(gs_engine *engine, size_t launch, const gs_seen *seen, const gs_served *asked, int64_t at_ns,
                           int64_t *all) {
    int32_t missing[GS_MAX_SMS] = {0}, count;
    int64_t right = 0;
    *all = 0;
    if (gs_dispatcher_copy_sms(engine->trial, engine->dispatcher, NULL) != GS_OK)
        return -1;
    for (size_t i = 0; i < engine->endings.count; i++)
        if (engine->endings.data[i].at_ns <= at_ns)
            gs_dispatcher_end(engine->trial, engine->endings.data[i].handle);
    for (size_t i = 0; i < seen->start_ns.count && i < seen->placed.count; i++)
        if (seen->placed.data[i] >= 0 && seen->placed.data[i] < GS_MAX_SMS &&
            seen->start_ns.data[i] <= gs_time_after(asked->started_ns, BURST_NS)) {
            missing[seen->placed.data[i]]++;
            ++*all;
        }
    for (int64_t left = *all; left > 0 && (count = place_trial(engine, launch, left, engine->round)); left -= count)
        for (int32_t i = 0; i < count; i++)
            right += missing[engine->round[i]]-- > 0;
    return right;
}

static bool can_try(gs_engine *engine, size_t launch) {
    const gs_launch *which = &engine->run->launches.data[launch];
    if (engine->plays[launch].started || engine->run->green_contexts.count ||
        (which->issue.facts && which->issue.facts->is_cooperative))
        return false;
    if (!engine->trial)
        engine->trial = gs_dispatcher_new(gs_dispatcher_state(engine->dispatcher)->gpu, NULL);
    return engine->trial;
}

int64_t gs_follow_served(gs_engine *engine, size_t launch, const gs_seen *seen, gs_served asked) {
    int64_t all, best_ns = asked.expected_ns, latest_ns = gs_time_after(asked.started_ns, -PLACED_NS);
    int64_t before_ns = engine->run->launches.data[launch].cluster > 1 ? CLUSTER_NS : BEFORE_NS;
    int64_t earliest_ns = gs_max(gs_time_after(asked.expected_ns, -before_ns), engine->clock.now_ns);
    if (!can_try(engine, launch))
        return best_ns;
    int64_t best = count_right(engine, launch, seen, &asked, best_ns, &all);
    for (size_t i = 0; i < engine->endings.count && best >= 0 && best < all; i++) {
        int64_t end_ns = engine->endings.data[i].at_ns;
        if (end_ns <= earliest_ns || end_ns > latest_ns)
            continue;
        for (int64_t at_ns = end_ns - 1; at_ns <= end_ns; at_ns++) {
            int64_t right = count_right(engine, launch, seen, &asked, at_ns, &all);
            best_ns = right > best ? at_ns : best_ns;
            best = gs_max(best, right);
        }
    }
    return best_ns;
}
