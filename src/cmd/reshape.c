/*
 * reshape.c: gridsmith reshape: a kernel of a CUDA source in another form.
 */
#include "reshape/reshape.h"
#include "cmd.h"

#include <stdlib.h>
#include <string.h>

struct reshape {
    const char *kernel, *form, *output, *launch, *gpu;
    int64_t factor, task;
    bool json;
};

static const gs_option options[] = {
    {.name = "kernel",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct reshape, kernel),
     .argument = "NAME",
     .help = "the kernel; all definitions of that name are reshaped"},
    {.name = "as",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct reshape, form),
     .argument = "FORM",
     .help = "persistent, confined, elastic or registers",
     .required = true},
    {.name = "output",
     .letter = 'o',
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct reshape, output),
     .argument = "FILE",
     .help = "where to write the source (default: standard output)"},
    {.name = "task",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct reshape, task),
     .argument = "N",
     .help = "blocks that a worker takes at a time at most, where the launch does not say (default 10)",
     .least = 1,
     .most = GS_JOB_TASK},
    {.name = "launch",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct reshape, launch),
     .argument = "FILE",
     .help = "elastic: the launch that variants are tried with: gridsmith.launch/1"},
    {.name = "factor",
     .type = GS_OPTION_INT,
     .offset = offsetof(struct reshape, factor),
     .argument = "N",
     .help = "elastic: 2 for half of the threads (default), 4 for a quarter",
     .least = 2,
     .most = 4},
    {.name = "gpu",
     .type = GS_OPTION_TEXT,
     .offset = offsetof(struct reshape, gpu),
     .argument = "NAME|FILE",
     .help = "registers: the GPU to compile for (default h200)"},
    {.name = "json",
     .offset = offsetof(struct reshape, json),
     .help = "write gridsmith.reshape/1: for each kernel of the file whether it can be done, and why not"},
};

static int write_text(const gs_text *text, const char *path, gs_error *error) {
    gs_output output;
    if (gs_output_open(&output, path, error) != GS_OK)
        return gs_report(error);
    bool written = fwrite(text->data, 1, text->count, output.file) == text->count;
    if (!written) {
        gs_fail_system(error, "write", path ? path : "standard output");
        gs_output_drop(&output);
        return gs_report(error);
    }
    return gs_output_keep(&output, error) == GS_OK ? 0 : gs_report(error);
}

static int reshape_source(const struct reshape *asked, const gs_source *source, const gs_reshape_options *wanted,
                          gs_error *error) {
    gs_text text = {0};
    gs_report_counts counts = {0};
    gs_code code = GS_OK;
    int status = 0;
    if (asked->kernel)
        code = gs_reshape(source, asked->kernel, wanted, &text, error);
    bool is_refused = code == GS_E_REFUSED;
    if (code != GS_OK && (!is_refused || !asked->json)) {
        status = gs_report(error);
    } else if (!is_refused && asked->kernel && (asked->output || !asked->json)) {
        status = write_text(&text, asked->output, error);
    }
    if (asked->json && (code == GS_OK || is_refused) && status == 0) {
        gs_text_clear(&text);
        code = gs_reshape_report(source, wanted, &counts, &text, error);
        status = code == GS_OK ? write_text(&text, NULL, error) : gs_report(error);
        bool is_no = asked->kernel ? is_refused : counts.accepted < counts.kernels;
        status = status ? status : is_no;
    }
    gs_text_free(&text);
    return status;
}

/* ---- elastic ---- */

static int reshape_elastic(const struct reshape *asked, const gs_source *source, const char *folder, gs_error *error) {
    gs_text text = {0};
    gs_verify_result result = {0};
    gs_verify_options wanted = {.form = GS_FORM_ELASTIC, .kernel = asked->kernel, .folder = folder, .seconds = 60};
    gs_launch_file *launch = gs_launch_open(asked->launch, error);
    gs_executor *executor = launch ? gs_executor_host(error) : NULL;
    int status;
    if (!executor ||
        gs_verify_elastic(executor, source, launch, &wanted, (uint32_t)asked->factor, &text, &result, error) != GS_OK)
        status = gs_report(error);
    else if (result.verdict != GS_VERDICT_SAME)
        status = gs_report(&result.reason);
    else
        status = write_text(&text, asked->output, error);
    gs_executor_close(executor);
    gs_launch_free(launch);
    gs_text_free(&text);
    return status;
}

/* ---- registers ---- */

static void print_registers(const gs_register_variants *found, bool json) {
    printf(json ? "{\"schema\":\"gridsmith.registers/1\",\"variants\":["
                : "  limit  registers  local bytes  spilled: stored  loaded\n");
    for (size_t i = 0; i < found->count; i++) {
        const gs_cost *cost = &found->list[i].cost;
        if (json)
            printf("%s{\"max_registers\":%u,\"registers\":%d,\"local_bytes\":%d,\"spill_store_bytes\":%d,"
                   "\"spill_load_bytes\":%d,\"shared_bytes\":%d}",
                   i ? "," : "", found->list[i].limit, cost->registers, cost->local_bytes, cost->spill_stores,
                   cost->spill_loads, cost->shared_bytes);
        else if (found->list[i].limit)
            printf("  %5u  %9d  %11d  %15d  %6d\n", found->list[i].limit, cost->registers, cost->local_bytes,
                   cost->spill_stores, cost->spill_loads);
        else
            printf("   none  %9d  %11d  %15d  %6d\n", cost->registers, cost->local_bytes, cost->spill_stores,
                   cost->spill_loads);
    }
    printf(json ? "]}\n" : "");
}

static int list_registers(const struct reshape *asked, const gs_source *source, gs_error *error) {
    gs_gpu *gpu = gs_gpu_open(asked->gpu ? asked->gpu : "h200", error);
    gs_register_variants found;
    int major = 0, minor = 0;
    if (!gpu)
        return gs_report(error);
    sscanf(gpu->compute_capability, "%d.%d", &major, &minor);
    gs_gpu_free(gpu);
    if (gs_registers_find(source, asked->kernel, major * 10 + minor, &found, error) != GS_OK)
        return gs_report(error);
    print_registers(&found, asked->json);
    return 0;
}

/* ---- the command ---- */

int gs_read_source(const char *path, char **text, char *folder, size_t size, gs_source *source, gs_error *error) {
    size_t count;
    const char *slash = strrchr(path, '/');
    snprintf(folder, size, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    gs_code code = gs_input_all(path, (size_t)64 << 20, text, &count, error);
    if (code == GS_OK)
        code = gs_source_read(source, gs_input_name(path), *text, count, error);
    return code == GS_OK ? 0 : gs_report(error);
}

static int reshape_file(const struct reshape *asked, const char *path, enum gs_form form) {
    char *text = NULL, folder[400];
    gs_source source = {0};
    gs_error error = {.code = GS_OK};
    gs_reshape_options wanted = {.form = form, .folder = folder, .task_blocks = (uint32_t)asked->task};
    int status = gs_read_source(path, &text, folder, sizeof folder, &source, &error);
    if (status == 0)
        status = form == GS_FORM_ELASTIC     ? reshape_elastic(asked, &source, folder, &error)
                 : form == GS_FORM_REGISTERS ? list_registers(asked, &source, &error)
                                             : reshape_source(asked, &source, &wanted, &error);
    gs_source_free(&source);
    free(text);
    return status;
}

static int run(const gs_command *command, int argc, char **argv) {
    struct reshape asked = {.factor = 2};
    gs_words files;
    enum gs_form form;
    gs_parsed parsed = gs_parse(command, argc, argv, &asked, &files);
    int status = parsed == GS_PARSED_WRONG ? gs_code_exit(GS_E_USAGE) : 0;
    if (parsed == GS_PARSED && files.count != 1)
        status = gs_usage(command, files.count ? "one source at a time" : "which source?");
    else if (parsed == GS_PARSED && !gs_form_find(asked.form, &form))
        status = gs_usage(command, "--as takes persistent, confined, elastic or registers, not \"%.40s\"", asked.form);
    else if (parsed == GS_PARSED && !asked.kernel && (!asked.json || form > GS_FORM_CONFINED))
        status = gs_usage(command, "--kernel NAME is needed, or --json for all kernels of the file");
    else if (parsed == GS_PARSED && form == GS_FORM_ELASTIC && (!asked.launch || asked.factor == 3))
        status = gs_usage(command,
                          asked.launch ? "--factor is 2 or 4" : "elastic variants are tried: --launch FILE is needed");
    else if (parsed == GS_PARSED)
        status = reshape_file(&asked, files.data[0], form);
    free(files.data);
    return status;
}

const gs_command gs_command_reshape = {
    .name = "reshape",
    .summary = "A kernel of a CUDA source in another form: CUDA source in, CUDA source out.",
    .usage = "FILE.cu --kernel NAME --as FORM [-o OUT.cu] [options]",
    .details = "persistent: a few workers an SM loop over the blocks of the grid.\n"
               "confined:   workers stay on some SMs, take tasks from a queue, stop at a signal, and go on later.\n"
               "elastic:    a half or a quarter of the threads; found by trying, so --launch is needed.\n"
               "registers:  lists what the kernel costs under limits of registers (NVRTC is needed, a GPU is not).\n\n"
               "Exit code 1: it cannot be done safely; the place and the reason are on standard error.\n\n"
               "  gridsmith reshape kernels/reduce.cu --kernel reduce --as persistent -o out.cu\n",
    .options = options,
    .option_count = GS_COUNT(options),
    .run = run,
};
