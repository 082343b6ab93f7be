/*
 * record_file.c: the file of a recording: whole lines, appended, within a limit.
 *
 * A shorter file is better than an unreadable one. So each write ends at the end of a line, and a partial write is
 * undone. At the limit, later lines are dropped; or, to keep the newest, the file becomes the older half (PATH.older)
 * and a new one begins: each begins with the header and can be read by itself. `gridsmith trace` joins them when the
 * program has ended.
 */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- names ---- */

/* PATTERN with %p replaced; false: it has no %p. */
static bool replace_process(const char *pattern, char *path, size_t size) {
    const char *found = strstr(pattern, "%p");
    if (found)
        snprintf(path, size, "%.*s%ld%s", (int)(found - pattern), pattern, (long)getpid(), found + 2);
    return found;
}

/* "app.jsonl", "app.123.jsonl", "app.123.2.jsonl" and so on. */
static void number_path(const char *pattern, int try, char *path, size_t size) {
    const char *slash = strrchr(pattern, '/'), *dot = strrchr(slash ? slash : pattern, '.');
    const char *end = dot && dot > (slash ? slash + 1 : pattern) ? dot : pattern + strlen(pattern);
    char number[48] = "";
    if (try > 0)
        snprintf(number, sizeof number, try > 1 ? ".%ld.%d" : ".%ld", (long)getpid(), try);
    snprintf(path, size, "%.*s%s%s", (int)(end - pattern), pattern, number, end);
}

void gs_record_file_older(const char *path, char *older, size_t size) {
    snprintf(older, size, "%s.older", path);
}

/* ---- writing ---- */

static int create_file(const char *path, int more) {
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | more, 0666);
}

/* All or nothing: a partial write on a full disk is truncated. */
static bool write_all(gs_record_file *file, const char *bytes, size_t count) {
    size_t done = 0;
    while (done < count) {
        ssize_t written = write(file->descriptor, bytes + done, count - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            if (done && ftruncate(file->descriptor, (off_t)file->bytes) != 0)
                file->bytes += done;
            file->status->failed++;
            return false;
        }
        done += (size_t)written;
    }
    file->bytes += count;
    return true;
}

bool gs_record_file_open(gs_record_file *file, const char *pattern) {
    enum { TRIES = 1000 };
    char *path = file->status->path;
    if (replace_process(pattern, path, GS_TRACE_PATH)) {
        file->descriptor = create_file(path, O_TRUNC);
    } else {
        for (int i = file->is_first ? 0 : 1; i < TRIES && file->descriptor < 0; i++) {
            number_path(pattern, i, path, GS_TRACE_PATH);
            file->descriptor = create_file(path, O_EXCL);
            if (file->descriptor < 0 && errno != EEXIST)
                break;
        }
    }
    return file->descriptor >= 0 && write_all(file, file->header, file->header_length);
}

/* The file becomes the older half; the previous older half is replaced. */
static bool turn_over(gs_record_file *file) {
    char older[GS_TRACE_PATH + 16];
    gs_record_file_older(file->status->path, older, sizeof older);
    if (rename(file->status->path, older) != 0)
        return false;
    int made = create_file(file->status->path, O_EXCL);
    if (made < 0)
        return false;
    close(file->descriptor);
    file->descriptor = made;
    file->status->skipped += file->older_lines;
    file->older_lines = file->lines;
    file->lines = 0;
    file->bytes = 0;
    return write_all(file, file->header, file->header_length);
}

/* How many bytes of lines the file may still get, or the newer half of it. The line of the end has room after them. */
static uint64_t room_left(const gs_record_file *file) {
    enum { END_BYTES = 100 };
    uint64_t most = file->keep_newest ? file->limit / 2 : file->limit, used = file->bytes + END_BYTES;
    return !file->limit ? UINT64_MAX : most > used ? most - used : 0;
}

/* The bytes of the first lines, as many as have room, and at most `most`; and how many they are. */
static size_t lines_within(const char *lines, size_t count, uint64_t room, uint64_t most, uint64_t *found) {
    size_t bytes = 0;
    *found = 0;
    while (bytes < count && *found < most) {
        const char *end = memchr(lines + bytes, '\n', count - bytes);
        size_t next = end ? (size_t)(end - lines) + 1 : count;
        if (next > room)
            break;
        bytes = next;
        ++*found;
    }
    return bytes;
}

static void append_lines(gs_record_file *file, const char *lines, size_t count, uint64_t line_count) {
    if (write_all(file, lines, count))
        file->lines += line_count;
    else
        file->is_full = true;
    file->status->bytes = file->bytes;
}

/* To keep the newest, a line that has no room in an empty half is left out alone. */
static size_t append_within_limit(gs_record_file *file, const char *lines, size_t count, uint64_t *found) {
    size_t bytes = lines_within(lines, count, room_left(file), UINT64_MAX, found);
    if (!bytes && file->keep_newest && file->lines && turn_over(file))
        bytes = lines_within(lines, count, room_left(file), UINT64_MAX, found);
    if (bytes) {
        append_lines(file, lines, bytes, *found);
    } else if (file->keep_newest && !file->lines) {
        bytes = lines_within(lines, count, UINT64_MAX, 1, found);
        file->status->skipped += *found;
    } else {
        file->is_full = true;
    }
    return bytes;
}

void gs_record_file_write(gs_record_file *file, const char *lines, size_t count, uint64_t line_count) {
    if (file->descriptor < 0)
        return;
    if (!line_count && count)
        append_lines(file, lines, count, 0);
    while (line_count && count && !file->is_full) {
        uint64_t found;
        size_t bytes = append_within_limit(file, lines, count, &found);
        lines += bytes;
        count -= bytes;
        line_count -= found;
    }
    file->status->skipped += line_count;
}

void gs_record_file_close(gs_record_file *file) {
    if (file->descriptor >= 0)
        close(file->descriptor);
    file->descriptor = -1;
    free(file->header);
    file->header = NULL;
}
