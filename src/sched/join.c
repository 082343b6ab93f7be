/*
 * join.c: what comes when a node of a CUDA graph has ended, and in which order.
 *
 * Each node that waits for nothing begins a tree. A node that waits for others is in the tree of its parents, the
 * latest of them if there are several. If its parents are in different trees, it is a join. The end of a parent of a
 * join is signaled by a block, `graph_join` in the description of a GPU, which is on an SM for a moment: it is placed
 * and numbered like the only block of a launch. The join itself comes when that block has ended.
 *
 * The other children of the node come one after the other, in the order of the graph: the last two at the same time, so
 * that the more urgent one is first. With a block there are three at the end: the block, one of the last two children,
 * its partner, and then the other one. The partner is the last child, if a join is before both in the order of the
 * graph, otherwise the last but one. It goes before the block, with one exception: the block goes first if a join is
 * before the last child, if the host has launched nothing since the graph, and if the partner is not very urgent.
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

/* The two children that come last; NO_LAUNCH: there is none. */
struct last {
    size_t children[2]; /* the first goes first, if the second is not more urgent */
    size_t early;       /* this one goes before the block */
};

/* Whether the host has launched nothing since the graph of this node. */
static bool is_fresh(const gs_engine *engine, size_t node) {
    size_t past = node + 1;
    while (past < engine->launched && is_in_same_graph(engine->run, node, past))
        past++;
    return past == engine->launched;
}

static struct last find_last(const gs_engine *engine, size_t ended) {
    enum { SIGNAL_URGENCY = 4 };
    struct last last = {{NO_LAUNCH, NO_LAUNCH}, NO_LAUNCH};
    size_t at = engine->readiness.first[ended], child, joins = 0, before[2] = {0, 0};
    while ((child = next_child(engine, ended, &at)) != NO_LAUNCH) {
        if (is_join(engine, child)) {
            joins++;
            continue;
        }
        last.children[0] = last.children[1];
        last.children[1] = child;
        before[0] = before[1];
        before[1] = joins;
    }
    if (!joins || last.children[0] == NO_LAUNCH)
        return last;
    if (before[0])
        last = (struct last){{last.children[1], last.children[0]}, NO_LAUNCH};
    if (!before[1] || !is_fresh(engine, ended) ||
        abs(engine->run->launches.data[last.children[0]].priority) > SIGNAL_URGENCY)
        last.early = last.children[0];
    return last;
}

static gs_join_phase phase_of(const gs_engine *engine, size_t launch, const struct last *last) {
    if (is_join(engine, launch))
        return GS_JOIN_AFTER;
    bool is_beside = launch == last->children[0] || launch == last->children[1];
    return is_beside && launch != last->early ? GS_JOIN_BESIDE : GS_JOIN_FIRST;
}

/* Whether one launch of a phase comes before another. Joins that are ready at the same time come in the opposite order
   of the graph. */
static bool comes_before(const gs_engine *engine, size_t one, size_t other, gs_join_phase phase,
                         const struct last *last) {
    int first = abs(engine->run->launches.data[one].priority), second = abs(engine->run->launches.data[other].priority);
    if (phase != GS_JOIN_FIRST && first != second)
        return first > second;
    if (phase == GS_JOIN_BESIDE)
        return one == last->children[0];
    return phase == GS_JOIN_AFTER ? one > other : one < other;
}

size_t gs_join_take(const gs_engine *engine, struct ready_list *list, size_t ended, gs_join_phase phase) {
    struct last last = find_last(engine, ended);
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < list->count; i++)
        if (phase_of(engine, list->data[i], &last) == phase &&
            (found == SIZE_MAX || comes_before(engine, list->data[i], list->data[found], phase, &last)))
            found = i;
    if (found == SIZE_MAX)
        return NO_LAUNCH;
    size_t launch = list->data[found];
    list->data[found] = list->data[--list->count];
    return launch;
}
