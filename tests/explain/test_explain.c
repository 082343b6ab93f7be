/*
 * test_explain.c: the account of a program's time is right and adds up, its steps are found, and a change takes as long
 * as it must.
 *
 * The account is compared with one that asks at each nanosecond what happens, on random programs.
 */
#include "test.h"

#include "model/explain/explain.h"

#include <stdlib.h>
#include <string.h>

/* ---- the account, literally ---- */

enum { LATENCY = 3, GAP = 2, SLACK = 10000 };

static const gs_pace pace = {LATENCY, {GAP, GAP, GAP, GAP, 0}};

static bool runs_at(const gs_issue *issue, int64_t now_ns) {
    return gs_measured_ns(issue) && issue->start_ns <= now_ns && now_ns < issue->end_ns;
}

/* What the GPU does at a nanosecond: -1 busy, or why it is idle. */
static int state_at(const gs_run *run, const gs_freed *freed, int64_t now_ns) {
    size_t launches = run->launches.count, count = launches + run->copies.count, next = SIZE_MAX;
    bool copies = false;
    for (size_t i = 0; i < count; i++) {
        const gs_issue *issue = gs_run_issue(run, i);
        if (i < launches && runs_at(issue, now_ns))
            return -1;
        copies = copies || runs_at(issue, now_ns);
        if (gs_measured_ns(issue) && issue->start_ns > now_ns &&
            (next == SIZE_MAX || issue->start_ns < gs_run_issue(run, next)->start_ns))
            next = i;
    }
    if (copies)
        return GS_IDLE_COPY;
    if (next == SIZE_MAX)
        return GS_IDLE_HOST;
    int64_t arrived_ns = gs_run_issue(run, next)->at_ns + LATENCY;
    if (now_ns < arrived_ns)
        return GS_IDLE_HOST;
    if (now_ns >= gs_max(arrived_ns, freed[next].ready_ns) + SLACK)
        return GS_IDLE_OTHER;
    bool is_late = freed[next].freed_ns == GS_NO_TIME || arrived_ns > freed[next].freed_ns;
    return is_late ? GS_IDLE_HOST : GS_IDLE_GAP;
}

static gs_issue random_issue(gs_random *random, int64_t *at_ns, int64_t longest) {
    gs_issue issue = gs_issue_none();
    *at_ns += gs_random_from(random, 0, 20);
    issue.at_ns = *at_ns;
    issue.start_ns = *at_ns + gs_random_from(random, 0, longest);
    issue.end_ns = issue.start_ns + gs_random_from(random, 0, 30);
    return issue;
}

/* Times need not be possible: the account must add up whatever a recorder writes. */
static gs_run *random_program(gs_random *random, int64_t longest) {
    gs_run *run = gs_run_new(NULL);
    int64_t at_ns = 0;
    char id[24];
    for (int64_t i = gs_random_from(random, 1, 12); i > 0; i--) {
        char *streams[] = {"1", "2"};
        snprintf(id, sizeof id, "%lld", (long long)i);
        if (gs_random_chance(random, 70)) {
            gs_launch launch = gs_launch_default();
            launch.kernel = "k";
            launch.blocks = gs_random_from(random, 1, 2000);
            launch.shape = (gs_shape){.threads = 128, .registers = 32, .carveout_percent = GS_NO_CARVEOUT};
            launch.stream = streams[gs_random_from(random, 0, 1)];
            launch.issue = random_issue(random, &at_ns, longest);
            launch.issue.id = id;
            assert_int_equal(gs_run_copy_launch(run, &launch, NULL), GS_OK);
        } else {
            gs_copy copy = {.stream = streams[gs_random_from(random, 0, 1)], .bytes = 8};
            copy.issue = random_issue(random, &at_ns, longest);
            copy.issue.id = id;
            assert_int_equal(gs_run_add_copy(run, &copy, NULL), GS_OK);
        }
    }
    return run;
}

static void compare_account(const gs_run *run, const gs_part *part) {
    gs_sequence order;
    gs_time_account account;
    gs_timeline played = {.count = run->launches.count + run->copies.count, .pace = pace};
    played.operations = calloc(played.count + 1, sizeof *played.operations);
    gs_freed *freed = gs_freed_times(run, &pace, NULL);
    int64_t busy_ns = 0, idle_ns[GS_IDLES] = {0}, sum_ns;
    assert_int_equal(gs_sequence_of(run, &order, NULL), GS_OK);
    assert_int_equal(gs_time_account_of(run, &order, part, &played, &account, NULL), GS_OK);
    for (int64_t now_ns = part->from_ns; now_ns < part->to_ns; now_ns++) {
        int state = state_at(run, freed, now_ns);
        *(state < 0 ? &busy_ns : &idle_ns[state]) += 1;
    }
    assert_int_equal(account.busy_ns, busy_ns);
    sum_ns = account.busy_ns;
    for (int i = 0; i < GS_IDLES; i++) {
        assert_int_equal(account.idle_ns[i], idle_ns[i]);
        sum_ns += account.idle_ns[i];
    }
    assert_int_equal(sum_ns, account.span_ns);
    gs_sequence_clear(&order);
    gs_timeline_clear(&played);
    free(freed);
}

TEST(the_account_is_what_happens_at_each_nanosecond) {
    for (uint64_t i = 0; i < 600; i++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 3), i);
        gs_run *run = random_program(&random, i % 50 ? 60 : 25000);
        int64_t from_ns = gs_random_from(&random, 0, 100);
        gs_part part = {.last = run->launches.count + run->copies.count,
                        .from_ns = from_ns,
                        .to_ns = from_ns + gs_random_from(&random, 1, i % 50 ? 250 : 30000)};
        compare_account(run, &part);
        gs_run_free(run);
    }
}

/* ---- programs of steps ---- */

/* A program: 5 operations of start-up, then steps of three launches of 1 us that the host issues `host_ns` apart, and a
   copy. Kernels start 5 us after they are issued. The first step is slower. */
static gs_run *program_of_steps(int steps, int64_t host_ns) {
    gs_text text = {0};
    int64_t at_ns = 0;
    int id = 0;
    gs_text_add(&text, "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"h200\",\"events\":[");
    for (int i = -5; i < 4 * steps; i++) {
        int64_t start_ns = at_ns + 5000;
        const char *name = i < 0 ? "start" : i % 4 == 0 ? "one" : i % 4 == 1 ? "two" : "three";
        gs_text_add(&text, id ? "," : "");
        if (i >= 0 && i % 4 == 3)
            gs_text_add(&text, "{\"op\":\"copy\",\"id\":%d,\"stream\":1,\"bytes\":64", id);
        else
            gs_text_add(&text,
                        "{\"op\":\"launch\",\"id\":%d,\"kernel\":\"%s\",\"blocks\":%d,\"threads\":256,\"registers\":32,"
                        "\"shared_bytes\":0,\"stream\":1",
                        id, name, i < 0 ? 1 + i * i : 132);
        gs_text_add(&text, ",\"at_us\":%g,\"start_us\":%g,\"end_us\":%g}", (double)at_ns / 1000,
                    (double)start_ns / 1000, (double)start_ns / 1000 + 1);
        at_ns += i < 4 ? 3 * host_ns : host_ns;
        id++;
    }
    gs_text_add(&text, "]}");
    gs_run *run = test_run_of(text.data);
    gs_text_free(&text);
    return run;
}

static gs_explained explain_options(const gs_run *run, const gs_explain_options *options) {
    gs_explained explained;
    gs_error error = {0};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    assert_int_equal(gs_explain(gpu, gpu, run, options, &explained, &error), GS_OK);
    gs_gpu_free(gpu);
    return explained;
}

static gs_explained explain_run(const gs_run *run, const char *range, const gs_what_if *what_if) {
    return explain_options(
        run, &(gs_explain_options){.range = range, .what_ifs = what_if, .what_if_count = what_if ? 1 : 0});
}

TEST(steps_are_found_without_start_up) {
    gs_run *run = program_of_steps(8, 10000);
    gs_explained explained = explain_run(run, NULL, NULL);
    assert_int_equal(explained.part.period, 4);
    assert_int_equal(explained.part.first, 9); /* five operations and the slow step */
    assert_int_equal(gs_part_steps(&explained.part), 6);
    assert_int_equal(explained.step_ns, 40000);
    assert_int_equal(explained.account.busy_ns, 6 * 3000);
    assert_int_equal(explained.account.idle_ns[GS_IDLE_COPY], 6 * 1000);
    assert_int_equal(explained.account.idle_ns[GS_IDLE_HOST], 6 * 36000);
    assert_int_equal(explained.kernels.count, 3);
    assert_int_equal(explained.kernels.data[0].launches, 6);
    gs_explained_clear(&explained);
    explained = explain_run(run, "steps=2-3", NULL);
    assert_int_equal(explained.part.first, 13);
    assert_int_equal(gs_part_steps(&explained.part), 2);
    gs_explained_clear(&explained);
    explained = explain_run(run, "all", NULL);
    assert_int_equal(explained.part.last, 5 + 32);
    gs_explained_clear(&explained);
    gs_run_free(run);
}

static gs_run *changed_run(const gs_run *run, const char *words) {
    gs_what_if what_if;
    gs_error error = {0};
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    assert_int_equal(gs_what_if_read(words, &what_if, &error), GS_OK);
    gs_run *changed = gs_changed_part(gpu, gpu, run, NULL, &what_if, &error);
    assert_non_null(changed);
    gs_gpu_free(gpu);
    return changed;
}

static gs_code refuse_range(const gs_run *run, const char *range, const char *words) {
    gs_explained explained;
    gs_error error = {0};
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_explain_options options = {.range = range};
    gs_code code = gs_explain(gpu, gpu, run, &options, &explained, &error);
    assert_string_equal(error.message, words);
    gs_gpu_free(gpu);
    return code;
}

/* Steps of 40 us from 230 us on, each with a range; a range in each step, and one around two launches of start-up. */
TEST(ranges_are_parts) {
    gs_run *run = program_of_steps(8, 10000);
    assert_int_equal(refuse_range(run, "nvtx=step", "nvtx=step: the recording has no named ranges"), GS_E_USAGE);
    char name[24];
    for (int64_t i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "step#%d", (int)i + 5);
        gs_run_add_range(run, name, 270000 + i * 40000, 310000 + i * 40000, NULL);
        gs_run_add_range(run, "inner", 270000 + i * 40000, 290000 + i * 40000 + (i == 2), NULL);
    }
    gs_run_add_range(run, "start:up", 0, 40000, NULL);
    gs_explained explained = explain_run(run, "nvtx=step", NULL);
    assert_int_equal(explained.part.first, 9);
    assert_int_equal(explained.part.period, 4);
    assert_int_equal(gs_part_steps(&explained.part), 5); /* without the last */
    assert_int_equal(explained.ranges.count, 2);
    assert_string_equal(explained.ranges.data[0].name, "step");
    assert_int_equal(explained.ranges.data[0].ranges, 5);
    assert_int_equal(explained.ranges.data[0].launches, 15);
    assert_int_equal(explained.ranges.data[0].kernel_ns, 15000);
    assert_string_equal(explained.ranges.data[1].name, "inner");
    assert_int_equal(explained.ranges.data[1].kernel_ns, 11000); /* one is longer */
    gs_explained_clear(&explained);
    explained = explain_run(run, "nvtx=in*", NULL); /* the one of median length */
    assert_int_equal(explained.part.last - explained.part.first, 2);
    assert_int_equal(explained.part.ranges, 6);
    assert_int_equal(explained.part.range, 5);
    assert_string_equal(explained.part.name, "inner");
    gs_explained_clear(&explained);
    explained = explain_run(run, "nvtx=inner:2", NULL);
    assert_int_equal(explained.part.first, 13);
    assert_int_equal(explained.part.to_ns - explained.part.from_ns, 11000);
    gs_explained_clear(&explained);
    explained = explain_run(run, "nvtx=start:up", NULL);
    assert_int_equal(explained.part.last, 2);
    gs_explained_clear(&explained);
    gs_run *changed = changed_run(run, "host=2x"); /* all takes half as long */
    assert_int_equal(changed->ranges.count, 12);
    assert_string_equal(changed->ranges.data[2].name, "step#6");
    assert_int_equal(changed->ranges.data[2].from_ns, 20000);
    assert_int_equal(changed->ranges.data[2].to_ns, 40000);
    gs_run_free(changed);
    assert_int_equal(refuse_range(run, "nvtx=inner:7", "there are 6 such ranges, not 7"), GS_E_USAGE);
    assert_int_equal(refuse_range(run, "nvtx=none",
                                  "nvtx=none: nothing was issued in a range of this name; the first "
                                  "range is step#5"),
                     GS_E_USAGE);
    gs_run_free(run);
}

/* Numbers after # are not part of a kind, wherever they are; others are. */
TEST(ranges_of_a_kind_are_one_row) {
    gs_run *run = program_of_steps(8, 10000);
    char name[24];
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "batch #%d of 3#%d", i + 8, i);
        gs_run_add_range(run, name, 270000 + i * 40000, 310000 + i * 40000, NULL);
    }
    gs_run_add_range(run, "#1", 270000, 280000, NULL);
    gs_run_add_range(run, "# one", 310000, 320000, NULL);
    gs_explained explained = explain_run(run, "nvtx=batch # of 3", NULL);
    assert_int_equal(gs_part_steps(&explained.part), 5);
    assert_int_equal(explained.ranges.count, 3);
    assert_string_equal(explained.ranges.data[0].name, "batch # of 3");
    assert_int_equal(explained.ranges.data[0].ranges, 5);
    assert_string_equal(explained.ranges.data[1].name, "#");
    assert_string_equal(explained.ranges.data[2].name, "# one");
    gs_explained_clear(&explained);
    gs_run_free(run);
}

/* `step_ns`: how long a step takes without a recorder; 0: as recorded. */
static gs_outcome try_without_recorder(const gs_run *run, const char *words, int64_t step_ns) {
    gs_what_if what_if;
    gs_error error = {0};
    assert_int_equal(gs_what_if_read(words, &what_if, &error), GS_OK);
    gs_explained explained =
        explain_options(run, &(gs_explain_options){.step_ns = step_ns, .what_ifs = &what_if, .what_if_count = 1});
    gs_outcome outcome = explained.outcomes[0];
    gs_explained_clear(&explained);
    return outcome;
}

static gs_outcome try_words(const gs_run *run, const char *words) {
    return try_without_recorder(run, words, 0);
}

/* The GPU takes 4 us for a step, and the gaps between its operations. */
TEST(a_step_takes_as_long_as_the_host_or_the_gpu) {
    gs_run *run = program_of_steps(10, 10000);
    assert_int_equal(try_words(run, "host=2x").least_ns, 20000);
    assert_int_equal(try_words(run, "host=0.5x").least_ns, 80000);
    gs_outcome never_late = try_words(run, "host=never-late"), graph = try_words(run, "graph");
    assert_true(never_late.least_ns >= 4000 && never_late.least_ns <= 12000);
    assert_int_equal(never_late.least_ns, never_late.most_ns);
    assert_int_equal(graph.least_ns, 10000); /* the call takes longer than the graph */
    gs_outcome both = try_words(run, "graph,host=never-late");
    assert_true(both.least_ns >= 4000 && both.least_ns <= never_late.least_ns);
    assert_int_equal(try_words(run, "sms=112").least_ns, 40000);
    gs_run_free(run);
}

/* Two steps at a time: nothing is lost, or all that is gained. */
/* Launches that take 4 us instead of 1. */
static void take_longer(gs_run *run) {
    for (size_t i = 0; i < run->launches.count; i++)
        run->launches.data[i].issue.end_ns += 3000;
}

TEST(steps_side_by_side_have_an_interval) {
    gs_run *run = program_of_steps(10, 10000);
    take_longer(run);
    gs_outcome one = try_words(run, "host=never-late"), two = try_words(run, "host=never-late,streams=2");
    assert_true(two.least_ns < one.least_ns);
    assert_true(two.most_ns > two.least_ns);
    gs_outcome apart = try_words(run, "host=never-late,streams=t*o"),
               same = try_words(run, "host=never-late,streams=1");
    assert_true(apart.least_ns < one.least_ns);
    assert_int_equal(same.least_ns, one.least_ns);
    gs_run_free(run);
}

/* Not by kernels that do nearly nothing, nor by those that have few SMs, and others of their own. */
TEST(what_cannot_be_lost_is_not_in_the_interval) {
    gs_run *run = program_of_steps(10, 10000);
    gs_outcome brief = try_words(run, "host=never-late,streams=2");
    assert_true(brief.saved_ns > 0);
    assert_int_equal(brief.most_ns, brief.least_ns);
    take_longer(run);
    int64_t widths[3];
    for (int i = 0; i < 3; i++) { /* 6 and 6 SMs of 132; 6 and 14; 66 and 66 */
        const int64_t blocks[3][2] = {{6, 6}, {6, 14}, {66, 66}};
        for (size_t j = 0; j < run->launches.count; j++)
            run->launches.data[j].blocks = blocks[i][strcmp(run->launches.data[j].kernel, "two") == 0];
        gs_outcome few = try_words(run, "host=never-late,streams=2");
        assert_true(few.saved_ns > 0);
        widths[i] = few.most_ns - few.least_ns;
    }
    assert_int_equal(widths[0], 0);
    assert_true(widths[1] > 0 && widths[1] < widths[2]);
    gs_run_free(run);
}

/* Kernels a, b and c of 10, 50 and 10 us, each two full waves of the GPU: 70 us of work in a step, whatever runs beside
   what. */
TEST(a_full_gpu_is_not_faster_on_other_streams) {
    const char *const changes[] = {"streams=a", "streams=b", "streams=c", "graph,streams=b",
                                   "host=never-late,streams=a+c"};
    gs_text text = {0};
    gs_text_add(&text, "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"h200\",\"events\":[");
    for (int i = 0, now_us = 10; i < 21; i++) {
        int us = i % 3 == 1 ? 50 : 10;
        gs_text_add(&text,
                    "%s{\"op\":\"launch\",\"id\":%d,\"kernel\":\"%c\",\"blocks\":2112,\"threads\":256,"
                    "\"registers\":32,\"shared_bytes\":0,\"stream\":1,\"at_us\":%d,\"start_us\":%d,\"end_us\":%d}",
                    i ? "," : "", i, "abc"[i % 3], i, now_us, now_us + us);
        now_us += us + 1;
    }
    gs_text_add(&text, "]}");
    gs_run *run = test_run_of(text.data);
    gs_text_free(&text);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        assert_true(try_words(run, changes[i]).least_ns > 68000);
    gs_run_free(run);
}

/* Twice as long with half the blocks, if blocks are the limit; a wave that is not full once stays as it is. */
TEST(launches_get_other_shapes) {
    gs_run *run = program_of_steps(10, 10000);
    gs_outcome as_is = try_words(run, "host=never-late"), half = try_words(run, "host=never-late,blocks=one:66");
    assert_int_equal(half.least_ns, as_is.least_ns);
    assert_int_equal(half.most_ns, as_is.least_ns + 1000);
    assert_int_equal(try_words(run, "host=never-late,blocks=one:full").most_ns, as_is.least_ns);
    gs_run *changed = changed_run(run, "blocks=one:60,registers=two:64,carveout=two:50,sms=th*:16");
    const gs_launch *launches = changed->launches.data;
    assert_int_equal(launches[0].blocks, 60);
    assert_int_equal(launches[0].shape.registers, 32);
    assert_int_equal(launches[0].issue.facts->green_context, 1);
    assert_int_equal(launches[1].blocks, 132);
    assert_int_equal(launches[1].shape.registers, 64);
    assert_int_equal(launches[1].shape.carveout_percent, 50);
    assert_int_equal(launches[2].issue.facts->green_context, 0);
    assert_int_equal(changed->green_contexts.ends[0], 16);
    assert_int_equal(changed->green_contexts.ends[1], 132);
    assert_int_equal(changed->green_contexts.sms[16], 16);
    gs_run_free(changed);
    gs_run_free(run);
}

/* A GPU before 9.0 has no clusters. One launch of each step has. */
TEST(clusters_are_foreign_to_older_gpus) {
    gs_run *run = program_of_steps(10, 10000);
    const char *const names[] = {"a100", "h100-sxm"};
    for (size_t i = 0; i < run->launches.count; i++)
        if (strcmp(run->launches.data[i].kernel, "two") == 0)
            run->launches.data[i].cluster = 2;
    for (int i = 0; i < 2; i++) {
        gs_gpu *gpu = gs_gpu_open(names[i], NULL);
        gs_what_if what_if = {.gpu = gpu};
        gs_explained explained = explain_run(run, NULL, &what_if);
        assert_int_equal(explained.outcomes[0].foreign, i ? 0 : 1);
        gs_explained_clear(&explained);
        gs_gpu_free(gpu);
    }
    gs_run_free(run);
}

/* A kernel as large as the GPU, of 100 us, and after each of these a small one of 50 us. It takes SMs from the next
   large one, whose last blocks so start 50 us late. */
static gs_run *large_beside_small(void) {
    gs_text text = {0};
    int end_us = 9;
    gs_text_add(&text, "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"h200\",\"events\":[");
    for (int i = 0; i < 10; i++) {
        int start_us = end_us + 1;
        end_us = start_us + (i ? 150 : 100);
        gs_text_add(&text,
                    "%s{\"op\":\"launch\",\"id\":%d,\"kernel\":\"gemm\",\"blocks\":132,\"threads\":384,"
                    "\"registers\":168,\"shared_bytes\":200000,\"stream\":1,\"at_us\":%d,\"start_us\":%d,"
                    "\"end_us\":%d},",
                    i ? "," : "", 2 * i, i, start_us, end_us);
        gs_text_add(&text,
                    "{\"op\":\"launch\",\"id\":%d,\"kernel\":\"nccl\",\"blocks\":16,\"threads\":512,\"registers\":96,"
                    "\"shared_bytes\":0,\"stream\":2,\"at_us\":%d,\"after\":[%d],\"start_us\":%d,\"end_us\":%d}",
                    2 * i + 1, i, 2 * i, end_us + 1, end_us + 51);
    }
    gs_text_add(&text, "]}");
    gs_run *run = test_run_of(text.data);
    gs_text_free(&text);
    return run;
}

static bool is_advised(const gs_explained *explained, const char *words) {
    for (size_t i = 0; i < explained->advices.count; i++)
        if (strcmp(explained->advices.data[i].words, words) == 0)
            return true;
    return false;
}

/* What waits for SMs behind a kernel that is as large as the GPU gets SMs of its own. */
TEST(sms_are_left_to_small_kernels) {
    gs_run *run = large_beside_small();
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_explained explained;
    gs_error error = {0};
    gs_explain_options options = {.has_advice = true};
    assert_int_equal(gs_explain(gpu, gpu, run, &options, &explained, &error), GS_OK);
    assert_int_equal(gs_part_steps(&explained.part), 9);
    assert_true(is_advised(&explained, "blocks=*gemm*:116"));
    for (size_t i = 0; i < explained.advices.count; i++)
        assert_true(explained.advices.data[i].least_ns <= explained.advices.data[i].most_ns);
    gs_explained_clear(&explained);
    gs_gpu_free(gpu);
    gs_run_free(run);
}

/* Of a measured pair it is known what it loses: all of what is saved, a part, or nothing. */
TEST(measured_pairs_make_intervals_narrow) {
    gs_run *run = program_of_steps(10, 10000);
    gs_what_if what_if;
    gs_error error = {0};
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    take_longer(run);
    assert_int_equal(gs_what_if_read("host=never-late,streams=t*o", &what_if, &error), GS_OK);
    gs_outcome wide = try_words(run, "host=never-late,streams=t*o");
    for (int i = 0; i <= 2; i++) {
        gs_measured_pair pairs[] = {{"tw?", "one", i / 2.0}, {"two", "three", i / 2.0}};
        gs_explain_options options = {.what_ifs = &what_if, .what_if_count = 1, .pairs = {pairs, 2, 2}};
        gs_explained explained;
        assert_int_equal(gs_explain(gpu, gpu, run, &options, &explained, &error), GS_OK);
        const gs_outcome *narrow = &explained.outcomes[0];
        int64_t middle_ns = wide.least_ns + i * wide.saved_ns / 2;
        assert_true(narrow->most_ns - narrow->least_ns < (wide.most_ns - wide.least_ns) / 4);
        assert_true(narrow->least_ns <= middle_ns + 100 && narrow->most_ns >= middle_ns - 100);
        gs_explained_clear(&explained);
    }
    gs_gpu_free(gpu);
    gs_run_free(run);
}

static gs_explained advise_run(const gs_run *run, const char *range) {
    gs_explained explained;
    gs_error error = {0};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    gs_explain_options options = {.range = range, .has_advice = true};
    assert_int_equal(gs_explain(gpu, gpu, run, &options, &explained, &error), GS_OK);
    gs_gpu_free(gpu);
    return explained;
}

/* Launches of kernels a, b, ... one after the other on one stream; the host is `ahead_us` before the GPU;
   0: it issues all at once. */
static gs_run *program_of(const char *kernels, int long_us, int ahead_us) {
    gs_text text = {0};
    int now_us = ahead_us ? ahead_us : 30;
    gs_text_add(&text, "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"h200\",\"events\":[");
    for (int i = 0; kernels[i]; i++) {
        int us = kernels[i] >= 'x' ? long_us : 10;
        gs_text_add(&text,
                    "%s{\"op\":\"launch\",\"id\":%d,\"kernel\":\"%c\",\"blocks\":132,\"threads\":256,\"registers\":32,"
                    "\"shared_bytes\":0,\"stream\":1,\"at_us\":%d,\"start_us\":%d,\"end_us\":%d}",
                    i ? "," : "", i, kernels[i], ahead_us ? now_us - ahead_us : i, now_us, now_us + us);
        now_us += us + 1;
    }
    gs_text_add(&text, "]}");
    gs_run *run = test_run_of(text.data);
    gs_text_free(&text);
    return run;
}

/* Steps that the profiler takes for one are parts of it: nobody advises to run them at the same time. */
TEST(parts_of_a_step_are_not_independent) {
    gs_run *run = program_of("abxabxabxabxabxabxabxabx", 400, 0);
    gs_explained explained = advise_run(run, NULL);
    assert_false(explained.part.is_inside);
    assert_true(is_advised(&explained, "streams=2"));
    gs_explained_clear(&explained);
    gs_run_add_range(run, "ProfilerStep#7", 0, 9000000, NULL);
    explained = advise_run(run, NULL);
    assert_true(explained.part.is_inside);
    assert_false(is_advised(&explained, "streams=2") || is_advised(&explained, "graph,streams=2"));
    gs_explained_clear(&explained);
    gs_run_free(run);
}

/* Steps of two equal layers of two launches. Each layer has the operations of a step that repeats. */
enum { LAYERS = 20, LAYER_NS = 22000 };

static gs_run *program_of_layers(void) {
    gs_run *run = program_of("abababababababababababababababababababab", 10, 5);
    assert_int_equal(run->launches.count, 2 * LAYERS);
    return run;
}

static void expect_steps(const gs_run *run, const char *range, size_t period, size_t parts, size_t first) {
    gs_explained explained;
    gs_error error = {0};
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_explain_options options = {.range = range};
    assert_int_equal(gs_explain(gpu, gpu, run, &options, &explained, &error), GS_OK);
    assert_int_equal(explained.part.period, period);
    assert_int_equal(explained.part.equal_parts, parts);
    assert_int_equal(explained.part.first, first);
    assert_int_equal(explained.recorded_ns, (int64_t)(LAYER_NS * gs_max_u64(1, parts)));
    gs_explained_clear(&explained);
    gs_gpu_free(gpu);
}

/* Ranges around all but the first layer, so many in each. */
static void name_layers(gs_run *run, const char *name, int64_t layers) {
    for (int64_t at_ns = LAYER_NS; at_ns + layers * LAYER_NS <= LAYERS * LAYER_NS; at_ns += layers * LAYER_NS)
        gs_run_add_range(run, name, at_ns, at_ns + layers * LAYER_NS, NULL);
}

TEST(named_steps_may_be_equal_layers) {
    gs_run *run = program_of_layers();
    expect_steps(run, NULL, 2, 0, 0);
    gs_run_add_range(run, "other", 7 * LAYER_NS, 9 * LAYER_NS, NULL); /* ranges that are not regular say nothing */
    gs_run_add_range(run, "other", 10 * LAYER_NS, 12 * LAYER_NS, NULL);
    expect_steps(run, NULL, 2, 0, 0);
    name_layers(run, "layer", 1);
    expect_steps(run, NULL, 2, 0, 0);
    name_layers(run, "step", 2);
    expect_steps(run, NULL, 4, 2, 2);
    name_layers(run, "epoch", 4);
    expect_steps(run, NULL, 8, 4, 2);
    name_layers(run, "ProfilerStep#1", 2); /* nothing is known better than this */
    expect_steps(run, NULL, 4, 2, 2);
    gs_run_free(run);
}

/* A noisy host: 20 to 40 us before a layer, now and then much more, and `longer_ns` more before every third. */
static gs_run *program_of_noisy_layers(uint64_t index, int64_t longer_ns) {
    enum { NOISY_LAYERS = 60 };
    char kernels[2 * NOISY_LAYERS + 1] = "";
    gs_random random = gs_random_at(3, index);
    int64_t at_ns = 0;
    for (int i = 0; i < 2 * NOISY_LAYERS; i++)
        kernels[i] = i % 2 ? 'b' : 'a';
    gs_run *run = program_of(kernels, 10, 5);
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_issue *issue = &run->launches.data[i].issue;
        at_ns += gs_random_from(&random, 20000, 40000);
        at_ns += gs_random_chance(&random, 5) ? 200000 : 0;
        at_ns += i % 6 == 2 ? longer_ns : 0;
        issue->at_ns = at_ns;
        issue->start_ns = at_ns + 5000;
        issue->end_ns = at_ns + 6000;
    }
    return run;
}

TEST(a_host_pauses_between_steps_of_equal_layers) {
    for (uint64_t i = 0; i < 50; i++)
        for (int is_longer = 0; is_longer < 2; is_longer++) {
            gs_run *run = program_of_noisy_layers(i, is_longer ? 30000 : 0);
            gs_explained explained = explain_run(run, NULL, NULL);
            assert_int_equal(explained.part.period, is_longer ? 6 : 2);
            assert_int_equal(explained.part.equal_parts, is_longer ? 3 : 0);
            assert_true(!is_longer || explained.part.first % 6 == 2);
            gs_explained_clear(&explained);
            gs_run_free(run);
        }
}

TEST(who_knows_the_step_says_so) {
    gs_run *run = program_of_layers();
    expect_steps(run, "every=2", 4, 2, 0);
    name_layers(run, "step", 2);
    expect_steps(run, "every=1", 2, 0, 0);
    assert_int_equal(refuse_range(run, "every=8", "every=8: the recording has too few parts that repeat"), GS_E_USAGE);
    assert_int_equal(refuse_range(run, "every=0", "every=0: give the number of repeated parts in a step"), GS_E_USAGE);
    gs_run_free(run);
}

/* Steps of 80 us: a and b take the GPU 61 us, and the host issues the next step 14 us later. In the step `longer`, b
   takes until 10 us after that. */
static gs_run *program_that_seems_to_wait(size_t longer) {
    gs_run *run = program_of("abababababababababababab", 10, 5);
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_issue *issue = &run->launches.data[i].issue;
        bool is_late = i == 2 * longer + 2;
        int64_t step_ns = (int64_t)(i / 2) * 80000;
        issue->at_ns = step_ns + (i % 2 ? 10000 : 0);
        issue->start_ns = step_ns + (i % 2 ? 16000 : is_late ? 11000 : 5000);
        issue->end_ns =
            i % 2 ? step_ns + (i / 2 == longer ? 90000 : 66000) : issue->start_ns + (is_late ? 4000 : 10000);
    }
    return run;
}

/* With a wait, steps on two streams follow each other. A host that goes on once before the GPU has ended does not wait.
 */
TEST(a_host_that_goes_on_does_not_wait) {
    gs_run *run = program_that_seems_to_wait(SIZE_MAX / 4);
    assert_int_equal(try_words(run, "host=4x,streams=2").least_ns, 69500);
    gs_run_free(run);
    run = program_that_seems_to_wait(8);
    assert_int_equal(try_words(run, "host=4x,streams=2").least_ns, 50000); /* another stream costs the host 30 us */
    gs_run_free(run);
}

/* With waits for 61 us of the GPU a step cannot take 66 us, so the host does not wait. It could with 78 us. */
TEST(a_step_is_too_short_for_waits) {
    gs_run *run = program_that_seems_to_wait(SIZE_MAX / 4);
    assert_int_equal(try_without_recorder(run, "host=4x,streams=2", 66000).least_ns / 100, 464);
    assert_true(try_without_recorder(run, "host=4x,streams=2", 78000).least_ns > 61000);
    gs_run_free(run);
}

/* Kernels of 10 us that were recorded in a stream, 1 us apart: in a graph 0.1 us. */
TEST(nodes_of_a_made_graph_follow_closely) {
    gs_run *run = program_of("abcabcabcabcabcabcabcabcabcabc", 10, 0);
    assert_int_equal(try_words(run, "host=never-late").least_ns, 33000);
    assert_int_equal(try_words(run, "graph,host=never-late").least_ns, 30300);
    gs_run_free(run);
}

/* The host takes 20 us for a launch, and `other_us` for the one on another stream. */
static gs_run *program_of_two_streams(int64_t other_us) {
    gs_run *run = program_of("aaabaaabaaabaaabaaabaaabaaabaaabaaab", 10, 5);
    int64_t at_ns = 0;
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_launch *launch = &run->launches.data[i];
        at_ns += i % 4 == 3 ? other_us * 1000 : 20000;
        launch->issue.at_ns = at_ns;
        launch->issue.start_ns = at_ns + 5000;
        launch->issue.end_ns = at_ns + 15000;
        launch->stream = (char *)(i % 4 == 3 ? "2" : "1"); /* the run does not free it */
    }
    return run;
}

/* Another stream costs the host 30 us there, and as much back, but no more than it took. */
TEST(one_stream_spares_the_host) {
    gs_run *run = program_of_two_streams(60);
    assert_int_equal(try_words(run, "streams=1").least_ns, 90000);
    gs_run_free(run);
    run = program_of_two_streams(25);
    assert_int_equal(try_words(run, "streams=1").least_ns, 80000);
    gs_run_free(run);
}

/* A host that takes 40 us for each launch of 10 us. A step of one launch has nothing that a graph could save. */
TEST(graphs_are_advised_for_short_steps) {
    const char *const programs[] = {"aaaaaaaa", "abababababababab"};
    for (int i = 0; i < 2; i++) {
        gs_run *run = program_of(programs[i], 10, 5);
        for (size_t k = 0; k < run->launches.count; k++) {
            gs_issue *issue = &run->launches.data[k].issue;
            issue->at_ns = 40000 * (int64_t)k;
            issue->start_ns = issue->at_ns + 5000;
            issue->end_ns = issue->start_ns + 10000;
        }
        gs_explained explained = advise_run(run, NULL);
        assert_int_equal(explained.part.period, i + 1);
        assert_int_equal(is_advised(&explained, "graph"), i);
        gs_explained_clear(&explained);
        gs_run_free(run);
    }
}

/* Copies of 50 us run ahead of kernels of 100 us that wait for them: a step takes as long as its kernel. */
TEST(a_stream_that_runs_ahead_is_not_the_program) {
    gs_text text = {0};
    gs_text_add(&text, "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"h200\",\"events\":[");
    for (int i = 0; i < 10; i++)
        gs_text_add(
            &text,
            "%s{\"op\":\"copy\",\"id\":%d,\"stream\":2,\"bytes\":64,\"at_us\":%d,\"start_us\":%d,\"end_us\":%d},"
            "{\"op\":\"launch\",\"id\":%d,\"kernel\":\"k\",\"blocks\":2112,\"threads\":256,\"registers\":32,"
            "\"shared_bytes\":0,\"stream\":1,\"after\":[%d],\"at_us\":%d,\"start_us\":%d,\"end_us\":%d}",
            i ? "," : "", 2 * i, 2 * i, 6 + 52 * i, 56 + 52 * i, 2 * i + 1, 2 * i, 2 * i + 1, 57 + 101 * i,
            157 + 101 * i);
    gs_text_add(&text, "]}");
    gs_run *run = test_run_of(text.data);
    gs_explained explained = explain_run(run, NULL, NULL);
    assert_int_equal(gs_part_steps(&explained.part), 9);
    assert_int_equal(explained.step_ns, 101000);
    assert_int_equal(explained.kernels.data[0].ns, 9 * 100000);
    assert_false(explained.is_unlike);
    gs_explained_clear(&explained);
    gs_run_free(run);
    gs_text_free(&text);
}

/* What repeats must be a good part of the program; otherwise it is all, or a step of the profiler. */
TEST(a_small_part_does_not_stand_for_a_program) {
    gs_run *run = program_of("xabababababyz", 20, 5);
    gs_explained explained = explain_run(run, NULL, NULL);
    assert_int_equal(explained.part.period, 2);
    gs_explained_clear(&explained);
    gs_run_free(run);
    run = program_of("xabababababyz", 2000, 5);
    explained = explain_run(run, NULL, NULL);
    assert_int_equal(explained.part.period, 0);
    assert_int_equal(explained.part.last, 13);
    gs_explained_clear(&explained);
    gs_run_add_range(run, "ProfilerStep#1", 0, 2050, NULL);
    explained = explain_run(run, NULL, NULL);
    assert_string_equal(explained.part.name, "ProfilerStep#1");
    assert_int_equal(explained.part.last, 1);
    gs_explained_clear(&explained);
    gs_run_free(run);
}

/* One long kernel before the steps is start-up; after them, or in the middle, it is not. */
TEST(long_start_up_is_left_out) {
    static const struct {
        const char *kernels;
        size_t period;
    } programs[] = {{"xababababab", 2}, {"xabababababa", 2}, {"ababababx", 0}, {"xcdefghabababab", 0}};
    for (size_t i = 0; i < GS_COUNT(programs); i++) {
        gs_run *run = program_of(programs[i].kernels, 2000, 5);
        gs_explained explained = explain_run(run, NULL, NULL);
        assert_int_equal(explained.part.period, programs[i].period);
        assert_int_equal(explained.part.first, programs[i].period ? 1 : 0);
        gs_explained_clear(&explained);
        gs_run_free(run);
    }
}

/* Many short steps are less of the program than a few long ones. */
TEST(the_steps_are_those_with_most_time) {
    gs_run *run = program_of("xxxxxaaaaaaaaaaaaaaaaaaaa", 1000, 5);
    gs_explained explained = explain_run(run, NULL, NULL);
    assert_int_equal(explained.part.first, 0);
    assert_int_equal(explained.part.last, 4);
    gs_explained_clear(&explained);
    gs_run_free(run);
}

/* The GPU was 300 us behind the host: a part in the middle finds its launches there. */
TEST(a_part_begins_with_what_the_gpu_had) {
    gs_run *run = program_of("pqxyzrs", 100, 300);
    gs_run_add_range(run, "middle", 22000, 325000, NULL);
    gs_explained explained = explain_run(run, "nvtx=middle", NULL);
    assert_int_equal(explained.part.first, 2);
    assert_int_equal(explained.part.last, 5);
    assert_int_equal(explained.step_ns, 302000);
    assert_true(explained.played_ns > 295000 && explained.played_ns < 310000);
    gs_explained_clear(&explained);
    gs_run_free(run);
}

/* The host takes 100 us after each step of three launches, also after the last of few. */
TEST(the_time_after_a_step_is_played) {
    const char *const ranges[] = {NULL, "steps=1-1", "steps=2-2"};
    gs_run *run = program_of("abxabxabx", 10, 5);
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_issue *issue = &run->launches.data[i].issue;
        issue->at_ns = 20000 * (int64_t)i + 100000 * (int64_t)(i / 3);
        issue->start_ns = issue->at_ns + 5000;
        issue->end_ns = issue->start_ns + 10000;
    }
    for (int i = 0; i < 3; i++) {
        gs_what_if twice;
        assert_int_equal(gs_what_if_read("host=2x", &twice, NULL), GS_OK);
        gs_explained explained = explain_run(run, ranges[i], &twice);
        assert_int_equal(gs_part_steps(&explained.part), i ? 1 : 2);
        assert_int_equal(explained.step_ns, 160000);
        assert_int_equal(explained.played_ns, 160000);
        assert_int_equal(explained.outcomes[0].least_ns, 80000);
        gs_explained_clear(&explained);
    }
    gs_run *changed = changed_run(run, "host=2x");
    assert_int_equal(changed->launches.count, 6); /* the part only */
    gs_run_free(changed);
    gs_run_free(run);
}

/* Two equal steps, then nothing for long: what is played is not what was recorded, and nothing is advised. */
TEST(steps_that_differ_are_not_judged) {
    gs_run *run = program_of("abxabxabx", 20, 5);
    for (size_t i = 6; i < 9; i++) {
        gs_issue *issue = &run->launches.data[i].issue;
        issue->at_ns += 50000000;
        issue->start_ns += 50000000;
        issue->end_ns += 50000000;
    }
    gs_explained explained = advise_run(run, NULL);
    assert_int_equal(gs_part_steps(&explained.part), 2);
    assert_true(explained.is_unlike);
    assert_int_equal(explained.advices.count, 0);
    gs_explained_clear(&explained);
    gs_run_free(run);
}

/* Steps without times at the beginning and the end are left out; a launch that ends when it starts has no time. */
TEST(launches_without_times_are_no_steps) {
    gs_run *run = program_of("aaaaaaaa", 0, 5);
    run->launches.data[0].issue.start_ns = run->launches.data[0].issue.end_ns = GS_NO_TIME;
    run->launches.data[3].issue.start_ns = run->launches.data[3].issue.end_ns = GS_NO_TIME;
    run->launches.data[7].issue.end_ns = run->launches.data[7].issue.start_ns;
    gs_explained explained = explain_run(run, NULL, NULL);
    assert_int_equal(explained.part.first, 1);
    assert_int_equal(explained.part.last, 6);
    assert_int_equal(explained.part.to_ns - explained.part.from_ns, 55000);
    gs_explained_clear(&explained);
    gs_run_add_range(run, "none", 0, 1000, NULL);
    assert_int_equal(
        refuse_range(run, "nvtx=none", "nothing to explain: no operation of the range has start_us and end_us"),
        GS_E_USAGE);
    gs_run_free(run);
    run = program_of("a", 0, 5);
    run->launches.data[0].issue.end_ns = run->launches.data[0].issue.start_ns;
    assert_int_equal(refuse_range(run, NULL,
                                  "nothing to explain: no launch has start_us and a later end_us; record a program "
                                  "with 'gridsmith trace' through CUPTI"),
                     GS_E_USAGE);
    gs_run_free(run);
}

/* What the host issued first need not start first. */
TEST(a_part_begins_with_the_earliest_start) {
    gs_run *run = program_of("abc", 0, 5);
    run->launches.data[0].issue.start_ns += 500000;
    run->launches.data[0].issue.end_ns += 500000;
    gs_explained explained = explain_run(run, "all", NULL);
    assert_int_equal(explained.part.from_ns, run->launches.data[1].issue.start_ns);
    assert_int_equal(explained.part.to_ns, run->launches.data[0].issue.end_ns);
    assert_int_equal(explained.account.busy_ns, 30000);
    assert_int_equal(explained.account.kernel_ns, 30000);
    gs_explained_clear(&explained);
    gs_run_free(run);
}

/* Before the first operation and after the last one nothing was recorded. */
TEST(a_range_of_time_is_within_the_recording) {
    gs_run *run = program_of("abc", 0, 5);
    gs_explained explained = explain_run(run, "ms=0-1000000", NULL);
    assert_int_equal(explained.part.from_ns, run->launches.data[0].issue.start_ns);
    assert_int_equal(explained.part.to_ns, run->launches.data[2].issue.end_ns);
    gs_explained_clear(&explained);
    explained = explain_run(run, "ms=0.010-0.020", NULL);
    assert_int_equal(explained.part.from_ns, 10000);
    assert_int_equal(explained.part.to_ns, 20000);
    gs_explained_clear(&explained);
    assert_int_equal(refuse_range(run, "ms=5-6", "nothing ran from 5 to 6 ms"), GS_E_USAGE);
    gs_run_free(run);
}

/* Steps of 100 us, each with a kernel that runs 30 us into the next step: time outside of the part does not count. */
TEST(kernels_count_within_the_part) {
    gs_run *run = program_of("abababababab", 0, 5);
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_issue *issue = &run->launches.data[i].issue;
        issue->at_ns = (int64_t)(i / 2) * 100000;
        issue->start_ns = issue->at_ns + (i % 2 ? 50000 : 5000);
        issue->end_ns = issue->start_ns + (i % 2 ? 85000 : 40000);
        run->launches.data[i].stream = i % 2 ? "2" : "1";
    }
    gs_run_add_range(run, "first", 0, 100000, NULL);
    gs_explained explained = explain_run(run, "steps=1-1", NULL);
    assert_int_equal(explained.account.kernel_ns, 95000);
    assert_int_equal(explained.account.busy_ns, 95000);
    assert_int_equal(explained.overlap.achieved_ns, 0);
    assert_int_equal(explained.kernels.data[0].ns, 55000);
    assert_int_equal(explained.kernels.data[0].whole_ns, 85000);
    assert_int_equal(explained.kernels.data[1].ns, 40000);
    assert_int_equal(explained.ranges.data[0].kernel_ns, 95000);
    gs_explained_clear(&explained);
    explained = explain_run(run, "steps=2-2", NULL);
    assert_int_equal(explained.account.kernel_ns, 125000);
    assert_int_equal(explained.account.busy_ns, 95000);
    assert_int_equal(explained.overlap.achieved_ns, 30000);
    gs_explained_clear(&explained);
    gs_run_free(run);
}

/* Ten steps of two launches, which the host issues so long apart; once it is 400 us late. If a launch ends when the
   next one is issued, the host waits for it. */
static gs_run *program_with_stall(size_t place, int64_t apart_ns, int64_t kernel_ns) {
    gs_run *run = program_of("abababababababababab", 0, 5);
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_issue *issue = &run->launches.data[i].issue;
        issue->at_ns = (int64_t)i * apart_ns + (i >= place ? 400000 : 0);
        issue->start_ns = issue->at_ns + 5000;
        issue->end_ns = issue->start_ns + kernel_ns;
    }
    return run;
}

/* Whichever step the host was late in, it counts as much; a graph is not slower, and neither are all SMs. */
TEST(a_stall_counts_the_same_in_each_step) {
    for (size_t place = 4; place < 18; place++) {
        gs_run *run = program_with_stall(place, 60000, 10000);
        gs_explained explained = explain_run(run, NULL, NULL);
        assert_int_equal(explained.recorded_ns, (9 * 120000 + 400000) / 9);
        assert_in_range(explained.played_ns, explained.recorded_ns - 10, explained.recorded_ns + 10);
        assert_int_equal(try_words(run, "sms=132").most_ns, explained.played_ns);
        assert_int_equal(try_words(run, "sms=131").most_ns, explained.played_ns);
        int64_t graph_ns = try_words(run, "graph").most_ns, between_ns = place % 2 ? 60000 : 60000 + 400000 / 9;
        assert_in_range(graph_ns, between_ns - 10, between_ns + 10);
        gs_explained_clear(&explained);
        gs_run_free(run);
        run = program_with_stall(place, 30000, 25000);
        explained = explain_run(run, NULL, NULL);
        assert_in_range(explained.played_ns, explained.recorded_ns - 10, explained.recorded_ns + 10);
        gs_explained_clear(&explained);
        gs_run_free(run);
    }
}

/* Steps of 21 us, the host far ahead: the second kernel starts 4 us before the first has ended. `after`: what it says
   of that, with the number of the first. */
static gs_run *program_that_starts_early(int steps, const char *after) {
    static const struct {
        const char *kernel;
        int from_us, to_us;
    } kernels[] = {{"one", 0, 10}, {"early", 6, 14}, {"three", 15, 20}};
    gs_text text = {0};
    gs_text_add(&text, "{\"schema\":\"gridsmith.run/1\",\"gpu\":\"h200\",\"events\":[");
    for (int i = 0; i < 3 * steps; i++) {
        int began_us = 100 + i / 3 * 21;
        gs_text_add(&text,
                    "%s{\"op\":\"launch\",\"id\":%d,\"kernel\":\"%s\",\"blocks\":132,\"threads\":1024,"
                    "\"registers\":64,\"shared_bytes\":0,\"stream\":1,\"at_us\":%d,\"start_us\":%d,\"end_us\":%d",
                    i ? "," : "", i, kernels[i % 3].kernel, i, began_us + kernels[i % 3].from_us,
                    began_us + kernels[i % 3].to_us);
        if (i % 3 == 1 && after)
            gs_text_add(&text, after, i - 1);
        gs_text_add(&text, "}");
    }
    gs_text_add(&text, "]}");
    gs_run *run = test_run_of(text.data);
    gs_text_free(&text);
    return run;
}

/* Whether the recording says that a launch may start early, or only shows it, the step takes as long as it did. */
TEST(kernels_that_start_early_are_played_so) {
    static const char *const after[] = {NULL, ",\"after\":[{\"id\":%d,\"when\":\"trigger\"}]"};
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    for (size_t i = 0; i < GS_COUNT(after); i++) {
        gs_run *run = program_that_starts_early(12, after[i]);
        gs_explained explained = explain_run(run, NULL, NULL);
        gs_timeline timeline = {0};
        assert_int_equal(explained.recorded_ns, 21000);
        assert_int_equal(explained.played_ns, 21000);
        assert_int_equal(explained.kernels.data[1].whole_ns / explained.kernels.data[1].launches, 8000);
        assert_int_equal(explained.overlap.achieved_ns, 0);
        assert_int_equal(try_words(run, "streams=1").least_ns, 21000);
        assert_true(try_words(run, "graph").least_ns < 21000 && try_words(run, "graph").least_ns > 18000);
        assert_int_equal(gs_timeline_play(gpu, gpu, run, NULL, &timeline, NULL), GS_OK);
        assert_int_equal(timeline.end_ns - timeline.operations[0].course.start_ns, 12 * 21000 - 1000);
        gs_timeline_clear(&timeline);
        gs_explained_clear(&explained);
        gs_run_free(run);
    }
    gs_gpu_free(gpu);
}

TEST(what_ifs_that_make_no_sense_are_refused) {
    static const struct {
        const char *words, *message;
    } mistakes[] = {
        {"grap", "unknown change \"grap\" (did you mean \"graph\"?); use graph, host, streams, order, "
                 "priority, sms, blocks, registers, carveout and gpu"},
        {"graph=2", "graph takes no value"},
        {"host", "host needs a value"},
        {"host=fast", "host=fast: give never-late, or how many times as fast, such as 2x"},
        {"host=nanx", "host=nanx: give never-late, or how many times as fast, such as 2x"},
        {"sms=0", "sms=0: give a number of SMs"},
        {"streams=0", "streams=0: give 1 to 128 streams, or patterns of kernels"},
        {"streams=100000", "streams=100000: give 1 to 128 streams, or patterns of kernels"},
        {"sms=10,sms=20", "sms=10 and sms=20 exclude each other"},
        {"sms=a:10,sms=b:20", "sms=a:10 and sms=b:20 exclude each other"},
        {"host=2x,graph,host=3x", "host=2x and host=3x exclude each other"},
        {"gpu=a100,gpu=h200", "gpu=a100 and gpu=h200 exclude each other"},
        {"order=a", "order=a: give PATTERN:first, such as order=*nccl*:first"},
        {"priority=a:b", "priority=a:b: give PATTERN:NUMBER, such as priority=*nccl*:-1"},
        {"graph,,sms=3",
         "unknown change \"\"; use graph, host, streams, order, priority, sms, blocks, registers, carveout "
         "and gpu"},
        {"sms=a:", "sms=a:: give PATTERN:NUMBER, such as sms=*nccl*:16"},
        {"priority=a:-101", "priority=a:-101: the number must be -100 to 100"},
        {"blocks=a:b", "blocks=a:b: give PATTERN:NUMBER, such as blocks=*gemm*:116 or blocks=*gemm*:full"},
        {"registers=a:256", "registers=a:256: the number must be 1 to 255"},
        {"registers=a:99999999999999999999", "registers=a:99999999999999999999: the number must be 1 to 255"},
        {"registers=256", "registers=256: give PATTERN:NUMBER, such as registers=*gemm*:64"},
        {"carveout=:50", "\"carveout=:50\": give patterns of kernels of 1 to 199 letters, such as *nccl*+copy"},
        {"streams=", "\"streams=\": give patterns of kernels of 1 to 199 letters, such as *nccl*+copy"}};
    gs_what_if what_if;
    for (size_t i = 0; i < GS_COUNT(mistakes); i++) {
        gs_error error = {0};
        assert_int_equal(gs_what_if_read(mistakes[i].words, &what_if, &error), GS_E_USAGE);
        assert_string_equal(error.message, mistakes[i].message);
    }
    assert_int_equal(gs_what_if_read("streams=2,streams=a,blocks=a:1,blocks=b:2,sms=9", &what_if, NULL), GS_OK);
    gs_run *run = program_of_steps(6, 10000);
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_explained explained;
    gs_error error = {0};
    assert_int_equal(gs_what_if_read("streams=nothing", &what_if, &error), GS_OK);
    gs_explain_options options = {.what_ifs = &what_if, .what_if_count = 1};
    assert_int_equal(gs_explain(gpu, gpu, run, &options, &explained, &error), GS_E_USAGE);
    assert_string_equal(error.message, "\"streams=nothing\": nothing in the part of the recording matches nothing");
    options = (gs_explain_options){.range = "ms=5"};
    assert_int_equal(gs_explain(gpu, gpu, run, &options, &explained, &error), GS_E_USAGE);
    gs_gpu_free(gpu);
    gs_run_free(run);
}

TEST_MAIN(NULL, NULL)
