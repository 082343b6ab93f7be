/* check_search.h: what check.c, which searches, and reduce.c, which plays the given order, have in common. */
#ifndef GS_CHECK_SEARCH_H
#define GS_CHECK_SEARCH_H

#include "check.h"

/* The number of blocks for which there was room, if `waiting` of them wait. */
static inline int64_t gs_room_found(const gs_dispatcher *dispatcher, const gs_grid *grid, int64_t waiting) {
    return grid->is_whole ? gs_grid_headroom(dispatcher, grid) : grid->blocks - waiting;
}

/* Plays the events of the launches that are not left out, up to the first launch that waits. Fills in the conflict if
   there is one. */
gs_code gs_check_play(const gs_gpu *gpu, const gs_run *run, const bool *left_out, gs_conflict *conflict,
                      gs_error *error);

/* Reduces the conflict `here` of the run to a minimal set of kernels, in the same order: without any one of them there
   is no conflict. A smaller set of other kernels may exist. */
gs_code gs_check_reduce(const gs_gpu *gpu, const gs_run *run, gs_progress *progress, const gs_conflict *here,
                        gs_conflict *smallest, gs_error *error);

#endif
