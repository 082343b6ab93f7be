/*
 * listener.c: the socket that clients connect to: made with a lock beside it, or handed over by systemd.
 *
 * A process that connects while BACKLOG others wait to be accepted sleeps in connect(). Linux wakes one such process
 * for each connection that is accepted. If that process is killed before it runs, no other is woken: the others
 * sleep until the next connection is accepted, which may be never. So the daemon wakes all of them when no connection
 * waits to be accepted.
 */
#define _GNU_SOURCE
#include "daemon.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 128 };

/* Linux wakes all processes in connect() when the backlog grows. */
void gs_listener_wake(int listening) {
    if (listen(listening, BACKLOG - 1) == 0)
        listen(listening, BACKLOG);
}

/* The socket that systemd has opened, or -1. */
static int inherited_socket(void) {
    const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int type = 0;
    socklen_t size = sizeof type;
    if (!process || !count || strtol(process, NULL, 10) != getpid() || strtol(count, NULL, 10) < 1)
        return -1;
    if (getsockopt(3, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET)
        return -1;
    fcntl(3, F_SETFD, FD_CLOEXEC);
    fcntl(3, F_SETFL, fcntl(3, F_GETFL) | O_NONBLOCK);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    return 3;
}

static void lock_path_of(const gs_listener *listener, char *path, size_t size) {
    snprintf(path, size, "%s.lock", listener->path);
}

/* One daemon per path: the holder of the lock may remove a stale socket. */
static gs_code take_lock(gs_listener *listener, gs_error *error) {
    char path[sizeof listener->path + 8];
    lock_path_of(listener, path, sizeof path);
    for (;;) {
        struct stat status;
        listener->lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (listener->lock < 0)
            return gs_fail_system(error, "open", path);
        if (flock(listener->lock, LOCK_EX | LOCK_NB) != 0)
            return gs_fail(error, GS_E_IO, "another daemon listens at %s", listener->path);
        if (fstat(listener->lock, &status) == 0 && status.st_nlink > 0)
            return GS_OK;
        close(listener->lock); /* a stopping daemon has just removed it */
    }
}

/* Only the user may connect, or also the members of a group. */
static bool set_mode(const gs_listener *listener, const gs_members *members) {
    return !members->are_served ||
           (chown(listener->path, (uid_t)-1, members->group) == 0 && chmod(listener->path, 0660) == 0);
}

static gs_code make_socket(gs_listener *listener, const gs_members *members, gs_error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    gs_code code = take_lock(listener, error);
    if (code != GS_OK)
        return code;
    memcpy(address.sun_path, listener->path, strlen(listener->path) + 1);
    if (lstat(listener->path, &status) == 0 && !S_ISSOCK(status.st_mode))
        return gs_fail(error, GS_E_IO, "%s exists but is not a socket", listener->path);
    unlink(listener->path);
    listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    mode_t before = umask(0177);
    bool is_listening = listener->fd >= 0 && bind(listener->fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                        set_mode(listener, members) && listen(listener->fd, BACKLOG) == 0;
    umask(before);
    return is_listening ? GS_OK : gs_fail_system(error, "listen at", listener->path);
}

gs_code gs_listener_open(gs_listener *listener, const char *path, const gs_members *members, gs_error *error) {
    *listener = (gs_listener){.fd = inherited_socket(), .lock = -1};
    if (listener->fd >= 0)
        return GS_OK;
    bool is_short = gs_wire_socket(path, listener->path, sizeof listener->path);
    if (is_short && gs_wire_can_trust(listener->path, true))
        return make_socket(listener, members, error);
    if (is_short)
        gs_fail(error, GS_E_USAGE, GS_WIRE_NOT_OURS, listener->path);
    else
        gs_fail(error, GS_E_USAGE, "%s", gs_wire_too_long);
    listener->path[0] = '\0';
    return error->code;
}

void gs_listener_stop(const gs_listener *listener) {
    if (listener->path[0])
        unlink(listener->path);
}

void gs_listener_close(gs_listener *listener) {
    char path[sizeof listener->path + 8];
    if (listener->lock >= 0 && listener->fd >= 0)
        unlink(listener->path);
    lock_path_of(listener, path, sizeof path);
    if (listener->lock >= 0 && flock(listener->lock, LOCK_EX | LOCK_NB) == 0)
        unlink(path);
    gs_close_fd(&listener->lock);
    gs_close_fd(&listener->fd);
    listener->lock = listener->fd = -1;
}
