/*
 * green.c: green contexts, which have a part of the GPU's SMs that the driver sets aside.
 *
 * The calls are newer than the others (CUDA 12.4), so they are looked up only when a part of a GPU is requested. The
 * driver rounds the number of SMs up to what it can set aside, on an H200 to multiples of 8.
 */
#include "driver.h"

#include <dlfcn.h>
#include <string.h>

/* The driver's CUdevResource. */
struct resource {
    int type;
    unsigned char padding[92];
    union {
        unsigned sms;
        unsigned char bytes[48];
    } value;
};

enum { RESOURCE_SMS = 1, GREEN_DEFAULT_STREAM = 1 };

struct green_api {
    int (*resource_of)(int, struct resource *, int);
    int (*split)(struct resource *, unsigned *, const struct resource *, struct resource *, unsigned, unsigned);
    int (*describe)(void **, struct resource *, unsigned);
    int (*create)(void **, void *, int, unsigned);
    int (*context_of)(cu_context *, void *);
};

static bool find(void *driver, const char *name, void *pointer) {
    void *symbol = dlsym(driver, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(void *driver, struct green_api *green) {
    return find(driver, "cuDeviceGetDevResource", &green->resource_of) &&
           find(driver, "cuDevSmResourceSplitByCount", &green->split) &&
           find(driver, "cuDevResourceGenerateDesc", &green->describe) &&
           find(driver, "cuGreenCtxCreate", &green->create) && find(driver, "cuCtxFromGreenCtx", &green->context_of);
}

gs_code gs_cuda_green(const cu_api *api, int device, int32_t sms, int32_t part, cu_context *context, gs_error *error) {
    struct green_api green;
    struct resource all = {0}, parts[64] = {{0}}, rest = {0};
    unsigned count = (unsigned)part + 1;
    void *description = NULL, *made = NULL;
    if (!find_all(api->driver, &green))
        return gs_fail(error, GS_E_NO_GPU, "this driver cannot set SMs aside: green contexts need CUDA 12.4");
    if (part < 0 || count > GS_COUNT(parts))
        return gs_fail(error, GS_E_USAGE, "a GPU has parts 0 to %zu", GS_COUNT(parts) - 1);
    int failed = green.resource_of(device, &all, RESOURCE_SMS);
    if (!failed)
        failed = green.split(parts, &count, &all, &rest, 0, (unsigned)sms);
    if (!failed && count <= (unsigned)part)
        return gs_fail(error, GS_E_NO_GPU, "this GPU has no part %d of %d SMs: there are %u", part, sms, count);
    if (!failed)
        failed = green.describe(&description, &parts[part], 1);
    if (!failed)
        failed = green.create(&made, description, device, GREEN_DEFAULT_STREAM);
    if (!failed)
        failed = green.context_of(context, made);
    return gs_cuda_check(api, failed, "setting SMs aside", error);
}
