/*
 * orders.c: the launch orders in which all blocks are resident together.
 *
 * All orders of a few kernels are played. Then a rule is searched that says exactly which of them work: all, none,
 * those in which one kernel is first, or last, or before another. Rules are ruled out one by one: each order that works
 * although a rule forbids it, or fails although the rule allows it, refutes the rule.
 */
#include "trial.h"

enum { MOST = GS_MOST_PERMUTED };

/* Which rules still hold. */
struct rules {
    bool first[MOST], last[MOST], before[MOST][MOST];
};

static void begin_rules(struct rules *rules, size_t count) {
    for (size_t i = 0; i < count; i++) {
        rules->first[i] = rules->last[i] = true;
        for (size_t j = 0; j < count; j++)
            rules->before[i][j] = true;
    }
}

static void refute_rules(struct rules *rules, const size_t *order, size_t count, bool works) {
    size_t place[MOST];
    for (size_t i = 0; i < count; i++)
        place[order[i]] = i;
    for (size_t i = 0; i < count; i++) {
        rules->first[i] = rules->first[i] && works == (place[i] == 0);
        rules->last[i] = rules->last[i] && works == (place[i] == count - 1);
        for (size_t j = 0; j < count; j++)
            rules->before[i][j] = rules->before[i][j] && works == (place[i] < place[j]);
    }
}

/* The simplest rule that holds. */
static void choose_rule(const struct rules *rules, size_t count, gs_orders *orders) {
    orders->rule = orders->working ? GS_ORDERS_SOME : GS_ORDERS_NONE;
    if (orders->working == orders->tried)
        orders->rule = GS_ORDERS_ALL;
    if (orders->rule != GS_ORDERS_SOME)
        return;
    for (size_t i = count; i-- > 0;)
        for (size_t j = count; j-- > 0;)
            if (rules->before[i][j])
                *orders = (gs_orders){GS_ORDERS_BEFORE, i, j, orders->tried, orders->working};
    for (size_t i = count; i-- > 0;)
        if (rules->last[i])
            *orders = (gs_orders){GS_ORDERS_LAST, i, 0, orders->tried, orders->working};
    for (size_t i = count; i-- > 0;)
        if (rules->first[i])
            *orders = (gs_orders){GS_ORDERS_FIRST, i, 0, orders->tried, orders->working};
}

gs_code gs_orders_that_work(const gs_gpu *gpu, const gs_run *run, gs_orders *orders, gs_error *error) {
    size_t count = run->launches.count, order[MOST];
    struct rules rules;
    *orders = (gs_orders){.rule = GS_ORDERS_UNKNOWN};
    if (!count || count > MOST || !gs_run_order_is_free(run))
        return GS_OK;
    gs_trial *trial = gs_trial_new(gpu, run, error);
    gs_code code = trial ? GS_OK : GS_E_MEMORY;
    begin_rules(&rules, count);
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    bool more = true, works;
    while (more && code == GS_OK && (code = gs_trial_play(trial, NULL, 0, order, &works, error)) == GS_OK) {
        orders->tried++;
        orders->working += works;
        refute_rules(&rules, order, count, works);
        more = gs_next_permutation(order, count);
    }
    gs_trial_free(trial);
    if (code == GS_OK)
        choose_rule(&rules, count, orders);
    return code;
}
