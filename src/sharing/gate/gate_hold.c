/*
 * gate_hold.c: how long a flag on the board may hold best-effort programs. See gate_hold.h.
 *
 * A flag has expired if one request has held it for too long, or if it was set at every look, as if requests never
 * ended.
 */
#include "gate_hold.h"

static const uint64_t MOST_HOLD_NS = 10000000000, /* the limit for a request, whatever its program wants, */
    STARVED_NS = 1000000000;                      /* and for requests without a pause */

bool gs_hold_is_over(gs_gate_hold *hold, uint64_t since_ns, uint64_t hold_ns, uint64_t now_ns) {
    if (!hold->flagged_ns)
        hold->flagged_ns = hold->request_ns = now_ns;
    if (hold->since_ns != since_ns)
        hold->request_ns = now_ns;
    hold->since_ns = since_ns;
    hold_ns = hold_ns > MOST_HOLD_NS ? MOST_HOLD_NS : hold_ns;
    uint64_t most_ns = hold_ns > STARVED_NS ? hold_ns : STARVED_NS;
    return now_ns - hold->request_ns > hold_ns || now_ns - hold->flagged_ns > most_ns;
}

void gs_hold_end(gs_gate_hold *hold) {
    hold->flagged_ns = 0;
}
