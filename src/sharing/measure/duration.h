/*
 * duration.h: predicts the durations of kernels: a part of measure.h.
 *
 *   regression   least squares
 *   line model   the duration of a kernel alone, over the number of its blocks
 *   pair model   the duration of two kernels together, over the ratio of their durations alone: two straight stages
 *
 * A forecast says if the model does not apply. The models are those of ISPA, section 6.4.
 * docs/glossary.md has the words.
 */
#ifndef GS_DURATION_H
#define GS_DURATION_H

#include <stdbool.h>
#include <stddef.h>

/* ---- regression ---- */

enum { GS_REGRESSION_TERMS = 8 };

typedef struct gs_regression {
    double coefficients[GS_REGRESSION_TERMS];
    double squares; /* the sum of the squared residuals */
} gs_regression;

/* Fits value = coefficients * row. `rows` has points x terms numbers, row by row. False: out of memory, too few points,
   or the rows do not determine all coefficients. */
bool gs_regress(const double *rows, int terms, const double *values, size_t points, gs_regression *fit);

/* ---- forecasts ---- */

typedef enum gs_doubt {
    GS_DOUBT_NONE,
    GS_DOUBT_FEW,       /* not more points than the model has numbers */
    GS_DOUBT_SCATTERED, /* the points are too far from the model */
    GS_DOUBT_OUTSIDE    /* outside the measured range */
} gs_doubt;

/* "", "too few measurements" and so on. */
const char *gs_doubt_text(gs_doubt doubt);

/* With a doubt the value is a guess. */
typedef struct gs_forecast {
    double value;
    gs_doubt doubt;
} gs_forecast;

typedef struct gs_fit_point {
    double at, value;
} gs_fit_point;

/* A model with a larger residual is not used. */
#define GS_MOST_RESIDUAL 0.10

/* ---- alone: value = base + slope * at, or the same over whole waves ---- */

typedef struct gs_line_model {
    double base, slope;
    double least, most; /* the range of the measurements */
    double residual;    /* the mean of the relative ones */
    double wave;        /* blocks per wave, if a partial wave takes as long as a whole one; 0: a line */
    size_t points;      /* 0: only the numbers above are known */
} gs_line_model;

/* Fits a line so that the relative residuals are small. Values must be positive. False: not possible. */
bool gs_line_fit(const gs_fit_point *points, size_t count, gs_line_model *model);
/* The same for a launch whose blocks run in waves of `wave`: by whole waves if this fits much better. At most
   GS_LINE_POINTS points, over blocks. */
enum { GS_LINE_POINTS = 64 };
bool gs_wave_fit(const gs_fit_point *points, size_t count, double wave, gs_line_model *model);
/* The number of blocks rounded up to whole waves. gs_line_at takes them. */
double gs_wave_blocks(const gs_line_model *model, double blocks);
gs_forecast gs_line_at(const gs_line_model *model, double at);

/* ---- together: value = base + slope * ratio, and from the knee on with another slope ---- */

enum { GS_PAIR_MODEL_POINTS = 256 };

/* `value` of a point is the duration together, divided by that of the first kernel alone. */
typedef struct gs_pair_model {
    double base, slope;
    double knee, bend; /* from the knee on, `bend` is added to the slope. bend 0: one stage */
    double least, most;
    double residual, deviation; /* the mean and the standard deviation of the relative residuals */
    size_t points;
} gs_pair_model;

/* Fits the model with the smallest sum of squared relative residuals, over all knees. It has one stage if two are not
   significantly better (1%). At most GS_PAIR_MODEL_POINTS points. False: not possible. */
bool gs_pair_model_fit(const gs_fit_point *points, size_t count, gs_pair_model *model);
gs_forecast gs_pair_model_at(const gs_pair_model *model, double ratio);

/* How fast two kernels progress, in units of their speed alone: while both run, and after the other has ended. The two
   stages determine these four numbers, and vice versa. */
typedef struct gs_pair_rates {
    double first, second;
    double first_alone, second_alone;
} gs_pair_rates;

gs_pair_rates gs_pair_model_rates(const gs_pair_model *model);

typedef struct gs_pair_few {
    gs_pair_rates rates;
    double residual;
    double deviation; /* of the relative residuals, as in gs_pair_model */
} gs_pair_few;

/* The rates of a pair with few points: after the end of one kernel the other is assumed to be as fast as alone, so that
   there are two unknowns. False: not possible. */
bool gs_pair_few_rates(const gs_fit_point *points, size_t count, gs_pair_few *few);
/* The same for one measurement: both end at about the same time. */
gs_pair_rates gs_pair_measured_rates(double first_us, double second_us, double together_us);

#endif
