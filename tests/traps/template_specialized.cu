// A specialization of its own, a declaration and an explicit instantiation.
// kernel: trap<2>
template <int K> __global__ void trap(int *out, const int *in, int n);
template <int K> __global__ void trap(int *out, const int *in, int n) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = K;
}
template <> __global__ void trap<2>(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = in[i];
}
template __global__ void trap<3>(int *out, const int *in, int n);
