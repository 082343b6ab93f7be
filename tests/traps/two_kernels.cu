// Two kernels share a function that asks for the block; only one is reshaped, and the other still works.
__device__ int here() {
    return blockIdx.x * blockDim.x + threadIdx.x;
}
__global__ void bystander(int *out, const int *in, int n) {
    out[here()] = in[here()] + gridDim.x;
}
__global__ void trap(int *out, const int *in, int n) {
    out[here()] = in[here()] - gridDim.x;
}
