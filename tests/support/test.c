/* test.c: see test.h. */
#include "test.h"

#include "lab/fuzz/fuzz.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

void test_add(test_entry **entries, test_entry *entry) {
    while (*entries && (*entries)->line < entry->line)
        entries = &(*entries)->next;
    entry->next = *entries;
    *entries = entry;
}

int test_run_all(const test_entry *entries, CMFixtureFunction before, CMFixtureFunction after) {
    enum { MOST_TESTS = 300 };
    struct CMUnitTest tests[MOST_TESTS] = {{.name = NULL}}; /* cmocka passes over those without a name */
    size_t count = 0;
    for (; entries; entries = entries->next) {
        assert_true(count < MOST_TESTS);
        tests[count++] = entries->test;
    }
    return cmocka_run_group_tests(tests, before, after);
}

uint64_t test_number(const char *variable, uint64_t otherwise) {
    const char *value = getenv(variable);
    return value ? strtoull(value, NULL, 10) : otherwise;
}

bool test_is_brief(void) {
    return test_number("GRIDSMITH_RUNS", 100000) < 4000;
}

const char *test_path(const char *file) {
    static char path[1024];
    const char *source = getenv("GRIDSMITH_SOURCE"); /* on another machine */
    snprintf(path, sizeof path, "%s/%s", source ? source : GRIDSMITH_SOURCE, file);
    return path;
}

static gs_run *read_text(const char *text, gs_error *error) {
    gs_runs *runs = gs_runs_memory("text", text, strlen(text), error);
    assert_non_null(runs);
    gs_run *run = gs_runs_next(runs, error);
    gs_runs_close(runs);
    return run;
}

gs_run *test_run_of(const char *text) {
    gs_error error = {.code = GS_OK};
    gs_run *run = read_text(text, &error);
    if (!run)
        fail_msg("%s:%ld:%ld: %s", error.file, error.line, error.column, error.message);
    return run;
}

gs_error test_run_error(const char *text) {
    gs_error error = {.code = GS_OK};
    gs_run *run = read_text(text, &error);
    if (run) {
        gs_run_free(run);
        fail_msg("this text should have been refused: %s", text);
    }
    return error;
}

gs_run *test_run_file(const char *file) {
    gs_error error = {.code = GS_OK};
    gs_runs *runs = gs_runs_open(test_path(file), &error);
    gs_run *run = runs ? gs_runs_next(runs, &error) : NULL;
    if (!run)
        fail_msg("%s:%ld:%ld: %s", error.file, error.line, error.column, error.message);
    gs_runs_close(runs);
    return run;
}

void test_wait_longer(int looks, const char *condition, const char *file, int line) {
    enum { SOON = 100, MOST_LOOKS = 12000, NS_PER_MS = 1000000 };
    if (looks == MOST_LOOKS) {
        print_error("waited in vain for: %s\n", condition);
        _fail(file, line);
    }
    nanosleep(&(struct timespec){.tv_nsec = looks < SOON ? NS_PER_MS : 10 * NS_PER_MS}, NULL);
}

void test_inherit_orphans(void) {
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

bool test_orphan_ends(int process) {
    for (int i = 0; i < 6000; i++, nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL))
        if (waitpid(process, NULL, WNOHANG) == process || kill(process, 0) != 0)
            return true;
    return false;
}

void test_predicts_fresh_runs(const gs_gpu *found, const gs_gpu *planted, uint64_t seed, int64_t runs) {
    static const char *const classes[] = {"plain", "shared", "small", "exits", "local", "timed"};
    gs_bounds bounds = gs_bounds_of(planted, 1);
    gs_error error = {.code = GS_OK};
    gs_score score = {0};
    for (uint64_t i = 0; score.runs < runs; i++) {
        gs_run *plan = gs_generate(&bounds, classes[i % GS_COUNT(classes)], seed, i, &error);
        gs_run *recorded = gs_predict(planted, plan, NULL, &error);
        gs_run *predicted = recorded ? gs_predict(found, plan, NULL, &error) : NULL;
        if (recorded) {
            assert_non_null(predicted);
            assert_int_equal(gs_score_add(&score, recorded, predicted, &error), GS_OK);
        }
        gs_run_free(plan);
        gs_run_free(recorded);
        gs_run_free(predicted);
    }
    assert_int_equal(score.runs_exact, runs);
    assert_true(score.blocks_exact >= score.blocks - score.blocks / 1000); /* numbers of single SMs can stay open */
}
