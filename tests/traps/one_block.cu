// launch: {"grid": [1, 1, 1], "block": [33, 1, 1]}
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int part[33];
    part[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 32)
        return;
    out[threadIdx.x] = part[threadIdx.x + 1] + gridDim.x;
}
