// In some blocks everybody returns before the first barrier.
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int first;
    if (blockIdx.x % 3 == 1)
        return;
    if (threadIdx.x == 0)
        first = in[blockIdx.x];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = first;
}
