/*
 * write.c: runs to JSON, one line each.
 *
 * Keys are in a fixed order, and values equal to their default are left out, so writing a run that was read from our
 * own output gives the same bytes. Most of the output is lists of blocks.
 */
#include "run.h"

#include <string.h>

/* ---- ids, streams, edges ---- */

/* A name, or a number that is stored as text. */
static void write_label(gs_writer *writer, const char *key, const char *label, bool is_number) {
    if (label && is_number)
        gs_write_raw(writer, key, label);
    else
        gs_write_optional(writer, key, label);
}

static void write_id(gs_writer *writer, const gs_run *run, gs_edge what, const char *key) {
    const gs_issue *issue =
        what.is_copy ? &run->copies.data[what.number].issue : &run->launches.data[what.number].issue;
    if (issue->id)
        write_label(writer, key, issue->id, issue->id_is_number);
    else if (!what.is_copy)
        gs_write_string(writer, key, run->launches.data[what.number].kernel);
}

static void write_after(gs_writer *writer, const gs_run *run, const gs_issue *issue) {
    if (!issue->after_count)
        return;
    gs_write_array(writer, "after");
    for (uint32_t i = 0; i < issue->after_count; i++) {
        gs_edge edge = run->edges.data[issue->after + i];
        if (edge.when == GS_AT_END) {
            write_id(writer, run, edge, NULL);
            continue;
        }
        gs_write_object(writer, NULL);
        write_id(writer, run, edge, "id");
        gs_write_string(writer, "when", gs_when_name(edge.when));
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_time(gs_writer *writer, const char *key, int64_t nanoseconds) {
    if (nanoseconds != GS_NO_TIME)
        gs_write_us(writer, key, nanoseconds);
}

static void write_issue(gs_writer *writer, const gs_run *run, const gs_issue *issue) {
    write_time(writer, "at_us", issue->at_ns);
    write_after(writer, run, issue);
    write_time(writer, "start_us", issue->start_ns);
    write_time(writer, "end_us", issue->end_ns);
}

/* ---- facts ---- */

static void write_three(gs_writer *writer, const char *key, const int32_t *numbers) {
    if (!numbers[0])
        return;
    gs_write_array(writer, key);
    for (int i = 0; i < 3; i++)
        gs_write_int(writer, NULL, numbers[i]);
    gs_write_end(writer);
}

static void write_given(gs_writer *writer, const char *key, int64_t number) {
    if (number != GS_NOT_GIVEN)
        gs_write_int(writer, key, number);
}

static void write_facts(gs_writer *writer, const gs_launch_facts *facts) {
    if (!facts)
        return;
    write_three(writer, "grid", facts->grid);
    write_three(writer, "block", facts->block);
    write_three(writer, "cluster_shape", facts->cluster_shape);
    if (facts->is_cooperative)
        gs_write_bool(writer, "cooperative", true);
    write_given(writer, "static_shared_bytes", facts->static_shared_bytes);
    write_given(writer, "shared_config_bytes", facts->shared_config_bytes);
    write_given(writer, "device", facts->device);
    write_given(writer, "process", facts->process);
    write_given(writer, "context", facts->context);
    write_given(writer, "green_context", facts->green_context);
    write_given(writer, "graph", facts->graph);
    write_given(writer, "node", facts->node);
}

/* ---- launches and copies ---- */

static void write_launch(gs_writer *writer, const gs_run *run, const gs_launch *launch) {
    gs_write_string(writer, "kernel", launch->kernel);
    gs_write_int(writer, "blocks", launch->blocks);
    gs_write_int(writer, "threads", launch->shape.threads);
    gs_write_int(writer, "registers", launch->shape.registers);
    gs_write_int(writer, "shared_bytes", launch->shape.shared_bytes);
    if (launch->shape.local_bytes)
        gs_write_int(writer, "local_bytes", launch->shape.local_bytes);
    if (launch->cluster != 1)
        gs_write_int(writer, "cluster", launch->cluster);
    if (launch->priority)
        gs_write_int(writer, "priority", launch->priority);
    if (launch->shape.carveout_percent != GS_NO_CARVEOUT)
        gs_write_int(writer, "carveout_percent", launch->shape.carveout_percent);
    write_label(writer, "stream", launch->stream, launch->stream_is_number);
    if (launch->duration_ns)
        gs_write_us(writer, "duration_us", launch->duration_ns);
    if (launch->spread_ns)
        gs_write_us(writer, "spread_us", launch->spread_ns);
    write_issue(writer, run, &launch->issue);
    write_facts(writer, launch->issue.facts);
}

static void write_copy(gs_writer *writer, const gs_run *run, const gs_copy *copy) {
    gs_write_object(writer, NULL);
    gs_write_string(writer, "op", copy->is_memset ? "memset" : "copy");
    write_label(writer, "id", copy->issue.id, copy->issue.id_is_number);
    if (copy->kind != GS_COPY_UNKNOWN)
        gs_write_string(writer, "kind", gs_copy_kind_name(copy->kind));
    gs_write_int(writer, "bytes", copy->bytes);
    write_label(writer, "stream", copy->stream, copy->stream_is_number);
    if (copy->duration_ns)
        gs_write_us(writer, "duration_us", copy->duration_ns);
    write_issue(writer, run, &copy->issue);
    write_facts(writer, copy->issue.facts);
    gs_write_end(writer);
}

/* ---- observations ---- */

static void write_int_or_null(gs_writer *writer, bool is_null, int64_t value) {
    if (is_null)
        gs_write_null(writer, NULL);
    else
        gs_write_int(writer, NULL, value);
}

static void write_placed(gs_writer *writer, const gs_seen *seen, int64_t blocks) {
    gs_write_array(writer, "placed");
    for (int64_t i = 0; i < blocks; i++)
        write_int_or_null(writer, gs_seen_sm(seen, i) == GS_WAIT, gs_seen_sm(seen, i));
    gs_write_end(writer);
}

static void write_times(gs_writer *writer, const char *key, const gs_time_list *times, int64_t blocks) {
    gs_write_array(writer, key);
    for (int64_t i = 0; i < blocks; i++)
        write_int_or_null(writer, gs_seen_time(times, i) == GS_NO_TIME, gs_seen_time(times, i));
    gs_write_end(writer);
}

static void write_warp_slots(gs_writer *writer, const gs_slot_lists *lists, int64_t blocks) {
    gs_write_array(writer, "warp_slots");
    size_t at = 0;
    for (int64_t i = 0; i < blocks; i++) {
        if (at == lists->ends[i]) {
            gs_write_null(writer, NULL);
            continue;
        }
        gs_write_array(writer, NULL);
        while (at < lists->ends[i])
            gs_write_int(writer, NULL, lists->slots[at++]);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_seen(gs_writer *writer, const gs_seen *seen, int64_t blocks) {
    if (seen->has_placed)
        write_placed(writer, seen, blocks);
    if (seen->has_warp_slots)
        write_warp_slots(writer, &seen->warp_slots, blocks);
    if (seen->has_start)
        write_times(writer, "start_ns", &seen->start_ns, blocks);
    if (seen->has_end)
        write_times(writer, "end_ns", &seen->end_ns, blocks);
}

/* ---- events ---- */

/* A list of sentences. */
static void write_why(gs_writer *writer, const char *why) {
    gs_write_array(writer, "why");
    while (*why) {
        size_t length = strcspn(why, "\n");
        gs_text sentence = {0};
        gs_text_put(&sentence, why, length);
        gs_write_string(writer, NULL, sentence.data);
        writer->text->failed |= sentence.failed;
        gs_text_free(&sentence);
        why += length + (why[length] == '\n');
    }
    gs_write_end(writer);
}

/* Launches are named by their id; those without one by their kernel. */
static void write_event(gs_writer *writer, const gs_run *run, const gs_event *event) {
    const gs_launch *launch = &run->launches.data[event->launch];
    gs_write_object(writer, NULL);
    gs_write_string(writer, "op", gs_op_name(event->op));
    write_label(writer, "id", launch->issue.id, launch->issue.id_is_number);
    if (event->op == GS_LAUNCH)
        write_launch(writer, run, launch);
    else if (!launch->issue.id)
        gs_write_string(writer, "kernel", launch->kernel);
    write_seen(writer, event->seen, launch->blocks);
    if (event->why)
        write_why(writer, event->why);
    gs_write_end(writer);
}

static void write_end(gs_writer *writer, const gs_run *run) {
    gs_write_object(writer, NULL);
    gs_write_string(writer, "op", "end");
    write_time(writer, "at_us", run->end_ns);
    if (run->lost)
        gs_write_int(writer, "lost", run->lost);
    gs_write_end(writer);
}

/* If events are lines, each ends in a newline. */
static void end_event(gs_writer *writer, bool as_lines) {
    if (as_lines)
        gs_write_finish(writer);
}

/* Writes the copies from `*next` on that were issued before a launch. */
static void write_copies(gs_writer *writer, const gs_run *run, size_t launch, size_t *next, bool as_lines) {
    for (; *next < run->copies.count && run->copies.data[*next].before <= launch; ++*next) {
        write_copy(writer, run, &run->copies.data[*next]);
        end_event(writer, as_lines);
    }
}

static void write_range(gs_writer *writer, const gs_named_range *range) {
    gs_write_object(writer, NULL);
    gs_write_string(writer, "op", "range");
    gs_write_string(writer, "name", range->name);
    gs_write_us(writer, "from_us", range->from_ns);
    gs_write_us(writer, "to_us", range->to_ns);
    gs_write_end(writer);
}

static void write_events(gs_writer *writer, const gs_run *run, bool as_lines) {
    size_t next_copy = 0;
    for (size_t i = 0; i < run->events.count; i++) {
        const gs_event *event = &run->events.data[i];
        if (event->op == GS_LAUNCH)
            write_copies(writer, run, event->launch, &next_copy, as_lines);
        write_event(writer, run, event);
        end_event(writer, as_lines);
    }
    write_copies(writer, run, SIZE_MAX, &next_copy, as_lines);
    for (size_t i = 0; i < run->ranges.count; i++) {
        write_range(writer, &run->ranges.data[i]);
        end_event(writer, as_lines);
    }
    if (!run->has_ended)
        return;
    write_end(writer, run);
    end_event(writer, as_lines);
}

/* ---- runs ---- */

static void write_words(gs_writer *writer, const char *key, const char *words) {
    char word[GS_LONGEST_KEY + 1];
    gs_write_array(writer, key);
    for (size_t length; (length = strcspn(words, " ")); words += length + (words[length] == ' ')) {
        snprintf(word, sizeof word, "%.*s", (int)length, words);
        gs_write_string(writer, NULL, word);
    }
    gs_write_end(writer);
}

static void write_origin(gs_writer *writer, const gs_origin *origin) {
    gs_write_optional(writer, "program", origin->program);
    gs_write_optional(writer, "recorder", origin->recorder);
    gs_write_optional(writer, "gpu_name", origin->gpu_name);
    write_given(writer, "device", origin->device);
    write_given(writer, "process", origin->process);
    write_given(writer, "start_unix_ns", origin->start_unix_ns);
    if (origin->lacks && *origin->lacks)
        write_words(writer, "lacks", origin->lacks);
}

static void write_green_contexts(gs_writer *writer, const gs_green_contexts *contexts) {
    gs_write_array(writer, "green_contexts");
    for (int32_t i = 0, at = 0; i < contexts->count; i++) {
        gs_write_array(writer, NULL);
        for (; at < contexts->ends[i]; at++)
            gs_write_int(writer, NULL, contexts->sms[at]);
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

/* Begins the object of a run, up to its events. */
static void write_head(gs_writer *writer, const char *key, const gs_run *run) {
    gs_write_object(writer, key);
    gs_write_string(writer, "schema", "gridsmith.run/1");
    if (run->has_id)
        gs_write_int(writer, "id", run->id);
    gs_write_optional(writer, "gpu", run->gpu);
    gs_write_optional(writer, "assumed", run->assumed);
    gs_write_optional(writer, "class", run->class_name);
    write_origin(writer, &run->origin);
    if (run->green_contexts.count)
        write_green_contexts(writer, &run->green_contexts);
    if (run->connections)
        gs_write_int(writer, "connections", run->connections);
}

void gs_write_run(gs_writer *writer, const char *key, const gs_run *run) {
    write_head(writer, key, run);
    gs_write_array(writer, "events");
    write_events(writer, run, false);
    gs_write_end(writer);
    gs_write_end(writer);
}

void gs_run_lines(const gs_run *run, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    write_head(&writer, NULL, run);
    gs_write_string(&writer, "events", "follow");
    gs_write_finish(&writer);
    write_events(&writer, run, true);
}

void gs_run_text(const gs_run *run, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    gs_write_run(&writer, NULL, run);
}

gs_code gs_run_write(const gs_run *run, FILE *file, gs_error *error) {
    gs_text text = {.sink = file};
    gs_run_text(run, &text);
    gs_text_put(&text, "\n", 1);
    gs_text_flush(&text);
    bool failed = text.failed;
    gs_text_free(&text);
    return failed ? gs_fail_system(error, "write", "a run") : GS_OK;
}
