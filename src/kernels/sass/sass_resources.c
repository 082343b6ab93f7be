/*
 * sass_resources.c: what a block of a kernel needs, as a cubin tells the driver: registers, shared memory, threads. See
 * sass.h.
 *
 * The shared memory that a kernel declares is the section .nv.shared.KERNEL. From sm_90 on the share of the runtime is
 * in it, in front, once the code is linked: the first variable is at 1024. ptxas links, unless it is asked for an
 * object file (-rdc=true), which has the bytes of the kernel alone. nvlink -v prints the whole section for sm_90; ptxas
 * -v does not.
 */
#include "sass.h"

enum {
    MOST_THREADS = 0x05,     /* three words: .maxntid */
    REQUIRED_THREADS = 0x10, /* three words: .reqntid */
    RUNTIME_BYTES = 1024,
    RUNTIME_FROM = 90, /* the first architecture whose sections have it */
    TYPE_AT = 16,      /* in the header of an ELF file: what it is, */
    LINKED = 2         /* such as code that can be loaded */
};

/* The registers, from the list of the whole image, or else from the header of the code. */
static uint32_t registers_of(const gs_sass_image *image, const gs_sass_records *all, uint32_t symbol) {
    for (size_t i = 0; i < all->count; i++) {
        const gs_sass_record *record = &all->data[i];
        if (record->code == GS_SASS_REGISTERS && record->count == 8 && gs_sass_word(&all->bytes, record->at) == symbol)
            return gs_sass_word(&all->bytes, record->at + 4);
    }
    const gs_sass_section *text =
        gs_sass_find(image, ".text.", gs_sass_symbol_name(image, &image->symbols.data[symbol]));
    return text ? text->info >> 24 : 0;
}

static uint32_t threads_of(const gs_sass_records *own) {
    const uint8_t codes[] = {REQUIRED_THREADS, MOST_THREADS};
    for (size_t i = 0; i < GS_COUNT(codes); i++) {
        const gs_sass_record *record = gs_sass_records_find(own, codes[i]);
        if (!record || record->count != 12)
            continue;
        uint64_t threads = gs_sass_word(&own->bytes, record->at);
        for (uint32_t at = 4; at < 12 && threads <= 65536; at += 4)
            threads *= gs_sass_word(&own->bytes, record->at + at);
        return threads <= 65536 ? (uint32_t)threads : 0;
    }
    return 0;
}

gs_code gs_sass_check_block(const gs_sass_records *own, const char *kernel, const uint32_t block[3], gs_error *error) {
    uint32_t only[3], most[3];
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    gs_sass_records_three(own, REQUIRED_THREADS, only);
    gs_sass_records_three(own, MOST_THREADS, most);
    uint64_t most_threads = (uint64_t)most[0] * most[1] * most[2];
    if (only[0] && memcmp(only, block, sizeof only) != 0)
        return gs_fail(error, GS_E_USAGE, "a block of %.200s must be %u x %u x %u threads (.reqntid), not %u x %u x %u",
                       kernel, only[0], only[1], only[2], block[0], block[1], block[2]);
    if (most_threads && threads > most_threads)
        return gs_fail(error, GS_E_USAGE,
                       "a block of %.200s may have at most %llu threads (.maxntid, __launch_bounds__), not %llu",
                       kernel, (unsigned long long)most_threads, (unsigned long long)threads);
    return GS_OK;
}

static uint64_t shared_of(const gs_sass_image *image, const char *kernel) {
    const gs_sass_section *section = gs_sass_find(image, ".nv.shared.", kernel);
    uint64_t bytes = !section ? 0 : section->has_bytes ? section->bytes.count : section->size;
    bool has_runtime = gs_sass_architecture(image) >= RUNTIME_FROM && image->head[TYPE_AT] == LINKED;
    return has_runtime && bytes >= RUNTIME_BYTES ? bytes - RUNTIME_BYTES : bytes;
}

bool gs_sass_is_kernel(const gs_sass_symbol *symbol) {
    return gs_sass_type(symbol) == GS_SASS_FUNCTION && symbol->other & GS_SASS_ENTRY;
}

gs_code gs_sass_resources_of(const gs_sass_image *image, uint32_t symbol, gs_sass_resources *resources,
                             gs_error *error) {
    const char *kernel = gs_sass_symbol_name(image, &image->symbols.data[symbol]);
    const gs_sass_section *about_all = gs_sass_find(image, ".nv.info", ""),
                          *about = gs_sass_find(image, ".nv.info.", kernel);
    gs_sass_records all = {0}, own = {0};
    gs_code code = about_all ? gs_sass_records_read(&all, &about_all->bytes, error) : GS_OK;
    if (code == GS_OK && about)
        code = gs_sass_records_read(&own, &about->bytes, error);
    if (code == GS_OK) {
        *resources = (gs_sass_resources){.registers = registers_of(image, &all, symbol),
                                         .threads = threads_of(&own),
                                         .shared_bytes = shared_of(image, kernel)};
        if (!resources->registers)
            code = gs_fail(error, GS_E_FORMAT, "the cubin does not say how many registers %.200s has", kernel);
    }
    gs_sass_records_free(&all);
    gs_sass_records_free(&own);
    return code;
}
