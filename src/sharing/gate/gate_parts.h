/*
 * gate_parts.h: the nodes of a graph, with numbers, and edges between them.
 *
 * What is put in the place of a node, or behind it, keeps its number: a number stands for all that is done between its
 * head and its tail.
 */
#ifndef GS_GATE_PARTS_H
#define GS_GATE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gs_gate_parts {
    void *graph;
    void **heads, **tails; /* of each number: the first and the last node */
    uint32_t *from, *to;   /* of edges, sorted by `from` */
    uint32_t *first;       /* of each number: its first edge */
    size_t count, edges;
} gs_gate_parts;

/* Returns why the graph cannot be divided; NULL: it can. */
const char *gs_gate_parts_read(gs_gate_parts *parts, void *graph);
/* The same of a copy of the graph that the driver has made. */
bool gs_gate_parts_of_clone(gs_gate_parts *parts, const gs_gate_parts *original, void *clone);
void gs_gate_parts_free(gs_gate_parts *parts);

/* These return an error of the driver. */

/* What depends on `number` depends on `tail` from now on, a new node that depends on it. */
int gs_gate_parts_extend(gs_gate_parts *parts, uint32_t number, void *tail);
/* A node is removed: in its place are those from `head`, which depends on all that it depends on, to `tail`. */
int gs_gate_parts_replace(gs_gate_parts *parts, uint32_t number, void *head, void *tail);
/* What `number` depends on. The caller has space for as many as there are nodes. Returns how many there are. */
size_t gs_gate_parts_before(const gs_gate_parts *parts, uint32_t number, void **nodes);

#endif
