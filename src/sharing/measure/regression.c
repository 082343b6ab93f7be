/*
 * regression.c: least squares.
 *
 * Householder reflections turn the matrix X of the rows into an upper triangle R, and the values with it: X = Q R. R
 * gives the coefficients. X^T X is never computed: that would square the condition of the problem, and data sets such
 * as Longley's would lose most of their digits. Columns are scaled to the same length first. A matrix is stored column
 * by column.
 */
#include "duration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A column of which no more than this part is independent of those before it determines no coefficient. */
#define LEAST_PART 1e-13

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

/* Solves R x = Q^T y by substitution from below. False: the rows do not determine x. */
static bool solve_triangle(triangle r, int terms, const double *right, double *solution) {
    for (int a = terms - 1; a >= 0; a--) {
        solution[a] = right[a];
        for (int k = a + 1; k < terms; k++)
            solution[a] -= r[a][k] * solution[k];
        if (!(fabs(r[a][a]) > LEAST_PART))
            return false;
        solution[a] /= r[a][a];
    }
    return true;
}

/* `matrix` has the scaled columns, `right` the values; both are overwritten. */
static bool solve_scaled(double *matrix, int terms, double *right, size_t points, const double *lengths,
                         gs_regression *fit) {
    triangle r;
    double solution[GS_REGRESSION_TERMS];
    factor_columns(matrix, terms, right, points, r);
    if (!solve_triangle(r, terms, right, solution))
        return false;
    for (int i = 0; i < terms; i++) {
        fit->coefficients[i] = solution[i] / lengths[i];
        if (!isfinite(fit->coefficients[i]))
            return false;
    }
    return true;
}

static double sum_squares(const double *rows, int terms, const double *values, size_t points,
                          const gs_regression *fit) {
    double squares = 0;
    for (size_t i = 0; i < points; i++) {
        double off = values[i] - dot(fit->coefficients, rows + i * (size_t)terms, (size_t)terms);
        squares += off * off;
    }
    return squares;
}

bool gs_regress(const double *rows, int terms, const double *values, size_t points, gs_regression *fit) {
    double lengths[GS_REGRESSION_TERMS];
    *fit = (gs_regression){.squares = 0};
    if (terms < 1 || terms > GS_REGRESSION_TERMS || points < (size_t)terms)
        return false;
    double *matrix = malloc(points * (size_t)terms * sizeof *matrix), *right = malloc(points * sizeof *right);
    bool is_done = matrix && right && scale_columns(rows, terms, points, matrix, lengths);
    if (is_done) {
        memcpy(right, values, points * sizeof *right);
        is_done = solve_scaled(matrix, terms, right, points, lengths, fit);
    }
    if (is_done)
        fit->squares = sum_squares(rows, terms, values, points, fit);
    free(matrix);
    free(right);
    return is_done;
}
