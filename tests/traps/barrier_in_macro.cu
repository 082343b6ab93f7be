// The barrier is hidden in a macro that uses another.
#define MEET     __syncthreads()
#define MEET_NOW MEET
__global__ void trap(int *out, const int *in, int n) {
    __shared__ int part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i;
    MEET_NOW;
    if (i >= n)
        return;
    part[threadIdx.x] += in[i];
    MEET_NOW;
    out[i] = part[63 - threadIdx.x];
}
#undef MEET
#undef MEET_NOW
