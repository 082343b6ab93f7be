// refuse: 4:54: it reads the number of its block without blockIdx
#include <cooperative_groups.h>
__global__ void trap(int *out, const int *in, int n) {
    out[0] = cooperative_groups::this_thread_block().group_index().x;
}
