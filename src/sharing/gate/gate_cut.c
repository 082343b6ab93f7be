/*
 * gate_cut.c: where a graph can be cut. See gate_cut.h.
 *
 * Nodes are sorted topologically, those without dependencies first. There is a cut behind a node if no edge from before
 * it leads beyond it, and every node beyond it has a dependency.
 */
#include "gate_cut.h"

#include <stdlib.h>

struct order {
    uint32_t *node;  /* in order */
    uint32_t *place; /* of each node */
    uint32_t *needs; /* edges into each node */
    uint32_t *first; /* of each node: where its edges begin in `after`, */
    uint32_t *after; /* the nodes behind them */
    size_t roots;
};

static void free_order(struct order *order) {
    free(order->node);
    free(order->place);
    free(order->needs);
    free(order->first);
    free(order->after);
}

static bool make_order(struct order *order, const gs_cut_graph *graph) {
    order->node = calloc(graph->nodes + 1, sizeof *order->node);
    order->place = calloc(graph->nodes + 1, sizeof *order->place);
    order->needs = calloc(graph->nodes + 1, sizeof *order->needs);
    order->first = calloc(graph->nodes + 2, sizeof *order->first);
    order->after = calloc(graph->edges + 1, sizeof *order->after);
    return order->node && order->place && order->needs && order->first && order->after;
}

/* Edges by the node that they come from. */
static bool list_edges(struct order *order, const gs_cut_graph *graph) {
    for (size_t i = 0; i < graph->edges; i++) {
        if (graph->from[i] >= graph->nodes || graph->to[i] >= graph->nodes)
            return false;
        order->first[graph->from[i] + 2]++;
        order->needs[graph->to[i]]++;
    }
    for (size_t i = 2; i <= graph->nodes; i++)
        order->first[i] += order->first[i - 1];
    for (size_t i = 0; i < graph->edges; i++)
        order->after[order->first[graph->from[i] + 1]++] = graph->to[i];
    return true;
}

/* False: there is a cycle. */
static bool sort_nodes(struct order *order, const gs_cut_graph *graph) {
    size_t count = 0;
    for (uint32_t i = 0; i < graph->nodes; i++)
        if (!order->needs[i])
            order->node[count++] = i;
    order->roots = count;
    for (size_t done = 0; done < count; done++) {
        uint32_t node = order->node[done];
        order->place[node] = (uint32_t)done;
        for (uint32_t i = order->first[node]; i < order->first[node + 1]; i++)
            if (!--order->needs[order->after[i]])
                order->node[count++] = order->after[i];
    }
    return count == graph->nodes;
}

static size_t find_cuts(const struct order *order, const gs_cut_graph *graph, int64_t most_ns, uint32_t *cuts) {
    size_t count = 0, reach = 0; /* the farthest target of edges from before this position */
    int64_t since_ns = 0;        /* the last cut */
    for (size_t at = 0; at + 1 < graph->nodes; at++) {
        uint32_t node = order->node[at], next = order->node[at + 1];
        since_ns += graph->ns[node];
        if (reach <= at && at + 1 >= order->roots && since_ns + graph->ns[next] > most_ns) {
            cuts[count++] = node;
            since_ns = 0;
        }
        for (uint32_t i = order->first[node]; i < order->first[node + 1]; i++)
            if (order->place[order->after[i]] > reach)
                reach = order->place[order->after[i]];
    }
    return count;
}

size_t gs_cut_graph_find(const gs_cut_graph *graph, int64_t most_ns, uint32_t *cuts) {
    struct order order = {0};
    size_t count = SIZE_MAX;
    if (make_order(&order, graph) && list_edges(&order, graph) && sort_nodes(&order, graph))
        count = find_cuts(&order, graph, most_ns, cuts);
    free_order(&order);
    return count;
}
