/*
 * watch_hooks.c: the hooks of `gridsmith watch`: the calls of the driver that issue work, wait for it, or may wait
 * for the GPU without saying so. The hook of cuX is named hook_cuX.
 *
 * Functions that end in _ptsz and _ptds take stream 0 for the default stream of the thread.
 */
#include "watch_notes.h"

#include <string.h>

#define NO_STREAM ((const void *)-1)

/* A hooked call: `before` and `after` are statements around it that use `call` and `result`. */
#define CALL(name, parameters, arguments, stream, object, before, after)                                               \
    static int(*real_##name) parameters;                                                                               \
    static uint32_t number_##name;                                                                                     \
    static int hook_##name parameters {                                                                                \
        if (!gs_watch_shared)                                                                                          \
            return real_##name arguments;                                                                              \
        gs_watch_call call = {.call = number_##name, .per_thread = sizeof #name > 6 && is_per_thread(#name)};          \
        gs_watch_enter(&call, stream, (uint64_t)(object));                                                             \
        before;                                                                                                        \
        int result = real_##name arguments;                                                                            \
        after;                                                                                                         \
        gs_watch_leave(&call);                                                                                         \
        return result;                                                                                                 \
    }
#define CALLS(name, parameters, arguments, stream, object, before, after)                                              \
    CALL(name, parameters, arguments, stream, object, before, after)                                                   \
    CALL(name##_ptsz, parameters, arguments, stream, object, before, after)
#define SYNCS(name, parameters, arguments, before, after)                                                              \
    CALL(name, parameters, arguments, NULL, 0, before, after)                                                          \
    CALL(name##_ptds, parameters, arguments, NULL, 0, before, after)

static inline bool is_per_thread(const char *name) {
    size_t length = strlen(name);
    return strcmp(name + length - 5, "_ptsz") == 0 || strcmp(name + length - 5, "_ptds") == 0;
}

/* What a call that succeeded has done. */
#define DONE(what)                                                                                                     \
    do {                                                                                                               \
        if (result == GS_CUDA_OK)                                                                                      \
            what;                                                                                                      \
    } while (0)

/* ---- kernels and graphs ---- */

/* CUlaunchConfig and CUlaunchAttribute. */
typedef struct launch_config {
    unsigned shape[6], shared_bytes;
    void *stream;
    const char *attributes;
    unsigned attribute_count;
} launch_config;

enum { ATTRIBUTE_BYTES = 72, ATTRIBUTE_VALUE = 8, COOPERATIVE = 2, CLUSTER = 4, PROGRAMMATIC = 6 };

static void note_cooperative(gs_watch_operation *operation) {
    if (operation)
        operation->is_cooperative = 1;
}

static void note_attributes(gs_watch_operation *operation, const launch_config *config) {
    for (unsigned i = 0; operation && config->attributes && i < config->attribute_count; i++) {
        const char *at = config->attributes + (size_t)i * ATTRIBUTE_BYTES;
        int attribute, value[3];
        memcpy(&attribute, at, sizeof attribute);
        memcpy(value, at + ATTRIBUTE_VALUE, sizeof value);
        if (attribute == COOPERATIVE)
            operation->is_cooperative = value[0] != 0;
        if (attribute == PROGRAMMATIC)
            operation->is_programmatic = value[0] != 0;
        if (attribute == CLUSTER)
            operation->cluster = (uint32_t)(value[0] * value[1] * value[2]);
    }
}

#define SHAPE ((const unsigned[6]){gx, gy, gz, bx, by, bz})
#define LAUNCHED                                                                                                       \
    do {                                                                                                               \
        gs_watch_issued(&call, result);                                                                                \
        if (result == GS_CUDA_OK)                                                                                      \
            gs_watch_kernel_done(&call, function);                                                                     \
    } while (0)

CALLS(cuLaunchKernel,
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
       void *stream, void **values, void **extra),
      (function, gx, gy, gz, bx, by, bz, shared, stream, values, extra), stream, (uintptr_t)function,
      gs_watch_kernel(&call, function, SHAPE, shared), LAUNCHED)
CALLS(cuLaunchKernelEx, (const launch_config *config, void *function, void **values, void **extra),
      (config, function, values, extra), config->stream, (uintptr_t)function,
      (gs_watch_kernel(&call, function, config->shape, config->shared_bytes), note_attributes(call.operation, config),
       gs_watch_communicator(call.operation, extra)),
      LAUNCHED)
CALLS(cuLaunchCooperativeKernel,
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
       void *stream, void **values),
      (function, gx, gy, gz, bx, by, bz, shared, stream, values), stream, (uintptr_t)function,
      (gs_watch_kernel(&call, function, SHAPE, shared), note_cooperative(call.operation)), LAUNCHED)

#define ISSUE(kind, what)                                                                                              \
    do {                                                                                                               \
        gs_watch_operation *made = gs_watch_issue(&call, kind);                                                        \
        if (made)                                                                                                      \
            made->object = (uint64_t)(uintptr_t)(what);                                                                \
    } while (0)
#define ISSUED gs_watch_issued(&call, result)

CALLS(cuGraphLaunch, (void *graph, void *stream), (graph, stream), stream, (uintptr_t)graph,
      ISSUE(GS_WATCH_GRAPH, graph), ISSUED)

/* A graph becomes executable, or another one. */
#define MADE(name, parameters, arguments, executable)                                                                  \
    CALL(name, parameters, arguments, NO_STREAM, (uintptr_t)graph, (void)0,                                            \
         DONE(gs_watch_graph_made(executable, graph)))
MADE(cuGraphInstantiate_v2, (void **made, void *graph, void *node, char *text, size_t size),
     (made, graph, node, text, size), *made)
MADE(cuGraphInstantiateWithFlags, (void **made, void *graph, unsigned long long flags), (made, graph, flags), *made)
MADE(cuGraphInstantiateWithParams, (void **made, void *graph, void *how), (made, graph, how), *made)
MADE(cuGraphInstantiateWithParams_ptsz, (void **made, void *graph, void *how), (made, graph, how), *made)
MADE(cuGraphExecUpdate_v2, (void *made, void *graph, void *what), (made, graph, what), made)

/* ---- copies and memsets ---- */

#define NOTE_COPY ISSUE(GS_WATCH_COPIES, to)
/* A copy that has returned has ended, and so has all before it in its stream; one from memory of the host that is not
   pinned will not wait any more. */
#define COPIED                                                                                                         \
    do {                                                                                                               \
        ISSUED;                                                                                                        \
        if (result == GS_CUDA_OK)                                                                                      \
            gs_watch_stream_done(&call);                                                                               \
    } while (0)

SYNCS(cuMemcpy, (uint64_t to, uint64_t from, size_t bytes), (to, from, bytes), NOTE_COPY, COPIED)
CALLS(cuMemcpyAsync, (uint64_t to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream), stream, to,
      NOTE_COPY, ISSUED)
SYNCS(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes), (to, from, bytes), NOTE_COPY, COPIED)
CALLS(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream), (to, from, bytes, stream),
      stream, to, NOTE_COPY, ISSUED)
SYNCS(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes), (to, from, bytes), NOTE_COPY, COPIED)
CALLS(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream), stream,
      (uintptr_t)to, NOTE_COPY, ISSUED)
SYNCS(cuMemcpyDtoD_v2, (uint64_t to, uint64_t from, size_t bytes), (to, from, bytes), NOTE_COPY, ISSUED)
CALLS(cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream), stream,
      to, NOTE_COPY, ISSUED)
SYNCS(cuMemsetD8_v2, (uint64_t to, unsigned char value, size_t count), (to, value, count), NOTE_COPY, ISSUED)
CALLS(cuMemsetD8Async, (uint64_t to, unsigned char value, size_t count, void *stream), (to, value, count, stream),
      stream, to, NOTE_COPY, ISSUED)
SYNCS(cuMemsetD16_v2, (uint64_t to, unsigned short value, size_t count), (to, value, count), NOTE_COPY, ISSUED)
CALLS(cuMemsetD16Async, (uint64_t to, unsigned short value, size_t count, void *stream), (to, value, count, stream),
      stream, to, NOTE_COPY, ISSUED)
SYNCS(cuMemsetD32_v2, (uint64_t to, unsigned value, size_t count), (to, value, count), NOTE_COPY, ISSUED)
CALLS(cuMemsetD32Async, (uint64_t to, unsigned value, size_t count, void *stream), (to, value, count, stream), stream,
      to, NOTE_COPY, ISSUED)
SYNCS(cuMemcpy2D_v2, (const void *to), (to), NOTE_COPY, COPIED)
SYNCS(cuMemcpy2DUnaligned_v2, (const void *to), (to), NOTE_COPY, COPIED)
SYNCS(cuMemcpy3D_v2, (const void *to), (to), NOTE_COPY, COPIED)
CALLS(cuMemcpy2DAsync_v2, (const void *to, void *stream), (to, stream), stream, 0, NOTE_COPY, ISSUED)
CALLS(cuMemcpy3DAsync_v2, (const void *to, void *stream), (to, stream), stream, 0, NOTE_COPY, ISSUED)

/* ---- events and streams ---- */

#define RECORDED gs_watch_event_recorded(&call, (uintptr_t)event)
CALLS(cuEventRecord, (void *event, void *stream), (event, stream), stream, (uintptr_t)event, RECORDED, ISSUED)
CALLS(cuEventRecordWithFlags, (void *event, void *stream, unsigned flags), (event, stream, flags), stream,
      (uintptr_t)event, RECORDED, ISSUED)
CALLS(cuStreamWaitEvent, (void *stream, void *event, unsigned flags), (stream, event, flags), stream, (uintptr_t)event,
      gs_watch_event_awaited(&call, (uintptr_t)event), ISSUED)
CALL(cuEventSynchronize, (void *event), (event), NO_STREAM, (uintptr_t)event, (void)0,
     DONE(gs_watch_event_done((uintptr_t)event, false)))
CALLS(cuStreamSynchronize, (void *stream), (stream), stream, (uintptr_t)stream, (void)0,
      DONE(gs_watch_stream_done(&call)))
CALL(cuCtxSynchronize, (void), (), NO_STREAM, 0, (void)0, DONE(gs_watch_all_done(&call, NULL)))
CALL(cuCtxSynchronize_v2, (void *context), (context), NO_STREAM, 0, (void)0, DONE(gs_watch_all_done(&call, context)))

#define QUERIED(object, done)                                                                                          \
    do {                                                                                                               \
        if (result == GS_CUDA_OK)                                                                                      \
            done;                                                                                                      \
        gs_watch_polled(&call, (uintptr_t)(object), result);                                                           \
    } while (0)
CALL(cuEventQuery, (void *event), (event), NO_STREAM, (uintptr_t)event, (void)0,
     QUERIED(event, gs_watch_event_done((uintptr_t)event, false)))
CALLS(cuStreamQuery, (void *stream), (stream), stream, (uintptr_t)stream, (void)0,
      QUERIED(stream, gs_watch_stream_done(&call)))
CALL(cuEventDestroy_v2, (void *event), (event), NO_STREAM, (uintptr_t)event,
     gs_watch_event_done((uintptr_t)event, true), (void)0)
CALL(cuStreamDestroy_v2, (void *stream), (stream), NO_STREAM, (uintptr_t)stream, gs_watch_stream_gone(stream), (void)0)

#define NEW_STREAM(priority) DONE(gs_watch_stream_new(*stream, flags, priority))
CALL(cuStreamCreate, (void **stream, unsigned flags), (stream, flags), NO_STREAM, 0, (void)0, NEW_STREAM(0))
CALL(cuStreamCreateWithPriority, (void **stream, unsigned flags, int priority), (stream, flags, priority), NO_STREAM, 0,
     (void)0, NEW_STREAM(priority))
CALL(cuGreenCtxStreamCreate, (void **stream, void *green, unsigned flags, int priority),
     (stream, green, flags, priority), NO_STREAM, 0, (void)0, NEW_STREAM(priority))

#define CAPTURES(is) gs_watch_captures(stream, call.per_thread, is)
CALLS(cuStreamBeginCapture_v2, (void *stream, int mode), (stream, mode), NO_STREAM, 0, (void)0, DONE(CAPTURES(true)))
CALLS(cuStreamBeginCaptureToGraph,
      (void *stream, void *graph, const void *nodes, const void *edges, size_t count, int mode),
      (stream, graph, nodes, edges, count, mode), NO_STREAM, 0, (void)0, DONE(CAPTURES(true)))
CALLS(cuStreamEndCapture, (void *stream, void **graph), (stream, graph), NO_STREAM, 0, (void)0, CAPTURES(false))

/* ---- values in memory ---- */

#define VALUE(kind)                                                                                                    \
    do {                                                                                                               \
        gs_watch_operation *made = gs_watch_issue(&call, kind);                                                        \
        if (made) {                                                                                                    \
            made->object = address;                                                                                    \
            made->value = (uint32_t)value;                                                                             \
        }                                                                                                              \
    } while (0)
#define VALUES(name, type, kind)                                                                                       \
    CALLS(name, (void *stream, uint64_t address, type value, unsigned flags), (stream, address, value, flags), stream, \
          address, VALUE(kind), ISSUED)
VALUES(cuStreamWaitValue32, uint32_t, GS_WATCH_WAIT_VALUE)
VALUES(cuStreamWaitValue64, uint64_t, GS_WATCH_WAIT_VALUE)
VALUES(cuStreamWaitValue32_v2, uint32_t, GS_WATCH_WAIT_VALUE)
VALUES(cuStreamWaitValue64_v2, uint64_t, GS_WATCH_WAIT_VALUE)
VALUES(cuStreamWriteValue32, uint32_t, GS_WATCH_WRITE_VALUE)
VALUES(cuStreamWriteValue64, uint64_t, GS_WATCH_WRITE_VALUE)
VALUES(cuStreamWriteValue32_v2, uint32_t, GS_WATCH_WRITE_VALUE)
VALUES(cuStreamWriteValue64_v2, uint64_t, GS_WATCH_WRITE_VALUE)

static void note_batch(gs_watch_call *call, unsigned count, const gs_watch_batch *operations) {
    for (unsigned i = 0; i < count; i++) {
        int kind = operations[i].kind;
        bool waits = gs_watch_batch_waits(&operations[i]);
        gs_watch_operation *made = waits || kind == GS_WATCH_BATCH_WRITE || kind == GS_WATCH_BATCH_WRITE_64
                                       ? gs_watch_issue(call, waits ? GS_WATCH_WAIT_VALUE : GS_WATCH_WRITE_VALUE)
                                       : NULL;
        if (!made)
            continue;
        made->object = operations[i].address;
        made->value = (uint32_t)operations[i].value;
    }
}

#define BATCH(name)                                                                                                    \
    CALLS(name, (void *stream, unsigned count, const gs_watch_batch *operations, unsigned flags),                      \
          (stream, count, operations, flags), stream, 0, (void)0, DONE(note_batch(&call, count, operations)))
BATCH(cuStreamBatchMemOp)
BATCH(cuStreamBatchMemOp_v2)

/* ---- host functions ---- */

static void put_callback(gs_watch_call *call, void *stream, void (**function)(void *, int, void *), void **data) {
    gs_watch_host *host = gs_watch_host_new(call, stream, NULL, *data);
    if (host) {
        host->callback = *function;
        *function = gs_watch_host_call;
        *data = host;
    }
}

CALLS(cuStreamAddCallback, (void *stream, void (*function)(void *, int, void *), void *data, unsigned flags),
      (stream, function, data, flags), stream, 0, put_callback(&call, stream, &function, &data), ISSUED)

static void put_host(gs_watch_call *call, void *stream, void (**function)(void *), void **data) {
    gs_watch_host *host = gs_watch_host_new(call, stream, *function, *data);
    if (host) {
        *function = gs_watch_host_run;
        *data = host;
    }
}

#define HOST(name)                                                                                                     \
    CALL(name, (void *stream, void (*function)(void *), void *data), (stream, function, data), stream,                 \
         (uintptr_t)function, put_host(&call, stream, &function, &data), ISSUED)
HOST(cuLaunchHostFunc)
HOST(cuLaunchHostFunc_ptsz)

/* ---- memory, limits, modules ---- */

/* Calls that may wait until the whole GPU is idle, or that load: a row makes the hook and its place in the table. */
#define PLAIN_CALLS(X)                                                                                                 \
    X(cuMemAlloc_v2, ALLOCATE, (uint64_t * made, size_t bytes), (made, bytes))                                         \
    X(cuMemAllocPitch_v2, ALLOCATE, (uint64_t * made, size_t * pitch, size_t width, size_t height, unsigned element),  \
      (made, pitch, width, height, element))                                                                           \
    X(cuMemAllocManaged, ALLOCATE, (uint64_t * made, size_t bytes, unsigned flags), (made, bytes, flags))              \
    X(cuMemAllocHost_v2, ALLOCATE, (void **made, size_t bytes), (made, bytes))                                         \
    X(cuMemHostAlloc, ALLOCATE, (void **made, size_t bytes, unsigned flags), (made, bytes, flags))                     \
    X(cuMemHostUnregister, ALLOCATE, (void *memory), (memory))                                                         \
    X(cuMemFree_v2, ALLOCATE, (uint64_t memory), (memory))                                                             \
    X(cuMemFreeHost, ALLOCATE, (void *memory), (memory))                                                               \
    X(cuMemUnmap, ALLOCATE, (uint64_t memory, size_t bytes), (memory, bytes))                                          \
    X(cuMemPoolDestroy, ALLOCATE, (void *pool), (pool))                                                                \
    X(cuMemPoolTrimTo, ALLOCATE, (void *pool, size_t bytes), (pool, bytes))                                            \
    X(cuArrayCreate_v2, ALLOCATE, (void **made, const void *how), (made, how))                                         \
    X(cuArray3DCreate_v2, ALLOCATE, (void **made, const void *how), (made, how))                                       \
    X(cuArrayDestroy, ALLOCATE, (void *array), (array))                                                                \
    X(cuIpcCloseMemHandle, ALLOCATE, (uint64_t memory), (memory))                                                      \
    X(cuCtxSetLimit, ALLOCATE, (int limit, size_t value), (limit, value))                                              \
    X(cuCtxDestroy_v2, ALLOCATE, (void *context), (context))                                                           \
    X(cuDevicePrimaryCtxReset_v2, ALLOCATE, (int device), (device))                                                    \
    X(cuDevicePrimaryCtxRelease_v2, ALLOCATE, (int device), (device))                                                  \
    X(cuGreenCtxDestroy, ALLOCATE, (void *context), (context))                                                         \
    X(cuModuleUnload, ALLOCATE, (void *module), (module))                                                              \
    X(cuLibraryUnload, ALLOCATE, (void *library), (library))                                                           \
    X(cuModuleLoad, LOAD, (void **module, const char *file), (module, file))                                           \
    X(cuModuleGetFunction, LOAD, (void **function, void *module, const char *name), (function, module, name))

/* CUipcMemHandle, which is passed by value. */
struct ipc_handle {
    char bytes[64];
};

#define PLAIN(name, class, parameters, arguments) CALL(name, parameters, arguments, NO_STREAM, 0, (void)0, (void)0)
PLAIN_CALLS(PLAIN)

/* Memory that another process may write. */
#define SHARES(name, parameters, arguments)                                                                            \
    CALL(name, parameters, arguments, NO_STREAM, 0, (void)0, DONE(gs_watch_shares()))
SHARES(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags))
SHARES(cuIpcGetMemHandle, (void *handle, uint64_t memory), (handle, memory))
SHARES(cuIpcOpenMemHandle_v2, (uint64_t * made, struct ipc_handle handle, unsigned flags), (made, handle, flags))
SHARES(cuMemExportToShareableHandle, (void *made, uint64_t memory, int kind, unsigned long long flags),
       (made, memory, kind, flags))
SHARES(cuMemImportFromShareableHandle, (uint64_t * made, void *handle, int kind), (made, handle, kind))

#define LOADS(name, parameters, arguments)                                                                             \
    CALL(name, parameters, arguments, NO_STREAM, (uintptr_t)image, gs_watch_image(image), (void)0)
LOADS(cuModuleLoadData, (void **module, const void *image), (module, image))
LOADS(cuModuleLoadDataEx, (void **module, const void *image, unsigned count, int *options, void **values),
      (module, image, count, options, values))
LOADS(cuModuleLoadFatBinary, (void **module, const void *image), (module, image))
LOADS(cuLibraryLoadData,
      (void **library, const void *image, int *jit, void **jit_values, unsigned jit_count, int *options, void **values,
       unsigned count),
      (library, image, jit, jit_values, jit_count, options, values, count))
/* A call that loads a kernel. */
#define LOADED(name, parameters, arguments, kernel)                                                                    \
    CALL(name, parameters, arguments, NO_STREAM, (uintptr_t)kernel, gs_watch_loads(&call, kernel),                     \
         DONE(gs_watch_loaded(kernel)))
LOADED(cuKernelGetFunction, (void **function, const void *kernel), (function, kernel), kernel)
LOADED(cuFuncLoad, (void *function), (function), function)
LOADED(cuFuncGetAttribute, (int *value, int attribute, const void *function), (value, attribute, function), function)

/* ---- starting ---- */

static void start_watching(void);

static int (*real_cuInit)(unsigned);
static int hook_cuInit(unsigned flags) {
    int result = real_cuInit(flags);
    if (result == GS_CUDA_OK && !gs_watch_shared)
        start_watching();
    return result;
}

/* ---- the table ---- */

#define HOOK(function, class)                                                                                          \
    { #function, (gs_front_function *)hook_##function, &real_##function, &number_##function, GS_WATCH_##class }
#define PLAIN_HOOK(function, class, parameters, arguments) HOOK(function, class),
#define STREAMED(function, class)                          HOOK(function, class), HOOK(function##_ptsz, class)
#define DEFAULT(function, class)                           HOOK(function, class), HOOK(function##_ptds, class)

static uint32_t number_cuInit; /* not used */

static const gs_front_hook hooks[] = {
    STREAMED(cuLaunchKernel, LAUNCH),
    STREAMED(cuLaunchKernelEx, LAUNCH),
    STREAMED(cuLaunchCooperativeKernel, LAUNCH),
    STREAMED(cuGraphLaunch, LAUNCH),
    HOOK(cuGraphInstantiate_v2, OTHER),
    HOOK(cuGraphInstantiateWithFlags, OTHER),
    HOOK(cuGraphInstantiateWithParams, OTHER),
    HOOK(cuGraphInstantiateWithParams_ptsz, OTHER),
    HOOK(cuGraphExecUpdate_v2, OTHER),
    DEFAULT(cuMemcpy, COPY),
    STREAMED(cuMemcpyAsync, COPY),
    DEFAULT(cuMemcpyHtoD_v2, COPY),
    STREAMED(cuMemcpyHtoDAsync_v2, COPY),
    DEFAULT(cuMemcpyDtoH_v2, COPY),
    STREAMED(cuMemcpyDtoHAsync_v2, COPY),
    DEFAULT(cuMemcpyDtoD_v2, COPY),
    STREAMED(cuMemcpyDtoDAsync_v2, COPY),
    DEFAULT(cuMemsetD8_v2, COPY),
    STREAMED(cuMemsetD8Async, COPY),
    DEFAULT(cuMemsetD16_v2, COPY),
    STREAMED(cuMemsetD16Async, COPY),
    DEFAULT(cuMemsetD32_v2, COPY),
    STREAMED(cuMemsetD32Async, COPY),
    DEFAULT(cuMemcpy2D_v2, COPY),
    DEFAULT(cuMemcpy2DUnaligned_v2, COPY),
    DEFAULT(cuMemcpy3D_v2, COPY),
    STREAMED(cuMemcpy2DAsync_v2, COPY),
    STREAMED(cuMemcpy3DAsync_v2, COPY),
    STREAMED(cuEventRecord, OTHER),
    STREAMED(cuEventRecordWithFlags, OTHER),
    STREAMED(cuStreamWaitEvent, OTHER),
    HOOK(cuEventSynchronize, SYNC),
    STREAMED(cuStreamSynchronize, SYNC),
    HOOK(cuCtxSynchronize, SYNC),
    HOOK(cuCtxSynchronize_v2, SYNC),
    HOOK(cuEventQuery, QUERY),
    STREAMED(cuStreamQuery, QUERY),
    HOOK(cuEventDestroy_v2, OTHER),
    HOOK(cuStreamDestroy_v2, OTHER),
    HOOK(cuStreamCreate, OTHER),
    HOOK(cuStreamCreateWithPriority, OTHER),
    HOOK(cuGreenCtxStreamCreate, OTHER),
    STREAMED(cuStreamBeginCapture_v2, OTHER),
    STREAMED(cuStreamBeginCaptureToGraph, OTHER),
    STREAMED(cuStreamEndCapture, OTHER),
    STREAMED(cuStreamWaitValue32, OTHER),
    STREAMED(cuStreamWaitValue64, OTHER),
    STREAMED(cuStreamWaitValue32_v2, OTHER),
    STREAMED(cuStreamWaitValue64_v2, OTHER),
    STREAMED(cuStreamWriteValue32, OTHER),
    STREAMED(cuStreamWriteValue64, OTHER),
    STREAMED(cuStreamWriteValue32_v2, OTHER),
    STREAMED(cuStreamWriteValue64_v2, OTHER),
    STREAMED(cuStreamBatchMemOp, OTHER),
    STREAMED(cuStreamBatchMemOp_v2, OTHER),
    STREAMED(cuStreamAddCallback, OTHER),
    HOOK(cuLaunchHostFunc, OTHER),
    HOOK(cuLaunchHostFunc_ptsz, OTHER),
    HOOK(cuModuleLoadData, LOAD),
    HOOK(cuModuleLoadDataEx, LOAD),
    HOOK(cuModuleLoadFatBinary, LOAD),
    HOOK(cuLibraryLoadData, LOAD),
    HOOK(cuKernelGetFunction, LOAD),
    HOOK(cuFuncLoad, LOAD),
    HOOK(cuFuncGetAttribute, LOAD),
    HOOK(cuMemHostRegister_v2, ALLOCATE),
    HOOK(cuIpcGetMemHandle, OTHER),
    HOOK(cuIpcOpenMemHandle_v2, ALLOCATE),
    HOOK(cuMemExportToShareableHandle, OTHER),
    HOOK(cuMemImportFromShareableHandle, OTHER),
    PLAIN_CALLS(PLAIN_HOOK) HOOK(cuInit, OTHER),
};

enum { HOOKS = sizeof hooks / sizeof *hooks };

const struct gs_front_hooks gs_front_hooks = {hooks, HOOKS, NULL};

_Static_assert((int)HOOKS <= (int)GS_WATCH_CALLS, "the page has names for all hooks");

static void start_watching(void) {
    const char *names[HOOKS];
    uint32_t classes[HOOKS];
    for (size_t i = 0; i < HOOKS; i++) {
        names[i] = hooks[i].name;
        classes[i] = (uint32_t)hooks[i].kind;
    }
    if (gs_watch_start(names, classes, HOOKS))
        gs_watch_helper_start();
}

#define FIND(function) gs_front_find_real(#function, &gs_watch_driver_functions.function)

void gs_front_ready(bool has_driver) {
    if (!has_driver)
        return;
    for (size_t i = 0; i < HOOKS; i++)
        *(uint32_t *)hooks[i].note = (uint32_t)i;
    FIND(cuFuncGetAttribute);
    FIND(cuFuncGetName);
    FIND(cuKernelGetFunction);
    FIND(cuKernelGetName);
    FIND(cuKernelGetAttribute);
    FIND(cuFuncIsLoaded);
    FIND(cuModuleGetLoadingMode);
    FIND(cuCtxGetCurrent);
    FIND(cuCtxSetCurrent);
    FIND(cuStreamQuery);
    FIND(cuStreamIsCapturing);
    FIND(cuThreadExchangeStreamCaptureMode);
    FIND(cuCtxGetDevice);
    FIND(cuDeviceGetName);
    FIND(cuDeviceGetAttribute);
    FIND(cuGraphGetNodes);
    FIND(cuGraphNodeGetType);
    FIND(cuGraphKernelNodeGetParams_v2);
    FIND(cuGraphChildGraphNodeGetGraph);
    FIND(cuGraphGetEdges_v2);
    FIND(cuGraphBatchMemOpNodeGetParams);
    FIND(cuStreamGetGreenCtx);
    FIND(cuGreenCtxGetDevResource);
}
