/*
 * launch_cost.c: what a launch costs the CPU: launch_cost [NAME]
 *
 * Launches an empty kernel in batches, waits for each batch, and prints percentiles of the time that one launch took.
 * Run it alone and under `gridsmith run`, in turn, and compare. It needs libcuda.so.1 alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 2000, BATCH = 200, WARM_UP = 200 };

static const char kernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";

static void *library;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "launch_cost: the driver has no %s\n", name);
        exit(1);
    }
    return found;
}

static void check(const char *what, int code) {
    if (code) {
        fprintf(stderr, "launch_cost: %s returned %d\n", what, code);
        exit(1);
    }
}

/* Calls a function of the driver by its name. */
#define CALL(symbol, types, ...)                                                                                       \
    do {                                                                                                               \
        int(*own_call) types;                                                                                          \
        void *own_symbol = find(symbol);                                                                               \
        memcpy(&own_call, &own_symbol, sizeof own_call);                                                               \
        check(symbol, own_call(__VA_ARGS__));                                                                          \
    } while (0)

typedef int launch_call(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                        void **);

static struct {
    void *function, *stream;
    launch_call *launch;
    int (*synchronize)(void *);
} gpu;

/* As the CUDA runtime does: launches by the pointer that cuGetProcAddress gives. */
static void find_call(const char *name, void *call) {
    void *found = NULL;
    CALL("cuGetProcAddress_v2", (const char *, void **, int, uint64_t, int *), name, &found, 12000, 0, NULL);
    memcpy(call, &found, sizeof found);
}

static void open_gpu(void) {
    void *context, *module;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "launch_cost: %s\n", dlerror());
        exit(1);
    }
    CALL("cuInit", (unsigned), 0);
    CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
    CALL("cuCtxSetCurrent", (void *), context);
    CALL("cuModuleLoadData", (void **, const void *), &module, kernel);
    CALL("cuModuleGetFunction", (void **, void *, const char *), &gpu.function, module, "nothing");
    CALL("cuStreamCreate", (void **, unsigned), &gpu.stream, 1);
    find_call("cuLaunchKernel", &gpu.launch);
    find_call("cuStreamSynchronize", &gpu.synchronize);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double batch_ns(void) {
    uint64_t start = now_ns();
    for (int i = 0; i < BATCH; i++)
        check("cuLaunchKernel", gpu.launch(gpu.function, 1, 1, 1, 32, 1, 1, 0, gpu.stream, NULL, NULL));
    double ns = (double)(now_ns() - start) / BATCH;
    check("cuStreamSynchronize", gpu.synchronize(gpu.stream));
    return ns;
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv) {
    static double times[BATCHES];
    open_gpu();
    for (int i = -WARM_UP; i < BATCHES; i++) {
        double ns = batch_ns();
        if (i >= 0)
            times[i] = ns;
    }
    qsort(times, BATCHES, sizeof *times, compare);
    printf("{\"name\": \"%s\", \"launch_ns\": {\"p1\": %.0f, \"p50\": %.0f, \"p99\": %.0f}}\n", argc > 1 ? argv[1] : "",
           times[BATCHES / 100], times[BATCHES / 2], times[BATCHES * 99 / 100]);
    return 0;
}
