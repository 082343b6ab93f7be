/*
 * calibrate.h: the description of a GPU, from measurements.
 *
 *   gs_agrees     whether a setting of the mechanisms agrees with a recording (agree.c)
 *   gs_fit        the settings of the mechanisms that agree with recordings (fit.c, settings.c), and a run on
 *                 which the remaining ones differ (propose.c)
 *   gs_survey     measures a GPU and makes its description (survey.c, grants.c, cuts.c)
 *   gs_gpu_pack   a file with all measurements of a GPU: made on the GPU's machine (pack_make.c, pack_tape.c),
 *                 read and checked (pack_read.c), and turned into a description elsewhere (pack_adopt.c)
 *   gs_measure    measures durations of warps on a real SM (measure.c)
 *   gs_measure_machine  measures how long the instructions of warps take (latency.c)
 */
#ifndef GS_CALIBRATE_H
#define GS_CALIBRATE_H

#include "lab/fuzz/fuzz.h"
#include "model/bound/bound.h"
#include "model/timeline/timeline.h"

/* ---- fit ---- */

/* Whether `gpu` places the blocks of a recording as observed, by the rules of gs_score_add. Sets `*differs` to
   SIZE_MAX if so, otherwise to a launch that is wrong; without durations, to the first. Stops there, so it is faster
   than a prediction. By counts the right number of blocks must be on every SM, with any numbering that the description
   allows; block by block each block on its SM, by the numbering of `gpu`, from any state of its turns. A recording that
   `gpu` cannot play differs. */
gs_code gs_agrees(const gs_gpu *gpu, const gs_run *recorded, bool block_by_block, size_t *differs, gs_error *error);

/* The evidence of the recordings about one value of one switch. */
typedef struct gs_fit_value {
    const gs_mechanism *mechanism;
    int value;
    bool possible; /* one of the best settings has it */
    int64_t best;  /* the most recordings that a setting with it agrees with; of a numbering, block by block */
    size_t killer; /* not possible: a recording (by position) with which the first of the best settings agrees, and no
                      setting with this value; SIZE_MAX: no single recording is enough. Of a numbering, block by block,
                      among the best settings by counts */
} gs_fit_value;

typedef struct gs_fit {
    int64_t recordings;
    int64_t tried;           /* settings */
    int64_t best;            /* the most recordings that a setting agrees with, by counts */
    gs_mechanisms *settings; /* all settings that agree with `best` recordings, with each possible numbering */
    size_t setting_count;
    struct {
        gs_fit_value *data; /* grouped by switch, in the order of gs_mechanism_table */
        size_t count, capacity;
    } values;
    gs_run *decider; /* a run whose last launch the best settings place or number differently; NULL: none found, or one
                        setting */
} gs_fit;

/* Tries all settings of the mechanisms of `gpu` on the recordings. The mechanisms of its description are ignored,
   except for lists: a listed tie order is tried if there is one, numbering by grant if grants are described. The
   numbering is judged block by block, among the settings that agree best by counts. The decider is drawn by `seed`. */
gs_code gs_fit_run(const gs_gpu *gpu, gs_run *const *recordings, size_t count, uint64_t seed, gs_progress *progress,
                   gs_fit *fit, gs_error *error);
void gs_fit_clear(gs_fit *fit);

/* Whether a switch is judged block by block: the numbering is. */
bool gs_fit_is_by_block(const gs_mechanism *mechanism);

/* Whether a switch, by its number in gs_mechanism_table, has more than one possible value. */
bool gs_fit_is_undecided(const gs_fit *fit, size_t mechanism);
/* Appends the names of those that are, and returns how many there are. */
size_t gs_fit_put_undecided(gs_text *text, const gs_fit *fit);

/* The evidence for a possible value, in words. */
const char *gs_fit_verdict(const gs_fit *fit, const gs_fit_value *value);

/* ---- survey ---- */

typedef struct gs_survey_options {
    const char *name; /* of the description; NULL: that of the device's GPU, with the start of its UUID if known */
    const char *date; /* for its `source`, or NULL */
    int64_t runs;     /* random runs to record */
    uint64_t seed;
    gs_run *const *recordings; /* fitted instead of random runs; then no further runs are recorded; NULL: none */
    size_t recording_count;
    bool (*is_late)(void *user); /* true: no further random runs and no deciders; may be NULL */
    /* Called periodically with the current step; `total` 0: not known. May be NULL. */
    void (*progress)(void *user, const char *step, int64_t done, int64_t total);
    void *user;
} gs_survey_options;

/* The measured numbering of blocks. */
typedef struct gs_grants_found {
    int32_t groups;      /* of SMs; 0: blocks are not numbered by groups */
    int32_t unexplained; /* SMs whose launches no number of grants before a cut round explains */
    int32_t open;        /* SMs for which several numbers do; the one nearest to that of their neighbors was taken */
} gs_grants_found;

typedef struct gs_survey {
    gs_gpu *gpu;                      /* the description */
    int32_t order_plays, order_alike; /* how often the tie order was measured, and how often it was this one */
    int tie_order;      /* as measured with single blocks; gpu->mechanisms has another if no best setting has this */
    int32_t unseen_sms; /* the number of SMs at the end of the tie order that never got their own block */
    int64_t pairs, neighbors; /* observed clusters of two, and those of them on SMs 2k and 2k+1 */
    gs_grants_found grants;
    gs_fit fit;       /* to the random runs and the deciders */
    int32_t deciders; /* runs recorded because settings differ on them */
    gs_scores scores; /* of the description, on all these runs */
} gs_survey;

/* Measures a GPU. Takes the limits from the device's description, but not the mechanisms. The caller clears the survey,
   even after an error. */
gs_code gs_survey_run(gs_device *device, const gs_survey_options *options, gs_survey *survey, gs_error *error);
void gs_survey_clear(gs_survey *survey);

/* ---- packs ---- */

#define GS_PACK_SCHEMA "gridsmith.pack/1"

/* One run of a pack, or one that the GPU refused. */
typedef struct gs_pack_item {
    gs_run *run;      /* NULL: refused */
    char *refused;    /* the error */
    bool is_held_out; /* not for fitting: it tests the description */
} gs_pack_item;

typedef struct gs_gpu_pack {
    char *version, *device, *driver, *uuid, *name; /* of the program; "cuda" or "model"; the last three may be NULL */
    char *date;                                    /* when it was completed, or NULL */
    gs_gpu *gpu;                                   /* the limits, and the description of the GPU at that time */
    int32_t clusters;                              /* the largest that the device launches */
    int64_t seed, runs, held_out;                  /* as requested */
    struct {
        gs_pack_item *data; /* in the order of playing */
        size_t count, capacity;
    } items;
    char digest[65];    /* of all lines but the last */
    size_t whole_bytes; /* up to the end of the last complete line */
    bool has_held_out;  /* the held-out part has begun */
    bool is_complete;
} gs_gpu_pack;

/* Reads and checks a pack. GS_E_FORMAT: it is not a pack, or is of a newer program, damaged or incomplete. `is_part`: a
   pack still being made, whose last line may be incomplete. The caller frees it. */
gs_gpu_pack *gs_pack_read(const char *path, bool is_part, gs_error *error);
void gs_pack_free(gs_gpu_pack *pack);

typedef struct gs_pack_options {
    const char *path;
    const char *name; /* the name of the description; NULL: chosen when it is adopted */
    const char *date; /* of today, or NULL */
    bool has_uuid;    /* the UUID of the GPU goes into the file */
    int64_t runs, held_out;
    uint64_t seed;
    int64_t seconds; /* after this time, no further random runs; the survey takes at most half of it if possible */
    void (*progress)(void *user, const char *step, int64_t done, int64_t total); /* as in gs_survey_options */
    void *user;
} gs_pack_options;

typedef struct gs_packed {
    gs_survey survey;
    int64_t runs, held_out, refused; /* in the file: all runs; those of them held out; runs that the GPU refused */
    int64_t from_part;               /* of them, from an earlier call */
    int64_t bytes;                   /* of the file */
} gs_packed;

/* Measures a GPU and writes all observations to a file. While it is being made, it is PATH.part, which has every
   completed run; a later call continues it. GS_E_USAGE: the pack already exists, or PATH.part was made with other
   settings or on another GPU. The caller clears `packed`, even after an error. */
gs_code gs_pack_make(gs_device *device, const gs_pack_options *options, gs_packed *packed, gs_error *error);
void gs_packed_clear(gs_packed *packed);
/* GS_E_USAGE: the file exists already. */
gs_code gs_pack_check_absent(const char *path, gs_error *error);

typedef struct gs_adoption {
    gs_survey survey;   /* made from the pack, without its held-out part */
    gs_scores held_out; /* of the description, on the held-out part */
    int64_t uncovered;  /* held-out runs that the model does not cover */
} gs_adoption;

/* Makes a description from a pack, and tests it on the held-out part. `name`: of the description. The caller clears
   `adoption`, even after an error. */
gs_code gs_pack_adopt(const gs_gpu_pack *pack, const char *name, const gs_survey_options *options,
                      gs_adoption *adoption, gs_error *error);
void gs_adoption_clear(gs_adoption *adoption);

/* ---- a real SM ---- */

typedef struct gs_measure_options {
    int64_t count; /* samples */
    uint64_t seed;
    gs_shard shard;      /* with a journal: run 0 measures the latencies, each other one a sample */
    gs_journal *journal; /* gets the runs; may be NULL */
    void (*progress)(void *user, int64_t done, int64_t total); /* may be NULL */
    void *user;
} gs_measure_options;

/* The number of runs of a measurement with `count` samples, for shards. */
int64_t gs_measure_runs(int64_t count);

/* Measures the latencies of a GPU, and random samples of the paper's program on it. With a journal, its runs are not
   measured again, and `measured` stays empty: the file has the result. */
gs_code gs_measure(gs_device *device, const gs_measure_options *options, gs_measured *measured, gs_error *error);

typedef struct gs_latency_options {
    const char *date;                                          /* may be NULL */
    int trials;                                                /* of each measurement */
    void (*progress)(void *user, int64_t done, int64_t total); /* may be NULL */
    void *user;
} gs_latency_options;

/* Measures the machine of a GPU. The caller frees it. GS_E_USAGE: the device is not a real GPU. */
gs_code gs_measure_machine(gs_device *device, const gs_latency_options *options, gs_machine **machine, gs_error *error);

#endif
