/*
 * grants.h: measures the numbering of blocks of a GPU; for survey.c.
 */
#ifndef GS_FUZZ_GRANTS_H
#define GS_FUZZ_GRANTS_H

#include "calibrate.h"

typedef struct gs_grants_request {
    gs_device *device;
    gs_gpu *gpu;                   /* its description so far: limits and tie order; gets the grants */
    gs_shape filler;               /* a shape of which an SM takes one block */
    const int16_t *cluster_groups; /* by SM: the lowest SM seen in one cluster with it; NULL: no clusters */
} gs_grants_request;

/* Measures the grants and puts them into `request->gpu`. Its mechanisms, including the numbering, are not changed. If
   blocks are not numbered by groups of SMs, there are no grants. */
gs_code gs_grants_measure(const gs_grants_request *request, gs_grants_found *found, gs_error *error);

typedef struct gs_cuts_request {
    gs_device *device;
    gs_gpu *gpu;    /* its grants explain the launches of `runs` */
    gs_shape small; /* a shape of which an SM takes many blocks */
    int32_t small_per_sm;
    const int16_t *ties; /* the tie order */
    gs_run *const *runs; /* by place in tie order, except the last: launches that end with the SM at this place */
} gs_cuts_request;

/* Decides between numbers of grants before cut rounds that explain these launches equally (cuts.c). `*open`: the number
   of SMs with several numbers left. */
gs_code gs_cuts_decide(const gs_cuts_request *request, int32_t *open, gs_error *error);

/* Changes the numbers of grants before cut rounds so that they explain more of the recordings block by block. */
gs_code gs_grants_refine(gs_gpu *gpu, gs_run *const *runs, size_t count, gs_error *error);

#endif
