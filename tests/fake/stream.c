/*
 * stream.c: streams of the fake driver, and what is put into them: events, copies, fills, words.
 *
 * Each stream has a clock that its work advances; events tell the time of that clock. As with the real driver, an
 * unsafe call while a stream captures, and a query of a stream that captures or a word put into it, end the capture
 * with an error.
 */
#include "fake.h"

#include <time.h>

CU_SYMBOLS(FAKE_CALL)

enum { DEFAULT_STREAM_ID = 7, FIRST_STREAM_ID = 13, CAPTURE_IS_INVALID = 2 };

/* ---- streams ---- */

static struct cu_stream default_stream = {.id = DEFAULT_STREAM_ID, .queue = &fake_default_queue};

cu_stream fake_stream(cu_stream stream) {
    return (uintptr_t)stream <= 2 ? &default_stream : stream;
}

int cuStreamCreateWithPriority(cu_stream *stream, unsigned flags, int priority) {
    const struct {
        cu_stream *stream;
        unsigned flags;
        int priority;
    } parameters = {stream, flags, priority};
    static _Atomic uint32_t next_id = FIRST_STREAM_ID;
    fake_telling telling;
    fake_tell(&telling, "cuStreamCreateWithPriority", &parameters);
    fake.objects++;
    *stream = calloc(1, sizeof **stream);
    (*stream)->id = next_id++;
    (*stream)->priority = priority;
    (*stream)->queue = fake_queue_new();
    return fake_told(&telling, FAKE_OK);
}

FAKE_VISIBLE cuStreamCreate(cu_stream *stream, unsigned flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

int cuStreamDestroy_v2(cu_stream stream) {
    const struct { cu_stream stream; } parameters = {stream};
    fake_telling telling;
    if (!stream)
        return FAKE_INVALID_VALUE;
    fake_tell(&telling, "cuStreamDestroy_v2", &parameters);
    fake_queue_free(stream->queue);
    if (fake.gpu)
        fake_gpu_forget(fake.gpu);
    fake.objects--;
    free(stream);
    return fake_told(&telling, FAKE_OK);
}

FAKE_VISIBLE cuStreamGetPriority(cu_stream stream, int *priority) {
    *priority = fake_stream(stream)->priority;
    return FAKE_OK;
}

FAKE_VISIBLE cuCtxGetStreamPriorityRange(int *least, int *highest) {
    *least = 0;
    *highest = -5;
    return FAKE_OK;
}

int cuStreamQuery(cu_stream stream) {
    cu_stream asked = fake_stream(stream);
    fake.queries++;
    if (asked->capture)
        asked->capture = CAPTURE_IS_INVALID;
    if (asked->capture || fake_unsafe())
        return FAKE_CAPTURE_UNSUPPORTED;
    if (fake_is_broken())
        return FAKE_ILLEGAL_ADDRESS;
    bool is_idle = fake_queue_is_idle(asked->queue) && (!fake.gpu || fake_gpu_is_idle(fake.gpu, asked));
    return is_idle ? FAKE_OK : FAKE_NOT_READY;
}

int cuStreamSynchronize(cu_stream stream) {
    fake_queue_wait(fake_stream(stream)->queue);
    return fake_is_broken() ? FAKE_ILLEGAL_ADDRESS : FAKE_OK;
}

FAKE_VISIBLE cuStreamSynchronize_ptsz(cu_stream stream) {
    return cuStreamSynchronize(stream);
}

int fake_add_step(cu_stream stream, const fake_step *step) {
    if (fake_is_broken())
        return FAKE_ILLEGAL_ADDRESS;
    fake_queue_add(fake_stream(stream)->queue, step, NULL);
    return FAKE_OK;
}

FAKE_VISIBLE cuLaunchHostFunc(cu_stream stream, void (*function)(void *), void *data) {
    return fake_add_step(stream, &(fake_step){.kind = FAKE_HOST, .function = function, .to = data});
}

/* The older form: a function of the stream, a result and the data. */
struct fake_callback {
    void (*function)(cu_stream, int, void *);
    cu_stream stream;
    void *data;
};

static void call_back(void *argument) {
    struct fake_callback callback = *(struct fake_callback *)argument;
    free(argument);
    callback.function(callback.stream, FAKE_OK, callback.data);
}

FAKE_VISIBLE cuStreamAddCallback(cu_stream stream, void (*function)(cu_stream, int, void *), void *data,
                                 unsigned flags) {
    struct fake_callback *callback = flags ? NULL : malloc(sizeof *callback);
    if (!callback)
        return FAKE_INVALID_VALUE;
    *callback = (struct fake_callback){function, stream, data};
    return fake_add_step(stream, &(fake_step){.kind = FAKE_HOST, .function = call_back, .to = callback});
}

/* ---- words ---- */

FAKE_VISIBLE cuStreamWaitValue32_v2(cu_stream stream, cu_pointer address, unsigned value, unsigned flags) {
    enum { EQUAL = 1 };
    cu_stream asked = fake_stream(stream);
    if (fake_has("no-waits"))
        return FAKE_NOT_SUPPORTED;
    if (asked->capture) {
        asked->capture = CAPTURE_IS_INVALID;
        return FAKE_CAPTURE_UNSUPPORTED;
    }
    if (flags != EQUAL)
        return FAKE_INVALID_VALUE;
    fake.waits++;
    return fake_add_step(asked, &(fake_step){.kind = FAKE_WAIT, .to = (void *)(uintptr_t)address, .value = value});
}

int cuStreamWriteValue32_v2(cu_stream stream, cu_pointer address, unsigned value, unsigned flags) {
    cu_stream asked = fake_stream(stream);
    if (asked->capture)
        return FAKE_CAPTURE_UNSUPPORTED;
    if (flags)
        return FAKE_INVALID_VALUE;
    fake.writes++;
    return fake_add_step(asked, &(fake_step){.kind = FAKE_WRITE, .to = (void *)(uintptr_t)address, .value = value});
}

/* CUstreamBatchMemOpParams: waits for 32 bits and writes of them. */
struct batch_operation {
    int kind;
    uint64_t address, value;
    unsigned flags;
    uint64_t unused[2];
};

FAKE_VISIBLE cuStreamBatchMemOp_v2(cu_stream stream, unsigned count, const struct batch_operation *operations,
                                   unsigned flags) {
    enum { WAIT = 1, WRITE = 2 };
    int code = flags ? FAKE_INVALID_VALUE : FAKE_OK;
    for (unsigned i = 0; i < count && code == FAKE_OK; i++) {
        const struct batch_operation *operation = &operations[i];
        unsigned value = (unsigned)operation->value;
        code = operation->kind == WAIT    ? cuStreamWaitValue32_v2(stream, operation->address, value, operation->flags)
               : operation->kind == WRITE ? cuStreamWriteValue32_v2(stream, operation->address, value, operation->flags)
                                          : FAKE_INVALID_VALUE;
    }
    return code;
}

/* ---- copies and fills ---- */

/* Work that is reported to CUPTI. It becomes a node while the stream captures. */
static int do_step(fake_telling *telling, cu_stream stream, const fake_node *node, const fake_step *step) {
    cu_stream asked = fake_stream(stream);
    if (++fake.attempted % 5 == 0 && fake_has("refuses"))
        return fake_told(telling, FAKE_OUT_OF_RESOURCES);
    if (asked->captured)
        return fake_told(telling, fake_capture(asked, node));
    fake_tell_work(node, asked->id, telling->call.correlation, 0);
    return fake_told(telling, fake_add_step(asked, step));
}

int cuMemsetD8Async(cu_pointer pointer, unsigned char value, size_t bytes, cu_stream stream) {
    const struct {
        cu_pointer to;
        unsigned char value;
        size_t bytes;
        cu_stream stream;
    } parameters = {pointer, value, bytes, stream};
    const fake_node node = {.type = FAKE_NODE_SET, .bytes = bytes};
    const fake_step step = {.kind = FAKE_SET, .to = (void *)(uintptr_t)pointer, .value = value, .bytes = bytes};
    fake_telling telling;
    fake_tell(&telling, "cuMemsetD8Async", &parameters);
    return do_step(&telling, stream, &node, &step);
}

FAKE_VISIBLE cuMemsetD32Async(cu_pointer pointer, unsigned value, size_t count, cu_stream stream) {
    return fake_add_step(
        fake_stream(stream),
        &(fake_step){.kind = FAKE_SET_WORDS, .to = (void *)(uintptr_t)pointer, .value = value, .bytes = count * 4});
}

int cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t bytes, cu_stream stream) {
    enum { TO_DEVICE = 1 };
    const struct {
        cu_pointer to;
        const void *from;
        size_t bytes;
        cu_stream stream;
    } parameters = {to, from, bytes, stream};
    const fake_node node = {.type = FAKE_NODE_COPY, .bytes = bytes, .copy_kind = TO_DEVICE};
    const fake_step step = {.kind = FAKE_COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes};
    fake_telling telling;
    fake_tell(&telling, "cuMemcpyHtoDAsync_v2", &parameters);
    return do_step(&telling, stream, &node, &step);
}

int cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t bytes, cu_stream stream) {
    return fake_add_step(
        stream, &(fake_step){.kind = FAKE_COPY, .to = to, .from = (const void *)(uintptr_t)from, .bytes = bytes});
}

int cuMemcpyDtoDAsync_v2(cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream) {
    return fake_add_step(stream, &(fake_step){.kind = FAKE_COPY,
                                              .to = (void *)(uintptr_t)to,
                                              .from = (const void *)(uintptr_t)from,
                                              .bytes = bytes});
}

/* Seen by a library in front alone. */
FAKE_VISIBLE cuMemcpyHtoD_v2(cu_pointer to, const void *from, size_t bytes) {
    memcpy((void *)(uintptr_t)to, from, bytes);
    return FAKE_OK;
}

int cuMemcpyDtoH_v2(void *to, cu_pointer from, size_t bytes) {
    enum { TO_HOST = 2 };
    const struct {
        void *to;
        cu_pointer from;
        size_t bytes;
    } parameters = {to, from, bytes};
    const fake_node node = {.type = FAKE_NODE_COPY, .bytes = bytes, .copy_kind = TO_HOST};
    fake_telling telling;
    fake_tell(&telling, "cuMemcpyDtoH_v2", &parameters);
    if (++fake.attempted % 5 == 0 && fake_has("refuses"))
        return fake_told(&telling, FAKE_OUT_OF_RESOURCES);
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    fake_tell_work(&node, default_stream.id, telling.call.correlation, 0);
    return fake_told(&telling, FAKE_OK);
}

/* ---- events ---- */

int cuEventCreate(cu_event *event, unsigned flags) {
    (void)flags;
    fake.objects++;
    *event = calloc(1, sizeof **event);
    return FAKE_OK;
}

static bool is_recorded(cu_event event) {
    return atomic_load(&event->done) >= atomic_load(&event->asked);
}

FAKE_VISIBLE cuEventSynchronize(cu_event event) {
    while (!is_recorded(event) && !fake_is_broken())
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return FAKE_OK;
}

int cuEventDestroy_v2(cu_event event) {
    const struct { cu_event event; } parameters = {event};
    fake_telling telling;
    fake_tell(&telling, "cuEventDestroy_v2", &parameters);
    cuEventSynchronize(event);
    while (atomic_load(&event->waiting) && !fake_is_broken())
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    fake.objects--;
    free(event);
    return fake_told(&telling, FAKE_OK);
}

int cuEventRecord(cu_event event, cu_stream stream) {
    const struct {
        cu_event event;
        cu_stream stream;
    } parameters = {event, stream};
    cu_stream asked = fake_stream(stream);
    fake_telling telling;
    fake_tell(&telling, "cuEventRecord", &parameters);
    event->captured = asked->captured;
    event->front = asked->front;
    if (asked->captured)
        return fake_told(&telling, FAKE_OK);
    uint64_t number = atomic_fetch_add(&event->asked, 1) + 1;
    return fake_told(&telling,
                     fake_add_step(asked, &(fake_step){.kind = FAKE_RECORD, .event = event, .number = number}));
}

FAKE_VISIBLE cuEventQuery(cu_event event) {
    enum { ILLEGAL_ADDRESS = 700 };
    fake.queries++;
    if (fake_unsafe())
        return FAKE_CAPTURE_UNSUPPORTED;
    if (fake_has("failed"))
        return ILLEGAL_ADDRESS;
    return is_recorded(event) ? FAKE_OK : FAKE_NOT_READY;
}

int cuEventElapsedTime(float *elapsed_ms, cu_event began, cu_event ended) {
    *elapsed_ms = (float)(ended->at_ns - began->at_ns) / 1e6f;
    return FAKE_OK;
}

/* Outside of a capture the stream waits for the last record. */
FAKE_VISIBLE cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags) {
    const struct {
        cu_stream stream;
        cu_event event;
        unsigned flags;
    } parameters = {stream, event, flags};
    cu_stream asked = fake_stream(stream);
    fake_telling telling;
    fake_tell(&telling, "cuStreamWaitEvent", &parameters);
    if (event->captured) {
        if (!asked->captured)
            asked->front.count = 0;
        asked->captured = event->captured;
        for (size_t i = 0; i < event->front.count; i++)
            asked->front.last[asked->front.count++] = event->front.last[i];
    } else if (!asked->captured && !is_recorded(event)) {
        atomic_fetch_add(&event->waiting, 1);
        const fake_step step = {.kind = FAKE_WAIT_EVENT, .event = event, .number = atomic_load(&event->asked)};
        return fake_told(&telling, fake_add_step(asked, &step));
    }
    return fake_told(&telling, FAKE_OK);
}
