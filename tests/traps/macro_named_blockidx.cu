// refuse: 2:9: this macro redefines a name of CUDA
#define blockIdx other_block
__device__ uint3 other_block;
__global__ void trap(int *out, const int *in, int n) {
    out[blockIdx.x] = in[0];
}
