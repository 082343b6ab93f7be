/*
 * gate_cut.h: where a graph can be cut: behind a node at whose end all nodes before it are done, and no later node has
 * begun. No driver.
 */
#ifndef GS_GATE_CUT_H
#define GS_GATE_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gs_cut_graph {
    size_t nodes, edges;
    const uint32_t *from, *to; /* of each edge */
    const int64_t *ns;         /* how long each node takes */
} gs_cut_graph;

/* Cuts a graph into pieces of at most `most_ns`, or one node, or more if there is no cut. Returns how many nodes were
   put into `cuts`, which has space for all: each is followed by a cut. SIZE_MAX: out of memory, or the edges are
   invalid.
 */
size_t gs_cut_graph_find(const gs_cut_graph *graph, int64_t most_ns, uint32_t *cuts);

#endif
