/* input.h: the members of gs_input, for input.c and json.c only. */
#ifndef GS_INPUT_H
#define GS_INPUT_H

#include "base.h"

#define ZLIB_CONST
#include <zlib.h>

struct gs_input {
    char *name;
    gzFile file;       /* NULL: the bytes are in memory */
    const char *bytes; /* what was read; gs_input_take has consumed the first `at` of `count` bytes */
    size_t at, count;
    long line, column; /* of the next byte, from 1 */
    char buffer[1 << 16];
};

enum { GS_INPUT_END = -1, GS_INPUT_FAILED = -2 };

/* Makes sure that at least one byte is available at `bytes + at`. Returns 1, GS_INPUT_END at the end of the file, or
   GS_INPUT_FAILED (with *error set). */
int gs_input_look(gs_input *input, gs_error *error);
/* The number of compressed bytes that were read so far. SIZE_MAX: the file is not compressed; 0: not known, as for a
   pipe. */
size_t gs_input_bytes_read(const gs_input *input);

#endif
