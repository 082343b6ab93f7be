/*
 * gate_work.c: a latency program marks on the board when it has work, and measures its requests.
 *
 * The mark is set before the launch reaches the driver, so that best-effort work drains while the driver prepares it.
 */
#include "gate.h"
#include "gate_request.h"

#include <pthread.h>

enum {
    HOLD_NS = 1000000000,     /* a request holds others so long, until more is known, */
    HOLD_LEAST_NS = 20000000, /* and never shorter */
    HOLD_TIMES = 10,          /* the longest request lately */
    LEARNED_AFTER = 20        /* requests */
};

static struct work {
    pthread_mutex_t lock;
    gs_request request;
    uint64_t begun_ns, longest_ns, requests;
} work = {.lock = PTHREAD_MUTEX_INITIALIZER};

static gs_board_slot *own_slot(void) {
    return &gs_gate_state.board->slots[gs_gate_state.slot];
}

static uint64_t hold_ns(void) {
    if (gs_gate_state.hold_ns)
        return gs_gate_state.hold_ns;
    if (work.requests < LEARNED_AFTER)
        return HOLD_NS;
    uint64_t hold = HOLD_TIMES * work.longest_ns;
    return hold < HOLD_LEAST_NS ? HOLD_LEAST_NS : hold > HOLD_NS ? HOLD_NS : hold;
}

/* The daemon may end at any moment: who marks after that unmarks. */
static void mark(void) {
    gs_board *board = gs_gate_state.board;
    work.begun_ns = gs_gate_now_ns();
    atomic_store_explicit(&own_slot()->hold_ns, hold_ns(), memory_order_relaxed);
    atomic_store_explicit(&own_slot()->since_ns, work.begun_ns, memory_order_relaxed);
    gs_board_mark(board, gs_gate_state.bit);
    if (atomic_load(&board->has_ended))
        gs_board_unmark(board, gs_gate_state.bit);
}

static void unmark(void) {
    gs_tenant_page *page = gs_gate_state.page;
    gs_board_unmark(gs_gate_state.board, gs_gate_state.bit);
    atomic_store_explicit(&own_slot()->since_ns, 0, memory_order_relaxed);
    uint64_t ns = gs_gate_now_ns() - work.begun_ns;
    work.longest_ns = ns > work.longest_ns ? ns : work.longest_ns - work.longest_ns / 1024;
    work.requests++;
    gs_gate_count(&page->requests, 1);
    gs_gate_count(&page->request_ns, ns);
    atomic_fetch_add_explicit(&page->request_times[gs_tenant_bucket(ns)], 1, memory_order_relaxed);
}

void gs_gate_work_begins(void *stream) {
    pthread_mutex_lock(&work.lock);
    if (gs_request_launch(&work.request, stream))
        mark();
    pthread_mutex_unlock(&work.lock);
}

uint64_t gs_gate_work_now(void) {
    pthread_mutex_lock(&work.lock);
    uint64_t number = gs_request_now(&work.request);
    pthread_mutex_unlock(&work.lock);
    return number;
}

/* Streams with work that nobody has waited for: another stream may have waited for them. Under the lock. */
static bool ask_streams(void) {
    bool has_ended = false;
    for (size_t i = work.request.count; i-- > 0 && !has_ended;) {
        const gs_request_stream *left = &work.request.streams[i];
        if (gs_gate_real.cuStreamQuery((void *)(uintptr_t)left->stream) != GS_CUDA_NOT_READY)
            has_ended = gs_request_stream_done(&work.request, left->stream, left->number);
    }
    return has_ended;
}

void gs_gate_work_stream_done(void *stream, uint64_t number) {
    pthread_mutex_lock(&work.lock);
    size_t before = work.request.count;
    if (gs_request_stream_done(&work.request, stream, number) ||
        (work.request.count < before && work.request.count && ask_streams()))
        unmark();
    pthread_mutex_unlock(&work.lock);
}

void gs_gate_work_all_done(uint64_t number) {
    pthread_mutex_lock(&work.lock);
    if (gs_request_all_done(&work.request, number))
        unmark();
    pthread_mutex_unlock(&work.lock);
}

void gs_gate_work_record(void *event, void *stream) {
    pthread_mutex_lock(&work.lock);
    gs_request_record(&work.request, event, stream);
    pthread_mutex_unlock(&work.lock);
}

void gs_gate_work_event_done(void *event) {
    pthread_mutex_lock(&work.lock);
    size_t before = work.request.count;
    if (gs_request_event_done(&work.request, event) ||
        (work.request.count < before && work.request.count && ask_streams()))
        unmark();
    pthread_mutex_unlock(&work.lock);
}
