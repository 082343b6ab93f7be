/*
 * gate_link.c: a program's connection to the daemon.
 *
 * It is made when the program starts CUDA, and kept until the process ends: its end tells the daemon that the process
 * has ended. A thread watches it. In best-effort programs the thread also clears flags of requests that hold others for
 * too long, because their process may be stopped, and flags of no program. It never stops to look at flags: streams may
 * still have waits when the last latency program has ended. In latency programs it checks whether work is done for
 * which the host does not wait. A child of fork() has neither thread nor connection, and makes its own if it starts
 * CUDA.
 */
#define _GNU_SOURCE
#include "gate.h"

#include "gate_hold.h"
#include "sharing/client/client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MS = 5000,   /* timeout of the daemon's answer */
    FILES = 3,          /* that come with it */
    LOOK_NS = 20000000, /* how often flags are checked */
    AFTER_END = 100,    /* how many times flags are cleared after the daemon has ended */
    AFTER_END_MS = 100
};

gs_gate_link gs_gate_state;
static _Atomic bool is_linked;
static int link_socket = -1, wake_event = -1;
static bool was_tried;
static int64_t (*look_at_work)(void);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void gs_gate_say(const char *format, ...) {
    char line[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "gridsmith run: %s\n", line);
}

uint64_t gs_gate_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool gs_gate_is_linked(void) {
    return atomic_load(&is_linked);
}

bool gs_gate_is_sliced(void) {
    return !gs_gate_state.has_mps || atomic_load_explicit(&gs_gate_state.notice->sliced, memory_order_relaxed);
}

/* ---- the environment ---- */

/* What `gridsmith run` also checks; a container can be given these variables without it. */
static uint64_t number_of(const char *variable, uint64_t least, uint64_t most, uint64_t otherwise) {
    const char *text = getenv(variable);
    char *end = NULL;
    if (!text || !text[0])
        return otherwise;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (strspn(text, "0123456789") == strlen(text) && !errno && value >= least && value <= most)
        return value;
    gs_gate_say("%s is \"%.40s\", not a number from %llu to %llu: it is ignored", variable, text,
                (unsigned long long)least, (unsigned long long)most);
    return otherwise;
}

/* Whether MPS serves programs that are started with this environment. */
static bool finds_mps(void) {
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[1024];
    snprintf(path, sizeof path, "%s/control", folder && folder[0] ? folder : "/tmp/nvidia-mps");
    return access(path, F_OK) == 0;
}

void gs_gate_link_configure(void) {
    enum { MOST_US = 1000000 };
    const char *class = getenv("GRIDSMITH_CLASS");
    if (class && strcmp(class, "latency") == 0)
        gs_gate_state.class = GS_GATE_LATENCY;
    else if (class && strcmp(class, "best-effort") == 0)
        gs_gate_state.class = GS_GATE_BEST_EFFORT;
    else if (class && class[0])
        gs_gate_say("GRIDSMITH_CLASS is \"%.40s\", not latency or best-effort: running without a class", class);
    gs_gate_state.weight = (uint32_t)number_of("GRIDSMITH_WEIGHT", 1, 1000, GS_GATE_WEIGHT);
    gs_gate_state.most_percent = (uint32_t)number_of("GRIDSMITH_MOST", 1, 100, 0);
    gs_gate_state.deadline_us = (uint32_t)number_of("GRIDSMITH_DEADLINE_US", 1, 3600000000u, 0);
    gs_gate_state.memory_limit = number_of("GRIDSMITH_MEMORY", 1 << 20, INT64_MAX, 0);
    gs_gate_state.hold_ns = number_of("GRIDSMITH_HOLD_MS", 1, 10000, 0) * 1000000;
    gs_gate_state.slice_us = number_of("GRIDSMITH_SLICE_US", 1, MOST_US, 0);
    gs_gate_state.command = number_of("GRIDSMITH_COMMAND", 1, UINT64_MAX, 0);
    gs_gate_state.has_mps = finds_mps();
    gs_gate_state.has_guards =
        number_of("GRIDSMITH_GUARD", 0, 1, gs_gate_state.has_mps) && gs_gate_state.class == GS_GATE_BEST_EFFORT;
    gs_gate_state.has_keepers = number_of("GRIDSMITH_KEEPERS", 0, 1, 1) && !gs_gate_state.has_mps;
    gs_gate_state.ahead_ns = (int64_t)number_of("GRIDSMITH_AHEAD_US", 1, MOST_US, 50) * 1000;
}

/* ---- the board ---- */

/* The daemon has ended: this program sets no flag and does not wait any more. Others may not know it yet, so flags are
   cleared for a while. */
static void open_for_all(gs_board *board) {
    atomic_store(&is_linked, false);
    for (int i = 0; i < AFTER_END; i++) {
        atomic_store(&board->flags, 0);
        poll(NULL, 0, AFTER_END_MS);
    }
}

/* Clears flags that have expired. The flags are read first: a program sets its flag only when its slot is its own. */
static void expire_marks(gs_board *board, const gs_notice *notice) {
    static gs_gate_holds holds; /* used only by the watching thread */
    gs_hold_look look = {.flags = atomic_load(&board->flags), .now_ns = gs_gate_now_ns()};
    look.slots = atomic_load(&notice->slots);
    for (uint32_t i = 0; i < GS_BOARD_SLOTS; i++) {
        look.since_ns[i] = atomic_load(&board->slots[i].since_ns);
        look.hold_ns[i] = atomic_load(&board->slots[i].hold_ns);
        look.most_ns[i] = atomic_load(&notice->hold_ns[i]);
    }
    uint32_t expired = gs_holds_expire(&holds, &look);
    if (expired)
        gs_board_lower(board, expired);
}

/* Whether there is a latency program that this best-effort program waits for. */
static bool gives_way(void) {
    return gs_gate_state.class == GS_GATE_BEST_EFFORT &&
           atomic_load_explicit(&gs_gate_state.notice->latency, memory_order_relaxed);
}

/* Short slices of a best-effort program help only latency programs; several programs with short slices hinder each
   other. */
static bool wants_slice(void) {
    const gs_notice *notice = gs_gate_state.notice;
    return gs_gate_state.class == GS_GATE_LATENCY ||
           (gives_way() && atomic_load_explicit(&notice->best_effort, memory_order_relaxed) == 1);
}

/* Does what is due, and returns after how many ns to call it again. It never stops: a program that needs it may connect
   later. */
static int64_t look_at_board(void) {
    enum { IDLE_NS = 1000000000 };
    bool has_neighbors = atomic_load_explicit(&gs_gate_state.notice->best_effort, memory_order_relaxed);
    if (gs_gate_state.class == GS_GATE_BEST_EFFORT)
        expire_marks(gs_gate_state.board, gs_gate_state.notice);
    uint64_t slice_us = gs_gate_slice_set(wants_slice() ? gs_gate_state.slice_us : 0);
    atomic_store_explicit(&gs_gate_state.page->slice_us, slice_us, memory_order_relaxed);
    int64_t work_ns = look_at_work();
    return gives_way() ? LOOK_NS : has_neighbors ? work_ns : IDLE_NS;
}

/* Ends with the connection. */
static void *watch_daemon(void *argument) {
    struct pollfd watched[] = {{.fd = (int)(intptr_t)argument, .events = POLLIN}, {.fd = wake_event, .events = POLLIN}};
    eventfd_t wakes;
    char byte;
    for (;;) {
        int64_t ns = look_at_board();
        ppoll(watched, 2, &(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
        if (watched[1].revents)
            eventfd_read(watched[1].fd, &wakes);
        if (watched[0].revents & POLLIN && recv(watched[0].fd, &byte, sizeof byte, MSG_DONTWAIT) == 0)
            break;
        if (watched[0].revents & (POLLHUP | POLLERR | POLLNVAL)) /* the last: the program has closed all descriptors */
            break;
    }
    gs_gate_say("the connection to the daemon has ended: going on without it");
    wake_event = -1; /* the program may have closed it, and opened something else with this number */
    gs_gate_slice_set(0);
    open_for_all(gs_gate_state.board);
    return NULL;
}

void gs_gate_link_wake(void) {
    eventfd_write(wake_event, 1);
}

static bool start_watching(int socket) {
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    wake_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &attributes, watch_daemon, (void *)(intptr_t)socket);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return !failed;
}

/* ---- connecting ---- */

static void *map_file(int fd, size_t bytes, int protection) {
    void *memory = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* What the daemon sent. */
static bool take_files(const gs_wire_welcome *welcome, const int *fds) {
    gs_gate_link *state = &gs_gate_state;
    if (welcome->page_bytes != sizeof(gs_tenant_page) + sizeof(gs_board) + sizeof(gs_notice) || fds[FILES - 1] < 0)
        return false;
    state->board = map_file(fds[0], sizeof(gs_board), PROT_READ | PROT_WRITE);
    state->page = map_file(fds[1], sizeof(gs_tenant_page), PROT_READ | PROT_WRITE);
    state->notice = map_file(fds[2], sizeof(gs_notice), PROT_READ);
    if (!state->board || !state->page || !state->notice ||
        (state->class == GS_GATE_LATENCY && state->page->slot >= GS_BOARD_SLOTS))
        return false;
    state->slot = state->page->slot;
    state->bit = (uint32_t)1 << state->slot % GS_BOARD_SLOTS;
    atomic_store(&state->page->memory_limit, state->memory_limit);
    const char *why = getenv("GRIDSMITH_WHY"); /* `gridsmith run` has chosen */
    snprintf(state->page->why, sizeof state->page->why, "%s", why ? why : "");
    return true;
}

static bool receive_answer(int socket) {
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    gs_wire_welcome welcome;
    int fds[FILES] = {-1, -1, -1}, ready;
    while ((ready = poll(&wait, 1, ANSWER_MS)) < 0 && errno == EINTR)
        ;
    if (ready <= 0) {
        gs_gate_say("the daemon does not answer: running without it");
        return false;
    }
    bool is_welcome = gs_wire_answer(socket, &welcome, fds, FILES) == GS_CLIENT_OK;
    bool is_done = is_welcome && take_files(&welcome, fds);
    if (!is_done)
        gs_gate_say("%s: running without the daemon",
                    is_welcome ? "the daemon has a different version" : gs_client_message());
    for (int i = 0; i < FILES; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return is_done;
}

static void connect_once(void) {
    gs_wire_hello hello = {.magic = GS_WIRE_MAGIC,
                           .version = GS_WIRE_VERSION,
                           .kind = gs_gate_state.class == GS_GATE_LATENCY ? GS_WIRE_LATENCY : GS_WIRE_BEST_EFFORT,
                           .weight = gs_gate_state.weight,
                           .hold_ms = (uint32_t)(gs_gate_state.hold_ns / 1000000),
                           .most_percent = gs_gate_state.most_percent,
                           .has_mps = gs_gate_state.has_mps,
                           .deadline_us = gs_gate_state.deadline_us,
                           .command = gs_gate_state.command};
    snprintf(hello.name, sizeof hello.name, "%s", program_invocation_short_name);
    if (gs_gate_real.cuDeviceGetUuid_v2) /* of the first GPU that it sees */
        gs_gate_real.cuDeviceGetUuid_v2(hello.gpu, 0);
    link_socket = gs_wire_connect(NULL, &hello);
    if (link_socket < 0) {
        if (!getenv("GRIDSMITH_NO_DAEMON")) /* `gridsmith run` has said it */
            gs_gate_say("%s; running without it", gs_client_message());
        return;
    }
    if (receive_answer(link_socket) && start_watching(link_socket)) {
        atomic_store_explicit(&is_linked, true, memory_order_release);
        return;
    }
    close(link_socket);
    link_socket = -1;
}

/* The child of fork() is another process. */
static void forget_parent(void) {
    if (link_socket >= 0)
        close(link_socket);
    if (wake_event >= 0)
        close(wake_event);
    link_socket = wake_event = -1;
    was_tried = false;
    atomic_store(&is_linked, false);
    pthread_mutex_init(&lock, NULL);
}

void gs_gate_link_open(int64_t (*look_then)(void)) {
    static bool has_handler;
    if (gs_gate_state.class == GS_GATE_NONE)
        return;
    pthread_mutex_lock(&lock);
    if (!was_tried) {
        was_tried = true;
        look_at_work = look_then;
        if (!has_handler)
            has_handler = pthread_atfork(NULL, NULL, forget_parent) == 0;
        connect_once();
    }
    pthread_mutex_unlock(&lock);
}
