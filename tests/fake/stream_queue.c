/*
 * stream_queue.c: the queue of a stream of the fake driver: kernels of libraries, copies, fills and writes of
 * words, which a thread executes in order.
 *
 * A kernel named `fault` breaks the context, as an access out of bounds does on a GPU: it never ends, nothing after it
 * starts, and from then on every call fails.
 */
#include "fake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

struct step {
    struct step *next;
    fake_step request;
    void *arguments[128];
    _Alignas(16) unsigned char values[8192];
};

struct fake_queue {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct step *first, **last; /* the first is being executed */
    bool has_thread, quits;
};

static _Atomic bool broken;

bool fake_is_broken(void) {
    return atomic_load(&broken);
}

/* Small copies may be read while they are written, as on a GPU: they are written word by word. */
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
    const fake_step *request = &step->request;
    switch (request->kind) {
    case FAKE_COPY:
        move(request->to, request->from, request->bytes);
        break;
    case FAKE_SET:
        memset(request->to, request->value, request->bytes);
        break;
    case FAKE_WRITE:
        __atomic_store_n((uint32_t *)request->to, request->value, __ATOMIC_RELEASE);
        break;
    default:
        if (request->is_fault)
            atomic_store(&broken, true);
        while (atomic_load(&broken))
            pause();
        fake_library_launch(request->library, request->kernel, &request->call, request->sms, step->arguments);
    }
}

static void *work(void *argument) {
    fake_queue *queue = argument;
    pthread_mutex_lock(&queue->mutex);
    while (queue->first || !queue->quits) {
        struct step *step = queue->first;
        if (!step) {
            pthread_cond_wait(&queue->changed, &queue->mutex);
            continue;
        }
        pthread_mutex_unlock(&queue->mutex);
        do_step(step);
        pthread_mutex_lock(&queue->mutex);
        queue->first = step->next;
        if (!queue->first)
            queue->last = &queue->first;
        pthread_cond_broadcast(&queue->changed);
        free(step);
    }
    pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

fake_queue *fake_queue_new(void) {
    fake_queue *queue = calloc(1, sizeof *queue);
    queue->last = &queue->first;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->changed, NULL);
    return queue;
}

void fake_queue_free(fake_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    queue->quits = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
    if (queue->has_thread)
        pthread_join(queue->thread, NULL);
    free(queue);
}

void fake_queue_add(fake_queue *queue, const fake_step *request, void **arguments) {
    struct step *step = calloc(1, sizeof *step);
    const unsigned *sizes = NULL;
    uint32_t count = request->library ? fake_library_sizes(request->library, request->kernel, &sizes) : 0;
    size_t at = 0;
    step->request = *request;
    for (uint32_t i = 0; i < count; i++) {
        step->arguments[i] = step->values + at;
        memcpy(step->values + at, arguments[i], sizes[i]);
        at += (sizes[i] + 15) / 16 * 16;
    }
    pthread_mutex_lock(&queue->mutex);
    if (!queue->has_thread)
        queue->has_thread = pthread_create(&queue->thread, NULL, work, queue) == 0;
    *queue->last = step;
    queue->last = &step->next;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
}

bool fake_queue_is_idle(fake_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    bool idle = !queue->first;
    pthread_mutex_unlock(&queue->mutex);
    return idle;
}

void fake_queue_wait(fake_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    while (queue->first && !fake_is_broken()) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&queue->changed, &queue->mutex, &until);
    }
    pthread_mutex_unlock(&queue->mutex);
}
