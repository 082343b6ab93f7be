/*
 * gate_part.c: long kernels of a best-effort program on a part of the SMs, so that a request that comes meanwhile finds
 * SMs for its own.
 *
 * A kernel that is launched on a stream of a green context runs on the SMs of that context, whatever context it was
 * loaded in. So each stream of the program that has long kernels gets a second one beside it, and a long kernel goes
 * there, behind an event of its own stream; what follows in its own stream waits for an event behind the kernel.
 */
#include "gate.h"

#include <pthread.h>
#include <string.h>

struct resource { /* CUdevResource */
    int type;
    unsigned char padding[92];
    union {
        unsigned sms;
        unsigned char bytes[48];
    } value;
};

enum { RESOURCE_SMS = 1, GREEN_DEFAULT_STREAM = 1, STREAM_NON_BLOCKING = 1, EVENT_NO_TIMING = 2, PARTS = 32 };

struct gs_gate_part {
    void *stream;  /* the program's */
    void *green;   /* the one beside it */
    void *entered; /* events: before the kernel, */
    void *left;    /* and after it */
};

static struct parts {
    pthread_mutex_t lock;
    void *context; /* the green one */
    bool is_broken;
    struct gs_gate_part parts[PARTS];
    size_t count;
} parts = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the green context ---- */

/* The first `sms` SMs, rounded up to what the driver can set aside. */
static int take_sms(int device, unsigned sms, struct resource *part) {
    struct resource all = {0}, rest = {0};
    unsigned count = 1;
    int code = gs_gate_real.cuDeviceGetDevResource(device, &all, RESOURCE_SMS);
    if (code == GS_CUDA_OK && sms >= all.value.sms)
        return GS_CUDA_NOT_FOUND; /* nothing would be left */
    return code ? code : gs_gate_real.cuDevSmResourceSplitByCount(part, &count, &all, &rest, 0, sms);
}

static int make_context(unsigned sms) {
    struct resource part = {0};
    void *description = NULL;
    int device = 0, code = gs_gate_real.cuCtxGetDevice(&device);
    if (code == GS_CUDA_OK)
        code = take_sms(device, sms, &part);
    if (code == GS_CUDA_OK)
        code = gs_gate_real.cuDevResourceGenerateDesc(&description, &part, 1);
    if (code == GS_CUDA_OK)
        code = gs_gate_real.cuGreenCtxCreate(&parts.context, description, device, GREEN_DEFAULT_STREAM);
    return code;
}

static bool open_parts(void) {
    if (parts.context || parts.is_broken)
        return parts.context;
    bool has_calls = gs_gate_real.cuDeviceGetDevResource && gs_gate_real.cuDevSmResourceSplitByCount &&
                     gs_gate_real.cuDevResourceGenerateDesc && gs_gate_real.cuGreenCtxCreate &&
                     gs_gate_real.cuGreenCtxStreamCreate && gs_gate_real.cuCtxGetDevice;
    int code = has_calls ? make_context(gs_gate_state.part_sms) : GS_CUDA_NOT_FOUND;
    parts.is_broken = code != GS_CUDA_OK;
    if (parts.is_broken)
        gs_gate_say("no part of the SMs can be set aside (CUDA error %d): long kernels run on all", code);
    return parts.context;
}

/* ---- streams ---- */

/* Under the lock. NULL: there is none, and none can be made. */
static struct gs_gate_part *part_of(void *stream) {
    for (size_t i = 0; i < parts.count; i++)
        if (parts.parts[i].stream == stream)
            return &parts.parts[i];
    if (parts.count == PARTS || !open_parts())
        return NULL;
    struct gs_gate_part *part = &parts.parts[parts.count];
    *part = (struct gs_gate_part){.stream = stream};
    int code = gs_gate_real.cuGreenCtxStreamCreate(&part->green, parts.context, STREAM_NON_BLOCKING, 0);
    if (code == GS_CUDA_OK)
        code = gs_gate_real.cuEventCreate(&part->entered, EVENT_NO_TIMING);
    if (code == GS_CUDA_OK)
        code = gs_gate_real.cuEventCreate(&part->left, EVENT_NO_TIMING);
    parts.is_broken = code != GS_CUDA_OK;
    if (parts.is_broken)
        return NULL;
    parts.count++;
    return part;
}

gs_gate_part *gs_gate_part_enter(void *stream) {
    pthread_mutex_lock(&parts.lock);
    struct gs_gate_part *part = parts.is_broken ? NULL : part_of(stream);
    if (part && (gs_gate_real.cuEventRecord(part->entered, stream) != GS_CUDA_OK ||
                 gs_gate_real.cuStreamWaitEvent(part->green, part->entered, 0) != GS_CUDA_OK))
        part = NULL;
    if (!part)
        pthread_mutex_unlock(&parts.lock); /* else it is held until the kernel is launched: the events are its own */
    return part;
}

void *gs_gate_part_stream(const gs_gate_part *part) {
    return part->green;
}

void gs_gate_part_leave(gs_gate_part *part) {
    if (gs_gate_real.cuEventRecord(part->left, part->green) == GS_CUDA_OK)
        gs_gate_real.cuStreamWaitEvent(part->stream, part->left, 0);
    pthread_mutex_unlock(&parts.lock);
}
