/*
 * freed.c: when the launches and copies of a recorded program were ready: from the recording; and the null model.
 *
 * An operation is ready when it has reached the GPU, what is before it in its stream and what it depends on had ended,
 * and the gap after the last of these has passed. When these ended is taken from the recording, when the operation
 * itself started is not: whether it started then depends on the queue and the SMs.
 *
 * The null model leaves queue and SMs out: an operation that is ready starts, and takes the time that it takes alone.
 * Then operations are looked at in the order in which the host issued them, and what they wait for ended in the model.
 */
#include "timeline_parts.h"

#include <stdlib.h>

struct walk {
    const gs_run *run;
    const gs_pace *pace;
    gs_names streams;
    size_t *last;                 /* by stream: its last operation so far */
    gs_freed *freed;              /* by operation */
    gs_timeline *unscheduled;     /* the null model while it is played; NULL: operations end as in the recording */
    const gs_timeline *durations; /* for it: how long operations take */
};

/* What an operation waits for. */
struct awaited {
    int64_t until_ns; /* the latest of all; INT64_MIN: nothing */
    size_t last;      /* which that was */
    bool is_by_event; /* it was not in the stream */
    bool is_early;    /* it waits for a start or a trigger */
};

static void await(const struct walk *walk, struct awaited *awaited, size_t operation, gs_when when, bool is_by_event) {
    const gs_issue *issue = gs_run_issue(walk->run, operation);
    int64_t until_ns = when == GS_AT_START ? issue->start_ns : issue->end_ns;
    if (walk->unscheduled) {
        const gs_course *course = &walk->unscheduled->operations[operation].course;
        until_ns = when == GS_AT_START ? course->start_ns : course->end_ns;
    }
    awaited->is_early = awaited->is_early || when != GS_AT_END;
    if (until_ns == GS_NO_TIME || until_ns < awaited->until_ns)
        return;
    awaited->until_ns = until_ns;
    awaited->last = operation;
    awaited->is_by_event = is_by_event;
}

static int64_t gap_of(const struct walk *walk, const struct awaited *awaited, size_t operation) {
    const gs_gaps *gaps = &walk->pace->gaps;
    if (awaited->is_early)
        return 0;
    if (operation >= walk->run->launches.count)
        return gaps->copy_ns;
    if (awaited->last != SIZE_MAX && awaited->last >= walk->run->launches.count)
        return gaps->after_copy_ns;
    return gs_is_in_graph(walk->run, operation) ? gaps->graph_ns : gaps->stream_ns;
}

/* An operation of the null model starts as soon as it is ready. One that never ends in the prediction has no times. */
static void start_at_once(const struct walk *walk, size_t operation) {
    const gs_operation *like = &walk->durations->operations[operation];
    gs_course *course = &walk->unscheduled->operations[operation].course;
    bool ends = like->course.start_ns != GS_NO_TIME && like->course.end_ns != GS_NO_TIME;
    int64_t takes_ns =
        operation < walk->run->launches.count ? like->alone_ns : like->course.end_ns - like->course.start_ns;
    *course = like->course;
    course->ready_ns = course->start_ns = ends ? gs_max(0, walk->freed[operation].ready_ns) : GS_NO_TIME;
    course->end_ns = ends ? course->start_ns + takes_ns : GS_NO_TIME;
}

static bool look_at(struct walk *walk, size_t operation, const char *stream) {
    const gs_issue *issue = gs_run_issue(walk->run, operation);
    struct awaited awaited = {.until_ns = INT64_MIN, .last = SIZE_MAX};
    size_t before = SIZE_MAX;
    if (stream) {
        size_t fresh = walk->streams.count, number = gs_names_add(&walk->streams, stream, fresh);
        if (number == SIZE_MAX)
            return false;
        before = number == fresh ? SIZE_MAX : walk->last[number];
        walk->last[number] = operation;
    }
    for (size_t i = issue->after; i < (size_t)issue->after + issue->after_count; i++) {
        const gs_edge *edge = &walk->run->edges.data[i];
        size_t other = edge->is_copy ? walk->run->launches.count + edge->number : edge->number;
        await(walk, &awaited, other, edge->when, other != before);
        if (edge->when == GS_AT_START && other == before)
            before = SIZE_MAX;
    }
    if (before != SIZE_MAX)
        await(walk, &awaited, before, GS_AT_END, false);
    bool waits = awaited.until_ns != INT64_MIN;
    int64_t arrived_ns = issue->at_ns == GS_NO_TIME ? INT64_MIN : issue->at_ns + walk->pace->latency_ns;
    int64_t free_ns = waits ? awaited.until_ns + gap_of(walk, &awaited, operation) : INT64_MIN;
    walk->freed[operation] = (gs_freed){gs_max(arrived_ns, free_ns), waits ? awaited.until_ns : GS_NO_TIME,
                                        awaited.last, awaited.is_by_event};
    if (walk->unscheduled)
        start_at_once(walk, operation);
    return true;
}

/* Looks at all operations in the order in which the host issued them. */
static gs_freed *walk_through(struct walk *walk, gs_error *error) {
    const gs_run *run = walk->run;
    size_t launches = run->launches.count, count = launches + run->copies.count, copy = 0;
    walk->last = malloc((count + 1) * sizeof *walk->last);
    walk->freed = malloc((count + 1) * sizeof *walk->freed);
    bool done = walk->last && walk->freed;
    for (size_t i = 0; i <= launches && done; i++) {
        for (; copy < run->copies.count && run->copies.data[copy].before <= i && done; copy++)
            done = look_at(walk, launches + copy, run->copies.data[copy].stream);
        if (i < launches && done)
            done = look_at(walk, i, run->launches.data[i].stream);
    }
    gs_names_free(&walk->streams);
    free(walk->last);
    if (done)
        return walk->freed;
    free(walk->freed);
    gs_fail_memory(error);
    return NULL;
}

gs_freed *gs_freed_times(const gs_run *run, const gs_pace *pace, gs_error *error) {
    struct walk walk = {.run = run, .pace = pace};
    return walk_through(&walk, error);
}

gs_code gs_play_unscheduled(const gs_run *run, const gs_timeline *played, bool follows, gs_timeline *timeline,
                            gs_error *error) {
    struct walk walk = {
        .run = run, .pace = &played->pace, .durations = played, .unscheduled = follows ? NULL : timeline};
    gs_freed *freed = walk_through(&walk, error);
    walk.unscheduled = timeline;
    for (size_t i = 0; freed && i < timeline->count; i++) {
        if (follows)
            start_at_once(&walk, i);
        timeline->end_ns = gs_max(timeline->end_ns, timeline->operations[i].course.end_ns);
    }
    free(freed);
    return freed ? GS_OK : GS_E_MEMORY;
}
