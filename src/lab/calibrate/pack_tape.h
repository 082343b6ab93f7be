/*
 * pack_tape.h: a device that returns what is on a pack, and records what is not; for pack_make.c and pack_adopt.c.
 */
#ifndef GS_PACK_TAPE_H
#define GS_PACK_TAPE_H

#include "calibrate.h"

typedef struct gs_tape {
    gs_device device; /* to play on; `inside` is this tape */
    const gs_gpu_pack *pack;
    size_t at;              /* the next item of the pack */
    bool has_classes;       /* false: runs with a class are skipped: those are not measurements of the topology */
    gs_device *under;       /* plays what is not on the pack; NULL: nothing does */
    int file;               /* to which new lines are added */
    const char *path;       /* its name */
    int64_t added, refused; /* new lines: runs, and refused runs */
    char *pending;          /* why the latest run was refused; added only if others follow it */
} gs_tape;

/* A tape with the GPU of a pack. Keeps its arguments. */
void gs_tape_init(gs_tape *tape, const gs_gpu_pack *pack, gs_device *under);
void gs_tape_clear(gs_tape *tape);

/* Adds a line, without its newline, to the file. If it fails, nothing of it stays there. */
gs_code gs_tape_add_line(gs_tape *tape, const gs_text *line, gs_error *error);

#endif
