/*
 * test.h: cmocka, and functions that the tests share. Include it before any other header.
 */
#ifndef GS_TEST_H
#define GS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/run/run.h"

/* A test is TEST(what_a_user_would_lose) { ... }, and the last line of its file TEST_MAIN(before, after), which runs
 * the tests of the file from the first line to the last. `before` and `after`, functions of cmocka or NULL, set up what
 * they share. TEST_WITH(name, begin, end) has such functions of its own, which run before and after it, also if it
 * fails. A main function of another shape returns TEST_ALL(before, after). */
#define TEST(name) TEST_WITH(name, NULL, NULL)
#define TEST_WITH(name, begin, end)                                                                                    \
    static void name(void **state);                                                                                    \
    __attribute__((constructor)) static void add_##name(void) {                                                        \
        static test_entry entry = {{#name, name, begin, end, NULL}, __LINE__, NULL};                                   \
        test_add(&test_entries, &entry);                                                                               \
    }                                                                                                                  \
    static void name(void **state __attribute__((unused)))
#define TEST_ALL(before, after) test_run_all(test_entries, before, after)
#define TEST_MAIN(before, after)                                                                                       \
    int main(void) {                                                                                                   \
        return TEST_ALL(before, after);                                                                                \
    }

typedef struct test_entry {
    struct CMUnitTest test;
    int line;
    struct test_entry *next; /* its line is greater */
} test_entry;
static test_entry *test_entries __attribute__((unused)); /* of this file */
void test_add(test_entry **entries, test_entry *entry);
int test_run_all(const test_entry *entries, CMFixtureFunction before, CMFixtureFunction after);

/* A number from the environment, or `otherwise`. */
uint64_t test_number(const char *variable, uint64_t otherwise);

/* Whether few random runs are wanted, as with sanitizers: they see what is run, not how often. */
bool test_is_brief(void);

/* Path of a file of the source tree, e.g. test_path("scenarios/case-1.1.json"). Valid until the next call. */
const char *test_path(const char *file);

/* The run in a text, or in a file of the source tree with one run; fails the test if it cannot be read. */
gs_run *test_run_of(const char *text);
gs_run *test_run_file(const char *file);

/* Reads a text as a run and returns the error; fails the test if there is no error. */
gs_error test_run_error(const char *text);

/* Waits until a condition holds: looks every millisecond, and later every 10. After 12,000 looks, which take two
 * minutes or on a busy machine more, the test fails and names the condition. */
#define TEST_WAIT(condition)                                                                                           \
    do {                                                                                                               \
        for (int test_looks = 0; !(condition); test_looks++)                                                           \
            test_wait_longer(test_looks, #condition, __FILE__, __LINE__);                                              \
    } while (0)
void test_wait_longer(int looks, const char *condition, const char *file, int line);

/* Makes this process the parent of processes that its children leave behind; in a container no other process may wait
 * for them. */
void test_inherit_orphans(void);

/* Waits, for a minute at most, until a process that a child left behind has ended, and says whether it has. */
bool test_orphan_ends(int process);

/* Two descriptions of a GPU must predict the same, block by block, for `runs` runs with this seed. */
void test_predicts_fresh_runs(const gs_gpu *found, const gs_gpu *planted, uint64_t seed, int64_t runs);

#endif
