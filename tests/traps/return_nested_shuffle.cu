// Threads return from a loop, and a shuffle follows.
__global__ void trap(int *out, const int *in, int n) {
    for (int k = 0; k < n; k++)
        if (in[k] == (int)threadIdx.x)
            return;
    out[threadIdx.x] = __shfl_sync(0xffffffff, in[threadIdx.x], 0);
}
