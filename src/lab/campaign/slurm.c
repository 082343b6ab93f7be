/*
 * slurm.c: submits shards to Slurm as a job array, and queries the states of the tasks. It uses Slurm's programs sbatch
 * and squeue: their options are stable, while its library changes with each version.
 */
#define _GNU_SOURCE
#include "campaign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- running a program ---- */

static void read_all(int descriptor, gs_text *text) {
    char bytes[4096];
    ssize_t count;
    while ((count = read(descriptor, bytes, sizeof bytes)) > 0 || (count < 0 && errno == EINTR))
        if (count > 0)
            gs_text_put(text, bytes, (size_t)count);
}

/* Makes an error from the last line of its output. */
static gs_code fail_program(const char *name, gs_text *said, gs_error *error) {
    char *line = said->data;
    if (!said->count)
        return gs_fail(error, GS_E_IO, "%s failed", name);
    line[said->count - (line[said->count - 1] == '\n')] = '\0';
    line = strrchr(line, '\n') ? strrchr(line, '\n') + 1 : line;
    gs_make_printable(line);
    return gs_fail(error, GS_E_IO, "%s failed: %.300s", name, line);
}

/* Runs a program and collects its output. */
static gs_code run_program(const char *const *words, gs_text *said, gs_error *error) {
    int ends[2];
    pid_t process;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return gs_fail_system(error, "start", words[0]);
    const gs_process_options options = {.words = words, .input = "/dev/null", .output_fd = ends[1]};
    int failed = gs_process_try(&options, &process);
    close(ends[1]);
    if (!failed)
        read_all(ends[0], said);
    close(ends[0]);
    if (failed)
        return gs_fail(error, GS_E_IO, "cannot start %s: %s", words[0], strerror(failed));
    int status = gs_process_wait(process);
    gs_text_put(said, "", 0);
    if (said->failed)
        return gs_fail_memory(error);
    return status == 0 ? GS_OK : fail_program(words[0], said, error);
}

/* ---- submitting ---- */

/* "--array=3,7-9" */
static void put_array(gs_text *text, const bool *is_wanted, int64_t shards) {
    const char *separator = "--array=";
    for (int64_t i = 0; i < shards; i++) {
        int64_t first = i;
        if (!is_wanted[i])
            continue;
        while (i + 1 < shards && is_wanted[i + 1])
            i++;
        gs_text_add(text, first == i ? "%s%lld" : "%s%lld-%lld", separator, (long long)(first + 1), (long long)(i + 1));
        separator = ",";
    }
}

/* The number of the job: sbatch may warn on other lines, and append the name of the cluster. */
static int64_t job_number(const char *said) {
    for (const char *at = said; at && *at; at = strchr(at, '\n'), at += at ? 1 : 0) {
        char *end;
        long long number = strtoll(at, &end, 10);
        if (number > 0 && end > at && (*end == '\n' || *end == ';' || !*end))
            return number;
    }
    return 0;
}

gs_code gs_slurm_submit(gs_submission *submission, const bool *is_wanted, gs_error *error) {
    gs_text array = {0}, script = {0}, said = {0};
    put_array(&array, is_wanted, submission->shards);
    gs_text_add(&script, "%s/%s", submission->path, gs_job_file(GS_ON_SLURM));
    const char *words[] = {"sbatch", "--parsable", array.data, script.data, NULL};
    gs_code code = array.failed || script.failed ? gs_fail_memory(error) : run_program(words, &said, error);
    int64_t job = code == GS_OK && said.count ? job_number(said.data) : 0;
    if (code == GS_OK && !job)
        code = fail_program("sbatch", &said, error);
    if (code == GS_OK)
        code = gs_submission_add_job(submission, job, error);
    gs_text_free(&array);
    gs_text_free(&script);
    gs_text_free(&said);
    return code;
}

/* ---- the states of tasks ---- */

static const char *find_state(const char *word, size_t length) {
    static const char *const states[] = {"PENDING",   "RUNNING",      "SUSPENDED",    "COMPLETING",
                                         "REQUEUED",  "CONFIGURING",  "REQUEUE_HOLD", "RESIZING",
                                         "SIGNALING", "SPECIAL_EXIT", "STOPPED"};
    for (size_t i = 0; i < GS_COUNT(states); i++)
        if (strlen(states[i]) == length && memcmp(states[i], word, length) == 0)
            return states[i];
    return NULL;
}

/* A line of squeue: the number of the task and its state. */
static void read_state(const gs_submission *submission, const char *line, gs_shard_progress *progress) {
    char *end;
    long long number = strtoll(line, &end, 10);
    if (end == line || *end != ' ' || number < 1 || number > submission->shards)
        return;
    const char *state = find_state(end + 1, strcspn(end + 1, " \n"));
    if (state)
        progress[number - 1].waiting = state;
}

/* A line of squeue belongs to this campaign if its array is one of the jobs. */
static void read_line(const gs_submission *submission, const char *line, gs_shard_progress *progress) {
    char *end;
    long long array = strtoll(line, &end, 10);
    for (size_t i = 0; i < submission->jobs.count && end > line; i++)
        if (submission->jobs.data[i] == array)
            read_state(submission, end, progress);
}

/* Queries all jobs of the user, because squeue fails for a job that Slurm has forgotten. */
gs_code gs_slurm_states(const gs_submission *submission, gs_shard_progress *progress, gs_error *error) {
    static const char *const words[] = {"squeue", "--me", "--noheader", "--array", "--format=%F %K %T", NULL};
    gs_text said = {0};
    gs_code code = run_program(words, &said, error);
    const char *line = code == GS_OK ? said.data : NULL;
    while (line && *line) {
        read_line(submission, line, progress);
        line = strchr(line, '\n');
        line += line ? 1 : 0;
    }
    gs_text_free(&said);
    return code;
}
