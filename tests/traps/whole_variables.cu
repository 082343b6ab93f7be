// blockIdx and gridDim as a whole: copied, passed on, deduced.
template <class T> __device__ int sum_of(T t) {
    return t.x + 10 * t.y + 100 * t.z;
}
__device__ int volume(dim3 d) {
    return d.x * d.y * d.z;
}
// launch: {"grid": [3, 2, 2], "block": [16, 1, 1]}
__global__ void trap(int *out, const int *in, int n) {
    const dim3 grid = gridDim;
    auto block = blockIdx;
    uint3 copy = blockIdx;
    int number = (copy.z * grid.y + copy.y) * grid.x + copy.x;
    out[number * 16 + threadIdx.x] = sum_of(block) + sum_of(blockIdx) + volume(gridDim) + in[number];
}
