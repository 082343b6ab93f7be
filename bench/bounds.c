/*
 * bounds.c: times a kernel on a GPU, alone or beside the worst neighbor on other SMs, to compare with its bound. See
 * docs/bounds.md; bounds.py calls it for many kernels.
 *
 *   bounds PTX KERNEL LAUNCH RUNS [beside]
 *
 * The PTX is assembled by ptxas, as `gridsmith bound` does it. The GPU is idle before each run. A run lasts from the
 * call of the launch until the host knows of its end. With `beside` the kernel has 64 SMs, and 64 others are full of
 * warps that read at random addresses all the time. The result is one line of JSON.
 */
#include "kernels/cpu/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 64, MOST_RUNS = 1000000, PART_SMS = 64, NEIGHBOR_THREADS = 1024, NEIGHBOR_BITS = 26 };

static const char neighbor_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry neighbor(.param .u64 data, .param .u32 mask, .param .u32 rounds) {\n"
    "\t.reg .pred %more;\n\t.reg .b32 %x, %block, %threads, %mask, %rounds, %unit, %value;\n\t.reg .b64 %data, %at;\n"
    "\tmov.u32 %x, %tid.x;\n\tmov.u32 %block, %ctaid.x;\n\tmov.u32 %threads, %ntid.x;\n"
    "\tmad.lo.u32 %x, %block, %threads, %x;\n"
    "\tld.param.u64 %data, [data];\n\tld.param.u32 %mask, [mask];\n\tld.param.u32 %rounds, [rounds];\n"
    "\tcvta.to.global.u64 %data, %data;\n"
    "next:\n"
    "\tmad.lo.u32 %x, %x, 1664525, 1013904223;\n\tshr.u32 %unit, %x, 4;\n\tand.b32 %unit, %unit, %mask;\n"
    "\tmul.wide.u32 %at, %unit, 32;\n\tadd.u64 %at, %data, %at;\n"
    "\tld.volatile.global.u32 %value, [%at];\n\tadd.u32 %x, %x, %value;\n"
    "\tsub.u32 %rounds, %rounds, 1;\n\tsetp.ne.u32 %more, %rounds, 0;\n\t@%more bra next;\n"
    "\tret;\n}\n";

/* A kernel with its arguments on a stream. */
struct kernel {
    gs_app_stream *stream;
    gs_app_launch call;
    gs_job_argument arguments[MOST_ARGUMENTS];
    uint64_t buffers[MOST_ARGUMENTS];
};

struct neighbor {
    struct kernel kernel;
    pthread_t thread;
    atomic_bool stops;
    _Atomic int64_t launches;
    gs_error error;
};

static gs_code load_kernel(struct kernel *kernel, const char *place, const char *name, const char *text, size_t size,
                           const char *symbol, gs_error *error) {
    gs_build build = {.name = name, .text = text, .size = size, .kernels = &symbol, .kernel_count = 1};
    kernel->stream = gs_app_stream_cuda(place, error);
    if (!kernel->stream)
        return error->code;
    gs_code code = kernel->stream->ops->enter(kernel->stream, error);
    return code == GS_OK ? kernel->stream->ops->load(kernel->stream, &build, &kernel->call.module, error) : code;
}

static gs_code add_buffer(struct kernel *kernel, size_t bytes, const void *data, gs_error *error) {
    uint32_t number = kernel->call.argument_count;
    gs_code code = kernel->stream->ops->allocate(kernel->stream, bytes, &kernel->buffers[number], error);
    if (code == GS_OK && data)
        code = kernel->stream->ops->copy_in(kernel->stream, kernel->buffers[number], data, bytes, error);
    kernel->arguments[kernel->call.argument_count++] = (gs_job_argument){.buffer = (int32_t)number};
    return code;
}

static void add_value(struct kernel *kernel, const void *value, uint32_t bytes) {
    gs_job_argument argument = {.buffer = -1, .bytes = bytes};
    memcpy(argument.value, value, bytes);
    kernel->arguments[kernel->call.argument_count++] = argument;
}

/* The arguments of a launch file. */
static gs_code add_arguments(struct kernel *kernel, const gs_launch_file *launch, gs_error *error) {
    gs_launch_outline outline = gs_launch_outline_of(launch);
    gs_code code = GS_OK;
    memcpy(kernel->call.grid, outline.grid, sizeof outline.grid);
    memcpy(kernel->call.block, outline.block, sizeof outline.block);
    kernel->call.shared_bytes = outline.shared_bytes;
    if (outline.arguments > MOST_ARGUMENTS)
        return gs_fail(error, GS_E_USAGE, "a launch has at most %d arguments", MOST_ARGUMENTS);
    for (size_t i = 0; i < outline.arguments && code == GS_OK; i++) {
        gs_launch_part part = gs_launch_part_at(launch, i);
        size_t bytes = part.is_buffer ? part.count * gs_scalar_bytes(part.type) : gs_scalar_bytes(part.type);
        if (!part.is_buffer) {
            add_value(kernel, part.value, (uint32_t)bytes);
            continue;
        }
        void *data = malloc(bytes + 1);
        if (!data)
            return gs_fail_memory(error);
        gs_launch_part_fill(launch, i, data);
        code = add_buffer(kernel, bytes, data, error);
        free(data);
    }
    return code;
}

static gs_code launch_kernel(struct kernel *kernel, gs_error *error) {
    kernel->call.arguments = kernel->arguments;
    kernel->call.buffers = kernel->buffers;
    return kernel->stream->ops->launch(kernel->stream, &kernel->call, error);
}

/* ---- the neighbor ---- */

static gs_code open_neighbor(struct neighbor *neighbor, gs_error *error) {
    struct kernel *kernel = &neighbor->kernel;
    const uint32_t mask = ((uint32_t)1 << NEIGHBOR_BITS) - 1, rounds = 200;
    char place[40];
    snprintf(place, sizeof place, "0,sms=%d,part=1", PART_SMS);
    gs_code code =
        load_kernel(kernel, place, "neighbor.ptx", neighbor_text, sizeof neighbor_text - 1, "neighbor", error);
    if (code == GS_OK)
        code = add_buffer(kernel, (size_t)32 << NEIGHBOR_BITS, NULL, error);
    if (code != GS_OK)
        return code;
    add_value(kernel, &mask, sizeof mask);
    add_value(kernel, &rounds, sizeof rounds);
    for (int i = 0; i < 3; i++)
        kernel->call.grid[i] = kernel->call.block[i] = 1;
    kernel->call.grid[0] = 2 * PART_SMS;
    kernel->call.block[0] = NEIGHBOR_THREADS;
    return GS_OK;
}

static void *disturb(void *given) {
    enum { BATCH = 16 };
    struct neighbor *neighbor = given;
    gs_app_stream *stream = neighbor->kernel.stream;
    gs_code code = stream->ops->enter(stream, &neighbor->error);
    while (code == GS_OK && !atomic_load(&neighbor->stops)) {
        for (int i = 0; i < BATCH && code == GS_OK; i++)
            code = launch_kernel(&neighbor->kernel, &neighbor->error);
        atomic_fetch_add(&neighbor->launches, BATCH);
        if (code == GS_OK)
            code = stream->ops->wait(stream, &neighbor->error);
    }
    return NULL;
}

/* ---- runs ---- */

static gs_code time_run(struct kernel *kernel, int64_t *ns, gs_error *error) {
    bool is_done = false;
    int64_t began = gs_now_ns();
    gs_code code = launch_kernel(kernel, error);
    while (code == GS_OK && !is_done)
        code = kernel->stream->ops->poll(kernel->stream, &is_done, error);
    *ns = gs_now_ns() - began;
    return code;
}

/* The first run does not count: the driver loads code then. */
static gs_code time_runs(struct kernel *kernel, int64_t *times, int64_t runs, gs_error *error) {
    int64_t first;
    gs_code code = time_run(kernel, &first, error);
    for (int64_t i = 0; i < runs && code == GS_OK; i++)
        code = time_run(kernel, &times[i], error);
    return code;
}

static void print_times(int64_t *times, int64_t runs, const struct neighbor *neighbor, bool is_beside) {
    qsort(times, (size_t)runs, sizeof *times, gs_compare_int64);
    printf("{\"runs\":%lld,\"least_ns\":%lld,\"median_ns\":%lld,\"p99_ns\":%lld,\"most_ns\":%lld", (long long)runs,
           (long long)times[0], (long long)times[runs / 2], (long long)times[runs * 99 / 100],
           (long long)times[runs - 1]);
    if (is_beside)
        printf(",\"neighbor_launches\":%lld", (long long)atomic_load(&neighbor->launches));
    printf("}\n");
}

static gs_code measure(const char *path, const char *symbol, const gs_launch_file *launch, int64_t runs, bool is_beside,
                       gs_error *error) {
    static struct neighbor neighbor;
    struct kernel kernel = {0};
    char *text = NULL, place[40] = "0";
    size_t size = 0;
    int64_t *times = calloc((size_t)runs, sizeof *times);
    bool has_thread = false;
    gs_code code = times ? gs_input_all(path, (size_t)64 << 20, &text, &size, error) : gs_fail_memory(error);
    if (code == GS_OK && is_beside)
        code = open_neighbor(&neighbor, error);
    if (code == GS_OK && is_beside) {
        snprintf(place, sizeof place, "0,sms=%d,part=0", PART_SMS);
        has_thread = pthread_create(&neighbor.thread, NULL, disturb, &neighbor) == 0;
    }
    if (code == GS_OK)
        code = load_kernel(&kernel, place, path, text, size, symbol, error);
    if (code == GS_OK)
        code = add_arguments(&kernel, launch, error);
    if (code == GS_OK)
        code = time_runs(&kernel, times, runs, error);
    atomic_store(&neighbor.stops, true);
    if (has_thread)
        pthread_join(neighbor.thread, NULL);
    if (code == GS_OK && neighbor.error.code != GS_OK)
        *error = neighbor.error, code = error->code;
    if (code == GS_OK)
        print_times(times, runs, &neighbor, is_beside);
    gs_app_stream_close(kernel.stream);
    gs_app_stream_close(neighbor.kernel.stream);
    free(times);
    free(text);
    return code;
}

int main(int count, char **words) {
    gs_error error = {.code = GS_OK};
    char *end = NULL;
    int64_t runs = count > 4 ? strtoll(words[4], &end, 10) : 0;
    bool is_beside = count == 6 && strcmp(words[5], "beside") == 0;
    if (count < 5 || count > 6 || *end || runs < 1 || runs > MOST_RUNS || (count == 6 && !is_beside)) {
        fprintf(stderr, "usage: bounds PTX KERNEL LAUNCH RUNS [beside]\n");
        return 2;
    }
    gs_launch_file *launch = gs_launch_open(words[3], &error);
    gs_code code = launch ? measure(words[1], words[2], launch, runs, is_beside, &error) : error.code;
    gs_launch_free(launch);
    if (code != GS_OK)
        fprintf(stderr, "bounds: %s\n", error.message);
    return code == GS_OK ? 0 : code == GS_E_NO_GPU ? 3 : 1;
}
