__device__ inline int number() {
    return blockIdx.x;
}
