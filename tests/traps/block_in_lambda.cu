// A lambda of the kernel asks for the block, and returns.
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int part[64];
    auto here = [&](int k) -> int {
        if (k < 0)
            return 0;
        return blockIdx.x * blockDim.x + k;
    };
    part[threadIdx.x] = in[here(threadIdx.x)];
    __syncthreads();
    out[here(threadIdx.x)] = part[63 - threadIdx.x] + here(-1);
}
