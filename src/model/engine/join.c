/*
 * join.c: what comes when a node of a CUDA graph has ended, and in which order.
 *
 * A node is a launch, a memset or a copy. Each node that waits for nothing begins a tree, and so does each that takes
 * no SMs (a memset or copy takes some if it is a kernel of the driver, hidden.c). Any other node is in the tree of its
 * parents, the latest of them if there are several. If its parents are in different trees, or not all of them take SMs,
 * it is a join. If all of them do, the join is signaled: the end of each parent is signaled by a block, `graph_join` in
 * the description of a GPU, which is on an SM for a moment. It is placed and numbered like the only block of a launch.
 * Joins come when that block has ended, if there is one, and after the other children.
 *
 * The other children of the node come one after the other. Their order is that of the graph after the joins were taken
 * out of the list of all children, from the last join to the first: the last child of the list takes the place of each
 * that is signaled. The last two of the list come at the same time, so that the more urgent one is first. With a block,
 * the last one comes after it.
 *
 * A node with many children (`most_children`, the block counts as one) does not release them itself: its end is
 * signaled by a block, and when that has ended, they come like joins, in the opposite order of the graph.
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
    if (!takes_sms(engine, operation))
        return place;
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
    for (size_t i = 0; i < launches + run->copies.count; i++)
        engine->graph.by_place[engine->graph.nodes[i].place] = i;
}

/* Whether the parents of a node are in different trees, or only some of them take SMs. */
static bool has_unlike_parents(const gs_engine *engine, size_t operation) {
    const gs_run *run = engine->run;
    const gs_issue *issue = gs_run_issue(run, operation);
    size_t first = NO_LAUNCH;
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        size_t parent = gs_run_operation(run, &run->edges.data[i]);
        if (!are_near(engine, operation, parent))
            continue;
        first = first == NO_LAUNCH ? parent : first;
        if (engine->graph.nodes[parent].tree != engine->graph.nodes[operation].tree ||
            takes_sms(engine, parent) != takes_sms(engine, first))
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
        engine->graph.nodes[i].is_join = has_unlike_parents(engine, i);
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
    size_t count = engine->run->launches.count + engine->run->copies.count + 1;
    engine->graph.nodes = calloc(count, sizeof *engine->graph.nodes);
    engine->graph.by_place = calloc(count, sizeof *engine->graph.by_place);
    bool done = engine->graph.nodes && engine->graph.by_place;
    if (done) {
        find_trees(engine);
        find_joins(engine);
    }
    return done && engine->graph.join_kernel >= 0;
}

bool gs_join_orders(const gs_engine *engine, size_t operation) {
    return engine->graph.has_joins && are_near(engine, operation, operation) &&
           (takes_sms(engine, operation) || gs_engine_way(engine, operation) == GS_WAY_OTHER) &&
           (operation >= engine->run->launches.count || !gs_engine_duration(engine, operation));
}

/* ---- the children of a node that has ended ---- */

/* Those that take SMs and are no joins, as they come. */
struct children {
    size_t *data;
    size_t count;
    bool is_signaled; /* by a block */
    bool are_many;    /* they come when the block has ended */
};

static int compare_sizes(const void *first, const void *second) {
    size_t one = *(const size_t *)first, other = *(const size_t *)second;
    return (one > other) - (one < other);
}

/* Lists the places of all children in the order of the graph. A node can be a child several times. */
static void list_places(const gs_engine *engine, size_t ended, struct children *children) {
    const size_t *first = engine->readiness.first;
    size_t count = 0;
    for (size_t i = first[ended]; i < first[ended + 1]; i++) {
        const struct dependent *dependent = &engine->readiness.dependents[i];
        if (dependent->at_end && are_near(engine, ended, dependent->operation) &&
            takes_sms(engine, dependent->operation))
            children->data[count++] = engine->graph.nodes[dependent->operation].place;
    }
    qsort(children->data, count, sizeof *children->data, compare_sizes);
    for (size_t i = 0; i < count; i++)
        if (!i || children->data[i] != children->data[i - 1])
            children->data[children->count++] = children->data[i];
}

/* Takes the child at `i` out of the list. */
static void take_out(struct children *children, size_t i, bool is_signaled) {
    children->count--;
    if (is_signaled)
        children->data[i] = children->data[children->count];
    else
        memmove(children->data + i, children->data + i + 1, (children->count - i) * sizeof *children->data);
}

/* Finds the children, and notes the rank of each in its node. False: out of memory. */
static bool find_children(const gs_engine *engine, size_t ended, struct children *children) {
    const size_t *first = engine->readiness.first;
    struct node *nodes = engine->graph.nodes;
    *children = (struct children){.data = malloc((first[ended + 1] - first[ended] + 1) * sizeof *children->data)};
    if (!children->data)
        return false;
    list_places(engine, ended, children);
    for (size_t i = children->count; i-- > 0;) {
        const struct node *child = &nodes[engine->graph.by_place[children->data[i]]];
        children->is_signaled = children->is_signaled || child->is_signaled;
        if (child->is_join)
            take_out(children, i, child->is_signaled);
    }
    for (size_t i = 0; i < children->count; i++)
        nodes[engine->graph.by_place[children->data[i]]].rank = i;
    int32_t most = gs_dispatcher_state(engine->dispatcher)->gpu->join.most_children;
    children->are_many = most && takes_sms(engine, ended) && children->count + children->is_signaled > (size_t)most;
    children->is_signaled = children->is_signaled || children->are_many;
    return true;
}

/* Whether an operation is one of the children. */
static bool is_child(const gs_engine *engine, const struct children *children, size_t operation) {
    const struct node *node = &engine->graph.nodes[operation];
    return node->rank < children->count && children->data[node->rank] == node->place;
}

static gs_join_phase phase_of(const gs_engine *engine, size_t operation, size_t ended,
                              const struct children *children) {
    if (is_elsewhere(engine->run, operation, ended))
        return GS_JOIN_BESIDE;
    if (engine->graph.nodes[operation].is_join)
        return GS_JOIN_AFTER;
    if (!is_child(engine, children, operation))
        return GS_JOIN_FIRST;
    if (children->are_many)
        return GS_JOIN_AFTER;
    size_t beside = children->is_signaled && gs_engine_way(engine, ended) == GS_WAY_USUAL ? 1 : 2;
    return engine->graph.nodes[operation].rank + beside < children->count ? GS_JOIN_FIRST : GS_JOIN_BESIDE;
}

/* ---- the order in which they come ---- */

/* An operation that has become ready, with what decides when it comes. */
struct comer {
    gs_join_phase phase;
    bool is_elsewhere; /* in another green context */
    int urgency;
    size_t rank, place, operation; /* rank: among the children; those that are none come after them */
    bool is_reversed;              /* those in another green context come in the opposite order */
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
    if (one->phase == GS_JOIN_AFTER)
        return one->place > other->place ? -1 : 1;
    if (one->rank != other->rank)
        return one->rank < other->rank ? -1 : 1;
    if (one->is_elsewhere && one->is_reversed)
        return one->place > other->place ? -1 : 1;
    return one->place < other->place ? -1 : 1;
}

bool gs_join_sort(const gs_engine *engine, struct ready_list *list, size_t ended, gs_comers *order) {
    struct children children;
    struct comer *comers = malloc((list->count + 1) * sizeof *comers);
    bool done = find_children(engine, ended, &children) && comers;
    *order = (gs_comers){.is_signaled = done && children.is_signaled};
    for (size_t i = 0; done && i < list->count; i++) {
        size_t operation = list->data[i];
        const struct node *node = &engine->graph.nodes[operation];
        comers[i] = (struct comer){.phase = phase_of(engine, operation, ended, &children),
                                   .is_elsewhere = is_elsewhere(engine->run, operation, ended),
                                   .urgency = urgency_of(engine->run, operation),
                                   .rank = is_child(engine, &children, operation) ? node->rank : SIZE_MAX,
                                   .place = node->place,
                                   .operation = operation,
                                   .is_reversed = gs_engine_way(engine, ended) != GS_WAY_USUAL};
        for (int phase = (int)comers[i].phase; phase < GS_JOIN_PHASES; phase++)
            order->ends[phase]++;
    }
    if (done && list->count)
        qsort(comers, list->count, sizeof *comers, compare_comers);
    for (size_t i = 0; done && i < list->count; i++)
        list->data[i] = comers[i].operation;
    free(comers);
    free(children.data);
    return done;
}
