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
#include <sys/ioctl.h>
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

enum kind { KERNEL, WAIT, WRITE, RECORD };

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
    bool has_thread;
    uint64_t clock_ns; /* how long its kernels took, as if the machine were never busy */
    int priority;
    int capture; /* 0: none; 1: it captures; 2: the capture is invalid */
    struct graph *captured;
};

/* A graph is at most a chain of some nodes in these tests, but its edges are changed one by one. */
enum { NODES = 64, KERNEL_NODE = 0, MEM_OP_NODE = 12 };

struct node {
    int type;
    struct operation operation;
};

struct graph {
    struct node *nodes[NODES];
    size_t count, edges;
    struct node *from[2 * NODES], *to[2 * NODES];
};

static struct stream default_stream = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .last = &default_stream.first};
static struct stream *captures[16];
static _Atomic bool is_started;
static _Atomic uint64_t waits, launches, queries, allocated, writes, graph_waits;
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

/* ---- launches and graphs ---- */

static struct node *add_node(struct graph *graph, struct node *after, const struct operation *operation) {
    struct node *node = calloc(1, sizeof *node);
    node->type = operation->kind == KERNEL ? KERNEL_NODE : MEM_OP_NODE;
    node->operation = *operation;
    if (graph->count == NODES)
        abort();
    graph->nodes[graph->count++] = node;
    if (after) {
        graph->from[graph->edges] = after;
        graph->to[graph->edges++] = node;
    }
    return node;
}

static int put_kernel(void *stream, uint64_t us) {
    struct stream *asked = stream_of(stream);
    if (!current)
        return NOT_INITIALIZED;
    if (asked->capture) {
        struct graph *graph = asked->captured;
        struct node *last = graph->count ? graph->nodes[graph->count - 1] : NULL;
        add_node(graph, last, &(struct operation){.kind = KERNEL, .us = us});
        return asked->capture == 2 ? CAPTURE_INVALIDATED : OK;
    }
    atomic_fetch_add(&launches, 1);
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
    asked->captured = calloc(1, sizeof *asked->captured);
    return OK;
}

CALL cuStreamEndCapture(void *stream, void **graph) {
    struct stream *asked = stream_of(stream);
    int state = asked->capture;
    for (size_t i = 0; i < sizeof captures / sizeof *captures; i++)
        if (captures[i] == asked)
            captures[i] = NULL;
    asked->capture = 0;
    *graph = asked->captured;
    asked->captured = NULL;
    return state == 1 ? OK : CAPTURE_INVALIDATED;
}

CALL cuStreamIsCapturing(void *stream, int *status) {
    *status = stream_of(stream)->capture;
    return OK;
}

static size_t place_of(const struct graph *graph, const struct node *node) {
    size_t i = 0;
    while (i < graph->count && graph->nodes[i] != node)
        i++;
    return i;
}

CALL cuGraphClone(void **copy, void *graph) {
    const struct graph *old = graph;
    struct graph *made = calloc(1, sizeof *made);
    for (size_t i = 0; i < old->count; i++)
        add_node(made, NULL, &old->nodes[i]->operation);
    for (size_t i = 0; i < old->edges; i++) {
        made->from[i] = made->nodes[place_of(old, old->from[i])];
        made->to[i] = made->nodes[place_of(old, old->to[i])];
    }
    made->edges = old->edges;
    *copy = made;
    return OK;
}

CALL cuGraphDestroy(void *graph) {
    struct graph *old = graph;
    for (size_t i = 0; i < old->count; i++)
        free(old->nodes[i]);
    free(old);
    return OK;
}

/* Without arrays: how many there are. */
CALL cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
    const struct graph *asked = graph;
    for (size_t i = 0; nodes && i < asked->count; i++)
        nodes[i] = asked->nodes[i];
    *count = asked->count;
    return OK;
}

CALL cuGraphGetEdges_v2(void *graph, void **from, void **to, void *data, size_t *count) {
    const struct graph *asked = graph;
    for (size_t i = 0; from && i < asked->edges; i++) {
        from[i] = asked->from[i];
        to[i] = asked->to[i];
    }
    *count = asked->edges;
    return data ? INVALID_VALUE : OK;
}

CALL cuGraphNodeGetType(void *node, int *type) {
    *type = ((struct node *)node)->type;
    return OK;
}

struct memory_operation { /* 48 bytes */
    int operation;
    pointer address;
    uint64_t value;
    unsigned flags;
    uint64_t rest[2];
};

struct memory_operations {
    void *context;
    unsigned count;
    struct memory_operation *operations;
    unsigned flags;
};

CALL cuGraphAddBatchMemOpNode(void **node, void *graph, void *const *after, size_t count,
                              const struct memory_operations *how) {
    enum { WAIT_VALUE_32 = 1, WAIT_EQUAL = 1 };
    if (!how->context || how->count != 1 || count != 1 || how->operations->operation != WAIT_VALUE_32 ||
        how->operations->flags != WAIT_EQUAL || getenv("GATED_NO_GRAPH_WAITS"))
        return INVALID_VALUE;
    *node = add_node(graph, after[0],
                     &(struct operation){.kind = WAIT,
                                         .word = (void *)(uintptr_t)how->operations->address,
                                         .value = (uint32_t)how->operations->value});
    return OK;
}

CALL cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to, const void *data, size_t count) {
    struct graph *changed = graph;
    changed->from[changed->edges] = from[0];
    changed->to[changed->edges++] = to[0];
    return data || count != 1 ? INVALID_VALUE : OK;
}

CALL cuGraphRemoveDependencies_v2(void *graph, void *const *from, void *const *to, const void *data, size_t count) {
    struct graph *changed = graph;
    for (size_t i = 0; i < changed->edges && !data && count == 1; i++)
        if (changed->from[i] == from[0] && changed->to[i] == to[0]) {
            changed->from[i] = changed->from[--changed->edges];
            changed->to[i] = changed->to[changed->edges];
            return OK;
        }
    return INVALID_VALUE;
}

/* An instance: operations, in an order that the edges allow. */
struct instance {
    size_t count;
    struct operation operations[NODES];
};

static bool is_ready(const struct graph *graph, const struct node *node, const bool *is_done) {
    for (size_t i = 0; i < graph->edges; i++)
        if (graph->to[i] == node && !is_done[place_of(graph, graph->from[i])])
            return false;
    return true;
}

CALL cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    const struct graph *given = graph;
    struct instance *made = calloc(1, sizeof *made);
    bool is_done[NODES] = {false};
    (void)flags;
    for (size_t round = 0; round < given->count; round++)
        for (size_t i = 0; i < given->count; i++)
            if (!is_done[i] && is_ready(given, given->nodes[i], is_done)) {
                made->operations[made->count++] = given->nodes[i]->operation;
                is_done[i] = true;
            }
    *exec = made;
    return made->count == given->count ? OK : INVALID_VALUE;
}

CALL cuGraphExecDestroy(void *exec) {
    free(exec);
    return OK;
}

CALL cuGraphNodeSetEnabled(void *exec, void *node, unsigned is_enabled) {
    (void)node, (void)is_enabled;
    return exec ? OK : INVALID_VALUE;
}

CALL cuGraphLaunch(void *exec, void *stream) {
    const struct instance *launched = exec;
    struct stream *asked = stream_of(stream);
    if (!current)
        return NOT_INITIALIZED;
    atomic_fetch_add(&launches, 1);
    for (size_t i = 0; i < launched->count; i++) {
        atomic_fetch_add(&graph_waits, launched->operations[i].kind == WAIT);
        add(asked, &launched->operations[i]);
    }
    return OK;
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

/* The real driver sets the time slices of a context by such a call: 2048 us. */
static void set_slice(void) {
    uint64_t slice_us = 2048;
    struct {
        uint32_t client, object, command, flags;
        uint64_t parameters;
        uint32_t size, status;
    } control = {.command = 0xa06c0103, .parameters = (uint64_t)(uintptr_t)&slice_us, .size = sizeof slice_us};
    ioctl(-1, _IOWR('F', 0x2a, control), &control);
}

CALL cuInit(unsigned flags) {
    is_started = true;
    set_slice();
    return flags ? INVALID_VALUE : OK;
}

CALL cuDriverGetVersion(int *version) {
    *version = 13000;
    return OK;
}

CALL cuCtxGetCurrent(void **context) {
    *context = current;
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

CALL gatedCounts(uint64_t *counts) {
    const uint64_t all[] = {waits, launches, queries, writes, graph_waits};
    memcpy(counts, all, sizeof all);
    return OK;
}
