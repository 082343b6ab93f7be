/*
 * test_view.c: the output for people and for programs is complete and well formed.
 */
#include "test.h"

#include "model/timeline/timeline.h"
#include "model/view/scene.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

static gs_run *predict(const gs_gpu *gpu, const gs_run *run) {
    gs_error error;
    gs_run *prediction = gs_predict(gpu, run, NULL, &error);
    if (!prediction)
        fail_msg("%s", error.message);
    return prediction;
}

static char *view(const gs_format *format, const gs_gpu *gpu, const gs_run *run) {
    gs_view view = {.number = 1};
    gs_error error;
    if (format->begin)
        format->begin(&view);
    assert_int_equal(format->run(&view, gpu, run, &error), GS_OK);
    if (format->end)
        format->end(&view);
    assert_false(view.text.failed);
    return view.text.data;
}

/* ---- trace: the rules of Perfetto ---- */

struct slice {
    long thread;
    double from, to;
};

static int compare_slices(const void *a, const void *b) {
    const struct slice *first = a, *second = b;
    if (first->thread != second->thread)
        return first->thread < second->thread ? -1 : 1;
    return (first->from > second->from) - (first->from < second->from);
}

/* Valid JSON; slices of one thread do not overlap; every thread has a name; counters are percentages. Returns the
   number of slices on SMs: of blocks. */
static size_t check_trace(const char *text) {
    json_error_t problem;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        fail_msg("%d:%d: %s", problem.line, problem.column, problem.text);
    const json_t *events = json_object_get(root, "traceEvents");
    struct slice *slices = calloc(json_array_size(events) + 1, sizeof *slices);
    bool *is_named = calloc(5000000, sizeof *is_named);
    size_t count = 0, blocks = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const char *phase = json_string_value(json_object_get(event, "ph"));
        json_int_t thread = json_integer_value(json_object_get(event, "tid"));
        if (strcmp(phase, "M") == 0) {
            is_named[thread] = true;
            continue;
        }
        if (strcmp(phase, "C") == 0) {
            double percent = json_number_value(json_object_get(json_object_get(event, "args"), "percent"));
            assert_true(percent >= 0 && percent <= 100.1);
            continue;
        }
        assert_string_equal(phase, "X");
        assert_true(is_named[thread]);
        blocks += json_integer_value(json_object_get(event, "pid")) >= 10;
        double from = json_number_value(json_object_get(event, "ts"));
        slices[count++] = (struct slice){thread, from, from + json_number_value(json_object_get(event, "dur"))};
    }
    qsort(slices, count, sizeof *slices, compare_slices);
    for (size_t i = 1; i < count; i++)
        assert_true(slices[i].thread != slices[i - 1].thread || slices[i].from >= slices[i - 1].to - 1e-9);
    free(slices);
    free(is_named);
    json_decref(root);
    return blocks;
}

static size_t count_started(const gs_run *run) {
    size_t started = 0;
    for (size_t i = 0; i < run->launches.count; i++)
        for (int64_t block = 0; block < run->launches.data[i].blocks; block++)
            started += gs_run_placed(run, i, block) != GS_WAIT;
    return started;
}

static size_t count_words(const char *text, const char *word) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        count++;
    return count;
}

/* Each SM is in one row; the SMs of a row have the same blocks; a picture has a path for each function in each row. */
static void check_rows(const gs_gpu *gpu, const gs_run *run, const char *svg) {
    gs_scene scene;
    gs_scene_source source = {.gpu = gpu, .run = run};
    assert_int_equal(gs_scene_make(&scene, &source, NULL), GS_OK);
    size_t paths = 0, sms = 0;
    for (size_t i = 0; i < scene.rows.count; i++) {
        const int32_t *of = scene.row_sms + scene.rows.data[i].first;
        const gs_scene_layer *layer = &scene.layers[0];
        bool is_there[64] = {0};
        sms += (size_t)scene.rows.data[i].count;
        for (int32_t j = 1; j < scene.rows.data[i].count; j++) {
            size_t first = layer->first[of[0]], other = layer->first[of[j]], count = layer->first[of[0] + 1] - first;
            assert_int_equal(layer->first[of[j] + 1] - other, count);
            for (size_t k = 0; k < count; k++)
                assert_true(layer->stays.data[first + k].launch == layer->stays.data[other + k].launch &&
                            layer->stays.data[first + k].from == layer->stays.data[other + k].from &&
                            layer->stays.data[first + k].to == layer->stays.data[other + k].to);
        }
        for (size_t k = layer->first[of[0]]; k < layer->first[of[0] + 1]; k++) {
            uint32_t function = scene.operations.data[layer->stays.data[k].launch].function;
            assert_true(function < 64);
            paths += !is_there[function];
            is_there[function] = true;
        }
    }
    assert_int_equal(sms, gpu->sms);
    enum { MOST_NAMED = 21 }; /* with more functions, a column shows the largest */
    if (scene.functions.count <= MOST_NAMED)
        assert_int_equal(count_words(svg, " on SM "), paths);
    else
        assert_non_null(strstr(svg, "rows show the function that takes most"));
    gs_scene_clear(&scene);
}

TEST(every_view_shows_every_block) {
    for (uint64_t index = 0; index < 300; index++) {
        gs_random random = gs_random_at(23, index);
        gs_gpu *gpu = random_gpu(&random, 20);
        gs_run *run = random_run(&random, gpu), *prediction = predict(gpu, run);
        char *trace = view(&gs_format_trace, gpu, prediction), *svg = view(&gs_format_svg, gpu, prediction);
        assert_int_equal(check_trace(trace), count_started(prediction));
        check_rows(gpu, prediction, svg);
        free(trace);
        free(svg);
        gs_run_free(prediction);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
}

/* ---- the other views, on a small run with unusual names ---- */

static const char small[] =
    "{\"schema\":\"gridsmith.run/1\",\"id\":4,\"events\":["
    "{\"op\":\"launch\",\"kernel\":\"a,\\\"b\\\"<&>\",\"blocks\":2,\"threads\":1024,\"registers\":32,\"shared_bytes\":"
    "0},"
    "{\"op\":\"launch\",\"kernel\":\"c\",\"blocks\":82,\"threads\":1024,\"registers\":32,\"shared_bytes\":0},"
    "{\"op\":\"exit\",\"kernel\":\"a,\\\"b\\\"<&>\"}]}";

TEST(csv_has_a_row_a_block) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_run *run = test_run_of(small), *prediction = predict(gpu, run);
    char *csv = view(&gs_format_csv, gpu, prediction);
    assert_int_equal(count_words(csv, "\n"), 1 + 2 + 82 + 82);
    assert_non_null(strstr(csv, "run,id,event,op,kernel,block,sm,start_ns,end_ns\n"
                                "1,4,1,launch,\"a,\"\"b\"\"<&>\",0,0,,\n"
                                "1,4,1,launch,\"a,\"\"b\"\"<&>\",1,2,,\n"
                                "1,4,2,launch,c,0,4,,\n"));
    assert_non_null(strstr(csv, "1,4,2,launch,c,81,,,\n"));
    assert_non_null(strstr(csv, "1,4,4,observe,c,81,2,,\n"));
    free(csv);
    gs_run_free(prediction);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST(names_are_escaped_in_pictures) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_run *run = test_run_of(small), *prediction = predict(gpu, run);
    char *svg = view(&gs_format_svg, gpu, prediction), *trace = view(&gs_format_trace, gpu, prediction);
    assert_null(strstr(svg, "<&>"));
    assert_non_null(strstr(svg, "a,&#34;b&#34;&#60;&#38;&#62;"));
    assert_int_equal(check_trace(trace), 84);
    free(svg);
    free(trace);
    gs_run_free(prediction);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST(the_table_shows_each_event_and_who_waits) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_run *run = test_run_of(small), *prediction = predict(gpu, run);
    char *table = view(&gs_format_table, gpu, prediction);
    assert_string_equal(
        table,
        "run 4, rtx3090, 82 SMs\n"
        "    #  event    kernel     blocks threads regs    shared  started waiting  SM of each block\n"
        "    1  launch   a,\"b\"<&>        2    1024   32         0        2       0  0, 2\n"
        "    2  launch   c              82    1024   32         0       80       2  4, 6, .. 80, 1, 3, .. 81\n"
        "    3  exit     a,\"b\"<&>\n"
        "    4  observe  c                                              82       0  4, 6, .. 80, 1, 3, .. 81, 0, 2\n");
    free(table);
    gs_run_free(prediction);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST(lists_of_numbers_are_short) {
    static const struct {
        int32_t numbers[12];
        size_t count;
        const char *text;
    } rows[] = {
        {{0}, 0, ""},
        {{5}, 1, "5"},
        {{5, 6}, 2, "5, 6"},
        {{5, 6, 7}, 3, "5-7"},
        {{0, 2, 4}, 3, "0, 2, 4"},
        {{0, 2, 4, 6}, 4, "0, 2, .. 6"},
        {{3, 3, 3, 4}, 4, "3 x3, 4"},
        {{6, 4, 2, 0}, 4, "6, 4, .. 0"},
        {{1, 5, 2, 9, 4, 8, 0}, 7, "1, 5, 2, 9, and 3 more"},
    };
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_text text = {0};
        gs_text_put_numbers(&text, rows[i].numbers, rows[i].count, 4);
        assert_string_equal(text.data ? text.data : "", rows[i].text);
        gs_text_free(&text);
    }
}

/* The same text from the numbers and from their runs. */
TEST(runs_of_numbers_are_shown_like_numbers) {
    for (uint64_t index = 0; index < 20000; index++) {
        gs_random random = gs_random_at(3, index);
        int32_t numbers[40], number = 0;
        gs_number_run runs[40];
        size_t count = (size_t)gs_random_from(&random, 0, 40), run_count = 0;
        for (size_t i = 0; i < count; i++) {
            number = gs_random_chance(&random, 70) ? number + (int32_t)gs_random_from(&random, 0, 1)
                                                   : (int32_t)gs_random_from(&random, 0, 4);
            numbers[i] = number;
            if (!run_count || runs[run_count - 1].number != number)
                runs[run_count++] = (gs_number_run){number, 0};
            runs[run_count - 1].count++;
        }
        gs_text wanted = {0}, found = {0};
        int parts = (int)gs_random_from(&random, 1, 12);
        gs_text_put_numbers(&wanted, numbers, count, parts);
        gs_text_put_runs(&found, runs, run_count, (int64_t)count, parts);
        if (count)
            assert_string_equal(found.data, wanted.data);
        gs_text_free(&wanted);
        gs_text_free(&found);
    }
}

/* The table of a brief prediction is that of the whole one. */
TEST(the_table_needs_no_list_of_blocks) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000) / 100;
    for (uint64_t index = 0; index < runs; index++) {
        gs_random random = gs_random_at(5, index);
        gs_gpu *gpu = random_gpu(&random, 50);
        gs_run *run = random_run(&random, gpu);
        for (size_t i = 0; i < run->launches.count; i++)
            run->launches.data[i].blocks *= gs_random_chance(&random, 30) ? 200 : 1;
        gs_run *whole = predict(gpu, run), *brief = gs_predict_brief(gpu, gpu, run, NULL, NULL);
        assert_non_null(brief);
        char *wanted = view(&gs_format_table, gpu, whole), *found = view(&gs_format_table, gpu, brief);
        if (strcmp(wanted, found) != 0)
            fail_msg("index %llu:\n%s\n%s", (unsigned long long)index, wanted, found);
        free(wanted);
        free(found);
        gs_run_free(whole);
        gs_run_free(brief);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
}

/* ---- scenes ---- */

/* The clock of a recording begins in 1970; the view begins with its first block. */
TEST(pictures_of_recordings_begin_with_their_first_block) {
    gs_error error;
    gs_runs *runs = gs_runs_open(test_path("scenarios/h200-urgent.json"), &error);
    gs_run *run = gs_runs_next(runs, &error);
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_played played;
    gs_run *prediction = gs_predict_played(gpu, gpu, run, &(gs_predict_options){.follow = true}, &played, &error);
    gs_scene_source source = {.gpu = gpu, .run = prediction, .measured = run, .played = &played};
    gs_scene scene;
    assert_non_null(prediction);
    assert_int_equal(gs_scene_make(&scene, &source, &error), GS_OK);
    assert_int_equal(scene.from, 0);
    assert_in_range(scene.to, 900000, 1100000);
    assert_int_equal(scene.waits.count, 4);
    for (size_t i = 0; i < scene.waits.count; i++)
        assert_true(scene.waits.data[i].from >= 0 && scene.waits.data[i].to <= scene.to);
    assert_int_equal(scene.counts_differ, 0);
    gs_scene_clear(&scene);
    gs_played_clear(&played);
    gs_run_free(prediction);
    gs_run_free(run);
    gs_runs_close(runs);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
