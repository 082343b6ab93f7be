/*
 * table.c: a run as a table for people: a row for each event, with the SMs of its blocks in block order.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

static int name_width(const gs_run *run) {
    size_t widest = 6;
    for (size_t i = 0; i < run->launches.count; i++)
        widest = gs_max_u64(widest, strlen(run->launches.data[i].kernel));
    return (int)gs_min_u64(widest, 32);
}

static void put_title(gs_view *view, const gs_gpu *gpu, const gs_run *run) {
    gs_text *text = &view->text;
    if (view->runs)
        gs_text_put(text, "\n", 1);
    if (run->has_id)
        gs_text_add(text, "run %lld, ", (long long)run->id);
    if (run->class_name)
        gs_text_add(text, "%s, ", run->class_name);
    gs_text_add(text, "%s, %d SM%s\n", gpu->name, gpu->sms, gpu->sms == 1 ? "" : "s");
    gs_gpu_put_assumed(gpu, text);
}

static void put_times(gs_text *text, const gs_seen *seen) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    if (seen->is_brief && seen->brief.first_ns != GS_NO_TIME)
        first = seen->brief.first_ns;
    if (seen->is_brief && seen->brief.last_ns != GS_NO_TIME)
        last = seen->brief.last_ns;
    for (size_t i = 0; i < seen->placed.count; i++) {
        int64_t start = gs_seen_time(&seen->start_ns, (int64_t)i), end = gs_seen_time(&seen->end_ns, (int64_t)i);
        if (start != GS_NO_TIME && start < first)
            first = start;
        if (end != GS_NO_TIME && end > last)
            last = end;
    }
    if (first != INT64_MAX)
        gs_text_add(text, "  %12.3f", (double)first / 1000);
    else
        gs_text_add(text, "  %12s", "-");
    if (last != INT64_MIN)
        gs_text_add(text, " %12.3f", (double)last / 1000);
    else
        gs_text_add(text, " %12s", "-");
}

/* Only the blocks that started: those that wait come after them. */
static void put_placed(gs_text *text, const gs_seen *seen) {
    const gs_sm_list *placed = &seen->placed;
    size_t count = 0;
    while (count < placed->count && placed->data[count] != GS_WAIT)
        count++;
    if (count || seen->brief.started)
        gs_text_add(text, "  ");
    if (seen->is_brief)
        gs_text_put_runs(text, seen->brief.placed.data, seen->brief.placed.count, seen->brief.started, GS_BRIEF_PARTS);
    else
        gs_text_put_numbers(text, placed->data, count, GS_BRIEF_PARTS);
}

static void put_waiting(gs_text *text, int64_t waiting) {
    if (waiting)
        gs_text_style(text, GS_STYLE_BAD);
    gs_text_add(text, "%7lld", (long long)waiting);
    if (waiting)
        gs_text_style(text, GS_STYLE_PLAIN);
}

static void put_event(gs_view *view, const gs_run *run, size_t number, int width, bool timed) {
    const gs_event *event = &run->events.data[number];
    const gs_launch *launch = &run->launches.data[event->launch];
    gs_text *text = &view->text;
    int padding = event->op == GS_EXIT ? 0 : width;
    gs_text_add(text, "%5zu  %-7s  %-*.*s", number + 1, gs_op_name(event->op), padding, width, launch->kernel);
    if (event->op == GS_LAUNCH)
        gs_text_add(text, "  %7lld %7d %4d %9lld", (long long)launch->blocks, launch->shape.threads,
                    launch->shape.registers, (long long)launch->shape.shared_bytes);
    else if (event->seen->has_placed)
        gs_text_add(text, "  %7s %7s %4s %9s", "", "", "", "");
    if (event->seen->has_placed) {
        int64_t started = gs_seen_started(event->seen);
        gs_text_add(text, "  %7lld ", (long long)started);
        put_waiting(text, launch->blocks - started);
        if (timed)
            put_times(text, event->seen);
        put_placed(text, event->seen);
    }
    gs_text_put(text, "\n", 1);
}

static void put_why(gs_text *text, const char *why) {
    gs_text_style(text, GS_STYLE_NOTE);
    while (why && *why) {
        size_t length = strcspn(why, "\n");
        gs_text_add(text, "       ");
        gs_text_put(text, why, length);
        gs_text_put(text, "\n", 1);
        why += length + (why[length] == '\n');
    }
    gs_text_style(text, GS_STYLE_PLAIN);
}

static gs_code table_run(gs_view *view, const gs_gpu *gpu, const gs_run *run, gs_error *error) {
    (void)error;
    gs_text *text = &view->text;
    int width = name_width(run);
    bool timed = false;
    for (size_t i = 0; i < run->events.count; i++)
        timed = timed || run->events.data[i].seen->has_start;
    put_title(view, gpu, run);
    gs_text_style(text, GS_STYLE_HEADING);
    gs_text_add(text, "%5s  %-7s  %-*s  %7s %7s %4s %9s  %7s %7s", "#", "event", width, "kernel", "blocks", "threads",
                "regs", "shared", "started", "waiting");
    gs_text_add(text, timed ? "  %12s %12s  %s\n" : "  %.0s%.0s%s\n", "from us", "to us", "SM of each block");
    gs_text_style(text, GS_STYLE_PLAIN);
    for (size_t i = 0; i < run->events.count; i++) {
        put_event(view, run, i, width, timed);
        if (view->explain)
            put_why(text, run->events.data[i].why);
    }
    return GS_OK;
}

const gs_format gs_format_table = {.name = "table", .help = "for people", .is_brief = true, .run = table_run};
