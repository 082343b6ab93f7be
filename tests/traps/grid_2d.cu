// A barrier, in a grid of two dimensions with odd sizes.
// launch: {"grid": [13, 7, 1], "block": [8, 5, 1]}
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int tile[5][8];
    int block = blockIdx.y * gridDim.x + blockIdx.x;
    tile[threadIdx.y][threadIdx.x] = in[(block * 40 + threadIdx.y * 8 + threadIdx.x) % n];
    __syncthreads();
    out[block * 40 + threadIdx.y * 8 + threadIdx.x] = tile[4 - threadIdx.y][7 - threadIdx.x];
}
