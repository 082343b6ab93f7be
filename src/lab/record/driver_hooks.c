/*
 * driver_hooks.c: hooks of the recorded driver functions; the hook of cuX is named hook_cuX.
 *
 * They are those of GS_DRIVER_CALLS (cupti.h), and some that change kernels and graphs. A hook is WORK: its parameters,
 * the call of the driver, and its meaning. Functions that end in _ptsz and _ptds take stream 0 for the default stream
 * of the thread.
 */
#include "driver_work.h"

#include <string.h>

/* A hooked function: the real one, and its row in the recorder's table. */
#define REAL(name, parameters)                                                                                         \
    static int(*real_##name) parameters;                                                                               \
    static const gs_call *call_##name;

/* A function that the recorder follows. */
#define WORK(name, parameters, arguments, ...)                                                                         \
    REAL(name, parameters)                                                                                             \
    static int hook_##name parameters {                                                                                \
        if (!gs_driver_recorder_is_on())                                                                               \
            return real_##name arguments;                                                                              \
        gs_driver_work work = {.call = call_##name, __VA_ARGS__};                                                      \
        gs_driver_before(&work);                                                                                       \
        int result = real_##name arguments;                                                                            \
        gs_driver_after(&work, result);                                                                                \
        return result;                                                                                                 \
    }
#define WORKS(name, parameters, arguments, ...)                                                                        \
    WORK(name, parameters, arguments, __VA_ARGS__)                                                                     \
    WORK(name##_ptsz, parameters, arguments, __VA_ARGS__)
/* For functions without a stream. */
#define SYNCS(name, parameters, arguments, ...)                                                                        \
    WORK(name, parameters, arguments, __VA_ARGS__)                                                                     \
    WORK(name##_ptds, parameters, arguments, __VA_ARGS__)

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

/* CUPTI's kinds of copies. */
enum {
    UNKNOWN,
    TO_DEVICE,
    TO_HOST,
    TO_ARRAY,
    FROM_ARRAY,
    ARRAYS,
    ARRAY_TO_DEVICE,
    DEVICE_TO_ARRAY,
    IN_DEVICE,
    PEERS = 10
};

static uint64_t sum_of_sizes(const size_t *sizes, size_t count) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count && sizes; i++)
        bytes += sizes[i];
    return bytes;
}

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
    REAL(name, parameters)                                                                                             \
    static int hook_##name parameters {                                                                                \
        int result = real_##name arguments;                                                                            \
        if (result == GS_CUDA_OK && gs_driver_recorder_is_on())                                                        \
            gs_driver_stream_new(*stream, flags, priority);                                                            \
        return result;                                                                                                 \
    }
STREAM_NEW(cuStreamCreate, (void **stream, unsigned flags), (stream, flags), 0)
STREAM_NEW(cuStreamCreateWithPriority, (void **stream, unsigned flags, int priority), (stream, flags, priority),
           priority)
STREAM_NEW(cuGreenCtxStreamCreate, (void **stream, void *green, unsigned flags, int priority),
           (stream, green, flags, priority), priority)

/* ---- capturing ---- */

/* Noted after the call: a capture that failed to begin does not exist, and one that failed to end is over. */
#define CAPTURE(name, parameters, arguments, if_failed)                                                                \
    REAL(name, parameters)                                                                                             \
    static int hook_##name parameters {                                                                                \
        int result = real_##name arguments;                                                                            \
        gs_driver_work work = {.call = call_##name, .stream = stream};                                                 \
        if (gs_driver_recorder_is_on() && (result == GS_CUDA_OK || (if_failed)))                                       \
            gs_driver_before(&work);                                                                                   \
        return result;                                                                                                 \
    }
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
    REAL(name, parameters)                                                                                             \
    static int hook_##name parameters {                                                                                \
        int result = real_##name arguments;                                                                            \
        if (result == GS_CUDA_OK && gs_driver_recorder_is_on())                                                        \
            gs_driver_exec(made, of);                                                                                  \
        return result;                                                                                                 \
    }
EXEC(cuGraphInstantiate_v2, (void **exec, void *graph, void *node, char *text, size_t size),
     (exec, graph, node, text, size), *exec, graph)
EXEC(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags), (exec, graph, flags), *exec,
     graph)
EXEC(cuGraphInstantiateWithParams, (void **exec, void *graph, void *how), (exec, graph, how), *exec, graph)
EXEC(cuGraphInstantiateWithParams_ptsz, (void **exec, void *graph, void *how), (exec, graph, how), *exec, graph)
EXEC(cuGraphExecUpdate, (void *exec, void *graph, void *node, int *what), (exec, graph, node, what), exec, graph)
EXEC(cuGraphExecUpdate_v2, (void *exec, void *graph, void *what), (exec, graph, what), exec, graph)

/* Forgotten before it is destroyed: its handle may be reused at once. */
REAL(cuGraphExecDestroy, (void *))
static int hook_cuGraphExecDestroy(void *exec) {
    if (gs_driver_recorder_is_on())
        gs_driver_exec(exec, NULL);
    return real_cuGraphExecDestroy(exec);
}

/* ---- kernels that change ---- */

#define CHANGE(name, parameters, arguments, change)                                                                    \
    REAL(name, parameters)                                                                                             \
    static int hook_##name parameters {                                                                                \
        int result = real_##name arguments;                                                                            \
        if (gs_driver_recorder_is_on())                                                                                \
            change;                                                                                                    \
        return result;                                                                                                 \
    }
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

REAL(cuInit, (unsigned))
static int hook_cuInit(unsigned flags) {
    int result = real_cuInit(flags);
    if (result == GS_CUDA_OK)
        gs_driver_recorder_start();
    return result;
}

/* ---- the table of hooks ---- */

#define HOOK(function)                                                                                                 \
    { #function, (gs_front_function *)hook_##function, &real_##function, &call_##function, 0 }
#define STREAMED(function) HOOK(function), HOOK(function##_ptsz)
#define DEFAULT(function)  HOOK(function), HOOK(function##_ptds)

static const gs_front_hook hooks[] = {
    STREAMED(cuLaunchKernel),
    STREAMED(cuLaunchKernelEx),
    STREAMED(cuLaunchCooperativeKernel),
    STREAMED(cuGraphLaunch),
    DEFAULT(cuMemcpy),
    STREAMED(cuMemcpyAsync),
    DEFAULT(cuMemcpyHtoD_v2),
    STREAMED(cuMemcpyHtoDAsync_v2),
    DEFAULT(cuMemcpyDtoH_v2),
    STREAMED(cuMemcpyDtoHAsync_v2),
    DEFAULT(cuMemcpyDtoD_v2),
    STREAMED(cuMemcpyDtoDAsync_v2),
    DEFAULT(cuMemcpyHtoA_v2),
    STREAMED(cuMemcpyHtoAAsync_v2),
    DEFAULT(cuMemcpyAtoH_v2),
    STREAMED(cuMemcpyAtoHAsync_v2),
    DEFAULT(cuMemcpy2D_v2),
    STREAMED(cuMemcpy2DAsync_v2),
    DEFAULT(cuMemcpy3D_v2),
    STREAMED(cuMemcpy3DAsync_v2),
    DEFAULT(cuMemcpyPeer),
    STREAMED(cuMemcpyPeerAsync),
    DEFAULT(cuMemcpy3DPeer),
    STREAMED(cuMemcpy3DPeerAsync),
    DEFAULT(cuMemcpy2DUnaligned_v2),
    DEFAULT(cuMemcpyDtoA_v2),
    DEFAULT(cuMemcpyAtoD_v2),
    DEFAULT(cuMemcpyAtoA_v2),
    STREAMED(cuMemcpyBatchAsync),
    STREAMED(cuMemcpyBatchAsync_v2),
    STREAMED(cuMemcpy3DBatchAsync),
    STREAMED(cuMemcpy3DBatchAsync_v2),
    DEFAULT(cuMemsetD8_v2),
    STREAMED(cuMemsetD8Async),
    DEFAULT(cuMemsetD2D8_v2),
    STREAMED(cuMemsetD2D8Async),
    DEFAULT(cuMemsetD16_v2),
    STREAMED(cuMemsetD16Async),
    DEFAULT(cuMemsetD2D16_v2),
    STREAMED(cuMemsetD2D16Async),
    DEFAULT(cuMemsetD32_v2),
    STREAMED(cuMemsetD32Async),
    DEFAULT(cuMemsetD2D32_v2),
    STREAMED(cuMemsetD2D32Async),
    STREAMED(cuEventRecord),
    STREAMED(cuEventRecordWithFlags),
    STREAMED(cuStreamWaitEvent),
    HOOK(cuEventDestroy_v2),
    HOOK(cuStreamDestroy_v2),
    HOOK(cuStreamCreate),
    HOOK(cuStreamCreateWithPriority),
    HOOK(cuGreenCtxStreamCreate),
    STREAMED(cuStreamBeginCapture),
    STREAMED(cuStreamBeginCapture_v2),
    STREAMED(cuStreamBeginCaptureToGraph),
    STREAMED(cuStreamEndCapture),
    HOOK(cuGraphInstantiate_v2),
    HOOK(cuGraphInstantiateWithFlags),
    HOOK(cuGraphInstantiateWithParams),
    HOOK(cuGraphInstantiateWithParams_ptsz),
    HOOK(cuGraphExecUpdate),
    HOOK(cuGraphExecUpdate_v2),
    HOOK(cuGraphExecDestroy),
    HOOK(cuFuncSetAttribute),
    HOOK(cuKernelSetAttribute),
    HOOK(cuFuncSetCacheConfig),
    HOOK(cuKernelSetCacheConfig),
    HOOK(cuModuleUnload),
    HOOK(cuLibraryUnload),
    HOOK(cuCtxDestroy_v2),
    HOOK(cuInit),
};

const struct gs_front_hooks gs_front_hooks = {hooks, sizeof hooks / sizeof *hooks, NULL};

/* The row of a function in the recorder's table; NULL: it has none. */
static const gs_call *find_call(const char *name) {
    static const char *const endings[] = {"_ptsz", "_ptds"};
    size_t length = strlen(name);
    bool per_thread = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !per_thread; i++)
        per_thread = length > 5 && strcmp(name + length - 5, endings[i]) == 0;
    length -= per_thread ? 5 : 0;
    for (size_t i = 0; i < gs_call_count; i++)
        if (gs_calls[i].domain == CUPTI_DRIVER && gs_calls[i].per_thread == per_thread &&
            strncmp(gs_calls[i].symbol, name, length) == 0 && !gs_calls[i].symbol[length])
            return &gs_calls[i];
    return NULL;
}

void gs_front_ready(bool has_driver) {
    for (size_t i = 0; i < gs_front_hooks.count && has_driver; i++)
        *(const gs_call **)hooks[i].note = find_call(hooks[i].name);
    gs_driver_recorder_ready();
}
