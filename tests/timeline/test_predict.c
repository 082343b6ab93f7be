/*
 * test_predict.c: a prediction has the form of a recording, and says why kernels wait.
 */
#include "test.h"

#include "model/timeline/timeline.h"

#include <stdlib.h>
#include <string.h>

#define K(name, blocks, rest)                                                                                          \
    "{\"op\":\"launch\",\"kernel\":\"" name "\",\"blocks\":" blocks                                                    \
    ",\"threads\":1024,\"registers\":32,\"shared_bytes\":0" rest "}"
#define X(name)            "{\"op\":\"exit\",\"kernel\":\"" name "\"}"
#define SEEN(name, placed) "{\"op\":\"observe\",\"kernel\":\"" name "\",\"placed\":" placed "}"
/* Between two events of a list. */
#define AND  ","
#define HEAD "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"small\",\"events\":["

/* A GPU of two SMs with room for one block of 1024 threads each. */
static gs_gpu *small_gpu(void) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    assert_non_null(gpu);
    gpu->sms = 2;
    free(gpu->name);
    gpu->name = strdup("small");
    return gpu;
}

static gs_run *predict(const char *text, bool explain) {
    gs_gpu *gpu = small_gpu();
    gs_run *run = test_run_of(text);
    gs_error error;
    gs_predict_options options = {.explain = explain};
    gs_run *prediction = gs_predict(gpu, run, &options, &error);
    if (!prediction)
        fail_msg("%s", error.message);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return prediction;
}

static void assert_predicts(const char *text, const char *wanted) {
    gs_run *prediction = predict(text, false);
    gs_text found = {0};
    gs_run_text(prediction, &found);
    assert_string_equal(found.data, wanted);
    gs_text_free(&found);
    gs_run_free(prediction);
}

TEST(an_exit_is_followed_by_what_it_lets_in) {
    assert_predicts(HEAD K("a", "1", "") AND K("b", "3", "") AND K("c", "1", "") AND X("a") AND X("b") "]}",
                    HEAD K("a", "1", ",\"placed\":[0]") AND K("b", "3", ",\"placed\":[1,null,null]")
                        AND K("c", "1", ",\"placed\":[null]") AND X("a") AND SEEN("b", "[1,0,null]") AND X("b")
                            AND SEEN("c", "[0]") "]}");
}

/* The prediction of a recording has its form: its observations are replaced. */
TEST(observations_of_a_recording_are_filled_in) {
    assert_predicts(HEAD K("a", "2", ",\"placed\":[7,7],\"warp_slots\":[[1],[1]]") AND K("b", "1", "")
                        AND SEEN("b", "[null]") AND X("a") AND SEEN("b", "[9]") "]}",
                    HEAD K("a", "2", ",\"placed\":[0,1]") AND K("b", "1", ",\"placed\":[null]") AND SEEN("b", "[null]")
                        AND X("a") AND SEEN("b", "[0]") "]}");
}

/* Block 0 of `a` ends first, so block 2 follows it on SM 0; ends at one instant count in block order. */
TEST(with_durations_every_block_has_its_times) {
    assert_predicts(
        HEAD K("a", "3", ",\"duration_us\":2") AND K("b", "2", ",\"duration_us\":0.5") AND K("c", "1", "") "]}",
        HEAD K("a", "3", ",\"duration_us\":2,\"placed\":[0,1,0],\"start_ns\":[0,0,2000],\"end_ns\":[2000,2000,4000]")
            AND K("b", "2", ",\"duration_us\":0.5,\"placed\":[1,1],\"start_ns\":[2000,2500],\"end_ns\":[2500,3000]")
                AND K("c", "1", ",\"placed\":[1],\"start_ns\":[3000],\"end_ns\":[null]") "]}");
}

/* At the exit of a kernel with a duration the host waits for it. */
TEST(an_exit_waits_for_a_duration) {
    assert_predicts(
        HEAD K("a", "1", ",\"duration_us\":5") AND X("a") AND K("b", "1", ",\"duration_us\":1") "]}",
        HEAD K("a", "1", ",\"duration_us\":5,\"placed\":[0],\"start_ns\":[0],\"end_ns\":[5000]") AND X("a")
            AND K("b", "1", ",\"duration_us\":1,\"placed\":[0],\"start_ns\":[5000],\"end_ns\":[6000]") "]}");
}

TEST(a_kernel_that_exits_while_it_waits_leaves_the_queue) {
    assert_predicts(HEAD K("a", "2", "") AND K("b", "2", "") AND K("c", "1", "") AND X("b") AND X("a") "]}",
                    HEAD K("a", "2", ",\"placed\":[0,1]") AND K("b", "2", ",\"placed\":[null,null]")
                        AND K("c", "1", ",\"placed\":[null]") AND X("b") AND X("a") AND SEEN("c", "[0]") "]}");
}

TEST(urgent_kernels_go_first_by_either_way_of_counting) {
    static const char *const priorities[] = {"-5", "5"};
    for (size_t i = 0; i < 2; i++) {
        gs_text text = {0};
        gs_text_add(&text, HEAD K("a", "2", "") AND K("b", "2", "") AND K("c", "2", ",\"priority\":%s") AND X("a") "]}",
                    priorities[i]);
        gs_run *prediction = predict(text.data, false);
        assert_int_equal(gs_run_placed(prediction, 1, 0), GS_WAIT);
        assert_int_equal(gs_run_placed(prediction, 2, 0), 0);
        assert_int_equal(gs_run_placed(prediction, 2, 1), 1);
        gs_text_free(&text);
        gs_run_free(prediction);
    }
}

TEST(kernels_of_a_stream_run_one_after_the_other) {
    gs_run *prediction = predict(
        HEAD K("a", "1", ",\"stream\":1") AND K("b", "1", ",\"stream\":1") AND K("c", "1", "") AND X("a") "]}", true);
    assert_int_equal(gs_seen_sm(prediction->events.data[1].seen, 0), GS_WAIT);
    assert_string_equal(prediction->events.data[1].why,
                        "1 of 1 blocks of b wait: a before it in the same stream has not ended");
    assert_int_equal(gs_seen_sm(prediction->events.data[2].seen, 0), 1); /* it does not delay other kernels */
    assert_int_equal(gs_run_placed(prediction, 1, 0), 0);
    gs_run_free(prediction);
}

/* The explanation for each limit, on whole GPUs. */
TEST(waiting_is_explained_in_words) {
#define L(name, blocks, threads, registers, shared, rest)                                                              \
    "{\"op\":\"launch\",\"kernel\":\"" name "\",\"blocks\":" blocks ",\"threads\":" threads                            \
    ",\"registers\":" registers ",\"shared_bytes\":" shared rest "}"
    static const struct {
        const char *text, *why;
    } rows[] = {
        {HEAD L("a", "32", "32", "16", "0", "") AND L("b", "1", "32", "16", "0", "") "]}",
         "1 of 1 blocks of b wait: every SM has all 16 block slots taken"},
        {HEAD L("a", "2", "1024", "16", "0", "") AND L("b", "1", "1024", "16", "0", "") "]}",
         "1 of 1 blocks of b wait: partition 1 of every SM has too few free warp slots for the 8 warps of a block that "
         "go there (a block needs 8 warp slots in partition 1 where at most 4 are free)"},
        {HEAD L("a", "2", "256", "255", "0", "") AND L("b", "1", "256", "255", "0", "") "]}",
         "1 of 1 blocks of b wait: partition 1 of every SM has no headroom for another 255-register warp (a block "
         "needs 16,384 registers in partition 1 where at most 0 are free)"},
        {HEAD L("a", "2", "32", "32", "98304", "") AND L("b", "1", "32", "32", "65536", "") "]}",
         "1 of 1 blocks of b wait: every SM has less shared memory free than the 65 KB of a block (a block needs "
         "66,560 bytes of shared memory where at most 3,072 are free)"},
        {HEAD L("a", "1", "32", "32", "0", "") AND L("b", "1", "32", "32", "65536", "") "]}",
         "1 of 1 blocks of b wait: every SM is busy with a shared-memory configuration of 16 KB, the kernel needs 100 "
         "KB, and that changes only when the TPC is idle"},
        {HEAD L("a", "1", "32", "32", "0", "") AND L("b", "1", "32", "32", "0", ",\"local_bytes\":16") "]}",
         "1 of 1 blocks of b wait: it needs 16 bytes of local memory a thread, the GPU is set up for 0, and that grows "
         "only when the GPU is idle"},
        {HEAD L("a", "1", "512", "64", "0", "") AND L("b", "2", "1024", "64", "0", "") "]}",
         "1 of 2 blocks of b wait: partition 1 of SM 0 has too few registers free for the 8 64-register warps of a "
         "block that go there; partition 1 of SM 1 has no headroom for another 64-register warp (a block needs 16,384 "
         "registers in partition 1 where at most 8,192 are free)"},
        {HEAD L("a", "2", "32", "32", "61000", "") AND L("b", "1", "32", "32", "61000", "") "]}",
         "1 of 1 blocks of b wait: every SM has less shared memory free than the 60.62 KB of a block (a block needs "
         "62,080 bytes of shared memory where at most 3,456 are free)"},
        {HEAD K("a", "1", "") AND K("b", "2", ",\"cooperative\":true") "]}",
         "2 of 2 blocks of b wait: there is headroom for 1, and a cooperative launch starts with all its blocks; "
         "partition 1 of SM 0 has too few free warp slots for the 8 warps of a block that go there"},
        {HEAD K("a", "2", "") AND K("b", "2", ",\"cooperative\":true") "]}",
         "2 of 2 blocks of b wait: partition 1 of every SM has too few free warp slots for the 8 warps of a block that "
         "go there (a block needs 8 warp slots in partition 1 where at most 4 are free)"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_run *prediction = predict(rows[i].text, true);
        assert_string_equal(prediction->events.data[1].why, rows[i].why);
        gs_run_free(prediction);
    }
}

/* Where warps step aside, it is the SM that has no room, and not one of its partitions. */
TEST(waits_where_warps_step_aside_are_explained) {
    static const struct {
        const char *text, *why;
    } rows[] = {
        {HEAD L("a", "132", "1024", "64", "0", "") AND L("b", "1", "1024", "64", "0", "") "]}",
         "1 of 1 blocks of b wait: every SM has no headroom for another 64-register warp (a block needs 65,536 "
         "registers where at most 0 are free)"},
        {HEAD L("a", "264", "1024", "32", "0", "") AND L("b", "1", "1024", "32", "0", "") "]}",
         "1 of 1 blocks of b wait: every SM has no free warp slot (a block needs 32 warp slots where at most 0 are "
         "free)"},
    };
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_predict_options options = {.explain = true};
    gpu->mechanisms.warp_placement = GS_WARPS_FREE;
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_run *run = test_run_of(rows[i].text);
        gs_run *prediction = gs_predict(gpu, run, &options, NULL);
        assert_non_null(prediction);
        assert_string_equal(prediction->events.data[1].why, rows[i].why);
        gs_run_free(prediction);
        gs_run_free(run);
    }
    gs_gpu_free(gpu);
}

/* On an H200: why clusters wait, and which SMs they leave to the kernels after them. */
TEST(waiting_clusters_are_explained_in_words) {
#define C(name, blocks, threads, size) L(name, blocks, threads, "32", "0", ",\"cluster\":" size)
    static const struct {
        const char *text, *why;
        size_t event;
    } rows[] = {
        {HEAD C("a", "132", "1024", "2") AND C("b", "264", "1024", "2") "]}",
         "132 of 264 blocks of b wait: no GPC has 1 TPC with headroom for a block on both SMs, for a cluster of 2", 1},
        {HEAD C("a", "248", "1024", "4") AND C("b", "6", "1024", "3") "]}",
         "6 of 6 blocks of b wait: no GPC has 1 TPC with headroom for a block on both SMs and one more SM with "
         "headroom, for a cluster of 3",
         1},
        {HEAD L("a", "132", "1024", "64", "0", ",\"cluster\":4") "]}",
         "12 of 132 blocks of a wait: no GPC has 4 SMs with headroom for a block each, for a cluster of 4", 0},
        {HEAD C("a", "1056", "32", "2") AND C("b", "2", "32", "2") "]}",
         "2 of 2 blocks of b wait: no GPC has 1 TPC with headroom for a block on both SMs, for a cluster of 2; an SM "
         "takes at most 8 blocks of clusters",
         1},
        {HEAD C("a", "252", "1024", "4") AND L("b", "17", "1024", "32", "0", "") "]}",
         "1 of 17 blocks of b wait: a is served first, and while it waits what is after it starts on SMs 124-131 only",
         1},
        {HEAD C("a", "252", "1024", "3") AND L("b", "17", "1024", "32", "0", "") "]}",
         "1 of 17 blocks of b wait: a is served first, and while it waits what is after it starts on SMs 124-131 only",
         1},
        {HEAD C("a", "270", "1024", "2") AND L("b", "17", "1024", "32", "0", "") "]}",
         "17 of 17 blocks of b wait: a is served first, and while it waits nothing after it starts", 1},
        {HEAD C("a", "252", "1024", "4") AND L("b", "17", "1024", "32", "0", "") AND C("c", "2", "1024", "2") "]}",
         "2 of 2 blocks of c wait: b is served first, and while it waits nothing after it starts", 2},
    };
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_predict_options options = {.explain = true};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_run *run = test_run_of(rows[i].text);
        gs_run *prediction = gs_predict(gpu, run, &options, NULL);
        assert_non_null(prediction);
        assert_string_equal(prediction->events.data[rows[i].event].why, rows[i].why);
        gs_run_free(prediction);
        gs_run_free(run);
    }
    gs_run *run = test_run_of(HEAD C("a", "19", "32", "19") "]}");
    gs_error error;
    assert_null(gs_predict(gpu, run, NULL, &error));
    assert_int_equal(error.code, GS_E_NO_FIT);
    assert_non_null(strstr(error.message, "its clusters have 19 blocks, and no GPC has more than 18 SMs"));
    gs_run_free(run);
    gs_gpu_free(gpu);
}

/* Progress is reported, and a million blocks need no more memory than their results. */
static void note_progress(void *user, int64_t blocks, int64_t total) {
    assert_true(blocks <= total);
    assert_int_equal(total, 200000);
    ++*(int *)user;
}

TEST(long_runs_report_progress) {
    gs_gpu *gpu = small_gpu();
    gs_run *run = test_run_of(HEAD K("a", "200000", ",\"duration_us\":1") "]}");
    int calls = 0;
    gs_predict_options options = {.progress = note_progress, .user = &calls};
    gs_run *prediction = gs_predict(gpu, run, &options, NULL);
    assert_non_null(prediction);
    assert_int_equal(calls, 3);
    assert_int_equal(prediction->events.data[0].seen->placed.count, 200000);
    gs_run_free(prediction);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

/* The placement of a kernel that has waited for room depends on which block ends first. With few connections the score
   must end there too, although it continues behind launches that wait in a connection. */
TEST(what_waited_for_room_is_not_scored_with_connections) {
    static const char text[] =
        "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"small\",\"connections\":2,\"events\":[" K("a", "2", "")
            AND K("b", "1", "") AND X("a") "]}";
    gs_gpu *gpu = small_gpu();
    gs_run *run = test_run_of(text), *predicted = gs_predict(gpu, run, NULL, NULL);
    gs_run *recorded = gs_run_copy(predicted, NULL);
    gs_score score = {0};
    gs_event *last = &recorded->events.data[recorded->events.count - 1];
    assert_int_equal(last->op, GS_OBSERVE);
    gs_event_see(last)->placed.data[0] ^= 1;
    assert_int_equal(gs_score_add(&score, recorded, predicted, NULL), GS_OK);
    assert_int_equal(score.runs_exact, 1);
    assert_int_equal(score.launches, 2);
    gs_run_free(recorded);
    gs_run_free(predicted);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

static int64_t end_of_block(const gs_run *prediction, int64_t block) {
    return gs_seen_time(&prediction->events.data[0].seen->end_ns, block);
}

/* Four blocks that took 20 us on two SMs ran in two waves of 10 us each; on an RTX 3090 they ran at once, for 20 us.
   The library finds the GPU that the run names; inside, it is given. */
TEST(the_gpu_of_the_recording_says_how_long_blocks_run) {
    static const char text[] = "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"rtx3090\",\"events\":[" K(
        "a", "4", ",\"at_us\":0,\"start_us\":5,\"end_us\":25") "]}";
    gs_gpu *gpu = small_gpu(), *recorded_on = gs_gpu_open("rtx3090", NULL);
    gs_run *run = test_run_of(text), *found = gs_predict(gpu, run, NULL, NULL);
    gs_run *given = gs_predict_on(gpu, recorded_on, run, NULL, NULL), *same = gs_predict_on(gpu, gpu, run, NULL, NULL);
    int64_t once_ns = end_of_block(found, 0) - found->events.data[0].seen->start_ns.data[0];
    assert_int_equal(end_of_block(found, 3), end_of_block(given, 3));
    assert_int_equal(end_of_block(found, 3) - end_of_block(found, 0), once_ns);
    assert_true(end_of_block(same, 3) - end_of_block(same, 0) <= once_ns / 2 + 1);
    gs_run_free(found);
    gs_run_free(given);
    gs_run_free(same);
    gs_run_free(run);
    gs_gpu_free(recorded_on);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
