/*
 * gate_hold.h: how long a flag on the board may hold best-effort programs. No threads: the caller polls.
 */
#ifndef GS_GATE_HOLD_H
#define GS_GATE_HOLD_H

#include <stdbool.h>
#include <stdint.h>

/* What this program has seen of a flag, by its own clock: the data of others is not trusted. */
typedef struct gs_gate_hold {
    uint64_t since_ns;   /* begin of the request that holds the flag, as its slot says, */
    uint64_t request_ns; /* and when it was first seen */
    uint64_t flagged_ns; /* since when the flag was set at every look; 0: it is clear */
} gs_gate_hold;

/* The flag is set, by a request since `since_ns` that wants to hold others for `hold_ns`. True: it has expired. */
bool gs_hold_is_over(gs_gate_hold *hold, uint64_t since_ns, uint64_t hold_ns, uint64_t now_ns);
/* The flag is clear. */
void gs_hold_end(gs_gate_hold *hold);

#endif
