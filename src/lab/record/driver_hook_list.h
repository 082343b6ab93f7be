/*
 * driver_hook_list.h: the functions of the driver that are recorded. driver_hooks.c reads this list twice: for the
 * hooks, and for their table.
 *
 * They are those of GS_DRIVER_CALLS (cupti.h), and some that change kernels and graphs. Functions that end in _ptsz and
 * _ptds take stream 0 for the default stream of the thread.
 */

/* ---- kernels and graphs ---- */

#define SHAPE ((const unsigned[6]){gx, gy, gz, bx, by, bz})

WORKS(cuLaunchKernel,
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
       void *stream, void **values, void **extra),
      (function, gx, gy, gz, bx, by, bz, shared, stream, values, extra), .stream = stream, .function = function,
      .shape = SHAPE, .shared_bytes = shared)
WORKS(cuLaunchKernelEx, (const gs_launch_config *config, void *function, void **values, void **extra),
      (config, function, values, extra), .stream = config->stream, .config = config, .function = function,
      .shape = config->shape, .shared_bytes = config->shared_bytes)
WORKS(cuLaunchCooperativeKernel,
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
       void *stream, void **values),
      (function, gx, gy, gz, bx, by, bz, shared, stream, values), .stream = stream, .function = function,
      .shape = SHAPE, .shared_bytes = shared, .is_cooperative = true)
WORKS(cuGraphLaunch, (void *graph, void *stream), (graph, stream), .stream = stream, .other = graph)

/* ---- copies ---- */

SYNCS(cuMemcpy, (uint64_t to, uint64_t from, size_t bytes), (to, from, bytes), .record = gs_driver_copy(UNKNOWN, bytes))
WORKS(cuMemcpyAsync, (uint64_t to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream),
      .stream = stream, .record = gs_driver_copy(UNKNOWN, bytes))
SYNCS(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes), (to, from, bytes),
      .record = gs_driver_copy(TO_DEVICE, bytes))
WORKS(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream), (to, from, bytes, stream),
      .stream = stream, .record = gs_driver_copy(TO_DEVICE, bytes))
SYNCS(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes), (to, from, bytes),
      .record = gs_driver_copy(TO_HOST, bytes))
WORKS(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream),
      .stream = stream, .record = gs_driver_copy(TO_HOST, bytes))
SYNCS(cuMemcpyDtoD_v2, (uint64_t to, uint64_t from, size_t bytes), (to, from, bytes),
      .record = gs_driver_copy(IN_DEVICE, bytes))
WORKS(cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, void *stream), (to, from, bytes, stream),
      .stream = stream, .record = gs_driver_copy(IN_DEVICE, bytes))
SYNCS(cuMemcpyHtoA_v2, (void *to, size_t offset, const void *from, size_t bytes), (to, offset, from, bytes),
      .record = gs_driver_copy(TO_ARRAY, bytes))
WORKS(cuMemcpyHtoAAsync_v2, (void *to, size_t offset, const void *from, size_t bytes, void *stream),
      (to, offset, from, bytes, stream), .stream = stream, .record = gs_driver_copy(TO_ARRAY, bytes))
SYNCS(cuMemcpyAtoH_v2, (void *to, void *from, size_t offset, size_t bytes), (to, from, offset, bytes),
      .record = gs_driver_copy(FROM_ARRAY, bytes))
WORKS(cuMemcpyAtoHAsync_v2, (void *to, void *from, size_t offset, size_t bytes, void *stream),
      (to, from, offset, bytes, stream), .stream = stream, .record = gs_driver_copy(FROM_ARRAY, bytes))
SYNCS(cuMemcpy2D_v2, (const void *copy), (copy), .record = gs_driver_copy_2d(copy))
WORKS(cuMemcpy2DAsync_v2, (const void *copy, void *stream), (copy, stream), .stream = stream,
      .record = gs_driver_copy_2d(copy))
SYNCS(cuMemcpy3D_v2, (const void *copy), (copy), .record = gs_driver_copy_3d(copy))
WORKS(cuMemcpy3DAsync_v2, (const void *copy, void *stream), (copy, stream), .stream = stream,
      .record = gs_driver_copy_3d(copy))
SYNCS(cuMemcpyPeer, (uint64_t to, void *there, uint64_t from, void *here, size_t bytes), (to, there, from, here, bytes),
      .record = gs_driver_copy(PEERS, bytes))
WORKS(cuMemcpyPeerAsync, (uint64_t to, void *there, uint64_t from, void *here, size_t bytes, void *stream),
      (to, there, from, here, bytes, stream), .stream = stream, .record = gs_driver_copy(PEERS, bytes))
SYNCS(cuMemcpy3DPeer, (const void *copy), (copy), .record = gs_driver_copy_3d(copy))
WORKS(cuMemcpy3DPeerAsync, (const void *copy, void *stream), (copy, stream), .stream = stream,
      .record = gs_driver_copy_3d(copy))
SYNCS(cuMemcpy2DUnaligned_v2, (const void *copy), (copy), .record = gs_driver_copy_2d(copy))
SYNCS(cuMemcpyDtoA_v2, (void *to, size_t offset, uint64_t from, size_t bytes), (to, offset, from, bytes),
      .record = gs_driver_copy(DEVICE_TO_ARRAY, bytes))
SYNCS(cuMemcpyAtoD_v2, (uint64_t to, void *from, size_t offset, size_t bytes), (to, from, offset, bytes),
      .record = gs_driver_copy(ARRAY_TO_DEVICE, bytes))
SYNCS(cuMemcpyAtoA_v2, (void *to, size_t to_offset, void *from, size_t offset, size_t bytes),
      (to, to_offset, from, offset, bytes), .record = gs_driver_copy(ARRAYS, bytes))
WORKS(cuMemcpyBatchAsync,
      (void *to, void *from, size_t *sizes, size_t count, void *attributes, void *indices, size_t attribute_count,
       size_t *failed, void *stream),
      (to, from, sizes, count, attributes, indices, attribute_count, failed, stream), .stream = stream,
      .record = gs_driver_copy(UNKNOWN, sum_of_sizes(sizes, count)))
WORKS(cuMemcpyBatchAsync_v2,
      (void *to, void *from, size_t *sizes, size_t count, void *attributes, void *indices, size_t attribute_count,
       void *stream),
      (to, from, sizes, count, attributes, indices, attribute_count, stream), .stream = stream,
      .record = gs_driver_copy(UNKNOWN, sum_of_sizes(sizes, count)))
WORKS(cuMemcpy3DBatchAsync, (size_t count, void *list, size_t *failed, unsigned long long flags, void *stream),
      (count, list, failed, flags, stream), .stream = stream, .record = gs_driver_copy(UNKNOWN, 0))
WORKS(cuMemcpy3DBatchAsync_v2, (size_t count, void *list, unsigned long long flags, void *stream),
      (count, list, flags, stream), .stream = stream, .record = gs_driver_copy(UNKNOWN, 0))

/* ---- memsets ---- */

SYNCS(cuMemsetD8_v2, (uint64_t to, unsigned char value, size_t count), (to, value, count),
      .record = gs_driver_memset(count))
WORKS(cuMemsetD8Async, (uint64_t to, unsigned char value, size_t count, void *stream), (to, value, count, stream),
      .stream = stream, .record = gs_driver_memset(count))
SYNCS(cuMemsetD2D8_v2, (uint64_t to, size_t pitch, unsigned char value, size_t width, size_t height),
      (to, pitch, value, width, height), .record = gs_driver_memset(width * height))
WORKS(cuMemsetD2D8Async, (uint64_t to, size_t pitch, unsigned char value, size_t width, size_t height, void *stream),
      (to, pitch, value, width, height, stream), .stream = stream, .record = gs_driver_memset(width * height))
SYNCS(cuMemsetD16_v2, (uint64_t to, unsigned short value, size_t count), (to, value, count),
      .record = gs_driver_memset(2 * count))
WORKS(cuMemsetD16Async, (uint64_t to, unsigned short value, size_t count, void *stream), (to, value, count, stream),
      .stream = stream, .record = gs_driver_memset(2 * count))
SYNCS(cuMemsetD2D16_v2, (uint64_t to, size_t pitch, unsigned short value, size_t width, size_t height),
      (to, pitch, value, width, height), .record = gs_driver_memset(2 * width * height))
WORKS(cuMemsetD2D16Async, (uint64_t to, size_t pitch, unsigned short value, size_t width, size_t height, void *stream),
      (to, pitch, value, width, height, stream), .stream = stream, .record = gs_driver_memset(2 * width * height))
SYNCS(cuMemsetD32_v2, (uint64_t to, unsigned value, size_t count), (to, value, count),
      .record = gs_driver_memset(4 * count))
WORKS(cuMemsetD32Async, (uint64_t to, unsigned value, size_t count, void *stream), (to, value, count, stream),
      .stream = stream, .record = gs_driver_memset(4 * count))
SYNCS(cuMemsetD2D32_v2, (uint64_t to, size_t pitch, unsigned value, size_t width, size_t height),
      (to, pitch, value, width, height), .record = gs_driver_memset(4 * width * height))
WORKS(cuMemsetD2D32Async, (uint64_t to, size_t pitch, unsigned value, size_t width, size_t height, void *stream),
      (to, pitch, value, width, height, stream), .stream = stream, .record = gs_driver_memset(4 * width * height))

/* ---- events and streams ---- */

WORKS(cuEventRecord, (void *event, void *stream), (event, stream), .stream = stream, .other = event)
WORKS(cuEventRecordWithFlags, (void *event, void *stream, unsigned flags), (event, stream, flags), .stream = stream,
      .other = event)
WORKS(cuStreamWaitEvent, (void *stream, void *event, unsigned flags), (stream, event, flags), .stream = stream,
      .other = event)
WORK(cuEventDestroy_v2, (void *event), (event), .other = event)
WORK(cuStreamDestroy_v2, (void *stream), (stream), .stream = stream)

#define STREAM_NEW(name, parameters, arguments, priority)                                                              \
    AFTER(name, parameters, arguments, result == GS_CUDA_OK, gs_driver_stream_new(*stream, flags, priority))
STREAM_NEW(cuStreamCreate, (void **stream, unsigned flags), (stream, flags), 0)
STREAM_NEW(cuStreamCreateWithPriority, (void **stream, unsigned flags, int priority), (stream, flags, priority),
           priority)
STREAM_NEW(cuGreenCtxStreamCreate, (void **stream, void *green, unsigned flags, int priority),
           (stream, green, flags, priority), priority)

/* ---- capturing ---- */

/* Noted after the call: a capture that failed to begin does not exist, and one that failed to end is over. */
#define CAPTURE(name, parameters, arguments, if_failed)                                                                \
    AFTER(name, parameters, arguments, result == GS_CUDA_OK || (if_failed),                                            \
          gs_driver_before(&(gs_driver_work){.call = call_##name, .stream = stream}))
#define CAPTURES(name, parameters, arguments, if_failed)                                                               \
    CAPTURE(name, parameters, arguments, if_failed)                                                                    \
    CAPTURE(name##_ptsz, parameters, arguments, if_failed)
CAPTURES(cuStreamBeginCapture, (void *stream), (stream), false)
CAPTURES(cuStreamBeginCapture_v2, (void *stream, int mode), (stream, mode), false)
CAPTURES(cuStreamBeginCaptureToGraph,
         (void *stream, void *graph, const void *nodes, const void *edges, size_t count, int mode),
         (stream, graph, nodes, edges, count, mode), false)
CAPTURES(cuStreamEndCapture, (void *stream, void **graph), (stream, graph), true)

/* ---- executable graphs ---- */

/* `made` is the executable graph, `of` the graph it is made from. */
#define EXEC(name, parameters, arguments, made, of)                                                                    \
    AFTER(name, parameters, arguments, result == GS_CUDA_OK, gs_driver_exec(made, of))
EXEC(cuGraphInstantiate_v2, (void **exec, void *graph, void *node, char *text, size_t size),
     (exec, graph, node, text, size), *exec, graph)
EXEC(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags), (exec, graph, flags), *exec,
     graph)
EXEC(cuGraphInstantiateWithParams, (void **exec, void *graph, void *how), (exec, graph, how), *exec, graph)
EXEC(cuGraphInstantiateWithParams_ptsz, (void **exec, void *graph, void *how), (exec, graph, how), *exec, graph)
EXEC(cuGraphExecUpdate, (void *exec, void *graph, void *node, int *what), (exec, graph, node, what), exec, graph)
EXEC(cuGraphExecUpdate_v2, (void *exec, void *graph, void *what), (exec, graph, what), exec, graph)

/* Forgotten before it is destroyed: its handle may be reused at once. */
HOOK(cuGraphExecDestroy, (void *exec), if (gs_driver_recorder_is_on()) gs_driver_exec(exec, NULL);
     return real_cuGraphExecDestroy(exec);)

/* ---- kernels that change ---- */

#define CHANGE(name, parameters, arguments, change) AFTER(name, parameters, arguments, true, change)
CHANGE(cuFuncSetAttribute, (void *function, int attribute, int value), (function, attribute, value),
       gs_driver_function_set(function, attribute, value))
CHANGE(cuKernelSetAttribute, (int attribute, int value, void *kernel, int device), (attribute, value, kernel, device),
       gs_driver_kernel_set(gs_driver_recorder_driver(), kernel, device, attribute, value))
CHANGE(cuFuncSetCacheConfig, (void *function, int config), (function, config),
       gs_driver_function_cache(function, config))
CHANGE(cuKernelSetCacheConfig, (void *kernel, int config, int device), (kernel, config, device),
       gs_driver_function_cache(kernel, config))
CHANGE(cuModuleUnload, (void *module), (module), gs_driver_functions_forget())
CHANGE(cuLibraryUnload, (void *library), (library), gs_driver_functions_forget())

/* ---- starting ---- */

CHANGE(cuCtxDestroy_v2, (void *context), (context), gs_driver_functions_forget())

HOOK(cuInit, (unsigned flags), int result = real_cuInit(flags); if (result == GS_CUDA_OK) gs_driver_recorder_start();
     return result;)
