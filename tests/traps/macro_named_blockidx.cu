// refuse: 2:9: a macro of this name changes what CUDA's own name means
#define blockIdx other_block
__device__ uint3 other_block;
__global__ void trap(int *out, const int *in, int n) {
    out[blockIdx.x] = in[0];
}
