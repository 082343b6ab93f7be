/*
 * test_durations.c: the models of durations: textbook data sets, planted knees, and the limits of the models.
 *
 * The certified values of Norris, Longley and Wampler are those of NIST's Statistical Reference Datasets.
 */
#include "decide_support.h"

#include <float.h>
#include <math.h>

static void expect_digits(double value, double wanted, double relative) {
    plan_expect_near(value, wanted, relative * fabs(wanted));
}

/* Fits a constant and the columns of `x`. */
static gs_regression fit_columns(const double *x, int columns, const double *y, size_t points) {
    double rows[64 * GS_REGRESSION_TERMS];
    gs_regression fit;
    for (size_t i = 0; i < points; i++) {
        rows[i * (size_t)(columns + 1)] = 1;
        for (int k = 0; k < columns; k++)
            rows[i * (size_t)(columns + 1) + 1 + (size_t)k] = x[i * (size_t)columns + (size_t)k];
    }
    assert_true(gs_regress(rows, columns + 1, y, points, &fit));
    return fit;
}

/* ---- textbooks ---- */

/* Four sets with the same line and residuals. */
TEST(anscombe) {
    static const double x1[] = {10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5}, x4[] = {8, 8, 8, 8, 8, 8, 8, 19, 8, 8, 8};
    static const double y[4][11] = {{8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68},
                                    {9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74},
                                    {7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73},
                                    {6.58, 5.76, 7.71, 8.84, 8.47, 7.04, 5.25, 12.50, 5.56, 7.91, 6.89}};
    for (int set = 0; set < 4; set++) {
        gs_regression fit = fit_columns(set == 3 ? x4 : x1, 1, y[set], 11);
        plan_expect_near(fit.coefficients[0], 3.0, 0.01);
        plan_expect_near(fit.coefficients[1], 0.5, 0.001);
        plan_expect_near(sqrt(fit.squares / 9), 1.237, 0.002);
    }
}

TEST(norris) {
    static const double y[] = {0.1, 338.8, 118.1, 888.0, 9.2,   228.1, 668.5, 998.5, 449.1, 778.9, 559.2, 0.3,
                               0.1, 778.1, 668.8, 339.3, 448.9, 10.8,  557.7, 228.3, 998.0, 888.8, 119.6, 0.3,
                               0.6, 557.6, 339.3, 888.0, 998.5, 778.9, 10.2,  117.6, 228.9, 668.4, 449.2, 0.2};
    static const double x[] = {0.2, 337.4, 118.2, 884.6, 10.1,  226.5, 666.3, 996.3, 448.6, 777.0, 558.2, 0.4,
                               0.6, 775.5, 666.9, 338.0, 447.5, 11.6,  556.0, 228.1, 995.8, 887.6, 120.2, 0.3,
                               0.3, 556.8, 339.1, 887.2, 999.0, 779.0, 11.1,  118.3, 229.2, 669.1, 448.9, 0.5};
    gs_regression fit = fit_columns(x, 1, y, GS_COUNT(x));
    expect_digits(fit.coefficients[0], -0.262323073774029, 1e-11);
    expect_digits(fit.coefficients[1], 1.00211681802045, 1e-13);
    expect_digits(sqrt(fit.squares / 34), 0.884796396144373, 1e-12);
}

/* Six columns that are nearly dependent: the normal equations lose about ten digits here. */
TEST(longley) {
    static const double y[] = {60323, 61122, 60171, 61187, 63221, 63639, 64989, 63761,
                               66019, 67857, 68169, 66513, 68655, 69564, 69331, 70551};
    static const double x[16][6] = {
        {83.0, 234289, 2356, 1590, 107608, 1947},  {88.5, 259426, 2325, 1456, 108632, 1948},
        {88.2, 258054, 3682, 1616, 109773, 1949},  {89.5, 284599, 3351, 1650, 110929, 1950},
        {96.2, 328975, 2099, 3099, 112075, 1951},  {98.1, 346999, 1932, 3594, 113270, 1952},
        {99.0, 365385, 1870, 3547, 115094, 1953},  {100.0, 363112, 3578, 3350, 116219, 1954},
        {101.2, 397469, 2904, 3048, 117388, 1955}, {104.6, 419180, 2822, 2857, 118734, 1956},
        {108.4, 442769, 2936, 2798, 120445, 1957}, {110.8, 444546, 4681, 2637, 121950, 1958},
        {112.6, 482704, 3813, 2552, 123366, 1959}, {114.2, 502601, 3931, 2514, 125368, 1960},
        {115.7, 518173, 4806, 2572, 127852, 1961}, {116.9, 554894, 4007, 2827, 130081, 1962}};
    static const double wanted[] = {-3482258.63459582, 15.0618722713733,  -0.358191792925910E-01,
                                    -2.02022980381683, -1.03322686717359, -0.511041056535807E-01,
                                    1829.15146461355};
    gs_regression fit = fit_columns(&x[0][0], 6, y, 16);
    for (int i = 0; i < 7; i++)
        expect_digits(fit.coefficients[i], wanted[i], 1e-8);
    expect_digits(sqrt(fit.squares / 9), 304.854073561965, 1e-10);
}

/* Wampler's polynomials of degree 5 at 0 to 20, whose coefficients are known: the powers are nearly dependent. */
TEST(wampler) {
    for (int set = 0; set < 2; set++) {
        double x[21][5], y[21] = {0}, ratio = set == 0 ? 1 : 0.1;
        for (int i = 0; i < 21; i++) {
            y[i] = 1;
            for (int k = 0; k < 5; k++) {
                x[i][k] = pow(i, k + 1);
                y[i] += pow(ratio * i, k + 1);
            }
        }
        gs_regression fit = fit_columns(&x[0][0], 5, y, 21);
        for (int k = 0; k < 6; k++)
            expect_digits(fit.coefficients[k], pow(ratio, k), 1e-9);
        plan_expect_near(fit.squares, 0, 1e-13);
    }
}

TEST(rows_that_determine_nothing) {
    static const double same[] = {1, 2, 1, 2, 1, 2}, values[] = {1, 2, 3}, zero[] = {1, 0, 1, 0, 1, 0};
    gs_regression fit;
    assert_false(gs_regress(same, 2, values, 3, &fit));
    assert_false(gs_regress(zero, 2, values, 3, &fit));
    assert_false(gs_regress(same, 2, values, 1, &fit));
}

/* Against the normal equations, written out, for lines. */
TEST(lines_are_those_of_the_formulas) {
    for (int round = 0; round < plan_rounds(2000); round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), (uint64_t)round);
        size_t points = (size_t)gs_random_from(&random, 3, 40);
        double x[40], y[40], sx = 0, sy = 0, sxx = 0, sxy = 0;
        for (size_t i = 0; i < points; i++) {
            x[i] = plan_random(&random, 0, 10) + (double)i;
            y[i] = plan_random(&random, -5, 5);
            sx += x[i], sy += y[i], sxx += x[i] * x[i], sxy += x[i] * y[i];
        }
        gs_regression fit = fit_columns(x, 1, y, points);
        double n = (double)points, slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
        plan_expect_near(fit.coefficients[1], slope, 1e-9);
        plan_expect_near(fit.coefficients[0], (sy - slope * sx) / n, 1e-9);
    }
}

/* ---- a kernel alone ---- */

static double noise(gs_random *random, double part) {
    double sum = 0; /* nearly normal, standard deviation 1 */
    for (int i = 0; i < 12; i++)
        sum += plan_random(random, 0, 1);
    return 1 + part * (sum - 6);
}

/* The mean error is less than the noise. */
TEST(forecasts_alone) {
    int all = 0;
    double off = 0;
    for (int round = 0; round < plan_rounds(2000); round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 2), (uint64_t)round);
        double base = plan_random(&random, 2, 20), slope = plan_random(&random, 0.001, 0.1);
        gs_fit_point points[12];
        gs_line_model model;
        for (int i = 0; i < 12; i++) {
            double blocks = plan_random(&random, 100, 100000);
            points[i] = (gs_fit_point){blocks, (base + slope * blocks) * noise(&random, 0.02)};
        }
        assert_true(gs_line_fit(points, 12, &model));
        double at = plan_random(&random, model.least, model.most), truth = base + slope * at;
        gs_forecast forecast = gs_line_at(&model, at);
        assert_int_equal(forecast.doubt, GS_DOUBT_NONE);
        off += fabs(forecast.value - truth) / truth;
        all++;
    }
    if (all >= 1000)
        plan_expect_near(off / all, 0, 0.01);
}

TEST(a_model_says_where_it_does_not_apply) {
    gs_line_model model;
    static const gs_fit_point good[] = {{100, 11}, {200, 21}, {400, 41}, {800, 81}};
    static const gs_fit_point wild[] = {{100, 11}, {200, 51}, {400, 21}, {800, 181}, {900, 11}};
    assert_true(gs_line_fit(good, 4, &model));
    plan_expect_near(gs_line_at(&model, 300).value, 31, 1e-9);
    assert_int_equal(gs_line_at(&model, 300).doubt, GS_DOUBT_NONE);
    assert_int_equal(gs_line_at(&model, 100).doubt, GS_DOUBT_NONE);
    assert_int_equal(gs_line_at(&model, 99).doubt, GS_DOUBT_OUTSIDE);
    assert_int_equal(gs_line_at(&model, 801).doubt, GS_DOUBT_OUTSIDE);
    assert_true(gs_line_fit(good, 2, &model));
    assert_int_equal(gs_line_at(&model, 150).doubt, GS_DOUBT_FEW);
    assert_true(gs_line_fit(wild, 5, &model));
    assert_int_equal(gs_line_at(&model, 300).doubt, GS_DOUBT_SCATTERED);
    assert_false(gs_line_fit(good, 1, &model));
    assert_false(gs_line_fit(good, 0, &model));
    assert_false(gs_line_fit((gs_fit_point[]){{1, 0}, {2, 1}, {3, 1}}, 3, &model));
    assert_string_equal(gs_doubt_text(GS_DOUBT_OUTSIDE), "outside the measured range");
    /* Numbers that a file has, without the measurements. */
    model = (gs_line_model){.base = 1, .slope = 0.1, .least = 10, .most = 100, .residual = 0.02};
    assert_int_equal(gs_line_at(&model, 50).doubt, GS_DOUBT_NONE);
}

/* ---- pairs ---- */

/* The duration together divided by T1, played: both run, then what is left. */
static double played(const gs_pair_rates *rates, double ratio) {
    double first = 1, second = ratio, end_first = first / rates->first, end_second = second / rates->second;
    if (end_first < end_second)
        return end_first + (second - rates->second * end_first) / rates->second_alone;
    return end_second + (first - rates->first * end_second) / rates->first_alone;
}

static gs_pair_rates random_rates(gs_random *random) {
    gs_pair_rates rates = {.first_alone = plan_random(random, 0.85, 1), .second_alone = plan_random(random, 0.6, 1)};
    rates.first = rates.first_alone * plan_random(random, 0.4, 0.9);
    rates.second = rates.second_alone * plan_random(random, 0.2, 0.8);
    return rates;
}

/* `count` ratios around the knee, with noise. */
static void measure(gs_random *random, const gs_pair_rates *rates, double part, gs_fit_point *points, size_t count) {
    double knee = rates->second / rates->first;
    for (size_t i = 0; i < count; i++) {
        points[i].at = knee * (0.1 + 2.4 * (double)i / (double)(count - 1));
        points[i].value = played(rates, points[i].at) * noise(random, part);
    }
}

/* The sum of the squares for a knee, by the normal equations. */
static double literal_squares(const gs_fit_point *points, size_t count, double knee) {
    double a[3][4] = {{0}}, sum = 0;
    for (size_t i = 0; i < count; i++) {
        double y = points[i].value, row[] = {1 / y, points[i].at / y, fmax(points[i].at - knee, 0) / y, 1};
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 4; c++)
                a[r][c] += row[r] * row[c];
    }
    for (int k = 0; k < 3; k++)
        for (int r = 0; r < 3; r++) {
            double factor = r == k ? 0 : a[r][k] / a[k][k];
            for (int c = 0; c < 4; c++)
                a[r][c] -= factor * a[k][c];
        }
    for (size_t i = 0; i < count; i++) {
        double y = points[i].value, x = points[i].at;
        double value = a[0][3] / a[0][0] + a[1][3] / a[1][1] * x + a[2][3] / a[2][2] * fmax(x - knee, 0);
        sum += (value - y) * (value - y) / y / y;
    }
    return sum;
}

/* No knee of a fine grid is better than the one that was found. */
TEST(the_knee_is_the_best_of_all) {
    for (int round = 0; round < plan_rounds(300); round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 3), (uint64_t)round);
        gs_pair_rates rates = random_rates(&random);
        gs_fit_point points[24];
        gs_pair_model model;
        size_t count = (size_t)gs_random_from(&random, 6, 24);
        measure(&random, &rates, plan_random(&random, 0, 0.05), points, count);
        assert_true(gs_pair_model_fit(points, count, &model));
        if (model.bend == 0)
            continue;
        double squares = model.deviation * model.deviation * (double)(count - 4);
        plan_expect_near(squares, literal_squares(points, count, model.knee), 1e-9);
        double low = points[1].at, high = points[count - 2].at;
        for (int i = 0; i <= 1000; i++)
            if (literal_squares(points, count, low + (high - low) * i / 1000) < squares - 1e-9)
                fail_msg("round %d: a better knee than %g: %g", round, model.knee, low + (high - low) * i / 1000);
    }
}

/* Without noise all is found exactly. With noise of 2%, a knee where the slope changes by a half or more is found,
   within a tenth on average, and forecasts are better than the noise. */
TEST(planted_knees_are_found) {
    int two = 0, clear = 0, all = 0;
    double off = 0, knee_off = 0;
    for (int round = 0; round < plan_rounds(2000); round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 4), (uint64_t)round);
        gs_pair_rates rates = random_rates(&random);
        double knee = rates.second / rates.first;
        gs_fit_point points[16];
        gs_pair_model model;
        measure(&random, &rates, 0, points, 16);
        assert_true(gs_pair_model_fit(points, 16, &model));
        gs_pair_rates found = gs_pair_model_rates(&model);
        plan_expect_near(model.knee, knee, 1e-6 * knee);
        plan_expect_near(found.first, rates.first, 1e-6);
        plan_expect_near(found.second, rates.second, 1e-6);
        plan_expect_near(found.first_alone, rates.first_alone, 1e-6);
        plan_expect_near(found.second_alone, rates.second_alone, 1e-6);
        bool is_clear = model.bend > 0.5;
        measure(&random, &rates, 0.02, points, 16);
        assert_true(gs_pair_model_fit(points, 16, &model));
        all++;
        clear += is_clear;
        two += is_clear && model.bend != 0;
        knee_off += is_clear && model.bend != 0 ? fabs(model.knee - knee) / knee : 0;
        double at = plan_random(&random, model.least, model.most), truth = played(&rates, at);
        off += fabs(gs_pair_model_at(&model, at).value - truth) / truth;
    }
    print_message("knees found: %d of %d, off by %.1f%% on average; forecasts off by %.2f%%\n", two, clear,
                  100 * knee_off / (two > 0 ? two : 1), 100 * off / all);
    if (all >= 1000) {
        assert_true(two > 0.95 * clear && clear > 0.2 * all);
        assert_true(knee_off / two < 0.1);
        assert_true(off / all < 0.015);
    }
}

/* A straight line has no knee, also with noise: less than one in fifty is found. */
TEST(a_line_has_no_knee) {
    int two = 0, all = plan_rounds(1000);
    for (int round = 0; round < all; round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 5), (uint64_t)round);
        gs_fit_point points[16];
        gs_pair_model model;
        double slope = plan_random(&random, 0.1, 1);
        for (int i = 0; i < 16; i++)
            points[i] = (gs_fit_point){0.1 * (i + 1), (1 + slope * 0.1 * (i + 1)) * noise(&random, 0.02)};
        assert_true(gs_pair_model_fit(points, 16, &model));
        two += model.bend != 0;
    }
    print_message("knees in straight lines: %d of %d\n", two, all);
    assert_true(two <= gs_max(all / 20, 1));
}

/* Three to five points, as a plan has them, give the rates where kernels are as fast as alone afterwards. */
TEST(few_points_give_the_rates) {
    double off = 0;
    int all = plan_rounds(2000);
    for (int round = 0; round < all; round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 6), (uint64_t)round);
        gs_pair_rates rates = {plan_random(&random, 0.55, 0.95), plan_random(&random, 0.5, 0.9), 1, 1};
        gs_fit_point points[5];
        gs_pair_few found;
        measure(&random, &rates, 0, points, 5);
        assert_true(gs_pair_few_rates(points, 5, &found));
        plan_expect_near(found.rates.first, rates.first, 1e-9);
        plan_expect_near(found.rates.second, rates.second, 1e-9);
        plan_expect_near(found.residual, 0, 1e-9);
        plan_expect_near(found.deviation, 0, 1e-9);
        size_t count = (size_t)gs_random_from(&random, 3, 5);
        measure(&random, &rates, 0.02, points, count);
        assert_true(gs_pair_few_rates(points, count, &found));
        for (int i = 1; i <= 20; i++)
            off += fabs(played(&found.rates, 0.1 * i) / played(&rates, 0.1 * i) - 1) / 20;
    }
    print_message("with 3 to 5 points, forecasts are off by %.2f%%\n", 100 * off / all);
    assert_true(all < 1000 || off / all < 0.025);
    /* Points of one stage only: the other one is not better than what was seen. */
    gs_pair_few found;
    static const gs_fit_point left[] = {{0.2, 1.06}, {0.4, 1.12}, {0.5, 1.15}}, right[] = {{2, 2.3}, {3, 3.3}};
    assert_true(gs_pair_few_rates(left, 3, &found));
    plan_expect_near(found.rates.first, 1 / 1.15, 1e-9);
    plan_expect_near(found.rates.second, 0.5 / 1.15, 1e-9);
    assert_true(gs_pair_few_rates(right, 2, &found));
    plan_expect_near(found.rates.first, 1 / 2.3, 1e-9);
    plan_expect_near(found.rates.second, 2 / 2.3, 1e-9);
    /* Slower than serially. */
    static const gs_fit_point slow[] = {{0.5, 1.7}, {1, 2.4}};
    assert_true(gs_pair_few_rates(slow, 2, &found));
    assert_true(found.rates.first + found.rates.second <= 1);
    assert_false(gs_pair_few_rates(slow, 0, &found));
}

TEST(pairs_where_no_model_applies) {
    gs_pair_rates rates = {0.8, 0.5, 1, 0.9};
    gs_random random = gs_random_at(1, 1);
    gs_fit_point points[300];
    gs_pair_model model;
    measure(&random, &rates, 0, points, 8);
    assert_true(gs_pair_model_fit(points, 8, &model));
    assert_int_equal(gs_pair_model_at(&model, 0.5).doubt, GS_DOUBT_NONE);
    assert_int_equal(gs_pair_model_at(&model, 0.01).doubt, GS_DOUBT_OUTSIDE);
    assert_int_equal(gs_pair_model_at(&model, 9).doubt, GS_DOUBT_OUTSIDE);
    assert_true(gs_pair_model_fit(points, 2, &model));
    assert_int_equal(gs_pair_model_at(&model, points[0].at).doubt, GS_DOUBT_FEW);
    assert_false(gs_pair_model_fit(points, 1, &model));
    assert_false(gs_pair_model_fit(points, 300, &model));
    for (int i = 0; i < 8; i++)
        points[i].value *= i % 2 ? 2 : 1;
    assert_true(gs_pair_model_fit(points, 8, &model));
    assert_int_equal(gs_pair_model_at(&model, 0.5).doubt, GS_DOUBT_SCATTERED);
    /* Repetitions of one ratio give no information about others. */
    for (int i = 0; i < 8; i++)
        points[i] = (gs_fit_point){1, 1.5};
    assert_false(gs_pair_model_fit(points, 8, &model));
    rates = gs_pair_measured_rates(100, 50, 120);
    plan_expect_near(rates.first, 100.0 / 120, 1e-12);
    plan_expect_near(rates.second, 50.0 / 120, 1e-12);
}

/* A launch of few waves: a part of a wave takes as long as a whole one. */
TEST(whole_waves_are_forecast) {
    static const double sizes[] = {128, 256, 358, 460, 512};
    gs_fit_point waves[5], line[5];
    gs_line_model model;
    for (size_t i = 0; i < 5; i++) {
        double noise = i % 2 ? 1.002 : 0.999;
        waves[i] = (gs_fit_point){sizes[i], (4 + 48 * ceil(sizes[i] / 132)) * noise};
        line[i] = (gs_fit_point){sizes[i], (4 + 0.37 * sizes[i]) * noise};
    }
    assert_true(gs_wave_fit(waves, 5, 132, &model));
    plan_expect_near(model.wave, 132, 1e-9);
    plan_expect_near(gs_wave_blocks(&model, 133), 264, 1e-9);
    plan_expect_near(gs_line_at(&model, gs_wave_blocks(&model, 205)).value, 100, 0.5);
    assert_int_equal(gs_line_at(&model, gs_wave_blocks(&model, 512)).doubt, GS_DOUBT_NONE);
    assert_int_equal(gs_line_at(&model, gs_wave_blocks(&model, 529)).doubt, GS_DOUBT_OUTSIDE);
    assert_true(gs_wave_fit(line, 5, 132, &model));
    plan_expect_near(model.wave, 0, 1e-9);
    plan_expect_near(gs_wave_blocks(&model, 133), 133, 1e-9);
    assert_true(gs_wave_fit(waves, 5, 0, &model)); /* it is not known how many run at a time */
    plan_expect_near(model.wave, 0, 1e-9);
    assert_true(gs_wave_fit(waves, 5, 1000, &model)); /* less than a wave: nothing to tell waves from a line */
    plan_expect_near(model.wave, 0, 1e-9);
}

TEST_MAIN(NULL, NULL)
