/*
 * duration.c: the duration of a kernel alone, and of two kernels together.
 *
 * Both models minimize relative residuals: each row and value is divided by the measured duration, so that a launch of
 * 10 us counts as much as one of 10 ms.
 *
 * The pair model is continuous: one straight line up to the knee, another one after it. For a given knee it is a
 * regression with three terms. The best knee is found exactly. Between two neighboring ratios, the sum of squares is
 * least either at the crossing of the two lines that fit the points on each side, or at one of the two ratios. So it is
 * enough to try, for each gap between ratios, the crossing of these lines, and each ratio itself.
 *
 * While both kernels of a pair run, they progress at the rates r1 and r2; the rest of one continues at q1 or q2.
 * If the second ends first, the duration divided by T1 is 1/q1 + ratio * (1 - r1/q1) / r2. If the first ends first, it
 * is ratio/q2 + (1 - r2/q2) / r1. These are the two stages. They meet at the ratio r2/r1, where the value is 1/r1.
 */
#include "duration.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_TERMS = 2,
    FEW_TERMS = 2,
    PAIR_TERMS = 4, /* with the knee */
    SIDE_POINTS = 2 /* different ratios on each side of a knee */
};

const char *gs_doubt_text(gs_doubt doubt) {
    static const char *const texts[] = {"", "too few measurements", "the measurements scatter too much",
                                        "outside the measured range"};
    return texts[doubt];
}

static gs_doubt doubt_of(double at, double least, double most, double residual, bool is_few) {
    const double slack = 1e-9 * fabs(most);
    if (is_few)
        return GS_DOUBT_FEW;
    if (!(residual <= GS_MOST_RESIDUAL))
        return GS_DOUBT_SCATTERED;
    return at >= least - slack && at <= most + slack ? GS_DOUBT_NONE : GS_DOUBT_OUTSIDE;
}

static gs_forecast make_forecast(double value, gs_doubt doubt) {
    return (gs_forecast){.value = fmax(value, DBL_MIN), .doubt = value > 0 ? doubt : GS_DOUBT_OUTSIDE};
}

static bool are_positive(const gs_fit_point *points, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(points[i].at) || !isfinite(points[i].value) || !(points[i].value > 0))
            return false;
    return count > 0;
}

/* ---- alone ---- */

bool gs_line_fit(const gs_fit_point *points, size_t count, gs_line_model *model) {
    gs_regression fit;
    memset(model, 0, sizeof *model);
    if (!are_positive(points, count))
        return false;
    double *rows = malloc(count * (LINE_TERMS + 1) * sizeof *rows);
    if (!rows)
        return false;
    double *ones = rows + count * LINE_TERMS;
    model->least = INFINITY;
    model->most = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        rows[LINE_TERMS * i] = 1 / points[i].value;
        rows[LINE_TERMS * i + 1] = points[i].at / points[i].value;
        ones[i] = 1;
        model->least = fmin(model->least, points[i].at);
        model->most = fmax(model->most, points[i].at);
    }
    bool is_done = gs_regress(rows, LINE_TERMS, ones, count, &fit);
    free(rows);
    model->points = is_done ? count : 0;
    model->base = fit.coefficients[0];
    model->slope = fit.coefficients[1];
    for (size_t i = 0; i < count; i++)
        model->residual +=
            fabs(model->base + model->slope * points[i].at - points[i].value) / points[i].value / (double)count;
    return is_done;
}

double gs_wave_blocks(const gs_line_model *model, double blocks) {
    return model->wave > 0 ? ceil(blocks / model->wave) * model->wave : blocks;
}

/* A kernel with few waves of equal blocks takes as long for a part of a wave as for a whole one. For a kernel with many
   waves, or with different blocks, a line is the simpler model. */
bool gs_wave_fit(const gs_fit_point *points, size_t count, double wave, gs_line_model *model) {
    static const double MUCH_BETTER = 0.5;
    gs_fit_point whole[GS_LINE_POINTS];
    gs_line_model waves = {.wave = wave};
    bool is_done = gs_line_fit(points, count, model);
    if (!is_done || !(wave > 1) || count > GS_LINE_POINTS)
        return is_done;
    for (size_t i = 0; i < count; i++)
        whole[i] = (gs_fit_point){gs_wave_blocks(&waves, points[i].at), points[i].value};
    if (gs_line_fit(whole, count, &waves) && waves.residual < MUCH_BETTER * model->residual) {
        *model = waves;
        model->wave = wave;
    }
    return true;
}

gs_forecast gs_line_at(const gs_line_model *model, double at) {
    double value = model->base + model->slope * at;
    bool is_few = model->points > 0 && model->points <= LINE_TERMS;
    return make_forecast(value, doubt_of(at, model->least, model->most, model->residual, is_few));
}

/* ---- together ---- */

static double beyond_knee(double ratio, double knee) {
    return fmax(ratio - knee, 0);
}

static double pair_value(const gs_pair_model *model, double ratio) {
    return model->base + model->slope * ratio + model->bend * beyond_knee(ratio, model->knee);
}

static int compare_points(const void *a, const void *b) {
    double left = ((const gs_fit_point *)a)->at, right = ((const gs_fit_point *)b)->at;
    return (left > right) - (left < right);
}

/* Fits a line (knee INFINITY) or two stages with a given knee. */
static bool fit_stages(const gs_fit_point *points, size_t count, double knee, gs_regression *fit) {
    double rows[GS_PAIR_MODEL_POINTS * 3], ones[GS_PAIR_MODEL_POINTS];
    int terms = isinf(knee) ? 2 : 3;
    for (size_t i = 0; i < count; i++) {
        double *row = rows + i * (size_t)terms;
        row[0] = 1 / points[i].value;
        row[1] = points[i].at / points[i].value;
        if (terms == 3)
            row[2] = beyond_knee(points[i].at, knee) / points[i].value;
        ones[i] = 1;
    }
    return gs_regress(rows, terms, ones, count, fit);
}

struct stages {
    gs_regression fit;
    double knee;
    bool is_found;
};

static void try_knee(const gs_fit_point *points, size_t count, double knee, struct stages *best) {
    gs_regression fit;
    if (!fit_stages(points, count, knee, &fit) || (best->is_found && fit.squares >= best->fit.squares))
        return;
    *best = (struct stages){.fit = fit, .knee = knee, .is_found = true};
}

/* The ratio at which the lines through the first `left` points and through the others cross. NAN: there is none. */
static double crossing_of_lines(const gs_fit_point *points, size_t count, size_t left) {
    gs_regression first, second;
    if (!fit_stages(points, left, INFINITY, &first) || !fit_stages(points + left, count - left, INFINITY, &second))
        return NAN;
    return (first.coefficients[0] - second.coefficients[0]) / (second.coefficients[1] - first.coefficients[1]);
}

static size_t different_ratios(const gs_fit_point *points, size_t count) {
    size_t different = 1;
    for (size_t i = 1; i < count; i++)
        different += points[i].at != points[i - 1].at;
    return different;
}

/* `points` are in order of their ratios. Knees are between the second point and the last but one. */
static struct stages best_stages(const gs_fit_point *points, size_t count) {
    struct stages best = {.is_found = false};
    size_t left = 0, all = different_ratios(points, count);
    for (size_t i = 0; i + 1 < count; i++) {
        double at = points[i].at, next = points[i + 1].at;
        if (at == next)
            continue;
        left++;
        if (left >= SIDE_POINTS && left < all)
            try_knee(points, count, at, &best);
        bool has_both = left >= SIDE_POINTS && all - left >= SIDE_POINTS;
        double meet = has_both ? crossing_of_lines(points, count, i + 1) : NAN;
        if (meet > at && meet < next)
            try_knee(points, count, meet, &best);
    }
    return best;
}

/* Whether two stages are better than one by more than chance (an F-test with 2 and `freedom` degrees of freedom). */
static bool is_significant(double one_squares, double two_squares, size_t count) {
    if (count <= PAIR_TERMS || !(two_squares < one_squares))
        return false;
    double freedom = (double)(count - PAIR_TERMS);
    return pow(two_squares / one_squares, freedom / 2) < 0.01;
}

static void take_pair_residuals(const gs_fit_point *points, size_t count, gs_pair_model *model) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        double off = fabs(pair_value(model, points[i].at) - points[i].value) / points[i].value;
        model->residual += off / (double)count;
        squares += off * off;
    }
    size_t terms = model->bend != 0 ? PAIR_TERMS : LINE_TERMS;
    model->deviation = count > terms ? sqrt(squares / (double)(count - terms)) : 0;
}

bool gs_pair_model_fit(const gs_fit_point *points, size_t count, gs_pair_model *model) {
    gs_fit_point sorted[GS_PAIR_MODEL_POINTS];
    gs_regression line;
    memset(model, 0, sizeof *model);
    if (count > GS_PAIR_MODEL_POINTS || !are_positive(points, count))
        return false;
    memcpy(sorted, points, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_points);
    if (!fit_stages(sorted, count, INFINITY, &line))
        return false;
    struct stages stages = best_stages(sorted, count);
    bool has_two = stages.is_found && is_significant(line.squares, stages.fit.squares, count);
    const gs_regression *fit = has_two ? &stages.fit : &line;
    model->base = fit->coefficients[0];
    model->slope = fit->coefficients[1];
    model->knee = has_two ? stages.knee : 0;
    model->bend = has_two ? fit->coefficients[2] : 0;
    model->least = sorted[0].at;
    model->most = sorted[count - 1].at;
    model->points = count;
    take_pair_residuals(sorted, count, model);
    return true;
}

gs_forecast gs_pair_model_at(const gs_pair_model *model, double ratio) {
    size_t terms = model->bend != 0 ? PAIR_TERMS : LINE_TERMS;
    return make_forecast(pair_value(model, ratio),
                         doubt_of(ratio, model->least, model->most, model->residual, model->points <= terms));
}

/* ---- rates ---- */

static double clamp(double value, double low, double high) {
    return isfinite(value) ? fmin(fmax(value, low), high) : low;
}

/* No kernel runs faster beside another one than alone, and none stops. */
static gs_pair_rates sane_rates(gs_pair_rates rates) {
    const double slowest = 0.01;
    rates.first_alone = clamp(rates.first_alone, slowest, 1);
    rates.second_alone = clamp(rates.second_alone, slowest, 1);
    rates.first = clamp(rates.first, slowest, rates.first_alone);
    rates.second = clamp(rates.second, slowest, rates.second_alone);
    return rates;
}

gs_pair_rates gs_pair_model_rates(const gs_pair_model *model) {
    if (model->bend != 0) {
        double value = pair_value(model, model->knee);
        return sane_rates((gs_pair_rates){.first = 1 / value,
                                          .second = model->knee / value,
                                          .first_alone = 1 / model->base,
                                          .second_alone = 1 / (model->slope + model->bend)});
    }
    /* One stage. It is the second one if the first kernel alone would take no time; then the knee is below all ratios.
       Otherwise the knee is above them. */
    bool is_second = model->base < 0.5;
    double knee = is_second ? model->least : model->most, value = pair_value(model, knee);
    return sane_rates((gs_pair_rates){.first = 1 / value,
                                      .second = knee / value,
                                      .first_alone = is_second ? 1 : 1 / model->base,
                                      .second_alone = is_second ? 1 / model->slope : 1});
}

/* The larger of 1 + slope * ratio, where the first kernel ends last, and base + ratio, where the second does. */
struct few {
    double slope, base;
};

static double few_value(const struct few *few, double ratio) {
    return fmax(1 + few->slope * ratio, few->base + ratio);
}

static double few_off(const struct few *few, const gs_fit_point *points, size_t count, bool is_squared) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double off = fabs(few_value(few, points[i].at) / points[i].value - 1);
        sum += is_squared ? off * off : off;
    }
    return sum;
}

/* The best slope for the first `left` points, and the best base for the others. */
static struct few fit_few(const gs_fit_point *points, size_t count, size_t left) {
    double xx = 0, xy = 0, ww = 0, wy = 0;
    for (size_t i = 0; i < count; i++) {
        double weight = 1 / (points[i].value * points[i].value), at = points[i].at;
        xx += i < left ? weight * at * at : 0;
        xy += i < left ? weight * at * (points[i].value - 1) : 0;
        ww += i < left ? 0 : weight;
        wy += i < left ? 0 : weight * (points[i].value - at);
    }
    const double most = 1.5; /* slightly slower than in sequence: such pairs are not used */
    return (struct few){.slope = clamp(xx > 0 ? xy / xx : 0, 0, most), .base = clamp(ww > 0 ? wy / ww : 0, 0, most)};
}

/* If all points are on one side, the other number puts the knee at the last of them. */
static struct few close_few(struct few few, const gs_fit_point *points, size_t count, size_t left) {
    if (left == count)
        few.base = 1 + few.slope * points[count - 1].at - points[count - 1].at;
    if (left == 0)
        few.slope = (few.base + points[0].at - 1) / points[0].at;
    return few;
}

bool gs_pair_few_rates(const gs_fit_point *points, size_t count, gs_pair_few *found) {
    gs_fit_point sorted[GS_PAIR_MODEL_POINTS];
    struct few best = {0};
    double least = INFINITY;
    if (count > GS_PAIR_MODEL_POINTS || !are_positive(points, count))
        return false;
    memcpy(sorted, points, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_points);
    for (size_t left = 0; left <= count && sorted[0].at > 0; left++) {
        struct few few = close_few(fit_few(sorted, count, left), sorted, count, left);
        double squares = few_off(&few, sorted, count, true);
        if (squares >= least)
            continue;
        least = squares;
        best = few;
    }
    double knee = (1 - best.base) / (1 - best.slope), value = 1 + best.slope * knee;
    bool has_knee = isfinite(least) && best.slope < 1 && best.base < 1;
    found->rates = sane_rates((gs_pair_rates){has_knee ? 1 / value : 0.5, has_knee ? knee / value : 0.5, 1, 1});
    found->residual = few_off(&best, sorted, count, false) / (double)count;
    found->deviation = count > FEW_TERMS ? sqrt(least / (double)(count - FEW_TERMS)) : 0;
    return isfinite(least);
}

gs_pair_rates gs_pair_measured_rates(double first_us, double second_us, double together_us) {
    return sane_rates((gs_pair_rates){
        .first = first_us / together_us, .second = second_us / together_us, .first_alone = 1, .second_alone = 1});
}
