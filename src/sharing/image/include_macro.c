/*
 * include_macro.c: what `#include MACRO(...)` means.
 *
 * A compiler may read only the files that were found before (sandbox.c). The name of a file can be put together by
 * macros: `#define TEXT(x) #x` and `#include TEXT(FOLDER/file.h)`. So macros are expanded here as a preprocessor does,
 * with three simplifications: a macro has its last definition, whatever the conditionals around it are; a macro within
 * itself is expanded up to a depth; and variadic macros are not known. A name that is not found remains closed to the
 * compiler, and an image whose names were found in this way is not kept.
 */
#include "include_macro.h"

#include <ctype.h>
#include <string.h>

enum { MOST_DEPTH = 32, MOST_PARAMETERS = 16, MOST_BYTES = 16384 };

/* A part of a text. */
struct part {
    const char *at;
    size_t length;
};

struct macro {
    bool is_call;
    size_t count;
    struct part parameters[MOST_PARAMETERS], body;
};

static size_t word_length(const char *text, size_t size) {
    size_t length = 0;
    if (size && isdigit((unsigned char)text[0]))
        return 0;
    while (length < size && (isalnum((unsigned char)text[length]) || text[length] == '_' || text[length] == '$'))
        length++;
    return length;
}

static struct part trim(struct part part) {
    while (part.length && isspace((unsigned char)part.at[0]))
        part.at++, part.length--;
    while (part.length && isspace((unsigned char)part.at[part.length - 1]))
        part.length--;
    return part;
}

static bool is_same(struct part a, struct part b) {
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

/* ---- definitions ---- */

/* The parts between parentheses and commas, from behind a `(`. Returns what follows the `)`; NULL: there is none. */
static const char *split_list(const char *at, const char *end, struct part *parts, size_t *count) {
    int depth = 0;
    struct part part = {at, 0};
    for (*count = 0; at < end; at++) {
        if (!depth && (*at == ',' || *at == ')')) {
            part.length = (size_t)(at - part.at);
            if (*count == MOST_PARAMETERS)
                return NULL;
            parts[(*count)++] = trim(part);
            part.at = at + 1;
            if (*at == ')')
                return at + 1;
        }
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
    }
    return NULL;
}

/* `definition` is the rest of a line after #define. False: it is not the macro of this name. */
static bool read_macro(const char *definition, struct part name, struct macro *macro) {
    size_t size = strlen(definition);
    const char *end = definition + size, *rest = definition + name.length;
    if (word_length(definition, size) != name.length || memcmp(definition, name.at, name.length) != 0)
        return false;
    *macro = (struct macro){.is_call = *rest == '('};
    if (macro->is_call)
        rest = split_list(rest + 1, end, macro->parameters, &macro->count);
    if (!rest)
        return false;
    macro->body = trim((struct part){rest, (size_t)(end - rest)});
    return true;
}

static bool find_macro(const gs_include_names *definitions, struct part name, struct macro *macro) {
    for (size_t i = definitions->count; i-- > 0;)
        if (read_macro(definitions->data[i], name, macro))
            return true;
    return false;
}

/* ---- expanding ---- */

static void expand(const gs_include_names *definitions, struct part text, int depth, gs_text *into);

static const struct part *argument_of(const struct macro *macro, const struct part *arguments, struct part word) {
    for (size_t i = 0; i < macro->count; i++)
        if (is_same(macro->parameters[i], word))
            return &arguments[i];
    return NULL;
}

static bool begins(struct part text, size_t at, const char *with) {
    return text.length - at >= strlen(with) && memcmp(text.at + at, with, strlen(with)) == 0;
}

static size_t skip_spaces(struct part text, size_t at) {
    while (at < text.length && isspace((unsigned char)text.at[at]))
        at++;
    return at;
}

/* The body with its arguments. */
static void replace_parameters(const gs_include_names *definitions, const struct macro *macro,
                               const struct part *arguments, int depth, gs_text *into) {
    struct part body = macro->body;
    bool is_joined = false;
    for (size_t at = 0; at < body.length && !into->failed;) {
        size_t length = word_length(body.at + at, body.length - at), next = skip_spaces(body, at + 1);
        if (begins(body, at, "##")) {
            while (into->count && isspace((unsigned char)into->data[into->count - 1]))
                into->count--;
            at = skip_spaces(body, at + 2);
            is_joined = true;
            continue;
        }
        size_t named = body.at[at] == '#' ? word_length(body.at + next, body.length - next) : 0;
        const struct part *text = named ? argument_of(macro, arguments, (struct part){body.at + next, named}) : NULL;
        const struct part *value = length ? argument_of(macro, arguments, (struct part){body.at + at, length}) : NULL;
        if (text)
            gs_text_add(into, "\"%.*s\"", (int)text->length, text->at);
        else if (value && (is_joined || begins(body, skip_spaces(body, at + length), "##")))
            gs_text_put(into, value->at, value->length);
        else if (value)
            expand(definitions, *value, depth + 1, into);
        else
            gs_text_put(into, body.at + at, length ? length : 1);
        at = text ? next + named : at + (length ? length : 1);
        is_joined = false;
    }
}

/* A word that is a macro, and the arguments behind it. Returns how many bytes it has; 0: it is not a macro. */
static size_t expand_macro(const gs_include_names *definitions, struct part text, size_t at, int depth, gs_text *into) {
    struct part name = {text.at + at, word_length(text.at + at, text.length - at)}, arguments[MOST_PARAMETERS];
    struct macro macro;
    if (!name.length || depth >= MOST_DEPTH || !find_macro(definitions, name, &macro))
        return 0;
    if (!macro.is_call) {
        expand(definitions, macro.body, depth + 1, into);
        return name.length;
    }
    size_t open = skip_spaces(text, at + name.length), count;
    if (open >= text.length || text.at[open] != '(')
        return 0;
    const char *behind = split_list(text.at + open + 1, text.at + text.length, arguments, &count);
    if (!behind || count != macro.count)
        return 0;
    gs_text replaced = {0};
    replace_parameters(definitions, &macro, arguments, depth, &replaced);
    expand(definitions, (struct part){replaced.data ? replaced.data : "", replaced.count}, depth + 1, into);
    gs_text_free(&replaced);
    return (size_t)(behind - (text.at + at));
}

static void expand(const gs_include_names *definitions, struct part text, int depth, gs_text *into) {
    for (size_t at = 0; at < text.length && !into->failed; into->failed |= into->count > MOST_BYTES) {
        size_t length = word_length(text.at + at, text.length - at);
        size_t taken = length ? expand_macro(definitions, text, at, depth, into) : 0;
        if (!length && text.at[at] == '"') { /* a string is not searched */
            const char *close = memchr(text.at + at + 1, '"', text.length - at - 1);
            length = close ? (size_t)(close + 1 - (text.at + at)) : 1;
        }
        if (!taken)
            gs_text_put(into, text.at + at, length ? length : 1);
        at += taken ? taken : length ? length : 1;
    }
}

bool gs_include_expand(const gs_include_names *definitions, const char *text, gs_text *name, bool *is_quoted) {
    gs_text expanded = {0};
    expand(definitions, (struct part){text, strlen(text)}, 0, &expanded);
    struct part made = trim((struct part){expanded.data ? expanded.data : "", expanded.count});
    char open = made.length ? made.at[0] : '\0';
    const char *close =
        open == '"' || open == '<' ? memchr(made.at + 1, open == '"' ? '"' : '>', made.length - 1) : NULL;
    bool is_name = !expanded.failed && close;
    if (is_name)
        gs_text_put(name, made.at + 1, (size_t)(close - made.at) - 1);
    *is_quoted = open == '"';
    gs_text_free(&expanded);
    return is_name && !name->failed;
}
