/*
 * json.c: the JSON values of a file, one after the other, and errors with the place of a value.
 *
 * jansson parses, and gives the place of a syntax error, but its values do not know where they were in the text. So the
 * text is kept beside the value. When a value turns out to be wrong, the path to it (a chain of gs_step on the stack)
 * is followed through the text again. That costs time only when there is an error, and needs no second parser: the text
 * is known to be valid JSON by then.
 *
 * A value is cut out of the file by counting brackets. This allows JSON Lines, one pretty-printed object, or any mix.
 * It also refuses input that would take too much memory before jansson sees it: deep nesting, long text, very many
 * brackets. A value takes up to 20 times the memory of its text, so a small gzip file could fill the memory.
 */
#include "input.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_MIB = 128,          /* of the text of a value */
    BYTES_PER_BRACKET = 16,  /* one bracket is allowed for this many bytes of the limit */
    FREE_EXPANSION_MIB = 16, /* of gzip: up to this length, a value may be expanded from any number of bytes */
    MOST_EXPANSION = 100     /* a longer value may be at most this many times as long as its compressed bytes */
};

/* The limit for the text of one value. GRIDSMITH_DOCUMENT_MIB changes it. */
static size_t most_bytes(void) {
    const char *given = getenv("GRIDSMITH_DOCUMENT_MIB");
    long mib = given ? strtol(given, NULL, 10) : 0;
    return (size_t)(mib > 0 && mib <= 1 << 20 ? mib : MOST_MIB) << 20;
}

/* ---- places ---- */

static gs_code fail_at(gs_error *error, gs_code code, const char *file, long line, long column, const char *message) {
    gs_fail(error, code, "%s", message);
    if (error) {
        snprintf(error->file, sizeof error->file, "%s", file);
        error->line = line;
        error->column = column;
    }
    return code;
}

static gs_code fail_at_offset(const gs_json *json, size_t offset, gs_error *error, gs_code code, const char *message) {
    fail_at(error, code, json->file, 0, 0, message);
    gs_error_place(error, json->text, json->size, offset, json->line, json->column);
    return code;
}

/* ---- cutting a value out of the file ---- */

/* The state of the scan for the end of a value. */
struct cut {
    int depth;
    size_t brackets;
    bool in_string, escaped;
    bool is_scalar; /* neither object nor array */
};

/* Scans one byte. True: the value ends with it. */
static bool cut_step(struct cut *cut, int byte) {
    if (cut->escaped)
        cut->escaped = false;
    else if (cut->in_string && byte == '\\')
        cut->escaped = true;
    else if (byte == '"')
        cut->in_string = !cut->in_string;
    else if (!cut->in_string && (byte == '{' || byte == '[')) {
        cut->depth++;
        cut->brackets++;
    } else if (!cut->in_string && (byte == '}' || byte == ']'))
        return --cut->depth <= 0;
    return false;
}

static bool is_space(int byte) {
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static gs_code fail_here(const gs_input *input, gs_error *error, const char *message) {
    return fail_at(error, GS_E_SYNTAX, input->name, input->line, input->column, message);
}

/* Scans up to the end of the value or of the bytes, and advances `*used`. A value that is neither object nor array ends
   before the next white space. */
static enum { MORE, WHOLE, TOO_DEEP } cut_bytes(struct cut *cut, const char *bytes, size_t count, size_t *used) {
    for (; *used < count; ++*used) {
        if (cut->is_scalar && is_space(bytes[*used]))
            return WHOLE;
        bool ends = cut_step(cut, bytes[*used]);
        if (cut->depth > GS_JSON_DEPTH)
            return TOO_DEEP;
        if (ends) {
            ++*used;
            return WHOLE;
        }
        cut->is_scalar = cut->depth == 0;
    }
    return MORE;
}

/* Refuses a value that would take too much memory. `expanded_from`: the bytes of the file it was read from so far. */
static gs_code check_size(const gs_input *input, const struct cut *cut, size_t size, size_t expanded_from, size_t most,
                          gs_error *error) {
    char message[160];
    if (size > most || cut->brackets > most / BYTES_PER_BRACKET) {
        snprintf(message, sizeof message,
                 size > most ? "one JSON value is longer than %zu MiB; GRIDSMITH_DOCUMENT_MIB raises the limit"
                             : "one JSON value has more objects and lists than are allowed in %zu MiB; "
                               "GRIDSMITH_DOCUMENT_MIB raises the limit",
                 most >> 20);
        return fail_here(input, error, message);
    }
    if (size > (size_t)FREE_EXPANSION_MIB << 20 && size / MOST_EXPANSION > expanded_from)
        return fail_here(input, error,
                         "one JSON value is more than 100 times as long as its compressed bytes; "
                         "decompress the file first");
    return GS_OK;
}

/* Reads the bytes of one value into `text`. */
static gs_code cut_value(gs_input *input, gs_text *text, gs_error *error) {
    struct cut cut = {0};
    size_t most = most_bytes();
    for (;;) {
        int more = gs_input_look(input, error);
        if (more == GS_INPUT_FAILED)
            return error ? error->code : GS_E_IO;
        if (more == GS_INPUT_END)
            return cut.is_scalar ? GS_OK : fail_here(input, error, "the text ends in the middle of a JSON value");
        size_t used = 0;
        int state = cut_bytes(&cut, input->bytes + input->at, input->count - input->at, &used);
        gs_text_put(text, input->bytes + input->at, used);
        gs_input_take(input, used);
        if (text->failed)
            return gs_fail_memory(error);
        if (state == TOO_DEEP)
            return fail_here(input, error, "brackets are nested too deep; no Gridsmith file needs more than 16 levels");
        gs_code code = check_size(input, &cut, text->count, gs_input_bytes_read(input), most, error);
        if (code != GS_OK || state == WHOLE)
            return code;
    }
}

/* Skips white space, but not gigabytes of it from a small file. Returns what gs_input_look does. */
static int skip_to_value(gs_input *input, gs_error *error) {
    int more;
    while ((more = gs_input_look(input, error)) == 1) {
        size_t count = input->count - input->at, blank = 0;
        while (blank < count && is_space(input->bytes[input->at + blank]))
            blank++;
        gs_input_take(input, blank);
        if (blank < count)
            return 1;
        if (gs_input_check_expansion(input, error) != GS_OK)
            return GS_INPUT_FAILED;
    }
    return more;
}

/* The first byte of the word that the problem names ("... near 'tru'"). Jansson's position is behind it. */
static size_t word_begin(const gs_json *json, const json_error_t *problem) {
    size_t end = gs_min_u64(problem->position > 0 ? (size_t)problem->position : 0, json->size);
    const char *near = strstr(problem->text, " near '"), *word = near ? near + strlen(" near '") : NULL;
    const char *quote = word ? strrchr(word, '\'') : NULL;
    size_t length = quote ? (size_t)(quote - word) : 0;
    if (length && length <= end && memcmp(json->text + end - length, word, length) == 0)
        return end - length;
    return end ? end - 1 : 0;
}

static gs_code parse_value(gs_json *json, gs_error *error) {
    json_error_t problem;
    json->root = json_loadb(json->text, json->size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (json->root)
        return GS_OK;
    if (json_error_code(&problem) == json_error_out_of_memory)
        return gs_fail_memory(error);
    char message[300];
    snprintf(message, sizeof message, "not valid JSON: %s", problem.text);
    return fail_at_offset(json, word_begin(json, &problem), error, GS_E_SYNTAX, message);
}

gs_code gs_json_next(gs_input *input, gs_json *json, gs_error *error) {
    *json = (gs_json){0};
    int more = skip_to_value(input, error);
    if (more == GS_INPUT_FAILED)
        return error ? error->code : GS_E_IO;
    if (more == GS_INPUT_END) {
        if (error)
            *error = (gs_error){.code = GS_OK};
        return GS_OK;
    }
    json->line = input->line;
    json->column = input->column;
    json->file = strdup(input->name);
    if (!json->file)
        return gs_fail_memory(error);
    gs_text text = {0};
    gs_code code = cut_value(input, &text, error);
    json->text = text.data;
    json->size = text.count;
    if (code == GS_OK)
        code = parse_value(json, error);
    if (code != GS_OK)
        gs_json_free(json);
    return code;
}

gs_code gs_json_end(gs_input *input, gs_error *error) {
    gs_json more;
    gs_code code = gs_json_next(input, &more, error);
    if (code == GS_OK && more.root)
        code = gs_json_fail(&more, &(gs_step){0}, false, error, "the file must hold one JSON object, but more follows");
    gs_json_free(&more);
    return code;
}

void gs_json_free(gs_json *json) {
    json_decref(json->root);
    free(json->text);
    free(json->file);
    *json = (gs_json){0};
}

/* ---- the place of a value in the text ---- */

static size_t skip_space(const gs_json *json, size_t at) {
    while (at < json->size && is_space(json->text[at]))
        at++;
    return at;
}

/* The first byte after the value that begins at `at`. */
static size_t skip_value(const gs_json *json, size_t at) {
    struct cut cut = {0};
    for (; at < json->size; at++) {
        int byte = json->text[at];
        bool was_string = cut.in_string;
        if (cut.depth == 0 && !was_string && (byte == ',' || byte == ':' || byte == '}' || byte == ']'))
            return at;
        if (cut_step(&cut, byte) || (cut.depth == 0 && was_string && !cut.in_string))
            return at + 1;
    }
    return at;
}

static bool key_is(const gs_json *json, size_t from, size_t to, const char *wanted) {
    json_t *key = json_loadb(json->text + from, to - from, JSON_DECODE_ANY, NULL);
    bool same = key && json_is_string(key) && strcmp(json_string_value(key), wanted) == 0;
    json_decref(key);
    return same;
}

/* From the bracket of an object or array to the member that `step` names. With `at_key`, to its key. */
static size_t find_member(const gs_json *json, size_t at, const gs_step *step, bool at_key) {
    at = skip_space(json, at + 1);
    for (size_t index = 0; at < json->size; index++) {
        if (step->key) {
            size_t key = at, end = skip_value(json, at);
            at = skip_space(json, skip_space(json, end) + 1);
            if (key_is(json, key, end, step->key))
                return at_key ? key : at;
        } else if (index == step->index) {
            return at;
        }
        at = skip_space(json, skip_space(json, skip_value(json, at)) + 1);
    }
    return json->size;
}

static size_t find_value(const gs_json *json, const gs_step *step, bool at_key) {
    if (!step->up)
        return 0;
    return find_member(json, find_value(json, step->up, false), step, at_key);
}

gs_step gs_step_root(const gs_json *json) {
    return (gs_step){.value = json->root};
}

gs_step gs_step_key(const gs_step *up, const char *key) {
    return (gs_step){.up = up, .key = key, .value = json_object_get(up->value, key)};
}

gs_step gs_step_index(const gs_step *up, size_t index) {
    return (gs_step){.up = up, .index = index, .value = json_array_get(up->value, index)};
}

gs_code gs_json_fail(const gs_json *json, const gs_step *at, bool at_key, gs_error *error, const char *format, ...) {
    char message[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (!json->text)
        return gs_fail(error, GS_E_FORMAT, "%s", message);
    return fail_at_offset(json, find_value(json, at, at_key), error, GS_E_FORMAT, message);
}

/* ---- reading objects by a table ---- */

static const char *type_name(const json_t *value) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string", [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a fraction",  [JSON_TRUE] = "true",      [JSON_FALSE] = "false",     [JSON_NULL] = "null"};
    return value ? names[json_typeof(value)] : "nothing";
}

static const char *name_of(const gs_step *at) {
    while (!at->key && at->up)
        at = at->up;
    return at->key ? at->key : "the value";
}

gs_code gs_json_int(const gs_json *json, const gs_step *at, int64_t least, int64_t most, int64_t *value,
                    gs_error *error) {
    if (!json_is_integer(at->value))
        return gs_json_fail(json, at, false, error, "\"%s\" must be a whole number from %lld to %lld, not %s",
                            name_of(at), (long long)least, (long long)most, type_name(at->value));
    *value = json_integer_value(at->value);
    if (*value < least || *value > most)
        return gs_json_fail(json, at, false, error, "\"%s\" must be from %lld to %lld, not %lld", name_of(at),
                            (long long)least, (long long)most, (long long)*value);
    return GS_OK;
}

static gs_code read_name(const gs_json *json, const gs_step *at, char **name, gs_error *error) {
    if (!json_is_string(at->value))
        return gs_json_fail(json, at, false, error, "\"%s\" must be a string, not %s", name_of(at),
                            type_name(at->value));
    if (!json_string_length(at->value))
        return gs_json_fail(json, at, false, error, "\"%s\" must not be empty", name_of(at));
    free(*name);
    *name = strdup(json_string_value(at->value));
    return *name ? GS_OK : gs_fail_memory(error);
}

static gs_code read_duration(const gs_json *json, const gs_step *at, const gs_field *field, int64_t *nanoseconds,
                             gs_error *error) {
    if (!json_is_number(at->value))
        return gs_json_fail(json, at, false, error, "\"%s\" must be a number of microseconds, not %s", name_of(at),
                            type_name(at->value));
    double value = json_number_value(at->value) * 1000.0;
    if (!(value >= (double)field->least && value <= (double)field->most))
        return gs_json_fail(json, at, false, error, "\"%s\" must be from %g to %g microseconds", name_of(at),
                            (double)field->least / 1000.0, (double)field->most / 1000.0);
    *nanoseconds = json_is_integer(at->value) ? json_integer_value(at->value) * 1000 : (int64_t)(value + 0.5);
    return GS_OK;
}

static gs_code read_three(const gs_json *json, const gs_step *at, const gs_field *field, int32_t *numbers,
                          gs_error *error) {
    if (json_array_size(at->value) != 3)
        return gs_json_fail(json, at, false, error, "\"%s\" must be a list of three whole numbers", name_of(at));
    for (size_t i = 0; i < 3; i++) {
        gs_step step = gs_step_index(at, i);
        int64_t value;
        gs_code code = gs_json_int(json, &step, field->least, field->most, &value, error);
        if (code != GS_OK)
            return code;
        numbers[i] = (int32_t)value;
    }
    return GS_OK;
}

static gs_code read_bool(const gs_json *json, const gs_step *at, int32_t *flag, gs_error *error) {
    if (!json_is_boolean(at->value))
        return gs_json_fail(json, at, false, error, "\"%s\" must be true or false, not %s", name_of(at),
                            type_name(at->value));
    *flag = json_is_true(at->value);
    return GS_OK;
}

static gs_code read_field(const gs_json *json, const gs_step *at, const gs_field *field, char *into, gs_error *error) {
    int64_t value = 0;
    gs_code code = GS_OK;
    switch (field->type) {
    case GS_FIELD_INT32:
    case GS_FIELD_INT64:
        code = gs_json_int(json, at, field->least, field->most, &value, error);
        if (code == GS_OK && field->type == GS_FIELD_INT32)
            *(int32_t *)(void *)(into + field->offset) = (int32_t)value;
        else if (code == GS_OK)
            *(int64_t *)(void *)(into + field->offset) = value;
        return code;
    case GS_FIELD_NAME:
        return read_name(json, at, (char **)(void *)(into + field->offset), error);
    case GS_FIELD_DURATION:
        return read_duration(json, at, field, (int64_t *)(void *)(into + field->offset), error);
    case GS_FIELD_THREE:
        return read_three(json, at, field, (int32_t *)(void *)(into + field->offset), error);
    case GS_FIELD_BOOL:
        return read_bool(json, at, (int32_t *)(void *)(into + field->offset), error);
    case GS_FIELD_OTHER:
        break;
    }
    return GS_OK;
}

/* Names the key that was meant, or else all keys. */
static gs_code fail_unknown(const gs_json *json, const gs_step *step, const gs_field *fields, size_t count,
                            gs_error *error) {
    gs_text known = {0};
    gs_similar similar = {.word = step->key};
    for (size_t i = 0; i < count; i++) {
        gs_text_add(&known, "%s%s", i ? ", " : "; known here: ", fields[i].key);
        gs_similar_try(&similar, fields[i].key);
    }
    gs_json_fail(json, step, true, error, "unknown key \"%.60s\"%s", step->key,
                 similar.name ? gs_similar_words(&similar)
                 : known.data ? known.data
                              : "");
    gs_text_free(&known);
    return GS_E_FORMAT;
}

static gs_code refuse_unknown(const gs_json *json, const gs_step *at, const gs_field *fields, size_t count,
                              gs_error *error) {
    const char *key;
    json_t *value;
    json_object_foreach(at->value, key, value) {
        size_t i = 0;
        while (i < count && strcmp(fields[i].key, key) != 0)
            i++;
        if (i < count)
            continue;
        gs_step step = gs_step_key(at, key);
        return fail_unknown(json, &step, fields, count, error);
    }
    return GS_OK;
}

gs_code gs_json_object(const gs_json *json, const gs_step *at, const gs_field *fields, size_t count, void *into,
                       gs_error *error) {
    if (!json_is_object(at->value))
        return gs_json_fail(json, at, false, error, "%s must be an object, not %s", name_of(at), type_name(at->value));
    gs_code code = refuse_unknown(json, at, fields, count, error);
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step step = gs_step_key(at, fields[i].key);
        if (step.value)
            code = read_field(json, &step, &fields[i], into, error);
        else if (fields[i].required)
            code = gs_json_fail(json, at, false, error, "\"%s\" is missing", fields[i].key);
    }
    return code;
}

gs_code gs_json_schema(const gs_json *json, const gs_step *at, const char *wanted, gs_error *error) {
    if (!json_is_object(at->value))
        return gs_json_fail(json, at, false, error, "expected an object with \"schema\": \"%s\", not %s", wanted,
                            type_name(at->value));
    gs_step schema = gs_step_key(at, "schema");
    if (!schema.value)
        return gs_json_fail(json, at, false, error, "\"schema\": \"%s\" is missing", wanted);
    const char *found = json_string_value(schema.value);
    if (!found || strcmp(found, wanted) != 0)
        return gs_json_fail(json, &schema, false, error, "\"schema\" must be \"%s\", not \"%.60s\"", wanted,
                            found ? found : type_name(schema.value));
    return GS_OK;
}
