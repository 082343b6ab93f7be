/*
 * check_waiting.h: the kernels of a recorded program that wait for other blocks (check_waiting.c).
 */
#ifndef GS_CHECK_WAITING_H
#define GS_CHECK_WAITING_H

#include "cmd.h"
#include "model/check/check.h"

/* Marks the launches that wait for other blocks: `patterns`, which may be NULL, name more kernels, `files` have machine
   code. */
gs_code gs_waiting_mark(const gs_run *run, const gs_gpu *gpu, const char *patterns, const gs_words *files, bool *waits,
                        gs_error *error);

typedef struct gs_waiting {
    size_t *data; /* a launch of each kernel and shape */
    size_t count, capacity;
    gs_concurrent pairs; /* that may run at the same time */
} gs_waiting;

/* The caller clears it, also after an error. */
gs_code gs_waiting_find(const gs_run *run, const bool *waits, gs_waiting *waiting, gs_error *error);
void gs_waiting_clear(gs_waiting *waiting);

#endif
