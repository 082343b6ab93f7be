/*
 * sass_records.c: what a cubin tells the driver of its kernels, in .nv.info and .nv.info.KERNEL. See sass.h.
 *
 * A record has a format (a byte), a code (a byte) and two bytes: a value in formats 1 to 3, in format 4 the number of
 * bytes that follow. Some name places in the code of the kernel, in one of the ways in the table here. A code that is
 * not in it may be such a one, so that the code cannot be moved.
 */
#include "sass.h"

#include <stdlib.h>

enum { FORMAT_BYTES = 4, RECORD_HEAD = 4 };

/* The words of a record that are places in the code. */
typedef enum place_kind {
    NO_PLACE,
    ALL_WORDS,
    FIRST_OF_TWO,
    SECOND_OF_TWO, /* the first one is the kind of a note, and 1 */
    FIRST_OF_FOUR,
    BRANCH_TABLES /* a place, a word, the number of targets, and the targets */
} place_kind;

static const struct {
    uint8_t code;
    place_kind kind;
} places[] = {
    {0x05, NO_PLACE},  {0x0a, NO_PLACE},      {0x0b, NO_PLACE},      {0x0c, NO_PLACE},      {0x0f, NO_PLACE},
    {0x10, NO_PLACE},  {0x11, NO_PLACE},      {0x12, NO_PLACE},      {0x14, NO_PLACE},      {0x17, NO_PLACE},
    {0x1c, ALL_WORDS}, {0x1d, ALL_WORDS},     {0x1e, NO_PLACE},      {0x23, NO_PLACE},      {0x25, ALL_WORDS},
    {0x27, ALL_WORDS}, {0x28, ALL_WORDS},     {0x29, NO_PLACE},      {0x2d, ALL_WORDS},     {0x2e, FIRST_OF_TWO},
    {0x2f, NO_PLACE},  {0x31, ALL_WORDS},     {0x33, NO_PLACE},      {0x34, BRANCH_TABLES}, {0x36, NO_PLACE},
    {0x37, NO_PLACE},  {0x39, FIRST_OF_FOUR}, {0x3b, NO_PLACE},      {0x3d, NO_PLACE},      {0x3f, NO_PLACE},
    {0x41, NO_PLACE},  {0x42, NO_PLACE},      {0x44, FIRST_OF_TWO},  {0x45, NO_PLACE},      {0x46, ALL_WORDS},
    {0x47, ALL_WORDS}, {0x4e, NO_PLACE},      {0x55, SECOND_OF_TWO}, {0x5a, NO_PLACE},
};

gs_code gs_sass_records_read(gs_sass_records *records, const gs_text *bytes, gs_error *error) {
    *records = (gs_sass_records){0};
    gs_text_put(&records->bytes, bytes->data, bytes->count);
    for (size_t at = 0; at < bytes->count;) {
        if (bytes->count - at < RECORD_HEAD)
            return gs_fail(error, GS_E_SYNTAX, "a record about a kernel is cut off");
        const unsigned char *head = (const unsigned char *)bytes->data + at;
        gs_sass_record record = {.format = head[0], .code = head[1], .value = (uint16_t)(head[2] | head[3] << 8)};
        at += RECORD_HEAD;
        if (record.format < 1 || record.format > FORMAT_BYTES)
            return gs_fail(error, GS_E_SYNTAX, "a record about a kernel has the unknown format %d", record.format);
        if (record.format == FORMAT_BYTES) {
            record.at = (uint32_t)at;
            record.count = record.value;
            if (record.count > bytes->count - at)
                return gs_fail(error, GS_E_SYNTAX, "a record about a kernel is cut off");
            at += record.count;
        }
        if (!GS_PUSH(records, record))
            return gs_fail_memory(error);
    }
    return records->bytes.failed ? gs_fail_memory(error) : GS_OK;
}

bool gs_sass_records_write(const gs_sass_records *records, gs_text *into) {
    for (size_t i = 0; i < records->count; i++) {
        const gs_sass_record *record = &records->data[i];
        uint16_t value = record->format == FORMAT_BYTES ? (uint16_t)record->count : record->value;
        char head[RECORD_HEAD] = {(char)record->format, (char)record->code, (char)value, (char)(value >> 8)};
        gs_text_put(into, head, sizeof head);
        if (record->format == FORMAT_BYTES)
            gs_text_put(into, records->bytes.data + record->at, record->count);
    }
    return !into->failed;
}

void gs_sass_records_free(gs_sass_records *records) {
    free(records->data);
    gs_text_free(&records->bytes);
    *records = (gs_sass_records){0};
}

const gs_sass_record *gs_sass_records_find(const gs_sass_records *records, uint8_t code) {
    for (size_t i = 0; i < records->count; i++)
        if (records->data[i].code == code)
            return &records->data[i];
    return NULL;
}

bool gs_sass_records_insert(gs_sass_records *records, size_t place, uint8_t code, const uint32_t *words, size_t count) {
    gs_sass_record record = {
        .format = FORMAT_BYTES, .code = code, .at = (uint32_t)records->bytes.count, .count = (uint32_t)(4 * count)};
    if (!GS_RESERVE(records, 1))
        return false;
    for (size_t i = 0; i < count; i++) {
        char bytes[4] = {(char)words[i], (char)(words[i] >> 8), (char)(words[i] >> 16), (char)(words[i] >> 24)};
        gs_text_put(&records->bytes, bytes, sizeof bytes);
    }
    memmove(records->data + place + 1, records->data + place, (records->count - place) * sizeof record);
    records->data[place] = record;
    records->count++;
    return !records->bytes.failed;
}

void gs_sass_records_three(const gs_sass_records *records, uint8_t code, uint32_t numbers[3]) {
    const gs_sass_record *record = gs_sass_records_find(records, code);
    for (size_t i = 0; i < 3; i++)
        numbers[i] = record && record->count == 12 ? gs_sass_word(&records->bytes, record->at + 4 * i) : 0;
}

bool gs_sass_records_prepend(gs_sass_records *records, size_t place, uint8_t code, uint32_t word) {
    for (size_t i = 0; i < records->count; i++) {
        gs_sass_record old = records->data[i];
        if (old.format != FORMAT_BYTES || old.code != code)
            continue;
        if (old.count + 4 > UINT16_MAX || !gs_sass_records_insert(records, i, code, &word, 1))
            return false;
        gs_sass_record *record = &records->data[i];
        gs_text content = {0};
        gs_text_put(&content, records->bytes.data + old.at, old.count);
        gs_text_put(&records->bytes, content.data, content.count);
        record->count += old.count;
        bool is_well = !content.failed && !records->bytes.failed;
        gs_text_free(&content);
        memmove(record + 1, record + 2, (records->count - i - 2) * sizeof *record);
        records->count--;
        return is_well;
    }
    return gs_sass_records_insert(records, place, code, &word, 1);
}

/* ---- places ---- */

static place_kind kind_of(uint8_t code, bool *is_known) {
    *is_known = true;
    for (size_t i = 0; i < GS_COUNT(places); i++)
        if (places[i].code == code)
            return places[i].kind;
    *is_known = false;
    return NO_PLACE;
}

static bool move_branch_tables(gs_text *words, const gs_sass_record *record, uint32_t bytes) {
    size_t i = 0, count = record->count / 4;
    while (i < count) {
        size_t targets = i + 3 <= count ? gs_sass_word(words, record->at + 4 * (i + 2)) : SIZE_MAX;
        if (i + 3 > count || targets > count - i - 3)
            return false;
        for (size_t k = i; k < i + 3 + targets; k += k == i ? 3 : 1)
            gs_sass_put_word(words, record->at + 4 * k, gs_sass_word(words, record->at + 4 * k) + bytes);
        i += 3 + targets;
    }
    return true;
}

static bool is_place(place_kind kind, size_t i) {
    return kind == ALL_WORDS || (kind == FIRST_OF_TWO && i % 2 == 0) || (kind == SECOND_OF_TWO && i % 2 == 1) ||
           (kind == FIRST_OF_FOUR && i % 4 == 0);
}

static bool move_record(gs_text *words, const gs_sass_record *record, uint32_t bytes) {
    bool is_known;
    place_kind kind = kind_of(record->code, &is_known);
    size_t group = kind == FIRST_OF_FOUR ? 16 : kind == FIRST_OF_TWO || kind == SECOND_OF_TWO ? 8 : 4;
    if (!is_known || (kind != NO_PLACE && record->count % group))
        return false;
    if (kind == BRANCH_TABLES)
        return move_branch_tables(words, record, bytes);
    for (size_t i = 0; kind != NO_PLACE && i < record->count / 4; i++) {
        uint32_t word = gs_sass_word(words, record->at + 4 * i);
        if (is_place(kind, i))
            gs_sass_put_word(words, record->at + 4 * i, word + bytes);
        else if (kind == SECOND_OF_TWO && word != 1)
            return false;
    }
    return true;
}

bool gs_sass_records_move(gs_sass_records *records, uint32_t bytes) {
    for (size_t i = 0; i < records->count; i++)
        if (records->data[i].format == FORMAT_BYTES && !move_record(&records->bytes, &records->data[i], bytes))
            return false;
    return true;
}
