// Kernels for tests/forms/test_form_cases.c: ways in which a block of a reshaped kernel could notice those before it, or in which
// threads leave. Each takes an output, an input and a number, and is launched with blocks of 64 threads.
#include "cuda_mine.h"

#define HERE (blockIdx.y * gridDim.x + blockIdx.x)
#define KERNEL(name) extern "C" __global__ void name

// ---- parameters that one block changes ----

KERNEL(changes_parameter)(int *out, const int *in, int n) {
    out += HERE * 64;
    n += blockIdx.x;
    out[threadIdx.x] = in[threadIdx.x] + n;
}

__device__ void move(int *&pointer, int &n, int by) {
    pointer += by;
    n *= 2;
}

KERNEL(changes_by_reference)(int *out, const int *in, int n) {
    move(out, n, HERE * 64);
    out[threadIdx.x] = in[threadIdx.x] + n;
}

struct values {
    int a[4];
};

extern "C" __global__ void changes_struct(int *out, const int *in, int n, values v) {
    v.a[threadIdx.x & 3] += HERE;
    out[HERE * 64 + threadIdx.x] = v.a[n & 3] + v.a[threadIdx.x & 3] + in[threadIdx.x];
}

// ---- threads that leave ----

KERNEL(falls_off_the_end)(int *out, const int *in, int n) {
    __shared__ int tile[64];
    int i = HERE * 64 + threadIdx.x;
    if (i < n) {
        tile[threadIdx.x] = in[i];
        __syncthreads();
        out[i] = tile[threadIdx.x ^ (i + 1 < n)] + HERE;
    }
}

KERNEL(leaves_by_goto)(int *out, const int *in, int n) {
    __shared__ int tile[64];
    int i = HERE * 64 + threadIdx.x;
    tile[threadIdx.x] = in[i];
    if (i >= n)
        goto end;
    __syncthreads();
    out[i] = tile[0] + tile[threadIdx.x];
    if (threadIdx.x < 10)
        goto end;
    __syncthreads();
    out[i] += 1000;
end:;
}

KERNEL(loops_of_unequal_length)(int *out, const int *in, int n) {
    __shared__ int tile[64];
    int i = HERE * 64 + threadIdx.x, sum = 0;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    for (int k = 0; k < (int)threadIdx.x % 5 + (int)blockIdx.x % 3; k++) {
        sum += tile[(threadIdx.x + k) % 64];
        if (sum > n * 8)
            return;
    }
    out[i] = sum;
}

KERNEL(leaves_when_unlikely)(int *out, const int *in, int n) {
    __shared__ int tile[64];
    int i = HERE * 64 + threadIdx.x;
    if (i >= n) [[unlikely]] {
        return;
    }
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = tile[threadIdx.x] + tile[0];
}

KERNEL(votes_after_return)(int *out, const int *in, int n) {
    int i = HERE * 64 + threadIdx.x;
    if (i >= n || in[i] % 7 == 0)
        return;
    int count = __syncthreads_count(in[i] & 1), any = __syncthreads_or(in[i] % 16 == 3),
        all = __syncthreads_and(in[i] != 5 + (int)HERE);
    __syncthreads();
    out[i] = count + 1000 * any + 2000 * all;
    if (threadIdx.x % 3 == 0)
        return;
    out[i] += 10000 * __syncthreads_count(threadIdx.x < 40);
}

// ---- the number of the block, reached in other ways ----

KERNEL(in_a_header)(int *out, const int *in, int n) {
    out[HERE * 64 + threadIdx.x] = from_header(in[threadIdx.x] + n);
}

struct place {
    int block, thread;
    __device__ place() : block(blockIdx.x + gridDim.x * blockIdx.y), thread(threadIdx.x) {
    }
    __device__ int at() const {
        return block * 64 + thread;
    }
};
typedef place spot;

KERNEL(in_a_constructor_by_typedef)(int *out, const int *in, int n) {
    spot here;
    out[here.at()] = in[here.thread] + n;
}

template <typename T>
__device__ int ask() {
    T here;
    return here.at();
}

KERNEL(in_a_constructor_by_template)(int *out, const int *in, int n) {
    out[ask<place>()] = in[threadIdx.x] - n;
}

__device__ int with_default(int a, int block = blockIdx.x + gridDim.x * blockIdx.y) {
    return a + 7 * block;
}

KERNEL(in_a_default_argument)(int *out, const int *in, int n) {
    out[HERE * 64 + threadIdx.x] = with_default(in[threadIdx.x] + n);
}

#define FUNCTION(name, what)                                                                                           \
    __device__ int name(int a) {                                                                                       \
        return a + (what).x;                                                                                           \
    }
FUNCTION(made_by_macro, blockIdx)

KERNEL(in_a_function_of_a_macro)(int *out, const int *in, int n) {
    out[HERE * 64 + threadIdx.x] = made_by_macro(in[threadIdx.x] + n);
}

KERNEL(in_assembly)(int *out, const int *in, int n) {
    unsigned x, y, grid;
    asm("mov.u32 %0, %%ctaid.x;" : "=r"(x));
    asm("{ .reg .u32 t; mov.u32 t, %%ctaid.y; add.u32 %0, t, 0; }" : "=r"(y));
    asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(grid));
    out[(y * grid + x) * 64 + threadIdx.x] = in[threadIdx.x] + n;
}

__device__ __attribute__((noinline)) int number_of_block(int a) {
    return a + 64 * (int)(blockIdx.y * gridDim.x + blockIdx.x);
}

__device__ __attribute__((noinline)) int number_of_thread(int a) {
    return number_of_block(a) + (int)threadIdx.x;
}

KERNEL(in_functions_that_are_called)(int *out, const int *in, int n) {
    out[number_of_thread(0)] = in[threadIdx.x] + number_of_block(n);
}

// ---- functions in which threads wait ----

__device__ __attribute__((noinline)) int sum_of_block(int *tile, int a) {
    int sum = 0;
    tile[threadIdx.x] = a;
    __syncthreads();
    for (int i = 0; i < 64; i++)
        sum += tile[i];
    __syncthreads();
    return sum;
}

KERNEL(barrier_in_a_function)(int *out, const int *in, int n) {
    __shared__ int tile[64];
    int i = HERE * 64 + threadIdx.x;
    out[i] = sum_of_block(tile, in[i] + n);
}

__device__ __attribute__((noinline)) int sum_of_warp(int a) {
    for (int other = 16; other; other /= 2)
        a += __shfl_xor_sync(0xffffffffu, a, other);
    return a;
}

KERNEL(shuffle_in_a_function)(int *out, const int *in, int n) {
    int i = HERE * 64 + threadIdx.x;
    out[i] = sum_of_warp(in[i] + n);
}

KERNEL(barrier_in_a_function_after_return)(int *out, const int *in, int n) {
    __shared__ int tile[64];
    int i = HERE * 64 + threadIdx.x;
    if (i >= n)
        return;
    out[i] = sum_of_block(tile, in[i]);
}

KERNEL(shuffle_in_a_function_after_return)(int *out, const int *in, int n) {
    int i = HERE * 64 + threadIdx.x;
    if (i >= n)
        return;
    out[i] = sum_of_warp(in[i]);
}

__device__ int (*volatile chosen)(int);

KERNEL(through_a_pointer)(int *out, const int *in, int n) {
    chosen = n > 5 ? number_of_block : number_of_thread;
    out[HERE * 64 + threadIdx.x] = chosen(in[threadIdx.x]);
}

// ---- waiting for other blocks ----

KERNEL(looks_back)(int *out, const int *in, int n) {
    volatile int *flags = out;
    if (threadIdx.x == 0) {
        int before = 0;
        if (blockIdx.x > 0)
            while ((before = flags[blockIdx.x - 1]) == 0)
                ;
        flags[blockIdx.x] = before + in[blockIdx.x] % 16 + 1;
    }
}

// What it writes elsewhere is at a place that it reads from memory: the number of a place is not a pointer.
KERNEL(looks_back_and_stores)(int *out, const int *in, int n) {
    volatile int *flags = out;
    if (threadIdx.x == 0) {
        int before = 0;
        if (blockIdx.x > 0)
            while ((before = flags[blockIdx.x - 1]) == 0)
                ;
        long long place = ((const long long *)in)[blockIdx.x];
        ((int *)in)[1024 + (place & 255)] = n;
        flags[blockIdx.x] = before + in[blockIdx.x] % 16 + 1;
    }
}

// Its blocks are numbered by columns, as those of DeviceSelect are.
KERNEL(looks_back_by_columns)(int *out, const int *in, int n) {
    volatile int *flags = out;
    int tile = blockIdx.x * gridDim.y + blockIdx.y;
    if (threadIdx.x == 0) {
        int before = 0;
        if (tile > 0)
            while ((before = flags[tile - 1]) == 0)
                ;
        flags[tile] = before + in[tile] % 16 + n;
    }
}

// The pointer through which it writes is read from memory: it may be that of the flags.
KERNEL(looks_back_and_stores_anywhere)(int *out, const int *in, int n) {
    volatile int *flags = out;
    if (threadIdx.x == 0) {
        if (blockIdx.x > 0)
            while (flags[blockIdx.x - 1] == 0)
                ;
        ((int *const *)in)[blockIdx.x][n] = n;
        flags[blockIdx.x] = 1;
    }
}

__device__ __attribute__((noinline)) int look(volatile int *flag) {
    return *flag;
}

KERNEL(waits_in_a_function)(int *out, const int *in, int n) {
    if (blockIdx.x == 0)
        out[4096] = n;
    else
        while (look(out + 4096) == 0)
            ;
    out[HERE * 64 + threadIdx.x] = in[threadIdx.x];
}

// ---- sources ----

KERNEL(parameters_that_end_in_endif)(int *out, const int *in,
#ifdef LONG_NUMBERS
                                     long n
#else
                                     int n
#endif
) {
    out[HERE * 64 + threadIdx.x] = in[threadIdx.x] + (int)n;
}

// ---- kernels that the same file launches ----

KERNEL(launched_by_function)(int *out, const int *in, int n) {
    out[HERE * 64 + threadIdx.x] = in[threadIdx.x] + 3 * n;
}

KERNEL(launched_by_brackets)(int *out, const int *in, int n) {
    out[HERE * 64 + threadIdx.x] = in[threadIdx.x] + 5 * n;
}

KERNEL(launched_by_a_graph)(int *out, const int *in, int n) {
    __shared__ int tile[64];
    int i = HERE * 64 + threadIdx.x;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    if (i < n)
        out[i] = tile[63 - threadIdx.x] + HERE;
}

typedef struct stream *cudaStream_t;
typedef struct graph *cudaGraph_t;
typedef struct node *cudaGraphNode_t;
struct cudaKernelNodeParams {
    void *func;
    dim3 gridDim, blockDim;
    unsigned sharedMemBytes;
    void **kernelParams, **extra;
};
extern "C" int cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                cudaStream_t stream);
extern "C" int cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                      size_t count, const cudaKernelNodeParams *parameters);
extern "C" int cudaStreamBeginCapture(cudaStream_t stream, int mode);
extern "C" int cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);

void launch_by_function(int *out, const int *in, int n) {
    void *arguments[] = {&out, &in, &n};
    cudaLaunchKernel((const void *)launched_by_function, dim3(7), dim3(64), arguments, 0, 0);
}

void launch_by_brackets(int *out, const int *in, int n, cudaStream_t stream, cudaGraph_t *captured) {
    cudaStreamBeginCapture(stream, 0);
    launched_by_brackets<<<dim3(7, 3), 64, 0, stream>>>(out, in, n);
    cudaStreamEndCapture(stream, captured);
}

void launch_by_a_graph(int *out, const int *in, int n, cudaGraph_t graph) {
    cudaGraphNode_t first, second;
    void *arguments[] = {&out, &in, &n};
    cudaKernelNodeParams parameters = {(void *)launched_by_a_graph, dim3(7, 3), dim3(64), 0, arguments, 0};
    cudaGraphAddKernelNode(&first, graph, 0, 0, &parameters);
    cudaGraphAddKernelNode(&second, graph, &first, 1, &parameters);
}
