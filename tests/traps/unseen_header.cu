// refuse: 2:10: what not_there.h holds cannot be seen
#include "not_there.h"
__global__ void trap(int *out, const int *in, int n) {
    out[blockIdx.x] = in[0];
}
