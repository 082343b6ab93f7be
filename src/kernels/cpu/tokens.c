/*
 * tokens.c: a CUDA source as tokens.
 *
 * Elastic forms (elastic.c) change a source at a few tokens: all other text stays as it was, including blanks. A token
 * is a place in the text; comments and blanks are between tokens. Each token has the directive it is in.
 *
 * A compiler reads the result, so this file leaves mistakes to it: every text has tokens. What must be known is where
 * code is, and where only comments and strings are. Directives are not evaluated: all branches of an #if are read.
 */
#include "cpu.h"

#include <stdlib.h>
#include <string.h>

bool gs_token_is(const gs_source *source, size_t token, const char *word) {
    if (token >= source->tokens.count)
        return false;
    const gs_token *found = &source->tokens.data[token];
    return found->kind != GS_TOKEN_STRING && found->length == strlen(word) &&
           memcmp(source->text + found->at, word, found->length) == 0;
}

/* ---- reading ---- */

struct reader {
    gs_source *source;
    size_t at;
    uint32_t directive; /* the `#` of the directive that is being read */
    bool line_is_fresh; /* only blanks since the start of the line */
};

static char peek(const struct reader *reader, size_t ahead) {
    size_t at = reader->at + ahead;
    return at < reader->source->size ? reader->source->text[at] : '\0';
}

static bool starts(const struct reader *reader, const char *word) {
    size_t length = strlen(word), left = reader->source->size - reader->at;
    return length <= left && memcmp(reader->source->text + reader->at, word, length) == 0;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Bytes above 127 are letters of some alphabet. */
static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || (unsigned char)c > 127;
}

/* The length of a backslash and the end of line after it, or 0. */
static size_t splice_length(const struct reader *reader) {
    return starts(reader, "\\\n") ? 2 : starts(reader, "\\\r\n") ? 3 : 0;
}

static void skip_line_comment(struct reader *reader) {
    while (reader->at < reader->source->size && peek(reader, 0) != '\n') {
        size_t splice = splice_length(reader);
        reader->at += splice ? splice : 1;
    }
}

static void skip_block_comment(struct reader *reader) {
    for (reader->at += 2; reader->at < reader->source->size && !starts(reader, "*/");)
        reader->at++;
    reader->at = gs_min_u64(reader->at + 2, reader->source->size);
}

/* Skips blanks, ends of lines and comments. */
static void skip_blanks(struct reader *reader) {
    while (reader->at < reader->source->size) {
        char c = peek(reader, 0);
        size_t splice = splice_length(reader);
        if (splice || c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            reader->at += splice ? splice : 1;
        } else if (c == '\n') {
            reader->at++;
            reader->directive = GS_NO_TOKEN;
            reader->line_is_fresh = true;
        } else if (starts(reader, "//")) {
            skip_line_comment(reader);
        } else if (starts(reader, "/*")) {
            skip_block_comment(reader);
        } else {
            return;
        }
    }
}

/* A string or character. One that does not end reaches to the end of its line, as in `#error it's wrong`. */
static void skip_quoted(struct reader *reader, char quote) {
    const size_t size = reader->source->size;
    for (reader->at++; reader->at < size && peek(reader, 0) != '\n'; reader->at++) {
        size_t splice = splice_length(reader);
        if (splice)
            reader->at += splice - 1;
        else if (peek(reader, 0) == '\\')
            reader->at++;
        else if (peek(reader, 0) == quote)
            break;
    }
    reader->at = gs_min_u64(reader->at + (peek(reader, 0) == quote), size);
}

/* From the quote of R"delimiter( ... )delimiter" on. One that does not end reaches to the end of the text. */
static void skip_raw_string(struct reader *reader) {
    enum { LONGEST = 16 };
    const char *text = reader->source->text;
    size_t length = 0, size = reader->source->size;
    const char *delimiter = text + ++reader->at;
    while (length <= LONGEST && peek(reader, length) != '(')
        length++;
    for (reader->at += length; length <= LONGEST && reader->at + length + 2 <= size; reader->at++) {
        const char *here = text + reader->at;
        if (here[0] == ')' && memcmp(here + 1, delimiter, length) == 0 && here[1 + length] == '"') {
            reader->at += length + 2;
            return;
        }
    }
    reader->at = size;
}

/* A number as the preprocessor sees it: letters, digits, dots, signs after an exponent, and ' between digits. */
static void skip_number(struct reader *reader) {
    for (reader->at++;; reader->at++) {
        char c = peek(reader, 0), before = reader->source->text[reader->at - 1];
        bool is_sign = (c == '+' || c == '-') && (before == 'e' || before == 'E' || before == 'p' || before == 'P');
        bool is_break = c == '\'' && (is_letter(peek(reader, 1)) || is_digit(peek(reader, 1)));
        if (!is_letter(c) && !is_digit(c) && c != '.' && !is_sign && !is_break)
            return;
    }
}

/* The length of the letters in front of a raw string, or 0. */
static size_t raw_prefix(const struct reader *reader) {
    static const char *const prefixes[] = {"R\"", "LR\"", "uR\"", "UR\"", "u8R\""};
    for (size_t i = 0; i < GS_COUNT(prefixes); i++)
        if (starts(reader, prefixes[i]))
            return strlen(prefixes[i]) - 1;
    return 0;
}

static void read_token(struct reader *reader, gs_token *token) {
    char c = peek(reader, 0);
    size_t raw = raw_prefix(reader);
    if (raw) {
        token->kind = GS_TOKEN_STRING;
        reader->at += raw;
        skip_raw_string(reader);
    } else if (c == '"' || c == '\'') {
        token->kind = GS_TOKEN_STRING;
        skip_quoted(reader, c);
    } else if (is_letter(c)) {
        token->kind = GS_TOKEN_NAME;
        while (is_letter(peek(reader, 0)) || is_digit(peek(reader, 0)))
            reader->at++;
    } else if (is_digit(c) || (c == '.' && is_digit(peek(reader, 1)))) {
        token->kind = GS_TOKEN_NUMBER;
        skip_number(reader);
    } else {
        token->kind = GS_TOKEN_PUNCTUATION;
        token->punctuation = c;
        reader->at++;
    }
}

/* False: out of memory. */
static bool add_tokens(gs_source *source) {
    struct reader reader = {.source = source, .directive = GS_NO_TOKEN, .line_is_fresh = true};
    for (skip_blanks(&reader); reader.at < source->size; skip_blanks(&reader)) {
        if (!GS_RESERVE(&source->tokens, 1))
            return false;
        gs_token token = {.at = (uint32_t)reader.at};
        read_token(&reader, &token);
        if (token.punctuation == '#' && reader.line_is_fresh)
            reader.directive = (uint32_t)source->tokens.count;
        reader.line_is_fresh = false;
        token.directive = reader.directive;
        token.length = (uint32_t)(reader.at - token.at);
        source->tokens.data[source->tokens.count++] = token;
    }
    return true;
}

gs_code gs_source_read(gs_source *source, const char *name, const char *text, size_t size, gs_error *error) {
    enum { LARGEST = 64 << 20 };
    *source = (gs_source){.name = name, .text = text, .size = size};
    if (size > LARGEST)
        return gs_fail(error, GS_E_USAGE, "%s has more than %d MB", name, LARGEST >> 20);
    if (add_tokens(source))
        return GS_OK;
    gs_source_free(source);
    return gs_fail_memory(error);
}

void gs_source_free(gs_source *source) {
    free(source->tokens.data);
    source->tokens.data = NULL;
    source->tokens.count = source->tokens.capacity = 0;
}
