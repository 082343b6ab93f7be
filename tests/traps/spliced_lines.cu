// Backslashes at the ends of lines, also in a comment: \
__global__ void trap(int *out) { return; }
#define SUM(a, b) \
    (a) + \
    (b)
__global__ void \
trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = SUM(in[i], "a\
b"[0]);
}
#undef SUM
