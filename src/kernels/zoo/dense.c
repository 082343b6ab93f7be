/*
 * dense.c: the kernels of the zoo on dense matrices: regtil, sgemm, tgemm, conv, wgemm, transpose, gaussian.
 *
 * Each kernel has a function that makes its instance, a reference, and the struct with both.
 */
#include "zoo_kernels.h"

/* ---- regtil: C = A B; A by columns, B and C by rows ---- */

static void instance_regtil(gs_zoo_instance *instance, const int32_t *n) {
    enum { TALL = 6, WIDE = 3, X = 16, Y = 8 };
    int a = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[0] * n[2], -1, 1);
    int b = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[1] * n[2], -1, 1);
    int c = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)n[0] * n[1]);
    gs_zoo_launch_add(instance, "regtil", "regtil", GS_DIM(GS_UP(n[1], X * WIDE), GS_UP(n[0], Y * TALL), 1),
                      GS_DIM(X, Y, 1), "bbbiii", a, b, c, n[0], n[1], n[2]);
}

/* alpha A B + beta C, where A is stored by columns. */
static void multiply_matrices(const float *a, const float *b, float *c, const int32_t *n, double alpha, double beta) {
    for (int row = 0; row < n[0]; row++)
        for (int column = 0; column < n[1]; column++) {
            double sum = 0;
            for (int k = 0; k < n[2]; k++)
                sum += (double)a[k * n[0] + row] * b[k * n[1] + column];
            c[row * n[1] + column] = (float)(alpha * sum + beta * c[row * n[1] + column]);
        }
}

static void reference_regtil(void *const *data, const int32_t *n) {
    multiply_matrices(data[0], data[1], data[2], n, 1, 0);
}

const gs_zoo_kernel gs_zoo_regtil = {
    .name = "regtil",
    .summary = "matrix product, tiled in registers alone",
    .numbers = "rows, columns, depth",
    .sizes = {{"tiny", {1, 1, 1}}, {"odd", {53, 71, 37}}, {"small", {96, 128, 64}}, {"large", {4096, 4096, 1024}}},
    .tolerance = 1e-4,
    .block_of = {48, 48},
    .work = 3,
    .instance = instance_regtil,
    .reference = reference_regtil,
    .elastic = {9, 9},
};

/* ---- sgemm: C = alpha A B + beta C ---- */

static void instance_sgemm(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 128, WIDE = 16 };
    int a = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[0] * n[2], -1, 1);
    int b = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[1] * n[2], -1, 1);
    int c = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[0] * n[1], -1, 1);
    gs_zoo_launch_add(instance, "sgemm", "sgemm", GS_DIM(GS_UP(n[0], THREADS), GS_UP(n[1], WIDE), 1),
                      GS_DIM(THREADS, 1, 1), "bbbiiiff", a, b, c, n[0], n[1], n[2], 1.5, 0.5);
}

static void reference_sgemm(void *const *data, const int32_t *n) {
    multiply_matrices(data[0], data[1], data[2], n, 1.5, 0.5);
}

const gs_zoo_kernel gs_zoo_sgemm = {
    .name = "sgemm",
    .summary = "matrix product, with a tile in shared memory",
    .numbers = "rows, columns, depth",
    .sizes = {{"tiny", {1, 1, 1}}, {"odd", {131, 35, 19}}, {"small", {256, 64, 64}}, {"large", {4096, 4096, 1024}}},
    .tolerance = 1e-4,
    .block_of = {128, 16},
    .work = 3,
    .instance = instance_sgemm,
    .reference = reference_sgemm,
    .elastic = {9, 9},
};

/* ---- tgemm: C = A B, halves in, floats out, all by rows ---- */

static void launch_tgemm(gs_zoo_instance *instance, int a, int b, int c, int rows, int columns, int depth) {
    enum { ROWS = 64, COLUMNS = 64, WARPS = 4 };
    gs_zoo_launch_add(instance, "tgemm", "tgemm", GS_DIM(GS_UP(columns, COLUMNS), GS_UP(rows, ROWS), 1),
                      GS_DIM(32, WARPS, 1), "bbbiii", a, b, c, rows, columns, depth);
}

static void instance_tgemm(gs_zoo_instance *instance, const int32_t *n) {
    int a = gs_zoo_buffer_add(instance, GS_FLOAT16, (size_t)n[0] * n[2], -1, 1);
    int b = gs_zoo_buffer_add(instance, GS_FLOAT16, (size_t)n[1] * n[2], -1, 1);
    int c = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)n[0] * n[1]);
    launch_tgemm(instance, a, b, c, n[0], n[1], n[2]);
}

static void reference_tgemm(void *const *data, const int32_t *n) {
    float *c = data[2];
    for (int row = 0; row < n[0]; row++)
        for (int column = 0; column < n[1]; column++) {
            double sum = 0;
            for (int k = 0; k < n[2]; k++)
                sum += gs_scalar_value(GS_FLOAT16, data[0], (size_t)row * n[2] + k) *
                       gs_scalar_value(GS_FLOAT16, data[1], (size_t)k * n[1] + column);
            c[row * n[1] + column] = (float)sum;
        }
}

const gs_zoo_kernel gs_zoo_tgemm = {
    .name = "tgemm",
    .summary = "matrix product on tensor cores",
    .numbers = "rows, columns, depth",
    .sizes = {{"tiny", {1, 1, 1}}, {"odd", {67, 75, 41}}, {"small", {128, 128, 64}}, {"large", {8192, 8192, 2048}}},
    .tolerance = 1e-4,
    .block_of = {64, 64},
    .work = 3,
    .instance = instance_tgemm,
    .reference = reference_tgemm,
    .elastic = {3, 3},
};

/* ---- conv: a convolution as im2col and tgemm ---- */

enum { CONV_SIDE = 3 };

static void instance_conv(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 256 };
    int filters = n[0], channels = n[1], places = n[2] * n[3], weights = channels * CONV_SIDE * CONV_SIDE;
    int image = gs_zoo_buffer_add(instance, GS_FLOAT16, (size_t)channels * places, -1, 1);
    int filter = gs_zoo_buffer_add(instance, GS_FLOAT16, (size_t)filters * weights, -1, 1);
    int out = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)filters * places);
    int matrix = gs_zoo_buffer_zero(instance, GS_FLOAT16, (size_t)weights * places);
    instance->buffers[matrix].is_scratch = true;
    gs_zoo_launch_add(instance, "conv", "im2col", GS_DIM(GS_UP(places, THREADS), weights, 1), GS_DIM(THREADS, 1, 1),
                      "bbiiii", image, matrix, channels, n[2], n[3], CONV_SIDE);
    launch_tgemm(instance, filter, matrix, out, filters, places, weights);
}

/* One pixel of the result: the filter placed there, as far as it is inside the image. */
static double convolve_pixel(void *const *data, const int32_t *n, int filter, int y, int x) {
    double sum = 0;
    for (int channel = 0; channel < n[1]; channel++)
        for (int dy = 0; dy < CONV_SIDE; dy++)
            for (int dx = 0; dx < CONV_SIDE; dx++) {
                int from_y = y + dy - CONV_SIDE / 2, from_x = x + dx - CONV_SIDE / 2;
                if (from_y < 0 || from_x < 0 || from_y >= n[2] || from_x >= n[3])
                    continue;
                size_t weight = (((size_t)filter * n[1] + channel) * CONV_SIDE + dy) * CONV_SIDE + dx;
                size_t pixel = ((size_t)channel * n[2] + from_y) * n[3] + from_x;
                sum += gs_scalar_value(GS_FLOAT16, data[1], weight) * gs_scalar_value(GS_FLOAT16, data[0], pixel);
            }
    return sum;
}

static void reference_conv(void *const *data, const int32_t *n) {
    float *out = data[2];
    for (int filter = 0; filter < n[0]; filter++)
        for (int y = 0; y < n[2]; y++)
            for (int x = 0; x < n[3]; x++)
                out[(filter * n[2] + y) * n[3] + x] = (float)convolve_pixel(data, n, filter, y, x);
}

const gs_zoo_kernel gs_zoo_conv = {
    .name = "conv",
    .summary = "convolution on tensor cores, as im2col and tgemm",
    .numbers = "filters, channels, height, width",
    .sizes = {{"tiny", {1, 1, 1, 1}},
              {"odd", {5, 3, 13, 9}},
              {"small", {32, 4, 16, 16}},
              {"large", {128, 64, 384, 384}}},
    .tolerance = 1e-4,
    .instance = instance_conv,
    .reference = reference_conv,
    .elastic = {9, 9},
};

/* ---- wgemm: C = A B, bfloat16 in, floats out; C by rows, A and B by tiles ---- */

enum { WGEMM_ROWS = 128, WGEMM_COLUMNS = 256, WGEMM_DEPTH = 64 }; /* those of kernels/wgemm.cu, which explains tiles */

/* The index of the element at `row` (of A; of B: the column) and `k`. */
static size_t wgemm_at(int row, int k, int depth) {
    size_t tile = (size_t)(row / WGEMM_ROWS) * (size_t)GS_UP(depth, WGEMM_DEPTH) + (size_t)(k / WGEMM_DEPTH);
    int piece = k % WGEMM_DEPTH / 8 ^ row % 8;
    return (tile * WGEMM_ROWS + (size_t)(row % WGEMM_ROWS)) * WGEMM_DEPTH + (size_t)(piece * 8 + k % 8);
}

static size_t wgemm_count(int rows, int depth, int multiple) {
    return (size_t)(GS_UP(rows, multiple) * multiple) * (size_t)(GS_UP(depth, WGEMM_DEPTH) * WGEMM_DEPTH);
}

/* Random numbers, and zeros beyond the depth. */
static void make_tiles(void *data, size_t count, int depth, uint64_t seed) {
    int padded = (int)GS_UP(depth, WGEMM_DEPTH) * WGEMM_DEPTH, rows = (int)(count / (size_t)padded);
    gs_zoo_fill(GS_BFLOAT16, seed, -1, 1, data, count);
    for (int row = 0; row < rows; row++)
        for (int k = depth; k < padded; k++)
            gs_scalar_put(GS_BFLOAT16, 0, data, wgemm_at(row, k, depth));
}

static void make_left(void *data, size_t count, const int32_t *n) {
    make_tiles(data, count, n[2], 1);
}

static void make_right(void *data, size_t count, const int32_t *n) {
    make_tiles(data, count, n[2], 2);
}

static void instance_wgemm(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 256, STAGES = 3, STAGE = (WGEMM_ROWS + WGEMM_COLUMNS) * WGEMM_DEPTH * 2 };
    int a = gs_zoo_buffer_made(instance, GS_BFLOAT16, wgemm_count(n[0], n[2], WGEMM_ROWS), make_left);
    int b = gs_zoo_buffer_made(instance, GS_BFLOAT16, wgemm_count(n[1], n[2], WGEMM_COLUMNS), make_right);
    int c = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)n[0] * n[1]);
    gs_zoo_launch_add(instance, "wgemm", "wgemm", GS_DIM(GS_UP(n[0], WGEMM_ROWS), GS_UP(n[1], WGEMM_COLUMNS), 1),
                      GS_DIM(THREADS, 1, 1), "bbbiii", a, b, c, n[0], n[1], n[2]);
    gs_zoo_launch_shared(instance, STAGES * STAGE);
}

static void reference_wgemm(void *const *data, const int32_t *n) {
    float *c = data[2];
    for (int row = 0; row < n[0]; row++)
        for (int column = 0; column < n[1]; column++) {
            double sum = 0;
            for (int k = 0; k < n[2]; k++)
                sum += gs_scalar_value(GS_BFLOAT16, data[0], wgemm_at(row, k, n[2])) *
                       gs_scalar_value(GS_BFLOAT16, data[1], wgemm_at(column, k, n[2]));
            c[(size_t)row * n[1] + column] = (float)sum;
        }
}

const gs_zoo_kernel gs_zoo_wgemm = {
    .name = "wgemm",
    .summary = "matrix product on tensor cores of Hopper, with wgmma and bulk copies",
    .numbers = "rows, columns, depth",
    .sizes = {{"tiny", {1, 1, 1}}, {"odd", {131, 261, 70}}, {"small", {256, 256, 320}}, {"large", {4096, 4096, 4096}}},
    .tolerance = 1e-4,
    .block_of = {128, 256},
    .work = 3,
    .instance = instance_wgemm,
    .reference = reference_wgemm,
    .is_assembly = true,
};

/* ---- transpose ---- */

static void instance_transpose(gs_zoo_instance *instance, const int32_t *n) {
    enum { TILE = 32, ROWS = 8 };
    int in = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[0] * n[1], -1, 1);
    int out = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)n[0] * n[1]);
    gs_zoo_launch_add(instance, "transpose", "transpose", GS_DIM(GS_UP(n[0], TILE), GS_UP(n[1], TILE), 1),
                      GS_DIM(TILE, ROWS, 1), "bbii", in, out, n[0], n[1]);
}

static void reference_transpose(void *const *data, const int32_t *n) {
    const float *in = data[0];
    float *out = data[1];
    for (int y = 0; y < n[1]; y++)
        for (int x = 0; x < n[0]; x++)
            out[x * n[1] + y] = in[y * n[0] + x];
}

const gs_zoo_kernel gs_zoo_transpose = {
    .name = "transpose",
    .summary = "a matrix transposed through shared memory",
    .numbers = "width, height",
    .sizes = {{"tiny", {1, 1}}, {"odd", {101, 67}}, {"small", {128, 160}}, {"large", {16384, 8192}}},
    .tolerance = 0,
    .block_of = {32, 32},
    .instance = instance_transpose,
    .reference = reference_transpose,
    .elastic = {19, 19},
};

/* ---- gaussian: elimination, a launch for each row but the last; the right-hand side is the last column ---- */

static void make_system(void *data, size_t count, const int32_t *n) {
    float *matrix = data;
    gs_zoo_fill(GS_FLOAT32, 1, -1, 1, matrix, count);
    for (int row = 0; row < n[0]; row++)
        matrix[(size_t)row * (n[0] + 1) + row] += (float)n[0]; /* so that no pivot is near zero */
}

static void instance_gaussian(gs_zoo_instance *instance, const int32_t *n) {
    int rows = n[0], columns = n[0] + 1, side = n[1];
    int matrix = gs_zoo_buffer_made(instance, GS_FLOAT32, (size_t)rows * columns, make_system);
    for (int step = 0; step < rows - 1; step++)
        gs_zoo_launch_add(instance, "gaussian", "gaussian",
                          GS_DIM(GS_UP(columns - step - 1, side), GS_UP(rows - step - 1, side), 1),
                          GS_DIM(side, side, 1), "biii", matrix, rows, columns, step);
}

static void reference_gaussian(void *const *data, const int32_t *n) {
    float *matrix = data[0];
    int columns = n[0] + 1;
    for (int step = 0; step < n[0] - 1; step++)
        for (int row = step + 1; row < n[0]; row++) {
            double factor = (double)matrix[row * columns + step] / matrix[step * columns + step];
            for (int column = step + 1; column < columns; column++)
                matrix[row * columns + column] -= (float)(factor * matrix[step * columns + column]);
        }
}

const gs_zoo_kernel gs_zoo_gaussian = {
    .name = "gaussian",
    .summary = "Gaussian elimination, a launch for each step",
    .numbers = "rows, side of a block",
    .sizes = {{"tiny", {2, 16}}, {"odd", {19, 4}}, {"small", {32, 16}}, {"large", {2048, 16}}},
    .load = {"load", {3072, 4}}, /* blocks as small as in the measurements of Slate */
    .tolerance = 1e-3,
    .instance = instance_gaussian,
    .reference = reference_gaussian,
    .elastic = {9, 9},
    .changes_inputs = true,
};
