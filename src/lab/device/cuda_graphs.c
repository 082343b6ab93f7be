/*
 * cuda_graphs.c: graphs of a run as CUDA graphs.
 *
 * The launches of one graph follow each other in the run, and so do its memsets and copies. All graphs are made before
 * the run is played, while the GPU is idle.
 */
#include "cuda_device.h"

#include <stdlib.h>

enum { COPY_BYTES = 1 << 20 }; /* the largest memset or copy of a graph */

/* The launch past the last node of the graph that this launch is the first node of; without a graph, the next launch.
 */
size_t gs_play_past_graph(const gs_run *run, size_t first) {
    size_t past = first + 1;
    while (gs_run_graph_goes_on(run, past - 1))
        past++;
    return past;
}

/* The nodes of a graph: kernels, and the memsets and copies between them. */
struct graph_nodes {
    struct cuda_play *play;
    size_t first, past; /* its launches */
    size_t copies, past_copies;
    size_t count;
    cu_node nodes[CU_MOST_NODES];
    uint32_t after[CU_MOST_NODES][CU_MOST_NODES];
    uint32_t of_launch[CU_MOST_NODES], of_copy[CU_MOST_NODES]; /* the numbers of the nodes */
};
/* The memsets and copies of a graph follow each other in the run. */
static void find_copies(struct graph_nodes *graph) {
    const gs_run *run = graph->play->run;
    const gs_issue *first = &run->launches.data[graph->first].issue;
    size_t at = 0;
    while (at < run->copies.count && !gs_issue_is_beside(&run->copies.data[at].issue, first))
        at++;
    graph->copies = at;
    while (at < run->copies.count && gs_issue_is_beside(&run->copies.data[at].issue, first))
        at++;
    graph->past_copies = at;
}

/* Fills in what a node waits for. Only edges inside of the graph can be played. */
static gs_code set_edges(struct graph_nodes *graph, const gs_issue *issue, uint32_t place, gs_error *error) {
    const gs_run *run = graph->play->run;
    cu_node *node = &graph->nodes[graph->count];
    node->after = graph->after[graph->count];
    for (size_t i = 0; i < issue->after_count; i++) {
        const gs_edge *edge = &run->edges.data[issue->after + i];
        size_t first = edge->is_copy ? graph->copies : graph->first;
        size_t past = edge->is_copy ? graph->past_copies : graph->past;
        if (edge->number < first || edge->number >= past || edge->when != GS_AT_END)
            return gs_run_fail_at(run, place, error, GS_E_UNSUPPORTED,
                                  "a node of a graph can wait only for the end of nodes of the same graph");
        graph->after[graph->count][node->after_count++] =
            edge->is_copy ? graph->of_copy[edge->number - first] : graph->of_launch[edge->number - first];
    }
    return GS_OK;
}

/* Whether an earlier node of the graph has the kernel of this one, but another carve-out. */
static bool is_taken(const struct graph_nodes *graph, size_t number) {
    const struct cuda_slot *slots = graph->play->cuda->slots;
    const gs_launch *launches = graph->play->run->launches.data;
    for (size_t i = graph->first; i < number; i++)
        if (slots[i].kernel == slots[number].kernel &&
            launches[i].shape.carveout_percent != launches[number].shape.carveout_percent)
            return true;
    return false;
}

/* What counts for nodes is the carve-out that their function has when the graph is instantiated. So nodes of a graph
   with different carve-outs need functions of their own. */
static gs_code choose_kernel(struct graph_nodes *graph, size_t number, gs_error *error) {
    const gs_shape *shape = &graph->play->run->launches.data[number].shape;
    struct cuda *cuda = graph->play->cuda;
    gs_code code = GS_OK;
    for (size_t copy = 1; code == GS_OK && is_taken(graph, number); copy++)
        code =
            gs_probe_find(&cuda->probe, shape->registers, shape->local_bytes, copy, &cuda->slots[number].kernel, error);
    return code;
}

static gs_code add_kernel_node(struct graph_nodes *graph, size_t number, gs_error *error) {
    struct cuda_play *play = graph->play;
    const gs_launch *launch = &play->run->launches.data[number];
    struct cuda_slot *slot = &play->cuda->slots[number];
    gs_code code = choose_kernel(graph, number, error);
    if (code != GS_OK)
        return code;
    int64_t context = context_of_launch(launch);
    graph->nodes[graph->count] = (cu_node){.kernel = slot->kernel,
                                           .blocks = (unsigned)launch->blocks,
                                           .threads = (unsigned)launch->shape.threads,
                                           .shared_bytes = (unsigned)launch->shape.shared_bytes,
                                           .arguments = &slot->arguments,
                                           .priority = -abs(launch->priority)};
    if (context >= 0)
        graph->nodes[graph->count].stream = play->cuda->context_streams[context][number];
    code = set_edges(graph, &launch->issue, play->run->events.data[launch->event].place, error);
    graph->of_launch[number - graph->first] = (uint32_t)graph->count++;
    /* An earlier run may have left the carve-out of the function at another value. */
    int failed = gs_cuda_kernel_carve(&play->cuda->api, slot->kernel, launch->shape.carveout_percent);
    return code == GS_OK ? gs_cuda_check(&play->cuda->api, failed, "setting the carve-out of a node", error) : code;
}

static gs_code take_copy_memory(struct cuda *cuda, gs_error *error) {
    int failed = cuda->copied ? 0 : cuda->api.alloc(&cuda->copied, (size_t)2 * COPY_BYTES);
    if (!failed && !cuda->host_copied)
        failed = cuda->api.host_alloc(&cuda->host_copied, COPY_BYTES, 0);
    return gs_cuda_check(&cuda->api, failed, "taking memory for copies", error);
}

static gs_code add_memory_node(struct graph_nodes *graph, size_t number, gs_error *error) {
    static const cu_node_kind kinds[GS_COPY_KINDS] = {[GS_COPY_UNKNOWN] = CU_NODE_COPY,
                                                      [GS_COPY_DEVICE_TO_DEVICE] = CU_NODE_COPY,
                                                      [GS_COPY_HOST_TO_DEVICE] = CU_NODE_COPY_IN,
                                                      [GS_COPY_DEVICE_TO_HOST] = CU_NODE_COPY_OUT};
    struct cuda *cuda = graph->play->cuda;
    const gs_copy *copy = &graph->play->run->copies.data[number];
    if (copy->bytes < 4 || copy->bytes > COPY_BYTES || copy->bytes % 4)
        return gs_run_fail_at(graph->play->run, copy->place, error, GS_E_UNSUPPORTED,
                              "a memset or copy of a graph on a GPU has 4 bytes to %d, a multiple of 4", COPY_BYTES);
    gs_code code = take_copy_memory(cuda, error);
    if (code != GS_OK)
        return code;
    graph->nodes[graph->count] = (cu_node){.kind = copy->is_memset ? CU_NODE_MEMSET : kinds[copy->kind],
                                           .to = cuda->copied,
                                           .from = cuda->copied + COPY_BYTES,
                                           .host = cuda->host_copied,
                                           .bytes = (size_t)copy->bytes};
    code = set_edges(graph, &copy->issue, copy->place, error);
    graph->of_copy[number - graph->copies] = (uint32_t)graph->count++;
    return code;
}

static gs_code make_graph(struct cuda_play *play, size_t first, size_t past, gs_error *error) {
    struct cuda *cuda = play->cuda;
    struct graph_nodes graph = {.play = play, .first = first, .past = past};
    gs_code code = GS_OK;
    find_copies(&graph);
    size_t copy = graph.copies;
    if (past - first + graph.past_copies - graph.copies > CU_MOST_NODES)
        return gs_fail(error, GS_E_USAGE, "a graph on a GPU has at most %d nodes", CU_MOST_NODES);
    for (size_t i = first; i <= past && code == GS_OK; i++) {
        for (; copy < graph.past_copies && play->run->copies.data[copy].before <= i && code == GS_OK; copy++)
            code = add_memory_node(&graph, copy, error);
        if (i < past && code == GS_OK)
            code = add_kernel_node(&graph, i, error);
    }
    if (code == GS_OK)
        code = gs_cuda_graph_make(&cuda->api, graph.nodes, graph.count, cuda->streams[first], &cuda->slots[first].graph,
                                  error);
    return code;
}

gs_code gs_play_make_graphs(struct cuda_play *play, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0, past; i < play->run->launches.count && code == GS_OK; i = past) {
        past = gs_play_past_graph(play->run, i);
        if (gs_issue_is_node(&play->run->launches.data[i].issue))
            code = make_graph(play, i, past, error);
    }
    return code;
}

void gs_play_free_graphs(struct cuda_play *play) {
    for (size_t i = 0; i < play->run->launches.count && i < GS_DEVICE_LAUNCHES; i++) {
        gs_cuda_graph_free(&play->cuda->api, play->cuda->slots[i].graph);
        play->cuda->slots[i].graph = NULL;
    }
}

gs_code gs_play_launch_graph(struct cuda_play *play, size_t first, size_t past, gs_error *error) {
    struct cuda *cuda = play->cuda;
    gs_watchdog_call_begins(cuda);
    int failed = gs_cuda_graph_launch(&cuda->api, cuda->slots[first].graph, cuda->streams[first]);
    play->cut_short = gs_watchdog_call_ends(cuda);
    for (size_t i = first; i < past && !failed; i++) {
        cuda->slots[i].stream = cuda->streams[first];
        cuda->slots[i].launched = true;
    }
    return gs_cuda_check(&cuda->api, failed, "launching a graph", error);
}
