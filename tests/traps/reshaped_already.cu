// refuse: 3:53: this kernel is reshaped already
struct gs_persistent { unsigned x, y, z, u; unsigned *marks; };
__global__ void trap(int *out, const int *in, const gs_persistent gs_parameter) {
    out[blockIdx.x] = in[0];
}
