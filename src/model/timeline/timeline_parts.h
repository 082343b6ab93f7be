/*
 * timeline_parts.h: what the files about timelines have in common: timeline_play.c plays a program; durations.c, pace.c
 * and freed.c take from its recording what a model cannot know; unscheduled.c is the null model; waits.c, overlaps.c
 * and unordered.c look at the result.
 */
#ifndef GS_TIMELINE_PARTS_H
#define GS_TIMELINE_PARTS_H

#include "timeline.h"

/* Fills in how long the blocks of each launch run (gs_operation: block_ns, alone_ns, is_shared, is_borrowed), on the
   GPU on which the program was recorded. The pace of the timeline is known. */
gs_code gs_timeline_durations(const gs_gpu *gpu, const gs_run *run, gs_timeline *timeline, gs_error *error);

/* How long the blocks of each launch of a prepared timeline run, as an engine takes it. The caller frees it. NULL: out
   of memory. */
int64_t *gs_timeline_block_ns(const gs_timeline *timeline, size_t launches, gs_error *error);

/* Keeps what a launch lacks now: for the hook `held` of an engine. */
void gs_timeline_hold(gs_timeline *timeline, const gs_engine *engine, size_t launch);

/* Keeps when each operation did what, after all was played. */
void gs_timeline_keep(gs_timeline *timeline, const gs_engine *engine);

/* Fills in when each operation of a new timeline starts and ends by the null model (see gs_timeline_unscheduled). */
gs_code gs_play_unscheduled(const gs_run *run, const gs_timeline *played, bool follows, gs_timeline *timeline,
                            gs_error *error);

/* Nothing is otherwise than the run says. False: out of memory; gs_unsaid_free is still called. */
bool gs_unsaid_new(const gs_run *run, gs_unsaid *unsaid);
void gs_unsaid_free(gs_unsaid *unsaid);

/* The first node of a graph that this one can change places with; SIZE_MAX: none. */
size_t gs_unsaid_neighbor(const gs_run *run, size_t launch);

/* How many ways (gs_way) a launch or copy has, but for GS_WAY_SOME; 1: the usual one. */
int gs_unsaid_ways(const gs_run *run, size_t operation);

/* By SM, from [1] on: how many more blocks of a launch are predicted than recorded, when they were first seen. [0]: of
   those that wait. Returns whether there are more on an SM. */
bool gs_count_surplus(const gs_run *recorded, const gs_run *predicted, size_t launch, int64_t *surplus);

/* The prediction of a recording with times, or one that agrees better because some blocks end a little earlier or later
   (ends.c): `*moved` of them. Takes `predicted`. */
gs_run *gs_predict_other_ends(const gs_gpu *gpu, const gs_run *recorded, gs_run *predicted, int *moved,
                              gs_error *error);

/* A timeline with an operation for each launch and copy, of which nothing is known yet. */
gs_code gs_timeline_new(const gs_run *run, gs_timeline *timeline, gs_error *error);

/* Counts the pairs of launches that could overlap. `launches`: by launch, what is noted of each; or NULL. */
gs_code gs_compare_overlaps(const gs_run *run, const gs_timeline *timeline, gs_overlaps *pairs,
                            gs_launch_compared *launches, gs_error *error);

#endif
