/*
 * input.c: the bytes of a file, with their line and column.
 *
 * zlib reads plain files unchanged and decompresses gzip files, so no flag is needed for recordings. A truncated gzip
 * file is an error, not an end of file. A byte order mark at the beginning is skipped.
 */
#include "input.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gs_input *input_new(const char *name, gs_error *error) {
    gs_input *input = calloc(1, sizeof *input);
    if (input)
        input->name = strdup(name);
    if (!input || !input->name) {
        free(input);
        gs_fail_memory(error);
        return NULL;
    }
    input->line = input->column = 1;
    input->bytes = input->buffer; /* no bytes yet */
    return input;
}

gs_code gs_fail_read(gs_error *error, const char *name) {
    bool is_mistake = errno == ENOENT || errno == ENOTDIR || errno == EISDIR || errno == ENAMETOOLONG;
    gs_fail_system(error, "read", name);
    if (error && is_mistake)
        error->code = GS_E_USAGE;
    return is_mistake ? GS_E_USAGE : GS_E_IO;
}

gs_input *gs_input_memory(const char *name, const char *bytes, size_t count, gs_error *error) {
    gs_input *input = input_new(name, error);
    if (input && count) {
        input->bytes = bytes;
        input->count = count;
    }
    return input;
}

gs_input *gs_input_part(const gs_input *input, const char *bytes, size_t count, gs_error *error) {
    gs_input *part = gs_input_memory(input->name, bytes, count, error);
    if (part) {
        part->line = input->line;
        part->column = input->column;
    }
    return part;
}

const char *gs_input_name(const char *path) {
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

gs_input *gs_input_open(const char *path, gs_error *error) {
    bool standard = strcmp(path, "-") == 0;
    gs_input *input = input_new(gs_input_name(path), error);
    if (!input)
        return NULL;
    errno = 0;
    int descriptor = standard ? dup(STDIN_FILENO) : -1;
    input->file = standard ? (descriptor < 0 ? NULL : gzdopen(descriptor, "rb")) : gzopen(path, "rb");
    if (!input->file) {
        if (errno)
            gs_fail_read(error, path);
        else
            gs_fail_memory(error);
        gs_input_close(input);
        return NULL;
    }
    gzbuffer(input->file, 1 << 17);
    return input;
}

void gs_input_close(gs_input *input) {
    if (!input)
        return;
    if (input->file)
        gzclose_r(input->file);
    free(input->name);
    free(input);
}

static void skip_byte_order_mark(gs_input *input) {
    static const char mark[] = "\xef\xbb\xbf";
    if (input->count >= sizeof mark - 1 && memcmp(input->bytes, mark, sizeof mark - 1) == 0)
        input->at = sizeof mark - 1;
}

/* Reads the next piece of the file. Returns 1, GS_INPUT_END or GS_INPUT_FAILED. */
static int refill_buffer(gs_input *input, gs_error *error) {
    if (!input->file)
        return GS_INPUT_END;
    errno = 0;
    bool is_first = gztell(input->file) == 0;
    int count = gzread(input->file, input->buffer, sizeof input->buffer);
    int problem = Z_OK;
    gzerror(input->file, &problem);
    if (problem == Z_ERRNO) {
        gs_fail_read(error, input->name);
        return GS_INPUT_FAILED;
    }
    if (count < 0 || (count == 0 && problem == Z_BUF_ERROR)) {
        gs_fail(error, GS_E_FORMAT, "%s: the gzip file is %s", input->name,
                problem == Z_BUF_ERROR ? "cut short" : "damaged");
        return GS_INPUT_FAILED;
    }
    input->bytes = input->buffer;
    input->at = 0;
    input->count = (size_t)count;
    if (is_first)
        skip_byte_order_mark(input);
    return input->at < input->count ? 1 : GS_INPUT_END;
}

int gs_input_look(gs_input *input, gs_error *error) {
    return input->at < input->count ? 1 : refill_buffer(input, error);
}

size_t gs_input_bytes_read(const gs_input *input) {
    if (!input->file || gzdirect(input->file))
        return SIZE_MAX;
    z_off_t offset = gzoffset(input->file);
    return offset < 0 ? 0 : (size_t)offset;
}

/* Moves the unread bytes to the start of the buffer, and reads more behind them. False: end of file, or the buffer is
   full. */
static bool extend_buffer(gs_input *input) {
    size_t left = input->count - input->at;
    if (!input->file || left == sizeof input->buffer)
        return false;
    memmove(input->buffer, input->bytes + input->at, left);
    input->bytes = input->buffer;
    input->at = 0;
    int count = gzread(input->file, input->buffer + left, (unsigned)(sizeof input->buffer - left));
    input->count = left + (count > 0 ? (size_t)count : 0);
    return count > 0;
}

size_t gs_input_line(gs_input *input, const char **line, bool *is_last) {
    const char *newline;
    size_t searched = 0, left;
    *is_last = false;
    do {
        left = input->count - input->at;
        newline = left > searched ? memchr(input->bytes + input->at + searched, '\n', left - searched) : NULL;
        searched = left;
    } while (!newline && extend_buffer(input));
    *line = input->bytes + input->at;
    left = input->count - input->at;
    if (newline)
        return (size_t)(newline - *line);
    *is_last = left < sizeof input->buffer;
    return *is_last && left ? left : SIZE_MAX;
}

gs_code gs_input_more(gs_input *input, const char **bytes, size_t *count, gs_error *error) {
    gs_error problem = {.code = GS_E_IO};
    int more = gs_input_look(input, &problem);
    *bytes = input->bytes + input->at;
    *count = more == 1 ? input->count - input->at : 0;
    if (more != GS_INPUT_FAILED)
        return GS_OK;
    if (error)
        *error = problem;
    return problem.code;
}

gs_code gs_input_fail(const gs_input *input, gs_error *error, gs_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    gs_fail_list(error, code, format, arguments);
    va_end(arguments);
    if (!error)
        return code;
    snprintf(error->file, sizeof error->file, "%s", input->name);
    error->line = input->line;
    error->column = input->column;
    return code;
}

gs_code gs_input_check_expansion(const gs_input *input, gs_error *error) {
    enum { FREE_BYTES = 20 << 20, MOST_EXPANSION = 100 };
    z_off_t expanded = input->file ? gztell(input->file) : 0;
    if (expanded <= FREE_BYTES || (size_t)expanded / MOST_EXPANSION <= gs_input_bytes_read(input))
        return GS_OK;
    return gs_input_fail(input, error, GS_E_FORMAT,
                         "the file is more than 100 times as long as its compressed bytes; decompress it first");
}

long gs_input_line_number(const gs_input *input) {
    return input->line;
}

void gs_input_take(gs_input *input, size_t count) {
    const char *from = input->bytes + input->at, *end = from + count, *newline;
    while ((newline = memchr(from, '\n', (size_t)(end - from)))) {
        input->line++;
        input->column = 1;
        from = newline + 1;
    }
    input->column += end - from;
    input->at += count;
}

gs_code gs_input_all(const char *path, size_t most, char **bytes, size_t *count, gs_error *error) {
    gs_error ignored;
    error = error ? error : &ignored;
    gs_text text = {0};
    *error = (gs_error){.code = GS_OK};
    gs_input *input = gs_input_open(path, error);
    while (input && text.count <= most && gs_input_look(input, error) == 1 &&
           (!gs_input_bytes_read(input) || gs_input_check_expansion(input, error) == GS_OK)) {
        size_t available = input->count - input->at;
        gs_text_put(&text, input->bytes + input->at, available);
        gs_input_take(input, available);
    }
    gs_input_close(input);
    gs_text_put(&text, "", 0);
    if (text.failed)
        gs_fail_memory(error);
    else if (error->code == GS_OK && text.count > most)
        gs_fail(error, GS_E_USAGE, "%s is longer than %zu bytes", gs_input_name(path), most);
    if (error->code != GS_OK)
        gs_text_free(&text);
    *bytes = text.data;
    *count = text.count;
    return error->code;
}

gs_code gs_gunzip(const void *bytes, size_t count, size_t most, gs_text *text, gs_error *error) {
    enum { GZIP_ONLY = 16 };
    const size_t before = text->count;
    z_stream stream = {.next_in = bytes, .avail_in = (unsigned)gs_min_u64(count, UINT_MAX)};
    if (inflateInit2(&stream, MAX_WBITS + GZIP_ONLY) != Z_OK)
        return gs_fail_memory(error);
    unsigned char piece[1 << 14];
    int state = Z_OK;
    while (state == Z_OK && text->count - before <= most) {
        stream.next_out = piece;
        stream.avail_out = sizeof piece;
        state = inflate(&stream, Z_NO_FLUSH);
        gs_text_put(text, (const char *)piece, sizeof piece - stream.avail_out);
    }
    inflateEnd(&stream);
    if (text->failed)
        return gs_fail_memory(error);
    if (text->count - before > most)
        return gs_fail(error, GS_E_FORMAT, "the gzip data expands to more than %zu bytes", most);
    return state == Z_STREAM_END ? GS_OK : gs_fail(error, GS_E_FORMAT, "the gzip data is damaged");
}

const gs_embedded_file *gs_embedded_find(const gs_embedded_files *files, const char *name) {
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->data[i].name, name) == 0)
            return &files->data[i];
    return NULL;
}
