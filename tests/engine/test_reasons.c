/*
 * test_reasons.c: why kernels wait, in sentences. Random runs are played on random GPUs, and at some points it is said
 * why each kernel waits that does. What is said is compared with tests/engine/reasons.txt. A change of it should be one
 * that was meant: with GRIDSMITH_WRITE=1 the file is written anew.
 *
 * What must hold for each sentence is checked, too: an SM is named once, and only if it can be said what it lacks.
 */
#include "test.h"

#include "lab/device/device.h"
#include "model/engine/engine.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

enum { CASES = 260, MOST_LINES = 2, RUNS = 4 };

/* A run that is not timed keeps what it started until it is told to end it. */
static gs_run *draw_run(gs_random *random, const gs_gpu *gpu) {
    static const char *const classes[] = {"small", "shared", "local", "cluster", "carveout", "cooperative", "mixed"};
    gs_bounds bounds = gs_bounds_of(gpu, gpu->grants.cluster_first.count ? 8 : 1);
    int64_t which = gs_random_from(random, 0, 2 * GS_COUNT(classes));
    if (which < (int64_t)GS_COUNT(classes))
        return gs_generate(&bounds, classes[which], 43, gs_random_next(random), NULL);
    return which % 2 ? random_modern_run(random, gpu) : random_run(random, gpu);
}

/* After "SMs " or "SM ", the numbers of one sentence, each once; "every SM" stands alone. */
static void check_sms(const char *reason, int32_t sms) {
    bool is_named[GS_MAX_SMS] = {false};
    for (const char *at = reason; (at = strstr(at, "SMs ")); at += 4)
        for (char *end = (char *)(uintptr_t)at + 4; *end >= '0' && *end <= '9';) {
            long from = strtol(end, &end, 10), to = from;
            if (*end == '-')
                to = strtol(end + 1, &end, 10);
            assert_true(from <= to && to < sms);
            for (; from <= to && !strstr(reason, "starts on"); from++) {
                assert_false(is_named[from]);
                is_named[from] = true;
            }
            end += strncmp(end, ", ", 2) == 0 ? 2 : 0;
        }
}

/* The sentences of a case, one a line. */
struct lines {
    gs_text text;
    int count;
};

static void add_reason(struct lines *lines, gs_engine *engine, const gs_run *run, size_t launch) {
    gs_text reason = {0};
    gs_why_with_numbers(engine, run, launch, &reason);
    if (reason.count && !(lines->text.data && strstr(lines->text.data, reason.data))) {
        check_sms(reason.data, gs_dispatcher_state(gs_engine_dispatcher(engine))->gpu->sms);
        gs_text_add(&lines->text, "%s\n", reason.data);
        lines->count++;
    }
    gs_text_free(&reason);
}

/* Most kernels wait for others in the queue. Of these few are asked. */
static void add_reasons(struct lines *lines, gs_random *random, gs_engine *engine, const gs_run *run,
                        const bool *is_launched) {
    for (size_t i = 0; i < run->launches.count && lines->count < MOST_LINES; i++) {
        size_t other;
        gs_hold hold = is_launched[i] ? gs_engine_hold(engine, i, &other) : GS_HOLD_NONE;
        if (hold == GS_HOLD_HEADROOM || gs_random_chance(random, 10))
            add_reason(lines, engine, run, i);
    }
}

static void play_run(struct lines *lines, gs_random *random, const gs_gpu *gpu, const gs_run *run) {
    gs_error error = {.code = GS_OK};
    gs_engine *engine = gs_engine_new(gpu, run, &(gs_engine_hooks){0}, &error);
    bool *is_launched = calloc(run->launches.count + 1, sizeof *is_launched);
    gs_code code = engine ? GS_OK : error.code;
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_LAUNCH)
            code = gs_engine_launch(engine, event->launch, &error);
        else if (event->op == GS_EXIT)
            code = gs_engine_exit(engine, event->launch, &error);
        if (event->op == GS_LAUNCH)
            is_launched[event->launch] = true;
        if (code == GS_OK && gs_random_chance(random, 20))
            add_reasons(lines, random, engine, run, is_launched);
    }
    if (code == GS_OK)
        add_reasons(lines, random, engine, run, is_launched);
    else
        gs_text_add(&lines->text, "%s\n", error.message);
    gs_engine_free(engine);
    free(is_launched);
}

/* What is said of a case, of some runs on one GPU. */
static void play_case(struct lines *lines, uint64_t index) {
    gs_random random = gs_random_at(42, index);
    gs_gpu *gpu = random_gpu(&random, 30);
    for (int i = 0; i < RUNS && lines->count < MOST_LINES; i++) {
        gs_run *run = draw_run(&random, gpu);
        assert_non_null(run);
        play_run(lines, &random, gpu, run);
        gs_run_free(run);
    }
    gs_gpu_free(gpu);
}

TEST(reasons_are_as_before) {
    bool is_written = test_number("GRIDSMITH_WRITE", 0) != 0;
    FILE *file = fopen(test_path("tests/engine/reasons.txt"), is_written ? "w" : "r");
    assert_non_null(file);
    int number = 0;
    for (uint64_t i = 0; i < CASES; i++) {
        struct lines lines = {.count = 0};
        play_case(&lines, i);
        for (char *line = lines.text.data, *end; line && *line; line = end) {
            char wanted[4000] = "";
            end = strchr(line, '\n') + 1;
            number++;
            if (is_written)
                fwrite(line, 1, (size_t)(end - line), file);
            else if (!fgets(wanted, sizeof wanted, file) || strncmp(line, wanted, (size_t)(end - line)) != 0)
                fail_msg("reasons.txt:%d: case %d: now %.*s", number, (int)i, (int)(end - line), line);
        }
        gs_text_free(&lines.text);
    }
    fclose(file);
}

TEST_MAIN(NULL, NULL)
