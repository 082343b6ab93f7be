/*
 * test_readings.c: what is read from files of runs, and what is said of those that are not right, is as before
 * (tests/run/readings.txt).
 *
 * Scenarios, random programs and predictions are written in both forms, and changed at one place at random. What is
 * then refused is refused with the same place and words; what is read is the same run: written again, of one GPU,
 * selected, with short names. So are launches as words of a command line.
 */
#include "answers.h"

#include "lab/device/device.h"
#include "model/gpu/gpu.h"
#include "random.h"
#include "spoiled.h"

#include <stdlib.h>
#include <string.h>

static uint64_t add_run(uint64_t hash, const gs_run *run) {
    gs_text text = {0}, lines = {0};
    if (!run)
        return answers_add(hash, -1);
    gs_run_text(run, &text);
    gs_run_lines(run, &lines);
    hash = answers_add_text(answers_add_text(hash, &text), &lines);
    gs_text_free(&text);
    gs_text_free(&lines);
    return hash;
}

/* A run, or an error; frees the run. */
static uint64_t add_result(uint64_t hash, gs_run *run, const gs_error *error) {
    hash = run ? add_run(hash, run) : spoiled_error(hash, error);
    gs_run_free(run);
    return hash;
}

/* What is made of a run that was read. */
static uint64_t add_uses(uint64_t hash, gs_run *run, gs_random *random) {
    static const char *const patterns[] = {"*", "k1", "k?,mega", "*c*", "k[2-4],k1?", "none"};
    gs_error error = {.code = GS_OK};
    gs_short_names names = {0};
    size_t picked[3] = {0};
    hash = spoiled_error(hash, gs_run_check_devices(run, &error) == GS_OK ? &(gs_error){.code = GS_OK} : &error);
    for (int64_t device = -1; (device = gs_run_next_device(run, device)) != GS_NOT_GIVEN;)
        hash = add_result(answers_add(hash, device), gs_run_of_device(run, device, &error), &error);
    hash = spoiled_error(hash, gs_run_is_recorded(run, &error) == GS_OK ? &(gs_error){.code = GS_OK} : &error);
    hash = add_result(hash, gs_run_select(run, patterns[gs_random_from(random, 0, GS_COUNT(patterns) - 1)], &error),
                      &error);
    for (size_t i = 0; i < GS_COUNT(picked) && run->launches.count; i++)
        picked[i] = (size_t)gs_random_from(random, 0, (int64_t)run->launches.count - 1);
    if (run->launches.count)
        hash = add_result(hash, gs_run_pick(run, picked, GS_COUNT(picked), &error), &error);
    hash = add_result(hash, gs_run_copy(run, &error), &error);
    gs_text assumed = {0};
    gs_run_put_assumed(run, &assumed);
    hash = answers_add_text(hash, &assumed);
    gs_text_free(&assumed);
    hash = answers_add(hash, gs_run_name_apart(run, &error));
    hash = add_run(hash, run);
    hash = answers_add(hash, gs_run_shorten(run, &names, &error));
    hash = add_run(hash, run);
    gs_short_names_clear(&names);
    return hash;
}

static uint64_t hash_text(const char *text, size_t count, gs_random *random) {
    gs_error error = {.code = GS_OK};
    gs_runs *runs = gs_runs_memory("runs", text, count, &error);
    uint64_t hash = 0;
    for (gs_run *run; runs && (run = gs_runs_next(runs, &error));) {
        hash = add_uses(add_run(hash, run), run, random);
        gs_run_free(run);
    }
    gs_runs_close(runs);
    return spoiled_error(hash, &error);
}

/* ---- texts ---- */

static gs_text read_file(const char *path) {
    char *bytes = NULL;
    size_t count = 0;
    gs_text text = {0};
    assert_int_equal(gs_input_all(test_path(path), 1 << 20, &bytes, &count, NULL), GS_OK);
    gs_text_put(&text, bytes, count);
    free(bytes);
    return text;
}

/* A random run, or what is predicted of it, as a value or as lines. */
static gs_text draw_text(gs_random *random) {
    gs_gpu *gpu = random_gpu(random, 30);
    int64_t kind = gs_random_from(random, 0, 4);
    gs_run *run = kind == 0   ? random_run(random, gpu)
                  : kind == 1 ? random_modern_run(random, gpu)
                  : kind == 2 ? random_graph(random, gpu)
                              : random_program(random, gpu);
    gs_error error = {.code = GS_OK};
    gs_predict_options options = {.explain = gs_random_chance(random, 50)};
    gs_run *predicted = gs_random_chance(random, 40) ? gs_predict(gpu, run, &options, &error) : NULL;
    gs_text text = {0};
    if (gs_random_chance(random, 50))
        gs_run_text(predicted ? predicted : run, &text);
    else
        gs_run_lines(predicted ? predicted : run, &text);
    gs_run_free(predicted);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return text;
}

/* The text itself, and with mistakes. */
static void expect_readings(const gs_text *text, gs_random *random, int mistakes) {
    answers_expect(hash_text(text->data, text->count, random));
    for (int i = 0; i < mistakes; i++) {
        gs_text other = spoiled(random, text->data, text->count);
        answers_expect(hash_text(other.data, other.count, random));
        gs_text_free(&other);
    }
}

TEST(runs_are_read_as_before) {
    static const char *const scenarios[] = {"case-1.1",
                                            "h200-cluster-split",
                                            "h200-connections",
                                            "h200-cooperative-order",
                                            "h200-given-warps",
                                            "h200-given",
                                            "h200-graph-contexts",
                                            "h200-graph-memory",
                                            "h200-programmatic",
                                            "h200-streams",
                                            "h200-turn",
                                            "local-memory",
                                            "persistent-and-nccl",
                                            "priorities",
                                            "recorded-collective",
                                            "timed-4.1"};
    enum { PROGRAMS = 120, BRIEF_PROGRAMS = 50, MISTAKES = 12 };
    answers_open("tests/run/readings.txt");
    for (size_t i = 0; i < GS_COUNT(scenarios); i++) {
        gs_random random = gs_random_at(17, i);
        char path[80];
        snprintf(path, sizeof path, "scenarios/%s.json", scenarios[i]);
        gs_text text = read_file(path);
        answers_begin(scenarios[i]);
        expect_readings(&text, &random, test_is_brief() ? 2 * MISTAKES : 6 * MISTAKES);
        answers_end();
        gs_text_free(&text);
    }
    answers_begin("programs");
    for (uint64_t i = 0; i < (test_is_brief() ? BRIEF_PROGRAMS : PROGRAMS); i++) {
        gs_random random = gs_random_at(18, i);
        gs_text text = draw_text(&random);
        expect_readings(&text, &random, MISTAKES);
        gs_text_free(&text);
    }
    answers_end();
    answers_close();
}

/* ---- words of a command line ---- */

static uint64_t hash_word(const char *word) {
    gs_launch launch = gs_launch_default();
    gs_error error = {.code = GS_OK};
    gs_run *run = gs_run_new(NULL);
    uint64_t hash = answers_add(0, gs_is_launch_word(word));
    if (gs_launch_of_word(word, &launch, &error) != GS_OK) {
        hash = spoiled_error(hash, &error);
        gs_launch_clear(&launch);
    } else {
        hash = answers_add(hash, launch.assumed);
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
        hash = add_run(hash, run);
    }
    gs_run_free(run);
    return hash;
}

TEST(words_are_read_as_before) {
    static const char *const parts[] = {"k",
                                        "mega",
                                        "=",
                                        "132",
                                        "x32",
                                        "x8",
                                        ",",
                                        ",r168",
                                        ",r40",
                                        ",r0",
                                        ",r65537",
                                        ",s200K",
                                        ",s0",
                                        ",s1M",
                                        ",l64",
                                        ",l0",
                                        ",c2",
                                        ",c1",
                                        ",c4097",
                                        ",p-1",
                                        ",p1001",
                                        ",q1",
                                        "K",
                                        "M",
                                        "1",
                                        "0",
                                        "-",
                                        ".5",
                                        " ",
                                        "4096",
                                        "b",
                                        "B",
                                        ",regs=96",
                                        ",smem=1K",
                                        ",shared=10KB",
                                        ",local=",
                                        ",registers",
                                        ",cluster=4",
                                        ",priority=-1000",
                                        ",carveout=100",
                                        ",carveout=101",
                                        "99999999999999999999",
                                        "2147483648",
                                        ",r=1",
                                        "%"};
    enum { WORDS = 3000, BRIEF_WORDS = 1500 };
    answers_open("tests/run/words.txt");
    answers_begin("words");
    for (uint64_t i = 0; i < (test_is_brief() ? BRIEF_WORDS : WORDS); i++) {
        gs_random random = gs_random_at(19, i);
        char word[200];
        int64_t blocks = gs_random_from(&random, 0, 200), threads = gs_random_from(&random, 0, 1100);
        int length = gs_random_chance(&random, 80) ? snprintf(word, sizeof word, "k%d=%lldx%lld", (int)(i % 3),
                                                              (long long)blocks, (long long)threads)
                                                   : 0;
        for (int64_t more = gs_random_from(&random, 0, 4); more > 0; more--)
            length += snprintf(word + length, sizeof word - (size_t)length, "%s",
                               parts[gs_random_from(&random, 0, GS_COUNT(parts) - 1)]);
        word[length] = '\0';
        answers_expect(hash_word(word));
    }
    answers_end();
    answers_close();
}

TEST_MAIN(NULL, NULL)
