/*
 * worker.c: the daemon's loop of the device process. See engine.h.
 *
 * An order goes straight into the ring. Where that is full, or a descriptor cannot be sent, it waits in the backlog,
 * and all later ones behind it: nobody blocks, and the order of orders stays. The descriptor that the daemon watches is
 * an epoll of two: the bell, and the socket, which hangs up when the process dies.
 */
#define _GNU_SOURCE
#include "worker_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* An order that has not been sent. */
struct waiting {
    struct waiting *next;
    int fd; /* to be sent before it, or -1 */
    uint32_t bytes;
    _Alignas(8) unsigned char record[];
};

struct run_slot {
    uint64_t tag;
    uint32_t slot;
};

struct gs_worker {
    char device[64], *program;
    gs_worker_options options;
    int watched; /* the epoll */
    pid_t process;
    int socket, my_bell, device_bell;
    gs_worker_shared *memory;
    gs_worker_facts facts;
    gs_ring orders, events;
    bool is_lost;      /* LOST was told, or there is no process */
    bool wants_socket; /* a descriptor waits until there is room */
    struct waiting *first, **last;
    size_t backlog;
    struct run_slot runs[GS_WORKER_RUNS]; /* confined ones, in no order */
    uint32_t run_count, free_slots[GS_WORKER_RUNS], free_count;
};

/* ---- the process ---- */

static void drop_backlog(gs_worker *engine) {
    for (struct waiting *at = engine->first, *next; at; at = next) {
        next = at->next;
        if (at->fd >= 0)
            close(at->fd);
        free(at);
    }
    engine->first = NULL;
    engine->last = &engine->first;
    engine->backlog = 0;
}

static void close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Kills the process, where there is one, and forgets all that belonged to it. Returns how it ended. */
static int end_process(gs_worker *engine) {
    int status = 0;
    if (engine->process > 0) {
        kill(engine->process, SIGKILL);
        while (waitpid(engine->process, &status, 0) < 0 && errno == EINTR)
            ;
    }
    engine->process = 0;
    if (engine->memory)
        munmap(engine->memory, gs_wire_bytes());
    engine->memory = NULL;
    close_fd(&engine->socket);
    close_fd(&engine->my_bell);
    close_fd(&engine->device_bell);
    drop_backlog(engine);
    engine->is_lost = true;
    engine->wants_socket = false;
    engine->run_count = 0;
    engine->free_count = GS_WORKER_RUNS;
    for (uint32_t i = 0; i < GS_WORKER_RUNS; i++)
        engine->free_slots[i] = i;
    return status;
}

static bool watch(gs_worker *engine, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(engine->watched, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Makes what both sides share. `theirs` gets the ends of the device process: memory, socket. */
static gs_code make_shared(gs_worker *engine, int theirs[2], gs_error *error) {
    int sockets[2] = {-1, -1};
    theirs[0] = memfd_create("gridsmith-device", MFD_CLOEXEC);
    engine->my_bell = gs_bell_new();
    engine->device_bell = gs_bell_new();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return gs_fail_system(error, "make", "a socket for the device process");
    engine->socket = sockets[0];
    theirs[1] = sockets[1];
    if (theirs[0] < 0 || engine->my_bell < 0 || engine->device_bell < 0 ||
        ftruncate(theirs[0], (off_t)gs_wire_bytes()) != 0)
        return gs_fail_system(error, "make", "memory for the device process");
    void *memory = mmap(NULL, gs_wire_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, theirs[0], 0);
    if (memory == MAP_FAILED)
        return gs_fail_memory(error);
    engine->memory = memory;
    gs_ring_attach(&engine->orders, (char *)memory + gs_wire_orders_at(), GS_WORKER_RING_BYTES, engine->device_bell);
    gs_ring_attach(&engine->events, (char *)memory + gs_wire_events_at(), GS_WORKER_RING_BYTES, engine->device_bell);
    if (!watch(engine, engine->my_bell) || !watch(engine, engine->socket))
        return gs_fail_system(error, "watch", "the device process");
    return GS_OK;
}

static gs_code start_process(gs_worker *engine, const int theirs[2], gs_error *error) {
    char sms[24], memory_bytes[24];
    snprintf(sms, sizeof sms, "%d", engine->options.sms);
    snprintf(memory_bytes, sizeof memory_bytes, "%llu", (unsigned long long)engine->options.memory_bytes);
    const char *words[] = {
        GS_DEVICE_PROCESS, engine->device, sms, memory_bytes, engine->options.checks_marks ? "marks" : "plain", NULL};
    gs_process_options process = {.program = engine->program,
                                  .words = words,
                                  .fds = {theirs[0], theirs[1], engine->device_bell, engine->my_bell},
                                  .fd_count = 4};
    return gs_process_start(&process, &engine->process, error);
}

static bool has_hung_up(const gs_worker *engine) {
    struct pollfd asked = {.fd = engine->socket, .events = 0};
    return poll(&asked, 1, 0) > 0;
}

/* Waits until the process says what it is. It rings the bell then, or hangs up. */
static gs_code wait_for_facts(gs_worker *engine, gs_error *error) {
    enum { MOST_SECONDS = 120 };
    int64_t until = gs_now_ns() + (int64_t)MOST_SECONDS * 1000000000;
    while (atomic_load(&engine->memory->state) == GS_DEVICE_STARTING && gs_now_ns() < until) {
        struct pollfd asked[] = {{.fd = engine->my_bell, .events = POLLIN}, {.fd = engine->socket}};
        if (poll(asked, 2, 1000) > 0 && asked[1].revents)
            break;
        gs_bell_clear(engine->my_bell);
    }
    if (atomic_load(&engine->memory->state) == GS_DEVICE_READY) {
        engine->facts = engine->memory->facts;
        engine->facts.process = engine->process;
        return GS_OK;
    }
    if (atomic_load(&engine->memory->is_noted) == 2)
        return gs_fail(error, engine->memory->code < GS_CODES ? (gs_code)engine->memory->code : GS_E_IO, "%.199s",
                       engine->memory->note);
    return gs_fail(error, GS_E_IO, "the device process %s",
                   has_hung_up(engine) ? "ended before it began" : "does not answer");
}

gs_code gs_worker_restart(gs_worker *engine, gs_error *error) {
    int theirs[2] = {-1, -1};
    end_process(engine);
    gs_code code = make_shared(engine, theirs, error);
    if (code == GS_OK)
        code = start_process(engine, theirs, error);
    close_fd(&theirs[0]);
    close_fd(&theirs[1]);
    if (code == GS_OK)
        code = wait_for_facts(engine, error);
    engine->is_lost = code != GS_OK;
    if (code != GS_OK)
        end_process(engine);
    return code;
}

gs_worker *gs_worker_open(const gs_worker_options *options, gs_error *error) {
    gs_worker *engine = calloc(1, sizeof *engine);
    if (!engine || strlen(options->device) >= sizeof engine->device) {
        free(engine);
        gs_fail(error, engine ? GS_E_USAGE : GS_E_MEMORY, "there is no device \"%.40s\"", options->device);
        return NULL;
    }
    engine->options = *options;
    engine->socket = engine->my_bell = engine->device_bell = -1;
    engine->last = &engine->first;
    engine->watched = epoll_create1(EPOLL_CLOEXEC);
    snprintf(engine->device, sizeof engine->device, "%s", options->device);
    engine->program = options->program ? strdup(options->program) : NULL;
    bool has_all = engine->watched >= 0 && (!options->program || engine->program);
    gs_code code = has_all ? gs_worker_restart(engine, error) : gs_fail_system(error, "start", "a device process");
    if (code == GS_OK)
        return engine;
    gs_worker_close(engine);
    return NULL;
}

void gs_worker_close(gs_worker *engine) {
    if (!engine)
        return;
    end_process(engine);
    close_fd(&engine->watched);
    free(engine->program);
    free(engine);
}

const gs_worker_facts *gs_worker_facts_of(const gs_worker *engine) {
    return &engine->facts;
}

int gs_worker_fd(const gs_worker *engine) {
    return engine->watched;
}

size_t gs_worker_backlog(const gs_worker *engine) {
    return engine->backlog;
}

/* ---- orders ---- */

/* Whether it went out. A process that is dying does not take it: LOST comes soon. A descriptor may go out without its
   order: then it is not sent again. */
static bool try_send(gs_worker *engine, int *fd, const void *record, uint32_t bytes) {
    if (*fd >= 0) {
        if (gs_descriptors_send(engine->socket, "", 1, fd, 1, MSG_DONTWAIT) != 1)
            return false;
        *fd = -1;
    }
    return gs_ring_put(&engine->orders, record, bytes) == GS_RING_DONE;
}

/* The socket is watched for room while a descriptor waits for it. */
static void want_socket(gs_worker *engine, bool wants) {
    struct epoll_event event = {.events = wants ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.fd = engine->socket};
    if (wants != engine->wants_socket)
        epoll_ctl(engine->watched, EPOLL_CTL_MOD, engine->socket, &event);
    engine->wants_socket = wants;
}

/* Sends what waits, as far as there is room; if not all, the bell or the socket will tell. */
static void flush_backlog(gs_worker *engine) {
    while (engine->first) {
        struct waiting *at = engine->first;
        int fd = at->fd;
        bool is_sent = try_send(engine, &fd, at->record, at->bytes);
        if (fd < 0)
            close_fd(&at->fd);
        want_socket(engine, fd >= 0);
        if (!is_sent && (fd >= 0 || gs_ring_wants_room(&engine->orders, at->bytes) != GS_RING_DONE))
            return;
        if (!is_sent)
            continue;
        engine->backlog -= at->bytes;
        engine->first = at->next;
        free(at);
    }
    engine->last = &engine->first;
}

static gs_code postpone(gs_worker *engine, int fd, const void *record, uint32_t bytes) {
    struct waiting *made = malloc(sizeof *made + bytes);
    if (!made)
        return GS_E_MEMORY;
    *made = (struct waiting){.fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1, .bytes = bytes};
    if (fd >= 0 && made->fd < 0) {
        free(made);
        return GS_E_MEMORY;
    }
    memcpy(made->record, record, bytes);
    *engine->last = made;
    engine->last = &made->next;
    engine->backlog += bytes;
    flush_backlog(engine);
    return GS_OK;
}

static gs_code give(gs_worker *engine, int fd, const void *record, uint32_t bytes) {
    if (engine->is_lost)
        return GS_OK; /* LOST was told; nothing happens until it is started again */
    if (engine->first)
        flush_backlog(engine);
    if (!engine->first && try_send(engine, &fd, record, bytes))
        return GS_OK;
    return postpone(engine, fd, record, bytes);
}

static gs_code give_order(gs_worker *engine, const gs_worker_request *order) {
    return give(engine, -1, order, sizeof *order);
}

gs_code gs_worker_allocate(gs_worker *engine, uint64_t tag, uint32_t memory, uint64_t bytes) {
    return give_order(engine,
                      &(gs_worker_request){.kind = GS_REQUEST_ALLOCATE, .number = memory, .tag = tag, .bytes = bytes});
}

void gs_worker_release(gs_worker *engine, uint32_t memory) {
    give_order(engine, &(gs_worker_request){.kind = GS_REQUEST_FREE, .number = memory});
}

gs_code gs_worker_share(gs_worker *engine, uint32_t region, int fd, uint64_t bytes) {
    gs_worker_request order = {.kind = GS_REQUEST_SHARE, .number = region, .bytes = bytes};
    return give(engine, fd, &order, sizeof order);
}

void gs_worker_unshare(gs_worker *engine, uint32_t region) {
    give_order(engine, &(gs_worker_request){.kind = GS_REQUEST_UNSHARE, .number = region});
}

gs_code gs_worker_copy(gs_worker *engine, uint64_t tag, uint32_t queue, bool in, uint32_t memory, uint64_t at,
                       uint32_t region, uint64_t region_at, uint64_t bytes) {
    return give_order(engine, &(gs_worker_request){.kind = GS_REQUEST_COPY,
                                                   .queue = queue,
                                                   .number = memory,
                                                   .region = region,
                                                   .is_in = in,
                                                   .tag = tag,
                                                   .at = at,
                                                   .region_at = region_at,
                                                   .bytes = bytes});
}

gs_code gs_worker_fill(gs_worker *engine, uint64_t tag, uint32_t queue, uint32_t memory, uint64_t at, uint64_t bytes,
                       uint8_t value) {
    return give_order(engine, &(gs_worker_request){.kind = GS_REQUEST_FILL,
                                                   .queue = queue,
                                                   .number = memory,
                                                   .value = value,
                                                   .tag = tag,
                                                   .at = at,
                                                   .bytes = bytes});
}

gs_code gs_worker_load(gs_worker *engine, uint64_t tag, uint32_t module, const gs_image *image) {
    struct {
        gs_worker_request order;
        char path[GS_IMAGE_PATH];
    } record = {.order = {.kind = GS_REQUEST_LOAD, .number = module, .tag = tag}};
    snprintf(record.path, sizeof record.path, "%s", image->path);
    return give(engine, -1, &record, (uint32_t)(sizeof record.order + strlen(record.path) + 1));
}

void gs_worker_unload(gs_worker *engine, uint32_t module) {
    give_order(engine, &(gs_worker_request){.kind = GS_REQUEST_UNLOAD, .number = module});
}

/* ---- runs ---- */

static uint32_t take_slot(gs_worker *engine, uint64_t tag) {
    if (!engine->free_count)
        return UINT32_MAX;
    uint32_t slot = engine->free_slots[--engine->free_count];
    engine->runs[engine->run_count++] = (struct run_slot){tag, slot};
    atomic_store(&engine->memory->progress[slot], 0);
    return slot;
}

static struct run_slot *find_run(const gs_worker *engine, uint64_t tag) {
    for (uint32_t i = 0; i < engine->run_count; i++)
        if (engine->runs[i].tag == tag)
            return (struct run_slot *)(uintptr_t)&engine->runs[i];
    return NULL;
}

static void give_slot_back(gs_worker *engine, uint64_t tag) {
    struct run_slot *run = find_run(engine, tag);
    if (!run)
        return;
    engine->free_slots[engine->free_count++] = run->slot;
    *run = engine->runs[--engine->run_count];
}

enum { RUN_HEAD = sizeof(gs_worker_request) + sizeof(gs_launch_request) };

/* The arguments stand behind the head, then their values, each at a multiple of 16. */
static gs_code put_arguments(unsigned char *record, const gs_worker_launch *run, uint32_t *bytes) {
    uint32_t values_at = RUN_HEAD + run->argument_count * (uint32_t)sizeof(gs_request_argument), used = 0;
    for (uint32_t i = 0; i < run->argument_count; i++) {
        const gs_worker_argument *given = &run->arguments[i];
        gs_request_argument argument = {.bytes = given->bytes, .memory = given->memory, .at = given->at};
        if (given->bytes) {
            if (given->bytes > GS_WORKER_ARGUMENT_BYTES - used)
                return GS_E_USAGE;
            argument.at = used;
            memcpy(record + values_at + used, given->value, given->bytes);
            used += (given->bytes + 15) / 16 * 16;
            used = used < GS_WORKER_ARGUMENT_BYTES ? used : GS_WORKER_ARGUMENT_BYTES;
        }
        memcpy(record + RUN_HEAD + i * sizeof argument, &argument, sizeof argument);
    }
    *bytes = used;
    return GS_OK;
}

gs_code gs_worker_start(gs_worker *engine, uint64_t tag, const gs_worker_launch *run) {
    enum { MOST = RUN_HEAD + GS_WORKER_ARGUMENTS * sizeof(gs_request_argument) + GS_WORKER_ARGUMENT_BYTES };
    unsigned char record[MOST];
    gs_worker_request order = {.kind = GS_REQUEST_RUN, .queue = run->queue, .number = run->module, .tag = tag};
    gs_launch_request more = {.kernel = run->kernel,
                              .is_confined = run->is_confined,
                              .is_block_loop = run->is_block_loop && !run->is_confined,
                              .defer_report = run->defer_report && !run->is_confined,
                              .grid = {run->grid[0], run->grid[1], run->grid[2]},
                              .block = {run->block[0], run->block[1], run->block[2]},
                              .task_blocks = run->task_blocks,
                              .slot = UINT32_MAX,
                              .argument_count = run->argument_count,
                              .shared_bytes = run->shared_bytes,
                              .first_block = run->first_block};
    if (run->argument_count > GS_WORKER_ARGUMENTS || put_arguments(record, run, &more.value_bytes) != GS_OK)
        return GS_E_USAGE;
    if (engine->is_lost)
        return GS_OK;
    if (run->is_confined) {
        more.slot = take_slot(engine, tag);
        memcpy(more.mask, run->mask, sizeof more.mask);
    }
    memcpy(record, &order, sizeof order);
    memcpy(record + sizeof order, &more, sizeof more);
    uint32_t bytes = RUN_HEAD + run->argument_count * (uint32_t)sizeof(gs_request_argument) + more.value_bytes;
    gs_code code = give(engine, -1, record, bytes);
    if (code != GS_OK && run->is_confined)
        give_slot_back(engine, tag);
    return code;
}

void gs_worker_confine(gs_worker *engine, uint64_t tag, const uint32_t *mask) {
    struct {
        gs_worker_request order;
        uint32_t mask[GS_WORKER_MASK_WORDS];
    } record = {.order = {.kind = GS_REQUEST_CONFINE, .tag = tag}};
    memcpy(record.mask, mask, sizeof record.mask);
    give(engine, -1, &record, sizeof record);
}

uint64_t gs_worker_progress(const gs_worker *engine, uint64_t tag) {
    const struct run_slot *run = find_run(engine, tag);
    return run && engine->memory ? atomic_load_explicit(&engine->memory->progress[run->slot], memory_order_relaxed) : 0;
}

/* ---- events ---- */

/* The process is dead or of no use: says so, once. */
static void tell_loss(gs_worker *engine, gs_worker_report *event) {
    const gs_worker_shared *memory = engine->memory;
    *event = (gs_worker_report){.happened = GS_REPORT_LOST, .code = GS_E_KERNEL, .tag = GS_NO_TAG};
    bool is_noted = atomic_load(&memory->is_noted) == 2;
    if (is_noted) {
        event->tag = memory->tag;
        event->code = memory->code < GS_CODES ? (gs_code)memory->code : GS_E_KERNEL;
        snprintf(event->message, sizeof event->message, "%.199s", memory->note);
    }
    char words[100];
    gs_process_say_end(end_process(engine), words, sizeof words);
    if (!is_noted)
        snprintf(event->message, sizeof event->message, "the device process is gone: %s", words);
}

/* An event without the part of its message that is empty. */
static bool take_event(gs_worker *engine, gs_worker_report *event) {
    uint32_t bytes = 0;
    *event = (gs_worker_report){0};
    gs_ring_result result = gs_ring_take(&engine->events, event, sizeof *event, &bytes);
    if (result == GS_RING_NOT_NOW)
        return false;
    event->message[sizeof event->message - 1] = '\0';
    if (result != GS_RING_DONE || bytes < offsetof(gs_worker_report, message) || event->code >= GS_CODES)
        tell_loss(engine, event);
    else if (event->happened == GS_REPORT_RAN)
        give_slot_back(engine, event->tag);
    return true;
}

bool gs_worker_peek(gs_worker *engine, gs_worker_report *event) {
    if (engine->is_lost)
        return false;
    if (engine->first)
        flush_backlog(engine);
    if (!gs_ring_has_some(&engine->events))
        return false;
    return take_event(engine, event);
}

/* What the process put there before it hung up is taken first. */
static bool poll_dead(gs_worker *engine, gs_worker_report *event) {
    if (!gs_worker_peek(engine, event))
        tell_loss(engine, event);
    return true;
}

bool gs_worker_poll(gs_worker *engine, gs_worker_report *event) {
    if (engine->is_lost)
        return false;
    while (!gs_worker_peek(engine, event)) {
        if (has_hung_up(engine))
            return poll_dead(engine, event);
        gs_bell_clear(engine->my_bell);
        if (gs_ring_sleep(&engine->events)) {
            flush_backlog(engine); /* the bell that was silenced may have rung for room */
            return false;
        }
    }
    return true;
}
