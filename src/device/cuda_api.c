/*
 * cuda_api.c: opening the CUDA driver and NVRTC at run time. See cuda_api.h.
 */
#include "cuda_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void *open_first(const char *const *names) {
    void *library = NULL;
    for (; *names && !library; names++)
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library;
}

/* dlsym gives an object pointer where a function pointer is meant; POSIX promises that the bits are the same. */
static bool find_symbol(void *library, const char *name, void *pointer, const char **missing) {
    void *symbol = dlsym(library, name);
    memcpy(pointer, &symbol, sizeof symbol);
    if (!symbol && !*missing)
        *missing = name;
    return symbol != NULL;
}

gs_code gs_cuda_open(cu_api *api, gs_error *error) {
    static const char *const drivers[] = {"libcuda.so.1", "libcuda.so", NULL};
    static const char *const compilers[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                            "/usr/local/cuda/lib64/libnvrtc.so", NULL};
    const char *missing = NULL;
    *api = (cu_api){.driver = open_first(drivers)};
    if (!api->driver)
        return gs_fail(error, GS_E_NO_GPU, "no NVIDIA driver was found (libcuda.so.1)");
    api->compiler = open_first(compilers);
    if (!api->compiler) {
        gs_cuda_close(api);
        return gs_fail(error, GS_E_NO_GPU,
                       "NVIDIA's run-time compiler was not found (libnvrtc.so of CUDA 12 or later)");
    }
#define FIND_IN_DRIVER(name, symbol, arguments)   find_symbol(api->driver, #symbol, &api->name, &missing);
#define FIND_IN_COMPILER(name, symbol, arguments) find_symbol(api->compiler, #symbol, &api->name, &missing);
    CU_SYMBOLS(FIND_IN_DRIVER)
    NVRTC_SYMBOLS(FIND_IN_COMPILER)
    if (!missing)
        return GS_OK;
    gs_cuda_close(api);
    return gs_fail(error, GS_E_NO_GPU, "the NVIDIA driver or its run-time compiler is too old: it has no %s", missing);
}

void gs_cuda_close(cu_api *api) {
    if (api->compiler)
        dlclose(api->compiler);
    if (api->driver)
        dlclose(api->driver);
    *api = (cu_api){0};
}

gs_code gs_cuda_check(const cu_api *api, int code, const char *what, gs_error *error) {
    enum { TOO_MANY_RESOURCES = 701 };
    const char *words = NULL;
    if (code == 0)
        return GS_OK;
    api->error_string(code, &words);
    return gs_fail(error, code == TOO_MANY_RESOURCES ? GS_E_NO_FIT : GS_E_NO_GPU, "%s: %s (CUDA error %d)", what,
                   words ? words : "unknown", code);
}

/* ---- compiling ---- */

static gs_code compile_failed(const cu_api *api, nvrtc_program program, const char *what, gs_error *error) {
    size_t size = 0;
    char *log = NULL;
    if (api->log_size(program, &size) == 0 && size)
        log = calloc(1, size + 1);
    if (log)
        api->log_text(program, log);
    gs_fail(error, GS_E_NO_GPU, "%s does not compile: %.300s", what, log ? log : "no reason given");
    free(log);
    return GS_E_NO_GPU;
}

gs_code gs_cuda_compile(const cu_api *api, int architecture, const char *what, const char *file, const char *source,
                        char **image, gs_error *error) {
    char option[40];
    nvrtc_program program;
    size_t size = 0;
    *image = NULL;
    snprintf(option, sizeof option, "--gpu-architecture=sm_%d", architecture);
    const char *options[] = {option};
    if (api->program_new(&program, source, file, 0, NULL, NULL) != 0)
        return gs_fail_memory(error);
    gs_code code = GS_OK;
    if (api->compile(program, 1, options) != 0 || api->image_size(program, &size) != 0 || !size)
        code = compile_failed(api, program, what, error);
    else if (!(*image = malloc(size)) || api->image(program, *image) != 0)
        code = gs_fail_memory(error);
    api->program_free(&program);
    return code;
}
