/*
 * test_host_order.c: the recorder finds the dependencies of launches by CUDA's rules, for random programs.
 *
 * A random program launches kernels and graphs on streams of all kinds, records events and waits for them. The test
 * keeps for each launch the set of all launches that must end before it, by the rules, literally (struct rules). The
 * same set follows from the recorder's answer: the launch before it in its stream, and those that it names, with all
 * that is before them. GRIDSMITH_RUNS programs are tried, GRIDSMITH_SEED repeats them.
 */
#include "test.h"

#include "base/base.h"
#include "lab/record/recorder.h"

#include <stdlib.h>
#include <string.h>

enum { STREAMS = 7, EVENTS = 4, EXECS = 3, MOST = 192, CALLS = 48, WORDS = MOST / 64 };

typedef struct set {
    uint64_t words[WORDS];
} set;

static void set_add(set *to, uint64_t member) {
    to->words[member / 64] |= (uint64_t)1 << member % 64;
}

static void set_join(set *to, const set *from) {
    for (int i = 0; i < WORDS; i++)
        to->words[i] |= from->words[i];
}

/* CUDA's rules. Stream 0 is the default stream, 1 and 2 wait for it, the others do not. */
struct rules {
    set before[STREAMS]; /* what the next launch of a stream waits for */
    set last[STREAMS];   /* the last launch of a stream, and what it waits for */
    set events[EVENTS];
};

static bool is_blocking(int stream) {
    return stream == 1 || stream == 2;
}

static set rules_begin(const struct rules *rules, int stream) {
    set found = rules->before[stream];
    for (int i = 0; i < STREAMS; i++)
        if ((stream == 0 && is_blocking(i)) || (is_blocking(stream) && i == 0))
            set_join(&found, &rules->last[i]);
    return found;
}

static void rules_end(struct rules *rules, int stream, const set *done) {
    rules->before[stream] = *done;
    rules->last[stream] = *done;
}

/* ---- a random program, given to the recorder and to the rules ---- */

struct program {
    gs_random random;
    gs_host_order *order;
    struct rules rules;
    gs_graph_shape *shapes[EXECS];
    set wanted[MOST], found[MOST]; /* of each launch or node, by id */
    uint64_t latest[STREAMS];      /* the id of the latest launch of a stream that is no graph, 0: none */
    uint32_t correlation;
    char handles[STREAMS + EVENTS + EXECS];
};

static const gs_call *call_of(gs_call_kind kind) {
    for (size_t i = 0; i < gs_call_count; i++)
        if (gs_calls[i].kind == kind && gs_calls[i].domain == CUPTI_DRIVER && !gs_calls[i].per_thread)
            return &gs_calls[i];
    return NULL;
}

static gs_host_call make_call(struct program *program, gs_call_kind kind, int stream, int other) {
    static char context[16];
    return (gs_host_call){.call = call_of(kind),
                          .context = context,
                          .stream = stream ? (void *)(uintptr_t)(0x1000 + stream * 16) : NULL,
                          .other = &program->handles[other],
                          .correlation = ++program->correlation};
}

/* A graph: each node waits for some of those before it. */
static gs_graph_shape *random_shape(gs_random *random) {
    gs_graph_shape *shape = calloc(1, sizeof *shape);
    shape->references = 1;
    shape->count = (uint32_t)gs_random_from(random, 1, 4);
    shape->nodes = calloc(shape->count, sizeof *shape->nodes);
    shape->after = calloc(shape->count * shape->count, sizeof *shape->after);
    uint32_t used = 0;
    for (uint32_t i = 0; i < shape->count; i++) {
        shape->nodes[i] = (gs_shape_node){.id = i + 1, .after = used, .is_last = true};
        *gs_number_map_add(&shape->positions, i + 1) = i + 1;
        for (uint32_t k = 0; k < i; k++)
            if (gs_random_from(random, 0, 1)) {
                shape->after[used++] = k << GS_SHAPE_WHEN_BITS;
                shape->nodes[i].after_count++;
                shape->nodes[k].is_last = false;
            }
    }
    for (uint32_t i = 0; i < shape->count; i++)
        shape->last_count += shape->nodes[i].is_last;
    return shape;
}

/* The answer of the recorder for a launch or a node, with its consequences. */
static void note(struct program *program, uint64_t id, const uint64_t *after, uint32_t count, uint64_t before) {
    assert_true(id < MOST);
    for (uint32_t i = 0; i < count; i++) {
        set_join(&program->found[id], &program->found[after[i]]);
        set_add(&program->found[id], after[i]);
    }
    if (before) {
        set_join(&program->found[id], &program->found[before]);
        set_add(&program->found[id], before);
    }
}

static void launch_kernel(struct program *program, int stream) {
    gs_host_call call = make_call(program, GS_CALL_LAUNCH, stream, 0);
    gs_host_launch launch;
    uint64_t id = gs_host_order_call(program->order, &call);
    set done = program->wanted[id] = rules_begin(&program->rules, stream);
    set_add(&done, id);
    rules_end(&program->rules, stream, &done);
    assert_true(gs_host_order_take(program->order, call.correlation, 0, &launch));
    assert_int_equal(launch.id, id);
    note(program, id, launch.after, launch.after_count, program->latest[stream]);
    program->latest[stream] = id;
    gs_host_launch_clear(&launch);
}

static void launch_graph(struct program *program, int stream, int exec) {
    gs_host_call call = make_call(program, GS_CALL_GRAPH, stream, STREAMS + EVENTS + exec);
    const gs_graph_shape *shape = program->shapes[exec];
    uint64_t first = gs_host_order_call(program->order, &call);
    set before = rules_begin(&program->rules, stream), done = before;
    for (uint32_t i = 0; i < shape->count; i++) {
        gs_host_launch launch;
        uint64_t after[4];
        const gs_shape_node *node = &shape->nodes[i];
        program->wanted[first + i] = before;
        for (uint32_t k = 0; k < node->after_count; k++) {
            after[k] = first + (shape->after[node->after + k] >> GS_SHAPE_WHEN_BITS);
            set_join(&program->wanted[first + i], &program->wanted[after[k]]);
            set_add(&program->wanted[first + i], after[k]);
        }
        set_add(&done, first + i);
        assert_true(gs_host_order_take(program->order, call.correlation, i + 1, &launch));
        assert_int_equal(launch.id, first + i);
        note(program, first + i, node->after_count ? after : launch.after,
             node->after_count ? node->after_count : launch.after_count, 0);
        gs_host_launch_clear(&launch);
    }
    rules_end(&program->rules, stream, &done);
}

static void do_call(struct program *program) {
    int stream = (int)gs_random_from(&program->random, 0, STREAMS - 1);
    int event = (int)gs_random_from(&program->random, 0, EVENTS - 1);
    gs_host_call call;
    switch (gs_random_from(&program->random, 0, 6)) {
    case 0:
    case 1:
        call = make_call(program, GS_CALL_EVENT_RECORD, stream, STREAMS + event);
        gs_host_order_call(program->order, &call);
        program->rules.events[event] = program->rules.before[stream];
        break;
    case 2:
    case 3:
        call = make_call(program, GS_CALL_EVENT_WAIT, stream, STREAMS + event);
        gs_host_order_call(program->order, &call);
        set_join(&program->rules.before[stream], &program->rules.events[event]);
        break;
    case 4:
        launch_graph(program, stream, (int)gs_random_from(&program->random, 0, EXECS - 1));
        break;
    default:
        launch_kernel(program, stream);
    }
}

static struct program *new_program(uint64_t seed, uint64_t index) {
    struct program *program = calloc(1, sizeof *program);
    program->random = gs_random_at(seed, index);
    program->order = gs_host_order_new();
    static char context[16];
    (void)context;
    for (int i = 1; i < STREAMS; i++) {
        gs_host_call call = make_call(program, GS_CALL_EVENT_WAIT, i, STREAMS);
        gs_host_order_stream_new(program->order, call.context, call.stream, is_blocking(i), 0);
    }
    for (int i = 0; i < EXECS; i++) {
        program->shapes[i] = random_shape(&program->random);
        program->shapes[i]->references++;
        gs_host_order_exec(program->order, &program->handles[STREAMS + EVENTS + i], program->shapes[i]);
    }
    return program;
}

static void free_program(struct program *program) {
    gs_host_order_free(program->order);
    for (int i = 0; i < EXECS; i++)
        gs_graph_shape_release(program->shapes[i]);
    free(program);
}

TEST(launches_wait_for_what_cuda_says) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), runs = test_number("GRIDSMITH_RUNS", 100000) / 10;
    for (uint64_t i = 0; i < runs; i++) {
        struct program *program = new_program(seed, i);
        for (int k = 0; k < CALLS; k++)
            do_call(program);
        for (int id = 0; id < MOST; id++)
            if (memcmp(&program->wanted[id], &program->found[id], sizeof(set)) != 0)
                fail_msg("launch %d waits for something else: GRIDSMITH_SEED=%llu, program %llu", id,
                         (unsigned long long)seed, (unsigned long long)i);
        free_program(program);
    }
}

/* ---- single rules ---- */

TEST(captured_calls_launch_nothing) {
    struct program *program = new_program(1, 0);
    gs_host_call begin = make_call(program, GS_CALL_BEGIN_CAPTURE, 3, STREAMS),
                 launch = make_call(program, GS_CALL_LAUNCH, 3, 0), other = make_call(program, GS_CALL_LAUNCH, 4, 0),
                 record = make_call(program, GS_CALL_EVENT_RECORD, 3, STREAMS),
                 wait = make_call(program, GS_CALL_EVENT_WAIT, 4, STREAMS),
                 end = make_call(program, GS_CALL_END_CAPTURE, 3, STREAMS);
    gs_host_order_call(program->order, &begin);
    assert_int_equal(gs_host_order_call(program->order, &launch), 0);
    assert_int_not_equal(gs_host_order_call(program->order, &other), 0);
    gs_host_order_call(program->order, &record);
    gs_host_order_call(program->order, &wait);
    other.correlation++;
    assert_int_equal(gs_host_order_call(program->order, &other), 0);
    gs_host_order_call(program->order, &end);
    assert_int_not_equal(gs_host_order_call(program->order, &launch), 0);
    other.correlation++;
    assert_int_not_equal(gs_host_order_call(program->order, &other), 0);
    free_program(program);
}

TEST(nothing_waits_for_a_launch_that_failed) {
    struct program *program = new_program(1, 0);
    gs_host_call launch = make_call(program, GS_CALL_LAUNCH, 3, 0),
                 record = make_call(program, GS_CALL_EVENT_RECORD, 3, STREAMS),
                 wait = make_call(program, GS_CALL_EVENT_WAIT, 4, STREAMS),
                 next = make_call(program, GS_CALL_LAUNCH, 4, 0);
    gs_host_launch taken;
    gs_host_order_call(program->order, &launch);
    gs_host_order_failed(program->order, launch.correlation);
    gs_host_order_call(program->order, &record);
    gs_host_order_call(program->order, &wait);
    gs_host_order_call(program->order, &next);
    assert_false(gs_host_order_take(program->order, launch.correlation, 0, &taken));
    assert_true(gs_host_order_take(program->order, next.correlation, 0, &taken));
    assert_int_equal(taken.after_count, 0);
    gs_host_launch_clear(&taken);
    free_program(program);
}

/* A new event may have the handle of a destroyed one. */
TEST(an_event_that_is_gone_stands_for_nothing) {
    struct program *program = new_program(1, 0);
    gs_host_call launch = make_call(program, GS_CALL_LAUNCH, 3, 0),
                 record = make_call(program, GS_CALL_EVENT_RECORD, 3, STREAMS),
                 gone = make_call(program, GS_CALL_EVENT_FREE, 3, STREAMS),
                 wait = make_call(program, GS_CALL_EVENT_WAIT, 4, STREAMS),
                 next = make_call(program, GS_CALL_LAUNCH, 4, 0);
    gs_host_launch taken;
    gs_host_order_call(program->order, &launch);
    gs_host_order_call(program->order, &record);
    gs_host_order_call(program->order, &gone);
    gs_host_order_call(program->order, &wait);
    gs_host_order_call(program->order, &next);
    assert_true(gs_host_order_take(program->order, next.correlation, 0, &taken));
    assert_int_equal(taken.after_count, 0);
    gs_host_launch_clear(&taken);
    free_program(program);
}

/* Copies of no bytes have no record. */
TEST(launches_without_a_record_do_not_fill_the_memory) {
    enum { WAITING = 1 << 21, MORE = 1000 };
    if (test_is_brief())
        skip(); /* so many launches take seconds with a sanitizer */
    struct program *program = new_program(1, 0);
    gs_host_call call = make_call(program, GS_CALL_LAUNCH, 3, 0);
    gs_host_launch taken;
    for (int i = 0; i < WAITING + MORE; i++) {
        call.correlation++;
        call.at_ns += i == WAITING ? 20000000000 : 1000; /* a pause */
        assert_int_not_equal(gs_host_order_call(program->order, &call), 0);
    }
    assert_int_equal(gs_host_order_waiting(program->order), WAITING + MORE); /* with those that are forgotten */
    assert_true(gs_host_order_take(program->order, call.correlation, 0, &taken));
    assert_int_equal(taken.id, WAITING + MORE);
    gs_host_launch_clear(&taken);
    assert_false(gs_host_order_take(program->order, call.correlation - MORE - 10, 0, &taken));
    free_program(program);
}

TEST(numbers_are_found_until_they_are_removed) {
    gs_random random = gs_random_at(7, 0);
    gs_number_map map = {0};
    uint64_t values[512] = {0};
    for (int i = 0; i < 200000; i++) {
        uint64_t key = (uint64_t)gs_random_from(&random, 1, 511), *found = gs_number_map_find(&map, key);
        assert_int_equal(found ? *found : 0, values[key]);
        if (gs_random_from(&random, 0, 1)) {
            values[key] = (uint64_t)i + 1;
            *gs_number_map_add(&map, key) = values[key];
        } else {
            values[key] = 0;
            gs_number_map_remove(&map, key);
        }
    }
    gs_number_map_clear(&map);
}

TEST_MAIN(NULL, NULL)
