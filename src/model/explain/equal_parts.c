/*
 * equal_parts.c: how many repeated parts make a step.
 *
 * A step may repeat inside: a network of equal layers, with nothing before and after them, has the same operations
 * again after each layer. They do not show where a step ends. What the program does around them may:
 *
 *   - It names its steps, and a name begins anew after each two, three, ... parts.
 *   - The host pauses longer after each two, three, ... of them, because it leaves and enters a step, or waits for the
 *     GPU. Hosts are noisy, so pauses at one place are compared by their ranks (Mann-Whitney), which a few long ones do
 *     not disturb. There are many places: the more, the surer the ranks must be.
 *
 * What happens after more than eight of them is more likely a report that the program writes now and then. If nothing
 * of this is in the recording, each is taken for a step.
 */
#include "change.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_PARTS = 8 };

/* The most likely that longer pauses are found by chance, at any place; and how many times as long they are. */
static const double MOST_CHANCE = 0.01, LONGER_PAUSE = 1.5;

/* Makes each step as long as `equal_parts` steps, the first one that begins at `from`. False: too few would be left. */
static bool join_steps(gs_part *part, size_t from, size_t equal_parts, gs_parts_by parts_by) {
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

/* ---- pauses of the host ---- */

/* How long the host paused at one place of the repeated parts, before the number of those. */
struct pause {
    int64_t ns;
    size_t number;
};

/* What pauses show: a step begins at the place `phase` of each `parts` repeated parts, from `first` on. */
struct pause_finding {
    double deviations; /* by which the ranks of these pauses are above those of others; before: that they must be */
    size_t parts, first, phase;
};

GS_ORDER_THEN(compare_pauses, struct pause, ns, number)

static bool is_of(const struct pause *pause, size_t parts, size_t first) {
    return pause->number % parts == first;
}

/* The median of the sorted pauses that are of a class, or that are not. */
static int64_t median_pause(const struct pause *pauses, size_t count, size_t parts, size_t first, bool is_in) {
    size_t of = 0, seen = 0;
    for (size_t i = 0; i < count; i++)
        of += is_of(&pauses[i], parts, first) == is_in;
    for (size_t i = 0; i < count; i++)
        if (is_of(&pauses[i], parts, first) == is_in && seen++ == of / 2)
            return pauses[i].ns;
    return 0;
}

/* By how many standard deviations the ranks of a class are above those of the others. */
static double rank_deviations(const struct pause *pauses, size_t count, size_t parts, size_t first) {
    double of = 0, ranks = 0;
    for (size_t i = 0; i < count; i++) {
        of += is_of(&pauses[i], parts, first);
        ranks += is_of(&pauses[i], parts, first) ? (double)(i + 1) : 0;
    }
    double others = (double)count - of, above = ranks - of * (of + 1) / 2 - of * others / 2;
    return of > 0 && others > 0 ? above / sqrt(of * others * ((double)count + 1) / 12) : 0;
}

/* Looks at the sorted pauses of one place. */
static void look_at_pauses(const struct pause *pauses, size_t count, size_t phase, struct pause_finding *best) {
    for (size_t parts = 2; parts <= MOST_PARTS; parts++)
        for (size_t first = 0; first < parts; first++) {
            double deviations = rank_deviations(pauses, count, parts, first);
            if (deviations <= best->deviations)
                continue;
            double here = (double)median_pause(pauses, count, parts, first, true);
            if (here >= LONGER_PAUSE * (double)median_pause(pauses, count, parts, first, false))
                *best = (struct pause_finding){deviations, parts, first, phase};
        }
}

/* The deviations that chance reaches seldom enough at one of all places: of each, 2 + 3 + ... + 8 classes are tried. */
static double sure_deviations(size_t places) {
    const double tries = (double)places * (MOST_PARTS * (MOST_PARTS + 1) / 2 - 1);
    double deviations = 3;
    while (erfc(deviations / sqrt(2)) / 2 * tries > MOST_CHANCE)
        deviations += 0.01;
    return deviations;
}

static gs_code join_by_pauses(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error) {
    size_t steps = gs_part_steps(part), skipped = part->first ? 0 : 1;
    struct pause *pauses = malloc((steps + 1) * sizeof *pauses);
    struct pause_finding best = {.deviations = sure_deviations(part->period)};
    if (!pauses)
        return gs_fail_memory(error);
    for (size_t phase = 0; phase < part->period; phase++) {
        for (size_t i = skipped; i < steps; i++)
            pauses[i - skipped] = (struct pause){gs_host_gap(run, order, part->first + i * part->period + phase), i};
        qsort(pauses, steps - skipped, sizeof *pauses, compare_pauses);
        look_at_pauses(pauses, steps - skipped, phase, &best);
    }
    free(pauses);
    if (best.parts)
        join_steps(part, part->first + best.first * part->period + best.phase, best.parts, GS_PARTS_BY_PAUSES);
    return GS_OK;
}

/* Makes steps longer, if the recording shows that each is several repeated parts. */
static gs_code lengthen_steps(const gs_run *run, const gs_sequence *order, gs_part *part, gs_error *error) {
    size_t distance = 0, from = 0;
    gs_code code = gs_ranges_distance(run, order, part, GS_PROFILER_STEP, &distance, &from, error);
    if (code != GS_OK || distance == part->period)
        return code;
    if (distance && join_steps(part, from, distance / part->period, GS_PARTS_BY_RANGES))
        return GS_OK;
    return join_by_pauses(run, order, part, error);
}

gs_code gs_part_repeated(const gs_run *run, const gs_sequence *order, size_t equal_parts, gs_part *part,
                         gs_error *error) {
    gs_code code = gs_part_shortest(run, order, part, error);
    if (code == GS_OK && part->period && !equal_parts)
        code = lengthen_steps(run, order, part, error);
    if (code != GS_OK || !part->period)
        return code;
    if (equal_parts > 1)
        join_steps(part, part->first, equal_parts, GS_PARTS_BY_WORDS);
    return gs_part_settle(run, order, part, error);
}
