/*
 * hang_code.c: whether the code of a kernel waits for memory.
 *
 * The page has the addresses of the images that the process loaded; the images are read from its memory, until one has
 * the kernel. They are fatbins, cubins, or PTX texts. What is not there any more, or is something else, leaves the
 * answer open.
 */
#define _GNU_SOURCE
#include "hang.h"
#include "kernels/ptx/ptx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <zstd.h>

enum { MOST_IMAGE = 64 << 20, MOST_TEXT = 16 << 20, PART = 4096 };

/* What the CUDA runtime passes on, which has the address of a fatbin; and a fatbin. */
#define WRAPPER 0x466243b1u
#define FATBIN  0xba55ed50u

static bool read_memory(int process, uint64_t address, void *into, size_t count) {
    struct iovec here = {into, count}, there = {(void *)(uintptr_t)address, count};
    return process_vm_readv(process, &here, 1, &there, 1, 0) == (ssize_t)count;
}

/* The size of a cubin: its last headers stand at its end. 0: not readable, or not a cubin. */
static size_t size_of_cubin(int process, uint64_t address) {
    unsigned char elf[64];
    uint64_t sections, programs;
    uint16_t counts[5]; /* the header's size, then those of programs and sections, each with its count */
    if (!read_memory(process, address, elf, sizeof elf) || memcmp(elf, "\177ELF", 4) != 0)
        return 0;
    memcpy(&programs, elf + 32, sizeof programs);
    memcpy(&sections, elf + 40, sizeof sections);
    memcpy(counts, elf + 52, sizeof counts);
    return (size_t)gs_max_u64(programs + (uint64_t)counts[1] * counts[2], sections + (uint64_t)counts[3] * counts[4]);
}

/* The bytes of a fatbin, or of a cubin alone. The caller frees them. NULL: neither, or not readable. */
static char *read_image(int process, uint64_t address, size_t *size) {
    struct {
        uint32_t magic, other;
        uint64_t at;
    } head;
    if (!read_memory(process, address, &head, sizeof head))
        return NULL;
    if (head.magic == WRAPPER) {
        address = head.at;
        if (!read_memory(process, address, &head, sizeof head))
            return NULL;
    }
    if (head.magic == FATBIN) {
        *size = (size_t)(head.at + (head.other >> 16)); /* of its entries, and of its head */
    } else {
        *size = size_of_cubin(process, address);
    }
    char *image = *size && *size <= MOST_IMAGE ? malloc(*size) : NULL;
    if (image && read_memory(process, address, image, *size))
        return image;
    free(image);
    return NULL;
}

/* A PTX text, up to its NUL, page by page: what is behind it may not be readable. NULL: not one. The caller frees it.
 */
static char *read_text(int process, uint64_t address, size_t *size) {
    gs_text text = {0};
    char part[PART];
    const char *end = NULL;
    while (!end && text.count < MOST_TEXT && !text.failed) {
        size_t count = PART - (address + text.count) % PART;
        if (!read_memory(process, address + text.count, part, count))
            break;
        end = memchr(part, 0, count);
        gs_text_put(&text, part, end ? (size_t)(end - part) : count);
        if (!gs_ptx_looks_like(text.data, text.count) && (end || text.count >= PART))
            break;
    }
    *size = text.count;
    if (end && !text.failed && text.data && gs_ptx_looks_like(text.data, text.count))
        return text.data;
    gs_text_free(&text);
    return NULL;
}

static gs_sass_code code_of_text(const char *text, size_t size, const char *kernel) {
    gs_ptx_module module;
    gs_error none = {.code = GS_OK};
    uint32_t statement;
    gs_sass_code found = GS_SASS_CODE_UNKNOWN;
    if (!memmem(text, size, kernel, strlen(kernel)) || gs_ptx_read(&module, "", text, size, &none) != GS_OK)
        return found;
    uint32_t function = gs_ptx_find_entry(&module, kernel);
    if (function != GS_PTX_NONE && gs_ptx_waits_for_memory(&module, function, &statement, &none) == GS_OK)
        found = statement == GS_PTX_NONE ? GS_SASS_CODE_RUNS : GS_SASS_CODE_WAITS;
    gs_ptx_free(&module);
    return found;
}

static void read_kernel_code(const gs_hang *hang, int architecture, gs_hang_kernel *kernel) {
    const gs_watch_page *page = hang->page;
    uint32_t count = (uint32_t)gs_min(atomic_load(&page->image_count), GS_WATCH_IMAGES);
    for (uint32_t i = 0; i < count && kernel->code == GS_SASS_CODE_UNKNOWN; i++) {
        size_t size = 0;
        char *image = read_image(page->process, page->images[i], &size);
        char *text = image ? NULL : read_text(page->process, page->images[i], &size);
        if (text)
            kernel->code = code_of_text(text, size, kernel->function->name);
        free(text);
        if (image)
            kernel->code = gs_sass_code_of(image, size, architecture, kernel->function->name, ZSTD_decompress, NULL);
        free(image);
    }
}

void gs_hang_read_code(gs_hang *hang) {
    const char *capability = hang->gpu ? hang->gpu->compute_capability : NULL;
    char *end;
    long major = capability ? strtol(capability, &end, 10) : 0;
    int architecture = major ? (int)(10 * major + (*end == '.' ? strtol(end + 1, NULL, 10) : 0)) : 0;
    for (size_t i = 0; i < hang->kernels.count && architecture; i++) {
        gs_hang_kernel *kernel = &hang->kernels.data[i];
        if (kernel->is_head && kernel->function && kernel->function->name[0])
            read_kernel_code(hang, architecture, kernel);
    }
}
