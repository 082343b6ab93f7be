/*
 * images.c: the threads that look sources up and compile them for the daemon.
 *
 * There are as many threads as jobs that the daemon gives at a time, so each job begins at once. A finished job goes
 * into a list, and an eventfd becomes readable. The same threads also free dropped jobs and remove old folders, without
 * a report. Compilers are killed when the thread that started them ends; the threads live as long as the daemon.
 *
 * A look-up accesses files that a source includes. Their file system may not respond (a lost server, or a user's FUSE
 * program), and a thread that waits for it cannot be ended. So there are some more threads.
 */
#define _GNU_SOURCE
#include "image.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { THREADS = GS_LOOK_UPS + GS_COMPILERS + GS_SLOW_JOBS };
enum job_kind { FIND, COMPILE, DROP, SWEEP };

struct job_list {
    gs_image_job *first, **last;
};

struct gs_images {
    gs_cache *cache; /* NULL: `error` says why */
    gs_error error;
    int fd; /* readable: `done` has jobs */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct job_list waiting, done;
    gs_image_job *running[THREADS];
    pthread_t threads[THREADS];
    size_t thread_count;
    bool must_end;
};

struct thread_start {
    gs_images *images;
    size_t number;
};

/* ---- lists ---- */

static void append_job(struct job_list *list, gs_image_job *job) {
    job->next = NULL;
    *list->last = job;
    list->last = &job->next;
}

static gs_image_job *shift_job(struct job_list *list) {
    gs_image_job *job = list->first;
    if (!job)
        return NULL;
    list->first = job->next;
    if (!list->first)
        list->last = &list->first;
    return job;
}

static void free_job(gs_image_job *job) {
    gs_image_free(job->image);
    gs_close_fd(&job->request.source);
    gs_close_fd(&job->stop);
    free(job);
}

/* ---- the threads ---- */

static bool must_stop(const gs_image_job *job) {
    struct pollfd stop = {.fd = job->stop, .events = POLLIN};
    return poll(&stop, 1, 0) > 0;
}

static void do_job(const gs_images *images, gs_image_job *job) {
    int64_t began = gs_now_ns();
    job->error = (gs_error){.code = GS_OK};
    job->must_compile = false;
    if (!images->cache)
        job->error = images->error;
    else if (must_stop(job))
        gs_fail(&job->error, GS_E_IO, "the job was stopped");
    else
        job->image = gs_cache_find(images->cache, &job->request, &job->error);
    if (job->kind == COMPILE && !job->image && job->error.code == GS_OK) /* no other job compiled it meanwhile */
        job->image = gs_cache_compile(images->cache, &job->request, job->stop, &job->error);
    job->must_compile = job->kind == FIND && !job->image && job->error.code == GS_OK;
    job->took_ns = (uint64_t)(gs_now_ns() - began);
}

/* Jobs without a report. */
static void do_chore(const gs_images *images, gs_image_job *job) {
    if (job->kind == SWEEP && images->cache)
        gs_cache_sweep(images->cache);
    free_job(job);
}

static void notify_done(gs_images *images, gs_image_job *job) {
    const uint64_t one = 1;
    append_job(&images->done, job);
    while (write(images->fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static gs_image_job *wait_for_job(gs_images *images) {
    while (!images->waiting.first && !images->must_end)
        pthread_cond_wait(&images->wake, &images->mutex);
    return images->must_end ? NULL : shift_job(&images->waiting);
}

static void *run_thread(void *argument) {
    struct thread_start start = *(struct thread_start *)argument;
    gs_images *images = start.images;
    free(argument);
    pthread_mutex_lock(&images->mutex);
    for (gs_image_job *job; (job = wait_for_job(images));) {
        bool is_chore = job->kind == DROP || job->kind == SWEEP;
        images->running[start.number] = is_chore ? NULL : job;
        pthread_mutex_unlock(&images->mutex);
        if (is_chore)
            do_chore(images, job);
        else
            do_job(images, job);
        pthread_mutex_lock(&images->mutex);
        images->running[start.number] = NULL;
        if (!is_chore)
            notify_done(images, job);
    }
    pthread_mutex_unlock(&images->mutex);
    return NULL;
}

static bool start_threads(gs_images *images) {
    enum { STACK_BYTES = 1 << 20 };
    for (; images->thread_count < THREADS; images->thread_count++) {
        struct thread_start *start = malloc(sizeof *start);
        if (start)
            *start = (struct thread_start){images, images->thread_count};
        if (!start || !gs_thread_start(&images->threads[images->thread_count], STACK_BYTES, run_thread, start)) {
            free(start);
            return false;
        }
    }
    return true;
}

/* ---- jobs ---- */

gs_image_job *gs_image_job_new(const gs_image_request *request, void *owner) {
    gs_image_job *job = calloc(1, sizeof *job);
    int stop = job ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (stop < 0) {
        if (request->source >= 0)
            close(request->source);
        free(job);
        return NULL;
    }
    *job = (gs_image_job){.request = *request, .owner = owner, .stop = stop};
    return job;
}

static void give_job(gs_images *images, gs_image_job *job, enum job_kind kind) {
    job->kind = (int)kind;
    pthread_mutex_lock(&images->mutex);
    append_job(&images->waiting, job);
    pthread_cond_signal(&images->wake);
    pthread_mutex_unlock(&images->mutex);
}

void gs_images_find(gs_images *images, gs_image_job *job) {
    give_job(images, job, FIND);
}

void gs_images_compile(gs_images *images, gs_image_job *job) {
    give_job(images, job, COMPILE);
}

void gs_images_drop(gs_images *images, gs_image_job *job) {
    give_job(images, job, DROP);
}

void gs_image_job_stop(gs_image_job *job) {
    const uint64_t one = 1;
    if (write(job->stop, &one, sizeof one) < 0)
        return; /* it is stopped already */
}

gs_image_job *gs_images_take(gs_images *images) {
    uint64_t times;
    pthread_mutex_lock(&images->mutex);
    gs_image_job *job = shift_job(&images->done);
    if (!images->done.first && read(images->fd, &times, sizeof times) < 0)
        times = 0; /* nothing to clear */
    pthread_mutex_unlock(&images->mutex);
    return job;
}

int gs_images_fd(const gs_images *images) {
    return images->fd;
}

/* ---- opening and closing ---- */

static gs_images *fail_open(gs_images *images, gs_error *error) {
    if (images->error.code == GS_E_USAGE && error)
        *error = images->error;
    else
        gs_fail_system(error, "start", "threads for compilers");
    gs_images_close(images);
    return NULL;
}

gs_images *gs_images_open(const char *folder, gs_error *error) {
    const gs_image_request nothing = {.source = -1};
    gs_images *images = calloc(1, sizeof *images);
    if (!images) {
        gs_fail_memory(error);
        return NULL;
    }
    images->waiting.last = &images->waiting.first;
    images->done.last = &images->done.first;
    pthread_mutex_init(&images->mutex, NULL);
    pthread_cond_init(&images->wake, NULL);
    images->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    images->cache = gs_cache_open(folder, &images->error);
    gs_image_job *sweep = images->cache ? gs_image_job_new(&nothing, NULL) : NULL;
    if (sweep)
        give_job(images, sweep, SWEEP);
    bool is_usable = images->cache || images->error.code != GS_E_USAGE;
    return is_usable && images->fd >= 0 && start_threads(images) ? images : fail_open(images, error);
}

const gs_error *gs_images_problem(const gs_images *images) {
    return images->cache ? NULL : &images->error;
}

void gs_images_close(gs_images *images) {
    enum { MOST_SECONDS = 10 };
    if (!images)
        return;
    pthread_mutex_lock(&images->mutex);
    images->must_end = true;
    for (size_t i = 0; i < THREADS; i++)
        if (images->running[i])
            gs_image_job_stop(images->running[i]);
    pthread_cond_broadcast(&images->wake);
    pthread_mutex_unlock(&images->mutex);
    if (!gs_threads_join(images->threads, images->thread_count, MOST_SECONDS))
        return; /* a thread waits for a file system, and still uses this structure */
    for (gs_image_job *job; (job = shift_job(&images->waiting)) || (job = shift_job(&images->done));)
        free_job(job);
    gs_close_fd(&images->fd);
    gs_cache_close(images->cache);
    pthread_cond_destroy(&images->wake);
    pthread_mutex_destroy(&images->mutex);
    free(images);
}
