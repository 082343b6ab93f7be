// wgemm.cu: a matrix product on the tensor cores of Hopper (sm_90a): C = A B, bfloat16 in, floats out, of any size. A
// block has ROWS x COLUMNS of C, and each of its two warpgroups half of the rows. wgmma takes both factors from shared
// memory and needs few instructions. Tiles of A and B come there by bulk copies, STAGES deep, which one thread starts.
//
// A kernel that shares the SM needs registers and shared memory. So there is no warp that only copies, which would need
// as many registers as the others, and there are three stages: four would be faster by 2%.
//
// A is stored by tiles of ROWS x DEPTH numbers, and B by tiles of as many columns; a tile is contiguous, those along
// the depth follow each other, and the last ones are filled up, with zeros along the depth. Inside of a tile each row
// of A, and each column of B, has 128 bytes. Its eight pieces of 16 bytes are exchanged: number p is at p ^ (row % 8).
// This is the 128-byte swizzle, without which the tensor cores would read most of a column from a few banks of shared
// memory.

#include <stdint.h>

constexpr int ROWS = 128, COLUMNS = 256, DEPTH = 64, STAGES = 3, STEP = 16, WARPS = 8, SUMS = 64 * COLUMNS / 128;
constexpr int LINE = DEPTH * 2, TILE = ROWS * LINE, RIGHT = COLUMNS / ROWS, STAGE = (1 + RIGHT) * TILE; // bytes

__device__ uint32_t place(const void *shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// ---- barriers in shared memory: one phase ends when all have arrived and the expected bytes have been copied ----

__device__ void prepare(uint64_t *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(place(barrier)), "r"(arrivals) : "memory");
}

__device__ void arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(place(barrier)) : "memory");
}

__device__ void expect(uint64_t *barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(place(barrier)), "r"(bytes) : "memory");
}

__device__ bool has_ended(uint64_t *barrier, uint32_t parity) {
    uint32_t ended;
    asm volatile(
        "{\n.reg .pred ended;\nmbarrier.try_wait.parity.shared.b64 ended, [%1], %2;\nselp.u32 %0, 1, 0, ended;\n}"
        : "=r"(ended)
        : "r"(place(barrier)), "r"(parity)
        : "memory");
    return ended;
}

__device__ void wait(uint64_t *barrier, uint32_t parity) {
    while (!has_ended(barrier, parity))
        ;
}

__device__ void copy(void *to, const void *from, int bytes, uint64_t *barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(place(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(place(barrier))
        : "memory");
}

// ---- products ----

// Describes a matrix in shared memory to wgmma: its address, 1,024 bytes from eight rows to the next eight, swizzled.
__device__ uint64_t describe(const void *tile) {
    return (uint64_t)((place(tile) & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

#define EIGHT(i)                                                                                                       \
    "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), "+f"(sums[i + 5]),      \
        "+f"(sums[i + 6]), "+f"(sums[i + 7])

// Adds the product of 64 rows and COLUMNS columns, STEP deep, to the sums; if `adds` is 0, it replaces them. It is done
// when wgmma.wait_group says so.
__device__ void multiply(float (&sums)[SUMS], uint64_t left, uint64_t right, uint32_t adds) {
    asm volatile("{\n.reg .pred adds;\nsetp.ne.u32 adds, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, adds, 1, 1, 0, 0;\n}"
                 : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56), EIGHT(64),
                   EIGHT(72), EIGHT(80), EIGHT(88), EIGHT(96), EIGHT(104), EIGHT(112), EIGHT(120)
                 : "l"(left), "l"(right), "r"(adds));
}

// ---- stages ----

// Dynamic shared memory: STAGES * STAGE bytes. The swizzle counts rows from a multiple of 1,024 bytes.
extern __shared__ __align__(1024) char tiles[];

struct pipeline {
    uint64_t full[STAGES], empty[STAGES];
};

// Starts to copy the tiles of a step into their stage.
__device__ void fill(const char *a, const char *b, pipeline *pipe, int step, int steps) {
    const int stage = step % STAGES;
    const char *left = a + ((size_t)blockIdx.x * steps + step) * TILE;
    const char *right = b + ((size_t)blockIdx.y * RIGHT * steps + step) * TILE;
    char *to = tiles + stage * STAGE;
    expect(&pipe->full[stage], STAGE);
    copy(to, left, TILE, &pipe->full[stage]);
    for (int i = 0; i < RIGHT; i++)
        copy(to + (1 + i) * TILE, right + (size_t)i * steps * TILE, TILE, &pipe->full[stage]);
}

// The product of a stage is on the way while the one before it ends. Then the first thread fills that stage again.
__device__ void multiply_tiles(float (&sums)[SUMS], const char *a, const char *b, pipeline *pipe, int steps) {
    const int group = threadIdx.x / 128;
    for (int step = 0; step < steps; step++) {
        const int stage = step % STAGES, before = step - 1;
        wait(&pipe->full[stage], step / STAGES & 1);
        const uint64_t left = describe(tiles + stage * STAGE + group * 64 * LINE);
        const uint64_t right = describe(tiles + stage * STAGE + TILE);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < DEPTH / STEP; i++)
            multiply(sums, left + i * (STEP * 2 >> 4), right + i * (STEP * 2 >> 4), step > 0 || i > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (before >= 0 && threadIdx.x % 32 == 0)
            arrive(&pipe->empty[before % STAGES]);
        if (before >= 0 && before + STAGES < steps && threadIdx.x == 0) {
            wait(&pipe->empty[before % STAGES], before / STAGES & 1);
            fill(a, b, pipe, before + STAGES, steps);
        }
        __syncwarp();
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// A thread has two neighboring sums in every eighth column of two rows.
__device__ void store(const float (&sums)[SUMS], float *c, int rows, int columns) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first_row = blockIdx.x * ROWS + warp * 16 + lane / 4, first_column = blockIdx.y * COLUMNS + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < SUMS / 2; i++) {
        const int row = first_row + i % 2 * 8, column = first_column + i / 2 * 8;
        float *to = c + (size_t)row * columns + column;
        if (row >= rows || column >= columns)
            continue;
        if (columns % 2 == 0) {
            *reinterpret_cast<float2 *>(to) = make_float2(sums[2 * i], sums[2 * i + 1]);
        } else {
            to[0] = sums[2 * i];
            if (column + 1 < columns)
                to[1] = sums[2 * i + 1];
        }
    }
}

__global__ void __launch_bounds__(WARPS * 32, 1)
    wgemm(const char *a, const char *b, float *c, int rows, int columns, int depth) {
    __shared__ pipeline pipe;
    const int steps = (depth + DEPTH - 1) / DEPTH;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            prepare(&pipe.full[i], 1);
            prepare(&pipe.empty[i], WARPS);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        for (int i = 0; i < STAGES && i < steps; i++)
            fill(a, b, &pipe, i, steps);
    }
    __syncthreads();
    float sums[SUMS];
    multiply_tiles(sums, a, b, &pipe, steps);
    store(sums, c, rows, columns);
}
