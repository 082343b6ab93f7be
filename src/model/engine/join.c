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
        if (!are_near(engine, operation, parent) || engine->nodes[parent].place >= place)
            continue;
        size_t other = engine->nodes[parent].tree;
        tree = tree == NO_LAUNCH || other > tree ? other : tree;
    }
    return tree == NO_LAUNCH ? place : tree;
}

/* Nodes have places in the order in which they are issued. */
static void find_trees(gs_engine *engine) {
    const gs_run *run = engine->run;
    size_t launches = run->launches.count, copy = 0, place = 0;
    for (size_t i = 0; i < launches + run->copies.count; i++)
        engine->nodes[i].place = SIZE_MAX;
    for (size_t i = 0; i <= launches; i++) {
        for (; copy < run->copies.count && (i == launches || run->copies.data[copy].before <= i); copy++, place++)
            engine->nodes[launches + copy] = (struct node){place, tree_of(engine, launches + copy, place)};
        if (i < launches) {
            engine->nodes[i] = (struct node){place, tree_of(engine, i, place)};
            place++;
        }
    }
}

bool gs_join_init(gs_engine *engine) {
    const gs_join *join = &gs_dispatcher_state(engine->dispatcher)->gpu->join;
    gs_shape shape = gs_shape_of(join->threads, join->registers, GS_BARE);
    if (engine->hooks.endless || !has_graphs(engine->run))
        return true;
    engine->has_joins = join->threads && engine->run->edges.count;
    engine->join_kernel = join->threads ? gs_dispatcher_kernel(engine->dispatcher, &shape, NULL) : 0;
    engine->nodes = calloc(engine->run->launches.count + engine->run->copies.count + 1, sizeof *engine->nodes);
    if (engine->nodes)
        find_trees(engine);
    return engine->nodes && engine->join_kernel >= 0;
}

bool gs_join_orders(const gs_engine *engine, size_t operation) {
    return engine->has_joins && are_near(engine, operation, operation) && takes_sms(engine, operation) &&
           (operation >= engine->run->launches.count || !gs_engine_duration(engine, operation));
}

/* Whether the parents of a node are in different trees. */
static bool is_join(const gs_engine *engine, size_t operation) {
    const gs_run *run = engine->run;
    const gs_issue *issue = gs_run_issue(run, operation);
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        size_t parent = gs_run_operation(run, &run->edges.data[i]);
        if (are_near(engine, operation, parent) && engine->nodes[parent].tree != engine->nodes[operation].tree)
            return true;
    }
    return false;
}

/* Whether the ends of the parents of a node are signaled by blocks. */
static bool is_signaled(const gs_engine *engine, size_t operation) {
    const gs_run *run = engine->run;
    const gs_issue *issue = gs_run_issue(run, operation);
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        size_t parent = gs_run_operation(run, &run->edges.data[i]);
        if (are_near(engine, operation, parent) && !takes_sms(engine, parent))
            return false;
    }
    return is_join(engine, operation);
}

/* The child of a node that takes SMs and has the lowest place from `*from` on. */
static size_t next_child(const gs_engine *engine, size_t operation, size_t *from) {
    const struct readiness *readiness = &engine->readiness;
    size_t child = NO_LAUNCH, least = SIZE_MAX;
    for (size_t i = readiness->first[operation]; i < readiness->first[operation + 1]; i++) {
        const struct dependent *dependent = &readiness->dependents[i];
        size_t place = engine->nodes[dependent->operation].place;
        if (dependent->at_end && place >= *from && place < least && are_near(engine, operation, dependent->operation) &&
            takes_sms(engine, dependent->operation)) {
            child = dependent->operation;
            least = place;
        }
    }
    *from = child == NO_LAUNCH ? *from : least + 1;
    return child;
}

bool gs_join_is_due(const gs_engine *engine, size_t operation) {
    size_t from = 0, child;
    while ((child = next_child(engine, operation, &from)) != NO_LAUNCH)
        if (is_signaled(engine, child))
            return true;
    return false;
}

/* The two children that come last; NO_LAUNCH: there is none. */
struct last {
    size_t children[2]; /* the first goes first, if the second is not more urgent */
    size_t partner;     /* this one goes before the block */
};

static struct last find_last(const gs_engine *engine, size_t ended) {
    struct last last = {{NO_LAUNCH, NO_LAUNCH}, NO_LAUNCH};
    size_t from = 0, child, joins = 0, before[2] = {0, 0};
    while ((child = next_child(engine, ended, &from)) != NO_LAUNCH) {
        if (is_join(engine, child)) {
            joins += is_signaled(engine, child);
            continue;
        }
        last.children[0] = last.children[1];
        last.children[1] = child;
        before[0] = before[1];
        before[1] = joins;
    }
    if (joins && last.children[0] != NO_LAUNCH)
        last.partner = last.children[before[0] ? 1 : 0];
    return last;
}

static gs_join_phase phase_of(const gs_engine *engine, size_t operation, size_t ended, const struct last *last) {
    if (is_elsewhere(engine->run, operation, ended))
        return GS_JOIN_BESIDE;
    if (is_join(engine, operation))
        return GS_JOIN_AFTER;
    bool is_beside = operation == last->children[0] || operation == last->children[1];
    return is_beside && operation != last->partner ? GS_JOIN_BESIDE : GS_JOIN_FIRST;
}

static int urgency(const gs_run *run, size_t operation) {
    return operation < run->launches.count ? abs(run->launches.data[operation].priority) : 0;
}

/* Whether one operation of a phase comes before another. Joins that are ready at the same time come in the opposite
   order of the graph. */
static bool comes_before(const gs_engine *engine, size_t one, size_t other, gs_join_phase phase, size_t ended) {
    bool is_last = is_elsewhere(engine->run, one, ended), other_is = is_elsewhere(engine->run, other, ended);
    int first = urgency(engine->run, one), second = urgency(engine->run, other);
    if (is_last != other_is)
        return other_is;
    if (phase != GS_JOIN_FIRST && first != second)
        return first > second;
    bool is_earlier = engine->nodes[one].place < engine->nodes[other].place;
    return phase == GS_JOIN_AFTER ? !is_earlier : is_earlier;
}

size_t gs_join_take(const gs_engine *engine, struct ready_list *list, size_t ended, gs_join_phase phase) {
    struct last last = find_last(engine, ended);
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < list->count; i++)
        if (phase_of(engine, list->data[i], ended, &last) == phase &&
            (found == SIZE_MAX || comes_before(engine, list->data[i], list->data[found], phase, ended)))
            found = i;
    if (found == SIZE_MAX)
        return NO_LAUNCH;
    size_t operation = list->data[found];
    list->data[found] = list->data[--list->count];
    return operation;
}
