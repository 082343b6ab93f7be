// Lines end as on Windows.
#define GUARD(i) \
    if (i >= n) \
        return
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; // comment
    GUARD(i);
    out[i] = in[i];
}
#undef GUARD
