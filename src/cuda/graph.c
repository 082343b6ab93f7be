/*
 * graph.c: CUDA graphs of kernels.
 *
 * The calls are looked up only when a graph is made. A graph is made and uploaded while the GPU is idle: later the
 * driver could wait for kernels that wait for the host. Nodes have their own priorities.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The driver's CUDA_KERNEL_NODE_PARAMS_v2. */
struct node_parameters {
    cu_function function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void **arguments, **extra;
    void *kernel, *context;
};

enum { USE_NODE_PRIORITY = 8 }; /* a flag of cuGraphInstantiateWithFlags */

struct graph_api {
    int (*create)(void **, unsigned);
    int (*add)(void **, void *, void *const *, size_t, const struct node_parameters *);
    int (*set)(void *, int, const void *);
    int (*instantiate)(void **, void *, unsigned long long);
    int (*upload)(void *, cu_stream);
    int (*launch)(void *, cu_stream);
    int (*free_executable)(void *);
    int (*free)(void *);
};

static bool find(void *driver, const char *name, void *pointer) {
    void *symbol = dlsym(driver, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static gs_code find_all(const cu_api *api, struct graph_api *graph, gs_error *error) {
    void *driver = api->driver;
    bool found =
        find(driver, "cuGraphCreate", &graph->create) && find(driver, "cuGraphAddKernelNode_v2", &graph->add) &&
        find(driver, "cuGraphKernelNodeSetAttribute", &graph->set) &&
        find(driver, "cuGraphInstantiateWithFlags", &graph->instantiate) &&
        find(driver, "cuGraphUpload", &graph->upload) && find(driver, "cuGraphLaunch", &graph->launch) &&
        find(driver, "cuGraphExecDestroy", &graph->free_executable) && find(driver, "cuGraphDestroy", &graph->free);
    return found ? GS_OK : gs_fail(error, GS_E_NO_GPU, "this driver has no CUDA graphs: they need CUDA 12");
}

/* Adds node number `number`; the nodes that it waits for are added already. */
static int add_node(const struct graph_api *calls, void *graph, const cu_node *nodes, size_t number, void **made) {
    const cu_node *node = &nodes[number];
    void *after[CU_MOST_NODES], *arguments[] = {node->arguments};
    for (size_t i = 0; i < node->after_count; i++)
        after[i] = made[node->after[i]];
    struct node_parameters parameters = {.function = node->function,
                                         .grid_x = node->blocks,
                                         .grid_y = 1,
                                         .grid_z = 1,
                                         .block_x = node->threads,
                                         .block_y = 1,
                                         .block_z = 1,
                                         .shared_bytes = node->shared_bytes,
                                         .arguments = arguments};
    cu_attribute priority = {.value = {.priority = node->priority}};
    int failed = calls->add(&made[number], graph, after, node->after_count, &parameters);
    return failed ? failed : calls->set(made[number], CU_LAUNCH_PRIORITY, &priority.value);
}

gs_code gs_cuda_graph_make(const cu_api *api, const cu_node *nodes, size_t count, cu_stream stream, void **executable,
                           gs_error *error) {
    struct graph_api calls = {0};
    void *graph = NULL, *made[CU_MOST_NODES] = {NULL};
    gs_code code = find_all(api, &calls, error);
    if (code != GS_OK)
        return code;
    if (count > CU_MOST_NODES)
        return gs_fail(error, GS_E_USAGE, "a graph has at most %d nodes here", CU_MOST_NODES);
    int failed = calls.create(&graph, 0);
    for (size_t i = 0; i < count && !failed; i++)
        failed = add_node(&calls, graph, nodes, i, made);
    if (!failed)
        failed = calls.instantiate(executable, graph, USE_NODE_PRIORITY);
    if (!failed)
        failed = calls.upload(*executable, stream);
    if (!failed)
        failed = api->stream_wait(stream);
    if (graph)
        calls.free(graph);
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
