/*
 * stop_cost.c: how long it takes until best-effort work has left the GPU when a request comes: stop_cost NAME
 * [REQUESTS]
 *
 * Run it under `gridsmith run --latency` beside work. A request is one kernel with as many threads as the GPU can hold:
 * its blocks wait until all of them run, so it ends when no block of the work is left on any SM. Requests come 1 to 5
 * ms after the last one. Prints a line of JSON. The time alone is that of the launch and the kernel. stops.py runs it
 * beside the work of the benchmark. Needs only libcuda.so.1.
 */
#define _GNU_SOURCE
#include "plain_driver.h"

#include <unistd.h>

static const char kernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                             ".visible .entry meet(.param .u64 count, .param .u32 all) {\n"
                             ".reg .u64 %at;\n.reg .u32 %number, %seen, %wanted;\n.reg .pred %other, %again;\n"
                             "ld.param.u64 %at, [count];\nld.param.u32 %wanted, [all];\n"
                             "mov.u32 %number, %tid.x;\nsetp.ne.u32 %other, %number, 0;\n@%other bra meeting;\n"
                             "red.global.add.u32 [%at], 1;\n"
                             "loop: ld.volatile.global.u32 %seen, [%at];\n"
                             "setp.lt.u32 %again, %seen, %wanted;\n@%again bra loop;\n"
                             "meeting: bar.sync 0;\nret;\n}\n";

enum { REQUESTS = 400, MOST_REQUESTS = 10000, WARM_UP = 100, BLOCK_THREADS = 1024, SMS = 16, SM_THREADS = 39 };

static struct {
    void *function, *stream;
    uint64_t count; /* device address of the number of blocks that have begun */
    uint32_t blocks, begun;
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    int (*synchronize)(void *);
} gpu;

static double request_us(void) {
    uint64_t start = now_ns();
    gpu.begun += gpu.blocks;
    void *values[] = {&gpu.count, &gpu.begun};
    check("cuLaunchKernel",
          gpu.launch(gpu.function, gpu.blocks, 1, 1, BLOCK_THREADS, 1, 1, 0, gpu.stream, values, NULL));
    check("cuStreamSynchronize", gpu.synchronize(gpu.stream));
    return (double)(now_ns() - start) / 1e3;
}

static void open_all(void) {
    int sms = 0, threads = 0;
    open_gpu(kernel, "meet", &gpu.function, &gpu.stream);
    find_call("cuLaunchKernel", &gpu.launch);
    find_call("cuStreamSynchronize", &gpu.synchronize);
    CALL("cuDeviceGetAttribute", (int *, int, int), &sms, SMS, 0);
    CALL("cuDeviceGetAttribute", (int *, int, int), &threads, SM_THREADS, 0);
    gpu.blocks = (uint32_t)(sms * (threads / BLOCK_THREADS));
    CALL("cuMemAlloc_v2", (uint64_t *, size_t), &gpu.count, sizeof(uint32_t));
    CALL("cuMemsetD32_v2", (uint64_t, unsigned, size_t), gpu.count, 0, 1);
}

int main(int argc, char **argv) {
    static double times[MOST_REQUESTS];
    int requests = argc > 2 ? atoi(argv[2]) : REQUESTS;
    if (argc < 2 || requests < 1 || requests > MOST_REQUESTS) {
        fprintf(stderr, "usage: stop_cost NAME [REQUESTS], at most %d\n", MOST_REQUESTS);
        return 2;
    }
    open_all();
    for (int i = -WARM_UP; i < requests; i++) {
        usleep(1000 + (useconds_t)(rand() % 4000));
        double us = request_us();
        if (i >= 0)
            times[i] = us;
    }
    qsort(times, (size_t)requests, sizeof *times, compare_numbers);
    printf(
        "{\"name\": \"%s\", \"requests\": %d, \"us\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"most\": %.1f}}\n",
        argv[1], requests, times[requests / 2], times[requests * 9 / 10], times[requests * 99 / 100],
        times[requests - 1]);
    return 0;
}
