// refuse: 6:5: the file launches the kernel itself
__global__ void trap(int *out, const int *in, int n) {
    out[blockIdx.x] = in[0];
}
void start(int *out, const int *in, int n) {
    trap<<<n, 32>>>(out, in, n);
}
