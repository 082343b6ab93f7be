// A whole warp returns at once, and half of another.
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = in[i];
    if (blockIdx.x % 2 == 0 && threadIdx.x < 48) {
        return;
    }
    __syncthreads();
    out[i] = part[threadIdx.x ^ 1];
}
