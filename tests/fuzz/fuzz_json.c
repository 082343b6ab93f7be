/*
 * fuzz_json.c: any bytes as a file of JSON values. For every value that is accepted, the place in an error about it
 * must be the place of that value.
 */
#include "fuzz.h"

#include "base/base.h"

#include <string.h>

/* The byte of the text at a line and column of the file. */
static size_t offset_of(const gs_json *json, long line, long column) {
    long at_line = json->line, at_column = json->column;
    size_t offset = 0;
    while (offset < json->size && (at_line != line || at_column != column)) {
        at_column = json->text[offset] == '\n' ? 1 : at_column + 1;
        at_line += json->text[offset] == '\n';
        offset++;
    }
    return offset;
}

static void look_up(const gs_json *json, const gs_step *step, int *left) {
    if (--*left < 0)
        return;
    gs_error error;
    gs_json_fail(json, step, false, &error, "here");
    size_t offset = offset_of(json, error.line, error.column);
    json_t *found = json_loadb(json->text + offset, json->size - offset,
                               JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, NULL);
    require(found && json_equal(found, step->value));
    json_decref(found);
    const char *key;
    json_t *value;
    json_object_foreach(step->value, key, value) {
        gs_step member = gs_step_key(step, key);
        look_up(json, &member, left);
    }
    for (size_t i = 0; i < json_array_size(step->value); i++) {
        gs_step member = gs_step_index(step, i);
        look_up(json, &member, left);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    gs_input *input = gs_input_memory("fuzz", (const char *)bytes, count, NULL);
    gs_json json;
    gs_error error;
    while (gs_json_next(input, &json, &error) == GS_OK && json.root) {
        gs_step root = gs_step_root(&json);
        int left = 100;
        look_up(&json, &root, &left);
        gs_json_free(&json);
    }
    gs_input_close(input);
    return 0;
}
