/*
 * loop.c: the device process: takes orders from the daemon, gives work to the device, tells what happened.
 *
 * One thread loops: it takes orders, looks at what is done, gives the next work, and sleeps when there is nothing to
 * do. Whatever may take long (memory, mapping, loading) is done by two other threads (engine_resources.c).
 *
 * A queue has works that wait and works that fly: those were given to its lane, one behind the other, and the device
 * does the rest. Of launches that follow each other the lane may tell at once, which costs it less; they share the
 * time then. A confined run is not like that: it has lanes of its own (engine_confined.c).
 */
#define _GNU_SOURCE
#include "loop.h"

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
    SPIN = 2000,        /* microseconds that the loop spins after the last resource that happened */
    NAP = 50,           /* microseconds that it sleeps between looks at a device that does not ring */
    FOLLOWED = 20       /* microseconds in which what follows a launch should come */
};

/* ---- telling ---- */

void gs_loop_ring(gs_worker_loop *loop) {
    (void)loop;
    gs_bell_ring(GS_WIRE_MY_BELL);
}

void gs_loop_give_up(gs_worker_loop *loop, gs_code code, uint64_t tag, const char *words) {
    gs_worker_shared *memory = loop->memory;
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
static uint64_t suspect(const gs_worker_loop *loop, const struct work *given) {
    uint64_t found = given && given->order.kind == GS_REQUEST_RUN ? given->order.tag : GS_NO_TAG;
    for (const struct queue *queue = loop->queues; queue; queue = queue->next) {
        const struct work *work = queue->confined ? queue->confined->work : queue->flying.first;
        if (!work || work->order.kind != GS_REQUEST_RUN || work == given)
            continue;
        if (found != GS_NO_TAG)
            return GS_NO_TAG;
        found = work->order.tag;
    }
    return found;
}

void gs_loop_fail(gs_worker_loop *loop, const gs_error *error) {
    gs_loop_give_up(loop, error->code, suspect(loop, NULL), error->message);
}

static bool try_tell(gs_worker_loop *loop, const gs_worker_report *event, uint32_t bytes) {
    gs_ring_result result = gs_ring_put(&loop->events, event, bytes);
    if (result == GS_RING_BROKEN)
        gs_loop_give_up(loop, GS_E_IO, GS_NO_TAG, "the ring of events is broken");
    return result == GS_RING_DONE;
}

static void report_unreported(gs_worker_loop *loop) {
    while (loop->unreported) {
        struct unreported *at = loop->unreported;
        if (!try_tell(loop, &at->event, at->bytes)) {
            if (gs_ring_wants_room(&loop->events, at->bytes) != GS_RING_DONE)
                return;
            continue;
        }
        loop->unreported = at->next;
        free(at);
    }
    loop->unreported_last = &loop->unreported;
}

static void tell(gs_worker_loop *loop, const gs_worker_report *event) {
    size_t length = strlen(event->message);
    uint32_t bytes = (uint32_t)(offsetof(gs_worker_report, message) + (length ? length + 1 : 0));
    loop->happened_ns = loop->now_ns;
    if (!loop->unreported && try_tell(loop, event, bytes))
        return;
    struct unreported *made = malloc(sizeof *made);
    if (!made)
        gs_loop_give_up(loop, GS_E_MEMORY, GS_NO_TAG, "the device process is out of memory");
    *made = (struct unreported){.bytes = bytes, .event = *event};
    *loop->unreported_last = made;
    loop->unreported_last = &made->next;
    report_unreported(loop);
}

void gs_loop_tell_error(gs_worker_loop *loop, uint32_t happened, uint64_t tag, const gs_error *error) {
    gs_worker_report event = {.happened = happened, .code = error->code, .tag = tag};
    if (error->code != GS_OK)
        snprintf(event.message, sizeof event.message, "%.199s", error->message);
    tell(loop, &event);
}

void *gs_loop_need(gs_worker_loop *loop, void *memory) {
    if (!memory)
        gs_loop_give_up(loop, GS_E_MEMORY, GS_NO_TAG, "the device process is out of memory");
    return memory;
}

/* ---- lanes and queues ---- */

gs_lane *gs_loop_take_lane(gs_worker_loop *loop) {
    gs_lane *lane = loop->lanes;
    if (lane)
        loop->lanes = lane->next;
    else
        lane = gs_loop_need(loop, loop->kind->lane_new(loop->device));
    return lane;
}

void gs_loop_give_lane_back(gs_worker_loop *loop, gs_lane *lane) {
    lane->next = loop->lanes;
    loop->lanes = lane;
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

static struct queue *find_queue(gs_worker_loop *loop, uint32_t number) {
    struct queue *queue = loop->queues;
    while (queue && queue->number != number)
        queue = queue->next;
    if (queue)
        return queue;
    queue = gs_loop_need(loop, calloc(1, sizeof *queue));
    queue->number = number;
    queue->lane = gs_loop_take_lane(loop);
    queue->waiting.last = &queue->waiting.first;
    queue->flying.last = &queue->flying.first;
    queue->next = loop->queues;
    loop->queues = queue;
    return queue;
}

/* ---- works ---- */

static void free_work(gs_worker_loop *loop, struct work *work) {
    gs_loop_let_go(loop, work->resource);
    gs_loop_let_go(loop, work->region);
    for (uint32_t i = 0; i < work->run.argument_count; i++)
        gs_loop_let_go(loop, work->memories[i]);
    free(work);
}

void gs_loop_end_work(gs_worker_loop *loop, struct work *work, gs_worker_report *event) {
    event->happened = work->order.kind == GS_REQUEST_RUN ? GS_REPORT_RAN : GS_REPORT_COPIED;
    event->tag = work->order.tag;
    tell(loop, event);
    free_work(loop, work);
}

/* It could not be given to the device. If that is the device's fault this process is of no use any more. */
void gs_loop_fail_work(gs_worker_loop *loop, struct work *work, const gs_error *error) {
    gs_error reason;
    gs_worker_report event = {
        .code = error->code, .began_ns = (uint64_t)loop->now_ns, .ended_ns = (uint64_t)loop->now_ns};
    if (loop->kind->check(loop->device, &reason) != GS_OK)
        gs_loop_give_up(loop, reason.code, suspect(loop, work), reason.message);
    snprintf(event.message, sizeof event.message, "%.199s", error->message);
    gs_loop_end_work(loop, work, &event);
}

/* Whether all that it names is there; `*error` where something never will be. */
static bool resources_are_ready(const struct work *work, gs_error *error) {
    const struct resource *resources[2] = {work->resource, work->region};
    bool is_coming = false, has_failed = work->is_wrong;
    for (int i = 0; i < 2; i++) {
        is_coming = is_coming || (resources[i] && resources[i]->state == COMING);
        has_failed = has_failed || (resources[i] && resources[i]->state == FAILED);
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

static gs_code give_copy(gs_worker_loop *loop, gs_lane *lane, const struct work *work, gs_error *error) {
    const gs_worker_request *order = &work->order;
    if (!is_inside(order->at, order->bytes, work->resource->bytes) ||
        (work->region && !is_inside(order->region_at, order->bytes, work->region->bytes)))
        return gs_fail(error, GS_E_USAGE, "a copy or fill outside of its memory");
    uint64_t address = work->resource->address + order->at;
    if (!work->region)
        return loop->kind->fill(loop->device, lane, address, (uint8_t)order->value, order->bytes, error);
    return loop->kind->copy(loop->device, lane, order->is_in, address, (char *)work->region->pointer + order->region_at,
                            order->bytes, error);
}

/* ---- runs ---- */

static gs_code check_run(const struct work *work, gs_error *error) {
    const gs_launch_request *run = &work->run;
    const gs_loaded *loaded = work->resource->loaded;
    uint64_t threads = (uint64_t)run->block[0] * run->block[1] * run->block[2];
    if (run->kernel >= loaded->kernel_count)
        return gs_fail(error, GS_E_USAGE, "the module has no kernel %u", run->kernel);
    const gs_loaded_kernel *kernel = &loaded->kernels[run->kernel];
    if ((run->is_confined || run->is_block_loop) && !kernel->can_be_confined)
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
gs_confined_parameter gs_told_of(const gs_launch_request *run, uint64_t next) {
    return (gs_confined_parameter){.grid_x = run->grid[0],
                                   .grid_y = run->grid[1],
                                   .grid_z = run->grid[2],
                                   .task_blocks = run->task_blocks ? run->task_blocks : 10,
                                   .next = next};
}

uint32_t gs_count_sms(const uint32_t *mask) {
    uint32_t count = 0;
    for (int i = 0; i < GS_WORKER_MASK_WORDS; i++)
        count += (uint32_t)__builtin_popcount(mask[i]);
    return count;
}

/* Launches it on a lane, whole, walked or confined. */
gs_code gs_loop_launch(gs_worker_loop *loop, gs_lane *lane, struct work *work, struct confined *confined,
                       gs_error *error) {
    void *arguments[GS_WORKER_ARGUMENTS + 1];
    uint64_t addresses[GS_WORKER_ARGUMENTS];
    const gs_launch_request *run = &work->run;
    bool is_block_loop = run->is_block_loop && lane->counter;
    gs_confined_parameter walked = gs_told_of(run, lane->counter);
    for (uint32_t i = 0; i < run->argument_count; i++) {
        if (work->memories[i])
            addresses[i] = work->memories[i]->address + work->arguments[i].at;
        arguments[i] = work->memories[i] ? (void *)&addresses[i] : work->values + work->arguments[i].at;
    }
    if (confined || is_block_loop)
        arguments[run->argument_count] = confined ? &confined->told : &walked;
    gs_device_launch told = {.kernel = &work->resource->loaded->kernels[run->kernel],
                             .tag = work->order.tag,
                             .grid = {run->grid[0], run->grid[1], run->grid[2]},
                             .block = {run->block[0], run->block[1], run->block[2]},
                             .shared_bytes = run->shared_bytes,
                             .arguments = arguments,
                             .control = confined ? confined->control : NULL,
                             .is_block_loop = is_block_loop,
                             .defer_report = run->defer_report,
                             .blocks = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2],
                             .sms = confined ? gs_count_sms(confined->mask) : 0};
    return loop->kind->launch(loop->device, lane, &told, error);
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
static bool retire(gs_worker_loop *loop, struct queue *queue) {
    int64_t count = count_done(queue);
    for (int64_t left = count; left > 0; left--) {
        struct work *work = shift(&queue->flying);
        const gs_launch_request *run = &work->run;
        int64_t began = work->given_ns > queue->ended_ns ? work->given_ns : queue->ended_ns;
        int64_t ended = began + (loop->now_ns - began) / left;
        gs_worker_report event = {.began_ns = (uint64_t)began,
                                  .ended_ns = (uint64_t)ended,
                                  .blocks_done = (uint64_t)run->grid[0] * run->grid[1] * run->grid[2],
                                  .launches = work->order.kind == GS_REQUEST_RUN};
        queue->flying_count--;
        queue->ended_ns = ended;
        gs_loop_end_work(loop, work, &event);
    }
    return count > 0;
}

/* Works of which the lane tells at once share the time, so they must be the same. */
static bool is_alike(const struct work *a, const struct work *b) {
    return b->order.kind == GS_REQUEST_RUN && a->order.number == b->order.number && a->run.kernel == b->run.kernel &&
           a->run.is_block_loop == b->run.is_block_loop && memcmp(a->run.grid, b->run.grid, sizeof a->run.grid) == 0;
}

/* A launch that was to be followed is told of with the next one. If that is not of its kind, cannot be given to the
   device now, or does not come, work that does nothing takes its part. */
static void tell_of_last(gs_worker_loop *loop, const struct queue *queue) {
    gs_error error;
    const struct work *next = queue->waiting.first, *last = queue->last_given;
    if (!queue->lane->is_unreported || (!next && loop->now_ns - last->given_ns < (int64_t)FOLLOWED * 1000))
        return;
    if (loop->kind->fill(loop->device, queue->lane, 0, 0, 0, &error) != GS_OK)
        gs_loop_fail(loop, &error);
}

/* Gives the first that waits to the device. False: it must wait. */
static bool give_next(gs_worker_loop *loop, struct queue *queue) {
    struct work *work = queue->waiting.first;
    gs_error error = {.code = GS_OK};
    bool is_run = work->order.kind == GS_REQUEST_RUN;
    if (!resources_are_ready(work, &error) || queue->flying_count >= MOST_FLYING ||
        (is_run && work->run.is_confined && queue->flying.first))
        return false;
    if (queue->lane->is_unreported && !is_alike(queue->last_given, work))
        tell_of_last(loop, queue);
    shift(&queue->waiting);
    gs_code code = error.code;
    if (code == GS_OK && is_run)
        code = check_run(work, &error);
    if (code == GS_OK && is_run && work->run.is_confined) {
        gs_confined_begin(loop, queue, work);
        return true;
    }
    work->given_ns = loop->now_ns;
    if (code == GS_OK)
        code =
            is_run ? gs_loop_launch(loop, queue->lane, work, NULL, &error) : give_copy(loop, queue->lane, work, &error);
    if (code != GS_OK) {
        gs_loop_fail_work(loop, work, &error);
        return true;
    }
    work->number = queue->lane->given;
    queue->last_given = work;
    append(&queue->flying, work);
    queue->flying_count++;
    return true;
}

static bool advance_queue(gs_worker_loop *loop, struct queue *queue) {
    bool any = retire(loop, queue);
    if (queue->confined)
        any = gs_confined_advance(loop, queue) || any;
    while (queue->waiting.first && !queue->confined && give_next(loop, queue))
        any = true;
    tell_of_last(loop, queue);
    return any;
}

/* Queues without work go, and leave their lane to others. */
static bool advance_queues(gs_worker_loop *loop) {
    bool any = false;
    for (struct queue **at = &loop->queues, *queue; (queue = *at);) {
        any = advance_queue(loop, queue) || any;
        if (queue->waiting.first || queue->flying.first || queue->confined) {
            at = &queue->next;
            continue;
        }
        *at = queue->next;
        gs_loop_give_lane_back(loop, queue->lane);
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

static void hold_arguments(gs_worker_loop *loop, struct work *work) {
    for (uint32_t i = 0; i < work->run.argument_count; i++) {
        const gs_request_argument *argument = &work->arguments[i];
        if (argument->bytes) {
            if (!is_inside(argument->at, argument->bytes, work->run.value_bytes))
                work->is_wrong = true;
            continue;
        }
        work->memories[i] = gs_loop_hold(loop, MEMORY, argument->memory);
        work->is_wrong = work->is_wrong || !work->memories[i];
    }
}

/* A work of a queue; `rest` is what follows the order. */
static struct work *make_work(gs_worker_loop *loop, const gs_worker_request *order, const unsigned char *rest,
                              uint32_t bytes) {
    gs_launch_request run = {0};
    if (order->kind == GS_REQUEST_RUN) {
        if (bytes >= sizeof run)
            memcpy(&run, rest, sizeof run);
        if (bytes < sizeof run || run.argument_count > GS_WORKER_ARGUMENTS ||
            bytes != sizeof run + run.argument_count * sizeof(gs_request_argument) + run.value_bytes)
            gs_loop_give_up(loop, GS_E_IO, GS_NO_TAG, "an order does not make sense");
        rest += sizeof run;
        bytes -= (uint32_t)sizeof run;
    } else {
        bytes = 0;
    }
    /* the values first, which must be at multiples of 16 */
    uint32_t values = (run.value_bytes + 15) / 16 * 16,
             list = run.argument_count * (uint32_t)sizeof(gs_request_argument);
    struct work *work =
        gs_loop_need(loop, malloc(sizeof *work + values + list + run.argument_count * sizeof(struct resource *)));
    *work = (struct work){.order = *order, .run = run};
    work->values = work->rest;
    work->arguments = (gs_request_argument *)(void *)(work->rest + values);
    work->memories = (struct resource **)(void *)(work->rest + values + list);
    if (bytes) {
        memcpy(work->arguments, rest, list);
        memcpy(work->values, rest + list, run.value_bytes);
        memset(work->memories, 0, run.argument_count * sizeof(struct resource *));
    }
    work->resource = gs_loop_hold(loop, order->kind == GS_REQUEST_RUN ? MODULE : MEMORY, order->number);
    work->is_wrong = !work->resource;
    if (order->kind == GS_REQUEST_COPY) {
        work->region = gs_loop_hold(loop, REGION, order->region);
        work->is_wrong = work->is_wrong || !work->region;
    }
    hold_arguments(loop, work);
    return work;
}

static void obey(gs_worker_loop *loop, const gs_worker_request *order, const unsigned char *rest, uint32_t bytes) {
    uint32_t mask[GS_WORKER_MASK_WORDS];
    switch (order->kind) {
    case GS_REQUEST_ALLOCATE:
        gs_loop_make_resource(loop, MEMORY, order, -1, "");
        break;
    case GS_REQUEST_FREE:
        gs_loop_drop_resource(loop, MEMORY, order->number);
        break;
    case GS_REQUEST_SHARE:
        gs_loop_make_resource(loop, REGION, order, take_fd(), "");
        break;
    case GS_REQUEST_UNSHARE:
        gs_loop_drop_resource(loop, REGION, order->number);
        break;
    case GS_REQUEST_LOAD:
        gs_loop_make_resource(loop, MODULE, order, -1, bytes && !rest[bytes - 1] ? (const char *)rest : "");
        break;
    case GS_REQUEST_UNLOAD:
        gs_loop_drop_resource(loop, MODULE, order->number);
        break;
    case GS_REQUEST_CONFINE:
        if (bytes == sizeof mask) {
            memcpy(mask, rest, sizeof mask);
            gs_loop_confine(loop, order->tag, mask);
        }
        break;
    default: {
        struct queue *queue = find_queue(loop, order->queue);
        append(&queue->waiting, make_work(loop, order, rest, bytes));
        break;
    }
    }
}

static bool take_orders(gs_worker_loop *loop) {
    enum { AT_A_TIME = 64 };
    gs_worker_request order;
    uint32_t bytes = 0;
    int count = 0;
    for (; count < AT_A_TIME; count++) {
        gs_ring_result result = gs_ring_take(&loop->orders, loop->record, GS_WIRE_LONGEST, &bytes);
        if (result == GS_RING_NOT_NOW)
            break;
        if (result != GS_RING_DONE || bytes < sizeof order)
            gs_loop_give_up(loop, GS_E_IO, GS_NO_TAG, "the ring of orders is broken");
        memcpy(&order, loop->record, sizeof order);
        obey(loop, &order, loop->record + sizeof order, bytes - (uint32_t)sizeof order);
    }
    return count > 0;
}

/* ---- the loop ---- */

/* How long it may sleep: 0: not at all; -1: until the bell rings. */
static int64_t sleep_us(const gs_worker_loop *loop) {
    bool is_busy = loop->queues != NULL;
    if (loop->now_ns - loop->happened_ns < loop->spin_ns && (is_busy || !loop->kind->rings))
        return 0;
    return !is_busy ? -1 : loop->kind->rings ? CHECK_EVERY : NAP;
}

static void sleep_for(gs_worker_loop *loop, int64_t us) {
    struct pollfd asked[] = {{.fd = GS_WIRE_MY_BELL, .events = POLLIN}, {.fd = GS_WIRE_SOCKET}};
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    if (!gs_ring_sleep(&loop->orders))
        return;
    int ready = ppoll(asked, GS_COUNT(asked), us < 0 ? NULL : &time, NULL);
    if (ready > 0 && asked[1].revents & (POLLHUP | POLLERR))
        _exit(0); /* the daemon is gone */
    if (ready > 0)
        gs_bell_clear(GS_WIRE_MY_BELL);
    gs_ring_wake(&loop->orders);
}

static void check_device(gs_worker_loop *loop) {
    gs_error error;
    if (loop->now_ns - loop->checked_ns < (int64_t)CHECK_EVERY * 1000 || !loop->queues)
        return;
    loop->checked_ns = loop->now_ns;
    if (loop->kind->check(loop->device, &error) != GS_OK)
        gs_loop_fail(loop, &error);
}

static void run_loop(gs_worker_loop *loop) {
    for (;;) {
        loop->now_ns = gs_now_ns();
        bool any = take_orders(loop);
        any = gs_loop_finish_chores(loop, &loop->memories) || any;
        any = gs_loop_finish_chores(loop, &loop->modules) || any;
        any = advance_queues(loop) || any;
        if (loop->unreported)
            report_unreported(loop);
        check_device(loop);
        if (any) {
            loop->happened_ns = loop->now_ns;
            continue;
        }
        int64_t us = sleep_us(loop);
        if (us)
            sleep_for(loop, us);
    }
}

/* ---- the process ---- */

static gs_code map_memory(gs_worker_loop *loop, gs_error *error) {
    void *memory = mmap(NULL, gs_wire_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, GS_WIRE_MEMORY, 0);
    if (memory == MAP_FAILED)
        return gs_fail(error, GS_E_USAGE, "%s is for the daemon, not for people", GS_DEVICE_PROCESS);
    loop->memory = memory;
    gs_ring_attach(&loop->orders, (char *)memory + gs_wire_orders_at(), GS_WORKER_RING_BYTES, GS_WIRE_DAEMON_BELL);
    gs_ring_attach(&loop->events, (char *)memory + gs_wire_events_at(), GS_WORKER_RING_BYTES, GS_WIRE_DAEMON_BELL);
    return GS_OK;
}

static void open_device(gs_worker_loop *loop, const gs_worker_options *options) {
    gs_error error = {.code = GS_OK};
    loop->kind = strncmp(options->device, "cuda", 4) == 0 ? &gs_device_kind_cuda : &gs_device_kind_host;
    loop->device = loop->kind->open(loop, options, &loop->facts, &error);
    if (!loop->device)
        gs_loop_fail(loop, &error);
    loop->memory->facts = loop->facts;
    atomic_store(&loop->memory->state, GS_DEVICE_READY);
    gs_bell_ring(GS_WIRE_DAEMON_BELL);
}

int gs_device_process(int argc, char **argv) {
    enum { PARENT = 1, DEVICE, SMS, BYTES, MARKS, WORDS };
    gs_error error;
    gs_worker_loop *loop = calloc(1, sizeof *loop);
    signal(SIGINT, SIG_IGN); /* a terminal tells the whole group: the daemon decides when it is over */
    signal(SIGTERM, SIG_IGN);
    if (argc != WORDS || !gs_process_follow(argv[PARENT], SIGKILL) || !loop || map_memory(loop, &error) != GS_OK) {
        free(loop);
        return gs_code_exit(GS_E_USAGE);
    }
    gs_worker_options options = {.device = argv[DEVICE],
                                 .sms = atoi(argv[SMS]),
                                 .memory_bytes = strtoull(argv[BYTES], NULL, 10),
                                 .checks_marks = strcmp(argv[MARKS], "marks") == 0};
    loop->checks_marks = options.checks_marks;
    loop->unreported_last = &loop->unreported;
    loop->record = gs_loop_need(loop, malloc(GS_WIRE_LONGEST));
    loop->spin_ns = gs_process_may_spin() ? (int64_t)SPIN * 1000 : 0;
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    open_device(loop, &options);
    gs_loop_start_helper(loop, &loop->memories);
    gs_loop_start_helper(loop, &loop->modules);
    run_loop(loop);
    return 0;
}
