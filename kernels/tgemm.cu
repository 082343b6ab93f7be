// tgemm.cu: a matrix product on tensor cores: C = A B, halves in, floats out, all by rows, of any size. A block has
// WARPS x SIDE rows and TILES x SIDE columns of C, a warp SIDE of the rows; A and B go through shared memory, which is
// zero beyond the edges of the matrices.

#include <cuda_fp16.h>
#include <mma.h>

constexpr int SIDE = 16, WARPS = 4, TILES = 64 / SIDE, DEPTH = 2 * SIDE, PAD = 8;

__global__ void tgemm(const half *a, const half *b, float *c, int rows, int columns, int depth) {
    using namespace nvcuda;
    __shared__ __align__(32) half left[WARPS * SIDE][DEPTH + PAD];
    __shared__ __align__(32) half right[DEPTH][TILES * SIDE + PAD];
    __shared__ __align__(32) float edge[WARPS][SIDE * SIDE];
    const int warp = threadIdx.y, thread = warp * 32 + threadIdx.x, threads = WARPS * 32;
    const int row = blockIdx.y * WARPS * SIDE, column = blockIdx.x * TILES * SIDE;
    wmma::fragment<wmma::accumulator, SIDE, SIDE, SIDE, float> sums[TILES];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
        wmma::fill_fragment(sums[tile], 0.0f);
    for (int k = 0; k < depth; k += DEPTH) {
        for (int i = thread; i < WARPS * SIDE * DEPTH; i += threads) {
            const int at_row = row + i / DEPTH, at = k + i % DEPTH;
            left[i / DEPTH][i % DEPTH] = at_row < rows && at < depth ? a[(size_t)at_row * depth + at] : half(0.0f);
        }
        for (int i = thread; i < DEPTH * TILES * SIDE; i += threads) {
            const int at = k + i / (TILES * SIDE), at_column = column + i % (TILES * SIDE);
            right[i / (TILES * SIDE)][i % (TILES * SIDE)] =
                at < depth && at_column < columns ? b[(size_t)at * columns + at_column] : half(0.0f);
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < DEPTH; step += SIDE) {
            wmma::fragment<wmma::matrix_a, SIDE, SIDE, SIDE, half, wmma::row_major> mine;
            wmma::load_matrix_sync(mine, &left[warp * SIDE][step], DEPTH + PAD);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                wmma::fragment<wmma::matrix_b, SIDE, SIDE, SIDE, half, wmma::row_major> other;
                wmma::load_matrix_sync(other, &right[step][tile * SIDE], TILES * SIDE + PAD);
                wmma::mma_sync(sums[tile], mine, other, sums[tile]);
            }
        }
        __syncthreads();
    }
    const int first_row = row + warp * SIDE;
    for (int tile = 0; tile < TILES; tile++) {
        const int first_column = column + tile * SIDE;
        wmma::store_matrix_sync(edge[warp], sums[tile], SIDE, wmma::mem_row_major);
        __syncwarp();
        for (int i = threadIdx.x; i < SIDE * SIDE; i += 32)
            if (first_row + i / SIDE < rows && first_column + i % SIDE < columns)
                c[(size_t)(first_row + i / SIDE) * columns + first_column + i % SIDE] = edge[warp][i];
        __syncwarp();
    }
}
