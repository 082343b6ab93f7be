/*
 * gate_wait.c: the waits and events that a best-effort program puts into its streams.
 *
 * If gate_pace.c asks for it, a launch is preceded by a wait for the board's flags (cuStreamWaitValue32). The GPU reads
 * the word itself: the program launches as far ahead as it likes, no thread waits, and when a request comes, at most
 * the work since the last wait is left. Some launches are enclosed in two events, which give their duration.
 *
 * Where there are several best-effort programs, launches also wait for the shares of others (gate_share.h), and the GPU
 * writes numbers behind some of them, so that others see what it has done.
 *
 * Streams that are capturing a graph are left alone. While any stream captures, no sample is taken.
 */
#include "gate.h"
#include "gate_pace.h"
#include "gate_share.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum {
    SAMPLES = 64,             /* in flight at a time */
    COLLECT_EVERY = 16,       /* launches */
    CAP_SAMPLES = 2,          /* before the time of a kernel is charged to a cap */
    SHARE_LOOK_NS = 100000,   /* how often a program that waits for others checks, */
    SHARE_MOST_NS = 100000000 /* and how long it waits before a launch, at most */
};

struct gs_gate_sample {
    void *begin, *end; /* events */
    gs_pace_kernel *kernel;
    uint64_t others; /* what other best-effort programs had launched before it */
    enum { SAMPLE_FREE, SAMPLE_TAKEN, SAMPLE_UNDER_WAY } state;
};

static struct waits {
    pthread_mutex_t lock;
    gs_gate_pace pace;
    gs_gate_share share;
    const void *lanes[GS_SHARE_LANES]; /* streams whose numbers others see */
    gs_gate_cap cap;
    struct gs_gate_sample samples[SAMPLES];
    unsigned under_way, launches;
    bool has_learned; /* since the status was told of the longest kernel */
} waits = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether there are other best-effort programs. */
static bool is_shared(void) {
    return atomic_load_explicit(&gs_gate_state.notice->best_effort, memory_order_relaxed) > 1 &&
           gs_gate_state.slot < GS_BOARD_SLOTS;
}

/* Under the lock. */
static gs_gate_share *own_share(void) {
    const gs_gate_link *state = &gs_gate_state;
    waits.share.board = state->board;
    waits.share.notice = state->notice;
    waits.share.slot = state->slot;
    waits.share.weight = state->weight;
    return &waits.share;
}

/* Under the lock: what other best-effort programs have launched. */
static uint64_t name_others(void) {
    return is_shared() ? gs_share_others(own_share(), gs_gate_now_ns()) : GS_SHARE_NONE;
}

/* ---- samples; under the lock ---- */

/* A launch is charged to the cap when the time of its kernel has been measured more than once: the first launch may
   load code. */
static void charge_cap(gs_pace_kernel *kernel, int64_t copy_ns) {
    bool is_known = !kernel || kernel->samples >= CAP_SAMPLES;
    if (!waits.cap.percent)
        return;
    if (is_known)
        gs_cap_charge(&waits.cap, (uint64_t)(kernel ? kernel->expected_ns : copy_ns), gs_gate_now_ns());
    else
        kernel->unpaid++;
}

static void learn_time(gs_pace_kernel *kernel, int64_t ns, bool is_alone) {
    gs_pace_learn(kernel, ns, is_alone);
    if (kernel->unpaid && kernel->samples >= CAP_SAMPLES) {
        gs_cap_charge(&waits.cap, kernel->unpaid * (uint64_t)kernel->expected_ns, gs_gate_now_ns());
        kernel->unpaid = 0;
    }
}

static void collect_samples(void) {
    uint64_t others = name_others();
    int mode = gs_gate_relax();
    for (size_t i = 0; i < SAMPLES && waits.under_way; i++) {
        gs_gate_sample *sample = &waits.samples[i];
        float ms = 0;
        if (sample->state != SAMPLE_UNDER_WAY)
            continue;
        int result = gs_gate_real.cuEventQuery(sample->end);
        if (result == GS_CUDA_NOT_READY)
            continue;
        if (result == GS_CUDA_OK && gs_gate_real.cuEventElapsedTime(&ms, sample->begin, sample->end) == GS_CUDA_OK)
            learn_time(sample->kernel, (int64_t)(ms * 1e6f), others != GS_SHARE_CROWDED && others == sample->others);
        sample->state = SAMPLE_FREE;
        waits.under_way--;
        waits.has_learned = true;
    }
    gs_gate_respect(mode);
}

static gs_gate_sample *take_sample(const gs_pace_step *step) {
    for (size_t i = 0; i < SAMPLES; i++) {
        gs_gate_sample *sample = &waits.samples[i];
        if (sample->state != SAMPLE_FREE)
            continue;
        if (!sample->begin && gs_gate_real.cuEventCreate(&sample->begin, 0) != GS_CUDA_OK)
            return NULL;
        if (!sample->end && gs_gate_real.cuEventCreate(&sample->end, 0) != GS_CUDA_OK)
            return NULL;
        sample->kernel = step->kernel;
        sample->others = name_others();
        sample->state = SAMPLE_TAKEN;
        return sample;
    }
    return NULL;
}

/* ---- launches ---- */

/* Whether there is a latency program to wait for. */
static bool has_latency(void) {
    return !gs_gate_mark_is_broken() && atomic_load_explicit(&gs_gate_state.notice->latency, memory_order_relaxed);
}

/* Whether the program must wait now. */
static bool must_wait(uint64_t now_ns) {
    pthread_mutex_lock(&waits.lock);
    bool waits_now = gs_share_must_wait(own_share(), now_ns);
    if (waits_now)
        gs_share_wait(&waits.share, now_ns);
    pthread_mutex_unlock(&waits.lock);
    return waits_now;
}

/* ---- numbers for other best-effort programs ---- */

/* A copy that takes long, and needs no SM. */
static bool is_big_copy(const gs_gate_item *item) {
    enum { BIG_BYTES = 16 << 20 }; /* 0.3 ms from the host */
    return !item->what && item->to && item->bytes >= BIG_BYTES;
}

/* Under the lock: the lane of a stream, or one that the GPU is done with. GS_SHARE_LANES: none. */
static uint32_t lane_of(const void *stream) {
    const gs_board_share *own = &gs_gate_state.board->shares[gs_gate_state.slot];
    uint32_t lane = 0, idle = GS_SHARE_LANES;
    for (; lane < GS_SHARE_LANES && !(waits.share.next[lane] && waits.lanes[lane] == stream); lane++)
        if (atomic_load(&own->sent[lane]) == atomic_load(&own->done[lane]))
            idle = lane;
    lane = lane < GS_SHARE_LANES ? lane : idle;
    if (lane < GS_SHARE_LANES)
        waits.lanes[lane] = stream;
    return lane;
}

/* The driver is called without the lock: it may wait until the stream has room. */
static void put_number(void *stream, bool is_copy) {
    pthread_mutex_lock(&waits.lock);
    uint32_t lane = lane_of(stream);
    uint32_t number = lane < GS_SHARE_LANES ? gs_share_take_number(own_share(), lane, is_copy) : 0;
    pthread_mutex_unlock(&waits.lock);
    if (lane == GS_SHARE_LANES ||
        !gs_gate_mark_write(stream, &gs_gate_state.board->shares[gs_gate_state.slot].done[lane], number))
        return;
    pthread_mutex_lock(&waits.lock);
    gs_share_send_number(own_share(), lane, number, gs_gate_now_ns());
    pthread_mutex_unlock(&waits.lock);
}

/* Waits until others have had their shares. They see when what the stream has so far is done. */
static void wait_for_share(void *stream) {
    uint64_t begun = gs_gate_now_ns(), now = begun;
    if (!must_wait(now))
        return;
    put_number(stream, false);
    gs_gate_count(&gs_gate_state.page->share_waits, 1);
    while (must_wait(now) && now - begun < SHARE_MOST_NS && gs_gate_is_linked()) {
        nanosleep(&(struct timespec){.tv_nsec = SHARE_LOOK_NS}, NULL);
        now = gs_gate_now_ns();
    }
    pthread_mutex_lock(&waits.lock);
    gs_share_forgive(own_share(), now);
    pthread_mutex_unlock(&waits.lock);
}

/* Waits until the work so far is paid for. */
static void wait_for_cap(void) {
    enum { LOOK_NS = 50000000 };
    for (bool has_waited = false; gs_gate_is_linked(); has_waited = true) {
        pthread_mutex_lock(&waits.lock);
        waits.cap.percent = gs_gate_state.most_percent;
        uint64_t wait_ns = gs_cap_wait_ns(&waits.cap, gs_gate_now_ns());
        pthread_mutex_unlock(&waits.lock);
        if (!wait_ns)
            return;
        gs_gate_count(&gs_gate_state.page->share_waits, !has_waited);
        nanosleep(&(struct timespec){.tv_nsec = wait_ns < LOOK_NS ? (long)wait_ns : LOOK_NS}, NULL);
    }
}

static bool is_graph(const gs_gate_item *item) {
    return item->what && !item->launch;
}

/* Names the request that has begun last; 0: there is none at this moment. */
static uint64_t name_request(void) {
    const gs_board *board = gs_gate_state.board;
    return atomic_load_explicit(&board->flags, memory_order_relaxed)
               ? (uint64_t)atomic_load_explicit(&board->requests, memory_order_relaxed) + 1
               : 0;
}

/* Under the lock. */
static gs_pace_step decide_wait(const gs_gate_item *item) {
    uint64_t request = name_request();
    waits.pace.ahead_ns = gs_gate_state.ahead_ns;
    waits.pace.is_shared = is_shared();
    if (!item->what)
        return gs_pace_copy(&waits.pace, item->stream, item->bytes, request);
    return gs_pace_launch(&waits.pace, item->stream, gs_pace_key(item->what, item->launch ? item->launch->shape : NULL),
                          request);
}

/* The work has waits in it, or can be stopped: its duration is not learned any more. */
static void mark_divided(const gs_pace_step *step, gs_gate_around *around) {
    pthread_mutex_lock(&waits.lock);
    gs_pace_divide(step->kernel);
    waits.has_learned = true;
    if (around->sample)
        around->sample->state = SAMPLE_FREE;
    pthread_mutex_unlock(&waits.lock);
    around->sample = NULL;
}

/* Whether the work can be divided is not known yet: if not, users are told later. */
static void name_later(const gs_pace_step *step) {
    pthread_mutex_lock(&waits.lock);
    step->kernel->is_named = false;
    pthread_mutex_unlock(&waits.lock);
}

/* What exceeds the allowed work between two waits: a graph is launched in a form with waits in it, a kernel so that it
   can be stopped. */
static void divide_work(const gs_gate_item *item, const gs_pace_step *step, gs_gate_around *around) {
    gs_gate_work work = {.expected_ns = step->is_learned ? step->expected_ns : 0, .stream = item->stream};
    gs_gate_form form = GS_FORM_WHOLE;
    work.flags = gs_gate_mark_find(false);
    if (is_graph(item)) {
        int mode = gs_gate_relax();
        around->graph = gs_gate_graph_divide((void *)(uintptr_t)item->what, &work, &form, &around->guard.reason);
        gs_gate_respect(mode);
    } else if (gs_gate_state.has_guards && item->what && work.expected_ns > gs_gate_state.ahead_ns) {
        int mode = gs_gate_relax();
        around->guard = gs_gate_guard_plan(item, step->expected_ns);
        gs_gate_respect(mode);
    }
    around->is_timed = form == GS_FORM_TIMED;
    if (form == GS_FORM_DIVIDED || around->guard.twin)
        mark_divided(step, around);
    else if (around->is_timed)
        name_later(step);
}

/* A request that comes while the work runs under MPS waits for at most `stop_ns`. */
static void count_late(const gs_pace_step *step, const gs_gate_around *around) {
    gs_tenant_page *page = gs_gate_state.page;
    int64_t stop_ns = around->guard.twin ? around->guard.stop_ns : step->expected_ns;
    if (around->graph || around->is_timed || around->piece)
        return;
    if (stop_ns > GS_TENANT_LATE_NS)
        gs_gate_count(&page->late_ns,
                      (uint64_t)((1 - GS_TENANT_LATE_NS / (double)stop_ns) * (double)step->expected_ns));
    if (step->is_learned && (uint64_t)stop_ns > atomic_load_explicit(&page->stop_ns, memory_order_relaxed))
        atomic_store_explicit(&page->stop_ns, (uint64_t)stop_ns, memory_order_relaxed);
}

/* Under the lock. */
static void charge_share(const gs_gate_item *item, const gs_pace_step *step, gs_gate_around *around) {
    uint64_t now_ns = gs_gate_now_ns();
    gs_share_charge(own_share(), (uint64_t)step->expected_ns, step->is_timed, now_ns);
    around->is_numbered =
        is_big_copy(item) ? gs_share_has_others(&waits.share, now_ns) : gs_share_wants_number(&waits.share, now_ns);
}

/* ---- around a launch ---- */

/* While others are quiet, samples are collected at once: they count only if they are collected before it is over. */
static bool collects_now(const gs_gate_item *item) {
    return ++waits.launches % COLLECT_EVERY == 0 || is_graph(item) || waits.cap.percent || waits.share.quiet_until_ns;
}

/* Under the lock, which makes an atomic addition unnecessary. */
static void count_work(uint64_t ns) {
    _Atomic uint64_t *work_ns = &gs_gate_state.page->work_ns;
    atomic_store_explicit(work_ns, atomic_load_explicit(work_ns, memory_order_relaxed) + ns, memory_order_relaxed);
}

/* Decides what the launch needs. */
static gs_pace_step plan_around(const gs_gate_item *item, bool is_calm, bool is_sampled, gs_gate_around *around) {
    pthread_mutex_lock(&waits.lock);
    gs_pace_step step = decide_wait(item);
    if (is_calm && waits.under_way && collects_now(item))
        collect_samples();
    if (step.wants_sample && is_calm && is_sampled)
        around->sample = take_sample(&step);
    charge_cap(step.kernel, step.expected_ns);
    if (is_shared())
        charge_share(item, &step, around);
    count_work((uint64_t)step.expected_ns);
    pthread_mutex_unlock(&waits.lock);
    return step;
}

void gs_gate_wait_before(const gs_gate_item *item, gs_gate_around *around) {
    bool is_calm = !gs_gate_has_captures(), shares = is_shared(), gives_way = has_latency();
    bool is_capped = gs_gate_state.most_percent;
    if (!shares && !gives_way && !is_capped)
        return;
    if (is_capped)
        wait_for_cap();
    if (shares)
        wait_for_share(item->stream);
    bool can_wait = gs_gate_mark_find(is_calm) && gives_way;
    gs_pace_step step = plan_around(item, is_calm, can_wait || shares || is_capped, around);
    if (can_wait && is_calm)
        divide_work(item, &step, around);
    if (can_wait && item->to && item->from)
        around->piece = gs_gate_copy_piece(item->to, item->from, item->bytes);
    if (can_wait && item->what)
        count_late(&step, around);
    if (step.is_long && !around->graph && !around->is_timed && !around->guard.twin)
        gs_gate_name_kernel(item->what, item->launch != NULL, (uint64_t)step.expected_ns, around->guard.reason);
    if (around->is_numbered && is_big_copy(item))
        put_number(item->stream, true);
    if (can_wait && step.must_wait)
        gs_gate_mark_wait(item->stream);
    if (around->sample)
        gs_gate_real.cuEventRecord(around->sample->begin, item->stream);
}

void gs_gate_wait_after(const gs_gate_around *around) {
    gs_gate_sample *sample = around->sample;
    if (around->is_numbered)
        put_number(around->stream, false);
    if (!sample)
        return;
    int code = gs_gate_real.cuEventRecord(sample->end, around->stream);
    pthread_mutex_lock(&waits.lock);
    sample->state = code == GS_CUDA_OK ? SAMPLE_UNDER_WAY : SAMPLE_FREE;
    waits.under_way += code == GS_CUDA_OK;
    pthread_mutex_unlock(&waits.lock);
}

void gs_gate_wait_change(const void *graph, bool is_destroyed) {
    pthread_mutex_lock(&waits.lock);
    (is_destroyed ? gs_pace_forget : gs_pace_change)(&waits.pace, gs_pace_key(graph, NULL));
    pthread_mutex_unlock(&waits.lock);
}

void gs_gate_wait_synchronize(bool is_done) {
    if (gs_gate_state.class != GS_GATE_BEST_EFFORT || !is_shared())
        return;
    pthread_mutex_lock(&waits.lock);
    (is_done ? gs_share_synchronized : gs_share_synchronizes)(own_share(), gs_gate_now_ns());
    pthread_mutex_unlock(&waits.lock);
}

/* The driver maps memory, and takes it back, with all programs' work under way: it changes the GPU's page tables, waits
   until its caches have forgotten the old ones, and clears memory with copy engines. So this waits for the end of a
   request as launches do, but on the host. A request that lasts for too long is not waited for again. */
void gs_gate_wait_memory(void) {
    enum { LOOK_NS = 20000, MOST_NS = 20000000 };
    static _Atomic uint64_t too_long; /* the request */
    if (gs_gate_state.class != GS_GATE_BEST_EFFORT || !gs_gate_is_linked() || !has_latency())
        return;
    uint64_t begun = gs_gate_now_ns(), request = name_request();
    if (!request || request == atomic_load(&too_long))
        return;
    gs_gate_count(&gs_gate_state.page->memory_waits, 1);
    while ((request = name_request()) && gs_gate_now_ns() - begun < MOST_NS && gs_gate_is_linked())
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    if (request)
        atomic_store(&too_long, request);
}

/* Under the lock. Not at a launch: this looks at all kernels. */
static void publish_longest(void) {
    if (waits.has_learned)
        atomic_store_explicit(&gs_gate_state.page->longest_ns, (uint64_t)gs_pace_longest_ns(&waits.pace),
                              memory_order_relaxed);
    waits.has_learned = false;
}

/* What a request loses on average if work of this program runs when it begins, under MPS, beyond what is usual. */
static void publish_lost(void) {
    const gs_tenant_page *page = gs_gate_state.page;
    uint64_t work_ns = atomic_load_explicit(&page->work_ns, memory_order_relaxed);
    double late_ns = (double)atomic_load_explicit(&page->late_ns, memory_order_relaxed),
           stop_ns = (double)atomic_load_explicit(&page->stop_ns, memory_order_relaxed);
    if (gs_gate_state.slot < GS_BOARD_SLOTS && work_ns)
        atomic_store_explicit(&gs_gate_state.board->shares[gs_gate_state.slot].lost_ns,
                              (uint64_t)(late_ns / (double)work_ns * stop_ns), memory_order_relaxed);
}

/* Whether the program works: it has launched something since the last look, or what it launched is not done if it has
   half of the GPU. It may have launched much, and wait for it. */
static void publish_work(void) {
    enum { WORKS_NS = 60000000 };                              /* three looks */
    static uint64_t launches, launched_ns, left_ns, looked_ns; /* used only by the watching thread */
    const gs_tenant_page *page = gs_gate_state.page;
    uint64_t before = launches, launched_before_ns = launched_ns, now = gs_gate_now_ns(),
             done_ns = (now - looked_ns) / 2;
    launches = page->launches + page->graphs + page->copies;
    launched_ns = page->work_ns;
    left_ns += launched_ns - launched_before_ns;
    left_ns -= left_ns < done_ns ? left_ns : done_ns;
    looked_ns = now;
    if (gs_gate_state.slot < GS_BOARD_SLOTS && (launches != before || left_ns))
        atomic_store_explicit(&gs_gate_state.board->shares[gs_gate_state.slot].works_until_ns, now + WORKS_NS,
                              memory_order_relaxed);
}

int64_t gs_gate_wait_look(void) {
    enum { LOOK_NS = 100000000 };
    publish_work();
    publish_lost();
    pthread_mutex_lock(&waits.lock);
    publish_longest();
    if (is_shared())
        gs_share_publish(own_share());
    pthread_mutex_unlock(&waits.lock);
    return LOOK_NS;
}
