/*
 * ptx_recording.h: what launches left in their buffers, as text. For tests/cpu/ptx_compare.c.
 *
 * So a CPU and a GPU on different machines can be compared. A launch is a line with a word and the names that it is
 * found by, and a line for each stretch of bytes that it changed:
 *
 *   launch FILE KERNEL GUESS
 *   PARAMETER OFFSET BYTES (in hexadecimal)
 */
#ifndef GS_PTX_RECORDING_H
#define GS_PTX_RECORDING_H

#include "base/base.h"

struct recording_key {
    const char *file, *kernel;
    int guess;
};

void recording_begin(FILE *into, const struct recording_key *key);
void recording_put(FILE *into, uint32_t parameter, const unsigned char *before, const unsigned char *after,
                   size_t size);

/* A recording that is read: where each launch begins in its text. */
struct recording {
    char *text;
    const char **launches; /* their first lines */
    size_t count;
};

gs_code recording_read(struct recording *recording, const char *path, gs_error *error);
void recording_free(struct recording *recording);
/* The lines of a launch, NULL if it is not there. */
const char *recording_find(const struct recording *recording, const struct recording_key *key);
/* Overwrites `buffer` with the contents that the launch left in a parameter. False: the lines do not match the
   buffer. */
bool recording_apply(const char *lines, uint32_t parameter, unsigned char *buffer, size_t size);

#endif
