/*
 * gate_hold.c: how long a mark on the board may hold best-effort programs. See gate_hold.h.
 *
 * A mark is over if it is that of one request for too long, or if there is one at each look, as if requests never
 * ended.
 */
#include "gate_hold.h"

static const uint64_t MOST_HOLD_NS = 10000000000, /* a request holds others no longer, whatever its program wants, */
    STARVED_NS = 1000000000;                      /* and requests without a pause no longer than this at a time */

bool gs_hold_is_over(gs_gate_hold *hold, uint64_t since_ns, uint64_t hold_ns, uint64_t now_ns) {
    if (!hold->marked_ns)
        hold->marked_ns = hold->request_ns = now_ns;
    if (hold->since_ns != since_ns)
        hold->request_ns = now_ns;
    hold->since_ns = since_ns;
    hold_ns = hold_ns > MOST_HOLD_NS ? MOST_HOLD_NS : hold_ns;
    uint64_t most_ns = hold_ns > STARVED_NS ? hold_ns : STARVED_NS;
    return now_ns - hold->request_ns > hold_ns || now_ns - hold->marked_ns > most_ns;
}

void gs_hold_end(gs_gate_hold *hold) {
    hold->marked_ns = 0;
}
