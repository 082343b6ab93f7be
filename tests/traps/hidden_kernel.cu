// refuse: 2:16: no kernel trap was found, and this macro hides __global__
#define KERNEL __global__ void
KERNEL trap(int *out, const int *in, int n) {
    out[blockIdx.x] = in[0];
}
