/*
 * queue_state.h: the internals of a queue, private to this room.
 */
#ifndef GS_QUEUE_STATE_H
#define GS_QUEUE_STATE_H

#include "queue.h"

#include "base/base.h"

#define GS_NO_LAUNCH SIZE_MAX

enum { GS_QUEUE_FIRST, GS_QUEUE_SECOND, GS_QUEUES };

/* The number of launches of each queue that are considered, the oldest ones. */
enum { GS_QUEUE_WINDOW = 64 };

typedef struct gs_queued {
    int32_t kind;
    int32_t workers;         /* while it runs */
    double alone_us;         /* as predicted */
    double left_us, rate;    /* see gs_runner */
    double ready_us, due_us; /* when it became ready, and when it should start at the latest */
    uint64_t order;          /* of becoming ready */
    uint64_t user;
    size_t waits_for;      /* launches that have not ended */
    size_t followers;      /* the first edge to its successors */
    size_t next, previous; /* in its queue; `next` also links free slots */
} gs_queued;

/* `launch` waits for the launch that has this edge in its list. */
typedef struct gs_queue_edge {
    size_t launch, next;
} gs_queue_edge;

/* Two launches that began together, and that no other has joined: they are measured. */
typedef struct gs_watched_pair {
    int32_t kinds[2];
    double alone_us[2];
    double began_us, expected_us; /* expected without learned corrections */
    bool is_active, is_trial;
} gs_watched_pair;

struct gs_queue {
    gs_queue_options options;
    gs_partners partners;
    double *learned; /* kinds x kinds: how much longer pairs take than expected */
    bool *is_first;  /* by kind */
    bool *is_second;
    struct {
        gs_queued *data;
        size_t count, capacity;
    } launches;
    struct {
        gs_queue_edge *data;
        size_t count, capacity;
    } edges;
    size_t free_launch, free_edge;
    size_t head[GS_QUEUES], tail[GS_QUEUES], ready[GS_QUEUES];
    double ready_work_us; /* total duration alone of all ready launches */
    size_t running[GS_QUEUE_TOGETHER];
    size_t running_count;
    size_t alive;
    uint64_t next_order;
    gs_watched_pair pair;
    double now_us;
    double busy_us;   /* so far */
    double earned_us; /* by measured pairs; negative: lost */
};

static inline int gs_queue_of_kind(const gs_queue *queue, int32_t kind) {
    return queue->is_first[kind] ? GS_QUEUE_FIRST : GS_QUEUE_SECOND;
}

/* The launches to start now. */
typedef struct gs_queue_choice {
    size_t launches[2];
    size_t count; /* 0: nothing */
    double gain_us;
    bool is_trial;
} gs_queue_choice;

gs_queue_choice gs_queue_choose(const gs_queue *queue);

#endif
