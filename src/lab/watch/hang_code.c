/*
 * hang_code.c: what the code of kernels can wait for.
 *
 * The page has the addresses of the images that the process loaded; the images are read from its memory, until all
 * kernels are found. They are fatbins, cubins, or PTX texts. What is not there any more, or is something else, leaves
 * the answer open.
 */
#define _GNU_SOURCE
#include "hang.h"
#include "kernels/ptx/ptx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <zstd.h>

enum { MOST_IMAGE = 64 << 20, MOST_TEXT = 16 << 20, PART = 4096, MOST_FUNCTIONS = 64 };
#define MOST_NS 5000000000 /* what is not read by then stays unknown */

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

/* What instructions of a kernel tell, without the functions that it calls. */
static unsigned code_of_statements(const gs_ptx_module *module, const gs_ptx_function *function) {
    unsigned found = GS_SASS_CODE_KNOWN | GS_SASS_CODE_LOOPS;
    for (uint32_t i = 0; i < function->statement_count; i++) {
        const gs_ptx_statement *statement = &module->statements.data[function->statements + i];
        if (statement->kind != GS_PTX_INSTRUCTION)
            continue;
        gs_ptx_wait waits = (gs_ptx_wait)gs_ptx_row(statement)->waits;
        if (waits == GS_PTX_WAITS_MBARRIER ||
            (gs_ptx_reads(module, statement) & GS_PTX_IN_SHARED && gs_ptx_is_strong(module, statement)))
            found |= GS_SASS_CODE_POLLS_SHARED;
        else if (waits == GS_PTX_WAITS_BLOCK || waits == GS_PTX_WAITS_CLUSTER || waits == GS_PTX_WAITS_KERNEL)
            found |= GS_SASS_CODE_AT_BARRIERS;
        if (gs_ptx_reads(module, statement) & GS_PTX_IN_GLOBAL && gs_ptx_is_strong(module, statement))
            found |= GS_SASS_CODE_READS;
        if (statement->opcode == GS_PTX_CALL || statement->opcode == GS_PTX_UNKNOWN)
            found |= GS_SASS_CODE_CALLS;
    }
    return found;
}

static unsigned code_of_text(const char *text, size_t size, const char *kernel) {
    gs_ptx_module module;
    gs_error none = {.code = GS_OK};
    uint32_t statement;
    unsigned found = 0;
    if (!memmem(text, size, kernel, strlen(kernel)) || gs_ptx_read(&module, "", text, size, &none) != GS_OK)
        return found;
    uint32_t function = gs_ptx_find_entry(&module, kernel);
    if (function != GS_PTX_NONE && gs_ptx_waits_for_memory(&module, function, &statement, &none) == GS_OK)
        found = code_of_statements(&module, &module.functions.data[function]) |
                (statement == GS_PTX_NONE ? 0 : GS_SASS_CODE_WAITS | GS_SASS_CODE_TELLS);
    gs_ptx_free(&module);
    return found;
}

/* The functions whose code is wanted, and what was found. */
struct wanted {
    const gs_watch_function *function;
    unsigned code;
};

static size_t find_wanted(const gs_hang *hang, struct wanted *wanted) {
    size_t count = 0;
    for (size_t i = 0; i < hang->kernels.count && count < MOST_FUNCTIONS; i++) {
        const gs_watch_function *function = hang->kernels.data[i].function;
        size_t k = 0;
        while (k < count && wanted[k].function != function)
            k++;
        if (k == count && function && function->name[0])
            wanted[count++] = (struct wanted){function, 0};
    }
    return count;
}

/* Looks for functions in the image at an address. Returns how many are still missing. */
static size_t look_in_image(int process, uint64_t address, int architecture, struct wanted *wanted, size_t count) {
    size_t size = 0, missing = 0, at = 0;
    char *image = read_image(process, address, &size);
    char *text = image ? NULL : read_text(process, address, &size);
    for (size_t i = 0; i < count; i++) {
        const char *name = wanted[i].function->name;
        if (!wanted[i].code && text)
            wanted[i].code = code_of_text(text, size, name);
        else if (!wanted[i].code && image)
            wanted[i].code = gs_sass_code_of(image, size, architecture, name, ZSTD_decompress, &at);
        missing += !wanted[i].code;
    }
    free(text);
    free(image);
    return missing;
}

void gs_hang_read_code(gs_hang *hang) {
    const gs_watch_page *page = hang->page;
    struct wanted wanted[MOST_FUNCTIONS];
    int architecture = hang->gpu ? gs_gpu_architecture(hang->gpu) : 0;
    uint32_t images = (uint32_t)gs_min(atomic_load(&page->image_count), GS_WATCH_IMAGES);
    size_t count = find_wanted(hang, wanted), missing = architecture ? count : 0;
    int64_t until = gs_now_ns() + MOST_NS;
    for (uint32_t i = 0; i < images && missing && gs_now_ns() < until; i++)
        missing = look_in_image(page->process, page->images[i], architecture, wanted, count);
    for (size_t i = 0; i < hang->kernels.count; i++)
        for (size_t k = 0; k < count; k++)
            if (wanted[k].function == hang->kernels.data[i].function)
                hang->kernels.data[i].code = wanted[k].code;
    gs_hang_find_heads(hang);
}
