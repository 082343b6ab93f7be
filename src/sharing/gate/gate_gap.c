/*
 * gate_gap.c: whether the GPU is held over the gap between two requests. See gate_gap.h.
 *
 * The lengths of recent gaps tell how often the next request comes within some time. To hold others for that time saves
 * what the request would lose, as often; and costs the time, or the gap if that is shorter. They are held for the time
 * that saves the most, if it saves more than it costs, and most gaps are short. A pause that happened to be short, or a
 * host that was late once, changes little. On average gaps are held for at most half as long as requests take: others
 * lose at most a third of the time to it, however many tokens there are.
 */
#include "gate_gap.h"

static const double WEIGHT = 1.0 / 32,         /* of the last gap in the chances, */
    REQUEST_WEIGHT = 1.0 / 16,                 /* and of the last request in the average */
    SHORTEST_NS = 10000, LONGER = 1.414213562; /* the lengths that are told apart */

bool gs_gap_begin(gs_gate_gap *gap, uint64_t now_ns) {
    if (!gap->ended_ns)
        return false;
    double ns = (double)(now_ns - gap->ended_ns), length_ns = SHORTEST_NS;
    int length = 0;
    for (; length < GS_GAP_LENGTHS && ns > length_ns; length_ns *= LONGER)
        length++;
    for (int i = 0; i < GS_GAP_LENGTHS; i++)
        gap->chances[i] += WEIGHT * ((i == length ? 1 : 0) - gap->chances[i]);
    return length < GS_GAP_LENGTHS;
}

bool gs_gap_is_stream(const gs_gate_gap *gap) {
    double is_short = 0;
    for (int i = 0; i < GS_GAP_LENGTHS; i++)
        is_short += gap->chances[i];
    return is_short >= 0.5;
}

uint64_t gs_gap_end(gs_gate_gap *gap, uint64_t now_ns, uint64_t request_ns, uint64_t lost_ns) {
    double length_ns = SHORTEST_NS, longer = 1, passed_ns = 0, most_saved_ns = 0, hold_ns = 0;
    gap->request_ns += (gap->ended_ns ? REQUEST_WEIGHT : 1) * ((double)request_ns - gap->request_ns);
    gap->ended_ns = now_ns;
    for (int i = 0; i < GS_GAP_LENGTHS && gs_gap_is_stream(gap); i++, length_ns *= LONGER) {
        longer -= gap->chances[i];
        passed_ns += gap->chances[i] * length_ns;
        double cost_ns = passed_ns + longer * length_ns, saved_ns = (1 - longer) * (double)lost_ns - cost_ns;
        if (saved_ns > most_saved_ns && cost_ns <= gap->request_ns / 2) {
            most_saved_ns = saved_ns;
            hold_ns = length_ns;
        }
    }
    return (uint64_t)hold_ns;
}
