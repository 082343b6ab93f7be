/*
 * campaign.h: campaigns on many machines.
 *
 *   gs_submission  a campaign that is played in shards: its folder and its description (submission.c)
 *   gs_progress_of how far its shards are, read from their files (shard_files.c)
 *   gs_play_shard  plays one shard, for whatever started it (play_shard.c)
 *   gs_put_...     what a scheduler is given: a job script, a manifest, a command line (jobs.c)
 *   gs_slurm_      submitting to Slurm, and asking it for the states of tasks (slurm.c)
 *   gs_merge       the files of all shards as the one file of a single process (merge.c)
 *   gs_play_here   all shards on this machine, some at a time (local.c)
 *
 * The folder has `campaign.json`, the description; `shards`, with a file for each shard; `logs`, with what each
 * printed; and what the scheduler was given. A shard is played by `gridsmith campaign play FOLDER NUMBER`, on any
 * machine that sees the folder. Everything else is a way to start that command: it continues a shard where it was, and
 * does nothing for one that is complete. So whatever is killed, preempted or lost can be started again.
 */
#ifndef GS_CAMPAIGN_H
#define GS_CAMPAIGN_H

#include "lab/fuzz/fuzz.h"

/* ---- merging shards (merge.c) ---- */

typedef struct gs_merged {
    int64_t shards, runs;
    gs_text complaints; /* what is missing, incomplete, twice or foreign, a line each; empty: nothing */
} gs_merged;

/* Writes the file that one process would have written. Nothing is written if anything is wrong: then there are
   complaints. The caller frees them. */
gs_code gs_merge(const char *const *paths, size_t count, const char *output, gs_merged *merged, gs_error *error);

/* ---- a submitted campaign ---- */

typedef enum gs_scheduler { GS_ON_LOCAL, GS_ON_SLURM, GS_ON_KUBERNETES, GS_ON_PARALLEL, GS_SCHEDULERS } gs_scheduler;

extern const char *const gs_scheduler_names[GS_SCHEDULERS];

typedef struct gs_submission {
    char *path; /* of its folder, absolute */
    gs_scheduler on;
    int64_t shards;
    char *start; /* the folder in which the command runs, or NULL: that of whoever plays a shard */
    struct {
        char **data; /* of the command: "fuzz", "--count", "1000"; ends in a NULL */
        size_t count, capacity;
    } arguments;
    struct {
        int64_t *data; /* numbers of Slurm's jobs */
        size_t count, capacity;
    } jobs;
} gs_submission;

/* Whether a command can be played in shards, and what is wrong with its arguments. GS_E_USAGE says it. */
gs_code gs_check_sharded(const char *const *arguments, size_t count, gs_error *error);

/* Whether the command needs a GPU for each shard. */
bool gs_submission_needs_gpu(const gs_submission *submission);

/* Makes the folder. GS_E_USAGE: it has a campaign already. */
gs_code gs_submission_make(const gs_submission *submission, gs_error *error);
/* Writes its description again, with another job. */
gs_code gs_submission_add_job(gs_submission *submission, int64_t job, gs_error *error);
/* Reads the description of the campaign in a folder. The caller clears it, also after an error. */
gs_code gs_submission_read(const char *path, gs_submission *submission, gs_error *error);
void gs_submission_clear(gs_submission *submission);

/* ---- how far its shards are ---- */

typedef struct gs_shard_progress {
    int64_t runs, wanted; /* wanted 0: the file does not say yet */
    bool is_begun, is_complete;
    bool is_played;      /* a process of this machine has its file open */
    const char *waiting; /* what Slurm says of its task: "RUNNING", "PENDING"; NULL: it has none */
} gs_shard_progress;

/* `progress` has an entry for each shard. */
gs_code gs_progress_of(const gs_submission *submission, gs_shard_progress *progress, gs_error *error);
/* The same for one shard. */
gs_code gs_progress_of_shard(const gs_submission *submission, int64_t number, gs_shard_progress *progress,
                             gs_error *error);

/* The last line of what a shard printed, into `line`; "": nothing. */
void gs_last_words(const gs_submission *submission, int64_t number, char *line, size_t size);

/* ---- playing ---- */

/* Plays what is left of a shard, as a child process that ends with this one. The exit code is 0 if the shard is
   complete then, otherwise that of the command, or 4. SIGINT and SIGTERM are passed on to the command. `said` gets a
   line on how it went, which the caller prints. */
int gs_play_shard(const gs_submission *submission, int64_t number, gs_text *said);

typedef struct gs_here_options {
    int64_t jobs; /* processes at a time; 0: one for each GPU, or for each processor */
    gs_progress *progress;
} gs_here_options;

/* Plays all shards that are not complete. A shard that fails is tried again, unless its command line is wrong. Returns
   the exit code: 0 if all are complete. `said` gets what was wrong, a line each. */
int gs_play_here(const gs_submission *submission, const gs_here_options *options, gs_text *said);

/* ---- what schedulers are given ---- */

typedef struct gs_job_options {
    const char *program;                 /* the path of this program where shards are played */
    const char *gres, *time, *partition; /* Slurm; NULL: not given */
    const char *image, *claim;           /* Kubernetes */
    int64_t jobs;                        /* at most so many shards at a time; 0: all, or GNU parallel's default */
} gs_job_options;

void gs_put_slurm_script(gs_text *text, const gs_submission *submission, const gs_job_options *options);
void gs_put_kubernetes_job(gs_text *text, const gs_submission *submission, const gs_job_options *options);
void gs_put_parallel_script(gs_text *text, const gs_submission *submission, const gs_job_options *options);
/* The name of the file for a scheduler in the folder; NULL: it needs none. */
const char *gs_job_file(gs_scheduler on);

/* Submits an array of the shards that `is_wanted` says, and adds the job to the submission. GS_E_IO: what sbatch said.
 */
gs_code gs_slurm_submit(gs_submission *submission, const bool *is_wanted, gs_error *error);
/* Sets `waiting` of the shards whose tasks Slurm has not ended. */
gs_code gs_slurm_states(const gs_submission *submission, gs_shard_progress *progress, gs_error *error);

#endif
