/*
 * fit.c: which settings of the mechanisms agree with recordings.
 *
 * A setting is one value for each switch; all of them are tried. The search goes in rounds: in each, every setting
 * continues until it disagrees once more than allowed in the round before. The first round in which a setting gets
 * through all recordings ends the search: all settings that got through are the best, and no setting was played longer
 * than necessary to see that it is worse. The best with each value of a switch is found in the same way, among the
 * settings that have the value. Recordings that rule many settings out are played first (sort_recordings), and settings
 * that a recording cannot tell apart are played once (settings.c). Most settings are wrong from the first launch on,
 * where most switches do not matter yet: if a setting differs, so do all that behave alike up to there.
 *
 * There are two searches. All switches except the numbering determine how many blocks go to each SM, and are judged by
 * that. The numbering determines which block is which: it is judged block by block, in a second search among the
 * settings that agree best by counts. So observations that no numbering explains do not count against other switches.
 *
 * Within a round settings are independent, so several threads play them. The result does not depend on the number of
 * threads: verdicts are deterministic, and the first setting in the list wins.
 */
#define _GNU_SOURCE
#include "settings.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum verdict { NOT_PLAYED, AGREES, DIFFERS };

struct recording {
    const gs_run *run;
    unsigned kind;
};

struct progress {
    size_t next;     /* the position of the setting in the order of recordings */
    size_t failures; /* how many recordings before that it differs from */
};

/* A thread that plays: its GPU shares the arrays of the caller's; its mechanisms are set before each play. */
struct player {
    gs_gpu gpu;
    gs_progress *shown; /* the progress display, or NULL */
};

struct search {
    const gs_gpu *gpu;
    struct player player; /* of the caller's thread */
    bool block_by_block;
    const struct recording *recordings;
    size_t recording_count;
    gs_mechanisms *settings;
    size_t setting_count;
    gs_alike alike;
    atomic_llong plays;
    struct progress *progress;  /* by setting */
    _Atomic(uint8_t) *verdicts; /* by setting and recording */
    _Atomic(uint16_t) *early;   /* by setting and recording, a bit for each kind: all settings alike to it differ */
    _Atomic(uint16_t) *kinds;   /* by recording: the kinds that are in `early` for any setting */
    size_t *order;              /* in which recordings are played */
    int64_t best;               /* the most recordings that a setting agrees with */
    size_t winner;              /* the first such setting */
};

/* ---- playing a setting on a recording ---- */

static _Atomic(uint8_t) *verdict_of(const struct search *search, size_t setting, size_t recording) {
    return &search->verdicts[setting * search->recording_count + recording];
}

/* A setting differs from the beginning of a recording, which is of this kind. So do all settings that it cannot tell
   apart. */
static void rule_out(struct search *search, size_t setting, size_t recording, unsigned kind) {
    size_t first = search->alike.first[kind][setting];
    search->early[first * search->recording_count + recording] |= (uint16_t)(1 << kind);
    search->kinds[recording] |= (uint16_t)(1 << kind);
}

static bool is_ruled_out(const struct search *search, size_t setting, size_t recording) {
    unsigned kinds = search->kinds[recording];
    for (unsigned kind = 0; kinds >> kind; kind++) {
        size_t first = search->alike.first[kind][setting];
        if (kinds >> kind & search->early[first * search->recording_count + recording] >> kind & 1)
            return true;
    }
    return false;
}

static gs_code play_recording(struct search *search, struct player *player, size_t setting, size_t recording,
                              enum verdict *verdict, gs_error *error) {
    size_t differs = SIZE_MAX;
    unsigned kind = 0;
    player->gpu.mechanisms = search->settings[setting];
    gs_code code = gs_agrees_until(&player->gpu, search->recordings[recording].run, search->block_by_block, &differs,
                                   &kind, error);
    if (code != GS_OK)
        return code;
    if (differs != SIZE_MAX)
        rule_out(search, setting, recording, kind);
    *verdict = differs == SIZE_MAX ? AGREES : DIFFERS;
    search->plays++;
    gs_progress_say(player->shown, "%lld runs played, %zu recordings, %zu settings", (long long)search->plays,
                    search->recording_count, search->setting_count);
    return GS_OK;
}

/* Whether a setting agrees with a recording; each combination is played once. */
static gs_code judge_setting(struct search *search, struct player *player, size_t setting, size_t recording,
                             bool *agrees, gs_error *error) {
    _Atomic(uint8_t) *verdict = verdict_of(search, setting, recording);
    if (*verdict == NOT_PLAYED) {
        size_t first = search->alike.first[search->recordings[recording].kind][setting];
        enum verdict same = *verdict_of(search, first, recording);
        gs_code code = GS_OK;
        if (same == NOT_PLAYED && is_ruled_out(search, first, recording))
            same = DIFFERS;
        else if (same == NOT_PLAYED)
            code = play_recording(search, player, first, recording, &same, error);
        if (code != GS_OK)
            return code;
        *verdict_of(search, first, recording) = same;
        *verdict = same;
    }
    *agrees = *verdict == AGREES;
    return GS_OK;
}

/* ---- the rounds ---- */

static void move_up(size_t *order, size_t from, size_t to) {
    size_t recording = order[from];
    memmove(order + to + 1, order + to, (from - to) * sizeof *order);
    order[to] = recording;
}

static bool is_timed(const struct search *search, size_t recording) {
    return search->recordings[recording].kind & GS_KIND_TIMED;
}

/* Plays each setting until it differs from a recording, and moves that one to the front, so that the next settings meet
   it early. In the end recordings that rule out many settings come before those that rule out few. Recordings with
   durations take long, and stay after all others. */
static gs_code sort_recordings(struct search *search, gs_error *error) {
    gs_code code = GS_OK;
    size_t untimed = 0;
    for (size_t i = 0; i < search->recording_count; i++)
        if (!is_timed(search, search->order[i]))
            move_up(search->order, i, untimed++);
    for (size_t i = 0; i < search->setting_count && code == GS_OK; i++) {
        bool agrees = true;
        for (size_t at = 0; at < search->recording_count && agrees && code == GS_OK; at++) {
            code = judge_setting(search, &search->player, i, search->order[at], &agrees, error);
            if (code == GS_OK && !agrees)
                move_up(search->order, at, at < untimed ? 0 : untimed);
        }
    }
    return code;
}

/* Continues a setting until it has failed more often than `allowed`, or all recordings were played. */
static gs_code play_on(struct search *search, struct player *player, size_t setting, size_t allowed, gs_error *error) {
    struct progress *progress = &search->progress[setting];
    gs_code code = GS_OK;
    while (progress->next < search->recording_count && progress->failures <= allowed && code == GS_OK) {
        bool agrees = true;
        code = judge_setting(search, player, setting, search->order[progress->next], &agrees, error);
        progress->next++;
        progress->failures += !agrees;
    }
    return code;
}

static bool has_value(const gs_mechanisms *setting, const gs_fit_value *value) {
    gs_mechanisms copy = *setting;
    return !value || *gs_mechanism_value(&copy, value->mechanism) == value->value;
}

/* ---- threads ---- */

/* Shared by the threads of a round. */
struct round {
    struct search *search;
    const gs_fit_value *value;
    size_t allowed;
    atomic_size_t next;  /* the next setting */
    atomic_bool is_over; /* a setting got through, and no other is needed */
    bool needs_all;
};

static bool has_work(const struct round *round, size_t setting) {
    const struct search *search = round->search;
    return search->progress[setting].failures <= round->allowed &&
           search->progress[setting].next < search->recording_count &&
           has_value(&search->settings[setting], round->value);
}

static void play_round(struct round *round, struct player *player) {
    struct search *search = round->search;
    gs_error error = {.code = GS_OK}; /* find_best reports it */
    for (size_t i; !round->is_over && (i = round->next++) < search->setting_count;) {
        if (!has_work(round, i))
            continue;
        gs_code code = play_on(search, player, i, round->allowed, &error);
        if (code != GS_OK || (!round->needs_all && search->progress[i].failures <= round->allowed))
            round->is_over = true;
    }
}

static void *play_in_thread(void *given) {
    struct round *round = given;
    struct player player = {.gpu = *round->search->gpu};
    play_round(round, &player);
    return NULL;
}

/* How many threads are worth starting, besides the caller's. */
static size_t helpers_for(const struct round *round) {
    enum { LEAST = 32, MOST_THREADS = 63 }; /* settings for each thread */
    size_t work = 0;
    for (size_t i = 0; i < round->search->setting_count; i++)
        work += has_work(round, i);
    cpu_set_t allowed;
    int64_t cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    return (size_t)gs_min(gs_min(gs_max(cores - 1, 0), MOST_THREADS), (int64_t)(work / LEAST));
}

static void play_together(struct search *search, const gs_fit_value *value, size_t allowed) {
    struct round round = {
        .search = search, .value = value, .allowed = allowed, .needs_all = !value && !search->block_by_block};
    pthread_t threads[64];
    size_t count = 0, wanted = helpers_for(&round);
    while (count < wanted && pthread_create(&threads[count], NULL, play_in_thread, &round) == 0)
        count++;
    if (count)
        play_round(&round, &search->player);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* The most recordings that a setting with this value (NULL: any setting) agrees with, and the first setting that does.
   Equally good settings are played to the end only if all settings by counts are requested. */
static gs_code find_best(struct search *search, const gs_fit_value *value, int64_t *best, size_t *winner,
                         gs_error *error) {
    gs_code code = GS_OK;
    *winner = SIZE_MAX;
    for (size_t allowed = 0; *winner == SIZE_MAX && allowed <= search->recording_count && code == GS_OK; allowed++) {
        play_together(search, value, allowed);
        for (size_t i = 0; i < search->setting_count && code == GS_OK; i++) {
            if (!has_value(&search->settings[i], value))
                continue;
            code = play_on(search, &search->player, i, allowed, error);
            if (code != GS_OK || search->progress[i].failures > allowed)
                continue;
            *winner = *winner == SIZE_MAX ? i : *winner;
            if (value || search->block_by_block)
                break;
        }
        *best = (int64_t)(search->recording_count - allowed);
    }
    return code;
}

static bool is_best(const struct search *search, size_t setting) {
    return search->progress[setting].failures == search->recording_count - (size_t)search->best;
}

/* ---- evidence about each value ---- */

/* Whether no setting with the value agrees with the recording. */
static gs_code rules_out(struct search *search, const gs_fit_value *value, size_t recording, bool *rules,
                         gs_error *error) {
    gs_code code = GS_OK;
    *rules = true;
    for (size_t i = 0; i < search->setting_count && *rules && code == GS_OK; i++) {
        bool agrees = false;
        if (has_value(&search->settings[i], value))
            code = judge_setting(search, &search->player, i, recording, &agrees, error);
        *rules = !agrees;
    }
    return code;
}

static gs_code find_killer(struct search *search, gs_fit_value *value, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t at = 0; at < search->recording_count && value->killer == SIZE_MAX && code == GS_OK; at++) {
        bool agrees = false, rules = false;
        code = judge_setting(search, &search->player, search->winner, search->order[at], &agrees, error);
        if (code == GS_OK && agrees)
            code = rules_out(search, value, search->order[at], &rules, error);
        if (code == GS_OK && rules)
            value->killer = search->order[at];
    }
    return code;
}

static gs_code judge_value(struct search *search, gs_fit_value *value, gs_error *error) {
    size_t winner;
    gs_code code = find_best(search, value, &value->best, &winner, error);
    value->possible = value->best == search->best;
    return code == GS_OK && !value->possible ? find_killer(search, value, error) : code;
}

/* A search judges the numbering, or all other switches. */
static gs_code judge_values(struct search *search, gs_fit *fit, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < gs_mechanism_count; i++) {
        const gs_mechanism *mechanism = &gs_mechanism_table[i];
        int count = gs_setting_values(search->gpu, mechanism);
        if (gs_fit_is_by_block(mechanism) != search->block_by_block)
            continue;
        for (int value = 0; value < count && code == GS_OK; value++) {
            if (!GS_RESERVE(&fit->values, 1))
                return gs_fail_memory(error);
            gs_fit_value *next = &fit->values.data[fit->values.count++];
            *next = (gs_fit_value){.mechanism = mechanism, .value = value, .killer = SIZE_MAX};
            code = judge_value(search, next, error);
        }
    }
    return code;
}

/* ---- a search ---- */

/* With space for `settings` settings, which the caller lists. */
static gs_code search_init(struct search *search, const gs_gpu *gpu, const struct recording *recordings, size_t count,
                           size_t settings, gs_error *error) {
    *search = (struct search){.gpu = gpu, .player = {.gpu = *gpu}, .recordings = recordings, .recording_count = count};
    search->settings = calloc(settings, sizeof *search->settings);
    search->progress = calloc(settings, sizeof *search->progress);
    search->verdicts = calloc(count + 1, settings);
    search->early = calloc(count + 1, settings * sizeof *search->early);
    search->kinds = calloc(count + 1, sizeof *search->kinds);
    search->order = calloc(count + 1, sizeof *search->order);
    if (!search->settings || !search->progress || !search->verdicts || !search->early || !search->kinds ||
        !search->order)
        return gs_fail_memory(error);
    for (size_t i = 0; i < count; i++)
        search->order[i] = i;
    return GS_OK;
}

static void search_free(struct search *search) {
    gs_alike_clear(&search->alike);
    free(search->settings);
    free(search->progress);
    free(search->verdicts);
    free(search->early);
    free(search->kinds);
    free(search->order);
}

static gs_code search_run(struct search *search, gs_fit *fit, gs_error *error) {
    gs_code code = gs_alike_init(&search->alike, search->gpu, search->settings, search->setting_count,
                                 search->block_by_block, error);
    if (code == GS_OK && !search->block_by_block)
        code = sort_recordings(search, error);
    if (code == GS_OK)
        code = find_best(search, NULL, &search->best, &search->winner, error);
    return code == GS_OK ? judge_values(search, fit, error) : code;
}

/* All settings, each once: the numbering of blocks does not matter. */
static gs_code search_by_counts(struct search *search, gs_fit *fit, gs_error *error) {
    for (size_t i = 0; i < (size_t)fit->tried; i++) {
        gs_mechanisms setting = gs_setting_at(search->gpu, i);
        if (setting.numbering == GS_NUMBERED_AS_PLACED)
            search->settings[search->setting_count++] = setting;
    }
    gs_code code = search_run(search, fit, error);
    fit->best = search->best;
    return code;
}

static size_t count_best(const struct search *search) {
    size_t count = 0;
    for (size_t i = 0; i < search->setting_count; i++)
        count += is_best(search, i);
    return count;
}

/* The best settings by counts, each with each numbering. A difference by counts is also one block by block. */
static gs_code search_by_blocks(struct search *search, const struct search *by_counts, int numberings, gs_fit *fit,
                                gs_error *error) {
    search->block_by_block = true;
    for (size_t i = 0; i < by_counts->setting_count; i++)
        for (int numbering = 0; is_best(by_counts, i) && numbering < numberings; numbering++) {
            size_t setting = search->setting_count++;
            search->settings[setting] = by_counts->settings[i];
            search->settings[setting].numbering = numbering;
            for (size_t k = 0; k < search->recording_count; k++)
                if (*verdict_of(by_counts, i, k) == DIFFERS)
                    *verdict_of(search, setting, k) = DIFFERS;
        }
    return search_run(search, fit, error);
}

/* ---- recordings ---- */

/* A run is a recording if it has observations of every launch that counts. This GPU must be able to play it. */
static gs_code check_recording(const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    bool goes_on = true;
    for (size_t i = 0; i < run->launches.count && goes_on; i++) {
        const gs_launch *launch = &run->launches.data[i];
        const gs_seen *seen = run->events.data[launch->event].seen;
        if (!seen->has_placed)
            return gs_run_fail(run, launch->event, error, GS_E_FORMAT,
                               "kernel \"%.60s\" has no \"placed\": only recordings can be fitted to", launch->kernel);
        goes_on = gs_seen_started(seen) == launch->blocks;
    }
    gs_error reason = {.code = GS_OK};
    gs_run *predicted = gs_predict(gpu, run, NULL, &reason);
    gs_run_free(predicted);
    if (!predicted && error)
        *error = reason;
    return predicted ? GS_OK : reason.code;
}

/* Clusters are modeled only if blocks are numbered by grant. */
static gs_code list_recordings(const gs_gpu *gpu, gs_run *const *runs, size_t count, struct recording *recordings,
                               gs_error *error) {
    gs_gpu playing = *gpu;
    gs_code code = GS_OK;
    if (gpu->grants.groups.count)
        playing.mechanisms.numbering = GS_NUMBERED_BY_GRANT;
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        code = check_recording(&playing, runs[i], error);
        recordings[i] = (struct recording){runs[i], gs_kind_of(runs[i])};
    }
    return code;
}

/* ---- the whole ---- */

static bool is_possible(const gs_fit *fit, const gs_mechanisms *setting) {
    for (size_t i = 0; i < fit->values.count; i++)
        if (gs_fit_is_by_block(fit->values.data[i].mechanism) && has_value(setting, &fit->values.data[i]))
            return fit->values.data[i].possible;
    return true;
}

/* The settings that agree best by counts, with each numbering that agrees best block by block. */
static gs_code collect_settings(const struct search *by_blocks, gs_fit *fit, gs_error *error) {
    fit->settings = calloc(by_blocks->setting_count, sizeof *fit->settings);
    if (!fit->settings)
        return gs_fail_memory(error);
    for (size_t i = 0; i < by_blocks->setting_count; i++)
        if (is_possible(fit, &by_blocks->settings[i]))
            fit->settings[fit->setting_count++] = by_blocks->settings[i];
    return GS_OK;
}

static gs_code search_both(const gs_gpu *gpu, const struct recording *recordings, size_t count, gs_progress *shown,
                           gs_fit *fit, gs_error *error) {
    struct search by_counts, by_blocks = {0};
    int numberings = gs_setting_values(gpu, gs_mechanism_find("numbering"));
    gs_code code = search_init(&by_counts, gpu, recordings, count, (size_t)(fit->tried / numberings), error);
    by_counts.player.shown = shown;
    if (code == GS_OK)
        code = search_by_counts(&by_counts, fit, error);
    if (code == GS_OK)
        code = search_init(&by_blocks, gpu, recordings, count, count_best(&by_counts) * (size_t)numberings, error);
    by_blocks.player.shown = shown;
    if (code == GS_OK)
        code = search_by_blocks(&by_blocks, &by_counts, numberings, fit, error);
    if (code == GS_OK)
        code = collect_settings(&by_blocks, fit, error);
    search_free(&by_counts);
    search_free(&by_blocks);
    return code;
}

gs_code gs_fit_run(const gs_gpu *gpu, gs_run *const *recordings, size_t count, uint64_t seed, gs_progress *progress,
                   gs_fit *fit, gs_error *error) {
    *fit = (gs_fit){.recordings = (int64_t)count, .tried = (int64_t)gs_setting_count(gpu)};
    struct recording *list = calloc(count + 1, sizeof *list);
    gs_code code = list ? list_recordings(gpu, recordings, count, list, error) : gs_fail_memory(error);
    if (code == GS_OK)
        code = search_both(gpu, list, count, progress, fit, error);
    if (code == GS_OK && fit->setting_count > 1)
        code = gs_propose(gpu, fit->settings, fit->setting_count, seed, &fit->decider, error);
    free(list);
    return code;
}

void gs_fit_clear(gs_fit *fit) {
    free(fit->settings);
    free(fit->values.data);
    gs_run_free(fit->decider);
    *fit = (gs_fit){0};
}

/* ---- queries ---- */

bool gs_fit_is_by_block(const gs_mechanism *mechanism) {
    return mechanism->offset == offsetof(gs_mechanisms, numbering);
}

static size_t count_values(const gs_fit *fit, const gs_mechanism *mechanism, bool possible) {
    size_t count = 0;
    for (size_t i = 0; i < fit->values.count; i++) {
        const gs_fit_value *value = &fit->values.data[i];
        count += value->mechanism == mechanism && (value->possible || !possible);
    }
    return count;
}

size_t gs_fit_put_undecided(gs_text *text, const gs_fit *fit) {
    size_t count = 0;
    for (size_t i = 0; i < gs_mechanism_count; i++)
        if (gs_fit_is_undecided(fit, i))
            gs_text_add(text, "%s%s", count++ ? ", " : "", gs_mechanism_table[i].name);
    return count;
}

bool gs_fit_is_undecided(const gs_fit *fit, size_t mechanism) {
    return count_values(fit, &gs_mechanism_table[mechanism], true) > 1;
}

const char *gs_fit_verdict(const gs_fit *fit, const gs_fit_value *value) {
    if (!value->best && fit->recordings)
        return "agrees with no recording";
    if (count_values(fit, value->mechanism, true) > 1)
        return "undecided";
    if (count_values(fit, value->mechanism, false) == 1)
        return "the only value that can be tried";
    return value->best == fit->recordings ? "the recordings say so" : "does best";
}
