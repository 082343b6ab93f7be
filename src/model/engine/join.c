/*
 * join.c: what comes when a node of a CUDA graph has ended, and in which order.
 *
 * A node is a launch, a memset or a copy. Each node that waits for nothing begins a tree. A node that waits for others
 * is in the tree of its parents, the latest of them if there are several. If its parents are in different trees, it is
 * a join. If all of them take SMs (a memset or copy does if it is a kernel of the driver, hidden.c), the join is
 * signaled: the end of each parent is signaled by a block, `graph_join` in the description of a GPU, which is on an SM
 * for a moment. It is placed and numbered like the only block of a launch. Joins come when that block has ended, if
 * there is one, and after the other children.
 *
 * The other children of the node come one after the other, in the order of the graph: the last two at the same time, so
 * that the more urgent one is first. With a block there are three at the end: one of the last two children, its
 * partner, then the block, and then the other one. The partner is the last child, if a signaled join is before both in
 * the order of the graph, otherwise the last but one. A single child comes after the block.
 *
 * All this holds for nodes of one green context. A child in another context comes last, while the block is there, and
 * makes no tree and no join.
 */
#include "engine_state.h"

#include <stdlib.h>
#include <string.h>

/* Whether one operation is a node in the graph of the other, but in another green context. */
static bool is_elsewhere(const gs_run *run, size_t one, size_t other) {
    const gs_issue *first = gs_run_issue(run, one), *second = gs_run_issue(run, other);
    return gs_issue_is_beside(first, second) && first->facts->green_context != second->facts->green_context;
}

/* Whether two operations are nodes of one graph and one green context. */
static bool are_near(const gs_engine *engine, size_t one, size_t other) {
    const gs_run *run = engine->run;
    return gs_issue_is_beside(gs_run_issue(run, one), gs_run_issue(run, other)) && !is_elsewhere(run, one, other);
}

static bool takes_sms(const gs_engine *engine, size_t operation) {
    return operation < engine->run->launches.count || gs_hidden_has_blocks(engine, operation);
}

static bool has_graphs(const gs_run *run) {
    for (size_t i = 0; i < run->launches.count + run->copies.count; i++)
        if (gs_issue_is_node(gs_run_issue(run, i)))
            return true;
    return false;
}

/* The tree of a node that is at this place: parents have lower places than their children. */
static size_t tree_of(const gs_engine *engine, size_t operation, size_t place) {
    const gs_run *run = engine->run;
    const gs_issue *issue = gs_run_issue(run, operation);
    size_t tree = NO_LAUNCH;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        size_t parent = gs_run_operation(run, &run->edges.data[i]);
        if (!are_near(engine, operation, parent) || engine->graph.nodes[parent].place >= place)
            continue;
        size_t other = engine->graph.nodes[parent].tree;
        tree = tree == NO_LAUNCH || other > tree ? other : tree;
    }
    return tree == NO_LAUNCH ? place : tree;
}

/* Nodes have places in the order in which they are issued. */
static void find_trees(gs_engine *engine) {
    const gs_run *run = engine->run;
    size_t launches = run->launches.count, copy = 0, place = 0;
    for (size_t i = 0; i < launches + run->copies.count; i++)
        engine->graph.nodes[i].place = SIZE_MAX;
    for (size_t i = 0; i <= launches; i++) {
        for (; copy < run->copies.count && (i == launches || run->copies.data[copy].before <= i); copy++, place++)
            engine->graph.nodes[launches + copy] =
                (struct node){.place = place, .tree = tree_of(engine, launches + copy, place)};
        if (i < launches) {
            engine->graph.nodes[i] = (struct node){.place = place, .tree = tree_of(engine, i, place)};
            place++;
        }
    }
}

/* Whether the parents of a node are in different trees. */
static bool has_parents_in_trees(const gs_engine *engine, size_t operation) {
    const gs_run *run = engine->run;
    const gs_issue *issue = gs_run_issue(run, operation);
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        size_t parent = gs_run_operation(run, &run->edges.data[i]);
        if (are_near(engine, operation, parent) &&
            engine->graph.nodes[parent].tree != engine->graph.nodes[operation].tree)
            return true;
    }
    return false;
}

/* Whether the ends of the parents of a join are signaled by blocks. */
static bool is_signaled_join(const gs_engine *engine, size_t operation) {
    const gs_run *run = engine->run;
    const gs_issue *issue = gs_run_issue(run, operation);
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        size_t parent = gs_run_operation(run, &run->edges.data[i]);
        if (are_near(engine, operation, parent) && !takes_sms(engine, parent))
            return false;
    }
    return true;
}

static void find_joins(gs_engine *engine) {
    for (size_t i = 0; i < engine->run->launches.count + engine->run->copies.count; i++) {
        engine->graph.nodes[i].is_join = has_parents_in_trees(engine, i);
        engine->graph.nodes[i].is_signaled = engine->graph.nodes[i].is_join && is_signaled_join(engine, i);
    }
}

bool gs_join_init(gs_engine *engine) {
    const gs_join *join = &gs_dispatcher_state(engine->dispatcher)->gpu->join;
    gs_shape shape = gs_shape_of(join->threads, join->registers, GS_BARE);
    if (engine->hooks.endless || !has_graphs(engine->run))
        return true;
    engine->graph.has_joins = join->threads && engine->run->edges.count;
    engine->graph.join_kernel = join->threads ? gs_dispatcher_kernel(engine->dispatcher, &shape, NULL) : 0;
    engine->graph.nodes =
        calloc(engine->run->launches.count + engine->run->copies.count + 1, sizeof *engine->graph.nodes);
    if (engine->graph.nodes) {
        find_trees(engine);
        find_joins(engine);
    }
    return engine->graph.nodes && engine->graph.join_kernel >= 0;
}

bool gs_join_orders(const gs_engine *engine, size_t operation) {
    return engine->graph.has_joins && are_near(engine, operation, operation) && takes_sms(engine, operation) &&
           (operation >= engine->run->launches.count || !gs_engine_duration(engine, operation));
}

/* ---- the children of a node that has ended ---- */

/* The child that is the i-th dependent of all; NO_LAUNCH: that is not a child that takes SMs. */
static size_t child_at(const gs_engine *engine, size_t operation, size_t i) {
    const struct dependent *dependent = &engine->readiness.dependents[i];
    bool is_child = dependent->at_end && are_near(engine, operation, dependent->operation) &&
                    takes_sms(engine, dependent->operation);
    return is_child ? dependent->operation : NO_LAUNCH;
}

bool gs_join_is_due(const gs_engine *engine, size_t operation) {
    const size_t *first = engine->readiness.first;
    for (size_t i = first[operation]; i < first[operation + 1]; i++) {
        size_t child = child_at(engine, operation, i);
        if (child != NO_LAUNCH && engine->graph.nodes[child].is_signaled)
            return true;
    }
    return false;
}

/* The two children that come last; NO_LAUNCH: there is none. */
struct last {
    size_t children[2]; /* the first goes first, if the second is not more urgent */
    size_t partner;     /* this one goes before the block */
};

static bool is_before(const gs_engine *engine, size_t child, size_t other) {
    return other != NO_LAUNCH && engine->graph.nodes[child].place < engine->graph.nodes[other].place;
}

/* Keeps the two last children in the order of the graph. A node can be listed as a child several times. */
static void keep_last(const gs_engine *engine, struct last *last, size_t child) {
    if (child == last->children[0] || child == last->children[1] || is_before(engine, child, last->children[0]))
        return;
    bool is_latest = !is_before(engine, child, last->children[1]);
    last->children[0] = is_latest ? last->children[1] : child;
    last->children[1] = is_latest ? child : last->children[1];
}

static struct last find_last(const gs_engine *engine, size_t ended) {
    const size_t *first = engine->readiness.first;
    struct last last = {{NO_LAUNCH, NO_LAUNCH}, NO_LAUNCH};
    size_t signaled = NO_LAUNCH; /* the first signaled join in the order of the graph */
    for (size_t i = first[ended]; i < first[ended + 1]; i++) {
        size_t child = child_at(engine, ended, i);
        if (child == NO_LAUNCH)
            continue;
        if (!engine->graph.nodes[child].is_join)
            keep_last(engine, &last, child);
        else if (engine->graph.nodes[child].is_signaled &&
                 (signaled == NO_LAUNCH || is_before(engine, child, signaled)))
            signaled = child;
    }
    if (signaled != NO_LAUNCH && last.children[0] != NO_LAUNCH)
        last.partner = last.children[is_before(engine, signaled, last.children[0]) ? 1 : 0];
    return last;
}

static gs_join_phase phase_of(const gs_engine *engine, size_t operation, size_t ended, const struct last *last) {
    if (is_elsewhere(engine->run, operation, ended))
        return GS_JOIN_BESIDE;
    if (engine->graph.nodes[operation].is_join)
        return GS_JOIN_AFTER;
    bool is_beside = operation == last->children[0] || operation == last->children[1];
    return is_beside && operation != last->partner ? GS_JOIN_BESIDE : GS_JOIN_FIRST;
}

/* ---- the order in which they come ---- */

/* An operation that has become ready, with what decides when it comes. */
struct comer {
    gs_join_phase phase;
    bool is_elsewhere; /* in another green context */
    int urgency;
    size_t place, operation;
};

static int urgency_of(const gs_run *run, size_t operation) {
    return operation < run->launches.count ? abs(run->launches.data[operation].priority) : 0;
}

/* Joins that are ready at the same time come in the opposite order of the graph. */
static int compare_comers(const void *first, const void *second) {
    const struct comer *one = first, *other = second;
    if (one->phase != other->phase)
        return one->phase < other->phase ? -1 : 1;
    if (one->is_elsewhere != other->is_elsewhere)
        return other->is_elsewhere ? -1 : 1;
    if (one->phase != GS_JOIN_FIRST && one->urgency != other->urgency)
        return one->urgency > other->urgency ? -1 : 1;
    bool is_earlier = one->place < other->place;
    return is_earlier != (one->phase == GS_JOIN_AFTER) ? -1 : 1;
}

bool gs_join_sort(const gs_engine *engine, struct ready_list *list, size_t ended, size_t ends[GS_JOIN_PHASES]) {
    struct last last = find_last(engine, ended);
    struct comer *comers = malloc((list->count + 1) * sizeof *comers);
    bool done = comers;
    memset(ends, 0, GS_JOIN_PHASES * sizeof *ends);
    for (size_t i = 0; done && i < list->count; i++) {
        size_t operation = list->data[i];
        comers[i] =
            (struct comer){phase_of(engine, operation, ended, &last), is_elsewhere(engine->run, operation, ended),
                           urgency_of(engine->run, operation), engine->graph.nodes[operation].place, operation};
        for (int phase = (int)comers[i].phase; phase < GS_JOIN_PHASES; phase++)
            ends[phase]++;
    }
    if (done && list->count)
        qsort(comers, list->count, sizeof *comers, compare_comers);
    for (size_t i = 0; done && i < list->count; i++)
        list->data[i] = comers[i].operation;
    free(comers);
    return done;
}
