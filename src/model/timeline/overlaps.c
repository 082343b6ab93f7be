/*
 * overlaps.c: a predicted timeline beside the measured one: which launches ran at the same time, and when they started.
 *
 * Launches that were not measured, or never end, are left out. unordered.c finds the pairs that overlap. Most pairs
 * that could overlap do not, so agreement is counted among those that overlap in at least one of the two: it is low if
 * the prediction has the overlaps wrong. The null model (freed.c) is compared in the same way.
 */
#include "timeline_parts.h"

#include <math.h>
#include <stdlib.h>

struct interval {
    int64_t start_ns, end_ns;
    uint32_t launch;
};

struct intervals {
    struct interval *data; /* by start */
    size_t count;
};

GS_ORDER_THEN(compare_intervals, struct interval, start_ns, launch)

static bool is_comparable(const gs_run *run, const gs_timeline *timeline, size_t launch) {
    const gs_course *course = &timeline->operations[launch].course;
    return gs_measured_ns(&run->launches.data[launch].issue) && course->end_ns != GS_NO_TIME &&
           course->start_ns != GS_NO_TIME;
}

static bool intervals_new(struct intervals *intervals, const gs_run *run, const gs_timeline *timeline, bool measured) {
    size_t launches = run->launches.count;
    *intervals = (struct intervals){0};
    intervals->data = malloc((launches + 1) * sizeof *intervals->data);
    if (!intervals->data)
        return false;
    for (size_t i = 0; i < launches; i++) {
        const gs_issue *issue = &run->launches.data[i].issue;
        const gs_course *course = &timeline->operations[i].course;
        if (is_comparable(run, timeline, i))
            intervals->data[intervals->count++] = (struct interval){
                measured ? issue->start_ns : course->start_ns, measured ? issue->end_ns : course->end_ns, (uint32_t)i};
    }
    qsort(intervals->data, intervals->count, sizeof *intervals->data, compare_intervals);
    return true;
}

/* The time while at least one is running. */
static int64_t busy_ns(const struct intervals *intervals) {
    int64_t busy = 0, until_ns = INT64_MIN;
    for (size_t i = 0; i < intervals->count; i++) {
        const struct interval *interval = &intervals->data[i];
        busy += gs_max(0, interval->end_ns - gs_max(until_ns, interval->start_ns));
        until_ns = gs_max(until_ns, interval->end_ns);
    }
    return busy;
}

static double percent_of(int64_t part, int64_t all) {
    return all ? 100.0 * (double)part / (double)all : NAN;
}

double gs_overlap_percent(const gs_overlaps *pairs) {
    return percent_of(pairs->both, pairs->measured + pairs->predicted - pairs->both);
}

double gs_overlap_time_percent(const gs_overlaps *pairs) {
    return percent_of(pairs->shared_ns, pairs->longest_ns);
}

/* ---- one model ---- */

static void compare_starts(const gs_run *run, const gs_timeline *followed, gs_side_compared *side) {
    for (size_t launch = 0; launch < run->launches.count; launch++) {
        int64_t limit_ns = 1000;
        if (!is_comparable(run, followed, launch))
            continue;
        int64_t apart_ns =
            llabs(followed->operations[launch].course.start_ns - run->launches.data[launch].issue.start_ns);
        for (size_t i = 0; i < GS_COUNT(side->starts_within_ns); i++, limit_ns *= 10)
            side->starts_within_ns[i] += apart_ns <= limit_ns;
    }
}

/* When the last launch ends, and how long any runs. False: out of memory. */
static bool sum_up(const gs_run *run, const gs_timeline *played, bool measured, int64_t *end_ns, int64_t *all_busy_ns) {
    struct intervals intervals;
    if (!intervals_new(&intervals, run, played, measured))
        return false;
    for (size_t i = 0; i < intervals.count; i++)
        *end_ns = gs_max(*end_ns, intervals.data[i].end_ns);
    *all_busy_ns = busy_ns(&intervals);
    free(intervals.data);
    return true;
}

static gs_code compare_side(const gs_run *run, const gs_timeline *played, const gs_timeline *followed,
                            gs_side_compared *side, gs_launch_compared *launches, gs_error *error) {
    if (!sum_up(run, played, false, &side->end_ns, &side->busy_ns))
        return gs_fail_memory(error);
    compare_starts(run, followed, side);
    gs_code code = gs_compare_overlaps(run, followed, &side->pairs, launches, error);
    return code == GS_OK ? gs_compare_overlaps(run, played, &side->from_start, NULL, error) : code;
}

static gs_code compare_unscheduled(const gs_run *run, const gs_timeline *played, gs_side_compared *side,
                                   gs_error *error) {
    gs_timeline free_running = {0}, followed = {0};
    gs_code code = gs_timeline_unscheduled(run, played, false, &free_running, error);
    if (code == GS_OK)
        code = gs_timeline_unscheduled(run, played, true, &followed, error);
    if (code == GS_OK)
        code = compare_side(run, &free_running, &followed, side, NULL, error);
    gs_timeline_clear(&free_running);
    gs_timeline_clear(&followed);
    return code;
}

/* ---- a program ---- */

static void compare_launch(const gs_run *run, const gs_timeline *followed, size_t launch,
                           gs_program_compared *compared) {
    const gs_issue *issue = &run->launches.data[launch].issue;
    if (!is_comparable(run, followed, launch))
        return;
    compared->launches++;
    if (issue->facts && issue->facts->shared_config_bytes != GS_NOT_GIVEN) {
        compared->configs++;
        compared->configs_same += issue->facts->shared_config_bytes == followed->operations[launch].course.config_bytes;
    }
}

static bool compare_launches(const gs_run *run, const gs_timeline *followed, gs_program_compared *compared) {
    gs_names kernels = {0};
    bool allocated = true;
    for (size_t i = 0; allocated && i < run->launches.count; i++) {
        size_t first = gs_names_add(&kernels, run->launches.data[i].kernel, i);
        allocated = first != SIZE_MAX;
        compared->data[i].is_first = first == i;
        compared->data[i].only_measured = compared->data[i].only_predicted = SIZE_MAX;
        compare_launch(run, followed, i, compared);
    }
    gs_names_free(&kernels);
    return allocated;
}

gs_code gs_program_compare(const gs_run *run, const gs_timeline *played, const gs_timeline *followed,
                           gs_program_compared *compared, gs_error *error) {
    *compared = (gs_program_compared){0};
    compared->data = calloc(run->launches.count + 1, sizeof *compared->data);
    bool allocated = compared->data &&
                     sum_up(run, played, true, &compared->measured_end_ns, &compared->measured_busy_ns) &&
                     compare_launches(run, followed, compared);
    gs_code code = allocated ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK)
        code = compare_side(run, played, followed, &compared->predicted, compared->data, error);
    if (code == GS_OK)
        code = compare_unscheduled(run, played, &compared->unscheduled, error);
    if (code != GS_OK)
        gs_program_compared_clear(compared);
    return code;
}

void gs_program_compared_clear(gs_program_compared *compared) {
    free(compared->data);
    *compared = (gs_program_compared){0};
}
