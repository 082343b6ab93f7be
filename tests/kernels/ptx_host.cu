// The kernels of tests/cpu/test_ptx_on_cpu.c. Their PTX is kept in ptx_host.ptx; to make it again:
//
//   nvcc -ptx -arch=compute_90 -o tests/kernels/ptx_host.ptx tests/kernels/ptx_host.cu
#include <cassert>
#include <cstdio>
#include <cuda_fp16.h>

// ---- barriers ----

// Warps 0 and 1 produce what warps 2 and 3 consume; two named barriers, arrived at from different places.
extern "C" __global__ void pipeline(int *out) {
    __shared__ int box[64];
    int thread = threadIdx.x, sum = 0;
    for (int round = 0; round < 5; round++) {
        if (thread < 64) {
            box[thread] = 100 * round + thread;
            asm volatile("bar.arrive 1, 128;" ::: "memory");
            asm volatile("bar.sync 2, 128;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            sum += box[127 - thread];
            asm volatile("bar.arrive 2, 128;" ::: "memory");
        }
    }
    out[thread] = sum;
}

// Thread 3 returns; the others vote at barriers.
extern "C" __global__ void votes(int *out) {
    int thread = threadIdx.x;
    if (thread == 3)
        return;
    out[3 * thread] = __syncthreads_count(thread % 2 == 0);
    out[3 * thread + 1] = __syncthreads_and(thread != 3);
    out[3 * thread + 2] = __syncthreads_or(thread == 3);
}

// Both sides of a branch have a barrier that is not aligned.
extern "C" __global__ void two_places(int *out) {
    __shared__ int box[64];
    int thread = threadIdx.x;
    box[thread] = thread;
    if (thread % 2)
        asm volatile("barrier.sync 3, 64;" ::: "memory"); // all of them
    else
        asm volatile("barrier.sync 3;" ::: "memory");
    out[thread] = box[63 - thread];
}

extern "C" __global__ void half_waits(int *out) {
    if (threadIdx.x < 16)
        asm volatile("bar.sync 0;" ::: "memory");
    else
        out[0] = __shfl_sync(0xffffffffu, threadIdx.x, 0);
}

extern "C" __global__ void waits_for_another(int *out, volatile int *flag) {
    if (threadIdx.x == 0) {
        while (*flag == 0)
            ;
        out[0] = 7;
    }
    if (threadIdx.x == 40)
        *flag = 1;
}

// ---- warps ----

extern "C" __global__ void warps(unsigned *out) {
    unsigned lane = threadIdx.x % 32, thread = threadIdx.x, all = 0xffffffffu;
    unsigned *mine = out + thread * 12;
    if (lane == 31)
        return; // its lane is still named by the masks
    mine[0] = __shfl_up_sync(all, lane, 2);
    mine[1] = __shfl_down_sync(all, lane, 2, 8);
    mine[2] = __shfl_xor_sync(all, lane, 1);
    mine[3] = __shfl_sync(all, lane, 5, 16);
    mine[4] = __ballot_sync(all, lane % 2);
    mine[5] = __all_sync(all, lane < 31);
    mine[6] = __any_sync(all, lane == 31);
    mine[7] = __match_any_sync(all, lane / 8);
    mine[8] = __reduce_add_sync(all, lane);
    mine[9] = lane < 20 ? __reduce_max_sync(0xfffffu, lane) : 0;
    if (lane >= 4 && lane < 9)
        mine[10] = __activemask();
    int chosen = 0;
    if (lane >= 4)
        asm volatile("{.reg .pred p; .reg .b32 l; elect.sync l|p, 0xfffffff0; selp.s32 %0, 1, 0, p;}"
                     : "=r"(chosen)
                     : "r"(lane));
    mine[11] = chosen;
}

// ---- calls ----

__device__ __noinline__ long long factorial(int n) {
    return n < 2 ? 1 : n * factorial(n - 1);
}

__device__ __noinline__ int twice(int x) {
    return 2 * x;
}

__device__ __noinline__ int square(int x) {
    return x * x;
}

__device__ __noinline__ int leaves(int x) {
    if (x > 5)
        asm volatile("exit;");
    return x;
}

__device__ int (*const table[])(int) = {twice, square, leaves};

struct triple {
    int a;
    double b;
    char c;
};

__device__ __noinline__ triple turn(triple t) {
    return triple{-t.a, t.b * 2, (char)(t.c + 1)};
}

extern "C" __global__ void calls(long long *out, triple given, int which) {
    int thread = threadIdx.x;
    out[thread * 4] = factorial(thread);
    triple turned = turn(given);
    out[thread * 4 + 1] = turned.a + 1000 * (long long)turned.b + turned.c;
    out[thread * 4 + 2] = table[(thread + which) % 3](thread);
    out[thread * 4 + 3] = 77;
}

extern "C" __global__ void cases(int *out, int shift) {
    int thread = threadIdx.x, result;
    switch (thread + shift) {
    case 0: result = 11; break;
    case 1: result = thread * 3; break;
    case 2: result = -5; break;
    case 3: result = thread ^ 99; break;
    case 4: result = 1 << thread; break;
    case 5: result = thread / 3; break;
    case 6: result = out[0]; break;
    default: result = 1000;
    }
    out[thread + 1] = result;
}

// ---- memory ----

__constant__ int primes[6] = {2, 3, 5, 7, 11, 13};
__device__ int counter = 40;
__device__ int *where = &counter;
extern __shared__ double dynamic[];

__device__ __noinline__ int kind_of(const void *p) {
    return __isShared(p) ? 1 : __isLocal(p) ? 2 : __isGlobal(p) ? 3 : 4;
}

__device__ __noinline__ int sum_of(const int *p, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += p[i];
    return sum;
}

extern "C" __global__ void memory(int *out) {
    __shared__ int shared[32];
    int thread = threadIdx.x, local[8];
    for (int i = 0; i < 8; i++)
        local[i] = thread * i;
    shared[thread] = thread + 1;
    dynamic[thread] = thread * 0.5;
    __syncthreads();
    int *mine = out + thread * 8;
    mine[0] = sum_of(shared, 32);
    mine[1] = sum_of(local, 8);
    mine[2] = sum_of(primes, 6);
    mine[3] = kind_of(shared) * 100 + kind_of(local) * 10 + kind_of(out);
    mine[4] = (int)(dynamic[31 - thread] * 2);
    mine[5] = *where + thread;
    mine[6] = reinterpret_cast<const int4 *>(shared)->z;
    mine[7] = (int)((char *)dynamic - (char *)shared);
}

extern "C" __global__ void atomics(unsigned *counts, float *sum, double *sums, unsigned long long *most, __half2 *halves) {
    __shared__ unsigned local;
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0)
        local = 0;
    __syncthreads();
    atomicAdd(&counts[thread % 4], 1u);
    atomicAdd(&local, 1u);
    atomicMax(&counts[4], thread);
    atomicMin(&counts[5], thread + 3);
    atomicInc(&counts[6], 9u);
    atomicDec(&counts[7], 9u);
    atomicOr(&counts[8], 1u << thread % 32);
    atomicXor(&counts[9], thread);
    atomicAdd(sum, 0.5f);
    atomicAdd(sums, 0.25);
    atomicMax(most, (unsigned long long)thread << 20);
    if (thread < 100)
        atomicAdd(halves, __floats2half2_rn(1, 2));
    while (atomicCAS(&counts[10], 0u, 1u) != 0u) // a lock
        __nanosleep(10);
    counts[11] = counts[11] + 1;
    __threadfence();
    atomicExch(&counts[10], 0u);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(&counts[12], local);
}

// ---- copies, mbarriers, matrices ----

extern "C" __global__ void copies(const int *in, int *out) {
    __shared__ __align__(16) int box[4 * 32];
    __shared__ unsigned long long barrier;
    unsigned thread = threadIdx.x, at = (unsigned)__cvta_generic_to_shared(box + 4 * thread);
    unsigned gate = (unsigned)__cvta_generic_to_shared(&barrier);
    if (thread == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(gate) : "memory");
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(in + 4 * thread), "r"(thread % 17) : "memory");
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    for (int phase = 0; phase < 3; phase++) {
        unsigned done = 0;
        asm volatile("{.reg .b64 s; mbarrier.arrive.shared.b64 s, [%0];}" ::"r"(gate) : "memory");
        while (!done)
            asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                         : "=r"(done)
                         : "r"(gate), "r"(phase & 1)
                         : "memory");
    }
    for (int i = 0; i < 4; i++)
        out[4 * thread + i] = box[4 * (31 - thread) + i];
}

// d = a b + c: a is 16 by 16 (row by row), b is 16 by 8 (column by column).
extern "C" __global__ void product(const __half *a, const __half *b, float *d) {
    __shared__ __align__(16) __half rows[16 * 16];
    unsigned lane = threadIdx.x, ra[4], rb[2], group = lane / 4, pair = lane % 4;
    for (int i = 0; i < 8; i++)
        rows[lane * 8 + i] = a[lane * 8 + i];
    __syncwarp();
    unsigned at = (unsigned)__cvta_generic_to_shared(rows + (lane % 16) * 16 + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                 : "r"(at));
    for (int i = 0; i < 2; i++)
        rb[i] = *(const unsigned *)(b + group * 16 + pair * 2 + 8 * i);
    float c[4] = {1, 2, 3, 4};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    for (int i = 0; i < 4; i++)
        d[(group + 8 * (i / 2)) * 8 + pair * 2 + i % 2] = c[i];
}

// d = a b: a is 16 by 32 (row by row), b is 32 by 8 (column by column).
extern "C" __global__ void bytes(const signed char *a, const unsigned char *b, int *d) {
    unsigned lane = threadIdx.x, ra[4], rb[2], group = lane / 4, pair = lane % 4;
    for (int i = 0; i < 4; i++)
        ra[i] = *(const unsigned *)(a + (group + 8 * (i % 2)) * 32 + pair * 4 + 16 * (i / 2));
    for (int i = 0; i < 2; i++)
        rb[i] = *(const unsigned *)(b + group * 32 + pair * 4 + 16 * i);
    int c[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    for (int i = 0; i < 4; i++)
        d[(group + 8 * (i / 2)) * 8 + pair * 2 + i % 2] = c[i];
}

// ---- order ----

// The order in which blocks and threads run.
extern "C" __global__ void order(unsigned *out, unsigned *next) {
    unsigned turn = atomicAdd(next, 1u);
    out[turn] = blockIdx.x * blockDim.x + threadIdx.x;
}

// ---- errors ----

extern "C" __global__ void past_shared(int *out, int at) {
    __shared__ int box[64];
    box[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = box[threadIdx.x + at];
}

extern "C" __global__ void past_global(int *out, int at) {
    out[threadIdx.x + at] = 2;
}

extern "C" __global__ void misaligned(int *out, int at) {
    *(int *)((char *)out + at) = 2;
}

extern "C" __global__ void asserts(int *out, int n) {
    assert((int)threadIdx.x < n);
    out[threadIdx.x] = 1;
}

extern "C" __global__ void traps(int *out) {
    if (threadIdx.x == 5)
        __trap();
    out[0] = 1;
}

extern "C" __global__ void prints(int *out) {
    if (threadIdx.x == 1)
        out[0] = printf("%d %s %5.2f %lld\n", 3, "words", 1.5, 1LL << 40);
}
