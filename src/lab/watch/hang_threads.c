/*
 * hang_threads.c: the threads of a process that hangs: which of them wait in the driver, and what others do. See
 * hang.h.
 *
 * Threads that are in a call of CUDA are in the page. What others do is read in /proc, which does not disturb them.
 */
#include "hang.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Reads a small file of a thread in /proc. Returns how many bytes it has; 0: it cannot be read. */
static size_t read_of_thread(int process, int thread, const char *file, char *into, size_t size) {
    char path[80];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", process, thread, file);
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = opened >= 0 ? read(opened, into, size - 1) : 0;
    if (opened >= 0)
        close(opened);
    into[count > 0 ? count : 0] = '\0';
    return count > 0 ? (size_t)count : 0;
}

char gs_hang_state_of(int process, int thread) {
    char text[512];
    read_of_thread(process, thread, "stat", text, sizeof text);
    const char *end = strrchr(text, ')');
    return end && end[1] ? end[2] : '\0';
}

/* What a thread of the host waits for, by its system call. */
static const char *host_waits_for(int process, int thread) {
    static const struct {
        long call;
        const char *words;
    } table[] = {
        {SYS_futex, "for a lock or for another thread"},
        {SYS_read, "for a file or a socket (read)"},
        {SYS_write, "for a file or a socket (write)"},
        {SYS_recvfrom, "for a socket"},
        {SYS_accept, "for a socket"},
        {SYS_ppoll, "for a file or a socket (poll)"},
        {SYS_wait4, "for another process"},
        {SYS_nanosleep, "for some time (sleep)"},
        {SYS_clock_nanosleep, "for some time (sleep)"},
    };
    char text[256], *end;
    size_t count = read_of_thread(process, thread, "syscall", text, sizeof text);
    long call = strtol(text, &end, 10);
    for (size_t i = 0; i < GS_COUNT(table) && count && end > text; i++)
        if (table[i].call == call)
            return table[i].words;
    return "for a lock, a file or another thread";
}

/* The state of a thread, or R if it runs at times: what computes also takes locks of its allocator and reads files. */
static char usual_state_of(int process, int thread) {
    enum { SAMPLES = 5, APART_MS = 20 };
    char state = gs_hang_state_of(process, thread);
    for (int i = 1; i < SAMPLES && state && state != 'R'; i++) {
        nanosleep(&(struct timespec){.tv_nsec = APART_MS * 1000000L}, NULL);
        state = gs_hang_state_of(process, thread);
    }
    return state;
}

bool gs_hang_compiles(const gs_hang *hang) {
    const gs_hang_thread *longest = hang->threads.count ? &hang->threads.data[0] : NULL;
    return longest && longest->call && longest->class == GS_WATCH_LOAD &&
           usual_state_of(hang->page->process, atomic_load(&longest->thread->thread)) == 'R';
}

/* Whether a thread is one of the driver or of this library, by its name. */
static bool is_of_driver(int process, int thread) {
    static const char driver[] = "cuda", own[] = GS_WATCH_THREAD_NAME;
    char name[32];
    return !read_of_thread(process, thread, "comm", name, sizeof name) ||
           strncmp(name, driver, sizeof driver - 1) == 0 || strncmp(name, own, sizeof own - 1) == 0;
}

/* Whether a thread of the program neither is in a call nor polls, and so may write what a kernel waits for. */
static bool find_host_may_act(const gs_hang *hang) {
    char path[64];
    bool may_act = false;
    snprintf(path, sizeof path, "/proc/%d/task", hang->page->process);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && !may_act && (entry = readdir(threads));) {
        int number = atoi(entry->d_name);
        bool waits = false;
        for (size_t i = 0; i < hang->threads.count; i++)
            waits = waits || atomic_load(&hang->threads.data[i].thread->thread) == number;
        may_act = number && !waits && !is_of_driver(hang->page->process, number);
    }
    if (threads)
        closedir(threads);
    return may_act;
}

/* Whether the program has handlers of signals: they run also while its threads wait. Those for mistakes, and those by
   which a person ends it (every Python program has one), end no wait. The C library uses the first two signals after
   the standard ones. */
static bool catches_signals(const gs_watch_page *page) {
    static const int others[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,  SIGABRT, SIGTRAP, SIGSYS, SIGPIPE,
                                 SIGCHLD, SIGINT, SIGHUP, SIGTERM, SIGQUIT, 32,      33};
    char text[4096];
    read_of_thread(page->process, page->process, "status", text, sizeof text);
    const char *found = strstr(text, "SigCgt:");
    uint64_t caught = found ? strtoull(found + 7, NULL, 16) : 0;
    for (size_t i = 0; i < GS_COUNT(others); i++)
        caught &= ~((uint64_t)1 << (others[i] - 1));
    if (page->stack_signal > 0 && page->stack_signal <= 64)
        caught &= ~((uint64_t)1 << (page->stack_signal - 1));
    return caught != 0;
}

/* The child that was forked, if it runs the same program; 0: none. */
static int find_forked(const gs_watch_page *page) {
    int child = atomic_load(&page->forked);
    char path[64], own[512], other[512];
    snprintf(path, sizeof path, "/proc/%d/exe", page->process);
    ssize_t count = child > 0 ? readlink(path, own, sizeof own) : 0;
    snprintf(path, sizeof path, "/proc/%d/exe", child);
    bool is_same = count > 0 && readlink(path, other, sizeof other) == count && memcmp(own, other, (size_t)count) == 0;
    return is_same ? child : 0;
}

/* The thread that runs a host function, and is in no call. */
static void find_host_function(gs_hang *hang, int thread) {
    hang->host_state = usual_state_of(hang->page->process, thread);
    hang->host_waits = host_waits_for(hang->page->process, thread);
}

static int by_wait(const void *a, const void *b) {
    const gs_hang_thread *one = a, *other = b;
    return GS_COMPARE(other->waited_ns, one->waited_ns);
}

gs_code gs_hang_find_threads(gs_hang *hang, gs_error *error) {
    const gs_watch_page *page = hang->page;
    for (size_t i = 0; i < GS_WATCH_THREADS; i++) {
        const gs_watch_thread *thread = &page->threads[i];
        uint32_t call = atomic_load(&thread->call);
        gs_hang_thread found = {.thread = thread};
        if (!atomic_load(&thread->thread))
            continue;
        bool calls = call && call <= GS_WATCH_CALLS;
        if (atomic_load(&thread->in_host_function) && !calls)
            find_host_function(hang, atomic_load(&thread->thread));
        if (calls && !(page->calls[call - 1].class == GS_WATCH_QUERY && atomic_load(&thread->polled))) {
            found.call = page->calls[call - 1].name;
            found.class = (gs_watch_class)page->calls[call - 1].class;
            found.waited_ns = hang->now_ns - atomic_load(&thread->since_ns);
        } else if (atomic_load(&thread->polled)) {
            found.class = GS_WATCH_QUERY;
            found.waited_ns = hang->now_ns - atomic_load(&thread->polled_ns);
        }
        if (found.waited_ns > 0 && !GS_PUSH(&hang->threads, found))
            return gs_fail_memory(error);
    }
    if (hang->threads.count)
        qsort(hang->threads.data, hang->threads.count, sizeof *hang->threads.data, by_wait);
    hang->forked = find_forked(page);
    hang->host_may_act = find_host_may_act(hang) || atomic_load(&page->shares) || catches_signals(page);
    return GS_OK;
}
