// __global__ void trap(int *out) { return; } is only a comment, and so is blockIdx.x
/* __global__ void trap(int *out) { __syncthreads(); // */
__device__ const char *text() {
    return "__global__ void trap(int *out) { blockIdx.x; return; \" /* \\";
}
__device__ const char *raw() {
    return R"code(__global__ void trap() { return; } " )" asm("%ctaid") )code";
}
__global__ void /* name */ trap /* parameters ) */ (int *out, // {
                                                      const int *in, int n /* ) { */) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; // return;
    int größe = "ä"[0] * 0;                        // 世界 {
    out[i] = in[i] + text()[i % 8] + raw()[i % 16] + größe + '{' + '"' + '\'';
    // }
}
