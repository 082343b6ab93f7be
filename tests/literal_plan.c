/*
 * literal_plan.c: what src/plan decides, found by trying everything. Slow and plain: see literal_plan.h.
 */
#include "literal_plan.h"

#include <math.h>

static double weight(const gs_contender *c) {
    return c->weight > 0 ? c->weight : 1;
}

static int32_t cap(const literal_question *q, const gs_contender *c) {
    return c->cap > 0 && c->cap < q->options->sms ? c->cap : q->options->sms;
}

static bool is_short(const literal_question *q, const gs_contender *c) {
    return gs_profile_duration_ns(c->profile) < (uint64_t)q->options->short_ns;
}

/* ---- turns ---- */

static bool is_before(const literal_question *q, const gs_contender *a, const gs_contender *b) {
    int64_t a_rank = a->priority + a->waited_ns / q->options->patience_ns;
    int64_t b_rank = b->priority + b->waited_ns / q->options->patience_ns;
    double a_had = (double)a->served / weight(a), b_had = (double)b->served / weight(b);
    if (a_rank > b_rank)
        return true;
    if (a_rank == b_rank && a_had < b_had)
        return true;
    return a_rank == b_rank && a_had == b_had && a->arrival < b->arrival;
}

size_t literal_leader(const literal_question *q) {
    for (size_t i = 0; i < q->count; i++) {
        size_t before = 0;
        for (size_t j = 0; j < q->count; j++)
            before += j != i && is_before(q, &q->contenders[j], &q->contenders[i]);
        if (before == 0)
            return i;
    }
    return q->count;
}

/* ---- splits ---- */

static double share_of(const literal_question *q, const size_t *members, size_t count, size_t i, int32_t sms) {
    const gs_contender *c = &q->contenders[members[i]];
    double share = gs_profile_share(c->profile, sms);
    for (size_t j = 0; j < count; j++) {
        const gs_contender *other = &q->contenders[members[j]];
        const gs_pair *pair =
            q->store && j != i ? gs_profile_store_pair(q->store, c->profile->key, other->profile->key) : NULL;
        double factor;
        if (pair && gs_pair_factor(pair, c->profile, sms, &factor))
            share *= factor;
    }
    return share;
}

static bool is_fair(const literal_question *q, const size_t *members, size_t count, size_t i, double share) {
    const gs_contender *c = &q->contenders[members[i]];
    double sum = 0;
    bool lower = false, higher = false;
    for (size_t j = 0; j < count; j++) {
        const gs_contender *other = &q->contenders[members[j]];
        lower |= other->priority < c->priority;
        higher |= other->priority > c->priority;
        if (other->priority == c->priority)
            sum += weight(other);
    }
    double alone = gs_profile_share(c->profile, cap(q, c)) * weight(c) / sum;
    if (higher)
        return true;
    return share >= alone * (lower ? q->options->priority_floor : 1 - q->options->fair_slack) - 1e-9;
}

static int32_t limit(const literal_question *q, const size_t *members, size_t count, size_t i) {
    int32_t same = 0;
    for (size_t j = 0; j < count; j++)
        same += q->contenders[members[j]].client == q->contenders[members[i]].client;
    int32_t most = cap(q, &q->contenders[members[i]]);
    return most < q->options->sms ? most / same : most;
}

/* Tries every number of units for member i and those after it. */
static double try_units(const literal_question *q, const size_t *members, size_t count, size_t i, int32_t left) {
    double best = -1;
    int32_t most = limit(q, members, count, i);
    for (int32_t units = 1; units <= left && most > 0; units++) {
        if (i + 1 == count && units != left)
            continue;
        int32_t sms = units * q->options->granularity;
        double share = share_of(q, members, count, i, sms < most ? sms : most);
        if (!is_fair(q, members, count, i, share))
            continue;
        double others = i + 1 < count ? try_units(q, members, count, i + 1, left - units) : 0;
        if (others >= 0)
            best = fmax(best, share + others);
    }
    return best;
}

double literal_split(const literal_question *q, const size_t *members, size_t count) {
    return try_units(q, members, count, 0, q->options->sms / q->options->granularity);
}

/* ---- pairs ---- */

static double turns(const literal_question *q, const gs_contender *a, const gs_contender *b) {
    double alone_a = gs_profile_share(a->profile, cap(q, a)), alone_b = gs_profile_share(b->profile, cap(q, b));
    double mean = (weight(a) * alone_a + weight(b) * alone_b) / (weight(a) + weight(b));
    const gs_pair *pair = q->store ? gs_profile_store_pair(q->store, a->profile->key, b->profile->key) : NULL;
    return pair && pair->turns_samples >= q->options->trials ? mean * pair->turns : mean;
}

/* As often as `trials`, then after each split until there were three, then after 2, 4, 8... splits. */
static bool are_turns_due(const gs_pair *pair, double trials) {
    uint64_t after = 1;
    for (uint64_t i = 3; i < pair->gains.count; i++)
        after *= after < 1024 ? 2 : 1;
    return pair->turns_samples < trials || pair->last_turns == 0 || pair->splits_since >= after;
}

double literal_pair(const literal_question *q, size_t leader) {
    const gs_contender *lead = &q->contenders[leader];
    double best = -1;
    for (size_t i = 0; i < q->count; i++) {
        const gs_contender *c = &q->contenders[i];
        size_t members[2] = {leader, i};
        if (i == leader)
            continue;
        uint64_t longest = gs_profile_duration_ns(c->profile), leads = gs_profile_duration_ns(lead->profile);
        longest = longest > leads ? longest : leads;
        const gs_pair *pair = q->store ? gs_profile_store_pair(q->store, c->profile->key, lead->profile->key) : NULL;
        bool is_refuted =
            pair && pair->gains.count >= 3 && gs_samples_median(&pair->gains) < 1 + q->options->least_gain;
        bool is_due = q->store && q->count == 2 && c->priority == lead->priority &&
                      (!pair || is_refuted || are_turns_due(pair, q->options->trials));
        if ((is_short(q, c) || is_short(q, lead) || is_due) && longest <= (uint64_t)q->options->yield_ns &&
            cap(q, c) == q->options->sms && cap(q, lead) == q->options->sms)
            continue; /* they are sent to the GPU one behind the other */
        double throughput = literal_split(q, members, 2), least = turns(q, lead, c);
        least = is_short(q, c) || is_short(q, lead) ? least - 1e-9 : least * (1 + q->options->least_gain);
        if (throughput >= least)
            best = fmax(best, throughput);
    }
    return best >= 0 ? best : gs_profile_share(lead->profile, cap(q, lead));
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
    best = try_users(sms, count, wanted, had, sm + 1, given); /* nobody's */
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
