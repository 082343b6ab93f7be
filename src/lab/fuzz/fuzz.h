/*
 * fuzz.h: random runs on a device, each compared with its prediction.
 *
 *   gs_shard      parts of a campaign, for many GPUs (shard.c)
 *   gs_journal    the file of a campaign, one line per run (journal.c)
 *   gs_campaign   random runs on a device, each compared with its prediction (fuzz.c, pipeline.c)
 *   gs_shrink     makes a run on which device and model differ as small as possible (shrink.c)
 */
#ifndef GS_FUZZ_H
#define GS_FUZZ_H

#include "lab/device/device.h"

/* ---- shards: a campaign in parts ---- */

enum { GS_MOST_SHARDS = 1000000 };

/* Shard `number` of `of`, from 1; 1 of 1 is the whole campaign, and so is {0, 0}. */
typedef struct gs_shard {
    int64_t number, of;
} gs_shard;

/* Parses "3/64". False: malformed. */
bool gs_shard_parse(const char *text, gs_shard *shard);
/* Its first run and its number of runs, of a campaign of `count`. */
int64_t gs_shard_begin(const gs_shard *shard, int64_t count);
int64_t gs_shard_count(const gs_shard *shard, int64_t count);
/* The name of its file: "fuzz-seed1-shard03of64.jsonl", where `what` is "fuzz-seed1". */
void gs_shard_name(const gs_shard *shard, const char *what, char *name, size_t size);

/* ---- the first line of the file of a campaign (gridsmith.campaign/1) ---- */

/* Its contents besides the settings of the command. */
typedef struct gs_campaign_about {
    const char *command;       /* a row of the table in shard.c */
    const char *device;        /* as on the command line */
    const gs_gpu *gpu;         /* its description */
    const char *uuid, *driver; /* of the GPU; "": a model */
    int64_t count;             /* runs of the campaign */
    gs_shard shard;
} gs_campaign_about;

/* The caller writes the settings of the command between the two. */
void gs_campaign_line_begin(gs_writer *writer, const gs_campaign_about *about);
void gs_campaign_line_end(gs_writer *writer, const gs_campaign_about *about);

/* Whether a line is a campaign header. */
bool gs_is_campaign_line(const char *line, size_t count);
/* Whether two campaign headers are the same up to a key: "count": the same settings; "shard": the same campaign;
   "gpus": also the same shard. */
bool gs_campaign_line_same(const char *one, const char *two, const char *until);
/* The first setting in which two campaign headers differ, and its values as JSON, shortened. */
typedef struct gs_campaign_difference {
    char key[40], one[80], two[80];
} gs_campaign_difference;

void gs_campaign_line_differ(const char *one, const char *two, gs_campaign_difference *difference);

/* The shard of a campaign header. */
typedef struct gs_campaign_read {
    int64_t count; /* runs of the whole campaign */
    gs_shard shard;
    const char *begin; /* of the line of a run: see gs_campaign_run_begin */
} gs_campaign_read;

/* Reads a campaign header, with its newline, exactly as written. False: it is something else. */
bool gs_campaign_line_read(const char *line, size_t count, gs_campaign_read *read);

/* How each run of a campaign begins on its line, up to its number: {"schema":"gridsmith.run/1","id": for most. NULL:
   unknown command. */
const char *gs_campaign_run_begin(const char *command);
/* Whether a line is the run with this number. */
bool gs_is_campaign_run(const char *begin, int64_t number, const char *line, size_t count);

/* ---- journal: the file of a campaign, one run per line, which survives a crash ---- */

typedef struct gs_journal gs_journal;

typedef struct gs_journal_options {
    const char *path;
    const char *command; /* of the campaign */
    const char *line;    /* the campaign header, with a newline; the first line of the file */
    int64_t first, most; /* the number of its first run; the most runs */
    bool resume;         /* also open an existing file, to continue it */
} gs_journal_options;

/* Opens the file. GS_E_USAGE: it exists, or with `resume`: it has other settings, or more runs. The
   caller closes it. */
gs_journal *gs_journal_open(const gs_journal_options *options, gs_error *error);
void gs_journal_close(gs_journal *journal);

/* How many complete runs the file had when it was opened. */
int64_t gs_journal_runs(const gs_journal *journal);

/* The next of those runs, which the caller frees; NULL with GS_OK in `error` after the last. */
gs_run *gs_journal_next(gs_journal *journal, gs_error *error);

/* Appends a run, or the line of one, with its newline. If it fails, the file is unchanged. */
gs_code gs_journal_add(gs_journal *journal, const gs_run *run, gs_error *error);
gs_code gs_journal_add_line(gs_journal *journal, const gs_text *line, gs_error *error);

/* After the last run: removes an incomplete last line. A shard without runs gets its header, to distinguish it from one
   that was not played. */
gs_code gs_journal_end(gs_journal *journal, gs_error *error);

/* ---- campaign ---- */

typedef struct gs_campaign_options {
    const char *const *classes; /* NULL-terminated; runs cycle through them */
    int64_t count;              /* runs of the campaign */
    gs_shard shard;             /* which of them */
    uint64_t seed;
    const uint64_t *only;  /* only this run, whatever the shard and the count; NULL: all */
    int64_t patient_every; /* every Nth run is played again with long waits; 0: none */
    gs_journal *journal;   /* its runs are not recorded again, new ones are added; may be NULL */
    /* Called after each run, in their order, one call at a time, in another thread than that of the caller. False stops
       the campaign, and keeps its results so far. `recorded` is valid during the call. */
    bool (*done)(void *user, uint64_t index, const gs_run *recorded, bool exact);
    void *user;
} gs_campaign_options;

typedef struct gs_campaign {
    gs_scores scores;
    int64_t played, mismatches;
    int64_t from_journal, uncovered;  /* of those played: read from the journal; not covered by the model, not scored */
    int64_t repeated, repeated_alike; /* mismatches that were played again, and how many had the same result */
    int64_t patient, patient_alike; /* every Nth run, played again with long waits, and how many had the same result */
} gs_campaign;

/* Plays the runs of a seed. If a run is played twice and the two recordings differ, the patient one counts. GS_E_USAGE:
   the journal holds other runs. The caller clears the campaign, even after an error. */
gs_code gs_campaign_run(gs_device *device, const gs_gpu *model, const gs_campaign_options *options,
                        gs_campaign *campaign, gs_error *error);
void gs_campaign_clear(gs_campaign *campaign);

/* Whether a recording has the launches and exits of a script; a recording also has observations. */
bool gs_is_recording_of(const gs_run *recorded, const gs_run *script);

/* The campaign header: the settings, the device, and the GPU. */
void gs_campaign_line(const gs_campaign_options *options, const gs_device *device, const char *device_name,
                      gs_text *line);

/* ---- shrink ---- */

typedef struct gs_shrunk {
    gs_run *seen, *predicted; /* the smallest run found, as the device and as the model play it */
    int64_t played, kept;     /* runs tried on the device, and steps that were kept */
    size_t launch;            /* the first launch that differs */
    gs_text state;            /* a description of the SMs that differ, just before that launch */
} gs_shrunk;

/* Shrinks `run`, on which device and model differ, as long as they still differ: fewer events, fewer blocks,
   smaller numbers. Each step is played on the device. Stops after `most_plays`. GS_E_USAGE: they agree on `run`; `seen`
   and `predicted` are set. The caller clears `shrunk`, even after an error. */
gs_code gs_shrink(gs_device *device, const gs_gpu *model, const gs_run *run, int64_t most_plays, gs_shrunk *shrunk,
                  gs_error *error);
void gs_shrunk_clear(gs_shrunk *shrunk);

#endif
