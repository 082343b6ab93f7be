/*
 * graph.c: CUDA graphs of the fake driver.
 *
 * A graph is a list of nodes, and so is its executable. A launch of it launches all nodes at once; a node waits for
 * those that it depends on (gpu.c). Memsets and copies do nothing: what waits for one waits for what it waits for.
 */
#include "fake.h"

#define GRAPH_CALL __attribute__((visibility("default")))

enum { INVALID = 1, MOST_GRAPH_NODES = 64 };

/* The type of the parameters is that of src/kernels/cuda/graph.c: UndefinedBehaviorSanitizer compares them. */
struct node_parameters {
    cu_function function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void **arguments, **extra;
    void *kernel, *context;
};

struct memset_parameters;
struct copy_parameters;

struct node {
    bool is_memory;
    cu_launch call;
    cu_function function;
    probe_arguments arguments;
    int priority;
    uint64_t after; /* numbers of nodes, as bits */
};

struct graph {
    struct node nodes[MOST_GRAPH_NODES];
    size_t count;
};

GRAPH_CALL int cuGraphCreate(void **made, unsigned flags);
GRAPH_CALL int cuGraphAddKernelNode_v2(void **made, void *graph, void *const *after, size_t count,
                                       const struct node_parameters *parameters);
GRAPH_CALL int cuGraphAddMemsetNode(void **made, void *graph, void *const *after, size_t count,
                                    const struct memset_parameters *parameters, cu_context context);
GRAPH_CALL int cuGraphAddMemcpyNode(void **made, void *graph, void *const *after, size_t count,
                                    const struct copy_parameters *parameters, cu_context context);
GRAPH_CALL int cuStreamBeginCaptureToGraph(cu_stream stream, void *graph, void *const *after, const void *edges,
                                           size_t count, int mode);
GRAPH_CALL int cuStreamGetCaptureInfo_v2(cu_stream stream, int *state, uint64_t *id, void **graph, void *const **last,
                                         size_t *count);
GRAPH_CALL int cuStreamEndCapture(cu_stream stream, void **graph);
GRAPH_CALL int cuGraphKernelNodeSetAttribute(void *node, int attribute, const void *value);
GRAPH_CALL int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags);
GRAPH_CALL int cuGraphUpload(void *executable, cu_stream stream);
GRAPH_CALL int cuGraphLaunch(void *executable, cu_stream stream);
GRAPH_CALL int cuGraphExecDestroy(void *executable);
GRAPH_CALL int cuGraphDestroy(void *graph);

int cuGraphCreate(void **made, unsigned flags) {
    *made = calloc(1, sizeof(struct graph));
    return *made && !flags ? 0 : INVALID;
}

/* Adds a node; NULL: there are too many. */
static struct node *add_node(struct graph *graph, void *const *after, size_t count) {
    if (graph->count == MOST_GRAPH_NODES)
        return NULL;
    struct node *node = &graph->nodes[graph->count++];
    *node = (struct node){0};
    for (size_t i = 0; i < count; i++) {
        const struct node *before = after[i];
        node->after |= before->is_memory ? before->after : UINT64_C(1) << (before - graph->nodes);
    }
    return node;
}

int cuGraphAddKernelNode_v2(void **made, void *graph, void *const *after, size_t count,
                            const struct node_parameters *parameters) {
    struct node *node = parameters->extra ? NULL : add_node(graph, after, count);
    if (!node)
        return INVALID;
    *node = (struct node){.function = parameters->function,
                          .after = node->after,
                          .call = {.grid_x = parameters->grid_x,
                                   .grid_y = parameters->grid_y,
                                   .grid_z = parameters->grid_z,
                                   .block_x = parameters->block_x,
                                   .block_y = parameters->block_y,
                                   .block_z = parameters->block_z,
                                   .shared_bytes = parameters->shared_bytes}};
    memcpy(&node->arguments, parameters->arguments[0], sizeof node->arguments);
    *made = node;
    return 0;
}

static int add_memory_node(void **made, void *graph, void *const *after, size_t count, cu_context context) {
    struct node *node = add_node(graph, after, count);
    if (!node || !context)
        return INVALID;
    node->is_memory = true;
    *made = node;
    return 0;
}

int cuGraphAddMemsetNode(void **made, void *graph, void *const *after, size_t count,
                         const struct memset_parameters *parameters, cu_context context) {
    return parameters ? add_memory_node(made, graph, after, count, context) : INVALID;
}

int cuGraphAddMemcpyNode(void **made, void *graph, void *const *after, size_t count,
                         const struct copy_parameters *parameters, cu_context context) {
    return parameters ? add_memory_node(made, graph, after, count, context) : INVALID;
}

/* ---- a launch that is captured into a graph ---- */

static struct {
    cu_stream stream; /* NULL: none is captured */
    struct graph *graph;
    void *after[MOST_GRAPH_NODES], *last;
    size_t count;
} capture;

static bool take(const cu_launch *call, cu_function function, const void *arguments) {
    struct node *node =
        capture.stream && call->stream == capture.stream ? add_node(capture.graph, capture.after, capture.count) : NULL;
    if (!node)
        return false;
    node->call = *call;
    node->function = function;
    node->priority = call->attribute_count ? call->attributes[0].value.priority : 0;
    memcpy(&node->arguments, arguments, sizeof node->arguments);
    capture.last = node;
    return true;
}

int cuStreamBeginCaptureToGraph(cu_stream stream, void *graph, void *const *after, const void *edges, size_t count,
                                int mode) {
    if (capture.stream || edges || mode != 2 || count > MOST_GRAPH_NODES)
        return INVALID;
    fake_capture = take;
    capture.stream = stream;
    capture.graph = graph;
    capture.count = count;
    capture.last = NULL;
    if (count)
        memcpy(capture.after, after, count * sizeof *after);
    return 0;
}

int cuStreamGetCaptureInfo_v2(cu_stream stream, int *state, uint64_t *id, void **graph, void *const **last,
                              size_t *count) {
    *state = stream == capture.stream;
    *id = 1;
    *graph = capture.graph;
    *last = &capture.last;
    *count = capture.last != NULL;
    return *state ? 0 : INVALID;
}

int cuStreamEndCapture(cu_stream stream, void **graph) {
    if (stream != capture.stream)
        return INVALID;
    capture.stream = NULL;
    *graph = capture.graph;
    return 0;
}

int cuGraphKernelNodeSetAttribute(void *node, int attribute, const void *value) {
    memcpy(&((struct node *)node)->priority, value, sizeof(int));
    return attribute == CU_LAUNCH_PRIORITY ? 0 : INVALID;
}

int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags) {
    struct graph *copy = malloc(sizeof *copy);
    *made = copy;
    if (!copy)
        return INVALID;
    memcpy(copy, graph, sizeof *copy);
    return flags == 8 || !flags ? 0 : INVALID;
}

int cuGraphUpload(void *executable, cu_stream stream) {
    return executable && stream ? 0 : INVALID;
}

int cuGraphLaunch(void *executable, cu_stream stream) {
    struct graph *graph = executable;
    uint64_t first = fake_gpu_next_id(graph->count);
    int failed = 0;
    for (size_t i = 0; i < graph->count && !failed; i++) {
        struct node *node = &graph->nodes[i];
        if (node->is_memory)
            continue;
        cu_attribute priority = {.id = CU_LAUNCH_PRIORITY, .value = {.priority = node->priority}};
        node->call.stream = stream;
        node->call.attributes = &priority;
        node->call.attribute_count = 1;
        fake_node place = {.is_node = true, .id = first + i, .first_id = first, .after = node->after};
        failed = fake_launch_node(&node->call, node->function, &node->arguments, &place);
    }
    return failed;
}

int cuGraphExecDestroy(void *executable) {
    free(executable);
    return 0;
}

int cuGraphDestroy(void *graph) {
    free(graph);
    return 0;
}
