/*
 * verify.c: gridsmith verify: whether a reshaped kernel computes what the original does.
 */
#include "cmd.h"
#include "reshape/reshape.h"

#include <stdlib.h>
#include <string.h>

struct verify {
    const char *kernel, *form, *launch, *on, *tolerance;
    int64_t workers, task, stops, registers, seed, seconds, repeat;
    bool json, sanitize;
};

static const gs_option options[] = {
    {.name = "kernel",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct verify, kernel),
     .argument = "NAME",
     .help = "the kernel, with its template arguments: reduce<256>",
     .required = true},
    {.name = "as",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct verify, form),
     .argument = "FORM",
     .help = "persistent, confined, elastic or registers",
     .required = true},
    {.name = "launch",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct verify, launch),
     .argument = "FILE",
     .help = "the grid, the block and the arguments: gridsmith.launch/1",
     .required = true},
    {.name = "on",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct verify, on),
     .argument = "host|cuda",
     .help = "where to run (default host: on the CPU)"},
    {.name = "tolerance",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct verify, tolerance),
     .argument = "X",
     .help = "floating-point numbers may differ by so much, relative to the larger of 1 and the original (default 0)"},
    {.name = "workers",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct verify, workers),
     .argument = "N",
     .help = "blocks that a persistent or confined kernel is launched with (default: what fits)",
     .least = 1,
     .most = INT32_MAX},
    {.name = "task",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct verify, task),
     .argument = "N",
     .help = "blocks that a worker takes at a time at most (default 10)",
     .least = 1,
     .most = GS_JOB_TASK},
    {.name = "stops",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct verify, stops),
     .argument = "N",
     .help = "confined: so many times it is told to leave, at random moments, and goes on on other SMs",
     .least = 0,
     .most = 1000000},
    {.name = "registers",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct verify, registers),
     .argument = "N",
     .help = "registers: the most that a thread may use",
     .least = 16,
     .most = 255},
    {.name = "seed",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct verify, seed),
     .argument = "N",
     .help = "of the moments of the stops",
     .least = 0,
     .most = INT64_MAX},
    {.name = "seconds",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct verify, seconds),
     .argument = "N",
     .help = "a kernel that runs longer has failed (default 60)",
     .least = 1,
     .most = 100000},
    {.name = "repeat",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct verify, repeat),
     .argument = "N",
     .help = "time each N times, by turns, and print the medians",
     .least = 1,
     .most = 100000},
    {.name = "sanitize",
     .offset = offsetof(struct verify, sanitize),
     .help = "on the host: compile with AddressSanitizer, which finds accesses out of bounds"},
    {.name = "json", .offset = offsetof(struct verify, json), .help = "write gridsmith.verify/1"},
};

static void print_json(const gs_verify_result *result) {
    char words[sizeof result->reason.message + sizeof result->reason.file + 64];
    gs_text text = {.sink = stdout};
    gs_text_add(&text,
                "{\"schema\":\"gridsmith.verify/1\",\"verdict\":\"%s\",\"reason\":", gs_verdict_name(result->verdict));
    gs_text_put_json(&text, result->verdict == GS_VERDICT_SAME ? result->reason.message
                                                               : gs_error_text(&result->reason, words, sizeof words));
    gs_text_add(&text, "}\n");
    gs_text_flush(&text);
    gs_text_free(&text);
}

static void print_words(const struct verify *asked, const gs_verify_result *result) {
    if (result->verdict == GS_VERDICT_REFUSED) {
        gs_report(&result->reason);
        return;
    }
    printf("%s as %s: %s", asked->kernel, asked->form, gs_verdict_name(result->verdict));
    if (result->reason.message[0])
        printf(": %s", result->reason.message);
    printf("\n");
    if (result->reshaped_ns)
        printf("original %.3f ms, reshaped %.3f ms in %u launch%s\n", (double)result->original_ns / 1e6,
               (double)result->reshaped_ns / 1e6, result->launches, result->launches == 1 ? "" : "es");
    if (asked->repeat && result->original_ns)
        printf("medians of %lld runs: the reshaped kernel takes %+.2f%%\n", (long long)asked->repeat,
               100.0 * ((double)result->reshaped_ns / (double)result->original_ns - 1));
}

static int verify(const struct verify *asked, const gs_source *source, const gs_verify_options *wanted,
                  gs_error *error) {
    gs_launch_file *launch = gs_launch_open(asked->launch, error);
    gs_executor *executor = launch ? gs_executor_open(asked->on ? asked->on : "host", error) : NULL;
    gs_verify_result result;
    int status;
    if (!executor || gs_verify(executor, source, launch, wanted, &result, error) != GS_OK) {
        status = gs_report(error);
    } else {
        if (asked->json)
            print_json(&result);
        else
            print_words(asked, &result);
        status = result.verdict != GS_VERDICT_SAME;
    }
    gs_executor_close(executor);
    gs_launch_free(launch);
    return status;
}

static bool read_tolerance(const char *text, double *tolerance) {
    char *end;
    *tolerance = text ? strtod(text, &end) : 0;
    return !text || (*text && !*end && *tolerance >= 0 && *tolerance < 1e30);
}

static int run(const gs_command *command, int argc, char **argv) {
    struct verify asked = {.seconds = 60, .task = 10};
    gs_words files;
    gs_error error = {.code = GS_OK};
    gs_verify_options wanted = {0};
    char *text = NULL, folder[400];
    gs_source source = {0};
    gs_parsed parsed = gs_parse(command, argc, argv, &asked, &files);
    int status = parsed == GS_PARSED_WRONG ? gs_code_exit(GS_E_USAGE) : 0;
    if (parsed == GS_PARSED && files.count != 1)
        status = gs_usage(command, files.count ? "one source at a time" : "which source?");
    else if (parsed == GS_PARSED && !gs_form_find(asked.form, &wanted.form))
        status = gs_usage(command, "--as takes persistent, confined, elastic or registers, not \"%.40s\"", asked.form);
    else if (parsed == GS_PARSED && !read_tolerance(asked.tolerance, &wanted.tolerance))
        status = gs_usage(command, "--tolerance takes a number from 0 on, not \"%.40s\"", asked.tolerance);
    else if (parsed == GS_PARSED) {
        wanted.kernel = asked.kernel;
        wanted.folder = folder;
        wanted.workers = (uint32_t)asked.workers;
        wanted.task_blocks = (uint32_t)asked.task;
        wanted.stops = (uint32_t)asked.stops;
        wanted.registers = (uint32_t)asked.registers;
        wanted.seed = (uint64_t)asked.seed;
        wanted.seconds = (uint32_t)asked.seconds;
        wanted.repeat = (uint32_t)asked.repeat;
        wanted.address_sanitizer = asked.sanitize;
        status = gs_read_source(files.data[0], &text, folder, sizeof folder, &source, &error);
        if (status == 0)
            status = verify(&asked, &source, &wanted, &error);
    }
    gs_source_free(&source);
    free(text);
    free(files.data);
    return status;
}

const gs_command gs_command_verify = {
    .name = "verify",
    .summary = "Whether a reshaped kernel computes what the original does.",
    .usage = "FILE.cu --kernel NAME --as FORM --launch LAUNCH.json [options]",
    .details = "Both run on the same inputs, and every buffer is compared, byte by byte or within --tolerance.\n"
               "Exit code 0: the same; 1: different, or refused by 'gridsmith reshape'.\n\n"
               "  gridsmith verify kernels/reduce.cu --kernel 'reduce<256>' --as confined --stops 5 \\\n"
               "      --launch kernels/reduce.json\n",
    .options = options,
    .option_count = GS_COUNT(options),
    .run = run,
};
