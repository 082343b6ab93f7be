/*
 * bounds.c: times kernels on a GPU, alone or beside the worst neighbor on other SMs, to compare them with their bounds.
 * See docs/bounds.md; bounds.py calls it.
 *
 *   bounds CASES RUNS [beside|writing|cold]
 *
 * A line of CASES is a cubin, a kernel of it, and a launch file, whose buffers are filled with zeros. For each there is
 * a line of JSON with its times; one that fails ends the program. The first line is of an empty kernel. Behind each run
 * an empty kernel is timed, too: if that is late, others use the GPU.
 *
 * A run lasts from when the kernel is the next to be launched to its end, by events before and after it. The runs are
 * queued behind a kernel that holds the stream until all are there, so that the host is not in between. With `beside`
 * the kernel has 64 SMs, and others are full of warps that read at random addresses all the time, or with `writing`
 * write there. With `cold` warps on all SMs read before each run, so that no cache has what it needs.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/kernel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 64, MOST_RUNS = 1000000, PART_SMS = 64, NEIGHBOR_THREADS = 1024, NEIGHBOR_BITS = 26 };
enum {
    BATCH_RUNS = 100,
    HOLD_NS = 3000000,
    MOST_TRIES = 20,
    EMPTY_RUNS = 10000,
    LEAST_RUNS = 20,
    MOST_NS = 500000000
};

/* A kernel that accesses random places of the memory. */
#define NEIGHBOR(name, access)                                                                                         \
    ".visible .entry " name "(.param .u64 data, .param .u32 mask, .param .u32 rounds) {\n"                             \
    "\t.reg .pred %more;\n\t.reg .b32 %x, %block, %threads, %mask, %rounds, %unit, %value;\n\t.reg .b64 %data, %at;\n" \
    "\tmov.u32 %x, %tid.x;\n\tmov.u32 %block, %ctaid.x;\n\tmov.u32 %threads, %ntid.x;\n"                               \
    "\tmad.lo.u32 %x, %block, %threads, %x;\n"                                                                         \
    "\tld.param.u64 %data, [data];\n\tld.param.u32 %mask, [mask];\n\tld.param.u32 %rounds, [rounds];\n"                \
    "\tcvta.to.global.u64 %data, %data;\n"                                                                             \
    "next:\n"                                                                                                          \
    "\tmad.lo.u32 %x, %x, 1664525, 1013904223;\n\tshr.u32 %unit, %x, 4;\n\tand.b32 %unit, %unit, %mask;\n"             \
    "\tmul.wide.u32 %at, %unit, 32;\n\tadd.u64 %at, %data, %at;\n" access                                              \
    "\tsub.u32 %rounds, %rounds, 1;\n\tsetp.ne.u32 %more, %rounds, 0;\n\t@%more bra next;\n"                           \
    "\tret;\n}\n"

static const char own_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry empty() {\n\tret;\n}\n"
    ".visible .entry hold(.param .u64 ns) {\n"
    "\t.reg .pred %more;\n\t.reg .b64 %end, %now, %ns;\n"
    "\tld.param.u64 %ns, [ns];\n\tmov.u64 %end, %globaltimer;\n\tadd.u64 %end, %end, %ns;\n"
    "wait:\n\tmov.u64 %now, %globaltimer;\n\tsetp.lt.u64 %more, %now, %end;\n\t@%more bra wait;\n"
    "\tret;\n}\n" NEIGHBOR("neighbor", "\tld.volatile.global.u32 %value, [%at];\n\tadd.u32 %x, %x, %value;\n")
        NEIGHBOR("writer", "\tst.volatile.global.u32 [%at], %x;\n");

/* Launches a kernel that uses the memory, again and again, on a stream of other SMs. */
struct neighbor {
    const cu_api *api;
    cu_context context;
    cu_kernel kernel;
    cu_stream stream;
    cu_pointer data;
    pthread_t thread;
    bool has_thread;
    atomic_bool stops;
    _Atomic int64_t launches;
    _Atomic int failed;
};

/* What times the kernels. */
struct timer {
    cu_api api;
    cu_stream stream;
    gs_modules modules; /* the own one first, then that of the case */
    cu_kernel hold, empty, sweep;
    cu_pointer swept;               /* memory that is read before each run; 0: none is */
    cu_event events[BATCH_RUNS][3]; /* before a run, behind it, and behind the empty kernel that follows */
    int64_t *times, empty_most_ns;
    struct neighbor *neighbor; /* or NULL */
};

/* A kernel to time. */
struct work {
    cu_kernel kernel;
    cu_call call;
    gs_job_argument arguments[MOST_ARGUMENTS];
    uint64_t buffers[MOST_ARGUMENTS];
    uint32_t count;
};

/* ---- the neighbor ---- */

static void *disturb(void *given) {
    enum { BATCH = 16 };
    struct neighbor *neighbor = given;
    const cu_api *api = neighbor->api;
    uint32_t mask = ((uint32_t)1 << NEIGHBOR_BITS) - 1, rounds = 200;
    void *parameters[] = {&neighbor->data, &mask, &rounds};
    const cu_call call = {.grid = {2 * PART_SMS, 1, 1}, .block = {NEIGHBOR_THREADS, 1, 1}, .stream = neighbor->stream};
    int failed = api->context_set(neighbor->context);
    while (!failed && !atomic_load(&neighbor->stops)) {
        for (int i = 0; i < BATCH && !failed; i++)
            failed = gs_cuda_launch(api, &neighbor->kernel, &call, parameters);
        atomic_fetch_add(&neighbor->launches, BATCH);
        failed = failed ? failed : api->stream_wait(neighbor->stream);
    }
    atomic_store(&neighbor->failed, failed);
    return NULL;
}

/* ---- runs ---- */

/* Fills the caches with other data. */
static int queue_sweep(struct timer *timer) {
    enum { BLOCKS = 264 };
    uint32_t mask = ((uint32_t)1 << NEIGHBOR_BITS) - 1, rounds = 24;
    void *parameters[] = {&timer->swept, &mask, &rounds};
    const cu_call call = {.grid = {BLOCKS, 1, 1}, .block = {NEIGHBOR_THREADS, 1, 1}, .stream = timer->stream};
    return timer->swept ? gs_cuda_launch(&timer->api, &timer->sweep, &call, parameters) : 0;
}

/* Queues runs behind a kernel that holds the stream. */
static int queue_runs(struct timer *timer, struct work *work, int runs) {
    uint64_t ns = HOLD_NS;
    void *hold[] = {&ns}, *pointers[MOST_ARGUMENTS + 1];
    const cu_call one = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = timer->stream};
    const cu_call warp = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = timer->stream};
    gs_cuda_point(pointers, work->arguments, work->count, work->buffers);
    int failed = gs_cuda_launch(&timer->api, &timer->hold, &one, hold);
    for (int i = 0; i < runs && !failed; i++) {
        failed = queue_sweep(timer);
        failed = failed ? failed : timer->api.event_record(timer->events[i][0], timer->stream);
        failed = failed ? failed : gs_cuda_launch(&timer->api, &work->kernel, &work->call, pointers);
        failed = failed ? failed : timer->api.event_record(timer->events[i][1], timer->stream);
        failed = failed ? failed : gs_cuda_launch(&timer->api, &timer->empty, &warp, pointers);
        failed = failed ? failed : timer->api.event_record(timer->events[i][2], timer->stream);
    }
    return failed;
}

/* The times of a batch, and the longest of its empty kernels. */
static int read_batch(struct timer *timer, int runs, int64_t *times, int64_t *empty_most_ns) {
    int failed = 0;
    for (int i = 0; i < runs && !failed; i++) {
        float ms = 0, empty_ms = 0;
        failed = timer->api.event_elapsed(&ms, timer->events[i][0], timer->events[i][1]);
        failed = failed ? failed : timer->api.event_elapsed(&empty_ms, timer->events[i][1], timer->events[i][2]);
        times[i] = (int64_t)((double)ms * 1e6);
        *empty_most_ns = gs_max(*empty_most_ns, (int64_t)((double)empty_ms * 1e6));
    }
    return failed;
}

/* A batch of runs. If the host was too slow for the kernel that holds them, they do not count. */
static gs_code time_batch(struct timer *timer, struct work *work, int runs, int64_t *times, gs_error *error) {
    for (int i = 0; i < MOST_TRIES; i++) {
        int64_t began = gs_now_ns();
        int failed = queue_runs(timer, work, runs);
        int64_t took = gs_now_ns() - began, empty_most_ns = timer->empty_most_ns;
        failed = failed ? failed : timer->api.stream_wait(timer->stream);
        failed = failed ? failed : read_batch(timer, runs, times, &empty_most_ns);
        if (failed)
            return gs_cuda_check(&timer->api, failed, "timing", error);
        if (took < HOLD_NS) {
            timer->empty_most_ns = empty_most_ns;
            return GS_OK;
        }
    }
    return gs_fail(error, GS_E_KERNEL, "the host is too slow to queue %d runs in %d ms", runs, HOLD_NS / 1000000);
}

static void print_times(const struct timer *timer, const char *name, const char *launch, int64_t runs) {
    int64_t *times = timer->times;
    qsort(times, (size_t)runs, sizeof *times, gs_compare_int64);
    printf("{\"kernel\":\"%s\",\"runs\":%lld,\"least_ns\":%lld,\"median_ns\":%lld,\"p99_ns\":%lld,\"most_ns\":%lld",
           name, (long long)runs, (long long)times[0], (long long)times[runs / 2], (long long)times[runs * 99 / 100],
           (long long)times[runs - 1]);
    printf(",\"launch\":\"%s\",\"empty_most_ns\":%lld", launch, (long long)timer->empty_most_ns);
    if (timer->neighbor)
        printf(",\"neighbor_launches\":%lld", (long long)atomic_load(&timer->neighbor->launches));
    printf("}\n");
    fflush(stdout);
}

/* The first run does not count: the driver loads code then. Of long kernels there are fewer runs. */
static gs_code time_work(struct timer *timer, struct work *work, const char *name, const char *launch, int64_t runs,
                         gs_error *error) {
    gs_code code = time_batch(timer, work, 1, timer->times, error);
    timer->empty_most_ns = 0;
    if (code == GS_OK)
        runs = gs_max(gs_min(runs, MOST_NS / gs_max(timer->times[0], 1)), LEAST_RUNS);
    for (int64_t i = 0; i < runs && code == GS_OK; i += BATCH_RUNS)
        code = time_batch(timer, work, (int)gs_min(BATCH_RUNS, runs - i), timer->times + i, error);
    if (code == GS_OK && timer->neighbor)
        code = gs_cuda_check(&timer->api, atomic_load(&timer->neighbor->failed), "the neighbor", error);
    if (code == GS_OK)
        print_times(timer, name, launch, runs);
    return code;
}

/* ---- cases ---- */

static gs_code add_arguments(struct timer *timer, struct work *work, const gs_launch_file *launch, gs_error *error) {
    gs_launch_outline outline = gs_launch_outline_of(launch);
    memcpy(work->call.grid, outline.grid, sizeof outline.grid);
    memcpy(work->call.block, outline.block, sizeof outline.block);
    work->call.shared_bytes = outline.shared_bytes;
    if (outline.arguments > MOST_ARGUMENTS)
        return gs_fail(error, GS_E_USAGE, "a launch has at most %d arguments", MOST_ARGUMENTS);
    for (size_t i = 0; i < outline.arguments; i++) {
        gs_launch_part part = gs_launch_part_at(launch, i);
        size_t bytes = part.is_buffer ? part.count * gs_scalar_bytes(part.type) : gs_scalar_bytes(part.type);
        gs_job_argument *argument = &work->arguments[work->count++];
        *argument = (gs_job_argument){.buffer = part.is_buffer ? (int32_t)i : -1, .bytes = (uint32_t)bytes};
        if (!part.is_buffer) {
            memcpy(argument->value, part.value, bytes);
            continue;
        }
        int failed = timer->api.alloc(&work->buffers[i], bytes);
        failed = failed ? failed : timer->api.set_bytes(work->buffers[i], 0, bytes);
        if (failed)
            return gs_cuda_check(&timer->api, failed, "taking memory", error);
    }
    return GS_OK;
}

static gs_code open_work(struct timer *timer, struct work *work, const char *path, const char *symbol,
                         const gs_launch_file *launch, gs_error *error) {
    char *image = NULL;
    size_t size = 0;
    gs_code code = gs_input_all(path, (size_t)64 << 20, &image, &size, error);
    if (code != GS_OK)
        return code;
    int failed = gs_modules_load(&timer->modules, &timer->api, image);
    failed = failed ? failed : gs_cuda_kernel_find(&timer->api, timer->modules.data[1], symbol, &work->kernel);
    free(image);
    code = gs_cuda_check(&timer->api, failed, "loading a kernel", error);
    if (code == GS_OK)
        code = add_arguments(timer, work, launch, error);
    if (code == GS_OK && work->call.shared_bytes)
        code =
            gs_cuda_check(&timer->api, gs_cuda_kernel_allow_shared(&timer->api, &work->kernel, work->call.shared_bytes),
                          "taking shared memory", error);
    return code;
}

static gs_code time_case(struct timer *timer, const char *path, const char *symbol, const char *launch_path,
                         int64_t runs, gs_error *error) {
    struct work work = {.call = {.stream = timer->stream}};
    gs_launch_file *launch = gs_launch_open(launch_path, error);
    gs_code code = launch ? open_work(timer, &work, path, symbol, launch, error) : error->code;
    if (code == GS_OK)
        code = time_work(timer, &work, symbol, launch_path, runs, error);
    gs_launch_free(launch);
    for (uint32_t i = 0; i < work.count; i++)
        if (work.buffers[i])
            timer->api.free(work.buffers[i]);
    if (timer->modules.count > 1)
        timer->api.module_unload(timer->modules.data[--timer->modules.count]);
    return code;
}

static gs_code time_cases(struct timer *timer, char *text, int64_t runs, gs_error *error) {
    struct work empty = {.kernel = timer->empty,
                         .call = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = timer->stream}};
    gs_code code = time_work(timer, &empty, "", "", EMPTY_RUNS, error);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && code == GS_OK; line = strtok_r(NULL, "\n", &rest)) {
        char *more = NULL, *path = strtok_r(line, " ", &more), *symbol = strtok_r(NULL, " ", &more);
        char *launch = strtok_r(NULL, " ", &more);
        code = launch ? time_case(timer, path, symbol, launch, runs, error)
                      : gs_fail(error, GS_E_USAGE, "a line of the cases is: CUBIN KERNEL LAUNCH");
    }
    return code;
}

/* ---- the GPU ---- */

static gs_code open_timer(struct timer *timer, int64_t runs, int *device, gs_error *error) {
    bool has_context = false;
    const cu_api *api = &timer->api;
    timer->times = calloc((size_t)gs_max(runs, EMPTY_RUNS) + LEAST_RUNS, sizeof *timer->times);
    gs_code code = timer->times ? gs_cuda_open(&timer->api, error) : gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_cuda_open_gpu(api, "0", device, &has_context, error);
    if (code != GS_OK)
        return code;
    int failed = api->stream_new(&timer->stream, CU_STREAM_NON_BLOCKING, 0);
    failed = failed ? failed : gs_modules_load(&timer->modules, api, own_text);
    failed = failed ? failed : gs_cuda_kernel_find(api, timer->modules.data[0], "hold", &timer->hold);
    failed = failed ? failed : gs_cuda_kernel_find(api, timer->modules.data[0], "empty", &timer->empty);
    for (int i = 0; i < 3 * BATCH_RUNS && !failed; i++)
        failed = api->event_new(&timer->events[i / 3][i % 3], 0);
    return gs_cuda_check(api, failed, "opening the GPU", error);
}

/* The stream of the timer gets some SMs, the neighbor all others. */
static gs_code start_neighbor(struct timer *timer, struct neighbor *neighbor, const char *kernel, int device,
                              gs_error *error) {
    const cu_api *api = neighbor->api = &timer->api;
    gs_code code = gs_cuda_green_two(api, device, PART_SMS, &timer->stream, &neighbor->stream, error);
    if (code != GS_OK)
        return code;
    timer->neighbor = neighbor;
    int failed = api->context_get(&neighbor->context);
    failed = failed ? failed : gs_cuda_kernel_find(api, timer->modules.data[0], kernel, &neighbor->kernel);
    failed = failed ? failed : api->alloc(&neighbor->data, (size_t)32 << NEIGHBOR_BITS);
    if (!failed)
        neighbor->has_thread = pthread_create(&neighbor->thread, NULL, disturb, neighbor) == 0;
    return gs_cuda_check(api, failed, "starting the neighbor", error);
}

static gs_code start_sweeps(struct timer *timer, gs_error *error) {
    int failed = gs_cuda_kernel_find(&timer->api, timer->modules.data[0], "neighbor", &timer->sweep);
    failed = failed ? failed : timer->api.alloc(&timer->swept, (size_t)32 << NEIGHBOR_BITS);
    return gs_cuda_check(&timer->api, failed, "starting the sweeps", error);
}

static gs_code measure(const char *cases, int64_t runs, const char *neighbor_kernel, bool is_cold, gs_error *error) {
    static struct neighbor neighbor;
    static struct timer timer;
    char *text = NULL;
    size_t size = 0;
    int device = 0;
    gs_code code = gs_input_all(cases, (size_t)64 << 20, &text, &size, error);
    if (code == GS_OK)
        code = open_timer(&timer, runs, &device, error);
    if (code == GS_OK && neighbor_kernel)
        code = start_neighbor(&timer, &neighbor, neighbor_kernel, device, error);
    if (code == GS_OK && is_cold)
        code = start_sweeps(&timer, error);
    if (code == GS_OK)
        code = time_cases(&timer, text, runs, error);
    atomic_store(&neighbor.stops, true);
    if (neighbor.has_thread)
        pthread_join(neighbor.thread, NULL);
    free(timer.times);
    free(text);
    return code;
}

int main(int count, char **words) {
    static const char *const modes[][2] = {{"beside", "neighbor"}, {"writing", "writer"}, {"cold", NULL}};
    gs_error error = {.code = GS_OK};
    char *end = NULL;
    int64_t runs = count > 2 ? strtoll(words[2], &end, 10) : 0;
    size_t mode = 0;
    while (count == 4 && mode < GS_COUNT(modes) && strcmp(words[3], modes[mode][0]) != 0)
        mode++;
    if (count < 3 || count > 4 || *end || runs < 1 || runs > MOST_RUNS || mode == GS_COUNT(modes)) {
        fprintf(stderr, "usage: bounds CASES RUNS [beside|writing|cold]\n");
        return 2;
    }
    const char *neighbor = count == 4 ? modes[mode][1] : NULL;
    gs_code code = measure(words[1], runs, neighbor, count == 4 && !neighbor, &error);
    if (code != GS_OK)
        fprintf(stderr, "bounds: %s\n", error.message);
    return code == GS_OK ? 0 : code == GS_E_NO_GPU ? 3 : 1;
}
