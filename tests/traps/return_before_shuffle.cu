// Lanes that returned are not waited for: neither by a shuffle with a full mask nor by a vote.
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n - 5)
        return;
    int value = in[i];
    if (value % 4 == 1)
        return;
    int votes = __ballot_sync(0xffffffff, value % 2);
    __syncwarp();
    int lowest = __ffs(__ballot_sync(0xffffffff, 1)) - 1;
    out[i] = votes + __shfl_sync(0xffffffff, value, lowest);
}
