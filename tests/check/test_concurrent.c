/*
 * test_concurrent.c: which launches of a recorded program may run at the same time: the clocks give the same answer as
 * looking for paths, on random programs.
 */
#include "test.h"

#include "model/check/check.h"

#include <stdlib.h>

enum { MOST = 10 };

struct program {
    int count;
    int streams[MOST]; /* -1: none */
    int names[MOST], blocks[MOST];
    bool is_copy[MOST], early[MOST], marked[MOST];
    bool after[MOST][MOST];  /* edges to earlier ones */
    bool before[MOST][MOST]; /* the first has ended when the second starts */
};

static void draw_program(gs_random *random, struct program *program) {
    *program = (struct program){.count = (int)gs_random_from(random, 2, MOST)};
    bool are_alike = gs_random_chance(random, 40);
    for (int i = 0; i < program->count; i++) {
        program->is_copy[i] = gs_random_chance(random, 20);
        program->marked[i] = !program->is_copy[i] && gs_random_chance(random, 70);
        program->streams[i] =
            gs_random_chance(random, 15) && !program->is_copy[i] ? -1 : (int)gs_random_from(random, 0, 3);
        program->names[i] = are_alike ? (int)gs_random_from(random, 0, 1) : i;
        program->blocks[i] = are_alike ? (int)gs_random_from(random, 1, 2) : 1;
        for (int k = 0; k < i; k++)
            program->after[i][k] = gs_random_chance(random, 15);
    }
}

/* The one before it in its stream, or -1. */
static int before_in_stream(const struct program *program, int item) {
    for (int k = item - 1; k >= 0 && program->streams[item] >= 0; k--)
        if (program->streams[k] == program->streams[item])
            return k;
    return -1;
}

/* When one has ended, so has all before it in its stream. */
static void add_before(struct program *program, int one, int item) {
    program->before[one][item] = true;
    for (int k = 0; k < one; k++)
        program->before[k][item] = program->before[k][item] || program->before[k][one];
    int previous = before_in_stream(program, one);
    if (previous >= 0)
        add_before(program, previous, item);
}

/* What has ended when each one starts: literally, by going through what it waits for. */
static void close_program(gs_random *random, struct program *program) {
    for (int i = 0; i < program->count; i++) {
        int previous = before_in_stream(program, i);
        program->early[i] = previous >= 0 && !program->is_copy[i] && !program->is_copy[previous] &&
                            !program->after[i][previous] && gs_random_chance(random, 20);
        if (previous >= 0 && !program->early[i])
            add_before(program, previous, i);
        for (int k = 0; previous >= 0 && program->early[i] && k < previous; k++)
            program->before[k][i] = program->before[k][i] || program->before[k][previous];
        for (int k = 0; k < i; k++)
            if (program->after[i][k])
                add_before(program, k, i);
    }
}

static void put_program(const struct program *program, gs_text *text) {
    gs_text_add(text, "{\"schema\": \"gridsmith.run/1\", \"gpu\": \"h200\", \"events\": [");
    for (int i = 0; i < program->count; i++) {
        const char *comma = "";
        if (program->is_copy[i])
            gs_text_add(text, "%s{\"op\": \"copy\", \"id\": %d, \"bytes\": 4", i ? ", " : "", i);
        else
            gs_text_add(text,
                        "%s{\"op\": \"launch\", \"id\": %d, \"kernel\": \"k%d\", \"blocks\": %d, \"threads\": 32, "
                        "\"registers\": 16, \"shared_bytes\": 0",
                        i ? ", " : "", i, program->names[i], program->blocks[i]);
        if (program->streams[i] >= 0)
            gs_text_add(text, ", \"stream\": %d", program->streams[i]);
        gs_text_add(text, ", \"at_us\": %d, \"after\": [", i);
        for (int k = 0; k < i; k++)
            if (program->after[i][k]) {
                gs_text_add(text, "%s%d", comma, k);
                comma = ", ";
            }
        if (program->early[i])
            gs_text_add(text, "%s{\"id\": %d, \"when\": \"trigger\"}", comma, before_in_stream(program, i));
        gs_text_add(text, "]}");
    }
    gs_text_add(text, "]}");
}

static bool has_pair(const gs_concurrent *sets, size_t one, size_t other) {
    for (size_t i = 0; i < sets->count; i++)
        if (sets->data[i].data[0] == one && sets->data[i].data[1] == other)
            return true;
    return false;
}

static bool are_alike(const struct program *program, int one, int other) {
    return program->names[one] == program->names[other] && program->blocks[one] == program->blocks[other];
}

/* Of launches that are alike, only the first that may run at the same time are said. */
static bool is_said(const struct program *program, int pairs[][2], int count, int one, int other) {
    for (int i = 0; i < count; i++)
        if ((are_alike(program, pairs[i][0], one) && are_alike(program, pairs[i][1], other)) ||
            (are_alike(program, pairs[i][0], other) && are_alike(program, pairs[i][1], one)))
            return true;
    return false;
}

TEST(agrees_with_paths) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), runs = test_number("GRIDSMITH_RUNS", 100000) / 20;
    size_t found = 0;
    for (uint64_t index = 0; index < runs; index++) {
        gs_random random = gs_random_at(seed, index);
        struct program program;
        gs_text text = {0};
        gs_concurrent sets;
        gs_error error = {.code = GS_OK};
        bool marked[MOST] = {false};
        int item_of[MOST], launches = 0, said[MOST * MOST][2], said_count = 0;
        draw_program(&random, &program);
        close_program(&random, &program);
        put_program(&program, &text);
        gs_run *run = test_run_of(text.data);
        for (int i = 0; i < program.count; i++)
            if (!program.is_copy[i]) {
                marked[launches] = program.marked[i];
                item_of[launches++] = i;
            }
        assert_int_equal(gs_concurrent_find(run, marked, &sets, &error), GS_OK);
        assert_true(sets.is_complete);
        for (int i = 0; i < launches; i++)
            for (int k = 0; k < i; k++) {
                bool expected = marked[i] && marked[k] && !program.before[item_of[k]][item_of[i]] &&
                                !is_said(&program, said, said_count, item_of[k], item_of[i]);
                if (expected)
                    said[said_count][0] = item_of[k], said[said_count++][1] = item_of[i];
                if (has_pair(&sets, (size_t)k, (size_t)i) != expected)
                    fail_msg("seed %llu, index %llu: launches %d and %d: %s\n%s", (unsigned long long)seed,
                             (unsigned long long)index, k, i, expected ? "not found" : "found", text.data);
            }
        found += sets.count;
        gs_concurrent_clear(&sets);
        gs_run_free(run);
        gs_text_free(&text);
    }
    assert_true(!runs || found > runs);
}

TEST_MAIN(NULL, NULL)
