/*
 * unordered.c: pairs of launches that could have overlapped, and whether the prediction has them right.
 *
 * Two launches overlap if the time from the first start to the last end of one and that of the other have a part in
 * common. They could have overlapped if the host had issued both before one of them ended, and neither waits for the
 * other: not in its stream, and not through events, edges of a graph, or a chain of these. Whether they did depends on
 * the GPU: its queue, its SMs, and how long things took.
 *
 * Launches are looked at in the order in which the host issued them, with a list of those before that had not ended.
 * All operations between two launches of which one waits for the other were in flight too, so a search backward from a
 * launch through these finds all that it waits for. A launch that may start early, when the blocks of another one have
 * started, does not wait for the end of that, but for all that the other one waits for.
 */
#include "timeline_parts.h"

#include <stdlib.h>

struct search {
    const gs_run *run;
    const gs_timeline *timeline;
    size_t count;             /* operations: launches, then copies */
    size_t *before;           /* by operation: the one before it in its stream, or SIZE_MAX */
    uint32_t *found, *passed; /* by operation: the last launch that waits for it, plus 1; from which it was searched */
    size_t *list;             /* of the search */
    uint32_t *open;           /* launches that have not ended */
    size_t open_count;
};

/* When the host issued a launch; if that is not known, when it started. */
static int64_t issued_ns(const gs_issue *issue) {
    return issue->at_ns == GS_NO_TIME ? issue->start_ns : gs_min(issue->at_ns, issue->start_ns);
}

/* ---- what is before what ---- */

static bool join_stream(struct search *search, gs_names *streams, size_t *last, size_t operation, const char *stream) {
    search->before[operation] = SIZE_MAX;
    if (!stream)
        return true;
    size_t fresh = streams->count, number = gs_names_add(streams, stream, fresh);
    if (number == SIZE_MAX)
        return false;
    if (number != fresh)
        search->before[operation] = last[number];
    last[number] = operation;
    return true;
}

/* Links the operations of each stream, in the order in which the host issued them. */
static bool link_streams(struct search *search) {
    const gs_run *run = search->run;
    size_t launches = run->launches.count, copy = 0;
    size_t *last = malloc((search->count + 1) * sizeof *last);
    gs_names streams = {0};
    bool done = last;
    for (size_t i = 0; i <= launches && done; i++) {
        for (; copy < run->copies.count && run->copies.data[copy].before <= i && done; copy++)
            done = join_stream(search, &streams, last, launches + copy, run->copies.data[copy].stream);
        if (i < launches && done)
            done = join_stream(search, &streams, last, i, run->launches.data[i].stream);
    }
    gs_names_free(&streams);
    free(last);
    return done;
}

/* ---- what a launch waits for ---- */

/* Notes that the launch waits for the end of an operation, or (not `at_end`) only for what that waits for. */
static void reach(struct search *search, size_t launch, size_t operation, bool at_end, size_t *count) {
    const gs_issue *issue = gs_run_issue(search->run, operation);
    if (issue->end_ns == GS_NO_TIME || issue->end_ns <= issued_ns(gs_run_issue(search->run, launch)))
        return;
    if (at_end)
        search->found[operation] = (uint32_t)launch + 1;
    if (search->passed[operation] == launch + 1)
        return;
    search->passed[operation] = (uint32_t)launch + 1;
    search->list[(*count)++] = operation;
}

static void reach_from(struct search *search, size_t launch, size_t operation, size_t *count) {
    const gs_issue *issue = gs_run_issue(search->run, operation);
    size_t before = search->before[operation];
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &search->run->edges.data[i];
        size_t other = edge->is_copy ? search->run->launches.count + edge->number : edge->number;
        bool at_end = edge->when == GS_AT_END || edge->is_copy;
        reach(search, launch, other, at_end, count);
        if (!at_end && other == before)
            before = SIZE_MAX;
    }
    if (before != SIZE_MAX)
        reach(search, launch, before, true, count);
}

static void find_awaited(struct search *search, size_t launch) {
    size_t count = 0;
    reach_from(search, launch, launch, &count);
    for (size_t i = 0; i < count; i++)
        reach_from(search, launch, search->list[i], &count);
}

/* ---- pairs ---- */

/* For how long two launches ran at the same time; negative: not at all. */
static int64_t together_ns(const struct search *search, size_t a, size_t b, bool measured) {
    const gs_issue *first = gs_run_issue(search->run, a), *second = gs_run_issue(search->run, b);
    const gs_course *one = &search->timeline->operations[a].course, *two = &search->timeline->operations[b].course;
    return measured ? gs_min(first->end_ns, second->end_ns) - gs_max(first->start_ns, second->start_ns)
                    : gs_min(one->end_ns, two->end_ns) - gs_max(one->start_ns, two->start_ns);
}

static void note_pair(gs_launch_compared *launch, size_t other, bool measured, bool predicted) {
    launch->measured += measured;
    launch->predicted += predicted;
    launch->both += measured && predicted;
    if (measured && !predicted && launch->only_measured == SIZE_MAX)
        launch->only_measured = other;
    if (predicted && !measured && launch->only_predicted == SIZE_MAX)
        launch->only_predicted = other;
}

static void count_pair(const struct search *search, size_t a, size_t b, gs_overlaps *pairs,
                       gs_launch_compared *launches) {
    int64_t measured_ns = together_ns(search, a, b, true), predicted_ns = together_ns(search, a, b, false);
    bool measured = measured_ns > 0, predicted = predicted_ns > 0;
    pairs->possible++;
    pairs->right += measured == predicted;
    pairs->brief += measured != predicted && gs_max(measured_ns, predicted_ns) <= GS_SHORT_NS;
    pairs->measured += measured;
    pairs->predicted += predicted;
    pairs->both += measured && predicted;
    pairs->shared_ns += gs_min(gs_max(0, measured_ns), gs_max(0, predicted_ns));
    pairs->longest_ns += gs_max(0, gs_max(measured_ns, predicted_ns));
    if (!launches)
        return;
    note_pair(&launches[a], b, measured, predicted);
    note_pair(&launches[b], a, measured, predicted);
}

static void look_at(struct search *search, size_t launch, gs_overlaps *pairs, gs_launch_compared *launches) {
    int64_t at_ns = issued_ns(gs_run_issue(search->run, launch));
    size_t kept = 0;
    for (size_t i = 0; i < search->open_count; i++)
        if (gs_run_issue(search->run, search->open[i])->end_ns > at_ns)
            search->open[kept++] = search->open[i];
    search->open_count = kept;
    if (kept)
        find_awaited(search, launch);
    for (size_t i = 0; i < kept; i++)
        if (search->found[search->open[i]] != launch + 1)
            count_pair(search, launch, search->open[i], pairs, launches);
    search->open[search->open_count++] = (uint32_t)launch;
}

static bool is_comparable(const struct search *search, size_t launch) {
    const gs_course *course = &search->timeline->operations[launch].course;
    return gs_measured_ns(gs_run_issue(search->run, launch)) && course->start_ns != GS_NO_TIME &&
           course->end_ns != GS_NO_TIME;
}

struct issued {
    int64_t at_ns;
    size_t launch;
};

GS_ORDER_THEN(compare_issued, struct issued, at_ns, launch)

/* The launches in the order in which the host issued them; NULL: out of memory. */
static struct issued *sort_launches(const struct search *search, size_t *count) {
    size_t launches = search->run->launches.count;
    struct issued *issued = malloc((launches + 1) * sizeof *issued);
    *count = 0;
    for (size_t i = 0; issued && i < launches; i++)
        if (is_comparable(search, i))
            issued[(*count)++] = (struct issued){issued_ns(gs_run_issue(search->run, i)), i};
    if (issued)
        qsort(issued, *count, sizeof *issued, compare_issued);
    return issued;
}

gs_code gs_compare_overlaps(const gs_run *run, const gs_timeline *timeline, gs_overlaps *pairs,
                            gs_launch_compared *launches, gs_error *error) {
    size_t operations = run->launches.count + run->copies.count, count = 0;
    struct search search = {.run = run, .timeline = timeline, .count = operations};
    struct issued *issued = sort_launches(&search, &count);
    search.before = malloc((operations + 1) * sizeof *search.before);
    search.list = malloc((operations + 1) * sizeof *search.list);
    search.found = calloc(operations + 1, sizeof *search.found);
    search.passed = calloc(operations + 1, sizeof *search.passed);
    search.open = malloc((operations + 1) * sizeof *search.open);
    bool done =
        issued && search.before && search.list && search.found && search.passed && search.open && link_streams(&search);
    for (size_t i = 0; i < count && done; i++)
        look_at(&search, issued[i].launch, pairs, launches);
    free(issued);
    free(search.before);
    free(search.list);
    free(search.found);
    free(search.passed);
    free(search.open);
    return done ? GS_OK : gs_fail_memory(error);
}
