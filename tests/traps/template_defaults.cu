// kernel: trap<>
template <int K = 4, typename T = int, bool ADDS = (K > 3)> __global__ void trap(T *out, const T *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] * K + (ADDS ? gridDim.x : 0);
}
