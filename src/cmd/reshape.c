/*
 * reshape.c: gridsmith reshape: a kernel of a CUDA source in another form.
 */
#include "reshape/reshape.h"
#include "cmd.h"

#include <stdlib.h>

struct options {
    const char *kernel, *form, *output, *launch, *gpu;
    int64_t factor, task;
    bool json;
};

static const gs_option option_table[] = {
    GS_TEXT(struct options, "kernel", kernel, "NAME", "the kernel; all definitions of that name are reshaped"),
    GS_TEXT_REQUIRED(struct options, "as", form, "FORM", "persistent, confined, elastic or registers"),
    GS_OUTPUT(struct options, output, "write the source to FILE (default: standard output)"),
    GS_INT(struct options, "task", task, "N", 1, GS_JOB_TASK,
           "most blocks that a worker takes at a time, unless the launch says otherwise (default 10)"),
    GS_TEXT(struct options, "launch", launch, "FILE",
            "elastic: the launch that variants are tried with (gridsmith.launch/1)"),
    GS_INT(struct options, "factor", factor, "N", 2, 4,
           "elastic: 2 for half of the threads (default), 4 for a quarter"),
    GS_TEXT(struct options, "gpu", gpu, "NAME|FILE", "registers: the GPU to compile for (default h200)"),
    GS_FLAG(struct options, "json", json,
            "write gridsmith.reshape/1: for each kernel of the file whether it can be reshaped, and why not"),
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

static int reshape_source(const struct options *options, const gs_source *source, const gs_reshape_options *request,
                          gs_error *error) {
    gs_text text = {0};
    gs_report_counts counts = {0};
    gs_code code = GS_OK;
    int status = 0;
    if (options->kernel)
        code = gs_reshape(source, options->kernel, request, &text, error);
    bool is_refused = code == GS_E_REFUSED;
    if (code != GS_OK && (!is_refused || !options->json)) {
        status = gs_report(error);
    } else if (!is_refused && options->kernel && (options->output || !options->json)) {
        status = write_text(&text, options->output, error);
    }
    if (options->json && (code == GS_OK || is_refused) && status == 0) {
        gs_text_clear(&text);
        code = gs_reshape_report(source, request, &counts, &text, error);
        status = code == GS_OK ? write_text(&text, NULL, error) : gs_report(error);
        bool is_no = options->kernel ? is_refused : counts.accepted < counts.kernels;
        status = status ? status : is_no;
    }
    gs_text_free(&text);
    return status;
}

/* ---- elastic ---- */

static int reshape_elastic(const struct options *options, const gs_source *source, const char *folder,
                           gs_error *error) {
    gs_text text = {0};
    gs_verify_result result = {0};
    gs_verify_options request = {.form = GS_FORM_ELASTIC, .kernel = options->kernel, .folder = folder, .seconds = 60};
    gs_launch_file *launch = gs_launch_open(options->launch, error);
    gs_executor *executor = launch ? gs_executor_host(error) : NULL;
    int status;
    if (!executor || gs_verify_elastic(executor, source, launch, &request, (uint32_t)options->factor, &text, &result,
                                       error) != GS_OK)
        status = gs_report(error);
    else if (result.verdict != GS_VERDICT_SAME)
        status = gs_report(&result.reason);
    else
        status = write_text(&text, options->output, error);
    gs_executor_close(executor);
    gs_launch_free(launch);
    gs_text_free(&text);
    return status;
}

/* ---- registers ---- */

static void print_register_table(const gs_register_variants *found) {
    printf("  limit  registers  local bytes  spilled: stored  loaded\n");
    for (size_t i = 0; i < found->count; i++) {
        const gs_cost *cost = &found->list[i].cost;
        char limit[16] = "none";
        if (found->list[i].limit)
            snprintf(limit, sizeof limit, "%u", found->list[i].limit);
        printf("  %5s  %9d  %11d  %15d  %6d\n", limit, cost->registers, cost->local_bytes, cost->spill_stores,
               cost->spill_loads);
    }
}

static gs_code print_register_json(const gs_register_variants *found, gs_error *error) {
    gs_text text = {.sink = stdout};
    gs_writer writer = gs_writer_to(&text);
    gs_write_document(&writer, "gridsmith.registers/1");
    gs_write_array(&writer, "variants");
    for (size_t i = 0; i < found->count; i++) {
        const gs_cost *cost = &found->list[i].cost;
        gs_write_object(&writer, NULL);
        gs_write_int(&writer, "max_registers", found->list[i].limit);
        gs_write_int(&writer, "registers", cost->registers);
        gs_write_int(&writer, "local_bytes", cost->local_bytes);
        gs_write_int(&writer, "spill_store_bytes", cost->spill_stores);
        gs_write_int(&writer, "spill_load_bytes", cost->spill_loads);
        gs_write_int(&writer, "shared_bytes", cost->shared_bytes);
        gs_write_end(&writer);
    }
    gs_write_finish(&writer);
    return gs_print_text(&text, GS_OK, error);
}

static int list_registers(const struct options *options, const gs_source *source, gs_error *error) {
    gs_gpu *gpu = gs_gpu_open(options->gpu ? options->gpu : "h200", error);
    gs_register_variants found;
    int major = 0, minor = 0;
    if (!gpu)
        return gs_report(error);
    sscanf(gpu->compute_capability, "%d.%d", &major, &minor);
    gs_gpu_free(gpu);
    if (gs_registers_find(source, options->kernel, major * 10 + minor, &found, error) != GS_OK)
        return gs_report(error);
    if (options->json)
        return print_register_json(&found, error) == GS_OK ? 0 : gs_report(error);
    print_register_table(&found);
    return 0;
}

/* ---- the command ---- */

static int reshape_file(const struct options *options, const char *path, enum gs_form form) {
    char *text = NULL, folder[400];
    gs_source source = {0};
    gs_error error = {.code = GS_OK};
    gs_reshape_options request = {.form = form, .folder = folder, .task_blocks = (uint32_t)options->task};
    int status = gs_read_source(path, &text, folder, sizeof folder, &source, &error);
    if (status == 0)
        status = form == GS_FORM_ELASTIC     ? reshape_elastic(options, &source, folder, &error)
                 : form == GS_FORM_REGISTERS ? list_registers(options, &source, &error)
                                             : reshape_source(options, &source, &request, &error);
    gs_source_free(&source);
    free(text);
    return status;
}

static int check_usage(const gs_command *command, const struct options *options, enum gs_form *form) {
    if (!gs_form_find(options->form, form))
        return gs_usage(command, "--as takes persistent, confined, elastic or registers, not \"%.40s\"", options->form);
    if (!options->kernel && (!options->json || *form > GS_FORM_CONFINED))
        return gs_usage(command, "--kernel NAME is needed, or --json for all kernels of the file");
    if (*form == GS_FORM_ELASTIC && !options->launch)
        return gs_usage(command, "--launch FILE is needed, because elastic forms are found by trying");
    if (*form == GS_FORM_ELASTIC && options->factor == 3)
        return gs_usage(command, "--factor takes 2 or 4");
    return 0;
}

static int run(const gs_command *command, void *given, const gs_words *files) {
    enum gs_form form;
    int status = check_usage(command, given, &form);
    return status ? status : reshape_file(given, files->data[0], form);
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
    .options = option_table,
    .option_count = GS_COUNT(option_table),
    .options_size = sizeof(struct options),
    .defaults = &(const struct options){.factor = 2},
    .words = {1, 1, "give one CUDA source"},
    .run = run,
};
