/*
 * body_case.h: blocks of a small compiled kernel on one SM, and their latest end: over all states (body_worst.c), and
 * by trying every schedule of every walk (literal_body.c), which shares no code with it.
 *
 * The machine, cycle by cycle. Each partition issues one instruction if some warp in it is ready: it has waited for its
 * stall and its scoreboards, it is not at a barrier, and the units of the partition that it needs are free. Each unit
 * of the SM and of the GPU serves one of its waiting transactions if it is free. Nothing says which. A latency begins
 * when the instruction is issued, or when its transaction is served. A warp may take any walk of the body.
 *
 * Instructions of the class "memory" may take `slow_cycles` longer. In a chain of them, each of which is issued when
 * the one before is done or later, at most `slow_most` do.
 */
#ifndef GS_BODY_CASE_H
#define GS_BODY_CASE_H

#include "model/bound/bound.h"

enum { CASE_WARPS = 6, CASE_PARTITIONS = 2, CASE_SCOREBOARDS = 2 };

typedef struct body_case {
    const gs_machine *machine;
    const gs_body *body;
    int partitions, warps, slots, blocks; /* warps: of a block; slots: blocks that are on the SM at a time */
    int barrier_rounds, barrier_side;     /* of loops and branches with a barrier, which are the same for all warps */
    bool early;                           /* a latency may be half as long */
    int slow_cycles, slow_most;           /* slow_most 0: none is slow */
} body_case;

/* The cycles until all blocks have ended; -1: too large. A block begins with the partition that follows the last. */
int64_t body_worst(const body_case *given);
int64_t literal_body_worst(const body_case *given);

#endif
