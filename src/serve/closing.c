/*
 * closing.c: closes descriptors that clients have sent, and their connections, on a thread of its own.
 *
 * Who closes the last descriptor of a file frees its memory, which takes a second for some gigabytes. A socket can have
 * any number of messages with such descriptors in it. So the daemon's thread closes nothing that a client can have
 * filled.
 *
 * What is not closed yet counts for the process of the client. While a process has too many of them, nothing is taken
 * from its clients: they wait.
 */
#define _GNU_SOURCE
#include "server.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 64 }; /* of a process */

struct gs_closing_item {
    int fd;
    gs_account *account;
    gs_closing_item *next;
};

static void *run_thread(void *argument) {
    gs_closing *closing = argument;
    pthread_mutex_lock(&closing->mutex);
    for (;;) {
        gs_closing_item *item = closing->waiting;
        if (!item && closing->must_end)
            break;
        if (!item) {
            pthread_cond_wait(&closing->wake, &closing->mutex);
            continue;
        }
        closing->waiting = item->next;
        if (!closing->waiting)
            closing->last = &closing->waiting;
        pthread_mutex_unlock(&closing->mutex);
        close(item->fd);
        pthread_mutex_lock(&closing->mutex);
        item->next = closing->done;
        closing->done = item;
    }
    pthread_mutex_unlock(&closing->mutex);
    return NULL;
}

/* Signals are the daemon's thread's. */
static bool start(gs_closing *closing) {
    sigset_t all, before;
    if (closing->is_started)
        return true;
    closing->last = &closing->waiting;
    pthread_mutex_init(&closing->mutex, NULL);
    pthread_cond_init(&closing->wake, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    closing->is_started = pthread_create(&closing->thread, NULL, run_thread, closing) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return closing->is_started;
}

void gs_closing_give(gs_closing *closing, int fd, gs_account *account) {
    gs_closing_item *item = fd >= 0 && start(closing) ? malloc(sizeof *item) : NULL;
    if (!item) {
        if (fd >= 0)
            close(fd);
        return;
    }
    *item = (gs_closing_item){.fd = fd, .account = account};
    account->holders++;
    account->closing++;
    gs_account_add(account, GS_QUOTA_DESCRIPTORS, 1);
    closing->count++;
    pthread_mutex_lock(&closing->mutex);
    *closing->last = item;
    closing->last = &item->next;
    pthread_cond_signal(&closing->wake);
    pthread_mutex_unlock(&closing->mutex);
}

void gs_closing_collect(gs_closing *closing, gs_quotas *quotas) {
    if (!closing->count)
        return;
    pthread_mutex_lock(&closing->mutex);
    gs_closing_item *item = closing->done, *next;
    closing->done = NULL;
    pthread_mutex_unlock(&closing->mutex);
    for (; item; item = next) {
        next = item->next;
        item->account->closing--;
        gs_account_subtract(item->account, GS_QUOTA_DESCRIPTORS, 1);
        gs_account_leave(quotas, item->account);
        closing->count--;
        free(item);
    }
}

bool gs_closing_is_behind(const gs_account *process) {
    return process->closing >= MOST;
}

void gs_closing_close(gs_closing *closing, gs_quotas *quotas) {
    if (!closing->is_started)
        return;
    pthread_mutex_lock(&closing->mutex);
    closing->must_end = true;
    pthread_cond_signal(&closing->wake);
    pthread_mutex_unlock(&closing->mutex);
    pthread_join(closing->thread, NULL);
    gs_closing_collect(closing, quotas);
    pthread_cond_destroy(&closing->wake);
    pthread_mutex_destroy(&closing->mutex);
    closing->is_started = false;
}
