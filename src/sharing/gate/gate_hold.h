/*
 * gate_hold.h: how long flags on the board may hold best-effort programs. No threads: the caller polls.
 */
#ifndef GS_GATE_HOLD_H
#define GS_GATE_HOLD_H

#include "sharing/client/client.h"

#include <stdint.h>

/* What this program has seen of a flag, by its own clock: the data of others is not trusted. */
typedef struct gs_gate_hold {
    uint64_t since_ns;   /* begin of the request that holds the flag, as its slot says, */
    uint64_t request_ns; /* and when it was first seen */
    uint64_t flagged_ns; /* since when the flag was set at every look; 0: it is clear */
} gs_gate_hold;

typedef struct gs_gate_holds {
    gs_gate_hold slots[GS_BOARD_SLOTS];
    gs_gate_hold any; /* at least one flag is set */
} gs_gate_holds;

/* What is on the board and in the notice. */
typedef struct gs_hold_look {
    uint32_t flags, slots; /* `slots`: those of connected programs */
    uint64_t since_ns[GS_BOARD_SLOTS], hold_ns[GS_BOARD_SLOTS];
    uint64_t most_ns[GS_BOARD_SLOTS]; /* the limit of `hold_ns`, from the notice */
    uint64_t now_ns;
} gs_hold_look;

/* The flags that have expired. The caller clears them. */
uint32_t gs_holds_expire(gs_gate_holds *holds, const gs_hold_look *look);

#endif
