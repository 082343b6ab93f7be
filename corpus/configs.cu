// configs.cu: kernels that ask for shared memory in the older way, by a preferred cache configuration, and in the newer way,
// by a carve-out. Recorded with `gridsmith trace`, each launch shows the configuration that the SMs had.
//
//   nvcc -arch=sm_90 -std=c++17 -o configs corpus/configs.cu && gridsmith trace -o configs.jsonl -- ./configs
#include <cstdio>

#define CHECK(call) check(call, #call)
static void check(cudaError_t code, const char *what) {
    if (code != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
        exit(1);
    }
}

static float *memory;

template <int ASKED> __global__ void cached(float *out) {
    extern __shared__ float shared[];
    shared[threadIdx.x] = out[threadIdx.x] + ASKED;
    __syncthreads();
    out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

template <int ASKED> __global__ void carved(float *out) {
    extern __shared__ float shared[];
    shared[threadIdx.x] = out[threadIdx.x] * ASKED;
    __syncthreads();
    out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

static void launch(void (*kernel)(float *)) {
    static const int sizes[] = {4096, 16384, 40960, 65536, 100000};
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
    for (int threads = 32; threads <= 1024; threads *= 4)
        for (int size : sizes) {
            kernel<<<200, threads, size>>>(memory);
            CHECK(cudaDeviceSynchronize());
        }
}

template <int ASKED> static void both() {
    static const cudaFuncCache configs[] = {cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1,
                                            cudaFuncCachePreferEqual};
    static const int percents[] = {-1, 100, 0, 50};
    CHECK(cudaFuncSetCacheConfig(cached<ASKED>, configs[ASKED]));
    launch(cached<ASKED>);
    CHECK(cudaFuncSetAttribute(carved<ASKED>, cudaFuncAttributePreferredSharedMemoryCarveout, percents[ASKED]));
    launch(carved<ASKED>);
}

int main() {
    CHECK(cudaMalloc(&memory, 1 << 20));
    both<0>();
    both<1>();
    both<2>();
    both<3>();
    return 0;
}
