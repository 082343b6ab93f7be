// The return is deep in loops.
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 10; k++)
        for (int m = 0; m < 10; m++) {
            out[i] += in[(i + k * m) % n];
            if (out[i] > 1500)
                return;
        }
    out[i] = -out[i];
}
