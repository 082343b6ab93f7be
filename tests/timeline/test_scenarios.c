/*
 * test_scenarios.c: every scenario gives the answer in its file, and the cases of the paper give the answers of the
 * paper.
 *
 * Files named case-* are Table II: their `placed` was written from the paper, not by the program.
 */
#include "test.h"

#include "model/check/check.h"
#include "model/timeline/timeline.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

static gs_run *predict(const gs_run *run, gs_gpu **gpu) {
    gs_error error;
    *gpu = gs_gpu_open(run->gpu, &error);
    bool is_recorded = strncmp(run->gpu, "h200", 4) == 0;
    gs_run *prediction = NULL;
    if (*gpu)
        prediction = is_recorded ? gs_predict_recorded(*gpu, run, &error) : gs_predict(*gpu, run, NULL, &error);
    if (!prediction)
        fail_msg("%s", error.message);
    return prediction;
}

/* Compares each event that has an answer in the file with the prediction. Returns their number. */
static size_t compare_events(const char *file, const gs_run *run, const gs_run *prediction) {
    size_t answers = 0;
    for (size_t i = 0; i < run->events.count; i++)
        answers += run->events.data[i].seen->has_placed;
    if (!answers)
        return 0;
    if (run->events.count != prediction->events.count)
        fail_msg("%s has %zu events, the prediction %zu", file, run->events.count, prediction->events.count);
    for (size_t i = 0; i < run->events.count; i++) {
        const gs_event *wanted = &run->events.data[i], *found = &prediction->events.data[i];
        assert_int_equal(wanted->op, found->op);
        assert_int_equal(wanted->launch, found->launch);
        const gs_launch *launch = &run->launches.data[wanted->launch];
        for (int64_t block = 0; wanted->seen->has_placed && block < launch->blocks; block++)
            if (gs_seen_sm(wanted->seen, block) != gs_seen_sm(found->seen, block))
                fail_msg("%s, event %zu, %s: block %lld goes to SM %d, not %d", file, i, launch->kernel,
                         (long long)block, gs_seen_sm(wanted->seen, block), gs_seen_sm(found->seen, block));
    }
    return answers;
}

TEST(scenarios_give_the_answers_in_their_files) {
    glob_t files;
    assert_int_equal(glob(test_path("scenarios/*.json"), 0, NULL, &files), 0);
    size_t cases = 0;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        const char *file = files.gl_pathv[i] + strlen(test_path(""));
        gs_run *run = test_run_file(file);
        gs_gpu *gpu;
        gs_run *prediction = predict(run, &gpu);
        bool is_recorded = strstr(file, "h200-case-");
        size_t answers = is_recorded ? 0 : compare_events(file, run, prediction);
        if (strstr(file, "case-") && !is_recorded) {
            assert_true(answers >= 2);
            cases++;
        }
        gs_run_free(prediction);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    assert_int_equal(cases, 10);
    globfree(&files);
}

/* "* Kernels can / cannot be executed concurrently", and the answers for other orders. */
TEST(concurrency_is_as_the_paper_says) {
    static const struct {
        const char *file;
        gs_answer here, anywhere;
        const char *smallest; /* an order that fails */
    } rows[] = {
        {"scenarios/case-1.1.json", GS_ANSWER_YES, GS_ANSWER_YES, NULL},
        {"scenarios/case-1.2.json", GS_ANSWER_YES, GS_ANSWER_YES, NULL},
        {"scenarios/case-1.3.json", GS_ANSWER_YES, GS_ANSWER_YES, NULL},
        {"scenarios/case-1.4.json", GS_ANSWER_YES, GS_ANSWER_YES, NULL},
        {"scenarios/case-2.1.json", GS_ANSWER_NO, GS_ANSWER_NO, "k1 k2 k3 k5"},
        {"scenarios/case-2.2.json", GS_ANSWER_NO, GS_ANSWER_NO, "k1 k2 k3"},
        {"scenarios/case-2.2-fits.json", GS_ANSWER_YES, GS_ANSWER_YES, NULL},
        {"scenarios/case-3.json", GS_ANSWER_NO, GS_ANSWER_NO, "k1 k2"},
        {"scenarios/case-4.1.json", GS_ANSWER_YES, GS_ANSWER_UNKNOWN, NULL},
        {"scenarios/case-4.2.json", GS_ANSWER_NO, GS_ANSWER_NO, "k1 k2 k3 k4 k5 k7 k9"},
        {"scenarios/persistent-too-late.json", GS_ANSWER_NO, GS_ANSWER_NO, "copy barrier"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_run *run = test_run_file(rows[i].file);
        gs_gpu *gpu = gs_gpu_open(run->gpu, NULL);
        gs_check check;
        gs_error error;
        assert_int_equal(gs_check_run(gpu, run, 100000, NULL, &check, &error), GS_OK);
        gs_text names = {0};
        for (size_t j = 0; j < check.smallest.order.count; j++)
            gs_text_add(&names, "%s%s", j ? " " : "", run->launches.data[check.smallest.order.data[j]].kernel);
        if (check.in_this_order != rows[i].here || check.in_any_order != rows[i].anywhere ||
            strcmp(names.data ? names.data : "", rows[i].smallest ? rows[i].smallest : "") != 0)
            fail_msg("%s: in this order %d, in any %d, smallest \"%s\"", rows[i].file, check.in_this_order,
                     check.in_any_order, names.data ? names.data : "");
        gs_text_free(&names);
        gs_check_clear(&check);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
}

/* The rooms for kernel 3 on SM 0 and SM 1 that section IV-A computes. */
TEST(rooms_are_those_of_section_iv_a) {
    static const struct {
        const char *file;
        int room0, room1;
    } rows[] = {{"scenarios/case-1.1.json", 5, 5},
                {"scenarios/case-1.2.json", 4, 5},
                {"scenarios/case-1.3.json", 2, 3},
                {"scenarios/case-1.4.json", 2, 3}};
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_run *run = test_run_file(rows[i].file);
        gs_dispatcher *dispatcher = gs_dispatcher_new(gpu, NULL);
        for (size_t launch = 0; launch < 2; launch++) {
            int kernel = gs_dispatcher_kernel(dispatcher, &run->launches.data[launch].shape, NULL);
            for (int64_t block = 0; block < run->launches.data[launch].blocks; block++)
                assert_true(gs_dispatcher_place(dispatcher, kernel, gs_dispatcher_next(dispatcher, kernel)) >= 0);
        }
        int third = gs_dispatcher_kernel(dispatcher, &run->launches.data[2].shape, NULL);
        assert_int_equal(gs_dispatcher_room(dispatcher, third, 0), rows[i].room0);
        assert_int_equal(gs_dispatcher_room(dispatcher, third, 1), rows[i].room1);
        gs_dispatcher_free(dispatcher);
        gs_run_free(run);
    }
    gs_gpu_free(gpu);
}

/* As in the paper: everything is launched at once, kernels of one and two seconds. */
TEST(late_kernels_start_when_the_paper_saw_them) {
    static const struct {
        const char *file;
        size_t launch;
        int64_t start_ns;
    } rows[] = {{"scenarios/timed-2.1.json", 4, 2000000000}, {"scenarios/timed-4.1.json", 8, 1000000000}};
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_run *run = test_run_file(rows[i].file);
        gs_gpu *gpu;
        gs_run *prediction = predict(run, &gpu);
        const gs_seen *seen = prediction->events.data[rows[i].launch].seen;
        assert_int_equal(seen->placed.count, 82);
        for (int64_t block = 0; block < 82; block++) {
            assert_int_equal(gs_seen_time(&seen->start_ns, block), rows[i].start_ns);
            assert_int_equal(gs_seen_time(&seen->end_ns, block), rows[i].start_ns + 1000000000);
        }
        gs_run_free(prediction);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
}

/* Table II with numbers for an H200, as a real one played it: how many blocks each SM has, not which. */
TEST(the_h200_answers_table_ii) {
    glob_t files;
    size_t exact = 0;
    assert_int_equal(glob(test_path("scenarios/h200-case-*.json"), 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        const char *file = files.gl_pathv[i] + strlen(test_path(""));
        gs_run *run = test_run_file(file);
        gs_gpu *gpu;
        gs_run *prediction = predict(run, &gpu);
        gs_score score = {0};
        assert_int_equal(gs_score_add(&score, run, prediction, NULL), GS_OK);
        exact += (size_t)score.runs_exact;
        if (!score.runs_exact)
            fail_msg("%s: the prediction is not what was recorded", file);
        gs_run_free(prediction);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%zu of %zu cases on the H200 are as predicted\n", exact, files.gl_pathc);
    assert_int_equal(files.gl_pathc, 10);
    globfree(&files);
}

TEST_MAIN(NULL, NULL)
