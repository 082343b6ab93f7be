// attention.cu: exp(q k / sqrt(80)) for tiles of 64 x 64 queries and keys of 80 dimensions; blockIdx.z is the head. 128 threads,
// 8 x 4 scores in the registers of each.

#define D 80

extern "C" __global__ void attention(const float *query, const float *key, float *score, int length) {
    __shared__ float q[64][D + 1], k[64][D + 1];
    size_t head = blockIdx.z;
    const float *from_q = query + (head * length + blockIdx.y * 64) * D;
    const float *from_k = key + (head * length + blockIdx.x * 64) * D;
    for (int i = threadIdx.x; i < 64 * D; i += 128) {
        q[i / D][i % D] = from_q[i];
        k[i / D][i % D] = from_k[i];
    }
    __syncthreads();
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float sum[8][4] = {};
#pragma unroll 4
    for (int d = 0; d < D; d++) {
        float a[8], b[4];
#pragma unroll
        for (int i = 0; i < 8; i++)
            a[i] = q[ty + 8 * i][d];
#pragma unroll
        for (int j = 0; j < 4; j++)
            b[j] = k[tx + 16 * j][d];
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[i][j] += a[i] * b[j];
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            score[(head * length + blockIdx.y * 64 + ty + 8 * i) * length + blockIdx.x * 64 + tx + 16 * j] =
                __expf(sum[i][j] * 0.1118034f);
}
