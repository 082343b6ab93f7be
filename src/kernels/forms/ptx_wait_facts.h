/*
 * ptx_wait_facts.h: the analysis of a loop of a kernel. Shared by the files that find waits for other blocks:
 * ptx_waits.c, ptx_iterations.c, ptx_indices.c, ptx_writers.c, ptx_steady.c, ptx_replay.c and ptx_progress.c.
 */
#ifndef GS_PTX_WAIT_FACTS_H
#define GS_PTX_WAIT_FACTS_H

#include "ptx_linear.h"

/* What is known about a value. */
typedef enum gs_ptx_knowledge {
    GS_FACT_ANY,
    GS_FACT_IS,     /* this number */
    GS_FACT_IS_NOT, /* any other number */
    GS_FACT_SET,    /* these bits are set */
    GS_FACT_CLEAR,
    GS_FACT_SAME,  /* what the word has; for all that are SAME it is one value */
    GS_FACT_OTHER, /* something else than SAME */
    GS_FACT_LARGE, /* a number that grows beyond all limits, at most by this in an iteration */
    GS_FACT_SMALL, /* one that falls below all limits, in the same way */
    GS_FACT_MIXED, /* depends on such a number in another way */
    GS_FACT_NONE   /* not computed yet */
} gs_ptx_knowledge;

/* Numbers that grow in larger steps, with these bytes, are not followed. */
#define GS_PTX_MOST_STEP(bytes) ((bytes) == 8 ? 1ull << 40 : 1ull << 16)
/* What the size of a grid counts as in such steps: in a larger grid the counter is assumed not to wrap around, too. */
enum { GS_PTX_USUAL_BLOCKS = 1 << 16 };

typedef struct gs_ptx_fact {
    uint8_t kind; /* gs_ptx_knowledge */
    uint64_t bits;
} gs_ptx_fact;

/* The memory that a statement accesses: GS_PTX_IN_*, generic addresses resolved where their origin is known. */
typedef struct gs_ptx_access {
    uint8_t reads, writes;
    uint32_t place;  /* the variable of shared or local memory; GS_PTX_NONE: not known */
    uint32_t offset; /* in the variable; GS_PTX_NONE: not known */
    uint32_t end;    /* what is written there ends before this; GS_PTX_NONE: not known */
} gs_ptx_access;

typedef struct gs_ptx_loop {
    const gs_ptx_kernel *kernel;
    gs_ptx_access *accesses;            /* of the statements of the function */
    gs_ptx_fact *numbers;               /* of registers that have one value: see ptx_replay.c */
    uint32_t *numbers_of_blocks;        /* see ptx_iterations.c */
    uint32_t head;                      /* the block at which an iteration begins */
    bool *within;                       /* blocks of the loop */
    bool joins;                         /* plain loads may find what other threads of the block write meanwhile, */
    bool synchronizes;                  /* and what other blocks write */
    bool *wanted;                       /* registers on which its ends depend, */
    bool *wanted_places;                /* variables of shared and local memory, */
    GS_PTX_LIST_OF(uint64_t) words;     /* and single words of them: variable << 32 | offset; */
    bool wants_memory, wants_unknown;   /* any of these; one that is not known */
    bool wants_results;                 /* results of calls, */
    bool wants_carry;                   /* and the carry of additions */
    bool *wanted_statements;            /* what a single statement writes: a register, or memory */
    uint8_t *steadiness;                /* two of each register; see gs_ptx_is_steady */
    GS_PTX_LIST_OF(uint32_t) decisions; /* branches that decide about a block, by block */
    uint32_t *decision_first;           /* of each block, and one more */
    bool *reached;                      /* blocks: for one search at a time */
    uint8_t *outlooks;                  /* of gs_ptx_loop_decide, */
    uint64_t effort;                    /* and how much it has done so far */
} gs_ptx_loop;

/* ---- ptx_iterations.c ---- */

/* The caller frees it, also after a failure. */
gs_code gs_ptx_loop_init(gs_ptx_loop *loop, const gs_ptx_kernel *kernel, gs_error *error);
void gs_ptx_loop_free(gs_ptx_loop *loop);
/* Whether an edge from one block to another leads back: each loop has such an edge, to its head. */
bool gs_ptx_leads_back(const gs_ptx_loop *loop, uint32_t from, uint32_t to);
/* Finds the blocks of the loop that begins at `head`. False: not a loop. */
bool gs_ptx_loop_collect(gs_ptx_loop *loop, uint32_t head);
/* Finds the decisions. GS_E_REFUSED: that would take too long. */
gs_code gs_ptx_loop_decide(gs_ptx_loop *loop, gs_error *error);
/* Whether a block has a successor outside of the loop. */
bool gs_ptx_loop_ends_at(const gs_ptx_loop *loop, uint32_t block);
/* A successor of a block: a block, the block count for the exit, or GS_PTX_NONE. */
uint32_t gs_ptx_successor(const gs_ptx_flow *flow, uint32_t block, uint32_t index);
uint32_t gs_ptx_successor_count(const gs_ptx_flow *flow, uint32_t block);
/* Whether a statement reads global memory that may change meanwhile, */
bool gs_ptx_reads_changing(const gs_ptx_loop *loop, const gs_ptx_statement *statement);
/* and does so anew each time: no compiler moves it out of the loop. */
bool gs_ptx_reads_anew(const gs_ptx_loop *loop, const gs_ptx_statement *statement);
/* Whether a statement runs in each iteration that does not leave the loop. */
bool gs_ptx_runs_always(const gs_ptx_loop *loop, const gs_ptx_statement *statement);

/* The place of a statement among those of its function. */
static inline size_t gs_ptx_place_of(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    const gs_ptx_kernel *kernel = loop->kernel;
    return gs_ptx_number_of(kernel, statement) - kernel->module->functions.data[kernel->function].statements;
}

static inline const gs_ptx_access *gs_ptx_access_of(const gs_ptx_loop *loop, const gs_ptx_statement *statement) {
    return &loop->accesses[gs_ptx_place_of(loop, statement)];
}

/* ---- ptx_indices.c ---- */

/* Where the bytes that a store writes end at most, counted from the beginning of its variable; GS_PTX_NONE: not known.
 */
uint32_t gs_ptx_end_of_store(const gs_ptx_kernel *kernel, const gs_ptx_statement *store);

/* ---- ptx_writers.c ---- */

/* Whether functions that the kernel calls may write global memory. */
bool gs_ptx_calls_writers(const gs_ptx_kernel *kernel);
/* Whether an atomic operation changes nothing: an addition of 0. */
bool gs_ptx_only_reads(const gs_ptx_kernel *kernel, const gs_ptx_statement *statement);
/* The next statement after `*at`, which begins as GS_PTX_NONE, that may write the word that `read` reads, itself
   included; NULL: no other. */
const gs_ptx_statement *gs_ptx_next_writer(const gs_ptx_loop *loop, const gs_ptx_statement *read, uint32_t *at);
/* The same for those that may write it through another pointer, whether these are needed to end a wait or not. */
const gs_ptx_statement *gs_ptx_next_alias(const gs_ptx_loop *loop, const gs_ptx_statement *read, uint32_t *at);
/* Whether a statement may write the word that another one reads. */
bool gs_ptx_may_meet(const gs_ptx_loop *loop, const gs_ptx_statement *read, const gs_ptx_statement *write);
/* Whether two statements of a thread access the same word, with the same size: the address of the second is not
   computed anew between. */
bool gs_ptx_is_same_word(const gs_ptx_loop *loop, const gs_ptx_statement *first, const gs_ptx_statement *then);
/* The same, as long as the thread does not leave the loop. */
bool gs_ptx_is_same_word_within(const gs_ptx_loop *loop, const gs_ptx_statement *first, const gs_ptx_statement *then);
/* The operand that an operand is a copy of. */
const gs_ptx_operand *gs_ptx_original(const gs_ptx_kernel *kernel, const gs_ptx_operand *operand);

/* ---- ptx_steady.c ---- */

/* Whether the loop computes an operand again from values that it does not change. */
bool gs_ptx_is_steady(const gs_ptx_loop *loop, const gs_ptx_operand *operand);
/* The same, and of what it loads neither the loop changes anything, nor the kernel what is read anew. */
bool gs_ptx_is_kept(const gs_ptx_loop *loop, const gs_ptx_operand *operand);

/* ---- ptx_replay.c ---- */

/* A statement whose result is assumed. */
typedef struct gs_ptx_given {
    const gs_ptx_statement *statement;
    gs_ptx_fact result;
} gs_ptx_given;

/* Whether a loop may begin another iteration after `start`, if the results of these statements are as given, or stay in
   a loop inside of it. `same`: an operand that is then SAME, or NULL. */
bool gs_ptx_may_return(const gs_ptx_loop *loop, const gs_ptx_statement *start, const gs_ptx_given *given, int count,
                       const gs_ptx_operand *same);
/* Whether `start` may run again before the loop ends, in this iteration or a later one. */
bool gs_ptx_may_run_again(const gs_ptx_loop *loop, const gs_ptx_statement *start, const gs_ptx_given *given, int count);
/* Whether it may end after `start`, in this iteration or a later one. */
bool gs_ptx_may_leave(const gs_ptx_loop *loop, const gs_ptx_statement *start, const gs_ptx_given *given, int count,
                      const gs_ptx_operand *same);
/* Whether the kernel may come to a statement, if the results of these statements are as given. */
bool gs_ptx_may_run(const gs_ptx_loop *loop, const gs_ptx_statement *target, const gs_ptx_given *given, int count);
/* Whether a thread may come to the block of `target` after it has run `start`, which is in another block. */
bool gs_ptx_may_reach(const gs_ptx_loop *loop, const gs_ptx_statement *start, const gs_ptx_statement *target,
                      const gs_ptx_given *given, int count);

/* ---- ptx_progress.c ---- */

/* A read of global memory that decides whether a loop goes on. */
typedef struct gs_ptx_poll {
    const gs_ptx_loop *loop;
    const gs_ptx_statement *read;
    const gs_ptx_statement *in_way; /* the first write that no rule covers, or NULL */
    gs_linear_order order;          /* what the grid must be like, if the wait is for lower blocks, */
    uint32_t most_blocks;           /* and how many it may have */
    bool awaits_lower;              /* it may be for a block with a lower number, */
    bool awaits_begun;   /* or for one that has begun, whatever its number: with a lower ticket, or a lock; */
    bool awaits_outside; /* or only for the host or another kernel, which may wait for blocks that have begun */
} gs_ptx_poll;

/* Whether the loop counts, and ends because of that. */
bool gs_ptx_loop_counts(const gs_ptx_loop *loop);
/* Whether the poll is one of those that are known to need no block that has not begun. */
bool gs_ptx_poll_is_safe(gs_ptx_poll *poll);

#endif
