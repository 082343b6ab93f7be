/*
 * verify.c: gridsmith verify: checks that a reshaped kernel computes the same as the original.
 */
#include "cmd.h"
#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_TASK = 10 };

struct options {
    const char *kernel, *form, *launch, *on, *tolerance, *compiler;
    int64_t workers, task, stops, registers, seed, seconds, repeat;
    bool json, sanitize, looks_back;
};

static const gs_option option_table[] = {
    GS_TEXT_REQUIRED(struct options, "kernel", kernel, "NAME", "the kernel, with its template arguments: reduce<256>"),
    GS_TEXT_REQUIRED(struct options, "as", form, "FORM", "persistent, confined, elastic or registers"),
    GS_TEXT_REQUIRED(struct options, "launch", launch, "FILE",
                     "the grid, the block and the arguments (gridsmith.launch/1)"),
    GS_TEXT(struct options, "compiler", compiler, "NAME",
            "for CUDA sources: nvcc, nvrtc or clang (default: the first that can compile the file)"),
    GS_TEXT_RENAMED(struct options, "device", "on", on, "host|cuda", "where to run (default host: on the CPU)"),
    GS_TEXT(struct options, "tolerance", tolerance, "X",
            "largest difference of floating-point numbers, relative to the larger of 1 and the original (default 0)"),
    GS_INT(struct options, "workers", workers, "N", 1, UINT16_MAX,
           "worker blocks of a persistent or confined kernel (default: as many as fit)"),
    GS_INT(struct options, "task", task, "N", 1, GS_JOB_TASK,
           "the most blocks that a worker block takes at a time (default 10)"),
    GS_INT(struct options, "stops", stops, "N", 0, 1000000,
           "confined: stop it N times, at random moments; it continues on other SMs"),
    GS_INT(struct options, "registers", registers, "N", 16, 255, "registers: the most registers that a thread may use"),
    GS_INT(struct options, "seed", seed, "N", 0, INT64_MAX, "seed of the random moments (default 0)"),
    GS_INT(struct options, "seconds", seconds, "N", 1, 100000, "a kernel that runs longer has failed (default 60)"),
    GS_INT(struct options, "repeat", repeat, "N", 1, 100000,
           "run both N times, alternately, and print the medians of their times"),
    GS_FLAG(struct options, "look-back", looks_back,
            "accept blocks that wait for other blocks, if those have lower numbers"),
    GS_FLAG(struct options, "sanitize", sanitize,
            "on the host: compile with AddressSanitizer, which finds accesses out of bounds"),
    GS_FLAG(struct options, "json", json, "write gridsmith.verify/1"),
};

static gs_code print_json(const gs_verify_result *result, gs_error *error) {
    char words[sizeof result->reason.message + sizeof result->reason.file + 64];
    bool is_same = result->verdict == GS_VERDICT_SAME;
    gs_text text = {.sink = stdout};
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "gridsmith.verify/1");
    gs_write_string(&writer, "verdict", gs_verdict_name(result->verdict));
    gs_write_string(&writer, "reason",
                    is_same ? result->reason.message : gs_error_text(&result->reason, words, sizeof words));
    gs_write_finish(&writer);
    return gs_print_text(&text, GS_OK, error);
}

static void print_words(const struct options *options, const gs_verify_result *result) {
    if (result->verdict == GS_VERDICT_REFUSED) {
        gs_report(&result->reason);
        return;
    }
    printf("%s as %s: %s", options->kernel, options->form, gs_verdict_name(result->verdict));
    if (result->reason.message[0])
        printf(": %s", result->reason.message);
    printf("\n");
    if (strcmp(options->form, "elastic") == 0 && result->verdict == GS_VERDICT_SAME)
        printf("valid for this launch only: on other inputs an elastic kernel may compute something else\n");
    if (result->reshaped_ns)
        printf("original %.3f ms, reshaped %.3f ms in %u launch%s\n", (double)result->original_ns / 1e6,
               (double)result->reshaped_ns / 1e6, result->launches, result->launches == 1 ? "" : "es");
    if (options->stops && result->verdict == GS_VERDICT_SAME && result->launches == 1)
        printf("it was not stopped: the launch ended before\n");
    if (options->repeat && result->original_ns)
        printf("medians of %lld run%s: the reshaped kernel takes %+.2f%%\n", (long long)options->repeat,
               options->repeat == 1 ? "" : "s",
               100.0 * ((double)result->reshaped_ns / (double)result->original_ns - 1));
}

/* A kernel to verify: of a source (elastic), or of PTX. */
struct subject {
    const gs_source *source; /* or NULL: */
    gs_ptx_place place;
};

static int verify_subject(const struct options *options, const struct subject *subject,
                          const gs_verify_options *request, gs_error *error) {
    gs_launch_file *launch = gs_launch_open(options->launch, error);
    gs_executor *executor = launch ? gs_executor_open(options->on ? options->on : "host", error) : NULL;
    gs_verify_result result;
    int status;
    gs_code code = !executor ? error->code
                   : subject->source
                       ? gs_verify_elastic(executor, subject->source, launch, request, 0, NULL, &result, error)
                       : gs_verify_ptx(executor, &subject->place, launch, request, &result, error);
    if (code != GS_OK || (options->json && print_json(&result, error) != GS_OK)) {
        status = gs_report(error);
    } else {
        if (!options->json)
            print_words(options, &result);
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

static int verify_source(const struct options *options, const char *path, const gs_verify_options *request) {
    char *text = NULL;
    gs_source source = {0};
    gs_error error = {.code = GS_OK};
    struct subject subject = {.source = &source};
    int status = gs_read_source(path, &text, &source, &error);
    if (status == 0)
        status = verify_subject(options, &subject, request, &error);
    gs_source_free(&source);
    free(text);
    return status;
}

static int verify_ptx(const struct options *options, const gs_words *words, const gs_verify_options *request) {
    enum { ARCHITECTURE = 80 }; /* all current GPUs accept it; the CPU accepts any */
    gs_error error = {.code = GS_OK};
    struct subject subject = {.source = NULL};
    gs_ptx_file file;
    gs_ptx_file_request wanted = {.path = words->data[0],
                                  .kernel = options->kernel,
                                  .options = (const char *const *)words->data + 1,
                                  .option_count = words->count - 1,
                                  .compiler = options->compiler,
                                  .architecture = ARCHITECTURE,
                                  .takes_newer = true};
    if (gs_ptx_file_open(&file, &wanted, &error) != GS_OK)
        return gs_report(&error);
    int status;
    if (gs_ptx_file_find(&file, options->kernel, &subject.place, &error) == GS_OK) {
        status = verify_subject(options, &subject, request, &error);
    } else {
        gs_error_name_file(&error, gs_input_name(words->data[0]));
        status = gs_report(&error);
    }
    gs_ptx_file_free(&file);
    return status;
}

/* An option that has no effect on the form is a mistake. 0: there is none. */
static int check_effects(const gs_command *command, const struct options *options, enum gs_form form) {
    bool has_workers = form == GS_FORM_PERSISTENT || form == GS_FORM_CONFINED;
    bool is_on_host = !options->on || strcmp(options->on, "host") == 0;
    const struct {
        bool is_given, has_effect;
        const char *name, *use;
    } rules[] = {
        {options->stops, form == GS_FORM_CONFINED, "stops", "--as confined"},
        {options->seed, options->stops, "seed", "--stops"},
        {options->registers, form == GS_FORM_REGISTERS, "registers", "--as registers"},
        {options->workers, has_workers, "workers", "--as persistent and --as confined"},
        {options->task, has_workers, "task", "--as persistent and --as confined"},
        {options->looks_back, has_workers, "look-back", "--as persistent and --as confined"},
        {options->compiler, form != GS_FORM_ELASTIC, "compiler", "forms that are made of PTX"},
        {options->sanitize, is_on_host, "sanitize", "--device host"},
    };
    for (size_t i = 0; i < GS_COUNT(rules); i++)
        if (rules[i].is_given && !rules[i].has_effect)
            return gs_usage(command, "--%s goes with %s", rules[i].name, rules[i].use);
    return 0;
}

static int run_verify(const gs_command *command, void *given, const gs_words *files) {
    const struct options *options = given;
    gs_verify_options request = {.kernel = options->kernel,
                                 .workers = (uint32_t)options->workers,
                                 .task_blocks = (uint32_t)(options->task ? options->task : DEFAULT_TASK),
                                 .stops = (uint32_t)options->stops,
                                 .registers = (uint32_t)options->registers,
                                 .seed = (uint64_t)options->seed,
                                 .seconds = (uint32_t)options->seconds,
                                 .repeat = (uint32_t)options->repeat,
                                 .address_sanitizer = options->sanitize,
                                 .looks_back = options->looks_back};
    if (!gs_form_find(options->form, &request.form))
        return gs_usage(command, "--as takes persistent, confined, elastic or registers, not \"%.40s\"", options->form);
    if (!read_tolerance(options->tolerance, &request.tolerance))
        return gs_usage(command, "--tolerance takes a number of at least 0, not \"%.40s\"", options->tolerance);
    int status = check_effects(command, options, request.form);
    if (status)
        return status;
    if (files->before_dashes > 1)
        return gs_usage(command, "give one file with kernels: compiler options stand after --");
    if (request.form != GS_FORM_ELASTIC)
        return verify_ptx(options, files, &request);
    return files->count > 1 ? gs_usage(command, "elastic kernels take no compiler options")
                            : verify_source(options, files->data[0], &request);
}

const gs_command gs_command_verify = {
    .name = "verify",
    .summary = "Check that a reshaped kernel computes the same as the original.",
    .usage = "FILE --kernel NAME --as FORM --launch LAUNCH.json [options] [-- COMPILER OPTIONS]",
    .details =
        "FILE is PTX, a file that contains PTX, or a CUDA source; for elastic kernels, a CUDA source.\n"
        "Both run on the inputs of LAUNCH.json, and every buffer is compared, byte by byte or within --tolerance.\n"
        "Exit code 0: the same; 1: different, or refused by 'gridsmith reshape'.\n\n"
        "  gridsmith verify kernels/reduce.cu --kernel 'reduce<256>' --as confined --stops 5 \\\n"
        "      --launch kernels/reduce.json\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.seconds = 60},
    .words = {1, 100, "give one file with kernels"},
    .run = run_verify,
};
