/* input.h: the inside of gs_input, for json.c alone. */
#ifndef GS_INPUT_H
#define GS_INPUT_H

#include "base.h"

#include <zlib.h>

struct gs_input {
    char *name;
    gzFile file;       /* NULL: the bytes are in memory */
    const char *bytes; /* what has been read and not been taken */
    size_t at, count;
    long line, column; /* of the next byte, from 1 */
    char buffer[1 << 16];
};

enum { GS_INPUT_END = -1, GS_INPUT_FAILED = -2 };

/* Makes sure that there are bytes at `bytes + at`, up to `count`, unless the file has ended. 1, GS_INPUT_END, or
   GS_INPUT_FAILED (with *error set). */
int gs_input_look(gs_input *input, gs_error *error);
/* Takes some of these bytes. */
void gs_input_take(gs_input *input, size_t count);

#endif
