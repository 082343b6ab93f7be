/*
 * lines.c: launches, copies and memsets from the lines of a recorded program, without a JSON library.
 *
 * A recording has a line for each launch, and may have a million of them. Nearly all lines look alike: the keys of
 * event_fields.c, plain strings, whole numbers, decimals, short lists. This reader accepts exactly those. If a line has
 * anything else (an escape in a string, a nested object, an unknown or a repeated key, a value out of range), the
 * reader gives up before it has changed the run. Then read.c reads the line again, and accepts it or says what is wrong
 * and where. So there is one definition of the format, and the fast reader never reports an error.
 *
 * Keys are expected in the order in which they are written: the search for a key starts where the last one was found.
 */
#include "event_fields.h"

/* The unread rest of a line. */
struct cursor {
    const char *at, *end;
};

/* An event while it is read. */
struct line {
    gs_run *run;
    uint32_t place;
    bool is_read;
    const gs_field_table *table;
    char *into;
    gs_issue *issue;
    char **stream;
    bool *stream_is_number;
    uint8_t *kind;
    uint64_t found; /* a bit for each field of the table */
    size_t next;    /* the field that is expected next */
    struct cursor after;
};

/* ---- tokens ---- */

static void skip_space(struct cursor *cursor) {
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t' || *cursor->at == '\r'))
        cursor->at++;
}

static bool take_char(struct cursor *cursor, char wanted) {
    skip_space(cursor);
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

/* A string of plain characters: no escapes, no control characters, ASCII only. */
static bool take_string(struct cursor *cursor, struct cursor *string) {
    if (!take_char(cursor, '"'))
        return false;
    string->at = cursor->at;
    while (cursor->at < cursor->end && *cursor->at != '"') {
        unsigned char byte = (unsigned char)*cursor->at;
        if (byte < 0x20 || byte >= 0x7f || byte == '\\')
            return false;
        cursor->at++;
    }
    string->end = cursor->at;
    return take_char(cursor, '"');
}

static bool is_digit(const struct cursor *cursor) {
    return cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9';
}

/* At most 18 digits, without leading zeros. */
static bool take_digits(struct cursor *cursor, int64_t *value) {
    const char *first = cursor->at;
    *value = 0;
    for (; is_digit(cursor); cursor->at++) {
        if (cursor->at - first == 18)
            return false;
        *value = *value * 10 + (*cursor->at - '0');
    }
    return cursor->at > first && (*first != '0' || cursor->at - first == 1);
}

/* Whether a number ends here: the next byte is not part of one. */
static bool number_ends(const struct cursor *cursor) {
    return cursor->at < cursor->end && *cursor->at != '.' && *cursor->at != 'e' && *cursor->at != 'E';
}

static bool take_int(struct cursor *cursor, int64_t *value) {
    skip_space(cursor);
    bool is_negative = cursor->at < cursor->end && *cursor->at == '-';
    cursor->at += is_negative;
    if (!take_digits(cursor, value) || !number_ends(cursor))
        return false;
    *value = is_negative ? -*value : *value;
    return true;
}

/* Microseconds with up to three decimals, into nanoseconds. */
static bool take_us(struct cursor *cursor, int64_t *nanoseconds) {
    int64_t decimals = 0, scale = 1000;
    skip_space(cursor);
    if (!take_digits(cursor, nanoseconds) || *nanoseconds > INT64_MAX / 1000)
        return false;
    if (cursor->at < cursor->end && *cursor->at == '.') {
        for (cursor->at++; is_digit(cursor) && scale > 1; cursor->at++) {
            decimals = decimals * 10 + (*cursor->at - '0');
            scale /= 10;
        }
        if (scale == 1000 || is_digit(cursor))
            return false;
    }
    *nanoseconds = *nanoseconds * 1000 + decimals * scale;
    return number_ends(cursor);
}

static bool string_equals(const struct cursor *string, const char *wanted) {
    size_t length = strlen(wanted);
    return (size_t)(string->end - string->at) == length && memcmp(string->at, wanted, length) == 0;
}

/* ---- fields ---- */

static bool is_within(const gs_field *field, int64_t value) {
    return value >= field->least && value <= field->most;
}

static bool take_three(struct cursor *cursor, const gs_field *field, int32_t *numbers) {
    if (!take_char(cursor, '['))
        return false;
    for (int i = 0; i < 3; i++) {
        int64_t value;
        if ((i && !take_char(cursor, ',')) || !take_int(cursor, &value) || !is_within(field, value))
            return false;
        numbers[i] = (int32_t)value;
    }
    return take_char(cursor, ']');
}

static bool take_name(struct line *line, struct cursor *cursor, char **name) {
    struct cursor string;
    if (!take_string(cursor, &string) || string.at == string.end)
        return false;
    *name = gs_strings_add(&line->run->strings, string.at, (size_t)(string.end - string.at));
    return *name != NULL;
}

/* A number or a name. Names that are not empty, and numbers as they are printed, are stored as text. */
static bool take_label(struct line *line, struct cursor *cursor, char **label, bool *is_number) {
    int64_t number;
    skip_space(cursor);
    if (cursor->at < cursor->end && *cursor->at == '"')
        return take_name(line, cursor, label);
    const char *first = cursor->at;
    if (!take_int(cursor, &number) || (number == 0 && *first == '-'))
        return false;
    *is_number = true;
    *label = gs_strings_add(&line->run->strings, first, (size_t)(cursor->at - first));
    return *label != NULL;
}

/* Skips a list of numbers and names, which is read when the event is known to be good. */
static bool skip_list(struct cursor *cursor) {
    if (!take_char(cursor, '['))
        return false;
    if (take_char(cursor, ']'))
        return true;
    do {
        struct cursor string;
        int64_t number;
        skip_space(cursor);
        bool is_string = cursor->at < cursor->end && *cursor->at == '"';
        const char *first = cursor->at;
        if (is_string ? !take_string(cursor, &string) || string.at == string.end
                      : !take_int(cursor, &number) || (number == 0 && *first == '-'))
            return false;
    } while (take_char(cursor, ','));
    return take_char(cursor, ']');
}

static bool take_kind(struct line *line, struct cursor *cursor) {
    struct cursor string;
    if (!line->kind || !take_string(cursor, &string))
        return false;
    for (int kind = GS_COPY_UNKNOWN + 1; kind < GS_COPY_KINDS; kind++)
        if (string_equals(&string, gs_copy_kind_name((gs_copy_kind)kind))) {
            *line->kind = (uint8_t)kind;
            return true;
        }
    return false;
}

/* Reads the keys that the tables leave to other code (GS_FIELD_OTHER). Lists of blocks are not read here. */
static bool take_other(struct line *line, struct cursor *cursor, const char *key) {
    if (strcmp(key, "stream") == 0)
        return take_label(line, cursor, line->stream, line->stream_is_number);
    if (strcmp(key, "id") == 0)
        return take_label(line, cursor, &line->issue->id, &line->issue->id_is_number);
    if (strcmp(key, "kind") == 0)
        return take_kind(line, cursor);
    if (strcmp(key, "after") != 0)
        return false;
    skip_space(cursor);
    line->after.at = cursor->at;
    bool is_list = skip_list(cursor);
    line->after.end = cursor->at;
    return is_list;
}

static bool take_field(struct line *line, struct cursor *cursor, const gs_field *field) {
    char *into = line->into + field->offset;
    int64_t value;
    switch (field->type) {
    case GS_FIELD_INT32:
    case GS_FIELD_INT64:
        if (!take_int(cursor, &value) || !is_within(field, value))
            return false;
        if (field->type == GS_FIELD_INT32)
            *(int32_t *)(void *)into = (int32_t)value;
        else
            *(int64_t *)(void *)into = value;
        return true;
    case GS_FIELD_DURATION:
        return take_us(cursor, (int64_t *)(void *)into) && is_within(field, *(int64_t *)(void *)into);
    case GS_FIELD_NAME:
        return take_name(line, cursor, (char **)(void *)into);
    case GS_FIELD_THREE:
        return take_three(cursor, field, (int32_t *)(void *)into);
    case GS_FIELD_BOOL:
        return false;
    case GS_FIELD_OTHER:
        return take_other(line, cursor, field->key);
    }
    return false;
}

/* The field of a key. NULL: the key is unknown, or repeated. */
static const gs_field *find_field(struct line *line, const struct cursor *key) {
    const gs_field_table *table = line->table;
    for (size_t i = 0; i < table->count; i++) {
        size_t at = line->next + i < table->count ? line->next + i : line->next + i - table->count;
        if (!string_equals(key, table->data[at].key))
            continue;
        if (line->found >> at & 1)
            return NULL;
        line->found |= (uint64_t)1 << at;
        line->next = at + 1 == table->count ? 0 : at + 1;
        return &table->data[at];
    }
    return NULL;
}

static bool has_required(const struct line *line) {
    for (size_t i = 1; i < line->table->count; i++)
        if (line->table->data[i].required && !(line->found >> i & 1))
            return false;
    return true;
}

/* Reads the fields after "op" to the end of the line. */
static bool take_fields(struct line *line, struct cursor *cursor) {
    line->found = line->next = 1; /* "op" comes first in each table */
    while (take_char(cursor, ',')) {
        struct cursor key;
        if (!take_string(cursor, &key) || !take_char(cursor, ':'))
            return false;
        const gs_field *field = find_field(line, &key);
        if (!field || !take_field(line, cursor, field))
            return false;
    }
    if (!take_char(cursor, '}'))
        return false;
    skip_space(cursor);
    return cursor->at == cursor->end && has_required(line);
}

/* ---- events ---- */

static bool is_new(const gs_run *run, const char *id) {
    return gs_names_find(&run->ids, id) == SIZE_MAX;
}

/* Adds the ids in the list at "after", which was checked. */
static gs_code want_all(struct line *line, gs_issue *issue, gs_wanted *wanted, gs_error *error) {
    struct cursor cursor = line->after;
    gs_code code = GS_OK;
    if (!cursor.at || !take_char(&cursor, '[') || take_char(&cursor, ']'))
        return GS_OK;
    do {
        char *label = NULL;
        bool is_number;
        code = take_label(line, &cursor, &label, &is_number)
                   ? gs_run_want(line->run, wanted, issue, label, GS_AT_END, error)
                   : gs_fail_memory(error);
    } while (code == GS_OK && take_char(&cursor, ','));
    return code;
}

static gs_code read_launch(struct line *line, struct cursor *cursor, gs_wanted *wanted, gs_error *error) {
    gs_launch_parts parts = gs_launch_parts_none();
    gs_run *run = line->run;
    line->table = &gs_launch_fields;
    line->into = (char *)&parts;
    line->issue = &parts.launch.issue;
    line->stream = &parts.launch.stream;
    line->stream_is_number = &parts.launch.stream_is_number;
    if (!take_fields(line, cursor) || parts.launch.blocks % parts.launch.cluster ||
        !is_new(run, parts.launch.issue.id ? parts.launch.issue.id : parts.launch.kernel))
        return GS_OK;
    line->is_read = true;
    parts.launch.issue.facts = &parts.facts;
    gs_code code = gs_run_copy_launch(run, &parts.launch, error);
    if (code != GS_OK)
        return code;
    run->events.data[run->events.count - 1].place = line->place;
    return want_all(line, &run->launches.data[run->launches.count - 1].issue, wanted, error);
}

static gs_code read_copy(struct line *line, struct cursor *cursor, bool is_memset, gs_wanted *wanted, gs_error *error) {
    gs_copy_parts parts = gs_copy_parts_none();
    gs_run *run = line->run;
    line->table = is_memset ? &gs_memset_fields : &gs_copy_fields;
    line->into = (char *)&parts;
    line->issue = &parts.copy.issue;
    line->stream = &parts.copy.stream;
    line->stream_is_number = &parts.copy.stream_is_number;
    line->kind = &parts.copy.kind;
    if (!take_fields(line, cursor) || (parts.copy.issue.id && !is_new(run, parts.copy.issue.id)))
        return GS_OK;
    line->is_read = true;
    parts.copy.is_memset = is_memset;
    parts.copy.place = line->place;
    parts.copy.issue.facts = &parts.facts;
    gs_code code = gs_run_add_copy(run, &parts.copy, error);
    return code == GS_OK ? want_all(line, &run->copies.data[run->copies.count - 1].issue, wanted, error) : code;
}

gs_code gs_run_read_line(gs_run *run, const char *bytes, size_t length, uint32_t place, gs_wanted *wanted,
                         bool *is_read, gs_error *error) {
    struct cursor cursor = {bytes, bytes + length}, key, op;
    struct line line = {.run = run, .place = place};
    gs_code code = GS_OK;
    *is_read = false;
    if (run->has_ended || !take_char(&cursor, '{') || !take_string(&cursor, &key) || !string_equals(&key, "op") ||
        !take_char(&cursor, ':') || !take_string(&cursor, &op))
        return GS_OK;
    bool is_memset = string_equals(&op, "memset");
    if (string_equals(&op, "launch"))
        code = read_launch(&line, &cursor, wanted, error);
    else if (is_memset || string_equals(&op, "copy"))
        code = read_copy(&line, &cursor, is_memset, wanted, error);
    *is_read = line.is_read;
    return code;
}
