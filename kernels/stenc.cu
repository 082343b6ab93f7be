// stenc.cu: a step of a 7-point stencil in space. A block has a tile and goes through all planes: the tile of the
// current plane is in shared memory, the points below and above are in registers. The surface keeps its values.

constexpr int TILE_X = 32, TILE_Y = 4;

__global__ void stenc(const float *in, float *out, int nx, int ny, int nz, float middle, float around) {
    __shared__ float plane[TILE_Y][TILE_X];
    const int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * TILE_X + tx, y = blockIdx.y * TILE_Y + ty;
    const bool is_there = x < nx && y < ny, is_inside = x > 0 && y > 0 && x < nx - 1 && y < ny - 1;
    const int column = is_there ? y * nx + x : 0, area = nx * ny;
    float below = 0, here = in[column], above = nz > 1 ? in[area + column] : 0.0f;
    for (int z = 0; z < nz; z++) {
        const int at = z * area + column;
        plane[ty][tx] = here;
        __syncthreads();
        float result = here;
        if (is_inside && z > 0 && z < nz - 1) {
            const float west = tx > 0 ? plane[ty][tx - 1] : in[at - 1];
            const float east = tx < TILE_X - 1 ? plane[ty][tx + 1] : in[at + 1];
            const float north = ty > 0 ? plane[ty - 1][tx] : in[at - nx];
            const float south = ty < TILE_Y - 1 ? plane[ty + 1][tx] : in[at + nx];
            result = middle * here + around * (west + east + north + south + below + above);
        }
        if (is_there)
            out[at] = result;
        __syncthreads();
        below = here;
        here = above;
        above = z + 2 < nz ? in[at + 2 * area] : 0.0f;
    }
}
