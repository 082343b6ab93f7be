/*
 * fuzz_source.c: any bytes as a CUDA source for the tokenizer and the elastic forms.
 *
 * Every text has tokens. An elastic form has as many tokens as the original, and
 * differs from it in numbers only.
 */
#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

static void check(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

static bool same_token(const gs_source *first, const gs_token *a, const gs_source *second, const gs_token *b) {
    return a->length == b->length && memcmp(first->text + a->at, second->text + b->at, a->length) == 0;
}

/* The form begins with a comment and "#line 1 NAME", which has four tokens. */
static void check_form(const gs_source *source, const gs_variant *variant) {
    enum { HEAD = 4 };
    gs_source form;
    gs_error error;
    check(gs_source_read(&form, "form", variant->text.data, variant->text.count, &error) == GS_OK,
          "what comes out can be read");
    check(form.tokens.count == source->tokens.count + HEAD, "nothing is lost, and nothing added");
    for (size_t i = 0; i < source->tokens.count; i++) {
        const gs_token *old = &source->tokens.data[i], *new = &form.tokens.data[i + HEAD];
        check(old->kind == new->kind && (old->kind == GS_TOKEN_NUMBER || same_token(source, old, &form, new)),
              "only numbers change");
    }
    gs_source_free(&form);
}

static void make_elastic(const gs_source *source) {
    for (uint32_t number = 0; number < GS_ELASTIC_GUESSES; number++) {
        gs_variant variant = {.kernel = "trap<64>", .grid = {9, 1, 1}, .block = {64, 4, 1}, .shared_bytes = 512};
        if (!gs_elastic_guess(source, number % 2 ? 2 : 4, number, &variant))
            continue;
        check_form(source, &variant);
        gs_text_free(&variant.text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gs_source source;
    gs_error error;
    check(gs_source_read(&source, "fuzz", (const char *)data, size, &error) == GS_OK, "every text has tokens");
    make_elastic(&source);
    gs_source_free(&source);
    return 0;
}
