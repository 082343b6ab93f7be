/*
 * signals.c: the kernels of the zoo on waves: fft, mrif, mriq.
 *
 * Each kernel has a function that makes its instance, a reference, and the struct with both.
 */
#include "zoo_kernels.h"

#include <math.h>

static const double TURN = 6.283185307179586;

/* ---- fft: rows of 512 complex numbers ---- */

enum { FFT_POINTS = 512 };

static void instance_fft(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 128 };
    int in = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[0] * FFT_POINTS * 2, -1, 1);
    int out = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)n[0] * FFT_POINTS * 2);
    gs_zoo_launch_add(instance, "fft", "fft", GS_DIM(n[0], 1, 1), GS_DIM(THREADS, 1, 1), "bb", in, out);
}

/* By the definition: each result is a sum over all inputs. */
static void transform_row(const float *in, float *out) {
    double cosine[FFT_POINTS], sine[FFT_POINTS];
    for (int i = 0; i < FFT_POINTS; i++) {
        cosine[i] = cos(TURN * i / FFT_POINTS);
        sine[i] = -sin(TURN * i / FFT_POINTS);
    }
    for (int k = 0; k < FFT_POINTS; k++) {
        double real = 0, imaginary = 0;
        for (int i = 0; i < FFT_POINTS; i++) {
            int angle = i * k % FFT_POINTS;
            real += in[2 * i] * cosine[angle] - in[2 * i + 1] * sine[angle];
            imaginary += in[2 * i] * sine[angle] + in[2 * i + 1] * cosine[angle];
        }
        out[2 * k] = (float)real;
        out[2 * k + 1] = (float)imaginary;
    }
}

static void reference_fft(void *const *data, const int32_t *n) {
    for (int row = 0; row < n[0]; row++)
        transform_row((const float *)data[0] + 2 * FFT_POINTS * row, (float *)data[1] + 2 * FFT_POINTS * row);
}

const gs_zoo_kernel gs_zoo_fft = {
    .name = "fft",
    .summary = "Fourier transforms of 512 points in shared memory",
    .numbers = "rows",
    .sizes = {{"tiny", {1}}, {"odd", {3}}, {"small", {8}}, {"large", {131072}}},
    .tolerance = 1e-3,
    .block_of = {1},
    .instance = instance_fft,
    .reference = reference_fft,
    .elastic = {25, 25},
};

/* ---- mrif and mriq: for each voxel, a sum over all samples ---- */

static const double MRI_REACH = 4; /* of samples in k-space, and their largest value */

static void add_voxels(gs_zoo_instance *instance, int voxels, int buffers[5]) {
    for (int i = 0; i < 3; i++)
        buffers[i] = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)voxels, -0.5, 0.5);
    for (int i = 3; i < 5; i++)
        buffers[i] = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)voxels);
}

/* The sum over all samples of (w + i v) e^(i angle); `imaginary` is v, or NULL: 0. */
static void sum_samples(const float *samples, const float *imaginary, int count, const double at[3], double sum[2]) {
    sum[0] = sum[1] = 0;
    for (int k = 0; k < count; k++) {
        const float *sample = samples + (size_t)4 * k;
        double angle = TURN * (sample[0] * at[0] + sample[1] * at[1] + sample[2] * at[2]);
        double w = sample[3], v = imaginary ? imaginary[k] : 0;
        sum[0] += w * cos(angle) - v * sin(angle);
        sum[1] += v * cos(angle) + w * sin(angle);
    }
}

static void instance_mrif(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 512 };
    int samples = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)4 * n[1], -MRI_REACH, MRI_REACH);
    int imaginary = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)n[1], -MRI_REACH, MRI_REACH), v[5];
    add_voxels(instance, n[0], v);
    gs_zoo_launch_add(instance, "mrif", "mrif", GS_DIM(GS_UP(n[0], THREADS), 1, 1), GS_DIM(THREADS, 1, 1), "bbibbbbbi",
                      samples, imaginary, n[1], v[0], v[1], v[2], v[3], v[4], n[0]);
}

static void reference_mri(const float *samples, const float *imaginary, void *const *voxels, const int32_t *n) {
    const float *x = voxels[0], *y = voxels[1], *z = voxels[2];
    float *real_out = voxels[3], *imaginary_out = voxels[4];
    for (int i = 0; i < n[0]; i++) {
        double at[3] = {x[i], y[i], z[i]}, sum[2];
        sum_samples(samples, imaginary, n[1], at, sum);
        real_out[i] = (float)sum[0];
        imaginary_out[i] = (float)sum[1];
    }
}

static void reference_mrif(void *const *data, const int32_t *n) {
    reference_mri(data[0], data[1], data + 2, n);
}

const gs_zoo_kernel gs_zoo_mrif = {
    .name = "mrif",
    .summary = "F^H d of a magnetic-resonance image",
    .numbers = "voxels, samples",
    .sizes = {{"tiny", {1, 1}}, {"odd", {777, 13}}, {"small", {2048, 16}}, {"large", {4000000, 256}}},
    .tolerance = 2e-3,
    .block_of = {512},
    .work = 2,
    .instance = instance_mrif,
    .reference = reference_mrif,
    .elastic = {9, 9},
};

static void instance_mriq(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 256 };
    int samples = gs_zoo_buffer_add(instance, GS_FLOAT32, (size_t)4 * n[1], -MRI_REACH, MRI_REACH), v[5];
    add_voxels(instance, n[0], v);
    gs_zoo_launch_add(instance, "mriq", "mriq", GS_DIM(GS_UP(n[0], THREADS), 1, 1), GS_DIM(THREADS, 1, 1), "bibbbbbi",
                      samples, n[1], v[0], v[1], v[2], v[3], v[4], n[0]);
}

static void reference_mriq(void *const *data, const int32_t *n) {
    reference_mri(data[0], NULL, data + 1, n);
}

const gs_zoo_kernel gs_zoo_mriq = {
    .name = "mriq",
    .summary = "Q of a magnetic-resonance image",
    .numbers = "voxels, samples",
    .sizes = {{"tiny", {1, 1}}, {"odd", {777, 13}}, {"small", {2048, 16}}, {"large", {4000000, 256}}},
    .tolerance = 2e-3,
    .block_of = {256},
    .work = 2,
    .instance = instance_mriq,
    .reference = reference_mriq,
    .elastic = {9, 9},
};
