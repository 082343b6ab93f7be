/*
 * team.c: which kernels complement each other, and how they should split the SMs.
 *
 * A team has a leader, which runs in any case. The others are searched for partners: kernels that, with the SMs split
 * as is best for the throughput of all, do more together than in turns. The best partner comes first, then, if the
 * curves say so, a third, and so on. Nobody may lose by it: side by side each must have about what its weight would
 * give it in turns, and whoever has a higher priority nearly what it has alone.
 *
 * What is expected of kernels side by side is the product of how far its SMs take each (profile) and how much the
 * others slow it (pairs). Where a pair was not measured, Slate's table guesses: "corun" is believed; "solo" is not
 * believed where the curves promise a gain, but tried and measured. Two that could take turns do so first, and each
 * split is compared with the turns right before it.
 *
 * Splits are found by dynamic programming over units of `granularity` SMs: best[i][u] is the most that the members up
 * to the i-th can do on u units. What a member does depends on its own units only, so this finds the best of all
 * splits.
 */
#include "team.h"

#include <string.h>

enum {
    MOST_TRIED = 16,    /* candidates for the third place and the ones after it */
    COMPARED_BY = 3,    /* so many comparisons of splits with turns decide, */
    MOST_DOUBLINGS = 10 /* and then there are fewer and fewer */
};

static bool has_member(const struct team *team, size_t contender) {
    for (size_t i = 0; i < team->count; i++)
        if (team->members[i] == contender)
            return true;
    return false;
}

/* ---- what side by side gives ---- */

static const gs_pair *pair_of(const question *q, const gs_contender *a, const gs_contender *b) {
    return q->store ? gs_profile_store_pair(q->store, a->profile->key, b->profile->key) : NULL;
}

static bool is_measured(const question *q, const gs_pair *pair) {
    double samples = 0;
    for (int i = 0; pair && i < GS_PAIR_SPLITS; i++)
        samples += pair->splits[i].samples;
    return samples > 0 && samples >= q->options->trials;
}

/* Whether it is to be measured what turns give: before a first split, after each of the first few, and then after 2, 4,
   8... splits. A GPU that changed its clock meanwhile would make what ran later seem better, or worse. */
static bool are_turns_due(const question *q, const gs_pair *pair) {
    if (!pair || pair->last_turns == 0 || pair->turns_samples < q->options->trials)
        return true;
    uint64_t more = pair->gains.count > COMPARED_BY ? pair->gains.count - COMPARED_BY : 0;
    return pair->splits_since >= UINT64_C(1) << gs_min(more, MOST_DOUBLINGS);
}

/* Whether splits were seen to give no more than the turns before them. */
static bool is_no_gain(const question *q, const gs_pair *pair) {
    return gs_samples_kept(&pair->gains) >= COMPARED_BY && gs_samples_median(&pair->gains) < 1 + q->options->least_gain;
}

static bool table_allows(const gs_contender *a, const gs_contender *b) {
    return gs_table_says_corun(gs_profile_compute(a->profile), gs_profile_memory(a->profile),
                               gs_profile_compute(b->profile), gs_profile_memory(b->profile));
}

/* So many SMs a member may have at most: its client's cap, shared with the client's other members. */
static int32_t most_sms(const question *q, const struct team *team, size_t i) {
    int32_t sharing = 0;
    for (size_t j = 0; j < team->count; j++)
        sharing += member(q, team, j)->client == member(q, team, i)->client;
    int32_t cap = cap_of(q, member(q, team, i));
    return cap < q->all ? (int32_t)gs_min(cap / sharing, q->sms) : q->sms;
}

/* The share that a member must have, or side by side is not fair to it. */
static double least_share(const question *q, const struct team *team, size_t i) {
    const gs_contender *c = member(q, team, i);
    double weights = 0;
    bool is_above = false;
    for (size_t j = 0; j < team->count; j++) {
        const gs_contender *other = member(q, team, j);
        if (other->priority > c->priority)
            return 0;
        is_above |= other->priority < c->priority;
        weights += other->priority == c->priority ? weight_of(other) : 0;
    }
    double alone = gs_profile_share(c->profile, cap_of(q, c)) * weight_of(c) / weights;
    return alone * (is_above ? q->options->priority_floor : 1 - q->options->fair_slack);
}

/* How much the other members slow a member with so many SMs. */
static double slowed(const question *q, const struct team *team, const gs_pair *const *pairs, size_t i, int32_t sms) {
    double product = 1, factor;
    for (size_t j = 0; j < team->count; j++)
        if (j != i && pairs[j] && gs_pair_factor(pairs[j], member(q, team, i)->profile, sms, &factor))
            product *= factor;
    return product;
}

double gs_team_share(const question *q, const struct team *team, size_t i, int32_t sms) {
    const gs_pair *pairs[GS_PLAN_TOGETHER];
    for (size_t j = 0; j < team->count; j++)
        pairs[j] = j == i ? NULL : pair_of(q, member(q, team, i), member(q, team, j));
    return gs_profile_share(member(q, team, i)->profile, sms) * slowed(q, team, pairs, i, sms);
}

/* ---- the best split of a team ---- */

struct split {
    double share[GS_PLAN_TOGETHER][GS_TEAM_UNITS + 1]; /* of a member on so many units */
    double best[GS_PLAN_TOGETHER][GS_TEAM_UNITS + 1];  /* of all members up to this one */
    uint8_t units[GS_PLAN_TOGETHER][GS_TEAM_UNITS + 1];
};

static int32_t sms_of_units(const question *q, int32_t units, int32_t most) {
    int32_t sms = units * q->granularity;
    return sms < most ? sms : most;
}

/* What a member does on 1, 2, ... units; impossible where that is not fair. */
static void fill_shares(const question *q, const struct team *team, size_t i, double *share) {
    const gs_contender *c = member(q, team, i);
    const gs_pair *pairs[GS_PLAN_TOGETHER];
    int32_t most = most_sms(q, team, i);
    double least = least_share(q, team, i) - 1e-9;
    for (size_t j = 0; j < team->count; j++)
        pairs[j] = j == i ? NULL : pair_of(q, c, member(q, team, j));
    share[0] = GS_TEAM_IMPOSSIBLE;
    gs_profile_shares(c->profile, q->granularity, q->units, most, share + 1);
    for (int32_t units = 1; units <= q->units; units++) {
        share[units] *= slowed(q, team, pairs, i, sms_of_units(q, units, most));
        if (share[units] < least || most < 1)
            share[units] = GS_TEAM_IMPOSSIBLE;
    }
}

/* What the members up to the i-th do on `all` units at best. */
static void find_best(struct split *split, size_t i, int32_t all) {
    double best = GS_TEAM_IMPOSSIBLE;
    for (int32_t own = 1; own < all; own++) {
        double share = split->share[i][own], others = split->best[i - 1][all - own];
        if (share == GS_TEAM_IMPOSSIBLE || others == GS_TEAM_IMPOSSIBLE || share + others <= best)
            continue;
        best = share + others;
        split->units[i][all] = (uint8_t)own;
    }
    split->best[i][all] = best;
}

/* SMs that are left, because the units do not come out even or somebody has a cap, go to whoever may have more. */
static void give_rest(const question *q, struct team *team) {
    int32_t left = q->sms;
    for (size_t i = 0; i < team->count; i++)
        left -= team->sms[i];
    for (size_t i = 0; i < team->count && left > 0; i++) {
        int32_t more = (int32_t)gs_min(left, most_sms(q, team, i) - team->sms[i]);
        team->sms[i] += more;
        left -= more;
    }
}

static void find_split(const question *q, struct team *team) {
    struct split split;
    for (size_t i = 0; i < team->count; i++) {
        fill_shares(q, team, i, split.share[i]);
        for (int32_t all = i + 1 < team->count ? 0 : q->units; i > 0 && all <= q->units; all++)
            find_best(&split, i, all);
        if (i == 0)
            memcpy(split.best[0], split.share[0], sizeof split.best[0]);
    }
    team->throughput = split.best[team->count - 1][q->units];
    if (team->throughput == GS_TEAM_IMPOSSIBLE)
        return;
    int32_t left = q->units;
    for (size_t i = team->count; i-- > 0;) {
        int32_t own = i > 0 ? split.units[i][left] : left;
        team->sms[i] = sms_of_units(q, own, most_sms(q, team, i));
        left -= own;
    }
    give_rest(q, team);
}

/* ---- partners ---- */

struct team gs_team_lone(const question *q, size_t leader) {
    struct team team = {.members = {leader}, .count = 1};
    const gs_contender *c = &q->contenders[leader];
    team.sms[0] = most_sms(q, &team, 0);
    team.throughput = is_known(c) ? gs_profile_share(c->profile, team.sms[0]) : 1;
    return team;
}

/* What the kernels of the team and one more would give in turns. */
static double in_turns(const question *q, const struct team *team, const gs_contender *c) {
    if (team->count > 1)
        return team->throughput;
    const gs_contender *lead = member(q, team, 0);
    const gs_pair *pair = pair_of(q, lead, c);
    double weight = weight_of(lead), more = weight_of(c);
    double alone = gs_profile_share(c->profile, cap_of(q, c));
    double mean = (weight * team->throughput + more * alone) / (weight + more);
    return pair && pair->turns_samples >= q->options->trials ? mean * pair->turns : mean;
}

static bool go_together(const question *q, const gs_contender *a, const gs_contender *b) {
    return is_measured(q, pair_of(q, a, b)) || table_allows(a, b);
}

/* Whether a contender may run beside all members, and all that run whole: they are measured, or the table says so. Two
   that the table would not let together may be tried. */
static bool may_join(const question *q, struct team *team, const gs_contender *c) {
    team->is_trial = false;
    for (size_t i = 0; i < q->count; i++) {
        const gs_contender *other = &q->contenders[i];
        if (is_whole_now(other) && !has_member(team, i) && (!is_known(other) || !go_together(q, other, c)))
            return false;
    }
    for (size_t i = 0; i < team->count; i++) {
        if (go_together(q, member(q, team, i), c))
            continue;
        if (team->count > 1)
            return false;
        team->is_trial = true;
    }
    return true;
}

/* Whether two had better be sent to the GPU whole, one behind the other: nobody is split for the sake of a short one,
   before others are it must be known what that gives, and where splits gave no more they are not. */
static bool are_queued(const question *q, const gs_contender *a, const gs_contender *b) {
    int64_t longest = duration_of(a) > duration_of(b) ? duration_of(a) : duration_of(b);
    if (longest > q->options->yield_ns || cap_of(q, a) < q->all || cap_of(q, b) < q->all)
        return false;
    const gs_pair *pair = pair_of(q, a, b);
    bool are_only = q->store && q->count == 2 && a->priority == b->priority;
    return is_short(q, a) || is_short(q, b) || (are_only && (are_turns_due(q, pair) || is_no_gain(q, pair)));
}

/* The team with one more, or impossible. */
static struct team with(const question *q, const struct team *before, size_t contender) {
    const gs_contender *c = &q->contenders[contender];
    struct team after = *before;
    after.throughput = GS_TEAM_IMPOSSIBLE;
    if (are_queued(q, member(q, before, 0), c) || !may_join(q, &after, c))
        return after;
    double least = in_turns(q, before, c);
    least = is_short(q, c) || is_short(q, member(q, before, 0)) ? least - 1e-9 : least * (1 + q->options->least_gain);
    after.members[after.count++] = contender;
    find_split(q, &after);
    if (after.throughput < least)
        after.throughput = GS_TEAM_IMPOSSIBLE;
    return after;
}

int32_t gs_team_probe(const question *q, const gs_contender *c) {
    if (!q->options->probes || !c->can_confine || !is_known(c) || is_short(q, c))
        return 0;
    int32_t wanted = gs_profile_wanted(c->profile, q->granularity);
    return wanted <= cap_of(q, c) && duration_of(c) > 2 * q->options->resize_ns ? wanted : 0;
}

bool gs_team_would_form(const question *q, size_t a, size_t b) {
    question all = *q;
    all.sms = q->all;
    all.units = q->all / q->granularity;
    if (!is_known(&q->contenders[a]) || !is_known(&q->contenders[b]) || q->options->most_together < 2)
        return false;
    struct team lone = gs_team_lone(&all, a);
    return with(&all, &lone, b).throughput != GS_TEAM_IMPOSSIBLE;
}

/* Those that may be considered at all. What is about to be learned is better looked at alone. */
static bool is_candidate(const question *q, const struct team *team, size_t contender) {
    const gs_contender *c = &q->contenders[contender];
    if (has_member(team, contender) || !is_known(c) || is_whole_now(c))
        return false;
    if (c->state == GS_CONTENDER_EXPECTED && (c->how == GS_PLAN_WAIT || c->sms <= 0))
        return false;
    return gs_team_probe(q, c) == 0;
}

struct ranking {
    size_t contenders[MOST_TRIED];
    double throughput[MOST_TRIED];
    size_t count;
};

static void rank(struct ranking *ranking, size_t contender, double throughput) {
    size_t at = ranking->count < MOST_TRIED ? ranking->count++ : MOST_TRIED;
    for (; at > 0 && ranking->throughput[at - 1] < throughput; at--)
        if (at < MOST_TRIED) {
            ranking->contenders[at] = ranking->contenders[at - 1];
            ranking->throughput[at] = ranking->throughput[at - 1];
        }
    if (at < MOST_TRIED) {
        ranking->contenders[at] = contender;
        ranking->throughput[at] = throughput;
    }
}

struct team gs_team_best(const question *q, size_t leader) {
    struct ranking ranking = {.count = 0};
    struct team lone = gs_team_lone(q, leader), best = lone;
    size_t most = q->most_together;
    for (size_t i = 0; i < q->count && most > 1; i++) {
        if (!is_candidate(q, &lone, i))
            continue;
        struct team pair = with(q, &lone, i);
        if (pair.throughput == GS_TEAM_IMPOSSIBLE)
            continue;
        rank(&ranking, i, pair.throughput);
        if (best.count == 1 || pair.throughput > best.throughput)
            best = pair;
    }
    for (size_t i = 0; i < ranking.count && best.count < most && !best.is_trial; i++) {
        if (has_member(&best, ranking.contenders[i]))
            continue;
        struct team more = with(q, &best, ranking.contenders[i]);
        if (more.throughput != GS_TEAM_IMPOSSIBLE && !more.is_trial)
            best = more;
    }
    return best;
}

/* Whether all members are in place, and known, and none has more than it may. */
static bool is_running(const question *q, const struct team *team) {
    int32_t sum = 0;
    for (size_t i = 0; i < team->count; i++) {
        const gs_contender *c = member(q, team, i);
        if (!is_placed_now(c) || !is_known(c) || c->sms > most_sms(q, team, i))
            return false;
        sum += c->sms;
    }
    return sum <= q->sms;
}

struct team gs_team_now(const question *q, size_t leader) {
    struct team now = {.members = {leader}, .count = 1, .throughput = GS_TEAM_IMPOSSIBLE};
    double throughput = 0;
    for (size_t i = 0; i < q->count && now.count < GS_PLAN_TOGETHER; i++)
        if (i != leader && is_placed_now(&q->contenders[i]))
            now.members[now.count++] = i;
    if (!is_running(q, &now) || (now.count == 2 && are_queued(q, member(q, &now, 0), member(q, &now, 1))))
        return now;
    for (size_t i = 0; i < now.count; i++) {
        now.sms[i] = member(q, &now, i)->sms;
        double share = gs_team_share(q, &now, i, now.sms[i]);
        if (now.count > 1 && share < least_share(q, &now, i) - q->options->fair_slack)
            return now;
        throughput += share;
    }
    now.throughput = throughput;
    now.is_trial = now.count == 2 && !go_together(q, member(q, &now, 0), member(q, &now, 1));
    return now;
}
