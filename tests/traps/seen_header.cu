// What the header holds is known to be harmless.
// only: cuda
#include "plain.h"
__global__ void trap(int *out, const int *in, int n) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = twice(in[threadIdx.x]);
}
