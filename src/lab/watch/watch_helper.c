/*
 * watch_helper.c: a thread of the library that does what `gridsmith watch` asks for: stacks of the threads that are in
 * a call of the driver, and whether streams have ended.
 *
 * A thread tells its stack in the handler of a signal, which is only sent when something hangs, and only to threads
 * that are in a call, unless a report is asked for: a signal ends a sleep. The names of its functions are found here,
 * not in the handler. A query of a stream may itself hang in the driver.
 */
#define _GNU_SOURCE
#include "watch_notes.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 50, ANSWER_MS = 200, OWN_FRAMES = 2 };

static int stack_signal;

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void write_stack(int number) {
    (void)number;
    gs_watch_thread *thread = gs_watch_shared ? gs_watch_own_thread() : NULL;
    if (thread && !atomic_load(&thread->frame_count)) /* the stack before has been read */
        atomic_store(&thread->frame_count, (uint32_t)backtrace(thread->frames, GS_WATCH_FRAMES));
}

/* A signal that nothing else uses. */
static void choose_signal(void) {
    void *unused[1];
    backtrace(unused, 1); /* its library is loaded now, not in a handler */
    for (int number = SIGRTMAX - 3; number > SIGRTMIN && !stack_signal; number--) {
        struct sigaction now, ours = {.sa_handler = write_stack, .sa_flags = SA_RESTART};
        if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL && sigaction(number, &ours, NULL) == 0)
            stack_signal = gs_watch_shared->stack_signal = number;
    }
}

static void name_frames(gs_watch_thread *thread, uint32_t count) {
    for (uint32_t i = 0; i < count && i < GS_WATCH_FRAMES; i++) {
        Dl_info found = {0};
        char *text = thread->stack[i];
        const char *file = dladdr(thread->frames[i], &found) && found.dli_fname ? found.dli_fname : "?";
        const char *slash = strrchr(file, '/');
        file = slash ? slash + 1 : file;
        if (found.dli_sname)
            snprintf(text, GS_WATCH_FRAME, "%.70s (%.36s)", found.dli_sname, file);
        else
            snprintf(text, GS_WATCH_FRAME, "%.60s+0x%lx", file,
                     (unsigned long)((char *)thread->frames[i] - (char *)found.dli_fbase));
    }
}

static void ask_stacks(void) {
    gs_watch_page *page = gs_watch_shared;
    for (size_t i = 0; i < GS_WATCH_THREADS && stack_signal; i++) {
        gs_watch_thread *thread = &page->threads[i];
        int32_t number = atomic_load(&thread->thread);
        bool is_asked = atomic_load(&page->asks_all) || atomic_load(&thread->call);
        atomic_store(&thread->frame_count, 0);
        memset(thread->stack, 0, sizeof thread->stack);
        if (number && is_asked && number != gettid())
            syscall(SYS_tgkill, getpid(), number, stack_signal);
    }
    sleep_ms(ANSWER_MS);
    for (size_t i = 0; i < GS_WATCH_THREADS; i++)
        name_frames(&page->threads[i], atomic_load(&page->threads[i].frame_count));
}

/* The handle to ask with; NULL: it cannot be asked from here, as the default stream of another thread. */
static void *handle_of(const gs_watch_stream *stream) {
    enum { LEGACY = 1, OF_THREAD_BIT = 40 };
    uint64_t handle = atomic_load(&stream->handle);
    const gs_watch_driver *driver = &gs_watch_driver_functions;
    if (!(handle >> 63))
        return (void *)(uintptr_t)handle;
    bool is_of_thread = handle >> OF_THREAD_BIT & 1;
    if (is_of_thread || !stream->context || !driver->cuCtxSetCurrent ||
        driver->cuCtxSetCurrent((void *)(uintptr_t)stream->context) != GS_CUDA_OK)
        return NULL;
    return (void *)(uintptr_t)LEGACY;
}

/* A call that waits for the whole GPU may hold a lock that a query waits for, and a dump then waits behind the query.
 */
static bool may_query(void) {
    const gs_watch_page *page = gs_watch_shared;
    for (size_t i = 0; i < GS_WATCH_THREADS; i++) {
        uint32_t call = atomic_load(&page->threads[i].call);
        uint32_t class = call && call <= GS_WATCH_CALLS ? page->calls[call - 1].class : GS_WATCH_SYNC;
        if (atomic_load(&page->threads[i].thread) && class != GS_WATCH_SYNC && class != GS_WATCH_QUERY)
            return false;
    }
    return true;
}

/* Streams that capture are not asked. */
static void query_streams(void) {
    gs_watch_page *page = gs_watch_shared;
    const gs_watch_driver *driver = &gs_watch_driver_functions;
    int relaxed = 2;
    if (!driver->cuStreamQuery || !driver->cuStreamIsCapturing || !driver->cuThreadExchangeStreamCaptureMode)
        return;
    driver->cuThreadExchangeStreamCaptureMode(&relaxed);
    for (size_t i = 0; i < GS_WATCH_STREAMS; i++) {
        gs_watch_stream *stream = &page->streams[i];
        uint64_t issued = atomic_load(&stream->issued);
        int captures = 0;
        if (!atomic_load(&stream->handle) || issued <= atomic_load(&stream->done) || atomic_load(&stream->captures))
            continue;
        void *of = handle_of(stream);
        if (of && driver->cuStreamIsCapturing(of, &captures) == GS_CUDA_OK && !captures &&
            driver->cuStreamQuery(of) == GS_CUDA_OK)
            atomic_store(&stream->done, issued);
    }
}

static void *help(void *unused) {
    (void)unused;
    gs_watch_page *page = gs_watch_shared;
    for (;;) {
        uint32_t asked = atomic_load(&page->asked);
        if (asked != atomic_load(&page->answered)) {
            ask_stacks();
            atomic_store(&page->answered, asked);
            if (may_query())
                query_streams();
        }
        sleep_ms(LOOK_MS);
    }
    return NULL;
}

void gs_watch_helper_start(void) {
    pthread_t thread;
    sigset_t all, before;
    choose_signal();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, help, NULL) == 0) {
        pthread_setname_np(thread, GS_WATCH_THREAD_NAME);
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
