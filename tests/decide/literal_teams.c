/*
 * literal_teams.c: a whole decision of src/sharing/decide, written out from docs/plan.md ("A decision") in the most
 * obvious way, and slowly: every split is tried, nothing is kept from one question to the next. See literal_decide.h.
 *
 * The functions are in the order of the document: facts, who goes first, who runs beside it, whether a change is worth
 * it, what runs alone. Sums and products have the order of the fast version, so that ties are ties in both.
 */
#include "literal_decide.h"

#include <math.h>
#include <string.h>

static const double NOTHING = -1; /* the throughput of a team that is not possible */

struct team {
    size_t who[GS_DECIDE_TOGETHER];
    int32_t sms[GS_DECIDE_TOGETHER], workers[2];
    size_t count;
    double throughput;
    bool is_trial, is_inside, restarts;
};

/* A question, and what is left when the kernels that run whole have theirs. */
struct question {
    const literal_query *of;
    const gs_decide_options *options;
    int32_t all, free, unit;
    size_t most;
    bool afresh; /* as if nothing ran */
    size_t first;
};

/* ---- facts ---- */

static const gs_contender *one(const struct question *q, size_t i) {
    return &q->of->contenders[i];
}

static double weight(const gs_contender *c) {
    return c->weight ? c->weight : 1;
}

static int32_t cap(const struct question *q, const gs_contender *c) {
    return c->cap <= 0 || c->cap > q->all ? q->all : c->cap;
}

static bool known(const gs_contender *c) {
    return c->profile != NULL && c->profile->alone > 0;
}

static int64_t takes(const gs_contender *c) {
    return known(c) ? (int64_t)gs_profile_duration_ns(c->profile) : 0;
}

static bool brief(const struct question *q, const gs_contender *c) {
    return known(c) && takes(c) < q->options->short_ns;
}

static bool runs(const gs_contender *c, enum gs_decide_how how) {
    return c->state == GS_CONTENDER_RUNS && c->how == how;
}

static bool expected(const gs_contender *c) {
    return c->state == GS_CONTENDER_EXPECTED;
}

static bool placed(const gs_contender *c) {
    if (c->how == GS_DECIDE_WAIT || c->sms <= 0)
        return false;
    return c->how == GS_DECIDE_CONFINED || expected(c);
}

static const gs_pair *pair_of(const struct question *q, const gs_contender *a, const gs_contender *b) {
    return q->of->store ? gs_profile_store_pair(q->of->store, a->profile->key, b->profile->key) : NULL;
}

/* ---- 1. which contender goes first ---- */

static int64_t rank(const struct question *q, const gs_contender *c) {
    int64_t bonus = q->options->patience_ns > 0 && c->waited_ns > 0 ? c->waited_ns / q->options->patience_ns : 0;
    return c->priority + bonus;
}

static double had(const gs_contender *c) {
    return (double)c->served / weight(c);
}

static bool before(const struct question *q, const gs_contender *a, const gs_contender *b) {
    bool a_keeps = a->state != GS_CONTENDER_WAITS && a->running_ns < q->options->slice_ns && !a->lets_pass;
    bool b_keeps = b->state != GS_CONTENDER_WAITS && b->running_ns < q->options->slice_ns && !b->lets_pass;
    if (rank(q, a) != rank(q, b))
        return rank(q, a) > rank(q, b);
    if (a_keeps != b_keeps)
        return a_keeps;
    return had(a) != had(b) ? had(a) < had(b) : a->arrival < b->arrival;
}

/* All contenders, the first first. */
static void sort_contenders(const struct question *q, size_t *order) {
    for (size_t i = 0; i < q->of->count; i++) {
        size_t at = i;
        for (; at > 0 && before(q, one(q, i), one(q, order[at - 1])); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Whether `c` must not start between two launches of `other`. */
static bool keeps_out(const struct question *q, const gs_contender *other, const gs_contender *c) {
    double lead = c->lets_pass ? 0 : (double)q->all * (double)q->options->lead_ns / weight(c);
    if (other->priority != rank(q, c))
        return other->priority > rank(q, c);
    return had(other) + lead < had(c);
}

static size_t find_leader(const struct question *q, const size_t *order) {
    size_t none = q->of->count, first = none, reserved = none, beside = none, free = none;
    for (size_t i = q->of->count; i-- > 0;) {
        const gs_contender *c = one(q, order[i]);
        if (expected(c)) {
            reserved = placed(c) ? order[i] : reserved;
            continue;
        }
        first = order[i];
        if (!runs(c, GS_DECIDE_WHOLE)) {
            free = order[i];
            beside = placed(c) ? order[i] : beside;
        }
    }
    if (first == none)
        return none;
    if (reserved != none && keeps_out(q, one(q, reserved), one(q, first)) &&
        (one(q, reserved)->priority > rank(q, one(q, first)) || !brief(q, one(q, first))))
        return reserved;
    return runs(one(q, first), GS_DECIDE_WHOLE) && beside != none ? beside : free;
}

/* ---- 2. which run beside it ---- */

static bool is_in(const struct team *team, size_t who) {
    bool is = false;
    for (size_t i = 0; i < team->count; i++)
        is |= team->who[i] == who;
    return is;
}

static int32_t most_sms(const struct question *q, const struct team *team, size_t i) {
    int32_t same = 0, most = cap(q, one(q, team->who[i]));
    for (size_t j = 0; j < team->count; j++)
        same += one(q, team->who[j])->client == one(q, team->who[i])->client;
    most = most == q->all ? most : most / same;
    return most < q->free ? most : q->free;
}

static double fair_share(const struct question *q, const struct team *team, size_t i) {
    const gs_contender *c = one(q, team->who[i]);
    double sum = 0;
    bool lower = false, higher = false;
    for (size_t j = 0; j < team->count; j++) {
        const gs_contender *other = one(q, team->who[j]);
        lower |= other->priority < c->priority;
        higher |= other->priority > c->priority;
        sum += other->priority == c->priority ? weight(other) : 0;
    }
    double alone = gs_profile_share(c->profile, cap(q, c)) * weight(c) / sum;
    return higher ? 0 : alone * (lower ? q->options->priority_floor : 1 - q->options->fair_slack);
}

static double slowed(const struct question *q, const struct team *team, size_t i, int32_t sms) {
    double product = 1, factor;
    for (size_t j = 0; j < team->count; j++) {
        const gs_pair *pair = j != i ? pair_of(q, one(q, team->who[i]), one(q, team->who[j])) : NULL;
        if (pair && gs_pair_factor(pair, one(q, team->who[i])->profile, sms, &factor))
            product *= factor;
    }
    return product;
}

/* The share of member i on this many units; NOTHING: too little. */
static double share_on(const struct question *q, const struct team *team, size_t i, int32_t units) {
    int32_t most = most_sms(q, team, i), sms = units * q->unit < most ? units * q->unit : most;
    double share;
    if (units < 1 || most < 1)
        return NOTHING;
    gs_profile_shares(one(q, team->who[i])->profile, sms, 1, sms, &share);
    share *= slowed(q, team, i, sms);
    return share < fair_share(q, team, i) - 1e-9 ? NOTHING : share;
}

/* Tries everything: the highest throughput of members 0 to i on this many units, and the units of each. */
static double try_splits(double shares[][GS_LITERAL_UNITS + 1], size_t i, int32_t units, int32_t *each) {
    double best = NOTHING;
    int32_t tried[GS_DECIDE_TOGETHER];
    if (i == 0) {
        each[0] = units;
        return shares[0][units];
    }
    for (int32_t own = 1; own < units; own++) {
        double others = shares[i][own] >= 0 ? try_splits(shares, i - 1, units - own, tried) : NOTHING;
        if (others < 0 || shares[i][own] + others <= best)
            continue;
        best = shares[i][own] + others;
        memcpy(each, tried, i * sizeof *each);
        each[i] = own;
    }
    return best;
}

static void split(const struct question *q, struct team *team) {
    double shares[GS_DECIDE_TOGETHER][GS_LITERAL_UNITS + 1];
    int32_t each[GS_DECIDE_TOGETHER], units = q->free / q->unit, left = q->free;
    for (size_t i = 0; i < team->count; i++)
        for (int32_t u = 0; u <= units; u++)
            shares[i][u] = share_on(q, team, i, u);
    team->throughput = try_splits(shares, team->count - 1, units, each);
    if (team->throughput < 0)
        return;
    for (size_t i = 0; i < team->count; i++) {
        int32_t most = most_sms(q, team, i);
        team->sms[i] = each[i] * q->unit < most ? each[i] * q->unit : most;
        left -= team->sms[i];
    }
    for (size_t i = 0; i < team->count; i++)
        while (left > 0 && team->sms[i] < most_sms(q, team, i)) {
            team->sms[i]++;
            left--;
        }
}

/* What the plan says of a kernel that has its workers of a pair, without its partner. */
static double left_alone(const struct question *q, const gs_contender *c) {
    const gs_planned *planned = q->options->planned;
    if (!planned || c->state != GS_CONTENDER_RUNS || c->workers <= 0)
        return 1;
    for (size_t i = 0; i < planned->count; i++)
        for (int at = 0; at < 2; at++) {
            const gs_planned_pair *pair = &planned->data[i];
            if (strcmp(pair->names[at], c->profile->name) == 0 && pair->workers[at] == c->workers &&
                pair->after[at] > 0)
                return pair->after[at];
        }
    return 1;
}

static struct team alone(const struct question *q, size_t who) {
    struct team team = {.who = {who}, .count = 1};
    team.sms[0] = most_sms(q, &team, 0);
    team.throughput = known(one(q, who)) ? gs_profile_share(one(q, who)->profile, team.sms[0]) : 1;
    team.restarts = known(one(q, who)) && left_alone(q, one(q, who)) < 1 - q->options->least_gain;
    return team;
}

/* Measured together, or the table says "corun". */
static bool go_together(const struct question *q, const gs_contender *a, const gs_contender *b) {
    const gs_pair *pair = pair_of(q, a, b);
    double samples = 0;
    for (int i = 0; pair && i < GS_PAIR_SPLITS; i++)
        samples += pair->splits[i].samples;
    return (samples > 0 && samples >= q->options->trials) ||
           gs_table_says_corun(gs_profile_compute(a->profile), gs_profile_memory(a->profile),
                               gs_profile_compute(b->profile), gs_profile_memory(b->profile));
}

/* Until there are `trials`; then after each split, until there were three; then after 2, 4, 8... splits. */
static bool sequence_is_due(const struct question *q, const gs_pair *pair) {
    uint64_t after = 1;
    if (!pair || pair->last_serial == 0 || pair->serial_samples < q->options->trials)
        return true;
    for (uint64_t i = 3; i < pair->gains.count; i++)
        after *= after < 1024 ? 2 : 1;
    return pair->splits_since >= after ||
           (pair->gains.count >= 3 && gs_samples_median(&pair->gains) < 1 + q->options->least_gain);
}

static bool in_sequence(const struct question *q, const gs_contender *a, const gs_contender *b) {
    bool may = takes(a) <= q->options->yield_ns && takes(b) <= q->options->yield_ns && cap(q, a) == q->all &&
               cap(q, b) == q->all;
    bool only_these = q->of->store && q->of->count == 2 && a->priority == b->priority;
    return may && (brief(q, a) || brief(q, b) || (only_these && sequence_is_due(q, pair_of(q, a, b))));
}

/* Whether splits of the two are to be compared with a sequence again: nothing else is chosen then. */
static bool sequence_first(const struct question *q, const gs_contender *a, const gs_contender *b) {
    const gs_pair *pair = pair_of(q, a, b);
    double samples = 0;
    for (int i = 0; pair && i < GS_PAIR_SPLITS; i++)
        samples += pair->splits[i].samples;
    bool gains = pair && (pair->gains.count < 3 || gs_samples_median(&pair->gains) >= 1 + q->options->least_gain);
    return gains && samples > 0 && samples >= q->options->trials && q->of->count == 2 && a->priority == b->priority &&
           in_sequence(q, a, b) && sequence_is_due(q, pair);
}

/* The throughput that the team with this contender is compared with. */
static double otherwise(const struct question *q, const struct team *team, const gs_contender *c) {
    const gs_contender *lead = one(q, team->who[0]);
    if (team->count > 1)
        return team->throughput;
    const gs_pair *pair = pair_of(q, lead, c);
    double mean = (weight(lead) * team->throughput + weight(c) * gs_profile_share(c->profile, cap(q, c))) /
                  (weight(lead) + weight(c));
    return pair && pair->serial_samples >= q->options->trials ? mean * pair->serial : mean;
}

static int32_t wanted_of(const struct question *q, const gs_contender *c) {
    if (!q->options->probes || !c->can_confine || !known(c) || brief(q, c) || takes(c) <= 2 * q->options->resize_ns)
        return 0;
    int32_t wanted = gs_profile_wanted(c->profile, q->unit);
    return wanted <= cap(q, c) ? wanted : 0;
}

/* On SMs of its own it would keep too few workers. */
static bool has_workers_of_a_pair(const struct question *q, const gs_contender *c) {
    return !q->afresh && c->state == GS_CONTENDER_RUNS && c->workers > 0;
}

static struct team with_split(const struct question *q, const struct team *team, size_t who) {
    const gs_contender *c = one(q, who), *lead = one(q, team->who[0]);
    struct team more = *team;
    more.restarts = false;
    bool all_go = true, lead_goes = go_together(q, lead, c);
    more.throughput = NOTHING;
    for (size_t i = 0; i < q->of->count; i++) {
        const gs_contender *other = one(q, i);
        if (is_in(team, i) ? i != team->who[0] : runs(other, GS_DECIDE_WHOLE))
            all_go &= known(other) && go_together(q, other, c);
    }
    if (!all_go || (team->count > 1 && !lead_goes) || in_sequence(q, lead, c) || wanted_of(q, lead) || wanted_of(q, c))
        return more;
    if (has_workers_of_a_pair(q, lead) || has_workers_of_a_pair(q, c))
        return more;
    double least = otherwise(q, team, c);
    more.is_trial = !lead_goes;
    more.who[more.count++] = who;
    split(q, &more);
    bool lead_has = placed(lead) && lead->state != GS_CONTENDER_WAITS,
         has = placed(c) && c->state != GS_CONTENDER_WAITS;
    bool is_squeezed_in = ((brief(q, c) && lead_has) || (brief(q, lead) && has)) && !lead->lets_pass && !c->lets_pass;
    if (more.throughput < (is_squeezed_in ? least - 1e-9 : least * (1 + q->options->least_gain)))
        more.throughput = NOTHING;
    return more;
}

/* ---- 2b. two that share all SMs ---- */

static bool may_share(const struct question *q, const gs_contender *c) {
    return c->can_share && cap(q, c) == q->all && !brief(q, c) &&
           (c->state != GS_CONTENDER_RUNS || q->afresh || c->how == GS_DECIDE_CONFINED);
}

/* How the two can share SMs: as planned; as measured twice or more, with other workers than planned only if that
   may be tried; and as it is to be tried. */
static size_t find_ways(const struct question *q, const gs_profile *a, const gs_profile *b, gs_intra_sm_way *ways) {
    const gs_planned *planned = q->options->planned;
    const gs_pair *pair = q->of->store ? gs_profile_store_pair(q->of->store, a->key, b->key) : NULL;
    bool tries = q->options->tries_intra_sm, is_in_plan = false, is_swapped = a->key > b->key;
    size_t count = 0;
    for (size_t i = 0; planned && i < planned->count; i++)
        for (int at = 0; at < 2 && !is_in_plan; at++) {
            const gs_planned_pair *one_pair = &planned->data[i];
            if (strcmp(one_pair->names[at], a->name) != 0 || strcmp(one_pair->names[!at], b->name) != 0)
                continue;
            is_in_plan = true;
            bool was_split = false;
            for (size_t k = 0; pair && k < GS_PAIR_SPLITS; k++)
                was_split |= pair->splits[k].samples > 0;
            int32_t first = one_pair->first_sms, second = q->all - first;
            bool is_split = one_pair->workers[0] == 0 && first > 0 && second > 0 && !was_split;
            ways[count] = (gs_intra_sm_way){.workers = {one_pair->workers[at], one_pair->workers[!at]},
                                            .shares = {one_pair->shares[at], one_pair->shares[!at]}};
            if (is_split) {
                ways[count].sms[0] = at ? second : first;
                ways[count].sms[1] = at ? first : second;
            }
            count += one_pair->workers[0] != 0 || is_split;
        }
    size_t of_plan = count;
    for (size_t i = 0; pair && i < GS_PAIR_WAYS; i++) {
        const gs_pair_way *way = &pair->ways[i];
        int32_t first = way->workers[is_swapped], second = way->workers[!is_swapped];
        if (way->shares[0].count < 2)
            continue;
        bool is_planned = of_plan && ways[0].workers[0] == first && ways[0].workers[1] == second;
        if (is_planned || tries)
            ways[is_planned ? 0 : count++] = (gs_intra_sm_way){
                .workers = {first, second},
                .shares = {gs_samples_median(&way->shares[is_swapped]), gs_samples_median(&way->shares[!is_swapped])}};
    }
    if (tries && !is_in_plan && pair && pair->next_workers[0] && pair->otherwise > 0 &&
        pair->lost_ns + (double)q->options->trial_ns * 0.5 <= pair->competed_ns * q->options->trial_part)
        ways[count++] = (gs_intra_sm_way){.workers = {pair->next_workers[is_swapped], pair->next_workers[!is_swapped]},
                                          .shares = {1, 1},
                                          .is_trial = true};
    return count;
}

/* Whether its client can do with less than its share for now: the other's is ahead by half of what it may be, or by all
   of it if both have a place. */
static bool can_wait(const struct question *q, const struct team *two, size_t i) {
    const gs_contender *c = one(q, two->who[i]), *other = one(q, two->who[1 - i]);
    double lead = (double)q->all * (double)q->options->lead_ns / weight(c);
    return had(c) + (placed(c) && placed(other) ? lead : lead / 2) >= had(other);
}

/* `now`: only as the two already do. */
static bool suits(const struct question *q, const struct team *two, const gs_intra_sm_way *way, bool now) {
    bool suits = true;
    for (size_t i = 0; i < 2; i++) {
        const gs_contender *c = one(q, two->who[i]);
        bool is_other = c->state == GS_CONTENDER_RUNS && c->workers != way->workers[i];
        bool is_due = i == 0 || two->who[i] == q->first;
        double n = (double)(q->of->count > 2 ? q->of->count : 2), least = fair_share(q, two, i) * 2 * (n - 1) / n;
        suits &= may_share(q, c) && (!is_due || way->is_trial || way->shares[i] >= least || can_wait(q, two, i));
        suits &= way->workers[0] > 0 || !has_workers_of_a_pair(q, c);
        suits &= !(way->is_trial && runs(c, GS_DECIDE_CONFINED) && c->sms < q->all);
        suits &= !(now && is_other) && !(i == 0 && q->of->count > 2 && is_other && !q->afresh);
    }
    return suits && !(way->is_trial && q->of->count != 2);
}

static double left(const gs_contender *c) {
    return (double)c->blocks_left / (c->profile->alone + 1e-30);
}

/* What a launch that is to come gains beside a kernel in a known way; -1: there is none. */
static double gain_of(const struct question *q, const gs_profile *coming, const gs_contender *other) {
    gs_intra_sm_way ways[GS_INTRA_SM_WAYS];
    double gain = -1;
    bool are_long = gs_profile_duration_ns(coming) >= (uint64_t)q->options->short_ns &&
                    gs_profile_duration_ns(other->profile) >= (uint64_t)q->options->short_ns;
    size_t count = are_long ? find_ways(q, coming, other->profile, ways) : 0;
    for (size_t k = 0; k < count; k++)
        if (!ways[k].is_trial)
            gain = fmax(gain, ways[k].shares[0] + ways[k].shares[1] - 1);
    return gain;
}

/* The most that a launch behind `c` saves beside `other` and cannot when that has done `used` more. */
static double lost_to(const struct question *q, const gs_contender *c, const gs_contender *other, double used) {
    double most = 0, has = left(other);
    for (int i = 0; i < GS_DECIDE_COMING && c->coming[i]; i++) {
        double takes_ns = (double)gs_profile_duration_ns(c->coming[i]);
        double lost = fmin(has, takes_ns) - fmin(has - used, takes_ns);
        most = lost > 0 ? fmax(most, lost * gain_of(q, c->coming[i], other)) : most;
    }
    return most;
}

/* Whether launches to come would save more beside one of the two than the two save until the first of them ends; or
   that does not pay for stopping the other one then. */
static bool better_later(const struct question *q, const struct team *two, const double *shares) {
    const gs_contender *both[2] = {one(q, two->who[0]), one(q, two->who[1])};
    double until = fmin(left(both[0]) / shares[0], left(both[1]) / shares[1]), most = 0, stop = 0;
    double rest[2] = {left(both[0]) - until * shares[0], left(both[1]) - until * shares[1]};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < q->of->count; i++) {
            const gs_contender *c = one(q, i);
            bool is_third = c != both[0] && c != both[1];
            if (c == both[k] ||
                (is_third && (expected(c) || !known(c) || c->priority != both[k]->priority || c->lets_pass)))
                continue;
            most = fmax(most, lost_to(q, c, both[k], until * shares[k]));
        }
    int ends = rest[0] < rest[1] ? 0 : 1;
    const gs_profile *next = both[ends]->coming[0];
    if (!two->is_trial && rest[!ends] > (double)q->options->resize_ns)
        stop = !next                                                            ? (double)q->options->resize_ns / 2
               : gain_of(q, next, both[!ends]) < q->options->least_gain - 1e-12 ? (double)q->options->resize_ns
                                                                                : 0;
    return most + stop > 0 && (two->throughput - 1) * until < most + stop;
}

static void share_all(const struct question *q, struct team *two, bool now) {
    const gs_contender *a = one(q, two->who[0]), *b = one(q, two->who[1]);
    gs_intra_sm_way ways[GS_INTRA_SM_WAYS];
    size_t count = find_ways(q, a->profile, b->profile, ways), chosen = 0;
    two->throughput = NOTHING;
    if (q->free < q->all || a->priority != b->priority)
        return;
    for (size_t i = 0; i < count; i++) {
        double throughput = ways[i].shares[0] + ways[i].shares[1];
        if (throughput <= two->throughput || !suits(q, two, &ways[i], now))
            continue;
        chosen = i;
        *two =
            (struct team){.who = {two->who[0], two->who[1]},
                          .sms = {ways[i].sms[0] ? ways[i].sms[0] : q->all, ways[i].sms[1] ? ways[i].sms[1] : q->all},
                          .workers = {ways[i].workers[0], ways[i].workers[1]},
                          .count = 2,
                          .throughput = throughput,
                          .is_trial = ways[i].is_trial,
                          .is_inside = ways[i].workers[0] > 0};
    }
    if (two->throughput >= 0 && !now && !q->afresh && better_later(q, two, ways[chosen].shares))
        two->throughput = NOTHING;
}

static struct team with(const struct question *q, const struct team *team, size_t who) {
    struct team apart = with_split(q, team, who), inside = *team;
    if (team->count > 1 || (!q->options->planned && !q->options->tries_intra_sm))
        return apart;
    inside.who[inside.count++] = who;
    inside.restarts = false;
    if (sequence_first(q, one(q, team->who[0]), one(q, who)))
        return apart;
    share_all(q, &inside, false);
    bool gains = inside.throughput >= otherwise(q, team, one(q, who)) * (1 + q->options->least_gain);
    return gains && inside.throughput > apart.throughput ? inside : apart;
}

/* On how many SMs it is to be probed. */
static int32_t probe_of(const struct question *q, const gs_contender *c) {
    return q->of->count > 1 && takes(c) <= q->options->yield_ns ? 0 : wanted_of(q, c);
}

static bool may_be_partner(const struct question *q, size_t who) {
    const gs_contender *c = one(q, who);
    bool has_no_place = expected(c) && (c->how == GS_DECIDE_WAIT || c->sms <= 0);
    return known(c) && !runs(c, GS_DECIDE_WHOLE) && !has_no_place && probe_of(q, c) == 0;
}

static bool is_better(const struct question *q, const struct team *two, const struct team *best) {
    if (best->count == 1)
        return true;
    if (fabs(two->throughput - best->throughput) > 1e-9)
        return two->throughput > best->throughput;
    return had(one(q, two->who[1])) < had(one(q, best->who[1]));
}

static struct team best_team(const struct question *q, size_t leader) {
    enum { RANKED = 16 };
    struct team lone = alone(q, leader), best = lone, pairs[GS_LITERAL_CROWD];
    size_t count = 0;
    for (size_t i = 0; i < q->of->count && q->most > 1; i++) {
        if (i == leader || !may_be_partner(q, i))
            continue;
        struct team two = with(q, &lone, i);
        if (two.throughput < 0)
            continue;
        size_t at = count++;
        for (; at > 0 && pairs[at - 1].throughput < two.throughput; at--)
            pairs[at] = pairs[at - 1];
        pairs[at] = two;
        if (is_better(q, &two, &best))
            best = two;
    }
    for (size_t i = 0; i < count && i < RANKED && best.count < q->most && !best.is_trial && !best.is_inside; i++) {
        struct team more = is_in(&best, pairs[i].who[1]) ? best : with(q, &best, pairs[i].who[1]);
        best = more.throughput < 0 ? best : more;
    }
    return best;
}

/* ---- 4. is the change worth it ---- */

/* The team that runs now, or an impossible one. */
static struct team team_now(const struct question *q, size_t leader) {
    struct team now = {.who = {leader}, .count = 1, .throughput = NOTHING}, none = now;
    bool are_known = true, fit = true, are_on_all = true;
    int32_t sum = 0;
    for (size_t i = 0; i < q->of->count && now.count < GS_DECIDE_TOGETHER; i++)
        if (i != leader && placed(one(q, i)))
            now.who[now.count++] = i;
    for (size_t i = 0; i < now.count; i++) {
        const gs_contender *c = one(q, now.who[i]);
        are_known &= placed(c) && known(c);
        fit &= c->sms <= most_sms(q, &now, i);
        are_on_all &= c->sms == q->all;
        sum += fit ? c->sms : 0;
        now.sms[i] = c->sms;
    }
    if (!are_known)
        return none;
    if (now.count == 2 && are_on_all && (q->options->planned || q->options->tries_intra_sm)) {
        struct team inside = now, lone = alone(q, leader);
        share_all(q, &inside, true);
        if (inside.throughput >= otherwise(q, &lone, one(q, now.who[1])))
            return inside;
    }
    if (!fit || sum > q->free || (now.count == 2 && in_sequence(q, one(q, now.who[0]), one(q, now.who[1]))))
        return none;
    now.throughput = 0;
    for (size_t i = 0; i < now.count; i++) {
        double share = gs_profile_share(one(q, now.who[i])->profile, now.sms[i]) * slowed(q, &now, i, now.sms[i]);
        double slack = now.count == 2 && i == 0 && !can_wait(q, &now, i) ? 0 : q->options->fair_slack;
        if (now.count > 1 && share < fair_share(q, &now, i) - slack)
            return none;
        now.throughput += now.count == 1 ? share * left_alone(q, one(q, leader)) : share;
    }
    now.is_trial = now.count == 2 && !go_together(q, one(q, now.who[0]), one(q, now.who[1]));
    return now;
}

/* Whether it must stop to get other workers. */
static bool must_stop(const struct team *team, size_t i, const gs_contender *c) {
    return c->state == GS_CONTENDER_RUNS && (team->restarts || (team->is_inside && c->workers != team->workers[i]));
}

static bool is_worth_it(const struct question *q, const struct team *now, const struct team *next) {
    int64_t resized = 0;
    double lasts = (double)q->options->slice_ns, gain = next->throughput - now->throughput;
    for (size_t i = 0; i < q->of->count; i++) {
        const gs_contender *c = one(q, i);
        resized += runs(c, GS_DECIDE_CONFINED);
        for (size_t j = 0; j < next->count; j++)
            if (next->who[j] == i && runs(c, GS_DECIDE_CONFINED) && next->sms[j] == c->sms && !must_stop(next, j, c))
                resized--;
    }
    if (now->throughput < 0 || (resized == 0 && next->count > now->count))
        return true;
    const struct team *in = now->count == 1 && next->count == 1 ? now : next;
    for (size_t i = 0; i < in->count; i++) {
        const gs_contender *c = one(q, in->who[i]);
        if (expected(c) || !known(c))
            continue;
        double blocks = (double)(c->blocks_left ? c->blocks_left : c->profile->blocks);
        double share = gs_profile_share(c->profile, in->sms[i]) * slowed(q, in, i, in->sms[i]);
        lasts = fmin(lasts, blocks / (share * c->profile->alone + 1e-30));
    }
    return gain > q->options->least_gain &&
           gain * lasts > (double)(q->options->resize_ns * (resized > 1 ? resized : 1));
}

/* ---- another leader ---- */

/* The most that a launch behind `c` saves beside `other`. */
static double saves(const struct question *q, const gs_contender *c, const gs_contender *other) {
    double most = 0, cost = other->state == GS_CONTENDER_RUNS ? 2 * (double)q->options->resize_ns : 0;
    for (int i = 0; i < GS_DECIDE_COMING && c->coming[i]; i++) {
        double gain = gain_of(q, c->coming[i], other);
        double saved = gain * fmin(left(other), (double)gs_profile_duration_ns(c->coming[i]));
        if (gain > q->options->least_gain && saved > cost)
            most = fmax(most, saved);
    }
    return most;
}

/* The highest throughput with a partner on the same SMs; 0: there is none. */
static double most_inside(const struct question *q, size_t who) {
    struct team lone = alone(q, who);
    double most = 0;
    for (size_t i = 0; i < q->of->count && (q->options->planned || q->options->tries_intra_sm); i++) {
        struct team two = {.who = {who, i}, .count = 2};
        if (i == who || !may_be_partner(q, i) || sequence_first(q, one(q, who), one(q, i)))
            continue;
        share_all(q, &two, false);
        if (two.throughput >= otherwise(q, &lone, one(q, i)) * (1 + q->options->least_gain))
            most = fmax(most, two.throughput);
    }
    return most;
}

/* Whether it has the same right to lead as the first one. */
static bool is_equal(const struct question *q, const gs_contender *first, const gs_contender *c) {
    double slice = (double)q->all * (double)q->options->slice_ns / weight(c);
    return rank(q, c) == rank(q, first) && known(c) && had(first) + slice >= had(c) && probe_of(q, c) == 0;
}

/* Whether the first one, which has no place, may wait for a launch behind `c`: that saves a quarter of the wait, and
   `c` is not too far ahead then. */
static bool may_wait_for(const struct question *q, const gs_contender *first, const gs_contender *c) {
    double wait = 0, ahead = fmax((double)q->options->lead_ns, 1.5 * (double)q->options->slice_ns);
    if (placed(first) || rank(q, c) != rank(q, first) || !known(c) || probe_of(q, c) != 0)
        return false;
    wait = left(c);
    for (int i = 0; i < GS_DECIDE_COMING && c->coming[i]; i++) {
        double gain = gain_of(q, c->coming[i], first);
        double saved = gain * fmin(left(first), (double)gs_profile_duration_ns(c->coming[i]));
        double cost = first->state == GS_CONTENDER_RUNS ? 2 * (double)q->options->resize_ns : 0;
        bool is_saved = gain > q->options->least_gain && saved > cost;
        bool is_in_time = had(c) + (double)q->all * wait / weight(c) <= had(first) + (double)q->all * ahead / weight(c);
        if (is_in_time && is_saved && saved > wait / 4)
            return true;
        wait += (double)gs_profile_duration_ns(c->coming[i]);
    }
    return false;
}

/* Whether one that waits may lead in place of the first one. */
static bool may_lead(const struct question *q, const gs_contender *first, const gs_contender *c) {
    return c->state == GS_CONTENDER_WAITS && is_equal(q, first, c) &&
           (!placed(first) || saves(q, c, first) > saves(q, first, c));
}

static size_t another_leader(const struct question *q, const size_t *order, size_t leader, const struct team *team) {
    const gs_contender *first = one(q, leader);
    double most = team->throughput, most_saved = 0;
    size_t best = leader, next = leader, start = 0, seen = 0;
    if (q->most < 2 || !known(first) || expected(first))
        return leader;
    while (order[start] != leader)
        start++;
    for (size_t at = start; at < q->of->count; at++) {
        const gs_contender *c = one(q, order[at]);
        bool is_beside = c->workers > 0;
        for (size_t k = 0; k < q->of->count; k++)
            is_beside = is_beside || (k != order[at] && placed(one(q, k)) && c->sms < q->all);
        if (!runs(c, GS_DECIDE_CONFINED) || !is_beside || placed(first) || !is_equal(q, first, c))
            continue;
        double inside = most_inside(q, order[at]);
        best = inside > most + q->options->least_gain ? order[at] : best;
        most = fmax(most, inside);
    }
    for (size_t at = start; at < q->of->count && seen < 4; at++) {
        const gs_contender *c = one(q, order[at]);
        double saved = 0;
        if (expected(c) || runs(c, GS_DECIDE_WHOLE))
            continue;
        seen++;
        bool leads = may_lead(q, first, c);
        if (!leads && !may_wait_for(q, first, c))
            continue;
        for (size_t i = 0; i < q->of->count; i++)
            if (i != order[at] && known(one(q, i)) && one(q, i)->stream != c->stream)
                saved = fmax(saved, saves(q, c, one(q, i)));
        double inside = order[at] == leader || !leads ? most : most_inside(q, order[at]);
        best = inside > most + q->options->least_gain ? order[at] : best;
        most = fmax(most, inside);
        next = saved > most_saved ? order[at] : next;
        most_saved = fmax(most_saved, saved);
    }
    return most < 1 + q->options->least_gain ? next : best;
}

/* ---- 3. alone, and queued ---- */

static bool whole_alone(const struct question *q, const gs_contender *c) {
    if (c->state == GS_CONTENDER_RUNS && c->how != GS_DECIDE_WAIT)
        return c->how == GS_DECIDE_WHOLE;
    return !c->can_confine || (known(c) && cap(q, c) == q->all && takes(c) <= q->options->yield_ns);
}

static bool whole_beside(const struct question *q, const gs_contender *c) {
    if (c->state == GS_CONTENDER_RUNS && c->how != GS_DECIDE_WAIT)
        return c->how == GS_DECIDE_WHOLE;
    return !c->can_confine || (brief(q, c) && cap(q, c) == q->all);
}

/* Whether two that wait would share all SMs if nothing ran and the first of them went first. */
static bool would_share(const struct question *q, size_t who, size_t other) {
    struct question empty = *q;
    struct team two = {.who = {who, other}, .count = 2}, lone;
    empty.free = q->all;
    empty.afresh = true;
    empty.first = who;
    lone = alone(&empty, who);
    if ((!q->options->planned && !q->options->tries_intra_sm) || q->options->most_together < 2 ||
        sequence_first(&empty, one(q, who), one(q, other)))
        return false;
    share_all(&empty, &two, false);
    return two.throughput >= otherwise(&empty, &lone, one(q, other)) * (1 + q->options->least_gain);
}

/* Whether it rather runs beside one that runs whole or waits, or must not run behind it. */
static bool waits_for_one(const struct question *q, const gs_decided_place *places, size_t who) {
    struct question empty = *q;
    const gs_contender *c = one(q, who);
    empty.free = q->all;
    empty.afresh = true;
    for (size_t i = 0; i < q->of->count; i++) {
        const gs_contender *other = one(q, i);
        bool waits = places[i].how == GS_DECIDE_WAIT && other->state == GS_CONTENDER_WAITS && i != who;
        if (waits && known(c) && known(other) &&
            (would_share(q, who, i) || (may_lead(q, c, other) && saves(q, other, c) > 0)))
            return true;
    }
    for (size_t i = 0; i < q->of->count; i++) {
        const gs_contender *other = one(q, i);
        if (places[i].how != GS_DECIDE_WHOLE)
            continue;
        if (keeps_out(q, other, c) || (known(other) && saves(q, other, c) > 0))
            return true;
        if (!other->can_confine || (brief(q, other) && brief(q, c)) || !known(other) || q->options->most_together < 2)
            continue;
        struct team lone = alone(&empty, i);
        if (with(&empty, &lone, who).throughput >= 0)
            return true;
    }
    return false;
}

static void queue_more(const struct question *q, const size_t *order, gs_decided_place *places) {
    int64_t ahead = 0;
    size_t wholes = 0;
    for (size_t i = 0; i < q->of->count; i++)
        if (places[i].how == GS_DECIDE_WHOLE) {
            places[i].sms = q->all;
            ahead += takes(one(q, i));
            wholes++;
        }
    for (size_t i = 0; i < q->of->count && wholes < GS_DECIDE_TOGETHER; i++) {
        const gs_contender *c = one(q, order[i]);
        if (expected(c) || places[order[i]].how == GS_DECIDE_WHOLE)
            continue;
        ahead += takes(c);
        if (!known(c) || !whole_alone(q, c) || (wholes > 1 && ahead > q->options->yield_ns) ||
            waits_for_one(q, places, order[i]))
            return;
        places[order[i]] = (gs_decided_place){.how = GS_DECIDE_WHOLE, .sms = q->all, .turn = (int32_t)wholes++};
    }
}

/* ---- the decision ---- */

static struct question ask(const literal_query *query) {
    const gs_decide_options *options = query->options;
    struct question q = {.of = query, .options = options, .all = options->sms > 0 ? options->sms : 0};
    int32_t most = options->most_together, least = q.all / (GS_LITERAL_UNITS + 1) + 1;
    q.most = most < 1 ? 1 : most > GS_DECIDE_TOGETHER ? GS_DECIDE_TOGETHER : (size_t)most;
    q.unit = options->granularity < least ? least : options->granularity;
    q.free = q.all;
    for (size_t i = 0; i < query->count; i++) {
        const gs_contender *c = &query->contenders[i];
        if (!runs(c, GS_DECIDE_WHOLE))
            continue;
        q.free = c->sms <= 0 ? q.free : c->sms >= q.free ? 0 : q.free - c->sms;
        q.most -= q.most > 1;
    }
    return q;
}

static void place(const struct question *q, const struct team *team, gs_decided_place *places) {
    for (size_t i = 0; i < team->count; i++) {
        const gs_contender *c = one(q, team->who[i]);
        bool is_whole = !team->is_inside && (team->count == 1 ? whole_alone(q, c) : whole_beside(q, c));
        if (!must_stop(team, i, c))
            places[team->who[i]] = (gs_decided_place){.how = is_whole ? GS_DECIDE_WHOLE : GS_DECIDE_CONFINED,
                                                      .sms = team->sms[i],
                                                      .workers = team->is_inside ? team->workers[i] : 0,
                                                      .is_trial = team->is_trial};
    }
}

static struct team team_of(const struct question *q, size_t leader, int32_t *probe) {
    const gs_contender *lead = one(q, leader);
    *probe = q->free == q->all && !expected(lead) ? probe_of(q, lead) : 0;
    struct team now = team_now(q, leader), lone = alone(q, leader);
    struct team team = known(lead) && *probe == 0 ? best_team(q, leader) : lone;
    if (*probe > 0 || is_worth_it(q, &now, &team))
        return team;
    return now.count == 1 && is_worth_it(q, &now, &lone) ? lone : now;
}

double literal_decide(const literal_query *query, gs_decided_place *places) {
    struct question q = ask(query);
    size_t order[GS_LITERAL_CROWD], wholes = 0, confined = 0;
    struct team team = {.throughput = 0};
    memset(places, 0, query->count * sizeof *places);
    sort_contenders(&q, order);
    size_t leader = q.first = find_leader(&q, order);
    for (size_t i = 0; i < query->count; i++) {
        const gs_contender *c = one(&q, i);
        bool stays = leader == query->count || q.free < q.unit ? placed(c) && c->state != GS_CONTENDER_WAITS : false;
        if (stays || runs(c, GS_DECIDE_WHOLE))
            places[i] = (gs_decided_place){.how = c->how, .sms = c->sms};
    }
    if (leader < query->count && q.free >= q.unit) {
        int32_t probe;
        team = team_of(&q, leader, &probe);
        size_t other = probe > 0 ? leader : another_leader(&q, order, leader, &team);
        if (other != leader)
            team = team_of(&q, leader = other, &probe);
        place(&q, &team, places);
        if (probe > 0)
            places[leader] = (gs_decided_place){.how = GS_DECIDE_CONFINED, .sms = probe, .is_probe = true};
    }
    for (size_t i = 0; i < query->count; i++) {
        wholes += places[i].how == GS_DECIDE_WHOLE;
        confined += places[i].how == GS_DECIDE_CONFINED;
    }
    if (wholes > 0 && confined == 0)
        queue_more(&q, order, places);
    return team.throughput;
}
