/* plan_verbs.h: the parts of 'gridsmith plan' that are not in plan.c. */
#ifndef GS_CMD_PLAN_VERBS_H
#define GS_CMD_PLAN_VERBS_H

/* 'gridsmith plan --simulate': argv[0] is "plan". Returns the exit code. */
int gs_cmd_plan_simulate(int argc, char **argv);

#endif
