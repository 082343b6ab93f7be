// Parameters with defaults.
__global__ void trap(int *out, const int *in = nullptr, int n = (1, 2)) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = in[threadIdx.x] + n;
}
