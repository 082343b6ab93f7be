/*
 * gate_hold.h: how long a mark on the board may hold best-effort programs. No threads: the caller looks now and then.
 */
#ifndef GS_GATE_HOLD_H
#define GS_GATE_HOLD_H

#include <stdbool.h>
#include <stdint.h>

/* What this program has seen of a mark, by its own clock: what others write is not trusted. */
typedef struct gs_gate_hold {
    uint64_t since_ns;   /* of the request that has the mark, as its slot says, */
    uint64_t request_ns; /* and since when it was seen */
    uint64_t marked_ns;  /* since when there was a mark at each look; 0: there is none */
} gs_gate_hold;

/* There is a mark now, of a request since `since_ns` that wants to hold others for `hold_ns`. True: it has been there
   for too long. */
bool gs_hold_is_over(gs_gate_hold *hold, uint64_t since_ns, uint64_t hold_ns, uint64_t now_ns);
/* There is none. */
void gs_hold_end(gs_gate_hold *hold);

#endif
