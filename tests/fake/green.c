/*
 * green.c: green contexts of the fake driver: parts of the GPU.
 *
 * Kernels run on the CPU in any context, so a part is only a name. A split returns CUdevResource structs of the driver;
 * these functions know only where the number of SMs is.
 */
#include "fake.h"

enum { INVALID_RESOURCE = 914, RESOURCE_BYTES = 144, SMS_AT = 96, DEVICE_SMS = 16 };

static unsigned part_sms; /* of the last split */

/* The types of the parameters are those of src/kernels/cuda/green.c: UndefinedBehaviorSanitizer compares them. */
struct resource;

int cuDeviceGetAttribute(int *value, int number, int device);
int cuDevicePrimaryCtxRetain(cu_context *context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuStreamCreateWithPriority(cu_stream *stream, unsigned flags, int priority);

FAKE_VISIBLE cuDeviceGetDevResource(int device, struct resource *resource, int type) {
    int sms = 0;
    cuDeviceGetAttribute(&sms, DEVICE_SMS, device);
    memcpy((unsigned char *)resource + SMS_AT, &sms, sizeof sms);
    return type == 1 ? 0 : INVALID_RESOURCE;
}

/* The first byte of a part is its number. */
FAKE_VISIBLE cuDevSmResourceSplitByCount(struct resource *parts, unsigned *count, const struct resource *from,
                                         struct resource *rest, unsigned flags, unsigned sms) {
    unsigned all;
    (void)rest;
    memcpy(&all, (const unsigned char *)from + SMS_AT, sizeof all);
    if (flags || !sms || sms > all)
        return INVALID_RESOURCE;
    part_sms = sms;
    *count = (unsigned)gs_min(*count, all / sms);
    for (unsigned i = 0; i < *count; i++)
        ((unsigned char *)parts)[i * RESOURCE_BYTES] = (unsigned char)(i + 1);
    return 0;
}

FAKE_VISIBLE cuDevResourceGenerateDesc(void **description, struct resource *resource, unsigned count) {
    *description = (void *)(uintptr_t) * (const unsigned char *)resource;
    return count == 1 ? 0 : INVALID_RESOURCE;
}

FAKE_VISIBLE cuGreenCtxCreate(void **made, void *description, int device, unsigned flags) {
    cu_context context;
    int failed = cuDevicePrimaryCtxRetain(&context, device);
    *made = (char *)(void *)context + (uintptr_t)description;
    cuDevicePrimaryCtxRelease_v2(device);
    return flags == 1 ? failed : INVALID_RESOURCE;
}

FAKE_VISIBLE cuCtxFromGreenCtx(cu_context *context, void *made) {
    *context = made;
    return 0;
}

FAKE_VISIBLE cuGreenCtxStreamCreate(cu_stream *stream, void *made, unsigned flags, int priority) {
    int failed = made ? cuStreamCreateWithPriority(stream, flags, priority) : INVALID_RESOURCE;
    if (!failed)
        (*stream)->green = made;
    return failed;
}

FAKE_VISIBLE cuStreamGetGreenCtx(cu_stream stream, void **made) {
    *made = stream->green;
    return 0;
}

FAKE_VISIBLE cuGreenCtxGetDevResource(void *made, struct resource *resource, int type) {
    memcpy((unsigned char *)resource + SMS_AT, &part_sms, sizeof part_sms);
    return made && type == 1 ? 0 : INVALID_RESOURCE;
}
