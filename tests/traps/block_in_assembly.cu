// refuse: 4:8: it reads the number of its block without blockIdx
__device__ int number() {
    int number;
    asm("mov.u32 %0, %%cta" "id.x;" : "=r"(number));
    return number;
}
__global__ void trap(int *out, const int *in, int n) {
    out[number()] = in[0];
}
