/*
 * regression.c: least squares, and Student's distribution.
 *
 * LAPACK factors the matrix of the rows into Q R. R gives the coefficients, and its inverse gives their errors, because
 * X^T X = R^T R. X^T X itself is never computed: that would square the condition of the problem, and data sets such as
 * Longley's would lose most of their digits. Columns are scaled to the same length first.
 */
#include "duration.h"

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows that determine the coefficients no better than this are refused. */
#define LEAST_CONDITION 1e-13

/* Copies the rows, column by column, each divided by its length. False: a column is zero or not finite. */
static bool scale_columns(const double *rows, int terms, size_t points, double *matrix, double *lengths) {
    for (int term = 0; term < terms; term++) {
        double square = 0;
        for (size_t i = 0; i < points; i++)
            square += rows[i * (size_t)terms + (size_t)term] * rows[i * (size_t)terms + (size_t)term];
        lengths[term] = sqrt(square);
        if (!(lengths[term] > 0) || !isfinite(lengths[term]))
            return false;
        for (size_t i = 0; i < points; i++)
            matrix[(size_t)term * points + i] = rows[i * (size_t)terms + (size_t)term] / lengths[term];
    }
    return true;
}

/* Solves, and leaves the inverse of R in the upper triangle of the matrix. */
static bool solve(double *matrix, int terms, double *right, size_t points) {
    lapack_int rows = (lapack_int)points;
    double condition = 0;
    return LAPACKE_dgels(LAPACK_COL_MAJOR, 'N', rows, terms, 1, matrix, rows, right, rows) == 0 &&
           LAPACKE_dtrcon(LAPACK_COL_MAJOR, '1', 'U', 'N', terms, matrix, rows, &condition) == 0 &&
           condition > LEAST_CONDITION && LAPACKE_dtrtri(LAPACK_COL_MAJOR, 'U', 'N', terms, matrix, rows) == 0;
}

static void take_solution(gs_regression *fit, const double *matrix, const double *right, const double *lengths) {
    for (int a = 0; a < fit->terms; a++) {
        fit->coefficients[a] = right[a] / lengths[a];
        for (int b = 0; b < fit->terms; b++) {
            double sum = 0;
            for (int k = a > b ? a : b; k < fit->terms; k++)
                sum += matrix[(size_t)k * fit->points + (size_t)a] * matrix[(size_t)k * fit->points + (size_t)b];
            fit->inverse[a][b] = sum / lengths[a] / lengths[b];
        }
    }
}

static void take_residuals(gs_regression *fit, const double *rows, const double *values) {
    double mean = 0, total = 0;
    for (size_t i = 0; i < fit->points; i++)
        mean += values[i] / (double)fit->points;
    for (size_t i = 0; i < fit->points; i++) {
        double off = values[i] - gs_regression_at(fit, rows + i * (size_t)fit->terms, NULL);
        fit->squares += off * off;
        total += (values[i] - mean) * (values[i] - mean);
    }
    size_t freedom = fit->points - (size_t)fit->terms;
    fit->deviation = freedom > 0 ? sqrt(fit->squares / (double)freedom) : 0;
    fit->r_squared = total > 0 ? 1 - fit->squares / total : 1;
}

bool gs_regress(const double *rows, int terms, const double *values, size_t points, gs_regression *fit) {
    double lengths[GS_REGRESSION_TERMS];
    if (terms < 1 || terms > GS_REGRESSION_TERMS || points < (size_t)terms)
        return false;
    memset(fit, 0, sizeof *fit);
    fit->terms = terms;
    fit->points = points;
    double *matrix = malloc(points * (size_t)terms * sizeof *matrix), *right = malloc(points * sizeof *right);
    bool is_done = matrix && right && scale_columns(rows, terms, points, matrix, lengths);
    if (is_done) {
        memcpy(right, values, points * sizeof *right);
        is_done = solve(matrix, terms, right, points);
    }
    if (is_done) {
        take_solution(fit, matrix, right, lengths);
        take_residuals(fit, rows, values);
    }
    free(matrix);
    free(right);
    return is_done;
}

double gs_regression_error(const gs_regression *fit, int term) {
    return fit->deviation * sqrt(fit->inverse[term][term]);
}

double gs_regression_at(const gs_regression *fit, const double *row, double *error) {
    double value = 0, square = 0;
    for (int a = 0; a < fit->terms; a++)
        value += fit->coefficients[a] * row[a];
    for (int a = 0; error && a < fit->terms; a++)
        for (int b = 0; b < fit->terms; b++)
            square += row[a] * fit->inverse[a][b] * row[b];
    if (error)
        *error = fit->deviation * sqrt(fmax(square, 0));
    return value;
}

/* ---- Student's distribution ---- */

/* The continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x) {
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m < 500; m++) {
        double before = value;
        for (int odd = 0; odd < 2; odd++) {
            double term = odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                              : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            value *= c * d;
        }
        if (fabs(value - before) < 1e-15 * fabs(value))
            break;
    }
    return value;
}

/* The part of the distribution beyond -t and t. */
static double student_tails(double t, double freedom) {
    double x = freedom / (freedom + t * t), a = freedom / 2, b = 0.5;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double gs_student(double confidence, double freedom) {
    double low = 0, high = 1;
    if (!(confidence > 0) || !(freedom > 0))
        return 0;
    while (high < 1e12 && student_tails(high, freedom) > 1 - confidence)
        high *= 2;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        *(student_tails(middle, freedom) > 1 - confidence ? &low : &high) = middle;
    }
    return (low + high) / 2;
}
