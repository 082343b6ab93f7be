/*
 * resources.c: memory, regions and modules of the worker, and the three slow threads that make and free them.
 *
 * A resource has a handle and a count of uses. An operation holds its resources from its arrival to its end. So a
 * resource that is freed meanwhile is released after its last use, and its handle is free at once. Work that may take
 * long is a job of a slow thread: one thread for memory and regions, one for modules. A third one unmaps regions: if
 * the client has ended, this frees the pages, which takes a second for some gigabytes. The loop collects finished jobs.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- jobs ---- */

static void add_job(struct slow_thread *thread, struct slow_job *job) {
    job->next = NULL;
    thread->count++;
    pthread_mutex_lock(&thread->mutex);
    *thread->last = job;
    thread->last = &job->next;
    pthread_cond_signal(&thread->wake);
    pthread_mutex_unlock(&thread->mutex);
}

/* If too many regions wait to be unmapped, the thread that makes new ones unmaps them: mappings are limited. */
static struct slow_thread *thread_for(gs_worker_loop *loop, enum resource_kind kind, bool is_end) {
    enum { MOST_WAITING = 1024 };
    if (kind == MODULE)
        return &loop->module_thread;
    return kind == REGION && is_end && loop->release_thread.count < MOST_WAITING ? &loop->release_thread
                                                                                 : &loop->memory_thread;
}

static void start_job(gs_worker_loop *loop, struct resource *resource, bool is_end, int fd) {
    struct slow_job *job = gs_loop_need(loop, malloc(sizeof *job));
    *job = (struct slow_job){.resource = resource, .is_end = is_end, .fd = fd};
    loop->jobs++;
    add_job(thread_for(loop, resource->kind, is_end), job);
}

/* ---- resources ---- */

static struct resource **find_place(gs_worker_loop *loop, enum resource_kind kind, uint32_t handle) {
    struct resource **at = &loop->resources[kind][handle % RESOURCE_BUCKETS];
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

struct resource *gs_loop_resource_hold(gs_worker_loop *loop, enum resource_kind kind, uint32_t handle) {
    struct resource *resource = *find_place(loop, kind, handle);
    if (resource)
        resource->uses++;
    return resource;
}

/* References to a resource: one by the table, one by each operation, one by the job that makes it. */
void gs_loop_resource_let_go(gs_worker_loop *loop, struct resource *resource) {
    if (!resource || --resource->uses)
        return;
    if (resource->state == READY)
        start_job(loop, resource, true, -1);
    else
        free(resource);
}

void gs_loop_resource_drop(gs_worker_loop *loop, enum resource_kind kind, uint32_t handle) {
    struct resource **at = find_place(loop, kind, handle), *resource = *at;
    if (!resource)
        return;
    *at = resource->next;
    gs_loop_resource_let_go(loop, resource);
}

void gs_loop_resource_make(gs_worker_loop *loop, enum resource_kind kind, const gs_worker_request *request, int fd) {
    struct resource *resource = gs_loop_need(loop, calloc(1, sizeof *resource));
    gs_loop_resource_drop(loop, kind, request->handle);
    *resource = (struct resource){
        .kind = kind, .handle = request->handle, .uses = 2, .bytes = request->bytes, .tag = request->tag};
    *find_place(loop, kind, request->handle) = resource;
    start_job(loop, resource, false, fd);
}

/* ---- the slow threads ---- */

/* The daemon has verified the file, and sent it open, so it cannot have changed. */
static gs_code load_file(gs_worker_loop *loop, struct slow_job *job) {
    gs_image_file file;
    gs_code code = gs_image_map(job->fd, &file, &job->error);
    if (code == GS_OK)
        code = loop->backend->load(loop->device, &file, &job->resource->loaded, &job->error);
    for (size_t i = 0; i < file.kernel_count && code == GS_OK; i++)
        job->resource->loaded->kernels[i].product = file.kernels[i].product;
    gs_image_unmap(&file);
    return code;
}

static gs_code begin_resource(gs_worker_loop *loop, struct slow_job *job) {
    struct resource *resource = job->resource;
    switch (resource->kind) {
    case MEMORY:
        return loop->backend->allocate(loop->device, resource->bytes, &resource->address, &job->error);
    case REGION:
        return loop->backend->map(loop->device, job->fd, resource->bytes, &resource->pointer, &job->error);
    default:
        return load_file(loop, job);
    }
}

static void end_resource(gs_worker_loop *loop, const struct resource *resource) {
    if (resource->kind == MEMORY)
        loop->backend->free(loop->device, resource->address, resource->bytes);
    else if (resource->kind == REGION)
        loop->backend->unmap(loop->device, resource->pointer, resource->bytes);
    else
        loop->backend->unload(loop->device, resource->loaded);
}

static void do_job(gs_worker_loop *loop, struct slow_job *job) {
    gs_code code = GS_OK;
    if (job->is_end && job->resource)
        end_resource(loop, job->resource);
    else if (job->resource)
        code = begin_resource(loop, job);
    job->error.code = code;
    if (job->fd < 0 || (code != GS_OK && job->resource->kind == REGION))
        return; /* this descriptor is the last reference to the memory: see finish_job */
    close(job->fd);
    job->fd = -1;
}

static void *run_thread(void *argument) {
    struct slow_thread *thread = argument;
    pthread_setname_np(pthread_self(), thread == &thread->loop->memory_thread   ? "memory"
                                       : thread == &thread->loop->module_thread ? "modules"
                                                                                : "releases");
    thread->loop->backend->enter_thread(thread->loop->device);
    pthread_mutex_lock(&thread->mutex);
    for (;;) {
        struct slow_job *job = thread->first;
        if (!job) {
            pthread_cond_wait(&thread->wake, &thread->mutex);
            continue;
        }
        thread->first = job->next;
        if (!thread->first)
            thread->last = &thread->first;
        pthread_mutex_unlock(&thread->mutex);
        do_job(thread->loop, job);
        pthread_mutex_lock(&thread->mutex);
        job->next = NULL;
        *thread->done_last = job;
        thread->done_last = &job->next;
        atomic_fetch_add(&thread->done_count, 1);
        gs_loop_wake(thread->loop);
    }
    return NULL;
}

void gs_slow_thread_start(gs_worker_loop *loop, struct slow_thread *thread) {
    pthread_t handle;
    *thread = (struct slow_thread){.loop = loop, .last = &thread->first, .done_last = &thread->done};
    pthread_mutex_init(&thread->mutex, NULL);
    pthread_cond_init(&thread->wake, NULL);
    if (pthread_create(&handle, NULL, run_thread, thread) != 0)
        gs_loop_give_up(loop, GS_E_IO, GS_NO_TAG, "cannot start a thread");
    pthread_detach(handle);
}

/* A region is reported only if mapping it failed. */
static void finish_job(gs_worker_loop *loop, struct slow_job *job) {
    static const uint32_t kinds[RESOURCE_KINDS] = {GS_REPORT_ALLOCATED, GS_REPORT_SHARED, GS_REPORT_LOADED};
    struct resource *resource = job->resource;
    if (job->is_end) {
        free(resource);
    } else if (resource) {
        bool is_region = resource->kind == REGION;
        resource->state = job->error.code == GS_OK ? READY : FAILED;
        loop->is_suspect |= resource->state == FAILED;
        if (!is_region || resource->state == FAILED)
            gs_loop_report_error(loop, kinds[resource->kind], is_region ? resource->handle : resource->tag,
                                 &job->error);
        gs_loop_resource_let_go(loop, resource);
    }
    if (job->fd >= 0) { /* of a region that could not be mapped */
        job->resource = NULL;
        add_job(&loop->release_thread, job);
        return;
    }
    free(job);
    loop->jobs--;
    loop->freed++;
}

bool gs_slow_thread_collect(gs_worker_loop *loop, struct slow_thread *thread) {
    if (!atomic_load_explicit(&thread->done_count, memory_order_acquire))
        return false;
    pthread_mutex_lock(&thread->mutex);
    struct slow_job *job = thread->done, *next;
    thread->done = NULL;
    thread->done_last = &thread->done;
    atomic_store(&thread->done_count, 0);
    pthread_mutex_unlock(&thread->mutex);
    for (; job; job = next) {
        next = job->next;
        thread->count--;
        finish_job(loop, job);
    }
    return true;
}
