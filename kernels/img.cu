// img.cu: an image filter: each pixel becomes the weighted sum of the pixels around it; pixels outside of the image
// have the value of the nearest one inside. A block loads its tile and a border of RADIUS pixels into shared memory.

constexpr int TILE_X = 32, TILE_Y = 16, RADIUS = 2, SIDE = 2 * RADIUS + 1;

__global__ void img(const float *in, const float *__restrict__ weights, float *out, int width, int height) {
    __shared__ float tile[TILE_Y + 2 * RADIUS][TILE_X + 2 * RADIUS];
    const int left = blockIdx.x * TILE_X - RADIUS, top = blockIdx.y * TILE_Y - RADIUS;
    for (int y = threadIdx.y; y < TILE_Y + 2 * RADIUS; y += TILE_Y)
        for (int x = threadIdx.x; x < TILE_X + 2 * RADIUS; x += TILE_X) {
            const int from_x = min(max(left + x, 0), width - 1), from_y = min(max(top + y, 0), height - 1);
            tile[y][x] = in[from_y * width + from_x];
        }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int y = 0; y < SIDE; y++)
#pragma unroll
        for (int x = 0; x < SIDE; x++)
            sum += weights[y * SIDE + x] * tile[threadIdx.y + y][threadIdx.x + x];
    const int x = blockIdx.x * TILE_X + threadIdx.x, y = blockIdx.y * TILE_Y + threadIdx.y;
    if (x < width && y < height)
        out[y * width + x] = sum;
}
