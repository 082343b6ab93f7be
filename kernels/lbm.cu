// lbm.cu: a step of the lattice Boltzmann method with nine directions in a plane (D2Q9). Each thread reads the values
// that stream into its cell, periodic at the edges, and relaxes them towards equilibrium; solid cells reflect them.

constexpr int DIRECTIONS = 9;

__global__ void lbm(const float *from, float *to, const unsigned char *is_solid, int width, int height, float omega) {
    constexpr int dx[DIRECTIONS] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, dy[DIRECTIONS] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    constexpr int opposite[DIRECTIONS] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
    constexpr float weight[DIRECTIONS] = {4.0f / 9,  1.0f / 9,  1.0f / 9,  1.0f / 9, 1.0f / 9,
                                          1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, cells = width * height;
    if (x >= width)
        return;
    float f[DIRECTIONS], density = 0, flow_x = 0, flow_y = 0;
#pragma unroll
    for (int i = 0; i < DIRECTIONS; i++) {
        const int source_x = (x - dx[i] + width) % width, source_y = (y - dy[i] + height) % height;
        f[i] = from[i * cells + source_y * width + source_x];
        density += f[i];
        flow_x += dx[i] * f[i];
        flow_y += dy[i] * f[i];
    }
    const float vx = flow_x / density, vy = flow_y / density, still = 1.0f - 1.5f * (vx * vx + vy * vy);
    const bool solid = is_solid[y * width + x];
#pragma unroll
    for (int i = 0; i < DIRECTIONS; i++) {
        const float along = 3.0f * (dx[i] * vx + dy[i] * vy);
        const float rest = weight[i] * density * (still + along + 0.5f * along * along);
        to[i * cells + y * width + x] = solid ? f[opposite[i]] : f[i] + omega * (rest - f[i]);
    }
}
