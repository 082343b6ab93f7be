/*
 * watch_notes.h: the library of `gridsmith watch`, a libcuda.so.1 in front of the driver (src/kernels/front).
 *
 *   watch_hooks.c    the hooks
 *   watch_notes.c    what a hook notes in the page
 *   watch_graphs.c   the kernels of graphs
 *   watch_helper.c   a thread that asks for the stacks of other threads and queries streams, when it is told to
 *
 * It never waits for the GPU by itself, and issues nothing. It needs only the C library.
 */
#ifndef GS_WATCH_NOTES_H
#define GS_WATCH_NOTES_H

#include "kernels/front/front.h"
#include "watch_page.h"

/* Functions of the driver that are called here; NULL if the driver lacks them. */
#define GS_WATCH_DRIVER(X)                                                                                             \
    X(cuFuncGetAttribute, (int *, int, const void *))                                                                  \
    X(cuFuncGetName, (const char **, const void *))                                                                    \
    X(cuKernelGetFunction, (void **, const void *))                                                                    \
    X(cuKernelGetName, (const char **, const void *))                                                                  \
    X(cuKernelGetAttribute, (int *, int, const void *, int))                                                           \
    X(cuFuncIsLoaded, (int *, const void *))                                                                           \
    X(cuModuleGetLoadingMode, (int *))                                                                                 \
    X(cuCtxGetCurrent, (void **))                                                                                      \
    X(cuCtxSetCurrent, (void *))                                                                                       \
    X(cuStreamQuery, (void *))                                                                                         \
    X(cuStreamIsCapturing, (void *, int *))                                                                            \
    X(cuThreadExchangeStreamCaptureMode, (int *))                                                                      \
    X(cuCtxGetDevice, (int *))                                                                                         \
    X(cuDeviceGetName, (char *, int, int))                                                                             \
    X(cuDeviceGetAttribute, (int *, int, int))                                                                         \
    X(cuGraphGetNodes, (void *, void **, size_t *))                                                                    \
    X(cuGraphNodeGetType, (void *, int *))                                                                             \
    X(cuGraphKernelNodeGetParams_v2, (void *, void *))                                                                 \
    X(cuGraphChildGraphNodeGetGraph, (void *, void **))                                                                \
    X(cuGraphGetEdges_v2, (void *, void **, void **, void *, size_t *))                                                \
    X(cuGraphBatchMemOpNodeGetParams, (void *, void *))                                                                \
    X(cuStreamGetGreenCtx, (void *, void **))                                                                          \
    X(cuGreenCtxGetDevResource, (void *, void *, int))

#define GS_WATCH_POINTER(name, arguments) int(*name) arguments;
typedef struct gs_watch_driver {
    GS_WATCH_DRIVER(GS_WATCH_POINTER)
} gs_watch_driver;

extern gs_watch_driver gs_watch_driver_functions;
extern gs_watch_page *gs_watch_shared; /* NULL: nothing is noted */

/* CUstreamBatchMemOpParams. */
typedef struct gs_watch_batch {
    int kind;
    uint64_t address, value;
    unsigned flags;
    uint64_t unused[2];
} gs_watch_batch;

enum { GS_WATCH_BATCH_WAIT = 1, GS_WATCH_BATCH_WRITE = 2, GS_WATCH_BATCH_WAIT_64 = 4, GS_WATCH_BATCH_WRITE_64 = 5 };

static inline bool gs_watch_batch_waits(const gs_watch_batch *operation) {
    return operation->kind == GS_WATCH_BATCH_WAIT || operation->kind == GS_WATCH_BATCH_WAIT_64;
}

/* A call of the driver that is hooked. */
typedef struct gs_watch_call {
    uint32_t call; /* its place in `calls` */
    bool per_thread;
    gs_watch_thread *thread;
    uint32_t before; /* the call that this one is made within */
    int64_t at_ns;
    gs_watch_stream *stream; /* NULL: without a stream */
    gs_watch_operation *operation;
    uint64_t number; /* of the operation, or the last one of the stream when the call began */
} gs_watch_call;

/* CUDA starts. False: nothing is noted, or already is. */
bool gs_watch_start(const char *const *names, const uint32_t *classes, uint32_t count);
int64_t gs_watch_now_ns(void);
gs_watch_thread *gs_watch_own_thread(void); /* NULL: too many threads */
/* Before and after a call of the driver. */
void gs_watch_enter(gs_watch_call *call, const void *stream, uint64_t object);
void gs_watch_leave(gs_watch_call *call);
/* The call issues an operation to its stream. */
gs_watch_operation *gs_watch_issue(gs_watch_call *call, gs_watch_kind kind);
/* The operation is complete in the page; or the call failed. */
void gs_watch_issued(gs_watch_call *call, int result);

/* An image that is loaded, for those who look at the code of kernels. */
void gs_watch_image(const void *image);
/* The place of a CUkernel or CUfunction of a graph that was instantiated, plus 1; 0: there is no place. */
uint32_t gs_watch_function_place(const void *handle);
/* A call loads a CUkernel or CUfunction; it was loaded, before its first launch. */
void gs_watch_loads(gs_watch_call *call, const void *handle);
void gs_watch_loaded(const void *handle);
void gs_watch_kernel(gs_watch_call *call, const void *function, const unsigned *shape, unsigned shared_bytes);
/* The communicator of a collective of NCCL, from what its kernel is launched with. */
void gs_watch_communicator(gs_watch_operation *operation, void *const *extra);
void gs_watch_kernel_done(gs_watch_call *call, const void *function);
void gs_watch_event_recorded(gs_watch_call *call, uint64_t event);
void gs_watch_event_awaited(gs_watch_call *call, uint64_t event);
void gs_watch_event_done(uint64_t event, bool is_forgotten);
/* The stream, or all streams of a context (NULL: of the current one), have ended all operations that were issued before
   the call began. */
void gs_watch_stream_done(gs_watch_call *call);
void gs_watch_all_done(gs_watch_call *call, const void *context);
void gs_watch_polled(gs_watch_call *call, uint64_t object, int result);
void gs_watch_stream_new(const void *stream, unsigned flags, int priority);
void gs_watch_stream_gone(const void *stream);
/* Memory that another process may write was given to the GPU. */
void gs_watch_shares(void);
void gs_watch_captures(const void *stream, bool per_thread, bool captures);

/* The host function of an operation, or the older form, a callback; the driver gets this in its place. */
typedef struct gs_watch_host {
    void (*function)(void *);
    void (*callback)(void *, int, void *);
    void *data;
    gs_watch_stream *stream;
    gs_watch_operation *operation;
    uint64_t number;
} gs_watch_host;
/* NULL: it is not watched, because the stream captures or there is no memory. */
gs_watch_host *gs_watch_host_new(gs_watch_call *call, void *stream, void (*function)(void *), void *data);
void gs_watch_host_run(void *host);
void gs_watch_host_call(void *stream, int result, void *host);

/* ---- watch_graphs.c ---- */

/* An executable graph was made from this one. */
void gs_watch_graph_made(void *executable, void *graph);

/* ---- watch_helper.c ---- */

void gs_watch_helper_start(void);

#endif
