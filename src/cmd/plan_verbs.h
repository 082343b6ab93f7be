/* plan_verbs.h: the parts of 'gridsmith plan' that are not in plan.c. */
#ifndef GS_CMD_PLAN_VERBS_H
#define GS_CMD_PLAN_VERBS_H

#include "base/base.h"

/* 'gridsmith plan --simulate' and '--play': argv[0] is "plan". Returns the exit code. */
int gs_cmd_plan_simulate(int argc, char **argv);

enum { GS_PLAY_ROUNDS = 100 }; /* the most */

typedef struct gs_plan_play_options {
    const char *plan, *tasks; /* the file, and names and files of tasks with commas between */
    const char *size;         /* of the kernels */
    int64_t rounds, seconds;
} gs_plan_play_options;

/* How long all tasks take, the median of the rounds. 0: there was no time for it. */
typedef struct gs_plan_played {
    double alone_us; /* one after the other: the sum of their times alone */
    double streams_us, served_us;
    double mps_us; /* 0: also if this machine has no MPS */
    bool is_late;  /* not all rounds of all ways ended within the seconds */
} gs_plan_played;

/* Opening finds mistakes in the names of tasks; it needs no GPU. NULL: an error. The options must stay. */
typedef struct gs_plan_play gs_plan_play;
gs_plan_play *gs_plan_play_open(const gs_plan_play_options *options, gs_error *error);
gs_code gs_plan_play_run(gs_plan_play *play, gs_plan_played *played, gs_error *error);
void gs_plan_play_close(gs_plan_play *play); /* NULL is allowed */

#endif
