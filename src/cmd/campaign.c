/*
 * campaign.c: gridsmith campaign: submits a campaign in shards to many machines, or to all GPUs of one, watches it,
 * resumes failed shards, and merges it. src/lab/campaign explains the folder of a campaign.
 */
#include "lab/campaign/campaign.h"
#include "cmd.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    bool local, slurm, kubernetes, parallel, json;
    const char *dir, *gres, *time, *partition, *image, *claim, *output;
    int64_t shards, jobs;
};

static const gs_option option_table[] = {
    GS_FLAG(struct options, "local", local, "play all shards here, one process for each GPU or processor, and wait"),
    GS_FLAG(struct options, "slurm", slurm, "submit a job array to Slurm"),
    GS_FLAG(struct options, "kubernetes", kubernetes, "write the manifest of an indexed Job"),
    GS_FLAG(struct options, "parallel", parallel, "write a script for GNU parallel"),
    GS_INT(struct options, "shards", shards, "N", 1, GS_MOST_SHARDS, "how many shards (default 64)"),
    GS_TEXT(struct options, "dir", dir, "DIR", "the folder of the campaign (default: campaign-1, or the next number)"),
    GS_INT(struct options, "jobs", jobs, "N", 1, GS_MOST_SHARDS,
           "at most N shards at a time (default: with --local one for each GPU or processor, otherwise all)"),
    GS_TEXT(struct options, "gres", gres, "GRES",
            "Slurm: the resources of a task (default gpu:1 for a command on a GPU)"),
    GS_TEXT(struct options, "time", time, "TIME", "Slurm: time limit of a task, such as 1:00:00"),
    GS_TEXT(struct options, "partition", partition, "NAME", "Slurm: the partition"),
    GS_TEXT(struct options, "image", image, "IMAGE", "Kubernetes: a container image with gridsmith"),
    GS_TEXT(struct options, "claim", claim, "NAME", "Kubernetes: the volume claim with the folder"),
    GS_OUTPUT(struct options, output, "fetch: write the campaign to FILE (default: campaign.jsonl in its folder)"),
    GS_FLAG(struct options, "json", json, "status: write gridsmith.campaign-status/1"),
};

/* ---- folders ---- */

/* The last folder called campaign-N, or with `is_new` the first unused name. */
static void number_folder(bool is_new, char *name, size_t size) {
    int number = 1;
    do
        snprintf(name, size, "campaign-%d", number++);
    while (access(name, F_OK) == 0);
    if (!is_new && number > 2)
        snprintf(name, size, "campaign-%d", number - 2);
}

/* Reads the campaign in the folder of the command line, or in the last one of this folder. 0: done. */
static int open_campaign(const gs_words *words, gs_submission *submission) {
    char name[40];
    gs_error error = {.code = GS_OK};
    *submission = (gs_submission){0};
    number_folder(false, name, sizeof name);
    if (!words->count && access(name, F_OK) != 0) {
        gs_fail(&error, GS_E_USAGE,
                "there is no campaign in this folder: name one, or make one with 'gridsmith campaign "
                "submit'");
        return gs_report(&error);
    }
    gs_code code = gs_submission_read(words->count ? words->data[0] : name, submission, &error);
    return code == GS_OK ? 0 : gs_report(&error);
}

/* Prints lines on standard error, each with the name of the command. */
static void print_said(gs_text *said) {
    for (char *line = said->data, *end; line && *line; line = end) {
        end = line + strcspn(line, "\n");
        fprintf(stderr, "gridsmith campaign: %.*s\n", (int)(end - line), line);
        end += *end == '\n';
    }
    gs_text_free(said);
}

static void print_grouped(int64_t value) {
    gs_text text = gs_text_for_people(stdout);
    gs_text_put_grouped(&text, value);
    gs_text_flush(&text);
    gs_text_free(&text);
}

/* ---- submit ---- */

static int check_scheduler(const gs_command *command, const struct options *options, gs_scheduler *on) {
    const bool chosen[GS_SCHEDULERS] = {options->local, options->slurm, options->kubernetes, options->parallel};
    int count = 0;
    for (int i = 0; i < GS_SCHEDULERS; i++)
        if (chosen[i]) {
            *on = (gs_scheduler)i;
            count++;
        }
    if (count != 1)
        return gs_usage(command, "give one of --local, --slurm, --kubernetes and --parallel");
    if (*on != GS_ON_SLURM && (options->gres || options->time || options->partition))
        return gs_usage(command, "--gres, --time and --partition go with --slurm");
    if (*on != GS_ON_KUBERNETES && (options->image || options->claim))
        return gs_usage(command, "--image and --claim go with --kubernetes");
    if (*on == GS_ON_KUBERNETES && (!options->image || !options->claim))
        return gs_usage(command, "--kubernetes needs --image IMAGE and --claim NAME");
    return 0;
}

/* Checks a word for a line of the Slurm job script. */
static int check_plain(const gs_command *command, const char *const *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (values[i] && strpbrk(values[i], "\n\r\"\\%"))
            return gs_usage(command, "Slurm cannot take \"%.60s\": no quotes, backslashes, percent signs and newlines",
                            values[i]);
    return 0;
}

/* The command of the campaign, with the options of a shard, must parse. */
static int check_command(const gs_command *command, const gs_words *words) {
    static char *const added[] = {"--shard", "1/1", "--output", "shards", "--resume"};
    gs_error error = {.code = GS_OK};
    if (gs_check_sharded(words->data, words->count, &error) != GS_OK)
        return gs_usage(command, "%s", error.message);
    char **line = calloc(words->count + GS_COUNT(added) + 1, sizeof *line);
    int status = line ? 0 : gs_report_memory(), count = 0;
    for (size_t i = 0; i < words->count && line; i++) {
        line[count++] = (char *)(uintptr_t)words->data[i];
        for (size_t k = 0; k < GS_COUNT(added) && i == 0; k++)
            line[count++] = added[k];
    }
    for (size_t i = 0; i < gs_command_count && line; i++)
        if (strcmp(gs_commands[i]->name, words->data[0]) == 0)
            status = gs_command_parse(gs_commands[i], count, line);
    free(line);
    return status;
}

/* The absolute path of a folder, which need not exist. */
static char *absolute_path(const char *path) {
    gs_text text = {0};
    char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
    gs_text_add(&text, "%s%s%s", here ? here : "", here ? "/" : "", path);
    while (text.count > 1 && text.data[text.count - 1] == '/')
        text.data[--text.count] = '\0';
    free(here);
    if (!text.failed)
        return text.data;
    gs_text_free(&text);
    return NULL;
}

static gs_code fill_submission(gs_submission *submission, const struct options *options, const gs_words *words,
                               gs_error *error) {
    char name[40];
    number_folder(true, name, sizeof name);
    submission->shards = options->shards;
    submission->path = absolute_path(options->dir ? options->dir : name);
    submission->start = submission->on == GS_ON_KUBERNETES ? NULL : getcwd(NULL, 0);
    bool has_memory = submission->path && (submission->start || submission->on == GS_ON_KUBERNETES) &&
                      GS_RESERVE(&submission->arguments, words->count + 1);
    for (size_t i = 0; i < words->count && has_memory; i++) {
        has_memory = (submission->arguments.data[i] = strdup(words->data[i]));
        submission->arguments.count += has_memory;
    }
    if (!has_memory)
        return gs_fail_memory(error);
    submission->arguments.data[words->count] = NULL;
    return GS_OK;
}

/* Writes the input of the scheduler into the folder. */
static gs_code write_job(const gs_submission *submission, const struct options *options, gs_error *error) {
    static void (*const put[GS_SCHEDULERS])(gs_text *, const gs_submission *,
                                            const gs_job_options *) = {[GS_ON_SLURM] = gs_put_slurm_script,
                                                                       [GS_ON_KUBERNETES] = gs_put_kubernetes_job,
                                                                       [GS_ON_PARALLEL] = gs_put_parallel_script};
    char *program = submission->on == GS_ON_KUBERNETES ? strdup("gridsmith") : realpath("/proc/self/exe", NULL);
    gs_job_options job = {.program = program,
                          .gres = options->gres                         ? options->gres
                                  : gs_submission_needs_gpu(submission) ? "gpu:1"
                                                                        : NULL,
                          .time = options->time,
                          .partition = options->partition,
                          .image = options->image,
                          .claim = options->claim,
                          .jobs = options->jobs};
    gs_text text = {0};
    gs_code code = program ? GS_OK : gs_fail_system(error, "find", "this program");
    if (code == GS_OK) {
        put[submission->on](&text, submission, &job);
        code = text.failed
                   ? gs_fail_memory(error)
                   : gs_folder_write(submission->path, gs_job_file(submission->on), text.data, text.count, error);
    }
    gs_text_free(&text);
    free(program);
    return code;
}

static int play_here(const gs_submission *submission, int64_t jobs) {
    gs_progress progress;
    gs_text said = {0};
    gs_progress_start(&progress, "playing");
    int status = gs_play_here(submission, &(gs_here_options){.jobs = jobs, .progress = &progress}, &said);
    gs_progress_end(&progress);
    print_said(&said);
    return status;
}

/* Submits shards, all or the selected ones, and reports the job. */
static int submit_slurm(gs_submission *submission, const bool *is_wanted) {
    gs_error error = {.code = GS_OK};
    if (gs_slurm_submit(submission, is_wanted, &error) != GS_OK)
        return gs_report(&error);
    printf("%s: Slurm job %lld\n", submission->path, (long long)submission->jobs.data[submission->jobs.count - 1]);
    return 0;
}

static int submit_all(gs_submission *submission) {
    bool *all = malloc((size_t)submission->shards * sizeof *all);
    if (!all)
        return gs_report_memory();
    memset(all, true, (size_t)submission->shards);
    int status = submit_slurm(submission, all);
    free(all);
    return status;
}

/* Prints the command for the written file. */
static int print_next(const gs_submission *submission) {
    const char *file = gs_job_file(submission->on);
    printf(submission->on == GS_ON_KUBERNETES ? "kubectl apply -f %s/%s\n" : "sh %s/%s\n", submission->path, file);
    return 0;
}

static int start_shards(gs_submission *submission, const struct options *options) {
    switch (submission->on) {
    case GS_ON_SLURM:
        return submit_all(submission);
    case GS_ON_LOCAL:
        printf("%s\n", submission->path);
        fflush(stdout);
        return play_here(submission, options->jobs);
    default:
        return print_next(submission);
    }
}

static int submit_verb(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_submission submission = {0};
    gs_error error = {.code = GS_OK};
    int status = check_scheduler(command, options, &submission.on);
    if (status == 0)
        status = check_command(command, words);
    gs_code code = status == 0 ? fill_submission(&submission, options, words, &error) : GS_OK;
    const char *const plain[] = {options->gres, options->time, options->partition, submission.path};
    if (status == 0 && code == GS_OK && submission.on == GS_ON_SLURM)
        status = check_plain(command, plain, GS_COUNT(plain));
    bool is_new = status == 0 && code == GS_OK && access(submission.path, F_OK) != 0;
    if (status == 0 && code == GS_OK)
        code = gs_submission_make(&submission, &error);
    if (status == 0 && code == GS_OK && gs_job_file(submission.on))
        code = write_job(&submission, options, &error);
    if (status == 0)
        status = code == GS_OK ? start_shards(&submission, options) : gs_report(&error);
    if (status && is_new)
        gs_submission_discard(&submission);
    gs_submission_clear(&submission);
    return status;
}

/* ---- status ---- */

struct totals {
    int64_t complete, playing, waiting, stopped, begun; /* shards; `begun`: those with a known number of runs */
    int64_t runs, wanted;                               /* of shards that have begun */
};

static bool is_playing(const gs_shard_progress *shard) {
    return shard->is_played || (shard->waiting && strcmp(shard->waiting, "RUNNING") == 0);
}

/* Begun, but neither complete nor being played. */
static bool is_stopped(const gs_shard_progress *shard) {
    return shard->is_begun && !shard->is_complete && !is_playing(shard) && !shard->waiting;
}

static struct totals add_up(const gs_submission *submission, const gs_shard_progress *shards) {
    struct totals totals = {0};
    for (int64_t i = 0; i < submission->shards; i++) {
        const gs_shard_progress *shard = &shards[i];
        totals.runs += shard->runs;
        totals.wanted += shard->wanted;
        totals.begun += shard->is_begun;
        totals.complete += shard->is_complete;
        totals.playing += !shard->is_complete && is_playing(shard);
        totals.stopped += is_stopped(shard);
    }
    totals.waiting = submission->shards - totals.complete - totals.playing - totals.stopped;
    return totals;
}

static void put_status_json(gs_text *text, const gs_submission *submission, const gs_shard_progress *shards) {
    struct totals totals = add_up(submission, shards);
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.campaign-status/1");
    gs_write_string(&writer, "on", gs_scheduler_names[submission->on]);
    gs_write_int(&writer, "shards", submission->shards);
    gs_write_int(&writer, "complete", totals.complete);
    gs_write_int(&writer, "playing", totals.playing);
    gs_write_int(&writer, "waiting", totals.waiting);
    gs_write_int(&writer, "stopped", totals.stopped);
    gs_write_int(&writer, "runs", totals.runs);
    gs_write_array(&writer, "each");
    for (int64_t i = 0; i < submission->shards; i++) {
        gs_write_object(&writer, NULL);
        gs_write_int(&writer, "runs", shards[i].runs);
        if (shards[i].is_begun)
            gs_write_int(&writer, "of", shards[i].wanted);
        gs_write_bool(&writer, "playing", is_playing(&shards[i]));
        if (shards[i].waiting)
            gs_write_string(&writer, "slurm", shards[i].waiting);
        gs_write_end(&writer);
    }
    gs_write_finish(&writer);
}

/* Why a shard stopped: the last line of its log, which may be from this command. */
static void print_stopped(const gs_submission *submission, int64_t number, const gs_shard_progress *shard) {
    static const char own[] = "gridsmith campaign: ";
    char words[200];
    gs_last_words(submission, number, words, sizeof words);
    if (strncmp(words, own, sizeof own - 1) == 0)
        printf("%s\n", words + sizeof own - 1);
    else
        printf("shard %lld is not complete, %lld of %lld runs%s%s\n", (long long)number, (long long)shard->runs,
               (long long)shard->wanted, words[0] ? ": " : "", words);
}

static void print_status(const gs_submission *submission, const gs_shard_progress *shards) {
    enum { MOST_NAMED = 10 };
    struct totals totals = add_up(submission, shards);
    int64_t named = 0;
    printf("%s:", submission->path);
    for (size_t i = 0; i < submission->arguments.count; i++)
        printf(" %s", submission->arguments.data[i]);
    printf("\nshards %lld: %lld complete, %lld playing, %lld waiting, %lld stopped\nruns   ",
           (long long)submission->shards, (long long)totals.complete, (long long)totals.playing,
           (long long)totals.waiting, (long long)totals.stopped);
    print_grouped(totals.runs);
    printf(totals.begun ? " of " : "\n");
    if (totals.begun) {
        print_grouped(totals.wanted);
        printf(totals.begun < submission->shards ? " of the shards that have begun\n" : "\n");
    }
    for (int64_t i = 0; i < submission->shards && named < MOST_NAMED; i++)
        if (is_stopped(&shards[i])) {
            print_stopped(submission, i + 1, &shards[i]);
            named++;
        }
}

/* The progress of all shards, with their Slurm states if available. The caller frees the list. NULL: an error, already
   reported. */
static gs_shard_progress *read_progress(const gs_submission *submission, bool needs_slurm, int *status) {
    gs_error error = {.code = GS_OK};
    gs_shard_progress *shards = calloc((size_t)submission->shards, sizeof *shards);
    gs_code code = shards ? gs_progress_of(submission, shards, &error) : gs_fail_memory(&error);
    if (code == GS_OK && submission->on == GS_ON_SLURM)
        code = gs_slurm_states(submission, shards, &error);
    if (code == GS_E_IO && !needs_slurm && shards) {
        fprintf(stderr, "gridsmith campaign: the states of tasks are not known: %s\n", error.message);
        code = GS_OK;
    }
    if (code == GS_OK && submission->on == GS_ON_KUBERNETES)
        fprintf(stderr, "gridsmith campaign: shards played on other machines are not known; see 'kubectl get pods'\n");
    if (code == GS_OK)
        return shards;
    *status = gs_report(&error);
    free(shards);
    return NULL;
}

static int status_verb(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_submission submission;
    gs_error error = {.code = GS_OK};
    (void)command;
    int status = open_campaign(words, &submission);
    gs_shard_progress *shards = status == 0 ? read_progress(&submission, false, &status) : NULL;
    if (shards) {
        gs_text text = gs_text_for_people(stdout);
        if (options->json)
            put_status_json(&text, &submission, shards);
        else
            print_status(&submission, shards);
        status = gs_print_text(&text, GS_OK, &error) != GS_OK                ? gs_report(&error)
                 : add_up(&submission, shards).complete == submission.shards ? 0
                                                                             : 1;
    }
    free(shards);
    gs_submission_clear(&submission);
    return status;
}

/* ---- resume ---- */

/* Submits the shards that are neither complete nor with Slurm. */
static int resume_slurm(gs_submission *submission) {
    int status = 0;
    int64_t count = 0;
    gs_shard_progress *shards = read_progress(submission, true, &status);
    bool *is_wanted = shards ? calloc((size_t)submission->shards, sizeof *is_wanted) : NULL;
    for (int64_t i = 0; i < submission->shards && is_wanted; i++) {
        is_wanted[i] = !shards[i].is_complete && !shards[i].waiting;
        count += is_wanted[i];
    }
    if (is_wanted && count)
        status = submit_slurm(submission, is_wanted);
    else if (is_wanted)
        printf("%s: every shard is complete, or with Slurm\n", submission->path);
    else if (shards)
        status = gs_report_memory();
    free(is_wanted);
    free(shards);
    return status;
}

static int resume_verb(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_submission submission;
    (void)command;
    int status = open_campaign(words, &submission);
    if (status == 0)
        status = submission.on == GS_ON_SLURM   ? resume_slurm(&submission)
                 : submission.on == GS_ON_LOCAL ? play_here(&submission, options->jobs)
                                                : print_next(&submission);
    gs_submission_clear(&submission);
    return status;
}

/* ---- play, fetch ---- */

static int play_verb(const gs_command *command, void *given, const gs_words *words) {
    gs_submission submission;
    gs_text said = {0};
    char *end;
    (void)given;
    int status = open_campaign(words, &submission);
    long long number = strtoll(words->data[1], &end, 10);
    if (status == 0 && (*end || number < 1 || number > submission.shards))
        status = gs_usage(command, "the number of a shard must be 1 to %lld, not \"%.40s\"",
                          (long long)submission.shards, words->data[1]);
    else if (status == 0)
        status = gs_play_shard(&submission, number, &said);
    print_said(&said);
    gs_submission_clear(&submission);
    return status;
}

static int fetch_verb(const gs_command *command, void *given, const gs_words *words) {
    const struct options *options = given;
    gs_submission submission;
    gs_text shards = {0}, output = {0};
    int status = open_campaign(words, &submission);
    if (status == 0) {
        gs_text_add(&shards, "%s/shards", submission.path);
        gs_text_add(&output, "%s/campaign.jsonl", submission.path);
        const char *const paths[] = {shards.data};
        status = shards.failed || output.failed
                     ? gs_report_memory()
                     : gs_merge_paths(command, paths, 1, options->output ? options->output : output.data);
    }
    gs_text_free(&shards);
    gs_text_free(&output);
    gs_submission_clear(&submission);
    return status;
}

/* ---- the command ---- */

static const gs_verb verbs[] = {
    {.name = "submit",
     .usage = "--local|--slurm|--kubernetes|--parallel [options] -- COMMAND [options]",
     .options = "local slurm kubernetes parallel shards dir jobs gres time partition image claim",
     .words = {1, SIZE_MAX, "give the command of the campaign after --, such as: -- fuzz --device cuda --count 100000"},
     .run = submit_verb},
    {.name = "status",
     .usage = "[DIR] [--json]",
     .options = "json",
     .words = {0, 1, "give one folder"},
     .run = status_verb},
    {.name = "resume",
     .usage = "[DIR] [--jobs N]",
     .options = "jobs",
     .words = {0, 1, "give one folder"},
     .run = resume_verb},
    {.name = "fetch",
     .usage = "[DIR] [-o FILE]",
     .options = "output",
     .words = {0, 1, "give one folder"},
     .run = fetch_verb},
    {.name = "play",
     .usage = "DIR NUMBER",
     .options = "",
     .words = {2, 2, "give the folder of the campaign and the number of a shard"},
     .run = play_verb},
};

const gs_command gs_command_campaign = {
    .name = "campaign",
    .summary = "Play a campaign in shards: with Slurm, Kubernetes, GNU parallel, or on all GPUs of this machine.",
    .details = "submit  makes the folder of a campaign, and starts it\n"
               "status  shows its progress; exit code 0: all shards are complete, 1: not yet\n"
               "resume  restarts the incomplete shards, which continue where they stopped\n"
               "fetch   merges the shards into the file that one process would have written\n"
               "play    plays one shard; the other verbs start it\n\n"
               "The command can be fuzz, record, 'bound --measure' or 'zoo bench'. The default of DIR is the last "
               "campaign-N here.\n\n"
               "  gridsmith campaign submit --slurm --time 2:00:00 -- fuzz --device cuda --count 1000000\n"
               "  gridsmith campaign status\n"
               "  gridsmith campaign fetch -o runs.jsonl\n",
    GS_OPTION_TABLE(struct options, option_table),
    .defaults = &(const struct options){.shards = 64},
    .verbs = verbs,
    .verb_count = GS_COUNT(verbs),
};
