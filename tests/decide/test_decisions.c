/*
 * test_decisions.c: which kernels run, whole or confined, and on how many SMs.
 */
#include "decide_support.h"

/* Adds a measurement of two side by side that do not slow each other. */
static void measure_undisturbed(gs_profile_store *store, gs_profile *a, int32_t a_sms, gs_profile *b, int32_t b_sms) {
    uint64_t ns = 100000000;
    gs_beside one = {a, a_sms, (uint64_t)(a->alone * gs_profile_share(a, a_sms) * (double)ns)};
    gs_beside other = {b, b_sms, (uint64_t)(b->alone * gs_profile_share(b, b_sms) * (double)ns)};
    gs_profile_store_inter_sm(store, &one, &other, ns);
}

/* ---- one and two ---- */

TEST(nothing_to_do_is_fine) {
    plan_scene scene = plan_new_scene();
    gs_decision decision = plan_decide(&scene);
    assert_int_equal(decision.running, 0);
    plan_expect_near(decision.throughput, 0, 0);
    assert_false(decision.is_changed);
    assert_true(decision.look_again_ns == INT64_MAX);
    gs_profile_store_close(scene.store);
}

TEST(a_kernel_alone_has_the_gpu) {
    plan_scene scene = plan_new_scene();
    scene.count = 1;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 500), 0);
    assert_int_equal(plan_decide(&scene).running, 1);
    plan_expect(&scene, 0, GS_DECIDE_WHOLE, SMS); /* the original form, which costs nothing */
    scene.contenders[0].profile = plan_profile(scene.store, 2, 1, 5000);
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS); /* long: so that it can be stopped */
    scene.contenders[0].can_confine = false;
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_WHOLE, SMS);
    scene.contenders[0] = plan_waiting(NULL, 0);
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS); /* it may be long */
    scene.contenders[0].cap = 20;
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, 20);
    gs_profile_store_close(scene.store);
}

/* A launch that would wait for it comes when it is half done, so it must not take long. */
TEST(alone_a_kernel_of_a_time_slice_runs_whole) {
    plan_scene scene = plan_new_scene();
    scene.count = 1;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 9000), 0);
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS); /* others may come soon */
    gs_decide_adapt(&scene.options, scene.contenders, scene.count);
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_WHOLE, SMS);
    scene.contenders[0].profile = plan_profile(scene.store, 2, 1, 11000);
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS);
    gs_profile_store_close(scene.store);
}

TEST(complements_run_together_split_by_their_curves) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 5000), 0); /* bound by its SMs */
    scene.contenders[1] =
        plan_waiting(plan_profile(scene.store, 2, 0.4, 5000), 1); /* bound by memory: 53 SMs are enough */
    gs_decision decision = plan_decide(&scene);
    assert_int_equal(decision.running, 2);
    assert_true(decision.throughput > 1.55);
    assert_int_equal(scene.placements[0].how, GS_DECIDE_CONFINED);
    assert_in_range(scene.placements[1].sms, 48, 56);
    assert_int_equal(scene.placements[0].sms + scene.placements[1].sms, SMS);
    assert_false(scene.placements[0].is_trial); /* the table says so */
    gs_profile_store_close(scene.store);
}

/* It would seem to lose in proportion to its SMs, and any kernel that needs few would seem to gain beside it. */
TEST(a_kernel_without_a_curve_is_not_split) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    gs_profile *fresh = gs_profile_store_get(scene.store, 3, "fresh", 100000);
    gs_profile_ran(fresh, false, 100000, 3000000);
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 0.4, 12000), 0);
    scene.contenders[1] = plan_waiting(fresh, 1);
    scene.options.probes = true;
    scene.options.yield_ns = scene.options.mixed_ns; /* the fresh one could run whole, so it is not probed now */
    assert_int_equal(plan_decide(&scene).running, 1);
    scene.options.probes = false; /* curves are taken as they are */
    assert_int_equal(plan_decide(&scene).running, 2);
    gs_profile_store_close(scene.store);
}

TEST(two_of_a_kind_take_turns) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 5000), 0);
    scene.contenders[1] = plan_waiting(plan_profile(scene.store, 2, 1, 5000), 1);
    gs_decision decision = plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS);
    plan_expect(&scene, 1, GS_DECIDE_WAIT, 0);
    assert_int_equal(decision.look_again_ns, scene.options.slice_ns);
    plan_apply(&scene.contenders[0], &scene.placements[0]);
    scene.contenders[0].running_ns = scene.options.slice_ns - 1; /* its slice is not over */
    scene.contenders[0].served = 1000000;
    scene.contenders[1].waited_ns = scene.options.slice_ns - 1;
    decision = plan_decide(&scene);
    assert_false(decision.is_changed);
    assert_int_equal(decision.look_again_ns, 1);
    scene.contenders[0].running_ns++;
    decision = plan_decide(&scene);
    assert_true(decision.is_changed);
    plan_expect(&scene, 0, GS_DECIDE_WAIT, 0);
    plan_expect(&scene, 1, GS_DECIDE_CONFINED, SMS);
    gs_profile_store_close(scene.store);
}

TEST(short_kernels_run_whole_on_sms_left_free) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    gs_profile *few = gs_profile_store_get(scene.store, 2, "short", 40);
    gs_profile_ran(few, false, few->blocks, 50000);
    gs_profile_rate(few, 20, few->blocks, 50000); /* 20 SMs are enough */
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 50000), 0);
    scene.contenders[0].state = GS_CONTENDER_RUNS;
    scene.contenders[0].how = GS_DECIDE_CONFINED;
    scene.contenders[0].sms = SMS;
    scene.contenders[0].blocks_left = 50000;
    scene.contenders[1] = plan_waiting(few, 1);
    plan_decide(&scene);
    plan_expect(&scene, 1, GS_DECIDE_WHOLE, 20);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS - 20);
    plan_apply_all(&scene);
    assert_false(plan_decide(&scene).is_changed); /* a kernel that runs whole keeps its SMs */
    gs_profile_store_close(scene.store);
}

/* A launch keeps its form while it runs, also if it turns out to be short. */
TEST(a_confined_launch_stays_confined) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 50000), 0);
    scene.contenders[1] = plan_waiting(plan_profile(scene.store, 2, 0.2, 50), 1);
    plan_decide(&scene);
    assert_int_equal(scene.placements[1].how, GS_DECIDE_WHOLE);
    for (size_t i = 0; i < 2; i++) {
        scene.contenders[i].state = GS_CONTENDER_RUNS;
        scene.contenders[i].how = GS_DECIDE_CONFINED;
        scene.contenders[i].sms = i ? 28 : SMS - 28;
    }
    plan_decide(&scene);
    assert_int_not_equal(scene.placements[1].how, GS_DECIDE_WHOLE);
    scene.contenders[0] = scene.contenders[1]; /* alone, too */
    scene.count = 1;
    plan_decide(&scene);
    assert_int_equal(scene.placements[0].how, GS_DECIDE_CONFINED);
    gs_profile_store_close(scene.store);
}

TEST(wholes_queue_without_a_gap) {
    plan_scene scene = plan_new_scene();
    scene.count = 4;
    for (uint32_t i = 0; i < 4; i++)
        scene.contenders[i] = plan_waiting(plan_profile(scene.store, i + 1, 1, 700), i);
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_WHOLE, SMS);
    plan_expect(&scene, 1, GS_DECIDE_WHOLE, SMS);
    plan_expect(&scene, 2, GS_DECIDE_WAIT, 0); /* 2.1 ms would be more than yield_ns */
    scene.contenders[1].profile = plan_profile(scene.store, 9, 1, 9000);
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_WHOLE, SMS);
    for (size_t i = 1; i < 4; i++) /* no kernel overtakes the long one, so it does not starve */
        plan_expect(&scene, i, GS_DECIDE_WAIT, 0);
    gs_profile_store_close(scene.store);
}

/* Whether kernels of these run whole for longer; two of them may then be further apart, too. */
static bool is_patient(const gs_contender *contenders, size_t count) {
    gs_decide_options options = gs_decide_defaults(SMS), usual = options;
    gs_decide_adapt(&options, contenders, count);
    assert_true((options.lead_ns > usual.lead_ns) == (options.yield_ns > usual.yield_ns && count == 2));
    return options.yield_ns > usual.yield_ns;
}

/* Two that always have more to launch, or a long kernel at the end: kernels run whole for longer than if one of them
   waits for each short launch. */
TEST(two_busy_clients_run_whole_for_longer) {
    plan_scene scene = plan_new_scene();
    gs_contender *two = scene.contenders;
    for (uint32_t i = 0; i < 3; i++) {
        two[i] = plan_waiting(plan_profile(scene.store, i + 1, 1, 3000), i);
        two[i].coming[0] = two[i].profile;
    }
    scene.count = 2;
    gs_decide_adapt(&scene.options, two, 2);
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_WHOLE, SMS);
    plan_expect(&scene, 1, GS_DECIDE_WHOLE, SMS);
    assert_true(is_patient(two, 2) && is_patient(two, 1));
    assert_false(is_patient(two, 3));
    const gs_contender before = two[1];
    two[1].coming[0] = NULL;
    assert_true(is_patient(two, 2));
    two[1].profile = plan_profile(scene.store, 4, 1, 1000);
    assert_false(is_patient(two, 2));
    two[1] = before;
    two[1].priority++;
    assert_false(is_patient(two, 2));
    two[1] = before;
    two[1].weight++;
    assert_false(is_patient(two, 2));
    two[1] = before;
    two[1].cap = 10;
    assert_false(is_patient(two, 2));
    gs_profile_store_close(scene.store);
}

TEST(a_higher_priority_goes_first_and_keeps_its_rate) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 50000), 0);
    scene.contenders[0].state = GS_CONTENDER_RUNS;
    scene.contenders[0].how = GS_DECIDE_CONFINED;
    scene.contenders[0].sms = SMS;
    scene.contenders[1] = plan_waiting(plan_profile(scene.store, 2, 1, 5000), 1);
    scene.contenders[1].priority = 1;
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_WAIT, 0);
    plan_expect(&scene, 1, GS_DECIDE_CONFINED, SMS);
    scene.contenders[0].profile = plan_profile(scene.store, 3, 0.3, 50000); /* a third of the SMs is enough for it */
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, 12);
    plan_expect(&scene, 1, GS_DECIDE_CONFINED, 120); /* 0.9 of its rate */
    scene.contenders[1].priority = 0;
    scene.contenders[0].running_ns = scene.options.slice_ns;
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, 52);
    plan_expect(&scene, 1, GS_DECIDE_CONFINED, 80);
    gs_profile_store_close(scene.store);
}

/* A kernel whose rate is taken to grow with its SMs. */
static gs_profile *kernel_without_curve(gs_profile_store *store, uint64_t key, double us) {
    gs_profile *profile = gs_profile_store_get(store, key, "kernel", 100000);
    gs_profile_ran(profile, false, profile->blocks, (uint64_t)(us * 1000));
    return profile;
}

/* A long kernel that runs confined, and a short one of a client that was served less. */
static plan_scene scene_beside_long(int32_t sms, double short_us) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    scene.contenders[0] = plan_waiting(kernel_without_curve(scene.store, 1, 50000), 0);
    scene.contenders[0].state = GS_CONTENDER_RUNS;
    scene.contenders[0].how = GS_DECIDE_CONFINED;
    scene.contenders[0].sms = sms;
    scene.contenders[0].blocks_left = 50000;
    scene.contenders[0].served = 2 * (uint64_t)scene.options.slice_ns * SMS;
    scene.contenders[1] = plan_waiting(kernel_without_curve(scene.store, 2, short_us), 1);
    return scene;
}

/* As the partner of another one a client may get far ahead. It then has no time slice of its own. */
TEST(a_client_that_is_ahead_has_no_turn) {
    plan_scene scene = scene_beside_long(SMS, 5000);
    scene.contenders[0].running_ns = scene.options.slice_ns / 10;
    assert_false(plan_decide(&scene).is_changed);
    scene.contenders[0].lets_pass = true;
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_WAIT, 0);
    plan_expect(&scene, 1, GS_DECIDE_CONFINED, SMS);
    gs_profile_store_close(scene.store);
}

/* Beside short kernels it would have half of the GPU for ever, however many clients have them. */
TEST(a_client_that_is_ahead_does_not_stay_beside_short_kernels) {
    plan_scene scene = scene_beside_long(SMS, 50);
    scene.contenders[0].running_ns = scene.options.slice_ns;
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, 60);
    plan_expect(&scene, 1, GS_DECIDE_WHOLE, 72);
    scene.contenders[0].lets_pass = true;
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_WAIT, 0);
    plan_expect(&scene, 1, GS_DECIDE_WHOLE, SMS);
    gs_profile_store_close(scene.store);
}

/* A resize for a kernel of 5 us beside it does not pay, one for the leader itself does. */
TEST(a_leader_that_is_left_alone_has_the_gpu) {
    plan_scene scene = scene_beside_long(60, 5);
    scene.contenders[0].waited_ns = scene.options.patience_ns; /* so it goes first */
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS);
    plan_expect(&scene, 1, GS_DECIDE_WAIT, 0);
    gs_profile_store_close(scene.store);
}

/* On 4 SMs the last 20 us of a kernel take 0.66 ms. On all they take less, with the resize of 30 us, and the others
 * wait less. */
TEST(the_end_of_a_kernel_does_not_stay_on_few_sms) {
    static const int32_t sms[] = {4, 120};
    for (size_t i = 0; i < GS_COUNT(sms); i++) {
        plan_scene scene = plan_new_scene();
        scene.count = 1;
        scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 5000), 0);
        plan_apply(&scene.contenders[0], &(gs_decided_place){.how = GS_DECIDE_CONFINED, .sms = sms[i]});
        scene.contenders[0].blocks_left = (uint64_t)(scene.contenders[0].profile->alone * 20000);
        plan_decide(&scene);
        plan_expect(&scene, 0, GS_DECIDE_CONFINED, i ? sms[i] : SMS);
        gs_profile_store_close(scene.store);
    }
}

TEST(small_gains_do_not_resize) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 5000), 0);
    scene.contenders[1] = plan_waiting(plan_profile(scene.store, 2, 0.4, 5000), 1);
    plan_decide(&scene);
    plan_apply_all(&scene);
    scene.contenders[0].sms -= 2;
    scene.contenders[1].sms += 2; /* not quite the best */
    assert_false(plan_decide(&scene).is_changed);
    scene.contenders[0].sms -= 30;
    scene.contenders[1].sms += 30;
    assert_true(plan_decide(&scene).is_changed);
    scene.contenders[0].blocks_left = scene.contenders[1].blocks_left = 20; /* both end before the change pays */
    assert_false(plan_decide(&scene).is_changed);
    gs_profile_store_close(scene.store);
}

/* The same beside a kernel that runs whole, whose SMs are not theirs. */
TEST(small_gains_do_not_resize_beside_a_whole) {
    plan_scene scene = plan_new_scene();
    scene.count = 3;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 5000), 0);
    scene.contenders[1] = plan_waiting(plan_profile(scene.store, 2, 0.4, 5000), 1);
    scene.contenders[2] = plan_waiting(plan_profile(scene.store, 3, 0.09, 50), 2);
    scene.contenders[2].state = GS_CONTENDER_RUNS;
    scene.contenders[2].how = GS_DECIDE_WHOLE;
    scene.contenders[2].sms = 12;
    for (size_t i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            measure_undisturbed(scene.store, (gs_profile *)scene.contenders[i].profile, 60,
                                (gs_profile *)scene.contenders[2].profile, 12);
    plan_decide(&scene);
    plan_apply_all(&scene);
    plan_expect(&scene, 2, GS_DECIDE_WHOLE, 12);
    assert_int_equal(scene.placements[0].how, GS_DECIDE_CONFINED);
    assert_int_equal(scene.placements[1].how, GS_DECIDE_CONFINED);
    assert_int_equal(scene.placements[0].sms + scene.placements[1].sms, SMS - 12);
    scene.contenders[0].sms -= 2;
    scene.contenders[1].sms += 2;
    assert_false(plan_decide(&scene).is_changed);
    scene.contenders[0].sms -= 30;
    scene.contenders[1].sms += 30;
    assert_true(plan_decide(&scene).is_changed);
    gs_profile_store_close(scene.store);
}

/* Nothing joins a team beside a whole kernel of which nothing is known, wherever that is in the list. */
TEST(no_team_beside_an_unknown_whole) {
    for (size_t whole = 0; whole < 3; whole++) {
        plan_scene scene = plan_new_scene();
        scene.count = 3;
        for (uint32_t i = 0; i < 3; i++)
            scene.contenders[i] = plan_waiting(plan_profile(scene.store, i + 1, i == 1 ? 1 : 0.4, 5000), i);
        assert_true(plan_decide(&scene).running > 1);
        scene.contenders[whole] = (gs_contender){.state = GS_CONTENDER_RUNS, .how = GS_DECIDE_WHOLE, .sms = 12};
        assert_int_equal(plan_decide(&scene).running, 2);
        plan_expect(&scene, whole, GS_DECIDE_WHOLE, 12);
        gs_profile_store_close(scene.store);
    }
}

/* Two that gain nothing side by side stay as they are as long as both have about their half, and no longer. */
TEST(an_unfair_split_does_not_stay) {
    for (int32_t sms = 10; sms <= 60; sms += 50) {
        plan_scene scene = plan_new_scene();
        scene.count = 2;
        for (uint32_t i = 0; i < 2; i++) {
            scene.contenders[i] = plan_waiting(plan_profile(scene.store, i + 1, 1, 5000), i);
            scene.contenders[i].state = GS_CONTENDER_RUNS;
            scene.contenders[i].how = GS_DECIDE_CONFINED;
            scene.contenders[i].sms = i ? SMS - sms : sms;
        }
        assert_int_equal(plan_decide(&scene).is_changed, sms == 10);
        gs_profile_store_close(scene.store);
    }
}

TEST(sms_are_kept_for_the_next_launch) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 5000), 0);
    scene.contenders[1] = plan_waiting(plan_profile(scene.store, 2, 0.4, 5000), 1);
    plan_decide(&scene);
    plan_apply_all(&scene);
    scene.contenders[1].state = GS_CONTENDER_EXPECTED;
    assert_false(plan_decide(&scene).is_changed);
    scene.count = 1; /* the launch did not come */
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS);
    gs_profile_store_close(scene.store);
}

/* The client of the first was served much less than that of the second, and its next launch is expected. */
TEST(a_short_kernel_does_not_wait_for_an_expected_one) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 50), 0);
    scene.contenders[0].state = GS_CONTENDER_EXPECTED;
    scene.contenders[0].how = GS_DECIDE_WHOLE;
    scene.contenders[0].sms = SMS;
    scene.contenders[1] = plan_waiting(plan_profile(scene.store, 2, 1, 50), 1);
    scene.contenders[1].served = (uint64_t)scene.options.slice_ns * SMS * 2;
    plan_decide(&scene);
    plan_expect(&scene, 1, GS_DECIDE_WHOLE, SMS);
    scene.contenders[0].priority = 1; /* then the GPU stays free */
    plan_decide(&scene);
    plan_expect(&scene, 1, GS_DECIDE_WAIT, 0);
    scene.contenders[0].priority = 0;
    scene.contenders[1].profile = plan_profile(scene.store, 3, 1, 500);
    plan_decide(&scene);
    plan_expect(&scene, 1, GS_DECIDE_WAIT, 0);
    scene.contenders[1].served = 0;
    plan_decide(&scene);
    plan_expect(&scene, 1, GS_DECIDE_WHOLE, SMS);
    gs_profile_store_close(scene.store);
}

/* ---- a launch takes the place of the one before it ---- */

/* A kernel of 5 ms that has its full rate on `enough` SMs and half of it on half of them. */
static gs_profile *kernel_on(gs_profile_store *store, int32_t enough) {
    gs_profile *profile = gs_profile_store_get(store, (uint64_t)enough, "kernel", 100000);
    gs_profile_rate(profile, enough / 2, 1000000u / 2, 50000000);
    gs_profile_rate(profile, enough, 1000000, 50000000);
    gs_profile_rate(profile, SMS, 1000000, 50000000);
    return profile;
}

/* Two side by side. Then the launch of the second ends, and its next one waits, with that place or without. The second
   leads if it is `its_turn`. */
static plan_scene scene_with_next_launch(const int32_t enough[2], int32_t first_sms, bool has_place, bool its_turn) {
    plan_scene scene = plan_new_scene();
    scene.count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        scene.contenders[i] = plan_waiting(kernel_on(scene.store, enough[i]), i);
        scene.contenders[i].state = GS_CONTENDER_RUNS;
        scene.contenders[i].how = GS_DECIDE_CONFINED;
        scene.contenders[i].sms = i == 0 ? first_sms : SMS - first_sms;
        scene.contenders[i].blocks_left = 100000;
    }
    gs_profile *a = (gs_profile *)scene.contenders[0].profile, *b = (gs_profile *)scene.contenders[1].profile;
    for (int i = 0; i < 2; i++) /* no trial */
        measure_undisturbed(scene.store, a, first_sms, b, SMS - first_sms);
    assert_false(plan_decide(&scene).is_changed);
    scene.contenders[0].running_ns = scene.options.slice_ns;
    scene.contenders[its_turn ? 0 : 1].served = 1000000;
    scene.contenders[1].state = GS_CONTENDER_WAITS;
    if (!has_place) {
        scene.contenders[1].how = GS_DECIDE_WAIT;
        scene.contenders[1].sms = 0;
    }
    return scene;
}

/* 80 and 52 SMs would be a little better. That is too little for a change, whichever kernel leads, as while both
   run. */
TEST(a_launch_takes_the_place_of_the_one_before) {
    static const int32_t enough[] = {SMS, 53};
    for (int its_turn = 0; its_turn < 2; its_turn++) {
        plan_scene scene = scene_with_next_launch(enough, 76, true, its_turn);
        assert_true(plan_decide(&scene).is_changed); /* one starts */
        plan_expect(&scene, 0, GS_DECIDE_CONFINED, 76);
        plan_expect(&scene, 1, GS_DECIDE_CONFINED, 56);
        gs_profile_store_close(scene.store);
        scene = scene_with_next_launch(enough, 76, false, its_turn);
        plan_decide(&scene);
        plan_expect(&scene, 0, GS_DECIDE_CONFINED, 80);
        plan_expect(&scene, 1, GS_DECIDE_CONFINED, 52);
        gs_profile_store_close(scene.store);
    }
}

/* The leader gets the larger part, and each launch leads when it arrives. A launch that takes over a place does not. */
TEST(two_of_a_kind_keep_their_sides) {
    static const int32_t enough[] = {80, 80};
    plan_scene scene = scene_with_next_launch(enough, 80, true, true);
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, 80);
    plan_expect(&scene, 1, GS_DECIDE_CONFINED, 52);
    gs_profile_store_close(scene.store);
    scene = scene_with_next_launch(enough, 80, false, true);
    plan_decide(&scene);
    assert_int_equal(scene.placements[0].sms + scene.placements[1].sms, SMS);
    assert_true(scene.placements[1].sms > scene.placements[0].sms); /* sides change */
    gs_profile_store_close(scene.store);
}

/* One with more SMs than the client's cap, or than are left, is not kept. */
TEST(a_place_that_does_not_fit_is_not_taken) {
    static const int32_t enough[] = {SMS, 53};
    plan_scene scene = scene_with_next_launch(enough, 76, true, true);
    scene.contenders[1].cap = 20;
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS - 20);
    plan_expect(&scene, 1, GS_DECIDE_CONFINED, 20);
    scene.contenders[1].cap = 0;
    scene.contenders[0].sms = SMS;
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, 80);
    plan_expect(&scene, 1, GS_DECIDE_CONFINED, 52);
    gs_profile_store_close(scene.store);
}

/* ---- more than two, and the unknown ---- */

TEST(more_than_two_run_where_each_pair_was_measured) {
    plan_scene scene = plan_new_scene();
    scene.count = 4;
    for (uint32_t i = 0; i < 4; i++) {
        gs_profile *few = plan_profile(scene.store, i + 1, 31.0 / SMS, 5000);
        scene.contenders[i] = plan_waiting(few, i);
        for (uint32_t j = 0; j < 2 * i; j++) /* with each of the others, twice */
            measure_undisturbed(scene.store, (gs_profile *)scene.contenders[j / 2].profile, 33, few, 33);
    }
    gs_decision decision = plan_decide(&scene);
    assert_int_equal(decision.running, 4);
    assert_true(decision.throughput > 3.9);
    scene.options.most_together = 2;
    assert_int_equal(plan_decide(&scene).running, 2);
    gs_profile_store_close(scene.store);
}

TEST(an_unknown_kernel_is_probed_alone) {
    plan_scene scene = plan_new_scene();
    scene.options.probes = true;
    scene.count = 1;
    gs_profile *profile = gs_profile_store_get(scene.store, 1, "new", 100000);
    scene.contenders[0] = plan_waiting(profile, 0);
    plan_decide(&scene);
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, SMS);
    int probes = 0;
    for (; probes < 50; probes++) {
        gs_profile_rate(profile, scene.placements[0].sms,
                        (uint64_t)(1e5 * plan_true_share(0.5, scene.placements[0].sms)), 1000000);
        plan_decide(&scene);
        if (!scene.placements[0].is_probe)
            break;
    }
    assert_in_range(probes, 2, 40);
    assert_int_equal(gs_profile_memory(profile), GS_LEVEL_HIGH);
    gs_profile_store_close(scene.store);
}

/* A known kernel runs beside one without a profile, and another known one waits. */
static plan_scene scene_with_unknown(enum gs_decide_how how) {
    plan_scene scene = plan_new_scene();
    scene.count = 3;
    scene.contenders[0] = plan_waiting(plan_profile(scene.store, 1, 1, 5000), 0);
    scene.contenders[1] = plan_waiting(NULL, 1);
    scene.contenders[2] = plan_waiting(plan_profile(scene.store, 2, 0.4, 5000), 2);
    for (size_t i = 0; i < 2; i++) {
        scene.contenders[i].state = GS_CONTENDER_RUNS;
        scene.contenders[i].how = i == 1 ? how : GS_DECIDE_CONFINED;
        scene.contenders[i].sms = 66;
    }
    plan_decide(&scene);
    return scene;
}

TEST(a_kernel_without_a_profile_gets_no_partner) {
    plan_scene scene = scene_with_unknown(GS_DECIDE_CONFINED); /* it can be stopped */
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, 80);
    plan_expect(&scene, 1, GS_DECIDE_WAIT, 0);
    plan_expect(&scene, 2, GS_DECIDE_CONFINED, 52);
    gs_profile_store_close(scene.store);
    scene = scene_with_unknown(GS_DECIDE_WHOLE); /* it cannot be stopped, and no other kernel joins */
    plan_expect(&scene, 0, GS_DECIDE_CONFINED, 66);
    plan_expect(&scene, 1, GS_DECIDE_WHOLE, 66);
    plan_expect(&scene, 2, GS_DECIDE_WAIT, 0);
    gs_profile_store_close(scene.store);
}

TEST_MAIN(NULL, NULL)
