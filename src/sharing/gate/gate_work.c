/*
 * gate_work.c: a latency program sets its flag on the board while it has work, and measures its requests.
 *
 * The flag is set before the launch reaches the driver, so that best-effort work drains while the driver prepares it.
 * An event that announces a request also sets it. If no launch follows, the flag is cleared when the host waits or some
 * time has passed.
 *
 * A program may not synchronize at all: it polls memory, or does not need to know that its work is done. This is
 * detected when it launches again after a pause and its streams are idle. From then on the GPU writes the number of
 * each launch behind it into a word (cuStreamWriteValue32), and the thread of gate_link.c reads the words. A
 * synchronization stops this.
 *
 * After a request whose successor is expected soon (gate_gap.c) the flag stays set. That thread clears it when the time
 * is over: the program itself may be doing anything.
 */
#include "gate.h"
#include "gate_gap.h"
#include "gate_request.h"

#include <pthread.h>
#include <stdalign.h>

enum {
    HOLD_NS = 1000000000,     /* how long a request holds others until durations are known, */
    HOLD_LEAST_NS = 20000000, /* and never shorter */
    HOLD_TIMES = 10,          /* times the longest recent request */
    LEARNED_AFTER = 20,       /* requests */
    PAUSE_NS = 200000,        /* since the last launch; then the streams are queried */
    ANNOUNCED_NS = 1000000,   /* how long an announcing event holds others if no launch follows */
    SILENT_AFTER = 3,         /* requests that ended without a synchronization, */
    MOST_SILENT = 12,         /* or this number, if the program usually pauses before it synchronizes */
    WORDS = 64,               /* for streams */
    LOOK_NS = 1000000,        /* how often words are read while a silent program has work, */
    GAP_LOOK_NS = 200000,     /* held flags are looked at, while there is a stream of requests, */
    IDLE_NS = 100000000,      /* and it is checked whether there is such a program */
    STREAM_NS = 20000000,     /* a stream of requests has ended if none came for so long; */
    REST_LOOK_NS = 5000000,   /* until the next one they are looked at as often as this */
    SWITCH_NS = 300000,       /* to another process and back; what a gap costs without MPS, */
    WORK_NS = 100000,         /* and with it: work that has begun in the gap, until it ends or is stopped; */
    MOST_WORK_NS = 1000000,   /* or so much, where kernels are long and cannot be stopped */
    REGISTER_PORTABLE = 1,
    REGISTER_MAPPED = 2
};

static struct work {
    pthread_mutex_t lock;
    gs_request request;
    uint64_t begun_ns, longest_ns, requests, launched_ns;
    uint64_t launches; /* of this request, and of the parts before it that ended in a pause */
    uint64_t judged;   /* requests, whole ones, */
    double eager;      /* and the part of recent requests that had many launches, or began soon after another */
    bool is_near;      /* this request began soon after another, */
    bool is_kept;      /* and has a keeper */
    unsigned window;   /* of the status, that requests are counted in, */
    uint64_t window_begun_ns, window_requests;
    unsigned silent;   /* requests in a row that ended without a synchronization, */
    double pauses;     /* and how many there were before recent synchronizations, on average */
    bool is_announced; /* the flag is for a request that has not begun */
    gs_gate_gap gap;
    uint64_t held_until_ns;    /* the flag is for the gap behind a request; 0: it is not */
    uint64_t looks_at_ns;      /* when gs_gate_work_look is called again */
    gs_gate_pointer on_device; /* device address of the words; 0: not mapped */
    bool is_broken;            /* they cannot be mapped */
} work = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A separate page, because it is mapped. */
static alignas(4096) _Atomic uint32_t words[4096 / sizeof(uint32_t)];

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

/* ---- requests; under the lock ---- */

/* The daemon may end at any moment: a flag set after that is cleared again, here or by gate_link.c. */
static void set_flag(uint64_t now, uint64_t most_ns) {
    gs_board *board = gs_gate_state.board;
    work.begun_ns = now;
    atomic_store_explicit(&own_slot()->hold_ns, most_ns, memory_order_relaxed);
    atomic_store_explicit(&own_slot()->since_ns, work.begun_ns, memory_order_relaxed);
    gs_board_raise(board, gs_gate_state.bit);
    if (!gs_gate_is_linked())
        gs_board_lower(board, gs_gate_state.bit);
}

/* Recent ones: a program that loads its model seems to have a stream of requests. */
static void count_eager(void) {
    enum { REQUESTS = 32, MANY_LAUNCHES = 16 };
    uint64_t recent = work.judged < REQUESTS ? work.judged + 1 : REQUESTS;
    work.eager += ((work.is_near || work.launches >= MANY_LAUNCHES) - work.eager) / (double)recent;
    atomic_store_explicit(&gs_gate_state.page->eager_permille, (uint64_t)(1000 * work.eager + 0.5),
                          memory_order_relaxed);
}

/* A whole request. If the host paused in its midst, its parts are no requests of few launches. */
static void judge_request(void) {
    count_eager();
    work.judged++;
    work.launches = 0;
}

/* Whether a best-effort program has worked after this time. */
static bool is_beside_work(uint64_t since_ns) {
    uint32_t others = atomic_load_explicit(&gs_gate_state.notice->shares, memory_order_relaxed);
    bool is_beside = false;
    for (; others; others &= others - 1)
        is_beside |= atomic_load_explicit(&gs_gate_state.board->shares[__builtin_ctz(others)].works_until_ns,
                                          memory_order_relaxed) > since_ns;
    return is_beside;
}

/* Requests of few launches gain nothing by a keeper (docs/reports/neighbors.md), and it may be in their way. */
static bool needs_keeper(uint64_t now) {
    return gs_gate_state.has_keepers && work.eager >= 0.5 && is_beside_work(now);
}

static void remove_mark(void) {
    gs_gate_keeper_end();
    gs_board_lower(gs_gate_state.board, gs_gate_state.bit);
    atomic_store_explicit(&own_slot()->since_ns, 0, memory_order_relaxed);
}

static void announce_request(uint64_t now) {
    work.is_announced = true;
    set_flag(now, ANNOUNCED_NS);
    if (needs_keeper(now))
        gs_gate_keeper_work(now);
}

/* No request has followed. */
static void end_announcement(void) {
    if (work.is_announced && !work.request.count)
        remove_mark();
    work.is_announced = false;
}

/* The flag stays set for some time, though there is no request. */
static void hold_gap(uint64_t now, uint64_t hold_ns) {
    work.held_until_ns = now + hold_ns;
    if (work.looks_at_ns < now || work.looks_at_ns > work.held_until_ns + GAP_LOOK_NS)
        gs_gate_link_wake();
    atomic_store_explicit(&own_slot()->hold_ns, hold_ns, memory_order_relaxed);
    atomic_store_explicit(&own_slot()->since_ns, 0, memory_order_relaxed);
    gs_gate_count(&gs_gate_state.page->held, 1);
}

static void end_gap(void) {
    if (work.held_until_ns && !work.request.count && !work.is_announced)
        remove_mark();
    work.held_until_ns = 0;
}

/* The host of an eager program may be so slow that its streams are idle in the midst of a request. That is no silence
   if a synchronization usually follows. */
static unsigned silent_after(void) {
    double pauses = SILENT_AFTER + 4 * work.pauses;
    return pauses < MOST_SILENT ? (unsigned)pauses : MOST_SILENT;
}

static bool is_silent(void) {
    return work.silent >= silent_after() && work.on_device;
}

/* What a request loses if work of others has begun in the gap before it. Others can write anything to the board. */
static uint64_t lost_in_gap(void) {
    uint32_t others = atomic_load_explicit(&gs_gate_state.notice->shares, memory_order_relaxed);
    uint64_t lost_ns = WORK_NS;
    if (gs_gate_is_sliced())
        return SWITCH_NS;
    for (; others; others &= others - 1) {
        const gs_board_share *other = &gs_gate_state.board->shares[__builtin_ctz(others)];
        uint64_t ns = atomic_load_explicit(&other->lost_ns, memory_order_relaxed);
        lost_ns = ns > lost_ns ? ns : lost_ns;
    }
    return lost_ns < MOST_WORK_NS ? lost_ns : MOST_WORK_NS;
}

/* The next window of recent requests, if it is time. */
static void turn_window(uint64_t now) {
    gs_tenant_page *page = gs_gate_state.page;
    if (work.window_requests < GS_TENANT_WINDOW_REQUESTS &&
        now - work.window_begun_ns <= (uint64_t)GS_TENANT_WINDOW_S * 1000000000)
        return;
    work.window = (work.window + 1) % GS_TENANT_WINDOWS;
    work.window_begun_ns = now;
    work.window_requests = 0;
    for (unsigned i = 0; i < GS_TENANT_TIMES; i++)
        atomic_store_explicit(&page->recent_times[work.window][i], 0, memory_order_relaxed);
}

static void compare_request(unsigned bucket, uint64_t ns) {
    gs_tenant_page *page = gs_gate_state.page;
    if (is_beside_work(work.begun_ns)) {
        atomic_fetch_add_explicit(&page->beside_times[bucket], 1, memory_order_relaxed);
        return;
    }
    uint64_t at = atomic_fetch_add_explicit(&page->alone, 1, memory_order_relaxed);
    atomic_store_explicit(&page->alone_ns[at % GS_TENANT_ALONE], ns, memory_order_relaxed);
}

static void count_request(uint64_t now, uint64_t ns) {
    gs_tenant_page *page = gs_gate_state.page;
    unsigned bucket = gs_tenant_bucket(ns);
    gs_gate_count(&page->requests, 1);
    gs_gate_count(&page->request_ns, ns);
    atomic_fetch_add_explicit(&page->request_times[bucket], 1, memory_order_relaxed);
    work.requests++;
    turn_window(now);
    work.window_requests++;
    atomic_fetch_add_explicit(&page->recent_times[work.window][bucket], 1, memory_order_relaxed);
    compare_request(bucket, ns);
}

/* The request has ended. `is_known`: now, and not some time ago. */
static void clear_flag(bool is_known) {
    uint64_t now = gs_gate_now_ns(), ns = now - work.begun_ns;
    uint64_t hold = is_known ? gs_gap_end(&work.gap, now, ns, lost_in_gap()) : 0;
    if (hold && atomic_load_explicit(&gs_gate_state.notice->best_effort, memory_order_relaxed))
        hold_gap(now, hold);
    else
        remove_mark();
    if (!is_known)
        work.gap.ended_ns = 0;
    work.longest_ns = ns > work.longest_ns ? ns : work.longest_ns - work.longest_ns / 1024;
    if (is_known || is_silent())
        judge_request();
    count_request(now, ns);
}

/* Queries the streams that have work. True: the request has ended. */
static bool ask_streams(void) {
    bool has_ended = false;
    if (gs_gate_has_captures())
        return false;
    int mode = gs_gate_relax();
    for (size_t i = work.request.count; i-- > 0 && !has_ended;) {
        const gs_request_stream *left = &work.request.streams[i];
        if (gs_gate_real.cuStreamQuery((void *)(uintptr_t)left->stream) != GS_CUDA_NOT_READY)
            has_ended = gs_request_stream_done(&work.request, left->stream, left->number);
    }
    gs_gate_respect(mode);
    return has_ended;
}

/* ---- programs that do not synchronize; under the lock ---- */

static _Atomic uint32_t *word_of(const void *stream) {
    return &words[(uintptr_t)stream / 16 * 31 % WORDS];
}

static void end_silence(void) {
    enum { REQUESTS = 8 };
    work.pauses += (work.silent - work.pauses) / REQUESTS;
    work.silent = 0;
}

static void map_words(void) {
    if (work.on_device || work.is_broken)
        return;
    int mode = gs_gate_relax();
    if (!gs_gate_real.cuStreamWriteValue32_v2 || !gs_gate_real.cuMemHostRegister_v2 ||
        gs_gate_real.cuMemHostRegister_v2(words, sizeof words, REGISTER_PORTABLE | REGISTER_MAPPED) != GS_CUDA_OK ||
        gs_gate_real.cuMemHostGetDevicePointer_v2(&work.on_device, words, 0) != GS_CUDA_OK)
        work.is_broken = true;
    gs_gate_respect(mode);
}

/* After a pause within a request: it may have ended without a synchronization. */
static void find_out(void) {
    if (!ask_streams())
        return;
    clear_flag(false);
    if (work.silent < silent_after() && ++work.silent == silent_after())
        map_words();
}

/* When held flags must be looked at again. */
static int64_t look_at_gap(uint64_t now) {
    if (work.held_until_ns && now >= work.held_until_ns)
        end_gap();
    if (!work.gap.ended_ns || now - work.gap.ended_ns > STREAM_NS)
        return REST_LOOK_NS;
    return work.held_until_ns ? (int64_t)(work.held_until_ns - now) : GAP_LOOK_NS;
}

int64_t gs_gate_work_look(void) {
    bool has_ended = false;
    pthread_mutex_lock(&work.lock);
    uint64_t now = gs_gate_now_ns();
    if (now - work.begun_ns > ANNOUNCED_NS)
        end_announcement();
    int64_t gap_ns = gs_gap_is_stream(&work.gap) ? look_at_gap(now) : INT64_MAX;
    bool looks = is_silent();
    for (size_t i = work.request.count; looks && i-- > 0 && !has_ended;) {
        const gs_request_stream *left = &work.request.streams[i];
        uint32_t done = atomic_load_explicit(word_of(left->stream), memory_order_relaxed);
        if ((int32_t)(done - (uint32_t)left->number) >= 0)
            has_ended = gs_request_stream_done(&work.request, left->stream, left->number);
    }
    if (has_ended)
        clear_flag(false);
    int64_t work_ns = looks ? LOOK_NS : IDLE_NS, next_ns = gap_ns < work_ns ? gap_ns : work_ns;
    work.looks_at_ns = now + (uint64_t)next_ns;
    pthread_mutex_unlock(&work.lock);
    return next_ns;
}

/* ---- launches and synchronization ---- */

uint64_t gs_gate_work_begins(const gs_gate_item *item) {
    uint64_t now = gs_gate_now_ns();
    pthread_mutex_lock(&work.lock);
    if (work.request.count && now - work.launched_ns > PAUSE_NS)
        find_out();
    work.launched_ns = now;
    work.launches++;
    if (gs_request_launch(&work.request, item->stream, now)) {
        gs_gate_count(&gs_gate_state.page->announced, work.is_announced);
        work.is_announced = false;
        work.held_until_ns = 0;
        bool is_near = gs_gap_begin(&work.gap, now);
        work.is_near = work.launches == 1 ? is_near : work.is_near;
        set_flag(now, hold_ns());
        work.is_kept = needs_keeper(now);
    }
    if (work.is_kept && gs_gate_is_cooperative(item))
        gs_gate_keeper_drop();
    if (work.is_kept)
        gs_gate_keeper_work(now);
    uint64_t number = is_silent() ? gs_request_now(&work.request) : 0;
    pthread_mutex_unlock(&work.lock);
    return number;
}

void gs_gate_work_launched(void *stream, uint64_t number) {
    gs_gate_pointer word = work.on_device + (gs_gate_pointer)(word_of(stream) - words) * sizeof *words;
    gs_gate_real.cuStreamWriteValue32_v2(stream, word, (uint32_t)number, 0);
}

uint64_t gs_gate_work_now(void) {
    pthread_mutex_lock(&work.lock);
    uint64_t number = gs_request_now(&work.request);
    pthread_mutex_unlock(&work.lock);
    return number;
}

/* Streams with work that the host has not waited for: another stream may have waited for them. */
static void end_if(bool has_ended, size_t before) {
    if (work.request.count < before)
        end_silence();
    if (has_ended || (work.request.count < before && work.request.count && ask_streams()))
        clear_flag(true);
}

void gs_gate_work_stream_done(void *stream, uint64_t number) {
    pthread_mutex_lock(&work.lock);
    size_t before = work.request.count;
    end_if(gs_request_stream_done(&work.request, stream, number), before);
    pthread_mutex_unlock(&work.lock);
}

void gs_gate_work_all_done(uint64_t number) {
    pthread_mutex_lock(&work.lock);
    size_t before = work.request.count;
    end_if(gs_request_all_done(&work.request, number), before);
    pthread_mutex_unlock(&work.lock);
}

void gs_gate_work_record(void *event, void *stream) {
    uint64_t now = gs_gate_now_ns();
    pthread_mutex_lock(&work.lock);
    if (gs_request_record(&work.request, event, stream, now))
        announce_request(now);
    pthread_mutex_unlock(&work.lock);
}

void gs_gate_work_waits(void) {
    pthread_mutex_lock(&work.lock);
    gs_request_wait(&work.request);
    end_announcement();
    pthread_mutex_unlock(&work.lock);
}

void gs_gate_work_event_done(void *event) {
    pthread_mutex_lock(&work.lock);
    size_t before = work.request.count;
    end_if(gs_request_event_done(&work.request, event), before);
    pthread_mutex_unlock(&work.lock);
}
