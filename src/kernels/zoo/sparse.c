/*
 * sparse.c: the kernels of the zoo on graphs and sparse matrices: bfs, spmv.
 *
 * Each kernel has a function that makes its instance, a reference, and the struct with both.
 */
#include "zoo_kernels.h"

#include <stdlib.h>

/* ---- bfs: a launch for each level ---- */

/* Between 1 and 2 n[1] - 1, on average n[1]. */
static int degree_of(size_t node, const int32_t *n) {
    return (int)gs_zoo_random(11, node, 1, 2 * n[1]);
}

static void make_first(void *data, size_t count, const int32_t *n) {
    int32_t *first = data;
    for (size_t i = 0; i + 1 < count; i++)
        first[i + 1] = first[i] + degree_of(i, n);
}

static void make_neighbors(void *data, size_t count, const int32_t *n) {
    int32_t *neighbors = data;
    for (size_t i = 0; i < count; i++)
        neighbors[i] = (int32_t)gs_zoo_random(12, i, 0, n[0]);
}

/* Node 0 is where the search begins. */
static void make_levels(void *data, size_t count, const int32_t *n) {
    int32_t *level = data;
    (void)n;
    for (size_t i = 1; i < count; i++)
        level[i] = -1;
}

static void make_sizes(void *data, size_t count, const int32_t *n) {
    (void)count, (void)n;
    ((int32_t *)data)[0] = 1;
}

static void instance_bfs(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 512 };
    size_t edges = 0;
    for (int i = 0; i < n[0]; i++)
        edges += (size_t)degree_of((size_t)i, n);
    int first = gs_zoo_buffer_made(instance, GS_INT32, (size_t)n[0] + 1, make_first);
    int neighbors = gs_zoo_buffer_made(instance, GS_INT32, edges, make_neighbors);
    int level = gs_zoo_buffer_made(instance, GS_INT32, (size_t)n[0], make_levels);
    int sizes = gs_zoo_buffer_made(instance, GS_INT32, (size_t)n[2] + 1, make_sizes);
    int frontiers[2] = {gs_zoo_buffer_zero(instance, GS_INT32, (size_t)n[0]),
                        gs_zoo_buffer_zero(instance, GS_INT32, (size_t)n[0])};
    for (int depth = 0; depth < n[2]; depth++)
        gs_zoo_launch_add(instance, "bfs", "bfs", GS_DIM(GS_UP(n[0], THREADS), 1, 1), GS_DIM(THREADS, 1, 1), "bbbbbbi",
                          first, neighbors, level, frontiers[depth % 2], frontiers[1 - depth % 2], sizes, depth);
    instance->buffers[frontiers[0]].is_scratch = instance->buffers[frontiers[1]].is_scratch = true; /* in any order */
}

/* Level by level, checking every node each time. */
static void reference_bfs(void *const *data, const int32_t *n) {
    const int32_t *first = data[0], *neighbors = data[1];
    int32_t *level = data[2], *sizes = data[3];
    for (int depth = 0; depth < n[2]; depth++)
        for (int node = 0; node < n[0]; node++)
            for (int edge = first[node]; level[node] == depth && edge < first[node + 1]; edge++)
                if (level[neighbors[edge]] < 0) {
                    level[neighbors[edge]] = depth + 1;
                    sizes[depth + 1]++;
                }
}

const gs_zoo_kernel gs_zoo_bfs = {
    .name = "bfs",
    .summary = "breadth-first search, a launch for each level",
    .numbers = "nodes, edges a node, levels",
    .sizes = {{"tiny", {1, 1, 1}}, {"odd", {1999, 5, 4}}, {"small", {4096, 4, 8}}, {"large", {4000000, 8, 12}}},
    .block_of = {512},
    .instance = instance_bfs,
    .reference = reference_bfs,
    .elastic = {9, 9},
    .changes_inputs = true,
};

/* ---- spmv: rows sorted by length, stored by jagged diagonals ---- */

/* The lengths of rows decrease from the longest to 1. */
static int length_of(int row, const int32_t *n) {
    return 1 + (int)((int64_t)(n[1] - 1) * (n[0] - 1 - row) / gs_max(n[0] - 1, 1));
}

static void make_lengths(void *data, size_t count, const int32_t *n) {
    for (size_t i = 0; i < count; i++)
        ((int32_t *)data)[i] = length_of((int)i, n);
}

/* Where each diagonal begins: after the diagonals before it, which have an element for each row that is long enough. */
static void make_diagonals(void *data, size_t count, const int32_t *n) {
    int32_t *diagonals = data;
    int rows = n[0];
    for (size_t k = 0; k + 1 < count; k++) {
        while (rows > 0 && length_of(rows - 1, n) <= (int)k)
            rows--;
        diagonals[k + 1] = diagonals[k] + rows;
    }
}

/* The row of the matrix that is the i-th longest: a permutation of all rows. */
static void make_places(void *data, size_t count, const int32_t *n) {
    (void)n;
    for (size_t i = 0; i < count; i++)
        ((int32_t *)data)[i] = (int32_t)(i * 1000003 % count);
}

static void instance_spmv(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 256 };
    size_t elements = 0;
    for (int i = 0; i < n[0]; i++)
        elements += (size_t)length_of(i, n);
    int values = gs_zoo_buffer_add(instance, GS_FLOAT32, elements, -1, 1);
    int columns = gs_zoo_buffer_add(instance, GS_INT32, elements, 0, n[0]);
    int diagonals = gs_zoo_buffer_made(instance, GS_INT32, (size_t)n[1] + 1, make_diagonals);
    int lengths = gs_zoo_buffer_made(instance, GS_INT32, (size_t)n[0], make_lengths);
    int places = gs_zoo_buffer_made(instance, GS_INT32, (size_t)n[0], make_places);
    int x = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[0], -1, 1);
    int y = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)n[0]);
    gs_zoo_launch_add(instance, "spmv", "spmv", GS_DIM(GS_UP(n[0], THREADS), 1, 1), GS_DIM(THREADS, 1, 1), "bbbbbbbi",
                      values, columns, diagonals, lengths, places, x, y, n[0]);
}

/* Element by element in the order in which they are stored. */
static void reference_spmv(void *const *data, const int32_t *n) {
    const float *values = data[0], *x = data[5];
    const int32_t *columns = data[1], *lengths = data[3], *places = data[4];
    float *y = data[6];
    double *sums = calloc((size_t)n[0], sizeof *sums);
    size_t at = 0;
    for (int k = 0; sums && k < n[1]; k++)
        for (int row = 0; row < n[0] && lengths[row] > k; row++, at++)
            sums[row] += (double)values[at] * x[columns[at]];
    for (int row = 0; sums && row < n[0]; row++)
        y[places[row]] = (float)sums[row];
    free(sums);
}

const gs_zoo_kernel gs_zoo_spmv = {
    .name = "spmv",
    .summary = "a sparse matrix times a vector, by jagged diagonals",
    .numbers = "rows, elements of the longest row",
    .sizes = {{"tiny", {1, 1}}, {"odd", {1501, 9}}, {"small", {4096, 16}}, {"large", {2000000, 48}}},
    .tolerance = 1e-4,
    .block_of = {256},
    .instance = instance_spmv,
    .reference = reference_spmv,
    .elastic = {9, 9},
};
