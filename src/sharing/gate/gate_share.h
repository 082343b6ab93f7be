/*
 * gate_share.h: when a best-effort program may launch: if weights differ, and if its share is capped. No driver and no
 * threads: the caller locks.
 *
 * Each program counts the work that it launches, divided by its weight: its pass. A program whose pass is ahead of that
 * of another one that has work waits until the other has caught up. Whether a program has work is estimated from its
 * launches: they would keep the GPU busy until some time if the program got only its share, or all of the GPU where no
 * other has work; after the last launch that is at most a second. A program that launches less than its share delays no
 * one.
 *
 * A cap is a share against the clock: a program that may have 30% of the time pays for 3 ms of work with 10 ms.
 */
#ifndef GS_GATE_SHARE_H
#define GS_GATE_SHARE_H

#include "sharing/client/client.h"

#include <stdbool.h>
#include <stdint.h>

/* A program on the board, which has copies of the last two: others can write there. */
typedef struct gs_gate_share {
    gs_board *board;
    const gs_notice *notice;
    uint32_t slot, weight;
    uint64_t pass_ns, busy_until_ns;
} gs_gate_share;

/* The program launches `work_ns` of work. */
void gs_share_charge(gs_gate_share *share, uint64_t work_ns, uint64_t now_ns);
/* Writes the program's numbers to the board again. */
void gs_share_publish(const gs_gate_share *share);
/* Whether the program is ahead of another one that has work. */
bool gs_share_is_ahead(const gs_gate_share *share, uint64_t now_ns);
/* The program waits for others: it still has work, so it is not idle. */
void gs_share_wait(gs_gate_share *share, uint64_t now_ns);
/* The program has waited long enough: it is not ahead any more. */
void gs_share_forgive(gs_gate_share *share, uint64_t now_ns);

typedef struct gs_gate_cap {
    uint32_t percent;       /* of the GPU's time; 0: no cap */
    uint64_t paid_until_ns; /* when the work that was launched is paid for */
} gs_gate_cap;

/* The program launches `work_ns` of work. */
void gs_cap_charge(gs_gate_cap *cap, uint64_t work_ns, uint64_t now_ns);
/* How long the program has to wait before its next launch. */
uint64_t gs_cap_wait_ns(const gs_gate_cap *cap, uint64_t now_ns);

#endif
