/*
 * machine.c: reading and writing how long the instructions of a warp take on a GPU: "machine" of its description, or a
 * file of its own (schema gridsmith.machine/1).
 *
 * All times are measured maxima (gridsmith probe --latency); `found` says how they were measured. A class of
 * instructions holds units: "held_millicycles" has, for each unit that it needs, how long the unit is busy with one of
 * its transactions, in thousandths of a cycle, because a unit of the whole GPU serves several transactions in a cycle.
 */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

#define SCHEMA      "gridsmith.machine/1"
#define MOST_CYCLES ((int64_t)1000000000)
enum { MOST_CLASSES = 256, MOST_TRANSACTIONS = 1024 };

static const char *const scope_names[GS_UNIT_SCOPES] = {"partition", "sm", "gpu"};

#define TIME(name, least)                                                                                              \
    { #name, GS_FIELD_INT64, true, offsetof(gs_machine, name), least, MOST_CYCLES }
#define MORE(name)                                                                                                     \
    { #name, GS_FIELD_INT64, false, offsetof(gs_machine, name), 1, MOST_CYCLES }
static const gs_field machine_fields[] = {
    {"schema", GS_FIELD_OTHER, false, 0, 0, 0},
    {"found", GS_FIELD_NAME, true, offsetof(gs_machine, found), 0, 0},
    TIME(clock_mhz, 1),
    TIME(line_bytes, 16),
    TIME(code_bytes, 0),
    TIME(fetch_cycles, 0),
    TIME(cold_fetch_cycles, 0),
    MORE(jump_cycles),
    MORE(constant_line_bytes),
    MORE(cold_constant_cycles),
    TIME(block_cycles, 0),
    TIME(launch_ns, 0),
    MORE(loaded_launch_ns),
    MORE(written_launch_ns),
    MORE(kept_bytes),
    MORE(sms),
    {"units", GS_FIELD_OTHER, true, 0, 0, 0},
    {"classes", GS_FIELD_OTHER, true, 0, 0, 0},
};

static const gs_field unit_fields[] = {
    {"name", GS_FIELD_NAME, true, offsetof(gs_machine_unit, name), 0, 0},
    {"scope", GS_FIELD_OTHER, true, 0, 0, 0},
};

#define CYCLES(name, is_needed)                                                                                        \
    { #name, GS_FIELD_INT64, is_needed, offsetof(gs_machine_class, name), 1, MOST_CYCLES }

static const gs_field class_fields[] = {
    {"name", GS_FIELD_NAME, true, offsetof(gs_machine_class, name), 0, 0},
    CYCLES(latency_cycles, true),
    CYCLES(loaded_cycles, true),
    CYCLES(read_cycles, false),
    CYCLES(loaded_read_cycles, false),
    CYCLES(repeated_cycles, false),
    CYCLES(burst_cycles, false),
    CYCLES(kept_cycles, false),
    CYCLES(kept_read_cycles, false),
    CYCLES(kept_millicycles, false),
    CYCLES(kept_repeated_cycles, false),
    CYCLES(kept_burst_cycles, false),
    CYCLES(alone_repeated_cycles, false),
    CYCLES(alone_burst_cycles, false),
    CYCLES(beside_cycles, false),
    CYCLES(beside_read_cycles, false),
    CYCLES(written_cycles, false),
    CYCLES(written_read_cycles, false),
    CYCLES(beside_repeated_cycles, false),
    CYCLES(beside_burst_cycles, false),
    {"transactions", GS_FIELD_INT64, true, offsetof(gs_machine_class, transactions), 1, MOST_TRANSACTIONS},
    {"held_millicycles", GS_FIELD_OTHER, true, 0, 0, 0},
};

void gs_machine_free(gs_machine *machine) {
    if (!machine)
        return;
    for (size_t i = 0; i < machine->units.count; i++)
        free(machine->units.data[i].name);
    for (size_t i = 0; i < machine->classes.count; i++)
        free(machine->classes.data[i].name);
    free(machine->units.data);
    free(machine->classes.data);
    free(machine->found);
    free(machine);
}

const gs_machine_class *gs_machine_find(const gs_machine *machine, const char *name) {
    for (size_t i = 0; i < machine->classes.count; i++)
        if (strcmp(machine->classes.data[i].name, name) == 0)
            return &machine->classes.data[i];
    return NULL;
}

static int find_unit(const gs_machine *machine, const char *name) {
    for (size_t i = 0; i < machine->units.count; i++)
        if (strcmp(machine->units.data[i].name, name) == 0)
            return (int)i;
    return -1;
}

gs_code gs_fail_no_machine(const gs_gpu *gpu, gs_error *error) {
    return gs_fail(error, GS_E_UNSUPPORTED,
                   "the latencies of %s are not known: measure them (gridsmith probe --latency --device cuda -o FILE), "
                   "and give --latencies FILE",
                   gpu->name);
}

/* ---- reading ---- */

static gs_code read_scope(const gs_json *json, const gs_step *at, gs_unit_scope *scope, gs_error *error) {
    gs_step step = gs_step_key(at, "scope");
    const char *name = json_string_value(step.value);
    for (int i = 0; i < GS_UNIT_SCOPES && name; i++)
        if (strcmp(name, scope_names[i]) == 0) {
            *scope = (gs_unit_scope)i;
            return GS_OK;
        }
    return gs_json_fail(json, &step, false, error, "\"scope\" must be partition, sm or gpu");
}

static gs_code read_unit(const gs_json *json, const gs_step *at, gs_machine *machine, gs_error *error) {
    gs_machine_unit unit = {0};
    gs_code code = gs_json_object(json, at, unit_fields, GS_COUNT(unit_fields), &unit, error);
    if (code == GS_OK)
        code = read_scope(json, at, &unit.scope, error);
    if (code == GS_OK && find_unit(machine, unit.name) >= 0)
        code = gs_json_fail(json, at, false, error, "unit \"%.60s\" is listed twice", unit.name);
    if (code == GS_OK && GS_PUSH(&machine->units, unit))
        return GS_OK;
    free(unit.name);
    return code == GS_OK ? gs_fail_memory(error) : code;
}

static gs_code read_held(const gs_json *json, const gs_step *at, const gs_machine *machine, gs_machine_class *row,
                         gs_error *error) {
    gs_step held = gs_step_key(at, "held_millicycles");
    const char *key;
    json_t *value;
    if (!json_is_object(held.value))
        return gs_json_fail(json, &held, false, error, "\"held_millicycles\" must be an object");
    json_object_foreach(held.value, key, value) {
        gs_step step = gs_step_key(&held, key);
        int unit = find_unit(machine, key);
        if (unit < 0)
            return gs_json_fail(json, &step, true, error, "\"%.60s\" is not one of the units", key);
        gs_code code = gs_json_int(json, &step, 1, MOST_CYCLES, &row->held_millicycles[unit], error);
        if (code != GS_OK)
            return code;
    }
    return GS_OK;
}

static gs_code read_class(const gs_json *json, const gs_step *at, gs_machine *machine, gs_error *error) {
    gs_machine_class row = {0};
    gs_code code = gs_json_object(json, at, class_fields, GS_COUNT(class_fields), &row, error);
    if (code == GS_OK)
        code = read_held(json, at, machine, &row, error);
    if (code == GS_OK && row.loaded_cycles < row.latency_cycles)
        code = gs_json_fail(json, at, false, error, "\"loaded_cycles\" must be at least \"latency_cycles\"");
    if (code == GS_OK && gs_machine_find(machine, row.name))
        code = gs_json_fail(json, at, false, error, "class \"%.60s\" is listed twice", row.name);
    if (code == GS_OK && GS_PUSH(&machine->classes, row))
        return GS_OK;
    free(row.name);
    return code == GS_OK ? gs_fail_memory(error) : code;
}

/* Reads each element of a list with `read`. */
static gs_code read_list(const gs_json *json, const gs_step *at, size_t most, gs_machine *machine,
                         gs_code (*read)(const gs_json *, const gs_step *, gs_machine *, gs_error *), gs_error *error) {
    size_t count = json_array_size(at->value);
    gs_code code = GS_OK;
    if (!count || count > most)
        return gs_json_fail(json, at, false, error, "\"%s\" must be a list of 1 to %zu", at->key, most);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step entry = gs_step_index(at, i);
        code = read(json, &entry, machine, error);
    }
    return code;
}

gs_code gs_machine_read(const gs_json *json, const gs_step *at, gs_machine **made, gs_error *error) {
    gs_machine *machine = calloc(1, sizeof *machine);
    gs_step units = gs_step_key(at, "units"), classes = gs_step_key(at, "classes");
    if (!machine)
        return gs_fail_memory(error);
    gs_code code = gs_json_object(json, at, machine_fields, GS_COUNT(machine_fields), machine, error);
    if (code == GS_OK)
        code = read_list(json, &units, GS_MACHINE_UNITS, machine, read_unit, error);
    if (code == GS_OK)
        code = read_list(json, &classes, MOST_CLASSES, machine, read_class, error);
    if (code == GS_OK)
        *made = machine;
    else
        gs_machine_free(machine);
    return code;
}

gs_machine *gs_machine_input(gs_input *input, gs_error *error) {
    gs_json json;
    gs_machine *machine = NULL;
    if (gs_json_next(input, &json, error) != GS_OK)
        return NULL;
    gs_step root = gs_step_root(&json);
    gs_code code = json.root ? gs_json_schema(&json, &root, SCHEMA, error)
                             : gs_input_fail(input, error, GS_E_FORMAT, "the file holds no latencies");
    if (code == GS_OK)
        code = gs_machine_read(&json, &root, &machine, error);
    if (code == GS_OK)
        code = gs_json_end(input, error);
    gs_json_free(&json);
    if (code == GS_OK)
        return machine;
    gs_machine_free(machine);
    return NULL;
}

gs_machine *gs_machine_open(const char *path, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    gs_machine *machine = input ? gs_machine_input(input, error) : NULL;
    gs_input_close(input);
    return machine;
}

/* ---- writing ---- */

static void write_class(gs_writer *writer, const gs_machine *machine, const gs_machine_class *row) {
    gs_write_object(writer, NULL);
    gs_write_fields(writer, class_fields, GS_COUNT(class_fields), row);
    gs_write_object(writer, "held_millicycles");
    for (size_t i = 0; i < machine->units.count; i++)
        if (row->held_millicycles[i])
            gs_write_int(writer, machine->units.data[i].name, row->held_millicycles[i]);
    gs_write_end(writer);
    gs_write_end(writer);
}

void gs_machine_write(gs_writer *writer, const gs_machine *machine) {
    gs_write_fields(writer, machine_fields, GS_COUNT(machine_fields), machine);
    gs_write_array(writer, "units");
    for (size_t i = 0; i < machine->units.count; i++) {
        gs_write_object(writer, NULL);
        gs_write_string(writer, "name", machine->units.data[i].name);
        gs_write_string(writer, "scope", scope_names[machine->units.data[i].scope]);
        gs_write_end(writer);
    }
    gs_write_end(writer);
    gs_write_array(writer, "classes");
    for (size_t i = 0; i < machine->classes.count; i++)
        write_class(writer, machine, &machine->classes.data[i]);
    gs_write_end(writer);
}

void gs_machine_text(const gs_machine *machine, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, SCHEMA);
    gs_machine_write(&writer, machine);
    gs_write_end(&writer);
}
