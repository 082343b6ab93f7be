// Assembly that knows nothing of blocks.
__global__ void trap(int *out, const int *in, int n) {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    out[blockIdx.x * blockDim.x + threadIdx.x] = in[threadIdx.x] + lane;
}
