/*
 * test_engine_check.c: a damaged engine is found.
 *
 * For each invariant of engine_state.h an engine is played to a moment at which there is something to damage. It is in
 * order; then a field is changed, and gs_engine_check says what is wrong.
 */
#include "test.h"

#include "model/engine/bulk.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

/* An engine in the middle of a run. */
struct midway {
    gs_gpu *gpu;
    gs_run *run;
    gs_engine *engine;
};

static struct midway midway_new(const char *gpu_name) {
    struct midway midway = {.gpu = gs_gpu_open(gpu_name, NULL), .run = gs_run_new(NULL)};
    assert_non_null(midway.gpu);
    assert_non_null(midway.run);
    return midway;
}

static void midway_clear(struct midway *midway) {
    gs_engine_free(midway->engine);
    gs_run_free(midway->run);
    gs_gpu_free(midway->gpu);
}

/* A launch of blocks of 512 threads; three of them fill an SM of an RTX 3090. */
static gs_launch *add_launch(gs_run *run, int64_t blocks, const char *stream, int64_t duration_us) {
    gs_launch launch = numbered_launch((int64_t)run->launches.count);
    launch.shape = gs_shape_of(512, 16, 0);
    launch.blocks = blocks;
    launch.stream = stream ? strdup(stream) : NULL;
    launch.duration_ns = duration_us * 1000;
    assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    return &run->launches.data[run->launches.count - 1];
}

static void add_copy(gs_run *run, gs_copy_kind kind, const char *stream, int64_t duration_us) {
    gs_copy copy = {.kind = (uint8_t)kind, .bytes = 1, .issue = gs_issue_none(), .duration_ns = duration_us * 1000};
    copy.stream = (char *)stream;
    copy.issue.at_ns = 0;
    assert_int_equal(gs_run_add_copy(run, &copy, NULL), GS_OK);
}

static void launch_all(struct midway *midway, const gs_engine_hooks *hooks) {
    midway->engine = gs_engine_new(midway->gpu, midway->run, hooks, NULL);
    assert_non_null(midway->engine);
    for (size_t i = 0; i < midway->run->launches.count; i++)
        assert_int_equal(gs_engine_launch(midway->engine, i, NULL), GS_OK);
}

/* ---- moments ---- */

/* Two SMs. Launches 0, 1 and a third of 2 run; 3, which is urgent, and the rest of 2 wait; 4 waits for 0 in its stream,
   5 depends on 4, and 6 is coming. Copy 0 is under way, copy 1 waits for it, copy 2 has ended. */
static struct midway play_program(void) {
    struct midway midway = midway_new("rtx3090");
    midway.gpu->sms = 2;
    add_copy(midway.run, GS_COPY_HOST_TO_DEVICE, NULL, 100);
    add_copy(midway.run, GS_COPY_HOST_TO_DEVICE, NULL, 100);
    add_copy(midway.run, GS_COPY_DEVICE_TO_DEVICE, "copies", 1);
    add_launch(midway.run, 2, "kernels", 100);
    add_launch(midway.run, 2, NULL, 100)->spread_ns = 10000;
    add_launch(midway.run, 6, NULL, 50);
    add_launch(midway.run, 1, NULL, 50)->priority = -1;
    add_launch(midway.run, 1, "kernels", 50);
    gs_issue *issue = &add_launch(midway.run, 1, NULL, 50)->issue;
    assert_int_equal(gs_run_add_edge(midway.run, issue, (gs_edge){.number = 4}, NULL), GS_OK);
    add_launch(midway.run, 1, "copies", 50)->issue.at_ns = 5000;
    launch_all(&midway, &(gs_engine_hooks){.gaps = {.after_copy_ns = 100000}});
    return midway;
}

/* One kernel at a time: launch 0 runs, 1 is held, and 2 waits for 0 in its stream, behind 1 in the only connection. */
static struct midway play_connection(void) {
    struct midway midway = midway_new("rtx3090");
    midway.gpu->limits.kernels_per_gpu = 1;
    midway.run->connections = 1;
    add_launch(midway.run, 2, "kernels", 0);
    add_launch(midway.run, 2, NULL, 0);
    add_launch(midway.run, 2, "kernels", 0);
    launch_all(&midway, &(gs_engine_hooks){0});
    return midway;
}

/* Launch 0 fills both SMs, and 1 waits. */
static struct midway play_full(void) {
    struct midway midway = midway_new("rtx3090");
    midway.gpu->sms = 2;
    add_launch(midway.run, 6, NULL, 0);
    add_launch(midway.run, 1, NULL, 0);
    launch_all(&midway, &(gs_engine_hooks){0});
    return midway;
}

static void on_repeated(void *user, size_t launch, size_t like, int64_t start_ns, int64_t end_ns) {
    (void)user, (void)launch, (void)like, (void)start_ns, (void)end_ns;
}

/* Launch 0 has ended, and 1 goes alike: it is memoized. */
static struct midway play_memoized(void) {
    struct midway midway = midway_new("rtx3090");
    add_launch(midway.run, 1, NULL, 10)->issue.at_ns = 0;
    add_launch(midway.run, 1, NULL, 10)->issue.at_ns = 1000000;
    launch_all(&midway, &(gs_engine_hooks){.repeated = on_repeated});
    return midway;
}

/* A GPU that numbers blocks by grant. */
static struct midway play_numbered(void) {
    struct midway midway = midway_new("h200");
    add_launch(midway.run, 1, NULL, 0);
    launch_all(&midway, &(gs_engine_hooks){0});
    return midway;
}

/* ---- damage ---- */

static void be_late(gs_engine *engine) {
    engine->clock.now_ns += 1000000000;
}

static void pause_service(gs_engine *engine) {
    engine->clock.resumes_ns = 5;
}

static void swap_endings(gs_engine *engine) {
    struct ending first = engine->endings.data[0];
    engine->endings.data[0] = engine->endings.data[1];
    engine->endings.data[1] = first;
}

static void forget_start(gs_engine *engine) {
    engine->plays[0].started--;
}

static void end_too_many(gs_engine *engine) {
    engine->plays[0].ended = engine->plays[0].started + 1;
}

static void end_less_than_none(gs_engine *engine) {
    engine->plays[0].ended = -1;
}

static void start_too_many(gs_engine *engine) {
    engine->plays[0].started++;
}

static void start_in_stream(gs_engine *engine) {
    engine->plays[4].started = 1;
}

static void start_and_wait(gs_engine *engine) {
    engine->plays[2].started = engine->run->launches.data[2].blocks;
}

static void start_copy(gs_engine *engine) {
    engine->plays[engine->run->launches.count].started = 1;
}

static void end_copy(gs_engine *engine) {
    engine->plays[engine->run->launches.count + 2].ended = 1;
}

static void forget_launch(gs_engine *engine) {
    engine->launched--;
}

static void forget_copy(gs_engine *engine) {
    engine->copies_issued = 0;
}

static void meet_dependency(gs_engine *engine) {
    engine->plays[5].pending = 0;
}

static void forget_to_begin(gs_engine *engine) {
    engine->plays[6].status = IN_STREAM;
}

static void drop_timer(gs_engine *engine) {
    engine->readiness.timers.count--;
}

static void leave_burst(gs_engine *engine) {
    engine->numbering.burst.count = 1;
}

static void cut_stream(gs_engine *engine) {
    engine->plays[0].next_in_stream = NO_LAUNCH;
}

static void move_tail(gs_engine *engine) {
    engine->readiness.streams[engine->plays[4].stream].tail = 0;
}

static void leave_connection(gs_engine *engine) {
    engine->plays[2].connection = -1;
}

static void close_circle(gs_engine *engine) {
    engine->plays[2].next_connected = 1;
}

static void add_kernel(gs_engine *engine) {
    engine->readiness.kernels++;
}

static void take_more_kernels(gs_engine *engine) {
    engine->readiness.most_kernels++;
}

static void drop_held(gs_engine *engine) {
    engine->readiness.held.count = 0;
}

static void free_copy_engine(gs_engine *engine) {
    engine->readiness.copy_engines[0].busy = NO_LAUNCH;
}

static void drop_copy(gs_engine *engine) {
    engine->readiness.copy_engines[0].first = NO_LAUNCH;
}

static void cut_queue(gs_engine *engine) {
    engine->plays[3].after = NO_LAUNCH;
    engine->queue.last = 3;
}

static void cut_queue_back(gs_engine *engine) {
    engine->plays[2].before = NO_LAUNCH;
}

static void reverse_queue(gs_engine *engine) {
    engine->queue.first = 2;
    engine->queue.last = 3;
    engine->plays[2].before = engine->plays[3].after = NO_LAUNCH;
    engine->plays[2].after = 3;
    engine->plays[3].before = 2;
}

static void invent_tail(gs_engine *engine) {
    engine->queue.tails[5] = 2;
}

static void keep_latest(gs_engine *engine) {
    engine->queue.latest = 0;
}

static void lose_block(gs_engine *engine) {
    engine->plays[0].first_running = engine->running[engine->plays[0].first_running].after;
}

static void number_block_wrongly(gs_engine *engine) {
    engine->running[engine->plays[0].first_running].block = 99;
}

static void end_on_sm_only(gs_engine *engine) {
    gs_dispatcher_end(engine->dispatcher, engine->plays[0].first_running);
}

static void end_later(gs_engine *engine) {
    engine->running[engine->endings.data[0].handle].end_ns++;
}

static void forget_last_ending(gs_engine *engine) {
    engine->plays[0].last_ending = -1;
}

static void drop_ending(gs_engine *engine) {
    engine->endings.count--;
}

static void memoize_another(gs_engine *engine) {
    engine->endings.data[0].launch = 0;
}

static void waste_headroom(gs_engine *engine) {
    assert_true(gs_end_block(engine, engine->plays[0].first_running));
}

static void close_sm(gs_engine *engine) {
    engine->sms.closed_count++;
}

static void use_closed_sms(gs_engine *engine) {
    engine->sms.usable_by = 0;
}

static void exclude_turns(gs_engine *engine) {
    engine->numbering.turns.count = 0;
}

/* A launch runs, and one that fills the rest of the GPU waits. */
static struct midway play_bulk(void) {
    struct midway midway = midway_new("h200");
    add_launch(midway.run, 130, "1", 100);
    add_launch(midway.run, 1000, "2", 100)->issue.at_ns = 1000;
    for (size_t i = 0; i < 2; i++)
        midway.run->launches.data[i].shape = gs_shape_of(768, 16, 0);
    launch_all(&midway, &(gs_engine_hooks){0});
    assert_non_null(midway.engine->bulk);
    assert_int_equal(midway.engine->queue.first, 1);
    return midway;
}

static void take_less(gs_engine *engine) {
    engine->plays[1].kernel =
        gs_dispatcher_kernel(engine->dispatcher, &(gs_shape){.threads = 32, .registers = 16}, NULL);
}

static void lose_cohort_block(gs_engine *engine) {
    engine->bulk->lanes.data[0].cohorts.data[0].blocks--;
}

static void lose_lane(gs_engine *engine) {
    engine->plays[0].lane = -1;
}

static void exchange_patterns(gs_engine *engine) {
    for (int32_t i = 0; i < engine->bulk->sms; i++)
        if (engine->bulk->of_sms[i] != engine->bulk->of_sms[0]) {
            engine->bulk->of_sms[i] = engine->bulk->of_sms[0];
            return;
        }
}

static void end_cohort_later(gs_engine *engine) {
    engine->bulk->lanes.data[1].cohorts.data[0].end_ns++;
}

static void count_residents_wrongly(gs_engine *engine) {
    engine->bulk->residents++;
}

static void keep_warm(gs_engine *engine) {
    engine->bulk->warm_count++;
}

static const struct damage {
    const char *invariant;
    struct midway (*play)(void);
    void (*damage)(gs_engine *engine);
} damages[] = {
    {"1: an ending or a timer is in the past", play_program, be_late},
    {"1: there is a pause, but no recording is followed", play_program, pause_service},
    {"2: an element of a heap is before its parent", play_program, swap_endings},
    {"3: the blocks that have started and ended do not fit the status of a launch", play_program, forget_start},
    {"3: the blocks that have started and ended do not fit the status of a launch", play_program, end_too_many},
    {"3: the blocks that have started and ended do not fit the status of a launch", play_program, end_less_than_none},
    {"3: the blocks that have started and ended do not fit the status of a launch", play_program, start_too_many},
    {"3: the blocks that have started and ended do not fit the status of a launch", play_program, start_in_stream},
    {"3: the blocks that have started and ended do not fit the status of a launch", play_program, start_and_wait},
    {"3: the blocks that have started and ended do not fit the status of a launch", play_program, start_copy},
    {"3: the blocks that have started and ended do not fit the status of a launch", play_program, end_copy},
    {"4: an operation was issued before its turn", play_program, forget_launch},
    {"4: an operation was issued before its turn", play_program, forget_copy},
    {"5: the number of dependencies that are not met is wrong", play_program, meet_dependency},
    {"6: an operation waits in its stream for nothing", play_program, forget_to_begin},
    {"7: an operation that is coming has no timer", play_program, drop_timer},
    {"8: a block was placed and has no number", play_program, leave_burst},
    {"9: the list of a stream is damaged", play_program, cut_stream},
    {"9: the list of a stream is damaged", play_program, move_tail},
    {"10: the list of a connection is damaged", play_connection, leave_connection},
    {"10: the list of a connection is damaged", play_connection, close_circle},
    {"11: the number of kernels on the GPU is wrong", play_program, add_kernel},
    {"11: a launch is held, and the GPU takes another kernel", play_connection, take_more_kernels},
    {"11: a launch that is held is not in the list", play_connection, drop_held},
    {"12: a copy waits for a copy engine that is idle", play_program, free_copy_engine},
    {"12: a copy is not in the list of its copy engine", play_program, drop_copy},
    {"13: a launch is not in the queue", play_program, cut_queue},
    {"13: the queue is damaged", play_program, cut_queue_back},
    {"13: the queue is not in order", play_program, reverse_queue},
    {"14: an urgency without launches has a last one", play_program, invent_tail},
    {"14: the launch that was added last has left the queue", play_program, keep_latest},
    {"15: the list of running blocks of a launch is damaged", play_program, lose_block},
    {"15: the list of running blocks of a launch is damaged", play_program, number_block_wrongly},
    {"15: the list of running blocks of a launch is damaged", play_full, end_on_sm_only},
    {"16: an ending is not that of its block", play_program, end_later},
    {"16: the blocks of a launch do not end in their order", play_program, forget_last_ending},
    {"16: a block that runs has no ending", play_program, drop_ending},
    {"17: the ending of a memoized launch is not the first", play_memoized, memoize_another},
    {"18: the first launch of the queue waits, and an SM has headroom", play_full, waste_headroom},
    {"19: the number of closed SMs is wrong", play_program, close_sm},
    {"19: an SM is not usable that is open, or the other way round", play_program, use_closed_sms},
    {"20: no turn is possible", play_numbered, exclude_turns},
    {"18: the first launch of the queue waits, and an SM has headroom", play_bulk, take_less},
    {"21: the lane of a launch is damaged", play_bulk, lose_cohort_block},
    {"21: a launch has running blocks and no lane", play_bulk, lose_lane},
    {"21: the pattern of an SM has other blocks than are there", play_bulk, exchange_patterns},
    {"21: the ending of a cohort is wrong", play_bulk, end_cohort_later},
    {"21: the number of blocks on the SMs is wrong", play_bulk, count_residents_wrongly},
    {"21: the list of idle SMs that keep their configuration is wrong", play_bulk, keep_warm},
};

TEST(damage_is_found) {
    for (size_t i = 0; i < GS_COUNT(damages); i++) {
        struct midway midway = damages[i].play();
        const char *before = gs_engine_check(midway.engine);
        damages[i].damage(midway.engine);
        const char *after = gs_engine_check(midway.engine);
        if (before)
            fail_msg("damage %zu: before it, invariant %s", i, before);
        if (!after || strcmp(after, damages[i].invariant) != 0)
            fail_msg("damage %zu, %s: found as %s", i, damages[i].invariant, after ? after : "nothing");
        midway_clear(&midway);
    }
}

TEST_MAIN(NULL, NULL)
