/*
 * stream_queue.c: the queue of a stream of the fake driver: kernels, copies, fills, words and events, which a thread
 * executes in order. What takes no time is done at once where the queue is empty.
 *
 * A queue has a clock. A kernel that is only a name advances it by the time that its name says; other work by the time
 * that it takes.
 *
 * A kernel named `fault` breaks the context, as an access out of bounds does on a GPU: it never ends, nothing after it
 * starts, and from then on every call fails.
 */
#define _GNU_SOURCE
#include "fake.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

struct step {
    struct step *next;
    fake_step request;
    void **arguments; /* in the same memory, behind it */
};

struct fake_queue {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct step *first, **last;      /* the first is being executed */
    bool has_thread, quits, is_left; /* is_left: its thread frees it */
    int64_t clock_ns;
};

static size_t round_up(size_t bytes, size_t step) {
    return (bytes + step - 1) / step * step;
}

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

void fake_sleep_us(uint64_t us) {
    struct timespec time = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&time, NULL);
}

static void run_kernel(const struct step *step) {
    const fake_step *request = &step->request;
    if (request->is_fault)
        atomic_store(&broken, true);
    while (atomic_load(&broken))
        pause();
    fake_library_launch(request->library, request->kernel, &request->call, request->sms, step->arguments);
}

/* As gs_keeper_image has it. */
static void keep(const fake_keeper *keeper) {
    gs_keeper_words *words = keeper->words;
    bool is_patient = fake_has("patient");
    int64_t began_ns = gs_now_ns(), beat_ns = began_ns, now_ns = began_ns;
    uint32_t last = 0;
    while (atomic_load(keeper->flags) & keeper->bit && (int32_t)(words->ended - keeper->number) < 0 &&
           (is_patient ||
            (now_ns - beat_ns <= (int64_t)keeper->patience_ns && now_ns - began_ns <= (int64_t)keeper->most_ns))) {
        fake_sleep_us(10);
        now_ns = gs_now_ns();
        if (words->beats != last || words->waits)
            beat_ns = now_ns;
        last = words->beats;
    }
    words->done = keeper->number;
    fake.keepers -= keeper->bit != 0;
}

/* Returns how many us a kernel takes that is not run. */
static uint64_t do_step(const struct step *step) {
    const fake_step *request = &step->request;
    switch (request->kind) {
    case FAKE_COPY:
        move(request->to, request->from, request->bytes);
        break;
    case FAKE_SET:
        memset(request->to, (int)request->value, request->bytes);
        break;
    case FAKE_SET_WORDS:
        for (size_t i = 0; i < request->bytes / 4; i++)
            ((uint32_t *)request->to)[i] = request->value;
        break;
    case FAKE_WRITE:
        __atomic_store_n((uint32_t *)request->to, request->value, __ATOMIC_RELEASE);
        break;
    case FAKE_WAIT:
        while (__atomic_load_n((uint32_t *)request->to, __ATOMIC_ACQUIRE) != request->value)
            fake_sleep_us(20);
        break;
    case FAKE_WAIT_EVENT:
        while (atomic_load(&request->event->done) < request->number && !fake_is_broken())
            fake_sleep_us(20);
        atomic_fetch_sub(&request->event->waiting, 1);
        break;
    case FAKE_KEEPER:
        keep(&request->keeper);
        break;
    case FAKE_NAP:
        fake_sleep_us(request->number);
        return request->number;
    case FAKE_HOST:
        request->function(request->to);
        break;
    case FAKE_BLOCKS:
        return fake_cubin_run(request);
    case FAKE_KERNEL:
        run_kernel(step);
        break;
    default:
        break;
    }
    return 0;
}

/* With the lock held. */
static void record(const fake_queue *queue, const fake_step *request) {
    request->event->at_ns = queue->clock_ns;
    atomic_store(&request->event->done, request->number);
}

/* How far a step advances the clock; waiting does not. */
static int64_t duration_ns(const fake_step *request, uint64_t us, int64_t took_ns) {
    bool has_own = request->kind == FAKE_NAP || request->kind == FAKE_BLOCKS;
    return has_own ? (int64_t)us * 1000 : request->kind == FAKE_WAIT || request->kind == FAKE_WAIT_EVENT ? 0 : took_ns;
}

/* Executes the first step, with the lock held before and after. */
static void advance(fake_queue *queue) {
    struct step *step = queue->first;
    if (step->request.kind == FAKE_RECORD) {
        record(queue, &step->request);
    } else {
        pthread_mutex_unlock(&queue->mutex);
        int64_t began_ns = gs_now_ns();
        uint64_t us = do_step(step);
        int64_t took_ns = gs_now_ns() - began_ns;
        pthread_mutex_lock(&queue->mutex);
        queue->clock_ns += duration_ns(&step->request, us, took_ns);
    }
    queue->first = step->next;
    if (!queue->first)
        queue->last = &queue->first;
    pthread_cond_broadcast(&queue->changed);
    free(step);
}

static void *work(void *argument) {
    fake_queue *queue = argument;
    pthread_mutex_lock(&queue->mutex);
    while (queue->first || !queue->quits) {
        if (queue->first)
            advance(queue);
        else
            pthread_cond_wait(&queue->changed, &queue->mutex);
    }
    bool is_left = queue->is_left;
    pthread_mutex_unlock(&queue->mutex);
    if (is_left)
        free(queue);
    return NULL;
}

/* It is not allocated: a program that closes the driver leaves nothing. */
fake_queue fake_default_queue = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .last = &fake_default_queue.first};

fake_queue *fake_queue_new(void) {
    fake_queue *queue = calloc(1, sizeof *queue);
    queue->last = &queue->first;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->changed, NULL);
    return queue;
}

void fake_queue_free(fake_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    bool has_thread = queue->has_thread;
    queue->quits = true;
    queue->is_left =
        queue->first && (queue->first->request.kind == FAKE_NAP || queue->first->request.kind == FAKE_WAIT ||
                         queue->first->request.kind == FAKE_HOST);
    bool is_left = queue->is_left;
    if (is_left)
        pthread_detach(queue->thread);
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
    if (is_left)
        return;
    if (has_thread)
        pthread_join(queue->thread, NULL);
    free(queue);
}

/* The arguments of a kernel are copied behind the step, each aligned to 16 bytes. */
static struct step *make_step(const fake_step *request, void **arguments) {
    const unsigned *sizes = NULL;
    uint32_t count = request->library ? fake_library_sizes(request->library, request->kernel, &sizes) : 0;
    size_t at = round_up(sizeof(struct step) + count * sizeof(void *), 16), bytes = at;
    for (uint32_t i = 0; i < count; i++)
        bytes += round_up(sizes[i], 16);
    struct step *step = aligned_alloc(16, round_up(bytes, 16));
    *step = (struct step){.request = *request, .arguments = (void **)(void *)(step + 1)};
    for (uint32_t i = 0; i < count; i++) {
        step->arguments[i] = (unsigned char *)step + at;
        memcpy(step->arguments[i], arguments[i], sizes[i]);
        at += round_up(sizes[i], 16);
    }
    return step;
}

/* What takes no time, with the lock held. False: it must wait until it is its time. */
static bool do_at_once(fake_queue *queue, const fake_step *request) {
    if (queue->first || !(request->kind == FAKE_RECORD || (request->kind == FAKE_NAP && !request->number)))
        return false;
    if (request->kind == FAKE_RECORD)
        record(queue, request);
    return true;
}

void fake_queue_add(fake_queue *queue, const fake_step *request, void **arguments) {
    pthread_mutex_lock(&queue->mutex);
    if (!do_at_once(queue, request)) {
        struct step *step = make_step(request, arguments);
        if (!queue->has_thread) {
            queue->has_thread = pthread_create(&queue->thread, NULL, work, queue) == 0;
            pthread_setname_np(queue->thread, FAKE_THREAD_NAME);
        }
        *queue->last = step;
        queue->last = &step->next;
        pthread_cond_broadcast(&queue->changed);
    }
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
