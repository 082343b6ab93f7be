/*
 * test_client_ring.c: nothing is lost, changed or reordered between two threads, and a hostile side does no harm.
 */
#include "test.h"

#include "base/base.h"
#include "sharing/client/ring.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 4096, MOST = 600 };

struct pair {
    void *memory;
    gs_ring writer, reader;
    int writer_bell, reader_bell;
    uint64_t records;
};

static void make_pair(struct pair *pair) {
    pair->memory = aligned_alloc(64, gs_ring_bytes(ROOM));
    memset(pair->memory, 0, gs_ring_bytes(ROOM));
    pair->writer_bell = gs_bell_new();
    pair->reader_bell = gs_bell_new();
    gs_ring_attach(&pair->writer, pair->memory, ROOM, pair->reader_bell);
    gs_ring_attach(&pair->reader, pair->memory, ROOM, pair->writer_bell);
}

static void free_pair(struct pair *pair) {
    close(pair->writer_bell);
    close(pair->reader_bell);
    free(pair->memory);
}

static void wait_for_bell(int bell) {
    struct pollfd ready = {.fd = bell, .events = POLLIN};
    if (poll(&ready, 1, 60000) != 1)
        abort(); /* instead of a hang */
    gs_bell_clear(bell);
}

/* Makes record number `number`, which determines its length and its bytes. */
static uint32_t make_record(uint64_t number, unsigned char *bytes) {
    gs_random random = gs_random_at(11, number);
    uint32_t count = (uint32_t)gs_random_from(&random, 0, MOST);
    for (uint32_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)gs_random_next(&random);
    return count;
}

static void *write_all(void *argument) {
    struct pair *pair = argument;
    unsigned char bytes[MOST];
    for (uint64_t i = 0; i < pair->records; i++) {
        uint32_t count = make_record(i, bytes);
        gs_ring_result result;
        while ((result = gs_ring_put(&pair->writer, bytes, count)) == GS_RING_NOT_NOW)
            if (gs_ring_wants_space(&pair->writer, count) == GS_RING_NOT_NOW)
                wait_for_bell(pair->writer_bell);
        if (result != GS_RING_DONE)
            abort();
    }
    return NULL;
}

TEST(test_records_arrive_in_order) {
    struct pair pair = {.records = test_number("GRIDSMITH_RUNS", 100000) / 5};
    pthread_t thread;
    unsigned char bytes[MOST], wanted[MOST];
    make_pair(&pair);
    assert_int_equal(pthread_create(&thread, NULL, write_all, &pair), 0);
    for (uint64_t i = 0; i < pair.records; i++) {
        uint32_t count = 0, wanted_count = make_record(i, wanted);
        gs_ring_result result;
        while ((result = gs_ring_take(&pair.reader, bytes, MOST, &count)) == GS_RING_NOT_NOW)
            if (gs_ring_sleep(&pair.reader)) {
                wait_for_bell(pair.reader_bell);
                gs_ring_wake(&pair.reader);
            }
        assert_int_equal(result, GS_RING_DONE);
        assert_int_equal(count, wanted_count);
        assert_memory_equal(bytes, wanted, count);
    }
    pthread_join(thread, NULL);
    assert_false(gs_ring_has_some(&pair.reader));
    free_pair(&pair);
}

TEST(test_limits) {
    struct pair pair = {0};
    unsigned char bytes[ROOM] = {0};
    uint32_t count;
    make_pair(&pair);
    assert_int_equal(gs_ring_take(&pair.reader, bytes, ROOM, &count), GS_RING_NOT_NOW);
    assert_int_equal(gs_ring_put(&pair.writer, bytes, gs_ring_longest(ROOM) + 1), GS_RING_TOO_LONG);
    for (int i = 0; i < 4; i++)
        assert_int_equal(gs_ring_put(&pair.writer, bytes, gs_ring_longest(ROOM)), GS_RING_DONE);
    assert_int_equal(gs_ring_put(&pair.writer, bytes, 0), GS_RING_NOT_NOW);
    assert_int_equal(gs_ring_wants_space(&pair.writer, 0), GS_RING_NOT_NOW);
    assert_int_equal(gs_ring_take(&pair.reader, bytes, 10, &count), GS_RING_TOO_LONG);
    assert_int_equal(gs_ring_take(&pair.reader, bytes, ROOM, &count), GS_RING_DONE);
    wait_for_bell(pair.writer_bell); /* as it requested */
    assert_int_equal(gs_ring_put(&pair.writer, bytes, 0), GS_RING_DONE);
    free_pair(&pair);
}

/* Writes a random value to a word, most often to one of the first, where the positions are. */
static void spoil(gs_random *random, uint64_t *memory) {
    int64_t words = (int64_t)(gs_ring_bytes(ROOM) / 8);
    uint64_t value = gs_random_next(random) >> gs_random_from(random, 0, 63);
    size_t at = (size_t)gs_random_from(random, 0, gs_random_chance(random, 70) ? 30 : words - 1);
    memory[at] = gs_random_chance(random, 50) ? value & ~7ull : value;
}

/* The shared memory may contain anything, and change between any two calls. No memory outside is touched
   (AddressSanitizer checks), and no call hangs. */
TEST(test_a_hostile_side_does_no_harm) {
    enum { ROUNDS = 3000, STEPS = 20 };
    gs_random random = gs_random_at(12, 0);
    unsigned char bytes[ROOM];
    size_t broken = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct pair pair = {0};
        make_pair(&pair);
        for (int step = 0; step < STEPS; step++) {
            uint32_t count = 0;
            spoil(&random, pair.memory);
            gs_ring_result put = gs_ring_put(&pair.writer, bytes, (uint32_t)gs_random_from(&random, 0, MOST));
            spoil(&random, pair.memory);
            gs_ring_result take = gs_ring_take(&pair.reader, bytes, MOST, &count);
            assert_true(take != GS_RING_DONE || count <= MOST);
            broken += put == GS_RING_BROKEN || take == GS_RING_BROKEN;
            gs_ring_wants_space(&pair.writer, 100);
            gs_ring_sleep(&pair.reader);
        }
        free_pair(&pair);
    }
    assert_true(broken > ROUNDS / 10);
}

TEST_MAIN(NULL, NULL)
