/*
 * threads.c: worker threads, which may hang when they are to be joined.
 */
#define _GNU_SOURCE
#include "base.h"

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

bool gs_threads_join(const pthread_t *threads, size_t count, int seconds) {
    struct timespec until;
    bool have_ended = true;
    clock_gettime(CLOCK_MONOTONIC, &until); /* the time of day may jump */
    until.tv_sec += seconds;
    for (size_t i = 0; i < count; i++)
        if (pthread_clockjoin_np(threads[i], NULL, CLOCK_MONOTONIC, &until) != 0) {
            pthread_detach(threads[i]);
            have_ended = false;
        }
    return have_ended;
}
