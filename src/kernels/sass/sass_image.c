/*
 * sass_image.c: cubins as sections and symbols. See sass.h.
 *
 * A cubin is an ELF file of 64 bits, machine 190. Each kernel K has a section .text.K with its code, .nv.info.K with
 * records about it, .nv.constant0.K with room for its parameters, and perhaps .nv.shared.K and others. Sections are
 * written in the order in which they were, so that a cubin that is not changed keeps its contents; program headers,
 * which cover ranges of sections, follow them.
 */
#include "sass.h"

#include <stdlib.h>

enum {
    HEAD = 64,
    SECTION_HEAD = 64,
    SEGMENT_HEAD = 56,
    SYMBOL = 24,
    CUDA_MACHINE = 190,
    SECTION_SYMBOLS = 2,
    SECTION_ADDENDS = 4, /* relocations with addends */
    SECTION_NO_BYTES = 8,
    SECTION_RELOCATIONS = 9,
    SECTION_INDEXES = 18,        /* the sections of symbols, where there are more than 65,279 */
    SECTION_ZEROS = 0x70000007,  /* of objects that are not linked: variables that begin as zeros, */
    SECTION_SHARED = 0x7000000a, /* and shared memory */
    INDEX_ELSEWHERE = 0xffff,
    TYPE_OF_SYMBOL = 15,
    MOST_OVERLAP = 4, /* from sm_100 on some sections are in others */
    NEW_ABI = 0x41    /* the architecture is in other bits of the flags */
};

/* ---- numbers ---- */

static uint64_t get(const unsigned char *bytes, size_t count) {
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

static void put(unsigned char *bytes, size_t count, uint64_t value) {
    for (size_t i = 0; i < count; i++, value >>= 8)
        bytes[i] = (unsigned char)value;
}

uint32_t gs_sass_word(const gs_text *bytes, size_t at) {
    return (uint32_t)get((const unsigned char *)bytes->data + at, 4);
}

void gs_sass_put_word(gs_text *bytes, size_t at, uint32_t value) {
    put((unsigned char *)bytes->data + at, 4, value);
}

uint64_t gs_sass_long(const gs_text *bytes, size_t at) {
    return get((const unsigned char *)bytes->data + at, 8);
}

void gs_sass_put_long(gs_text *bytes, size_t at, uint64_t value) {
    put((unsigned char *)bytes->data + at, 8, value);
}

/* ---- reading ---- */

struct file {
    const unsigned char *bytes;
    size_t size;
    gs_error *error;
};

static gs_code damaged(const struct file *file, const char *what) {
    return gs_fail(file->error, GS_E_SYNTAX, "this is not a whole cubin: %s", what);
}

/* Whether a range lies within the file. */
static bool is_inside(const struct file *file, uint64_t at, uint64_t count) {
    return at <= file->size && count <= file->size - at;
}

static bool has_bytes(uint32_t type) {
    return type != 0 && type != SECTION_NO_BYTES && type != SECTION_ZEROS && type != SECTION_SHARED;
}

static gs_code read_section(gs_sass_image *image, const struct file *file, uint64_t at) {
    const unsigned char *head = file->bytes + at;
    gs_sass_section section = {.name_at = (uint32_t)get(head, 4),
                               .type = (uint32_t)get(head + 4, 4),
                               .flags = get(head + 8, 8),
                               .address = get(head + 16, 8),
                               .first_at = get(head + 24, 8),
                               .first_size = get(head + 32, 8),
                               .link = (uint32_t)get(head + 40, 4),
                               .info = (uint32_t)get(head + 44, 4),
                               .align = get(head + 48, 8),
                               .entry_bytes = get(head + 56, 8)};
    section.size = section.first_size;
    section.has_bytes = has_bytes(section.type);
    if (section.has_bytes && !is_inside(file, section.first_at, section.size))
        return damaged(file, "a section ends past the end of the file");
    if (section.align & (section.align - 1) || section.align > 1 << 20)
        return damaged(file, "a section has an impossible alignment");
    if (section.has_bytes)
        gs_text_put(&section.bytes, (const char *)file->bytes + section.first_at, section.size);
    if (section.bytes.failed || !GS_PUSH(&image->sections, section)) {
        gs_text_free(&section.bytes);
        return gs_fail_memory(file->error);
    }
    return GS_OK;
}

/* A name in a table of names, or NULL: it does not end there. */
static const char *name_in(const gs_sass_image *image, uint32_t table, uint32_t at) {
    const gs_text *names = table < image->sections.count ? &image->sections.data[table].bytes : NULL;
    bool is_whole = names && at < names->count && memchr(names->data + at, 0, names->count - at);
    return is_whole ? names->data + at : NULL;
}

static gs_code read_sections(gs_sass_image *image, const struct file *file) {
    uint64_t at = get(file->bytes + 40, 8), count = get(file->bytes + 60, 2);
    uint32_t names = (uint32_t)get(file->bytes + 62, 2);
    if (!is_inside(file, at, SECTION_HEAD))
        return damaged(file, "it has no sections");
    if (get(file->bytes + 58, 2) != SECTION_HEAD)
        return damaged(file, "headers of sections have an impossible size");
    count = count ? count : get(file->bytes + at + 32, 8);
    names = names == INDEX_ELSEWHERE ? (uint32_t)get(file->bytes + at + 40, 4) : names;
    if (count > (file->size - at) / SECTION_HEAD)
        return damaged(file, "sections are missing");
    gs_code code = GS_OK;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count && code == GS_OK; i++) {
        code = read_section(image, file, at + i * SECTION_HEAD);
        bytes += code == GS_OK ? image->sections.data[i].bytes.count : 0;
        if (bytes > MOST_OVERLAP * file->size) /* a small file must not fill the memory */
            code = damaged(file, "its sections overlap");
    }
    for (size_t i = 0; i < image->sections.count && code == GS_OK; i++) {
        gs_sass_section *section = &image->sections.data[i];
        section->name = name_in(image, names, section->name_at);
        if (!section->name)
            code = damaged(file, "a section has no name");
        else if (gs_sass_has_relocations(section) && section->info >= image->sections.count)
            code = damaged(file, "there are relocations of no section");
    }
    return code;
}

static const gs_sass_section *find_type(const gs_sass_image *image, uint32_t type, uint32_t link) {
    for (size_t i = 0; i < image->sections.count; i++)
        if (image->sections.data[i].type == type && (link == GS_SASS_NONE || image->sections.data[i].link == link))
            return &image->sections.data[i];
    return NULL;
}

static gs_code read_symbols(gs_sass_image *image, const struct file *file) {
    const gs_sass_section *table = find_type(image, SECTION_SYMBOLS, GS_SASS_NONE);
    if (!table)
        return damaged(file, "it has no symbols");
    image->symbol_table = (uint32_t)(table - image->sections.data);
    const gs_sass_section *indexes = find_type(image, SECTION_INDEXES, image->symbol_table);
    for (size_t i = 0; i + SYMBOL <= table->bytes.count; i += SYMBOL) {
        const unsigned char *bytes = (const unsigned char *)table->bytes.data + i;
        gs_sass_symbol symbol = {.name_at = (uint32_t)get(bytes, 4),
                                 .info = bytes[4],
                                 .other = bytes[5],
                                 .index = (uint16_t)get(bytes + 6, 2),
                                 .value = get(bytes + 8, 8),
                                 .size = get(bytes + 16, 8)};
        symbol.section = symbol.index;
        if (symbol.index == INDEX_ELSEWHERE && indexes && i / SYMBOL * 4 + 4 <= indexes->bytes.count)
            symbol.section = gs_sass_word(&indexes->bytes, i / SYMBOL * 4);
        if (symbol.section >= image->sections.count || !symbol.section)
            symbol.section = GS_SASS_NONE;
        if (!name_in(image, table->link, symbol.name_at))
            return damaged(file, "a symbol has no name");
        if (!GS_PUSH(&image->symbols, symbol))
            return gs_fail_memory(file->error);
    }
    return GS_OK;
}

gs_code gs_sass_read(gs_sass_image *image, const void *bytes, size_t size, gs_error *error) {
    struct file file = {.bytes = bytes, .size = size, .error = error};
    *image = (gs_sass_image){.symbol_table = GS_SASS_NONE};
    if (size < HEAD || memcmp(bytes, "\177ELF\2\1", 6) != 0 || get(file.bytes + 18, 2) != CUDA_MACHINE)
        return gs_fail(error, GS_E_SYNTAX, "this is not a cubin");
    memcpy(image->head, bytes, HEAD);
    image->segments_at = get(file.bytes + 32, 8);
    uint64_t segments = get(file.bytes + 56, 2) * SEGMENT_HEAD;
    if (!is_inside(&file, image->segments_at, segments))
        return damaged(&file, "program headers are missing");
    gs_text_put(&image->segments, (const char *)bytes + image->segments_at, segments);
    gs_code code = read_sections(image, &file);
    return code == GS_OK ? read_symbols(image, &file) : code;
}

void gs_sass_free(gs_sass_image *image) {
    for (size_t i = 0; i < image->sections.count; i++)
        gs_text_free(&image->sections.data[i].bytes);
    free(image->sections.data);
    free(image->symbols.data);
    gs_text_free(&image->segments);
    *image = (gs_sass_image){0};
}

/* ---- questions ---- */

bool gs_sass_has_one_table(const gs_sass_image *image) {
    size_t count = 0;
    for (size_t i = 0; i < image->sections.count; i++)
        count += image->sections.data[i].type == SECTION_SYMBOLS;
    return count == 1;
}

int gs_sass_architecture(const gs_sass_image *image) {
    uint32_t flags = (uint32_t)get(image->head + 48, 4);
    return (int)(image->head[7] == NEW_ABI ? flags >> 8 & 0xff : flags & 0xff);
}

gs_sass_section *gs_sass_find(const gs_sass_image *image, const char *prefix, const char *name) {
    size_t length = strlen(prefix);
    for (size_t i = 0; i < image->sections.count; i++) {
        gs_sass_section *section = &image->sections.data[i];
        if (strncmp(section->name, prefix, length) == 0 && strcmp(section->name + length, name) == 0)
            return section;
    }
    return NULL;
}

const char *gs_sass_symbol_name(const gs_sass_image *image, const gs_sass_symbol *symbol) {
    return name_in(image, image->sections.data[image->symbol_table].link, symbol->name_at);
}

int gs_sass_type(const gs_sass_symbol *symbol) {
    return symbol->info & TYPE_OF_SYMBOL;
}

bool gs_sass_has_addends(const gs_sass_section *section) {
    return section->type == SECTION_ADDENDS;
}

bool gs_sass_has_relocations(const gs_sass_section *section) {
    return section->type == SECTION_RELOCATIONS || gs_sass_has_addends(section);
}

size_t gs_sass_relocation_bytes(const gs_sass_section *section) {
    return gs_sass_has_addends(section) ? 24 : 16;
}

const gs_sass_symbol *gs_sass_relocation_symbol(const gs_sass_image *image, const gs_sass_section *section, size_t at) {
    uint64_t number = gs_sass_long(&section->bytes, at + 8) >> 32;
    return number < image->symbols.count ? &image->symbols.data[number] : NULL;
}

/* ---- writing ---- */

static void pad(gs_text *into, size_t begin, uint64_t align) {
    static const char zeros[64];
    for (uint64_t missing = align > 1 ? -(uint64_t)(into->count - begin) & (align - 1) : 0; missing;) {
        size_t count = missing < sizeof zeros ? missing : sizeof zeros;
        gs_text_put(into, zeros, count);
        missing -= count;
    }
}

static void store_symbols(gs_sass_image *image) {
    unsigned char *bytes = (unsigned char *)image->sections.data[image->symbol_table].bytes.data;
    for (size_t i = 0; i < image->symbols.count; i++, bytes += SYMBOL) {
        const gs_sass_symbol *symbol = &image->symbols.data[i];
        put(bytes + 8, 8, symbol->value);
        put(bytes + 16, 8, symbol->size);
    }
}

/* Sections by their place in the file that was read. */
static int compare_places(const void *one, const void *other) {
    const gs_sass_section *a = *(const gs_sass_section *const *)one, *b = *(const gs_sass_section *const *)other;
    return a->first_at != b->first_at ? (a->first_at < b->first_at ? -1 : 1) : a < b ? -1 : 1;
}

/* Writes the bytes of all sections, and their places into `places`. */
static bool write_sections(gs_sass_image *image, gs_text *into, size_t begin, uint64_t *places) {
    size_t count = image->sections.count;
    gs_sass_section **order = malloc((count + 1) * sizeof *order);
    if (!order)
        return false;
    for (size_t i = 0; i < count; i++)
        order[i] = &image->sections.data[i];
    qsort(order, count, sizeof *order, compare_places);
    for (size_t i = 0; i < count; i++) {
        if (order[i]->has_bytes)
            pad(into, begin, order[i]->align);
        places[order[i] - image->sections.data] = order[i]->type ? into->count - begin : order[i]->first_at;
        gs_text_put(into, order[i]->bytes.data, order[i]->bytes.count);
    }
    free(order);
    return true;
}

static void write_section_heads(const gs_sass_image *image, gs_text *into, const uint64_t *places) {
    for (size_t i = 0; i < image->sections.count; i++) {
        const gs_sass_section *section = &image->sections.data[i];
        unsigned char head[SECTION_HEAD];
        put(head, 4, section->name_at);
        put(head + 4, 4, section->type);
        put(head + 8, 8, section->flags);
        put(head + 16, 8, section->address);
        put(head + 24, 8, places[i]);
        put(head + 32, 8, section->has_bytes ? section->bytes.count : section->size);
        put(head + 40, 4, section->link);
        put(head + 44, 4, section->info);
        put(head + 48, 8, section->align);
        put(head + 56, 8, section->entry_bytes);
        gs_text_put(into, (const char *)head, sizeof head);
    }
}

/* Lets a program header cover the sections that it covered before. Memory behind its bytes keeps its size. */
static void move_segment(const gs_sass_image *image, unsigned char *head, const uint64_t *places) {
    uint64_t at = get(head + 8, 8), bytes = get(head + 32, 8), memory = get(head + 40, 8), low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < image->sections.count; i++) {
        const gs_sass_section *section = &image->sections.data[i];
        bool is_within = section->first_at >= at && section->first_at + section->first_size <= at + bytes;
        if (!section->has_bytes || !(section->flags & GS_SASS_IN_MEMORY) || !section->first_size || !is_within)
            continue;
        low = places[i] < low ? places[i] : low;
        high = places[i] + section->bytes.count > high ? places[i] + section->bytes.count : high;
    }
    if (low > high)
        return;
    put(head + 8, 8, low);
    put(head + 32, 8, high - low);
    put(head + 40, 8, memory - bytes + high - low);
}

static void write_segments(const gs_sass_image *image, gs_text *into, size_t begin, const uint64_t *places) {
    uint64_t place = into->count - begin;
    for (size_t i = 0; i + SEGMENT_HEAD <= image->segments.count; i += SEGMENT_HEAD) {
        unsigned char head[SEGMENT_HEAD];
        memcpy(head, image->segments.data + i, sizeof head);
        if (get(head + 8, 8) == image->segments_at) /* the program headers themselves */
            put(head + 8, 8, place);
        else
            move_segment(image, head, places);
        gs_text_put(into, (const char *)head, sizeof head);
    }
}

gs_code gs_sass_write(gs_sass_image *image, gs_text *into, gs_error *error) {
    size_t begin = into->count;
    uint64_t *places = calloc(image->sections.count + 1, sizeof *places);
    store_symbols(image);
    gs_text_put(into, (const char *)image->head, HEAD);
    bool is_well = places && write_sections(image, into, begin, places);
    if (is_well) {
        pad(into, begin, 8);
        uint64_t sections = into->count - begin;
        write_section_heads(image, into, places);
        uint64_t segments = into->count - begin;
        write_segments(image, into, begin, places);
        if (!into->failed) {
            put((unsigned char *)into->data + begin + 32, 8, image->segments.count ? segments : 0);
            put((unsigned char *)into->data + begin + 40, 8, sections);
        }
    }
    free(places);
    return is_well && !into->failed ? GS_OK : gs_fail_memory(error);
}
