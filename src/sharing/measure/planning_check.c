/*
 * planning_check.c: the errors of a plan's duration models at sizes that were not used to fit them.
 */
#include "measure.h"

#include <math.h>

static gs_code add_error(const gs_planning *planning, const gs_measurement *measurement, double scale, double expected,
                         gs_forecast_errors *errors, gs_error *error) {
    gs_measure_result result;
    gs_code code = planning->player->ops->measure(planning->player, measurement, &result, error);
    if (code != GS_OK || result.is_failed)
        return code;
    double off = fabs(expected / (result.us * scale) - 1);
    errors->sum += off;
    errors->worst = fmax(errors->worst, off);
    errors->count++;
    return GS_OK;
}

/* ---- alone ---- */

gs_code gs_planning_check_kernel(const gs_planning *planning, const gs_pair_search *search, size_t number,
                                 gs_forecast_errors *errors, gs_error *error) {
    static const int32_t fresh[] = {40, 60, 85};
    const gs_found_kernel *found = gs_pair_search_kernel_at(search, number);
    double blocks = (double)gs_pair_search_given(search, number)->blocks;
    gs_line_model model;
    gs_code code = GS_OK;
    *errors = (gs_forecast_errors){.count = 0};
    if (!gs_pair_search_model(search, number, &model))
        return GS_OK;
    errors->is_refused = model.residual > GS_MOST_RESIDUAL;
    errors->wave = model.wave;
    for (size_t i = 0; i < GS_COUNT(fresh) && code == GS_OK && model.residual <= GS_MOST_RESIDUAL; i++) {
        gs_measurement measurement = {.measure = GS_MEASURE_ALONE,
                                      .sides = {{.kernel = (int32_t)number,
                                                 .form = found->form,
                                                 .workers = found->forms[found->form].best,
                                                 .repeats = 1,
                                                 .percent = fresh[i]}}};
        double counted = gs_wave_blocks(&model, blocks * fresh[i] / 100);
        code = add_error(planning, &measurement, 1, gs_line_at(&model, counted).value, errors, error);
    }
    return code;
}

/* ---- pairs ---- */

gs_code gs_planning_check_pair(const gs_planning *planning, const gs_pair_search *search, size_t number,
                               gs_forecast_errors *errors, gs_error *error) {
    static const int32_t fresh[][2] = {{2, 1}, {4, 3}, {3, 4}, {1, 2}};
    const gs_found_pair *pair = gs_pair_search_pair_at(search, number);
    double first_us = gs_pair_search_alone_us(search, (size_t)pair->first) * pair->repeats[0];
    double second_us = gs_pair_search_alone_us(search, (size_t)pair->second) * pair->repeats[1];
    gs_fit_point points[GS_SEARCH_RATIOS];
    gs_pair_model model;
    gs_code code = GS_OK;
    *errors = (gs_forecast_errors){.count = 0};
    for (int32_t i = 0; i < pair->point_count; i++)
        points[i] = (gs_fit_point){pair->points[i].ratio, pair->points[i].us / first_us};
    if (pair->point_count < GS_SEARCH_RATIOS || !gs_pair_model_fit(points, (size_t)pair->point_count, &model))
        return GS_OK;
    errors->is_refused = model.residual > GS_MOST_RESIDUAL;
    for (size_t i = 0; i < GS_COUNT(fresh) && code == GS_OK && model.residual <= GS_MOST_RESIDUAL; i++) {
        gs_measurement measurement = pair->chosen;
        for (int side = 0; side < 2; side++)
            measurement.sides[side].repeats *= fresh[i][side];
        double ratio = second_us * fresh[i][1] / (first_us * fresh[i][0]);
        code = add_error(planning, &measurement, 1 / (first_us * fresh[i][0]), gs_pair_model_at(&model, ratio).value,
                         errors, error);
    }
    return code;
}
