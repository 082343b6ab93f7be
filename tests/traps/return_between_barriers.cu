// In each round a few threads return, in an order that depends on the block.
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int round_sum;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0)
        round_sum = 0;
    __syncthreads();
    for (int round = 0; round < 8; round++) {
        if ((threadIdx.x + blockIdx.x) % 8 == round)
            return;
        atomicAdd(&round_sum, in[i % n]);
        __syncthreads();
        out[i] += round_sum;
        __syncthreads();
    }
}
