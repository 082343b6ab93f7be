// Warps in blocks that are no multiple of 32.
// launch: {"grid": [9, 1, 1], "block": [72, 1, 1]}
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i];
    for (int delta = 16; delta > 0; delta /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, delta) * (threadIdx.x < 64);
    out[i] = value;
}
