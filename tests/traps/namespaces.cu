// kernel: outer::inner::trap
namespace outer {
namespace {
__device__ int offset() {
    return blockIdx.x;
}
} // namespace
namespace inner {
__global__ void trap(int *out, const int *in, int n) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x] + offset();
}
} // namespace inner
} // namespace outer
