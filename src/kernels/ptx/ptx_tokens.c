/*
 * ptx_tokens.c: PTX as tokens. See ptx.h.
 *
 * An opcode is one token with all its suffixes, "ld.global.v4.f32", and so is a part of a register, "%tid.x". A token
 * knows whether it begins a line, because a .loc ends where its line ends. Comments, blanks and the line markers of a
 * preprocessor are between tokens.
 * gs_ptx_tokenize has the whole grammar; the functions above it find the end of a token.
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

char gs_ptx_punct(const gs_ptx_module *module, uint32_t token) {
    if (token >= module->tokens.count || module->tokens.data[token].kind != GS_PTX_PUNCT)
        return 0;
    return module->text[module->tokens.data[token].at];
}

char *gs_ptx_token_text(const gs_ptx_module *module, uint32_t token, char *into, size_t size) {
    const gs_ptx_token *found = &module->tokens.data[token];
    snprintf(into, size, "%.*s", (int)found->length, module->text + found->at);
    return into;
}

/* ---- where a token ends ---- */

struct reader {
    const char *text;
    size_t size, at;
    bool line_is_fresh; /* no token on this line yet */
};

static char peek(const struct reader *reader, size_t ahead) {
    return reader->at + ahead < reader->size ? reader->text[reader->at + ahead] : '\0';
}

static void skip_line_comment(struct reader *reader) {
    while (reader->at < reader->size && reader->text[reader->at] != '\n')
        reader->at++;
}

/* False: the comment does not end. */
static bool skip_block_comment(struct reader *reader) {
    for (reader->at += 2; reader->at < reader->size; reader->at++) {
        if (peek(reader, 0) == '*' && peek(reader, 1) == '/') {
            reader->at += 2;
            return true;
        }
        reader->line_is_fresh = reader->line_is_fresh || peek(reader, 0) == '\n';
    }
    return false;
}

static bool joins_names(const struct reader *reader) {
    return peek(reader, 0) == ':' && peek(reader, 1) == ':' && is_name(peek(reader, 2));
}

/* Names joined by "." and "::". The first character may be a %. */
static void skip_word(struct reader *reader) {
    for (reader->at++;;) {
        if (is_name(peek(reader, 0)) || (peek(reader, 0) == '.' && is_name(peek(reader, 1))))
            reader->at++;
        else if (joins_names(reader))
            reader->at += 2;
        else
            return;
    }
}

/* Names joined by "::" only: ".reg.b32" is two directives. */
static void skip_directive(struct reader *reader) {
    for (reader->at++;;) {
        if (is_name(peek(reader, 0)))
            reader->at++;
        else if (joins_names(reader))
            reader->at += 2;
        else
            return;
    }
}

/* Decimal numbers may have a sign in their exponent; 0x1e-4 is a difference. */
static void skip_number(struct reader *reader) {
    bool is_decimal = peek(reader, 0) != '0' || !isalpha((unsigned char)peek(reader, 1));
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

/* False: the string does not end on its line. */
static bool skip_string(struct reader *reader) {
    reader->at++;
    while (reader->at < reader->size && peek(reader, 0) != '"' && peek(reader, 0) != '\n')
        reader->at += peek(reader, 0) == '\\' ? 2 : 1;
    return peek(reader, 0) == '"' && reader->at++ < reader->size;
}

/* ---- the grammar ---- */

static gs_code fail_at(gs_ptx_module *module, size_t at, gs_error *error, const char *message) {
    gs_ptx_fail(module, GS_PTX_NONE, error, GS_E_SYNTAX, "%s", message);
    gs_error_place(error, module->text, module->size, at, 1, 1);
    return GS_E_SYNTAX;
}

gs_code gs_ptx_tokenize(gs_ptx_module *module, gs_error *error) {
    struct reader reader = {.text = module->text, .size = module->size, .line_is_fresh = true};
    module->marker_at = SIZE_MAX;
    while (reader.at < reader.size) {
        size_t start = reader.at;
        char c = peek(&reader, 0), next = peek(&reader, 1);
        gs_ptx_token_kind kind;

        /* between tokens */
        if (isspace((unsigned char)c)) {
            reader.line_is_fresh = reader.line_is_fresh || c == '\n';
            reader.at++;
            continue;
        }
        bool is_line_marker = c == '#'; /* # 12 "file.cu", of a preprocessor */
        if (is_line_marker && module->marker_at == SIZE_MAX)
            module->marker_at = start;
        if ((c == '/' && next == '/') || is_line_marker) {
            skip_line_comment(&reader);
            continue;
        }
        if (c == '/' && next == '*') {
            if (!skip_block_comment(&reader))
                return fail_at(module, start, error, "this comment does not end");
            continue;
        }

        /* a token */
        if ((is_name(c) && !isdigit((unsigned char)c)) || (c == '%' && is_name(next))) {
            kind = GS_PTX_WORD;
            skip_word(&reader);
        } else if (c == '.' && is_name(next)) {
            kind = GS_PTX_DIRECTIVE;
            skip_directive(&reader);
        } else if (isdigit((unsigned char)c)) {
            kind = GS_PTX_NUMBER;
            skip_number(&reader);
        } else if (c == '"') {
            kind = GS_PTX_STRING;
            if (!skip_string(&reader))
                return fail_at(module, start, error, "this string does not end on its line");
        } else if (c > ' ' && c < 0x7f) {
            kind = GS_PTX_PUNCT;
            reader.at++;
        } else {
            return fail_at(module, start, error, "this character is not allowed in PTX");
        }
        if (!GS_RESERVE(&module->tokens, 1))
            return gs_fail_memory(error);
        module->tokens.data[module->tokens.count++] = (gs_ptx_token){.at = (uint32_t)start,
                                                                     .length = (uint32_t)(reader.at - start),
                                                                     .kind = (uint8_t)kind,
                                                                     .begins_line = reader.line_is_fresh};
        reader.line_is_fresh = false;
    }
    return GS_OK;
}
