/*
 * gated_driver.c: a libcuda.so.1 for the tests of `gridsmith run`, without a GPU.
 *
 * Each stream has a thread that executes its operations in order. A kernel takes the time that its name says
 * ("kernel_500" takes 500 us) and does nothing; events tell that time, however busy the machine is. As with the real
 * driver, a query while a stream captures, and a wait put into a stream that captures, end the capture with an error.
 * What starts with `gated` is for the tests: counts of what the driver was asked to do.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALL __attribute__((visibility("default"))) int

typedef unsigned long long pointer;

enum {
    OK,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NOT_FOUND = 500,
    NOT_READY = 600,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901
};

enum kind { KERNEL, WAIT, WRITE, RECORD, AWAIT };

struct function {
    uint64_t us;
    char name[40];
};

struct event {
    _Atomic uint64_t asked, done; /* records */
    uint64_t at_ns;
};

struct operation {
    enum kind kind;
    uint64_t us;
    _Atomic uint32_t *word;
    uint32_t value;
    struct event *event;
    uint64_t number; /* of the record */
    struct operation *next;
};

struct stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct operation *first, **last;
    bool has_thread, is_green;
    uint64_t clock_ns; /* how long its kernels took, as if the machine were never busy */
    int priority;
    int capture; /* 0: none; 1: it captures; 2: the capture is invalid */
    uint64_t captured_us, captured;
};

struct graph {
    uint64_t us, nodes;
};

static struct stream default_stream = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .last = &default_stream.first};
static struct stream *captures[16];
static _Atomic bool is_started;
static _Atomic uint64_t waits, launches, queries, allocated, green_launches, writes;
static _Thread_local void *current;

static struct stream *stream_of(void *stream) {
    return (uintptr_t)stream <= 2 ? &default_stream : stream;
}

static void sleep_us(uint64_t us) {
    struct timespec time = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&time, NULL);
}

/* ---- streams ---- */

static void execute(struct stream *stream, const struct operation *operation) {
    switch (operation->kind) {
    case KERNEL:
        sleep_us(operation->us);
        stream->clock_ns += operation->us * 1000;
        break;
    case WAIT:
        while (atomic_load(operation->word) != operation->value)
            sleep_us(20);
        break;
    case WRITE:
        atomic_store(operation->word, operation->value);
        break;
    case AWAIT:
        while (atomic_load(&operation->event->done) < operation->number)
            sleep_us(20);
        stream->clock_ns = stream->clock_ns > operation->event->at_ns ? stream->clock_ns : operation->event->at_ns;
        break;
    case RECORD:
        operation->event->at_ns = stream->clock_ns;
        atomic_store(&operation->event->done, operation->number);
        break;
    }
}

static void *work(void *argument) {
    struct stream *stream = argument;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        struct operation *operation = stream->first;
        if (!operation) {
            pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        pthread_mutex_unlock(&stream->lock);
        execute(stream, operation);
        pthread_mutex_lock(&stream->lock);
        stream->first = operation->next;
        if (!stream->first)
            stream->last = &stream->first;
        free(operation);
        pthread_cond_broadcast(&stream->changed);
    }
    return NULL;
}

static int add(struct stream *stream, const struct operation *wanted) {
    struct operation *operation = malloc(sizeof *operation);
    *operation = *wanted;
    operation->next = NULL;
    pthread_mutex_lock(&stream->lock);
    if (!stream->has_thread) {
        pthread_t thread;
        stream->has_thread = pthread_create(&thread, NULL, work, stream) == 0;
        pthread_detach(thread);
    }
    *stream->last = operation;
    stream->last = &operation->next;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return OK;
}

static void drain(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    while (stream->first)
        pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
}

/* What is not allowed while a stream captures makes all captures invalid. */
static void invalidate_captures(void) {
    for (size_t i = 0; i < sizeof captures / sizeof *captures; i++)
        if (captures[i])
            captures[i]->capture = 2;
}

CALL cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    struct stream *made = calloc(1, sizeof *made);
    (void)flags;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    made->last = &made->first;
    made->priority = priority;
    *stream = made;
    return OK;
}

CALL cuStreamCreate(void **stream, unsigned flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

CALL cuStreamGetPriority(void *stream, int *priority) {
    *priority = stream_of(stream)->priority;
    return OK;
}

CALL cuCtxGetStreamPriorityRange(int *least, int *highest) {
    *least = 0;
    *highest = -5;
    return OK;
}

CALL cuStreamSynchronize(void *stream) {
    drain(stream_of(stream));
    return OK;
}

CALL cuStreamSynchronize_ptsz(void *stream) {
    return cuStreamSynchronize(stream);
}

CALL cuStreamQuery(void *stream) {
    struct stream *asked = stream_of(stream);
    atomic_fetch_add(&queries, 1);
    invalidate_captures();
    pthread_mutex_lock(&asked->lock);
    int result = asked->first ? NOT_READY : OK;
    pthread_mutex_unlock(&asked->lock);
    return result;
}

CALL cuCtxSynchronize(void) {
    drain(&default_stream);
    return OK;
}

CALL cuStreamWaitValue32_v2(void *stream, pointer address, unsigned value, unsigned flags) {
    struct stream *asked = stream_of(stream);
    if (getenv("GATED_NO_WAITS"))
        return 801;
    if (asked->capture || flags != 1) {
        asked->capture = asked->capture ? 2 : 0;
        return CAPTURE_UNSUPPORTED;
    }
    atomic_fetch_add(&waits, 1);
    return add(asked, &(struct operation){.kind = WAIT, .word = (void *)(uintptr_t)address, .value = value});
}

CALL cuStreamWriteValue32_v2(void *stream, pointer address, unsigned value, unsigned flags) {
    struct stream *asked = stream_of(stream);
    if (asked->capture || flags)
        return CAPTURE_UNSUPPORTED;
    atomic_fetch_add(&writes, 1);
    return add(asked, &(struct operation){.kind = WRITE, .word = (void *)(uintptr_t)address, .value = value});
}

/* Nobody waits for it; its memory stays, because its thread may still work. */
CALL cuStreamDestroy_v2(void *stream) {
    return stream ? OK : INVALID_VALUE;
}

/* ---- events ---- */

CALL cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof(struct event));
    return OK;
}

CALL cuEventRecord(void *event, void *stream) {
    struct event *recorded = event;
    uint64_t number = atomic_fetch_add(&recorded->asked, 1) + 1;
    if (stream_of(stream)->capture)
        return OK;
    return add(stream_of(stream), &(struct operation){.kind = RECORD, .event = recorded, .number = number});
}

CALL cuEventQuery(void *event) {
    struct event *asked = event;
    atomic_fetch_add(&queries, 1);
    invalidate_captures();
    return atomic_load(&asked->done) < atomic_load(&asked->asked) ? NOT_READY : OK;
}

CALL cuEventSynchronize(void *event) {
    struct event *asked = event;
    while (atomic_load(&asked->done) < atomic_load(&asked->asked))
        sleep_us(50);
    return OK;
}

CALL cuEventElapsedTime(float *ms, void *begin, void *end) {
    *ms = (float)(((struct event *)end)->at_ns - ((struct event *)begin)->at_ns) / 1e6f;
    return OK;
}

CALL cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    struct event *asked = event;
    (void)flags;
    return add(stream_of(stream), &(struct operation){.kind = AWAIT, .event = asked, .number = asked->asked});
}

/* ---- green contexts: a part of 10 SMs ---- */

struct resource {
    int type;
    unsigned char padding[92];
    unsigned sms;
};

CALL cuCtxGetDevice(int *device) {
    *device = 0;
    return current ? OK : NOT_INITIALIZED;
}

CALL cuDeviceGetDevResource(int device, struct resource *resource, int type) {
    resource->type = type;
    resource->sms = 10;
    return device || type != 1 ? INVALID_VALUE : OK;
}

CALL cuDevSmResourceSplitByCount(struct resource *parts, unsigned *count, const struct resource *all,
                                 struct resource *rest, unsigned flags, unsigned sms) {
    parts[0] = *all;
    parts[0].sms = sms;
    *rest = *all;
    return *count != 1 || flags ? INVALID_VALUE : OK;
}

CALL cuDevResourceGenerateDesc(void **description, struct resource *parts, unsigned count) {
    *description = parts;
    return count == 1 ? OK : INVALID_VALUE;
}

CALL cuGreenCtxCreate(void **context, void *description, int device, unsigned flags) {
    *context = &captures;
    return description && !device && flags == 1 ? OK : INVALID_VALUE;
}

CALL cuGreenCtxStreamCreate(void **stream, void *context, unsigned flags, int priority) {
    int code = context == &captures && flags == 1 ? cuStreamCreateWithPriority(stream, flags, priority) : INVALID_VALUE;
    if (code == OK)
        ((struct stream *)*stream)->is_green = true;
    return code;
}

/* ---- launches and graphs ---- */

static int put_kernel(void *stream, uint64_t us) {
    struct stream *asked = stream_of(stream);
    if (!current)
        return NOT_INITIALIZED;
    if (asked->capture) {
        asked->captured_us += us;
        asked->captured++;
        return asked->capture == 2 ? CAPTURE_INVALIDATED : OK;
    }
    atomic_fetch_add(&launches, 1);
    atomic_fetch_add(&green_launches, asked->is_green);
    return add(asked, &(struct operation){.kind = KERNEL, .us = us});
}

CALL cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                    unsigned shared, void *stream, void **values, void **extra) {
    (void)values, (void)extra;
    /* The last arguments come by the stack: a jump must leave them alone. */
    return gx == 1 && gy == 2 && gz == 3 && bx == 4 && by == 5 && bz == 6 && shared == 7
               ? put_kernel(stream, ((struct function *)function)->us)
               : INVALID_VALUE;
}

CALL cuLaunchKernel_ptsz(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                         unsigned shared, void *stream, void **values, void **extra) {
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, values, extra);
}

struct config {
    unsigned shape[6], shared;
    void *stream, *attributes;
    unsigned attribute_count;
};

CALL cuLaunchKernelEx(const struct config *config, void *function, void **values, void **extra) {
    (void)values, (void)extra;
    return put_kernel(config->stream, ((struct function *)function)->us);
}

CALL cuStreamBeginCapture_v2(void *stream, int mode) {
    struct stream *asked = stream_of(stream);
    size_t i = 0;
    (void)mode;
    while (captures[i])
        i++;
    captures[i] = asked;
    asked->capture = 1;
    asked->captured = asked->captured_us = 0;
    return OK;
}

CALL cuStreamEndCapture(void *stream, void **graph) {
    struct stream *asked = stream_of(stream);
    int state = asked->capture;
    for (size_t i = 0; i < sizeof captures / sizeof *captures; i++)
        if (captures[i] == asked)
            captures[i] = NULL;
    asked->capture = 0;
    struct graph *made = calloc(1, sizeof *made);
    *made = (struct graph){.us = asked->captured_us, .nodes = asked->captured};
    *graph = made;
    return state == 1 ? OK : CAPTURE_INVALIDATED;
}

CALL cuStreamIsCapturing(void *stream, int *status) {
    *status = stream_of(stream)->capture;
    return OK;
}

CALL cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    (void)flags;
    *exec = graph;
    return OK;
}

CALL cuGraphExecDestroy(void *exec) {
    free(exec);
    return OK;
}

CALL cuGraphLaunch(void *exec, void *stream) {
    return put_kernel(stream, ((struct graph *)exec)->us);
}

/* ---- memory ---- */

CALL cuMemAlloc_v2(pointer *address, size_t bytes) {
    *address = (pointer)(uintptr_t)malloc(bytes < 4096 ? bytes + 1 : 4096);
    atomic_fetch_add(&allocated, bytes);
    return *address ? OK : OUT_OF_MEMORY;
}

CALL cuMemFree_v2(pointer address) {
    free((void *)(uintptr_t)address);
    return OK;
}

CALL cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    *total_bytes = (size_t)1 << 40;
    *free_bytes = *total_bytes - 1;
    return OK;
}

CALL cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)1 << 40;
    return OK;
}

CALL cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    return memory && bytes && flags == 3 ? OK : INVALID_VALUE;
}

CALL cuMemHostGetDevicePointer_v2(pointer *address, void *memory, unsigned flags) {
    *address = (pointer)(uintptr_t)memory;
    return flags ? INVALID_VALUE : OK;
}

/* ---- starting, modules, functions by name ---- */

CALL cuInit(unsigned flags) {
    is_started = true;
    return flags ? INVALID_VALUE : OK;
}

CALL cuDriverGetVersion(int *version) {
    *version = 13000;
    return OK;
}

CALL cuCtxSetCurrent(void *context) {
    current = context;
    return is_started ? OK : NOT_INITIALIZED;
}

CALL cuModuleGetFunction(void **function, void *module, const char *name) {
    struct function *made = calloc(1, sizeof *made);
    (void)module;
    *function = made;
    snprintf(made->name, sizeof made->name, "%s", name);
    return sscanf(name, "kernel_%llu", (unsigned long long *)&made->us) == 1 ? OK : NOT_FOUND;
}

CALL cuFuncGetName(const char **name, void *function) {
    *name = ((struct function *)function)->name;
    return OK;
}

typedef void function(void);

/* A name without a version means the newest; flag 2 is for the per-thread default stream. */
CALL cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status);

static function *find(const char *name, bool is_per_thread) {
    static const struct {
        const char *name;
        function *plain, *per_thread;
    } known[] = {
        {"cuInit", (function *)cuInit, NULL},
        {"cuGetProcAddress", (function *)cuGetProcAddress_v2, NULL},
        {"cuLaunchKernel", (function *)cuLaunchKernel, (function *)cuLaunchKernel_ptsz},
        {"cuLaunchKernelEx", (function *)cuLaunchKernelEx, NULL},
        {"cuStreamSynchronize", (function *)cuStreamSynchronize, (function *)cuStreamSynchronize_ptsz},
        {"cuGraphLaunch", (function *)cuGraphLaunch, NULL},
        {"cuMemAlloc", (function *)cuMemAlloc_v2, NULL},
        {"cuStreamGetPriority", (function *)cuStreamGetPriority, NULL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return is_per_thread && known[i].per_thread ? known[i].per_thread : known[i].plain;
    return NULL;
}

int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
    function *result = find(name, flags & 2);
    (void)version;
    memcpy(found, &result, sizeof result);
    if (status)
        *status = result ? 0 : 1;
    return result ? OK : NOT_FOUND;
}

/* ---- for the tests ---- */

CALL gatedCounts(uint64_t *all_waits, uint64_t *all_launches, uint64_t *all_queries, uint64_t *on_green,
                 uint64_t *all_writes) {
    *all_writes = writes;
    *on_green = green_launches;
    *all_waits = waits;
    *all_launches = launches;
    *all_queries = queries;
    return OK;
}
