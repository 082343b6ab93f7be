/*
 * test_fit.c: `fit` finds mechanisms that were planted, says only what the recordings say, and proposes runs that help.
 *
 * Recordings are predictions under a random setting of the switches. The fit does not know the setting: it must be
 * among those it finds.
 */
#include "test.h"

#include "fuzz/fuzz.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDINGS = 200 };

/* The long way: predict all, score all. */
static bool is_exact(const gs_gpu *gpu, const gs_mechanisms *setting, const gs_run *recorded) {
    gs_gpu other = *gpu;
    gs_score score = {0};
    gs_error error;
    other.mechanisms = *setting;
    gs_run *predicted = gs_run_is_timed(recorded) ? gs_predict_recorded(&other, recorded, &error)
                                                  : gs_predict(&other, recorded, NULL, &error);
    if (!predicted)
        fail_msg("%s", error.message);
    assert_int_equal(gs_score_add(&score, recorded, predicted, &error), GS_OK);
    gs_run_free(predicted);
    return score.runs_exact == 1;
}

static int64_t count_exact(const gs_gpu *gpu, const gs_mechanisms *setting, gs_run *const *recordings, size_t count) {
    int64_t exact = 0;
    for (size_t i = 0; i < count; i++)
        exact += is_exact(gpu, setting, recordings[i]);
    return exact;
}

/* A GPU of four to eight SMs, with a list of SMs only where the setting uses it. */
static gs_gpu *draw_gpu(gs_random *random) {
    gs_gpu *gpu = random_gpu(random, 50);
    while (gpu->sms < 4) {
        gs_gpu_free(gpu);
        gpu = random_gpu(random, 50);
    }
    random_no_grants(gpu);
    gpu->mechanisms.shared_kept = GS_KEPT_WHILE_BUSY;
    if (gpu->mechanisms.tie_order != GS_TIES_LISTED) {
        free(gpu->listed_order);
        gpu->listed_order = NULL;
    }
    return gpu;
}

/* Every eighth GPU is also seen with runs that end by themselves: only they show the queue. */
static gs_run *record(const gs_gpu *gpu, uint64_t combination, uint64_t *index) {
    static const char *const classes[] = {"plain", "shared", "small", "exits", "local", "timed"};
    size_t class_count = combination % 8 == 0 ? GS_COUNT(classes) : GS_COUNT(classes) - 1;
    gs_bounds bounds = gs_bounds_of(gpu, 1);
    gs_run *recorded = NULL;
    gs_error error = {.code = GS_OK};
    while (!recorded) {
        gs_run *run = gs_generate(&bounds, classes[*index % class_count], 23 + combination, *index, &error);
        assert_non_null(run);
        ++*index;
        recorded = gs_predict(gpu, run, NULL, &error);
        if (!recorded && error.code != GS_E_NO_FIT)
            fail_msg("%s", error.message);
        gs_run_free(run);
    }
    return recorded;
}

static bool is_among(const gs_fit *fit, const gs_mechanisms *setting) {
    for (size_t i = 0; i < fit->setting_count; i++)
        if (memcmp(&fit->settings[i], setting, sizeof *setting) == 0)
            return true;
    return false;
}

static bool has_value(const gs_mechanisms *setting, const gs_fit_value *value) {
    gs_mechanisms copy = *setting;
    return *gs_mechanism_value(&copy, value->mechanism) == value->value;
}

/* What the fit says of values must follow from the settings it found, and never be against the planted one. */
static void assert_values_are_honest(const gs_fit *fit, const gs_gpu *planted, gs_run *const *recordings) {
    for (size_t i = 0; i < fit->values.count; i++) {
        const gs_fit_value *value = &fit->values.data[i];
        bool found = false;
        for (size_t k = 0; k < fit->setting_count; k++)
            found = found || has_value(&fit->settings[k], value);
        assert_int_equal(value->possible, found);
        if (value->possible) {
            assert_int_equal(value->best, fit->best);
            continue;
        }
        assert_false(has_value(&planted->mechanisms, value));
        assert_true(value->best < fit->best);
        gs_mechanisms changed = planted->mechanisms;
        *gs_mechanism_value(&changed, value->mechanism) = value->value;
        if (value->killer != SIZE_MAX)
            assert_false(is_exact(planted, &changed, recordings[value->killer]));
        assert_true(count_exact(planted, &changed, recordings, RECORDINGS) <= value->best);
    }
}

/* Settings that are left agree with everything that was recorded; the decider tells at least two of them apart. */
static void assert_undecided_is_genuine(const gs_fit *fit, const gs_gpu *planted, gs_run *const *recordings) {
    for (size_t i = 0; i < fit->setting_count; i++)
        assert_int_equal(count_exact(planted, &fit->settings[i], recordings, RECORDINGS), RECORDINGS);
    if (!fit->decider)
        return;
    gs_gpu first = *planted;
    gs_error error;
    first.mechanisms = fit->settings[0];
    gs_run *played = gs_predict(&first, fit->decider, NULL, &error);
    assert_non_null(played);
    size_t different = 0;
    for (size_t i = 1; i < fit->setting_count; i++)
        different += !is_exact(planted, &fit->settings[i], played);
    assert_true(different > 0);
    gs_run_free(played);
}

struct totals {
    size_t switches, undecided, deciders, without, by_one, by_several;
    size_t undecided_by_switch[16];
};

static void add_up(struct totals *totals, const gs_fit *fit) {
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        totals->switches++;
        totals->undecided += gs_fit_is_undecided(fit, i);
        totals->undecided_by_switch[i] += gs_fit_is_undecided(fit, i);
    }
    for (size_t i = 0; i < fit->values.count; i++) {
        totals->by_one += !fit->values.data[i].possible && fit->values.data[i].killer != SIZE_MAX;
        totals->by_several += !fit->values.data[i].possible && fit->values.data[i].killer == SIZE_MAX;
    }
    totals->deciders += fit->decider != NULL;
    totals->without += fit->setting_count > 1 && !fit->decider;
}

static void fit_to_a_planted_setting(uint64_t combination, struct totals *totals) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 5), combination);
    gs_gpu *planted = draw_gpu(&random);
    gs_run *recordings[RECORDINGS];
    uint64_t index = 0;
    for (size_t i = 0; i < RECORDINGS; i++)
        recordings[i] = record(planted, combination, &index);
    gs_gpu start = *planted;
    gs_fit fit;
    gs_error error = {.code = GS_OK};
    assert_int_equal(gs_gpu_use(&start, "round-robin", &error), GS_OK);
    if (gs_fit_run(&start, recordings, RECORDINGS, 1, &fit, &error) != GS_OK)
        fail_msg("combination %llu: %s", (unsigned long long)combination, error.message);
    if (fit.best != RECORDINGS || !is_among(&fit, &planted->mechanisms))
        fail_msg("combination %llu: the planted setting was not found", (unsigned long long)combination);
    assert_values_are_honest(&fit, planted, recordings);
    assert_undecided_is_genuine(&fit, planted, recordings);
    add_up(totals, &fit);
    gs_fit_clear(&fit);
    for (size_t i = 0; i < RECORDINGS; i++)
        gs_run_free(recordings[i]);
    gs_gpu_free(planted);
}

static void planted_mechanisms_are_found(void **state) {
    (void)state;
    bool is_long = test_number("GRIDSMITH_RUNS", 100000) >= 100000;
    uint64_t first = is_long ? 0 : 1, combinations = is_long ? 30 : 3; /* the first has timed runs, which take long */
    struct totals totals = {0};
    for (uint64_t i = first; i < combinations; i++)
        fit_to_a_planted_setting(i, &totals);
    print_message(
        "%llu planted settings: %zu of %zu switches decided; values ruled out by one recording %zu, by several "
        "together %zu; a deciding run found %zu times of %zu\n",
        (unsigned long long)(combinations - first), totals.switches - totals.undecided, totals.switches, totals.by_one,
        totals.by_several, totals.deciders, totals.deciders + totals.without);
    for (size_t i = 0; i < gs_mechanism_count; i++)
        if (totals.undecided_by_switch[i])
            print_message("undecided: %s, %zu times\n", gs_mechanism_table[i].name, totals.undecided_by_switch[i]);
    assert_true(totals.undecided * 2 < totals.switches);
    assert_true(totals.deciders > 0);
}

/* ---- against trying everything ---- */

enum { FEW = 12, MOST_SETTINGS = 4096 };

/* All settings there are, by counting up the switches. */
static size_t list_settings(const gs_gpu *gpu, gs_mechanisms *settings) {
    size_t count = 1;
    settings[0] = (gs_mechanisms){.numbering = gpu->mechanisms.numbering, .shared_kept = gpu->mechanisms.shared_kept};
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        size_t before = count;
        if (gs_mechanism_table[i].is_given)
            continue;
        for (int value = 1; gs_mechanism_table[i].values[value]; value++) {
            if (!gpu->listed_order && strcmp(gs_mechanism_table[i].values[value], "listed") == 0)
                continue;
            for (size_t k = 0; k < before; k++) {
                assert_true(count < MOST_SETTINGS);
                settings[count] = settings[k];
                *gs_mechanism_value(&settings[count++], &gs_mechanism_table[i]) = value;
            }
        }
    }
    return count;
}

struct truth {
    gs_mechanisms settings[MOST_SETTINGS];
    bool exact[MOST_SETTINGS][FEW];
    size_t count;
};

/* The best with a value (NULL: with any), and how many settings are so good. */
static int64_t true_best(const struct truth *truth, const gs_fit_value *value, size_t *how_many) {
    int64_t best = -1;
    *how_many = 0;
    for (size_t i = 0; i < truth->count; i++) {
        int64_t exact = 0;
        for (size_t k = 0; k < FEW; k++)
            exact += truth->exact[i][k];
        if ((value && !has_value(&truth->settings[i], value)) || exact < best)
            continue;
        *how_many = exact == best ? *how_many + 1 : 1;
        best = exact;
    }
    return best;
}

static bool truly_rules_out(const struct truth *truth, const gs_fit_value *value, size_t recording) {
    for (size_t i = 0; i < truth->count; i++)
        if (has_value(&truth->settings[i], value) && truth->exact[i][recording])
            return false;
    return true;
}

static void compare_with_truth(const struct truth *truth, const gs_fit *fit, const gs_gpu *gpu,
                               gs_run *const *recordings) {
    size_t how_many, ignored;
    assert_int_equal(fit->tried, truth->count);
    assert_int_equal(fit->best, true_best(truth, NULL, &how_many));
    assert_int_equal(fit->setting_count, how_many);
    for (size_t i = 0; i < fit->setting_count; i++)
        assert_int_equal(count_exact(gpu, &fit->settings[i], recordings, FEW), fit->best);
    for (size_t i = 0; i < fit->values.count; i++) {
        const gs_fit_value *value = &fit->values.data[i];
        assert_int_equal(value->best, true_best(truth, value, &ignored));
        for (size_t k = 0; k < FEW && !value->possible; k++) {
            bool speaks = truly_rules_out(truth, value, k) && is_exact(gpu, &fit->settings[0], recordings[k]);
            assert_false(value->killer == SIZE_MAX && speaks);
            assert_false(value->killer == k && !speaks);
        }
    }
}

/* Runs with everything in them, seen on a GPU that leaves out an SM now and then: no setting agrees with all. */
static void the_search_finds_what_trying_everything_finds(void **state) {
    (void)state;
    uint64_t combinations = test_number("GRIDSMITH_RUNS", 100000) >= 100000 ? 4 : 1;
    struct truth *truth = malloc(sizeof *truth);
    assert_non_null(truth);
    for (uint64_t i = 0; i < combinations; i++) {
        gs_random random = gs_random_at(31, i);
        gs_gpu *gpu = draw_gpu(&random);
        gs_run *recordings[FEW];
        gs_fit fit;
        gs_error error = {.code = GS_OK};
        for (size_t k = 0; k < FEW; k++) {
            gs_run *run = random_run(&random, gpu);
            gpu->skipped_sm = k % 4 == 3 ? 2 : 0;
            recordings[k] = gs_predict(gpu, run, NULL, &error);
            assert_non_null(recordings[k]);
            gs_run_free(run);
        }
        gpu->skipped_sm = 0;
        truth->count = list_settings(gpu, truth->settings);
        for (size_t s = 0; s < truth->count; s++)
            for (size_t k = 0; k < FEW; k++)
                truth->exact[s][k] = is_exact(gpu, &truth->settings[s], recordings[k]);
        assert_int_equal(gs_fit_run(gpu, recordings, FEW, 1, &fit, &error), GS_OK);
        compare_with_truth(truth, &fit, gpu, recordings);
        print_message("%lld of %d recordings, %zu settings\n", (long long)fit.best, FEW, fit.setting_count);
        gs_fit_clear(&fit);
        for (size_t k = 0; k < FEW; k++)
            gs_run_free(recordings[k]);
        gs_gpu_free(gpu);
    }
    free(truth);
}

static void a_plan_is_not_a_recording(void **state) {
    (void)state;
    gs_run *plan = test_run_of("{\"schema\":\"gridsmith.run/1\",\"events\":[{\"op\":\"launch\",\"kernel\":\"a\","
                               "\"blocks\":3,\"threads\":32,\"registers\":16,\"shared_bytes\":0}]}");
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_fit fit;
    gs_error error = {.code = GS_OK};
    assert_int_equal(gs_fit_run(gpu, &plan, 1, 1, &fit, &error), GS_E_FORMAT);
    assert_string_equal(error.message, "kernel \"a\" has no \"placed\": only recordings can be fitted to");
    assert_int_equal(error.column, 39);
    gs_fit_clear(&fit);
    gs_run_free(plan);
    gs_gpu_free(gpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_mechanisms_are_found),
        cmocka_unit_test(the_search_finds_what_trying_everything_finds),
        cmocka_unit_test(a_plan_is_not_a_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
