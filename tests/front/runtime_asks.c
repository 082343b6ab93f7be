/*
 * runtime_asks.c: asks a driver for functions as the CUDA runtime 13.0 does. Each answer must be a function of the
 * library in front of the driver, not of the driver: otherwise `gridsmith watch`, `trace` or `run` sees nothing of a
 * program that uses the runtime.
 *
 * The runtime asks what cuGetProcAddress gives for cuGetProcAddress (runtime.h), so that is asked for first, in all
 * ways. The functions are those that all three libraries hook and the fake driver has.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdbool.h>
#include <stdlib.h>

/* The name, the versions that the runtime asks for, and the flags: 2 is for the default stream of each thread. */
static const struct question {
    const char *name;
    int version;
    uint64_t flags;
} questions[] = {
    {"cuInit", 2000, 0},
    {"cuLaunchKernel", 4000, 0},
    {"cuLaunchKernel", 7000, 2},
    {"cuLaunchKernelEx", 11060, 0},
    {"cuLaunchKernelEx", 11060, 2},
    {"cuGraphLaunch", 10000, 0},
    {"cuGraphLaunch", 10000, 2},
    {"cuMemcpyHtoDAsync", 3020, 0},
    {"cuMemcpyHtoDAsync", 7000, 2},
    {"cuMemcpyDtoHAsync", 3020, 0},
    {"cuMemcpyDtoHAsync", 7000, 2},
    {"cuMemcpyDtoDAsync", 3020, 0},
    {"cuMemcpyDtoDAsync", 7000, 2},
    {"cuMemsetD8Async", 3020, 0},
    {"cuMemsetD8Async", 7000, 2},
    {"cuStreamBeginCapture", 10000, 0},
    {"cuStreamBeginCapture", 10010, 2},
    {"cuStreamBeginCaptureToGraph", 12030, 0},
    {"cuStreamBeginCaptureToGraph", 12030, 2},
    {"cuStreamEndCapture", 10000, 0},
    {"cuStreamEndCapture", 10000, 2},
};

/* cuGetProcAddress in all its versions and with all flags; 11030 is without a status. */
static const struct question ways[] = {
    {"cuGetProcAddress", 11030, 0}, {"cuGetProcAddress", 11030, 2}, {"cuGetProcAddress", 12000, 0},
    {"cuGetProcAddress", 12000, 1}, {"cuGetProcAddress", 12000, 2}, {"cuGetProcAddress", 13000, 0},
};

enum { OLD = 11030 };

typedef int old_get(const char *name, void **function, int version, uint64_t flags);

static void *front; /* where the library is in memory */
static int failed;

static void *base_of(const void *address) {
    Dl_info info;
    return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* What cuGetProcAddress of this version answers. */
static void *ask(void *get, int get_version, const struct question *question) {
    void *found = NULL;
    int result, status = -1;
    if (get_version <= OLD) {
        old_get *old;
        memcpy(&old, &get, sizeof old);
        result = old(question->name, &found, question->version, question->flags);
    } else {
        runtime_get *now;
        memcpy(&now, &get, sizeof now);
        result = now(question->name, &found, question->version, question->flags, &status);
    }
    if (result || !found || base_of(found) != front) {
        printf("cuGetProcAddress of version %d is asked for %s of version %d with flags %d: %s\n", get_version,
               question->name, question->version, (int)question->flags,
               result || !found ? "not found" : "the function is the driver's");
        failed = 1;
    }
    return found;
}

static void ask_all(void *get, int get_version) {
    for (size_t i = 0; get && i < sizeof questions / sizeof *questions; i++)
        ask(get, get_version, &questions[i]);
}

/* A question that the driver cannot answer is passed on with its result. */
static void ask_unknown(void *get) {
    runtime_get *now;
    void *found = &failed;
    int status = 0;
    memcpy(&now, &get, sizeof now);
    if (now("cuNothing", &found, 13000, 0, &status) == 0 || found || status != 1) {
        printf("cuNothing was found\n");
        failed = 1;
    }
}

int main(void) {
    static const char *const exported[] = {"cuGetProcAddress", "cuGetProcAddress_v2"};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        printf("%s\n", dlerror());
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        void *get = dlsym(driver, exported[i]);
        front = base_of(get);
        ask_all(get, i ? 12000 : OLD);
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
            ask_all(ask(get, i ? 12000 : OLD, &ways[k]), ways[k].version);
    }
    ask_unknown(dlsym(driver, exported[1]));
    const char *behind = getenv("GRIDSMITH_DRIVER");
    void *real = behind ? dlopen(behind, RTLD_NOW) : NULL;
    if (!real || base_of(dlsym(real, exported[1])) == front) {
        printf("no library is in front of the driver\n");
        failed = 1;
    }
    return failed;
}
