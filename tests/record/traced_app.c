/*
 * traced_app.c: a program that uses the fake driver (tests/fake), for tests of the recorder.
 *
 *   traced_app nothing                no CUDA at all
 *   traced_app start                  starts CUDA and launches nothing
 *   traced_app all                    one of everything: streams, events, attributes, graphs
 *   traced_app changes                attributes of a kernel and nodes of an executable graph change
 *   traced_app many COUNT [THREADS]   so many launches of each thread
 *   traced_app replay COUNT           so many launches of a graph of four kernels
 *   traced_app fork                   two children: one only exits, the other starts CUDA itself
 *   traced_app end HOW                launches until the recorder has written something, then ends: segv, _exit, kill
 *   traced_app status CODE            launches one kernel and exits with this status
 */
#include "runtime.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the driver ---- */

struct attribute {
    int id, padding;
    union {
        char bytes[64];
        int numbers[16];
    } value;
};

struct config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    struct attribute *attributes;
    unsigned attribute_count;
};

#define CALLS(X)                                                                                                       \
    X(cuInit, (unsigned))                                                                                              \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                        \
    X(cuCtxSetCurrent, (void *))                                                                                       \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                                             \
    X(cuStreamCreateWithPriority, (void **, unsigned, int))                                                            \
    X(cuStreamDestroy_v2, (void *))                                                                                    \
    X(cuEventCreate, (void **, unsigned))                                                                              \
    X(cuEventDestroy_v2, (void *))                                                                                     \
    X(cuEventRecord, (void *, void *))                                                                                 \
    X(cuStreamWaitEvent, (void *, void *, unsigned))                                                                   \
    X(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))        \
    X(cuLaunchKernelEx, (const struct config *, void *, void **, void **))                                             \
    X(cuFuncSetAttribute, (void *, int, int))                                                                          \
    X(cuKernelSetAttribute, (int, int, void *, int))                                                                   \
    X(cuGraphExecUpdate_v2, (void *, void *, void *))                                                                  \
    X(cuFuncSetCacheConfig, (void *, int))                                                                             \
    X(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *))                                                  \
    X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                                                     \
    X(cuMemsetD8Async, (uint64_t, unsigned char, size_t, void *))                                                      \
    X(cuStreamBeginCapture_v2, (void *, int))                                                                          \
    X(cuStreamEndCapture, (void *, void **))                                                                           \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                              \
    X(cuGraphLaunch, (void *, void *))                                                                                 \
    X(cuGraphExecDestroy, (void *))                                                                                    \
    X(cuGraphDestroy, (void *))                                                                                        \
    X(fake_leave_capture, (void *))                                                                                    \
    X(fake_get_kernel, (void **, void *))                                                                              \
    X(fake_add_node, (void *, int, void *))

#define POINTER(name, arguments) int(*name) arguments;
static struct { CALLS(POINTER) } cuda;

static void check(int code) {
    if (code) {
        fprintf(stderr, "the driver failed: %d\n", code);
        exit(1);
    }
}

/* What only the fake driver has is not in the library that may be in front of it. */
static void *find(void *driver, const char *name) {
    const char *behind = getenv("GRIDSMITH_DRIVER");
    void *found = dlsym(driver, name);
    return found || !behind ? found : dlsym(dlopen(behind, RTLD_NOW), name);
}

/* As the runtime does. */
static void ask_driver(void *driver) {
    void *found = runtime_function(driver, "cuMemcpyHtoDAsync_v2");
    memcpy(&cuda.cuMemcpyHtoDAsync_v2, &found, sizeof found);
    found = runtime_function(driver, "cuLaunchKernel");
    memcpy(&cuda.cuLaunchKernel, &found, sizeof found);
}

static void open_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found;
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define FILL(name, arguments)                                                                                          \
    found = find(driver, #name);                                                                                       \
    memcpy(&cuda.name, &found, sizeof found);
    CALLS(FILL)
    ask_driver(driver);
}

enum { BUFFER_BYTES = 4096 };
static void *context;
static uint64_t buffer; /* on the device */

static void start_cuda(void) {
    check(cuda.cuInit(0));
    check(cuda.cuDevicePrimaryCtxRetain(&context, 0));
    check(cuda.cuCtxSetCurrent(context));
    check(cuda.cuMemAlloc_v2(&buffer, BUFFER_BYTES));
}

static void *function_of(const char *name) {
    void *function;
    check(cuda.cuModuleGetFunction(&function, NULL, name));
    return function;
}

static void launch(const char *name, unsigned blocks, unsigned threads, void *stream) {
    check(cuda.cuLaunchKernel(function_of(name), blocks, 1, 1, threads, 1, 1, 0, stream, NULL, NULL));
}

/* A launch with an attribute: 4 is the shape of a cluster, 6 the permission to start early. */
static void launch_with(const char *name, int id, int x, int y, int z, void *stream) {
    struct attribute attribute = {.id = id, .value.numbers = {x, y, z}};
    struct config config = {.grid = {8, 2, 1},
                            .block = {128, 2, 1},
                            .shared_bytes = 1000,
                            .stream = stream,
                            .attributes = &attribute,
                            .attribute_count = 1};
    check(cuda.cuLaunchKernelEx(&config, function_of(name), NULL, NULL));
}

static void *new_stream(int flags, int priority) {
    void *stream;
    check(cuda.cuStreamCreateWithPriority(&stream, (unsigned)flags, priority));
    return stream;
}

/* ---- everything ---- */

enum { NON_BLOCKING = 1 };

static void streams_and_events(void) {
    static const char zeros[BUFFER_BYTES];
    void *a = new_stream(NON_BLOCKING, -2), *b = new_stream(NON_BLOCKING, 0), *blocking = new_stream(0, 0), *event;
    check(cuda.cuEventCreate(&event, 0));
    launch("first", 3, 96, a);
    check(cuda.cuEventRecord(event, a));
    launch("second", 4, 64, a);
    check(cuda.cuStreamWaitEvent(b, event, 0));
    launch("after_first", 5, 32, b);
    launch("in_order", 5, 32, b);
    check(cuda.cuMemcpyHtoDAsync_v2(buffer, zeros, sizeof zeros, b));
    check(cuda.cuMemsetD8Async(buffer, 0, 77, b));
    launch("on_default", 1, 32, NULL);
    launch("blocking", 1, 32, blocking);
    launch("default_after_blocking", 1, 32, NULL);
    check(cuda.cuMemcpyDtoH_v2(&event, buffer, 0));
    check(cuda.cuStreamDestroy_v2(blocking));
}

static void attributes(void) {
    void *a = new_stream(NON_BLOCKING, 0);
    launch_with("clustered", 4, 4, 2, 1, a);
    launch("local_carveout", 2, 256, a);
    launch_with("early", 6, 1, 0, 0, a);
    check(cuda.cuFuncSetCacheConfig(function_of("cached"), 1));
    launch("cached", 2, 256, a);
    check(cuda.cuLaunchKernel(function_of("impossible"), 1, 1, 1, 32, 1, 1, 16384, a, NULL, NULL));
    check(cuda.cuStreamDestroy_v2(a));
}

static void graphs(void) {
    void *a = new_stream(NON_BLOCKING, 0), *b = new_stream(NON_BLOCKING, -3), *fork, *join, *graph, *child, *exec;
    check(cuda.cuEventCreate(&fork, 0));
    check(cuda.cuEventCreate(&join, 0));
    check(cuda.cuStreamBeginCapture_v2(b, 0));
    launch("child_1", 1, 32, b);
    launch("child_2", 1, 32, b);
    check(cuda.cuStreamEndCapture(b, &child));
    launch("before_graph", 1, 32, a);
    check(cuda.cuStreamBeginCapture_v2(a, 0));
    launch("root", 1, 32, a);
    check(cuda.cuEventRecord(fork, a));
    check(cuda.cuStreamWaitEvent(b, fork, 0));
    launch("left", 2, 32, a);
    launch("right", 3, 32, b);
    check(cuda.cuMemsetD8Async(buffer, 0, 64, b));
    check(cuda.cuEventRecord(join, b));
    check(cuda.cuStreamWaitEvent(a, join, 0));
    launch("joined", 4, 32, a);
    launch_with("early_in_graph", 6, 1, 0, 0, a);
    check(cuda.cuStreamEndCapture(a, &graph));
    check(cuda.fake_leave_capture(b));
    check(cuda.fake_add_node(graph, 5, NULL));
    check(cuda.fake_add_node(graph, 4, child));
    check(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0));
    check(cuda.cuGraphDestroy(graph));
    check(cuda.cuGraphLaunch(exec, a));
    check(cuda.cuEventRecord(fork, a));
    launch("behind_graph", 1, 32, a);
    check(cuda.cuStreamWaitEvent(b, fork, 0));
    launch("beside_graph", 1, 32, b);
    check(cuda.cuGraphLaunch(exec, a));
    check(cuda.cuGraphExecDestroy(exec));
    check(cuda.cuEventDestroy_v2(join));
}

/* ---- kernels and graphs that change ---- */

static void *capture(const char *name, void *stream) {
    void *graph;
    check(cuda.cuStreamBeginCapture_v2(stream, 0));
    launch(name, 2, 64, stream);
    launch(name, 3, 64, stream);
    check(cuda.cuStreamEndCapture(stream, &graph));
    return graph;
}

static void changes(void) {
    enum { CARVEOUT = 9 };
    void *stream = new_stream(NON_BLOCKING, 0), *exec, *before = capture("before", stream),
         *after = capture("after", stream);
    launch("settable", 1, 32, stream);
    check(cuda.cuFuncSetAttribute(function_of("settable"), CARVEOUT, 60));
    launch("settable", 2, 32, stream);
    check(cuda.cuGraphInstantiateWithFlags(&exec, before, 0));
    check(cuda.cuGraphLaunch(exec, stream));
    check(cuda.cuGraphExecUpdate_v2(exec, after, NULL));
    check(cuda.cuGraphDestroy(before));
    check(cuda.cuGraphDestroy(after));
    check(cuda.cuGraphLaunch(exec, stream));
    check(cuda.cuGraphExecDestroy(exec));
    check(cuda.cuStreamDestroy_v2(stream));
}

/* As libraries do: the same carve-out is set before each launch. */
static void set_again(void) {
    enum { CARVEOUT = 9, ROUNDS = 50 };
    void *stream = new_stream(NON_BLOCKING, 0), *kernel;
    check(cuda.fake_get_kernel(&kernel, function_of("settable")));
    for (int i = 0; i < ROUNDS; i++) {
        check(cuda.cuKernelSetAttribute(CARVEOUT, 60, kernel, 0));
        launch("settable", 1, 32, stream);
        check(cuda.cuFuncSetCacheConfig(function_of("cached"), 1));
        launch("cached", 1, 32, stream);
    }
    check(cuda.cuStreamDestroy_v2(stream));
}

/* A part of the program is not recorded, if the library in front of the driver is there. */
static void part(void) {
    void *stream = new_stream(NON_BLOCKING, 0), *found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "gridsmith_record");
    void (*record)(int) = NULL;
    memcpy(&record, &found, sizeof found);
    launch("seen", 1, 32, stream);
    if (record)
        record(0);
    launch("hidden", 1, 32, stream);
    if (record)
        record(1);
    launch("seen", 2, 32, stream);
    check(cuda.cuStreamDestroy_v2(stream));
}

/* ---- threads, children, ends ---- */

static long count;

static void *launch_many(void *argument) {
    check(cuda.cuCtxSetCurrent(context));
    void *stream = new_stream(NON_BLOCKING, 0);
    for (long i = 0; i < count; i++)
        launch("many", 1, 32, stream);
    return argument;
}

static void many(int threads) {
    pthread_t started[64];
    for (int i = 0; i < threads && i < 64; i++)
        pthread_create(&started[i], NULL, launch_many, NULL);
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(started[i], NULL);
}

static void replay(long times) {
    void *stream = new_stream(NON_BLOCKING, 0), *graph, *exec;
    check(cuda.cuStreamBeginCapture_v2(stream, 0));
    for (int i = 0; i < 4; i++)
        launch("node", 1, 32, stream);
    check(cuda.cuStreamEndCapture(stream, &graph));
    check(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (long i = 0; i < times; i++)
        check(cuda.cuGraphLaunch(exec, stream));
    check(cuda.cuGraphExecDestroy(exec));
}

static void fork_children(const char *program) {
    launch("of_parent", 1, 32, NULL);
    pid_t idle = fork();
    if (idle == 0)
        exit(0);
    pid_t other = fork();
    if (other == 0) {
        execl(program, program, "status", "0", (char *)NULL);
        _exit(1);
    }
    waitpid(idle, NULL, 0);
    waitpid(other, NULL, 0);
    launch("of_parent", 2, 32, NULL);
}

/* The recorder writes twice a second at least. */
static void end_by(const char *how) {
    struct stat found = {0};
    long launched = 0;
    while (stat(getenv("GRIDSMITH_TRACE_OUTPUT"), &found) != 0 || found.st_size < 4096) {
        launch("before_the_end", 1, 32, NULL);
        launched++;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    signal(SIGSEGV, SIG_DFL); /* sanitizers catch it */
    if (strcmp(how, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    _exit(5);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "nothing";
    if (strcmp(what, "nothing") == 0)
        return 0;
    open_driver();
    start_cuda();
    if (strcmp(what, "all") == 0) {
        streams_and_events();
        attributes();
        graphs();
    } else if (strcmp(what, "changes") == 0) {
        changes();
    } else if (strcmp(what, "part") == 0) {
        part();
    } else if (strcmp(what, "set_again") == 0) {
        set_again();
    } else if (strcmp(what, "many") == 0) {
        count = argc > 2 ? atol(argv[2]) : 1000;
        many(argc > 3 ? atoi(argv[3]) : 1);
    } else if (strcmp(what, "replay") == 0) {
        replay(argc > 2 ? atol(argv[2]) : 1000);
    } else if (strcmp(what, "fork") == 0) {
        fork_children(argv[0]);
    } else if (strcmp(what, "end") == 0) {
        end_by(argc > 2 ? argv[2] : "_exit");
    } else if (strcmp(what, "status") == 0) {
        launch("one", 1, 32, NULL);
        return argc > 2 ? atoi(argv[2]) : 0;
    }
    return 0;
}
