/*
 * gate_cut.h: where a graph can be cut: behind which of its nodes everything before it is done, and nothing after it
 * has begun. No driver.
 */
#ifndef GS_GATE_CUT_H
#define GS_GATE_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gs_cut_graph {
    size_t nodes, edges;
    const uint32_t *from, *to; /* of each edge */
} gs_cut_graph;

/* Cuts a graph into pieces of about `most` nodes, or more where it cannot be cut. Returns how many nodes were put into
   `cuts`, which has space for all: behind each of them is a cut. SIZE_MAX: there is no memory, or the edges are wrong.
 */
size_t gs_cut_graph_find(const gs_cut_graph *graph, size_t most, uint32_t *cuts);

#endif
