// A macro generates the assembly.
// only: ptx
#define MOVE "mov.u32 %0, %%ctaid.x;"
__global__ void trap(int *out, const int *in, int n) {
    int block;
    asm volatile(MOVE : "=r"(block));
    out[block * blockDim.x + threadIdx.x] = in[block];
}
#undef MOVE
