/*
 * process.c: starting child processes that end with their parent.
 *
 * The daemon starts the same program again, with a hidden subcommand. The child gets the descriptors that it needs,
 * from 3 on, and no others: all others are close-on-exec.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *program_of(const gs_process_options *options) {
    const char *named = getenv("GRIDSMITH_PROGRAM");
    return options->program ? options->program : named && named[0] ? named : "/proc/self/exe";
}

/* Duplicates the descriptors to numbers that the child does not use, so that none is overwritten before it is passed.
 */
static bool lift(const gs_process_options *options, int *lifted) {
    bool done = true;
    for (int i = 0; i < options->fd_count; i++) {
        lifted[i] = fcntl(options->fds[i], F_DUPFD_CLOEXEC, GS_PROCESS_FIRST_FD + GS_PROCESS_FDS);
        done = done && lifted[i] >= 0;
    }
    return done;
}

static int spawn(const gs_process_options *options, const char *const *words, const int *fds, pid_t *process) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int i = 0; i < options->fd_count; i++)
        posix_spawn_file_actions_adddup2(&actions, fds[i], GS_PROCESS_FIRST_FD + i);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes,
                             (short)(POSIX_SPAWN_SETSIGMASK | (options->has_own_group ? POSIX_SPAWN_SETPGROUP : 0)));
    char *const *environment = (char *const *)(uintptr_t)options->environment;
    int failed = posix_spawn(process, program_of(options), &actions, &attributes, (char *const *)(uintptr_t)words,
                             environment ? environment : environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

gs_code gs_process_start(const gs_process_options *options, pid_t *process, gs_error *error) {
    enum { MOST_WORDS = 16 };
    const char *words[MOST_WORDS + 1] = {"gridsmith", options->words[0]};
    char parent[24];
    int lifted[GS_PROCESS_FDS];
    size_t count = 3;
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    words[2] = parent;
    for (const char *const *word = options->words + 1; *word && count < MOST_WORDS; word++)
        words[count++] = *word;
    int failed = lift(options, lifted) ? spawn(options, words, lifted, process) : errno;
    for (int i = 0; i < options->fd_count; i++)
        if (lifted[i] >= 0)
            close(lifted[i]);
    return failed ? gs_fail(error, GS_E_IO, "cannot start %s: %s", program_of(options), strerror(failed)) : GS_OK;
}

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

bool gs_process_follow(const char *parent, int signal) {
    return prctl(PR_SET_PDEATHSIG, signal) == 0 && getppid() == atoi(parent);
}

void gs_process_say_end(int status, char *text, size_t size) {
    if (WIFSIGNALED(status))
        snprintf(text, size, "it was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "it ended with %d", WEXITSTATUS(status));
}

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
