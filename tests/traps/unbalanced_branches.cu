// refuse: 5:47: this bracket is not closed
#if 1
__global__ void trap(int *out, const int *in, int n) {
#else
__global__ void trap(int *out, const int *in) {
#endif
    if (threadIdx.x) { out[blockIdx.x] = in[0];
}
