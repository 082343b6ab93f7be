/*
 * family.c: which processes belong together, whether a process has ended, and whether its id is that of another one.
 *
 * A limit of each process is not enough: a process can have any number of children. So the limits also hold for
 * families. A family is all processes that descend from the same process of the user, such as a login or a service.
 * Where the parent of that process is process 1, it may have been left behind by a parent that has ended. So such
 * processes are one family for each control group, which a process cannot leave by itself.
 */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Reads a file of a process, up to `size` - 1 bytes. False: there is no such process. */
static bool read_of_process(const char *proc, int64_t process, const char *name, char *text, size_t size) {
    char path[200];
    snprintf(path, sizeof path, "%s/%lld/%s", proc, (long long)process, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, size - 1) : -1;
    gs_close_fd(&fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* The parent and the user of a process. The first line of the file is its name, without newlines. */
static bool look_at_process(const char *proc, int64_t process, int64_t *parent, uint32_t *user) {
    char text[1024];
    const char *of_parent, *of_user;
    if (!read_of_process(proc, process, "status", text, sizeof text) || !(of_parent = strstr(text, "\nPPid:")) ||
        !(of_user = strstr(text, "\nUid:")))
        return false;
    *parent = strtoll(of_parent + 6, NULL, 10);
    *user = (uint32_t)strtoul(of_user + 5, NULL, 10);
    return true;
}

/* A negative number. */
static int64_t control_group(const char *proc, int64_t process) {
    char text[4096];
    read_of_process(proc, process, "cgroup", text, sizeof text);
    return -1 - (int64_t)(gs_hash(0, text, strlen(text)) >> 2);
}

/* `process` is of the user, and `parent` its parent. */
static int64_t climb(const char *proc, int64_t process, int64_t parent, uint32_t user) {
    enum { MOST_GENERATIONS = 64 };
    int64_t above;
    uint32_t owner;
    for (int i = 0; i < MOST_GENERATIONS && parent > 1; i++) {
        if (!look_at_process(proc, parent, &above, &owner) || owner != user)
            return process;
        process = parent;
        parent = above;
    }
    return control_group(proc, process);
}

/* Children of one process, which come one after the other in a flood, are looked up once a second. */
int64_t gs_family_of(gs_families *families, const char *proc, int32_t process, uint32_t user) {
    enum { VALID_NS = 1000000000 };
    int64_t parent = 0, now = gs_now_ns();
    uint32_t owner;
    if (process <= 0 || !look_at_process(proc, process, &parent, &owner))
        return 0;
    struct gs_known_family *known = &families->known[parent % (int64_t)GS_COUNT(families->known)];
    if (parent > 1 && known->parent == parent && known->user == user && now < known->until_ns)
        return known->family;
    int64_t family = climb(proc, process, parent, user);
    if (parent > 1 && family != process) /* otherwise the parent is not of the family */
        *known = (struct gs_known_family){parent, family, user, now + VALID_NS};
    return family;
}

/* The inode of a pidfd, which is never used again (Linux 6.9). /proc/PID/stat has a time, but reading it can wait for
   the process: for one that executes a program while it closes a file of a file system that does not answer. */
static int64_t serial_of(int pidfd) {
    struct stat status;
    return pidfd >= 0 && fstat(pidfd, &status) == 0 ? (int64_t)status.st_ino : 0;
}

static int open_process(int32_t process) {
    return process > 0 ? (int)syscall(SYS_pidfd_open, process, 0) : -1;
}

int64_t gs_process_serial(int32_t process) {
    int fd = open_process(process);
    int64_t serial = serial_of(fd);
    gs_close_fd(&fd);
    return serial;
}

/* One that has not been waited for has ended, too. */
bool gs_process_has_ended(int32_t process, int64_t serial) {
    int fd = open_process(process);
    bool has_ended = process > 0 && fd < 0 && errno == ESRCH;
    if (fd >= 0)
        has_ended = poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) > 0 ||
                    gs_process_is_another(serial, serial_of(fd));
    gs_close_fd(&fd);
    return has_ended;
}
