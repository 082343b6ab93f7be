// quasirandom.cu: a Sobol sequence: number i of a dimension is the exclusive or of the direction numbers of the bits
// that are set in the Gray code of i.

constexpr int BITS = 32;

__global__ void quasirandom(const unsigned *__restrict__ directions, float *out, int count) {
    const unsigned dimension = blockIdx.y;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        unsigned gray = i ^ i >> 1, number = 0;
        for (int bit = 0; gray; bit++, gray >>= 1)
            if (gray & 1)
                number ^= directions[dimension * BITS + bit];
        out[dimension * count + i] = (number >> 8) * (1.0f / (1 << 24));
    }
}
