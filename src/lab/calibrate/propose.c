/*
 * propose.c: a run on which settings of the mechanisms differ.
 *
 * Random runs are drawn and predicted with the first setting; then the others are compared with that, as if it were a
 * recording. If one differs, the part of the run up to the launch that tells them apart is kept, and in the end the run
 * with the fewest launches is proposed. Runs that are quick to play, and repeatable on a real GPU, are tried first:
 *
 *   runs without durations   all switches that matter to them
 *   runs with durations      the queue, and how long a configuration is kept: effects of kernels that have waited
 *   block by block           the numbering
 */
#include "settings.h"

#include <stdlib.h>
#include <string.h>

struct proposal {
    gs_gpu gpu; /* shares the arrays of the caller's; its mechanisms are set before each play */
    const gs_mechanisms *settings;
    size_t count;
    gs_alike alike;
    size_t plays;
    gs_run *run; /* the best so far, or NULL */
};

/* Compares settings on a run: the launch on which two differ into `*differs`, or SIZE_MAX. */
typedef gs_code compare_settings(struct proposal *proposal, const gs_run *run, size_t *differs, gs_error *error);

/* ---- comparing ---- */

/* The run as a setting plays it. NULL with GS_OK: a kernel of it never fits, because the generator ignores
   partitions. */
static gs_code predict_setting(struct proposal *proposal, const gs_mechanisms *setting, const gs_run *run,
                               gs_run **predicted, gs_error *error) {
    gs_error reason = {.code = GS_OK};
    proposal->gpu.mechanisms = *setting;
    *predicted = gs_predict(&proposal->gpu, run, NULL, &reason);
    if (*predicted || reason.code == GS_E_NO_FIT)
        return GS_OK;
    if (error)
        *error = reason;
    return reason.code;
}

/* The next setting that is played itself on runs of this kind. */
static size_t next_setting(const struct proposal *proposal, unsigned kind, size_t after) {
    size_t i = after + 1;
    while (i < proposal->count && proposal->alike.first[kind][i] != i)
        i++;
    return i;
}

static gs_code compare_counts(struct proposal *proposal, const gs_run *run, size_t *differs, gs_error *error) {
    unsigned kind = gs_kind_of(run);
    gs_run *predicted = NULL;
    size_t i = next_setting(proposal, kind, 0);
    *differs = SIZE_MAX;
    gs_code code =
        i < proposal->count ? predict_setting(proposal, &proposal->settings[0], run, &predicted, error) : GS_OK;
    for (; predicted && i < proposal->count && *differs == SIZE_MAX && code == GS_OK;
         i = next_setting(proposal, kind, i)) {
        proposal->gpu.mechanisms = proposal->settings[i];
        code = gs_agrees(&proposal->gpu, predicted, false, differs, error);
        proposal->plays++;
    }
    gs_run_free(predicted);
    return code;
}

/* The starting state of a GPU that numbers blocks by grant is not known. So the check is whether it could have numbered
   them so from any state. */
static gs_code compare_numbers(struct proposal *proposal, const gs_run *run, size_t *differs, gs_error *error) {
    gs_mechanisms setting = proposal->settings[0];
    gs_run *predicted = NULL;
    *differs = SIZE_MAX;
    setting.numbering = GS_NUMBERED_AS_PLACED;
    gs_code code = predict_setting(proposal, &setting, run, &predicted, error);
    if (predicted) {
        proposal->gpu.mechanisms.numbering = GS_NUMBERED_BY_GRANT;
        code = gs_agrees(&proposal->gpu, predicted, true, differs, error);
        proposal->plays++;
    }
    gs_run_free(predicted);
    return code;
}

/* ---- drawing ---- */

/* The events of a run up to and including a launch, without observations. */
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

/* Keeps the part of a run up to a launch, if settings differ on its last launch. With durations they need not: a launch
   can depend on later ones. */
static gs_code keep_part(struct proposal *proposal, compare_settings *compare, const gs_run *run, size_t last,
                         gs_error *error) {
    gs_run *part = copy_until(run, last, proposal->gpu.name, error);
    size_t differs = SIZE_MAX;
    gs_code code = part ? compare(proposal, part, &differs, error) : GS_E_MEMORY;
    if (code == GS_OK && differs == last) {
        gs_run *before = proposal->run;
        proposal->run = part;
        part = before;
    }
    gs_run_free(part);
    return code;
}

struct draw {
    const char *classes[6]; /* NULL-terminated; runs cycle through them */
    uint64_t enough, most;  /* runs to draw: if one of them can be proposed, and if none can */
    size_t plays;           /* how often settings may be played on them */
    compare_settings *compare;
};

static const struct draw draws[] = {
    {{"plain", "shared", "small", "exits", "local"}, 2000, 2000, 20000, compare_counts},
    {{"timed"}, 40, 400, 800, compare_counts},
    {{"plain", "shared", "small"}, 20, 100, 100, compare_numbers},
};

/* Draws a run. Only a run shorter than the best so far can be proposed, so the rest of it is left out, unless the
   launches before it depend on it. */
static gs_run *draw_run(const struct proposal *proposal, const gs_bounds *bounds, const char *class_name, uint64_t seed,
                        uint64_t index, gs_error *error) {
    gs_run *run = gs_generate(bounds, class_name, seed, index, error);
    size_t best = proposal->run ? proposal->run->launches.count : SIZE_MAX;
    if (!run || run->launches.count < best || gs_run_is_timed(run))
        return run;
    gs_run *part = copy_until(run, best - 2, proposal->gpu.name, error);
    gs_run_free(run);
    return part;
}

/* Draws until nothing shorter can be found, or enough was drawn. */
static gs_code draw_runs(struct proposal *proposal, const struct draw *draw, uint64_t seed, gs_error *error) {
    gs_bounds bounds = gs_bounds_of(&proposal->gpu, 1);
    size_t classes = 0, shortest = SIZE_MAX;
    gs_code code = GS_OK;
    while (draw->classes[classes])
        classes++;
    proposal->plays = 0;
    for (uint64_t i = 0; i < (proposal->run ? draw->enough : draw->most) && shortest > 1 && code == GS_OK; i++) {
        size_t differs = SIZE_MAX;
        gs_run *run = draw_run(proposal, &bounds, draw->classes[i % classes], seed, i, error);
        code = run ? draw->compare(proposal, run, &differs, error) : GS_E_MEMORY;
        if (code == GS_OK && differs != SIZE_MAX && differs + 1 < shortest)
            code = keep_part(proposal, draw->compare, run, differs, error);
        shortest = proposal->run ? proposal->run->launches.count : SIZE_MAX;
        gs_run_free(run);
        if (proposal->plays > draw->plays)
            break;
    }
    return code;
}

static bool is_numbering_open(const gs_mechanisms *settings, size_t count) {
    size_t i = 1;
    while (i < count && settings[i].numbering == settings[0].numbering)
        i++;
    return i < count;
}

gs_code gs_propose(const gs_gpu *gpu, const gs_mechanisms *settings, size_t count, uint64_t seed, gs_run **decider,
                   gs_error *error) {
    struct proposal proposal = {.gpu = *gpu, .settings = settings, .count = count};
    gs_code code = gs_alike_init(&proposal.alike, gpu, settings, count, false, error);
    for (size_t i = 0; i < GS_COUNT(draws) && !proposal.run && code == GS_OK; i++)
        if (draws[i].compare != compare_numbers || is_numbering_open(settings, count))
            code = draw_runs(&proposal, &draws[i], seed, error);
    gs_alike_clear(&proposal.alike);
    *decider = proposal.run;
    return code;
}
