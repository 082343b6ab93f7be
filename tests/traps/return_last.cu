// A return that is the last statement needs nothing.
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int part[64];
    part[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = part[63 - threadIdx.x] + __shfl_sync(0xffffffffu, part[0], 0);
    return;
}
