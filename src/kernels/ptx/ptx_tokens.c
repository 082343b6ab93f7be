/*
 * ptx_tokens.c: PTX as tokens. See ptx.h.
 *
 * An opcode is one token with all its suffixes, "ld.global.v4.f32", and so is a part of a register, "%tid.x". A token
 * knows whether it begins a line, because a .loc ends where its line ends. Comments and blanks are between tokens.
 */
#include "ptx_parser.h"

#include <ctype.h>
#include <stdarg.h>

static bool is_name(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

gs_code gs_ptx_fail(const gs_ptx_module *module, uint32_t token, gs_error *error, gs_code code, const char *format,
                    ...) {
    va_list arguments;
    va_start(arguments, format);
    gs_fail_list(error, code, format, arguments);
    va_end(arguments);
    if (error)
        snprintf(error->file, sizeof error->file, "%s", module->name);
    size_t at = token < module->tokens.count ? module->tokens.data[token].at : module->size;
    gs_error_place(error, module->text, module->size, at, 1, 1);
    return code;
}

bool gs_ptx_token_is(const gs_ptx_module *module, uint32_t token, const char *word) {
    if (token >= module->tokens.count)
        return false;
    const gs_ptx_token *found = &module->tokens.data[token];
    return found->kind != GS_PTX_STRING && found->length == strlen(word) &&
           memcmp(module->text + found->at, word, found->length) == 0;
}

char gs_ptx_mark(const gs_ptx_module *module, uint32_t token) {
    if (token >= module->tokens.count || module->tokens.data[token].kind != GS_PTX_MARK)
        return 0;
    return module->text[module->tokens.data[token].at];
}

char *gs_ptx_token_text(const gs_ptx_module *module, uint32_t token, char *into, size_t size) {
    const gs_ptx_token *found = &module->tokens.data[token];
    snprintf(into, size, "%.*s", (int)found->length, module->text + found->at);
    return into;
}

/* ---- reading ---- */

struct reader {
    const char *text;
    size_t size, at;
    bool line_is_fresh;
    const char *complaint;
};

static char peek(const struct reader *reader, size_t ahead) {
    return reader->at + ahead < reader->size ? reader->text[reader->at + ahead] : '\0';
}

static void skip_line(struct reader *reader) {
    while (reader->at < reader->size && reader->text[reader->at] != '\n')
        reader->at++;
}

static bool skip_comment(struct reader *reader) {
    for (reader->at += 2; reader->at < reader->size; reader->at++) {
        if (peek(reader, 0) == '*' && peek(reader, 1) == '/') {
            reader->at += 2;
            return true;
        }
        reader->line_is_fresh = reader->line_is_fresh || peek(reader, 0) == '\n';
    }
    reader->complaint = "this comment does not end";
    return false;
}

/* Blanks and comments. False: a comment does not end; `at` is its first byte. */
static bool skip_blanks(struct reader *reader) {
    while (reader->at < reader->size) {
        char c = peek(reader, 0);
        size_t comment = reader->at;
        if (c == '\n')
            reader->line_is_fresh = true;
        if (c == '/' && peek(reader, 1) == '/') {
            skip_line(reader);
        } else if (c == '/' && peek(reader, 1) == '*') {
            if (!skip_comment(reader)) {
                reader->at = comment;
                return false;
            }
        } else if (isspace((unsigned char)c)) {
            reader->at++;
        } else {
            return true;
        }
    }
    return true;
}

/* The rest of a word: names joined by "." and "::". */
static void skip_word(struct reader *reader) {
    for (;;) {
        while (is_name(peek(reader, 0)))
            reader->at++;
        if (peek(reader, 0) == '.' && is_name(peek(reader, 1)))
            reader->at++;
        else if (peek(reader, 0) == ':' && peek(reader, 1) == ':' && is_name(peek(reader, 2)))
            reader->at += 2;
        else
            return;
    }
}

static void skip_directive(struct reader *reader) {
    for (reader->at++; is_name(peek(reader, 0)); reader->at++)
        ;
    while (peek(reader, 0) == ':' && peek(reader, 1) == ':' && is_name(peek(reader, 2)))
        for (reader->at += 2; is_name(peek(reader, 0)); reader->at++)
            ;
}

static void skip_number(struct reader *reader) {
    bool is_decimal = true;
    if (peek(reader, 0) == '0' && isalpha((unsigned char)peek(reader, 1)))
        is_decimal = false;
    for (;;) {
        char c = peek(reader, 0);
        bool has_sign = is_decimal && (c == 'e' || c == 'E') && (peek(reader, 1) == '-' || peek(reader, 1) == '+');
        if (has_sign)
            reader->at += 2;
        else if (isalnum((unsigned char)c) || (c == '.' && isdigit((unsigned char)peek(reader, 1))))
            reader->at++;
        else
            return;
    }
}

static bool skip_string(struct reader *reader) {
    size_t start = reader->at++;
    while (reader->at < reader->size && peek(reader, 0) != '"' && peek(reader, 0) != '\n')
        reader->at += peek(reader, 0) == '\\' ? 2 : 1;
    if (reader->at < reader->size && peek(reader, 0) == '"') {
        reader->at++;
        return true;
    }
    reader->at = start;
    reader->complaint = "this string does not end";
    return false;
}

static bool read_token(struct reader *reader, gs_ptx_token *token) {
    char c = peek(reader, 0);
    size_t start = reader->at;
    bool is_well = true;
    token->kind = GS_PTX_WORD;
    token->begins_line = reader->line_is_fresh;
    reader->line_is_fresh = false;
    if (isalpha((unsigned char)c) || c == '_' || c == '$' || (c == '%' && is_name(peek(reader, 1)))) {
        reader->at++;
        skip_word(reader);
    } else if (c == '.' && is_name(peek(reader, 1))) {
        token->kind = GS_PTX_DIRECTIVE;
        skip_directive(reader);
    } else if (isdigit((unsigned char)c)) {
        token->kind = GS_PTX_NUMBER;
        skip_number(reader);
    } else if (c == '"') {
        token->kind = GS_PTX_STRING;
        is_well = skip_string(reader);
    } else if (c > ' ' && c < 0x7f) {
        token->kind = GS_PTX_MARK;
        reader->at++;
    } else {
        reader->complaint = "PTX has no such character";
        is_well = false;
    }
    token->at = (uint32_t)start;
    token->length = (uint32_t)(reader->at - start);
    return is_well;
}

gs_code gs_ptx_tokenize(gs_ptx_module *module, gs_error *error) {
    struct reader reader = {.text = module->text, .size = module->size, .line_is_fresh = true};
    while (skip_blanks(&reader) && reader.at < reader.size) {
        if (!GS_RESERVE(&module->tokens, 1))
            return gs_fail_memory(error);
        if (!read_token(&reader, &module->tokens.data[module->tokens.count]))
            break;
        module->tokens.count++;
    }
    if (!reader.complaint)
        return GS_OK;
    gs_ptx_fail(module, GS_PTX_NONE, error, GS_E_SYNTAX, "%s", reader.complaint);
    gs_error_place(error, module->text, module->size, reader.at, 1, 1);
    return GS_E_SYNTAX;
}
