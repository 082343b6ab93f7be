// A jump to a return.
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = in[i];
    __syncthreads();
    if (i >= n)
        goto end;
    out[i] = part[63 - threadIdx.x];
end:
    return;
}
