/*
 * engine_process.c: the device process: takes orders from the daemon, gives work to the device, tells what happened.
 *
 * One thread loops: it takes orders, looks at what is done, gives the next work, and sleeps when there is nothing to
 * do. Whatever may take long (memory, mapping, loading) is done by two other threads, one for memory and one for
 * modules.
 *
 * A queue has works that wait and works that fly: those were given to its lane, one behind the other, and the device
 * does the rest. A confined run is not like that. It starts when all before it in its queue is done, all behind it
 * waits until it has ended, and meanwhile it has lanes of its own: one for its first workers, and another each time
 * that it grows, so that nothing stops for it. When all of its launches are done with blocks left, it is launched
 * again.
 *
 * Workers that come while another kernel still holds their SMs find no place there, and leave from wherever they land.
 * So more are sent a few times after each change of a mask, ever later; where all SMs are full of workers this costs
 * next to nothing.
 *
 * Things (memory, regions, modules) have a number and a count of uses. An order that names one holds it from when it
 * comes to when it is done, so a thing that is freed meanwhile goes after its last use, and its number is free at once.
 */
#define _GNU_SOURCE
#include "descriptors.h"
#include "engine_device.h"
#include "process.h"
#include "share.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MOST_FLYING = 128,  /* works on a lane at a time: drivers block when it is about 1000 */
    MOST_FLIGHTS = 8,   /* launches of a confined run at a time */
    TOP_UPS = 6,        /* times that more workers are sent after a change, */
    FIRST_TOP_UP = 50,  /* from so many microseconds on, */
    LATER_TOP_UP = 4,   /* each time so much later */
    LEAST_PAUSE = 20,   /* microseconds before workers that found no place are sent again, */
    MOST_PAUSE = 500,   /* and at most */
    CHECK_EVERY = 1000, /* microseconds between looks at whether the device is of use */
    SPIN = 2000,        /* microseconds that the loop spins after the last thing that happened */
    NAP = 50            /* microseconds that it sleeps between looks at a device that does not ring */
};

enum thing_kind { MEMORY, REGION, MODULE, THING_KINDS };
enum thing_state { COMING, READY, FAILED };

struct thing {
    struct thing *next; /* in its slot of the table */
    enum thing_kind kind;
    uint32_t number, uses;
    enum thing_state state;
    uint64_t bytes, tag;
    uint64_t address;
    void *pointer;
    gs_loaded *loaded;
};

/* What a slow thread is to do, and what came of it. */
struct chore {
    struct chore *next;
    struct thing *thing;
    bool is_end; /* free, unmap, unload; else the beginning */
    int fd;
    gs_error error;
    char path[];
};

struct helper {
    gs_side *side;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct chore *first, **last, *done, **done_last;
    _Atomic uint32_t done_count; /* so that the loop need not lock where there are none */
    uint32_t waiting;            /* chores that the loop has not seen the end of; its own */
};

/* A copy, fill or run that was ordered. */
struct work {
    struct work *next;
    gs_order order;
    gs_run_order run;
    uint32_t number; /* on its lane */
    int64_t given_ns;
    struct thing *thing, *region; /* memory or module; of a copy */
    bool is_wrong;                /* it names things that are not there */
    struct thing **memories;      /* of the arguments that are memory; NULL else */
    gs_run_argument *arguments;
    unsigned char *values;
    _Alignas(16) unsigned char rest[];
};

struct confined {
    struct work *work;
    gs_control *control;
    uint32_t mask[GS_ENGINE_MASK_WORDS];
    uint64_t blocks, seen; /* of the grid; taken when workers were last sent without effect */
    struct flight {
        gs_lane *lane;
        uint32_t number;
    } flights[MOST_FLIGHTS];
    int flight_count, top_ups;
    bool wants_workers;
    int64_t began_ns, top_up_ns, pause_ns; /* and how long after the one before */
    int64_t again_ns, again_us;            /* the same for workers that found no place */
    uint32_t launches;
    uint64_t marks;
    /* what the kernel is told besides its own arguments */
    gs_confined_told told;
};

struct list {
    struct work *first, **last;
};

struct queue {
    struct queue *next;
    uint32_t number, flying_count;
    gs_lane *lane;
    struct list waiting, flying;
    struct confined *confined;
    int64_t ended_ns; /* when the last of its works did */
};

enum { SLOTS = 1024 };

struct gs_side {
    gs_engine_memory *memory;
    gs_ring orders, events;
    const gs_device_kind *kind;
    void *device;
    gs_engine_facts facts;
    bool checks_marks;
    struct thing *things[THING_KINDS][SLOTS];
    struct queue *queues; /* with work */
    gs_lane *lanes;       /* that nobody uses */
    struct helper memories, modules;
    struct untold {
        struct untold *next;
        uint32_t bytes;
        gs_engine_event event;
    } * untold, **untold_last; /* events for which the ring has no room */
    int64_t now_ns, happened_ns, checked_ns, spin_ns;
    unsigned char *record;
};

/* ---- telling ---- */

void gs_side_ring(gs_side *side) {
    (void)side;
    gs_bell_ring(GS_WIRE_MY_BELL);
}

void gs_side_give_up(gs_side *side, gs_code code, uint64_t tag, const char *words) {
    gs_engine_memory *memory = side->memory;
    uint32_t nobody = 0;
    if (atomic_compare_exchange_strong(&memory->is_noted, &nobody, 1)) {
        size_t length = strlen(words);
        length = length < sizeof memory->note ? length : sizeof memory->note - 1;
        memory->code = code;
        memory->tag = tag;
        memcpy(memory->note, words, length);
        atomic_store(&memory->is_noted, 2);
        atomic_store(&memory->state, GS_DEVICE_FAILED);
        gs_bell_ring(GS_WIRE_DAEMON_BELL);
        _exit(1);
    }
    for (;;)
        pause(); /* the other one ends the process */
}

/* The only run that is on the device, or `given` to it just now, if there is only one: then it did it. */
static uint64_t suspect(const gs_side *side, const struct work *given) {
    uint64_t found = given && given->order.kind == GS_ORDER_RUN ? given->order.tag : GS_ENGINE_NOBODY;
    for (const struct queue *queue = side->queues; queue; queue = queue->next) {
        const struct work *work = queue->confined ? queue->confined->work : queue->flying.first;
        if (!work || work->order.kind != GS_ORDER_RUN || work == given)
            continue;
        if (found != GS_ENGINE_NOBODY)
            return GS_ENGINE_NOBODY;
        found = work->order.tag;
    }
    return found;
}

static void give_up(gs_side *side, const gs_error *error) {
    gs_side_give_up(side, error->code, suspect(side, NULL), error->message);
}

static bool try_tell(gs_side *side, const gs_engine_event *event, uint32_t bytes) {
    gs_ring_result result = gs_ring_put(&side->events, event, bytes);
    if (result == GS_RING_BROKEN)
        gs_side_give_up(side, GS_E_IO, GS_ENGINE_NOBODY, "the ring of events is broken");
    return result == GS_RING_DONE;
}

static void tell_untold(gs_side *side) {
    while (side->untold) {
        struct untold *at = side->untold;
        if (!try_tell(side, &at->event, at->bytes)) {
            if (gs_ring_wants_room(&side->events, at->bytes) != GS_RING_DONE)
                return;
            continue;
        }
        side->untold = at->next;
        free(at);
    }
    side->untold_last = &side->untold;
}

static void tell(gs_side *side, const gs_engine_event *event) {
    size_t length = strlen(event->message);
    uint32_t bytes = (uint32_t)(offsetof(gs_engine_event, message) + (length ? length + 1 : 0));
    side->happened_ns = side->now_ns;
    if (!side->untold && try_tell(side, event, bytes))
        return;
    struct untold *made = malloc(sizeof *made);
    if (!made)
        gs_side_give_up(side, GS_E_MEMORY, GS_ENGINE_NOBODY, "the device process is out of memory");
    *made = (struct untold){.bytes = bytes, .event = *event};
    *side->untold_last = made;
    side->untold_last = &made->next;
    tell_untold(side);
}

static void tell_error(gs_side *side, uint32_t happened, uint64_t tag, const gs_error *error) {
    gs_engine_event event = {.happened = happened, .code = error->code, .tag = tag};
    if (error->code != GS_OK)
        snprintf(event.message, sizeof event.message, "%.199s", error->message);
    tell(side, &event);
}

static void *need(gs_side *side, void *memory) {
    if (!memory)
        gs_side_give_up(side, GS_E_MEMORY, GS_ENGINE_NOBODY, "the device process is out of memory");
    return memory;
}

/* ---- things ---- */

static struct thing **slot_of(gs_side *side, enum thing_kind kind, uint32_t number) {
    struct thing **at = &side->things[kind][number % SLOTS];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static struct thing *hold(gs_side *side, enum thing_kind kind, uint32_t number) {
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
    struct chore *chore = need(side, malloc(sizeof *chore + strlen(path) + 1));
    *chore = (struct chore){.thing = thing, .is_end = is_end, .fd = fd};
    memcpy(chore->path, path, strlen(path) + 1);
    give_chore(thing->kind == MODULE ? &side->modules : &side->memories, chore);
}

/* The table holds a thing once, each order once, and so does its beginning. */
static void let_go(gs_side *side, struct thing *thing) {
    if (!thing || --thing->uses)
        return;
    if (thing->state == READY)
        begin_chore(side, thing, true, -1, "");
    else
        free(thing);
}

static void make_thing(gs_side *side, enum thing_kind kind, const gs_order *order, int fd, const char *path) {
    struct thing **slot = slot_of(side, kind, order->number);
    struct thing *old = *slot, *thing = need(side, calloc(1, sizeof *thing));
    if (old) {
        *slot = old->next;
        let_go(side, old);
        slot = slot_of(side, kind, order->number);
    }
    *thing = (struct thing){.kind = kind, .number = order->number, .uses = 2, .bytes = order->bytes, .tag = order->tag};
    *slot = thing;
    begin_chore(side, thing, false, fd, path);
}

static void drop_thing(gs_side *side, enum thing_kind kind, uint32_t number) {
    struct thing **slot = slot_of(side, kind, number), *thing = *slot;
    if (!thing)
        return;
    *slot = thing->next;
    let_go(side, thing);
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

static void start_helper(gs_side *side, struct helper *helper) {
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
            tell_error(side, happened[thing->kind], thing->kind == REGION ? thing->number : thing->tag, &chore->error);
        let_go(side, thing);
    }
    free(chore);
}

static bool finish_chores(gs_side *side, struct helper *helper) {
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

/* ---- lanes and queues ---- */

static gs_lane *take_lane(gs_side *side) {
    gs_lane *lane = side->lanes;
    if (lane)
        side->lanes = lane->next;
    else
        lane = need(side, side->kind->lane_new(side->device));
    return lane;
}

static void give_lane_back(gs_side *side, gs_lane *lane) {
    lane->next = side->lanes;
    side->lanes = lane;
}

static bool is_done(const gs_lane *lane, uint32_t number) {
    return (int32_t)(atomic_load_explicit(lane->done, memory_order_acquire) - number) >= 0;
}

static void append(struct list *list, struct work *work) {
    work->next = NULL;
    *list->last = work;
    list->last = &work->next;
}

static struct work *shift(struct list *list) {
    struct work *work = list->first;
    list->first = work->next;
    if (!list->first)
        list->last = &list->first;
    return work;
}

static struct queue *find_queue(gs_side *side, uint32_t number) {
    struct queue *queue = side->queues;
    while (queue && queue->number != number)
        queue = queue->next;
    if (queue)
        return queue;
    queue = need(side, calloc(1, sizeof *queue));
    queue->number = number;
    queue->lane = take_lane(side);
    queue->waiting.last = &queue->waiting.first;
    queue->flying.last = &queue->flying.first;
    queue->next = side->queues;
    side->queues = queue;
    return queue;
}

/* ---- works ---- */

static void free_work(gs_side *side, struct work *work) {
    let_go(side, work->thing);
    let_go(side, work->region);
    for (uint32_t i = 0; i < work->run.argument_count; i++)
        let_go(side, work->memories[i]);
    free(work);
}

static void end_work(gs_side *side, struct work *work, gs_engine_event *event) {
    event->happened = work->order.kind == GS_ORDER_RUN ? GS_ENGINE_RAN : GS_ENGINE_COPIED;
    event->tag = work->order.tag;
    tell(side, event);
    free_work(side, work);
}

/* It could not be given to the device. If that is the device's fault this process is of no use any more. */
static void fail_work(gs_side *side, struct work *work, const gs_error *error) {
    gs_error reason;
    gs_engine_event event = {
        .code = error->code, .began_ns = (uint64_t)side->now_ns, .ended_ns = (uint64_t)side->now_ns};
    if (side->kind->check(side->device, &reason) != GS_OK)
        gs_side_give_up(side, reason.code, suspect(side, work), reason.message);
    snprintf(event.message, sizeof event.message, "%.199s", error->message);
    end_work(side, work, &event);
}

/* Whether all that it names is there; `*error` where something never will be. */
static bool things_are_ready(const struct work *work, gs_error *error) {
    const struct thing *things[2] = {work->thing, work->region};
    bool is_coming = false, has_failed = work->is_wrong;
    for (int i = 0; i < 2; i++) {
        is_coming = is_coming || (things[i] && things[i]->state == COMING);
        has_failed = has_failed || (things[i] && things[i]->state == FAILED);
    }
    for (uint32_t i = 0; i < work->run.argument_count; i++) {
        is_coming = is_coming || (work->memories[i] && work->memories[i]->state == COMING);
        has_failed = has_failed || (work->memories[i] && work->memories[i]->state == FAILED);
    }
    if (has_failed)
        gs_fail(error, GS_E_USAGE, "it names memory, a region or a module that is not there");
    return !is_coming;
}

static bool is_inside(uint64_t at, uint64_t bytes, uint64_t size) {
    return at <= size && bytes <= size - at;
}

static gs_code give_copy(gs_side *side, gs_lane *lane, const struct work *work, gs_error *error) {
    const gs_order *order = &work->order;
    if (!is_inside(order->at, order->bytes, work->thing->bytes) ||
        (work->region && !is_inside(order->region_at, order->bytes, work->region->bytes)))
        return gs_fail(error, GS_E_USAGE, "a copy or fill outside of its memory");
    uint64_t address = work->thing->address + order->at;
    if (!work->region)
        return side->kind->fill(side->device, lane, address, (uint8_t)order->value, order->bytes, error);
    return side->kind->copy(side->device, lane, order->is_in, address, (char *)work->region->pointer + order->region_at,
                            order->bytes, error);
}

/* ---- runs ---- */

static gs_code check_run(const struct work *work, gs_error *error) {
    const gs_run_order *run = &work->run;
    const gs_loaded *loaded = work->thing->loaded;
    uint64_t threads = (uint64_t)run->block[0] * run->block[1] * run->block[2];
    if (run->kernel >= loaded->kernel_count)
        return gs_fail(error, GS_E_USAGE, "the module has no kernel %u", run->kernel);
    const gs_loaded_kernel *kernel = &loaded->kernels[run->kernel];
    if ((run->is_confined || run->is_walked) && !kernel->can_be_confined)
        return gs_fail(error, GS_E_USAGE, "this kernel cannot be confined");
    if (!run->grid[0] || !run->grid[1] || !run->grid[2] || run->grid[1] > 65535 || run->grid[2] > 65535 ||
        run->grid[0] > INT32_MAX || !threads || threads > 1024 || run->block[2] > 64)
        return gs_fail(error, GS_E_USAGE, "no kernel can be launched with a grid (%u, %u, %u) of blocks (%u, %u, %u)",
                       run->grid[0], run->grid[1], run->grid[2], run->block[0], run->block[1], run->block[2]);
    if (run->argument_count != kernel->parameters)
        return gs_fail(error, GS_E_USAGE, "the kernel has %u parameters, but %u arguments are given",
                       kernel->parameters, run->argument_count);
    for (uint32_t i = 0; i < run->argument_count; i++) {
        uint32_t bytes = work->memories[i] ? (uint32_t)sizeof(uint64_t) : work->arguments[i].bytes;
        if (bytes != kernel->sizes[i])
            return gs_fail(error, GS_E_USAGE, "parameter %u has %u bytes, but the argument has %u", i + 1,
                           kernel->sizes[i], bytes);
        if (work->memories[i] && work->arguments[i].at > work->memories[i]->bytes)
            return gs_fail(error, GS_E_USAGE, "argument %u is outside of its memory", i + 1);
    }
    return GS_OK;
}

/* What a kernel is told besides its own arguments. */
static gs_confined_told told_of(const gs_run_order *run, uint64_t next) {
    return (gs_confined_told){.grid_x = run->grid[0],
                              .grid_y = run->grid[1],
                              .grid_z = run->grid[2],
                              .task_blocks = run->task_blocks ? run->task_blocks : 10,
                              .next = next};
}

static uint32_t count_sms(const uint32_t *mask) {
    uint32_t count = 0;
    for (int i = 0; i < GS_ENGINE_MASK_WORDS; i++)
        count += (uint32_t)__builtin_popcount(mask[i]);
    return count;
}

/* Launches it on a lane, whole, walked or confined. */
static gs_code launch(gs_side *side, gs_lane *lane, struct work *work, struct confined *confined, gs_error *error) {
    void *arguments[GS_ENGINE_ARGUMENTS + 1];
    uint64_t addresses[GS_ENGINE_ARGUMENTS];
    const gs_run_order *run = &work->run;
    bool is_walked = run->is_walked && lane->counter;
    gs_confined_told walked = told_of(run, lane->counter);
    for (uint32_t i = 0; i < run->argument_count; i++) {
        if (work->memories[i])
            addresses[i] = work->memories[i]->address + work->arguments[i].at;
        arguments[i] = work->memories[i] ? (void *)&addresses[i] : work->values + work->arguments[i].at;
    }
    if (confined || is_walked)
        arguments[run->argument_count] = confined ? &confined->told : &walked;
    gs_device_launch told = {.kernel = &work->thing->loaded->kernels[run->kernel],
                             .tag = work->order.tag,
                             .grid = {run->grid[0], run->grid[1], run->grid[2]},
                             .block = {run->block[0], run->block[1], run->block[2]},
                             .shared_bytes = run->shared_bytes,
                             .arguments = arguments,
                             .control = confined ? confined->control : NULL,
                             .is_walked = is_walked,
                             .blocks = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2],
                             .sms = confined ? count_sms(confined->mask) : 0};
    return side->kind->launch(side->device, lane, &told, error);
}

/* ---- confined runs ---- */

static bool is_empty(const uint32_t *mask) {
    return count_sms(mask) == 0;
}

/* SMs that there are not are not allowed. Returns whether the new mask has SMs that the old one had not. */
static bool set_mask(const gs_side *side, uint32_t *mask, const uint32_t *wanted) {
    bool has_more = false;
    for (int i = 0; i < GS_ENGINE_MASK_WORDS; i++) {
        int32_t left = side->facts.sms - 32 * i;
        uint32_t there = left >= 32 ? UINT32_MAX : left > 0 ? (1u << left) - 1 : 0;
        has_more = has_more || (wanted[i] & there & ~mask[i]);
        mask[i] = wanted[i] & there;
    }
    return has_more;
}

static void plan_top_ups(gs_side *side, struct confined *confined) {
    confined->top_ups = TOP_UPS;
    confined->pause_ns = FIRST_TOP_UP * 1000;
    confined->top_up_ns = side->now_ns + confined->pause_ns;
}

static gs_code send_workers(gs_side *side, struct confined *confined, gs_error *error) {
    gs_lane *lane = take_lane(side);
    gs_code code = launch(side, lane, confined->work, confined, error);
    if (code != GS_OK) {
        give_lane_back(side, lane);
        return code;
    }
    confined->flights[confined->flight_count++] = (struct flight){lane, lane->given};
    confined->wants_workers = false;
    confined->launches++;
    return GS_OK;
}

/* Each block that the run took has run once, and no other. */
static gs_code check_marks(gs_side *side, const struct confined *confined, uint64_t done, gs_error *error) {
    uint64_t blocks = confined->blocks, wrong = UINT64_MAX;
    uint32_t *marks = need(side, malloc(blocks * sizeof *marks));
    gs_code code = side->kind->read(side->device, marks, confined->marks, blocks * sizeof *marks, error);
    for (uint64_t i = 0; i < blocks && code == GS_OK && wrong == UINT64_MAX; i++)
        if (marks[i] != (i >= confined->work->run.first_block && i < done))
            wrong = i;
    if (wrong != UINT64_MAX)
        code = gs_fail(error, GS_E_KERNEL, "block %llu of %llu ran %u times", (unsigned long long)wrong,
                       (unsigned long long)blocks, marks[wrong]);
    free(marks);
    return code;
}

static void free_confined(gs_side *side, struct confined *confined) {
    if (confined->marks)
        side->kind->free(side->device, confined->marks, confined->blocks * sizeof(uint32_t));
    side->kind->control_free(side->device, confined->control);
    free(confined);
}

static void end_confined(gs_side *side, struct queue *queue, gs_code code, gs_error *error) {
    struct confined *confined = queue->confined;
    uint64_t next = side->kind->control_next(side->device, confined->control, true);
    gs_engine_event event = {.code = code,
                             .blocks_done = next < confined->blocks ? next : confined->blocks,
                             .began_ns = (uint64_t)confined->began_ns,
                             .ended_ns = (uint64_t)side->now_ns,
                             .launches = confined->launches};
    if (code == GS_OK && confined->marks)
        event.code = check_marks(side, confined, event.blocks_done, error);
    if (event.code != GS_OK)
        snprintf(event.message, sizeof event.message, "%.199s", error->message);
    struct work *work = confined->work;
    queue->confined = NULL;
    queue->ended_ns = side->now_ns;
    free_confined(side, confined);
    end_work(side, work, &event);
}

static gs_code prepare(gs_side *side, struct confined *confined, gs_error *error) {
    const gs_run_order *run = &confined->work->run;
    gs_code code = side->kind->control_begin(side->device, confined->control, run->first_block, confined->mask, error);
    if (code == GS_OK && side->checks_marks)
        code = side->kind->allocate(side->device, confined->blocks * sizeof(uint32_t), &confined->marks, error);
    confined->told = told_of(run, confined->control->next);
    confined->told.marks = confined->marks;
    confined->told.sms = confined->control->mask;
    return code;
}

/* Everything before it in its queue is done. */
static void begin_confined(gs_side *side, struct queue *queue, struct work *work) {
    gs_error error = {.code = GS_OK};
    const gs_run_order *run = &work->run;
    struct confined *confined = need(side, calloc(1, sizeof *confined));
    confined->work = work;
    confined->control = need(side, side->kind->control_new(side->device));
    confined->blocks = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2];
    confined->began_ns = side->now_ns;
    confined->seen = UINT64_MAX;
    set_mask(side, confined->mask, run->mask);
    queue->confined = confined;
    gs_code code = prepare(side, confined, &error);
    if (code == GS_OK && !is_empty(confined->mask) && run->first_block < confined->blocks)
        code = send_workers(side, confined, &error);
    plan_top_ups(side, confined);
    if (code != GS_OK) {
        queue->confined = NULL;
        free_confined(side, confined);
        fail_work(side, work, &error);
    }
}

static bool collect_flights(gs_side *side, struct confined *confined) {
    bool any = false;
    for (int i = confined->flight_count; i-- > 0;) {
        struct flight *flight = &confined->flights[i];
        if (!is_done(flight->lane, flight->number))
            continue;
        give_lane_back(side, flight->lane);
        *flight = confined->flights[--confined->flight_count];
        any = true;
    }
    return any;
}

/* No worker is left. Workers that took nothing found no place: they come again, but not at once. */
static bool land(gs_side *side, struct queue *queue) {
    struct confined *confined = queue->confined;
    gs_error error = {.code = GS_OK};
    uint64_t next = side->kind->control_next(side->device, confined->control, true);
    if (next >= confined->blocks || is_empty(confined->mask)) {
        end_confined(side, queue, GS_OK, &error);
        return true;
    }
    if (next != confined->seen) {
        confined->seen = next;
        confined->again_us = confined->again_ns = 0;
    } else if (!confined->again_ns) {
        int64_t twice = confined->again_us * 2;
        confined->again_us = twice < LEAST_PAUSE ? LEAST_PAUSE : gs_min(twice, MOST_PAUSE);
        confined->again_ns = side->now_ns + confined->again_us * 1000;
    }
    if (side->now_ns < confined->again_ns)
        return false;
    confined->again_ns = 0;
    gs_code code = send_workers(side, confined, &error);
    gs_error reason;
    if (code != GS_OK && side->kind->check(side->device, &reason) != GS_OK)
        give_up(side, &reason);
    if (code != GS_OK)
        end_confined(side, queue, code, &error);
    return true;
}

/* Sends more workers where the mask has grown, or might not be full. */
static bool top_up(gs_side *side, struct queue *queue) {
    struct confined *confined = queue->confined;
    gs_error error = {.code = GS_OK};
    bool is_time = confined->top_ups && side->now_ns >= confined->top_up_ns;
    if (is_time) {
        confined->top_ups--;
        confined->pause_ns *= LATER_TOP_UP;
        confined->top_up_ns = side->now_ns + confined->pause_ns;
        confined->wants_workers = confined->wants_workers || !side->kind->rings;
    }
    if (!confined->wants_workers || confined->flight_count == MOST_FLIGHTS || is_empty(confined->mask))
        return false;
    gs_code code = send_workers(side, confined, &error);
    if (code != GS_OK) /* those that are there do the work */
        confined->wants_workers = false;
    return code == GS_OK;
}

static bool advance_confined(gs_side *side, struct queue *queue) {
    struct confined *confined = queue->confined;
    bool any = collect_flights(side, confined);
    if (!confined->flight_count)
        return land(side, queue) || any;
    any = top_up(side, queue) || any;
    if (confined->work->run.slot < GS_ENGINE_RUNS) {
        uint64_t next = side->kind->control_next(side->device, confined->control, false);
        atomic_store_explicit(&side->memory->progress[confined->work->run.slot],
                              next < confined->blocks ? next : confined->blocks, memory_order_relaxed);
    }
    return any;
}

static void confine(gs_side *side, uint64_t tag, const uint32_t *mask) {
    for (struct queue *queue = side->queues; queue; queue = queue->next) {
        struct confined *confined = queue->confined;
        if (confined && confined->work->order.tag == tag) {
            gs_error error;
            if (set_mask(side, confined->mask, mask))
                confined->wants_workers = true;
            if (side->kind->control_confine(side->device, confined->control, confined->mask, &error) != GS_OK)
                give_up(side, &error);
            plan_top_ups(side, confined);
            return;
        }
        for (struct work *work = queue->waiting.first; work; work = work->next)
            if (work->order.kind == GS_ORDER_RUN && work->run.is_confined && work->order.tag == tag) {
                memcpy(work->run.mask, mask, sizeof work->run.mask);
                return;
            }
    }
}

/* ---- queues go on ---- */

static bool retire(gs_side *side, struct queue *queue) {
    bool any = false;
    while (queue->flying.first && is_done(queue->lane, queue->flying.first->number)) {
        struct work *work = shift(&queue->flying);
        const gs_run_order *run = &work->run;
        int64_t began = work->given_ns > queue->ended_ns ? work->given_ns : queue->ended_ns;
        gs_engine_event event = {.began_ns = (uint64_t)began,
                                 .ended_ns = (uint64_t)side->now_ns,
                                 .blocks_done = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2],
                                 .launches = work->order.kind == GS_ORDER_RUN};
        queue->flying_count--;
        queue->ended_ns = side->now_ns;
        end_work(side, work, &event);
        any = true;
    }
    return any;
}

/* Gives the first that waits to the device. False: it must wait. */
static bool give_next(gs_side *side, struct queue *queue) {
    struct work *work = queue->waiting.first;
    gs_error error = {.code = GS_OK};
    bool is_run = work->order.kind == GS_ORDER_RUN;
    if (!things_are_ready(work, &error) || queue->flying_count >= MOST_FLYING ||
        (is_run && work->run.is_confined && queue->flying.first))
        return false;
    shift(&queue->waiting);
    gs_code code = error.code;
    if (code == GS_OK && is_run)
        code = check_run(work, &error);
    if (code == GS_OK && is_run && work->run.is_confined) {
        begin_confined(side, queue, work);
        return true;
    }
    work->given_ns = side->now_ns;
    if (code == GS_OK)
        code = is_run ? launch(side, queue->lane, work, NULL, &error) : give_copy(side, queue->lane, work, &error);
    if (code != GS_OK) {
        fail_work(side, work, &error);
        return true;
    }
    work->number = queue->lane->given;
    append(&queue->flying, work);
    queue->flying_count++;
    return true;
}

static bool advance_queue(gs_side *side, struct queue *queue) {
    bool any = retire(side, queue);
    if (queue->confined)
        any = advance_confined(side, queue) || any;
    while (queue->waiting.first && !queue->confined && give_next(side, queue))
        any = true;
    return any;
}

/* Queues without work go, and leave their lane to others. */
static bool advance_queues(gs_side *side) {
    bool any = false;
    for (struct queue **at = &side->queues, *queue; (queue = *at);) {
        any = advance_queue(side, queue) || any;
        if (queue->waiting.first || queue->flying.first || queue->confined) {
            at = &queue->next;
            continue;
        }
        *at = queue->next;
        give_lane_back(side, queue->lane);
        free(queue);
    }
    return any;
}

/* ---- orders ---- */

static int take_fd(void) {
    char byte;
    int fd;
    return gs_descriptors_receive(GS_WIRE_SOCKET, &byte, 1, &fd, 1, MSG_DONTWAIT) == 1 ? fd : -1;
}

static void hold_arguments(gs_side *side, struct work *work) {
    for (uint32_t i = 0; i < work->run.argument_count; i++) {
        const gs_run_argument *argument = &work->arguments[i];
        if (argument->bytes) {
            if (!is_inside(argument->at, argument->bytes, work->run.value_bytes))
                work->is_wrong = true;
            continue;
        }
        work->memories[i] = hold(side, MEMORY, argument->memory);
        work->is_wrong = work->is_wrong || !work->memories[i];
    }
}

/* A work of a queue; `rest` is what follows the order. */
static struct work *make_work(gs_side *side, const gs_order *order, const unsigned char *rest, uint32_t bytes) {
    gs_run_order run = {0};
    if (order->kind == GS_ORDER_RUN) {
        if (bytes >= sizeof run)
            memcpy(&run, rest, sizeof run);
        if (bytes < sizeof run || run.argument_count > GS_ENGINE_ARGUMENTS ||
            bytes != sizeof run + run.argument_count * sizeof(gs_run_argument) + run.value_bytes)
            gs_side_give_up(side, GS_E_IO, GS_ENGINE_NOBODY, "an order does not make sense");
        rest += sizeof run;
        bytes -= (uint32_t)sizeof run;
    } else {
        bytes = 0;
    }
    /* the values first, which must be at multiples of 16 */
    uint32_t values = (run.value_bytes + 15) / 16 * 16, list = run.argument_count * (uint32_t)sizeof(gs_run_argument);
    struct work *work = need(side, malloc(sizeof *work + values + list + run.argument_count * sizeof(struct thing *)));
    *work = (struct work){.order = *order, .run = run};
    work->values = work->rest;
    work->arguments = (gs_run_argument *)(void *)(work->rest + values);
    work->memories = (struct thing **)(void *)(work->rest + values + list);
    if (bytes) {
        memcpy(work->arguments, rest, list);
        memcpy(work->values, rest + list, run.value_bytes);
        memset(work->memories, 0, run.argument_count * sizeof(struct thing *));
    }
    work->thing = hold(side, order->kind == GS_ORDER_RUN ? MODULE : MEMORY, order->number);
    work->is_wrong = !work->thing;
    if (order->kind == GS_ORDER_COPY) {
        work->region = hold(side, REGION, order->region);
        work->is_wrong = work->is_wrong || !work->region;
    }
    hold_arguments(side, work);
    return work;
}

static void obey(gs_side *side, const gs_order *order, const unsigned char *rest, uint32_t bytes) {
    uint32_t mask[GS_ENGINE_MASK_WORDS];
    switch (order->kind) {
    case GS_ORDER_ALLOCATE:
        make_thing(side, MEMORY, order, -1, "");
        break;
    case GS_ORDER_FREE:
        drop_thing(side, MEMORY, order->number);
        break;
    case GS_ORDER_SHARE:
        make_thing(side, REGION, order, take_fd(), "");
        break;
    case GS_ORDER_UNSHARE:
        drop_thing(side, REGION, order->number);
        break;
    case GS_ORDER_LOAD:
        make_thing(side, MODULE, order, -1, bytes && !rest[bytes - 1] ? (const char *)rest : "");
        break;
    case GS_ORDER_UNLOAD:
        drop_thing(side, MODULE, order->number);
        break;
    case GS_ORDER_CONFINE:
        if (bytes == sizeof mask) {
            memcpy(mask, rest, sizeof mask);
            confine(side, order->tag, mask);
        }
        break;
    default: {
        struct queue *queue = find_queue(side, order->queue);
        append(&queue->waiting, make_work(side, order, rest, bytes));
        break;
    }
    }
}

static bool take_orders(gs_side *side) {
    enum { AT_A_TIME = 64 };
    gs_order order;
    uint32_t bytes = 0;
    int count = 0;
    for (; count < AT_A_TIME; count++) {
        gs_ring_result result = gs_ring_take(&side->orders, side->record, GS_WIRE_LONGEST, &bytes);
        if (result == GS_RING_NOT_NOW)
            break;
        if (result != GS_RING_DONE || bytes < sizeof order)
            gs_side_give_up(side, GS_E_IO, GS_ENGINE_NOBODY, "the ring of orders is broken");
        memcpy(&order, side->record, sizeof order);
        obey(side, &order, side->record + sizeof order, bytes - (uint32_t)sizeof order);
    }
    return count > 0;
}

/* ---- the loop ---- */

/* How long it may sleep: 0: not at all; -1: until the bell rings. */
static int64_t sleep_us(const gs_side *side) {
    bool is_busy = side->queues != NULL;
    if (side->now_ns - side->happened_ns < side->spin_ns && (is_busy || !side->kind->rings))
        return 0;
    return !is_busy ? -1 : side->kind->rings ? CHECK_EVERY : NAP;
}

static void sleep_for(gs_side *side, int64_t us) {
    struct pollfd asked[] = {{.fd = GS_WIRE_MY_BELL, .events = POLLIN}, {.fd = GS_WIRE_SOCKET}};
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    if (!gs_ring_sleep(&side->orders))
        return;
    int ready = ppoll(asked, GS_COUNT(asked), us < 0 ? NULL : &time, NULL);
    if (ready > 0 && asked[1].revents & (POLLHUP | POLLERR))
        _exit(0); /* the daemon is gone */
    if (ready > 0)
        gs_bell_silence(GS_WIRE_MY_BELL);
    gs_ring_wake(&side->orders);
}

static void check_device(gs_side *side) {
    gs_error error;
    if (side->now_ns - side->checked_ns < (int64_t)CHECK_EVERY * 1000 || !side->queues)
        return;
    side->checked_ns = side->now_ns;
    if (side->kind->check(side->device, &error) != GS_OK)
        give_up(side, &error);
}

static void loop(gs_side *side) {
    for (;;) {
        side->now_ns = gs_now_ns();
        bool any = take_orders(side);
        any = finish_chores(side, &side->memories) || any;
        any = finish_chores(side, &side->modules) || any;
        any = advance_queues(side) || any;
        if (side->untold)
            tell_untold(side);
        check_device(side);
        if (any) {
            side->happened_ns = side->now_ns;
            continue;
        }
        int64_t us = sleep_us(side);
        if (us)
            sleep_for(side, us);
    }
}

/* ---- the process ---- */

static gs_code map_memory(gs_side *side, gs_error *error) {
    void *memory = mmap(NULL, gs_wire_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, GS_WIRE_MEMORY, 0);
    if (memory == MAP_FAILED)
        return gs_fail(error, GS_E_USAGE, "%s is for the daemon, not for people", GS_DEVICE_PROCESS);
    side->memory = memory;
    gs_ring_attach(&side->orders, (char *)memory + gs_wire_orders_at(), GS_WIRE_ROOM, GS_WIRE_DAEMON_BELL);
    gs_ring_attach(&side->events, (char *)memory + gs_wire_events_at(), GS_WIRE_ROOM, GS_WIRE_DAEMON_BELL);
    return GS_OK;
}

static void open_device(gs_side *side, const gs_engine_options *options) {
    gs_error error = {.code = GS_OK};
    side->kind = strncmp(options->device, "cuda", 4) == 0 ? &gs_device_kind_cuda : &gs_device_kind_host;
    side->device = side->kind->open(side, options, &side->facts, &error);
    if (!side->device)
        give_up(side, &error);
    side->memory->facts = side->facts;
    atomic_store(&side->memory->state, GS_DEVICE_READY);
    gs_bell_ring(GS_WIRE_DAEMON_BELL);
}

int gs_device_process(int argc, char **argv) {
    enum { PARENT = 1, DEVICE, SMS, BYTES, MARKS, WORDS };
    enum { FEW_CORES = 3 };
    gs_error error;
    gs_side *side = calloc(1, sizeof *side);
    signal(SIGINT, SIG_IGN); /* a terminal tells the whole group: the daemon decides when it is over */
    signal(SIGTERM, SIG_IGN);
    if (argc != WORDS || !gs_process_follow(argv[PARENT], SIGKILL) || !side || map_memory(side, &error) != GS_OK) {
        free(side);
        return gs_code_exit(GS_E_USAGE);
    }
    gs_engine_options options = {.device = argv[DEVICE],
                                 .sms = atoi(argv[SMS]),
                                 .memory_bytes = strtoull(argv[BYTES], NULL, 10),
                                 .checks_marks = strcmp(argv[MARKS], "marks") == 0};
    side->checks_marks = options.checks_marks;
    side->untold_last = &side->untold;
    side->record = need(side, malloc(GS_WIRE_LONGEST));
    side->spin_ns = sysconf(_SC_NPROCESSORS_ONLN) > FEW_CORES ? (int64_t)SPIN * 1000 : 0;
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    open_device(side, &options);
    start_helper(side, &side->memories);
    start_helper(side, &side->modules);
    loop(side);
    return 0;
}
