/*
 * search_pair.c: one pair of kernels: the best way of intra-SM sharing (ISPA 6.3), whether a split of the SMs is
 * better, and whether either is better than running in sequence.
 *
 * Each kernel is launched so often that both have about the same load, because a pair with very different loads gains
 * nothing.
 *
 * The way with the least expected time is measured, on the same SMs (search_guess.c) or on SMs of their own
 * (search_split.c), until no other is expected to take less than the best measured one; at most four, and both in
 * sequence. If one kernel ends long before the other, it is tried with fewer workers. Quarters of blocks are measured
 * only if halves have a gain (step 4).
 */
#include "search_state.h"

#include <math.h>

enum { MOST_MEASUREMENTS = 5, MOST_WAYS = 1024, MOST_REPEATS = 32 };
static const double WORTH = 0.99;         /* of the best time so far: ways expected to take less are measured */
static const double WORTH_GUESS = 1.04;   /* the same for ways on the same SMs: estimates may be slightly wrong */
static const double WORTH_SPLIT = 1.01;   /* the same for the first split */
static const double BALANCED = 1.15;      /* both kernels end at about the same time */
static const double HOPE = 0.9;           /* a better balance takes this part of what is expected in one case of four */
static const double LEAST_RESPONSE = 0.5; /* of `response` */
static const double AS_LATE = 1.005;      /* ways end equally late */
static const double NO_GAIN = 1.9;        /* both together take as long as in sequence */
static const double LEAST_GAIN = 0.005;   /* below it, kernels run in sequence */

/* A measured split; `first` is 0 if there is none. */
struct pair_split {
    int32_t first;
    double us, side_us[2];
};

struct pair_walk {
    gs_walk *walk;
    const struct gs_pair_question *question;
    const gs_way *ways;
    bool tried[MOST_WAYS];
    size_t way_count;
    const char *none; /* why there is no way, or NULL */
    gs_found_pair *pair;
    double sum_us; /* of both in sequence, from their times alone */
    double best_us;
    gs_guess guess;
    const gs_way *best; /* the best measured way of intra-SM sharing, or NULL; and when it and each side ended */
    double best_inside_us, side_us[2];
    double response; /* of the rate of a kernel to its workers: an exponent */
    bool balance_is_done, halves_gain_nothing;
    struct pair_split split; /* the best one so far */
    bool split_tried[GS_MAX_SMS], no_splits;
    double worst; /* the largest slowdown seen */
    char failure[GS_SEARCH_WORDS];
};

/* ---- loads ---- */

static void choose_repeats(const struct gs_pair_question *question, int32_t repeats[2]) {
    double us[2] = {gs_found_best_us(question->found[0]), gs_found_best_us(question->found[1])};
    for (int i = 0; i < 2; i++) {
        double wanted = us[!i] / us[i];
        repeats[i] = wanted > 1 ? (int32_t)fmin(wanted + 0.5, MOST_REPEATS) : 1;
    }
}

/* ---- expected time of a way ---- */

/* From workers only: during the extra time of a form with fewer threads or registers, it uses the units as much. */
static double speed_of(const struct pair_walk *state, const gs_way *way, int side) {
    const gs_found_form *form = &state->question->found[side]->forms[way->form[side]];
    return fmin(1, form->best_us / gs_found_us(form, way->workers[side]));
}

static void speeds_of(const struct pair_walk *state, const gs_way *way, double *s, double *t) {
    *s = speed_of(state, way, 0);
    *t = speed_of(state, way, 1);
}

static double expected_us(const struct pair_walk *state, const gs_way *way) {
    double first = way->us[0] * state->pair->repeats[0], second = way->us[1] * state->pair->repeats[1], s, t;
    speeds_of(state, way, &s, &t);
    double factor = gs_guess_factor(&state->guess, s, t);
    return fmax(first, second) + (factor - 1) * fmin(first, second);
}

/* The slowdown of both while both ran. */
static double factor_of(const struct pair_walk *state, const gs_way *way, double us) {
    double first = way->us[0] * state->pair->repeats[0], second = way->us[1] * state->pair->repeats[1];
    return (us - fabs(first - second)) / fmin(first, second);
}

/* ---- intra-SM ---- */

static bool is_quarter(const gs_way *way) {
    return way->form[0] == 2 || way->form[1] == 2;
}

static bool is_half(const gs_way *way) {
    return !is_quarter(way) && (way->form[0] == 1 || way->form[1] == 1);
}

/* If the two kernels cannot share an SM in halves, they cannot in quarters, either. */
static bool is_hopeless(const struct pair_walk *state, const gs_way *way) {
    return state->halves_gain_nothing && is_quarter(way);
}

/* A daemon has no forms with fewer registers, so they have to gain more. */
static bool has_limit(const gs_way *way) {
    return way->registers[0] || way->registers[1];
}

/* The way that is expected to take least; NULL: none is worth it. */
static const gs_way *choose_way(const struct pair_walk *state, double *expected) {
    const gs_way *best = NULL;
    double best_us = fmin(state->best_us * WORTH_GUESS, state->sum_us * WORTH);
    for (size_t i = 0; i < state->way_count; i++) {
        const gs_way *way = &state->ways[i];
        double us = expected_us(state, way) * (has_limit(way) ? AS_LATE : 1);
        if (state->tried[i] || is_hopeless(state, way) || us >= best_us)
            continue;
        best = way;
        *expected = best_us = us;
    }
    return best;
}

/* Whether a way has fewer workers than the best one so far of the side that ended early, no fewer of the other one, and
   otherwise is like it; with fewer workers, a limit of registers may not be needed. */
static bool is_shifted(const struct pair_walk *state, const gs_way *way, int early) {
    const gs_way *best = state->best;
    bool is_alike = way->workers[early] < best->workers[early] && way->workers[!early] >= best->workers[!early];
    for (int side = 0; side < 2; side++)
        is_alike = is_alike && way->form[side] == best->form[side] &&
                   (way->registers[side] == best->registers[side] || !way->registers[side]);
    return is_alike;
}

/* When a side would end if its rate were proportional to its workers; or to a root of them, as was found. */
static double shifted_us(const struct pair_walk *state, const gs_way *way, int side) {
    return state->side_us[side] * pow((double)state->best->workers[side] / way->workers[side], state->response);
}

/* Estimates may be wrong if kernels interfere in ways that no unit explains, such as in a cache. But the best way so
   far was measured, so it is known which kernel ends first. If it ends much earlier than the other, it should have
   fewer workers, and the other one more, if they fit. Of ways that would end equally late, the one in which it ends
   halfway between the two: with fewer workers it slows the other one less. NULL: no such way, or the last one gained
   nothing. */
static const gs_way *find_balanced_way(const struct pair_walk *state, double *expected) {
    const gs_way *best = state->best, *found = NULL;
    if (!best || state->balance_is_done || state->best_inside_us > BALANCED * state->best_us)
        return NULL;
    int early = state->side_us[0] < state->side_us[1] ? 0 : 1;
    double least = INFINITY, nearest = INFINITY;
    if (state->side_us[early] > state->side_us[!early] / BALANCED)
        return NULL;
    for (size_t i = 0; i < state->way_count; i++) {
        const gs_way *way = &state->ways[i];
        if (state->tried[i] || !is_shifted(state, way, early))
            continue;
        double early_us = shifted_us(state, way, early), late_us = shifted_us(state, way, !early);
        double us = fmax(early_us, late_us), off = fabs(early_us - (state->side_us[early] + late_us) / 2);
        if (us >= state->best_inside_us && way->workers[!early] > best->workers[!early])
            continue;
        if (us > least * AS_LATE || (us > least / AS_LATE && off >= nearest))
            continue;
        least = fmin(us, least);
        nearest = off;
        found = way;
        *expected = HOPE * (early_us + late_us) / 2;
    }
    return found;
}

static void keep_best(struct pair_walk *state, enum gs_pair_option option, const gs_measurement *measurement,
                      double us) {
    if (us >= state->best_us)
        return;
    state->best_us = us;
    state->pair->option = option;
    state->pair->chosen = *measurement;
}

static gs_measurement measurement_of(const struct pair_walk *state, enum gs_measure measure) {
    const gs_found_pair *pair = state->pair;
    return (gs_measurement){.measure = measure,
                            .sides = {{.kernel = pair->first, .repeats = pair->repeats[0], .percent = 100},
                                      {.kernel = pair->second, .repeats = pair->repeats[1], .percent = 100}}};
}

static void learn_way(struct pair_walk *state, const gs_way *way, double us) {
    double factor = factor_of(state, way, us), s, t;
    state->worst = fmax(state->worst, factor);
    if (is_half(way) && us >= state->sum_us && factor > NO_GAIN)
        state->halves_gain_nothing = true;
    speeds_of(state, way, &s, &t);
    gs_guess_add(&state->guess, s, t, factor);
}

static bool measure_way(struct pair_walk *state, const gs_way *way) {
    gs_measurement measurement = measurement_of(state, GS_MEASURE_INTRA_SM);
    for (int side = 0; side < 2; side++) {
        measurement.sides[side].form = way->form[side];
        measurement.sides[side].workers = way->workers[side];
        measurement.sides[side].registers = way->registers[side];
    }
    measurement.leader = gs_room_fit_leader(state->question->fit, &state->question->given[0]->forms[way->form[0]],
                                            &state->question->given[1]->forms[way->form[1]]);
    const gs_measure_result *measured = gs_walk_ask(state->walk, &measurement);
    if (!measured)
        return false;
    state->tried[way - state->ways] = true;
    if (measured->is_failed) {
        memcpy(state->failure, measured->reason, sizeof state->failure);
        state->way_count = 0; /* other numbers of workers would also fail */
        return true;
    }
    learn_way(state, way, measured->us);
    if (!state->best || measured->us < state->best_inside_us) {
        state->best = way;
        state->best_inside_us = measured->us;
        memcpy(state->side_us, measured->side_us, sizeof state->side_us);
    }
    if (!has_limit(way) || measured->us * AS_LATE < state->best_us)
        keep_best(state, GS_PAIR_INTRA_SM, &measurement, measured->us);
    return true;
}

/* The kernel with more workers gets one less: blocks that crowd each other out of a cache slow both, which no estimate
   knows. NULL: nothing was found on the same SMs, or there is no such way. */
static const gs_way *find_thinner_way(const struct pair_walk *state) {
    const gs_way *best = state->best;
    if (!best || state->pair->option != GS_PAIR_INTRA_SM)
        return NULL;
    int more = best->workers[1] > best->workers[0];
    for (size_t i = 0; i < state->way_count; i++) {
        const gs_way *way = &state->ways[i];
        if (!state->tried[i] && way->workers[more] == best->workers[more] - 1 &&
            way->workers[!more] == best->workers[!more] && memcmp(way->form, best->form, sizeof way->form) == 0 &&
            memcmp(way->registers, best->registers, sizeof way->registers) == 0)
            return way;
    }
    return NULL;
}

/* ---- split ---- */

/* The split if both kernels needed all their SMs, from the best one so far, and its time. */
static int32_t split_by_need(const struct pair_walk *state, double *us) {
    const struct pair_split *best = &state->split;
    int32_t sms = state->question->gpu->sms;
    double needs[2] = {best->side_us[0] * best->first, best->side_us[1] * (sms - best->first)};
    int32_t wanted = (int32_t)(sms * needs[0] / (needs[0] + needs[1]) + 0.5);
    wanted = (int32_t)gs_max(1, gs_min(wanted, sms - 1));
    *us = fmax(needs[0] / wanted, needs[1] / (sms - wanted));
    return wanted;
}

/* The next split to measure: first the best one from the kernels alone, then by need. 0: none is worth it. */
static int32_t choose_split(const struct pair_walk *state, double *us) {
    bool is_first = !state->split.first;
    int32_t first = is_first ? gs_split_best(state->question, state->pair->repeats, us) : split_by_need(state, us);
    bool is_worth_it = *us < state->best_us * (is_first ? WORTH_SPLIT : WORTH);
    return is_worth_it && !state->no_splits && !state->split_tried[first] ? first : 0;
}

static bool measure_split(struct pair_walk *state, int32_t first) {
    const struct gs_pair_question *question = state->question;
    gs_measurement measurement = measurement_of(state, GS_MEASURE_SPLIT);
    measurement.sides[0].sms = first;
    measurement.sides[1].sms = question->gpu->sms - first;
    for (int side = 0; side < 2; side++)
        measurement.sides[side].workers = question->found[side]->forms[0].most;
    const gs_measure_result *measured = gs_walk_ask(state->walk, &measurement);
    if (!measured)
        return false;
    if (measured->is_failed) {
        memcpy(state->failure, measured->reason, sizeof state->failure);
        state->no_splits = true;
        return true;
    }
    state->split_tried[first] = true;
    if (!state->split.first || measured->us < state->split.us)
        state->split = (struct pair_split){first, measured->us, {measured->side_us[0], measured->side_us[1]}};
    keep_best(state, GS_PAIR_SPLIT, &measurement, measured->us);
    return true;
}

/* ---- all ways ---- */

/* How much the kernels' times have changed for a change of their workers; if by little, the next step is larger. */
static void learn_response(struct pair_walk *state, const gs_way *before, const double before_us[2]) {
    const gs_way *best = state->best;
    double wanted = log((double)best->workers[0] / before->workers[0] * before->workers[1] / best->workers[1]);
    double found = log(before_us[0] / before_us[1] * state->side_us[1] / state->side_us[0]);
    if (best != before && wanted != 0)
        state->response = fmax(LEAST_RESPONSE, fmin(1, found / wanted));
}

static bool measure_balanced_way(struct pair_walk *state, const gs_way *way) {
    const gs_way *before = state->best;
    double before_us = state->best_inside_us, sides_us[2] = {state->side_us[0], state->side_us[1]};
    if (!measure_way(state, way))
        return false;
    learn_response(state, before, sides_us);
    state->balance_is_done = state->best_inside_us > before_us * WORTH;
    return true;
}

/* One measurement is kept for serial execution. */
static bool has_budget(const struct pair_walk *state) {
    return state->walk->asked + 1 < MOST_MEASUREMENTS;
}

/* Measures what is expected to take least, until nothing is expected to be better. */
static bool search_ways(struct pair_walk *state) {
    bool is_answered = true;
    while (is_answered && has_budget(state)) {
        double inside_us = INFINITY, split_us = INFINITY;
        const gs_way *balanced = find_balanced_way(state, &inside_us);
        const gs_way *way = balanced ? balanced : choose_way(state, &inside_us);
        int32_t first = choose_split(state, &split_us);
        if (first && (!way || split_us < inside_us))
            is_answered = measure_split(state, first);
        else if (balanced)
            is_answered = measure_balanced_way(state, balanced);
        else if (way || (way = find_thinner_way(state)))
            is_answered = measure_way(state, way);
        else
            break;
    }
    return is_answered;
}

/* ---- in sequence ---- */

static void say_nothing_to_gain(struct pair_walk *state, const char *why) {
    snprintf(state->pair->reason, sizeof state->pair->reason, "no gain: %.200s", why);
}

static void take_turns(struct pair_walk *state) {
    char why[GS_SEARCH_WORDS];
    state->pair->option = GS_PAIR_SERIAL;
    if (state->failure[0])
        snprintf(state->pair->reason, sizeof state->pair->reason, "%s", state->failure);
    else if (state->guess.count) {
        snprintf(why, sizeof why, "on the same SMs each takes %.2f times as long as without the other", state->worst);
        say_nothing_to_gain(state, why);
    } else if (state->none[0])
        say_nothing_to_gain(state, state->none);
    else
        say_nothing_to_gain(state, "running in sequence is as fast");
}

/* "2 + 3 blocks per SM; gemm: half of its threads, 80 registers" */
static void say_choice(struct pair_walk *state) {
    static const char *const threads[GS_SEARCH_FORMS] = {"", " half of its threads", " a quarter of its threads"};
    gs_found_pair *pair = state->pair;
    const gs_measure_side *sides = pair->chosen.sides;
    size_t size = sizeof pair->reason;
    if (pair->option == GS_PAIR_SPLIT) {
        snprintf(pair->reason, size, "%d + %d SMs", sides[0].sms, sides[1].sms);
        return;
    }
    int length = snprintf(pair->reason, size, "%d + %d blocks per SM", sides[0].workers, sides[1].workers);
    for (int i = 0; i < 2; i++) {
        char registers[32] = "";
        if (!sides[i].form && !sides[i].registers)
            continue;
        if (sides[i].registers)
            snprintf(registers, sizeof registers, "%s %d registers", sides[i].form ? "," : "", sides[i].registers);
        length += snprintf(pair->reason + length, size - (size_t)length, "; %.40s:%s%s",
                           state->question->given[i]->name, threads[sides[i].form], registers);
    }
}

/* Both as written on two streams: the GPU overlaps the end of one kernel with the next. */
static bool compare_with_serial(struct pair_walk *state) {
    gs_found_pair *pair = state->pair;
    pair->serial_us = state->sum_us;
    if (state->best_us < state->sum_us * (1 - LEAST_GAIN)) {
        gs_measurement serial = measurement_of(state, GS_MEASURE_SERIAL);
        const gs_measure_result *measured = gs_walk_ask(state->walk, &serial);
        if (!measured)
            return false;
        if (!measured->is_failed && measured->us > 0)
            pair->serial_us = measured->us;
    }
    if (state->best_us > pair->serial_us * (1 - LEAST_GAIN)) {
        take_turns(state);
        if (pair->serial_us < state->sum_us * (1 - LEAST_GAIN) && state->best_us < state->sum_us * (1 - LEAST_GAIN))
            say_nothing_to_gain(state, "streams alone are as fast: neither kernel fills the GPU");
        pair->together_us = pair->serial_us;
    } else {
        pair->together_us = state->best_us;
        say_choice(state);
    }
    pair->gain = 1 - pair->together_us / pair->serial_us;
    return true;
}

/* ---- models ---- */

/* The chosen way at other load ratios. A load is a number of launches: the blocks of a grid may differ. */
static bool ask_ratios(struct pair_walk *state) {
    static const int32_t times[GS_SEARCH_RATIOS][2] = {{3, 1}, {3, 2}, {1, 1}, {2, 3}, {1, 3}};
    gs_found_pair *pair = state->pair;
    for (size_t i = 0; i < GS_COUNT(times) && pair->option != GS_PAIR_SERIAL; i++) {
        gs_measurement measurement = pair->chosen;
        for (int side = 0; side < 2; side++)
            measurement.sides[side].repeats *= times[i][side];
        const gs_measure_result *measured = gs_walk_ask(state->walk, &measurement);
        if (!measured)
            return false;
        if (measured->is_failed)
            continue;
        pair->points[pair->point_count].ratio = gs_pair_ratio(state->question->found, &measurement);
        /* at the same ratio, the time is proportional to the load of the first */
        pair->points[pair->point_count++].us = measured->us / times[i][0];
    }
    return true;
}

/* ---- all of it ---- */

/* A black box is not launched. Its partner gets the workers that fit beside it. */
static void shape_partner(const struct gs_pair_question *question, gs_found_pair *pair) {
    int box = question->given[0]->is_black_box ? 0 : 1, partner = !box;
    const gs_shape *shape = &question->given[box]->forms[0];
    const gs_found_form *form = &question->found[partner]->forms[0];
    int64_t per_sm = gs_divide_up(question->given[box]->blocks, question->gpu->sms);
    int32_t resident = (int32_t)gs_max(1, gs_min(question->found[box]->forms[0].most, per_sm));
    int32_t most = form->best > 0 ? form->best : form->most;
    int32_t workers = gs_room_fit_beside(question->fit, shape, resident, &question->given[partner]->forms[0], most);
    pair->option = workers ? GS_PAIR_INTRA_SM : GS_PAIR_SERIAL;
    pair->chosen.measure = GS_MEASURE_INTRA_SM;
    pair->chosen.sides[box] = (gs_measure_side){.workers = resident, .repeats = 1, .percent = 100};
    pair->chosen.sides[partner] = (gs_measure_side){.workers = workers, .repeats = 1, .percent = 100};
    pair->chosen.sides[0].kernel = pair->first;
    pair->chosen.sides[1].kernel = pair->second;
    if (workers)
        snprintf(pair->reason, sizeof pair->reason, "not measured: %d block%s per SM of %.60s fit%s beside %d of %.60s",
                 workers, workers == 1 ? "" : "s", question->given[partner]->name, workers == 1 ? "s" : "", resident,
                 question->given[box]->name);
    else
        snprintf(pair->reason, sizeof pair->reason,
                 "no gain: no block of %.60s fits beside the %d per SM of %.60s: it lacks %s",
                 question->given[partner]->name, resident, question->given[box]->name,
                 gs_room_fit_obstacle(question->fit, shape, resident, &question->given[partner]->forms[0]));
}

static bool has_no_part(const struct gs_pair_question *question, gs_found_pair *pair) {
    for (int i = 0; i < 2; i++)
        if (question->found[i]->problem[0]) {
            snprintf(pair->reason, sizeof pair->reason, "%.60s: %.170s", question->given[i]->name,
                     question->found[i]->problem);
            return true;
        }
    return false;
}

static bool search_both(struct pair_walk *state, gs_ways *ways, bool *is_listed, gs_error *error) {
    const struct gs_pair_question *question = state->question;
    gs_found_pair *pair = state->pair;
    choose_repeats(question, pair->repeats);
    for (int i = 0; i < 2; i++)
        state->sum_us += gs_found_best_us(question->found[i]) * pair->repeats[i];
    state->best_us = state->sum_us;
    if (!*is_listed && gs_ways_list(question, pair->repeats, state->sum_us * WORTH, ways, error) != GS_OK)
        return false;
    *is_listed = true;
    pair->is_measured = true;
    state->way_count = gs_min_u64(ways->count, MOST_WAYS);
    state->ways = ways->data;
    state->none = ways->reason;
    if (!search_ways(state) || !compare_with_serial(state))
        return false;
    pair->measurements = state->walk->asked;
    return !question->options->models || ask_ratios(state);
}

bool gs_pair_search_pair(gs_walk *walk, const struct gs_pair_question *question, gs_ways *ways, bool *is_listed,
                         gs_found_pair *pair, gs_error *error) {
    struct pair_walk state = {.walk = walk, .question = question, .none = "", .response = 1, .pair = pair};
    *pair = (gs_found_pair){.first = pair->first, .second = pair->second};
    if (question->given[0]->is_black_box || question->given[1]->is_black_box) {
        if (!has_no_part(question, pair))
            shape_partner(question, pair);
    } else if (!has_no_part(question, pair) && !search_both(&state, ways, is_listed, error))
        return false;
    pair->is_done = true;
    return true;
}
