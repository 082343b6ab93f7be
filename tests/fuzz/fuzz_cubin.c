/*
 * fuzz_cubin.c: any bytes as a fatbin or a cubin.
 *
 * What is found in them, and is read, is guarded with shared variables, and written. What was written is read again,
 * and has the same sections and kernels.
 */
#include "fuzz.h"

#include "kernels/sass/sass.h"

#include <zstd.h>

/* Finds some variables, and others not. */
static bool find_some(void *context, const char *name, uint64_t size, uint64_t *address) {
    (void)context;
    *address = UINT64_C(0x7f0000000000) + size;
    return name[0] != '$';
}

static void check_guarded(const gs_sass_image *image, const gs_guarded_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        const gs_guarded *guarded = &list->data[i];
        check_holds(gs_sass_find(image, ".text.", guarded->kernel), "a kernel has code");
        check_holds(guarded->refused || guarded->registers, "a kernel with a guard has registers");
    }
}

/* What warps at any place wait for. */
static void look_at_code(const gs_sass_image *image) {
    enum { MOST = 4096 };
    char *file = NULL;
    uint32_t line;
    size_t at;
    for (size_t i = 0; i < image->sections.count; i++) {
        const gs_text *code = &image->sections.data[i].bytes;
        for (size_t place = 0; place < code->count && place < MOST; place += 16)
            gs_sass_wait_at(code->data, code->count, gs_sass_architecture(image), place);
        if (code->count)
            gs_sass_code_in(code->data, code->count, gs_sass_architecture(image), &at);
    }
    gs_sass_line(image, 64, &file, &line);
    free(file);
}

static void look_at_kernels(const gs_sass_image *image) {
    for (size_t i = 0; i < image->symbols.count; i++) {
        gs_sass_resources needs;
        gs_error error = {.code = GS_OK};
        if (gs_sass_is_kernel(&image->symbols.data[i]))
            check_holds(gs_sass_resources_of(image, (uint32_t)i, &needs, &error) != GS_OK || needs.registers,
                        "a kernel has registers, or there is an error");
    }
}

static void use_cubin(const char *bytes, size_t size) {
    gs_sass_image image, again = {0};
    gs_guarded_list list = {0};
    gs_text written = {0};
    gs_error error = {.code = GS_OK};
    if (gs_sass_read(&image, bytes, size, &error) == GS_OK) {
        look_at_code(&image);
        look_at_kernels(&image);
        gs_code code = gs_sass_share_variables(&image, NULL, find_some, NULL, &error);
        check_holds(code == GS_OK || error.message[0], "a refusal has words");
        gs_sass_constants constants;
        code = gs_sass_find_constants(&image, find_some, NULL, &constants, &error);
        check_holds(code != GS_OK || constants.begin <= constants.end, "constants lie in their bank");
        if (gs_sass_guard(&image, &list, &error) == GS_OK)
            check_guarded(&image, &list);
        if (gs_sass_write(&image, &written, &error) == GS_OK) {
            check_holds(gs_sass_read(&again, written.data, written.count, &error) == GS_OK,
                        "what is written can be read");
            check_holds(again.sections.count == image.sections.count && again.symbols.count == image.symbols.count,
                        "what is written is what was read");
        }
    } else {
        check_holds(error.message[0], "an error has words");
    }
    gs_sass_free(&image);
    gs_sass_free(&again);
    gs_text_free(&written);
    free(list.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int architectures[] = {80, 90, 103};
    use_cubin((const char *)data, size);
    for (size_t i = 0; i < GS_COUNT(architectures); i++) {
        gs_text cubin = {0};
        gs_error error = {.code = GS_OK};
        gs_code code = gs_fatbin_find_cubin(data, size, architectures[i], "count", ZSTD_decompress, &cubin, &error);
        check_holds(code == error.code && (code == GS_OK) == (cubin.count > 0),
                    "there is a cubin or there is an error");
        if (code == GS_OK)
            use_cubin(cubin.data, cubin.count);
        gs_text_free(&cubin);
    }
    return 0;
}
