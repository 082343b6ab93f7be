// Kernels for the tests of the worker: one that counts, three that misbehave, and one whose blocks wait for others.

// Each block adds 1 to its own count, after a while.
extern "C" __global__ void count(unsigned *counts, int rounds) {
    __shared__ unsigned sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    unsigned mine = threadIdx.x;
    for (int i = 0; i < rounds; i++)
        mine = mine * 1664525u + 1013904223u;
    atomicAdd(&sum, mine == 0x12345678u ? 2u : 1u);
    __syncthreads();
    if (threadIdx.x == 0 && sum >= blockDim.x)
        atomicAdd(&counts[blockIdx.y * gridDim.x + blockIdx.x], 1u);
}

extern "C" __global__ void fault(unsigned *nowhere) {
    nowhere[blockIdx.x] = 1;
}

extern "C" __global__ void endless(volatile unsigned *flag) {
    while (*flag == 0)
        ;
}

// It cannot be confined: it waits for another block.
extern "C" __global__ void stubborn(int *values) {
    if (blockIdx.x > 0)
        while (atomicAdd(&values[0], 0) == 0)
            ;
    values[blockIdx.x] = 1;
}

// Each block waits for the one in front of it.
extern "C" __global__ void follow(volatile unsigned *counts) {
    if (blockIdx.x > 0)
        while (counts[blockIdx.x - 1] == 0)
            ;
    counts[blockIdx.x] = 1;
}
