/*
 * fields.c: the kernels of the zoo on points of a plane or of space: cp, cutcp, img, lbm, stenc.
 *
 * Each kernel has a function that makes its instance, a reference, and the struct with both.
 */
#include "zoo_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- cp: the potential of atoms at the points of a plane ---- */

static const double CP_SPACING = 0.1;

/* x, y, z and the charge of each atom; none is near the plane z = 0. */
static void make_atoms(void *data, size_t count, const int32_t *n) {
    float *atoms = data;
    for (size_t i = 0; i < count; i += 4) {
        atoms[i] = (float)gs_zoo_random(1, i, 0, CP_SPACING * n[0]);
        atoms[i + 1] = (float)gs_zoo_random(1, i + 1, 0, CP_SPACING * n[1]);
        atoms[i + 2] = (float)gs_zoo_random(1, i + 2, 1, 4);
        atoms[i + 3] = (float)gs_zoo_random(1, i + 3, -1, 1);
    }
}

static void instance_cp(gs_zoo_instance *instance, const int32_t *n) {
    enum { X = 16, Y = 8, POINTS = 8 };
    int atoms = gs_zoo_buffer_made(instance, GS_FLOAT32, (size_t)4 * n[2], make_atoms);
    int potential = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[0] * n[1], -1, 1);
    gs_zoo_launch_add(instance, "cp", "cp", GS_DIM(GS_UP(n[0], X * POINTS), GS_UP(n[1], Y), 1), GS_DIM(X, Y, 1),
                      "bibiiff", atoms, n[2], potential, n[0], n[1], CP_SPACING, 0.0);
}

static void reference_cp(void *const *data, const int32_t *n) {
    const float *atoms = data[0];
    float *potential = data[1];
    for (int y = 0; y < n[1]; y++)
        for (int x = 0; x < n[0]; x++) {
            double sum = 0;
            for (int i = 0; i < 4 * n[2]; i += 4) {
                double dx = CP_SPACING * x - atoms[i], dy = CP_SPACING * y - atoms[i + 1], dz = atoms[i + 2];
                sum += atoms[i + 3] / sqrt(dx * dx + dy * dy + dz * dz);
            }
            potential[y * n[0] + x] += (float)sum;
        }
}

const gs_zoo_kernel gs_zoo_cp = {
    .name = "cp",
    .summary = "Coulombic potential of atoms on a plane",
    .numbers = "width, height, atoms",
    .sizes = {{"tiny", {1, 1, 1}}, {"odd", {141, 11, 13}}, {"small", {256, 32, 16}}, {"large", {4096, 4096, 500}}},
    .tolerance = 1e-3,
    .block_of = {128, 8},
    .work = 3,
    .instance = instance_cp,
    .reference = reference_cp,
    .elastic = {9, 9},
};

/* ---- cutcp: the potential of near atoms in space; n counts cells ---- */

enum { CUTCP_EDGE = 8, CUTCP_CAPACITY = 16 };
static const double CUTCP_SPACING = 0.5, CUTCP_CUTOFF = 4.0; /* a cell is as wide as the cutoff */

static int atoms_in(size_t cell) {
    return (int)gs_zoo_random(7, cell, 0, CUTCP_CAPACITY + 0.99);
}

static void make_filled(void *data, size_t count, const int32_t *n) {
    int32_t *filled = data;
    (void)n;
    for (size_t i = 0; i < count; i++)
        filled[i] = atoms_in(i);
}

/* Atoms are between points, never near one. */
static void make_cells(void *data, size_t count, const int32_t *n) {
    float *cells = data;
    for (size_t i = 0; i < count; i++) {
        size_t cell = i / 4 / CUTCP_CAPACITY, axis = i % 4;
        size_t at[3] = {cell % n[0], cell / n[0] % n[1], cell / n[0] / n[1]};
        double point = floor(gs_zoo_random(1, i, 0, CUTCP_EDGE)) + gs_zoo_random(2, i, 0.25, 0.75);
        if (axis == 3)
            cells[i] = (float)gs_zoo_random(3, i, -1, 1);
        else
            cells[i] = (float)(CUTCP_SPACING * ((double)(at[axis] * CUTCP_EDGE) + point));
    }
}

static void instance_cutcp(gs_zoo_instance *instance, const int32_t *n) {
    enum { DEPTH = 4 };
    size_t cells = (size_t)n[0] * n[1] * n[2];
    int atoms = gs_zoo_buffer_made(instance, GS_FLOAT32, cells * CUTCP_CAPACITY * 4, make_cells);
    int filled = gs_zoo_buffer_made(instance, GS_INT32, cells, make_filled);
    int potential = gs_zoo_buffer_zero(instance, GS_FLOAT32, cells * CUTCP_EDGE * CUTCP_EDGE * CUTCP_EDGE);
    gs_zoo_launch_add(instance, "cutcp", "cutcp", GS_DIM(n[0], n[1], n[2]), GS_DIM(CUTCP_EDGE, CUTCP_EDGE, DEPTH),
                      "bbbff", atoms, filled, potential, CUTCP_SPACING, CUTCP_CUTOFF);
}

/* The potential at a point of all atoms that are near enough. It checks every atom. */
static double potential_at(const float *atoms, const int32_t *filled, size_t cells, const double at[3]) {
    double sum = 0, bound = CUTCP_CUTOFF * CUTCP_CUTOFF;
    for (size_t cell = 0; cell < cells; cell++)
        for (int i = 0; i < filled[cell]; i++) {
            const float *atom = atoms + (cell * CUTCP_CAPACITY + i) * 4;
            double distance = 0;
            for (int axis = 0; axis < 3; axis++)
                distance += (at[axis] - atom[axis]) * (at[axis] - atom[axis]);
            double fade = 1 - distance / bound;
            if (distance < bound)
                sum += atom[3] / sqrt(distance) * fade * fade;
        }
    return sum;
}

static void reference_cutcp(void *const *data, const int32_t *n) {
    float *potential = data[2];
    size_t wide = (size_t)n[0] * CUTCP_EDGE, tall = (size_t)n[1] * CUTCP_EDGE, deep = (size_t)n[2] * CUTCP_EDGE;
    for (size_t i = 0; i < wide * tall * deep; i++) {
        double at[3] = {CUTCP_SPACING * (double)(i % wide), CUTCP_SPACING * (double)(i / wide % tall),
                        CUTCP_SPACING * (double)(i / wide / tall)};
        potential[i] = (float)potential_at(data[0], data[1], (size_t)n[0] * n[1] * n[2], at);
    }
}

const gs_zoo_kernel gs_zoo_cutcp = {
    .name = "cutcp",
    .summary = "Coulombic potential with a cutoff, in space",
    .numbers = "cells in x, y and z",
    .sizes = {{"tiny", {1, 1, 1}}, {"odd", {3, 1, 2}}, {"small", {3, 3, 2}}, {"large", {32, 32, 32}}},
    .tolerance = 1e-3,
    .block_of = {1, 1, 1},
    .instance = instance_cutcp,
    .reference = reference_cutcp,
    .elastic = {23, 23},
};

/* ---- img: a filter of 5 x 5 pixels ---- */

enum { IMG_RADIUS = 2, IMG_SIDE = 5 };

static void instance_img(gs_zoo_instance *instance, const int32_t *n) {
    enum { TILE_X = 32, TILE_Y = 16 };
    int in = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[0] * n[1], 0, 1);
    int weights = gs_zoo_buffer_add(instance, GS_FLOAT32, IMG_SIDE * IMG_SIDE, -1, 1);
    int out = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)n[0] * n[1]);
    gs_zoo_launch_add(instance, "img", "img", GS_DIM(GS_UP(n[0], TILE_X), GS_UP(n[1], TILE_Y), 1),
                      GS_DIM(TILE_X, TILE_Y, 1), "bbbii", in, weights, out, n[0], n[1]);
}

static int clamp_index(int at, int size) {
    return (int)gs_max(0, gs_min(at, size - 1));
}

static void reference_img(void *const *data, const int32_t *n) {
    const float *in = data[0], *weights = data[1];
    float *out = data[2];
    for (int y = 0; y < n[1]; y++)
        for (int x = 0; x < n[0]; x++) {
            double sum = 0;
            for (int i = 0; i < IMG_SIDE * IMG_SIDE; i++)
                sum += (double)weights[i] * in[clamp_index(y + i / IMG_SIDE - IMG_RADIUS, n[1]) * n[0] +
                                               clamp_index(x + i % IMG_SIDE - IMG_RADIUS, n[0])];
            out[y * n[0] + x] = (float)sum;
        }
}

const gs_zoo_kernel gs_zoo_img = {
    .name = "img",
    .summary = "an image filter, with a tile and its rim in shared memory",
    .numbers = "width, height",
    .sizes = {{"tiny", {1, 1}}, {"odd", {69, 35}}, {"small", {128, 64}}, {"large", {8192, 8192}}},
    .tolerance = 1e-4,
    .block_of = {32, 16},
    .instance = instance_img,
    .reference = reference_img,
    .elastic = {1, 1},
};

/* ---- lbm: D2Q9 ---- */

enum { LBM_DIRECTIONS = 9 };
static const double LBM_OMEGA = 1.2;
static const int lbm_dx[LBM_DIRECTIONS] = {0, 1, 0, -1, 0, 1, -1, -1, 1},
                 lbm_dy[LBM_DIRECTIONS] = {0, 0, 1, 0, -1, 1, 1, -1, -1};

/* Every seventh cell or so is solid. */
static void make_solid(void *data, size_t count, const int32_t *n) {
    uint8_t *is_solid = data;
    (void)n;
    for (size_t i = 0; i < count; i++)
        is_solid[i] = gs_zoo_random(5, i, 0, 7) < 1;
}

static void instance_lbm(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 128 };
    size_t cells = (size_t)n[0] * n[1];
    int f[2] = {gs_zoo_buffer_add(instance, GS_FLOAT32, LBM_DIRECTIONS * cells, 0.05, 0.15),
                gs_zoo_buffer_zero(instance, GS_FLOAT32, LBM_DIRECTIONS * cells)};
    int solid = gs_zoo_buffer_made(instance, GS_UINT8, cells, make_solid);
    for (int step = 0; step < n[2]; step++)
        gs_zoo_launch_add(instance, "lbm", "lbm", GS_DIM(GS_UP(n[0], THREADS), n[1], 1), GS_DIM(THREADS, 1, 1),
                          "bbbiif", f[step % 2], f[1 - step % 2], solid, n[0], n[1], LBM_OMEGA);
}

/* The value of a cell in direction i after a step; `f` are the values that streamed into the cell. */
static double relaxed_value(const double *f, int i) {
    double density = 0, vx = 0, vy = 0;
    for (int k = 0; k < LBM_DIRECTIONS; k++) {
        density += f[k];
        vx += lbm_dx[k] * f[k];
        vy += lbm_dy[k] * f[k];
    }
    vx /= density;
    vy /= density;
    double along = lbm_dx[i] * vx + lbm_dy[i] * vy, weight = i == 0 ? 4.0 / 9 : i < 5 ? 1.0 / 9 : 1.0 / 36;
    double rest = weight * density * (1 + 3 * along + 4.5 * along * along - 1.5 * (vx * vx + vy * vy));
    return f[i] + LBM_OMEGA * (rest - f[i]);
}

static void step_lbm(const float *from, float *to, const uint8_t *solid, const int32_t *n) {
    static const int opposite[LBM_DIRECTIONS] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
    int cells = n[0] * n[1];
    for (int cell = 0; cell < cells; cell++) {
        double f[LBM_DIRECTIONS];
        for (int i = 0; i < LBM_DIRECTIONS; i++) {
            int x = (cell % n[0] - lbm_dx[i] + n[0]) % n[0], y = (cell / n[0] - lbm_dy[i] + n[1]) % n[1];
            f[i] = from[i * cells + y * n[0] + x];
        }
        for (int i = 0; i < LBM_DIRECTIONS; i++)
            to[i * cells + cell] = (float)(solid[cell] ? f[opposite[i]] : relaxed_value(f, i));
    }
}

static void reference_lbm(void *const *data, const int32_t *n) {
    for (int step = 0; step < n[2]; step++)
        step_lbm(data[step % 2], data[1 - step % 2], data[2], n);
}

const gs_zoo_kernel gs_zoo_lbm = {
    .name = "lbm",
    .summary = "steps of the lattice Boltzmann method, D2Q9",
    .numbers = "width, height, steps",
    .sizes = {{"tiny", {1, 1, 1}}, {"odd", {131, 7, 3}}, {"small", {128, 24, 4}}, {"large", {4096, 2048, 4}}},
    .tolerance = 1e-4,
    .block_of = {128, 1},
    .instance = instance_lbm,
    .reference = reference_lbm,
    .elastic = {9, 9},
};

/* ---- stenc: seven points ---- */

static const double STENC_MIDDLE = 0.4, STENC_AROUND = 0.1;

static void instance_stenc(gs_zoo_instance *instance, const int32_t *n) {
    enum { TILE_X = 32, TILE_Y = 4 };
    size_t count = (size_t)n[0] * n[1] * n[2];
    int grids[2] = {gs_zoo_buffer_add(instance, GS_FLOAT32, count, -1, 1),
                    gs_zoo_buffer_zero(instance, GS_FLOAT32, count)};
    for (int step = 0; step < n[3]; step++)
        gs_zoo_launch_add(instance, "stenc", "stenc", GS_DIM(GS_UP(n[0], TILE_X), GS_UP(n[1], TILE_Y), 1),
                          GS_DIM(TILE_X, TILE_Y, 1), "bbiiiff", grids[step % 2], grids[1 - step % 2], n[0], n[1], n[2],
                          STENC_MIDDLE, STENC_AROUND);
}

static bool is_inside(int at, int size) {
    return at > 0 && at < size - 1;
}

static void step_stenc(const float *in, float *out, const int32_t *n) {
    int row = n[0], area = n[0] * n[1];
    for (int i = 0; i < area * n[2]; i++) {
        double here = in[i];
        if (is_inside(i % row, n[0]) && is_inside(i / row % n[1], n[1]) && is_inside(i / area, n[2]))
            here = STENC_MIDDLE * here + STENC_AROUND * ((double)in[i - 1] + in[i + 1] + in[i - row] + in[i + row] +
                                                         in[i - area] + in[i + area]);
        out[i] = (float)here;
    }
}

static void reference_stenc(void *const *data, const int32_t *n) {
    for (int step = 0; step < n[3]; step++)
        step_stenc(data[step % 2], data[1 - step % 2], n);
}

const gs_zoo_kernel gs_zoo_stenc = {
    .name = "stenc",
    .summary = "steps of a 7-point stencil in space",
    .numbers = "width, height, planes, steps",
    .sizes = {{"tiny", {1, 1, 1, 1}},
              {"odd", {37, 11, 5, 3}},
              {"small", {64, 16, 12, 2}},
              {"large", {2048, 1024, 48, 2}}},
    .tolerance = 1e-4,
    .block_of = {32, 4},
    .work = 3,
    .instance = instance_stenc,
    .reference = reference_stenc,
    .elastic = {1, 1},
};
