/*
 * gate_hooks.c: replacements of driver functions; the hook of cuX is named hook_cuX.
 *
 * Functions that end in _ptsz take stream 0 for the default stream of the thread, the others for that of the context.
 */
#include "gate.h"
#include "gate_twin.h"

#include <string.h>

/* ---- streams ---- */

#define LEGACY     ((void *)1)
#define PER_THREAD ((void *)2)

static void *stream_of(void *stream) {
    return stream == LEGACY ? NULL : stream;
}

static void *stream_of_ptsz(void *stream) {
    return stream == LEGACY ? NULL : stream ? stream : PER_THREAD;
}

/* ---- work ---- */

static void before_work(const gs_gate_item *item, gs_gate_around *around) {
    bool is_linked = gs_gate_is_linked(), is_captured = is_linked && gs_gate_is_capturing(item->stream);
    if (is_captured && item->launch && gs_gate_state.has_guards && gs_gate_state.class == GS_GATE_BEST_EFFORT)
        gs_gate_function_keep(item->what);
    gs_gate_around_clear(around, item->stream);
    if (!is_linked || is_captured)
        return;
    gs_tenant_page *page = gs_gate_state.page;
    gs_gate_count(!item->what ? &page->copies : item->launch ? &page->launches : &page->graphs, 1);
    if (gs_gate_state.class == GS_GATE_BEST_EFFORT)
        gs_gate_wait_before(item, around);
    else
        around->number = gs_gate_work_begins(item);
}

static void after_work(const gs_gate_around *around) {
    if (around->number)
        gs_gate_work_launched(around->stream, around->number);
    else
        gs_gate_wait_after(around);
}

/* A function of the driver that puts work into a stream; `call` does it. */
#define WORK(name, parameters, call, ...)                                                                              \
    static int hook_##name parameters {                                                                                \
        gs_gate_around around;                                                                                         \
        before_work(&(gs_gate_item){__VA_ARGS__}, &around);                                                            \
        int result = call;                                                                                             \
        after_work(&around);                                                                                           \
        return result;                                                                                                 \
    }
/* Both variants: with and without _ptsz. */
#define WORKS(name, parameters, arguments, on, ...)                                                                    \
    WORK(name, parameters, gs_gate_real.name arguments, .stream = stream_of(on), __VA_ARGS__)                          \
    WORK(name##_ptsz, parameters, gs_gate_real.name##_ptsz arguments, .stream = stream_of_ptsz(on), __VA_ARGS__)

/* Launches of kernels, some of which are made so that they can be stopped. */
#define KERNEL(name, parameters, arguments, on, at)                                                                    \
    WORK(name, parameters,                                                                                             \
         around.guard.twin ? gs_gate_guard_launch(&around.guard, at, around.stream, values, extra)                     \
                           : gs_gate_real.name arguments,                                                              \
         .stream = on, .what = function, .launch = at)

#define LAUNCH (&(const gs_gate_config){.shape = {gx, gy, gz, bx, by, bz}, .shared_bytes = shared, .stream = stream})

#define KERNELS(name, on)                                                                                              \
    KERNEL(name,                                                                                                       \
           (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,              \
            unsigned shared, void *stream, void **values, void **extra),                                               \
           (function, gx, gy, gz, bx, by, bz, shared, stream, values, extra), on(stream), LAUNCH)
KERNELS(cuLaunchKernel, stream_of)
KERNELS(cuLaunchKernel_ptsz, stream_of_ptsz)

#define CONFIGURED(name, on)                                                                                           \
    KERNEL(name, (const gs_gate_config *config, void *function, void **values, void **extra),                          \
           (config, function, values, extra), on(config->stream), config)
CONFIGURED(cuLaunchKernelEx, stream_of)
CONFIGURED(cuLaunchKernelEx_ptsz, stream_of_ptsz)

WORKS(cuLaunchCooperativeKernel,
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
       void *stream, void **values),
      (function, gx, gy, gz, bx, by, bz, shared, stream, values), stream, .what = function, .launch = LAUNCH,
      .is_cooperative = true)
WORKS(cuGraphLaunch, (void *graph, void *stream), (around.graph ? around.graph : graph, stream), stream, .what = graph)

/* Copies, some of which are made in pieces. */
#define COPY(name, to_type, from_type, on)                                                                             \
    static int pieces_##name(const gs_gate_around *around, to_type to, from_type from, size_t bytes, void *stream) {   \
        size_t done = 0, now;                                                                                          \
        int result;                                                                                                    \
        do {                                                                                                           \
            now = around->piece && bytes - done > around->piece ? around->piece : bytes - done;                        \
            if (done)                                                                                                  \
                gs_gate_mark_wait(around->stream);                                                                     \
            result =                                                                                                   \
                gs_gate_real.name((to_type)((uintptr_t)to + done), (from_type)((uintptr_t)from + done), now, stream);  \
            done += now;                                                                                               \
        } while (result == GS_CUDA_OK && done < bytes);                                                                \
        return result;                                                                                                 \
    }                                                                                                                  \
    WORK(name, (to_type to, from_type from, size_t bytes, void *stream),                                               \
         pieces_##name(&around, to, from, bytes, stream), .stream = on(stream), .bytes = bytes, .to = (uintptr_t)to,   \
         .from = (uintptr_t)from)
#define COPIES(name, to_type, from_type)                                                                               \
    COPY(name, to_type, from_type, stream_of)                                                                          \
    COPY(name##_ptsz, to_type, from_type, stream_of_ptsz)
COPIES(cuMemcpyHtoDAsync_v2, gs_gate_pointer, const void *)
COPIES(cuMemcpyDtoHAsync_v2, void *, gs_gate_pointer)
COPIES(cuMemcpyDtoDAsync_v2, gs_gate_pointer, gs_gate_pointer)
COPIES(cuMemcpyAsync, gs_gate_pointer, gs_gate_pointer)

WORKS(cuMemsetD8Async, (gs_gate_pointer to, unsigned char value, size_t count, void *stream),
      (to, value, count, stream), stream, .bytes = count)
WORKS(cuMemsetD16Async, (gs_gate_pointer to, unsigned short value, size_t count, void *stream),
      (to, value, count, stream), stream, .bytes = 2 * count)
WORKS(cuMemsetD32Async, (gs_gate_pointer to, unsigned value, size_t count, void *stream), (to, value, count, stream),
      stream, .bytes = 4 * count)

WORKS(cuMemcpy2DAsync_v2, (const void *copy, void *stream), (copy, stream), stream, .bytes = 0)
WORKS(cuMemcpy3DAsync_v2, (const void *copy, void *stream), (copy, stream), stream, .bytes = 0)
WORKS(cuMemcpyPeerAsync,
      (gs_gate_pointer to, void *there, gs_gate_pointer from, void *here, size_t bytes, void *stream),
      (to, there, from, here, bytes, stream), stream, .bytes = bytes)
WORKS(cuMemsetD2D8Async,
      (gs_gate_pointer to, size_t pitch, unsigned char value, size_t width, size_t height, void *stream),
      (to, pitch, value, width, height, stream), stream, .bytes = width * height)
WORKS(cuMemsetD2D16Async,
      (gs_gate_pointer to, size_t pitch, unsigned short value, size_t width, size_t height, void *stream),
      (to, pitch, value, width, height, stream), stream, .bytes = 2 * width * height)
WORKS(cuMemsetD2D32Async, (gs_gate_pointer to, size_t pitch, unsigned value, size_t width, size_t height, void *stream),
      (to, pitch, value, width, height, stream), stream, .bytes = 4 * width * height)

/* ---- graphs ---- */

#define INSTANTIATE(name, parameters, arguments, flags)                                                                \
    static int hook_##name parameters {                                                                                \
        int result = gs_gate_real.name arguments;                                                                      \
        if (result == GS_CUDA_OK && gs_gate_is_linked())                                                               \
            gs_gate_graph_keep(*exec, graph, flags);                                                                   \
        return result;                                                                                                 \
    }
/* Functions that change or destroy an instance. */
#define CHANGE(name, parameters, arguments, is_destroyed)                                                              \
    static int hook_##name parameters {                                                                                \
        if (gs_gate_is_linked()) {                                                                                     \
            gs_gate_wait_change(exec, is_destroyed);                                                                   \
            gs_gate_graph_forget(exec, is_destroyed);                                                                                \
        }                                                                                                              \
        return gs_gate_real.name arguments;                                                                            \
    }

/* CUDA_GRAPH_INSTANTIATE_PARAMS begins with its flags. */
static uint64_t flags_of(const void *parameters) {
    uint64_t flags;
    memcpy(&flags, parameters, sizeof flags);
    return flags;
}

INSTANTIATE(cuGraphInstantiate, (void **exec, void *graph, void **error, char *text, size_t size),
            (exec, graph, error, text, size), 0)
INSTANTIATE(cuGraphInstantiate_v2, (void **exec, void *graph, void **error, char *text, size_t size),
            (exec, graph, error, text, size), 0)
INSTANTIATE(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags), (exec, graph, flags),
            flags)
INSTANTIATE(cuGraphInstantiateWithParams, (void **exec, void *graph, void *how), (exec, graph, how), flags_of(how))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, (void **exec, void *graph, void *how), (exec, graph, how), flags_of(how))

#define CHANGE_NODE(name) CHANGE(name, (void *exec, void *node, const void *how), (exec, node, how), false)

CHANGE(cuGraphExecDestroy, (void *exec), (exec), true)
CHANGE(cuGraphExecUpdate, (void *exec, void *graph, void *error, void *answer), (exec, graph, error, answer), false)
CHANGE(cuGraphExecUpdate_v2, (void *exec, void *graph, void *answer), (exec, graph, answer), false)
CHANGE(cuGraphExecMemcpyNodeSetParams, (void *exec, void *node, const void *how, void *context),
       (exec, node, how, context), false)
CHANGE(cuGraphExecMemsetNodeSetParams, (void *exec, void *node, const void *how, void *context),
       (exec, node, how, context), false)
CHANGE(cuGraphExecChildGraphNodeSetParams, (void *exec, void *node, void *how), (exec, node, how), false)
CHANGE(cuGraphExecEventRecordNodeSetEvent, (void *exec, void *node, void *event), (exec, node, event), false)
CHANGE(cuGraphExecEventWaitNodeSetEvent, (void *exec, void *node, void *event), (exec, node, event), false)
CHANGE(cuGraphExecNodeSetParams, (void *exec, void *node, void *how), (exec, node, how), false)
CHANGE(cuGraphNodeSetEnabled, (void *exec, void *node, unsigned is_enabled), (exec, node, is_enabled), false)
CHANGE_NODE(cuGraphExecKernelNodeSetParams)
CHANGE_NODE(cuGraphExecKernelNodeSetParams_v2)
CHANGE_NODE(cuGraphExecHostNodeSetParams)
CHANGE_NODE(cuGraphExecExternalSemaphoresSignalNodeSetParams)
CHANGE_NODE(cuGraphExecExternalSemaphoresWaitNodeSetParams)
CHANGE_NODE(cuGraphExecBatchMemOpNodeSetParams)

/* ---- synchronization ---- */

static void keeper_beats(bool begins) {
    if (begins)
        gs_gate_keeper_beat();
}

static void host_waits(void) {
    gs_gate_work_waits();
    gs_gate_wait_synchronize(false);
}

/* `keeper` is told when a wait begins and when it has ended. */
#define LEARN(name, parameters, arguments, waits, keeper, done)                                                        \
    static int hook_##name parameters {                                                                                \
        bool is_linked = gs_gate_is_linked();                                                                          \
        if (is_linked && waits)                                                                                        \
            host_waits();                                                                                              \
        uint64_t number = is_linked ? gs_gate_work_now() : 0;                                                          \
        if (is_linked)                                                                                                 \
            keeper(true);                                                                                              \
        int result = gs_gate_real.name arguments;                                                                      \
        if (is_linked)                                                                                                 \
            keeper(false);                                                                                             \
        if (is_linked && result != GS_CUDA_NOT_READY)                                                                  \
            done;                                                                                                      \
        if (is_linked && waits)                                                                                        \
            gs_gate_wait_synchronize(true);                                                                            \
        return result;                                                                                                 \
    }
#define SYNCHRONIZE(name, parameters, arguments, done)                                                                 \
    LEARN(name, parameters, arguments, true, gs_gate_keeper_waits, done)
#define SYNCHRONIZE_ALL(name, parameters, arguments)                                                                   \
    LEARN(name, parameters, arguments, true, gs_gate_keeper_blocks, gs_gate_work_all_done(number))
#define QUERY(name, parameters, arguments, done) LEARN(name, parameters, arguments, false, keeper_beats, done)

SYNCHRONIZE(cuStreamSynchronize, (void *stream), (stream), gs_gate_work_stream_done(stream_of(stream), number))
SYNCHRONIZE(cuStreamSynchronize_ptsz, (void *stream), (stream),
            gs_gate_work_stream_done(stream_of_ptsz(stream), number))
QUERY(cuStreamQuery, (void *stream), (stream), gs_gate_work_stream_done(stream_of(stream), number))
QUERY(cuStreamQuery_ptsz, (void *stream), (stream), gs_gate_work_stream_done(stream_of_ptsz(stream), number))
SYNCHRONIZE(cuMemcpyDtoH_v2, (void *to, gs_gate_pointer from, size_t bytes), (to, from, bytes),
            gs_gate_work_stream_done(NULL, number))
SYNCHRONIZE(cuMemcpyDtoH_v2_ptds, (void *to, gs_gate_pointer from, size_t bytes), (to, from, bytes),
            gs_gate_work_stream_done(PER_THREAD, number))
SYNCHRONIZE_ALL(cuCtxSynchronize, (void), ())
SYNCHRONIZE_ALL(cuCtxSynchronize_v2, (void *context), (context))

static int event_done(void *event, int result) {
    if (result != GS_CUDA_NOT_READY && gs_gate_is_linked())
        gs_gate_work_event_done(event);
    return result;
}

static int hook_cuEventSynchronize(void *event) {
    bool is_linked = gs_gate_is_linked();
    if (is_linked) {
        host_waits();
        gs_gate_keeper_waits(true);
    }
    int result = gs_gate_real.cuEventSynchronize(event);
    if (is_linked) {
        gs_gate_keeper_waits(false);
        gs_gate_wait_synchronize(true);
    }
    return event_done(event, result);
}

static int hook_cuEventQuery(void *event) {
    gs_gate_keeper_beat();
    return event_done(event, gs_gate_real.cuEventQuery(event));
}

static void record_event(void *event, void *stream) {
    if (gs_gate_is_linked() && !gs_gate_is_capturing(stream))
        gs_gate_work_record(event, stream);
}

static int hook_cuEventRecord(void *event, void *stream) {
    record_event(event, stream_of(stream));
    return gs_gate_real.cuEventRecord(event, stream);
}

static int hook_cuEventRecord_ptsz(void *event, void *stream) {
    record_event(event, stream_of_ptsz(stream));
    return gs_gate_real.cuEventRecord_ptsz(event, stream);
}

static int hook_cuEventRecordWithFlags(void *event, void *stream, unsigned flags) {
    record_event(event, stream_of(stream));
    return gs_gate_real.cuEventRecordWithFlags(event, stream, flags);
}

static int hook_cuEventRecordWithFlags_ptsz(void *event, void *stream, unsigned flags) {
    record_event(event, stream_of_ptsz(stream));
    return gs_gate_real.cuEventRecordWithFlags_ptsz(event, stream, flags);
}

/* ---- capturing ---- */

#define BEGIN_CAPTURE(name, parameters, arguments)                                                                     \
    static int hook_##name parameters {                                                                                \
        gs_gate_capture_begins();                                                                                      \
        int result = gs_gate_real.name arguments;                                                                      \
        if (result != GS_CUDA_OK)                                                                                      \
            gs_gate_capture_ends();                                                                                    \
        return result;                                                                                                 \
    }
#define END_CAPTURE(name)                                                                                              \
    static int hook_##name(void *stream, void **graph) {                                                               \
        enum { CAPTURE_INVALIDATED = 901 };                                                                            \
        int result = gs_gate_real.name(stream, graph);                                                                 \
        if (result == GS_CUDA_OK || result == CAPTURE_INVALIDATED)                                                     \
            gs_gate_capture_ends();                                                                                    \
        return result;                                                                                                 \
    }

BEGIN_CAPTURE(cuStreamBeginCapture, (void *stream), (stream))
BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, (void *stream), (stream))
BEGIN_CAPTURE(cuStreamBeginCapture_v2, (void *stream, int mode), (stream, mode))
BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, (void *stream, int mode), (stream, mode))
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph,
              (void *stream, void *graph, const void *nodes, const void *edges, size_t count, int mode),
              (stream, graph, nodes, edges, count, mode))
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz,
              (void *stream, void *graph, const void *nodes, const void *edges, size_t count, int mode),
              (stream, graph, nodes, edges, count, mode))
END_CAPTURE(cuStreamEndCapture)
END_CAPTURE(cuStreamEndCapture_ptsz)

/* ---- streams of a latency program: the highest priority, or less for less weight ---- */

/* One level less for each time that the weight is halved. Higher priorities are smaller numbers. */
static int priority_of(uint32_t weight, int least, int highest) {
    int priority = highest;
    for (uint32_t at = weight; at && at < GS_GATE_WEIGHT && priority < least; at *= 2)
        priority++;
    return priority;
}

static int hook_cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    int least = 0, highest = 0;
    if (gs_gate_is_linked() && gs_gate_real.cuCtxGetStreamPriorityRange &&
        gs_gate_real.cuCtxGetStreamPriorityRange(&least, &highest) == GS_CUDA_OK)
        priority = priority_of(gs_gate_state.weight, least, highest);
    return gs_gate_real.cuStreamCreateWithPriority(stream, flags, priority);
}

static int hook_cuStreamCreate(void **stream, unsigned flags) {
    return gs_gate_real.cuStreamCreateWithPriority ? hook_cuStreamCreateWithPriority(stream, flags, 0)
                                                   : gs_gate_real.cuStreamCreate(stream, flags);
}

/* Its work cannot be queried any more. */
static int hook_cuStreamDestroy_v2(void *stream) {
    if (gs_gate_state.has_guards)
        gs_gate_guard_stream_ends(stream);
    else if (gs_gate_is_linked())
        gs_gate_work_stream_done(stream, gs_gate_work_now());
    return gs_gate_real.cuStreamDestroy_v2(stream);
}

/* ---- modules and libraries of a best-effort program: where the code of its kernels is ---- */

/* A function that makes something: `keep` notes it. Most programs load their code before they are linked. */
#define MAKE(name, parameters, arguments, keep)                                                                        \
    static int hook_##name parameters {                                                                                \
        int result = gs_gate_real.name arguments;                                                                      \
        if (result == GS_CUDA_OK)                                                                                      \
            keep;                                                                                                      \
        return result;                                                                                                 \
    }

MAKE(cuModuleLoad, (void **module, const char *path), (module, path), gs_gate_image_keep_file(*module, false, path))
MAKE(cuModuleLoadData, (void **module, const void *image), (module, image), gs_gate_image_keep(*module, false, image))
MAKE(cuModuleLoadDataEx, (void **module, const void *image, unsigned count, int *options, void **chosen),
     (module, image, count, options, chosen), gs_gate_image_keep(*module, false, image))
MAKE(cuModuleLoadFatBinary, (void **module, const void *image), (module, image),
     gs_gate_image_keep(*module, false, image))
MAKE(cuLibraryLoadData,
     (void **library, const void *image, int *options, void **chosen, unsigned count, int *more, void **chosen_more,
      unsigned count_more),
     (library, image, options, chosen, count, more, chosen_more, count_more), gs_gate_image_keep(*library, true, image))
MAKE(cuLibraryLoadFromFile,
     (void **library, const char *path, int *options, void **chosen, unsigned count, int *more, void **chosen_more,
      unsigned count_more),
     (library, path, options, chosen, count, more, chosen_more, count_more),
     gs_gate_image_keep_file(*library, true, path))
MAKE(cuModuleGetFunction, (void **function, void *module, const char *name), (function, module, name),
     gs_gate_owner_keep(*function, module))
MAKE(cuLibraryGetKernel, (void **kernel, void *library, const char *name), (kernel, library, name),
     gs_gate_owner_keep(*kernel, library))
MAKE(cuLibraryGetModule, (void **module, void *library), (module, library), gs_gate_owner_keep(*module, library))
MAKE(cuKernelGetFunction, (void **function, void *kernel), (function, kernel), gs_gate_owner_keep(*function, kernel))

static void keep_kernels(void **kernels, unsigned count, const void *library) {
    for (unsigned i = 0; i < count; i++)
        gs_gate_owner_keep(kernels[i], library);
}

MAKE(cuLibraryEnumerateKernels, (void **kernels, unsigned count, void *library), (kernels, count, library),
     keep_kernels(kernels, count, library))

/* A function that ends something: `forget` comes first. */
#define END(name, parameters, arguments, forget)                                                                       \
    static int hook_##name parameters {                                                                                \
        forget;                                                                                                        \
        return gs_gate_real.name arguments;                                                                            \
    }

END(cuModuleUnload, (void *module), (module), gs_gate_image_forget(module))
END(cuLibraryUnload, (void *library), (library), gs_gate_image_forget(library))
/* What this library has put into a context goes with it. */
static void context_ends(void) {
    if (gs_gate_state.class == GS_GATE_LATENCY)
        gs_gate_keeper_drop();
    else
        gs_gate_guard_forget();
}

END(cuCtxDestroy_v2, (void *context), (context), context_ends())
END(cuDevicePrimaryCtxRelease_v2, (int device), (device), context_ends())
END(cuDevicePrimaryCtxReset_v2, (int device), (device), context_ends())

/* ---- memory ---- */

/* Calls that map memory, unmap it or give it back wait for the end of a request. Of a latency program they wait for all
   that is in the context, some of them. */
static void before_memory(void) {
    if (gs_gate_state.class == GS_GATE_LATENCY)
        gs_gate_keeper_end();
    else
        gs_gate_wait_memory();
}

#define MAP(name, parameters, arguments) END(name, parameters, arguments, before_memory())

MAP(cuMemMap, (gs_gate_pointer at, size_t bytes, size_t offset, gs_gate_pointer handle, unsigned long long flags),
    (at, bytes, offset, handle, flags))
MAP(cuMemSetAccess, (gs_gate_pointer at, size_t bytes, const void *access, size_t count), (at, bytes, access, count))
MAP(cuMemUnmap, (gs_gate_pointer at, size_t bytes), (at, bytes))
MAP(cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags), (pointer, bytes, flags))
MAP(cuMemAllocHost_v2, (void **pointer, size_t bytes), (pointer, bytes))
MAP(cuMemFreeHost, (void *pointer), (pointer))
MAP(cuMemHostRegister_v2, (void *pointer, size_t bytes, unsigned flags), (pointer, bytes, flags))
MAP(cuMemHostUnregister, (void *pointer), (pointer))

/* `before` comes first: gs_gate_wait_memory(), but not where streams allocate, mostly from memory that is mapped. */
#define ALLOCATE(name, parameters, arguments, size, before)                                                            \
    static int hook_##name parameters {                                                                                \
        uint64_t taken = size;                                                                                         \
        before;                                                                                                        \
        if (!gs_gate_memory_take(taken))                                                                               \
            return GS_CUDA_OUT_OF_MEMORY;                                                                              \
        int result = gs_gate_real.name arguments;                                                                      \
        if (result == GS_CUDA_OK)                                                                                      \
            gs_gate_memory_keep(*pointer, taken);                                                                      \
        else                                                                                                           \
            gs_gate_memory_return(taken);                                                                              \
        return result;                                                                                                 \
    }

ALLOCATE(cuMemAlloc_v2, (gs_gate_pointer * pointer, size_t bytes), (pointer, bytes), bytes, gs_gate_wait_memory())
ALLOCATE(cuMemAllocPitch_v2, (gs_gate_pointer * pointer, size_t *pitch, size_t width, size_t height, unsigned element),
         (pointer, pitch, width, height, element), (uint64_t)width *height, gs_gate_wait_memory())
ALLOCATE(cuMemAllocManaged, (gs_gate_pointer * pointer, size_t bytes, unsigned flags), (pointer, bytes, flags), bytes,
         gs_gate_wait_memory())
ALLOCATE(cuMemAllocAsync, (gs_gate_pointer * pointer, size_t bytes, void *stream), (pointer, bytes, stream), bytes, )
ALLOCATE(cuMemAllocAsync_ptsz, (gs_gate_pointer * pointer, size_t bytes, void *stream), (pointer, bytes, stream),
         bytes, )
ALLOCATE(cuMemAllocFromPoolAsync, (gs_gate_pointer * pointer, size_t bytes, void *pool, void *stream),
         (pointer, bytes, pool, stream), bytes, )
ALLOCATE(cuMemAllocFromPoolAsync_ptsz, (gs_gate_pointer * pointer, size_t bytes, void *pool, void *stream),
         (pointer, bytes, pool, stream), bytes, )

/* CUmemAllocationProp says where the memory is. */
static bool is_on_device(const void *properties) {
    enum { ON_DEVICE = 1 };
    struct {
        int type, handle_types, location, id;
    } start;
    memcpy(&start, properties, sizeof start);
    return start.location == ON_DEVICE;
}

ALLOCATE(cuMemCreate, (gs_gate_pointer * pointer, size_t bytes, const void *properties, unsigned long long flags),
         (pointer, bytes, properties, flags), is_on_device(properties) ? bytes : 0, gs_gate_wait_memory())

#define FREE(name, parameters, arguments, before)                                                                      \
    static int hook_##name parameters {                                                                                \
        before;                                                                                                        \
        gs_gate_memory_free(pointer);                                                                                  \
        return gs_gate_real.name arguments;                                                                            \
    }

FREE(cuMemFree_v2, (gs_gate_pointer pointer), (pointer), before_memory())
FREE(cuMemFreeAsync, (gs_gate_pointer pointer, void *stream), (pointer, stream), )
FREE(cuMemFreeAsync_ptsz, (gs_gate_pointer pointer, void *stream), (pointer, stream), )
FREE(cuMemRelease, (gs_gate_pointer pointer), (pointer), gs_gate_wait_memory())

static int hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    int result = gs_gate_real.cuMemGetInfo_v2(free_bytes, total_bytes);
    if (result == GS_CUDA_OK)
        gs_gate_memory_info(free_bytes, total_bytes);
    return result;
}

static int hook_cuDeviceTotalMem_v2(size_t *bytes, int device) {
    int result = gs_gate_real.cuDeviceTotalMem_v2(bytes, device);
    if (result == GS_CUDA_OK)
        gs_gate_memory_info(NULL, bytes);
    return result;
}

/* ---- starting ---- */

static int hook_cuInit(unsigned flags) {
    int result = gs_gate_real.cuInit(flags);
    if (result == GS_CUDA_OK)
        gs_gate_link_open(gs_gate_state.class == GS_GATE_LATENCY ? gs_gate_work_look : gs_gate_wait_look);
    return result;
}

/* ---- the table of hooks ---- */

/* The classes of programs that need a hook. */
enum { LATENCY = 1, BEST_EFFORT = 2, MEMORY = 4, GUARD = 8 };

#define HOOK(for, function)                                                                                            \
    { #function, (gs_front_function *)hook_##function, &gs_gate_real.function, NULL, for }
#define HOOKS(for, function) HOOK(for, function), HOOK(for, function##_ptsz)

static const gs_front_hook hooks[] = {
    HOOK(LATENCY | BEST_EFFORT | MEMORY, cuInit),
    HOOKS(LATENCY | BEST_EFFORT, cuLaunchKernel),
    HOOKS(LATENCY | BEST_EFFORT, cuLaunchKernelEx),
    HOOKS(LATENCY | BEST_EFFORT, cuLaunchCooperativeKernel),
    HOOKS(LATENCY | BEST_EFFORT, cuGraphLaunch),
    HOOK(BEST_EFFORT, cuGraphInstantiate),
    HOOK(BEST_EFFORT, cuGraphInstantiate_v2),
    HOOK(BEST_EFFORT, cuGraphInstantiateWithFlags),
    HOOK(BEST_EFFORT, cuGraphInstantiateWithParams),
    HOOK(BEST_EFFORT, cuGraphInstantiateWithParams_ptsz),
    HOOK(BEST_EFFORT, cuGraphExecDestroy),
    HOOK(BEST_EFFORT, cuGraphExecUpdate),
    HOOK(BEST_EFFORT, cuGraphExecUpdate_v2),
    HOOK(BEST_EFFORT, cuGraphExecMemcpyNodeSetParams),
    HOOK(BEST_EFFORT, cuGraphExecMemsetNodeSetParams),
    HOOK(BEST_EFFORT, cuGraphExecChildGraphNodeSetParams),
    HOOK(BEST_EFFORT, cuGraphExecEventRecordNodeSetEvent),
    HOOK(BEST_EFFORT, cuGraphExecEventWaitNodeSetEvent),
    HOOK(BEST_EFFORT, cuGraphExecNodeSetParams),
    HOOK(BEST_EFFORT, cuGraphNodeSetEnabled),
    HOOK(BEST_EFFORT, cuGraphExecKernelNodeSetParams),
    HOOK(BEST_EFFORT, cuGraphExecKernelNodeSetParams_v2),
    HOOK(BEST_EFFORT, cuGraphExecHostNodeSetParams),
    HOOK(BEST_EFFORT, cuGraphExecExternalSemaphoresSignalNodeSetParams),
    HOOK(BEST_EFFORT, cuGraphExecExternalSemaphoresWaitNodeSetParams),
    HOOK(BEST_EFFORT, cuGraphExecBatchMemOpNodeSetParams),
    HOOKS(LATENCY | BEST_EFFORT, cuMemcpyHtoDAsync_v2),
    HOOKS(LATENCY | BEST_EFFORT, cuMemcpyDtoHAsync_v2),
    HOOKS(LATENCY | BEST_EFFORT, cuMemcpyDtoDAsync_v2),
    HOOKS(LATENCY | BEST_EFFORT, cuMemcpyAsync),
    HOOKS(LATENCY | BEST_EFFORT, cuMemsetD8Async),
    HOOKS(LATENCY | BEST_EFFORT, cuMemsetD16Async),
    HOOKS(LATENCY | BEST_EFFORT, cuMemsetD32Async),
    HOOKS(LATENCY | BEST_EFFORT, cuMemcpy2DAsync_v2),
    HOOKS(LATENCY | BEST_EFFORT, cuMemcpy3DAsync_v2),
    HOOKS(LATENCY | BEST_EFFORT, cuMemcpyPeerAsync),
    HOOKS(LATENCY | BEST_EFFORT, cuMemsetD2D8Async),
    HOOKS(LATENCY | BEST_EFFORT, cuMemsetD2D16Async),
    HOOKS(LATENCY | BEST_EFFORT, cuMemsetD2D32Async),
    HOOKS(LATENCY, cuStreamSynchronize),
    HOOKS(LATENCY, cuStreamQuery),
    HOOK(LATENCY, cuMemcpyDtoH_v2),
    HOOK(LATENCY, cuMemcpyDtoH_v2_ptds),
    HOOK(LATENCY, cuCtxSynchronize),
    HOOK(LATENCY, cuCtxSynchronize_v2),
    HOOK(LATENCY, cuEventSynchronize),
    HOOK(LATENCY, cuEventQuery),
    HOOKS(LATENCY, cuEventRecord),
    HOOKS(LATENCY, cuEventRecordWithFlags),
    HOOK(LATENCY, cuStreamCreate),
    HOOK(LATENCY, cuStreamCreateWithPriority),
    HOOK(LATENCY | GUARD, cuStreamDestroy_v2),
    HOOK(GUARD, cuModuleLoad),
    HOOK(GUARD, cuModuleLoadData),
    HOOK(GUARD, cuModuleLoadDataEx),
    HOOK(GUARD, cuModuleLoadFatBinary),
    HOOK(GUARD, cuModuleGetFunction),
    HOOK(GUARD, cuModuleUnload),
    HOOK(GUARD, cuLibraryLoadData),
    HOOK(GUARD, cuLibraryLoadFromFile),
    HOOK(GUARD, cuLibraryGetKernel),
    HOOK(GUARD, cuLibraryEnumerateKernels),
    HOOK(GUARD, cuLibraryGetModule),
    HOOK(GUARD, cuLibraryUnload),
    HOOK(GUARD, cuKernelGetFunction),
    HOOK(LATENCY | GUARD, cuCtxDestroy_v2),
    HOOK(LATENCY | GUARD, cuDevicePrimaryCtxRelease_v2),
    HOOK(LATENCY | GUARD, cuDevicePrimaryCtxReset_v2),
    HOOKS(LATENCY | BEST_EFFORT, cuStreamBeginCapture),
    HOOKS(LATENCY | BEST_EFFORT, cuStreamBeginCapture_v2),
    HOOKS(LATENCY | BEST_EFFORT, cuStreamBeginCaptureToGraph),
    HOOKS(LATENCY | BEST_EFFORT, cuStreamEndCapture),
    HOOK(BEST_EFFORT | MEMORY, cuMemAlloc_v2),
    HOOK(BEST_EFFORT | MEMORY, cuMemAllocPitch_v2),
    HOOK(BEST_EFFORT | MEMORY, cuMemAllocManaged),
    HOOKS(MEMORY, cuMemAllocAsync),
    HOOKS(MEMORY, cuMemAllocFromPoolAsync),
    HOOK(BEST_EFFORT | MEMORY, cuMemCreate),
    HOOK(LATENCY | BEST_EFFORT | MEMORY, cuMemFree_v2),
    HOOKS(MEMORY, cuMemFreeAsync),
    HOOK(BEST_EFFORT | MEMORY, cuMemRelease),
    HOOK(BEST_EFFORT, cuMemMap),
    HOOK(BEST_EFFORT, cuMemSetAccess),
    HOOK(BEST_EFFORT, cuMemUnmap),
    HOOK(BEST_EFFORT, cuMemHostAlloc),
    HOOK(BEST_EFFORT, cuMemAllocHost_v2),
    HOOK(LATENCY | BEST_EFFORT, cuMemFreeHost),
    HOOK(BEST_EFFORT, cuMemHostRegister_v2),
    HOOK(LATENCY | BEST_EFFORT, cuMemHostUnregister),
    HOOK(MEMORY, cuMemGetInfo_v2),
    HOOK(MEMORY, cuDeviceTotalMem_v2),
};

static bool is_needed(const gs_front_hook *hook) {
    int users = (gs_gate_state.class == GS_GATE_LATENCY       ? LATENCY
                 : gs_gate_state.class == GS_GATE_BEST_EFFORT ? BEST_EFFORT
                                                              : 0) |
                (gs_gate_state.memory_limit ? MEMORY : 0) | (gs_gate_state.has_guards ? GUARD : 0);
    return hook->kind & users;
}

const struct gs_front_hooks gs_front_hooks = {hooks, sizeof hooks / sizeof *hooks, is_needed};
