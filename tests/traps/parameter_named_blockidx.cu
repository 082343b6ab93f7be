// refuse: 2:53: a declaration of this name may hide that of CUDA
__global__ void trap(int *out, const int *in, uint3 blockIdx) {
    out[blockIdx.x] = in[0];
}
