/*
 * watch_hook_list.h: the functions of the driver that `gridsmith watch` hooks. watch_hooks.c reads this list twice: for
 * the hooks, and for their table.
 *
 * Each has its class (GS_WATCH_...), its parameters, the arguments of the driver's call, its stream, its object, and
 * what is noted before and after the call. Functions that end in _ptsz and _ptds take stream 0 for the default stream
 * of the thread.
 */

/* ---- kernels and graphs ---- */

#define SHAPE ((const unsigned[6]){gx, gy, gz, bx, by, bz})
#define LAUNCHED                                                                                                       \
    do {                                                                                                               \
        gs_watch_issued(&call, result);                                                                                \
        if (result == GS_CUDA_OK)                                                                                      \
            gs_watch_kernel_done(&call, function);                                                                     \
    } while (0)

CALLS(cuLaunchKernel, LAUNCH,
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
       void *stream, void **values, void **extra),
      (function, gx, gy, gz, bx, by, bz, shared, stream, values, extra), stream, (uintptr_t)function,
      gs_watch_kernel(&call, function, SHAPE, shared), LAUNCHED)
CALLS(cuLaunchKernelEx, LAUNCH, (const gs_launch_config *config, void *function, void **values, void **extra),
      (config, function, values, extra), config->stream, (uintptr_t)function,
      (gs_watch_kernel(&call, function, config->shape, config->shared_bytes), note_attributes(call.operation, config),
       gs_watch_communicator(call.operation, extra)),
      LAUNCHED)
CALLS(cuLaunchCooperativeKernel, LAUNCH,
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

CALLS(cuGraphLaunch, LAUNCH, (void *graph, void *stream), (graph, stream), stream, (uintptr_t)graph,
      ISSUE(GS_WATCH_GRAPH, graph), ISSUED)

/* A graph becomes executable, or another one. */
#define MADE(name, parameters, arguments, executable)                                                                  \
    CALL(name, OTHER, parameters, arguments, NO_STREAM, (uintptr_t)graph, (void)0,                                     \
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

SYNCS(cuMemcpy, COPY, (uint64_t to, uint64_t from, size_t bytes), (to, from, bytes), NOTE_COPY, COPIED)
CALLS(cuMemcpyAsync, COPY, (uint64_t to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream), stream,
      to, NOTE_COPY, ISSUED)
SYNCS(cuMemcpyHtoD_v2, COPY, (uint64_t to, const void *from, size_t bytes), (to, from, bytes), NOTE_COPY, COPIED)
CALLS(cuMemcpyHtoDAsync_v2, COPY, (uint64_t to, const void *from, size_t bytes, void *stream),
      (to, from, bytes, stream), stream, to, NOTE_COPY, ISSUED)
SYNCS(cuMemcpyDtoH_v2, COPY, (void *to, uint64_t from, size_t bytes), (to, from, bytes), NOTE_COPY, COPIED)
CALLS(cuMemcpyDtoHAsync_v2, COPY, (void *to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream),
      stream, (uintptr_t)to, NOTE_COPY, ISSUED)
SYNCS(cuMemcpyDtoD_v2, COPY, (uint64_t to, uint64_t from, size_t bytes), (to, from, bytes), NOTE_COPY, ISSUED)
CALLS(cuMemcpyDtoDAsync_v2, COPY, (uint64_t to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream),
      stream, to, NOTE_COPY, ISSUED)
SYNCS(cuMemsetD8_v2, COPY, (uint64_t to, unsigned char value, size_t count), (to, value, count), NOTE_COPY, ISSUED)
CALLS(cuMemsetD8Async, COPY, (uint64_t to, unsigned char value, size_t count, void *stream), (to, value, count, stream),
      stream, to, NOTE_COPY, ISSUED)
SYNCS(cuMemsetD16_v2, COPY, (uint64_t to, unsigned short value, size_t count), (to, value, count), NOTE_COPY, ISSUED)
CALLS(cuMemsetD16Async, COPY, (uint64_t to, unsigned short value, size_t count, void *stream),
      (to, value, count, stream), stream, to, NOTE_COPY, ISSUED)
SYNCS(cuMemsetD32_v2, COPY, (uint64_t to, unsigned value, size_t count), (to, value, count), NOTE_COPY, ISSUED)
CALLS(cuMemsetD32Async, COPY, (uint64_t to, unsigned value, size_t count, void *stream), (to, value, count, stream),
      stream, to, NOTE_COPY, ISSUED)
SYNCS(cuMemcpy2D_v2, COPY, (const void *to), (to), NOTE_COPY, COPIED)
SYNCS(cuMemcpy2DUnaligned_v2, COPY, (const void *to), (to), NOTE_COPY, COPIED)
SYNCS(cuMemcpy3D_v2, COPY, (const void *to), (to), NOTE_COPY, COPIED)
CALLS(cuMemcpy2DAsync_v2, COPY, (const void *to, void *stream), (to, stream), stream, 0, NOTE_COPY, ISSUED)
CALLS(cuMemcpy3DAsync_v2, COPY, (const void *to, void *stream), (to, stream), stream, 0, NOTE_COPY, ISSUED)

/* ---- events and streams ---- */

#define RECORDED gs_watch_event_recorded(&call, (uintptr_t)event)
CALLS(cuEventRecord, OTHER, (void *event, void *stream), (event, stream), stream, (uintptr_t)event, RECORDED, ISSUED)
CALLS(cuEventRecordWithFlags, OTHER, (void *event, void *stream, unsigned flags), (event, stream, flags), stream,
      (uintptr_t)event, RECORDED, ISSUED)
CALLS(cuStreamWaitEvent, OTHER, (void *stream, void *event, unsigned flags), (stream, event, flags), stream,
      (uintptr_t)event, gs_watch_event_awaited(&call, (uintptr_t)event), ISSUED)
CALL(cuEventSynchronize, SYNC, (void *event), (event), NO_STREAM, (uintptr_t)event, (void)0,
     DONE(gs_watch_event_done((uintptr_t)event, false)))
CALLS(cuStreamSynchronize, SYNC, (void *stream), (stream), stream, (uintptr_t)stream, (void)0,
      DONE(gs_watch_stream_done(&call)))
CALL(cuCtxSynchronize, SYNC, (void), (), NO_STREAM, 0, (void)0, DONE(gs_watch_all_done(&call, NULL)))
CALL(cuCtxSynchronize_v2, SYNC, (void *context), (context), NO_STREAM, 0, (void)0,
     DONE(gs_watch_all_done(&call, context)))

#define QUERIED(object, done)                                                                                          \
    do {                                                                                                               \
        if (result == GS_CUDA_OK)                                                                                      \
            done;                                                                                                      \
        gs_watch_polled(&call, (uintptr_t)(object), result);                                                           \
    } while (0)
CALL(cuEventQuery, QUERY, (void *event), (event), NO_STREAM, (uintptr_t)event, (void)0,
     QUERIED(event, gs_watch_event_done((uintptr_t)event, false)))
CALLS(cuStreamQuery, QUERY, (void *stream), (stream), stream, (uintptr_t)stream, (void)0,
      QUERIED(stream, gs_watch_stream_done(&call)))
CALL(cuEventDestroy_v2, OTHER, (void *event), (event), NO_STREAM, (uintptr_t)event,
     gs_watch_event_done((uintptr_t)event, true), (void)0)
CALL(cuStreamDestroy_v2, OTHER, (void *stream), (stream), NO_STREAM, (uintptr_t)stream, gs_watch_stream_gone(stream),
     (void)0)

#define NEW_STREAM(priority) DONE(gs_watch_stream_new(*stream, flags, priority))
CALL(cuStreamCreate, OTHER, (void **stream, unsigned flags), (stream, flags), NO_STREAM, 0, (void)0, NEW_STREAM(0))
CALL(cuStreamCreateWithPriority, OTHER, (void **stream, unsigned flags, int priority), (stream, flags, priority),
     NO_STREAM, 0, (void)0, NEW_STREAM(priority))
CALL(cuGreenCtxStreamCreate, OTHER, (void **stream, void *green, unsigned flags, int priority),
     (stream, green, flags, priority), NO_STREAM, 0, (void)0, NEW_STREAM(priority))

#define CAPTURES(is) gs_watch_captures(stream, call.per_thread, is)
CALLS(cuStreamBeginCapture_v2, OTHER, (void *stream, int mode), (stream, mode), NO_STREAM, 0, (void)0,
      DONE(CAPTURES(true)))
CALLS(cuStreamBeginCaptureToGraph, OTHER,
      (void *stream, void *graph, const void *nodes, const void *edges, size_t count, int mode),
      (stream, graph, nodes, edges, count, mode), NO_STREAM, 0, (void)0, DONE(CAPTURES(true)))
CALLS(cuStreamEndCapture, OTHER, (void *stream, void **graph), (stream, graph), NO_STREAM, 0, (void)0, CAPTURES(false))

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
    CALLS(name, OTHER, (void *stream, uint64_t address, type value, unsigned flags), (stream, address, value, flags),  \
          stream, address, VALUE(kind), ISSUED)
VALUES(cuStreamWaitValue32, uint32_t, GS_WATCH_WAIT_VALUE)
VALUES(cuStreamWaitValue64, uint64_t, GS_WATCH_WAIT_VALUE)
VALUES(cuStreamWaitValue32_v2, uint32_t, GS_WATCH_WAIT_VALUE)
VALUES(cuStreamWaitValue64_v2, uint64_t, GS_WATCH_WAIT_VALUE)
VALUES(cuStreamWriteValue32, uint32_t, GS_WATCH_WRITE_VALUE)
VALUES(cuStreamWriteValue64, uint64_t, GS_WATCH_WRITE_VALUE)
VALUES(cuStreamWriteValue32_v2, uint32_t, GS_WATCH_WRITE_VALUE)
VALUES(cuStreamWriteValue64_v2, uint64_t, GS_WATCH_WRITE_VALUE)

#define BATCH(name)                                                                                                    \
    CALLS(name, OTHER, (void *stream, unsigned count, const gs_watch_batch *operations, unsigned flags),               \
          (stream, count, operations, flags), stream, 0, (void)0, DONE(note_batch(&call, count, operations)))
BATCH(cuStreamBatchMemOp)
BATCH(cuStreamBatchMemOp_v2)

/* ---- host functions ---- */

CALLS(cuStreamAddCallback, OTHER, (void *stream, void (*function)(void *, int, void *), void *data, unsigned flags),
      (stream, function, data, flags), stream, 0, put_callback(&call, stream, &function, &data), ISSUED)

#define HOST(name)                                                                                                     \
    CALL(name, OTHER, (void *stream, void (*function)(void *), void *data), (stream, function, data), stream,          \
         (uintptr_t)function, put_host(&call, stream, &function, &data), ISSUED)
HOST(cuLaunchHostFunc)
HOST(cuLaunchHostFunc_ptsz)

/* ---- memory, limits, modules ---- */

/* Calls that may wait until the whole GPU is idle, or that load. */
#define PLAIN(name, class, parameters, arguments)                                                                      \
    CALL(name, class, parameters, arguments, NO_STREAM, 0, (void)0, (void)0)
PLAIN(cuMemAlloc_v2, ALLOCATE, (uint64_t * made, size_t bytes), (made, bytes))
PLAIN(cuMemAllocPitch_v2, ALLOCATE, (uint64_t * made, size_t *pitch, size_t width, size_t height, unsigned element),
      (made, pitch, width, height, element))
PLAIN(cuMemAllocManaged, ALLOCATE, (uint64_t * made, size_t bytes, unsigned flags), (made, bytes, flags))
PLAIN(cuMemAllocHost_v2, ALLOCATE, (void **made, size_t bytes), (made, bytes))
PLAIN(cuMemHostAlloc, ALLOCATE, (void **made, size_t bytes, unsigned flags), (made, bytes, flags))
PLAIN(cuMemHostUnregister, ALLOCATE, (void *memory), (memory))
PLAIN(cuMemFree_v2, ALLOCATE, (uint64_t memory), (memory))
PLAIN(cuMemFreeHost, ALLOCATE, (void *memory), (memory))
PLAIN(cuMemUnmap, ALLOCATE, (uint64_t memory, size_t bytes), (memory, bytes))
PLAIN(cuMemPoolDestroy, ALLOCATE, (void *pool), (pool))
PLAIN(cuMemPoolTrimTo, ALLOCATE, (void *pool, size_t bytes), (pool, bytes))
PLAIN(cuArrayCreate_v2, ALLOCATE, (void **made, const void *how), (made, how))
PLAIN(cuArray3DCreate_v2, ALLOCATE, (void **made, const void *how), (made, how))
PLAIN(cuArrayDestroy, ALLOCATE, (void *array), (array))
PLAIN(cuIpcCloseMemHandle, ALLOCATE, (uint64_t memory), (memory))
PLAIN(cuCtxSetLimit, ALLOCATE, (int limit, size_t value), (limit, value))
PLAIN(cuCtxDestroy_v2, ALLOCATE, (void *context), (context))
PLAIN(cuDevicePrimaryCtxReset_v2, ALLOCATE, (int device), (device))
PLAIN(cuDevicePrimaryCtxRelease_v2, ALLOCATE, (int device), (device))
PLAIN(cuGreenCtxDestroy, ALLOCATE, (void *context), (context))
PLAIN(cuModuleUnload, ALLOCATE, (void *module), (module))
PLAIN(cuLibraryUnload, ALLOCATE, (void *library), (library))
PLAIN(cuModuleLoad, LOAD, (void **module, const char *file), (module, file))
PLAIN(cuModuleGetFunction, LOAD, (void **function, void *module, const char *name), (function, module, name))

/* Memory that another process may write. */
#define SHARES(name, class, parameters, arguments)                                                                     \
    CALL(name, class, parameters, arguments, NO_STREAM, 0, (void)0, DONE(gs_watch_shares()))
SHARES(cuMemHostRegister_v2, ALLOCATE, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags))
SHARES(cuIpcGetMemHandle, OTHER, (void *handle, uint64_t memory), (handle, memory))
SHARES(cuIpcOpenMemHandle_v2, ALLOCATE, (uint64_t * made, struct ipc_handle handle, unsigned flags),
       (made, handle, flags))
SHARES(cuMemExportToShareableHandle, OTHER, (void *made, uint64_t memory, int kind, unsigned long long flags),
       (made, memory, kind, flags))
SHARES(cuMemImportFromShareableHandle, OTHER, (uint64_t * made, void *handle, int kind), (made, handle, kind))

#define LOADS(name, parameters, arguments)                                                                             \
    CALL(name, LOAD, parameters, arguments, NO_STREAM, (uintptr_t)image, gs_watch_image(image), (void)0)
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
    CALL(name, LOAD, parameters, arguments, NO_STREAM, (uintptr_t)kernel, gs_watch_loads(&call, kernel),               \
         DONE(gs_watch_loaded(kernel)))
LOADED(cuKernelGetFunction, (void **function, const void *kernel), (function, kernel), kernel)
LOADED(cuFuncLoad, (void *function), (function), function)
LOADED(cuFuncGetAttribute, (int *value, int attribute, const void *function), (value, attribute, function), function)
