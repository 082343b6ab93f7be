/*
 * test_decision_orders.c: decisions for small queues, against the best of all orders.
 *
 * A scene has a few tasks, each a chain of launches, and pairs of kernels with known rates. It is played by the
 * decisions of the daemon (gs_simulate), and every order in which its launches could start, alone or in pairs, is
 * tried. An order never stops a launch; decisions may.
 */
#include "decide_support.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_KERNELS = 6, MOST_TASKS = 4, MOST_LAUNCHES = 8, MOST_WORKERS = 2 };

typedef struct order_scene {
    gs_plan_table table;
    gs_table_kernel kernels[MOST_KERNELS];
    gs_table_pair pairs[MOST_KERNELS * MOST_KERNELS];
    gs_listed_task tasks[MOST_TASKS];
    gs_listed_launch launches[MOST_TASKS][MOST_LAUNCHES];
    size_t after[MOST_TASKS][MOST_LAUNCHES];
    double left[MOST_KERNELS][MOST_WORKERS + 1]; /* the rate of a kernel with so many workers, alone */
    char names[MOST_KERNELS][8];
    gs_task_list list;
} order_scene;

static const char *const task_names[MOST_TASKS] = {"a", "b", "c", "d"};

/* ---- random scenes ---- */

/* Beside another kernel none is faster than with the same workers alone. */
static void add_pair(order_scene *scene, gs_random *random, int32_t first, int32_t second) {
    double sum = plan_random(random, 0.8, 1.6), part = plan_random(random, 0.25, 0.75);
    int32_t workers[2] = {(int32_t)gs_random_from(random, 1, MOST_WORKERS),
                          (int32_t)gs_random_from(random, 1, MOST_WORKERS)};
    gs_pair_rates rates = {.first_alone = scene->left[first][workers[0]],
                           .second_alone = scene->left[second][workers[1]]};
    rates.first = fmin(sum * part, rates.first_alone);
    rates.second = fmin(sum * (1 - part), rates.second_alone);
    scene->pairs[scene->table.pairs.count++] =
        (gs_table_pair){.first = first,
                        .second = second,
                        .option = GS_TABLE_INTRA_SM,
                        .first_workers = workers[0],
                        .second_workers = workers[1],
                        .shapes = {scene->kernels[0].shape, scene->kernels[0].shape},
                        .few = {.rates = rates},
                        .has_few = true};
}

/* The plan has measured launches of 0.32 ms: it counts for all of the scene, which are no shorter than half of that. A
   launch of 0.2 ms is known as one of 0.16 ms: its grid has 10,000 blocks, and its profile those of 8,192. */
static void new_scene(order_scene *scene, gs_random *random) {
    memset(scene, 0, sizeof *scene);
    scene->table.kernels.data = scene->kernels;
    scene->table.pairs.data = scene->pairs;
    scene->table.kernels.count = (size_t)gs_random_from(random, 2, MOST_KERNELS);
    for (size_t i = 0; i < scene->table.kernels.count; i++) {
        snprintf(scene->names[i], sizeof scene->names[i], "k%zu", i);
        scene->kernels[i] = (gs_table_kernel){
            .name = scene->names[i], .blocks = 3200, .shape = gs_shape_of(256, 32, 0), .workers = 4, .alone_us = 320};
        for (size_t workers = 1; workers <= MOST_WORKERS; workers++)
            scene->left[i][workers] = plan_random(random, 0.8, 0.98);
    }
    for (int32_t a = 0; a < (int32_t)scene->table.kernels.count; a++)
        for (int32_t b = a + 1; b < (int32_t)scene->table.kernels.count; b++)
            if (gs_random_chance(random, 70))
                add_pair(scene, random, a, b);
    size_t left = MOST_LAUNCHES;
    scene->list = (gs_task_list){.data = scene->tasks, .count = (size_t)gs_random_from(random, 2, MOST_TASKS)};
    for (size_t t = 0; t < scene->list.count; t++) {
        size_t count = (size_t)gs_random_from(random, 1, (int64_t)left / (int64_t)(scene->list.count - t));
        gs_listed_task *task = &scene->tasks[t];
        *task = (gs_listed_task){.name = (char *)task_names[t], .repeat = 1};
        task->launches.data = scene->launches[t];
        task->after.data = scene->after[t];
        for (size_t i = 0; i < count; i++) {
            scene->launches[t][i] = (gs_listed_launch){
                .kernel = (int32_t)gs_random_from(random, 0, (int64_t)scene->table.kernels.count - 1),
                .blocks = 10000,
                .work = pow(10, plan_random(random, -0.7, 1.3)), /* 0.2 to 20 ms */
                .after = task->after.count,
                .after_count = i > 0};
            if (i > 0)
                scene->after[t][task->after.count++] = i - 1;
        }
        task->launches.count = count;
        left -= count;
    }
}

/* ---- all orders ---- */

/* A launch that runs in an order. */
struct runner {
    int32_t kernel, workers;
    size_t task;
    double left_us, rate;
};

struct order {
    const order_scene *scene;
    size_t next[MOST_TASKS]; /* the launch of each task that is next; it may run */
    struct runner running[2];
    size_t count;
    double now_us;
};

static const gs_table_pair *pair_of(const order_scene *scene, int32_t a, int32_t b) {
    for (size_t i = 0; i < scene->table.pairs.count; i++) {
        const gs_table_pair *pair = &scene->pairs[i];
        if ((pair->first == a && pair->second == b) || (pair->first == b && pair->second == a))
            return pair;
    }
    return NULL;
}

static bool runs(const struct order *order, size_t task) {
    return (order->count > 0 && order->running[0].task == task) || (order->count > 1 && order->running[1].task == task);
}

/* The launch of a task that is ready, or NULL. */
static const gs_listed_launch *ready_of(const struct order *order, size_t task) {
    const gs_listed_task *listed = &order->scene->tasks[task];
    return order->next[task] < listed->launches.count && !runs(order, task) ? &listed->launches.data[order->next[task]]
                                                                            : NULL;
}

static void start(struct order *order, size_t task) {
    const gs_listed_launch *launch = ready_of(order, task);
    order->running[order->count++] =
        (struct runner){.kernel = launch->kernel, .task = task, .left_us = launch->work * 1000, .rate = 1};
}

/* Lets both runners share SMs. False: they cannot, or one of them has other workers already. */
static bool join(struct order *order) {
    struct runner *a = &order->running[0], *b = &order->running[1];
    const gs_table_pair *pair = pair_of(order->scene, a->kernel, b->kernel);
    if (!pair)
        return false;
    bool swap = pair->first != a->kernel;
    int32_t workers = swap ? pair->second_workers : pair->first_workers;
    if (a->workers > 0 && a->workers != workers)
        return false;
    a->workers = workers;
    b->workers = swap ? pair->first_workers : pair->second_workers;
    return true;
}

/* Advances to the next end. */
static void advance(struct order *order) {
    double rates[2] = {order->running[0].rate, 0}, after[2] = {1, 1};
    size_t first = 0;
    if (order->count == 2) {
        const gs_table_pair *pair = pair_of(order->scene, order->running[0].kernel, order->running[1].kernel);
        const gs_pair_rates *known = &pair->few.rates;
        bool swap = pair->first != order->running[0].kernel;
        rates[swap] = known->first;
        rates[!swap] = known->second;
        after[swap] = known->first_alone;
        after[!swap] = known->second_alone;
        first = order->running[1].left_us / rates[1] < order->running[0].left_us / rates[0];
    }
    double step = order->running[first].left_us / rates[first];
    order->now_us += step;
    order->next[order->running[first].task]++;
    if (order->count == 2) {
        struct runner other = order->running[!first];
        other.left_us -= step * rates[!first];
        other.rate = after[!first];
        order->running[0] = other;
    }
    order->count--;
}

/* The least time that what is left can take: the pair that gains most has a throughput of 1.6. */
static double least_left(const struct order *order) {
    double sum = 0;
    for (size_t i = 0; i < order->count; i++)
        sum += order->running[i].left_us;
    for (size_t t = 0; t < order->scene->list.count; t++)
        for (size_t i = order->next[t] + runs(order, t); i < order->scene->tasks[t].launches.count; i++)
            sum += order->scene->launches[t][i].work * 1000;
    return sum / 1.6;
}

static void try_orders(struct order order, double *best);

static void go_on(struct order order, double *best) {
    advance(&order);
    try_orders(order, best);
}

/* All that can start now: nothing beside what runs, one launch, or two. */
static void try_orders(struct order order, double *best) {
    if (order.now_us + least_left(&order) >= *best)
        return;
    bool some = false;
    for (size_t a = 0; a < order.scene->list.count; a++) {
        if (!ready_of(&order, a))
            continue;
        some = true;
        struct order one = order;
        start(&one, a);
        if (one.count == 2) {
            if (join(&one))
                go_on(one, best);
            continue;
        }
        go_on(one, best);
        for (size_t b = 0; b < order.scene->list.count; b++) {
            struct order two = one;
            if (!ready_of(&two, b))
                continue;
            start(&two, b);
            if (join(&two))
                go_on(two, best);
        }
    }
    if (order.count > 0)
        go_on(order, best);
    else if (!some)
        *best = fmin(*best, order.now_us);
}

static double best_of_all(const order_scene *scene) {
    struct order order = {.scene = scene};
    double best = INFINITY;
    try_orders(order, &best);
    return best;
}

/* ---- tests ---- */

TEST(near_the_best_of_all_orders) {
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    static order_scene scene;
    int rounds = plan_rounds(300), worst_round = 0, far = 0;
    double sum = 0, worst = 0, in_order = 0;
    for (int round = 0; round < rounds; round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 41), (uint64_t)round);
        new_scene(&scene, &random);
        gs_simulation result;
        gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 2, .unknown = 1};
        assert_int_equal(gs_simulate(&scene.table, &scene.list, &options, &result, &error), GS_OK);
        double best = best_of_all(&scene), ratio = result.end_us / best;
        sum += ratio;
        in_order += result.alone_us / best;
        if (ratio > worst)
            worst_round = round;
        worst = fmax(worst, ratio);
        far += ratio > 1.2;
        gs_simulation_clear(&result);
    }
    print_message(
        "%d queues: %.3f of the best of all orders on average, %.3f at worst (%d); above 1.2: %d; one after the other "
        "%.3f\n",
        rounds, sum / rounds, worst, worst_round, far, in_order / rounds);
    assert_true(sum / rounds <= 1.05 && worst <= 1.2);
    gs_gpu_free(gpu);
}

static void add_launch(order_scene *scene, size_t task, int32_t kernel, double ms) {
    gs_listed_task *listed = &scene->tasks[task];
    size_t i = listed->launches.count++;
    scene->launches[task][i] = (gs_listed_launch){
        .kernel = kernel, .blocks = 10000, .work = ms, .after = listed->after.count, .after_count = i > 0};
    if (i > 0)
        scene->after[task][listed->after.count++] = i - 1;
}

/* A scene without tasks, with kernels that do nothing beside each other. */
static void clear_scene(order_scene *scene) {
    gs_random random = gs_random_at(0, 0);
    new_scene(scene, &random);
    scene->table.kernels.count = 4;
    scene->table.pairs.count = 0;
    scene->list.count = MOST_TASKS;
    for (size_t t = 0; t < MOST_TASKS; t++) {
        scene->tasks[t] = (gs_listed_task){.name = (char *)task_names[t], .repeat = 1};
        scene->tasks[t].launches.data = scene->launches[t];
        scene->tasks[t].after.data = scene->after[t];
    }
}

/* Two kernels with one worker each have these rates beside each other. */
static void add_known_pair(order_scene *scene, int32_t first, int32_t second, double first_rate, double second_rate) {
    gs_random random = gs_random_at(0, 0);
    add_pair(scene, &random, first, second);
    gs_table_pair *pair = &scene->pairs[scene->table.pairs.count - 1];
    pair->first_workers = pair->second_workers = 1;
    pair->few.rates = (gs_pair_rates){first_rate, second_rate, .first_alone = 0.98, .second_alone = 0.98};
}

/* Plays a scene, and compares it with the best of all orders. */
static void expect_near_best(const gs_gpu *gpu, const order_scene *scene, double ratio) {
    gs_error error = {.code = GS_OK};
    gs_simulation result;
    gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 2, .unknown = 1};
    assert_int_equal(gs_simulate(&scene->table, &scene->list, &options, &result, &error), GS_OK);
    double best = best_of_all(scene);
    if (result.end_us > best * ratio)
        fail_msg("%.1f us, %.3f of the best order", result.end_us, result.end_us / best);
    gs_simulation_clear(&result);
}

/* The second client waits for the launch behind the first one's: for longer than a time slice, because it would have
   nothing left for its partner otherwise. */
TEST(a_partner_that_comes_is_awaited) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    static order_scene scene;
    clear_scene(&scene);
    add_known_pair(&scene, 1, 2, 0.8, 0.8);
    add_launch(&scene, 0, 0, 14);
    add_launch(&scene, 0, 1, 14);
    add_launch(&scene, 1, 2, 10);
    scene.list.count = 2;
    expect_near_best(gpu, &scene, 1.001);
    add_launch(&scene, 2, 3, 1); /* of three clients one may be ahead by 15 ms */
    scene.list.count = 3;
    expect_near_best(gpu, &scene, 1.02);
    gs_gpu_free(gpu);
}

/* A launch that cannot be stopped runs when a long one comes, beside which those that wait gain. They are not queued
   behind the first. */
TEST(launches_wait_for_a_partner_that_waits) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    static order_scene scene;
    clear_scene(&scene);
    add_known_pair(&scene, 1, 2, 0.8, 0.6);
    add_launch(&scene, 0, 3, 0.5);
    add_launch(&scene, 1, 2, 1.5);
    add_launch(&scene, 2, 0, 1.8);
    add_launch(&scene, 2, 1, 7.5);
    add_launch(&scene, 3, 2, 1.5);
    expect_near_best(gpu, &scene, 1.02);
    gs_gpu_free(gpu);
}

/* Two that gain little beside each other are kept for the launch behind a third, beside which both gain more. */
TEST(two_are_kept_for_a_launch_behind_a_third) {
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    static order_scene scene;
    clear_scene(&scene);
    add_known_pair(&scene, 2, 3, 0.6, 0.55);
    add_known_pair(&scene, 1, 2, 0.9, 0.6);
    add_known_pair(&scene, 1, 3, 0.9, 0.6);
    add_launch(&scene, 0, 2, 1.8);
    add_launch(&scene, 1, 0, 0.5);
    add_launch(&scene, 1, 1, 6);
    add_launch(&scene, 2, 3, 1.8);
    scene.list.count = 3;
    expect_near_best(gpu, &scene, 1.05);
    gs_gpu_free(gpu);
}

/* The queue of docs/plan.md, "What no rule can have": while the first client runs what gains nothing, the second has to
   have as much, and then nothing is left of the launch that would have gained. */
TEST(equal_clients_cost_the_best_order) {
    gs_error error = {.code = GS_OK};
    gs_gpu *gpu = gs_gpu_open("h200", &error);
    static order_scene scene;
    gs_simulation result;
    gs_simulation_options options = {.gpu = gpu, .recorded_on = gpu, .together = 2, .unknown = 1};
    clear_scene(&scene);
    scene.list.count = 2;
    add_known_pair(&scene, 1, 2, 0.8, 0.8);
    add_launch(&scene, 0, 0, 60);
    add_launch(&scene, 0, 0, 40);
    add_launch(&scene, 0, 1, 60);
    add_launch(&scene, 1, 2, 60);
    assert_int_equal(gs_simulate(&scene.table, &scene.list, &options, &result, &error), GS_OK);
    plan_expect_near(best_of_all(&scene), 175000, 1e-6);
    plan_expect_near(result.end_us, 220000, 16 * 30); /* 30 us for each stop */
    gs_simulation_clear(&result);
    gs_gpu_free(gpu);
}

TEST_MAIN(NULL, NULL)
