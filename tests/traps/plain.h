#pragma once
__device__ inline int twice(int x) {
    return 2 * x;
}
