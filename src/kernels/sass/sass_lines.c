/*
 * sass_lines.c: the source line of an address, from .debug_line of a cubin that is loaded, and the lines of a section.
 *
 * The section has a program for each kernel (DWARF 2 to 4) that makes rows of addresses and lines. Addresses in it are
 * relocated; in the image of a loaded module, symbols have the addresses of the GPU. NVIDIA's own operations have a
 * length, and are passed over.
 */
#include "sass.h"

#include <stdlib.h>

enum { BYTES = 16 }; /* of an instruction */

struct cursor {
    const unsigned char *bytes;
    size_t at, end;
    bool failed;
};

struct unit {
    int version, least, line_base, line_range, opcode_base;
    unsigned char lengths[256];
    size_t files, end, folders; /* of the header's lists: places in the section */
};

struct row {
    uint64_t address;
    uint32_t file, line;
};

/* Where rows of other sections are, when those of one are looked for: sections of a cubin that is not loaded all begin
   at 0. */
#define ELSEWHERE ((uint64_t)1 << 62)

static uint64_t take_number(struct cursor *cursor, size_t count) {
    uint64_t value = 0;
    if (cursor->failed || count > cursor->end - cursor->at) {
        cursor->failed = true;
        return 0;
    }
    memcpy(&value, cursor->bytes + cursor->at, count);
    cursor->at += count;
    return value;
}

static uint64_t take_variable(struct cursor *cursor, bool is_signed) {
    uint64_t value = 0, byte;
    int shift = 0;
    do {
        byte = take_number(cursor, 1);
        if (shift < 64)
            value |= (byte & 127) << shift;
        shift += 7;
    } while (byte & 128 && !cursor->failed);
    if (is_signed && shift < 64 && byte & 64)
        value |= ~(uint64_t)0 << shift;
    return value;
}

static const char *take_string(struct cursor *cursor) {
    const unsigned char *begin = cursor->bytes + cursor->at;
    const unsigned char *end = cursor->failed ? NULL : memchr(begin, 0, cursor->end - cursor->at);
    if (!end) {
        cursor->failed = true;
        return "";
    }
    cursor->at += (size_t)(end - begin) + 1;
    return (const char *)begin;
}

/* The header of a program: the cursor is behind it afterwards. */
static bool read_unit(struct cursor *cursor, struct unit *unit) {
    uint64_t length = take_number(cursor, 4);
    if (cursor->failed || length > cursor->end - cursor->at)
        return false;
    unit->end = cursor->at + (size_t)length;
    unit->version = (int)take_number(cursor, 2);
    uint64_t header = take_number(cursor, 4);
    size_t program = cursor->at + (size_t)header;
    if (cursor->failed || unit->version < 2 || unit->version > 4 || header > unit->end - cursor->at)
        return false;
    unit->least = (int)take_number(cursor, 1);
    if (unit->version == 4)
        take_number(cursor, 1);
    take_number(cursor, 1);
    unit->line_base = (int8_t)take_number(cursor, 1);
    unit->line_range = (int)take_number(cursor, 1);
    unit->opcode_base = (int)take_number(cursor, 1);
    for (int i = 1; i < unit->opcode_base; i++)
        unit->lengths[i] = (unsigned char)take_number(cursor, 1);
    unit->folders = cursor->at;
    while (!cursor->failed && *take_string(cursor))
        ;
    unit->files = cursor->at;
    cursor->at = program;
    return !cursor->failed && unit->line_range > 0;
}

/* ---- rows ---- */

struct search {
    const gs_sass_image *image;
    const gs_sass_section *relocations;
    uint64_t wanted;
    struct row row, before; /* the row before this one in its sequence; line 0: none */
    struct row found;
    uint32_t section;    /* the one whose lines are looked for, */
    gs_sass_line_of *of; /* one for each of its instructions, */
    size_t count;        /* and how many these are */
};

/* The address that belongs at a place of the list of lines. */
static uint64_t relocated(const struct search *search, size_t place, uint64_t otherwise) {
    const gs_sass_section *list = search->relocations;
    size_t step = list ? gs_sass_relocation_bytes(list) : 0;
    for (size_t at = 0; step && at + step <= list->bytes.count; at += step) {
        const gs_sass_symbol *symbol = gs_sass_relocation_symbol(search->image, list, at);
        if (gs_sass_long(&list->bytes, at) != place || !symbol)
            continue;
        if (search->of && symbol->section != search->section)
            return ELSEWHERE;
        return symbol->value + (gs_sass_has_addends(list) ? gs_sass_long(&list->bytes, at + 16) : otherwise);
    }
    return otherwise;
}

static void end_row(struct search *search, bool ends_sequence) {
    const struct row *before = &search->before;
    if (before->line && before->address <= search->wanted && search->wanted < search->row.address)
        search->found = *before;
    for (uint64_t at = before->address / BYTES; before->line && at < search->count && at * BYTES < search->row.address;
         at++)
        search->of[at] = (gs_sass_line_of){before->file, before->line};
    search->before = ends_sequence ? (struct row){0} : search->row;
}

static void run_extended(struct search *search, struct cursor *cursor) {
    enum { END = 1, SET_ADDRESS = 2 };
    uint64_t length = take_variable(cursor, false);
    if (cursor->failed || !length || length > cursor->end - cursor->at) {
        cursor->failed = true;
        return;
    }
    size_t next = cursor->at + (size_t)length;
    uint64_t operation = take_number(cursor, 1);
    if (operation == END) {
        end_row(search, true);
        search->row = (struct row){0, 1, 1};
    } else if (operation == SET_ADDRESS && length == 9) {
        size_t place = cursor->at;
        search->row.address = relocated(search, place, take_number(cursor, 8));
    }
    cursor->at = next;
}

static void run_standard(struct search *search, struct cursor *cursor, const struct unit *unit, int operation) {
    enum { COPY = 1, ADVANCE_ADDRESS, ADVANCE_LINE, SET_FILE, SET_COLUMN, NEGATE, BLOCK, ADD_CONSTANT, FIXED_ADVANCE };
    if (operation == COPY)
        end_row(search, false);
    else if (operation == ADVANCE_ADDRESS)
        search->row.address += take_variable(cursor, false) * (uint64_t)unit->least;
    else if (operation == ADVANCE_LINE)
        search->row.line += (uint32_t)take_variable(cursor, true);
    else if (operation == SET_FILE)
        search->row.file = (uint32_t)take_variable(cursor, false);
    else if (operation == ADD_CONSTANT)
        search->row.address += (uint64_t)((255 - unit->opcode_base) / unit->line_range * unit->least);
    else if (operation == FIXED_ADVANCE)
        search->row.address += take_number(cursor, 2);
    else
        for (int i = 0; i < unit->lengths[operation]; i++)
            take_variable(cursor, false);
}

static void run_program(struct search *search, struct cursor *cursor, const struct unit *unit) {
    search->row = (struct row){0, 1, 1};
    search->before = (struct row){0};
    while (!cursor->failed && cursor->at < cursor->end) {
        int operation = (int)take_number(cursor, 1);
        if (operation >= unit->opcode_base) {
            int special = operation - unit->opcode_base;
            search->row.address += (uint64_t)(special / unit->line_range * unit->least);
            search->row.line += (uint32_t)(unit->line_base + special % unit->line_range);
            end_row(search, false);
        } else if (operation) {
            run_standard(search, cursor, unit, operation);
        } else {
            run_extended(search, cursor);
        }
    }
}

/* The name of a file of a unit. */
static char *name_of_file(struct cursor cursor, const struct unit *unit, uint32_t wanted) {
    cursor.at = unit->files;
    for (uint32_t number = 1; !cursor.failed && cursor.at < unit->end; number++) {
        const char *name = take_string(&cursor);
        for (int i = 0; i < 3 && *name; i++)
            take_variable(&cursor, false);
        if (cursor.failed || !*name)
            return NULL;
        if (number == wanted)
            return strdup(name);
    }
    return NULL;
}

bool gs_sass_line(const gs_sass_image *image, uint64_t address, char **file, uint32_t *line) {
    const gs_sass_section *section = gs_sass_find(image, ".debug_line", "");
    struct search search = {
        .image = image, .relocations = gs_sass_find(image, ".rela.debug_line", ""), .wanted = address};
    if (!section || !section->bytes.count)
        return false;
    struct cursor all = {.bytes = (const unsigned char *)section->bytes.data, .end = section->bytes.count};
    while (all.at < all.end && !search.found.line) {
        struct unit unit = {0};
        if (!read_unit(&all, &unit))
            return false;
        struct cursor program = {.bytes = all.bytes, .at = all.at, .end = unit.end};
        run_program(&search, &program, &unit);
        if (search.found.line)
            *file = name_of_file((struct cursor){.bytes = all.bytes, .end = unit.end}, &unit, search.found.file);
        all.at = unit.end;
    }
    *line = search.found.line;
    return search.found.line != 0;
}

/* The list of lines of one kind. */
static bool read_lines(const gs_sass_image *image, const char *name, const char *relocations, struct search *search,
                       char **file) {
    const gs_sass_section *section = gs_sass_find(image, name, "");
    search->relocations = gs_sass_find(image, relocations, "");
    if (!section || !search->relocations)
        return false;
    struct cursor all = {.bytes = (const unsigned char *)section->bytes.data, .end = section->bytes.count};
    while (all.at < all.end) {
        struct unit unit = {0};
        size_t begin = all.at;
        if (!read_unit(&all, &unit))
            return false;
        struct cursor program = {.bytes = all.bytes, .at = all.at, .end = unit.end};
        run_program(search, &program, &unit);
        if (search->count && search->of[0].line && !*file)
            *file = name_of_file((struct cursor){.bytes = all.bytes, .at = begin, .end = unit.end}, &unit,
                                 search->of[0].file);
        all.at = unit.end;
    }
    return search->count && search->of[0].line;
}

bool gs_sass_lines(const gs_sass_image *image, const gs_sass_section *code, gs_sass_line_of *of, size_t count,
                   char **file) {
    struct search search = {.image = image,
                            .wanted = ELSEWHERE,
                            .section = (uint32_t)(code - image->sections.data),
                            .of = of,
                            .count = count};
    *file = NULL;
    if (read_lines(image, ".debug_line", ".rela.debug_line", &search, file))
        return true;
    memset(of, 0, count * sizeof *of);
    search.row = search.before = (struct row){0};
    return read_lines(image, ".nv_debug_line_sass", ".rela.nv_debug_line_sass", &search, file);
}
