/*
 * dump_file.c: the ELF file of a dump, read through windows of 64 KB, however long it is.
 *
 * With more than 65,279 sections, the header of section 0 has their number, as ELF says.
 */
#define _GNU_SOURCE
#include "dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 64, SECTION = 64, TYPE_CORE = 4, MACHINE_CUDA = 190, MOST_SECTIONS = 1 << 25 };

static uint64_t number_at(const unsigned char *bytes, size_t at, size_t count) {
    uint64_t value = 0;
    memcpy(&value, bytes + at, count);
    return value;
}

static gs_code fail_dump(const gs_dump *dump, gs_error *error, const char *what) {
    gs_fail(error, GS_E_FORMAT, "%s", what);
    return gs_error_name_file(error, dump->path);
}

gs_code gs_dump_open(gs_dump *dump, const char *path, gs_error *error) {
    struct stat found;
    *dump = (gs_dump){.file = -1, .path = strdup(path)};
    if (!dump->path)
        return gs_fail_memory(error);
    dump->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (dump->file < 0 || fstat(dump->file, &found) != 0)
        return gs_fail_read(error, path);
    if (!S_ISREG(found.st_mode))
        return fail_dump(dump, error, "not a regular file: a GPU core dump is one");
    dump->size = (uint64_t)found.st_size;
    return GS_OK;
}

const unsigned char *gs_dump_bytes(const gs_dump *dump, gs_dump_window *window, uint64_t at, size_t count) {
    if (count > GS_DUMP_WINDOW || at > dump->size || count > dump->size - at)
        return NULL;
    if (at >= window->at && at - window->at <= window->count && count <= window->count - (at - window->at))
        return window->bytes + (at - window->at);
    window->at = at;
    window->count = 0;
    while (window->count < count) {
        ssize_t got = pread(dump->file, window->bytes + window->count, GS_DUMP_WINDOW - window->count,
                            (off_t)(at + window->count));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return NULL;
        window->count += (size_t)got;
    }
    return window->bytes;
}

static gs_dump_section section_of(const unsigned char *bytes, uint32_t number) {
    return (gs_dump_section){.number = number,
                             .type = (uint32_t)number_at(bytes, 4, 4),
                             .at = number_at(bytes, 24, 8),
                             .size = number_at(bytes, 32, 8),
                             .link = (uint32_t)number_at(bytes, 40, 4),
                             .info = (uint32_t)number_at(bytes, 44, 4),
                             .row_bytes = number_at(bytes, 56, 8)};
}

/* The place and the number of the section headers. */
static gs_code read_header(const gs_dump *dump, gs_dump_window *window, uint64_t *at, uint64_t *count,
                           gs_error *error) {
    static const unsigned char magic[] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    const unsigned char *bytes = gs_dump_bytes(dump, window, 0, HEADER);
    if (!bytes || memcmp(bytes, magic, sizeof magic) != 0 || number_at(bytes, 16, 2) != TYPE_CORE ||
        number_at(bytes, 18, 2) != MACHINE_CUDA)
        return fail_dump(dump, error, "not a GPU core dump");
    *at = number_at(bytes, 40, 8);
    *count = number_at(bytes, 60, 2);
    if (number_at(bytes, 58, 2) != SECTION)
        return fail_dump(dump, error, "the dump is not complete: it has no section headers");
    bytes = gs_dump_bytes(dump, window, *at, SECTION);
    if (!*count && bytes)
        *count = section_of(bytes, 0).size;
    if (!*at || !*count || *count > MOST_SECTIONS || !bytes || *count > (dump->size - *at) / SECTION)
        return fail_dump(dump, error, "the dump is not complete: its section headers are not in the file");
    return GS_OK;
}

gs_code gs_dump_visit_sections(gs_dump *dump, gs_dump_visit *visit, void *state, gs_error *error) {
    gs_dump_window *window = calloc(1, sizeof *window);
    uint64_t at = 0, count = 0;
    gs_code code = window ? read_header(dump, window, &at, &count, error) : gs_fail_memory(error);
    for (uint64_t i = 1; code == GS_OK && i < count; i++) {
        const unsigned char *bytes = gs_dump_bytes(dump, window, at + i * SECTION, SECTION);
        gs_dump_section section = {0};
        if (bytes)
            section = section_of(bytes, (uint32_t)i);
        if (!bytes)
            code = gs_fail_system(error, "read", dump->path);
        else if (section.at > dump->size || section.size > dump->size - section.at)
            code = fail_dump(dump, error, "the dump is not complete: a section is not in the file");
        else
            code = visit(state, &section, error);
    }
    free(window);
    return code;
}
