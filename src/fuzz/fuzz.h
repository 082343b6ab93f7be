/*
 * fuzz.h: campaigns: generate, play, predict, compare, shrink, fit, survey.
 *
 *   gs_journal    the file in which a campaign keeps its recordings (journal.c)
 *   gs_campaign   random runs on a device, each compared with its prediction (campaign.c)
 *   gs_shrink     the smallest run that still differs (shrink.c)
 *   gs_agrees     does a setting of the mechanisms agree with a recording? (agree.c)
 *   gs_fit        which settings of the mechanisms agree with recordings (fit.c)
 *   gs_survey     a description of a GPU from what can be seen of it (survey.c)
 *   gs_measure    how long warps take on a real SM (measure.c)
 */
#ifndef GS_FUZZ_H
#define GS_FUZZ_H

#include "bound/bound.h"
#include "device/device.h"

/* ---- journal: a file of runs that is whole at any moment, one line a run ---- */

typedef struct gs_journal gs_journal;

/* Opens a new file, or with `resume` also one that is there, to go on with it. The caller closes it. */
gs_journal *gs_journal_open(const char *path, bool resume, gs_error *error);
void gs_journal_close(gs_journal *journal);

/* How many whole runs were there when it was opened. */
int64_t gs_journal_runs(const gs_journal *journal);

/* The next of those, and NULL with GS_OK in `error` after the last. The caller frees it. */
gs_run *gs_journal_next(gs_journal *journal, gs_error *error);

/* Cuts off a last line that was not written to its end. Once that is done runs can be added. */
gs_code gs_journal_cut(gs_journal *journal, gs_error *error);

/* Appends a run. Where that fails, nothing of it stays in the file. */
gs_code gs_journal_add(gs_journal *journal, const gs_run *run, gs_error *error);

/* ---- campaign ---- */

typedef struct gs_campaign_options {
    const char *const *classes; /* NULL-terminated; runs take them in turn */
    int64_t count;              /* runs, from `first` on */
    uint64_t seed, first;
    int64_t patient_every; /* each so many runs are played again with long waits; 0: none */
    gs_journal *journal;   /* or NULL: runs that are in it are not played first, the others are added to it */
    /* Called after each run; false stops the campaign (what is done is kept). `recorded` is valid during the call. */
    bool (*done)(void *user, uint64_t index, const gs_run *recorded, bool exact);
    void *user;
} gs_campaign_options;

typedef struct gs_campaign {
    gs_scores scores;
    int64_t played, mismatches;
    int64_t from_journal, uncovered;  /* of those played: read from the journal; not covered by the model, not scored */
    int64_t repeated, repeated_alike; /* mismatches played again, and how many of them the device repeated */
    int64_t patient, patient_alike;   /* runs played again with long waits, and how many were seen alike */
} gs_campaign;

/* Plays the runs of a seed. Where a run is played twice and the two differ, the patient recording is the one that
   counts. GS_E_USAGE: the journal holds other runs than these. Clear the campaign also where it fails. */
gs_code gs_campaign_run(gs_device *device, const gs_gpu *model, const gs_campaign_options *options,
                        gs_campaign *campaign, gs_error *error);
void gs_campaign_clear(gs_campaign *campaign);

/* ---- shrink ---- */

typedef struct gs_shrunk {
    gs_run *seen, *predicted; /* the smallest run found, as the device and as the model play it */
    int64_t played, kept;     /* runs tried on the device, and steps that were kept */
    size_t launch;            /* the first launch that differs */
    gs_text state;            /* the SMs that matter just before it, in words */
} gs_shrunk;

/* Makes `run`, on which device and model differ, smaller as long as they still do: fewer events, fewer blocks, smaller
   numbers; each step is played on the device. Stops after `most_plays`. GS_E_USAGE: they agree on `run` itself, and
   `seen` and `predicted` show it. The caller clears `shrunk`, also after an error. */
gs_code gs_shrink(gs_device *device, const gs_gpu *model, const gs_run *run, int64_t most_plays, gs_shrunk *shrunk,
                  gs_error *error);
void gs_shrunk_clear(gs_shrunk *shrunk);

/* ---- fit ---- */

/* Whether `gpu` would have placed the blocks of a recording as they were seen, by the rules of gs_score_add: SIZE_MAX
   into `*differs`, or else the first launch that is not exact. Stops there, so it is quicker than a prediction. */
gs_code gs_agrees(const gs_gpu *gpu, const gs_run *recorded, size_t *differs, gs_error *error);

/* What the recordings say of one value of one switch. */
typedef struct gs_fit_value {
    const gs_mechanism *mechanism;
    int value;
    bool possible; /* some setting with it is among the best */
    int64_t best;  /* most recordings that any setting with it agrees with */
    size_t killer; /* not possible: a recording (by position) with which the first of the best settings agrees, and no
                      setting with this value; SIZE_MAX: no single recording is enough */
} gs_fit_value;

typedef struct gs_fit {
    int64_t recordings;
    int64_t tried;           /* settings */
    int64_t best;            /* most recordings that any setting agrees with */
    gs_mechanisms *settings; /* all that agree with so many */
    size_t setting_count, setting_capacity;
    struct {
        gs_fit_value *data; /* the values of a switch stand together, in the order of gs_mechanism_table */
        size_t count, capacity;
    } values;
    gs_run *decider; /* a run whose last launch the best settings place differently; NULL: none found, or one setting */
} gs_fit;

/* Tries all settings of the mechanisms of `gpu` on the recordings. What its description says of them plays no part, but
   for a listed tie order, which is tried where there is one. The decider is drawn by `seed`. */
gs_code gs_fit_run(const gs_gpu *gpu, gs_run *const *recordings, size_t count, uint64_t seed, gs_fit *fit,
                   gs_error *error);
void gs_fit_clear(gs_fit *fit);

/* Whether a switch, by its number in gs_mechanism_table, has more than one possible value. */
bool gs_fit_is_undecided(const gs_fit *fit, size_t mechanism);

/* ---- survey ---- */

typedef struct gs_survey_options {
    const char *name; /* of the description; NULL: that of the device's GPU, with the start of its UUID if it has one */
    const char *date; /* for its `source`, or NULL */
    int64_t runs;     /* random runs to record */
    uint64_t seed;
    /* Called now and then with what is being measured; `total` 0: how much there is to do is not known. May be NULL. */
    void (*tell)(void *user, const char *step, int64_t done, int64_t total);
    void *user;
} gs_survey_options;

typedef struct gs_survey {
    gs_gpu *gpu;                      /* the description */
    int32_t order_plays, order_alike; /* how often the tie order was measured, and how often it was this one */
    int tie_order;      /* as single blocks showed it; gpu->mechanisms has another where no best setting has this */
    int32_t unseen_sms; /* the last so many of the tie order never got a block of their own */
    int64_t pairs, neighbours; /* clusters of two that were seen, and those on SMs 2k and 2k+1 */
    gs_fit fit;                /* to the random runs and `deciders` further ones */
    int32_t deciders;          /* runs that were recorded because settings differ on them */
    gs_scores scores;          /* of the description, on all these runs */
} gs_survey;

/* Measures a GPU. Its limits are those of the device's description; of mechanisms that says nothing here. The caller
   clears the survey, also after an error. */
gs_code gs_survey_run(gs_device *device, const gs_survey_options *options, gs_survey *survey, gs_error *error);
void gs_survey_clear(gs_survey *survey);

/* ---- a real SM ---- */

typedef struct gs_measure_options {
    int64_t count; /* configurations */
    uint64_t seed;
    void (*progress)(void *user, int64_t done, int64_t total); /* may be NULL */
    void *user;
} gs_measure_options;

/* Measures the latencies of a GPU, and random configurations of the paper's program on it. */
gs_code gs_measure(gs_device *device, const gs_measure_options *options, gs_measured *measured, gs_error *error);

#endif
