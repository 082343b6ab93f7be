/*
 * waits.cu: kernels whose machine code and PTX test_waits.c looks at: those that wait for memory, and those that do not.
 *
 *   for a in 80 90 100; do nvcc -arch=sm_$a -cubin -o ../fuzz/corpus/cubin/waits$a.cubin waits.cu; done    (CUDA 13.0)
 *   nvcc -arch=compute_90 -ptx -o ../fuzz/corpus/ptx/waits waits.cu
 */
#include <cooperative_groups.h>

#define KERNEL extern "C" __global__ void

/* ---- kernels that wait for memory ---- */

KERNEL waits_for_value(volatile unsigned long long *p) {
    while (*p < 7)
        ;
}

KERNEL waits_to_acquire(unsigned *p) {
    unsigned value;
    do
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(p));
    while (value < 7);
}

KERNEL waits_by_adding(unsigned *p) {
    while (atomicAdd(p, 0) < 10)
        ;
}

KERNEL waits_by_exchange(unsigned *p) {
    while (atomicExch(p, 1))
        ;
}

KERNEL waits_for_lock(unsigned *p) {
    while (atomicCAS(p, 0, 1))
        __nanosleep(100);
}

KERNEL waits_for_grid(void) {
    cooperative_groups::this_grid().sync();
}

/* One thread reads, and tells all threads of the block. */
KERNEL waits_by_block(volatile unsigned *p) {
    __shared__ unsigned seen;
    do {
        __syncthreads();
        if (threadIdx.x == 0)
            seen = *p;
        __syncthreads();
    } while (seen < 7);
}

/* The same, for some time. */
KERNEL waits_by_block_for(unsigned *p, int most) {
    __shared__ unsigned seen;
    int tries = 0;
    do {
        __syncthreads();
        if (threadIdx.x == 0)
            seen = atomicAdd(p, 0);
        __syncthreads();
    } while (seen < gridDim.x && ++tries < most);
}

/* A barrier of the grid, a scan in which each block waits for the one before it, and a kernel that answers. */
KERNEL waits_at_barrier(unsigned *arrived) {
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (*(volatile unsigned *)arrived < gridDim.x)
            ;
    }
    __syncthreads();
}

KERNEL waits_in_turn(volatile unsigned *done) {
    while (blockIdx.x && done[blockIdx.x - 1] == 0)
        ;
    __threadfence();
    done[blockIdx.x] = 1;
}

KERNEL waits_and_tells(unsigned *p, unsigned *answer) {
    unsigned value;
    do
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(p));
    while (value < 7);
    __threadfence();
    *answer = value;
}

/* ---- kernels that do not ---- */

KERNEL runs_sum(const float *a, int n, float *out) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i];
    *out = sum;
}

KERNEL runs_search(const int *a, int *out) {
    int i = 0;
    while (a[i])
        i++;
    *out = i;
}

KERNEL runs_tasks(float *data, unsigned *next, unsigned n) {
    __shared__ unsigned task;
    for (;;) {
        if (threadIdx.x == 0)
            task = atomicAdd(next, 1);
        __syncthreads();
        unsigned mine = task;
        __syncthreads();
        if (mine >= n)
            return;
        data[mine] += 1;
    }
}

/* A sort in shared memory, whose end is there; the size is read again and again. */
KERNEL runs_sort(float *data, volatile unsigned *n) {
    extern __shared__ float sorted[];
    __shared__ int has_changed;
    sorted[threadIdx.x] = data[threadIdx.x];
    do {
        __syncthreads();
        has_changed = 0;
        __syncthreads();
        unsigned i = threadIdx.x;
        if (i + 1 < *n && sorted[i] > sorted[i + 1]) {
            sorted[i] = sorted[i + 1];
            has_changed = 1;
        }
        __syncthreads();
    } while (has_changed);
    data[threadIdx.x] = sorted[threadIdx.x];
}

/* Works until it is told to stop. */
KERNEL runs_until(volatile int *stop, unsigned *ticks) {
    while (!*stop)
        atomicAdd(ticks, 1);
}

/* An update by compare-and-swap, which expects what it has seen. */
KERNEL runs_update(float *p, float value) {
    unsigned seen = *(volatile unsigned *)p, expected;
    do {
        expected = seen;
        seen = atomicCAS((unsigned *)p, expected, __float_as_uint(__uint_as_float(expected) * value));
    } while (seen != expected);
}

struct node {
    node *volatile next;
};

KERNEL runs_along(node *p, node **out) {
    while (p->next)
        p = p->next;
    *out = p;
}

/* ---- other waits ---- */

KERNEL at_barrier(int n) {
    if (threadIdx.x < 32)
        asm volatile("bar.sync 1, %0;" ::"r"(n));
}

KERNEL in_shared(int n) {
    extern __shared__ volatile int words[];
    while (words[n] == 0)
        ;
}

KERNEL in_malloc(void **p, int n) {
    void *got;
    while (!(got = malloc(n)))
        ;
    *p = got;
}

KERNEL endless(void) {
    for (unsigned x = threadIdx.x;;)
        asm volatile("mad.lo.u32 %0, %0, 1664525, 1013904223;" : "+r"(x));
}

/* The flag is read once: what is left is a loop without an end. */
KERNEL read_once(const unsigned *__restrict__ flag) {
    while (*flag == 0)
        asm volatile("");
}

#if __CUDA_ARCH__ >= 900
KERNEL at_cluster(void) {
    asm volatile("barrier.cluster.arrive;");
    asm volatile("barrier.cluster.wait;");
}

KERNEL at_dependency(void) {
    asm volatile("griddepcontrol.wait;");
}

KERNEL at_mbarrier(unsigned address) {
    asm volatile(
        "{.reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @p bra D; bra L; D: }" ::"r"(address));
}
#endif
