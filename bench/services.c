/*
 * services.c: child processes with time limits, and the services that run beside them: the control daemon of MPS and
 * 'gridsmith serve'.
 *
 * The kernel kills a child when this program ends for any reason. MPS runs in the foreground, so that it is a child
 * like the others. It is sent "quit" first, because it has to stop a server of its own.
 */
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

static void become(const char *const *arguments, environment changes, int in, int out, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* the parent has ended already */
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    for (; changes[0]; changes += 2)
        if (changes[1])
            setenv(changes[0], changes[1], 1);
        else
            unsetenv(changes[0]);
    execvp(arguments[0], (char *const *)arguments);
    fprintf(stderr, "share: cannot start %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

static bool make_pipe(int ends[2]) {
    if (pipe(ends) != 0)
        return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
}

bool child_start(child *started, const char *const *arguments, environment changes) {
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    pid_t parent = getpid();
    *started = (child){.pid = 0};
    bool is_piped = make_pipe(in) && make_pipe(out);
    pid_t pid = is_piped ? fork() : -1;
    if (pid == 0)
        become(arguments, changes, in[0], out[1], parent);
    close(in[0]);
    close(out[1]);
    if (pid > 0) {
        started->pid = pid;
        started->in = in[1];
        started->out = out[0];
        return true;
    }
    fprintf(stderr, "share: cannot start %s: %s\n", arguments[0], strerror(errno));
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

static void forget(child *gone) {
    close(gone->in);
    close(gone->out);
    gone->pid = 0;
}

/* Waits, in short steps, until the child has ended or the time has passed. */
static bool has_ended(const child *one, double seconds, int *status) {
    int64_t deadline_ns = gs_now_ns() + (int64_t)(seconds * 1e9);
    struct timespec moment = {.tv_nsec = 2000000};
    pid_t found;
    while ((found = waitpid(one->pid, status, WNOHANG)) == 0 && gs_now_ns() < deadline_ns)
        nanosleep(&moment, NULL);
    return found != 0;
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
    kill(killed->pid, SIGKILL);
    waitpid(killed->pid, NULL, 0);
    forget(killed);
}

/* Runs a command to its end and ignores its output. Returns its exit code, or -1. */
static int run_quietly(const char *const *arguments, environment changes, const char *words, double seconds) {
    child run;
    if (!child_start(&run, arguments, changes))
        return -1;
    if (words)
        child_write(&run, words);
    close(run.in);
    run.in = open("/dev/null", O_WRONLY | O_CLOEXEC);
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
    const char *const names[] = {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"};
    const char *const values[] = {services->pipes, services->logs};
    for (int i = 0; i < 2; i++)
        for (int which = SERVICES_NONE; which < SERVICES_COUNT; which++) {
            services->list[which][2 * i] = names[i];
            services->list[which][2 * i + 1] = which == SERVICES_MPS ? values[i] : NULL;
        }
    for (int which = SERVICES_DAEMON; which < SERVICES_COUNT; which++) {
        services->list[which][4] = "GRIDSMITH_SOCKET";
        services->list[which][5] = services->sockets[which];
    }
}

bool services_open(struct services *services, const char *program, const char *self) {
    struct sigaction action = {.sa_handler = interrupt};
    const char *parent = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    *services = (struct services){.program = ""};
    if (!find_program(services, program, self))
        return false;
    snprintf(services->folder, sizeof services->folder, "%.30s/gridsmith-share-XXXXXX", parent);
    if (!mkdtemp(services->folder)) {
        fprintf(stderr, "share: cannot make a folder in %s: %s\n", parent, strerror(errno));
        services->folder[0] = '\0';
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

bool services_start_daemon(struct services *services, enum services_of of, const char *plan, char *why, size_t size) {
    char command[1800], cache[96], option[600] = "";
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
    if (of == SERVICES_INSIDE)
        snprintf(option, sizeof option, " --inside");
    snprintf(command, sizeof command, "'%s' serve --socket '%s' --cache '%s' --profiles '%s/profiles%d'%s",
             services->program, services->sockets[of], cache, services->folder, of, option);
    if (start_quietly(services, daemon, command, changes) && appears(services->sockets[of], daemon))
        return true;
    child_kill(daemon);
    describe_failure(services, "the daemon did not start", why, size);
    return false;
}

bool services_remove_images(const struct services *services) {
    char command[160];
    snprintf(command, sizeof command, "rm -f '%s/cache/'*.image", services->folder);
    return run_quietly((const char *const[]){"sh", "-c", command, NULL}, services_environment(services, SERVICES_NONE),
                       NULL, STOP_SECONDS) == 0;
}

void services_close(struct services *services) {
    const char *const quit[] = {"nvidia-cuda-mps-control", NULL}, *const remove[] = {"rm", "-rf", services->folder,
                                                                                     NULL};
    int status;
    if (!services->folder[0])
        return;
    was_interrupted = 0; /* the following steps must run in any case, and have time limits */
    if (services->mps.pid) {
        run_quietly(quit, services_environment(services, SERVICES_MPS), "quit\n", STOP_SECONDS);
        if (has_ended(&services->mps, STOP_SECONDS, &status))
            forget(&services->mps);
        child_kill(&services->mps);
    }
    for (int i = 0; i < SERVICES_COUNT; i++)
        if (services->daemons[i].pid) {
            kill(services->daemons[i].pid, SIGTERM);
            child_end(&services->daemons[i], STOP_SECONDS);
        }
    run_quietly(remove, services_environment(services, SERVICES_NONE), NULL, STOP_SECONDS);
}
