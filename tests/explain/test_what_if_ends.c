/*
 * test_what_if_ends.c: a what-if has a time only if all of the changed program runs. What never starts is named.
 */
#include "test.h"

#include "model/explain/explain.h"

#include <stdlib.h>
#include <string.h>

/* Ten steps of the same kernels, `k0` and so on, one after the other on up to two streams. */
enum { STEPS = 10, MOST_KERNELS = 4 };

struct step {
    int count;
    struct {
        int32_t blocks, threads, cluster;
        int stream;
    } kernels[MOST_KERNELS];
};

static gs_run *program_of(const struct step *step) {
    gs_text text = {0};
    int id = 0;
    gs_text_add(&text, "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"h200\",\"events\":[");
    for (int i = 0; i < STEPS; i++)
        for (int j = 0; j < step->count; j++, id++)
            gs_text_add(&text,
                        "%s{\"op\":\"launch\",\"id\":%d,\"kernel\":\"k%d\",\"blocks\":%d,\"threads\":%d,"
                        "\"registers\":32,\"shared_bytes\":0,\"cluster\":%d,\"stream\":%d,\"at_us\":%d,"
                        "\"start_us\":%d,\"end_us\":%d}",
                        id ? "," : "", id, j, step->kernels[j].blocks, step->kernels[j].threads,
                        step->kernels[j].cluster, step->kernels[j].stream, 20 * id, 20 * id + 5, 20 * id + 15);
    gs_text_add(&text, "]}");
    gs_run *run = test_run_of(text.data);
    gs_text_free(&text);
    return run;
}

static struct step random_step(gs_random *random) {
    struct step step = {.count = (int)gs_random_from(random, 1, MOST_KERNELS)};
    for (int i = 0; i < step.count; i++) {
        int32_t cluster = 1 << gs_random_from(random, 0, 3);
        step.kernels[i].cluster = cluster;
        step.kernels[i].blocks = cluster * (int32_t)gs_random_from(random, 1, 60);
        step.kernels[i].threads = 32 * (int32_t)gs_random_from(random, 1, 32);
        step.kernels[i].stream = (int)gs_random_from(random, 1, 2);
    }
    return step;
}

static void random_words(gs_random *random, const struct step *step, gs_text *words) {
    int kernel = (int)gs_random_from(random, 0, step->count - 1);
    int sms = (int)gs_random_from(random, 1, gs_random_chance(random, 50) ? 20 : 131);
    if (gs_random_chance(random, 20))
        gs_text_add(words, "sms=k%d:%d", kernel, sms);
    else
        gs_text_add(words, "sms=%d", sms);
    if (gs_random_chance(random, 25))
        gs_text_add(words, ",%s", gs_random_chance(random, 50) ? "graph" : "streams=2");
    if (gs_random_chance(random, 50))
        gs_text_add(words, ",host=never-late");
    if (gs_random_chance(random, 25))
        gs_text_add(words, ",blocks=k%d:%d", kernel, (int)gs_random_from(random, 1, 200));
}

/* Launches of a run that were played and have not ended. */
static size_t count_unended(const gs_gpu *gpu, const gs_run *run) {
    gs_timeline timeline;
    size_t unended = 0;
    assert_int_equal(gs_timeline_play(gpu, gpu, run, NULL, &timeline, NULL), GS_OK);
    for (size_t i = 0; i < timeline.count; i++)
        unended += timeline.operations[i].course.end_ns == GS_NO_TIME;
    gs_timeline_clear(&timeline);
    return unended;
}

/* Of all launches in a green context: a program of nothing but the kernel that never starts has no end either. */
static void check_alone(const gs_gpu *gpu, const struct step *step, int kernel, const char *words) {
    const struct step alone = {.count = 1, .kernels = {step->kernels[kernel]}};
    gs_what_if what_if;
    char sms[24];
    if (sscanf(words, "sms=%7[0-9]", sms) != 1)
        return;
    char own[40];
    snprintf(own, sizeof own, "sms=%s", sms);
    gs_run *run = program_of(&alone);
    assert_int_equal(gs_what_if_read(own, &what_if, NULL), GS_OK);
    assert_null(gs_changed_part(gpu, gpu, run, NULL, &what_if, NULL));
    gs_run_free(run);
}

/* Returns whether the what-if has an end. Kernels without clusters, of at most 1024 threads, start on any SM. */
static bool check_what_if(const gs_gpu *gpu, const struct step *step, const char *words) {
    gs_run *run = program_of(step);
    gs_what_if what_if;
    gs_error error = {0};
    gs_explained explained;
    assert_int_equal(gs_what_if_read(words, &what_if, &error), GS_OK);
    const gs_explain_options options = {.what_ifs = &what_if, .what_if_count = 1};
    assert_int_equal(gs_explain(gpu, gpu, run, &options, &explained, &error), GS_OK);
    gs_run *changed = gs_changed_part(gpu, gpu, run, NULL, &what_if, &error);
    const gs_outcome *outcome = &explained.outcomes[0];
    const gs_stuck *stuck = &outcome->stuck;
    if (stuck->kernel) {
        int kernel = atoi(stuck->kernel + 1);
        assert_null(changed);
        assert_int_equal(error.code, GS_E_USAGE);
        assert_non_null(strstr(error.message, "of a step never start"));
        assert_int_equal(outcome->least_ns, 0);
        assert_int_equal(outcome->most_ns, 0);
        assert_int_equal(outcome->unscheduled_ns, 0);
        assert_int_equal(stuck->launches, 1);
        assert_in_range(stuck->behind, 0, step->count - 1);
        assert_true(stuck->cluster > 1);
        assert_int_equal(stuck->cluster, step->kernels[kernel].cluster);
        check_alone(gpu, step, kernel, words);
    } else {
        assert_non_null(changed);
        assert_int_equal(count_unended(gpu, changed), 0);
        assert_true(outcome->least_ns > 0 && outcome->most_ns >= outcome->least_ns);
    }
    bool has_end = !stuck->kernel;
    gs_run_free(changed);
    gs_explained_clear(&explained);
    gs_run_free(run);
    return has_end;
}

TEST(a_what_if_has_a_time_or_names_what_never_starts) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    int ended = 0, count = test_is_brief() ? 50 : 200;
    for (uint64_t i = 0; i < (uint64_t)count; i++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 3), i);
        struct step step = random_step(&random);
        gs_text words = {0};
        random_words(&random, &step, &words);
        ended += check_what_if(gpu, &step, words.data);
        gs_text_free(&words);
    }
    assert_in_range(ended, count / 10, count - count / 10);
    gs_gpu_free(gpu);
}

/* Eight blocks of 1024 threads do not fit in one SM. */
TEST(clusters_need_sms_for_all_their_blocks) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    const struct step step = {3, {{132, 256, 1, 1}, {64, 1024, 8, 1}, {132, 256, 1, 1}}};
    gs_run *run = program_of(&step);
    gs_what_if what_if;
    gs_error error = {0};
    assert_int_equal(gs_what_if_read("graph,sms=1", &what_if, &error), GS_OK);
    assert_null(gs_changed_part(gpu, gpu, run, NULL, &what_if, &error));
    assert_string_equal(error.message, "graph,sms=1: 1 launch of a step never starts: k1 (clusters of 8 blocks); "
                                       "what waits for that never ends");
    assert_false(check_what_if(gpu, &step, "sms=1"));
    assert_true(check_what_if(gpu, &step, "sms=131"));
    assert_false(check_what_if(gpu, &step, "sms=k1:1"));
    assert_true(check_what_if(gpu, &step, "sms=k0:1"));
    gs_run_free(run);
    gs_gpu_free(gpu);
}

/* Clusters of 8 blocks in a recorded green context of one SM, which cannot be: nothing is advised. */
TEST(a_program_that_never_ends_is_refused) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    const struct step step = {2, {{132, 256, 1, 1}, {64, 1024, 8, 1}}};
    gs_run *run = program_of(&step), *changed;
    gs_what_if what_if;
    gs_error error = {0};
    gs_explained explained;
    const gs_explain_options options = {.has_advice = true};
    assert_int_equal(gs_what_if_read("sms=k0:131", &what_if, &error), GS_OK);
    for (size_t i = 1; i < run->launches.count; i += 2)
        run->launches.data[i].cluster = 1;
    changed = gs_changed_part(gpu, gpu, run, NULL, &what_if, &error);
    assert_non_null(changed);
    for (size_t i = 1; i < changed->launches.count; i += 2)
        changed->launches.data[i].cluster = 8;
    assert_int_equal(gs_explain(gpu, gpu, changed, &options, &explained, &error), GS_E_USAGE);
    assert_string_equal(
        error.message,
        "the program cannot be played on h200, 132 SMs: 1 launch of a step never starts: k1 (clusters of 8 blocks)");
    gs_run_free(changed);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
