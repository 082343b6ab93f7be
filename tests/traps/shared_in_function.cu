// Shared memory of a function.
__device__ int rotate(int value) {
    __shared__ int part[64];
    part[threadIdx.x] = value;
    __syncthreads();
    return part[(threadIdx.x + 1 + blockIdx.x) % 64];
}
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = rotate(in[i]);
}
