/*
 * write.c: runs to JSON, one line each.
 *
 * Keys stand in a fixed order and what is at its default is left out, so that a file that was written by us is written
 * again byte for byte. Lists of blocks are most of the output and are written without going through jansson.
 */
#include "run.h"

static void put_key(gs_text *text, const char *key) {
    gs_text_add(text, ",\"%s\":", key);
}

static void put_int(gs_text *text, const char *key, int64_t value) {
    put_key(text, key);
    gs_text_put_int(text, value);
}

static void put_string(gs_text *text, const char *key, const char *value) {
    put_key(text, key);
    gs_text_put_json(text, value);
}

/* Microseconds: whole where they are whole, otherwise with up to three decimals. */
static void put_duration(gs_text *text, const char *key, int64_t nanoseconds) {
    put_int(text, key, nanoseconds / 1000);
    int64_t rest = nanoseconds % 1000;
    if (!rest)
        return;
    gs_text_add(text, ".%03d", (int)rest);
    while (text->data && text->data[text->count - 1] == '0')
        text->count--;
}

static void put_launch(gs_text *text, const gs_launch *launch) {
    put_int(text, "blocks", launch->blocks);
    put_int(text, "threads", launch->shape.threads);
    put_int(text, "registers", launch->shape.registers);
    put_int(text, "shared_bytes", launch->shape.shared_bytes);
    if (launch->shape.local_bytes)
        put_int(text, "local_bytes", launch->shape.local_bytes);
    if (launch->cluster != 1)
        put_int(text, "cluster", launch->cluster);
    if (launch->priority)
        put_int(text, "priority", launch->priority);
    if (launch->shape.carveout_percent != GS_NO_CARVEOUT)
        put_int(text, "carveout_percent", launch->shape.carveout_percent);
    if (launch->stream && launch->stream_is_number)
        gs_text_add(text, ",\"stream\":%s", launch->stream);
    else if (launch->stream)
        put_string(text, "stream", launch->stream);
    if (launch->duration_ns)
        put_duration(text, "duration_us", launch->duration_ns);
    if (launch->spread_ns)
        put_duration(text, "spread_us", launch->spread_ns);
}

static void put_or_null(gs_text *text, int64_t block, bool is_null, int64_t value) {
    gs_text_put(text, block ? "," : "[", 1);
    if (is_null)
        gs_text_put(text, "null", 4);
    else
        gs_text_put_int(text, value);
}

static void put_times(gs_text *text, const char *key, const gs_time_list *times, int64_t blocks) {
    put_key(text, key);
    for (int64_t i = 0; i < blocks; i++)
        put_or_null(text, i, gs_seen_time(times, i) == GS_NO_TIME, gs_seen_time(times, i));
    gs_text_put(text, "]", 1);
}

static void put_warp_slots(gs_text *text, const gs_slot_lists *lists, int64_t blocks) {
    put_key(text, "warp_slots");
    size_t at = 0;
    for (int64_t i = 0; i < blocks; i++) {
        gs_text_put(text, i ? "," : "[", 1);
        if (at == lists->ends[i]) {
            gs_text_put(text, "null", 4);
            continue;
        }
        for (int64_t warp = 0; at < lists->ends[i]; warp++)
            put_or_null(text, warp, false, lists->slots[at++]);
        gs_text_put(text, "]", 1);
    }
    gs_text_put(text, "]", 1);
}

static void put_seen(gs_text *text, const gs_seen *seen, int64_t blocks) {
    if (seen->has_placed) {
        put_key(text, "placed");
        for (int64_t i = 0; i < blocks; i++)
            put_or_null(text, i, gs_seen_sm(seen, i) == GS_WAIT, gs_seen_sm(seen, i));
        gs_text_put(text, "]", 1);
    }
    if (seen->has_warp_slots)
        put_warp_slots(text, &seen->warp_slots, blocks);
    if (seen->has_start)
        put_times(text, "start_ns", &seen->start_ns, blocks);
    if (seen->has_end)
        put_times(text, "end_ns", &seen->end_ns, blocks);
}

static void put_event(gs_text *text, const gs_run *run, const gs_event *event) {
    static const char *const ops[] = {[GS_LAUNCH] = "launch", [GS_EXIT] = "exit", [GS_OBSERVE] = "observe"};
    const gs_launch *launch = &run->launches.data[event->launch];
    gs_text_add(text, "{\"op\":\"%s\"", ops[event->op]);
    put_string(text, "kernel", launch->kernel);
    if (event->op == GS_LAUNCH)
        put_launch(text, launch);
    put_seen(text, &event->seen, launch->blocks);
    gs_text_put(text, "}", 1);
}

void gs_run_text(const gs_run *run, gs_text *text) {
    gs_text_add(text, "{\"schema\":\"gridsmith.run/1\"");
    if (run->has_id)
        put_int(text, "id", run->id);
    if (run->gpu)
        put_string(text, "gpu", run->gpu);
    if (run->class_name)
        put_string(text, "class", run->class_name);
    put_key(text, "events");
    gs_text_put(text, "[", 1);
    for (size_t i = 0; i < run->events.count; i++) {
        if (i)
            gs_text_put(text, ",", 1);
        put_event(text, run, &run->events.data[i]);
    }
    gs_text_put(text, "]}", 2);
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
