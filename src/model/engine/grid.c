/*
 * grid.c: the blocks of a launch, and on which SMs they may go: a launch into a green context uses only the SMs of that
 * context, and a cooperative launch starts with all its blocks or not at all.
 */
#include "engine.h"

#include <stdlib.h>

bool *gs_green_flags(const gs_gpu *gpu, const gs_green_contexts *contexts) {
    bool *flags = calloc((size_t)contexts->count * (size_t)gpu->sms + 1, sizeof *flags);
    for (int32_t i = 0, at = 0; flags && i < contexts->count; i++)
        for (; at < contexts->ends[i]; at++)
            if (contexts->sms[at] < gpu->sms)
                flags[i * gpu->sms + contexts->sms[at]] = true;
    return flags;
}

const bool *gs_green_of(const gs_green_contexts *contexts, const bool *flags, int32_t sms, const gs_issue *issue) {
    const gs_launch_facts *facts = issue->facts;
    bool is_in_one = facts && facts->green_context >= 0 && facts->green_context < contexts->count;
    return is_in_one ? flags + facts->green_context * sms : NULL;
}

/* Whether a launch is cooperative and starts with all its blocks or not at all. Clusters of a cooperative launch start
   as they find headroom. */
static bool is_whole(const gs_launch *launch) {
    return launch->issue.facts && launch->issue.facts->is_cooperative && launch->cluster <= 1;
}

gs_grid gs_grid_of(const gs_launch *launch, int kernel, const bool *open) {
    return (gs_grid){kernel, launch->blocks, launch->cluster, is_whole(launch), open};
}

int64_t gs_grid_headroom(const gs_dispatcher *dispatcher, const gs_grid *grid) {
    int64_t left = grid->blocks;
    int32_t sms = gs_dispatcher_state(dispatcher)->gpu->sms;
    for (int32_t sm = 0; sm < sms && left; sm++)
        if (!grid->open || grid->open[sm])
            left -= gs_min(left, gs_dispatcher_headroom(dispatcher, grid->kernel, sm));
    return grid->blocks - left;
}

static int next_sm(gs_dispatcher *dispatcher, const gs_grid *grid) {
    int32_t headroom;
    return grid->open ? gs_dispatcher_choose_among(dispatcher, grid->kernel, grid->open, &headroom)
                      : gs_dispatcher_choose(dispatcher, grid->kernel, &headroom);
}

int64_t gs_grid_place(gs_clusters *clusters, gs_dispatcher *dispatcher, const gs_grid *grid) {
    int64_t waiting = grid->blocks;
    int sm;
    if (grid->cluster > 1)
        return gs_clusters_place(clusters, dispatcher, grid);
    if (grid->is_whole && gs_grid_headroom(dispatcher, grid) < waiting)
        return waiting;
    while (waiting && (sm = next_sm(dispatcher, grid)) != GS_WAIT) {
        gs_dispatcher_put(dispatcher, grid->kernel, sm);
        waiting--;
    }
    return waiting;
}
