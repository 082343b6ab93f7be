/*
 * ptx_fatbin.c: the PTX in fatbins, or the cubins. kernels/sass has their format. The text of PTX ends at its first
 * NUL.
 */
#include "kernels/sass/sass.h"
#include "ptx_input.h"

#include <stdlib.h>
#include <zstd.h>

enum { ALIGNMENT = 8, SHORTEST = 16 };

static uint32_t read_word(const char *bytes) {
    const unsigned char *at = (const unsigned char *)bytes;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* A text of the entry's header; NULL if it has none, or if it is not within the header. */
static char *head_text(const gs_ptx_search *search, const gs_fatbin_entry *entry, size_t at, size_t size) {
    bool is_inside = size && at <= entry->head && size <= entry->head - at;
    return is_inside ? strndup(search->bytes + entry->at + at, size) : NULL;
}

static char *options_of(const gs_ptx_search *search, const gs_fatbin_entry *entry) {
    if (!entry->options_at || entry->options_at > entry->head - 8)
        return NULL;
    const char *bytes = search->bytes + entry->at + entry->options_at;
    return head_text(search, entry, read_word(bytes), read_word(bytes + 4));
}

static gs_code take_ptx(const gs_ptx_search *search, const gs_fatbin_entry *entry) {
    gs_ptx_text text = {.offset = entry->at + entry->head, .group = search->texts->groups};
    size_t size;
    gs_code code =
        gs_fatbin_expand(search->bytes, entry, GS_PTX_TEXT_MOST, ZSTD_decompress, &text.text, &size, search->error);
    if (code != GS_OK) {
        gs_error_name_file(search->error, search->name);
        return code;
    }
    text.name = head_text(search, entry, entry->name_at, entry->name_size);
    if (!text.name && search->member)
        text.name = strdup(search->member);
    text.options = options_of(search, entry);
    text.is_relocatable = search->is_relocatable || (text.options && strstr(text.options, "--compile-only"));
    return gs_ptx_texts_add(search, &text);
}

gs_code gs_ptx_cubin(const gs_ptx_search *search, const char *bytes, size_t size) {
    search->texts->machine_codes++;
    return search->take ? search->take(search->context, bytes, size, search->error) : GS_OK;
}

static gs_code take_cubin(const gs_ptx_search *search, const gs_fatbin_entry *entry) {
    char *cubin = NULL;
    size_t size = 0;
    gs_code code = GS_OK;
    if (search->take)
        code = gs_fatbin_expand(search->bytes, entry, GS_CUBIN_MOST, ZSTD_decompress, &cubin, &size, search->error);
    if (code == GS_OK)
        code = gs_ptx_cubin(search, cubin, size);
    free(cubin);
    return code;
}

/* Reads the fatbin at `at`, and sets `*next` to its end. */
static gs_code read_fatbin(const gs_ptx_search *search, size_t at, size_t end, size_t *next) {
    size_t whole;
    if (!gs_fatbin_begins(search->bytes + at, end - at, &whole))
        return gs_ptx_search_fail(search, "the fatbin at byte %zu is truncated", at);
    end = *next = at + whole;
    gs_code code = GS_OK;
    size_t before = search->texts->count;
    for (at += gs_fatbin_first(search->bytes + at); at < end && code == GS_OK;) {
        gs_fatbin_entry entry;
        if (!gs_fatbin_entry_at(search->bytes, at, end, &entry))
            return gs_ptx_search_fail(search, "the fatbin is truncated or damaged at byte %zu", at);
        if (entry.kind == GS_FATBIN_PTX && !search->take)
            code = take_ptx(search, &entry);
        else if (entry.kind == GS_FATBIN_CUBIN)
            code = take_cubin(search, &entry);
        at += entry.head + entry.size;
    }
    search->texts->groups += search->texts->count > before;
    return code;
}

gs_code gs_ptx_fatbins(const gs_ptx_search *search, gs_ptx_span span) {
    static const char zeros[ALIGNMENT];
    size_t at = span.at, end = span.at + span.size;
    gs_code code = GS_OK;
    while (code == GS_OK && end - at >= SHORTEST) {
        if (gs_fatbin_begins(search->bytes + at, end - at, NULL))
            code = read_fatbin(search, at, end, &at);
        else if (memcmp(search->bytes + at, zeros, sizeof zeros) == 0)
            at += ALIGNMENT;
        else
            return gs_ptx_search_fail(search, "expected a fatbin at byte %zu", at);
    }
    return code;
}
