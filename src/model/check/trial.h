/* trial.h: a run with changes, played. For fix.c, which searches for changes that help, and orders.c. */
#ifndef GS_TRIAL_H
#define GS_TRIAL_H

#include "check.h"

enum { GS_MOST_PERMUTED = 6 }; /* with up to this many kernels, all launch orders are tried */

typedef struct gs_trial gs_trial;

/* `gpu` and `run` must live longer. */
gs_trial *gs_trial_new(const gs_gpu *gpu, const gs_run *run, gs_error *error);
void gs_trial_free(gs_trial *trial);

/* Sets `*works` to whether all blocks of all kernels are resident together with these changes, in this launch order
   (NULL: that of the run). A change of the kind GS_FIX_ORDER is ignored, because `order` has the order. */
gs_code gs_trial_play(gs_trial *trial, const gs_change *changes, size_t count, const size_t *order, bool *works,
                      gs_error *error);

/* Puts the next permutation of 0 .. count - 1 into `order`, in ascending order. False: that was the last. */
bool gs_next_permutation(size_t *order, size_t count);

/* Whether other launch orders are possible: the run has no exits, and no launch waits for another one by an edge. */
bool gs_run_order_is_free(const gs_run *run);

#endif
