// Some return, the others meet at a barrier without them.
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = 0;
    __syncthreads();
    if (i >= n)
        return;
    part[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = part[63 - threadIdx.x] + part[threadIdx.x];
}
