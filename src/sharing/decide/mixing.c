/*
 * mixing.c: whether two clients do more mixed or in turns.
 *
 * Where two clients keep the GPU busy with short kernels, the GPU mixes them as they are. That gains in most pairs, but
 * not in all: some kernels slow each other by more than what is gained. In turns each of the two has the GPU for itself
 * until it is ahead of the other by LEAD_NS; the launches of the other wait, and start when its last one has ended. A
 * client that has nothing for a moment leaves the GPU to the other one.
 *
 * What a client does is the work of its launches, which is the time that such launches usually take, divided by the
 * time. Usual times are off by some percent, and where a profile has launches of different depths by much more. So a
 * figure near 1 for two that are mixed is only a suspicion. Then the two ways alternate, in random order, and each
 * client is compared with itself: its rate mixed, divided by its rate in turns. The sum over both clients is above 1 if
 * mixing gains. Each such round gives one sample, the logarithm of that sum. Enough of them tell which way is better.
 * After that a round is repeated now and then, because programs change. Of programs whose rounds differ by tens of
 * percent none is enough: they stay mixed.
 *
 * The time of a client is that from one end of a launch to another, as the device reports them, so that what is on its
 * way counts neither as work nor as time. In turns the gap between the last launch of one client and the first of the
 * other counts. Launches that were on their way when the way changed do not.
 */
#include "decide.h"

#include <math.h>
#include <string.h>

enum {
    LEAD_NS = 12000000,     /* a turn ends when its client is ahead by this much, with what it has on the device */
    MIXED_NS = 24000000,    /* about how long each client is measured in a round, mixed, */
    ALONE_NS = 12000000,    /* and in turns */
    AWAY_NS = 5000000,      /* one that has nothing for longer does not keep the GPU busy */
    MOST_ROUNDS = 12,       /* of a comparison: what is not certain by then stays mixed */
    REMEMBERED = 16,        /* rounds */
    FIRST_NS = 500000000,   /* of both clients: the first comparison begins by then, */
    LONGEST_NS = 200000000, /* a comparison is given up if one part of a round takes longer */
    AGAIN_NS = 500000000    /* and a round is repeated after this time or more */
};

static const double SUSPECT = 1.05, /* with less than this work for the time a comparison is worth its cost */
    USUAL_ERROR = 0.03,             /* of a round, until there are some */
    USUAL_WEIGHT = 2,               /* how many rounds that counts as */
    CHANGED = 5,                    /* and by which one round shows that the programs have changed */
    UNLIKE = 0.2,                   /* if rounds differ by this, more of them do not tell which way is better */
    LEAST_LOSS = 0.005,             /* turns are taken only if mixing loses this much */
    TRIAL_PART = 0.005,             /* of the time that repeated rounds may cost */
    UNLIKE_AGAIN_NS = 3e9;          /* two that are unlike are compared again after this time */

/* Standard errors by which it must be certain that one way is better, by rounds: those of few rounds are not well
   known. Mixing goes on without much proof, because in most pairs it gains, and turns cost that. */
static const double mixing_gains[] = {INFINITY, 3, 2.5, 2},
                    turns_gain[] = {INFINITY, INFINITY, INFINITY, INFINITY, 3, 2.5};

/* ---- pairs of clients ---- */

static gs_mixed_pair *find_pair(gs_mixing *mixing, uint32_t one, uint32_t other) {
    uint32_t low = (uint32_t)gs_min(one, other), high = (uint32_t)gs_max(one, other);
    gs_mixed_pair *oldest = &mixing->pairs[0];
    for (size_t i = 0; i < GS_COUNT(mixing->pairs); i++) {
        gs_mixed_pair *pair = &mixing->pairs[i];
        if (pair->used_ns && pair->clients[0] == low && pair->clients[1] == high)
            return pair;
        if (pair->used_ns < oldest->used_ns)
            oldest = pair;
    }
    *oldest = (gs_mixed_pair){.clients = {low, high}, .is_mixed = true, .usual = {1, 1}};
    return oldest;
}

static size_t place_of(const gs_mixed_pair *pair, uint32_t client) {
    return client == pair->clients[1];
}

static bool has_client(const gs_mixed_pair *pair, uint32_t client) {
    return client == pair->clients[0] || client == pair->clients[1];
}

static void leave_pair(gs_mixing *mixing) {
    mixing->state = GS_MIXING_NOT_MEASURED;
    mixing->ended_ns[0] = mixing->ended_ns[1] = mixing->last_ns = 0;
    mixing->since[0] = mixing->since[1] = (gs_mixed_work){0};
    mixing->now = NULL;
    mixing->has_holder = false;
    mixing->away_ns = mixing->seen_ns = 0;
}

void gs_mixing_forget(gs_mixing *mixing, uint32_t client) {
    for (size_t i = 0; i < GS_COUNT(mixing->pairs); i++) {
        if (!mixing->pairs[i].used_ns || !has_client(&mixing->pairs[i], client))
            continue;
        if (mixing->now == &mixing->pairs[i])
            leave_pair(mixing);
        mixing->pairs[i] = (gs_mixed_pair){.used_ns = 0};
    }
}

/* ---- rounds ---- */

static double rate_of(const gs_mixed_work *work) {
    return work->ns > 0 ? work->work_ns / work->ns : 0;
}

/* The variance of a round. */
static double variance_of(const gs_mixed_pair *pair) {
    return (USUAL_WEIGHT * USUAL_ERROR * USUAL_ERROR + pair->squares) / (USUAL_WEIGHT + fmax(pair->rounds - 1, 0));
}

static void add_round(gs_mixed_pair *pair, double value) {
    if (pair->rounds >= 3 && fabs(value - pair->mean) > CHANGED * sqrt(variance_of(pair)))
        pair->rounds = pair->mean = pair->squares = 0;
    if (pair->rounds >= REMEMBERED) {
        pair->squares *= 1 - 1 / pair->rounds;
        pair->rounds--;
    }
    double before = value - pair->mean;
    pair->mean += before / ++pair->rounds;
    pair->squares += before * (value - pair->mean);
}

/* How long it takes until a round has earned what it may cost. */
static double earns_ns(double gain) {
    return fabs(gain) * MIXED_NS / TRIAL_PART;
}

/* Ends the comparison if it is certain which way is better. */
static void conclude(gs_mixed_pair *pair) {
    double error = sqrt(variance_of(pair) / pair->rounds);
    size_t rounds = (size_t)pair->rounds;
    double errors = pair->mean > 0 ? mixing_gains[gs_min(rounds, GS_COUNT(mixing_gains) - 1)]
                                   : turns_gain[gs_min(rounds, GS_COUNT(turns_gain) - 1)];
    bool is_certain = fabs(pair->mean) >= errors * error;
    if (!is_certain && pair->rounds < MOST_ROUNDS)
        return;
    pair->is_compared = false;
    pair->prefers_turns = is_certain && pair->mean < -LEAST_LOSS;
    pair->due_ns = pair->busy_ns + fmax(earns_ns(pair->mean), AGAIN_NS);
}

static void clear_work(gs_mixed_pair *pair) {
    memset(pair->mixed, 0, sizeof pair->mixed);
    memset(pair->alone, 0, sizeof pair->alone);
}

/* Begins the next part of the time: mixed, or in turns. */
static void change_way(gs_mixing *mixing, bool is_mixed) {
    mixing->now->is_mixed = is_mixed;
    mixing->now->part_ns = mixing->now->busy_ns;
    mixing->least = 0.75 + 0.005 * (double)gs_random_from(&mixing->random, 0, 100);
    mixing->has_holder = false;
    mixing->state = GS_MIXING_NOT_MEASURED;
}

static void begin_round(gs_mixing *mixing) {
    clear_work(mixing->now);
    mixing->now->is_compared = true;
    change_way(mixing, gs_random_from(&mixing->random, 0, 1));
}

static void end_comparison(gs_mixing *mixing) {
    gs_mixed_pair *pair = mixing->now;
    clear_work(pair);
    change_way(mixing, !pair->prefers_turns);
}

/* They stay mixed. */
static void give_up(gs_mixing *mixing, double again_ns) {
    gs_mixed_pair *pair = mixing->now;
    pair->is_compared = pair->prefers_turns = false;
    pair->due_ns = pair->busy_ns + again_ns;
    end_comparison(mixing);
}

/* Programs have long and short parts, and layers whose usual times are far off: then rounds differ by tens of percent.
 */
static bool are_unlike(const gs_mixed_pair *pair) {
    return pair->rounds >= 3 && pair->squares > UNLIKE * UNLIKE * (pair->rounds - 1);
}

static void end_round(gs_mixing *mixing) {
    gs_mixed_pair *pair = mixing->now;
    double sum = 0;
    for (size_t i = 0; i < 2; i++) {
        pair->usual[i] = rate_of(&pair->alone[i]);
        sum += rate_of(&pair->mixed[i]) / pair->usual[i];
    }
    if (isfinite(log(sum))) {
        add_round(pair, log(sum));
        conclude(pair);
    }
    if (are_unlike(pair)) {
        pair->rounds = pair->mean = pair->squares = 0;
        give_up(mixing, UNLIKE_AGAIN_NS);
    } else if (pair->is_compared)
        begin_round(mixing);
    else
        end_comparison(mixing);
}

static bool have_all(const gs_mixed_work *work, double least_ns) {
    return work[0].ns >= least_ns && work[1].ns >= least_ns;
}

/* What the two do mixed, compared with what they usually do alone. */
static void note_figure(gs_mixed_pair *pair) {
    enum { LAST = 8 };
    double figure = rate_of(&pair->mixed[0]) / pair->usual[0] + rate_of(&pair->mixed[1]) / pair->usual[1];
    pair->figures = gs_min(pair->figures + 1, LAST);
    pair->figure += (figure - pair->figure) / (double)pair->figures;
}

/* Whether both ways are to be compared again, or for the first time: before that, the figure may be far off. */
static bool is_due(const gs_mixed_pair *pair) {
    if (pair->prefers_turns || pair->figure <= SUSPECT)
        return pair->busy_ns >= pair->due_ns;
    return pair->rounds == 0 && pair->busy_ns >= fmax(pair->due_ns, fmin(earns_ns(log(pair->figure)), FIRST_NS));
}

/* Ends a part of the time that is long enough. */
static void end_part(gs_mixing *mixing) {
    gs_mixed_pair *pair = mixing->now;
    double least = fmax(mixing->least, 0.75);
    bool has_mixed = have_all(pair->mixed, least * MIXED_NS), has_alone = have_all(pair->alone, least * ALONE_NS);
    if (pair->is_compared && has_mixed && has_alone) {
        note_figure(pair);
        end_round(mixing);
    } else if (pair->is_compared && (pair->is_mixed ? has_mixed : has_alone)) {
        change_way(mixing, !pair->is_mixed);
    } else if (!pair->is_compared && (pair->is_mixed ? has_mixed : has_alone)) {
        if (pair->is_mixed)
            note_figure(pair);
        clear_work(pair);
        pair->part_ns = pair->busy_ns;
        if (is_due(pair))
            begin_round(mixing);
    } else if ((pair->is_compared || !pair->is_mixed) && pair->busy_ns - pair->part_ns > LONGEST_NS)
        give_up(mixing, AGAIN_NS);
}

/* ---- what is measured ---- */

/* The time from the end of one launch to that of the next. Launches that are reported in one batch with the first end
   may have run before the state changed. */
void gs_mixing_ran(gs_mixing *mixing, uint32_t client, bool is_whole, uint64_t work_ns, uint64_t ended_ns,
                   uint64_t now_ns) {
    gs_mixed_pair *pair = mixing->now;
    if (!pair || !has_client(pair, client))
        return;
    size_t i = place_of(pair, client);
    bool is_measured = mixing->state == GS_MIXING_MIXED || (mixing->state == GS_MIXING_ALONE && mixing->runner == i);
    uint64_t since_ns = mixing->ended_ns[i];
    mixing->ended_ns[i] = is_whole && work_ns && is_measured ? ended_ns : 0;
    mixing->last_ns = gs_max_u64(mixing->last_ns, ended_ns);
    if (!since_ns)
        mixing->first_ns[i] = now_ns;
    if (!since_ns || now_ns == mixing->first_ns[i] || !mixing->ended_ns[i] || ended_ns <= since_ns)
        return;
    mixing->since[i].work_ns += (double)work_ns;
    mixing->since[i].ns += (double)(ended_ns - since_ns);
}

/* What was measured since both clients were last there counts now that both are. */
static void count_since(gs_mixing *mixing) {
    for (size_t i = 0; i < 2; i++) {
        gs_mixed_work *into = mixing->state == GS_MIXING_MIXED ? &mixing->now->mixed[i] : &mixing->now->alone[i];
        into->work_ns += mixing->since[i].work_ns;
        into->ns += mixing->since[i].ns;
        mixing->since[i] = (gs_mixed_work){0};
    }
}

/* Changes what is measured. From one turn to the next the gap between the two belongs to the next. */
static void set_state(gs_mixing *mixing, enum gs_mixing_state state, size_t runner) {
    bool follows = mixing->state == GS_MIXING_ALONE && state == GS_MIXING_ALONE;
    if (state == mixing->state && (state != GS_MIXING_ALONE || runner == mixing->runner))
        return;
    mixing->ended_ns[0] = mixing->ended_ns[1] = 0;
    if (follows)
        mixing->ended_ns[runner] = mixing->last_ns;
    mixing->state = state;
    mixing->runner = runner;
}

/* ---- whose turn it is ---- */

static bool is_running(const gs_contender *contender) {
    return contender->state == GS_CONTENDER_RUNS;
}

static bool may_run(const gs_contender *contender, const gs_decided_place *place) {
    return is_running(contender) || place->how != GS_DECIDE_WAIT;
}

/* What a client has had, with what it has on the device. */
static double had_of(const gs_decide_options *options, const gs_contender *contender) {
    return (double)contender->served / (double)gs_max(options->sms, 1) + (double)contender->ahead_ns;
}

static void withhold(const gs_contender *contender, gs_decided_place *place) {
    if (!is_running(contender) && place->how != GS_DECIDE_WAIT)
        *place = (gs_decided_place){.how = GS_DECIDE_WAIT, .waits_for_turn = true};
}

static void give_turn(gs_mixing *mixing, size_t holder) {
    mixing->taken += !mixing->has_holder || mixing->holder != holder;
    mixing->holder = holder;
    mixing->has_holder = true;
}

/* One that cannot run leaves its turn to the other. */
static size_t choose_holder(const gs_mixing *mixing, const gs_decide_options *options, const gs_contender *both[2],
                            gs_decided_place *places[2]) {
    double lead_ns = had_of(options, both[0]) - had_of(options, both[1]);
    size_t holder = mixing->has_holder ? mixing->holder : lead_ns > 0;
    if ((holder ? -lead_ns : lead_ns) >= LEAD_NS)
        holder = !holder;
    return may_run(both[holder], places[holder]) ? holder : !holder;
}

static void follow_turns(gs_mixing *mixing, const gs_decide_options *options, const gs_contender *both[2],
                         gs_decided_place *places[2]) {
    size_t holder = choose_holder(mixing, options, both, places);
    give_turn(mixing, holder);
    withhold(both[!holder], places[!holder]);
    if (is_running(both[!holder]))
        withhold(both[holder], places[holder]);
    bool runs[2] = {may_run(both[0], places[0]), may_run(both[1], places[1])};
    set_state(mixing, runs[0] != runs[1] ? GS_MIXING_ALONE : GS_MIXING_NOT_MEASURED, runs[1]);
}

/* ---- following decisions ---- */

static bool is_confined(const gs_contender *contender, const gs_decided_place *place) {
    return place->how == GS_DECIDE_CONFINED || (is_running(contender) && contender->how != GS_DECIDE_WHOLE);
}

/* Whether the GPU mixes two clients that keep it busy. */
static bool are_mixed(const gs_decide_options *options, const gs_contender *contenders, const gs_decided_place *places,
                      size_t count) {
    return count == 2 && options->are_two && contenders[0].client != contenders[1].client &&
           contenders[0].state != GS_CONTENDER_EXPECTED && contenders[1].state != GS_CONTENDER_EXPECTED &&
           !is_confined(&contenders[0], &places[0]) && !is_confined(&contenders[1], &places[1]);
}

/* One that waits while the other runs has nothing on its way: the time counts for both. */
static void follow_mixed(gs_mixing *mixing, const gs_contender *both[2]) {
    set_state(mixing, GS_MIXING_MIXED, 0);
    for (size_t i = 0; i < 2; i++) {
        if (is_running(both[i]))
            continue;
        if (mixing->ended_ns[i])
            mixing->since[i].ns += (double)(mixing->last_ns - gs_min_u64(mixing->ended_ns[i], mixing->last_ns));
        mixing->ended_ns[i] = mixing->last_ns;
    }
}

static bool has_launch(const gs_contender *contender, const gs_decided_place *place) {
    return contender->state != GS_CONTENDER_EXPECTED && may_run(contender, place);
}

/* Whether at most one of the two has something to run, and nobody else is there. */
static bool are_away(const gs_mixing *mixing, const gs_contender *contenders, const gs_decided_place *places,
                     size_t count) {
    size_t there = 0;
    for (size_t i = 0; i < count && mixing->now; i++) {
        if (!has_client(mixing->now, contenders[i].client) || is_confined(&contenders[i], &places[i]))
            return false;
        there += has_launch(&contenders[i], &places[i]);
    }
    return mixing->now && count <= 2 && there <= 1;
}

static void enter_pair(gs_mixing *mixing, gs_mixed_pair *pair, uint64_t now_ns) {
    if (mixing->now != pair) {
        leave_pair(mixing);
        mixing->now = pair;
    }
    count_since(mixing);
    pair->busy_ns += mixing->seen_ns ? (double)(now_ns - mixing->seen_ns) : 0;
    pair->used_ns = mixing->seen_ns = gs_max_u64(now_ns, 1);
    mixing->away_ns = 0;
    end_part(mixing);
}

/* The one that has a launch has its turn now. */
static void pass_turn(gs_mixing *mixing, const gs_contender *contenders, const gs_decided_place *places, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!has_launch(&contenders[i], &places[i]))
            continue;
        give_turn(mixing, place_of(mixing->now, contenders[i].client));
        set_state(mixing, GS_MIXING_ALONE, mixing->holder);
    }
}

void gs_mixing_follow(gs_mixing *mixing, const gs_decide_options *options, const gs_contender *contenders, size_t count,
                      gs_decided_place *places, uint64_t now_ns) {
    if (mixing->away_ns && now_ns - mixing->away_ns > AWAY_NS)
        leave_pair(mixing);
    if (are_mixed(options, contenders, places, count)) {
        gs_mixed_pair *pair = find_pair(mixing, contenders[0].client, contenders[1].client);
        size_t first = place_of(pair, contenders[0].client);
        const gs_contender *both[] = {&contenders[first], &contenders[!first]};
        enter_pair(mixing, pair, now_ns);
        if (pair->is_mixed)
            follow_mixed(mixing, both);
        else
            follow_turns(mixing, options, both, (gs_decided_place *[]){&places[first], &places[!first]});
    } else if (are_away(mixing, contenders, places, count)) {
        mixing->away_ns = mixing->away_ns ? mixing->away_ns : gs_max_u64(now_ns, 1);
        if (!mixing->now->is_mixed)
            pass_turn(mixing, contenders, places, count);
    } else
        leave_pair(mixing);
}

bool gs_mixing_lets_follow(const gs_mixing *mixing, uint32_t client) {
    const gs_mixed_pair *pair = mixing->now;
    return !pair || pair->is_mixed || !mixing->has_holder || place_of(pair, client) == mixing->holder;
}

double gs_mixing_gain(const gs_mixed_pair *pair, double *error) {
    *error = pair->rounds > 0 ? sqrt(variance_of(pair) / pair->rounds) : 0;
    return pair->rounds > 0 ? expm1(pair->mean) : 0;
}
