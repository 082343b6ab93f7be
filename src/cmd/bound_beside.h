/* bound_beside.h: the bound of a request beside best-effort work, for bound.c alone. */
#ifndef GS_BOUND_BESIDE_H
#define GS_BOUND_BESIDE_H

#include "cmd.h"

typedef struct gs_beside_question {
    const gs_gpu_choice *gpu;
    const char *request, *work, *latencies; /* files; latencies: may be NULL */
    const char *range;                      /* the name of a request in its recording, or NULL */
    const char *const *unstopped;           /* patterns of kernels that cannot be stopped, and NULL; or NULL */
    int64_t ahead_us;                       /* 0: the default of `gridsmith run` */
    int64_t every_us;                       /* the least time between two requests; 0: that of the recording */
    bool no_guard, json;
} gs_beside_question;

gs_code gs_answer_beside(const gs_beside_question *question, gs_text *text, gs_error *error);

#endif
