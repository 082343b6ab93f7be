/*
 * worker_wire.h: what the daemon and the device process say to each other, for this room alone.
 *
 * They share one piece of memory: what is known of the device, a note for the case that it dies, the progress of
 * confined runs, a ring of orders and a ring of events. Descriptors of regions go over a socket, each before its order.
 * Both are the same program, so structs are sent as they are.
 */
#ifndef GS_WORKER_WIRE_H
#define GS_WORKER_WIRE_H

#include "client/client.h"
#include "worker.h"

#include <stdatomic.h>

/* Descriptors that the device process inherits. */
enum { GS_WIRE_MEMORY = 3, GS_WIRE_SOCKET, GS_WIRE_MY_BELL, GS_WIRE_DAEMON_BELL };

enum { GS_WORKER_RING_BYTES = 1 << 19, GS_WIRE_LONGEST = 32 << 10 };

enum gs_request_kind {
    GS_REQUEST_ALLOCATE,
    GS_REQUEST_FREE,
    GS_REQUEST_SHARE,
    GS_REQUEST_UNSHARE,
    GS_REQUEST_COPY,
    GS_REQUEST_FILL,
    GS_REQUEST_LOAD,
    GS_REQUEST_UNLOAD,
    GS_REQUEST_RUN,
    GS_REQUEST_CONFINE
};

/* One order. LOAD is followed by the path, CONFINE by a mask, RUN by a gs_launch_request, its arguments and their
 * values. */
typedef struct gs_worker_request {
    uint32_t kind, queue;
    uint32_t number; /* of the memory, region or module */
    uint32_t region; /* COPY */
    uint32_t is_in;  /* COPY */
    uint32_t value;  /* FILL */
    uint64_t tag, at, region_at, bytes;
} gs_worker_request;

typedef struct gs_request_argument {
    uint32_t bytes; /* of the value; 0: memory */
    uint32_t memory;
    uint64_t at; /* in the memory, or of the value behind the arguments */
} gs_request_argument;

typedef struct gs_launch_request {
    uint32_t kernel, is_confined, is_block_loop, defer_report, grid[3], block[3], task_blocks, slot, argument_count,
        value_bytes;
    uint64_t shared_bytes, first_block;
    uint32_t mask[GS_WORKER_MASK_WORDS];
} gs_launch_request;

enum gs_device_state { GS_DEVICE_STARTING, GS_DEVICE_READY, GS_DEVICE_FAILED };

typedef struct gs_worker_shared {
    _Atomic uint32_t state; /* enum gs_device_state */
    gs_worker_facts facts;
    /* Why it failed: whoever sets `is_noted` from 0 to 1 writes the rest and then sets it to 2. */
    _Atomic uint32_t is_noted;
    uint32_t code;
    uint64_t tag;
    char note[200];
    _Atomic uint64_t progress[GS_WORKER_RUNS];
} gs_worker_shared;

/* Where the rings are in that memory, and how much it is in all. */
static inline size_t gs_wire_orders_at(void) {
    return (sizeof(gs_worker_shared) + 63) / 64 * 64;
}

static inline size_t gs_wire_events_at(void) {
    return gs_wire_orders_at() + gs_ring_bytes(GS_WORKER_RING_BYTES);
}

static inline size_t gs_wire_bytes(void) {
    return gs_wire_events_at() + gs_ring_bytes(GS_WORKER_RING_BYTES);
}

#endif
