/*
 * attack_bells.c: attacks on the page, the ring and the bells: everything that a client shares with the daemon.
 *
 * Where a second thread writes, it does so for a few milliseconds, and then the session is closed and another opened:
 * most of these attacks end the session, and the next one finds the daemon in another state.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static const gs_wire_record event = {.head = {.command = GS_WIRE_EVENT}};

/* ---- bells ---- */

void bell_flood(struct attacker *me) {
    enum { BELLS = 20000 };
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    for (int i = 0; i < BELLS && attacker_has_time(me) && !raw_end_code(&raw); i++) {
        atomic_store(&raw.page->client_sleeps, 1);
        raw_put(&raw, &event, sizeof event);
        raw_ring(&raw);
        atomic_store(raw.writer_waits, 1);
    }
    raw_close(me, &raw);
}

static void flip(struct attacker *me, int fd) {
    static const int flags[] = {O_NONBLOCK, O_ASYNC, O_APPEND, O_DIRECT, O_NOATIME};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) ^ flags[attacker_random(me, HOSTILE_COUNT(flags))]);
}

void bell_flags(struct attacker *me) {
    enum { TURNS = 2000 };
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    for (int i = 0; i < TURNS && attacker_has_time(me) && !raw_end_code(&raw); i++) {
        flip(me, raw.socket);
        flip(me, raw.page_fd);
        fcntl(raw.socket, F_SETSIG, 0);
        atomic_store(&raw.page->client_sleeps, (uint32_t)attacker_random(me, 2));
        raw_put(&raw, &event, sizeof event);
        if (attacker_random(me, 4) == 0)
            raw_ring(&raw);
    }
    raw_close(me, &raw);
}

/* ---- memory that changes after it was checked ---- */

struct writer {
    struct attacker me; /* its own random numbers */
    struct raw *raw;
    _Atomic bool must_stop;
};

static void *write_everywhere(void *of) {
    struct writer *writer = of;
    uint32_t *words = (uint32_t *)writer->raw->page;
    size_t count = gs_wire_page_bytes() / 4;
    while (!atomic_load_explicit(&writer->must_stop, memory_order_relaxed))
        words[attacker_random(&writer->me, count)] = (uint32_t)attacker_random(&writer->me, UINT64_MAX);
    return NULL;
}

/* Words that commands have: small numbers, sizes, handles. */
static void *rewrite_records(void *of) {
    static const uint32_t likely[] = {0, 1, 2, 3, 4, 8, 9, 10, 16, 24, 31, 32, 64, 4096, 65535, 1u << 31, UINT32_MAX};
    struct writer *writer = of;
    uint32_t *words = (uint32_t *)(void *)writer->raw->bytes;
    while (!atomic_load_explicit(&writer->must_stop, memory_order_relaxed)) {
        uint64_t at = atomic_load_explicit(writer->raw->read, memory_order_relaxed) / 4;
        words[(at + attacker_random(&writer->me, 64)) % (GS_WIRE_RING_BYTES / 4)] =
            likely[attacker_random(&writer->me, HOSTILE_COUNT(likely))];
    }
    return NULL;
}

static void write_beside(struct attacker *me, void *(*writes)(void *)) {
    enum { TURNS = 400 };
    struct raw raw;
    pthread_t thread;
    if (!raw_open_ready(me, &raw, NULL))
        return;
    struct writer writer = {.me = *me, .raw = &raw};
    attacker_random(me, 2);
    if (pthread_create(&thread, NULL, writes, &writer) != 0)
        return;
    for (uint32_t i = 0; i < TURNS && attacker_has_time(me) && !raw_end_code(&raw); i++) {
        const struct raw_launch launch = raw_launch(i % 32, KERNEL_TOUCH, 1 + i % 8, i);
        const gs_wire_fill fill = {.head = {.command = GS_WIRE_FILL, .stream = i % 32}, .memory = 1, .bytes = 4096};
        raw_put(&raw, &launch, sizeof launch);
        raw_put(&raw, &fill, sizeof fill);
        raw_put(&raw, &event, sizeof event);
    }
    raw_wait_end(me, &raw, 5);
    atomic_store(&writer.must_stop, true);
    pthread_join(thread, NULL);
    raw_close(me, &raw);
}

void page_random(struct attacker *me) {
    write_beside(me, write_everywhere);
}

void ring_rewritten(struct attacker *me) {
    write_beside(me, rewrite_records);
}

/* ---- the ring ---- */

void ring_jumps(struct attacker *me) {
    static const uint64_t jumps[] = {8,          16,        GS_WIRE_RING_BYTES, GS_WIRE_RING_BYTES + 8,
                                     UINT64_MAX, 1,         (uint64_t)1 << 63,  UINT64_MAX - 7,
                                     4,          UINT32_MAX};
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    for (uint64_t i = attacker_random(me, 20); i > 0; i--)
        raw_put(&raw, &event, sizeof event);
    uint64_t jump = jumps[attacker_random(me, HOSTILE_COUNT(jumps))];
    atomic_store(raw.written, attacker_random(me, 3) ? raw.position + jump : raw.position - jump);
    if (attacker_random(me, 2))
        atomic_store(raw.read, attacker_random(me, UINT64_MAX));
    raw_ring(&raw);
    raw_wait_end(me, &raw, 20);
    raw_close(me, &raw);
}

void record_lengths(struct attacker *me) {
    static const uint32_t lengths[] = {0,     1,  7,  8,   9,    12,    16,       GS_WIRE_MOST_BYTES, 65528,
                                       65529, 24, 40, 100, 4096, 60000, 1u << 18, UINT32_MAX,         UINT32_MAX - 7};
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    uint32_t length = lengths[attacker_random(me, HOSTILE_COUNT(lengths))];
    const uint32_t head[2] = {length, (uint32_t)attacker_random(me, UINT32_MAX)};
    memcpy(raw.bytes, head, sizeof head);
    raw.bytes[8] = (unsigned char)attacker_random(me, GS_WIRE_COMMAND_COUNT);
    atomic_store(raw.written, 8 * attacker_random(me, GS_WIRE_RING_BYTES / 8 + 1));
    raw_ring(&raw);
    raw_wait_end(me, &raw, 20);
    raw_close(me, &raw);
}

/* ---- the memory of the page ---- */

void page_holes(struct attacker *me) {
    enum { TURNS = 300 };
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    for (int i = 0; i < TURNS && attacker_has_time(me); i++) {
        fallocate(raw.page_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)gs_wire_page_bytes());
        atomic_store(&raw.page->client_sleeps, 1);
        raw_ring(&raw);
    }
    raw_wait_end(me, &raw, 5);
    raw_close(me, &raw);
}

void page_seals(struct attacker *me) {
    struct raw raw;
    if (!raw_open(me, &raw))
        return;
    if (ftruncate(raw.page_fd, 0) == 0 || ftruncate(raw.page_fd, 1 << 30) == 0 ||
        fallocate(raw.page_fd, 0, (off_t)gs_wire_page_bytes(), 4096) == 0)
        attacker_blames(me, "the size of the page can be changed");
    if (fcntl(raw.page_fd, F_ADD_SEALS, F_SEAL_WRITE) == 0)
        attacker_blames(me, "seals can be added to the page");
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fcntl(raw.page_fd, F_OFD_SETLK, &all);
    fcntl(raw.page_fd, F_SETLEASE, F_WRLCK);
    flock(raw.page_fd, LOCK_EX | LOCK_NB);
    mprotect(raw.page, gs_wire_page_bytes(), PROT_READ);
    raw_ring(&raw);
    hostile_sleep_ms(2);
    mprotect(raw.page, gs_wire_page_bytes(), PROT_READ | PROT_WRITE);
    raw_put(&raw, &event, sizeof event);
    raw_wait_done(me, &raw, 0, 1);
    raw_close(me, &raw);
}
