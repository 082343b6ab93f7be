/*
 * hang_rules.h: the rules that find the cause of a hang, and what they need to say it.
 *
 *   hang_words.c     kernels in words
 *   hang_verdict.c   the table of rules, and those about room and collectives
 *   hang_calls.c     rules about the calls that threads are in, and host functions
 *   hang_streams.c   rules about streams that wait for each other, and about what is left
 *
 * A rule that holds says why (`said`), adds fixes, sets `is_alarm` if what it has found does not end by itself, and
 * returns the cause; any other returns GS_HANG_UNKNOWN.
 */
#ifndef GS_HANG_RULES_H
#define GS_HANG_RULES_H

#include "hang.h"

typedef gs_hang_cause gs_hang_rule(gs_hang *hang, gs_hang_fit *fit);

void gs_hang_add_fix(gs_hang *hang, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "name (264 blocks of 128 threads, stream 7)" */
void gs_hang_put_kernel(gs_text *text, const gs_hang_kernel *kernel);
/* ": 528 warps wait for memory (arrived) at app.cu:34"; nothing without a dump */
void gs_hang_put_places(gs_hang *hang, const gs_hang_kernel *kernel);
/* "waits for memory": the most that the code of a kernel can do. */
const char *gs_hang_code_words(const gs_hang_kernel *kernel);
/* Whether its blocks are seen to wait, or its code can. */
bool gs_hang_kernel_waits(const gs_hang *hang, const gs_hang_kernel *kernel);
/* The first kernel that does, and is in the dump or at the head of a stream; NULL: none. */
gs_hang_kernel *gs_hang_first_waiting(gs_hang *hang);
/* Whether what a kernel waits for may still come, as far as is known: from its own blocks, from another kernel, from
   the host or from another rank. `without_room` is a kernel that has not started; it may be NULL. */
bool gs_hang_may_be_released(const gs_hang *hang, const gs_hang_kernel *kernel, const gs_hang_kernel *without_room);

gs_hang_rule gs_hang_judge_host_function, gs_hang_judge_error, gs_hang_judge_whole_gpu, gs_hang_judge_loading,
    gs_hang_judge_late, gs_hang_judge_nccl, gs_hang_judge_event;
gs_hang_rule gs_hang_judge_waits, gs_hang_judge_default_stream, gs_hang_judge_condition, gs_hang_judge_host_node,
    gs_hang_judge_endless;

#endif
