/*
 * test_decisions_random.c: decisions for random contenders: compared with trying everything, and followed from one to
 * the next.
 *
 * GRIDSMITH_RUNS is how many random cases are played, GRIDSMITH_SEED where they start.
 */
#include "decide_support.h"

#include <math.h>

enum { CROWD = 12, KERNELS = 10 };

struct crowd {
    gs_profile_store *store;
    gs_decide_options options;
    gs_profile *kernels[KERNELS];
    gs_contender contenders[CROWD];
    gs_decided_place placements[CROWD];
    size_t count;
};

static void make_kernels(struct crowd *crowd, gs_random *random) {
    for (size_t i = 0; i < KERNELS; i++) {
        double us = pow(10, plan_random(random, 1, 5));
        double end = gs_random_chance(random, 40) ? plan_random(random, 0.1, 0.4) : plan_random(random, 0.1, 1.3);
        crowd->kernels[i] = plan_profile(crowd->store, i + 1, end, us);
    }
    for (int i = 0; i < 200; i++) {
        gs_profile *a = crowd->kernels[gs_random_from(random, 0, KERNELS - 1)];
        gs_profile *b = crowd->kernels[gs_random_from(random, 0, KERNELS - 1)];
        int32_t sms = (int32_t)gs_random_from(random, 1, SMS - 1);
        double ns = 1e6, of_a = a->alone * gs_profile_share(a, sms), of_b = b->alone * gs_profile_share(b, SMS - sms);
        for (int64_t j = gs_random_from(random, 1, 8); j > 0; j--) {
            gs_profile_store_inter_sm(
                crowd->store, &(gs_beside){a, sms, (uint64_t)(1 + of_a * ns * plan_random(random, 0.3, 1.1))},
                &(gs_beside){b, SMS - sms, (uint64_t)(1 + of_b * ns * plan_random(random, 0.3, 1.1))}, (uint64_t)ns);
            for (int64_t k = gs_random_from(random, 0, 2); k > 0; k--)
                gs_profile_store_serial(
                    crowd->store, &(gs_beside){a, 0, (uint64_t)(a->alone * ns / 2 + 1)},
                    &(gs_beside){b, 0, (uint64_t)(b->alone * ns * plan_random(random, 0.4, 0.6) + 1)}, (uint64_t)ns);
        }
    }
}

static void make_crowd(struct crowd *crowd, gs_random *random, size_t most, bool is_plain) {
    crowd->options = gs_decide_defaults(SMS);
    if (gs_random_chance(random, 50)) {
        crowd->options.priority_floor = plan_random(random, 0.6, 0.95);
        crowd->options.fair_slack = plan_random(random, 0, 0.3);
        crowd->options.least_gain = plan_random(random, 0, 0.1);
        crowd->options.trials = (double)gs_random_from(random, 1, 4);
    }
    crowd->options.probes = !is_plain && gs_random_chance(random, 50);
    crowd->options.granularity = (int32_t)gs_random_from(random, 4, 11);
    crowd->options.most_together = (int32_t)gs_random_from(random, 1, 4);
    crowd->count = (size_t)gs_random_from(random, 1, (int64_t)most);
    for (size_t i = 0; i < crowd->count; i++) {
        gs_contender *contender = &crowd->contenders[i];
        *contender = plan_waiting(crowd->kernels[gs_random_from(random, 0, KERNELS - 1)],
                                  (uint32_t)gs_random_from(random, 0, 5));
        if (!is_plain && gs_random_chance(random, 10))
            contender->profile = NULL;
        contender->arrival = i;
        contender->priority = gs_random_chance(random, 70) ? 0 : (int32_t)gs_random_from(random, -2, 2);
        contender->weight = (uint32_t)gs_random_from(random, 0, 4);
        contender->cap = 0;
        contender->blocks_left = (uint64_t)gs_random_from(random, 0, 100000);
        contender->can_confine = gs_random_chance(random, 90);
        contender->waited_ns = gs_random_from(random, 0, 300000000);
        contender->served = (uint64_t)gs_random_from(random, 0, 4) * 1000000;
    }
    for (size_t i = 0; i < crowd->count; i++) /* a cap is a client's */
        for (size_t j = 0; j < crowd->count; j++)
            if (crowd->contenders[j].client == i % 6 && i % 6 < 2)
                crowd->contenders[j].cap = (int32_t)(i % 6 == 0 ? 40 : 90);
}

/* With nothing running, the answer must be the optimum: for pairs over all partners and all splits, for more members
   over all splits. Returns how many split the SMs; 0: they run whole. */
static size_t expect_best(struct crowd *crowd) {
    literal_query query = {&crowd->options, crowd->store, crowd->contenders, crowd->count};
    gs_decision decision =
        plan_decide_exactly(&crowd->options, crowd->store, crowd->contenders, crowd->count, crowd->placements);
    size_t leader = literal_leader(&query), members[CROWD] = {leader}, count = 1;
    bool is_split = false;
    assert_int_not_equal(crowd->placements[leader].how, GS_DECIDE_WAIT);
    for (size_t i = 0; i < crowd->count; i++) {
        is_split |= crowd->placements[i].how == GS_DECIDE_CONFINED;
        if (i != leader && crowd->placements[i].how != GS_DECIDE_WAIT)
            members[count++] = i;
    }
    double pair = literal_pair(&query, leader);
    if (crowd->options.most_together == 2)
        plan_expect_near(decision.throughput, pair, 1e-9);
    if (crowd->options.most_together > 2)
        assert_true(decision.throughput >= pair - 1e-9);
    if (is_split && count > 1)
        plan_expect_near(decision.throughput, literal_split(&query, members, count), 1e-9);
    return is_split ? count : 0;
}

TEST(decisions_are_the_best_there_are) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 4);
    size_t seen[5] = {0};
    for (int round = 0; round < plan_rounds(200); round++) {
        struct crowd crowd = {.store = plan_store()};
        make_kernels(&crowd, &random);
        for (int i = 0; i < 10; i++) {
            make_crowd(&crowd, &random, 6, true);
            if (crowd.options.most_together > 3)
                crowd.options.granularity = 11;
            seen[gs_min_u64(expect_best(&crowd), 4)]++;
        }
        gs_profile_store_close(crowd.store);
    }
    print_message("of the answers %zu are whole, %zu alone, %zu pairs, %zu threes, %zu fours\n", seen[0], seen[1],
                  seen[2], seen[3], seen[4]);
    assert_true(seen[1] > 0 && seen[2] > 0 && (seen[3] > 0 || plan_rounds(200) < 200));
}

static void describe(const struct crowd *crowd) {
    for (size_t i = 0; i < crowd->count; i++) {
        const gs_contender *contender = &crowd->contenders[i];
        const gs_decided_place *placement = &crowd->placements[i];
        print_message(
            "%zu: client %u, state %d, priority %d, weight %u, cap %d, confine %d, waited %lld ms, served %llu,"
            " %llu us, %d on %d -> %d on %d\n",
            i, contender->client, contender->state, contender->priority, contender->weight, contender->cap,
            contender->can_confine, (long long)contender->waited_ns / 1000000, (unsigned long long)contender->served,
            (unsigned long long)(contender->profile ? gs_profile_duration_ns(contender->profile) / 1000 : 0),
            contender->how, contender->sms, placement->how, placement->sms);
    }
}

/* Decisions are made again when the first patience or time slice ends, if something waits for it, and after a
   measurement. */
static int64_t literal_look_again(const struct crowd *crowd) {
    int64_t first = INT64_MAX;
    bool waits = false;
    for (size_t i = 0; i < crowd->count; i++) {
        bool is_waiting = crowd->placements[i].how == GS_DECIDE_WAIT;
        int64_t time = is_waiting ? crowd->options.patience_ns : crowd->options.slice_ns;
        int64_t spent = is_waiting ? crowd->contenders[i].waited_ns : crowd->contenders[i].running_ns;
        waits |= is_waiting && crowd->contenders[i].state != GS_CONTENDER_EXPECTED;
        first = gs_min(first, (spent / time + 1) * time - spent);
    }
    first = waits ? first : INT64_MAX;
    for (size_t i = 0; i < crowd->count; i++)
        if (crowd->placements[i].is_probe || crowd->placements[i].is_trial)
            first = gs_min(first, crowd->placements[i].workers > 0 ? crowd->options.trial_ns * 5 / 4 : 5000000);
    return first;
}

/* Whether something starts, stops or changes its SMs. */
static bool literal_is_changed(const struct crowd *crowd) {
    bool is_changed = false;
    for (size_t i = 0; i < crowd->count; i++) {
        const gs_contender *contender = &crowd->contenders[i];
        const gs_decided_place *placement = &crowd->placements[i];
        bool ran = contender->state != GS_CONTENDER_WAITS && contender->how != GS_DECIDE_WAIT;
        bool runs = placement->how != GS_DECIDE_WAIT;
        is_changed |= ran != runs || (runs && (placement->how != contender->how || placement->sms != contender->sms));
    }
    return is_changed;
}

static void expect_sound(const struct crowd *crowd, const gs_decision *decision) {
    int32_t sum = 0, by_client[6] = {0};
    size_t running = 0;
    bool any_present = false;
    for (size_t i = 0; i < crowd->count; i++) {
        const gs_contender *contender = &crowd->contenders[i];
        const gs_decided_place *placement = &crowd->placements[i];
        any_present |= contender->state != GS_CONTENDER_EXPECTED;
        running += placement->how != GS_DECIDE_WAIT;
        if (placement->how == GS_DECIDE_CONFINED) {
            assert_true(contender->can_confine || contender->how == GS_DECIDE_CONFINED);
            assert_in_range(placement->sms, 1, SMS);
            sum += placement->sms;
            by_client[contender->client] += placement->sms;
            assert_true(contender->cap == 0 || by_client[contender->client] <= contender->cap);
        }
        if (contender->state == GS_CONTENDER_RUNS && contender->how == GS_DECIDE_WHOLE)
            assert_int_equal(placement->how, GS_DECIDE_WHOLE); /* it cannot be stopped */
        if (placement->how == GS_DECIDE_WHOLE && contender->state == GS_CONTENDER_RUNS)
            assert_int_not_equal(contender->how, GS_DECIDE_CONFINED);
    }
    int32_t reserved = 0;
    for (size_t i = 0; i < crowd->count; i++) /* of wholes: all SMs, unless a kernel is confined */
        if (crowd->placements[i].how == GS_DECIDE_WHOLE) {
            assert_true(sum > 0 || crowd->placements[i].sms == SMS);
            reserved += crowd->placements[i].sms;
        }
    assert_true(sum <= SMS && (sum == 0 || sum + reserved <= SMS));
    assert_int_equal(running, decision->running);
    assert_true(!any_present || running > 0);
    assert_int_equal(decision->look_again_ns, literal_look_again(crowd));
    assert_int_equal(decision->is_changed, literal_is_changed(crowd));
}

static void apply_all(struct crowd *crowd) {
    for (size_t i = 0; i < crowd->count; i++) {
        bool is_expected = crowd->contenders[i].state == GS_CONTENDER_EXPECTED;
        plan_apply(&crowd->contenders[i], &crowd->placements[i]);
        if (is_expected)
            crowd->contenders[i].state = GS_CONTENDER_EXPECTED;
        crowd->contenders[i].running_ns = 0;
    }
}

/* Decides until nothing changes, which must be soon: each change has to be a gain. Returns the number of decisions. */
static int settle(struct crowd *crowd) {
    for (int times = 1; times < 5; times++) {
        gs_decision decision =
            plan_decide_exactly(&crowd->options, crowd->store, crowd->contenders, crowd->count, crowd->placements);
        expect_sound(crowd, &decision);
        bool is_same = true;
        for (size_t i = 0; i < crowd->count; i++)
            is_same &=
                crowd->contenders[i].how == crowd->placements[i].how &&
                (crowd->contenders[i].how == GS_DECIDE_WAIT || crowd->contenders[i].sms == crowd->placements[i].sms);
        assert_true(is_same || decision.is_changed);
        apply_all(crowd);
        if (is_same)
            return times;
    }
    describe(crowd);
    fail_msg("does not settle");
    return 0;
}

/* A kernel of a random contender ends, or it is replaced by another one. Where it ended, the next launch is expected,
   or has come and takes its place. */
static void change_one(struct crowd *crowd, gs_random *random) {
    gs_contender *contender = &crowd->contenders[gs_random_from(random, 0, (int64_t)crowd->count - 1)];
    bool was_running = contender->state == GS_CONTENDER_RUNS, was_confined = contender->how == GS_DECIDE_CONFINED;
    contender->waited_ns = gs_random_from(random, 0, 300000000);
    if (was_running && was_confined && gs_random_chance(random, 30)) {
        contender->state = GS_CONTENDER_WAITS;
        return;
    }
    contender->profile = crowd->kernels[gs_random_from(random, 0, KERNELS - 1)];
    contender->state = was_running && gs_random_chance(random, 40) ? GS_CONTENDER_EXPECTED : GS_CONTENDER_WAITS;
    if (contender->state == GS_CONTENDER_WAITS) {
        contender->how = GS_DECIDE_WAIT;
        contender->sms = 0;
    }
}

/* Contenders arrive, leave, run and wait at random: caps hold, each SM is assigned once, something runs, and decisions
   stop changing when nothing else changes. */
TEST(decisions_are_sound_and_stable) {
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 5);
    int times[5] = {0};
    for (int round = 0; round < plan_rounds(400); round++) {
        struct crowd crowd = {.store = plan_store()};
        make_kernels(&crowd, &random);
        make_crowd(&crowd, &random, CROWD, false);
        for (int step = 0; step < 30; step++) {
            times[settle(&crowd)]++;
            change_one(&crowd, &random);
            crowd.contenders[gs_random_from(&random, 0, (int64_t)crowd.count - 1)].running_ns = 20000000;
        }
        gs_profile_store_close(crowd.store);
    }
    print_message("decisions settled at once %d times, after one change %d, two %d, three %d\n", times[1], times[2],
                  times[3], times[4]);
}

/* With any numbers, the decider does not crash, and assigns no more SMs than there are. */
TEST(odd_numbers_do_no_harm) {
    static const int64_t odd[] = {INT32_MIN, -1, 0, 1, 2, 3, 131, 132, 133, 1000, INT32_MAX};
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 7);
    struct crowd crowd = {.store = plan_store()};
    make_kernels(&crowd, &random);
#define ODD odd[gs_random_from(&random, 0, GS_COUNT(odd) - 1)]
    for (int round = 0; round < plan_rounds(20000); round++) {
        make_crowd(&crowd, &random, CROWD, false);
        gs_decide_options *options = &crowd.options;
        options->granularity = (int32_t)ODD;
        options->most_together = (int32_t)ODD;
        if (gs_random_chance(&random, 20))
            options->sms = (int32_t)gs_random_from(&random, -1, 1024);
        options->short_ns = ODD;
        options->yield_ns = ODD;
        options->slice_ns = ODD;
        options->patience_ns = ODD;
        options->resize_ns = ODD;
        for (size_t i = 0; i < crowd.count; i++) {
            gs_contender *contender = &crowd.contenders[i];
            contender->state = (enum gs_contender_state)gs_random_from(&random, 0, 2);
            contender->how = (enum gs_decide_how)gs_random_from(&random, 0, 2);
            contender->sms = (int32_t)ODD;
            contender->cap = (int32_t)ODD;
            contender->priority = (int32_t)ODD;
            contender->waited_ns = ODD;
            contender->running_ns = ODD;
            contender->served = gs_random_next(&random);
        }
        plan_decide_exactly(options, crowd.store, crowd.contenders, crowd.count, crowd.placements);
        int64_t given = 0;
        for (size_t i = 0; i < crowd.count; i++)
            if (crowd.contenders[i].state == GS_CONTENDER_WAITS && crowd.placements[i].how == GS_DECIDE_CONFINED)
                given += crowd.placements[i].sms;
        assert_true(given <= gs_max(options->sms, 0));
    }
#undef ODD
    gs_profile_store_close(crowd.store);
}

/* SMs are kept for a kernel that is expected, and one that waits does not get them, if the client of the first had less
   than the other, per weight, by more than a time slice of the other. */
TEST(sms_are_kept_for_who_had_much_less) {
    size_t kept = 0, rounds = (size_t)plan_rounds(20000);
    for (size_t round = 0; round < rounds; round++) {
        gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 35), round);
        plan_scene scene = plan_new_scene();
        double slice = (double)scene.options.slice_ns * SMS;
        for (uint32_t i = 0; i < 2; i++) {
            scene.contenders[i] = plan_waiting(plan_profile(scene.store, i + 1, 1, 5000), i);
            scene.contenders[i].weight = (uint32_t)gs_random_from(&random, 1, 4);
            scene.contenders[i].served = (uint64_t)(slice * plan_random(&random, 0, 3));
        }
        scene.count = 2;
        gs_contender *expected = &scene.contenders[0], *other = &scene.contenders[1];
        expected->state = GS_CONTENDER_EXPECTED;
        expected->how = GS_DECIDE_CONFINED;
        expected->sms = SMS;
        double behind = (double)other->served / other->weight - (double)expected->served / expected->weight;
        bool is_kept = behind > slice / other->weight;
        plan_decide(&scene);
        if ((scene.placements[1].how == GS_DECIDE_WAIT) != is_kept)
            fail_msg("round %zu: %llu / %u and %llu / %u: how is %d", round, (unsigned long long)expected->served,
                     expected->weight, (unsigned long long)other->served, other->weight, scene.placements[1].how);
        kept += is_kept;
        gs_profile_store_close(scene.store);
    }
    assert_true(rounds < 100 || (kept > rounds / 10 && kept < rounds * 9 / 10));
}

TEST_MAIN(NULL, NULL)
