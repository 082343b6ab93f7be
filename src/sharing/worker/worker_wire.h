/*
 * worker_wire.h: the memory shared by the daemon and the worker, private to this room.
 *
 * It holds the facts of the device, a note about why the process died, the progress of confined launches, a
 * ring of requests and a ring of reports. Descriptors of regions and images go over a socket, each before its request.
 * Both sides are the same program, so structs are sent as they are.
 */
#ifndef GS_WORKER_WIRE_H
#define GS_WORKER_WIRE_H

#include "worker.h"

#include <stdatomic.h>

/* Descriptors that the process inherits. */
enum { GS_WORKER_FD_SHARED = 3, GS_WORKER_FD_SOCKET, GS_WORKER_FD_BELL, GS_WORKER_FD_DAEMON_BELL };

enum { GS_WORKER_RING_BYTES = 1 << 19, GS_WORKER_LONGEST_REQUEST = 32 << 10 };

enum gs_worker_state { GS_WORKER_STARTING, GS_WORKER_READY, GS_WORKER_FAILED };

typedef struct gs_worker_shared {
    _Atomic uint32_t state; /* enum gs_worker_state */
    gs_worker_facts facts;
    /* Why it failed: the thread that changes `note_state` from 0 to 1 writes the rest, and then sets it to 2. */
    _Atomic uint32_t note_state;
    uint32_t code;
    uint64_t tag;
    char note[200];
    _Atomic uint64_t iterations;   /* iterations of the loop of the process: a sign of life */
    _Atomic uint64_t kernel_bytes; /* memory that kernels take for themselves, on the CPU */
    _Atomic uint64_t progress[GS_WORKER_CONFINED];
} gs_worker_shared;

/* Offsets of the rings in that memory, and its size. */
static inline size_t gs_worker_requests_at(void) {
    return (sizeof(gs_worker_shared) + 63) / 64 * 64;
}

static inline size_t gs_worker_reports_at(void) {
    return gs_worker_requests_at() + gs_ring_bytes(GS_WORKER_RING_BYTES);
}

static inline size_t gs_worker_shared_bytes(void) {
    return gs_worker_reports_at() + gs_ring_bytes(GS_WORKER_RING_BYTES);
}

#endif
