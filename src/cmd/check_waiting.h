/*
 * check_waiting.h: the kernels of a recorded program that wait for other blocks (check_waiting.c).
 */
#ifndef GS_CHECK_WAITING_H
#define GS_CHECK_WAITING_H

#include "cmd.h"
#include "model/check/check.h"

/* Why a launch waits for other blocks. */
typedef enum gs_waiting_why {
    GS_WAITS_NOT,
    GS_WAITS_COOPERATIVE,
    GS_WAITS_COLLECTIVE,
    GS_WAITS_NAMED, /* by the user */
    GS_WAITS_IN_CODE,
    GS_WAITS_IN_PTX
} gs_waiting_why;

typedef struct gs_waiting_reason {
    gs_waiting_why why;
    const char *file; /* with the code, */
    size_t at;        /* and where: the offset in the code of the kernel, or the line of the PTX */
} gs_waiting_reason;

/* Fills `waits` for all launches; it is zero before. `patterns`, which may be NULL, name more kernels, `files` have
   machine code or PTX. */
gs_code gs_waiting_mark(const gs_run *run, const gs_gpu *gpu, const char *patterns, const gs_words *files,
                        gs_waiting_reason *waits, gs_error *error);
/* Adds the rest of a sentence that begins with the kernel. */
void gs_put_waiting_reason(gs_text *text, const gs_waiting_reason *wait);

typedef struct gs_waiting {
    size_t *data; /* a launch of each kernel and shape */
    size_t count, capacity;
    gs_concurrent pairs; /* that may run at the same time */
} gs_waiting;

/* The caller clears it, also after an error. */
gs_code gs_waiting_find(const gs_run *run, const gs_waiting_reason *waits, gs_waiting *waiting, gs_error *error);
void gs_waiting_clear(gs_waiting *waiting);

#endif
