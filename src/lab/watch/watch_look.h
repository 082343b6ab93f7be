/*
 * watch_look.h: a process that is watched, and a look at it.
 */
#ifndef GS_WATCH_LOOK_H
#define GS_WATCH_LOOK_H

#include "hang.h"

typedef struct gs_watched {
    int process;
    gs_watch_page *page; /* mapped */
    int64_t counted_ns;  /* waits are counted from here on: the process was stopped before, by a debugger */
    int64_t looked_ns;   /* the beginning of the wait that was looked at, */
    int64_t again_ns;    /* how long it is to last until the next look, */
    int said;            /* and what was said of it, see watch_run.c */
    bool has_ended;
} gs_watched;

/* Maps the page of a process. False: it is not complete yet. */
bool gs_watched_open(gs_watched *watched, const char *folder, const char *name);
void gs_watched_close(gs_watched *watched);
/* How long a thread of the process has been waiting for the GPU; `*since_ns`: the beginning of that. */
int64_t gs_watched_waits(gs_watched *watched, int64_t now_ns, int64_t *since_ns);
/* Looks at a process: its stacks and streams, and the verdict. The caller frees the hang. */
gs_code gs_watched_look(gs_watched *watched, int64_t after_ns, gs_hang *hang, gs_error *error);
/* Asks the driver for a dump, which ends the work of the process on the GPU, and judges again. */
gs_code gs_watched_dump(const gs_watched *watched, const char *folder, gs_hang *hang, gs_error *error);

#endif
