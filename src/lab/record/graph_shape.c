/*
 * graph_shape.c: the nodes of a CUDA graph that run on the GPU, and their dependencies.
 *
 * A graph is read once, when it is instantiated. Nodes that run nothing on the GPU (empty ones, events, host functions,
 * allocations) are left out: their successors wait for their predecessors instead. A node that is itself a graph is
 * replaced by the nodes of that graph.
 *
 * All nodes are read (struct reading) in a topological order.
 */
#include "recorder.h"

#include <stdlib.h>
#include <string.h>

enum { NODE_KERNEL = 0, NODE_MEMCPY = 1, NODE_MEMSET = 2, NODE_GRAPH = 4, MOST_DEPTH = 8 };

/* Positions in the shape, each shifted by GS_SHAPE_WHEN_BITS, with a gs_shape_when in the low bits. */
typedef struct positions {
    uint32_t *data;
    size_t count, capacity;
} positions;

/* CUgraphEdgeData */
struct edge {
    uint8_t from_port, to_port, type, reserved[5];
};

/* A graph's nodes and edges, as the driver lists them. */
struct listing {
    void **nodes, **from, **to;
    struct edge *edges;
    size_t node_count, edge_count;
    gs_number_map numbers; /* of a node, plus 1 */
    size_t *first_in, *in; /* of each node: where its incoming edges begin in `in` */
    size_t *first_out, *out;
    positions *ends;   /* of each node: the positions in the shape that stand for it */
    uint32_t *missing; /* of each node: how many of its predecessors have not been read */
};

struct reading {
    const gs_graph_reader *reader;
    gs_graph_shape *shape;
    size_t node_capacity, after_count, after_capacity;
};

static bool add_position(positions *list, uint32_t position) {
    for (size_t i = 0; i < list->count; i++)
        if (list->data[i] == position)
            return true;
    if (!gs_grow((void **)&list->data, &list->capacity, list->count + 1, sizeof *list->data))
        return false;
    list->data[list->count++] = position;
    return true;
}

static bool add_positions(positions *list, const positions *more, gs_shape_when when) {
    bool added = true;
    for (size_t i = 0; i < more->count && added; i++)
        added = add_position(list, more->data[i] | when);
    return added;
}

/* ---- listing a graph ---- */

static void listing_clear(struct listing *listing) {
    for (size_t i = 0; i < listing->node_count && listing->ends; i++)
        free(listing->ends[i].data);
    free(listing->ends);
    free(listing->missing);
    free(listing->nodes);
    free(listing->from);
    free(listing->to);
    free(listing->edges);
    free(listing->first_in);
    free(listing->in);
    free(listing->first_out);
    free(listing->out);
    gs_number_map_clear(&listing->numbers);
}

static size_t number_of(const struct listing *listing, void *node) {
    const uint64_t *number = gs_number_map_find(&listing->numbers, (uint64_t)(uintptr_t)node);
    return number ? (size_t)*number - 1 : SIZE_MAX;
}

/* Groups edges by the node at one of their ends: those of node i are in order[first[i]] to order[first[i + 1] - 1]. */
static bool group_edges(const struct listing *listing, void *const *ends, size_t **first, size_t **order) {
    *first = calloc(listing->node_count + 2, sizeof **first);
    *order = calloc(listing->edge_count + 1, sizeof **order);
    if (!*first || !*order)
        return false;
    for (size_t i = 0; i < listing->edge_count; i++)
        (*first)[number_of(listing, ends[i]) + 2]++;
    for (size_t i = 0; i < listing->node_count; i++)
        (*first)[i + 2] += (*first)[i + 1];
    for (size_t i = 0; i < listing->edge_count; i++)
        (*order)[(*first)[number_of(listing, ends[i]) + 1]++] = i;
    return true;
}

static bool ends_are_known(const struct listing *listing) {
    for (size_t i = 0; i < listing->edge_count; i++)
        if (number_of(listing, listing->from[i]) == SIZE_MAX || number_of(listing, listing->to[i]) == SIZE_MAX)
            return false;
    return true;
}

static bool list_edges(const gs_graph_reader *reader, void *graph, struct listing *listing) {
    size_t count = 0;
    int failed =
        reader->edges ? reader->edges(graph, NULL, NULL, NULL, &count) : reader->edges_plain(graph, NULL, NULL, &count);
    listing->from = calloc(count + 1, sizeof *listing->from);
    listing->to = calloc(count + 1, sizeof *listing->to);
    listing->edges = calloc(count + 1, sizeof *listing->edges);
    if (failed || !listing->from || !listing->to || !listing->edges)
        return false;
    if (count)
        failed = reader->edges ? reader->edges(graph, listing->from, listing->to, listing->edges, &count)
                               : reader->edges_plain(graph, listing->from, listing->to, &count);
    listing->edge_count = failed ? 0 : count;
    return !failed && ends_are_known(listing) && group_edges(listing, listing->to, &listing->first_in, &listing->in) &&
           group_edges(listing, listing->from, &listing->first_out, &listing->out);
}

static bool list_nodes(const gs_graph_reader *reader, void *graph, struct listing *listing) {
    size_t count = 0;
    if (reader->nodes(graph, NULL, &count) != 0)
        return false;
    listing->nodes = calloc(count + 1, sizeof *listing->nodes);
    listing->ends = calloc(count + 1, sizeof *listing->ends);
    listing->missing = calloc(count + 1, sizeof *listing->missing);
    if (!listing->nodes || !listing->ends || !listing->missing ||
        (count && reader->nodes(graph, listing->nodes, &count) != 0))
        return false;
    listing->node_count = count;
    for (size_t i = 0; i < count; i++) {
        uint64_t *number = gs_number_map_add(&listing->numbers, (uint64_t)(uintptr_t)listing->nodes[i]);
        if (!number)
            return false;
        *number = i + 1;
    }
    return true;
}

/* ---- reading it ---- */

static int priority_of(const gs_graph_reader *reader, void *node) {
    enum { PRIORITY = 8 };
    int value[16] = {0};
    return reader->attribute && reader->attribute(node, PRIORITY, value) == 0 ? value[0] : 0;
}

/* Adds a node that waits for `after`; `*position` gets its position. */
static bool add_node(struct reading *reading, void *node, int type, const positions *after, uint32_t *position) {
    gs_graph_shape *shape = reading->shape;
    gs_shape_node made = {.after = (uint32_t)reading->after_count,
                          .after_count = (uint32_t)after->count,
                          .priority = type == NODE_KERNEL ? priority_of(reading->reader, node) : 0};
    uint64_t *found;
    if (reading->reader->node_id(node, &made.id) != 0 ||
        !gs_grow((void **)&shape->nodes, &reading->node_capacity, shape->count + 1u, sizeof *shape->nodes) ||
        !gs_grow((void **)&shape->after, &reading->after_capacity, reading->after_count + after->count + 1,
                 sizeof *shape->after) ||
        !(found = gs_number_map_add(&shape->positions, made.id)))
        return false;
    if (after->count)
        memcpy(shape->after + reading->after_count, after->data, after->count * sizeof *after->data);
    reading->after_count += after->count;
    *position = shape->count;
    *found = shape->count + 1u;
    shape->nodes[shape->count++] = made;
    return true;
}

static bool read_graph(struct reading *reading, void *graph, const positions *before, positions *ends, int depth);

/* Reads a node whose predecessors have all been read; `after` has their positions. */
static bool read_node(struct reading *reading, void *node, const positions *after, positions *ends, int depth) {
    int type;
    void *child;
    uint32_t position;
    if (reading->reader->node_type(node, &type) != 0)
        return false;
    if (type == NODE_GRAPH && reading->reader->child && reading->reader->child(node, &child) == 0)
        return read_graph(reading, child, after, ends, depth + 1);
    if (type != NODE_KERNEL && type != NODE_MEMCPY && type != NODE_MEMSET)
        return add_positions(ends, after, GS_SHAPE_AT_END);
    if (!add_node(reading, node, type, after, &position))
        return false;
    reading->shape->nodes[position].is_nested = depth > 0;
    return add_position(ends, position << GS_SHAPE_WHEN_BITS);
}

/* When a node may start, seen from the node at the other end of an edge. */
static gs_shape_when when_of(const struct edge *edge) {
    enum { PROGRAMMATIC = 1, PORT_TRIGGER = 1, PORT_START = 2 };
    if (edge->type != PROGRAMMATIC)
        return GS_SHAPE_AT_END;
    return edge->from_port == PORT_START     ? GS_SHAPE_AT_START
           : edge->from_port == PORT_TRIGGER ? GS_SHAPE_AT_TRIGGER
                                             : GS_SHAPE_AT_END;
}

static bool read_listed(struct reading *reading, struct listing *listing, size_t number, const positions *before,
                        int depth) {
    positions after = {0};
    size_t first = listing->first_in[number], end = listing->first_in[number + 1];
    bool added = first < end || add_positions(&after, before, GS_SHAPE_AT_END);
    for (size_t i = first; i < end && added; i++) {
        size_t edge = listing->in[i];
        added = add_positions(&after, &listing->ends[number_of(listing, listing->from[edge])],
                              when_of(&listing->edges[edge]));
    }
    added = added && read_node(reading, listing->nodes[number], &after, &listing->ends[number], depth);
    free(after.data);
    return added;
}

/* Reads the nodes, each after its predecessors. */
static bool read_all(struct reading *reading, struct listing *listing, const positions *before, int depth) {
    size_t count = listing->node_count, ready = 0;
    size_t *queue = calloc(count + 1, sizeof *queue);
    bool added = queue;
    for (size_t i = 0; i < count && queue; i++) {
        listing->missing[i] = (uint32_t)(listing->first_in[i + 1] - listing->first_in[i]);
        if (!listing->missing[i])
            queue[ready++] = i;
    }
    for (size_t done = 0; added && done < ready; done++) {
        added = read_listed(reading, listing, queue[done], before, depth);
        for (size_t i = listing->first_out[queue[done]]; i < listing->first_out[queue[done] + 1]; i++) {
            size_t to = number_of(listing, listing->to[listing->out[i]]);
            if (--listing->missing[to] == 0)
                queue[ready++] = to;
        }
    }
    free(queue);
    return added;
}

/* Adds the nodes of a graph whose first nodes wait for `before`; `ends` gets the nodes without successors. */
static bool read_graph(struct reading *reading, void *graph, const positions *before, positions *ends, int depth) {
    struct listing listing = {0};
    bool done = depth < MOST_DEPTH && list_nodes(reading->reader, graph, &listing) &&
                list_edges(reading->reader, graph, &listing) && read_all(reading, &listing, before, depth);
    for (size_t i = 0; i < listing.node_count && done; i++)
        if (listing.first_out[i] == listing.first_out[i + 1])
            done = add_positions(ends, &listing.ends[i], GS_SHAPE_AT_END);
    if (done && !listing.node_count)
        done = add_positions(ends, before, GS_SHAPE_AT_END);
    listing_clear(&listing);
    return done;
}

gs_graph_shape *gs_graph_shape_read(const gs_graph_reader *reader, void *graph) {
    gs_graph_shape *shape = calloc(1, sizeof *shape);
    struct reading reading = {.reader = reader, .shape = shape};
    positions none = {0}, ends = {0};
    if (!shape || !reader->nodes || !(reader->edges || reader->edges_plain) || !reader->node_type) {
        free(shape);
        return NULL;
    }
    shape->references = 1;
    bool done = read_graph(&reading, graph, &none, &ends, 0);
    for (size_t i = 0; i < ends.count && done; i++)
        shape->nodes[ends.data[i] >> GS_SHAPE_WHEN_BITS].is_last = true;
    shape->last_count = (uint32_t)ends.count;
    free(ends.data);
    if (done)
        return shape;
    gs_graph_shape_release(shape);
    return NULL;
}

void gs_graph_shape_alias(gs_graph_shape *shape, uint64_t id, uint64_t original) {
    const uint64_t *found = gs_number_map_find(&shape->positions, original);
    uint64_t position = found ? *found : 0, *added = found ? gs_number_map_add(&shape->positions, id) : NULL;
    if (!added)
        return;
    *added = position;
    shape->nodes[position - 1].has_exec_id = !shape->nodes[position - 1].is_nested;
}

void gs_graph_shape_release(gs_graph_shape *shape) {
    if (!shape || atomic_fetch_sub(&shape->references, 1) > 1)
        return;
    gs_number_map_clear(&shape->positions);
    free(shape->nodes);
    free(shape->after);
    free(shape);
}
