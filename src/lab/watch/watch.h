/*
 * watch.h: `gridsmith watch`: why does a program hang?
 *
 *   watch_run.c      runs the program, detects that nothing progresses, asks for a look
 *   watch_look.c     a look: the page of a process, stacks, a dump of the GPU if the program is to be ended
 *   hang_facts.c     what hangs: streams, kernels, threads (hang.h)
 *   hang_code.c      what the code of kernels can wait for
 *   hang_verdict.c   the cause, in words (hang_rules.h, hang_streams.c, hang_words.c)
 *   hang_model.c     which kernels cannot be resident together, and what would help
 *   hang_report.c    the report: text, JSON, a page
 *   watch_join.c     reports of several ranks put together
 *
 * watch_notes.h describes the library that is in front of the driver in the program, and watch_page.h what it writes.
 */
#ifndef GS_WATCH_H
#define GS_WATCH_H

#include "base/base.h"

typedef struct gs_watch_options {
    int64_t after_ns;   /* no progress for this long is a hang */
    bool aborts;        /* at a wait, look into the GPU, which ends the work there, and end the program */
    int64_t rank;       /* -1: from the environment */
    const char *folder; /* where reports are written as files, or NULL */
} gs_watch_options;

/* Runs a program until it ends, and reports hangs on standard error. `*exit_status` is that of the program. */
gs_code gs_watch_program(const gs_watch_options *options, char *const *words, int *exit_status, gs_error *error);
/* Asks the `gridsmith watch` of a process for a report now, and prints it. */
gs_code gs_watch_now(int64_t process, bool aborts, gs_error *error);
/* Puts the reports of a folder together. `*is_hang`: some rank hangs. */
gs_code gs_watch_join(const char *folder, gs_text *text, bool *is_hang, gs_error *error);

#endif
