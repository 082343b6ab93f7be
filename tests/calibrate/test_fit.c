/*
 * test_fit.c: `fit` finds planted mechanisms, reports only what follows from the recordings, and proposes useful runs.
 *
 * Recordings are predictions under a random setting of the switches. The fit does not know the setting: it must be
 * among those it finds. Recordings of an H200 must say what its description says.
 */
#include "test.h"

#include "lab/calibrate/settings.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDINGS = 200 };

/* ---- the long way: predict all, score all ---- */

static void add_score(const gs_gpu *gpu, const gs_run *recorded, bool follow, gs_score *score) {
    gs_error error = {.code = GS_OK};
    gs_run *predicted = follow ? gs_predict_recorded(gpu, recorded, &error) : gs_predict(gpu, recorded, NULL, &error);
    if (predicted)
        assert_int_equal(gs_score_add(score, recorded, predicted, &error), GS_OK);
    else if (error.code != GS_E_UNSUPPORTED) /* clusters are, where blocks are numbered as they are placed */
        fail_msg("%s", error.message);
    gs_run_free(predicted);
}

/* By counts, with any numbering. */
static bool is_exact(const gs_gpu *gpu, const gs_mechanisms *setting, const gs_run *recorded) {
    gs_gpu other = *gpu;
    gs_score score = {0};
    int most = gpu->grants.groups.count ? GS_NUMBERED_BY_GRANT : GS_NUMBERED_AS_PLACED;
    for (int numbering = GS_NUMBERED_AS_PLACED; numbering <= most; numbering++) {
        other.mechanisms = *setting;
        other.mechanisms.numbering = numbering;
        add_score(&other, recorded, gs_run_is_timed(recorded), &score);
    }
    return score.runs_exact > 0;
}

/* Block by block, with the numbering of the setting. */
static bool is_numbered(const gs_gpu *gpu, const gs_mechanisms *setting, const gs_run *recorded) {
    gs_gpu other = *gpu;
    gs_score score = {0};
    other.mechanisms = *setting;
    add_score(&other, recorded, true, &score);
    return score.runs_exact && score.blocks_exact == score.blocks && is_exact(gpu, setting, recorded);
}

/* By counts, or block by block where that is asked. */
static int64_t count_alike(const gs_gpu *gpu, const gs_mechanisms *setting, gs_run *const *recordings, size_t count,
                           bool block_by_block) {
    int64_t alike = 0;
    for (size_t i = 0; i < count; i++)
        alike += (block_by_block ? is_numbered : is_exact)(gpu, setting, recordings[i]);
    return alike;
}

/* ---- planted settings ---- */

/* A GPU of four to eight SMs, with a list of SMs only if the setting uses it. Grants are described half of the time,
   and used half of that. */
static gs_gpu *draw_gpu(gs_random *random) {
    bool has_grants = gs_random_chance(random, 50);
    gs_gpu *gpu = random_gpu(random, 50);
    while (gpu->sms < 4 || (has_grants && !gpu->grants.groups.count)) {
        gs_gpu_free(gpu);
        gpu = random_gpu(random, 50);
    }
    if (!has_grants)
        random_no_grants(gpu);
    else if (gs_random_chance(random, 50))
        gpu->mechanisms.numbering = GS_NUMBERED_AS_PLACED;
    if (gpu->mechanisms.tie_order != GS_TIES_LISTED) {
        free(gpu->listed_order);
        gpu->listed_order = NULL;
    }
    return gpu;
}

/* Plays a run as a GPU would whose turn is unknown; NULL: a kernel of it never fits. With durations the turn is 0,
   because a model that takes no time cannot be followed. */
static gs_run *play(const gs_gpu *gpu, const gs_run *run, gs_random *random) {
    gs_predict_options options = {0};
    gs_error error = {.code = GS_OK};
    if (!gs_run_is_timed(run))
        options.turn = (int)gs_random_from(random, 0, gs_gpu_turns(gpu) - 1);
    gs_run *recorded = gs_predict(gpu, run, &options, &error);
    if (!recorded && error.code != GS_E_NO_FIT)
        fail_msg("%s", error.message);
    return recorded;
}

/* The next random run that can be played. Only runs that end by themselves show the queue, and how long a configuration
   is kept. */
static gs_run *record(const gs_gpu *gpu, bool is_timed, uint64_t seed, uint64_t *index) {
    static const char *const classes[] = {"plain", "shared", "small", "exits", "local", "timed"};
    size_t class_count = is_timed ? GS_COUNT(classes) : GS_COUNT(classes) - 1;
    gs_bounds bounds = gs_bounds_of(gpu, 1);
    gs_run *recorded = NULL;
    while (!recorded) {
        gs_random random = gs_random_at(seed, *index);
        gs_run *run = gs_generate(&bounds, classes[*index % class_count], seed, *index, NULL);
        assert_non_null(run);
        ++*index;
        recorded = play(gpu, run, &random);
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

/* The answers about values must follow from the settings that were found, and never contradict the planted one. */
static void assert_values_are_honest(const gs_fit *fit, const gs_gpu *planted, gs_run *const *recordings) {
    for (size_t i = 0; i < fit->values.count; i++) {
        const gs_fit_value *value = &fit->values.data[i];
        bool found = false, by_block = gs_fit_is_by_block(value->mechanism);
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
            assert_int_equal(count_alike(planted, &changed, &recordings[value->killer], 1, by_block), 0);
        assert_true(count_alike(planted, &changed, recordings, RECORDINGS, by_block) <= value->best);
    }
}

/* Whether a setting differs on a run from the one that played it. */
static bool differs(const gs_gpu *gpu, const gs_mechanisms *setting, const gs_mechanisms *played_by,
                    const gs_run *played) {
    return !is_exact(gpu, setting, played) ||
           (setting->numbering != played_by->numbering && !is_numbered(gpu, setting, played));
}

/* The decider separates at least two of the settings. */
static void assert_decider_decides(const gs_fit *fit, const gs_gpu *planted) {
    gs_gpu first = *planted;
    gs_error error;
    size_t different = 0;
    first.mechanisms = fit->settings[0];
    gs_run *played = gs_predict(&first, fit->decider, NULL, &error);
    assert_non_null(played);
    for (size_t i = 1; i < fit->setting_count; i++)
        different += differs(planted, &fit->settings[i], &fit->settings[0], played);
    assert_true(different > 0);
    gs_run_free(played);
}

/* Settings that are left agree with everything that was recorded. */
static void assert_undecided_is_genuine(const gs_fit *fit, const gs_gpu *planted, gs_run *const *recordings) {
    for (size_t i = 0; i < fit->setting_count; i++)
        assert_int_equal(count_alike(planted, &fit->settings[i], recordings, RECORDINGS, false), RECORDINGS);
    if (fit->decider)
        assert_decider_decides(fit, planted);
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

/* Fits to recordings of a planted setting, without knowing it. */
static gs_fit fit_planted(const gs_gpu *planted, gs_run *const *recordings, size_t count, uint64_t combination) {
    gs_gpu start = *planted;
    gs_fit fit;
    gs_error error = {.code = GS_OK};
    assert_int_equal(gs_gpu_use(&start, "round-robin", &error), GS_OK);
    if (gs_fit_run(&start, recordings, count, combination + count, NULL, &fit, &error) != GS_OK)
        fail_msg("combination %llu: %s", (unsigned long long)combination, error.message);
    if (fit.best != (int64_t)count || !is_among(&fit, &planted->mechanisms))
        fail_msg("combination %llu: the planted setting was not found", (unsigned long long)combination);
    return fit;
}

/* Every eighth GPU is also seen with runs that end by themselves. */
static void fit_to_a_planted_setting(uint64_t combination, struct totals *totals) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 5), combination);
    gs_gpu *planted = draw_gpu(&random);
    gs_run *recordings[RECORDINGS];
    uint64_t index = 0;
    for (size_t i = 0; i < RECORDINGS; i++)
        recordings[i] = record(planted, combination % 8 == 0, 23 + combination, &index);
    gs_fit fit = fit_planted(planted, recordings, RECORDINGS, combination);
    assert_values_are_honest(&fit, planted, recordings);
    assert_undecided_is_genuine(&fit, planted, recordings);
    add_up(totals, &fit);
    gs_fit_clear(&fit);
    for (size_t i = 0; i < RECORDINGS; i++)
        gs_run_free(recordings[i]);
    gs_gpu_free(planted);
}

TEST(planted_mechanisms_are_found) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000);
    uint64_t first = runs >= 100000 ? 0 : 1; /* the first has timed runs, which take long */
    uint64_t combinations = runs >= 400000 ? 15 : runs >= 100000 ? 4 : 2;
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

/* ---- deciding ---- */

enum { AT_FIRST = 60, MOST_DECIDERS = 20, FRESH = 300 };

struct decided {
    size_t planted[2], decided[2]; /* GPUs with more than one value to try, and those of them that were decided */
    size_t open, shows;            /* values that stayed open, and fresh runs that would have told them apart */
};

/* Records runs that decide, until none is found. */
static gs_fit decide(const gs_gpu *planted, gs_run **recordings, size_t *count, uint64_t combination) {
    gs_fit fit = fit_planted(planted, recordings, *count, combination);
    for (int i = 0; i < MOST_DECIDERS && fit.decider; i++) {
        gs_random random = gs_random_at(combination, *count);
        recordings[*count] = play(planted, fit.decider, &random);
        assert_non_null(recordings[*count]);
        ++*count;
        gs_fit_clear(&fit);
        fit = fit_planted(planted, recordings, *count, combination);
    }
    return fit;
}

/* Values that are still open must not show in fresh runs either. */
static void look_for_what_shows(const gs_fit *fit, const gs_gpu *planted, uint64_t combination,
                                struct decided *decided) {
    uint64_t index = 0;
    for (size_t run = 0; run < FRESH; run++) {
        gs_run *fresh = record(planted, true, 900 + combination, &index);
        for (size_t i = 0; i < fit->values.count; i++) {
            const gs_fit_value *value = &fit->values.data[i];
            gs_mechanisms changed = planted->mechanisms;
            *gs_mechanism_value(&changed, value->mechanism) = value->value;
            if (!value->possible || has_value(&planted->mechanisms, value) || !is_among(fit, &changed))
                continue;
            decided->open += run == 0;
            decided->shows += differs(planted, &changed, &planted->mechanisms, fresh);
        }
        gs_run_free(fresh);
    }
}

static void count_decided(const gs_fit *fit, struct decided *decided) {
    static const char *const names[] = {"shared_kept", "numbering"};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        const gs_mechanism *mechanism = gs_mechanism_find(names[i]);
        size_t values = 0;
        for (size_t k = 0; k < fit->values.count; k++)
            values += fit->values.data[k].mechanism == mechanism;
        decided->planted[i] += values > 1;
        decided->decided[i] += values > 1 && !gs_fit_is_undecided(fit, (size_t)(mechanism - gs_mechanism_table));
    }
}

TEST(what_shows_is_decided) {
    if (test_is_brief())
        skip(); /* a sanitizer sees this code in the others */
    uint64_t combinations = test_number("GRIDSMITH_RUNS", 100000) >= 100000 ? 5 : 1;
    struct decided decided = {0};
    for (uint64_t i = 0; i < combinations; i++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 71), i);
        gs_gpu *planted = draw_gpu(&random);
        gs_run *recordings[AT_FIRST + MOST_DECIDERS];
        size_t count = 0;
        for (uint64_t index = 0; count < AT_FIRST;)
            recordings[count++] = record(planted, false, 400 + i, &index);
        gs_fit fit = decide(planted, recordings, &count, i);
        count_decided(&fit, &decided);
        look_for_what_shows(&fit, planted, i, &decided);
        gs_fit_clear(&fit);
        while (count)
            gs_run_free(recordings[--count]);
        gs_gpu_free(planted);
    }
    print_message(
        "%llu planted settings: shared_kept decided %zu times of %zu, numbering %zu of %zu; %zu values stayed "
        "open, and show in %zu of %llu fresh runs\n",
        (unsigned long long)combinations, decided.decided[0], decided.planted[0], decided.decided[1],
        decided.planted[1], decided.open, decided.shows, (unsigned long long)combinations * FRESH);
    assert_true(decided.shows * 1000 <= combinations * FRESH);
    assert_true(decided.decided[0] > 0);
    assert_true(decided.decided[1] * 2 >= decided.planted[1]);
}

/* ---- proposing ---- */

/* Whether a GPU with the second setting could have done what one with the first does. */
static bool could_be(const gs_gpu *gpu, const gs_mechanisms *first, const gs_mechanisms *second, const gs_run *script) {
    gs_gpu playing = *gpu;
    gs_error error;
    playing.mechanisms = *first;
    gs_run *played = gs_predict(&playing, script, NULL, &error);
    assert_non_null(played);
    bool could = !differs(gpu, second, first, played);
    gs_run_free(played);
    return could;
}

/* A run without its last launch. */
static gs_run *without_last(const gs_run *run) {
    gs_run *rest = gs_run_new(NULL);
    assert_non_null(rest);
    for (size_t i = 0; i + 1 < run->events.count; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_LAUNCH)
            assert_int_equal(gs_run_copy_launch(rest, &run->launches.data[event->launch], NULL), GS_OK);
        else
            assert_non_null(gs_run_add_event(rest, GS_EXIT, event->launch, NULL));
    }
    return rest;
}

/* Changes one switch. The proposed run tells the two settings apart, and the last launch is needed for that. */
static void propose_for(const gs_gpu *gpu, const gs_mechanism *mechanism, int value) {
    gs_mechanisms settings[2] = {gpu->mechanisms, gpu->mechanisms};
    gs_run *decider;
    *gs_mechanism_value(&settings[1], mechanism) = value;
    assert_int_equal(gs_propose(gpu, settings, 2, 1, &decider, NULL), GS_OK);
    if (!decider)
        fail_msg("%s %s: no run is proposed", mechanism->name, mechanism->values[value]);
    assert_false(could_be(gpu, &settings[0], &settings[1], decider));
    gs_run *rest = without_last(decider);
    assert_true(could_be(gpu, &settings[0], &settings[1], rest));
    gs_run_free(rest);
    gs_run_free(decider);
}

TEST(a_run_is_proposed_for_each_switch) {
    bool is_long = test_number("GRIDSMITH_RUNS", 100000) >= 100000;
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        const gs_mechanism *mechanism = &gs_mechanism_table[i];
        if (!is_long && strcmp(mechanism->name, "numbering") != 0)
            continue; /* the others take long under a sanitizer */
        for (int value = 0; mechanism->values[value]; value++)
            if (value != *gs_mechanism_value(&gpu->mechanisms, mechanism))
                propose_for(gpu, mechanism, value);
    }
    gs_gpu_free(gpu);
}

/* With one configuration its lifetime does not matter. */
TEST(no_run_is_proposed_for_what_cannot_show) {
    if (test_is_brief())
        skip(); /* a sanitizer sees this code where a run is proposed */
    gs_gpu *gpu = gs_gpu_open("titan-xp", NULL);
    gs_mechanisms settings[2] = {gpu->mechanisms, gpu->mechanisms};
    gs_run *decider;
    assert_int_equal(gpu->limits.configs, 1);
    settings[1].shared_kept = GS_KEPT_FOR_WAITING;
    assert_int_equal(gs_propose(gpu, settings, 2, 1, &decider, NULL), GS_OK);
    assert_null(decider);
    gs_gpu_free(gpu);
}

/* ---- settings that do the same ---- */

/* Another setting that a run of this kind cannot tell from the first one. */
static gs_mechanisms draw_alike(const gs_gpu *gpu, gs_random *random, gs_mechanisms setting, unsigned kind,
                                bool block_by_block) {
    gs_mechanisms wanted = gs_what_matters(setting, kind, block_by_block);
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        const gs_mechanism *mechanism = &gs_mechanism_table[i];
        gs_mechanisms changed = setting;
        *gs_mechanism_value(&changed, mechanism) =
            (int)gs_random_from(random, 0, gs_setting_values(gpu, mechanism) - 1);
        gs_mechanisms matters = gs_what_matters(changed, kind, block_by_block);
        if (memcmp(&matters, &wanted, sizeof wanted) == 0)
            setting = changed;
    }
    return setting;
}

static gs_mechanisms draw_setting(const gs_gpu *gpu, gs_random *random) {
    return gs_setting_at(gpu, (size_t)gs_random_from(random, 0, (int64_t)gs_setting_count(gpu) - 1));
}

/* Two settings treat a recording alike if no switch in which they differ can matter: for the whole recording; or, if it
   differs, for the part that was played until then. Counts the cases by kind. */
static void compare_alike(const gs_gpu *gpu, const gs_run *recorded, gs_random *random, uint64_t index,
                          size_t *differing) {
    bool block_by_block = gs_random_chance(random, 30);
    gs_gpu other = *gpu;
    unsigned kind, whole = gs_kind_of(recorded);
    size_t differs, again;
    gs_error error = {.code = GS_OK};
    other.mechanisms = draw_setting(gpu, random);
    assert_int_equal(gs_agrees_until(&other, recorded, block_by_block, &differs, &kind, &error), GS_OK);
    assert_int_equal(kind & ~whole, 0);
    if (differs == SIZE_MAX)
        kind = whole;
    else
        differing[kind]++;
    other.mechanisms = draw_alike(gpu, random, other.mechanisms, kind, block_by_block);
    assert_int_equal(gs_agrees(&other, recorded, block_by_block, &again, &error), GS_OK);
    if ((again == SIZE_MAX) != (differs == SIZE_MAX))
        fail_msg("index %llu: settings that are alike to runs of kind %u are told apart", (unsigned long long)index,
                 kind);
}

/* Each recording is of a setting that differs from the one that is tried in a few switches, or in any. */
TEST(settings_that_are_alike_do_the_same) {
    uint64_t count = test_number("GRIDSMITH_RUNS", 100000) / 20, seed = test_number("GRIDSMITH_SEED", 47);
    size_t differing[GS_KINDS] = {0};
    for (uint64_t i = 0; i < count; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_gpu *gpu = draw_gpu(&random);
        gs_run *run = random_run(&random, gpu), *recorded = play(gpu, run, &random);
        for (int k = 0; k < 8 && recorded; k++)
            compare_alike(gpu, recorded, &random, i, differing);
        gs_run_free(run);
        gs_run_free(recorded);
        gs_gpu_free(gpu);
    }
    for (unsigned kind = 0; kind < GS_KINDS; kind++)
        if (differing[kind])
            print_message("kind %u: %zu differ\n", kind, differing[kind]);
    assert_true(differing[0] && differing[GS_KIND_LATER] && differing[GS_KIND_LATER | GS_KIND_ENDS]);
}

/* ---- against trying everything ---- */

enum { MOST_TRIED = 6, MOST_SETTINGS = 8192 };

/* All settings, by counting up the switches, except the numbering. */
static size_t list_settings(const gs_gpu *gpu, gs_mechanisms *settings) {
    size_t count = 1;
    settings[0] = (gs_mechanisms){0};
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        size_t before = count;
        if (strcmp(gs_mechanism_table[i].name, "numbering") == 0)
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
    bool agrees[MOST_SETTINGS][MOST_TRIED]; /* by counts, or block by block */
    size_t count, recordings;
};

static int64_t count_agreed(const struct truth *truth, size_t setting) {
    int64_t agreed = 0;
    for (size_t k = 0; k < truth->recordings; k++)
        agreed += truth->agrees[setting][k];
    return agreed;
}

/* The best score with a value (NULL: with any), the first setting that has it, and how many have it. */
static int64_t true_best(const struct truth *truth, const gs_fit_value *value, size_t *first, size_t *how_many) {
    int64_t best = -1;
    *first = *how_many = 0;
    for (size_t i = 0; i < truth->count; i++) {
        int64_t agreed = count_agreed(truth, i);
        if ((value && !has_value(&truth->settings[i], value)) || agreed < best)
            continue;
        *how_many = agreed == best ? *how_many + 1 : 1;
        *first = agreed == best ? *first : i;
        best = agreed;
    }
    return best;
}

static bool truly_rules_out(const struct truth *truth, const gs_fit_value *value, size_t recording) {
    for (size_t i = 0; i < truth->count; i++)
        if (has_value(&truth->settings[i], value) && truth->agrees[i][recording])
            return false;
    return true;
}

static void try_everything(struct truth *truth, const gs_gpu *gpu, gs_run *const *recordings, size_t count,
                           bool block_by_block) {
    truth->recordings = count;
    for (size_t i = 0; i < truth->count; i++)
        for (size_t k = 0; k < count; k++)
            truth->agrees[i][k] = count_alike(gpu, &truth->settings[i], &recordings[k], 1, block_by_block);
}

/* The settings that the fit found best by counts, with each numbering. */
static size_t list_numbered(const gs_gpu *gpu, const gs_fit *fit, gs_mechanisms *settings) {
    size_t count = 0;
    for (size_t i = 0; i < fit->setting_count; i++) {
        gs_mechanisms setting = fit->settings[i];
        setting.numbering = GS_NUMBERED_AS_PLACED;
        if (count && memcmp(&settings[count - (gpu->grants.groups.count ? 2 : 1)], &setting, sizeof setting) == 0)
            continue;
        settings[count++] = setting;
        setting.numbering = GS_NUMBERED_BY_GRANT;
        if (gpu->grants.groups.count)
            settings[count++] = setting;
    }
    return count;
}

/* `best`: one of the best settings of this truth. */
static void compare_value(const struct truth *truth, const gs_fit_value *value, size_t best) {
    size_t first, how_many;
    assert_int_equal(value->best, true_best(truth, value, &first, &how_many));
    assert_int_equal(value->possible, value->best == count_agreed(truth, best));
    for (size_t k = 0; k < truth->recordings && !value->possible; k++) {
        bool speaks = truly_rules_out(truth, value, k) && truth->agrees[best][k];
        assert_false(value->killer == SIZE_MAX && speaks);
        assert_false(value->killer == k && !speaks);
    }
}

static size_t find_setting(const struct truth *truth, gs_mechanisms setting) {
    size_t i = 0;
    setting.numbering = GS_NUMBERED_AS_PLACED;
    while (i < truth->count && memcmp(&truth->settings[i], &setting, sizeof setting) != 0)
        i++;
    assert_true(i < truth->count);
    return i;
}

static void compare_with_truth(struct truth *by_counts, struct truth *by_blocks, const gs_fit *fit, const gs_gpu *gpu,
                               gs_run *const *recordings) {
    size_t best, best_numbered, how_many, ignored, numberings = 0;
    by_counts->count = list_settings(gpu, by_counts->settings);
    try_everything(by_counts, gpu, recordings, (size_t)fit->recordings, false);
    by_blocks->count = list_numbered(gpu, fit, by_blocks->settings);
    try_everything(by_blocks, gpu, recordings, (size_t)fit->recordings, true);
    assert_int_equal(fit->best, true_best(by_counts, NULL, &ignored, &how_many));
    best = find_setting(by_counts, fit->settings[0]);
    true_best(by_blocks, NULL, &best_numbered, &ignored);
    for (size_t i = 0; i < fit->values.count; i++) {
        const gs_fit_value *value = &fit->values.data[i];
        bool by_block = gs_fit_is_by_block(value->mechanism);
        compare_value(by_block ? by_blocks : by_counts, value, by_block ? best_numbered : best);
        numberings += by_block && value->possible;
    }
    assert_int_equal(fit->tried, by_counts->count * (gpu->grants.groups.count ? 2 : 1));
    assert_int_equal(fit->setting_count, how_many * numberings);
    for (size_t i = 0; i < fit->setting_count; i++)
        assert_int_equal(count_agreed(by_counts, find_setting(by_counts, fit->settings[i])), fit->best);
}

/* Runs with everything in them, seen on a GPU that leaves out an SM now and then: no setting agrees with all. */
static void compare_search(gs_random *random, struct truth *truths, size_t count) {
    gs_gpu *gpu = draw_gpu(random);
    gs_run *recordings[MOST_TRIED];
    gs_fit fit;
    gs_error error = {.code = GS_OK};
    for (size_t i = 0; i < count; i++) {
        gs_run *run = random_run(random, gpu);
        gpu->skipped_sm = i % 4 == 3 ? 2 : 0;
        recordings[i] = play(gpu, run, random);
        assert_non_null(recordings[i]);
        gs_run_free(run);
    }
    gpu->skipped_sm = 0;
    assert_int_equal(gs_fit_run(gpu, recordings, count, 1, NULL, &fit, &error), GS_OK);
    compare_with_truth(&truths[0], &truths[1], &fit, gpu, recordings);
    print_message("%lld of %zu recordings, %zu settings\n", (long long)fit.best, count, fit.setting_count);
    gs_fit_clear(&fit);
    for (size_t i = 0; i < count; i++)
        gs_run_free(recordings[i]);
    gs_gpu_free(gpu);
}

TEST(the_search_finds_what_trying_everything_finds) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000);
    if (runs < 100000)
        skip(); /* a minute under a sanitizer, nearly all of it the slow way */
    struct truth *truths = malloc(2 * sizeof *truths);
    assert_non_null(truths);
    for (uint64_t i = runs >= 400000 ? 0 : 1; i < (runs >= 400000 ? 3 : 2); i++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 31), i);
        compare_search(&random, truths, MOST_TRIED);
    }
    free(truths);
}

/* ---- a real GPU ---- */

/* Adds the first runs of a file that are of a class (NULL: of any). */
static void add_recordings(gs_run **recordings, size_t *count, const char *file, const char *class_name, size_t most) {
    gs_error error;
    gs_runs *runs = gs_runs_open(test_path(file), &error);
    assert_non_null(runs);
    gs_run *run = NULL;
    while (most && (run = gs_runs_next(runs, &error))) {
        if (class_name && strcmp(run->class_name, class_name) != 0) {
            gs_run_free(run);
            continue;
        }
        recordings[(*count)++] = run;
        most--;
    }
    gs_runs_close(runs);
}

/* A hundred cases, the runs that show how shared memory is laid out, and three with durations are enough to decide
   every switch, and what they say is what the description has. But local memory had grown before they were recorded. */
TEST(recordings_of_an_h200_say_what_its_description_says) {
    if (test_number("GRIDSMITH_RUNS", 100000) < 100000)
        skip(); /* half a minute under a sanitizer, of code that the others have run */
    gs_run *recordings[126];
    size_t count = 0;
    gs_fit fit;
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_mechanisms described = gpu->mechanisms;
    add_recordings(recordings, &count, "corpus/h200.jsonl.gz", "timed", 3);
    add_recordings(recordings, &count, "corpus/h200-starter.jsonl.gz", NULL, 100);
    add_recordings(recordings, &count, "corpus/h200-holes.jsonl.gz", NULL, 23);
    assert_int_equal(count, GS_COUNT(recordings));
    assert_int_equal(gs_gpu_use(gpu, "paper", &error), GS_OK);
    assert_int_equal(gs_fit_run(gpu, recordings, count, 1, NULL, &fit, &error), GS_OK);
    described.local_growth_waits = GS_NO;
    assert_int_equal(fit.best, 126);
    assert_int_equal(fit.setting_count, 1);
    assert_memory_equal(&fit.settings[0], &described, sizeof described);
    gs_fit_clear(&fit);
    while (count)
        gs_run_free(recordings[--count]);
    gs_gpu_free(gpu);
}

/* A recording of two kernels. The second one needs more local memory than the first, and was seen on this SM. */
#define LAUNCHES(sm)                                                                                                   \
    "{\"schema\":\"gridsmith.run/1\",\"events\":["                                                                     \
    "{\"op\":\"launch\",\"kernel\":\"a\",\"blocks\":1,\"threads\":32,\"registers\":16,\"shared_bytes\":0,"             \
    "\"placed\":[0]},"                                                                                                 \
    "{\"op\":\"launch\",\"kernel\":\"b\",\"blocks\":1,\"threads\":32,\"registers\":16,\"shared_bytes\":0,"             \
    "\"local_bytes\":256,\"placed\":[" sm "]}]}"

/* To find the turn, recordings are followed, and one that is followed shows that local memory had grown before. The
   third still differs from the best setting: a setting that differs by counts does not agree block by block. */
TEST(what_differs_by_counts_differs_block_by_block) {
    gs_run *recordings[] = {test_run_of(LAUNCHES("null")), test_run_of(LAUNCHES("null")), test_run_of(LAUNCHES("2"))};
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_fit fit;
    gs_error error;
    assert_int_equal(gs_fit_run(gpu, recordings, GS_COUNT(recordings), 1, NULL, &fit, &error), GS_OK);
    assert_int_equal(fit.best, 2);
    assert_int_equal(fit.settings[0].local_growth_waits, GS_YES);
    const gs_fit_value *numbering = &fit.values.data[fit.values.count - 1];
    assert_string_equal(numbering->mechanism->name, "numbering");
    assert_int_equal(numbering->value, GS_NUMBERED_AS_PLACED);
    assert_int_equal(numbering->best, 2);
    gs_fit_clear(&fit);
    for (size_t i = 0; i < GS_COUNT(recordings); i++)
        gs_run_free(recordings[i]);
    gs_gpu_free(gpu);
}

/* Without grants there is one numbering, and without a list two tie orders. */
TEST(only_what_is_described_is_tried) {
    gs_run *recording = test_run_of(LAUNCHES("2"));
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_fit fit;
    gs_error error;
    size_t values[2] = {0};
    assert_int_equal(gs_fit_run(gpu, &recording, 1, 1, NULL, &fit, &error), GS_OK);
    for (size_t i = 0; i < fit.values.count; i++) {
        values[0] += strcmp(fit.values.data[i].mechanism->name, "tie_order") == 0;
        values[1] += strcmp(fit.values.data[i].mechanism->name, "numbering") == 0;
    }
    assert_int_equal(values[0], 2);
    assert_int_equal(values[1], 1);
    assert_string_equal(gs_fit_verdict(&fit, &fit.values.data[fit.values.count - 1]),
                        "the only value that can be tried");
    assert_string_equal(gs_fit_verdict(&fit, &fit.values.data[0]), "undecided");
    gs_fit_clear(&fit);
    gs_run_free(recording);
    gs_gpu_free(gpu);
}

TEST(a_plan_is_not_a_recording) {
    gs_run *script = test_run_of("{\"schema\":\"gridsmith.run/1\",\"events\":[{\"op\":\"launch\",\"kernel\":\"a\","
                                 "\"blocks\":3,\"threads\":32,\"registers\":16,\"shared_bytes\":0}]}");
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_fit fit;
    gs_error error = {.code = GS_OK};
    assert_int_equal(gs_fit_run(gpu, &script, 1, 1, NULL, &fit, &error), GS_E_FORMAT);
    assert_string_equal(error.message, "kernel \"a\" has no \"placed\": only recordings can be fitted to");
    assert_int_equal(error.column, 39);
    gs_fit_clear(&fit);
    gs_run_free(script);
    gs_gpu_free(gpu);
}

/* With an argument: only the tests whose names match it. */
int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return TEST_ALL(NULL, NULL);
}
