// Größe, α and 世界 in comments, strings and variables.
__device__ int size(int α) {
    return α + "ä"[0] * 0 + blockIdx.x;
}
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = size(in[i]);
}
