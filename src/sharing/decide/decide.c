/*
 * decide.c: which contender goes first, and whether a change is worth its cost.
 *
 * The contender that goes first leads (`comes_first`), and the best team for it runs (team.c): the leader alone, or
 * with partners. A running team with this leader stays, unless a better one earns the cost of the change in the time
 * that it is likely to last. The first contender is the one with the highest rank, which is the priority plus a bonus
 * for waiting; then the one within its time slice; then the one whose client was served least per weight. The bonus
 * grows without limit, so there is no starvation.
 *
 * A kernel that runs whole can be neither stopped nor resized: the SMs reserved for it stay reserved until it has
 * ended.
 */
#include "team.h"

#include <math.h>
#include <string.h>

gs_decide_options gs_decide_defaults(int32_t sms) {
    return (gs_decide_options){.sms = sms,
                               .granularity = (int32_t)gs_max(sms / 32, 1),
                               .most_together = 4,
                               .short_ns = 100000,
                               .yield_ns = 2000000,
                               .mixed_ns = 10000000,
                               .resize_ns = 30000,
                               .slice_ns = 10000000,
                               .lead_ns = 10000000,
                               .patience_ns = 100000000,
                               .least_gain = 0.03,
                               .fair_slack = 0.1,
                               .priority_floor = 0.9,
                               .trials = 2,
                               .probes = true,
                               .trial_ns = 20000000,
                               .trial_part = 0.005};
}

/* Whether a client loses little by waiting for a kernel that runs whole: it has more launches behind this one, or had
   some a moment ago and has waited for them; or this one takes as long itself, such as the last of some long ones. */
static bool is_patient(const gs_decide_options *options, const gs_contender *contender) {
    return contender->coming[0] || contender->was_filled || duration_of(contender) > options->yield_ns;
}

/* Whether two have the same right to the GPU, and both are patient. Then the GPU mixes their kernels best as they
   are. */
static bool are_mixed(const gs_decide_options *options, const gs_contender *contenders, size_t count) {
    const gs_contender *a = contenders, *b = contenders + 1;
    return count == 2 && a->priority == b->priority && a->weight == b->weight && a->cap == 0 && b->cap == 0 &&
           is_patient(options, a) && is_patient(options, b);
}

void gs_decide_adapt(gs_decide_options *options, const gs_contender *contenders, size_t count) {
    enum { MIXED_LEAD = 4 };
    bool are_two = are_mixed(options, contenders, count);
    options->are_two = are_two;
    options->lead_ns = options->slice_ns * (are_two ? MIXED_LEAD : 1);
    if (count == 1 || are_two)
        options->yield_ns = options->mixed_ns;
}

/* ---- forms ---- */

/* Whether it runs whole if it runs beside others. A running launch cannot change its form. A short kernel of a client
   with a cap is confined. */
static bool is_whole_beside(const gs_decide_query *query, const gs_contender *contender) {
    if (contender->state == GS_CONTENDER_RUNS && contender->how != GS_DECIDE_WAIT)
        return contender->how == GS_DECIDE_WHOLE;
    return !contender->can_confine || (is_short(query, contender) && cap_of(query, contender) == query->all);
}

/* Whether it runs whole if it is alone on the GPU. */
static bool is_whole_alone(const gs_decide_query *query, const gs_contender *contender) {
    if (contender->state == GS_CONTENDER_RUNS && contender->how != GS_DECIDE_WAIT)
        return contender->how == GS_DECIDE_WHOLE;
    if (!contender->can_confine)
        return true;
    if (!is_known(contender) || cap_of(query, contender) < query->all)
        return false;
    return duration_of(contender) <= query->options->yield_ns;
}

/* ---- which contender goes first ---- */

static int64_t rank_of(const gs_decide_query *query, const gs_contender *contender) {
    int64_t waited = gs_max(contender->waited_ns, 0);
    return contender->priority + (query->options->patience_ns > 0 ? waited / query->options->patience_ns : 0);
}

/* Whether it is within its time slice: until the end of that no other of its rank comes before it. A client that is too
   far ahead has none: it runs because another one goes first. */
static bool keeps_turn(const gs_decide_query *query, const gs_contender *contender) {
    return contender->state != GS_CONTENDER_WAITS && contender->running_ns < query->options->slice_ns &&
           !contender->lets_pass;
}

/* Whether a was served less than b per weight, by more than a time slice of b. */
static bool is_far_behind(const gs_decide_query *query, const gs_contender *a, const gs_contender *b) {
    double slice = (double)query->all * (double)query->options->slice_ns / weight_of(b);
    return served_for_weight(a) + slice < served_for_weight(b);
}

static bool comes_first(const gs_decide_query *query, const gs_contender *a, const gs_contender *b) {
    int64_t rank_a = rank_of(query, a), rank_b = rank_of(query, b);
    if (rank_a != rank_b)
        return rank_a > rank_b;
    if (keeps_turn(query, a) != keeps_turn(query, b))
        return keeps_turn(query, a);
    double served_a = served_for_weight(a), served_b = served_for_weight(b);
    if (served_a != served_b)
        return served_a < served_b;
    return a->arrival < b->arrival;
}

static bool can_be_placed(const gs_contender *contender) {
    return contender->state != GS_CONTENDER_EXPECTED && !is_whole_now(contender);
}

static bool keeps_place(const gs_contender *contender) {
    return can_be_placed(contender) && is_placed_now(contender);
}

static bool is_present(const gs_contender *contender) {
    return contender->state != GS_CONTENDER_EXPECTED;
}

static bool has_kept_sms(const gs_contender *contender) {
    return contender->state == GS_CONTENDER_EXPECTED && is_placed_now(contender);
}

/* The first contender for which `matches` is true, or, if `after` is a contender, the first one after it. query->count:
   none. */
static size_t first_of(const gs_decide_query *query, bool (*matches)(const gs_contender *), size_t after) {
    size_t first = query->count;
    for (size_t i = 0; i < query->count; i++) {
        const gs_contender *contender = &query->contenders[i];
        if (!matches(contender) || (after < query->count && !comes_first(query, &query->contenders[after], contender)))
            continue;
        if (first == query->count || comes_first(query, contender, &query->contenders[first]))
            first = i;
    }
    return first;
}

/* Whether a contender must not start between two launches of `other`, because `other` has a higher priority or was
   served much less, or less, and the contender lets others pass. */
static bool keeps_out(const gs_decide_query *query, const gs_contender *other, const gs_contender *contender) {
    int64_t rank = rank_of(query, contender);
    double lead =
        contender->lets_pass ? 0 : (double)query->all * (double)query->options->lead_ns / weight_of(contender);
    bool is_behind = served_for_weight(other) + lead < served_for_weight(contender);
    return other->priority > rank || (other->priority == rank && is_behind);
}

/* The same if `other` has no launch, but one is expected. The GPU is not left idle for a short kernel, except for a
   higher priority. */
static bool keeps_free(const gs_decide_query *query, const gs_contender *other, const gs_contender *contender) {
    return other->priority > rank_of(query, contender) ||
           (keeps_out(query, other, contender) && !is_short(query, contender));
}

/* While a kernel that runs whole goes first, the kernels beside it stay: one of those leads. */
static size_t find_leader(const gs_decide_query *query) {
    size_t first = first_of(query, is_present, query->count), expected = first_of(query, has_kept_sms, query->count);
    if (first == query->count)
        return query->count;
    if (expected < query->count && keeps_free(query, &query->contenders[expected], &query->contenders[first]))
        return expected;
    size_t beside = is_whole_now(&query->contenders[first]) ? first_of(query, keeps_place, query->count) : query->count;
    return beside < query->count ? beside : first_of(query, can_be_placed, query->count);
}

/* How much time a launch that is to come saves beside a contender: 0 if it gains too little, or less than stopping that
   one costs, if it runs. */
static double saves_ns(const gs_decide_query *query, const gs_profile *coming, const gs_contender *contender) {
    double gain = gs_team_promise(query, coming, contender->profile) - 1;
    double ns = fmin(left_ns(contender), (double)gs_profile_duration_ns(coming));
    double cost_ns = contender->state == GS_CONTENDER_RUNS ? 2 * (double)query->options->resize_ns : 0;
    return gain > query->options->least_gain && gain * ns > cost_ns ? gain * ns : 0;
}

/* How much the launches behind a contender save beside `other`, as long as that lasts. */
static double opens_ns(const gs_decide_query *query, const gs_contender *contender, const gs_contender *other) {
    double most = 0;
    for (int i = 0; i < GS_DECIDE_COMING && contender->coming[i]; i++)
        most = fmax(most, saves_ns(query, contender->coming[i], other));
    return most;
}

/* The same for any other contender. */
static double opens_some_ns(const gs_decide_query *query, const gs_contender *contender) {
    double most = 0;
    for (size_t i = 0; i < query->count; i++)
        if (query->contenders[i].stream != contender->stream && is_known(&query->contenders[i]))
            most = fmax(most, opens_ns(query, contender, &query->contenders[i]));
    return most;
}

/* Whether it shares its SMs with another one, or they have parts of them. */
static bool is_beside_now(const gs_decide_query *query, const gs_contender *contender) {
    bool has_part = false;
    for (size_t i = 0; i < query->count; i++)
        has_part |= &query->contenders[i] != contender && is_placed_now(&query->contenders[i]);
    has_part = has_part && contender->how == GS_DECIDE_CONFINED && contender->sms < query->all;
    return contender->state == GS_CONTENDER_RUNS && (contender->workers > 0 || has_part);
}

/* Whether a contender has the same right to lead as the first one: it has the same rank, its client has not had more by
   a time slice, and it need not be probed. */
static bool is_equal(const gs_decide_query *query, const gs_contender *first, const gs_contender *other) {
    return rank_of(query, other) == rank_of(query, first) && is_known(other) && !is_far_behind(query, first, other) &&
           gs_team_probe(query, other) == 0;
}

/* Whether a contender that waits may lead in place of the first one. If that runs, a launch behind the other must save
   more beside it than one behind it beside the other. */
static bool may_lead(const gs_decide_query *query, const gs_contender *first, const gs_contender *other) {
    return other->state == GS_CONTENDER_WAITS && is_equal(query, first, other) &&
           (!is_placed_now(first) || opens_ns(query, other, first) > opens_ns(query, first, other));
}

/* Whether one that runs beside another may go on in place of the first one, which waits. */
static bool may_go_on(const gs_decide_query *query, const gs_contender *first, const gs_contender *other) {
    return is_beside_now(query, other) && !is_placed_now(first) && is_equal(query, first, other);
}

/* Whether the first one, which waits, may wait for a launch behind another one: the two save a quarter of that time or
   more beside each other, and until then the other client is not ahead by more than it may be. */
static bool may_await(const gs_decide_query *query, const gs_contender *first, const gs_contender *other) {
    static const double LEAST_SAVED = 0.25, SLICES = 1.5;
    double lead_ns = fmax((double)query->options->lead_ns, SLICES * (double)query->options->slice_ns);
    double most = served_for_weight(first) + (double)query->all * lead_ns / weight_of(other);
    if (is_placed_now(first) || rank_of(query, other) != rank_of(query, first) || !is_known(other) ||
        gs_team_probe(query, other) != 0)
        return false;
    double wait_ns = left_ns(other);
    for (int i = 0; i < GS_DECIDE_COMING && other->coming[i]; i++) {
        if (served_for_weight(other) + (double)query->all * wait_ns / weight_of(other) > most)
            return false;
        if (saves_ns(query, other->coming[i], first) > LEAST_SAVED * wait_ns)
            return true;
        wait_ns += (double)gs_profile_duration_ns(other->coming[i]);
    }
    return false;
}

/* ---- whether a change is worth its cost ---- */

/* Whether a member must stop before it can run in this team: it runs, and has other workers. */
static bool must_stop(const struct team *team, size_t i, const gs_contender *contender) {
    return contender->state == GS_CONTENDER_RUNS &&
           (team->restarts || (team->is_intra_sm && contender->workers != team->workers[i]));
}

/* How many running kernels a change to this team would stop or resize. */
static int64_t count_resized(const gs_decide_query *query, const struct team *team) {
    int64_t count = 0;
    for (size_t i = 0; i < query->count; i++) {
        const gs_contender *contender = &query->contenders[i];
        if (contender->state != GS_CONTENDER_RUNS || contender->how != GS_DECIDE_CONFINED)
            continue;
        bool stays = false;
        for (size_t j = 0; j < team->count; j++)
            stays |= team->members[j] == i && team->sms[j] == contender->sms && !must_stop(team, j, contender);
        count += !stays;
    }
    return count;
}

/* How long a team is likely to stay unchanged: until its first member ends, or a time slice ends. */
static double horizon_ns(const gs_decide_query *query, const struct team *team) {
    double horizon = (double)query->options->slice_ns;
    for (size_t i = 0; i < team->count; i++) {
        const gs_contender *contender = member(query, team, i);
        if (contender->state == GS_CONTENDER_EXPECTED || !is_known(contender))
            continue;
        uint64_t blocks = contender->blocks_left > 0 ? contender->blocks_left : contender->profile->blocks;
        double rate = gs_team_share(query, team, i, team->sms[i]) * contender->profile->alone;
        horizon = fmin(horizon, (double)blocks / (rate + 1e-30));
    }
    return horizon;
}

static bool is_worth_it(const gs_decide_query *query, const struct team *now, const struct team *next) {
    if (now->throughput == GS_TEAM_IMPOSSIBLE)
        return true;
    int64_t changes = count_resized(query, next);
    double gain = next->throughput - now->throughput;
    if (changes == 0 && next->count > now->count)
        return true;
    /* One that is alone would take so long without the change. */
    const struct team *lasting = now->count == 1 && next->count == 1 ? now : next;
    return gain > query->options->least_gain &&
           gain * horizon_ns(query, lasting) > (double)(query->options->resize_ns * gs_max(changes, 1));
}

/* ---- the decision ---- */

static void place_team(const gs_decide_query *query, gs_decided_place *placements, const struct team *team) {
    for (size_t i = 0; i < team->count; i++) {
        const gs_contender *contender = member(query, team, i);
        if (must_stop(team, i, contender)) /* the next decision follows when it has stopped */
            continue;
        bool whole = team->count > 1 ? !team->is_intra_sm && is_whole_beside(query, contender)
                                     : is_whole_alone(query, contender);
        placements[team->members[i]] = (gs_decided_place){.how = whole ? GS_DECIDE_WHOLE : GS_DECIDE_CONFINED,
                                                          .sms = team->sms[i],
                                                          .workers = team->is_intra_sm ? team->workers[i] : 0,
                                                          .is_trial = team->is_trial};
    }
}

static bool all_whole(const gs_decided_place *placements, size_t count) {
    bool some = false;
    for (size_t i = 0; i < count; i++) {
        if (placements[i].how == GS_DECIDE_CONFINED)
            return false;
        some |= placements[i].how == GS_DECIDE_WHOLE;
    }
    return some;
}

/* Whether a contender gains beside another one that waits, too, or beside a launch behind that. */
static bool gains_beside(const gs_decide_query *query, const gs_contender *contender, size_t candidate, size_t other) {
    const gs_contender *waiting = &query->contenders[other];
    if (waiting->state != GS_CONTENDER_WAITS || !is_known(waiting) || other == candidate)
        return false;
    return gs_team_would_share(query, candidate, other) ||
           (may_lead(query, contender, waiting) && opens_ns(query, waiting, contender) > 0);
}

/* Whether a contender should wait for one that runs whole: because that one blocks it, or to run beside its next
   launch, of the same kernel or of the one that is known to come. */
static bool should_wait(const gs_decide_query *query, const gs_decided_place *placements, size_t candidate) {
    const gs_contender *contender = &query->contenders[candidate];
    for (size_t i = 0; i < query->count; i++) {
        const gs_contender *other = &query->contenders[i];
        if (placements[i].how == GS_DECIDE_WAIT && is_known(contender) && gains_beside(query, contender, candidate, i))
            return true;
        if (placements[i].how != GS_DECIDE_WHOLE)
            continue;
        if (keeps_out(query, other, contender) ||
            (is_known(contender) && is_known(other) && opens_ns(query, other, contender) > 0))
            return true;
        bool can_share = other->can_confine && !(is_short(query, other) && is_short(query, contender));
        if (can_share && gs_team_would_form(query, i, candidate))
            return true;
    }
    return false;
}

/* Kernels that run whole are queued on the GPU without a gap between them: two, and more as long as their total
   duration is at most yield_ns. */
static void queue_wholes(const gs_decide_query *query, gs_decided_place *placements) {
    int64_t ahead = 0;
    size_t running = 0;
    for (size_t i = 0; i < query->count; i++)
        if (placements[i].how == GS_DECIDE_WHOLE) {
            placements[i].sms = query->all;
            ahead += duration_of(&query->contenders[i]);
            running++;
        }
    for (size_t next = first_of(query, can_be_placed, query->count);
         next < query->count && running < GS_DECIDE_TOGETHER; next = first_of(query, can_be_placed, next)) {
        const gs_contender *contender = &query->contenders[next];
        if (placements[next].how == GS_DECIDE_WHOLE)
            continue;
        ahead += duration_of(contender);
        bool is_too_much = running > 1 && ahead > query->options->yield_ns;
        if (!is_whole_alone(query, contender) || !is_known(contender) || is_too_much ||
            should_wait(query, placements, next))
            return;
        placements[next] = (gs_decided_place){.how = GS_DECIDE_WHOLE, .sms = query->all, .turn = (int32_t)running++};
    }
}

/* Launches that run whole continue unchanged. */
static void keep_wholes(const gs_decide_query *query, gs_decided_place *placements) {
    for (size_t i = 0; i < query->count; i++)
        if (is_whole_now(&query->contenders[i]))
            placements[i] = (gs_decided_place){.how = GS_DECIDE_WHOLE, .sms = query->contenders[i].sms};
}

/* Confined and expected launches continue unchanged. */
static void keep_all(const gs_decide_query *query, gs_decided_place *placements) {
    for (size_t i = 0; i < query->count; i++)
        if (is_placed_now(&query->contenders[i]) && query->contenders[i].state != GS_CONTENDER_WAITS)
            placements[i] = (gs_decided_place){.how = query->contenders[i].how, .sms = query->contenders[i].sms};
}

/* The best team for the leader, or the running team, if a change is not worth its cost. A leader that runs alone may
   still get more SMs, which lasts longer than a launch beside it. A leader whose curve is not known well is probed
   first, alone on *probe SMs; 0: no probe. */
static struct team choose_team(const gs_decide_query *query, size_t leader, int32_t *probe) {
    const gs_contender *contender = &query->contenders[leader];
    struct team lone = gs_team_lone(query, leader), now = gs_team_now(query, leader);
    bool can_probe = query->sms == query->all && contender->state != GS_CONTENDER_EXPECTED;
    *probe = can_probe ? gs_team_probe(query, contender) : 0;
    if (*probe > 0)
        return lone;
    struct team best = is_known(contender) ? gs_team_best(query, leader) : lone;
    if (is_worth_it(query, &now, &best))
        return best;
    return now.count == 1 && is_worth_it(query, &now, &lone) ? lone : now;
}

/* Of a leader with its team and those that may lead in its place: the one that gains most on the same SMs as another;
   if none gains, the one behind which a launch comes that would save most. Those that share SMs already are asked
   first: an equal one that waits would stop one of them, and then be stopped by it. */
static size_t choose_leader(const gs_decide_query *query, size_t leader, const struct team *team) {
    enum { LEADERS = 4 };
    const gs_contender *first = &query->contenders[leader];
    size_t best = leader, opening = leader, seen = 0;
    double throughput = team->throughput, most = 0;
    if (query->most_together < 2 || !is_known(first) || first->state == GS_CONTENDER_EXPECTED)
        return leader;
    for (size_t i = leader; i < query->count; i = first_of(query, can_be_placed, i)) {
        double inside = may_go_on(query, first, &query->contenders[i]) ? gs_team_inside(query, i) : 0;
        best = inside > throughput + query->options->least_gain ? i : best;
        throughput = fmax(throughput, inside);
    }
    for (size_t i = leader; i < query->count && seen < LEADERS; i = first_of(query, can_be_placed, i), seen++) {
        const gs_contender *contender = &query->contenders[i];
        bool leads = may_lead(query, first, contender);
        if (!leads && !may_await(query, first, contender))
            continue;
        double inside = i == leader || !leads ? 0 : gs_team_inside(query, i);
        double opens = opens_some_ns(query, contender);
        best = inside > throughput + query->options->least_gain ? i : best;
        throughput = fmax(throughput, inside);
        opening = opens > most ? i : opening;
        most = fmax(most, opens);
    }
    return throughput < 1 + query->options->least_gain ? opening : best;
}

static gs_decision summarize(const gs_decide_query *query, const gs_decided_place *placements, double throughput) {
    gs_decision decision = {.throughput = throughput, .look_again_ns = INT64_MAX};
    bool somebody_waits = false;
    for (size_t i = 0; i < query->count; i++) {
        const gs_contender *contender = &query->contenders[i];
        decision.running += placements[i].how != GS_DECIDE_WAIT;
        somebody_waits |= placements[i].how == GS_DECIDE_WAIT && contender->state != GS_CONTENDER_EXPECTED;
        decision.is_changed |=
            placements[i].how != (contender->state == GS_CONTENDER_WAITS ? GS_DECIDE_WAIT : contender->how) ||
            (placements[i].how != GS_DECIDE_WAIT && placements[i].sms != contender->sms);
    }
    for (size_t i = 0; i < query->count && somebody_waits; i++) {
        int64_t time = placements[i].how == GS_DECIDE_WAIT ? query->options->patience_ns : query->options->slice_ns;
        int64_t spent =
            placements[i].how == GS_DECIDE_WAIT ? query->contenders[i].waited_ns : query->contenders[i].running_ns;
        if (time > 0)
            decision.look_again_ns = gs_min(decision.look_again_ns, time - gs_max(spent, 0) % time);
    }
    for (size_t i = 0; i < query->count; i++)
        if (placements[i].is_probe || placements[i].is_trial)
            decision.look_again_ns =
                gs_min(decision.look_again_ns, gs_window_least_ns(query->options, &placements[i]) * 5 / 4);
    return decision;
}

static gs_decide_query query_of(const gs_decide_options *options, const gs_profile_store *store,
                                const gs_contender *contenders, size_t count) {
    gs_decide_query query = {
        .options = options, .store = store, .contenders = contenders, .count = count, .first = count};
    query.all = query.sms = (int32_t)gs_max(options->sms, 0);
    query.most_together = (size_t)gs_min(gs_max(options->most_together, 1), GS_DECIDE_TOGETHER);
    for (size_t i = 0; i < count; i++)
        if (is_whole_now(&contenders[i])) {
            query.sms -= (int32_t)gs_min(gs_max(contenders[i].sms, 0), query.sms);
            query.most_together -= query.most_together > 1;
        }
    int32_t least = 1 + query.all / (GS_TEAM_UNITS + 1);
    query.granularity = (int32_t)gs_max(options->granularity, least);
    query.units = query.sms / query.granularity;
    return query;
}

gs_decision gs_decide(const gs_decide_options *options, const gs_profile_store *store, const gs_contender *contenders,
                      size_t count, gs_decided_place *placements) {
    gs_decide_query query = query_of(options, store, contenders, count);
    double throughput = 0;
    memset(placements, 0, count * sizeof *placements);
    keep_wholes(&query, placements);
    size_t leader = query.first = find_leader(&query);
    if (leader == count || query.units == 0)
        keep_all(&query, placements);
    else {
        int32_t probe;
        struct team team = choose_team(&query, leader, &probe);
        size_t better = probe ? leader : choose_leader(&query, leader, &team);
        if (better != leader)
            team = choose_team(&query, leader = better, &probe);
        place_team(&query, placements, &team);
        throughput = team.throughput;
        if (probe)
            placements[leader] = (gs_decided_place){.how = GS_DECIDE_CONFINED, .sms = probe, .is_probe = true};
    }
    if (all_whole(placements, count))
        queue_wholes(&query, placements);
    return summarize(&query, placements, throughput);
}
