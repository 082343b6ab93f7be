/*
 * import.c: gridsmith import: converts traces of other tools to runs.
 *
 * Files are read whole before anything is written, so a truncated file leaves no output. Files of compilers have only
 * the resources of kernels: they are shown as a table, or become a run if the user gives the numbers of blocks and
 * threads.
 */
#include "lab/import/import.h"
#include "cmd.h"

#include <string.h>

struct options {
    int64_t device;
    gs_words settings;
    const char *with, *gpu, *output;
    bool json;
};

static const gs_option option_table[] = {
    GS_INT(struct options, "device", device, "N", 0, INT32_MAX, "only the work of GPU N (default: a run for each GPU)"),
    GS_LIST(struct options, "set", settings, "PATTERN:KEY=N,...",
            "set values of the kernels whose names match, such as '*gemm*:cluster=2'"),
    GS_TEXT(struct options, "with", with, "RECORDING",
            "take clusters, carve-outs and local memory from a recording of the same program"),
    GS_TEXT(struct options, "gpu", gpu, "NAME|FILE",
            "from cuobjdump and ptxas: only the kernels for this GPU, which the run then names"),
    GS_FLAG(struct options, "json", json, "write the kernels of cuobjdump and ptxas as gridsmith.kernels/1"),
    GS_OUTPUT(struct options, output, "write to FILE instead of standard output"),
};

/* ---- kernels of compilers ---- */

static void put_kernel_table(gs_text *text, const gs_kernel_list *kernels) {
    gs_text_add(text, "registers  shared   local  architecture  kernel\n");
    for (size_t i = 0; i < kernels->count; i++) {
        const gs_kernel_entry *kernel = &kernels->data[i];
        gs_text_add(text, "%9d %7lld %7lld  %-12.12s  %s\n", kernel->registers, (long long)kernel->shared_bytes,
                    (long long)kernel->local_bytes, *kernel->architecture ? kernel->architecture : "-", kernel->name);
    }
}

static void put_kernel_json(gs_text *text, const gs_kernel_list *kernels) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.kernels/1");
    gs_write_array(&writer, "kernels");
    for (size_t i = 0; i < kernels->count; i++) {
        const gs_kernel_entry *kernel = &kernels->data[i];
        gs_write_object(&writer, NULL);
        gs_write_string(&writer, "kernel", kernel->name);
        if (*kernel->architecture)
            gs_write_string(&writer, "architecture", kernel->architecture);
        gs_write_int(&writer, "registers", kernel->registers);
        gs_write_int(&writer, "shared_bytes", kernel->shared_bytes);
        gs_write_int(&writer, "local_bytes", kernel->local_bytes);
        gs_write_end(&writer);
    }
    gs_write_finish(&writer);
}

/* Keeps the kernels that the GPU of the command line would run. */
static gs_code keep_kernels(const struct options *options, gs_imported *imported, gs_error *error) {
    gs_gpu *gpu = gs_gpu_open(options->gpu, error);
    int architecture = gpu ? gs_gpu_architecture(gpu) : 0;
    size_t removed = 0;
    gs_code code = gpu ? GS_OK : error->code;
    if (code == GS_OK && !architecture)
        code = gs_fail(error, GS_E_USAGE, "the description of %s has no compute capability", gpu->name);
    if (code == GS_OK)
        code = gs_kernels_keep(&imported->kernels, architecture, &removed, error);
    if (code == GS_OK && !imported->kernels.count)
        code = gs_fail(error, GS_E_USAGE, "no kernel is for %s, which is sm_%d", gpu->name, architecture);
    if (code == GS_OK && removed)
        gs_text_add(&imported->notes, "%zu kernel%s left out: not for %s, which is sm_%d\n", removed,
                    removed == 1 ? " is" : "s are", gpu->name, architecture);
    gs_gpu_free(gpu);
    return code;
}

static gs_code put_kernels(const struct options *options, const gs_import_options *request, gs_imported *imported,
                           gs_text *text, gs_error *error) {
    size_t left_out;
    if (!imported->kernels.count)
        return GS_OK;
    gs_run *run = gs_kernels_run(&imported->kernels, request, &left_out, error);
    if (!run && error->code != GS_OK)
        return error->code;
    if (!run) {
        (options->json ? put_kernel_json : put_kernel_table)(text, &imported->kernels);
        return GS_OK;
    }
    const char *gpu = options->gpu ? gs_gpu_builtin_name(options->gpu) : NULL;
    if (gpu && !(run->gpu = strdup(gpu))) {
        gs_run_free(run);
        return gs_fail_memory(error);
    }
    if (left_out)
        gs_text_add(&imported->notes, "%zu of %zu kernels %s left out: set %s blocks and threads with --set\n",
                    left_out, imported->kernels.count, left_out == 1 ? "is" : "are", left_out == 1 ? "its" : "their");
    gs_run_text(run, text);
    gs_text_put(text, "\n", 1);
    gs_run_free(run);
    return GS_OK;
}

/* ---- the command ---- */

static gs_code write_all(const struct options *options, const gs_import_options *request, gs_imported *imported,
                         gs_error *error) {
    gs_output output;
    gs_code code = gs_output_open(&output, options->output, error);
    if (code != GS_OK)
        return code;
    gs_text text = {.sink = output.file};
    for (size_t i = 0; i < imported->count; i++)
        gs_run_lines(imported->data[i], &text);
    code = put_kernels(options, request, imported, &text, error);
    return gs_output_end(&output, gs_print_text(&text, code, error), error);
}

static int run_import(const gs_command *command, void *given, const gs_words *files) {
    const struct options *options = given;
    const gs_import_options request = {.device = options->device,
                                       .settings = options->settings.data,
                                       .setting_count = options->settings.count,
                                       .with = options->with};
    gs_imported imported = {0};
    gs_error error = {.code = GS_OK};
    gs_code code = GS_OK;
    for (size_t i = 0; i < files->count && code == GS_OK; i++)
        code = gs_import(files->data[i], &request, &imported, &error);
    if (code == GS_OK && (options->json || options->gpu) && !imported.kernels.count) {
        gs_imported_free(&imported);
        return gs_usage(command, "--%s is for the kernels of cuobjdump and ptxas; a trace becomes a run",
                        options->json ? "json" : "gpu");
    }
    if (code == GS_OK && options->gpu)
        code = keep_kernels(options, &imported, &error);
    if (code == GS_OK)
        code = gs_import_finish(&request, &imported, &error);
    if (code == GS_OK)
        code = write_all(options, &request, &imported, &error);
    if (code == GS_OK)
        gs_print_lines("import", &imported.notes);
    gs_imported_free(&imported);
    return code == GS_OK ? 0 : gs_report(&error);
}

const gs_command gs_command_import = {
    .name = "import",
    .summary = "Convert traces of other tools to runs: the PyTorch profiler, Nsight Systems, cuobjdump, ptxas.",
    .usage = "[options] FILE...",
    .details = "FILE is a trace of the PyTorch profiler (JSON, plain or gzip), a database exported by Nsight Systems\n"
               "(SQLite), or the output of 'cuobjdump --dump-resource-usage' or 'ptxas -v'.\n\n"
               "  gridsmith import --set 'nvjet*:cluster=2' -o app.jsonl trace.json.gz\n"
               "  cuobjdump --dump-resource-usage app | gridsmith import -\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.device = GS_NOT_GIVEN},
    .words = {1, SIZE_MAX, "give traces, or - for standard input"},
    .run = run_import,
};
