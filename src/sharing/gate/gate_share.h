/*
 * gate_share.h: when a best-effort program may launch: if there are several, and if its share is capped. No driver and
 * no threads: the caller locks.
 *
 * Each program counts the work that it launches, divided by its weight: its pass. A program whose pass is ahead of that
 * of another one that has work waits until the other has caught up. So each gets time in proportion to its weight while
 * it has work, and a program that launches less than its share delays no one.
 *
 * Whether another program has work is seen on the board: the GPU itself writes a number there now and then, behind
 * launches: the pass of the program when it launched them. A number that was put into a stream and is not written yet
 * means work, unless the last one that was written says that a copy follows, which needs no SM. Launches that no number
 * follows yet count for as long as they should take. So a program does not wait for one that is idle.
 *
 * Launches run ahead of the GPU, by up to a thousand kernels. What is queued cannot be held back any more, so a program
 * queues little while others have work. One that was idle goes on from what the GPU has done for others, not from what
 * they have launched.
 *
 * Work is the time that kernels take alone. Beside another program under MPS a short kernel can take ten times as long,
 * because it waits for blocks of the other: counted so, the program would pay for what it does not get. So a time
 * counts only if no other program had work meanwhile. A program that has too few such times asks for quiet now and
 * then: others launch nothing for a moment.
 *
 * A cap is a share against the clock: a program that may have 30% of the time pays for 3 ms of work with 10 ms.
 */
#ifndef GS_GATE_SHARE_H
#define GS_GATE_SHARE_H

#include "sharing/client/client.h"

#include <stdbool.h>
#include <stdint.h>

/* A program on the board, which has copies of the second group: others can write there. */
typedef struct gs_gate_share {
    gs_board *board;
    const gs_notice *notice;
    uint32_t slot, weight;

    uint64_t pass_ns, busy_until_ns, waits_until_ns, quiet_until_ns, expires_ns;
    uint32_t sent[GS_SHARE_LANES];

    uint32_t next[GS_SHARE_LANES]; /* the last number taken for each lane */
    uint64_t unnumbered_ns;        /* work since the last number */
    uint64_t others_ns;            /* when others had work the last time, as far as it knows */
    uint64_t behind_ns;            /* how far it was behind others when it last had work */
    uint64_t usual_ns;             /* work of a launch, on average */
    uint64_t charged_ns,
        untimed_ns;          /* work since the last look for quiet, and the part of it that was not timed alone */
    uint64_t look_ns;        /* when it may ask for quiet again */
    uint64_t quiet_since_ns; /* since when it is quiet, if it has asked for it; 0: not yet */
} gs_gate_share;

/* Whether the program must wait before its next launch. */
bool gs_share_must_wait(const gs_gate_share *share, uint64_t now_ns);
/* The program waits for others: it still has work, so it is not idle. */
void gs_share_wait(gs_gate_share *share, uint64_t now_ns);
/* The program has waited long enough: it is not ahead any more. */
void gs_share_forgive(gs_gate_share *share, uint64_t now_ns);
/* The program launches `work_ns` of work; 0: not known. `is_timed`: it was timed alone. */
void gs_share_charge(gs_gate_share *share, uint64_t work_ns, bool is_timed, uint64_t now_ns);
/* The program waits for the GPU; and then what it launched is done. */
void gs_share_synchronizes(gs_gate_share *share, uint64_t now_ns);
void gs_share_synchronized(gs_gate_share *share, uint64_t now_ns);

/* Whether a number should follow the launch that was charged last. */
bool gs_share_wants_number(const gs_gate_share *share, uint64_t now_ns);
/* Whether other programs have work. */
bool gs_share_has_others(const gs_gate_share *share, uint64_t now_ns);
/* The next number of a lane. `is_copy`: up to the next one the stream only copies. */
uint32_t gs_share_take_number(gs_gate_share *share, uint32_t lane, bool is_copy);
/* It was put into the stream, behind all launches so far. */
void gs_share_send_number(gs_gate_share *share, uint32_t lane, uint32_t number, uint64_t now_ns);

enum { GS_SHARE_CROWDED, GS_SHARE_NONE };
/* Names what other programs have launched so far; GS_SHARE_CROWDED: the GPU works for one of them;
   GS_SHARE_NONE: there are none. If it is the same before and after something, that was alone. */
uint64_t gs_share_others(const gs_gate_share *share, uint64_t now_ns);

/* Writes the program's numbers to the board again. */
void gs_share_publish(const gs_gate_share *share);

typedef struct gs_gate_cap {
    uint32_t percent;       /* of the GPU's time; 0: no cap */
    uint64_t paid_until_ns; /* when the work that was launched is paid for */
} gs_gate_cap;

/* The program launches `work_ns` of work. */
void gs_cap_charge(gs_gate_cap *cap, uint64_t work_ns, uint64_t now_ns);
/* How long the program has to wait before its next launch. */
uint64_t gs_cap_wait_ns(const gs_gate_cap *cap, uint64_t now_ns);

#endif
