/*
 * literal.h: Algorithm 1 and the queue around it, slow and straight from the paper, to compare the engine with.
 *
 * Shares nothing with the engine but the types of a GPU description and a run. Everything is looked up again at every
 * step: each decision goes over all SMs, memory is a map of granules, the next event is found by looking at all blocks.
 */
#ifndef GS_LITERAL_H
#define GS_LITERAL_H

#include "gpu/gpu.h"
#include "run/run.h"

/* A block that started. The log of a play is these, in the order in which they happened. */
typedef struct gs_start {
    size_t event; /* of the run, during which it started; the number of events: after the last */
    size_t launch;
    int64_t block;
    int32_t sm;
    int64_t at_ns;
} gs_start;

typedef struct gs_log {
    gs_start *data;
    size_t count, capacity;
} gs_log;

/* Whose turn it is among the groups that go first, their parts and the others. */
typedef struct literal_turns {
    int first, part, other;
} literal_turns;

/* The SMs of blocks 0, 1, 2 ... into `order`, for blocks that were placed on `sms` one after the other, which had
   `rooms` then. */
void literal_number(const gs_gpu *gpu, const int *sms, const int *rooms, int count, bool is_cut, literal_turns *turns,
                    int *order);

/* An SM as the next cluster of a kernel finds it. One that is closed to the kernel has no room. */
typedef struct literal_view {
    int room, cluster_blocks;
    bool is_idle;
} literal_view;

/* The SMs of the next round of clusters, of a kernel of which an empty SM takes `per` blocks, into `sms`. Returns how
   many clusters that is. */
int literal_clusters(const gs_gpu *gpu, const literal_view *view, int per, int size, int64_t most, int *sms);

/* The SMs of the blocks of such a round of `count` blocks in order, into `order`. */
void literal_cluster_order(const gs_gpu *gpu, const int *sms, int count, int size, literal_turns *turns, int *order);

/* Plays the run; aborts where memory runs out. The kernels must fit the GPU. */
void literal_play(const gs_gpu *gpu, const gs_run *run, gs_log *log);

#endif
