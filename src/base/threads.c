/*
 * threads.c: worker threads, which may hang when they are to be joined.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

bool gs_thread_start(pthread_t *thread, size_t stack_bytes, void *(*body)(void *), void *argument) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    if (stack_bytes)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(thread, &attributes, body, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return is_started;
}

/* It asks again and again: waiting with a limit depends on the time of day, which may jump. */
bool gs_threads_join(const pthread_t *threads, size_t count, int seconds) {
    enum { AGAIN_NS = 1000000 };
    int64_t until = gs_now_ns() + (int64_t)seconds * 1000000000;
    bool have_ended = true;
    for (size_t i = 0; i < count; i++) {
        int state;
        while ((state = pthread_tryjoin_np(threads[i], NULL)) == EBUSY && gs_now_ns() < until)
            nanosleep(&(struct timespec){.tv_nsec = AGAIN_NS}, NULL);
        if (state == 0)
            continue;
        pthread_detach(threads[i]);
        have_ended = false;
    }
    return have_ended;
}
