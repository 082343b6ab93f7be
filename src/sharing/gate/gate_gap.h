/*
 * gate_gap.h: whether the GPU is held over the gap between two requests. No driver and no threads: the caller locks.
 *
 * A server that generates a stream of tokens synchronizes after each, and launches the next one some 50 us later. For
 * the gate these are requests of their own. If others got the GPU in each gap, each token would pay for the way back.
 */
#ifndef GS_GATE_GAP_H
#define GS_GATE_GAP_H

#include <stdint.h>

/* All 0 at first. */
typedef struct gs_gate_gap {
    uint64_t ended_ns;   /* the last request; 0: there was none */
    double chance;       /* that the next gap is short */
    double request_ns;   /* how long requests take, on average */
    uint64_t longest_ns; /* of recent short gaps */
} gs_gate_gap;

/* A request begins. */
void gs_gap_begin(gs_gate_gap *gap, uint64_t now_ns);
/* A request of this duration ends. Returns for how long others are held, unless the next one begins; 0: not at all. */
uint64_t gs_gap_end(gs_gate_gap *gap, uint64_t now_ns, uint64_t request_ns);

#endif
