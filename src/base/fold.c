/*
 * fold.c: lines that fit a terminal.
 *
 * A line that is too wide is broken at a space. What follows is indented like the last column of the line, which begins
 * after two spaces: the words that explain an option. If that column begins far to the right, as the list of SMs at the
 * end of a row of numbers, the line is broken between columns, and the rest is indented alike in all rows. A word that
 * is wider than the terminal stays whole. Pipes and files get lines as they are, so that programs can read them.
 */
#include "base.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LEAST_COLUMNS = 20, MOST_COLUMNS = 1000, ROW_INDENT = 8 };

int gs_columns(FILE *stream) {
    const char *wanted = getenv("COLUMNS");
    long columns = wanted ? strtol(wanted, NULL, 10) : 0;
    struct winsize size;
    if (columns < LEAST_COLUMNS && isatty(fileno(stream)) && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    return columns >= LEAST_COLUMNS && columns <= MOST_COLUMNS ? (int)columns : 0;
}

/* The bytes of one character, and how many columns it takes: none for codes of colors. */
static size_t character_bytes(const char *at, size_t left, int *width) {
    size_t bytes = 1;
    *width = at[0] != '\033';
    if (at[0] == '\033')
        while (bytes < left && at[bytes - 1] != 'm')
            bytes++;
    else
        while (bytes < left && ((unsigned char)at[bytes] & 0xc0) == 0x80)
            bytes++;
    return bytes;
}

/* How many bytes of a line fit, up to a space (of a gap between columns: two) or its end. `*rest` is where it
 * continues. */
static size_t bytes_that_fit(const char *line, size_t count, int columns, size_t gap, size_t *rest) {
    size_t at = strspn(line, " "), fits = 0, bytes;
    int used = (int)at, width = 0;
    for (*rest = count; at < count; at += bytes, used += width) {
        size_t spaces = strspn(line + at, " ");
        bytes = character_bytes(line + at, count - at, &width);
        if (spaces) {
            bytes = gs_min_u64(spaces, count - at);
            width = (int)bytes;
        }
        if (used + width > columns && !spaces && fits)
            return fits;
        if (spaces >= gap && (used <= columns || !fits)) {
            fits = at;
            *rest = at + bytes;
        }
    }
    if (used <= columns || !fits)
        *rest = fits = count;
    return fits;
}

/* The column in which the last part of a line begins; 0: it has one part. */
static int find_last_column(const char *line, size_t count) {
    int column = 0, used = 0, width;
    size_t bytes, margin = strspn(line, " ");
    for (size_t at = 0; at < count; at += bytes, used += width) {
        bytes = character_bytes(line + at, count - at, &width);
        if (at > margin + 1 && line[at] != ' ' && line[at - 1] == ' ' && line[at - 2] == ' ')
            column = used;
    }
    return column;
}

void gs_text_fold_line(gs_text *text, const char *line, size_t count, int columns, int indent) {
    int margin = (int)strspn(line, " "), last = indent < 0 ? find_last_column(line, count) : 0;
    bool is_row = last > columns * 2 / 3; /* of a table with many columns */
    size_t rest, fits = bytes_that_fit(line, count, columns, is_row ? 2 : 1, &rest);
    if (is_row && fits > (size_t)columns)
        fits = bytes_that_fit(line, count, columns, 1, &rest);
    gs_text_put(text, line, fits);
    if (indent < 0)
        indent = is_row ? ROW_INDENT : last ? last : margin + 2;
    indent = (int)gs_min(indent, columns - LEAST_COLUMNS / 2);
    for (line += rest, count -= rest; count; line += rest, count -= rest) {
        gs_text_add(text, "\n%*s", indent, "");
        fits = bytes_that_fit(line, count, columns - indent, 1, &rest);
        gs_text_put(text, line, fits);
    }
}

void gs_text_fold(gs_text *text, const char *lines, size_t count, int columns) {
    for (const char *end = lines + count, *line = lines; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        gs_text_fold_line(text, line, (size_t)((newline ? newline : end) - line), columns, -1);
        gs_text_put(text, "\n", newline != NULL);
        line = newline ? newline + 1 : end;
    }
}

/* A line that is in the middle of being built is folded as two. */
static bool write_folded(const gs_text *text) {
    gs_text folded = {0};
    gs_text_fold(&folded, text->data, text->count, text->columns);
    bool is_written = !folded.failed && fwrite(folded.data, 1, folded.count, text->sink) == folded.count;
    gs_text_free(&folded);
    return is_written;
}

gs_text gs_text_folded(FILE *sink, int columns) {
    return (gs_text){.sink = sink, .columns = columns, .write_folded = write_folded};
}

gs_text gs_text_for_people(FILE *sink) {
    return gs_text_folded(sink, gs_columns(sink));
}
