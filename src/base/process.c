/*
 * process.c: starting programs, waiting for them, and the cores that they have.
 *
 * gs_process_start is the only place where a program is started. The child gets the descriptors that are named, from 3
 * on, and no others: all others of this project are close-on-exec. It is made by vfork: posix_spawn cannot ask for a
 * signal at the parent's end, and fork copies the page tables of a process that may have gigabytes. Until the child
 * has become the program it shares the memory of its parent, so it only makes system calls, and handlers of signals
 * must not run in it. An error reaches the parent through a pipe, which the start of the program closes.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- the environment ---- */

static bool is_changed(const char *variable, const char *const *changes) {
    size_t length = strcspn(variable, "=");
    for (; *changes; changes++)
        if (strncmp(*changes, variable, length) == 0 && ((*changes)[length] == '=' || !(*changes)[length]))
            return true;
    return false;
}

/* The environment of this process with the changes. The caller frees the list; NULL: no memory. */
static const char **change_environment(const char *const *changes) {
    size_t count = 0, kept = 0;
    for (char **at = environ; *at; at++)
        count++;
    for (const char *const *at = changes; *at; at++)
        count++;
    const char **list = calloc(count + 1, sizeof *list);
    for (char **at = environ; list && *at; at++)
        if (!is_changed(*at, changes))
            list[kept++] = *at;
    for (; list && *changes; changes++)
        if (strchr(*changes, '='))
            list[kept++] = *changes;
    return list;
}

/* ---- the child, until it has become the program ---- */

struct child {
    const gs_process_options *options;
    char *const *environment;
    pid_t parent;
    int failure; /* where an error number goes */
};

/* A number above those that the program gets. */
static bool lift(int *fd) {
    *fd = fcntl(*fd, F_DUPFD_CLOEXEC, GS_PROCESS_FIRST_FD + GS_PROCESS_FDS);
    return *fd >= 0;
}

static bool pass_descriptors(const gs_process_options *options) {
    int lifted[GS_PROCESS_FDS];
    bool is_done = true;
    for (int i = 0; i < options->fd_count; i++) {
        lifted[i] = options->fds[i];
        is_done = is_done && lift(&lifted[i]);
    }
    for (int i = 0; i < options->fd_count && is_done; i++)
        is_done = dup2(lifted[i], GS_PROCESS_FIRST_FD + i) >= 0;
    return is_done;
}

/* A stream comes from a descriptor or from a file; else it stays as it is. */
static bool redirect(int stream, int fd, const char *path, int flags) {
    if (!fd && path)
        fd = open(path, flags | O_CLOEXEC, 0600);
    return fd == 0 || fd == stream || (fd > 0 && dup2(fd, stream) >= 0);
}

static bool set_streams(const gs_process_options *options) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    bool has_output = options->output || options->output_fd, has_errors = options->errors || options->errors_fd;
    return redirect(STDIN_FILENO, options->input_fd, options->input, O_RDONLY) &&
           redirect(STDOUT_FILENO, options->output_fd, options->output, flags) &&
           redirect(STDERR_FILENO, !has_errors && has_output ? STDOUT_FILENO : options->errors_fd, options->errors,
                    flags);
}

/* Signals were blocked by the parent. Those that are ignored stay so. */
static void release_signals(void) {
    struct sigaction action, standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int signal = 1; signal < NSIG; signal++)
        if (sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL)
            sigaction(signal, &standard, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A parent that has ended meanwhile sends no signal any more. */
static bool follow(const struct child *child) {
    int signal = child->options->end_signal;
    return !signal || (prctl(PR_SET_PDEATHSIG, signal) == 0 && getppid() == child->parent);
}

static bool prepare_child(const struct child *child) {
    const gs_process_options *options = child->options;
    return (!options->has_own_session || setsid() >= 0) && (!options->has_own_group || setpgid(0, 0) == 0) &&
           set_streams(options) && pass_descriptors(options) && (!options->folder || chdir(options->folder) == 0) &&
           follow(child);
}

__attribute__((noreturn)) static void become(const struct child *child) {
    const gs_process_options *options = child->options;
    char *const *words = (char *const *)(uintptr_t)options->words;
    int failure = child->failure;
    errno = 0;
    if (lift(&failure) && prepare_child(child)) {
        release_signals();
        if (options->program)
            execve(options->program, words, child->environment);
        else
            execvpe(words[0], words, child->environment);
    }
    int reason = errno ? errno : ESRCH;
    (void)!write(failure, &reason, sizeof reason);
    _exit(127);
}

/* ---- the parent ---- */

/* The variables of this function are in no registers that the child could change. */
__attribute__((noinline)) static pid_t make_child(const struct child *child) {
    pid_t process = vfork();
    if (process == 0)
        become(child);
    return process;
}

/* 0, or the error number of a child that has not become the program. */
static int read_failure(int fd) {
    int reason = 0;
    ssize_t count;
    while ((count = read(fd, &reason, sizeof reason)) < 0 && errno == EINTR)
        continue;
    return count == sizeof reason ? reason : 0;
}

static int start_in(const gs_process_options *options, char *const *environment, pid_t *process) {
    struct child child = {.options = options, .environment = environment, .parent = getpid()};
    int ends[2];
    sigset_t all, before;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    child.failure = ends[1];
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    *process = make_child(&child);
    int reason = *process < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (!reason && (reason = read_failure(ends[0])))
        gs_process_wait(*process);
    close(ends[0]);
    return reason;
}

int gs_process_try(const gs_process_options *options, pid_t *process) {
    const char **changed = options->changes ? change_environment(options->changes) : NULL;
    if (options->changes && !changed)
        return ENOMEM;
    int reason = start_in(options, changed ? (char *const *)(uintptr_t)changed : environ, process);
    free(changed);
    if (reason)
        *process = 0;
    return reason;
}

gs_code gs_process_start(const gs_process_options *options, pid_t *process, gs_error *error) {
    int reason = gs_process_try(options, process);
    if (!reason)
        return GS_OK;
    bool is_mistake = reason == ENOENT && !options->program;
    return gs_fail(error, is_mistake ? GS_E_USAGE : GS_E_IO, "cannot start %s: %s",
                   options->program ? options->program : options->words[0], strerror(reason));
}

const char *gs_program_own(void) {
    const char *named = getenv("GRIDSMITH_PROGRAM");
    return named && named[0] ? named : "/proc/self/exe";
}

/* ---- its end ---- */

int gs_process_wait(pid_t process) {
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(process, &status, 0)) < 0 && errno == EINTR)
        continue;
    return ended == process ? status : -1;
}

bool gs_process_wait_until(pid_t process, int64_t deadline_ns, int *status) {
    const struct timespec pause = {.tv_nsec = 5000000};
    pid_t ended;
    while ((ended = waitpid(process, status, WNOHANG)) != process) {
        if (ended < 0 && errno != EINTR) {
            *status = -1;
            return true;
        }
        if (gs_now_ns() > deadline_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

int gs_process_kill(pid_t process, bool with_group) {
    kill(with_group ? -process : process, SIGKILL);
    return gs_process_wait(process);
}

int gs_process_exit_code(int status) {
    enum { SIGNALED = 128 };
    return WIFSIGNALED(status) ? SIGNALED + WTERMSIG(status) : WEXITSTATUS(status);
}

void gs_process_say_end(int status, char *text, size_t size) {
    if (WIFSIGNALED(status))
        snprintf(text, size, "it was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "it ended with %d", WEXITSTATUS(status));
}

/* ---- cores ---- */

int64_t gs_process_cores(void) {
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : sysconf(_SC_NPROCESSORS_ONLN);
}

/* The argument of sched_getattr and sched_setattr, up to the last field used here. Not every C library declares it. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
};

/* From Linux 6.12 on, a thread that wakes up preempts a thread with a longer slice at once. A lower weight alone is not
   enough: the thread then waits until the slice is over, a millisecond or more. */
static void lower_priority(void) {
    enum { NICER = 3, MOST_NICE = 19, SLICE_NS = 10000000 };
    struct scheduling mine = {.size = sizeof mine};
    if (syscall(SYS_sched_getattr, 0, &mine, sizeof mine, 0) != 0 || mine.policy != SCHED_OTHER)
        return;
    mine.size = sizeof mine;
    mine.nice = (int32_t)gs_min(mine.nice + NICER, MOST_NICE);
    mine.slice_ns = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &mine, 0);
}

void gs_thread_give_way(int64_t threads) {
    cpu_set_t allowed;
    int first = 0;
    lower_priority();
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2 || CPU_COUNT(&allowed) > threads)
        return;
    while (!CPU_ISSET(first, &allowed))
        first++;
    CPU_CLR(first, &allowed);
    sched_setaffinity(0, sizeof allowed, &allowed);
}

bool gs_process_may_spin(int64_t others) {
    enum { FEW_CORES = 3 };
    return gs_process_cores() > FEW_CORES + others;
}

/* ---- programs ---- */

bool gs_program_find(const char *name, char *path, size_t size) {
    const char *list = getenv("PATH");
    if (strchr(name, '/'))
        return (size_t)snprintf(path, size, "%s", name) < size && access(path, X_OK) == 0;
    for (list = list ? list : "/usr/bin:/bin"; *list; list += strcspn(list, ":"), list += *list == ':') {
        int length = (int)strcspn(list, ":");
        if ((size_t)snprintf(path, size, "%.*s/%s", length, list, name) < size && access(path, X_OK) == 0)
            return true;
    }
    return false;
}
