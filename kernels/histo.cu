// histo.cu: a histogram. Each block counts its part of the input in shared memory and adds the counts up at the end.

constexpr int BINS = 2048;

__global__ void histo(const int *values, int count, unsigned *bins) {
    __shared__ unsigned counts[BINS];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x)
        counts[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&counts[values[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x)
        if (counts[i])
            atomicAdd(&bins[i], counts[i]);
}
