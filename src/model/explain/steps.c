/*
 * steps.c: the steps of a program that repeat.
 *
 * Programs repeat: a training step, a request, a token. Before the first step they start up, and the first steps are
 * often slower. So the steps are found by themselves. Operations are compared by what they are, the kernel and its
 * shape or the bytes of a copy, not by when they ran. If the sequence has the period P from A to B, each operation from
 * A to B - P is equal to the one P later. Periods to try are the distances at which a few operations in a row occur
 * again; of those, the one wins that explains most time of kernels, and of those that explain nearly as much the
 * shortest. That may be a part of a step (equal_parts.c).
 */
#include "change.h"

#include <stdlib.h>

enum { MOST_PERIODS = 64, LONGEST_WINDOW = 8 };

/* ---- the order of the host ---- */

gs_code gs_sequence_of(const gs_run *run, gs_sequence *order, gs_error *error) {
    size_t launches = run->launches.count, copy = 0;
    *order = (gs_sequence){.data = malloc((launches + run->copies.count + 1) * sizeof *order->data)};
    if (!order->data)
        return gs_fail_memory(error);
    for (size_t i = 0; i <= launches; i++) {
        for (; copy < run->copies.count && run->copies.data[copy].before <= i; copy++)
            order->data[order->count++] = launches + copy;
        if (i < launches)
            order->data[order->count++] = i;
    }
    return GS_OK;
}

void gs_sequence_clear(gs_sequence *order) {
    free(order->data);
    *order = (gs_sequence){0};
}

/* ---- what repeats ---- */

/* Strings of a run are at the same address if they are equal. */
uint64_t gs_operation_kind(const gs_run *run, size_t operation) {
    if (operation < run->launches.count) {
        const gs_launch *launch = &run->launches.data[operation];
        const int64_t keys[] = {(intptr_t)launch->kernel,   launch->blocks,  launch->shape.threads,
                                launch->shape.shared_bytes, launch->cluster, launch->priority};
        return gs_hash(0, keys, sizeof keys);
    }
    const gs_copy *copy = &run->copies.data[operation - run->launches.count];
    const int64_t keys[] = {copy->is_memset, copy->kind, copy->bytes};
    return gs_hash(1, keys, sizeof keys);
}

struct window {
    uint64_t hash;
    size_t at;
};

struct period {
    size_t period;
    double weight; /* how often it occurs, times its length */
};

struct search {
    const gs_run *run;
    const gs_sequence *order;
    uint64_t *kinds;        /* by place in the order */
    int64_t *until_ns;      /* by place: the time of all kernels before it */
    struct window *windows; /* sorted by hash */
    size_t *distances;
    struct period *periods;
    size_t count, window_count, distance_count, period_count;
};

GS_ORDER_THEN(compare_windows, struct window, hash, at)

GS_ORDER_DOWN_THEN(compare_weights, struct period, weight, period)

GS_ORDER(compare_periods, struct period, period)

/* The distances at which the same few operations in a row occur again. */
static void find_distances(struct search *search) {
    size_t length = gs_max_u64(1, gs_min_u64(LONGEST_WINDOW, search->count / 4));
    for (size_t i = 0; i + length <= search->count; i++)
        search->windows[search->window_count++] =
            (struct window){gs_hash(0, search->kinds + i, length * sizeof *search->kinds), i};
    qsort(search->windows, search->window_count, sizeof *search->windows, compare_windows);
    for (size_t i = 1; i < search->window_count; i++)
        if (search->windows[i].hash == search->windows[i - 1].hash)
            search->distances[search->distance_count++] = search->windows[i].at - search->windows[i - 1].at;
    qsort(search->distances, search->distance_count, sizeof *search->distances, gs_compare_int64);
}

static void choose_periods(struct search *search) {
    for (size_t from = 0, to; from < search->distance_count; from = to) {
        for (to = from; to < search->distance_count && search->distances[to] == search->distances[from]; to++)
            ;
        search->periods[search->period_count++] =
            (struct period){search->distances[from], (double)search->distances[from] * (double)(to - from)};
    }
    qsort(search->periods, search->period_count, sizeof *search->periods, compare_weights);
    search->period_count = gs_min_u64(search->period_count, MOST_PERIODS);
    qsort(search->periods, search->period_count, sizeof *search->periods, compare_periods);
}

static int64_t stretch_ns(const struct search *search, const gs_part *part) {
    return search->until_ns[part->last] - search->until_ns[part->first];
}

/* Of the stretches with a period that are steps, the one with most time of kernels: `first` to `last`, whole steps. */
static gs_part longest_stretch(const struct search *search, size_t period) {
    gs_part best = {.period = period};
    size_t from = 0;
    for (size_t i = 0; i + period <= search->count; i++) {
        bool goes_on = i + period < search->count && search->kinds[i] == search->kinds[i + period];
        if (goes_on)
            continue;
        gs_part found = {.first = from, .last = from + (i - from + period) / period * period, .period = period};
        if (gs_part_steps(&found) >= GS_FEWEST_STEPS && stretch_ns(search, &found) > stretch_ns(search, &best))
            best = found;
        from = i + 1;
    }
    return best;
}

static void find_stretch(const struct search *search, gs_part *part) {
    int64_t best_ns = 0;
    for (size_t i = 0; i < search->period_count; i++) {
        gs_part found = longest_stretch(search, search->periods[i].period);
        int64_t ns = stretch_ns(search, &found);
        if (ns > best_ns + best_ns / 10) {
            *part = found;
            best_ns = ns;
        }
    }
}

gs_code gs_part_shortest(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error) {
    *part = (gs_part){0};
    struct search search = {.run = run, .order = order, .count = order->count};
    search.kinds = malloc((search.count + 1) * sizeof *search.kinds);
    search.until_ns = malloc((search.count + 1) * sizeof *search.until_ns);
    search.windows = malloc((search.count + 1) * sizeof *search.windows);
    search.distances = malloc((search.count + 1) * sizeof *search.distances);
    search.periods = malloc((search.count + 1) * sizeof *search.periods);
    bool done = search.kinds && search.until_ns && search.windows && search.distances && search.periods;
    int64_t ns = 0;
    for (size_t i = 0; done && i < search.count; i++) {
        search.kinds[i] = gs_operation_kind(run, order->data[i]);
        search.until_ns[i] = ns;
        if (order->data[i] < run->launches.count)
            ns += gs_measured_ns(gs_run_issue(run, order->data[i]));
    }
    if (done && search.count) {
        search.until_ns[search.count] = ns;
        find_distances(&search);
        choose_periods(&search);
        find_stretch(&search, part);
    }
    free(search.kinds);
    free(search.until_ns);
    free(search.windows);
    free(search.distances);
    free(search.periods);
    return done ? GS_OK : gs_fail_memory(error);
}

/* ---- where a step begins ---- */

int64_t gs_host_gap(const gs_run *run, const gs_sequence *order, size_t place) {
    if (!place)
        return 0;
    int64_t at_ns = gs_run_issue(run, order->data[place])->at_ns;
    int64_t before_ns = gs_run_issue(run, order->data[place - 1])->at_ns;
    return at_ns == GS_NO_TIME || before_ns == GS_NO_TIME ? 0 : at_ns - before_ns;
}

/* The shortest pause of the host before an operation, over all steps. */
static int64_t pause_before(const gs_run *run, const gs_sequence *order, const gs_part *part, size_t phase) {
    int64_t least_ns = INT64_MAX;
    for (size_t place = part->first + phase + part->period; place < part->last; place += part->period)
        least_ns = gs_min(least_ns, gs_host_gap(run, order, place));
    return least_ns == INT64_MAX ? 0 : least_ns;
}

/* A step begins where the stretch does, unless the host always pauses much longer elsewhere: there it waited for the
   step before. */
static void shift_part(const gs_run *run, const gs_sequence *order, gs_part *part) {
    size_t best = 0;
    int64_t first_ns = pause_before(run, order, part, 0), most_ns = gs_max(20000, 4 * first_ns);
    for (size_t phase = 1; phase < part->period; phase++) {
        int64_t pause_ns = pause_before(run, order, part, phase);
        if (pause_ns > most_ns) {
            most_ns = pause_ns;
            best = phase;
        }
    }
    if (!best || gs_part_steps(part) <= GS_FEWEST_STEPS)
        return;
    part->first += best;
    part->last -= part->period - best;
}

/* The earliest start of the operations from `first` to before `last`; GS_NO_TIME: none was measured. */
static int64_t first_start(const gs_run *run, const gs_sequence *order, size_t first, size_t last) {
    int64_t start_ns = INT64_MAX;
    for (size_t i = first; i < last && i < order->count; i++)
        if (gs_measured_ns(gs_run_issue(run, order->data[i])))
            start_ns = gs_min(start_ns, gs_run_issue(run, order->data[i])->start_ns);
    return start_ns == INT64_MAX ? GS_NO_TIME : start_ns;
}

/* When the step that begins at a place starts. */
static int64_t step_start(const gs_run *run, const gs_sequence *order, const gs_part *part, size_t place) {
    return first_start(run, order, place, place + part->period);
}

static int64_t last_end(const gs_run *run, const gs_sequence *order, const gs_part *part) {
    int64_t end_ns = GS_NO_TIME;
    for (size_t i = part->first; i < part->last; i++)
        if (gs_measured_ns(gs_run_issue(run, order->data[i])))
            end_ns = gs_max(end_ns, gs_run_issue(run, order->data[i])->end_ns);
    return end_ns;
}

/* The part ends when the step after it starts, or when its last operation ends. */
static void set_times(const gs_run *run, const gs_sequence *order, bool has_next, gs_part *part) {
    part->from_ns = part->period ? step_start(run, order, part, part->first) : GS_NO_TIME;
    if (part->from_ns == GS_NO_TIME)
        part->from_ns = first_start(run, order, part->first, part->last);
    part->to_ns = has_next ? step_start(run, order, part, part->last) : last_end(run, order, part);
    if (part->from_ns != GS_NO_TIME && part->to_ns <= part->from_ns)
        part->to_ns = gs_max(last_end(run, order, part), part->from_ns + 1);
}

static const char *stream_of(const gs_run *run, size_t operation) {
    return operation < run->launches.count ? run->launches.data[operation].stream
                                           : run->copies.data[operation - run->launches.count].stream;
}

/* Where one stream runs ahead of another, such as copies for later steps, the program is as fast as the other. The part
   is then from an operation of that one to the same operation of the step after it. */
static void follow_slowest(const gs_run *run, const gs_sequence *order, gs_part *part) {
    const gs_part given = *part;
    int64_t most_ns = part->to_ns - part->from_ns + (part->to_ns - part->from_ns) / 4;
    if (part->from_ns == GS_NO_TIME || gs_part_steps(part) < GS_FEWEST_STEPS ||
        part->last + part->period > order->count)
        return;
    for (size_t i = 1; i < part->period; i++) {
        size_t one = order->data[given.first + i], other = order->data[given.last + i];
        const gs_issue *from = gs_run_issue(run, one), *to = gs_run_issue(run, other);
        bool is_elsewhere = stream_of(run, one) != stream_of(run, order->data[given.first]) &&
                            stream_of(run, one) == stream_of(run, other);
        if (!is_elsewhere || !gs_measured_ns(from) || !gs_measured_ns(to) || to->start_ns - from->start_ns <= most_ns)
            continue;
        most_ns = to->start_ns - from->start_ns;
        part->from_ns = from->start_ns;
        part->to_ns = to->start_ns;
    }
}

/* Leaves steps at both ends out of which nothing was measured. */
static void trim_part(const gs_run *run, const gs_sequence *order, gs_part *part) {
    while (part->first < part->last && step_start(run, order, part, part->first) == GS_NO_TIME)
        part->first += part->period;
    while (part->first < part->last && step_start(run, order, part, part->last - part->period) == GS_NO_TIME)
        part->last -= part->period;
}

/* How long after a step the next one starts; 0: not known. */
static int64_t step_time(const gs_run *run, const gs_sequence *order, const gs_part *part, size_t place) {
    int64_t from_ns = step_start(run, order, part, place);
    int64_t to_ns = step_start(run, order, part, place + part->period);
    return from_ns == GS_NO_TIME || to_ns == GS_NO_TIME ? 0 : to_ns - from_ns;
}

/* The steps at the beginning that take a quarter longer than the median are start-up. */
static gs_code skip_slow_steps(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error) {
    size_t steps = gs_part_steps(part);
    int64_t *times = malloc(2 * (steps + 1) * sizeof *times), *sorted = times + steps + 1;
    if (!times)
        return gs_fail_memory(error);
    for (size_t i = 0; i + 1 < steps; i++)
        times[i] = sorted[i] = step_time(run, order, part, part->first + i * part->period);
    qsort(sorted, steps - 1, sizeof *sorted, gs_compare_int64);
    int64_t median_ns = sorted[(steps - 1) / 2];
    for (size_t i = 0; i + 1 < steps && gs_part_steps(part) > GS_FEWEST_STEPS && times[i] > median_ns + median_ns / 4;
         i++)
        part->first += part->period;
    free(times);
    return GS_OK;
}

int64_t gs_part_ns(const gs_part *part, const gs_issue *issue) {
    if (!gs_measured_ns(issue))
        return 0;
    return gs_max(0, gs_min(part->to_ns, issue->end_ns) - gs_max(part->from_ns, issue->start_ns));
}

void gs_part_set_times(const gs_run *run, const gs_sequence *order, gs_part *part) {
    set_times(run, order, false, part);
}

void gs_part_set_next(const gs_run *run, const gs_sequence *order, gs_part *part) {
    set_times(run, order, true, part);
    follow_slowest(run, order, part);
}

void gs_part_cut_last(const gs_run *run, const gs_sequence *order, gs_part *part) {
    part->last -= part->period;
    gs_part_set_next(run, order, part);
}

gs_code gs_part_settle(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error) {
    shift_part(run, order, part);
    trim_part(run, order, part);
    if (gs_part_steps(part) < GS_FEWEST_STEPS) {
        *part = (gs_part){0};
        return GS_OK;
    }
    gs_code code = skip_slow_steps(run, order, part, error);
    gs_part_cut_last(run, order, part);
    return code;
}
