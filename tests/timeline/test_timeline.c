/*
 * test_timeline.c: when the launches of a recorded program run, what they wait for, and how that compares with the
 * measurement. The GPU has two SMs, each of which takes one block of 1024 threads. Random programs are in
 * test_engine.c.
 */
#include "test.h"

#include "model/timeline/timeline.h"
#include "model/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Between two events of a list. */
#define AND ","
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
TEST(a_launch_waits_for_the_queue_and_for_room) {
    struct played played =
        play(PROGRAM(LAUNCH("1", "a", "4", "\"stream\":1,\"at_us\":0,\"start_us\":3,\"end_us\":23")
                         AND LAUNCH("2", "b", "2", "\"stream\":2,\"at_us\":5,\"start_us\":24,\"end_us\":34")),
             &(gs_pace){0});
    gs_wait waits[GS_MOST_WAITS];
    check_times(&played, 0, 0, 20);
    check_times(&played, 1, 20, 30);
    assert_int_equal(played.timeline.operations[0].waves, 2);
    assert_int_equal(played.timeline.operations[0].block_ns, 10000);
    assert_int_equal(gs_timeline_waits(&played.timeline, 1, waits), 2);
    check_wait(&waits[0], GS_REASON_QUEUE, GS_LACK_NONE, 0, 5);
    check_wait(&waits[1], GS_REASON_HEADROOM, GS_LACK_WARP_SLOTS, 0, 10);
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
TEST(a_launch_waits_for_what_is_before_it) {
    struct played played = play(
        PROGRAM(
            "{\"op\":\"copy\",\"id\":1,\"kind\":\"host_to_device\",\"bytes\":8,\"stream\":1,\"at_us\":0,\"start_us\":1,"
            "\"end_us\":11}" AND LAUNCH("2", "a", "1", "\"stream\":1,\"at_us\":2,\"start_us\":12,\"end_us\":22")
                AND LAUNCH("3", "b", "1", "\"stream\":2,\"at_us\":3,\"after\":[1],\"start_us\":12,\"end_us\":15")
                    AND LAUNCH("4", "c", "1", "\"stream\":2,\"at_us\":40,\"start_us\":41,\"end_us\":42")),
        &(gs_pace){0, {.stream_ns = 1000, .after_copy_ns = 1000}});
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

static gs_program_compared compare(const struct played *played) {
    gs_timeline followed;
    gs_program_compared compared;
    assert_int_equal(gs_timeline_follow(played->gpu, played->run, &played->timeline, &followed, NULL), GS_OK);
    assert_int_equal(gs_program_compare(played->run, &played->timeline, &followed, &compared, NULL), GS_OK);
    gs_timeline_clear(&followed);
    return compared;
}

#define A_ALONE  LAUNCH("1", "a", "1", "\"stream\":1,\"at_us\":0,\"start_us\":0,\"end_us\":10")
#define A_BESIDE LAUNCH("2", "a", "1", "\"stream\":2,\"at_us\":20,\"start_us\":20,\"end_us\":37")
#define B_BESIDE LAUNCH("3", "b", "1", "\"stream\":1,\"at_us\":21,\"start_us\":21,\"end_us\":41")
#define C_BESIDE LAUNCH("4", "c", "2", "\"stream\":3,\"at_us\":22,\"start_us\":23,\"end_us\":33")

/* A launch beside others that left no room for all its blocks takes the time of its kernel alone, and the pairs that
   overlap are counted on both sides. */
TEST(overlaps_are_compared_with_the_measurement) {
    struct played played = play(PROGRAM(A_ALONE "," A_BESIDE "," B_BESIDE "," C_BESIDE), &(gs_pace){0});
    gs_wait waits[GS_MOST_WAITS];
    assert_true(played.timeline.operations[1].is_shared);
    assert_true(played.timeline.operations[1].is_borrowed);
    assert_int_equal(played.timeline.operations[1].alone_ns, 10000);
    assert_false(played.timeline.operations[2].is_borrowed);
    check_times(&played, 1, 20, 30);
    check_times(&played, 2, 21, 41);
    check_times(&played, 3, 30, 50);
    assert_int_equal(gs_timeline_waits(&played.timeline, 3, waits), 2);
    check_wait(&waits[0], GS_REASON_HEADROOM, GS_LACK_WARP_SLOTS, 1, 8);
    check_wait(&waits[1], GS_REASON_REST, GS_LACK_WARP_SLOTS, 2, 10); /* not a, whose place its first block has */
    gs_program_compared compared = compare(&played);
    assert_int_equal(compared.launches, 4);
    assert_int_equal(compared.predicted.pairs.possible, 3);
    assert_int_equal(compared.predicted.pairs.measured, 3);
    assert_int_equal(compared.predicted.pairs.predicted, 2);
    assert_int_equal(compared.predicted.pairs.both, 2);
    assert_int_equal(compared.predicted.pairs.right, 2);
    assert_int_equal(compared.data[3].only_measured, 1);
    assert_int_equal(compared.measured_busy_ns, 31000);
    gs_program_compared_clear(&compared);
    played_free(&played);
}

/* Beside a launch that leaves room, the time is the launch's own. */
TEST(a_launch_with_room_runs_as_long_as_measured) {
    struct played played = play(PROGRAM(A_ALONE "," A_BESIDE "," B_BESIDE), &(gs_pace){0});
    assert_true(played.timeline.operations[1].is_shared);
    assert_false(played.timeline.operations[1].is_borrowed);
    check_times(&played, 1, 20, 37);
    played_free(&played);
}

/* Two launches of a stream and one of another wait for room: the one that was ready first is served first, regardless
   of the launch order. */
TEST(launches_are_served_in_the_order_in_which_they_are_ready) {
    struct played played =
        play(PROGRAM(LAUNCH("1", "a", "2", "\"stream\":1,\"at_us\":0,\"start_us\":0,\"end_us\":10")
                         AND LAUNCH("2", "b", "2", "\"stream\":1,\"at_us\":1,\"start_us\":20,\"end_us\":30")
                             AND LAUNCH("3", "c", "2", "\"stream\":2,\"at_us\":2,\"start_us\":10,\"end_us\":20")),
             &(gs_pace){0});
    check_times(&played, 0, 0, 10);
    check_times(&played, 2, 10, 20);
    check_times(&played, 1, 20, 30);
    played_free(&played);
}

/* The resources of the blocks of a launch are free before the launch has ended, so the next one overlaps its tail. */
TEST(a_launch_ends_after_its_last_block) {
    struct played played =
        play(PROGRAM(LAUNCH("1", "a", "2", "\"stream\":1,\"at_us\":0,\"start_us\":0,\"end_us\":11")
                         AND LAUNCH("2", "b", "2", "\"stream\":2,\"at_us\":1,\"start_us\":10,\"end_us\":21")
                             AND LAUNCH("3", "c", "2", "\"stream\":1,\"at_us\":2,\"start_us\":30,\"end_us\":41")),
             &(gs_pace){0, {.stream_ns = 2000, .tail_ns = 1000}});
    assert_int_equal(played.timeline.operations[0].block_ns, 10000);
    check_times(&played, 0, 0, 11);
    check_times(&played, 1, 10, 21);
    check_times(&played, 2, 20, 31);
    assert_int_equal(played.timeline.operations[2].course.ready_ns, 13000);
    gs_program_compared compared = compare(&played);
    assert_int_equal(compared.predicted.pairs.possible, 2); /* not those of one stream */
    assert_int_equal(compared.predicted.pairs.both, 1);
    gs_program_compared_clear(&compared);
    played_free(&played);
}

/* Launches that wait for each other through a third cannot overlap. */
TEST(launches_that_wait_for_each_other_are_no_pairs) {
    struct played played = play(
        PROGRAM(LAUNCH("1", "a", "1", "\"stream\":1,\"at_us\":0,\"start_us\":5,\"end_us\":15") AND
                "{\"op\":\"memset\",\"id\":2,\"bytes\":8,\"stream\":2,\"at_us\":1,\"after\":[1],\"start_us\":15,\"end_"
                "us\":16}" AND LAUNCH("3", "b", "1", "\"stream\":2,\"at_us\":2,\"start_us\":16,\"end_us\":20")
                    AND LAUNCH("4", "c", "1", "\"stream\":3,\"at_us\":3,\"start_us\":5,\"end_us\":18")),
        &(gs_pace){0});
    gs_program_compared compared = compare(&played);
    assert_int_equal(compared.predicted.pairs.possible, 2); /* c with a, and with b */
    assert_int_equal(compared.predicted.pairs.measured, 2);
    gs_program_compared_clear(&compared);
    played_free(&played);
}

/* When the blocks of a launch trigger the next one is not known: they have when they have ended. */
TEST(a_trigger_is_taken_to_be_at_the_end) {
    struct played played =
        play(PROGRAM(LAUNCH("1", "a", "1", "\"stream\":1,\"at_us\":0,\"start_us\":0,\"end_us\":10") AND LAUNCH(
                 "2", "b", "1",
                 "\"stream\":1,\"at_us\":1,\"after\":[{\"id\":1,\"when\":\"trigger\"}],\"start_us\":10,\"end_us\":20")),
             &(gs_pace){0, {.stream_ns = 2000}});
    check_times(&played, 1, 10, 20);
    played_free(&played);
}

TEST(names_are_readable) {
    static const char *const names[][2] = {
        {"_ZN2at6native13reduce_kernelILi512ELi1EEEvT1_", "at::native::reduce_kernel<...>"},
        {"_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_forwardIfEEvPT0_",
         "softmax_warp_forward<...>"},
        {"_Z4spiniPi", "spin"},
        {"_Z", "_Z"},
        {"_ZN999a", "_ZN999a"},
        {"void f<int>(int)", "f<int>(int)"},
        {"nvjet_sm90", "nvjet_sm90"}};
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        gs_text text = {0};
        gs_put_name(&text, names[i][0]);
        assert_string_equal(text.data, names[i][1]);
        gs_text_free(&text);
    }
}

/* The pace is that of the recording: launches of a stream 2 us apart, and 7 us from the host to the GPU. */
TEST(the_pace_is_that_of_the_recording) {
    struct played played =
        play(PROGRAM(LAUNCH("1", "a", "1", "\"stream\":1,\"at_us\":0,\"start_us\":7,\"end_us\":107")
                         AND LAUNCH("2", "b", "1", "\"stream\":1,\"at_us\":2,\"start_us\":109,\"end_us\":120")),
             NULL);
    assert_int_equal(played.timeline.pace.latency_ns, 7000);
    assert_int_equal(played.timeline.pace.gaps.stream_ns, 2000);
    check_times(&played, 0, 7, 107);
    check_times(&played, 1, 109, 120);
    played_free(&played);
}

/* ---- the measures, written out, on random programs ---- */

enum { MOST_LAUNCHES = 12 };

/* A random program: launches on up to three streams that also wait for earlier ones, measured as a GPU might run them.
 */
static void put_random_program(gs_text *text, gs_random *random) {
    int64_t count = gs_random_from(random, 2, MOST_LAUNCHES), at_us = 0;
    int64_t ends[MOST_LAUNCHES], stream_ends[3] = {0};
    gs_text_add(text, "{\"schema\":\"gridsmith.run/1\",\"events\":[");
    for (int64_t i = 0; i < count; i++) {
        int64_t stream = gs_random_from(random, 0, 2), other = i ? gs_random_from(random, 0, i - 1) : 0;
        bool waits = i && gs_random_chance(random, 30);
        at_us += gs_random_from(random, 1, 15);
        int64_t start_us = gs_max(at_us, stream_ends[stream]) + gs_random_from(random, 0, 9);
        start_us = waits ? gs_max(start_us, ends[other]) : start_us;
        stream_ends[stream] = ends[i] = start_us + gs_random_from(random, 1, 40);
        gs_text_add(
            text,
            "%s{\"op\":\"launch\",\"id\":%lld,\"kernel\":\"k%lld\",\"blocks\":%lld,\"threads\":1024,\"registers\":32,"
            "\"shared_bytes\":0,\"stream\":%lld,\"at_us\":%lld,\"start_us\":%lld,\"end_us\":%lld",
            i ? "," : "", (long long)i, (long long)gs_random_from(random, 0, 3),
            (long long)gs_random_from(random, 1, 3), (long long)stream, (long long)at_us, (long long)start_us,
            (long long)ends[i]);
        if (waits)
            gs_text_add(text, ",\"after\":[%lld]", (long long)other);
        gs_text_add(text, "}");
    }
    gs_text_add(text, "]}");
}

struct times {
    int64_t start_ns[MOST_LAUNCHES], end_ns[MOST_LAUNCHES];
};

/* Whether launch `a` is directly before `b`, in its stream or by an edge. */
static bool is_awaited(const gs_run *run, size_t a, size_t b) {
    const gs_launch *one = &run->launches.data[a], *two = &run->launches.data[b];
    bool waits = a < b && strcmp(one->stream, two->stream) == 0;
    for (size_t i = 0; i < two->issue.after_count; i++)
        waits = waits || run->edges.data[two->issue.after + i].number == a;
    return waits;
}

/* The null model: a launch starts when it has arrived and all before it have ended, here or in the recording. */
static struct times play_literal_null(const struct played *played, bool follows) {
    const gs_run *run = played->run;
    const gs_pace *pace = &played->timeline.pace;
    struct times times = {0};
    for (size_t i = 0; i < run->launches.count; i++) {
        times.start_ns[i] = run->launches.data[i].issue.at_ns + pace->latency_ns;
        for (size_t k = 0; k < i; k++)
            if (is_awaited(run, k, i))
                times.start_ns[i] =
                    gs_max(times.start_ns[i],
                           (follows ? run->launches.data[k].issue.end_ns : times.end_ns[k]) + pace->gaps.stream_ns);
        times.end_ns[i] = times.start_ns[i] + played->timeline.operations[i].alone_ns;
    }
    return times;
}

static struct times times_of(const gs_timeline *timeline, size_t launches) {
    struct times times = {0};
    for (size_t i = 0; i < launches; i++) {
        times.start_ns[i] = timeline->operations[i].course.start_ns;
        times.end_ns[i] = timeline->operations[i].course.end_ns;
    }
    return times;
}

static int64_t common_ns(int64_t start_ns, int64_t end_ns, int64_t other_start_ns, int64_t other_end_ns) {
    return gs_max(0, gs_min(end_ns, other_end_ns) - gs_max(start_ns, other_start_ns));
}

/* Of all pairs that no chain of waits connects and that were in flight at the same time: the overlaps. */
static gs_overlaps count_literal_overlaps(const gs_run *run, const struct times *times) {
    size_t count = run->launches.count;
    bool waits[MOST_LAUNCHES][MOST_LAUNCHES] = {0};
    gs_overlaps found = {0};
    for (size_t b = 0; b < count; b++)
        for (size_t a = 0; a < b; a++)
            for (size_t k = a; k < b; k++)
                waits[a][b] = waits[a][b] || ((k == a || waits[a][k]) && is_awaited(run, k, b));
    for (size_t b = 0; b < count; b++)
        for (size_t a = 0; a < b; a++) {
            const gs_issue *one = &run->launches.data[a].issue, *two = &run->launches.data[b].issue;
            if (waits[a][b] || one->end_ns <= two->at_ns)
                continue;
            int64_t measured_ns = common_ns(one->start_ns, one->end_ns, two->start_ns, two->end_ns);
            int64_t model_ns = common_ns(times->start_ns[a], times->end_ns[a], times->start_ns[b], times->end_ns[b]);
            found.possible++;
            found.measured += measured_ns > 0;
            found.predicted += model_ns > 0;
            found.both += measured_ns > 0 && model_ns > 0;
            found.shared_ns += gs_min(measured_ns, model_ns);
            found.longest_ns += gs_max(measured_ns, model_ns);
        }
    return found;
}

static void check_overlaps(const gs_overlaps *found, const gs_overlaps *wanted, const char *program) {
    if (found->possible != wanted->possible || found->measured != wanted->measured ||
        found->predicted != wanted->predicted || found->both != wanted->both || found->shared_ns != wanted->shared_ns ||
        found->longest_ns != wanted->longest_ns)
        fail_msg("%lld %lld %lld %lld %lld %lld, not %lld %lld %lld %lld %lld %lld: %s", (long long)found->possible,
                 (long long)found->measured, (long long)found->predicted, (long long)found->both,
                 (long long)found->shared_ns, (long long)found->longest_ns, (long long)wanted->possible,
                 (long long)wanted->measured, (long long)wanted->predicted, (long long)wanted->both,
                 (long long)wanted->shared_ns, (long long)wanted->longest_ns, program);
    int64_t either = wanted->measured + wanted->predicted - wanted->both;
    double percent = gs_overlap_percent(found), by_time = gs_overlap_time_percent(found);
    assert_true(either ? percent == 100.0 * (double)wanted->both / (double)either : isnan(percent));
    assert_true(wanted->longest_ns ? by_time == 100.0 * (double)wanted->shared_ns / (double)wanted->longest_ns
                                   : isnan(by_time));
}

static void check_side(const struct played *played, const gs_side_compared *side, const struct times *whole,
                       const struct times *followed, const char *program) {
    gs_overlaps from_start = count_literal_overlaps(played->run, whole);
    gs_overlaps pairs = count_literal_overlaps(played->run, followed);
    check_overlaps(&side->from_start, &from_start, program);
    check_overlaps(&side->pairs, &pairs, program);
    int64_t within[4] = {0}, last_ns = 0;
    for (size_t i = 0; i < played->run->launches.count; i++) {
        int64_t apart_us = llabs(followed->start_ns[i] - played->run->launches.data[i].issue.start_ns);
        within[0] += apart_us <= 1000;
        within[1] += apart_us <= 10000;
        within[2] += apart_us <= 100000;
        within[3] += apart_us <= 1000000;
        last_ns = gs_max(last_ns, whole->end_ns[i]);
    }
    assert_memory_equal(within, side->starts_within_ns, sizeof within);
    assert_int_equal(last_ns, side->end_ns);
}

TEST(measures_are_those_of_the_formulas) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 5), runs = test_number("GRIDSMITH_RUNS", 100000) / 50;
    int64_t low = 0, better = 0;
    for (uint64_t i = 0; i < runs; i++) {
        gs_random random = gs_random_at(seed, i);
        gs_pace pace = {gs_random_from(&random, 0, 9000), {.stream_ns = gs_random_from(&random, 0, 3000)}};
        gs_text text = {0};
        gs_timeline followed;
        put_random_program(&text, &random);
        struct played played = play(text.data, &pace);
        assert_int_equal(gs_timeline_follow(played.gpu, played.run, &played.timeline, &followed, NULL), GS_OK);
        gs_program_compared compared = compare(&played);
        struct times whole = times_of(&played.timeline, played.run->launches.count);
        struct times ready = times_of(&followed, played.run->launches.count);
        check_side(&played, &compared.predicted, &whole, &ready, text.data);
        whole = play_literal_null(&played, false);
        ready = play_literal_null(&played, true);
        check_side(&played, &compared.unscheduled, &whole, &ready, text.data);
        low += gs_overlap_percent(&compared.predicted.from_start) < 50;
        better += compared.predicted.from_start.both != compared.unscheduled.from_start.both;
        gs_program_compared_clear(&compared);
        gs_timeline_clear(&followed);
        gs_text_free(&text);
        played_free(&played);
    }
    assert_true(low > (int64_t)runs / 100 && better > (int64_t)runs / 100); /* the measures can be low, and differ */
}

TEST_MAIN(NULL, NULL)
