/*
 * graph.c: CUDA graphs of kernels, memsets and copies.
 *
 * The calls are looked up only when a graph is made. A graph is made and uploaded while the GPU is idle: later the
 * driver could wait for kernels that wait for the host. Nodes have their own priorities.
 *
 * A kernel node in a green context is captured from a stream of that context: the driver ignores the context of a node
 * that names a CUfunction. Its priority is that of the launch.
 */
#include "kernel.h"

#include <stdlib.h>

/* The driver's CUDA_KERNEL_NODE_PARAMS_v2. */
struct node_parameters {
    cu_function function;
    unsigned grid[3], block[3], shared_bytes;
    void **arguments, **extra;
    void *kernel, *context;
};

/* The driver's CUDA_MEMSET_NODE_PARAMS. */
struct memset_parameters {
    cu_pointer to;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
};

/* One side of the driver's CUDA_MEMCPY3D. */
struct copy_side {
    size_t x, y, z, level;
    int type;
    void *host;
    cu_pointer device;
    void *array, *reserved;
    size_t pitch, height;
};

struct copy_parameters {
    struct copy_side from, to;
    size_t width, height, depth;
};

enum { USE_NODE_PRIORITY = 8, CAPTURE_RELAXED = 2, MEMORY_HOST = 1, MEMORY_DEVICE = 2 };

#define GRAPH_SYMBOLS(X)                                                                                               \
    X(create, cuGraphCreate, (void **, unsigned))                                                                      \
    X(add, cuGraphAddKernelNode_v2, (void **, void *, void *const *, size_t, const struct node_parameters *))          \
    X(add_memset, cuGraphAddMemsetNode,                                                                                \
      (void **, void *, void *const *, size_t, const struct memset_parameters *, cu_context))                          \
    X(add_copy, cuGraphAddMemcpyNode,                                                                                  \
      (void **, void *, void *const *, size_t, const struct copy_parameters *, cu_context))                            \
    X(capture, cuStreamBeginCaptureToGraph, (cu_stream, void *, void *const *, const void *, size_t, int))             \
    X(captured, cuStreamGetCaptureInfo_v2, (cu_stream, int *, uint64_t *, void **, void *const **, size_t *))          \
    X(end_capture, cuStreamEndCapture, (cu_stream, void **))                                                           \
    X(set, cuGraphKernelNodeSetAttribute, (void *, int, const void *))                                                 \
    X(instantiate, cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                 \
    X(upload, cuGraphUpload, (void *, cu_stream))                                                                      \
    X(launch, cuGraphLaunch, (void *, cu_stream))                                                                      \
    X(free_executable, cuGraphExecDestroy, (void *))                                                                   \
    X(free, cuGraphDestroy, (void *))

struct graph_api {
    GRAPH_SYMBOLS(CU_POINTER)
};

#define FIND(name, symbol, arguments) gs_cuda_find(api->driver, #symbol, &graph->name, &missing);

static gs_code find_all(const cu_api *api, struct graph_api *graph, gs_error *error) {
    const char *missing = NULL;
    GRAPH_SYMBOLS(FIND)
    return missing ? gs_fail(error, GS_E_NO_GPU, "this driver has no CUDA graphs: they need CUDA 12") : GS_OK;
}

/* A graph that is being made. */
struct making {
    const cu_api *api;
    struct graph_api calls;
    cu_context context;
    void *graph, *made[CU_MOST_NODES];
};

static int add_kernel(struct making *making, const cu_node *node, void *const *after, void **made) {
    void *arguments[] = {node->arguments};
    struct node_parameters parameters = {.function = node->kernel->function,
                                         .grid = {node->blocks, 1, 1},
                                         .block = {node->threads, 1, 1},
                                         .shared_bytes = node->shared_bytes,
                                         .arguments = arguments};
    return making->calls.add(made, making->graph, after, node->after_count, &parameters);
}

/* The node that was captured is what the next one in the stream would wait for. */
static int capture_kernel(struct making *making, const cu_node *node, void *const *after, void **made) {
    const struct graph_api *calls = &making->calls;
    void *arguments[] = {node->arguments}, *same;
    void *const *last = NULL;
    size_t count = 0;
    int state;
    uint64_t id;
    const cu_call call = {.grid = {node->blocks, 1, 1},
                          .block = {node->threads, 1, 1},
                          .shared_bytes = node->shared_bytes,
                          .stream = node->stream,
                          .has_priority = node->priority != 0,
                          .priority = node->priority};
    int failed = calls->capture(node->stream, making->graph, after, NULL, node->after_count, CAPTURE_RELAXED);
    if (failed)
        return failed;
    failed = gs_cuda_launch(making->api, node->kernel, &call, arguments);
    if (!failed)
        failed = calls->captured(node->stream, &state, &id, &same, &last, &count);
    if (!failed && count == 1)
        *made = last[0];
    int unended = calls->end_capture(node->stream, &same);
    return failed ? failed : unended;
}

static int add_memset(struct making *making, const cu_node *node, void *const *after, void **made) {
    struct memset_parameters parameters = {.to = node->to, .element_bytes = 4, .width = node->bytes / 4, .height = 1};
    return making->calls.add_memset(made, making->graph, after, node->after_count, &parameters, making->context);
}

static int add_copy(struct making *making, const cu_node *node, void *const *after, void **made) {
    struct copy_side host = {.type = MEMORY_HOST, .host = node->host};
    struct copy_parameters parameters = {.from = {.type = MEMORY_DEVICE, .device = node->from},
                                         .to = {.type = MEMORY_DEVICE, .device = node->to},
                                         .width = node->bytes,
                                         .height = 1,
                                         .depth = 1};
    if (node->kind != CU_NODE_COPY)
        *(node->kind == CU_NODE_COPY_IN ? &parameters.from : &parameters.to) = host;
    return making->calls.add_copy(made, making->graph, after, node->after_count, &parameters, making->context);
}

/* Adds node number `number`; the nodes that it waits for are added already. */
static int add_node(struct making *making, const cu_node *nodes, size_t number) {
    const cu_node *node = &nodes[number];
    void *after[CU_MOST_NODES], **made = &making->made[number];
    for (size_t i = 0; i < node->after_count; i++)
        after[i] = making->made[node->after[i]];
    if (node->kind == CU_NODE_MEMSET)
        return add_memset(making, node, after, made);
    if (node->kind != CU_NODE_KERNEL)
        return add_copy(making, node, after, made);
    if (node->stream)
        return capture_kernel(making, node, after, made);
    cu_attribute priority = {.value = {.priority = node->priority}};
    int failed = add_kernel(making, node, after, made);
    return failed ? failed : making->calls.set(*made, CU_LAUNCH_PRIORITY, &priority.value);
}

static bool has_priorities(const cu_node *nodes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (nodes[i].priority)
            return true;
    return false;
}

gs_code gs_cuda_graph_make(const cu_api *api, const cu_node *nodes, size_t count, cu_stream stream, void **executable,
                           gs_error *error) {
    struct making making = {.api = api};
    gs_code code = find_all(api, &making.calls, error);
    if (code != GS_OK)
        return code;
    if (count > CU_MOST_NODES)
        return gs_fail(error, GS_E_USAGE, "a graph has at most %d nodes here", CU_MOST_NODES);
    int failed = api->context_get(&making.context);
    if (!failed)
        failed = making.calls.create(&making.graph, 0);
    for (size_t i = 0; i < count && !failed; i++)
        failed = add_node(&making, nodes, i);
    if (!failed)
        failed =
            making.calls.instantiate(executable, making.graph, has_priorities(nodes, count) ? USE_NODE_PRIORITY : 0);
    if (!failed)
        failed = making.calls.upload(*executable, stream);
    if (!failed)
        failed = api->stream_wait(stream);
    if (making.graph)
        making.calls.free(making.graph);
    return gs_cuda_check(api, failed, "making a graph", error);
}

int gs_cuda_graph_launch(const cu_api *api, void *executable, cu_stream stream) {
    struct graph_api calls = {0};
    return find_all(api, &calls, NULL) == GS_OK ? calls.launch(executable, stream) : 0;
}

void gs_cuda_graph_free(const cu_api *api, void *executable) {
    struct graph_api calls = {0};
    if (executable && find_all(api, &calls, NULL) == GS_OK)
        calls.free_executable(executable);
}
