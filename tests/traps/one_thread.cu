// launch: {"grid": [37, 1, 1], "block": [1, 1, 1]}
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int one;
    one = in[blockIdx.x];
    __syncthreads();
    if (one % 2)
        return;
    __syncthreads();
    out[blockIdx.x] = one;
}
