// A template with any number of parameters, here none.
// kernel: trap<>
template <class... T>
__global__ void trap(int *out, const int *in, int n, T... rest) {
    out[blockIdx.x] = in[sizeof...(rest)];
}
