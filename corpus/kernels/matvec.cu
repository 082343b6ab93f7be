// matvec.cu: y = A x, two rows per warp, float4; rows even, cols a multiple of 512.

extern "C" __global__ void matvec(const float4 *matrix, const float4 *x, float *y, int rows, int cols) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 2, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const float4 *first = matrix + (size_t)row * (cols / 4), *second = first + cols / 4;
    float sum = 0, other = 0;
    for (int i = lane; i < cols / 4; i += 128) {
        float4 a[4], b[4], v[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            a[k] = first[i + 32 * k];
            b[k] = second[i + 32 * k];
            v[k] = x[i + 32 * k];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            sum += a[k].x * v[k].x + a[k].y * v[k].y + a[k].z * v[k].z + a[k].w * v[k].w;
            other += b[k].x * v[k].x + b[k].y * v[k].y + b[k].z * v[k].z + b[k].w * v[k].w;
        }
    }
    for (int d = 16; d > 0; d /= 2) {
        sum += __shfl_down_sync(~0u, sum, d);
        other += __shfl_down_sync(~0u, other, d);
    }
    if (lane == 0) {
        y[row] = sum;
        y[row + 1] = other;
    }
}
