/*
 * plan_play.c: gridsmith plan --play: the tasks of a simulation on a GPU, one after the other, on streams, under MPS,
 * and through the daemon with the plan.
 *
 * Each task is an application of `gridsmith zoo load --wait`, which this program starts: all of them in one process,
 * which runs one at a time or all at once, each with a stream; or each in a process of its own, under MPS or as clients
 * of a `gridsmith serve --plan` that is started for it. A line to each process begins a round, whose time is from the
 * first begin to the last end. The first rounds do not count: clocks settle, and the daemon measures kernels. Of the
 * others the median counts.
 *
 * Sources of tasks are compiled once, here: the processes get their PTX. Each way may take an equal part of the time
 * that is left. What it took goes to standard error, and so does what a way lacks that did not end in that time.
 */
#define _GNU_SOURCE
#include "cmd.h"
#include "plan_verbs.h"
#include "sharing/serve/serve.h"
#include "zoo_verbs.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM_UP = 3, MOST_TASKS = 8, START_SECONDS = 60, END_SECONDS = 10 };

static const double second_ns = 1e9;

/* A process with some of the tasks. */
struct load {
    pid_t process; /* 0: it does not run */
    int lines;     /* written to it: one for each round */
    FILE *events;  /* read from it */
    size_t tasks;
};

struct gs_plan_play {
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
    int64_t end_ns, way_end_ns; /* of all ways, and of the one that is played */
    int ways_left;
    bool is_late; /* some way did not end in its time */
};

static double seconds_since(int64_t ns) {
    return (double)(gs_now_ns() - ns) / second_ns;
}

/* ---- what is played ---- */

/* What the words of the user name: the same applications as those of `zoo load`, so mistakes are found here. */
static gs_code open_tasks(gs_plan_play *play, gs_error *error) {
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

/* The PTX of a kernel of a file goes to the folder, and the launch is told so. */
static gs_code keep_compiled(gs_plan_play *play, const gs_zoo_application *task, json_t *launch, size_t number,
                             gs_error *error) {
    const char *file = json_string_value(json_object_get(launch, "file")), *symbol,
               *kernel = json_string_value(json_object_get(launch, "kernel")),
               *outline = json_string_value(json_object_get(launch, "launch"));
    size_t at = 0;
    char name[64], path[600];
    if (!file)
        return GS_OK;
    while (!gs_zoo_file_is(task->files.data[at], file, kernel, outline))
        at++;
    snprintf(name, sizeof name, "%zu-%zu.ptx", number, at);
    snprintf(path, sizeof path, "%s/%s", play->folder, name);
    const char *ptx = gs_zoo_file_ptx(task->files.data[at], &symbol);
    bool is_set = json_object_set_new(launch, "file", json_string(path)) == 0 &&
                  json_object_set_new(launch, "kernel", json_string(symbol)) == 0;
    return is_set ? gs_folder_write(play->folder, name, ptx, strlen(ptx), error) : gs_fail_memory(error);
}

/* A task of a file, with the PTX of its kernels, as a file. */
static gs_code write_task(gs_plan_play *play, size_t number, const char *name, gs_error *error) {
    const gs_zoo_application *task = &play->tasks.data[number];
    json_t *json = json_loads(task->text, 0, NULL), *kernels = json_object_get(json, "kernels");
    gs_code code = json ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < json_array_size(kernels) && code == GS_OK; i++)
        code = keep_compiled(play, task, json_array_get(kernels, i), number, error);
    char *text = code == GS_OK ? json_dumps(json, 0) : NULL;
    if (code == GS_OK)
        code = text ? gs_folder_write(play->folder, name, text, strlen(text), error) : gs_fail_memory(error);
    free(text);
    json_decref(json);
    return code;
}

/* Each task of a file gets a file of its own, because it may have to run in a process of its own. */
static gs_code name_tasks(gs_plan_play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < play->tasks.count && code == GS_OK; i++) {
        const gs_zoo_application *task = &play->tasks.data[i];
        char name[32];
        if (task->is_of_file) {
            snprintf(name, sizeof name, "%zu.json", i);
            code = write_task(play, i, name, error);
            gs_text_add(&play->words[i], "%s/%s%s", play->folder, name, task->uses_blas ? "/cublas" : "");
        } else {
            gs_text_add(&play->words[i], "%s", task->text);
        }
        if (code == GS_OK && play->words[i].failed)
            code = gs_fail_memory(error);
    }
    return code;
}

static gs_code open_play(gs_plan_play *play, gs_error *error) {
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

void gs_plan_play_close(gs_plan_play *play) {
    if (!play)
        return;
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
    free(play);
}

/* ---- programs ---- */

/* The first line that a program has printed as an error, or else how it ended. */
static gs_code fail_as(const gs_plan_play *play, const char *what, int status, gs_error *error) {
    static const char prefix[] = "gridsmith: ";
    enum { NO_GPU = 3 }; /* as exit code */
    char *errors = gs_folder_read(play->folder, "errors", 4096), end[120];
    const char *line = errors && strncmp(errors, prefix, sizeof prefix - 1) == 0 ? errors + sizeof prefix - 1 : errors;
    gs_process_say_end(status, end, sizeof end);
    gs_code code = gs_process_exit_code(status) == NO_GPU ? GS_E_NO_GPU : GS_E_IO;
    bool is_said = code == GS_E_NO_GPU; /* there is none for any program */
    gs_fail(error, code, "%s%s%.*s", is_said ? "" : what, is_said ? "" : ": ",
            line && *line ? (int)strcspn(line, "\n") : (int)strlen(end), line && *line ? line : end);
    free(errors);
    return code;
}

/* Starts a process with these tasks. `change` is a variable of its environment, or NULL. */
static gs_code start_load(gs_plan_play *play, size_t first, size_t tasks, bool is_served, const char *change,
                          gs_error *error) {
    const gs_plan_play_options *options = play->options;
    struct load *load = &play->loads[play->load_count++];
    const char *words[MOST_TASKS + 16] = {play->program, "zoo", "load"};
    char seconds[32];
    int lines[2], events[2];
    for (size_t i = 0; i < tasks; i++)
        words[3 + i] = play->words[first + i].data;
    snprintf(seconds, sizeof seconds, "--seconds=%.0f",
             ceil(fmax((double)(play->way_end_ns - gs_now_ns()) / second_ns, 1)));
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
    double compile_ms; /* of a load that is ready */
};

/* The next event of a load, which must be this one. A load that hangs ends itself when the time of its way is over. */
static gs_code read_event(const gs_plan_play *play, struct load *load, const char *wanted, struct span *span,
                          gs_error *error) {
    char line[1024];
    json_t *json = fgets(line, sizeof line, load->events) ? json_loads(line, 0, NULL) : NULL;
    const char *event = json_string_value(json_object_get(json, "event"));
    bool is_wanted = event && strcmp(event, wanted) == 0;
    *span = (struct span){json_number_value(json_object_get(json, "began_ns")),
                          json_number_value(json_object_get(json, "ended_ns")),
                          json_number_value(json_object_get(json, "compile_ms"))};
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
static gs_code read_events(gs_plan_play *play, size_t tasks, const char *wanted, struct span *all, gs_error *error) {
    gs_code code = GS_OK;
    *all = (struct span){0};
    for (size_t i = 0; i < play->load_count; i++)
        for (size_t k = 0; k < gs_min_u64(tasks, play->loads[i].tasks) && code == GS_OK; k++) {
            struct span one;
            code = read_event(play, &play->loads[i], wanted, &one, error);
            bool is_first = all->ended_ns == 0;
            all->began_ns = is_first || one.began_ns < all->began_ns ? one.began_ns : all->began_ns;
            all->ended_ns = is_first || one.ended_ns > all->ended_ns ? one.ended_ns : all->ended_ns;
            all->compile_ms = fmax(all->compile_ms, one.compile_ms);
        }
    return code;
}

/* A round of all loads: of the tasks that the line names, or of all of them. Adds its time. */
static gs_code play_round(gs_plan_play *play, const char *line, size_t tasks, double *us, gs_error *error) {
    struct span all;
    for (size_t i = 0; i < play->load_count; i++)
        if (write(play->loads[i].lines, line, strlen(line)) != (ssize_t)strlen(line))
            return gs_fail_system(error, "write to", "gridsmith zoo load");
    gs_code code = read_events(play, tasks, "round", &all, error);
    *us += (all.ended_ns - all.began_ns) / 1000;
    return code;
}

static gs_code play_in_turn(gs_plan_play *play, double *us, gs_error *error) {
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

static gs_code await_loads(gs_plan_play *play, const char *way, int64_t began_ns, gs_error *error) {
    struct span ready;
    gs_code code = read_events(play, MOST_TASKS, "ready", &ready, error);
    if (code == GS_OK)
        fprintf(stderr, "gridsmith plan: %s: set up in %.2f s, of that %.2f s compiling\n", way,
                seconds_since(began_ns), ready.compile_ms / 1e3);
    return code;
}

static void say_late(gs_plan_play *play, const char *way, size_t done, size_t rounds, double needed) {
    fprintf(stderr, "gridsmith plan: %s: %zu of %zu rounds in its part of --seconds %lld", way, done, rounds,
            (long long)play->options->seconds);
    if (done)
        fprintf(stderr, "; all need about %.1f s", needed);
    fputs("\n", stderr);
    play->is_late = true;
}

/* The rounds of a way are on one line, which grows. */
static void say_round(const char *way, size_t number, double us) {
    if (number == 0)
        fprintf(stderr, "gridsmith plan: %s: rounds of", way);
    fprintf(stderr, " %.2f", us / 1e3);
}

/* The median of the rounds of the loads that are ready: of those that are likely to end until then. */
static gs_code play_rounds(gs_plan_play *play, const char *way, bool in_turn, int64_t until_ns, double *us,
                           gs_error *error) {
    double all[GS_PLAY_ROUNDS + WARM_UP] = {0};
    size_t rounds = (size_t)play->options->rounds + WARM_UP, done = 0;
    int64_t began_ns = gs_now_ns(), next_ns = began_ns; /* the end of the next round */
    gs_code code = GS_OK;
    while (done < rounds && code == GS_OK && next_ns <= until_ns) {
        code = in_turn ? play_in_turn(play, &all[done], error) : play_round(play, "\n", MOST_TASKS, &all[done], error);
        if (code == GS_OK) {
            say_round(way, done, all[done]);
            done++;
        }
        next_ns = gs_now_ns() + (gs_now_ns() - began_ns) / (int64_t)gs_max_u64(done, 1);
    }
    fputs(done ? " ms\n" : "", stderr);
    if (code == GS_OK && done < rounds)
        say_late(play, way, done, rounds, seconds_since(began_ns) / (double)gs_max_u64(done, 1) * (double)rounds);
    size_t counted = done > WARM_UP ? done - WARM_UP : 0;
    qsort(all + WARM_UP, counted, sizeof *all, compare_times);
    *us = code == GS_OK && counted ? all[WARM_UP + counted / 2] : 0;
    return code;
}

/* Lets a load end, which compares its results. */
static gs_code end_load(const gs_plan_play *play, struct load *load, gs_error *error) {
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
static gs_code end_loads(gs_plan_play *play, gs_code code, gs_error *error) {
    for (size_t i = 0; i < play->load_count; i++) {
        if (code == GS_OK)
            code = end_load(play, &play->loads[i], error);
        close_load(&play->loads[i]);
    }
    play->load_count = 0;
    return code;
}

/* ---- ways ---- */

/* The time of the next way, or of several that belong together. Returns when it begins. */
static int64_t begin_way(gs_plan_play *play, int ways) {
    int64_t now = gs_now_ns(), left = gs_max(play->end_ns - now, 0);
    play->way_end_ns = now + left / play->ways_left * ways;
    play->ways_left -= ways;
    return now;
}

/* That a way did not end in its time is no error: the others count. */
static gs_code end_way(gs_plan_play *play, const char *way, int64_t began_ns, gs_code code, double *us) {
    if (code == GS_OK || gs_now_ns() < play->way_end_ns)
        return code;
    fprintf(stderr, "gridsmith plan: %s: not done after %.1f s, its part of --seconds %lld\n", way,
            seconds_since(began_ns), (long long)play->options->seconds);
    play->is_late = true;
    *us = 0;
    return GS_OK;
}

/* In one process: one at a time, then all of them on streams. */
static gs_code play_direct(gs_plan_play *play, gs_plan_played *played, gs_error *error) {
    int64_t began_ns = begin_way(play, 2);
    gs_code code = start_load(play, 0, play->tasks.count, false, NULL, error);
    if (code == GS_OK)
        code = await_loads(play, "one process", began_ns, error);
    if (code == GS_OK)
        code = play_rounds(play, "one after the other", true, gs_now_ns() / 2 + play->way_end_ns / 2, &played->alone_us,
                           error);
    if (code == GS_OK)
        code = play_rounds(play, "streams", false, play->way_end_ns, &played->streams_us, error);
    return end_way(play, "one process", began_ns, end_loads(play, code, error), &played->streams_us);
}

/* Each in a process of its own. */
static gs_code play_apart(gs_plan_play *play, const char *way, bool is_served, const char *variable, const char *value,
                          double *us, gs_error *error) {
    gs_text change = {0};
    int64_t began_ns = gs_now_ns();
    gs_text_add(&change, "%s=%s", variable, value);
    gs_code code = change.failed ? gs_fail_memory(error) : GS_OK;
    for (size_t i = 0; i < play->tasks.count && code == GS_OK; i++)
        code = start_load(play, i, 1, is_served, change.data, error);
    if (code == GS_OK)
        code = await_loads(play, way, began_ns, error);
    if (code == GS_OK)
        code = play_rounds(play, way, false, play->way_end_ns, us, error);
    gs_text_free(&change);
    return end_way(play, way, began_ns, end_loads(play, code, error), us);
}

static gs_code play_mps(gs_plan_play *play, gs_plan_played *played, gs_error *error) {
    int64_t began_ns = begin_way(play, 1);
    gs_code code = gs_mps_start(&play->mps, true, error);
    if (code == GS_OK) {
        fprintf(stderr, "gridsmith plan: MPS: started in %.2f s\n", seconds_since(began_ns));
        code = play_apart(play, "MPS", false, "CUDA_MPS_PIPE_DIRECTORY", play->mps.folder, &played->mps_us, error);
    }
    gs_mps_stop(&play->mps);
    return code;
}

/* Starts the daemon, and waits until it listens. */
static gs_code start_daemon(gs_plan_play *play, gs_error *error) {
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

static gs_code play_served(gs_plan_play *play, gs_plan_played *played, gs_error *error) {
    int64_t began_ns = begin_way(play, 1);
    gs_code code = start_daemon(play, error);
    if (code != GS_OK)
        return code;
    fprintf(stderr, "gridsmith plan: daemon: started in %.2f s\n", seconds_since(began_ns));
    return play_apart(play, "daemon", true, "GRIDSMITH_SOCKET", play->socket.data, &played->served_us, error);
}

gs_plan_play *gs_plan_play_open(const gs_plan_play_options *options, gs_error *error) {
    gs_plan_play *play = calloc(1, sizeof *play);
    if (!play) {
        gs_fail_memory(error);
        return NULL;
    }
    play->options = options;
    play->end_ns = gs_now_ns() + options->seconds * INT64_C(1000000000);
    if (open_play(play, error) == GS_OK)
        return play;
    gs_plan_play_close(play);
    return NULL;
}

gs_code gs_plan_play_run(gs_plan_play *play, gs_plan_played *played, gs_error *error) {
    bool has_mps = gs_mps_may_start();
    play->ways_left = has_mps ? 4 : 3;
    *played = (gs_plan_played){.alone_us = 0};
    gs_code code = play_direct(play, played, error);
    if (code == GS_OK && has_mps)
        code = play_mps(play, played, error);
    if (code == GS_OK)
        code = play_served(play, played, error);
    played->is_late = play->is_late;
    return code;
}
