/*
 * watch_run.c: `gridsmith watch`: runs a program with the library in front of the driver, and looks at its processes
 * ten times a second.
 *
 * A thread that has been in one call of the driver for too long, or polls one event, waits. Then the process is looked
 * at, and again each time that the wait has become twice as long. What computes is said in a line; anything else is
 * reported, and again if a later look raises the alarm.
 */
#define _GNU_SOURCE
#include "kernels/front/front.h"
#include "watch.h"
#include "watch_look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 100, PATH = 1024 };

struct watch {
    const gs_watch_options *options;
    char *folder;
    struct {
        gs_watched *data;
        size_t count, capacity;
    } processes;
    bool has_aborted;
};

static volatile sig_atomic_t is_asked;
static pid_t child;

/* ---- the environment of the program ---- */

static gs_code put_front(gs_error *error) {
    static const char *const places[] = {"watch", "../" GRIDSMITH_LIBDIR "/gridsmith/watch"};
    char folder[PATH];
    if (!gs_front_find(places, GS_COUNT(places), folder, sizeof folder))
        return gs_fail(error, GS_E_IO, "cannot find watch/libcuda.so.1 beside the program or in its library folder");
    return gs_front_place(folder) ? GS_OK : gs_fail_memory(error);
}

static gs_code set_environment(const struct watch *watch, gs_error *error) {
    static const char flags[] = "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,"
                                "skip_constbank_memory";
    char path[PATH + 64], rank[24];
    gs_code code = put_front(error);
    if (code != GS_OK)
        return code;
    bool set = setenv(GS_WATCH_FOLDER, watch->folder, 1) == 0 &&
               setenv("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", "1", 1) == 0 &&
               setenv("CUDA_COREDUMP_GENERATION_FLAGS", flags, 1) == 0;
    snprintf(path, sizeof path, "%s/pipe.%%p", watch->folder);
    set = set && setenv("CUDA_COREDUMP_PIPE", path, 1) == 0;
    snprintf(path, sizeof path, "%s/core.%%p", watch->folder);
    set = set && setenv("CUDA_COREDUMP_FILE", path, 1) == 0;
    snprintf(rank, sizeof rank, "%lld", (long long)watch->options->rank);
    if (watch->options->rank >= 0)
        set = set && setenv("GRIDSMITH_RANK", rank, 1) == 0;
    return set ? GS_OK : gs_fail_memory(error);
}

/* ---- processes ---- */

static bool is_known(const struct watch *watch, int process) {
    for (size_t i = 0; i < watch->processes.count; i++)
        if (watch->processes.data[i].process == process)
            return true;
    return false;
}

static void find_processes(struct watch *watch) {
    static const char prefix[] = "page.";
    DIR *files = opendir(watch->folder);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        gs_watched found;
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0 ||
            is_known(watch, atoi(entry->d_name + sizeof prefix - 1)) ||
            !gs_watched_open(&found, watch->folder, entry->d_name))
            continue;
        if (!GS_PUSH(&watch->processes, found))
            gs_watched_close(&found);
    }
    if (files)
        closedir(files);
}

static void forget_process(struct watch *watch, size_t i) {
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/page.%d", watch->folder, watch->processes.data[i].process);
    unlink(path);
    gs_watched_close(&watch->processes.data[i]);
    watch->processes.data[i] = watch->processes.data[--watch->processes.count];
}

/* ---- reports ---- */

static gs_code write_reports(const struct watch *watch, const gs_hang *hang, gs_error *error) {
    static const struct {
        const char *ending;
        void (*put)(const gs_hang *, gs_text *);
    } files[] = {{"txt", gs_hang_put_text}, {"json", gs_hang_put_json}, {"html", gs_hang_put_page}};
    char path[PATH + 64];
    gs_code code = GS_OK;
    if (!watch->options->folder)
        return GS_OK;
    for (size_t i = 0; i < GS_COUNT(files) && code == GS_OK; i++) {
        gs_text text = {0};
        files[i].put(hang, &text);
        bool has_rank = hang->page->rank >= 0;
        snprintf(path, sizeof path, "%s/hang.%s%d.%s", watch->options->folder, has_rank ? "rank" : "",
                 has_rank ? hang->page->rank : hang->page->process, files[i].ending);
        code = text.failed ? gs_fail_memory(error) : gs_output_text(path, &text, error);
        gs_text_free(&text);
    }
    return code;
}

/* What computes is probably long: one line. */
static void print_long(const gs_hang *hang) {
    const gs_hang_kernel *kernel = gs_hang_first_head(hang);
    if (hang->cause == GS_HANG_HOST_FUNCTION)
        fprintf(stderr, "gridsmith: %s (process %d)\n", hang->said.data ? hang->said.data : "", hang->page->process);
    else if (gs_hang_compiles(hang))
        fprintf(stderr,
                "gridsmith: process %d has been in %s for %.0f s, and computes: it compiles or loads code%s%s\n",
                hang->page->process, hang->threads.data[0].call, (double)hang->threads.data[0].waited_ns / 1e9,
                kernel ? ", or waits for " : "", kernel ? kernel->name : "");
    else if (kernel)
        fprintf(stderr,
                "gridsmith: %s has been running for up to %.0f s in process %d: its code waits for nothing, so it is "
                "long or never ends (gridsmith watch --now %d --abort shows where its blocks are)\n",
                kernel->name, (double)(hang->now_ns - kernel->operation->at_ns) / 1e9, hang->page->process,
                hang->page->process);
}

static void print_report(const gs_hang *hang, FILE *answer) {
    gs_text text = {0};
    gs_hang_put_text(hang, &text);
    if (text.count) {
        fwrite(text.data, 1, text.count, stderr);
        if (answer)
            fwrite(text.data, 1, text.count, answer);
    }
    gs_text_free(&text);
}

/* Whether the wait that is to be reported, or the process, has ended meanwhile: then what was seen is of another one.
 */
static bool is_over(gs_watched *watched) {
    int64_t since = 0;
    gs_watched_waits(watched, gs_now_ns(), &since);
    return since != watched->looked_ns || watched->has_ended;
}

/* What is said of a wait; the later is the more certain. */
enum { NOTHING, COMPUTES, MAY_BE_LONG, ALARM };

static int level_of(const gs_hang *hang) {
    return hang->is_alarm ? ALARM : gs_hang_is_long(hang) ? COMPUTES : MAY_BE_LONG;
}

/* Looks at a process and reports. `is_wanted`: somebody asked for it; otherwise only what waits is reported. */
static gs_code report_process(struct watch *watch, gs_watched *watched, bool is_wanted, bool aborts, FILE *answer,
                              gs_error *error) {
    gs_hang hang;
    gs_code code = gs_watched_look(watched, is_wanted ? 0 : watch->options->after_ns, &hang, error);
    int level = code == GS_OK ? level_of(&hang) : NOTHING;
    if (code == GS_OK && !is_wanted && (is_over(watched) || level <= watched->said)) {
        gs_hang_free(&hang);
        return GS_OK;
    }
    bool is_long = !is_wanted && level == COMPUTES;
    bool ends = code == GS_OK && aborts && !is_long;
    watched->said = is_wanted ? watched->said : level;
    if (ends)
        code = gs_watched_dump(watched, watch->folder, &hang, error);
    if (code == GS_OK && is_long)
        print_long(&hang);
    else if (code == GS_OK)
        print_report(&hang, answer);
    if (code == GS_OK)
        code = write_reports(watch, &hang, error);
    gs_hang_free(&hang);
    if (ends) {
        kill(watched->process, SIGKILL);
        watch->has_aborted = true;
    }
    return code;
}

static void say_error(const gs_error *error) {
    fprintf(stderr, "gridsmith: %s\n", error->message);
}

static void report_all(struct watch *watch, bool aborts, FILE *answer) {
    if (!watch->processes.count)
        fprintf(answer ? answer : stderr, "gridsmith: no process uses CUDA yet\n");
    for (size_t i = 0; i < watch->processes.count; i++) {
        gs_error error = {.code = GS_OK};
        if (report_process(watch, &watch->processes.data[i], true, aborts, answer, &error) != GS_OK)
            say_error(&error);
    }
}

static void look_for_hangs(struct watch *watch) {
    int64_t now = gs_now_ns();
    for (size_t i = 0; i < watch->processes.count; i++) {
        gs_watched *watched = &watch->processes.data[i];
        gs_error error = {.code = GS_OK};
        int64_t since = 0, waits = gs_watched_waits(watched, now, &since);
        if (watched->has_ended) {
            forget_process(watch, i--);
            continue;
        }
        if (watched->looked_ns != since) {
            watched->looked_ns = since;
            watched->again_ns = watch->options->after_ns;
            watched->said = NOTHING;
        }
        if (waits < watched->again_ns)
            continue;
        watched->again_ns = 2 * waits;
        if (report_process(watch, watched, false, watch->options->aborts, NULL, &error) != GS_OK)
            say_error(&error);
    }
}

/* ---- asked by others ---- */

/* `watch --now` writes a file with the word that says whether the program is to be ended. */
static void answer_others(struct watch *watch) {
    char asked[PATH + 16], made[PATH + 16], answer[PATH + 16], word[16] = "";
    snprintf(asked, sizeof asked, "%s/now", watch->folder);
    snprintf(made, sizeof made, "%s/answer.new", watch->folder);
    snprintf(answer, sizeof answer, "%s/answer", watch->folder);
    int file = open(asked, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t count = read(file, word, sizeof word - 1);
    close(file);
    if (count <= 0)
        return; /* it is being written */
    unlink(asked);
    FILE *into = fopen(made, "w");
    if (!into)
        return;
    report_all(watch, strncmp(word, "abort", 5) == 0, into);
    if (fclose(into) == 0)
        rename(made, answer);
}

/* Leaves an answer in the folder until it has been read. */
static void wait_for_reader(const struct watch *watch) {
    enum { MOST_MS = 3000 };
    char answer[PATH + 16];
    snprintf(answer, sizeof answer, "%s/answer", watch->folder);
    for (int waited = 0; waited < MOST_MS && access(answer, F_OK) == 0; waited += LOOK_MS)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
}

static bool find_folder(int64_t process, char *folder, size_t size, gs_error *error) {
    static const char name[] = GS_WATCH_FOLDER "=";
    char path[64];
    char *words = NULL;
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%lld/environ", (long long)process);
    if (access(path, F_OK) != 0) {
        gs_fail(error, GS_E_USAGE, "there is no process %lld", (long long)process);
        return false;
    }
    if (gs_input_all(path, 1 << 22, &words, &count, error) != GS_OK)
        return false;
    bool is_found = false;
    for (const char *at = words; at < words + count && !is_found; at += strlen(at) + 1)
        if (strncmp(at, name, sizeof name - 1) == 0)
            is_found = snprintf(folder, size, "%s", at + sizeof name - 1) < (int)size;
    free(words);
    if (!is_found)
        gs_fail(error, GS_E_USAGE, "process %lld was not started by 'gridsmith watch'", (long long)process);
    return is_found;
}

gs_code gs_watch_now(int64_t process, bool aborts, gs_error *error) {
    enum { MOST_SECONDS = 120 };
    char folder[PATH], answer[PATH + 16];
    const char *word = aborts ? "abort\n" : "look\n";
    if (!find_folder(process, folder, sizeof folder, error))
        return error->code;
    snprintf(answer, sizeof answer, "%s/answer", folder);
    unlink(answer);
    gs_code code = gs_folder_write(folder, "now", word, strlen(word), error);
    for (int i = 0; i < MOST_SECONDS * 10 && code == GS_OK; i++) {
        char *bytes = NULL;
        size_t count = 0;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        if (access(answer, R_OK) != 0)
            continue;
        code = gs_input_all(answer, 1 << 24, &bytes, &count, error);
        if (code == GS_OK)
            fwrite(bytes, 1, count, stdout);
        free(bytes);
        unlink(answer);
        return code;
    }
    return code == GS_OK
               ? gs_fail(error, GS_E_IO, "no answer from the 'gridsmith watch' of process %lld", (long long)process)
               : code;
}

/* ---- running the program ---- */

static void note_signal(int signal) {
    (void)signal;
    is_asked = 1;
}

static void pass_on(int signal) {
    if (child > 0)
        kill(child, signal);
}

/* Ctrl-C reaches the program as well, and this process waits for it. Ctrl-\ asks for a report; the program, which the
   terminal sends it too, ignores it. */
static void set_signals(void) {
    static const int passed[] = {SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = note_signal;
    sigaction(SIGQUIT, &action, NULL);
    action.sa_handler = pass_on;
    for (size_t i = 0; i < GS_COUNT(passed); i++)
        sigaction(passed[i], &action, NULL);
}

static int watch_until_end(struct watch *watch) {
    int status = 0;
    while (waitpid(child, &status, WNOHANG) != child) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
        find_processes(watch);
        look_for_hangs(watch);
        answer_others(watch);
        if (is_asked)
            report_all(watch, false, NULL);
        is_asked = 0;
    }
    return status;
}

static gs_code start_program(char *const *words, int *exit_status, gs_error *error) {
    enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };
    struct sigaction before, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGQUIT, &ignore, &before);
    int failed = gs_process_try(&(gs_process_options){.words = (const char *const *)words}, &child);
    sigaction(SIGQUIT, &before, NULL);
    if (!failed)
        return GS_OK;
    *exit_status = failed == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
    return gs_fail(error, GS_E_IO, "cannot start \"%s\": %s", words[0], strerror(failed));
}

gs_code gs_watch_program(const gs_watch_options *options, char *const *words, int *exit_status, gs_error *error) {
    struct watch watch = {.options = options};
    struct stat found;
    if (options->folder && mkdir(options->folder, 0777) != 0 && errno != EEXIST)
        return gs_fail_system(error, "make", options->folder);
    if (options->folder && (stat(options->folder, &found) != 0 || !S_ISDIR(found.st_mode)))
        return gs_fail(error, GS_E_USAGE, "\"%s\" is not a folder", options->folder);
    watch.folder = gs_folder_make_in(NULL, "gridsmith-watch", error);
    if (!watch.folder)
        return error->code;
    gs_code code = set_environment(&watch, error);
    if (code == GS_OK)
        code = start_program(words, exit_status, error);
    if (code == GS_OK) {
        set_signals();
        *exit_status = gs_process_exit_code(watch_until_end(&watch));
        if (watch.has_aborted)
            *exit_status = 1;
        wait_for_reader(&watch);
    }
    while (watch.processes.count)
        forget_process(&watch, 0);
    free(watch.processes.data);
    gs_folder_remove(watch.folder);
    free(watch.folder);
    return code;
}
