/*
 * literal_queue.h: the online scheduler of src/sharing/decide/queue.h, written out: every launch and every pair is
 * checked, each time. No learning, no trials.
 */
#ifndef GS_LITERAL_QUEUE_H
#define GS_LITERAL_QUEUE_H

#include "sharing/decide/decide.h"

enum { LITERAL_LAUNCHES = 512 };

typedef struct literal_launch {
    int32_t kind;
    double alone_us, left_us, rate, ready_us, due_us;
    int32_t workers;
    uint64_t order;
    size_t after[8];
    size_t after_count;
    bool is_ready, is_running, is_over;
} literal_launch;

typedef struct literal_queue {
    const gs_queue_options *options;
    const gs_partners *partners;
    const bool *is_first, *is_second; /* by kind */
    literal_launch launches[LITERAL_LAUNCHES];
    size_t count;
    uint64_t next_order;
    double now_us;
} literal_queue;

/* Adds a launch that waits for others, by their indexes here. */
void literal_add(literal_queue *queue, const literal_launch *launch);
/* Time passes, and launches become ready. */
void literal_pass(literal_queue *queue, double now_us);
/* Starts the next one or two launches, and stores their indexes. Returns how many; 0: none. */
size_t literal_next(literal_queue *queue, size_t *starts);
void literal_end(literal_queue *queue, size_t launch);

#endif
