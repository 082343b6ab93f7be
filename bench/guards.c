/*
 * guards.c: kernels with a guard on a GPU: are they right however they are stopped, what does the guard cost while
 * nothing stops them, and how long does it take to stop one? See docs/run.md, and src/kernels/sass.
 *
 *   guards [ROUNDS]
 *
 * Each kernel runs as it was compiled, then in chains of launches that are stopped at random moments by a word in the
 * memory of the host. Each block must run once, and the results must be the same, bit by bit.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/sass/sass.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_LAUNCHES = 8, TIMES = 15, STOPS = 40, ROUNDS = 20, WAVES = 16, PARAMETERS = 3 };

/* Every kernel counts its blocks in `runs`, and computes `steps` steps into `out`. */
static const char source[] =
    "#define COUNT if (!threadIdx.x) atomicAdd(&runs[blockIdx.x], 1u)\n"
    "#define KERNEL(name) extern \"C\" __global__ void name(unsigned *runs, float *out, unsigned steps)\n"
    "__device__ float chain(float x, unsigned steps) {\n"
    "    for (unsigned i = 0; i < steps; i++) x = x * 0.999f + 0.001f;\n"
    "    return x;\n"
    "}\n"
    "KERNEL(plain) { COUNT; unsigned at = blockIdx.x * blockDim.x + threadIdx.x; out[at] = chain(at, steps); }\n"
    "KERNEL(barriers) {\n"
    "    __shared__ float part[1024];\n"
    "    COUNT;\n"
    "    part[threadIdx.x] = chain(blockIdx.x * 0.5f + threadIdx.x, steps);\n"
    "    for (unsigned half = blockDim.x / 2; half; half /= 2) {\n"
    "        __syncthreads();\n"
    "        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];\n"
    "    }\n"
    "    if (!threadIdx.x) out[blockIdx.x] = part[0];\n"
    "}\n"
    "KERNEL(look_back) {\n" /* a block waits for the one before it */
    "    COUNT;\n"
    "    float mine = chain(blockIdx.x, steps);\n"
    "    if (threadIdx.x) return;\n"
    "    volatile float *sums = out;\n"
    "    while (blockIdx.x && sums[blockIdx.x - 1] == 0) ;\n"
    "    float before = blockIdx.x ? sums[blockIdx.x - 1] : 0;\n"
    "    sums[blockIdx.x] = before + 1 + mine * 0;\n"
    "}\n"
    "KERNEL(locals) {\n"
    "    float many[64];\n"
    "    COUNT;\n"
    "    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    for (int i = 0; i < 64; i++) many[i] = at + i;\n"
    "    for (unsigned i = 0; i < steps / 8; i++) many[(i * 7 + at) % 64] += many[(i * 5 + 3) % 64] * 0.01f;\n"
    "    out[at] = many[at % 64];\n"
    "}\n"
    "KERNEL(tables) {\n"
    "    COUNT;\n"
    "    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    float x = at;\n"
    "    for (unsigned i = 0; i < steps / 4; i++)\n"
    "        switch ((i + at) % 8) {\n"
    "        case 0: x += 1; break; case 1: x *= 0.5f; break; case 2: x = sqrtf(x); break; case 3: x -= 3; break;\n"
    "        case 4: x = fabsf(x); break; case 5: x = sinf(x); break; case 6: x += at; break; default: x = 1 / (1 + x "
    "* x);\n"
    "        }\n"
    "    out[at] = x;\n"
    "}\n"
    "#if __CUDA_ARCH__ >= 900\n"
    "extern \"C\" __global__ void __cluster_dims__(4) clusters(unsigned *runs, float *out, unsigned steps) {\n"
    "    COUNT;\n"
    "    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    float x = chain(at, steps);\n"
    "    asm volatile(\"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\" ::: \"memory\");\n"
    "    out[at] = x;\n"
    "}\n"
    "#endif\n";

static const struct kind {
    const char *name;
    unsigned threads, steps, cluster;
} kinds[] = {
    {"plain", 256, 2000, 1},   {"plain", 256, 20000, 1},    {"plain", 256, 100000, 1},
    {"plain", 1024, 20000, 1}, {"barriers", 256, 20000, 1}, {"look_back", 128, 20000, 1},
    {"locals", 256, 4000, 1},  {"tables", 256, 4000, 1},    {"clusters", 256, 20000, 4},
};

struct bench {
    cu_api api;
    int device, sms, architecture;
    bool has_context;
    cu_stream stream;
    cu_event begin, end;
    cu_module plain, guarded;
    gs_guarded_list list;
    uint32_t *stop; /* of the host */
    cu_pointer stop_on_device, controls, runs, out;
    gs_guard_control *set, *got; /* of the host */
    gs_random random;
};

struct job {
    const struct kind *kind;
    cu_function plain, guarded;
    uint32_t blocks, resident, mask;
    uint64_t ns; /* of the original */
    size_t bytes;
    unsigned char *expected, *found;
};

static bool check(const struct bench *bench, int code, const char *what) {
    gs_error error;
    if (gs_cuda_check(&bench->api, code, what, &error) == GS_OK)
        return true;
    fprintf(stderr, "guards: %s\n", error.message);
    return false;
}

static int compare_double(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static uint64_t now_ns(void) {
    return (uint64_t)gs_now_ns();
}

static void spin_until(uint64_t ns) {
    while (now_ns() < ns)
        ;
}

/* ---- opening ---- */

static bool load(struct bench *bench) {
    const char *names[] = {"plain", "barriers", "look_back", "locals", "tables", "clusters"};
    size_t count = GS_COUNT(names) - (bench->architecture < 90);
    gs_build build = {
        .name = "guards.cu", .text = source, .size = sizeof source - 1, .kernels = names, .kernel_count = count};
    gs_cubin cubin;
    gs_sass_image image;
    gs_text text = {0};
    gs_error error;
    if (gs_cubin_make(&build, bench->architecture, &cubin, &error) != GS_OK ||
        gs_sass_read(&image, cubin.image, cubin.bytes, &error) != GS_OK ||
        gs_sass_guard(&image, &bench->list, &error) != GS_OK || gs_sass_write(&image, &text, &error) != GS_OK) {
        fprintf(stderr, "guards: %s\n", error.message);
        return false;
    }
    for (size_t i = 0; i < bench->list.count; i++)
        if (bench->list.data[i].refused)
            printf("%s has no guard: %s\n", bench->list.data[i].kernel, bench->list.data[i].refused);
    return check(bench, bench->api.module_load(&bench->plain, cubin.image), "loading the kernels") &&
           check(bench, bench->api.module_load(&bench->guarded, text.data), "loading the kernels with guards");
}

static bool open_bench(struct bench *bench) {
    cu_api *api = &bench->api;
    gs_error error;
    int major = 0, minor = 0;
    void *host = NULL;
    if (gs_cuda_open(api, &error) != GS_OK ||
        gs_cuda_open_gpu(api, "", &bench->device, &bench->has_context, &error) != GS_OK) {
        fprintf(stderr, "guards: %s\n", error.message);
        return false;
    }
    enum { MOST_BYTES = 1 << 28, MAPPED = 2, HOST_BYTES = 4096 };
    int failed = api->device_attribute(&bench->sms, CU_DEVICE_SMS, bench->device);
    failed = failed ? failed : api->device_attribute(&major, 75, bench->device);
    failed = failed ? failed : api->device_attribute(&minor, 76, bench->device);
    failed = failed ? failed : api->stream_new(&bench->stream, CU_STREAM_NON_BLOCKING, 0);
    failed = failed ? failed : api->event_new(&bench->begin, 0);
    failed = failed ? failed : api->event_new(&bench->end, 0);
    failed = failed ? failed : api->host_alloc(&host, HOST_BYTES, MAPPED);
    failed = failed ? failed : api->host_pointer(&bench->stop_on_device, host, 0);
    failed = failed ? failed : api->alloc(&bench->controls, HOST_BYTES);
    failed = failed ? failed : api->alloc(&bench->runs, MOST_BYTES);
    failed = failed ? failed : api->alloc(&bench->out, MOST_BYTES);
    bench->stop = host;
    bench->set = (gs_guard_control *)((char *)host + 1024);
    bench->got = (gs_guard_control *)((char *)host + 2048);
    bench->architecture = 10 * major + minor;
    bench->random = gs_random_at(1, 0);
    return check(bench, failed, "opening the GPU") && load(bench);
}

/* ---- launching ---- */

static cu_launch launch_of(const struct bench *bench, const struct job *job) {
    return (cu_launch){.grid_x = job->blocks,
                       .grid_y = 1,
                       .grid_z = 1,
                       .block_x = job->kind->threads,
                       .block_y = 1,
                       .block_z = 1,
                       .stream = bench->stream};
}

static bool clear(struct bench *bench, const struct job *job) {
    return check(bench, bench->api.set_bytes_later(bench->runs, 0, job->blocks * sizeof(uint32_t), bench->stream),
                 "clearing") &&
           check(bench, bench->api.set_bytes_later(bench->out, 0, job->bytes, bench->stream), "clearing");
}

static int launch_plain(struct bench *bench, const struct job *job) {
    unsigned steps = job->kind->steps;
    void *arguments[] = {&bench->runs, &bench->out, &steps};
    cu_launch launch = launch_of(bench, job);
    return bench->api.launch(&launch, job->plain, arguments, NULL);
}

/* The controls, and the launches from `first` on; the last of `count` cannot be stopped. */
static int set_controls(struct bench *bench, const struct job *job, uint32_t count) {
    uint32_t start = job->resident / job->kind->cluster;
    bench->set[0] = (gs_guard_control){0};
    for (uint32_t i = 1; i <= count; i++)
        bench->set[i] = (gs_guard_control){.word = start ? start : 1};
    return bench->api.copy_in_later(bench->controls, bench->set, (count + 1) * sizeof *bench->set, bench->stream);
}

static int launch_guarded(struct bench *bench, const struct job *job, uint32_t number, bool is_last) {
    unsigned steps = job->kind->steps;
    gs_guard_parameter parameter = {.control = bench->controls + number * sizeof(gs_guard_control),
                                    .stop = is_last ? bench->controls : bench->stop_on_device,
                                    .mask = job->mask};
    void *arguments[] = {&bench->runs, &bench->out, &steps, &parameter};
    cu_launch launch = launch_of(bench, job);
    return bench->api.launch(&launch, job->guarded, arguments, NULL);
}

static int launch_chain(struct bench *bench, const struct job *job, uint32_t count) {
    int failed = set_controls(bench, job, count);
    for (uint32_t i = 0; i < count && !failed; i++)
        failed = launch_guarded(bench, job, i, i + 1 == count);
    return failed;
}

/* ---- right ---- */

static bool is_right(struct bench *bench, const struct job *job, const char *when) {
    uint32_t *runs = (uint32_t *)(void *)job->found;
    if (!check(bench, bench->api.copy_out(runs, bench->runs, job->blocks * sizeof *runs), "reading"))
        return false;
    for (uint32_t i = 0; i < job->blocks; i++)
        if (runs[i] != 1) {
            printf("%s, %s: block %u ran %u times\n", job->kind->name, when, i, runs[i]);
            return false;
        }
    if (!check(bench, bench->api.copy_out(job->found, bench->out, job->bytes), "reading"))
        return false;
    bool is_same = memcmp(job->found, job->expected, job->bytes) == 0;
    if (!is_same)
        printf("%s, %s: the results differ\n", job->kind->name, when);
    return is_same;
}

/* Stops the kernel at random moments until it is done. */
static bool stop_at_random(struct bench *bench, const struct job *job, int *stops) {
    uint32_t count = (uint32_t)gs_random_from(&bench->random, 1, MOST_LAUNCHES);
    int code;
    if (!clear(bench, job) || !check(bench, bench->api.stream_wait(bench->stream), "clearing") ||
        !check(bench, launch_chain(bench, job, count), "launching"))
        return false;
    while ((code = bench->api.stream_query(bench->stream)) == CU_ERROR_NOT_READY) {
        gs_shared_word_set(bench->stop, 0);
        spin_until(now_ns() + (uint64_t)gs_random_from(&bench->random, 0, (int64_t)job->ns));
        gs_shared_word_set(bench->stop, 1);
        spin_until(now_ns() + (uint64_t)gs_random_from(&bench->random, 0, 100000));
    }
    gs_shared_word_set(bench->stop, 0);
    if (!check(bench, code, "running") ||
        !check(bench, bench->api.copy_out(bench->got, bench->controls, (count + 1) * sizeof *bench->got), "reading"))
        return false;
    for (uint32_t i = 1; i <= count; i++)
        *stops += bench->got[i].word >> 31;
    return is_right(bench, job, "stopped");
}

/* ---- times ---- */

/* The median of the times of a launch; `launches` 0: the original. */
static double measure(struct bench *bench, const struct job *job, uint32_t launches, double *times) {
    for (int i = 0; i < TIMES; i++) {
        float ms = 0;
        int failed = launches ? set_controls(bench, job, launches) : 0;
        failed = failed ? failed : bench->api.event_record(bench->begin, bench->stream);
        for (uint32_t k = 0; k < launches && !failed; k++)
            failed = launch_guarded(bench, job, k, k + 1 == launches);
        failed = failed || launches ? failed : launch_plain(bench, job);
        failed = failed ? failed : bench->api.event_record(bench->end, bench->stream);
        failed = failed ? failed : bench->api.stream_wait(bench->stream);
        failed = failed ? failed : bench->api.event_elapsed(&ms, bench->begin, bench->end);
        if (!check(bench, failed, "measuring"))
            return 0;
        times[i] = ms * 1e3;
    }
    qsort(times, TIMES, sizeof *times, compare_double);
    return times[TIMES / 2];
}

/* From the flag to the end of the launch, in us: the median and the worst. */
static bool measure_stops(struct bench *bench, const struct job *job, double *median, double *worst) {
    double times[STOPS];
    for (int i = 0; i < STOPS; i++) {
        int failed = set_controls(bench, job, 2);
        failed = failed ? failed : bench->api.stream_wait(bench->stream);
        uint64_t begun = now_ns();
        failed = failed ? failed : launch_guarded(bench, job, 0, false);
        spin_until(begun + (uint64_t)gs_random_from(&bench->random, (int64_t)job->ns / 10, (int64_t)job->ns / 2));
        uint64_t flagged = now_ns();
        gs_shared_word_set(bench->stop, 1);
        failed = failed ? failed : gs_cuda_wait_until(&bench->api, bench->stream, 0);
        times[i] = (double)(now_ns() - flagged) / 1e3;
        gs_shared_word_set(bench->stop, 0);
        failed = failed ? failed : launch_guarded(bench, job, 1, true);
        failed = failed ? failed : bench->api.stream_wait(bench->stream);
        if (!check(bench, failed, "stopping"))
            return false;
    }
    qsort(times, STOPS, sizeof *times, compare_double);
    *median = times[STOPS / 2];
    *worst = times[STOPS - 1];
    return true;
}

/* ---- one kernel ---- */

/* As src/sharing/gate does it: a look at the stop word in about 4 us. */
static uint32_t mask_of(const struct job *job) {
    enum { LOOK_NS = 4000, MOST_AHEAD = 1024 };
    uint64_t wanted = (uint64_t)job->resident / job->kind->cluster * LOOK_NS * WAVES / (job->ns + 1);
    uint32_t ahead = 1;
    while (ahead < MOST_AHEAD && ahead * 2 <= wanted)
        ahead *= 2;
    return ahead - 1;
}

static bool prepare(struct bench *bench, struct job *job) {
    int fit = 0;
    int failed = bench->api.module_function(&job->plain, bench->plain, job->kind->name);
    failed = failed ? failed : bench->api.module_function(&job->guarded, bench->guarded, job->kind->name);
    failed = failed ? failed : bench->api.occupancy(&fit, job->plain, (int)job->kind->threads, 0);
    job->resident = (uint32_t)(fit * bench->sms);
    job->blocks = job->resident * WAVES / job->kind->cluster * job->kind->cluster;
    job->bytes = (size_t)job->blocks * job->kind->threads * sizeof(float);
    job->expected = malloc(job->bytes);
    job->found = malloc(job->bytes);
    if (!check(bench, failed, job->kind->name) || !job->expected || !job->found || !clear(bench, job) ||
        !check(bench, launch_plain(bench, job), "launching") ||
        !check(bench, bench->api.stream_wait(bench->stream), "running"))
        return false;
    return check(bench, bench->api.copy_out(job->expected, bench->out, job->bytes), "reading");
}

static bool try_kernel(struct bench *bench, const struct kind *kind, int rounds) {
    struct job job = {.kind = kind};
    double times[TIMES], median = 0, worst = 0;
    int stops = 0;
    if (!prepare(bench, &job))
        return false;
    double original = measure(bench, &job, 0, times);
    job.ns = (uint64_t)(original * 1e3);
    job.mask = mask_of(&job);
    bool good = true;
    for (int i = 0; i < rounds && good; i++)
        good = stop_at_random(bench, &job, &stops);
    double one = measure(bench, &job, 1, times), two = measure(bench, &job, 2, times),
           four = measure(bench, &job, 4, times), again = measure(bench, &job, 0, times);
    double base = (original + again) / 2;
    good = good && measure_stops(bench, &job, &median, &worst);
    if (good)
        printf("%-10s %5u %7u %9.1f %7.1f %6d %+6.1f%% %+6.1f%% %+6.1f%% %8.1f %8.1f\n", kind->name, kind->threads,
               job.blocks, base, base / WAVES, stops, 100 * (one / base - 1), 100 * (two / base - 1),
               100 * (four / base - 1), median, worst);
    fflush(stdout);
    free(job.expected);
    free(job.found);
    return good;
}

int main(int argc, char **argv) {
    static struct bench bench;
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS, wrong = 0;
    if (!open_bench(&bench))
        return 3;
    printf("kernel     threads blocks        us  a wave  stops   chains of 1, 2 and 4      stop us    worst\n");
    for (size_t i = 0; i < GS_COUNT(kinds); i++)
        if (bench.architecture >= 90 || kinds[i].cluster == 1)
            wrong += !try_kernel(&bench, &kinds[i], rounds);
    printf(wrong ? "%d kernels are wrong\n" : "all are right\n", wrong);
    return wrong ? 1 : 0;
}
