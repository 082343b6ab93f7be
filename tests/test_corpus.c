/*
 * test_corpus.c: recordings of a real GPU can be read, written back byte for byte, and played.
 *
 * How far the predictions agree is printed, not asserted: the H200 is not the paper's GPU.
 */
#include "test.h"

#include "sched/sched.h"

#include <stdlib.h>
#include <string.h>

static const char recordings[] = "corpus/h200-starter.jsonl.gz";

static gs_runs *open_recordings(void) {
    gs_error error;
    gs_runs *runs = gs_runs_open(test_path(recordings), &error);
    if (!runs)
        fail_msg("%s", error.message);
    return runs;
}

static void recordings_are_written_back_unchanged(void **state) {
    (void)state;
    gs_runs *runs = open_recordings();
    gs_error error;
    gs_run *run;
    size_t count = 0;
    gs_text text = {0};
    while ((run = gs_runs_next(runs, &error))) {
        gs_text_clear(&text);
        gs_run_text(run, &text);
        assert_int_equal(text.count, run->source.size);
        assert_memory_equal(text.data, run->source.text, text.count);
        gs_run_free(run);
        count++;
    }
    assert_int_equal(error.code, GS_OK);
    assert_int_equal(count, 507);
    gs_text_free(&text);
    gs_runs_close(runs);
}

/* Hand-made runs have a class each; together they are one. */
static size_t class_of(const gs_run *run) {
    static const char *const names[] = {"plain", "shared", "small", "exits"};
    size_t i = 0;
    while (i < GS_COUNT(names) && strcmp(names[i], run->class_name) != 0)
        i++;
    return i;
}

static void print_agreement(const char *policy) {
    static const char *const names[] = {"plain", "shared", "small", "exits", "hand-made"};
    gs_score scores[GS_COUNT(names)] = {0};
    gs_runs *runs = open_recordings();
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_error error;
    gs_run *run;
    assert_non_null(gpu);
    if (policy)
        assert_int_equal(gs_gpu_use(gpu, policy, &error), GS_OK);
    while ((run = gs_runs_next(runs, &error))) {
        gs_run *prediction = gs_predict(gpu, run, NULL, &error);
        if (!prediction)
            fail_msg("%s", error.message);
        assert_int_equal(gs_score_add(&scores[class_of(run)], run, prediction, &error), GS_OK);
        gs_run_free(prediction);
        gs_run_free(run);
    }
    print_message("%-12s %-10s %5s %6s %9s %6s %8s %6s\n", policy ? policy : "description", "class", "runs", "exact",
                  "launches", "exact", "blocks", "exact");
    int64_t played = 0;
    for (size_t i = 0; i < GS_COUNT(names); i++) {
        const gs_score *s = &scores[i];
        print_message("%-12s %-10s %5lld %5.1f%% %9lld %5.1f%% %8lld %5.1f%%\n", "", names[i], (long long)s->runs,
                      100.0 * (double)s->runs_exact / (double)s->runs, (long long)s->launches,
                      100.0 * (double)s->launches_exact / (double)s->launches, (long long)s->blocks,
                      100.0 * (double)s->blocks_exact / (double)s->blocks);
        played += s->runs;
    }
    assert_int_equal(played, 507);
    gs_runs_close(runs);
    gs_gpu_free(gpu);
}

static void recordings_can_be_played(void **state) {
    (void)state;
    print_agreement("paper");
    print_agreement("round-robin");
    print_agreement("most-room");
    print_agreement(NULL);
}

/* A prediction that is compared with itself is exact, and with another is not. */
static void a_score_tells_right_from_wrong(void **state) {
    (void)state;
    static const char text[] =
        "{\"schema\":\"gridsmith.run/1\",\"events\":[{\"op\":\"launch\",\"kernel\":\"a\",\"blocks\":3,\"threads\":32,"
        "\"registers\":16,\"shared_bytes\":0,\"placed\":[%s]},{\"op\":\"launch\",\"kernel\":\"b\",\"blocks\":2,"
        "\"threads\":32,\"registers\":16,\"shared_bytes\":0,\"placed\":[%s]},{\"op\":\"launch\",\"kernel\":\"c\","
        "\"blocks\":1,\"threads\":32,\"registers\":16,\"shared_bytes\":0,\"placed\":[%s]}]}";
    static const struct {
        const char *a, *b, *c;
        gs_score wanted; /* against 0,1,2 / 3,null / 5, whose third launch is past the first that waits */
    } rows[] = {{"0,1,2", "3,null", "5", {1, 1, 2, 2, 5, 5}},
                {"2,1,0", "3,null", "6", {1, 1, 2, 2, 5, 3}},
                {"0,1,1", "3,null", "5", {1, 0, 2, 1, 5, 4}},
                {"0,1,2", "3,4", "5", {1, 0, 2, 1, 5, 4}}};
    char written[1000];
    snprintf(written, sizeof written, text, "0,1,2", "3,null", "5");
    gs_run *recorded = test_run_of(written);
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_score score = {0};
        snprintf(written, sizeof written, text, rows[i].a, rows[i].b, rows[i].c);
        gs_run *predicted = test_run_of(written);
        assert_int_equal(gs_score_add(&score, recorded, predicted, NULL), GS_OK);
        assert_memory_equal(&score, &rows[i].wanted, sizeof score);
        gs_run_free(predicted);
    }
    gs_run_free(recorded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_are_written_back_unchanged),
        cmocka_unit_test(recordings_can_be_played),
        cmocka_unit_test(a_score_tells_right_from_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
