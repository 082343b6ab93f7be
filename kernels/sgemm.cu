// sgemm.cu: C = alpha A B + beta C. A thread has WIDE columns of a row in registers; the part of B that they need goes
// through shared memory. A is stored by columns, B and C by rows.

constexpr int WIDE = 16, STEP = 8;

__global__ void sgemm(const float *__restrict__ a, const float *__restrict__ b, float *c, int rows, int columns,
                      int depth, float alpha, float beta) {
    __shared__ float tile[STEP][WIDE];
    const int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * WIDE;
    float sums[WIDE] = {};
    for (int k = 0; k < depth; k += STEP) {
        for (int i = threadIdx.x; i < STEP * WIDE; i += blockDim.x) {
            const int from = k + i / WIDE, to = column + i % WIDE;
            tile[i / WIDE][i % WIDE] = from < depth && to < columns ? b[from * columns + to] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < STEP; i++) {
            const float left = row < rows && k + i < depth ? a[(k + i) * rows + row] : 0.0f;
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                sums[j] += left * tile[i][j];
        }
        __syncthreads();
    }
    for (int j = 0; j < WIDE && row < rows; j++)
        if (column + j < columns)
            c[row * columns + column + j] = alpha * sums[j] + beta * c[row * columns + column + j];
}
