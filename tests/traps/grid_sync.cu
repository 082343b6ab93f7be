// refuse: 5:9: it synchronizes with the whole grid
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void trap(int *out, const int *in, int n) {
    cg::this_grid().sync();
    out[0] = in[0];
}
