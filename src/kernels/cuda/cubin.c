/*
 * cubin.c: kernels compiled for a GPU that need not be there: CUDA C by NVRTC, PTX by ptxas (assembler.c).
 *
 * Both report what ptxas says of each kernel: its registers, its memory, and what it spills.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Options for NVRTC: the architecture, the folders of CUDA's headers, and the options of the build. */
struct compiler_options {
    char texts[8][300];
    const char *list[80];
    int count;
};

static void add_option(struct compiler_options *options, int slot, const char *format, const char *value) {
    snprintf(options->texts[slot], sizeof options->texts[slot], format, value);
    options->list[options->count++] = options->texts[slot];
}

size_t gs_nvrtc_folders(char folders[2][300]) {
    snprintf(folders[0], sizeof folders[0], "%.250s/include", gs_cuda_toolkit());
    snprintf(folders[1], sizeof folders[1], "%.250s/include/cccl", gs_cuda_toolkit());
    return access(folders[0], R_OK) == 0 ? 2 : 0;
}

static void make_options(struct compiler_options *options, const gs_build *build, int architecture) {
    char number[40], folders[2][300];
    size_t folder_count = gs_nvrtc_folders(folders);
    options->count = 0;
    snprintf(number, sizeof number, "%d", architecture);
    add_option(options, 0, "--gpu-architecture=sm_%s", number);
    for (size_t i = 0; i < folder_count; i++)
        add_option(options, 1 + (int)i, "-I%.290s", folders[i]);
    add_option(options, 3, "%s", "--ptxas-options=-v");
    if (build->max_registers) {
        snprintf(number, sizeof number, "%u", build->max_registers);
        add_option(options, 4, "--maxrregcount=%s", number);
    }
    for (size_t i = 0; i < build->option_count && i < 60; i++)
        if (strncmp(build->options[i], "-D", 2) == 0 || strncmp(build->options[i], "-I", 2) == 0)
            options->list[options->count++] = build->options[i];
}

/* NVRTC reports "FILE(LINE): error: message". */
static gs_code compile_failed(const gs_build *build, const char *log, gs_error *error) {
    const char *at = log ? strstr(log, "error") : NULL, *line = at;
    while (line && line > log && line[-1] != '\n')
        line--;
    const char *words = at ? at : log ? log : "no reason given";
    gs_fail(error, GS_E_KERNEL, "NVRTC says: %.*s", (int)strcspn(words, "\n"), words);
    size_t length = strlen(build->name);
    if (error && line && strncmp(line, build->name, length) == 0 && line[length] == '(') {
        snprintf(error->file, sizeof error->file, "%s", build->name);
        error->line = strtol(line + length + 1, NULL, 10);
        error->column = 1;
    }
    return GS_E_KERNEL;
}

/* Compiles. On success the caller gets names and image from the program, and frees it and the log. */
static gs_code compile_source(const cu_api *api, const gs_build *build, int architecture, nvrtc_program *compiled,
                              char **log, gs_error *error) {
    struct compiler_options options;
    gs_text text = {0};
    make_options(&options, build, architecture);
    gs_text_put(&text, build->text, build->size);
    nvrtc_source source = {.file = build->name,
                           .text = text.data,
                           .kernels = build->kernels,
                           .kernel_count = build->kernel_count,
                           .options = options.list,
                           .option_count = options.count};
    gs_code code = text.failed ? gs_fail_memory(error) : gs_nvrtc_compile(api, &source, compiled, log, error);
    gs_text_free(&text);
    if (code == GS_E_KERNEL) {
        compile_failed(build, *log, error);
        free(*log);
    }
    return code;
}

/* The names and costs of the kernels, from a program that was compiled. */
static gs_code keep_names(const cu_api *api, const gs_build *build, nvrtc_program compiled, const char *log,
                          gs_cubin *cubin, gs_error *error) {
    cubin->symbols = calloc(build->kernel_count + 1, sizeof *cubin->symbols);
    cubin->costs = calloc(build->kernel_count + 1, sizeof *cubin->costs);
    if (!cubin->symbols || !cubin->costs)
        return gs_fail_memory(error);
    for (size_t i = 0; i < build->kernel_count; i++) {
        const char *lowered = NULL;
        if (api->lowered_name(compiled, build->kernels[i], &lowered) != 0 || !lowered)
            return gs_fail(error, GS_E_USAGE, "%s has no kernel %.100s", build->name, build->kernels[i]);
        cubin->symbols[cubin->count++] = strdup(lowered);
        cubin->costs[i] = gs_ptxas_cost(log, lowered);
        if (!cubin->symbols[i])
            return gs_fail_memory(error);
    }
    return GS_OK;
}

static gs_code compile(const gs_build *build, int architecture, gs_cubin *cubin, gs_error *error) {
    cu_api api;
    nvrtc_program compiled;
    char *log;
    gs_code code = gs_nvrtc_open(&api, error);
    if (code != GS_OK)
        return code;
    code = compile_source(&api, build, architecture, &compiled, &log, error);
    if (code == GS_OK) {
        code = keep_names(&api, build, compiled, log, cubin, error);
        if (code == GS_OK)
            code = gs_nvrtc_image(&api, compiled, &cubin->image, &cubin->bytes, error);
        free(log);
        api.program_free(&compiled);
    }
    gs_cuda_close(&api);
    return code;
}

gs_code gs_cubin_make(const gs_build *build, int architecture, gs_cubin *cubin, gs_error *error) {
    *cubin = (gs_cubin){0};
    gs_code code = gs_build_is_ptx(build) ? gs_assemble(build, architecture, cubin, error)
                                          : compile(build, architecture, cubin, error);
    if (code != GS_OK)
        gs_cubin_free(cubin);
    return code;
}

void gs_cubin_free(gs_cubin *cubin) {
    for (size_t i = 0; i < cubin->count; i++)
        free(cubin->symbols[i]);
    free(cubin->symbols);
    free(cubin->costs);
    free(cubin->image);
    *cubin = (gs_cubin){0};
}

gs_code gs_cubin_costs(const gs_build *build, int architecture, gs_cost *costs, gs_error *error) {
    gs_cubin cubin;
    gs_code code = gs_cubin_make(build, architecture, &cubin, error);
    if (code == GS_OK && costs)
        memcpy(costs, cubin.costs, cubin.count * sizeof *costs);
    if (code == GS_OK)
        gs_cubin_free(&cubin);
    return code;
}

void gs_nvrtc_library(char *path, size_t size) {
    cu_api api;
    path[0] = '\0';
    if (gs_nvrtc_open(&api, NULL) != GS_OK)
        return;
    gs_nvrtc_path(&api, path, size);
    gs_cuda_close(&api);
}
