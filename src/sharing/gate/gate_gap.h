/*
 * gate_gap.h: whether the GPU is held over the gap between two requests. No driver and no threads: the caller locks.
 *
 * A server that generates a stream of tokens synchronizes after each, and launches the next one some 10 to 100 us
 * later. For the gate these are requests of their own. If others got the GPU in each gap, each token would pay for it:
 * without MPS for a switch to another process and back, under MPS for the kernel that began in the gap.
 */
#ifndef GS_GATE_GAP_H
#define GS_GATE_GAP_H

#include <stdbool.h>
#include <stdint.h>

enum { GS_GAP_LENGTHS = 11 }; /* of short gaps: from 10 to 320 us */

/* All 0 at first. */
typedef struct gs_gate_gap {
    uint64_t ended_ns;              /* the last request; 0: there was none */
    double chances[GS_GAP_LENGTHS]; /* that a gap has about this length; what is missing to 1: that it is longer */
    double request_ns;              /* how long requests take, on average */
} gs_gate_gap;

/* A request begins. Returns whether the gap before it was short. */
bool gs_gap_begin(gs_gate_gap *gap, uint64_t now_ns);
/* A request of this duration ends. `lost_ns`: what the next one loses if others begin in the gap. Returns for how long
   others are held, unless the next one begins; 0: not at all. */
uint64_t gs_gap_end(gs_gate_gap *gap, uint64_t now_ns, uint64_t request_ns, uint64_t lost_ns);
/* Whether most gaps are short. */
bool gs_gap_is_stream(const gs_gate_gap *gap);

#endif
