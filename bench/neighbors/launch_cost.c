/*
 * launch_cost.c: what a launch costs the CPU: launch_cost [NAME]
 *
 * Launches an empty kernel in batches, waits for each batch, and prints percentiles of the time that one launch took.
 * Run it alone and under `gridsmith run`, in turn, and compare. It needs libcuda.so.1 alone.
 */
#define _GNU_SOURCE
#include "plain_driver.h"

enum { BATCHES = 2000, BATCH = 200, WARM_UP = 200 };

static const char kernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";

typedef int launch_call(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                        void **);

static struct {
    void *function, *stream;
    launch_call *launch;
    int (*synchronize)(void *);
} gpu;

static double batch_ns(void) {
    uint64_t start = now_ns();
    for (int i = 0; i < BATCH; i++)
        check("cuLaunchKernel", gpu.launch(gpu.function, 1, 1, 1, 32, 1, 1, 0, gpu.stream, NULL, NULL));
    double ns = (double)(now_ns() - start) / BATCH;
    check("cuStreamSynchronize", gpu.synchronize(gpu.stream));
    return ns;
}

int main(int argc, char **argv) {
    static double times[BATCHES];
    open_gpu(kernel, "nothing", &gpu.function, &gpu.stream);
    find_call("cuLaunchKernel", &gpu.launch);
    find_call("cuStreamSynchronize", &gpu.synchronize);
    for (int i = -WARM_UP; i < BATCHES; i++) {
        double ns = batch_ns();
        if (i >= 0)
            times[i] = ns;
    }
    qsort(times, BATCHES, sizeof *times, compare_numbers);
    printf("{\"name\": \"%s\", \"launch_ns\": {\"p1\": %.0f, \"p50\": %.0f, \"p99\": %.0f}}\n", argc > 1 ? argv[1] : "",
           times[BATCHES / 100], times[BATCHES / 2], times[BATCHES * 99 / 100]);
    return 0;
}
