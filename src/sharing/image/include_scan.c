/*
 * include_scan.c: finds the names that a text includes by reading it, without preprocessing.
 *
 * Conditionals are ignored, and so are comments and strings around a directive: the result may be more than a compiler
 * reads, never less. So a directive is any '#' preceded on its line only by blanks, or by the end of a comment and
 * blanks; text before that comment does not matter. Lines that end in a backslash are joined first. GCC also joins
 * lines with blanks after the backslash, other compilers do not: such a text is read both ways.
 */
#define _GNU_SOURCE
#include "include_scan.h"

#include "base/base.h"

#include <limits.h>
#include <stdlib.h>

/* A text with joined lines. */
struct joined {
    char *data;
    size_t count;
    struct joined_lines { /* offsets of lines, and their original numbers */
        struct joined_line {
            size_t at;
            long number;
        } * data;
        size_t count, capacity;
    } lines;
};

/* ---- joining lines ---- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

static bool is_newline(char c) {
    return c == '\n' || c == '\r';
}

/* The length of a newline: "\r\n" is one. */
static size_t newline_length(const char *text, size_t size, size_t at) {
    return text[at] == '\r' && at + 1 < size && text[at + 1] == '\n' ? 2 : 1;
}

/* The length of a line splice at a backslash; 0: it is not one. */
static size_t splice_length(const char *text, size_t size, size_t at, bool with_blanks) {
    size_t end = at + 1;
    while (with_blanks && end < size && is_blank(text[end]))
        end++;
    return end < size && is_newline(text[end]) ? end + newline_length(text, size, end) - at : 0;
}

static bool begin_line(struct joined *joined, long number) {
    if (!GS_RESERVE(&joined->lines, 1))
        return false;
    joined->lines.data[joined->lines.count++] = (struct joined_line){joined->count, number};
    return true;
}

/* How many bytes are copied unchanged. */
static size_t plain_length(const char *text, size_t size) {
    size_t length = 0;
    while (length < size && text[length] != '\n' && text[length] != '\r' && text[length] != '\\' && text[length])
        length++;
    return length;
}

static bool join_lines(const char *text, size_t size, bool with_blanks, struct joined *joined) {
    long number = 1;
    joined->data = malloc(size + 1);
    bool is_good = joined->data && begin_line(joined, number);
    for (size_t at = 0; at < size && is_good;) {
        size_t spliced = text[at] == '\\' ? splice_length(text, size, at, with_blanks) : 0;
        if (spliced) {
            at += spliced;
            number++;
        } else if (is_newline(text[at])) {
            at += newline_length(text, size, at);
            joined->data[joined->count++] = '\n';
            is_good = begin_line(joined, ++number);
        } else if (!text[at] || text[at] == '\\') {
            joined->data[joined->count++] = text[at] ? text[at] : ' ';
            at++;
        } else {
            size_t length = plain_length(text + at, size - at);
            memcpy(joined->data + joined->count, text + at, length);
            joined->count += length;
            at += length;
        }
    }
    if (joined->data)
        joined->data[joined->count] = '\0';
    return is_good;
}

static void free_joined(struct joined *joined) {
    free(joined->data);
    free(joined->lines.data);
}

/* ---- words ---- */

/* Most of the time is spent here, so this is a table. */
static bool is_word_char(char c) {
    static const bool answers[UCHAR_MAX + 1] = {
        ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1, ['f'] = 1, ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1,
        ['k'] = 1, ['l'] = 1, ['m'] = 1, ['n'] = 1, ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1, ['t'] = 1,
        ['u'] = 1, ['v'] = 1, ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1, ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1,
        ['E'] = 1, ['F'] = 1, ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1, ['L'] = 1, ['M'] = 1, ['N'] = 1,
        ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1, ['U'] = 1, ['V'] = 1, ['W'] = 1, ['X'] = 1,
        ['Y'] = 1, ['Z'] = 1, ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1, ['7'] = 1,
        ['8'] = 1, ['9'] = 1, ['_'] = 1, ['$'] = 1};
    return answers[(unsigned char)c];
}

static size_t skip_blanks(const struct joined *joined, size_t at) {
    const char *data = joined->data;
    for (;;) {
        while (is_blank(data[at]))
            at++;
        if (data[at] != '/' || data[at + 1] != '*')
            return at;
        const char *end = strstr(data + at + 2, "*/");
        if (!end)
            return joined->count;
        at = (size_t)(end - data) + 2;
    }
}

static size_t word_length(const char *at) {
    size_t length = 0;
    while (is_word_char(at[length]))
        length++;
    return length;
}

static bool is_word(const char *at, size_t length, const char *word) {
    return strlen(word) == length && memcmp(at, word, length) == 0;
}

/* ---- names ---- */

struct scan {
    const struct joined *joined;
    gs_include_found found;
    void *context;
    size_t line; /* index of the line that is read */
};

static void report_include(struct scan *scan, enum gs_include_kind kind, size_t at, size_t length, bool is_quoted) {
    const gs_include include = {.kind = kind,
                                .name = scan->joined->data + at,
                                .length = length,
                                .is_quoted = is_quoted,
                                .line = scan->joined->lines.data[scan->line].number};
    scan->found(scan->context, &include);
}

/* The name at `at`. The compiler reports a quote or bracket that is not closed on its line. */
static void take_name(struct scan *scan, enum gs_include_kind kind, enum gs_include_kind nameless, size_t at) {
    const char *data = scan->joined->data, open = data[at];
    if (open != '"' && open != '<') {
        if (is_word_char(open)) /* otherwise it is not a directive: text in a comment, or an error */
            report_include(scan, nameless, at, strcspn(data + at, "\n"), false);
        return;
    }
    size_t length = strcspn(data + at + 1, open == '"' ? "\"\n" : ">\n");
    if (data[at + 1 + length] != '\n' && data[at + 1 + length])
        report_include(scan, kind, at + 1, length, open == '"');
}

/* Strings and bracketed names of a macro, up to the end of its line. */
static void take_macro(struct scan *scan, size_t at) {
    const char *data = scan->joined->data;
    for (; data[at] && data[at] != '\n'; at++) {
        if (data[at] != '"' && data[at] != '<')
            continue;
        size_t length = strcspn(data + at + 1, data[at] == '"' ? "\"\n" : ">\n");
        if (data[at + 1 + length] == '\n' || !data[at + 1 + length])
            continue;
        report_include(scan, GS_INCLUDE_MACRO, at + 1, length, data[at] == '"');
        at += data[at] == '"' ? length + 1 : 0;
    }
}

static void come_to(struct scan *scan, size_t at) {
    const struct joined_lines *lines = &scan->joined->lines;
    while (scan->line + 1 < lines->count && lines->data[scan->line + 1].at <= at)
        scan->line++;
}

/* Whether a directive can begin at `at`. */
static bool may_begin(const struct joined *joined, size_t at) {
    while (at && is_blank(joined->data[at - 1]))
        at--;
    if (at == 3 && memcmp(joined->data, "\xef\xbb\xbf", 3) == 0)
        return true;
    return !at || joined->data[at - 1] == '\n' ||
           (at >= 2 && joined->data[at - 1] == '/' && joined->data[at - 2] == '*');
}

static void take_directive(struct scan *scan, size_t at) {
    static const char *const plain[] = {"include", "import", "embed"};
    const char *data = scan->joined->data;
    come_to(scan, at);
    at = skip_blanks(scan->joined, at);
    size_t length = word_length(data + at), rest = skip_blanks(scan->joined, at + length);
    for (size_t i = 0; i < GS_COUNT(plain); i++)
        if (is_word(data + at, length, plain[i]))
            take_name(scan, GS_INCLUDE_PLAIN, GS_INCLUDE_COMPUTED, rest);
    if (is_word(data + at, length, "include_next"))
        take_name(scan, GS_INCLUDE_NEXT, GS_INCLUDE_COMPUTED, rest);
    else if (is_word(data + at, length, "define")) {
        report_include(scan, GS_INCLUDE_DEFINE, rest, strcspn(data + rest, "\n"), false);
        take_macro(scan, rest);
    }
}

/* Whether the line around `at` is a #define. */
static bool is_in_macro(const struct scan *scan, size_t at) {
    const struct joined *joined = scan->joined;
    size_t from = skip_blanks(joined, joined->lines.data[scan->line].at);
    from += joined->data[from] == '%' && joined->data[from + 1] == ':' ? 2 : joined->data[from] == '#' ? 1 : 0;
    from = skip_blanks(joined, from);
    return from < at && is_word(joined->data + from, word_length(joined->data + from), "define");
}

/* Reads a word; __has_include and the like query files. */
static void take_word(struct scan *scan, size_t at, size_t length) {
    const char *data = scan->joined->data;
    if (length < 11 || data[at] != '_')
        return;
    bool is_next = is_word(data + at, length, "__has_include_next");
    if (!is_next && !is_word(data + at, length, "__has_include") && !is_word(data + at, length, "__has_embed"))
        return;
    come_to(scan, at);
    size_t rest = skip_blanks(scan->joined, at + length);
    if (data[rest] == '(')
        take_name(scan, is_next ? GS_INCLUDE_NEXT : GS_INCLUDE_PLAIN, GS_INCLUDE_QUESTION,
                  skip_blanks(scan->joined, rest + 1));
    else if (is_in_macro(scan, at))
        report_include(scan, GS_INCLUDE_QUESTION, at, 0, false);
}

static void scan_joined(struct scan *scan) {
    const struct joined *joined = scan->joined;
    const char *data = joined->data;
    for (size_t at = 0; at < joined->count;) {
        size_t length = word_length(data + at);
        size_t mark = data[at] == '#' ? 1 : data[at] == '%' && data[at + 1] == ':' ? 2 : 0;
        if (length)
            take_word(scan, at, length);
        else if (mark && may_begin(joined, at))
            take_directive(scan, at + mark);
        at += length ? length : 1;
    }
}

static bool scan_with(const char *text, size_t size, bool with_blanks, gs_include_found found, void *context) {
    struct joined joined = {0};
    struct scan scan = {.joined = &joined, .found = found, .context = context};
    bool is_good = join_lines(text, size, with_blanks, &joined);
    if (is_good)
        scan_joined(&scan);
    free_joined(&joined);
    return is_good;
}

/* Whether a line ends with a backslash and blanks. */
static bool has_blank_splice(const char *text, size_t size) {
    for (const char *at = text; (at = memchr(at, '\\', size - (size_t)(at - text))); at++)
        if (!splice_length(text, size, (size_t)(at - text), false) &&
            splice_length(text, size, (size_t)(at - text), true))
            return true;
    return false;
}

bool gs_include_scan(const char *text, size_t size, gs_include_found found, void *context) {
    if (!size)
        return true;
    return scan_with(text, size, false, found, context) &&
           (!has_blank_splice(text, size) || scan_with(text, size, true, found, context));
}

/* ---- results that depend on more than files ---- */

bool gs_include_is_unstable(const char *text, size_t size) {
    static const char *const words[] = {"__TIME__", "__DATE__", "__TIMESTAMP__"};
    for (size_t at = 0; at < size;) {
        size_t length = 0;
        while (at + length < size && is_word_char(text[at + length]))
            length++;
        for (size_t i = 0; i < GS_COUNT(words); i++)
            if (is_word(text + at, length, words[i]))
                return true;
        at += length ? length : 1;
    }
    return false;
}
