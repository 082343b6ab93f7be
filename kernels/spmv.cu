// spmv.cu: a sparse matrix times a vector. Rows are sorted by their lengths, and the matrix is stored by its jagged
// diagonals: the k-th elements of all rows that have one are stored together, so that the reads of a warp coalesce.

__global__ void spmv(const float *values, const int *columns, const int *diagonals, const int *lengths, const int *places,
                     const float *__restrict__ x, float *y, int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = 0; k < lengths[row]; k++) {
        const int at = diagonals[k] + row;
        sum += values[at] * x[columns[at]];
    }
    y[places[row]] = sum;
}
