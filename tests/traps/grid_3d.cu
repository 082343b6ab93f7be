// launch: {"grid": [3, 5, 4], "block": [4, 3, 2]}
__global__ void trap(int *out, const int *in, int n) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * 24 + thread] = in[(block * 24 + thread) % n] + 100 * blockIdx.z + 10 * blockIdx.y + blockIdx.x;
}
