/*
 * ring.h: records of bytes from one process to another through shared memory, in order, without a system call while the
 * other is awake.
 *
 * There is one writer and one reader. Each keeps its own position in private memory and publishes it. The other side's
 * position is checked, so a hostile process can only make the ring GS_RING_BROKEN. The reader copies each record out
 * once.
 *
 * A side with nothing to do announces it (gs_ring_sleep, gs_ring_wants_space) and then waits for its own eventfd, its
 * bell, which the other side rings only on request. A process with several rings has one bell for all of them:
 *
 *     while (!gs_ring_sleep(&from))    // false: a record came meanwhile
 *         take(&from);
 *     poll(bell);
 *     gs_ring_wake(&from);
 *
 * A program that polls anyway need not wake: a ring that is read while it sleeps is rung once too often, nothing else.
 */
#ifndef GS_RING_H
#define GS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gs_ring_result {
    GS_RING_DONE,
    GS_RING_NOT_NOW, /* put: no space; take: nothing there */
    GS_RING_BROKEN,  /* the other side broke the protocol: give up */
    GS_RING_TOO_LONG /* put: the record exceeds the ring's limit; take: it exceeds the buffer, and stays */
} gs_ring_result;

/* One end of a ring, the writer's or the reader's; in private memory. */
typedef struct gs_ring {
    struct gs_ring_shared *shared;
    unsigned char *bytes;
    uint32_t capacity;
    uint64_t position; /* mine */
    uint64_t other;    /* as last seen and checked */
    int bell;          /* rings the other side; not owned */
    bool rings_socket; /* the bell is a socket */
} gs_ring;

/* Bytes of shared memory that a ring needs; `capacity` is a power of two from 64 to 2^30. The memory begins at a
   multiple of 64, and is all zero before the first use. */
size_t gs_ring_bytes(uint32_t capacity);

/* Opens an end of a new ring; both positions begin at 0. `bell` is an eventfd, or a connected socket. */
void gs_ring_attach(gs_ring *ring, void *memory, uint32_t capacity, int bell);
void gs_ring_attach_socket(gs_ring *ring, void *memory, uint32_t capacity, int socket);

/* The longest record of a ring of this capacity: a quarter of it. */
uint32_t gs_ring_longest(uint32_t capacity);

/* ---- the writer ---- */

gs_ring_result gs_ring_put(gs_ring *ring, const void *record, uint32_t bytes);
/* NOT_NOW: the reader will ring my bell when there is space. DONE: there is space for `bytes` already. */
gs_ring_result gs_ring_wants_space(gs_ring *ring, uint32_t bytes);

/* ---- the reader ---- */

/* Copies the next record out; its length is `*bytes`, at most `most`. */
gs_ring_result gs_ring_take(gs_ring *ring, void *into, uint32_t most, uint32_t *bytes);
/* Whether there is a record to take; reads one word of shared memory. */
bool gs_ring_has_some(const gs_ring *ring);
/* About to sleep: the next record rings my bell. False: there is one already, do not sleep. */
bool gs_ring_sleep(gs_ring *ring);
void gs_ring_wake(gs_ring *ring);

/* ---- bells ----

   Between processes that trust each other a bell is an eventfd, close-on-exec and non-blocking. Both sides share its
   open file description: a side that made it blocking, and filled its counter, would block the other. So if the other
   side may be hostile, the bell is a socket: each side has its own description, and sending never waits. */

int gs_bell_new(void); /* -1: errno says why */
void gs_bell_ring(int bell);
void gs_bell_clear(int bell); /* resets the bell, so that a poll waits again */

/* Sends a message of one byte, GS_RING_BYTE. If the socket is full, the other side will wake anyway. */
enum { GS_RING_BYTE = 'r' };
void gs_bell_ring_socket(int socket);

#endif
