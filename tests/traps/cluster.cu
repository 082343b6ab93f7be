// refuse: 2:12: thread-block clusters cannot be split into single blocks
__global__ __cluster_dims__(2, 1, 1) void trap(int *out, const int *in, int n) {
    out[blockIdx.x] = in[blockIdx.x];
}
