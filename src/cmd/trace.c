/*
 * trace.c: gridsmith trace: runs a program and records all its work on the GPU.
 *
 * The exit status is that of the program, so that `trace` can precede a command in a script. A summary is printed on
 * standard error when the program has ended.
 */
#include "cmd.h"
#include "lab/record/record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *output, *limit, *keep, *cupti, *through;
    bool is_quiet;
};

static const struct options defaults = {.output = "trace.jsonl", .keep = "oldest"};

static const gs_option option_table[] = {
    GS_OUTPUT(struct options, output, "write to FILE (default: trace.jsonl); %p in it is the number of the process"),
    GS_TEXT(struct options, "limit", limit, "SIZE", "keep at most this much of each process: 500M, 2G"),
    GS_TEXT(struct options, "keep", keep, "WHICH", "at the limit, keep the oldest (default) or the newest"),
    GS_TEXT(struct options, "through", through, "WHAT",
            "record through CUPTI (cupti), or through a library in front of the driver, without times (driver)"),
    GS_TEXT(struct options, "cupti", cupti, "FILE", "the CUPTI library to use, instead of searching for one"),
    GS_FLAG(struct options, "quiet", is_quiet, "do not print a summary"),
};

/* False: unknown way to record. */
static bool read_through(const char *text, gs_trace_through *through) {
    *through = !text ? GS_TRACE_ANY : strcmp(text, "driver") == 0 ? GS_TRACE_BY_DRIVER : GS_TRACE_BY_CUPTI;
    return !text || *through == GS_TRACE_BY_DRIVER || strcmp(text, "cupti") == 0;
}

/* ---- the summary ---- */

/* Reports missing or incomplete launches. */
static void say_missing(const gs_trace_process *process) {
    if (process->dropped)
        fprintf(stderr, "gridsmith: CUPTI lost %" PRId64 " record%s of process %" PRId64 "\n", process->dropped,
                process->dropped == 1 ? "" : "s", process->process);
    if (process->skipped)
        fprintf(stderr, "gridsmith: the limit was reached: %" PRId64 " launch%s of process %" PRId64 " %s not kept\n",
                process->skipped, process->skipped == 1 ? "" : "es", process->process,
                process->skipped == 1 ? "was" : "were");
    if (process->failed)
        fprintf(stderr, "gridsmith: %s could not be written completely\n", process->path);
    if (process->silent)
        fprintf(stderr, "gridsmith: %" PRId64 " call%s of process %" PRId64 " left no record\n", process->silent,
                process->silent == 1 ? "" : "s", process->process);
    if (process->unknown)
        fprintf(stderr, "gridsmith: the host time of %" PRId64 " launch%s is not known\n", process->unknown,
                process->unknown == 1 ? "" : "es");
    if (process->gpus > 1)
        fprintf(stderr, "gridsmith: %s has launches on %" PRId64 " GPUs: each is a run; --run N chooses one\n",
                process->path, process->gpus);
    if (!process->has_ended)
        fprintf(stderr, "gridsmith: process %" PRId64 " did not end normally: its last second may be missing\n",
                process->process);
}

static void say_process(const gs_trace_process *process) {
    fprintf(stderr, "gridsmith: %s: %" PRId64 " kernel%s", process->path[0] ? process->path : "nothing written",
            process->kernels, process->kernels == 1 ? "" : "s");
    if (process->graph_kernels)
        fprintf(stderr, " (%" PRId64 " in graphs)", process->graph_kernels);
    fprintf(stderr, ", %" PRId64 " cop%s, %" PRId64 " memset%s on %" PRId64 " stream%s", process->copies,
            process->copies == 1 ? "y" : "ies", process->memsets, process->memsets == 1 ? "" : "s", process->streams,
            process->streams == 1 ? "" : "s");
    if (process->has_times)
        fprintf(stderr, " in %.3f s", (double)process->duration_ns / 1e9);
    fprintf(stderr, ", %" PRId64 " lost\n", process->dropped + process->skipped + process->failed);
    say_missing(process);
}

/* Reports what a recording without CUPTI lacks. */
static void say_times(const gs_trace_summary *summary, bool is_asked) {
    bool has_times = true;
    for (size_t i = 0; i < summary->count; i++)
        has_times = has_times && (summary->data[i].has_times || !summary->data[i].path[0]);
    if (!has_times && !is_asked)
        fprintf(stderr, "gridsmith: no CUPTI was found: recorded in front of the driver, without the times of "
                        "kernels\n");
}

static void say_all(const gs_trace_summary *summary, bool is_asked) {
    if (!summary->count)
        fprintf(stderr, "gridsmith: no CUDA calls: nothing was recorded\n");
    /* Processes that start CUDA and launch nothing have no recording, unless they are the first. */
    for (size_t i = 0; i < summary->count; i++)
        if (summary->data[i].path[0] || !summary->data[i].has_ended)
            say_process(&summary->data[i]);
    say_times(summary, is_asked);
}

static int run_trace(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_trace_options request = {.output = options->output, .cupti = options->cupti};
    gs_trace_summary summary = {0};
    gs_error error = {.code = GS_OK};
    if (options->limit && !(gs_parse_bytes(options->limit, &request.limit_bytes) && request.limit_bytes > 0))
        return gs_usage(command, "--limit takes a size such as 500M or 2G, not \"%.40s\"", options->limit);
    size_t length = strlen(options->output);
    if (length > 3 && strcmp(options->output + length - 3, ".gz") == 0)
        return gs_usage(command, "recordings are written while the program runs, uncompressed: leave out .gz");
    if (strcmp(options->keep, "oldest") != 0 && strcmp(options->keep, "newest") != 0)
        return gs_usage(command, "--keep takes oldest or newest, not \"%.40s\"", options->keep);
    if (!read_through(options->through, &request.through))
        return gs_usage(command, "--through takes cupti or driver, not \"%.40s\"", options->through);
    if (options->cupti && request.through == GS_TRACE_BY_DRIVER)
        return gs_usage(command, "--cupti and --through driver exclude each other");
    request.keep_newest = strcmp(options->keep, "newest") == 0;
    gs_code code = gs_trace_program(&request, (char *const *)(uintptr_t)words->data, &summary, &error);
    int status = summary.exit_status;
    if (code != GS_OK)
        status = gs_report(&error) && status ? status : gs_code_exit(code);
    else if (!options->is_quiet)
        say_all(&summary, request.through == GS_TRACE_BY_DRIVER);
    gs_trace_summary_clear(&summary);
    return status;
}

const gs_command gs_command_trace = {
    .name = "trace",
    .summary = "Run a CUDA program and record what it launches on the GPU.",
    .usage = "[-o FILE] [--through cupti|driver] [--limit SIZE] [--keep oldest|newest] [--] PROGRAM [ARGUMENT...]",
    .details = "The exit status is that of the program. The recording is a run, one line per launch.\n\n"
               "  gridsmith trace -o train.jsonl -- python train.py\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &defaults,
    .words = {1, SIZE_MAX, "give a program to run"},
    .takes_program = true,
    .run = run_trace,
};
