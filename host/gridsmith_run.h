/*
 * gridsmith_run.h: what gridsmith_run.c (C) offers to kernels (C++, through gridsmith_cuda.h).
 */
#ifndef GRIDSMITH_RUN_H
#define GRIDSMITH_RUN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
typedef struct uint3 gs_uint3;
#else
typedef struct gs_uint3 {
    unsigned x, y, z;
} gs_uint3;
#endif

/* A place in the source; no file: it agrees with every other. */
typedef struct gs_place {
    const char *file;
    int line;
} gs_place;

/* What a thread can wait in, and what a report calls it. */
#define GS_WAIT_KINDS(X)                                                                                               \
    X(GS_WAIT_BARRIER, "__syncthreads")                                                                                \
    X(GS_WAIT_BARRIER_AND, "__syncthreads_and")                                                                        \
    X(GS_WAIT_BARRIER_OR, "__syncthreads_or")                                                                          \
    X(GS_WAIT_BARRIER_COUNT, "__syncthreads_count")                                                                    \
    X(GS_WAIT_SYNCWARP, "__syncwarp")                                                                                  \
    X(GS_WAIT_SHUFFLE, "a shuffle")                                                                                    \
    X(GS_WAIT_VOTE, "a vote")                                                                                          \
    X(GS_WAIT_MATCH, "a match")                                                                                        \
    X(GS_WAIT_REDUCE, "a warp reduction")                                                                              \
    X(GS_WAIT_WMMA, "wmma::mma_sync")
#define GS_WAIT_ENUM(name, words) name,
#define GS_WAIT_NAME(name, words) words,
enum { GS_WAIT_KINDS(GS_WAIT_ENUM) GS_WAITS };

/* Waits for all threads of the block that have not returned; the result of and, or, count where `kind` is one. */
int gs_host_barrier(int kind, int vote, gs_place place);

/* Waits for the lanes of `mask`. The last to come calls `finish` with the `mine` of each (NULL: not there). */
typedef void (*gs_finish)(void **lanes);
void gs_host_warp(int kind, unsigned mask, void *mine, gs_finish finish, gs_place place);

unsigned gs_host_lane(void);   /* of this thread in its warp */
unsigned gs_host_active(void); /* lanes of this warp that have not returned */
unsigned gs_host_sm(void);     /* the pretended SM of this block */
void gs_host_tick(void);       /* counts towards the moment at which a confined kernel is told to stop */

void *gs_host_dynamic(void);
int gs_host_new_slot(void);
void *gs_host_static(int slot, size_t bytes, size_t align);

/* The kernels of the program, made by the translation of the .cu. */
typedef struct gs_kernel {
    const char *name;
    void (*call)(void **arguments);
    unsigned parameters;
    const unsigned *sizes;
    const unsigned char *is_pointer;
} gs_kernel;

#define GS_SHOWN __attribute__((visibility("default")))
extern GS_SHOWN const gs_kernel gs_kernels[];
extern GS_SHOWN const int gs_kernel_count;

/* ---- as a library (GRIDSMITH_LIBRARY), in the process of who loads it ---- */

/* One launch, on as many threads as there are cores, with arguments as the driver of CUDA takes them. */
GS_SHOWN int gs_host_launch(int kernel, const unsigned grid[3], const unsigned block[3], size_t shared_bytes,
                            unsigned sms, void **arguments);

/* The part of a launch that runs on one SM, on the thread that calls: takes blocks from `*next` until that is `end`. */
typedef struct gs_host_part {
    int kernel;
    unsigned grid[3], block[3], sm;
    size_t shared_bytes;
    void **arguments;
    unsigned long long *next, end;
} gs_host_part;
GS_SHOWN void gs_host_serve(const gs_host_part *part);

/* Called with words when a kernel has failed, before the process ends; it may end it itself. */
extern GS_SHOWN void (*gs_host_on_failure)(const char *words);
/* " in block (0,0,0), thread (1,0,0) of NAME", for the thread that calls, if it runs a kernel; for signal handlers. */
GS_SHOWN void gs_host_where(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
