// refuse: 6:10: it launches kernels from the device
__global__ void child(int *out) {
    out[threadIdx.x] = 1;
}
__global__ void trap(int *out, const int *in, int n) {
    child<<<1, 32>>>(out);
}
