/*
 * gate_graph.c: puts waits into long graphs of a best-effort program.
 *
 * A copy of each graph is kept when it is instantiated. When its duration is known and exceeds the allowed work between
 * two waits, the copy gets nodes that wait for the board's flags (cuGraphAddBatchMemOpNode) where it can be cut
 * (gate_cut.c), and is launched instead of the original. Durations of single nodes are not known, so pieces have
 * equally many nodes. A graph that the program changes afterwards, or that has nodes which cannot be copied, stays as
 * it is.
 */
#include "gate.h"
#include "gate_cut.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRAPHS = 1024, /* kept at a time: a power of two; further graphs stay as they are */
    MOST_NODES = 100000,
    DEVICE_LAUNCH = 4, /* of the flags of an instantiation */
    UPLOAD = 2,
    MEM_ALLOC_NODE = 10,
    MEM_FREE_NODE = 11,
    CONDITIONAL_NODE = 13,
    WAIT_VALUE_32 = 1,
    WAIT_EQUAL = 1
};

struct graph {
    void *exec;    /* the program's; NULL: free */
    void *copy;    /* NULL: it cannot be divided, or is divided already */
    void *divided; /* launched in place of `exec`, or NULL */
    uint64_t flags;
};

static struct graphs {
    pthread_mutex_t lock;
    struct graph all[GRAPHS];
} graphs = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct wait_operation { /* CUstreamBatchMemOpParams */
    int operation;
    gs_gate_pointer address;
    uint64_t value;
    unsigned flags;
    uint64_t rest[2];
};

struct wait_node { /* CUDA_BATCH_MEM_OP_NODE_PARAMS */
    void *context;
    unsigned count;
    struct wait_operation *operations;
    unsigned flags;
};

static bool has_calls(void) {
    return gs_gate_real.cuGraphClone && gs_gate_real.cuGraphGetNodes && gs_gate_real.cuGraphNodeGetType &&
           gs_gate_real.cuGraphGetEdges_v2 && gs_gate_real.cuGraphAddBatchMemOpNode &&
           gs_gate_real.cuGraphAddDependencies_v2 && gs_gate_real.cuGraphRemoveDependencies_v2 &&
           gs_gate_real.cuGraphDestroy && gs_gate_real.cuGraphInstantiateWithFlags && gs_gate_real.cuCtxGetCurrent;
}

/* ---- the table; under the lock ---- */

/* Its slot, or a free one; NULL: that part of the table is full. */
static struct graph *find_graph(const void *exec) {
    enum { TRIES = 16 };
    size_t start = (uintptr_t)exec / 16 * 31;
    struct graph *free_place = NULL;
    for (size_t i = 0; i < TRIES; i++) {
        struct graph *at = &graphs.all[(start + i) % GRAPHS];
        if (at->exec == exec)
            return at;
        free_place = !at->exec && !free_place ? at : free_place;
    }
    return free_place;
}

static void clear_graph(struct graph *graph) {
    if (graph->copy)
        gs_gate_real.cuGraphDestroy(graph->copy);
    if (graph->divided)
        gs_gate_real.cuGraphExecDestroy(graph->divided);
    *graph = (struct graph){0};
}

void gs_gate_graph_keep(void *exec, void *graph, uint64_t flags) {
    size_t nodes = 0;
    if (!has_calls() || flags & DEVICE_LAUNCH || gs_gate_real.cuGraphGetNodes(graph, NULL, &nodes) != GS_CUDA_OK ||
        nodes < 2 || nodes > MOST_NODES)
        return;
    pthread_mutex_lock(&graphs.lock);
    struct graph *place = find_graph(exec);
    void *copy = NULL;
    if (place && gs_gate_real.cuGraphClone(&copy, graph) == GS_CUDA_OK) {
        clear_graph(place);
        *place = (struct graph){.exec = exec, .copy = copy, .flags = flags & ~(uint64_t)UPLOAD};
    }
    pthread_mutex_unlock(&graphs.lock);
}

void gs_gate_graph_forget(void *exec) {
    pthread_mutex_lock(&graphs.lock);
    struct graph *place = find_graph(exec);
    if (place && place->exec)
        clear_graph(place);
    pthread_mutex_unlock(&graphs.lock);
}

/* ---- a graph's nodes ---- */

struct parts {
    void **nodes, **from, **to; /* of edges */
    uint32_t *from_ids, *to_ids, *cuts;
    size_t count, edges;
};

static void free_parts(struct parts *parts) {
    free(parts->nodes);
    free(parts->from);
    free(parts->to);
    free(parts->from_ids);
    free(parts->to_ids);
    free(parts->cuts);
}

static bool make_parts(struct parts *parts) {
    parts->nodes = calloc(parts->count + 1, sizeof *parts->nodes);
    parts->from = calloc(parts->edges + 1, sizeof *parts->from);
    parts->to = calloc(parts->edges + 1, sizeof *parts->to);
    parts->from_ids = calloc(parts->edges + 1, sizeof *parts->from_ids);
    parts->to_ids = calloc(parts->edges + 1, sizeof *parts->to_ids);
    parts->cuts = calloc(parts->count + 1, sizeof *parts->cuts);
    return parts->nodes && parts->from && parts->to && parts->from_ids && parts->to_ids && parts->cuts;
}

static int by_address(const void *a, const void *b) {
    uintptr_t left = (uintptr_t) * (void *const *)a, right = (uintptr_t) * (void *const *)b;
    return (left > right) - (left < right);
}

/* The number of a node: nodes are sorted by their addresses. */
static uint32_t id_of(const struct parts *parts, void *node) {
    void **found = bsearch(&node, parts->nodes, parts->count, sizeof *parts->nodes, by_address);
    return found ? (uint32_t)(found - parts->nodes) : UINT32_MAX;
}

static bool can_divide(const struct parts *parts) {
    for (size_t i = 0; i < parts->count; i++) {
        int type = CONDITIONAL_NODE;
        if (gs_gate_real.cuGraphNodeGetType(parts->nodes[i], &type) != GS_CUDA_OK || type == MEM_ALLOC_NODE ||
            type == MEM_FREE_NODE || type >= CONDITIONAL_NODE)
            return false;
    }
    return true;
}

/* The driver refuses the query if edges carry more than plain order. */
static bool read_parts(void *graph, struct parts *parts) {
    if (gs_gate_real.cuGraphGetNodes(graph, NULL, &parts->count) != GS_CUDA_OK ||
        gs_gate_real.cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &parts->edges) != GS_CUDA_OK || !make_parts(parts) ||
        gs_gate_real.cuGraphGetNodes(graph, parts->nodes, &parts->count) != GS_CUDA_OK ||
        gs_gate_real.cuGraphGetEdges_v2(graph, parts->from, parts->to, NULL, &parts->edges) != GS_CUDA_OK)
        return false;
    qsort(parts->nodes, parts->count, sizeof *parts->nodes, by_address);
    for (size_t i = 0; i < parts->edges; i++) {
        parts->from_ids[i] = id_of(parts, parts->from[i]);
        parts->to_ids[i] = id_of(parts, parts->to[i]);
    }
    return can_divide(parts);
}

/* ---- dividing ---- */

/* Puts a wait between a node and all that depends on it. */
static int put_wait(void *graph, const struct parts *parts, uint32_t id, const struct wait_node *wait) {
    void *node = parts->nodes[id], *added = NULL;
    int code = gs_gate_real.cuGraphAddBatchMemOpNode(&added, graph, &node, 1, wait);
    for (size_t i = 0; i < parts->edges && code == GS_CUDA_OK; i++) {
        if (parts->from_ids[i] != id)
            continue;
        code = gs_gate_real.cuGraphRemoveDependencies_v2(graph, &node, &parts->to[i], NULL, 1);
        if (code == GS_CUDA_OK)
            code = gs_gate_real.cuGraphAddDependencies_v2(graph, &added, &parts->to[i], NULL, 1);
    }
    return code;
}

static int put_waits(void *graph, const struct parts *parts, size_t cuts, gs_gate_pointer board_flags) {
    struct wait_operation operation = {.operation = WAIT_VALUE_32, .address = board_flags, .flags = WAIT_EQUAL};
    struct wait_node wait = {.count = 1, .operations = &operation};
    int code = gs_gate_real.cuCtxGetCurrent(&wait.context);
    for (size_t i = 0; i < cuts && code == GS_CUDA_OK; i++)
        code = put_wait(graph, parts, parts->cuts[i], &wait);
    return code;
}

/* The graph with waits in it; NULL: it cannot be divided. */
static void *divide_graph(void *graph, uint64_t flags, int64_t expected_ns, gs_gate_pointer board_flags) {
    struct parts parts = {0};
    void *divided = NULL;
    if (read_parts(graph, &parts)) {
        size_t most = (size_t)((double)parts.count * (double)gs_gate_state.ahead_ns / (double)expected_ns);
        gs_cut_graph cut = {.nodes = parts.count, .edges = parts.edges, .from = parts.from_ids, .to = parts.to_ids};
        size_t cuts = gs_cut_graph_find(&cut, most ? most : 1, parts.cuts);
        if (cuts && cuts != SIZE_MAX && put_waits(graph, &parts, cuts, board_flags) == GS_CUDA_OK &&
            gs_gate_real.cuGraphInstantiateWithFlags(&divided, graph, flags) != GS_CUDA_OK)
            divided = NULL;
    }
    free_parts(&parts);
    return divided;
}

void *gs_gate_graph_divide(void *exec, int64_t expected_ns, gs_gate_pointer board_flags) {
    pthread_mutex_lock(&graphs.lock);
    struct graph *graph = find_graph(exec);
    bool is_kept = graph && graph->exec == exec && exec;
    if (is_kept && graph->copy && expected_ns > gs_gate_state.ahead_ns) {
        graph->divided = divide_graph(graph->copy, graph->flags, expected_ns, board_flags);
        gs_gate_real.cuGraphDestroy(graph->copy);
        graph->copy = NULL;
    }
    void *divided = is_kept ? graph->divided : NULL;
    pthread_mutex_unlock(&graphs.lock);
    return divided;
}
