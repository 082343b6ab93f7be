/*
 * test_assumed.c: what is assumed of a kernel is said, and where the answer is said to hold, it holds.
 *
 * Random kernels are given without registers, shared or local memory. Then other values, in and out of the range of the
 * answer, are tried by the literal scheduler.
 */
#include "test.h"

#include "literal.h"
#include "model/check/check.h"
#include "model/view/view.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 3 };

/* ---- one run, as words ---- */

static gs_run *run_of(const char *const *words) {
    gs_run *run = gs_run_new(NULL);
    for (; *words; words++) {
        gs_launch launch;
        assert_int_equal(gs_launch_of_word(*words, &launch, NULL), GS_OK);
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    return run;
}

/* The lines of the answer that begin with these words. */
static void assert_lines(const char *const *words, bool works, const char *assumed, const char *together) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_run *run = run_of(words);
    gs_fix_options options = {.budget = 100000};
    gs_check_answer answer;
    gs_text text = {0}, lines = {0};
    assert_int_equal(gs_check_all(gpu, run, &options, &answer, NULL), GS_OK);
    assert_int_equal(answer.works, works);
    gs_put_check(&answer, &text);
    for (const char *line = text.data, *next; *line; line = next) {
        next = line + strcspn(line, "\n") + 1;
        if (strncmp(line, "assumed", 7) == 0)
            gs_text_add(&lines, "%.*s", (int)(next - line), line);
        if (strncmp(line, "together", 8) == 0)
            assert_memory_equal(line, together, strlen(together));
    }
    assert_string_equal(lines.count ? lines.data : "", assumed);
    gs_text_free(&text);
    gs_text_free(&lines);
    gs_check_answer_clear(&answer);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST(registers_that_decide_are_no_yes) {
    assert_lines((const char *const[]){"mega=132x256,r168,s200K,l0", "nccl=16x512,s0,l0", NULL}, false,
                 "assumed: 32 registers a thread for nccl; in this order the answer holds from 16 to 40 (give r)\n",
                 "together: not known; if nccl has at most 40 registers a thread: yes, in this launch order\n");
    assert_lines((const char *const[]){"mega=132x256,r168,s200K,l0", "nccl=16x512,r40,s0,l0", NULL}, true, "",
                 "together: yes, in this launch order");
    assert_lines((const char *const[]){"mega=132x256,r168,s200K,l0", "nccl=16x512,r41,s0,l0", NULL}, false, "",
                 "together: no, in no launch order");
}

TEST(memory_is_named_with_its_range) {
    assert_lines((const char *const[]){"mega=132x256,r168,s200K", "nccl=16x512,r40", NULL}, true,
                 "assumed: no shared memory for nccl; in this order the answer holds up to 26,624 bytes (give s)\n"
                 "assumed: no local memory for mega and nccl; in this order 1 byte for one of them gives another "
                 "answer (give l)\n",
                 "together: yes, in this launch order");
    assert_lines((const char *const[]){"a=8x256,r32,s0", "b=8x256,r32,s0,l64", NULL}, false,
                 "assumed: no local memory for a; in this order the answer holds up to 63 bytes (give l)\n",
                 "together: no");
    assert_lines((const char *const[]){"a=8x256", "b=8x256,r32,s0,l0", NULL}, true,
                 "assumed: 32 registers a thread for a; in this order any other value gives the same answer (give r)\n"
                 "assumed: no shared memory for a; in this order any other value gives the same answer (give s)\n"
                 "assumed: no local memory for a; in this order any other value gives the same answer (give l)\n",
                 "together: yes, in every launch order");
}

/* Two kernels without registers: the answer holds for each pair of values in the range. */
TEST(the_range_is_for_each_kernel) {
    assert_lines(
        (const char *const[]){"a=132x1024,s0,l0", "b=132x512,s0,l0", NULL}, false,
        "assumed: 32 registers a thread for a and b; in this order the answer holds from 16 to 40 (give r)\n",
        "together: not known; if a and b each have at most 40 registers a thread: yes, in this launch order\n");
}

/* Three kernels: one at a time. */
TEST(the_range_of_more_is_for_one_kernel) {
    assert_lines((const char *const[]){"a=132x512,s0,l0", "b=132x512,s0,l0", "c=132x512,s0,l0", NULL}, false,
                 "assumed: 32 registers a thread for a, b and c; in this order the answer holds from 16 to 64 for one "
                 "of them (give "
                 "r)\n",
                 "together: not known; if a, b and c have 32 registers a thread: yes, in this launch order\n");
}

/* With more registers than fit, a block cannot run, and the answer would be no. */
TEST(the_range_ends_where_a_block_cannot_run) {
    assert_lines((const char *const[]){"a=66x1024,s0,l0", NULL}, true,
                 "assumed: 32 registers a thread for a; the answer holds up to 64, with more a block cannot run "
                 "(give r)\n",
                 "together: yes, in every launch order\n");
    assert_lines((const char *const[]){"a=4x1024,s0,l0", "b=4x512,s0,l0", NULL}, true,
                 "assumed: 32 registers a thread for a and b; in this order the answer holds up to 64, with more a "
                 "block of one of them cannot run (give r)\n",
                 "together: yes, in every launch order\n");
}

/* With half of the registers of an H200, two blocks of 1024 threads are on an SM if a thread has at most 16: with 17,
   which are given 24, they are not. */
TEST(the_range_begins_where_fewer_registers_help) {
    const gs_gpu_limits limits = {.registers_per_sm = 32768};
    gs_gpu *gpu = gs_gpu_new("h200", &limits, NULL);
    gs_run *run = run_of((const char *const[]){"a=132x1024,s0,l0", "b=132x1024,r16,s0,l0", NULL});
    gs_assumed_question question = {.answer = false, .budget = 1000};
    gs_assumptions assumptions;
    assert_int_equal(gs_assumed_find(gpu, run, &question, &assumptions, NULL), GS_OK);
    assert_int_equal(assumptions.count, 1);
    assert_int_equal(assumptions.data[0].least, 17);
    assert_int_equal(assumptions.data[0].value, 32);
    assert_true(assumptions.data[0].decides);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

/* ---- random kernels ---- */

static gs_run *draw_kernels(gs_random *random, const gs_gpu *gpu) {
    gs_run *run = gs_run_new(NULL);
    int64_t count = gs_random_from(random, 1, MOST_KERNELS);
    for (int64_t i = 0; i < count; i++) {
        gs_launch launch = numbered_launch(i);
        launch.shape = random_shape(random, gpu);
        launch.blocks = gs_random_from(random, 1, gpu->sms * 3);
        random_cluster(random, gpu, &launch);
        launch.assumed = (uint8_t)gs_random_from(random, 0, (1 << GS_ASSUMED_KINDS) - 1);
        if (launch.assumed >> GS_ASSUMED_REGISTERS & 1)
            launch.shape.registers = GS_WORD_REGISTERS;
        if (launch.assumed >> GS_ASSUMED_SHARED & 1)
            launch.shape.shared_bytes = 0;
        if (launch.assumed >> GS_ASSUMED_LOCAL & 1)
            launch.shape.local_bytes = 0;
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    return run;
}

static bool all_fit(const gs_gpu *gpu, const gs_run *run) {
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_occupancy occupancy;
        gs_occupancy_of(gpu, &run->launches.data[i].shape, &occupancy, NULL);
        if (!occupancy.blocks)
            return false;
    }
    return true;
}

/* Other registers in the range, or anywhere: for one or two kernels of which they were assumed, or one of more. */
static void draw_registers(gs_random *random, gs_run *run, const gs_assumed *assumed, bool in_range) {
    int64_t least = in_range ? assumed->least : 16, most = in_range ? assumed->most : 255;
    size_t first = (size_t)gs_random_from(random, 0, (int64_t)run->launches.count - 1), drawn = 0;
    for (size_t i = 0; i < run->launches.count; i++) {
        gs_launch *launch = &run->launches.data[(first + i) % run->launches.count];
        if (launch->assumed >> GS_ASSUMED_REGISTERS & 1 && (!drawn++ || assumed->kernels <= 2))
            launch->shape.registers = (int32_t)gs_random_from(random, least, most);
    }
}

/* More memory for one kernel of which none was assumed. */
static void draw_memory(gs_random *random, const gs_gpu *gpu, gs_run *run, const gs_assumed *assumed, bool in_range) {
    bool is_shared = assumed->kind == GS_ASSUMED_SHARED;
    int64_t most = in_range && assumed->decides ? assumed->most : is_shared ? gpu->limits.shared_per_block_bytes : 2000;
    size_t launch = (size_t)gs_random_from(random, 0, (int64_t)run->launches.count - 1);
    while (!(run->launches.data[launch].assumed >> assumed->kind & 1))
        launch = (launch + 1) % run->launches.count;
    int64_t *bytes =
        is_shared ? &run->launches.data[launch].shape.shared_bytes : &run->launches.data[launch].shape.local_bytes;
    *bytes = gs_random_from(random, 0, most);
}

/* Counts: values in the range, values outside of it, of those that give another answer. */
struct counts {
    size_t inside, outside, different;
};

static void try_values(const gs_gpu *gpu, const gs_run *given, const gs_assumed *assumed, bool answer,
                       gs_random *random, struct counts *counts, uint64_t index) {
    for (int i = 0; i < 6; i++) {
        gs_run *run = gs_run_copy(given, NULL);
        bool in_range = i < 4;
        if (assumed->kind == GS_ASSUMED_REGISTERS)
            draw_registers(random, run, assumed, in_range && (assumed->decides || assumed->is_capped));
        else
            draw_memory(random, gpu, run, assumed, in_range);
        if (in_range && !all_fit(gpu, run))
            fail_msg("index %llu: assumption %d holds from %lld to %lld, but a block cannot run",
                     (unsigned long long)index, (int)assumed->kind, (long long)assumed->least,
                     (long long)assumed->most);
        if (all_fit(gpu, run)) {
            bool same = literal_works(gpu, run, NULL, 0, NULL) == answer;
            if ((in_range || !assumed->decides) && !same)
                fail_msg("index %llu: assumption %d holds from %lld to %lld, but not here", (unsigned long long)index,
                         (int)assumed->kind, (long long)assumed->least, (long long)assumed->most);
            counts->inside += in_range;
            counts->outside += !in_range;
            counts->different += !same;
        }
        gs_run_free(run);
    }
}

TEST(the_answer_holds_in_its_range) {
    struct counts counts[GS_ASSUMED_KINDS] = {0};
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000);
    for (uint64_t i = 0; i < (runs < 10000 ? 30 : gs_max_u64(runs / 60, 200)); i++) {
        gs_random random = gs_random_at(41, i);
        gs_gpu *gpu = random_gpu(&random, i % 2 ? 50 : 0);
        gs_run *run = draw_kernels(&random, gpu);
        bool answer = all_fit(gpu, run) && literal_works(gpu, run, NULL, 0, NULL);
        gs_assumed_question question = {.answer = answer, .budget = INT64_MAX};
        gs_assumptions assumptions = {.count = 0};
        if (all_fit(gpu, run))
            assert_int_equal(gs_assumed_find(gpu, run, &question, &assumptions, NULL), GS_OK);
        for (size_t j = 0; j < assumptions.count; j++)
            try_values(gpu, run, &assumptions.data[j], answer, &random, &counts[assumptions.data[j].kind], i);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    for (int kind = 0; kind < GS_ASSUMED_KINDS; kind++) {
        print_message("%zu values inside, %zu anywhere, %zu of them with another answer\n", counts[kind].inside,
                      counts[kind].outside, counts[kind].different);
        assert_true(runs < 10000 || (counts[kind].inside > 0 && counts[kind].different > 0));
    }
}

/* On an H200 a thread has registers in steps of 8: from 32 there are 28 up to 255, and 24 and 16. A block has 227 KB of
   shared memory, in steps of 128 bytes. Local memory makes a difference only between none and some. Each value is a
   launch, and one must be left. */
TEST(a_budget_is_spent_by_launches) {
    static const int64_t launches[GS_ASSUMED_KINDS] = {
        [GS_ASSUMED_REGISTERS] = 30, [GS_ASSUMED_SHARED] = 227 * 1024 / 128, [GS_ASSUMED_LOCAL] = 1};
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_run *run = gs_run_new(NULL);
    gs_launch launch;
    assert_int_equal(gs_launch_of_word("a=1x32", &launch, NULL), GS_OK);
    assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    for (int kind = 0; kind < GS_ASSUMED_KINDS; kind++)
        for (int64_t more = 0; more < 2; more++) {
            gs_assumed_question question = {.answer = true, .budget = launches[kind] + more};
            gs_assumptions assumptions;
            assert_int_equal(gs_assumed_find(gpu, run, &question, &assumptions, NULL), GS_OK);
            assert_int_equal(assumptions.count, GS_ASSUMED_KINDS);
            for (size_t i = 0; i < assumptions.count; i++) {
                assert_int_equal(assumptions.data[i].is_tried, question.budget > launches[assumptions.data[i].kind]);
                assert_false(assumptions.data[i].decides);
            }
        }
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
