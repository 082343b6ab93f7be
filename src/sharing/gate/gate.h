/*
 * gate.h: the libcuda.so.1 of `gridsmith run`, which stands between a program and the driver. See docs/run.md.
 *
 * It exports every function of the driver (src/kernels/front); those for work, synchronization and memory are hooks.
 * Without a daemon a program runs as if this library were not there.
 *
 *   gate_driver.c        the functions of the real driver that hooks need
 *   gate_slice.c         time slices
 *   gate_table.c         a function in place of one that the driver calls
 *   gate_link.c          the daemon: the board, the page and the notice
 *   gate_hold.c          best effort: flags that stay set for too long
 *   gate_pace.c          best effort: where streams wait, and how long kernels take
 *   gate_share.c         best effort: which program may launch, if there are several or its share is capped
 *   gate_graph.c         best effort: long graphs with waits in them
 *   gate_parts.c         best effort: the nodes of a graph, and edges between them
 *   gate_node.c          best effort: how long nodes take, and those that can be stopped
 *   gate_cut.c           best effort: at which nodes a graph can be cut
 *   gate_copy.c          best effort: big copies in pieces
 *   gate_names.c         best effort: the names of kernels that take too long
 *   gate_twin.c          best effort: long kernels once more, with a guard that can stop them
 *   gate_chain.c         best effort: which kernels are worth it, and how often they can be stopped
 *   gate_guard.c         best effort: launches such a kernel
 *   gate_mark.c          the board's flags on the device
 *   gate_capture.c       streams that capture a graph
 *   gate_wait.c          best effort: waits and samples put into streams
 *   gate_request.c       latency: which streams have work, and what announces it
 *   gate_gap.c           latency: whether the next request comes soon
 *   gate_work.c          latency: flags on the board
 *   gate_keeper.c        latency: a kernel that keeps the GPU in moments without work
 *   gate_keeper_image.c  that kernel, in PTX
 *   gate_memory.c        how much device memory the program may have
 *   gate_hooks.c         the hooks
 *
 * The library needs only the C library. Its state is global because the driver's interface has no handle for it.
 */
#ifndef GS_GATE_H
#define GS_GATE_H

#include "kernels/front/front.h"
#include "sharing/client/client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The driver's types: all handles are pointers. */
typedef unsigned long long gs_gate_pointer;

typedef struct gs_gate_config { /* CUlaunchConfig */
    unsigned shape[6];          /* of the grid and of the block */
    unsigned shared_bytes;
    void *stream;
    void *attributes;
    unsigned attribute_count;
} gs_gate_config;

/* ---- gate_driver.c ---- */

/* Functions of the driver that this library calls. For a hooked function, this is the real one. */
#define GS_GATE_CALLS(X)                                                                                               \
    X(cuInit, (unsigned))                                                                                              \
    X(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))        \
    X(cuLaunchKernel_ptsz,                                                                                             \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))        \
    X(cuLaunchKernelEx, (const gs_gate_config *, void *, void **, void **))                                            \
    X(cuLaunchKernelEx_ptsz, (const gs_gate_config *, void *, void **, void **))                                       \
    X(cuLaunchCooperativeKernel,                                                                                       \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **))                 \
    X(cuLaunchCooperativeKernel_ptsz,                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **))                 \
    X(cuGraphLaunch, (void *, void *))                                                                                 \
    X(cuGraphLaunch_ptsz, (void *, void *))                                                                            \
    X(cuGraphExecDestroy, (void *))                                                                                    \
    X(cuGraphInstantiate, (void **, void *, void **, char *, size_t))                                                  \
    X(cuGraphInstantiate_v2, (void **, void *, void **, char *, size_t))                                               \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                              \
    X(cuGraphInstantiateWithParams, (void **, void *, void *))                                                         \
    X(cuGraphInstantiateWithParams_ptsz, (void **, void *, void *))                                                    \
    X(cuGraphExecUpdate, (void *, void *, void *, void *))                                                             \
    X(cuGraphExecUpdate_v2, (void *, void *, void *))                                                                  \
    X(cuGraphExecKernelNodeSetParams, (void *, void *, const void *))                                                  \
    X(cuGraphExecKernelNodeSetParams_v2, (void *, void *, const void *))                                               \
    X(cuGraphExecMemcpyNodeSetParams, (void *, void *, const void *, void *))                                          \
    X(cuGraphExecMemsetNodeSetParams, (void *, void *, const void *, void *))                                          \
    X(cuGraphExecHostNodeSetParams, (void *, void *, const void *))                                                    \
    X(cuGraphExecChildGraphNodeSetParams, (void *, void *, void *))                                                    \
    X(cuGraphExecEventRecordNodeSetEvent, (void *, void *, void *))                                                    \
    X(cuGraphExecEventWaitNodeSetEvent, (void *, void *, void *))                                                      \
    X(cuGraphExecExternalSemaphoresSignalNodeSetParams, (void *, void *, const void *))                                \
    X(cuGraphExecExternalSemaphoresWaitNodeSetParams, (void *, void *, const void *))                                  \
    X(cuGraphExecBatchMemOpNodeSetParams, (void *, void *, const void *))                                              \
    X(cuGraphExecNodeSetParams, (void *, void *, void *))                                                              \
    X(cuGraphNodeSetEnabled, (void *, void *, unsigned))                                                               \
    X(cuGraphClone, (void **, void *))                                                                                 \
    X(cuGraphNodeFindInClone, (void **, void *, void *))                                                               \
    X(cuGraphDestroyNode, (void *))                                                                                    \
    X(cuGraphAddEventRecordNode, (void **, void *, void *const *, size_t, void *))                                     \
    X(cuGraphAddKernelNode_v2, (void **, void *, void *const *, size_t, const void *))                                 \
    X(cuGraphAddMemsetNode, (void **, void *, void *const *, size_t, const void *, void *))                            \
    X(cuGraphKernelNodeGetParams_v2, (void *, void *))                                                                 \
    X(cuGraphKernelNodeGetAttribute, (void *, int, void *))                                                            \
    X(cuGraphKernelNodeCopyAttributes, (void *, void *))                                                               \
    X(cuGraphDestroy, (void *))                                                                                        \
    X(cuGraphGetNodes, (void *, void **, size_t *))                                                                    \
    X(cuGraphNodeGetType, (void *, int *))                                                                             \
    X(cuGraphGetEdges_v2, (void *, void **, void **, void *, size_t *))                                                \
    X(cuGraphAddBatchMemOpNode, (void **, void *, void *const *, size_t, const void *))                                \
    X(cuGraphAddDependencies_v2, (void *, void *const *, void *const *, const void *, size_t))                         \
    X(cuGraphRemoveDependencies_v2, (void *, void *const *, void *const *, const void *, size_t))                      \
    X(cuCtxGetCurrent, (void **))                                                                                      \
    X(cuMemcpyHtoDAsync_v2, (gs_gate_pointer, const void *, size_t, void *))                                           \
    X(cuMemcpyHtoDAsync_v2_ptsz, (gs_gate_pointer, const void *, size_t, void *))                                      \
    X(cuMemcpyDtoHAsync_v2, (void *, gs_gate_pointer, size_t, void *))                                                 \
    X(cuMemcpyDtoHAsync_v2_ptsz, (void *, gs_gate_pointer, size_t, void *))                                            \
    X(cuMemcpyDtoDAsync_v2, (gs_gate_pointer, gs_gate_pointer, size_t, void *))                                        \
    X(cuMemcpyDtoDAsync_v2_ptsz, (gs_gate_pointer, gs_gate_pointer, size_t, void *))                                   \
    X(cuMemcpyAsync, (gs_gate_pointer, gs_gate_pointer, size_t, void *))                                               \
    X(cuMemcpyAsync_ptsz, (gs_gate_pointer, gs_gate_pointer, size_t, void *))                                          \
    X(cuMemsetD8Async, (gs_gate_pointer, unsigned char, size_t, void *))                                               \
    X(cuMemsetD8Async_ptsz, (gs_gate_pointer, unsigned char, size_t, void *))                                          \
    X(cuMemsetD16Async, (gs_gate_pointer, unsigned short, size_t, void *))                                             \
    X(cuMemsetD16Async_ptsz, (gs_gate_pointer, unsigned short, size_t, void *))                                        \
    X(cuMemsetD32Async, (gs_gate_pointer, unsigned, size_t, void *))                                                   \
    X(cuMemsetD32Async_ptsz, (gs_gate_pointer, unsigned, size_t, void *))                                              \
    X(cuMemcpy2DAsync_v2, (const void *, void *))                                                                      \
    X(cuMemcpy2DAsync_v2_ptsz, (const void *, void *))                                                                 \
    X(cuMemcpy3DAsync_v2, (const void *, void *))                                                                      \
    X(cuMemcpy3DAsync_v2_ptsz, (const void *, void *))                                                                 \
    X(cuMemcpyPeerAsync, (gs_gate_pointer, void *, gs_gate_pointer, void *, size_t, void *))                           \
    X(cuMemcpyPeerAsync_ptsz, (gs_gate_pointer, void *, gs_gate_pointer, void *, size_t, void *))                      \
    X(cuMemsetD2D8Async, (gs_gate_pointer, size_t, unsigned char, size_t, size_t, void *))                             \
    X(cuMemsetD2D8Async_ptsz, (gs_gate_pointer, size_t, unsigned char, size_t, size_t, void *))                        \
    X(cuMemsetD2D16Async, (gs_gate_pointer, size_t, unsigned short, size_t, size_t, void *))                           \
    X(cuMemsetD2D16Async_ptsz, (gs_gate_pointer, size_t, unsigned short, size_t, size_t, void *))                      \
    X(cuMemsetD2D32Async, (gs_gate_pointer, size_t, unsigned, size_t, size_t, void *))                                 \
    X(cuMemsetD2D32Async_ptsz, (gs_gate_pointer, size_t, unsigned, size_t, size_t, void *))                            \
    X(cuMemcpyDtoH_v2, (void *, gs_gate_pointer, size_t))                                                              \
    X(cuMemcpyDtoH_v2_ptds, (void *, gs_gate_pointer, size_t))                                                         \
    X(cuStreamSynchronize, (void *))                                                                                   \
    X(cuStreamSynchronize_ptsz, (void *))                                                                              \
    X(cuStreamQuery, (void *))                                                                                         \
    X(cuStreamQuery_ptsz, (void *))                                                                                    \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuCtxSynchronize_v2, (void *))                                                                                   \
    X(cuEventRecord, (void *, void *))                                                                                 \
    X(cuEventRecord_ptsz, (void *, void *))                                                                            \
    X(cuEventRecordWithFlags, (void *, void *, unsigned))                                                              \
    X(cuEventRecordWithFlags_ptsz, (void *, void *, unsigned))                                                         \
    X(cuEventSynchronize, (void *))                                                                                    \
    X(cuEventQuery, (void *))                                                                                          \
    X(cuEventCreate, (void **, unsigned))                                                                              \
    X(cuEventDestroy_v2, (void *))                                                                                     \
    X(cuEventElapsedTime, (float *, void *, void *))                                                                   \
    X(cuStreamCreate, (void **, unsigned))                                                                             \
    X(cuStreamCreateWithPriority, (void **, unsigned, int))                                                            \
    X(cuCtxGetStreamPriorityRange, (int *, int *))                                                                     \
    X(cuStreamDestroy_v2, (void *))                                                                                    \
    X(cuStreamBeginCapture, (void *))                                                                                  \
    X(cuStreamBeginCapture_ptsz, (void *))                                                                             \
    X(cuStreamBeginCapture_v2, (void *, int))                                                                          \
    X(cuStreamBeginCapture_v2_ptsz, (void *, int))                                                                     \
    X(cuStreamBeginCaptureToGraph, (void *, void *, const void *, const void *, size_t, int))                          \
    X(cuStreamBeginCaptureToGraph_ptsz, (void *, void *, const void *, const void *, size_t, int))                     \
    X(cuStreamEndCapture, (void *, void **))                                                                           \
    X(cuStreamEndCapture_ptsz, (void *, void **))                                                                      \
    X(cuStreamIsCapturing, (void *, int *))                                                                            \
    X(cuThreadExchangeStreamCaptureMode, (int *))                                                                      \
    X(cuStreamWaitValue32_v2, (void *, gs_gate_pointer, unsigned, unsigned))                                           \
    X(cuStreamWriteValue32_v2, (void *, gs_gate_pointer, unsigned, unsigned))                                          \
    X(cuMemHostRegister_v2, (void *, size_t, unsigned))                                                                \
    X(cuPointerGetAttribute, (void *, int, gs_gate_pointer))                                                           \
    X(cuMemHostGetDevicePointer_v2, (gs_gate_pointer *, void *, unsigned))                                             \
    X(cuMemAlloc_v2, (gs_gate_pointer *, size_t))                                                                      \
    X(cuMemAllocPitch_v2, (gs_gate_pointer *, size_t *, size_t, size_t, unsigned))                                     \
    X(cuMemAllocManaged, (gs_gate_pointer *, size_t, unsigned))                                                        \
    X(cuMemAllocAsync, (gs_gate_pointer *, size_t, void *))                                                            \
    X(cuMemAllocAsync_ptsz, (gs_gate_pointer *, size_t, void *))                                                       \
    X(cuMemAllocFromPoolAsync, (gs_gate_pointer *, size_t, void *, void *))                                            \
    X(cuMemAllocFromPoolAsync_ptsz, (gs_gate_pointer *, size_t, void *, void *))                                       \
    X(cuMemCreate, (gs_gate_pointer *, size_t, const void *, unsigned long long))                                      \
    X(cuMemFree_v2, (gs_gate_pointer))                                                                                 \
    X(cuMemFreeAsync, (gs_gate_pointer, void *))                                                                       \
    X(cuMemFreeAsync_ptsz, (gs_gate_pointer, void *))                                                                  \
    X(cuMemRelease, (gs_gate_pointer))                                                                                 \
    X(cuMemMap, (gs_gate_pointer, size_t, size_t, gs_gate_pointer, unsigned long long))                                \
    X(cuMemSetAccess, (gs_gate_pointer, size_t, const void *, size_t))                                                 \
    X(cuMemUnmap, (gs_gate_pointer, size_t))                                                                           \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                                     \
    X(cuMemAllocHost_v2, (void **, size_t))                                                                            \
    X(cuMemFreeHost, (void *))                                                                                         \
    X(cuMemHostUnregister, (void *))                                                                                   \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                           \
    X(cuDeviceTotalMem_v2, (size_t *, int))                                                                            \
    X(cuModuleLoad, (void **, const char *))                                                                           \
    X(cuModuleLoadData, (void **, const void *))                                                                       \
    X(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))                                           \
    X(cuModuleLoadFatBinary, (void **, const void *))                                                                  \
    X(cuModuleUnload, (void *))                                                                                        \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    X(cuModuleGetGlobal_v2, (gs_gate_pointer *, size_t *, void *, const char *))                                       \
    X(cuLibraryLoadData, (void **, const void *, int *, void **, unsigned, int *, void **, unsigned))                  \
    X(cuLibraryLoadFromFile, (void **, const char *, int *, void **, unsigned, int *, void **, unsigned))              \
    X(cuLibraryUnload, (void *))                                                                                       \
    X(cuLibraryGetKernel, (void **, void *, const char *))                                                             \
    X(cuLibraryEnumerateKernels, (void **, unsigned, void *))                                                          \
    X(cuLibraryGetModule, (void **, void *))                                                                           \
    X(cuLibraryGetGlobal, (gs_gate_pointer *, size_t *, void *, const char *))                                         \
    X(cuKernelGetFunction, (void **, void *))                                                                          \
    X(cuKernelGetLibrary, (void **, void *))                                                                           \
    X(cuFuncGetModule, (void **, void *))                                                                              \
    X(cuFuncGetAttribute, (int *, int, void *))                                                                        \
    X(cuFuncSetAttribute, (void *, int, int))                                                                          \
    X(cuFuncGetParamInfo, (void *, size_t, size_t *, size_t *))                                                        \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, void *, int, size_t))                                       \
    X(cuCtxGetDevice, (int *))                                                                                         \
    X(cuDeviceGetAttribute, (int *, int, int))                                                                         \
    X(cuDeviceGetUuid_v2, (unsigned char *, int))                                                                      \
    X(cuCtxDestroy_v2, (void *))                                                                                       \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                                             \
    X(cuDevicePrimaryCtxReset_v2, (int))                                                                               \
    X(cuFuncGetName, (const char **, const void *))                                                                    \
    X(cuKernelGetName, (const char **, const void *))

#define GS_GATE_CALL(name, arguments) int(*name) arguments;
typedef struct gs_gate_calls {
    GS_GATE_CALLS(GS_GATE_CALL)
} gs_gate_calls;
#undef GS_GATE_CALL

/* A call that the driver lacks is NULL. */
extern gs_gate_calls gs_gate_real;

/* ---- gate_slice.c ---- */

/* Before the driver makes a context. */
void gs_gate_slice_install(void *driver);
/* Sets the time slices of all contexts, also of those that the driver will make. 0: the driver's default. Returns the
   slice in force. */
uint64_t gs_gate_slice_set(uint64_t us);

/* ---- gate_link.c ---- */

enum { GS_GATE_WEIGHT = 100 }; /* the default */
enum gs_gate_class { GS_GATE_NONE, GS_GATE_LATENCY, GS_GATE_BEST_EFFORT };

typedef struct gs_gate_link {
    enum gs_gate_class class;
    gs_board *board; /* this and the next two: not used while not connected */
    gs_tenant_page *page;
    const gs_notice *notice;
    uint32_t slot, bit;            /* on the board; only a latency program has a bit */
    uint32_t weight, most_percent; /* the latter is its cap; 0: none */
    uint32_t deadline_us;          /* of a request, for the status; 0: none */
    uint64_t memory_limit, hold_ns;
    uint64_t slice_us;
    int64_t ahead_ns;
    uint64_t command; /* names what the program executes; 0: not known */
    bool has_mps;
    bool has_guards;  /* long kernels can be stopped */
    bool has_keepers; /* requests have keepers beside work */
} gs_gate_link;

extern gs_gate_link gs_gate_state;

/* Reads what `gridsmith run` has put into the environment. */
void gs_gate_link_configure(void);
/* Connects to the daemon, once per process. A thread calls `look` periodically, after as many ns as it returns. */
void gs_gate_link_open(int64_t (*look)(void));
/* `look` is called as soon as possible. */
void gs_gate_link_wake(void);
/* Whether there is a daemon. */
bool gs_gate_is_linked(void);
/* Whether the GPU works for some best-effort program and this one in turn. */
bool gs_gate_is_sliced(void);
/* Prints a line for people. */
void gs_gate_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t gs_gate_now_ns(void);

static inline void gs_gate_count(_Atomic uint64_t *counter, uint64_t by) {
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* ---- gate_names.c: best effort ---- */

/* Notes a function or a graph that takes longer than the allowed work between two waits, and why it cannot be stopped.
   Called before its launch. */
void gs_gate_name_kernel(const void *what, bool is_function, uint64_t ns, const char *reason);

/* ---- gate_graph.c: best effort ---- */

/* A graph was instantiated with these flags. */
void gs_gate_graph_keep(void *exec, void *graph, uint64_t flags);
/* It was destroyed or changed. */
void gs_gate_graph_forget(void *exec, bool is_destroyed);
/* A launch of a graph. */
typedef struct gs_gate_work {
    int64_t expected_ns; /* 0: not known */
    gs_gate_pointer flags;
    void *stream;
} gs_gate_work;

/* Whether a graph is launched as the program has it; or so, or in a form that tells how long its nodes take, until that
   is known; or with waits for the flags in it. */
typedef enum gs_gate_form { GS_FORM_WHOLE, GS_FORM_TIMED, GS_FORM_DIVIDED } gs_gate_form;

/* What is launched in place of a graph that is long; NULL: nothing else, and `whole` may say why. */
void *gs_gate_graph_divide(void *exec, const gs_gate_work *work, gs_gate_form *form, const char **whole);

/* ---- gate_mark.c ---- */

/* The device address of the board's flags; 0: they are not mapped. `may_map`: no stream captures. */
gs_gate_pointer gs_gate_mark_find(bool may_map);
bool gs_gate_mark_is_broken(void); /* streams cannot wait for them */
/* Puts a wait for "no flag" into a stream. */
void gs_gate_mark_wait(void *stream);
/* The GPU writes a number to the board when it has done what is in the stream. False: it cannot. */
bool gs_gate_mark_write(void *stream, const _Atomic uint32_t *to, uint32_t number);

/* ---- gate_guard.c: best effort ---- */

/* A launch of a long kernel that can be stopped. */
/* Constants that the program can write: the twin has its own. */
typedef struct gs_gate_constants {
    gs_gate_pointer from, to;
    size_t bytes; /* 0: none */
} gs_gate_constants;

typedef struct gs_gate_guard {
    void *twin; /* function; NULL: none */
    uint32_t parameter, offset;
    uint32_t launches, first, mask;
    int64_t stop_ns; /* how long it takes to stop it, at most */
    gs_gate_constants constants;
    struct gs_gate_lane *lane;
    const char *reason; /* why there is no twin: text of this thread until it asks again; NULL: none. Of a graph: why it
                           is launched whole */
} gs_gate_guard;

/* How to launch a kernel of this duration so that it can be stopped, but for its lane; without a twin: it cannot, or
   need not. */
gs_gate_guard gs_gate_guard_find(const void *what, const gs_gate_config *launch, unsigned cluster, int64_t expected_ns);

typedef struct gs_gate_item gs_gate_item;
/* Whether all blocks of the launch must run at a time. */
bool gs_gate_is_cooperative(const gs_gate_item *item);
/* The same for work of a stream. */
gs_gate_guard gs_gate_guard_plan(const gs_gate_item *item, int64_t expected_ns);
/* Launches it. */
int gs_gate_guard_launch(const gs_gate_guard *guard, const gs_gate_config *launch, void *stream, void **values,
                         void **extra);
void gs_gate_guard_stream_ends(void *stream); /* it is about to be destroyed */
void gs_gate_guard_forget(void);              /* a context is about to go */

/* ---- gate_capture.c ---- */

void gs_gate_capture_begins(void);
void gs_gate_capture_ends(void);
bool gs_gate_has_captures(void); /* any stream */
bool gs_gate_is_capturing(void *stream);
/* From here on, calls of this thread to the driver do not end captures of other streams. Returns what
   gs_gate_respect is to be given. */
int gs_gate_relax(void);
void gs_gate_respect(int mode);

/* ---- gate_wait.c: best effort ---- */

/* Work on a stream. `what` is a function with its launch, or a graph, without; NULL: a copy of `bytes`. */
struct gs_gate_item {
    void *stream;
    const void *what;
    const gs_gate_config *launch;
    bool is_cooperative;
    uint64_t bytes;
    uint64_t to, from; /* addresses of a copy; 0: it is left whole */
};

typedef struct gs_gate_sample gs_gate_sample;

/* What is put around the work. */
typedef struct gs_gate_around {
    void *stream;
    gs_gate_sample *sample; /* or NULL */
    void *graph;            /* not NULL: launched instead of the program's */
    size_t piece;           /* bytes of a piece, if a copy is made in pieces; else 0 */
    uint64_t number;        /* of a latency program: the GPU reports when this launch is done; 0: it need not */
    bool is_timed;          /* a graph of which it is not known yet whether it can be divided */
    bool is_numbered;       /* a number for other best-effort programs follows it */
    gs_gate_guard guard;    /* with a twin: launched instead of the program's kernel */
} gs_gate_around;

/* Nothing. The rest of a guard is not used without a twin: to clear it, too, would cost as much as all else before most
   launches. */
static inline void gs_gate_around_clear(gs_gate_around *around, void *stream) {
    around->stream = stream;
    around->sample = NULL;
    around->graph = NULL;
    around->piece = 0;
    around->number = 0;
    around->is_timed = around->is_numbered = false;
    around->guard.twin = NULL;
    around->guard.reason = NULL;
}

/* Before and after the call that puts the work into the stream. `around` is clear. */
void gs_gate_wait_before(const gs_gate_item *item, gs_gate_around *around);
void gs_gate_wait_after(const gs_gate_around *around);
void gs_gate_wait_change(const void *graph, bool is_destroyed);
void gs_gate_wait_synchronize(bool is_done); /* the host waits for the GPU, or has done so */
void gs_gate_wait_memory(void);              /* memory is about to be mapped, or given back */

/* Repairs what others may have written over this program's share. Returns after how many ns to call it again. */
int64_t gs_gate_wait_look(void);

/* ---- gate_copy.c: best effort ---- */

/* The bytes of a piece; 0: the copy is not divided. */
size_t gs_gate_copy_piece(uint64_t to, uint64_t from, size_t bytes);

/* ---- gate_work.c: latency ---- */

/* Before a launch. Not 0: the program does not synchronize, and gs_gate_work_launched must follow with this number. */
uint64_t gs_gate_work_begins(const gs_gate_item *item);
void gs_gate_work_launched(void *stream, uint64_t number);
/* Checks whether the work of a program that does not synchronize is done. Returns after how many ns to check again. */
int64_t gs_gate_work_look(void);
void gs_gate_work_waits(void);   /* the host is about to wait for the GPU */
uint64_t gs_gate_work_now(void); /* before a synchronization: the launch that it waits for */
void gs_gate_work_stream_done(void *stream, uint64_t number);
void gs_gate_work_all_done(uint64_t number);
void gs_gate_work_record(void *event, void *stream);
void gs_gate_work_event_done(void *event);

/* ---- gate_keeper.c: latency ---- */

/* The program launches something, or is about to, and others should not get the GPU until the flag is clear. Under the
   lock of gate_work.c. */
void gs_gate_keeper_work(uint64_t now_ns);
void gs_gate_keeper_end(void);
void gs_gate_keeper_drop(void);          /* no keeper from now on */
void gs_gate_keeper_beat(void);          /* the program asks for its work */
void gs_gate_keeper_waits(bool begins);  /* for some of its work, or has done so */
void gs_gate_keeper_blocks(bool begins); /* for all that is in a context */

/* ---- gate_memory.c ---- */

/* Without a limit nothing is counted. */

/* Takes bytes from the limit. False: too few are left. */
bool gs_gate_memory_take(uint64_t bytes);
/* Returns the bytes to the limit. */
void gs_gate_memory_return(uint64_t bytes);
/* Remembers the size of an allocation until it is freed. */
void gs_gate_memory_keep(gs_gate_pointer name, uint64_t bytes);
void gs_gate_memory_free(gs_gate_pointer name);
void gs_gate_memory_info(size_t *free_bytes, size_t *total_bytes);

#endif
