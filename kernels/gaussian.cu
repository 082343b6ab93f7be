// gaussian.cu: a step of Gaussian elimination: a multiple of row `step` is subtracted from each row below it, so that
// its element in column `step` becomes zero. This zero is not written, because it is not read: no block has to wait.

__global__ void gaussian(float *matrix, int rows, int columns, int step) {
    const int column = step + 1 + blockIdx.x * blockDim.x + threadIdx.x;
    const int row = step + 1 + blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) {
        const float factor = matrix[row * columns + step] / matrix[step * columns + step];
        matrix[row * columns + column] -= factor * matrix[step * columns + column];
    }
}
