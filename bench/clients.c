/*
 * clients.c: the processes of bench/pairs that run under MPS, one for each side.
 *
 * They are copies of this process, made before it uses CUDA. A page that all share has a slot for each: the parent
 * writes how often the side must run and when to begin, the process writes when it was done. Both processes of a pair
 * spin until the same time, so that the makespan is the last end minus that time.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "pairs.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum slot_state { SLOT_STARTING, SLOT_READY, SLOT_ASKED, SLOT_FAILED, SLOT_QUIT };

struct slot {
    _Alignas(128) _Atomic int state;
    uint32_t repeat;
    int64_t begin_ns, ended_ns;
    pid_t pid;
};

struct pair_clients {
    struct slot *slots; /* shared */
    size_t count;
    struct services services;
};

static void sleep_us(long us) {
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* ---- in a child ---- */

static bool run_round(pair_side *side, pair_card *card, uint32_t repeat) {
    const pair_way original = {.form = GS_FORM_ORIGINAL};
    for (uint32_t i = 0; i < repeat; i++)
        if (!side_pass(side, card, &original))
            return false;
    return card_check(card, card->api.stream_wait(side->stream), side->name);
}

static bool set_up(pair_side *mine, pair_card *card, const char *library) {
    mine->has_forms = false;
    if (!card_open(card))
        return false;
    if (!side_open_blas(mine, library))
        return false;
    side_prepare(mine, card->architecture);
    return side_load(mine, card) && run_round(mine, card, 2);
}

static void serve(struct slot *slot, pair_side *mine, const char *library) {
    pair_card card;
    bool is_good = set_up(mine, &card, library);
    atomic_store(&slot->state, is_good ? SLOT_READY : SLOT_FAILED);
    while (is_good) {
        int state = atomic_load(&slot->state);
        if (state == SLOT_QUIT || getppid() == 1)
            break;
        if (state != SLOT_ASKED) {
            sleep_us(100);
            continue;
        }
        while (gs_now_ns() < slot->begin_ns)
            ;
        is_good = run_round(mine, &card, slot->repeat);
        slot->ended_ns = gs_now_ns();
        atomic_store(&slot->state, is_good ? SLOT_READY : SLOT_FAILED);
    }
    _exit(0);
}

/* ---- in the parent ---- */

pair_clients *clients_start(const pair_side *sides, size_t count, const char *library, const char *self, char *why,
                            size_t size) {
    pair_clients *started = calloc(1, sizeof *started);
    void *page =
        mmap(NULL, PAIR_MOST_SIDES * sizeof(struct slot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!started || page == MAP_FAILED || !services_open(&started->services, self, self) ||
        !services_start_mps(&started->services, why, size)) {
        if (started && started->services.folder)
            services_close(&started->services);
        free(started);
        return NULL;
    }
    started->slots = page;
    started->count = count;
    for (size_t i = 0; i < count; i++) {
        pid_t parent = getpid(), pid = sides[i].is_used ? fork() : -1;
        if (pid == 0) {
            environment changes = services_environment(&started->services, SERVICES_MPS);
            pair_side mine = sides[i];
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1); /* the server of MPS has a limit for all clients */
            for (; *changes; changes++)
                putenv((char *)(uintptr_t)*changes);
            if (getppid() == parent)
                serve(&started->slots[i], &mine, library);
            _exit(1);
        }
        started->slots[i].pid = pid;
        if (pid < 0)
            atomic_store(&started->slots[i].state, SLOT_FAILED);
    }
    return started;
}

bool clients_wait(pair_clients *clients, double seconds) {
    int64_t deadline_ns = gs_now_ns() + (int64_t)(seconds * 1e9);
    for (size_t i = 0; i < clients->count; i++)
        while (atomic_load(&clients->slots[i].state) == SLOT_STARTING) {
            if (gs_now_ns() > deadline_ns || services_interrupted())
                return false;
            sleep_us(1000);
        }
    return true;
}

static bool is_ready(const struct slot *slot) {
    return atomic_load(&slot->state) == SLOT_READY;
}

static void ask(struct slot *slot, uint32_t repeat, int64_t begin_ns) {
    slot->repeat = repeat;
    slot->begin_ns = begin_ns;
    atomic_store(&slot->state, SLOT_ASKED);
}

static bool wait_for(struct slot *slot) {
    enum { SECONDS = 5 };
    int64_t deadline_ns = gs_now_ns() + SECONDS * INT64_C(1000000000);
    while (atomic_load(&slot->state) == SLOT_ASKED && gs_now_ns() < deadline_ns)
        ;
    return is_ready(slot);
}

double clients_round(pair_clients *clients, size_t a, uint32_t a_repeat, size_t b, uint32_t b_repeat) {
    enum { AHEAD_NS = 500000 };
    int64_t begin_ns = gs_now_ns() + AHEAD_NS;
    struct slot *first = &clients->slots[a], *second = &clients->slots[b];
    if (!is_ready(first) || !is_ready(second))
        return 0;
    ask(first, a_repeat, begin_ns);
    ask(second, b_repeat, begin_ns);
    bool is_done = wait_for(first);
    if (!wait_for(second) || !is_done)
        return 0;
    int64_t ended_ns = first->ended_ns > second->ended_ns ? first->ended_ns : second->ended_ns;
    return (double)(ended_ns - begin_ns) / 1e6;
}

void clients_stop(pair_clients *clients) {
    if (!clients)
        return;
    for (size_t i = 0; i < clients->count; i++)
        atomic_store(&clients->slots[i].state, SLOT_QUIT);
    for (size_t i = 0; i < clients->count; i++) {
        if (clients->slots[i].pid < 0)
            continue;
        int64_t deadline_ns = gs_now_ns() + INT64_C(3000000000);
        while (waitpid(clients->slots[i].pid, NULL, WNOHANG) == 0)
            if (gs_now_ns() > deadline_ns) {
                kill(clients->slots[i].pid, SIGKILL);
                deadline_ns = INT64_MAX;
            } else {
                sleep_us(1000);
            }
    }
    services_close(&clients->services);
    munmap(clients->slots, PAIR_MOST_SIDES * sizeof(struct slot));
    free(clients);
}
