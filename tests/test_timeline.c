/*
 * test_timeline.c: when the launches of a recorded program run, what they wait for, and how that compares with what was
 * measured. The GPU has two SMs, each of which takes one block of 1024 threads. Random programs are in test_engine.c.
 */
#include "test.h"

#include "sched/sched.h"
#include "view/view.h"

#include <stdlib.h>
#include <string.h>

#define LAUNCH(id, kernel, blocks, more)                                                                               \
    "{\"op\":\"launch\",\"id\":" id ",\"kernel\":\"" kernel "\",\"blocks\":" blocks                                    \
    ",\"threads\":1024,\"registers\":32,\"shared_bytes\":0," more "}"
#define PROGRAM(events) "{\"schema\":\"gridsmith.run/1\",\"events\":[" events "]}"

struct played {
    gs_gpu *gpu;
    gs_run *run;
    gs_timeline timeline;
};

static struct played play(const char *text, const gs_pace *pace) {
    struct played played = {.gpu = gs_gpu_open("rtx3090", NULL), .run = test_run_of(text)};
    assert_non_null(played.gpu);
    played.gpu->sms = 2;
    assert_true(gs_run_is_program(played.run));
    assert_int_equal(gs_timeline_play(played.gpu, played.gpu, played.run, pace, &played.timeline, NULL), GS_OK);
    return played;
}

static void played_free(struct played *played) {
    gs_timeline_clear(&played->timeline);
    gs_run_free(played->run);
    gs_gpu_free(played->gpu);
}

static void check_times(const struct played *played, size_t operation, int64_t start_us, int64_t end_us) {
    const gs_course *course = &played->timeline.operations[operation].course;
    assert_int_equal(course->start_ns, start_us * 1000);
    assert_int_equal(course->end_ns, end_us * 1000);
}

static void check_wait(const gs_wait *wait, gs_reason reason, gs_lack lack, size_t behind, int64_t us) {
    assert_int_equal(wait->reason, reason);
    assert_int_equal(wait->lack, lack);
    assert_int_equal(wait->behind, behind);
    assert_int_equal(wait->ns, us * 1000);
}

/* Four blocks on two SMs run in two waves, each half as long as the launch. The next launch waits until all of them
   have started, and then until they end. */
static void a_launch_waits_for_the_queue_and_for_room(void **state) {
    (void)state;
    struct played played =
        play(PROGRAM(LAUNCH("1", "a", "4", "\"stream\":1,\"at_us\":0,\"start_us\":3,\"end_us\":23") "," LAUNCH(
                 "2", "b", "2", "\"stream\":2,\"at_us\":5,\"start_us\":24,\"end_us\":34")),
             &(gs_pace){0});
    gs_wait waits[GS_MOST_WAITS];
    check_times(&played, 0, 0, 20);
    check_times(&played, 1, 20, 30);
    assert_int_equal(played.timeline.operations[0].waves, 2);
    assert_int_equal(played.timeline.operations[0].block_ns, 10000);
    assert_int_equal(gs_timeline_waits(&played.timeline, 1, waits), 2);
    check_wait(&waits[0], GS_REASON_QUEUE, GS_LACK_NONE, 0, 5);
    check_wait(&waits[1], GS_REASON_ROOM, GS_LACK_WARP_SLOTS, 0, 10);
    gs_wait_sums sums;
    gs_text text = {0};
    assert_int_equal(gs_wait_sums_of(played.run, &played.timeline, &sums, NULL), GS_OK);
    gs_put_wait_sum(&text, &sums.data[0]);
    assert_string_equal(text.data, "b waited 10.0 us in 1 launch for a to release warp slots");
    gs_text_free(&text);
    gs_wait_sums_clear(&sums);
    played_free(&played);
}

/* The stream, an event, the host and the overhead, with a copy that takes its time. */
static void a_launch_waits_for_what_is_before_it(void **state) {
    (void)state;
    struct played played = play(
        PROGRAM(
            "{\"op\":\"copy\",\"id\":1,\"kind\":\"host_to_device\",\"bytes\":8,\"stream\":1,\"at_us\":0,"
            "\"start_us\":1,\"end_us\":11}," LAUNCH(
                "2", "a", "1",
                "\"stream\":1,\"at_us\":2,\"start_us\":12,\"end_us\":22") "," LAUNCH("3", "b", "1",
                                                                                     "\"stream\":2,\"at_us\":3,"
                                                                                     "\"after\":[1],\"start_us\":12,"
                                                                                     "\"end_us\":15") "," LAUNCH("4",
                                                                                                                 "c",
                                                                                                                 "1",
                                                                                                                 "\"str"
                                                                                                                 "eam\""
                                                                                                                 ":2,"
                                                                                                                 "\"at_"
                                                                                                                 "us\":"
                                                                                                                 "40,"
                                                                                                                 "\"sta"
                                                                                                                 "rt_"
                                                                                                                 "us\":"
                                                                                                                 "41,"
                                                                                                                 "\"end"
                                                                                                                 "_us\""
                                                                                                                 ":4"
                                                                                                                 "2")),
        &(gs_pace){0, {.stream_ns = 1000, .graph_ns = 0, .copy_ns = 0}});
    gs_wait waits[GS_MOST_WAITS];
    size_t copy = 3;
    check_times(&played, copy, 0, 10);
    check_times(&played, 0, 11, 21);
    check_times(&played, 1, 11, 14);
    check_times(&played, 2, 40, 41);
    assert_int_equal(gs_timeline_waits(&played.timeline, 0, waits), 2);
    check_wait(&waits[0], GS_REASON_STREAM, GS_LACK_NONE, copy, 8);
    check_wait(&waits[1], GS_REASON_OVERHEAD, GS_LACK_NONE, SIZE_MAX, 1);
    assert_int_equal(gs_timeline_waits(&played.timeline, 1, waits), 2);
    check_wait(&waits[0], GS_REASON_EVENT, GS_LACK_NONE, copy, 7);
    assert_int_equal(gs_timeline_waits(&played.timeline, 2, waits), 1);
    check_wait(&waits[0], GS_REASON_HOST, GS_LACK_NONE, SIZE_MAX, 26);
    played_free(&played);
}

/* A launch that was measured beside another takes the time of its kernel alone, and the pairs that overlap are counted
   on both sides. */
static void overlaps_are_compared_with_the_measurement(void **state) {
    (void)state;
    struct played played =
        play(
            PROGRAM(LAUNCH("1", "a", "1", "\"stream\":1,\"at_us\":0,\"start_us\":0,\"end_us\":10") "," LAUNCH(
                "2", "a",
                "1", "\"stream\":2,\"at_us\":20,\"start_us\":20,\"end_us\":35") "," LAUNCH("3", "b", "1",
                                                                                           "\"stream\":1,\"at_us\":21,"
                                                                                           "\"start_us\":21,\"end_us\":"
                                                                                           "41") "," LAUNCH("4", "c",
                                                                                                            "2",
                                                                                                            "\"stream\""
                                                                                                            ":3,\"at_"
                                                                                                            "us\":22,"
                                                                                                            "\"start_"
                                                                                                            "us\":23,"
                                                                                                            "\"end_"
                                                                                                            "us\":33")),
            &(gs_pace){0});
    gs_program_compared compared;
    gs_wait waits[GS_MOST_WAITS];
    assert_true(played.timeline.operations[1].is_shared);
    assert_true(played.timeline.operations[1].is_borrowed);
    assert_int_equal(played.timeline.operations[1].alone_ns, 10000);
    assert_false(played.timeline.operations[2].is_borrowed);
    check_times(&played, 1, 20, 30);
    check_times(&played, 2, 21, 41);
    check_times(&played, 3, 30, 50);
    assert_int_equal(gs_timeline_waits(&played.timeline, 3, waits), 2);
    check_wait(&waits[0], GS_REASON_ROOM, GS_LACK_WARP_SLOTS, 1, 8);
    check_wait(&waits[1], GS_REASON_REST, GS_LACK_WARP_SLOTS, 2, 10); /* not a, whose place its first block has */
    assert_int_equal(gs_program_compare(played.run, &played.timeline, &compared, NULL), GS_OK);
    assert_int_equal(compared.launches, 4);
    assert_int_equal(compared.measured_pairs, 3);
    assert_int_equal(compared.predicted_pairs, 2);
    assert_int_equal(compared.both_pairs, 2);
    assert_int_equal(compared.data[3].only_measured, 1);
    assert_int_equal(compared.measured_busy_ns, 31000);
    gs_program_compared_clear(&compared);
    played_free(&played);
}

/* The pace is that of the recording: launches of a stream 2 us apart, and 7 us from the host to the GPU. */
static void the_pace_is_that_of_the_recording(void **state) {
    (void)state;
    struct played played =
        play(PROGRAM(LAUNCH("1", "a", "1", "\"stream\":1,\"at_us\":0,\"start_us\":7,\"end_us\":107") "," LAUNCH(
                 "2", "b", "1", "\"stream\":1,\"at_us\":2,\"start_us\":109,\"end_us\":120")),
             NULL);
    assert_int_equal(played.timeline.pace.latency_ns, 7000);
    assert_int_equal(played.timeline.pace.gaps.stream_ns, 2000);
    check_times(&played, 0, 7, 107);
    check_times(&played, 1, 109, 120);
    played_free(&played);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_waits_for_the_queue_and_for_room),
        cmocka_unit_test(a_launch_waits_for_what_is_before_it),
        cmocka_unit_test(overlaps_are_compared_with_the_measurement),
        cmocka_unit_test(the_pace_is_that_of_the_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
