/*
 * overlaps.c: a predicted timeline beside the measured one: which launches ran at the same time, and when they started.
 *
 * Two launches overlap if the time from the first start to the last end of one and that of the other have a part in
 * common. Pairs are found by going through the launches in the order of their starts, with a list of those that have
 * not ended. Launches that were not measured, or never end, are left out.
 */
#include "timeline.h"

#include <stdlib.h>

struct interval {
    int64_t start_ns, end_ns;
    uint32_t launch;
};

struct intervals {
    struct interval *data; /* by start */
    size_t count;
    size_t *at;   /* by launch: its number in `data` */
    size_t *open; /* those that have not ended */
    size_t open_count;
};

static bool meet(const struct interval *a, const struct interval *b) {
    return a->start_ns < b->end_ns && b->start_ns < a->end_ns;
}

static int compare_intervals(const void *first, const void *second) {
    const struct interval *a = first, *b = second;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->launch < b->launch ? -1 : 1;
}

static bool is_comparable(const gs_run *run, const gs_timeline *timeline, size_t launch) {
    const gs_course *course = &timeline->operations[launch].course;
    return gs_measured_ns(&run->launches.data[launch].issue) && course->end_ns != GS_NO_TIME &&
           course->start_ns != GS_NO_TIME;
}

static bool intervals_new(struct intervals *intervals, const gs_run *run, const gs_timeline *timeline, bool measured) {
    size_t launches = run->launches.count;
    *intervals = (struct intervals){0};
    intervals->data = malloc((launches + 1) * sizeof *intervals->data);
    intervals->at = calloc(launches + 1, sizeof *intervals->at);
    intervals->open = malloc((launches + 1) * sizeof *intervals->open);
    if (!intervals->data || !intervals->at || !intervals->open)
        return false;
    for (size_t i = 0; i < launches; i++) {
        const gs_issue *issue = &run->launches.data[i].issue;
        const gs_course *course = &timeline->operations[i].course;
        if (is_comparable(run, timeline, i))
            intervals->data[intervals->count++] = (struct interval){
                measured ? issue->start_ns : course->start_ns, measured ? issue->end_ns : course->end_ns, (uint32_t)i};
    }
    qsort(intervals->data, intervals->count, sizeof *intervals->data, compare_intervals);
    for (size_t i = 0; i < intervals->count; i++)
        intervals->at[intervals->data[i].launch] = i;
    return true;
}

static void intervals_free(struct intervals *intervals) {
    free(intervals->data);
    free(intervals->at);
    free(intervals->open);
}

/* Drops those from the open list that have ended by then. */
static void close_ended(struct intervals *intervals, int64_t time_ns) {
    size_t kept = 0;
    for (size_t i = 0; i < intervals->open_count; i++)
        if (intervals->data[intervals->open[i]].end_ns > time_ns)
            intervals->open[kept++] = intervals->open[i];
    intervals->open_count = kept;
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

static void note_pair(gs_program_compared *compared, size_t launch, size_t other, bool measured, bool both) {
    gs_launch_compared *one = &compared->data[launch];
    (*(measured ? &one->measured : &one->predicted))++;
    one->both += measured && both;
    size_t *only = measured ? &one->only_measured : &one->only_predicted;
    if (!both && *only == SIZE_MAX)
        *only = other;
}

/* Counts the pairs of one timeline, and those that are pairs of the other too. */
static void count_pairs(struct intervals *one, const struct intervals *other, bool measured,
                        gs_program_compared *compared) {
    for (size_t i = 0; i < one->count; i++) {
        size_t launch = one->data[i].launch;
        close_ended(one, one->data[i].start_ns);
        for (size_t j = 0; j < one->open_count; j++) {
            size_t with = one->data[one->open[j]].launch;
            if (!meet(&one->data[i], &one->data[one->open[j]]))
                continue;
            bool both = meet(&other->data[other->at[launch]], &other->data[other->at[with]]);
            (*(measured ? &compared->measured_pairs : &compared->predicted_pairs))++;
            compared->both_pairs += measured && both;
            note_pair(compared, launch, with, measured, both);
            note_pair(compared, with, launch, measured, both);
        }
        one->open[one->open_count++] = i;
    }
}

static void compare_launch(const gs_run *run, const gs_timeline *timeline, size_t launch,
                           gs_program_compared *compared) {
    const gs_issue *issue = &run->launches.data[launch].issue;
    const gs_course *course = &timeline->operations[launch].course;
    if (!is_comparable(run, timeline, launch))
        return;
    int64_t apart_ns = llabs(course->start_ns - issue->start_ns), limit_ns = 1000;
    for (size_t i = 0; i < GS_COUNT(compared->starts_within_ns); i++, limit_ns *= 10)
        compared->starts_within_ns[i] += apart_ns <= limit_ns;
    compared->launches++;
    compared->measured_end_ns = gs_max(compared->measured_end_ns, issue->end_ns);
    compared->predicted_end_ns = gs_max(compared->predicted_end_ns, course->end_ns);
    if (issue->facts && issue->facts->shared_config_bytes != GS_NOT_GIVEN) {
        compared->configs++;
        compared->configs_same += issue->facts->shared_config_bytes == course->config_bytes;
    }
}

gs_code gs_program_compare(const gs_run *run, const gs_timeline *timeline, gs_program_compared *compared,
                           gs_error *error) {
    struct intervals measured = {0}, predicted = {0};
    gs_names kernels = {0};
    *compared = (gs_program_compared){0};
    compared->data = calloc(run->launches.count + 1, sizeof *compared->data);
    bool allocated = compared->data && intervals_new(&measured, run, timeline, true) &&
                     intervals_new(&predicted, run, timeline, false);
    for (size_t i = 0; allocated && i < run->launches.count; i++) {
        size_t first = gs_names_add(&kernels, run->launches.data[i].kernel, i);
        allocated = first != SIZE_MAX;
        compared->data[i].is_first = first == i;
        compared->data[i].only_measured = compared->data[i].only_predicted = SIZE_MAX;
        compare_launch(run, timeline, i, compared);
    }
    if (allocated) {
        compared->measured_busy_ns = busy_ns(&measured);
        compared->predicted_busy_ns = busy_ns(&predicted);
        count_pairs(&measured, &predicted, true, compared);
        count_pairs(&predicted, &measured, false, compared);
    }
    gs_names_free(&kernels);
    intervals_free(&measured);
    intervals_free(&predicted);
    gs_code code = allocated ? gs_compare_unordered(run, timeline, compared, error) : gs_fail_memory(error);
    if (code != GS_OK)
        gs_program_compared_clear(compared);
    return code;
}

void gs_program_compared_clear(gs_program_compared *compared) {
    free(compared->data);
    *compared = (gs_program_compared){0};
}
