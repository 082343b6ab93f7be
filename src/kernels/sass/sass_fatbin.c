/*
 * sass_fatbin.c: fatbins: cubins and PTX for several architectures in one image. See sass.h.
 *
 * A fatbin is a header and a list of entries: PTX or machine code, each for one architecture. All numbers are little
 * endian. The format is not documented; this describes the output of fatbinary of CUDA 13.0.
 *
 *   header   0 magic (4 bytes), 4 version (2), 6 bytes of the header (2), 8 bytes of all entries (8)
 *   entry    0 kind (2), 4 bytes of the entry's header (4), 8 bytes of what follows it (8), padded to 8
 *            16 bytes without the padding, if compressed (4), 20 where the options are (4), 28 architecture (4)
 *            32 where the name is (4), 36 length of the name (4), 40 flags (8), 56 bytes when expanded (8)
 *   options  0 where the text is (4), 4 its length (4)
 *   wrapper  0 magic (4), 4 version (4), 8 the address of a fatbin (8), 16 an address: what the CUDA runtime passes on
 *
 * Offsets count from the first byte of the entry. Entries are compressed by LZ4 or by Zstandard, as the flags say (nvcc
 * --compress-mode). Older toolkits had a compression of their own, which is refused.
 *
 * Of the cubins that run on a GPU the driver takes the one with the highest architecture; of sm_90 and sm_90a, the one
 * made for this GPU alone. Libraries are built so that they depend on that.
 */
#include "sass.h"

#include <stdlib.h>

#define FATBIN_MAGIC  0xBA55ED50u
#define WRAPPER_MAGIC 0x466243b1u

enum { FATBIN_HEADER = 16, ENTRY_HEADER = 64, ELF_HEADER = 64, ELF_SECTION = 64, ELF_SEGMENT = 56, NO_BYTES = 8 };
enum { FLAG_OLD_COMPRESSION = 0x1000, FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000 };
enum { FLAG_ONE_GPU = 0x100000, FLAG_FAMILY = 0x200000 }; /* sm_100a, which runs there alone; sm_100f */
enum { RELOCATABLE = 1, TYPE_AT = 16 };                   /* in the header of a cubin */
enum { NOT_HERE = -1 };

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

/* ---- entries ---- */

bool gs_fatbin_begins(const char *bytes, size_t size, size_t *whole) {
    if (size < FATBIN_HEADER || read_word(bytes) != FATBIN_MAGIC)
        return false;
    uint64_t head = read_number(bytes + 6, 2), entries = read_number(bytes + 8, 8);
    bool is_whole = head >= FATBIN_HEADER && head <= size && entries <= size - head;
    if (whole)
        *whole = head + (is_whole ? entries : 0);
    return is_whole || !whole;
}

size_t gs_fatbin_first(const char *bytes) {
    return read_number(bytes + 6, 2);
}

bool gs_fatbin_entry_at(const char *bytes, size_t at, size_t end, gs_fatbin_entry *entry) {
    if (end - at < ENTRY_HEADER)
        return false;
    bytes += at;
    *entry = (gs_fatbin_entry){.at = at,
                               .head = read_word(bytes + 4),
                               .size = read_number(bytes + 8, 8),
                               .kind = (uint32_t)read_number(bytes, 2),
                               .packed_size = read_word(bytes + 16),
                               .options_at = read_word(bytes + 20),
                               .architecture = read_word(bytes + 28),
                               .name_at = read_word(bytes + 32),
                               .name_size = read_word(bytes + 36),
                               .flags = read_number(bytes + 40, 8),
                               .expanded_size = read_number(bytes + 56, 8)};
    return entry->head >= ENTRY_HEADER && entry->head <= end - at && entry->size <= end - at - entry->head;
}

/* ---- their contents ---- */

static bool expand_into(const gs_fatbin_entry *entry, const char *from, size_t size, gs_expand *zstd, char *into,
                        size_t into_size) {
    if (entry->flags & FLAG_ZSTD)
        return zstd(into, into_size, from, size) == into_size;
    if (entry->flags & FLAG_LZ4)
        return gs_fatbin_lz4((const unsigned char *)from, size, (unsigned char *)into, into_size);
    memcpy(into, from, into_size);
    return size == into_size;
}

gs_code gs_fatbin_expand(const char *bytes, const gs_fatbin_entry *entry, size_t most, gs_expand *zstd, char **content,
                         size_t *content_size, gs_error *error) {
    const char *kind = entry->kind == GS_FATBIN_PTX ? "PTX" : "cubin";
    bool is_packed = entry->flags & (FLAG_LZ4 | FLAG_ZSTD);
    uint64_t size = is_packed ? entry->packed_size : entry->size,
             into_size = is_packed ? entry->expanded_size : entry->size;
    if (entry->flags & FLAG_OLD_COMPRESSION)
        return gs_fail(error, GS_E_FORMAT, "the %s at byte %zu has an unknown compression (flags 0x%llx)", kind,
                       entry->at, (unsigned long long)entry->flags);
    if (into_size > most)
        return gs_fail(error, GS_E_FORMAT, "the %s at byte %zu has more than %zu MiB", kind, entry->at, most >> 20);
    if (size > entry->size)
        return gs_fail(error, GS_E_FORMAT, "the compressed %s at byte %zu is damaged", kind, entry->at);
    if (entry->flags & FLAG_ZSTD && !zstd)
        return gs_fail(error, GS_E_REFUSED, "the %s at byte %zu is compressed by Zstandard, which is not installed",
                       kind, entry->at);
    char *into = malloc(into_size + 1);
    if (!into)
        return gs_fail_memory(error);
    into[into_size] = '\0';
    if (!expand_into(entry, bytes + entry->at + entry->head, size, zstd, into, into_size)) {
        free(into);
        return gs_fail(error, GS_E_FORMAT, "the compressed %s at byte %zu is damaged", kind, entry->at);
    }
    *content = into;
    *content_size = into_size;
    return GS_OK;
}

/* ---- images that are given as an address ---- */

const void *gs_fatbin_unwrap(const void *image) {
    const void *inside;
    if (read_word(image) != WRAPPER_MAGIC)
        return image;
    memcpy(&inside, (const char *)image + 8, sizeof inside);
    return inside;
}

static size_t elf_bytes(const char *bytes) {
    uint64_t sections = read_number(bytes + 40, 8), count = read_number(bytes + 60, 2),
             segments = read_number(bytes + 32, 8) + read_number(bytes + 56, 2) * ELF_SEGMENT;
    count = count || !sections ? count : read_number(bytes + sections + 32, 8);
    uint64_t end = gs_max_u64(ELF_HEADER, gs_max_u64(segments, sections + count * ELF_SECTION));
    for (uint64_t i = 0; i < count; i++) {
        const char *head = bytes + sections + i * ELF_SECTION;
        uint32_t type = read_word(head + 4);
        if (type && type != NO_BYTES)
            end = gs_max_u64(end, read_number(head + 24, 8) + read_number(head + 32, 8));
    }
    return end;
}

size_t gs_fatbin_bytes(const void *image) {
    const char *bytes = image;
    if (read_word(bytes) == FATBIN_MAGIC)
        return gs_fatbin_first(bytes) + read_number(bytes + 8, 8);
    return memcmp(bytes, "\177ELF\2\1", 6) == 0 ? elf_bytes(bytes) : 0;
}

/* ---- the cubin of a kernel ---- */

static bool runs_on(int architecture, int gpu) {
    return architecture / 10 == gpu / 10 && architecture <= gpu;
}

/* Cubins with a higher number come first; NOT_HERE: it is none, or does not run on this GPU. */
static int64_t rank_entry(const gs_fatbin_entry *entry, int gpu) {
    bool is_one = entry->flags & FLAG_ONE_GPU, is_family = entry->flags & FLAG_FAMILY;
    int architecture = (int)gs_min_u64(entry->architecture, INT32_MAX);
    if (entry->kind != GS_FATBIN_CUBIN || !runs_on(architecture, gpu) || (is_one && architecture != gpu))
        return NOT_HERE;
    return 4 * (int64_t)architecture + (is_one ? 2 : is_family);
}

/* The entry after `last`, by rank and then by place; the first one after a rank of INT64_MAX. Its rank, or NOT_HERE. */
static gs_code next_by_rank(const char *bytes, size_t size, int gpu, gs_fatbin_entry *last, int64_t *rank,
                            gs_error *error) {
    int64_t best = NOT_HERE;
    gs_fatbin_entry entry, chosen = {0};
    for (size_t at = gs_fatbin_first(bytes); at < size; at += entry.head + entry.size) {
        if (!gs_fatbin_entry_at(bytes, at, size, &entry))
            return gs_fail(error, GS_E_FORMAT, "the fatbin is truncated or damaged at byte %zu", at);
        int64_t here = rank_entry(&entry, gpu);
        if (here > best && (here < *rank || (here == *rank && at > last->at))) {
            best = here;
            chosen = entry;
        }
    }
    *last = chosen;
    *rank = best;
    return GS_OK;
}

/* Takes a cubin if it has the kernel. From sm_100 on a cubin has its code a second time, in a form which the driver
   can translate for another GPU of its family. A guard would not be in that code. */
static gs_code take_cubin(const char *bytes, size_t size, int gpu, const char *kernel, gs_text *into, bool *is_taken,
                          gs_error *error) {
    gs_sass_image image;
    gs_code code = gs_sass_read(&image, bytes, size, error);
    if (code == GS_OK && bytes[TYPE_AT] != RELOCATABLE && gs_sass_find(&image, ".text.", kernel)) {
        int architecture = gs_sass_architecture(&image);
        if (!runs_on(architecture, gpu))
            code = gs_fail(error, GS_E_REFUSED, "the cubin is for sm_%d, not for sm_%d", architecture, gpu);
        else if (architecture != gpu && gs_sass_find(&image, ".nv.capmerc.text.", kernel))
            code = gs_fail(error, GS_E_REFUSED, "the driver may translate the cubin for sm_%d to sm_%d", architecture,
                           gpu);
        else
            gs_text_put(into, bytes, size);
        *is_taken = true;
    }
    gs_sass_free(&image);
    return code == GS_OK && into->failed ? gs_fail_memory(error) : code;
}

static gs_code find_in_fatbin(const char *bytes, size_t size, int gpu, const char *kernel, gs_expand *zstd,
                              gs_text *into, bool *is_taken, gs_error *error) {
    gs_fatbin_entry entry = {0};
    gs_code code = GS_OK;
    for (int64_t rank = INT64_MAX; code == GS_OK && !*is_taken;) {
        char *content;
        size_t content_size;
        code = next_by_rank(bytes, size, gpu, &entry, &rank, error);
        if (code != GS_OK || rank == NOT_HERE)
            break;
        code = gs_fatbin_expand(bytes, &entry, GS_CUBIN_MOST, zstd, &content, &content_size, error);
        if (code != GS_OK)
            break;
        code = take_cubin(content, content_size, gpu, kernel, into, is_taken, error);
        free(content);
    }
    return code;
}

gs_code gs_fatbin_find_cubin(const void *bytes, size_t size, int architecture, const char *kernel, gs_expand *zstd,
                             gs_text *into, gs_error *error) {
    bool is_taken = false;
    size_t whole;
    gs_code code = gs_fatbin_begins(bytes, size, &whole)
                       ? find_in_fatbin(bytes, whole, architecture, kernel, zstd, into, &is_taken, error)
                       : take_cubin(bytes, size, architecture, kernel, into, &is_taken, error);
    if (code != GS_OK || is_taken)
        return code;
    return gs_fail(error, GS_E_REFUSED, "no cubin for sm_%d has the kernel %s", architecture, kernel);
}
