/*
 * ptx_loop.h: the block loop of a reshaped kernel, as PTX.
 *
 * A persistent or confined kernel is the original's body with a loop around it:
 *
 *     begin: take the first task
 *     loop:  end if there is no task; %gs_x, %gs_y, %gs_z = the next block of the task
 *            the body, in which a return goes to `next`
 *     next:  wait for the other threads; take a task if this one is done; go to loop
 */
#ifndef GS_PTX_LOOP_H
#define GS_PTX_LOOP_H

#include "forms.h"

/* The requirements of the loop around a body. */
typedef struct gs_block_loop {
    enum gs_form form; /* GS_FORM_PERSISTENT or GS_FORM_CONFINED */
    uint32_t task_blocks;
    bool counts_blocks;         /* counts how often each block ran */
    bool warps_are_independent; /* threads share nothing: each warp continues with the next block on its own */
    bool exited_threads_wait;   /* exited threads take part in the barriers of the others */
    bool has_votes; /* exited threads wait, and barriers vote: all barriers count votes; exited threads cast none */
    bool has_async_copies, has_bulk_copies, has_mbarriers, has_group_products;
    bool is_ordered;       /* blocks wait for lower ones: no block is given to a worker block that has not begun */
    bool stores_block;     /* functions read the number of the block from shared memory: ptx_calls.c */
    bool needs_whole_rows; /* the block must be a multiple of 32 wide */
    bool needs_one_row;    /* the grid must have one row */
    bool reads_block[3];   /* which parts of %ctaid the body reads; */
    bool is_uniform;       /* these are put into uniform registers */
    uint32_t barrier;      /* the number of the barrier that separates blocks */
} gs_block_loop;

/* Declarations and everything before the body. */
void gs_block_loop_begin(gs_text *into, const gs_block_loop *loop);
/* Everything after the body. */
void gs_block_loop_end(gs_text *into, const gs_block_loop *loop);
/* The last parameter, without a comma before it. */
void gs_block_loop_parameter(gs_text *into, const gs_block_loop *loop);

#endif
