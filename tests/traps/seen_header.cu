// A function of a header.
#include "plain.h"
__global__ void trap(int *out, const int *in, int n) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = twice(in[threadIdx.x]);
}
