/*
 * test_listener.c: the socket of a daemon is its user's. Processes that wait in connect() are woken, also if one that
 * was woken before them was killed.
 */
#define _GNU_SOURCE
#include "test.h"

#include "sharing/serve/daemon.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
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

static void nobody_sleeps_because_another_was_killed(void **state) {
    (void)state;
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

/* Only its user may connect, and files that are made later have their usual modes. */
static void socket_is_private(void **state) {
    (void)state;
    gs_members nobody = {.are_served = false};
    gs_listener listener;
    struct stat status;
    char path[80];
    mode_t before = umask(0022);
    snprintf(path, sizeof path, "listener-%d", (int)getpid());
    assert_int_equal(gs_listener_open(&listener, path, &nobody, NULL), GS_OK);
    assert_int_equal(umask(before), 0022);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    gs_listener_close(&listener);
    assert_int_equal(stat(path, &status), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_sleeps_because_another_was_killed),
                                       cmocka_unit_test(socket_is_private)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
