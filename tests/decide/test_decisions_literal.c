/*
 * test_decisions_literal.c: gs_decide against the same decision written out (literal_teams.c): every placement, for
 * random contenders in random states, and for what follows from one decision to the next.
 *
 * GRIDSMITH_RUNS is how many random cases are played, GRIDSMITH_SEED where they start. With the usual seed, what is not
 * written out there is as before, too: when to decide again, and whether something changes
 * (tests/decide/decisions.txt).
 */
#include "answers.h"
#include "decide_support.h"

#include <math.h>

enum { KERNELS = 9, STEPS = 8 };

struct crowd {
    gs_profile_store *store;
    gs_decide_options options;
    gs_profile *kernels[KERNELS];
    gs_planned_pair pairs[4];
    gs_planned planned;
    gs_contender contenders[GS_LITERAL_CROWD];
    size_t count;
    uint64_t hash; /* of all decisions */
};

/* What a random crowd shows; each must occur. */
enum seen { WHOLE, QUEUED, CONFINED, PAIR, MORE, INSIDE, TRIAL, PROBE, KEPT, CHANGED, SEEN };

/* ---- kernels and what was measured of them ---- */

static const char *const names[KERNELS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};

/* The last was never run, and the one before it never whole. The first four often need all SMs, so that they rather
   share them than split them. `are_small`: all others need few SMs. */
static void make_kernels(struct crowd *crowd, gs_random *random, bool are_small) {
    for (size_t i = 0; i < KERNELS; i++) {
        double end = gs_random_chance(random, 40) ? plan_random(random, 0.1, 0.4) : plan_random(random, 0.1, 1.3);
        double us = pow(10, plan_random(random, 1.5, 5));
        if (i < 4 && gs_random_chance(random, 60)) {
            end = plan_random(random, 0.9, 1.3);
            us = plan_random(random, 1000, 20000);
        }
        if (are_small) {
            end = plan_random(random, 0.1, 0.4);
            us = plan_random(random, 2000, 20000);
        }
        if (i + 2 < KERNELS && (are_small || gs_random_chance(random, 70))) {
            crowd->kernels[i] = plan_profile(crowd->store, i + 1, end, us);
        } else {
            crowd->kernels[i] = gs_profile_store_get(crowd->store, i + 1, names[i], 4096);
            for (int64_t j = i + 1 < KERNELS ? gs_random_from(random, 1, 5) : 0; j > 0; j--) {
                int32_t sms = (int32_t)gs_random_from(random, 1, SMS); /* drawn in this order by all compilers */
                uint64_t blocks = (uint64_t)gs_random_from(random, 1, 100000);
                gs_profile_rate(crowd->kernels[i], sms, blocks, (uint64_t)(us * 1000));
            }
        }
        snprintf(crowd->kernels[i]->name, sizeof crowd->kernels[i]->name, "%s", names[i]);
        crowd->kernels[i]->worker = gs_shape_of(128, (int32_t)gs_random_from(random, 16, 64), 0);
    }
}

/* `kind`: 0: in sequence; 1: side by side; 2: on the same SMs. */
static void measure(struct crowd *crowd, gs_random *random, gs_profile *a, gs_profile *b, int64_t kind) {
    int32_t sms = (int32_t)gs_random_from(random, 1, SMS - 1);
    int32_t workers[2] = {(int32_t)gs_random_from(random, 1, 4), (int32_t)gs_random_from(random, 1, 4)};
    double ns = pow(10, plan_random(random, 6, 10)), factor = plan_random(random, 0.3, 1.3);
    bool is_apart = kind == 1;
    double of_a = a->alone * (is_apart ? gs_profile_share(a, sms) : plan_random(random, 0.4, 0.7));
    double of_b = b->alone * (is_apart ? gs_profile_share(b, SMS - sms) : plan_random(random, 0.4, 0.7));
    gs_beside first = {a, sms, (uint64_t)(1 + of_a * ns * factor)};
    gs_beside second = {b, SMS - sms, (uint64_t)(1 + of_b * ns * factor)};
    for (int64_t i = gs_random_from(random, 1, 6); i > 0; i--) {
        if (kind == 0)
            gs_profile_store_serial(crowd->store, &first, &second, (uint64_t)ns);
        else if (is_apart)
            gs_profile_store_inter_sm(crowd->store, &first, &second, (uint64_t)ns);
        else
            gs_profile_store_intra_sm(crowd->store, &first, &second, workers, (uint64_t)ns);
    }
}

static void measure_pair(struct crowd *crowd, gs_random *random) {
    gs_profile *a = crowd->kernels[gs_random_from(random, 0, KERNELS - 2)];
    gs_profile *b = crowd->kernels[gs_random_from(random, 0, KERNELS - 2)];
    measure(crowd, random, a, b, gs_random_from(random, 0, 2));
}

/* Every pair of kernels that were run whole, side by side: any of them may run together. */
static void measure_all(struct crowd *crowd, gs_random *random) {
    for (size_t i = 0; i + 2 < KERNELS; i++)
        for (size_t j = 0; j < i; j++)
            for (int times = 0; times < 2; times++)
                measure(crowd, random, crowd->kernels[i], crowd->kernels[j], 1);
}

/* The kernels of the pairs of a plan: each has two to choose from. */
static const size_t in_plan[4][2] = {{0, 1}, {2, 3}, {0, 2}, {1, 3}};

static void make_plan(struct crowd *crowd, gs_random *random) {
    crowd->planned = (gs_planned){.data = crowd->pairs, .count = GS_COUNT(crowd->pairs)};
    for (size_t i = 0; i < GS_COUNT(crowd->pairs); i++) {
        gs_planned_pair *pair = &crowd->pairs[i];
        const char *one = names[in_plan[i][0]], *other = names[in_plan[i][1]];
        *pair =
            (gs_planned_pair){.shares = {plan_random(random, 0.4, 0.9), plan_random(random, 0.4, 0.9)},
                              .after = {plan_random(random, 0.8, 1), plan_random(random, 0.8, 1)},
                              .workers = {(int32_t)gs_random_from(random, 0, 3), (int32_t)gs_random_from(random, 1, 2)},
                              .first_sms = (int32_t)gs_random_from(random, 0, SMS),
                              .key = gs_hash(gs_hash(0, one, strlen(one)), other, strlen(other))};
        pair->first_sms = pair->workers[0] > 0 ? 0 : pair->first_sms;
        pair->workers[1] = pair->workers[0] > 0 ? pair->workers[1] : 0;
        snprintf(pair->names[0], sizeof pair->names[0], "%s", one);
        snprintf(pair->names[1], sizeof pair->names[1], "%s", other);
    }
}

static void make_options(struct crowd *crowd, gs_random *random) {
    static const int32_t units[] = {4, 6, 11, 16, 22, 33};
    gs_decide_options *options = &crowd->options;
    *options = gs_decide_defaults(SMS);
    options->granularity = units[gs_random_from(random, 0, GS_COUNT(units) - 1)];
    options->most_together = (int32_t)gs_random_from(random, options->granularity < 22 ? -1 : 1,
                                                     options->granularity < 11   ? 3
                                                     : options->granularity < 22 ? 4
                                                                                 : 9);
    options->probes = gs_random_chance(random, 30);
    options->tries_intra_sm = gs_random_chance(random, 50);
    options->planned = gs_random_chance(random, 50) ? &crowd->planned : NULL;
    if (gs_random_chance(random, 50)) {
        options->sms = gs_random_chance(random, 10) ? (int32_t)gs_random_from(random, 0, SMS) : SMS;
        options->priority_floor = plan_random(random, 0.4, 0.95);
        options->fair_slack = plan_random(random, 0, 0.5);
        options->least_gain = plan_random(random, 0, 0.1);
        options->trials = (double)gs_random_from(random, 0, 4);
        options->resize_ns = gs_random_from(random, 0, 10000000);
        options->slice_ns = gs_random_from(random, 0, 20000000);
        options->patience_ns = gs_random_chance(random, 10) ? 0 : gs_random_from(random, 1, 200000000);
    }
}

/* ---- contenders ---- */

/* What the launch takes or leaves: nothing, a part of the SMs, or all. */
static void draw_state(const struct crowd *crowd, gs_contender *contender, gs_random *random) {
    contender->state = (enum gs_contender_state)gs_random_from(random, 0, 2);
    contender->how = (enum gs_decide_how)gs_random_from(random, 0, 2);
    contender->sms = (int32_t)gs_random_from(random, 1, 6) * crowd->options.granularity;
    contender->workers = gs_random_chance(random, 30) ? (int32_t)gs_random_from(random, 0, 3) : 0;
    if (gs_random_chance(random, 30))
        contender->sms = crowd->options.sms;
    if (gs_random_chance(random, 5))
        contender->sms = (int32_t)gs_random_from(random, -1, 2 * SMS);
    if (contender->how == GS_DECIDE_WAIT || (contender->state == GS_CONTENDER_WAITS && gs_random_chance(random, 50))) {
        contender->how = GS_DECIDE_WAIT;
        contender->sms = 0;
    }
}

static void draw_coming(const struct crowd *crowd, gs_contender *contender, gs_random *random) {
    memset(contender->coming, 0, sizeof contender->coming);
    for (int64_t k = gs_random_from(random, -2, GS_DECIDE_COMING); k > 0; k--)
        contender->coming[k - 1] = crowd->kernels[gs_random_from(random, 0, 4)];
}

static void draw_contender(const struct crowd *crowd, size_t i, gs_contender *contender, gs_random *random) {
    uint64_t slice = (uint64_t)crowd->options.slice_ns * SMS;
    size_t kernel = gs_random_chance(random, 60) ? i % 4 : (size_t)gs_random_from(random, 0, KERNELS - 1);
    *contender = plan_waiting(crowd->kernels[kernel], (uint32_t)(i % 7));
    if (gs_random_chance(random, 5))
        contender->profile = NULL;
    contender->arrival = i;
    contender->stream = i + 1;
    draw_coming(crowd, contender, random);
    contender->priority = gs_random_chance(random, 80) ? 0 : (int32_t)gs_random_from(random, -2, 2);
    contender->weight = (uint32_t)gs_random_from(random, 0, 4);
    contender->cap = i % 7 == 3 ? 40 : i % 7 == 5 ? 90 : i % 7 == 6 ? -1 : 0;
    contender->blocks_left = gs_random_chance(random, 30) ? 0 : (uint64_t)gs_random_from(random, 1, 100000);
    contender->can_confine = gs_random_chance(random, 85);
    contender->can_share = contender->can_confine && gs_random_chance(random, 90);
    contender->waited_ns = gs_random_chance(random, 60) ? 0 : gs_random_from(random, -1000, 300000000);
    contender->running_ns = gs_random_chance(random, 50) ? 0 : gs_random_from(random, 0, 30000000);
    contender->served = (uint64_t)gs_random_from(random, 0, 6) * (slice / 4);
    contender->lets_pass = gs_random_chance(random, 30);
}

/* Two kernels of the plan that may share all SMs, and often do already. */
static void make_two(struct crowd *crowd, gs_random *random) {
    size_t pair = (size_t)gs_random_from(random, 0, GS_COUNT(crowd->pairs) - 1);
    bool is_running = gs_random_chance(random, 70);
    crowd->options.planned = &crowd->planned;
    crowd->options.sms = SMS;
    crowd->count = 2;
    for (size_t i = 0; i < 2; i++) {
        gs_contender *contender = &crowd->contenders[i];
        draw_contender(crowd, i, contender, random);
        contender->profile = crowd->kernels[in_plan[pair][i]];
        contender->priority = 0;
        contender->can_confine = contender->can_share = true;
        if (!is_running)
            continue;
        contender->state = GS_CONTENDER_RUNS;
        contender->how = GS_DECIDE_CONFINED;
        contender->sms = SMS;
        contender->workers = crowd->pairs[pair].workers[i];
    }
}

/* More kernels that may run together than there is room for. */
static void make_many(struct crowd *crowd, gs_random *random) {
    size_t first = (size_t)gs_random_from(random, 0, KERNELS - 3);
    crowd->options.sms = SMS;
    crowd->options.most_together = (int32_t)gs_random_from(random, 3, 4);
    crowd->options.granularity = gs_random_chance(random, 50) ? 11 : 16;
    crowd->count = (size_t)gs_random_from(random, 4, 6);
    for (size_t i = 0; i < crowd->count; i++) {
        gs_contender *contender = &crowd->contenders[i];
        draw_contender(crowd, i, contender, random);
        contender->profile = crowd->kernels[(first + i) % (KERNELS - 2)];
        contender->priority = 0;
        contender->cap = 0;
        contender->can_confine = true;
    }
}

static void make_crowd(struct crowd *crowd, gs_random *random, bool are_small) {
    make_options(crowd, random);
    make_plan(crowd, random);
    if (are_small && gs_random_chance(random, 60)) {
        make_many(crowd, random);
        return;
    }
    if (gs_random_chance(random, 30)) {
        make_two(crowd, random);
        return;
    }
    int64_t most = gs_random_chance(random, 5) ? GS_LITERAL_CROWD : gs_random_chance(random, 50) ? 2 : 6;
    crowd->count = (size_t)gs_random_from(random, gs_random_chance(random, 2) ? 0 : 1, most);
    bool is_running = gs_random_chance(random, 50);
    for (size_t i = 0; i < crowd->count; i++) {
        draw_contender(crowd, i, &crowd->contenders[i], random);
        if (is_running && gs_random_chance(random, 70))
            draw_state(crowd, &crowd->contenders[i], random);
    }
}

/* ---- the comparison ---- */

static void describe(const struct crowd *crowd, const gs_decided_place *decided, const gs_decided_place *wanted) {
    for (size_t i = 0; i < crowd->count; i++) {
        const gs_contender *c = &crowd->contenders[i];
        print_message("%zu: %s, state %d, how %d, sms %d, workers %d, priority %d, weight %u, cap %d, waited %lld, "
                      "running %lld, served %llu -> how %d, sms %d, workers %d, trial %d; expected %d, %d, %d, %d\n",
                      i, c->profile ? c->profile->name : "?", c->state, c->how, c->sms, c->workers, c->priority,
                      c->weight, c->cap, (long long)c->waited_ns, (long long)c->running_ns,
                      (unsigned long long)c->served, decided[i].how, decided[i].sms, decided[i].workers,
                      decided[i].is_trial, wanted[i].how, wanted[i].sms, wanted[i].workers, wanted[i].is_trial);
    }
}

static bool is_same(const gs_decided_place *a, const gs_decided_place *b) {
    return a->how == b->how && a->sms == b->sms && a->workers == b->workers && a->is_probe == b->is_probe &&
           a->is_trial == b->is_trial && a->turn == b->turn;
}

static void count_seen(const struct crowd *crowd, const gs_decided_place *places, bool is_changed, size_t *seen) {
    size_t wholes = 0, confined = 0;
    for (size_t i = 0; i < crowd->count; i++) {
        wholes += places[i].how == GS_DECIDE_WHOLE;
        confined += places[i].how == GS_DECIDE_CONFINED;
        seen[INSIDE] += places[i].workers > 0;
        seen[TRIAL] += places[i].is_trial;
        seen[PROBE] += places[i].is_probe;
    }
    seen[WHOLE] += wholes == 1 && confined == 0;
    seen[QUEUED] += wholes > 1 && confined == 0;
    seen[CONFINED] += confined == 1 && wholes == 0;
    seen[PAIR] += confined > 0 && confined + wholes == 2;
    seen[MORE] += confined > 0 && confined + wholes > 2;
    seen[is_changed ? CHANGED : KEPT]++;
}

static void expect_literal(struct crowd *crowd, gs_decided_place *places, size_t *seen) {
    literal_query query = {&crowd->options, crowd->store, crowd->contenders, crowd->count};
    gs_decided_place wanted[GS_LITERAL_CROWD];
    double throughput = literal_decide(&query, wanted);
    gs_decision decision = plan_decide_exactly(&crowd->options, crowd->store, crowd->contenders, crowd->count, places);
    for (size_t i = 0; i < crowd->count; i++)
        if (!is_same(&places[i], &wanted[i])) {
            describe(crowd, places, wanted);
            fail_msg("contender %zu is not placed as expected", i);
        }
    plan_expect_near(decision.throughput, throughput, 1e-9);
    crowd->hash = answers_add(answers_add(crowd->hash, (int64_t)decision.running), decision.is_changed);
    crowd->hash = answers_add(crowd->hash, decision.look_again_ns);
    count_seen(crowd, places, decision.is_changed, seen);
}

/* What was decided comes true, time passes, a launch ends, and another one comes or is expected, or other
   launches are behind one. */
static void go_on(struct crowd *crowd, const gs_decided_place *places, gs_random *random) {
    for (size_t i = 0; i < crowd->count; i++) {
        bool was_expected = crowd->contenders[i].state == GS_CONTENDER_EXPECTED;
        plan_apply(&crowd->contenders[i], &places[i]);
        if (was_expected)
            crowd->contenders[i].state = GS_CONTENDER_EXPECTED;
        crowd->contenders[i].running_ns += gs_random_from(random, 0, 4000000);
    }
    if (crowd->count == 0)
        return;
    gs_contender *contender = &crowd->contenders[gs_random_from(random, 0, (int64_t)crowd->count - 1)];
    switch (gs_random_from(random, 0, 5)) {
    case 0:
        draw_contender(crowd, contender->arrival, contender, random);
        break;
    case 1:
        draw_state(crowd, contender, random);
        break;
    case 2:
        contender->state = GS_CONTENDER_EXPECTED;
        break;
    case 3:
        contender->state = GS_CONTENDER_WAITS;
        break;
    case 4:
        draw_coming(crowd, contender, random);
        break;
    default:
        break;
    }
}

TEST(decisions_are_those_of_the_document) {
    static const char *const words[SEEN] = {"whole",  "queued", "confined", "pair", "more",
                                            "inside", "trial",  "probe",    "kept", "changed"};
    enum { ROUNDS = 2000 };
    gs_random random = gs_random_at(test_number("GRIDSMITH_SEED", 1), 41);
    bool is_usual = test_number("GRIDSMITH_SEED", 1) == 1 && answers_are_rounded_alike();
    size_t seen[SEEN] = {0};
    gs_gpu *gpu = gs_gpu_open("h200", NULL);
    int rounds = plan_rounds(ROUNDS);
    answers_open("tests/decide/decisions.txt");
    answers_begin("crowds");
    for (int round = 0; round < rounds; round++) {
        struct crowd crowd = {.store = plan_store()};
        gs_decided_place places[GS_LITERAL_CROWD];
        bool are_small = gs_random_chance(&random, 10);
        make_kernels(&crowd, &random, are_small);
        if (gs_random_chance(&random, 50))
            assert_int_equal(gs_profile_store_predict(crowd.store, gpu, NULL), GS_OK);
        for (int64_t i = gs_random_from(&random, 0, 60); i > 0; i--)
            measure_pair(&crowd, &random);
        if (are_small)
            measure_all(&crowd, &random);
        for (int i = 0; i < 6; i++) {
            make_crowd(&crowd, &random, are_small);
            for (int step = 0; step < STEPS; step++) {
                expect_literal(&crowd, places, seen);
                go_on(&crowd, places, &random);
            }
        }
        if (is_usual && round < ROUNDS)
            answers_expect(crowd.hash);
        gs_profile_store_close(crowd.store);
    }
    if (is_usual && rounds >= ROUNDS)
        answers_end();
    answers_close();
    gs_gpu_free(gpu);
    for (size_t i = 0; i < SEEN; i++) {
        print_message("%s: %zu\n", words[i], seen[i]);
        assert_true(seen[i] > 0 || rounds < 100);
    }
}

TEST_MAIN(NULL, NULL)
