/*
 * planning.c: makes a plan: gets measurements from a search, runs them, and keeps the results in a plan file.
 */
#include "measure.h"

#include <math.h>
#include <stdlib.h>

/* Measurements in the plan file are not repeated. */
static gs_code measure_next(const gs_planning *planning, const gs_measurement *next, gs_measure_result *result,
                            bool *is_new, gs_error *error) {
    *is_new = !planning->file || !gs_plan_file_get(planning->file, next, result);
    if (!*is_new)
        return GS_OK;
    gs_code code = planning->player->ops->measure(planning->player, next, result, error);
    gs_make_printable(result->reason);
    return code == GS_OK && planning->file ? gs_plan_file_put(planning->file, next, result, error) : code;
}

static gs_code answer_measurement(const gs_planning *planning, gs_pair_search *search, const gs_measurement *next,
                                  bool *is_new, gs_error *error) {
    gs_measure_result result;
    gs_code code = measure_next(planning, next, &result, is_new, error);
    return code == GS_OK ? gs_pair_search_add(search, next, &result, error) : code;
}

gs_code gs_planning_run(const gs_planning *planning, gs_pair_search *search, gs_error *error) {
    gs_measurement next;
    gs_progress progress;
    int64_t measured = 0;
    gs_code code = GS_OK;
    gs_progress_start(&progress, "planning");
    while (code == GS_OK && gs_pair_search_next(search, &next, error)) {
        const gs_pair_search_kernel *first = gs_pair_search_given(search, (size_t)next.sides[0].kernel);
        bool is_pair = next.measure >= GS_MEASURE_SERIAL, is_new;
        const gs_pair_search_kernel *second = gs_pair_search_given(search, is_pair ? (size_t)next.sides[1].kernel : 0);
        gs_progress_say(&progress, "%.60s%s%.60s, %lld measured", first->name, is_pair ? " + " : "",
                        is_pair ? second->name : "", (long long)measured);
        code = answer_measurement(planning, search, &next, &is_new, error);
        measured += is_new;
        if (planning->most && measured >= planning->most)
            break;
    }
    code = code == GS_OK ? error->code : code;
    gs_progress_end(&progress);
    return code == GS_OK && planning->file ? gs_plan_file_results(planning->file, search, error) : code;
}

/* ---- against all ways ---- */

static double middle_of_three(const double *three) {
    double least = fmin(three[0], fmin(three[1], three[2])), most = fmax(three[0], fmax(three[1], three[2]));
    return three[0] + three[1] + three[2] - least - most;
}

/* The least of several measurements is biased. So the best and the chosen way are measured again, alternately.
 */
static gs_code measure_again(gs_player *player, const gs_measurement *chosen, gs_planning_compared *compared,
                             gs_error *error) {
    enum { AGAIN = 3 };
    double best[AGAIN], mine[AGAIN];
    gs_measure_result result;
    gs_code code = GS_OK;
    if (gs_measurement_equal(chosen, &compared->best)) {
        compared->chosen_us = compared->best_us;
        return GS_OK;
    }
    for (int i = 0; i < AGAIN && code == GS_OK; i++) {
        code = player->ops->measure(player, &compared->best, &result, error);
        best[i] = result.us;
        if (code == GS_OK && !result.is_failed)
            code = player->ops->measure(player, chosen, &result, error);
        mine[i] = result.us;
        if (code == GS_OK && result.is_failed)
            return GS_OK; /* keep the first measurements */
    }
    if (code != GS_OK)
        return code;
    compared->best_us = middle_of_three(best);
    compared->chosen_us = middle_of_three(mine);
    return GS_OK;
}

/* In sequence: each kernel in its fastest form. */
static gs_code measure_turns(gs_player *player, const gs_pair_search *search, const gs_found_pair *pair, double *us,
                             gs_error *error) {
    const int32_t kernels[2] = {pair->first, pair->second};
    gs_code code = GS_OK;
    *us = 0;
    for (int i = 0; i < 2 && code == GS_OK; i++) {
        const gs_found_kernel *found = gs_pair_search_kernel_at(search, (size_t)kernels[i]);
        const gs_found_form *form = &found->forms[found->form];
        bool is_written = found->written_us <= form->best_us;
        gs_measure_result result;
        gs_measurement alone = {.measure = is_written ? GS_MEASURE_WRITTEN : GS_MEASURE_ALONE,
                                .sides = {{.kernel = kernels[i],
                                           .form = is_written ? 0 : found->form,
                                           .workers = is_written ? 0 : form->best,
                                           .repeats = 1,
                                           .percent = 100}}};
        code = player->ops->measure(player, &alone, &result, error);
        *us += result.us * pair->repeats[i];
    }
    return code;
}

gs_code gs_planning_compare(const gs_planning *planning, gs_pair_search *search, size_t pair,
                            gs_planning_compared *compared, gs_error *error) {
    gs_measurements list = {0};
    const gs_found_pair *found = gs_pair_search_pair_at(search, pair);
    gs_measure_result result;
    bool is_new;
    gs_code code = gs_pair_search_all(search, pair, planning->is_coarse, &list, error);
    *compared = (gs_planning_compared){.ways = list.count};
    for (size_t i = 0; i < list.count && code == GS_OK; i++) {
        code = measure_next(planning, &list.data[i], &result, &is_new, error);
        if (code != GS_OK || result.is_failed || (compared->best_us > 0 && result.us >= compared->best_us))
            continue;
        compared->best_us = result.us;
        compared->best = list.data[i];
    }
    compared->chosen_us = found->together_us;
    if (code == GS_OK && compared->ways) { /* the first one is in sequence */
        const gs_measurement *chosen = found->option == GS_PAIR_SERIAL ? &list.data[0] : &found->chosen;
        code = measure_again(planning->player, chosen, compared, error);
        if (code == GS_OK && found->option == GS_PAIR_SERIAL) {
            double us;
            code = measure_turns(planning->player, search, found, &us, error);
            compared->chosen_us = fmin(compared->chosen_us, us);
        }
    }
    free(list.data);
    return code;
}
