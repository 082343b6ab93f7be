/*
 * predict.c: gridsmith predict: on which SM every block goes, which blocks wait, and why.
 *
 * Runs are read, played and written one at a time, so a file of any length takes the memory of its largest run.
 */
#include "cmd.h"
#include "sched/sched.h"
#include "view/view.h"

#include <stdlib.h>
#include <string.h>

struct predict {
    gs_gpu_choice gpu;
    bool json, csv, svg, trace, explain;
    bool follow;
    int64_t turn;
    int64_t only; /* 0: all runs */
    const char *output;
};

static const gs_option options[] = {
    GS_GPU_OPTIONS(struct predict, gpu),
    {.name = "explain",
     .offset = offsetof(struct predict, explain),
     .help = "say which limit on which SMs holds each kernel that waits"},
    {.name = "turn",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct predict, turn),
     .argument = "N",
     .help = "where the turn among groups of SMs stands at first, from 0: it decides which block is where",
     .most = INT32_MAX},
    {.name = "follow",
     .offset = offsetof(struct predict, follow),
     .help = "the runs are recordings: take the turn, and when blocks ended, from them"},
    {.name = "json", .offset = offsetof(struct predict, json), .help = "write the run with \"placed\", a line a run"},
    {.name = "csv", .offset = offsetof(struct predict, csv), .help = "write a row a block"},
    {.name = "svg",
     .offset = offsetof(struct predict, svg),
     .help = "draw it: SMs down, time or launches across, a colour a kernel"},
    {.name = "trace", .offset = offsetof(struct predict, trace), .help = "write a Chrome trace, for ui.perfetto.dev"},
    {.name = "run",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct predict, only),
     .argument = "N",
     .help = "only the Nth run of the file, from 1",
     .least = 1,
     .most = INT64_MAX},
    {.name = "output",
     .letter = 'o',
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct predict, output),
     .argument = "FILE",
     .help = "write there instead of standard output"},
};

/* ---- one run ---- */

static void show_progress(void *user, int64_t blocks, int64_t total) {
    gs_progress_show(user, blocks, total);
}

static gs_code predict_run(const struct predict *predict, const gs_format *format, gs_view *view, const gs_gpu *gpu,
                           const gs_run *run, gs_error *error) {
    gs_progress progress;
    gs_predict_options wishes = {.explain = predict->explain,
                                 .progress = show_progress,
                                 .user = &progress,
                                 .follow = predict->follow,
                                 .turn = (int)predict->turn};
    gs_progress_start(&progress, "placing blocks");
    gs_run *prediction = gs_predict(gpu, run, &wishes, error);
    gs_progress_end(&progress);
    if (!prediction)
        return error->code;
    gs_code code = format->run(view, gpu, prediction, error);
    view->runs++;
    gs_run_free(prediction);
    return code;
}

/* ---- the file ---- */

static gs_code check_many(const struct predict *predict, const gs_format *format, size_t number, gs_error *error) {
    if (!format->one_run || predict->only || number < 2)
        return GS_OK;
    return gs_fail(error, GS_E_USAGE, "the file holds several runs, and --%s shows one: choose it with --run N",
                   format->name);
}

static gs_code predict_all(const struct predict *predict, const gs_format *format, gs_view *view, gs_runs *runs,
                           const char *path, gs_error *error) {
    gs_gpu_of_runs kept = {0};
    gs_run *run;
    size_t number = 0;
    gs_code code = GS_OK;
    while (code == GS_OK && !(predict->only && view->runs) && (run = gs_runs_next(runs, error))) {
        code = check_many(predict, format, ++number, error);
        if (code == GS_OK && (!predict->only || number == (size_t)predict->only)) {
            const gs_gpu *gpu = gs_gpu_for(&kept, &predict->gpu, run, error);
            view->number = number;
            code = gpu ? predict_run(predict, format, view, gpu, run, error) : error->code;
        }
        gs_run_free(run);
    }
    gs_gpu_of_runs_clear(&kept);
    if (code == GS_OK)
        code = error->code;
    if (code == GS_OK && !view->runs)
        code = gs_fail(error, GS_E_USAGE, "%s holds %s", gs_input_name(path), number ? "no such run" : "no run");
    return code;
}

static gs_code predict_file(const struct predict *predict, const gs_format *format, const char *path, gs_error *error) {
    gs_output output;
    gs_runs *runs = gs_runs_open(path, error);
    if (!runs)
        return error->code;
    gs_code code = gs_output_open(&output, predict->output, error);
    if (code == GS_OK) {
        gs_view view = {.text = {.sink = output.file}, .explain = predict->explain};
        if (format->begin)
            format->begin(&view);
        code = predict_all(predict, format, &view, runs, path, error);
        if (code == GS_OK && format->end)
            format->end(&view);
        if (code == GS_OK || !format->one_run)
            gs_text_flush(&view.text);
        if (code == GS_OK && view.text.failed && !ferror(output.file))
            code = gs_fail_memory(error);
        gs_text_free(&view.text);
        if (code == GS_OK)
            code = gs_output_keep(&output, error);
        else
            gs_output_drop(&output);
    }
    gs_runs_close(runs);
    return code;
}

static const gs_format *choose_format(const struct predict *predict) {
    const struct {
        bool asked;
        const gs_format *format;
    } formats[] = {{predict->json, &gs_format_json},
                   {predict->csv, &gs_format_csv},
                   {predict->svg, &gs_format_svg},
                   {predict->trace, &gs_format_trace}};
    const gs_format *chosen = NULL;
    for (size_t i = 0; i < GS_COUNT(formats); i++) {
        if (formats[i].asked && chosen)
            return NULL;
        if (formats[i].asked)
            chosen = formats[i].format;
    }
    return chosen ? chosen : &gs_format_table;
}

static int run(const gs_command *command, int argc, char **argv) {
    struct predict predict = {0};
    gs_words files;
    gs_error error = {.code = GS_OK};
    gs_parsed parsed = gs_parse(command, argc, argv, &predict, &files);
    const gs_format *format = choose_format(&predict);
    int status = parsed == GS_PARSED_WRONG ? gs_code_exit(GS_E_USAGE) : 0;
    if (parsed != GS_PARSED)
        ;
    else if (!format)
        status = gs_usage(command, "--json, --csv, --svg and --trace exclude each other");
    else if (predict.explain && format != &gs_format_table)
        status = gs_usage(command, "--explain goes with the table");
    else if (files.count != 1)
        status = gs_usage(command, "give one file of runs, or - for standard input");
    else if (predict_file(&predict, format, files.data[0], &error) != GS_OK)
        status = gs_report(&error);
    free(files.data);
    free(predict.gpu.settings.data);
    return status;
}

const gs_command gs_command_predict = {
    .name = "predict",
    .summary = "Say on which SM every thread block goes, which blocks wait, and why.",
    .usage = "[options] FILE",
    .details =
        "FILE holds runs (gridsmith.run/1): one JSON object, or one a line; plain or gzip; - is standard input.\n\n"
        "  gridsmith predict --explain scenarios/case-2.1.json\n"
        "  gridsmith predict --svg -o run.svg scenarios/case-4.1.json\n",
    .options = options,
    .option_count = GS_COUNT(options),
    .run = run,
};
