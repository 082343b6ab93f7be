/*
 * search_guess.c: estimates how much two kernels slow each other in an unmeasured shape, from measured ones.
 *
 * Let a and b be the parts of the busiest unit of an SM that the kernels take at their full speeds. At speeds s and t
 * they need s a + t b of it, and if this exceeds 1, both are slower by this factor. One measurement gives one equation,
 * and several give a and b by least squares. There may also be a small factor for sharing the SM at all. The estimate
 * is the least that agrees with the measurements, because a shape that promises too little is never measured.
 */
#include "search_state.h"

#include <math.h>

static const double DRAWN = 0.02;        /* weight of a = b */
static const double SMALL_FACTOR = 1.12; /* the highest cost of sharing an SM */
static const double SAME_FACTOR = 1.02;

/* Fits points whose factors are divided by `by`. */
static double fitted_rate(const struct gs_guess_point *points, int count, double by, double s, double t) {
    double both = points[0].factor / by / (points[0].s + points[0].t);
    double ss = DRAWN, tt = DRAWN, st = 0, sf = DRAWN * both, tf = DRAWN * both;
    for (int i = 0; i < count; i++) {
        ss += points[i].s * points[i].s;
        tt += points[i].t * points[i].t;
        st += points[i].s * points[i].t;
        sf += points[i].s * points[i].factor / by;
        tf += points[i].t * points[i].factor / by;
    }
    double determinant = ss * tt - st * st;
    return fmax(0, (sf * tt - tf * st) / determinant) * s + fmax(0, (tf * ss - sf * st) / determinant) * t;
}

/* With one point, the least that agrees with it; neither kernel uses more than the whole unit. */
static double needed_rate(const struct gs_guess_point *points, int count, double by, double s, double t) {
    double factor = points[0].factor / by;
    double low = fmax(0, (factor - points[0].t) / points[0].s), high = fmin(1, factor / points[0].s);
    if (count > 1 || low > high)
        return fitted_rate(points, count, by, s, t);
    return fmin(low * s + (factor - low * points[0].s) / points[0].t * t,
                high * s + (factor - high * points[0].s) / points[0].t * t);
}

/* The same if sharing an SM itself costs the least factor seen. */
static double needed_beyond(const gs_guess *guess, double least, double s, double t) {
    struct gs_guess_point beyond[GS_GUESS_POINTS];
    int count = 0;
    for (int i = 0; i < guess->count; i++)
        if (guess->points[i].factor > least * SAME_FACTOR)
            beyond[count++] = guess->points[i];
    return least * (count ? fmax(1, needed_rate(beyond, count, least, s, t)) : 1);
}

double gs_guess_factor(const gs_guess *guess, double s, double t) {
    double least = INFINITY;
    if (!guess->count)
        return 1;
    for (int i = 0; i < guess->count; i++)
        least = fmin(least, guess->points[i].factor);
    double factor = fmax(1, needed_rate(guess->points, guess->count, 1, s, t));
    return least <= SMALL_FACTOR ? fmin(factor, needed_beyond(guess, fmax(1, least), s, t)) : factor;
}

void gs_guess_add(gs_guess *guess, double s, double t, double factor) {
    if (guess->count < GS_GUESS_POINTS)
        guess->points[guess->count++] = (struct gs_guess_point){s, t, fmax(factor, 0)};
}
