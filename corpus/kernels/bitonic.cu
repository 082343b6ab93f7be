// bitonic.cu: each block of 1024 threads sorts 4096 keys in 16 KB of shared memory. The keys are hashed first.

extern "C" __global__ void bitonic(const unsigned *in, unsigned *out) {
    __shared__ unsigned keys[4096];
    size_t base = (size_t)blockIdx.x * 4096;
    for (int i = threadIdx.x; i < 4096; i += 1024) {
        unsigned k = in[base + i] + (unsigned)(base + i) * 0x9e3779b9u;
        k ^= k >> 16;
        k *= 0x85ebca6bu;
        k ^= k >> 13;
        keys[i] = k;
    }
    for (int size = 2; size <= 4096; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int p = threadIdx.x; p < 2048; p += 1024) {
                int a = 2 * p - (p & (step - 1)), b = a + step;
                bool up = (a & size) == 0;
                unsigned ka = keys[a], kb = keys[b];
                if ((ka > kb) == up) {
                    keys[a] = kb;
                    keys[b] = ka;
                }
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 4096; i += 1024)
        out[base + i] = keys[i];
}
