/*
 * gate_pace.c: where the streams of a best-effort program wait. See gate_pace.h.
 *
 * An unknown kernel is assumed to be long: it is preceded by a wait, and timed.
 */
#include "gate_pace.h"

enum {
    FIRST_SAMPLES = 4,    /* of each kernel, */
    ALONE_SAMPLES = 2,    /* of each kernel without other best-effort programs: the first launch may load code */
    SAMPLE_MORE = 4,      /* until then one of this many launches is timed, */
    SAMPLE_EVERY = 1024,  /* and after it one of this many; both are powers of two */
    UNKNOWN_NS = 1000000, /* assumed for a kernel that was not timed yet */
    COPY_BYTES_PER_NS = 1000,
    COPY_NS = 2000
};

uint64_t gs_pace_key(const void *what, const unsigned *shape) {
    uint64_t key = (uint64_t)(uintptr_t)what * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 6 && shape; i++)
        key = (key ^ shape[i]) * 0xff51afd7ed558ccdu;
    key ^= key >> 32;
    return key ? key : 1;
}

static gs_pace_kernel *find_kernel(gs_gate_pace *pace, uint64_t key) {
    enum { TRIES = 16 };
    for (size_t i = 0; i < TRIES; i++) {
        gs_pace_kernel *kernel = &pace->kernels[(key + i) % GS_PACE_KERNELS];
        if (!kernel->key)
            kernel->key = key;
        if (kernel->key == key)
            return kernel;
    }
    return &pace->others;
}

void gs_pace_forget(gs_gate_pace *pace, uint64_t key) {
    gs_pace_kernel *kernel = find_kernel(pace, key);
    kernel->expected_ns = 0; /* the entry stays: others may be found behind it */
    kernel->samples = kernel->alone = kernel->launches = 0;
    kernel->is_named = kernel->is_divided = false;
}

void gs_pace_change(gs_gate_pace *pace, uint64_t key) {
    gs_pace_kernel *kernel = find_kernel(pace, key);
    kernel->is_named &= !kernel->is_divided;
    kernel->is_divided = false;
}

void gs_pace_divide(gs_pace_kernel *kernel) {
    kernel->is_divided = true;
}

/* The state of a stream. A stream that was evicted waits once more than needed. */
static gs_pace_stream *find_stream(gs_gate_pace *pace, const void *stream) {
    enum { TRIES = 4 };
    size_t start = (uintptr_t)stream / 16 * 31 % GS_PACE_STREAMS;
    for (size_t i = 0; i < TRIES; i++) {
        gs_pace_stream *found = &pace->streams[(start + i) % GS_PACE_STREAMS];
        if (found->has_waited && found->stream == stream)
            return found;
        if (!found->has_waited) {
            found->stream = stream;
            return found;
        }
    }
    pace->streams[start] = (gs_pace_stream){.stream = stream};
    return &pace->streams[start];
}

static gs_pace_step step_ahead(gs_gate_pace *pace, const void *stream, int64_t ns, uint64_t request) {
    gs_pace_stream *state = find_stream(pace, stream);
    gs_pace_step step = {.expected_ns = ns};
    bool has_begun = request && state->request != request; /* since its last wait */
    step.must_wait = has_begun || !state->has_waited || state->ahead_ns + ns > pace->ahead_ns;
    state->ahead_ns = step.must_wait ? ns : state->ahead_ns + ns;
    state->request = step.must_wait ? request : state->request;
    state->has_waited = true;
    return step;
}

gs_pace_step gs_pace_launch(gs_gate_pace *pace, const void *stream, uint64_t key, uint64_t request) {
    gs_pace_kernel *kernel = find_kernel(pace, key);
    bool is_known = kernel->samples > 0;
    int64_t ns = is_known ? kernel->expected_ns : UNKNOWN_NS;
    bool is_divided = kernel->is_divided && ns > pace->ahead_ns;
    gs_pace_step step = step_ahead(pace, stream, is_divided ? pace->ahead_ns : ns, request);
    step.expected_ns = is_known ? ns : 0;
    step.kernel = kernel;
    step.is_learned = kernel->samples >= FIRST_SAMPLES;
    step.is_long = step.is_learned && ns > pace->ahead_ns && !kernel->is_named && !is_divided;
    kernel->is_named |= step.is_long;
    step.is_timed = kernel->alone >= ALONE_SAMPLES || is_divided;
    uint32_t every = pace->is_shared && !step.is_timed ? SAMPLE_MORE : SAMPLE_EVERY;
    step.wants_sample = (!step.is_learned || !(kernel->launches & (every - 1))) && !is_divided;
    kernel->launches++;
    return step;
}

gs_pace_step gs_pace_copy(gs_gate_pace *pace, const void *stream, uint64_t bytes, uint64_t request) {
    gs_pace_step step = step_ahead(pace, stream, COPY_NS + (int64_t)(bytes / COPY_BYTES_PER_NS), request);
    step.is_timed = true;
    return step;
}

/* A first launch may load code, and any launch may come late or run beside a request: the shortest time counts. A
   lasting increase is learned slowly, unless others may be its reason. */
void gs_pace_learn(gs_pace_kernel *kernel, int64_t ns, bool is_alone) {
    if (ns < 1)
        ns = 1;
    if (!kernel->samples || ns < kernel->expected_ns)
        kernel->expected_ns = ns;
    else if (kernel->samples >= FIRST_SAMPLES && is_alone)
        kernel->expected_ns += (ns - kernel->expected_ns) / 8;
    kernel->samples++;
    kernel->alone += is_alone;
}

int64_t gs_pace_longest_ns(const gs_gate_pace *pace) {
    int64_t longest = 0;
    for (size_t i = 0; i < GS_PACE_KERNELS; i++)
        if (pace->kernels[i].samples >= FIRST_SAMPLES && !pace->kernels[i].is_divided &&
            pace->kernels[i].expected_ns > longest)
            longest = pace->kernels[i].expected_ns;
    return longest;
}
