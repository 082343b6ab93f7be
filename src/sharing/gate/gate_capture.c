/*
 * gate_capture.c: streams that capture a graph.
 *
 * Launches into such a stream are no work. Many calls of the driver end a capture with an error, in any thread
 * they are made, unless that thread says that it knows better. So no stream that captures is asked for anything, and
 * what this library calls for itself stands between gs_gate_relax and gs_gate_respect.
 */
#include "gate.h"

enum { RELAXED = 2 };

static _Atomic int captures;

void gs_gate_capture_begins(void) {
    atomic_fetch_add(&captures, 1);
}

void gs_gate_capture_ends(void) {
    atomic_fetch_sub(&captures, 1);
}

bool gs_gate_has_captures(void) {
    return atomic_load_explicit(&captures, memory_order_relaxed) > 0;
}

bool gs_gate_is_capturing(void *stream) {
    int status = 0;
    return gs_gate_has_captures() && gs_gate_real.cuStreamIsCapturing &&
           (gs_gate_real.cuStreamIsCapturing(stream, &status) != GS_CUDA_OK || status);
}

int gs_gate_relax(void) {
    int mode = RELAXED;
    if (!gs_gate_real.cuThreadExchangeStreamCaptureMode ||
        gs_gate_real.cuThreadExchangeStreamCaptureMode(&mode) != GS_CUDA_OK)
        return RELAXED;
    return mode;
}

void gs_gate_respect(int mode) {
    if (mode != RELAXED)
        gs_gate_real.cuThreadExchangeStreamCaptureMode(&mode);
}
