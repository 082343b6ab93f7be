/*
 * services.c: child processes with time limits, and the services that run beside them: the control daemon of MPS and
 * 'gridsmith serve'.
 *
 * The kernel kills a child when this program ends for any reason. MPS runs in the foreground, so that it is a child
 * like the others. It is sent "quit" first, because it has to stop a server of its own.
 */
#define _GNU_SOURCE
#include "services.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_SECONDS = 30, STOP_SECONDS = 20 };

static volatile sig_atomic_t was_interrupted;

static void interrupt(int signal) {
    (void)signal;
    was_interrupted = 1;
}

bool services_interrupted(void) {
    return was_interrupted;
}

/* ---- children ---- */

bool child_start(child *started, const char *const *arguments, environment changes) {
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    *started = (child){.pid = 0};
    bool is_piped = pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0;
    const gs_process_options options = {.words = arguments,
                                        .changes = changes,
                                        .input_fd = in[0],
                                        .output_fd = out[1],
                                        .errors_fd = STDERR_FILENO,
                                        .end_signal = SIGKILL};
    int failed = is_piped ? gs_process_try(&options, &started->pid) : errno;
    close(in[0]);
    close(out[1]);
    started->in = in[1];
    started->out = out[0];
    if (!failed)
        return true;
    fprintf(stderr, "share: cannot start %s: %s\n", arguments[0], strerror(failed));
    close(in[1]);
    close(out[0]);
    return false;
}

/* Removes the first line from the buffer and returns it. */
static const char *take_line(child *from) {
    char *end = memchr(from->buffer, '\n', from->count);
    if (!end)
        return NULL;
    size_t length = (size_t)(end - from->buffer);
    snprintf(from->line, sizeof from->line, "%.*s", (int)length, from->buffer);
    from->count -= length + 1;
    memmove(from->buffer, end + 1, from->count);
    return from->line;
}

const char *child_line(child *from, double seconds) {
    int64_t deadline_ns = gs_now_ns() + (int64_t)(seconds * 1e9);
    const char *line;
    while (!(line = take_line(from))) {
        struct pollfd ready = {.fd = from->out, .events = POLLIN};
        int64_t left_ms = (deadline_ns - gs_now_ns()) / 1000000;
        if (left_ms <= 0 || was_interrupted || from->count == sizeof from->buffer || !from->pid)
            return NULL;
        int count = poll(&ready, 1, (int)left_ms + 1);
        if (count < 0 && errno != EINTR)
            return NULL;
        if (count <= 0)
            continue;
        ssize_t got = read(from->out, from->buffer + from->count, sizeof from->buffer - from->count);
        if (got <= 0)
            return NULL;
        from->count += (size_t)got;
    }
    return line;
}

bool child_write(child *to, const char *text) {
    size_t length = strlen(text);
    return to->pid && write(to->in, text, length) == (ssize_t)length;
}

void child_end_input(child *to) {
    close(to->in);
    to->in = open("/dev/null", O_WRONLY | O_CLOEXEC);
}

static void forget(child *gone) {
    close(gone->in);
    close(gone->out);
    gone->pid = 0;
}

static bool has_ended(const child *one, double seconds, int *status) {
    return gs_process_wait_until(one->pid, gs_now_ns() + (int64_t)(seconds * 1e9), status);
}

int child_end(child *ended, double seconds) {
    int status = 0;
    if (!ended->pid)
        return -1;
    if (!has_ended(ended, seconds, &status)) {
        child_kill(ended);
        return -1;
    }
    forget(ended);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void child_kill(child *killed) {
    if (!killed->pid)
        return;
    gs_process_kill(killed->pid, false);
    forget(killed);
}

/* Runs a command to its end and ignores its output. Returns its exit code, or -1. */
static int run_quietly(const char *const *arguments, environment changes, const char *words, double seconds) {
    child run;
    if (!child_start(&run, arguments, changes))
        return -1;
    if (words)
        child_write(&run, words);
    child_end_input(&run);
    while (child_line(&run, seconds))
        continue;
    return child_end(&run, seconds);
}

/* ---- services ---- */

static bool find_program(struct services *services, const char *program, const char *self) {
    const char *end = strrchr(self, '/');
    int folder = end ? (int)(end - self) : 1;
    const char *places[] = {"%.*s/gridsmith", "%.*s/../gridsmith"};
    if (program)
        snprintf(services->program, sizeof services->program, "%s", program);
    for (size_t i = 0; i < GS_COUNT(places) && !program; i++) {
        snprintf(services->program, sizeof services->program, places[i], folder, end ? self : ".");
        if (access(services->program, X_OK) == 0)
            return true;
    }
    if (access(services->program, X_OK) == 0)
        return true;
    fprintf(stderr, "share: program %s not found; --program names it\n", services->program);
    return false;
}

static void put_environments(struct services *services) {
    for (int which = SERVICES_NONE; which < SERVICES_COUNT; which++) {
        char(*variables)[128] = services->variables[which];
        const char *pipes = which == SERVICES_MPS ? services->pipes : NULL, *is = pipes ? "=" : "";
        snprintf(variables[0], sizeof *variables, "CUDA_MPS_PIPE_DIRECTORY%s%s", is, pipes ? pipes : "");
        snprintf(variables[1], sizeof *variables, "CUDA_MPS_LOG_DIRECTORY%s%s", is, pipes ? services->logs : "");
        snprintf(variables[2], sizeof *variables, "GRIDSMITH_SOCKET=%s", services->sockets[which]);
        for (int i = 0; i < (which >= SERVICES_DAEMON ? 3 : 2); i++)
            services->list[which][i] = variables[i];
    }
}

bool services_open(struct services *services, const char *program, const char *self) {
    struct sigaction action = {.sa_handler = interrupt};
    gs_error error;
    *services = (struct services){.program = ""};
    if (!find_program(services, program, self))
        return false;
    services->folder = gs_folder_make_in(NULL, "gridsmith-share", &error);
    if (!services->folder) {
        fprintf(stderr, "share: %s\n", error.message);
        return false;
    }
    snprintf(services->pipes, sizeof services->pipes, "%s/mps", services->folder);
    snprintf(services->logs, sizeof services->logs, "%s/mps-log", services->folder);
    for (int which = SERVICES_DAEMON; which < SERVICES_COUNT; which++)
        snprintf(services->sockets[which], sizeof *services->sockets, "%s/%d.sock", services->folder, which);
    put_environments(services);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    return true;
}

environment services_environment(const struct services *services, enum services_of of) {
    return services->list[of];
}

/* Waits for a file. False: the child has ended, or the time has passed. */
static bool appears(const char *path, child *maker) {
    for (int64_t began_ns = gs_now_ns(); gs_now_ns() - began_ns < START_SECONDS * INT64_C(1000000000);) {
        int status;
        if (access(path, F_OK) == 0)
            return true;
        if (has_ended(maker, 0.01, &status))
            forget(maker);
        if (was_interrupted || !maker->pid)
            break;
    }
    return false;
}

/* Starts a service with its output going to the log. */
static bool start_quietly(struct services *services, child *started, const char *command, environment changes) {
    char whole[2000];
    snprintf(whole, sizeof whole, "exec %s >>%s/log 2>&1 </dev/null", command, services->folder);
    return child_start(started, (const char *const[]){"sh", "-c", whole, NULL}, changes);
}

/* Stores `words` and the last line of the log in `why`. */
static void describe_failure(const struct services *services, const char *words, char *why, size_t size) {
    char path[96], line[160] = "";
    snprintf(path, sizeof path, "%s/log", services->folder);
    FILE *log = fopen(path, "r");
    while (log && fgets(line, sizeof line, log))
        line[strcspn(line, "\n")] = '\0';
    if (log)
        fclose(log);
    snprintf(why, size, "%s%s%s", words, line[0] ? ": " : "", line);
}

bool services_start_mps(struct services *services, char *why, size_t size) {
    char control[120];
    environment changes = services_environment(services, SERVICES_MPS);
    mkdir(services->pipes, 0700);
    mkdir(services->logs, 0700);
    snprintf(control, sizeof control, "%s/control", services->pipes);
    if (start_quietly(services, &services->mps, "nvidia-cuda-mps-control -f", changes) &&
        appears(control, &services->mps))
        return true;
    child_kill(&services->mps);
    describe_failure(services, "MPS did not start", why, size);
    return false;
}

/* The file with what a daemon has learned. */
static void name_profiles(const struct services *services, enum services_of of, char *path, size_t size) {
    snprintf(path, size, "%s/profiles%d", services->folder, (int)of);
}

bool services_start_daemon(struct services *services, enum services_of of, const char *plan, char *why, size_t size) {
    char command[1800], cache[96], profiles[120], option[600] = "";
    environment changes = services_environment(services, of);
    child *daemon = &services->daemons[of];
    snprintf(cache, sizeof cache, "%s/cache", services->folder);
    mkdir(cache, 0700);
    snprintf(command, sizeof command, "'%s' serve --help >/dev/null 2>&1", services->program);
    if (run_quietly((const char *const[]){"sh", "-c", command, NULL}, changes, NULL, START_SECONDS) != 0) {
        snprintf(why, size, "not built: the program has no 'gridsmith serve'");
        return false;
    }
    if (of == SERVICES_PLANNED)
        snprintf(option, sizeof option, " --plan '%s'", plan);
    bool is_other = services->other && (of == SERVICES_DAEMON_2 || of == SERVICES_DAEMON_3);
    name_profiles(services, of, profiles, sizeof profiles);
    unlink(profiles);
    snprintf(command, sizeof command, "'%s' serve --no-mps --socket '%s' --cache '%s' --profiles '%s'%s",
             is_other ? services->other : services->program, services->sockets[of], cache, profiles, option);
    if (start_quietly(services, daemon, command, changes))
        return true;
    describe_failure(services, "the daemon did not start", why, size);
    return false;
}

bool services_await_daemon(struct services *services, enum services_of of, char *why, size_t size) {
    if (appears(services->sockets[of], &services->daemons[of]))
        return true;
    child_kill(&services->daemons[of]);
    describe_failure(services, "the daemon does not listen", why, size);
    return false;
}

void services_stop_daemon(struct services *services, enum services_of of, const char *keep) {
    char profiles[120];
    if (services->daemons[of].pid) {
        kill(services->daemons[of].pid, SIGTERM);
        child_end(&services->daemons[of], STOP_SECONDS);
    }
    name_profiles(services, of, profiles, sizeof profiles);
    if (keep && run_quietly((const char *const[]){"mv", profiles, keep, NULL},
                            services_environment(services, SERVICES_NONE), NULL, STOP_SECONDS) != 0)
        fprintf(stderr, "share: %s was not kept\n", keep);
}

bool services_remove_images(const struct services *services) {
    char command[160];
    snprintf(command, sizeof command, "rm -f '%s/cache/'*.image", services->folder);
    return run_quietly((const char *const[]){"sh", "-c", command, NULL}, services_environment(services, SERVICES_NONE),
                       NULL, STOP_SECONDS) == 0;
}

void services_close(struct services *services) {
    const char *const quit[] = {"nvidia-cuda-mps-control", NULL};
    int status;
    if (!services->folder)
        return;
    was_interrupted = 0; /* the following steps must run in any case, and have time limits */
    if (services->mps.pid) {
        run_quietly(quit, services_environment(services, SERVICES_MPS), "quit\n", STOP_SECONDS);
        if (has_ended(&services->mps, STOP_SECONDS, &status))
            forget(&services->mps);
        child_kill(&services->mps);
    }
    for (int of = SERVICES_DAEMON; of < SERVICES_COUNT; of++)
        services_stop_daemon(services, of, NULL);
    gs_folder_remove(services->folder);
    free(services->folder);
    services->folder = NULL;
}
