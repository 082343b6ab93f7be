/*
 * ring.h: records of bytes from one process to another through shared memory, in order, without a system call while the
 * other is awake.
 *
 * There is one writer and one reader. Each keeps its own position to itself and only tells the other; what the other
 * tells is checked, so that a hostile process on the other side can make a ring GS_RING_BROKEN, and nothing else. The
 * reader copies each record out once.
 *
 * Who has nothing to do says so (gs_ring_sleep, gs_ring_wants_space) and then waits for an eventfd of its own, its
 * bell, which the other side rings only when it was asked to. A process with several rings has one bell for all of
 * them:
 *
 *     while (!gs_ring_sleep(&from))    // false: something came meanwhile
 *         take(&from);
 *     poll(bell);
 *     gs_ring_wake(&from);
 *
 * A program that is in a loop anyway need not wake: a ring that is read while it sleeps is only rung once too often.
 */
#ifndef GS_RING_H
#define GS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gs_ring_result {
    GS_RING_DONE,
    GS_RING_NOT_NOW, /* put: no space; take: nothing there */
    GS_RING_BROKEN,  /* the other side does not keep to the rules: give up */
    GS_RING_TOO_LONG /* the record is longer than a ring takes; take: than the buffer (it stays there: give up too) */
} gs_ring_result;

/* One end of a ring, of the writer or of the reader; private memory of its process. */
typedef struct gs_ring {
    struct gs_ring_shared *shared;
    unsigned char *bytes;
    uint32_t capacity;
    uint64_t position; /* mine */
    uint64_t other;    /* as last seen, and found to be possible */
    int bell;          /* rings the other side; not owned */
    bool rings_socket; /* the bell is a socket */
} gs_ring;

/* How much shared memory a ring takes; `capacity` is a power of two from 64 to 2^30. The memory begins at a multiple of
   64, and is all zero before the first use. */
size_t gs_ring_bytes(uint32_t capacity);

/* The end of a ring in shared memory that is new: both begin at 0. `bell` is an eventfd, or a connected socket. */
void gs_ring_attach(gs_ring *ring, void *memory, uint32_t capacity, int bell);
void gs_ring_attach_socket(gs_ring *ring, void *memory, uint32_t capacity, int socket);

/* The longest record that a ring of this capacity takes: a quarter of it. */
uint32_t gs_ring_longest(uint32_t capacity);

/* ---- the writer ---- */

gs_ring_result gs_ring_put(gs_ring *ring, const void *record, uint32_t bytes);
/* NOT_NOW: from now on the reader rings my bell when it has made space. DONE: there is space for `bytes` already. */
gs_ring_result gs_ring_wants_space(gs_ring *ring, uint32_t bytes);

/* ---- the reader ---- */

/* Copies the next record out; it has `*bytes`, at most `most`. */
gs_ring_result gs_ring_take(gs_ring *ring, void *into, uint32_t most, uint32_t *bytes);
/* Whether there is something to take: reads one word of shared memory. */
bool gs_ring_has_some(const gs_ring *ring);
/* About to sleep: the next record rings my bell. False: there is one already, do not sleep. */
bool gs_ring_sleep(gs_ring *ring);
void gs_ring_wake(gs_ring *ring);

/* ---- bells ----

   Between processes that trust each other a bell is an eventfd, close-on-exec and non-blocking. Both sides share its
   open file description: one that made it blocking, and filled its counter, would block the other. So where the other
   side may be hostile the bell is a socket: each side has a description of its own, and sending never waits. */

int gs_bell_new(void); /* -1: errno says why */
void gs_bell_ring(int bell);
void gs_bell_clear(int bell); /* takes what was rung, so that a poll waits again */

/* Sends a message of one byte, GS_RING_BYTE. If there is no space for it, the other side has enough to wake for. */
enum { GS_RING_BYTE = 'r' };
void gs_bell_ring_socket(int socket);

#endif
