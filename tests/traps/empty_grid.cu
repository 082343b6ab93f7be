// launch: {"grid": [0, 1, 1], "block": [32, 1, 1]}
__global__ void trap(int *out, const int *in, int n) {
    out[threadIdx.x] = 1;
}
