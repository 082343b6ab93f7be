/*
 * kernel_files.c: the kernels of a file, and what their blocks need.
 *
 * Machine code says it: a cubin tells the driver the registers, the shared memory and the threads of each kernel. A
 * file may have cubins for several GPUs; the one that the driver would take counts. PTX is assembled by ptxas, and a
 * CUDA source is compiled to PTX first. Without ptxas the registers are not known, and the file is refused. Options of
 * nvcc for ptxas are given to it, whichever compiler made the PTX.
 */
#include "kernel_files.h"
#include "kernels/cuda/cuda.h"
#include "kernels/forms/forms.h"
#include "kernels/sass/sass.h"

#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

static gs_code add_kernel(gs_file_kernels *kernels, const char *symbol, const gs_file_kernel *about, gs_error *error) {
    gs_file_kernel kernel = *about;
    kernel.symbol = strdup(symbol);
    if (kernel.symbol && GS_PUSH(kernels, kernel))
        return GS_OK;
    free(kernel.symbol);
    return gs_fail_memory(error);
}

/* Gives all kernels short names that differ. */
static gs_code shorten_names(gs_file_kernels *kernels, gs_error *error) {
    gs_short_names names = {0};
    gs_code code = GS_OK;
    for (size_t i = 0; i < kernels->count && code == GS_OK; i++)
        code = gs_short_names_add(&names, kernels->data[i].symbol, error);
    if (code == GS_OK)
        code = gs_short_names_make(&names, error);
    for (size_t i = 0; i < kernels->count && code == GS_OK; i++) {
        kernels->data[i].name = strdup(gs_short_name(&names, kernels->data[i].symbol));
        if (!kernels->data[i].name)
            code = gs_fail_memory(error);
    }
    gs_short_names_clear(&names);
    return code;
}

void gs_file_kernels_clear(gs_file_kernels *kernels) {
    for (size_t i = 0; i < kernels->count; i++) {
        free(kernels->data[i].symbol);
        free(kernels->data[i].name);
    }
    free(kernels->data);
    gs_names_free(&kernels->by_symbol);
    *kernels = (gs_file_kernels){0};
}

/* ---- machine code ---- */

struct taking {
    gs_file_kernels *kernels;
    int architecture;
    int others; /* architecture of a cubin that does not run there, or 0 */
    gs_ptxas_words options;
};

static bool runs_on(int code, int architecture) {
    return code / 10 == architecture / 10 && code <= architecture;
}

/* Adds a kernel, or takes it in place of the same one for an older GPU. */
static gs_code take_kernel(struct taking *taking, const char *symbol, const gs_file_kernel *kernel, gs_error *error) {
    gs_file_kernels *kernels = taking->kernels;
    size_t found = gs_names_find(&kernels->by_symbol, symbol);
    if (found == SIZE_MAX) {
        gs_code code = add_kernel(kernels, symbol, kernel, error);
        if (code == GS_OK &&
            gs_names_add(&kernels->by_symbol, kernels->data[kernels->count - 1].symbol, kernels->count - 1) == SIZE_MAX)
            code = gs_fail_memory(error);
        return code;
    }
    if (kernels->data[found].architecture < kernel->architecture) {
        kernels->data[found].shape = kernel->shape;
        kernels->data[found].architecture = kernel->architecture;
    }
    return GS_OK;
}

static gs_code take_kernels(struct taking *taking, const gs_sass_image *image, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < image->symbols.count && code == GS_OK; i++) {
        gs_sass_resources needs;
        if (!gs_sass_is_kernel(&image->symbols.data[i]))
            continue;
        code = gs_sass_resources_of(image, (uint32_t)i, &needs, error);
        if (code != GS_OK)
            break;
        gs_file_kernel kernel = {.shape = gs_shape_of((int32_t)needs.threads, (int32_t)gs_min(needs.registers, 65536),
                                                      (int64_t)gs_min_u64(needs.shared_bytes, INT32_MAX)),
                                 .cluster = 1,
                                 .architecture = gs_sass_architecture(image)};
        code = take_kernel(taking, gs_sass_symbol_name(image, &image->symbols.data[i]), &kernel, error);
    }
    return code;
}

static gs_code take_cubin(void *context, const char *bytes, size_t size, gs_error *error) {
    struct taking *taking = context;
    gs_sass_image image;
    gs_code code = gs_sass_read(&image, bytes, size, error);
    if (code == GS_OK && runs_on(gs_sass_architecture(&image), taking->architecture))
        code = take_kernels(taking, &image, error);
    else if (code == GS_OK)
        taking->others = gs_sass_architecture(&image);
    gs_sass_free(&image);
    return code;
}

/* ---- PTX, and sources ---- */

static gs_code take_ptx(struct taking *taking, const gs_ptx_module *module, gs_error *error) {
    gs_build build = {.name = module->name,
                      .text = module->text,
                      .size = module->size,
                      .ptxas_options = (const char *const *)taking->options.data,
                      .ptxas_option_count = taking->options.count};
    gs_cubin cubin = {0};
    gs_code code = gs_assemble(&build, taking->architecture, &cubin, error);
    if (code == GS_OK)
        code = take_cubin(taking, cubin.image, cubin.bytes, error);
    gs_cubin_free(&cubin);
    if (code == GS_E_NO_GPU)
        return gs_fail(
            error, GS_E_NO_GPU,
            "%.300s: ptxas of the CUDA toolkit, which decides how many registers kernels have, was not found; "
            "give a cubin or a program, or --threads and --registers",
            module->name);
    return code;
}

static gs_code take_modules(struct taking *taking, const gs_kernel_file_request *request, gs_error *error) {
    const gs_ptx_file_request wanted = {.path = request->path,
                                        .options = request->options,
                                        .option_count = request->option_count,
                                        .compiler = request->compiler,
                                        .architecture = request->architecture};
    gs_ptx_file file = {0};
    gs_code code = gs_ptxas_words_of(&taking->options, request->options, request->option_count, error);
    if (code == GS_OK)
        code = gs_ptx_file_open(&file, &wanted, error);
    for (size_t i = 0; i < file.count && code == GS_OK; i++)
        code = take_ptx(taking, &file.data[i].module, error);
    gs_ptx_file_free(&file);
    gs_ptxas_words_free(&taking->options);
    return code;
}

gs_code gs_file_kernels_read(gs_file_kernels *kernels, const gs_kernel_file_request *request, gs_error *error) {
    struct taking taking = {.kernels = kernels, .architecture = request->architecture};
    gs_error no_cubin = {.code = GS_OK};
    gs_code code = gs_ptx_cubins_of_file(request->path, take_cubin, &taking, &no_cubin);
    if (code != GS_OK && code != GS_E_FORMAT) {
        *error = no_cubin;
        return code;
    }
    if (!kernels->count)
        code = take_modules(&taking, request, error);
    else if (request->option_count)
        code = gs_fail(error, GS_E_USAGE, "compiler options need a CUDA source, but %s is not one",
                       gs_input_name(request->path));
    else
        code = GS_OK;
    if (!kernels->count && taking.others)
        return gs_fail(error, GS_E_FORMAT, "%s has machine code for sm_%d, which sm_%d does not run, and no PTX for it",
                       gs_input_name(request->path), taking.others, request->architecture);
    if (code == GS_OK && !kernels->count)
        code = gs_fail(error, GS_E_FORMAT, "%s has no kernels", gs_input_name(request->path));
    return code == GS_OK ? shorten_names(kernels, error) : code;
}

/* ---- recordings ---- */

gs_code gs_file_kernels_of_run(gs_file_kernels *kernels, const gs_run *run, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->launches.count && code == GS_OK; i++) {
        const gs_launch *launch = &run->launches.data[i];
        size_t k = 0;
        while (k < kernels->count &&
               (strcmp(kernels->data[k].symbol, launch->kernel) != 0 || kernels->data[k].cluster != launch->cluster ||
                !gs_shape_equal(&kernels->data[k].shape, &launch->shape)))
            k++;
        if (k == kernels->count)
            code = add_kernel(kernels, launch->kernel,
                              &(gs_file_kernel){.shape = launch->shape, .cluster = launch->cluster}, error);
        if (code == GS_OK)
            kernels->data[k].launches++;
    }
    if (code == GS_OK && !kernels->count)
        code = gs_fail(error, GS_E_USAGE, "the recording has no launches");
    return code == GS_OK ? shorten_names(kernels, error) : code;
}
