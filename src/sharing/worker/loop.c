/*
 * loop.c: the worker process: takes requests from the daemon, gives operations to the device, and reports their ends.
 *
 * One thread loops: it takes requests, checks which operations are done, gives the next ones, and sleeps when there is
 * nothing to do. Three other threads do what may take long: allocating, mapping, loading (resources.c).
 *
 * A queue has waiting operations and operations in flight, which were given to its lane in order. Consecutive launches
 * may be reported in one batch, which costs the device less; the batch's time is divided among them, in proportion to
 * what they are expected to take. A confined launch is different: it has its own lanes (confined.c).
 */
#define _GNU_SOURCE
#include "loop.h"

#ifdef __GLIBC__
#    include <malloc.h>
#endif
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MOST_IN_FLIGHT = 128, /* operations on a lane: drivers block at about 1000 */
    CHECK_US = 1000,      /* between checks that the device still works */
    SPIN_US = 2000,       /* how long the loop spins after the last activity */
    NAP_US = 50,          /* between polls of a device that does not ring */
    DEFER_US = 20,        /* how long a deferred report waits for the next launch */
    TAKEN_AT_ONCE = 64,   /* requests */
    TRIM_AFTER = 10000    /* freed operations and jobs */
};

/* ---- queues ---- */

static void append_operation(struct operations *list, struct operation *operation) {
    operation->next = NULL;
    *list->last = operation;
    list->last = &operation->next;
}

static struct operation *shift_operation(struct operations *list) {
    struct operation *operation = list->first;
    list->first = operation->next;
    if (!list->first)
        list->last = &list->first;
    return operation;
}

static struct queue *find_queue(gs_worker_loop *loop, uint32_t number) {
    struct queue *queue = loop->queues;
    while (queue && queue->number != number)
        queue = queue->next;
    if (queue)
        return queue;
    queue = gs_loop_need(loop, calloc(1, sizeof *queue));
    queue->number = number;
    queue->lane = gs_lane_take(loop);
    queue->waiting.last = &queue->waiting.first;
    queue->in_flight.last = &queue->in_flight.first;
    queue->next = loop->queues;
    loop->queues = queue;
    return queue;
}

static int64_t count_done(const struct queue *queue) {
    const struct operation *operation = queue->in_flight.first;
    int64_t count = 0;
    for (; operation && gs_lane_is_done(queue->lane, operation->number); operation = operation->next)
        count++;
    return count;
}

static bool is_alike(const struct operation *a, const struct operation *b) {
    return a->launch && b->launch && a->request->handle == b->request->handle &&
           a->launch->kernel == b->launch->kernel && a->launch->form == b->launch->form &&
           memcmp(a->launch->grid, b->launch->grid, sizeof a->launch->grid) == 0;
}

static uint64_t weight_of(const struct operation *operation) {
    return operation->launch ? operation->launch->expected_ns + 1 : 1;
}

/* The sum of the weights of the first `count` operations in flight, and whether they are alike. */
static uint64_t weigh_done(const struct queue *queue, int64_t count, bool *are_alike) {
    const struct operation *first = queue->in_flight.first, *operation = first;
    uint64_t sum = 0;
    *are_alike = true;
    for (; count > 0; count--, operation = operation->next) {
        sum += weight_of(operation);
        *are_alike = *are_alike && is_alike(first, operation);
    }
    return sum;
}

/* Reports finished operations. If several are found done at once, the time is divided among them; otherwise the first
   would seem to have taken all of it, and the others none. */
static bool retire_done(gs_worker_loop *loop, struct queue *queue) {
    int64_t count = count_done(queue);
    bool are_alike;
    uint64_t left_weight = weigh_done(queue, count, &are_alike);
    for (int64_t left = count; left > 0; left--) {
        struct operation *operation = shift_operation(&queue->in_flight);
        int64_t began = gs_max(operation->given_ns, queue->ended_ns);
        double part = (double)weight_of(operation) / (double)left_weight;
        int64_t ended = left == 1 ? loop->now_ns : began + (int64_t)((double)(loop->now_ns - began) * part);
        gs_worker_report report = {.began_ns = (uint64_t)began,
                                   .ended_ns = (uint64_t)ended,
                                   .blocks_done = operation->launch ? gs_launch_blocks(operation->launch) : 0,
                                   .launches = operation->launch != NULL,
                                   .is_estimated = count > 1 && !are_alike};
        left_weight -= weight_of(operation);
        if (gs_lane_has_failed(queue->lane, operation->number)) {
            report.code = GS_E_IO;
            snprintf(report.message, sizeof report.message, "the shared host memory cannot be accessed");
        }
        queue->in_flight_count--;
        queue->ended_ns = ended;
        gs_operation_end(loop, operation, &report);
    }
    return count > 0;
}

/* A launch whose report was deferred is reported with the next launch. If the next operation is a copy or a fill,
   cannot be given now, or does not come, an empty operation takes its place. */
static void end_batch(gs_worker_loop *loop, const struct queue *queue) {
    gs_error error;
    const struct operation *next = queue->waiting.first, *last = queue->last_given;
    if (!queue->lane->is_unreported || (!next && loop->now_ns - last->given_ns < (int64_t)DEFER_US * 1000))
        return;
    if (loop->backend->fill(loop->device, queue->lane, 0, 0, 0, &error) != GS_OK)
        gs_loop_fail(loop, &error);
}

/* Gives the first waiting operation to the device. False: it must wait. */
static bool give_next(gs_worker_loop *loop, struct queue *queue) {
    struct operation *operation = queue->waiting.first;
    gs_error error = {.code = GS_OK};
    bool is_confined = operation->launch && operation->launch->form == GS_LAUNCH_CONFINED;
    if (!gs_operation_is_ready(operation, &error) || queue->in_flight_count >= MOST_IN_FLIGHT ||
        (is_confined && queue->in_flight.first))
        return false;
    if (!operation->launch)
        end_batch(loop, queue);
    shift_operation(&queue->waiting);
    gs_code code = error.code;
    if (code == GS_OK && operation->launch)
        code = gs_operation_check_launch(operation, &error);
    if (code == GS_OK && is_confined) {
        gs_confined_begin(loop, queue, operation);
        return true;
    }
    operation->given_ns = loop->now_ns;
    if (code == GS_OK)
        code = gs_operation_give(loop, queue->lane, operation, &error);
    if (code != GS_OK) {
        gs_operation_fail(loop, operation, &error);
        return true;
    }
    operation->number = queue->lane->given;
    queue->last_given = operation;
    append_operation(&queue->in_flight, operation);
    queue->in_flight_count++;
    return true;
}

static bool advance_queue(gs_worker_loop *loop, struct queue *queue) {
    bool any = retire_done(loop, queue);
    if (queue->confined)
        any = gs_confined_advance(loop, queue) || any;
    if (queue->confined && queue->waiting.first && gs_confined_follow(loop, queue, queue->waiting.first)) {
        shift_operation(&queue->waiting);
        any = true;
    }
    while (queue->waiting.first && !queue->confined && give_next(loop, queue))
        any = true;
    end_batch(loop, queue);
    return any;
}

/* Removes queues without operations; their lanes can be reused. */
static bool advance_queues(gs_worker_loop *loop) {
    bool any = false;
    for (struct queue **at = &loop->queues, *queue; (queue = *at);) {
        any = advance_queue(loop, queue) || any;
        if (queue->waiting.first || queue->in_flight.first || queue->confined) {
            at = &queue->next;
            continue;
        }
        *at = queue->next;
        gs_lane_give_back(loop, queue->lane);
        free(queue);
    }
    return any;
}

/* ---- requests ---- */

static int take_fd(void) {
    char byte;
    int fd;
    return gs_descriptors_receive(GS_WORKER_FD_SOCKET, &byte, 1, &fd, 1, MSG_DONTWAIT) == 1 ? fd : -1;
}

static void resize_confined(gs_worker_loop *loop, uint64_t tag, const unsigned char *rest, uint32_t bytes) {
    uint32_t mask[GS_WORKER_MASK_WORDS];
    if (bytes != sizeof mask)
        return;
    memcpy(mask, rest, sizeof mask);
    gs_confined_resize(loop, tag, mask);
}

/* Requests that make or drop a resource. */
static const struct resource_request {
    enum { NO_RESOURCE, MAKES, MAKES_OF_FILE, DROPS } what;
    enum resource_kind kind;
} resource_requests[] = {[GS_REQUEST_ALLOCATE] = {MAKES, MEMORY},      [GS_REQUEST_FREE] = {DROPS, MEMORY},
                         [GS_REQUEST_SHARE] = {MAKES_OF_FILE, REGION}, [GS_REQUEST_UNSHARE] = {DROPS, REGION},
                         [GS_REQUEST_LOAD] = {MAKES_OF_FILE, MODULE},  [GS_REQUEST_UNLOAD] = {DROPS, MODULE}};

/* `record` is aligned to 8 bytes. */
static void obey_record(gs_worker_loop *loop, const unsigned char *record, uint32_t bytes) {
    const gs_worker_request *request = (const gs_worker_request *)(const void *)record;
    struct resource_request known = {.what = NO_RESOURCE};
    if (request->kind < GS_COUNT(resource_requests))
        known = resource_requests[request->kind];
    if (known.what == DROPS)
        gs_loop_resource_drop(loop, known.kind, request->handle);
    else if (known.what != NO_RESOURCE)
        gs_loop_resource_make(loop, known.kind, request, known.what == MAKES_OF_FILE ? take_fd() : -1);
    else if (request->kind == GS_REQUEST_CONFINE)
        resize_confined(loop, request->tag, record + sizeof *request, bytes - (uint32_t)sizeof *request);
    else
        append_operation(&find_queue(loop, request->queue)->waiting, gs_operation_new(loop, record, bytes));
}

static bool take_requests(gs_worker_loop *loop) {
    uint32_t bytes = 0;
    int count = 0;
    for (; count < TAKEN_AT_ONCE; count++) {
        gs_ring_result result = gs_ring_take(&loop->requests, loop->record, GS_WORKER_LONGEST_REQUEST, &bytes);
        if (result == GS_RING_NOT_NOW)
            break;
        if (result != GS_RING_DONE || bytes < sizeof(gs_worker_request))
            gs_loop_give_up(loop, GS_E_IO, GS_NO_TAG, "the ring of requests is broken");
        obey_record(loop, loop->record, bytes);
    }
    return count > 0;
}

/* ---- the loop ---- */

/* How long the loop may sleep, in microseconds. 0: not at all; -1: until the bell rings. */
static int64_t sleep_us(const gs_worker_loop *loop) {
    bool is_busy = loop->queues != NULL;
    if (loop->now_ns - loop->active_ns < loop->spin_ns && (is_busy || !loop->backend->rings))
        return 0;
    return !is_busy ? -1 : loop->backend->rings ? CHECK_US : NAP_US;
}

static void sleep_for(gs_worker_loop *loop, int64_t us) {
    struct pollfd watched[] = {{.fd = GS_WORKER_FD_BELL, .events = POLLIN}, {.fd = GS_WORKER_FD_SOCKET}};
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    if (!gs_ring_sleep(&loop->requests))
        return;
    int ready = ppoll(watched, GS_COUNT(watched), us < 0 ? NULL : &time, NULL);
    if (ready > 0 && watched[1].revents & (POLLHUP | POLLERR))
        _exit(0); /* the daemon has ended */
    if (ready > 0)
        gs_bell_clear(GS_WORKER_FD_BELL);
    gs_ring_wake(&loop->requests);
}

/* The C library keeps freed memory between blocks in use, so it is trimmed. */
static void give_memory_back(gs_worker_loop *loop) {
    if (loop->queues || loop->jobs || loop->freed < TRIM_AFTER)
        return;
    loop->freed = 0;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static void check_device(gs_worker_loop *loop) {
    gs_error error;
    bool is_due = loop->queues && loop->now_ns - loop->checked_ns >= (int64_t)CHECK_US * 1000;
    if (!is_due && !loop->is_suspect)
        return;
    loop->checked_ns = loop->now_ns;
    loop->is_suspect = false;
    if (loop->backend->check(loop->device, &error) != GS_OK)
        gs_loop_fail(loop, &error);
}

__attribute__((noreturn)) static void run_loop(gs_worker_loop *loop) {
    for (;;) {
        loop->now_ns = gs_now_ns();
        atomic_fetch_add_explicit(&loop->shared->iterations, 1, memory_order_relaxed);
        bool any = take_requests(loop);
        any = gs_slow_thread_collect(loop, &loop->memory_thread) || any;
        any = gs_slow_thread_collect(loop, &loop->module_thread) || any;
        any = gs_slow_thread_collect(loop, &loop->release_thread) || any;
        any = advance_queues(loop) || any;
        if (loop->unsent)
            gs_loop_flush(loop);
        check_device(loop);
        if (any) {
            loop->active_ns = loop->now_ns;
            continue;
        }
        int64_t us = sleep_us(loop);
        if (us) {
            give_memory_back(loop);
            sleep_for(loop, us);
        }
    }
}

/* ---- the process ---- */

static bool map_shared(gs_worker_loop *loop) {
    void *memory = mmap(NULL, gs_worker_shared_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, GS_WORKER_FD_SHARED, 0);
    if (memory == MAP_FAILED)
        return false;
    loop->shared = memory;
    gs_ring_attach(&loop->requests, (char *)memory + gs_worker_requests_at(), GS_WORKER_RING_BYTES,
                   GS_WORKER_FD_DAEMON_BELL);
    gs_ring_attach(&loop->reports, (char *)memory + gs_worker_reports_at(), GS_WORKER_RING_BYTES,
                   GS_WORKER_FD_DAEMON_BELL);
    return true;
}

static void open_device(gs_worker_loop *loop, const gs_worker_options *options) {
    gs_error error = {.code = GS_OK};
    loop->backend = strncmp(options->device, "cuda", 4) == 0 ? &gs_backend_cuda : &gs_backend_host;
    loop->device = loop->backend->open(loop, options, &loop->facts, &error);
    if (!loop->device)
        gs_loop_fail(loop, &error);
    loop->shared->facts = loop->facts;
    atomic_store(&loop->shared->state, GS_WORKER_READY);
    gs_bell_ring(GS_WORKER_FD_DAEMON_BELL);
}

int gs_worker_process(int argc, char **argv) {
    enum { DEVICE = 1, SMS, BYTES, MARKS, WORDS };
    gs_worker_loop *loop = calloc(1, sizeof *loop);
    signal(SIGINT, SIG_IGN); /* a terminal signals the whole process group; the daemon decides when this process ends */
    signal(SIGTERM, SIG_IGN);
    if (argc != WORDS || !loop || !map_shared(loop)) {
        free(loop);
        return gs_code_exit(GS_E_USAGE);
    }
    gs_worker_options options = {.device = argv[DEVICE],
                                 .sms = atoi(argv[SMS]),
                                 .memory_bytes = strtoull(argv[BYTES], NULL, 10),
                                 .checks_counts = strcmp(argv[MARKS], "marks") == 0};
    loop->checks_counts = options.checks_counts;
    loop->unsent_last = &loop->unsent;
    loop->record = gs_loop_need(loop, malloc(GS_WORKER_LONGEST_REQUEST));
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    open_device(loop, &options);
    loop->spin_ns = gs_process_may_spin(gs_worker_threads(&loop->facts)) ? (int64_t)SPIN_US * 1000 : 0;
    gs_slow_thread_start(loop, &loop->memory_thread);
    gs_slow_thread_start(loop, &loop->module_thread);
    gs_slow_thread_start(loop, &loop->release_thread);
    run_loop(loop);
}
