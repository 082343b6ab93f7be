/*
 * fuzz_run.c: any bytes as a file of runs. What is accepted is written, read and written again to the same text; small
 * runs are predicted, checked and shown in every format.
 */
#include "sched/sched.h"
#include "view/view.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void require(bool holds) {
    if (!holds)
        abort();
}

static gs_run *read_one(const char *bytes, size_t count) {
    gs_input *input = gs_input_memory("fuzz", bytes, count, NULL);
    gs_error error;
    gs_json json;
    gs_run *run = NULL;
    if (gs_json_next(input, &json, &error) == GS_OK && json.root)
        run = gs_run_read(&json, &error);
    gs_input_close(input);
    return run;
}

static void write_and_read(const gs_run *run) {
    gs_text once = {0}, twice = {0};
    gs_run_text(run, &once);
    gs_run *again = read_one(once.data, once.count);
    require(again != NULL);
    gs_run_text(again, &twice);
    require(once.count == twice.count && memcmp(once.data, twice.data, once.count) == 0);
    gs_run_free(again);
    gs_text_free(&once);
    gs_text_free(&twice);
}

static void show(const gs_gpu *gpu, const gs_run *run) {
    static const gs_format *const formats[] = {&gs_format_table, &gs_format_json, &gs_format_csv, &gs_format_svg,
                                               &gs_format_trace};
    for (size_t i = 0; i < GS_COUNT(formats); i++) {
        gs_view view = {.explain = true};
        gs_error error;
        formats[i]->run(&view, gpu, run, &error);
        gs_text_free(&view.text);
    }
}

static bool is_small(const gs_run *run) {
    int64_t blocks = 0;
    for (size_t i = 0; i < run->launches.count; i++)
        blocks += run->launches.data[i].blocks;
    return blocks < 5000 && run->events.count < 100;
}

/* The table of a brief prediction is that of the whole one. */
static void compare_tables(const gs_gpu *gpu, const gs_run *run, const gs_run *whole) {
    gs_predict_options options = {.explain = true};
    gs_view wanted = {.explain = true}, found = {.explain = true};
    gs_run *brief = gs_predict_brief(gpu, run, &options, NULL);
    require(brief != NULL);
    gs_format_table.run(&wanted, gpu, whole, NULL);
    gs_format_table.run(&found, gpu, brief, NULL);
    require(strcmp(wanted.text.data, found.text.data) == 0);
    gs_text_free(&wanted.text);
    gs_text_free(&found.text);
    gs_run_free(brief);
}

static void play(const gs_run *run) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gpu->sms = 6;
    gs_predict_options options = {.explain = true};
    gs_error error;
    gs_run *prediction = gs_predict(gpu, run, &options, &error);
    if (prediction) {
        write_and_read(prediction);
        show(gpu, prediction);
        compare_tables(gpu, run, prediction);
        gs_check check;
        require(gs_check_run(gpu, run, 20, NULL, &check, &error) == GS_OK);
        gs_check_clear(&check);
    }
    show(gpu, run); /* with any observations */
    gs_run_free(gs_predict_recorded(gpu, run, &error));
    gs_run_free(prediction);
    gs_gpu_free(gpu);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    gs_run *run = read_one((const char *)bytes, count);
    if (!run)
        return 0;
    write_and_read(run);
    if (is_small(run))
        play(run);
    gs_run_free(run);
    return 0;
}
