/*
 * difference_view.c: why two launches overlap in the measurement but not in the prediction, or the reverse.
 *
 * Of the two launches, the one whose start or duration differs most from the measurement is the cause. The reason is
 * one of three: the launch waits in the prediction, it took the driver longer than usual, or its duration was
 * estimated.
 */
#include "view.h"

#include <stdlib.h>

/* How far a launch is from its measurement: later is positive. */
struct shift {
    size_t launch;
    int64_t start_ns, duration_ns;
};

static struct shift shift_of(const gs_comparison *comparison, size_t launch) {
    const gs_issue *issue = &comparison->run->launches.data[launch].issue;
    const gs_course *course = &comparison->timeline->operations[launch].course;
    return (struct shift){launch, course->start_ns - issue->start_ns,
                          (course->end_ns - course->start_ns) - (issue->end_ns - issue->start_ns)};
}

static int64_t size_of(const struct shift *shift) {
    return gs_max(llabs(shift->start_ns), llabs(shift->duration_ns));
}

/* How long both run at the same time. */
static int64_t overlap_ns(const gs_comparison *comparison, size_t a, size_t b, bool is_measured) {
    const gs_issue *first = &comparison->run->launches.data[a].issue,
                   *second = &comparison->run->launches.data[b].issue;
    const gs_course *one = &comparison->timeline->operations[a].course,
                    *two = &comparison->timeline->operations[b].course;
    if (is_measured)
        return gs_min(first->end_ns, second->end_ns) - gs_max(first->start_ns, second->start_ns);
    return gs_min(one->end_ns, two->end_ns) - gs_max(one->start_ns, two->start_ns);
}

static void put_later(gs_text *text, const gs_comparison *comparison, const struct shift *shift) {
    gs_wait waits[GS_MOST_WAITS];
    size_t count = gs_timeline_waits(comparison->timeline, shift->launch, waits);
    const gs_wait *longest = NULL;
    for (size_t i = 0; i < count; i++)
        if (waits[i].reason != GS_REASON_HOST && waits[i].reason != GS_REASON_REST &&
            (!longest || waits[i].ns > longest->ns))
            longest = &waits[i];
    gs_text_add(text, " is predicted to start ");
    gs_put_duration(text, shift->start_ns);
    gs_text_add(text, " later than measured");
    if (!longest)
        return;
    gs_text_add(text, ": it waits ");
    gs_put_wait(text, longest->reason, longest->lack,
                longest->behind == SIZE_MAX ? NULL : gs_operation_name(comparison->run, longest->behind));
}

static void put_earlier(gs_text *text, const gs_comparison *comparison, const struct shift *shift) {
    const gs_issue *issue = &comparison->run->launches.data[shift->launch].issue;
    const gs_course *course = &comparison->timeline->operations[shift->launch].course;
    int64_t usual_ns = comparison->timeline->pace.latency_ns;
    gs_text_add(text, " started ");
    gs_put_duration(text, -shift->start_ns);
    gs_text_add(text, " later than predicted");
    bool had_to_wait = course->freed_ns != GS_NO_TIME && course->freed_ns > course->arrived_ns;
    if (had_to_wait || issue->at_ns == GS_NO_TIME || issue->start_ns - issue->at_ns < 2 * usual_ns)
        return;
    gs_text_add(text, ": it reached the GPU ");
    gs_put_duration(text, issue->start_ns - issue->at_ns);
    gs_text_add(text, " after its launch; usual is ");
    gs_put_duration(text, usual_ns);
    if (gs_is_in_graph(comparison->run, shift->launch))
        gs_text_add(text, "; it begins a branch of a graph, and the branches reach the GPU one after the other");
    else if (comparison->compared->data[shift->launch].is_first)
        gs_text_add(text, "; it is the first launch of its kernel, whose code the driver may have to load");
}

static void put_duration_shift(gs_text *text, const gs_comparison *comparison, const struct shift *shift) {
    const gs_operation *operation = &comparison->timeline->operations[shift->launch];
    const gs_issue *issue = &comparison->run->launches.data[shift->launch].issue;
    gs_text_add(text, " ran ");
    gs_put_duration(text, issue->end_ns - issue->start_ns);
    gs_text_add(text, ", and is predicted to run ");
    gs_put_duration(text, operation->course.end_ns - operation->course.start_ns);
    if (operation->is_borrowed)
        gs_text_add(text, ": its blocks are assumed to run as long as in launches of the kernel that ran alone");
    else if (operation->is_shared)
        gs_text_add(text, ": it was measured beside other launches, which slowed it down");
}

void gs_put_difference(gs_text *text, const gs_comparison *comparison, size_t launch, size_t other, bool is_measured) {
    int64_t together_ns = overlap_ns(comparison, launch, other, is_measured);
    if (together_ns <= GS_SHORT_NS) {
        gs_text_add(text, "they overlap for only ");
        gs_put_duration(text, together_ns);
        gs_text_add(text, ", which is less than launch overheads vary");
        return;
    }
    struct shift one = shift_of(comparison, launch), two = shift_of(comparison, other);
    const struct shift *cause = size_of(&one) >= size_of(&two) ? &one : &two;
    gs_put_name(text, comparison->run->launches.data[cause->launch].kernel);
    if (llabs(cause->duration_ns) > llabs(cause->start_ns))
        put_duration_shift(text, comparison, cause);
    else if (cause->start_ns > 0)
        put_later(text, comparison, cause);
    else
        put_earlier(text, comparison, cause);
}
