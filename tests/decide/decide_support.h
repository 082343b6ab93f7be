/*
 * decide_support.h: kernels, contenders and stores for the tests of src/sharing/decide.
 */
#ifndef GS_PLAN_SUPPORT_H
#define GS_PLAN_SUPPORT_H

#include "test.h"

#include "literal_decide.h"
#include "sharing/decide/decide.h"

enum { SMS = 132 };

/* How often a random test is repeated: `most` times with the default of GRIDSMITH_RUNS, at least once. */
int plan_rounds(int most);
double plan_random(gs_random *random, double low, double high);

/* Fails the test if `value` differs from `wanted` by more than `off`. */
void plan_expect_near(double value, double wanted, double off);

/* An empty store in memory. */
gs_profile_store *plan_store(void);

/* The share on `sms` SMs of a kernel whose rate grows in proportion up to the part `end` of the SMs, and then no more.
 */
double plan_true_share(double end, int32_t sms);
/* The profile of such a kernel, which takes `us` alone, measured without noise. */
gs_profile *plan_profile(gs_profile_store *store, uint64_t key, double end, double us);

/* A contender that waits, and that can be confined. */
gs_contender plan_waiting(const gs_profile *profile, uint32_t client);
/* Applies the placement to the contender. */
void plan_apply(gs_contender *contender, const gs_decided_place *placement);

/* gs_decide with memory for `count` contenders and no more, so that a sanitizer sees what reads or writes behind them.
 */
gs_decision plan_decide_exactly(const gs_decide_options *options, const gs_profile_store *store,
                                const gs_contender *contenders, size_t count, gs_decided_place *placements);

/* A few contenders, and the decision for them. */
typedef struct plan_scene {
    gs_profile_store *store;
    gs_decide_options options;
    gs_contender contenders[8];
    gs_decided_place placements[8];
    size_t count;
} plan_scene;

/* With the default options, but without probes. Close the store. */
plan_scene plan_new_scene(void);
gs_decision plan_decide(plan_scene *scene);
void plan_apply_all(plan_scene *scene);
/* Fails the test if contender i is placed otherwise. */
void plan_expect(const plan_scene *scene, size_t i, enum gs_decide_how how, int32_t sms);

#endif
