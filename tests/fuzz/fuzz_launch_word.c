/*
 * fuzz_launch_word.c: any bytes as a kernel on the command line. What is accepted is written as a run and read again.
 */
#include "fuzz.h"

#include "model/run/run.h"

#include <string.h>

/* The ranges are those of files. */
static void write_and_read(gs_launch *launch) {
    gs_run *run = gs_run_new(NULL);
    gs_text text = {0};
    gs_error error;
    require(gs_run_add_launch(run, launch, NULL) == GS_OK);
    gs_run_text(run, &text);
    gs_runs *runs = gs_runs_memory("fuzz", text.data, text.count, NULL);
    gs_run *again = gs_runs_next(runs, &error);
    require(again && again->launches.count == 1);
    require(again->launches.data[0].blocks == run->launches.data[0].blocks);
    require(again->launches.data[0].shape.shared_bytes == run->launches.data[0].shape.shared_bytes);
    gs_run_free(again);
    gs_runs_close(runs);
    gs_text_free(&text);
    gs_run_free(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    char *word = malloc(count + 1);
    gs_launch launch;
    gs_error error = {.code = GS_OK};
    require(word != NULL);
    memcpy(word, bytes, count);
    word[count] = '\0';
    if (gs_launch_of_word(word, &launch, &error) == GS_OK)
        write_and_read(&launch);
    else
        require(error.code == GS_E_USAGE && error.message[0]);
    free(word);
    return 0;
}
