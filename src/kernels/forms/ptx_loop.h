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

enum { GS_PTX_BARRIERS = 16 }; /* of a block */

/* The requirements of the loop around a body. */
typedef struct gs_block_loop {
    enum gs_form form; /* GS_FORM_PERSISTENT or GS_FORM_CONFINED */
    uint32_t task_blocks;
    bool counts_blocks;         /* counts how often each block ran */
    bool warps_are_independent; /* threads share nothing: each warp continues with the next block on its own */
    bool exited_threads_wait;   /* exited threads take part in the barriers of the others */
    bool has_votes;             /* exited threads wait, and barriers vote: votes are counted in shared memory */
    bool has_async_copies, has_bulk_copies, has_mbarriers, has_group_products;
    bool is_ordered;       /* blocks wait for lower ones: no block is given to a worker block that has not begun */
    bool takes_single;     /* they also wait in another order: see put_taking in ptx_loop.c */
    bool stores_block;     /* functions read the number of the block from shared memory: ptx_calls.c */
    bool needs_whole_rows; /* the block must be a multiple of 32 wide */
    bool needs_one_row;    /* the grid must have one row; */
    bool needs_one_layer;  /* its z must be 1, */
    uint32_t most_blocks;  /* the most blocks of a grid */
    bool reads_block[3];   /* which parts of %ctaid the body reads; */
    bool is_uniform;       /* these are put into uniform registers */
    uint32_t masks;        /* of lanes, that the body uses: all lanes when it begins. See ptx_lanes.c */
    uint32_t barrier;      /* the number of the barrier that separates blocks */
    uint32_t arrivals;     /* a bit for each barrier that may be left with threads that arrived without waiting, */
    uint32_t arrival_counts[GS_PTX_BARRIERS]; /* and for how many threads it is */
    bool is_behind;                           /* its shared memory is the end of the dynamic one: see ptx_shared.c */
    uint32_t dynamic_align;                   /* of the dynamic shared memory */
    const char *ours;                         /* the name of its shared memory */
} gs_block_loop;

/* The address of the counter of votes of this interval, if exited threads wait and barriers vote. %gs_seen is what it
   was when this thread read it last, %gs_last the same of the other counter. */
#define GS_PTX_VOTES_AT "%gs_phase+-80"

/* The offset in the shared memory of the loop of the word that counts who came to a barrier of `arrivals`; 0: there are
   too many. */
uint32_t gs_block_loop_arrivals_at(const gs_block_loop *loop, uint32_t barrier);

/* The shared memory of the loop, in bytes; and, behind it, that from which functions read the number of the block. */
enum { GS_LOOP_SHARED = 136, GS_LOOP_BLOCK = 24 };

/* What a form adds to the module has the name of the form, and this behind it. */
#define GS_LOOP_NAMES "_gs_"

/* Where the last parameter has the size of the dynamic shared memory, if the loop is behind it. */
uint32_t gs_block_loop_shared_at(const gs_block_loop *loop);
/* Declares the shared memory of the loop, before the entry. */
void gs_block_loop_declare(gs_text *into, const gs_block_loop *loop);
/* Puts the address of the shared memory of a loop that is behind the dynamic one into a register. */
void gs_block_loop_find(gs_text *into, const gs_block_loop *loop, const char *address, const char *other);
/* Stores the number of the block and the grid, for functions. */
void gs_block_loop_store_block(gs_text *into, const gs_block_loop *loop);

/* Declarations and everything before the body. */
void gs_block_loop_begin(gs_text *into, const gs_block_loop *loop);
/* Everything after the body. */
void gs_block_loop_end(gs_text *into, const gs_block_loop *loop);
/* The last parameter, without a comma before it; and its size. */
void gs_block_loop_parameter(gs_text *into, const gs_block_loop *loop);
uint32_t gs_block_loop_parameter_bytes(const gs_block_loop *loop);

#endif
