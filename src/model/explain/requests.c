/*
 * requests.c: the requests of a recorded latency program: how long they take, how often they come, and for how much of
 * the longest one the GPU waits for the host.
 *
 * A request is a range that the program names: the host's time, from before its first call to after its last wait.
 * Without a name it is a step that repeats, from its first call to its last end.
 */
#include "explain.h"

#include <stdlib.h>
#include <string.h>

struct span {
    int64_t from_ns, to_ns;
};

struct spans {
    struct span *data;
    size_t count, capacity;
};

GS_ORDER(compare_spans, struct span, from_ns)

static void sort_spans(struct spans *spans) {
    if (spans->count)
        qsort(spans->data, spans->count, sizeof *spans->data, compare_spans);
}

/* ---- requests ---- */

static const gs_issue *issue_of(const gs_run *run, size_t operation) {
    return operation < run->launches.count ? &run->launches.data[operation].issue
                                           : &run->copies.data[operation - run->launches.count].issue;
}

/* From the first call, or start, to the last end of operations of the order. */
static struct span span_of(const gs_run *run, const gs_sequence *order, size_t from, size_t to) {
    struct span span = {INT64_MAX, INT64_MIN};
    for (size_t i = from; i < to; i++) {
        const gs_issue *issue = issue_of(run, order->data[i]);
        if (!gs_measured_ns(issue))
            continue;
        int64_t first = issue->at_ns == GS_NO_TIME ? issue->start_ns : gs_min(issue->at_ns, issue->start_ns);
        span.from_ns = gs_min(span.from_ns, first);
        span.to_ns = gs_max(span.to_ns, issue->end_ns);
    }
    return span;
}

static gs_code add_span(struct spans *spans, struct span span, gs_error *error) {
    return span.from_ns >= span.to_ns || GS_PUSH(spans, span) ? GS_OK : gs_fail_memory(error);
}

static gs_code find_named(const gs_run *run, const char *name, struct spans *found, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->ranges.count && code == GS_OK; i++) {
        const gs_named_range *range = &run->ranges.data[i];
        if (strcmp(range->name, name) == 0)
            code = add_span(found, (struct span){range->from_ns, range->to_ns}, error);
    }
    if (code == GS_OK && !found->count)
        code = gs_fail(error, GS_E_USAGE, "the recording has no range \"%.60s\"", name);
    return code;
}

static gs_code find_steps(const gs_run *run, struct spans *found, gs_error *error) {
    gs_sequence order = {0};
    gs_part part = {0};
    gs_code code = gs_sequence_of(run, &order, error);
    if (code == GS_OK)
        code = gs_part_find(run, &order, &part, error);
    size_t period = part.period ? part.period : order.count;
    for (size_t at = part.period ? part.first : 0; at < order.count && period && code == GS_OK; at += period)
        code = add_span(found, span_of(run, &order, at, (size_t)gs_min_u64(at + period, order.count)), error);
    gs_sequence_clear(&order);
    if (code == GS_OK && !found->count)
        code = gs_fail(error, GS_E_USAGE, "the request was not recorded: no operation has start_us and end_us");
    return code;
}

/* ---- the longest one ---- */

/* How much of a span the GPU works on something of the run. */
static gs_code find_busy(const gs_run *run, struct span span, int64_t *busy_ns, gs_error *error) {
    struct spans work = {0};
    gs_code code = GS_OK;
    for (size_t i = 0; i < run->launches.count + run->copies.count && code == GS_OK; i++) {
        const gs_issue *issue = issue_of(run, i);
        if (gs_measured_ns(issue))
            code = add_span(
                &work, (struct span){gs_max(issue->start_ns, span.from_ns), gs_min(issue->end_ns, span.to_ns)}, error);
    }
    sort_spans(&work);
    int64_t until_ns = span.from_ns;
    for (size_t i = 0; i < work.count; i++) {
        int64_t from_ns = gs_max(work.data[i].from_ns, until_ns);
        *busy_ns += gs_max(work.data[i].to_ns - from_ns, 0);
        until_ns = gs_max(until_ns, work.data[i].to_ns);
    }
    free(work.data);
    return code;
}

static gs_code sum_requests(const gs_run *run, struct spans *found, gs_requests *requests, gs_error *error) {
    struct span longest = {0, 0};
    int64_t busy_ns = 0;
    sort_spans(found);
    *requests = (gs_requests){.count = (int64_t)found->count};
    for (size_t i = 0; i < found->count; i++) {
        const struct span *span = &found->data[i];
        int64_t apart_ns = i ? span->from_ns - span[-1].from_ns : 0;
        if (i)
            requests->every_ns = i == 1 ? apart_ns : gs_min(requests->every_ns, apart_ns);
        if (span->to_ns - span->from_ns > longest.to_ns - longest.from_ns)
            longest = *span;
    }
    gs_code code = find_busy(run, longest, &busy_ns, error);
    requests->longest_ns = longest.to_ns - longest.from_ns;
    requests->host_ns = requests->longest_ns - busy_ns;
    return code;
}

gs_code gs_requests_find(const gs_run *run, const char *range, gs_requests *requests, gs_error *error) {
    struct spans found = {0};
    *requests = (gs_requests){.count = 0};
    gs_code code = range ? find_named(run, range, &found, error) : find_steps(run, &found, error);
    if (code == GS_OK)
        code = sum_requests(run, &found, requests, error);
    free(found.data);
    return code;
}
