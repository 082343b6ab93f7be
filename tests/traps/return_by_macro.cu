// The return is hidden in a macro.
#define LEAVE_IF(condition)                                                                                            \
    if (condition)                                                                                                     \
    return
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i;
    __syncthreads();
    LEAVE_IF(i >= n);
    part[threadIdx.x] += in[i];
    __syncthreads();
    out[i] = part[63 - threadIdx.x];
}
#undef LEAVE_IF
