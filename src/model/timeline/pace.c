/*
 * pace.c: how fast the host and the GPU hand launches on, taken from a recording.
 *
 * The latency is the time from when the host issues a launch to its start, of launches that had nothing to wait for:
 * what is before them in their stream had ended, and so had all other launches. The gaps are the times from the end of
 * one launch or copy to the start of the next in its stream, if that had been issued long before. Of each the lower
 * quartile is taken: longer times contain other waits, such as that for headroom on the SMs.
 *
 * The tail is the same for all recordings, unless a launch in it is shorter: from the end of the last block to the end
 * of the launch, less the time from the end of a block to the start of one in its place.
 */
#include "timeline_parts.h"

#include <stdlib.h>

enum {
    USUAL_LATENCY_NS = 5000, /* measured on H200s with CUDA 13.0 */
    USUAL_STREAM_NS = 1000,
    USUAL_GRAPH_NS = 300,
    USUAL_COPY_NS = 1500,
    USUAL_AFTER_COPY_NS = 1700,
    USUAL_TAIL_NS = 590,
    LONG_BEFORE_NS = 20000, /* a launch issued so long before its start has reached the GPU */
    LONGEST_GAP_NS = 10000  /* what is longer is no gap, but a wait */
};

enum which { LATENCY, STREAM, GRAPH, COPY, AFTER_COPY, WHICH };

struct sample {
    int64_t ns;
    uint8_t which;
};

struct samples {
    struct sample *data;
    size_t count, capacity;
    gs_names streams;
    const gs_issue **last; /* by stream: the issue before */
    bool *is_after_copy;   /* by stream: that is a copy's */
    int64_t busy_until_ns; /* the latest end of all launches so far */
    int64_t shortest_ns;   /* of all launches; INT64_MAX: none was measured */
};

static void add_sample(struct samples *samples, enum which which, int64_t ns) {
    if (ns >= 0 && GS_RESERVE(samples, 1))
        samples->data[samples->count++] = (struct sample){ns, (uint8_t)which};
}

static gs_code sample_issue(struct samples *samples, const gs_issue *issue, const char *stream, enum which which,
                            gs_error *error) {
    const gs_issue **last = NULL;
    bool is_after_copy = false;
    if (stream) {
        size_t number = gs_names_add(&samples->streams, stream, samples->streams.count);
        if (number == SIZE_MAX)
            return gs_fail_memory(error);
        last = &samples->last[number];
        is_after_copy = samples->is_after_copy[number];
        samples->is_after_copy[number] = which == COPY;
    }
    if (which != COPY && gs_measured_ns(issue))
        samples->shortest_ns = gs_min(samples->shortest_ns, gs_measured_ns(issue));
    if (issue->at_ns == GS_NO_TIME || !gs_measured_ns(issue))
        return GS_OK;
    int64_t before_ns = last && *last ? (*last)->end_ns : GS_NO_TIME;
    bool was_waiting = issue->start_ns - issue->at_ns > LONG_BEFORE_NS && !issue->after_count;
    if (before_ns != GS_NO_TIME && before_ns > issue->at_ns && was_waiting &&
        issue->start_ns - before_ns <= LONGEST_GAP_NS)
        add_sample(samples, is_after_copy && which != COPY ? AFTER_COPY : which, issue->start_ns - before_ns);
    if (which != COPY && samples->busy_until_ns <= issue->at_ns && !issue->after_count)
        add_sample(samples, LATENCY, issue->start_ns - issue->at_ns);
    if (last)
        *last = issue;
    samples->busy_until_ns = gs_max(samples->busy_until_ns, issue->end_ns);
    return GS_OK;
}

GS_ORDER_THEN(compare_samples, struct sample, which, ns)

static gs_code sample_all(struct samples *samples, const gs_run *run, gs_error *error) {
    gs_code code = GS_OK;
    size_t copy = 0;
    for (size_t i = 0; i <= run->launches.count && code == GS_OK; i++) {
        for (; copy < run->copies.count && run->copies.data[copy].before <= i && code == GS_OK; copy++)
            code = sample_issue(samples, &run->copies.data[copy].issue, run->copies.data[copy].stream, COPY, error);
        if (i < run->launches.count && code == GS_OK)
            code = sample_issue(samples, &run->launches.data[i].issue, run->launches.data[i].stream,
                                gs_is_in_graph(run, i) ? GRAPH : STREAM, error);
    }
    return code;
}

gs_code gs_pace_of(const gs_run *run, gs_pace *pace, gs_error *error) {
    const int64_t *given = run->pace_ns;
    if (run->has_pace) {
        *pace = (gs_pace){given[0], {given[1], given[2], given[3], given[4], given[5]}};
        return GS_OK;
    }
    int64_t found[WHICH] = {USUAL_LATENCY_NS, USUAL_STREAM_NS, USUAL_GRAPH_NS, USUAL_COPY_NS, USUAL_AFTER_COPY_NS};
    size_t operations = run->launches.count + run->copies.count;
    struct samples samples = {.busy_until_ns = INT64_MIN, .shortest_ns = INT64_MAX};
    samples.last = calloc(operations + 1, sizeof *samples.last);
    samples.is_after_copy = calloc(operations + 1, sizeof *samples.is_after_copy);
    gs_code code = samples.last && samples.is_after_copy ? sample_all(&samples, run, error) : gs_fail_memory(error);
    if (code == GS_OK && samples.count)
        qsort(samples.data, samples.count, sizeof *samples.data, compare_samples);
    for (size_t from = 0, to; code == GS_OK && from < samples.count; from = to) {
        for (to = from; to < samples.count && samples.data[to].which == samples.data[from].which; to++)
            ;
        found[samples.data[from].which] = samples.data[from + (to - from) / 4].ns;
    }
    int64_t tail_ns = samples.shortest_ns == INT64_MAX ? 0 : gs_min(USUAL_TAIL_NS, samples.shortest_ns * 2 / 3);
    *pace = (gs_pace){found[LATENCY], {found[STREAM], found[GRAPH], found[COPY], found[AFTER_COPY], tail_ns}};
    gs_names_free(&samples.streams);
    free(samples.last);
    free(samples.is_after_copy);
    free(samples.data);
    return code;
}
