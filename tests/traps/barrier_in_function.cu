// The barrier is in a function, the return in the kernel.
__device__ int exchange(int *part, int value) {
    part[threadIdx.x] = value;
    __syncthreads();
    return part[blockDim.x - 1 - threadIdx.x];
}
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int part[64];
    part[threadIdx.x] = 5;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = exchange(part, in[i]);
}
