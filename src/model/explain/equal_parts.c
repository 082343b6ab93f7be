/*
 * equal_parts.c: how many of what repeats are a step.
 *
 * A step may repeat inside: a network of equal layers, with nothing before and after them, has the same operations
 * again after each layer. They do not show where a step ends. What the program does around them may:
 *
 *   - It names its steps, and a name begins anew after each two, three, ... of what repeats.
 *   - The host waits for the GPU after each two, three, ... of them, and not between.
 *
 * If neither is in the recording, each is taken for a step.
 */
#include "change.h"

#include <stdlib.h>

enum { FEWEST_WAITS = 4, MOST_TRIES = 8 };

bool gs_part_join(gs_part *part, size_t from, size_t equal_parts, gs_parts_by parts_by) {
    size_t period = part->period * equal_parts;
    if (from + GS_FEWEST_STEPS * period > part->last)
        return false;
    part->first = from;
    part->last = from + (part->last - from) / period * period;
    part->period = period;
    part->equal_parts = equal_parts;
    part->parts_by = parts_by;
    return true;
}

/* ---- waits of the host ---- */

/* By place in the part: whether the host waited before it. The caller frees it. NULL: out of memory. */
static bool *find_waits(const gs_run *run, const gs_sequence *order, const gs_part *part) {
    bool *waits = calloc(part->last - part->first + 1, sizeof *waits);
    gs_host_pause pause = {GS_NO_TIME, GS_NO_TIME};
    for (size_t place = part->first; place < part->last && waits; place++) {
        const gs_issue *issue = gs_run_issue(run, order->data[place]);
        waits[place - part->first] = gs_host_waited(&pause, issue);
        gs_host_pass(&pause, issue);
    }
    return waits;
}

/* Waits at one place of what repeats. */
struct waits {
    const bool *data; /* by place in the part */
    size_t period, count, phase;
};

static bool waits_at(const struct waits *waits, size_t number) {
    return waits->data[number * waits->period + waits->phase];
}

/* Whether the host waits after each `distance`, from `first` on, and hardly ever between. */
static bool is_regular(const struct waits *waits, size_t first, size_t distance) {
    size_t at = 0, missed = 0, between = 0;
    for (size_t i = 0; i < waits->count; i++) {
        bool is_due = i % distance == first % distance;
        at += is_due && waits_at(waits, i);
        missed += is_due && i >= first && !waits_at(waits, i);
        between += !is_due && waits_at(waits, i);
    }
    return at >= FEWEST_WAITS && 4 * missed <= at && 4 * between <= at;
}

/* The distance of waits at this place, and the first of them; 0: they are not regular, or after each of what repeats.
 */
static size_t regular_distance(const struct waits *waits, size_t *first) {
    size_t last = SIZE_MAX, tries = 0;
    for (size_t i = 0; i < waits->count && tries < MOST_TRIES; i++) {
        if (!waits_at(waits, i))
            continue;
        bool is_tried = last != SIZE_MAX && i - last > 1;
        tries += is_tried;
        *first = last;
        if (is_tried && is_regular(waits, last, i - last))
            return i - last;
        last = i;
    }
    return 0;
}

/* Of places where waits are regular, the shortest distance. */
static gs_code join_by_waits(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error) {
    bool *data = find_waits(run, order, part);
    size_t shortest = SIZE_MAX, from = 0, first = 0;
    if (!data)
        return gs_fail_memory(error);
    for (size_t phase = 0; phase < part->period; phase++) {
        struct waits waits = {data, part->period, gs_part_steps(part), phase};
        size_t distance = regular_distance(&waits, &first);
        if (!distance || distance >= shortest)
            continue;
        shortest = distance;
        from = part->first + (first % distance) * part->period + phase;
    }
    free(data);
    if (shortest != SIZE_MAX)
        gs_part_join(part, from, shortest, GS_PARTS_BY_WAITS);
    return GS_OK;
}

gs_code gs_part_lengthen(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error) {
    size_t distance = 0, from = 0;
    gs_code code = gs_ranges_distance(run, order, part, GS_PROFILER_STEP, &distance, &from, error);
    if (code != GS_OK || distance == part->period)
        return code;
    if (distance && gs_part_join(part, from, distance / part->period, GS_PARTS_BY_RANGES))
        return GS_OK;
    return join_by_waits(run, order, part, error);
}
