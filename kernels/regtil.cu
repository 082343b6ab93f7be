// regtil.cu: a matrix product tiled in registers only: a thread has a tile of TALL x WIDE of the result, and reads A and
// B from global memory. A is stored by columns, B and C by rows.

constexpr int TALL = 6, WIDE = 3;

__global__ void regtil(const float *__restrict__ a, const float *__restrict__ b, float *c, int rows, int columns,
                       int depth) {
    const int row = (blockIdx.y * blockDim.y + threadIdx.y) * TALL;
    const int column = blockIdx.x * blockDim.x * WIDE + threadIdx.x;
    float sums[TALL][WIDE] = {};
    for (int k = 0; k < depth; k++) {
        float left[TALL], right[WIDE];
#pragma unroll
        for (int i = 0; i < TALL; i++)
            left[i] = a[k * rows + min(row + i, rows - 1)];
#pragma unroll
        for (int j = 0; j < WIDE; j++)
            right[j] = b[k * columns + min(column + j * (int)blockDim.x, columns - 1)];
#pragma unroll
        for (int i = 0; i < TALL; i++)
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                sums[i][j] += left[i] * right[j];
    }
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int j = 0; j < WIDE; j++) {
            const int at = column + j * blockDim.x;
            if (row + i < rows && at < columns)
                c[(row + i) * columns + at] = sums[i][j];
        }
}
