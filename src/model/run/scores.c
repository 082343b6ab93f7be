/*
 * scores.c: scores by class, in the order in which the classes first occur.
 *
 * A file may have as many classes as runs, so classes are found by a hash.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

static gs_class_score *find_class(gs_scores *scores, const char *name) {
    size_t number = gs_names_find(&scores->by_name, name);
    if (number != SIZE_MAX)
        return &scores->data[number];
    char *owned = strdup(name);
    if (!owned || !GS_RESERVE(scores, 1) || gs_names_add(&scores->by_name, owned, scores->count) == SIZE_MAX) {
        free(owned);
        return NULL;
    }
    scores->data[scores->count] = (gs_class_score){.class_name = owned};
    return &scores->data[scores->count++];
}

gs_code gs_scores_add(gs_scores *scores, const gs_run *recorded, const gs_run *predicted, bool *exact,
                      gs_error *error) {
    gs_class_score *class = find_class(scores, recorded->class_name ? recorded->class_name : "");
    if (!class)
        return gs_fail_memory(error);
    int64_t exact_before = class->score.runs_exact;
    gs_code code = gs_score_add(&class->score, recorded, predicted, error);
    if (exact)
        *exact = class->score.runs_exact > exact_before;
    return code;
}

gs_score gs_scores_total(const gs_scores *scores) {
    gs_score total = {0};
    for (size_t i = 0; i < scores->count; i++) {
        const gs_score *score = &scores->data[i].score;
        total.runs += score->runs;
        total.runs_exact += score->runs_exact;
        total.launches += score->launches;
        total.launches_exact += score->launches_exact;
        total.blocks += score->blocks;
        total.blocks_exact += score->blocks_exact;
    }
    return total;
}

void gs_scores_free(gs_scores *scores) {
    for (size_t i = 0; i < scores->count; i++)
        free(scores->data[i].class_name);
    free(scores->data);
    gs_names_free(&scores->by_name);
    *scores = (gs_scores){0};
}

gs_code gs_run_is_recorded(const gs_run *run, gs_error *error) {
    bool all_started = true;
    for (size_t i = 0; i < run->launches.count && all_started; i++) {
        const gs_launch *launch = &run->launches.data[i];
        const gs_seen *seen = run->events.data[launch->event].seen;
        if (!seen->has_placed)
            return gs_run_fail(run, launch->event, error, GS_E_FORMAT,
                               "this launch was not recorded: it has no \"placed\"");
        all_started = gs_seen_started(seen) == launch->blocks || gs_run_is_held(run, i);
    }
    return GS_OK;
}
