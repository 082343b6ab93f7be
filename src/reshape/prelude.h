/* prelude.h: what stands before a reshaped source, for this room alone. See prelude.c. */
#ifndef GS_PRELUDE_H
#define GS_PRELUDE_H

#include "reshape.h"

/* How the threads of a worker meet between two blocks of the grid. */
typedef enum gs_meeting {
    GS_MEET_PLAIN,  /* a barrier */
    GS_MEET_VOTES,  /* threads that returned take part in the barriers of the others */
    GS_MEET_ROUNDS, /* the same where the kernel votes at barriers */
    GS_MEETINGS
} gs_meeting;

typedef struct gs_plan {
    enum gs_form form;
    uint32_t task_blocks; /* of a confined kernel that is not told; 0: 10 */
    gs_meeting meeting;
    bool tells_block;  /* functions outside of the kernel ask for the block and the grid */
    bool runs_on;      /* the threads of a block share nothing and never meet: warps need not wait between two blocks */
    bool counts_lanes; /* lanes that returned are left out of the masks of warp operations */
} gs_plan;

void gs_put_prelude(gs_text *into, const char *file, const char *kernel, const gs_plan *plan);
/* What the last parameter is called: "gs_persistent". */
const char *gs_told_type(enum gs_form form);
/* What stands after the { of a reshaped kernel, and before its }. */
void gs_put_head(gs_text *into, const gs_plan *plan);
void gs_put_tail(gs_text *into, const gs_plan *plan);

#endif
