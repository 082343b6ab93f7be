/*
 * regression.c: least squares, and Student's distribution.
 *
 * Householder reflections turn the matrix X of the rows into an upper triangle R, and the values with it: X = Q R. R
 * gives the coefficients, and its inverse gives their errors, because X^T X = R^T R. X^T X itself is never computed:
 * that would square the condition of the problem, and data sets such as Longley's would lose most of their digits.
 * Columns are scaled to the same length first. A matrix is stored column by column.
 */
#include "duration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows that determine the coefficients no better than this are refused. */
#define LEAST_CONDITION 1e-13

typedef double triangle[GS_REGRESSION_TERMS][GS_REGRESSION_TERMS];

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

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Mirrors `column` at the plane whose normal is `normal`, with normal * normal = `square`. */
static void reflect_column(const double *normal, double square, double *column, size_t count) {
    double factor = 2 * dot(normal, column, count) / square;
    for (size_t i = 0; i < count; i++)
        column[i] -= factor * normal[i];
}

/* Reflects column after column onto its axis, and all columns right of it and the values with it. The sign of the
   diagonal is chosen so that the subtraction loses no digits. */
static void factor_columns(double *matrix, int terms, double *values, size_t points, triangle r) {
    for (int k = 0; k < terms; k++) {
        size_t below = points - (size_t)k;
        double *column = matrix + (size_t)k * points + k;
        r[k][k] = -copysign(sqrt(dot(column, column, below)), column[0]);
        column[0] -= r[k][k];
        double square = dot(column, column, below);
        for (int other = k + 1; other < terms && square > 0; other++)
            reflect_column(column, square, matrix + (size_t)other * points + k, below);
        if (square > 0)
            reflect_column(column, square, values + k, below);
        for (int other = k + 1; other < terms; other++)
            r[k][other] = matrix[(size_t)other * points + k];
    }
}

/* The inverse of an upper triangle. False: it has none. */
static bool invert_triangle(triangle r, int terms, triangle inverse) {
    for (int column = 0; column < terms; column++)
        for (int row = column; row >= 0; row--) {
            double sum = row == column ? 1 : 0;
            for (int k = row + 1; k <= column; k++)
                sum -= r[row][k] * inverse[k][column];
            if (r[row][row] == 0)
                return false;
            inverse[row][column] = sum / r[row][row];
        }
    return true;
}

/* The largest sum of the magnitudes of a column. */
static double column_norm(triangle matrix, int terms) {
    double norm = 0;
    for (int column = 0; column < terms; column++) {
        double sum = 0;
        for (int row = 0; row <= column; row++)
            sum += fabs(matrix[row][column]);
        norm = sum > norm || isnan(sum) ? sum : norm;
    }
    return norm;
}

/* Solves R x = Q^T y by substitution from below: more precise than a product with the inverse. */
static bool take_solution(gs_regression *fit, triangle r, triangle inverse, const double *right,
                          const double *lengths) {
    const int terms = fit->terms;
    double solution[GS_REGRESSION_TERMS];
    for (int a = terms - 1; a >= 0; a--) {
        solution[a] = right[a];
        for (int k = a + 1; k < terms; k++)
            solution[a] -= r[a][k] * solution[k];
        solution[a] /= r[a][a];
        fit->coefficients[a] = solution[a] / lengths[a];
        if (!isfinite(fit->coefficients[a]))
            return false;
    }
    for (int a = 0; a < terms; a++)
        for (int b = 0; b < terms; b++) {
            double sum = 0;
            for (int k = a > b ? a : b; k < terms; k++)
                sum += inverse[a][k] * inverse[b][k];
            fit->inverse[a][b] = sum / lengths[a] / lengths[b];
        }
    return true;
}

/* `matrix` has the scaled columns, `right` the values; both are overwritten. */
static bool solve_scaled(gs_regression *fit, double *matrix, double *right, const double *lengths) {
    triangle r, inverse;
    factor_columns(matrix, fit->terms, right, fit->points, r);
    return invert_triangle(r, fit->terms, inverse) &&
           column_norm(r, fit->terms) * column_norm(inverse, fit->terms) < 1 / LEAST_CONDITION &&
           take_solution(fit, r, inverse, right, lengths);
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
        is_done = solve_scaled(fit, matrix, right, lengths);
    }
    if (is_done)
        take_residuals(fit, rows, values);
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
