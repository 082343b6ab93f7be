// gaussian.cu: a step of Gaussian elimination: row `step` is subtracted from those below it, as often as makes their
// element in column `step` zero. That column is left as it is, for it is not read again: so no block waits for another.

__global__ void gaussian(float *matrix, int rows, int columns, int step) {
    const int column = step + 1 + blockIdx.x * blockDim.x + threadIdx.x;
    const int row = step + 1 + blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) {
        const float factor = matrix[row * columns + step] / matrix[step * columns + step];
        matrix[row * columns + column] -= factor * matrix[step * columns + column];
    }
}
