/*
 * test_check_fixes.c: each fix that is printed works, and no smaller one of its kind does.
 *
 * Random kernels on small GPUs are fixed, and then every possible change is tried by the literal scheduler.
 */
#include "test.h"

#include "literal.h"
#include "model/check/check.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 4, ALL_KINDS = (1 << GS_FIX_KINDS) - 1 };

#define NONE SIZE_MAX

/* How many random cases to try: a share of GRIDSMITH_RUNS, but enough to meet each kind of answer. */
static uint64_t cases(uint64_t share, uint64_t least) {
    return gs_max_u64(test_number("GRIDSMITH_RUNS", 100000) / share, least);
}

/* ---- orders ---- */

static bool next_order(size_t *order, size_t count) {
    for (size_t i = count; i-- > 1;)
        if (order[i - 1] < order[i]) {
            size_t j = count - 1, kept = order[i - 1];
            while (order[j] < kept)
                j--;
            order[i - 1] = order[j];
            order[j] = kept;
            for (size_t a = i, b = count - 1; a < b; a++, b--) {
                kept = order[a];
                order[a] = order[b];
                order[b] = kept;
            }
            return true;
        }
    return false;
}

static void first_order(size_t *order, size_t count) {
    for (size_t i = 0; i < count; i++)
        order[i] = i;
}

/* How many kernels must be moved to get this order: all but the longest part that is in launch order. */
static size_t moved(const size_t *order, size_t count) {
    size_t most = 0;
    for (unsigned set = 0; set < 1u << count; set++) {
        size_t last = NONE, kept = 0;
        bool in_order = true;
        for (size_t i = 0; i < count; i++)
            if (set >> i & 1) {
                in_order = in_order && (last == NONE || order[last] < order[i]);
                last = i;
                kept++;
            }
        most = in_order && kept > most ? kept : most;
    }
    return count - most;
}

/* Whether the changes work in this launch order, or in every one. */
static bool works(const gs_gpu *gpu, const gs_run *run, const gs_change *changes, size_t count, const size_t *order,
                  bool every_order) {
    size_t tried[MOST_KERNELS], launches = run->launches.count;
    if (!every_order)
        return literal_works(gpu, run, changes, count, order);
    first_order(tried, launches);
    do {
        if (!literal_works(gpu, run, changes, count, tried))
            return false;
    } while (next_order(tried, launches));
    return true;
}

/* ---- all values of a kind ---- */

/* The value number `i` of a change, the smallest change first; false: there are no more. */
static bool value_of(const gs_gpu *gpu, const gs_run *run, gs_fix_kind kind, size_t launch, int64_t i, int64_t *value) {
    const gs_launch *given = &run->launches.data[launch];
    int32_t least, step;
    switch (kind) {
    case GS_FIX_LOCAL:
        *value = given->shape.local_bytes;
        return i == 0 && *value && gpu->mechanisms.local_growth_waits == GS_YES;
    case GS_FIX_CARVEOUT:
        *value = i;
        if (given->shape.carveout_percent != GS_NO_CARVEOUT)
            *value = i == 0 ? GS_NO_CARVEOUT : given->shape.carveout_percent + (i + 1) / 2 * (i % 2 ? -1 : 1);
        return i <= 200;
    case GS_FIX_GREEN:
        gs_gpu_green_sizes(gpu, &least, &step);
        *value = least + i * step;
        return *value <= gpu->sms - least;
    case GS_FIX_BLOCKS:
        *value = given->blocks - (i + 1) * given->cluster;
        return *value > 0;
    case GS_FIX_CLUSTER:
        *value = given->cluster - 1 - i;
        return *value > 0;
    case GS_FIX_REGISTERS:
        *value = given->shape.registers - 1 - i;
        return *value >= 24;
    case GS_FIX_SHARED:
        *value = given->shape.shared_bytes - 1 - i;
        if (i)
            *value = (gs_divide_up(given->shape.shared_bytes, gpu->limits.shared_granularity_bytes) - i) *
                     gpu->limits.shared_granularity_bytes;
        return *value >= 0;
    default:
        return false;
    }
}

static bool is_allowed(const gs_run *run, const gs_change *change) {
    const gs_launch *launch = &run->launches.data[change->launch];
    if (change->kind == GS_FIX_CARVEOUT)
        return change->to >= 0 ? change->to <= 100 : launch->shape.carveout_percent != GS_NO_CARVEOUT;
    if (change->kind == GS_FIX_CLUSTER)
        return launch->blocks % change->to == 0;
    for (size_t i = 0; change->kind == GS_FIX_GREEN && i < run->launches.count; i++)
        if (run->launches.data[i].cluster > 1)
            return false;
    return true;
}

/* The smallest change of this kind that works; false: none does. */
static bool smallest(const gs_gpu *gpu, const gs_run *run, gs_change *change, bool every_order) {
    for (int64_t i = 0; value_of(gpu, run, change->kind, change->launch, i, &change->to); i++)
        if (is_allowed(run, change) && works(gpu, run, change, 1, NULL, every_order))
            return true;
    return false;
}

static bool all_smaller_work(const gs_gpu *gpu, const gs_run *run, gs_change change, bool every_order) {
    int64_t largest = change.to;
    for (int64_t i = 0; value_of(gpu, run, change.kind, change.launch, i, &change.to); i++)
        if (change.to < largest && !works(gpu, run, &change, 1, NULL, every_order))
            return false;
    return true;
}

/* ---- one change ---- */

static const gs_fix *find_fix(const gs_fixes *fixes, gs_fix_kind kind, size_t launch) {
    for (size_t i = 0; i < fixes->count; i++)
        if (fixes->data[i].count == 1 && fixes->data[i].changes[0].kind == kind &&
            (launch == NONE || fixes->data[i].changes[0].launch == launch))
            return &fixes->data[i];
    return NULL;
}

static void compare_values(const gs_gpu *gpu, const gs_run *run, const gs_fixes *fixes, gs_fix_kind kind, size_t launch,
                           bool every_order, uint64_t index) {
    gs_change wanted = {.kind = kind, .launch = launch};
    bool exists = smallest(gpu, run, &wanted, every_order);
    const gs_fix *found = find_fix(fixes, kind, launch);
    if (exists != (found != NULL) || (found && found->changes[0].to != wanted.to))
        fail_msg("index %llu: %s of k%zu: %lld, not %lld", (unsigned long long)index, gs_fix_kind_name(kind), launch,
                 found ? (long long)found->changes[0].to : -999, exists ? (long long)wanted.to : -999);
    bool has_limit = kind == GS_FIX_BLOCKS || kind == GS_FIX_REGISTERS || kind == GS_FIX_SHARED;
    if (found && has_limit && found->changes[0].is_limit != all_smaller_work(gpu, run, wanted, every_order))
        fail_msg("index %llu: whether %s of k%zu is a limit", (unsigned long long)index, gs_fix_kind_name(kind),
                 launch);
}

static void compare_orders(const gs_gpu *gpu, const gs_run *run, const gs_fixes *fixes, uint64_t index) {
    size_t order[MOST_KERNELS], count = run->launches.count, fewest = NONE;
    const gs_fix *found = find_fix(fixes, GS_FIX_ORDER, NONE);
    first_order(order, count);
    while (next_order(order, count))
        if (moved(order, count) < fewest && works(gpu, run, NULL, 0, order, false))
            fewest = moved(order, count);
    if ((fewest == NONE) != (found == NULL))
        fail_msg("index %llu: an order that works", (unsigned long long)index);
    if (!found)
        return;
    assert_int_equal(moved(found->order.data, count), fewest);
    assert_true(works(gpu, run, NULL, 0, found->order.data, false));
    if (fewest == 1) { /* moving that kernel gives that order */
        const gs_change *change = &found->changes[0];
        assert_int_equal(found->order.data[change->to], change->launch);
    } else {
        assert_true(found->changes[0].launch == NONE);
    }
}

/* Kernels that nearly fill a small GPU. Shared memory is in large granules, so that there are few amounts to try. */
static gs_gpu *draw_gpu(gs_random *random, uint64_t index) {
    gs_gpu *gpu = random_gpu(random, index % 2 ? 50 : 0);
    gpu->limits.shared_granularity_bytes = 4096;
    for (int32_t i = 0; i < gpu->limits.configs; i++)
        gpu->limits.config_bytes[i] = (int32_t)(gs_divide_up(gpu->limits.config_bytes[i], 4096) * 4096);
    gpu->largest_config_bytes = gpu->limits.config_bytes[gpu->limits.configs - 1];
    return gpu;
}

static gs_run *draw_kernels(gs_random *random, const gs_gpu *gpu, int64_t most) {
    gs_run *run = gs_run_new(NULL);
    int64_t count = gs_random_from(random, 1, most);
    for (int64_t i = 0; i < count; i++) {
        gs_launch launch = numbered_launch(i);
        launch.shape = random_shape(random, gpu);
        launch.blocks = gs_random_from(random, 1, gpu->sms * 3);
        random_cluster(random, gpu, &launch);
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    return run;
}

static void fixes_are_the_smallest(void **state) {
    (void)state;
    size_t found[GS_FIX_KINDS] = {0};
    for (uint64_t i = 0; i < cases(100, 100); i++) {
        gs_random random = gs_random_at(21, i);
        gs_gpu *gpu = draw_gpu(&random, i);
        bool every_order = i % 4 == 0;
        gs_run *run = draw_kernels(&random, gpu, every_order ? 3 : MOST_KERNELS);
        gs_fix_options options = {.kinds = ALL_KINDS, .every_order = every_order, .budget = INT64_MAX};
        gs_fixes fixes;
        if (!works(gpu, run, NULL, 0, NULL, every_order)) {
            assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
            assert_int_equal(fixes.unfinished, 0);
            for (int kind = GS_FIX_LOCAL; kind < GS_FIX_KINDS; kind++)
                for (size_t launch = 0; launch < run->launches.count; launch++)
                    compare_values(gpu, run, &fixes, kind, launch, every_order, i);
            if (!every_order)
                compare_orders(gpu, run, &fixes, i);
            for (size_t j = 0; j < fixes.count; j++)
                found[fixes.data[j].changes[0].kind] += fixes.data[j].count == 1;
            gs_fixes_clear(&fixes);
        }
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    for (int kind = 0; kind < GS_FIX_KINDS; kind++) {
        print_message("%s %zu\n", gs_fix_kind_name(kind), found[kind]);
        assert_true(found[kind] > 0 || kind == GS_FIX_STREAM || kind == GS_FIX_CLUSTER);
    }
}

/* ---- two changes ---- */

/* The share that is taken away. */
static int64_t cost_of(const gs_run *run, const gs_change *change) {
    const gs_launch *launch = &run->launches.data[change->launch];
    int64_t from = change->kind == GS_FIX_BLOCKS ? launch->blocks : launch->shape.registers;
    return (from - change->to) * 1000000 / from;
}

/* The least cost of two changes of blocks or registers that work together; INT64_MAX: none do. */
static int64_t cheapest_pair(const gs_gpu *gpu, const gs_run *run) {
    static const gs_fix_kind kinds[] = {GS_FIX_BLOCKS, GS_FIX_REGISTERS};
    size_t knobs = 2 * run->launches.count;
    int64_t least = INT64_MAX;
    for (size_t a = 0; a < knobs; a++)
        for (size_t b = a + 1; b < knobs; b++) {
            gs_change pair[2] = {{.kind = kinds[a % 2], .launch = a / 2}, {.kind = kinds[b % 2], .launch = b / 2}};
            for (int64_t i = 0; value_of(gpu, run, pair[0].kind, pair[0].launch, i, &pair[0].to); i++)
                for (int64_t j = 0; value_of(gpu, run, pair[1].kind, pair[1].launch, j, &pair[1].to); j++) {
                    int64_t first = cost_of(run, &pair[0]), second = cost_of(run, &pair[1]);
                    int64_t cost = first * first / 1000000 + second * second / 1000000;
                    if (cost < least && works(gpu, run, pair, 2, NULL, false))
                        least = cost;
                }
        }
    return least;
}

static bool fits_alone(const gs_gpu *gpu, const gs_run *run, gs_fix_kind kind) {
    for (size_t launch = 0; launch < run->launches.count; launch++) {
        gs_change change = {.kind = kind, .launch = launch};
        if (smallest(gpu, run, &change, false))
            return true;
    }
    return false;
}

static void the_cheapest_pair_is_found(void **state) {
    (void)state;
    size_t found = 0, impossible = 0;
    for (uint64_t i = 0; i < cases(200, 40); i++) {
        gs_random random = gs_random_at(22, i);
        gs_gpu *gpu = draw_gpu(&random, i);
        gpu->sms = gpu->sms > 2 && gpu->mechanisms.tie_order != GS_TIES_LISTED && !gs_gpu_has_clusters(gpu) &&
                           gpu->mechanisms.numbering == GS_NUMBERED_AS_PLACED
                       ? 2
                       : gpu->sms;
        gs_run *run = draw_kernels(&random, gpu, 3);
        gs_fix_options options = {.kinds = 1 << GS_FIX_BLOCKS | 1 << GS_FIX_REGISTERS, .budget = INT64_MAX};
        gs_fixes fixes;
        if (gpu->sms <= 2 && !works(gpu, run, NULL, 0, NULL, false) && !fits_alone(gpu, run, GS_FIX_BLOCKS) &&
            !fits_alone(gpu, run, GS_FIX_REGISTERS)) {
            int64_t least = cheapest_pair(gpu, run);
            assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
            assert_true(fixes.combinations_searched && fixes.combinations_finished);
            if (fixes.count != (least < INT64_MAX) || (fixes.count && fixes.data[0].cost != least))
                fail_msg("index %llu: the cheapest pair costs %lld, not %lld", (unsigned long long)i, (long long)least,
                         fixes.count ? (long long)fixes.data[0].cost : -1);
            if (fixes.count)
                assert_true(works(gpu, run, fixes.data[0].changes, 2, NULL, false));
            found += fixes.count;
            impossible += !fixes.count;
            gs_fixes_clear(&fixes);
        }
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%zu pairs, %zu times none\n", found, impossible);
    assert_true(found > 0);
}

/* ---- which orders work ---- */

static bool rule_allows(const gs_orders *orders, const size_t *order, size_t count) {
    size_t place[MOST_KERNELS];
    for (size_t i = 0; i < count; i++)
        place[order[i]] = i;
    switch (orders->rule) {
    case GS_ORDERS_ALL:
        return true;
    case GS_ORDERS_FIRST:
        return place[orders->launch] == 0;
    case GS_ORDERS_LAST:
        return place[orders->launch] == count - 1;
    case GS_ORDERS_BEFORE:
        return place[orders->launch] < place[orders->other];
    default:
        return false;
    }
}

static void the_rule_says_which_orders_work(void **state) {
    (void)state;
    size_t rules[GS_ORDERS_SOME + 1] = {0};
    for (uint64_t i = 0; i < cases(50, 80); i++) {
        gs_random random = gs_random_at(23, i);
        gs_gpu *gpu = draw_gpu(&random, i);
        gs_run *run = draw_kernels(&random, gpu, MOST_KERNELS);
        size_t order[MOST_KERNELS], count = run->launches.count, working = 0;
        gs_orders orders;
        assert_int_equal(gs_orders_that_work(gpu, run, &orders, NULL), GS_OK);
        first_order(order, count);
        do {
            bool fits = works(gpu, run, NULL, 0, order, false);
            working += fits;
            if (orders.rule != GS_ORDERS_SOME && fits != rule_allows(&orders, order, count))
                fail_msg("index %llu: rule %d", (unsigned long long)i, (int)orders.rule);
        } while (next_order(order, count));
        assert_int_equal(working, orders.working);
        rules[orders.rule]++;
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("all %zu, none %zu, first %zu, last %zu, before %zu, some %zu\n", rules[GS_ORDERS_ALL],
                  rules[GS_ORDERS_NONE], rules[GS_ORDERS_FIRST], rules[GS_ORDERS_LAST], rules[GS_ORDERS_BEFORE],
                  rules[GS_ORDERS_SOME]);
    assert_true(rules[GS_ORDERS_ALL] && rules[GS_ORDERS_NONE] && rules[GS_ORDERS_FIRST] && rules[GS_ORDERS_SOME]);
}

/* ---- single cases ---- */

static gs_fixes fix_words(const char *gpu_name, const char *const *words, size_t count, unsigned kinds, int64_t budget,
                          gs_text *text) {
    gs_gpu *gpu = gs_gpu_open(gpu_name, NULL);
    gs_run *run = gs_run_new(NULL);
    for (size_t i = 0; i < count; i++) {
        gs_launch launch;
        assert_int_equal(gs_launch_of_word(words[i], &launch, NULL), GS_OK);
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    gs_fix_options options = {.kinds = kinds, .budget = budget};
    gs_fixes fixes;
    assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
    for (size_t i = 0; i < fixes.count; i++)
        for (size_t j = 0; j < fixes.data[i].count; j++) {
            gs_change_text(gpu, run, &fixes.data[i], j, text);
            gs_text_add(text, "\n");
        }
    gs_run_free(run);
    gs_gpu_free(gpu);
    return fixes;
}

static void expect_fixes(const char *gpu, const char *const *words, size_t count, unsigned kinds, const char *wanted) {
    gs_text text = {0};
    gs_fixes fixes = fix_words(gpu, words, count, kinds, INT64_MAX, &text);
    assert_string_equal(text.data ? text.data : "", wanted);
    gs_text_free(&text);
    gs_fixes_clear(&fixes);
}

static void kernels_of_one_stream_get_streams_of_their_own(void **state) {
    (void)state;
    const char *const words[] = {"a=8x256,stream=1", "b=8x256,stream=1", "c=8x256,stream=2"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_STREAM, "launch b in a stream of its own\n");
}

static void local_memory_is_set_up_before(void **state) {
    (void)state;
    const char *const words[] = {"a=8x256", "b=8x256,l4K"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_LOCAL | 1 << GS_FIX_ORDER,
                 "launch b first\n"
                 "run b once before, so that local memory is set up for its 4,096 bytes a thread\n");
}

/* It grows only while the whole GPU is idle: a green context for either kernel does not help. */
static void a_green_context_does_not_set_up_local_memory(void **state) {
    (void)state;
    const char *const words[] = {"a=8x256", "b=8x256,l64"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_GREEN, "");
}

static void smaller_clusters_help(void **state) {
    (void)state;
    const char *const words[] = {"a=128x1024,r64,c16"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_CLUSTER, "a with clusters of 2 instead of 16\n");
}

static void a_carve_out_is_taken_away(void **state) {
    (void)state;
    const char *const words[] = {"a=132x32,s200K", "b=1x32,carveout=10"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_CARVEOUT, "b without its carve-out of 10 percent\n");
}

/* Of many kernels only one is moved. Here two must be: the last needs local memory, so it must be the first of all, and
   the one before it needs a large configuration, so it must come before the small ones. */
static void an_order_that_is_known_is_used(void **state) {
    (void)state;
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_run *run = gs_run_new(NULL);
    for (int64_t i = 0; i < 8; i++) {
        gs_launch launch = numbered_launch(i);
        launch.blocks = i == 7 ? 1 : i == 6 ? 131 : 132;
        launch.shape = gs_shape_of(32, 32, i == 6 ? 200 << 10 : 0);
        launch.shape.local_bytes = i == 7 ? 4096 : 0;
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    size_t numbers[] = {7, 6, 0, 1, 2, 3, 4, 5};
    gs_order known = {.data = numbers, .count = 8};
    gs_fix_options options = {.kinds = 1 << GS_FIX_ORDER, .budget = 100000};
    gs_fixes fixes;
    assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
    assert_int_equal(fixes.count, 0);
    gs_fixes_clear(&fixes);
    options.known_order = &known;
    assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
    assert_int_equal(fixes.count, 1);
    assert_true(fixes.data[0].changes[0].launch == NONE);
    assert_memory_equal(fixes.data[0].order.data, numbers, sizeof numbers);
    gs_fixes_clear(&fixes);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

static void a_spent_budget_is_admitted(void **state) {
    (void)state;
    const char *const words[] = {"mega=132x256,r168,s200K", "nccl=16x512,r96"};
    gs_text text = {0};
    gs_fixes fixes = fix_words("h200", words, 2, 1 << GS_FIX_BLOCKS, 20, &text);
    assert_int_equal(fixes.count, 0);
    assert_int_equal(fixes.unfinished, 1 << GS_FIX_BLOCKS);
    gs_fixes_clear(&fixes);
    gs_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixes_are_the_smallest),
        cmocka_unit_test(the_cheapest_pair_is_found),
        cmocka_unit_test(the_rule_says_which_orders_work),
        cmocka_unit_test(kernels_of_one_stream_get_streams_of_their_own),
        cmocka_unit_test(local_memory_is_set_up_before),
        cmocka_unit_test(a_green_context_does_not_set_up_local_memory),
        cmocka_unit_test(smaller_clusters_help),
        cmocka_unit_test(a_carve_out_is_taken_away),
        cmocka_unit_test(an_order_that_is_known_is_used),
        cmocka_unit_test(a_spent_budget_is_admitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
