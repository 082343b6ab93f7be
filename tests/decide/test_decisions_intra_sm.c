/*
 * test_decisions_intra_sm.c: pairs that share SMs (intra-SM), as one more kind of decision: chosen if it gains, and
 * only if both kernels can have the measured workers. The pairs are those of a plan, and pairs that no plan has: these
 * are tried if both fit, and trials cost next to nothing.
 */
#include "decide_support.h"

#include <math.h>

/* A kernel of this name that takes `us` alone and grows up to the part `end` of the SMs. */
static gs_profile *named(gs_profile_store *store, uint64_t key, const char *name, double end, double us) {
    gs_profile *profile = plan_profile(store, key, end, us);
    snprintf(profile->name, sizeof profile->name, "%s", name);
    return profile;
}

/* a and b share SMs: the rates of each, and the workers 4 and 2. */
static gs_planned one_pair(gs_planned_pair *pair, double a, double b) {
    gs_plan_table table = {0};
    gs_table_kernel kernels[] = {{.name = "a", .blocks = 1, .alone_us = 100},
                                 {.name = "b", .blocks = 1, .alone_us = 100}};
    gs_table_pair known = {
        .first = 0, .second = 1, .option = GS_TABLE_INTRA_SM, .first_workers = 4, .second_workers = 2};
    gs_planned planned;
    known.together_us = 100;
    known.first_us = 100 * a;
    known.second_us = 100 * b;
    table.kernels.data = kernels;
    table.kernels.count = 2;
    table.pairs.data = &known;
    table.pairs.count = 1;
    assert_true(gs_planned_init(&planned, &table, NULL));
    assert_int_equal(planned.count, 1);
    *pair = planned.data[0];
    gs_planned_clear(&planned);
    return (gs_planned){.data = pair, .count = 1};
}

/* a and b wait; both need all SMs, and nothing else is known about them. */
static plan_scene two_waiting(const gs_planned *planned) {
    plan_scene scene = plan_new_scene();
    scene.options.planned = planned;
    scene.contenders[0] = plan_waiting(named(scene.store, 1, "a", 1, 5000), 1);
    scene.contenders[1] = plan_waiting(named(scene.store, 2, "b", 1, 4000), 2);
    scene.count = 2;
    return scene;
}

static void expect_inside(const plan_scene *scene, size_t a, size_t b) {
    plan_expect(scene, a, GS_DECIDE_CONFINED, SMS);
    plan_expect(scene, b, GS_DECIDE_CONFINED, SMS);
    assert_int_equal(scene->placements[a].workers, 4);
    assert_int_equal(scene->placements[b].workers, 2);
}

static bool is_intra_sm(const plan_scene *scene) {
    return scene->placements[0].workers > 0 || scene->placements[1].workers > 0;
}

/* The daemon compiles kernels as the plan has them alone. A pair with fewer registers or threads would not fit. */
TEST(a_pair_of_other_forms_is_not_for_the_daemon) {
    static const char text[] =
        "{\"schema\":\"gridsmith.plan/1\",\"gpu\":\"h200\",\"kernels\":["
        "{\"name\":\"a\",\"blocks\":1,\"block_threads\":128,\"registers\":64,\"alone_us\":100},"
        "{\"name\":\"b\",\"blocks\":1,\"block_threads\":128,\"registers\":64,\"alone_us\":100}],\"pairs\":["
        "{\"first\":\"a\",\"second\":\"b\",\"option\":\"inside\",\"first_workers_per_sm\":5,"
        "\"second_workers_per_sm\":4,\"second_registers\":%d,\"together_us\":120}]}";
    for (int registers = 48; registers <= 64; registers += 16) {
        char plan[sizeof text + 20];
        gs_plan_table table;
        gs_planned planned;
        gs_error error;
        snprintf(plan, sizeof plan, text, registers);
        gs_input *input = gs_input_memory("plan", plan, strlen(plan), &error);
        assert_int_equal(gs_plan_table_read(input, &table, &error), GS_OK);
        assert_int_equal(table.pairs.data[0].shapes[0].registers, 64);
        assert_int_equal(table.pairs.data[0].shapes[1].registers, registers);
        assert_true(gs_planned_init(&planned, &table, NULL));
        assert_int_equal(planned.count, registers == 64);
        gs_planned_clear(&planned);
        gs_plan_table_clear(&table);
        gs_input_close(input);
    }
}

/* A model counts up to a residual, which is said with its rates; else the few points; else what both took together. */
TEST(the_rates_of_a_pair_are_the_surest) {
    gs_table_pair pair = {.option = GS_TABLE_SPLIT,
                          .has_model = true,
                          .model = {.residual = GS_MOST_RESIDUAL},
                          .has_few = true,
                          .few = {.rates = {0.6, 0.9, 1, 1}, .residual = GS_MOST_RESIDUAL},
                          .first_us = 100,
                          .second_us = 100,
                          .together_us = 125};
    gs_pair_rates rates;
    double residual;
    assert_true(gs_table_pair_rates(&pair, &rates, &residual) && residual == GS_MOST_RESIDUAL);
    gs_pair_rates of_model = gs_pair_model_rates(&pair.model);
    assert_memory_equal(&rates, &of_model, sizeof rates);
    pair.model.residual = GS_MOST_RESIDUAL * 1.001;
    assert_true(gs_table_pair_rates(&pair, &rates, &residual) && residual == GS_MOST_RESIDUAL);
    assert_memory_equal(&rates, &pair.few.rates, sizeof rates);
    pair.few.residual = GS_MOST_RESIDUAL * 1.001;
    assert_true(gs_table_pair_rates(&pair, &rates, &residual) && residual == 0);
    plan_expect_near(rates.first, 0.8, 1e-12);
    plan_expect_near(rates.second, 0.8, 1e-12);
    pair.together_us = 0;
    assert_false(gs_table_pair_rates(&pair, &rates, &residual));
    pair.together_us = 125;
    pair.option = GS_TABLE_SERIAL;
    assert_false(gs_table_pair_rates(&pair, &rates, &residual));
}

/* The daemon expects of a plan what the online scheduler expects: less, if the model is often off. */
TEST(a_doubtful_plan_is_taken_with_caution) {
    gs_table_kernel kernels[] = {{.name = "a", .blocks = 1, .alone_us = 100},
                                 {.name = "b", .blocks = 1, .alone_us = 100}};
    gs_table_pair pair = {.first = 0,
                          .second = 1,
                          .option = GS_TABLE_INTRA_SM,
                          .first_workers = 4,
                          .second_workers = 2,
                          .has_few = true,
                          .few = {.rates = {0.6, 0.9, 1, 1}, .residual = 0.05}};
    gs_plan_table table = {.kernels = {.data = kernels, .count = 2}, .pairs = {.data = &pair, .count = 1}};
    gs_planned planned;
    assert_true(gs_planned_init(&planned, &table, NULL));
    assert_int_equal(planned.count, 1);
    assert_int_equal(planned.sharing, 1);
    plan_expect_near(planned.data[0].shares[0], 0.6 / 1.1, 1e-12);
    plan_expect_near(planned.data[0].shares[1], 0.9 / 1.1, 1e-12);
    gs_planned_clear(&planned);
}

/* One worker of each is enough. A pair of the plan without workers of both is known, and shares no SMs. */
TEST(a_plan_says_who_has_workers) {
    gs_table_kernel kernels[] = {{.name = "a", .blocks = 1, .alone_us = 100},
                                 {.name = "b", .blocks = 1, .alone_us = 100}};
    for (int32_t i = 0; i < 4; i++) {
        int32_t workers[2] = {i & 1, i >> 1};
        gs_table_pair pair = {.first = 0,
                              .second = 1,
                              .option = GS_TABLE_INTRA_SM,
                              .first_workers = workers[0],
                              .second_workers = workers[1],
                              .first_us = 100,
                              .second_us = 100,
                              .together_us = 150};
        gs_plan_table table = {.kernels = {.data = kernels, .count = 2}, .pairs = {.data = &pair, .count = 1}};
        gs_planned planned;
        assert_true(gs_planned_init(&planned, &table, NULL));
        assert_int_equal(planned.count, 1);
        assert_int_equal(planned.sharing, i == 3);
        assert_int_equal(planned.data[0].workers[0], i == 3);
        assert_int_equal(planned.data[0].workers[1], i == 3);
        gs_planned_clear(&planned);
    }
}

TEST(a_pair_that_gains_shares_sms) {
    gs_planned_pair pair;
    gs_planned planned = one_pair(&pair, 0.7, 0.6);
    int first;
    assert_ptr_equal(gs_planned_find(&planned, "b", "a", &first), &pair);
    assert_int_equal(first, 1);
    assert_null(gs_planned_find(&planned, "a", "c", &first));
    assert_ptr_equal(gs_planned_find(&planned, "_Z1aPKfS0_Pfi", "_Z1bv", &first), &pair);
    assert_int_equal(first, 0);
    assert_null(gs_planned_find(&planned, "_Z2ab", "_Z9b", &first));
    assert_null(gs_planned_find(&planned, "_ZN1aE", "b", &first));
    plan_scene scene = two_waiting(&planned);
    gs_decision decision = plan_decide(&scene);
    expect_inside(&scene, 0, 1);
    plan_expect_near(decision.throughput, 1.3, 1e-9);
    assert_int_equal(decision.running, 2);
    /* It stays so. */
    plan_apply_all(&scene);
    decision = plan_decide(&scene);
    expect_inside(&scene, 0, 1);
    assert_false(decision.is_changed);
    /* The next launch of one of them takes its place again, also if it is expected meanwhile. */
    scene.contenders[1].state = GS_CONTENDER_EXPECTED;
    plan_decide(&scene);
    expect_inside(&scene, 0, 1);
    scene.contenders[1] = plan_waiting(scene.contenders[1].profile, 2);
    plan_decide(&scene);
    expect_inside(&scene, 0, 1);
    /* A third one waits for its turn, or for a split that is worth the change. */
    scene.contenders[2] = plan_waiting(named(scene.store, 3, "c", 1, 5000), 3);
    scene.count = 3;
    plan_decide(&scene);
    assert_true(is_intra_sm(&scene));
    plan_expect(&scene, 2, GS_DECIDE_WAIT, 0);
    gs_profile_store_close(scene.store);
}

/* The plan has measured launches of 100 us; those of two_waiting take milliseconds. */
TEST(a_plan_is_not_used_for_much_shorter_launches) {
    gs_planned_pair pair;
    gs_planned planned = one_pair(&pair, 0.7, 0.6);
    gs_intra_sm_way ways[GS_INTRA_SM_WAYS];
    plan_scene scene = two_waiting(&planned);
    const gs_profile *a = scene.contenders[0].profile, *b = scene.contenders[1].profile;
    assert_true(pair.alone_ns[0] == 100000 && pair.alone_ns[1] == 100000);
    assert_int_equal(gs_intra_sm_ways(&scene.options, scene.store, a, b, ways), 1);
    for (int place = 0; place < 2; place++) {
        double duration_ns = (double)gs_profile_duration_ns(place ? b : a);
        pair.alone_ns[place] = 1.9 * duration_ns;
        assert_int_equal(gs_intra_sm_ways(&scene.options, scene.store, a, b, ways), 1);
        pair.alone_ns[place] = 2.1 * duration_ns;
        assert_int_equal(gs_intra_sm_ways(&scene.options, scene.store, a, b, ways), 0);
        assert_int_equal(gs_intra_sm_ways(&scene.options, scene.store, b, a, ways), 0);
        pair.alone_ns[place] = 0;
    }
    gs_profile_store_close(scene.store);
}

/* Two measured ways, with two partners; the second gains more. */
TEST(the_partner_that_gains_most_is_taken) {
    plan_scene scene = two_waiting(NULL);
    scene.options.tries_intra_sm = true;
    scene.contenders[2] = plan_waiting(named(scene.store, 3, "c", 1, 4000), 3);
    scene.count = 3;
    for (int partner = 1; partner <= 2; partner++)
        for (int i = 0; i < GS_WAY_SAMPLES; i++) {
            gs_profile *lead = (gs_profile *)scene.contenders[0].profile;
            gs_profile *other = (gs_profile *)scene.contenders[partner].profile;
            gs_beside both[2] = {{.profile = lead, .blocks = (uint64_t)(6e6 * lead->alone)},
                                 {.profile = other, .blocks = (uint64_t)((5e6 + partner * 1e6) * other->alone)}};
            gs_profile_store_intra_sm(scene.store, &both[0], &both[1], (int32_t[]){4, partner}, 10000000);
        }
    gs_decision decision = plan_decide(&scene);
    plan_expect(&scene, 1, GS_DECIDE_WAIT, 0);
    plan_expect(&scene, 2, GS_DECIDE_CONFINED, SMS);
    assert_true(scene.placements[0].workers == 4 && scene.placements[2].workers == 2);
    plan_expect_near(decision.throughput, 1.3, 1e-3);
    gs_profile_store_close(scene.store);
}

/* Several clients with the same two kernels: all get the same service, whichever leads. */
TEST(equal_clients_are_partners_as_often) {
    enum { EACH = 4, ROUNDS = 400, SLICE = 1000000 };
    gs_planned_pair pair;
    gs_planned planned = one_pair(&pair, 0.7, 0.6);
    plan_scene scene = two_waiting(&planned);
    int served[2 * EACH] = {0};
    for (int i = 0; i < 2 * EACH; i++) {
        scene.contenders[i] = plan_waiting(scene.contenders[i % 2].profile, (uint32_t)i + 1);
        scene.contenders[i].client = (uint32_t)i + 1;
    }
    scene.count = 2 * EACH;
    for (int round = 0; round < ROUNDS; round++) {
        plan_decide(&scene);
        for (int i = 0; i < 2 * EACH; i++)
            if (scene.placements[i].how != GS_DECIDE_WAIT) {
                scene.contenders[i].served += SLICE;
                served[i]++;
            }
    }
    for (int i = 0; i < 2 * EACH; i++)
        assert_in_range(served[i], ROUNDS / EACH - 1, ROUNDS / EACH + 1);
    gs_profile_store_close(scene.store);
}

/* Measurements replace the plan, after three of them. */
TEST(a_pair_that_disappoints_is_given_up) {
    gs_planned_pair pair;
    gs_planned planned = one_pair(&pair, 0.7, 0.6);
    plan_scene scene = two_waiting(&planned);
    for (int i = 0; i < GS_PAIR_WAYS; i++) { /* of another plan, whose ways were other ones */
        gs_profile *profiles[2] = {(gs_profile *)scene.contenders[0].profile,
                                   (gs_profile *)scene.contenders[1].profile};
        gs_profile_store_intra_sm(scene.store, &(gs_beside){profiles[0], 0, 100}, &(gs_beside){profiles[1], 0, 100},
                                  (int32_t[]){5 + i, 1}, 1000000);
    }
    for (int i = 0; i <= GS_WAY_SAMPLES; i++) {
        plan_decide(&scene);
        assert_true(is_intra_sm(&scene) == (i < GS_WAY_SAMPLES));
        /* In 10 ms, as many blocks of each as alone in 5 ms: as in sequence. */
        gs_beside both[2];
        for (int k = 0; k < 2; k++) {
            gs_profile *profile = (gs_profile *)scene.contenders[k].profile;
            both[k] = (gs_beside){.profile = profile, .sms = SMS, .blocks = (uint64_t)(5e6 * profile->alone)};
        }
        gs_profile_store_intra_sm(scene.store, &both[1], &both[0], (int32_t[]){2, 4}, 10000000);
    }
    gs_profile_store_close(scene.store);
}

TEST(not_where_it_gains_nothing) {
    static const double rates[][2] = {{0.5, 0.5}, {0.51, 0.51}, {0.9, 0.3}, {0.3, 0.9}}; /* the last two are not fair */
    static const int behind[] = {0, 0, 1, 0};
    for (size_t i = 0; i < GS_COUNT(rates); i++) {
        gs_planned_pair pair;
        gs_planned planned = one_pair(&pair, rates[i][0], rates[i][1]);
        plan_scene scene = two_waiting(&planned);
        scene.contenders[!behind[i]].served = (uint64_t)scene.options.slice_ns * SMS; /* the slow one had less */
        plan_decide(&scene);
        assert_false(is_intra_sm(&scene));
        gs_profile_store_close(scene.store);
    }
}

/* A pair in which one is slow runs as long as the slow one lacks no more than a time slice, and again when it has
   caught up half of that. */
TEST(an_unfair_pair_takes_turns) {
    gs_planned_pair pair;
    gs_planned planned = one_pair(&pair, 0.9, 0.3);
    plan_scene scene = two_waiting(&planned);
    uint64_t slice = (uint64_t)scene.options.slice_ns * SMS;
    static const struct {
        double lacks; /* time slices */
        bool together;
    } steps[] = {{0, true}, {0.9, true}, {1.1, false}, {0.6, false}, {0.4, true}, {0.9, true}};
    for (size_t i = 0; i < GS_COUNT(steps); i++) {
        scene.contenders[0].served = slice * 10 + (uint64_t)((double)slice * steps[i].lacks);
        scene.contenders[1].served = slice * 10;
        for (int k = 0; k < 2; k++) { /* the first decision may have to stop one */
            plan_decide(&scene);
            plan_apply_all(&scene);
        }
        if (is_intra_sm(&scene) != steps[i].together)
            fail_msg("step %zu: %d", i, is_intra_sm(&scene));
        if (!steps[i].together)
            assert_true(scene.placements[0].how == GS_DECIDE_WAIT && scene.placements[1].how != GS_DECIDE_WAIT);
    }
    gs_profile_store_close(scene.store);
}

/* A kernel that has lost its partner goes on with its workers, or, if what is left is worth a stop, with all that fit.
 */
TEST(a_kernel_left_alone_gets_its_workers_back) {
    for (int i = 0; i < 4; i++) {
        gs_planned_pair pair;
        gs_planned planned = one_pair(&pair, 0.7, 0.6);
        plan_scene scene = two_waiting(&planned);
        bool is_slow = i != 1, is_short = i == 2, has_other_workers = i == 3;
        pair.after[0] = is_slow ? 0.8 : 0.98;
        plan_decide(&scene);
        plan_apply_all(&scene);
        scene.contenders[0].workers = scene.placements[0].workers + has_other_workers;
        scene.contenders[0].blocks_left = is_short ? 1 : scene.contenders[0].profile->blocks;
        scene.count = 1;
        plan_decide(&scene);
        bool stops = is_slow && !is_short && !has_other_workers;
        assert_int_equal(scene.placements[0].how, stops ? GS_DECIDE_WAIT : GS_DECIDE_CONFINED);
        gs_profile_store_close(scene.store);
    }
}

/* The plan has the two on their own SMs. Splits that were measured count instead. */
TEST(a_split_of_the_plan_is_used) {
    for (int is_measured = 0; is_measured < 2; is_measured++) {
        gs_planned_pair pair;
        gs_planned planned = one_pair(&pair, 0.7, 0.6);
        plan_scene scene = two_waiting(&planned);
        memset(pair.workers, 0, sizeof pair.workers);
        pair.first_sms = 50;
        gs_profile *a = (gs_profile *)scene.contenders[0].profile, *b = (gs_profile *)scene.contenders[1].profile;
        if (is_measured) /* as slow as in sequence */
            gs_profile_store_inter_sm(scene.store, &(gs_beside){a, 50, (uint64_t)(a->alone * 1e7 * 50 / SMS)},
                                      &(gs_beside){b, SMS - 50, (uint64_t)(b->alone * 1e7 * (SMS - 50) / SMS)},
                                      10000000);
        plan_decide(&scene);
        assert_true((scene.placements[0].sms == 50 && scene.placements[1].sms == SMS - 50) == !is_measured);
        assert_int_equal(scene.placements[0].workers, 0);
        gs_profile_store_close(scene.store);
    }
}

/* a came first, and c gains nothing beside it. But behind c comes b, which does: so c goes first, unless its client has
   had more by a time slice. */
TEST(a_launch_before_one_that_gains_goes_first) {
    for (int is_ahead = 0; is_ahead < 2; is_ahead++) {
        gs_planned_pair pair;
        gs_planned planned = one_pair(&pair, 0.7, 0.6); /* a and b */
        plan_scene scene = two_waiting(&planned);
        scene.contenders[1] = plan_waiting(named(scene.store, 3, "c", 1, 3000), 2);
        scene.contenders[0].stream = 1;
        scene.contenders[1].stream = 2;
        scene.contenders[1].arrival = 7;
        scene.contenders[1].blocks_left = scene.contenders[1].profile->blocks;
        scene.contenders[0].blocks_left = scene.contenders[0].profile->blocks;
        plan_decide(&scene);
        assert_int_not_equal(scene.placements[0].how, GS_DECIDE_WAIT);
        scene.contenders[1].coming[0] = named(scene.store, 2, "b", 1, 5000);
        scene.contenders[1].served = is_ahead ? 2 * (uint64_t)scene.options.slice_ns * SMS : 0;
        plan_decide(&scene);
        assert_true((scene.placements[1].how != GS_DECIDE_WAIT) == !is_ahead);
        assert_true((scene.placements[0].how != GS_DECIDE_WAIT) == is_ahead);
        gs_profile_store_close(scene.store);
    }
}

TEST(not_where_a_kernel_cannot) {
    gs_planned_pair pair;
    gs_planned planned = one_pair(&pair, 0.7, 0.6);
    for (int reason = 0; reason < 6; reason++) {
        plan_scene scene = two_waiting(&planned);
        gs_contender *one = &scene.contenders[0], *other = &scene.contenders[1];
        other->can_confine = other->can_share = reason != 0;
        other->cap = reason == 1 ? 60 : 0;
        other->priority = reason == 2 ? -1 : 0;
        if (reason == 3)
            other->profile = named(scene.store, 9, "b", 1, 50); /* short */
        if (reason == 4)
            plan_apply(one, &(gs_decided_place){.how = GS_DECIDE_WHOLE, .sms = SMS});
        if (reason == 5)
            scene.options.planned = NULL;
        plan_decide(&scene);
        assert_false(is_intra_sm(&scene));
        gs_profile_store_close(scene.store);
    }
}

/* A kernel that is confined, and has other workers or fewer SMs, stops and goes on with those of the plan. The other
   one need not wait for that. */
TEST(a_kernel_that_runs_stops_to_share) {
    gs_planned_pair pair;
    gs_planned planned = one_pair(&pair, 0.7, 0.6);
    for (int32_t sms = SMS / 2; sms <= SMS; sms += SMS / 2) {
        plan_scene scene = two_waiting(&planned);
        plan_apply(&scene.contenders[0], &(gs_decided_place){.how = GS_DECIDE_CONFINED, .sms = sms});
        scene.contenders[0].blocks_left = 90000;
        plan_decide(&scene);
        plan_expect(&scene, 0, GS_DECIDE_WAIT, 0);
        plan_expect(&scene, 1, GS_DECIDE_CONFINED, SMS);
        assert_int_equal(scene.placements[1].workers, 2);
        plan_apply_all(&scene);
        plan_decide(&scene);
        expect_inside(&scene, 0, 1);
        /* It is not worth it for the last blocks. */
        scene.contenders[1] = plan_waiting(scene.contenders[1].profile, 2);
        plan_apply(&scene.contenders[0], &(gs_decided_place){.how = GS_DECIDE_CONFINED, .sms = SMS});
        scene.contenders[0].blocks_left = 100;
        plan_decide(&scene);
        plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS);
        gs_profile_store_close(scene.store);
    }
}

/* It would keep them, which are fewer than fit there. When it waits, it has SMs of its own. */
TEST(a_kernel_with_the_workers_of_a_pair_has_no_split) {
    for (int32_t workers = 0; workers < 4; workers += 3) {
        gs_planned_pair pair;
        gs_planned planned = one_pair(&pair, 0.7, 0.6);
        plan_scene scene = two_waiting(&planned);
        memset(pair.workers, 0, sizeof pair.workers);
        pair.first_sms = 50;
        plan_apply(&scene.contenders[1],
                   &(gs_decided_place){.how = GS_DECIDE_CONFINED, .sms = SMS, .workers = workers});
        plan_decide(&scene);
        assert_true((scene.placements[0].sms == 50 && scene.placements[1].sms == SMS - 50) == !workers);
        scene.contenders[1] = plan_waiting(scene.contenders[1].profile, 2);
        plan_decide(&scene);
        plan_expect(&scene, 0, GS_DECIDE_CONFINED, 50);
        plan_expect(&scene, 1, GS_DECIDE_CONFINED, SMS - 50);
        gs_profile_store_close(scene.store);
    }
}

/* One whose last launch ran whole is expected to share. */
TEST(one_that_is_expected_can_share) {
    gs_planned_pair pair;
    gs_planned planned = one_pair(&pair, 0.7, 0.6);
    plan_scene scene = two_waiting(&planned);
    plan_apply(&scene.contenders[0], &(gs_decided_place){.how = GS_DECIDE_WHOLE, .sms = SMS});
    scene.contenders[0].state = GS_CONTENDER_EXPECTED;
    scene.contenders[0].can_confine = false;
    plan_decide(&scene);
    expect_inside(&scene, 0, 1);
    gs_profile_store_close(scene.store);
}

/* Where a split gives more than the plan, the SMs are split. */
TEST(a_better_split_wins) {
    gs_planned_pair pair;
    gs_planned planned = one_pair(&pair, 0.6, 0.6);
    plan_scene scene = plan_new_scene();
    scene.options.planned = &planned;
    scene.contenders[0] = plan_waiting(named(scene.store, 1, "a", 0.4, 5000), 1);
    scene.contenders[1] = plan_waiting(named(scene.store, 2, "b", 0.5, 4000), 2);
    scene.count = 2;
    gs_decision decision = plan_decide(&scene);
    assert_false(is_intra_sm(&scene));
    assert_true(decision.throughput > 1.2);
    gs_profile_store_close(scene.store);
}

/* Kernels that would be queued behind each other wait for the other to end, and share SMs then. */
TEST(short_enough_to_be_queued) {
    gs_planned_pair pair;
    gs_planned planned = one_pair(&pair, 0.7, 0.6);
    plan_scene scene = plan_new_scene();
    scene.options.planned = &planned;
    scene.contenders[0] = plan_waiting(named(scene.store, 1, "a", 1, 1000), 1);
    scene.count = 1;
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_WHOLE, SMS);
    plan_apply_all(&scene);
    scene.contenders[1] = plan_waiting(named(scene.store, 2, "b", 1, 800), 2);
    scene.count = 2;
    plan_decide(&scene);
    plan_expect(&scene, 1, GS_DECIDE_WAIT, 0);
    scene.contenders[0] = plan_waiting(scene.contenders[0].profile, 1);
    plan_decide(&scene);
    expect_inside(&scene, 0, 1);
    gs_profile_store_close(scene.store);
}

/* For any sequence of launches: kernels that share SMs are a pair of the plan, with its workers, and nothing else
   runs. */
TEST(random_contenders) {
    for (int round = 0; round < plan_rounds(3000); round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 31), (uint64_t)round);
        gs_planned_pair pair;
        gs_planned planned = one_pair(&pair, plan_random(&random, 0.4, 0.9), plan_random(&random, 0.4, 0.9));
        plan_scene scene = plan_new_scene();
        scene.options.planned = &planned;
        scene.count = (size_t)gs_random_from(&random, 1, 5);
        for (size_t i = 0; i < scene.count; i++) {
            static const char *const names[] = {"a", "b", "c"};
            scene.contenders[i] = plan_waiting(named(scene.store, i + 1, names[gs_random_from(&random, 0, 2)],
                                                     plan_random(&random, 0.3, 1), plan_random(&random, 50, 20000)),
                                               (uint32_t)i);
            scene.contenders[i].priority = gs_random_chance(&random, 20) ? 1 : 0;
            scene.contenders[i].cap = gs_random_chance(&random, 10) ? 50 : 0;
        }
        for (int step = 0; step < 6; step++) {
            gs_decision decision = plan_decide(&scene);
            size_t sharing = 0;
            for (size_t i = 0; i < scene.count; i++) {
                const gs_decided_place *place = &scene.placements[i];
                if (place->workers == 0)
                    continue;
                sharing++;
                assert_true(place->how == GS_DECIDE_CONFINED && place->sms == SMS);
                assert_int_equal(place->workers, scene.contenders[i].profile->name[0] == 'a' ? 4 : 2);
                assert_true(scene.contenders[i].profile->name[0] != 'c');
            }
            assert_true(sharing == 0 || (sharing <= 2 && decision.running == sharing));
            plan_apply_all(&scene);
            size_t ended = (size_t)gs_random_from(&random, 0, (int64_t)scene.count - 1);
            scene.contenders[ended] = plan_waiting(scene.contenders[ended].profile, (uint32_t)ended);
        }
        gs_profile_store_close(scene.store);
    }
}

/* ---- pairs that no plan has ---- */

/* a and b wait, with blocks of 256 threads and these registers. Both need all SMs, so no split gains. */
static plan_scene two_untried(int32_t registers_a, int32_t registers_b) {
    plan_scene scene = two_waiting(NULL);
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    assert_int_equal(gs_profile_store_predict(scene.store, gpu, NULL), GS_OK);
    gs_gpu_free(gpu);
    scene.options.tries_intra_sm = true;
    ((gs_profile *)scene.contenders[0].profile)->worker = gs_shape_of(256, registers_a, 0);
    ((gs_profile *)scene.contenders[1].profile)->worker = gs_shape_of(256, registers_b, 0);
    return scene;
}

/* They ran for `ms` with these shares: in sequence, or, as decided, on the same SMs. */
static void run_for(plan_scene *scene, double ms, double share_a, double share_b) {
    gs_beside both[2];
    const double shares[2] = {share_a, share_b};
    int32_t workers[2];
    for (int i = 0; i < 2; i++) {
        gs_profile *profile = (gs_profile *)scene->contenders[i].profile;
        both[i] = (gs_beside){.profile = profile, .blocks = (uint64_t)(ms * 1e6 * shares[i] * profile->alone)};
        workers[i] = scene->placements[i].workers;
    }
    if (workers[0] > 0)
        gs_profile_store_intra_sm(scene->store, &both[0], &both[1], workers, (uint64_t)(ms * 1e6));
    else
        gs_profile_store_serial(scene->store, &both[1], &both[0], (uint64_t)(ms * 1e6));
}

static void expect_workers(plan_scene *scene, int32_t a, int32_t b, bool is_trial) {
    plan_decide(scene);
    if (scene->placements[0].workers != a || scene->placements[1].workers != b)
        fail_msg("%d + %d workers, expected %d + %d", scene->placements[0].workers, scene->placements[1].workers, a, b);
    assert_true(scene->placements[0].is_trial == is_trial && scene->placements[1].is_trial == is_trial);
}

/* 65,536 registers are 8 blocks of 256 threads with 32, or 4 with 64: 4 + 2 fill an SM. The first kernel turns out to
   be much faster beside the other, and then the two are tried with fewer workers of the first. */
TEST(a_pair_that_no_plan_has_is_tried) {
    plan_scene scene = two_untried(32, 64);
    expect_workers(&scene, 0, 0, false);
    run_for(&scene, 1990, 0.5, 0.5);
    expect_workers(&scene, 0, 0, false);
    run_for(&scene, 20, 0.5, 0.5);
    for (int i = 0; i < GS_WAY_SAMPLES; i++) {
        expect_workers(&scene, 4, 2, true);
        run_for(&scene, 20, 0.62, 0.38);
    }
    for (int i = 0; i < GS_WAY_SAMPLES; i++) {
        expect_workers(&scene, 3, 2, true);
        run_for(&scene, 20, 0.7, 0.65);
    }
    /* It is used now, and goes on to be measured. */
    for (int i = 0; i <= GS_WAY_SAMPLES; i++) {
        expect_workers(&scene, 3, 2, false);
        run_for(&scene, 20, 0.5, 0.45);
    }
    expect_workers(&scene, 0, 0, false);
    gs_profile_store_close(scene.store);
}

/* No trial: one kernel leaves no room, its blocks are unknown, the plan has a better way, trials are turned off, a
   third kernel waits, or both are launches of one kernel. */
TEST(what_is_never_tried) {
    for (int reason = 0; reason < 6; reason++) {
        plan_scene scene = two_untried(reason == 0 ? 255 : 32, reason == 1 ? 0 : 32);
        gs_planned_pair pair = {.key = 0};
        gs_planned planned = {.data = &pair, .count = 1};
        if (reason == 0) /* one block of a has half of the shared memory, as two of b would */
            ((gs_profile *)scene.contenders[0].profile)->worker.shared_bytes = 200 << 10;
        if (reason == 2) {
            planned = one_pair(&pair, 0.7, 0.6);
            memset(pair.workers, 0, sizeof pair.workers); /* it runs in sequence */
            scene.options.planned = &planned;
        }
        scene.options.tries_intra_sm = reason != 3;
        if (reason == 4) /* a third one is there */
            scene.contenders[scene.count++] = plan_waiting(named(scene.store, 3, "c", 1, 5000), 3);
        if (reason == 5)
            scene.contenders[1].profile = scene.contenders[0].profile;
        for (int i = 0; i < 100; i++) {
            plan_decide(&scene);
            if (is_intra_sm(&scene))
                fail_msg("reason %d: tried with %d + %d workers", reason, scene.placements[0].workers,
                         scene.placements[1].workers);
            run_for(&scene, 100, 0.5, 0.5);
        }
        gs_profile_store_close(scene.store);
    }
}

/* A trial that loses much is not repeated, and one that is interrupted is paid for. */
TEST(trials_that_lose_end) {
    plan_scene scene = two_untried(32, 32);
    run_for(&scene, 2000, 0.5, 0.5);
    for (int i = 0; i < 2; i++) {
        expect_workers(&scene, 4, 4, true);
        run_for(&scene, 15, 0, 0.5); /* another client came: 7.5 ms are lost */
        expect_workers(&scene, 0, 0, false);
        run_for(&scene, 1500, 0.5, 0.5);
    }
    expect_workers(&scene, 4, 4, true);
    run_for(&scene, 20, 0.4, 0.4);
    for (int i = 0; i < 100; i++) {
        expect_workers(&scene, 0, 0, false);
        run_for(&scene, 1000, 0.5, 0.5);
    }
    gs_profile_store_close(scene.store);
}

/* What a trial costs is what was not done in its time, compared with what the two do otherwise. */
TEST(what_a_trial_loses_is_charged) {
    plan_scene scene = two_untried(32, 32);
    const gs_profile *a = scene.contenders[0].profile, *b = scene.contenders[1].profile;
    run_for(&scene, 2000, 0.4, 0.5);
    expect_workers(&scene, 4, 4, true);
    run_for(&scene, 20, 0.4, 0.32); /* 0.72 instead of 0.9 */
    const gs_pair *pair = gs_profile_store_pair(scene.store, a->key, b->key);
    plan_expect_near(pair->competed_ns, 2020e6, 1);
    plan_expect_near(pair->lost_ns, 4e6, 1000);
    run_for(&scene, 10, 0.9, 0.9); /* a gain is paid back */
    plan_expect_near(pair->lost_ns, -6e6, 1000);
    run_for(&scene, 8, 0, 0.9); /* it was interrupted: half of the time counts as lost */
    plan_expect_near(pair->lost_ns, -2e6, 1000);
    plan_expect_near(pair->competed_ns, 2038e6, 1);
    gs_profile_store_close(scene.store);
}

/* Random ways were measured of random pairs. */
static void measure_some(plan_scene *scene, gs_random *random) {
    for (size_t i = 0; i < scene->count; i++)
        for (size_t k = 0; k < i; k++) {
            int32_t workers[2] = {(int32_t)gs_random_from(random, 1, 8), (int32_t)gs_random_from(random, 1, 8)};
            gs_profile *profiles[2] = {(gs_profile *)scene->contenders[i].profile,
                                       (gs_profile *)scene->contenders[k].profile};
            gs_beside both[2];
            for (int side = 0; side < 2; side++)
                both[side] =
                    (gs_beside){.profile = profiles[side],
                                .blocks = (uint64_t)(plan_random(random, 4e6, 9e6) * profiles[side]->alone) + 1};
            for (int sample = 0; sample < GS_WAY_SAMPLES && gs_random_chance(random, 80); sample++)
                gs_profile_store_intra_sm(scene->store, &both[0], &both[1], workers, 10000000);
        }
}

/* At most two kernels share SMs, and nothing runs beside them. A running kernel cannot change its workers. */
static void expect_two_at_most(const plan_scene *scene, const gs_decision *decision) {
    size_t sharing = 0;
    for (size_t i = 0; i < scene->count; i++) {
        const gs_decided_place *place = &scene->placements[i];
        const gs_contender *contender = &scene->contenders[i];
        assert_true(place->workers == 0 || (place->how == GS_DECIDE_CONFINED && place->sms == SMS));
        assert_true(place->workers == 0 || contender->state != GS_CONTENDER_RUNS ||
                    place->workers == contender->workers);
        sharing += place->workers > 0;
    }
    assert_true(sharing == 0 || (sharing <= 2 && decision->running == sharing));
}

/* While launches end and arrive, kernels stop to share SMs, or end sharing. Without further events, decisions no longer
   change. */
TEST(random_pairs_come_to_rest) {
    enum { LIVELY = 6, QUIET = 4 };
    for (int round = 0; round < plan_rounds(3000); round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 34), (uint64_t)round);
        gs_decision decision = {.is_changed = true};
        plan_scene scene = plan_new_scene();
        scene.options.tries_intra_sm = true;
        scene.count = (size_t)gs_random_from(&random, 2, 5);
        for (size_t i = 0; i < scene.count; i++)
            scene.contenders[i] = plan_waiting(
                plan_profile(scene.store, i + 1, plan_random(&random, 0.3, 1), plan_random(&random, 200, 20000)),
                (uint32_t)i);
        measure_some(&scene, &random);
        for (int step = 0; step < LIVELY + QUIET; step++) {
            decision = plan_decide(&scene);
            expect_two_at_most(&scene, &decision);
            plan_apply_all(&scene);
            size_t ended = (size_t)gs_random_from(&random, 0, (int64_t)scene.count - 1);
            if (step < LIVELY)
                scene.contenders[ended] = plan_waiting(scene.contenders[ended].profile, (uint32_t)ended);
        }
        if (decision.is_changed)
            fail_msg("round %d: decisions go on changing", round);
        gs_profile_store_close(scene.store);
    }
}

/* Two kernels on the same SMs: each has its full speed with `need` workers on each SM, and proportionally less with
   fewer; and both are slower by a factor. */
struct effect {
    double need[2], factor;
};

static double true_share(const struct effect *effect, int kernel, int32_t workers) {
    return fmin(1, workers / effect->need[kernel]) / effect->factor;
}

/* Decides and runs for some seconds. Fails where at any time less than 99% of the work was done that turns would have
   done. Returns the work divided by that of turns. */
static double play_untried(plan_scene *scene, const struct effect *effect, gs_random *random) {
    double done_ms = 0, turns_ms = 0;
    for (int i = 0; i < 400; i++) {
        plan_decide(scene);
        double ms = is_intra_sm(scene) ? 20 : 50, shares[2] = {0.5, 0.5};
        for (int k = 0; k < 2 && is_intra_sm(scene); k++)
            shares[k] = true_share(effect, k, scene->placements[k].workers);
        done_ms += ms * (shares[0] + shares[1]);
        turns_ms += ms;
        run_for(scene, ms, shares[0] * plan_random(random, 0.98, 1.02), shares[1] * plan_random(random, 0.98, 1.02));
        if (done_ms < 0.99 * turns_ms)
            fail_msg("%.1f ms of work in %.1f ms", done_ms, turns_ms);
    }
    return done_ms / turns_ms;
}

/* The highest throughput of all ways that fit and are fair. */
static double best_throughput(const plan_scene *scene, const struct effect *effect, const gs_gpu *gpu) {
    enum { MOST = 16 };
    static const double FAIR = 0.45;
    const gs_shape *a = &scene->contenders[0].profile->worker, *b = &scene->contenders[1].profile->worker;
    double best = 0;
    for (int32_t first = 1; first <= MOST; first++) {
        int32_t most = gs_fits_beside(gpu, a, &first, 1, b, MOST);
        for (int32_t second = 1; second <= most; second++) {
            double shares[2] = {true_share(effect, 0, first), true_share(effect, 1, second)};
            if (shares[0] >= FAIR && shares[1] >= FAIR)
                best = fmax(best, shares[0] + shares[1]);
        }
    }
    return best;
}

static plan_scene random_untried(gs_random *random, struct effect *effect) {
    *effect = (struct effect){.need = {plan_random(random, 0.8, 8), plan_random(random, 0.8, 8)},
                              .factor = plan_random(random, 1, 2)};
    return two_untried((int32_t)gs_random_from(random, 16, 128), (int32_t)gs_random_from(random, 16, 128));
}

TEST(trials_never_cost_one_percent) {
    int rounds = plan_rounds(400);
    for (int round = 0; round < rounds; round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 32), (uint64_t)round);
        struct effect effect;
        plan_scene scene = random_untried(&random, &effect);
        play_untried(&scene, &effect, &random);
        gs_profile_store_close(scene.store);
    }
}

/* If a way gains 4% or more, most pairs end up sharing SMs, in nearly the best way. */
TEST(trials_find_what_gains) {
    int rounds = plan_rounds(150), gaining = 0, found = 0;
    double part = 0;
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    for (int round = 0; round < rounds; round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 33), (uint64_t)round);
        struct effect effect;
        plan_scene scene = random_untried(&random, &effect);
        double best = best_throughput(&scene, &effect, gpu);
        if (best >= 1.04) {
            play_untried(&scene, &effect, &random);
            gaining++;
        }
        if (best >= 1.04 && is_intra_sm(&scene)) {
            found++;
            part += (true_share(&effect, 0, scene.placements[0].workers) +
                     true_share(&effect, 1, scene.placements[1].workers)) /
                    best;
        }
        gs_profile_store_close(scene.store);
    }
    gs_gpu_free(gpu);
    print_message("%d of %d pairs that gain share SMs, with %.1f%% of the best throughput\n", found, gaining,
                  found ? 100 * part / found : 0);
    assert_true(gaining < 10 || (4 * found >= 3 * gaining && part / found > 0.97));
}

TEST_MAIN(NULL, NULL)
