// A macro hides that this is a kernel.
#define KERNEL __global__ void
KERNEL trap(int *out, const int *in, int n) {
    out[blockIdx.x] = in[0];
}
