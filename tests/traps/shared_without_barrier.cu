// Shared memory within a warp, without any barrier in the kernel: the next block must not overtake.
// launch: {"grid": [50, 1, 1], "block": [64, 1, 1]}
__global__ void trap(int *out, const int *in, int n) {
    __shared__ volatile int part[64];
    part[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    __syncwarp();
    out[blockIdx.x * 64 + threadIdx.x] = part[threadIdx.x ^ 1];
}
