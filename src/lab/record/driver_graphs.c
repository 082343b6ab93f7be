/*
 * driver_graphs.c: the work of the nodes of an executable graph, read when the graph is instantiated.
 *
 * A node is identified by its handle while the graph is read, and in records by its position in the shape, from 1.
 */
#include "driver_work.h"

#include <stdlib.h>

static int handle_as_id(void *node, uint64_t *id) {
    *id = (uint64_t)(uintptr_t)node;
    return GS_CUDA_OK;
}

static gs_graph_reader reader_of(const gs_driver_queries *driver) {
    return (gs_graph_reader){.nodes = driver->cuGraphGetNodes,
                             .edges = driver->cuGraphGetEdges_v2,
                             .edges_plain = driver->cuGraphGetEdges,
                             .node_type = driver->cuGraphNodeGetType,
                             .child = driver->cuGraphChildGraphNodeGetGraph,
                             .attribute = driver->cuGraphKernelNodeGetAttribute,
                             .node_id = handle_as_id};
}

/* ---- nodes ---- */

/* CUDA_MEMSET_NODE_PARAMS. */
struct memset_parameters {
    uint64_t to;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
};

enum { COPY_3D_BYTES = 200 };

static gs_driver_record read_kernel(const gs_driver_queries *driver, void *node) {
    static const int attributes[] = {2, 4, 14}; /* cooperative, cluster, carve-out */
    gs_kernel_node found = {0};
    gs_driver_function function = {.carveout_percent = -1};
    if (driver->cuGraphKernelNodeGetParams_v2 && driver->cuGraphKernelNodeGetParams_v2(node, &found) == GS_CUDA_OK)
        function = gs_driver_function_get(driver, found.function ? found.function : found.kernel);
    gs_driver_record record = gs_driver_kernel(&function, found.shape, found.shared_bytes);
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        int value[16] = {0};
        bool is_given = driver->cuGraphKernelNodeGetAttribute &&
                        driver->cuGraphKernelNodeGetAttribute(node, attributes[i], value) == GS_CUDA_OK && value[0];
        if (is_given)
            gs_driver_kernel_attribute(&record.kernel, attributes[i], value);
    }
    return record;
}

static gs_driver_record read_copy(const gs_driver_queries *driver, void *node) {
    char found[COPY_3D_BYTES] = {0};
    if (!driver->cuGraphMemcpyNodeGetParams || driver->cuGraphMemcpyNodeGetParams(node, found) != GS_CUDA_OK)
        return gs_driver_copy(0, 0);
    return gs_driver_copy_3d(found);
}

static gs_driver_record read_memset(const gs_driver_queries *driver, void *node) {
    struct memset_parameters found = {0};
    if (!driver->cuGraphMemsetNodeGetParams || driver->cuGraphMemsetNodeGetParams(node, &found) != GS_CUDA_OK)
        return gs_driver_memset(0);
    return gs_driver_memset(found.element_bytes * found.width * (found.height ? found.height : 1));
}

static gs_driver_record read_node(const gs_driver_queries *driver, void *node) {
    enum { NODE_KERNEL = 0, NODE_MEMCPY = 1 };
    int type = NODE_KERNEL;
    driver->cuGraphNodeGetType(node, &type);
    return type == NODE_KERNEL   ? read_kernel(driver, node)
           : type == NODE_MEMCPY ? read_copy(driver, node)
                                 : read_memset(driver, node);
}

/* ---- graphs ---- */

gs_driver_graph *gs_driver_graph_read(const gs_driver_queries *driver, void *graph, gs_graph_shape **shape) {
    static atomic_uint next_number;
    gs_graph_reader reader = reader_of(driver);
    gs_driver_graph *made = calloc(1, sizeof *made);
    *shape = made ? gs_graph_shape_read(&reader, graph) : NULL;
    gs_driver_record *nodes = *shape ? calloc((*shape)->count + 1u, sizeof *nodes) : NULL;
    if (!nodes) {
        free(made);
        gs_graph_shape_release(*shape);
        *shape = NULL;
        return NULL;
    }
    *made = (gs_driver_graph){.nodes = nodes, .count = (*shape)->count, .number = ++next_number, .references = 1};
    for (uint32_t i = 0; i < made->count; i++)
        nodes[i] = read_node(driver, (void *)(uintptr_t)(*shape)->nodes[i].id);
    return made;
}

void gs_driver_graph_release(gs_driver_graph *graph) {
    if (!graph || atomic_fetch_sub(&graph->references, 1) > 1)
        return;
    free(graph->nodes);
    free(graph);
}
