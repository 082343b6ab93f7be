// cp.cu: the Coulombic potential of all atoms at each point of a plane. A thread has POINTS points of a row, one block
// width apart, so that distances in y and z are computed once for all of them.

constexpr int POINTS = 8;

__global__ void cp(const float4 *__restrict__ atoms, int count, float *potential, int width, int height, float spacing,
                   float z) {
    const int x = blockIdx.x * blockDim.x * POINTS + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const float step = spacing * blockDim.x;
    float sums[POINTS] = {};
    for (int i = 0; i < count; i++) {
        const float4 atom = atoms[i]; // x, y, z and the charge
        const float dy = spacing * y - atom.y, dz = z - atom.z, off_row = dy * dy + dz * dz;
        float dx = spacing * x - atom.x;
#pragma unroll
        for (int k = 0; k < POINTS; k++, dx += step)
            sums[k] += atom.w * rsqrtf(dx * dx + off_row);
    }
    if (y >= height)
        return;
#pragma unroll
    for (int k = 0; k < POINTS; k++)
        if (x + k * blockDim.x < width)
            potential[y * width + x + k * blockDim.x] += sums[k];
}
