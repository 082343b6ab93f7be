/*
 * test_decisions_pairs.c: two kernels: Slate's table, the throughput side by side and serially, and which of the two is
 * chosen.
 */
#include "decide_support.h"

/* ---- Slate's table ---- */

TEST(the_table_is_slates_upper_half) {
    static const enum gs_level kinds[5][2] = {{GS_LEVEL_LOW, GS_LEVEL_LOW},
                                              {GS_LEVEL_MEDIUM, GS_LEVEL_LOW},
                                              {GS_LEVEL_HIGH, GS_LEVEL_LOW},
                                              {GS_LEVEL_MEDIUM, GS_LEVEL_MEDIUM},
                                              {GS_LEVEL_LOW, GS_LEVEL_HIGH}};
    /* As printed; C: corun, s: solo. The halves differ in H_C with M_M and in H_C with H_M. */
    static const char *const printed[5] = {"CCsCC", "CCssC", "ssssC", "CsCss", "CCsss"};
    int differ = 0;
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++) {
            bool corun = gs_table_says_corun(kinds[a][0], kinds[a][1], kinds[b][0], kinds[b][1]);
            assert_int_equal(corun, printed[gs_min(a, b)][gs_max(a, b)] == 'C');
            differ += a < b && printed[a][b] != printed[b][a];
        }
    assert_int_equal(differ, 2);
    assert_false(gs_table_says_corun(GS_LEVEL_HIGH, GS_LEVEL_LOW, GS_LEVEL_MEDIUM, GS_LEVEL_MEDIUM));
    assert_true(gs_table_says_corun(GS_LEVEL_LOW, GS_LEVEL_HIGH, GS_LEVEL_HIGH, GS_LEVEL_LOW));
    /* Memory counts first. */
    assert_true(gs_table_says_corun(GS_LEVEL_HIGH, GS_LEVEL_HIGH, GS_LEVEL_LOW, GS_LEVEL_LOW));
    for (int unknown = 1; unknown < 16; unknown++) { /* each of the four, and several of them */
        enum gs_level levels[4];
        for (int i = 0; i < 4; i++)
            levels[i] = unknown >> i & 1 ? GS_LEVEL_UNKNOWN : GS_LEVEL_LOW;
        assert_false(gs_table_says_corun(levels[0], levels[1], levels[2], levels[3]));
    }
}

/* ---- pairs ---- */

TEST(pairs_are_measured_by_split) {
    gs_profile_store *store = plan_store();
    gs_profile *a = plan_profile(store, 1, 1, 1000), *b = plan_profile(store, 2, 0.5, 1000);
    double factor;
    assert_null(gs_profile_store_pair(store, 1, 2));
    /* Alone on 66 SMs a does 50 blocks a microsecond, b 100. */
    gs_beside half_a = {a, 66, 40000}, half_b = {b, 66, 50000};
    gs_profile_store_inter_sm(store, &half_b, &half_a, 1000000);
    const gs_pair *pair = gs_profile_store_pair(store, 2, 1);
    assert_non_null(pair);
    assert_true(gs_pair_factor(pair, a, 66, &factor));
    plan_expect_near(factor, 0.8, 1e-6);
    assert_true(gs_pair_factor(pair, b, 132, &factor)); /* the nearest split that was measured */
    plan_expect_near(factor, 0.5, 1e-6);
    assert_true(gs_pair_factor(pair, b, 10, &factor)); /* on so few SMs the memory does not limit it */
    plan_expect_near(factor, 1, 1e-6);
    gs_beside most_a = {a, 120, 90000}, least_b = {b, 12, 18000};
    gs_profile_store_inter_sm(store, &most_a, &least_b, 1000000);
    assert_true(gs_pair_factor(pair, b, 12, &factor));
    plan_expect_near(factor, 18.0 / (12 / 66.0 * 100), 0.02);
    assert_true(gs_pair_factor(pair, a, 66, &factor));
    plan_expect_near(factor, 0.8, 1e-6);
    for (int i = 0; i < 60; i++) { /* old measurements fade */
        half_a.blocks = 50000;
        gs_profile_store_inter_sm(store, &half_a, &half_b, 1000000);
    }
    assert_true(gs_pair_factor(pair, a, 66, &factor));
    plan_expect_near(factor, 1, 0.01);
    gs_profile_store_serial(store, &(gs_beside){a, 0, 50000}, &(gs_beside){b, 0, 60000}, 1000000);
    plan_expect_near(pair->serial, 1.1, 1e-6);
    gs_profile_store_close(store);
}

TEST(a_kernel_beside_itself_is_the_same_both_ways) {
    gs_profile_store *store = plan_store();
    gs_profile *a = plan_profile(store, 1, 1, 1000);
    double few = 0, many = 0;
    gs_profile_store_inter_sm(store, &(gs_beside){a, 33, 20000}, &(gs_beside){a, 99, 60000}, 1000000);
    const gs_pair *pair = gs_profile_store_pair(store, 1, 1);
    assert_true(gs_pair_factor(pair, a, 33, &few) && gs_pair_factor(pair, a, 99, &many));
    plan_expect_near(few, 0.8, 1e-6);
    plan_expect_near(many, 0.8, 1e-6);
    gs_profile_store_close(store);
}

/* ---- decisions ---- */

TEST(the_table_is_tried_and_measurements_replace_it) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    gs_profile *a = plan_profile(scene.store, 1, 0.4, 5000), *b = plan_profile(scene.store, 2, 0.4, 5000);
    scene.contenders[0] = plan_waiting(a, 0);
    scene.contenders[1] = plan_waiting(b, 1);
    /* Both are bound by memory: the table says solo, the curves promise a throughput of 2. So it is tried, */
    assert_int_equal(plan_decide(&scene).running, 2);
    assert_true(scene.placements[0].is_trial && scene.placements[1].is_trial);
    for (int i = 0; i < 2; i++) /* and measured: half the rate each */
        gs_profile_store_inter_sm(scene.store, &(gs_beside){a, 66, 10000}, &(gs_beside){b, 66, 10000}, 1000000);
    assert_int_equal(plan_decide(&scene).running, 1);
    plan_expect(&scene, 1, GS_DECIDE_WAIT, 0);
    /* The same where the table says corun and is wrong. */
    gs_profile *c = plan_profile(scene.store, 3, 1, 5000);
    scene.contenders[1] = plan_waiting(c, 1);
    assert_int_equal(plan_decide(&scene).running, 2);
    for (int i = 0; i < 2; i++)
        gs_profile_store_inter_sm(scene.store, &(gs_beside){a, 53, 8000}, &(gs_beside){c, 79, 4000}, 1000000);
    assert_int_equal(plan_decide(&scene).running, 1);
    gs_profile_store_close(scene.store);
}

TEST(turns_that_do_more_than_one_are_preferred) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    gs_profile *a = plan_profile(scene.store, 1, 0.88, 5000), *b = plan_profile(scene.store, 2, 0.88, 5000);
    assert_int_equal(gs_profile_compute(a), GS_LEVEL_MEDIUM); /* low in memory: corun */
    scene.contenders[0] = plan_waiting(a, 0);
    scene.contenders[1] = plan_waiting(b, 1);
    assert_int_equal(plan_decide(&scene).running, 2);
    for (int i = 0; i < 3; i++)
        gs_profile_store_serial(scene.store, &(gs_beside){a, 0, 12000}, &(gs_beside){b, 0, 12000}, 1000000);
    assert_int_equal(plan_decide(&scene).running, 1);
    gs_profile_store_close(scene.store);
}

static void let_both_wait(plan_scene *scene, gs_profile *a, gs_profile *b) {
    scene->contenders[0] = plan_waiting(a, 0);
    scene->contenders[1] = plan_waiting(b, 1);
}

/* Decides until serial runs are to be measured. Adds a measurement for each split until then, and returns how many. */
static int measure_splits(plan_scene *scene, const gs_beside *a, const gs_beside *b, uint64_t ns) {
    enum { MOST = 100 };
    int splits = 0;
    for (; splits < MOST; splits++) {
        bool is_split = plan_decide(scene).running == 2 && scene->placements[0].how == GS_DECIDE_CONFINED;
        plan_apply_all(scene);
        if (!is_split)
            break;
        gs_profile_store_inter_sm(scene->store, a, b, ns);
    }
    return splits;
}

/* A GPU can be slow just while serial runs are measured. So they are measured again between splits. */
TEST(turns_are_measured_again_between_splits) {
    static const int splits[] = {0, 0, 1, 1, 1, 2, 4, 8};
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    gs_profile *a = plan_profile(scene.store, 1, 0.4, 1000), *b = plan_profile(scene.store, 2, 1, 1000);
    for (size_t i = 0; i < GS_COUNT(splits); i++) {
        let_both_wait(&scene, a, b);
        assert_int_equal(measure_splits(&scene, &(gs_beside){a, 53, 9000}, &(gs_beside){b, 79, 6000}, 100000),
                         splits[i]);
        gs_profile_store_serial(scene.store, &(gs_beside){a, 0, 45000}, &(gs_beside){b, 0, 45000}, 1000000);
    }
    gs_profile_store_close(scene.store);
}

/* On average serial runs have 0.75 and a split 0.95, but each split directly after a serial run is slower than it: the
   GPU's clock has changed in between. */
TEST(splits_are_compared_with_the_turns_before) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    gs_profile *a = plan_profile(scene.store, 1, 0.5, 1000), *b = plan_profile(scene.store, 2, 0.5, 1000);
    gs_beside slow_a = {a, 0, 25000}, slow_b = {b, 0, 25000}, fast_a = {a, 0, 50000}, fast_b = {b, 0, 50000};
    int all = 0;
    for (int i = 0; i < 20; i++) {
        let_both_wait(&scene, a, b);
        all += measure_splits(&scene, &(gs_beside){a, 66, 4750}, &(gs_beside){b, 66, 4750}, 100000);
        gs_profile_store_serial(scene.store, &slow_a, &slow_b, 1000000);
        gs_profile_store_serial(scene.store, &fast_a, &fast_b, 1000000);
    }
    assert_int_equal(all, 3);
    gs_profile_store_close(scene.store);
}

TEST_MAIN(NULL, NULL)
