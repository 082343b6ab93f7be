/*
 * gated_program.c: a program that uses CUDA, for the tests of `gridsmith run`. It reads commands, one a line, and
 * answers each with a line: the result of the call, or the numbers that were asked for.
 *
 * It finds the driver as the CUDA runtime does: dlopen("libcuda.so.1"), and then as runtime.h says. With the word
 * `exports` as its first argument it uses the exported names, and with `short` it opens "libcuda.so".
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long pointer;

struct config {
    unsigned shape[6], shared;
    void *stream, *attributes;
    unsigned attribute_count;
};

static struct driver {
    void *library;
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*load)(void **, const void *);
    int (*unload)(void *);
    int (*get_function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    int (*launch_own)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                      void **);
    int (*launch_ex)(const struct config *, void *, void **, void **);
    int (*synchronize)(void *);
    int (*synchronize_all)(void);
    int (*stream_create)(void **, unsigned);
    int (*stream_query)(void *);
    int (*stream_priority)(void *, int *);
    int (*event_create)(void **, unsigned);
    int (*event_record)(void *, void *);
    int (*event_synchronize)(void *);
    int (*event_query)(void *);
    int (*begin_capture)(void *, int);
    int (*end_capture)(void *, void **);
    int (*instantiate)(void **, void *, unsigned long long);
    int (*graph_launch)(void *, void *);
    int (*graph_destroy)(void *);
    int (*allocate)(pointer *, size_t);
    int (*deallocate)(pointer);
    int (*pin)(void *, size_t, unsigned);
    int (*copy_in)(pointer, const void *, size_t, void *);
    int (*copy_out)(void *, pointer, size_t, void *);
    int (*memory_info)(size_t *, size_t *);
    int (*total)(size_t *, int);
    int (*stream_destroy)(void *);
    int (*counts)(uint64_t *);
    int (*set_enabled)(void *, void *, unsigned);
    int (*missing)(void);
} cuda;

enum { STREAMS = 8 };
static void *streams[STREAMS], *event, *graph;
static pointer allocations[256];
static size_t allocation_count;

/* ---- finding functions ---- */

static int uses_exports;

static void find(void *call, const char *exported) {
    void *found = uses_exports ? NULL : runtime_function(cuda.library, exported);
    if (!found)
        found = dlsym(cuda.library, exported);
    memcpy(call, &found, sizeof found);
}

static void open_driver(const char *name) {
    cuda.library = dlopen(name, RTLD_NOW);
    if (!cuda.library) {
        printf("no driver: %s\n", dlerror());
        exit(3);
    }
    find(&cuda.init, "cuInit");
    find(&cuda.retain, "cuDevicePrimaryCtxRetain");
    find(&cuda.set_current, "cuCtxSetCurrent");
    find(&cuda.load, "cuModuleLoadData");
    find(&cuda.unload, "cuModuleUnload");
    find(&cuda.get_function, "cuModuleGetFunction");
    find(&cuda.launch, "cuLaunchKernel");
    find(&cuda.launch_own, "cuLaunchKernel_ptsz");
    find(&cuda.launch_ex, "cuLaunchKernelEx");
    find(&cuda.synchronize, "cuStreamSynchronize");
    find(&cuda.synchronize_all, "cuCtxSynchronize");
    find(&cuda.stream_create, "cuStreamCreate");
    find(&cuda.stream_destroy, "cuStreamDestroy_v2");
    find(&cuda.stream_query, "cuStreamQuery");
    find(&cuda.stream_priority, "cuStreamGetPriority");
    find(&cuda.event_create, "cuEventCreate");
    find(&cuda.event_record, "cuEventRecord");
    find(&cuda.event_synchronize, "cuEventSynchronize");
    find(&cuda.event_query, "cuEventQuery");
    find(&cuda.begin_capture, "cuStreamBeginCapture_v2");
    find(&cuda.end_capture, "cuStreamEndCapture");
    find(&cuda.instantiate, "cuGraphInstantiateWithFlags");
    find(&cuda.graph_launch, "cuGraphLaunch");
    find(&cuda.graph_destroy, "cuGraphExecDestroy");
    find(&cuda.set_enabled, "cuGraphNodeSetEnabled");
    find(&cuda.allocate, "cuMemAlloc_v2");
    find(&cuda.deallocate, "cuMemFree_v2");
    find(&cuda.pin, "cuMemHostRegister_v2");
    find(&cuda.copy_in, "cuMemcpyHtoDAsync_v2");
    find(&cuda.copy_out, "cuMemcpyDtoHAsync_v2");
    find(&cuda.memory_info, "cuMemGetInfo_v2");
    find(&cuda.total, "cuDeviceTotalMem_v2");
    find(&cuda.missing, "cuGraphAddNode");
    const char *path = getenv("GRIDSMITH_DRIVER");
    void *real = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : cuda.library;
    void *symbol = real ? dlsym(real, "fake_counts") : NULL;
    memcpy(&cuda.counts, &symbol, sizeof symbol);
}

/* ---- the kernel module ---- */

static _Atomic uint64_t slice_us; /* as it was set last */

/* In place of the C library's, for the driver and for what is in front of it. Slices under 3 us are refused. */
__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...) {
    struct {
        uint32_t client, object, command, flags;
        uint64_t parameters;
        uint32_t size, status;
    } * control;
    va_list arguments;
    va_start(arguments, request);
    control = va_arg(arguments, void *);
    va_end(arguments);
    if (fd >= 0 || request != _IOWR('F', 0x2a, *control))
        return (int)syscall(SYS_ioctl, fd, request, control);
    uint64_t wanted;
    memcpy(&wanted, (void *)(uintptr_t)control->parameters, sizeof wanted);
    control->status = wanted < 3;
    if (wanted >= 3)
        slice_us = wanted;
    return 0;
}

/* ---- commands ---- */

static void *function_of(unsigned us) {
    static void *functions[16];
    static unsigned times[16];
    char name[40];
    size_t i = 0;
    while (functions[i] && times[i] != us)
        i++;
    snprintf(name, sizeof name, "kernel_%u", us);
    if (!functions[i]) {
        times[i] = us;
        cuda.get_function(&functions[i], NULL, name);
    }
    return functions[i];
}

static void *context;

static int start(void) {
    int code = cuda.init(0);
    if (code == 0)
        code = cuda.retain(&context, 0);
    if (code == 0)
        code = cuda.set_current(context);
    for (int i = 1; i < STREAMS && code == 0; i++)
        code = cuda.stream_create(&streams[i], 1);
    return code ? code : cuda.event_create(&event, 0);
}

static int launch(unsigned us, void *stream, unsigned times) {
    void *function = function_of(us);
    int code = 0;
    for (unsigned i = 0; i < times && code == 0; i++)
        code = cuda.launch(function, 1, 2, 3, 4, 5, 6, 7, stream, NULL, NULL);
    return code;
}

/* All blocks of the kernel must run at a time. */
static int launch_cooperative(unsigned us, void *stream) {
    struct {
        int id, padding, flag;
        char rest[60];
    } attribute = {.id = 2, .flag = 1};
    struct config config = {
        .shape = {1, 1, 1, 32, 1, 1}, .stream = stream, .attributes = &attribute, .attribute_count = 1};
    return cuda.launch_ex(&config, function_of(us), NULL, NULL);
}

static int launch_ex(unsigned us, void *stream) {
    struct config config = {.shape = {1, 1, 1, 32, 1, 1}, .stream = stream};
    return cuda.launch_ex(&config, function_of(us), NULL, NULL);
}

/* ---- kernels of a module ---- */

enum { MOST_BLOCKS = 100000 };
static void *module, *steps;
static uint32_t counters[MOST_BLOCKS]; /* device memory of the fake driver is memory of the program */

/* Loads a cubin, and frees the image, as programs may. */
static int load_module(const char *line) {
    static char bytes[1 << 16];
    char path[500] = "";
    sscanf(line, "%*s %499s", path);
    FILE *file = fopen(path, "rb");
    if (!file)
        return 77;
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    char *image = malloc(size);
    memcpy(image, bytes, size);
    int code = cuda.load(&module, image);
    memset(image, 0, size);
    free(image);
    return code ? code : cuda.get_function(&steps, module, "steps_500");
}

static int launch_steps(unsigned blocks, void *stream, unsigned times) {
    uint32_t *list = counters;
    void *values[] = {&list};
    int code = 0;
    for (unsigned i = 0; i < times && code == 0; i++)
        code = cuda.launch(steps, blocks, 1, 1, 32, 1, 1, 0, stream, values, NULL);
    return code;
}

/* The least and the most runs of a block, and the sum. */
static int print_runs(unsigned blocks) {
    uint32_t least = UINT32_MAX, most = 0;
    uint64_t sum = 0;
    for (unsigned i = 0; i < blocks; i++) {
        uint32_t count = __atomic_load_n(&counters[i], __ATOMIC_RELAXED);
        least = count < least ? count : least;
        most = count > most ? count : most;
        sum += count;
    }
    printf("%u %u %llu\n", least, most, (unsigned long long)sum);
    return -1;
}

/* A stream of requests, as close together as the machine can. */
static int generate_tokens(unsigned us, void *stream, unsigned times) {
    int code = 0;
    for (unsigned i = 0; i < times && code == 0; i++) {
        code = launch(us, stream, 1);
        if (code == 0)
            code = cuda.synchronize(stream);
    }
    return code;
}

/* Requests that begin with an event. */
static int measure_requests(unsigned times) {
    int code = 0;
    for (unsigned i = 0; i < times && code == 0; i++) {
        code = cuda.event_record(event, streams[1]);
        if (code == 0)
            code = launch(10, streams[1], 1);
        if (code == 0)
            code = cuda.synchronize(streams[1]);
    }
    return code;
}

/* A graph of some kernels; another stream launches meanwhile. */
static int capture(unsigned us, void *stream, unsigned times) {
    void *captured = NULL;
    int code = cuda.begin_capture(stream, 0);
    if (code == 0)
        code = launch(us, stream, times / 2);
    if (code == 0)
        code = launch(us, streams[STREAMS - 1], 1);
    if (code == 0)
        code = launch(us, stream, times - times / 2);
    int ended = cuda.end_capture(stream, &captured);
    return code ? code : ended ? ended : cuda.instantiate(&graph, captured, 0);
}

/* The same, and the graph before it is destroyed meanwhile. */
static int capture_again(unsigned us, void *stream, unsigned times) {
    void *captured = NULL, *old = graph;
    int code = cuda.begin_capture(stream, 0);
    if (code == 0)
        code = launch(us, stream, times);
    if (code == 0)
        code = cuda.graph_destroy(old);
    int ended = cuda.end_capture(stream, &captured);
    return code ? code : ended ? ended : cuda.instantiate(&graph, captured, 0);
}

/* A graph of a short kernel and a long one, several times. */
static int capture_steps(unsigned blocks, void *stream, unsigned times) {
    void *captured = NULL;
    int code = cuda.begin_capture(stream, 0);
    for (unsigned i = 0; i < times && code == 0; i++) {
        code = launch(10, stream, 1);
        code = code ? code : launch_steps(blocks, stream, 1);
    }
    int ended = cuda.end_capture(stream, &captured);
    return code ? code : ended ? ended : cuda.instantiate(&graph, captured, 0);
}

static void *launch_many(void *argument) {
    intptr_t code = cuda.set_current(context);
    for (int i = 0; i < 200 && code == 0; i++)
        code = launch(10, streams[1 + (i + (int)(intptr_t)argument) % (STREAMS - 1)], 1);
    for (int i = 1; i < STREAMS && code == 0; i++)
        code = cuda.synchronize(streams[i]);
    return (void *)code;
}

static int use_threads(unsigned count) {
    pthread_t threads[64];
    int code = 0;
    function_of(10); /* the list of functions has no lock */
    for (unsigned i = 0; i < count && i < 64; i++)
        pthread_create(&threads[i], NULL, launch_many, (void *)(intptr_t)i);
    for (unsigned i = 0; i < count && i < 64; i++) {
        void *result;
        pthread_join(threads[i], &result);
        code = result ? (int)(intptr_t)result : code;
    }
    return code;
}

static int allocate(size_t bytes) {
    return cuda.allocate(&allocations[allocation_count++ % 256], bytes);
}

/* Copies memory of the host to the device and back. -2: it is not the same. */
static int copy_both_ways(size_t bytes, void *stream) {
    unsigned char *given = malloc(bytes), *got = calloc(1, bytes);
    pointer device = 0;
    for (size_t i = 0; i < bytes; i++)
        given[i] = (unsigned char)(i * 2654435761u >> 13);
    int code = cuda.pin(given, bytes, 0);
    code = code ? code : cuda.allocate(&device, bytes);
    code = code ? code : cuda.copy_in(device, given, bytes, stream);
    code = code ? code : cuda.pin(got, bytes, 0);
    code = code ? code : cuda.copy_out(got, device, bytes, stream);
    code = code ? code : cuda.synchronize(stream);
    code = code ? code : memcmp(given, got, bytes) ? -2 : cuda.deallocate(device);
    free(given);
    free(got);
    return code;
}

static int print_counts(void) {
    uint64_t counts[7] = {0};
    if (cuda.counts)
        cuda.counts(counts);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        printf("%llu ", (unsigned long long)counts[i]);
    printf("\n");
    return -1;
}

static int print_memory(void) {
    size_t free_bytes = 0, total_bytes = 0, device_bytes = 0;
    cuda.memory_info(&free_bytes, &total_bytes);
    cuda.total(&device_bytes, 0);
    printf("%zu %zu %zu\n", free_bytes, total_bytes, device_bytes);
    return -1;
}

static int print_priority(void) {
    int priority = 99;
    cuda.stream_priority(streams[1], &priority);
    printf("%d\n", priority);
    return -1;
}

static int print_slice(void) {
    printf("%llu\n", (unsigned long long)slice_us);
    return -1;
}

static int print_variable(const char *line) {
    char name[80] = "";
    sscanf(line, "%*s %79s", name);
    printf("%s\n", getenv(name) ? getenv(name) : "");
    return -1;
}

/* A child that starts CUDA by itself, and goes on in place of its parent's commands until "quit". */
static void do_commands(void);

static int use_child(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        do_commands();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

/* -1: the command has answered by itself. */
static int do_command(const char *line) {
    char word[20] = "";
    unsigned a = 0, b = 0, c = 1;
    unsigned long long bytes = 0;
    sscanf(line, "%19s %u %u %u", word, &a, &b, &c);
    sscanf(line, "%*s %llu", &bytes);
    void *stream = streams[b % STREAMS];
    return strcmp(word, "start") == 0         ? start()
           : strcmp(word, "launch") == 0      ? launch(a, stream, c)
           : strcmp(word, "launch_ex") == 0   ? launch_ex(a, stream)
           : strcmp(word, "whole") == 0       ? launch_cooperative(a, stream)
           : strcmp(word, "own") == 0         ? cuda.launch_own(function_of(a), 1, 2, 3, 4, 5, 6, 7, NULL, NULL, NULL)
           : strcmp(word, "sync") == 0        ? cuda.synchronize(streams[a % STREAMS])
           : strcmp(word, "sync_all") == 0    ? cuda.synchronize_all()
           : strcmp(word, "query") == 0       ? cuda.stream_query(streams[a % STREAMS])
           : strcmp(word, "leave") == 0       ? cuda.stream_destroy(streams[a % STREAMS])
           : strcmp(word, "record") == 0      ? cuda.event_record(event, streams[a % STREAMS])
           : strcmp(word, "measure") == 0     ? measure_requests(a)
           : strcmp(word, "wait") == 0        ? cuda.event_synchronize(event)
           : strcmp(word, "poll") == 0        ? cuda.event_query(event)
           : strcmp(word, "tokens") == 0      ? generate_tokens(a, stream, c)
           : strcmp(word, "load") == 0        ? load_module(line)
           : strcmp(word, "unload") == 0      ? cuda.unload(module)
           : strcmp(word, "steps") == 0       ? launch_steps(a, stream, c)
           : strcmp(word, "runs") == 0        ? print_runs(a)
           : strcmp(word, "capture") == 0     ? capture(a, stream, c)
           : strcmp(word, "again") == 0       ? capture_again(a, stream, c)
           : strcmp(word, "keep") == 0        ? capture_steps(a, stream, c)
           : strcmp(word, "graph") == 0       ? cuda.graph_launch(graph, streams[a % STREAMS])
           : strcmp(word, "change") == 0      ? cuda.set_enabled(graph, NULL, 1)
           : strcmp(word, "destroy") == 0     ? cuda.graph_destroy(graph)
           : strcmp(word, "threads") == 0     ? use_threads(a)
           : strcmp(word, "alloc") == 0       ? allocate(bytes)
           : strcmp(word, "free") == 0        ? cuda.deallocate(allocations[a % 256])
           : strcmp(word, "copy") == 0        ? copy_both_ways(bytes, streams[1])
           : strcmp(word, "memory") == 0      ? print_memory()
           : strcmp(word, "counts") == 0      ? print_counts()
           : strcmp(word, "slice") == 0       ? print_slice()
           : strcmp(word, "priority") == 0    ? print_priority()
           : strcmp(word, "missing") == 0     ? cuda.missing()
           : strcmp(word, "fork") == 0        ? use_child()
           : strcmp(word, "close") == 0       ? close_range(STDERR_FILENO + 1, ~0u, 0)
           : strcmp(word, "environment") == 0 ? print_variable(line)
                                              : 12345;
}

static void do_commands(void) {
    char line[200];
    while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4) != 0) {
        int code = do_command(line);
        if (code != -1)
            printf("%d\n", code);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    setvbuf(stdin, NULL, _IONBF, 0); /* a child reads on where its parent stopped */
    uses_exports = argc > 1 && strcmp(argv[1], "exports") == 0;
    open_driver(argc > 1 && strcmp(argv[1], "short") == 0 ? "libcuda.so" : "libcuda.so.1");
    do_commands();
    return 0;
}
