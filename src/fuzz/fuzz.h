/*
 * fuzz.h: campaigns: generate, play, predict, compare, shrink, fit, survey.
 *
 *   gs_shard      parts of a campaign, for many GPUs (shard.c), and how they become one file (merge.c)
 *   gs_journal    the file of a campaign, one line per run (journal.c)
 *   gs_campaign   random runs on a device, each compared with its prediction (campaign.c)
 *   gs_shrink     makes a run on which device and model differ as small as possible (shrink.c)
 *   gs_agrees     whether a setting of the mechanisms agrees with a recording (agree.c)
 *   gs_fit        the settings of the mechanisms that agree with recordings (fit.c, settings.c), and a run on which
 *                 those that are left differ (propose.c)
 *   gs_survey     measures a GPU and makes its description (survey.c, grants.c)
 *   gs_gpu_pack   a file with all that describes a GPU: made where the GPU is (pack_make.c, pack_tape.c), read and
 *                 checked (pack_read.c), and made a description elsewhere (pack_adopt.c)
 *   gs_measure    measures how long warps take on a real SM (measure.c)
 */
#ifndef GS_FUZZ_H
#define GS_FUZZ_H

#include "bound/bound.h"
#include "device/device.h"

/* ---- shards: a campaign in parts ---- */

enum { GS_MOST_SHARDS = 1000000 };

/* Shard `number` of `of`, from 1; 1 of 1 is the whole campaign, and so is {0, 0}. */
typedef struct gs_shard {
    int64_t number, of;
} gs_shard;

/* "3/64". False: it is something else. */
bool gs_shard_parse(const char *text, gs_shard *shard);
/* The first of its runs, and how many it has of a campaign of `count`. */
int64_t gs_shard_begin(const gs_shard *shard, int64_t count);
int64_t gs_shard_count(const gs_shard *shard, int64_t count);
/* The name of its file: "fuzz-seed1-shard03of64.jsonl", where `what` is "fuzz-seed1". */
void gs_shard_name(const gs_shard *shard, const char *what, char *name, size_t size);

/* ---- the first line of the file of a campaign (gridsmith.campaign/1) ---- */

/* What it says besides the settings of the command. */
typedef struct gs_campaign_about {
    const char *command;       /* a row of the table in shard.c */
    const char *device;        /* as the command line names it */
    const gs_gpu *gpu;         /* its description */
    const char *uuid, *driver; /* of the GPU; "": not a real one */
    int64_t count;             /* runs of the campaign */
    gs_shard shard;
} gs_campaign_about;

/* The caller writes the settings of the command between the two. */
void gs_campaign_line_begin(gs_writer *writer, const gs_campaign_about *about);
void gs_campaign_line_end(gs_writer *writer, const gs_campaign_about *about);

/* Whether a line says of which campaign the runs behind it are. */
bool gs_is_campaign_line(const char *line, size_t count);
/* Whether two such lines are the same up to a key: "count": the same settings; "shard": the same campaign; "gpus": also
   the same shard. */
bool gs_campaign_line_same(const char *one, const char *two, const char *until);
/* The first setting in which two such lines differ, and its values as JSON, shortened. */
typedef struct gs_campaign_difference {
    char key[40], one[80], two[80];
} gs_campaign_difference;

void gs_campaign_line_differ(const char *one, const char *two, gs_campaign_difference *difference);

/* What such a line says of a shard. */
typedef struct gs_campaign_read {
    int64_t count; /* runs of the whole campaign */
    gs_shard shard;
    const char *begin; /* of the line of a run: see gs_campaign_run_begin */
} gs_campaign_read;

/* Reads a line, with its newline, exactly as it is written. False: it is another. */
bool gs_campaign_line_read(const char *line, size_t count, gs_campaign_read *read);

/* How each run of a campaign begins on its line, up to its number: {"schema":"gridsmith.run/1","id": for most. NULL:
   this version does not know the command. */
const char *gs_campaign_run_begin(const char *command);
/* Whether a line is the run with this number. */
bool gs_is_campaign_run(const char *begin, int64_t number, const char *line, size_t count);

/* ---- journal: the file of a campaign, one run per line, that can be used after a crash ---- */

typedef struct gs_journal gs_journal;

typedef struct gs_journal_options {
    const char *path;
    const char *command; /* of the campaign */
    const char *line;    /* what it is a campaign of, with a newline; the first line of the file */
    int64_t first, most; /* the number of its first run; how many runs it may have */
    bool resume;         /* also open an existing file, to continue it */
} gs_journal_options;

/* Opens the file. GS_E_USAGE: it exists, or with `resume`: it was made with other settings, or has more runs. The
   caller closes it. */
gs_journal *gs_journal_open(const gs_journal_options *options, gs_error *error);
void gs_journal_close(gs_journal *journal);

/* How many complete runs the file had when it was opened. */
int64_t gs_journal_runs(const gs_journal *journal);

/* The next of those runs, which the caller frees; NULL with GS_OK in `error` after the last. */
gs_run *gs_journal_next(gs_journal *journal, gs_error *error);

/* Appends a run, or the line of one, with its newline. If it fails, nothing of the run stays in the file. */
gs_code gs_journal_add(gs_journal *journal, const gs_run *run, gs_error *error);
gs_code gs_journal_add_line(gs_journal *journal, const gs_text *line, gs_error *error);

/* After the last run: removes an incomplete last line. A shard without runs gets its first line, so that it can be told
   from one that was not played. */
gs_code gs_journal_end(gs_journal *journal, gs_error *error);

/* ---- campaign ---- */

typedef struct gs_campaign_options {
    const char *const *classes; /* NULL-terminated; runs take them in turn */
    int64_t count;              /* runs of the campaign */
    gs_shard shard;             /* which of them */
    uint64_t seed;
    const uint64_t *only;  /* this run alone, whatever the shard and the count; NULL: no */
    int64_t patient_every; /* every Nth run is played again with long waits; 0: none */
    gs_journal *journal;   /* its runs are not recorded again, the others are added to it; may be NULL */
    /* Called after each run, in their order, one call at a time, in another thread than that of the caller. False stops
       the campaign, and keeps what is done. `recorded` is valid during the call. */
    bool (*done)(void *user, uint64_t index, const gs_run *recorded, bool exact);
    void *user;
} gs_campaign_options;

typedef struct gs_campaign {
    gs_scores scores;
    int64_t played, mismatches;
    int64_t from_journal, uncovered;  /* of those played: read from the journal; not covered by the model, not scored */
    int64_t repeated, repeated_alike; /* mismatches that were played again, and how many gave the same again */
    int64_t patient, patient_alike; /* every Nth run, played again with long waits, and how many gave the same again */
} gs_campaign;

/* Plays the runs of a seed. If a run is played twice and the two recordings differ, the patient one counts. GS_E_USAGE:
   the journal holds other runs. The caller clears the campaign, also after an error. */
gs_code gs_campaign_run(gs_device *device, const gs_gpu *model, const gs_campaign_options *options,
                        gs_campaign *campaign, gs_error *error);
void gs_campaign_clear(gs_campaign *campaign);

/* Whether a recording has the launches and exits of a plan; a recording also has observations. */
bool gs_is_recording_of(const gs_run *recorded, const gs_run *plan);

/* The first line of its file: what is asked for, on which device, and the GPU. */
void gs_campaign_line(const gs_campaign_options *options, const gs_device *device, const char *device_name,
                      gs_text *line);

/* ---- merging shards (merge.c) ---- */

typedef struct gs_merged {
    int64_t shards, runs;
    gs_text complaints; /* what is missing, incomplete, twice or foreign, a line each; empty: nothing */
} gs_merged;

/* Writes the file that one process would have written. Nothing is written if anything is wrong: then there are
   complaints. The caller frees them. */
gs_code gs_merge(const char *const *paths, size_t count, const char *output, gs_merged *merged, gs_error *error);

/* ---- shrink ---- */

typedef struct gs_shrunk {
    gs_run *seen, *predicted; /* the smallest run found, as the device and as the model play it */
    int64_t played, kept;     /* runs tried on the device, and steps that were kept */
    size_t launch;            /* the first launch that differs */
    gs_text state;            /* a description of the SMs that differ, just before that launch */
} gs_shrunk;

/* Makes `run`, on which device and model differ, smaller as long as they still differ: fewer events, fewer blocks,
   smaller numbers. Each step is played on the device. Stops after `most_plays`. GS_E_USAGE: they agree on `run`; `seen`
   and `predicted` are set. The caller clears `shrunk`, also after an error. */
gs_code gs_shrink(gs_device *device, const gs_gpu *model, const gs_run *run, int64_t most_plays, gs_shrunk *shrunk,
                  gs_error *error);
void gs_shrunk_clear(gs_shrunk *shrunk);

/* ---- fit ---- */

/* Whether `gpu` places the blocks of a recording as they were seen, by the rules of gs_score_add. Sets `*differs` to
   SIZE_MAX if so, otherwise to a launch that is wrong; without durations, to the first. Stops there, so it is faster
   than a prediction. By counts the right number of blocks must be on every SM, with any numbering that the description
   allows; block by block each block on its SM, by the numbering of `gpu`, from any state of its turns. A recording that
   `gpu` cannot play differs. */
gs_code gs_agrees(const gs_gpu *gpu, const gs_run *recorded, bool block_by_block, size_t *differs, gs_error *error);

/* What the recordings say of one value of one switch. */
typedef struct gs_fit_value {
    const gs_mechanism *mechanism;
    int value;
    bool possible; /* some setting with it is among the best */
    int64_t best;  /* most recordings that any setting with it agrees with; of a numbering, block by block */
    size_t killer; /* not possible: a recording (by position) with which the first of the best settings agrees, and no
                      setting with this value; SIZE_MAX: no single recording is enough. Of a numbering, block by block,
                      among the best settings by counts */
} gs_fit_value;

typedef struct gs_fit {
    int64_t recordings;
    int64_t tried;           /* settings */
    int64_t best;            /* most recordings that any setting agrees with, by counts */
    gs_mechanisms *settings; /* all that agree with so many, with each possible numbering */
    size_t setting_count;
    struct {
        gs_fit_value *data; /* the values of a switch stand together, in the order of gs_mechanism_table */
        size_t count, capacity;
    } values;
    gs_run *decider; /* a run whose last launch the best settings place or number differently; NULL: none found, or one
                        setting */
} gs_fit;

/* Tries all settings of the mechanisms of `gpu` on the recordings. What its description says of them plays no part, but
   for lists: a listed tie order is tried where there is one, numbering by grant where grants are described. The
   numbering is judged block by block, among the settings that agree best by counts. The decider is drawn by `seed`. */
gs_code gs_fit_run(const gs_gpu *gpu, gs_run *const *recordings, size_t count, uint64_t seed, gs_progress *progress,
                   gs_fit *fit, gs_error *error);
void gs_fit_clear(gs_fit *fit);

/* Whether a switch is judged block by block: the numbering is. */
bool gs_fit_is_by_block(const gs_mechanism *mechanism);

/* Whether a switch, by its number in gs_mechanism_table, has more than one possible value. */
bool gs_fit_is_undecided(const gs_fit *fit, size_t mechanism);

/* What the recordings say for a possible value, in words. */
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
    /* Called from time to time with what is being measured; `total` 0: not known. May be NULL. */
    void (*progress)(void *user, const char *step, int64_t done, int64_t total);
    void *user;
} gs_survey_options;

/* What was found of how a GPU numbers blocks. */
typedef struct gs_grants_found {
    int32_t groups;      /* of SMs; 0: blocks are not numbered by groups */
    int32_t unexplained; /* SMs for which no number of grants before a cut round explains the launches */
    int32_t open;        /* SMs for which several do, and the one nearest to that of their neighbors was taken */
} gs_grants_found;

typedef struct gs_survey {
    gs_gpu *gpu;                      /* the description */
    int32_t order_plays, order_alike; /* how often the tie order was measured, and how often it was this one */
    int tie_order;      /* as measured with single blocks; gpu->mechanisms has another if no best setting has this */
    int32_t unseen_sms; /* how many SMs, the last of the tie order, never got a block of their own */
    int64_t pairs, neighbors; /* clusters of two that were seen, and those of them on SMs 2k and 2k+1 */
    gs_grants_found grants;
    gs_fit fit;       /* to the random runs and the deciders */
    int32_t deciders; /* runs that were recorded because settings differ on them */
    gs_scores scores; /* of the description, on all these runs */
} gs_survey;

/* Measures a GPU. Takes the limits from the device's description, but not the mechanisms. The caller clears the survey,
   also after an error. */
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
    gs_gpu *gpu;                                   /* the limits, and what the program knew of the GPU before */
    int32_t clusters;                              /* the largest that the device launches */
    int64_t seed, runs, held_out;                  /* what was asked for */
    struct {
        gs_pack_item *data; /* in the order in which they were played */
        size_t count, capacity;
    } items;
    char digest[65];    /* of all lines but the last */
    size_t whole_bytes; /* up to the end of the last complete line */
    bool has_held_out;  /* the held-out part has begun */
    bool is_complete;
} gs_gpu_pack;

/* Reads and checks a pack. GS_E_FORMAT: it is something else, of a newer program, damaged or incomplete. `is_part`: one
   that is still being made, whose last line may be incomplete. The caller frees it. */
gs_gpu_pack *gs_pack_read(const char *path, bool is_part, gs_error *error);
void gs_pack_free(gs_gpu_pack *pack);

typedef struct gs_pack_options {
    const char *path;
    const char *name; /* what the description is to be called; NULL: whoever adopts it decides */
    const char *date; /* of today, or NULL */
    bool has_uuid;    /* the UUID of the GPU goes into the file */
    int64_t runs, held_out;
    uint64_t seed;
    int64_t seconds; /* after these, no further random runs; the survey takes at most half of them if it can */
    void (*progress)(void *user, const char *step, int64_t done, int64_t total); /* as in gs_survey_options */
    void *user;
} gs_pack_options;

typedef struct gs_packed {
    gs_survey survey;
    int64_t runs, held_out, refused; /* in the file: all runs, of which held out; runs that the GPU refused */
    int64_t from_part;               /* of them, already there from an earlier call */
    int64_t bytes;                   /* of the file */
} gs_packed;

/* Measures a GPU and writes all that was seen to a file. While it is being made, it is PATH.part, which has every
   completed run; a later call continues it. GS_E_USAGE: the pack exists already, or PATH.part was made with other
   settings or on another GPU. The caller clears `packed`, also after an error. */
gs_code gs_pack_make(gs_device *device, const gs_pack_options *options, gs_packed *packed, gs_error *error);
void gs_packed_clear(gs_packed *packed);
/* GS_E_USAGE: there is such a file already. */
gs_code gs_pack_check_absent(const char *path, gs_error *error);

typedef struct gs_adoption {
    gs_survey survey;   /* made from the pack, without its held-out part */
    gs_scores held_out; /* of the description, on the held-out part */
    int64_t uncovered;  /* held-out runs that the model does not cover */
} gs_adoption;

/* Makes a description from a pack, and tests it on the held-out part. `name`: of the description. The caller clears
   `adoption`, also after an error. */
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

/* How many runs a measurement of so many samples is, for shards. */
int64_t gs_measure_runs(int64_t count);

/* Measures the latencies of a GPU, and random samples of the paper's program on it. With a journal, what it has is not
   measured again, and `measured` is left empty: the file has the result. */
gs_code gs_measure(gs_device *device, const gs_measure_options *options, gs_measured *measured, gs_error *error);

#endif
