/*
 * watched_app.c: programs that hang, and some that do not, for tests of `gridsmith watch` on the fake driver.
 *
 *   watched_app HOW [CUBIN]    see the table at the end; CUBIN has the code of the kernels
 */
#include "runtime.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* CUstreamBatchMemOpParams. */
struct batch_operation {
    int kind;
    uint64_t address, value;
    unsigned flags;
    uint64_t unused[2];
};

/* CUlaunchConfig, with one CUlaunchAttribute. */
struct launch_config {
    unsigned shape[6], shared_bytes;
    void *stream;
    const struct launch_attribute { int kind, unused, value[16]; } * attributes;
    unsigned attribute_count;
};

#define CALLS(X)                                                                                                       \
    X(cuInit, (unsigned))                                                                                              \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                        \
    X(cuCtxSetCurrent, (void *))                                                                                       \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuModuleLoadData, (void **, const void *))                                                                       \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                                             \
    X(cuMemHostRegister_v2, (void *, size_t, unsigned))                                                                \
    X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                                                               \
    X(cuDevicePrimaryCtxReset_v2, (int))                                                                               \
    X(cuMemcpy2D_v2, (const void *))                                                                                   \
    X(cuMemsetD8_v2, (uint64_t, unsigned char, size_t))                                                                \
    X(cuStreamCreateWithPriority, (void **, unsigned, int))                                                            \
    X(cuStreamSynchronize, (void *))                                                                                   \
    X(cuStreamQuery, (void *))                                                                                         \
    X(cuStreamWaitValue32_v2, (void *, uint64_t, unsigned, unsigned))                                                  \
    X(cuStreamWriteValue32_v2, (void *, uint64_t, unsigned, unsigned))                                                 \
    X(cuStreamBatchMemOp_v2, (void *, unsigned, const struct batch_operation *, unsigned))                             \
    X(cuLaunchHostFunc, (void *, void (*)(void *), void *))                                                            \
    X(cuStreamAddCallback, (void *, void (*)(void *, int, void *), void *, unsigned))                                  \
    X(cuStreamBeginCapture_v2, (void *, int))                                                                          \
    X(cuStreamEndCapture, (void *, void **))                                                                           \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                              \
    X(cuGraphCreate, (void **, unsigned))                                                                              \
    X(cuDeviceGetDevResource, (int, void *, int))                                                                      \
    X(cuDevSmResourceSplitByCount, (void *, unsigned *, const void *, void *, unsigned, unsigned))                     \
    X(cuDevResourceGenerateDesc, (void **, void *, unsigned))                                                          \
    X(cuGreenCtxCreate, (void **, void *, int, unsigned))                                                              \
    X(cuGreenCtxStreamCreate, (void **, void *, unsigned, int))                                                        \
    X(cuGraphAddBatchMemOpNode, (void **, void *, void *const *, size_t, const void *))                                \
    X(cuGraphLaunch, (void *, void *))                                                                                 \
    X(cuEventCreate, (void **, unsigned))                                                                              \
    X(cuEventQuery, (void *))                                                                                          \
    X(cuEventRecord, (void *, void *))                                                                                 \
    X(cuStreamWaitEvent, (void *, void *, unsigned))                                                                   \
    X(cuLaunchKernelEx, (const struct launch_config *, void *, void **, void **))                                      \
    X(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))

#define POINTER(name, arguments) int(*name) arguments;
static struct { CALLS(POINTER) } cuda;

enum { EQUAL = 1, NON_BLOCKING = 1, RELAXED = 2 };

static uint64_t words; /* on the device */

static void check(int code) {
    if (code) {
        fprintf(stderr, "the driver failed: %d\n", code);
        exit(1);
    }
}

static void start_cuda(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found, *context;
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define FILL(name, arguments)                                                                                          \
    found = runtime_function(driver, #name);                                                                           \
    memcpy(&cuda.name, &found, sizeof found);
    CALLS(FILL)
    check(cuda.cuInit(0));
    check(cuda.cuDevicePrimaryCtxRetain(&context, 0));
    check(cuda.cuCtxSetCurrent(context));
    check(cuda.cuMemAlloc_v2(&words, 64));
    check(cuda.cuMemsetD8_v2(words, 0, 64));
}

static void *new_stream(void) {
    void *stream;
    check(cuda.cuStreamCreateWithPriority(&stream, NON_BLOCKING, 0));
    return stream;
}

static void launch_with(const char *name, unsigned blocks, unsigned threads, unsigned shared, void *stream) {
    void *function;
    check(cuda.cuModuleGetFunction(&function, NULL, name));
    check(cuda.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, NULL, NULL));
}

static void launch(const char *name, unsigned blocks, unsigned threads, void *stream) {
    launch_with(name, blocks, threads, 0, stream);
}

/* Loads machine code, in which the names of kernels are found. It stays in memory. */
static void load_code(const char *path) {
    static char image[1 << 20];
    void *module;
    FILE *file = fopen(path, "rb");
    if (!file || !fread(image, 1, sizeof image, file)) {
        perror(path);
        exit(1);
    }
    fclose(file);
    check(cuda.cuModuleLoadData(&module, image));
}

/* Sleeps on after a signal. */
static void sleep_s(int seconds) {
    struct timespec left = {.tv_sec = seconds};
    while (nanosleep(&left, &left) != 0)
        ;
}

static void *sleep_long(void *unused) {
    sleep_s(60);
    return unused;
}

static void start_sleeping_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleep_long, NULL) != 0)
        exit(1);
}

/* ---- hangs ---- */

static void wait_value(void) {
    void *stream = new_stream();
    check(cuda.cuStreamWaitValue32_v2(stream, words, 1, EQUAL));
    check(cuda.cuStreamSynchronize(stream));
}

static void circle(void) {
    void *one = new_stream(), *two = new_stream();
    check(cuda.cuStreamWaitValue32_v2(one, words, 1, EQUAL));
    check(cuda.cuStreamWriteValue32_v2(one, words + 4, 1, 0));
    check(cuda.cuStreamWaitValue32_v2(two, words + 4, 1, EQUAL));
    check(cuda.cuStreamWriteValue32_v2(two, words, 1, 0));
    check(cuda.cuStreamSynchronize(one));
}

/* The same, if a thread may write one of the words; and if the streams may have gone on, because a kernel
   among their operations takes time. */
static void circle_with_thread(void) {
    start_sleeping_thread();
    circle();
}

static void circle_with_work(void) {
    void *one = new_stream(), *two = new_stream();
    check(cuda.cuStreamWaitValue32_v2(one, words, 1, EQUAL));
    check(cuda.cuStreamWriteValue32_v2(one, words + 4, 1, 0));
    launch("runs_sum", 1, 32, one);
    check(cuda.cuStreamWaitValue32_v2(two, words + 4, 1, EQUAL));
    check(cuda.cuStreamWriteValue32_v2(two, words, 1, 0));
    check(cuda.cuStreamSynchronize(one));
}

/* A wait before more operations than are kept of a stream. */
static void value_long_ago(void) {
    void *stream = new_stream();
    check(cuda.cuStreamWaitValue32_v2(stream, words, 1, EQUAL));
    for (unsigned i = 0; i < 200; i++)
        check(cuda.cuStreamWriteValue32_v2(stream, words + 4, i, 0));
    check(cuda.cuStreamSynchronize(stream));
}

/* The same, with one call for each stream. */
static void batch(void) {
    void *streams[] = {new_stream(), new_stream()};
    for (unsigned i = 0; i < 2; i++) {
        struct batch_operation both[] = {{1, words + 4 * i, 1, EQUAL, {0}}, {2, words + 4 * !i, 1, 0, {0}}};
        check(cuda.cuStreamBatchMemOp_v2(streams[i], 2, both, 0));
    }
    check(cuda.cuStreamSynchronize(streams[0]));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take_lock(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
}

static void host_lock(void) {
    void *stream = new_stream();
    pthread_mutex_lock(&lock);
    check(cuda.cuLaunchHostFunc(stream, take_lock, NULL));
    check(cuda.cuStreamSynchronize(stream));
}

static void call_back(void *stream, int result, void *unused) {
    (void)stream, (void)result;
    take_lock(unused);
}

static void callback(void) {
    void *stream = new_stream();
    pthread_mutex_lock(&lock);
    check(cuda.cuStreamAddCallback(stream, call_back, NULL, 0));
    check(cuda.cuStreamSynchronize(stream));
}

static void compute_s(int seconds) {
    struct timespec now, from;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec < from.tv_sec + seconds);
}

static void compute(void *unused) {
    (void)unused;
    compute_s(4);
}

static void compute_and_wait(void *unused) {
    compute_s(3);
    take_lock(unused);
}

/* What computes at the first look waits at a later one. */
static void host_later(void) {
    void *stream = new_stream();
    pthread_mutex_lock(&lock);
    check(cuda.cuLaunchHostFunc(stream, compute_and_wait, NULL));
    check(cuda.cuStreamSynchronize(stream));
}

static void host_computes(void) {
    void *stream = new_stream();
    check(cuda.cuLaunchHostFunc(stream, compute, NULL));
    check(cuda.cuStreamSynchronize(stream));
}

/* More than are kept of a stream. */
static void host_many(void) {
    void *stream = new_stream();
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 200; i++)
        check(cuda.cuLaunchHostFunc(stream, take_lock, NULL));
    check(cuda.cuStreamSynchronize(stream));
}

static void call_cuda(void *stream) {
    cuda.cuStreamSynchronize(stream);
}

static void host_calls(void) {
    void *stream = new_stream(), *other = new_stream();
    check(cuda.cuStreamWaitValue32_v2(other, words, 1, EQUAL));
    check(cuda.cuLaunchHostFunc(stream, call_cuda, other));
    check(cuda.cuStreamSynchronize(stream));
}

/* The same for its own stream. */
static void host_waits_for_itself(void) {
    void *stream = new_stream();
    check(cuda.cuLaunchHostFunc(stream, call_cuda, stream));
    check(cuda.cuStreamSynchronize(stream));
}

/* The kernel of a recorded dump. */
static void lost_flag(void) {
    void *stream = new_stream();
    launch("_Z9spin_flagv", 2, 32, stream);
    check(cuda.cuStreamSynchronize(stream));
}

/* A copy that has returned is not what the stream stands at. The kernel has another shape in the dump. */
static void copy_first(void) {
    int word = 0;
    check(cuda.cuMemcpyHtoD_v2(words, &word, sizeof word));
    launch("_Z9spin_flagv", 4, 32, NULL);
    check(cuda.cuCtxSynchronize());
}

/* What stands behind a kernel that waits is not what the stream stands at, nor are fills before it; it is more than is
   kept of a stream. */
static void gate(void) {
    launch("waits_for_value", 1, 32, NULL);
    for (int i = 0; i < 100; i++)
        launch("runs_sum", 1, 32, NULL);
    check(cuda.cuCtxSynchronize());
}

static void memset_first(void) {
    launch("waits_for_value", 1, 32, NULL);
    check(cuda.cuCtxSynchronize());
}

/* Code is loaded behind a kernel that computes. */
static const char *code_path;
static void load_behind(void) {
    launch("runs_sum", 1, 32, NULL);
    load_code(code_path);
}

/* Kernels that compute, and that come to barriers. */
static void runs(void) {
    launch("runs_sum", 1, 32, NULL);
    check(cuda.cuCtxSynchronize());
}

static void at_barrier(void) {
    launch("at_barrier", 1, 32, NULL);
    check(cuda.cuCtxSynchronize());
}

/* Captured in two streams; none of it is issued before the graph is launched. */
static void graph(void) {
    void *one = new_stream(), *two = new_stream(), *fork, *join, *made, *executable;
    check(cuda.cuEventCreate(&fork, 0));
    check(cuda.cuEventCreate(&join, 0));
    check(cuda.cuStreamBeginCapture_v2(one, RELAXED));
    launch("runs_sum", 1, 32, one);
    check(cuda.cuEventRecord(fork, one));
    check(cuda.cuStreamWaitEvent(two, fork, 0));
    launch("waits_for_value", 1, 32, two);
    check(cuda.cuEventRecord(join, two));
    check(cuda.cuStreamWaitEvent(one, join, 0));
    check(cuda.cuStreamEndCapture(one, &made));
    check(cuda.cuGraphInstantiateWithFlags(&executable, made, 0));
    check(cuda.cuGraphLaunch(executable, one));
    check(cuda.cuStreamSynchronize(one));
}

/* The default stream waits for a stream that is not non-blocking. */
static void default_stream(void) {
    void *stream;
    check(cuda.cuStreamCreateWithPriority(&stream, 0, 0));
    launch("waits_for_value", 1, 32, stream);
    launch("runs_sum", 1, 32, NULL);
    check(cuda.cuCtxSynchronize());
}

/* While a stream captures, a query fails. */
static void poll_error(void) {
    void *stream = new_stream(), *event;
    check(cuda.cuEventCreate(&event, 0));
    check(cuda.cuStreamBeginCapture_v2(stream, 0));
    while (cuda.cuEventQuery(event))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* A call that fails, and then a wait for something else than the GPU. */
static void failed_call(void) {
    cuda.cuStreamWaitValue32_v2(new_stream(), words, 1, 0);
    sleep_s(60);
}

/* A child that goes on without CUDA, and its parent waits for it. It ends with its parent. */
static void forks(void) {
    pid_t child = fork();
    if (child == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
        sleep_s(60);
    waitpid(child, NULL, 0);
}

/* The kernel of a recorded dump, in which the other one is not. */
static void lazy(void) {
    void *one = new_stream(), *two = new_stream();
    launch("_Z9spin_flagv", 2, 32, one);
    launch("_Z4latev", 1, 32, two);
    check(cuda.cuStreamSynchronize(two));
}

enum { WHOLE_SM = 200 << 10 }; /* of shared memory: an SM has one such block */

/* Schedulers have SMs of their own, so that some workers have none (tests/hangs/reported.cu). */
static void schedulers(void) {
    void *one = new_stream(), *two = new_stream();
    launch_with("waits_for_value", 80, 32, 64 << 10, one);
    launch_with("waits_to_acquire", 112, 256, WHOLE_SM, two);
    check(cuda.cuStreamSynchronize(two));
}

/* The same behind a kernel that may be long: that one may be the reason. */
static void behind_long(void) {
    void *one = new_stream();
    launch("runs_sum", 1, 32, one);
    launch_with("waits_for_value", 200, 32, WHOLE_SM, one);
    check(cuda.cuStreamSynchronize(one));
}

/* ---- waits that may end, and some that do not ---- */

/* A kernel that fills the GPU, and one that has no room beside it. */
static void hold_all(const char *holder) {
    void *one = new_stream(), *two = new_stream();
    launch_with(holder, 132, 64, WHOLE_SM, one);
    launch_with("at_barrier", 8, 64, WHOLE_SM, two);
    check(cuda.cuStreamSynchronize(two));
}

static void held_for_good(void) {
    hold_all("waits_to_acquire");
}

/* It may compute, or work while it waits. */
static void held_by_worker(void) {
    hold_all("runs_until");
}

/* Of a cooperative launch all blocks start, or none. */
static void held_whole(void) {
    void *one = new_stream(), *two = new_stream(), *function;
    launch_with("waits_to_acquire", 100, 64, WHOLE_SM, one);
    check(cuda.cuModuleGetFunction(&function, NULL, "at_barrier"));
    const struct launch_attribute cooperative = {.kind = 2, .value = {1}};
    const struct launch_config config = {{64, 1, 1, 64, 1, 1}, WHOLE_SM, two, &cooperative, 1};
    check(cuda.cuLaunchKernelEx(&config, function, NULL, NULL));
    check(cuda.cuStreamSynchronize(two));
}

static void held_by_sum(void) {
    void *one = new_stream(), *two = new_stream();
    launch_with("runs_sum", 132, 64, WHOLE_SM, one);
    launch_with("waits_to_acquire", 8, 64, WHOLE_SM, two);
    check(cuda.cuStreamSynchronize(two));
}

/* More blocks than have room: each waits for the one before it, or for all. */
static void in_turn(void) {
    launch("waits_in_turn", 1000, 1024, NULL);
    check(cuda.cuCtxSynchronize());
}

static void in_turn_again(void) {
    launch("waits_in_turn", 1000, 1024, NULL);
    in_turn();
}

static void grid_barrier(void) {
    launch("waits_at_barrier", 1000, 1024, NULL);
    check(cuda.cuCtxSynchronize());
}

/* A call that waits for the whole GPU, behind a kernel that waits. */
static void reset_behind(const char *kernel) {
    launch(kernel, 2, 32, NULL);
    check(cuda.cuDevicePrimaryCtxReset_v2(0));
}

static void ignore_signal(int number) {
    (void)number;
}

/* Nobody is left who could write what it waits for; it would be the host, or not. Python handles Ctrl-C so. */
static void reset_for_good(void) {
    signal(SIGINT, ignore_signal);
    reset_behind("waits_to_acquire");
}

static void reset_for_host(void) {
    reset_behind("waits_for_value");
}

/* A thread may issue a copy, a handler of a signal may run, another process may write, its own blocks may. */
static void reset_for_thread(void) {
    start_sleeping_thread();
    reset_behind("waits_to_acquire");
}

static void reset_for_signal(void) {
    signal(SIGUSR1, ignore_signal);
    reset_behind("waits_for_value");
}

static void reset_for_process(void) {
    static char shared[4096];
    check(cuda.cuMemHostRegister_v2(shared, sizeof shared, 0));
    reset_behind("waits_for_value");
}

static void reset_for_itself(void) {
    reset_behind("waits_and_tells");
}

/* A copy that waits for the default stream. */
static void copy_2d(void) {
    char what[256] = "";
    launch("waits_for_value", 1, 32, NULL);
    check(cuda.cuMemcpy2D_v2(what));
}

/* Streams that wait for each other in turn, as NCCL does around a collective: there is no circle. */
static void events_ahead(void) {
    void *one = new_stream(), *two = new_stream(), *before, *after;
    check(cuda.cuEventCreate(&before, 0));
    check(cuda.cuEventCreate(&after, 0));
    check(cuda.cuEventRecord(before, two));
    check(cuda.cuStreamWaitEvent(one, before, 0));
    launch("ncclAllReduce_kernel_60000000", 8, 512, one);
    check(cuda.cuEventRecord(after, one));
    check(cuda.cuStreamWaitEvent(two, after, 0));
    launch("slow_kernel_60000000", 8, 128, two);
    check(cuda.cuStreamSynchronize(one));
}

/* An event of the default stream stands behind a kernel in a stream that is not non-blocking. */
static void default_event(void) {
    void *blocking, *other = new_stream(), *event;
    check(cuda.cuStreamCreateWithPriority(&blocking, 0, 0));
    check(cuda.cuEventCreate(&event, 0));
    launch("waits_for_value", 1, 32, blocking);
    check(cuda.cuEventRecord(event, NULL));
    check(cuda.cuStreamWaitEvent(other, event, 0));
    launch("at_barrier", 1, 32, other);
    launch("runs_sum", 1, 32, NULL); /* the fake driver would have recorded the event */
    check(cuda.cuStreamSynchronize(other));
}

/* A kernel without a loop, which its first launch loads, does not end. */
static void late(void) {
    void *one = new_stream(), *two = new_stream();
    launch("waits_to_acquire", 1, 32, one);
    launch("at_barrier", 1, 32, two);
    check(cuda.cuStreamSynchronize(two));
}

static void read_once(void) {
    launch("read_once", 1, 32, NULL);
    check(cuda.cuCtxSynchronize());
}

/* A kernel fills its green context, and another one has no room in it. */
static void green_context(void) {
    enum { RESOURCE_BYTES = 144, SMS = 1, PART = 8, DEFAULT_STREAM = 1 };
    char all[RESOURCE_BYTES] = "", part[RESOURCE_BYTES] = "", rest[RESOURCE_BYTES] = "";
    unsigned count = 1;
    void *description, *green, *one, *two;
    check(cuda.cuDeviceGetDevResource(0, all, SMS));
    check(cuda.cuDevSmResourceSplitByCount(part, &count, all, rest, 0, PART));
    check(cuda.cuDevResourceGenerateDesc(&description, part, 1));
    check(cuda.cuGreenCtxCreate(&green, description, 0, DEFAULT_STREAM));
    check(cuda.cuGreenCtxStreamCreate(&one, green, NON_BLOCKING, 0));
    check(cuda.cuGreenCtxStreamCreate(&two, green, NON_BLOCKING, 0));
    launch_with("waits_to_acquire", PART, 64, WHOLE_SM, one);
    launch_with("at_barrier", 1, 64, WHOLE_SM, two);
    check(cuda.cuStreamSynchronize(two));
}

/* More blocks than have room, in a graph. */
static void graph_barrier(void) {
    void *one = new_stream(), *made, *executable;
    check(cuda.cuStreamBeginCapture_v2(one, RELAXED));
    launch("waits_at_barrier", 1000, 1024, one);
    check(cuda.cuStreamEndCapture(one, &made));
    check(cuda.cuGraphInstantiateWithFlags(&executable, made, 0));
    check(cuda.cuGraphLaunch(executable, one));
    check(cuda.cuStreamSynchronize(one));
}

/* A graph whose branches have no room beside each other. */
static void launch_branches(const char *waits, unsigned waits_blocks, const char *other, unsigned other_blocks) {
    void *one = new_stream(), *two = new_stream(), *fork, *join, *made, *executable;
    check(cuda.cuEventCreate(&fork, 0));
    check(cuda.cuEventCreate(&join, 0));
    check(cuda.cuStreamBeginCapture_v2(one, RELAXED));
    check(cuda.cuEventRecord(fork, one));
    check(cuda.cuStreamWaitEvent(two, fork, 0));
    launch_with(waits, waits_blocks, 32, WHOLE_SM, one);
    launch_with(other, other_blocks, 32, WHOLE_SM, two);
    check(cuda.cuEventRecord(join, two));
    check(cuda.cuStreamWaitEvent(one, join, 0));
    check(cuda.cuStreamEndCapture(one, &made));
    check(cuda.cuGraphInstantiateWithFlags(&executable, made, 0));
    check(cuda.cuGraphLaunch(executable, one));
    check(cuda.cuStreamSynchronize(one));
}

static void graph_branches(void) {
    launch_branches("waits_for_value", 132, "at_barrier", 8);
}

/* One is the kernel of a recorded dump. */
static void graph_seen(void) {
    launch_branches("_Z9spin_flagv", 2, "_Z4latev", 132);
}

/* A graph that waits for a word. */
static void graph_wait(void) {
    void *stream = new_stream(), *context, *made, *node, *executable;
    struct batch_operation wait = {1, words, 3, EQUAL, {0}};
    struct {
        void *context;
        unsigned count;
        struct batch_operation *operations;
        unsigned flags;
    } how = {NULL, 1, &wait, 0};
    check(cuda.cuDevicePrimaryCtxRetain(&context, 0));
    how.context = context;
    check(cuda.cuGraphCreate(&made, 0));
    check(cuda.cuGraphAddBatchMemOpNode(&node, made, NULL, 0, &how));
    check(cuda.cuGraphInstantiateWithFlags(&executable, made, 0));
    check(cuda.cuGraphLaunch(executable, stream));
    check(cuda.cuStreamSynchronize(stream));
}

static void nap(void *was_cut) {
    *(int *)was_cut = nanosleep(&(struct timespec){.tv_sec = 3}, NULL) != 0;
}

/* A host function that sleeps: nothing may wake it. */
static void host_sleeps(void) {
    void *stream = new_stream();
    int was_cut = 0;
    check(cuda.cuLaunchHostFunc(stream, nap, &was_cut));
    check(cuda.cuStreamSynchronize(stream));
    check(was_cut);
}

static void poll_failed(void) {
    void *event;
    check(cuda.cuEventCreate(&event, 0));
    while (cuda.cuEventQuery(event))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* A rank whose collective holds SMs that its dispatch needs (tests/hangs/reported.cu). */
static void dispatch(void) {
    void *one = new_stream(), *two = new_stream();
    launch_with("ncclDevKernel_AllReduce", 16, 640, WHOLE_SM, one);
    launch_with("waits_for_grid", 128, 1024, WHOLE_SM, two);
    check(cuda.cuStreamSynchronize(one));
}

/* A collective as NCCL launches it: its arguments are a buffer that begins with the address of the communicator. */
static void launch_collective(const char *name, const void *communicator, void *stream) {
    enum { BUFFER = 1, SIZE = 2 };
    const void *arguments[2] = {communicator, NULL};
    size_t size = sizeof arguments;
    void *extra[] = {(void *)(uintptr_t)BUFFER, arguments, (void *)(uintptr_t)SIZE, &size, NULL}, *function;
    const struct launch_config config = {{8, 1, 1, 512, 1, 1}, 0, stream, NULL, 0};
    check(cuda.cuModuleGetFunction(&function, NULL, name));
    check(cuda.cuLaunchKernelEx(&config, function, NULL, extra));
}

/* Two ranks, and a third that is missing. */
static void play_ranks(void (*play)(int rank, void *stream)) {
    for (int rank = 0; rank < 2; rank++)
        if (fork() == 0) {
            setenv("RANK", rank ? "1" : "0", 1);
            setenv("WORLD_SIZE", "3", 1);
            start_cuda();
            void *stream = new_stream();
            play(rank, stream);
            check(cuda.cuStreamSynchronize(stream));
            exit(0);
        }
    while (wait(NULL) > 0)
        ;
}

/* Each rank is in another collective. */
static void play_collectives(int rank, void *stream) {
    launch("ncclInit", 1, 32, stream);
    check(cuda.cuStreamSynchronize(stream));
    launch(rank ? "ncclAllGather_kernel_60000000" : "ncclAllReduce_kernel_60000000", 8, 512, stream);
}

static void ranks(void) {
    play_ranks(play_collectives);
}

/* Each rank is in the same collective of another communicator. */
static void play_communicators(int rank, void *stream) {
    static const char one, other;
    launch_collective("ncclAllReduce_kernel_1", &one, stream);
    launch_collective("ncclAllReduce_kernel_1", &other, stream);
    check(cuda.cuStreamSynchronize(stream));
    launch_collective("ncclAllReduce_kernel_60000000", rank ? &other : &one, stream);
}

static void communicators(void) {
    play_ranks(play_communicators);
}

/* ---- programs that do not hang ---- */

static void works(void) {
    void *stream = new_stream();
    for (int i = 0; i < 30; i++) {
        launch("slow_kernel_100000", 8, 128, stream);
        check(cuda.cuStreamSynchronize(stream));
    }
}

static void is_idle(void) {
    void *stream = new_stream();
    launch("slow_kernel_1000", 8, 128, stream);
    check(cuda.cuStreamSynchronize(stream));
    sleep_s(3);
}

/* A persistent kernel that the host does not wait for. */
static void persistent(void) {
    void *stream = new_stream(), *other = new_stream();
    launch("slow_kernel_4000000", 8, 128, stream);
    for (int i = 0; i < 30; i++) {
        launch("slow_kernel_100000", 8, 128, other);
        check(cuda.cuStreamSynchronize(other));
    }
}

/* An event of work that goes on is polled, each time another one. */
static void polls(void) {
    void *stream = new_stream();
    for (int i = 0; i < 30; i++) {
        launch("slow_kernel_100000", 8, 128, stream);
        while (cuda.cuStreamQuery(stream))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void waits_for_event(void) {
    void *one = new_stream(), *two = new_stream(), *event;
    check(cuda.cuEventCreate(&event, 0));
    for (int i = 0; i < 30; i++) {
        launch("slow_kernel_50000", 8, 128, one);
        check(cuda.cuEventRecord(event, one));
        check(cuda.cuStreamWaitEvent(two, event, 0));
        launch("slow_kernel_50000", 8, 128, two);
        check(cuda.cuStreamSynchronize(two));
    }
}

static void many(void) {
    void *stream = new_stream();
    for (int i = 0; i < 200000; i++)
        launch("kernel", 8, 128, stream);
    check(cuda.cuStreamSynchronize(stream));
}

static const struct {
    const char *name;
    void (*play)(void);
} programs[] = {
    {"value", wait_value},
    {"circle", circle},
    {"host-lock", host_lock},
    {"host-calls", host_calls},
    {"host-waits-for-itself", host_waits_for_itself},
    {"lost-flag", lost_flag},
    {"ranks", ranks},
    {"communicators", communicators},
    {"works", works},
    {"idle", is_idle},
    {"persistent", persistent},
    {"polls", polls},
    {"events", waits_for_event},
    {"host-many", host_many},
    {"copy-first", copy_first},
    {"lazy", lazy},
    {"many", many},
    {"schedulers", schedulers},
    {"dispatch", dispatch},
    {"batch", batch},
    {"callback", callback},
    {"computes", host_computes},
    {"host-later", host_later},
    {"gate", gate},
    {"memset-first", memset_first},
    {"runs", runs},
    {"load-behind", load_behind},
    {"at-barrier", at_barrier},
    {"graph", graph},
    {"default-stream", default_stream},
    {"poll-error", poll_error},
    {"failed-call", failed_call},
    {"forks", forks},
    {"behind-long", behind_long},
    {"reset-for-host", reset_for_host},
    {"reset-for-thread", reset_for_thread},
    {"reset-for-signal", reset_for_signal},
    {"reset-for-process", reset_for_process},
    {"held-by-worker", held_by_worker},
    {"circle-with-thread", circle_with_thread},
    {"circle-with-work", circle_with_work},
    {"value-long-ago", value_long_ago},
    {"graph-barrier", graph_barrier},
    {"held-for-good", held_for_good},
    {"reset-for-itself", reset_for_itself},
    {"held-whole", held_whole},
    {"held-by-sum", held_by_sum},
    {"in-turn", in_turn},
    {"in-turn-again", in_turn_again},
    {"grid-barrier", grid_barrier},
    {"events-ahead", events_ahead},
    {"default-event", default_event},
    {"late", late},
    {"read-once", read_once},
    {"reset-for-good", reset_for_good},
    {"copy-2d", copy_2d},
    {"graph-branches", graph_branches},
    {"graph-seen", graph_seen},
    {"green-context", green_context},
    {"graph-wait", graph_wait},
    {"host-sleeps", host_sleeps},
    {"poll-failed", poll_failed},
};

int main(int count, char **arguments) {
    for (size_t i = 0; count >= 2 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(arguments[1], programs[i].name) == 0) {
            if (programs[i].play != ranks && programs[i].play != communicators)
                start_cuda();
            if (count > 2)
                load_code(code_path = arguments[2]);
            programs[i].play();
            return 0;
        }
    fprintf(stderr, "unknown program\n");
    return 2;
}
