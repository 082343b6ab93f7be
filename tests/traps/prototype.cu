// kernel: extern_c_prototype
extern "C" __global__ void extern_c_prototype(int *, const int *, int);
__device__ int twice(int x);
extern "C" __global__ void extern_c_prototype(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = twice(in[i]);
}
__device__ int twice(int x) {
    return 2 * x + (blockIdx.x > 3);
}
