/* prelude.h: the CUDA code that is added to a reshaped kernel, for this room only. See prelude.c. */
#ifndef GS_PRELUDE_H
#define GS_PRELUDE_H

#include "reshape.h"

/* How the threads of a worker block wait for each other between two blocks of the grid. */
typedef enum gs_barrier {
    GS_BARRIER_PLAIN,   /* a barrier */
    GS_BARRIER_COUNTED, /* threads that returned are counted, and take part in the barriers of the others */
    GS_BARRIER_VOTING,  /* the same for a kernel that votes at barriers */
    GS_BARRIERS
} gs_barrier;

typedef struct gs_plan {
    enum gs_form form;
    uint32_t task_blocks; /* if the launch does not set them; 0: 10 */
    gs_barrier barrier;
    bool publishes_block;       /* functions outside of the kernel read the block and the grid from shared memory */
    bool warps_are_independent; /* warps need not wait for each other between two blocks: they share nothing */
    bool counts_lanes;          /* lanes that returned are removed from the masks of warp operations */
} gs_plan;

void gs_put_prelude(gs_text *into, const char *file, const char *kernel, const gs_plan *plan);
/* The type of the last parameter: "gs_persistent" or "gs_confined". */
const char *gs_parameter_type(enum gs_form form);
/* The code after the { of a reshaped kernel, and before its }. */
void gs_put_head(gs_text *into, const gs_plan *plan);
void gs_put_tail(gs_text *into, const gs_plan *plan);

#endif
