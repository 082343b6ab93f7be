/*
 * bench.c: how fast blocks are placed, by the engine and by the literal algorithm, in one run of one program; and the
 * speed of other parts.
 *
 * literal: by the engine and by the literal algorithm; scale: on 16 to 1,024 SMs; each with:
 *   mixed    kernels of random shapes, launched and ended, more than fit: each launch is a new shape
 *   waves    one kernel of a million blocks with a duration: each block is placed when another ends
 *   program  200,000 launches with 200 million blocks, as a traced program has them: on one stream, on two, and on one
 *            with a small kernel beside
 *   streams  the same on 1 to 32 streams: the cost of a block, and the memory
 *   memory   ten million blocks with a duration, with everything that a prediction records
 *   replay   the recorded corpus, read, predicted and scored
 *   shrink   runs of twenty kernels and more on a GPU that always skips one SM, shrunk to the kernel that shows it
 *   bound    exact worst cases by the search and by trying every schedule, and proven bounds
 *   host     threads of a kernel on the CPU that wait at barriers
 *   plan     which kernels run together: decisions among 2, 16 and 64, and by trying every partner and split
 *
 * Times are the best of several rounds, so that other load of the machine has little effect. A word on the command line
 * chooses one part: bench program.
 */
#include "kernels/cpu/cpu.h"
#include "lab/fuzz/fuzz.h"
#include "literal.h"
#include "literal_bound.h"
#include "literal_decide.h"
#include "model/bound/bound.h"
#include "model/check/check.h"
#include "model/timeline/timeline.h"
#include "random.h"
#include "sharing/decide/decide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const gs_error *error) {
    fprintf(stderr, "bench: %s\n", error->message);
    exit(4);
}

static gs_gpu *gpu_with(int32_t sms) {
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("a100", &error);
    if (!gpu)
        fail(&error);
    gpu->sms = sms;
    return gpu;
}

static void add_launch(gs_run *run, const gs_shape *shape, int64_t blocks, int64_t duration_ns) {
    gs_error error;
    gs_launch launch = gs_launch_default();
    char name[24];
    snprintf(name, sizeof name, "k%zu", run->launches.count);
    launch.kernel = strdup(name);
    launch.shape = *shape;
    launch.blocks = blocks;
    launch.duration_ns = duration_ns;
    if (!launch.kernel || gs_run_add_launch(run, &launch, &error) != GS_OK)
        exit(4);
}

/* Launches of twice as many blocks as SMs; the oldest ends when the GPU has become full. The same on any GPU. */
static gs_run *mixed_run(const gs_gpu *gpu, int launches) {
    gs_random random = gs_random_at(5, 0);
    gs_run *run = gs_run_new(NULL);
    for (int i = 0; run && i < launches; i++) {
        gs_shape shape = random_shape(&random, gpu);
        add_launch(run, &shape, 2 * gpu->sms, 0);
        if (i >= 4 && !gs_run_add_event(run, GS_EXIT, (size_t)i - 4, NULL))
            exit(4);
    }
    return run;
}

static gs_run *waves_run(int64_t blocks) {
    gs_run *run = gs_run_new(NULL);
    gs_shape shape = {.threads = 256, .registers = 40, .shared_bytes = 4096, .carveout_percent = GS_NO_CARVEOUT};
    if (run)
        add_launch(run, &shape, blocks, 80000);
    return run;
}

/* A traced program: 200 kernels round-robin, of 1,000 blocks on average, whose durations vary a little. They are on one
   stream, or every `second` launch is on another one; with `side`, another stream has a kernel of 24 blocks running at
   all times. */
static gs_run *program_run(const gs_gpu *gpu, int launches, int second, bool side) {
    enum { KERNELS = 200 };
    gs_random random = gs_random_at(6, 0);
    gs_shape shapes[KERNELS];
    int64_t blocks[KERNELS];
    gs_run *run = gs_run_new(NULL);
    gs_shape small = {.threads = 256, .registers = 40, .shared_bytes = 4096, .carveout_percent = GS_NO_CARVEOUT};
    for (int i = 0; i < KERNELS; i++) {
        shapes[i] = random_shape(&random, gpu);
        shapes[i].local_bytes = 0;
        blocks[i] = i % 10 ? gs_random_from(&random, 1, 800) : gs_random_from(&random, 1, 12800);
    }
    for (int i = 0; run && i < launches; i++) {
        add_launch(run, &shapes[i % KERNELS], blocks[i % KERNELS], gs_random_from(&random, 2000, 90000));
        gs_launch *last = &run->launches.data[run->launches.count - 1];
        last->stream = (char *)(second && i % second == 0 ? "2" : "1"); /* the run does not free it */
        if (!side)
            continue;
        add_launch(run, &small, 24, gs_random_from(&random, 8000, 360000));
        run->launches.data[run->launches.count - 1].stream = (char *)"2";
    }
    return run;
}

/* ---- playing ---- */

static bool count_block(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    (void)launch, (void)block, (void)sm, (void)now_ns;
    ++*(int64_t *)user;
    return true;
}

/* Processor time, so that other load of the machine has little effect. */
static int64_t used_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * (int64_t)1000000000 + time.tv_nsec;
}

/* Nanoseconds for a whole run. */
static double play_cost(const gs_gpu *gpu, const gs_run *run, const gs_engine_hooks *hooks) {
    gs_error error = {.code = GS_OK};
    int64_t start = used_ns();
    gs_engine *engine = gs_engine_new(gpu, run, hooks, &error);
    for (size_t i = 0; engine && i < run->events.count; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_LAUNCH)
            gs_engine_launch(engine, event->launch, &error);
        else
            gs_engine_exit(engine, event->launch, &error);
    }
    if (!engine || error.code != GS_OK || gs_engine_finish(engine, &error) != GS_OK)
        fail(&error);
    int64_t taken = used_ns() - start;
    gs_engine_free(engine);
    return (double)taken;
}

/* Nanoseconds per block; `*blocks`: how many blocks were placed. */
static double engine_cost(const gs_gpu *gpu, const gs_run *run, int64_t *blocks) {
    *blocks = 0;
    double taken = play_cost(gpu, run, &(gs_engine_hooks){.user = blocks, .started = count_block});
    return taken / (double)*blocks;
}

static bool may_skip(void *user, size_t launch, int64_t wave) {
    (void)user, (void)launch, (void)wave;
    return true;
}

static void ignore_skipped(void *user, size_t launch, int64_t blocks) {
    (void)user, (void)launch, (void)blocks;
}

static void ignore_repeated(void *user, size_t launch, size_t like, int64_t start_ns, int64_t end_ns) {
    (void)user, (void)launch, (void)like, (void)start_ns, (void)end_ns;
}

/* Like engine_cost, but repeating waves and launches are skipped. */
static double skipping_cost(const gs_gpu *gpu, const gs_run *run, int64_t *blocks) {
    gs_engine_hooks hooks = {.may_skip = may_skip, .skipped = ignore_skipped, .repeated = ignore_repeated};
    *blocks = 0;
    for (size_t i = 0; i < run->launches.count; i++)
        *blocks += run->launches.data[i].blocks;
    return play_cost(gpu, run, &hooks) / (double)*blocks;
}

static double literal_cost(const gs_gpu *gpu, const gs_run *run, int64_t *blocks) {
    gs_log log = {0};
    int64_t start = used_ns();
    literal_play(gpu, run, &log);
    int64_t taken = used_ns() - start;
    *blocks = (int64_t)log.count;
    free(log.data);
    return (double)taken / (double)*blocks;
}

static double best_of(int rounds, double (*cost)(const gs_gpu *, const gs_run *, int64_t *), const gs_gpu *gpu,
                      const gs_run *run, int64_t *blocks) {
    double best = cost(gpu, run, blocks);
    for (int i = 1; i < rounds; i++) {
        double again = cost(gpu, run, blocks);
        best = fmin(best, again);
    }
    return best;
}

/* ---- the tables ---- */

static void compare_with_literal(void) {
    gs_gpu *gpu = gpu_with(132);
    struct {
        const char *name;
        gs_run *run, *short_run;
    } rows[] = {{"mixed", mixed_run(gpu, 4000), mixed_run(gpu, 40)}, {"waves", waves_run(1000000), waves_run(4000)}};
    printf("132 SMs      engine blocks/s   literal blocks/s   ratio\n");
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        int64_t blocks;
        double engine = best_of(5, engine_cost, gpu, rows[i].run, &blocks);
        double literal = best_of(2, literal_cost, gpu, rows[i].short_run, &blocks);
        printf("%-10s %17.0f %18.0f %7.0f\n", rows[i].name, 1e9 / engine, 1e9 / literal, literal / engine);
        gs_run_free(rows[i].run);
        gs_run_free(rows[i].short_run);
    }
    gs_gpu_free(gpu);
}

/* By the literal algorithm, by the engine block by block, and by the engine that skips repetitions. */
static void measure_program(void) {
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    if (!gpu)
        fail(&error);
    static const struct {
        const char *name;
        int second;
        bool side;
    } rows[] = {{"one stream", 0, false}, {"two streams", 10, false}, {"one beside", 0, true}};
    printf("\nprogram      literal blocks/s   engine blocks/s   skipping blocks/s   s for all   ratios\n");
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_run *whole = program_run(gpu, 200000, rows[i].second, rows[i].side);
        gs_run *part = program_run(gpu, 4000, rows[i].second, rows[i].side);
        gs_run *little = program_run(gpu, 4, rows[i].second, rows[i].side);
        int64_t blocks;
        double literal = best_of(1, literal_cost, gpu, little, &blocks);
        double engine = best_of(2, engine_cost, gpu, part, &blocks);
        double skipping = best_of(1, skipping_cost, gpu, whole, &blocks);
        printf("%-12s %16.0f %17.0f %19.0f %11.2f   %.0f, %.0f\n", rows[i].name, 1e9 / literal, 1e9 / engine,
               1e9 / skipping, skipping * (double)blocks / 1e9, literal / skipping, engine / skipping);
        gs_run_free(whole);
        gs_run_free(part);
        gs_run_free(little);
    }
    gs_gpu_free(gpu);
}

/* ---- many streams ---- */

struct cost {
    double ns; /* for a block */
    int64_t blocks;
    double run_mb, mb; /* the most memory: before it is played, and then */
};

static double most_mb(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

/* In a process of its own, because the most memory that a process had never becomes less. */
static struct cost streams_cost(int streams, bool side) {
    struct cost cost = {0};
    int ends[2];
    if (pipe(ends) != 0)
        exit(4);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        gs_gpu *gpu = gs_gpu_open("h200", NULL);
        gs_run *run = gpu ? program_run(gpu, 200000, 0, side) : NULL;
        for (size_t i = 0; run && !side && i < run->launches.count; i++) /* each end of the word is a name */
            run->launches.data[i].stream = (char *)&"abcdefghijklmnopqrstuvwxyzABCDEF"[i % (size_t)streams];
        cost.run_mb = most_mb();
        cost.ns = run ? best_of(3, skipping_cost, gpu, run, &cost.blocks) : 0;
        cost.mb = most_mb();
        _exit(run && write(ends[1], &cost, sizeof cost) == sizeof cost ? 0 : 4);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &cost, sizeof cost) != sizeof cost || waitpid(child, NULL, 0) != child)
        exit(4);
    close(ends[0]);
    return cost;
}

static void measure_streams(void) {
    static const int streams[] = {1, 2, 4, 8, 32};
    double one = 0;
    printf("\nstreams      ns/block   s for all   ratio   MB of the run   MB of the engine\n");
    for (size_t i = 0; i <= GS_COUNT(streams); i++) {
        bool side = i == GS_COUNT(streams);
        struct cost cost = streams_cost(side ? 1 : streams[i], side);
        one = i ? one : cost.ns;
        char name[16] = "one beside";
        if (!side)
            snprintf(name, sizeof name, "%d", streams[i]);
        printf("%-12s %8.1f %11.2f %7.1f %15.0f %18.0f\n", name, cost.ns, cost.ns * (double)cost.blocks / 1e9,
               cost.ns / one, cost.run_mb, cost.mb - cost.run_mb);
    }
}

static void scale(void) {
    static const int32_t sizes[] = {16, 32, 64, 132, 256, 512, 1024};
    double least[2] = {1e9, 1e9}, most[2] = {0, 0};
    printf("\nSMs          mixed ns/block     waves ns/block\n");
    for (size_t i = 0; i < GS_COUNT(sizes); i++) {
        gs_gpu *gpu = gpu_with(sizes[i]);
        gs_run *runs[2] = {mixed_run(gpu, 400000 / sizes[i]), waves_run(1000000)};
        double cost[2];
        int64_t blocks;
        for (int j = 0; j < 2; j++) {
            cost[j] = best_of(5, engine_cost, gpu, runs[j], &blocks);
            least[j] = fmin(least[j], cost[j]);
            most[j] = fmax(most[j], cost[j]);
            gs_run_free(runs[j]);
        }
        printf("%-10d %16.1f %18.1f\n", sizes[i], cost[0], cost[1]);
        gs_gpu_free(gpu);
    }
    printf("%-10s %16.2f %18.2f\n", "most/least", most[0] / least[0], most[1] / least[1]);
}

static void measure_memory(void) {
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gpu_with(132);
    gs_run *run = waves_run(10000000);
    int64_t start = gs_now_ns();
    gs_run *prediction = run ? gs_predict(gpu, run, NULL, &error) : NULL;
    if (!prediction)
        fail(&error);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("\nten million blocks predicted in %.2f s, %.0f MB at the most\n", (double)(gs_now_ns() - start) / 1e9,
           (double)usage.ru_maxrss / 1024);
    gs_run_free(prediction);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

static void measure_replay(void) {
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_runs *runs = gs_runs_open(GRIDSMITH_SOURCE "/corpus/h200.jsonl.gz", &error);
    gs_run *run;
    gs_scores scores = {0};
    int64_t start = gs_now_ns(), count = 0;
    if (!gpu || !runs)
        fail(&error);
    for (; (run = gs_runs_next(runs, &error)); count++) {
        gs_run *prediction = gs_predict(gpu, run, NULL, &error);
        if (prediction && gs_scores_add(&scores, run, prediction, NULL, &error) != GS_OK)
            fail(&error);
        gs_run_free(prediction);
        gs_run_free(run);
    }
    double seconds = (double)(gs_now_ns() - start) / 1e9;
    printf("%lld recorded runs replayed and compared in %.2f s, %.2f s for 2,000\n", (long long)count, seconds,
           seconds * 2000 / (double)count);
    gs_scores_free(&scores);
    gs_runs_close(runs);
    gs_gpu_free(gpu);
}

/* Typical questions: two to six kernels, in all launch orders, with all kinds of fixes. */
static void measure_fixes(void) {
    static const struct {
        const char *name, *words[6];
    } rows[] = {
        {"persistent, NCCL", {"mega=132x256,r168,s200K", "nccl=16x512,r96"}},
        {"two changes needed", {"a=132x1024,r64", "b=132x1024,r64"}},
        {"six kernels", {"a=66x256,r128", "b=66x512,s64K", "c=32x1024", "d=16x640,r96", "e=132x64", "f=132x32,s100K"}},
    };
    printf("\ncheck, all orders and fixes            fixes       ms\n");
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_error error = {.code = GS_OK};
        gs_gpu *gpu = gs_gpu_open("h200", &error);
        gs_run *run = gs_run_new(&error);
        gs_launch launch;
        for (size_t j = 0; j < GS_COUNT(rows[i].words) && rows[i].words[j] && error.code == GS_OK; j++)
            if (gs_launch_of_word(rows[i].words[j], &launch, &error) == GS_OK)
                gs_run_add_launch(run, &launch, &error);
        gs_fix_options options = {.kinds = (1 << GS_FIX_KINDS) - 1, .budget = 100000};
        gs_check check;
        gs_orders orders;
        gs_fixes fixes;
        int64_t start = gs_now_ns();
        if (gs_check_run(gpu, run, options.budget, NULL, &check, &error) != GS_OK ||
            gs_orders_that_work(gpu, run, &orders, &error) != GS_OK ||
            gs_fix_run(gpu, run, &options, &fixes, &error) != GS_OK)
            fail(&error);
        printf("%-34s %9zu %8.0f\n", rows[i].name, fixes.count, (double)(gs_now_ns() - start) / 1e6);
        gs_fixes_clear(&fixes);
        gs_check_clear(&check);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
}

static void measure_shrink(void) {
    gs_error error = {.code = GS_OK};
    gs_device *device = gs_device_open("model:rtx3090,skip=5", &error);
    gs_gpu *model = gs_gpu_open("rtx3090", &error);
    if (!device || !model)
        fail(&error);
    gs_bounds bounds = gs_device_bounds(device);
    double slowest = 0;
    for (uint64_t i = 0; i < 20; i++) {
        gs_run *run = gs_generate(&bounds, "small", 1, i, &error);
        gs_shrunk shrunk = {0};
        int64_t start = gs_now_ns();
        if (!run || (gs_shrink(device, model, run, 10000, &shrunk, &error) != GS_OK && error.code != GS_E_USAGE))
            fail(&error);
        double seconds = (double)(gs_now_ns() - start) / 1e9;
        slowest = fmax(slowest, seconds);
        gs_shrunk_clear(&shrunk);
        gs_run_free(run);
    }
    printf("20 runs of 28 kernels shrunk, the slowest in %.1f ms\n", slowest * 1000);
    gs_gpu_free(model);
    gs_device_close(device);
}

/* Seconds for the exact worst case of the paper's program. */
static double search_cost(int64_t warps, int64_t repeat, int64_t issue, int64_t *states) {
    gs_error error = {.code = GS_OK};
    gs_flat flat;
    gs_worst worst;
    gs_search_options options = {0};
    gs_program *program = gs_program_paper(repeat, &error);
    if (!program || gs_flat_make(&flat, program, &error) != GS_OK)
        fail(&error);
    program->issue = issue;
    int64_t start = gs_now_ns();
    if (gs_search(&flat, warps, &options, &worst, &error) != GS_OK)
        fail(&error);
    double seconds = (double)(gs_now_ns() - start) / 1e9;
    *states = worst.states;
    gs_worst_clear(&worst);
    gs_flat_clear(&flat);
    gs_program_free(program);
    return seconds;
}

static double literal_search_cost(int64_t warps, int64_t repeat) {
    gs_flat flat;
    gs_program *program = gs_program_paper(repeat, NULL);
    if (!program || gs_flat_make(&flat, program, NULL) != GS_OK)
        exit(4);
    literal_warps all = {.flat = &flat, .count = warps};
    int64_t start = gs_now_ns();
    literal_worst(&all, 1);
    double seconds = (double)(gs_now_ns() - start) / 1e9;
    gs_flat_clear(&flat);
    gs_program_free(program);
    return seconds;
}

static void measure_bound(void) {
    enum { TIMES = 100000 };
    int64_t states, cycles, start;
    double search = search_cost(3, 2, 3, &states);
    for (int i = 0; i < 10; i++)
        search = fmin(search, search_cost(3, 2, 3, &states));
    double literal = literal_search_cost(3, 2);
    printf("3 warps, 2 repetitions: exact in %.1f us, literally in %.2f s, ratio %.0f\n", search * 1e6, literal,
           literal / search);
    search = search_cost(12, 8, 3, &states);
    printf("12 warps, 8 repetitions: exact in %.1f ms, %lld states\n", search * 1e3, (long long)states);
    search = search_cost(8, 4, 2, &states);
    printf("8 warps, 4 repetitions, two a cycle: exact in %.1f ms, %.2f million states a second\n", search * 1e3,
           (double)states / search / 1e6);
    gs_program *program = gs_program_paper(1000000000, NULL);
    start = gs_now_ns();
    for (int i = 0; i < TIMES; i++)
        if (gs_proven_cycles(program, 64 + i, &cycles, NULL) != GS_OK)
            exit(4);
    printf("a billion repetitions: proven in %.2f us\n", (double)(gs_now_ns() - start) / 1e3 / TIMES);
    gs_program_free(program);
}

/* Barriers of a kernel on the CPU, blocks serially on one core. */
static void measure_host(void) {
    enum { BLOCKS = 1000, THREADS = 256, BARRIERS = 20 };
    static const char text[] =
        "__global__ void k(int *out) {\n    for (int i = 0; i < 20; i++)\n        __syncthreads();\n"
        "    out[blockIdx.x] = 1;\n}\n";
    static const char *const kernels[] = {"k"};
    static int out[BLOCKS];
    const uint32_t grid[3] = {BLOCKS, 1, 1}, block[3] = {THREADS, 1, 1};
    gs_error error;
    gs_build build = {.name = "k.cu", .text = text, .size = sizeof text - 1, .kernels = kernels, .kernel_count = 1};
    gs_host *host = gs_host_open(&error);
    gs_module *module = host ? gs_host_compile(host, &build, &error) : NULL;
    gs_work work = {.threads = 1};
    int32_t buffer = gs_work_buffer(&work, out, sizeof out);
    gs_work_call(&work, "k", grid, block, 0);
    gs_work_pass_buffer(&work, buffer);
    if (!module || gs_module_run(module, &work, &error) != GS_OK)
        fail(&error);
    printf("a thread of a kernel on the CPU waits at a barrier in %.0f ns\n",
           (double)work.calls.data[0].elapsed_ns / ((double)BLOCKS * THREADS * BARRIERS));
    gs_work_free(&work);
    gs_host_close(host);
}

/* ---- decisions ---- */

enum { PLAN_SMS = 132, PLAN_MOST = 64 };

/* Contenders of all kinds, with known curves and some measured pairs. */
static void make_contenders(gs_profile_store *store, gs_contender *contenders) {
    gs_random random = gs_random_at(6, 0);
    for (uint32_t i = 0; i < PLAN_MOST; i++) {
        double knee = (double)gs_random_from(&random, 20, 120) / 100, ns = 1e6;
        gs_profile *profile = gs_profile_store_get(store, i + 1, "kernel", 100000);
        if (!profile)
            exit(4);
        for (int32_t sms = 12; sms <= PLAN_SMS; sms += 12)
            gs_profile_rate(profile, sms, (uint64_t)(1e5 * fmin(1, sms / (PLAN_SMS * knee))), (uint64_t)ns);
        contenders[i] = (gs_contender){.profile = profile, .client = i, .weight = 1, .arrival = i, .can_confine = true};
        for (uint32_t j = 0; j < i; j += 3)
            gs_profile_store_inter_sm(store, &(gs_beside){profile, 66, 40000},
                                      &(gs_beside){(gs_profile *)contenders[j].profile, 66, 45000}, (uint64_t)ns);
    }
}

/* Microseconds per decision: by the decision code, and by trying every partner and every split of a pair. */
static double plan_cost(const literal_query *query, gs_decided_place *placements) {
    int64_t rounds = 4000 / (int64_t)query->count, start = gs_now_ns();
    for (int64_t i = 0; i < rounds; i++)
        gs_decide(query->options, query->store, query->contenders, query->count, placements);
    return (double)(gs_now_ns() - start) / 1e3 / (double)rounds;
}

static double literal_plan_cost(const literal_query *query, gs_decided_place *placements) {
    (void)placements;
    int64_t rounds = 400 / (int64_t)query->count, start = gs_now_ns();
    for (int64_t i = 0; i < rounds; i++)
        literal_pair(query, literal_leader(query));
    return (double)(gs_now_ns() - start) / 1e3 / (double)rounds;
}

static void measure_plan(void) {
    static const size_t counts[] = {2, 16, PLAN_MOST};
    gs_contender contenders[PLAN_MOST];
    gs_decided_place placements[PLAN_MOST];
    gs_profile_store *store = gs_profile_store_open(NULL, "bench", PLAN_SMS, NULL);
    gs_decide_options options = gs_decide_defaults(PLAN_SMS);
    if (!store)
        exit(4);
    options.probes = false;
    make_contenders(store, contenders);
    printf("\ncontenders   decisions/s    us each   literal us   ratio\n");
    for (size_t i = 0; i < GS_COUNT(counts); i++) {
        literal_query query = {&options, store, contenders, counts[i]};
        double us = INFINITY, literal_us = INFINITY;
        for (int j = 0; j < 20; j++) {
            us = fmin(us, plan_cost(&query, placements));
            literal_us = fmin(literal_us, literal_plan_cost(&query, placements));
        }
        printf("%-10zu %13.0f %10.1f %12.1f %7.1f\n", counts[i], 1e6 / us, us, literal_us, literal_us / us);
    }
    gs_profile_store_close(store);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*measure)(void);
    } parts[] = {{"literal", compare_with_literal},
                 {"program", measure_program},
                 {"streams", measure_streams},
                 {"scale", scale},
                 {"memory", measure_memory},
                 {"replay", measure_replay},
                 {"fixes", measure_fixes},
                 {"shrink", measure_shrink},
                 {"bound", measure_bound},
                 {"host", measure_host},
                 {"plan", measure_plan}};
    for (size_t i = 0; i < GS_COUNT(parts); i++)
        if (count < 2 || strcmp(words[1], parts[i].name) == 0)
            parts[i].measure();
    return 0;
}
