/*
 * plain_driver.h: the CUDA driver for small C programs of the benchmark: opened at run time, and called by names.
 *
 * A program that cannot continue prints a line and ends.
 */
#ifndef GS_PLAIN_DRIVER_H
#define GS_PLAIN_DRIVER_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *library;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    return found;
}

static void check(const char *what, int code) {
    if (code) {
        fprintf(stderr, "%s returned %d\n", what, code);
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

/* As the CUDA runtime does: calls through the pointer of cuGetProcAddress. */
static void find_call(const char *name, void *call) {
    void *found = NULL;
    CALL("cuGetProcAddress_v2", (const char *, void **, int, uint64_t, int *), name, &found, 12000, 0, NULL);
    memcpy(call, &found, sizeof found);
}

/* The first GPU, a stream, and a function of a kernel in PTX. */
static void open_gpu(const char *ptx, const char *name, void **function, void **stream) {
    void *context, *module;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    CALL("cuInit", (unsigned), 0);
    CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
    CALL("cuCtxSetCurrent", (void *), context);
    CALL("cuModuleLoadData", (void **, const void *), &module, ptx);
    CALL("cuModuleGetFunction", (void **, void *, const char *), function, module, name);
    CALL("cuStreamCreate", (void **, unsigned), stream, 1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* For qsort(). */
static int compare_numbers(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

#endif
