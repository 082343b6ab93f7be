/*
 * bulk.h: the blocks of a run that is played in bulk, for the files that do that. bulk.c explains it.
 */
#ifndef GS_BULK_H
#define GS_BULK_H

#include "engine_state.h"

/* Blocks of a launch that started together, and end together. */
struct cohort {
    int64_t end_ns;
    int64_t blocks;
};

/* The running blocks of a launch, in the order of their numbers. */
struct lane {
    size_t launch;        /* NO_LAUNCH: the lane is free */
    gs_tag tag;           /* of the launch in patterns */
    uint32_t first, past; /* of the blocks; modulo the size of the ring */
    int16_t *sms;         /* a ring */
    struct {
        struct cohort *data;
        size_t count, capacity;
    } cohorts;
    size_t first_cohort;
    int64_t
        unsteady_until; /* before this number of blocks has ended, it is not worth looking for waves (bulk_waves.c) */
};

/* An SM that takes blocks of a launch. */
struct taker {
    int32_t sm, headroom;
    int32_t taken; /* blocks that were placed there and have not started */
    bool is_known; /* each takes away the headroom of one block */
};

struct gs_bulk {
    gs_patterns *patterns;
    uint32_t *of_sms;  /* the pattern of each SM */
    uint8_t *moves;    /* of each SM: how many partitions its pointer has moved on since the GPU was idle. It may
                          overflow: 256 is a multiple of the number of partitions */
    int64_t residents; /* blocks on all of them. 0: the dispatcher has the state */
    int64_t local_bytes;
    int32_t sms;
    uint32_t ring; /* the size of the rings less 1 */
    struct {
        struct lane *data;
        size_t count, capacity;
    } lanes;
    size_t full_for;  /* the launch for which only SMs that have changed can have headroom, or NO_LAUNCH */
    int32_t *changed; /* these SMs, by their place in tie order */
    int32_t changed_count;
    int16_t *warm; /* the SMs that may be idle and still have their configuration */
    int32_t warm_count;
    bool *is_listed;   /* by SM: it is one of these */
    uint8_t *ends;     /* by SM: blocks that are about to end, 0 in between */
    int16_t *emptied;  /* the SMs on which any are */
    int32_t last[2];   /* the SMs of the last blocks that took the place of others: on groups that do not go first, and
                          on those that do; -1: none since the turns were moved on. Only these move them (replace.c) */
    bool *is_first;    /* by SM: it is in a group that goes first (number.c) */
    int16_t *order;    /* SMs in tie order */
    int32_t *position; /* where an SM is in it */
    bool is_regular;   /* a block takes away the headroom of one block of its kernel, on an SM that was not idle */
    struct taker *takers; /* while blocks are placed: the SMs that have headroom */
    gs_mark *marks;       /* for gs_dispatcher_leave */
};

static inline struct lane *gs_lane_of(const gs_engine *engine, size_t launch) {
    return &engine->bulk->lanes.data[engine->plays[launch].lane];
}

static inline bool gs_lane_is_empty(const struct lane *lane) {
    return lane->first_cohort == lane->cohorts.count;
}

/* The ending of the first cohort in the lane of a launch. */
static inline struct ending gs_lane_ending(const gs_engine *engine, size_t launch) {
    const struct lane *lane = gs_lane_of(engine, launch);
    return (struct ending){lane->cohorts.data[lane->first_cohort].end_ns, launch, engine->plays[launch].ended, IN_BULK};
}

/* Blocks that took the place of others were bursts by themselves. The turns move on, before others are numbered. */
static inline void gs_bulk_move_turns(gs_engine *engine) {
    int32_t *last = engine->bulk->last;
    for (int i = 1; i >= 0; i--) {
        if (last[i] >= 0 && engine->numbering.numberer)
            gs_number(engine->numbering.numberer, &(gs_burst){&(gs_placement){last[i], 1, 0}, 1, false},
                      &engine->numbering.turns.data[0], engine->numbering.order);
        last[i] = -1;
    }
}

/* Before the first cohort of a launch ends: skips waves of its blocks, if each is replaced by another of them on the
   same SM again and again (bulk_waves.c). `*skipped`: how many blocks. False: out of memory. */
bool gs_bulk_skip(gs_engine *engine, size_t launch, int64_t *skipped);

#endif
