/*
 * ptx_fatbin.c: the PTX in fatbins.
 *
 * A fatbin is a header and a list of entries: PTX or machine code, each for one architecture. All numbers are little
 * endian. The format is not documented; this describes the output of fatbinary of CUDA 13.0.
 *
 *   header   0 magic (4 bytes), 4 version (2), 6 bytes of the header (2), 8 bytes of all entries (8)
 *   entry    0 kind (2), 4 bytes of the entry's header (4), 8 bytes of what follows it (8), padded to 8
 *            16 bytes without the padding, if compressed (4), 20 where the options are (4), 28 architecture (4)
 *            32 where the name is (4), 36 length of the name (4), 40 flags (8), 56 bytes when expanded (8)
 *   options  0 where the text is (4), 4 its length (4)
 *
 * Offsets count from the first byte of the entry. The text of the PTX ends at its first NUL. It is compressed by LZ4 or
 * by Zstandard, as the flags say (nvcc --compress-mode). Older toolkits had a compression of their own, which is
 * refused.
 */
#include "ptx_input.h"

#include <stdlib.h>
#include <zstd.h>

#define FATBIN_MAGIC 0xBA55ED50u

enum { FATBIN_HEADER = 16, ENTRY_HEADER = 64, ALIGNMENT = 8 };
enum { KIND_PTX = 1, KIND_ELF = 2 };
enum { FLAG_OLD_COMPRESSION = 0x1000, FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000 };

struct entry {
    size_t at;   /* in the file */
    size_t head; /* bytes of its header */
    size_t size; /* bytes after the header */
    uint32_t kind, architecture, packed_size, options_at, name_at, name_size;
    uint64_t flags, expanded_size;
};

/* ---- numbers; the caller has checked that they are within the file ---- */

static uint64_t read_number(const char *bytes, size_t count) {
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;)
        value = value << 8 | (unsigned char)bytes[i];
    return value;
}

static uint32_t read_word(const char *bytes) {
    return (uint32_t)read_number(bytes, 4);
}

/* ---- one entry ---- */

/* Reads the header of the entry at `at`. The entry must end before `end`. */
static bool read_entry(const gs_ptx_search *search, size_t at, size_t end, struct entry *entry) {
    const char *bytes = search->bytes + at;
    if (end - at < ENTRY_HEADER)
        return false;
    uint64_t size = read_number(bytes + 8, 8);
    *entry = (struct entry){.at = at,
                            .head = read_word(bytes + 4),
                            .size = size,
                            .kind = (uint32_t)read_number(bytes, 2),
                            .packed_size = read_word(bytes + 16),
                            .options_at = read_word(bytes + 20),
                            .architecture = read_word(bytes + 28),
                            .name_at = read_word(bytes + 32),
                            .name_size = read_word(bytes + 36),
                            .flags = read_number(bytes + 40, 8),
                            .expanded_size = read_number(bytes + 56, 8)};
    return entry->head >= ENTRY_HEADER && entry->head <= end - at && size <= end - at - entry->head;
}

/* A text of the entry's header; NULL if it has none, or if it is not within the header. */
static char *head_text(const gs_ptx_search *search, const struct entry *entry, size_t at, size_t size) {
    bool is_inside = size && at <= entry->head && size <= entry->head - at;
    return is_inside ? strndup(search->bytes + entry->at + at, size) : NULL;
}

static char *options_of(const gs_ptx_search *search, const struct entry *entry) {
    if (!entry->options_at || entry->options_at > entry->head - 8)
        return NULL;
    const char *bytes = search->bytes + entry->at + entry->options_at;
    return head_text(search, entry, read_word(bytes), read_word(bytes + 4));
}

static bool expand_zstd(const char *from, size_t size, char *into, size_t into_size) {
    return ZSTD_decompress(into, into_size, from, size) == into_size;
}

static bool expand_lz4(const char *from, size_t size, char *into, size_t into_size) {
    return gs_ptx_lz4((const unsigned char *)from, size, (unsigned char *)into, into_size);
}

static bool expand_nothing(const char *from, size_t size, char *into, size_t into_size) {
    memcpy(into, from, into_size);
    return size == into_size;
}

/* The text of an entry, which the caller frees. */
static gs_code expand_text(const gs_ptx_search *search, const struct entry *entry, char **text) {
    const char *from = search->bytes + entry->at + entry->head;
    bool is_packed = entry->flags & (FLAG_LZ4 | FLAG_ZSTD);
    uint64_t size = is_packed ? entry->packed_size : entry->size,
             into_size = is_packed ? entry->expanded_size : entry->size;
    if (entry->flags & FLAG_OLD_COMPRESSION)
        return gs_ptx_search_fail(search, "the PTX at byte %zu has an unknown compression (flags 0x%llx)", entry->at,
                                  (unsigned long long)entry->flags);
    if (into_size > GS_PTX_TEXT_MOST)
        return gs_ptx_search_fail(search, "the PTX at byte %zu has more than %zu MiB", entry->at,
                                  GS_PTX_TEXT_MOST >> 20);
    if (size > entry->size)
        return gs_ptx_search_fail(search, "the compressed PTX at byte %zu is damaged", entry->at);
    *text = malloc(into_size + 1);
    if (!*text)
        return gs_fail_memory(search->error);
    (*text)[into_size] = '\0';
    bool is_whole = (entry->flags & FLAG_ZSTD  ? expand_zstd
                     : entry->flags & FLAG_LZ4 ? expand_lz4
                                               : expand_nothing)(from, size, *text, into_size);
    if (is_whole)
        return GS_OK;
    free(*text);
    return gs_ptx_search_fail(search, "the compressed PTX at byte %zu is damaged", entry->at);
}

static gs_code take_ptx(const gs_ptx_search *search, const struct entry *entry) {
    gs_ptx_text text = {.offset = entry->at + entry->head, .group = search->texts->groups};
    gs_code code = expand_text(search, entry, &text.text);
    if (code != GS_OK)
        return code;
    text.name = head_text(search, entry, entry->name_at, entry->name_size);
    if (!text.name && search->member)
        text.name = strdup(search->member);
    text.options = options_of(search, entry);
    text.is_relocatable = search->is_relocatable || (text.options && strstr(text.options, "--compile-only"));
    return gs_ptx_texts_add(search, &text);
}

/* ---- fatbins ---- */

bool gs_ptx_is_fatbin(const char *bytes, size_t size, size_t *whole) {
    if (size < FATBIN_HEADER || read_word(bytes) != FATBIN_MAGIC)
        return false;
    uint64_t head = read_number(bytes + 6, 2), entries = read_number(bytes + 8, 8);
    bool is_whole = head >= FATBIN_HEADER && head <= size && entries <= size - head;
    if (whole)
        *whole = head + (is_whole ? entries : 0);
    return is_whole || !whole;
}

/* Reads the fatbin at `at`, and sets `*next` to its end. */
static gs_code read_fatbin(const gs_ptx_search *search, size_t at, size_t end, size_t *next) {
    size_t head = read_number(search->bytes + at + 6, 2);
    uint64_t size = read_number(search->bytes + at + 8, 8);
    if (head < FATBIN_HEADER || head > end - at || size > end - at - head)
        return gs_ptx_search_fail(search, "the fatbin at byte %zu is truncated", at);
    end = *next = at + head + size;
    gs_code code = GS_OK;
    size_t before = search->texts->count;
    for (at += head; at < end && code == GS_OK;) {
        struct entry entry;
        if (!read_entry(search, at, end, &entry))
            return gs_ptx_search_fail(search, "the fatbin is truncated or damaged at byte %zu", at);
        if (entry.kind == KIND_PTX)
            code = take_ptx(search, &entry);
        else if (entry.kind == KIND_ELF)
            search->texts->machine_codes++;
        at += entry.head + entry.size;
    }
    search->texts->groups += search->texts->count > before;
    return code;
}

gs_code gs_ptx_fatbins(const gs_ptx_search *search, gs_ptx_span span) {
    size_t at = span.at, end = span.at + span.size;
    gs_code code = GS_OK;
    while (code == GS_OK && end - at >= FATBIN_HEADER) {
        if (gs_ptx_is_fatbin(search->bytes + at, end - at, NULL))
            code = read_fatbin(search, at, end, &at);
        else if (read_number(search->bytes + at, ALIGNMENT) == 0)
            at += ALIGNMENT;
        else
            return gs_ptx_search_fail(search, "expected a fatbin at byte %zu", at);
    }
    return code;
}
