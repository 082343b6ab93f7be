/*
 * gate_parts.c: the nodes of a graph, with numbers, and edges between them. See gate_parts.h.
 */
#include "gate_parts.h"

#include "gate.h"

#include <stdlib.h>
#include <string.h>

enum { MEM_ALLOC_NODE = 10, MEM_FREE_NODE = 11, CONDITIONAL_NODE = 13 };

static bool has_calls(void) {
    return gs_gate_real.cuGraphGetNodes && gs_gate_real.cuGraphNodeGetType && gs_gate_real.cuGraphGetEdges_v2 &&
           gs_gate_real.cuGraphAddDependencies_v2 && gs_gate_real.cuGraphRemoveDependencies_v2;
}

/* ---- memory ---- */

static bool make_parts(gs_gate_parts *parts) {
    parts->heads = calloc(parts->count + 1, sizeof *parts->heads);
    parts->tails = calloc(parts->count + 1, sizeof *parts->tails);
    parts->first = calloc(parts->count + 2, sizeof *parts->first);
    parts->from = calloc(parts->edges + 1, sizeof *parts->from);
    parts->to = calloc(parts->edges + 1, sizeof *parts->to);
    return parts->heads && parts->tails && parts->first && parts->from && parts->to;
}

void gs_gate_parts_free(gs_gate_parts *parts) {
    free(parts->heads);
    free(parts->tails);
    free(parts->first);
    free(parts->from);
    free(parts->to);
    *parts = (gs_gate_parts){0};
}

/* ---- reading ---- */

static int by_address(const void *a, const void *b) {
    uintptr_t left = (uintptr_t) * (void *const *)a, right = (uintptr_t) * (void *const *)b;
    return (left > right) - (left < right);
}

/* Nodes are numbered by their addresses. */
static uint32_t number_of(const gs_gate_parts *parts, void *node) {
    void **found = bsearch(&node, parts->heads, parts->count, sizeof *parts->heads, by_address);
    return found ? (uint32_t)(found - parts->heads) : UINT32_MAX;
}

/* False: an edge is not between nodes of the graph. */
static bool sort_edges(gs_gate_parts *parts, void **from, void **to) {
    for (size_t i = 0; i < parts->edges; i++) {
        uint32_t number = number_of(parts, from[i]);
        if (number == UINT32_MAX || number_of(parts, to[i]) == UINT32_MAX)
            return false;
        parts->first[number + 1]++;
    }
    for (size_t i = 0; i < parts->count; i++)
        parts->first[i + 1] += parts->first[i];
    for (size_t i = parts->edges; i-- > 0;) {
        uint32_t number = number_of(parts, from[i]), place = --parts->first[number + 1];
        parts->from[place] = number;
        parts->to[place] = number_of(parts, to[i]);
    }
    memmove(parts->first, parts->first + 1, parts->count * sizeof *parts->first);
    parts->first[parts->count] = (uint32_t)parts->edges;
    return true;
}

/* The driver refuses the query if edges carry more than plain order. */
static bool read_edges(gs_gate_parts *parts, void *graph) {
    void **from = calloc(parts->edges + 1, sizeof *from), **to = calloc(parts->edges + 1, sizeof *to);
    bool is_read = from && to && gs_gate_real.cuGraphGetEdges_v2(graph, from, to, NULL, &parts->edges) == GS_CUDA_OK &&
                   sort_edges(parts, from, to);
    free(from);
    free(to);
    return is_read;
}

static bool can_divide(const gs_gate_parts *parts) {
    for (size_t i = 0; i < parts->count; i++) {
        int type = CONDITIONAL_NODE;
        if (gs_gate_real.cuGraphNodeGetType(parts->heads[i], &type) != GS_CUDA_OK || type == MEM_ALLOC_NODE ||
            type == MEM_FREE_NODE || type >= CONDITIONAL_NODE)
            return false;
    }
    return true;
}

const char *gs_gate_parts_read(gs_gate_parts *parts, void *graph) {
    *parts = (gs_gate_parts){.graph = graph};
    if (!has_calls() || gs_gate_real.cuGraphGetNodes(graph, NULL, &parts->count) != GS_CUDA_OK ||
        gs_gate_real.cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &parts->edges) != GS_CUDA_OK || !make_parts(parts) ||
        gs_gate_real.cuGraphGetNodes(graph, parts->heads, &parts->count) != GS_CUDA_OK)
        return "the driver does not say what is in it";
    qsort(parts->heads, parts->count, sizeof *parts->heads, by_address);
    memcpy(parts->tails, parts->heads, parts->count * sizeof *parts->heads);
    return !read_edges(parts, graph) ? "its edges are more than plain order"
           : can_divide(parts)       ? NULL
                                     : "it has memory or conditional nodes";
}

bool gs_gate_parts_of_clone(gs_gate_parts *parts, const gs_gate_parts *original, void *clone) {
    *parts = (gs_gate_parts){.graph = clone, .count = original->count, .edges = original->edges};
    if (!gs_gate_real.cuGraphNodeFindInClone || !make_parts(parts))
        return false;
    memcpy(parts->first, original->first, (parts->count + 1) * sizeof *parts->first);
    memcpy(parts->from, original->from, parts->edges * sizeof *parts->from);
    memcpy(parts->to, original->to, parts->edges * sizeof *parts->to);
    for (size_t i = 0; i < parts->count; i++) {
        if (gs_gate_real.cuGraphNodeFindInClone(&parts->heads[i], original->heads[i], clone) != GS_CUDA_OK)
            return false;
        parts->tails[i] = parts->heads[i];
    }
    return true;
}

/* ---- changing ---- */

int gs_gate_parts_extend(gs_gate_parts *parts, uint32_t number, void *tail) {
    int code = GS_CUDA_OK;
    for (uint32_t i = parts->first[number]; i < parts->first[number + 1] && code == GS_CUDA_OK; i++) {
        void **to = &parts->heads[parts->to[i]];
        code = gs_gate_real.cuGraphRemoveDependencies_v2(parts->graph, &parts->tails[number], to, NULL, 1);
        if (code == GS_CUDA_OK)
            code = gs_gate_real.cuGraphAddDependencies_v2(parts->graph, &tail, to, NULL, 1);
    }
    parts->tails[number] = tail;
    return code;
}

int gs_gate_parts_replace(gs_gate_parts *parts, uint32_t number, void *head, void *tail) {
    void *replaced = parts->heads[number];
    int code = gs_gate_parts_extend(parts, number, tail);
    parts->heads[number] = head;
    return code == GS_CUDA_OK ? gs_gate_real.cuGraphDestroyNode(replaced) : code;
}

size_t gs_gate_parts_before(const gs_gate_parts *parts, uint32_t number, void **nodes) {
    size_t count = 0;
    for (size_t i = 0; i < parts->edges; i++)
        if (parts->to[i] == number)
            nodes[count++] = parts->tails[parts->from[i]];
    return count;
}
