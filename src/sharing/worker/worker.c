/*
 * worker.c: the daemon's side of the worker. See worker.h.
 *
 * A request goes straight into the ring. If the ring is full, or a descriptor cannot be sent, it waits in the backlog,
 * and all later ones behind it: nothing blocks, and requests stay in order. The descriptor that the daemon watches is
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
#include <unistd.h>

/* An unsent request. */
struct unsent {
    struct unsent *next;
    int fd; /* to be sent before it, or -1 */
    uint32_t bytes;
    _Alignas(8) unsigned char record[];
};

/* The progress slot of a confined launch. */
struct confined_slot {
    uint64_t tag;
    uint32_t slot;
};

/* Unanswered requests of one kind. */
struct debt {
    uint32_t count;
    uint64_t since_ns; /* the last answer, or the first request after it; 0: not known yet */
};
enum debt_kind { DEBT_MEMORY, DEBT_MODULES, DEBT_WORK, DEBTS };

struct gs_worker {
    char device[64], *program;
    gs_worker_options options;
    int watched; /* the epoll */
    pid_t process;
    int socket, my_bell, worker_bell;
    gs_worker_shared *shared;
    gs_worker_facts facts;
    gs_ring requests, reports;
    bool is_lost;      /* LOST was reported, or there is no process */
    bool wants_socket; /* a descriptor waits for space */
    struct unsent *first, **last;
    size_t backlog;
    struct debt debts[DEBTS];
    uint64_t iterations, moved_ns;                     /* iterations of its loop, as last seen, and when that changed */
    struct confined_slot confined[GS_WORKER_CONFINED]; /* confined launches, in no order */
    uint32_t confined_count, free_slots[GS_WORKER_CONFINED], free_count;
};

/* ---- the process ---- */

static void drop_backlog(gs_worker *worker) {
    for (struct unsent *at = worker->first, *next; at; at = next) {
        next = at->next;
        gs_close_fd(&at->fd);
        free(at);
    }
    worker->first = NULL;
    worker->last = &worker->first;
    worker->backlog = 0;
}

/* Kills the process, if there is one, and discards its state. Returns how it ended. */
static int end_process(gs_worker *worker) {
    int status = 0;
    if (worker->process > 0)
        status = gs_process_kill(worker->process, false);
    worker->process = 0;
    if (worker->shared)
        munmap(worker->shared, gs_worker_shared_bytes());
    worker->shared = NULL;
    gs_close_fd(&worker->socket);
    gs_close_fd(&worker->my_bell);
    gs_close_fd(&worker->worker_bell);
    drop_backlog(worker);
    worker->is_lost = true;
    worker->wants_socket = false;
    memset(worker->debts, 0, sizeof worker->debts);
    worker->iterations = worker->moved_ns = 0;
    worker->confined_count = 0;
    worker->free_count = GS_WORKER_CONFINED;
    for (uint32_t i = 0; i < GS_WORKER_CONFINED; i++)
        worker->free_slots[i] = i;
    return status;
}

static bool watch_worker(gs_worker *worker, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(worker->watched, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Makes the shared memory and the socket. `theirs` gets the worker's ends: memory, socket. */
static gs_code make_shared(gs_worker *worker, int theirs[2], gs_error *error) {
    int sockets[2] = {-1, -1};
    theirs[0] = memfd_create("gridsmith-device", MFD_CLOEXEC);
    worker->my_bell = gs_bell_new();
    worker->worker_bell = gs_bell_new();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return gs_fail_system(error, "make", "a socket for the worker");
    worker->socket = sockets[0];
    theirs[1] = sockets[1];
    if (theirs[0] < 0 || worker->my_bell < 0 || worker->worker_bell < 0 ||
        ftruncate(theirs[0], (off_t)gs_worker_shared_bytes()) != 0)
        return gs_fail_system(error, "make", "memory for the worker");
    void *memory = mmap(NULL, gs_worker_shared_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, theirs[0], 0);
    if (memory == MAP_FAILED)
        return gs_fail_memory(error);
    worker->shared = memory;
    gs_ring_attach(&worker->requests, (char *)memory + gs_worker_requests_at(), GS_WORKER_RING_BYTES,
                   worker->worker_bell);
    gs_ring_attach(&worker->reports, (char *)memory + gs_worker_reports_at(), GS_WORKER_RING_BYTES,
                   worker->worker_bell);
    if (!watch_worker(worker, worker->my_bell) || !watch_worker(worker, worker->socket))
        return gs_fail_system(error, "watch", "the worker");
    return GS_OK;
}

static gs_code start_process(gs_worker *worker, const int theirs[2], gs_error *error) {
    char sms[24], memory_bytes[24];
    snprintf(sms, sizeof sms, "%d", worker->options.sms);
    snprintf(memory_bytes, sizeof memory_bytes, "%llu", (unsigned long long)worker->options.memory_bytes);
    const char *words[] = {"gridsmith", GS_WORKER_PROCESS, worker->device,
                           sms,         memory_bytes,      worker->options.checks_counts ? "marks" : "plain",
                           NULL};
    gs_process_options process = {.program = worker->program ? worker->program : gs_program_own(),
                                  .words = words,
                                  .fds = {theirs[0], theirs[1], worker->worker_bell, worker->my_bell},
                                  .fd_count = 4,
                                  .end_signal = SIGKILL};
    return gs_process_start(&process, &worker->process, error);
}

static bool has_hung_up(const gs_worker *worker) {
    struct pollfd watched = {.fd = worker->socket, .events = 0};
    return poll(&watched, 1, 0) > 0;
}

/* Waits until the process has published its facts and rings the bell, or hangs up. */
static gs_code wait_for_facts(gs_worker *worker, gs_error *error) {
    enum { MOST_SECONDS = 120 };
    int64_t until = gs_now_ns() + (int64_t)MOST_SECONDS * 1000000000;
    while (atomic_load(&worker->shared->state) == GS_WORKER_STARTING && gs_now_ns() < until) {
        struct pollfd watched[] = {{.fd = worker->my_bell, .events = POLLIN}, {.fd = worker->socket}};
        if (poll(watched, 2, 1000) > 0 && watched[1].revents)
            break;
        gs_bell_clear(worker->my_bell);
    }
    if (atomic_load(&worker->shared->state) == GS_WORKER_READY) {
        worker->facts = worker->shared->facts;
        worker->facts.process = worker->process;
        return GS_OK;
    }
    if (atomic_load(&worker->shared->note_state) == 2)
        return gs_fail(error, worker->shared->code < GS_CODES ? (gs_code)worker->shared->code : GS_E_IO, "%.199s",
                       worker->shared->note);
    return gs_fail(error, GS_E_IO, "the worker %s", has_hung_up(worker) ? "ended during its start" : "does not answer");
}

gs_code gs_worker_restart(gs_worker *worker, gs_error *error) {
    int theirs[2] = {-1, -1};
    end_process(worker);
    gs_code code = make_shared(worker, theirs, error);
    if (code == GS_OK)
        code = start_process(worker, theirs, error);
    gs_close_fd(&theirs[0]);
    gs_close_fd(&theirs[1]);
    if (code == GS_OK)
        code = wait_for_facts(worker, error);
    worker->is_lost = code != GS_OK;
    if (code != GS_OK)
        end_process(worker);
    return code;
}

gs_worker *gs_worker_open(const gs_worker_options *options, gs_error *error) {
    gs_worker *worker = calloc(1, sizeof *worker);
    if (!worker) {
        gs_fail_memory(error);
        return NULL;
    }
    bool is_device = strcmp(options->device, "host") == 0 || gs_cuda_is_device(options->device);
    if (!is_device || strlen(options->device) >= sizeof worker->device) {
        free(worker);
        gs_fail(error, GS_E_USAGE, "unknown device \"%.40s\": use host, cuda or cuda:N", options->device);
        return NULL;
    }
    worker->options = *options;
    worker->socket = worker->my_bell = worker->worker_bell = -1;
    worker->last = &worker->first;
    worker->watched = epoll_create1(EPOLL_CLOEXEC);
    snprintf(worker->device, sizeof worker->device, "%s", options->device);
    worker->program = options->program ? strdup(options->program) : NULL;
    bool has_all = worker->watched >= 0 && (!options->program || worker->program);
    gs_code code = has_all ? gs_worker_restart(worker, error) : gs_fail_system(error, "start", "a worker");
    if (code == GS_OK)
        return worker;
    gs_worker_close(worker);
    return NULL;
}

void gs_worker_close(gs_worker *worker) {
    if (!worker)
        return;
    end_process(worker);
    gs_close_fd(&worker->watched);
    free(worker->program);
    free(worker);
}

const gs_worker_facts *gs_worker_facts_of(const gs_worker *worker) {
    return &worker->facts;
}

int gs_worker_fd(const gs_worker *worker) {
    return worker->watched;
}

size_t gs_worker_backlog(const gs_worker *worker) {
    return worker->backlog;
}

/* ---- unanswered requests ---- */

/* Times are filled in when they are queried, so that a request does not read the clock. */
static void owe_reply(gs_worker *worker, uint32_t request) {
    static const enum debt_kind kinds[] = {
        [GS_REQUEST_ALLOCATE] = DEBT_MEMORY, [GS_REQUEST_FREE] = DEBTS,     [GS_REQUEST_SHARE] = DEBTS,
        [GS_REQUEST_UNSHARE] = DEBTS,        [GS_REQUEST_COPY] = DEBT_WORK, [GS_REQUEST_FILL] = DEBT_WORK,
        [GS_REQUEST_LOAD] = DEBT_MODULES,    [GS_REQUEST_UNLOAD] = DEBTS,   [GS_REQUEST_LAUNCH] = DEBT_WORK,
        [GS_REQUEST_CONFINE] = DEBTS};
    if (kinds[request] != DEBTS && !worker->debts[kinds[request]].count++)
        worker->debts[kinds[request]].since_ns = 0;
}

/* The end of a kernel also restarts the time of modules and memory: the driver may have waited for it. */
static void settle_report(gs_worker *worker, const gs_worker_report *report) {
    enum debt_kind kind = report->kind == GS_REPORT_ALLOCATED ? DEBT_MEMORY
                          : report->kind == GS_REPORT_LOADED  ? DEBT_MODULES
                          : report->kind == GS_REPORT_SHARED  ? DEBTS
                                                              : DEBT_WORK;
    if (kind == DEBTS)
        return;
    worker->debts[kind].count -= worker->debts[kind].count > 0;
    worker->debts[kind].since_ns = 0;
    if (report->kind == GS_REPORT_RAN)
        worker->debts[DEBT_MEMORY].since_ns = worker->debts[DEBT_MODULES].since_ns = 0;
}

uint64_t gs_worker_owes_ns(gs_worker *worker, uint64_t now_ns, bool *is_alive) {
    uint64_t most = 0,
             iterations = worker->shared ? atomic_load_explicit(&worker->shared->iterations, memory_order_relaxed) : 0;
    if (iterations != worker->iterations || !worker->moved_ns)
        worker->moved_ns = now_ns;
    worker->iterations = iterations;
    for (int i = 0; i < DEBTS; i++) {
        struct debt *debt = &worker->debts[i];
        if (!debt->since_ns)
            debt->since_ns = now_ns;
        if (debt->count)
            most = gs_max_u64(most, now_ns - debt->since_ns);
    }
    *is_alive = now_ns - worker->moved_ns <= most / 2;
    return most;
}

/* ---- requests ---- */

/* Whether the request was sent. A dying process does not take it: LOST is reported soon. A descriptor may have been
   sent without its request; it is not sent again then. */
static bool try_send(gs_worker *worker, int *fd, const void *record, uint32_t bytes) {
    if (*fd >= 0) {
        if (gs_descriptors_send(worker->socket, "", 1, fd, 1, MSG_DONTWAIT) != 1)
            return false;
        *fd = -1;
    }
    return gs_ring_put(&worker->requests, record, bytes) == GS_RING_DONE;
}

/* While a descriptor waits, the socket is watched for space. */
static void want_socket(gs_worker *worker, bool wants) {
    struct epoll_event event = {.events = wants ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.fd = worker->socket};
    if (wants != worker->wants_socket)
        epoll_ctl(worker->watched, EPOLL_CTL_MOD, worker->socket, &event);
    worker->wants_socket = wants;
}

/* Sends waiting requests while there is space. If some are left, the bell or the socket wakes the caller. */
static void flush_backlog(gs_worker *worker) {
    while (worker->first) {
        struct unsent *at = worker->first;
        int fd = at->fd;
        bool is_sent = try_send(worker, &fd, at->record, at->bytes);
        if (fd < 0)
            gs_close_fd(&at->fd);
        want_socket(worker, fd >= 0);
        if (!is_sent && (fd >= 0 || gs_ring_wants_space(&worker->requests, at->bytes) != GS_RING_DONE))
            return;
        if (!is_sent)
            continue;
        worker->backlog -= at->bytes;
        worker->first = at->next;
        free(at);
    }
    worker->last = &worker->first;
}

static gs_code postpone_record(gs_worker *worker, int fd, const void *record, uint32_t bytes) {
    struct unsent *made = malloc(sizeof *made + bytes);
    if (!made)
        return GS_E_MEMORY;
    *made = (struct unsent){.fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1, .bytes = bytes};
    if (fd >= 0 && made->fd < 0) {
        free(made);
        return GS_E_MEMORY;
    }
    memcpy(made->record, record, bytes);
    *worker->last = made;
    worker->last = &made->next;
    worker->backlog += bytes;
    flush_backlog(worker);
    return GS_OK;
}

static gs_code send_request(gs_worker *worker, int fd, const void *record, uint32_t bytes) {
    if (worker->is_lost)
        return GS_OK; /* LOST was reported; requests are ignored until a restart */
    if (worker->first)
        flush_backlog(worker);
    gs_code code =
        !worker->first && try_send(worker, &fd, record, bytes) ? GS_OK : postpone_record(worker, fd, record, bytes);
    if (code == GS_OK)
        owe_reply(worker, ((const gs_worker_request *)record)->kind);
    return code;
}

static gs_code send_plain(gs_worker *worker, const gs_worker_request *request) {
    return send_request(worker, -1, request, sizeof *request);
}

gs_code gs_worker_allocate(gs_worker *worker, uint64_t tag, uint32_t memory, uint64_t bytes) {
    return send_plain(worker,
                      &(gs_worker_request){.kind = GS_REQUEST_ALLOCATE, .handle = memory, .tag = tag, .bytes = bytes});
}

void gs_worker_release(gs_worker *worker, uint32_t memory) {
    send_plain(worker, &(gs_worker_request){.kind = GS_REQUEST_FREE, .handle = memory});
}

gs_code gs_worker_share(gs_worker *worker, uint32_t region, int fd, uint64_t bytes) {
    gs_worker_request request = {.kind = GS_REQUEST_SHARE, .handle = region, .bytes = bytes};
    return send_request(worker, fd, &request, sizeof request);
}

void gs_worker_unshare(gs_worker *worker, uint32_t region) {
    send_plain(worker, &(gs_worker_request){.kind = GS_REQUEST_UNSHARE, .handle = region});
}

gs_code gs_worker_copy(gs_worker *worker, uint64_t tag, uint32_t queue, bool in, uint32_t memory, uint64_t at,
                       uint32_t region, uint64_t region_at, uint64_t bytes) {
    return send_plain(worker, &(gs_worker_request){.kind = GS_REQUEST_COPY,
                                                   .queue = queue,
                                                   .handle = memory,
                                                   .region = region,
                                                   .is_in = in,
                                                   .tag = tag,
                                                   .at = at,
                                                   .region_at = region_at,
                                                   .bytes = bytes});
}

gs_code gs_worker_fill(gs_worker *worker, uint64_t tag, uint32_t queue, uint32_t memory, uint64_t at, uint64_t bytes,
                       uint8_t value) {
    return send_plain(worker, &(gs_worker_request){.kind = GS_REQUEST_FILL,
                                                   .queue = queue,
                                                   .handle = memory,
                                                   .value = value,
                                                   .tag = tag,
                                                   .at = at,
                                                   .bytes = bytes});
}

gs_code gs_worker_load(gs_worker *worker, uint64_t tag, uint32_t module, const gs_image *image) {
    gs_worker_request request = {.kind = GS_REQUEST_LOAD, .handle = module, .tag = tag};
    return send_request(worker, image->fd, &request, sizeof request);
}

void gs_worker_unload(gs_worker *worker, uint32_t module) {
    send_plain(worker, &(gs_worker_request){.kind = GS_REQUEST_UNLOAD, .handle = module});
}

/* ---- launches ---- */

static uint32_t take_slot(gs_worker *worker, uint64_t tag) {
    if (!worker->free_count)
        return UINT32_MAX;
    uint32_t slot = worker->free_slots[--worker->free_count];
    worker->confined[worker->confined_count++] = (struct confined_slot){tag, slot};
    atomic_store(&worker->shared->progress[slot], 0);
    return slot;
}

static struct confined_slot *find_confined(const gs_worker *worker, uint64_t tag) {
    for (uint32_t i = 0; i < worker->confined_count; i++)
        if (worker->confined[i].tag == tag)
            return (struct confined_slot *)(uintptr_t)&worker->confined[i];
    return NULL;
}

static void give_slot_back(gs_worker *worker, uint64_t tag) {
    struct confined_slot *confined = find_confined(worker, tag);
    if (!confined)
        return;
    worker->free_slots[worker->free_count++] = confined->slot;
    *confined = worker->confined[--worker->confined_count];
}

gs_code gs_worker_start(gs_worker *worker, uint64_t tag, gs_worker_launch *launch) {
    bool is_confined = launch->form == GS_LAUNCH_CONFINED;
    if (worker->is_lost)
        return GS_OK;
    launch->request.kind = GS_REQUEST_LAUNCH;
    launch->request.tag = tag;
    launch->slot = is_confined ? take_slot(worker, tag) : UINT32_MAX;
    uint32_t bytes = (uint32_t)offsetof(gs_worker_launch, arguments) + launch->argument_bytes;
    gs_code code = send_request(worker, -1, launch, bytes);
    if (code != GS_OK && is_confined)
        give_slot_back(worker, tag);
    return code;
}

void gs_worker_confine(gs_worker *worker, uint64_t tag, const uint32_t *mask) {
    struct {
        gs_worker_request request;
        uint32_t mask[GS_WORKER_MASK_WORDS];
    } record = {.request = {.kind = GS_REQUEST_CONFINE, .tag = tag}};
    memcpy(record.mask, mask, sizeof record.mask);
    send_request(worker, -1, &record, sizeof record);
}

uint64_t gs_worker_progress(const gs_worker *worker, uint64_t tag) {
    const struct confined_slot *confined = find_confined(worker, tag);
    return confined && worker->shared
               ? atomic_load_explicit(&worker->shared->progress[confined->slot], memory_order_relaxed)
               : 0;
}

uint64_t gs_worker_kernel_bytes(const gs_worker *worker) {
    return worker->shared ? atomic_load_explicit(&worker->shared->kernel_bytes, memory_order_relaxed) : 0;
}

/* ---- reports ---- */

/* The process is dead or useless: reports it, once. */
static void report_loss(gs_worker *worker, gs_worker_report *report) {
    const gs_worker_shared *shared = worker->shared;
    *report = (gs_worker_report){.kind = GS_REPORT_LOST, .code = GS_E_KERNEL, .tag = GS_NO_TAG};
    bool is_noted = atomic_load(&shared->note_state) == 2;
    if (is_noted) {
        report->tag = shared->tag;
        report->code = shared->code < GS_CODES ? (gs_code)shared->code : GS_E_KERNEL;
        snprintf(report->message, sizeof report->message, "%.199s", shared->note);
    }
    char words[100];
    gs_process_say_end(end_process(worker), words, sizeof words);
    if (!is_noted)
        snprintf(report->message, sizeof report->message, "the worker was lost: %s", words);
}

/* Reads a report; the unused part of its message is not sent. */
static bool take_report(gs_worker *worker, gs_worker_report *report) {
    uint32_t bytes = 0;
    *report = (gs_worker_report){0};
    gs_ring_result result = gs_ring_take(&worker->reports, report, sizeof *report, &bytes);
    if (result == GS_RING_NOT_NOW)
        return false;
    report->message[sizeof report->message - 1] = '\0';
    if (result != GS_RING_DONE || bytes < offsetof(gs_worker_report, message) || report->code >= GS_CODES)
        report_loss(worker, report);
    else
        settle_report(worker, report);
    if (report->kind == GS_REPORT_RAN)
        give_slot_back(worker, report->tag);
    return true;
}

bool gs_worker_peek(gs_worker *worker, gs_worker_report *report) {
    if (worker->is_lost)
        return false;
    if (worker->first)
        flush_backlog(worker);
    if (!gs_ring_has_some(&worker->reports))
        return false;
    return take_report(worker, report);
}

/* Reports from before the hangup are taken first. */
static bool poll_dead(gs_worker *worker, gs_worker_report *report) {
    if (!gs_worker_peek(worker, report))
        report_loss(worker, report);
    return true;
}

bool gs_worker_poll(gs_worker *worker, gs_worker_report *report) {
    if (worker->is_lost)
        return false;
    while (!gs_worker_peek(worker, report)) {
        if (has_hung_up(worker))
            return poll_dead(worker, report);
        gs_bell_clear(worker->my_bell);
        if (gs_ring_sleep(&worker->reports)) {
            flush_backlog(worker); /* the cleared bell may have rung for space */
            return false;
        }
    }
    return true;
}
