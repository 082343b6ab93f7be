// Macros ask for the block, one by way of another.
#define BX   blockIdx.x
#define HERE (BX * blockDim.x + threadIdx.x)
__global__ void trap(int *out, const int *in, int n) {
    out[HERE] = in[HERE % n] + gridDim.x - BX;
}
#undef BX
#undef HERE
