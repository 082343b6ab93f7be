/*
 * fix.c: the smallest changes after which all blocks of all kernels are resident together.
 *
 * Each knob (knobs.c) is turned alone, value by value, the smallest change first, until the run works. If no knob helps
 * alone, two are turned together, and the cheapest combination that helps is found: a combination that costs as much as
 * the best so far is not tried. Each try plays the whole run (trial.c). The search has a budget of launches, and
 * reports the kinds of changes that were not all tried.
 */
#include "check_search.h"
#include "knobs.h"

#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

struct solver {
    const gs_gpu *gpu;
    const gs_run *run;
    const gs_fix_options *options;
    bool every_order;
    gs_trial *trial;
    gs_knobs knobs;
    gs_fixes *fixes;
    int64_t left; /* launches that may still be tried */
};

/* ---- trying ---- */

static gs_code try_orders(struct solver *solver, const gs_change *changes, size_t count, bool *works, gs_error *error) {
    size_t order[GS_MOST_PERMUTED], launches = solver->run->launches.count;
    gs_code code = GS_OK;
    bool more = true;
    for (size_t i = 0; i < launches; i++)
        order[i] = i;
    for (*works = true; more && *works && code == GS_OK; more = gs_next_permutation(order, launches)) {
        code = gs_trial_play(solver->trial, changes, count, order, works, error);
        solver->left -= (int64_t)launches;
    }
    return code;
}

/* The launch order that the changes ask for, or NULL. */
static const size_t *order_of(struct solver *solver, const gs_change *changes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (changes[i].kind == GS_FIX_ORDER)
            return gs_knobs_order(&solver->knobs, changes[i].to);
    return NULL;
}

static gs_code try_changes(struct solver *solver, const gs_change *changes, size_t count, bool *works,
                           gs_error *error) {
    gs_progress_say(solver->options->progress, "%lld launches left to try for fixes", (long long)solver->left);
    if (solver->every_order)
        return try_orders(solver, changes, count, works, error);
    solver->left -= (int64_t)solver->run->launches.count;
    return gs_trial_play(solver->trial, changes, count, order_of(solver, changes, count), works, error);
}

static gs_change change_to(const gs_knob *knob, size_t value) {
    return (gs_change){knob->kind, knob->launch, knob->from, knob->data[value], GS_ANSWER_NO};
}

/* ---- keeping fixes ---- */

void gs_fixes_clear(gs_fixes *fixes) {
    for (size_t i = 0; i < fixes->count; i++)
        free(fixes->data[i].order.data);
    free(fixes->data);
    *fixes = (gs_fixes){0};
}

/* Replaces the number of an order by the order itself, and by the kernel that moves. */
static gs_code resolve_order(struct solver *solver, gs_fix *fix, gs_change *change, gs_error *error) {
    size_t count = solver->run->launches.count, place;
    const size_t *order = gs_knobs_order(&solver->knobs, change->to);
    for (size_t i = 0; i < count; i++)
        if (!GS_PUSH(&fix->order, order[i]))
            return gs_fail_memory(error);
    change->launch = gs_order_moved(order, count, &place);
    change->from = change->launch == NONE ? 0 : (int64_t)change->launch;
    change->to = change->launch == NONE ? 0 : (int64_t)place;
    return GS_OK;
}

static gs_code keep_fix(struct solver *solver, const gs_change *changes, size_t count, int64_t cost, gs_error *error) {
    if (!GS_RESERVE(solver->fixes, 1))
        return gs_fail_memory(error);
    gs_fix *fix = &solver->fixes->data[solver->fixes->count++];
    *fix = (gs_fix){.count = count, .cost = cost};
    gs_code code = GS_OK;
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        fix->changes[i] = changes[i];
        if (changes[i].kind == GS_FIX_ORDER)
            code = resolve_order(solver, fix, &fix->changes[i], error);
    }
    return code;
}

/* ---- one change ---- */

static bool may_be_limit(gs_fix_kind kind) {
    return kind == GS_FIX_BLOCKS || kind == GS_FIX_REGISTERS || kind == GS_FIX_SHARED;
}

/* Whether all values after `first` work too. */
static gs_code try_rest(struct solver *solver, const gs_knob *knob, size_t first, gs_answer *all_work,
                        gs_error *error) {
    gs_code code = GS_OK;
    *all_work = GS_ANSWER_YES;
    for (size_t i = first + 1; i < knob->count && *all_work == GS_ANSWER_YES && code == GS_OK; i++) {
        gs_change change = change_to(knob, i);
        bool works = true;
        if (solver->left > 0)
            code = try_changes(solver, &change, 1, &works, error);
        else
            *all_work = GS_ANSWER_UNKNOWN;
        if (!works)
            *all_work = GS_ANSWER_NO;
    }
    return code;
}

static gs_code turn_knob(struct solver *solver, const gs_knob *knob, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < knob->count && code == GS_OK; i++) {
        gs_change change = change_to(knob, i);
        bool works;
        if (solver->left <= 0) {
            solver->fixes->unfinished |= 1u << knob->kind;
            break;
        }
        code = try_changes(solver, &change, 1, &works, error);
        if (code != GS_OK || !works)
            continue;
        if (may_be_limit(knob->kind))
            code = try_rest(solver, knob, i, &change.is_limit, error);
        if (code == GS_OK)
            code = keep_fix(solver, &change, 1, gs_knob_cost(&solver->knobs, knob, knob->data[i]), error);
        break;
    }
    return code;
}

static bool has_order(const gs_fixes *fixes) {
    for (size_t i = 0; i < fixes->count; i++)
        if (fixes->data[i].changes[0].kind == GS_FIX_ORDER)
            return true;
    return false;
}

/* With many kernels, only one is moved. If that is not enough, `known_order` may work. */
static gs_code try_known_order(struct solver *solver, unsigned kinds, gs_error *error) {
    const gs_order *order = solver->options->known_order;
    bool works = false;
    if (!order || !order->count || !(kinds >> GS_FIX_ORDER & 1) || has_order(solver->fixes))
        return GS_OK;
    gs_code code = gs_trial_play(solver->trial, NULL, 0, order->data, &works, error);
    if (code != GS_OK || !works)
        return code;
    gs_change change = {.kind = GS_FIX_ORDER, .launch = NONE};
    if (!GS_RESERVE(solver->fixes, 1))
        return gs_fail_memory(error);
    gs_fix *fix = &solver->fixes->data[solver->fixes->count++];
    *fix = (gs_fix){.changes = {change}, .count = 1, .cost = 10000 * (int64_t)order->count};
    for (size_t i = 0; i < order->count; i++)
        if (!GS_PUSH(&fix->order, order->data[i]))
            return gs_fail_memory(error);
    return GS_OK;
}

/* ---- two changes ---- */

struct pair {
    size_t first, second; /* knobs */
    size_t tries;         /* at most */
};

static int compare_pairs(const void *first, const void *second) {
    const struct pair *a = first, *b = second;
    int order = GS_COMPARE(a->tries, b->tries);
    order = order ? order : GS_COMPARE(a->first, b->first);
    return order ? order : GS_COMPARE(a->second, b->second);
}

/* Two green contexts would need a third part for the other kernels; one is enough here. */
static bool can_be_paired(const gs_knob *a, const gs_knob *b) {
    return a->kind != GS_FIX_GREEN || b->kind != GS_FIX_GREEN;
}

/* The combinations with few values first: they take the least time. */
static struct pair *list_pairs(const gs_knobs *knobs, size_t *count) {
    struct pair *pairs = calloc(knobs->count * knobs->count + 1, sizeof *pairs);
    *count = 0;
    for (size_t i = 0; pairs && i < knobs->count; i++)
        for (size_t j = i + 1; j < knobs->count; j++)
            if (can_be_paired(&knobs->data[i], &knobs->data[j]))
                pairs[(*count)++] = (struct pair){i, j, knobs->data[i].count * knobs->data[j].count};
    if (pairs)
        qsort(pairs, *count, sizeof *pairs, compare_pairs);
    return pairs;
}

struct best {
    gs_change changes[GS_MOST_CHANGES];
    int64_t cost; /* INT64_MAX: none */
};

/* Two moderate changes are better than an extreme one: squares are added. */
static int64_t pair_cost(int64_t first, int64_t second) {
    return first * first / 1000000 + second * second / 1000000;
}

static gs_code turn_second(struct solver *solver, const gs_knob *knob, gs_change first, int64_t cost, struct best *best,
                           gs_error *error) {
    gs_code code = GS_OK;
    bool works = false;
    for (size_t i = 0; i < knob->count && !works && code == GS_OK && solver->left > 0; i++) {
        int64_t both = pair_cost(cost, gs_knob_cost(&solver->knobs, knob, knob->data[i]));
        if (both >= best->cost)
            break;
        gs_change changes[] = {first, change_to(knob, i)};
        code = try_changes(solver, changes, 2, &works, error);
        if (code == GS_OK && works)
            *best = (struct best){{changes[0], changes[1]}, both};
    }
    return code;
}

static gs_code turn_both(struct solver *solver, const struct pair *pair, struct best *best, gs_error *error) {
    const gs_knob *first = &solver->knobs.data[pair->first], *second = &solver->knobs.data[pair->second];
    gs_code code = GS_OK;
    for (size_t i = 0; i < first->count && code == GS_OK; i++) {
        int64_t cost = gs_knob_cost(&solver->knobs, first, first->data[i]);
        if (pair_cost(cost, 0) >= best->cost)
            break;
        code = turn_second(solver, second, change_to(first, i), cost, best, error);
    }
    return code;
}

static gs_code find_pair(struct solver *solver, gs_error *error) {
    size_t count;
    struct best best = {.cost = INT64_MAX};
    struct pair *pairs = list_pairs(&solver->knobs, &count);
    gs_code code = pairs ? GS_OK : gs_fail_memory(error);
    solver->left = solver->options->budget;
    solver->fixes->combinations_searched = true;
    for (size_t i = 0; i < count && code == GS_OK && solver->left > 0; i++)
        code = turn_both(solver, &pairs[i], &best, error);
    solver->fixes->combinations_finished = solver->left > 0;
    free(pairs);
    return code == GS_OK && best.cost < INT64_MAX ? keep_fix(solver, best.changes, 2, best.cost, error) : code;
}

/* ---- all ---- */

static int compare_fixes(const void *first, const void *second) {
    const gs_fix *a = first, *b = second;
    int order = GS_COMPARE(a->changes[0].kind, b->changes[0].kind);
    order = order ? order : GS_COMPARE(a->cost, b->cost);
    return order ? order : GS_COMPARE(a->changes[0].launch, b->changes[0].launch);
}

static gs_code find_fixes(struct solver *solver, gs_error *error) {
    unsigned kinds = solver->options->kinds & ~(solver->every_order ? 1u << GS_FIX_ORDER : 0);
    int64_t most_orders = solver->left / (int64_t)gs_max_u64(solver->run->launches.count, 2) + 1;
    gs_code code = gs_knobs_list(&solver->knobs, kinds, most_orders, error);
    for (size_t i = 0; i < solver->knobs.count && code == GS_OK; i++)
        code = turn_knob(solver, &solver->knobs.data[i], error);
    if (code == GS_OK)
        code = try_known_order(solver, kinds, error);
    if (code == GS_OK && !solver->fixes->count)
        code = find_pair(solver, error);
    if (solver->fixes->count)
        qsort(solver->fixes->data, solver->fixes->count, sizeof *solver->fixes->data, compare_fixes);
    return code;
}

gs_code gs_fix_run(const gs_gpu *gpu, const gs_run *run, const gs_fix_options *options, gs_fixes *fixes,
                   gs_error *error) {
    struct solver solver = {.gpu = gpu,
                            .run = run,
                            .options = options,
                            .every_order = options->every_order && gs_run_order_is_free(run),
                            .knobs = {.gpu = gpu, .run = run, .among = options->among},
                            .fixes = fixes,
                            .left = options->budget};
    *fixes = (gs_fixes){0};
    if (solver.every_order && run->launches.count > GS_MOST_PERMUTED) {
        fixes->unfinished = options->kinds;
        return GS_OK;
    }
    solver.trial = gs_trial_new(gpu, run, error);
    gs_code code = solver.trial ? find_fixes(&solver, error) : GS_E_MEMORY;
    gs_trial_free(solver.trial);
    gs_knobs_free(&solver.knobs);
    return code;
}
