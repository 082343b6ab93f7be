// Macros and variables with short names that our code might use.
#define next      5
#define block     6
#define x1        y1
#define more      return
#define parameter 7
__global__ void trap(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, grid = 3, marks = 4;
    out[i] = in[i] + next + block + grid + marks + parameter;
}
#undef next
#undef block
#undef x1
#undef more
#undef parameter
