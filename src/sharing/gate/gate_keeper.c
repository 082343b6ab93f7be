/*
 * gate_keeper.c: latency, without MPS: a tiny kernel that keeps the GPU for the program while its flag is set.
 *
 * Without MPS the GPU switches to another process when this one has no work, and back when it has: that is 0.3 ms for
 * each gap between two kernels of a request, or between two requests of a stream. So a keeper, a kernel of one thread,
 * is launched when a flag is set. It reads the flag in the memory of the host, time and again, and ends when the flag
 * is clear.
 *
 * A keeper alone would make it worse: the GPU begins to switch when nothing is left to start, though a kernel runs, and
 * what the program launches after that waits for the end of its time slice. So a second kernel stands behind the keeper
 * in its stream, and ends as soon as it starts. The two are launched together or not at all.
 *
 * A keeper must not run while the program waits for all that is in the context. It is told to end before such calls
 * that are known (gs_gate_keeper_end), and ends by itself if the program launches nothing and asks for nothing for a
 * while, unless it waits for a stream or an event. Where it runs, one SM has a warp, a block and 1 KB of shared memory
 * less for others. Its stream has the lowest priority, so that it does not start before what is there.
 */
#include "gate_keeper.h"
#include "gate.h"

#include <stdalign.h>

enum {
    PATIENCE_NS = 500000, /* how long a keeper runs while the program does nothing that is known, */
    MOST_NS = 10000000,   /* and at most */
    MOST_PAIRS = 4,       /* that the GPU has not done yet */
    NON_BLOCKING = 1,
    REGISTER_PORTABLE = 1,
    REGISTER_MAPPED = 2
};

/* A separate page, because it is mapped. */
static alignas(4096) union {
    gs_keeper_words here;
    char page[4096];
} words;

/* Under the lock of gate_work.c, but for what is atomic. */
static struct keeper {
    void *context, *function, *stream;
    gs_gate_pointer flags, words; /* device addresses */
    uint64_t launched_ns;
    _Atomic uint64_t beat_ns;
    _Atomic uint32_t number;  /* of the last pair */
    _Atomic uint32_t blocked; /* threads that wait for all that is in a context */
    _Atomic bool is_out;      /* a pair was launched, and not told to end */
    _Atomic bool is_dropped;
} keeper;

/* ---- launches ---- */

static bool map_words(void) {
    return gs_gate_real.cuMemHostRegister_v2(&words, sizeof words, REGISTER_PORTABLE | REGISTER_MAPPED) == GS_CUDA_OK &&
           gs_gate_real.cuMemHostGetDevicePointer_v2(&keeper.words, &words, 0) == GS_CUDA_OK;
}

static bool make_stream(void) {
    int least = 0, highest = 0;
    return gs_gate_real.cuCtxGetStreamPriorityRange && gs_gate_real.cuStreamCreateWithPriority &&
           gs_gate_real.cuCtxGetStreamPriorityRange(&least, &highest) == GS_CUDA_OK &&
           gs_gate_real.cuStreamCreateWithPriority(&keeper.stream, NON_BLOCKING, least) == GS_CUDA_OK;
}

static bool load(void) {
    void *module = NULL;
    return gs_gate_real.cuModuleLoadData(&module, gs_keeper_image) == GS_CUDA_OK &&
           gs_gate_real.cuModuleGetFunction(&keeper.function, module, GS_KEEPER_NAME) == GS_CUDA_OK;
}

/* In the first context that needs a keeper. */
static void prepare(void *context) {
    int mode = gs_gate_relax();
    keeper.flags = gs_gate_mark_find(true);
    keeper.context = context;
    if (!keeper.flags || !map_words() || !make_stream() || !load())
        gs_gate_keeper_drop();
    gs_gate_respect(mode);
}

static bool is_in_context(void) {
    void *context = NULL;
    if (!gs_gate_real.cuCtxGetCurrent || gs_gate_real.cuCtxGetCurrent(&context) != GS_CUDA_OK || !context)
        return false;
    if (!keeper.context)
        prepare(context);
    return context == keeper.context && !atomic_load(&keeper.is_dropped);
}

static bool launch(uint32_t bit, uint32_t number) {
    uint64_t patience = PATIENCE_NS, most = MOST_NS;
    void *values[] = {&keeper.flags, &keeper.words, &bit, &number, &patience, &most};
    return gs_gate_real.cuLaunchKernel(keeper.function, 1, 1, 1, 1, 1, 1, 0, keeper.stream, values, NULL) == GS_CUDA_OK;
}

/* A keeper, and what stands behind it, which looks at no flag. */
static void launch_pair(uint64_t now_ns) {
    uint32_t number = atomic_fetch_add(&keeper.number, 1) + 1;
    keeper.launched_ns = now_ns;
    atomic_store(&keeper.is_out, true);
    gs_gate_count(&gs_gate_state.page->keepers, 1);
    if (!launch(gs_gate_state.bit, number) || !launch(0, number))
        gs_gate_keeper_drop();
    if (atomic_load(&keeper.blocked)) /* since it was asked */
        gs_gate_keeper_end();
}

/* A keeper is out that will not end by itself soon. */
static bool is_kept(uint64_t now_ns) {
    return atomic_load(&keeper.is_out) && now_ns - atomic_load(&keeper.beat_ns) < PATIENCE_NS / 2 &&
           now_ns - keeper.launched_ns < MOST_NS / 2;
}

/* Whether the GPU has not even done the pairs before the last ones: launches could stop at last, because the stream is
   full. */
static bool is_late(void) {
    return atomic_load(&keeper.number) - atomic_load(&words.here.done) >= MOST_PAIRS;
}

static void beat(uint64_t now_ns) {
    atomic_fetch_add_explicit(&words.here.beats, 1, memory_order_relaxed);
    atomic_store_explicit(&keeper.beat_ns, now_ns, memory_order_relaxed);
}

void gs_gate_keeper_work(uint64_t now_ns) {
    if (atomic_load(&keeper.is_dropped) || atomic_load(&keeper.blocked) || gs_gate_has_captures())
        return;
    bool was_kept = is_kept(now_ns);
    beat(now_ns);
    if (!was_kept && is_in_context() && !is_late())
        launch_pair(now_ns);
}

void gs_gate_keeper_end(void) {
    if (atomic_exchange(&keeper.is_out, false))
        atomic_store(&words.here.ended, atomic_load(&keeper.number));
}

void gs_gate_keeper_drop(void) {
    atomic_store(&keeper.is_dropped, true);
    gs_gate_keeper_end();
}

/* ---- what the program does ---- */

void gs_gate_keeper_beat(void) {
    if (atomic_load_explicit(&keeper.is_out, memory_order_relaxed))
        beat(gs_gate_now_ns());
}

void gs_gate_keeper_waits(bool begins) {
    atomic_fetch_add(&words.here.waits, begins ? 1u : -1u);
    if (!begins)
        gs_gate_keeper_beat();
}

void gs_gate_keeper_blocks(bool begins) {
    atomic_fetch_add(&keeper.blocked, begins ? 1u : -1u);
    if (begins)
        gs_gate_keeper_end();
}
