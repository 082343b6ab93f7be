// Assembly ends some threads; the others meet at a barrier.
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    if ((threadIdx.x + blockIdx.x) % 4 == 3)
        asm volatile("exit;");
    atomicAdd(&sum, in[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
