// tpacf.cu: two-point angular correlation: a histogram of the distances of pairs of points on a sphere. A block has
// THREADS points of the first set, goes through a slice of the second in tiles, and counts pairs in shared memory, with
// separate counts for each warp. `alone`: both sets are the same, and each pair counts once.

constexpr int THREADS = 256, WARP = 32, BINS = 20, SLICE = 1024;

// The bin of a cosine. `bounds` has BINS - 1 cosines in descending order.
__device__ int bin_of(float cosine, const float *bounds) {
    int low = 0, high = BINS - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (cosine >= bounds[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

__global__ void tpacf(const float *__restrict__ first, int firsts, const float *__restrict__ second, int seconds,
                      const float *__restrict__ bounds, unsigned *bins, int alone) {
    __shared__ unsigned counts[THREADS / WARP][BINS];
    __shared__ float x[THREADS], y[THREADS], z[THREADS], edges[BINS];
    const int thread = threadIdx.x, i = blockIdx.x * THREADS + thread;
    for (int k = thread; k < THREADS / WARP * BINS; k += THREADS)
        counts[k / BINS][k % BINS] = 0;
    for (int k = thread; k < BINS - 1; k += THREADS)
        edges[k] = bounds[k];
    const float px = i < firsts ? first[i] : 0.0f, py = i < firsts ? first[firsts + i] : 0.0f,
                pz = i < firsts ? first[2 * firsts + i] : 0.0f;
    const int last = min(seconds, (int)(blockIdx.y + 1) * SLICE);
    for (int tile = blockIdx.y * SLICE; tile < last; tile += THREADS) {
        __syncthreads();
        if (tile + thread < last) {
            x[thread] = second[tile + thread];
            y[thread] = second[seconds + tile + thread];
            z[thread] = second[2 * seconds + tile + thread];
        }
        __syncthreads();
        const int here = min(THREADS, last - tile);
        for (int j = alone ? max(0, i + 1 - tile) : 0; j < here && i < firsts; j++) {
            // Not fused, so that a pair at the edge of a bin is in the same bin everywhere.
            const float cosine = __fadd_rn(__fadd_rn(__fmul_rn(px, x[j]), __fmul_rn(py, y[j])), __fmul_rn(pz, z[j]));
            atomicAdd(&counts[thread / WARP][bin_of(cosine, edges)], 1u);
        }
    }
    __syncthreads();
    for (int k = thread; k < BINS; k += THREADS) {
        unsigned sum = 0;
        for (int warp = 0; warp < THREADS / WARP; warp++)
            sum += counts[warp][k];
        if (sum)
            atomicAdd(&bins[k], sum);
    }
}
