// jacobi3d.cu: one step of a 7-point Jacobi in an nx * ny * nz grid. Each thread goes `depth` points along z.

extern "C" __global__ void jacobi3d(const float *in, float *out, int nx, int ny, int nz, int depth) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z0 = blockIdx.z * depth;
    if (x >= nx || y >= ny)
        return;
    size_t plane = (size_t)nx * ny;
    size_t at = z0 * plane + (size_t)y * nx + x;
    bool edge = x == 0 || y == 0 || x == nx - 1 || y == ny - 1;
    float below = z0 > 0 ? in[at - plane] : 0, here = in[at];
    for (int z = z0; z < z0 + depth && z < nz; z++) {
        float above = z + 1 < nz ? in[at + plane] : 0;
        if (edge || z == 0 || z == nz - 1)
            out[at] = here;
        else
            out[at] = (here + below + above + in[at - 1] + in[at + 1] + in[at - nx] + in[at + nx]) * (1.0f / 7);
        below = here;
        here = above;
        at += plane;
    }
}
