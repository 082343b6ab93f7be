/*
 * tokens.c: a CUDA source as tokens.
 *
 * Elastic forms (elastic.c) and kernels on the CPU (translate.c) change a source at a few tokens: all other text stays
 * as it was, including blanks. A token is a place in the text; comments and blanks are between tokens. A bracket has
 * the index of its matching bracket, and each token that of the brace around it and of the directive it is in.
 *
 * Surprising: `<` and `>` are never brackets here, because only a compiler can tell. Directives are not evaluated: all
 * branches of an #if are read, so a file whose brackets match only within each branch is refused.
 */
#include "cpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

static gs_code fail_here(const gs_source *source, size_t at, gs_error *error, const char *message) {
    gs_code code = gs_fail(error, GS_E_SYNTAX, "%s", message);
    if (error)
        snprintf(error->file, sizeof error->file, "%s", source->name);
    gs_error_place(error, source->text, source->size, at, 1, 1);
    return code;
}

bool gs_token_is(const gs_source *source, size_t token, const char *word) {
    if (token >= source->tokens.count)
        return false;
    const gs_token *found = &source->tokens.data[token];
    return found->kind != GS_TOKEN_STRING && found->length == strlen(word) &&
           memcmp(source->text + found->at, word, found->length) == 0;
}

size_t gs_token_after(const gs_source *source, size_t token) {
    uint32_t match = source->tokens.data[token].match;
    return match != GS_NO_TOKEN && match > token ? match + 1 : token + 1;
}

bool gs_token_is_outside(const gs_source *source, size_t token) {
    const gs_token *tokens = source->tokens.data;
    uint32_t at = tokens[token].within;
    while (at != GS_NO_TOKEN && tokens[at].opens_space)
        at = tokens[at].within;
    return at == GS_NO_TOKEN;
}

/* ---- reading ---- */

struct reader {
    gs_source *source;
    size_t at;
    uint32_t directive;    /* the `#` of the directive that is being read */
    bool line_is_fresh;    /* only blanks since the start of the line */
    const char *complaint; /* an error, at complaint_at; NULL: none */
    size_t complaint_at;
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
    if (peek(reader, 0) != '\\')
        return 0;
    return peek(reader, 1) == '\n' ? 2 : peek(reader, 1) == '\r' && peek(reader, 2) == '\n' ? 3 : 0;
}

static bool complain(struct reader *reader, const char *message, size_t at) {
    reader->complaint = message;
    reader->complaint_at = at;
    return false;
}

static void end_line(struct reader *reader) {
    reader->directive = GS_NO_TOKEN;
    reader->line_is_fresh = true;
}

static bool skip_comment(struct reader *reader) {
    size_t from = reader->at;
    if (starts(reader, "//")) {
        while (reader->at < reader->source->size && peek(reader, 0) != '\n') {
            size_t splice = splice_length(reader);
            reader->at += splice ? splice : 1;
        }
        return true;
    }
    for (reader->at += 2; reader->at < reader->source->size; reader->at++)
        if (starts(reader, "*/")) {
            reader->at += 2;
            return true;
        }
    return complain(reader, "the comment that begins here does not end", from);
}

/* Skips blanks, ends of lines and comments. False: a comment does not end. */
static bool skip_blanks(struct reader *reader) {
    while (reader->at < reader->source->size) {
        char c = peek(reader, 0);
        size_t splice = splice_length(reader);
        if (splice) {
            reader->at += splice;
        } else if (c == '\n') {
            reader->at++;
            end_line(reader);
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            reader->at++;
        } else if (starts(reader, "//") || starts(reader, "/*")) {
            if (!skip_comment(reader))
                return false;
        } else {
            return true;
        }
    }
    return true;
}

static bool read_quoted(struct reader *reader, char quote) {
    size_t from = reader->at;
    for (reader->at++; reader->at < reader->source->size && peek(reader, 0) != '\n'; reader->at++) {
        size_t splice = splice_length(reader);
        if (splice)
            reader->at += splice - 1;
        else if (peek(reader, 0) == '\\')
            reader->at++;
        else if (peek(reader, 0) == quote) {
            reader->at++;
            return true;
        }
    }
    return complain(reader,
                    quote == '"' ? "the string that begins here does not end on its line"
                                 : "the character that begins here does not end on its line",
                    from);
}

/* R"delimiter( ... )delimiter" */
static bool read_raw(struct reader *reader) {
    enum { LONGEST = 16 };
    size_t from = reader->at, length = 0;
    const char *text = reader->source->text;
    reader->at++;
    while (length <= LONGEST && peek(reader, length) != '(' && peek(reader, length) != '\0' &&
           peek(reader, length) != '\n')
        length++;
    const char *delimiter = text + reader->at;
    if (length > LONGEST || peek(reader, length) != '(')
        return complain(reader, "the raw string that begins here has no opening parenthesis", from);
    for (reader->at += length + 1; reader->at + length + 2 <= reader->source->size; reader->at++) {
        const char *here = text + reader->at;
        if (here[0] == ')' && memcmp(here + 1, delimiter, length) == 0 && here[1 + length] == '"') {
            reader->at += length + 2;
            return true;
        }
    }
    return complain(reader, "the raw string that begins here does not end", from);
}

/* A number as the preprocessor sees it: letters, digits, dots, signs after an exponent, and ' between digits. */
static void read_number(struct reader *reader) {
    for (reader->at++;; reader->at++) {
        char c = peek(reader, 0), before = reader->source->text[reader->at - 1];
        bool is_sign = (c == '+' || c == '-') && (before == 'e' || before == 'E' || before == 'p' || before == 'P');
        bool is_break = c == '\'' && (is_letter(peek(reader, 1)) || is_digit(peek(reader, 1)));
        if (!is_letter(c) && !is_digit(c) && c != '.' && !is_sign && !is_break)
            return;
    }
}

static bool read_name(struct reader *reader, gs_token *token) {
    static const char *const prefixes[] = {"L", "u", "U", "u8"};
    const char *text = reader->source->text + reader->at;
    size_t from = reader->at;
    while (is_letter(peek(reader, 0)) || is_digit(peek(reader, 0)))
        reader->at++;
    if (splice_length(reader) && (is_letter(peek(reader, splice_length(reader)))))
        return complain(reader, "a name that is split by a backslash at the end of a line is not supported", from);
    size_t length = reader->at - from;
    char quote = peek(reader, 0);
    if (quote != '"' && quote != '\'')
        return true;
    bool is_raw = quote == '"' && text[length - 1] == 'R';
    size_t before = is_raw ? length - 1 : length;
    bool is_prefix = is_raw && before == 0;
    for (size_t i = 0; i < GS_COUNT(prefixes); i++)
        is_prefix |= strlen(prefixes[i]) == before && memcmp(prefixes[i], text, before) == 0;
    if (!is_prefix)
        return true;
    token->kind = quote == '"' ? GS_TOKEN_STRING : GS_TOKEN_CHARACTER;
    return is_raw ? read_raw(reader) : read_quoted(reader, quote);
}

static void read_mark(struct reader *reader, gs_token *token) {
    static const struct {
        const char *text;
        char mark;
    } marks[] = {{"%:%:", 'P'}, {"::", 'S'}, {"->", 'A'}, {"##", 'P'}, {"<%", '{'},
                 {"%>", '}'},   {"<:", '['}, {":>", ']'}, {"%:", '#'}};
    token->kind = GS_TOKEN_MARK;
    for (size_t i = 0; i < GS_COUNT(marks); i++) {
        /* "<::" is "<" and "::", unless one more ":" or ">" follows. */
        bool is_less =
            marks[i].mark == '[' && peek(reader, 2) == ':' && peek(reader, 3) != ':' && peek(reader, 3) != '>';
        if (starts(reader, marks[i].text) && !is_less) {
            token->mark = marks[i].mark;
            reader->at += strlen(marks[i].text);
            return;
        }
    }
    token->mark = peek(reader, 0);
    reader->at++;
}

static bool read_token(struct reader *reader, gs_token *token) {
    char c = peek(reader, 0);
    if (is_letter(c)) {
        token->kind = GS_TOKEN_NAME;
        return read_name(reader, token);
    }
    if (is_digit(c) || (c == '.' && is_digit(peek(reader, 1)))) {
        token->kind = GS_TOKEN_NUMBER;
        read_number(reader);
        return true;
    }
    if (c == '"' || c == '\'') {
        token->kind = c == '"' ? GS_TOKEN_STRING : GS_TOKEN_CHARACTER;
        return read_quoted(reader, c);
    }
    read_mark(reader, token);
    return true;
}

/* #include <a/b.h> and #error are followed by free text: the rest of such a line is one string. */
static bool takes_rest_of_line(const gs_source *source) {
    size_t count = source->tokens.count;
    if (count < 2 || source->tokens.data[count - 2].mark != '#' ||
        source->tokens.data[count - 1].directive != count - 2)
        return false;
    return gs_token_is(source, count - 1, "include") || gs_token_is(source, count - 1, "error") ||
           gs_token_is(source, count - 1, "warning") || gs_token_is(source, count - 1, "include_next");
}

static void read_rest_of_line(struct reader *reader, gs_token *token) {
    token->kind = GS_TOKEN_STRING;
    while (reader->at < reader->source->size && peek(reader, 0) != '\n') {
        if (starts(reader, "//") || starts(reader, "/*"))
            return;
        size_t splice = splice_length(reader);
        reader->at += splice ? splice : 1;
    }
}

static bool add_tokens(struct reader *reader, bool *out_of_memory) {
    gs_source *source = reader->source;
    while (skip_blanks(reader)) {
        if (reader->at >= source->size)
            return true;
        if (!GS_RESERVE(&source->tokens, 1)) {
            *out_of_memory = true;
            return false;
        }
        uint32_t number = (uint32_t)source->tokens.count;
        gs_token token = {.at = (uint32_t)reader->at, .match = GS_NO_TOKEN, .within = GS_NO_TOKEN};
        if (takes_rest_of_line(source))
            read_rest_of_line(reader, &token);
        else if (!read_token(reader, &token))
            return false;
        if (token.mark == '#' && reader->line_is_fresh)
            reader->directive = number;
        reader->line_is_fresh = false;
        token.directive = reader->directive;
        token.length = (uint32_t)(reader->at - token.at);
        source->tokens.data[source->tokens.count++] = token;
    }
    return false;
}

/* ---- brackets ---- */

/* Whether the `{` at `brace` opens a namespace: looks back to the end of the statement before. */
static bool opens_space(const gs_source *source, size_t brace) {
    const gs_token *tokens = source->tokens.data;
    for (size_t i = brace; i-- > 0;) {
        const gs_token *token = &tokens[i];
        if (token->directive != GS_NO_TOKEN)
            continue;
        if (token->kind == GS_TOKEN_STRING && i > 0 && gs_token_is(source, i - 1, "extern"))
            return true;
        if (token->mark == ')' || token->mark == '=' || token->mark == ';' || token->mark == '{' ||
            token->mark == '}' || token->mark == ',' || token->mark == '(')
            return false;
        if (gs_token_is(source, i, "namespace"))
            return true;
    }
    return false;
}

static char closing_of(char open) {
    return open == '(' ? ')' : open == '[' ? ']' : '}';
}

/* Brackets in directives are not matched: a macro may open what another closes. */
static gs_code match_brackets(gs_source *source, uint32_t *stack, gs_error *error) {
    size_t depth = 0;
    uint32_t within = GS_NO_TOKEN;
    for (uint32_t i = 0; i < source->tokens.count; i++) {
        gs_token *token = &source->tokens.data[i];
        token->within = within;
        if (token->directive != GS_NO_TOKEN)
            continue;
        if (token->mark == '(' || token->mark == '[' || token->mark == '{') {
            stack[depth++] = i;
            if (token->mark == '{') {
                token->opens_space = opens_space(source, i);
                within = i;
            }
        } else if (token->mark == ')' || token->mark == ']' || token->mark == '}') {
            gs_token *open = depth ? &source->tokens.data[stack[depth - 1]] : NULL;
            if (!open || closing_of(open->mark) != token->mark)
                return fail_here(source, token->at, error,
                                 "this bracket has no matching bracket (it may be in another branch of an #if)");
            open->match = i;
            token->match = stack[--depth];
            if (token->mark == '}')
                within = token->within = open->within;
        }
    }
    return depth ? fail_here(source, source->tokens.data[stack[depth - 1]].at, error, "this bracket is not closed")
                 : GS_OK;
}

gs_code gs_source_read(gs_source *source, const char *name, const char *text, size_t size, gs_error *error) {
    enum { LARGEST = 64 << 20 };
    struct reader reader = {.source = source, .directive = GS_NO_TOKEN, .line_is_fresh = true};
    bool out_of_memory = false;
    *source = (gs_source){.name = name, .text = text, .size = size};
    if (size > LARGEST)
        return gs_fail(error, GS_E_USAGE, "%s has more than %d MB", name, LARGEST >> 20);
    gs_code code = GS_OK;
    if (!add_tokens(&reader, &out_of_memory))
        code = out_of_memory ? gs_fail_memory(error) : fail_here(source, reader.complaint_at, error, reader.complaint);
    uint32_t *stack = code == GS_OK ? malloc((source->tokens.count + 1) * sizeof *stack) : NULL;
    if (code == GS_OK)
        code = stack ? match_brackets(source, stack, error) : gs_fail_memory(error);
    free(stack);
    if (code != GS_OK)
        gs_source_free(source);
    return code;
}

void gs_source_free(gs_source *source) {
    free(source->tokens.data);
    source->tokens.data = NULL;
    source->tokens.count = source->tokens.capacity = 0;
}
