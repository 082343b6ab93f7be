/*
 * attack_processes.c: attacks of many processes: children that open clients for their parent, that are killed while
 * they connect, that are stopped, that always have a module to load.
 *
 * A limit of each process does not stop these. Children end with the attack: they are in its process group.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* 0: this is the child; its random numbers are its own. */
static pid_t start_child(struct attacker *me) {
    uint64_t random = attacker_random(me, UINT64_MAX) | 1;
    pid_t process = fork();
    if (process == 0)
        me->random = random;
    return process;
}

static void end_child(pid_t process) {
    if (process <= 0)
        return;
    kill(process, SIGKILL);
    kill(process, SIGCONT);
    waitpid(process, NULL, 0);
}

/* The children end at once; the attacker keeps the sockets of their clients. */
void clients_of_children(struct attacker *me) {
    enum { CHILDREN = 4, EACH = 60 };
    static int kept[CHILDREN * EACH];
    int ends[2], count = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        return;
    for (int i = 0; i < CHILDREN && attacker_has_time(me); i++) {
        pid_t child = start_child(me);
        struct raw raw;
        for (int k = 0; child == 0 && k < EACH && raw_open(me, &raw); k++)
            raw_send(ends[1], "s", 1, &raw.socket, 1);
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
        for (int fd; count < CHILDREN * EACH && (fd = raw_receive_file(ends[0])) >= 0;)
            kept[count++] = fd;
    }
    hostile_sleep_ms((long)attacker_random(me, 50));
    while (count)
        close(kept[--count]);
    close(ends[0]);
    close(ends[1]);
}

/* A child with this id, which waits to be killed; -1: only root may choose it, or it is in use. */
static pid_t start_child_as(pid_t process) {
    struct clone_args arguments = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&process, .set_tid_size = 1};
    pid_t child = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    while (child == 0)
        pause();
    return child;
}

/* Whether processes can be told apart by more than their ids (Linux 6.9). */
static bool has_serials(void) {
    struct stat own, other;
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0), another = (int)syscall(SYS_pidfd_open, getppid(), 0);
    bool differ =
        fd >= 0 && another >= 0 && fstat(fd, &own) == 0 && fstat(another, &other) == 0 && own.st_ino != other.st_ino;
    close(fd);
    close(another);
    return differ;
}

void ids_reused(struct attacker *me) {
    enum { LOOK_MS = 30, SOON_MS = 10000 };
    int ends[2], kept = -1;
    if (!has_serials() || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        return;
    pid_t child = start_child(me), again = -1;
    struct raw raw;
    if (child == 0) {
        if (raw_open(me, &raw))
            raw_send(ends[1], "s", 1, &raw.socket, 1);
        _exit(0);
    }
    if (child > 0 && waitpid(child, NULL, 0) == child && (kept = raw_receive_file(ends[0])) >= 0)
        again = start_child_as(child);
    struct pollfd ended = {.fd = kept};
    for (int ms = 0; again > 0 && ms < SOON_MS && !(ended.revents & POLLHUP) && attacker_has_time(me); ms += LOOK_MS)
        poll(&ended, 1, LOOK_MS);
    if (again > 0 && !(ended.revents & POLLHUP) && attacker_has_time(me))
        attacker_blames(me, "the client of process %d goes on with another process of that id", (int)child);
    end_child(again);
    if (kept >= 0)
        close(kept);
    close(ends[0]);
    close(ends[1]);
}

/* More connect at once than can wait to be accepted, and all are killed at some moment. */
void clients_killed(struct attacker *me) {
    enum { CHILDREN = 200 };
    pid_t children[CHILDREN];
    int count = 0;
    while (count < CHILDREN && attacker_has_time(me) && (children[count] = start_child(me)) > 0)
        count++;
    if (count < CHILDREN && attacker_has_time(me) && children[count] == 0) {
        struct raw raw;
        while (raw_open(me, &raw))
            raw_close(me, &raw);
        _exit(0);
    }
    hostile_sleep_ms((long)attacker_random(me, 20));
    while (count)
        end_child(children[--count]);
}

/* Stopped with launches and events under way, continued or killed. */
void clients_stopped(struct attacker *me) {
    pid_t child = start_child(me);
    struct raw raw;
    if (child == 0) {
        if (raw_open_ready(me, &raw, NULL))
            for (uint32_t i = 0;; i++) {
                const struct raw_launch launch = raw_launch(i % 32, KERNEL_TOUCH, 1, i);
                if (!raw_put_wait(me, &raw, &launch, sizeof launch))
                    break;
            }
        _exit(0);
    }
    hostile_sleep_ms((long)attacker_random(me, 60));
    kill(child, SIGSTOP);
    hostile_sleep_ms((long)attacker_random(me, 60));
    if (attacker_random(me, 2)) {
        kill(child, SIGCONT);
        hostile_sleep_ms((long)attacker_random(me, 20));
    }
    end_child(child);
}

/* Clients that come, load and leave, so many that one always loads. */
void loads_without_end(struct attacker *me) {
    enum { CHILDREN = 8, TIMES = 20 };
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = start_child(me);
        if (children[i] != 0)
            continue;
        struct raw raw;
        for (int k = 0; k < TIMES && attacker_has_time(me); k++)
            if (raw_open_ready(me, &raw, NULL))
                raw_close(me, &raw);
        _exit(0);
    }
    for (int i = 0; i < CHILDREN; i++)
        if (children[i] > 0)
            waitpid(children[i], NULL, 0);
}

/* Programs of gridsmith run, each a process, and requests for the status that lists them. */
void programs_many(struct attacker *me) {
    enum { CHILDREN = 100, REQUESTS = 20 };
    pid_t children[CHILDREN];
    gs_wire_hello hello = raw_hello("program");
    int count = 0;
    hello.kind = GS_WIRE_BEST_EFFORT;
    while (count < CHILDREN && attacker_has_time(me) && (children[count] = start_child(me)) != 0)
        count++;
    if (count < CHILDREN && attacker_has_time(me)) {
        int socket = raw_connect(me);
        raw_send(socket, &hello, sizeof hello, NULL, 0);
        pause();
        _exit(0);
    }
    hello.kind = GS_WIRE_STATUS;
    for (int i = 0; i < REQUESTS && attacker_has_time(me); i++) {
        int socket = raw_connect(me);
        raw_send(socket, &hello, sizeof hello, NULL, 0);
        hostile_sleep_ms(5);
        if (socket >= 0)
            close(socket);
    }
    while (count)
        end_child(children[--count]);
}
