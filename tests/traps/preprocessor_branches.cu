// Branches of an #if in the body, and braces that match in each.
#define WITH_GUARD 1
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if WITH_GUARD
    if (i >= n) {
        return;
    }
#else
    if (i >= 2 * n) {
        return;
    }
#endif
    out[i] = in[i]
#ifdef UNKNOWN
#error it's not (known
             + blockIdx.y
#endif
        ;
}
#undef WITH_GUARD
