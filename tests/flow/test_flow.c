/*
 * test_flow.c: what a warp of machine code executes at most: never less than it does, and for plain loops exactly that.
 *
 * Random kernels are assembled where ptxas is. Their trees say how often a store is executed; random_loops.c executes
 * the same kernels, from how they were drawn.
 */
#include "test.h"

#include "classes.h"
#include "ignored_parts.h"
#include "kernels/cuda/cuda.h"
#include "kernels/flow/flow.h"
#include "random_loops.h"

#include <stdlib.h>

enum { PARAMETER_BYTES = 24, MOST_LINES = 100000, MOST_NESTED = 400, OPCODES = 124 };

/* How often the tree executes the stores of each line, and what is in it. */
struct counted {
    int64_t times[MOST_NESTED];
    int depth, barriers;
    struct {
        int64_t most; /* stores of its children: of a uniform branch those of one side, else of all */
        int64_t times;
        bool takes_largest;
    } open[MOST_NESTED];
    int64_t *stores; /* by line */
    int64_t instructions, loops, groups, uniform;
    int64_t rounds[16];
};

/* Counts of nested loops with many rounds stop far from where they would overflow. */
static int64_t product(int64_t a, int64_t b) {
    const int64_t most = (int64_t)1 << 50;
    return b && a > most / b ? most : a * b;
}

static bool open_counted(void *user, gs_flow_kind kind, uint32_t offset, uint32_t line, bool is_uniform, int64_t times,
                         gs_flow_source source) {
    struct counted *counted = user;
    (void)offset, (void)line, (void)source;
    bool repeats = kind == GS_FLOW_LOOP || kind == GS_FLOW_GROUPS;
    assert_true(counted->depth + 1 < MOST_NESTED);
    counted->times[counted->depth + 1] = product(counted->times[counted->depth], repeats ? times : 1);
    counted->depth++;
    counted->open[counted->depth].most = 0;
    counted->open[counted->depth].times = repeats ? times : 1;
    counted->open[counted->depth].takes_largest = kind == GS_FLOW_BRANCH && is_uniform;
    if (kind == GS_FLOW_LOOP && counted->loops < 16)
        counted->rounds[counted->loops] = times;
    counted->loops += kind == GS_FLOW_LOOP;
    counted->groups += kind == GS_FLOW_GROUPS;
    counted->uniform += kind == GS_FLOW_BRANCH && is_uniform;
    return true;
}

static bool close_counted(void *user) {
    struct counted *counted = user;
    int64_t most = product(counted->open[counted->depth].most, counted->open[counted->depth].times);
    int64_t *into = &counted->open[--counted->depth].most;
    *into = !counted->open[counted->depth].takes_largest ? *into + most : most > *into ? most : *into;
    return true;
}

/* Whether a step is of a class; one of lanes beside each other, or of constants that differ, is of that class as well.
 */
static bool is_of_class(const gs_flow_step *step, const char *class_name) {
    size_t length = strlen(class_name);
    return strncmp(step->class_name, class_name, length) == 0 &&
           (!step->class_name[length] || strcmp(step->class_name + length, "_near") == 0 ||
            strcmp(step->class_name + length, "_wide") == 0 || strcmp(step->class_name + length, "_scattered") == 0);
}

static bool count_step(void *user, const gs_flow_step *step) {
    struct counted *counted = user;
    int64_t times = counted->times[counted->depth];
    counted->instructions += times;
    counted->barriers += step->is_barrier;
    counted->open[counted->depth].most += is_of_class(step, "global_store");
    if (counted->stores && is_of_class(step, "global_store") && step->line < MOST_LINES)
        counted->stores[step->line] += times;
    return true;
}

static gs_code walk(gs_sass_image *image, const char *kernel, const gs_flow_launch *launch, gs_flow_rounds *rounds,
                    size_t count, struct counted *counted, gs_error *error) {
    gs_flow_visitor visitor = {counted, open_counted, close_counted, count_step};
    char *file = NULL;
    counted->times[0] = 1;
    gs_code code = gs_flow_walk(image, kernel, launch, rounds, count, &visitor, &file, error);
    free(file);
    return code;
}

/* ---- random kernels ---- */

enum { KERNELS = 20 };

struct totals {
    int64_t kernels, refused, marks, exact;
};

static void check_kernel(gs_sass_image *image, const char *name, const loops_kernel *kernel, struct totals *totals,
                         uint64_t seed, uint64_t index) {
    unsigned char parameters[PARAMETER_BYTES] = {0};
    bool is_known[PARAMETER_BYTES] = {0};
    struct counted counted = {.stores = calloc(MOST_LINES, sizeof(int64_t))};
    gs_error error = {.code = GS_OK};
    memcpy(parameters + 8, kernel->parameters, sizeof kernel->parameters);
    memset(is_known + 8, true, sizeof kernel->parameters);
    gs_flow_launch launch = {{LOOPS_BLOCKS, 1, 1}, {LOOPS_THREADS, 1, 1}, parameters, is_known, PARAMETER_BYTES};
    gs_code code = walk(image, name, &launch, NULL, 0, &counted, &error);
    totals->kernels++;
    totals->refused += code == GS_E_REFUSED;
    assert_true(code == GS_OK || code == GS_E_REFUSED);
    for (int mark = 0; mark < kernel->marks && code == GS_OK; mark++) {
        int64_t most = counted.stores[kernel->mark_line[mark]];
        totals->marks++;
        totals->exact += most == kernel->executed[mark];
        if (most < kernel->executed[mark])
            fail_msg("seed %llu, module %llu, %s: line %u is executed %lld times, the tree says %lld",
                     (unsigned long long)seed, (unsigned long long)index, name, kernel->mark_line[mark],
                     (long long)kernel->executed[mark], (long long)most);
    }
    if (code == GS_OK && counted.open[0].most < kernel->most_together * LOOPS_STORES)
        fail_msg("seed %llu, module %llu, %s: a warp executes %lld stores, the tree says %lld",
                 (unsigned long long)seed, (unsigned long long)index, name,
                 (long long)kernel->most_together * LOOPS_STORES, (long long)counted.open[0].most);
    free(counted.stores);
}

static void check_module(uint64_t seed, uint64_t index, struct totals *totals) {
    gs_random random = gs_random_at(seed, index);
    gs_text text = {0};
    uint32_t line = 4;
    loops_kernel *kernels = calloc(KERNELS, sizeof *kernels);
    char name[20];
    gs_text_add(&text, ".version 8.0\n.target sm_90\n.address_size 64\n");
    for (int i = 0; i < KERNELS; i++) {
        kernels[i].text = &text;
        kernels[i].line = &line;
        snprintf(name, sizeof name, "k%d", i);
        loops_random(&kernels[i], &random, name);
    }
    gs_build build = {.name = "random", .text = text.data, .size = text.count, .with_lines = true};
    gs_cubin cubin = {0};
    gs_sass_image image = {0};
    gs_error error = {.code = GS_OK};
    if (gs_cubin_make(&build, 90, &cubin, &error) != GS_OK)
        fail_msg("module %llu: %s, line %ld", (unsigned long long)index, error.message, error.line);
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    for (int i = 0; i < KERNELS; i++) {
        snprintf(name, sizeof name, "k%d", i);
        check_kernel(&image, name, &kernels[i], totals, seed, index);
    }
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
    free(kernels);
}

TEST(never_counts_less_than_is_executed) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), modules = test_number("GRIDSMITH_RUNS", 100000) / 5000 + 1;
    struct totals totals = {0};
    char path[1000];
    if (!gs_assembler_find(path, sizeof path))
        skip();
    for (uint64_t i = 0; i < modules; i++)
        check_module(seed, i, &totals);
    print_message("%lld kernels, %lld without a bound; of %lld marks %lld exact\n", (long long)totals.kernels,
                  (long long)totals.refused, (long long)totals.marks, (long long)totals.exact);
    assert_true(totals.refused * 3 < totals.kernels * 2);
    assert_true(totals.exact * 4 > totals.marks);
}

/* ---- counters near their largest number ---- */

enum { MOST_ROUNDS = 3000, PLAIN_BYTES = 16 };

/* A loop: its step, when it goes on, and where that is tested. */
struct plain_loop {
    const char *step, *relation;
    uint32_t number;
    bool is_signed, is_entered, is_of_thread; /* tested at the end only; begins with the parameter plus the thread */
    enum { EVEN, UNEVEN_COUNTER, UNEVEN_LIMIT } parity; /* of what the lowest bit of the counter is added to, if any */
};

static const struct {
    const char *name;
    uint32_t number;
} steps[] = {{"shl.b32", 1},    {"shl.b32", 4},    {"shr.u32", 1}, {"shr.u32", 4},          {"shr.s32", 1},
             {"shr.s32", 31},   {"add.u32", 3},    {"sub.u32", 3}, {"add.u32", 0x20000000}, {"sub.u32", 0x20000000},
             {"mul.lo.u32", 3}, {"mul.lo.u32", 8}, {"add.u32", 1}, {"sub.u32", 1}};

static const char *const relations[] = {"lt", "le", "gt", "ge", "ne", "eq"};

enum { FORMS = 24, PLAIN_LOOPS = GS_COUNT(steps) * GS_COUNT(relations) * FORMS };

static struct plain_loop plain_loop_at(size_t number) {
    size_t form = number % FORMS, step = number / FORMS / GS_COUNT(relations);
    return (struct plain_loop){.step = steps[step].name,
                               .number = steps[step].number,
                               .relation = relations[number / FORMS % GS_COUNT(relations)],
                               .is_signed = form & 1,
                               .is_entered = form & 2,
                               .is_of_thread = form & 4,
                               .parity = (int)(form / 8)};
}

/* ptxas unrolls loops as if their counters never went around. */
static void put_plain_loop(gs_text *text, size_t number) {
    struct plain_loop loop = plain_loop_at(number);
    gs_text_add(text, ".visible .entry p%zu(.param .u64 a, .param .u32 b, .param .u32 c) .pragma \"nounroll\";\n{\n",
                number);
    gs_text_add(text, ".reg .b32 %%r<7>; .reg .b64 %%rd<2>; .reg .pred %%p<2>;\n");
    gs_text_add(text, "ld.param.u64 %%rd1, [a]; ld.param.u32 %%r1, [b]; ld.param.u32 %%r2, [c];\n");
    if (loop.is_of_thread)
        gs_text_add(text, "mov.u32 %%r3, %%tid.x; add.u32 %%r1, %%r1, %%r3;\n");
    gs_text_add(text, "%sL:\n", loop.is_entered ? "" : "bra T;\n");
    gs_text_add(text, "st.volatile.global.u32 [%%rd1], %%r1;\n%s %%r1, %%r1, %u;\n", loop.step, loop.number);
    gs_text_add(text, "T: and.b32 %%r4, %%r1, 1; add.u32 %%r5, %%r1, %%r4; add.u32 %%r6, %%r2, %%r4;\n");
    gs_text_add(text, "setp.%s.%s %%p1, %s, %s;\n@%%p1 bra L;\nret;\n}\n", loop.relation,
                loop.is_signed ? "s32" : "u32", loop.parity == UNEVEN_COUNTER ? "%r5" : "%r1",
                loop.parity == UNEVEN_LIMIT ? "%r6" : "%r2");
}

static uint32_t stepped(const struct plain_loop *loop, uint32_t value) {
    if (loop->step[0] == 's' && loop->step[2] == 'l')
        return value << loop->number;
    if (loop->step[0] == 's' && loop->step[2] == 'r')
        return loop->step[4] == 's' ? (uint32_t)((int32_t)value >> loop->number) : value >> loop->number;
    if (loop->step[0] == 's')
        return value - loop->number;
    return loop->step[0] == 'a' ? value + loop->number : value * loop->number;
}

static bool is_related(const struct plain_loop *loop, uint32_t counter, uint32_t limit) {
    uint32_t x = counter + (loop->parity == UNEVEN_COUNTER ? counter & 1 : 0);
    uint32_t y = limit + (loop->parity == UNEVEN_LIMIT ? counter & 1 : 0);
    bool is_less = loop->is_signed ? (int32_t)x < (int32_t)y : x < y, is_equal = x == y;
    switch (loop->relation[0] << 8 | loop->relation[1]) {
    case 'l' << 8 | 't':
        return is_less;
    case 'l' << 8 | 'e':
        return is_less || is_equal;
    case 'g' << 8 | 't':
        return !is_less && !is_equal;
    case 'g' << 8 | 'e':
        return !is_less;
    default:
        return is_equal == (loop->relation[0] == 'e');
    }
}

/* The most rounds of a thread; MOST_ROUNDS: or more. */
static int64_t rounds_executed(const struct plain_loop *loop, uint32_t start, uint32_t limit, uint32_t threads) {
    int64_t most = 0;
    for (uint32_t thread = 0; thread < (loop->is_of_thread ? threads : 1); thread++) {
        uint32_t value = start + thread;
        int64_t rounds = 0;
        while (rounds < MOST_ROUNDS && ((loop->is_entered && !rounds) || is_related(loop, value, limit))) {
            value = stepped(loop, value);
            rounds++;
        }
        most = rounds > most ? rounds : most;
    }
    return most;
}

/* Numbers near those from which a few steps lead around, and small ones. */
static uint32_t draw_number(gs_random *random) {
    static const uint32_t near[] = {0,        0,          3,          100,        1u << 27,   1u << 28,
                                    1u << 30, 0x60000001, 0x7fffffff, 0x80000000, 0xc0000000, 0xffffffff};
    return near[gs_random_from(random, 0, GS_COUNT(near) - 1)] + (uint32_t)gs_random_from(random, -5, 5);
}

/* Whether the walk of a loop had an answer. */
static bool check_plain_loop(gs_sass_image *image, size_t number, gs_random *random) {
    enum { THREADS = 32 };
    struct plain_loop loop = plain_loop_at(number);
    unsigned char parameters[PLAIN_BYTES] = {0};
    bool is_known[PLAIN_BYTES] = {0};
    struct counted counted = {0};
    uint32_t start = draw_number(random), limit = draw_number(random);
    char name[20];
    gs_error error = {.code = GS_OK};
    snprintf(name, sizeof name, "p%zu", number);
    memcpy(parameters + 8, &start, sizeof start);
    memcpy(parameters + 12, &limit, sizeof limit);
    memset(is_known + 8, true, PLAIN_BYTES - 8);
    gs_flow_launch launch = {{1, 1, 1}, {THREADS, 1, 1}, parameters, is_known, PLAIN_BYTES};
    gs_code code = walk(image, name, &launch, NULL, 0, &counted, &error);
    assert_true(code == GS_OK || code == GS_E_REFUSED);
    int64_t rounds = rounds_executed(&loop, start, limit, THREADS);
    if (code == GS_OK && counted.open[0].most < rounds)
        fail_msg("%s by %u, %s.%s, form %zu, from 0x%x to 0x%x: %lld rounds%s, the tree says %lld", loop.step,
                 loop.number, loop.relation, loop.is_signed ? "s32" : "u32", number % FORMS, start, limit,
                 (long long)rounds, rounds == MOST_ROUNDS ? " or more" : "", (long long)counted.open[0].most);
    return code == GS_OK;
}

/* A counter that goes around has more rounds than the distance to its limit says, or no end. */
TEST(counters_that_go_around_have_no_smaller_bound) {
    enum { TRIES = 4 };
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 0);
    gs_text text = {0};
    gs_cubin cubin = {0};
    gs_sass_image image = {0};
    gs_error error = {.code = GS_OK};
    char path[1000];
    size_t answers = 0;
    if (!gs_assembler_find(path, sizeof path))
        skip();
    gs_text_add(&text, ".version 8.0\n.target sm_90\n.address_size 64\n");
    for (size_t i = 0; i < PLAIN_LOOPS; i++)
        put_plain_loop(&text, i);
    gs_build build = {.name = "plain", .text = text.data, .size = text.count};
    if (gs_cubin_make(&build, 90, &cubin, &error) != GS_OK)
        fail_msg("%s, line %ld", error.message, error.line);
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    for (size_t i = 0; i < PLAIN_LOOPS * TRIES; i++)
        answers += check_plain_loop(&image, i % PLAIN_LOOPS, &random);
    print_message("%zu of %d loops have a bound\n", answers, (int)(PLAIN_LOOPS * TRIES));
    assert_true(answers * 5 > PLAIN_LOOPS * TRIES);
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
}

/* ---- kernels of cases.ptx ---- */

static void read_cases(gs_sass_image *image) {
    gs_error error = {.code = GS_OK};
    char *bytes = NULL;
    size_t count = 0;
    assert_int_equal(gs_input_all(test_path("tests/cases/flow90.cubin"), 1 << 20, &bytes, &count, &error), GS_OK);
    assert_int_equal(gs_sass_read(image, bytes, count, &error), GS_OK);
    free(bytes);
}

/* Walks a kernel with this second parameter (-1: not known) and this grid. The stores are in counted->open[0].most. */
static gs_code walk_cases(const char *kernel, int32_t parameter, int64_t blocks, gs_flow_rounds *rounds, size_t count,
                          struct counted *counted, gs_error *error) {
    unsigned char parameters[12] = {0};
    bool is_known[12] = {0};
    gs_sass_image image;
    *counted = (struct counted){0};
    *error = (gs_error){.code = GS_OK};
    memcpy(parameters + 8, &parameter, sizeof parameter);
    memset(is_known + 8, parameter >= 0, sizeof parameter);
    gs_flow_launch launch = {{blocks, 1, 1}, {64, 1, 1}, parameters, is_known, sizeof parameters};
    read_cases(&image);
    gs_code code = walk(&image, kernel, &launch, rounds, count, counted, error);
    gs_sass_free(&image);
    return code;
}

static gs_code walk_case(const char *kernel, int32_t parameter, int64_t blocks, gs_flow_rounds *rounds,
                         struct counted *counted, gs_error *error) {
    return walk_cases(kernel, parameter, blocks, rounds, rounds != NULL, counted, error);
}

TEST(counts_rounds_of_the_launch) {
    static const int32_t rounds[] = {0, 1, 7, 1000, 2000000};
    struct counted counted;
    gs_error error;
    for (size_t i = 0; i < GS_COUNT(rounds); i++) {
        assert_int_equal(walk_case("counts", rounds[i], 4, NULL, &counted, &error), GS_OK);
        assert_int_equal(counted.open[0].most, rounds[i]);
    }
}

/* A thread has 16 rounds: 3 at most by themselves, and 4 times 4. */
TEST(counts_rounds_of_an_unrolled_loop) {
    struct counted counted;
    gs_error error;
    assert_int_equal(walk_case("unrolled", 1000, 4, NULL, &counted, &error), GS_OK);
    assert_int_equal(counted.open[0].most, 3 + 4 * 4);
    assert_int_equal(walk_case("unrolled", 100, 4, NULL, &counted, &error), GS_OK);
    assert_int_equal(counted.open[0].most, 2);
    assert_int_equal(walk_case("unrolled", -1, 4, NULL, &counted, &error), GS_E_REFUSED);
}

TEST(takes_rounds_of_the_user) {
    gs_flow_rounds by_line = {.at = 17, .rounds = 12}, elsewhere = {.at = 3, .rounds = 12};
    struct counted counted;
    gs_error error;
    assert_int_equal(walk_case("counts", -1, 4, NULL, &counted, &error), GS_E_REFUSED);
    assert_non_null(strstr(error.message, "the rounds of the loop in line 17 are not known; --loop 17=ROUNDS"));
    assert_int_equal(walk_case("counts", -1, 4, &by_line, &counted, &error), GS_OK);
    assert_true(by_line.is_used);
    assert_int_equal(counted.open[0].most, 13); /* the code before its test once more */
    assert_int_equal(walk_case("counts", -1, 4, &elsewhere, &counted, &error), GS_E_REFUSED);
    assert_int_equal(walk_case("counts", 5, 4, &by_line, &counted, &error), GS_OK);
    assert_int_equal(counted.open[0].most, 5);
    assert_int_equal(walk_case("counts", 13, 4, &by_line, &counted, &error), GS_OK);
    assert_int_equal(counted.open[0].most, 13);
    assert_int_equal(walk_case("counts", 14, 4, &by_line, &counted, &error), GS_E_USAGE);
    assert_non_null(strstr(error.message, "in line 17, has 14 rounds by its code"));
}

/* The loop of `counts`, as one of the PTX that a branch back closes: its other branches back, its lines, and the loops
   that it is in must be the same. */
TEST(takes_rounds_of_the_loop_with_the_same_lines_only) {
    gs_flow_rounds same = {.place = GS_FLOW_BRANCH_LINE, .at = 20, .first = 15, .last = 20, .depth = 1, .rounds = 12};
    gs_flow_rounds unknown = same, deeper = same, shorter[] = {same, same};
    struct counted counted;
    gs_error error;
    assert_int_equal(walk_case("counts", -1, 4, &same, &counted, &error), GS_OK);
    assert_true(same.is_used);
    assert_int_equal(counted.open[0].most, 12);
    unknown.rounds = -1;
    assert_int_equal(walk_case("counts", -1, 4, &unknown, &counted, &error), GS_E_REFUSED);
    deeper.depth = 2;
    assert_int_equal(walk_case("counts", -1, 4, &deeper, &counted, &error), GS_E_REFUSED);
    shorter[0].first = 19; /* the code before is that of the other loop */
    shorter[1].at = 30;
    assert_int_equal(walk_cases("counts", -1, 4, shorter, GS_COUNT(shorter), &counted, &error), GS_E_REFUSED);
}

/* Lines of `unrolled` that no thread comes to, of a branch that all threads leave the same way. */
static int64_t stores_without(uint32_t first, uint32_t last, uint32_t branch) {
    enum { MOST = 40 };
    gs_flow_rounds lines[MOST] = {{.place = GS_FLOW_ONE_WAY_LINE, .at = branch}};
    struct counted counted = {0};
    gs_error error = {.code = GS_OK};
    unsigned char parameters[12] = {0};
    bool is_known[12] = {[8] = true, true, true, true};
    int32_t parameter = 1000;
    size_t count = 1;
    gs_sass_image image;
    for (uint32_t line = first; line <= last; line++)
        lines[count++] = (gs_flow_rounds){.place = GS_FLOW_NEVER_LINE, .at = line};
    memcpy(parameters + 8, &parameter, sizeof parameter);
    gs_flow_launch launch = {{4, 1, 1}, {64, 1, 1}, parameters, is_known, sizeof parameters};
    read_cases(&image);
    assert_int_equal(walk(&image, "unrolled", &launch, lines, count, &counted, &error), GS_OK);
    gs_sass_free(&image);
    return counted.open[0].most;
}

/* The loop of single rounds is in lines 151 to 156, behind the branch of line 149. An instruction of line 152 is in
   front of it, in a block of its own: where only that is of lines that no thread comes to, the loop counts. */
TEST(leaves_out_only_code_of_lines_that_no_thread_comes_to) {
    assert_int_equal(stores_without(151, 156, 149), 4 * 4);
    assert_int_equal(stores_without(151, 156, 139), 3 + 4 * 4); /* threads leave the branch both ways */
    assert_int_equal(stores_without(152, 152, 149), 3 + 4 * 4);
}

TEST(refuses_what_has_no_bound) {
    struct counted counted;
    gs_error error;
    assert_int_equal(walk_case("spins", 0, 4, NULL, &counted, &error), GS_E_REFUSED);
    assert_non_null(strstr(error.message, "the rounds of the loop in line 31 are not known"));
    assert_int_equal(walk_case("half_waits", 0, 4, NULL, &counted, &error), GS_E_REFUSED);
    assert_string_equal(error.message, "at 0x40, in line 44: a barrier of some of the block's threads");
    assert_int_equal(walk_case("nobody", 0, 4, NULL, &counted, &error), GS_E_REFUSED);
    assert_string_equal(error.message, "there is no code of nobody");
}

/* Of the first branch all threads take one side, of the second both sides count. */
TEST(counts_one_side_where_threads_stay_together) {
    struct counted counted;
    gs_error error;
    assert_int_equal(walk_case("branches", 0, 4, NULL, &counted, &error), GS_OK);
    assert_int_equal(counted.uniform, 1);
    assert_int_equal(counted.barriers, 1);
    assert_int_equal(counted.open[0].most, 8 + 8 + 8);
    int64_t instructions = counted.instructions;
    assert_int_equal(walk_case("branches", 0, 2, NULL, &counted, &error), GS_OK);
    assert_int_equal(counted.open[0].most, 8 + 8 + 8);
    assert_true(counted.instructions <= instructions - 8); /* no block takes the other side */
}

TEST(walks_calls_in_their_place) {
    struct counted counted;
    gs_error error;
    assert_int_equal(walk_case("divides", 0, 1, NULL, &counted, &error), GS_OK);
    assert_true(counted.groups > 0 && counted.instructions > 60);
    assert_int_equal(counted.open[0].most,
                     1); /* lanes that read one place get the same, so all of them call, or none */
}

/* ---- machine code that ptxas does not write ---- */

/* A kernel of 4 blocks with `a` in %rd1 and the number of the thread in %r1, and how many stores a warp executes. Its
   BSYNC number `join` becomes a NOP, if that is not 0; or a store in front of the first a BREAK of its barrier, if
   `breaks`. */
static int64_t stores_of(const char *body, int join, bool breaks) {
    enum { NUMBER = 0xfff, NOP = 0x918, BREAK = 0x942, BSYNC = 0x941, STG = 0x986, BARRIER = 0xf0000, ALWAYS = 0x7000 };
    unsigned char parameters[8] = {0};
    bool is_known[8] = {0};
    struct counted counted = {0};
    gs_text text = {0};
    gs_cubin cubin = {0};
    gs_sass_image image = {0};
    gs_error error = {.code = GS_OK};
    uint64_t *code, store = 0;
    gs_text_add(&text, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n");
    gs_text_add(&text, ".reg .b32 %%r<7>; .reg .b64 %%rd<3>; .reg .pred %%p<5>;\nld.param.u64 %%rd1, [a];\n");
    gs_text_add(&text, "mov.u32 %%r1, %%tid.x; setp.lt.u32 %%p1, %%r1, 5;\n%s}\n", body);
    gs_build build = {.name = "joins", .text = text.data, .size = text.count};
    if (gs_cubin_make(&build, 90, &cubin, &error) != GS_OK)
        fail_msg("%s, line %ld", error.message, error.line);
    gs_flow_launch launch = {{4, 1, 1}, {32, 1, 1}, parameters, is_known, sizeof parameters};
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    gs_sass_section *section = (gs_sass_section *)gs_sass_find(&image, ".text.", "k");
    code = malloc(section->bytes.count);
    memcpy(code, section->bytes.data, section->bytes.count);
    for (size_t at = 0; (join || breaks) && at < section->bytes.count / 8; at += 2) {
        store = (code[at] & NUMBER) == STG ? at : store;
        if ((code[at] & NUMBER) != BSYNC)
            continue;
        if (breaks)
            code[store] = BREAK | ALWAYS | (code[at] & BARRIER);
        else if (--join == 0)
            code[at] = NOP | ALWAYS;
        breaks = false;
    }
    memcpy(section->bytes.data, code, section->bytes.count);
    assert_int_equal(walk(&image, "k", &launch, NULL, 0, &counted, &error), GS_OK);
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
    free(code);
    return counted.open[0].most;
}

#define STORES4(place)                                                                                                 \
    "st.volatile.global.u32 [%rd1+" place "], %r1;\nst.volatile.global.u32 [%rd1+" place "], %r1;\n"                   \
    "st.volatile.global.u32 [%rd1+" place "], %r1;\nst.volatile.global.u32 [%rd1+" place "], %r1;\n"
#define STORES8(place) STORES4(place) STORES4(place)
#define SIDES          "setp.eq.u32 %p3, %r2, 0;\n@%p3 bra X;\n" STORES8("8") "bra E;\nX: " STORES8("12") "E: ret;\n"

/* Lanes that load one place at once get the same. Two groups that do so one after the other may not, and may then come
   together; nor may halves of a warp. */
TEST(only_what_is_loaded_at_once_is_the_same) {
    static const char parts[] = "@%p1 bra A;\n" STORES8("4") "A: ld.relaxed.cta.global.u32 %r2, [%rd1];\n" SIDES;
    char path[1000];
    if (!gs_assembler_find(path, sizeof path))
        skip();
    assert_int_equal(stores_of("ld.relaxed.cta.global.u32 %r2, [%rd1];\n" SIDES, 0, false), 8);
    assert_int_equal(stores_of("ld.global.v2.u32 {%r2, %r3}, [%rd1]; add.u32 %r2, %r2, %r3;\n" SIDES, 0, false), 16);
    assert_int_equal(stores_of("ld.global.nc.v2.u32 {%r2, %r3}, [%rd1]; add.u32 %r2, %r2, %r3;\n" SIDES, 0, false), 8);
    assert_int_equal(stores_of(parts, 0, false), 8 + 8);
    assert_int_equal(stores_of(parts, 1, false), 8 + 2 * 16);
}

/* Some blocks go to N at once; the threads of others part before it, and come together at a BSYNC, unless some have
   left its barrier. */
TEST(threads_that_left_a_barrier_are_a_group_of_their_own) {
    static const char body[] = "mov.u32 %r2, %ctaid.x; setp.lt.u32 %p2, %r2, 2;\n@%p2 bra N;\n@%p1 bra J;\n" STORES8(
        "4") "J: " STORES8("8") "membar.gl;\nN: " STORES8("12") "ret;\n";
    char path[1000];
    if (!gs_assembler_find(path, sizeof path))
        skip();
    assert_int_equal(stores_of(body, 0, false), 8 + 8 + 8);
    assert_int_equal(stores_of(body, 0, true), 7 + 8 + 2 * 8);
}

/* Threads leave a loop of 4 rounds in 4 groups. By a branch in it that also leaves one of 2 rounds around it they do so
   in 8; as they may leave that one in its 2 rounds, they come to the stores in 10. ptxas
   unrolls no loop with `activemask`. */
TEST(threads_leave_loops_in_as_many_groups_as_these_have_rounds) {
    static const char one[] = "mov.u32 %r3, 0;\nL: activemask.b32 %r2; st.volatile.global.u32 [%rd1+4], %r2;\n"
                              "add.s32 %r3, %r3, 8; setp.le.s32 %p2, %r3, %r1;\n@%p2 bra L;\n" STORES8("8") "ret;\n";
    static const char two[] =
        "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;\nmov.u32 %r4, 0;\nM: mov.u32 %r3, 0;\n"
        "L: activemask.b32 %r2; st.volatile.global.u32 [%rd1+4], %r2;\n"
        "ld.relaxed.cta.global.u32 %r5, [%rd2]; setp.eq.s32 %p2, %r1, %r5;\n@%p2 bra E;\n"
        "add.s32 %r3, %r3, 8; setp.le.s32 %p3, %r3, %r1;\n@%p3 bra L;\n"
        "add.s32 %r4, %r4, 16; setp.le.s32 %p4, %r4, %r1;\n@%p4 bra M;\nE: " STORES8("8") "ret;\n";
    char path[1000];
    if (!gs_assembler_find(path, sizeof path))
        skip();
    assert_int_equal(stores_of(one, 0, false), 4 + 8);
    assert_int_equal(stores_of(one, 1, false), 4 + 4 * 8);
    assert_int_equal(stores_of(two, 0, false), 2 * 4 + 8);
    assert_int_equal(stores_of(two, 2, false), 2 * 4 + (2 * 4 + 2) * 8);
}

TEST(finds_every_opcode) {
    int found = 0;
    for (unsigned number = 0; number < 512; number++) {
        const gs_opcode *opcode = gs_opcode_find(number);
        found += opcode != NULL;
        assert_true(!opcode || (opcode->number == number && opcode->name[0] && opcode->class_name[0]));
    }
    assert_int_equal(found, OPCODES);
}

/* ---- classes ---- */

struct wanted {
    const char *class_name;
    int found;
};

static bool find_class(void *user, const gs_flow_step *step) {
    struct wanted *wanted = user;
    wanted->found += is_of_class(step, wanted->class_name);
    return true;
}

static void put_class_kernel(gs_text *text, size_t number) {
    gs_text_add(text, ".visible .entry k%zu(.param .u64 a, .param .u64 b)\n{\n", number);
    gs_text_add(text, ".reg .b32 %%r<10>; .reg .b64 %%rd<3>; .reg .f32 %%f<5>; .reg .f64 %%d<3>; .reg .pred %%p<2>;\n");
    gs_text_add(text, ".local .align 16 .b8 scratch[1024]; .shared .align 16 .b8 buffer[256];\n");
    gs_text_add(text, "ld.param.u64 %%rd1, [a]; mov.u32 %%r1, %%tid.x; mul.wide.u32 %%rd2, %%r1, 256;\n");
    gs_text_add(text, "add.u64 %%rd1, %%rd1, %%rd2; ld.param.u64 %%rd2, [b];\n");
    for (int i = 1; i < 6; i++)
        gs_text_add(text, "ld.relaxed.cta.global.u32 %%r%d, [%%rd1+%d];\n", i, i * 4);
    for (int i = 1; i < 4; i++)
        gs_text_add(text, "mov.b32 %%f%d, %%r%d;\n", i, i);
    gs_text_add(text, "mov.b64 %%d1, {%%r1, %%r2};\n%s\nst.volatile.global.u32 [%%rd1], %%r9;\nret;\n}\n",
                classes[number].statements);
}

/* In a kernel with one more instruction, the class of that one occurs once more. */
TEST(knows_the_class_of_instructions) {
    gs_text text = {0};
    gs_cubin cubin = {0};
    gs_sass_image image = {0};
    gs_error error = {.code = GS_OK};
    char path[1000];
    if (!gs_assembler_find(path, sizeof path))
        skip();
    gs_text_add(&text, ".version 8.0\n.target sm_90\n.address_size 64\n.const .align 4 .b8 table[64] = {1, 2, 3};\n");
    for (size_t i = 0; i < GS_COUNT(classes); i++)
        put_class_kernel(&text, i);
    gs_build build = {.name = "classes", .text = text.data, .size = text.count};
    if (gs_cubin_make(&build, 90, &cubin, &error) != GS_OK)
        fail_msg("%s, line %ld", error.message, error.line);
    assert_int_equal(gs_sass_read(&image, cubin.image, cubin.bytes, &error), GS_OK);
    for (size_t i = 0; i < GS_COUNT(classes); i++) {
        char name[20], *file = NULL;
        struct wanted wanted = {.class_name = classes[i].class_name};
        gs_flow_visitor visitor = {&wanted, ignore_open, ignore_close, find_class};
        gs_flow_launch launch = {{1, 1, 1}, {32, 1, 1}, NULL, NULL, 0};
        snprintf(name, sizeof name, "k%zu", i);
        if (gs_flow_walk(&image, name, &launch, NULL, 0, &visitor, &file, &error) != GS_OK)
            fail_msg("%s: %s", classes[i].statements, error.message);
        free(file);
        int others = strcmp(wanted.class_name, "global_store") == 0 ? 1
                     : strcmp(wanted.class_name, "constant") == 0   ? 2
                                                                    : 0;
        if (wanted.found <= others)
            fail_msg("%s: no instruction of class %s", classes[i].statements, wanted.class_name);
    }
    gs_sass_free(&image);
    gs_cubin_free(&cubin);
    gs_text_free(&text);
}

TEST_MAIN(NULL, NULL)
