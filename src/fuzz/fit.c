/*
 * fit.c: which settings of the mechanisms agree with recordings.
 *
 * A setting is one value for each switch; all of them are tried. The search goes in rounds: in each, every setting is
 * played on until it disagrees once more than it was allowed to in the round before. The first round in which a setting
 * gets through all recordings ends the search: it and the others that got through are the best, and no setting was
 * played longer than it took to tell that it is worse. The best with each value of a switch is found in the same way,
 * among the settings that have the value. Recordings that rule many settings out are played first (sort_recordings).
 *
 * Most switches do not matter to most recordings (where nothing ends, memory has no holes), and settings that differ
 * only in such switches are played once: see what_matters.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_TRIES = 2000, /* runs drawn for the decider */
    MOST_PLAYS = 20000 /* and how often settings may be played on them */
};

enum verdict { NOT_PLAYED, AGREES, DIFFERS };

struct recording {
    const gs_run *run;
    bool is_timed, has_local, has_ends; /* kernels with durations, with local memory, that end */
};

struct setting {
    gs_mechanisms mechanisms;
    size_t next;     /* where in the order of recordings it is */
    size_t failures; /* how many before that it differs from */
};

struct search {
    gs_gpu gpu; /* shares what the caller's points to; its mechanisms are set before each play */
    struct recording *recordings;
    size_t recording_count;
    struct setting *settings;
    size_t setting_count;
    uint8_t *verdicts; /* by setting and recording */
    size_t *order;     /* in which recordings are played */
};

static gs_code pass_on(const gs_error *reason, gs_error *error) {
    if (error)
        *error = *reason;
    return reason->code;
}

/* ---- settings ---- */

/* A listed tie order needs a list. What is not fitted stays as it is in the description. */
static int count_values(const gs_gpu *gpu, const gs_mechanism *mechanism) {
    int count = 0;
    if (mechanism->is_given)
        return 1;
    while (mechanism->values[count])
        count++;
    bool is_tie_order = mechanism->offset == offsetof(gs_mechanisms, tie_order);
    return is_tie_order && !gpu->listed_order ? GS_TIES_LISTED : count;
}

static int value_of(const gs_mechanisms *setting, const gs_mechanism *mechanism) {
    return *(const int *)(const void *)((const char *)setting + mechanism->offset);
}

/* Settings are numbered like the digits of a clock: each switch counts in its own base. */
static size_t setting_number(const gs_gpu *gpu, const gs_mechanisms *setting) {
    size_t number = 0;
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        const gs_mechanism *mechanism = &gs_mechanism_table[i];
        if (!mechanism->is_given)
            number = number * (size_t)count_values(gpu, mechanism) + (size_t)value_of(setting, mechanism);
    }
    return number;
}

static gs_mechanisms setting_at(const gs_gpu *gpu, size_t number) {
    gs_mechanisms setting = gpu->mechanisms;
    for (size_t i = gs_mechanism_count; i-- > 0;) {
        if (gs_mechanism_table[i].is_given)
            continue;
        size_t values = (size_t)count_values(gpu, &gs_mechanism_table[i]);
        *gs_mechanism_value(&setting, &gs_mechanism_table[i]) = (int)(number % values);
        number /= values;
    }
    return setting;
}

static bool has_value(const gs_mechanisms *setting, const gs_fit_value *value) {
    return !value || value_of(setting, value->mechanism) == value->value;
}

/* ---- playing a setting on a recording ---- */

static struct recording recording_of(const gs_run *run) {
    struct recording recording = {.run = run, .is_timed = gs_run_is_timed(run)};
    recording.has_ends = recording.is_timed;
    for (size_t i = 0; i < run->launches.count; i++) {
        recording.has_local = recording.has_local || run->launches.data[i].shape.local_bytes > 0;
        recording.has_ends = recording.has_ends || run->launches.data[i].exit != SIZE_MAX;
    }
    return recording;
}

/* The setting with those switches at their first value that cannot matter to this recording. Without durations it is
   scored up to the first launch that waits, so the queue is never seen; where nothing ends, memory has no holes. */
static gs_mechanisms what_matters(gs_mechanisms setting, const struct recording *recording) {
    if (!recording->is_timed)
        setting.queue = 0;
    if (!recording->has_local)
        setting.local_growth_waits = 0;
    if (!recording->has_ends)
        setting.shared_allocation = setting.registers = 0;
    return setting;
}

static gs_code play(struct search *search, const gs_mechanisms *setting, const gs_run *run, size_t *differs,
                    gs_error *error) {
    search->gpu.mechanisms = *setting;
    return gs_agrees(&search->gpu, run, differs, error);
}

/* Whether a setting agrees with a recording; each question is answered once. */
static gs_code judge(struct search *search, size_t setting, size_t recording, bool *agrees, gs_error *error) {
    uint8_t *verdict = &search->verdicts[setting * search->recording_count + recording];
    if (*verdict == NOT_PLAYED) {
        gs_mechanisms played = what_matters(search->settings[setting].mechanisms, &search->recordings[recording]);
        uint8_t *same = &search->verdicts[setting_number(&search->gpu, &played) * search->recording_count + recording];
        size_t differs = SIZE_MAX;
        if (*same == NOT_PLAYED) {
            gs_code code = play(search, &played, search->recordings[recording].run, &differs, error);
            if (code != GS_OK)
                return code;
            *same = differs == SIZE_MAX ? AGREES : DIFFERS;
        }
        *verdict = *same;
    }
    *agrees = *verdict == AGREES;
    return GS_OK;
}

/* ---- the rounds ---- */

static void move_to_front(size_t *order, size_t at) {
    size_t recording = order[at];
    memmove(order + 1, order, at * sizeof *order);
    order[0] = recording;
}

/* Plays each setting until it differs from a recording, and moves that one to the front, so that the next settings meet
   it early. In the end those that rule out many settings stand before those that rule out few. */
static gs_code sort_recordings(struct search *search, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < search->setting_count && code == GS_OK; i++) {
        bool agrees = true;
        for (size_t at = 0; at < search->recording_count && agrees && code == GS_OK; at++) {
            code = judge(search, i, search->order[at], &agrees, error);
            if (code == GS_OK && !agrees)
                move_to_front(search->order, at);
        }
    }
    return code;
}

/* Plays a setting on until it has failed more often than `allowed`, or all recordings were played. */
static gs_code play_on(struct search *search, size_t number, size_t allowed, gs_error *error) {
    struct setting *setting = &search->settings[number];
    gs_code code = GS_OK;
    while (setting->next < search->recording_count && setting->failures <= allowed && code == GS_OK) {
        bool agrees = true;
        code = judge(search, number, search->order[setting->next], &agrees, error);
        setting->next++;
        setting->failures += !agrees;
    }
    return code;
}

/* The most recordings that a setting with this value (NULL: any setting) agrees with. */
static gs_code find_best(struct search *search, const gs_fit_value *value, int64_t *best, gs_error *error) {
    bool found = false;
    gs_code code = GS_OK;
    for (size_t allowed = 0; !found && code == GS_OK; allowed++) {
        for (size_t i = 0; i < search->setting_count && code == GS_OK; i++) {
            if (!has_value(&search->settings[i].mechanisms, value))
                continue;
            code = play_on(search, i, allowed, error);
            found = found || search->settings[i].failures <= allowed;
        }
        *best = (int64_t)(search->recording_count - allowed);
    }
    return code;
}

/* ---- what the recordings say ---- */

static gs_code collect_settings(const struct search *search, gs_fit *fit, gs_error *error) {
    for (size_t i = 0; i < search->setting_count; i++) {
        const struct setting *setting = &search->settings[i];
        if (setting->failures != (size_t)(fit->recordings - fit->best))
            continue;
        if (!gs_array_reserve((void **)&fit->settings, fit->setting_count, &fit->setting_capacity, 1,
                              sizeof *fit->settings))
            return gs_fail_memory(error);
        fit->settings[fit->setting_count++] = setting->mechanisms;
    }
    return GS_OK;
}

/* Whether no setting with the value agrees with the recording. */
static gs_code rules_out(struct search *search, const gs_fit_value *value, size_t recording, bool *rules,
                         gs_error *error) {
    gs_code code = GS_OK;
    *rules = true;
    for (size_t i = 0; i < search->setting_count && *rules && code == GS_OK; i++) {
        bool agrees = false;
        if (has_value(&search->settings[i].mechanisms, value))
            code = judge(search, i, recording, &agrees, error);
        *rules = !agrees;
    }
    return code;
}

static gs_code find_killer(struct search *search, const gs_fit *fit, gs_fit_value *value, gs_error *error) {
    size_t best = setting_number(&search->gpu, &fit->settings[0]);
    gs_code code = GS_OK;
    for (size_t at = 0; at < search->recording_count && value->killer == SIZE_MAX && code == GS_OK; at++) {
        bool agrees = false, rules = false;
        code = judge(search, best, search->order[at], &agrees, error);
        if (code == GS_OK && agrees)
            code = rules_out(search, value, search->order[at], &rules, error);
        if (code == GS_OK && rules)
            value->killer = search->order[at];
    }
    return code;
}

static gs_code judge_value(struct search *search, const gs_fit *fit, gs_fit_value *value, gs_error *error) {
    for (size_t i = 0; i < fit->setting_count && !value->possible; i++)
        value->possible = has_value(&fit->settings[i], value);
    value->best = fit->best;
    if (value->possible)
        return GS_OK;
    gs_code code = find_best(search, value, &value->best, error);
    return code == GS_OK ? find_killer(search, fit, value, error) : code;
}

static gs_code judge_values(struct search *search, gs_fit *fit, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        int count = count_values(&search->gpu, &gs_mechanism_table[i]);
        for (int value = 0; !gs_mechanism_table[i].is_given && value < count && code == GS_OK; value++) {
            if (!GS_RESERVE(&fit->values, 1))
                return gs_fail_memory(error);
            gs_fit_value *next = &fit->values.data[fit->values.count++];
            *next = (gs_fit_value){.mechanism = &gs_mechanism_table[i], .value = value, .killer = SIZE_MAX};
            code = judge_value(search, fit, next, error);
        }
    }
    return code;
}

/* ---- the decider ---- */

/* The events of a run up to and including a launch, without what was seen. */
static gs_run *copy_until(const gs_run *run, size_t last, const char *gpu, gs_error *error) {
    gs_run *part = gs_run_new(error);
    if (!part)
        return NULL;
    part->gpu = strdup(gpu);
    part->class_name = strdup(run->class_name);
    gs_code code = part->gpu && part->class_name ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i <= run->launches.data[last].event && code == GS_OK; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_LAUNCH)
            code = gs_run_copy_launch(part, &run->launches.data[event->launch], error);
        else if (event->op == GS_EXIT && !gs_run_add_event(part, GS_EXIT, event->launch, error))
            code = GS_E_MEMORY;
    }
    if (code == GS_OK)
        return part;
    gs_run_free(part);
    return NULL;
}

/* Whether this setting and the first of the best may differ on a run like this. */
static bool may_differ(const gs_fit *fit, size_t setting, const struct recording *run) {
    gs_mechanisms first = what_matters(fit->settings[0], run), other = what_matters(fit->settings[setting], run);
    return memcmp(&first, &other, sizeof first) != 0;
}

/* The first launch on which another of the best settings differs from the first of them; SIZE_MAX: none does. A run
   with a kernel that never fits tells nothing: the generator knows no partitions. */
static gs_code compare_settings(struct search *search, const gs_fit *fit, const gs_run *run, size_t *differs,
                                size_t *plays, gs_error *error) {
    struct recording kind = recording_of(run);
    gs_error reason = {.code = GS_OK};
    size_t i = 1;
    while (i < fit->setting_count && !may_differ(fit, i, &kind))
        i++;
    if (i == fit->setting_count)
        return GS_OK;
    search->gpu.mechanisms = fit->settings[0];
    gs_run *played = gs_predict(&search->gpu, run, NULL, &reason);
    if (!played)
        return reason.code == GS_E_NO_FIT ? GS_OK : pass_on(&reason, error);
    gs_code code = GS_OK;
    for (; i < fit->setting_count && *differs == SIZE_MAX && code == GS_OK; i++) {
        if (!may_differ(fit, i, &kind))
            continue;
        code = play(search, &fit->settings[i], played, differs, error);
        ++*plays;
    }
    gs_run_free(played);
    return code;
}

/* Draws runs and keeps the part of one, up to the launch that tells settings apart, that has the fewest launches. */
static gs_code find_decider(struct search *search, uint64_t seed, gs_fit *fit, gs_error *error) {
    static const char *const classes[] = {"plain", "shared", "small", "exits", "local"};
    gs_bounds bounds = gs_bounds_of(&search->gpu, 1);
    size_t shortest = SIZE_MAX, plays = 0;
    gs_code code = GS_OK;
    for (uint64_t i = 0; i < MOST_TRIES && plays < MOST_PLAYS && code == GS_OK; i++) {
        size_t differs = SIZE_MAX;
        gs_run *run = gs_generate(&bounds, classes[i % GS_COUNT(classes)], seed, i, error);
        code = run ? compare_settings(search, fit, run, &differs, &plays, error) : GS_E_MEMORY;
        if (code == GS_OK && differs < shortest) {
            shortest = differs;
            gs_run_free(fit->decider);
            fit->decider = copy_until(run, differs, search->gpu.name, error);
            code = fit->decider ? GS_OK : GS_E_MEMORY;
        }
        gs_run_free(run);
    }
    return code;
}

/* ---- the whole ---- */

/* A run is a recording where it says of every launch that is scored what was seen of it. It must be one that this GPU
   could play at all. */
static gs_code check_recording(const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    bool goes_on = true;
    for (size_t i = 0; i < run->launches.count && goes_on; i++) {
        const gs_launch *launch = &run->launches.data[i];
        const gs_seen *seen = &run->events.data[launch->event].seen;
        if (!seen->has_placed)
            return gs_run_fail(run, launch->event, error, GS_E_FORMAT,
                               "kernel \"%.60s\" has no \"placed\": only recordings can be fitted to", launch->kernel);
        goes_on = gs_seen_started(seen) == launch->blocks;
    }
    gs_error reason = {.code = GS_OK};
    gs_run *predicted = gs_predict(gpu, run, NULL, &reason);
    gs_run_free(predicted);
    return predicted ? GS_OK : pass_on(&reason, error);
}

static gs_code search_init(struct search *search, const gs_gpu *gpu, gs_run *const *recordings, size_t count,
                           gs_error *error) {
    *search = (struct search){.gpu = *gpu, .recording_count = count, .setting_count = 1};
    for (size_t i = 0; i < gs_mechanism_count; i++)
        search->setting_count *= (size_t)count_values(gpu, &gs_mechanism_table[i]);
    search->recordings = calloc(count + 1, sizeof *search->recordings);
    search->settings = calloc(search->setting_count, sizeof *search->settings);
    search->verdicts = calloc(count + 1, search->setting_count);
    search->order = calloc(count + 1, sizeof *search->order);
    if (!search->recordings || !search->settings || !search->verdicts || !search->order)
        return gs_fail_memory(error);
    for (size_t i = 0; i < search->setting_count; i++)
        search->settings[i].mechanisms = setting_at(gpu, i);
    gs_code code = GS_OK;
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        code = check_recording(gpu, recordings[i], error);
        search->recordings[i] = recording_of(recordings[i]);
        search->order[i] = i;
    }
    return code;
}

static void search_free(struct search *search) {
    free(search->recordings);
    free(search->settings);
    free(search->verdicts);
    free(search->order);
}

gs_code gs_fit_run(const gs_gpu *gpu, gs_run *const *recordings, size_t count, uint64_t seed, gs_fit *fit,
                   gs_error *error) {
    struct search search;
    *fit = (gs_fit){.recordings = (int64_t)count};
    gs_code code = search_init(&search, gpu, recordings, count, error);
    fit->tried = (int64_t)search.setting_count;
    if (code == GS_OK)
        code = sort_recordings(&search, error);
    if (code == GS_OK)
        code = find_best(&search, NULL, &fit->best, error);
    if (code == GS_OK)
        code = collect_settings(&search, fit, error);
    if (code == GS_OK)
        code = judge_values(&search, fit, error);
    if (code == GS_OK && fit->setting_count > 1)
        code = find_decider(&search, seed, fit, error);
    search_free(&search);
    return code;
}

void gs_fit_clear(gs_fit *fit) {
    free(fit->settings);
    free(fit->values.data);
    gs_run_free(fit->decider);
    *fit = (gs_fit){0};
}

bool gs_fit_is_undecided(const gs_fit *fit, size_t mechanism) {
    size_t possible = 0;
    for (size_t i = 0; i < fit->values.count; i++)
        if (fit->values.data[i].mechanism == &gs_mechanism_table[mechanism])
            possible += fit->values.data[i].possible;
    return possible > 1;
}
