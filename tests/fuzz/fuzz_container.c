/*
 * fuzz_container.c: any bytes as a file that may contain PTX.
 *
 * Either there are texts, each with .version and a target, or there is an error with words and the name of the file.
 */
#include "fuzz.h"

#include "kernels/ptx/ptx_input.h"

static void check_text(const gs_ptx_texts *texts, const gs_ptx_text *text, size_t size) {
    check_holds(strlen(text->text) == text->size, "a text has no NUL in it");
    check_holds(gs_ptx_looks_like(text->text, text->size), "a text is PTX");
    check_holds(text->architecture > 0 && strncmp(text->target, "sm_", 3) == 0, "a text has a target");
    check_holds(text->offset <= size && text->group < texts->groups, "a text was found in the file");
    const gs_ptx_text *best = gs_ptx_texts_best(texts, text->group, text->architecture);
    check_holds(!best || best->architecture <= text->architecture, "the best text is not above the GPU");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gs_ptx_texts texts;
    gs_error error = {.code = GS_OK};
    gs_code code = gs_ptx_find("fuzz", (const char *)data, size, &texts, &error);
    check_holds(code == error.code && (code == GS_OK) == (texts.count > 0), "there are texts or there is an error");
    check_holds(code == GS_OK || code == GS_E_MEMORY || (error.message[0] && strcmp(error.file, "fuzz") == 0),
                "an error has words and a file");
    for (size_t i = 0; i < texts.count; i++)
        check_text(&texts, &texts.data[i], size);
    gs_ptx_texts_free(&texts);
    return 0;
}
