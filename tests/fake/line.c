/*
 * line.c: what a stream of the pretended driver is to do, in order, on a thread of its own: kernels of libraries,
 * copies, sets and words.
 *
 * A kernel called `fault` breaks the context, as an access outside does on a GPU: it never ends, nothing behind it
 * begins, and every call fails from then on.
 */
#include "pretended.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

struct step {
    struct step *next;
    pretended_step asked;
    void *arguments[128];
    _Alignas(16) unsigned char values[8192];
};

struct pretended_line {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct step *first, **last; /* the first is being done */
    bool has_thread, quits;
};

static _Atomic bool broken;

bool pretended_is_broken(void) {
    return atomic_load(&broken);
}

/* Small things may be looked at while they are written, as on a GPU: word by word. */
static void move(void *to, const void *from, size_t bytes) {
    enum { SMALL = 256 };
    if (bytes > SMALL || bytes % 8 || (uintptr_t)to % 8 || (uintptr_t)from % 8) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i < bytes / 8; i++)
        __atomic_store_n((uint64_t *)to + i, __atomic_load_n((const uint64_t *)from + i, __ATOMIC_RELAXED),
                         __ATOMIC_RELEASE);
}

static void do_step(struct step *step) {
    const pretended_step *asked = &step->asked;
    switch (asked->kind) {
    case PRETENDED_COPY:
        move(asked->to, asked->from, asked->bytes);
        break;
    case PRETENDED_SET:
        memset(asked->to, asked->value, asked->bytes);
        break;
    case PRETENDED_WRITE:
        __atomic_store_n((uint32_t *)asked->to, asked->value, __ATOMIC_RELEASE);
        break;
    default:
        if (asked->is_fault)
            atomic_store(&broken, true);
        while (atomic_load(&broken))
            pause();
        pretended_library_launch(asked->library, asked->kernel, &asked->call, asked->sms, step->arguments);
    }
}

static void *work(void *argument) {
    pretended_line *line = argument;
    pthread_mutex_lock(&line->mutex);
    while (line->first || !line->quits) {
        struct step *step = line->first;
        if (!step) {
            pthread_cond_wait(&line->changed, &line->mutex);
            continue;
        }
        pthread_mutex_unlock(&line->mutex);
        do_step(step);
        pthread_mutex_lock(&line->mutex);
        line->first = step->next;
        if (!line->first)
            line->last = &line->first;
        pthread_cond_broadcast(&line->changed);
        free(step);
    }
    pthread_mutex_unlock(&line->mutex);
    return NULL;
}

pretended_line *pretended_line_new(void) {
    pretended_line *line = calloc(1, sizeof *line);
    line->last = &line->first;
    pthread_mutex_init(&line->mutex, NULL);
    pthread_cond_init(&line->changed, NULL);
    return line;
}

void pretended_line_free(pretended_line *line) {
    pthread_mutex_lock(&line->mutex);
    line->quits = true;
    pthread_cond_broadcast(&line->changed);
    pthread_mutex_unlock(&line->mutex);
    if (line->has_thread)
        pthread_join(line->thread, NULL);
    free(line);
}

void pretended_line_add(pretended_line *line, const pretended_step *asked, void **arguments) {
    struct step *step = calloc(1, sizeof *step);
    const unsigned *sizes = NULL;
    uint32_t count = asked->library ? pretended_library_sizes(asked->library, asked->kernel, &sizes) : 0;
    size_t at = 0;
    step->asked = *asked;
    for (uint32_t i = 0; i < count; i++) {
        step->arguments[i] = step->values + at;
        memcpy(step->values + at, arguments[i], sizes[i]);
        at += (sizes[i] + 15) / 16 * 16;
    }
    pthread_mutex_lock(&line->mutex);
    if (!line->has_thread)
        line->has_thread = pthread_create(&line->thread, NULL, work, line) == 0;
    *line->last = step;
    line->last = &step->next;
    pthread_cond_broadcast(&line->changed);
    pthread_mutex_unlock(&line->mutex);
}

bool pretended_line_is_idle(pretended_line *line) {
    pthread_mutex_lock(&line->mutex);
    bool idle = !line->first;
    pthread_mutex_unlock(&line->mutex);
    return idle;
}

void pretended_line_wait(pretended_line *line) {
    pthread_mutex_lock(&line->mutex);
    while (line->first && !pretended_is_broken()) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&line->changed, &line->mutex, &until);
    }
    pthread_mutex_unlock(&line->mutex);
}
