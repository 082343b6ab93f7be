/*
 * keeper_cost.c: whether a tiny kernel keeps the GPU for a process without MPS while a request has moments without
 * work:
 *
 *     keeper_cost calibrate                                     prints two numbers, for ROUNDS below
 *     keeper_cost work ROUNDS US FILE                           launches kernels of US on all SMs until its input ends
 *     keeper_cost serve NAME ROUNDS FILE KIND,... KEEPERS,...   measures requests: a line of JSON for each pair
 *
 * Run `work` and `serve` under `gridsmith run --no-mps`, in their classes, `serve` with GRIDSMITH_KEEPERS=0:
 * Gridsmith's own keepers (src/sharing/gate/gate_keeper.c) would be there, too. KIND: kernel (one of 0.4 ms), tokens
 * (ten, each 8 kernels of 5 us that are waited for, with gaps of 20 to 50 us), eager (60 kernels of 5 us, each launched
 * 10 to 30 us after the last one), streams (the same, in 16 streams in turn), whole (10 kernels of 50 us that need the
 * shared memory of all SMs, launched so).
 *
 * A keeper is a kernel of one thread. It reads a word of the host until that says that the request has ended, with a
 * pause between two reads. KEEPERS: none, or their number, the pause in ns, and the priority (low, high) of their
 * stream, as in 2-1000-low: of several, all but the first are behind it in the stream. They are launched before the
 * first kernel of a request, by the driver itself: Gridsmith's library does not see them. Each tells how often it was
 * interrupted, which is when two reads are 40 us apart.
 *
 * FILE is memory that both programs share: the kernels of `work` write their number there. Kernels compute, so that
 * the time in which they are interrupted does not count. Needs only libcuda.so.1.
 */
#define _GNU_SOURCE
#include "plain_driver.h"

#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static const char kernels[] =
    ".version 6.3\n.target sm_70\n.address_size 64\n"
    ".visible .entry compute(.param .u64 rounds, .param .u64 done, .param .u64 number) {\n"
    ".reg .u64 %left, %at, %number;\n.reg .u32 %block;\n.reg .f32 %x;\n.reg .pred %again, %skips;\n"
    "ld.param.u64 %left, [rounds];\nld.param.u64 %at, [done];\nld.param.u64 %number, [number];\n"
    "cvt.rn.f32.u64 %x, %left;\n"
    "loop: fma.rn.f32 %x, %x, 0f3F000000, 0f3F800000;\nfma.rn.f32 %x, %x, 0f3F000000, 0f3F800000;\n"
    "fma.rn.f32 %x, %x, 0f3F000000, 0f3F800000;\nfma.rn.f32 %x, %x, 0f3F000000, 0f3F800000;\n"
    "sub.u64 %left, %left, 1;\nsetp.ne.u64 %again, %left, 0;\n@%again bra loop;\n"
    "mov.u32 %block, %ctaid.x;\nsetp.ne.u32 %skips, %block, 0;\nsetp.eq.or.f32 %skips, %x, 0f00000000, %skips;\n"
    "setp.eq.or.u64 %skips, %at, 0, %skips;\n@%skips ret;\nst.volatile.global.u64 [%at], %number;\nret;\n}\n"
    ".visible .entry keep(.param .u64 word, .param .u32 number, .param .u32 pause, .param .u64 limit, .param .u64 "
    "report"
    ") {\n"
    ".reg .u64 %word, %report, %limit, %start, %last, %now, %ns, %away;\n"
    ".reg .u32 %number, %pause, %seen, %times, %reads;\n.reg .pred %ends, %was_away;\n"
    "ld.param.u64 %word, [word];\nld.param.u32 %number, [number];\nld.param.u32 %pause, [pause];\n"
    "ld.param.u64 %limit, [limit];\nld.param.u64 %report, [report];\n"
    "mov.u64 %start, %globaltimer;\nmov.u64 %last, %start;\nmov.u64 %away, 0;\nmov.u32 %times, 0;\nmov.u32 %reads, 0;\n"
    "again: ld.volatile.global.u32 %seen, [%word];\nmov.u64 %now, %globaltimer;\nadd.u32 %reads, %reads, 1;\n"
    "sub.u64 %ns, %now, %last;\nmov.u64 %last, %now;\nsetp.gt.u64 %was_away, %ns, 40000;\n"
    "@%was_away add.u32 %times, %times, 1;\n@%was_away add.u64 %away, %away, %ns;\n"
    "sub.u32 %seen, %seen, %number;\nsetp.ge.s32 %ends, %seen, 0;\nsub.u64 %ns, %now, %start;\n"
    "setp.gt.or.u64 %ends, %ns, %limit, %ends;\n@%ends bra done;\nnanosleep.u32 %pause;\nbra again;\n"
    "done: st.volatile.global.u64 [%report], %ns;\nst.volatile.global.u64 [%report+8], %away;\n"
    "st.volatile.global.u32 [%report+16], %times;\nst.volatile.global.u32 [%report+20], %reads;\nret;\n}\n";

enum {
    REQUESTS = 150,
    WARM_UP = 30,
    MOST_NS = 1000000000, /* of the requests of a pair: 6 times as much */
    LIMIT_NS = 100000000, /* of a keeper */
    WORK_BLOCKS = 264,    /* all threads of an H200 */
    WORK_THREADS = 1024,
    BLOCKS = 132,
    THREADS = 256,
    STREAMS = 16,
    SHARED_BYTES = 227 << 10, /* of an SM, for a block */
    MOST_SHARED = 8,          /* an attribute of a kernel */
    REPORTS = 512,
    MAPPED = 2 /* of cuMemHostAlloc and cuMemHostRegister */
};

typedef int launch_call(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                        void **);

/* What a keeper has seen. */
struct report {
    uint64_t lived_ns, away_ns;
    uint32_t times, reads;
};

struct mapped {
    _Atomic uint32_t ended; /* the number of the last request that has ended */
    struct report reports[REPORTS];
};

struct keepers {
    const char *name;
    unsigned count;
    uint32_t pause_ns;
    void *stream;
};

static struct {
    void *compute, *keep, *stream, *streams[STREAMS], *low, *high;
    launch_call *launch, *launch_keeper;
    int (*synchronize)(void *);
    struct mapped *mapped;
    uint64_t on_device;
    uint32_t request, launched; /* keepers */
    double rounds;              /* for 1 us */
    volatile uint64_t *done;    /* by the work, in us */
} gpu;

static double now_us(void) {
    return (double)now_ns() / 1e3;
}

static void spin_us(double us) {
    for (double end = now_us() + us; now_us() < end;)
        ;
}

static void compute_in(void *stream, unsigned blocks, unsigned threads, unsigned shared, uint64_t rounds, uint64_t done,
                       uint64_t number) {
    void *values[] = {&rounds, &done, &number};
    check("cuLaunchKernel", gpu.launch(gpu.compute, blocks, 1, 1, threads, 1, 1, shared, stream, values, NULL));
}

static void compute(unsigned blocks, unsigned threads, uint64_t rounds, uint64_t done, uint64_t number) {
    compute_in(gpu.stream, blocks, threads, 0, rounds, done, number);
}

static void synchronize(void) {
    check("cuStreamSynchronize", gpu.synchronize(gpu.stream));
}

/* ---- how fast kernels compute ---- */

static double best_us(unsigned blocks, unsigned threads, uint64_t rounds) {
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        double start = now_us();
        compute(blocks, threads, rounds, 0, 0);
        synchronize();
        double us = now_us() - start;
        best = us < best ? us : best;
    }
    return best;
}

static double rounds_in_us(unsigned blocks, unsigned threads) {
    enum { FEW = 10000, MANY = 60000 };
    return (MANY - FEW) / (best_us(blocks, threads, MANY) - best_us(blocks, threads, FEW));
}

/* ---- work ---- */

static volatile uint64_t *share(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096)) {
        perror(path);
        exit(1);
    }
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    return memory;
}

static int has_ended(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

static void work(double rounds, double us, const char *path) {
    uint64_t done = 0, number = 0;
    int ahead = us > 20000 ? 2 : (int)(40000 / us);
    volatile uint64_t *shared = share(path);
    CALL("cuMemHostRegister_v2", (void *, size_t, unsigned), (void *)(uintptr_t)shared, 4096, MAPPED);
    CALL("cuMemHostGetDevicePointer_v2", (uint64_t *, void *, unsigned), &done, (void *)(uintptr_t)shared, 0);
    while (!has_ended()) {
        for (int i = 0; i < ahead; i++)
            compute(WORK_BLOCKS, WORK_THREADS, (uint64_t)(us * rounds), done, number += (uint64_t)us);
        synchronize();
    }
}

/* ---- keepers ---- */

/* The driver behind Gridsmith's library. */
static int find_driver(struct dl_phdr_info *info, size_t size, void *found) {
    struct link_map *front = NULL;
    (void)size;
    if (dlinfo(library, RTLD_DI_LINKMAP, &front) || !strstr(info->dlpi_name, "libcuda.so") ||
        strcmp(info->dlpi_name, front->l_name) == 0)
        return 0;
    *(const char **)found = info->dlpi_name;
    return 1;
}

static void open_keepers(void) {
    const char *path = NULL;
    void *front = library, *module;
    int lowest = 0, highest = 0;
    dl_iterate_phdr(find_driver, &path);
    for (int i = 0; i < STREAMS; i++)
        CALL("cuStreamCreate", (void **, unsigned), &gpu.streams[i], 1);
    CALL("cuFuncSetAttribute", (void *, int, int), gpu.compute, MOST_SHARED, SHARED_BYTES);
    library = path ? dlopen(path, RTLD_NOW) : library;
    fprintf(stderr, "keeper: the driver is %s\n", path ? path : "libcuda.so.1");
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    void *launch = find("cuLaunchKernel");
    memcpy(&gpu.launch_keeper, &launch, sizeof launch);
    CALL("cuModuleLoadData", (void **, const void *), &module, kernels);
    CALL("cuModuleGetFunction", (void **, void *, const char *), &gpu.keep, module, "keep");
    CALL("cuCtxGetStreamPriorityRange", (int *, int *), &lowest, &highest);
    CALL("cuStreamCreateWithPriority", (void **, unsigned, int), &gpu.low, 1, lowest);
    CALL("cuStreamCreateWithPriority", (void **, unsigned, int), &gpu.high, 1, highest);
    CALL("cuMemHostAlloc", (void **, size_t, unsigned), (void **)&gpu.mapped, sizeof *gpu.mapped, MAPPED);
    CALL("cuMemHostGetDevicePointer_v2", (uint64_t *, void *, unsigned), &gpu.on_device, gpu.mapped, 0);
    memset(gpu.mapped, 0, sizeof *gpu.mapped);
    library = front;
}

static void begin_keepers(const struct keepers *keepers) {
    gpu.request++;
    for (unsigned i = 0; i < keepers->count; i++) {
        uint64_t limit = LIMIT_NS, report = gpu.on_device + offsetof(struct mapped, reports) +
                                            gpu.launched++ % REPORTS * sizeof(struct report);
        uint32_t pause = keepers->pause_ns;
        void *values[] = {&gpu.on_device, &gpu.request, &pause, &limit, &report};
        check("cuLaunchKernel", gpu.launch_keeper(gpu.keep, 1, 1, 1, 1, 1, 1, 0, keepers->stream, values, NULL));
    }
}

static void end_keepers(void) {
    atomic_store(&gpu.mapped->ended, gpu.request);
}

static struct keepers parse_keepers(const char *name) {
    struct keepers keepers = {.name = name};
    char priority[8] = "low";
    if (sscanf(name, "%u-%u-%7s", &keepers.count, &keepers.pause_ns, priority) < 1)
        keepers.count = 0;
    keepers.stream = strcmp(priority, "high") == 0 ? gpu.high : gpu.low;
    return keepers;
}

/* ---- requests ---- */

static double between(double least, double most) {
    return least + (most - least) * (rand() / (double)RAND_MAX);
}

static void run_us(double us) {
    compute(BLOCKS, THREADS, (uint64_t)(us * gpu.rounds), 0, 0);
}

static void one_kernel(void) {
    run_us(400);
    synchronize();
}

static void tokens(void) {
    for (int token = 0; token < 10; token++) {
        if (token)
            spin_us(between(20, 50));
        for (int i = 0; i < 8; i++)
            run_us(5);
        synchronize();
    }
}

static void eager(void) {
    for (int i = 0; i < 60; i++) {
        if (i)
            spin_us(between(10, 30));
        run_us(5);
    }
    synchronize();
}

static void many_streams(void) {
    for (int i = 0; i < 60; i++) {
        if (i)
            spin_us(between(10, 30));
        compute_in(gpu.streams[i % STREAMS], BLOCKS, THREADS, 0, (uint64_t)(5 * gpu.rounds), 0, 0);
    }
    for (int i = 0; i < STREAMS; i++)
        check("cuStreamSynchronize", gpu.synchronize(gpu.streams[i]));
}

static void whole(void) {
    for (int i = 0; i < 10; i++) {
        if (i)
            spin_us(between(10, 30));
        compute_in(gpu.stream, BLOCKS, THREADS, SHARED_BYTES, (uint64_t)(50 * gpu.rounds), 0, 0);
    }
    synchronize();
}

static const struct kind {
    const char *name;
    void (*request)(void);
} kinds[] = {{"kernel", one_kernel}, {"tokens", tokens}, {"eager", eager}, {"streams", many_streams}, {"whole", whole}};

static double request_us(const struct kind *kind, const struct keepers *keepers) {
    usleep(2000 + (useconds_t)(rand() % 4000));
    double start = now_us();
    if (keepers->count)
        begin_keepers(keepers);
    kind->request();
    double us = now_us() - start;
    if (keepers->count)
        end_keepers();
    return us;
}

/* What all keepers of the last requests have seen. */
static struct report sum_reports(uint32_t launched) {
    struct report sum = {0};
    for (uint32_t i = 0; i < launched && i < REPORTS; i++) {
        const struct report *report = &gpu.mapped->reports[i];
        sum.lived_ns += report->lived_ns;
        sum.away_ns += report->away_ns;
        sum.times += report->times;
        sum.reads += report->reads;
    }
    return sum;
}

static void serve(const char *name, const struct kind *kind, const struct keepers *keepers) {
    static double times[REQUESTS];
    uint64_t done = 0;
    double start = 0;
    int count = 0;
    for (int i = 0; i < WARM_UP + REQUESTS && (i <= WARM_UP || now_us() - start < 6.0 * MOST_NS / 1e3); i++) {
        if (i == WARM_UP) {
            usleep(2000);
            memset(gpu.mapped->reports, 0, sizeof gpu.mapped->reports);
            gpu.launched = 0;
            done = *gpu.done;
            start = now_us();
        }
        double us = request_us(kind, keepers);
        if (i >= WARM_UP)
            times[count++] = us;
    }
    double kept = (double)(*gpu.done - done) / (now_us() - start);
    usleep(5000);
    struct report report = sum_reports(gpu.launched);
    qsort(times, (size_t)count, sizeof *times, compare_numbers);
    printf(
        "{\"name\": \"%s\", \"kind\": \"%s\", \"keepers\": \"%s\", \"requests\": %d, \"us\": {\"p10\": %.0f, \"p50\": "
        "%.0f, \"p90\": %.0f, \"p99\": %.0f, \"most\": %.0f}, \"kept\": %.3f, \"launched\": %u, \"lived_us\": %.1f, "
        "\"interrupted\": %u, \"away_us\": %.1f, \"reads\": %u}\n",
        name, kind->name, keepers->name, count, times[count / 10], times[count / 2], times[count * 9 / 10],
        times[count * 99 / 100], times[count - 1], kept, gpu.launched,
        gpu.launched ? (double)report.lived_ns / 1e3 / gpu.launched : 0, report.times,
        report.times ? (double)report.away_ns / 1e3 / report.times : 0, report.reads);
    fflush(stdout);
}

static void serve_all(const char *name, char *kind_names, const char *keeper_names) {
    for (char *kind = strtok(kind_names, ","); kind; kind = strtok(NULL, ","))
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            char names[1000], *rest = NULL;
            snprintf(names, sizeof names, "%s", keeper_names);
            for (char *at = strtok_r(names, ",", &rest); at && strcmp(kind, kinds[i].name) == 0;
                 at = strtok_r(NULL, ",", &rest)) {
                struct keepers keepers = parse_keepers(at);
                serve(name, &kinds[i], &keepers);
            }
        }
}

/* How much of the time the work has the GPU while no request comes. */
static void show_idle(const char *name) {
    usleep(100000);
    uint64_t done = *gpu.done;
    double start = now_us();
    usleep(300000);
    printf("{\"name\": \"%s\", \"kind\": \"idle\", \"kept\": %.3f}\n", name,
           (double)(*gpu.done - done) / (now_us() - start));
}

int main(int argc, char **argv) {
    open_gpu(kernels, "compute", &gpu.compute, &gpu.stream);
    find_call("cuLaunchKernel", &gpu.launch);
    find_call("cuStreamSynchronize", &gpu.synchronize);
    if (argc == 2 && strcmp(argv[1], "calibrate") == 0) {
        printf("%.4f %.4f\n", rounds_in_us(WORK_BLOCKS, WORK_THREADS), rounds_in_us(BLOCKS, THREADS));
    } else if (argc == 5 && strcmp(argv[1], "work") == 0) {
        work(atof(argv[2]), atof(argv[3]), argv[4]);
    } else if (argc == 7 && strcmp(argv[1], "serve") == 0) {
        gpu.rounds = atof(argv[3]);
        gpu.done = share(argv[4]);
        open_keepers();
        show_idle(argv[2]);
        serve_all(argv[2], argv[5], argv[6]);
    } else {
        fprintf(stderr, "usage: keeper_cost calibrate | keeper_cost work ROUNDS US FILE | "
                        "keeper_cost serve NAME ROUNDS FILE KIND,... KEEPERS,...\n");
        return 2;
    }
    return 0;
}
