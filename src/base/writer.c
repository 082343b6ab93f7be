/*
 * writer.c: JSON documents, written value by value into a gs_text.
 *
 * The writer puts commas, quotes and brackets; callers only name keys and values. Documents have no white space except
 * the newline that gs_write_finish puts at their end. Calls that would produce invalid JSON (a key in an array, a
 * member without a key, an end without a beginning) set `failed` of the text, as a failed allocation does.
 */
#include "base.h"

#include <math.h>
#include <string.h>

gs_writer gs_writer_to(gs_text *text) {
    text->columns = 0; /* JSON is never folded */
    return (gs_writer){.text = text};
}

static bool may_stand_here(const gs_writer *writer, const char *key) {
    if (!writer->depth)
        return !key && !writer->has_sibling;
    return (writer->closers[writer->depth - 1] == '}') == (key != NULL);
}

/* Whether the next value is an element of an array, but not the first: then it only needs a comma. Most of what is
   written is such numbers and nulls, so they are put together with their comma in one call. */
static bool is_further_element(const gs_writer *writer, const char *key) {
    return !key && writer->has_sibling && writer->depth && writer->closers[writer->depth - 1] == ']';
}

/* Puts a comma, unless the value is the first, and the key. */
static void put_key(gs_writer *writer, const char *key) {
    if (!may_stand_here(writer, key))
        writer->text->failed = true;
    if (writer->has_sibling)
        gs_text_put(writer->text, ",", 1);
    writer->has_sibling = true;
    if (!key)
        return;
    gs_text_put_json(writer->text, key);
    gs_text_put(writer->text, ":", 1);
}

static void put_value(gs_writer *writer, const char *key, const char *json, size_t length) {
    put_key(writer, key);
    gs_text_put(writer->text, json, length);
}

/* ---- objects and arrays ---- */

static void open_bracket(gs_writer *writer, const char *key, const char *opens, char closes) {
    put_value(writer, key, opens, 1);
    writer->has_sibling = false;
    if (writer->depth < GS_JSON_DEPTH)
        writer->closers[writer->depth++] = closes;
    else
        writer->text->failed = true;
}

void gs_write_object(gs_writer *writer, const char *key) {
    open_bracket(writer, key, "{", '}');
}

void gs_write_array(gs_writer *writer, const char *key) {
    open_bracket(writer, key, "[", ']');
}

void gs_write_end(gs_writer *writer) {
    if (writer->depth)
        gs_text_put(writer->text, &writer->closers[--writer->depth], 1);
    else
        writer->text->failed = true;
    writer->has_sibling = true;
}

void gs_write_document(gs_writer *writer, const char *schema) {
    gs_write_object(writer, NULL);
    gs_write_string(writer, "schema", schema);
}

void gs_write_finish(gs_writer *writer) {
    while (writer->depth)
        gs_write_end(writer);
    gs_text_put(writer->text, "\n", 1);
    writer->has_sibling = false;
}

/* ---- values ---- */

static void put_number(gs_writer *writer, const char *key, bool is_negative, uint64_t rest) {
    char digits[24];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (is_negative)
        digits[--at] = '-';
    if (is_further_element(writer, key))
        digits[--at] = ',';
    else
        put_key(writer, key);
    gs_text_put(writer->text, digits + at, sizeof digits - at);
}

void gs_write_int(gs_writer *writer, const char *key, int64_t value) {
    put_number(writer, key, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void gs_write_uint(gs_writer *writer, const char *key, uint64_t value) {
    put_number(writer, key, false, value);
}

void gs_write_real(gs_writer *writer, const char *key, double value, int decimals) {
    if (!isfinite(value)) {
        gs_write_null(writer, key);
        return;
    }
    put_key(writer, key);
    gs_text_add(writer->text, "%.*f", decimals, value);
}

void gs_write_us(gs_writer *writer, const char *key, int64_t nanoseconds) {
    int rest = (int)(nanoseconds % 1000);
    if (!rest) {
        gs_write_int(writer, key, nanoseconds / 1000);
        return;
    }
    char decimals[8];
    int length = snprintf(decimals, sizeof decimals, ".%03d", rest < 0 ? -rest : rest);
    while (decimals[length - 1] == '0')
        length--;
    put_number(writer, key, nanoseconds < 0, (uint64_t)(nanoseconds < 0 ? -(nanoseconds / 1000) : nanoseconds / 1000));
    gs_text_put(writer->text, decimals, (size_t)length);
}

void gs_write_string(gs_writer *writer, const char *key, const char *value) {
    if (!value) {
        gs_write_null(writer, key);
        return;
    }
    put_key(writer, key);
    gs_text_put_json(writer->text, value);
}

void gs_write_optional(gs_writer *writer, const char *key, const char *value) {
    if (value)
        gs_write_string(writer, key, value);
}

void gs_write_bool(gs_writer *writer, const char *key, bool value) {
    put_value(writer, key, value ? "true" : "false", value ? 4 : 5);
}

void gs_write_null(gs_writer *writer, const char *key) {
    if (is_further_element(writer, key))
        gs_text_put(writer->text, ",null", 5);
    else
        put_value(writer, key, "null", 4);
}

void gs_write_fields(gs_writer *writer, const gs_field *fields, size_t count, const void *from) {
    for (size_t i = 0; i < count; i++) {
        const void *at = (const char *)from + fields[i].offset;
        gs_field_type type = fields[i].type;
        int64_t number = type == GS_FIELD_INT64                            ? *(const int64_t *)at
                         : type == GS_FIELD_INT32 || type == GS_FIELD_BOOL ? *(const int32_t *)at
                                                                           : 0;
        const char *name = type == GS_FIELD_NAME ? *(char *const *)at : NULL;
        if (type == GS_FIELD_OTHER || (!fields[i].required && !number && !name))
            continue;
        if (name)
            gs_write_string(writer, fields[i].key, name);
        else if (type == GS_FIELD_BOOL)
            gs_write_bool(writer, fields[i].key, number != 0);
        else
            gs_write_int(writer, fields[i].key, number);
    }
}

void gs_write_raw(gs_writer *writer, const char *key, const char *json) {
    put_value(writer, key, json, strlen(json));
}
