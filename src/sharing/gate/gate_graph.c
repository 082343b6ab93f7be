/*
 * gate_graph.c: puts waits into long graphs of a best-effort program.
 *
 * A copy of each graph is kept when it is instantiated. When its duration is known and exceeds the allowed work between
 * two waits, the graph is launched once in a form that tells how long its nodes take (gate_node.c). Then the copy gets
 * nodes that wait for the board's flags where it can be cut (gate_cut.c), kernels that are long can be stopped, and it
 * is launched instead of the original. If the times of the nodes cannot be found, all are taken to be equally long. A
 * graph that the program changes afterwards, or that has nodes which cannot be copied, stays as it is.
 */
#include "gate.h"
#include "gate_cut.h"
#include "gate_node.h"
#include "gate_parts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRAPHS = 1024, /* kept at a time: a power of two; further graphs stay as they are */
    MOST_NODES = 100000,
    DEVICE_LAUNCH = 4, /* of the flags of an instantiation */
    UPLOAD = 2
};

struct graph {
    void *exec;          /* the program's; NULL: free */
    void *copy;          /* NULL: it cannot be divided, or is divided already */
    void *divided;       /* launched in place of `exec`, or NULL */
    const char *whole;   /* why it is not divided, or NULL */
    gs_gate_parts parts; /* of the copy, while its nodes are timed */
    gs_gate_timing timing;
    gs_gate_chains chains;
    uint64_t flags;
};

static struct graphs {
    pthread_mutex_t lock;
    struct graph all[GRAPHS];
} graphs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool has_calls(void) {
    return gs_gate_real.cuGraphClone && gs_gate_real.cuGraphGetNodes && gs_gate_real.cuGraphAddBatchMemOpNode &&
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

static void forget_copy(struct graph *graph) {
    if (graph->copy)
        gs_gate_real.cuGraphDestroy(graph->copy);
    graph->copy = NULL;
    gs_gate_parts_free(&graph->parts);
    gs_gate_timing_free(&graph->timing);
}

static void clear_graph(struct graph *graph) {
    int mode = gs_gate_relax();
    forget_copy(graph);
    if (graph->divided)
        gs_gate_real.cuGraphExecDestroy(graph->divided);
    if (graph->chains.controls)
        gs_gate_real.cuMemFree_v2(graph->chains.controls); /* when the GPU has done all work */
    gs_gate_respect(mode);
    *graph = (struct graph){0};
}

/* Returns why there is no copy. */
static const char *copy_graph(void **copy, void *graph, uint64_t flags) {
    size_t nodes = 0;
    if (!has_calls() || gs_gate_real.cuGraphGetNodes(graph, NULL, &nodes) != GS_CUDA_OK || !nodes)
        return "the driver does not say what is in it";
    if (flags & DEVICE_LAUNCH)
        return "it can be launched from the GPU";
    if (nodes > MOST_NODES)
        return "it has too many nodes";
    return gs_gate_real.cuGraphClone(copy, graph) == GS_CUDA_OK
               ? NULL
               : "it cannot be copied, like all with memory or conditional nodes";
}

void gs_gate_graph_keep(void *exec, void *graph, uint64_t flags) {
    pthread_mutex_lock(&graphs.lock);
    struct graph *place = find_graph(exec);
    if (place) {
        clear_graph(place);
        *place = (struct graph){.exec = exec, .flags = flags & ~(uint64_t)UPLOAD};
        place->whole = copy_graph(&place->copy, graph, flags);
    }
    pthread_mutex_unlock(&graphs.lock);
}

void gs_gate_graph_forget(void *exec, bool is_destroyed) {
    pthread_mutex_lock(&graphs.lock);
    struct graph *place = find_graph(exec);
    if (place && (place->copy || place->divided || is_destroyed))
        clear_graph(place);
    if (place && !is_destroyed) {
        place->exec = exec;
        place->whole = "the program changes it";
    }
    pthread_mutex_unlock(&graphs.lock);
}

/* ---- dividing; under the lock ---- */

/* Puts chains in the place of long kernels. Returns an error of the driver. */
static int guard_kernels(struct graph *graph, const int64_t *ns, const gs_gate_work *work) {
    int code = GS_CUDA_OK;
    for (uint32_t i = 0; i < graph->parts.count && code == GS_CUDA_OK; i++)
        if (ns[i] > gs_gate_state.ahead_ns)
            code = gs_gate_node_guard(&graph->parts, i, ns[i], work, &graph->chains);
    return code;
}

/* Puts the waits in. Returns how many there are; SIZE_MAX: it failed. */
static size_t put_waits(gs_gate_parts *parts, const int64_t *ns, gs_gate_pointer flags) {
    uint32_t *cuts = calloc(parts->count + 1, sizeof *cuts);
    gs_cut_graph cut = {.nodes = parts->count, .edges = parts->edges, .from = parts->from, .to = parts->to, .ns = ns};
    size_t count = cuts ? gs_cut_graph_find(&cut, gs_gate_state.ahead_ns, cuts) : SIZE_MAX;
    for (size_t i = 0; count != SIZE_MAX && i < count; i++)
        if (gs_gate_node_wait(parts, cuts[i], flags) != GS_CUDA_OK)
            count = SIZE_MAX;
    free(cuts);
    return count;
}

/* The time of each node; NULL: out of memory. The caller frees them. */
static int64_t *find_times(const struct graph *graph, int64_t expected_ns) {
    const gs_gate_parts *parts = &graph->parts;
    int64_t *ns = calloc(parts->count + 1, sizeof *ns);
    if (ns && !(graph->timing.exec && gs_gate_timing_read(&graph->timing, parts, ns)))
        for (size_t i = 0; i < parts->count; i++)
            ns[i] = expected_ns / (int64_t)parts->count + 1;
    return ns;
}

static void divide(struct graph *graph, const gs_gate_work *work) {
    int64_t *ns = find_times(graph, work->expected_ns);
    bool is_good =
        ns && (!gs_gate_state.has_guards || !graph->timing.exec || guard_kernels(graph, ns, work) == GS_CUDA_OK);
    size_t waits = is_good ? put_waits(&graph->parts, ns, work->flags) : SIZE_MAX;
    if (!waits && !graph->chains.count)
        graph->whole = "it has too few nodes to wait between";
    else if (waits == SIZE_MAX ||
             gs_gate_real.cuGraphInstantiateWithFlags(&graph->divided, graph->copy, graph->flags) != GS_CUDA_OK) {
        graph->divided = NULL;
        graph->whole = "the driver refuses waits in it";
    }
    free(ns);
    forget_copy(graph);
}

/* The next form of a graph that is long and not divided yet; NULL: the program's own. */
static void *next_form(struct graph *graph, const gs_gate_work *work) {
    if (!graph->parts.graph) {
        graph->whole = gs_gate_parts_read(&graph->parts, graph->copy);
        if (graph->whole)
            forget_copy(graph);
        else if (gs_gate_timing_make(&graph->timing, &graph->parts, graph->flags))
            return graph->timing.exec;
        else
            divide(graph, work);
    } else if (gs_gate_timing_is_done(&graph->timing)) {
        divide(graph, work);
    }
    return graph->divided;
}

void *gs_gate_graph_divide(void *exec, const gs_gate_work *work, gs_gate_form *form, const char **whole) {
    pthread_mutex_lock(&graphs.lock);
    struct graph *graph = find_graph(exec);
    bool is_kept = graph && graph->exec == exec && exec;
    void *launched = is_kept ? graph->divided : NULL;
    if (is_kept && graph->copy && work->expected_ns > gs_gate_state.ahead_ns)
        launched = next_form(graph, work);
    *form = is_kept && graph->divided       ? GS_FORM_DIVIDED
            : is_kept && graph->timing.exec ? GS_FORM_TIMED
                                            : GS_FORM_WHOLE;
    *whole = is_kept ? graph->whole : "there are too many graphs";
    pthread_mutex_unlock(&graphs.lock);
    return launched;
}
