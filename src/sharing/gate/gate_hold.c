/*
 * gate_hold.c: how long flags on the board may hold best-effort programs. See gate_hold.h.
 *
 * A flag of no connected program has expired. A flag of a connected program has expired if one request has held it for
 * too long, or if it was set at every look, as if requests never ended. All flags have expired if some flag was set at
 * every look, as if programs held others in turn.
 */
#include "gate_hold.h"

static const uint64_t STARVED_NS = 1000000000; /* the limit for requests without a pause */

static uint64_t longer(uint64_t a_ns, uint64_t b_ns) {
    return a_ns > b_ns ? a_ns : b_ns;
}

/* The flag is set, by a request since `since_ns` that may hold others for `hold_ns`. */
static bool is_over(gs_gate_hold *hold, uint64_t since_ns, uint64_t hold_ns, uint64_t most_ns, uint64_t now_ns) {
    if (!hold->flagged_ns)
        hold->flagged_ns = hold->request_ns = now_ns;
    if (hold->since_ns != since_ns)
        hold->request_ns = now_ns;
    hold->since_ns = since_ns;
    hold_ns = hold_ns < most_ns ? hold_ns : most_ns;
    return now_ns - hold->request_ns > hold_ns || now_ns - hold->flagged_ns > longer(most_ns, STARVED_NS);
}

uint32_t gs_holds_expire(gs_gate_holds *holds, const gs_hold_look *look) {
    uint32_t expired = look->flags & ~look->slots, flags = look->flags & look->slots;
    uint64_t most_ns = STARVED_NS;
    for (uint32_t i = 0; i < GS_BOARD_SLOTS; i++) {
        bool is_set = flags >> i & 1;
        most_ns = is_set ? longer(most_ns, look->most_ns[i]) : most_ns;
        if (is_set && is_over(&holds->slots[i], look->since_ns[i], look->hold_ns[i], look->most_ns[i], look->now_ns))
            expired |= (uint32_t)1 << i;
    }
    if (flags && is_over(&holds->any, 0, most_ns, most_ns, look->now_ns))
        expired |= flags;
    for (uint32_t i = 0; i < GS_BOARD_SLOTS; i++)
        if (!((flags & ~expired) >> i & 1))
            holds->slots[i].flagged_ns = 0;
    if (!(flags & ~expired))
        holds->any.flagged_ns = 0;
    return expired;
}
