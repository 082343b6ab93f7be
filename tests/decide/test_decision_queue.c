/*
 * test_decision_queue.c: the online scheduler: it keeps dependencies, has no starvation, is never much worse than
 * running in order, and decides as the literal version does.
 *
 * A scene has kinds, and for each pair the values of the plan and the true values. Launches are played with the true
 * values.
 */
#include "decide_support.h"
#include "literal_queue.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_KINDS = 8, MOST_LAUNCHES = 400 };

typedef struct scene_launch {
    size_t task;
    int32_t kind;
    double predicted_us, true_us, left_us, rate;
    size_t after[4], after_count; /* of the scene */
    double ready_us, start_us, end_us;
    size_t handle;
    bool is_running, is_over;
} scene_launch;

typedef struct queue_scene {
    gs_random random;
    gs_queue_options options;
    gs_queue *queue;
    gs_partners truth;
    bool is_first[MOST_KINDS], is_second[MOST_KINDS];
    size_t kinds, tasks;
    scene_launch launches[MOST_LAUNCHES];
    size_t count;
    double now_us, longest_wait_us, longest_us;
    literal_queue *literal; /* NULL: not compared */
} queue_scene;

/* ---- random scenes ---- */

static bool fits_some(void *user, const int32_t *kinds, const int32_t *workers, size_t count) {
    int32_t sum = 0;
    (void)user;
    for (size_t i = 0; i < count; i++)
        sum += workers[i] * (1 + kinds[i] % 2);
    return sum <= 6;
}

static gs_pair_rates some_rates(gs_random *random, double least_sum, double most_sum) {
    double sum = plan_random(random, least_sum, most_sum), part = plan_random(random, 0.25, 0.75);
    gs_pair_rates rates = {.first = fmin(sum * part, 0.98), .second = fmin(sum * (1 - part), 0.98)};
    rates.first_alone = plan_random(random, fmax(rates.first, 0.8), 1);
    rates.second_alone = plan_random(random, fmax(rates.second, 0.8), 1);
    return rates;
}

/* The values of the plan are off by up to twice the residual. */
static gs_pair_rates true_rates(gs_random *random, gs_pair_rates rates, double residual) {
    double off = 1 + plan_random(random, -2, 2) * residual;
    rates.first = fmin(rates.first / off, rates.first_alone);
    rates.second = fmin(rates.second / off, rates.second_alone);
    return rates;
}

static void add_pair(queue_scene *scene, int32_t a, int32_t b, double residual, bool is_measured) {
    int32_t workers_a = (int32_t)gs_random_from(&scene->random, 1, 2);
    int32_t workers_b = (int32_t)gs_random_from(&scene->random, 1, 2);
    gs_pair_rates rates = some_rates(&scene->random, is_measured ? 0.8 : 0.6, 1.6);
    gs_pair_rates truth = true_rates(&scene->random, rates, residual);
    gs_partners_set(&scene->truth, a, b, &truth, 0, workers_a, workers_b);
    if (is_measured)
        gs_queue_pair(scene->queue, a, b, &rates, residual, workers_a, workers_b);
    else
        gs_queue_pair_fits(scene->queue, a, b, workers_a, workers_b);
    scene->is_first[a] = scene->is_second[b] = true;
}

static void add_pairs(queue_scene *scene, double residual, int unknown_percent) {
    bool has_both = gs_random_chance(&scene->random, 30);
    for (int32_t a = 0; a < (int32_t)scene->kinds; a++)
        for (int32_t b = has_both ? a : (int32_t)scene->kinds / 2; b < (int32_t)scene->kinds; b++)
            if ((has_both || a < (int32_t)scene->kinds / 2) && a != b && gs_random_chance(&scene->random, 70))
                add_pair(scene, a, b, residual, !gs_random_chance(&scene->random, unknown_percent));
}

/* A task: a chain, or launches that wait for some of those before. */
static void add_task(queue_scene *scene, size_t count, double noise) {
    gs_queue_launch launches[64];
    size_t after[64][4], base = scene->count;
    bool is_chain = gs_random_chance(&scene->random, 60);
    for (size_t i = 0; i < count; i++) {
        scene_launch *launch = &scene->launches[scene->count++];
        *launch = (scene_launch){.task = scene->tasks,
                                 .kind = (int32_t)gs_random_from(&scene->random, 0, (int64_t)scene->kinds - 1),
                                 .predicted_us = exp(plan_random(&scene->random, 0, 8)),
                                 .ready_us = -1,
                                 .rate = 1};
        launch->true_us = launch->left_us = launch->predicted_us * (1 + plan_random(&scene->random, -noise, noise));
        for (size_t k = 0; i > 0 && k < (is_chain ? 1 : 3); k++)
            if (is_chain || gs_random_chance(&scene->random, 40)) {
                after[i][launch->after_count] =
                    is_chain ? i - 1 : (size_t)gs_random_from(&scene->random, 0, (int64_t)i - 1);
                launch->after[launch->after_count] = base + after[i][launch->after_count];
                launch->after_count++;
            }
        launches[i] = (gs_queue_launch){.kind = launch->kind,
                                        .alone_us = launch->predicted_us,
                                        .user = base + i,
                                        .after = after[i],
                                        .after_count = launch->after_count};
        scene->longest_us = fmax(scene->longest_us, launch->true_us);
    }
    scene->tasks++;
    assert_true(gs_queue_add(scene->queue, launches, count, scene->now_us));
}

static void mark_ready(queue_scene *scene) {
    for (size_t i = 0; i < scene->count; i++) {
        bool waits = false;
        for (size_t k = 0; k < scene->launches[i].after_count; k++)
            waits |= !scene->launches[scene->launches[i].after[k]].is_over;
        if (!waits && scene->launches[i].ready_us < 0)
            scene->launches[i].ready_us = scene->now_us;
    }
}

/* ---- playing ---- */

static void compare_with_literal(queue_scene *scene, const gs_queue_start *starts, size_t count) {
    size_t wanted[2], at = 0, found;
    literal_pass(scene->literal, scene->now_us);
    while ((found = literal_next(scene->literal, wanted)) > 0)
        for (size_t i = 0; i < found; i++, at++) {
            bool is_same =
                at < count && (starts[at].user == wanted[i] || (found == 2 && starts[at].user == wanted[1 - i]));
            if (!is_same)
                fail_msg("at %g us launch %zu should have started", scene->now_us, wanted[i]);
            assert_int_equal(scene->literal->launches[starts[at].user].workers, starts[at].workers);
        }
    assert_int_equal(at, count);
}

static void start_some(queue_scene *scene) {
    gs_queue_start starts[GS_QUEUE_TOGETHER];
    size_t count = gs_queue_next(scene->queue, scene->now_us, starts);
    for (size_t i = 0; i < count; i++) {
        scene_launch *launch = &scene->launches[starts[i].user];
        assert_false(launch->is_running || launch->is_over);
        for (size_t k = 0; k < launch->after_count; k++)
            if (!scene->launches[launch->after[k]].is_over)
                fail_msg("launch %d starts before launch %zu has ended", (int)starts[i].user, launch->after[k]);
        launch->is_running = true;
        launch->start_us = scene->now_us;
        launch->handle = starts[i].launch;
        scene->longest_wait_us = fmax(scene->longest_wait_us, scene->now_us - launch->ready_us);
    }
    if (scene->literal)
        compare_with_literal(scene, starts, count);
}

static size_t runners_of(const queue_scene *scene, size_t *running, gs_runner *runners) {
    size_t count = 0;
    for (size_t i = 0; i < scene->count; i++)
        if (scene->launches[i].is_running) {
            assert_true(count < (size_t)scene->options.most_together);
            running[count] = i;
            runners[count++] =
                (gs_runner){scene->launches[i].kind, scene->launches[i].left_us, scene->launches[i].rate};
        }
    return count;
}

static void end_launch(queue_scene *scene, size_t ended) {
    scene_launch *launch = &scene->launches[ended];
    launch->is_running = false;
    launch->is_over = true;
    launch->end_us = scene->now_us;
    for (size_t i = 0; i < scene->count; i++)
        if (scene->launches[i].is_running)
            scene->launches[i].rate = gs_partner_of(&scene->truth, scene->launches[i].kind, launch->kind)->rate_after;
    gs_queue_end(scene->queue, launch->handle, scene->now_us);
    if (scene->literal) {
        literal_pass(scene->literal, scene->now_us);
        literal_end(scene->literal, ended);
    }
}

/* Plays until everything has ended. */
static double play(queue_scene *scene) {
    mark_ready(scene);
    start_some(scene);
    for (;;) {
        size_t running[GS_QUEUE_TOGETHER], first = 0;
        gs_runner runners[GS_QUEUE_TOGETHER];
        double rates[GS_QUEUE_TOGETHER];
        size_t count = runners_of(scene, running, runners);
        if (count == 0)
            break;
        gs_partners_rates(&scene->truth, runners, count, rates);
        for (size_t i = 1; i < count; i++)
            if (runners[i].left_us / rates[i] < runners[first].left_us / rates[first])
                first = i;
        double step = runners[first].left_us / rates[first];
        for (size_t i = 0; i < count; i++)
            scene->launches[running[i]].left_us = fmax(runners[i].left_us - step * rates[i], 0);
        scene->now_us += step;
        end_launch(scene, running[first]);
        mark_ready(scene);
        start_some(scene);
    }
    assert_int_equal(gs_queue_count(scene->queue), 0);
    for (size_t i = 0; i < scene->count; i++)
        assert_true(scene->launches[i].is_over);
    return scene->now_us;
}

static double in_order_us(const queue_scene *scene) {
    double sum = 0;
    for (size_t i = 0; i < scene->count; i++)
        sum += scene->launches[i].true_us;
    return sum;
}

static void new_scene(queue_scene *scene, uint64_t seed, uint64_t index, double residual, int unknown_percent) {
    memset(scene, 0, sizeof *scene);
    scene->random = gs_random_at(seed, index);
    scene->options = gs_queue_defaults();
    scene->options.most_together = (int32_t)gs_random_from(&scene->random, 1, GS_QUEUE_TOGETHER);
    scene->options.patience_us = exp(plan_random(&scene->random, 0, 12));
    scene->options.fits = gs_random_chance(&scene->random, 80) ? fits_some : NULL;
    scene->kinds = (size_t)gs_random_from(&scene->random, 2, MOST_KINDS);
    scene->queue = gs_queue_new(&scene->options, scene->kinds);
    assert_true(scene->queue && gs_partners_init(&scene->truth, scene->kinds));
    add_pairs(scene, residual, unknown_percent);
}

static void free_scene(queue_scene *scene) {
    gs_queue_free(scene->queue);
    gs_partners_free(&scene->truth);
}

/* ---- tests ---- */

/* 10,000 random queues with wrong predictions and unmeasured pairs. */
static void never_much_worse_than_in_order(void **state) {
    (void)state;
    static queue_scene scene;
    double worst = 0, sum = 0, better = 1;
    int rounds = plan_rounds(10000);
    for (int round = 0; round < rounds; round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 11), (uint64_t)round);
        new_scene(&scene, test_number("GRIDSMITH_SEED", 11), (uint64_t)round, plan_random(&random, 0, 0.04),
                  (int)gs_random_from(&random, 0, 40));
        for (int64_t tasks = gs_random_from(&random, 1, 8); tasks > 0; tasks--)
            add_task(&scene, (size_t)gs_random_from(&random, 1, 20), 0.02);
        double order = in_order_us(&scene), planned = play(&scene);
        if (planned > 1.01 * order)
            fail_msg("round %d takes %g us, %g us in order", round, planned, order);
        if (scene.options.most_together == 1)
            plan_expect_near(planned, order, 1e-6 * order);
        worst = fmax(worst, planned / order - 1);
        better = fmin(better, planned / order);
        sum += planned / order;
        free_scene(&scene);
    }
    print_message("%d queues: %.1f%% of the time in order on average, at best %.1f%%, at worst %+.2f%%\n", rounds,
                  100 * sum / rounds, 100 * better, 100 * worst);
}

/* No launch waits much longer than in order. */
static void nobody_starves(void **state) {
    (void)state;
    static queue_scene scene;
    for (int round = 0; round < plan_rounds(500); round++) {
        new_scene(&scene, test_number("GRIDSMITH_SEED", 12), (uint64_t)round, 0.02, 20);
        scene.options.patience_us = 2000;
        gs_queue_free(scene.queue);
        scene.queue = gs_queue_new(&scene.options, scene.kinds);
        gs_partners_free(&scene.truth);
        assert_true(gs_partners_init(&scene.truth, scene.kinds));
        add_pairs(&scene, 0.02, 20);
        /* One launch that pairs with nothing well, and a stream of others that do. */
        size_t tasks = (size_t)gs_random_from(&scene.random, 2, 10);
        for (size_t i = 0; i < tasks; i++)
            add_task(&scene, 30, 0.02);
        play(&scene);
        for (size_t i = 0; i < scene.count; i++) {
            const scene_launch *launch = &scene.launches[i];
            /* In order it waits for what was ready before, here also for the patience and for what started meanwhile.
             */
            double bound = scene.options.patience_us + 4 * scene.longest_us;
            for (size_t k = 0; k < scene.count; k++)
                if (k != i && scene.launches[k].ready_us <= launch->ready_us &&
                    scene.launches[k].end_us > launch->ready_us)
                    bound += 2 * scene.launches[k].true_us;
            if (launch->start_us - launch->ready_us > bound)
                fail_msg("round %d: launch %zu waits for %g us, not %g", round, i, launch->start_us - launch->ready_us,
                         bound);
        }
        free_scene(&scene);
    }
}

/* When a kind starts that pairs with none, beside a pair that gains much, again and again. All times are multiplied by
   `scale`. */
static double lone_start(double scale) {
    gs_queue_options options = gs_queue_defaults();
    gs_pair_rates good = {0.9, 0.9, 1, 1};
    options.patience_us = 1000 * scale;
    gs_queue *queue = gs_queue_new(&options, 3);
    gs_queue_start starts[GS_QUEUE_TOGETHER];
    double now = 0, started = -1;
    assert_non_null(queue);
    gs_queue_pair(queue, 0, 1, &good, 0, 1, 1);
    assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = 2, .alone_us = 10 * scale, .user = 99}, 1, now));
    for (int round = 0; round < 100 && started < 0; round++) {
        for (int32_t kind = 0; kind < 2; kind++)
            assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = kind, .alone_us = 90 * scale}, 1, now));
        size_t count = gs_queue_next(queue, now, starts);
        assert_true(count > 0);
        for (size_t i = 0; i < count; i++)
            started = starts[i].user == 99 ? now : started;
        now += 100 * scale;
        for (size_t i = 0; i < count; i++)
            gs_queue_end(queue, starts[i].launch, now);
    }
    gs_queue_free(queue);
    return started;
}

/* It runs after the patience, because it was the first and would have started at once. Times have no unit of their own.
 */
static void a_lone_kind_gets_its_turn(void **state) {
    (void)state;
    double started = lone_start(1);
    assert_true(started >= 1000 && started <= 1200);
    plan_expect_near(lone_start(0x1p-17), started * 0x1p-17, 0);
}

/* Each decision is that of the literal version. */
static void decides_as_the_literal_version(void **state) {
    (void)state;
    static queue_scene scene;
    static literal_queue literal;
    for (int round = 0; round < plan_rounds(400); round++) {
        new_scene(&scene, test_number("GRIDSMITH_SEED", 13), (uint64_t)round, 0.03, 0);
        for (int64_t tasks = gs_random_from(&scene.random, 1, 5); tasks > 0; tasks--)
            add_task(&scene, (size_t)gs_random_from(&scene.random, 1, 8), 0.02);
        literal = (literal_queue){.options = &scene.options,
                                  .partners = gs_queue_partners(scene.queue),
                                  .is_first = scene.is_first,
                                  .is_second = scene.is_second};
        for (size_t i = 0; i < scene.count; i++) {
            literal_launch launch = {.kind = scene.launches[i].kind,
                                     .alone_us = scene.launches[i].predicted_us,
                                     .after_count = scene.launches[i].after_count};
            memcpy(launch.after, scene.launches[i].after, sizeof scene.launches[i].after);
            literal_add(&literal, &launch);
        }
        scene.literal = &literal;
        play(&scene);
        free_scene(&scene);
    }
}

/* ISPA: if nothing can be paired, a launch goes first that makes a pairable one ready. */
static void a_launch_that_opens_a_pair_goes_first(void **state) {
    (void)state;
    gs_queue_options options = gs_queue_defaults();
    gs_pair_rates good = {0.8, 0.6, 1, 1};
    gs_queue *queue = gs_queue_new(&options, 2);
    gs_queue_start starts[GS_QUEUE_TOGETHER];
    static const size_t before[] = {0};
    gs_queue_launch network[] = {{.kind = 1, .alone_us = 10, .user = 10},
                                 {.kind = 0, .alone_us = 100, .user = 11, .after = before, .after_count = 1}};
    gs_queue_launch other = {.kind = 1, .alone_us = 100, .user = 20};
    gs_queue_pair(queue, 0, 1, &good, 0, 2, 1);
    assert_true(gs_queue_add(queue, &other, 1, 0) && gs_queue_add(queue, network, 2, 0));
    assert_int_equal(gs_queue_next(queue, 0, starts), 1);
    assert_int_equal(starts[0].user, 10);
    gs_queue_end(queue, starts[0].launch, 10);
    assert_int_equal(gs_queue_next(queue, 10, starts), 2);
    assert_int_equal(starts[0].user + starts[1].user, 31);
    assert_int_equal(starts[0].workers + starts[1].workers, 3);
    gs_queue_free(queue);
}

/* A third launch joins where it fits and gains, and not where it does not. */
static void three_at_a_time_where_they_fit(void **state) {
    (void)state;
    for (int fits = 0; fits < 2; fits++) {
        gs_queue_options options = gs_queue_defaults();
        gs_pair_rates good = {0.9, 0.9, 1, 1};
        options.most_together = 3;
        options.fits = fits ? fits_some : NULL;
        gs_queue *queue = gs_queue_new(&options, 3);
        gs_queue_start starts[GS_QUEUE_TOGETHER];
        for (int32_t a = 0; a < 3; a++)
            for (int32_t b = a + 1; b < 3; b++)
                gs_queue_pair(queue, a, b, &good, 0, 1, 1);
        for (int32_t kind = 0; kind < 3; kind++)
            assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = kind, .alone_us = 100}, 1, 0));
        assert_int_equal(gs_queue_next(queue, 0, starts), fits ? 3 : 2);
        gs_queue_free(queue);
    }
}

/* Kinds that fit together and were never measured are tried when the budget allows it. The measurements are kept. */
static void unknown_pairs_are_tried_and_learned(void **state) {
    (void)state;
    for (int gains = 0; gains < 2; gains++) {
        gs_queue_options options = gs_queue_defaults();
        gs_queue *queue = gs_queue_new(&options, 2);
        gs_queue_start starts[GS_QUEUE_TOGETHER];
        double now = 0;
        int together = 0;
        gs_queue_pair_fits(queue, 0, 1, 1, 1);
        for (int round = 0; round < 1000; round++) {
            for (int32_t kind = 0; kind < 2; kind++)
                assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = kind, .alone_us = 100}, 1, now));
            while (gs_queue_count(queue) > 0) {
                size_t count = gs_queue_next(queue, now, starts);
                now += count == 2 ? (gains ? 120 : 260) : 100;
                together += count == 2;
                for (size_t i = 0; i < count; i++)
                    gs_queue_end(queue, starts[i].launch, now);
            }
        }
        /* Not before 1 part in 200 of the time pays for a trial that takes 200 us longer. */
        if (gains)
            assert_true(together > 700 && together < 900);
        else
            assert_int_equal(together, 1);
        gs_queue_free(queue);
    }
}

/* The rates of a model that is often off by 10% are taken for 20% less. */
static void a_doubtful_model_is_taken_with_caution(void **state) {
    (void)state;
    gs_pair_rates rates = {0.6, 0.9, 0.7, 0.95};
    gs_partners partners;
    assert_true(gs_partners_init(&partners, 2));
    gs_partners_set(&partners, 0, 1, &rates, 0.1, 3, 2);
    const gs_partner *first = gs_partner_of(&partners, 0, 1), *second = gs_partner_of(&partners, 1, 0);
    plan_expect_near(first->rate, 0.5, 1e-12);
    plan_expect_near(second->rate, 0.75, 1e-12);
    plan_expect_near(first->rate_after, 0.7, 1e-12);
    plan_expect_near(second->rate_after, 0.95, 1e-12);
    assert_int_equal(first->workers, 3);
    assert_int_equal(second->workers, 2);
    gs_partners_free(&partners);
}

/* Of many kinds that nobody has measured together, each pair loses. What trials cost is never more than their part of
   the time, and nearly all of that is used. */
static void trials_that_lose_are_paid_for(void **state) {
    (void)state;
    enum { KINDS = 8, ROUNDS = 20000 };
    gs_queue_options options = gs_queue_defaults();
    gs_queue *queue = gs_queue_new(&options, KINDS);
    gs_queue_start starts[GS_QUEUE_TOGETHER];
    double now = 0, alone = 0;
    int trials = 0;
    for (int32_t a = 0; a < KINDS / 2; a++)
        for (int32_t b = KINDS / 2; b < KINDS; b++)
            gs_queue_pair_fits(queue, a, b, 1, 1);
    for (int round = 0; round < ROUNDS; round++) {
        int32_t kinds[2] = {round % (KINDS / 2), KINDS / 2 + round / (KINDS / 2) % (KINDS / 2)};
        for (int i = 0; i < 2; i++)
            assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = kinds[i], .alone_us = 100}, 1, now));
        while (gs_queue_count(queue) > 0) {
            size_t count = gs_queue_next(queue, now, starts);
            now += count == 2 ? 380 : 100;
            alone += count == 2 ? 200 : 100;
            trials += count == 2;
            if (now - alone > options.trial_part * now)
                fail_msg("%d trials lost %.0f us of %.0f us", trials, now - alone, now);
            for (size_t i = 0; i < count; i++)
                gs_queue_end(queue, starts[i].launch, now);
        }
    }
    assert_int_equal(trials, KINDS / 2 * (KINDS / 2));
    gs_queue_free(queue);
}

/* A trial may take twice the shorter launch longer, and half of the rest of the longer one: of 100 and 40 us, 110 us.
   With half of the time for trials, 220 us must have passed before. */
static void a_trial_waits_until_it_can_be_paid(void **state) {
    (void)state;
    static const double passed_us[] = {219, 220};
    for (size_t i = 0; i < GS_COUNT(passed_us); i++)
        for (int32_t longer = 0; longer < 2; longer++) {
            gs_queue_options options = gs_queue_defaults();
            gs_queue_start starts[GS_QUEUE_TOGETHER];
            options.trial_part = 0.5;
            gs_queue *queue = gs_queue_new(&options, 2);
            gs_queue_pair_fits(queue, 0, 1, 1, 1);
            assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = 0, .alone_us = passed_us[i]}, 1, 0));
            assert_int_equal(gs_queue_next(queue, 0, starts), 1);
            gs_queue_end(queue, starts[0].launch, passed_us[i]);
            for (int32_t kind = 0; kind < 2; kind++) {
                gs_queue_launch launch = {.kind = kind, .alone_us = kind == longer ? 100 : 40};
                assert_true(gs_queue_add(queue, &launch, 1, passed_us[i]));
            }
            assert_int_equal(gs_queue_next(queue, passed_us[i], starts), passed_us[i] >= 220 ? 2 : 1);
            gs_queue_free(queue);
        }
}

/* Without a part of the time for trials, one is paid for by what measured pairs have earned: launches of 100 and 60 us
   that took 100 us together have earned the 60 us that a trial of two launches of 30 us may take longer. */
static void what_pairs_earn_pays_for_trials(void **state) {
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) {
        static const gs_pair_rates rates = {0.9, 0.9, 1, 1};
        static const double alone_us[] = {100, 60, 30, 30};
        gs_queue_options options = gs_queue_defaults();
        gs_queue_start starts[GS_QUEUE_TOGETHER];
        double now = 0;
        options.trial_part = 0;
        gs_queue *queue = gs_queue_new(&options, GS_COUNT(alone_us));
        gs_queue_pair(queue, 0, 1, &rates, 0, 1, 1);
        gs_queue_pair_fits(queue, 2, 3, 1, 1);
        for (int32_t first = 0; first < 4; first += 2) {
            for (int32_t kind = first; kind < first + 2; kind++)
                assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = kind, .alone_us = alone_us[kind]}, 1, now));
            assert_int_equal(gs_queue_next(queue, now, starts), first == 0 || !is_late ? 2 : 1);
            now += 100 + is_late;
            for (int i = 0; i < 2 && first == 0; i++)
                gs_queue_end(queue, starts[i].launch, now);
        }
        gs_queue_free(queue);
    }
}

/* Of each queue the first 64 launches are looked at: a pair behind 63 others is found, and one behind 64 is not. */
static void a_pair_far_behind_is_not_found(void **state) {
    (void)state;
    for (int ahead = 63; ahead <= 64; ahead++)
        for (int32_t side = 0; side < 2; side++) {
            static const gs_pair_rates rates = {0.9, 0.9, 1, 1};
            gs_queue_options options = gs_queue_defaults();
            gs_queue_start starts[GS_QUEUE_TOGETHER];
            gs_queue *queue = gs_queue_new(&options, 4);
            gs_queue_pair(queue, 0, 2, &rates, 0, 1, 1);
            gs_queue_pair(queue, 1, 3, &rates, 0, 1, 1);
            for (int i = 0; i < ahead; i++)
                assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = 1 + 2 * side, .alone_us = 1}, 1, 0));
            for (int32_t kind = 0; kind < 4; kind += 2)
                assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = kind, .alone_us = 1}, 1, 0));
            assert_int_equal(gs_queue_next(queue, 0, starts), ahead < 64 ? 2 : 1);
            gs_queue_free(queue);
        }
}

static bool always_fits(void *user, const int32_t *kinds, const int32_t *workers, size_t count) {
    (void)user;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(workers[i], kinds[i] + 1);
    return true;
}

/* A third launch needs the same number of workers beside each of the two that run, and they the same beside it. */
static void a_third_launch_changes_no_workers(void **state) {
    (void)state;
    for (int other = 0; other < 4; other++) { /* 0: all numbers agree; else one does not */
        gs_queue_options options = gs_queue_defaults();
        gs_queue_start starts[GS_QUEUE_TOGETHER];
        gs_pair_rates good = {0.9, 0.9, 1, 1};
        options.most_together = 3;
        options.fits = always_fits;
        gs_queue *queue = gs_queue_new(&options, 3);
        gs_queue_pair(queue, 0, 1, &good, 0, 1, 2);
        gs_queue_pair(queue, 0, 2, &good, 0, other == 1 ? 5 : 1, 3);
        gs_queue_pair(queue, 1, 2, &good, 0, other == 2 ? 5 : 2, other == 3 ? 5 : 3);
        for (int32_t kind = 0; kind < 2; kind++)
            assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = kind, .alone_us = 100}, 1, 0));
        assert_int_equal(gs_queue_next(queue, 0, starts), 2);
        assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = 2, .alone_us = 100}, 1, 0));
        assert_int_equal(gs_queue_next(queue, 0, starts), other == 0);
        if (other == 0)
            assert_int_equal(starts[0].workers, 3);
        gs_queue_free(queue);
    }
}

/* Runs a launch of each of two kinds, which takes `us` together. */
static void run_together(gs_queue *queue, int32_t one, int32_t other, double us, double *now) {
    gs_queue_start starts[GS_QUEUE_TOGETHER];
    assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = one, .alone_us = 100}, 1, *now));
    assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = other, .alone_us = 100}, 1, *now));
    assert_int_equal(gs_queue_next(queue, *now, starts), 2);
    *now += us;
    for (size_t i = 0; i < 2; i++)
        gs_queue_end(queue, starts[i].launch, *now);
}

/* Each pair learns a quarter of what it was off by, and only of its own launches. It is never taken for better than
 * planned. */
static void a_pair_learns_a_quarter(void **state) {
    (void)state;
    gs_queue_options options = gs_queue_defaults();
    gs_pair_rates good = {0.8, 0.8, 1, 1};
    gs_queue *queue = gs_queue_new(&options, 4);
    const gs_partners *partners = gs_queue_partners(queue);
    double now = 0;
    for (int32_t a = 0; a < 2; a++)
        for (int32_t b = 2; b < 4; b++)
            gs_queue_pair(queue, a, b, &good, 0, 1, 1);
    run_together(queue, 0, 2, 125 * 1.2, &now);
    plan_expect_near(gs_partner_of(partners, 0, 2)->rate, 0.8 / 1.05, 1e-12);
    plan_expect_near(gs_partner_of(partners, 2, 0)->rate, 0.8 / 1.05, 1e-12);
    run_together(queue, 1, 2, 125 * 1.12, &now);
    plan_expect_near(gs_partner_of(partners, 1, 2)->rate, 0.8 / 1.03, 1e-12);
    plan_expect_near(gs_partner_of(partners, 0, 2)->rate, 0.8 / 1.05, 1e-12);
    run_together(queue, 0, 3, 125 * 0.5, &now);
    plan_expect_near(gs_partner_of(partners, 0, 3)->rate, 0.8, 1e-12);
    run_together(queue, 0, 2, 125 * 1.25, &now); /* now 1.05 was expected */
    plan_expect_near(gs_partner_of(partners, 0, 2)->rate, 0.8 / 1.1, 1e-12);
    run_together(queue, 0, 2, 125 * 0.5, &now); /* a quarter would be 0.95 */
    plan_expect_near(gs_partner_of(partners, 0, 2)->rate, 0.8, 1e-12);
    gs_queue_free(queue);
}

/* A launch waits for the rest of what runs when it comes, and for its patience: until 110 us. A pair that gains goes
   before it until then. */
static void patience_begins_after_what_runs(void **state) {
    (void)state;
    for (int late = 0; late < 2; late++) {
        gs_queue_options options = gs_queue_defaults();
        gs_pair_rates good = {0.9, 0.9, 1, 1};
        gs_queue_start starts[GS_QUEUE_TOGETHER];
        options.patience_us = 10;
        gs_queue *queue = gs_queue_new(&options, 3);
        double end = late ? 111 : 109;
        gs_queue_pair(queue, 0, 1, &good, 0, 1, 1);
        assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = 2, .alone_us = 100}, 1, 0));
        assert_int_equal(gs_queue_next(queue, 0, starts), 1);
        size_t first = starts[0].launch;
        assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = 2, .alone_us = 5, .user = 9}, 1, 40));
        for (int32_t kind = 0; kind < 2; kind++)
            assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = kind, .alone_us = 50}, 1, 41));
        gs_queue_end(queue, first, end);
        assert_int_equal(gs_queue_next(queue, end, starts), late ? 1 : 2);
        assert_int_equal(starts[0].user, late ? 9 : 0);
        gs_queue_free(queue);
    }
}

/* A pair that the plan praises and that gains nothing is given up. */
static void a_pair_that_disappoints_is_given_up(void **state) {
    (void)state;
    gs_queue_options options = gs_queue_defaults();
    gs_pair_rates good = {0.7, 0.7, 1, 1};
    gs_queue *queue = gs_queue_new(&options, 2);
    gs_queue_start starts[GS_QUEUE_TOGETHER];
    double now = 0;
    int together = 0;
    gs_queue_pair(queue, 0, 1, &good, 0.01, 1, 1);
    for (int round = 0; round < 100; round++) {
        for (int32_t kind = 0; kind < 2; kind++)
            assert_true(gs_queue_add(queue, &(gs_queue_launch){.kind = kind, .alone_us = 100}, 1, now));
        while (gs_queue_count(queue) > 0) {
            size_t count = gs_queue_next(queue, now, starts);
            now += count == 2 ? 230 : 100;
            together += count == 2;
            for (size_t i = 0; i < count; i++)
                gs_queue_end(queue, starts[i].launch, now);
        }
    }
    assert_true(together >= 1 && together <= 4);
    gs_queue_free(queue);
}

static void impossible_tasks_are_refused(void **state) {
    (void)state;
    gs_queue_options options = gs_queue_defaults();
    gs_queue *queue = gs_queue_new(&options, 2);
    static const size_t itself[] = {0};
    assert_false(gs_queue_add(queue, &(gs_queue_launch){.kind = 2, .alone_us = 1}, 1, 0));
    assert_false(gs_queue_add(queue, &(gs_queue_launch){.kind = -1, .alone_us = 1}, 1, 0));
    assert_false(gs_queue_add(queue, &(gs_queue_launch){.kind = 0, .alone_us = NAN}, 1, 0));
    assert_false(
        gs_queue_add(queue, &(gs_queue_launch){.kind = 0, .alone_us = 1, .after = itself, .after_count = 1}, 1, 0));
    assert_int_equal(gs_queue_count(queue), 0);
    assert_int_equal(gs_queue_next(queue, 0, (gs_queue_start[GS_QUEUE_TOGETHER]){{0}}), 0);
    gs_queue_free(queue);
    gs_queue_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_much_worse_than_in_order),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(a_lone_kind_gets_its_turn),
        cmocka_unit_test(decides_as_the_literal_version),
        cmocka_unit_test(a_launch_that_opens_a_pair_goes_first),
        cmocka_unit_test(three_at_a_time_where_they_fit),
        cmocka_unit_test(unknown_pairs_are_tried_and_learned),
        cmocka_unit_test(a_doubtful_model_is_taken_with_caution),
        cmocka_unit_test(trials_that_lose_are_paid_for),
        cmocka_unit_test(a_pair_learns_a_quarter),
        cmocka_unit_test(a_trial_waits_until_it_can_be_paid),
        cmocka_unit_test(what_pairs_earn_pays_for_trials),
        cmocka_unit_test(a_pair_far_behind_is_not_found),
        cmocka_unit_test(a_third_launch_changes_no_workers),
        cmocka_unit_test(patience_begins_after_what_runs),
        cmocka_unit_test(a_pair_that_disappoints_is_given_up),
        cmocka_unit_test(impossible_tasks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
