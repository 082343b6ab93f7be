/*
 * decide_support.c: kernels, contenders and stores for the tests of src/sharing/decide. See decide_support.h.
 */
#include "decide_support.h"

#include <math.h>
#include <stdlib.h>

int plan_rounds(int most) {
    uint64_t runs = test_number("GRIDSMITH_RUNS", 100000);
    return (int)gs_max_u64(runs * (uint64_t)most / 100000, 1);
}

double plan_random(gs_random *random, double low, double high) {
    return low + (high - low) * (double)gs_random_from(random, 0, 1000000) / 1e6;
}

void plan_expect_near(double value, double wanted, double off) {
    if (!(fabs(value - wanted) <= off))
        fail_msg("%.9f is not %.9f", value, wanted);
}

/* ---- profiles ---- */

gs_profile_store *plan_store(void) {
    gs_profile_store *store = gs_profile_store_open(NULL, "h200", SMS, NULL);
    assert_non_null(store);
    return store;
}

double plan_true_share(double end, int32_t sms) {
    return fmin(1, (double)sms / SMS / end);
}

gs_profile *plan_profile(gs_profile_store *store, uint64_t key, double end, double us) {
    static const int32_t at[] = {16, 33, 53, 66, 99, SMS};
    gs_profile *profile = gs_profile_store_get(store, key, "kernel", 100000);
    assert_non_null(profile);
    gs_profile_ran(profile, false, profile->blocks, (uint64_t)(us * 1000));
    for (size_t i = 0; i < GS_COUNT(at); i++)
        gs_profile_rate(profile, at[i], (uint64_t)(1e6 * plan_true_share(end, at[i])), (uint64_t)(us * 10000));
    return profile;
}

/* ---- contenders ---- */

gs_contender plan_waiting(const gs_profile *profile, uint32_t client) {
    return (gs_contender){.profile = profile,
                          .client = client,
                          .weight = 1,
                          .arrival = client,
                          .blocks_left = profile ? profile->blocks : 0,
                          .can_confine = true,
                          .can_share = true};
}

void plan_apply(gs_contender *contender, const gs_decided_place *placement) {
    contender->how = placement->how;
    contender->sms = placement->how == GS_DECIDE_WAIT ? 0 : placement->sms;
    contender->workers = placement->workers;
    contender->state = placement->how == GS_DECIDE_WAIT ? GS_CONTENDER_WAITS : GS_CONTENDER_RUNS;
}

plan_scene plan_new_scene(void) {
    plan_scene scene = {.store = plan_store(), .options = gs_decide_defaults(SMS)};
    scene.options.probes = false;
    return scene;
}

gs_decision plan_decide_exactly(const gs_decide_options *options, const gs_profile_store *store,
                                const gs_contender *contenders, size_t count, gs_decided_place *placements) {
    gs_contender *given = malloc(gs_max_u64(count * sizeof *given, 1));
    gs_decided_place *decided = malloc(gs_max_u64(count * sizeof *decided, 1));
    assert_true(given && decided);
    memcpy(given, contenders, count * sizeof *given);
    gs_decision decision = gs_decide(options, store, given, count, decided);
    memcpy(placements, decided, count * sizeof *decided);
    free(given);
    free(decided);
    return decision;
}

gs_decision plan_decide(plan_scene *scene) {
    return plan_decide_exactly(&scene->options, scene->store, scene->contenders, scene->count, scene->placements);
}

void plan_apply_all(plan_scene *scene) {
    for (size_t i = 0; i < scene->count; i++)
        plan_apply(&scene->contenders[i], &scene->placements[i]);
}

void plan_expect(const plan_scene *scene, size_t i, enum gs_decide_how how, int32_t sms) {
    const gs_decided_place *placement = &scene->placements[i];
    if (placement->how != how || (how != GS_DECIDE_WAIT && placement->sms != sms))
        fail_msg("contender %zu: how %d on %d SMs, expected %d on %d", i, placement->how, placement->sms, how, sms);
}
