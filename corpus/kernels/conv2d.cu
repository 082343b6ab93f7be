// conv2d.cu: 15 x 15 convolution, tiles of 32 x 64 pixels with a halo in shared memory, eight pixels per thread.
// The image has a border of 7 pixels on each side: (width + 14) x (height + 14). Block 32 x 8.

#define R 7
#define W (2 * R + 1)

extern "C" __global__ void conv2d(const float *image, const float *weights, float *out, int width) {
    __shared__ float tile[64 + 2 * R][32 + 2 * R + 1];
    __shared__ float weight[W * W];
    int pitch = width + 2 * R;
    int x0 = blockIdx.x * 32, y0 = blockIdx.y * 64;
    int thread = threadIdx.y * 32 + threadIdx.x;
    for (int i = thread; i < W * W; i += 256)
        weight[i] = weights[i];
    for (int i = thread; i < (64 + 2 * R) * (32 + 2 * R); i += 256) {
        int y = i / (32 + 2 * R), x = i % (32 + 2 * R);
        tile[y][x] = image[(size_t)(y0 + y) * pitch + x0 + x];
    }
    __syncthreads();
    float sum[8] = {};
    int ty = threadIdx.y * 8;
    for (int dx = 0; dx < W; dx++) {
        float column[W + 7];
#pragma unroll
        for (int i = 0; i < W + 7; i++)
            column[i] = tile[ty + i][threadIdx.x + dx];
#pragma unroll
        for (int dy = 0; dy < W; dy++) {
            float w = weight[dy * W + dx];
#pragma unroll
            for (int k = 0; k < 8; k++)
                sum[k] += w * column[dy + k];
        }
    }
#pragma unroll
    for (int k = 0; k < 8; k++)
        out[(size_t)(y0 + ty + k) * width + x0 + threadIdx.x] = sum[k];
}
