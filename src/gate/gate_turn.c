/*
 * gate_turn.c: the GPU turns to a latency program when a thread wakes that is about to launch.
 *
 * Without MPS the GPU works for one process at a time, and turning to another takes 0.14 ms (docs/run.md). It turns
 * when a process has work. So this file gives it some before the program does: an event, in a stream of its own.
 *
 * The thread that wakes may have locks of the program. So it never waits for a lock here.
 */
#include "gate.h"

#include <pthread.h>
#include <stdatomic.h>

enum { NON_BLOCKING = 1 };

static struct turn {
    pthread_mutex_t lock;
    _Atomic bool is_tried;
    bool is_ready;
    void *context, *stream, *event;
} turn = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool has_calls(void) {
    return gs_gate_real.cuCtxGetCurrent && gs_gate_real.cuStreamCreateWithPriority && gs_gate_real.cuEventCreate &&
           gs_gate_real.cuEventRecord && gs_gate_real.cuCtxGetStreamPriorityRange;
}

/* The stream is one as the program's are. The event is one with a time, for which all of the GPU must turn. */
static bool make(void) {
    int least = 0, highest = 0;
    return has_calls() && gs_gate_real.cuCtxGetCurrent(&turn.context) == GS_CUDA_OK && turn.context &&
           gs_gate_real.cuCtxGetStreamPriorityRange(&least, &highest) == GS_CUDA_OK &&
           gs_gate_real.cuStreamCreateWithPriority(&turn.stream, NON_BLOCKING, highest) == GS_CUDA_OK &&
           gs_gate_real.cuEventCreate(&turn.event, 0) == GS_CUDA_OK;
}

void gs_gate_turn_prepare(void) {
    if (atomic_load_explicit(&turn.is_tried, memory_order_relaxed) || pthread_mutex_trylock(&turn.lock) != 0)
        return;
    if (!turn.is_tried)
        turn.is_ready = make();
    turn.is_tried = true;
    pthread_mutex_unlock(&turn.lock);
}

void gs_gate_turn_now(void) {
    void *context = NULL;
    if (pthread_mutex_trylock(&turn.lock) != 0)
        return;
    if (turn.is_ready && gs_gate_real.cuCtxGetCurrent(&context) == GS_CUDA_OK && context == turn.context)
        turn.is_ready = gs_gate_real.cuEventRecord(turn.event, turn.stream) == GS_CUDA_OK;
    pthread_mutex_unlock(&turn.lock);
}

/* ---- contexts and processes that end ---- */

void gs_gate_turn_stop(void) {
    pthread_mutex_lock(&turn.lock);
}

/* Stream and event end with their context. Another one may follow. */
static void forget(void) {
    turn.is_ready = false;
    turn.is_tried = false;
}

void gs_gate_turn_go_on(bool has_ended, const void *context) {
    if (has_ended && (!context || context == turn.context))
        forget();
    pthread_mutex_unlock(&turn.lock);
}

void gs_gate_turn_forget_parent(void) {
    pthread_mutex_init(&turn.lock, NULL);
    forget();
}
