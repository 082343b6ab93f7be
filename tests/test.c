/* test.c: see test.h. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

uint64_t test_number(const char *variable, uint64_t otherwise) {
    const char *value = getenv(variable);
    return value ? strtoull(value, NULL, 10) : otherwise;
}

const char *test_path(const char *file) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", GRIDSMITH_SOURCE, file);
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
