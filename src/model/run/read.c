/*
 * read.c: runs from JSON.
 *
 * The tables of event_fields.c list the keys of events and their limits. Conflicts between events (a kernel that is
 * launched twice, an exit of a kernel that was never launched) are checked here too, so a run that was read is
 * consistent. Whether it fits a GPU is checked by the engine.
 *
 * The events of a run are inside it, or follow it in the file, one per line. lines.c reads most lines; the others are
 * read here. A run of several GPUs is returned as a run for each (devices.c).
 */
#include "event_fields.h"

#include <stdlib.h>
#include <string.h>

#define MOST_NS ((int64_t)1000000000 * 1000000)

/* A run, and state that is needed only while it is read. */
struct reader {
    gs_run *run;
    gs_wanted wanted;
};

static const gs_field run_fields[] = {
    {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
    {"id", GS_FIELD_INT64, false, offsetof(gs_run, id), INT64_MIN, INT64_MAX},
    {"gpu", GS_FIELD_NAME, false, offsetof(gs_run, gpu), 0, 0},
    {"class", GS_FIELD_NAME, false, offsetof(gs_run, class_name), 0, 0},
    {"events", GS_FIELD_OTHER, true, 0, 0, 0},
    {"assumed", GS_FIELD_NAME, false, offsetof(gs_run, assumed), 0, 0},
    {"program", GS_FIELD_NAME, false, offsetof(gs_run, origin.program), 0, 0},
    {"recorder", GS_FIELD_NAME, false, offsetof(gs_run, origin.recorder), 0, 0},
    {"gpu_name", GS_FIELD_NAME, false, offsetof(gs_run, origin.gpu_name), 0, 0},
    {"device", GS_FIELD_INT64, false, offsetof(gs_run, origin.device), 0, INT64_MAX},
    {"process", GS_FIELD_INT64, false, offsetof(gs_run, origin.process), 0, INT64_MAX},
    {"start_unix_ns", GS_FIELD_INT64, false, offsetof(gs_run, origin.start_unix_ns), 0, INT64_MAX},
    {"lacks", GS_FIELD_OTHER, false, 0, 0, 0},
    {"green_contexts", GS_FIELD_OTHER, false, 0, 0, 0},
    {"connections", GS_FIELD_INT32, false, offsetof(gs_run, connections), 1, 1024},
};

static const gs_field exit_fields[] = {
    {"op", GS_FIELD_OTHER, true, 0, 0, 0},
    {"kernel", GS_FIELD_OTHER, false, 0, 0, 0},
    {"id", GS_FIELD_OTHER, false, 0, 0, 0},
    {"why", GS_FIELD_OTHER, false, 0, 0, 0},
};

static const gs_field observe_fields[] = {
    {"op", GS_FIELD_OTHER, true, 0, 0, 0},          {"kernel", GS_FIELD_OTHER, false, 0, 0, 0},
    {"id", GS_FIELD_OTHER, false, 0, 0, 0},         {"placed", GS_FIELD_OTHER, false, 0, 0, 0},
    {"warp_slots", GS_FIELD_OTHER, false, 0, 0, 0}, {"start_ns", GS_FIELD_OTHER, false, 0, 0, 0},
    {"end_ns", GS_FIELD_OTHER, false, 0, 0, 0},     {"why", GS_FIELD_OTHER, false, 0, 0, 0},
};

static const gs_field end_fields[] = {
    {"op", GS_FIELD_OTHER, true, 0, 0, 0},
    {"at_us", GS_FIELD_DURATION, false, offsetof(gs_run, end_ns), 0, MOST_NS},
    {"lost", GS_FIELD_INT64, false, offsetof(gs_run, lost), 0, INT64_MAX},
};

/* ---- observations: lists with an entry for each block ---- */

/* Finds the list at `key`, if present, and checks that it has an entry for each block. */
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
    if (code != GS_OK)
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

static bool has_lists(const gs_step *event) {
    static const char *const keys[] = {"placed", "warp_slots", "start_ns", "end_ns"};
    for (size_t i = 0; i < GS_COUNT(keys); i++)
        if (json_object_get(event->value, keys[i]))
            return true;
    return false;
}

/* The sentences of a prediction, a line each. */
static gs_code read_why(const gs_json *json, const gs_step *at, gs_event *event, gs_error *error) {
    gs_step list = gs_step_key(at, "why");
    gs_text text = {0};
    gs_code code = GS_OK;
    if (list.value && !json_is_array(list.value))
        return gs_json_fail(json, &list, false, error, "\"why\" must be a list of sentences");
    for (size_t i = 0; i < json_array_size(list.value) && code == GS_OK; i++) {
        gs_step sentence = gs_step_index(&list, i);
        if (!json_is_string(sentence.value) || !gs_is_printable(json_string_value(sentence.value)))
            code = gs_json_fail(json, &sentence, false, error, "\"why\" must be a list of sentences");
        else
            gs_text_add(&text, "%s%s", i ? "\n" : "", json_string_value(sentence.value));
    }
    if (code == GS_OK && text.failed)
        code = gs_fail_memory(error);
    event->why = text.data;
    return code;
}

static gs_code read_seen(const gs_json *json, const gs_step *at, int64_t blocks, gs_event *event, gs_error *error) {
    gs_code code = read_why(json, at, event, error);
    if (code != GS_OK || !has_lists(at))
        return code;
    gs_seen *seen = gs_event_see(event);
    if (!seen)
        return gs_fail_memory(error);
    code = read_placed(json, at, blocks, seen, error);
    if (code == GS_OK)
        code = read_warp_slots(json, at, blocks, seen, error);
    if (code == GS_OK)
        code = read_times(json, at, "start_ns", blocks, &seen->start_ns, &seen->has_start, error);
    if (code == GS_OK)
        code = read_times(json, at, "end_ns", blocks, &seen->end_ns, &seen->has_end, error);
    return code;
}

/* ---- ids, streams, edges ---- */

/* Names are shown on terminals. */
static gs_code check_printable(const gs_json *json, const gs_step *object, const char *key, gs_error *error) {
    gs_step at = gs_step_key(object, key);
    if (!json_is_string(at.value) || gs_is_printable(json_string_value(at.value)))
        return GS_OK;
    return gs_json_fail(json, &at, false, error, "\"%s\" must not contain control characters", key);
}

/* A number or a name, as text. */
struct label {
    char digits[24];
    const char *text;
    bool is_number;
};

/* The text may be inside `label`, which therefore must not move. False: the value is neither. */
static bool read_label(const json_t *value, struct label *label) {
    label->is_number = json_is_integer(value);
    label->text = json_string_value(value);
    if (label->is_number) {
        snprintf(label->digits, sizeof label->digits, "%lld", (long long)json_integer_value(value));
        label->text = label->digits;
    }
    return label->text != NULL;
}

/* Reads the id or the stream at `key`, if present. */
static gs_code read_named(const gs_json *json, const gs_step *event, const char *key, char **name, bool *is_number,
                          gs_error *error) {
    gs_step at = gs_step_key(event, key);
    struct label label;
    if (!at.value)
        return GS_OK;
    if (!read_label(at.value, &label) || (!*label.text && strcmp(key, "id") == 0))
        return gs_json_fail(json, &at, false, error, "\"%s\" must be a whole number or a name", key);
    gs_code code = check_printable(json, event, key, error);
    if (code != GS_OK)
        return code;
    *is_number = label.is_number;
    *name = strdup(label.text);
    return *name ? GS_OK : gs_fail_memory(error);
}

/* "when" of an edge: "end", "trigger" or "start". */
static gs_code read_when(const gs_json *json, const gs_step *at, gs_when *when, gs_error *error) {
    gs_step step = gs_step_key(at, "when");
    const char *word = json_string_value(step.value);
    for (int i = GS_AT_END; word && i <= GS_AT_START; i++)
        if (strcmp(word, gs_when_name((gs_when)i)) == 0) {
            *when = (gs_when)i;
            return GS_OK;
        }
    return gs_json_fail(json, step.value ? &step : at, false, error,
                        "\"when\" must be \"end\", \"trigger\" or \"start\"");
}

/* An entry of "after": an id, or an object with an id and when. */
static gs_code read_edge(const gs_json *json, const gs_step *entry, struct reader *reader, gs_issue *issue,
                         gs_error *error) {
    static const gs_field fields[] = {{"id", GS_FIELD_OTHER, true, 0, 0, 0}, {"when", GS_FIELD_OTHER, true, 0, 0, 0}};
    gs_when when = GS_AT_END;
    gs_step id = *entry;
    struct label label;
    if (json_is_object(entry->value)) {
        gs_code code = gs_json_object(json, entry, fields, GS_COUNT(fields), NULL, error);
        if (code == GS_OK)
            code = read_when(json, entry, &when, error);
        if (code != GS_OK)
            return code;
        id = gs_step_key(entry, "id");
    }
    if (!read_label(id.value, &label))
        return gs_json_fail(json, &id, false, error, "\"after\" must hold ids, or objects with \"id\" and \"when\"");
    return gs_run_want(reader->run, &reader->wanted, issue, label.text, when, error);
}

static gs_code read_after(const gs_json *json, const gs_step *event, struct reader *reader, gs_issue *issue,
                          gs_error *error) {
    gs_step list = gs_step_key(event, "after");
    if (list.value && !json_is_array(list.value))
        return gs_json_fail(json, &list, false, error, "\"after\" must be a list of ids");
    gs_code code = GS_OK;
    for (size_t i = 0; i < json_array_size(list.value) && code == GS_OK; i++) {
        gs_step entry = gs_step_index(&list, i);
        code = read_edge(json, &entry, reader, issue, error);
    }
    return code;
}

/* ---- events ---- */

static gs_code check_new(const gs_json *json, const gs_step *at, const gs_run *run, const char *id, const char *kernel,
                         gs_error *error) {
    gs_step step = gs_step_key(at, id ? "id" : "kernel");
    if (gs_names_find(&run->ids, id ? id : kernel) == SIZE_MAX)
        return GS_OK;
    if (id)
        return gs_json_fail(json, &step, false, error, "id \"%.60s\" is used twice", id);
    return gs_json_fail(json, &step, false, error,
                        "kernel \"%.60s\" is launched twice; names must be unique, unless launches have an \"id\"",
                        kernel);
}

static gs_code check_launch(const gs_json *json, const gs_step *at, const gs_run *run, const gs_launch *launch,
                            gs_error *error) {
    gs_step blocks = gs_step_key(at, "blocks");
    gs_code code = check_printable(json, at, "kernel", error);
    if (code == GS_OK)
        code = check_new(json, at, run, launch->issue.id, launch->kernel, error);
    if (code == GS_OK && launch->blocks % launch->cluster)
        code = gs_json_fail(json, &blocks, false, error, "\"blocks\" must be a multiple of \"cluster\", which is %d",
                            launch->cluster);
    return code;
}

static gs_code read_launch(const gs_json *json, const gs_step *at, uint32_t place, struct reader *reader,
                           gs_error *error) {
    gs_launch_parts parts = gs_launch_parts_none();
    gs_run *run = reader->run;
    gs_launch *launch = &parts.launch;
    gs_code code = gs_json_object(json, at, gs_launch_fields.data, gs_launch_fields.count, &parts, error);
    if (code == GS_OK)
        code = read_named(json, at, "stream", &launch->stream, &launch->stream_is_number, error);
    if (code == GS_OK)
        code = read_named(json, at, "id", &launch->issue.id, &launch->issue.id_is_number, error);
    if (code == GS_OK)
        code = check_launch(json, at, run, launch, error);
    if (code != GS_OK) {
        gs_launch_clear(launch);
        return code;
    }
    launch->issue.facts = &parts.facts;
    code = gs_run_add_launch(run, launch, error);
    if (code != GS_OK)
        return code;
    gs_event *event = &run->events.data[run->events.count - 1];
    gs_launch *added = &run->launches.data[event->launch];
    event->place = place;
    code = read_after(json, at, reader, &added->issue, error);
    return code == GS_OK ? read_seen(json, at, added->blocks, event, error) : code;
}

static gs_code read_kind(const gs_json *json, const gs_step *at, uint8_t *kind, gs_error *error) {
    gs_step step = gs_step_key(at, "kind");
    const char *word = json_string_value(step.value);
    if (!step.value)
        return GS_OK;
    for (int i = GS_COPY_UNKNOWN + 1; word && i < GS_COPY_KINDS; i++)
        if (strcmp(word, gs_copy_kind_name((gs_copy_kind)i)) == 0) {
            *kind = (uint8_t)i;
            return GS_OK;
        }
    return gs_json_fail(json, &step, false, error,
                        "\"kind\" must be \"host_to_device\", \"device_to_host\", \"device_to_device\", "
                        "\"peer_to_peer\" or \"host_to_host\"");
}

static gs_code read_copy(const gs_json *json, const gs_step *at, uint32_t place, struct reader *reader,
                         gs_error *error) {
    gs_copy_parts parts = gs_copy_parts_none();
    gs_run *run = reader->run;
    gs_copy *copy = &parts.copy;
    copy->is_memset = strcmp(json_string_value(json_object_get(at->value, "op")), "memset") == 0;
    copy->place = place;
    const gs_field_table *table = copy->is_memset ? &gs_memset_fields : &gs_copy_fields;
    gs_code code = gs_json_object(json, at, table->data, table->count, &parts, error);
    if (code == GS_OK)
        code = read_kind(json, at, &copy->kind, error);
    if (code == GS_OK)
        code = read_named(json, at, "stream", &copy->stream, &copy->stream_is_number, error);
    if (code == GS_OK)
        code = read_named(json, at, "id", &copy->issue.id, &copy->issue.id_is_number, error);
    if (code == GS_OK && copy->issue.id)
        code = check_new(json, at, run, copy->issue.id, NULL, error);
    copy->issue.facts = &parts.facts;
    if (code == GS_OK)
        code = gs_run_add_copy(run, copy, error);
    free(copy->stream);
    free(copy->issue.id);
    if (code == GS_OK)
        code = read_after(json, at, reader, &run->copies.data[run->copies.count - 1].issue, error);
    return code;
}

/* Exits and observations name a launch before them: by its id, or by its kernel if it has none. */
static gs_code find_launched(const gs_json *json, const gs_step *at, const gs_run *run, size_t *launch,
                             gs_error *error) {
    gs_step id = gs_step_key(at, "id"), kernel = gs_step_key(at, "kernel");
    struct label label;
    gs_edge found;
    if (!id.value == !kernel.value)
        return gs_json_fail(json, at, false, error, "an event needs the \"id\" of a launch, or its \"kernel\"");
    if (kernel.value && !json_is_string(kernel.value))
        return gs_json_fail(json, &kernel, false, error, "\"kernel\" must be a string");
    if (!read_label(id.value ? id.value : kernel.value, &label))
        return gs_json_fail(json, id.value ? &id : &kernel, false, error, "\"%s\" must be a whole number or a name",
                            id.value ? "id" : "kernel");
    bool is_known = gs_run_find(run, label.text, &found) && !found.is_copy &&
                    !run->launches.data[found.number].issue.id == !id.value;
    if (!is_known && id.value)
        return gs_json_fail(json, &id, false, error, "no earlier launch has the id \"%.60s\"", label.text);
    if (!is_known)
        return gs_json_fail(json, &kernel, false, error, "no earlier launch without an \"id\" has the kernel \"%.60s\"",
                            label.text);
    *launch = found.number;
    return GS_OK;
}

static gs_code read_exit(const gs_json *json, const gs_step *at, uint32_t place, struct reader *reader,
                         gs_error *error) {
    size_t launch;
    gs_run *run = reader->run;
    gs_code code = gs_json_object(json, at, exit_fields, GS_COUNT(exit_fields), NULL, error);
    if (code == GS_OK)
        code = find_launched(json, at, run, &launch, error);
    if (code != GS_OK)
        return code;
    if (run->launches.data[launch].exit != SIZE_MAX) {
        gs_step step = gs_step_key(at, json_object_get(at->value, "id") ? "id" : "kernel");
        return gs_json_fail(json, &step, false, error, "kernel \"%.60s\" has already exited",
                            run->launches.data[launch].kernel);
    }
    gs_event *event = gs_run_add_event(run, GS_EXIT, launch, error);
    if (!event)
        return GS_E_MEMORY;
    event->place = place;
    return read_why(json, at, event, error);
}

static gs_code read_observe(const gs_json *json, const gs_step *at, uint32_t place, struct reader *reader,
                            gs_error *error) {
    size_t launch;
    gs_run *run = reader->run;
    gs_code code = gs_json_object(json, at, observe_fields, GS_COUNT(observe_fields), NULL, error);
    if (code == GS_OK)
        code = find_launched(json, at, run, &launch, error);
    gs_event *event = code == GS_OK ? gs_run_add_event(run, GS_OBSERVE, launch, error) : NULL;
    if (!event)
        return code == GS_OK ? GS_E_MEMORY : code;
    event->place = place;
    return read_seen(json, at, run->launches.data[launch].blocks, event, error);
}

static gs_code read_range(const gs_json *json, const gs_step *at, uint32_t place, struct reader *reader,
                          gs_error *error) {
    (void)place;
    gs_range_parts parts = {0};
    gs_code code = gs_json_object(json, at, gs_range_fields.data, gs_range_fields.count, &parts, error);
    gs_step to = gs_step_key(at, "to_us");
    if (code == GS_OK && parts.to_ns < parts.from_ns)
        code = gs_json_fail(json, &to, false, error, "\"to_us\" must not be before \"from_us\"");
    if (code == GS_OK)
        code = gs_run_add_range(reader->run, parts.name, parts.from_ns, parts.to_ns, error);
    free(parts.name);
    return code;
}

/* The recorder stopped normally: only the events that it reports as lost are missing. */
static gs_code read_end(const gs_json *json, const gs_step *at, uint32_t place, struct reader *reader,
                        gs_error *error) {
    (void)place;
    reader->run->has_ended = true;
    return gs_json_object(json, at, end_fields, GS_COUNT(end_fields), reader->run, error);
}

static gs_code read_event(const gs_json *json, const gs_step *at, uint32_t place, struct reader *reader,
                          gs_error *error) {
    static const struct {
        const char *op;
        gs_code (*read)(const gs_json *, const gs_step *, uint32_t, struct reader *, gs_error *);
    } ops[] = {{"launch", read_launch}, {"exit", read_exit},   {"observe", read_observe}, {"copy", read_copy},
               {"memset", read_copy},   {"range", read_range}, {"end", read_end}};
    gs_step op = gs_step_key(at, "op");
    const char *name = json_string_value(op.value);
    if (reader->run->has_ended)
        return gs_json_fail(json, at, false, error, "the run has an event after its \"end\"");
    for (size_t i = 0; name && i < GS_COUNT(ops); i++)
        if (strcmp(ops[i].op, name) == 0)
            return ops[i].read(json, at, place, reader, error);
    return gs_json_fail(json, op.value ? &op : at, false, error,
                        "an event needs an \"op\": \"launch\", \"exit\", \"observe\", \"copy\", \"memset\", "
                        "\"range\" or \"end\"");
}

/* ---- runs ---- */

static gs_code read_list(const gs_json *json, const gs_step *events, struct reader *reader, gs_error *error) {
    gs_code code = GS_OK;
    for (size_t i = 0; i < json_array_size(events->value) && code == GS_OK; i++) {
        gs_step event = gs_step_index(events, i);
        code = read_event(json, &event, (uint32_t)i + 1, reader, error);
    }
    return code;
}

/* The list of keys that the recorder could not know, as words. */
static gs_code read_lacks(const gs_json *json, const gs_step *root, gs_run *run, gs_error *error) {
    gs_step list = gs_step_key(root, "lacks");
    gs_text words = {0};
    if (!list.value)
        return GS_OK;
    if (!json_is_array(list.value))
        return gs_json_fail(json, &list, false, error, "\"lacks\" must be a list of keys");
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        gs_step step = gs_step_index(&list, i);
        const char *word = json_string_value(step.value);
        if (!word || !*word || strlen(word) > GS_LONGEST_KEY || strchr(word, ' ')) {
            gs_text_free(&words);
            return gs_json_fail(json, &step, false, error, "\"lacks\" must hold keys of launches");
        }
        gs_text_add(&words, "%s%s", i ? " " : "", word);
    }
    if (words.failed)
        gs_text_free(&words);
    run->origin.lacks = words.data;
    return words.failed ? gs_fail_memory(error) : GS_OK;
}

enum { MOST_GREEN_CONTEXTS = 1024 };

static gs_code read_green_context(const gs_json *json, const gs_step *list, gs_green_contexts *contexts,
                                  gs_error *error) {
    size_t count = json_array_size(list->value),
           end = contexts->count ? (size_t)contexts->ends[contexts->count - 1] : 0;
    int16_t *sms = realloc(contexts->sms, (end + count + 1) * sizeof *sms);
    if (!sms)
        return gs_fail_memory(error);
    contexts->sms = sms;
    if (!count)
        return gs_json_fail(json, list, false, error, "a green context must be a list of its SMs");
    for (size_t i = 0; i < count; i++) {
        gs_step entry = gs_step_index(list, i);
        int64_t sm;
        gs_code code = gs_json_int(json, &entry, 0, INT16_MAX, &sm, error);
        if (code != GS_OK)
            return code;
        sms[end++] = (int16_t)sm;
    }
    contexts->ends[contexts->count++] = (int32_t)end;
    return GS_OK;
}

static gs_code read_green_contexts(const gs_json *json, const gs_step *root, gs_run *run, gs_error *error) {
    gs_step list = gs_step_key(root, "green_contexts");
    size_t count = json_array_size(list.value);
    gs_code code = GS_OK;
    if (!list.value)
        return GS_OK;
    if (!json_is_array(list.value) || count > MOST_GREEN_CONTEXTS)
        return gs_json_fail(json, &list, false, error, "\"green_contexts\" must be a list of lists of SMs");
    run->green_contexts.ends = calloc(count + 1, sizeof *run->green_contexts.ends);
    if (!run->green_contexts.ends)
        return gs_fail_memory(error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step context = gs_step_index(&list, i);
        code = read_green_context(json, &context, &run->green_contexts, error);
    }
    return code;
}

/* Reads the keys of a run, and its events unless they follow. */
static gs_code read_run(const gs_json *json, struct reader *reader, gs_error *error) {
    gs_step root = gs_step_root(json);
    gs_step events = gs_step_key(&root, "events");
    gs_run *run = reader->run;
    if (json_is_object(root.value) && !gs_step_key(&root, "schema").value && gs_step_key(&root, "traceEvents").value)
        return gs_json_fail(json, &root, false, error, "a trace, not runs: make runs of it with 'gridsmith import'");
    gs_code code = gs_json_schema(json, &root, "gridsmith.run/1", error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, run_fields, GS_COUNT(run_fields), run, error);
    if (code == GS_OK)
        code = check_printable(json, &root, "class", error);
    if (code == GS_OK)
        code = read_lacks(json, &root, run, error);
    if (code == GS_OK)
        code = read_green_contexts(json, &root, run, error);
    if (code != GS_OK)
        return code;
    run->has_id = json_object_get(json->root, "id") != NULL;
    if (json_is_string(events.value) && strcmp(json_string_value(events.value), "follow") == 0) {
        run->is_followed = true;
        return GS_OK;
    }
    if (!json_is_array(events.value))
        return gs_json_fail(json, &events, false, error, "\"events\" must be a list, or \"follow\"");
    return read_list(json, &events, reader, error);
}

/* Work may be shorter than the clock of a recorder can tell, but it does not end before it starts. */
static gs_code check_times(const gs_run *run, gs_error *error) {
    for (size_t i = 0; i < run->launches.count + run->copies.count; i++) {
        const gs_issue *issue = gs_run_issue(run, i);
        if (issue->start_ns == GS_NO_TIME || issue->end_ns == GS_NO_TIME || issue->end_ns >= issue->start_ns)
            continue;
        uint32_t place = i < run->launches.count ? run->events.data[run->launches.data[i].event].place
                                                 : run->copies.data[i - run->launches.count].place;
        return gs_run_fail_at(run, place, error, GS_E_FORMAT,
                              "it ends before it starts: \"end_us\" is less than \"start_us\"");
    }
    return GS_OK;
}

/* Called when all events are read: puts them in order, and finds what they wait for. The text of the run, or its file
   name, is kept for later errors. Frees the run on errors. */
static gs_run *finish_run(struct reader *reader, gs_json *json, gs_code code, gs_error *error) {
    gs_run *run = reader->run;
    json_decref(json->root);
    json->root = NULL;
    if (run->is_followed) {
        free(json->text);
        json->text = NULL;
    }
    run->source = *json;
    *json = (gs_json){0};
    if (code == GS_OK)
        code = gs_run_sort(run, error);
    if (code == GS_OK)
        code = gs_run_resolve(run, &reader->wanted, error);
    if (code == GS_OK)
        code = check_times(run, error);
    free(reader->wanted.data);
    if (code == GS_OK)
        return run;
    gs_run_free(run);
    return NULL;
}

gs_run *gs_run_read(gs_json *json, gs_error *error) {
    struct reader reader = {.run = gs_run_new(error)};
    if (!reader.run) {
        gs_json_free(json);
        return NULL;
    }
    gs_code code = read_run(json, &reader, error);
    return finish_run(&reader, json, code, error);
}

/* ---- files of runs ---- */

struct gs_runs {
    gs_input *input;
    gs_json next;    /* the next run, found after the events of the previous one */
    gs_run *several; /* a run of several GPUs, of which some were not returned yet; or NULL */
    int64_t device;  /* the GPU that was returned last */
};

static gs_runs *runs_of(gs_input *input, gs_error *error) {
    gs_runs *runs = input ? calloc(1, sizeof *runs) : NULL;
    if (runs)
        runs->input = input;
    else if (input)
        gs_fail_memory(error);
    if (!runs)
        gs_input_close(input);
    return runs;
}

gs_runs *gs_runs_open(const char *path, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    const char *bytes, *other = NULL;
    size_t count;
    gs_error wrong = {.code = GS_OK};
    if (input && strcmp(path, "-") != 0 && gs_input_more(input, &bytes, &count, &wrong) == GS_OK)
        other = gs_other_file(path, bytes, count);
    if (other)
        gs_fail(&wrong, GS_E_FORMAT, "%s: %s", path, other);
    if (wrong.code == GS_OK)
        return runs_of(input, error);
    if (error)
        *error = wrong;
    gs_input_close(input);
    return NULL;
}

gs_runs *gs_runs_memory(const char *name, const char *bytes, size_t count, gs_error *error) {
    return runs_of(gs_input_memory(name, bytes, count, error), error);
}

gs_runs *gs_runs_after(gs_input *input, gs_json *first, gs_error *error) {
    gs_runs *runs = runs_of(input, error);
    if (runs)
        runs->next = *first;
    else
        gs_json_free(first);
    *first = (gs_json){0};
    return runs;
}

void gs_runs_close(gs_runs *runs) {
    if (!runs)
        return;
    gs_input_close(runs->input);
    gs_json_free(&runs->next);
    gs_run_free(runs->several);
    free(runs);
}

/* A line of a file, or the rest of the file if the line is too long. */
struct piece {
    const char *bytes;
    size_t count; /* SIZE_MAX: the rest of the file */
    bool is_last; /* nothing follows, not even a newline */
};

/* Reads the JSON value in a piece. The root is NULL if the piece is empty. */
static gs_code parse_piece(gs_runs *runs, const struct piece *piece, gs_json *json, gs_error *error) {
    if (piece->count == SIZE_MAX)
        return gs_json_next(runs->input, json, error);
    gs_input *line = gs_input_part(runs->input, piece->bytes, piece->count, error);
    gs_json more = {0};
    gs_code code = line ? gs_json_next(line, json, error) : GS_E_MEMORY;
    if (code == GS_OK)
        code = gs_json_next(line, &more, error);
    if (code == GS_OK && more.root)
        code = gs_json_fail(&more, &(gs_step){0}, false, error, "each event must be on a line of its own");
    gs_json_free(&more);
    gs_input_close(line);
    if (code == GS_OK)
        gs_input_take(runs->input, piece->count);
    else
        gs_json_free(json);
    return code;
}

/* Reads an event as JSON. `*goes_on` becomes false at the end of the file, and at the next run. A program that was
   killed may leave a part of a line at the end of its recording. */
static gs_code follow_slowly(gs_runs *runs, struct reader *reader, const struct piece *piece, bool *goes_on,
                             gs_error *error) {
    gs_json json = {0};
    gs_code code = parse_piece(runs, piece, &json, error);
    if (code == GS_E_SYNTAX && piece->is_last) {
        reader->run->is_cut = true;
        *goes_on = false;
        if (piece->count != SIZE_MAX)
            gs_input_take(runs->input, piece->count); /* so it is not the beginning of another run */
        if (error)
            *error = (gs_error){.code = GS_OK};
        return GS_OK;
    }
    *goes_on = code == GS_OK && (json.root || piece->count != SIZE_MAX);
    if (code != GS_OK || !json.root)
        return code;
    if (json_object_get(json.root, "schema")) {
        runs->next = json;
        *goes_on = false;
        return GS_OK;
    }
    gs_step root = gs_step_root(&json);
    code = read_event(&json, &root, (uint32_t)json.line, reader, error);
    gs_json_free(&json);
    return code;
}

/* Reads the events behind a run, most of them without jansson. */
static gs_code read_following_events(gs_runs *runs, struct reader *reader, gs_error *error) {
    gs_code code = GS_OK;
    for (bool goes_on = true; goes_on && code == GS_OK;) {
        struct piece piece;
        bool is_read = false;
        piece.count = gs_input_line(runs->input, &piece.bytes, &piece.is_last);
        uint32_t place = (uint32_t)gs_input_line_number(runs->input);
        if (piece.count == 0)
            is_read = true; /* the rest of a line that was read as JSON */
        else if (piece.count != SIZE_MAX)
            code = gs_run_read_line(reader->run, piece.bytes, piece.count, place, &reader->wanted, &is_read, error);
        if (is_read)
            gs_input_take(runs->input, piece.count + !piece.is_last);
        else if (code == GS_OK)
            code = follow_slowly(runs, reader, &piece, &goes_on, error);
        if (code == GS_OK)
            code = gs_input_check_expansion(runs->input, error);
    }
    return code;
}

bool gs_is_campaign_header(const json_t *value) {
    const char *schema = json_string_value(json_object_get(value, "schema"));
    return schema && strcmp(schema, GS_CAMPAIGN_SCHEMA) == 0;
}

static gs_run *read_next(gs_runs *runs, gs_error *error) {
    gs_json json = runs->next;
    runs->next = (gs_json){0};
    while (!json.root || gs_is_campaign_header(json.root)) {
        gs_json_free(&json);
        if (gs_json_next(runs->input, &json, error) != GS_OK || !json.root)
            return NULL;
    }
    struct reader reader = {.run = gs_run_new(error)};
    if (!reader.run) {
        gs_json_free(&json);
        return NULL;
    }
    gs_code code = read_run(&json, &reader, error);
    if (code == GS_OK && reader.run->is_followed)
        code = read_following_events(runs, &reader, error);
    return finish_run(&reader, &json, code, error);
}

/* The run of the next GPU of a run of several. */
static gs_run *next_part(gs_runs *runs, gs_error *error) {
    runs->device = gs_run_next_device(runs->several, runs->device);
    gs_run *part = gs_run_of_device(runs->several, runs->device, error);
    if (!part || gs_run_next_device(runs->several, runs->device) == GS_NOT_GIVEN) {
        gs_run_free(runs->several);
        runs->several = NULL;
    }
    return part;
}

gs_run *gs_runs_next(gs_runs *runs, gs_error *error) {
    if (runs->several)
        return next_part(runs, error);
    gs_run *run = read_next(runs, error);
    int64_t first = run ? gs_run_next_device(run, GS_NOT_GIVEN) : GS_NOT_GIVEN;
    if (first == GS_NOT_GIVEN || gs_run_next_device(run, first) == GS_NOT_GIVEN)
        return run;
    if (gs_run_check_devices(run, error) != GS_OK) {
        gs_run_free(run);
        return NULL;
    }
    runs->several = run;
    runs->device = GS_NOT_GIVEN;
    return next_part(runs, error);
}
