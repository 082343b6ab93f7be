/*
 * plan_play.c: gridsmith plan --play: the tasks of a simulation on a GPU, one after the other, on streams, under MPS,
 * and through the daemon with the plan.
 *
 * Each task is an application of `gridsmith zoo load --wait`, which this program starts: all of them in one process,
 * which runs one at a time or all at once, each with a stream; or each in a process of its own, under MPS or as clients
 * of a `gridsmith serve --plan` that is started for it. A line to each process begins a round, whose time is from the
 * first begin to the last end. The first rounds do not count: clocks settle, and the daemon measures kernels. Of the
 * others the median counts.
 */
#define _GNU_SOURCE
#include "cmd.h"
#include "plan_verbs.h"
#include "sharing/serve/serve.h"
#include "zoo_verbs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM_UP = 3, MOST_TASKS = 8, LOAD_SECONDS = 600, START_SECONDS = 60, END_SECONDS = 10 };

/* A process with some of the tasks. */
struct load {
    pid_t process; /* 0: it does not run */
    int lines;     /* written to it: one for each round */
    FILE *events;  /* read from it */
    size_t tasks;
};

struct play {
    const gs_plan_play_options *options;
    gs_zoo_applications tasks;
    gs_text words[MOST_TASKS]; /* of the tasks: names, and files in the folder */
    char *folder;
    char program[512];
    gs_text errors, socket; /* files in the folder */
    pid_t daemon;           /* 0: it does not run */
    gs_mps mps;
    struct load loads[MOST_TASKS];
    size_t load_count;
};

/* ---- what is played ---- */

/* What the words of the user name: the same applications as those of `zoo load`, so mistakes are found here. */
static gs_code open_tasks(struct play *play, gs_error *error) {
    char *rest = NULL, *list = strdup(play->options->tasks);
    gs_code code = list ? GS_OK : gs_fail_memory(error);
    for (char *word = list ? strtok_r(list, ",", &rest) : NULL; word && code == GS_OK;
         word = strtok_r(NULL, ",", &rest))
        code = gs_zoo_applications_add(&play->tasks, word, play->options->size, error);
    free(list);
    if (code == GS_OK && (play->tasks.count == 0 || play->tasks.count > MOST_TASKS))
        code = gs_fail(error, GS_E_USAGE, "--play takes 1 to %d tasks, not %zu", MOST_TASKS, play->tasks.count);
    return code;
}

/* Each task of a file gets a file of its own, because it may have to run in a process of its own. */
static gs_code name_tasks(struct play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->tasks.count && code == GS_OK; i++) {
        const gs_zoo_application *task = &play->tasks.data[i];
        char name[32];
        if (task->is_of_file) {
            snprintf(name, sizeof name, "%zu.json", i);
            code = gs_folder_write(play->folder, name, task->text, strlen(task->text), error);
            gs_text_add(&play->words[i], "%s/%s", play->folder, name);
        } else {
            gs_text_add(&play->words[i], "%s", task->text);
        }
        if (code == GS_OK && play->words[i].failed)
            code = gs_fail_memory(error);
    }
    return code;
}

static gs_code open_play(struct play *play, gs_error *error) {
    ssize_t length = readlink("/proc/self/exe", play->program, sizeof play->program - 1);
    gs_code code = open_tasks(play, error);
    if (code == GS_OK && length <= 0)
        code = gs_fail(error, GS_E_IO, "the file of this program is not known");
    if (code == GS_OK && !(play->folder = gs_folder_make(error)))
        code = error->code;
    if (code == GS_OK)
        code = name_tasks(play, error);
    if (code != GS_OK)
        return code;
    gs_text_add(&play->errors, "%s/errors", play->folder);
    gs_text_add(&play->socket, "%s/socket", play->folder);
    return play->errors.failed || play->socket.failed ? gs_fail_memory(error) : GS_OK;
}

static void close_load(struct load *load) {
    if (load->events)
        fclose(load->events);
    if (load->lines > 0)
        close(load->lines);
    if (load->process)
        gs_process_kill(load->process, true);
    *load = (struct load){0};
}

static void close_play(struct play *play) {
    for (size_t i = 0; i < play->load_count; i++)
        close_load(&play->loads[i]);
    gs_mps_stop(&play->mps);
    if (play->daemon)
        gs_process_kill(play->daemon, true);
    if (play->folder)
        gs_folder_remove(play->folder);
    free(play->folder);
    for (size_t i = 0; i < MOST_TASKS; i++)
        gs_text_free(&play->words[i]);
    gs_zoo_applications_free(&play->tasks);
    gs_text_free(&play->errors);
    gs_text_free(&play->socket);
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

/* Starts a process with these tasks. `change` is a variable of its environment, or NULL. */
static gs_code start_load(struct play *play, size_t first, size_t tasks, bool is_served, const char *change,
                          gs_error *error) {
    const gs_plan_play_options *options = play->options;
    struct load *load = &play->loads[play->load_count++];
    const char *words[MOST_TASKS + 16] = {play->program, "zoo", "load"};
    char seconds[32];
    int lines[2], events[2];
    for (size_t i = 0; i < tasks; i++)
        words[3 + i] = play->words[first + i].data;
    snprintf(seconds, sizeof seconds, "--seconds=%d", LOAD_SECONDS);
    const char *const more[] = {"--on",
                                is_served ? "serve" : "cuda",
                                "--json",
                                "--repeat=1",
                                "--rounds=1000000",
                                seconds,
                                "--wait",
                                "--size",
                                options->size};
    memcpy(words + 3 + tasks, more, sizeof more);
    if (pipe2(lines, O_CLOEXEC) != 0)
        return gs_fail_system(error, "make", "a pipe");
    *load = (struct load){.lines = lines[1], .tasks = tasks};
    if (pipe2(events, O_CLOEXEC) != 0) {
        close(lines[0]);
        return gs_fail_system(error, "make", "a pipe");
    }
    const gs_process_options started = {.words = words,
                                        .changes = (const char *const[]){change, NULL},
                                        .input_fd = lines[0],
                                        .output_fd = events[1],
                                        .errors = play->errors.data,
                                        .has_own_group = true,
                                        .end_signal = SIGKILL};
    gs_code code = gs_process_start(&started, &load->process, error);
    close(lines[0]);
    close(events[1]);
    load->events = fdopen(events[0], "r");
    return code != GS_OK || load->events ? code : gs_fail_memory(error);
}

/* ---- rounds ---- */

struct span {
    double began_ns, ended_ns;
};

/* The next event of a load, which must be this one. A load that hangs ends itself after LOAD_SECONDS. */
static gs_code read_event(const struct play *play, struct load *load, const char *wanted, struct span *span,
                          gs_error *error) {
    char line[1024];
    json_t *json = fgets(line, sizeof line, load->events) ? json_loads(line, 0, NULL) : NULL;
    const char *event = json_string_value(json_object_get(json, "event"));
    bool is_wanted = event && strcmp(event, wanted) == 0;
    *span = (struct span){json_number_value(json_object_get(json, "began_ns")),
                          json_number_value(json_object_get(json, "ended_ns"))};
    json_decref(json);
    if (is_wanted)
        return GS_OK;
    int status;
    if (!gs_process_wait_until(load->process, gs_now_ns() + END_SECONDS * INT64_C(1000000000), &status))
        status = gs_process_kill(load->process, true);
    load->process = 0;
    return fail_as(play, "gridsmith zoo load", status, error);
}

/* Reads an event of `tasks` tasks of each load; `all` is from the first begin to the last end. */
static gs_code read_events(struct play *play, size_t tasks, const char *wanted, struct span *all, gs_error *error) {
    gs_code code = GS_OK;
    *all = (struct span){0};
    for (size_t i = 0; i < play->load_count; i++)
        for (size_t k = 0; k < gs_min_u64(tasks, play->loads[i].tasks) && code == GS_OK; k++) {
            struct span one;
            code = read_event(play, &play->loads[i], wanted, &one, error);
            bool is_first = all->ended_ns == 0;
            all->began_ns = is_first || one.began_ns < all->began_ns ? one.began_ns : all->began_ns;
            all->ended_ns = is_first || one.ended_ns > all->ended_ns ? one.ended_ns : all->ended_ns;
        }
    return code;
}

/* A round of all loads: of the tasks that the line names, or of all of them. Adds its time. */
static gs_code play_round(struct play *play, const char *line, size_t tasks, double *us, gs_error *error) {
    struct span all;
    for (size_t i = 0; i < play->load_count; i++)
        if (write(play->loads[i].lines, line, strlen(line)) != (ssize_t)strlen(line))
            return gs_fail_system(error, "write to", "gridsmith zoo load");
    gs_code code = read_events(play, tasks, "round", &all, error);
    *us += (all.ended_ns - all.began_ns) / 1000;
    return code;
}

static gs_code play_in_turn(struct play *play, double *us, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->tasks.count && code == GS_OK; i++) {
        char line[32];
        snprintf(line, sizeof line, "%zu\n", i);
        code = play_round(play, line, 1, us, error);
    }
    return code;
}

static int compare_times(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static gs_code await_loads(struct play *play, gs_error *error) {
    struct span ready;
    return read_events(play, MOST_TASKS, "ready", &ready, error);
}

/* The median of the rounds of the loads that are ready. */
static gs_code play_rounds(struct play *play, bool in_turn, double *us, gs_error *error) {
    double all[GS_PLAY_ROUNDS + WARM_UP] = {0};
    size_t rounds = (size_t)play->options->rounds;
    gs_code code = GS_OK;
    for (size_t i = 0; i < rounds + WARM_UP && code == GS_OK; i++)
        code = in_turn ? play_in_turn(play, &all[i], error) : play_round(play, "\n", MOST_TASKS, &all[i], error);
    qsort(all + WARM_UP, rounds, sizeof *all, compare_times);
    *us = all[WARM_UP + rounds / 2];
    return code;
}

/* Lets a load end, which compares its results. */
static gs_code end_load(const struct play *play, struct load *load, gs_error *error) {
    char line[1024];
    int status = 0;
    close(load->lines);
    load->lines = 0;
    while (fgets(line, sizeof line, load->events))
        ;
    status = gs_process_wait(load->process);
    load->process = 0;
    return status == 0 ? GS_OK : fail_as(play, "gridsmith zoo load", status, error);
}

/* Ends all loads; after an error, by force. */
static gs_code end_loads(struct play *play, gs_code code, gs_error *error) {
    for (size_t i = 0; i < play->load_count; i++) {
        if (code == GS_OK)
            code = end_load(play, &play->loads[i], error);
        close_load(&play->loads[i]);
    }
    play->load_count = 0;
    return code;
}

/* ---- ways ---- */

/* In one process: one at a time, then all of them on streams. */
static gs_code play_direct(struct play *play, gs_plan_played *played, gs_error *error) {
    gs_code code = start_load(play, 0, play->tasks.count, false, NULL, error);
    if (code == GS_OK)
        code = await_loads(play, error);
    if (code == GS_OK)
        code = play_rounds(play, true, &played->alone_us, error);
    if (code == GS_OK)
        code = play_rounds(play, false, &played->streams_us, error);
    return end_loads(play, code, error);
}

/* Each in a process of its own. */
static gs_code play_apart(struct play *play, bool is_served, const char *variable, const char *value, double *us,
                          gs_error *error) {
    gs_text change = {0};
    gs_text_add(&change, "%s=%s", variable, value);
    gs_code code = change.failed ? gs_fail_memory(error) : GS_OK;
    for (size_t i = 0; i < play->tasks.count && code == GS_OK; i++)
        code = start_load(play, i, 1, is_served, change.data, error);
    if (code == GS_OK)
        code = await_loads(play, error);
    if (code == GS_OK)
        code = play_rounds(play, false, us, error);
    code = end_loads(play, code, error);
    gs_text_free(&change);
    return code;
}

/* Starts the daemon, and waits until it listens. */
static gs_code start_daemon(struct play *play, gs_error *error) {
    const char *const words[] = {play->program, "serve", "--no-mps", "--socket",          play->socket.data,
                                 "--profiles",  "",      "--plan",   play->options->plan, NULL};
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
    if (code == GS_OK)
        code = play_direct(&play, played, error);
    if (code == GS_OK && gs_mps_may_start()) {
        code = gs_mps_start(&play.mps, true, error);
        if (code == GS_OK)
            code = play_apart(&play, false, "CUDA_MPS_PIPE_DIRECTORY", play.mps.folder, &played->mps_us, error);
        gs_mps_stop(&play.mps);
    }
    if (code == GS_OK)
        code = start_daemon(&play, error);
    if (code == GS_OK)
        code = play_apart(&play, true, "GRIDSMITH_SOCKET", play.socket.data, &played->served_us, error);
    close_play(&play);
    return code;
}
