/*
 * hang_code.c: whether the code of a kernel waits for memory.
 *
 * The page has the addresses of the images that the process loaded; the images are read from its memory, until one has
 * the kernel. What is not there any more, or has no machine code, leaves the answer open.
 */
#define _GNU_SOURCE
#include "hang.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <zstd.h>

enum { MOST_IMAGE = 64 << 20 };

/* What the CUDA runtime passes on, which has the address of a fatbin; and a fatbin. */
#define WRAPPER 0x466243b1u
#define FATBIN  0xba55ed50u

static bool read_memory(int process, uint64_t address, void *into, size_t count) {
    struct iovec here = {into, count}, there = {(void *)(uintptr_t)address, count};
    return process_vm_readv(process, &here, 1, &there, 1, 0) == (ssize_t)count;
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
        unsigned char elf[64];
        uint64_t sections;
        uint16_t count, bytes;
        if (!read_memory(process, address, elf, sizeof elf) || memcmp(elf, "\177ELF", 4) != 0)
            return NULL;
        memcpy(&sections, elf + 40, sizeof sections);
        memcpy(&bytes, elf + 58, sizeof bytes);
        memcpy(&count, elf + 60, sizeof count);
        *size = (size_t)(sections + (uint64_t)count * bytes);
    }
    char *image = *size && *size <= MOST_IMAGE ? malloc(*size) : NULL;
    if (image && read_memory(process, address, image, *size))
        return image;
    free(image);
    return NULL;
}

static void read_kernel_code(const gs_hang *hang, int architecture, gs_hang_kernel *kernel) {
    const gs_watch_page *page = hang->page;
    uint32_t count = (uint32_t)gs_min(atomic_load(&page->image_count), GS_WATCH_IMAGES);
    for (uint32_t i = 0; i < count && kernel->code == GS_SASS_CODE_UNKNOWN; i++) {
        size_t size = 0;
        char *image = read_image(page->process, page->images[i], &size);
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
