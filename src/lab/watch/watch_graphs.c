/*
 * watch_graphs.c: what the page keeps of an executable graph: its kernels, a wait for a value, and whether it has
 * branches or host functions, read from the graph when it has been instantiated.
 *
 * Graphs of child nodes are read as well; the bodies of conditional nodes are not.
 */
#include "watch_notes.h"

#include <stdlib.h>
#include <string.h>

enum {
    NODE_KERNEL = 0,
    NODE_HOST = 3,
    NODE_GRAPH = 4,
    NODE_BATCH = 12,
    NODE_CONDITIONAL = 13,
    MOST_NODES = 1 << 16,
    DEEPEST = 8
};

/* CUDA_BATCH_MEM_OP_NODE_PARAMS. */
struct batch_parameters {
    void *context;
    unsigned count;
    const gs_watch_batch *operations;
    unsigned flags;
};

static gs_watch_graph *find_graph(uint64_t handle) {
    enum { PROBES = 8 };
    gs_watch_graph *graphs = gs_watch_shared->graphs, *found = NULL;
    size_t slot = (size_t)(handle >> 4 ^ handle >> 12);
    for (size_t i = 0; i < PROBES && !found; i++) {
        gs_watch_graph *graph = &graphs[(slot + i) % GS_WATCH_GRAPHS];
        uint64_t known = atomic_load(&graph->handle);
        if (known == handle || (!known && atomic_compare_exchange_strong(&graph->handle, &known, handle)))
            found = graph;
    }
    return found ? found : &graphs[slot % GS_WATCH_GRAPHS]; /* too many graphs: one is forgotten */
}

static void add_kernel(gs_watch_graph *into, void *node) {
    gs_kernel_node found = {0};
    uint32_t count = into->kernel_count;
    if (count == GS_WATCH_GRAPH_KERNELS || !gs_watch_driver_functions.cuGraphKernelNodeGetParams_v2 ||
        gs_watch_driver_functions.cuGraphKernelNodeGetParams_v2(node, &found) != GS_CUDA_OK)
        return;
    uint32_t function = gs_watch_function_place(found.function ? found.function : found.kernel);
    for (uint32_t i = 0; i < count; i++)
        if (into->kernels[i].function == function && into->kernels[i].shared_bytes == found.shared_bytes &&
            memcmp(into->kernels[i].shape, found.shape, sizeof found.shape) == 0)
            return;
    into->kernels[count].function = function;
    into->kernels[count].shared_bytes = found.shared_bytes;
    memcpy(into->kernels[count].shape, found.shape, sizeof found.shape);
    into->kernel_count = count + 1;
}

static void add_wait(gs_watch_graph *into, void *node) {
    struct batch_parameters found = {0};
    if (!gs_watch_driver_functions.cuGraphBatchMemOpNodeGetParams ||
        gs_watch_driver_functions.cuGraphBatchMemOpNodeGetParams(node, &found) != GS_CUDA_OK)
        return;
    for (unsigned i = 0; i < found.count && found.operations && !into->word; i++)
        if (gs_watch_batch_waits(&found.operations[i])) {
            into->value = (uint32_t)found.operations[i].value;
            into->word = found.operations[i].address;
        }
}

static int compare_nodes(const void *a, const void *b) {
    uintptr_t one = (uintptr_t) * (void *const *)a, other = (uintptr_t) * (void *const *)b;
    return (one > other) - (one < other);
}

/* Whether a graph is no chain: nodes have no edge in common, or two edges begin at one node. */
static bool graph_has_branches(void *graph, size_t nodes) {
    enum { DATA_BYTES = 8 };
    const gs_watch_driver *driver = &gs_watch_driver_functions;
    size_t edges = 0;
    if (!driver->cuGraphGetEdges_v2 || driver->cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &edges) != GS_CUDA_OK)
        return false;
    if (edges + 1 != nodes)
        return true;
    void **from = calloc(edges + 1, 2 * sizeof *from + DATA_BYTES);
    bool has_branches = false;
    if (from && edges &&
        driver->cuGraphGetEdges_v2(graph, from, from + edges, from + 2 * edges, &edges) == GS_CUDA_OK) {
        qsort(from, edges, sizeof *from, compare_nodes);
        for (size_t i = 1; i < edges; i++)
            has_branches = has_branches || from[i] == from[i - 1];
    }
    free(from);
    return has_branches;
}

static void read_graph(gs_watch_graph *into, void *graph, int depth) {
    const gs_watch_driver *driver = &gs_watch_driver_functions;
    size_t count = 0;
    if (driver->cuGraphGetNodes(graph, NULL, &count) != GS_CUDA_OK || !count || count > MOST_NODES)
        return;
    into->has_branches |= graph_has_branches(graph, count);
    void **nodes = calloc(count, sizeof *nodes);
    if (nodes && driver->cuGraphGetNodes(graph, nodes, &count) != GS_CUDA_OK)
        count = 0;
    for (size_t i = 0; i < count && nodes; i++) {
        int type = -1;
        void *child = NULL;
        driver->cuGraphNodeGetType(nodes[i], &type);
        if (type == NODE_KERNEL)
            add_kernel(into, nodes[i]);
        if (type == NODE_BATCH)
            add_wait(into, nodes[i]);
        if (type == NODE_CONDITIONAL)
            into->has_condition = 1;
        if (type == NODE_HOST)
            into->has_host = 1;
        if (type == NODE_GRAPH && depth < DEEPEST && driver->cuGraphChildGraphNodeGetGraph &&
            driver->cuGraphChildGraphNodeGetGraph(nodes[i], &child) == GS_CUDA_OK && child)
            read_graph(into, child, depth + 1);
    }
    free(nodes);
}

void gs_watch_graph_made(void *executable, void *graph) {
    gs_watch_graph *into = find_graph((uint64_t)(uintptr_t)executable);
    atomic_store(&into->handle, (uint64_t)(uintptr_t)executable);
    into->kernel_count = into->has_condition = into->has_branches = into->has_host = 0;
    into->word = 0;
    if (gs_watch_driver_functions.cuGraphGetNodes && gs_watch_driver_functions.cuGraphNodeGetType)
        read_graph(into, graph, 0);
}
