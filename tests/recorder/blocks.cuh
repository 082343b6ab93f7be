/*
 * blocks.cuh: what blocks do on the GPU. A block notes where and when it starts, keeps words in registers, triggers its
 * dependents and ends when it was told to, and notes when that was. A parent launches other kernels.
 */
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

static void check(cudaError_t code, const char *what) {
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "recorder: %s: %s\n", what, cudaGetErrorString(code));
    exit(3);
}

[[noreturn]] static void fail(const std::string &what, const std::string &word) {
    fprintf(stderr, "recorder: %s: %s\n", what.c_str(), word.c_str());
    exit(2);
}

struct note {
    uint64_t start_ns, end_ns; /* 0: not yet */
    uint32_t sm;
};

enum trigger_mode { NEVER, EARLY, SOME, LATE };

struct orders {
    note *notes;
    const uint32_t *words; /* to be kept in registers */
    uint32_t *sink;
    const uint64_t *base_ns;                         /* the beginning of slot 0, on the GPU's clock */
    uint64_t trigger_ns, exit_ns, run_ns, spread_ns; /* since then; run_ns 0: until exit_ns */
    int trigger;
};

__device__ static uint64_t gpu_clock() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__device__ static void trigger_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

template <int LIVE> __global__ void hold(orders told) {
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), kept[LIVE + 1], sum = 0;
    bool is_first = !threadIdx.x && !threadIdx.y && !threadIdx.z;
    if (is_first) {
        uint32_t sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        told.notes[block].sm = sm;
        told.notes[block].start_ns = gpu_clock();
    }
    bool is_early = told.trigger == EARLY || (told.trigger == SOME && block % 2 == 0);
    bool is_late = told.trigger == LATE || (told.trigger == SOME && block % 2);
    if (is_early)
        trigger_dependents();
#pragma unroll
    for (int i = 0; i < LIVE; i++)
        kept[i] = ((const volatile uint32_t *)told.words)[i * 32];
    if (is_first) {
        uint64_t base = *(const volatile uint64_t *)told.base_ns, until = base + told.exit_ns;
        if (told.run_ns)
            until = told.notes[block].start_ns + told.run_ns + block * 40503ull % 65536 * told.spread_ns / 65536;
        if (is_late)
            while (gpu_clock() < base + told.trigger_ns && gpu_clock() < until)
                ;
        if (is_late && base + told.trigger_ns < until)
            trigger_dependents();
        while (gpu_clock() < until)
            ;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < LIVE; i++)
        sum ^= kept[i];
    if (sum)
        *told.sink = sum; /* never: all words are 0 */
    if (is_first)
        told.notes[block].end_ns = gpu_clock();
}

__global__ void tell_time(volatile uint64_t *to) {
    *to = gpu_clock();
}

typedef void (*hold_kernel)(orders);

struct variant {
    int live;
    hold_kernel kernel;
    int registers;
};

#define VARIANT(live)                                                                                                  \
    { live, hold<live>, 0 }
static variant variants[] = {VARIANT(0),   VARIANT(12),  VARIANT(20),  VARIANT(28), VARIANT(36),
                             VARIANT(44),  VARIANT(60),  VARIANT(76),  VARIANT(92), VARIANT(112),
                             VARIANT(140), VARIANT(172), VARIANT(204), VARIANT(228)};

/* ---- kernels that launch kernels ---- */

/* A kernel that a block launches at a time. */
struct child {
    int live;
    unsigned grid[3], block[3], shared;
    uint64_t at_ns; /* since base_ns */
    orders told;
};

#ifdef CHILDREN
template <int LIVE> __device__ static void start_child(const child &c) {
    dim3 grid(c.grid[0], c.grid[1], c.grid[2]), block(c.block[0], c.block[1], c.block[2]);
    hold<LIVE><<<grid, block, c.shared, cudaStreamFireAndForget>>>(c.told);
}

/* A block that launches its children, one after the other, and then does as it is told. */
__global__ void parent(orders told, const child *children, int count) {
    if (threadIdx.x)
        return;
    uint32_t sm;
    uint64_t base = *(const volatile uint64_t *)told.base_ns;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    told.notes[0].sm = sm;
    told.notes[0].start_ns = gpu_clock();
    for (int i = 0; i < count; i++) {
        while (gpu_clock() < base + children[i].at_ns)
            ;
        if (children[i].live <= 0)
            start_child<0>(children[i]);
        else if (children[i].live <= 36)
            start_child<36>(children[i]);
        else
            start_child<92>(children[i]);
    }
    while (gpu_clock() < base + told.exit_ns)
        ;
    told.notes[0].end_ns = gpu_clock();
}
#endif
