/*
 * gate_pace.h: where the streams of a best-effort program wait. No driver and no threads: the caller locks.
 *
 * A stream waits for the marks of the board before a launch. Between two such waits at most `ahead_ns` of work goes, so
 * that a request finds the GPU free soon. How long a kernel takes is learned for each function and shape, and for each
 * graph, from samples that are timed.
 */
#ifndef GS_GATE_PACE_H
#define GS_GATE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GS_PACE_KERNELS = 4096, GS_PACE_STREAMS = 256 };

typedef struct gs_pace_kernel {
    uint64_t key;        /* 0: not used */
    int64_t expected_ns; /* 0: not known */
    uint32_t samples, launches;
    bool is_named;   /* people know that it is long */
    bool is_divided; /* a graph that waits in its midst: its time is not learned any more */
} gs_pace_kernel;

typedef struct gs_pace_stream {
    const void *stream;
    int64_t ahead_ns; /* work since its last wait */
    bool has_waited;
} gs_pace_stream;

typedef struct gs_gate_pace {
    int64_t ahead_ns;                                /* of a stream, between two waits */
    gs_pace_kernel kernels[GS_PACE_KERNELS], others; /* `others`: when there are too many */
    gs_pace_stream streams[GS_PACE_STREAMS];
} gs_gate_pace;

/* What goes before and around a launch. */
typedef struct gs_pace_step {
    gs_pace_kernel *kernel;
    int64_t expected_ns;
    bool must_wait;
    bool wants_sample;
    bool is_learned; /* what is expected was measured often enough */
    bool is_long;    /* longer than what may go between two waits, which was not known so far */
} gs_pace_step;

/* A function in a shape. A graph has no shape: `shape` is NULL. Never 0. */
uint64_t gs_pace_key(const void *what, const unsigned *shape);
/* A launch. `is_marked`: there is a mark on the board now. */
gs_pace_step gs_pace_launch(gs_gate_pace *pace, const void *stream, uint64_t key, bool is_marked);
/* The same for a copy or a fill of so many bytes. */
gs_pace_step gs_pace_copy(gs_gate_pace *pace, const void *stream, uint64_t bytes, bool is_marked);
/* It is a graph, and waits in its midst from now on. */
void gs_pace_divide(gs_pace_kernel *kernel);
/* A sample: the launch took so long. */
void gs_pace_learn(gs_pace_kernel *kernel, int64_t ns);
/* The longest kernel that is known. */
int64_t gs_pace_longest_ns(const gs_gate_pace *pace);
/* The kernel's function is gone: another one may get its address. */
void gs_pace_forget(gs_gate_pace *pace, uint64_t key);

#endif
