/*
 * launch_cost.c: the CPU time that `gridsmith run` adds to a launch: launch_cost [NAME]
 *
 * Launches an empty kernel in batches: alternately one through the libcuda.so.1 that the program has opened, and one
 * through the driver behind it, in one process. So differences between processes and changes over time affect both.
 * Prints percentiles of the time of one launch, and the median of the differences of two batches with its 99%
 * confidence interval. Without a library in front of the driver, both are the driver, and the difference shows the
 * resolution. It needs only libcuda.so.1.
 */
#define _GNU_SOURCE
#include "plain_driver.h"

#include <link.h>

enum { PAIRS = 4000, BATCH = 100, WARM_UP = 200 };

static const char kernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";

typedef int launch_call(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                        void **);

static struct {
    void *function, *stream;
    launch_call *through, *direct;
    int (*synchronize)(void *);
} gpu;

/* ---- the driver behind the library ---- */

/* Opens the other loaded libcuda.so, which the program has not opened itself. */
static int open_behind(struct dl_phdr_info *loaded, size_t size, void *behind) {
    struct link_map *own;
    const char *name = strrchr(loaded->dlpi_name, '/');
    (void)size;
    if (!name || strncmp(name, "/libcuda.so", strlen("/libcuda.so")) != 0 ||
        dlinfo(library, RTLD_DI_LINKMAP, &own) != 0 || own->l_addr == loaded->dlpi_addr)
        return 0;
    *(void **)behind = dlopen(loaded->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
    return 1;
}

static void find_direct(void) {
    void *behind = NULL, *front = library;
    dl_iterate_phdr(open_behind, &behind);
    library = behind ? behind : front;
    find_call("cuLaunchKernel", &gpu.direct);
    library = front;
}

/* ---- batches ---- */

/* The time of one launch. */
static double batch_ns(launch_call *launch) {
    uint64_t start = now_ns();
    for (int i = 0; i < BATCH; i++)
        check("cuLaunchKernel", launch(gpu.function, 1, 1, 1, 32, 1, 1, 0, gpu.stream, NULL, NULL));
    double ns = (double)(now_ns() - start) / BATCH;
    check("cuStreamSynchronize", gpu.synchronize(gpu.stream));
    return ns;
}

static void print_times(const char *name, double *through, double *direct, double *more) {
    const int half = PAIRS / 2, around = 81; /* 2.576 * sqrt(PAIRS) / 2 */
    qsort(through, PAIRS, sizeof *through, compare_numbers);
    qsort(direct, PAIRS, sizeof *direct, compare_numbers);
    qsort(more, PAIRS, sizeof *more, compare_numbers);
    printf(
        "{\"name\": \"%s\", \"launch_ns\": {\"p1\": %.0f, \"p50\": %.0f, \"p99\": %.0f}, \"direct_ns\": {\"p1\": %.0f, "
        "\"p50\": %.0f, \"p99\": %.0f}, \"more_ns\": {\"median\": %.1f, \"least\": %.1f, \"most\": %.1f}}\n",
        name, through[PAIRS / 100], through[half], through[PAIRS * 99 / 100], direct[PAIRS / 100], direct[half],
        direct[PAIRS * 99 / 100], more[half], more[half - around], more[half + around]);
}

int main(int argc, char **argv) {
    static double through[PAIRS], direct[PAIRS], more[PAIRS];
    open_gpu(kernel, "nothing", &gpu.function, &gpu.stream);
    find_call("cuLaunchKernel", &gpu.through);
    find_call("cuStreamSynchronize", &gpu.synchronize);
    find_direct();
    for (int i = -WARM_UP; i < PAIRS; i++) {
        int at = i < 0 ? 0 : i;
        if (i % 2)
            through[at] = batch_ns(gpu.through);
        direct[at] = batch_ns(gpu.direct);
        if (i % 2 == 0)
            through[at] = batch_ns(gpu.through);
        more[at] = through[at] - direct[at];
    }
    print_times(argc > 1 ? argv[1] : "", through, direct, more);
    return 0;
}
