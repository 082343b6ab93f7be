// gather_hash.cu: each thread looks up 8 hashed places of a table that fits into the L2 cache; mask + 1 is its size.

extern "C" __global__ void gather_hash(const unsigned *table, const unsigned *keys, unsigned *out, unsigned mask, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned h = keys[i] * 0x01000193u ^ (unsigned)i, sum = 0;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        h ^= h >> 16;
        h *= 0x7feb352du;
        h ^= h >> 15;
        h *= 0x846ca68bu;
        sum = sum * 31 + table[(h >> 4) & mask];
    }
    out[i] = sum;
}
