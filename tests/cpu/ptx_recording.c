/*
 * ptx_recording.c: what launches left in their buffers, as text. See ptx_recording.h.
 */
#include "ptx_recording.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Stretches that are nearer than this are one. */
enum { GAP = 8, MOST_LINE = 2000 };
enum { MOST_BYTES = 256 << 20 };

void recording_begin(FILE *into, const struct recording_key *key) {
    fprintf(into, "launch %s %s %d\n", key->file, key->kernel, key->guess);
}

/* The end of the stretch that begins at `from`. */
static size_t stretch_end(const unsigned char *before, const unsigned char *after, size_t from, size_t size) {
    size_t end = from + 1;
    for (size_t i = end; i < size && i - end < GAP; i++)
        if (before[i] != after[i])
            end = i + 1;
    return end;
}

void recording_put(FILE *into, uint32_t parameter, const unsigned char *before, const unsigned char *after,
                   size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (before[i] == after[i])
            continue;
        size_t end = stretch_end(before, after, i, size);
        fprintf(into, "%" PRIu32 " %zu ", parameter, i);
        for (; i < end; i++)
            fprintf(into, "%02x", after[i]);
        fprintf(into, "\n");
    }
}

gs_code recording_read(struct recording *recording, const char *path, gs_error *error) {
    size_t size = 0, count = 0;
    *recording = (struct recording){0};
    gs_code code = gs_input_all(path, MOST_BYTES, &recording->text, &size, error);
    for (const char *at = recording->text; code == GS_OK && (at = strstr(at, "launch ")); at++)
        count++;
    recording->launches = code == GS_OK ? calloc(count + 1, sizeof *recording->launches) : NULL;
    if (code == GS_OK && !recording->launches)
        code = gs_fail_memory(error);
    for (const char *at = recording->text; code == GS_OK && (at = strstr(at, "launch ")); at++)
        recording->launches[recording->count++] = at;
    return code;
}

void recording_free(struct recording *recording) {
    free(recording->text);
    free(recording->launches);
    *recording = (struct recording){0};
}

const char *recording_find(const struct recording *recording, const struct recording_key *key) {
    char line[MOST_LINE];
    int length = snprintf(line, sizeof line, "launch %s %s %d\n", key->file, key->kernel, key->guess);
    for (size_t i = 0; i < recording->count && length > 0 && length < MOST_LINE; i++)
        if (strncmp(recording->launches[i], line, (size_t)length) == 0)
            return recording->launches[i] + length;
    return NULL;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool recording_apply(const char *lines, uint32_t parameter, unsigned char *buffer, size_t size) {
    while (*lines >= '0' && *lines <= '9') {
        char *end;
        uint32_t number = (uint32_t)strtoul(lines, &end, 10);
        size_t at = strtoul(end, &end, 10);
        for (end++; digit_of(end[0]) >= 0 && digit_of(end[1]) >= 0; end += 2, at++)
            if (number == parameter) {
                if (at >= size)
                    return false;
                buffer[at] = (unsigned char)(digit_of(end[0]) << 4 | digit_of(end[1]));
            }
        if (*end != '\n')
            return false;
        lines = end + 1;
    }
    return true;
}
