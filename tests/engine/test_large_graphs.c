/*
 * test_large_graphs.c: graphs of 100,000 nodes are played, in time and on a small stack.
 *
 * What becomes ready can start, and so make other nodes ready, which start, and so on. The engine does this in loops,
 * so that the stack does not grow with the number of nodes. Each run here is played in a thread with a stack of 256
 * KiB, on which a recursion of some thousand nodes does not fit.
 */
#include "test.h"

#include "model/engine/engine.h"
#include "random.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 100000, STACK_BYTES = 256 << 10 };

/* A run to play, and the launches in the order in which their blocks started. */
struct large {
    gs_gpu *gpu;
    gs_run *run;
    uint32_t *started; /* launches */
    size_t *events;    /* during which they did */
    size_t count, event;
    gs_code code;
};

static struct large large_new(int64_t connections) {
    struct large large = {.gpu = gs_gpu_open("h200", NULL), .run = gs_run_new(NULL)};
    assert_non_null(large.gpu);
    assert_non_null(large.run);
    large.gpu->limits.kernels_per_gpu = 0; /* no limit */
    large.run->connections = (int32_t)connections;
    large.started = calloc(NODES + 8, sizeof *large.started);
    large.events = calloc(NODES + 8, sizeof *large.events);
    return large;
}

static void large_clear(struct large *large) {
    gs_run_free(large->run);
    gs_gpu_free(large->gpu);
    free(large->started);
    free(large->events);
}

/* Adds a launch of one block, as a node of graph 0 or not; returns its number. */
static uint32_t add_block(gs_run *run, bool is_node, const char *stream) {
    gs_launch launch = numbered_launch((int64_t)run->launches.count);
    gs_launch_facts facts = gs_launch_facts_none();
    facts.graph = 0;
    launch.shape = gs_shape_of(32, 16, 0);
    launch.blocks = 1;
    launch.stream = stream ? strdup(stream) : NULL;
    if (is_node)
        launch.issue.facts = &facts;
    assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    return (uint32_t)run->launches.count - 1;
}

static void add_memset(gs_run *run, uint32_t after, gs_when when) {
    gs_launch_facts facts = gs_launch_facts_none();
    facts.graph = 0;
    gs_copy copy = {.is_memset = true, .bytes = 1 << 20, .issue = gs_issue_none()};
    copy.issue.facts = &facts;
    assert_int_equal(gs_run_add_copy(run, &copy, NULL), GS_OK);
    gs_issue *issue = &run->copies.data[run->copies.count - 1].issue;
    assert_int_equal(gs_run_add_edge(run, issue, (gs_edge){.number = after, .when = (uint8_t)when}, NULL), GS_OK);
}

static void add_edge(gs_run *run, uint32_t launch, uint32_t after, gs_when when) {
    gs_issue *issue = &run->launches.data[launch].issue;
    assert_int_equal(gs_run_add_edge(run, issue, (gs_edge){.number = after, .when = (uint8_t)when}, NULL), GS_OK);
}

/* Exits the launches from one number to another, every `step`th of them. */
static void add_exits(gs_run *run, uint32_t from, uint32_t to, uint32_t step) {
    for (uint32_t i = from; i < to; i += step)
        assert_int_equal(gs_run_add_exit(run, i, NULL), GS_OK);
}

static bool on_started(void *user, size_t launch, int64_t block, int32_t sm, int64_t now_ns) {
    struct large *large = user;
    (void)block, (void)sm, (void)now_ns;
    large->started[large->count] = (uint32_t)launch;
    large->events[large->count++] = large->event;
    return true;
}

static void *play_large(void *user) {
    struct large *large = user;
    gs_engine *engine =
        gs_engine_new(large->gpu, large->run, &(gs_engine_hooks){.user = large, .started = on_started}, NULL);
    large->code = engine ? GS_OK : GS_E_MEMORY;
    for (; large->event < large->run->events.count && large->code == GS_OK; large->event++) {
        const gs_event *event = &large->run->events.data[large->event];
        large->code = event->op == GS_LAUNCH ? gs_engine_launch(engine, event->launch, NULL)
                                             : gs_engine_exit(engine, event->launch, NULL);
    }
    if (large->code == GS_OK)
        large->code = gs_engine_finish(engine, NULL);
    gs_engine_free(engine);
    return NULL;
}

static void play_on_small_stack(struct large *large) {
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, play_large, large), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    assert_int_equal(large->code, GS_OK);
    assert_int_equal(large->count, large->run->launches.count);
}

/* The launches that started during an event of the run. */
static size_t count_during(const struct large *large, size_t event) {
    size_t count = 0;
    for (size_t i = 0; i < large->count; i++)
        count += large->events[i] == event;
    return count;
}

static size_t capacity(const gs_gpu *gpu) {
    return (size_t)gpu->sms * (size_t)gpu->limits.blocks_per_sm;
}

/* Node i + 1 and a memset wait for the start of node i. When node 0 may start, a chain of nodes does. */
TEST(a_chain_of_starts) {
    struct large large = large_new(0);
    uint32_t root = add_block(large.run, true, NULL), before = root;
    for (uint32_t i = 1; i < NODES; i++) {
        gs_when when = before == root ? GS_AT_END : GS_AT_START;
        uint32_t node = add_block(large.run, true, NULL);
        add_edge(large.run, node, before, when);
        add_memset(large.run, before, when);
        before = node;
    }
    size_t exits = large.run->events.count;
    add_exits(large.run, 0, NODES, 1);
    play_on_small_stack(&large);
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(large.started[i], i);
    assert_int_equal(large.events[0], 0);
    assert_int_equal(count_during(&large, exits), capacity(large.gpu));
    for (size_t i = 0; i + 1 + capacity(large.gpu) < NODES; i++)
        assert_int_equal(large.events[i + 1 + capacity(large.gpu)], exits + 1 + i);
    large_clear(&large);
}

/* The root exits, then every second of the nodes, from the last one on: so many children come in the opposite order of
   the graph. */
static void add_exits_of_fan(gs_run *run, uint32_t root) {
    add_exits(run, root, root + 1, 1);
    for (uint32_t i = NODES - 2 + root; i > 1; i -= 2)
        add_exits(run, i, i + 1, 1);
}

/* Two roots with 50,000 children each, and a node that waits for all of them. */
TEST(a_fan_and_its_join) {
    struct large large = large_new(0);
    add_block(large.run, true, NULL);
    add_block(large.run, true, NULL);
    for (uint32_t i = 2; i < NODES; i++)
        add_edge(large.run, add_block(large.run, true, NULL), i % 2, GS_AT_END);
    uint32_t join = add_block(large.run, true, NULL);
    for (uint32_t i = 2; i < NODES; i++)
        add_edge(large.run, join, i, GS_AT_END);
    size_t exits = large.run->events.count;
    add_exits_of_fan(large.run, 0);
    add_exits_of_fan(large.run, 1);
    add_exits(large.run, join, join + 1, 1);
    play_on_small_stack(&large);
    assert_int_equal(count_during(&large, exits), capacity(large.gpu) - 1);
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(large.started[i], i < 2 ? i : i < NODES / 2 + 1 ? NODES + 2 - 2 * i : 2 * NODES + 1 - 2 * i);
    assert_int_equal(large.started[join], join);
    large_clear(&large);
}

/* All launches wait in one connection behind one that waits for its stream. */
TEST(a_connection) {
    struct large large = large_new(1);
    add_block(large.run, false, "stream");
    add_block(large.run, false, "stream");
    for (uint32_t i = 2; i < NODES; i++)
        add_block(large.run, false, NULL);
    add_exits(large.run, 0, NODES, 1);
    play_on_small_stack(&large);
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(large.started[i], i);
    assert_int_equal(count_during(&large, NODES), capacity(large.gpu));
    large_clear(&large);
}

TEST_MAIN(NULL, NULL)
