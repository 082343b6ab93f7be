/*
 * timeline_view.c: the timeline of a program: a row for each launch and copy, and as gridsmith.timeline/1, a line each.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

/* ---- the order of rows ---- */

/* How long an operation waited from when the host issued it to its start. */
static int64_t waited_ns(const gs_timeline *timeline, size_t operation) {
    const gs_course *course = &timeline->operations[operation].course;
    return course->start_ns == GS_NO_TIME ? INT64_MAX : course->start_ns - course->arrived_ns;
}

struct row {
    int64_t waited_ns, start_ns;
    size_t operation;
};

GS_ORDER_DOWN_THEN(compare_waits, struct row, waited_ns, operation)

GS_ORDER_THEN(compare_starts, struct row, start_ns, operation)

static struct row *sort_rows(const gs_timeline *timeline, int64_t top, size_t *count) {
    struct row *rows = malloc((timeline->count + 1) * sizeof *rows);
    for (size_t i = 0; rows && i < timeline->count; i++) {
        int64_t start_ns = timeline->operations[i].course.start_ns; /* those that never start are last */
        rows[i] = (struct row){waited_ns(timeline, i), start_ns == GS_NO_TIME ? INT64_MAX : start_ns, i};
    }
    if (rows)
        qsort(rows, timeline->count, sizeof *rows, top ? compare_waits : compare_starts);
    *count = top ? gs_min_u64((uint64_t)top, timeline->count) : timeline->count;
    return rows;
}

/* ---- the table ---- */

static void put_time(gs_text *text, int64_t ns) {
    if (ns == GS_NO_TIME)
        gs_text_add(text, " %13s", "-");
    else
        gs_text_add(text, " %13.3f", (double)ns / 1000);
}

static const gs_wait *longest_wait(const gs_wait *waits, size_t count) {
    const gs_wait *longest = NULL;
    for (size_t i = 0; i < count; i++)
        if (waits[i].reason != GS_REASON_HOST && (!longest || waits[i].ns > longest->ns))
            longest = &waits[i];
    return longest;
}

static void put_row(gs_text *text, const gs_run *run, const gs_timeline *timeline, size_t operation) {
    const gs_operation *span = &timeline->operations[operation];
    const gs_issue *issue = gs_run_issue(run, operation);
    gs_wait waits[GS_MOST_WAITS];
    const gs_wait *most = longest_wait(waits, gs_timeline_waits(timeline, operation, waits));
    gs_text_add(text, "%8s  %-40.40s", issue->id ? issue->id : "", gs_operation_name(run, operation));
    if (operation < run->launches.count)
        gs_text_add(text, " %9lld", (long long)run->launches.data[operation].blocks);
    else
        gs_text_add(text, " %9s", "");
    put_time(text, span->course.arrived_ns);
    put_time(text, span->course.start_ns);
    put_time(text, span->course.end_ns);
    gs_text_add(text, "%s", span->is_shared ? " *" : "  ");
    if (most) {
        gs_text_add(text, " ");
        gs_put_duration(text, most->ns);
        gs_text_add(text, " ");
        gs_put_wait(text, most->reason, most->lack,
                    most->behind == SIZE_MAX ? NULL : gs_operation_name(run, most->behind));
    }
    gs_text_add(text, "\n");
}

void gs_put_program_title(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_timeline *timeline) {
    const gs_pace *pace = &timeline->pace;
    size_t shared = 0, borrowed = 0, unknown = 0;
    for (size_t i = 0; i < run->launches.count; i++) {
        shared += timeline->operations[i].is_shared;
        borrowed += timeline->operations[i].is_borrowed;
        unknown += timeline->operations[i].is_unknown;
    }
    gs_text_add(text, "%s, %d SM%s: %zu launch%s, %zu %s, predicted to end at ", gpu->name, gpu->sms,
                gpu->sms == 1 ? "" : "s", run->launches.count, run->launches.count == 1 ? "" : "es", run->copies.count,
                run->copies.count == 1 ? "copy or memset" : "copies and memsets");
    gs_put_duration(text, timeline->end_ns);
    gs_text_add(
        text,
        "\nhost to GPU %.2f us; from one launch to the next %.2f us, in a graph %.2f us, to a copy %.2f us, after "
        "a copy %.2f us; from the last block to the end of a launch %.2f us\n",
        (double)pace->latency_ns / 1000, (double)pace->gaps.stream_ns / 1000, (double)pace->gaps.graph_ns / 1000,
        (double)pace->gaps.copy_ns / 1000, (double)pace->gaps.after_copy_ns / 1000, (double)pace->gaps.tail_ns / 1000);
    if (shared)
        gs_text_add(text, "%zu launch%s measured beside others (*); %zu of them take%s the time of %s kernel alone\n",
                    shared, shared == 1 ? " was" : "es were", borrowed, borrowed == 1 ? "s" : "",
                    borrowed == 1 ? "its" : "their");
    gs_gpu_put_assumed(gpu, text);
    if (unknown)
        gs_text_add(text, "%zu launch%s no measured time, and %s assumed to end at once\n", unknown,
                    unknown == 1 ? " has" : "es have", unknown == 1 ? "is" : "are");
}

gs_code gs_put_timeline(gs_text *text, const gs_run *run, const gs_timeline *timeline, int64_t top, gs_error *error) {
    size_t count;
    struct row *rows = sort_rows(timeline, top, &count);
    if (!rows)
        return gs_fail_memory(error);
    gs_text_add(text, "%8s  %-40s %9s %13s %13s %13s   longest wait\n", "id", "launch", "blocks", "issued us",
                "start us", "end us");
    for (size_t i = 0; i < count; i++)
        put_row(text, run, timeline, rows[i].operation);
    free(rows);
    return GS_OK;
}

/* ---- gridsmith.timeline/1 ---- */

static void write_time(gs_writer *writer, const char *key, int64_t ns) {
    if (ns != GS_NO_TIME)
        gs_write_us(writer, key, ns);
}

static void write_waits(gs_writer *writer, const gs_run *run, const gs_timeline *timeline, size_t operation) {
    gs_wait waits[GS_MOST_WAITS];
    size_t count = gs_timeline_waits(timeline, operation, waits);
    if (!count)
        return;
    gs_write_array(writer, "waits");
    for (size_t i = 0; i < count; i++) {
        gs_write_object(writer, NULL);
        gs_write_string(writer, "for", gs_reason_name(waits[i].reason));
        if (waits[i].lack)
            gs_write_string(writer, "resource", gs_lack_name(waits[i].lack));
        if (waits[i].behind != SIZE_MAX) {
            const gs_issue *issue = gs_run_issue(run, waits[i].behind);
            gs_write_string(writer, "of", gs_operation_name(run, waits[i].behind));
            gs_write_optional(writer, "of_id", issue->id);
        }
        gs_write_us(writer, "us", waits[i].ns);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_operation(gs_writer *writer, const gs_run *run, const gs_timeline *timeline, size_t operation) {
    const gs_operation *span = &timeline->operations[operation];
    const gs_issue *issue = gs_run_issue(run, operation);
    gs_write_object(writer, NULL);
    gs_write_optional(writer, "id", issue->id);
    bool is_launch = operation < run->launches.count;
    gs_write_string(writer, is_launch ? "kernel" : "op", gs_operation_name(run, operation));
    if (is_launch) {
        gs_write_int(writer, "blocks", run->launches.data[operation].blocks);
        gs_write_int(writer, "waves", span->waves);
        gs_write_us(writer, "block_us", span->block_ns);
        gs_write_int(writer, "shared_config_bytes", span->course.config_bytes);
        if (span->is_shared)
            gs_write_bool(writer, "measured_beside_others", true);
        if (span->is_borrowed)
            gs_write_bool(writer, "time_of_other_launches", true);
        if (span->is_unknown)
            gs_write_bool(writer, "time_unknown", true);
    }
    write_time(writer, "at_us", span->course.arrived_ns);
    write_time(writer, "start_us", span->course.start_ns);
    write_time(writer, "end_us", span->course.end_ns);
    write_waits(writer, run, timeline, operation);
    gs_write_finish(writer);
}

void gs_write_pace(gs_writer *writer, const gs_pace *pace) {
    gs_write_object(writer, "pace");
    gs_write_us(writer, "latency_us", pace->latency_ns);
    gs_write_us(writer, "stream_gap_us", pace->gaps.stream_ns);
    gs_write_us(writer, "graph_gap_us", pace->gaps.graph_ns);
    gs_write_us(writer, "copy_gap_us", pace->gaps.copy_ns);
    gs_write_us(writer, "after_copy_gap_us", pace->gaps.after_copy_ns);
    gs_write_us(writer, "tail_us", pace->gaps.tail_ns);
    gs_write_end(writer);
}

gs_code gs_put_timeline_json(gs_text *text, const gs_gpu *gpu, const gs_run *run, const gs_timeline *timeline,
                             int64_t top, gs_error *error) {
    gs_writer writer = gs_writer_to(text);
    size_t count = timeline->count;
    struct row *rows = top ? sort_rows(timeline, top, &count) : NULL;
    if (top && !rows)
        return gs_fail_memory(error);
    gs_write_document(&writer, "gridsmith.timeline/1");
    gs_write_string(&writer, "gpu", gpu->name);
    gs_write_optional(&writer, "assumed", gpu->assumed);
    gs_write_optional(&writer, "recorded_on", run->gpu);
    gs_write_int(&writer, "launches", (int64_t)run->launches.count);
    gs_write_int(&writer, "copies", (int64_t)run->copies.count);
    gs_write_us(&writer, "end_us", timeline->end_ns);
    gs_write_pace(&writer, &timeline->pace);
    gs_write_finish(&writer);
    for (size_t i = 0; i < count; i++)
        write_operation(&writer, run, timeline, rows ? rows[i].operation : i);
    free(rows);
    return GS_OK;
}
