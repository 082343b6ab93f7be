/*
 * ring.c: a ring of records in shared memory. See ring.h.
 *
 * Positions only grow; a position modulo the capacity is a place in the ring. A record is a word with its length, an
 * unused word, and its bytes, rounded up to 8; it may wrap around the end. Both positions and both requests to be rung
 * are sequentially consistent: the reader requests a ring and then looks for a record, the writer puts a record and
 * then looks for a request, so at least one of them sees the other.
 *
 * It needs no other file, because the client library contains it too.
 */
#include "ring.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE = 64, HEAD = 8 };

/* Each cache line is written by one side, except the requests to be rung, which change rarely. */
struct gs_ring_shared {
    _Alignas(LINE) _Atomic uint64_t written;
    _Alignas(LINE) _Atomic uint64_t read;
    _Alignas(LINE) _Atomic uint32_t reader_sleeps;
    _Atomic uint32_t writer_waits;
};

size_t gs_ring_bytes(uint32_t capacity) {
    return sizeof(struct gs_ring_shared) + capacity;
}

uint32_t gs_ring_longest(uint32_t capacity) {
    return capacity / 4 - HEAD;
}

void gs_ring_attach(gs_ring *ring, void *memory, uint32_t capacity, int bell) {
    *ring = (gs_ring){.shared = memory,
                      .bytes = (unsigned char *)memory + sizeof(struct gs_ring_shared),
                      .capacity = capacity,
                      .bell = bell};
}

void gs_ring_attach_socket(gs_ring *ring, void *memory, uint32_t capacity, int socket) {
    gs_ring_attach(ring, memory, capacity, socket);
    ring->rings_socket = true;
}

static uint64_t record_bytes(uint32_t bytes) {
    return HEAD + ((uint64_t)bytes + 7) / 8 * 8;
}

/* A request is answered once. */
static void ring_if_requested(const gs_ring *ring, _Atomic uint32_t *request) {
    if (!atomic_load(request) || !atomic_exchange(request, 0))
        return;
    if (ring->rings_socket)
        gs_bell_ring_socket(ring->bell);
    else
        gs_bell_ring(ring->bell);
}

/* ---- the writer ---- */

static void copy_in(gs_ring *ring, uint64_t position, const void *from, uint32_t bytes) {
    uint32_t at = (uint32_t)position & (ring->capacity - 1),
             first = ring->capacity - at < bytes ? ring->capacity - at : bytes;
    if (!bytes)
        return;
    memcpy(ring->bytes + at, from, first);
    memcpy(ring->bytes, (const unsigned char *)from + first, bytes - first);
}

/* Reads the reader's position if the known one leaves no space. */
static gs_ring_result look_for_room(gs_ring *ring, uint64_t needed) {
    if (ring->position + needed - ring->other <= ring->capacity)
        return GS_RING_DONE;
    uint64_t read = atomic_load(&ring->shared->read);
    if (read - ring->other > ring->position - ring->other)
        return GS_RING_BROKEN;
    ring->other = read;
    return ring->position + needed - read <= ring->capacity ? GS_RING_DONE : GS_RING_NOT_NOW;
}

gs_ring_result gs_ring_put(gs_ring *ring, const void *record, uint32_t bytes) {
    if (bytes > gs_ring_longest(ring->capacity))
        return GS_RING_TOO_LONG;
    gs_ring_result result = look_for_room(ring, record_bytes(bytes));
    if (result != GS_RING_DONE)
        return result;
    const uint32_t head[2] = {bytes, 0};
    copy_in(ring, ring->position, head, sizeof head);
    copy_in(ring, ring->position + HEAD, record, bytes);
    ring->position += record_bytes(bytes);
    atomic_store(&ring->shared->written, ring->position);
    ring_if_requested(ring, &ring->shared->reader_sleeps);
    return GS_RING_DONE;
}

gs_ring_result gs_ring_wants_space(gs_ring *ring, uint32_t bytes) {
    if (bytes > gs_ring_longest(ring->capacity))
        return GS_RING_TOO_LONG;
    atomic_store(&ring->shared->writer_waits, 1);
    gs_ring_result result = look_for_room(ring, record_bytes(bytes));
    if (result != GS_RING_NOT_NOW)
        atomic_store(&ring->shared->writer_waits, 0);
    return result;
}

/* ---- the reader ---- */

static void copy_out(const gs_ring *ring, uint64_t position, void *into, uint32_t bytes) {
    uint32_t at = (uint32_t)position & (ring->capacity - 1),
             first = ring->capacity - at < bytes ? ring->capacity - at : bytes;
    if (!bytes)
        return;
    memcpy(into, ring->bytes + at, first);
    memcpy((unsigned char *)into + first, ring->bytes, bytes - first);
}

/* Reads the writer's position if all known records were taken. */
static gs_ring_result look_for_record(gs_ring *ring) {
    if (ring->other != ring->position)
        return GS_RING_DONE;
    uint64_t written = atomic_load(&ring->shared->written);
    if (written - ring->position > ring->capacity || written % 8)
        return GS_RING_BROKEN;
    ring->other = written;
    return written == ring->position ? GS_RING_NOT_NOW : GS_RING_DONE;
}

gs_ring_result gs_ring_take(gs_ring *ring, void *into, uint32_t most, uint32_t *bytes) {
    uint32_t head[2];
    gs_ring_result result = look_for_record(ring);
    if (result != GS_RING_DONE)
        return result;
    copy_out(ring, ring->position, head, sizeof head);
    if (head[0] > gs_ring_longest(ring->capacity) || record_bytes(head[0]) > ring->other - ring->position)
        return GS_RING_BROKEN;
    if (head[0] > most)
        return GS_RING_TOO_LONG;
    copy_out(ring, ring->position + HEAD, into, head[0]);
    *bytes = head[0];
    ring->position += record_bytes(head[0]);
    atomic_store(&ring->shared->read, ring->position);
    ring_if_requested(ring, &ring->shared->writer_waits);
    return GS_RING_DONE;
}

bool gs_ring_has_some(const gs_ring *ring) {
    return ring->other != ring->position ||
           atomic_load_explicit(&ring->shared->written, memory_order_acquire) != ring->position;
}

bool gs_ring_sleep(gs_ring *ring) {
    atomic_store(&ring->shared->reader_sleeps, 1);
    if (ring->other == ring->position && atomic_load(&ring->shared->written) == ring->position)
        return true;
    gs_ring_wake(ring);
    return false;
}

void gs_ring_wake(gs_ring *ring) {
    atomic_store(&ring->shared->reader_sleeps, 0);
}

/* ---- bells ---- */

int gs_bell_new(void) {
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* If the counter is full, the bell is ringing already. */
void gs_bell_ring(int bell) {
    const uint64_t one = 1;
    if (write(bell, &one, sizeof one) < 0)
        return;
}

void gs_bell_clear(int bell) {
    uint64_t rung;
    if (read(bell, &rung, sizeof rung) < 0)
        return;
}

void gs_bell_ring_socket(int socket) {
    const char byte = GS_RING_BYTE;
    if (send(socket, &byte, sizeof byte, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return;
}
