/*
 * team.c: which kernels complement each other, and how they should split the SMs.
 *
 * A team has a leader, which runs in any case. Each other contender is considered as its partner, with the split of the
 * SMs that gives the highest throughput; the best one joins if the two have a higher throughput than in sequence. Then
 * a third joins if that gives still more, and so on. A team must be fair: each member must have about its weighted
 * share in sequence, and a member of higher priority nearly the share that it has alone.
 *
 * The expected share of a member is its share on its SMs (profile) times its slowdown by the others (pairs). If a pair
 * was not measured, Slate's table decides: "corun" is accepted; "solo" is tried and measured if the curves promise a
 * gain. Two kernels short enough to run whole run in sequence before their SMs are split, and each split is compared
 * with the sequence right before it.
 *
 * Splits are found by dynamic programming over units of `granularity` SMs: best[i][u] is the highest throughput of the
 * members up to the i-th on u units. The share of a member depends only on its own units, so this is the best split.
 *
 * Two members may also share all SMs, each with a number of workers per SM (intra-SM sharing, intra_sm.c).
 */
#include "team.h"

#include <math.h>
#include <string.h>

enum {
    MOST_RANKED = 16,   /* candidates for a third member and more */
    COMPARISONS = 3,    /* of splits with sequences, before they count */
    MOST_DOUBLINGS = 10 /* of the number of splits between two comparisons */
};

static bool has_member(const struct team *team, size_t candidate) {
    for (size_t i = 0; i < team->count; i++)
        if (team->members[i] == candidate)
            return true;
    return false;
}

/* ---- kernels side by side ---- */

static const gs_pair *pair_of(const gs_decide_query *query, const gs_contender *a, const gs_contender *b) {
    return query->store ? gs_profile_store_pair(query->store, a->profile->key, b->profile->key) : NULL;
}

static bool is_measured(const gs_decide_query *query, const gs_pair *pair) {
    double samples = 0;
    for (int i = 0; pair && i < GS_PAIR_SPLITS; i++)
        samples += pair->splits[i].samples;
    return samples > 0 && samples >= query->options->trials;
}

/* Whether to measure the kernels in sequence: before the first split, after each of the first few, and then after 2, 4,
   8... splits. A split and a sequence that are far apart in time cannot be compared, because GPUs change their
   clocks. */
static bool are_turns_due(const gs_decide_query *query, const gs_pair *pair) {
    if (!pair || pair->last_serial == 0 || pair->serial_samples < query->options->trials)
        return true;
    uint64_t doublings = gs_max_u64(pair->gains.count, COMPARISONS) - COMPARISONS;
    return pair->splits_since >= UINT64_C(1) << gs_min_u64(doublings, MOST_DOUBLINGS);
}

/* Whether splits were measured to be no better than the sequences before them. */
static bool is_no_gain(const gs_decide_query *query, const gs_pair *pair) {
    return gs_samples_kept(&pair->gains) >= COMPARISONS &&
           gs_samples_median(&pair->gains) < 1 + query->options->least_gain;
}

static bool table_allows(const gs_contender *a, const gs_contender *b) {
    return gs_table_says_corun(gs_profile_compute(a->profile), gs_profile_memory(a->profile),
                               gs_profile_compute(b->profile), gs_profile_memory(b->profile));
}

/* The most SMs that a member may have. A client's cap is divided among its members. */
static int32_t most_sms(const gs_decide_query *query, const struct team *team, size_t i) {
    int32_t sharing = 0;
    for (size_t j = 0; j < team->count; j++)
        sharing += member(query, team, j)->client == member(query, team, i)->client;
    int32_t cap = cap_of(query, member(query, team, i));
    return cap < query->all ? (int32_t)gs_min(cap / sharing, query->sms) : query->sms;
}

/* The share that a member must have for the team to be fair. */
static double least_share(const gs_decide_query *query, const struct team *team, size_t i) {
    const gs_contender *contender = member(query, team, i);
    double weights = 0;
    bool has_lower = false;
    for (size_t j = 0; j < team->count; j++) {
        const gs_contender *other = member(query, team, j);
        if (other->priority > contender->priority)
            return 0;
        has_lower |= other->priority < contender->priority;
        weights += other->priority == contender->priority ? weight_of(other) : 0;
    }
    double alone = gs_profile_share(contender->profile, cap_of(query, contender)) * weight_of(contender) / weights;
    return alone * (has_lower ? query->options->priority_floor : 1 - query->options->fair_slack);
}

/* The slowdown of a member with `sms` SMs by the other members; 1: none. */
static double slowdown_of(const gs_decide_query *query, const struct team *team, const gs_pair *const *pairs, size_t i,
                          int32_t sms) {
    double product = 1, factor;
    for (size_t j = 0; j < team->count; j++)
        if (j != i && pairs[j] && gs_pair_factor(pairs[j], member(query, team, i)->profile, sms, &factor))
            product *= factor;
    return product;
}

double gs_team_share(const gs_decide_query *query, const struct team *team, size_t i, int32_t sms) {
    const gs_pair *pairs[GS_DECIDE_TOGETHER];
    for (size_t j = 0; j < team->count; j++)
        pairs[j] = j == i ? NULL : pair_of(query, member(query, team, i), member(query, team, j));
    return gs_profile_share(member(query, team, i)->profile, sms) * slowdown_of(query, team, pairs, i, sms);
}

/* ---- the best split of a team ---- */

struct split {
    double share[GS_DECIDE_TOGETHER][GS_TEAM_UNITS + 1];  /* of a member on a number of units */
    double best[GS_DECIDE_TOGETHER][GS_TEAM_UNITS + 1];   /* of all members up to this one, on a number of units */
    uint8_t units[GS_DECIDE_TOGETHER][GS_TEAM_UNITS + 1]; /* of this member in that case */
};

static int32_t sms_of_units(const gs_decide_query *query, int32_t units, int32_t most) {
    return (int32_t)gs_min(units * query->granularity, most);
}

/* The share of a member on 1, 2, ... units; impossible if that is not fair. */
static void fill_shares(const gs_decide_query *query, const struct team *team, size_t i, double *share) {
    const gs_contender *contender = member(query, team, i);
    const gs_pair *pairs[GS_DECIDE_TOGETHER];
    int32_t most = most_sms(query, team, i);
    double least = least_share(query, team, i) - 1e-9;
    for (size_t j = 0; j < team->count; j++)
        pairs[j] = j == i ? NULL : pair_of(query, contender, member(query, team, j));
    share[0] = GS_TEAM_IMPOSSIBLE;
    gs_profile_shares(contender->profile, query->granularity, query->units, most, share + 1);
    for (int32_t units = 1; units <= query->units; units++) {
        share[units] *= slowdown_of(query, team, pairs, i, sms_of_units(query, units, most));
        if (share[units] < least || most < 1)
            share[units] = GS_TEAM_IMPOSSIBLE;
    }
}

/* The highest throughput of the members up to the i-th on `all` units. */
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

/* Remaining SMs, because of the units or of a cap, go to the first members that may have more. */
static void give_rest(const gs_decide_query *query, struct team *team) {
    int32_t left = query->sms;
    for (size_t i = 0; i < team->count; i++)
        left -= team->sms[i];
    for (size_t i = 0; i < team->count && left > 0; i++) {
        int32_t more = (int32_t)gs_min(left, most_sms(query, team, i) - team->sms[i]);
        team->sms[i] += more;
        left -= more;
    }
}

static void find_split(const gs_decide_query *query, struct team *team) {
    struct split split;
    for (size_t i = 0; i < team->count; i++) {
        fill_shares(query, team, i, split.share[i]);
        for (int32_t all = i + 1 < team->count ? 0 : query->units; i > 0 && all <= query->units; all++)
            find_best(&split, i, all);
        if (i == 0)
            memcpy(split.best[0], split.share[0], sizeof split.best[0]);
    }
    team->throughput = split.best[team->count - 1][query->units];
    if (team->throughput == GS_TEAM_IMPOSSIBLE)
        return;
    int32_t left = query->units;
    for (size_t i = team->count; i-- > 0;) {
        int32_t own = i > 0 ? split.units[i][left] : left;
        team->sms[i] = sms_of_units(query, own, most_sms(query, team, i));
        left -= own;
    }
    give_rest(query, team);
}

/* ---- partners ---- */

/* The share of a running kernel whose partner has ended. */
static double share_after(const gs_decide_query *query, const gs_contender *contender) {
    bool has_few = contender->state == GS_CONTENDER_RUNS && contender->workers > 0 && query->options->planned;
    return has_few ? gs_planned_after(query->options->planned, contender->profile->name, contender->workers) : 1;
}

struct team gs_team_lone(const gs_decide_query *query, size_t leader) {
    struct team team = {.members = {leader}, .count = 1};
    const gs_contender *contender = &query->contenders[leader];
    team.sms[0] = most_sms(query, &team, 0);
    team.throughput = is_known(contender) ? gs_profile_share(contender->profile, team.sms[0]) : 1;
    team.restarts = is_known(contender) && share_after(query, contender) < 1 - query->options->least_gain;
    return team;
}

/* The throughput without this contender in the team: in sequence with it, or of the team unchanged. */
static double throughput_without(const gs_decide_query *query, const struct team *team, const gs_contender *contender) {
    if (team->count > 1)
        return team->throughput;
    const gs_contender *lead = member(query, team, 0);
    const gs_pair *pair = pair_of(query, lead, contender);
    double weight = weight_of(lead), more = weight_of(contender);
    double alone = gs_profile_share(contender->profile, cap_of(query, contender));
    double mean = (weight * team->throughput + more * alone) / (weight + more);
    return pair && pair->serial_samples >= query->options->trials ? mean * pair->serial : mean;
}

static bool go_together(const gs_decide_query *query, const gs_contender *a, const gs_contender *b) {
    return is_measured(query, pair_of(query, a, b)) || table_allows(a, b);
}

/* Whether a contender may run beside all members, and beside all kernels that run whole: each pair was measured, or the
   table says "corun". A team of two may be a trial. */
static bool may_join(const gs_decide_query *query, struct team *team, const gs_contender *contender) {
    team->is_trial = false;
    for (size_t i = 0; i < query->count; i++) {
        const gs_contender *other = &query->contenders[i];
        if (is_whole_now(other) && !has_member(team, i) && (!is_known(other) || !go_together(query, other, contender)))
            return false;
    }
    for (size_t i = 0; i < team->count; i++) {
        if (go_together(query, member(query, team, i), contender))
            continue;
        if (team->count > 1)
            return false;
        team->is_trial = true;
    }
    return true;
}

static bool may_be_queued(const gs_decide_query *query, const gs_contender *a, const gs_contender *b) {
    return gs_max(duration_of(a), duration_of(b)) <= query->options->yield_ns && cap_of(query, a) == query->all &&
           cap_of(query, b) == query->all;
}

/* Whether two kernels have the GPU to themselves, with the same right to it. */
static bool are_only(const gs_decide_query *query, const gs_contender *a, const gs_contender *b) {
    return query->store && query->count == 2 && a->priority == b->priority;
}

/* Whether two kernels run whole in sequence rather than side by side. They must be short enough for it and have no cap.
   A short kernel does not justify a split of the SMs. Two others that are alone on the GPU run in sequence when that is
   to be measured, and if splits were no better. */
static bool are_queued(const gs_decide_query *query, const gs_contender *a, const gs_contender *b) {
    if (!may_be_queued(query, a, b))
        return false;
    const gs_pair *pair = pair_of(query, a, b);
    return is_short(query, a) || is_short(query, b) ||
           (are_only(query, a, b) && (are_turns_due(query, pair) || is_no_gain(query, pair)));
}

/* Whether a sequence is to be measured again, to compare splits with it. Then the two do not share SMs either: splits,
   which may be better, would not be compared any more. */
static bool is_sequence_awaited(const gs_decide_query *query, const gs_contender *a, const gs_contender *b) {
    const gs_pair *pair = pair_of(query, a, b);
    return may_be_queued(query, a, b) && are_only(query, a, b) && is_measured(query, pair) &&
           are_turns_due(query, pair) && !is_no_gain(query, pair);
}

/* Whether it has SMs, and would have to be resized for another one. */
static bool has_begun(const gs_contender *contender) {
    return contender->state != GS_CONTENDER_WAITS && is_placed_now(contender);
}

int32_t gs_decide_probe(const gs_decide_options *options, const gs_profile *profile) {
    if (!options->probes || !profile || profile->alone <= 0)
        return 0;
    int64_t ns = (int64_t)gs_profile_duration_ns(profile);
    return ns >= options->short_ns && ns > 2 * options->resize_ns ? gs_profile_wanted(profile, options->granularity)
                                                                  : 0;
}

/* On how many SMs a contender should be measured next; 0: its curve is known. */
static int32_t wanted_of(const gs_decide_query *query, const gs_contender *contender) {
    gs_decide_options options = *query->options;
    options.granularity = query->granularity;
    int32_t wanted = contender->can_confine ? gs_decide_probe(&options, contender->profile) : 0;
    return wanted <= cap_of(query, contender) ? wanted : 0;
}

/* Whether one runs with the workers of a pair. On SMs of its own it would have too few: they stay as they are until it
   is stopped. */
static bool has_few_workers(const gs_decide_query *query, const gs_contender *contender) {
    return contender->state == GS_CONTENDER_RUNS && contender->workers > 0 && !query->ignores_places;
}

/* The team with one more member, each on its own SMs, or impossible: also if a curve is not known. A short kernel
   beside one that has its SMs already needs no gain: it would have to wait otherwise. */
static struct team with_split(const gs_decide_query *query, const struct team *before, size_t candidate) {
    const gs_contender *contender = &query->contenders[candidate];
    struct team after = *before;
    after.restarts = false;
    after.throughput = GS_TEAM_IMPOSSIBLE;
    bool are_known = wanted_of(query, contender) == 0 && wanted_of(query, member(query, before, 0)) == 0;
    bool has_few = has_few_workers(query, contender) || has_few_workers(query, member(query, before, 0));
    if (!are_known || has_few || are_queued(query, member(query, before, 0), contender) ||
        !may_join(query, &after, contender))
        return after;
    const gs_contender *lead = member(query, before, 0);
    bool has_short = (is_short(query, contender) && has_begun(lead)) || (is_short(query, lead) && has_begun(contender));
    bool is_ahead = lead->lets_pass || contender->lets_pass;
    double least = throughput_without(query, before, contender);
    least = has_short && !is_ahead ? least - 1e-9 : least * (1 + query->options->least_gain);
    after.members[after.count++] = candidate;
    find_split(query, &after);
    if (after.throughput < least)
        after.throughput = GS_TEAM_IMPOSSIBLE;
    return after;
}

/* ---- intra-SM sharing ---- */

/* Whether a contender can have a given number of workers on all SMs. One that runs whole cannot. One that is confined
   with another number is stopped first (`place_team` in decide.c). */
static bool may_share(const gs_decide_query *query, const gs_contender *contender) {
    bool can = contender->can_share && cap_of(query, contender) == query->all && !is_short(query, contender);
    return can &&
           (contender->state != GS_CONTENDER_RUNS || query->ignores_places || contender->how == GS_DECIDE_CONFINED);
}

/* Whether one of the two now has only a part of the SMs. */
static bool is_beside_now(const gs_decide_query *query, const struct team *team) {
    for (size_t i = 0; i < 2; i++) {
        const gs_contender *contender = member(query, team, i);
        if (contender->state == GS_CONTENDER_RUNS && contender->how == GS_DECIDE_CONFINED &&
            contender->sms < query->all)
            return true;
    }
    return false;
}

/* Whether the leader would have to stop first. If there are others, it would lose its time slice. */
static bool would_stop_leader(const gs_decide_query *query, const struct team *team, const gs_intra_sm_way *way) {
    const gs_contender *leader = member(query, team, 0);
    return leader->state == GS_CONTENDER_RUNS && !query->ignores_places && leader->workers != way->workers[0];
}

/* Whether a member may have less than its share in sequence: its client lacks no more than half of what the other's may
   be ahead, or all of that if the two run together already. */
static bool can_wait(const gs_decide_query *query, const struct team *team, size_t i) {
    const gs_contender *one = member(query, team, i), *other = member(query, team, !i);
    bool are_together = is_placed_now(one) && is_placed_now(other);
    double lead = (double)query->all * (double)query->options->lead_ns / weight_of(one);
    return served_for_weight(one) + (are_together ? lead : lead / 2) >= served_for_weight(other);
}

/* The share that the leader, or the one that goes first, must have on the same SMs unless it can wait. Where others
   wait, it needs nearly what it has alone, and the more of them, the nearer: they pay for its partner. */
static double least_inside(const gs_decide_query *query, const struct team *team, size_t i) {
    double waiting = (double)(query->count > 2 ? query->count - 2 : 0);
    return least_share(query, team, i) * (2 - 2 / (waiting + 2));
}

/* Whether both members can have their workers of this way; and the leader, and the one that goes first, its share in
   sequence, unless it can wait for it. Any other one would wait while the leader runs alone: every share is more. A
   trial, which measures the shares, waits until there is no third kernel, and does not end a split, because that has a
   gain. */
static bool way_suits(const gs_decide_query *query, const struct team *team, const gs_intra_sm_way *way) {
    if (way->is_trial && (query->count != 2 || is_beside_now(query, team)))
        return false;
    if (query->count > 2 && would_stop_leader(query, team, way))
        return false;
    for (size_t i = 0; i < 2; i++) {
        bool is_served = !way->is_trial && (i == 0 || team->members[i] == query->first);
        bool has_few = way->workers[0] == 0 && has_few_workers(query, member(query, team, i));
        if (has_few || !may_share(query, member(query, team, i)) ||
            (is_served && way->shares[i] < least_inside(query, team, i) && !can_wait(query, team, i)))
            return false;
    }
    return true;
}

/* Whether all running members run in this way. */
static bool is_used_now(const gs_decide_query *query, const struct team *team, const gs_intra_sm_way *way) {
    for (size_t i = 0; i < 2; i++)
        if (member(query, team, i)->state == GS_CONTENDER_RUNS && member(query, team, i)->workers != way->workers[i])
            return false;
    return true;
}

/* Short kernels never share SMs. */
double gs_team_promise(const gs_decide_query *query, const gs_profile *one, const gs_profile *other) {
    gs_intra_sm_way ways[GS_INTRA_SM_WAYS];
    bool is_long = (int64_t)gs_profile_duration_ns(one) >= query->options->short_ns &&
                   (int64_t)gs_profile_duration_ns(other) >= query->options->short_ns;
    size_t count = is_long ? gs_intra_sm_ways(query->options, query->store, one, other, ways) : 0;
    double best = 0;
    for (size_t i = 0; i < count; i++)
        best = ways[i].is_trial ? best : fmax(best, ways[i].shares[0] + ways[i].shares[1]);
    return best;
}

/* What the launches behind a contender could save beside `other`, and cannot when `used_ns` of that are done: the most
   for one of them. */
static double forgone_ns(const gs_decide_query *query, const gs_contender *contender, const gs_contender *other,
                         double used_ns) {
    double most = 0, left = left_ns(other);
    for (int i = 0; i < GS_DECIDE_COMING && contender->coming[i]; i++) {
        double ns = (double)gs_profile_duration_ns(contender->coming[i]);
        double lost = fmin(left, ns) - fmin(left - used_ns, ns);
        if (lost > 0)
            most = fmax(most, lost * (gs_team_promise(query, contender->coming[i], other->profile) - 1));
    }
    return most;
}

/* What it costs that the launch behind the one that ends first gains nothing beside the other, and so stops it. Half of
   that where it is not known. */
static double stop_ns(const gs_decide_query *query, const gs_contender *first, const gs_contender *other,
                      double rest_ns) {
    double cost_ns = (double)query->options->resize_ns, least = 1 + query->options->least_gain;
    if (rest_ns <= cost_ns || (first->coming[0] && gs_team_promise(query, first->coming[0], other->profile) >= least))
        return 0;
    return first->coming[0] ? cost_ns : cost_ns / 2;
}

/* What launches behind a third contender could save beside a member, of which `used_ns` would be done. It would go
   first then, unless its client is ahead. */
static double forgone_beside_third_ns(const gs_decide_query *query, const struct team *team, size_t i, double used_ns) {
    const gs_contender *one = member(query, team, i);
    double most = 0;
    for (size_t k = 0; k < query->count; k++) {
        const gs_contender *third = &query->contenders[k];
        if (!has_member(team, k) && third->state != GS_CONTENDER_EXPECTED && is_known(third) &&
            third->priority == one->priority && !third->lets_pass)
            most = fmax(most, forgone_ns(query, third, one, used_ns));
    }
    return most;
}

/* Whether two kernels that share SMs save at least as much as each could save beside launches behind the other, or
   behind a third one, and what stopping one of them costs. A trial does: it hopes for all of it. */
static bool saves_most(const gs_decide_query *query, const struct team *team, const double *shares) {
    const gs_contender *a = member(query, team, 0), *b = member(query, team, 1);
    double ns = fmin(left_ns(a) / shares[0], left_ns(b) / shares[1]);
    double forgone = fmax(forgone_ns(query, a, b, ns * shares[1]), forgone_ns(query, b, a, ns * shares[0]));
    for (size_t i = 0; i < 2; i++)
        forgone = fmax(forgone, forgone_beside_third_ns(query, team, i, ns * shares[i]));
    double rest_a = left_ns(a) - ns * shares[0], rest_b = left_ns(b) - ns * shares[1];
    double stop = rest_a < rest_b ? stop_ns(query, a, b, rest_b) : stop_ns(query, b, a, rest_a);
    double least = forgone + (team->is_trial ? 0 : stop);
    return least <= 0 || (team->throughput - 1) * ns >= least;
}

/* The two members share all SMs in the best way that suits both; `is_now`: only in the way they already use. False:
   there is none, or launches to come save more. */
static bool share_inside(const gs_decide_query *query, struct team *team, bool is_now) {
    const gs_contender *lead = member(query, team, 0), *other = member(query, team, 1);
    gs_intra_sm_way ways[GS_INTRA_SM_WAYS];
    size_t count = query->sms == query->all && lead->priority == other->priority
                       ? gs_intra_sm_ways(query->options, query->store, lead->profile, other->profile, ways)
                       : 0;
    const double *shares = NULL;
    team->throughput = GS_TEAM_IMPOSSIBLE;
    for (size_t i = 0; i < count; i++) {
        double throughput = ways[i].shares[0] + ways[i].shares[1];
        if (throughput <= team->throughput || !way_suits(query, team, &ways[i]) ||
            (is_now && !is_used_now(query, team, &ways[i])))
            continue;
        team->throughput = throughput;
        shares = ways[i].shares;
        team->is_intra_sm = ways[i].workers[0] > 0;
        team->is_trial = ways[i].is_trial;
        memcpy(team->workers, ways[i].workers, sizeof team->workers);
        for (size_t k = 0; k < 2; k++)
            team->sms[k] = ways[i].sms[k] > 0 ? ways[i].sms[k] : query->all;
    }
    return team->throughput != GS_TEAM_IMPOSSIBLE &&
           (is_now || query->ignores_places || saves_most(query, team, shares));
}

static bool may_be_inside(const gs_decide_query *query) {
    return query->options->planned || query->options->tries_intra_sm;
}

static struct team with_inside(const gs_decide_query *query, const struct team *before, size_t candidate) {
    struct team after = *before;
    after.restarts = false;
    double least = throughput_without(query, before, &query->contenders[candidate]);
    if (before->count == 1)
        after.members[after.count++] = candidate;
    if (before->count != 1 || is_sequence_awaited(query, member(query, before, 0), &query->contenders[candidate]) ||
        !share_inside(query, &after, false) || after.throughput < least * (1 + query->options->least_gain))
        after.throughput = GS_TEAM_IMPOSSIBLE;
    return after;
}

/* The team with one more member, or impossible. */
static struct team team_with(const gs_decide_query *query, const struct team *before, size_t candidate) {
    struct team split = with_split(query, before, candidate);
    if (!may_be_inside(query) || before->count != 1)
        return split;
    struct team inside = with_inside(query, before, candidate);
    return inside.throughput > split.throughput ? inside : split;
}

int32_t gs_team_probe(const gs_decide_query *query, const gs_contender *contender) {
    bool holds_others = query->count > 1 && duration_of(contender) <= query->options->yield_ns;
    return holds_others ? 0 : wanted_of(query, contender);
}

/* The same question as if nothing ran. */
static gs_decide_query query_afresh(const gs_decide_query *query) {
    gs_decide_query all = *query;
    all.sms = query->all;
    all.units = query->all / query->granularity;
    all.ignores_places = true;
    return all;
}

bool gs_team_would_share(const gs_decide_query *query, size_t a, size_t b) {
    gs_decide_query all = query_afresh(query);
    all.first = a;
    struct team lone = gs_team_lone(&all, a);
    return may_be_inside(&all) && query->options->most_together > 1 &&
           with_inside(&all, &lone, b).throughput != GS_TEAM_IMPOSSIBLE;
}

bool gs_team_would_form(const gs_decide_query *query, size_t a, size_t b) {
    gs_decide_query all = query_afresh(query);
    if (!is_known(&query->contenders[a]) || !is_known(&query->contenders[b]) || query->options->most_together < 2)
        return false;
    struct team lone = gs_team_lone(&all, a);
    return team_with(&all, &lone, b).throughput != GS_TEAM_IMPOSSIBLE;
}

/* Whether a contender can be a partner at all. One that is to be probed cannot: probes run alone. */
static bool is_candidate(const gs_decide_query *query, const struct team *team, size_t candidate) {
    const gs_contender *contender = &query->contenders[candidate];
    if (has_member(team, candidate) || !is_known(contender) || is_whole_now(contender))
        return false;
    if (contender->state == GS_CONTENDER_EXPECTED && (contender->how == GS_DECIDE_WAIT || contender->sms <= 0))
        return false;
    return gs_team_probe(query, contender) == 0;
}

/* The best partners, best first. */
struct ranking {
    size_t contenders[MOST_RANKED];
    double throughput[MOST_RANKED];
    size_t count;
};

static void rank_candidate(struct ranking *ranking, size_t candidate, double throughput) {
    size_t at = ranking->count < MOST_RANKED ? ranking->count++ : MOST_RANKED;
    for (; at > 0 && ranking->throughput[at - 1] < throughput; at--)
        if (at < MOST_RANKED) {
            ranking->contenders[at] = ranking->contenders[at - 1];
            ranking->throughput[at] = ranking->throughput[at - 1];
        }
    if (at < MOST_RANKED) {
        ranking->contenders[at] = candidate;
        ranking->throughput[at] = throughput;
    }
}

/* Among equally good partners, such as the same kernel of several clients, the one whose client was served least. */
static bool is_better(const gs_decide_query *query, const struct team *pair, const struct team *best) {
    static const double SAME = 1e-9;
    if (best->count == 1 || fabs(pair->throughput - best->throughput) > SAME)
        return best->count == 1 || pair->throughput > best->throughput;
    return served_for_weight(member(query, pair, 1)) < served_for_weight(member(query, best, 1));
}

struct team gs_team_best(const gs_decide_query *query, size_t leader) {
    struct ranking ranking = {.count = 0};
    struct team lone = gs_team_lone(query, leader), best = lone;
    size_t most = query->most_together;
    for (size_t i = 0; i < query->count && most > 1; i++) {
        if (!is_candidate(query, &lone, i))
            continue;
        struct team pair = team_with(query, &lone, i);
        if (pair.throughput == GS_TEAM_IMPOSSIBLE)
            continue;
        rank_candidate(&ranking, i, pair.throughput);
        if (is_better(query, &pair, &best))
            best = pair;
    }
    for (size_t i = 0; i < ranking.count && best.count < most && !best.is_trial && !best.is_intra_sm; i++) {
        if (has_member(&best, ranking.contenders[i]))
            continue;
        struct team more = team_with(query, &best, ranking.contenders[i]);
        if (more.throughput != GS_TEAM_IMPOSSIBLE && !more.is_trial)
            best = more;
    }
    return best;
}

double gs_team_inside(const gs_decide_query *query, size_t leader) {
    struct team lone = gs_team_lone(query, leader);
    double best = GS_TEAM_IMPOSSIBLE;
    for (size_t i = 0; i < query->count && may_be_inside(query); i++)
        if (is_candidate(query, &lone, i))
            best = fmax(best, with_inside(query, &lone, i).throughput);
    return best;
}

/* Whether all members have a place and a known profile, and none has more SMs than allowed. */
static bool is_running(const gs_decide_query *query, const struct team *team) {
    int32_t sum = 0;
    for (size_t i = 0; i < team->count; i++) {
        const gs_contender *contender = member(query, team, i);
        if (!is_placed_now(contender) || !is_known(contender) || contender->sms > most_sms(query, team, i))
            return false;
        sum += contender->sms;
    }
    return sum <= query->sms;
}

/* Whether the two members already share SMs, and do no less than in sequence. If they do less, the next launches would
   take their places again and again, each of them too short for a change that costs something. */
static bool is_running_inside(const gs_decide_query *query, struct team *team) {
    for (size_t i = 0; i < team->count; i++)
        if (team->count != 2 || !is_placed_now(member(query, team, i)) || !is_known(member(query, team, i)) ||
            member(query, team, i)->sms != query->all)
            return false;
    struct team lone = gs_team_lone(query, team->members[0]);
    return share_inside(query, team, true) &&
           team->throughput >= throughput_without(query, &lone, member(query, team, 1));
}

struct team gs_team_now(const gs_decide_query *query, size_t leader) {
    struct team now = {.members = {leader}, .count = 1, .throughput = GS_TEAM_IMPOSSIBLE};
    double throughput = 0;
    for (size_t i = 0; i < query->count && now.count < GS_DECIDE_TOGETHER; i++)
        if (i != leader && is_placed_now(&query->contenders[i]))
            now.members[now.count++] = i;
    struct team inside = now;
    if (may_be_inside(query) && is_running_inside(query, &inside))
        return inside;
    if (!is_running(query, &now) ||
        (now.count == 2 && are_queued(query, member(query, &now, 0), member(query, &now, 1))))
        return now;
    for (size_t i = 0; i < now.count; i++) {
        now.sms[i] = member(query, &now, i)->sms;
        double share = gs_team_share(query, &now, i, now.sms[i]);
        bool has_slack = now.count != 2 || i > 0 || can_wait(query, &now, i);
        if (now.count > 1 && share < least_share(query, &now, i) - (has_slack ? query->options->fair_slack : 0))
            return now;
        throughput += now.count == 1 ? share * share_after(query, member(query, &now, 0)) : share;
    }
    now.throughput = throughput;
    now.is_trial = now.count == 2 && !go_together(query, member(query, &now, 0), member(query, &now, 1));
    return now;
}
