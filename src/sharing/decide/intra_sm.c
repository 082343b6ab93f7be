/*
 * intra_sm.c: the ways in which two kernels can share SMs (intra-SM): that of a plan, measured ones, and ones to be
 * tried.
 *
 * A daemon identifies kernels by their names in modules, a plan by the names that its user gave. The mangled name of a
 * C++ function contains its name: _Z5sgemmPKf... is sgemm. Other kernels, such as instances of templates, must have the
 * module's name in the plan.
 *
 * Measurements replace the plan. A pair that the plan lacks is tried in the ways that pair_ways.c finds, as long as
 * that costs little: if it gains nothing, the two were briefly slower. A pair of the plan without a gain is not tried.
 */
#include "decide.h"

#include <stdlib.h>

/* The plain name of a mangled one. */
struct bare {
    const char *name;
    size_t length;
};

static struct bare bare_of(const char *name) {
    gs_symbol symbol = {.text = name};
    bool is_function = gs_symbol_next(&symbol) && !symbol.is_nested;
    return is_function ? (struct bare){symbol.name, symbol.length} : (struct bare){name, strlen(name)};
}

static bool is_same(const char *plan_name, struct bare bare) {
    return strlen(plan_name) == bare.length && memcmp(plan_name, bare.name, bare.length) == 0;
}

static uint64_t key_of(struct bare first, struct bare second) {
    return gs_hash(gs_hash(0, first.name, first.length), second.name, second.length);
}

static void copy_name(char *into, const char *name) {
    struct bare bare = bare_of(name);
    snprintf(into, GS_PROFILE_NAME, "%.*s", (int)gs_min_u64(bare.length, GS_PROFILE_NAME - 1), bare.name);
}

/* Whether the plan's workers of a pair are resident together on a GPU, whichever is launched first. */
static bool fits_on(const gs_gpu *gpu, const gs_table_pair *pair) {
    const int32_t workers[2] = {pair->first_workers, pair->second_workers};
    for (int i = 0; i < 2; i++)
        if (gs_fits_beside(gpu, &pair->shapes[i], &workers[i], 1, &pair->shapes[!i], workers[!i]) == workers[!i])
            return true;
    return false;
}

/* Whether a pair gains in a way that is available on this GPU. */
static bool is_available(const gs_plan_table *table, const gs_table_pair *pair, const gs_gpu *gpu) {
    if (pair->option == GS_TABLE_SPLIT)
        return pair->first_sms > 0 && (!gpu || !table->sms || (gpu->sms == table->sms && pair->first_sms < gpu->sms));
    return pair->option == GS_TABLE_INTRA_SM && pair->first_workers > 0 && pair->second_workers > 0 &&
           (!gpu || fits_on(gpu, pair));
}

/* False: the pair was not measured, or in forms not available to a daemon. */
static bool keep_pair(const gs_plan_table *table, const gs_table_pair *pair, const gs_gpu *gpu, gs_planned_pair *kept) {
    gs_pair_rates rates;
    double residual;
    bool is_measured = pair->together_us > 0 || pair->has_model || pair->has_few;
    if (!is_measured || (pair->option == GS_TABLE_INTRA_SM && pair->is_reshaped))
        return false;
    copy_name(kept->names[0], table->kernels.data[pair->first].name);
    copy_name(kept->names[1], table->kernels.data[pair->second].name);
    kept->key = key_of(bare_of(kept->names[0]), bare_of(kept->names[1]));
    if (!is_available(table, pair, gpu) || !gs_table_pair_rates(pair, &rates, &residual))
        return true;
    kept->shares[0] = rates.first / (1 + 2 * residual); /* cautious: they are lower by twice the residual */
    kept->shares[1] = rates.second / (1 + 2 * residual);
    kept->alone_ns[0] = table->kernels.data[pair->first].alone_us * 1e3;
    kept->alone_ns[1] = table->kernels.data[pair->second].alone_us * 1e3;
    kept->after[0] = rates.first_alone;
    kept->after[1] = rates.second_alone;
    bool is_split = pair->option == GS_TABLE_SPLIT;
    kept->workers[0] = is_split ? 0 : pair->first_workers;
    kept->workers[1] = is_split ? 0 : pair->second_workers;
    kept->first_sms = is_split ? pair->first_sms : 0;
    return true;
}

bool gs_planned_init(gs_planned *planned, const gs_plan_table *table, const gs_gpu *gpu) {
    *planned = (gs_planned){.data = calloc(table->pairs.count + 1, sizeof *planned->data)};
    for (size_t i = 0; planned->data && i < table->pairs.count; i++) {
        gs_planned_pair *kept = &planned->data[planned->count];
        if (!keep_pair(table, &table->pairs.data[i], gpu, kept))
            continue;
        planned->sharing += kept->workers[0] > 0;
        planned->count++;
    }
    return planned->data != NULL;
}

void gs_planned_clear(gs_planned *planned) {
    free(planned->data);
    *planned = (gs_planned){0};
}

static const gs_planned_pair *find_ordered(const gs_planned *planned, struct bare first, struct bare second) {
    uint64_t key = key_of(first, second);
    for (size_t i = 0; i < planned->count; i++) {
        const gs_planned_pair *pair = &planned->data[i];
        if (pair->key == key && is_same(pair->names[0], first) && is_same(pair->names[1], second))
            return pair;
    }
    return NULL;
}

const gs_planned_pair *gs_planned_find(const gs_planned *planned, const char *one, const char *other, int *first) {
    struct bare a = bare_of(one), b = bare_of(other);
    const gs_planned_pair *pair = find_ordered(planned, a, b);
    *first = pair ? 0 : 1;
    return pair ? pair : find_ordered(planned, b, a);
}

double gs_planned_after(const gs_planned *planned, const char *name, int32_t workers) {
    struct bare bare = bare_of(name);
    for (size_t i = 0; i < planned->count; i++)
        for (int k = 0; k < 2; k++)
            if (planned->data[i].workers[k] == workers && planned->data[i].after[k] > 0 &&
                is_same(planned->data[i].names[k], bare))
                return planned->data[i].after[k];
    return 1;
}

/* ---- ways ---- */

/* Whether a launch is about as long as the one in the plan, or longer. In a shorter one, the time in which its last
   blocks run counts more than what the two do to each other. */
static bool is_as_planned(const gs_planned_pair *pair, int place, const gs_profile *profile) {
    enum { SHORTER = 2 };
    return SHORTER * (double)gs_profile_duration_ns(profile) >= pair->alone_ns[place];
}

static gs_intra_sm_way planned_way(const gs_planned_pair *pair, int first, int32_t sms) {
    const int32_t split[2] = {pair->first_sms, pair->first_sms > 0 ? sms - pair->first_sms : 0};
    return (gs_intra_sm_way){.workers = {pair->workers[first], pair->workers[!first]},
                             .sms = {split[first], split[!first]},
                             .shares = {pair->shares[first], pair->shares[!first]}};
}

/* A split of the plan counts until splits of the two were measured. */
static bool is_split_planned(const gs_planned_pair *planned, const gs_pair *pair, int32_t sms) {
    for (int i = 0; pair && i < GS_PAIR_SPLITS; i++)
        if (pair->splits[i].samples > 0)
            return false;
    return planned->first_sms > 0 && planned->first_sms < sms;
}

static gs_intra_sm_way measured_way(const gs_pair_way *way, int first) {
    return (gs_intra_sm_way){
        .workers = {way->workers[first], way->workers[!first]},
        .shares = {gs_samples_median(&way->shares[first]), gs_samples_median(&way->shares[!first])}};
}

static bool has_same_workers(const gs_intra_sm_way *a, const gs_intra_sm_way *b) {
    return a->workers[0] == b->workers[0] && a->workers[1] == b->workers[1];
}

/* Whether the budget allows another trial: at worst the two progress half as fast as otherwise. */
static bool may_try(const gs_decide_options *options, const gs_pair *pair) {
    double cost_ns = (double)options->trial_ns / 2;
    return options->tries_intra_sm && pair->next_workers[0] > 0 && pair->otherwise > 0 &&
           pair->lost_ns + cost_ns <= options->trial_part * pair->competed_ns;
}

size_t gs_intra_sm_ways(const gs_decide_options *options, const gs_profile_store *store, const gs_profile *one,
                        const gs_profile *other, gs_intra_sm_way ways[GS_INTRA_SM_WAYS]) {
    int first = 0, a = one->key > other->key;
    size_t count = 0;
    const gs_pair *pair = store ? gs_profile_store_pair(store, one->key, other->key) : NULL;
    const gs_planned_pair *planned =
        options->planned ? gs_planned_find(options->planned, one->name, other->name, &first) : NULL;
    if (planned && !(is_as_planned(planned, first, one) && is_as_planned(planned, !first, other)))
        planned = NULL;
    bool is_in_plan = planned && (planned->workers[0] > 0 || is_split_planned(planned, pair, options->sms));
    if (is_in_plan)
        ways[count++] = planned_way(planned, first, options->sms);
    for (size_t i = 0; pair && i < GS_PAIR_WAYS; i++) {
        if (pair->ways[i].shares[0].count < GS_WAY_SAMPLES)
            continue;
        gs_intra_sm_way way = measured_way(&pair->ways[i], a);
        if (is_in_plan && has_same_workers(&ways[0], &way))
            ways[0] = way;
        else if (options->tries_intra_sm)
            ways[count++] = way;
    }
    if (pair && !planned && may_try(options, pair))
        ways[count++] = (gs_intra_sm_way){
            .workers = {pair->next_workers[a], pair->next_workers[!a]}, .shares = {1, 1}, .is_trial = true};
    return count;
}
