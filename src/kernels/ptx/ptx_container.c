/*
 * ptx_container.c: finds the PTX in files of several kinds.
 *
 *   PTX              text that begins with .version
 *   fatbin           the output of nvcc -fatbin (ptx_fatbin.c)
 *   ELF              programs, shared libraries and objects: their fatbins are in sections of their own
 *   static library   objects in an ar archive
 *
 * The first bytes tell the kind. ELF files are 64-bit and little endian, for any processor; CUDA supports x86_64 and
 * aarch64. An ELF file for NVIDIA GPUs is a cubin, which has machine code only.
 *
 * Files are not trusted: every offset and every length is checked against the end of the file.
 */
#include "kernels/sass/sass.h"
#include "ptx_input.h"

#include <elf.h>
#include <stdlib.h>

enum { EM_CUDA_GPU = 190, FATBIN_STEP = 8 };

/* ---- ELF ---- */

struct elf {
    const gs_ptx_search *search;
    gs_ptx_span file; /* the ELF file, in the file of the search */
    Elf64_Ehdr header;
    uint64_t sections; /* how many */
    gs_ptx_span names; /* the names of sections */
};

static bool is_inside(gs_ptx_span span, uint64_t at, uint64_t size) {
    return at <= span.size && size <= span.size - at;
}

static Elf64_Shdr section_at(const struct elf *elf, uint64_t number) {
    Elf64_Shdr section;
    memcpy(&section, elf->search->bytes + elf->file.at + elf->header.e_shoff + number * elf->header.e_shentsize,
           sizeof section);
    return section;
}

/* Reads the header. Files with very many sections have their number in the first of them. */
static gs_code open_elf(struct elf *elf) {
    const gs_ptx_search *search = elf->search;
    const char *bytes = search->bytes + elf->file.at;
    if (elf->file.size < sizeof elf->header)
        return gs_ptx_search_fail(search, "the ELF file is truncated");
    memcpy(&elf->header, bytes, sizeof elf->header);
    if (elf->header.e_ident[EI_CLASS] != ELFCLASS64 || elf->header.e_ident[EI_DATA] != ELFDATA2LSB)
        return gs_ptx_search_fail(search, "only 64-bit little-endian ELF files are read");
    if (!elf->header.e_shoff || elf->header.e_machine == EM_CUDA_GPU)
        return GS_OK;
    if (elf->header.e_shentsize < sizeof(Elf64_Shdr) || !is_inside(elf->file, elf->header.e_shoff, sizeof(Elf64_Shdr)))
        return gs_ptx_search_fail(search, "the ELF file is truncated: its sections are past its end");
    Elf64_Shdr first = section_at(elf, 0);
    elf->sections = elf->header.e_shnum ? elf->header.e_shnum : first.sh_size;
    uint64_t names = elf->header.e_shstrndx == SHN_XINDEX ? first.sh_link : elf->header.e_shstrndx;
    if (elf->sections > elf->file.size / elf->header.e_shentsize ||
        !is_inside(elf->file, elf->header.e_shoff, elf->sections * elf->header.e_shentsize) || names >= elf->sections)
        return gs_ptx_search_fail(search, "the ELF file is truncated: its sections are past its end");
    Elf64_Shdr section = section_at(elf, names);
    if (!is_inside(elf->file, section.sh_offset, section.sh_size))
        return gs_ptx_search_fail(search, "the ELF file is truncated: the names of its sections are past its end");
    elf->names = (gs_ptx_span){elf->file.at + section.sh_offset, section.sh_size};
    return GS_OK;
}

static bool is_named(const struct elf *elf, const Elf64_Shdr *section, const char *name) {
    size_t length = strlen(name) + 1;
    return is_inside(elf->names, section->sh_name, length) &&
           memcmp(elf->search->bytes + elf->names.at + section->sh_name, name, length) == 0;
}

static gs_code read_section(const struct elf *elf, const Elf64_Shdr *section, bool is_relocatable) {
    gs_ptx_search search = *elf->search;
    search.is_relocatable = is_relocatable;
    if (!is_inside(elf->file, section->sh_offset, section->sh_size))
        return gs_ptx_search_fail(&search, "the ELF file is truncated: its fatbins are past its end");
    return gs_ptx_fatbins(&search, (gs_ptx_span){elf->file.at + section->sh_offset, section->sh_size});
}

/* The sections with fatbins: those of whole programs, and those that the linker of device code reads. */
static gs_code read_fatbin_sections(const struct elf *elf) {
    gs_code code = GS_OK;
    for (uint64_t i = 1; i < elf->sections && code == GS_OK; i++) {
        Elf64_Shdr section = section_at(elf, i);
        if (section.sh_type == SHT_NOBITS)
            continue;
        if (is_named(elf, &section, ".nv_fatbin"))
            code = read_section(elf, &section, false);
        else if (is_named(elf, &section, "__nv_relfatbin"))
            code = read_section(elf, &section, true);
    }
    return code;
}

/* Finds fatbins in the data of a program that passes them to the driver itself. */
static gs_code search_section(const struct elf *elf, const Elf64_Shdr *section) {
    gs_code code = GS_OK;
    if (!is_inside(elf->file, section->sh_offset, section->sh_size))
        return GS_OK;
    size_t at = elf->file.at + section->sh_offset, end = at + section->sh_size, size;
    for (; code == GS_OK && at < end && end - at >= FATBIN_STEP; at += size) {
        bool is_fatbin = gs_fatbin_begins(elf->search->bytes + at, end - at, &size);
        size = is_fatbin ? (size + FATBIN_STEP - 1) / FATBIN_STEP * FATBIN_STEP : FATBIN_STEP;
        if (is_fatbin)
            code = gs_ptx_fatbins(elf->search, (gs_ptx_span){at, gs_min_u64(size, end - at)});
    }
    return code;
}

static gs_code search_all_sections(const struct elf *elf) {
    gs_code code = GS_OK;
    for (uint64_t i = 1; i < elf->sections && code == GS_OK; i++) {
        Elf64_Shdr section = section_at(elf, i);
        if (section.sh_type == SHT_PROGBITS && !is_named(elf, &section, ".nv_fatbin") &&
            !is_named(elf, &section, "__nv_relfatbin"))
            code = search_section(elf, &section);
    }
    return code;
}

static gs_code read_elf(const gs_ptx_search *search, gs_ptx_span span) {
    struct elf elf = {.search = search, .file = span};
    gs_code code = open_elf(&elf);
    if (code == GS_OK && elf.header.e_machine == EM_CUDA_GPU)
        code = gs_ptx_cubin(search, search->bytes + span.at, span.size);
    size_t before = search->texts->count;
    if (code == GS_OK && elf.sections)
        code = read_fatbin_sections(&elf);
    if (code == GS_OK && elf.sections && search->texts->count == before)
        code = search_all_sections(&elf);
    return code;
}

/* ---- static libraries ---- */

static const char archive_magic[] = "!<arch>\n", thin_magic[] = "!<thin>\n";

enum { MAGIC_BYTES = 8, MEMBER_HEADER = 60, NAME_BYTES = 16, SIZE_AT = 48, SIZE_DIGITS = 10, MARK_AT = 58 };

struct archive {
    const gs_ptx_search *search;
    gs_ptx_span long_names; /* the member "//" */
};

static bool read_decimal(const char *digits, size_t count, size_t *value) {
    size_t i = 0;
    for (*value = 0; i < count && digits[i] >= '0' && digits[i] <= '9'; i++)
        *value = *value * 10 + (size_t)(digits[i] - '0');
    return i > 0;
}

/* The name of a member: "name/", "/123" (in the list of long names), or "#1/12" (in its first 12 bytes, which are taken
   off `content`). */
static void read_name(const struct archive *archive, const char *header, gs_ptx_span *content, char *name,
                      size_t size) {
    const char *from = header;
    size_t length = NAME_BYTES, at;
    if (header[0] == '/' && read_decimal(header + 1, NAME_BYTES - 1, &at) && at < archive->long_names.size) {
        from = archive->search->bytes + archive->long_names.at + at;
        length = archive->long_names.size - at;
    } else if (memcmp(header, "#1/", 3) == 0 && read_decimal(header + 3, NAME_BYTES - 3, &at) && at <= content->size) {
        from = archive->search->bytes + content->at;
        length = at;
        *content = (gs_ptx_span){content->at + at, content->size - at};
    }
    size_t end = 0;
    while (end < length && end < size - 1 && from[end] && !strchr("/\n", from[end]))
        end++;
    while (end > 0 && from[end - 1] == ' ')
        end--;
    memcpy(name, from, end);
    name[end] = '\0';
}

/* Members without PTX are skipped: a static library may have any files. */
static gs_code read_member(struct archive *archive, const char *header, gs_ptx_span content) {
    char name[200];
    gs_ptx_search search = *archive->search;
    if (memcmp(header, "// ", 3) == 0) {
        archive->long_names = content;
        return GS_OK;
    }
    read_name(archive, header, &content, name, sizeof name);
    const char *bytes = search.bytes + content.at;
    search.member = name;
    if (gs_fatbin_begins(bytes, content.size, NULL))
        return gs_ptx_fatbins(&search, content);
    if (content.size > EI_DATA && memcmp(bytes, ELFMAG, SELFMAG) == 0 && bytes[EI_CLASS] == ELFCLASS64 &&
        bytes[EI_DATA] == ELFDATA2LSB)
        return read_elf(&search, content);
    return GS_OK;
}

static gs_code read_archive(const gs_ptx_search *search, gs_ptx_span span) {
    struct archive archive = {.search = search};
    size_t at = span.at + MAGIC_BYTES, end = span.at + span.size, size;
    gs_code code = GS_OK;
    while (at < end && code == GS_OK) {
        const char *header = search->bytes + at;
        if (end - at < MEMBER_HEADER || memcmp(header + MARK_AT, "`\n", 2) != 0 ||
            !read_decimal(header + SIZE_AT, SIZE_DIGITS, &size) || size > end - at - MEMBER_HEADER)
            return gs_ptx_search_fail(search, "the static library is truncated or damaged at byte %zu", at);
        code = read_member(&archive, header, (gs_ptx_span){at + MEMBER_HEADER, size});
        at += MEMBER_HEADER + size;
        at += size % 2 && at < end;
    }
    return code;
}

/* ---- all kinds ---- */

static gs_code read_ptx(const gs_ptx_search *search, gs_ptx_span span) {
    if (span.size > GS_PTX_TEXT_MOST)
        return gs_ptx_search_fail(search, "the PTX has more than %zu MiB", GS_PTX_TEXT_MOST >> 20);
    gs_ptx_text text = {.text = strndup(search->bytes + span.at, span.size), .offset = span.at};
    if (!text.text)
        return gs_fail_memory(search->error);
    search->texts->groups++;
    return gs_ptx_texts_add(search, &text);
}

static gs_code read_any(const gs_ptx_search *search) {
    gs_ptx_span all = {0, search->size};
    const char *bytes = search->bytes;
    if (gs_fatbin_begins(bytes, all.size, NULL))
        return gs_ptx_fatbins(search, all);
    if (all.size >= SELFMAG && memcmp(bytes, ELFMAG, SELFMAG) == 0)
        return read_elf(search, all);
    if (all.size >= MAGIC_BYTES && memcmp(bytes, archive_magic, MAGIC_BYTES) == 0)
        return read_archive(search, all);
    if (all.size >= MAGIC_BYTES && memcmp(bytes, thin_magic, MAGIC_BYTES) == 0)
        return gs_ptx_search_fail(search,
                                  "a thin static library contains only the names of its objects; give a regular one");
    return gs_ptx_looks_like(bytes, all.size) && !search->take ? read_ptx(search, all) : GS_OK;
}

/* Fails with the reason why a file has no PTX. */
static gs_code say_none(const gs_ptx_search *search) {
    size_t images = search->texts->machine_codes;
    bool is_cubin = search->size > offsetof(Elf64_Ehdr, e_machine) && memcmp(search->bytes, ELFMAG, SELFMAG) == 0 &&
                    (unsigned char)search->bytes[offsetof(Elf64_Ehdr, e_machine)] == EM_CUDA_GPU;
    if (images && is_cubin)
        return gs_ptx_search_fail(search, "this cubin has machine code only, no PTX");
    if (images)
        return gs_ptx_search_fail(search, "this file has machine code only (images: %zu), no PTX", images);
    return gs_ptx_search_fail(search, "the file is neither PTX nor a file that contains PTX");
}

bool gs_ptx_is_source(const char *bytes, size_t size) {
    return !gs_fatbin_begins(bytes, size, NULL) && !(size >= SELFMAG && memcmp(bytes, ELFMAG, SELFMAG) == 0) &&
           !(size >= MAGIC_BYTES && memcmp(bytes, archive_magic, MAGIC_BYTES) == 0) &&
           !(size >= MAGIC_BYTES && memcmp(bytes, thin_magic, MAGIC_BYTES) == 0) && !gs_ptx_looks_like(bytes, size);
}

gs_code gs_ptx_find(const char *name, const char *bytes, size_t size, gs_ptx_texts *texts, gs_error *error) {
    gs_ptx_search search = {.name = name, .bytes = bytes, .size = size, .texts = texts, .error = error};
    *texts = (gs_ptx_texts){0};
    gs_code code = read_any(&search);
    if (code == GS_OK && !texts->count)
        code = say_none(&search);
    if (code != GS_OK)
        gs_ptx_texts_free(texts);
    return code;
}

gs_code gs_ptx_cubins_of_file(const char *path, gs_ptx_take_cubin *take, void *context, gs_error *error) {
    char *bytes;
    gs_ptx_texts none = {0};
    gs_ptx_search search = {
        .name = gs_input_name(path), .texts = &none, .take = take, .context = context, .error = error};
    gs_code code = gs_input_all(path, GS_PTX_FILE_MOST, &bytes, &search.size, error);
    if (code != GS_OK)
        return code;
    search.bytes = bytes;
    code = read_any(&search);
    free(bytes);
    if (code != GS_OK)
        gs_error_name_file(error, search.name);
    return code == GS_OK && !none.machine_codes ? gs_ptx_search_fail(&search, "the file has no machine code") : code;
}

gs_code gs_ptx_find_in_file(const char *path, gs_ptx_texts *texts, gs_error *error) {
    char *bytes;
    size_t size;
    *texts = (gs_ptx_texts){0};
    gs_code code = gs_input_all(path, GS_PTX_FILE_MOST, &bytes, &size, error);
    if (code != GS_OK)
        return code;
    code = gs_ptx_find(gs_input_name(path), bytes, size, texts, error);
    free(bytes);
    return code;
}
