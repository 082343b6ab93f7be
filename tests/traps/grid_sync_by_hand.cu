// refuse: 5:5: it synchronizes with the whole grid
__device__ volatile int arrived;
__global__ void trap(int *out, const int *in, int n) {
    atomicAdd((int *)&arrived, 1);
    while (arrived < (int)gridDim.x)
        ;
    out[0] = in[0];
}
