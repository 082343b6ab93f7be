/*
 * decide.c: whose turn it is, and whether a change is worth what it costs.
 *
 * The contender whose turn it is leads (`comes_first`), and the best team for it runs (team.c): alone, or with
 * partners. A team that runs already, and has this leader, stays until a better one pays for the resizing in the time
 * that it is likely to last. The turn goes by rank, which is the priority and what waiting adds to it; then to whoever
 * is within its slice; then to whose client had least for its weight. Since waiting adds to the rank without end,
 * everybody's turn comes.
 *
 * A kernel that runs whole can be neither stopped nor resized: what was left for it stays left until it has ended.
 */
#include "team.h"

#include <math.h>
#include <string.h>

/* A kernel that never ran whole may take so many times longer than others that cannot give way. */
enum { WHOLE_TRIAL = 4 };

gs_plan_options gs_plan_defaults(int32_t sms) {
    return (gs_plan_options){.sms = sms,
                             .granularity = sms < 64 ? 1 : sms / 32,
                             .most_together = 4,
                             .short_ns = 100000,
                             .yield_ns = 2000000,
                             .resize_ns = 30000,
                             .slice_ns = 10000000,
                             .patience_ns = 100000000,
                             .least_gain = 0.03,
                             .fair_slack = 0.1,
                             .priority_floor = 0.9,
                             .trials = 2,
                             .probes = true};
}

/* ---- forms ---- */

/* Whether it runs in its original form, if it runs beside others. What runs whole cannot be changed any more. A cap is
   worth more than being short. */
static bool stays_whole(const question *q, const gs_contender *c) {
    if (c->state == GS_CONTENDER_RUNS && c->how != GS_PLAN_WAIT)
        return c->how == GS_PLAN_WHOLE;
    return !c->can_confine || (is_short(q, c) && cap_of(q, c) == q->all);
}

/* Whether it runs in its original form if it has the GPU to itself. */
static bool is_whole_alone(const question *q, const gs_contender *c) {
    if (c->state == GS_CONTENDER_RUNS && c->how != GS_PLAN_WAIT)
        return c->how == GS_PLAN_WHOLE;
    if (!c->can_confine)
        return true;
    if (!is_known(c) || cap_of(q, c) < q->all)
        return false;
    bool is_tried = c->profile->whole_ns.count > 0 || q->count > 1; /* it may be faster than all that is known */
    return duration_of(c) <= (is_tried ? 1 : WHOLE_TRIAL) * q->options->yield_ns;
}

/* ---- whose turn it is ---- */

static int64_t rank_of(const question *q, const gs_contender *c) {
    int64_t waited = c->waited_ns > 0 ? c->waited_ns : 0;
    return c->priority + (q->options->patience_ns > 0 ? waited / q->options->patience_ns : 0);
}

/* Nobody of its rank takes its turn before its slice is over. */
static bool keeps_turn(const question *q, const gs_contender *c) {
    return c->state != GS_CONTENDER_WAITS && c->running_ns < q->options->slice_ns;
}

static double had_for_its_weight(const gs_contender *c) {
    return (double)c->served / weight_of(c);
}

/* Whether a had less than b for its weight, by more than a slice: then b does not even fill gaps between a's launches.
 */
static bool is_far_behind(const question *q, const gs_contender *a, const gs_contender *b) {
    return had_for_its_weight(a) + (double)q->all * (double)q->options->slice_ns < had_for_its_weight(b);
}

static bool comes_first(const question *q, const gs_contender *a, const gs_contender *b) {
    int64_t rank_a = rank_of(q, a), rank_b = rank_of(q, b);
    if (rank_a != rank_b)
        return rank_a > rank_b;
    if (keeps_turn(q, a) != keeps_turn(q, b))
        return keeps_turn(q, a);
    double had_a = had_for_its_weight(a), had_b = had_for_its_weight(b);
    if (had_a != had_b)
        return had_a < had_b;
    return a->arrival < b->arrival;
}

static bool can_be_told(const gs_contender *c) {
    return c->state != GS_CONTENDER_EXPECTED && !is_whole_now(c);
}

static bool is_in_place(const gs_contender *c) {
    return can_be_told(c) && is_placed_now(c);
}

static bool is_there(const gs_contender *c) {
    return c->state != GS_CONTENDER_EXPECTED;
}

static bool is_held_for(const gs_contender *c) {
    return c->state == GS_CONTENDER_EXPECTED && is_placed_now(c);
}

/* The first of those that are `meant`, or, with `after`, the first that comes after that one. q->count: there is none.
 */
static size_t first_of(const question *q, bool (*meant)(const gs_contender *), size_t after) {
    size_t first = q->count;
    for (size_t i = 0; i < q->count; i++) {
        const gs_contender *c = &q->contenders[i];
        if (!meant(c) || (after < q->count && !comes_first(q, &q->contenders[after], c)))
            continue;
        if (first == q->count || comes_first(q, c, &q->contenders[first]))
            first = i;
    }
    return first;
}

/* Whether a contender shall not start in a gap between two launches of one that is above it, or has much to catch up.
 */
static bool is_above(const question *q, const gs_contender *held, const gs_contender *c) {
    int64_t rank = rank_of(q, c);
    return held->priority > rank || (held->priority == rank && is_far_behind(q, held, c));
}

/* While it is the turn of a kernel that runs whole, what runs beside it stays; the next one's turn comes when it has
   ended. */
static size_t find_leader(const question *q) {
    size_t first = first_of(q, is_there, q->count), held = first_of(q, is_held_for, q->count);
    if (first == q->count)
        return q->count;
    if (held < q->count && is_above(q, &q->contenders[held], &q->contenders[first]))
        return held;
    size_t beside = is_whole_now(&q->contenders[first]) ? first_of(q, is_in_place, q->count) : q->count;
    return beside < q->count ? beside : first_of(q, can_be_told, q->count);
}

/* ---- whether it is worth a change ---- */

/* How many running kernels a change to this team would stop or resize. */
static int64_t resized(const question *q, const struct team *team) {
    int64_t count = 0;
    for (size_t i = 0; i < q->count; i++) {
        const gs_contender *c = &q->contenders[i];
        if (c->state != GS_CONTENDER_RUNS || c->how != GS_PLAN_CONFINED)
            continue;
        bool stays = false;
        for (size_t j = 0; j < team->count; j++)
            stays |= team->members[j] == i && team->sms[j] == c->sms;
        count += !stays;
    }
    return count;
}

/* How long a team is likely to stay as it is: until the first of them ends, or a slice is over. */
static double horizon_ns(const question *q, const struct team *team) {
    double horizon = (double)q->options->slice_ns;
    for (size_t i = 0; i < team->count; i++) {
        const gs_contender *c = member(q, team, i);
        if (c->state == GS_CONTENDER_EXPECTED || !is_known(c))
            continue;
        uint64_t blocks = c->blocks_left > 0 ? c->blocks_left : c->profile->blocks;
        horizon = fmin(horizon, (double)blocks / (gs_team_share(q, team, i, team->sms[i]) * c->profile->alone + 1e-30));
    }
    return horizon;
}

static bool is_worth_it(const question *q, const struct team *now, const struct team *next) {
    if (now->throughput == GS_TEAM_IMPOSSIBLE)
        return true;
    int64_t changes = resized(q, next);
    double gain = next->throughput - now->throughput;
    if (changes == 0 && next->count > now->count)
        return true;
    return gain > q->options->least_gain &&
           gain * horizon_ns(q, next) > (double)(q->options->resize_ns * (changes > 0 ? changes : 1));
}

/* ---- the answer ---- */

static void place(const question *q, gs_plan_place *placements, const struct team *team) {
    for (size_t i = 0; i < team->count; i++) {
        const gs_contender *c = member(q, team, i);
        bool whole = team->count > 1 ? stays_whole(q, c) : is_whole_alone(q, c);
        placements[team->members[i]] = (gs_plan_place){
            .how = whole ? GS_PLAN_WHOLE : GS_PLAN_CONFINED, .sms = team->sms[i], .is_trial = team->is_trial};
    }
}

static bool all_whole(const gs_plan_place *placements, size_t count) {
    bool some = false;
    for (size_t i = 0; i < count; i++) {
        if (placements[i].how == GS_PLAN_CONFINED)
            return false;
        some |= placements[i].how == GS_PLAN_WHOLE;
    }
    return some;
}

/* Whether a contender had better wait for one that runs whole: to share the SMs with its next launch, or because that
   one is above it. */
static bool should_wait(const question *q, const gs_plan_place *placements, size_t contender) {
    const gs_contender *c = &q->contenders[contender];
    for (size_t i = 0; i < q->count; i++) {
        const gs_contender *other = &q->contenders[i];
        if (placements[i].how != GS_PLAN_WHOLE)
            continue;
        if (is_above(q, other, c))
            return true;
        bool can_share = other->can_confine && !(is_short(q, other) && is_short(q, c));
        if (can_share && gs_team_would_form(q, i, contender))
            return true;
    }
    return false;
}

/* Kernels that run whole are sent to the GPU one behind the other, so that it has no gap between them: the next in
   turn, and more as long as they take no longer together than a kernel that cannot give way may. */
static void queue_wholes(const question *q, gs_plan_place *placements) {
    int64_t ahead = 0;
    size_t running = 0;
    for (size_t i = 0; i < q->count; i++)
        if (placements[i].how == GS_PLAN_WHOLE) {
            placements[i].sms = q->all;
            ahead += duration_of(&q->contenders[i]);
            running++;
        }
    for (size_t next = first_of(q, can_be_told, q->count); next < q->count && running < GS_PLAN_TOGETHER;
         next = first_of(q, can_be_told, next)) {
        const gs_contender *c = &q->contenders[next];
        if (placements[next].how == GS_PLAN_WHOLE)
            continue;
        ahead += duration_of(c);
        bool is_too_much = running > 1 && ahead > q->options->yield_ns;
        if (!is_whole_alone(q, c) || !is_known(c) || is_too_much || should_wait(q, placements, next))
            return;
        placements[next] = (gs_plan_place){.how = GS_PLAN_WHOLE, .sms = q->all};
        running++;
    }
}

/* What runs whole goes on as it is. */
static void keep_wholes(const question *q, gs_plan_place *placements) {
    for (size_t i = 0; i < q->count; i++)
        if (is_whole_now(&q->contenders[i]))
            placements[i] = (gs_plan_place){.how = GS_PLAN_WHOLE, .sms = q->contenders[i].sms};
}

/* The same for everything that runs or is expected. */
static void keep_all(const question *q, gs_plan_place *placements) {
    for (size_t i = 0; i < q->count; i++)
        if (is_placed_now(&q->contenders[i]) && q->contenders[i].state != GS_CONTENDER_WAITS)
            placements[i] = (gs_plan_place){.how = q->contenders[i].how, .sms = q->contenders[i].sms};
}

/* The best team under the leader, or the one that runs, where a change is not worth its cost. A leader whose curve is
   not known runs alone, for a moment on fewer SMs (`probe`): a split by a curve that is not known would be a guess. */
static struct team choose(const question *q, size_t leader, int32_t *probe) {
    const gs_contender *c = &q->contenders[leader];
    struct team best = gs_team_lone(q, leader), now = gs_team_now(q, leader);
    *probe = q->sms == q->all && c->state != GS_CONTENDER_EXPECTED ? gs_team_probe(q, c) : 0;
    if (*probe > 0)
        return best;
    if (is_known(c))
        best = gs_team_best(q, leader);
    return is_worth_it(q, &now, &best) ? best : now;
}

static gs_decision sum_up(const question *q, const gs_plan_place *placements, double throughput) {
    gs_decision decision = {.throughput = throughput, .look_again_ns = INT64_MAX};
    bool somebody_waits = false;
    for (size_t i = 0; i < q->count; i++) {
        const gs_contender *c = &q->contenders[i];
        decision.running += placements[i].how != GS_PLAN_WAIT;
        somebody_waits |= placements[i].how == GS_PLAN_WAIT && c->state != GS_CONTENDER_EXPECTED;
        decision.is_changed |= placements[i].how != (c->state == GS_CONTENDER_WAITS ? GS_PLAN_WAIT : c->how) ||
                               (placements[i].how != GS_PLAN_WAIT && placements[i].sms != c->sms);
    }
    for (size_t i = 0; i < q->count && somebody_waits; i++) {
        int64_t time = placements[i].how == GS_PLAN_WAIT ? q->options->patience_ns : q->options->slice_ns;
        int64_t spent = placements[i].how == GS_PLAN_WAIT ? q->contenders[i].waited_ns : q->contenders[i].running_ns;
        if (time > 0)
            decision.look_again_ns = gs_min(decision.look_again_ns, time - (spent > 0 ? spent % time : 0));
    }
    return decision;
}

static question question_of(const gs_plan_options *options, const gs_profile_store *store,
                            const gs_contender *contenders, size_t count) {
    question q = {.options = options, .store = store, .contenders = contenders, .count = count};
    q.all = q.sms = options->sms > 0 ? options->sms : 0;
    q.most_together = options->most_together > 1 ? (size_t)gs_min(options->most_together, GS_PLAN_TOGETHER) : 1;
    for (size_t i = 0; i < count; i++)
        if (is_whole_now(&contenders[i])) {
            q.sms -= contenders[i].sms > 0 ? (int32_t)gs_min(contenders[i].sms, q.sms) : 0;
            q.most_together -= q.most_together > 1;
        }
    int32_t least = 1 + q.all / (GS_TEAM_UNITS + 1);
    q.granularity = options->granularity > least ? options->granularity : least;
    q.units = q.sms / q.granularity;
    return q;
}

gs_decision gs_plan_decide(const gs_plan_options *options, const gs_profile_store *store,
                           const gs_contender *contenders, size_t count, gs_plan_place *placements) {
    question q = question_of(options, store, contenders, count);
    double throughput = 0;
    memset(placements, 0, count * sizeof *placements);
    keep_wholes(&q, placements);
    size_t leader = find_leader(&q);
    if (leader == count || q.units == 0)
        keep_all(&q, placements);
    else {
        int32_t probe;
        struct team team = choose(&q, leader, &probe);
        place(&q, placements, &team);
        throughput = team.throughput;
        if (probe > 0)
            placements[leader] = (gs_plan_place){.how = GS_PLAN_CONFINED, .sms = probe, .is_probe = true};
    }
    if (all_whole(placements, count))
        queue_wholes(&q, placements);
    return sum_up(&q, placements, throughput);
}
