// refuse: 2:10: with_blocks.h contains "blockIdx"; only code in the file itself can be reshaped
#include "with_blocks.h"
__global__ void trap(int *out, const int *in, int n) {
    out[number()] = in[0];
}
