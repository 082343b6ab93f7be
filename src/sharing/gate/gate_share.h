/*
 * gate_share.h: who of several best-effort programs may launch, where they have different weights. No driver and no
 * threads: the caller locks.
 *
 * Each program counts the work that it launches, for its weight: its pass. A program whose pass is ahead of that of
 * another one that has work waits until the other has caught up. Whether a program has work is known from what it
 * launched: so much as keeps the GPU busy until some time, if it gets no more than its share. A program that launches
 * less than its share holds nobody.
 */
#ifndef GS_GATE_SHARE_H
#define GS_GATE_SHARE_H

#include "sharing/client/client.h"

#include <stdbool.h>
#include <stdint.h>

/* A program on the board. */
typedef struct gs_gate_share {
    gs_board *board;
    uint32_t slot, weight;
} gs_gate_share;

/* It launches work of so many ns. */
void gs_share_charge(const gs_gate_share *share, uint64_t work_ns, uint64_t now_ns);
/* Whether it is ahead of another program that has work. */
bool gs_share_is_ahead(const gs_gate_share *share, uint64_t now_ns);

#endif
