// ::blockIdx goes past every variable of that name.
__device__ int number() {
    return ::blockIdx.x * ::gridDim.y + (threadIdx.x > ::blockIdx.x) + (int)::blockIdx.z;
}
__global__ void trap(int *out, const int *in, int n) {
    int i = ::blockIdx.x * ::blockDim.x + ::threadIdx.x;
    out[i] = in[i] + ::gridDim.x + number();
}
