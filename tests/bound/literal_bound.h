/*
 * literal_bound.h: the model of bound.h taken literally, and the worst case by trying every choice of every cycle.
 */
#ifndef GS_LITERAL_BOUND_H
#define GS_LITERAL_BOUND_H

#include "model/bound/bound.h"

typedef struct literal_warps {
    const gs_flat *flat;
    int64_t count;
    bool fair;
    int32_t done[GS_SEARCH_WARPS];  /* instructions issued */
    int32_t issue[GS_SEARCH_WARPS]; /* the cycle of the last of them */
} literal_warps;

/* Whether the scheduler may select exactly these warps, as bits, in this cycle. */
bool literal_may_select(const literal_warps *warps, uint64_t selected, int32_t cycle);
void literal_select(literal_warps *warps, uint64_t selected, int32_t cycle);

/* The latest end over all choices from this cycle on. Takes exponential time. */
int32_t literal_worst(const literal_warps *warps, int32_t cycle);

int32_t literal_latency(const gs_flat *flat, int32_t instruction);

#endif
