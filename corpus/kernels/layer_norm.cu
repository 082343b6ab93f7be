// layer_norm.cu: normalizes rows of `cols` floats; the row is kept in dynamic shared memory (cols * 4 bytes).

extern "C" __global__ void layer_norm(const float *in, const float *gamma, const float *beta, float *out, int cols, float epsilon) {
    extern __shared__ float row[];
    __shared__ float part[33];
    const float *from = in + (size_t)blockIdx.x * cols;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float v = from[i];
        row[i] = v;
        sum += v;
    }
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0)
        part[warp] = sum;
    __syncthreads();
    float mean = 0;
    for (int w = 0; w < warps; w++)
        mean += part[w];
    mean /= cols;
    __syncthreads();
    float squares = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float d = row[i] - mean;
        squares += d * d;
    }
    for (int d = 16; d > 0; d /= 2)
        squares += __shfl_xor_sync(~0u, squares, d);
    if (lane == 0)
        part[warp] = squares;
    __syncthreads();
    float variance = 0;
    for (int w = 0; w < warps; w++)
        variance += part[w];
    float scale = rsqrtf(variance / cols + epsilon);
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        out[(size_t)blockIdx.x * cols + i] = (row[i] - mean) * scale * gamma[i] + beta[i];
}
