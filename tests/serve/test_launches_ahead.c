/*
 * test_launches_ahead.c: which launches follow the ones before them without a decision, how far ahead, and which
 * reports are deferred. There is no worker and no client: the test makes the sessions, streams and profiles of the
 * daemon.
 */
#include "test.h"

#include "sharing/serve/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SMS = 132, CLIENTS = 3, BLOCKS = 1000 };

struct scene {
    gs_server server;
    gs_session sessions[CLIENTS], *by_slot[CLIENTS];
    gs_stream *contenders[CLIENTS];
    size_t mine; /* the contender that has the launches */
    gs_resource module;
    gs_action action, next;
};

/* A profile with all measurements, of a kernel that takes `ns`. */
static gs_profile *known_profile(struct scene *scene, uint64_t ns) {
    gs_profile *profile = gs_profile_store_get(scene->server.profiles, 1, "known", BLOCKS);
    gs_profile_ran(profile, false, BLOCKS, ns);
    for (int32_t sms; (sms = gs_profile_wanted(profile, scene->server.plan.granularity)) > 0;)
        gs_profile_rate(profile, sms, BLOCKS, ns * SMS / (uint64_t)sms);
    return profile;
}

/* A scene in which the first client has launches on the GPU. The others are connected, and some of them contend. */
static struct scene *open_scene(uint64_t ns, size_t contenders) {
    static gs_wire_page page;
    struct scene *scene = test_calloc(1, sizeof *scene);
    gs_server *server = &scene->server;
    server->plan = gs_decide_defaults(SMS);
    server->contenders.fairness = (gs_fairness){.sms = SMS, .slice_ns = server->plan.slice_ns};
    server->profiles = gs_profile_store_open(NULL, "fake", SMS, NULL);
    server->sessions.data = scene->by_slot;
    server->sessions.count = CLIENTS;
    server->contenders.data = scene->contenders;
    server->contenders.count = contenders;
    for (size_t i = 0; i < CLIENTS; i++) {
        gs_session *session = scene->by_slot[i] = &scene->sessions[i];
        session->server = server;
        session->page = &page;
        session->options.weight = session->fair.weight = 1;
        session->streams[0].session = session;
        scene->contenders[i] = &session->streams[0];
    }
    scene->action = (gs_action){.command = GS_WIRE_LAUNCH, .resource = &scene->module, .stream = scene->contenders[0]};
    scene->action.launch.profile = known_profile(scene, ns);
    scene->action.launch.blocks = BLOCKS;
    scene->action.launch.how = GS_DECIDE_WHOLE;
    scene->next = scene->action;
    scene->action.next = &scene->next;
    return scene;
}

static void close_scene(struct scene *scene) {
    gs_profile_store_put(scene->server.profiles, scene->action.launch.profile);
    gs_profile_store_close(scene->server.profiles);
    test_free(scene);
}

/* Sends launches to the worker as long as they may follow. Returns how many it has then. */
static uint32_t fill(struct scene *scene) {
    gs_stream *stream = scene->contenders[scene->mine];
    int64_t ns = gs_launch_expected_ns(&scene->action);
    while (gs_launch_may_follow(stream, &scene->action)) {
        stream->launches++;
        stream->ahead_ns += ns;
        assert_true(stream->launches < 10000);
    }
    return stream->launches;
}

/* The same after one launch that a decision started. */
static uint32_t filled(struct scene *scene) {
    gs_stream *stream = scene->contenders[scene->mine];
    stream->launches = 1;
    stream->ahead_ns = gs_launch_expected_ns(&scene->action);
    return fill(scene);
}

static void end_some(struct scene *scene, uint32_t count) {
    gs_stream *stream = scene->contenders[scene->mine];
    stream->launches -= count;
    stream->ahead_ns -= count * gs_launch_expected_ns(&scene->action);
}

TEST(alone_launches_go_8_ms_ahead) {
    struct scene *scene = open_scene(300000, 1);
    assert_int_equal(filled(scene), 26);
    end_some(scene, 5); /* 6.3 ms are left */
    assert_int_equal(fill(scene), 21);
    end_some(scene, 2); /* 5.7 ms: few enough to send more */
    assert_int_equal(fill(scene), 26);
    scene->contenders[0]->launches = 0; /* the first launch needs a decision */
    assert_int_equal(fill(scene), 0);
    close_scene(scene);
    scene = open_scene(1900000, 1);
    assert_int_equal(filled(scene), 4);
    close_scene(scene);
    scene = open_scene(2100000, 1); /* so long that it must be able to stop */
    assert_int_equal(filled(scene), 1);
    close_scene(scene);
}

TEST(with_others_they_go_4_ms_ahead) {
    struct scene *scene = open_scene(300000, 2);
    for (scene->mine = 0; scene->mine < 2; scene->mine++) { /* whoever comes first among the contenders */
        gs_stream *other = scene->contenders[1 - scene->mine];
        assert_int_equal(filled(scene), 13);
        other->confined = &scene->next;
        assert_int_equal(filled(scene), 1);
        other->confined = NULL;
    }
    scene->mine = 0;
    assert_int_equal(filled(scene), 13);
    scene->server.scheduler.somebody_waits = true;
    assert_int_equal(filled(scene), 1);
    scene->server.scheduler.somebody_waits = false;
    scene->contenders[1]->confined = &scene->next; /* a confined kernel, which must not be delayed */
    assert_int_equal(filled(scene), 1);
    scene->contenders[1]->confined = NULL;
    scene->sessions[1].options.weight = 2;
    assert_int_equal(filled(scene), 1);
    close_scene(scene);
    scene = open_scene(1900000, 2);
    assert_int_equal(filled(scene), 2);
    close_scene(scene);
    scene = open_scene(40000, 2);
    scene->contenders[1]->confined = &scene->next;
    assert_int_equal(filled(scene), 12); /* short launches go half a millisecond ahead */
    close_scene(scene);
}

TEST(below_a_higher_priority_they_go_2_ms_ahead) {
    for (size_t contenders = 1; contenders <= 2; contenders++) {
        struct scene *scene = open_scene(300000, contenders);
        scene->server.sessions.by_priority[GS_MOST_PRIORITY + 1] = 1; /* connected, but without launches */
        assert_int_equal(filled(scene), 6);
        scene->server.sessions.by_priority[GS_MOST_PRIORITY + 1] = 0; /* disconnected */
        scene->server.sessions.by_priority[GS_MOST_PRIORITY - 1] = 1;
        assert_int_equal(filled(scene), contenders == 1 ? 26 : 13);
        close_scene(scene);
    }
}

/* The first client is ahead of one that has left. Its work on the GPU grows with the time since then. */
TEST(who_comes_back_does_not_wait_long) {
    struct scene *scene = open_scene(20000, 1);
    gs_fairness *fairness = &scene->server.contenders.fairness;
    gs_session *first = &scene->sessions[0];
    fairness->clients = fairness->present = 1;
    fairness->left_ns = 1000000000;
    scene->server.now_ns = fairness->left_ns + 8000000;
    assert_int_equal(filled(scene), 399); /* it is not ahead */
    first->fair.had = (uint64_t)scene->server.plan.slice_ns * SMS + 1000000;
    assert_int_equal(filled(scene), 50); /* 1 ms */
    first->streams[7].ahead_ns = 500000;
    assert_int_equal(filled(scene), 25); /* with those of its other streams */
    first->streams[7].ahead_ns = 0;
    scene->server.now_ns = fairness->left_ns;
    assert_int_equal(filled(scene), 2); /* enough that there is no gap */
    fairness->clients = 2;              /* it is still expected */
    assert_int_equal(filled(scene), 2);
    fairness->present = 2; /* it is there */
    assert_int_equal(filled(scene), 1);
    fairness->clients = fairness->present = 1;
    scene->server.now_ns = fairness->left_ns + 100000000; /* it does not come back */
    assert_int_equal(filled(scene), 399);
    first->waits_for_turn = true; /* another stream of the client waits */
    assert_int_equal(filled(scene), 1);
    close_scene(scene);
}

/* A kernel in a shape without measurements takes as long per block as in its last shape, if it had one. */
TEST(a_new_shape_takes_as_long_per_block_as_the_last) {
    struct scene *scene = open_scene(300000, 1);
    double ns_per_block[] = {1e9, 500};
    gs_profile *known = scene->action.launch.profile,
               *fresh = gs_profile_store_get(scene->server.profiles, 2, "fresh", BLOCKS);
    scene->action.launch.request.kernel = 1;
    assert_int_equal(gs_launch_expected_ns(&scene->action), 300000);
    scene->action.launch.profile = fresh;
    assert_int_equal(gs_launch_expected_ns(&scene->action), 0);
    assert_int_equal(filled(scene), 1);
    scene->module.ns_per_block = ns_per_block;
    assert_int_equal(gs_launch_expected_ns(&scene->action), 500 * BLOCKS);
    scene->action.launch.blocks = 3;
    assert_int_equal(gs_launch_expected_ns(&scene->action), 1500);
    scene->action.launch.profile = known;
    scene->action.launch.blocks = BLOCKS;
    assert_int_equal(gs_launch_expected_ns(&scene->action), 300000); /* what was measured counts */
    gs_profile_store_put(scene->server.profiles, fresh);
    close_scene(scene);
}

/* The next launch of a confined kernel is sent to its workers, unless anything speaks against it: each reason alone is
   enough. */
TEST(the_next_launch_joins_the_workers_of_the_same_kernel) {
    struct scene *scene = open_scene(300000, 2);
    gs_server *server = &scene->server;
    gs_stream *stream = scene->contenders[0];
    gs_action running = scene->action, next = scene->next;
    gs_resource other = {0};
    running.launch.request.workers = 8;
    stream->confined = &running;
    stream->launches = 1;
    assert_true(gs_launch_may_share_next(stream, &next));
#define EXPECT_ALONE(place, value)                                                                                     \
    do {                                                                                                               \
        __typeof__(place) kept = place;                                                                                \
        place = value;                                                                                                 \
        assert_false(gs_launch_may_share_next(stream, &next));                                                         \
        place = kept;                                                                                                  \
        assert_true(gs_launch_may_share_next(stream, &next));                                                          \
    } while (0)
    EXPECT_ALONE(next.command, GS_WIRE_EVENT);
    EXPECT_ALONE(next.launch.profile, NULL);
    EXPECT_ALONE(next.resource, &other);
    EXPECT_ALONE(next.launch.request.first_block, 1);
    EXPECT_ALONE(running.launch.profile, NULL);
    EXPECT_ALONE(running.launch.request.workers, 0);
    EXPECT_ALONE(running.launch.is_stopping, true);
    EXPECT_ALONE(running.launch.was_resized, true);
    EXPECT_ALONE(stream->launches, 2);
    EXPECT_ALONE(stream->launches, 0);
    EXPECT_ALONE(stream->session->waits_for_turn, true);
    EXPECT_ALONE(server->scheduler.somebody_waits, true);
    EXPECT_ALONE(server->loads.loading, 1);
    EXPECT_ALONE(server->contenders.count, 1);
    EXPECT_ALONE(server->contenders.count, 3);
#undef EXPECT_ALONE
    server->options.shuffle_ns = 1; /* for tests: beside any number of others */
    server->contenders.count = 3;
    assert_true(gs_launch_may_share_next(stream, &next));
    running.launch.profile = next.launch.profile = NULL;
    assert_false(gs_launch_may_share_next(stream, &next));
    close_scene(scene);
}

/* How many of the launches are reported at once. */
static int reported(struct scene *scene, int launches) {
    int count = 0;
    for (int i = 0; i < launches; i++)
        count += !gs_launch_defers_report(scene->contenders[0], &scene->action);
    return count;
}

TEST(ends_are_reported_every_millisecond) {
    struct scene *scene = open_scene(300000, 1);
    assert_int_equal(reported(scene, 40), 10);
    scene->next.command = GS_WIRE_EVENT; /* its time is that of the launch before it */
    assert_int_equal(reported(scene, 40), 40);
    scene->next.command = GS_WIRE_LAUNCH;
    scene->action.next = NULL; /* a client may wait for this launch */
    assert_int_equal(reported(scene, 40), 40);
    scene->action.next = &scene->next;
    scene->action.launch.how = GS_DECIDE_CONFINED;
    assert_int_equal(reported(scene, 40), 40);
    close_scene(scene);
    scene = open_scene(1000000, 1);
    assert_int_equal(reported(scene, 40), 40);
    close_scene(scene);
}

/* Launches of two kernels in turn: how many of them are reported at once. */
static int reported_in_turn(struct scene *scene, int launches) {
    int count = 0;
    for (int i = 0; i < launches; i++)
        count += !gs_launch_defers_report(scene->contenders[0], i % 2 ? &scene->next : &scene->action);
    return count;
}

/* Alone, a launch is reported by itself until it was measured 16 times, and then one of 31 and the one before it.
   Beside others nothing is measured. */
TEST(different_kernels_are_reported_together_once_they_are_known) {
    struct scene *scene = open_scene(20000, 1);
    gs_profile *first = scene->action.launch.profile,
               *second = gs_profile_store_get(scene->server.profiles, 2, "second", BLOCKS);
    scene->module.image = test_calloc(1, sizeof *scene->module.image + sizeof scene->module.image->kernels[0]);
    scene->module.image->kernels[0].form.most_blocks = GS_JOB_BLOCKS;
    gs_profile_ran(second, false, BLOCKS, 20000);
    scene->next.launch.profile = second;
    scene->next.next = &scene->action;
    assert_int_equal(reported_in_turn(scene, 620), 620);
    for (int i = 1; i < 16; i++)
        gs_profile_ran(first, false, BLOCKS, 20000);
    assert_int_equal(reported_in_turn(scene, 620), 620); /* the second is not known */
    scene->server.contenders.count = 2;
    assert_int_equal(reported_in_turn(scene, 620), 12); /* every millisecond */
    scene->server.contenders.count = 1;
    for (int i = 1; i < 16; i++)
        gs_profile_ran(second, false, BLOCKS, 20000);
    assert_int_equal(reported_in_turn(scene, 620), 40);
    scene->module.image->kernels[0].can_be_confined = true; /* its two forms are compared now */
    assert_int_equal(reported_in_turn(scene, 620), 620);
    scene->action.next = &scene->action; /* nor are launches of one kernel in two forms alike */
    assert_int_equal(reported(scene, 620), 620);
    scene->action.next = &scene->next;
    test_free(scene->module.image);
    gs_profile_store_put(scene->server.profiles, second);
    close_scene(scene);
}

/* What a probe could say is not waited for if there will be none: the kernel is short for a decision, which looks at
   the median, although some of its launches are long; or it cannot be confined. */
TEST(launches_that_are_never_probed_follow) {
    struct scene *scene = open_scene(90000, 1);
    gs_profile *uneven = gs_profile_store_get(scene->server.profiles, 3, "uneven", BLOCKS);
    scene->action.launch.profile = uneven;
    for (int i = 0; i < 12; i++)
        gs_profile_ran(uneven, false, BLOCKS, i % 4 ? 90000 : 500000);
    assert_true(gs_launch_expected_ns(&scene->action) > scene->server.plan.short_ns);
    assert_true(gs_profile_wanted(uneven, scene->server.plan.granularity) > 0);
    assert_true(filled(scene) > 20);
    for (int i = 0; i < 12; i++)
        gs_profile_ran(uneven, false, BLOCKS, 500000);
    scene->module.image = test_calloc(1, sizeof *scene->module.image + sizeof scene->module.image->kernels[0]);
    scene->module.image->kernels[0].form.most_blocks = GS_JOB_BLOCKS;
    assert_true(filled(scene) > 10);
    scene->module.image->kernels[0].can_be_confined = true;
    assert_true(filled(scene) > 10); /* its client has just come */
    gs_fair_client *fair = &scene->sessions[0].fair;
    fair->has_slice = true;
    scene->server.contenders.fairness.clients = 1;
    scene->server.now_ns = fair->turn_since_ns + (uint64_t)scene->server.plan.slice_ns + 1;
    assert_int_equal(filled(scene), 1);
    scene->server.contenders.fairness.left_ns = scene->server.now_ns; /* another may come back soon */
    assert_true(filled(scene) > 10);
    test_free(scene->module.image);
    gs_profile_store_put(scene->server.profiles, uneven);
    scene->action.launch.profile = scene->next.launch.profile;
    close_scene(scene);
}

/* A client that is a time slice ahead waits until the other has caught up, and not only for its next launch. */
TEST(who_is_ahead_waits_until_others_have_caught_up) {
    gs_fairness fairness = {.sms = SMS, .slice_ns = 1000, .clients = 2, .present = 2, .least_had = 5000};
    gs_fair_client client = {.weight = 2};
    static const struct {
        double above; /* time slices of the client */
        bool lets_pass;
    } steps[] = {{0.9, false}, {1.1, true}, {0.9, true}, {0.1, true}, {0, false}, {0.9, false}, {1.1, true}};
    for (size_t i = 0; i < GS_COUNT(steps); i++) {
        client.had = (uint64_t)(2 * fairness.least_had + steps[i].above * 1000 * SMS);
        gs_fair_note_lead(&fairness, &client);
        assert_int_equal(client.lets_pass, steps[i].lets_pass);
        assert_int_equal(gs_fair_is_ahead(&fairness, &client, 1), steps[i].lets_pass);
    }
    fairness.clients = 1; /* the other has left */
    gs_fair_note_lead(&fairness, &client);
    assert_false(client.lets_pass);
}

/* ---- the contenders that the plan gets ---- */

/* A scene in which the first stream had 40 SMs for a launch that has just ended, and its next launch of the same kernel
   waits. */
static struct scene *open_kept(void) {
    static gs_contender queries[CLIENTS];
    struct scene *scene = open_scene(3000000, 2);
    gs_stream *stream = scene->contenders[0];
    scene->server.contenders.queries = queries;
    scene->server.facts.sms = SMS;
    scene->server.now_ns = 1000;
    scene->module.image = test_calloc(1, sizeof *scene->module.image + sizeof scene->module.image->kernels[0]);
    scene->module.image->kernels[0].can_be_confined = true;
    scene->module.image->kernels[0].form.most_blocks = GS_JOB_BLOCKS;
    stream->head = stream->next = &scene->next;
    scene->next.session = stream->session;
    stream->kept =
        (struct gs_kept){.profile = scene->next.launch.profile, .how = GS_DECIDE_CONFINED, .sms = 40, .until_ns = 2000};
    scene->contenders[1]->head = scene->contenders[1]->next = &scene->action;
    scene->action.next = NULL;
    scene->server.contenders.fairness.clients = 2;
    return scene;
}

static void close_kept(struct scene *scene) {
    test_free(scene->module.image);
    close_scene(scene);
}

static void expect_place(struct scene *scene, enum gs_decide_how how, int32_t sms) {
    assert_int_equal(gs_contenders_describe(&scene->server), 2);
    const gs_contender *query = &scene->server.contenders.queries[0];
    assert_int_equal(query->state, GS_CONTENDER_WAITS);
    assert_int_equal(query->how, how);
    assert_int_equal(query->sms, sms);
    assert_int_equal(scene->server.contenders.queries[1].how, GS_DECIDE_WAIT); /* it had no SMs */
}

TEST(a_launch_takes_the_place_of_the_one_before_it) {
    struct scene *scene = open_kept();
    gs_stream *stream = scene->contenders[0];
    gs_profile *profile = scene->next.launch.profile;
    expect_place(scene, GS_DECIDE_CONFINED, 40);
    stream->kept.how = GS_DECIDE_WHOLE; /* only the SMs of a confined launch can be taken over */
    expect_place(scene, GS_DECIDE_WAIT, 0);
    stream->kept.how = GS_DECIDE_CONFINED;
    scene->next.launch.profile = NULL; /* another kernel */
    expect_place(scene, GS_DECIDE_WAIT, 0);
    scene->next.launch.profile = profile;
    scene->server.now_ns = 2000; /* too late */
    expect_place(scene, GS_DECIDE_WAIT, 0);
    close_kept(scene);
}

TEST(a_stream_whose_launch_ended_is_expected) {
    struct scene *scene = open_kept();
    scene->contenders[0]->head = scene->contenders[0]->next = NULL;
    assert_int_equal(gs_contenders_describe(&scene->server), 2);
    const gs_contender *query = &scene->server.contenders.queries[0];
    assert_int_equal(query->state, GS_CONTENDER_EXPECTED);
    assert_int_equal(query->how, GS_DECIDE_CONFINED);
    assert_int_equal(query->sms, 40);
    scene->server.now_ns = 2000;
    scene->sessions[0].contenders = 1;
    scene->contenders[0]->is_contender = true;
    gs_profile_store_get(scene->server.profiles, 1, "known", BLOCKS); /* the stream holds it */
    assert_int_equal(gs_contenders_describe(&scene->server), 1);
    assert_false(scene->sessions[0].streams[0].is_contender);
    close_kept(scene);
}

/* The first client has two streams, the second one. */
TEST(a_client_that_is_ahead_has_one_stream_at_a_time) {
    struct scene *scene = open_kept();
    gs_contenders *contenders = &scene->server.contenders;
    gs_session *first = &scene->sessions[0];
    gs_action later = scene->next;
    first->streams[1] = (gs_stream){.session = first, .head = &later, .next = &later};
    scene->contenders[2] = &first->streams[1];
    contenders->count = 3;
    first->streams[0].kept.profile = NULL;
    scene->next.launch.arrival = 7;
    later.launch.arrival = 5;
    assert_int_equal(gs_contenders_describe(&scene->server), 3);
    first->fair.had = (uint64_t)scene->server.plan.slice_ns * SMS + 1000000; /* more than a turn */
    assert_int_equal(gs_contenders_describe(&scene->server), 2);
    assert_true(contenders->data[2] == &first->streams[0]); /* its other launch came first */
    first->streams[1].launches = 1;
    later.is_issued = true; /* that one runs */
    assert_false(gs_launch_may_follow(&first->streams[1], &later));
    assert_int_equal(gs_contenders_describe(&scene->server), 2);
    assert_true(contenders->data[2] == &first->streams[0]);
    scene->sessions[1].fair.had = first->fair.had;
    assert_int_equal(gs_contenders_describe(&scene->server), 3);
    scene->sessions[1].fair.had = 0;
    contenders->fairness.clients = 1; /* no other client contends */
    assert_int_equal(gs_contenders_describe(&scene->server), 3);
    close_kept(scene);
}

/* The place of an action that has ended is used again: a late report of the worker must not be taken for one of the
 * next. */
TEST(reports_find_their_action_only) {
    struct scene *scene = open_scene(300000, 1);
    gs_action *actions[] = {&scene->next, &scene->action};
    gs_server *server = &scene->server;
    server->actions.data = actions;
    server->actions.count = 2;
    scene->action.session = &scene->sessions[0];
    scene->action.index = 1;
    scene->action.generation = 5;
    scene->action.is_issued = true;
    uint64_t tag = gs_action_tag(&scene->action);
    assert_ptr_equal(gs_action_find(server, tag), &scene->action);
    assert_null(gs_action_find(server, tag - ((uint64_t)1 << 32)));
    assert_null(gs_action_find(server, tag + ((uint64_t)1 << 32)));
    assert_null(gs_action_find(server, tag + 1));
    assert_null(gs_action_find(server, tag - 1));
    scene->action.is_issued = false;
    assert_null(gs_action_find(server, tag));
    scene->action.is_issued = scene->action.is_done = true;
    assert_null(gs_action_find(server, tag));
    scene->action.is_done = false;
    scene->action.session = NULL;
    assert_null(gs_action_find(server, tag));
    close_scene(scene);
}

/* Blocks are counted once, however often a launch is looked at, and however late a report is. */
TEST(blocks_are_counted_once) {
    static const uint64_t done[] = {10, 25, 25, 20, 900, 0, 1000, 1000};
    struct scene *scene = open_scene(300000, 1);
    gs_action *action = &scene->action;
    gs_window *window = &scene->server.window;
    uint64_t most = 5;
    action->session = &scene->sessions[0];
    action->launch.counted = most;
    *window = (gs_window){.count = 1, .streams = {gs_stream_id(action->stream)}, .profiles = {action->launch.profile}};
    for (size_t i = 0; i < GS_COUNT(done); i++) {
        gs_schedule_count(action, done[i]);
        most = gs_max_u64(most, done[i]);
        assert_int_equal(action->launch.counted, most);
        assert_int_equal(window->blocks[0], most - 5);
    }
    window->count = 0;
    close_scene(scene);
}

/* ---- times until the first block ---- */

enum { TIMES = 400 };

/* The number in a line of the metrics that begins so. */
static double metric(const gs_text *metrics, const char *begins) {
    const char *line = strstr(metrics->data, begins);
    assert_non_null(line);
    return strtod(strchr(line, ' '), NULL);
}

static size_t count_below(const uint64_t *times, size_t count, uint64_t ns) {
    size_t below = 0;
    for (size_t i = 0; i < count; i++)
        below += times[i] < ns;
    return below;
}

static void expect_times(const gs_server *server, const uint64_t *times, size_t count) {
    static const char bucket[] = "gridsmith_first_block_seconds_bucket{le=\"";
    gs_text metrics = {0};
    uint64_t sum = 0, most = 0, bounds = 0;
    for (size_t i = 0; i < count; i++) {
        sum += times[i];
        most = gs_max_u64(most, times[i]);
    }
    gs_metrics_text(server, &metrics);
    for (const char *at = metrics.data; (at = strstr(at, bucket)); bounds++) {
        char *end;
        uint64_t below = bounds < 13 ? (uint64_t)1 << (10 + 2 * bounds) : UINT64_MAX;
        double bound = strtod(at += sizeof bucket - 1, &end), found = strtod(end + 2, NULL);
        assert_true(bounds == 13 ? isinf(bound) : fabs(bound * 1e9 / (double)below - 1) < 1e-8);
        assert_true(found == (double)count_below(times, count, below));
    }
    assert_int_equal(bounds, 14); /* 2^10 ns, four times that, and so on, up to 2^34; and infinity */
    assert_true(metric(&metrics, "gridsmith_first_block_seconds_count") == (double)count);
    assert_true(fabs(metric(&metrics, "gridsmith_first_block_seconds_sum") - (double)sum * 1e-9) <= 1e-8 * (double)sum);
    assert_int_equal(server->first_block.most_ns, most);
    gs_text_free(&metrics);
}

/* How long launches waited for their first block, in the metrics. */
TEST(waits_for_the_first_block_are_counted) {
    struct scene *scene = open_scene(300000, 1);
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 0);
    uint64_t times[TIMES];
    for (size_t i = 0; i < TIMES; i++) {
        uint64_t came = (uint64_t)gs_random_from(&random, 1, 1 << 30),
                 before = came + (uint64_t)gs_random_from(&random, -900, 900);
        uint64_t from = gs_max_u64(came, before);
        gs_action action = scene->action;
        times[i] = gs_random_chance(&random, 10) ? 0 : (uint64_t)1 << gs_random_from(&random, 0, 36);
        times[i] -= gs_random_chance(&random, 30) && times[i];
        gs_worker_report report = {.kind = GS_REPORT_RAN, .began_ns = from + times[i], .ended_ns = from + times[i] + 5};
        if (gs_random_chance(&random, 5) && !times[i])
            report.began_ns -= 1; /* clocks of two processors */
        action.arrived_ns = came;
        action.session = &scene->sessions[0];
        action.launch.profile = NULL;
        action.stream->ended_ns = before;
        action.stream->launches = 2;
        gs_complete(&scene->server, &action, &report);
        action.stream->launches = 2;
        gs_complete(&scene->server, &action, &report); /* a launch that goes on has begun before */
        expect_times(&scene->server, times, i + 1);
    }
    close_scene(scene);
}

TEST_MAIN(NULL, NULL)
