// pns.cu: a Petri net, simulated many times. The net is a ring: transition i takes a token from place i and puts one
// into the next. A block runs one simulation with the marking in shared memory: in each step the even transitions fire,
// then the odd ones, each with a probability of 1/2 if there is a token. The counts of all simulations are added up.

constexpr int PLACES = 512;

// A random number for each simulation, step and transition (a hash by multiplications).
__device__ unsigned mix(unsigned simulation, unsigned step, unsigned transition) {
    unsigned x = simulation * 0x9e3779b1u ^ step * 0x85ebca77u ^ transition * 0xc2b2ae3du;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    return x ^ x >> 15;
}

__global__ void pns(const int *initial, int steps, unsigned *tokens, unsigned *squares) {
    __shared__ int marking[PLACES];
    for (int i = threadIdx.x; i < PLACES; i += blockDim.x)
        marking[i] = initial[i];
    __syncthreads();
    for (int step = 0; step < 2 * steps; step++) {
        for (int i = threadIdx.x; i < PLACES / 2; i += blockDim.x) {
            const int place = 2 * i + step % 2, next = (place + 1) % PLACES;
            if (marking[place] > 0 && mix(blockIdx.x, step, place) >> 31) {
                marking[place]--;
                marking[next]++;
            }
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < PLACES; i += blockDim.x) {
        atomicAdd(&tokens[i], (unsigned)marking[i]);
        atomicAdd(&squares[i], (unsigned)(marking[i] * marking[i]));
    }
}
