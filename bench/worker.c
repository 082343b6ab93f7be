/*
 * worker.c: the cost of the ring and of the worker, in one run of one program.
 *
 *   ring        records of 64 bytes from one thread to another, as fast as possible; and there and back, one at a time
 *   round trip  a kernel that does almost nothing, in its original form, one at a time: from the request to the report
 *   pipelined   the same, requested without waiting
 *   stop        a confined run on all SMs: from the request to leave to the report
 *   in a row    a kernel of some hundred microseconds, per run: as written, and confined to all SMs with a number of
 *               workers that take a number of blocks at a time: one run at a time, each behind the one before it, and
 *               in two queues at once as two kernels that share SMs. What a run costs beyond the first of these is
 *               what it costs to run by a decision
 *   sizes       the same for blocks of other numbers and lengths, one run at a time
 *
 * `worker [DEVICE]`: host (the default), cuda, cuda:N. GRIDSMITH_PROGRAM is the program whose hidden subcommands are
 * started. Medians are printed.
 */
#include "sharing/worker/worker.h"
#include "sharing/client/ring.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    CAPACITY = 1 << 16,
    RECORD = 64,
    RECORDS = 2000000,
    TRIPS = 2000,
    MODULE = 1,
    MEMORY = 1,
    QUEUE = 1,
    BLOCKS_PER_SM = 200,
    ROUNDS = 2000 /* of a block */
};

static const char source[] = "__global__ void nothing(unsigned *at) { if (at[0] == 1) at[1] = 2; }\n"
                             "__global__ void slow(unsigned *at, int rounds) {\n"
                             "    unsigned x = threadIdx.x;\n"
                             "    for (int i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;\n"
                             "    if (x == 1) at[1] = 2;\n"
                             "}\n";

static void give_up(const char *what) {
    fprintf(stderr, "worker: %s\n", what);
    exit(4);
}

static int compare(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median_us(int64_t *times, size_t count) {
    qsort(times, count, sizeof *times, compare);
    return (double)times[count / 2] / 1000;
}

/* ---- the ring ---- */

struct ends {
    gs_ring from, to;
};

static void *echo(void *argument) {
    struct ends *ends = argument;
    unsigned char record[RECORD];
    uint32_t bytes;
    for (int i = 0; i < RECORDS + TRIPS; i++) {
        while (gs_ring_take(&ends->from, record, sizeof record, &bytes) != GS_RING_DONE)
            ;
        if (i >= RECORDS)
            gs_ring_put(&ends->to, record, bytes);
    }
    return NULL;
}

static void bench_ring(void) {
    void *there = aligned_alloc(64, gs_ring_bytes(CAPACITY)), *back = aligned_alloc(64, gs_ring_bytes(CAPACITY));
    unsigned char record[RECORD] = {0};
    int64_t times[TRIPS];
    struct ends far;
    gs_ring out, in;
    pthread_t thread;
    uint32_t bytes;
    int bell = gs_bell_new();
    if (!there || !back || bell < 0)
        give_up("out of memory");
    memset(there, 0, gs_ring_bytes(CAPACITY));
    memset(back, 0, gs_ring_bytes(CAPACITY));
    gs_ring_attach(&out, there, CAPACITY, bell);
    gs_ring_attach(&far.from, there, CAPACITY, bell);
    gs_ring_attach(&far.to, back, CAPACITY, bell);
    gs_ring_attach(&in, back, CAPACITY, bell);
    if (pthread_create(&thread, NULL, echo, &far) != 0)
        give_up("no thread");
    int64_t began = gs_now_ns();
    for (int i = 0; i < RECORDS; i++)
        while (gs_ring_put(&out, record, sizeof record) != GS_RING_DONE)
            ;
    double seconds = (double)(gs_now_ns() - began) / 1e9;
    for (int i = 0; i < TRIPS; i++) {
        began = gs_now_ns();
        gs_ring_put(&out, record, sizeof record);
        while (gs_ring_take(&in, record, sizeof record, &bytes) != GS_RING_DONE)
            ;
        times[i] = gs_now_ns() - began;
    }
    pthread_join(thread, NULL);
    printf("ring        %.1f million records/s, %.2f us there and back\n", RECORDS / seconds / 1e6,
           median_us(times, TRIPS));
    free(there);
    free(back);
}

/* ---- the worker ---- */

static gs_worker_report wait_for(gs_worker *worker, bool spins) {
    gs_worker_report report;
    while (!(spins ? gs_worker_peek(worker, &report) : gs_worker_poll(worker, &report))) {
        struct pollfd ready = {.fd = gs_worker_fd(worker), .events = POLLIN};
        if (!spins && poll(&ready, 1, 60000) <= 0)
            give_up("no report after 60 seconds");
    }
    if (report.code != GS_OK)
        give_up(report.message);
    return report;
}

/* How a kernel runs in a row. */
struct row {
    bool is_confined;
    uint32_t workers; /* on each SM; 0: as many as fit */
    uint32_t task_blocks, blocks_per_sm;
    int32_t rounds;
};

static void start_in(gs_worker *worker, uint32_t queue, uint32_t number, struct row row) {
    const gs_worker_facts *facts = gs_worker_facts_of(worker);
    uint32_t blocks = (uint32_t)facts->sms * (facts->is_gpu ? row.blocks_per_sm : 1); /* a CPU is slower */
    gs_worker_launch launch = {.request = {.queue = QUEUE + queue, .handle = MODULE},
                               .kernel = 1,
                               .form = row.is_confined ? GS_LAUNCH_CONFINED : GS_LAUNCH_ORIGINAL,
                               .grid = {blocks, 1, 1},
                               .block = {128, 1, 1},
                               .workers = row.workers,
                               .task_blocks = row.task_blocks};
    gs_launch_add_memory(&launch, MEMORY, 0);
    gs_launch_add_value(&launch, &row.rounds, sizeof row.rounds);
    memset(launch.mask, 0xff, sizeof launch.mask);
    if (gs_worker_start(worker, (uint64_t)queue << 32 | (number + 1), &launch) != GS_OK)
        give_up("a launch was not taken");
}

/* The time of a run, if each queue has so many ahead. */
static double in_a_row_us(gs_worker *worker, uint32_t queues, uint32_t ahead, struct row row) {
    uint32_t runs = gs_worker_facts_of(worker)->is_gpu ? 400 : 20, started[2] = {0}, ended = 0;
    int64_t began = gs_now_ns();
    for (uint32_t i = 0; i < queues * ahead; i++)
        start_in(worker, i % queues, started[i % queues]++, row);
    while (ended < queues * runs) {
        gs_worker_report report = wait_for(worker, gs_worker_facts_of(worker)->is_gpu);
        uint32_t queue = (uint32_t)(report.tag >> 32);
        ended++;
        if (started[queue] < runs)
            start_in(worker, queue, started[queue]++, row);
    }
    return (double)(gs_now_ns() - began) / 1000 / runs / queues;
}

static void bench_rows(gs_worker *worker) {
    static const struct row rows[] = {{true, 0, 1, BLOCKS_PER_SM, ROUNDS},
                                      {true, 0, 10, BLOCKS_PER_SM, ROUNDS},
                                      {true, 8, 1, BLOCKS_PER_SM, ROUNDS},
                                      {true, 8, 10, BLOCKS_PER_SM, ROUNDS}},
                            written = {.blocks_per_sm = BLOCKS_PER_SM, .rounds = ROUNDS};
    printf("in a row    %.1f us as written\n", in_a_row_us(worker, 1, 2, written));
    for (size_t i = 0; i < GS_COUNT(rows); i++)
        printf("            confined, %s workers, tasks of %u: %.1f one at a time, %.1f each behind the one before it, "
               "%.1f in two queues\n",
               rows[i].workers ? "8" : "all", rows[i].task_blocks, in_a_row_us(worker, 1, 1, rows[i]),
               in_a_row_us(worker, 1, 2, rows[i]), in_a_row_us(worker, 2, 2, rows[i]));
}

static void bench_sizes(gs_worker *worker) {
    static const struct row rows[] = {{true, 8, 10, BLOCKS_PER_SM, ROUNDS},
                                      {true, 8, 10, 4 * BLOCKS_PER_SM, ROUNDS / 4},
                                      {true, 8, 10, BLOCKS_PER_SM / 4, ROUNDS}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        struct row written = rows[i];
        written.is_confined = false;
        printf("%-11s %u blocks on each SM, %d rounds: %.1f us as written, %.1f confined\n", i ? "" : "sizes",
               rows[i].blocks_per_sm, rows[i].rounds, in_a_row_us(worker, 1, 1, written),
               in_a_row_us(worker, 1, 1, rows[i]));
    }
}

static void start(gs_worker *worker, bool is_slow, uint32_t blocks) {
    const int32_t rounds = 20000;
    gs_worker_launch launch = {.request = {.queue = QUEUE, .handle = MODULE},
                               .kernel = is_slow,
                               .form = is_slow ? GS_LAUNCH_CONFINED : GS_LAUNCH_ORIGINAL,
                               .grid = {blocks, 1, 1},
                               .block = {128, 1, 1},
                               .task_blocks = 1};
    gs_launch_add_memory(&launch, MEMORY, 0);
    if (is_slow)
        gs_launch_add_value(&launch, &rounds, sizeof rounds);
    memset(launch.mask, 0xff, sizeof launch.mask);
    if (gs_worker_start(worker, 1, &launch) != GS_OK)
        give_up("a launch was not taken");
}

static void bench_runs(gs_worker *worker) {
    static const uint32_t none[GS_WORKER_MASK_WORDS];
    enum { STOPS = 20 };
    int64_t times[TRIPS], stops[STOPS];
    for (int i = 0; i < TRIPS; i++) {
        int64_t began = gs_now_ns();
        start(worker, false, 1);
        wait_for(worker, gs_worker_facts_of(worker)->is_gpu);
        times[i] = gs_now_ns() - began;
    }
    printf("round trip  %.1f us\n", median_us(times, TRIPS));
    int64_t began = gs_now_ns();
    for (int i = 0; i < TRIPS; i++)
        start(worker, false, 1);
    for (int i = 0; i < TRIPS; i++)
        wait_for(worker, gs_worker_facts_of(worker)->is_gpu);
    printf("pipelined   %.2f us a run\n", (double)(gs_now_ns() - began) / 1000 / TRIPS);
    for (int i = 0; i < STOPS; i++) {
        start(worker, true, 1 << 20);
        while (!gs_worker_progress(worker, 1))
            ;
        stops[i] = gs_now_ns();
        gs_worker_confine(worker, 1, none);
        wait_for(worker, gs_worker_facts_of(worker)->is_gpu);
        stops[i] = gs_now_ns() - stops[i];
    }
    printf("stop        %.1f us\n", median_us(stops, STOPS));
}

int main(int argc, char **argv) {
    gs_error error = {.code = GS_OK};
    gs_worker_options options = {.device = argc > 1 ? argv[1] : "host"};
    bench_ring();
    gs_worker *worker = gs_worker_open(&options, &error);
    if (!worker)
        give_up(error.message);
    gs_image_source given = {.name = "bench.cu", .text = source, .size = strlen(source)};
    gs_image_request request = {.architecture = gs_worker_facts_of(worker)->architecture};
    gs_image *image = gs_image_make(NULL, &given, &request, &error);
    if (!image)
        give_up(error.message);
    printf("image       %s\n", image->was_cached ? "from the cache" : "compiled");
    gs_worker_load(worker, 1, MODULE, image);
    wait_for(worker, false);
    gs_worker_allocate(worker, 1, MEMORY, 4096);
    wait_for(worker, false);
    bench_runs(worker);
    bench_rows(worker);
    bench_sizes(worker);
    gs_image_free(image);
    gs_worker_close(worker);
    return 0;
}
