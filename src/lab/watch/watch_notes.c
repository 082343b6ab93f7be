/*
 * watch_notes.c: what a hook notes in the page. See watch_page.h and watch_notes.h.
 *
 * Threads write at the same time, without locks: a thread has a place of its own, an operation gets its number from an
 * atomic counter of its stream. A table of handles is a hash that is searched in a few places and never moves.
 */
#define _GNU_SOURCE
#include "watch_notes.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PROBES = 16 };

gs_watch_driver gs_watch_driver_functions;
gs_watch_page *gs_watch_shared;

static pthread_key_t thread_key;
static _Thread_local gs_watch_thread *own;

int64_t gs_watch_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static size_t slot_of(uint64_t handle) {
    handle ^= handle >> 29;
    return (size_t)((handle * 0x9e3779b97f4a7c15u) >> 20);
}

/* ---- threads ---- */

static void leave_thread(void *place) {
    gs_watch_thread *thread = place;
    atomic_store(&thread->call, 0);
    atomic_store(&thread->thread, 0);
}

gs_watch_thread *gs_watch_own_thread(void) {
    for (size_t i = 0; !own && gs_watch_shared && i < GS_WATCH_THREADS; i++) {
        int32_t none = 0;
        gs_watch_thread *thread = &gs_watch_shared->threads[i];
        if (!atomic_compare_exchange_strong(&thread->thread, &none, gettid()))
            continue;
        atomic_store(&thread->call, 0);
        atomic_store(&thread->polled, 0);
        atomic_store(&thread->frame_count, 0);
        atomic_store(&thread->in_host_function, 0);
        pthread_setspecific(thread_key, thread);
        own = thread;
    }
    return own;
}

/* ---- the page ---- */

static int32_t number_in_environment(const char *const *names, size_t count, int32_t otherwise) {
    for (size_t i = 0; i < count; i++) {
        const char *text = getenv(names[i]);
        if (text && isdigit((unsigned char)*text))
            return (int32_t)strtol(text, NULL, 10);
    }
    return otherwise;
}

static void describe_process(gs_watch_page *page) {
    static const char *const rank[] = {"GRIDSMITH_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    static const char *const ranks[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};
    static const char *const connections[] = {"CUDA_DEVICE_MAX_CONNECTIONS"};
    page->process = getpid();
    page->rank = number_in_environment(rank, sizeof rank / sizeof *rank, -1);
    page->ranks = number_in_environment(ranks, sizeof ranks / sizeof *ranks, 0);
    page->connections = number_in_environment(connections, 1, 8);
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t count = file >= 0 ? read(file, page->program, sizeof page->program - 1) : 0;
    for (ssize_t i = 0; i + 1 < count; i++)
        if (!page->program[i])
            page->program[i] = ' ';
    if (file >= 0)
        close(file);
}

static gs_watch_page *make_page(void) {
    const char *folder = getenv(GS_WATCH_FOLDER);
    char path[1024];
    if (!folder || folder[0] != '/' || snprintf(path, sizeof path, "%s/page.%d", folder, getpid()) >= (int)sizeof path)
        return NULL;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return NULL;
    void *page = ftruncate(file, sizeof(gs_watch_page)) == 0
                     ? mmap(NULL, sizeof(gs_watch_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                     : MAP_FAILED;
    close(file);
    return page == MAP_FAILED ? NULL : page;
}

/* The child of a process that uses CUDA cannot use it. */
static void forget_page(void) {
    if (gs_watch_shared)
        atomic_store(&gs_watch_shared->forked, getpid());
    gs_watch_shared = NULL;
    own = NULL;
}

bool gs_watch_start(const char *const *names, const uint32_t *classes, uint32_t count) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    gs_watch_page *page = gs_watch_shared ? NULL : make_page();
    if (page && pthread_key_create(&thread_key, leave_thread) == 0) {
        for (uint32_t i = 0; i < count && i < GS_WATCH_CALLS; i++) {
            snprintf(page->calls[i].name, sizeof page->calls[i].name, "%s", names[i]);
            page->calls[i].class = classes[i];
        }
        page->size = sizeof *page;
        describe_process(page);
        page->magic = GS_WATCH_MAGIC;
        gs_watch_shared = page;
        pthread_atfork(NULL, NULL, forget_page);
    }
    pthread_mutex_unlock(&lock);
    return page != NULL && page == gs_watch_shared;
}

/* ---- streams ---- */

/* Default streams have no handle of their own: the one of the context, or of the thread in it. */
static uint64_t key_of_stream(const void *stream, bool per_thread) {
    enum { OF_CONTEXT = 1, OF_THREAD = 2 };
    uint64_t handle = (uint64_t)(uintptr_t)stream;
    void *context = NULL;
    if (handle > OF_THREAD)
        return handle;
    if (gs_watch_driver_functions.cuCtxGetCurrent)
        gs_watch_driver_functions.cuCtxGetCurrent(&context);
    bool is_of_thread = handle == OF_THREAD || (handle == 0 && per_thread);
    uint64_t which = is_of_thread ? (uint64_t)gettid() << 1 | 1 : 0;
    return (uint64_t)1 << 63 | which << 40 | ((uint64_t)(uintptr_t)context & 0xffffffffff);
}

/* The context of a stream, which is current when the stream is first seen. */
static void note_context(gs_watch_stream *stream) {
    void *context = NULL;
    if (gs_watch_driver_functions.cuCtxGetCurrent)
        gs_watch_driver_functions.cuCtxGetCurrent(&context);
    stream->context = (uint64_t)(uintptr_t)context;
}

static gs_watch_stream *find_stream(uint64_t key, bool is_added) {
    gs_watch_page *page = gs_watch_shared;
    for (size_t i = 0; i < GS_WATCH_STREAMS; i++) {
        gs_watch_stream *stream = &page->streams[(slot_of(key) + i) % GS_WATCH_STREAMS];
        uint64_t handle = atomic_load_explicit(&stream->handle, memory_order_acquire);
        if (handle == key)
            return stream;
        if (!handle && !is_added)
            return NULL;
        if (!handle && atomic_compare_exchange_strong(&stream->handle, &handle, key)) {
            stream->number = atomic_fetch_add(&page->stream_count, 1);
            note_context(stream);
            return stream;
        }
        if (handle == key)
            return stream;
    }
    return NULL;
}

/* The green context of a stream. The driver fills in a CUdevResource. */
static void note_green(gs_watch_stream *stream, const void *handle) {
    enum { SMS = 1, SMS_AT = 96 };
    const gs_watch_driver *driver = &gs_watch_driver_functions;
    unsigned char resource[256] = {0};
    void *green = NULL;
    bool is_known = driver->cuStreamGetGreenCtx && driver->cuGreenCtxGetDevResource &&
                    driver->cuStreamGetGreenCtx((void *)handle, &green) == GS_CUDA_OK && green &&
                    driver->cuGreenCtxGetDevResource(green, resource, SMS) == GS_CUDA_OK;
    stream->green = is_known ? (uint64_t)(uintptr_t)green : 0;
    memcpy(&stream->sms, resource + SMS_AT, sizeof stream->sms);
}

void gs_watch_stream_new(const void *handle, unsigned flags, int priority) {
    gs_watch_stream *stream = gs_watch_shared ? find_stream(key_of_stream(handle, false), true) : NULL;
    if (stream) {
        stream->flags = flags | GS_WATCH_FLAGS_KNOWN;
        stream->priority = priority;
        note_green(stream, handle);
    }
}

/* Its place stays, so that those behind it in the hash are found; a stream with the same handle continues it. */
void gs_watch_stream_gone(const void *handle) {
    gs_watch_stream *stream = gs_watch_shared ? find_stream(key_of_stream(handle, false), false) : NULL;
    if (stream)
        atomic_store(&stream->captures, 0);
}

static uint32_t place_of_stream(const gs_watch_stream *stream) {
    return (uint32_t)(stream - gs_watch_shared->streams) + 1;
}

/* The end of a capture is also that of streams that came into it by an event. */
void gs_watch_captures(const void *handle, bool per_thread, bool captures) {
    gs_watch_stream *stream = gs_watch_shared ? find_stream(key_of_stream(handle, per_thread), true) : NULL;
    if (!stream)
        return;
    uint32_t place = place_of_stream(stream);
    if (captures)
        atomic_store(&stream->captures, place);
    for (size_t i = 0; i < GS_WATCH_STREAMS && !captures; i++) {
        uint32_t within = place;
        atomic_compare_exchange_strong(&gs_watch_shared->streams[i].captures, &within, 0);
    }
}

static void raise_done(gs_watch_stream *stream, uint64_t number) {
    uint64_t done = atomic_load(&stream->done);
    while (done < number && !atomic_compare_exchange_weak(&stream->done, &done, number))
        ;
}

/* ---- calls ---- */

void gs_watch_enter(gs_watch_call *call, const void *stream, uint64_t object) {
    call->thread = gs_watch_own_thread();
    call->at_ns = gs_watch_now_ns();
    if (stream != (const void *)-1) {
        call->stream = find_stream(key_of_stream(stream, call->per_thread), true);
        call->number = call->stream ? atomic_load_explicit(&call->stream->issued, memory_order_relaxed) : 0;
    }
    gs_watch_thread *thread = call->thread;
    if (!thread)
        return;
    call->before = atomic_load_explicit(&thread->call, memory_order_relaxed);
    atomic_store_explicit(&thread->since_ns, call->at_ns, memory_order_relaxed);
    atomic_store_explicit(&thread->object, object, memory_order_relaxed);
    atomic_store_explicit(&thread->call, call->call + 1, memory_order_release);
}

void gs_watch_leave(gs_watch_call *call) {
    if (call->thread)
        atomic_store_explicit(&call->thread->call, call->before, memory_order_release);
}

/* Keeps a kernel or a wait for a value whose place is needed, if it may be unfinished. A stream stands at the first
   wait, so that one is kept. */
static void keep_older(gs_watch_stream *stream, const gs_watch_operation *operation) {
    uint64_t done = atomic_load_explicit(&stream->done, memory_order_relaxed);
    bool waits = operation->kind == GS_WATCH_WAIT_VALUE;
    if ((operation->kind != GS_WATCH_KERNEL && !waits) || operation->number <= done)
        return;
    for (size_t i = 0; i < GS_WATCH_OLDER; i++) {
        gs_watch_operation *older = &stream->older[(operation->function + i) % GS_WATCH_OLDER];
        bool is_free = older->number <= done;
        bool is_same = older->kind == operation->kind && older->function == operation->function;
        if (is_free || (is_same && !waits))
            *older = *operation;
        if (is_free || is_same)
            return;
    }
}

gs_watch_operation *gs_watch_issue(gs_watch_call *call, gs_watch_kind kind) {
    gs_watch_stream *stream = call->stream;
    if (!stream || atomic_load_explicit(&stream->captures, memory_order_relaxed))
        return NULL;
    call->number = atomic_fetch_add(&stream->issued, 1) + 1;
    call->operation = &stream->operations[call->number % GS_WATCH_OPERATIONS];
    keep_older(stream, call->operation);
    *call->operation = (gs_watch_operation){.kind = (uint8_t)kind, .at_ns = call->at_ns, .number = call->number};
    return call->operation;
}

void gs_watch_issued(gs_watch_call *call, int result) {
    gs_watch_page *page = gs_watch_shared;
    bool is_noted = call->operation && call->operation->number == call->number;
    if (result == GS_CUDA_OK)
        return;
    page->failed.result = result;
    page->failed.function = is_noted && call->operation->kind == GS_WATCH_KERNEL ? call->operation->function : 0;
    page->failed.at_ns = call->at_ns;
    atomic_store(&page->failed.call, call->call + 1);
    if (is_noted)
        call->operation->kind = GS_WATCH_NONE;
}

/* ---- kernels ---- */

static bool is_collective(const char *name) {
    static const char *const words[] = {"nccl",           "allreduce",     "all_reduce", "allgather",  "all_gather",
                                        "reduce_scatter", "reducescatter", "alltoall",   "all_to_all", "nvshmem"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}

/* The GPU of the first kernel. */
static void describe_device(gs_watch_page *page) {
    enum { SMS = 16 };
    const gs_watch_driver *driver = &gs_watch_driver_functions;
    int device = 0, sms = 0;
    if (!driver->cuCtxGetDevice || driver->cuCtxGetDevice(&device) != GS_CUDA_OK || !driver->cuDeviceGetAttribute ||
        driver->cuDeviceGetAttribute(&sms, SMS, device) != GS_CUDA_OK || !driver->cuDeviceGetName)
        return;
    driver->cuDeviceGetName(page->gpu, sizeof page->gpu, device);
    page->sms = sms;
}

/* Programs launch a CUkernel, or its CUfunction. To ask for the name of a CUkernel as if it were a function loads it.
 */
static void name_function(gs_watch_function *function, const void *of) {
    const gs_watch_driver *driver = &gs_watch_driver_functions;
    const char *name = NULL;
    if ((driver->cuKernelGetName && driver->cuKernelGetName(&name, of) == GS_CUDA_OK && name) ||
        (driver->cuFuncGetName && driver->cuFuncGetName(&name, of) == GS_CUDA_OK && name))
        snprintf(function->name, sizeof function->name, "%s", name);
    function->is_collective = is_collective(function->name);
}

static gs_watch_function *find_function(uint64_t handle) {
    gs_watch_page *page = gs_watch_shared;
    for (size_t i = 0; i < PROBES; i++) {
        gs_watch_function *function = &page->functions[(slot_of(handle) + i) % GS_WATCH_FUNCTIONS];
        uint64_t known = atomic_load_explicit(&function->handle, memory_order_acquire);
        if (known == handle)
            return function;
        if (known || !atomic_compare_exchange_strong(&function->handle, &known, handle))
            continue;
        if (!page->sms)
            describe_device(page);
        name_function(function, (const void *)(uintptr_t)handle);
        return function;
    }
    return NULL;
}

enum { SHARED = 1, LOCAL = 3, REGISTERS = 4, CARVEOUT = 9, CLUSTER = 11 };

/* An attribute of a kernel, which is not loaded for it; or of a function. */
static int ask_attribute(const void *of, int attribute, int otherwise, bool is_kernel) {
    int value = otherwise, code;
    const gs_watch_driver *driver = &gs_watch_driver_functions;
    if (is_kernel)
        code =
            driver->cuKernelGetAttribute ? driver->cuKernelGetAttribute(&value, attribute, of, 0) : GS_CUDA_NOT_FOUND;
    else
        code = driver->cuFuncGetAttribute ? driver->cuFuncGetAttribute(&value, attribute, of) : GS_CUDA_NOT_FOUND;
    return code == GS_CUDA_OK ? value : otherwise;
}

static void describe_function(gs_watch_function *function, const void *of, bool is_kernel) {
    function->registers = ask_attribute(of, REGISTERS, -1, is_kernel);
    if (function->registers < 0)
        return;
    function->static_shared_bytes = ask_attribute(of, SHARED, 0, is_kernel);
    function->local_bytes = ask_attribute(of, LOCAL, 0, is_kernel);
    function->carveout_percent = ask_attribute(of, CARVEOUT, -1, is_kernel);
    function->cluster = 1;
    for (int i = 0; i < 3; i++) {
        int size = ask_attribute(of, CLUSTER + i, 0, is_kernel);
        function->cluster *= size > 0 ? size : 1;
    }
    atomic_store(&function->is_known, 1);
}

/* After its first launch: to ask for the attributes of a function loads it. */
static void describe_launched(gs_watch_function *function, const void *handle) {
    void *of = NULL;
    describe_function(function, handle, false);
    if (!atomic_load(&function->is_known) && gs_watch_driver_functions.cuKernelGetFunction &&
        gs_watch_driver_functions.cuKernelGetFunction(&of, handle) == GS_CUDA_OK && of)
        describe_function(function, of, false);
}

uint32_t gs_watch_function_place(const void *handle) {
    gs_watch_function *function = handle ? find_function((uint64_t)(uintptr_t)handle) : NULL;
    if (function && !atomic_load(&function->is_known)) {
        describe_function(function, handle, true);
        if (!atomic_load(&function->is_known)) /* a CUfunction, which the graph has loaded */
            describe_launched(function, handle);
        function->carveout_percent = -1; /* of a node of a graph, the driver says 0 if there is none */
    }
    return function ? (uint32_t)(function - gs_watch_shared->functions) + 1 : 0;
}

void gs_watch_shares(void) {
    atomic_store(&gs_watch_shared->shares, 1);
}

void gs_watch_image(const void *image) {
    uint32_t place = atomic_fetch_add(&gs_watch_shared->image_count, 1);
    gs_watch_shared->images[place % GS_WATCH_IMAGES] = (uint64_t)(uintptr_t)image;
}

void gs_watch_loads(gs_watch_call *call, const void *handle) {
    gs_watch_function *function = handle ? find_function((uint64_t)(uintptr_t)handle) : NULL;
    if (call->thread)
        atomic_store(&call->thread->function, function ? (uint32_t)(function - gs_watch_shared->functions) + 1 : 0);
}

void gs_watch_loaded(const void *handle) {
    gs_watch_function *function = handle ? find_function((uint64_t)(uintptr_t)handle) : NULL;
    if (function)
        atomic_store(&function->is_loaded, 1);
}

/* Whether the first launch of a function loads it. The driver knows it of a CUfunction. */
static bool is_unloaded(const gs_watch_function *function, const void *handle) {
    enum { UNLOADED = 0, LAZY = 2 };
    int state = UNLOADED, mode = 0;
    const gs_watch_driver *driver = &gs_watch_driver_functions;
    if (driver->cuFuncIsLoaded && driver->cuFuncIsLoaded(&state, handle) == GS_CUDA_OK)
        return state == UNLOADED;
    return !atomic_load(&function->is_loaded) && driver->cuModuleGetLoadingMode &&
           driver->cuModuleGetLoadingMode(&mode) == GS_CUDA_OK && mode == LAZY;
}

/* Before its first launch. */
static void look_before_launch(gs_watch_function *function, gs_watch_operation *operation, const void *handle) {
    if (operation)
        operation->loads = is_unloaded(function, handle);
    describe_function(function, handle, true);
}

/* The operation is issued first: it shows where the call hangs if the driver does while it is asked. */
void gs_watch_kernel(gs_watch_call *call, const void *handle, const unsigned *shape, unsigned shared_bytes) {
    gs_watch_operation *operation = gs_watch_issue(call, GS_WATCH_KERNEL);
    if (operation) {
        operation->shared_bytes = shared_bytes;
        memcpy(operation->shape, shape, sizeof operation->shape);
    }
    gs_watch_function *function = find_function((uint64_t)(uintptr_t)handle);
    uint32_t place = function ? (uint32_t)(function - gs_watch_shared->functions) + 1 : 0;
    if (call->thread)
        atomic_store_explicit(&call->thread->function, place, memory_order_relaxed);
    if (operation)
        operation->function = place;
    if (function && !atomic_load_explicit(&function->launches, memory_order_relaxed) &&
        !atomic_load_explicit(&function->is_known, memory_order_relaxed))
        look_before_launch(function, operation, handle);
    if (operation && function && function->is_collective)
        operation->collective = atomic_fetch_add(&call->stream->collectives, 1) + 1;
}

/* The arguments of NCCL's kernels are passed as one buffer, which begins with the address of the communicator. */
void gs_watch_communicator(gs_watch_operation *operation, void *const *extra) {
    enum { END, BUFFER, SIZE };
    const void *buffer = NULL;
    uint64_t address = 0;
    size_t size = 0;
    for (size_t i = 0; operation && operation->collective && extra && i < 4 && (uintptr_t)extra[i] != END; i += 2) {
        if ((uintptr_t)extra[i] == BUFFER)
            buffer = extra[i + 1];
        else if ((uintptr_t)extra[i] == SIZE)
            size = *(const size_t *)extra[i + 1];
    }
    if (buffer && size >= sizeof address)
        memcpy(&address, buffer, sizeof address);
    for (uint32_t i = 0; address && i < GS_WATCH_COMMUNICATORS && !operation->communicator; i++) {
        uint64_t known = 0;
        if (atomic_compare_exchange_strong(&gs_watch_shared->communicators[i], &known, address) || known == address)
            operation->communicator = i + 1;
    }
}

void gs_watch_kernel_done(gs_watch_call *call, const void *handle) {
    gs_watch_function *function = call->operation && call->operation->function
                                      ? &gs_watch_shared->functions[call->operation->function - 1]
                                      : NULL;
    if (!function)
        return;
    atomic_fetch_add_explicit(&function->launches, 1, memory_order_relaxed);
    if (!atomic_load_explicit(&function->is_known, memory_order_relaxed))
        describe_launched(function, handle);
}

/* ---- events ---- */

static gs_watch_event *find_event(uint64_t handle, bool is_added) {
    gs_watch_page *page = gs_watch_shared;
    gs_watch_event *first = &page->events[slot_of(handle) % GS_WATCH_EVENTS];
    for (size_t i = 0; i < PROBES; i++) {
        gs_watch_event *event = &page->events[(slot_of(handle) + i) % GS_WATCH_EVENTS];
        uint64_t known = atomic_load_explicit(&event->handle, memory_order_acquire);
        if (known == handle || (!known && is_added && atomic_compare_exchange_strong(&event->handle, &known, handle)))
            return event;
    }
    if (is_added)
        atomic_store(&first->handle, handle); /* too many events: one is forgotten */
    return is_added ? first : NULL;
}

void gs_watch_event_recorded(gs_watch_call *call, uint64_t handle) {
    gs_watch_operation *operation = gs_watch_issue(call, GS_WATCH_RECORD);
    uint32_t capture = call->stream ? atomic_load(&call->stream->captures) : 0;
    gs_watch_event *event = operation || capture ? find_event(handle, true) : NULL;
    if (operation)
        operation->object = handle;
    if (event) {
        event->capture = capture;
        event->stream = capture ? 0 : place_of_stream(call->stream);
        event->number = call->number;
    }
}

void gs_watch_event_awaited(gs_watch_call *call, uint64_t handle) {
    const gs_watch_event *event = find_event(handle, false);
    if (event && event->capture && call->stream)
        atomic_store(&call->stream->captures, event->capture);
    gs_watch_operation *operation = gs_watch_issue(call, GS_WATCH_WAIT_EVENT);
    if (!operation)
        return;
    operation->object = handle;
    operation->other = event ? event->stream : 0;
    operation->until = event ? event->number : 0;
}

void gs_watch_event_done(uint64_t handle, bool is_forgotten) {
    gs_watch_event *event = find_event(handle, false);
    if (event && event->stream && event->stream <= GS_WATCH_STREAMS && !is_forgotten)
        raise_done(&gs_watch_shared->streams[event->stream - 1], event->number);
    if (event && is_forgotten)
        event->stream = 0;
}

/* ---- what has ended ---- */

void gs_watch_stream_done(gs_watch_call *call) {
    if (call->stream)
        raise_done(call->stream, call->number);
}

void gs_watch_all_done(gs_watch_call *call, const void *context) {
    void *current = NULL;
    if (!context && gs_watch_driver_functions.cuCtxGetCurrent)
        gs_watch_driver_functions.cuCtxGetCurrent(&current);
    uint64_t wanted = (uint64_t)(uintptr_t)(context ? context : current);
    for (size_t i = 0; i < GS_WATCH_STREAMS; i++) {
        gs_watch_stream *stream = &gs_watch_shared->streams[i];
        if (stream->context != wanted)
            continue;
        uint64_t issued = atomic_load(&stream->issued);
        while (issued > atomic_load(&stream->done) &&
               stream->operations[issued % GS_WATCH_OPERATIONS].at_ns > call->at_ns)
            issued--; /* issued by other threads meanwhile */
        raise_done(stream, issued);
    }
}

void gs_watch_polled(gs_watch_call *call, uint64_t object, int result) {
    gs_watch_thread *thread = call->thread;
    if (!thread)
        return;
    atomic_store_explicit(&thread->answer, result == GS_CUDA_NOT_READY ? 0 : result, memory_order_relaxed);
    if (result == GS_CUDA_OK)
        atomic_store_explicit(&thread->polled, 0, memory_order_relaxed);
    else if (atomic_load_explicit(&thread->polled, memory_order_relaxed) != object) {
        atomic_store_explicit(&thread->polled_ns, call->at_ns, memory_order_relaxed);
        atomic_store_explicit(&thread->polled, object, memory_order_relaxed);
    }
    atomic_store_explicit(&thread->queried_ns, call->at_ns, memory_order_relaxed);
}

/* ---- host functions ---- */

/* One that is captured may run often, or never. */
static bool stream_captures(void *stream) {
    int status = 0;
    const gs_watch_driver *driver = &gs_watch_driver_functions;
    return !driver->cuStreamIsCapturing || driver->cuStreamIsCapturing(stream, &status) != GS_CUDA_OK || status;
}

gs_watch_host *gs_watch_host_new(gs_watch_call *call, void *stream, void (*function)(void *), void *data) {
    gs_watch_operation *operation = stream_captures(stream) ? NULL : gs_watch_issue(call, GS_WATCH_HOST_FUNCTION);
    gs_watch_host *host = operation ? malloc(sizeof *host) : NULL;
    if (!host)
        return NULL;
    operation->object = (uint64_t)(uintptr_t)function;
    *host = (gs_watch_host){function, NULL, data, call->stream, operation, call->number};
    return host;
}

static void set_phase(const gs_watch_host *host, uint8_t phase) {
    if (host->operation->number == host->number)
        atomic_store(&host->operation->phase, phase);
    atomic_store(&host->stream->host_since_ns, gs_watch_now_ns());
    atomic_store(&host->stream->host_function, phase == 1 ? host->number : 0);
    raise_done(host->stream, phase == 1 ? host->number - 1 : host->number);
}

void gs_watch_host_call(void *stream, int result, void *argument) {
    gs_watch_host *host = argument;
    gs_watch_thread *thread = gs_watch_own_thread();
    set_phase(host, 1);
    if (thread)
        atomic_store(&thread->in_host_function, 1);
    if (host->callback)
        host->callback(stream, result, host->data);
    else
        host->function(host->data);
    if (thread)
        atomic_store(&thread->in_host_function, 0);
    set_phase(host, 2);
    free(host);
}

void gs_watch_host_run(void *host) {
    gs_watch_host_call(NULL, GS_CUDA_OK, host);
}
