// launch: {"grid": [7, 1, 1], "block": [64, 1, 1], "shared_bytes": 512}
__global__ void trap(int *out, const int *in, int n) {
    extern __shared__ __align__(16) int all[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    all[threadIdx.x] = in[i];
    all[threadIdx.x + 64] = in[n - 1 - i % n];
    __syncthreads();
    if (i >= n)
        return;
    __syncthreads();
    out[i] = all[127 - threadIdx.x];
}
