/*
 * gridsmith_run.h: the functions of gridsmith_run.c.
 *
 * Kernels call them through gridsmith_cuda.h (C++) or gridsmith_ptx.h (C made from PTX). The last part is for programs
 * that load compiled kernels as a library.
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

/* A place in the source. A place without a file is equal to every other. */
typedef struct gs_place {
    const char *file;
    int line;
} gs_place;

/* The operations in which a thread can wait, and their names in messages. */
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
    X(GS_WAIT_WMMA, "wmma::mma_sync")                                                                                  \
    X(GS_WAIT_BAR, "bar.sync")                                                                                         \
    X(GS_WAIT_BAR_AND, "bar.red.and")                                                                                  \
    X(GS_WAIT_BAR_OR, "bar.red.or")                                                                                    \
    X(GS_WAIT_BAR_POPC, "bar.red.popc")                                                                                \
    X(GS_WAIT_BARRIER_ARRIVE, "bar.arrive")                                                                            \
    X(GS_WAIT_BAR_WARP, "bar.warp.sync")                                                                               \
    X(GS_WAIT_ELECT, "elect.sync")                                                                                     \
    X(GS_WAIT_MATRIX, "a matrix instruction")
#define GS_WAIT_ENUM(name, text) name,
#define GS_WAIT_NAME(name, text) text,
enum { GS_WAIT_KINDS(GS_WAIT_ENUM) GS_WAITS };

/* Waits for all threads of the block that have not returned. Returns the result of the and, or, or count if `kind` is
   one of these. */
int gs_host_barrier(int kind, int vote, gs_place place);

/* The barriers of PTX: one of 16, for all threads or a number of them. The kind says what is computed from the votes;
   GS_WAIT_BARRIER_ARRIVE does not wait. The scope says which threads must be at the same place. */
enum { GS_BARRIERS = 16 };
enum { GS_SCOPE_OF_THREAD, GS_SCOPE_OF_WARP, GS_SCOPE_OF_BLOCK };
typedef struct gs_barrier {
    unsigned number, count; /* count 0: all threads that have not returned */
    int kind, vote, scope;
    gs_place place;
} gs_barrier;
int gs_host_barrier_at(const gs_barrier *barrier);

/* Waits for the lanes of `mask`. The last lane to arrive calls `finish` with the `mine` of each lane (NULL: not in the
   mask, or returned). */
typedef void (*gs_finish)(void **lanes);
void gs_host_warp(int kind, unsigned mask, void *mine, gs_finish finish, gs_place place);

unsigned gs_host_lane(void);   /* of this thread in its warp */
unsigned gs_host_active(void); /* lanes of this warp that have not returned */
/* The lanes of this warp that are at this instruction when no lane can continue, including this one. A line may have
   several instructions. */
unsigned gs_host_active_at(gs_place place, unsigned instruction);
unsigned gs_host_sm(void);  /* the simulated SM of this block */
unsigned gs_host_sms(void); /* the number of simulated SMs */

void gs_host_yield(void);                          /* lets the other threads of the block run */
void gs_host_exit(void) __attribute__((noreturn)); /* the thread returns */
/* Ends the process with a message, to which the block and the thread are added. */
void gs_host_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void gs_host_stack(char **first, char **end); /* of this thread */
void gs_host_indices(gs_uint3 *thread, gs_uint3 *block_size, gs_uint3 *block, gs_uint3 *grid_size);

void *gs_host_dynamic(void);
void *gs_host_shared(size_t *bytes); /* kernels made from PTX: all shared memory of the block */
int gs_host_new_slot(void);
void *gs_host_static(int slot, size_t bytes, size_t align);

/* The kernels of the program. This table is generated by the translation of the .cu. */
enum { GS_MAYBE_POINTER = 2 };
typedef struct gs_kernel {
    const char *name;
    void (*call)(void **arguments);
    unsigned parameters;
    const unsigned *sizes;
    const unsigned char *is_pointer; /* of each parameter: 0, 1, or GS_MAYBE_POINTER */
    size_t shared_bytes;             /* static shared memory, before the dynamic one */
    size_t local_bytes;              /* of the stack of a thread, in addition to the usual size */
    size_t array_bytes;              /* of it, local variables that are declared */
} gs_kernel;

#define GS_SHOWN __attribute__((visibility("default")))
extern GS_SHOWN const gs_kernel gs_kernels[];
extern GS_SHOWN const int gs_kernel_count;

/* Bytes after each variable of the program, which kernels should not read: they are filled like shared memory. The list
   ends with a NULL; programs from .cu files have none. */
typedef struct gs_tail {
    unsigned char *at;
    size_t bytes;
} gs_tail;
extern const gs_tail gs_tails[] __attribute__((weak));

/* ---- as a library (GRIDSMITH_LIBRARY), in the process that loads it ---- */

/* One launch, on one thread per core. The arguments are as for cuLaunchKernel. */
GS_SHOWN int gs_host_launch(int kernel, const unsigned grid[3], const unsigned block[3], size_t shared_bytes,
                            unsigned sms, void **arguments);

/* The part of a launch that runs on one SM, on the calling thread: takes blocks from `*next` until that reaches
   `end`. */
typedef struct gs_host_part {
    int kernel;
    unsigned grid[3], block[3], sm;
    size_t shared_bytes;
    void **arguments;
    unsigned long long *next, end;
} gs_host_part;
GS_SHOWN void gs_host_serve(const gs_host_part *part);

/* Called with a message when a kernel has failed, before the process ends. It may end the process itself. */
extern GS_SHOWN void (*gs_host_on_failure)(const char *message);
/* The same when memory for running a kernel cannot be allocated, which is not an error of the kernel. */
extern GS_SHOWN void (*gs_host_on_shortage)(const char *message);
/* If not NULL, memory that kernels take for themselves is requested first: the stack of a thread beyond GS_STACK_BYTES
   and `array_bytes`, and malloc. 0: there is none. A stack is extended by gs_host_extend_stack, which the handler of
   SIGSEGV calls with the address; 0: it is not an address of the stack, or there is no memory. */
enum { GS_STACK_BYTES = 16 << 10 };
enum { GS_HOST_STACK, GS_HOST_HEAP };
extern GS_SHOWN int (*gs_host_take_memory)(int kind, size_t bytes);
extern GS_SHOWN void (*gs_host_give_memory)(int kind, size_t bytes);
GS_SHOWN int gs_host_extend_stack(const void *address);
/* malloc and free of kernels. */
void *gs_host_allocate(size_t bytes);
void gs_host_free(void *memory);
/* " in block (0,0,0), thread (1,0,0) of NAME", if the calling thread runs a kernel, else "". May be called in a signal
   handler. */
GS_SHOWN void gs_host_where(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
