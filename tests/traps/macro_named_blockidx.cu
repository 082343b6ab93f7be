// A macro takes the name of a variable of CUDA.
#define blockIdx other_block
__device__ uint3 other_block;
__global__ void trap(int *out, const int *in, int n) {
    out[blockIdx.x + threadIdx.x] = in[threadIdx.x];
}
#undef blockIdx
