/*
 * fuzz_import.c: any bytes as a trace of the PyTorch profiler or as the output of a compiler. What is accepted becomes
 * runs that can be written, read and written again to the same text.
 */
#include "fuzz.h"

#include "lab/import/import.h"

#include <string.h>

static void write_and_read(const gs_run *run) {
    gs_text once = {0}, twice = {0};
    gs_error error;
    gs_run_lines(run, &once);
    gs_runs *runs = gs_runs_memory("lines", once.data, once.count, &error);
    gs_run *again = gs_runs_next(runs, &error);
    require(again != NULL);
    gs_run_lines(again, &twice);
    require(once.count == twice.count && memcmp(once.data, twice.data, once.count) == 0);
    gs_run_free(again);
    gs_runs_close(runs);
    gs_text_free(&once);
    gs_text_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static const char *const settings[] = {"*:local_bytes=8", "_Z*:blocks=3,threads=64"};
    gs_import_options options = {.device = GS_NOT_GIVEN, .settings = settings, .setting_count = GS_COUNT(settings) - 1};
    gs_imported imported = {0};
    gs_error error;
    size_t left_out;
    if (count >= 16 && memcmp(bytes, "SQLite format 3", 16) == 0)
        return 0;
    if (gs_import_bytes("fuzz", (const char *)bytes, count, &options, &imported, &error) == GS_OK) {
        for (size_t i = 0; i < imported.count; i++)
            write_and_read(imported.data[i]);
        options.setting_count = GS_COUNT(settings);
        gs_run *run = gs_kernels_run(&imported.kernels, &options, &left_out, &error);
        if (run)
            write_and_read(run);
        gs_run_free(run);
    } else {
        require(gs_code_exit(error.code) == 2 && error.message[0]);
    }
    gs_imported_free(&imported);
    return 0;
}
