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

/* With few runs, as under sanitizers, not every kind of answer is met. */
static bool are_few(void) {
    return test_number("GRIDSMITH_RUNS", 100000) < 10000;
}

/* How many random cases to try: a share of GRIDSMITH_RUNS, but enough to meet each kind of answer. */
static uint64_t cases(uint64_t share, uint64_t least) {
    return gs_max_u64(test_number("GRIDSMITH_RUNS", 100000) / share, are_few() ? least / 8 : least);
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
        gs_launch_facts facts = gs_launch_facts_none();
        facts.is_cooperative = gs_random_chance(random, 15);
        launch.issue.facts = facts.is_cooperative ? &facts : NULL;
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    return run;
}

/* The same with all that a launch can have besides: streams, priorities, cooperative launches, green contexts, and
   exits in between. */
static gs_run *draw_launches(gs_random *random, const gs_gpu *gpu, int64_t most) {
    gs_run *run = gs_run_new(NULL);
    int64_t count = gs_random_from(random, 1, most);
    bool has_streams = gs_random_chance(random, 50), has_exits = gs_random_chance(random, 15);
    if (gs_random_chance(random, 15))
        random_green_contexts(random, gpu, &run->green_contexts);
    for (int64_t i = 0; i < count; i++) {
        gs_launch launch = numbered_launch(i);
        gs_launch_facts facts = gs_launch_facts_none();
        launch.shape = random_shape(random, gpu);
        launch.blocks = gs_random_from(random, 1, gpu->sms * 2);
        random_cluster(random, gpu, &launch);
        if (gs_random_chance(random, 30))
            launch.priority = (int32_t)gs_random_from(random, -2, 0);
        if (has_streams && gs_random_chance(random, 60))
            launch.stream = strdup(gs_random_chance(random, 70) ? "1" : "2");
        facts.is_cooperative = gs_random_chance(random, 20);
        if (run->green_contexts.count && gs_random_chance(random, 60))
            facts.green_context = gs_random_from(random, 0, run->green_contexts.count - 1);
        launch.issue.facts = &facts;
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
        size_t leaver = (size_t)gs_random_from(random, 0, i);
        if (has_exits && gs_random_chance(random, 50) && run->launches.data[leaver].exit == SIZE_MAX)
            assert_int_equal(gs_run_add_exit(run, leaver, NULL), GS_OK);
    }
    return run;
}

static size_t limits[GS_ANSWER_UNKNOWN + 1]; /* how often each was said */

/* "At most": all smaller values work too. "Exactly": one does not. */
static void try_smaller(const gs_gpu *gpu, const gs_run *run, const gs_fix *fix, bool every_order, uint64_t index) {
    gs_change change = fix->changes[0];
    int64_t to = change.to, step = run->launches.data[change.launch].cluster, least = step;
    bool all_work = true;
    if (change.kind != GS_FIX_BLOCKS && change.kind != GS_FIX_REGISTERS && change.kind != GS_FIX_SHARED)
        return;
    if (change.kind == GS_FIX_REGISTERS)
        step = gpu->limits.register_granularity / gpu->limits.warp_threads, least = 24;
    else if (change.kind == GS_FIX_SHARED)
        step = gpu->limits.shared_granularity_bytes, least = 0;
    for (change.to -= step; change.to >= least && all_work; change.to -= step)
        all_work = works(gpu, run, &change, 1, NULL, every_order);
    if (change.is_limit != GS_ANSWER_UNKNOWN && all_work != (change.is_limit == GS_ANSWER_YES))
        fail_msg("index %llu: %s of k%zu to %s %lld, but %lld %s", (unsigned long long)index,
                 gs_fix_kind_name(change.kind), change.launch, all_work ? "exactly" : "at most", (long long)to,
                 (long long)(change.to + step), all_work ? "works, too" : "does not work");
    limits[change.is_limit]++;
}

/* By kind, then by cost. */
static void expect_order(const gs_fixes *fixes) {
    for (size_t i = 1; i < fixes->count; i++) {
        const gs_fix *before = &fixes->data[i - 1], *fix = &fixes->data[i];
        assert_true(before->changes[0].kind <= fix->changes[0].kind);
        assert_true(before->changes[0].kind < fix->changes[0].kind || before->cost <= fix->cost);
    }
}

static void try_fixes(const gs_gpu *gpu, const gs_run *run, const gs_fix_options *options, bool every_order,
                      size_t *tried, uint64_t index) {
    gs_fixes fixes;
    assert_int_equal(gs_fix_run(gpu, run, options, &fixes, NULL), GS_OK);
    expect_order(&fixes);
    for (size_t i = 0; i < fixes.count; i++) {
        const gs_fix *fix = &fixes.data[i];
        const size_t *order = fix->order.count ? fix->order.data : NULL;
        if (!works(gpu, run, fix->changes, fix->count, order, every_order))
            fail_msg("index %llu: %s of k%zu to %lld does not work", (unsigned long long)index,
                     gs_fix_kind_name(fix->changes[0].kind), fix->changes[0].launch, (long long)fix->changes[0].to);
        if (fix->count == 1)
            try_smaller(gpu, run, fix, every_order, index);
        for (size_t j = 0; j < fix->count; j++)
            tried[fix->changes[j].kind + (fix->count > 1 ? GS_FIX_KINDS : 0)]++;
    }
    gs_fixes_clear(&fixes);
}

/* Each fix that is offered is applied to the run and played, whatever the run has; alone and in combinations. */
TEST(every_fix_works) {
    size_t tried[2 * GS_FIX_KINDS] = {0};
    for (uint64_t i = 0; i < cases(50, 300); i++) {
        gs_random random = gs_random_at(24, i);
        gs_gpu *gpu = draw_gpu(&random, i);
        gs_run *run = draw_launches(&random, gpu, MOST_KERNELS);
        bool has_exits = false;
        for (size_t j = 0; j < run->launches.count; j++)
            has_exits = has_exits || run->launches.data[j].exit != SIZE_MAX;
        if (i % 8 == 0)
            gpu->limits.kernels_per_gpu = (int32_t)gs_random_from(&random, 1, 4);
        gs_fix_options options = {.kinds = ALL_KINDS, .every_order = i % 4 == 1, .budget = 8000};
        bool every_order = options.every_order && !has_exits;
        if (i % 3 == 0) /* a few kinds: combinations */
            options.kinds =
                (unsigned)gs_random_from(&random, 1, ALL_KINDS) & (unsigned)gs_random_from(&random, 1, ALL_KINDS);
        if (!works(gpu, run, NULL, 0, NULL, every_order))
            try_fixes(gpu, run, &options, every_order, tried, i);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("exactly %zu, at most %zu, without a word %zu\n", limits[GS_ANSWER_NO], limits[GS_ANSWER_YES],
                  limits[GS_ANSWER_UNKNOWN]);
    for (int kind = 0; kind < GS_FIX_KINDS; kind++) {
        print_message("%s %zu, in combinations %zu\n", gs_fix_kind_name(kind), tried[kind], tried[GS_FIX_KINDS + kind]);
        assert_true(are_few() || tried[kind] + tried[GS_FIX_KINDS + kind] > 0);
    }
}

/* If kernels work, some of them get a little more, until they do not: then a small change helps. */
static void tip_over(gs_random *random, const gs_gpu *gpu, gs_run *run, bool every_order) {
    for (int tries = 0; tries < 40 && works(gpu, run, NULL, 0, NULL, every_order); tries++) {
        gs_launch *launch = &run->launches.data[gs_random_from(random, 0, (int64_t)run->launches.count - 1)];
        gs_shape kept = launch->shape;
        gs_occupancy occupancy;
        if (gs_random_chance(random, 40))
            launch->shape.registers += 8;
        else if (gs_random_chance(random, 50))
            launch->shape.shared_bytes += gpu->limits.shared_granularity_bytes;
        else
            launch->blocks += launch->cluster;
        gs_occupancy_of(gpu, &launch->shape, &occupancy, NULL);
        if (!occupancy.blocks)
            launch->shape = kept;
    }
}

TEST(fixes_are_the_smallest) {
    size_t found[GS_FIX_KINDS] = {0};
    for (uint64_t i = 0; i < cases(100, 100); i++) {
        gs_random random = gs_random_at(21, i);
        gs_gpu *gpu = draw_gpu(&random, i);
        bool every_order = i % 4 == 0;
        gs_run *run = draw_kernels(&random, gpu, every_order ? 3 : MOST_KERNELS);
        gs_fix_options options = {.kinds = ALL_KINDS, .every_order = every_order, .budget = INT64_MAX};
        gs_fixes fixes;
        tip_over(&random, gpu, run, every_order);
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
        assert_true(are_few() || found[kind] > 0 || kind == GS_FIX_STREAM || kind == GS_FIX_CLUSTER);
    }
}

/* The place of a kernel without which the others are in launch order: the first place if possible, or else the last. */
static int64_t preferred_place(const size_t *order, size_t count) {
    int64_t found = -1;
    for (size_t left_out = 0; left_out < count; left_out++) {
        bool in_order = true;
        for (size_t i = 0; i < count; i++)
            for (size_t j = i + 1; j < count; j++)
                in_order &= i == left_out || j == left_out || order[i] < order[j];
        if (in_order && (found < 0 || (found > 0 && left_out == count - 1)))
            found = (int64_t)left_out;
    }
    return found;
}

/* How easy an order is to ask for: one kernel first, one last, one in between; more of them. */
static int order_rank(const size_t *order, size_t count) {
    int64_t place = preferred_place(order, count);
    return place == 0 ? 0 : place == (int64_t)count - 1 ? 1 : place > 0 ? 2 : 3;
}

static int best_rank(const gs_gpu *gpu, const gs_run *run) {
    size_t order[MOST_KERNELS], count = run->launches.count;
    int best = 3;
    first_order(order, count);
    while (next_order(order, count))
        if (order_rank(order, count) < best && works(gpu, run, NULL, 0, order, false))
            best = order_rank(order, count);
    return best;
}

/* A fix by another order names the kernel that moves and its new place, and has the whole order. */
TEST(the_kernel_that_moves_is_named) {
    size_t behind_the_first = 0, several = 0;
    for (uint64_t i = 0; i < cases(20, 600); i++) {
        gs_random random = gs_random_at(23, i);
        gs_gpu *gpu = draw_gpu(&random, i);
        gs_run *run = draw_kernels(&random, gpu, MOST_KERNELS);
        gs_fix_options options = {.kinds = 1 << GS_FIX_ORDER, .budget = INT64_MAX};
        gs_fixes fixes;
        assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
        for (size_t j = 0; j < fixes.count; j++) {
            const gs_change *change = &fixes.data[j].changes[0];
            assert_int_equal(fixes.data[j].order.count, run->launches.count);
            if (!works(gpu, run, NULL, 0, NULL, false))
                assert_int_equal(order_rank(fixes.data[j].order.data, run->launches.count), best_rank(gpu, run));
            several += change->launch == NONE;
            if (change->launch == NONE) {
                assert_true(change->from == 0 && change->to == 0);
                continue;
            }
            assert_int_equal(change->from, change->launch);
            assert_int_equal(change->to, preferred_place(fixes.data[j].order.data, run->launches.count));
            behind_the_first += change->to > 0;
            for (size_t at = 0, other = 0; at < run->launches.count; at++) {
                other += other == change->launch;
                assert_int_equal(fixes.data[j].order.data[at], (int64_t)at == change->to ? change->launch : other++);
            }
        }
        gs_fixes_clear(&fixes);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%zu kernels moved behind the first, %zu orders move several\n", behind_the_first, several);
    assert_true(are_few() || behind_the_first > 0);
}

/* Seven kernels have too many orders: the answer says that nothing was tried. Kinds of fixes that no kernel has give no
   fix, and no pair of them. */
TEST(what_was_not_tried_is_said) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_shape shape = gs_shape_of(1024, 32, 0);
    for (int count = 6; count <= 7; count++) {
        gs_run *run = gs_run_new(NULL);
        for (int i = 0; i < count; i++)
            assert_int_equal(gs_run_add_numbered(run, &shape, 20, NULL), GS_OK);
        gs_fix_options options = {.kinds = 1 << GS_FIX_BLOCKS, .every_order = true, .budget = 100000};
        gs_fixes fixes;
        assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
        assert_int_equal(fixes.unfinished, count > 6 ? options.kinds : 0);
        assert_int_equal(fixes.count > 0, count == 6);
        gs_fixes_clear(&fixes);
        options = (gs_fix_options){.kinds = 1 << GS_FIX_CLUSTER, .budget = 100000};
        assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
        assert_int_equal(fixes.count, 0);
        assert_true(fixes.combinations_searched && fixes.combinations_finished);
        gs_fixes_clear(&fixes);
        gs_run_free(run);
    }
    gs_gpu_free(gpu);
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

TEST(the_cheapest_pair_is_found) {
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
    assert_true(are_few() || found > 0);
}

/* Whether two changes work together, of which at most one is a green context and the other one of blocks. */
static bool has_pair(const gs_gpu *gpu, const gs_run *run) {
    static const gs_fix_kind kinds[] = {GS_FIX_BLOCKS, GS_FIX_GREEN};
    size_t knobs = 2 * run->launches.count;
    for (size_t a = 0; a < knobs; a++)
        for (size_t b = a + 1; b < knobs; b++) {
            gs_change pair[2] = {{.kind = kinds[a % 2], .launch = a / 2}, {.kind = kinds[b % 2], .launch = b / 2}};
            for (int64_t i = 0; a % 2 + b % 2 < 2 && value_of(gpu, run, pair[0].kind, pair[0].launch, i, &pair[0].to);
                 i++)
                for (int64_t j = 0; value_of(gpu, run, pair[1].kind, pair[1].launch, j, &pair[1].to); j++)
                    if (is_allowed(run, &pair[0]) && is_allowed(run, &pair[1]) && works(gpu, run, pair, 2, NULL, false))
                        return true;
        }
    return false;
}

TEST(a_pair_with_a_green_context_is_found) {
    size_t with_green = 0, impossible = 0;
    for (uint64_t i = 0; i < cases(20, 1000); i++) {
        gs_random random = gs_random_at(23, i);
        gs_gpu *gpu = draw_gpu(&random, i);
        gs_run *run = draw_kernels(&random, gpu, 3);
        gs_fix_options options = {.kinds = 1 << GS_FIX_BLOCKS | 1 << GS_FIX_GREEN, .budget = INT64_MAX};
        gs_fixes fixes;
        if (!works(gpu, run, NULL, 0, NULL, false) && !fits_alone(gpu, run, GS_FIX_BLOCKS) &&
            !fits_alone(gpu, run, GS_FIX_GREEN)) {
            assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
            if (fixes.count != has_pair(gpu, run))
                fail_msg("index %llu: %s", (unsigned long long)i, fixes.count ? "the pair does not work" : "no pair");
            for (size_t k = 0; k < fixes.count; k++)
                assert_true(works(gpu, run, fixes.data[k].changes, 2, NULL, false));
            impossible += !fixes.count;
            with_green += fixes.count && (fixes.data[0].changes[0].kind == GS_FIX_GREEN ||
                                          fixes.data[0].changes[1].kind == GS_FIX_GREEN);
            gs_fixes_clear(&fixes);
        }
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%zu pairs with a green context, %zu times none\n", with_green, impossible);
    assert_true(are_few() || (with_green > 0 && impossible > 0));
}

static bool are_same(const gs_fixes *one, const gs_fixes *other) {
    bool same = one->count == other->count;
    for (size_t i = 0; same && i < one->count; i++) {
        same = one->data[i].count == other->data[i].count && one->data[i].cost == other->data[i].cost;
        for (size_t k = 0; same && k < one->data[i].count; k++) {
            const gs_change *a = &one->data[i].changes[k], *b = &other->data[i].changes[k];
            same = a->kind == b->kind && a->launch == b->launch && a->from == b->from && a->to == b->to;
        }
    }
    return same;
}

/* A search that says that it has finished has found what one without a budget finds; with one launch less, the same
   search may not. The budget is that of the single changes, and again that of the pairs. */
TEST(a_search_that_has_finished_has_seen_all) {
    size_t finished = 0, cut = 0;
    for (uint64_t i = 0; i < cases(1000, 400); i++) {
        gs_random random = gs_random_at(25, i);
        gs_gpu *gpu = draw_gpu(&random, i);
        gs_run *run = draw_kernels(&random, gpu, 3);
        gs_fix_options options = {.kinds = 1 << GS_FIX_BLOCKS | 1 << GS_FIX_GREEN, .budget = INT64_MAX};
        gs_fixes all, found;
        assert_int_equal(gs_fix_run(gpu, run, &options, &all, NULL), GS_OK);
        int64_t most = all.combinations_searched ? 300 : 20, step = are_few() ? 7 : 1;
        for (options.budget = 0; options.budget < most; options.budget += step) {
            assert_int_equal(gs_fix_run(gpu, run, &options, &found, NULL), GS_OK);
            bool has_finished = !found.unfinished && (!found.combinations_searched || found.combinations_finished);
            if (has_finished && !are_same(&all, &found))
                fail_msg("index %llu: a budget of %lld is not enough", (unsigned long long)i,
                         (long long)options.budget);
            finished += has_finished;
            cut += !has_finished;
            gs_fixes_clear(&found);
        }
        gs_fixes_clear(&all);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("%zu searches have finished, %zu have not\n", finished, cut);
    assert_true(are_few() || (finished > 0 && cut > 0));
}

/* A kernel that is asked about stays: that it would end before the next one comes makes no room. */
TEST(times_are_ignored) {
    size_t found = 0;
    for (uint64_t i = 0; i < cases(200, 100); i++) {
        gs_random random = gs_random_at(26, i);
        gs_gpu *gpu = draw_gpu(&random, i);
        gs_run *run = draw_kernels(&random, gpu, 3);
        gs_fix_options options = {.kinds = 1 << GS_FIX_BLOCKS | 1 << GS_FIX_ORDER, .budget = 1000};
        gs_fixes without, with;
        assert_int_equal(gs_fix_run(gpu, run, &options, &without, NULL), GS_OK);
        for (size_t j = 0; j < run->launches.count; j++) {
            run->launches.data[j].duration_ns = 1000;
            run->launches.data[j].issue.at_ns = 1000000 * (int64_t)j;
        }
        assert_int_equal(gs_fix_run(gpu, run, &options, &with, NULL), GS_OK);
        if (!are_same(&without, &with))
            fail_msg("index %llu: times change what helps", (unsigned long long)i);
        found += with.count > 0;
        gs_fixes_clear(&without);
        gs_fixes_clear(&with);
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    assert_true(are_few() || found > 0);
}

/* What a kernel needs is changed in each of its launches; where and when it runs is not a matter of each. */
TEST(changes_of_needs_are_for_each_launch) {
    static const char each[] = ", in each launch of it";
    const unsigned needs =
        1 << GS_FIX_CARVEOUT | 1 << GS_FIX_BLOCKS | 1 << GS_FIX_CLUSTER | 1 << GS_FIX_REGISTERS | 1 << GS_FIX_SHARED;
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_run *run = gs_run_new(NULL);
    gs_launch launch = numbered_launch(0);
    launch.shape = gs_shape_of(256, 32, 0);
    launch.blocks = 100;
    for (int i = 0; i < 2; i++)
        assert_int_equal(gs_run_copy_launch(run, &launch, NULL), GS_OK);
    run->launches.data[1].is_again = true;
    for (gs_fix_kind kind = GS_FIX_STREAM; kind < GS_FIX_KINDS; kind++)
        for (size_t number = 0; number < 2; number++) {
            gs_fix fix = {.changes = {{.kind = kind, .launch = number, .from = 4, .to = 2}}, .count = 1};
            gs_text text = {0};
            gs_change_text(gpu, run, &fix, 0, &text);
            bool is_said = text.count > sizeof each && strcmp(text.data + text.count - sizeof each + 1, each) == 0;
            if (is_said != (number == 0 && needs >> kind & 1))
                fail_msg("%s", text.data);
            gs_text_free(&text);
        }
    gs_launch_clear(&launch);
    gs_run_free(run);
    gs_gpu_free(gpu);
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

/* Whether a rule says of all orders whether they work. */
static bool rule_holds(const gs_orders *rule, const bool *fits, size_t count) {
    size_t order[MOST_KERNELS], at = 0;
    bool holds = true;
    first_order(order, count);
    do
        holds &= fits[at++] == rule_allows(rule, order, count);
    while (next_order(order, count));
    return holds;
}

/* The first rule that holds, in the order in which they are easy to follow. */
static gs_orders literal_rule(const bool *fits, size_t count) {
    static const gs_orders simple[] = {{.rule = GS_ORDERS_ALL}, {.rule = GS_ORDERS_NONE}};
    for (size_t i = 0; i < GS_COUNT(simple); i++)
        if (rule_holds(&simple[i], fits, count))
            return simple[i];
    for (int which = 0; which < 3; which++)
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < (which == 2 ? count : 1); j++) {
                gs_orders rule = {.rule = which == 0   ? GS_ORDERS_FIRST
                                          : which == 1 ? GS_ORDERS_LAST
                                                       : GS_ORDERS_BEFORE,
                                  .launch = i,
                                  .other = j};
                if ((which < 2 || i != j) && rule_holds(&rule, fits, count))
                    return rule;
            }
    return (gs_orders){.rule = GS_ORDERS_SOME};
}

TEST(the_rule_says_which_orders_work) {
    size_t rules[GS_ORDERS_SOME + 1] = {0};
    for (uint64_t i = 0; i < cases(50, 400); i++) {
        gs_random random = gs_random_at(24, i);
        gs_gpu *gpu = draw_gpu(&random, i);
        gs_run *run = draw_kernels(&random, gpu, MOST_KERNELS);
        size_t order[MOST_KERNELS], count = run->launches.count, working = 0, tried = 0;
        bool fits[24];
        gs_orders orders;
        assert_int_equal(gs_orders_that_work(gpu, run, &orders, NULL), GS_OK);
        first_order(order, count);
        do {
            fits[tried] = works(gpu, run, NULL, 0, order, false);
            working += fits[tried++];
        } while (next_order(order, count));
        gs_orders rule = literal_rule(fits, count);
        if (orders.rule != rule.rule || orders.launch != rule.launch || orders.other != rule.other)
            fail_msg("index %llu: rule %d of %zu and %zu, not %d of %zu and %zu", (unsigned long long)i,
                     (int)orders.rule, orders.launch, orders.other, (int)rule.rule, rule.launch, rule.other);
        assert_int_equal(working, orders.working);
        assert_int_equal(tried, orders.tried);
        rules[orders.rule]++;
        gs_run_free(run);
        gs_gpu_free(gpu);
    }
    print_message("all %zu, none %zu, first %zu, last %zu, before %zu, some %zu\n", rules[GS_ORDERS_ALL],
                  rules[GS_ORDERS_NONE], rules[GS_ORDERS_FIRST], rules[GS_ORDERS_LAST], rules[GS_ORDERS_BEFORE],
                  rules[GS_ORDERS_SOME]);
    assert_true(are_few() || (rules[GS_ORDERS_ALL] && rules[GS_ORDERS_NONE] && rules[GS_ORDERS_FIRST] &&
                              rules[GS_ORDERS_BEFORE] && rules[GS_ORDERS_SOME]));
}

/* Six kernels are the most that have all their orders tried. */
TEST(six_kernels_have_720_orders) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_shape shape = gs_shape_of(32, 32, 0);
    gs_run *run = gs_run_new(NULL);
    gs_orders orders;
    for (size_t count = 1; count <= 7; count++) {
        assert_int_equal(gs_run_add_numbered(run, &shape, 1, NULL), GS_OK);
        assert_int_equal(gs_orders_that_work(gpu, run, &orders, NULL), GS_OK);
        assert_int_equal(orders.rule, count < 7 ? GS_ORDERS_ALL : GS_ORDERS_UNKNOWN);
    }
    gs_run_free(run);
    run = gs_run_new(NULL);
    for (int i = 0; i < 6; i++)
        assert_int_equal(gs_run_add_numbered(run, &shape, 1, NULL), GS_OK);
    assert_int_equal(gs_orders_that_work(gpu, run, &orders, NULL), GS_OK);
    assert_int_equal(orders.tried, 720);
    assert_int_equal(orders.working, 720);
    gs_run_free(run);
    run = gs_run_new(NULL); /* the kernel without shared memory fills the SMs: it must be the last */
    for (int i = 0; i < 3; i++) {
        shape = gs_shape_of(32, 32, i == 1 ? 0 : 200 << 10);
        assert_int_equal(gs_run_add_numbered(run, &shape, i == 1 ? gpu->sms : 10, NULL), GS_OK);
    }
    assert_int_equal(gs_orders_that_work(gpu, run, &orders, NULL), GS_OK);
    assert_int_equal(orders.rule, GS_ORDERS_LAST);
    assert_int_equal(orders.launch, 1);
    gs_run_free(run);
    run = gs_run_new(NULL); /* the large one goes before it, wherever the small one is */
    for (int i = 0; i < 3; i++) {
        shape = gs_shape_of(32, 32, i == 2 ? 200 << 10 : 0);
        assert_int_equal(gs_run_add_numbered(run, &shape, ((int[]){1, gpu->sms, 10})[i], NULL), GS_OK);
    }
    assert_int_equal(gs_orders_that_work(gpu, run, &orders, NULL), GS_OK);
    assert_int_equal(orders.rule, GS_ORDERS_BEFORE);
    assert_int_equal(orders.launch * 10 + orders.other, 21);
    assert_int_equal(orders.tried * 10 + orders.working, 63);
    gs_run_free(run);
    gs_gpu_free(gpu);
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

TEST(kernels_of_one_stream_get_streams_of_their_own) {
    const char *const words[] = {"a=8x256,stream=1", "b=8x256,stream=1", "c=8x256,stream=2"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_STREAM, "launch b in a stream of its own\n");
}

TEST(local_memory_is_set_up_before) {
    const char *const words[] = {"a=8x256", "b=8x256,l4K"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_LOCAL | 1 << GS_FIX_ORDER,
                 "launch b first\n"
                 "run b once before, so that local memory is set up for its 4,096 bytes a thread\n");
}

/* It has ended then. If it came first and stayed, the other one would find no SM with enough shared memory. */
TEST(a_kernel_that_ran_before_is_gone) {
    const char *const words[] = {"a=10x32,s200K", "b=132x32,l4K"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_LOCAL | 1 << GS_FIX_ORDER,
                 "run b once before, so that local memory is set up for its 4,096 bytes a thread\n");
}

/* It grows only while the whole GPU is idle: a green context for either kernel does not help. */
TEST(a_green_context_does_not_set_up_local_memory) {
    const char *const words[] = {"a=8x256", "b=8x256,l64"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_GREEN, "");
}

/* The blocks of the first kernel are on too many SMs, and local memory must grow. */
TEST(local_memory_and_a_green_context_help_together) {
    const char *const words[] = {"a=20x256,s8K", "b=116x256,s220K,l64"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_LOCAL | 1 << GS_FIX_GREEN,
                 "run b once before, so that local memory is set up for its 64 bytes a thread\n"
                 "a green context of 8 SMs for a, and the other 124 SMs for the rest (multiples of 8 on compute "
                 "capability 9.0)\n");
}

/* The least and the most SMs that a green context can have. */
TEST(green_contexts_have_any_size) {
    const char *const words[] = {"a=4x64", "b=78x64,s99K"};
    expect_fixes("rtx3090", words, GS_COUNT(words), 1 << GS_FIX_GREEN,
                 "a green context of 4 SMs for a, and the other 78 SMs for the rest (multiples of 2 on compute "
                 "capability 8.6)\n"
                 "a green context of 78 SMs for b, and the other 4 SMs for the rest (multiples of 2 on compute "
                 "capability 8.6)\n");
}

TEST(smaller_clusters_help) {
    const char *const words[] = {"a=128x1024,r64,c16"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_CLUSTER, "a with clusters of 2 instead of 16\n");
}

TEST(a_carve_out_is_taken_away) {
    const char *const words[] = {"a=132x32,s200K", "b=1x32,carveout=10"};
    expect_fixes("h200", words, GS_COUNT(words), 1 << GS_FIX_CARVEOUT, "b without its carve-out of 10 percent\n");
}

/* The H200's configurations end at 28, 43, 57, 71, 85 and 100 percent. The first kernel fills all SMs with that of 44
   to 57 percent, which the second kernel would not choose by itself: the nearest percentage is offered. */
TEST(the_nearest_carve_out_is_offered) {
    static const int wanted[][2] = {{0, 44}, {30, 44}, {42, 44}, {43, 44}, {58, 57}, {59, 57}, {99, 57}, {100, 57}};
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    for (size_t i = 0; i < GS_COUNT(wanted); i++) {
        gs_run *run = gs_run_new(NULL);
        for (int64_t j = 0; j < 2; j++) {
            gs_launch launch = numbered_launch(j);
            launch.blocks = j ? 1 : 132;
            launch.shape = gs_shape_of(32, 32, j ? 30 << 10 : 0);
            launch.shape.carveout_percent = j ? wanted[i][0] : 50;
            assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
        }
        gs_fix_options options = {.kinds = 1 << GS_FIX_CARVEOUT, .budget = INT64_MAX};
        gs_fixes fixes;
        assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
        const gs_fix *fix = find_fix(&fixes, GS_FIX_CARVEOUT, 1);
        assert_non_null(fix);
        assert_int_equal(fix->changes[0].to, wanted[i][1]);
        gs_fixes_clear(&fixes);
        gs_run_free(run);
    }
    gs_gpu_free(gpu);
}

/* Of many kernels only one is moved. Here two must be: the last needs local memory, so it must be the first of all, and
   the one before it needs a large configuration, so it must come before the small ones. */
TEST(an_order_that_is_known_is_used) {
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
    assert_int_equal(fixes.data[0].cost, 8 * 10000);
    gs_fixes_clear(&fixes);
    run->launches.data[7].shape.local_bytes = 0; /* now it is enough to move one */
    assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
    assert_true(fixes.data[0].changes[0].kind == GS_FIX_ORDER && fixes.data[0].changes[0].launch == 6);
    for (size_t i = 1; i < fixes.count; i++)
        assert_int_not_equal(fixes.data[i].changes[0].kind, GS_FIX_ORDER);
    gs_fixes_clear(&fixes);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

/* Of six kernels all orders are tried: two must go first. */
TEST(several_of_six_kernels_are_moved) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_run *run = gs_run_new(NULL);
    for (int64_t i = 0; i < 6; i++) {
        gs_launch launch = numbered_launch(i);
        launch.blocks = i == 5 ? 1 : i == 4 ? 131 : 132;
        launch.shape = gs_shape_of(32, 32, i == 4 ? 200 << 10 : 0);
        launch.shape.local_bytes = i == 5 ? 4096 : 0;
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    gs_fix_options options = {.kinds = 1 << GS_FIX_ORDER, .budget = 100000};
    gs_fixes fixes;
    assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
    assert_int_equal(fixes.count, 1);
    assert_true(fixes.data[0].changes[0].launch == NONE);
    assert_int_equal(fixes.data[0].order.data[0], 5);
    assert_int_equal(fixes.data[0].order.data[1], 4);
    gs_fixes_clear(&fixes);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

/* Only the kernels that may be changed are: each of two would have to have fewer blocks. */
TEST(only_some_kernels_are_changed) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_shape shape = gs_shape_of(1024, 32, 0);
    gs_run *run = gs_run_new(NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gs_run_add_numbered(run, &shape, 30, NULL), GS_OK);
    for (unsigned set = 0; set < 8; set++) {
        size_t numbers[3], count = 0;
        for (size_t i = 0; i < 3; i++)
            if (set >> i & 1)
                numbers[count++] = i;
        gs_order among = {.data = numbers, .count = count};
        gs_fix_options options = {.kinds = 1 << GS_FIX_BLOCKS, .budget = 100000, .among = set ? &among : NULL};
        gs_fixes fixes;
        assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(find_fix(&fixes, GS_FIX_BLOCKS, i) != NULL, set == 0 || (set >> i & 1));
        gs_fixes_clear(&fixes);
    }
    gs_run_free(run);
    gs_gpu_free(gpu);
}

/* With more kernels than have all their orders tried, each is tried first and last. Kernels with shared memory do not
   start where one without has filled the SMs before. */
TEST(one_of_many_kernels_is_moved) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    for (int64_t one = 0; one < 8; one++)
        for (int is_last = 0; is_last < 2; is_last++) {
            gs_run *run = gs_run_new(NULL);
            for (int64_t i = 0; i < 8; i++) {
                gs_launch launch = numbered_launch(i);
                bool has_shared = (i == one) != is_last;
                launch.blocks = has_shared ? 10 : 132;
                launch.shape = gs_shape_of(32, 32, has_shared ? 200 << 10 : 0);
                assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
            }
            gs_fix_options options = {.kinds = 1 << GS_FIX_ORDER, .budget = 100000};
            gs_fixes fixes;
            assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
            assert_int_equal(fixes.count, 1);
            if (one != (is_last ? 7 : 0))
                assert_int_equal(fixes.data[0].order.data[is_last ? 7 : 0], one);
            gs_fixes_clear(&fixes);
            gs_run_free(run);
        }
    gs_gpu_free(gpu);
}

/* Kernels that fill the GPU, and one more that needs a block more than is left: all of them are in the conflict, except
   a last one that is small. Changes are searched if at most 32 are in it. */
TEST(changes_are_searched_in_conflicts_of_32_kernels) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    gs_shape full = gs_shape_of(1024, 40, 0), small = gs_shape_of(32, 32, 0);
    for (int64_t count = 31; count <= 33; count++) {
        gs_run *run = gs_run_new(NULL);
        for (int64_t i = 1; i < count; i++)
            assert_int_equal(gs_run_add_numbered(run, &full, 4, NULL), GS_OK);
        assert_int_equal(gs_run_add_numbered(run, &full, 132 - 4 * (count - 1) + 1, NULL), GS_OK);
        assert_int_equal(gs_run_add_numbered(run, &small, 1, NULL), GS_OK);
        gs_fix_options options = {.kinds = 1 << GS_FIX_BLOCKS, .budget = 1000};
        gs_check_answer answer;
        assert_int_equal(gs_check_all(gpu, run, &options, &answer, NULL), GS_OK);
        assert_false(answer.works);
        assert_int_equal(answer.check.smallest.order.count, count);
        assert_int_equal(answer.too_many, count == 33);
        assert_int_equal(answer.has_fixes, count < 33);
        assert_int_equal(answer.fixes.count > 0, count < 33);
        assert_false(answer.all_kinds);
        gs_check_answer_clear(&answer);
        gs_run_free(run);
    }
    gs_gpu_free(gpu);
}

/* A GPU that has no clusters takes the kernel as single blocks; no other change helps. */
TEST(without_clusters_blocks_go_alone) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_run *run = gs_run_new(NULL);
    gs_launch launch = numbered_launch(0);
    launch.blocks = 8;
    launch.cluster = 4;
    launch.shape = gs_shape_of(32, 32, 0);
    assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    gs_fix_options options = {.kinds = 1 << GS_FIX_CLUSTER | 1 << GS_FIX_BLOCKS | 1 << GS_FIX_REGISTERS,
                              .budget = 1000};
    gs_fixes fixes;
    assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
    assert_int_equal(fixes.count, 1);
    assert_int_equal(fixes.data[0].changes[0].kind, GS_FIX_CLUSTER);
    assert_int_equal(fixes.data[0].changes[0].to, 1);
    gs_fixes_clear(&fixes);
    gs_run_free(run);
    gs_gpu_free(gpu);
}

/* One, several, and of a combination, of which it is not known whether less works too. */
TEST(amounts_are_told_in_words) {
    static const struct {
        gs_change change;
        size_t count;
        const char *words;
    } rows[] = {
        {{GS_FIX_BLOCKS, 0, 9, 1, true}, 1, "a with at most 1 block"},
        {{GS_FIX_BLOCKS, 0, 9, 2, true}, 1, "a with at most 2 blocks"},
        {{GS_FIX_BLOCKS, 0, 9, 2, false}, 1, "a with exactly 2 blocks"},
        {{GS_FIX_BLOCKS, 0, 9, 2, false}, 2, "a with 2 blocks"},
        {{GS_FIX_BLOCKS, 1, 82, 81, true}, 1, "b with at most 81 blocks (leaves 1 SM free)"},
        {{GS_FIX_BLOCKS, 1, 82, 80, true}, 1, "b with at most 80 blocks (leaves 2 SMs free)"},
        {{GS_FIX_REGISTERS, 0, 64, 32, true}, 1, "a with at most 32 registers a thread (-maxrregcount 32)"},
        {{GS_FIX_SHARED, 0, 4000, 1024, false}, 1, "a with exactly 1,024 bytes of shared memory a block"},
        {{GS_FIX_CARVEOUT, 0, 50, 25, false}, 1, "a with a carve-out of 25 percent"},
        {{GS_FIX_CARVEOUT, 0, 50, GS_NO_CARVEOUT, false}, 1, "a without its carve-out of 50 percent"},
        {{GS_FIX_CLUSTER, 0, 4, 1, false}, 1, "a without clusters, instead of clusters of 4"},
        {{GS_FIX_CLUSTER, 0, 4, 2, false}, 1, "a with clusters of 2 instead of 4"},
        {{GS_FIX_STREAM, 1, 0, 0, false}, 1, "launch b in a stream of its own"},
        {{GS_FIX_LOCAL, 1, 0, 1024, false},
         1,
         "run b once before, so that local memory is set up for its 1,024 bytes a thread"},
        {{GS_FIX_ORDER, 0, 0, 0, false}, 1, "launch a first"},
        {{GS_FIX_ORDER, 0, 0, 1, false}, 1, "launch a before b"},
        {{GS_FIX_ORDER, 0, 0, 2, false}, 1, "launch a last"},
        {{GS_FIX_ORDER, NONE, 0, 0, false}, 1, "launch in this order: b, a, b"},
    };
    static const char *const words[] = {"a=9x32,r64", "b=82x1024"};
    size_t order[] = {1, 0, 1};
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_run *run = gs_run_new(NULL);
    for (size_t i = 0; i < GS_COUNT(words); i++) {
        gs_launch launch;
        assert_int_equal(gs_launch_of_word(words[i], &launch, NULL), GS_OK);
        assert_int_equal(gs_run_add_launch(run, &launch, NULL), GS_OK);
    }
    for (size_t i = 0; i < GS_COUNT(rows); i++) {
        gs_fix fix = {.changes = {rows[i].change}, .count = rows[i].count, .order = {.data = order, .count = 3}};
        gs_text text = {0};
        gs_change_text(gpu, run, &fix, 0, &text);
        assert_string_equal(text.data, rows[i].words);
        gs_text_free(&text);
    }
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST(a_spent_budget_is_admitted) {
    const char *const words[] = {"mega=132x256,r168,s200K", "nccl=16x512,r96"};
    gs_text text = {0};
    gs_fixes fixes = fix_words("h200", words, 2, 1 << GS_FIX_BLOCKS, 20, &text);
    assert_int_equal(fixes.count, 0);
    assert_int_equal(fixes.unfinished, 1 << GS_FIX_BLOCKS);
    gs_fixes_clear(&fixes);
    gs_text_free(&text);
}

/* 82 SMs with one block each: the second kernel has 5 blocks, and 2 fit. So 4, 3 and 2 are tried, and then 1, to say
   "at most". A try is two launches; in every order, four if it works. A try begins while a launch is left. */
TEST(a_budget_is_spent_by_launches) {
    gs_gpu *gpu = gs_gpu_open("rtx3090", NULL);
    gs_shape shape = gs_shape_of(1024, 32, 0);
    gs_run *run = gs_run_new(NULL);
    size_t second = 1;
    gs_order among = {.data = &second, .count = 1};
    assert_int_equal(gs_run_add_numbered(run, &shape, 80, NULL), GS_OK);
    assert_int_equal(gs_run_add_numbered(run, &shape, 5, NULL), GS_OK);
    for (int every_order = 0; every_order < 2; every_order++)
        for (int64_t budget = 1; budget < 12; budget++) {
            gs_fix_options options = {
                .kinds = 1 << GS_FIX_BLOCKS, .every_order = every_order, .budget = budget, .among = &among};
            gs_fixes fixes;
            assert_int_equal(gs_fix_run(gpu, run, &options, &fixes, NULL), GS_OK);
            const gs_fix *fix = find_fix(&fixes, GS_FIX_BLOCKS, 1);
            assert_int_equal(fix != NULL, budget > 4);
            assert_int_equal(fixes.unfinished, budget > 4 ? 0 : 1 << GS_FIX_BLOCKS);
            assert_true(!fix || fix->changes[0].to == 2);
            assert_true(!fix || (fix->changes[0].is_limit == GS_ANSWER_YES) == (budget > (every_order ? 8 : 6)));
            gs_fixes_clear(&fixes);
        }
    gs_run_free(run);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
