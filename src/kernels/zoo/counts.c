/*
 * counts.c: the kernels of the zoo that count, simulate or draw random numbers: black_scholes, histo, pns, quasirandom,
 * tpacf.
 *
 * Each kernel has a function that makes its instance, a reference, and the struct with both.
 */
#include "zoo_kernels.h"

#include <math.h>

/* ---- black_scholes ---- */

static const double RATE = 0.02, VOLATILITY = 0.3;

static void instance_black_scholes(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 128 };
    size_t count = (size_t)n[0];
    int price = gs_zoo_buffer_add(instance, GS_FLOAT32, count, 5, 30);
    int strike = gs_zoo_buffer_add(instance, GS_FLOAT32, count, 1, 100);
    int years = gs_zoo_buffer_add(instance, GS_FLOAT32, count, 0.25, 10);
    int call = gs_zoo_buffer_zero(instance, GS_FLOAT32, count), put = gs_zoo_buffer_zero(instance, GS_FLOAT32, count);
    gs_zoo_launch_add(instance, "black_scholes", "black_scholes", GS_DIM(GS_UP(n[0], THREADS), 1, 1),
                      GS_DIM(THREADS, 1, 1), "bbbbbffi", price, strike, years, call, put, RATE, VOLATILITY, n[0]);
}

static double normal_distribution(double x) {
    return 0.5 * erfc(-x / sqrt(2));
}

static void reference_black_scholes(void *const *data, const int32_t *n) {
    const float *price = data[0], *strike = data[1], *years = data[2];
    float *call = data[3], *put = data[4];
    for (int i = 0; i < n[0]; i++) {
        double spread = VOLATILITY * sqrt(years[i]), later = strike[i] * exp(-RATE * years[i]);
        double d1 = (log(price[i] / (double)strike[i]) + (RATE + VOLATILITY * VOLATILITY / 2) * years[i]) / spread;
        double d2 = d1 - spread;
        call[i] = (float)(price[i] * normal_distribution(d1) - later * normal_distribution(d2));
        put[i] = (float)(later * normal_distribution(-d2) - price[i] * normal_distribution(-d1));
    }
}

const gs_zoo_kernel gs_zoo_black_scholes = {
    .name = "black_scholes",
    .summary = "prices of options, by Black and Scholes",
    .numbers = "options",
    .sizes = {{"tiny", {1}}, {"odd", {3333}}, {"small", {8192}}, {"large", {40000000}}},
    .tolerance = 1e-4,
    .block_of = {128},
    .instance = instance_black_scholes,
    .reference = reference_black_scholes,
    .elastic = {9, 9},
};

/* ---- histo ---- */

enum { HISTO_BINS = 2048 };

/* Values with a peak in the middle, as in a picture. */
static void make_values(void *data, size_t count, const int32_t *n) {
    int32_t *values = data;
    (void)n;
    for (size_t i = 0; i < count; i++)
        values[i] = (int32_t)(gs_zoo_random(1, i, 0, HISTO_BINS / 2) + gs_zoo_random(2, i, 0, HISTO_BINS / 2));
}

static void instance_histo(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 512 };
    int values = gs_zoo_buffer_made(instance, GS_INT32, (size_t)n[0], make_values);
    int bins = gs_zoo_buffer_zero(instance, GS_UINT32, HISTO_BINS);
    gs_zoo_launch_add(instance, "histo", "histo", GS_DIM(n[1], 1, 1), GS_DIM(THREADS, 1, 1), "bib", values, n[0], bins);
}

static void reference_histo(void *const *data, const int32_t *n) {
    const int32_t *values = data[0];
    uint32_t *bins = data[1];
    for (int i = 0; i < n[0]; i++)
        bins[values[i]]++;
}

const gs_zoo_kernel gs_zoo_histo = {
    .name = "histo",
    .summary = "a histogram, counted in shared memory",
    .numbers = "values, blocks",
    .sizes = {{"tiny", {1, 1}}, {"odd", {10007, 3}}, {"small", {32768, 8}}, {"large", {64000000, 5280}}},
    .block_of = {0, 1},
    .work = 1,
    .divided = 2,
    .instance = instance_histo,
    .reference = reference_histo,
    .elastic = {9, 9},
};

/* ---- pns: a ring of places, simulated many times ---- */

enum { PNS_PLACES = 512 };

static void make_marking(void *data, size_t count, const int32_t *n) {
    int32_t *marking = data;
    (void)n;
    for (size_t i = 0; i < count; i++)
        marking[i] = (int32_t)gs_zoo_random(1, i, 0, 3);
}

static void instance_pns(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 256 };
    int initial = gs_zoo_buffer_made(instance, GS_INT32, PNS_PLACES, make_marking);
    int tokens = gs_zoo_buffer_zero(instance, GS_UINT32, PNS_PLACES),
        squares = gs_zoo_buffer_zero(instance, GS_UINT32, PNS_PLACES);
    gs_zoo_launch_add(instance, "pns", "pns", GS_DIM(n[0], 1, 1), GS_DIM(THREADS, 1, 1), "bibb", initial, n[1], tokens,
                      squares);
}

static bool transition_fires(uint32_t simulation, uint32_t step, uint32_t transition) {
    uint32_t x = simulation * 0x9e3779b1u ^ step * 0x85ebca77u ^ transition * 0xc2b2ae3du;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    return (x ^ x >> 15) >> 31;
}

static void reference_pns(void *const *data, const int32_t *n) {
    const int32_t *initial = data[0];
    uint32_t *tokens = data[1], *squares = data[2];
    for (int simulation = 0; simulation < n[0]; simulation++) {
        int marking[PNS_PLACES];
        for (int i = 0; i < PNS_PLACES; i++)
            marking[i] = initial[i];
        for (int step = 0; step < 2 * n[1]; step++)
            for (int place = step % 2; place < PNS_PLACES; place += 2)
                if (marking[place] > 0 && transition_fires((uint32_t)simulation, (uint32_t)step, (uint32_t)place)) {
                    marking[place]--;
                    marking[(place + 1) % PNS_PLACES]++;
                }
        for (int i = 0; i < PNS_PLACES; i++) {
            tokens[i] += (uint32_t)marking[i];
            squares[i] += (uint32_t)(marking[i] * marking[i]);
        }
    }
}

const gs_zoo_kernel gs_zoo_pns = {
    .name = "pns",
    .summary = "a Petri net, simulated many times",
    .numbers = "simulations, steps",
    .sizes = {{"tiny", {1, 1}}, {"odd", {5, 7}}, {"small", {16, 8}}, {"large", {16384, 256}}},
    .block_of = {1},
    .work = 2,
    .instance = instance_pns,
    .reference = reference_pns,
    .elastic = {25, 25},
};

/* ---- quasirandom: a Sobol sequence ---- */

enum { SOBOL_BITS = 32 };

/* Primitive polynomials by degree and inner coefficients; dimension 0 has none. */
static const struct {
    int degree;
    uint32_t inner;
} polynomials[] = {{0, 0}, {1, 0}, {2, 1}, {3, 1}, {3, 2}, {4, 1}, {4, 4}, {5, 2}};

/* The first numbers of a dimension may be any odd numbers below 2^i; the polynomial determines the others. */
static void make_dimension(uint32_t *directions, int dimension) {
    int degree = polynomials[dimension].degree;
    uint32_t m[SOBOL_BITS];
    for (int i = 0; i < SOBOL_BITS; i++) {
        if (degree == 0) {
            m[i] = 1;
        } else if (i < degree) {
            m[i] = ((uint32_t)((2 * dimension + 1) * (i + 1)) & ((2u << i) - 1)) | 1;
        } else {
            m[i] = m[i - degree] ^ m[i - degree] << degree;
            for (int k = 1; k < degree; k++)
                if (polynomials[dimension].inner >> (degree - 1 - k) & 1)
                    m[i] ^= m[i - k] << k;
        }
        directions[i] = m[i] << (SOBOL_BITS - 1 - i);
    }
}

static void make_directions(void *data, size_t count, const int32_t *n) {
    (void)count;
    for (int dimension = 0; dimension < n[1]; dimension++)
        make_dimension((uint32_t *)data + dimension * SOBOL_BITS, dimension);
}

static void instance_quasirandom(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 128 };
    int directions = gs_zoo_buffer_made(instance, GS_UINT32, (size_t)n[1] * SOBOL_BITS, make_directions);
    int out = gs_zoo_buffer_zero(instance, GS_FLOAT32, (size_t)n[0] * n[1]);
    gs_zoo_launch_add(instance, "quasirandom", "quasirandom", GS_DIM(n[2], n[1], 1), GS_DIM(THREADS, 1, 1), "bbi",
                      directions, out, n[0]);
}

/* Two successive numbers differ by one direction: that of the lowest bit that is not set in the counter. */
static void reference_quasirandom(void *const *data, const int32_t *n) {
    const uint32_t *directions = data[0];
    float *out = data[1];
    for (int dimension = 0; dimension < n[1]; dimension++) {
        uint32_t number = 0;
        for (int i = 0; i < n[0]; i++) {
            int bit = 0;
            out[(size_t)dimension * n[0] + i] = (float)(number >> 8) / 16777216.0f;
            while (i >> bit & 1)
                bit++;
            number ^= directions[dimension * SOBOL_BITS + bit];
        }
    }
}

const gs_zoo_kernel gs_zoo_quasirandom = {
    .name = "quasirandom",
    .summary = "a Sobol sequence",
    .numbers = "numbers, dimensions, blocks",
    .sizes = {{"tiny", {1, 1, 1}}, {"odd", {1009, 3, 5}}, {"small", {4096, 4, 8}}, {"large", {16000000, 8, 4000}}},
    .load = {"load", {16000000, 3, 128}}, /* as few blocks as in the measurements of Slate */
    .block_of = {0, 1, 1},
    .work = 1,
    .divided = 3,
    .instance = instance_quasirandom,
    .reference = reference_quasirandom,
    .elastic = {9, 9},
};

/* ---- tpacf: pairs of points on a sphere by their distance ---- */

enum { TPACF_BINS = 20 };

/* All x, then all y, then all z. */
static void make_points(void *data, size_t count, const int32_t *n, uint64_t seed) {
    float *points = data;
    size_t each = count / 3;
    (void)n;
    for (size_t i = 0; i < each; i++) {
        double z = gs_zoo_random(seed, 2 * i, -1, 1), around = gs_zoo_random(seed, 2 * i + 1, 0, 6.283185307179586);
        double radius = sqrt(1 - z * z);
        points[i] = (float)(radius * cos(around));
        points[each + i] = (float)(radius * sin(around));
        points[2 * each + i] = (float)z;
    }
}

static void make_data(void *data, size_t count, const int32_t *n) {
    make_points(data, count, n, 1);
}

static void make_randoms(void *data, size_t count, const int32_t *n) {
    make_points(data, count, n, 2);
}

/* Cosines of angles that grow by a third from bin to bin. */
static void make_bounds(void *data, size_t count, const int32_t *n) {
    float *bounds = data;
    (void)n;
    for (size_t i = 0; i < count; i++)
        bounds[i] = (float)cos(0.01 * pow(4.0 / 3, (double)i));
}

static void instance_tpacf(gs_zoo_instance *instance, const int32_t *n) {
    enum { THREADS = 256, SLICE = 1024 };
    int sets[2] = {gs_zoo_buffer_made(instance, GS_FLOAT32, (size_t)3 * n[0], make_data),
                   gs_zoo_buffer_made(instance, GS_FLOAT32, (size_t)3 * n[1], make_randoms)};
    int bounds = gs_zoo_buffer_made(instance, GS_FLOAT32, TPACF_BINS - 1, make_bounds);
    for (int pair = 0; pair < 3;
         pair++) { /* data with data, data with random points, random points with random points */
        int first = pair == 2, second = pair > 0;
        int bins = gs_zoo_buffer_zero(instance, GS_UINT32, TPACF_BINS);
        gs_zoo_launch_add(instance, "tpacf", "tpacf", GS_DIM(GS_UP(n[first], THREADS), GS_UP(n[second], SLICE), 1),
                          GS_DIM(THREADS, 1, 1), "bibibbi", sets[first], n[first], sets[second], n[second], bounds,
                          bins, first == second);
    }
}

/* Each product is rounded separately, as in the kernel, so that both put a pair into the same bin. */
static int bin_of(const float *a, int a_count, int i, const float *b, int b_count, int j, const float *bounds) {
    volatile float x = a[i] * b[j], y = a[a_count + i] * b[b_count + j], z = a[2 * a_count + i] * b[2 * b_count + j];
    volatile float flat = x + y;
    float cosine = flat + z;
    int bin = 0;
    while (bin < TPACF_BINS - 1 && cosine < bounds[bin])
        bin++;
    return bin;
}

static void reference_tpacf(void *const *data, const int32_t *n) {
    for (int pair = 0; pair < 3; pair++) {
        int first = pair == 2, second = pair > 0;
        uint32_t *bins = data[3 + pair];
        for (int i = 0; i < n[first]; i++)
            for (int j = first == second ? i + 1 : 0; j < n[second]; j++)
                bins[bin_of(data[first], n[first], i, data[second], n[second], j, data[2])]++;
    }
}

const gs_zoo_kernel gs_zoo_tpacf = {
    .name = "tpacf",
    .summary = "pairs of points on a sphere, counted by their distance",
    .numbers = "points, random points",
    .sizes = {{"tiny", {1, 1}}, {"odd", {301, 1100}}, {"small", {256, 512}}, {"large", {65536, 65536}}},
    .instance = instance_tpacf,
    .reference = reference_tpacf,
    .elastic = {1, 1},
};
