/* bound_kernel.h: the bound of a compiled kernel, for bound.c alone. */
#ifndef GS_BOUND_KERNEL_H
#define GS_BOUND_KERNEL_H

#include "cmd.h"

typedef struct gs_kernel_question {
    const gs_gpu_choice *gpu;
    const char *file, *kernel, *launch, *latencies; /* kernel, latencies: may be NULL */
    const gs_words *loops;                          /* "LINE=ROUNDS" or "0xOFFSET=ROUNDS" */
    bool json, csv, html, instructions;             /* instructions: they are counted only */
    bool input;                                     /* rounds of loops are counted for the input of the launch */
    bool cached;                                    /* the L2 has the buffers of the launch */
    bool writers;                                   /* other programs write memory */
} gs_kernel_question;

gs_code gs_answer_kernel(const gs_kernel_question *question, gs_text *text, gs_error *error);

#endif
