// The return of something that is nothing.
__device__ void store(int *at, int value) {
    *at = value + gridDim.x;
}
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 2)
        return store(out + i, in[i]);
    out[i] = -1;
}
