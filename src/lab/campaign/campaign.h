/*
 * campaign.h: campaigns on many machines.
 *
 *   gs_submission  a campaign in shards: its folder and its description (submission.c)
 *   gs_progress_of the progress of its shards, read from their files (shard_files.c)
 *   gs_play_shard  plays one shard (play_shard.c)
 *   gs_put_...     input for a scheduler: a job script, a manifest, a command line (jobs.c)
 *   gs_slurm_      submits to Slurm, and queries the states of tasks (slurm.c)
 *   gs_merge       merges the files of all shards into the file of a single process (merge.c)
 *   gs_play_here   all shards on this machine, some at a time (local.c)
 *
 * The folder has `campaign.json`, the description; `shards`, with a file for each shard; `logs`, with the output of
 * each; and the input of the scheduler. A shard is played by `gridsmith campaign play FOLDER NUMBER`, on any machine
 * that sees the folder. Everything else is a way to start that command: it resumes a shard, and does nothing for a
 * complete one. So a shard that was killed, preempted or lost can be started again.
 */
#ifndef GS_CAMPAIGN_H
#define GS_CAMPAIGN_H

#include "lab/fuzz/fuzz.h"

/* ---- merging shards (merge.c) ---- */

typedef struct gs_merged {
    int64_t shards, runs;
    gs_text complaints; /* missing, incomplete, duplicate or foreign shards, a line each; empty: none */
} gs_merged;

/* Writes the file that one process would have written. If there are complaints, nothing is written. The caller frees
   them. */
gs_code gs_merge(const char *const *paths, size_t count, const char *output, gs_merged *merged, gs_error *error);

/* ---- a submitted campaign ---- */

typedef enum gs_scheduler { GS_ON_LOCAL, GS_ON_SLURM, GS_ON_KUBERNETES, GS_ON_PARALLEL, GS_SCHEDULERS } gs_scheduler;

extern const char *const gs_scheduler_names[GS_SCHEDULERS];

typedef struct gs_submission {
    char *path; /* of its folder, absolute */
    gs_scheduler on;
    int64_t shards;
    char *start; /* the folder in which the command runs; NULL: the current one */
    struct {
        char **data; /* of the command: "fuzz", "--count", "1000"; ends in a NULL */
        size_t count, capacity;
    } arguments;
    struct {
        int64_t *data; /* numbers of Slurm's jobs */
        size_t count, capacity;
    } jobs;
} gs_submission;

/* Checks whether a command can be played in shards. GS_E_USAGE: it cannot, or its arguments are invalid. */
gs_code gs_check_sharded(const char *const *arguments, size_t count, gs_error *error);

/* Whether the command needs a GPU for each shard. */
bool gs_submission_needs_gpu(const gs_submission *submission);

/* Makes the folder. GS_E_USAGE: it has a campaign already. */
gs_code gs_submission_make(const gs_submission *submission, gs_error *error);
/* Removes the folder again, unless a shard has begun or left a log. */
void gs_submission_discard(const gs_submission *submission);
/* Writes its description again, with another job. */
gs_code gs_submission_add_job(gs_submission *submission, int64_t job, gs_error *error);
/* Reads the description of the campaign in a folder. The caller clears it, even after an error. */
gs_code gs_submission_read(const char *path, gs_submission *submission, gs_error *error);
void gs_submission_clear(gs_submission *submission);

/* ---- the progress of its shards ---- */

typedef struct gs_shard_progress {
    int64_t runs, wanted; /* wanted 0: not known yet */
    bool is_begun, is_complete;
    bool is_played;      /* a process of this machine has its file open */
    const char *waiting; /* the state of its Slurm task: "RUNNING", "PENDING"; NULL: none */
} gs_shard_progress;

/* `progress` has an entry for each shard. */
gs_code gs_progress_of(const gs_submission *submission, gs_shard_progress *progress, gs_error *error);
/* The same for one shard. */
gs_code gs_progress_of_shard(const gs_submission *submission, int64_t number, gs_shard_progress *progress,
                             gs_error *error);

/* The last line of a shard's output, into `line`; "": none. */
void gs_last_words(const gs_submission *submission, int64_t number, char *line, size_t size);

/* ---- playing ---- */

/* Plays the rest of a shard in a child process, which ends with this one. The exit code is 0 if the shard is complete,
   otherwise that of the command, or 4. SIGINT and SIGTERM are passed on to the command. `said` gets a line about the
   result, which the caller prints. */
int gs_play_shard(const gs_submission *submission, int64_t number, gs_text *said);

typedef struct gs_here_options {
    int64_t jobs; /* processes at a time; 0: one for each GPU, or for each processor */
    gs_progress *progress;
} gs_here_options;

/* Plays all incomplete shards. A shard that fails is retried, unless its command line is wrong. Returns the exit code:
   0 if all are complete. `said` gets the errors, a line each. */
int gs_play_here(const gs_submission *submission, const gs_here_options *options, gs_text *said);

/* ---- input for schedulers ---- */

typedef struct gs_job_options {
    const char *program;                 /* the path of this program on the machines that play shards */
    const char *gres, *time, *partition; /* Slurm; NULL: not given */
    const char *image, *claim;           /* Kubernetes */
    int64_t jobs;                        /* the most shards at a time; 0: all, or GNU parallel's default */
} gs_job_options;

void gs_put_slurm_script(gs_text *text, const gs_submission *submission, const gs_job_options *options);
void gs_put_kubernetes_job(gs_text *text, const gs_submission *submission, const gs_job_options *options);
void gs_put_parallel_script(gs_text *text, const gs_submission *submission, const gs_job_options *options);
/* The name of the scheduler's file in the folder; NULL: none. */
const char *gs_job_file(gs_scheduler on);

/* Submits an array of the shards selected by `is_wanted`, and adds the job to the submission. GS_E_IO: with the message
   of sbatch.
 */
gs_code gs_slurm_submit(gs_submission *submission, const bool *is_wanted, gs_error *error);
/* Sets `waiting` of the shards with unfinished Slurm tasks. */
gs_code gs_slurm_states(const gs_submission *submission, gs_shard_progress *progress, gs_error *error);

#endif
