/*
 * writer.c: JSON documents, written value by value into a gs_text.
 *
 * The writer puts commas, quotes and brackets, so that code that writes a document names keys and values and nothing
 * else. Documents have no white space, but for a newline after those that gs_write_document began.
 */
#include "base.h"

#include <math.h>
#include <string.h>

gs_writer gs_writer_to(gs_text *text) {
    return (gs_writer){.text = text};
}

/* What stands before a value: a comma where another one stands before it, and the key. */
static void put_key(gs_writer *writer, const char *key) {
    if (writer->has_sibling)
        gs_text_put(writer->text, ",", 1);
    writer->has_sibling = true;
    if (!key)
        return;
    gs_text_put_json(writer->text, key);
    gs_text_put(writer->text, ":", 1);
}

static void open_bracket(gs_writer *writer, const char *key, const char *opens, char closes) {
    put_key(writer, key);
    gs_text_put(writer->text, opens, 1);
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

void gs_write_int(gs_writer *writer, const char *key, int64_t value) {
    put_key(writer, key);
    gs_text_put_int(writer->text, value);
}

void gs_write_uint(gs_writer *writer, const char *key, uint64_t value) {
    put_key(writer, key);
    if (value <= INT64_MAX)
        gs_text_put_int(writer->text, (int64_t)value);
    else
        gs_text_add(writer->text, "%llu", (unsigned long long)value);
}

/* JSON has no infinities and no NaN. */
void gs_write_real(gs_writer *writer, const char *key, double value, int decimals) {
    if (!isfinite(value)) {
        gs_write_null(writer, key);
        return;
    }
    put_key(writer, key);
    gs_text_add(writer->text, "%.*f", decimals, value);
}

void gs_write_string(gs_writer *writer, const char *key, const char *value) {
    put_key(writer, key);
    gs_text_put_json(writer->text, value);
}

void gs_write_bool(gs_writer *writer, const char *key, bool value) {
    put_key(writer, key);
    gs_text_put(writer->text, value ? "true" : "false", value ? 4 : 5);
}

void gs_write_null(gs_writer *writer, const char *key) {
    put_key(writer, key);
    gs_text_put(writer->text, "null", 4);
}

void gs_write_raw(gs_writer *writer, const char *key, const char *json) {
    put_key(writer, key);
    gs_text_put(writer->text, json, strlen(json));
}
