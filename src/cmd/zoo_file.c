/*
 * zoo_file.c: kernels of users' files as kernels of the zoo: a file of PTX or CUDA C++, and its launch
 * (gridsmith.launch/1). They have one size, "large", and no reference: their results are compared with those of the
 * first pass.
 */
#include "zoo_verbs.h"

#include <stdlib.h>
#include <string.h>

struct file_kernel {
    gs_zoo_kernel kernel; /* the first: gs_zoo_instance has its address */
    char *name, *file, *launch_file;
    gs_launch_file *launch;
    gs_text ptx; /* read or compiled once */
    char symbol[GS_JOB_NAME];
};

static void instance_file(gs_zoo_instance *instance, const int32_t *n) {
    const struct file_kernel *made = (const struct file_kernel *)instance->kernel;
    (void)n;
    instance->failed |= gs_zoo_launch_add_file(instance, made->file, made->name, made->launch, true, NULL) != GS_OK;
    instance->kinds[0].ptx = made->ptx.data;
    instance->kinds[0].symbol = made->symbol;
}

void gs_zoo_file_close(const gs_zoo_kernel *kernel) {
    struct file_kernel *made = (struct file_kernel *)(uintptr_t)kernel;
    gs_launch_free(made->launch);
    gs_text_free(&made->ptx);
    free(made->launch_file);
    free(made->file);
    free(made->name);
    free(made);
}

bool gs_zoo_file_is(const gs_zoo_kernel *kernel, const char *file, const char *name, const char *launch) {
    const struct file_kernel *made = (const struct file_kernel *)kernel;
    return strcmp(made->file, file) == 0 && strcmp(made->name, name) == 0 && strcmp(made->launch_file, launch) == 0;
}

int64_t gs_zoo_file_blocks(const gs_zoo_kernel *kernel) {
    gs_launch_outline outline = gs_launch_outline_of(((const struct file_kernel *)kernel)->launch);
    return (int64_t)outline.grid[0] * outline.grid[1] * outline.grid[2];
}

const char *gs_zoo_file_ptx(const gs_zoo_kernel *kernel, const char **symbol) {
    const struct file_kernel *made = (const struct file_kernel *)kernel;
    *symbol = made->symbol;
    return made->ptx.data;
}

/* Reads the file, and so finds now what would fail later. */
static gs_code read_file(struct file_kernel *made, gs_error *error) {
    gs_zoo_instance instance = {.kernel = &made->kernel};
    gs_code code = gs_zoo_launch_add_file(&instance, made->file, made->name, made->launch, false, error);
    if (code == GS_OK)
        code = gs_zoo_ptx(&instance.kinds[0], &made->ptx, made->symbol, error);
    gs_zoo_instance_free(&instance);
    return code == GS_OK && made->ptx.failed ? gs_fail_memory(error) : code;
}

const gs_zoo_kernel *gs_zoo_file_open(const char *file, const char *name, const char *launch, gs_error *error) {
    struct file_kernel *made = calloc(1, sizeof *made);
    if (!made) {
        gs_fail_memory(error);
        return NULL;
    }
    *made = (struct file_kernel){.name = strdup(name), .file = strdup(file), .launch_file = strdup(launch)};
    made->kernel = (gs_zoo_kernel){.name = made->name,
                                   .summary = "a kernel of a file",
                                   .numbers = "",
                                   .sizes = {{"large", {0}}},
                                   .tolerance = 1e-4,
                                   .instance = instance_file};
    if (!made->name || !made->file || !made->launch_file)
        gs_fail_memory(error);
    else if ((made->launch = gs_launch_open(launch, error)) && read_file(made, error) == GS_OK)
        return &made->kernel;
    gs_zoo_file_close(&made->kernel);
    return NULL;
}
