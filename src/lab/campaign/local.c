/*
 * local.c: all shards of a campaign on this machine, some at a time: one on each GPU, or one on each processor.
 *
 * Each shard is played by its own process, whose output goes to its log. A process of a slot with a GPU sees only that
 * GPU (CUDA_VISIBLE_DEVICES), so it is the first one for every command.
 */
#include "campaign.h"
#include "kernels/cuda/cuda.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_STARTS = 10, USAGE = 2, INCOMPLETE = 1, FAILED = 4 };

/* A slot in which a shard can be played. */
struct slot {
    pid_t process; /* 0: it is free */
    int64_t shard;
    char gpu[64]; /* for CUDA_VISIBLE_DEVICES, or "" */
};

struct here {
    const gs_submission *submission;
    gs_progress *progress;
    gs_shard_progress *shards;
    int *starts; /* of each shard */
    struct slot *slots;
    int64_t slot_count, playing, complete, failed;
    bool is_wrong;    /* the command line is wrong: nothing more is started */
    int stopped_by;   /* the signal that stops the campaign; 0: none */
    sigset_t signals; /* blocked except while waiting: ended children, and signals that stop the campaign */
};

/* ---- slots ---- */

static gs_code count_gpus(int64_t *count, gs_error *error) {
    cu_api api;
    int gpus = 0;
    gs_code code = gs_cuda_open(&api, error);
    if (code != GS_OK)
        return code;
    code = gs_cuda_check(&api, api.init(0), "starting the driver", error);
    if (code == GS_OK)
        code = gs_cuda_check(&api, api.device_count(&gpus), "counting the GPUs", error);
    gs_cuda_close(&api);
    *count = gpus;
    return code == GS_OK && !gpus ? gs_fail(error, GS_E_NO_GPU, "this machine has no GPU") : code;
}

/* The name of the GPU of a slot: an entry of CUDA_VISIBLE_DEVICES, or its number. */
static void name_gpu(int64_t number, char *name, size_t size) {
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    snprintf(name, size, "%lld", (long long)number);
    for (; list && number > 0; number--) {
        list = strchr(list, ',');
        list += list ? 1 : 0;
    }
    if (list && *list)
        snprintf(name, size, "%.*s", (int)strcspn(list, ","), list);
}

static gs_code make_slots(struct here *here, int64_t wanted, gs_error *error) {
    bool has_gpus = gs_submission_needs_gpu(here->submission);
    int64_t places = sysconf(_SC_NPROCESSORS_ONLN);
    gs_code code = has_gpus ? count_gpus(&places, error) : GS_OK;
    if (code != GS_OK)
        return code;
    here->slot_count = has_gpus && wanted ? gs_min(wanted, places) : wanted ? wanted : gs_max(places, 1);
    here->slot_count = gs_min(here->slot_count, here->submission->shards);
    here->slots = calloc((size_t)here->slot_count, sizeof *here->slots);
    for (int64_t i = 0; i < here->slot_count && here->slots && has_gpus; i++)
        name_gpu(i, here->slots[i].gpu, sizeof here->slots[i].gpu);
    return here->slots ? GS_OK : gs_fail_memory(error);
}

/* ---- processes ---- */

/* Starts `gridsmith campaign play`. What it prints goes to the log of the shard. */
static void start_player(const struct here *here, struct slot *slot) {
    char number[24], gpu[sizeof slot->gpu + 24];
    const char *const words[] = {"gridsmith", "campaign", "play", here->submission->path, number, NULL};
    const char *const changes[] = {slot->gpu[0] ? gpu : NULL, NULL};
    gs_text log = {0};
    snprintf(number, sizeof number, "%lld", (long long)slot->shard);
    snprintf(gpu, sizeof gpu, "CUDA_VISIBLE_DEVICES=%s", slot->gpu);
    gs_text_add(&log, "%s/logs/shard%lld.log", here->submission->path, (long long)slot->shard);
    int file = log.failed ? -1 : open(log.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const gs_process_options options = {
        .program = "/proc/self/exe", .words = words, .changes = changes, .output_fd = file, .end_signal = SIGKILL};
    if (file >= 0) {
        gs_process_try(&options, &slot->process);
        close(file);
    }
    gs_text_free(&log);
}

/* The next shard to start: one with the fewest starts, so that a failing shard does not delay the others. */
static int64_t next_shard(const struct here *here) {
    int64_t best = 0;
    for (int64_t i = 1; i <= here->submission->shards; i++) {
        bool is_playing = false;
        for (int64_t k = 0; k < here->slot_count; k++)
            is_playing |= here->slots[k].process && here->slots[k].shard == i;
        if (here->shards[i - 1].is_complete || is_playing || here->starts[i - 1] >= MOST_STARTS)
            continue;
        if (!best || here->starts[i - 1] < here->starts[best - 1])
            best = i;
    }
    return best;
}

static void fill_slots(struct here *here) {
    for (int64_t i = 0; i < here->slot_count; i++) {
        struct slot *slot = &here->slots[i];
        if (slot->process || !(slot->shard = next_shard(here)))
            continue;
        here->starts[slot->shard - 1]++;
        start_player(here, slot);
        here->playing += slot->process > 0;
    }
}

static void end_slot(struct here *here, struct slot *slot, int status) {
    gs_shard_progress *shard = &here->shards[slot->shard - 1];
    gs_progress_of_shard(here->submission, slot->shard, shard, NULL);
    here->complete += shard->is_complete;
    here->is_wrong |= !shard->is_complete && WIFEXITED(status) && WEXITSTATUS(status) == USAGE;
    here->failed += !shard->is_complete && !here->stopped_by && here->starts[slot->shard - 1] >= MOST_STARTS;
    slot->process = 0;
    here->playing--;
    gs_progress_say(here->progress, "%lld of %lld shards", (long long)here->complete,
                    (long long)here->submission->shards);
}

static void end_slots(struct here *here) {
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        for (int64_t i = 0; i < here->slot_count; i++)
            if (here->slots[i].process == ended)
                end_slot(here, &here->slots[i], status);
}

/* Waits until a shard has ended, or the campaign is stopped. */
static void wait_for_one(struct here *here) {
    const struct timespec second = {.tv_sec = 1};
    int signal = sigtimedwait(&here->signals, NULL, &second);
    if (signal == SIGINT || signal == SIGTERM)
        here->stopped_by = signal;
    for (int64_t i = 0; i < here->slot_count && here->stopped_by == signal; i++)
        if (here->slots[i].process)
            kill(here->slots[i].process, SIGTERM);
    end_slots(here);
}

static void play_all(struct here *here) {
    for (int64_t i = 0; i < here->submission->shards; i++)
        here->complete += here->shards[i].is_complete;
    do {
        if (!here->stopped_by && !here->is_wrong)
            fill_slots(here);
        if (here->playing)
            wait_for_one(here);
    } while (here->playing || (!here->stopped_by && !here->is_wrong && next_shard(here)));
}

/* ---- all of it ---- */

/* Reports failed shards, and returns the exit code. */
static int report_failures(const struct here *here, gs_text *said) {
    const gs_submission *submission = here->submission;
    char words[300];
    if (here->complete == submission->shards)
        return 0;
    for (int64_t i = 1; i <= submission->shards && !here->stopped_by; i++) {
        if (!here->starts[i - 1] || here->shards[i - 1].is_complete)
            continue;
        gs_last_words(submission, i, words, sizeof words);
        gs_text_add(said, "shard %lld failed: %s\n", (long long)i, words);
        if (here->is_wrong)
            return USAGE;
    }
    gs_text_add(said, "%lld of %lld shards are complete; 'gridsmith campaign resume' continues\n",
                (long long)here->complete, (long long)submission->shards);
    return here->stopped_by ? 128 + here->stopped_by : INCOMPLETE;
}

static void free_here(struct here *here) {
    free(here->shards);
    free(here->starts);
    free(here->slots);
}

int gs_play_here(const gs_submission *submission, const gs_here_options *options, gs_text *said) {
    struct here here = {.submission = submission, .progress = options->progress};
    gs_error error = {.code = GS_OK};
    size_t shards = (size_t)submission->shards;
    sigset_t before;
    here.shards = calloc(shards, sizeof *here.shards);
    here.starts = calloc(shards, sizeof *here.starts);
    gs_code code =
        here.shards && here.starts ? gs_progress_of(submission, here.shards, &error) : gs_fail_memory(&error);
    if (code == GS_OK)
        code = make_slots(&here, options->jobs, &error);
    if (code != GS_OK) {
        gs_text_add(said, "%s\n", error.message);
        free_here(&here);
        return gs_code_exit(code);
    }
    sigemptyset(&here.signals);
    sigaddset(&here.signals, SIGCHLD);
    sigaddset(&here.signals, SIGINT);
    sigaddset(&here.signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &here.signals, &before);
    play_all(&here);
    sigprocmask(SIG_SETMASK, &before, NULL);
    int status = report_failures(&here, said);
    free_here(&here);
    return status;
}
