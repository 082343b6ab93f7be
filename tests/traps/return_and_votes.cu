// Barriers that count: those that returned have no voice.
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x % 5 == 3)
        return;
    int count = __syncthreads_count(in[i] % 2);
    if (threadIdx.x % 7 == 2)
        return;
    int all = __syncthreads_and(threadIdx.x % 7 != 2), any = __syncthreads_or(threadIdx.x % 5 == 3);
    __syncthreads();
    out[i] = count * 4 + (all != 0) * 2 + (any != 0);
}
