/*
 * search_answers.c: the results of measurements, found by their questions.
 */
#include "search_state.h"

const char *gs_measure_name(enum gs_measure measure) {
    static const char *const names[] = {"written", "alone", "turns", "inside", "split"};
    return names[measure];
}

const char *gs_pair_option_name(enum gs_pair_option option) {
    static const char *const names[] = {"turns", "inside", "split"};
    return names[option];
}

static bool sides_are_equal(const gs_measure_side *a, const gs_measure_side *b) {
    return a->kernel == b->kernel && a->form == b->form && a->workers == b->workers && a->registers == b->registers &&
           a->sms == b->sms && a->repeats == b->repeats && a->percent == b->percent;
}

bool gs_measurement_equal(const gs_measurement *a, const gs_measurement *b) {
    return a->measure == b->measure && sides_are_equal(&a->sides[0], &b->sides[0]) &&
           sides_are_equal(&a->sides[1], &b->sides[1]);
}

const gs_measure_result *gs_answers_find(const gs_answers *answers, const gs_measurement *measurement) {
    for (size_t i = answers->count; i-- > 0;) /* the latest ones are looked up most often */
        if (gs_measurement_equal(&answers->data[i].measurement, measurement))
            return &answers->data[i].measured;
    return NULL;
}

const gs_measure_result *gs_walk_ask(gs_walk *walk, const gs_measurement *measurement) {
    const gs_measure_result *measured = gs_answers_find(walk->answers, measurement);
    if (measured)
        walk->asked++;
    else
        walk->next = *measurement;
    return measured;
}
