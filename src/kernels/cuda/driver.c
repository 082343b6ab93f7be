/*
 * driver.c: opening the CUDA driver and NVRTC at run time. See driver.h.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

static void *open_first(const char *const *names, int flags) {
    void *library = NULL;
    for (; *names && !library; names++)
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | flags);
    return library;
}

/* dlsym returns a pointer to an object; POSIX guarantees that it can be used as a pointer to a function. */
bool gs_cuda_find(void *library, const char *name, void *pointer, const char **missing) {
    void *symbol = dlsym(library, name);
    memcpy(pointer, &symbol, sizeof symbol);
    if (!symbol && !*missing)
        *missing = name;
    return symbol != NULL;
}

static gs_code fail_missing(void **library, const char *missing, gs_error *error) {
    dlclose(*library);
    *library = NULL;
    return gs_fail(error, GS_E_NO_GPU, "the NVIDIA driver or its run-time compiler is too old: it has no %s", missing);
}

#define FIND_IN_DRIVER(name, symbol, arguments)   gs_cuda_find(api->driver, #symbol, &api->name, &missing);
#define FIND_IN_COMPILER(name, symbol, arguments) gs_cuda_find(api->compiler, #symbol, &api->name, &missing);

gs_code gs_nvrtc_add(cu_api *api, gs_error *error) {
    static const char *const compilers[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                            "/usr/local/cuda/lib64/libnvrtc.so", NULL};
    const char *missing = NULL;
    if (api->compiler)
        return GS_OK;
    api->compiler = open_first(compilers, RTLD_NODELETE); /* it would leak memory each time it is unloaded */
    if (!api->compiler)
        return gs_fail(error, GS_E_NO_GPU,
                       "NVIDIA's run-time compiler was not found (libnvrtc.so of CUDA 12 or later)");
    NVRTC_SYMBOLS(FIND_IN_COMPILER)
    return missing ? fail_missing(&api->compiler, missing, error) : GS_OK;
}

gs_code gs_nvrtc_open(cu_api *api, gs_error *error) {
    *api = (cu_api){0};
    return gs_nvrtc_add(api, error);
}

void gs_nvrtc_path(const cu_api *api, char *path, size_t size) {
    struct link_map *map = NULL;
    bool is_known = dlinfo(api->compiler, RTLD_DI_LINKMAP, &map) == 0 && map;
    snprintf(path, size, "%s", is_known ? map->l_name : "");
}

gs_code gs_cuda_open(cu_api *api, gs_error *error) {
    static const char *const drivers[] = {"libcuda.so.1", "libcuda.so", NULL};
    const char *missing = NULL;
    *api = (cu_api){.driver = open_first(drivers, 0)};
    if (!api->driver)
        return gs_fail(error, GS_E_NO_GPU, "no NVIDIA driver was found (libcuda.so.1)");
    CU_SYMBOLS(FIND_IN_DRIVER)
    return missing ? fail_missing(&api->driver, missing, error) : GS_OK;
}

void gs_cuda_close(cu_api *api) {
    if (api->compiler)
        dlclose(api->compiler);
    if (api->driver)
        dlclose(api->driver);
    *api = (cu_api){0};
}

gs_code gs_cuda_check(const cu_api *api, int code, const char *what, gs_error *error) {
    const char *message = NULL;
    if (code == 0)
        return GS_OK;
    api->error_string(code, &message);
    return gs_fail(error,
                   code == CU_ERROR_TOO_MANY_RESOURCES || code == CU_ERROR_COOPERATIVE_TOO_LARGE ? GS_E_NO_FIT
                                                                                                 : GS_E_NO_GPU,
                   "%s: %s (CUDA error %d)", what, message ? message : "unknown", code);
}

/* The call is newer than the others, so it is looked up only when it is needed. */
gs_code gs_cuda_parameters(const cu_api *api, cu_function function, uint32_t most, uint32_t *sizes, uint32_t *count,
                           gs_error *error) {
    int (*get_info)(cu_function, size_t, size_t *, size_t *) = NULL;
    const char *missing = NULL;
    size_t at, bytes;
    if (!gs_cuda_find(api->driver, "cuFuncGetParamInfo", &get_info, &missing))
        return gs_fail(error, GS_E_NO_GPU, "the NVIDIA driver is too old for this: it has no %s", missing);
    for (*count = 0; get_info(function, *count, &at, &bytes) == 0; ++*count) {
        if (*count == most)
            return gs_fail(error, GS_E_KERNEL, "a kernel has more than %u parameters", most);
        sizes[*count] = (uint32_t)bytes;
    }
    return GS_OK;
}

const char *gs_cuda_toolkit(void) {
    static const char *const roots[] = {"CUDA_PATH", "CUDA_HOME"};
    const char *root = "/usr/local/cuda";
    for (size_t i = 0; i < GS_COUNT(roots); i++)
        root = getenv(roots[i]) && getenv(roots[i])[0] ? getenv(roots[i]) : root;
    return root;
}

/* ---- which GPU it is ---- */

/* "GPU-" and the 16 bytes in hexadecimal, in groups of 4, 2, 2, 2 and 6 bytes. */
static void put_uuid(const unsigned char bytes[16], char *text, size_t size) {
    size_t at = (size_t)snprintf(text, size, "GPU");
    for (size_t i = 0; i < 16; i++) {
        bool begins_group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        at += (size_t)snprintf(text + at, size - at, "%s%02x", begins_group ? "-" : "", (unsigned)bytes[i]);
    }
}

void gs_cuda_name_gpu(const cu_api *api, int device, char *uuid, size_t uuid_size, char *driver, size_t driver_size) {
    unsigned char bytes[16];
    int version = 0;
    if (api->device_uuid(bytes, device) == 0)
        put_uuid(bytes, uuid, uuid_size);
    if (api->driver_version(&version) == 0)
        snprintf(driver, driver_size, "CUDA %d.%d", version / 1000, version % 1000 / 10);
}
