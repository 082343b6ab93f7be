/*
 * gate_wake.c: the calls of the C library in which a thread sleeps until there is something to do.
 *
 * A server waits for its next request in such a call. Some time after it returns, the thread launches the request. So
 * its return may announce the request (gate_request.h), unless it returns because time has passed. This file puts
 * functions of its own in place of these calls, in the tables of the libraries that are loaded when the program starts
 * CUDA; not in those of the driver, which waits for the GPU in such calls, and of the C library.
 *
 * Waits for conditions are left alone: threads of a pool wake from them all the time.
 */
#define _GNU_SOURCE
#include "gate.h"
#include "gate_table.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>

static void wake(void) {
    int before = errno;
    gs_gate_work_wakes();
    errno = before;
}

/* A call in which threads sleep. `is_sign`: it returns because there is something to do. */
#define SLEEP(type, name, parameters, arguments, is_sign)                                                              \
    static type woken_##name parameters {                                                                              \
        gs_gate_work_sleeps();                                                                                         \
        type result = name arguments;                                                                                  \
        if (is_sign)                                                                                                   \
            wake();                                                                                                    \
        return result;                                                                                                 \
    }

SLEEP(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left), result == 0)
SLEEP(int, clock_nanosleep, (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
      (clock, flags, time, left), result == 0)
SLEEP(int, poll, (struct pollfd * files, nfds_t count, int ms), (files, count, ms), result > 0)
SLEEP(int, ppoll, (struct pollfd * files, nfds_t count, const struct timespec *time, const sigset_t *signals),
      (files, count, time, signals), result > 0)
SLEEP(int, select, (int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *time),
      (count, in, out, other, time), result > 0)
SLEEP(int, epoll_wait, (int file, struct epoll_event *events, int count, int ms), (file, events, count, ms), result > 0)
SLEEP(int, epoll_pwait, (int file, struct epoll_event *events, int count, int ms, const sigset_t *signals),
      (file, events, count, ms, signals), result > 0)
SLEEP(ssize_t, recv, (int file, void *to, size_t bytes, int flags), (file, to, bytes, flags), result > 0)
SLEEP(ssize_t, recvmsg, (int file, struct msghdr *message, int flags), (file, message, flags), result > 0)
SLEEP(int, sem_wait, (sem_t * semaphore), (semaphore), result == 0)
SLEEP(int, sem_timedwait, (sem_t * semaphore, const struct timespec *time), (semaphore, time), result == 0)
SLEEP(int, sem_clockwait, (sem_t * semaphore, clockid_t clock, const struct timespec *time), (semaphore, clock, time),
      result == 0)

#define CHANGE(name)                                                                                                   \
    { #name, (gs_table_function *)woken_##name }

static const gs_table_change changes[] = {
    CHANGE(nanosleep), CHANGE(clock_nanosleep), CHANGE(poll),          CHANGE(ppoll),
    CHANGE(select),    CHANGE(epoll_wait),      CHANGE(epoll_pwait),   CHANGE(recv),
    CHANGE(recvmsg),   CHANGE(sem_wait),        CHANGE(sem_timedwait), CHANGE(sem_clockwait),
};

static bool is_left_alone(const char *path) {
    static const char *const others[] = {"libcuda.so",    "libnvidia", "libc.so",
                                         "libpthread.so", "ld-linux",  "linux-vdso"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(path, others[i]))
            return true;
    return false;
}

static int change_library(struct dl_phdr_info *library, size_t size, void *unused) {
    (void)size, (void)unused;
    for (size_t i = 0; i < library->dlpi_phnum && !is_left_alone(library->dlpi_name); i++)
        if (library->dlpi_phdr[i].p_type == PT_DYNAMIC)
            gs_table_replace(library->dlpi_addr,
                             (const ElfW(Dyn) *)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr), changes,
                             sizeof changes / sizeof *changes);
    return 0;
}

void gs_gate_wake_install(void) {
    dl_iterate_phdr(change_library, NULL);
}
