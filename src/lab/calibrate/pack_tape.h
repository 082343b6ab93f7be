/*
 * pack_tape.h: a device that returns the runs of a pack, and records new ones; for pack_make.c and pack_adopt.c.
 */
#ifndef GS_PACK_TAPE_H
#define GS_PACK_TAPE_H

#include "calibrate.h"

typedef struct gs_tape {
    gs_device device; /* to play on; `inside` is this tape */
    const gs_gpu_pack *pack;
    size_t at;              /* the next item of the pack */
    bool has_classes;       /* false: runs with a class are skipped, as they do not measure the topology */
    gs_device *under;       /* plays runs that are not on the pack; NULL: none */
    int file;               /* gets new lines */
    const char *path;       /* its name */
    int64_t added, refused; /* new lines: runs, and refused runs */
    char *pending;          /* why the latest run was refused; added only if others follow it */
} gs_tape;

/* A tape with the GPU of a pack. Keeps its arguments. */
void gs_tape_init(gs_tape *tape, const gs_gpu_pack *pack, gs_device *under);
void gs_tape_clear(gs_tape *tape);

/* Adds a line, given without its newline, to the file. If it fails, the file is unchanged. */
gs_code gs_tape_add_line(gs_tape *tape, const gs_text *line, gs_error *error);

#endif
