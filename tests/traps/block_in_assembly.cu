// The number of the block, and the grid, come from assembly.
__device__ int number() {
    int number, blocks;
    asm("mov.u32 %0, %%cta" "id.x;" : "=r"(number));
    asm("mov.u32 %0, %%nctaid.x;" : "=r"(blocks));
    return blocks - 1 - number;
}
__global__ void trap(int *out, const int *in, int n) {
    out[number() * blockDim.x + threadIdx.x] = in[blockIdx.x];
}
