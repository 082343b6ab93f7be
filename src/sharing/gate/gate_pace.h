/*
 * gate_pace.h: where the streams of a best-effort program wait. No driver and no threads: the caller locks.
 *
 * A stream waits for the board's flags before a launch. At most `ahead_ns` of work goes between two such waits, so that
 * a request finds the GPU free soon. How long a kernel takes is learned for each function and shape, and for each
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
    uint32_t alone;  /* samples while no other best-effort program had work */
    uint32_t unpaid; /* launches that a cap was not charged with, because their time was not known */
    bool is_named;   /* users were told that it is long */
    bool is_divided; /* a graph with waits in it: its duration is not learned any more */
} gs_pace_kernel;

typedef struct gs_pace_stream {
    const void *stream;
    int64_t ahead_ns; /* work since its last wait, */
    uint64_t request; /* which was put there during this request; 0: while there was none */
    bool has_waited;
} gs_pace_stream;

typedef struct gs_gate_pace {
    int64_t ahead_ns;                                /* of a stream, between two waits */
    bool is_shared;                                  /* there are other best-effort programs */
    gs_pace_kernel kernels[GS_PACE_KERNELS], others; /* `others`: all kernels beyond the table */
    gs_pace_stream streams[GS_PACE_STREAMS];
} gs_gate_pace;

/* What is put before and around a launch. */
typedef struct gs_pace_step {
    gs_pace_kernel *kernel;
    int64_t expected_ns;
    bool must_wait;
    bool wants_sample;
    bool is_learned; /* the expected time was measured often enough, */
    bool is_timed;   /* and while no other best-effort program had work */
    bool is_long;    /* longer than the allowed work between two waits, first noticed at this launch */
} gs_pace_step;

/* A function in a shape. A graph has no shape: `shape` is NULL. Never 0. */
uint64_t gs_pace_key(const void *what, const unsigned *shape);
/* A launch. `request` names the request that has begun last, while a flag is set on the board; 0: none is. A wait that
   was put into the stream during the same request has not passed yet, so no other one is needed. */
gs_pace_step gs_pace_launch(gs_gate_pace *pace, const void *stream, uint64_t key, uint64_t request);
/* The same for a copy or a fill of `bytes`. */
gs_pace_step gs_pace_copy(gs_gate_pace *pace, const void *stream, uint64_t bytes, uint64_t request);
/* The graph has waits in it from now on. */
void gs_pace_divide(gs_pace_kernel *kernel);
/* Adds a sample: the duration of a launch. `is_alone`: no other best-effort program had work. */
void gs_pace_learn(gs_pace_kernel *kernel, int64_t ns, bool is_alone);
/* The longest known kernel. */
int64_t gs_pace_longest_ns(const gs_gate_pace *pace);
/* Forgets a kernel whose function was unloaded: another one may get its address. */
void gs_pace_forget(gs_gate_pace *pace, uint64_t key);
/* A graph is changed, and launched whole from now on. It probably takes as long as before: frameworks change parameters
   before each launch. */
void gs_pace_change(gs_gate_pace *pace, uint64_t key);

#endif
