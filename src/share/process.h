/*
 * process.h: starting processes that die with their parent, for this room alone. See process.c.
 */
#ifndef GS_PROCESS_H
#define GS_PROCESS_H

#include "base/base.h"

#include <sys/types.h>

enum { GS_PROCESS_FDS = 4, GS_PROCESS_FIRST_FD = 3 };

typedef struct gs_process_plan {
    const char *program;      /* NULL: $GRIDSMITH_PROGRAM, or the one that runs */
    const char *const *words; /* the subcommand and its arguments, ending in NULL; at most 14 */
    int fds[GS_PROCESS_FDS];  /* become 3, 4, ... there */
    int fd_count;
    const char *const *environment; /* NULL: as it is */
    bool has_own_group;             /* so that it can be killed with all that it started */
} gs_process_plan;

/* Starts the program: its first argument is the subcommand, the second the process id of its parent. */
gs_code gs_process_start(const gs_process_plan *plan, pid_t *process, gs_error *error);

/* In the child: `signal` comes when the thread that started it ends. False: that has happened already. */
bool gs_process_follow(const char *parent, int signal);

/* Whether there are cores enough for processes that look instead of sleeping. To wake up takes about 0.1 ms, and now
   and then some milliseconds on a machine that is shared with others. */
bool gs_process_may_spin(void);

/* What became of it, in words: "it was killed by signal 9 (Killed)". */
void gs_process_say_end(int status, char *text, size_t size);

#endif
