// A thread that has nothing to do returns: that ends its part of one block, not the worker.
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = in[i] * 2 + gridDim.x;
}
