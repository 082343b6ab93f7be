// refuse: 3:55: a parameter pack leaves no place for one more parameter
template <class... T>
__global__ void trap(int *out, const int *in, int n, T... rest) {
    out[blockIdx.x] = in[sizeof...(rest)];
}
