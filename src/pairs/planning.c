/*
 * planning.c: makes a plan: asks a search what to measure, plays it, and keeps the answers in a plan file.
 */
#include "pairs.h"

static gs_code answer(const gs_planning *planning, gs_search *search, const gs_measurement *next, bool *is_new,
                      gs_error *error) {
    gs_measure_result result;
    *is_new = !planning->file || !gs_plan_file_get(planning->file, next, &result);
    gs_code code = GS_OK;
    if (*is_new) {
        code = planning->player->ops->measure(planning->player, next, &result, error);
        gs_make_printable(result.reason);
        if (code == GS_OK && planning->file)
            code = gs_plan_file_put(planning->file, next, &result, error);
    }
    return code == GS_OK ? gs_search_add(search, next, &result, error) : code;
}

gs_code gs_planning_run(const gs_planning *planning, gs_search *search, gs_error *error) {
    gs_measurement next;
    gs_progress progress;
    int64_t measured = 0;
    gs_code code = GS_OK;
    gs_progress_start(&progress, "planning");
    while (code == GS_OK && gs_search_next(search, &next, error)) {
        const gs_search_kernel *first = gs_search_given(search, (size_t)next.sides[0].kernel);
        bool is_pair = next.measure >= GS_MEASURE_TURNS, is_new;
        const gs_search_kernel *second = gs_search_given(search, is_pair ? (size_t)next.sides[1].kernel : 0);
        gs_progress_say(&progress, "%.60s%s%.60s, %lld measured", first->name, is_pair ? " + " : "",
                        is_pair ? second->name : "", (long long)measured);
        code = answer(planning, search, &next, &is_new, error);
        measured += is_new;
        if (planning->most && measured >= planning->most)
            break;
    }
    code = code == GS_OK ? error->code : code;
    gs_progress_end(&progress);
    return code == GS_OK && planning->file ? gs_plan_file_results(planning->file, search, error) : code;
}
