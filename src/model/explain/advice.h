/*
 * advice.h: what advice.c needs of explain.c: a program with its base and its kernels.
 */
#ifndef GS_ADVICE_H
#define GS_ADVICE_H

#include "explain.h"

struct gs_adviser {
    const gs_recorded_program *program;
    const gs_outcome *base; /* played without a change */
    const gs_kernel_rows *rows;
    gs_advices *advices; /* added to */
};

gs_code gs_advise(struct gs_adviser *adviser, gs_error *error);

#endif
