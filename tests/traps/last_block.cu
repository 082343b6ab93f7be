// The last block to finish adds up what the others wrote, and knows by gridDim that it is the last.
__global__ void trap(int *out, const int *in, int n) {
    __shared__ bool is_last;
    __shared__ int sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    atomicAdd(&sum, in[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        out[blockIdx.x + 2] = sum;
        __threadfence();
        is_last = atomicAdd(&out[1], 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last || threadIdx.x)
        return;
    for (int i = 0; i < (int)gridDim.x; i++)
        out[0] += out[i + 2];
}
