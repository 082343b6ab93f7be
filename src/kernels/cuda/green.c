/*
 * green.c: green contexts, which have a part of the GPU's SMs that the driver sets aside.
 *
 * The calls are newer than the others (CUDA 12.5), so they are looked up only when a part of a GPU is requested. The
 * driver rounds the number of SMs up to what it can set aside, on an H200 to multiples of 8.
 */
#include "driver.h"

/* The driver's CUdevResource. */
struct resource {
    int type;
    unsigned char padding[92];
    union {
        unsigned sms;
        unsigned char bytes[48];
    } value;
};

enum { RESOURCE_SMS = 1, GREEN_DEFAULT_STREAM = 1, MOST_PARTS = 64 };

#define GREEN_SYMBOLS(X)                                                                                               \
    X(resource_of, cuDeviceGetDevResource, (int, struct resource *, int))                                              \
    X(split, cuDevSmResourceSplitByCount,                                                                              \
      (struct resource *, unsigned *, const struct resource *, struct resource *, unsigned, unsigned))                 \
    X(describe, cuDevResourceGenerateDesc, (void **, struct resource *, unsigned))                                     \
    X(create, cuGreenCtxCreate, (void **, void *, int, unsigned))                                                      \
    X(context_of, cuCtxFromGreenCtx, (cu_context *, void *))                                                           \
    X(stream_new, cuGreenCtxStreamCreate, (cu_stream *, void *, unsigned, int))

struct green_api {
    GREEN_SYMBOLS(CU_POINTER)
};

#define FIND(name, symbol, arguments) gs_cuda_find(api->driver, #symbol, &green->name, &missing);

static gs_code open_calls(const cu_api *api, struct green_api *green, gs_error *error) {
    const char *missing = NULL;
    GREEN_SYMBOLS(FIND)
    return missing ? gs_fail(error, GS_E_NO_GPU, "this driver cannot set SMs aside: green contexts need CUDA 12.5")
                   : GS_OK;
}

/* Asks for `*count` parts of the GPU; `*count` becomes how many there are. `rest` has the other SMs. */
static int split(const struct green_api *green, int device, int32_t sms, struct resource *parts, unsigned *count,
                 struct resource *rest) {
    struct resource all = {0};
    int failed = green->resource_of(device, &all, RESOURCE_SMS);
    return failed ? failed : green->split(parts, count, &all, rest, 0, (unsigned)sms);
}

static int make(const struct green_api *green, int device, struct resource *part, void **made) {
    void *description = NULL;
    int failed = green->describe(&description, part, 1);
    return failed ? failed : green->create(made, description, device, GREEN_DEFAULT_STREAM);
}

gs_code gs_cuda_green(const cu_api *api, int device, int32_t sms, int32_t part, cu_context *context, gs_error *error) {
    struct green_api green = {0};
    struct resource parts[MOST_PARTS] = {{0}}, rest = {0};
    unsigned count = (unsigned)part + 1;
    void *made = NULL;
    gs_code code = open_calls(api, &green, error);
    if (code != GS_OK)
        return code;
    if (part < 0 || part >= MOST_PARTS)
        return gs_fail(error, GS_E_USAGE, "a GPU has parts 0 to %d", MOST_PARTS - 1);
    int failed = split(&green, device, sms, parts, &count, &rest);
    if (!failed && count <= (unsigned)part)
        return gs_fail(error, GS_E_NO_GPU, "this GPU has no part %d of %d SMs: there are %u", part, sms, count);
    if (!failed)
        failed = make(&green, device, &parts[part], &made);
    if (!failed)
        failed = green.context_of(context, made);
    return gs_cuda_check(api, failed, "setting SMs aside", error);
}

gs_code gs_cuda_green_all(const cu_api *api, int device, int32_t sms, int32_t wanted, void **made, int32_t *count,
                          gs_error *error) {
    struct green_api green = {0};
    struct resource parts[MOST_PARTS] = {{0}}, rest = {0};
    unsigned found = (unsigned)wanted;
    gs_code code = open_calls(api, &green, error);
    if (code != GS_OK)
        return code;
    int failed = split(&green, device, sms, parts, &found, &rest);
    *count = failed ? 0 : (int32_t)found;
    for (int32_t i = 0; i < *count && !failed; i++)
        failed = make(&green, device, &parts[i], &made[i]);
    return gs_cuda_check(api, failed, "making green contexts", error);
}

gs_code gs_cuda_green_stream(const cu_api *api, void *context, cu_stream *stream, gs_error *error) {
    struct green_api green = {0};
    gs_code code = open_calls(api, &green, error);
    if (code != GS_OK)
        return code;
    return gs_cuda_check(api, green.stream_new(stream, context, CU_STREAM_NON_BLOCKING, 0), "making a stream", error);
}

static int make_stream(const struct green_api *green, int device, struct resource *part, cu_stream *stream) {
    void *made = NULL;
    int failed = make(green, device, part, &made);
    return failed ? failed : green->stream_new(stream, made, CU_STREAM_NON_BLOCKING, 0);
}

gs_code gs_cuda_green_two(const cu_api *api, int device, int32_t sms, cu_stream *first, cu_stream *others,
                          gs_error *error) {
    struct green_api green = {0};
    struct resource part = {0}, rest = {0};
    unsigned count = 1;
    gs_code code = open_calls(api, &green, error);
    if (code != GS_OK)
        return code;
    int failed = split(&green, device, sms, &part, &count, &rest);
    failed = failed ? failed : make_stream(&green, device, &part, first);
    failed = failed ? failed : make_stream(&green, device, &rest, others);
    return gs_cuda_check(api, failed, "making parts of the GPU", error);
}
