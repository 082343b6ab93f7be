/*
 * stays.c: the stays of blocks on SMs, from the events of a run.
 *
 * With times a stay is in nanoseconds. Without times each launch and exit is a column: a block stays from the column of
 * its launch, or of the exit at which it started, to the column of the exit of its kernel.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

static gs_code add_stay(gs_stays *stays, size_t launch, int64_t block, int32_t sm, int64_t from, gs_error *error) {
    if (!GS_RESERVE(stays, 1))
        return gs_fail_memory(error);
    stays->data[stays->count++] =
        (gs_stay){.sm = sm, .count = 1, .launch = (uint32_t)launch, .block = block, .from = from, .to = INT64_MAX};
    return GS_OK;
}

static bool has_times(const gs_run *run) {
    for (size_t i = 0; i < run->events.count; i++)
        if (run->events.data[i].seen->has_start)
            return true;
    return false;
}

/* ---- with times ---- */

static gs_code add_timed(const gs_event *event, gs_stays *stays, gs_error *error) {
    const gs_seen *seen = event->seen;
    gs_code code = GS_OK;
    for (size_t i = 0; i < seen->placed.count && code == GS_OK; i++) {
        int64_t start = gs_seen_time(&seen->start_ns, (int64_t)i), end = gs_seen_time(&seen->end_ns, (int64_t)i);
        if (seen->placed.data[i] == GS_WAIT || start == GS_NO_TIME)
            continue;
        code = add_stay(stays, event->launch, (int64_t)i, seen->placed.data[i], start, error);
        if (code == GS_OK && end != GS_NO_TIME)
            stays->data[stays->count - 1].to = end;
        stays->horizon = gs_max(stays->horizon, gs_max(start + 1, end));
    }
    return code;
}

static gs_code add_all_timed(const gs_run *run, gs_stays *stays, gs_error *error) {
    size_t blocks = 0;
    for (size_t i = 0; i < run->events.count; i++)
        if (run->events.data[i].op == GS_LAUNCH)
            blocks += run->events.data[i].seen->placed.count;
    gs_code code = GS_RESERVE(stays, blocks) ? GS_OK : gs_fail_memory(error);
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++)
        if (run->events.data[i].op == GS_LAUNCH)
            code = add_timed(&run->events.data[i], stays, error);
    return code;
}

/* ---- without times ---- */

/* Adds the blocks that are seen for the first time. `known` is how many of each launch were seen before: blocks start
   in order. */
static gs_code add_newly_seen(const gs_event *event, size_t *known, int64_t column, gs_stays *stays, gs_error *error) {
    const gs_sm_list *placed = &event->seen->placed;
    gs_code code = GS_OK;
    for (size_t i = known[event->launch]; i < placed->count && code == GS_OK; i++)
        if (placed->data[i] != GS_WAIT)
            code = add_stay(stays, event->launch, (int64_t)i, placed->data[i], column, error);
    known[event->launch] = gs_max_u64(known[event->launch], placed->count);
    return code;
}

static gs_code add_all_untimed(const gs_run *run, gs_stays *stays, gs_error *error) {
    size_t *known = calloc(run->launches.count + 1, sizeof *known);
    int64_t *ends = calloc(run->launches.count + 1, sizeof *ends);
    gs_code code = known && ends ? GS_OK : gs_fail_memory(error);
    int64_t column = -1;
    for (size_t i = 0; i < run->events.count && code == GS_OK; i++) {
        const gs_event *event = &run->events.data[i];
        column += event->op != GS_OBSERVE;
        if (event->op == GS_EXIT)
            ends[event->launch] = column;
        else
            code = add_newly_seen(event, known, column, stays, error);
    }
    for (size_t i = 0; i < stays->count && code == GS_OK; i++)
        if (ends[stays->data[i].launch] > stays->data[i].from)
            stays->data[i].to = ends[stays->data[i].launch];
    stays->horizon = column + 1;
    free(known);
    free(ends);
    return code;
}

/* ---- sorting, joining, lanes ---- */

static int compare_stays(const void *first, const void *second) {
    const gs_stay *a = first, *b = second;
    int order = GS_COMPARE(a->sm, b->sm);
    order = order ? order : GS_COMPARE(a->from, b->from);
    order = order ? order : GS_COMPARE(a->launch, b->launch);
    return order ? order : GS_COMPARE(a->block, b->block);
}

static bool are_sorted(const gs_stay *stays, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (compare_stays(&stays[i - 1], &stays[i]) > 0)
            return false;
    return true;
}

/* Sorts by SM, by counting. Stays of one SM keep their order, which often is that of time. */
static gs_code sort_stays(gs_stays *stays, gs_error *error) {
    int32_t most = 0;
    for (size_t i = 0; i < stays->count; i++)
        most = (int32_t)gs_max(most, stays->data[i].sm);
    size_t *ends = calloc((size_t)most + 2, sizeof *ends);
    gs_stay *sorted = malloc((stays->count + 1) * sizeof *sorted);
    if (!ends || !sorted) {
        free(ends);
        free(sorted);
        return gs_fail_memory(error);
    }
    for (size_t i = 0; i < stays->count; i++)
        ends[stays->data[i].sm + 1]++;
    for (int32_t sm = 0; sm <= most; sm++)
        ends[sm + 1] += ends[sm];
    for (size_t i = 0; i < stays->count; i++)
        sorted[ends[stays->data[i].sm]++] = stays->data[i];
    for (int32_t sm = 0; sm <= most; sm++) {
        size_t first = sm ? ends[sm - 1] : 0, count = ends[sm] - first;
        if (!are_sorted(sorted + first, count))
            qsort(sorted + first, count, sizeof *sorted, compare_stays);
    }
    free(ends);
    free(stays->data);
    stays->data = sorted;
    stays->capacity = stays->count + 1;
    return GS_OK;
}

static void join_stays(gs_stays *stays) {
    size_t kept = 0;
    for (size_t i = 0; i < stays->count; i++) {
        gs_stay *last = kept ? &stays->data[kept - 1] : NULL, *stay = &stays->data[i];
        if (last && last->sm == stay->sm && last->from == stay->from && last->launch == stay->launch &&
            last->to == stay->to)
            last->count++;
        else
            stays->data[kept++] = *stay;
    }
    stays->count = kept;
}

/* Each stay gets the lowest lane of its SM that is free. */
static gs_code give_lanes(gs_stays *stays, gs_error *error) {
    struct {
        int64_t *data; /* the end of the last stay on each lane of the present SM */
        size_t count, capacity;
    } lanes = {0};
    gs_code code = GS_OK;
    for (size_t i = 0; i < stays->count; i++) {
        gs_stay *stay = &stays->data[i];
        if (i && stay->sm != stays->data[i - 1].sm)
            lanes.count = 0;
        size_t lane = 0;
        while (lane < lanes.count && lanes.data[lane] > stay->from)
            lane++;
        if (lane == lanes.count) {
            if (!GS_RESERVE(&lanes, 1)) {
                code = gs_fail_memory(error);
                break;
            }
            lanes.count++;
        }
        lanes.data[lane] = stay->to;
        stay->lane = (int32_t)lane;
        if ((int32_t)lane >= stays->lanes)
            stays->lanes = (int32_t)lane + 1;
    }
    free(lanes.data);
    return code;
}

static int64_t time_since(int64_t first, int64_t time) {
    int64_t difference;
    return time == INT64_MAX || __builtin_sub_overflow(time, first, &difference) ? INT64_MAX : difference;
}

/* The clock of a recording begins at any time. Shifts it so that the first block starts at 0. */
static void begin_at_zero(gs_stays *stays) {
    int64_t first = stays->count ? stays->data[0].from : 0;
    for (size_t i = 0; i < stays->count; i++)
        first = gs_min(first, stays->data[i].from);
    stays->first_ns = first;
    for (size_t i = 0; i < stays->count; i++) {
        stays->data[i].from = time_since(first, stays->data[i].from);
        stays->data[i].to = time_since(first, stays->data[i].to);
    }
    stays->horizon = time_since(first, stays->horizon);
}

static gs_code make_stays(const gs_run *run, bool timed, bool together, gs_stays *stays, gs_error *error) {
    *stays = (gs_stays){.timed = timed};
    gs_code code = stays->timed ? add_all_timed(run, stays, error) : add_all_untimed(run, stays, error);
    if (stays->timed)
        begin_at_zero(stays);
    for (size_t i = 0; i < stays->count; i++)
        stays->data[i].to = gs_min(stays->data[i].to, stays->horizon);
    if (code == GS_OK)
        code = sort_stays(stays, error);
    if (code == GS_OK && together)
        join_stays(stays);
    if (code == GS_OK)
        code = give_lanes(stays, error);
    if (code != GS_OK)
        gs_stays_free(stays);
    return code;
}

gs_code gs_stays_of(const gs_run *run, bool together, gs_stays *stays, gs_error *error) {
    return make_stays(run, has_times(run), together, stays, error);
}

gs_code gs_stays_in_columns(const gs_run *run, bool together, gs_stays *stays, gs_error *error) {
    return make_stays(run, false, together, stays, error);
}

void gs_stays_free(gs_stays *stays) {
    free(stays->data);
    *stays = (gs_stays){0};
}
