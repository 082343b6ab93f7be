/*
 * switch_cost.c: how long a request waits until the GPU switches to its process:
 *
 *     switch_cost work KIND        launches kernels until its standard input ends
 *     switch_cost serve NAME       measures requests, and prints a line of JSON for each delay
 *
 * Run both under `gridsmith run`, in their classes. A request is one empty kernel, launched and waited for, after a
 * pause of 1 to 3 ms. With a delay the request is announced first, by a launch that fails: the flag is set, but nothing
 * reaches the GPU. KIND: idle (no work), once (a short kernel, then nothing for a while), short (kernels of 20 us on
 * the whole GPU), long (of 1 ms on the whole GPU), thin (of 1 ms, one block). Needs only libcuda.so.1.
 */
#define _GNU_SOURCE
#include "plain_driver.h"

#include <poll.h>
#include <unistd.h>

static const char kernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                             ".visible .entry spin(.param .u64 ns) {\n"
                             ".reg .u64 %start, %now, %ns;\n.reg .pred %again;\n"
                             "ld.param.u64 %ns, [ns];\nmov.u64 %start, %globaltimer;\n"
                             "loop: mov.u64 %now, %globaltimer;\nsub.u64 %now, %now, %start;\n"
                             "setp.lt.u64 %again, %now, %ns;\n@%again bra loop;\nret;\n}\n";

static const struct kind {
    const char *name;
    uint64_t ns;
    unsigned blocks;
    int pause_us; /* -1: none, and launches go ahead */
} kinds[] = {{"idle", 0, 0, 1000},
             {"once", 10000, 264, 300},
             {"short", 20000, 264, -1},
             {"long", 1000000, 264, -1},
             {"thin", 1000000, 1, -1}};

enum { REQUESTS = 150, BLOCK_THREADS = 1024, AHEAD = 64 };

static struct {
    void *function, *stream;
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    int (*synchronize)(void *);
} gpu;

static void launch(unsigned blocks, uint64_t ns) {
    void *values[] = {&ns};
    check("cuLaunchKernel", gpu.launch(gpu.function, blocks, 1, 1, BLOCK_THREADS, 1, 1, 0, gpu.stream, values, NULL));
}

static void synchronize(void) {
    check("cuStreamSynchronize", gpu.synchronize(gpu.stream));
}

static double now_us(void) {
    return (double)now_ns() / 1e3;
}

static void spin_us(double us) {
    for (double end = now_us() + us; now_us() < end;)
        ;
}

/* ---- work ---- */

static int has_ended(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

static void work(const struct kind *kind) {
    while (!has_ended()) {
        for (int i = 0; i < (kind->pause_us < 0 ? AHEAD : 1) && kind->blocks; i++)
            launch(kind->blocks, kind->ns);
        synchronize();
        if (kind->pause_us > 0)
            usleep((useconds_t)kind->pause_us);
    }
}

/* ---- requests ---- */

/* `delay_us` < 0: the request is not announced. */
static double request_us(double delay_us) {
    if (delay_us >= 0) {
        gpu.launch(NULL, 1, 1, 1, 1, 1, 1, 0, gpu.stream, NULL, NULL);
        spin_us(delay_us);
    }
    double start = now_us();
    launch(1, 0);
    synchronize();
    return now_us() - start;
}

static void serve(const char *name, double delay_us) {
    static double times[REQUESTS];
    for (int i = -20; i < REQUESTS; i++) {
        usleep(1000 + (useconds_t)(rand() % 2000));
        double us = request_us(delay_us);
        if (i >= 0)
            times[i] = us;
    }
    qsort(times, REQUESTS, sizeof *times, compare_numbers);
    printf("{\"name\": \"%s\", \"delay_us\": %.0f, \"us\": {\"p1\": %.1f, \"p10\": %.1f, \"p50\": %.1f, \"p90\": %.1f, "
           "\"p99\": %.1f}}\n",
           name, delay_us, times[REQUESTS / 100], times[REQUESTS / 10], times[REQUESTS / 2], times[REQUESTS * 9 / 10],
           times[REQUESTS * 99 / 100]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const double delays_us[] = {-1, 50, 300};
    if (argc < 3) {
        fprintf(stderr, "usage: switch_cost work KIND | switch_cost serve NAME\n");
        return 2;
    }
    open_gpu(kernel, "spin", &gpu.function, &gpu.stream);
    find_call("cuLaunchKernel", &gpu.launch);
    find_call("cuStreamSynchronize", &gpu.synchronize);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], "work") == 0 && strcmp(argv[2], kinds[i].name) == 0)
            work(&kinds[i]);
    for (size_t i = 0; i < sizeof delays_us / sizeof *delays_us; i++)
        if (strcmp(argv[1], "serve") == 0)
            serve(argv[2], delays_us[i]);
    return 0;
}
