// host.cu: one kernel for each thing that the host executor does.
#include <cuda_fp16.h>
#include <mma.h>

extern "C" __global__ void where(int *out) {
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = (int)(1000 * block + thread);
}

__global__ void reverse(int *data) {
    extern __shared__ int every[];
    every[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    data[blockIdx.x * blockDim.x + threadIdx.x] = every[blockDim.x - 1 - threadIdx.x];
}

extern __shared__ unsigned char file_bytes[];
static __shared__ int file_sum;

__device__ int total() {
    return file_sum + file_bytes[0];
}

__global__ void outside(int *out) {
    if (threadIdx.x == 0) {
        file_sum = 0;
        file_bytes[0] = 7;
    }
    __syncthreads();
    atomicAdd(&file_sum, (int)threadIdx.x);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = total();
}

// Two declarators of different kinds, a template as type and a local constant as a bound.
template <class A, int N> struct pair_of {
    A x[N];
};

__global__ void declarators(int *out) {
    const int half = 16;
    __shared__ pair_of<int, 2> pairs[half], other;
    __shared__ volatile int sum, *where_to, table[half][3];
    if (threadIdx.x < half)
        pairs[threadIdx.x].x[1] = table[threadIdx.x][2] = threadIdx.x;
    if (threadIdx.x == 0) {
        sum = 0;
        where_to = &sum;
        other.x[0] = 100;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < half; i++)
            *where_to = *where_to + pairs[i].x[1] + table[i][2];
    __syncthreads();
    out[threadIdx.x] = sum + other.x[0];
}

__global__ void warps(unsigned *out) {
    unsigned lane = threadIdx.x % 32, *mine = out + (blockIdx.x * blockDim.x + threadIdx.x) * 10;
    mine[0] = __shfl_sync(0xffffffffu, lane * 3, 5);
    mine[1] = __shfl_up_sync(0xffffffffu, lane, 2);
    mine[2] = __shfl_down_sync(0xffffffffu, lane, 2, 8);
    mine[3] = __shfl_xor_sync(0xffffffffu, lane, 1);
    mine[4] = __ballot_sync(0xffffffffu, lane & 1);
    mine[5] = __all_sync(0xffffffffu, lane < 32) * 2 + __any_sync(0xffffffffu, lane == 40);
    mine[6] = __match_any_sync(0xffffffffu, lane / 8);
    mine[7] = __reduce_add_sync(0xffffffffu, lane);
    if (lane < 16)
        mine[8] = __shfl_sync(0x0000ffffu, lane + 1, 15);
    else
        mine[8] = __shfl_sync(0xffff0000u, lane + 1, 16);
    if (lane >= 20)
        return;
    mine[9] = __ballot_sync(0xffffffffu, 1); // those that returned do not count
}

__global__ void votes(int *out) {
    if (threadIdx.x == 3)
        return;
    int *mine = out + threadIdx.x * 3;
    mine[0] = __syncthreads_count(threadIdx.x % 2);
    mine[1] = __syncthreads_and(threadIdx.x != 3);
    mine[2] = __syncthreads_or(threadIdx.x == 3);
}

__global__ void atomics(int *counts, float *sum, unsigned long long *most) {
    atomicAdd(&counts[threadIdx.x % 4], 1);
    atomicAdd(sum, 0.5f);
    atomicMax(most, (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x);
    if (atomicCAS(&counts[4], 0, 5) == 0)
        counts[5] = 1;
    atomicInc((unsigned *)&counts[6], 9);
}

using namespace nvcuda;
__global__ void product(const half *a, const half *b, float *c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 1.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++)
        fc.x[i] *= 2.0f;
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

__global__ void halves(const float *in, half *out, float *back) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __float2half(in[i]);
    back[i] = __half2float(out[i]);
}

__global__ void half_waits(int *out) {
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __shfl_sync(0xffffffffu, 1, 0);
    out[0] = 1;
}

__global__ void out_of_bounds(int *out, int n) {
    __shared__ int small[8];
    small[threadIdx.x] = 1;
    out[n] = small[0];
}

__global__ void past_shared(int *out, int n) {
    __shared__ int small[8], big[80];
    big[threadIdx.x] = small[threadIdx.x + n] = 1;
    out[threadIdx.x] = small[threadIdx.x + n] + big[0];
}

__global__ void crash(int *out, int n) {
    if (blockIdx.x == 2 && threadIdx.x == 1)
        *(int *)(size_t)n = 1;
}
