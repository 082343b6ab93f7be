/*
 * attack_status.c: floods of what tells about the daemon: its metrics, which any user of the machine may ask for, and
 * its status. In between, the attacker asks as a user does, and blames the daemon for an answer that is missing or old.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- metrics ---- */

/* A connection, or -1. */
static int connect_metrics(const struct attacker *me) {
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)me->metrics_port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = HOSTILE_PATIENCE_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&where, sizeof where) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Connections that say nothing, half of a request, or something else, or that do not read their answer. */
static void flood_metrics(struct attacker *me) {
    static const char *const words[] = {"", "GET /metr", "GET /metrics HTTP/1.1\r\n\r\n", "\r\n\r\n",
                                        "POST / HTTP/1.1\r\n"};
    enum { HELD = 40 };
    int held[HELD], count = 0;
    while (count < HELD && attacker_has_time(me) && (held[count] = connect_metrics(me)) >= 0) {
        const char *word = words[attacker_random(me, HOSTILE_COUNT(words))];
        raw_send(held[count++], word, strlen(word), NULL, 0);
    }
    while (count)
        close(held[--count]);
}

/* Asks as Prometheus does. A connection without a request may be closed after 50 ms, so one that this process could not
   use in time is no fault of the daemon. */
static void ask_for_metrics(struct attacker *me) {
    static const char question[] = "GET /metrics HTTP/1.1\r\n\r\n";
    enum { MOMENT_MS = 50 };
    char text[64] = "";
    int fd = connect_metrics(me);
    int64_t connected = hostile_now_ns();
    if (fd < 0)
        return;
    bool is_asked = send(fd, question, sizeof question - 1, MSG_NOSIGNAL) == sizeof question - 1;
    bool was_quick = hostile_now_ns() - connected < (int64_t)MOMENT_MS / 2 * 1000000;
    ssize_t got = is_asked ? recv(fd, text, sizeof text - 1, 0) : -1;
    close(fd);
    if (is_asked && was_quick && attacker_has_time(me) && (got <= 0 || !strstr(text, "200 OK")))
        attacker_blames(me, "metrics were not answered beside a flood");
}

void metrics_flood(struct attacker *me) {
    enum { CHILDREN = 3, QUESTIONS = 5 };
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        uint64_t random = attacker_random(me, UINT64_MAX) | 1;
        children[i] = fork();
        if (children[i] != 0)
            continue;
        me->random = random;
        while (attacker_has_time(me))
            flood_metrics(me);
        _exit(0);
    }
    for (int i = 0; i < QUESTIONS && attacker_has_time(me); i++)
        ask_for_metrics(me);
    for (int i = 0; i < CHILDREN; i++)
        if (children[i] > 0) {
            kill(children[i], SIGKILL);
            waitpid(children[i], NULL, 0);
        }
}

/* ---- the status ---- */

/* After a pause, also one in which nobody asks for anything, the status has the time of the request. */
void status_paused(struct attacker *me) {
    int64_t time_ns = 0;
    hostile_sleep_ms((long)attacker_random(me, 400));
    int64_t before = hostile_now_ns();
    if (!stage_status_time(me->socket, &time_ns))
        return;
    if (time_ns < before || time_ns > hostile_now_ns())
        attacker_blames(me, "the status has a time that is %.1f ms old", (double)(before - time_ns) / 1e6);
}
