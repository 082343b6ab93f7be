// cutcp.cu: Coulombic potential with a cutoff, in space. Atoms are sorted into cubic cells of EDGE points a side, which
// are as wide as the cutoff: a block has the points of one cell and needs the atoms of 27.

constexpr int EDGE = 8, DEPTH = 4; // the block is EDGE x EDGE x DEPTH threads, each has EDGE / DEPTH points
constexpr int ROOM = 16;           // atoms that fit into a cell

__global__ void cutcp(const float4 *__restrict__ cells, const int *__restrict__ filled, float *potential, float spacing,
                      float cutoff) {
    __shared__ float4 atoms[ROOM];
    const int x = blockIdx.x * EDGE + threadIdx.x, y = blockIdx.y * EDGE + threadIdx.y,
              z = blockIdx.z * EDGE + threadIdx.z;
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const float bound = cutoff * cutoff;
    float sums[EDGE / DEPTH] = {};
    for (int neighbour = 0; neighbour < 27; neighbour++) {
        const int cx = (int)blockIdx.x + neighbour % 3 - 1, cy = (int)blockIdx.y + neighbour / 3 % 3 - 1,
                  cz = (int)blockIdx.z + neighbour / 9 - 1;
        if (cx < 0 || cy < 0 || cz < 0 || cx >= (int)gridDim.x || cy >= (int)gridDim.y || cz >= (int)gridDim.z)
            continue; // all threads of the block
        const int cell = (cz * gridDim.y + cy) * gridDim.x + cx, count = filled[cell];
        __syncthreads();
        if (thread < count)
            atoms[thread] = cells[cell * ROOM + thread];
        __syncthreads();
        for (int i = 0; i < count; i++) {
            const float4 atom = atoms[i];
            const float dx = spacing * x - atom.x, dy = spacing * y - atom.y, in_plane = dx * dx + dy * dy;
#pragma unroll
            for (int k = 0; k < EDGE / DEPTH; k++) {
                const float dz = spacing * (z + k * DEPTH) - atom.z, distance = in_plane + dz * dz;
                const float fade = 1.0f - distance / bound;
                if (distance < bound)
                    sums[k] += atom.w * rsqrtf(distance) * fade * fade;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < EDGE / DEPTH; k++)
        potential[((z + k * DEPTH) * gridDim.y * EDGE + y) * gridDim.x * EDGE + x] = sums[k];
}
