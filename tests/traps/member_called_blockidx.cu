// Members have the names of CUDA's variables.
struct place {
    int blockIdx, gridDim;
};
__device__ int sum_of(place p) {
    return p.blockIdx + p.gridDim;
}
__global__ void trap(int *out, const int *in, int n) {
    place p;
    p.blockIdx = 7;
    p.gridDim = (int)blockIdx.x;
    place *q = &p;
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum_of(p) + q->blockIdx + in[q->gridDim];
}
