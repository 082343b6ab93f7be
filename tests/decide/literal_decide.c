/*
 * literal_decide.c: the decisions of src/sharing/decide, found by trying everything. See literal_decide.h.
 */
#include "literal_decide.h"

#include <math.h>

static double weight(const gs_contender *contender) {
    return contender->weight > 0 ? contender->weight : 1;
}

static int32_t cap(const literal_query *query, const gs_contender *contender) {
    return contender->cap > 0 && contender->cap < query->options->sms ? contender->cap : query->options->sms;
}

static bool is_short(const literal_query *query, const gs_contender *contender) {
    return gs_profile_duration_ns(contender->profile) < (uint64_t)query->options->short_ns;
}

/* ---- turns ---- */

static bool is_before(const literal_query *query, const gs_contender *a, const gs_contender *b) {
    int64_t a_rank = a->priority + a->waited_ns / query->options->patience_ns;
    int64_t b_rank = b->priority + b->waited_ns / query->options->patience_ns;
    double a_had = (double)a->served / weight(a), b_had = (double)b->served / weight(b);
    if (a_rank > b_rank)
        return true;
    if (a_rank == b_rank && a_had < b_had)
        return true;
    return a_rank == b_rank && a_had == b_had && a->arrival < b->arrival;
}

size_t literal_leader(const literal_query *query) {
    for (size_t i = 0; i < query->count; i++) {
        size_t before = 0;
        for (size_t j = 0; j < query->count; j++)
            before += j != i && is_before(query, &query->contenders[j], &query->contenders[i]);
        if (before == 0)
            return i;
    }
    return query->count;
}

/* ---- splits ---- */

static double share_of(const literal_query *query, const size_t *members, size_t count, size_t i, int32_t sms) {
    const gs_contender *contender = &query->contenders[members[i]];
    double share = gs_profile_share(contender->profile, sms);
    for (size_t j = 0; j < count; j++) {
        const gs_contender *other = &query->contenders[members[j]];
        const gs_pair *pair = query->store && j != i
                                  ? gs_profile_store_pair(query->store, contender->profile->key, other->profile->key)
                                  : NULL;
        double factor;
        if (pair && gs_pair_factor(pair, contender->profile, sms, &factor))
            share *= factor;
    }
    return share;
}

static bool is_fair(const literal_query *query, const size_t *members, size_t count, size_t i, double share) {
    const gs_contender *contender = &query->contenders[members[i]];
    double sum = 0;
    bool lower = false, higher = false;
    for (size_t j = 0; j < count; j++) {
        const gs_contender *other = &query->contenders[members[j]];
        lower |= other->priority < contender->priority;
        higher |= other->priority > contender->priority;
        if (other->priority == contender->priority)
            sum += weight(other);
    }
    double alone = gs_profile_share(contender->profile, cap(query, contender)) * weight(contender) / sum;
    if (higher)
        return true;
    return share >= alone * (lower ? query->options->priority_floor : 1 - query->options->fair_slack) - 1e-9;
}

static int32_t limit(const literal_query *query, const size_t *members, size_t count, size_t i) {
    int32_t same = 0;
    for (size_t j = 0; j < count; j++)
        same += query->contenders[members[j]].client == query->contenders[members[i]].client;
    int32_t most = cap(query, &query->contenders[members[i]]);
    return most < query->options->sms ? most / same : most;
}

/* Tries every number of units for member i and those after it. */
static double try_units(const literal_query *query, const size_t *members, size_t count, size_t i, int32_t left) {
    double best = -1;
    int32_t most = limit(query, members, count, i);
    for (int32_t units = 1; units <= left && most > 0; units++) {
        if (i + 1 == count && units != left)
            continue;
        int32_t sms = units * query->options->granularity;
        double share = share_of(query, members, count, i, sms < most ? sms : most);
        if (!is_fair(query, members, count, i, share))
            continue;
        double others = i + 1 < count ? try_units(query, members, count, i + 1, left - units) : 0;
        if (others >= 0)
            best = fmax(best, share + others);
    }
    return best;
}

double literal_split(const literal_query *query, const size_t *members, size_t count) {
    return try_units(query, members, count, 0, query->options->sms / query->options->granularity);
}

/* ---- pairs ---- */

static double serial(const literal_query *query, const gs_contender *a, const gs_contender *b) {
    double alone_a = gs_profile_share(a->profile, cap(query, a)), alone_b = gs_profile_share(b->profile, cap(query, b));
    double mean = (weight(a) * alone_a + weight(b) * alone_b) / (weight(a) + weight(b));
    const gs_pair *pair = query->store ? gs_profile_store_pair(query->store, a->profile->key, b->profile->key) : NULL;
    return pair && pair->serial_samples >= query->options->trials ? mean * pair->serial : mean;
}

/* Until there are `trials`; then after each split, until there were three; then after 2, 4, 8... splits. */
static bool are_turns_due(const gs_pair *pair, double trials) {
    uint64_t after = 1;
    for (uint64_t i = 3; i < pair->gains.count; i++)
        after *= after < 1024 ? 2 : 1;
    return pair->serial_samples < trials || pair->last_serial == 0 || pair->splits_since >= after;
}

/* Whether two kernels are queued one after the other, rather than split the SMs. */
static bool are_queued(const literal_query *query, const gs_contender *a, const gs_contender *b) {
    const gs_decide_options *options = query->options;
    const gs_pair *pair = query->store ? gs_profile_store_pair(query->store, a->profile->key, b->profile->key) : NULL;
    bool is_no_gain = pair && pair->gains.count >= 3 && gs_samples_median(&pair->gains) < 1 + options->least_gain;
    bool is_due = query->store && query->count == 2 && a->priority == b->priority &&
                  (!pair || is_no_gain || are_turns_due(pair, options->trials));
    return (is_short(query, a) || is_short(query, b) || is_due) &&
           gs_profile_duration_ns(a->profile) <= (uint64_t)options->yield_ns &&
           gs_profile_duration_ns(b->profile) <= (uint64_t)options->yield_ns && cap(query, a) == options->sms &&
           cap(query, b) == options->sms;
}

double literal_pair(const literal_query *query, size_t leader) {
    const gs_contender *lead = &query->contenders[leader];
    double best = -1;
    for (size_t i = 0; i < query->count; i++) {
        const gs_contender *contender = &query->contenders[i];
        size_t members[2] = {leader, i};
        if (i == leader || are_queued(query, lead, contender))
            continue;
        double throughput = literal_split(query, members, 2), least = serial(query, lead, contender);
        if (throughput >= least * (1 + query->options->least_gain))
            best = fmax(best, throughput);
    }
    return best >= 0 ? best : gs_profile_share(lead->profile, cap(query, lead));
}

/* ---- masks ---- */

static int32_t try_users(int32_t sms, size_t count, const int32_t *wanted, const gs_mask *had, int32_t sm,
                         int32_t *given) {
    int32_t best = INT32_MAX;
    if (sm == sms) {
        for (size_t i = 0; i < count; i++)
            if (given[i] != wanted[i])
                return INT32_MAX;
        return 0;
    }
    best = try_users(sms, count, wanted, had, sm + 1, given); /* without a user */
    for (size_t i = 0; i < count; i++) {
        given[i]++;
        int32_t others = given[i] <= wanted[i] ? try_users(sms, count, wanted, had, sm + 1, given) : INT32_MAX;
        if (others != INT32_MAX && others + !gs_mask_has(&had[i], sm) < best)
            best = others + !gs_mask_has(&had[i], sm);
        given[i]--;
    }
    return best;
}

int32_t literal_moves(int32_t sms, size_t count, const int32_t *wanted, const gs_mask *had) {
    int32_t given[8] = {0};
    return try_users(sms, count, wanted, had, 0, given);
}
