/*
 * write.c: runs to JSON, one line each.
 *
 * Keys are in a fixed order, and values equal to their default are left out, so writing a run that was read from our
 * own output gives the same bytes. Most of the output is lists of blocks.
 */
#include "run.h"

static void write_launch(gs_writer *writer, const gs_launch *launch) {
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
    if (launch->stream && launch->stream_is_number)
        gs_write_raw(writer, "stream", launch->stream);
    else if (launch->stream)
        gs_write_string(writer, "stream", launch->stream);
    if (launch->duration_ns)
        gs_write_us(writer, "duration_us", launch->duration_ns);
    if (launch->spread_ns)
        gs_write_us(writer, "spread_us", launch->spread_ns);
}

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

static void write_event(gs_writer *writer, const gs_run *run, const gs_event *event) {
    const gs_launch *launch = &run->launches.data[event->launch];
    gs_write_object(writer, NULL);
    gs_write_string(writer, "op", gs_op_name(event->op));
    gs_write_string(writer, "kernel", launch->kernel);
    if (event->op == GS_LAUNCH)
        write_launch(writer, launch);
    write_seen(writer, &event->seen, launch->blocks);
    gs_write_end(writer);
}

void gs_write_run(gs_writer *writer, const char *key, const gs_run *run) {
    gs_write_object(writer, key);
    gs_write_string(writer, "schema", "gridsmith.run/1");
    if (run->has_id)
        gs_write_int(writer, "id", run->id);
    if (run->gpu)
        gs_write_string(writer, "gpu", run->gpu);
    if (run->class_name)
        gs_write_string(writer, "class", run->class_name);
    gs_write_array(writer, "events");
    for (size_t i = 0; i < run->events.count; i++)
        write_event(writer, run, &run->events.data[i]);
    gs_write_end(writer);
    gs_write_end(writer);
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
