// xorshift.cu: Monte Carlo: each thread draws `rounds` points with xorshift128 and counts those in a circle; the counts are
// added to 256 integers with atomics.

extern "C" __global__ void xorshift(unsigned *hits, unsigned seed, int rounds) {
    unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = id * 0x9e3779b9u + seed, y = x ^ 0x6c078965u, z = ~x * 5 + 1, w = 88675123u + id;
    unsigned inside = 0;
    for (int i = 0; i < rounds; i++) {
        unsigned t = x ^ (x << 11);
        x = y;
        y = z;
        z = w;
        w = w ^ (w >> 19) ^ t ^ (t >> 8);
        unsigned a = w >> 16, b = w & 0xffff;
        inside += a * a / 2 + b * b / 2 < 0x7fff0000u;
    }
    inside = __reduce_add_sync(~0u, inside);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&hits[blockIdx.x % 256], inside);
}
