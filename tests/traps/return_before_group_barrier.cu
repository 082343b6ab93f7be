// refuse: 4:26: a thread may return here while others go on to a barrier that cannot be changed
#include <cooperative_groups.h>
__global__ void trap(int *out, const int *in, int n) {
    if (threadIdx.x > 3) return;
    cooperative_groups::this_thread_block().sync();
    out[0] = in[0];
}
