// refuse: 4:18: a macro generates the text of this assembly
#define MOVE "mov.u32 %0, %%tid.x;"
__global__ void trap(int *out, const int *in, int n) {
    asm volatile(MOVE : "=r"(out[0]));
}
