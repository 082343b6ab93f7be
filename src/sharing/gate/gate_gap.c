/*
 * gate_gap.c: whether the GPU is held over the gap between two requests. See gate_gap.h.
 *
 * It is held if at least half of the recent gaps were short, and short compared with the requests: so others lose at
 * most a third of the time to it, however many tokens there are. It is held for twice the longest recent short gap; at
 * the end of a stream that much is lost.
 */
#include "gate_gap.h"

#include <stdbool.h>

static const uint64_t SHORT_NS = 300000; /* a switch to another process and back costs about as much */
static const double WEIGHT = 1.0 / 16;   /* of the last gap, and of the last request, in the averages */

void gs_gap_begin(gs_gate_gap *gap, uint64_t now_ns) {
    if (!gap->ended_ns)
        return;
    uint64_t ns = now_ns - gap->ended_ns;
    bool is_short = ns <= SHORT_NS;
    gap->chance += WEIGHT * ((is_short ? 1 : 0) - gap->chance);
    gap->longest_ns -= gap->longest_ns / 64;
    if (is_short && ns > gap->longest_ns)
        gap->longest_ns = ns;
}

uint64_t gs_gap_end(gs_gate_gap *gap, uint64_t now_ns, uint64_t request_ns) {
    gap->request_ns += (gap->ended_ns ? WEIGHT : 1) * ((double)request_ns - gap->request_ns);
    gap->ended_ns = now_ns;
    uint64_t hold_ns = 2 * gap->longest_ns;
    return gap->chance >= 0.5 && (double)hold_ns <= gap->request_ns ? hold_ns : 0;
}
