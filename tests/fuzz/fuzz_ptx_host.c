/*
 * fuzz_ptx_host.c: any bytes as PTX that is translated for the CPU. Whatever the reader accepts is translated, or
 * refused with words.
 */
#include "fuzz.h"

#include "kernels/cpu/cpu.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    gs_build build = {.name = "fuzz", .text = (const char *)bytes, .size = count};
    gs_text into = {0};
    gs_error error = {.message = ""};
    gs_code code = gs_host_translate_ptx(&build, &into, &error);
    if (code != GS_OK && (error.code != code || !error.message[0]))
        abort();
    (void)gs_build_is_ptx(&build);
    gs_text_free(&into);
    return 0;
}
