/*
 * test_graph_shape.c: the recorder reads the dependencies of CUDA graphs correctly, for random graphs.
 *
 * A random graph has kernels, copies, nodes that run nothing, and nodes that are graphs themselves. The test compares,
 * for each node that runs something, the set of nodes that must end before it: by following the edges of the graph, and
 * by following what the recorder read. GRIDSMITH_SEED repeats the graphs.
 */
#include "test.h"

#include "base/base.h"
#include "lab/record/recorder.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 10, MOST_WORKING = 64, KERNEL = 0, MEMSET = 2, CHILD = 4, EMPTY = 5 };

struct graph;

struct node {
    uint64_t id;
    int type;
    struct graph *child;
    bool waits[MOST_NODES]; /* for earlier nodes of the graph */
    uint64_t before;        /* the working nodes that must end before it, a bit each */
    uint64_t through;       /* the same, for what waits for it */
};

struct graph {
    struct node nodes[MOST_NODES];
    int count;
};

/* ---- the functions of the driver ---- */

static int list_nodes(void *graph, void **nodes, size_t *count) {
    struct graph *from = graph;
    for (int i = 0; i < from->count && nodes; i++)
        nodes[i] = &from->nodes[from->count - 1 - i]; /* in any order */
    *count = (size_t)from->count;
    return 0;
}

static int list_edges(void *graph, void **from, void **to, size_t *count) {
    struct graph *of = graph;
    *count = 0;
    for (int i = 0; i < of->count; i++)
        for (int k = 0; k < i; k++)
            if (of->nodes[i].waits[k]) {
                if (from) {
                    from[*count] = &of->nodes[k];
                    to[*count] = &of->nodes[i];
                }
                ++*count;
            }
    return 0;
}

static int node_type(void *node, int *type) {
    *type = ((const struct node *)node)->type;
    return 0;
}

static int node_child(void *node, void **graph) {
    *graph = ((const struct node *)node)->child;
    return 0;
}

static int node_id(void *node, uint64_t *id) {
    *id = ((const struct node *)node)->id;
    return 0;
}

static const gs_graph_reader reader = {
    .nodes = list_nodes, .edges_plain = list_edges, .node_type = node_type, .child = node_child, .node_id = node_id};

/* ---- random graphs ---- */

static struct graph *random_graph(gs_random *random, int depth, uint64_t *next_id) {
    static const int types[] = {KERNEL, KERNEL, MEMSET, EMPTY, CHILD};
    struct graph *made = calloc(1, sizeof *made);
    made->count = (int)gs_random_from(random, depth ? 0 : 1, depth ? 3 : MOST_NODES);
    for (int i = 0; i < made->count; i++) {
        struct node *node = &made->nodes[i];
        node->type = types[gs_random_from(random, 0, depth < 2 ? 4 : 3)];
        node->id = ++*next_id;
        if (node->type == CHILD)
            node->child = random_graph(random, depth + 1, next_id);
        for (int k = 0; k < i; k++)
            node->waits[k] = gs_random_chance(random, 30);
    }
    return made;
}

static void free_graph(struct graph *graph) {
    for (int i = 0; i < graph->count; i++)
        if (graph->nodes[i].child)
            free_graph(graph->nodes[i].child);
    free(graph);
}

/* Follows the edges. `sets` gets, by id, the nodes that must end before a working node. Returns the nodes that must end
   before an operation that waits for the whole graph. */
static uint64_t follow(struct graph *graph, uint64_t before, uint64_t *sets) {
    uint64_t whole = before;
    for (int i = 0; i < graph->count; i++) {
        struct node *node = &graph->nodes[i];
        node->before = before;
        for (int k = 0; k < i; k++)
            node->before |= node->waits[k] ? graph->nodes[k].through : 0;
        node->through = node->before;
        if (node->type == CHILD) {
            node->through |= follow(node->child, node->before, sets);
        } else if (node->type != EMPTY) {
            sets[node->id] = node->before;
            node->through |= (uint64_t)1 << node->id;
        }
        whole |= node->through;
    }
    return whole;
}

static void check_shape(const gs_graph_shape *shape, const uint64_t *wanted, uint64_t whole, uint64_t index) {
    uint64_t found[MOST_WORKING] = {0}, last = 0;
    for (uint32_t i = 0; i < shape->count; i++) {
        const gs_shape_node *node = &shape->nodes[i];
        for (uint32_t k = 0; k < node->after_count; k++) {
            uint32_t after = shape->after[node->after + k] >> GS_SHAPE_WHEN_BITS;
            assert_true(after < i);
            found[node->id] |= found[shape->nodes[after].id] | (uint64_t)1 << shape->nodes[after].id;
        }
        if (found[node->id] != wanted[node->id])
            fail_msg("graph %llu: node %llu waits for other nodes", (unsigned long long)index,
                     (unsigned long long)node->id);
        if (node->is_last)
            last |= found[node->id] | (uint64_t)1 << node->id;
    }
    assert_true(last == whole);
}

TEST(nodes_wait_for_what_the_graph_says) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), runs = test_number("GRIDSMITH_RUNS", 100000) / 5, tried = 0;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        uint64_t sets[MOST_WORKING] = {0}, next_id = 0;
        struct graph *graph = random_graph(&random, 0, &next_id);
        if (next_id < MOST_WORKING) {
            uint64_t whole = follow(graph, 0, sets);
            gs_graph_shape *shape = gs_graph_shape_read(&reader, graph);
            assert_non_null(shape);
            check_shape(shape, sets, whole, i);
            gs_graph_shape_release(shape);
            tried++;
        }
        free_graph(graph);
    }
    assert_true(tried > runs / 2);
}

static int refuse(void *graph, void **nodes, size_t *count) {
    (void)graph, (void)nodes, (void)count;
    return 1;
}

TEST(a_graph_that_cannot_be_read_has_no_shape) {
    gs_graph_reader refusing = reader;
    struct graph graph = {.count = 1};
    refusing.nodes = refuse;
    assert_null(gs_graph_shape_read(&refusing, &graph));
    refusing.nodes = NULL;
    assert_null(gs_graph_shape_read(&refusing, &graph));
}

TEST_MAIN(NULL, NULL)
