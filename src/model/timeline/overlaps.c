/*
 * overlaps.c: a predicted timeline beside the measured one: which launches ran at the same time, and when they started.
 *
 * Launches that were not measured, or never end, are left out. unordered.c finds the pairs that overlap.
 */
#include "timeline_parts.h"

#include <stdlib.h>

struct interval {
    int64_t start_ns, end_ns;
    uint32_t launch;
};

struct intervals {
    struct interval *data; /* by start */
    size_t count;
};

static int compare_intervals(const void *first, const void *second) {
    const struct interval *a = first, *b = second;
    int order = GS_COMPARE(a->start_ns, b->start_ns);
    return order ? order : GS_COMPARE(a->launch, b->launch);
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

static void compare_launch(const gs_run *run, const gs_timeline *followed, size_t launch,
                           gs_program_compared *compared) {
    const gs_issue *issue = &run->launches.data[launch].issue;
    const gs_course *course = &followed->operations[launch].course;
    if (!is_comparable(run, followed, launch))
        return;
    int64_t apart_ns = llabs(course->start_ns - issue->start_ns), limit_ns = 1000;
    for (size_t i = 0; i < GS_COUNT(compared->starts_within_ns); i++, limit_ns *= 10)
        compared->starts_within_ns[i] += apart_ns <= limit_ns;
    compared->launches++;
    if (issue->facts && issue->facts->shared_config_bytes != GS_NOT_GIVEN) {
        compared->configs++;
        compared->configs_same += issue->facts->shared_config_bytes == course->config_bytes;
    }
}

/* When the last launch ends, and how long any runs. False: out of memory. */
static bool compare_totals(const gs_run *run, const gs_timeline *played, gs_program_compared *compared) {
    struct intervals measured = {0}, predicted = {0};
    bool allocated = intervals_new(&measured, run, played, true) && intervals_new(&predicted, run, played, false);
    for (size_t i = 0; allocated && i < measured.count; i++) {
        compared->measured_end_ns = gs_max(compared->measured_end_ns, measured.data[i].end_ns);
        compared->predicted_end_ns = gs_max(compared->predicted_end_ns, predicted.data[i].end_ns);
    }
    if (allocated) {
        compared->measured_busy_ns = busy_ns(&measured);
        compared->predicted_busy_ns = busy_ns(&predicted);
    }
    free(measured.data);
    free(predicted.data);
    return allocated;
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
    bool allocated =
        compared->data && compare_totals(run, played, compared) && compare_launches(run, followed, compared);
    gs_code code = allocated ? GS_OK : gs_fail_memory(error);
    if (code == GS_OK)
        code = gs_compare_overlaps(run, followed, &compared->pairs, compared->data, error);
    if (code == GS_OK)
        code = gs_compare_overlaps(run, played, &compared->from_start, NULL, error);
    if (code != GS_OK)
        gs_program_compared_clear(compared);
    return code;
}

void gs_program_compared_clear(gs_program_compared *compared) {
    free(compared->data);
    *compared = (gs_program_compared){0};
}
