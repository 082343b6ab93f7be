// A loop over the grid by itself.
// launch: {"grid": [5, 2, 1], "block": [32, 1, 1]}
__global__ void trap(int *out, const int *in, int n) {
    int first = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    for (int i = first; i < n; i += gridDim.x * gridDim.y * blockDim.x)
        out[i] = in[i] + i;
}
