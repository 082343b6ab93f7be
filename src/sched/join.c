/*
 * join.c: what comes when a node of a CUDA graph has ended, and in which order.
 *
 * Each node that waits for nothing begins a tree. A node that waits for others is in the tree of its parents, the
 * latest of them if there are several. If its parents are in different trees, it is a join. The end of a parent of a
 * join is signaled by a block, `graph_join` in the description of a GPU, which is on an SM for a moment: it is placed
 * and numbered like the only block of a launch. The join itself comes when that block has ended.
 *
 * The other children of the node, and the block, come one after the other: the last two at the same time, so that the
 * more urgent one is first, and the others before, in the order of the graph. The block is one of the last two, and
 * goes first. The other one is the child behind the join in the order of the graph, if the join is in the tree of the
 * node, otherwise the last child.
 */
#include "engine.h"

#include <stdlib.h>

static bool is_in_same_graph(const gs_run *run, size_t one, size_t other) {
    const gs_launch_facts *a = run->launches.data[one].issue.facts, *b = run->launches.data[other].issue.facts;
    return a && b && a->graph != GS_NOT_GIVEN && a->graph == b->graph;
}

static bool has_graphs(const gs_run *run) {
    for (size_t i = 0; i < run->launches.count && run->edges.count; i++)
        if (run->launches.data[i].issue.facts && run->launches.data[i].issue.facts->graph != GS_NOT_GIVEN)
            return true;
    return false;
}

/* Parents have lower numbers than their children. */
static size_t tree_of(const gs_engine *engine, size_t launch) {
    const gs_run *run = engine->run;
    const gs_issue *issue = &run->launches.data[launch].issue;
    size_t tree = NO_LAUNCH;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &run->edges.data[i];
        if (edge->is_copy || edge->number >= launch || !is_in_same_graph(run, launch, edge->number))
            continue;
        size_t other = engine->trees[edge->number];
        tree = tree == NO_LAUNCH || other > tree ? other : tree;
    }
    return tree == NO_LAUNCH ? launch : tree;
}

bool gs_join_init(gs_engine *engine) {
    const gs_join *join = &gs_dispatcher_state(engine->dispatcher)->gpu->join;
    gs_shape shape = gs_shape_of(join->threads, join->registers, GS_BARE);
    if (!join->threads || engine->hooks.endless || !has_graphs(engine->run))
        return true;
    engine->join_kernel = gs_dispatcher_kernel(engine->dispatcher, &shape, NULL);
    engine->trees = calloc(engine->run->launches.count + 1, sizeof *engine->trees);
    for (size_t i = 0; engine->trees && i < engine->run->launches.count; i++)
        engine->trees[i] = tree_of(engine, i);
    return engine->trees && engine->join_kernel >= 0;
}

bool gs_join_orders(const gs_engine *engine, size_t launch) {
    return engine->trees && is_in_same_graph(engine->run, launch, launch) && !gs_engine_duration(engine, launch);
}

/* Whether the parents of a node are in different trees. */
static bool is_join(const gs_engine *engine, size_t launch) {
    const gs_run *run = engine->run;
    const gs_issue *issue = &run->launches.data[launch].issue;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &run->edges.data[i];
        if (!edge->is_copy && is_in_same_graph(run, launch, edge->number) &&
            engine->trees[edge->number] != engine->trees[launch])
            return true;
    }
    return false;
}

/* The children of a node, in the order of the graph: the first at or after `*at` in the list of dependents. */
static size_t next_child(const gs_engine *engine, size_t launch, size_t *at) {
    const struct readiness *readiness = &engine->readiness;
    for (; *at < readiness->first[launch + 1]; ++*at) {
        const struct dependent *dependent = &readiness->dependents[*at];
        if (dependent->at_end && dependent->operation < engine->run->launches.count &&
            is_in_same_graph(engine->run, launch, dependent->operation))
            return readiness->dependents[(*at)++].operation;
    }
    return NO_LAUNCH;
}

bool gs_join_is_due(const gs_engine *engine, size_t launch) {
    size_t at = engine->readiness.first[launch], child;
    while ((child = next_child(engine, launch, &at)) != NO_LAUNCH)
        if (is_join(engine, child))
            return true;
    return false;
}

/* The children that come last, at the same time: two, or one beside the block. */
static void find_last(const gs_engine *engine, size_t ended, size_t last[2]) {
    size_t at = engine->readiness.first[ended], child, behind = NO_LAUNCH;
    bool is_due = gs_join_is_due(engine, ended), had_join = false;
    last[0] = last[1] = NO_LAUNCH;
    while ((child = next_child(engine, ended, &at)) != NO_LAUNCH) {
        if (is_join(engine, child)) {
            had_join |= engine->trees[child] == engine->trees[ended];
            continue;
        }
        behind = had_join && behind == NO_LAUNCH ? child : behind;
        last[0] = last[1];
        last[1] = child;
    }
    if (is_due) {
        last[0] = NO_LAUNCH;
        last[1] = behind != NO_LAUNCH ? behind : last[1];
    }
}

static gs_join_phase phase_of(const gs_engine *engine, size_t launch, const size_t last[2]) {
    if (is_join(engine, launch))
        return GS_JOIN_AFTER;
    return launch == last[0] || launch == last[1] ? GS_JOIN_BESIDE : GS_JOIN_FIRST;
}

/* Whether one launch of a phase comes before another. Joins that are ready at the same time come in the opposite order
   of the graph. */
static bool comes_before(const gs_engine *engine, size_t one, size_t other, gs_join_phase phase) {
    int first = abs(engine->run->launches.data[one].priority), second = abs(engine->run->launches.data[other].priority);
    if (phase != GS_JOIN_FIRST && first != second)
        return first > second;
    return phase == GS_JOIN_AFTER ? one > other : one < other;
}

size_t gs_join_take(const gs_engine *engine, struct ready_list *list, size_t ended, gs_join_phase phase) {
    size_t last[2], found = SIZE_MAX;
    find_last(engine, ended, last);
    for (size_t i = 0; i < list->count; i++)
        if (phase_of(engine, list->data[i], last) == phase &&
            (found == SIZE_MAX || comes_before(engine, list->data[i], list->data[found], phase)))
            found = i;
    if (found == SIZE_MAX)
        return NO_LAUNCH;
    size_t launch = list->data[found];
    list->data[found] = list->data[--list->count];
    return launch;
}
