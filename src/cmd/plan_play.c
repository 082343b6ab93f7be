/*
 * plan_play.c: gridsmith plan --play: the tasks of a simulation on a GPU, one after the other, on streams, and through
 * the daemon with the plan.
 *
 * Each task is an application of `gridsmith zoo load`, which this program starts: alone; all of them in one process,
 * each with a stream; and all of them as clients of a `gridsmith serve --plan` that is started for it. A round begins
 * together, and its time is from the first begin to the last end. The first rounds do not count: clocks settle, and the
 * daemon measures kernels. Of the others the median counts.
 */
#include "cmd.h"
#include "kernels/zoo/zoo.h"
#include "plan_verbs.h"
#include "sharing/decide/decide.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM_UP = 3, MOST_TASKS = 8, LOAD_SECONDS = 600, START_SECONDS = 60 };

struct play {
    const gs_plan_play_options *options;
    char *list;                    /* the names of the tasks, */
    const char *names[MOST_TASKS]; /* divided */
    size_t count;
    char *folder;
    char program[512];
    gs_text output, errors, socket; /* files in the folder */
    pid_t daemon;                   /* 0: it does not run */
};

/* ---- what is played ---- */

/* Only kernels of the zoo and networks can be applications. */
static gs_code divide_tasks(struct play *play, gs_error *error) {
    char *rest = NULL;
    play->list = strdup(play->options->tasks);
    if (!play->list)
        return gs_fail_memory(error);
    for (char *word = strtok_r(play->list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)gs_min((int64_t)strcspn(word, ":"), sizeof name - 1), word);
        if (!gs_zoo_find(name) && !gs_network_exists(name))
            return gs_fail(error, GS_E_USAGE, "--play takes kernels of the zoo and networks, not \"%.60s\"", word);
        if (play->count == MOST_TASKS)
            return gs_fail(error, GS_E_USAGE, "--play takes at most %d tasks", MOST_TASKS);
        play->names[play->count++] = word;
    }
    return GS_OK;
}

static gs_code open_play(struct play *play, gs_error *error) {
    ssize_t length = readlink("/proc/self/exe", play->program, sizeof play->program - 1);
    gs_code code = divide_tasks(play, error);
    if (code == GS_OK && length <= 0)
        code = gs_fail(error, GS_E_IO, "the file of this program is not known");
    if (code == GS_OK && !(play->folder = gs_folder_make(error)))
        code = error->code;
    if (code != GS_OK)
        return code;
    gs_text_add(&play->output, "%s/rounds", play->folder);
    gs_text_add(&play->errors, "%s/errors", play->folder);
    gs_text_add(&play->socket, "%s/socket", play->folder);
    return play->output.failed || play->errors.failed || play->socket.failed ? gs_fail_memory(error) : GS_OK;
}

static void close_play(struct play *play) {
    if (play->daemon)
        gs_process_kill(play->daemon, true);
    if (play->folder)
        gs_folder_remove(play->folder);
    free(play->folder);
    free(play->list);
    gs_text_free(&play->output);
    gs_text_free(&play->errors);
    gs_text_free(&play->socket);
}

/* ---- rounds ---- */

struct rounds {
    double began_ns[GS_PLAY_ROUNDS], ended_ns[GS_PLAY_ROUNDS];
    int64_t count;
};

static void add_round(struct rounds *rounds, const json_t *line) {
    int64_t round = json_integer_value(json_object_get(line, "round")) - 1 - WARM_UP;
    const char *event = json_string_value(json_object_get(line, "event"));
    double began = json_number_value(json_object_get(line, "began_ns"));
    double ended = json_number_value(json_object_get(line, "ended_ns"));
    if (!event || strcmp(event, "round") != 0 || round < 0 || round >= GS_PLAY_ROUNDS)
        return;
    bool is_first = rounds->ended_ns[round] == 0;
    rounds->began_ns[round] = is_first || began < rounds->began_ns[round] ? began : rounds->began_ns[round];
    rounds->ended_ns[round] = is_first || ended > rounds->ended_ns[round] ? ended : rounds->ended_ns[round];
    rounds->count = gs_max(rounds->count, round + 1);
}

static int compare_times(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static gs_code read_rounds(const struct play *play, double *us, gs_error *error) {
    struct rounds rounds = {.count = 0};
    gs_input *input = gs_input_open(play->output.data, error);
    gs_code code = input ? GS_OK : error->code;
    for (bool is_over = false; code == GS_OK && !is_over;) {
        gs_json json;
        code = gs_json_next(input, &json, error);
        is_over = code != GS_OK || !json.root;
        if (!is_over)
            add_round(&rounds, json.root);
        gs_json_free(&json);
    }
    gs_input_close(input);
    if (code == GS_OK && rounds.count == 0)
        return gs_fail(error, GS_E_IO, "gridsmith zoo load printed no rounds");
    for (int64_t i = 0; i < rounds.count; i++)
        rounds.ended_ns[i] -= rounds.began_ns[i];
    qsort(rounds.ended_ns, (size_t)rounds.count, sizeof *rounds.ended_ns, compare_times);
    *us = rounds.ended_ns[rounds.count / 2] / 1000;
    return code;
}

/* ---- programs ---- */

/* The first line that a program has printed as an error, or else how it ended. */
static gs_code fail_as(const struct play *play, const char *what, int status, gs_error *error) {
    static const char prefix[] = "gridsmith: ";
    enum { NO_GPU = 3 }; /* as exit code */
    char *errors = gs_folder_read(play->folder, "errors", 4096), end[120];
    const char *line = errors && strncmp(errors, prefix, sizeof prefix - 1) == 0 ? errors + sizeof prefix - 1 : errors;
    gs_process_say_end(status, end, sizeof end);
    gs_code code = gs_process_exit_code(status) == NO_GPU ? GS_E_NO_GPU : GS_E_IO;
    gs_fail(error, code, "%s: %.*s", what, line && *line ? (int)strcspn(line, "\n") : (int)strlen(end),
            line && *line ? line : end);
    free(errors);
    return code;
}

/* Runs these tasks as applications of one process. */
static gs_code run_load(const struct play *play, size_t first, size_t count, bool is_served, double *us,
                        gs_error *error) {
    const gs_plan_play_options *options = play->options;
    const char *words[MOST_TASKS + 16] = {play->program, "zoo", "load"};
    size_t at = 3;
    char rounds[32], seconds[32];
    gs_text socket = {0};
    int status = 0;
    pid_t process;
    for (size_t i = first; i < first + count; i++)
        words[at++] = play->names[i];
    snprintf(rounds, sizeof rounds, "--rounds=%d", (int)options->rounds + WARM_UP);
    snprintf(seconds, sizeof seconds, "--seconds=%d", LOAD_SECONDS);
    const char *const more[] = {"--on", is_served ? "serve" : "cuda", "--json", "--repeat=1", rounds, seconds};
    memcpy(words + at, more, sizeof more);
    at += GS_COUNT(more);
    words[at] = options->size ? "--size" : NULL;
    words[at + 1] = options->size;
    gs_text_add(&socket, "GRIDSMITH_SOCKET=%s", play->socket.data);
    const gs_process_options started = {.words = words,
                                        .changes = (const char *const[]){socket.data, NULL},
                                        .input = "/dev/null",
                                        .output = play->output.data,
                                        .errors = play->errors.data,
                                        .has_own_group = true,
                                        .end_signal = SIGKILL};
    gs_code code = socket.failed ? gs_fail_memory(error) : gs_process_start(&started, &process, error);
    gs_text_free(&socket);
    if (code != GS_OK)
        return code;
    if (!gs_process_wait_until(process, gs_now_ns() + (LOAD_SECONDS + 10) * INT64_C(1000000000), &status)) {
        gs_process_kill(process, true);
        return gs_fail(error, GS_E_IO, "gridsmith zoo load has not ended after %d seconds", LOAD_SECONDS);
    }
    return status == 0 ? read_rounds(play, us, error) : fail_as(play, "gridsmith zoo load", status, error);
}

/* Starts the daemon, and waits until it listens. */
static gs_code start_daemon(struct play *play, gs_error *error) {
    const char *const words[] = {
        play->program, "serve", "--socket", play->socket.data, "--profiles", "", "--plan", play->options->plan, NULL};
    const gs_process_options started = {.words = words,
                                        .input = "/dev/null",
                                        .output = "/dev/null",
                                        .errors = play->errors.data,
                                        .has_own_group = true,
                                        .end_signal = SIGTERM};
    int status;
    gs_code code = gs_process_start(&started, &play->daemon, error);
    for (int64_t until = gs_now_ns() + START_SECONDS * INT64_C(1000000000); code == GS_OK;) {
        if (access(play->socket.data, F_OK) == 0)
            return GS_OK;
        if (gs_process_wait_until(play->daemon, gs_now_ns() + 20000000, &status)) {
            play->daemon = 0;
            code = fail_as(play, "gridsmith serve", status, error);
        } else if (gs_now_ns() > until)
            code = gs_fail(error, GS_E_IO, "gridsmith serve does not listen after %d seconds", START_SECONDS);
    }
    return code;
}

gs_code gs_plan_play(const gs_plan_play_options *options, gs_plan_played *played, gs_error *error) {
    struct play play = {.options = options};
    *played = (gs_plan_played){.alone_us = 0};
    gs_code code = open_play(&play, error);
    for (size_t i = 0; i < play.count && code == GS_OK; i++) {
        double us = 0;
        code = run_load(&play, i, 1, false, &us, error);
        played->alone_us += us;
    }
    if (code == GS_OK)
        code = run_load(&play, 0, play.count, false, &played->streams_us, error);
    if (code == GS_OK)
        code = start_daemon(&play, error);
    if (code == GS_OK)
        code = run_load(&play, 0, play.count, true, &played->served_us, error);
    close_play(&play);
    return code;
}
