// refuse: 3:9: a declaration of this name may hide that of CUDA
__device__ int first() {
    int blockIdx = 3;
    return blockIdx;
}
__global__ void trap(int *out, const int *in, int n) {
    out[threadIdx.x] = first();
}
