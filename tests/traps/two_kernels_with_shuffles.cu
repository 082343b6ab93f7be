// The function that both share works on warps, and threads of the reshaped kernel return.
__device__ int count_even(int value) {
    return __popc(__ballot_sync(0xffffffffu, value % 2 == 0));
}
__global__ void bystander(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = count_even(in[i]);
}
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (in[i] % 3 == 1)
        return;
    out[i] = count_even(in[i]);
}
