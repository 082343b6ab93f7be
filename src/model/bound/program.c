/*
 * program.c: programs of warps: reading, writing, counting, unrolling.
 *
 * A program is a tree of instructions and repetitions, stored in order; a repetition has the end of its body. Totals
 * are counted on the tree, so 10^9 repetitions take no longer than one. Only the search needs the program unrolled.
 *
 * Sub-blocks, for fairness: each round of an innermost repetition is one. Instructions before the first sub-block
 * belong to it, and others to the sub-block before them. So the final store of the paper's program belongs to the last
 * sub-block, as in Figure 3(a).
 */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TIMES ((int64_t)1000000000000)
enum { MOST_PLACES = 1000000, MOST_LATENCY = 1000000, MOST_NODES = 100000 };

static const gs_field program_fields[] = {
    {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
    {"warps", GS_FIELD_INT64, false, offsetof(gs_program, warps), 1, MOST_TIMES},
    {"sm", GS_FIELD_OTHER, true, 0, 0, 0},
    {"program", GS_FIELD_OTHER, true, 0, 0, 0},
};

static const gs_field sm_fields[] = {
    {"issue", GS_FIELD_INT64, true, offsetof(gs_program, issue), 1, MOST_PLACES},
    {"units", GS_FIELD_OTHER, true, 0, 0, 0},
};

static const gs_field unit_fields[] = {
    {"name", GS_FIELD_NAME, true, offsetof(gs_unit, name), 0, 0},
    {"warps", GS_FIELD_INT64, true, offsetof(gs_unit, warps), 1, MOST_PLACES},
    {"cycles", GS_FIELD_INT64, false, offsetof(gs_unit, cycles), 1, MOST_LATENCY},
};

static const gs_field instruction_fields[] = {
    {"unit", GS_FIELD_OTHER, true, 0, 0, 0},
    {"latency", GS_FIELD_INT64, false, offsetof(gs_node, latency), 1, MOST_LATENCY},
    {"letter", GS_FIELD_OTHER, false, 0, 0, 0},
};

static const gs_field repeat_fields[] = {
    {"repeat", GS_FIELD_OTHER, true, 0, 0, 0},
    {"body", GS_FIELD_OTHER, true, 0, 0, 0},
};

/* ---- making ---- */

static bool add_unit(gs_program *program, const char *name, int64_t warps, int64_t cycles) {
    char *copy = strdup(name);
    if (!copy || !GS_PUSH(&program->units, (gs_unit){copy, warps, cycles})) {
        free(copy);
        return false;
    }
    return true;
}

static bool add_node(gs_program *program, gs_node node) {
    node.end = program->nodes.count + 1;
    return GS_PUSH(&program->nodes, node);
}

static gs_program *program_new(gs_error *error) {
    gs_program *program = calloc(1, sizeof *program);
    if (!program)
        gs_fail_memory(error);
    return program;
}

void gs_program_free(gs_program *program) {
    if (!program)
        return;
    for (size_t i = 0; i < program->units.count; i++)
        free(program->units.data[i].name);
    free(program->units.data);
    free(program->nodes.data);
    free(program);
}

/* C (L L C)+ S, on CUDA cores for two warps and load/store units for one. Three warps may be selected in a cycle: the
   text of the paper says "one or two", but the second cycle of Figure 3(a) shows three. */
gs_program *gs_program_paper(int64_t repetitions, gs_error *error) {
    enum { CUDA, MEMORY };
    if (repetitions < 1 || repetitions > MOST_TIMES) {
        gs_fail(error, GS_E_USAGE, "a sub-block is repeated from 1 to %lld times, not %lld", (long long)MOST_TIMES,
                (long long)repetitions);
        return NULL;
    }
    gs_program *program = program_new(error);
    if (!program)
        return NULL;
    program->issue = 3;
    program->is_paper = true;
    program->repetitions = repetitions;
    bool made = add_unit(program, "cuda", 2, 1) && add_unit(program, "memory", 1, 1) &&
                add_node(program, (gs_node){.unit = CUDA, .letter = 'C', .latency = 1}) &&
                add_node(program, (gs_node){.unit = GS_REPEAT, .times = repetitions}) &&
                add_node(program, (gs_node){.unit = MEMORY, .letter = 'L', .latency = 1}) &&
                add_node(program, (gs_node){.unit = MEMORY, .letter = 'L', .latency = 1}) &&
                add_node(program, (gs_node){.unit = CUDA, .letter = 'C', .latency = 1}) &&
                add_node(program, (gs_node){.unit = MEMORY, .letter = 'S', .latency = 1});
    if (made) {
        program->nodes.data[1].end = 5;
        return program;
    }
    gs_program_free(program);
    gs_fail_memory(error);
    return NULL;
}

gs_program *gs_program_copy(const gs_program *program, gs_error *error) {
    gs_program *copy = program_new(error);
    bool made = copy != NULL;
    for (size_t i = 0; made && i < program->units.count; i++) {
        const gs_unit *unit = &program->units.data[i];
        made = add_unit(copy, unit->name, unit->warps, unit->cycles);
    }
    for (size_t i = 0; made && i < program->nodes.count; i++) {
        made = add_node(copy, program->nodes.data[i]);
        if (made)
            copy->nodes.data[i].end = program->nodes.data[i].end;
    }
    if (!made) {
        gs_program_free(copy);
        gs_fail_memory(error);
        return NULL;
    }
    copy->issue = program->issue;
    copy->warps = program->warps;
    return copy;
}

bool gs_program_same_sm(const gs_program *a, const gs_program *b) {
    if (a->issue != b->issue || a->units.count != b->units.count)
        return false;
    for (size_t i = 0; i < a->units.count; i++) {
        const gs_unit *left = &a->units.data[i], *right = &b->units.data[i];
        if (strcmp(left->name, right->name) != 0 || left->warps != right->warps || left->cycles != right->cycles)
            return false;
    }
    return true;
}

bool gs_program_same(const gs_program *a, const gs_program *b) {
    if (!gs_program_same_sm(a, b) || a->nodes.count != b->nodes.count)
        return false;
    for (size_t i = 0; i < a->nodes.count; i++) {
        const gs_node *left = &a->nodes.data[i], *right = &b->nodes.data[i];
        if (left->unit != right->unit || left->latency != right->latency || left->times != right->times ||
            left->end != right->end)
            return false;
    }
    return true;
}

/* ---- reading ---- */

static int32_t find_unit(const gs_program *program, const char *name) {
    for (size_t i = 0; i < program->units.count; i++)
        if (strcmp(program->units.data[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

static gs_code read_units(const gs_json *json, const gs_step *at, gs_program *program, gs_error *error) {
    gs_code code = GS_OK;
    if (!json_is_array(at->value) || !json_array_size(at->value) || json_array_size(at->value) > GS_MOST_UNITS)
        return gs_json_fail(json, at, false, error, "\"units\" must be a list of 1 to %d classes of units",
                            GS_MOST_UNITS);
    for (size_t i = 0; i < json_array_size(at->value) && code == GS_OK; i++) {
        gs_step step = gs_step_index(at, i);
        gs_unit unit = {.cycles = 1};
        code = gs_json_object(json, &step, unit_fields, GS_COUNT(unit_fields), &unit, error);
        if (code == GS_OK && find_unit(program, unit.name) >= 0)
            code = gs_json_fail(json, &step, false, error, "unit \"%.60s\" is listed twice", unit.name);
        if (code == GS_OK && !add_unit(program, unit.name, unit.warps, unit.cycles))
            code = gs_fail_memory(error);
        free(unit.name);
    }
    return code;
}

static gs_code read_sm(const gs_json *json, const gs_step *at, gs_program *program, gs_error *error) {
    gs_code code = gs_json_object(json, at, sm_fields, GS_COUNT(sm_fields), program, error);
    gs_step units = gs_step_key(at, "units");
    return code == GS_OK ? read_units(json, &units, program, error) : code;
}

static gs_code read_letter(const gs_json *json, const gs_step *at, char *letter, gs_error *error) {
    gs_step step = gs_step_key(at, "letter");
    const char *text = json_string_value(step.value);
    if (!step.value)
        return GS_OK;
    if (!text || text[0] <= ' ' || text[0] > '~' || text[1])
        return gs_json_fail(json, &step, false, error, "\"letter\" must be one visible ASCII character");
    *letter = text[0];
    return GS_OK;
}

static gs_code read_instruction(const gs_json *json, const gs_step *at, gs_program *program, gs_error *error) {
    gs_node node = {.latency = 0};
    gs_code code = gs_json_object(json, at, instruction_fields, GS_COUNT(instruction_fields), &node, error);
    if (code != GS_OK)
        return code;
    gs_step unit = gs_step_key(at, "unit");
    const char *name = json_string_value(unit.value);
    node.unit = name ? find_unit(program, name) : -1;
    if (node.unit < 0)
        return gs_json_fail(json, &unit, false, error, "\"unit\" must name one of the SM's units%s%.60s%s",
                            name ? ", which \"" : "", name ? name : "", name ? "\" is not" : "");
    const gs_unit *of = &program->units.data[node.unit];
    node.letter = of->name[0] > ' ' && of->name[0] <= '~' ? of->name[0] : '?';
    if (!node.latency)
        node.latency = of->cycles;
    if (node.latency < of->cycles)
        return gs_json_fail(json, at, false, error, "\"latency\" must be at least the %lld cycles of unit \"%.60s\"",
                            (long long)of->cycles, of->name);
    code = read_letter(json, at, &node.letter, error);
    return code == GS_OK && !add_node(program, node) ? gs_fail_memory(error) : code;
}

static gs_code read_list(const gs_json *json, const gs_step *at, gs_program *program, gs_error *error);

static gs_code read_repeat(const gs_json *json, const gs_step *at, gs_program *program, gs_error *error) {
    gs_node node = {.unit = GS_REPEAT};
    gs_step times = gs_step_key(at, "repeat"), body = gs_step_key(at, "body");
    gs_code code = gs_json_object(json, at, repeat_fields, GS_COUNT(repeat_fields), NULL, error);
    if (code != GS_OK)
        return code;
    if (!json_is_integer(times.value) || json_integer_value(times.value) < 1 ||
        json_integer_value(times.value) > MOST_TIMES)
        return gs_json_fail(json, &times, false, error,
                            "\"repeat\" must be a whole number from 1 to %lld: a program must end",
                            (long long)MOST_TIMES);
    node.times = json_integer_value(times.value);
    size_t place = program->nodes.count;
    if (!add_node(program, node))
        return gs_fail_memory(error);
    code = read_list(json, &body, program, error);
    program->nodes.data[place].end = program->nodes.count;
    return code;
}

static gs_code read_list(const gs_json *json, const gs_step *at, gs_program *program, gs_error *error) {
    gs_code code = GS_OK;
    if (!json_is_array(at->value) || !json_array_size(at->value))
        return gs_json_fail(json, at, false, error, "\"%s\" must be a list of instructions and repetitions, not empty",
                            at->key);
    for (size_t i = 0; i < json_array_size(at->value) && code == GS_OK; i++) {
        gs_step step = gs_step_index(at, i);
        if (program->nodes.count >= MOST_NODES)
            code = gs_json_fail(json, &step, false, error, "a program has at most %d instructions and repetitions",
                                MOST_NODES);
        else if (json_object_get(step.value, "repeat"))
            code = read_repeat(json, &step, program, error);
        else
            code = read_instruction(json, &step, program, error);
    }
    return code;
}

static gs_program *read_program(const gs_json *json, gs_error *error) {
    gs_program *program = program_new(error);
    if (!program)
        return NULL;
    gs_step root = gs_step_root(json), sm = gs_step_key(&root, "sm"), list = gs_step_key(&root, "program");
    gs_code code = gs_json_schema(json, &root, "gridsmith.program/1", error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, program_fields, GS_COUNT(program_fields), program, error);
    if (code == GS_OK)
        code = read_sm(json, &sm, program, error);
    if (code == GS_OK)
        code = read_list(json, &list, program, error);
    if (code == GS_OK)
        return program;
    gs_program_free(program);
    return NULL;
}

gs_program *gs_program_input(gs_input *input, gs_error *error) {
    gs_json json;
    if (gs_json_next(input, &json, error) != GS_OK)
        return NULL;
    gs_program *program = NULL;
    if (json.root)
        program = read_program(&json, error);
    else
        gs_input_fail(input, error, GS_E_FORMAT, "the file holds no program");
    gs_json_free(&json);
    if (!program || gs_json_end(input, error) == GS_OK)
        return program;
    gs_program_free(program);
    return NULL;
}

gs_program *gs_program_open(const char *path, gs_error *error) {
    gs_input *input = gs_input_open(path, error);
    gs_program *program = input ? gs_program_input(input, error) : NULL;
    gs_input_close(input);
    return program;
}

/* ---- writing ---- */

static void write_nodes(gs_writer *writer, const char *key, const gs_program *program, size_t from, size_t to) {
    gs_write_array(writer, key);
    for (size_t i = from; i < to; i = program->nodes.data[i].end) {
        const gs_node *node = &program->nodes.data[i];
        gs_write_object(writer, NULL);
        if (node->unit == GS_REPEAT) {
            gs_write_int(writer, "repeat", node->times);
            write_nodes(writer, "body", program, i + 1, node->end);
        } else {
            char letter[] = {node->letter, '\0'};
            gs_write_string(writer, "unit", program->units.data[node->unit].name);
            gs_write_int(writer, "latency", node->latency);
            gs_write_string(writer, "letter", letter);
        }
        gs_write_end(writer);
    }
    gs_write_end(writer);
}

static void write_sm(gs_writer *writer, const gs_program *program) {
    gs_write_object(writer, "sm");
    gs_write_int(writer, "issue", program->issue);
    gs_write_array(writer, "units");
    for (size_t i = 0; i < program->units.count; i++) {
        const gs_unit *unit = &program->units.data[i];
        gs_write_object(writer, NULL);
        gs_write_string(writer, "name", unit->name);
        gs_write_int(writer, "warps", unit->warps);
        gs_write_int(writer, "cycles", unit->cycles);
        gs_write_end(writer);
    }
    gs_write_end(writer);
    gs_write_end(writer);
}

void gs_program_text(const gs_program *program, gs_text *text) {
    gs_writer writer = gs_writer_to(text);
    gs_write_document(&writer, "gridsmith.program/1");
    if (program->warps)
        gs_write_int(&writer, "warps", program->warps);
    write_sm(&writer, program);
    write_nodes(&writer, "program", program, 0, program->nodes.count);
    gs_write_end(&writer);
}

/* ---- counting ---- */

static bool add_times(int64_t *sum, int64_t value, int64_t times) {
    return gs_scale(value, times, 1, &value) && gs_plus(sum, value);
}

static bool count_nodes(const gs_program *program, size_t from, size_t to, gs_totals *totals) {
    bool fits = true;
    for (size_t i = from; i < to && fits; i = program->nodes.data[i].end) {
        const gs_node *node = &program->nodes.data[i];
        if (node->unit != GS_REPEAT) {
            totals->instructions++;
            totals->on_unit[node->unit]++;
            fits = gs_plus(&totals->latency, node->latency);
            continue;
        }
        gs_totals body = {0};
        fits = count_nodes(program, i + 1, node->end, &body) &&
               add_times(&totals->instructions, body.instructions, node->times) &&
               add_times(&totals->latency, body.latency, node->times);
        for (size_t unit = 0; unit < program->units.count && fits; unit++)
            fits = add_times(&totals->on_unit[unit], body.on_unit[unit], node->times);
    }
    return fits;
}

gs_code gs_program_totals(const gs_program *program, gs_totals *totals, gs_error *error) {
    *totals = (gs_totals){0};
    return count_nodes(program, 0, program->nodes.count, totals) ? GS_OK : gs_fail_large(error);
}

/* ---- unrolling ---- */

struct unrolling {
    gs_flat *flat;
    int32_t instruction, phase, sub_block;
    bool has_sub_block;
};

static void unroll_instruction(struct unrolling *at, const gs_node *node) {
    gs_flat *flat = at->flat;
    flat->start[at->instruction] = at->phase;
    flat->unit[at->instruction] = (int16_t)node->unit;
    flat->letter[at->instruction] = node->letter;
    flat->sub_block[at->instruction] = at->sub_block;
    for (int64_t i = 0; i < node->latency; i++)
        flat->instruction[at->phase++] = at->instruction;
    at->instruction++;
}

static bool is_innermost(const gs_program *program, size_t repeat) {
    for (size_t i = repeat + 1; i < program->nodes.data[repeat].end; i++)
        if (program->nodes.data[i].unit == GS_REPEAT)
            return false;
    return true;
}

static void unroll_nodes(struct unrolling *at, size_t from, size_t to) {
    const gs_program *program = at->flat->program;
    for (size_t i = from; i < to; i = program->nodes.data[i].end) {
        const gs_node *node = &program->nodes.data[i];
        if (node->unit != GS_REPEAT) {
            unroll_instruction(at, node);
            continue;
        }
        bool innermost = is_innermost(program, i);
        for (int64_t round = 0; round < node->times; round++) {
            if (innermost && at->has_sub_block)
                at->sub_block++;
            at->has_sub_block |= innermost;
            unroll_nodes(at, i + 1, node->end);
        }
    }
}

gs_code gs_flat_make(gs_flat *flat, const gs_program *program, gs_error *error) {
    gs_totals totals;
    *flat = (gs_flat){.program = program};
    gs_code code = gs_program_totals(program, &totals, error);
    if (code != GS_OK)
        return code;
    if (totals.latency > GS_MOST_PHASES)
        return gs_fail(error, GS_E_UNSUPPORTED, "a warp takes %lld cycles alone; the limit of a schedule is %d",
                       (long long)totals.latency, GS_MOST_PHASES);
    size_t instructions = (size_t)totals.instructions;
    flat->instructions = (int32_t)totals.instructions;
    flat->phases = (int32_t)totals.latency;
    flat->start = calloc(instructions, sizeof *flat->start);
    flat->unit = calloc(instructions, sizeof *flat->unit);
    flat->letter = calloc(instructions, sizeof *flat->letter);
    flat->sub_block = calloc(instructions, sizeof *flat->sub_block);
    flat->instruction = calloc((size_t)totals.latency, sizeof *flat->instruction);
    if (!flat->start || !flat->unit || !flat->letter || !flat->sub_block || !flat->instruction) {
        gs_flat_clear(flat);
        return gs_fail_memory(error);
    }
    struct unrolling at = {.flat = flat};
    unroll_nodes(&at, 0, program->nodes.count);
    return GS_OK;
}

void gs_flat_clear(gs_flat *flat) {
    free(flat->start);
    free(flat->unit);
    free(flat->letter);
    free(flat->sub_block);
    free(flat->instruction);
    *flat = (gs_flat){0};
}
