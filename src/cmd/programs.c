/*
 * programs.c: recorded programs: read from a file, which may be a trace of another tool, or recorded on the spot.
 */
#include "cmd.h"
#include "lab/import/import.h"
#include "lab/record/record.h"

#include <stdlib.h>
#include <string.h>

/* Whether a word is in the first 1000 bytes of a file. A file that cannot be opened is refused where it is read. */
static bool begins_with(const char *path, const char *word) {
    gs_error error;
    gs_input *input = gs_input_open(path, &error);
    const char *bytes;
    size_t count = 0, length = strlen(word);
    bool found = !input;
    if (input && gs_input_more(input, &bytes, &count, &error) == GS_OK)
        for (size_t i = 0; i + length < count && i < 1000 && !found; i++)
            found = memcmp(bytes + i, word, length) == 0;
    gs_input_close(input);
    return found;
}

bool gs_is_recording(const char *path) {
    return strcmp(path, "-") == 0 || begins_with(path, "\"gridsmith.");
}

bool gs_is_trace(const char *path) {
    return strcmp(path, "-") != 0 && (begins_with(path, "\"schemaVersion\"") || begins_with(path, "\"traceEvents\"") ||
                                      begins_with(path, "SQLite format 3"));
}

static gs_run *read_recording(const char *path, int64_t only, gs_error *error) {
    gs_runs *runs = gs_runs_open(path, error);
    gs_run *found = NULL, *run;
    size_t number = 0;
    gs_code code = runs ? GS_OK : error->code;
    while (code == GS_OK && (!found || !only) && (run = gs_runs_next(runs, error))) {
        number++;
        if (found) {
            code = gs_fail(error, GS_E_USAGE, "%s has several runs: choose one with --run N", path);
            gs_run_free(run);
        } else if (!only || number == (size_t)only)
            found = run;
        else
            gs_run_free(run);
    }
    gs_runs_close(runs);
    if (code == GS_OK)
        code = error->code;
    if (code == GS_OK && !found)
        code = gs_fail_no_run(path, number, only, error);
    if (code == GS_OK)
        return found;
    gs_run_free(found);
    return NULL;
}

static gs_run *import_trace(const char *path, int64_t only, gs_error *error) {
    const gs_import_options request = {.device = GS_NOT_GIVEN, .needs_run = true};
    gs_imported imported = {0};
    gs_run *run = NULL;
    gs_code code = gs_import(path, &request, &imported, error);
    size_t number = only ? (size_t)only - 1 : 0;
    if (code == GS_OK && imported.count > 1 && !only)
        gs_fail(error, GS_E_USAGE, "%s has the work of %zu GPUs: choose one with --run N", path, imported.count);
    else if (code == GS_OK && number >= imported.count)
        gs_fail_no_run(path, imported.count, only, error);
    else if (code == GS_OK) {
        run = imported.data[number];
        imported.data[number] = NULL;
        gs_print_lines("import", &imported.notes); /* whose options they name */
    }
    gs_imported_free(&imported);
    return run;
}

gs_run *gs_read_program(const char *path, int64_t only, gs_error *error) {
    return gs_is_recording(path) ? read_recording(path, only, error) : import_trace(path, only, error);
}

/* ---- a program ---- */

/* Records a program into a file. Returns its exit status, or that of the error if that is 0. */
static int record_program(const char *path, const gs_words *words, gs_error *error) {
    gs_trace_options request = {.output = path, .through = GS_TRACE_BY_CUPTI};
    gs_trace_summary summary = {0};
    gs_code code = gs_trace_program(&request, (char *const *)(uintptr_t)words->data, &summary, error);
    int status = summary.exit_status;
    if (code == GS_OK && !summary.count)
        code = gs_fail(error, GS_E_USAGE, "the program made no CUDA calls: nothing was recorded");
    gs_trace_summary_clear(&summary);
    return status ? status : code == GS_OK ? 0 : gs_code_exit(code);
}

int gs_with_program(const char *recording, const gs_words *words, gs_use_recording *use, const void *context) {
    gs_error error = {.code = GS_OK};
    char *folder = recording ? NULL : gs_folder_make(&error);
    gs_text path = {0};
    if (error.code != GS_OK)
        return gs_report(&error);
    gs_text_add(&path, "%s%s", folder ? folder : recording, folder ? "/recording.jsonl" : "");
    int status = path.failed ? gs_report_memory() : record_program(path.data, words, &error);
    if (!path.failed && error.code == GS_OK)
        use(context, path.data, &error);
    if (error.code != GS_OK)
        status = gs_report(&error) && status ? status : gs_code_exit(error.code);
    if (folder)
        gs_folder_remove(folder);
    free(folder);
    gs_text_free(&path);
    return status;
}
