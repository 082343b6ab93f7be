// refuse: 2:17: thread-block clusters cannot be split into single blocks
__global__ void __launch_bounds__(64, 1, 2) trap(int *out, const int *in, int n) {
    out[blockIdx.x] = in[blockIdx.x];
}
