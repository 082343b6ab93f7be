/*
 * caches.cu: what an SM keeps of memory that a warp has loaded, and of code. The data of corpus/h200-caches.jsonl.gz
 * were made with it:
 *
 *   nvcc -O3 -std=c++17 -arch=sm_90 -o caches tests/gpu/caches.cu && ./caches | gzip -9 -n >caches.jsonl.gz
 *
 * Lines with "l1": each warp of a block on each SM loads a place, accesses `between` others, and loads the first again.
 * All lanes load one place (`uniform`) or places beside each other (`lanes`); or the others are stores (`stores`).
 * `slow` of `of` loads took more than 150 cycles, with the clock around them; `shared` bytes are not there for the
 * cache.
 *
 * Lines with "code": the last of three rounds of `n` steps, by the clock of each warp, for `warps` warps on each SM. A
 * step is a test and a jump over 24 instructions (`skip`), or four instructions (`line`).
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

typedef unsigned long long u64;

enum { SMS = 132, MOST_WARPS = 32, LOADS = 32, SLOW = 150, OUTPUT_WORDS = 1 << 18, MARKER = 0x7ffffff1 };

static void check(cudaError_t error) {
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    exit(1);
}

static __device__ __forceinline__ u64 now() {
    u64 time;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(time)::"memory");
    return time;
}

/* ---- code ---- */

#define FMA  "fma.rn.f32 %0, %0, %0, %0; "
#define FMA8 FMA FMA FMA FMA FMA FMA FMA FMA

template <int N> __global__ void skip(unsigned zero, unsigned *output) {
    unsigned x = threadIdx.x;
    float f = (float)zero;
    u64 began = 0, ended = 0;
#pragma unroll 1
    for (int round = 0; round < 3; round++) {
        __syncthreads();
        began = now();
#pragma unroll
        for (int i = 0; i < N; i++) {
            asm volatile("add.u32 %0, %0, %1;" : "+r"(x) : "r"(zero));
            if (x == MARKER)
                asm volatile(FMA8 FMA8 FMA8 : "+f"(f));
        }
        ended = now();
    }
    if (threadIdx.x % 32 == 0 || x == MARKER || f == 3.25f)
        output[blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32] = (unsigned)(ended - began);
}

template <int N> __global__ void line(unsigned zero, unsigned *output) {
    float f[4] = {(float)zero, 1, 2, 3};
    u64 began = 0, ended = 0;
#pragma unroll 1
    for (int round = 0; round < 3; round++) {
        __syncthreads();
        began = now();
#pragma unroll
        for (int i = 0; i < N; i++)
            asm volatile("fma.rn.f32 %0, %0, %0, %0; fma.rn.f32 %1, %1, %1, %1; fma.rn.f32 %2, %2, %2, %2; "
                         "fma.rn.f32 %3, %3, %3, %3;"
                         : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3]));
        ended = now();
    }
    if (threadIdx.x % 32 == 0 || f[0] + f[1] + f[2] + f[3] == 3.25f)
        output[blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32] = (unsigned)(ended - began);
}

template <class Kernel> static void time_code(const char *name, int n, Kernel kernel, unsigned *output) {
    enum { TRIALS = 20 };
    std::vector<unsigned> times(SMS * MOST_WARPS);
    for (int warps : {1, 4, 16, 32}) {
        unsigned most = 0, least = ~0u;
        double sum = 0;
        for (int trial = 0; trial < TRIALS; trial++) {
            kernel<<<SMS, warps * 32>>>(0, output);
            check(cudaMemcpy(times.data(), output, SMS * warps * sizeof(unsigned), cudaMemcpyDeviceToHost));
            for (int i = 0; i < SMS * warps; i++) {
                most = std::max(most, times[i]);
                least = std::min(least, times[i]);
                sum += times[i];
            }
        }
        printf("{\"code\":\"%s\",\"n\":%d,\"warps\":%d,\"least\":%u,\"mean\":%.1f,\"most\":%u}\n", name, n, warps,
               least, sum / (TRIALS * SMS * warps), most);
    }
}

template <int... N> static void time_codes(unsigned *output) {
    (time_code("skip", N, skip<N>, output), ...);
}

template <int... N> static void time_lines(unsigned *output) {
    (time_code("line", N, line<N>, output), ...);
}

/* ---- loads ---- */

enum { UNIFORM, LANES, STORES };

template <int KIND>
__global__ void load_again(const unsigned *data, unsigned mask, int between, unsigned *output, unsigned zero) {
    unsigned lane = threadIdx.x % 32, x = threadIdx.x / 32 * 7919u + blockIdx.x * 104729u + (unsigned)now();
    unsigned value, sum = 0, most = 0, slow = 0;
    u64 all = 0;
#pragma unroll 1
    for (int i = 0; i < LOADS; i++) {
        x = x * 1664525u + 1013904223u;
        const unsigned *at = data + (u64)((x >> 4) & mask) * 8 + (KIND == LANES ? lane : 0);
        asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
        sum += value;
#pragma unroll 1
        for (int j = 0; j < between; j++) {
            x = x * 1664525u + 1013904223u;
            const unsigned *other = data + (u64)((x >> 4) & mask) * 8 + (KIND == LANES ? lane : 0);
            if (KIND == STORES) {
                asm volatile("st.global.u32 [%0], %1;" ::"l"(other), "r"(zero) : "memory");
            } else {
                asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(value) : "l"(other) : "memory");
                sum += value;
            }
        }
        asm volatile("add.u32 %0, %0, %1;" : "+r"(sum) : "r"(zero));
        if (sum == MARKER)
            output[0] = 1;
        const unsigned *again = at + (sum & zero); /* all others are there */
        u64 began = now();
        asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(value) : "l"(again) : "memory");
        sum += value;
        if (sum == MARKER)
            output[0] = 1;
        unsigned took = (unsigned)(now() - began);
        most = max(most, took);
        slow += took > SLOW;
        all += took;
    }
    if (lane == 0) {
        unsigned *mine = output + 1 + (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 3;
        mine[0] = most, mine[1] = slow, mine[2] = (unsigned)(all / LOADS);
    }
}

template <int KIND> static void time_loads(const char *name, const unsigned *data, unsigned *output) {
    enum { TRIALS = 3, LARGE = 200 << 10, MASK = (1 << 19) - 1 };
    std::vector<unsigned> times(SMS * MOST_WARPS * 3);
    check(cudaFuncSetAttribute(load_again<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize, LARGE));
    for (int shared : {0, (int)LARGE})
        for (int warps : {1, 8, 32})
            for (int between : {0, 1, 4, 16, 64}) {
                unsigned most = 0, slow = 0;
                double mean = 0;
                for (int trial = 0; trial < TRIALS; trial++) {
                    load_again<KIND><<<SMS, warps * 32, shared>>>(data, MASK, between, output, 0);
                    check(cudaMemcpy(times.data(), output + 1, SMS * warps * 3 * sizeof(unsigned),
                                     cudaMemcpyDeviceToHost));
                    for (int i = 0; i < SMS * warps; i++) {
                        most = std::max(most, times[3 * i]);
                        slow += times[3 * i + 1];
                        mean += times[3 * i + 2];
                    }
                }
                printf("{\"l1\":\"%s\",\"shared\":%d,\"warps\":%d,\"between\":%d,\"most\":%u,\"slow\":%u,\"of\":%d,"
                       "\"mean\":%.1f}\n",
                       name, shared, warps, between, most, slow, TRIALS * SMS * warps * LOADS,
                       mean / (TRIALS * SMS * warps));
            }
}

int main() {
    enum { BYTES = (64 << 20) + 4096 };
    unsigned *data, *output;
    check(cudaMalloc(&data, BYTES));
    check(cudaMemset(data, 0, BYTES));
    check(cudaMalloc(&output, OUTPUT_WORDS * sizeof *output));
    time_loads<UNIFORM>("uniform", data, output);
    time_loads<LANES>("lanes", data, output);
    time_loads<STORES>("stores", data, output);
    time_codes<4, 8, 12, 16, 24, 32, 64, 128, 250>(output);
    time_lines<32, 64, 96, 128, 192, 256, 384, 512, 1024, 2000>(output);
    return 0;
}
