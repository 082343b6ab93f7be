/*
 * literal.h: Algorithm 1 and the queue around it, slow and directly from the paper, to compare with the engine.
 *
 * It shares only the types of a GPU description and of a run with the engine. Everything is computed again at every
 * step: each decision checks all SMs, memory is a map of granules, and the next event is found by checking all blocks.
 */
#ifndef GS_LITERAL_H
#define GS_LITERAL_H

#include "model/check/check.h"
#include "model/gpu/gpu.h"
#include "model/run/run.h"
#include "model/timeline/timeline.h"

/* A block that started. The log of a run has them in the order in which they started. */
typedef struct gs_start {
    size_t event; /* of the run, during which it started; the number of events: after the last */
    size_t launch;
    int64_t block;
    int32_t sm;
    int64_t at_ns;
    int32_t headroom; /* of the SM for blocks of this kernel, before; 0: of a cluster, or SMs are taken in turn */
} gs_start;

typedef struct gs_log {
    gs_start *data;
    size_t count, capacity;
} gs_log;

/* The turns of the groups that go first, of their parts, and of the others. */
typedef struct literal_turns {
    int first, part, other;
} literal_turns;

/* Stores the SMs of blocks 0, 1, 2, ... in `order`. The blocks were placed on `sms` one after the other, which had
   `rooms` then. */
void literal_number(const gs_gpu *gpu, const int *sms, const int *rooms, int count, bool is_cut, literal_turns *turns,
                    int *order);

/* The same for a cooperative launch, which is decided as a whole. */
void literal_number_whole(const gs_gpu *gpu, const int *sms, int count, literal_turns *turns, int *order);

/* An SM as the next cluster of a kernel sees it. An SM that is closed to the kernel has no room. */
typedef struct literal_view {
    int room, cluster_blocks;
    bool is_idle;
} literal_view;

/* Stores the SMs of the next round of clusters in `sms`; an empty SM takes `per` blocks of the kernel. Returns the
   number of clusters. */
int literal_clusters(const gs_gpu *gpu, const literal_view *view, int per, int size, int64_t most, int *sms);

/* Stores the SMs of the blocks of such a round of `count` blocks in order. */
void literal_cluster_order(const gs_gpu *gpu, const int *sms, int count, int size, literal_turns *turns, int *order);

/* When a launch became ready, started and ended; copies are numbered after launches. GS_NO_TIME: never. */
typedef struct literal_times {
    int64_t ready_ns, start_ns, end_ns;
} literal_times;

/* The turns with which a GPU begins, as in gs_predict_options; 0 unless a test sets it. */
extern int literal_turn;

/* As literal_play, for a run with host times, copies and dependencies. `times` has an element for each launch and copy.
 */
void literal_play_program(const gs_gpu *gpu, const gs_run *run, const gs_pace *pace, gs_log *log, literal_times *times);

/* Plays the run. The kernels must fit the GPU. Aborts if memory runs out. */
void literal_play(const gs_gpu *gpu, const gs_run *run, gs_log *log);

/* As gs_check_run. */
gs_code literal_check_run(const gs_gpu *gpu, const gs_run *run, int64_t budget, gs_check *check, gs_error *error);

/* Whether all blocks of a run without exits are resident together after these changes, in this launch order (NULL: that
   of the run). Changes of the kind GS_FIX_ORDER are ignored. */
bool literal_works(const gs_gpu *gpu, const gs_run *run, const gs_change *changes, size_t count, const size_t *order);

#endif
