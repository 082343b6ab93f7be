// The condition of the return declares a variable, and a vote follows.
__global__ void trap(int *out, const int *in, int n) {
    if (int left = in[threadIdx.x] % 2)
        return;
    out[threadIdx.x] = __popc(__ballot_sync(0xffffffffu, 1));
}
