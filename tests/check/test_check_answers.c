/*
 * test_check_answers.c: what is answered about kernels that wait for each other: the whole answer to random questions
 * is as before (tests/check/answers.txt).
 *
 * Whether answers are right is tried elsewhere, by a literal scheduler, for what it can say. Here are all words and
 * numbers of an answer, and of those where a search ends early because its budget is spent: what was found until then,
 * and that it is said.
 */
#include "answers.h"

#include "literal.h"
#include "model/check/check.h"
#include "model/view/view.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

enum { CASES = 900, BRIEF_CASES = 200, ALL_KINDS = (1 << GS_FIX_KINDS) - 1 };

/* ---- questions ---- */

static void draw_facts(gs_random *random, const gs_run *run, gs_launch_facts *facts) {
    *facts = gs_launch_facts_none();
    facts->is_cooperative = gs_random_chance(random, 15);
    if (run->green_contexts.count && gs_random_chance(random, 60))
        facts->green_context = gs_random_from(random, 0, run->green_contexts.count - 1);
}

/* What a user did not give: of all kernels the registers, or of each something else. */
static void leave_out(gs_random *random, gs_launch *launch, bool has_no_registers) {
    launch->assumed = (uint8_t)gs_random_from(random, 0, (1 << GS_ASSUMED_KINDS) - 1);
    if (has_no_registers)
        launch->assumed = 1 << GS_ASSUMED_REGISTERS;
    if (launch->assumed >> GS_ASSUMED_REGISTERS & 1)
        launch->shape.registers = GS_WORD_REGISTERS;
    if (launch->assumed >> GS_ASSUMED_SHARED & 1)
        launch->shape.shared_bytes = 0;
    if (launch->assumed >> GS_ASSUMED_LOCAL & 1)
        launch->shape.local_bytes = 0;
}

/* Most runs have few kernels. Some have more than are tried in every order, or than are changed: small ones, besides
   the first few. */
static int64_t draw_count(gs_random *random, uint64_t index) {
    if (index % 25 == 7)
        return gs_random_from(random, 30, 36);
    return index % 5 ? gs_random_from(random, 1, 4) : gs_random_from(random, 5, 9);
}

/* Kernels in streams, some of them alike; exits in between. */
static gs_run *draw_kernels(gs_random *random, const gs_gpu *gpu, uint64_t index) {
    gs_run *run = gs_run_new(NULL);
    int64_t count = draw_count(random, index);
    int streams = (int)gs_random_from(random, 0, 100), exits = gs_random_chance(random, 10) ? 40 : 0;
    bool is_assumed = gs_random_chance(random, 50), has_no_registers = gs_random_chance(random, 50);
    if (gs_random_chance(random, 10))
        random_green_contexts(random, gpu, &run->green_contexts);
    for (int64_t i = 0; i < count; i++) {
        gs_launch launch = numbered_launch(i), *last = i ? &run->launches.data[i - 1] : NULL;
        gs_launch_facts facts;
        launch.shape = last && gs_random_chance(random, 30) ? last->shape : random_shape(random, gpu);
        launch.blocks = gs_random_from(random, 1, i < 4 && count < 30 ? gpu->sms * 3 : 2);
        random_cluster(random, gpu, &launch);
        if (gs_random_chance(random, 20))
            launch.priority = (int32_t)gs_random_from(random, -2, 0);
        if (gs_random_chance(random, streams))
            launch.stream = strdup(gs_random_chance(random, 70) ? "1" : "2");
        if (is_assumed)
            leave_out(random, &launch, has_no_registers);
        draw_facts(random, run, &facts);
        launch.issue.facts = &facts;
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
        if (gs_random_chance(random, exits) && run->launches.data[0].exit == SIZE_MAX)
            assert_int_equal(gs_run_add_exit(run, 0, NULL), GS_OK);
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

/* The budget is spent at any point of a search, or is enough. */
static gs_fix_options draw_options(gs_random *random, uint64_t index) {
    gs_fix_options options = {.kinds = ALL_KINDS, .every_order = gs_random_chance(random, 30)};
    static const int64_t most[] = {12, 60, 300, 1000, 4000, 15000};
    options.budget = gs_random_from(random, 0, most[index % GS_COUNT(most)]);
    if (gs_random_chance(random, 40))
        options.kinds = (unsigned)(gs_random_from(random, 0, ALL_KINDS) & gs_random_from(random, 0, ALL_KINDS));
    return options;
}

/* ---- answers ---- */

static uint64_t add_conflict(uint64_t hash, const gs_conflict *conflict) {
    hash = answers_add_list(hash, conflict->order.data, conflict->order.count);
    hash = answers_add(answers_add(hash, conflict->waiting), conflict->room);
    return answers_add_text(answers_add_text(hash, &conflict->why), &conflict->numbers);
}

static uint64_t add_check(uint64_t hash, const gs_check *check) {
    hash = answers_add(answers_add(hash, check->in_this_order), check->in_any_order);
    hash = add_conflict(add_conflict(hash, &check->here), &check->smallest);
    hash = answers_add_list(hash, check->works.data, check->works.count);
    hash = answers_add(answers_add(hash, check->is_least), check->none_works);
    return answers_add(answers_add(hash, (int64_t)check->searched), check->order_is_fixed);
}

static uint64_t add_orders(uint64_t hash, const gs_orders *orders) {
    bool has_launch = orders->rule >= GS_ORDERS_FIRST && orders->rule <= GS_ORDERS_BEFORE;
    hash = answers_add(answers_add(hash, orders->rule), has_launch ? (int64_t)orders->launch : -1);
    hash = answers_add(hash, orders->rule == GS_ORDERS_BEFORE ? (int64_t)orders->other : -1);
    return answers_add(answers_add(hash, (int64_t)orders->tried), (int64_t)orders->working);
}

static uint64_t add_fix(uint64_t hash, const gs_check_answer *answer, const gs_fix *fix) {
    for (size_t i = 0; i < fix->count; i++) {
        const gs_change *change = &fix->changes[i];
        gs_text text = {0};
        hash = answers_add(answers_add(hash, change->kind), (int64_t)change->launch);
        hash = answers_add(answers_add(hash, change->from), change->to);
        hash = answers_add(hash, change->is_limit);
        gs_change_text(answer->gpu, answer->run, fix, i, &text);
        hash = answers_add_text(hash, &text);
        gs_text_free(&text);
    }
    return answers_add_list(answers_add(hash, fix->cost), fix->order.data, fix->order.count);
}

static uint64_t add_fixes(uint64_t hash, const gs_check_answer *answer) {
    const gs_fixes *fixes = &answer->fixes;
    hash = answers_add(answers_add(hash, fixes->unfinished), (int64_t)fixes->count);
    hash = answers_add(answers_add(hash, fixes->combinations_searched), fixes->combinations_finished);
    for (size_t i = 0; i < fixes->count; i++)
        hash = add_fix(hash, answer, &fixes->data[i]);
    return hash;
}

static uint64_t add_assumptions(uint64_t hash, const gs_assumptions *assumptions) {
    hash = answers_add(hash, (int64_t)assumptions->count);
    for (size_t i = 0; i < assumptions->count; i++) {
        const gs_assumed *assumed = &assumptions->data[i];
        hash = answers_add(answers_add(hash, assumed->kind), (int64_t)assumed->kernels);
        hash = answers_add(answers_add(answers_add(hash, assumed->value), assumed->least), assumed->most);
        hash = answers_add(answers_add(answers_add(hash, assumed->is_tried), assumed->decides), assumed->is_capped);
    }
    return hash;
}

static uint64_t add_answer(uint64_t hash, const gs_check_answer *answer) {
    gs_text text = {0};
    hash = add_fixes(add_orders(add_check(hash, &answer->check), &answer->orders), answer);
    hash = add_assumptions(hash, &answer->assumptions);
    hash = answers_add(answers_add(hash, answer->works), answer->is_conditional);
    hash = answers_add(answers_add(hash, answer->has_fixes), answer->too_many);
    gs_put_check(answer, &text);
    hash = answers_add_text(hash, &text);
    gs_text_free(&text);
    return hash;
}

static uint64_t hash_case(uint64_t index) {
    gs_random random = gs_random_at(77, index);
    gs_gpu *gpu = random_gpu(&random, index % 2 ? 50 : 0);
    gs_run *run = draw_kernels(&random, gpu, index);
    while (!all_fit(gpu, run)) {
        gs_run_free(run);
        run = draw_kernels(&random, gpu, index);
    }
    if (index % 8 == 0)
        gpu->limits.kernels_per_gpu = (int32_t)gs_random_from(&random, 1, 4);
    gs_fix_options options = draw_options(&random, index);
    gs_check_answer answer;
    gs_error error = {.code = GS_OK};
    uint64_t hash = answers_add(0, gs_check_all(gpu, run, &options, &answer, &error));
    hash = error.code == GS_OK ? add_answer(hash, &answer) : gs_hash(hash, error.message, strlen(error.message));
    gs_check_answer_clear(&answer);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return hash;
}

TEST(answers_are_as_before) {
    enum { LINES = 10 };
    answers_open("tests/check/answers.txt");
    for (uint64_t line = 0; line < LINES; line++) {
        char name[20];
        snprintf(name, sizeof name, "kernels-%d", (int)line);
        answers_begin(name);
        for (uint64_t i = 0; i < (test_is_brief() ? BRIEF_CASES : CASES) / LINES; i++)
            answers_expect(hash_case(i * LINES + line));
        answers_end();
    }
    answers_close();
}

/* ---- launches that may run at the same time ---- */

static uint64_t hash_concurrent(const gs_run *run, const bool *marked) {
    gs_concurrent sets;
    gs_error error = {.code = GS_OK};
    uint64_t hash = answers_add(0, gs_concurrent_find(run, marked, &sets, &error));
    for (size_t i = 0; i < sets.count; i++)
        hash = answers_add_list(hash, sets.data[i].data, sets.data[i].count);
    hash =
        error.code == GS_OK ? answers_add(hash, sets.is_complete) : gs_hash(hash, error.message, strlen(error.message));
    gs_concurrent_clear(&sets);
    return hash;
}

/* Programs with copies, events and graphs, and of each some launches. */
static uint64_t hash_program(uint64_t index) {
    gs_random random = gs_random_at(78, index);
    gs_gpu *gpu = random_gpu(&random, 0);
    gs_run *run = index % 4 ? random_program(&random, gpu) : random_graph(&random, gpu);
    bool *marked = calloc(run->launches.count + 1, sizeof *marked);
    assert_non_null(marked);
    for (size_t i = 0; i < run->launches.count; i++)
        marked[i] = gs_random_chance(&random, 80);
    uint64_t hash = hash_concurrent(run, marked);
    free(marked);
    gs_run_free(run);
    gs_gpu_free(gpu);
    return hash;
}

/* Launches in so many streams; `kinds`: of so many sizes. */
static gs_run *run_in_streams(int64_t launches, int64_t streams, int64_t kinds) {
    gs_run *run = gs_run_new(NULL);
    for (int64_t i = 0; i < launches; i++) {
        gs_launch launch = numbered_launch(0);
        char name[20];
        snprintf(name, sizeof name, "%d", (int)(i % streams));
        launch.shape = gs_shape_of(32, 16, 0);
        launch.blocks = 1 + i % kinds;
        launch.stream = strdup(name);
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    return run;
}

static gs_concurrent concurrent_in_streams(int64_t launches, int64_t streams, int64_t kinds, gs_code wanted) {
    gs_run *run = run_in_streams(launches, streams, kinds);
    bool *marked = malloc((size_t)launches * sizeof *marked);
    gs_concurrent sets;
    assert_non_null(marked);
    memset(marked, true, (size_t)launches);
    assert_int_equal(gs_concurrent_find(run, marked, &sets, NULL), wanted);
    free(marked);
    gs_run_free(run);
    return sets;
}

/* Launches in as many streams and of as many sizes as there may be, and one more; of more sets the first 64 are said,
   and only the first 4000 launches are looked at: then it is not said that there are no others. */
TEST(limits_of_recordings_are_kept) {
    gs_concurrent sets = concurrent_in_streams(130, 128, 1, GS_OK);
    assert_int_equal(sets.count, 1);
    gs_concurrent_clear(&sets);
    sets = concurrent_in_streams(130, 129, 1, GS_E_REFUSED);
    gs_concurrent_clear(&sets);
    for (int64_t streams = 11; streams <= 12; streams++) { /* each pair is a set: 55 or 66 */
        sets = concurrent_in_streams(streams, streams, streams, GS_OK);
        assert_int_equal(sets.count, streams == 11 ? 55 : 64);
        assert_int_equal(sets.is_complete, streams == 11);
        gs_concurrent_clear(&sets);
    }
    for (int64_t launches = 4000; launches <= 4001; launches++) { /* the last one is alone in its stream */
        gs_run *run = run_in_streams(launches, 1, 1);
        bool *marked = malloc((size_t)launches * sizeof *marked);
        assert_non_null(marked);
        memset(marked, true, (size_t)launches);
        run->launches.data[launches - 1].stream = (char *)"other"; /* the run does not free it */
        assert_int_equal(gs_concurrent_find(run, marked, &sets, NULL), GS_OK);
        assert_int_equal(sets.count, launches == 4000);
        assert_int_equal(sets.is_complete, launches == 4000);
        gs_concurrent_clear(&sets);
        free(marked);
        gs_run_free(run);
    }
}

TEST(what_may_run_at_the_same_time_is_as_before) {
    enum { PROGRAMS = 1200, BRIEF_PROGRAMS = 400 };
    answers_open("tests/check/concurrent.txt");
    answers_begin("programs");
    for (uint64_t i = 0; i < (test_is_brief() ? BRIEF_PROGRAMS : PROGRAMS); i++)
        answers_expect(hash_program(i));
    answers_end();
    answers_close();
}

TEST_MAIN(NULL, NULL)
