/*
 * test_flow.c: what a warp of machine code executes at most: never less than it does, and for plain loops exactly that.
 *
 * Random kernels are assembled where ptxas is. Their trees say how often a store is executed; random_loops.c executes
 * the same kernels, from how they were drawn.
 */
#include "test.h"

#include "kernels/cuda/cuda.h"
#include "kernels/flow/flow.h"
#include "random_loops.h"

#include <stdlib.h>

enum { PARAMETER_BYTES = 24, MOST_LINES = 100000, MOST_NESTED = 400 };

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

static bool open_counted(void *user, gs_flow_kind kind, uint32_t offset, uint32_t line, bool is_uniform, int64_t times,
                         bool is_given) {
    struct counted *counted = user;
    (void)offset, (void)line, (void)is_given;
    bool repeats = kind == GS_FLOW_LOOP || kind == GS_FLOW_GROUPS;
    assert_true(counted->depth + 1 < MOST_NESTED);
    counted->times[counted->depth + 1] = counted->times[counted->depth] * (repeats ? times : 1);
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
    int64_t most = counted->open[counted->depth].most * counted->open[counted->depth].times;
    int64_t *into = &counted->open[--counted->depth].most;
    *into = !counted->open[counted->depth].takes_largest ? *into + most : most > *into ? most : *into;
    return true;
}

static bool count_step(void *user, const gs_flow_step *step) {
    struct counted *counted = user;
    int64_t times = counted->times[counted->depth];
    counted->instructions += times;
    counted->barriers += step->is_barrier;
    counted->open[counted->depth].most += strcmp(step->class_name, "global_store") == 0;
    if (counted->stores && strcmp(step->class_name, "global_store") == 0 && step->line < MOST_LINES)
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

static void never_counts_less_than_is_executed(void **state) {
    uint64_t seed = test_number("GRIDSMITH_SEED", 1), modules = test_number("GRIDSMITH_RUNS", 100000) / 5000 + 1;
    struct totals totals = {0};
    char path[1000];
    (void)state;
    if (!gs_assembler_find(path, sizeof path))
        skip();
    for (uint64_t i = 0; i < modules; i++)
        check_module(seed, i, &totals);
    print_message("%lld kernels, %lld without a bound; of %lld marks %lld exact\n", (long long)totals.kernels,
                  (long long)totals.refused, (long long)totals.marks, (long long)totals.exact);
    assert_true(totals.refused * 2 < totals.kernels);
    assert_true(totals.exact * 4 > totals.marks);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(never_counts_less_than_is_executed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
