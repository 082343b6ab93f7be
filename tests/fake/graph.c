/*
 * graph.c: CUDA graphs of the pretended driver.
 *
 * A graph is a list of nodes, and so is its executable. A launch of it launches all nodes at once; a node waits for
 * those that it depends on (gpu.c).
 */
#include "pretended.h"

#define GRAPH_CALL __attribute__((visibility("default")))

enum { INVALID = 1, MOST_GRAPH_NODES = 64 };

/* The type of the parameters is that of src/cuda/graph.c: UndefinedBehaviorSanitizer compares them. */
struct node_parameters {
    cu_function function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void **arguments, **extra;
    void *kernel, *context;
};

struct node {
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

int cuGraphAddKernelNode_v2(void **made, void *graph, void *const *after, size_t count,
                            const struct node_parameters *parameters) {
    struct graph *to = graph;
    if (to->count == MOST_GRAPH_NODES || parameters->extra)
        return INVALID;
    struct node *node = &to->nodes[to->count++];
    *node = (struct node){.function = parameters->function,
                          .call = {.grid_x = parameters->grid_x,
                                   .grid_y = parameters->grid_y,
                                   .grid_z = parameters->grid_z,
                                   .block_x = parameters->block_x,
                                   .block_y = parameters->block_y,
                                   .block_z = parameters->block_z,
                                   .shared_bytes = parameters->shared_bytes}};
    memcpy(&node->arguments, parameters->arguments[0], sizeof node->arguments);
    for (size_t i = 0; i < count; i++)
        node->after |= UINT64_C(1) << ((struct node *)after[i] - to->nodes);
    *made = node;
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
    return flags == 8 ? 0 : INVALID;
}

int cuGraphUpload(void *executable, cu_stream stream) {
    return executable && stream ? 0 : INVALID;
}

int cuGraphLaunch(void *executable, cu_stream stream) {
    struct graph *graph = executable;
    uint64_t first = pretended_gpu_next_id(graph->count);
    int failed = 0;
    for (size_t i = 0; i < graph->count && !failed; i++) {
        struct node *node = &graph->nodes[i];
        cu_attribute priority = {.id = CU_LAUNCH_PRIORITY, .value = {.priority = node->priority}};
        node->call.stream = stream;
        node->call.attributes = &priority;
        node->call.attribute_count = 1;
        pretended_node place = {.is_node = true, .id = first + i, .first_id = first, .after = node->after};
        failed = pretended_launch_node(&node->call, node->function, &node->arguments, &place);
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
