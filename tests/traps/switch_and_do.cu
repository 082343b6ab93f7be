// Returns in a switch in a do loop, with barriers after it.
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    __shared__ int votes;
    if (threadIdx.x == 0)
        votes = 0;
    __syncthreads();
    do {
        switch ((in[i] + k) % 11) {
        case 0:
            atomicAdd(&votes, 1);
            return;
        case 1:
        default:
            k++;
        }
    } while (k < 4);
    __syncthreads();
    out[i] = votes;
}
