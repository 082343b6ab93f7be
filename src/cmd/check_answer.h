/* check_answer.h: the answer of gridsmith check, for people and for programs (check_answer.c). */
#ifndef GS_CHECK_ANSWER_H
#define GS_CHECK_ANSWER_H

#include "sched/sched.h"

/* All that is known about one run. */
typedef struct gs_check_answer {
    const gs_gpu *gpu;
    const gs_run *run;
    gs_check check;
    gs_orders orders;
    gs_fixes fixes;
    bool every_order; /* asked for: all launch orders */
    bool works;       /* the answer to what was asked for; not known counts as no */
    bool has_fixes;   /* fixes were searched for */
    bool too_many;    /* they were not, because too many kernels are in the conflict */
} gs_check_answer;

void gs_answer_words(const gs_check_answer *answer, gs_text *text);

/* One line of gridsmith.check/2. */
void gs_answer_json(const gs_check_answer *answer, gs_text *text);

#endif
