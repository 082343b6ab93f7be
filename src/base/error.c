/*
 * error.c: errors as values.
 *
 * An error is made once, where it is detected, and returned up the call chain unchanged. gs_fail sets no place;
 * gs_json_fail (json.c) adds the file, the line and the column. Only src/cmd prints errors.
 */
#include "base.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define ERROR_ROW(name, exit_code, meaning) {exit_code, meaning},
static const struct {
    int exit_code;
    const char *meaning;
} codes[GS_CODES] = {GS_ERRORS(ERROR_ROW)};

int gs_code_exit(gs_code code) {
    return codes[code].exit_code;
}

const char *gs_code_meaning(gs_code code) {
    return codes[code].meaning;
}

/* A message is one line, even if it quotes a name that contains newlines. */
static void keep_to_one_line(char *message) {
    for (; *message; message++)
        if ((unsigned char)*message < 0x20 || *message == 0x7f)
            *message = '?';
}

gs_code gs_fail_list(gs_error *error, gs_code code, const char *format, va_list arguments) {
    char message[sizeof error->message]; /* an argument may be the message that is replaced */
    if (!error)
        return code;
    vsnprintf(message, sizeof message, format, arguments);
    keep_to_one_line(message);
    *error = (gs_error){.code = code};
    memcpy(error->message, message, strlen(message) + 1);
    return code;
}

gs_code gs_fail(gs_error *error, gs_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    gs_fail_list(error, code, format, arguments);
    va_end(arguments);
    return code;
}

gs_code gs_fail_memory(gs_error *error) {
    return gs_fail(error, GS_E_MEMORY, "out of memory");
}

gs_code gs_fail_system(gs_error *error, const char *what, const char *file) {
    enum { SHOWN = 250 }; /* of a longer path only the end is shown, so that the reason still fits */
    size_t size = strlen(file);
    bool is_long = size > SHOWN;
    return gs_fail(error, GS_E_IO, "cannot %s %s%s: %s", what, is_long ? "..." : "",
                   file + (is_long ? size - SHOWN : 0), strerror(errno));
}

/* Copies the part of the line around `offset` into the error, for a caret. */
static void add_excerpt(gs_error *error, const char *text, size_t size, size_t offset) {
    enum { BEFORE = 50 };
    size_t from = offset, to = offset;
    while (from > 0 && text[from - 1] != '\n' && offset - from < BEFORE)
        from--;
    while (to < size && text[to] != '\n' && to - from < sizeof error->excerpt - 1)
        to++;
    for (size_t i = from; i < to; i++)
        error->excerpt[i - from] = (unsigned char)text[i] < 0x20 ? ' ' : text[i];
    error->excerpt[to - from] = '\0';
    error->caret = (int)(offset - from);
}

void gs_error_place(gs_error *error, const char *text, size_t size, size_t offset, long line, long column) {
    if (!error)
        return;
    offset = gs_min_u64(offset, size);
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            line++;
            column = 0;
        }
        column++;
    }
    error->line = line;
    error->column = column;
    add_excerpt(error, text, size, offset);
}

gs_code gs_error_name_file(gs_error *error, const char *file) {
    if (!error)
        return GS_E_FORMAT;
    if (!error->file[0])
        snprintf(error->file, sizeof error->file, "%s", file);
    return error->code;
}

const char *gs_error_text(const gs_error *error, char *text, size_t size) {
    if (!error->file[0])
        snprintf(text, size, "%s", error->message);
    else if (!error->line)
        snprintf(text, size, "%s: %s", error->file, error->message);
    else
        snprintf(text, size, "%s:%ld:%ld: %s", error->file, error->line, error->column, error->message);
    keep_to_one_line(text);
    return text;
}
