// refuse: 5:13: a thread may return here while others of its warp go on
__global__ void trap(int *out, const int *in, int n) {
    for (int k = 0; k < n; k++)
        if (in[k] == (int)threadIdx.x)
            return;
    out[threadIdx.x] = __shfl_sync(0xffffffff, in[threadIdx.x], 0);
}
