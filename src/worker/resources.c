/*
 * resources.c: memory, regions and modules of the device process, and the two slow threads that make and end them.
 *
 * A resource has a number and a count of uses. An order that names one holds it from when it comes to when it is done,
 * so a resource that is freed meanwhile goes after its last use, and its number is free at once. Whatever may take long
 * is a chore: one thread does those of memory, the other those of modules, and the loop is told when they are done.
 */
#include "loop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct resource **slot_of(gs_worker_loop *loop, enum resource_kind kind, uint32_t number) {
    struct resource **at = &loop->resources[kind][number % SLOTS];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

struct resource *gs_loop_hold(gs_worker_loop *loop, enum resource_kind kind, uint32_t number) {
    struct resource *resource = *slot_of(loop, kind, number);
    if (resource)
        resource->uses++;
    return resource;
}

static void give_chore(struct helper *helper, struct chore *chore) {
    chore->next = NULL;
    helper->waiting++;
    pthread_mutex_lock(&helper->mutex);
    *helper->last = chore;
    helper->last = &chore->next;
    pthread_cond_signal(&helper->wake);
    pthread_mutex_unlock(&helper->mutex);
}

static void begin_chore(gs_worker_loop *loop, struct resource *resource, bool is_end, int fd, const char *path) {
    struct chore *chore = gs_loop_need(loop, malloc(sizeof *chore + strlen(path) + 1));
    *chore = (struct chore){.resource = resource, .is_end = is_end, .fd = fd};
    memcpy(chore->path, path, strlen(path) + 1);
    give_chore(resource->kind == MODULE ? &loop->modules : &loop->memories, chore);
}

/* The table holds a resource once, each order once, and so does its beginning. */
void gs_loop_let_go(gs_worker_loop *loop, struct resource *resource) {
    if (!resource || --resource->uses)
        return;
    if (resource->state == READY)
        begin_chore(loop, resource, true, -1, "");
    else
        free(resource);
}

void gs_loop_make_resource(gs_worker_loop *loop, enum resource_kind kind, const gs_worker_request *order, int fd,
                           const char *path) {
    struct resource **slot = slot_of(loop, kind, order->number);
    struct resource *old = *slot, *resource = gs_loop_need(loop, calloc(1, sizeof *resource));
    if (old) {
        *slot = old->next;
        gs_loop_let_go(loop, old);
        slot = slot_of(loop, kind, order->number);
    }
    *resource =
        (struct resource){.kind = kind, .number = order->number, .uses = 2, .bytes = order->bytes, .tag = order->tag};
    *slot = resource;
    begin_chore(loop, resource, false, fd, path);
}

void gs_loop_drop_resource(gs_worker_loop *loop, enum resource_kind kind, uint32_t number) {
    struct resource **slot = slot_of(loop, kind, number), *resource = *slot;
    if (!resource)
        return;
    *slot = resource->next;
    gs_loop_let_go(loop, resource);
}

/* ---- the slow threads ---- */

static gs_code load_file(gs_worker_loop *loop, struct chore *chore) {
    gs_image_file file;
    gs_code code = gs_image_read(chore->path, &file, &chore->error);
    if (code == GS_OK)
        code = loop->kind->load(loop->device, &file, &chore->resource->loaded, &chore->error);
    gs_image_file_free(&file);
    return code;
}

static void do_chore(gs_worker_loop *loop, struct chore *chore) {
    const gs_device_kind *kind = loop->kind;
    struct resource *resource = chore->resource;
    gs_code code = GS_OK;
    if (resource->kind == MEMORY && chore->is_end)
        kind->free(loop->device, resource->address, resource->bytes);
    else if (resource->kind == MEMORY)
        code = kind->allocate(loop->device, resource->bytes, &resource->address, &chore->error);
    else if (resource->kind == REGION && chore->is_end)
        kind->unmap(loop->device, resource->pointer, resource->bytes);
    else if (resource->kind == REGION)
        code = kind->map(loop->device, chore->fd, resource->bytes, &resource->pointer, &chore->error);
    else if (chore->is_end)
        kind->unload(loop->device, resource->loaded);
    else
        code = load_file(loop, chore);
    chore->error.code = code;
    if (chore->fd >= 0)
        close(chore->fd);
}

static void *help(void *argument) {
    struct helper *helper = argument;
    helper->loop->kind->enter_thread(helper->loop->device);
    pthread_mutex_lock(&helper->mutex);
    for (;;) {
        struct chore *chore = helper->first;
        if (!chore) {
            pthread_cond_wait(&helper->wake, &helper->mutex);
            continue;
        }
        helper->first = chore->next;
        if (!helper->first)
            helper->last = &helper->first;
        pthread_mutex_unlock(&helper->mutex);
        do_chore(helper->loop, chore);
        pthread_mutex_lock(&helper->mutex);
        chore->next = NULL;
        *helper->done_last = chore;
        helper->done_last = &chore->next;
        atomic_fetch_add(&helper->done_count, 1);
        gs_loop_ring(helper->loop);
    }
    return NULL;
}

void gs_loop_start_helper(gs_worker_loop *loop, struct helper *helper) {
    pthread_t thread;
    *helper = (struct helper){.loop = loop, .last = &helper->first, .done_last = &helper->done};
    pthread_mutex_init(&helper->mutex, NULL);
    pthread_cond_init(&helper->wake, NULL);
    if (pthread_create(&thread, NULL, help, helper) != 0)
        gs_loop_give_up(loop, GS_E_IO, GS_NO_TAG, "cannot start a thread");
    pthread_detach(thread);
}

static void finish_chore(gs_worker_loop *loop, struct chore *chore) {
    static const uint32_t happened[RESOURCE_KINDS] = {GS_REPORT_ALLOCATED, GS_REPORT_SHARED, GS_REPORT_LOADED};
    struct resource *resource = chore->resource;
    if (chore->is_end) {
        free(resource);
    } else {
        resource->state = chore->error.code == GS_OK ? READY : FAILED;
        if (resource->kind != REGION || resource->state == FAILED)
            gs_loop_tell_error(loop, happened[resource->kind],
                               resource->kind == REGION ? resource->number : resource->tag, &chore->error);
        gs_loop_let_go(loop, resource);
    }
    free(chore);
}

bool gs_loop_finish_chores(gs_worker_loop *loop, struct helper *helper) {
    if (!atomic_load_explicit(&helper->done_count, memory_order_acquire))
        return false;
    pthread_mutex_lock(&helper->mutex);
    struct chore *chore = helper->done, *next;
    helper->done = NULL;
    helper->done_last = &helper->done;
    atomic_store(&helper->done_count, 0);
    pthread_mutex_unlock(&helper->mutex);
    for (; chore; chore = next) {
        next = chore->next;
        helper->waiting--;
        finish_chore(loop, chore);
    }
    return true;
}
