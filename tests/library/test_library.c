/*
 * test_library.c: the library as a program uses it: runs made call by call, answers as text, several threads.
 */
#include "test.h"

#include "random.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static gs_launch_spec spec_of(const char *kernel, int64_t blocks) {
    return (gs_launch_spec){.kernel = kernel, .blocks = blocks, .shape = gs_shape_of(256, 32, 1024)};
}

/* Makes the run of a file again, launch by launch and exit by exit. */
static gs_run *rebuild(const gs_run *run) {
    gs_error error;
    gs_run *made = gs_run_new(&error);
    assert_non_null(made);
    for (size_t i = 0; i < run->events.count; i++) {
        const gs_launch *launch = &run->launches.data[run->events.data[i].launch];
        gs_launch_spec spec = {
            launch->kernel,      launch->blocks,    launch->shape,
            launch->cluster,     launch->priority,  launch->stream,
            launch->duration_ns, launch->spread_ns, launch->issue.facts && launch->issue.facts->is_cooperative == 1};
        if (run->events.data[i].op == GS_LAUNCH)
            assert_int_equal(gs_run_launch(made, &spec, &error), GS_OK);
        else if (run->events.data[i].op == GS_EXIT)
            assert_int_equal(gs_run_exit(made, launch->kernel, &error), GS_OK);
    }
    return made;
}

static void assert_same_prediction(const gs_gpu *gpu, const gs_run *run, const gs_run *made) {
    gs_error error = {.code = GS_OK};
    gs_run *wanted = gs_predict(gpu, run, NULL, &error), *found = gs_predict(gpu, made, NULL, NULL);
    assert_true((wanted != NULL) == (found != NULL));
    for (size_t i = 0; wanted && i < gs_run_launches(wanted); i++) {
        int64_t blocks = gs_run_blocks(wanted, i);
        int32_t *sms = calloc((size_t)blocks, sizeof *sms);
        int64_t *starts = calloc((size_t)blocks, sizeof *starts), *ends = calloc((size_t)blocks, sizeof *ends);
        gs_run_copy_blocks(found, i, sms, starts, ends);
        for (int64_t block = 0; block < blocks; block++) {
            assert_int_equal(sms[block], gs_run_placed(wanted, i, block));
            assert_int_equal(starts[block], gs_run_start_ns(wanted, i, block));
            assert_int_equal(ends[block], gs_run_end_ns(wanted, i, block));
        }
        free(sms);
        free(starts);
        free(ends);
    }
    gs_run_free(wanted);
    gs_run_free(found);
}

TEST(runs_made_by_calls_are_those_of_files) {
    for (uint64_t i = 0; i < test_number("GRIDSMITH_RUNS", 100000) / 200 + 1; i++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), i);
        gs_gpu *gpu = random_gpu(&random, 30);
        gs_run *run = random_run(&random, gpu), *made = rebuild(run);
        if (!run->green_contexts.count) /* these are in files only */
            assert_same_prediction(gpu, run, made);
        gs_run_free(made);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
}

static void assert_refused(gs_run *run, gs_launch_spec spec, const char *words) {
    gs_error error = {.code = GS_OK};
    size_t before = gs_run_launches(run);
    assert_int_equal(gs_run_launch(run, &spec, &error), GS_E_USAGE);
    if (!strstr(error.message, words))
        fail_msg("says: %s", error.message);
    assert_int_equal(gs_run_launches(run), before);
    assert_int_equal(gs_run_launch(run, &spec, NULL), GS_E_USAGE);
}

TEST(wrong_calls_are_refused) {
    gs_error error;
    gs_run *run = gs_run_new(&error);
    gs_launch_spec good = spec_of("k", 4), bad;
    assert_int_equal(gs_run_launch(run, &good, &error), GS_OK);
    assert_refused(run, good, "the run already has a kernel \"k\"");
    bad = spec_of(NULL, 1);
    assert_refused(run, bad, "needs the name of its kernel");
    bad = spec_of("a", 0);
    assert_refused(run, bad, "\"blocks\" of a launch must be from 1 to 2147483647, not 0");
    bad = spec_of("a", 1);
    bad.shape.threads = -5;
    assert_refused(run, bad, "\"threads\"");
    bad = spec_of("a", 1);
    bad.shape.carveout_percent = 101;
    assert_refused(run, bad, "\"carveout_percent\"");
    bad = spec_of("a", 1);
    bad.duration_ns = -1;
    assert_refused(run, bad, "\"duration_ns\" of a launch must be from 1");
    bad = spec_of("a\nb", 1);
    assert_refused(run, bad, "without control characters");
    bad = spec_of("\xff", 1);
    assert_refused(run, bad, "without control characters");
    bad = spec_of("a", 1);
    bad.stream = "\x01";
    assert_refused(run, bad, "without control characters");
    assert_null(gs_run_kernel(run, 1));
    assert_null(gs_run_why(run, 1));
    assert_int_equal(gs_run_blocks(run, SIZE_MAX), 0);
    assert_int_equal(gs_run_placed(run, 1, 0), GS_WAIT);
    assert_int_equal(gs_run_placed(run, 0, -1), GS_WAIT);
    assert_int_equal(gs_run_start_ns(run, 1, 0), GS_NO_TIME);
    assert_int_equal(gs_run_end_ns(run, 0, -1), GS_NO_TIME);
    bad = spec_of("a", 1);
    bad.cluster = 5000;
    assert_refused(run, bad, "\"cluster\"");
    assert_int_equal(gs_run_exit(run, "b", &error), GS_E_USAGE);
    assert_int_equal(gs_run_exit(run, "k", &error), GS_OK);
    assert_int_equal(gs_run_exit(run, "k", &error), GS_E_USAGE);
    gs_run_free(run);
}

TEST(errors_in_memory_have_a_place) {
    static const char text[] = "{\"schema\":\"gridsmith.run/1\",\n \"events\":[{\"op\":\"launch\",\"kernel\":7}]}";
    gs_error error = {.code = GS_OK};
    gs_runs *runs = gs_runs_memory("my.json", text, sizeof text - 1, &error);
    assert_null(gs_runs_next(runs, &error));
    assert_string_equal(error.file, "my.json");
    assert_int_equal(error.line, 2);
    gs_runs_close(runs);
}

TEST(answers_are_texts) {
    static const struct {
        const char *format, *begins;
    } rows[] = {{"table", "rtx3090, 82 SMs"},
                {"json", "{\"schema\":\"gridsmith.run/1\""},
                {"csv", "run,"},
                {"svg", "<svg"},
                {"html", "<!doctype html>"},
                {"trace", "{"},
                {"timeline", "{\"schema\":\"gridsmith.timeline/1\""}};
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("rtx3090", &error);
    gs_run *run = gs_run_new(&error);
    gs_launch_spec spec = spec_of("k", 100);
    spec.duration_ns = 1000;
    assert_int_equal(gs_run_launch(run, &spec, &error), GS_OK);
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        size_t bytes;
        char *text = gs_show(gpu, run, rows[i].format, &bytes, &error);
        if (!text || strlen(text) != bytes || strncmp(text, rows[i].begins, strlen(rows[i].begins)) != 0)
            fail_msg("%s: %.100s", rows[i].format, text ? text : error.message);
        gs_string_free(text);
    }
    assert_null(gs_show(gpu, run, "comparison", NULL, &error));
    assert_non_null(strstr(error.message, "the run has no measurement"));
    assert_null(gs_show(gpu, run, "tabel", NULL, &error));
    assert_string_equal(error.message, "unknown format \"tabel\" (did you mean \"table\"?)");
    assert_null(gs_show(gpu, run, "tabel", NULL, NULL));
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST(recorded_programs_are_compared) {
    static const char *const formats[] = {"comparison", "timeline", "html", "svg"};
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_runs *runs = gs_runs_open(test_path("corpus/h200-program-cupy.jsonl.gz"), &error);
    gs_run *run = gs_runs_next(runs, &error);
    assert_non_null(run);
    for (size_t i = 0; i < GS_COUNT(formats); i++) {
        char *text = gs_show(gpu, run, formats[i], NULL, &error);
        if (!text)
            fail_msg("%s: %s", formats[i], error.message);
        gs_string_free(text);
    }
    gs_run_free(run);
    gs_runs_close(runs);
    gs_gpu_free(gpu);
}

TEST(together_is_answered) {
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_run *run = gs_run_new(&error);
    gs_launch_spec mega = {.kernel = "mega", .blocks = 132, .shape = gs_shape_of(256, 168, 200 * 1024)};
    gs_launch_spec nccl = {.kernel = "nccl", .blocks = 16, .shape = gs_shape_of(512, 96, 60 * 1024)};
    char *json = NULL;
    assert_int_equal(gs_run_launch(run, &mega, &error), GS_OK);
    assert_int_equal(gs_together(gpu, run, NULL, NULL, &error), GS_ANSWER_YES);
    assert_int_equal(gs_run_launch(run, &nccl, &error), GS_OK);
    assert_int_equal(gs_together(gpu, run, NULL, &json, &error), GS_ANSWER_NO);
    assert_non_null(strstr(json, "mega with at most 116 blocks (leaves 16 SMs free)"));
    gs_string_free(json);
    gs_together_options options = {.every_order = true, .no_fixes = true};
    assert_int_equal(gs_together(gpu, run, &options, &json, &error), GS_ANSWER_NO);
    assert_non_null(strstr(json, "\"fixes\":[]"));
    gs_string_free(json);
    gs_launch_spec never = {.kernel = "never", .blocks = 1, .shape = gs_shape_of(2048, 32, 0)};
    assert_int_equal(gs_run_launch(run, &never, &error), GS_OK);
    assert_int_equal(gs_together(gpu, run, NULL, &json, &error), GS_ANSWER_ERROR);
    assert_null(json);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

/* ---- threads ---- */

enum { THREADS = 8 };

static void *predict_often(void *gpu) {
    char *first = NULL;
    for (int i = 0; i < 20; i++) {
        gs_run *run = gs_run_new(NULL);
        gs_launch_spec a = spec_of("a", 500), b = spec_of("b", 300);
        a.duration_ns = b.duration_ns = 1000;
        gs_run_launch(run, &a, NULL);
        gs_run_launch(run, &b, NULL);
        char *text = gs_show(gpu, run, "csv", NULL, NULL);
        gs_run_free(run);
        if (first && (!text || strcmp(first, text) != 0)) {
            free(first);
            free(text);
            return NULL;
        }
        free(first);
        first = text;
    }
    return first;
}

TEST(threads_share_a_gpu) {
    gs_error error;
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    pthread_t threads[THREADS];
    void *texts[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, predict_often, gpu), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], &texts[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_non_null(texts[i]);
        assert_string_equal(texts[0], texts[i]);
    }
    for (int i = 0; i < THREADS; i++)
        free(texts[i]);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
