/*
 * test_listener.c: the socket of a daemon is its user's, or systemd's, and no other daemon's. Processes that wait in
 * connect() are woken, also if one that was woken before them was killed.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/serve/daemon.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 240, KILLED = 3, LEFT = 5, WAITING = KILLED + LEFT };

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_bytes = sizeof address;

/* A process that connects. It runs only when this one, on the same core, does not. */
static pid_t start_client(void) {
    pid_t process = fork();
    assert_true(process >= 0);
    if (process > 0)
        return process;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    _exit(connect(fd, (const struct sockaddr *)&address, address_bytes) == 0 ? 0 : 1);
}

static bool is_asleep(pid_t process) {
    char path[40], state = '\0';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state == 'S';
}

TEST(nobody_sleeps_because_another_was_killed) {
    cpu_set_t first, all;
    pid_t processes[WAITING];
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&first);
    for (int i = 0; !CPU_COUNT(&first); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &first);
    sched_setaffinity(0, sizeof first, &first);
    int listening = socket(AF_UNIX, SOCK_SEQPACKET, 0), queued = 0;
    assert_int_equal(bind(listening, (const struct sockaddr *)&address, sizeof(sa_family_t)), 0); /* any free name */
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &address_bytes), 0);
    assert_int_equal(listen(listening, KILLED - 1), 0);
    for (int fd = -1; queued == 0 || fd >= 0; queued += fd >= 0) {
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
        if (connect(fd, (const struct sockaddr *)&address, address_bytes) != 0)
            gs_close_fd(&fd);
    }
    assert_int_equal(queued, KILLED);
    for (int i = 0; i < WAITING; i++) {
        processes[i] = start_client();
        TEST_WAIT(is_asleep(processes[i]));
    }
    for (int i = 0; i < KILLED; i++) {
        assert_true(accept(listening, NULL, NULL) >= 0); /* wakes the first */
        kill(processes[i], SIGKILL);
    }
    for (int i = 0; i < KILLED; i++)
        assert_int_equal(waitpid(processes[i], NULL, 0), processes[i]);
    alarm(SECONDS);
    fcntl(listening, F_SETFL, O_NONBLOCK);
    while (accept(listening, NULL, NULL) >= 0)
        ;
    gs_listener_wake(listening);
    for (int i = KILLED; i < WAITING; i++) {
        int status = -1;
        assert_int_equal(waitpid(processes[i], &status, 0), processes[i]);
        assert_int_equal(status, 0);
    }
    sched_setaffinity(0, sizeof all, &all);
    close(listening);
}

/* ---- paths ---- */

static bool exists(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

static mode_t mode_of(const char *path) {
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    return status.st_mode & 0777;
}

/* One daemon at a time has the socket: its user's, or also a group's. Files that are made later have their usual modes.
   When it ends, neither the socket nor the lock is left. */
TEST(the_socket_is_of_one_daemon) {
    static const char *const paths[] = {"s", "listener"}; /* in a folder of the test */
    char folder[] = "/tmp/gridsmith-listener-XXXXXX", before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < 2 * GS_COUNT(paths); i++) {
        const char *path = paths[i / 2];
        gs_members members = {.are_served = i % 2, .group = getegid()};
        gs_listener first, second;
        gs_error error;
        char lock[40];
        snprintf(lock, sizeof lock, "%s.lock", path);
        mode_t mask = umask(0022);
        assert_int_equal(gs_listener_open(&first, path, &members, NULL), GS_OK);
        assert_int_equal(umask(mask), 0022);
        assert_int_equal(mode_of(path), members.are_served ? 0660 : 0600);
        assert_int_equal(mode_of(lock), 0600);
        assert_int_equal(gs_listener_open(&second, path, &members, &error), GS_E_IO);
        assert_non_null(strstr(error.message, "another daemon listens at "));
        gs_listener_close(&second);
        assert_true(exists(path) && exists(lock));
        gs_listener_stop(&first);
        assert_true(!exists(path) && exists(lock));
        assert_int_equal(gs_listener_open(&second, path, &members, &error), GS_E_IO);
        gs_listener_close(&second);
        gs_listener_close(&first);
        assert_true(!exists(path) && !exists(lock));
    }
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left there */
}

/* What a daemon that was killed has left is replaced, and nothing else. */
TEST(only_sockets_are_replaced) {
    gs_members nobody = {.are_served = false};
    gs_listener listener;
    gs_error error;
    char path[80], lock[90];
    struct sockaddr_un stale = {.sun_family = AF_UNIX};
    snprintf(path, sizeof path, "listener-%d", (int)getpid());
    snprintf(lock, sizeof lock, "%s.lock", path);
    memcpy(stale.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&stale, sizeof stale), 0);
    close(fd);
    assert_int_equal(gs_listener_open(&listener, path, &nobody, &error), GS_OK);
    fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&stale, sizeof stale), 0);
    close(fd);
    gs_listener_close(&listener);
    fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(gs_listener_open(&listener, path, &nobody, &error), GS_E_IO);
    assert_non_null(strstr(error.message, "exists but is not a socket"));
    gs_listener_close(&listener);
    assert_true(exists(path) && !exists(lock));
    unlink(path);
}

/* ---- systemd ---- */

/* In a process of its own, whose descriptor 3 is a socket of this type: whether it is taken. */
static bool is_inherited(int type, bool is_for_it, const char *count) {
    pid_t process = fork();
    int status;
    if (process == 0) {
        gs_members nobody = {.are_served = false};
        gs_listener listener;
        char id[20];
        int fd = socket(AF_UNIX, type, 0);
        snprintf(id, sizeof id, "%d", (int)getpid() + !is_for_it);
        setenv("LISTEN_PID", id, 1);
        setenv("LISTEN_FDS", count, 1);
        if (dup2(fd, 3) != 3 || bind(3, (const struct sockaddr *)&address, sizeof(sa_family_t)) != 0 ||
            listen(3, 1) != 0)
            _exit(2);
        snprintf(id, sizeof id, "systemd-%d", (int)getpid());
        gs_code code = gs_listener_open(&listener, id, &nobody, NULL);
        bool is_taken = listener.fd == 3, is_free = !getenv("LISTEN_PID") && !getenv("LISTEN_FDS");
        bool is_set = fcntl(3, F_GETFD) & FD_CLOEXEC && fcntl(3, F_GETFL) & O_NONBLOCK;
        bool is_right = code == GS_OK && is_free == is_taken && is_set == is_taken && exists(id) != is_taken;
        gs_listener_stop(&listener);
        gs_listener_close(&listener);
        _exit(!is_right || exists(id) || (fcntl(3, F_GETFD) < 0) != is_taken ? 2 : is_taken);
    }
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return WEXITSTATUS(status) == 1;
}

TEST(the_socket_of_systemd_is_taken) {
    assert_true(is_inherited(SOCK_SEQPACKET, true, "1"));
    assert_true(is_inherited(SOCK_SEQPACKET, true, "2"));
    assert_false(is_inherited(SOCK_SEQPACKET, true, "0"));
    assert_false(is_inherited(SOCK_SEQPACKET, false, "1"));
    assert_false(is_inherited(SOCK_STREAM, true, "1"));
}

TEST_MAIN(NULL, NULL)
