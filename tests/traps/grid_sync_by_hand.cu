// Each block waits until all have begun.
// refuse: it waits in a loop for memory that another block may write
__device__ volatile int arrived;
__global__ void trap(int *out, const int *in, int n) {
    atomicAdd((int *)&arrived, 1);
    while (arrived < (int)gridDim.x)
        ;
    out[0] = in[0];
}
