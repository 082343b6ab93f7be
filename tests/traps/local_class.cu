// A class of the kernel's own, with methods that return.
__global__ void trap(int *out, const int *in, int n) {
    struct step {
        int size;
        __device__ int next(int i) const {
            if (i > 5)
                return i - size;
            return i + size;
        }
    };
    step two = {2};
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __syncthreads();
    out[i] = two.next(in[i]);
}
