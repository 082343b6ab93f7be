/*
 * test_pair_search_recorded.c: the search of a plan on measurements of two H200s: 28 pairs of kernels in all ways to
 * run them (corpus/h200-plan-ways.txt, h200-plan-ways-2.txt). A way that was not measured, because a limit of registers
 * or a split has another number, is answered by the nearest that was.
 */
#include "recorded_ways.h"

#include <math.h>
#include <stdlib.h>

enum { FAR = 1000, MEASUREMENTS_PER_PAIR = 4 };
static const double CLOSE = 1.02;

/* ---- answers ---- */

/* The distance of a measurement from the requested one; FAR: not comparable. */
static int distance(const gs_measurement *a, const gs_measurement *b) {
    int sum = 0, count = a->measure >= GS_MEASURE_SERIAL ? 2 : 1;
    if (a->measure != b->measure)
        return FAR;
    for (int i = 0; i < count; i++) {
        const gs_measure_side *one = &a->sides[i], *other = &b->sides[i];
        if (one->kernel != other->kernel || one->repeats != other->repeats)
            return FAR;
        sum +=
            2 * abs(one->workers - other->workers) + abs(one->sms - other->sms) + (one->registers != other->registers);
    }
    return sum;
}

static const gs_measure_result *answer(const struct recorded *recorded, const gs_measurement *wanted) {
    const gs_measure_result *found = NULL;
    int least = FAR;
    for (size_t i = 0; i < recorded->count; i++) {
        int away = distance(&recorded->rows[i].measurement, wanted);
        if (away < least) {
            least = away;
            found = &recorded->rows[i].result;
        }
    }
    return found;
}

/* The best of all ways to run a pair with the repeats that it has. */
static double best_us(const struct recorded *recorded, const gs_found_pair *pair, double sum_us) {
    double best = sum_us;
    for (size_t i = 0; i < recorded->count; i++) {
        const struct recorded_row *row = &recorded->rows[i];
        const gs_measure_side *sides = row->measurement.sides;
        if (row->measurement.measure >= GS_MEASURE_SERIAL && sides[0].kernel == pair->first &&
            sides[1].kernel == pair->second && sides[0].repeats == pair->repeats[0] &&
            sides[1].repeats == pair->repeats[1] && !row->result.is_failed)
            best = fmin(best, row->result.us);
    }
    return best;
}

/* ---- the test ---- */

static double chosen_us(const struct recorded *recorded, const gs_found_pair *pair, double sum_us) {
    gs_measurement serial = {.measure = GS_MEASURE_SERIAL,
                             .sides = {{.kernel = pair->first, .repeats = pair->repeats[0]},
                                       {.kernel = pair->second, .repeats = pair->repeats[1]}}};
    const gs_measure_result *found = answer(recorded, pair->option == GS_PAIR_SERIAL ? &serial : &pair->chosen);
    assert_non_null(found);
    return pair->option == GS_PAIR_SERIAL ? fmin(found->us, sum_us) : found->us;
}

static void plan_recorded(const char *path) {
    struct recorded *recorded = recorded_read(path);
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_pair_search *search =
        gs_pair_search_new(gpu, recorded->given, recorded->kernels, &(gs_pair_search_options){.models = false}, &error);
    gs_measurement next;
    int64_t measurements = 0;
    int far = 0;
    double worst = 1;
    while (gs_pair_search_next(search, &next, &error)) {
        const gs_measure_result *found = answer(recorded, &next);
        assert_non_null(found);
        assert_int_equal(gs_pair_search_add(search, &next, found, &error), GS_OK);
    }
    assert_int_equal(gs_pair_search_pairs(search), RECORDED_KERNELS * (RECORDED_KERNELS - 1) / 2);
    for (size_t i = 0; i < gs_pair_search_pairs(search); i++) {
        const gs_found_pair *pair = gs_pair_search_pair_at(search, i);
        double sum_us = gs_pair_search_alone_us(search, (size_t)pair->first) * pair->repeats[0] +
                        gs_pair_search_alone_us(search, (size_t)pair->second) * pair->repeats[1];
        double us = chosen_us(recorded, pair, sum_us), best = best_us(recorded, pair, sum_us);
        if (us > best * CLOSE)
            print_message("%s + %s: %s (%s) takes %.1f us, the best way %.1f us\n", recorded->given[pair->first].name,
                          recorded->given[pair->second].name, gs_pair_option_name(pair->option), pair->reason, us,
                          best);
        far += us > best * CLOSE;
        worst = fmax(worst, us / best);
        measurements += pair->measurements;
    }
    print_message("%.2f measurements for each pair; at most %.1f%% longer than the best way\n",
                  (double)measurements / (double)gs_pair_search_pairs(search), 100 * (worst - 1));
    assert_int_equal(far, 0);
    assert_true(measurements <= MEASUREMENTS_PER_PAIR * (int64_t)gs_pair_search_pairs(search));
    gs_pair_search_free(search);
    gs_gpu_free(gpu);
    free(recorded);
}

static void pairs_of_an_h200_run_in_the_best_way(void **state) {
    (void)state;
    plan_recorded(GRIDSMITH_SOURCE "/corpus/h200-plan-ways.txt");
}

static void pairs_of_another_h200_run_in_the_best_way(void **state) {
    (void)state;
    plan_recorded(GRIDSMITH_SOURCE "/corpus/h200-plan-ways-2.txt");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_of_an_h200_run_in_the_best_way),
                                       cmocka_unit_test(pairs_of_another_h200_run_in_the_best_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
