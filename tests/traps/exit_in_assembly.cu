// refuse: 4:21: the assembly ends the thread
__global__ void trap(int *out, const int *in, int n) {
    if (threadIdx.x > 3)
        asm volatile("exit;");
    out[threadIdx.x] = in[0];
}
