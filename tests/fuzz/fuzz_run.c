/*
 * fuzz_run.c: any bytes as a file of runs. What is accepted is written, read and written again to the same text, as a
 * list of events and as lines; both readers of lines agree; small runs are predicted, checked and shown in every
 * format.
 */
#include "fuzz.h"

#include "model/check/check.h"
#include "model/timeline/timeline.h"
#include "model/view/view.h"

#include <string.h>

static gs_run *read_one(const char *bytes, size_t count) {
    gs_error error;
    gs_runs *runs = gs_runs_memory("fuzz", bytes, count, &error);
    gs_run *run = gs_runs_next(runs, &error);
    gs_runs_close(runs);
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

/* As lines it is the same run. */
static void write_lines(const gs_run *run) {
    gs_text list = {0}, lines = {0}, again = {0};
    gs_run_text(run, &list);
    gs_run_lines(run, &lines);
    gs_run *other = read_one(lines.data, lines.count);
    require(other != NULL);
    gs_run_text(other, &again);
    require(list.count == again.count && memcmp(list.data, again.data, list.count) == 0);
    gs_run_free(other);
    gs_text_free(&list);
    gs_text_free(&lines);
    gs_text_free(&again);
}

/* Lines are read by a fast reader where it can. With an escape in their first key it cannot, and the result must be the
   same. */
static void compare_readers(const char *bytes, size_t count, const gs_run *run) {
    static const char key[] = "{\"op\"";
    gs_text escaped = {0}, wanted = {0}, found = {0};
    for (size_t i = 0; i < count; i++) {
        bool is_key = count - i >= sizeof key - 1 && memcmp(bytes + i, key, sizeof key - 1) == 0;
        if (is_key)
            gs_text_add(&escaped, "{\"\\u006fp\"");
        else
            gs_text_put(&escaped, bytes + i, 1);
        i += is_key ? sizeof key - 2 : 0;
    }
    gs_run *slow = escaped.count ? read_one(escaped.data, escaped.count) : NULL;
    require(!slow == !run);
    if (run) {
        gs_run_text(run, &wanted);
        gs_run_text(slow, &found);
        require(wanted.count == found.count && memcmp(wanted.data, found.data, found.count) == 0);
    }
    gs_run_free(slow);
    gs_text_free(&escaped);
    gs_text_free(&wanted);
    gs_text_free(&found);
}

/* The table of a brief prediction is that of the whole one. */
static void compare_tables(const gs_gpu *gpu, const gs_run *run, const gs_run *whole) {
    gs_predict_options options = {.explain = true};
    gs_view wanted = {.explain = true}, found = {.explain = true};
    gs_run *brief = gs_predict_brief(gpu, gpu, run, &options, NULL);
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
    int changes;
    gs_run_free(gs_predict_recorded_as(gpu, run, &changes, &error));
    gs_run_free(prediction);
    gs_gpu_free(gpu);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    gs_run *run = read_one((const char *)bytes, count);
    compare_readers((const char *)bytes, count, run);
    if (!run)
        return 0;
    write_and_read(run);
    write_lines(run);
    if (is_small(run))
        play(run);
    gs_run_free(run);
    return 0;
}
