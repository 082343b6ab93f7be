// Functions ask for the block, in x, y and z.
// launch: {"grid": [3, 4, 2], "block": [16, 2, 2]}
__device__ int block_number() {
    return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}
__device__ int thread_number() {
    int threads = blockDim.x * blockDim.y * blockDim.z;
    return block_number() * threads + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__global__ void trap(int *out, const int *in, int n) {
    out[thread_number()] = in[thread_number() % n] + block_number();
}
