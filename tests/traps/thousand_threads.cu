// launch: {"grid": [3, 1, 1], "block": [1024, 1, 1]}
__global__ void __launch_bounds__(1024) trap(int *out, const int *in, int n) {
    __shared__ int part[1024];
    int i = blockIdx.x * 1024 + threadIdx.x;
    part[threadIdx.x] = in[i];
    __syncthreads();
    for (int half = 512; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x >= 1000)
        return;
    __syncthreads();
    out[i] = part[0] - (int)threadIdx.x;
}
