// launch: {"grid": [7, 1, 1], "block": [64, 1, 1], "shared_bytes": 256}
extern __shared__ int scratch[];
__device__ void put(int value) {
    scratch[threadIdx.x] = value + blockIdx.x;
}
__global__ void trap(int *out, const int *in, int n) {
    put(in[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = scratch[63 - threadIdx.x];
}
