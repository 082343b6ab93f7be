/*
 * engine_process.c: the device process: takes orders from the daemon, gives work to the device, tells what happened.
 *
 * One thread loops: it takes orders, looks at what is done, gives the next work, and sleeps when there is nothing to
 * do. Whatever may take long (memory, mapping, loading) is done by two other threads (engine_things.c).
 *
 * A queue has works that wait and works that fly: those were given to its lane, one behind the other, and the device
 * does the rest. Of launches that follow each other the lane may tell at once, which costs it less; they share the
 * time then. A confined run is not like that: it has lanes of its own (engine_confined.c).
 */
#define _GNU_SOURCE
#include "descriptors.h"
#include "engine_side.h"
#include "process.h"
#include "share.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MOST_FLYING = 128,  /* works on a lane at a time: drivers block when it is about 1000 */
    CHECK_EVERY = 1000, /* microseconds between looks at whether the device is of use */
    SPIN = 2000,        /* microseconds that the loop spins after the last thing that happened */
    NAP = 50,           /* microseconds that it sleeps between looks at a device that does not ring */
    FOLLOWED = 20       /* microseconds in which what follows a launch should come */
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

void gs_side_fail(gs_side *side, const gs_error *error) {
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

void gs_side_tell_error(gs_side *side, uint32_t happened, uint64_t tag, const gs_error *error) {
    gs_engine_event event = {.happened = happened, .code = error->code, .tag = tag};
    if (error->code != GS_OK)
        snprintf(event.message, sizeof event.message, "%.199s", error->message);
    tell(side, &event);
}

void *gs_side_need(gs_side *side, void *memory) {
    if (!memory)
        gs_side_give_up(side, GS_E_MEMORY, GS_ENGINE_NOBODY, "the device process is out of memory");
    return memory;
}

/* ---- lanes and queues ---- */

gs_lane *gs_side_take_lane(gs_side *side) {
    gs_lane *lane = side->lanes;
    if (lane)
        side->lanes = lane->next;
    else
        lane = gs_side_need(side, side->kind->lane_new(side->device));
    return lane;
}

void gs_side_give_lane_back(gs_side *side, gs_lane *lane) {
    lane->next = side->lanes;
    side->lanes = lane;
}

bool gs_lane_is_done(const gs_lane *lane, uint32_t number) {
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
    queue = gs_side_need(side, calloc(1, sizeof *queue));
    queue->number = number;
    queue->lane = gs_side_take_lane(side);
    queue->waiting.last = &queue->waiting.first;
    queue->flying.last = &queue->flying.first;
    queue->next = side->queues;
    side->queues = queue;
    return queue;
}

/* ---- works ---- */

static void free_work(gs_side *side, struct work *work) {
    gs_side_let_go(side, work->thing);
    gs_side_let_go(side, work->region);
    for (uint32_t i = 0; i < work->run.argument_count; i++)
        gs_side_let_go(side, work->memories[i]);
    free(work);
}

void gs_side_end_work(gs_side *side, struct work *work, gs_engine_event *event) {
    event->happened = work->order.kind == GS_ORDER_RUN ? GS_ENGINE_RAN : GS_ENGINE_COPIED;
    event->tag = work->order.tag;
    tell(side, event);
    free_work(side, work);
}

/* It could not be given to the device. If that is the device's fault this process is of no use any more. */
void gs_side_fail_work(gs_side *side, struct work *work, const gs_error *error) {
    gs_error reason;
    gs_engine_event event = {
        .code = error->code, .began_ns = (uint64_t)side->now_ns, .ended_ns = (uint64_t)side->now_ns};
    if (side->kind->check(side->device, &reason) != GS_OK)
        gs_side_give_up(side, reason.code, suspect(side, work), reason.message);
    snprintf(event.message, sizeof event.message, "%.199s", error->message);
    gs_side_end_work(side, work, &event);
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
gs_confined_told gs_told_of(const gs_run_order *run, uint64_t next) {
    return (gs_confined_told){.grid_x = run->grid[0],
                              .grid_y = run->grid[1],
                              .grid_z = run->grid[2],
                              .task_blocks = run->task_blocks ? run->task_blocks : 10,
                              .next = next};
}

uint32_t gs_count_sms(const uint32_t *mask) {
    uint32_t count = 0;
    for (int i = 0; i < GS_ENGINE_MASK_WORDS; i++)
        count += (uint32_t)__builtin_popcount(mask[i]);
    return count;
}

/* Launches it on a lane, whole, walked or confined. */
gs_code gs_side_launch(gs_side *side, gs_lane *lane, struct work *work, struct confined *confined, gs_error *error) {
    void *arguments[GS_ENGINE_ARGUMENTS + 1];
    uint64_t addresses[GS_ENGINE_ARGUMENTS];
    const gs_run_order *run = &work->run;
    bool is_walked = run->is_walked && lane->counter;
    gs_confined_told walked = gs_told_of(run, lane->counter);
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
                             .is_followed = run->is_followed,
                             .blocks = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2],
                             .sms = confined ? gs_count_sms(confined->mask) : 0};
    return side->kind->launch(side->device, lane, &told, error);
}

/* ---- queues go on ---- */

static int64_t count_done(const struct queue *queue) {
    int64_t count = 0;
    for (const struct work *work = queue->flying.first; work && gs_lane_is_done(queue->lane, work->number);
         work = work->next)
        count++;
    return count;
}

/* Works that are found to be done all at once are taken to have shared the time: otherwise the first of them would have
   taken all of it, and the others none. */
static bool retire(gs_side *side, struct queue *queue) {
    int64_t count = count_done(queue);
    for (int64_t left = count; left > 0; left--) {
        struct work *work = shift(&queue->flying);
        const gs_run_order *run = &work->run;
        int64_t began = work->given_ns > queue->ended_ns ? work->given_ns : queue->ended_ns;
        int64_t ended = began + (side->now_ns - began) / left;
        gs_engine_event event = {.began_ns = (uint64_t)began,
                                 .ended_ns = (uint64_t)ended,
                                 .blocks_done = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2],
                                 .launches = work->order.kind == GS_ORDER_RUN};
        queue->flying_count--;
        queue->ended_ns = ended;
        gs_side_end_work(side, work, &event);
    }
    return count > 0;
}

/* Works of which the lane tells at once share the time, so they must be the same. */
static bool is_alike(const struct work *a, const struct work *b) {
    return b->order.kind == GS_ORDER_RUN && a->order.number == b->order.number && a->run.kernel == b->run.kernel &&
           a->run.is_walked == b->run.is_walked && memcmp(a->run.grid, b->run.grid, sizeof a->run.grid) == 0;
}

/* A launch that was to be followed is told of with the next one. If that is not of its kind, cannot be given to the
   device now, or does not come, work that does nothing takes its part. */
static void tell_of_last(gs_side *side, const struct queue *queue) {
    gs_error error;
    const struct work *next = queue->waiting.first, *last = queue->last_given;
    if (!queue->lane->is_untold || (!next && side->now_ns - last->given_ns < (int64_t)FOLLOWED * 1000))
        return;
    if (side->kind->fill(side->device, queue->lane, 0, 0, 0, &error) != GS_OK)
        gs_side_fail(side, &error);
}

/* Gives the first that waits to the device. False: it must wait. */
static bool give_next(gs_side *side, struct queue *queue) {
    struct work *work = queue->waiting.first;
    gs_error error = {.code = GS_OK};
    bool is_run = work->order.kind == GS_ORDER_RUN;
    if (!things_are_ready(work, &error) || queue->flying_count >= MOST_FLYING ||
        (is_run && work->run.is_confined && queue->flying.first))
        return false;
    if (queue->lane->is_untold && !is_alike(queue->last_given, work))
        tell_of_last(side, queue);
    shift(&queue->waiting);
    gs_code code = error.code;
    if (code == GS_OK && is_run)
        code = check_run(work, &error);
    if (code == GS_OK && is_run && work->run.is_confined) {
        gs_confined_begin(side, queue, work);
        return true;
    }
    work->given_ns = side->now_ns;
    if (code == GS_OK)
        code =
            is_run ? gs_side_launch(side, queue->lane, work, NULL, &error) : give_copy(side, queue->lane, work, &error);
    if (code != GS_OK) {
        gs_side_fail_work(side, work, &error);
        return true;
    }
    work->number = queue->lane->given;
    queue->last_given = work;
    append(&queue->flying, work);
    queue->flying_count++;
    return true;
}

static bool advance_queue(gs_side *side, struct queue *queue) {
    bool any = retire(side, queue);
    if (queue->confined)
        any = gs_confined_advance(side, queue) || any;
    while (queue->waiting.first && !queue->confined && give_next(side, queue))
        any = true;
    tell_of_last(side, queue);
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
        gs_side_give_lane_back(side, queue->lane);
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
        work->memories[i] = gs_side_hold(side, MEMORY, argument->memory);
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
    struct work *work =
        gs_side_need(side, malloc(sizeof *work + values + list + run.argument_count * sizeof(struct thing *)));
    *work = (struct work){.order = *order, .run = run};
    work->values = work->rest;
    work->arguments = (gs_run_argument *)(void *)(work->rest + values);
    work->memories = (struct thing **)(void *)(work->rest + values + list);
    if (bytes) {
        memcpy(work->arguments, rest, list);
        memcpy(work->values, rest + list, run.value_bytes);
        memset(work->memories, 0, run.argument_count * sizeof(struct thing *));
    }
    work->thing = gs_side_hold(side, order->kind == GS_ORDER_RUN ? MODULE : MEMORY, order->number);
    work->is_wrong = !work->thing;
    if (order->kind == GS_ORDER_COPY) {
        work->region = gs_side_hold(side, REGION, order->region);
        work->is_wrong = work->is_wrong || !work->region;
    }
    hold_arguments(side, work);
    return work;
}

static void obey(gs_side *side, const gs_order *order, const unsigned char *rest, uint32_t bytes) {
    uint32_t mask[GS_ENGINE_MASK_WORDS];
    switch (order->kind) {
    case GS_ORDER_ALLOCATE:
        gs_side_make_thing(side, MEMORY, order, -1, "");
        break;
    case GS_ORDER_FREE:
        gs_side_drop_thing(side, MEMORY, order->number);
        break;
    case GS_ORDER_SHARE:
        gs_side_make_thing(side, REGION, order, take_fd(), "");
        break;
    case GS_ORDER_UNSHARE:
        gs_side_drop_thing(side, REGION, order->number);
        break;
    case GS_ORDER_LOAD:
        gs_side_make_thing(side, MODULE, order, -1, bytes && !rest[bytes - 1] ? (const char *)rest : "");
        break;
    case GS_ORDER_UNLOAD:
        gs_side_drop_thing(side, MODULE, order->number);
        break;
    case GS_ORDER_CONFINE:
        if (bytes == sizeof mask) {
            memcpy(mask, rest, sizeof mask);
            gs_side_confine(side, order->tag, mask);
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
        gs_side_fail(side, &error);
}

static void loop(gs_side *side) {
    for (;;) {
        side->now_ns = gs_now_ns();
        bool any = take_orders(side);
        any = gs_side_finish_chores(side, &side->memories) || any;
        any = gs_side_finish_chores(side, &side->modules) || any;
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
        gs_side_fail(side, &error);
    side->memory->facts = side->facts;
    atomic_store(&side->memory->state, GS_DEVICE_READY);
    gs_bell_ring(GS_WIRE_DAEMON_BELL);
}

int gs_device_process(int argc, char **argv) {
    enum { PARENT = 1, DEVICE, SMS, BYTES, MARKS, WORDS };
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
    side->record = gs_side_need(side, malloc(GS_WIRE_LONGEST));
    side->spin_ns = gs_process_may_spin() ? (int64_t)SPIN * 1000 : 0;
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    open_device(side, &options);
    gs_side_start_helper(side, &side->memories);
    gs_side_start_helper(side, &side->modules);
    loop(side);
    return 0;
}
