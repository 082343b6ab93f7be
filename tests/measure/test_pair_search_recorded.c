/*
 * test_pair_search_recorded.c: the search of a plan on measurements of two H200s: 28 pairs of kernels in all ways to
 * run them (corpus/h200-plan-ways.txt, h200-plan-ways-2.txt). A way that was not measured, because a limit of registers
 * or a split has another number, is answered by the nearest that was.
 */
#include "decide_support.h"

#include "sharing/measure/measure.h"

#include <math.h>
#include <stdlib.h>

enum { KERNELS = 8, MOST_ROWS = 2000, FAR = 1000, MEASUREMENTS_PER_PAIR = 4 };
static const double CLOSE = 1.02;

struct row {
    gs_measurement measurement;
    gs_measure_result result;
};

struct recorded {
    gs_pair_search_kernel given[KERNELS];
    size_t kernels;
    struct row rows[MOST_ROWS];
    size_t count;
};

/* ---- the file ---- */

static int32_t kernel_named(const struct recorded *recorded, const char *name) {
    for (size_t i = 0; i < recorded->kernels; i++)
        if (strcmp(recorded->given[i].name, name) == 0)
            return (int32_t)i;
    return 0; /* "-": there is no second kernel */
}

static void read_kernel(struct recorded *recorded, const char *line) {
    gs_pair_search_kernel *given = &recorded->given[recorded->kernels];
    int threads, registers;
    long shared, blocks;
    assert_true(recorded->kernels < KERNELS);
    assert_int_equal(sscanf(line, "kernel %31s %d %d %ld %ld", given->name, &threads, &registers, &shared, &blocks), 5);
    given->forms[0] = gs_shape_of(threads, registers, shared);
    given->has_form[0] = true;
    given->blocks = blocks;
    recorded->kernels++;
}

static void read_row(struct recorded *recorded, const char *line) {
    struct row *row = &recorded->rows[recorded->count];
    gs_measure_side *sides = row->measurement.sides;
    char what[16], names[2][32];
    assert_true(recorded->count < MOST_ROWS);
    assert_int_equal(sscanf(line, "%15s %31s %d %d %d %d %31s %d %d %d %d %lf %lf %lf", what, names[0],
                            &sides[0].workers, &sides[0].registers, &sides[0].sms, &sides[0].repeats, names[1],
                            &sides[1].workers, &sides[1].registers, &sides[1].sms, &sides[1].repeats, &row->result.us,
                            &row->result.side_us[0], &row->result.side_us[1]),
                     14);
    while (strcmp(gs_measure_name(row->measurement.measure), what) != 0 && row->measurement.measure < GS_MEASURE_SPLIT)
        row->measurement.measure++;
    for (int i = 0; i < 2; i++)
        sides[i].kernel = kernel_named(recorded, names[i]);
    row->result.is_failed = !(row->result.us > 0);
    recorded->count++;
}

static struct recorded *read_all(const char *path) {
    struct recorded *recorded = calloc(1, sizeof *recorded);
    FILE *file = fopen(path, "r");
    char line[200];
    assert_non_null(recorded);
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "kernel ", 7) == 0)
            read_kernel(recorded, line);
        else if (line[0] != '#')
            read_row(recorded, line);
    fclose(file);
    return recorded;
}

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
        const struct row *row = &recorded->rows[i];
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
    struct recorded *recorded = read_all(path);
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
    assert_int_equal(gs_pair_search_pairs(search), KERNELS * (KERNELS - 1) / 2);
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
