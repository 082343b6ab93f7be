/*
 * test_random_clients.c: what tests/fuzz/fuzz_wire.c checks, without libFuzzer, for inputs that reach much of the
 * daemon (its corpus), and for random mixtures of them: the worker gets only requests that it can fulfil, and nothing
 * is left of clients that have left.
 *
 * What the worker is asked and what the clients are told is compared with tests/serve/clients.txt, a number for each
 * input. The clock is played, so it is the same each time. A change of the daemon that changes this is seen here, and
 * it should be one that was meant: with GRIDSMITH_WRITE=1 the file is written anew.
 */
#include "test.h"

#include <dirent.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern uint64_t gs_wire_told, gs_wire_steps;

enum { MOST_BYTES = 1024, MIXED = 400 };

/* ---- the clock: that of the steps ---- */

int64_t __wrap_gs_now_ns(void);
int64_t __wrap_gs_thread_ns(void);

int64_t __wrap_gs_now_ns(void) {
    return 1000000000000 + (int64_t)gs_wire_steps * 50000;
}

int64_t __wrap_gs_thread_ns(void) {
    return 0;
}

/* ---- inputs ---- */

static struct dirent **names;
static int name_count;

static int is_input(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int find_inputs(void **state) {
    (void)state;
    name_count = scandir(test_path("tests/fuzz/corpus/wire"), &names, is_input, alphasort);
    return name_count > 0 ? 0 : -1;
}

static int forget_inputs(void **state) {
    (void)state;
    for (int i = 0; i < name_count; i++)
        free(names[i]);
    free(names);
    return 0;
}

static size_t read_input(int number, uint8_t *bytes) {
    char path[300];
    snprintf(path, sizeof path, "tests/fuzz/corpus/wire/%.200s", names[number]->d_name);
    FILE *file = fopen(test_path(path), "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, MOST_BYTES, file);
    fclose(file);
    return size;
}

/* Parts of known inputs one behind the other, with some bytes changed: most of their steps are valid. */
static size_t mix_inputs(uint64_t number, uint8_t bytes[2 * MOST_BYTES]) {
    gs_random random = gs_random_at(1, number);
    size_t size = 0;
    while (size < MOST_BYTES / 2) {
        uint8_t part[MOST_BYTES];
        size_t all = read_input((int)gs_random_from(&random, 0, name_count - 1), part);
        size_t from = (size_t)gs_random_from(&random, 0, (int64_t)all);
        memcpy(bytes + size, part + from, all - from);
        size += all - from;
        bytes[size++] = (uint8_t)gs_random_from(&random, 0, 255);
    }
    for (int64_t changes = gs_random_from(&random, 0, 20); changes > 0; changes--)
        bytes[gs_random_from(&random, 0, (int64_t)size - 1)] = (uint8_t)gs_random_from(&random, 0, 255);
    return size;
}

/* ---- tests ---- */

static bool is_compared(void) {
#if !defined __x86_64__ && defined __clang__ /* products and sums are rounded at once */
    return false;
#else
    return true;
#endif
}

TEST(clients_are_served_as_before) {
    bool is_written = test_number("GRIDSMITH_WRITE", 0) != 0;
    FILE *file = fopen(test_path("tests/serve/clients.txt"), is_written ? "w" : "r");
    assert_non_null(file);
    for (int i = 0; i < name_count + MIXED; i++) {
        uint8_t bytes[2 * MOST_BYTES];
        unsigned long long wanted = 0;
        size_t size = i < name_count ? read_input(i, bytes) : mix_inputs((uint64_t)(i - name_count), bytes);
        gs_wire_told = 0;
        LLVMFuzzerTestOneInput(bytes, size);
        if (is_written)
            fprintf(file, "%016llx\n", (unsigned long long)gs_wire_told);
        else
            assert_int_equal(fscanf(file, "%llx", &wanted), 1);
        if (!is_written && is_compared() && gs_wire_told != wanted)
            fail_msg("clients.txt:%d: the daemon does something else (%s)", i + 1,
                     i < name_count ? names[i]->d_name : "a mixture");
    }
    fclose(file);
}

TEST(random_clients_leave_nothing) {
    for (uint64_t i = 0; i < test_number("GRIDSMITH_RUNS", 100000) / 100; i++) {
        uint8_t bytes[2 * MOST_BYTES];
        LLVMFuzzerTestOneInput(bytes, mix_inputs(MIXED + i, bytes));
    }
}

TEST_MAIN(find_inputs, forget_inputs)
