/*
 * pace.c: how fast the host and the GPU hand launches on, taken from a recording.
 *
 * The latency is the median time from when the host issues a launch to its start, of launches that had nothing to wait
 * for: what is before them in their stream had ended, and so had all other launches. The gaps are the median times from
 * the end of one launch or copy to the start of the next in its stream, if that had been issued long before. Launches
 * that wait for an event or for room are among them; the median leaves them out if they are few.
 */
#include "timeline.h"

#include <stdlib.h>

enum {
    USUAL_LATENCY_NS = 5000, /* measured on H200s with CUDA 13.0 */
    USUAL_STREAM_NS = 1000,
    USUAL_GRAPH_NS = 300,
    USUAL_COPY_NS = 1500,
    LONG_BEFORE_NS = 20000 /* a launch issued so long before its start has reached the GPU */
};

enum which { LATENCY, STREAM, GRAPH, COPY, WHICH };

struct sample {
    int64_t ns;
    uint8_t which;
};

struct samples {
    struct sample *data;
    size_t count, capacity;
    gs_names streams;
    const gs_issue **last; /* by stream: the issue before */
    int64_t busy_until_ns; /* the latest end of all launches so far */
};

static void add(struct samples *samples, enum which which, int64_t ns) {
    if (ns >= 0 && GS_RESERVE(samples, 1))
        samples->data[samples->count++] = (struct sample){ns, (uint8_t)which};
}

static gs_code look_at(struct samples *samples, const gs_issue *issue, const char *stream, enum which which,
                       gs_error *error) {
    const gs_issue **last = NULL;
    if (stream) {
        size_t number = gs_names_add(&samples->streams, stream, samples->streams.count);
        if (number == SIZE_MAX)
            return gs_fail_memory(error);
        last = &samples->last[number];
    }
    if (issue->at_ns == GS_NO_TIME || !gs_measured_ns(issue))
        return GS_OK;
    int64_t before_ns = last && *last ? (*last)->end_ns : GS_NO_TIME;
    bool was_waiting = issue->start_ns - issue->at_ns > LONG_BEFORE_NS && !issue->after_count;
    if (before_ns != GS_NO_TIME && before_ns > issue->at_ns && was_waiting)
        add(samples, which, issue->start_ns - before_ns);
    if (which != COPY && samples->busy_until_ns <= issue->at_ns && !issue->after_count)
        add(samples, LATENCY, issue->start_ns - issue->at_ns);
    if (last)
        *last = issue;
    samples->busy_until_ns = gs_max(samples->busy_until_ns, issue->end_ns);
    return GS_OK;
}

static int compare_samples(const void *first, const void *second) {
    const struct sample *a = first, *b = second;
    if (a->which != b->which)
        return a->which < b->which ? -1 : 1;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

static gs_code look_at_all(struct samples *samples, const gs_run *run, gs_error *error) {
    gs_code code = GS_OK;
    size_t copy = 0;
    for (size_t i = 0; i <= run->launches.count && code == GS_OK; i++) {
        for (; copy < run->copies.count && run->copies.data[copy].before <= i && code == GS_OK; copy++)
            code = look_at(samples, &run->copies.data[copy].issue, run->copies.data[copy].stream, COPY, error);
        if (i < run->launches.count && code == GS_OK)
            code = look_at(samples, &run->launches.data[i].issue, run->launches.data[i].stream,
                           gs_is_in_graph(run, i) ? GRAPH : STREAM, error);
    }
    return code;
}

gs_code gs_pace_of(const gs_run *run, gs_pace *pace, gs_error *error) {
    int64_t medians[WHICH] = {USUAL_LATENCY_NS, USUAL_STREAM_NS, USUAL_GRAPH_NS, USUAL_COPY_NS};
    struct samples samples = {.busy_until_ns = INT64_MIN};
    samples.last = calloc(run->launches.count + run->copies.count + 1, sizeof *samples.last);
    gs_code code = samples.last ? look_at_all(&samples, run, error) : gs_fail_memory(error);
    if (code == GS_OK && samples.count)
        qsort(samples.data, samples.count, sizeof *samples.data, compare_samples);
    for (size_t from = 0, to; code == GS_OK && from < samples.count; from = to) {
        for (to = from; to < samples.count && samples.data[to].which == samples.data[from].which; to++)
            ;
        medians[samples.data[from].which] = samples.data[(from + to) / 2].ns;
    }
    *pace = (gs_pace){medians[LATENCY], {medians[STREAM], medians[GRAPH], medians[COPY]}};
    gs_names_free(&samples.streams);
    free(samples.last);
    free(samples.data);
    return code;
}
