/*
 * nvrtc.c: compiling CUDA sources at run time, those of users and our own. See driver.h.
 */
#include "driver.h"

#include <stdlib.h>

static char *read_log(const cu_api *api, nvrtc_program program) {
    size_t size = 0;
    char *log = api->log_size(program, &size) == 0 ? calloc(1, size + 1) : NULL;
    if (log && size)
        api->log_text(program, log);
    return log;
}

gs_code gs_nvrtc_compile(const cu_api *api, const nvrtc_source *source, nvrtc_program *program, char **log,
                         gs_error *error) {
    *log = NULL;
    if (api->program_new(program, source->text, source->file, 0, NULL, NULL) != 0)
        return gs_fail_memory(error);
    for (size_t i = 0; i < source->kernel_count; i++)
        api->add_name(*program, source->kernels[i]);
    bool failed = api->compile(*program, source->option_count, source->options) != 0;
    *log = read_log(api, *program);
    if (!failed)
        return GS_OK;
    api->program_free(program);
    return GS_E_KERNEL;
}

/* What the compiler made, by the calls that say its size and copy it; a NUL follows it. */
static gs_code read_result(nvrtc_program program, int (*size_of)(nvrtc_program, size_t *),
                           int (*copy)(nvrtc_program, char *), const char *what, char **result, size_t *bytes,
                           gs_error *error) {
    *result = NULL;
    if (size_of(program, bytes) != 0 || !*bytes)
        return gs_fail(error, GS_E_NO_GPU, "NVIDIA's run-time compiler returned no %s", what);
    *result = calloc(1, *bytes + 1);
    if (*result && copy(program, *result) == 0)
        return GS_OK;
    free(*result);
    *result = NULL;
    return gs_fail_memory(error);
}

gs_code gs_nvrtc_image(const cu_api *api, nvrtc_program program, char **image, size_t *bytes, gs_error *error) {
    return read_result(program, api->image_size, api->image, "image", image, bytes, error);
}

gs_code gs_nvrtc_ptx(const cu_api *api, nvrtc_program program, char **ptx, gs_error *error) {
    size_t bytes = 0;
    return read_result(program, api->ptx_size, api->ptx, "PTX", ptx, &bytes, error);
}

gs_code gs_cuda_compile(const cu_api *api, int architecture, const char *what, const char *file, const char *text,
                        char **image, gs_error *error) {
    char option[40], *log;
    size_t bytes = 0;
    const char *options[] = {option};
    nvrtc_program program;
    *image = NULL;
    snprintf(option, sizeof option, "--gpu-architecture=sm_%d", architecture);
    nvrtc_source source = {.file = file, .text = text, .options = options, .option_count = 1};
    gs_code code = gs_nvrtc_compile(api, &source, &program, &log, error);
    if (code == GS_OK) {
        code = gs_nvrtc_image(api, program, image, &bytes, error);
        api->program_free(&program);
    } else if (code == GS_E_KERNEL) {
        code = gs_fail(error, GS_E_NO_GPU, "%s does not compile: %.300s", what, log ? log : "no reason given");
    }
    free(log);
    return code;
}
