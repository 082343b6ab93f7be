/*
 * read.c: runs from JSON.
 *
 * The tables below list the keys of events and their limits. Conflicts between events (a kernel that is launched twice,
 * an exit of a kernel that was never launched) are checked here too, so a run that was read is consistent. Whether it
 * fits a GPU is checked by the engine.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BLOCKS INT32_MAX
#define MOST_BYTES  ((int64_t)1 << 40)

static const gs_field run_fields[] = {
    {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
    {"id", GS_FIELD_INT64, false, offsetof(gs_run, id), INT64_MIN, INT64_MAX},
    {"gpu", GS_FIELD_NAME, false, offsetof(gs_run, gpu), 0, 0},
    {"class", GS_FIELD_NAME, false, offsetof(gs_run, class_name), 0, 0},
    {"events", GS_FIELD_OTHER, true, 0, 0, 0},
};

#define SEEN_FIELDS                                                                                                    \
    {"placed", GS_FIELD_OTHER, false, 0, 0, 0}, {"warp_slots", GS_FIELD_OTHER, false, 0, 0, 0},                        \
        {"start_ns", GS_FIELD_OTHER, false, 0, 0, 0}, {                                                                \
        "end_ns", GS_FIELD_OTHER, false, 0, 0, 0                                                                       \
    }

static const gs_field launch_fields[] = {
    {"op", GS_FIELD_OTHER, true, 0, 0, 0},
    {"kernel", GS_FIELD_NAME, true, offsetof(gs_launch, kernel), 0, 0},
    {"blocks", GS_FIELD_INT64, true, offsetof(gs_launch, blocks), 1, MOST_BLOCKS},
    {"threads", GS_FIELD_INT32, true, offsetof(gs_launch, shape.threads), 1, 65536},
    {"registers", GS_FIELD_INT32, true, offsetof(gs_launch, shape.registers), 1, 65536},
    {"shared_bytes", GS_FIELD_INT64, true, offsetof(gs_launch, shape.shared_bytes), 0, MOST_BYTES},
    {"local_bytes", GS_FIELD_INT64, false, offsetof(gs_launch, shape.local_bytes), 0, MOST_BYTES},
    {"cluster", GS_FIELD_INT32, false, offsetof(gs_launch, cluster), 1, 4096},
    {"priority", GS_FIELD_INT32, false, offsetof(gs_launch, priority), -1000, 1000},
    {"carveout_percent", GS_FIELD_INT32, false, offsetof(gs_launch, shape.carveout_percent), 0, 100},
    {"stream", GS_FIELD_OTHER, false, 0, 0, 0},
    {"duration_us", GS_FIELD_DURATION, false, offsetof(gs_launch, duration_ns), 1, (int64_t)1000000000 * 1000000},
    {"spread_us", GS_FIELD_DURATION, false, offsetof(gs_launch, spread_ns), 1, (int64_t)1000000000 * 1000000},
    SEEN_FIELDS,
};

static const gs_field exit_fields[] = {
    {"op", GS_FIELD_OTHER, true, 0, 0, 0},
    {"kernel", GS_FIELD_OTHER, true, 0, 0, 0},
};

static const gs_field observe_fields[] = {
    {"op", GS_FIELD_OTHER, true, 0, 0, 0},
    {"kernel", GS_FIELD_OTHER, true, 0, 0, 0},
    SEEN_FIELDS,
};

/* ---- what was seen: lists with an entry for each block ---- */

/* Finds the list at `key`, if there is one, and checks that it has an entry for each block. */
static gs_code find_list(const gs_json *json, const gs_step *event, const char *key, int64_t blocks, gs_step *list,
                         gs_error *error) {
    *list = gs_step_key(event, key);
    if (!list->value)
        return GS_OK;
    if (!json_is_array(list->value))
        return gs_json_fail(json, list, false, error, "\"%s\" must be a list with an entry for each block", key);
    if ((int64_t)json_array_size(list->value) != blocks)
        return gs_json_fail(json, list, false, error, "\"%s\" has %zu entries, but the kernel has %lld blocks", key,
                            json_array_size(list->value), (long long)blocks);
    return GS_OK;
}

/* The length of a list without the nulls at its end, which are not stored. */
static size_t count_to_last(const json_t *list) {
    size_t count = json_array_size(list);
    while (count > 0 && json_is_null(json_array_get(list, count - 1)))
        count--;
    return count;
}

static gs_code read_placed(const gs_json *json, const gs_step *event, int64_t blocks, gs_seen *seen, gs_error *error) {
    gs_step list;
    gs_code code = find_list(json, event, "placed", blocks, &list, error);
    if (code != GS_OK || !list.value)
        return code;
    size_t count = count_to_last(list.value);
    if (!GS_RESERVE(&seen->placed, count))
        return gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step entry = gs_step_index(&list, i);
        int64_t sm = GS_WAIT;
        if (!json_is_null(entry.value))
            code = gs_json_int(json, &entry, 0, INT16_MAX, &sm, error);
        seen->placed.data[seen->placed.count++] = (int32_t)sm;
    }
    seen->has_placed = true;
    return code;
}

static gs_code read_times(const gs_json *json, const gs_step *event, const char *key, int64_t blocks,
                          gs_time_list *times, bool *present, gs_error *error) {
    gs_step list;
    gs_code code = find_list(json, event, key, blocks, &list, error);
    if (code != GS_OK || !list.value)
        return code;
    size_t count = count_to_last(list.value);
    if (!GS_RESERVE(times, count))
        return gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step entry = gs_step_index(&list, i);
        int64_t time = GS_NO_TIME;
        if (!json_is_null(entry.value))
            code = gs_json_int(json, &entry, 0, INT64_MAX, &time, error);
        times->data[times->count++] = time;
    }
    *present = true;
    return code;
}

static size_t count_slots(const json_t *list) {
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        count += json_array_size(json_array_get(list, i));
    return count;
}

static gs_code read_block_slots(const gs_json *json, const gs_step *block, gs_slot_lists *lists, size_t *end,
                                gs_error *error) {
    if (json_is_null(block->value))
        return GS_OK;
    if (!json_array_size(block->value))
        return gs_json_fail(json, block, false, error, "\"warp_slots\" must hold null or a list of slots for a block");
    for (size_t i = 0; i < json_array_size(block->value); i++) {
        gs_step slot = gs_step_index(block, i);
        int64_t number;
        gs_code code = gs_json_int(json, &slot, 0, INT16_MAX, &number, error);
        if (code != GS_OK)
            return code;
        lists->slots[(*end)++] = (int16_t)number;
    }
    return GS_OK;
}

static gs_code read_warp_slots(const gs_json *json, const gs_step *event, int64_t blocks, gs_seen *seen,
                               gs_error *error) {
    gs_step list;
    gs_code code = find_list(json, event, "warp_slots", blocks, &list, error);
    if (code != GS_OK || !list.value)
        return code;
    gs_slot_lists *lists = &seen->warp_slots;
    lists->slots = malloc((count_slots(list.value) + 1) * sizeof *lists->slots);
    lists->ends = malloc((size_t)blocks * sizeof *lists->ends);
    if (!lists->slots || !lists->ends)
        return gs_fail_memory(error);
    size_t end = 0;
    for (size_t i = 0; i < (size_t)blocks && code == GS_OK; i++) {
        gs_step block = gs_step_index(&list, i);
        code = read_block_slots(json, &block, lists, &end, error);
        lists->ends[i] = end;
    }
    seen->has_warp_slots = true;
    return code;
}

static gs_code read_seen(const gs_json *json, const gs_step *event, int64_t blocks, gs_seen *seen, gs_error *error) {
    gs_code code = read_placed(json, event, blocks, seen, error);
    if (code == GS_OK)
        code = read_warp_slots(json, event, blocks, seen, error);
    if (code == GS_OK)
        code = read_times(json, event, "start_ns", blocks, &seen->start_ns, &seen->has_start, error);
    if (code == GS_OK)
        code = read_times(json, event, "end_ns", blocks, &seen->end_ns, &seen->has_end, error);
    return code;
}

/* ---- events ---- */

/* A stream is a number or a name. */
static gs_code read_stream(const gs_json *json, const gs_step *event, gs_launch *launch, gs_error *error) {
    gs_step stream = gs_step_key(event, "stream");
    if (!stream.value)
        return GS_OK;
    char number[24];
    const char *name = json_string_value(stream.value);
    if (json_is_integer(stream.value)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(stream.value));
        name = number;
        launch->stream_is_number = true;
    }
    if (!name)
        return gs_json_fail(json, &stream, false, error, "\"stream\" must be a whole number or a name");
    launch->stream = strdup(name);
    return launch->stream ? GS_OK : gs_fail_memory(error);
}

static gs_code check_launch(const gs_json *json, const gs_step *at, const gs_run *run, const gs_launch *launch,
                            gs_error *error) {
    gs_step kernel = gs_step_key(at, "kernel"), blocks = gs_step_key(at, "blocks");
    if (gs_names_find(&run->kernels, launch->kernel) != SIZE_MAX)
        return gs_json_fail(json, &kernel, false, error, "kernel \"%.60s\" is launched twice; names must be unique",
                            launch->kernel);
    if (launch->blocks % launch->cluster)
        return gs_json_fail(json, &blocks, false, error, "\"blocks\" must be a multiple of \"cluster\", which is %d",
                            launch->cluster);
    return GS_OK;
}

static gs_code read_launch(const gs_json *json, const gs_step *at, gs_run *run, gs_error *error) {
    gs_launch launch = gs_launch_default();
    gs_code code = gs_json_object(json, at, launch_fields, GS_COUNT(launch_fields), &launch, error);
    if (code == GS_OK)
        code = read_stream(json, at, &launch, error);
    if (code == GS_OK)
        code = check_launch(json, at, run, &launch, error);
    if (code != GS_OK) {
        gs_launch_clear(&launch);
        return code;
    }
    code = gs_run_add_launch(run, &launch, error);
    if (code != GS_OK)
        return code;
    gs_event *event = &run->events.data[run->events.count - 1];
    return read_seen(json, at, run->launches.data[event->launch].blocks, &event->seen, error);
}

/* Exits and observations name a kernel that was launched before. */
static gs_code find_launched(const gs_json *json, const gs_step *at, const gs_run *run, size_t *launch,
                             gs_error *error) {
    gs_step kernel = gs_step_key(at, "kernel");
    const char *name = json_string_value(kernel.value);
    if (!name)
        return gs_json_fail(json, &kernel, false, error, "\"kernel\" must be a string");
    *launch = gs_names_find(&run->kernels, name);
    if (*launch == SIZE_MAX)
        return gs_json_fail(json, &kernel, false, error, "kernel \"%.60s\" was not launched before this", name);
    return GS_OK;
}

static gs_code read_exit(const gs_json *json, const gs_step *at, gs_run *run, gs_error *error) {
    size_t launch;
    gs_code code = gs_json_object(json, at, exit_fields, GS_COUNT(exit_fields), NULL, error);
    if (code == GS_OK)
        code = find_launched(json, at, run, &launch, error);
    if (code != GS_OK)
        return code;
    if (run->launches.data[launch].exit != SIZE_MAX) {
        gs_step kernel = gs_step_key(at, "kernel");
        return gs_json_fail(json, &kernel, false, error, "kernel \"%.60s\" has exited already",
                            run->launches.data[launch].kernel);
    }
    return gs_run_add_event(run, GS_EXIT, launch, error) ? GS_OK : GS_E_MEMORY;
}

static gs_code read_observe(const gs_json *json, const gs_step *at, gs_run *run, gs_error *error) {
    size_t launch;
    gs_code code = gs_json_object(json, at, observe_fields, GS_COUNT(observe_fields), NULL, error);
    if (code == GS_OK)
        code = find_launched(json, at, run, &launch, error);
    gs_event *event = code == GS_OK ? gs_run_add_event(run, GS_OBSERVE, launch, error) : NULL;
    if (!event)
        return code == GS_OK ? GS_E_MEMORY : code;
    return read_seen(json, at, run->launches.data[launch].blocks, &event->seen, error);
}

static gs_code read_event(const gs_json *json, const gs_step *at, gs_run *run, gs_error *error) {
    static const struct {
        const char *op;
        gs_code (*read)(const gs_json *, const gs_step *, gs_run *, gs_error *);
    } ops[] = {{"launch", read_launch}, {"exit", read_exit}, {"observe", read_observe}};
    gs_step op = gs_step_key(at, "op");
    const char *name = json_string_value(op.value);
    for (size_t i = 0; name && i < GS_COUNT(ops); i++)
        if (strcmp(ops[i].op, name) == 0)
            return ops[i].read(json, at, run, error);
    return gs_json_fail(json, op.value ? &op : at, false, error,
                        "an event needs an \"op\": \"launch\", \"exit\" or \"observe\"");
}

static gs_code read_run(const gs_json *json, gs_run *run, gs_error *error) {
    gs_step root = gs_step_root(json);
    gs_step events = gs_step_key(&root, "events");
    gs_code code = gs_json_schema(json, &root, "gridsmith.run/1", error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, run_fields, GS_COUNT(run_fields), run, error);
    if (code != GS_OK)
        return code;
    run->has_id = json_object_get(json->root, "id") != NULL;
    if (!json_is_array(events.value))
        return gs_json_fail(json, &events, false, error, "\"events\" must be a list");
    for (size_t i = 0; i < json_array_size(events.value) && code == GS_OK; i++) {
        gs_step event = gs_step_index(&events, i);
        code = read_event(json, &event, run, error);
    }
    return code;
}

gs_run *gs_run_read(gs_json *json, gs_error *error) {
    gs_run *run = gs_run_new(error);
    if (run && read_run(json, run, error) != GS_OK) {
        gs_run_free(run);
        run = NULL;
    }
    json_decref(json->root);
    json->root = NULL;
    if (run)
        run->source = *json;
    else
        gs_json_free(json);
    *json = (gs_json){0};
    return run;
}

/* ---- files of runs ---- */

struct gs_runs {
    gs_input *input;
};

gs_runs *gs_runs_open(const char *path, gs_error *error) {
    gs_runs *runs = calloc(1, sizeof *runs);
    if (!runs) {
        gs_fail_memory(error);
        return NULL;
    }
    runs->input = gs_input_open(path, error);
    if (runs->input)
        return runs;
    free(runs);
    return NULL;
}

void gs_runs_close(gs_runs *runs) {
    if (!runs)
        return;
    gs_input_close(runs->input);
    free(runs);
}

gs_run *gs_runs_next(gs_runs *runs, gs_error *error) {
    gs_json json;
    if (gs_json_next(runs->input, &json, error) != GS_OK || !json.root)
        return NULL;
    return gs_run_read(&json, error);
}
