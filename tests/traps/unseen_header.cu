// refuse: 2:10: not_there.h cannot be read, so it cannot be checked
#include "not_there.h"
__global__ void trap(int *out, const int *in, int n) {
    out[blockIdx.x] = in[0];
}
