/*
 * play_shard.c: plays one shard of a campaign.
 *
 * The command of the campaign runs as a child process, with --shard, --output and --resume. Its exit code can be 1, "the
 * answer is no", which is a result, and a command that was stopped by a signal exits with 0 although runs are missing.
 * So the criterion is whether the file of the shard is complete.
 */
#include "campaign.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { FAILED = 4 }; /* the exit code for a system failure */

/* ---- signals ---- */

static volatile sig_atomic_t passed_on; /* the last signal */
static volatile sig_atomic_t child;

static void pass_on(int signal) {
    passed_on = signal;
    if (child > 0)
        kill((pid_t)child, signal);
}

static void listen_to_signals(void) {
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- the command ---- */

/* The words of the command line; the caller frees the list, and `shard` and `out`, which are among them. */
static const char **command_line(const gs_submission *submission, const char *shard, const char *out) {
    size_t count = submission->arguments.count;
    const char **words = calloc(count + 7, sizeof *words);
    if (!words)
        return NULL;
    words[0] = "gridsmith";
    /* The options precede the words after "--", if there are any. */
    size_t at = 1, from = 0;
    for (; from < count && strcmp(submission->arguments.data[from], "--") != 0; from++)
        words[at++] = submission->arguments.data[from];
    words[at++] = "--shard";
    words[at++] = shard;
    words[at++] = "--output";
    words[at++] = out;
    words[at++] = "--resume";
    for (; from < count; from++)
        words[at++] = submission->arguments.data[from];
    return words;
}

/* Runs the command and waits for it. Returns its status as waitpid does; -1: it was not started. Signals wait until the
   child can take them. */
static int run_command(const gs_submission *submission, const char **words) {
    const gs_process_options options = {
        .program = "/proc/self/exe", .words = words, .folder = submission->start, .end_signal = SIGKILL};
    pid_t process = 0;
    sigset_t all, before;
    sigfillset(&all);
    fflush(NULL);
    sigprocmask(SIG_BLOCK, &all, &before);
    int failed = passed_on ? 0 : gs_process_try(&options, &process);
    child = process;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (failed)
        fprintf(stderr, "gridsmith campaign: cannot start the command in %s: %s\n",
                submission->start ? submission->start : ".", strerror(failed));
    int status = process > 0 ? gs_process_wait(process) : -1;
    child = 0;
    return status;
}

static int play_one_shard(const gs_submission *submission, int64_t number) {
    gs_text shard = {0}, out = {0};
    gs_text_add(&shard, "%lld/%lld", (long long)number, (long long)submission->shards);
    gs_text_add(&out, "%s/shards", submission->path);
    const char **words = shard.failed || out.failed ? NULL : command_line(submission, shard.data, out.data);
    int status = words ? run_command(submission, words) : -1;
    free(words);
    gs_text_free(&shard);
    gs_text_free(&out);
    return status;
}

/* ---- before and after it ---- */

/* A process that was killed may take a moment to release the file. */
static void wait_for_file(const gs_submission *submission, int64_t number, gs_shard_progress *progress) {
    enum { LOOKS = 300 };
    const struct timespec pause = {.tv_nsec = 100000000};
    for (int i = 0; i < LOOKS && progress->is_played && !passed_on; i++) {
        nanosleep(&pause, NULL);
        gs_progress_of_shard(submission, number, progress, NULL);
    }
}

/* Reports an incomplete shard, and returns the exit code. The output of a failed command says why. */
static int report_end(int64_t number, int status, const gs_shard_progress *progress, gs_text *said) {
    char how[100] = "its command was not started";
    if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) >= 2)
        return WEXITSTATUS(status);
    if (status != -1)
        gs_process_say_end(status, how, sizeof how);
    if (progress->is_begun)
        gs_text_add(said, "shard %lld is not complete, %lld of %lld runs: %s\n", (long long)number,
                    (long long)progress->runs, (long long)progress->wanted, how);
    else
        gs_text_add(said, "shard %lld has not begun: %s\n", (long long)number, how);
    return FAILED;
}

int gs_play_shard(const gs_submission *submission, int64_t number, gs_text *said) {
    gs_shard_progress progress;
    gs_error error = {.code = GS_OK};
    listen_to_signals();
    if (gs_progress_of_shard(submission, number, &progress, &error) != GS_OK) {
        gs_text_add(said, "%s\n", error.message);
        return gs_code_exit(error.code);
    }
    wait_for_file(submission, number, &progress);
    int status = progress.is_complete ? 0 : play_one_shard(submission, number);
    gs_progress_of_shard(submission, number, &progress, NULL);
    if (!progress.is_complete)
        return report_end(number, status, &progress, said);
    gs_text_add(said, "shard %lld is complete\n", (long long)number);
    return 0;
}
