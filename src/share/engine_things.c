/*
 * engine_things.c: memory, regions and modules of the device process, and the two slow threads that make and end them.
 *
 * A thing has a number and a count of uses. An order that names one holds it from when it comes to when it is done, so
 * a thing that is freed meanwhile goes after its last use, and its number is free at once. Whatever may take long is a
 * chore: one thread does those of memory, the other those of modules, and the loop is told when they are done.
 */
#include "engine_side.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct thing **slot_of(gs_side *side, enum thing_kind kind, uint32_t number) {
    struct thing **at = &side->things[kind][number % SLOTS];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

struct thing *gs_side_hold(gs_side *side, enum thing_kind kind, uint32_t number) {
    struct thing *thing = *slot_of(side, kind, number);
    if (thing)
        thing->uses++;
    return thing;
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

static void begin_chore(gs_side *side, struct thing *thing, bool is_end, int fd, const char *path) {
    struct chore *chore = gs_side_need(side, malloc(sizeof *chore + strlen(path) + 1));
    *chore = (struct chore){.thing = thing, .is_end = is_end, .fd = fd};
    memcpy(chore->path, path, strlen(path) + 1);
    give_chore(thing->kind == MODULE ? &side->modules : &side->memories, chore);
}

/* The table holds a thing once, each order once, and so does its beginning. */
void gs_side_let_go(gs_side *side, struct thing *thing) {
    if (!thing || --thing->uses)
        return;
    if (thing->state == READY)
        begin_chore(side, thing, true, -1, "");
    else
        free(thing);
}

void gs_side_make_thing(gs_side *side, enum thing_kind kind, const gs_order *order, int fd, const char *path) {
    struct thing **slot = slot_of(side, kind, order->number);
    struct thing *old = *slot, *thing = gs_side_need(side, calloc(1, sizeof *thing));
    if (old) {
        *slot = old->next;
        gs_side_let_go(side, old);
        slot = slot_of(side, kind, order->number);
    }
    *thing = (struct thing){.kind = kind, .number = order->number, .uses = 2, .bytes = order->bytes, .tag = order->tag};
    *slot = thing;
    begin_chore(side, thing, false, fd, path);
}

void gs_side_drop_thing(gs_side *side, enum thing_kind kind, uint32_t number) {
    struct thing **slot = slot_of(side, kind, number), *thing = *slot;
    if (!thing)
        return;
    *slot = thing->next;
    gs_side_let_go(side, thing);
}

/* ---- the slow threads ---- */

static gs_code load_file(gs_side *side, struct chore *chore) {
    gs_image_file file;
    gs_code code = gs_image_read(chore->path, &file, &chore->error);
    if (code == GS_OK)
        code = side->kind->load(side->device, &file, &chore->thing->loaded, &chore->error);
    gs_image_file_free(&file);
    return code;
}

static void do_chore(gs_side *side, struct chore *chore) {
    const gs_device_kind *kind = side->kind;
    struct thing *thing = chore->thing;
    gs_code code = GS_OK;
    if (thing->kind == MEMORY && chore->is_end)
        kind->free(side->device, thing->address, thing->bytes);
    else if (thing->kind == MEMORY)
        code = kind->allocate(side->device, thing->bytes, &thing->address, &chore->error);
    else if (thing->kind == REGION && chore->is_end)
        kind->unmap(side->device, thing->pointer, thing->bytes);
    else if (thing->kind == REGION)
        code = kind->map(side->device, chore->fd, thing->bytes, &thing->pointer, &chore->error);
    else if (chore->is_end)
        kind->unload(side->device, thing->loaded);
    else
        code = load_file(side, chore);
    chore->error.code = code;
    if (chore->fd >= 0)
        close(chore->fd);
}

static void *help(void *argument) {
    struct helper *helper = argument;
    helper->side->kind->enter_thread(helper->side->device);
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
        do_chore(helper->side, chore);
        pthread_mutex_lock(&helper->mutex);
        chore->next = NULL;
        *helper->done_last = chore;
        helper->done_last = &chore->next;
        atomic_fetch_add(&helper->done_count, 1);
        gs_side_ring(helper->side);
    }
    return NULL;
}

void gs_side_start_helper(gs_side *side, struct helper *helper) {
    pthread_t thread;
    *helper = (struct helper){.side = side, .last = &helper->first, .done_last = &helper->done};
    pthread_mutex_init(&helper->mutex, NULL);
    pthread_cond_init(&helper->wake, NULL);
    if (pthread_create(&thread, NULL, help, helper) != 0)
        gs_side_give_up(side, GS_E_IO, GS_ENGINE_NOBODY, "cannot start a thread");
    pthread_detach(thread);
}

static void finish_chore(gs_side *side, struct chore *chore) {
    static const uint32_t happened[THING_KINDS] = {GS_ENGINE_ALLOCATED, GS_ENGINE_SHARED, GS_ENGINE_LOADED};
    struct thing *thing = chore->thing;
    if (chore->is_end) {
        free(thing);
    } else {
        thing->state = chore->error.code == GS_OK ? READY : FAILED;
        if (thing->kind != REGION || thing->state == FAILED)
            gs_side_tell_error(side, happened[thing->kind], thing->kind == REGION ? thing->number : thing->tag,
                               &chore->error);
        gs_side_let_go(side, thing);
    }
    free(chore);
}

bool gs_side_finish_chores(gs_side *side, struct helper *helper) {
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
        finish_chore(side, chore);
    }
    return true;
}
