// The same with the shuffle in a function, and barriers besides.
__device__ int lowest_value(int value) {
    int lowest = __ffs(__ballot_sync(0xffffffffu, 1)) - 1;
    return __shfl_sync(0xffffffffu, value, lowest);
}
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int sums[2];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 2)
        sums[threadIdx.x] = 0;
    __syncthreads();
    if (in[i] % 3 == 0) {
        return;
    }
    atomicAdd(&sums[threadIdx.x / 32], lowest_value(in[i]));
    __syncthreads();
    out[i] = sums[0] - sums[1];
}
