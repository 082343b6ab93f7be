// bfs.cu: one level of a breadth-first search. Each thread takes a node of the frontier and visits its neighbors. It
// puts a new node into the queue of the block in shared memory, which the block appends to the next frontier.

constexpr int CAPACITY = 2048; // of the queue; nodes that do not fit go to the next frontier directly

__global__ void bfs(const int *first, const int *neighbours, int *level, const int *frontier, int *next, int *sizes,
                    int depth) {
    __shared__ int queue[CAPACITY];
    __shared__ int queued, base;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0)
        queued = 0;
    __syncthreads();
    if (i < sizes[depth]) {
        const int node = frontier[i];
        for (int edge = first[node]; edge < first[node + 1]; edge++) {
            const int other = neighbours[edge];
            if (atomicCAS(&level[other], -1, depth + 1) != -1)
                continue;
            const int slot = atomicAdd(&queued, 1);
            if (slot < CAPACITY)
                queue[slot] = other;
            else
                next[atomicAdd(&sizes[depth + 1], 1)] = other;
        }
    }
    __syncthreads();
    const int kept = min(queued, CAPACITY);
    if (threadIdx.x == 0)
        base = atomicAdd(&sizes[depth + 1], kept);
    __syncthreads();
    for (int slot = threadIdx.x; slot < kept; slot += blockDim.x)
        next[base + slot] = queue[slot];
}
