// An operator, which nobody names, asks for the block.
struct value {
    int x;
};
__device__ value operator+(value a, value b) {
    return value{a.x + b.x + (int)blockIdx.x};
}
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = (value{in[i]} + value{1}).x;
}
