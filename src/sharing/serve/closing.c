/*
 * closing.c: closes descriptors that clients have sent, and their connections, on separate threads.
 *
 * Closing the last descriptor of a file frees its memory, which takes a second for some gigabytes. A socket can hold
 * any number of messages with such descriptors. A file can belong to a file system that does not respond: then closing
 * it never returns. So the daemon's thread closes nothing that comes from a client, except connections that hold no
 * descriptor: a flood of these would otherwise use up the daemon's descriptors while the threads have no core.
 *
 * There is one thread at first. If descriptors have waited for a while, another one is started. At most four threads at
 * a time close descriptors of the same process, and at most half of all threads those of the same family.
 *
 * Descriptors not yet closed count for the client's process. While a process has more than a few, nothing is taken from
 * its clients: they wait.
 */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MOST_OF_FAMILY = GS_COUNT(((gs_closing *)NULL)->threads) / 2,
    MOST = 4,               /* per process: threads, and waiting descriptors before no more are taken from it */
    PATIENCE_NS = 50000000, /* how long a descriptor waits before another thread is started */
    END_SECONDS = 10,       /* how long threads may take to end */
    MOST_MESSAGES = 16      /* unread ones of a connection that are looked at before a thread closes it */
};

struct gs_closing_item {
    int fd;
    gs_account *account;
    int64_t given_ns;
    gs_closing_item *next;
};

/* ---- the threads ---- */

static bool may_close(const gs_closing_item *item) {
    return item->account->closing_now < MOST && item->account->above->closing_now < MOST_OF_FAMILY;
}

/* The first that may be closed now. */
static gs_closing_item *take_item(gs_closing *closing) {
    gs_closing_item **at = &closing->waiting, *item;
    while (*at && !may_close(*at))
        at = &(*at)->next;
    item = *at;
    if (!item)
        return NULL;
    *at = item->next;
    if (!item->next)
        closing->last = at;
    return item;
}

static void *run_thread(void *argument) {
    gs_closing *closing = argument;
    pthread_mutex_lock(&closing->mutex);
    for (;;) {
        gs_closing_item *item = take_item(closing);
        if (!item && closing->must_end)
            break;
        if (!item) {
            pthread_cond_wait(&closing->wake, &closing->mutex);
            continue;
        }
        item->account->closing_now++;
        item->account->above->closing_now++;
        pthread_mutex_unlock(&closing->mutex);
        close(item->fd);
        pthread_mutex_lock(&closing->mutex);
        item->account->closing_now--;
        item->account->above->closing_now--;
        item->next = closing->done;
        closing->done = item;
    }
    pthread_mutex_unlock(&closing->mutex);
    return NULL;
}

static void start_thread(gs_closing *closing) {
    if (closing->thread_count < GS_COUNT(closing->threads))
        closing->thread_count += gs_thread_start(&closing->threads[closing->thread_count], 0, run_thread, closing);
}

static bool start_closing(gs_closing *closing) {
    if (closing->thread_count)
        return true;
    closing->last = &closing->waiting;
    pthread_mutex_init(&closing->mutex, NULL);
    pthread_cond_init(&closing->wake, NULL);
    start_thread(closing);
    return closing->thread_count > 0;
}

/* ---- for the daemon's thread ---- */

void gs_closing_give(gs_closing *closing, int fd, gs_account *process) {
    gs_closing_item *item = fd >= 0 && start_closing(closing) ? malloc(sizeof *item) : NULL;
    if (!item) {
        gs_close_fd(&fd);
        return;
    }
    *item = (gs_closing_item){.fd = fd, .account = process, .given_ns = gs_now_ns()};
    process->holders++;
    process->closing++;
    gs_account_add(process, GS_QUOTA_DESCRIPTORS, 1);
    closing->count++;
    pthread_mutex_lock(&closing->mutex);
    *closing->last = item;
    closing->last = &item->next;
    pthread_cond_signal(&closing->wake);
    pthread_mutex_unlock(&closing->mutex);
}

enum waiting { NOTHING, PLAIN, UNKNOWN };

/* The next message at a socket to which no process can send. With SO_PASSCRED a message, even an empty one, has the
   credentials of its sender; the end of the connection has none. Descriptors have no room beside them. */
static enum waiting next_message(int socket) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct msghdr message = {.msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && errno == ECONNRESET) { /* said once, before the messages */
        message = (struct msghdr){.msg_control = &control, .msg_controllen = sizeof control};
        got = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
    }
    if (got < 0 || (message.msg_flags & MSG_CTRUNC))
        return UNKNOWN;
    return message.msg_controllen ? PLAIN : NOTHING;
}

/* Removes messages without descriptors. Whether nothing is left. */
static bool is_emptied(int socket) {
    enum waiting next = setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) == 0 ? PLAIN : UNKNOWN;
    for (int i = 0; next == PLAIN && i <= MOST_MESSAGES; i++) {
        next = next_message(socket);
        if (next == PLAIN)
            recv(socket, NULL, 0, MSG_DONTWAIT);
    }
    return next == NOTHING;
}

void gs_closing_give_connection(gs_closing *closing, int socket, gs_account *process) {
    shutdown(socket, SHUT_RDWR); /* closing it may take a while, and no process may send anything more */
    if (is_emptied(socket))
        close(socket);
    else
        gs_closing_give(closing, socket, process);
}

/* Whether all threads have been busy for long. */
static bool is_stuck(const gs_closing *closing) {
    const gs_closing_item *item = closing->waiting;
    while (item && !may_close(item))
        item = item->next;
    return item && gs_now_ns() - item->given_ns > PATIENCE_NS;
}

void gs_closing_collect(gs_closing *closing, gs_quotas *quotas) {
    if (!closing->count)
        return;
    pthread_mutex_lock(&closing->mutex);
    gs_closing_item *item = closing->done, *next;
    closing->done = NULL;
    bool needs_thread = is_stuck(closing);
    pthread_mutex_unlock(&closing->mutex);
    for (; item; item = next) {
        next = item->next;
        item->account->closing--;
        gs_account_subtract(item->account, GS_QUOTA_DESCRIPTORS, 1);
        gs_account_leave(quotas, item->account);
        closing->count--;
        free(item);
    }
    if (needs_thread)
        start_thread(closing);
}

bool gs_closing_is_behind(const gs_account *process) {
    return process->closing >= MOST;
}

/* ---- the end ---- */

bool gs_closing_close(gs_closing *closing, gs_quotas *quotas) {
    if (!closing->thread_count)
        return true;
    pthread_mutex_lock(&closing->mutex);
    closing->must_end = true;
    pthread_cond_broadcast(&closing->wake);
    pthread_mutex_unlock(&closing->mutex);
    if (!gs_threads_join(closing->threads, closing->thread_count, END_SECONDS))
        return false; /* a thread waits for a file system */
    gs_closing_collect(closing, quotas);
    pthread_cond_destroy(&closing->wake);
    pthread_mutex_destroy(&closing->mutex);
    closing->thread_count = 0;
    return true;
}
