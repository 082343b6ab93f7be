/*
 * fuzz_reshape.c: any bytes as a CUDA source for the tokenizer, the reshaper and the translation for the CPU.
 *
 * Each of them returns a source, or an error with a place in the text. A reshaped source is read again: it has the
 * tokens of the original, and its kernel cannot be reshaped again.
 */
#include "reshape/reshape.h"

#include <stdlib.h>
#include <string.h>

static void check(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

/* The tokens of the original, without those that edits may replace, are in the output in the same order. */
static void check_tokens(const gs_source *source, const gs_source *output) {
    size_t at = 0;
    for (size_t i = 0; i < source->tokens.count; i++) {
        const gs_token *token = &source->tokens.data[i];
        const char *text = source->text + token->at;
        bool may_go = token->mark == 'S' || (token->length == 4 && memcmp(text, "void", 4) == 0) ||
                      (token->length >= 7 && (memcmp(text, "gridDim", 7) == 0 || memcmp(text, "blockId", 7) == 0)) ||
                      (token->length >= 13 && memcmp(text, "__syncthreads", 13) == 0);
        if (may_go)
            continue;
        while (at < output->tokens.count &&
               (output->tokens.data[at].length != token->length ||
                memcmp(output->text + output->tokens.data[at].at, text, token->length) != 0))
            at++;
        check(at++ < output->tokens.count, "nothing of the source is lost");
    }
}

static void reshape(const gs_source *source, const char *kernel, enum gs_form form, bool is_alone) {
    gs_reshape_options options = {.form = form, .is_alone = is_alone};
    gs_text text = {0};
    gs_error error = {.code = GS_OK};
    gs_source output;
    gs_code code = gs_reshape(source, kernel, &options, &text, &error);
    if (code == GS_OK) {
        check(gs_source_read(&output, "output", text.data, text.count, &error) == GS_OK, "what comes out can be read");
        if (!is_alone)
            check_tokens(source, &output);
        gs_text again = {0};
        check(gs_reshape(&output, kernel, &options, &again, &error) != GS_OK, "a kernel is reshaped once");
        gs_text_free(&again);
        gs_source_free(&output);
    } else {
        check(error.code == code && error.message[0], "an error has words");
        check(code != GS_E_REFUSED || error.line > 0, "a refusal has a place");
    }
    gs_text_free(&text);
}

static void translate(const char *text, size_t size) {
    static const char *const kernels[] = {"trap"};
    gs_build build = {.name = "fuzz", .text = text, .size = size, .kernels = kernels, .kernel_count = 1};
    gs_text output = {0};
    gs_host_translate(&build, &output, NULL);
    gs_text_free(&output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gs_source source;
    gs_error error;
    gs_text report = {0};
    gs_report_counts counts;
    gs_reshape_options options = {.form = GS_FORM_PERSISTENT};
    if (gs_source_read(&source, "fuzz", (const char *)data, size, &error) != GS_OK) {
        check(error.line > 0 && error.message[0], "what is wrong has a place");
        return 0;
    }
    reshape(&source, "trap", GS_FORM_PERSISTENT, false);
    reshape(&source, "trap", GS_FORM_CONFINED, false);
    reshape(&source, "trap", GS_FORM_CONFINED, true);
    check(gs_reshape_report(&source, &options, &counts, &report, &error) == GS_OK, "every source has a report");
    json_t *parsed = json_loadb(report.data, report.count, JSON_REJECT_DUPLICATES, NULL);
    check(parsed != NULL, "the report is JSON");
    json_decref(parsed);
    translate((const char *)data, size);
    gs_text_free(&report);
    gs_source_free(&source);
    return 0;
}
